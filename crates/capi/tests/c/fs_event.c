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

/* What the program puts where an argument was, as soon as the call has returned. */
static void
poison(void *memory, size_t len)
{
	memset(memory, 0x5a, len);
}

/* The list of the buffers, and the ranges that they are for: all but the buffers is the program's again after a call. */
struct lists {
	d_iov_t      iovs[2];
	d_sg_list_t  sgl;
	daos_range_t ranges[2];
	dfs_iod_t    iod;
};

static struct lists *
lists_of(char *first, char *second)
{
	struct lists *made = calloc(1, sizeof(*made));

	CHECK(made != NULL);
	d_iov_set(&made->iovs[0], first, 100);
	d_iov_set(&made->iovs[1], second, 50);
	made->sgl.sg_nr    = 2;
	made->sgl.sg_iovs  = made->iovs;
	made->ranges[0]    = (daos_range_t){.rg_idx = 10, .rg_len = 120};
	made->ranges[1]    = (daos_range_t){.rg_idx = 2 << 20, .rg_len = 30};
	made->iod.iod_nr   = 2;
	made->iod.iod_rgs  = made->ranges;
	return made;
}

static void
end_lists(struct lists *lists)
{
	poison(lists, sizeof(*lists));
	free(lists);
	wait_all(1);
}

static void
arguments_are_read_before_a_call_returns(void)
{
	daos_handle_t other = {0};
	dfs_obj_t    *obj;
	dfs_sys_t    *sys = NULL;
	struct lists *lists;
	char          doomed[] = "doomed", pool[] = "pool";
	daos_size_t   size;

	fs_open_all();
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&evs[0], eq, NULL));
	OK(dfs_cont_create_with_label(poh, "doomed", NULL, NULL, NULL, NULL));
	OK(dfs_cont_create_with_label(poh, "spared", NULL, NULL, NULL, NULL));
	OK(dfs_destroy(pool, NULL, doomed, 0, &evs[0]));
	memcpy(doomed, "spared", 6);
	poison(pool, 4);
	wait_all(1);
	GIVES(daos_cont_open(poh, "doomed", DAOS_COO_RO, &other, NULL, NULL), -DER_NONEXIST);
	OK(daos_cont_open(poh, "spared", DAOS_COO_RO, &other, NULL, NULL));
	OK(daos_cont_close(other, NULL));

	memset(in, 7, sizeof(in));
	memset(out, 0, sizeof(out));
	obj = fs_open(NULL, "f", O_CREAT);
	lists = lists_of(in[0], in[1]);
	OK(dfs_writex(dfs, obj, &lists->iod, &lists->sgl, &evs[0]));
	end_lists(lists);
	OK(dfs_get_size(dfs, obj, &size));
	GIVES(size, (2 << 20) + 30);
	lists = lists_of(out[0], out[1]);
	OK(dfs_readx(dfs, obj, &lists->iod, &lists->sgl, &sizes[0], &evs[0]));
	end_lists(lists);
	CHECK(sizes[0] == 150 && memcmp(out[0], in[0], 100) == 0 && memcmp(out[1], in[1], 50) == 0);
	/* Of more than one request: several buffers. */
	lists = lists_of(in[0], in[1]);
	OK(dfs_write(dfs, obj, &lists->sgl, 5 << 20, &evs[0]));
	end_lists(lists);
	memset(out, 0, sizeof(out));
	lists = lists_of(out[0], out[1]);
	OK(dfs_read(dfs, obj, &lists->sgl, 5 << 20, &sizes[0], &evs[0]));
	end_lists(lists);
	CHECK(sizes[0] == 150 && memcmp(out[0], in[0], 100) == 0 && memcmp(out[1], in[1], 50) == 0);
	OK(dfs_release(obj));

	OK(dfs_sys_mount(poh, coh, O_RDWR, 0, &sys));
	OK(dfs_sys_open(sys, "/g", S_IFREG | 0644, O_RDWR | O_CREAT, 0, 0, NULL, &obj));
	size = 40;
	OK(dfs_sys_write(sys, obj, in[0], 0, &size, &evs[0]));
	size = 60000;
	wait_all(1);
	size = 100;
	OK(dfs_sys_read(sys, obj, out[2], 0, &size, &evs[0]));
	/* The object may be given back, too. */
	OK(dfs_sys_close(obj));
	wait_all(1);
	CHECK(size == 40 && memcmp(out[2], in[0], 40) == 0);
	OK(dfs_sys_umount(sys));

	/* What is wrong with an argument the call says; the event is as it was. */
	GIVES(dfs_destroy("pool", NULL, NULL, 0, &evs[0]), EINVAL);
	GIVES(dfs_sys_write(NULL, NULL, in[0], 0, &size, &evs[0]), EINVAL);
	OK(daos_event_fini(&evs[0]));
	OK(daos_eq_destroy(eq, 0));
	fs_close_all();
}

TESTS(TEST(many_are_under_way), TEST(ends_and_holes_and_several_pieces_are_told),
      TEST(arguments_are_read_before_a_call_returns))
