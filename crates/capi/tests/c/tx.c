/* Transactions. */
#include "harness.h"

static daos_handle_t kv, th;

static void
begin(void)
{
	daos_obj_id_t oid = {.lo = 3};

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

static daos_size_t
size_of(daos_handle_t when, const char *key)
{
	daos_size_t size = 0;

	OK(daos_kv_get(kv, when, 0, key, &size, NULL, NULL));
	return size;
}

static void
writes_appear_with_the_commit(void)
{
	begin();
	OK(daos_tx_open(coh, &th, 0, NULL));
	OK(daos_kv_put(kv, th, 0, "a", 1, "x", NULL));
	OK(daos_kv_put(kv, th, 0, "b", 2, "xy", NULL));
	CHECK(size_of(DAOS_TX_NONE, "a") == 0 && size_of(th, "a") == 1);
	OK(daos_tx_commit(th, NULL));
	CHECK(size_of(DAOS_TX_NONE, "a") == 1 && size_of(DAOS_TX_NONE, "b") == 2);
	GIVES(daos_tx_commit(th, NULL), -DER_ALREADY);
	GIVES(daos_kv_put(kv, th, 0, "c", 1, "x", NULL), -DER_NO_PERM);
	OK(daos_tx_close(th, NULL));
	GIVES(daos_tx_close(th, NULL), -DER_NO_HDL);
	end();
}

static void
aborted_writes_never_appear(void)
{
	begin();
	OK(daos_tx_open(coh, &th, 0, NULL));
	OK(daos_kv_put(kv, th, 0, "a", 1, "x", NULL));
	OK(daos_tx_abort(th, NULL));
	GIVES(daos_tx_abort(th, NULL), -DER_ALREADY);
	GIVES(daos_tx_commit(th, NULL), -DER_NO_PERM);
	OK(daos_tx_close(th, NULL));
	OK(daos_tx_open(coh, &th, 0, NULL));
	OK(daos_kv_put(kv, th, 0, "a", 1, "x", NULL));
	OK(daos_tx_close(th, NULL));
	CHECK(size_of(DAOS_TX_NONE, "a") == 0);
	end();
}

static void
conflicts_are_restarted(void)
{
	begin();
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "a", 1, "x", NULL));
	OK(daos_tx_open(coh, &th, 0, NULL));
	CHECK(size_of(th, "a") == 1);
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "a", 2, "xx", NULL));
	OK(daos_kv_put(kv, th, 0, "a", 3, "xxx", NULL));
	GIVES(daos_tx_commit(th, NULL), -DER_TX_RESTART);
	OK(daos_tx_restart(th, NULL));
	CHECK(size_of(th, "a") == 2);
	OK(daos_kv_put(kv, th, 0, "a", 4, "xxxx", NULL));
	OK(daos_tx_commit(th, NULL));
	CHECK(size_of(DAOS_TX_NONE, "a") == 4);
	GIVES(daos_tx_restart(th, NULL), -DER_NO_PERM);
	OK(daos_tx_close(th, NULL));
	end();
}

static void
some_only_read(void)
{
	daos_epoch_t epoch = 0;

	begin();
	OK(daos_tx_open(coh, &th, DAOS_TF_RDONLY, NULL));
	GIVES(daos_kv_put(kv, th, 0, "a", 1, "x", NULL), -DER_NO_PERM);
	CHECK(size_of(th, "a") == 0);
	OK(daos_tx_hdl2epoch(th, &epoch));
	CHECK(epoch > 0);
	GIVES(daos_tx_hdl2epoch(coh, &epoch), -DER_NO_HDL);
	OK(daos_tx_close(th, NULL));
	GIVES(daos_tx_open(coh, &th, 1 << 20, NULL), -DER_INVAL);
	GIVES(daos_tx_open(poh, &th, 0, NULL), -DER_NO_HDL);
	end();
}

static void
transactions_belong_to_a_container(void)
{
	daos_handle_t other;

	begin();
	OK(daos_cont_create_with_label(poh, "other", NULL, NULL, NULL));
	OK(daos_cont_open(poh, "other", DAOS_COO_RW, &other, NULL, NULL));
	OK(daos_tx_open(other, &th, 0, NULL));
	GIVES(daos_kv_put(kv, th, 0, "a", 1, "x", NULL), -DER_INVAL);
	OK(daos_tx_close(th, NULL));
	OK(daos_cont_close(other, NULL));
	end();
}

/* Twelve megabytes on two targets, whose segments are smaller here. */
static void
what_no_segment_takes_is_refused_whole(void)
{
	static char value[4000];
	char        key[16];
	int         i;

	begin();
	OK(daos_tx_open(coh, &th, 0, NULL));
	for (i = 0; i < 3000; i++) {
		snprintf(key, sizeof(key), "key %d", i);
		OK(daos_kv_put(kv, th, 0, key, sizeof(value), value, NULL));
	}
	GIVES(daos_tx_commit(th, NULL), -DER_REC2BIG);
	CHECK(size_of(DAOS_TX_NONE, "key 0") == 0 && size_of(th, "key 0") == sizeof(value));
	/* It is open still, and begins anew with less. */
	OK(daos_tx_restart(th, NULL));
	OK(daos_kv_put(kv, th, 0, "key 0", sizeof(value), value, NULL));
	OK(daos_tx_commit(th, NULL));
	OK(daos_tx_close(th, NULL));
	CHECK(size_of(DAOS_TX_NONE, "key 0") == sizeof(value) && size_of(DAOS_TX_NONE, "key 1") == 0);
	end();
}

TESTS(TEST(writes_appear_with_the_commit), TEST(aborted_writes_never_appear), TEST(conflicts_are_restarted),
      TEST(some_only_read), TEST(transactions_belong_to_a_container),
      TEST(what_no_segment_takes_is_refused_whole))
