/* Handles that travel to other processes. In process, the pool is open once, so they travel within one. */
#include "fs_kit.h"

static void
mounts_and_files_travel(void)
{
	d_iov_t     mount = {0}, file = {0}, dir = {0};
	dfs_t      *second;
	dfs_obj_t  *obj, *sub, *there;
	mode_t      mode;
	char        buf[16];
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_size_t read;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &sub));
	fs_put(sub, "f", "stone");
	obj = fs_open(sub, "f", 0);
	OK(dfs_local2global(dfs, &mount));
	CHECK(mount.iov_buf_len > 0);
	mount.iov_buf = malloc(mount.iov_buf_len--);
	GIVES(dfs_local2global(dfs, &mount), EIO);
	mount.iov_len = mount.iov_buf_len;
	OK(dfs_local2global(dfs, &mount));
	OK(dfs_obj_local2global(dfs, obj, &file));
	file.iov_buf = malloc(file.iov_buf_len);
	OK(dfs_obj_local2global(dfs, obj, &file));
	OK(dfs_obj_local2global(dfs, sub, &dir));
	dir.iov_buf = malloc(dir.iov_buf_len);
	OK(dfs_obj_local2global(dfs, sub, &dir));

	OK(dfs_global2local(poh, coh, 0, mount, &second));
	OK(dfs_obj_global2local(second, 0, file, &there));
	d_iov_set(&iov, "S", 1);
	OK(dfs_write(second, there, &sgl, 0, NULL));
	OK(dfs_release(there));
	OK(dfs_obj_global2local(second, O_RDONLY, file, &there));
	d_iov_set(&iov, buf, sizeof(buf));
	OK(dfs_read(second, there, &sgl, 0, &read, NULL));
	GIVES(read, 5);
	CHECK(memcmp(buf, "Stone", 5) == 0);
	OK(dfs_release(there));
	OK(dfs_obj_global2local(second, 0, dir, &there));
	OK(dfs_get_mode(there, &mode));
	GIVES(mode, S_IFDIR | 0755);
	OK(dfs_release(there));
	/* Directories are found by their paths. */
	OK(dfs_remove(second, NULL, "d", true, NULL));
	GIVES(dfs_obj_global2local(second, 0, dir, &there), ENOENT);
	OK(dfs_mkdir(second, NULL, "d", 0755, 0));
	GIVES(dfs_obj_global2local(second, 0, dir, &there), ESTALE);
	((char *)file.iov_buf)[9] ^= 1;
	GIVES(dfs_obj_global2local(second, 0, file, &obj), EINVAL);
	GIVES(dfs_global2local(poh, coh, 0, dir, &second), EINVAL);
	mount.iov_len = 3;
	GIVES(dfs_global2local(poh, coh, 0, mount, &second), EINVAL);
	OK(dfs_release(sub));
	OK(dfs_umount(second));
	free(mount.iov_buf);
	free(file.iov_buf);
	free(dir.iov_buf);
	fs_close_all();
}

/* Bytes of something open. */
static d_iov_t
blob_of(dfs_obj_t *obj)
{
	d_iov_t glob = {0};

	OK(dfs_obj_local2global(dfs, obj, &glob));
	glob.iov_buf = malloc(glob.iov_buf_len);
	OK(dfs_obj_local2global(dfs, obj, &glob));
	return glob;
}

/* Reads what there is through bytes of a file, and writes to it. */
static void
works_in(dfs_t *mount, d_iov_t glob, const char *text)
{
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_size_t read;
	struct stat st;
	dfs_obj_t  *there;
	char        buf[16];

	OK(dfs_obj_global2local(mount, 0, glob, &there));
	d_iov_set(&iov, buf, sizeof(buf));
	OK(dfs_read(mount, there, &sgl, 0, &read, NULL));
	GIVES(read, strlen(text));
	CHECK(memcmp(buf, text, read) == 0);
	OK(dfs_ostat(mount, there, &st));
	GIVES(st.st_size, strlen(text));
	d_iov_set(&iov, "S", 1);
	OK(dfs_write(mount, there, &sgl, 0, NULL));
	OK(dfs_release(there));
}

static void
files_travel_whatever_becomes_of_their_names(void)
{
	d_iov_t    early, late;
	dfs_t     *second;
	dfs_obj_t *obj;

	fs_open_all();
	OK(dfs_mount(poh, coh, O_RDWR, &second));
	fs_put(NULL, "f", "stone");
	obj   = fs_open(NULL, "f", 0);
	early = blob_of(obj);
	OK(dfs_move(dfs, NULL, "f", NULL, "g", NULL));
	fs_put(NULL, "f", "another");
	late = blob_of(obj);
	works_in(second, late, "stone");
	works_in(dfs, early, "Stone");
	free(late.iov_buf);
	OK(dfs_remove(dfs, NULL, "g", false, NULL));
	/* It is open here, and so is there. */
	late = blob_of(obj);
	works_in(second, late, "Stone");
	works_in(dfs, early, "Stone");
	works_in(dfs, late, "Stone");
	GIVES(fs_write(obj, "s", 1, 0), 0);
	OK(dfs_release(obj));
	fs_is(NULL, "f", "another");
	free(early.iov_buf);
	free(late.iov_buf);
	OK(dfs_umount(second));
	fs_close_all();
}

static void
connections_travel(void)
{
	d_iov_t all = {0};
	dfs_t  *one, *two;

	OK(dfs_init());
	OK(dfs_connect("pool", NULL, "new", O_RDWR | O_CREAT, NULL, &one));
	OK(dfs_set_prefix(one, "/mnt"));
	OK(dfs_local2global_all(one, &all));
	all.iov_buf = malloc(all.iov_buf_len);
	OK(dfs_local2global_all(one, &all));
	OK(dfs_global2local_all(0, all, &two));
	OK(dfs_mkdir(two, NULL, "d", 0755, 0));
	GIVES(dfs_mkdir(one, NULL, "d", 0755, 0), EEXIST);
	OK(dfs_disconnect(two));
	memset(all.iov_buf, 0, all.iov_len);
	GIVES(dfs_global2local_all(0, all, &two), EINVAL);
	free(all.iov_buf);
	OK(dfs_disconnect(one));
	OK(dfs_fini());
}

TESTS(TEST(mounts_and_files_travel), TEST(files_travel_whatever_becomes_of_their_names), TEST(connections_travel))
