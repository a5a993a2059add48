/* Systems, classes, clocks. */
#include <time.h>
#include "harness.h"

static void
systems_are_described(void)
{
	uuid_t store = {0};
	int    state = 0;
	struct daos_sys_info *info = NULL;
	uint32_t              major = 0, minor = 0, patch = 9;
	char                 *tag = NULL;

	GIVES(daos_mgmt_get_sys_info(NULL, &info), -DER_UNINIT);
	GIVES(dc_mgmt_srv_version(&major, &minor, &patch, &tag), -DER_UNINIT);
	OK(daos_init());
	OK(daos_mgmt_get_sys_info(NULL, &info));
	CHECK(strncmp(info->dsi_system_name, "file:", 5) == 0 && strcmp(info->dsi_fabric_provider, "file") == 0);
	CHECK(info->dsi_nr_ranks == 1 && info->dsi_ranks[0].dru_rank == 0 && info->dsi_nr_ms_ranks == 1);
	CHECK(strncmp(info->dsi_ranks[0].dru_uri, "file:", 5) == 0);
	daos_mgmt_put_sys_info(info);
	daos_mgmt_put_sys_info(NULL);
	OK(dc_mgmt_srv_version(&major, &minor, &patch, &tag));
	CHECK(major == 2 && minor == 8 && patch == 0 && strncmp(tag, "dolmen-", 7) == 0);
	free(tag);
	GIVES(daos_debug_set_params(NULL, 0, 0, 0, 0, NULL), -DER_NOSYS);
	GIVES(daos_debug_add_mark("here"), -DER_NOSYS);
	GIVES(daos_mgmt_get_bs_state(NULL, store, &state, NULL), -DER_NOSYS);
	GIVES(daos_pool_stop_svc(NO_HANDLE, NULL), -DER_NO_HDL);
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	GIVES(daos_pool_stop_svc(poh, NULL), -DER_NOSYS);
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

static void
a_served_system_tells_its_name_and_its_engines(void)
{
	struct daos_sys_info *info = NULL;
	const char           *system = getenv("DOLMEN_SYSTEM");

	OK(daos_init());
	OK(daos_mgmt_get_sys_info(NULL, &info));
	if (strncmp(system, "file:", 5) != 0) {
		CHECK(info->dsi_system_name[0] != 0 && strchr(info->dsi_system_name, ':') == NULL);
		CHECK(strcmp(info->dsi_fabric_provider, "unix") == 0);
		CHECK(strncmp(info->dsi_ranks[0].dru_uri, "unix:/", 6) == 0);
	}
	CHECK(info->dsi_nr_ranks == 1 && info->dsi_ranks[0].dru_rank == 0);
	CHECK(info->dsi_nr_ms_ranks == 1 && info->dsi_ms_ranks[0] == 0);
	daos_mgmt_put_sys_info(info);
	OK(daos_fini());
}

static void
pools_are_listed(void)
{
	daos_mgmt_pool_info_t pools[2];
	daos_size_t           nr = 0;

	OK(daos_init());
	OK(daos_mgmt_list_pools(NULL, &nr, NULL, NULL));
	GIVES(nr, 1);
	nr = 0;
	GIVES(daos_mgmt_list_pools(NULL, &nr, pools, NULL), -DER_TRUNC);
	nr = 2;
	OK(daos_mgmt_list_pools(NULL, &nr, pools, NULL));
	CHECK(nr == 1 && strcmp(pools[0].mgpi_label, "pool") == 0 && pools[0].mgpi_svc->rl_nr == 1);
	free(pools[0].mgpi_label);
	free(pools[0].mgpi_svc->rl_ranks);
	free(pools[0].mgpi_svc);
	GIVES(daos_mgmt_list_pools(NULL, NULL, pools, NULL), -DER_INVAL);
	OK(daos_fini());
}

static void
classes_have_names(void)
{
	char name[MAX_OBJ_CLASS_NAME_LEN], all[4096], small[8];

	CHECK(daos_oclass_name2id("S1") == OC_S1 && daos_oclass_name2id("EC_4P2GX") == OC_EC_4P2GX);
	CHECK(daos_oclass_name2id("RP_XSF") == OC_RP_XSF && daos_oclass_name2id("RP_3G1") == OC_RP_3G1);
	CHECK(daos_oclass_name2id("S3") == OC_UNKNOWN && daos_oclass_name2id(NULL) == OC_UNKNOWN);
	OK(daos_oclass_id2name(OC_SX, name));
	CHECK(strcmp(name, "SX") == 0);
	OK(daos_oclass_id2name(OBJ_CLASS_DEF(OR_RP_2, 7), name));
	CHECK(strcmp(name, "RP_2G7") == 0);
	GIVES(daos_oclass_id2name(5, name), -1);
	CHECK(strcmp(name, "UNKNOWN") == 0);
	CHECK(daos_oclass_names_list(sizeof(all), all) == strlen(all) && strstr(all, "EC_16P3GX") != NULL);
	GIVES((ssize_t)daos_oclass_names_list(sizeof(small), small), -1);
}

static void
epochs_have_a_time(void)
{
	daos_epoch_t    epoch;
	struct timespec ts;
	time_t          seconds, now = time(NULL);

	open_all();
	OK(daos_cont_create_snap(coh, &epoch, NULL, NULL));
	OK(daos_hlc2timespec(epoch, &ts));
	OK(daos_hlc2timestamp(epoch, &seconds));
	CHECK(ts.tv_sec == seconds && seconds >= now - 5 && seconds <= now + 60 && ts.tv_nsec < 1000000000);
	GIVES(daos_hlc2timespec(epoch, NULL), -DER_INVAL);
	GIVES(daos_hlc2timestamp(epoch, NULL), -DER_INVAL);
	close_all();
}

static void
ranks_are_read_from_text(void)
{
	d_rank_list_t *ranks = daos_rank_list_parse("0,3-5", ",");

	CHECK(ranks->rl_nr == 4 && ranks->rl_ranks[1] == 3 && ranks->rl_ranks[3] == 5);
	free(ranks->rl_ranks);
	free(ranks);
	CHECK(daos_rank_list_parse("x", ",") == NULL && daos_rank_list_parse(NULL, ",") == NULL);
	CHECK(daos_rank_list_parse("0-4000000000", ",") == NULL);
}

TESTS(TEST(systems_are_described), TEST(a_served_system_tells_its_name_and_its_engines), TEST(pools_are_listed), TEST(classes_have_names), TEST(epochs_have_a_time),
      TEST(ranks_are_read_from_text))
