/* A forked process goes on with the handles of its parent, through a daemon. */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <daos_fs.h>
#include <daos_fs_sys.h>
#include "harness.h"

static void
handles_are_made_anew(void)
{
	daos_obj_id_t    oid = {.lo = 1}, aoid = {.lo = 2};
	daos_handle_t    kv, ah, eq, th;
	daos_event_t     ev, *done;
	daos_cont_info_t info;
	daos_size_t      size = 0, cell, chunk;
	int              status;
	pid_t            child;

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	OK(daos_array_generate_oid(coh, &aoid, true, OC_SX, 0, 0));
	OK(daos_array_create(coh, aoid, DAOS_TX_NONE, 4, 8, &ah, NULL));
	OK(daos_eq_create(&eq));
	OK(daos_tx_open(coh, &th, 0, NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "x", NULL));
	child = fork();
	if (child == 0) {
		GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 2, "yy", NULL), -DER_NO_HDL);
		OK(daos_reinit());
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 2, "yy", NULL));
		OK(daos_cont_query(coh, &info, NULL, NULL));
		OK(daos_array_get_attr(ah, &chunk, &cell));
		CHECK(cell == 4 && chunk == 8);
		GIVES(daos_tx_commit(th, NULL), -DER_NO_HDL);
		OK(daos_event_init(&ev, eq, NULL));
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "l", 3, "zzz", &ev));
		GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
		OK(ev.ev_error);
		OK(daos_event_fini(&ev));
		OK(daos_eq_destroy(eq, 0));
		OK(daos_kv_close(kv, NULL));
		OK(daos_array_close(ah, NULL));
		close_all();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "k", &size, NULL, NULL));
	GIVES(size, 2);
	size = 0;
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "l", &size, NULL, NULL));
	GIVES(size, 3);
	OK(daos_tx_close(th, NULL));
	OK(daos_eq_destroy(eq, 0));
	OK(daos_array_close(ah, NULL));
	OK(daos_kv_close(kv, NULL));
	close_all();
}

static void
read_all(dfs_t *dfs, dfs_obj_t *file, const char *expected)
{
	char        text[16] = {0};
	d_iov_t     iov;
	d_sg_list_t sgl  = {.sg_nr = 1, .sg_iovs = &iov};
	daos_size_t size = 0;

	d_iov_set(&iov, text, sizeof(text));
	OK(dfs_read(dfs, file, &sgl, 0, &size, NULL));
	CHECK(size == strlen(expected) && memcmp(text, expected, size) == 0);
}

static void
write_all(dfs_t *dfs, dfs_obj_t *file, const char *text)
{
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	d_iov_set(&iov, (void *)text, strlen(text));
	OK(dfs_write(dfs, file, &sgl, 0, NULL));
}

static dfs_obj_t *
make(dfs_t *dfs, dfs_obj_t *dir, const char *name, mode_t mode, const char *target)
{
	dfs_obj_t *made;

	OK(dfs_open(dfs, dir, name, mode, O_RDWR | O_CREAT | O_EXCL, 0, 0, target, &made));
	return made;
}

