/* Questions to pools, containers and systems that are under way until somebody polls. */
#include <sys/wait.h>
#include "still.h"

static void
free_ranks(d_rank_list_t *list)
{
	free(list->rl_ranks);
	free(list);
}

#define POOLS 8

static const char *const names[]  = {"colour", "weight"};
static const char       *stored[] = {"grey", "40 t"};
static const size_t      lens[]   = {4, 4};

static void
write_uuid(const unsigned char *uuid, char *text)
{
	int i;

	for (i = 0; i < 16; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static void
begin(void)
{
	open_all();
	begin_events();
}

static void
end(void)
{
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	close_all();
}

static void
pools_are_asked_when_somebody_polls(void)
{
	daos_pool_info_t      info   = {.pi_bits = DPI_SPACE};
	daos_target_info_t    target = {0};
	d_rank_list_t        *ranks  = NULL;
	daos_size_t           count = 4, pools = POOLS;
	struct daos_pool_cont_info conts[4];
	daos_mgmt_pool_info_t known[POOLS] = {0};
	char                  list[64] = {0}, value[8] = {0};
	size_t                room = sizeof(list), size = sizeof(value);
	void                 *values[] = {value};

	begin();
	OK(daos_pool_set_attr(poh, 1, names, (const void *const *)stored, lens, NULL));
	stand_still();
	OK(daos_pool_query(poh, &ranks, &info, NULL, next()));
	OK(daos_pool_query_target(poh, 1, 0, &target, next()));
	OK(daos_pool_list_cont(poh, &count, conts, next()));
	OK(daos_pool_list_attr(poh, list, &room, next()));
	OK(daos_pool_get_attr(poh, 1, names, values, &size, next()));
	OK(daos_pool_set_attr(poh, 1, names + 1, (const void *const *)stored + 1, lens, next()));
	if (daemon_pid > 0)
		OK(daos_mgmt_list_pools(NULL, &pools, known, next()));
	CHECK(ranks == NULL && info.pi_ntargets == 0 && count == 4 && room == sizeof(list) && size == sizeof(value));
	finish();
	all_well();
	CHECK(ranks != NULL && ranks->rl_nr == 1 && info.pi_ntargets == 2 && info.pi_space.ps_space.s_total[0] > 0);
	CHECK(target.ta_space.s_total[0] > 0 && count == 1 && strcmp(conts[0].pci_label, "cont") == 0);
	CHECK(strcmp(list, "colour") == 0 && size == 4 && memcmp(value, "grey", 4) == 0);
	CHECK(daemon_pid == 0 || (pools == 1 && strcmp(known[0].mgpi_label, "pool") == 0));
	if (daemon_pid > 0) {
		free(known[0].mgpi_label);
		free_ranks(known[0].mgpi_svc);
	}
	free_ranks(ranks);
	stand_still();
	room = sizeof(list);
	OK(daos_pool_list_attr(poh, list, &room, next()));
	finish();
	CHECK(room == strlen("colour") + strlen("weight") + 2);
	stand_still();
	OK(daos_pool_del_attr(poh, 2, names, next()));
	finish();
	all_well();
	room = sizeof(list);
	OK(daos_pool_list_attr(poh, list, &room, NULL));
	GIVES(room, 0);
	end();
}

static void
containers_are_made_opened_and_ended_when_somebody_polls(void)
{
	daos_handle_t    other = {0}, again = {0};
	daos_cont_info_t info = {0}, opened = {0};
	uuid_t           made = {0}, none = {0}, labelled = {0};
	char             label[] = "second", text[40];

	begin();
	stand_still();
	OK(daos_cont_create(poh, &made, NULL, next()));
	OK(daos_cont_create_with_label(poh, label, NULL, &labelled, next()));
	/* What a call is given is read before it returns. */
	memset(label, 'x', sizeof(label) - 1);
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW, &other, &opened, next()));
	OK(daos_cont_query(coh, &info, NULL, next()));
	CHECK(memcmp(made, none, sizeof(none)) == 0 && other.cookie == 0 && info.ci_nhandles == 0);
	finish();
	all_well();
	CHECK(memcmp(made, none, sizeof(none)) != 0 && memcmp(labelled, none, sizeof(none)) != 0);
	CHECK(memcmp(info.ci_uuid, opened.ci_uuid, sizeof(none)) == 0 && info.ci_nhandles > 0);
	/* One that is there already, one that is not, and one that is open. */
	stand_still();
	OK(daos_cont_create_with_label(poh, "second", NULL, NULL, next()));
	OK(daos_cont_open(poh, "third", DAOS_COO_RW, &again, NULL, next()));
	OK(daos_cont_destroy(poh, "cont", 0, next()));
	finish();
	GIVES(evs[0].ev_error, -DER_EXIST);
	GIVES(evs[1].ev_error, -DER_NONEXIST);
	GIVES(evs[2].ev_error, -DER_BUSY);
	CHECK(again.cookie == 0);
	write_uuid(made, text);
	stand_still();
	OK(daos_cont_close(other, next()));
	GIVES(daos_cont_query(other, NULL, NULL, NULL), -DER_NO_HDL);
	OK(daos_cont_destroy(poh, text, 0, next()));
	OK(daos_cont_destroy(poh, "second", 1, next()));
	finish();
	all_well();
	OK(daos_cont_query(coh, &info, NULL, NULL));
	GIVES(info.ci_nhandles, 1);
	GIVES(daos_cont_open(poh, text, DAOS_COO_RO, &other, NULL, NULL), -DER_NONEXIST);
	GIVES(daos_cont_open(poh, "second", DAOS_COO_RO, &other, NULL, NULL), -DER_NONEXIST);
	end();
}

