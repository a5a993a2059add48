/* Files by paths. */
#include "fs_kit.h"
#include <sys/xattr.h>

static dfs_sys_t *sys;

static void
sys_open_all(int flags)
{
	fs_open_all();
	OK(dfs_sys_mount(poh, coh, O_RDWR, flags, &sys));
}

static void
sys_close_all(void)
{
	OK(dfs_sys_umount(sys));
	GIVES(dfs_sys_umount(sys), EINVAL);
	fs_close_all();
}

static void
put(const char *path, const char *text)
{
	daos_size_t size = strlen(text);
	dfs_obj_t  *obj;

	OK(dfs_sys_open(sys, path, S_IFREG | 0644, O_RDWR | O_CREAT, 0, 0, NULL, &obj));
	OK(dfs_sys_write(sys, obj, text, 0, &size, NULL));
	OK(dfs_sys_close(obj));
}

static void
files_are_written_and_read_by_paths(void)
{
	char        buf[64];
	daos_size_t size = sizeof(buf);
	dfs_obj_t  *obj;
	struct stat st;

	sys_open_all(0);
	OK(dfs_sys_mkdir_p(sys, "/a/b/c", 0755, 0));
	OK(dfs_sys_mkdir_p(sys, "/a/b/c/", 0755, 0));
	put("/a/b/c/f", "stone");
	OK(dfs_sys_open(sys, "/a/b/c/f", S_IFREG, O_RDONLY, 0, 0, NULL, &obj));
	OK(dfs_sys_read(sys, obj, buf, 1, &size, NULL));
	GIVES(size, 4);
	CHECK(memcmp(buf, "tone", 4) == 0);
	GIVES(dfs_sys_write(sys, obj, buf, 0, &size, NULL), EPERM);
	OK(dfs_sys_close(obj));
	GIVES(dfs_sys_close(obj), EINVAL);
	OK(dfs_sys_punch(sys, "/a/b/c/f", 2, DFS_MAX_FSIZE));
	OK(dfs_sys_stat(sys, "/a/b/c/f", 0, &st));
	GIVES(st.st_size, 2);
	OK(dfs_sys_stat(sys, "/", 0, &st));
	GIVES(st.st_mode & S_IFMT, S_IFDIR);
	GIVES(dfs_sys_stat(sys, "a", 0, &st), EINVAL);
	GIVES(dfs_sys_open(sys, "/a/none", S_IFREG, O_RDONLY, 0, 0, NULL, &obj), ENOENT);
	GIVES(dfs_sys_open(sys, "/a/b", S_IFREG, O_RDONLY, 0, 0, NULL, &obj), EINVAL);
	GIVES(dfs_sys_mkdir(sys, "/a", 0755, 0), EEXIST);
	GIVES(dfs_sys_mkdir(sys, "/", 0755, 0), EEXIST);
	OK(dfs_sys_mkdir(sys, "/a/d", 0755, 0));
	OK(dfs_sys_mknod(sys, "/a/d/n", S_IFREG | 0600, 0, 8192));
	OK(dfs_sys_stat(sys, "/a/d/n", 0, &st));
	GIVES(st.st_mode, S_IFREG | 0600);
	GIVES(st.st_blksize, 8192);
	GIVES(dfs_sys_mknod(sys, "/a/d/n", S_IFREG, 0, 0), EEXIST);
	GIVES(dfs_sys_mknod(sys, "/a/d/p", S_IFIFO, 0, 0), EINVAL);
	sys_close_all();
}

static void
links_are_followed_unless_not(void)
{
	char        buf[16];
	daos_size_t size = sizeof(buf);
	dfs_obj_t  *obj;
	struct stat st;

	sys_open_all(DFS_SYS_NO_CACHE | DFS_SYS_NO_LOCK);
	put("/f", "stone");
	OK(dfs_sys_symlink(sys, "f", "/l"));
	GIVES(dfs_sys_symlink(sys, "f", "/l"), EEXIST);
	OK(dfs_sys_readlink(sys, "/l", buf, &size));
	CHECK(strcmp(buf, "f") == 0);
	GIVES(size, 2);
	GIVES(dfs_sys_readlink(sys, "/f", buf, &size), EINVAL);
	OK(dfs_sys_stat(sys, "/l", 0, &st));
	GIVES(st.st_size, 5);
	OK(dfs_sys_stat(sys, "/l", O_NOFOLLOW, &st));
	GIVES(st.st_mode & S_IFMT, S_IFLNK);
	put("/l", "STO");
	OK(dfs_sys_open(sys, "/f", S_IFREG, O_RDONLY, 0, 0, NULL, &obj));
	size = sizeof(buf);
	OK(dfs_sys_read(sys, obj, buf, 0, &size, NULL));
	GIVES(size, 5);
	CHECK(memcmp(buf, "STOne", 5) == 0);
	OK(dfs_sys_close(obj));
	OK(dfs_sys_access(sys, "/l", R_OK, 0));
	OK(dfs_sys_access(sys, "/l", X_OK, O_NOFOLLOW));
	GIVES(dfs_sys_access(sys, "/l", X_OK, 0), EACCES);
	sys_close_all();
}

