/* Checks of whole file systems. */
#include "fs_kit.h"

/* Takes the entry of a name away, and leaves its object. */
static void
lose(dfs_obj_t *dir, const char *name)
{
	daos_obj_id_t oid;
	daos_handle_t oh;
	daos_key_t    dkey;

	OK(dfs_obj2id(dir, &oid));
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &oh, NULL));
	d_iov_set(&dkey, (void *)name, strlen(name));
	OK(daos_obj_punch_dkeys(oh, DAOS_TX_NONE, 0, 1, &dkey, NULL));
	OK(daos_obj_close(oh, NULL));
}

/* Lets go of the container, as a check wants it. */
static void
leave(void)
{
	OK(dfs_umount(dfs));
	OK(daos_cont_close(coh, NULL));
}

static void
come_back(void)
{
	OK(daos_cont_open(poh, "files", DAOS_COO_RW, &coh, NULL, NULL));
	OK(dfs_mount(poh, coh, O_RDWR, &dfs));
}

static int
objects_lost(void)
{
	char  line[256];
	int   count = 0, out = dup(1);
	FILE *file = fopen("check.out", "w+");

	fflush(stdout);
	dup2(fileno(file), 1);
	OK(dfs_cont_check(poh, "files", DFS_CHECK_PRINT, NULL));
	fflush(stdout);
	dup2(out, 1);
	rewind(file);
	while (fgets(line, sizeof(line), file) != NULL)
		count += strncmp(line, "no entry names object", 21) == 0;
	fclose(file);
	close(out);
	return count;
}

static void
what_is_lost_is_removed_or_named(void)
{
	dfs_obj_t    *dir, *found;
	daos_anchor_t anchor = {0};
	struct dirent dirs[4];
	uint32_t      nr = 4;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	fs_put(dir, "stays", "1");
	fs_put(dir, "lost", "22");
	lose(dir, "lost");
	OK(dfs_release(dir));
	/* Not while anybody has the container, this process included. */
	GIVES(dfs_cont_check(poh, "files", DFS_CHECK_PRINT, NULL), EBUSY);
	OK(dfs_umount(dfs));
	GIVES(dfs_cont_check(poh, "files", DFS_CHECK_REMOVE, NULL), EBUSY);
	GIVES(dfs_cont_check(poh, "files", DFS_CHECK_RELINK, NULL), EBUSY);
	OK(daos_cont_close(coh, NULL));
	GIVES(objects_lost(), 1);
	GIVES(dfs_cont_check(poh, "files", DFS_CHECK_REMOVE | DFS_CHECK_RELINK, NULL), EINVAL);
	GIVES(dfs_cont_check(poh, "files", 1 << 20, NULL), EINVAL);
	GIVES(dfs_cont_check(poh, "none", DFS_CHECK_PRINT, NULL), ENOENT);
	OK(dfs_cont_check(poh, "files", DFS_CHECK_RELINK | DFS_CHECK_VERIFY, "mine"));
	GIVES(objects_lost(), 0);
	come_back();
	OK(dfs_lookup(dfs, "/lost+found/mine", O_RDONLY, &found, NULL, NULL));
	OK(dfs_readdir(dfs, found, &anchor, &nr, dirs));
	GIVES(nr, 1);
	fs_is(found, dirs[0].d_name, "22");
	OK(dfs_release(found));
	OK(dfs_lookup(dfs, "/d", O_RDWR, &dir, NULL, NULL));
	lose(dir, "stays");
	OK(dfs_release(dir));
	leave();
	OK(dfs_cont_check(poh, "files", DFS_CHECK_REMOVE, NULL));
	GIVES(objects_lost(), 0);
	OK(dfs_cont_check(poh, "files", DFS_CHECK_EVICT_ALL, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

static void
mounts_are_taken_from_this_process(void)
{
	dfs_t         *again;
	dfs_sys_t     *sys;
	dfs_obj_t     *dir;
	DIR           *open_dir;
	struct dirent *entry;
	struct stat    st;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	OK(dfs_sys_mount(poh, coh, O_RDWR, 0, &sys));
	OK(dfs_sys_opendir(sys, "/", 0, &open_dir));
	OK(dfs_connect("pool", NULL, "files", O_RDWR, NULL, &again));
	OK(dfs_cont_check(poh, "files", DFS_CHECK_EVICT_ALL, NULL));
	GIVES(dfs_stat(dfs, NULL, "d", &st), EINVAL);
	GIVES(dfs_release(dir), EINVAL);
	GIVES(dfs_stat(again, NULL, "d", &st), EINVAL);
	GIVES(dfs_disconnect(again), EINVAL);
	GIVES(dfs_sys_stat(sys, "/d", 0, &st), EINVAL);
	GIVES(dfs_sys_readdir(sys, open_dir, &entry), EINVAL);
	GIVES(dfs_umount(dfs), EINVAL);
	GIVES(daos_cont_close(coh, NULL), -DER_NO_HDL);
	/* What they had made is there. */
	OK(daos_cont_open(poh, "files", DAOS_COO_RW, &coh, NULL, NULL));
	OK(dfs_mount(poh, coh, O_RDWR, &dfs));
	OK(dfs_stat(dfs, NULL, "d", &st));
	CHECK(S_ISDIR(st.st_mode));
	fs_close_all();
}

static void
containers_are_counted_and_owned(void)
{
	struct stat st;

	fs_open_all();
	OK(dfs_mkdir(dfs, NULL, "d", 0755, 0));
	fs_put(NULL, "f", "stone");
	OK(dfs_cont_scan(poh, "files", 0, NULL));
	GIVES(dfs_cont_scan(poh, "files", 0, "/none"), ENOENT);
	OK(dfs_cont_set_owner(coh, "me@", 11, "us@", 12));
	OK(dfs_stat(dfs, NULL, NULL, &st));
	GIVES(st.st_uid, 11);
	GIVES(st.st_gid, 12);
	GIVES(dfs_cont_set_owner(NO_HANDLE, "me@", 11, "us@", 12), EINVAL);
	fs_close_all();
}

TESTS(TEST(what_is_lost_is_removed_or_named), TEST(mounts_are_taken_from_this_process),
      TEST(containers_are_counted_and_owned))
