/* A daemon that stands still while operations are launched, and goes on when all are. */
#ifndef STILL_H
#define STILL_H

#include <dirent.h>
#include <signal.h>
#include "harness.h"

#define EVENTS 32

static daos_handle_t eq;
static daos_event_t  evs[EVENTS];
static int           launched;
static pid_t         daemon_pid;

/* A queue and its events; whose daemon it is, if there is one. */
static inline void
begin_events(void)
{
	char *pid = getenv("DAEMON_PID");
	int   i;

	OK(daos_eq_create(&eq));
	for (i = 0; i < EVENTS; i++)
		OK(daos_event_init(&evs[i], eq, NULL));
	daemon_pid = pid == NULL ? 0 : atoi(pid);
}

/* Whether a thread of the daemon still runs. */
static inline bool
is_running(void)
{
	char           path[300], state = 0;
	struct dirent *entry;
	DIR           *tasks;
	FILE          *stat;
	bool           running = false;

	snprintf(path, sizeof(path), "/proc/%d/task", daemon_pid);
	tasks = opendir(path);
	CHECK(tasks != NULL);
	while ((entry = readdir(tasks)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", daemon_pid, entry->d_name);
		stat = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (stat == NULL)
			continue;
		/* One that has just ended says nothing; the next look does not find it. */
		running |= fscanf(stat, "%*d (%*[^)]) %c", &state) != 1 || state != 'T';
		fclose(stat);
	}
	closedir(tasks);
	return running;
}

/* From here on nobody answers, if there is a daemon: what waits would wait for ever. */
static inline void
stand_still(void)
{
	launched = 0;
	if (daemon_pid == 0)
		return;
	CHECK(kill(daemon_pid, SIGSTOP) == 0);
	while (is_running())
		;
}

static inline daos_event_t *
next(void)
{
	return &evs[launched++];
}

/* Claims that all that was launched is under way still, lets the daemon go on, and waits. */
static inline void
finish(void)
{
	daos_event_t *done[EVENTS];
	int           seen = 0, found;

	GIVES(daos_eq_query(eq, DAOS_EQR_WAITING, 0, NULL), launched);
	if (daemon_pid > 0) {
		GIVES(daos_eq_poll(eq, 1, DAOS_EQ_NOWAIT, EVENTS, done), 0);
		CHECK(kill(daemon_pid, SIGCONT) == 0);
	}
	while (seen < launched) {
		found = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, EVENTS, done);
		CHECK(found > 0);
		seen += found;
	}
	GIVES(daos_eq_query(eq, DAOS_EQR_ALL, 0, NULL), 0);
}

/* Ends what was launched look by look: between looks the daemon answers, be it only what `ask` asks, and stands still while
 * somebody looks. No look waits. The events come in the order in which they have ended. */
static inline void
finish_look_by_look(void (*ask)(void), daos_event_t **ended)
{
	int seen = 0, found;

	while (seen < launched) {
		if (daemon_pid > 0)
			CHECK(kill(daemon_pid, SIGCONT) == 0);
		ask();
		if (daemon_pid > 0) {
			CHECK(kill(daemon_pid, SIGSTOP) == 0);
			while (is_running())
				;
		}
		found = daos_eq_poll(eq, 1, DAOS_EQ_NOWAIT, EVENTS, &ended[seen]);
		CHECK(found >= 0);
		seen += found;
	}
	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
}

static inline void
all_well(void)
{
	int i;

	for (i = 0; i < launched; i++)
		GIVES(evs[i].ev_error, 0);
}

#endif /* STILL_H */
