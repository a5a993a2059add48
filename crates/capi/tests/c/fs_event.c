/* Reads and writes with events. */
#include "fs_kit.h"

#define COUNT 16
#define BYTES 65536

static char          in[COUNT][BYTES], out[COUNT][BYTES];
static daos_event_t  evs[COUNT];
static d_iov_t       iovs[COUNT];
static d_sg_list_t   sgls[COUNT];
static daos_size_t   sizes[COUNT];
static daos_handle_t eq;

static void
wait_all(int count)
{
	daos_event_t *done[COUNT];
	int           sum = 0, n, i;

	while (sum < count) {
		n = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, COUNT, done);
		CHECK(n > 0);
		for (i = 0; i < n; i++)
			GIVES(done[i]->ev_error, 0);
		sum += n;
	}
	GIVES(daos_eq_poll(eq, 0, DAOS_EQ_NOWAIT, COUNT, done), 0);
}

static void
begin(int i, char *buf)
{
	d_iov_set(&iovs[i], buf, BYTES);
	sgls[i].sg_nr   = 1;
	sgls[i].sg_iovs = &iovs[i];
}

static void
many_are_under_way(void)
{
	dfs_obj_t *obj;
	int        i, j;

	fs_open_all();
	OK(daos_eq_create(&eq));
	obj = fs_open(NULL, "f", O_CREAT);
	for (i = 0; i < COUNT; i++) {
		OK(daos_event_init(&evs[i], eq, NULL));
		for (j = 0; j < BYTES; j++)
			in[i][j] = (char)(i * 31 + j);
		begin(i, in[i]);
		OK(dfs_write(dfs, obj, &sgls[i], (daos_off_t)i * BYTES, &evs[i]));
	}
	wait_all(COUNT);
	for (i = 0; i < COUNT; i++) {
		begin(i, out[i]);
		OK(dfs_read(dfs, obj, &sgls[i], (daos_off_t)i * BYTES, &sizes[i], &evs[i]));
	}
	wait_all(COUNT);
	for (i = 0; i < COUNT; i++) {
		GIVES(sizes[i], BYTES);
		OK(daos_event_fini(&evs[i]));
	}
	CHECK(memcmp(in, out, sizeof(in)) == 0);
	OK(dfs_release(obj));
	OK(daos_eq_destroy(eq, 0));
	fs_close_all();
}

static void
ends_and_holes_and_several_pieces_are_told(void)
{
	dfs_obj_t *obj;

	fs_open_all();
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&evs[0], eq, NULL));
	obj = fs_open(NULL, "f", O_CREAT);
	memset(in, 7, sizeof(in));
	/* Behind a hole, and over the end of a chunk: two pieces. */
	begin(0, in[0]);
	OK(dfs_write(dfs, obj, &sgls[0], (1 << 20) - 100, &evs[0]));
	wait_all(1);
	begin(0, out[0]);
	OK(dfs_read(dfs, obj, &sgls[0], (1 << 20) + BYTES - 200, &sizes[0], &evs[0]));
	wait_all(1);
	GIVES(sizes[0], 100);
	CHECK(out[0][99] == 7);
	OK(dfs_read(dfs, obj, &sgls[0], 0, &sizes[0], &evs[0]));
	wait_all(1);
	GIVES(sizes[0], BYTES);
	CHECK(out[0][0] == 0 && out[0][BYTES - 1] == 0);
	OK(dfs_read(dfs, obj, &sgls[0], 1 << 22, &sizes[0], &evs[0]));
	wait_all(1);
	GIVES(sizes[0], 0);
	GIVES(dfs_read(dfs, NO_OBJ, &sgls[0], 0, &sizes[0], &evs[0]), EINVAL);
	GIVES(dfs_write(dfs, obj, NULL, 0, &evs[0]), EINVAL);
	OK(dfs_write(dfs, obj, &sgls[0], 0, &evs[0]));
	GIVES(dfs_write(dfs, obj, &sgls[0], 0, &evs[0]), EPERM);
	wait_all(1);
	OK(daos_event_fini(&evs[0]));
	OK(dfs_release(obj));
	OK(daos_eq_destroy(eq, 0));
	fs_close_all();
}

TESTS(TEST(many_are_under_way), TEST(ends_and_holes_and_several_pieces_are_told))
