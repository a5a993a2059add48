/* Containers. */
#include <time.h>
#include "attrs.h"

static void
labels_and_uuids_open_containers(void)
{
	uuid_t           uuid;
	char             text[DAOS_UUID_STR_SIZE];
	daos_handle_t    other;
	daos_cont_info_t info;

	open_all();
	OK(daos_cont_create_with_label(poh, "named", NULL, &uuid, NULL));
	GIVES(daos_cont_create_with_label(poh, "named", NULL, NULL, NULL), -DER_EXIST);
	GIVES(daos_cont_create_with_label(poh, "no label", NULL, NULL, NULL), -DER_INVAL);
	sprintf(text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", uuid[0], uuid[1], uuid[2],
		uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8], uuid[9], uuid[10], uuid[11], uuid[12], uuid[13],
		uuid[14], uuid[15]);
	OK(daos_cont_open(poh, text, DAOS_COO_RW, &other, &info, NULL));
	CHECK(memcmp(info.ci_uuid, uuid, 16) == 0 && info.ci_nhandles == 1 && info.ci_nsnapshots == 0);
	OK(daos_cont_close(other, NULL));
	GIVES(daos_cont_close(other, NULL), -DER_NO_HDL);
	memset(uuid, 0, sizeof(uuid));
	OK(daos_cont_create(poh, &uuid, NULL, NULL));
	CHECK((uuid[6] & 0xf0) == 0x40);
	GIVES(daos_cont_open(poh, "none", DAOS_COO_RW, &other, NULL, NULL), -DER_NONEXIST);
	GIVES(daos_cont_open(poh, "named", DAOS_COO_RW | DAOS_COO_RO, &other, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_open(poh, "named", 1u << 20 | DAOS_COO_RO, &other, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_open(coh, "named", DAOS_COO_RW, &other, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_cont_open(poh, NULL, DAOS_COO_RW, &other, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_open(poh, "named", DAOS_COO_RW, NULL, NULL, NULL), -DER_INVAL);
	close_all();
}

static void
destroyed_containers_are_gone(void)
{
	daos_handle_t other;

	open_all();
	OK(daos_cont_create_with_label(poh, "named", NULL, NULL, NULL));
	OK(daos_cont_open(poh, "named", DAOS_COO_RW, &other, NULL, NULL));
	GIVES(daos_cont_destroy(poh, "named", 0, NULL), -DER_BUSY);
	OK(daos_cont_close(other, NULL));
	OK(daos_cont_destroy(poh, "named", 0, NULL));
	GIVES(daos_cont_open(poh, "named", DAOS_COO_RW, &other, NULL, NULL), -DER_NONEXIST);
	GIVES(daos_cont_destroy(poh, "named", 1, NULL), -DER_NONEXIST);
	close_all();
}

/* Whoever may have it alone, or may not. */
static void
opens_give(int rc)
{
	unsigned int  modes[] = {DAOS_COO_RO, DAOS_COO_RW, DAOS_COO_EX};
	daos_handle_t other;
	int           i;

	for (i = 0; i < 3; i++) {
		GIVES(daos_cont_open(poh, "cont", modes[i], &other, NULL, NULL), rc);
		if (rc == 0)
			OK(daos_cont_close(other, NULL));
	}
}

static void
exclusive_opens_meet_nobody(void)
{
	daos_handle_t    other;
	daos_cont_info_t info;

	open_all();
	GIVES(daos_cont_open(poh, "cont", DAOS_COO_EX, &other, NULL, NULL), -DER_BUSY);
	OK(daos_cont_open(poh, "cont", DAOS_COO_RO, &other, NULL, NULL));
	OK(daos_cont_close(other, NULL));
	OK(daos_cont_close(coh, NULL));
	OK(daos_cont_open(poh, "cont", DAOS_COO_EX, &coh, NULL, NULL));
	opens_give(-DER_BUSY);
	GIVES(daos_cont_destroy(poh, "cont", 0, NULL), -DER_BUSY);
	OK(daos_cont_query(coh, &info, NULL, NULL));
	GIVES(info.ci_nhandles, 1);
	OK(daos_cont_close(coh, NULL));
	opens_give(0);
	OK(daos_cont_open(poh, "cont", DAOS_COO_EX, &coh, NULL, NULL));
	/* From who has it alone it is taken, too, and who takes it so has it. */
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW | DAOS_COO_EVICT, &other, NULL, NULL));
	GIVES(daos_cont_close(coh, NULL), -DER_NO_HDL);
	OK(daos_cont_open(poh, "cont", DAOS_COO_EX | DAOS_COO_EVICT_ALL, &coh, NULL, NULL));
	GIVES(daos_cont_close(other, NULL), -DER_NO_HDL);
	opens_give(-DER_BUSY);
	close_all();
}

static void
exclusive_handles_are_shared_as_bytes(void)
{
	daos_handle_t shared;
	char          buf[4096];
	d_iov_t       glob = {.iov_buf = buf, .iov_buf_len = sizeof(buf)};

	open_all();
	OK(daos_cont_close(coh, NULL));
	OK(daos_cont_open(poh, "cont", DAOS_COO_EX, &coh, NULL, NULL));
	OK(daos_cont_local2global(coh, &glob));
	OK(daos_cont_global2local(poh, glob, &shared));
	OK(daos_cont_close(coh, NULL));
	opens_give(-DER_BUSY);
	OK(daos_cont_close(shared, NULL));
	opens_give(0);
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW, &coh, NULL, NULL));
	GIVES(daos_cont_global2local(poh, glob, &shared), -DER_BUSY);
	close_all();
}

