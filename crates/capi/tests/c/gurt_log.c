/* What programs look at that were compiled with the original headers: the data stand here, not in our headers. */
#define _GNU_SOURCE
#include "harness.h"
#include <gurt/common.h>

struct facility;

extern struct {
	char            *tag;
	struct facility *facs;
	char            *node;
	int              count;
} d_log_xst;
extern int          d_misc_logfac;
extern int          d_misc_logfac_cache[];
extern unsigned int d_fault_inject;
extern void        *d_fault_attr_mem;
extern void (*d_alt_assert)(const int result, const char *text, const char *file, const int line);

#define FACILITIES(X)                                                                                                  \
	X(bio) X(chk) X(client) X(common) X(container) X(csum) X(dfs) X(dfuse) X(drpc) X(dtx) X(duns) X(il) X(mgmt)    \
	X(object) X(pipeline) X(placement) X(pool) X(rdb) X(rebuild) X(rsvc) X(security) X(server) X(stack) X(tests)   \
	X(tree) X(vos)
#define DECLARED(name)                                                                                                 \
	extern int daos_##name##_logfac;                                                                               \
	extern int daos_##name##_logfac_cache[];
FACILITIES(DECLARED)
#define SILENT(name) CHECK(daos_##name##_logfac == 0 && daos_##name##_logfac_cache[0] == 0 && daos_##name##_logfac_cache[31] == 0);

static void
say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	d_vlog(1, format, arguments);
	va_end(arguments);
}

static int asserted;

static void
note(const int result, const char *text, const char *file, const int line)
{
	CHECK(result == 0 && text != NULL && file != NULL && line > 0);
	asserted++;
}

static void
no_log_is_open_and_no_fault_is_made(void)
{
	int i;

	CHECK(d_log_xst.tag == NULL && d_log_xst.facs == NULL && d_log_xst.count == 0);
	CHECK(d_misc_logfac == 0);
	for (i = 0; i < 32; i++)
		CHECK(d_misc_logfac_cache[i] == 0);
	FACILITIES(SILENT)
	CHECK(d_fault_inject == 0 && d_fault_attr_mem == NULL && d_alt_assert == NULL);
	/* They are the program's to change. */
	d_alt_assert = note;
	d_alt_assert(0, "1 == 2", __FILE__, __LINE__);
	GIVES(asserted, 1);
	d_fault_inject = 1;
	CHECK(d_fault_inject == 1);
	CHECK(!d_should_fail(NULL));
}

static void
messages_go_to_the_error_stream(void)
{
	static char text[8192];
	char        found[8192] = {0};
	int         pipes[2], old = dup(2), out = dup(1);

	memset(text, 'x', sizeof(text) - 1);
	CHECK(pipe(pipes) == 0 && dup2(pipes[1], 2) == 2);
	say("%d stones of %s\n", 7, "granite");
	CHECK(dup2(old, 2) == 2);
	GIVES(read(pipes[0], found, sizeof(found)), 20);
	CHECK(strcmp(found, "7 stones of granite\n") == 0);
	/* Long ones are cut, and nothing is no message. */
	CHECK(dup2(pipes[1], 2) == 2);
	say("%s", text);
	CHECK(dup2(old, 2) == 2);
	GIVES(read(pipes[0], found, sizeof(found)), 4095);
	say(NULL);
	/* What a stream has kept so far comes with a sync. */
	CHECK(dup2(pipes[1], 1) == 1);
	D_PRINT("stone");
	d_log_sync();
	CHECK(dup2(out, 1) == 1);
	GIVES(read(pipes[0], found, sizeof(found)), 5);
	CHECK(memcmp(found, "stone", 5) == 0);
}

TESTS(TEST(no_log_is_open_and_no_fault_is_made), TEST(messages_go_to_the_error_stream))
