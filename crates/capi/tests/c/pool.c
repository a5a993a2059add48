/* Pools. */
#include <fcntl.h>
#include <sys/wait.h>
#include "attrs.h"

static void
connections_tell_the_state(void)
{
	daos_pool_info_t info = {.pi_bits = DPI_ALL};
	d_rank_list_t   *ranks = NULL;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, &info, NULL));
	CHECK(info.pi_ntargets == 2 && info.pi_nnodes == 1 && info.pi_ndisabled == 0);
	memset(&info, 0, sizeof(info));
	info.pi_bits = DPI_SPACE;
	OK(daos_pool_query(poh, &ranks, &info, NULL, NULL));
	CHECK(info.pi_ntargets == 2 && info.pi_bits == DPI_SPACE && info.pi_rebuild_st.rs_state == DRS_NOT_STARTED);
	CHECK(info.pi_space.ps_space.s_total[DAOS_MEDIA_SCM] > 0);
	CHECK(info.pi_space.ps_space.s_free[DAOS_MEDIA_SCM] > 0);
	CHECK(info.pi_space.ps_space.s_free[DAOS_MEDIA_SCM] <= info.pi_space.ps_space.s_total[DAOS_MEDIA_SCM]);
	CHECK(info.pi_space.ps_free_min[0] <= info.pi_space.ps_free_max[0] && info.pi_space.ps_ntargets == 2);
	CHECK(ranks->rl_nr == 1 && ranks->rl_ranks[0] == 0);
	free(ranks->rl_ranks);
	free(ranks);
	OK(daos_pool_disconnect(poh, NULL));
	GIVES(daos_pool_query(poh, NULL, &info, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_pool_disconnect(poh, NULL), -DER_NO_HDL);
	OK(daos_fini());
}

static void
wrong_connections_are_refused(void)
{
	OK(daos_init());
	GIVES(daos_pool_connect("none", NULL, DAOS_PC_RW, &poh, NULL, NULL), -DER_NONEXIST);
	GIVES(daos_pool_connect(NULL, NULL, DAOS_PC_RW, &poh, NULL, NULL), -DER_INVAL);
	GIVES(daos_pool_connect("pool", NULL, 0, &poh, NULL, NULL), -DER_INVAL);
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_pool_connect("pool", "no such system", DAOS_PC_RW, &poh, NULL, NULL), -DER_INVAL);
	GIVES(daos_pool_connect("pool", "file:none", DAOS_PC_RW, &poh, NULL, NULL), -DER_NONEXIST);
	OK(daos_pool_connect("pool", "daos_server", DAOS_PC_RO, &poh, NULL, NULL));
	GIVES(daos_cont_create_with_label(poh, "x", NULL, NULL, NULL), -DER_NO_PERM);
	GIVES(daos_cont_destroy(poh, "x", 0, NULL), -DER_NO_PERM);
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

static void
what_cannot_be_told_changes_no_answer(void)
{
	int full = open("/dev/full", O_WRONLY), kept = dup(STDERR_FILENO);
	int rc[2];

	OK(daos_init());
	CHECK(full >= 0 && kept >= 0 && dup2(full, STDERR_FILENO) == STDERR_FILENO);
	rc[0] = daos_pool_connect("none", NULL, DAOS_PC_RW, &poh, NULL, NULL);
	rc[1] = daos_pool_connect("pool", "file:none", DAOS_PC_RW, &poh, NULL, NULL);
	CHECK(dup2(kept, STDERR_FILENO) == STDERR_FILENO && close(kept) == 0 && close(full) == 0);
	GIVES(rc[0], -DER_NONEXIST);
	GIVES(rc[1], -DER_NONEXIST);
	OK(daos_fini());
}

