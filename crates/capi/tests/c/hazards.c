/* What programs written for DAOS rely on, whatever its manuals say. */
#include "still.h"
#include <fcntl.h>
#include <daos_fs.h>

static void
keys_of_stores_have_no_nul_at_their_end(void)
{
	daos_obj_id_t   oid = {.lo = 1};
	daos_handle_t   kv, oh;
	daos_key_desc_t kds[4];
	daos_anchor_t   anchor = {0};
	uint32_t        nr     = 4;
	char            names[64];
	d_iov_t         iov = {.iov_buf = names, .iov_buf_len = sizeof(names)};
	d_sg_list_t     sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_key_t      akey;

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_S1, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "menhir", 5, "stone", NULL));
	/* The same object, by its keys. */
	OK(daos_obj_open(coh, oid, DAOS_OO_RO, &oh, NULL));
	OK(daos_obj_list_dkey(oh, DAOS_TX_NONE, &nr, kds, &sgl, &anchor, NULL));
	CHECK(nr == 1 && kds[0].kd_key_len == 6 && memcmp(names, "menhir", 6) == 0);
	d_iov_set(&akey, "menhir", 6);
	nr = 4;
	memset(&anchor, 0, sizeof(anchor));
	OK(daos_obj_list_akey(oh, DAOS_TX_NONE, &akey, &nr, kds, &sgl, &anchor, NULL));
	CHECK(nr == 1 && kds[0].kd_key_len == 1 && names[0] == '0');
	OK(daos_obj_close(oh, NULL));
	OK(daos_kv_close(kv, NULL));
	close_all();
}

static void
pools_are_found_by_label_and_uuid_of_the_system_that_nobody_names(void)
{
	daos_pool_info_t info = {0};
	daos_handle_t    other;
	char             text[37];
	unsigned char   *u = info.pi_uuid;
	const char      *systems[] = {NULL, "", "daos_server"};
	size_t           i;

	open_all();
	OK(daos_pool_query(poh, NULL, &info, NULL, NULL));
	sprintf(text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3], u[4],
		u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	for (i = 0; i < 3; i++) {
		OK(daos_pool_connect(text, systems[i], DAOS_PC_RO, &other, NULL, NULL));
		OK(daos_pool_disconnect(other, NULL));
		OK(daos_pool_connect("pool", systems[i], DAOS_PC_RO, &other, NULL, NULL));
		OK(daos_pool_disconnect(other, NULL));
	}
	close_all();
}

static void
syncing_files_asks_nobody(void)
{
	dfs_t      *dfs;
	dfs_obj_t  *file;
	char        bytes[] = "stone", back[8];
	d_iov_t     iov     = {.iov_buf = bytes, .iov_buf_len = 5, .iov_len = 5};
	d_sg_list_t sgl     = {.sg_nr = 1, .sg_iovs = &iov};
	daos_size_t size    = 0;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(dfs_cont_create_with_label(poh, "files", NULL, NULL, &coh, &dfs));
	begin_events();
	OK(dfs_open(dfs, NULL, "menhir", S_IFREG | 0644, O_CREAT | O_RDWR, 0, 0, NULL, &file));
	OK(dfs_write(dfs, file, &sgl, 0, NULL));
	/* What was written is there since; so a sync has nothing to do, and waits for nobody. */
	stand_still();
	OK(dfs_sync(dfs));
	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
	d_iov_set(&iov, back, sizeof(back));
	OK(dfs_read(dfs, file, &sgl, 0, &size, NULL));
	CHECK(size == 5 && memcmp(back, "stone", 5) == 0);
	OK(dfs_release(file));
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	OK(dfs_umount(dfs));
	close_all();
}

/* As mpifileutils does it when it copies a container: all in one question, and most of them set on the other. */
static void
all_properties_of_a_container_are_asked_for_at_once_and_set_on_another(void)
{
	static const uint32_t kinds[] = {
	    DAOS_PROP_CO_LABEL,      DAOS_PROP_CO_LAYOUT_TYPE, DAOS_PROP_CO_LAYOUT_VER,       DAOS_PROP_CO_CSUM,
	    DAOS_PROP_CO_CSUM_CHUNK_SIZE, DAOS_PROP_CO_CSUM_SERVER_VERIFY, DAOS_PROP_CO_REDUN_FAC,
	    DAOS_PROP_CO_REDUN_LVL,  DAOS_PROP_CO_SNAPSHOT_MAX, DAOS_PROP_CO_COMPRESS,        DAOS_PROP_CO_ENCRYPT,
	    DAOS_PROP_CO_OWNER,      DAOS_PROP_CO_OWNER_GROUP, DAOS_PROP_CO_DEDUP,            DAOS_PROP_CO_DEDUP_THRESHOLD,
	    DAOS_PROP_CO_ALLOCED_OID, DAOS_PROP_CO_EC_CELL_SZ, DAOS_PROP_CO_SCRUBBER_DISABLED, DAOS_PROP_CO_ROOTS};
	const size_t  count = sizeof(kinds) / sizeof(kinds[0]);
	daos_prop_t  *props = daos_prop_alloc(count);
	daos_handle_t other;
	size_t        i;

	open_all();
	for (i = 0; i < count; i++)
		props->dpp_entries[i].dpe_type = kinds[i];
	OK(daos_cont_query(coh, NULL, props, NULL));
	for (i = 0; i < count; i++)
		CHECK(daos_prop_entry_get(props, kinds[i]) != NULL &&
		      (props->dpp_entries[i].dpe_flags & DAOS_PROP_ENTRY_NOT_SET) == 0);
	CHECK(daos_prop_entry_get(props, DAOS_PROP_CO_COMPRESS)->dpe_val == DAOS_PROP_CO_COMPRESS_OFF);
	CHECK(daos_prop_entry_get(props, DAOS_PROP_CO_ENCRYPT)->dpe_val == DAOS_PROP_CO_ENCRYPT_OFF);
	CHECK(daos_prop_entry_get(props, DAOS_PROP_CO_DEDUP)->dpe_val == DAOS_PROP_CO_DEDUP_OFF);
	CHECK(daos_prop_entry_get(props, DAOS_PROP_CO_ROOTS)->dpe_val_ptr != NULL);
	free(props->dpp_entries[0].dpe_str);
	props->dpp_entries[0].dpe_str = strdup("copy");
	OK(daos_cont_create(poh, NULL, props, NULL));
	OK(daos_cont_open(poh, "copy", DAOS_COO_RW, &other, NULL, NULL));
	OK(daos_cont_close(other, NULL));
	daos_prop_free(props);
	close_all();
}

TESTS(TEST(keys_of_stores_have_no_nul_at_their_end),
      TEST(pools_are_found_by_label_and_uuid_of_the_system_that_nobody_names), TEST(syncing_files_asks_nobody),
      TEST(all_properties_of_a_container_are_asked_for_at_once_and_set_on_another))