static void
mounts_and_what_is_open_in_them_are_made_anew(void)
{
	dfs_predicate_t  only = {.dp_name = "f%"};
	dfs_pipeline_t  *filter;
	dfs_t           *dfs;
	dfs_sys_t       *sys;
	dfs_obj_t       *dir, *file, *other, *link, *again;
	DIR             *names;
	struct dirent   *entry, *before;
	struct stat      st;
	char             target[16];
	daos_size_t      size;
	int              status;
	pid_t            child;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(dfs_cont_create_with_label(poh, "files", NULL, NULL, &coh, &dfs));
	OK(dfs_set_prefix(dfs, "/mnt"));
	dir   = make(dfs, NULL, "dir", S_IFDIR | 0755, NULL);
	file  = make(dfs, dir, "file", S_IFREG | 0644, NULL);
	other = make(dfs, dir, "other", S_IFREG | 0644, NULL);
	link  = make(dfs, dir, "link", S_IFLNK | 0777, "file");
	write_all(dfs, file, "parent");
	OK(dfs_pipeline_create(dfs, only, DFS_FILTER_NAME, &filter));
	OK(dfs_sys_connect("pool", NULL, "files", O_RDWR, 0, NULL, &sys));
	OK(dfs_sys_opendir(sys, "/dir", 0, &names));
	OK(dfs_sys_readdir(sys, names, &before));
	child = fork();
	if (child == 0) {
		GIVES(dfs_get_size(dfs, file, &size), EINVAL);
		OK(daos_reinit());
		OK(dfs_get_size(dfs, file, &size));
		GIVES(size, 6);
		read_all(dfs, file, "parent");
		write_all(dfs, file, "child!");
		OK(dfs_lookup(dfs, "/mnt/dir/file", O_RDONLY, &again, NULL, &st));
		CHECK(st.st_size == 6);
		GIVES(dfs_write(dfs, again, &(d_sg_list_t){0}, 0, NULL), EPERM);
		OK(dfs_release(again));
		OK(dfs_release(make(dfs, dir, "new", S_IFREG | 0600, NULL)));
		OK(dfs_update_parent(file, link, NULL));
		OK(dfs_chmod(dfs, dir, "file", 0600));
		size = sizeof(target);
		OK(dfs_get_symlink_value(link, target, &size));
		CHECK(strcmp(target, "file") == 0);
		OK(dfs_pipeline_destroy(filter));
		/* Where the parent was: names that it has read do not come again. */
		CHECK(before->d_name[0] != 0);
		OK(dfs_sys_readdir(sys, names, &entry));
		CHECK(entry != NULL && entry != before && strcmp(entry->d_name, before->d_name) != 0);
		OK(dfs_sys_access(sys, "/dir/file", R_OK, 0));
		OK(dfs_sys_closedir(names));
		OK(dfs_sys_disconnect(sys));
		OK(dfs_release(other));
		OK(dfs_release(link));
		OK(dfs_release(file));
		GIVES(dfs_release(file), EINVAL);
		OK(dfs_release(dir));
		OK(dfs_umount(dfs));
		close_all();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	read_all(dfs, file, "child!");
	OK(dfs_stat(dfs, dir, "new", &st));
	OK(dfs_sys_closedir(names));
	OK(dfs_sys_disconnect(sys));
	OK(dfs_pipeline_destroy(filter));
	OK(dfs_release(other));
	OK(dfs_release(link));
	OK(dfs_release(file));
	OK(dfs_release(dir));
	OK(dfs_umount(dfs));
	close_all();
}

static void
blobs_become_handles_in_another_process(void)
{
	static char   pool_blob[4096], cont_blob[4096];
	d_iov_t       pool = {.iov_buf = pool_blob, .iov_buf_len = sizeof(pool_blob)};
	d_iov_t       cont = {.iov_buf = cont_blob, .iov_buf_len = sizeof(cont_blob)};
	daos_handle_t kv;
	daos_obj_id_t oid = {.lo = 1};
	daos_size_t   size = 0;
	int           status;
	pid_t         child;

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_pool_local2global(poh, &pool));
	OK(daos_cont_local2global(coh, &cont));
	child = fork();
	if (child == 0) {
		OK(daos_init());
		GIVES(daos_cont_close(coh, NULL), -DER_NO_HDL);
		OK(daos_pool_global2local(pool, &poh));
		OK(daos_cont_global2local(poh, cont, &coh));
		OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 4, "blob", NULL));
		OK(daos_kv_close(kv, NULL));
		close_all();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	OK(daos_kv_open(coh, oid, DAOS_OO_RO, &kv, NULL));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "k", &size, NULL, NULL));
	GIVES(size, 4);
	OK(daos_kv_close(kv, NULL));
	close_all();
}

static void
a_pool_that_is_had_alone_is_shared_with_children_and_by_bytes(void)
{
	static char   blob[4096];
	d_iov_t       pool = {.iov_buf = blob, .iov_buf_len = sizeof(blob)};
	daos_handle_t other;
	daos_size_t   count = 0;
	int           status, kind;
	pid_t         child;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_EX, &poh, NULL, NULL));
	OK(daos_cont_create_with_label(poh, "cont", NULL, NULL, NULL));
	OK(daos_pool_local2global(poh, &pool));
	/* A child that makes its handles anew, one that makes one of the bytes, and one that has neither. */
	for (kind = 0; kind < 3; kind++) {
		child = fork();
		if (child == 0) {
			if (kind == 0) {
				OK(daos_reinit());
			} else {
				OK(daos_init());
				GIVES(daos_pool_connect("pool", NULL, DAOS_PC_EX, &other, NULL, NULL), -DER_BUSY);
				GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL), -DER_BUSY);
			}
			if (kind == 1)
				OK(daos_pool_global2local(pool, &poh));
			if (kind < 2) {
				OK(daos_cont_open(poh, "cont", DAOS_COO_RW, &coh, NULL, NULL));
				OK(daos_cont_close(coh, NULL));
				OK(daos_pool_disconnect(poh, NULL));
			}
			OK(daos_fini());
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		GIVES(status, 0);
		/* It has it alone still. */
		OK(daos_pool_list_cont(poh, &count, NULL, NULL));
		GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL), -DER_BUSY);
	}
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	GIVES(daos_pool_global2local(pool, &other), -DER_BUSY);
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

