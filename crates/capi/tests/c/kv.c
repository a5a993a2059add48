/* Flat key-value stores. */
#include "harness.h"

static daos_handle_t kv;
static daos_obj_id_t oid = {.lo = 3};

static void
begin(void)
{
	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
}

static void
end(void)
{
	OK(daos_kv_close(kv, NULL));
	GIVES(daos_kv_close(kv, NULL), -DER_NO_HDL);
	close_all();
}

static void
values_come_back(void)
{
	char        buf[16] = {0};
	daos_size_t size;

	begin();
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "key", 5, "stone", NULL));
	size = sizeof(buf);
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "key", &size, buf, NULL));
	CHECK(size == 5 && strcmp(buf, "stone") == 0);
	size = 0;
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "key", &size, NULL, NULL));
	CHECK(size == 5);
	size = 2;
	GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "large", (32 << 20) + 1, buf, NULL), -DER_REC2BIG);
	GIVES(daos_kv_get(kv, DAOS_TX_NONE, 0, "key", &size, buf, NULL), -DER_REC2BIG);
	CHECK(size == 5);
	end();
}

static void
missing_keys_have_no_size(void)
{
	char        buf[16];
	daos_size_t size = sizeof(buf);

	begin();
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "none", &size, buf, NULL));
	CHECK(size == 0);
	size = sizeof(buf);
	GIVES(daos_kv_get(kv, DAOS_TX_NONE, DAOS_COND_KEY_GET, "none", &size, buf, NULL), -DER_NONEXIST);
	GIVES(daos_kv_get(kv, DAOS_TX_NONE, 0, "none", NULL, buf, NULL), -DER_INVAL);
	GIVES(daos_kv_get(kv, DAOS_TX_NONE, 0, NULL, &size, buf, NULL), -DER_INVAL);
	GIVES(daos_kv_get(coh, DAOS_TX_NONE, 0, "none", &size, buf, NULL), -DER_NO_HDL);
	end();
}

static void
conditions_are_checked(void)
{
	begin();
	GIVES(daos_kv_put(kv, DAOS_TX_NONE, DAOS_COND_KEY_UPDATE, "k", 1, "x", NULL), -DER_NONEXIST);
	OK(daos_kv_put(kv, DAOS_TX_NONE, DAOS_COND_KEY_INSERT, "k", 1, "x", NULL));
	GIVES(daos_kv_put(kv, DAOS_TX_NONE, DAOS_COND_KEY_INSERT, "k", 1, "x", NULL), -DER_EXIST);
	OK(daos_kv_remove(kv, DAOS_TX_NONE, DAOS_COND_KEY_REMOVE, "k", NULL));
	GIVES(daos_kv_remove(kv, DAOS_TX_NONE, DAOS_COND_KEY_REMOVE, "k", NULL), -DER_NONEXIST);
	GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 0, "x", NULL), -DER_INVAL);
	GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "", 1, "x", NULL), -DER_INVAL);
	end();
}

static void
keys_are_listed_and_removed(void)
{
	daos_anchor_t   anchor = DAOS_ANCHOR_INIT;
	daos_key_desc_t kds[4];
	char            buf[64], name[16];
	d_iov_t         iov;
	d_sg_list_t     sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_size_t     size = 0;
	uint32_t        room = 4;
	int             i, total = 0;

	begin();
	for (i = 0; i < 10; i++) {
		sprintf(name, "%d", i);
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, name, 1, "x", NULL));
	}
	d_iov_set(&iov, buf, sizeof(buf));
	while (!daos_anchor_is_eof(&anchor)) {
		uint32_t nr = 4;

		OK(daos_kv_list(kv, DAOS_TX_NONE, &nr, kds, &sgl, &anchor, NULL));
		total += nr;
	}
	GIVES(total, 10);
	/* Too little room for the next key: its length is told, and with as much the listing goes on. */
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "longer than all", 1, "x", NULL));
	for (i = 0; i < 10; i++) {
		sprintf(name, "%d", i);
		OK(daos_kv_remove(kv, DAOS_TX_NONE, 0, name, NULL));
	}
	memset(&anchor, 0, sizeof(anchor));
	d_iov_set(&iov, buf, 4);
	GIVES(daos_kv_list(kv, DAOS_TX_NONE, &room, kds, &sgl, &anchor, NULL), -DER_KEY2BIG);
	GIVES(kds[0].kd_key_len, 15);
	d_iov_set(&iov, buf, kds[0].kd_key_len);
	OK(daos_kv_list(kv, DAOS_TX_NONE, &room, kds, &sgl, &anchor, NULL));
	CHECK(room == 1 && memcmp(buf, "longer than all", 15) == 0);
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "3", 1, "x", NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "4", 1, "x", NULL));
	OK(daos_kv_remove(kv, DAOS_TX_NONE, 0, "3", NULL));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "3", &size, NULL, NULL));
	CHECK(size == 0);
	OK(daos_kv_destroy(kv, DAOS_TX_NONE, NULL));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "4", &size, NULL, NULL));
	CHECK(size == 0);
	end();
}

static void
handles_close_as_objects_too(void)
{
	daos_handle_t other;

	begin();
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &other, NULL));
	OK(daos_obj_close(other, NULL));
	GIVES(daos_kv_close(other, NULL), -DER_NO_HDL);
	oid.hi &= ~OID_FMT_TYPE_MASK;
	GIVES(daos_kv_open(coh, oid, DAOS_OO_RW, &other, NULL), -DER_INVAL);
	end();
}

/* Values of 16 MiB, out of many buffers, as ROOT makes them of pages. */
static void
large_values_come_back_and_are_one(void)
{
	enum { LARGE = 16 << 20, PIECE = 64 << 10 };
	static d_iov_t iovs[LARGE / PIECE];
	d_sg_list_t    sgl = {.sg_nr = LARGE / PIECE, .sg_iovs = iovs};
	daos_key_t     dkey, akey;
	daos_iod_t     iod = {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1, .iod_size = LARGE};
	daos_size_t    size;
	char          *value = malloc(LARGE), *found = malloc(LARGE);
	size_t         i;

	begin();
	for (i = 0; i < LARGE; i++)
		value[i] = (char)(i * 2654435761u >> 13);
	for (i = 0; i < sgl.sg_nr; i++)
		d_iov_set(&iovs[i], value + i * PIECE, PIECE);
	d_iov_set(&dkey, "cage", 4);
	d_iov_set(&akey, "a", 1);
	iod.iod_name = akey;
	OK(daos_obj_update(kv, DAOS_TX_NONE, 0, &dkey, 1, &iod, &sgl, NULL));
	for (i = 0; i < sgl.sg_nr; i++)
		d_iov_set(&iovs[i], found + i * PIECE, PIECE);
	iod.iod_size = DAOS_REC_ANY;
	OK(daos_obj_fetch(kv, DAOS_TX_NONE, 0, &dkey, 1, &iod, &sgl, NULL, NULL));
	CHECK(iod.iod_size == LARGE && memcmp(found, value, LARGE) == 0);
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "large", LARGE, value, NULL));
	size = LARGE;
	memset(found, 0, LARGE);
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "large", &size, found, NULL));
	CHECK(size == LARGE && memcmp(found, value, LARGE) == 0);
	end();
	free(value);
	free(found);
}

TESTS(TEST(values_come_back), TEST(large_values_come_back_and_are_one), TEST(missing_keys_have_no_size), TEST(conditions_are_checked),
      TEST(keys_are_listed_and_removed), TEST(handles_close_as_objects_too))
