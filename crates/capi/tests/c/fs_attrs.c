/* Attributes and extended attributes. */
#include "fs_kit.h"
#include <sys/xattr.h>

static void
attributes_are_told_and_set(void)
{
	struct stat st = {0};
	dfs_obj_t  *obj, *link;

	fs_open_all();
	fs_put(NULL, "f", "stone");
	OK(dfs_stat(dfs, NULL, "f", &st));
	GIVES(st.st_mode, S_IFREG | 0644);
	GIVES(st.st_size, 5);
	GIVES(st.st_nlink, 1);
	GIVES(st.st_uid, geteuid());
	GIVES(st.st_gid, getegid());
	GIVES(st.st_blksize, DFS_DEFAULT_CHUNK_SIZE);
	CHECK(st.st_mtim.tv_sec > 1600000000 && st.st_atim.tv_sec >= st.st_mtim.tv_sec);
	OK(dfs_stat(dfs, NULL, NULL, &st));
	GIVES(st.st_mode & S_IFMT, S_IFDIR);
	OK(dfs_open(dfs, NULL, "l", S_IFLNK, O_RDWR | O_CREAT, 0, 0, "f", &link));
	OK(dfs_stat(dfs, NULL, "l", &st));
	GIVES(st.st_mode & S_IFMT, S_IFLNK);
	GIVES(st.st_size, 1);
	OK(dfs_ostat(dfs, link, &st));
	GIVES(st.st_mode & S_IFMT, S_IFLNK);
	obj               = fs_open(NULL, "f", 0);
	st.st_mode        = S_IFREG | 0600;
	st.st_uid         = 1234;
	st.st_gid         = 4321;
	st.st_size        = 100;
	st.st_mtim.tv_sec = 1000000000, st.st_mtim.tv_nsec = 5;
	OK(dfs_osetattr(dfs, obj, &st,
			DFS_SET_ATTR_MODE | DFS_SET_ATTR_UID | DFS_SET_ATTR_GID | DFS_SET_ATTR_SIZE |
			    DFS_SET_ATTR_MTIME | DFS_SET_ATTR_ATIME));
	memset(&st, 0, sizeof(st));
	OK(dfs_ostat(dfs, obj, &st));
	GIVES(st.st_mode, S_IFREG | 0600);
	GIVES(st.st_uid, 1234);
	GIVES(st.st_gid, 4321);
	GIVES(st.st_size, 100);
	GIVES(st.st_mtim.tv_sec, 1000000000);
	GIVES(st.st_mtim.tv_nsec, 5);
	st.st_mode = S_IFDIR | 0600;
	GIVES(dfs_osetattr(dfs, obj, &st, DFS_SET_ATTR_MODE), EINVAL);
	GIVES(dfs_osetattr(dfs, obj, &st, 1 << 20), EINVAL);
	st.st_size = -1;
	GIVES(dfs_osetattr(dfs, obj, &st, DFS_SET_ATTR_SIZE), EINVAL);
	OK(dfs_release(obj));
	OK(dfs_release(link));
	fs_close_all();
}

static void
modes_and_owners_are_set_by_name(void)
{
	struct stat st;

	fs_open_all();
	fs_put(NULL, "f", "stone");
	OK(dfs_chmod(dfs, NULL, "f", 04711));
	OK(dfs_chown(dfs, NULL, "f", 7, -1, 0));
	OK(dfs_chown(dfs, NULL, "f", -1, 8, O_NOFOLLOW));
	OK(dfs_stat(dfs, NULL, "f", &st));
	GIVES(st.st_mode, S_IFREG | 04711);
	GIVES(st.st_uid, 7);
	GIVES(st.st_gid, 8);
	OK(dfs_chmod(dfs, NULL, NULL, 0700));
	OK(dfs_stat(dfs, NULL, NULL, &st));
	GIVES(st.st_mode, S_IFDIR | 0700);
	GIVES(dfs_chmod(dfs, NULL, "none", 0700), ENOENT);
	GIVES(dfs_chown(dfs, NULL, "none", 1, 1, 0), ENOENT);
	fs_close_all();
}