static void
properties_are_told(void)
{
	daos_prop_t     *prop = daos_prop_alloc(0), *one = daos_prop_alloc(1);
	uint64_t         perms = 0;
	struct daos_acl *acl;

	open_all();
	OK(daos_pool_query(poh, NULL, NULL, prop, NULL));
	CHECK(prop->dpp_nr == DAOS_PROP_PO_NUM);
	CHECK(strcmp(daos_prop_entry_get(prop, DAOS_PROP_PO_LABEL)->dpe_str, "pool") == 0);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_PO_RECLAIM)->dpe_val == DAOS_RECLAIM_LAZY);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_PO_SCRUB_MODE)->dpe_val == DAOS_SCRUB_MODE_TIMED);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_PO_REDUN_FAC)->dpe_val == 0);
	CHECK(((d_rank_list_t *)daos_prop_entry_get(prop, DAOS_PROP_PO_SVC_LIST)->dpe_val_ptr)->rl_nr == 1);
	acl = daos_prop_entry_get(prop, DAOS_PROP_PO_ACL)->dpe_val_ptr;
	OK(daos_acl_validate(acl));
	OK(daos_pool_get_perms(prop, geteuid(), NULL, 0, &perms));
	CHECK((perms & DAOS_ACL_PERM_READ) && (perms & DAOS_ACL_PERM_WRITE));
	daos_prop_free(prop);
	one->dpp_entries[0].dpe_type = DAOS_PROP_PO_LABEL;
	OK(daos_pool_query(poh, NULL, NULL, one, NULL));
	CHECK(strcmp(one->dpp_entries[0].dpe_str, "pool") == 0);
	daos_prop_free(one);
	close_all();
}

static void
targets_are_told(void)
{
	daos_target_info_t info;

	open_all();
	OK(daos_pool_query_target(poh, 1, 0, &info, NULL));
	CHECK(info.ta_state == DAOS_TS_UP_IN && info.ta_space.s_total[0] > 0);
	GIVES(daos_pool_query_target(poh, 2, 0, &info, NULL), -DER_NONEXIST);
	GIVES(daos_pool_query_target(poh, 0, 9, &info, NULL), -DER_NONEXIST);
	GIVES(daos_pool_query_target(coh, 0, 0, &info, NULL), -DER_NO_HDL);
	close_all();
}

static void
containers_are_listed(void)
{
	struct daos_pool_cont_info conts[4];
	daos_size_t                nr = 0;

	open_all();
	OK(daos_cont_create(poh, NULL, NULL, NULL));
	OK(daos_pool_list_cont(poh, &nr, NULL, NULL));
	GIVES(nr, 2);
	nr = 4;
	OK(daos_pool_list_cont(poh, &nr, conts, NULL));
	CHECK(nr == 2 && strcmp(conts[0].pci_label, "cont") == 0);
	CHECK(strcmp(conts[1].pci_label, DAOS_PROP_NO_CO_LABEL) == 0);
	nr = 1;
	GIVES(daos_pool_list_cont(poh, &nr, conts, NULL), -DER_TRUNC);
	GIVES(nr, 2);
	GIVES(daos_pool_list_cont(poh, NULL, conts, NULL), -DER_INVAL);
	close_all();
}

static void
attributes_are_kept(void)
{
	size_t out[1] = {sizeof(one)}, room = 0;

	open_all();
	OK(daos_pool_set_attr(poh, 1, names, values, sizes, NULL));
	OK(daos_pool_get_attr(poh, 1, names, bufs, out, NULL));
	CHECK(out[0] == 5 && memcmp(one, "gre", 3) == 0);
	OK(daos_pool_list_attr(poh, NULL, &room, NULL));
	GIVES(room, 7);
	OK(daos_pool_del_attr(poh, 1, names, NULL));
	GIVES(daos_pool_get_attr(poh, 1, names, bufs, out, NULL), -DER_NONEXIST);
	GIVES(daos_pool_list_attr(coh, NULL, &room, NULL), -DER_NO_HDL);
	close_all();
}

static void
attributes_without_a_value_or_a_name_are_refused(void)
{
	size_t room = 0;

	open_all();
	GIVES(daos_pool_set_attr(poh, 2, names, values, nothing, NULL), -DER_INVAL);
	GIVES(daos_pool_set_attr(poh, 2, names, none, sizes, NULL), -DER_INVAL);
	GIVES(daos_pool_set_attr(poh, 2, names, none, nothing, NULL), -DER_INVAL);
	GIVES(daos_pool_set_attr(poh, 2, names, NULL, sizes, NULL), -DER_INVAL);
	GIVES(daos_pool_set_attr(poh, 2, names, values, NULL, NULL), -DER_INVAL);
	GIVES(daos_pool_set_attr(poh, 2, nameless, values, sizes, NULL), -DER_INVAL);
	OK(daos_pool_list_attr(poh, NULL, &room, NULL));
	GIVES(room, 0);
	OK(daos_pool_set_attr(poh, 1, names, values, sizes, NULL));
	GIVES(daos_pool_set_attr(poh, 1, names, values, nothing + 1, NULL), -DER_INVAL);
	OK(daos_pool_get_attr(poh, 1, names, bufs, &room, NULL));
	GIVES(room, 5);
	close_all();
}