static void
attributes_are_set_by_paths(void)
{
	struct timespec times[2] = {{1, 2}, {1000000000, 7}};
	char            buf[32];
	daos_size_t     size = sizeof(buf);
	struct stat     st;

	sys_open_all(0);
	put("/f", "stone");
	OK(dfs_sys_chmod(sys, "/f", 0750));
	OK(dfs_sys_chown(sys, "/f", 5, 6, 0));
	OK(dfs_sys_utimens(sys, "/f", times, 0));
	OK(dfs_sys_stat(sys, "/f", 0, &st));
	GIVES(st.st_mode, S_IFREG | 0750);
	GIVES(st.st_uid, 5);
	GIVES(st.st_gid, 6);
	GIVES(st.st_mtim.tv_sec, 1000000000);
	GIVES(st.st_mtim.tv_nsec, 7);
	times[1].tv_nsec = 2000000000;
	GIVES(dfs_sys_utimens(sys, "/f", times, 0), EINVAL);
	st.st_size = 3;
	st.st_uid  = 9;
	OK(dfs_sys_setattr(sys, "/f", &st, DFS_SET_ATTR_SIZE | DFS_SET_ATTR_UID, 0));
	memset(&st, 0, sizeof(st));
	OK(dfs_sys_stat(sys, "/f", 0, &st));
	GIVES(st.st_size, 3);
	GIVES(st.st_uid, 9);
	OK(dfs_sys_setxattr(sys, "/f", "user.a", "one", 3, XATTR_CREATE, 0));
	OK(dfs_sys_getxattr(sys, "/f", "user.a", buf, &size, 0));
	GIVES(size, 3);
	size = sizeof(buf);
	OK(dfs_sys_listxattr(sys, "/f", buf, &size, 0));
	GIVES(size, 7);
	OK(dfs_sys_removexattr(sys, "/f", "user.a", 0));
	GIVES(dfs_sys_getxattr(sys, "/f", "user.a", buf, &size, 0), ENODATA);
	sys_close_all();
}

static void
directories_are_read_name_by_name(void)
{
	struct dirent *entry;
	char           path[32];
	DIR           *dir;
	int            i, count = 0;

	sys_open_all(0);
	OK(dfs_sys_mkdir(sys, "/d", 0755, 0));
	for (i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "/d/entry-%d", i);
		OK(dfs_sys_mknod(sys, path, S_IFREG | 0644, 0, 0));
	}
	OK(dfs_sys_opendir(sys, "/d", 0, &dir));
	for (;;) {
		OK(dfs_sys_readdir(sys, dir, &entry));
		if (entry == NULL)
			break;
		CHECK(strncmp(entry->d_name, "entry-", 6) == 0);
		count++;
	}
	GIVES(count, 300);
	OK(dfs_sys_closedir(dir));
	GIVES(dfs_sys_closedir(dir), EINVAL);
	GIVES(dfs_sys_opendir(sys, "/d/entry-1", 0, &dir), ENOTDIR);
	sys_close_all();
}

static void
entries_are_removed_by_paths(void)
{
	daos_obj_id_t oid = {0};
	struct stat   st;

	sys_open_all(0);
	OK(dfs_sys_mkdir_p(sys, "/d/sub", 0755, 0));
	put("/d/sub/f", "x");
	GIVES(dfs_sys_remove_type(sys, "/d/sub/f", false, S_IFDIR, NULL), ENOTDIR);
	GIVES(dfs_sys_remove_type(sys, "/d/sub", false, S_IFREG, NULL), EINVAL);
	OK(dfs_sys_remove_type(sys, "/d/sub/f", false, S_IFREG, &oid));
	CHECK(oid.lo != 0);
	put("/d/sub/f", "x");
	GIVES(dfs_sys_remove(sys, "/d", false, NULL), ENOTEMPTY);
	OK(dfs_sys_remove(sys, "/d", true, NULL));
	GIVES(dfs_sys_stat(sys, "/d", 0, &st), ENOENT);
	GIVES(dfs_sys_remove(sys, "/", true, NULL), EINVAL);
	sys_close_all();
}

