/* Opening, reading, writing. */
#include "fs_kit.h"

static void
what_is_written_is_read(void)
{
	static char in[3 << 20], out[3 << 20];
	dfs_obj_t  *obj;
	daos_size_t size = 0;
	size_t      i;

	fs_open_all();
	for (i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 7 + i / 4096);
	obj = fs_open(NULL, "f", O_CREAT | O_EXCL);
	OK(fs_write(obj, in, sizeof(in), 5));
	OK(dfs_get_size(dfs, obj, &size));
	GIVES(size, sizeof(in) + 5);
	GIVES(fs_read(obj, out, sizeof(out), 5), sizeof(in));
	CHECK(memcmp(in, out, sizeof(in)) == 0);
	GIVES(fs_read(obj, out, 100, 0), 100);
	CHECK(out[0] == 0 && out[4] == 0 && out[5] == in[0]);
	GIVES(fs_read(obj, out, 100, sizeof(in)), 5);
	GIVES(fs_read(obj, out, 100, sizeof(in) + 5), 0);
	GIVES(fs_read(obj, out, 0, 0), 0);
	OK(dfs_release(obj));
	GIVES(dfs_release(obj), EINVAL);
	fs_close_all();
}

static void
several_buffers_are_one_range(void)
{
	char        a[3] = "abc", b[5] = "defgh", c[4] = "????", d[2] = "??", e[9] = "?????????";
	d_iov_t     iovs[3];
	d_sg_list_t sgl = {.sg_nr = 2, .sg_iovs = iovs};
	daos_size_t read;
	dfs_obj_t  *obj;

	fs_open_all();
	obj = fs_open(NULL, "f", O_CREAT);
	d_iov_set(&iovs[0], a, 3);
	d_iov_set(&iovs[1], b, 5);
	OK(dfs_write(dfs, obj, &sgl, 2, NULL));
	d_iov_set(&iovs[0], c, 4);
	d_iov_set(&iovs[1], d, 2);
	d_iov_set(&iovs[2], e, 9);
	sgl.sg_nr = 3;
	OK(dfs_read(dfs, obj, &sgl, 0, &read, NULL));
	GIVES(read, 10);
	CHECK(memcmp(c, "\0\0ab", 4) == 0 && memcmp(d, "cd", 2) == 0 && memcmp(e, "efgh", 4) == 0);
	/* More than any file holds is asked for: what there is comes. */
	d_iov_set(&iovs[0], e, 1ULL << 46);
	sgl.sg_nr = 1;
	OK(dfs_read(dfs, obj, &sgl, 5, &read, NULL));
	GIVES(read, 5);
	sgl.sg_nr = 1 << 20;
	GIVES(dfs_read(dfs, obj, &sgl, 5, &read, NULL), EINVAL);
	d_iov_set(&iovs[0], NULL, 4);
	sgl.sg_nr = 1;
	GIVES(dfs_write(dfs, obj, &sgl, 0, NULL), EINVAL);
	GIVES(dfs_write(dfs, obj, NULL, 0, NULL), EINVAL);
	GIVES(dfs_read(dfs, obj, &sgl, 0, &read, NULL), EINVAL);
	OK(dfs_release(obj));
	fs_close_all();
}

