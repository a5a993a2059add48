/* Who may open a container for what: another user, by the network, where the engine believes the number that he says. */
#include "harness.h"
#include <gurt/common.h>

#define STRANGER 4200042

/* Who this process says that it is: the library asks the program's own function. */
static uid_t pretended;

uid_t
geteuid(void)
{
	return pretended;
}

gid_t
getegid(void)
{
	return pretended;
}

static void
put(daos_handle_t cont, int gives)
{
	daos_obj_id_t oid = {.lo = 1};
	daos_handle_t kv;

	OK(daos_obj_generate_oid(cont, &oid, DAOS_OT_KV_HASHED, 0, 0, 0));
	OK(daos_kv_open(cont, oid, DAOS_OO_RW, &kv, NULL));
	GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "v", NULL), gives);
	OK(daos_kv_close(kv, NULL));
}

/* The container's list is this entry, and no other. */
static void
allow(const char *entry)
{
	struct daos_acl *acl;

	OK(daos_acl_from_strs(&entry, 1, &acl));
	OK(daos_cont_overwrite_acl(coh, acl, NULL));
	daos_acl_free(acl);
}

static void
what_a_list_does_not_allow_is_refused_at_the_open(void)
{
	daos_handle_t pool, cont;

	pretended = getuid();
	open_all();
	allow("A::4200042@:rta");
	pretended = STRANGER;
	/* The pool's list lets him read alone. */
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &pool, NULL, NULL), -DER_NO_PERM);
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_EX, &pool, NULL, NULL), -DER_NO_PERM);
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RO, &pool, NULL, NULL));
	GIVES(daos_cont_open(pool, "cont", DAOS_COO_RW, &cont, NULL, NULL), -DER_NO_PERM);
	/* Rights come first: who may change nothing is not told that somebody has it open. */
	GIVES(daos_cont_open(pool, "cont", DAOS_COO_EX, &cont, NULL, NULL), -DER_NO_PERM);
	OK(daos_cont_open(pool, "cont", DAOS_COO_RO, &cont, NULL, NULL));
	OK(daos_cont_close(cont, NULL));

	/* The refused ones have left no handle behind, and what the list allows counts from the next open on. */
	allow("A::4200042@:rw");
	OK(daos_cont_open(pool, "cont", DAOS_COO_RW, &cont, NULL, NULL));
	put(cont, 0);
	OK(daos_cont_close(cont, NULL));
	allow("A::4200042@:rA");
	OK(daos_cont_open(pool, "cont", DAOS_COO_RW, &cont, NULL, NULL));
	put(cont, -DER_NO_PERM);
	OK(daos_cont_close(cont, NULL));
	OK(daos_pool_disconnect(pool, NULL));
	pretended = getuid();
	close_all();
}

/* Properties of pool and container, as a list without names gives them: what may not be told is not set. */
static void
check_told(daos_prop_t *props, uint32_t trimmed, uint32_t told)
{
	struct daos_prop_entry *entry = daos_prop_entry_get(props, trimmed);

	CHECK(entry == NULL || !daos_prop_is_set(entry));
	entry = daos_prop_entry_get(props, told);
	CHECK(entry != NULL && daos_prop_is_set(entry));
	daos_prop_free(props);
}

static void
a_list_that_one_may_not_read_is_refused(void)
{
	daos_handle_t pool, cont;
	daos_prop_t  *props = NULL;
	d_rank_list_t *ranks = NULL;

	pretended = getuid();
	open_all();
	allow("A::4200042@:rt");
	pretended = STRANGER;
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RO, &pool, NULL, NULL));
	OK(daos_cont_open(pool, "cont", DAOS_COO_RO, &cont, NULL, NULL));
	GIVES(daos_cont_get_acl(cont, &props, NULL), -DER_NO_PERM);
	CHECK(props == NULL);
	props = daos_prop_alloc(2);
	props->dpp_entries[0].dpe_type = DAOS_PROP_CO_LAYOUT_TYPE;
	props->dpp_entries[1].dpe_type = DAOS_PROP_CO_ACL;
	GIVES(daos_cont_query(cont, NULL, props, NULL), -DER_NO_PERM);
	daos_prop_free(props);
	props = daos_prop_alloc(0);
	OK(daos_cont_query(cont, NULL, props, NULL));
	check_told(props, DAOS_PROP_CO_ACL, DAOS_PROP_CO_LAYOUT_TYPE);
	props = daos_prop_alloc(1);
	props->dpp_entries[0].dpe_type = DAOS_PROP_PO_ACL;
	GIVES(daos_pool_query(pool, &ranks, NULL, props, NULL), -DER_NO_PERM);
	CHECK(ranks == NULL);
	daos_prop_free(props);
	props = daos_prop_alloc(0);
	OK(daos_pool_query(pool, &ranks, NULL, props, NULL));
	CHECK(ranks != NULL);
	d_rank_list_free(ranks);
	check_told(props, DAOS_PROP_PO_ACL, DAOS_PROP_PO_SPACE_RB);
	OK(daos_cont_close(cont, NULL));
	OK(daos_pool_disconnect(pool, NULL));
	pretended = getuid();
	close_all();
}

TESTS(TEST(what_a_list_does_not_allow_is_refused_at_the_open), TEST(a_list_that_one_may_not_read_is_refused))
