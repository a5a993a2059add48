/* The calls of programs that store their data by DAOS, in their order and with their arguments. */
#include "harness.h"
#include <daos_uns.h>
#include <daos_fs.h>

#define PAGES 6

/* A cage of pages as ROOT writes and reads it: numbers as keys, one single value a page under several akeys, scattered over
 * the program's buffers; children are launched first, and their parent last. */
struct request {
	daos_event_t ev;
	uint64_t     dkey_number, akey_numbers[2];
	daos_key_t   dkey;
	daos_iod_t   iods[2];
	d_iov_t      iovs[2][3];
	d_sg_list_t  sgls[2];
	char         memory[2][48];
};

static void
describe(struct request *request, uint64_t dkey, daos_size_t size)
{
	int i, k;

	/* What ROOT does not set is whatever was there. */
	memset(request->iods, 0xaa, sizeof(request->iods));
	request->dkey_number = dkey;
	d_iov_set(&request->dkey, &request->dkey_number, sizeof(uint64_t));
	for (i = 0; i < 2; i++) {
		request->akey_numbers[i] = 7 + i;
		d_iov_set(&request->iods[i].iod_name, &request->akey_numbers[i], sizeof(uint64_t));
		request->iods[i].iod_nr    = 1;
		request->iods[i].iod_size  = size;
		request->iods[i].iod_recxs = NULL;
		request->iods[i].iod_type  = DAOS_IOD_SINGLE;
		for (k = 0; k < 3; k++)
			d_iov_set(&request->iovs[i][k], request->memory[i] + 16 * k, 16);
		request->sgls[i].sg_nr     = 3;
		request->sgls[i].sg_nr_out = 0;
		request->sgls[i].sg_iovs   = request->iovs[i];
	}
}

static void
root_writes_and_reads_its_cages(void)
{
	daos_handle_t  eq, oh;
	daos_event_t   parent;
	daos_obj_id_t  oid = {.lo = 1, .hi = 0};
	struct request requests[PAGES];
	bool           flag;
	int            i, is_read;

	open_all();
	OK(daos_eq_create(&eq));
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_UINT64, OC_RP_XSF, 0, 0));
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &oh, NULL));
	for (is_read = 0; is_read < 2; is_read++) {
		memset(&parent, 0, sizeof(parent));
		OK(daos_event_init(&parent, eq, NULL));
		for (i = 0; i < PAGES; i++) {
			struct request *request = &requests[i];

			memset(request->memory, is_read ? 0 : 'a' + i, sizeof(request->memory));
			describe(request, i / 2, sizeof(request->memory[0]));
			request->akey_numbers[0] += 10 * i;
			request->akey_numbers[1] += 10 * i;
			OK(daos_event_init(&request->ev, eq, &parent));
			if (is_read)
				OK(daos_obj_fetch(oh, DAOS_TX_NONE, DAOS_COND_DKEY_FETCH | DAOS_COND_AKEY_FETCH,
						  &request->dkey, 2, request->iods, request->sgls, NULL,
						  &request->ev));
			else
				OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &request->dkey, 2, request->iods,
						   request->sgls, &request->ev));
		}
		GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
		OK(daos_event_parent_barrier(&parent));
		OK(daos_event_test(&parent, DAOS_EQ_WAIT, &flag));
		CHECK(flag);
		OK(parent.ev_error);
		for (i = 0; i < PAGES; i++) {
			OK(requests[i].ev.ev_error);
			CHECK(requests[i].memory[1][47] == 'a' + i && requests[i].memory[0][0] == 'a' + i);
			OK(daos_event_fini(&requests[i].ev));
		}
		OK(daos_event_fini(&parent));
	}
	/* An anchor that nobody has written. */
	describe(&requests[0], 999, sizeof(requests[0].memory[0]));
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, DAOS_COND_DKEY_FETCH | DAOS_COND_AKEY_FETCH, &requests[0].dkey, 1,
			     requests[0].iods, requests[0].sgls, NULL, NULL),
	      -DER_NONEXIST);
	OK(daos_eq_destroy(eq, 0));
	OK(daos_obj_close(oh, NULL));
	close_all();
}

/* Copies what one dkey of an object holds, as mpifileutils does: for each akey it asks for the size of a single value, and
 * what has none is an array. */