static void
several_connections_share_a_pool(void)
{
	daos_obj_id_t oid = {.lo = 1};
	daos_handle_t other, cont, kv;

	open_all();
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RO, &other, NULL, NULL));
	OK(daos_cont_open(other, "cont", DAOS_COO_RO, &cont, NULL, NULL));
	OK(daos_cont_close(cont, NULL));

	/* What a container is opened for is its own list's, not the pool's connection's. */
	OK(daos_cont_open(other, "cont", DAOS_COO_RW, &cont, NULL, NULL));
	OK(daos_obj_generate_oid(cont, &oid, DAOS_OT_KV_HASHED, 0, 0, 0));
	OK(daos_kv_open(cont, oid, DAOS_OO_RW, &kv, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "v", NULL));
	OK(daos_kv_close(kv, NULL));
	OK(daos_cont_close(cont, NULL));
	OK(daos_pool_disconnect(other, NULL));
	close_all();
	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

#undef daos_pool_connect
int daos_pool_connect(const char *, const char *, unsigned int, daos_handle_t *, daos_pool_info_t *, daos_event_t *);

static void
both_names_connect(void)
{
	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

static void
handles_do_not_survive_a_fork(void)
{
	daos_obj_id_t oid = {.lo = 1};
	daos_handle_t kv;
	int           status;
	pid_t         child;

	open_all();
	OK(daos_obj_generate_oid2(coh, &oid, DAOS_OT_KV_HASHED, 0, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "x", NULL));
	child = fork();
	if (child == 0) {
		daos_handle_t other;

		GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "y", NULL), -DER_NO_HDL);
		GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL), -DER_UNINIT);
		OK(daos_reinit());
		GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "y", NULL), -DER_NO_HDL);
		GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL), -DER_BUSY);
		OK(daos_fini());
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "z", NULL));
	OK(daos_kv_close(kv, NULL));
	OK(daos_reinit());
	close_all();
}

static void
who_connects_exclusively_has_the_pool_alone(void)
{
	daos_handle_t alone, other;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL));
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_EX, &alone, NULL, NULL), -DER_BUSY);
	OK(daos_pool_disconnect(other, NULL));
	OK(daos_pool_connect("pool", NULL, DAOS_PC_EX, &alone, NULL, NULL));
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL), -DER_BUSY);
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RO, &other, NULL, NULL), -DER_BUSY);
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_EX, &other, NULL, NULL), -DER_BUSY);
	OK(daos_cont_create_with_label(alone, "cont", NULL, NULL, NULL));
	OK(daos_cont_open(alone, "cont", DAOS_COO_RW, &coh, NULL, NULL));
	OK(daos_cont_close(coh, NULL));
	OK(daos_pool_disconnect(alone, NULL));
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL));
	OK(daos_pool_disconnect(other, NULL));
	OK(daos_fini());
}

static void
a_pool_that_is_not_there_does_not_exist(void)
{
	daos_handle_t other;

	OK(daos_init());
	GIVES(daos_pool_connect("nope", NULL, DAOS_PC_RW, &other, NULL, NULL), -DER_NONEXIST);
	OK(daos_fini());
}

TESTS(TEST(connections_tell_the_state), TEST(wrong_connections_are_refused),
      TEST(what_cannot_be_told_changes_no_answer), TEST(properties_are_told),
      TEST(targets_are_told), TEST(containers_are_listed), TEST(attributes_are_kept),
      TEST(attributes_without_a_value_or_a_name_are_refused),
      TEST(several_connections_share_a_pool), TEST(both_names_connect), TEST(handles_do_not_survive_a_fork),
      TEST(who_connects_exclusively_has_the_pool_alone),
      TEST(a_pool_that_is_not_there_does_not_exist))
