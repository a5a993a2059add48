/* What is refused of files: mounts and handles that no call has given out, and nothing where something is needed. */
#include "fs_kit.h"
#include <gurt/common.h>

#define NO_SYS ((dfs_sys_t *)0x123456789abcde3UL)

static char          memory[4096];
static d_iov_t       iov = {.iov_buf = memory, .iov_buf_len = sizeof(memory), .iov_len = sizeof(memory)};
static d_sg_list_t   sgl = {.sg_nr = 1, .sg_iovs = &iov};
static daos_anchor_t anchor;
static daos_size_t   size = sizeof(memory);

static void
mounts_of_no_handle_are_refused(void)
{
	daos_handle_t   oh;
	dfs_obj_t      *obj;
	dfs_attr_t      attr;
	dfs_obj_info_t  info;
	daos_obj_id_t   oid;
	struct dirent   dirs[2];
	struct stat     stats[2];
	uint32_t        nr = 2;
	dfs_iod_t       iod = {0};

	fs_open_all();
	GIVES(dfs_cont_get(NO_DFS, &oh), EINVAL);
	GIVES(dfs_pool_get(NO_DFS, &oh), EINVAL);
	GIVES(dfs_pool_put(NO_DFS, poh), EINVAL);
	GIVES(dfs_query(NO_DFS, &attr), EINVAL);
	GIVES(dfs_local2global_all(NO_DFS, &iov), EINVAL);
	GIVES(dfs_dup(NO_DFS, NO_OBJ, O_RDWR, &obj), EINVAL);
	GIVES(dfs_get_size_by_oid(NO_DFS, (daos_obj_id_t){0}, 0, &size), EINVAL);
	GIVES(dfs_obj_local2global(NO_DFS, NO_OBJ, &iov), EINVAL);
	GIVES(dfs_obj_get_info(NO_DFS, NO_OBJ, &info), EINVAL);
	GIVES(dfs_obj_set_oclass(NO_DFS, NO_OBJ, 0, OC_S1), EINVAL);
	GIVES(dfs_readdirplus(NO_DFS, NO_OBJ, &anchor, &nr, dirs, stats), EINVAL);
	GIVES(dfs_readdir_with_filter(NO_DFS, NO_OBJ, NULL, &anchor, &nr, dirs, NULL, NULL, NULL), EINVAL);
	GIVES(dfs_writex(NO_DFS, NO_OBJ, &iod, &sgl, NULL), EINVAL);
	GIVES(dfs_obj2id(NO_OBJ, &oid), EINVAL);
	GIVES(dfs_get_file_oh(NO_OBJ, &oh), EINVAL);
	GIVES(dfs_dir_anchor_set(NO_OBJ, "n", &anchor), EINVAL);
	GIVES(dfs_obj_anchor_split(NO_OBJ, &nr, &anchor), EINVAL);
	fs_close_all();
}

static void
nothing_is_refused_where_files_need_something(void)
{
	dfs_obj_t *dir, *obj;
	uint32_t   nr = 2;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	obj = fs_open(NULL, "f", O_CREAT);
	GIVES(dfs_cont_get(dfs, NULL), EINVAL);
	GIVES(dfs_pool_get(dfs, NULL), EINVAL);
	GIVES(dfs_query(dfs, NULL), EINVAL);
	GIVES(dfs_local2global_all(dfs, NULL), EINVAL);
	GIVES(dfs_dup(dfs, obj, O_RDWR, NULL), EINVAL);
	GIVES(dfs_obj_local2global(dfs, obj, NULL), EINVAL);
	GIVES(dfs_obj_get_info(dfs, obj, NULL), EINVAL);
	GIVES(dfs_readdirplus(dfs, dir, NULL, &nr, NULL, NULL), EINVAL);
	GIVES(dfs_readdirplus(dfs, obj, &anchor, &nr, NULL, NULL), ENOTDIR);
	GIVES(dfs_writex(dfs, obj, NULL, &sgl, NULL), EINVAL);
	GIVES(dfs_obj2id(obj, NULL), EINVAL);
	GIVES(dfs_get_file_oh(obj, NULL), EINVAL);
	GIVES(dfs_get_file_oh(dir, NULL), EINVAL);
	GIVES(dfs_dir_anchor_set(dir, NULL, &anchor), EINVAL);
	GIVES(dfs_dir_anchor_set(obj, "n", &anchor), ENOTDIR);
	GIVES(dfs_connect_snap("pool", NULL, "files", O_RDONLY, 1, NULL, NULL), EINVAL);
	GIVES(dfs_connect_snap("pool", NULL, "none", O_RDONLY, 1, NULL, &dfs), ENOENT);
	OK(dfs_release(dir));
	OK(dfs_release(obj));
	fs_close_all();
}