static void
what_a_container_is_said_to_be_changes_when_somebody_polls(void)
{
	daos_prop_t     *prop = daos_prop_alloc(1), *asked = daos_prop_alloc(1), *acl = NULL;
	char             list[64] = {0}, value[8] = {0};
	size_t           room = sizeof(list), size = sizeof(value);
	void            *values[] = {value};
	uint64_t         first = 0, second = 0;

	begin();
	OK(daos_cont_set_attr(coh, 1, names, (const void *const *)stored, lens, NULL));
	prop->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
	prop->dpp_entries[0].dpe_str  = strdup("renamed");
	asked->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
	stand_still();
	OK(daos_cont_set_prop(coh, prop, next()));
	OK(daos_cont_status_clear(coh, next()));
	OK(daos_cont_get_acl(coh, &acl, next()));
	OK(daos_cont_list_attr(coh, list, &room, next()));
	OK(daos_cont_get_attr(coh, 1, names, values, &size, next()));
	OK(daos_cont_alloc_oids(coh, 5, &first, next()));
	OK(daos_cont_alloc_oids(coh, 5, &second, next()));
	OK(daos_cont_delete_acl(coh, DAOS_ACL_USER, "nobody@", next()));
	CHECK(acl == NULL && room == sizeof(list) && first == second);
	finish();
	GIVES(evs[launched - 1].ev_error, -DER_NONEXIST);
	evs[launched - 1].ev_error = 0;
	all_well();
	CHECK(acl != NULL && strcmp(list, "colour") == 0 && size == 4 && memcmp(value, "grey", 4) == 0);
	CHECK(first + 5 <= second || second + 5 <= first);
	stand_still();
	OK(daos_cont_query(coh, NULL, asked, next()));
	OK(daos_cont_update_acl(coh, acl->dpp_entries[0].dpe_val_ptr, next()));
	OK(daos_cont_del_attr(coh, 1, names, next()));
	finish();
	all_well();
	CHECK(strcmp(asked->dpp_entries[0].dpe_str, "renamed") == 0);
	stand_still();
	OK(daos_cont_overwrite_acl(coh, acl->dpp_entries[0].dpe_val_ptr, next()));
	OK(daos_cont_set_owner_no_check(coh, "somebody@", NULL, next()));
	OK(daos_cont_list_attr(coh, list, &room, next()));
	finish();
	all_well();
	GIVES(room, 0);
	daos_prop_free(prop);
	daos_prop_free(asked);
	daos_prop_free(acl);
	end();
}

