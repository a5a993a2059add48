/* What every C test uses: claims that name their place, and one pool and container to work in. */
#ifndef HARNESS_H
#define HARNESS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <daos.h>

struct test {
	const char *name;
	void (*run)(void);
};

/* A word as a key, or as part of a pipeline; it is not copied. */
static inline d_iov_t
text_iov(const char *word)
{
	d_iov_t iov;

	d_iov_set(&iov, (void *)word, strlen(word));
	return iov;
}

/* Ends the program with the place of the claim that does not hold. */
#define CHECK(claim)                                                                                                   \
	do {                                                                                                           \
		if (!(claim)) {                                                                                        \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                            \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

/* Ends the program unless a call returns what it should. */
#define GIVES(call, expected)                                                                                          \
	do {                                                                                                           \
		long long found_ = (long long)(call), wanted_ = (long long)(expected);                                 \
		if (found_ != wanted_) {                                                                               \
			fprintf(stderr, "%s:%d: %s gives %lld, not %lld\n", __FILE__, __LINE__, #call, found_,         \
				wanted_);                                                                              \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

#define OK(call) GIVES(call, 0)

/* Ends the program unless a function that has no error numbers says in its own way that it could not. */
#define FAILS(call, as) CHECK((call) == (as))

/* A handle that no call has given out. */
#define NO_HANDLE ((daos_handle_t){0x123456789abcdef7ULL})

static daos_handle_t poh, coh;

/* The pool of every test, and a container in it. */
static inline void
open_all(void)
{
	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_cont_create_with_label(poh, "cont", NULL, NULL, NULL));
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW, &coh, NULL, NULL));
}

static inline void
close_all(void)
{
	OK(daos_cont_close(coh, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

/* Runs the test that is named, or tells their names. */
static inline int
run_tests(int argc, char **argv, const struct test *tests, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (argc < 2) {
			printf("%s\n", tests[i].name);
		} else if (strcmp(argv[1], tests[i].name) == 0) {
			tests[i].run();
			printf("ok %s\n", tests[i].name);
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}

#define TEST(name) {#name, name}
#define TESTS(...)                                                                                                     \
	int main(int argc, char **argv)                                                                                \
	{                                                                                                              \
		const struct test tests[] = {__VA_ARGS__};                                                             \
		return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));                                 \
	}

#endif /* HARNESS_H */
