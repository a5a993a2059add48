/* What every C test of files uses: a file system to work in, and short forms of reading and writing. */
#ifndef FS_KIT_H
#define FS_KIT_H

#define _GNU_SOURCE
#include "harness.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <daos_fs.h>
#include <daos_fs_sys.h>
#include <daos_uns.h>

static dfs_t *dfs;

#define NO_DFS ((dfs_t *)0x123456789abcde1UL)
#define NO_OBJ ((dfs_obj_t *)0x123456789abcde2UL)

/* A container with a file system, mounted for reading and writing. */
static inline void
fs_open_all(void)
{
	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(dfs_cont_create_with_label(poh, "files", NULL, NULL, &coh, &dfs));
}

static inline void
fs_close_all(void)
{
	OK(dfs_umount(dfs));
	close_all();
}

static inline int
fs_write(dfs_obj_t *obj, const void *data, size_t len, daos_off_t off)
{
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	d_iov_set(&iov, (void *)data, len);
	return dfs_write(dfs, obj, &sgl, off, NULL);
}

/* How many bytes there were. */
static inline long
fs_read(dfs_obj_t *obj, void *data, size_t len, daos_off_t off)
{
	d_iov_t     iov;
	d_sg_list_t sgl  = {.sg_nr = 1, .sg_iovs = &iov};
	daos_size_t read = 4711;

	d_iov_set(&iov, data, len);
	OK(dfs_read(dfs, obj, &sgl, off, &read, NULL));
	return (long)read;
}

/* Opens a file of the root, or of a directory, for reading and writing. */
static inline dfs_obj_t *
fs_open(dfs_obj_t *parent, const char *name, int flags)
{
	dfs_obj_t *obj = NULL;

	OK(dfs_open(dfs, parent, name, S_IFREG | 0644, O_RDWR | flags, 0, 0, NULL, &obj));
	CHECK(obj != NULL);
	return obj;
}

/* A file with these contents. */
static inline void
fs_put(dfs_obj_t *parent, const char *name, const char *text)
{
	dfs_obj_t *obj = fs_open(parent, name, O_CREAT | O_TRUNC);

	OK(fs_write(obj, text, strlen(text), 0));
	OK(dfs_release(obj));
}

static inline void
fs_is(dfs_obj_t *parent, const char *name, const char *text)
{
	char       buf[256] = {0};
	dfs_obj_t *obj      = NULL;

	OK(dfs_open(dfs, parent, name, S_IFREG, O_RDONLY, 0, 0, NULL, &obj));
	GIVES(fs_read(obj, buf, sizeof(buf) - 1, 0), strlen(text));
	CHECK(strcmp(buf, text) == 0);
	OK(dfs_release(obj));
}

#endif /* FS_KIT_H */
