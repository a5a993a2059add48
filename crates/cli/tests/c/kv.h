/* A KV object that several processes write to. */
#include "harness.h"

/* After so many seconds a process that hangs is ended by the system. */
#define SECONDS_MAX 100

static daos_handle_t kv;

static void
put(const char *key, const char *value)
{
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, key, strlen(value), value, NULL));
}

static void
expect(const char *key, const char *value)
{
	char        found[64];
	daos_size_t size = sizeof(found);

	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, key, &size, found, NULL));
	CHECK(size == strlen(value) && memcmp(found, value, size) == 0);
}

static void
open_kv(void)
{
	daos_obj_id_t oid = {.lo = 9};

	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
}

/* What a process does that knows of no other: opens the same. */
static void
open_again(void)
{
	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW, &coh, NULL, NULL));
	open_kv();
}