static void
copy_akeys(daos_handle_t from, daos_handle_t to, daos_key_t *dkey)
{
	daos_anchor_t   anchor = DAOS_ANCHOR_INIT;
	daos_key_desc_t kds[5];
	char            names[64], *at;
	d_iov_t         list_iov;
	d_sg_list_t     list_sgl = {.sg_nr = 1, .sg_iovs = &list_iov};
	uint32_t        i, nr;

	while (!daos_anchor_is_eof(&anchor)) {
		nr = 5;
		d_iov_set(&list_iov, names, sizeof(names));
		OK(daos_obj_list_akey(from, DAOS_TX_NONE, dkey, &nr, kds, &list_sgl, &anchor, NULL));
		for (i = 0, at = names; i < nr; at += kds[i++].kd_key_len) {
			daos_iod_t         iod  = {.iod_nr = 1, .iod_type = DAOS_IOD_SINGLE, .iod_size = DAOS_REC_ANY};
			d_iov_t            iov;
			d_sg_list_t        sgl  = {.sg_nr = 1, .sg_iovs = &iov};
			daos_anchor_t      walk = DAOS_ANCHOR_INIT;
			daos_recx_t        recxs[2];
			daos_epoch_range_t eprs[2];
			char               value[64];
			daos_size_t        size;
			uint32_t           count, r;

			d_iov_set(&iod.iod_name, at, kds[i].kd_key_len);
			OK(daos_obj_fetch(from, DAOS_TX_NONE, 0, dkey, 1, &iod, NULL, NULL, NULL));
			if (iod.iod_size != 0) {
				d_iov_set(&iov, value, iod.iod_size);
				OK(daos_obj_fetch(from, DAOS_TX_NONE, 0, dkey, 1, &iod, &sgl, NULL, NULL));
				GIVES(sgl.sg_nr_out, 1);
				OK(daos_obj_update(to, DAOS_TX_NONE, 0, dkey, 1, &iod, &sgl, NULL));
				continue;
			}
			while (!daos_anchor_is_eof(&walk)) {
				count = 2;
				OK(daos_obj_list_recx(from, DAOS_TX_NONE, dkey, &iod.iod_name, &size, &count, recxs,
						      eprs, &walk, true, NULL));
				for (r = 0; r < count; r++) {
					iod.iod_type  = DAOS_IOD_ARRAY;
					iod.iod_size  = size;
					iod.iod_recxs = &recxs[r];
					d_iov_set(&iov, value, size * recxs[r].rx_nr);
					OK(daos_obj_fetch(from, DAOS_TX_NONE, 0, dkey, 1, &iod, &sgl, NULL, NULL));
					GIVES(sgl.sg_nr_out, 1);
					OK(daos_obj_update(to, DAOS_TX_NONE, 0, dkey, 1, &iod, &sgl, NULL));
				}
			}
		}
	}
}

static void
put_value(daos_handle_t oh, const char *dkey, const char *akey, daos_recx_t *recx, daos_size_t size, const char *value)
{
	daos_key_t  d   = text_iov(dkey);
	daos_iod_t  iod = {.iod_name = text_iov(akey), .iod_nr = 1, .iod_recxs = recx, .iod_size = size};
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	iod.iod_type = recx == NULL ? DAOS_IOD_SINGLE : DAOS_IOD_ARRAY;
	d_iov_set(&iov, (void *)value, strlen(value));
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL));
}

static void
check_value(daos_handle_t oh, const char *dkey, const char *akey, daos_recx_t *recx, daos_size_t size, const char *value)
{
	daos_key_t  d   = text_iov(dkey);
	daos_iod_t  iod = {.iod_name = text_iov(akey), .iod_nr = 1, .iod_recxs = recx, .iod_size = size};
	char        found[64];
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	iod.iod_type = recx == NULL ? DAOS_IOD_SINGLE : DAOS_IOD_ARRAY;
	d_iov_set(&iov, found, strlen(value));
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL, NULL));
	GIVES(iod.iod_size, size);
	CHECK(memcmp(found, value, strlen(value)) == 0);
}

