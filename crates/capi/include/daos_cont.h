/* Containers. */
#ifndef DAOS_CONT_H
#define DAOS_CONT_H

#include <daos_types.h>
#include <daos_prop.h>
#include <daos_security.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* How a container is opened. */
#define DAOS_COO_RO         (1U << 0)
#define DAOS_COO_RW         (1U << 1)
#define DAOS_COO_EX         (1U << 2)
#define DAOS_COO_FORCE      (1U << 3)
/* Taken, and without effect: each opening is noted. */
#define DAOS_COO_RO_MDSTATS (1U << 4)
#define DAOS_COO_EVICT      (1U << 5)
#define DAOS_COO_EVICT_ALL  (1U << 6)
#define DAOS_COO_NEW_LAYOUT (1U << 7)
#define DAOS_COO_NBITS      8
#define DAOS_COO_MASK       ((1U << DAOS_COO_NBITS) - 1)

/* Room for the name of a snapshot with its zero. */
#define DAOS_SNAPSHOT_MAX_LEN 128

enum daos_snapshot_opts {
	DAOS_SNAP_OPT_CR  = (1 << 0),
	DAOS_SNAP_OPT_OIT = (1 << 1),
};

int daos_cont_local2global(daos_handle_t coh, d_iov_t *glob);
int daos_cont_global2local(daos_handle_t poh, d_iov_t glob, daos_handle_t *coh);

#define daos_cont_create daos_cont_create2
int daos_cont_create(daos_handle_t poh, uuid_t *uuid, daos_prop_t *cont_prop, daos_event_t *ev);
int daos_cont_create_with_label(daos_handle_t poh, const char *label, daos_prop_t *cont_prop, uuid_t *uuid,
				daos_event_t *ev);

/* By label or by the text of its UUID. */
#define daos_cont_open daos_cont_open2
int daos_cont_open(daos_handle_t poh, const char *cont, unsigned int flags, daos_handle_t *coh,
		   daos_cont_info_t *info, daos_event_t *ev);
/*
 * Closing is no error while objects of the container are open or operations are under way: these go on in the same pool, and
 * the last of them gives the container back. The handle itself, and daos_cont_query on it, end at once.
 */
int daos_cont_close(daos_handle_t coh, daos_event_t *ev);

#define daos_cont_destroy daos_cont_destroy2
int daos_cont_destroy(daos_handle_t poh, const char *cont, int force, daos_event_t *ev);

/* With an empty list all properties are told. */
int daos_cont_query(daos_handle_t coh, daos_cont_info_t *info, daos_prop_t *cont_prop, daos_event_t *ev);
int daos_cont_set_prop(daos_handle_t coh, daos_prop_t *prop, daos_event_t *ev);
int daos_cont_status_clear(daos_handle_t coh, daos_event_t *ev);

int daos_cont_get_acl(daos_handle_t coh, daos_prop_t **acl_prop, daos_event_t *ev);
int daos_cont_overwrite_acl(daos_handle_t coh, struct daos_acl *acl, daos_event_t *ev);
int daos_cont_update_acl(daos_handle_t coh, struct daos_acl *acl, daos_event_t *ev);
int daos_cont_delete_acl(daos_handle_t coh, enum daos_acl_principal_type type, d_string_t name,
			 daos_event_t *ev);
int daos_cont_set_owner(daos_handle_t coh, d_string_t user, d_string_t group, daos_event_t *ev);
int daos_cont_set_owner_no_check(daos_handle_t coh, d_string_t user, d_string_t group, daos_event_t *ev);

/* Names one after the other, each with its zero; *size becomes the room that all need. */
int daos_cont_list_attr(daos_handle_t coh, char *buffer, size_t *size, daos_event_t *ev);
int daos_cont_get_attr(daos_handle_t coh, int n, char const *const names[], void *const buffers[],
		       size_t sizes[], daos_event_t *ev);
int daos_cont_set_attr(daos_handle_t coh, int n, char const *const names[], void const *const values[],
		       size_t const sizes[], daos_event_t *ev);
int daos_cont_del_attr(daos_handle_t coh, int n, char const *const names[], daos_event_t *ev);

/* The first of so many numbers for object ids. */
int daos_cont_alloc_oids(daos_handle_t coh, daos_size_t num_oids, uint64_t *oid, daos_event_t *ev);

int daos_cont_aggregate(daos_handle_t coh, daos_epoch_t epoch, daos_event_t *ev);

/* Returns the container to a snapshot. */
int daos_cont_rollback(daos_handle_t coh, daos_epoch_t epoch, daos_event_t *ev);

/* -DER_NOSYS, as in DAOS. */
int daos_cont_subscribe(daos_handle_t coh, daos_epoch_t *epoch, daos_event_t *ev);

int daos_cont_create_snap(daos_handle_t coh, daos_epoch_t *epoch, char *name, daos_event_t *ev);
int daos_cont_create_snap_opt(daos_handle_t coh, daos_epoch_t *epoch, char *name,
			      enum daos_snapshot_opts opts, daos_event_t *ev);

/* The next snapshots after the anchor; without epochs and names only *nr is told. */
int daos_cont_list_snap(daos_handle_t coh, int *nr, daos_epoch_t *epochs, char **names,
			daos_anchor_t *anchor, daos_event_t *ev);
int daos_cont_destroy_snap(daos_handle_t coh, daos_epoch_range_t epr, daos_event_t *ev);
int daos_cont_snap_oit_create(daos_handle_t coh, daos_epoch_t epoch, char *name, daos_event_t *ev);
int daos_cont_snap_oit_destroy(daos_handle_t coh, daos_handle_t oh, daos_event_t *ev);

/* What the list allows a user with these groups. */
int daos_cont_get_perms(daos_prop_t *cont_prop, uid_t uid, gid_t *gids, size_t nr_gids, uint64_t *perms);

/* "0,2-5" with any separator. */
d_rank_list_t *daos_rank_list_parse(const char *str, const char *sep);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_CONT_H */
