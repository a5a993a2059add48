/* Systems. */
#ifndef DAOS_MGMT_H
#define DAOS_MGMT_H

#include <daos_types.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* A pool of a system; label and ranks of the service are freed by the caller. */
typedef struct {
	uuid_t         mgpi_uuid;
	d_string_t     mgpi_label;
	d_rank_list_t *mgpi_svc;
	d_rank_t       mgpi_ldr;
} daos_mgmt_pool_info_t;

int daos_mgmt_get_sys_info(const char *sys, struct daos_sys_info **info);
void daos_mgmt_put_sys_info(struct daos_sys_info *info);

/* *npools is the room in pools and becomes the number of pools; without pools only that is told. */
int daos_mgmt_list_pools(const char *group, daos_size_t *npools, daos_mgmt_pool_info_t *pools,
			 daos_event_t *ev);

/* These are -DER_NOSYS. */
int daos_debug_add_mark(const char *mark);
int daos_mgmt_get_bs_state(const char *group, uuid_t blobstore_uuid, int *blobstore_state, daos_event_t *ev);
int daos_pool_stop_svc(daos_handle_t poh, daos_event_t *ev);
int daos_debug_set_params(const char *group, d_rank_t rank, unsigned int key_id, uint64_t value,
			  uint64_t value_extra, daos_event_t *ev);

/* The version of what serves; *tag is freed by the caller. */
int dc_mgmt_srv_version(uint32_t *major, uint32_t *minor, uint32_t *patch, char **tag);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_MGMT_H */