static void
ranges_are_written_and_read_together(void)
{
	char         in[12] = "aaaabbbbcccc", out[12];
	d_iov_t      iov;
	d_sg_list_t  sgl    = {.sg_nr = 1, .sg_iovs = &iov};
	daos_range_t rgs[3] = {{10, 4}, {0, 4}, {2000000, 4}};
	dfs_iod_t    iod    = {3, rgs};
	daos_size_t  read   = 0;
	dfs_obj_t   *obj;

	fs_open_all();
	obj = fs_open(NULL, "f", O_CREAT);
	d_iov_set(&iov, in, 12);
	OK(dfs_writex(dfs, obj, &iod, &sgl, NULL));
	d_iov_set(&iov, out, 12);
	OK(dfs_readx(dfs, obj, &iod, &sgl, &read, NULL));
	GIVES(read, 12);
	CHECK(memcmp(in, out, 12) == 0);
	GIVES(fs_read(obj, out, 12, 0), 12);
	CHECK(memcmp(out, "bbbb\0\0\0\0\0\0aa", 12) == 0);
	rgs[0].rg_len = 5;
	GIVES(dfs_writex(dfs, obj, &iod, &sgl, NULL), EINVAL);
	rgs[0].rg_len = 4;
	rgs[0].rg_idx = ~0ULL;
	GIVES(dfs_readx(dfs, obj, &iod, &sgl, &read, NULL), EINVAL);
	iod.iod_nr = 1ULL << 60;
	GIVES(dfs_readx(dfs, obj, &iod, &sgl, &read, NULL), EINVAL);
	OK(dfs_release(obj));
	fs_close_all();
}

/* No ranges, whatever the buffers are, ranges of nothing, and no buffers: with an event and without. */
static void
nothing_is_read_and_written(void)
{
	char          out[4] = "oooo";
	d_iov_t       iov;
	d_sg_list_t   some = {.sg_nr = 1, .sg_iovs = &iov}, empty = {0};
	daos_range_t  rg   = {.rg_idx = 5000, .rg_len = 0};
	dfs_iod_t     none = {0}, hollow = {.iod_nr = 1, .iod_rgs = &rg};
	daos_handle_t eq;
	daos_event_t  ev, *evs[2] = {NULL, &ev}, *done;
	daos_size_t   read, size;
	dfs_obj_t    *obj, *only;
	int           i;

	fs_open_all();
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&ev, eq, NULL));
	obj = fs_open(NULL, "f", O_CREAT);
	OK(fs_write(obj, "stone", 5, 0));
	d_iov_set(&iov, out, sizeof(out));
	for (i = 0; i < 2; i++) {
		struct {
			dfs_iod_t   *iod;
			d_sg_list_t *sgl;
		} asked[] = {{&none, &some}, {&none, &empty}, {&none, NULL}, {&hollow, &empty}, {NULL, &empty}}, *a;

		for (a = asked; a < asked + 5; a++) {
			read = 4711;
			if (a->iod != NULL)
				OK(dfs_readx(dfs, obj, a->iod, a->sgl, &read, evs[i]));
			else
				OK(dfs_read(dfs, obj, a->sgl, 0, &read, evs[i]));
			if (i == 1) {
				GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
				GIVES(ev.ev_error, 0);
			}
			GIVES(read, 0);
			if (a->iod != NULL)
				OK(dfs_writex(dfs, obj, a->iod, a->sgl, evs[i]));
			else
				OK(dfs_write(dfs, obj, a->sgl, 5000, evs[i]));
			if (i == 1) {
				GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
				GIVES(ev.ev_error, 0);
			}
			OK(dfs_get_size(dfs, obj, &size));
			CHECK(size == 5 && memcmp(out, "oooo", 4) == 0);
		}
	}
	/* What is wrong with the rest is wrong all the same. */
	GIVES(dfs_readx(dfs, obj, &none, &some, NULL, NULL), EINVAL);
	OK(dfs_open(dfs, NULL, "f", S_IFREG, O_WRONLY, 0, 0, NULL, &only));
	GIVES(dfs_readx(dfs, only, &none, &some, &read, NULL), EPERM);
	OK(dfs_release(only));
	OK(dfs_open(dfs, NULL, "f", S_IFREG, O_RDONLY, 0, 0, NULL, &only));
	GIVES(dfs_writex(dfs, only, &none, &some, NULL), EPERM);
	OK(dfs_release(only));
	OK(dfs_release(obj));
	OK(daos_event_fini(&ev));
	OK(daos_eq_destroy(eq, 0));
	fs_close_all();
}