static void
paths_of_no_mount_are_refused(void)
{
	struct dirent *entry;
	struct stat    st = {0};
	dfs_sys_t     *sys;
	dfs_t         *base;

	fs_open_all();
	GIVES(dfs_sys2base(NO_SYS, &base), EINVAL);
	GIVES(dfs_sys_chmod(NO_SYS, "/", 0755), EINVAL);
	GIVES(dfs_sys_chown(NO_SYS, "/", 0, 0, 0), EINVAL);
	GIVES(dfs_sys_setattr(NO_SYS, "/", &st, 0, DFS_SET_ATTR_MODE), EINVAL);
	GIVES(dfs_sys_listxattr(NO_SYS, "/", memory, &size, 0), EINVAL);
	GIVES(dfs_sys_setxattr(NO_SYS, "/", "n", "v", 1, 0, 0), EINVAL);
	GIVES(dfs_sys_removexattr(NO_SYS, "/", "n", 0), EINVAL);
	GIVES(dfs_sys_mkdir_p(NO_SYS, "/a/b", 0755, 0), EINVAL);
	GIVES(dfs_sys_punch(NO_SYS, "/f", 0, 1), EINVAL);
	GIVES(dfs_sys_read(NO_SYS, NO_OBJ, memory, 0, &size, NULL), EINVAL);
	GIVES(dfs_sys_readdir(NO_SYS, (DIR *)NO_OBJ, &entry), EINVAL);
	GIVES(dfs_sys_set_prefix(NO_SYS, "/p"), EINVAL);
	GIVES(dfs_sys_local2global(NO_SYS, &iov), EINVAL);
	GIVES(dfs_sys_local2global_all(NO_SYS, &iov), EINVAL);
	GIVES(dfs_sys_mount(NO_HANDLE, coh, O_RDWR, 0, &sys), EINVAL);
	GIVES(dfs_sys_global2local(poh, coh, O_RDWR, 0, iov, &sys), EINVAL);
	GIVES(dfs_sys_global2local_all(O_RDWR, 0, iov, &sys), EINVAL);
	fs_close_all();
}

static void
paths_that_lead_nowhere_are_refused(void)
{
	struct stat st = {0};
	dfs_sys_t  *sys;

	fs_open_all();
	OK(dfs_sys_mount(poh, coh, O_RDWR, 0, &sys));
	GIVES(dfs_sys2base(sys, NULL), EINVAL);
	GIVES(dfs_sys_chmod(sys, "/none", 0755), ENOENT);
	GIVES(dfs_sys_chown(sys, "/none", 0, 0, 0), ENOENT);
	GIVES(dfs_sys_setattr(sys, "/none", &st, 0, DFS_SET_ATTR_MODE), ENOENT);
	GIVES(dfs_sys_listxattr(sys, "/none", memory, &size, 0), ENOENT);
	GIVES(dfs_sys_setxattr(sys, "/none", "n", "v", 1, 0, 0), ENOENT);
	GIVES(dfs_sys_removexattr(sys, "/none", "n", 0), ENOENT);
	GIVES(dfs_sys_removexattr(sys, "/", "n", 0), ENODATA);
	GIVES(dfs_sys_mkdir_p(sys, NULL, 0755, 0), EINVAL);
	GIVES(dfs_sys_punch(sys, "/none", 0, 1), ENOENT);
	GIVES(dfs_sys_set_prefix(sys, "p"), EINVAL);
	GIVES(dfs_sys_local2global(sys, NULL), EINVAL);
	GIVES(dfs_sys_local2global_all(sys, NULL), EINVAL);
	GIVES(dfs_sys_mount(poh, coh, O_RDWR, 0, NULL), EINVAL);
	OK(dfs_sys_umount(sys));
	fs_close_all();
}

static void
variables_that_say_nothing_are_refused(void)
{
	unsigned int number = 7;
	uint32_t     narrow;
	uint64_t     wide;
	char         letter;

	OK(setenv("REFUSED", "many words", 1));
	OK(unsetenv("REFUSED_NOT_SET"));
	GIVES(d_getenv_char("REFUSED", &letter), -DER_INVAL);
	GIVES(d_getenv_char("REFUSED_NOT_SET", &letter), -DER_NONEXIST);
	GIVES(d_getenv_int("REFUSED", &number), -DER_INVAL);
	GIVES(d_getenv_int("REFUSED_NOT_SET", &number), -DER_NONEXIST);
	GIVES(d_getenv_uint32_t("REFUSED", &narrow), -DER_INVAL);
	GIVES(d_getenv_uint32_t("REFUSED_NOT_SET", &narrow), -DER_NONEXIST);
	GIVES(d_getenv_uint64_t("REFUSED", &wide), -DER_INVAL);
	GIVES(d_getenv_uint64_t("REFUSED_NOT_SET", &wide), -DER_NONEXIST);
	CHECK(number == 7);
}

TESTS(TEST(mounts_of_no_handle_are_refused), TEST(nothing_is_refused_where_files_need_something),
      TEST(paths_of_no_mount_are_refused), TEST(paths_that_lead_nowhere_are_refused),
      TEST(variables_that_say_nothing_are_refused))
