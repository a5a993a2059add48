/* Threads that use one mount. */
#include "fs_kit.h"
#include <pthread.h>

#define THREADS 4
#define EACH    100

static dfs_obj_t *dir;

static void *
work(void *arg)
{
	long       rank = (long)arg;
	char       name[32], back[32];
	dfs_obj_t *obj;
	int        i;

	for (i = 0; i < EACH; i++) {
		snprintf(name, sizeof(name), "f-%ld-%d", rank, i);
		fs_put(dir, name, name);
		fs_is(dir, name, name);
		snprintf(back, sizeof(back), "g-%ld-%d", rank, i);
		OK(dfs_move(dfs, dir, name, dir, back, NULL));
		obj = fs_open(dir, back, 0);
		if (i % 2 == 0)
			OK(dfs_remove(dfs, dir, back, false, NULL));
		GIVES(fs_read(obj, name, 3, 0), 3);
		OK(dfs_release(obj));
		/* All threads fight for one name. */
		obj = fs_open(dir, "shared", O_CREAT);
		OK(fs_write(obj, &rank, sizeof(rank), 0));
		OK(dfs_release(obj));
	}
	return NULL;
}

static void
threads_share_a_mount(void)
{
	pthread_t     threads[THREADS];
	daos_anchor_t anchor = {0};
	struct dirent dirs[64];
	uint32_t      nr;
	long          i;
	int           count = 0;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	for (i = 0; i < THREADS; i++)
		OK(pthread_create(&threads[i], NULL, work, (void *)i));
	for (i = 0; i < THREADS; i++)
		OK(pthread_join(threads[i], NULL));
	while (!daos_anchor_is_eof(&anchor)) {
		nr = 64;
		OK(dfs_readdir(dfs, dir, &anchor, &nr, dirs));
		count += nr;
	}
	GIVES(count, THREADS * EACH / 2 + 1);
	OK(dfs_release(dir));
	fs_close_all();
}

TESTS(TEST(threads_share_a_mount))
