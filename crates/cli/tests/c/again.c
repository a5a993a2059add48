/* A program whose daemon, which was started on demand, is killed between two operations: it goes on with the next one. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include "kv.h"

/* The process that owns the system; 0 if none does. */
static pid_t
owner(void)
{
	char  path[4096];
	FILE *file;
	int   pid = 0;

	snprintf(path, sizeof(path), "%s/dolmen/default/.owner", getenv("XDG_DATA_HOME"));
	file = fopen(path, "r");
	CHECK(file != NULL);
	if (fscanf(file, "%d", &pid) != 1)
		pid = 0;
	fclose(file);
	return pid;
}

/* Kills the daemon, and waits until it is gone; which one that was. */
static pid_t
kill_daemon(void)
{
	struct timespec rest = {.tv_nsec = 1000000};
	pid_t           pid = owner();

	CHECK(pid > 1 && kill(pid, SIGKILL) == 0);
	while (kill(pid, 0) == 0)
		nanosleep(&rest, NULL);
	CHECK(errno == ESRCH);
	return pid;
}

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* What other processes do. */
static int
other(const char *what)
{
	open_again();
	expect("acknowledged", "before");
	put(what, "other");
	OK(daos_kv_close(kv, NULL));
	close_all();
	return 0;
}

static void
run_other(const char *program, const char *what)
{
	pid_t child = fork();
	int   status;

	CHECK(child >= 0);
	if (child == 0) {
		execl(program, program, what, (char *)NULL);
		_exit(9);
	}
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	expect(what, "other");
}

/* Puts with an event, and polls without waiting; the longest that one look took. */
static double
put_later(const char *key, const char *value)
{
	daos_handle_t eq;
	daos_event_t  ev, *done = NULL;
	double        begun, took, longest = 0;
	int           found;

	OK(daos_eq_create(&eq));
	OK(daos_event_init(&ev, eq, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, key, strlen(value), value, &ev));
	do {
		begun = seconds();
		found = daos_eq_poll(eq, 1, DAOS_EQ_NOWAIT, 1, &done);
		took = seconds() - begun;
		longest = took > longest ? took : longest;
		CHECK(found >= 0);
	} while (found == 0);
	OK(ev.ev_error);
	OK(daos_event_fini(&ev));
	OK(daos_eq_destroy(eq, 0));
	return longest;
}

static void
be_child(void)
{
	alarm(SECONDS_MAX);
	kill_daemon();
	OK(daos_reinit());
	expect("acknowledged", "before");
	put("child", "forked");
	_exit(0);
}

int
main(int argc, char **argv)
{
	daos_handle_t pool;
	double        begun, longest;
	pid_t         daemon, child;
	int           status;

	alarm(SECONDS_MAX);
	if (argc > 1)
		return other(argv[1]);
	open_all();
	open_kv();
	put("acknowledged", "before");

	/* The same handles go on, and others find the daemon that this process has had started. */
	daemon = kill_daemon();
	begun = seconds();
	put("waits", "after");
	CHECK(seconds() - begun < 20);
	CHECK(owner() != daemon && owner() > 1);
	daemon = owner();
	expect("acknowledged", "before");
	run_other(argv[0], "second");
	GIVES(owner(), daemon);

	/* So does who polls and never waits. */
	daemon = kill_daemon();
	longest = put_later("polls", "after");
	expect("polls", "after");
	CHECK(owner() != daemon);

	/* And who connects. */
	daemon = kill_daemon();
	begun = seconds();
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &pool, NULL, NULL));
	CHECK(seconds() - begun < 20);
	OK(daos_pool_disconnect(pool, NULL));
	CHECK(owner() != daemon);
	expect("acknowledged", "before");

	/* And a forked child, and its parent by the child's daemon. */
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		be_child();
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	daemon = owner();
	expect("child", "forked");
	GIVES(owner(), daemon);

	/* A daemon that another process has had started is taken. */
	kill_daemon();
	run_other(argv[0], "third");
	daemon = owner();
	put("last", "after");
	GIVES(owner(), daemon);
	expect("acknowledged", "before");
	OK(daos_kv_close(kv, NULL));
	close_all();
	printf("ok again, the longest look took %.6f s\n", longest);
	return 0;
}
