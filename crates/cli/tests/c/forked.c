/* A program with threads that forks, and starts other programs, while its threads write. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include "kv.h"

#define THREADS 3
#define CHILDREN 24
/* Of so many children one starts another program. */
#define PROGRAM_EVERY 4

static atomic_bool   over;
static atomic_long   written;

/* Writes, and opens and closes, so that every table is in use when the process forks. */
static void *
write_on(void *arg)
{
	daos_handle_t pool, cont;
	char          key[32];

	snprintf(key, sizeof(key), "thread%ld", (long)(intptr_t)arg);
	while (!atomic_load(&over)) {
		put(key, "busy");
		OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &pool, NULL, NULL));
		OK(daos_cont_open(pool, "cont", DAOS_COO_RW, &cont, NULL, NULL));
		OK(daos_cont_close(cont, NULL));
		OK(daos_pool_disconnect(pool, NULL));
		atomic_fetch_add(&written, 1);
	}
	return NULL;
}

/* What the program does that a child starts in its own place. */
static int
started(const char *number)
{
	char key[32];

	open_again();
	expect("parent", "here");
	snprintf(key, sizeof(key), "child%s", number);
	put(key, number);
	OK(daos_kv_close(kv, NULL));
	close_all();
	return 0;
}

static void
be_child(char **argv, int number)
{
	char key[32], value[32];

	alarm(SECONDS_MAX);
	snprintf(value, sizeof(value), "%d", number);
	if (number % PROGRAM_EVERY == 0) {
		execl(argv[0], argv[0], value, (char *)NULL);
		_exit(9);
	}
	GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "x", NULL), -DER_NO_HDL);
	if (number % 2 == 0) {
		OK(daos_reinit());
	} else {
		/* As one that knows nothing of its parent. */
		open_again();
	}
	expect("parent", "here");
	snprintf(key, sizeof(key), "child%d", number);
	put(key, value);
	_exit(0);
}

int
main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	pid_t     children[CHILDREN];
	char      key[32], value[32];
	long      i;
	int       status;

	alarm(SECONDS_MAX);
	if (argc > 1)
		return started(argv[1]);
	open_all();
	open_kv();
	put("parent", "here");
	for (i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, write_on, (void *)i) == 0);
	while (atomic_load(&written) < THREADS)
		sched_yield();
	for (i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0)
			be_child(argv, (int)i);
		put("parent", "here");
	}
	for (i = 0; i < CHILDREN; i++) {
		CHECK(waitpid(children[i], &status, 0) == children[i]);
		if (status != 0)
			fprintf(stderr, "child %ld ended with %#x\n", i, status);
		GIVES(status, 0);
	}
	atomic_store(&over, true);
	for (i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (i = 0; i < CHILDREN; i++) {
		snprintf(key, sizeof(key), "child%ld", i);
		snprintf(value, sizeof(value), "%ld", i);
		expect(key, value);
	}
	OK(daos_kv_close(kv, NULL));
	close_all();
	printf("ok forked\n");
	return 0;
}