static void
snapshots_are_made_listed_and_ended_when_somebody_polls(void)
{
	daos_epoch_t       one = 0, two = 0, epochs[4];
	daos_epoch_range_t range;
	daos_handle_t      kv, table = {0}, th = {0};
	daos_obj_id_t      oid = {.lo = 3}, found[4], unmarked[4];
	uint32_t           nr = 4, nr_unmarked = 4;
	int                count = 4;
	daos_anchor_t      anchor = {0}, anchors[2] = {0};
	d_iov_t            mark;
	daos_size_t        size = 0;

	begin();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "a", 1, "1", NULL));
	stand_still();
	OK(daos_cont_create_snap(coh, &one, "first", next()));
	CHECK(one == 0);
	finish();
	all_well();
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "a", 3, "333", NULL));
	stand_still();
	OK(daos_cont_create_snap_opt(coh, &two, NULL, DAOS_SNAP_OPT_CR | DAOS_SNAP_OPT_OIT, next()));
	OK(daos_oit_open(coh, one, &table, next()));
	OK(daos_cont_snap_oit_create(coh, 0, "first", next()));
	OK(daos_tx_open(coh, &th, 0, next()));
	OK(daos_cont_aggregate(coh, 0, next()));
	CHECK(two == 0 && table.cookie == 0 && th.cookie == 0);
	finish();
	all_well();
	CHECK(one < two);
	d_iov_set(&mark, "done", 4);
	stand_still();
	OK(daos_oit_mark(table, oid, &mark, next()));
	OK(daos_cont_list_snap(coh, &count, epochs, NULL, &anchor, next()));
	OK(daos_tx_restart(th, next()));
	finish();
	all_well();
	CHECK(count == 2 && epochs[0] == one && epochs[1] == two);
	stand_still();
	OK(daos_oit_list(table, found, &nr, &anchors[0], next()));
	OK(daos_oit_list_unmarked(table, unmarked, &nr_unmarked, &anchors[1], next()));
	CHECK(nr == 4);
	finish();
	all_well();
	CHECK(nr == 1 && found[0].lo == oid.lo && nr_unmarked == 0);
	OK(daos_tx_close(th, NULL));
	stand_still();
	OK(daos_cont_snap_oit_destroy(coh, table, next()));
	OK(daos_cont_rollback(coh, one, next()));
	finish();
	all_well();
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "a", &size, NULL, NULL));
	GIVES(size, 1);
	OK(daos_oit_close(table, NULL));
	range.epr_lo = two;
	range.epr_hi = two;
	stand_still();
	OK(daos_cont_destroy_snap(coh, range, next()));
	finish();
	all_well();
	count  = 4;
	memset(&anchor, 0, sizeof(anchor));
	OK(daos_cont_list_snap(coh, &count, epochs, NULL, &anchor, NULL));
	CHECK(count == 1 && epochs[0] == one);
	OK(daos_kv_close(kv, NULL));
	end();
}