static void
evicted_handles_end_with_all_that_is_open(void)
{
	daos_handle_t    poh2, alone, other, kv, oh, ah, th, elsewhere, eq;
	daos_obj_id_t    store = {.lo = 1}, object = {.lo = 2}, array = {.lo = 3};
	daos_cont_info_t info;
	daos_event_t     ev, *done;
	daos_size_t      size = 0;

	open_all();
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh2, NULL, NULL));
	OK(daos_cont_open(poh2, "cont", DAOS_COO_RO, &other, NULL, NULL));
	OK(daos_cont_create_with_label(poh, "elsewhere", NULL, NULL, NULL));
	OK(daos_cont_open(poh, "elsewhere", DAOS_COO_RW, &elsewhere, NULL, NULL));
	OK(daos_obj_generate_oid(coh, &store, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, store, DAOS_OO_RW, &kv, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "x", NULL));
	OK(daos_obj_generate_oid(coh, &object, DAOS_OT_MULTI_HASHED, OC_SX, 0, 0));
	OK(daos_obj_open(coh, object, DAOS_OO_RW, &oh, NULL));
	OK(daos_array_generate_oid(coh, &array, true, OC_SX, 0, 0));
	OK(daos_array_create(coh, array, DAOS_TX_NONE, 4, 8, &ah, NULL));
	OK(daos_tx_open(coh, &th, 0, NULL));
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&ev, eq, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "l", 1, "y", &ev));
	GIVES(daos_cont_open(poh, "cont", DAOS_COO_EX, &alone, NULL, NULL), -DER_BUSY);
	OK(daos_cont_open(poh, "cont", DAOS_COO_EX | DAOS_COO_EVICT, &alone, &info, NULL));
	GIVES(info.ci_nhandles, 1);
	GIVES(daos_cont_query(coh, &info, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_cont_close(coh, NULL), -DER_NO_HDL);
	GIVES(daos_cont_close(other, NULL), -DER_NO_HDL);
	GIVES(daos_kv_get(kv, DAOS_TX_NONE, 0, "k", &size, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_obj_punch(oh, DAOS_TX_NONE, 0, NULL), -DER_NO_HDL);
	GIVES(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL), -DER_NO_HDL);
	GIVES(daos_tx_commit(th, NULL), -DER_NO_HDL);
	/* What was under way ends, well or not. */
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
	CHECK(done == &ev);
	OK(daos_event_fini(&ev));
	OK(daos_eq_destroy(eq, 0));
	/* Other containers, and the connections, are as they were. */
	OK(daos_cont_query(elsewhere, &info, NULL, NULL));
	OK(daos_cont_close(elsewhere, NULL));
	OK(daos_pool_disconnect(poh2, NULL));
	coh = alone;
	OK(daos_kv_open(coh, store, DAOS_OO_RO, &kv, NULL));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "k", &size, NULL, NULL));
	GIVES(size, 1);
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW | DAOS_COO_EVICT_ALL, &other, NULL, NULL));
	GIVES(daos_kv_close(kv, NULL), -DER_NO_HDL);
	coh = other;
	close_all();
}