static void
mpifileutils_copies_a_container(void)
{
	struct duns_attr_t path = {0};
	daos_handle_t      copied, oit, from, to;
	daos_anchor_t      anchor = DAOS_ANCHOR_INIT, dkeys;
	daos_obj_id_t      oid    = {.lo = 5}, oids[4];
	daos_epoch_t       epoch;
	daos_recx_t        low = {0, 4}, high = {1000, 2};
	uint32_t           objects, i, nr;
	uint64_t           count = 1;

	/* A pool as the place to copy to: a container is made there. */
	OK(duns_resolve_path("daos://pool", &path));
	CHECK(strcmp(path.da_pool, "pool") == 0 && path.da_cont[0] == 0);
	open_all();
	OK(daos_cont_create_with_label(poh, "copy", NULL, NULL, NULL));
	OK(daos_cont_open(poh, "copy", DAOS_COO_RW, &copied, NULL, NULL));
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, 0, 0, 0));
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &from, NULL));
	put_value(from, "d1", "single", NULL, 5, "stone");
	put_value(from, "d1", "array", &low, 2, "aabbccdd");
	put_value(from, "d1", "array", &high, 2, "eeff");
	put_value(from, "d2", "bytes", &low, 1, "wxyz");
	OK(daos_obj_close(from, NULL));

	OK(daos_cont_create_snap_opt(coh, &epoch, NULL, DAOS_SNAP_OPT_CR | DAOS_SNAP_OPT_OIT, NULL));
	OK(daos_oit_open(coh, epoch, &oit, NULL));
	while (!daos_anchor_is_eof(&anchor)) {
		objects = 4;
		OK(daos_oit_list(oit, oids, &objects, &anchor, NULL));
		for (i = 0; i < objects; i++) {
			OK(daos_obj_open(coh, oids[i], DAOS_OO_RO, &from, NULL));
			OK(daos_obj_open(copied, oids[i], DAOS_OO_RW, &to, NULL));
			memset(&dkeys, 0, sizeof(dkeys));
			while (!daos_anchor_is_eof(&dkeys)) {
				daos_key_desc_t kds[5];
				char            names[64], *at;
				d_iov_t         iov;
				d_sg_list_t     sgl = {.sg_nr = 1, .sg_iovs = &iov};
				daos_key_t      dkey;
				uint32_t        k;

				nr = 5;
				d_iov_set(&iov, names, sizeof(names));
				OK(daos_obj_list_dkey(from, DAOS_TX_NONE, &nr, kds, &sgl, &dkeys, NULL));
				for (k = 0, at = names; k < nr; at += kds[k++].kd_key_len) {
					d_iov_set(&dkey, at, kds[k].kd_key_len);
					copy_akeys(from, to, &dkey);
				}
			}
			OK(daos_obj_close(from, NULL));
			OK(daos_obj_close(to, NULL));
		}
	}
	OK(daos_oit_close(oit, NULL));

	OK(daos_obj_open(copied, oid, DAOS_OO_RO, &to, NULL));
	check_value(to, "d1", "single", NULL, 5, "stone");
	check_value(to, "d1", "array", &low, 2, "aabbccdd");
	check_value(to, "d1", "array", &high, 2, "eeff");
	check_value(to, "d2", "bytes", &low, 1, "wxyz");
	/* daos-serialize learns the size of records without memory for extents. */
	{
		daos_key_t         d = text_iov("d1"), a = text_iov("array");
		daos_epoch_range_t eprs[5];
		daos_size_t        size = 0;

		nr = 1;
		memset(&anchor, 0, sizeof(anchor));
		OK(daos_obj_list_recx(to, DAOS_TX_NONE, &d, &a, &size, &nr, NULL, eprs, &anchor, true, NULL));
		CHECK(nr == 1 && size == 2);
	}
	OK(daos_obj_close(to, NULL));
	/* Every container is found by the list of the pool. */
	OK(daos_pool_list_cont(poh, &count, NULL, NULL));
	GIVES(count, 2);
	OK(daos_cont_close(copied, NULL));
	close_all();
}

/* FDB: a catalogue of key-values whose ids it stamps itself, and fields as arrays without sizes of their own. */
static void
fdb_archives_and_retrieves_fields(void)
{
	daos_obj_id_t    index = {.lo = 11}, field = {.lo = 12};
	daos_handle_t    kv, array;
	daos_range_t     range = {.rg_idx = 0, .rg_len = 24};
	daos_array_iod_t iod   = {.arr_nr = 1, .arr_rgs = &range};
	char             text[24], found[32], names[64];
	d_iov_t          iov;
	d_sg_list_t      sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_anchor_t    anchor = DAOS_ANCHOR_INIT;
	daos_key_desc_t  kds[4];
	daos_size_t      size, cell, chunk;
	uint32_t         nr = 4;

	open_all();
	index.hi |= (uint64_t)DAOS_OT_KV_HASHED << OID_FMT_TYPE_SHIFT | (uint64_t)(OC_S1 >> 24) << OID_FMT_CLASS_SHIFT |
		    (uint64_t)(OC_S1 & 0xffff) << OID_FMT_META_SHIFT;
	OK(daos_kv_open(coh, index, DAOS_OO_RW, &kv, NULL));
	/* A key that is not there has no size, and is no error. */
	size = 0;
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "step=1", &size, NULL, NULL));
	GIVES(size, 0);
	OK(daos_array_generate_oid(coh, &field, false, OC_S1, 0, 0));
	OK(daos_array_open_with_attr(coh, field, DAOS_TX_NONE, DAOS_OO_RW, 1, 1 << 20, &array, NULL));
	memset(text, 'f', sizeof(text));
	d_iov_set(&iov, text, sizeof(text));
	OK(daos_array_write(array, DAOS_TX_NONE, &iod, &sgl, NULL));
	OK(daos_array_close(array, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "step=1", sizeof(field), &field, NULL));

	size = 0;
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "step=1", &size, NULL, NULL));
	GIVES(size, sizeof(field));
	memset(&field, 0, sizeof(field));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "step=1", &size, &field, NULL));
	d_iov_set(&iov, names, sizeof(names));
	OK(daos_kv_list(kv, DAOS_TX_NONE, &nr, kds, &sgl, &anchor, NULL));
	CHECK(nr == 1 && kds[0].kd_key_len == 6 && memcmp(names, "step=1", 6) == 0);
	OK(daos_array_open_with_attr(coh, field, DAOS_TX_NONE, DAOS_OO_RO, 1, 1 << 20, &array, NULL));
	OK(daos_array_get_size(array, DAOS_TX_NONE, &size, NULL));
	GIVES(size, 24);
	OK(daos_array_get_attr(array, &chunk, &cell));
	memset(found, 0, sizeof(found));
	d_iov_set(&iov, found, size);
	iod.arr_nr_short_read = 1;
	OK(daos_array_read(array, DAOS_TX_NONE, &iod, &sgl, NULL));
	CHECK(memcmp(found, text, 24) == 0 && iod.arr_nr_short_read == 0);
	/* It closes key-values and arrays as objects. */
	OK(daos_obj_close(array, NULL));
	OK(daos_obj_close(kv, NULL));
	close_all();
}