static void
arrays_are_made_and_opened_when_somebody_polls(void)
{
	daos_obj_id_t oid = {.lo = 4}, other = {.lo = 5};
	daos_handle_t ah = {0}, again = {0}, none = {0};
	daos_size_t   cell = 0, chunk = 0;

	begin();
	OK(daos_array_generate_oid(coh, &oid, true, OC_SX, 0, 0));
	OK(daos_array_generate_oid(coh, &other, true, OC_SX, 0, 0));
	stand_still();
	OK(daos_array_create(coh, oid, DAOS_TX_NONE, 4, 8, &ah, next()));
	OK(daos_array_open(coh, other, DAOS_TX_NONE, DAOS_OO_RW, &cell, &chunk, &none, next()));
	CHECK(ah.cookie == 0);
	finish();
	GIVES(evs[0].ev_error, 0);
	GIVES(evs[1].ev_error, -DER_NONEXIST);
	CHECK(ah.cookie != 0 && none.cookie == 0);
	stand_still();
	OK(daos_array_create(coh, oid, DAOS_TX_NONE, 4, 8, &none, next()));
	OK(daos_array_open(coh, oid, DAOS_TX_NONE, DAOS_OO_RW, &cell, &chunk, &again, next()));
	finish();
	GIVES(evs[0].ev_error, -DER_EXIST);
	GIVES(evs[1].ev_error, 0);
	CHECK(cell == 4 && chunk == 8 && none.cookie == 0);
	OK(daos_array_close(ah, NULL));
	OK(daos_array_close(again, NULL));
	end();
}

static void
pools_are_connected_to_and_left_when_somebody_polls(void)
{
	daos_handle_t    first = {0}, second = {0}, none = {0};
	daos_pool_info_t info = {.pi_bits = DPI_ALL};
	char             label[] = "pool";

	/* Nothing is connected yet: the way to the daemon is made, too. */
	OK(daos_init());
	begin_events();
	stand_still();
	OK(daos_pool_connect(label, NULL, DAOS_PC_RW, &first, &info, next()));
	memset(label, 'x', 4);
	if (daemon_pid > 0)
		OK(daos_pool_connect("nowhere", NULL, DAOS_PC_RW, &none, NULL, next()));
	CHECK(first.cookie == 0 && info.pi_ntargets == 0);
	finish();
	GIVES(evs[0].ev_error, 0);
	GIVES(evs[1].ev_error, daemon_pid > 0 ? -DER_NONEXIST : 0);
	CHECK(first.cookie != 0 && none.cookie == 0 && info.pi_ntargets == 2);
	stand_still();
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RO, &second, NULL, next()));
	finish();
	all_well();
	OK(daos_cont_create_with_label(first, "cont", NULL, NULL, NULL));
	if (daemon_pid > 0) {
		stand_still();
		OK(daos_pool_disconnect(first, next()));
		GIVES(daos_pool_query(first, NULL, NULL, NULL, NULL), -DER_NO_HDL);
		finish();
		all_well();
	} else {
		OK(daos_pool_disconnect(first, NULL));
	}
	OK(daos_cont_open(second, "cont", DAOS_COO_RO, &coh, NULL, NULL));
	GIVES(daos_pool_disconnect(second, NULL), -DER_BUSY);
	OK(daos_cont_close(coh, NULL));
	OK(daos_pool_disconnect(second, NULL));
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	OK(daos_fini());
}

static int called, calls;

static int
count_call(void *argument, daos_event_t *ev, int error)
{
	CHECK(argument == &called && ev != NULL);
	called = error;
	calls++;
	return 0;
}