static void
queries_count_handles_and_snapshots(void)
{
	daos_cont_info_t info;
	daos_handle_t    other;
	daos_epoch_t     epoch;

	open_all();
	OK(daos_cont_open(poh, "cont", DAOS_COO_RO, &other, NULL, NULL));
	OK(daos_cont_create_snap(coh, &epoch, NULL, NULL));
	OK(daos_cont_query(coh, &info, NULL, NULL));
	CHECK(info.ci_nhandles == 2 && info.ci_nsnapshots == 1 && info.ci_lsnapshot == epoch);
	GIVES(daos_cont_query(poh, &info, NULL, NULL), -DER_NO_HDL);
	OK(daos_cont_close(other, NULL));
	close_all();
}

static void
queries_tell_when_containers_were_opened_and_changed(void)
{
	daos_cont_info_t before, info, again;
	daos_handle_t    other;
	struct timespec  then;
	time_t           now     = time(NULL);
	const char      *name    = "k";
	const void      *value   = "v";
	size_t           size    = 1;

	open_all();
	OK(daos_cont_query(coh, &before, NULL, NULL));
	/* It was made before it was opened. */
	CHECK(before.ci_md_mtime > 0 && before.ci_md_otime > before.ci_md_mtime);
	OK(daos_hlc2timespec(before.ci_md_otime, &then));
	CHECK(then.tv_sec >= now - 1 && then.tv_sec <= time(NULL));
	OK(daos_cont_open(poh, "cont", DAOS_COO_RO, &other, &info, NULL));
	CHECK(info.ci_md_otime > before.ci_md_otime && info.ci_md_mtime == before.ci_md_mtime);
	OK(daos_cont_set_attr(coh, 1, &name, &value, &size, NULL));
	OK(daos_cont_query(coh, &again, NULL, NULL));
	CHECK(again.ci_md_otime == info.ci_md_otime && again.ci_md_mtime > info.ci_md_otime);
	OK(daos_cont_close(other, NULL));
	OK(daos_cont_query(coh, &info, NULL, NULL));
	CHECK(info.ci_md_otime == again.ci_md_otime && info.ci_md_mtime > again.ci_md_mtime);
	close_all();
}