static void
punching_makes_holes_and_sizes(void)
{
	char        buf[100];
	dfs_obj_t  *obj;
	daos_size_t size;

	fs_open_all();
	obj = fs_open(NULL, "f", O_CREAT);
	memset(buf, 7, sizeof(buf));
	OK(fs_write(obj, buf, 100, 0));
	OK(dfs_punch(dfs, obj, 10, 20));
	GIVES(fs_read(obj, buf, 100, 0), 100);
	CHECK(buf[9] == 7 && buf[10] == 0 && buf[29] == 0 && buf[30] == 7);
	OK(dfs_punch(dfs, obj, 60, DFS_MAX_FSIZE));
	OK(dfs_get_size(dfs, obj, &size));
	GIVES(size, 60);
	OK(dfs_punch(dfs, obj, 50, 1000));
	OK(dfs_get_size(dfs, obj, &size));
	GIVES(size, 50);
	OK(dfs_punch(dfs, obj, 500, 10));
	OK(dfs_get_size(dfs, obj, &size));
	GIVES(size, 50);
	OK(dfs_punch(dfs, obj, 5000, DFS_MAX_FSIZE));
	OK(dfs_get_size(dfs, obj, &size));
	GIVES(size, 5000);
	OK(dfs_release(obj));
	fs_close_all();
}

static void
flags_of_open_mean_what_they_say(void)
{
	dfs_obj_t  *obj, *dup;
	daos_size_t size = 7;
	mode_t      mode = 0;

	fs_open_all();
	GIVES(dfs_open(dfs, NULL, "f", S_IFREG, O_RDWR, 0, 0, NULL, &obj), ENOENT);
	fs_put(NULL, "f", "stone");
	GIVES(dfs_open(dfs, NULL, "f", S_IFREG | 0600, O_RDWR | O_CREAT | O_EXCL, 0, 0, NULL, &obj), EEXIST);
	/* Of a file that exists the mode may be anything. */
	OK(dfs_open(dfs, NULL, "f", S_IFREG | 0x3f, O_RDWR, 0, 0, NULL, &obj));
	OK(dfs_get_mode(obj, &mode));
	GIVES(mode, S_IFREG | 0644);
	OK(dfs_dup(dfs, obj, O_RDONLY, &dup));
	GIVES(fs_write(dup, "x", 1, 0), EPERM);
	GIVES(dfs_punch(dfs, dup, 0, DFS_MAX_FSIZE), EPERM);
	OK(dfs_release(obj));
	OK(dfs_get_size(dfs, dup, &size));
	GIVES(size, 5);
	OK(dfs_release(dup));
	OK(dfs_open(dfs, NULL, "f", S_IFREG, O_WRONLY | O_TRUNC, 0, 0, NULL, &obj));
	OK(dfs_get_size(dfs, obj, &size));
	GIVES(size, 0);
	GIVES(dfs_read(dfs, obj, &(d_sg_list_t){0}, 0, &size, NULL), EPERM);
	OK(dfs_release(obj));
	GIVES(dfs_open(dfs, NULL, "f", S_IFREG, O_RDWR | O_APPEND, 0, 0, NULL, &obj), ENOTSUP);
	GIVES(dfs_open(dfs, NULL, "f", 0644, O_RDWR, 0, 0, NULL, &obj), EINVAL);
	GIVES(dfs_open(dfs, NULL, "f", S_IFDIR, O_RDWR, 0, 0, NULL, &obj), ENOTDIR);
	GIVES(dfs_open(dfs, NULL, "f", S_IFLNK, O_RDWR, 0, 0, NULL, &obj), EINVAL);
	GIVES(dfs_open(dfs, NULL, "a/b", S_IFREG, O_RDWR | O_CREAT, 0, 0, NULL, &obj), EINVAL);
	GIVES(dfs_open(dfs, NULL, NULL, S_IFREG, O_RDWR, 0, 0, NULL, &obj), EINVAL);
	GIVES(dfs_open(dfs, NULL, "f", S_IFREG, O_RDWR, 0, 0, NULL, NULL), EINVAL);
	fs_close_all();
}

