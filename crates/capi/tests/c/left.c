/* Two pools of one daemon, one of which is left while something of it is open or under way: nothing of it reaches the other. */
#include "still.h"

static daos_handle_t other, other_cont, kv;
static daos_obj_id_t oid = {.lo = 3};

static void
open_kv(daos_handle_t cont, daos_handle_t *opened)
{
	OK(daos_kv_open(cont, oid, DAOS_OO_RW, opened, NULL));
}

static daos_size_t
size_of(daos_handle_t opened, const char *key)
{
	daos_size_t size = 0;

	OK(daos_kv_get(opened, DAOS_TX_NONE, 0, key, &size, NULL, NULL));
	return size;
}

static void
begin(void)
{
	open_all();
	begin_events();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	open_kv(coh, &kv);
}

/* The number of the pool that was left, and that of its container, are free again. */
static void
open_other(void)
{
	OK(daos_pool_connect("other", NULL, DAOS_PC_RW, &other, NULL, NULL));
	OK(daos_cont_create_with_label(other, "cont", NULL, NULL, NULL));
	OK(daos_cont_open(other, "cont", DAOS_COO_RW, &other_cont, NULL, NULL));
}

/* Lets the daemon go on, and waits for all that was launched; some of it may have ended with its launch. */
static void
end_all(void)
{
	daos_event_t *done[EVENTS];
	int           seen = 0, found;

	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
	while (seen < launched) {
		found = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, EVENTS, done);
		CHECK(found > 0);
		seen += found;
	}
	all_well();
}

static void
leave_pool(void)
{
	launched = 0;
	OK(daos_cont_close(coh, next()));
	OK(daos_pool_disconnect(poh, next()));
	end_all();
}

/* Claims that a value of so many bytes is in the first pool, and none in the other, whose handle is good. */
static void
check_pools(const char *key, daos_size_t size)
{
	daos_handle_t opened;

	open_kv(other_cont, &opened);
	GIVES(size_of(opened, key), 0);
	OK(daos_kv_put(opened, DAOS_TX_NONE, 0, "own", 3, "own", NULL));
	GIVES(size_of(opened, "own"), 3);
	OK(daos_kv_close(opened, NULL));
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW, &coh, NULL, NULL));
	open_kv(coh, &opened);
	GIVES(size_of(opened, key), size);
	GIVES(size_of(opened, "own"), 0);
	OK(daos_kv_close(opened, NULL));
}

static void
end(void)
{
	OK(daos_cont_close(other_cont, NULL));
	OK(daos_pool_disconnect(other, NULL));
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	close_all();
}

static void
what_is_open_goes_on_to_its_own_pool(void)
{
	begin();
	leave_pool();
	open_other();
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "late", 4, "late", NULL));
	GIVES(size_of(kv, "late"), 4);
	OK(daos_kv_close(kv, NULL));
	check_pools("late", 4);
	end();
}

static void
what_is_closed_last_closes_nothing_of_another_pool(void)
{
	begin();
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "early", 5, "early", NULL));
	leave_pool();
	open_other();
	OK(daos_kv_close(kv, NULL));
	check_pools("early", 5);
	end();
}

static void
what_is_under_way_ends_in_its_own_pool(void)
{
	begin();
	stand_still();
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "on the way", 6, "stored", next()));
	OK(daos_kv_close(kv, NULL));
	OK(daos_cont_close(coh, next()));
	OK(daos_pool_disconnect(poh, next()));
	end_all();
	open_other();
	check_pools("on the way", 6);
	end();
}

TESTS(TEST(what_is_open_goes_on_to_its_own_pool), TEST(what_is_closed_last_closes_nothing_of_another_pool),
      TEST(what_is_under_way_ends_in_its_own_pool))
