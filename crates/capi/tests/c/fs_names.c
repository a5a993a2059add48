/* Entries and listings. */
#include "fs_kit.h"

static void
entries_are_removed(void)
{
	dfs_obj_t    *dir;
	daos_obj_id_t oid = {0};
	struct stat   st;

	fs_open_all();
	OK(dfs_mkdir(dfs, NULL, "d", 0755, 0));
	GIVES(dfs_mkdir(dfs, NULL, "d", 0755, 0), EEXIST);
	OK(dfs_lookup(dfs, "/d", O_RDWR, &dir, NULL, NULL));
	fs_put(dir, "f", "x");
	OK(dfs_mkdir(dfs, dir, "sub", 0755, 0));
	GIVES(dfs_remove(dfs, NULL, "d", false, NULL), ENOTEMPTY);
	OK(dfs_remove(dfs, dir, "f", false, &oid));
	CHECK(oid.lo != 0);
	GIVES(dfs_remove(dfs, dir, "f", false, NULL), ENOENT);
	OK(dfs_release(dir));
	OK(dfs_remove(dfs, NULL, "d", true, NULL));
	GIVES(dfs_stat(dfs, NULL, "d", &st), ENOENT);
	GIVES(dfs_lookup(dfs, "/d", O_RDWR, &dir, NULL, NULL), ENOENT);
	fs_close_all();
}

static void
entries_are_moved_and_exchanged(void)
{
	dfs_obj_t    *dir, *obj;
	daos_obj_id_t oid = {1, 1}, replaced;
	struct stat   st;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	fs_put(NULL, "a", "one");
	OK(dfs_move(dfs, NULL, "a", dir, "b", &oid));
	GIVES(oid.lo, 0);
	fs_is(dir, "b", "one");
	GIVES(dfs_stat(dfs, NULL, "a", &st), ENOENT);
	fs_put(NULL, "c", "two");
	obj = fs_open(dir, "b", 0);
	OK(dfs_obj2id(obj, &replaced));
	OK(dfs_release(obj));
	OK(dfs_move(dfs, NULL, "c", dir, "b", &oid));
	GIVES(oid.lo, replaced.lo);
	fs_is(dir, "b", "two");
	fs_put(NULL, "x", "three");
	OK(dfs_exchange(dfs, NULL, "x", dir, "b"));
	fs_is(NULL, "x", "two");
	fs_is(dir, "b", "three");
	GIVES(dfs_exchange(dfs, NULL, "x", dir, "none"), ENOENT);
	GIVES(dfs_move(dfs, NULL, "none", dir, "b", NULL), ENOENT);
	GIVES(dfs_move(dfs, NULL, "d", dir, "sub", NULL), EINVAL);
	OK(dfs_release(dir));
	fs_close_all();
}

static void
fill(dfs_obj_t *dir, int count)
{
	char name[32];
	int  i;

	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "entry-%d", i);
		if (i % 10 == 0)
			OK(dfs_mkdir(dfs, dir, name, 0755, 0));
		else
			fs_put(dir, name, i % 2 ? "odd" : "even!");
	}
}

static void
names_are_listed_once(void)
{
	static bool   seen[100];
	daos_anchor_t anchor = {0}, from = {0};
	struct dirent dirs[7];
	dfs_obj_t    *dir;
	uint32_t      nr, i;
	int           n, count = 0;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	fill(dir, 100);
	while (!daos_anchor_is_eof(&anchor)) {
		nr = 7;
		OK(dfs_readdir(dfs, dir, &anchor, &nr, dirs));
		CHECK(nr <= 7);
		for (i = 0; i < nr; i++) {
			CHECK(sscanf(dirs[i].d_name, "entry-%d", &n) == 1 && !seen[n]);
			seen[n] = true;
			count++;
		}
	}
	GIVES(count, 100);
	OK(dfs_dir_anchor_set(dir, dirs[0].d_name, &from));
	nr = 1;
	strcpy(dirs[1].d_name, dirs[0].d_name);
	OK(dfs_readdir(dfs, dir, &from, &nr, dirs));
	GIVES(nr, 1);
	CHECK(strcmp(dirs[0].d_name, dirs[1].d_name) == 0);
	memset(&anchor, 0xff, sizeof(anchor));
	GIVES(dfs_readdir(dfs, dir, &anchor, &nr, dirs), EINVAL);
	OK(dfs_release(dir));
	fs_close_all();
}

