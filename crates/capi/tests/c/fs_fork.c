/* Files and forks. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <daos_fs.h>
#include "harness.h"

static void
mounts_do_not_survive_a_fork(void)
{
	dfs_t        *dfs;
	dfs_obj_t    *file;
	daos_size_t   size = 9;
	int           status, again;
	pid_t         child;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(dfs_cont_create_with_label(poh, "files", NULL, NULL, &coh, &dfs));
	OK(dfs_open(dfs, NULL, "file", S_IFREG | 0644, O_RDWR | O_CREAT, 0, 0, NULL, &file));
	for (again = 0; again < 2; again++) {
		child = fork();
		if (child == 0) {
			GIVES(dfs_get_size(dfs, file, &size), EINVAL);
			OK(again ? daos_init() : daos_reinit());
			GIVES(dfs_get_size(dfs, file, &size), EINVAL);
			GIVES(daos_cont_close(coh, NULL), -DER_NO_HDL);
			OK(daos_fini());
			GIVES(daos_fini(), -DER_UNINIT);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		GIVES(status, 0);
	}
	OK(dfs_get_size(dfs, file, &size));
	CHECK(size == 0);
	OK(dfs_release(file));
	OK(dfs_umount(dfs));
	close_all();
}

static void
the_last_fini_gives_mounts_up(void)
{
	dfs_t     *dfs;
	dfs_obj_t *file;
	mode_t     mode;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(dfs_cont_create_with_label(poh, "files", NULL, NULL, &coh, &dfs));
	OK(dfs_open(dfs, NULL, "file", S_IFREG | 0644, O_RDWR | O_CREAT, 0, 0, NULL, &file));
	OK(daos_fini());
	OK(daos_init());
	GIVES(dfs_get_mode(file, &mode), EINVAL);
	GIVES(dfs_umount(dfs), EINVAL);
	OK(daos_fini());
}

TESTS(TEST(mounts_do_not_survive_a_fork), TEST(the_last_fini_gives_mounts_up))
