/* Two processes that use one file system through a daemon: handles travel by a pipe. */
#include "fs_kit.h"
#include <sys/wait.h>

static int to_child[2], to_parent[2];

static void
send_blob(int fd, d_iov_t *glob)
{
	CHECK(write(fd, &glob->iov_buf_len, 8) == 8);
	CHECK(write(fd, glob->iov_buf, glob->iov_buf_len) == (ssize_t)glob->iov_buf_len);
	free(glob->iov_buf);
}

static d_iov_t
receive_blob(int fd)
{
	d_iov_t glob;

	CHECK(read(fd, &glob.iov_buf_len, 8) == 8);
	glob.iov_len = glob.iov_buf_len;
	glob.iov_buf = malloc(glob.iov_len);
	CHECK(read(fd, glob.iov_buf, glob.iov_len) == (ssize_t)glob.iov_len);
	return glob;
}

#define SEND(fd, call, ...)                                                                                            \
	do {                                                                                                           \
		d_iov_t glob_ = {0};                                                                                   \
		OK(call(__VA_ARGS__, &glob_));                                                                         \
		glob_.iov_buf = malloc(glob_.iov_buf_len);                                                             \
		OK(call(__VA_ARGS__, &glob_));                                                                         \
		send_blob(fd, &glob_);                                                                                 \
	} while (0)

/* Waits for the other process to come as far. */
static void
step(int from, int to)
{
	char byte = 0;

	CHECK(write(to, &byte, 1) == 1);
	CHECK(read(from, &byte, 1) == 1);
}

static void
second_process(void)
{
	dfs_obj_t  *dir, *file, *own;
	d_iov_t     glob;
	struct stat st;
	char        buf[16] = {0};

	OK(daos_init());
	glob = receive_blob(to_child[0]);
	OK(daos_pool_global2local(glob, &poh));
	free(glob.iov_buf);
	glob = receive_blob(to_child[0]);
	OK(daos_cont_global2local(poh, glob, &coh));
	free(glob.iov_buf);
	glob = receive_blob(to_child[0]);
	OK(dfs_global2local(poh, coh, 0, glob, &dfs));
	free(glob.iov_buf);
	glob = receive_blob(to_child[0]);
	OK(dfs_obj_global2local(dfs, 0, glob, &file));
	free(glob.iov_buf);
	GIVES(fs_read(file, buf, sizeof(buf), 0), 5);
	CHECK(strcmp(buf, "stone") == 0);
	OK(fs_write(file, "S", 1, 0));
	OK(dfs_lookup(dfs, "/d", O_RDWR, &dir, NULL, NULL));
	fs_put(dir, "of-second", "two");
	step(to_child[0], to_parent[1]);
	/* The first process has removed the file and the directory meanwhile. */
	step(to_child[0], to_parent[1]);
	GIVES(dfs_ostat(dfs, file, &st), ESTALE);
	GIVES(dfs_open(dfs, dir, "late", S_IFREG | 0644, O_RDWR | O_CREAT, 0, 0, NULL, &own), ESTALE);
	GIVES(dfs_lookup(dfs, "/d", O_RDWR, &own, NULL, NULL), ENOENT);
	OK(dfs_release(file));
	OK(dfs_release(dir));
	fs_close_all();
}

static void
two_processes_share_a_file_system(void)
{
	dfs_obj_t *dir, *file;
	char       buf[16] = {0};
	int        status;
	pid_t      child;

	CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
	child = fork();
	if (child == 0) {
		second_process();
		exit(0);
	}
	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	fs_put(dir, "f", "stone");
	file = fs_open(dir, "f", 0);
	SEND(to_child[1], daos_pool_local2global, poh);
	SEND(to_child[1], daos_cont_local2global, coh);
	SEND(to_child[1], dfs_local2global, dfs);
	SEND(to_child[1], dfs_obj_local2global, dfs, file);
	step(to_parent[0], to_child[1]);
	GIVES(fs_read(file, buf, sizeof(buf), 0), 5);
	CHECK(strcmp(buf, "Stone") == 0);
	fs_is(dir, "of-second", "two");
	GIVES(dfs_remove(dfs, NULL, "d", false, NULL), ENOTEMPTY);
	OK(dfs_release(file));
	OK(dfs_remove(dfs, dir, "f", false, NULL));
	OK(dfs_remove(dfs, dir, "of-second", false, NULL));
	OK(dfs_remove(dfs, NULL, "d", false, NULL));
	step(to_parent[0], to_child[1]);
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	OK(dfs_release(dir));
	fs_close_all();
}

#define EACH 200