static void
names_have_their_length(void)
{
	char       name[258];
	dfs_obj_t *obj;

	fs_open_all();
	memset(name, 'n', 257);
	name[257] = 0;
	GIVES(dfs_open(dfs, NULL, name, S_IFREG, O_RDWR | O_CREAT, 0, 0, NULL, &obj), ENAMETOOLONG);
	GIVES(dfs_mkdir(dfs, NULL, "..", 0755, 0), EINVAL);
	GIVES(dfs_mkdir(dfs, NULL, "", 0755, 0), EINVAL);
	name[255] = 0;
	OK(dfs_mkdir(dfs, NULL, name, 0755, 0));
	OK(dfs_remove(dfs, NULL, name, false, NULL));
	fs_close_all();
}

static void
directories_and_links_are_opened_too(void)
{
	dfs_obj_t  *dir, *link, *obj;
	char        buf[16];
	daos_size_t size = sizeof(buf);
	mode_t      mode;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0700, O_RDWR | O_CREAT | O_EXCL, OC_SX, 0, NULL, &dir));
	GIVES(dfs_open(dfs, NULL, "d", S_IFDIR | 0700, O_RDWR | O_CREAT | O_EXCL, 0, 0, NULL, &obj), EEXIST);
	OK(dfs_get_mode(dir, &mode));
	GIVES(mode, S_IFDIR | 0700);
	fs_put(dir, "f", "in a directory");
	OK(dfs_open(dfs, NULL, "l", S_IFLNK | 0777, O_RDWR | O_CREAT | O_EXCL, 0, 0, "d/f", &link));
	OK(dfs_get_symlink_value(link, buf, &size));
	CHECK(strcmp(buf, "d/f") == 0);
	GIVES(size, 4);
	size = 0;
	OK(dfs_get_symlink_value(link, NULL, &size));
	GIVES(size, 4);
	size = 3;
	OK(dfs_get_symlink_value(link, buf, &size));
	CHECK(strcmp(buf, "d/") == 0);
	GIVES(dfs_get_symlink_value(dir, buf, &size), EINVAL);
	OK(dfs_release(link));
	OK(dfs_lookup(dfs, "/l", O_RDONLY, &obj, &mode, NULL));
	GIVES(mode & S_IFMT, S_IFREG);
	GIVES(fs_read(obj, buf, 14, 0), 14);
	OK(dfs_release(obj));
	OK(dfs_lookup(dfs, "/l", O_RDONLY | O_NOFOLLOW, &link, &mode, NULL));
	GIVES(mode & S_IFMT, S_IFLNK);
	OK(dfs_release(link));
	GIVES(fs_write(dir, "x", 1, 0), EINVAL);
	GIVES(dfs_open(dfs, dir, "d", S_IFLNK, O_RDWR | O_CREAT, 0, 0, NULL, &obj), EINVAL);
	OK(dfs_release(dir));
	fs_close_all();
}

static void
looking_up_tells_what_is_there(void)
{
	struct stat st = {0};
	dfs_obj_t  *dir, *obj;
	mode_t      mode;

	fs_open_all();
	OK(dfs_mkdir(dfs, NULL, "d", 0755, 0));
	OK(dfs_lookup(dfs, "/d", O_RDWR, &dir, NULL, NULL));
	fs_put(dir, "f", "stone");
	OK(dfs_lookup_rel(dfs, dir, "f", O_RDWR, &obj, &mode, &st));
	GIVES(mode, S_IFREG | 0644);
	GIVES(st.st_size, 5);
	GIVES(st.st_mode, S_IFREG | 0644);
	OK(fs_write(obj, "S", 1, 0));
	OK(dfs_release(obj));
	GIVES(dfs_lookup_rel(dfs, dir, "g", O_RDWR, &obj, NULL, NULL), ENOENT);
	GIVES(dfs_lookup_rel(dfs, dir, "f/g", O_RDWR, &obj, NULL, NULL), EINVAL);
	GIVES(dfs_lookup(dfs, "/d/f/g", O_RDWR, &obj, NULL, NULL), ENOTDIR);
	GIVES(dfs_lookup(dfs, "d", O_RDWR, &obj, NULL, NULL), EINVAL);
	OK(dfs_lookup(dfs, "/", O_RDWR, &obj, &mode, &st));
	GIVES(mode & S_IFMT, S_IFDIR);
	OK(dfs_stat(dfs, obj, "d", &st));
	OK(dfs_release(obj));
	OK(dfs_release(dir));
	fs_close_all();
}

