/* What is refused: handles that no call has given out, and nothing where something is needed. */
#include "harness.h"

static daos_anchor_t    anchor;
static daos_key_desc_t  kds[2];
static daos_range_t     range = {.rg_len = 1};
static daos_array_iod_t iod   = {.arr_nr = 1, .arr_rgs = &range};
static d_iov_t          iov;
static d_sg_list_t      sgl  = {.sg_nr = 1, .sg_iovs = &iov};
static const char      *name = "n";

static void
objects_of_no_handle_are_refused(void)
{
	char        memory[64];
	uint32_t    nr = 2;
	daos_size_t size;
	daos_key_t  key;
	daos_recx_t recx;
	daos_epoch_t epoch;

	open_all();
	d_iov_set(&iov, memory, sizeof(memory));
	d_iov_set(&key, "k", 1);
	GIVES(daos_obj_list_dkey(NO_HANDLE, DAOS_TX_NONE, &nr, kds, &sgl, &anchor, NULL), -DER_NO_HDL);
	GIVES(daos_obj_list_akey(NO_HANDLE, DAOS_TX_NONE, &key, &nr, kds, &sgl, &anchor, NULL), -DER_NO_HDL);
	GIVES(daos_obj_list_recx(NO_HANDLE, DAOS_TX_NONE, &key, &key, &size, &nr, &recx, NULL, &anchor, true, NULL),
	      -DER_NO_HDL);
	GIVES(daos_obj_punch_akeys(NO_HANDLE, DAOS_TX_NONE, 0, &key, 1, &key, NULL), -DER_NO_HDL);
	GIVES(daos_obj_query_max_epoch(NO_HANDLE, DAOS_TX_NONE, &epoch, NULL), -DER_NO_HDL);
	GIVES(daos_obj_anchor_split(NO_HANDLE, &nr, &anchor), -DER_NO_HDL);
	GIVES(daos_kv_list(NO_HANDLE, DAOS_TX_NONE, &nr, kds, &sgl, &anchor, NULL), -DER_NO_HDL);
	GIVES(daos_kv_destroy(NO_HANDLE, DAOS_TX_NONE, NULL), -DER_NO_HDL);
	GIVES(daos_array_destroy(NO_HANDLE, DAOS_TX_NONE, NULL), -DER_NO_HDL);
	GIVES(daos_array_punch(NO_HANDLE, DAOS_TX_NONE, &iod, NULL), -DER_NO_HDL);
	GIVES(daos_array_set_size(NO_HANDLE, DAOS_TX_NONE, 1, NULL), -DER_NO_HDL);
	GIVES(daos_array_close(NO_HANDLE, NULL), -DER_NO_HDL);
	GIVES(daos_eq_query(NO_HANDLE, DAOS_EQR_ALL, 0, NULL), -DER_NO_HDL);
	GIVES(daos_array_get_attr(NO_HANDLE, &size, &size), -DER_NO_HDL);
	GIVES(daos_array_stat(NO_HANDLE, DAOS_TX_NONE, (daos_array_stbuf_t *)memory, NULL), -DER_NO_HDL);
	GIVES(daos_oit_list_unmarked(NO_HANDLE, (daos_obj_id_t *)memory, &nr, &anchor, NULL), -DER_NO_HDL);
	close_all();
}