static void
fill(int rank)
{
	dfs_obj_t *dir, *obj;
	char       name[32];
	int        i;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_cont_open(poh, "files", DAOS_COO_RW, &coh, NULL, NULL));
	OK(dfs_mount(poh, coh, O_RDWR, &dfs));
	OK(dfs_lookup(dfs, "/d", O_RDWR, &dir, NULL, NULL));
	for (i = 0; i < EACH; i++) {
		snprintf(name, sizeof(name), "own-%d-%d", rank, i);
		fs_put(dir, name, name);
		/* One of all makes each of these. */
		snprintf(name, sizeof(name), "all-%d", i);
		if (dfs_open(dfs, dir, name, S_IFREG | 0644, O_RDWR | O_CREAT | O_EXCL, 0, 0, NULL, &obj) == 0) {
			OK(fs_write(obj, &rank, sizeof(rank), 0));
			OK(dfs_release(obj));
		}
		if (i % 2 == 0) {
			snprintf(name, sizeof(name), "own-%d-%d", rank, i);
			OK(dfs_remove(dfs, dir, name, false, NULL));
		}
	}
	OK(dfs_release(dir));
	fs_close_all();
}

static void
many_processes_fill_a_directory(void)
{
	daos_anchor_t anchor = {0};
	struct dirent dirs[64];
	dfs_obj_t    *dir;
	uint32_t      nr;
	pid_t         children[3];
	int           i, status, count = 0, go[2];
	char          byte;

	CHECK(pipe(go) == 0);
	for (i = 0; i < 3; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			CHECK(read(go[0], &byte, 1) == 1);
			fill(i);
			exit(0);
		}
	}
	fs_open_all();
	OK(dfs_mkdir(dfs, NULL, "d", 0755, 0));
	CHECK(write(go[1], "123", 3) == 3);
	for (i = 0; i < 3; i++) {
		CHECK(waitpid(children[i], &status, 0) == children[i]);
		GIVES(status, 0);
	}
	OK(dfs_lookup(dfs, "/d", O_RDWR, &dir, NULL, NULL));
	while (!daos_anchor_is_eof(&anchor)) {
		nr = 64;
		OK(dfs_readdir(dfs, dir, &anchor, &nr, dirs));
		count += nr;
	}
	GIVES(count, EACH + 3 * EACH / 2);
	OK(dfs_release(dir));
	OK(dfs_umount(dfs));
	OK(daos_cont_close(coh, NULL));
	OK(dfs_cont_check(poh, "files", DFS_CHECK_PRINT, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
}

/* Writes files until it is told to end, each in a mount of its own; what it was told is written is there. */
static void
write_beside_checks(void)
{
	struct stat st;
	char        name[32];
	int         i, rc, tries = 0;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	for (i = 0; i < 30; i++) {
		/* A check has it alone, for as long as it takes. */
		while ((rc = daos_cont_open(poh, "files", DAOS_COO_RW, &coh, NULL, NULL)) == -DER_BUSY)
			CHECK(tries++ < 1000000);
		OK(rc);
		OK(dfs_mount(poh, coh, O_RDWR, &dfs));
		snprintf(name, sizeof(name), "f%d", i);
		fs_put(NULL, name, name);
		fs_is(NULL, name, name);
		OK(dfs_umount(dfs));
		OK(daos_cont_close(coh, NULL));
	}
	while ((rc = daos_cont_open(poh, "files", DAOS_COO_RW, &coh, NULL, NULL)) == -DER_BUSY)
		CHECK(tries++ < 1000000);
	OK(rc);
	OK(dfs_mount(poh, coh, O_RDWR, &dfs));
	step(to_child[0], to_parent[1]);
	/* The other process has tried to check meanwhile. */
	step(to_child[0], to_parent[1]);
	for (i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(dfs_stat(dfs, NULL, name, &st));
		GIVES(st.st_size, strlen(name));
		fs_is(NULL, name, name);
	}
	fs_close_all();
}

static void
checks_take_nothing_from_who_writes_beside_them(void)
{
	int   rc, status, done = 0, busy = 0;
	pid_t child;

	CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
	child = fork();
	if (child == 0) {
		char byte;

		CHECK(read(to_child[0], &byte, 1) == 1);
		write_beside_checks();
		exit(0);
	}
	fs_open_all();
	OK(dfs_umount(dfs));
	OK(daos_cont_close(coh, NULL));
	CHECK(write(to_child[1], "g", 1) == 1);
	CHECK(fcntl(to_parent[0], F_SETFL, O_NONBLOCK) == 0);
	do {
		char byte;

		rc = dfs_cont_check(poh, "files", DFS_CHECK_REMOVE, NULL);
		CHECK(rc == 0 || rc == EBUSY);
		done += rc == 0;
		busy += rc == EBUSY;
		rc = read(to_parent[0], &byte, 1);
	} while (rc != 1);
	/* Now it has the container open for good. */
	GIVES(dfs_cont_check(poh, "files", DFS_CHECK_REMOVE, NULL), EBUSY);
	GIVES(dfs_cont_check(poh, "files", DFS_CHECK_RELINK, NULL), EBUSY);
	CHECK(write(to_child[1], "ab", 2) == 2);
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	OK(dfs_cont_check(poh, "files", DFS_CHECK_REMOVE, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
	printf("%d checks, %d refused\n", done, busy);
}

TESTS(TEST(two_processes_share_a_file_system), TEST(many_processes_fill_a_directory),
      TEST(checks_take_nothing_from_who_writes_beside_them))