static void
handles_of_another_process_are_evicted(void)
{
	daos_obj_id_t    oid = {.lo = 1};
	daos_handle_t    kv, other;
	daos_cont_info_t info;
	daos_size_t      size = 0;
	int              status, ready[2], over[2];
	pid_t            child;
	char             word;

	CHECK(pipe(ready) == 0 && pipe(over) == 0);
	child = fork();
	if (child == 0) {
		open_all();
		OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
		OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 1, "x", NULL));
		CHECK(write(ready[1], "r", 1) == 1 && read(over[0], &word, 1) == 1);
		GIVES(daos_kv_put(kv, DAOS_TX_NONE, 0, "k", 2, "yy", NULL), -DER_NO_HDL);
		GIVES(daos_kv_get(kv, DAOS_TX_NONE, 0, "k", &size, NULL, NULL), -DER_NO_HDL);
		GIVES(daos_cont_query(coh, &info, NULL, NULL), -DER_NO_HDL);
		/* Whoever has it now has it alone. */
		GIVES(daos_cont_open(poh, "cont", DAOS_COO_EX, &other, NULL, NULL), -DER_BUSY);
		GIVES(daos_cont_open(poh, "cont", DAOS_COO_RO, &other, NULL, NULL), -DER_BUSY);
		GIVES(daos_kv_get(kv, DAOS_TX_NONE, 0, "k", &size, NULL, NULL), -DER_NO_HDL);
		OK(daos_kv_close(kv, NULL));
		close_all();
		_exit(0);
	}
	CHECK(read(ready[0], &word, 1) == 1);
	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	GIVES(daos_cont_open(poh, "cont", DAOS_COO_EX, &coh, NULL, NULL), -DER_BUSY);
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW, &coh, NULL, NULL));
	OK(daos_cont_open(poh, "cont", DAOS_COO_EX | DAOS_COO_EVICT_ALL, &other, &info, NULL));
	GIVES(info.ci_nhandles, 1);
	GIVES(daos_cont_close(coh, NULL), -DER_NO_HDL);
	coh = other;
	CHECK(write(over[1], "o", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RO, &kv, NULL));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "k", &size, NULL, NULL));
	GIVES(size, 1);
	OK(daos_kv_close(kv, NULL));
	OK(daos_cont_query(coh, &info, NULL, NULL));
	GIVES(info.ci_nhandles, 1);
	close_all();
}

/* Tells the other process that something is so, and waits until it says so, too. */
static void
meet(int from, int to)
{
	char word = 'm';

	CHECK(write(to, &word, 1) == 1 && read(from, &word, 1) == 1);
}

static void
who_dies_has_nothing_alone_any_more(void)
{
	unsigned int  modes[] = {DAOS_COO_RO, DAOS_COO_RW, DAOS_COO_EX};
	daos_handle_t other;
	time_t        began;
	int           i, rc, status, mine[2], its[2];
	pid_t         child;

	CHECK(pipe(mine) == 0 && pipe(its) == 0);
	child = fork();
	if (child == 0) {
		open_all();
		OK(daos_cont_close(coh, NULL));
		OK(daos_cont_open(poh, "cont", DAOS_COO_EX, &coh, NULL, NULL));
		meet(its[0], mine[1]);
		meet(its[0], mine[1]);
		_exit(1);
	}
	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	meet(mine[0], its[1]);
	for (i = 0; i < 3; i++)
		GIVES(daos_cont_open(poh, "cont", modes[i], &other, NULL, NULL), -DER_BUSY);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
	/* The daemon finds out soon. */
	began = time(NULL);
	while ((rc = daos_cont_open(poh, "cont", DAOS_COO_EX, &coh, NULL, NULL)) == -DER_BUSY)
		CHECK(time(NULL) - began < 30);
	OK(rc);
	close_all();
}

TESTS(TEST(who_dies_has_nothing_alone_any_more), TEST(handles_of_another_process_are_evicted), TEST(a_pool_that_is_had_alone_is_shared_with_children_and_by_bytes), TEST(handles_are_made_anew), TEST(mounts_and_what_is_open_in_them_are_made_anew), TEST(blobs_become_handles_in_another_process))