static void
properties_are_kept(void)
{
	daos_prop_t            *prop = daos_prop_alloc(4), *found;
	struct daos_prop_entry *entry;
	daos_handle_t           other;
	struct daos_co_status   status;

	open_all();
	prop->dpp_entries[0].dpe_type = DAOS_PROP_CO_LAYOUT_TYPE;
	prop->dpp_entries[0].dpe_val  = DAOS_PROP_CO_LAYOUT_HDF5;
	prop->dpp_entries[1].dpe_type = DAOS_PROP_CO_CSUM;
	prop->dpp_entries[1].dpe_val  = DAOS_PROP_CO_CSUM_CRC32;
	prop->dpp_entries[2].dpe_type = DAOS_PROP_CO_LABEL;
	OK(daos_prop_entry_set_str(&prop->dpp_entries[2], "propped", strlen("propped")));
	prop->dpp_entries[3].dpe_type = DAOS_PROP_CO_ALLOCED_OID;
	prop->dpp_entries[3].dpe_val  = 5000;
	OK(daos_cont_create(poh, NULL, prop, NULL));
	daos_prop_free(prop);
	OK(daos_cont_open(poh, "propped", DAOS_COO_RW, &other, NULL, NULL));
	prop = daos_prop_alloc(0);
	OK(daos_cont_query(other, NULL, prop, NULL));
	CHECK(prop->dpp_nr >= DAOS_PROP_CO_NUM);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_LAYOUT_TYPE)->dpe_val == DAOS_PROP_CO_LAYOUT_HDF5);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_CSUM)->dpe_val == DAOS_PROP_CO_CSUM_CRC32);
	CHECK(strcmp(daos_prop_entry_get(prop, DAOS_PROP_CO_LABEL)->dpe_str, "propped") == 0);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_COMPRESS)->dpe_val == DAOS_PROP_CO_COMPRESS_OFF);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_ENCRYPT)->dpe_val == DAOS_PROP_CO_ENCRYPT_OFF);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_DEDUP)->dpe_val == DAOS_PROP_CO_DEDUP_OFF);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_ALLOCED_OID)->dpe_val >= 5000);
	CHECK(((struct daos_acl *)daos_prop_entry_get(prop, DAOS_PROP_CO_ACL)->dpe_val_ptr)->dal_len > 0);
	CHECK(strchr(daos_prop_entry_get(prop, DAOS_PROP_CO_OWNER)->dpe_str, '@') != NULL);
	daos_prop_val_2_co_status(daos_prop_entry_get(prop, DAOS_PROP_CO_STATUS)->dpe_val, &status);
	CHECK(status.dcs_status == DAOS_PROP_CO_HEALTHY);
	daos_prop_free(prop);

	found                          = daos_prop_alloc(1);
	found->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
	OK(daos_prop_set_str(found, DAOS_PROP_CO_LABEL, "renamed", 7));
	OK(daos_cont_set_prop(other, found, NULL));
	entry = &found->dpp_entries[0];
	free(entry->dpe_str);
	entry->dpe_str = NULL;
	OK(daos_cont_query(other, NULL, found, NULL));
	CHECK(strcmp(entry->dpe_str, "renamed") == 0);
	daos_prop_free(found);
	found                          = daos_prop_alloc(1);
	found->dpp_entries[0].dpe_type = DAOS_PROP_CO_COMPRESS;
	found->dpp_entries[0].dpe_val  = DAOS_PROP_CO_COMPRESS_LZ4;
	GIVES(daos_cont_set_prop(other, found, NULL), -DER_INVAL);
	found->dpp_entries[0].dpe_type = DAOS_PROP_PO_RECLAIM;
	GIVES(daos_cont_query(other, NULL, found, NULL), -DER_NONEXIST);
	daos_prop_free(found);
	GIVES(daos_cont_set_prop(other, NULL, NULL), -DER_INVAL);
	OK(daos_cont_status_clear(other, NULL));
	GIVES(daos_cont_status_clear(poh, NULL), -DER_NO_HDL);
	OK(daos_cont_close(other, NULL));
	OK(daos_cont_open(poh, "renamed", DAOS_COO_RW, &other, NULL, NULL));
	OK(daos_cont_close(other, NULL));
	close_all();
}

