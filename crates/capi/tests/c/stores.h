/* An array, an object and a key-value store, and operations on them that are under way until somebody polls. */
#ifndef STORES_H
#define STORES_H

#include "still.h"

#define RECORDS 40
#define CHUNK   8

static daos_handle_t    ah, oh, kv;
static d_iov_t          iovs[3];
static d_sg_list_t      sgl = {.sg_nr = 1, .sg_iovs = iovs};
static daos_range_t     range;
static daos_array_iod_t iod = {.arr_nr = 1, .arr_rgs = &range};

static inline void
begin(void)
{
	daos_obj_id_t array = {.lo = 4}, object = {.lo = 5}, store = {.lo = 6};

	open_all();
	OK(daos_array_generate_oid(coh, &array, true, OC_SX, 0, 0));
	OK(daos_array_create(coh, array, DAOS_TX_NONE, 4, CHUNK, &ah, NULL));
	OK(daos_obj_generate_oid(coh, &object, DAOS_OT_MULTI_UINT64, OC_SX, 0, 0));
	OK(daos_obj_open(coh, object, DAOS_OO_RW, &oh, NULL));
	OK(daos_obj_generate_oid(coh, &store, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, store, DAOS_OO_RW, &kv, NULL));
	begin_events();
}

static inline void
end(void)
{
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	OK(daos_array_close(ah, NULL));
	OK(daos_obj_close(oh, NULL));
	OK(daos_kv_close(kv, NULL));
	close_all();
}

static inline daos_array_iod_t *
records(uint64_t index, uint64_t count)
{
	range.rg_idx = index;
	range.rg_len = count;
	return &iod;
}

static inline d_sg_list_t *
buffer(void *memory, size_t bytes)
{
	sgl.sg_nr = 1;
	d_iov_set(&iovs[0], memory, bytes);
	return &sgl;
}

static inline void
put(uint64_t dkey, uint64_t akey, daos_handle_t th)
{
	daos_key_t  d;
	daos_recx_t recx = {.rx_idx = akey, .rx_nr = 1};
	daos_iod_t  one  = {.iod_type = DAOS_IOD_ARRAY, .iod_nr = 1, .iod_size = 8, .iod_recxs = &recx};

	d_iov_set(&d, &dkey, sizeof(dkey));
	d_iov_set(&one.iod_name, &akey, sizeof(akey));
	OK(daos_obj_update(oh, th, 0, &d, 1, &one, buffer(&akey, sizeof(akey)), NULL));
}

#endif /* STORES_H */