static void
names_are_listed_with_attributes(void)
{
	daos_anchor_t anchor = {0};
	struct dirent dirs[30];
	struct stat   sts[30];
	dfs_obj_t    *dir;
	uint32_t      nr = 30, i;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	fill(dir, 20);
	OK(dfs_readdirplus(dfs, dir, &anchor, &nr, dirs, sts));
	GIVES(nr, 20);
	CHECK(daos_anchor_is_eof(&anchor));
	for (i = 0; i < nr; i++) {
		int n = atoi(dirs[i].d_name + 6);

		GIVES(sts[i].st_mode & S_IFMT, n % 10 == 0 ? S_IFDIR : S_IFREG);
		GIVES(dirs[i].d_type, n % 10 == 0 ? DT_DIR : DT_REG);
		if (n % 10 != 0)
			GIVES(sts[i].st_size, n % 2 ? 3 : 5);
	}
	OK(dfs_release(dir));
	fs_close_all();
}

static int
count_one(dfs_t *fs, dfs_obj_t *dir, const char name[], void *arg)
{
	int *count = arg;

	CHECK(fs == dfs && dir != NULL && strncmp(name, "entry-", 6) == 0);
	*count += 1;
	return *count == 13 ? 77 : 0;
}

static void
names_are_given_to_a_function(void)
{
	daos_anchor_t anchor = {0};
	dfs_obj_t    *dir;
	uint32_t      nr    = 100;
	int           count = 0;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	fill(dir, 40);
	GIVES(dfs_iterate(dfs, dir, &anchor, &nr, 4096, count_one, &count), 77);
	GIVES(nr, 13);
	nr = 100;
	OK(dfs_iterate(dfs, dir, &anchor, &nr, 4096, count_one, &count));
	GIVES(nr, 27);
	GIVES(count, 40);
	CHECK(daos_anchor_is_eof(&anchor));
	GIVES(dfs_iterate(dfs, dir, &anchor, &nr, 4096, NULL, NULL), EINVAL);
	OK(dfs_release(dir));
	fs_close_all();
}

static void
a_listing_is_split(void)
{
	daos_anchor_t anchors[8];
	struct dirent dirs[16];
	dfs_obj_t    *dir;
	uint32_t      parts = 0, nr, part;
	int           count = 0, each;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, OC_SX, 0, NULL, &dir));
	fill(dir, 100);
	OK(dfs_obj_anchor_split(dir, &parts, NULL));
	GIVES(parts, 2);
	parts = 8;
	OK(dfs_obj_anchor_split(dir, &parts, anchors));
	GIVES(parts, 2);
	for (part = 0; part < parts; part++) {
		if (part == 1)
			OK(dfs_obj_anchor_set(dir, part, &anchors[part]));
		for (each = 0; !daos_anchor_is_eof(&anchors[part]); each += nr) {
			nr = 16;
			OK(dfs_readdir(dfs, dir, &anchors[part], &nr, dirs));
		}
		CHECK(each > 0);
		count += each;
	}
	GIVES(count, 100);
	GIVES(dfs_obj_anchor_set(dir, 2, anchors), EINVAL);
	OK(dfs_release(dir));
	fs_close_all();
}

static void
a_filter_lets_through_what_it_says(void)
{
	dfs_predicate_t pred = {0};
	dfs_pipeline_t *filter;
	daos_anchor_t   anchor = {0};
	struct dirent   dirs[40];
	daos_obj_id_t   oids[40];
	daos_size_t     csizes[40];
	uint64_t        scanned = 0;
	dfs_obj_t      *dir;
	uint32_t        nr = 40, i;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	fill(dir, 30);
	strcpy(pred.dp_name, "%-1_");
	OK(dfs_pipeline_create(dfs, pred, DFS_FILTER_NAME, &filter));
	OK(dfs_readdir_with_filter(dfs, dir, filter, &anchor, &nr, dirs, oids, csizes, &scanned));
	GIVES(nr, 10);
	GIVES(scanned, 30);
	for (i = 0; i < nr; i++) {
		CHECK(strncmp(dirs[i].d_name, "entry-1", 7) == 0 && strlen(dirs[i].d_name) == 8);
		CHECK(oids[i].lo != 0);
	}
	OK(dfs_pipeline_destroy(filter));
	GIVES(dfs_pipeline_destroy(filter), EINVAL);
	pred.dp_newer = time(NULL) + 1000;
	OK(dfs_pipeline_create(dfs, pred, DFS_FILTER_NEWER | DFS_FILTER_INCLUDE_DIRS, &filter));
	memset(&anchor, 0, sizeof(anchor));
	nr = 40;
	OK(dfs_readdir_with_filter(dfs, dir, filter, &anchor, &nr, dirs, NULL, NULL, NULL));
	GIVES(nr, 3);
	OK(dfs_pipeline_destroy(filter));
	GIVES(dfs_pipeline_create(dfs, pred, 1, &filter), EINVAL);
	OK(dfs_release(dir));
	fs_close_all();
}

TESTS(TEST(entries_are_removed), TEST(entries_are_moved_and_exchanged), TEST(names_are_listed_once),
      TEST(names_are_listed_with_attributes), TEST(names_are_given_to_a_function), TEST(a_listing_is_split),
      TEST(a_filter_lets_through_what_it_says))
