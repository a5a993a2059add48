/* Transactions, anchors, clocks. */
#ifndef DAOS_API_H
#define DAOS_API_H

#include <time.h>
#include <daos_types.h>
#include <daos_pool.h>
#include <daos_cont.h>
#include <daos_obj.h>
#include <daos_array.h>
#include <daos_kv.h>
#include <daos_prop.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* A transaction that only reads. */
enum {
	DAOS_TF_RDONLY    = (1 << 0),
	DAOS_TF_ZERO_COPY = (1 << 1),
};

/* Makes an anchor ready for a listing from its beginning. */
static inline int
daos_anchor_init(daos_anchor_t *anchor, unsigned int opts)
{
	(void)opts;
	memset(anchor, 0, sizeof(*anchor));
	return 0;
}

static inline void
daos_anchor_fini(daos_anchor_t *anchor)
{
	(void)anchor;
}

static inline bool
daos_anchor_is_eof(daos_anchor_t *anchor)
{
	return anchor->da_type == DAOS_ANCHOR_TYPE_EOF;
}

int daos_tx_open(daos_handle_t coh, daos_handle_t *th, uint64_t flags, daos_event_t *ev);

/*
 * All that a transaction has written appears, or nothing. What goes to one target is one record of the log there: one that is
 * larger than a segment of that (4 MiB unless the pool was made otherwise, less where a target has less than 128 MiB; values
 * that are kept beside the log do not count) is refused with -DER_REC2BIG, and nothing is written. The transaction is open
 * still then, to be begun anew or aborted. After -DER_TX_UNCERTAIN and -DER_UNREACH it is not known whether it is committed:
 * committing again asks again, and who begins it anew may do it twice.
 */
int daos_tx_commit(daos_handle_t th, daos_event_t *ev);

/* Reads at a snapshot. */
int daos_tx_open_snap(daos_handle_t coh, daos_epoch_t epoch, daos_handle_t *th, daos_event_t *ev);
int daos_tx_abort(daos_handle_t th, daos_event_t *ev);
int daos_tx_close(daos_handle_t th, daos_event_t *ev);

/* Begins a transaction anew after -DER_TX_RESTART. */
int daos_tx_restart(daos_handle_t th, daos_event_t *ev);
int daos_tx_hdl2epoch(daos_handle_t th, daos_epoch_t *epoch);

/* The time of an epoch. Strict C99 knows no such struct. */
struct timespec;
int daos_hlc2timespec(uint64_t hlc, struct timespec *ts);
int daos_hlc2timestamp(uint64_t hlc, time_t *ts);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_API_H */
