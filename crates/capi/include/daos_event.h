/* Events and event queues. */
#ifndef DAOS_EVENT_H
#define DAOS_EVENT_H

#include <daos_types.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Makes a queue on which events complete. */
int daos_eq_create(daos_handle_t *eqh);

/*
 * Gives a queue up. -DER_BUSY if it has events under way or completed, unless flags say DAOS_EQ_DESTROY_FORCE: those under way
 * end then, with -DER_CANCELED if nothing is answered for a second, and nothing writes to the memory of any afterwards. What
 * was asked for may be carried out nevertheless.
 */
int daos_eq_destroy(daos_handle_t eqh, int flags);

/*
 * Waits up to so many microseconds (DAOS_EQ_NOWAIT, DAOS_EQ_WAIT) for completed events and takes them off the queue.
 * With wait_running, returns at once if none is under way. Returns how many, or an error.
 */
int daos_eq_poll(daos_handle_t eqh, int wait_running, int64_t timeout, unsigned int nevents,
		 struct daos_event **events);

/* Counts (and, for n > 0, tells) the events of a queue that are completed, under way, or both. */
int daos_eq_query(daos_handle_t eqh, daos_eq_query_t query, unsigned int nevents,
		  struct daos_event **events);

/* Makes an event: on a queue, or (eqh invalid) on none; below a parent, or not. */
int daos_event_init(struct daos_event *ev, daos_handle_t eqh, struct daos_event *parent);

/*
 * Ends an event, and with it its children: they are events no more, and may be made anew. -DER_BUSY while it or one of them
 * is under way. -DER_INVAL for a child whose parent is launched.
 */
int daos_event_fini(struct daos_event *ev);

/* The child after *child, or the first for NULL; NULL after the last. */
int daos_event_next(struct daos_event *parent, struct daos_event **child);

/* Waits up to so many microseconds for one event and tells whether it has completed. */
int daos_event_test(struct daos_event *ev, int64_t timeout, bool *flag);

/* Launches a parent as the group of its children. */
int daos_event_parent_barrier(struct daos_event *ev);

/* Called when the event completes; what it returns becomes the event's error if the operation had none. */
typedef int (*daos_event_comp_cb_t)(void *arg, daos_event_t *ev, int ret);

int daos_event_register_comp_cb(struct daos_event *ev, daos_event_comp_cb_t cb, void *arg);

/* Does nothing: what is under way completes. */
int daos_event_abort(struct daos_event *ev);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_EVENT_H */