static void
questions_have_parents_callbacks_and_an_end(void)
{
	daos_event_t     parent, children[2];
	daos_handle_t    other = {0}, mine;
	daos_cont_info_t info = {0};
	uint64_t         first = 0;
	bool             flag;
	int              i;

	begin();
	OK(daos_event_init(&parent, eq, NULL));
	for (i = 0; i < 2; i++)
		OK(daos_event_init(&children[i], eq, &parent));
	OK(daos_event_register_comp_cb(&parent, count_call, &called));
	stand_still();
	OK(daos_cont_query(coh, &info, NULL, &children[0]));
	OK(daos_cont_open(poh, "nowhere", DAOS_COO_RO, &other, NULL, &children[1]));
	OK(daos_event_parent_barrier(&parent));
	OK(daos_event_test(&parent, DAOS_EQ_NOWAIT, &flag));
	CHECK(daemon_pid == 0 || (!flag && calls == 0));
	OK(daos_event_abort(&parent));
	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
	while (!flag)
		OK(daos_event_test(&parent, DAOS_EQ_WAIT, &flag));
	GIVES(parent.ev_error, -DER_NONEXIST);
	CHECK(calls == 1 && called == -DER_NONEXIST && info.ci_nhandles == 1 && other.cookie == 0);
	OK(daos_event_fini(&parent));
	/* An event that is under way is not launched again, and stays; by force its queue ends it. */
	OK(daos_eq_create(&mine));
	OK(daos_event_init(&parent, mine, NULL));
	OK(daos_cont_alloc_oids(coh, 3, &first, &parent));
	GIVES(daos_cont_query(coh, &info, NULL, &parent), -DER_NO_PERM);
	GIVES(daos_event_fini(&parent), -DER_BUSY);
	GIVES(daos_eq_destroy(mine, 0), -DER_BUSY);
	OK(daos_eq_destroy(mine, DAOS_EQ_DESTROY_FORCE));
	CHECK(parent.ev_error == 0);
	/* So does one without a queue, and one that nobody looked at. */
	OK(daos_event_init(&parent, (daos_handle_t){0}, NULL));
	OK(daos_cont_query(coh, &info, NULL, &parent));
	OK(daos_event_test(&parent, DAOS_EQ_WAIT, &flag));
	CHECK(flag && parent.ev_error == 0);
	OK(daos_event_fini(&parent));
	end();
}

/* All are removed or none, in one request: the second call removes one between the look of the first and its request. */
static void
names_are_removed_although_another_removes_one_of_them(void)
{
	daos_event_t *done[EVENTS];
	size_t        room = 0;
	int           seen = 0;

	begin();
	OK(daos_cont_set_attr(coh, 2, names, (const void *const *)stored, lens, NULL));
	OK(daos_pool_set_attr(poh, 2, names, (const void *const *)stored, lens, NULL));
	OK(daos_cont_del_attr(coh, 2, names, next()));
	OK(daos_pool_del_attr(poh, 2, names, next()));
	OK(daos_cont_del_attr(coh, 1, names, NULL));
	OK(daos_pool_del_attr(poh, 1, names, NULL));
	while (seen < launched)
		seen += daos_eq_poll(eq, 1, DAOS_EQ_WAIT, EVENTS, done);
	all_well();
	OK(daos_cont_list_attr(coh, NULL, &room, NULL));
	GIVES(room, 0);
	OK(daos_pool_list_attr(poh, NULL, &room, NULL));
	GIVES(room, 0);
	end();
}

static void
a_forked_child_leaves_questions_to_its_parent(void)
{
	daos_cont_info_t info = {0};
	int              status;
	pid_t            child;

	begin();
	stand_still();
	OK(daos_cont_query(coh, &info, NULL, next()));
	child = fork();
	if (child == 0) {
		daos_event_t *done[1];

		GIVES(daos_eq_poll(eq, 1, DAOS_EQ_NOWAIT, 1, done), -DER_NO_HDL);
		_exit(info.ci_nhandles == 0 ? 0 : 1);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	finish();
	all_well();
	GIVES(info.ci_nhandles, 1);
	end();
}

TESTS(TEST(pools_are_asked_when_somebody_polls), TEST(containers_are_made_opened_and_ended_when_somebody_polls),
      TEST(what_a_container_is_said_to_be_changes_when_somebody_polls),
      TEST(snapshots_are_made_listed_and_ended_when_somebody_polls), TEST(arrays_are_made_and_opened_when_somebody_polls),
      TEST(pools_are_connected_to_and_left_when_somebody_polls), TEST(questions_have_parents_callbacks_and_an_end),
      TEST(names_are_removed_although_another_removes_one_of_them), TEST(a_forked_child_leaves_questions_to_its_parent))