static void
kept_directories_are_looked_for_again(void)
{
	dfs_obj_t *dir;
	dfs_t     *base;
	struct stat st;

	sys_open_all(0);
	OK(dfs_sys_mkdir_p(sys, "/a/b", 0755, 0));
	put("/a/b/f", "one");
	/* Another mount puts another directory in its place. */
	OK(dfs_lookup(dfs, "/a", O_RDWR, &dir, NULL, NULL));
	OK(dfs_move(dfs, dir, "b", dir, "c", NULL));
	OK(dfs_mkdir(dfs, dir, "b", 0755, 0));
	OK(dfs_release(dir));
	OK(dfs_lookup(dfs, "/a/b", O_RDWR, &dir, NULL, NULL));
	fs_put(dir, "g", "three");
	OK(dfs_release(dir));
	OK(dfs_sys_stat(sys, "/a/b/g", 0, &st));
	GIVES(st.st_size, 5);
	OK(dfs_sys2base(sys, &base));
	OK(dfs_mkdir(base, NULL, "by-base", 0755, 0));
	OK(dfs_sys_stat(sys, "/by-base", 0, &st));
	OK(dfs_sys_set_prefix(sys, "/mnt"));
	OK(dfs_sys_stat(sys, "/mnt/by-base", 0, &st));
	GIVES(dfs_sys_stat(sys, "/by-base", 0, &st), EINVAL);
	sys_close_all();
}

static void
paths_follow_what_other_calls_move(void)
{
	dfs_t      *base;
	struct stat st;

	sys_open_all(0);
	OK(dfs_sys2base(sys, &base));
	OK(dfs_sys_mkdir(sys, "/q", 0755, 0));
	OK(dfs_sys_mkdir(sys, "/other", 0755, 0));
	OK(dfs_sys_mknod(sys, "/q/x", S_IFREG | 0600, 0, 0));
	OK(dfs_move(base, NULL, "q", NULL, "r", NULL));
	GIVES(dfs_sys_stat(sys, "/q/x", 0, &st), ENOENT);
	OK(dfs_mkdir(base, NULL, "q", 0755, 0));
	GIVES(dfs_sys_stat(sys, "/q/x", 0, &st), ENOENT);
	OK(dfs_sys_mknod(sys, "/q/new", S_IFREG | 0600, 0, 0));
	GIVES(dfs_sys_stat(sys, "/r/new", 0, &st), ENOENT);
	OK(dfs_sys_stat(sys, "/r/x", 0, &st));
	OK(dfs_exchange(base, NULL, "q", NULL, "r"));
	OK(dfs_sys_stat(sys, "/q/x", 0, &st));
	OK(dfs_sys_stat(sys, "/r/new", 0, &st));
	OK(dfs_remove(base, NULL, "q", true, NULL));
	OK(dfs_mkdir(base, NULL, "q", 0755, 0));
	GIVES(dfs_sys_stat(sys, "/q/x", 0, &st), ENOENT);
	/* Links on the way are such entries, too. */
	OK(dfs_sys_symlink(sys, "r", "/l"));
	OK(dfs_sys_stat(sys, "/l/new", 0, &st));
	OK(dfs_sys_remove(sys, "/l", false, NULL));
	OK(dfs_sys_symlink(sys, "other", "/l"));
	GIVES(dfs_sys_stat(sys, "/l/new", 0, &st), ENOENT);
	sys_close_all();
}

static void
mounts_by_paths_travel(void)
{
	d_iov_t    glob = {0};
	dfs_sys_t *one, *two;
	struct stat st;

	sys_open_all(0);
	OK(dfs_sys_mkdir(sys, "/d", 0755, 0));
	OK(dfs_sys_local2global(sys, &glob));
	glob.iov_buf = malloc(glob.iov_buf_len);
	OK(dfs_sys_local2global(sys, &glob));
	OK(dfs_sys_global2local(poh, coh, 0, 0, glob, &one));
	OK(dfs_sys_stat(one, "/d", 0, &st));
	OK(dfs_sys_umount(one));
	free(glob.iov_buf);
	memset(&glob, 0, sizeof(glob));
	OK(dfs_sys_connect("pool", NULL, "files", O_RDWR, 0, NULL, &one));
	GIVES(dfs_sys_connect("pool", NULL, "files", O_RDWR, 64, NULL, &two), EINVAL);
	OK(dfs_sys_local2global_all(one, &glob));
	glob.iov_buf = malloc(glob.iov_buf_len);
	OK(dfs_sys_local2global_all(one, &glob));
	OK(dfs_sys_global2local_all(0, 0, glob, &two));
	OK(dfs_sys_stat(two, "/d", 0, &st));
	OK(dfs_sys_disconnect(two));
	GIVES(dfs_sys_disconnect(two), EINVAL);
	GIVES(dfs_sys_umount(one), EINVAL);
	OK(dfs_sys_disconnect(one));
	free(glob.iov_buf);
	sys_close_all();
}

TESTS(TEST(files_are_written_and_read_by_paths), TEST(links_are_followed_unless_not),
      TEST(attributes_are_set_by_paths), TEST(directories_are_read_name_by_name),
      TEST(entries_are_removed_by_paths), TEST(kept_directories_are_looked_for_again),
      TEST(paths_follow_what_other_calls_move), TEST(mounts_by_paths_travel))