static void
attributes_are_kept(void)
{
	size_t out[2] = {sizeof(one), sizeof(two)}, room = 0;
	char   all[32];

	open_all();
	OK(daos_cont_set_attr(coh, 2, names, values, sizes, NULL));
	OK(daos_cont_get_attr(coh, 2, names, bufs, out, NULL));
	CHECK(out[0] == 5 && memcmp(one, "gre", 3) == 0 && out[1] == 1 && two[0] == '7');
	OK(daos_cont_get_attr(coh, 1, names, NULL, out, NULL));
	CHECK(out[0] == 5);
	OK(daos_cont_list_attr(coh, NULL, &room, NULL));
	GIVES(room, 13);
	room = sizeof(all);
	OK(daos_cont_list_attr(coh, all, &room, NULL));
	CHECK(room == 13 && memcmp(all, "colour\0depth\0", 13) == 0);
	memset(all, 'x', sizeof(all));
	room = 8;
	OK(daos_cont_list_attr(coh, all, &room, NULL));
	CHECK(room == 13 && memcmp(all, "colour\0x", 8) == 0);
	GIVES(daos_cont_get_attr(coh, 1, unknown, bufs, out, NULL), -DER_NONEXIST);
	OK(daos_cont_del_attr(coh, 1, names, NULL));
	OK(daos_cont_del_attr(coh, 1, unknown, NULL));
	GIVES(daos_cont_get_attr(coh, 1, names, bufs, out, NULL), -DER_NONEXIST);
	GIVES(daos_cont_set_attr(coh, 0, names, values, sizes, NULL), -DER_INVAL);
	GIVES(daos_cont_set_attr(coh, 1, NULL, values, sizes, NULL), -DER_INVAL);
	GIVES(daos_cont_get_attr(coh, -1, names, bufs, out, NULL), -DER_INVAL);
	close_all();
}

