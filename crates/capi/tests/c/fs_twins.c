/* Containers of the same UUID in two pools. */
#include "fs_kit.h"

static void
mounts_of_another_pool_are_left_alone(void)
{
	daos_handle_t other, twin, alone;
	dfs_t        *elsewhere;
	dfs_obj_t    *file;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_pool_connect("other", NULL, DAOS_PC_RW, &other, NULL, NULL));
	OK(daos_cont_open(poh, "twin", DAOS_COO_RW, &coh, NULL, NULL));
	OK(daos_cont_open(other, "twin", DAOS_COO_RW, &twin, NULL, NULL));
	OK(dfs_mount(poh, coh, O_RDWR, &dfs));
	OK(dfs_mount(other, twin, O_RDWR, &elsewhere));
	OK(dfs_open(elsewhere, NULL, "f", S_IFREG | 0644, O_RDWR | O_CREAT, 0, 0, NULL, &file));
	OK(daos_cont_open(poh, "twin", DAOS_COO_EX | DAOS_COO_EVICT, &alone, NULL, NULL));
	CHECK(dfs_umount(dfs) == EINVAL);
	OK(dfs_sync(elsewhere));
	OK(dfs_release(file));
	OK(dfs_umount(elsewhere));
	OK(daos_cont_close(twin, NULL));
	OK(daos_pool_disconnect(other, NULL));
	coh = alone;
	close_all();
}

TESTS(TEST(mounts_of_another_pool_are_left_alone))
