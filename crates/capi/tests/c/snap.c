/* Snapshots and object id tables. */
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
	close_all();
}

static void
put(const char *key, const char *value)
{
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, key, strlen(value), value, NULL));
}

static daos_size_t
size_of(daos_handle_t when, const char *key)
{
	daos_size_t size = 0;

	OK(daos_kv_get(kv, when, 0, key, &size, NULL, NULL));
	return size;
}

static void
snapshots_keep_the_past(void)
{
	daos_epoch_t  epoch;
	daos_handle_t th;

	begin();
	put("a", "1");
	OK(daos_cont_create_snap(coh, &epoch, NULL, NULL));
	put("a", "22");
	OK(daos_tx_open_snap(coh, epoch, &th, NULL));
	CHECK(size_of(th, "a") == 1 && size_of(DAOS_TX_NONE, "a") == 2);
	GIVES(daos_kv_put(kv, th, 0, "a", 1, "x", NULL), -DER_NO_PERM);
	OK(daos_tx_close(th, NULL));
	end();
}

static void
rollback_returns_to_a_snapshot(void)
{
	daos_epoch_t epoch;

	begin();
	put("a", "1");
	OK(daos_cont_create_snap(coh, &epoch, NULL, NULL));
	put("a", "22");
	put("b", "1");
	OK(daos_cont_rollback(coh, epoch, NULL));
	CHECK(size_of(DAOS_TX_NONE, "a") == 1 && size_of(DAOS_TX_NONE, "b") == 0);
	GIVES(daos_cont_rollback(coh, epoch + 1, NULL), -DER_NONEXIST);
	end();
}

static void
snapshots_have_names_and_are_listed(void)
{
	daos_epoch_t       epochs[3], found[3];
	char               one[DAOS_SNAPSHOT_MAX_LEN], two[DAOS_SNAPSHOT_MAX_LEN];
	char              *names[2] = {one, two};
	daos_anchor_t      anchor   = DAOS_ANCHOR_INIT;
	daos_epoch_range_t epr;
	int                nr = 0;

	begin();
	OK(daos_cont_create_snap(coh, &epochs[0], "first", NULL));
	GIVES(daos_cont_create_snap(coh, &epochs[1], "first", NULL), -DER_EXIST);
	OK(daos_cont_create_snap_opt(coh, &epochs[1], NULL, DAOS_SNAP_OPT_CR | DAOS_SNAP_OPT_OIT, NULL));
	GIVES(daos_cont_create_snap_opt(coh, &epochs[2], NULL, DAOS_SNAP_OPT_OIT, NULL), -DER_NOSYS);
	OK(daos_cont_create_snap(coh, &epochs[2], NULL, NULL));
	OK(daos_cont_list_snap(coh, &nr, NULL, NULL, &anchor, NULL));
	GIVES(nr, 3);
	nr = 2;
	OK(daos_cont_list_snap(coh, &nr, found, names, &anchor, NULL));
	CHECK(nr == 2 && found[0] == epochs[0] && found[1] == epochs[1] && !daos_anchor_is_eof(&anchor));
	CHECK(strcmp(one, "first") == 0 && two[0] == 0);
	OK(daos_cont_list_snap(coh, &nr, found, names, &anchor, NULL));
	CHECK(nr == 1 && found[0] == epochs[2] && daos_anchor_is_eof(&anchor));
	epr.epr_lo = epr.epr_hi = epochs[1];
	OK(daos_cont_destroy_snap(coh, epr, NULL));
	GIVES(daos_cont_destroy_snap(coh, epr, NULL), -DER_NONEXIST);
	epr.epr_lo = 5;
	epr.epr_hi = 4;
	GIVES(daos_cont_destroy_snap(coh, epr, NULL), -DER_INVAL);
	epr.epr_lo = 0;
	epr.epr_hi = DAOS_EPOCH_MAX;
	OK(daos_cont_destroy_snap(coh, epr, NULL));
	OK(daos_cont_list_snap(coh, &nr, NULL, NULL, &anchor, NULL));
	GIVES(nr, 0);
	end();
}

/* Makes so many objects, and a snapshot of them. */
static daos_epoch_t
snapshot_of(int count)
{
	daos_epoch_t  epoch;
	daos_handle_t oh;
	int           i;

	for (i = 0; i < count; i++) {
		daos_obj_id_t other = {.lo = 100 + i};

		OK(daos_obj_generate_oid(coh, &other, DAOS_OT_KV_HASHED, i % 2 ? OC_SX : OC_S1, 0, 0));
		OK(daos_kv_open(coh, other, DAOS_OO_RW, &oh, NULL));
		OK(daos_kv_put(oh, DAOS_TX_NONE, 0, "k", 1, "x", NULL));
		OK(daos_kv_put(oh, DAOS_TX_NONE, 0, "l", 1, "x", NULL));
		OK(daos_kv_close(oh, NULL));
	}
	OK(daos_cont_create_snap_opt(coh, &epoch, NULL, DAOS_SNAP_OPT_CR | DAOS_SNAP_OPT_OIT, NULL));
	return epoch;
}