static void
attributes_without_a_value_or_a_name_are_refused(void)
{
	size_t room = 0;

	open_all();
	GIVES(daos_cont_set_attr(coh, 2, names, values, nothing, NULL), -DER_INVAL);
	GIVES(daos_cont_set_attr(coh, 2, names, none, sizes, NULL), -DER_INVAL);
	GIVES(daos_cont_set_attr(coh, 2, names, none, nothing, NULL), -DER_INVAL);
	GIVES(daos_cont_set_attr(coh, 2, names, NULL, sizes, NULL), -DER_INVAL);
	GIVES(daos_cont_set_attr(coh, 2, names, values, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_set_attr(coh, 2, nameless, values, sizes, NULL), -DER_INVAL);
	/* Nor is the other one set. */
	OK(daos_cont_list_attr(coh, NULL, &room, NULL));
	GIVES(room, 0);
	/* A value that is there stays, and room for nothing asks for its size. */
	OK(daos_cont_set_attr(coh, 1, names, values, sizes, NULL));
	GIVES(daos_cont_set_attr(coh, 1, names, values, nothing + 1, NULL), -DER_INVAL);
	OK(daos_cont_get_attr(coh, 1, names, bufs, &room, NULL));
	GIVES(room, 5);
	close_all();
}

static void
object_numbers_are_unique(void)
{
	uint64_t first = 0, next = 0;

	open_all();
	OK(daos_cont_alloc_oids(coh, 10, &first, NULL));
	OK(daos_cont_alloc_oids(coh, 1, &next, NULL));
	CHECK(next >= first + 10);
	GIVES(daos_cont_alloc_oids(coh, 0, &next, NULL), -DER_INVAL);
	GIVES(daos_cont_alloc_oids(coh, 1, NULL, NULL), -DER_INVAL);
	close_all();
}

static void
owners_and_access_are_changed(void)
{
	const char      *strs[2] = {"A::OWNER@:rwdtTaAo", "A::EVERYONE@:r"}, *more[1] = {"A::ann@:rw"};
	struct daos_acl *acl;
	daos_prop_t     *prop;
	uint64_t         perms;
	char           **texts;
	size_t           nr, i;

	open_all();
	OK(daos_acl_from_strs(strs, 2, &acl));
	OK(daos_cont_overwrite_acl(coh, acl, NULL));
	daos_acl_free(acl);
	OK(daos_acl_from_strs(more, 1, &acl));
	OK(daos_cont_update_acl(coh, acl, NULL));
	daos_acl_free(acl);
	OK(daos_cont_delete_acl(coh, DAOS_ACL_EVERYONE, NULL, NULL));
	GIVES(daos_cont_delete_acl(coh, DAOS_ACL_EVERYONE, NULL, NULL), -DER_NONEXIST);
	GIVES(daos_cont_delete_acl(coh, 77, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_overwrite_acl(coh, NULL, NULL), -DER_INVAL);
	OK(daos_cont_set_owner_no_check(coh, "strange@", "folk@lab", NULL));
	GIVES(daos_cont_set_owner(coh, "strange@", NULL, NULL), -DER_NONEXIST);
	OK(daos_cont_set_owner(coh, "root@", NULL, NULL));
	GIVES(daos_cont_set_owner(coh, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_set_owner(coh, "nobody here", NULL, NULL), -DER_INVAL);
	OK(daos_cont_get_acl(coh, &prop, NULL));
	CHECK(strcmp(daos_prop_entry_get(prop, DAOS_PROP_CO_OWNER)->dpe_str, "root@") == 0);
	CHECK(strcmp(daos_prop_entry_get(prop, DAOS_PROP_CO_OWNER_GROUP)->dpe_str, "folk@lab") == 0);
	OK(daos_acl_to_strs(daos_prop_entry_get(prop, DAOS_PROP_CO_ACL)->dpe_val_ptr, &texts, &nr));
	CHECK(nr == 2 && strcmp(texts[0], strs[0]) == 0 && strcmp(texts[1], more[0]) == 0);
	for (i = 0; i < nr; i++)
		free(texts[i]);
	free(texts);
	OK(daos_cont_get_perms(prop, 0, NULL, 0, &perms));
	CHECK(perms == DAOS_ACL_PERM_CONT_ALL);
	GIVES(daos_cont_get_perms(NULL, 0, NULL, 0, &perms), -DER_INVAL);
	daos_prop_free(prop);
	close_all();
}

static void
some_things_do_not_exist(void)
{
	daos_epoch_t epoch;

	open_all();
	GIVES(daos_cont_subscribe(coh, &epoch, NULL), -DER_NOSYS);
	GIVES(daos_cont_subscribe(poh, &epoch, NULL), -DER_NO_HDL);
	OK(daos_cont_aggregate(coh, DAOS_EPOCH_MAX, NULL));
	GIVES(daos_cont_aggregate(poh, DAOS_EPOCH_MAX, NULL), -DER_NO_HDL);
	close_all();
}

#undef daos_cont_create
#undef daos_cont_open
#undef daos_cont_destroy
int daos_cont_create(daos_handle_t, uuid_t *, daos_prop_t *, daos_event_t *);
int daos_cont_open(daos_handle_t, const char *, unsigned int, daos_handle_t *, daos_cont_info_t *, daos_event_t *);
int daos_cont_destroy(daos_handle_t, const char *, int, daos_event_t *);

static void
the_old_names_work_too(void)
{
	daos_handle_t other;
	daos_size_t   nr = 0;

	open_all();
	OK(daos_cont_create(poh, NULL, NULL, NULL));
	OK(daos_pool_list_cont(poh, &nr, NULL, NULL));
	GIVES(nr, 2);
	OK(daos_cont_open(poh, "cont", DAOS_COO_RO, &other, NULL, NULL));
	OK(daos_cont_close(other, NULL));
	OK(daos_cont_destroy(poh, "cont", 1, NULL));
	GIVES(daos_cont_open(poh, "cont", DAOS_COO_RO, &other, NULL, NULL), -DER_NONEXIST);
	OK(daos_fini());
}

TESTS(TEST(labels_and_uuids_open_containers), TEST(destroyed_containers_are_gone), TEST(exclusive_opens_meet_nobody),
      TEST(exclusive_handles_are_shared_as_bytes),
      TEST(evicted_handles_end_with_all_that_is_open),
      TEST(queries_count_handles_and_snapshots),
      TEST(queries_tell_when_containers_were_opened_and_changed), TEST(properties_are_kept), TEST(attributes_are_kept),
      TEST(attributes_without_a_value_or_a_name_are_refused),
      TEST(object_numbers_are_unique), TEST(owners_and_access_are_changed), TEST(some_things_do_not_exist),
      TEST(the_old_names_work_too))