/* A dictionary of pydaos: several operations in flight, which come back with what they could not hold, and a walk over keys. */
static void
pydaos_keeps_dictionaries(void)
{
	daos_obj_id_t   oid = {.lo = 21};
	daos_handle_t   eq, kv;
	daos_event_t    evs[4], *done[4];
	daos_size_t     sizes[4];
	char            values[4][16], keys[4][8], *walk;
	d_iov_t         iov;
	d_sg_list_t     sgl    = {.sg_nr = 1, .sg_iovs = &iov};
	daos_anchor_t   anchor = DAOS_ANCHOR_INIT;
	daos_key_desc_t kds[8];
	uint32_t        nr, room = 2, seen = 0;
	int             i, rc, left;

	open_all();
	OK(daos_eq_create(&eq));
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_UNKNOWN, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	for (i = 0; i < 4; i++) {
		OK(daos_event_init(&evs[i], eq, NULL));
		sprintf(keys[i], "key%d", i);
		memset(values[i], 'a' + i, sizeof(values[i]));
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, keys[i], 4 * (i + 1), values[i], &evs[i]));
	}
	for (left = 4; left > 0; left -= rc) {
		rc = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 4, done);
		CHECK(rc > 0);
	}
	/* Read with a guess of how long values are: whoever is too small is told, and reads again. */
	for (i = 0; i < 4; i++) {
		sizes[i] = 8;
		OK(daos_kv_get(kv, DAOS_TX_NONE, DAOS_COND_KEY_GET, keys[i], &sizes[i], values[i], &evs[i]));
	}
	for (left = 4; left > 0; left -= rc) {
		rc = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 4, done);
		CHECK(rc > 0);
	}
	for (i = 0; i < 4; i++) {
		GIVES(sizes[i], 4 * (i + 1));
		GIVES(evs[i].ev_error, i < 2 ? 0 : -DER_REC2BIG);
		if (i >= 2)
			OK(daos_kv_get(kv, DAOS_TX_NONE, DAOS_COND_KEY_GET, keys[i], &sizes[i], values[i], NULL));
		OK(daos_event_fini(&evs[i]));
	}
	GIVES(daos_kv_get(kv, DAOS_TX_NONE, DAOS_COND_KEY_GET, "none", &sizes[0], values[0], NULL), -DER_NONEXIST);
	while (!daos_anchor_is_eof(&anchor)) {
		walk = malloc(room);
		nr   = 8;
		d_iov_set(&iov, walk, room);
		rc = daos_kv_list(kv, DAOS_TX_NONE, &nr, kds, &sgl, &anchor, NULL);
		if (rc == -DER_KEY2BIG)
			room = kds[0].kd_key_len > room ? kds[0].kd_key_len : 2 * room;
		else
			seen += nr;
		CHECK(rc == 0 || rc == -DER_KEY2BIG);
		free(walk);
	}
	GIVES(seen, 4);
	OK(daos_kv_close(kv, NULL));
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	close_all();
}

TESTS(TEST(root_writes_and_reads_its_cages), TEST(mpifileutils_copies_a_container),
      TEST(fdb_archives_and_retrieves_fields), TEST(pydaos_keeps_dictionaries))