static int
count_all(daos_handle_t oit, int (*list)(daos_handle_t, daos_obj_id_t *, uint32_t *, daos_anchor_t *, daos_event_t *))
{
	daos_anchor_t anchor = DAOS_ANCHOR_INIT;
	daos_obj_id_t oids[7];
	int           total = 0;

	while (!daos_anchor_is_eof(&anchor)) {
		uint32_t nr = 7;

		OK(list(oit, oids, &nr, &anchor, NULL));
		CHECK(nr <= 7);
		total += nr;
	}
	return total;
}

static void
tables_list_the_objects_of_a_snapshot(void)
{
	daos_epoch_t  epoch;
	daos_handle_t oit;
	daos_anchor_t anchor = DAOS_ANCHOR_INIT;
	uint32_t      nr = 0;
	daos_obj_id_t one;

	begin();
	epoch = snapshot_of(40);
	put("later", "x");
	OK(daos_oit_open(coh, epoch, &oit, NULL));
	GIVES(count_all(oit, daos_oit_list), 40);
	GIVES(daos_oit_list(oit, &one, &nr, &anchor, NULL), -DER_INVAL);
	GIVES(daos_oit_list(kv, &one, &nr, &anchor, NULL), -DER_NO_HDL);
	OK(daos_oit_close(oit, NULL));
	GIVES(daos_oit_close(oit, NULL), -DER_NO_HDL);
	GIVES(daos_oit_open(coh, epoch + 1, &oit, NULL), -DER_NONEXIST);
	OK(daos_cont_snap_oit_create(coh, epoch, NULL, NULL));
	GIVES(daos_cont_snap_oit_create(coh, epoch + 1, NULL, NULL), -DER_NONEXIST);
	end();
}

static int
is_marked_two(daos_obj_id_t id, d_iov_t *marker, bool *listed)
{
	(void)id;
	*listed = marker->iov_len == 3 && memcmp(marker->iov_buf, "two", 3) == 0;
	return 0;
}

static int
refuse(daos_obj_id_t id, d_iov_t *marker, bool *listed)
{
	(void)id;
	(void)marker;
	*listed = true;
	return -DER_MISC;
}

static void
marks_are_kept(void)
{
	daos_epoch_t  epoch, later;
	daos_handle_t oit;
	daos_anchor_t anchor = DAOS_ANCHOR_INIT;
	daos_obj_id_t oids[40], none = {.lo = 9, .hi = 9};
	uint32_t      nr = 40, i;
	d_iov_t       mark;
	char          long_mark[DAOS_OIT_MARKER_MAX_LEN + 1] = {0};

	begin();
	epoch = snapshot_of(20);
	OK(daos_oit_open(coh, epoch, &oit, NULL));
	OK(daos_oit_list(oit, oids, &nr, &anchor, NULL));
	GIVES(nr, 20);
	for (i = 0; i < 12; i++) {
		d_iov_set(&mark, i < 5 ? "one" : "two", 3);
		OK(daos_oit_mark(oit, oids[i], &mark, NULL));
	}
	GIVES(daos_oit_mark(oit, none, &mark, NULL), -DER_NONEXIST);
	d_iov_set(&mark, long_mark, sizeof(long_mark));
	GIVES(daos_oit_mark(oit, oids[0], &mark, NULL), -DER_INVAL);
	OK(daos_oit_close(oit, NULL));
	OK(daos_oit_open(coh, epoch, &oit, NULL));
	GIVES(count_all(oit, daos_oit_list_unmarked), 8);
	memset(&anchor, 0, sizeof(anchor));
	nr = 40;
	OK(daos_oit_list_filter(oit, oids, &nr, &anchor, is_marked_two, NULL));
	GIVES(nr, 7);
	memset(&anchor, 0, sizeof(anchor));
	GIVES(daos_oit_list_filter(oit, oids, &nr, &anchor, refuse, NULL), -DER_MISC);
	GIVES(daos_oit_list_filter(oit, oids, &nr, &anchor, NULL, NULL), -DER_INVAL);
	OK(daos_oit_mark(oit, oids[0], NULL, NULL));
	GIVES(count_all(oit, daos_oit_list_unmarked), 9);
	OK(daos_cont_snap_oit_destroy(coh, oit, NULL));
	GIVES(count_all(oit, daos_oit_list_unmarked), 20);
	GIVES(daos_cont_snap_oit_destroy(coh, kv, NULL), -DER_NO_HDL);
	d_iov_set(&mark, "x", 1);
	OK(daos_oit_mark(oit, oids[0], &mark, NULL));
	OK(daos_obj_close(oit, NULL));
	OK(daos_cont_create_snap(coh, &later, NULL, NULL));
	OK(daos_oit_open(coh, later, &oit, NULL));
	GIVES(count_all(oit, daos_oit_list), 20);
	OK(daos_oit_close(oit, NULL));
	end();
}

TESTS(TEST(snapshots_keep_the_past), TEST(rollback_returns_to_a_snapshot), TEST(snapshots_have_names_and_are_listed),
      TEST(tables_list_the_objects_of_a_snapshot), TEST(marks_are_kept))
