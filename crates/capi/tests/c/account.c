/* For whom a program works, as its environment and its user's settings say. */
#include "harness.h"

static void
requests_say_for_whom_they_are(void)
{
	daos_obj_id_t oid = {.lo = 1};
	daos_handle_t kv, eq;
	daos_event_t  ev, *done;
	daos_size_t   size = 0;

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "x", NULL));
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&ev, eq, NULL));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "k", &size, NULL, &ev));
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
	OK(ev.ev_error);
	OK(daos_event_fini(&ev));
	OK(daos_eq_destroy(eq, 0));
	OK(daos_kv_close(kv, NULL));
	OK(daos_cont_close(coh, NULL));
	OK(daos_cont_destroy(poh, "cont", 0, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

static void
a_tenant_that_is_none_is_refused(void)
{
	daos_size_t count = 0;
	const char *bad[] = {"anna", "-1", "4294967296"};
	size_t      i;

	OK(daos_init());
	for (i = 0; i < 3; i++) {
		CHECK(setenv("DOLMEN_TENANT", bad[i], 1) == 0);
		GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL), -DER_BADPATH);
	}
	/* What no variable can be called is no variable. */
	CHECK(setenv("DOLMEN_TENANT", "4294967295", 1) == 0 && setenv("DAOS_JOBID_ENV", "a=b", 1) == 0);
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_pool_list_cont(poh, &count, NULL, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

TESTS(TEST(requests_say_for_whom_they_are), TEST(a_tenant_that_is_none_is_refused))