static void
containers_of_no_handle_are_refused(void)
{
	daos_epoch_t    epoch;
	daos_prop_t    *prop;
	daos_handle_t   th;
	size_t          size = 2, sizes[1] = {1};
	const void     *values[1] = {name};
	struct daos_acl *acl = daos_acl_create(NULL, 0);
	int             nr   = 1;

	open_all();
	GIVES(daos_cont_create(NO_HANDLE, NULL, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_cont_del_attr(NO_HANDLE, 1, &name, NULL), -DER_NO_HDL);
	GIVES(daos_cont_list_attr(NO_HANDLE, NULL, &size, NULL), -DER_NO_HDL);
	GIVES(daos_cont_get_acl(NO_HANDLE, &prop, NULL), -DER_NO_HDL);
	GIVES(daos_cont_update_acl(NO_HANDLE, acl, NULL), -DER_NO_HDL);
	GIVES(daos_cont_list_snap(NO_HANDLE, &nr, &epoch, NULL, &anchor, NULL), -DER_NO_HDL);
	GIVES(daos_cont_local2global(NO_HANDLE, &iov), -DER_NO_HDL);
	GIVES(daos_cont_set_owner_no_check(NO_HANDLE, "u@", NULL, NULL), -DER_NO_HDL);
	GIVES(daos_cont_snap_oit_destroy(NO_HANDLE, coh, NULL), -DER_NO_HDL);
	GIVES(daos_cont_snap_oit_destroy(coh, NO_HANDLE, NULL), -DER_NO_HDL);
	GIVES(daos_pool_del_attr(NO_HANDLE, 1, &name, NULL), -DER_NO_HDL);
	GIVES(daos_pool_set_attr(NO_HANDLE, 1, &name, values, sizes, NULL), -DER_NO_HDL);
	GIVES(daos_tx_open_snap(NO_HANDLE, 1, &th, NULL), -DER_NO_HDL);
	daos_acl_free(acl);
	close_all();
}

static void
nothing_is_refused_where_something_is_needed(void)
{
	daos_handle_t oh, kv, ah;
	daos_obj_id_t oid = {.lo = 1}, store = {.lo = 2}, array = {.lo = 3};
	daos_key_t    key;
	uint32_t      nr = 2;

	open_all();
	d_iov_set(&key, "k", 1);
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_S1, 0, 0));
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &oh, NULL));
	OK(daos_obj_generate_oid(coh, &store, DAOS_OT_KV_HASHED, OC_S1, 0, 0));
	OK(daos_kv_open(coh, store, DAOS_OO_RW, &kv, NULL));
	OK(daos_array_generate_oid(coh, &array, true, OC_S1, 0, 0));
	OK(daos_array_create(coh, array, DAOS_TX_NONE, 1, 8, &ah, NULL));
	GIVES(daos_obj_list_dkey(oh, DAOS_TX_NONE, NULL, kds, &sgl, &anchor, NULL), -DER_INVAL);
	GIVES(daos_obj_list_dkey(oh, DAOS_TX_NONE, &nr, kds, NULL, &anchor, NULL), -DER_INVAL);
	GIVES(daos_obj_list_akey(oh, DAOS_TX_NONE, NULL, &nr, kds, &sgl, &anchor, NULL), -DER_INVAL);
	GIVES(daos_obj_list_recx(oh, DAOS_TX_NONE, &key, NULL, NULL, &nr, NULL, NULL, &anchor, true, NULL), -DER_INVAL);
	GIVES(daos_obj_punch_akeys(oh, DAOS_TX_NONE, 0, &key, 0, &key, NULL), -DER_INVAL);
	GIVES(daos_obj_punch_akeys(oh, DAOS_TX_NONE, 0, &key, 1, NULL, NULL), -DER_INVAL);
	GIVES(daos_obj_query_max_epoch(oh, DAOS_TX_NONE, NULL, NULL), -DER_INVAL);
	GIVES(daos_obj_anchor_split(oh, NULL, NULL), -DER_INVAL);
	GIVES(daos_kv_list(kv, DAOS_TX_NONE, &nr, NULL, &sgl, &anchor, NULL), -DER_INVAL);
	GIVES(daos_array_punch(ah, DAOS_TX_NONE, NULL, NULL), -DER_INVAL);
	GIVES(daos_array_get_attr(ah, NULL, NULL), -DER_INVAL);
	GIVES(daos_array_stat(ah, DAOS_TX_NONE, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_del_attr(coh, 1, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_list_attr(coh, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_get_acl(coh, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_update_acl(coh, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_list_snap(coh, NULL, NULL, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_cont_local2global(coh, NULL), -DER_INVAL);
	GIVES(daos_cont_set_owner_no_check(coh, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_pool_set_attr(poh, 1, NULL, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_pool_del_attr(poh, 1, NULL, NULL), -DER_INVAL);
	GIVES(daos_tx_open_snap(coh, 1, NULL, NULL), -DER_INVAL);
	OK(daos_obj_close(oh, NULL));
	OK(daos_kv_close(kv, NULL));
	OK(daos_array_close(ah, NULL));
	close_all();
}

static void
what_is_kept_in_memory_is_checked_too(void)
{
	struct daos_prop_entry text = {.dpe_type = DAOS_PROP_CO_LABEL}, other = {0};
	daos_prop_t            list = {0};
	struct daos_ace       *ace;
	struct daos_acl       *acl = NULL;
	char                 **strs, buf[4];
	char                  *principal;
	size_t                 size;
	uint64_t               perms;

	GIVES(daos_eq_create(NULL), -DER_UNINIT);
	GIVES(daos_ace_get_size(NULL), -DER_INVAL);
	GIVES(daos_ace_str_get_verbose(NULL, buf, sizeof(buf)), -DER_INVAL);
	GIVES(daos_ace_str_get_verbose("A::OWNER@:rw", buf, sizeof(buf)), -DER_TRUNC);
	GIVES(daos_ace_from_str(NULL, &ace), -DER_INVAL);
	GIVES(daos_ace_from_str("nonsense", &ace), -DER_INVAL);
	GIVES(daos_acl_add_ace(NULL, NULL), -DER_INVAL);
	GIVES(daos_acl_add_ace(&acl, NULL), -DER_INVAL);
	GIVES(daos_acl_get_size(NULL), -DER_INVAL);
	GIVES(daos_acl_to_strs(NULL, &strs, &size), -DER_INVAL);
	GIVES(daos_acl_gid_to_principal(0, NULL), -DER_INVAL);
	GIVES(daos_acl_gid_to_principal(4294967294U, &principal), -DER_NONEXIST);
	GIVES(daos_pool_get_perms(NULL, 0, NULL, 0, &perms), -DER_INVAL);
	GIVES(daos_prop_set_ptr(NULL, DAOS_PROP_CO_ACL, buf, 4), -DER_NONEXIST);
	GIVES(daos_prop_set_ptr(&list, DAOS_PROP_CO_ACL, buf, 4), -DER_NONEXIST);
	GIVES(daos_prop_entry_dup_ptr(&other, &text, 4), -DER_INVAL);
	GIVES(daos_prop_entry_dup_co_roots(&other, &text), -DER_INVAL);
	GIVES(daos_oclass_id2name(0xffffffff, buf), -1);
	OK(daos_init());
	GIVES(daos_eq_create(NULL), -DER_INVAL);
	GIVES(daos_event_next(NULL, NULL), -DER_INVAL);
	OK(daos_fini());
}

TESTS(TEST(objects_of_no_handle_are_refused), TEST(containers_of_no_handle_are_refused),
      TEST(nothing_is_refused_where_something_is_needed), TEST(what_is_kept_in_memory_is_checked_too))