static void
access_is_what_the_mode_says(void)
{
	fs_open_all();
	fs_put(NULL, "f", "stone");
	OK(dfs_chmod(dfs, NULL, "f", 0600));
	OK(dfs_access(dfs, NULL, "f", R_OK | W_OK));
	OK(dfs_access(dfs, NULL, "f", F_OK));
	GIVES(dfs_access(dfs, NULL, "f", X_OK), EACCES);
	OK(dfs_access(dfs, NULL, NULL, R_OK | X_OK));
	GIVES(dfs_access(dfs, NULL, "none", F_OK), ENOENT);
	GIVES(dfs_access(dfs, NULL, "f", 64), EINVAL);
	fs_close_all();
}

static void
extended_attributes_are_kept(void)
{
	char        buf[64];
	daos_size_t size;
	dfs_obj_t  *objs[3];
	int         i;

	fs_open_all();
	fs_put(NULL, "f", "stone");
	objs[0] = fs_open(NULL, "f", 0);
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &objs[1]));
	OK(dfs_open(dfs, NULL, "l", S_IFLNK, O_RDWR | O_CREAT, 0, 0, "f", &objs[2]));
	for (i = 0; i < 3; i++) {
		OK(dfs_setxattr(dfs, objs[i], "user.a", "first", 5, 0));
		OK(dfs_setxattr(dfs, objs[i], "user.b", "", 0, XATTR_CREATE));
		GIVES(dfs_setxattr(dfs, objs[i], "user.a", "x", 1, XATTR_CREATE), EEXIST);
		GIVES(dfs_setxattr(dfs, objs[i], "user.c", "x", 1, XATTR_REPLACE), ENODATA);
		GIVES(dfs_setxattr(dfs, objs[i], "user.c", "x", 1, 77), EINVAL);
		size = sizeof(buf);
		OK(dfs_getxattr(dfs, objs[i], "user.a", buf, &size));
		GIVES(size, 5);
		CHECK(memcmp(buf, "first", 5) == 0);
		size = 0;
		OK(dfs_getxattr(dfs, objs[i], "user.a", NULL, &size));
		GIVES(size, 5);
		size = 3;
		GIVES(dfs_getxattr(dfs, objs[i], "user.a", buf, &size), ERANGE);
		size = sizeof(buf);
		OK(dfs_listxattr(dfs, objs[i], buf, &size));
		GIVES(size, 14);
		CHECK(memcmp(buf, "user.a\0user.b", 14) == 0);
		size = 5;
		GIVES(dfs_listxattr(dfs, objs[i], buf, &size), ERANGE);
		GIVES(size, 14);
		OK(dfs_removexattr(dfs, objs[i], "user.a"));
		GIVES(dfs_removexattr(dfs, objs[i], "user.a"), ENODATA);
		GIVES(dfs_getxattr(dfs, objs[i], "user.a", buf, &size), ENODATA);
	}
	for (i = 0; i < 3; i++)
		OK(dfs_release(objs[i]));
	fs_close_all();
}

static void
a_handle_follows_what_it_is_told(void)
{
	struct stat st;
	dfs_obj_t  *obj, *there;
	dfs_t      *other;

	fs_open_all();
	fs_put(NULL, "f", "stone");
	OK(dfs_mkdir(dfs, NULL, "d", 0755, 0));
	obj = fs_open(NULL, "f", 0);
	OK(dfs_mount(poh, coh, O_RDWR, &other));
	OK(dfs_lookup(other, "/d", O_RDWR, &there, NULL, NULL));
	OK(dfs_move(other, NULL, "f", there, "g", NULL));
	OK(dfs_release(there));
	OK(dfs_umount(other));
	GIVES(dfs_ostat(dfs, obj, &st), ESTALE);
	OK(dfs_lookup(dfs, "/d/g", O_RDONLY, &there, NULL, NULL));
	OK(dfs_update_parent(obj, there, "g"));
	OK(dfs_release(there));
	OK(dfs_ostat(dfs, obj, &st));
	GIVES(st.st_size, 5);
	GIVES(dfs_update_parent(obj, NULL, "g"), EINVAL);
	OK(dfs_release(obj));
	fs_close_all();
}

TESTS(TEST(attributes_are_told_and_set), TEST(modes_and_owners_are_set_by_name), TEST(access_is_what_the_mode_says),
      TEST(extended_attributes_are_kept), TEST(a_handle_follows_what_it_is_told))