static void
objects_tell_what_they_are(void)
{
	dfs_obj_info_t info;
	daos_handle_t  oh;
	daos_obj_id_t  oid;
	daos_size_t    chunk, size;
	dfs_obj_t     *dir, *obj;

	fs_open_all();
	OK(dfs_open(dfs, NULL, "f", S_IFREG | 0644, O_RDWR | O_CREAT, OC_SX, 8192, NULL, &obj));
	OK(dfs_get_chunk_size(obj, &chunk));
	GIVES(chunk, 8192);
	OK(dfs_obj_get_info(dfs, obj, &info));
	GIVES(info.doi_chunk_size, 8192);
	/* As many shards as there are targets. */
	GIVES(info.doi_oclass_id, OC_S2);
	OK(dfs_obj2id(obj, &oid));
	CHECK(memcmp(&oid, &info.doi_oid, sizeof(oid)) == 0);
	GIVES(daos_obj_id2type(oid), DAOS_OT_ARRAY_BYTE);
	OK(fs_write(obj, "x", 1, 20000));
	OK(dfs_get_file_oh(obj, &oh));
	OK(daos_array_get_size(oh, DAOS_TX_NONE, &size, NULL));
	GIVES(size, 20001);
	OK(daos_array_close(oh, NULL));
	OK(dfs_get_size_by_oid(dfs, oid, 8192, &size));
	GIVES(size, 20001);
	GIVES(dfs_get_size_by_oid(dfs, oid, 1, &size), EINVAL);
	OK(dfs_release(obj));
	OK(dfs_open(dfs, NULL, "d", S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
	GIVES(dfs_get_chunk_size(dir, &chunk), EINVAL);
	/* What new entries get that nobody has chosen a class for. */
	OK(dfs_obj_get_info(dfs, dir, &info));
	GIVES(info.doi_dir_oclass_id, OC_S1);
	GIVES(info.doi_file_oclass_id, OC_SX);
	OK(dfs_obj_set_chunk_size(dfs, dir, 0, 16384));
	OK(dfs_obj_set_oclass(dfs, dir, 0, OC_S2));
	OK(dfs_obj_get_info(dfs, dir, &info));
	GIVES(info.doi_chunk_size, 16384);
	GIVES(info.doi_file_oclass_id, OC_S2);
	obj = fs_open(dir, "g", O_CREAT);
	OK(dfs_obj_get_info(dfs, obj, &info));
	GIVES(info.doi_chunk_size, 16384);
	GIVES(info.doi_oclass_id, OC_S2);
	GIVES(dfs_obj_set_chunk_size(dfs, obj, 0, 16384), ENOTDIR);
	OK(dfs_release(obj));
	OK(dfs_release(dir));
	fs_close_all();
}

TESTS(TEST(what_is_written_is_read), TEST(several_buffers_are_one_range), TEST(ranges_are_written_and_read_together),
      TEST(nothing_is_read_and_written),
      TEST(punching_makes_holes_and_sizes), TEST(flags_of_open_mean_what_they_say), TEST(names_have_their_length),
      TEST(directories_and_links_are_opened_too), TEST(looking_up_tells_what_is_there),
      TEST(objects_tell_what_they_are))
