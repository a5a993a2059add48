/* Mounts of snapshots: between the two steps somebody else makes one, at the epoch in T_EPOCH, with the name tuesday. */
#include "fs_kit.h"

static void
prepare(void)
{
	fs_open_all();
	fs_put(NULL, "f", "before");
	fs_close_all();
}

static void
snapshots_are_mounted(void)
{
	daos_epoch_t epoch = strtoull(getenv("T_EPOCH"), NULL, 10);
	dfs_t       *old, *again;
	d_iov_t      glob = {0};
	struct stat  st;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_cont_open(poh, "files", DAOS_COO_RW, &coh, NULL, NULL));
	OK(dfs_mount(poh, coh, O_RDWR, &dfs));
	fs_put(NULL, "g", "after");
	OK(dfs_remove(dfs, NULL, "f", false, NULL));
	OK(dfs_mount_snap(poh, coh, O_RDONLY, epoch, NULL, &old));
	OK(dfs_stat(old, NULL, "f", &st));
	GIVES(st.st_size, 6);
	GIVES(dfs_stat(old, NULL, "g", &st), ENOENT);
	GIVES(dfs_mkdir(old, NULL, "d", 0755, 0), EPERM);
	OK(dfs_local2global(old, &glob));
	glob.iov_buf = malloc(glob.iov_buf_len);
	OK(dfs_local2global(old, &glob));
	OK(dfs_global2local(poh, coh, 0, glob, &again));
	OK(dfs_stat(again, NULL, "f", &st));
	OK(dfs_umount(again));
	free(glob.iov_buf);
	OK(dfs_umount(old));
	OK(dfs_mount_snap(poh, coh, O_RDONLY, 0, "tuesday", &old));
	OK(dfs_stat(old, NULL, "f", &st));
	OK(dfs_umount(old));
	GIVES(dfs_mount_snap(poh, coh, O_RDWR, epoch, NULL, &again), EPERM);
	GIVES(dfs_mount_snap(poh, coh, O_RDONLY, epoch + 1, NULL, &again), ENOENT);
	GIVES(dfs_mount_snap(poh, coh, O_RDONLY, 0, "none", &again), ENOENT);
	OK(dfs_connect_snap("pool", NULL, "files", O_RDONLY, epoch, NULL, &old));
	OK(dfs_stat(old, NULL, "f", &st));
	GIVES(dfs_stat(old, NULL, "g", &st), ENOENT);
	OK(dfs_disconnect(old));
	fs_close_all();
}

TESTS(TEST(prepare), TEST(snapshots_are_mounted))
