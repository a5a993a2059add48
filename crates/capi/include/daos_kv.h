/* Flat key-value stores. */
#ifndef DAOS_KV_H
#define DAOS_KV_H

#include <daos_types.h>
#include <daos_obj.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define DAOS_COND_KEY_INSERT DAOS_COND_DKEY_INSERT
#define DAOS_COND_KEY_UPDATE DAOS_COND_DKEY_UPDATE
#define DAOS_COND_KEY_GET    DAOS_COND_DKEY_FETCH
#define DAOS_COND_KEY_REMOVE DAOS_COND_PUNCH

int daos_kv_open(daos_handle_t coh, daos_obj_id_t oid, unsigned int mode, daos_handle_t *oh, daos_event_t *ev);
int daos_kv_close(daos_handle_t oh, daos_event_t *ev);
int daos_kv_destroy(daos_handle_t oh, daos_handle_t th, daos_event_t *ev);

int daos_kv_put(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char *key, daos_size_t size,
		const void *buf, daos_event_t *ev);

/* *size is the room in buf and becomes the length of the value: 0 if there is none. Without room only that is told. */
int daos_kv_get(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char *key, daos_size_t *size,
		void *buf, daos_event_t *ev);
int daos_kv_remove(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char *key, daos_event_t *ev);
int daos_kv_list(daos_handle_t oh, daos_handle_t th, uint32_t *nr, daos_key_desc_t *kds, d_sg_list_t *sgl,
		 daos_anchor_t *anchor, daos_event_t *ev);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_KV_H */
