/* Reads and writes of files that are under way until somebody polls, however many requests they take. */
#include "fs_kit.h"
#include "still.h"
#include <time.h>

#define MIB (1 << 20)

static char       in[3 * MIB + 100], out[3 * MIB + 200];
static dfs_obj_t *file;

static void
begin(void)
{
	size_t i;

	fs_open_all();
	begin_events();
	file = fs_open(NULL, "f", O_CREAT);
	for (i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 31 + i / 4096);
	memset(out, 'o', sizeof(out));
}

static void
end(void)
{
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	OK(dfs_release(file));
	fs_close_all();
}

/* Buffers of these lengths, one after the other in some memory. */
struct buffers {
	d_iov_t     iovs[4];
	d_sg_list_t sgl;
	daos_size_t read;
};

static d_sg_list_t *
buffers(struct buffers *to, char *memory, const size_t *lens)
{
	to->sgl.sg_nr   = 0;
	to->sgl.sg_iovs = to->iovs;
	to->read        = 4711;
	for (; *lens > 0; memory += *lens++)
		d_iov_set(&to->iovs[to->sgl.sg_nr++], memory, *lens);
	return &to->sgl;
}

/* Waits for what was launched at a daemon that goes on. */
static void
wait_for_all(void)
{
	daos_event_t *done[EVENTS];
	int           seen, found;

	for (seen = 0; seen < launched; seen += found) {
		found = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, EVENTS, done);
		CHECK(found > 0);
	}
}

/* Lets the first answers of what was launched arrive, which nobody has looked at, and the daemon stand still then: what goes on
 * with them may not wait. */
static void
stand_still_with_answers(void)
{
	daos_size_t size;
	int         count = launched;

	OK(dfs_get_size(dfs, file, &size));
	stand_still();
	launched = count;
	finish();
	all_well();
}

static void
many_chunks_and_buffers_go_on_when_somebody_polls(void)
{
	static const size_t one[] = {sizeof(in), 0}, three[] = {7, 2 * MIB, MIB + 93, 0}, small[] = {100, 50, 0};
	struct buffers      b[6];
	daos_range_t        ranges[2] = {{.rg_idx = MIB - 10, .rg_len = 120}, {.rg_idx = 8 * MIB, .rg_len = 30}};
	dfs_iod_t           iod = {.iod_nr = 2, .iod_rgs = ranges};
	dfs_sys_t          *sys = NULL;
	dfs_obj_t          *other;
	daos_size_t         size = sizeof(in), found = 2 * MIB;

	begin();
	OK(dfs_sys_mount(poh, coh, O_RDWR, 0, &sys));
	OK(dfs_sys_open(sys, "/g", S_IFREG | 0644, O_RDWR | O_CREAT, 0, 0, NULL, &other));
	stand_still();
	OK(dfs_write(dfs, file, buffers(&b[0], in, three), 500, next()));
	finish();
	all_well();
	stand_still();
	OK(dfs_writex(dfs, file, &iod, buffers(&b[1], in, small), next()));
	OK(dfs_sys_write(sys, other, in, 0, &size, next()));
	/* Over the border of a chunk, and in several buffers. */
	OK(dfs_write(dfs, file, buffers(&b[2], in, small), 6 * MIB - 20, next()));
	finish();
	all_well();

	stand_still();
	OK(dfs_read(dfs, file, buffers(&b[0], out, one), 500, &b[0].read, next()));
	finish();
	all_well();
	GIVES(b[0].read, sizeof(in));
	CHECK(memcmp(out, in, MIB - 510) == 0 && memcmp(out + MIB - 510, in, 120) == 0);
	CHECK(memcmp(out + MIB - 390, in + MIB - 390, sizeof(in) - (MIB - 390)) == 0);
	memset(out, 'o', sizeof(out));
	stand_still();
	OK(dfs_readx(dfs, file, &iod, buffers(&b[1], out, small), &b[1].read, next()));
	OK(dfs_read(dfs, file, buffers(&b[2], out + 200, small), 6 * MIB - 20, &b[2].read, next()));
	OK(dfs_sys_read(sys, other, out + MIB, 1000, &found, next()));
	finish();
	all_well();
	CHECK(b[1].read == 150 && memcmp(out, in, 150) == 0 && b[2].read == 150 && memcmp(out + 200, in, 150) == 0);
	CHECK(found == 2 * MIB && memcmp(out + MIB, in + 1000, 2 * MIB) == 0);
	OK(dfs_sys_close(other));
	OK(dfs_sys_umount(sys));
	end();
}

static void
holes_and_ends_take_another_look_when_somebody_polls(void)
{
	static const size_t whole[] = {3000, 0}, two[] = {1000, 2000, 0}, wide[] = {2 * MIB, MIB, 0};
	struct buffers      b[6];
	daos_range_t        ranges[3] = {{.rg_idx = 1000, .rg_len = 1000},
					 {.rg_idx = 2 * MIB + 90, .rg_len = 1000},
					 {.rg_idx = 9 * MIB, .rg_len = 1000}};
	dfs_iod_t           iod = {.iod_nr = 3, .iod_rgs = ranges};

	begin();
	/* Data at the beginning, a hole, and 100 bytes at the end. */
	OK(fs_write(file, in, 1500, 0));
	OK(fs_write(file, in, 100, 2 * MIB));
	launched = 0;
	OK(dfs_read(dfs, file, buffers(&b[0], out, whole), 0, &b[0].read, next()));
	OK(dfs_read(dfs, file, buffers(&b[1], out + 3000, two), 2 * MIB - 500, &b[1].read, next()));
	OK(dfs_read(dfs, file, buffers(&b[2], out + 6000, whole), 2 * MIB + 40, &b[2].read, next()));
	OK(dfs_read(dfs, file, buffers(&b[3], out + 9000, whole), 5 * MIB, &b[3].read, next()));
	OK(dfs_readx(dfs, file, &iod, buffers(&b[4], out + 12000, whole), &b[4].read, next()));
	stand_still_with_answers();
	CHECK(b[0].read == 3000 && memcmp(out, in, 1500) == 0 && out[1500] == 0 && out[2999] == 0);
	CHECK(b[1].read == 600 && out[3000] == 0 && out[3499] == 0 && memcmp(out + 3500, in, 100) == 0);
	/* What is behind the end of the file is left as it was. */
	CHECK(out[3600] == 'o' && out[5999] == 'o');
	CHECK(b[2].read == 60 && memcmp(out + 6000, in + 40, 60) == 0 && out[6060] == 'o');
	CHECK(b[3].read == 0 && out[9000] == 'o');
	CHECK(b[4].read == 1010 && memcmp(out + 12000, in + 1000, 500) == 0 && out[12500] == 0 && out[12999] == 0);
	CHECK(memcmp(out + 13000, in + 90, 10) == 0 && out[13010] == 'o' && out[14000] == 'o');
	memset(out, 'o', sizeof(out));
	launched = 0;
	OK(dfs_read(dfs, file, buffers(&b[0], out, wide), 100, &b[0].read, next()));
	stand_still_with_answers();
	GIVES(b[0].read, 2 * MIB);
	CHECK(memcmp(out, in + 100, 1400) == 0 && out[1400] == 0 && memcmp(out + 2 * MIB - 100, in, 100) == 0);
	CHECK(out[2 * MIB] == 'o');
	end();
}

/* More than may be claimed without a look at the size. */
static void
long_reads_ask_for_the_size_first(void)
{
	size_t         lens[] = {0, 0}, room = (size_t)100 * MIB;
	char          *memory = malloc(room);
	struct buffers b;

	begin();
	CHECK(memory != NULL);
	OK(fs_write(file, in, 2 * MIB, 70ULL * MIB));
	lens[0] = room;
	stand_still();
	OK(dfs_read(dfs, file, buffers(&b, memory, lens), 0, &b.read, next()));
	finish();
	all_well();
	GIVES(b.read, 72ULL * MIB);
	CHECK(memory[0] == 0 && memory[70 * MIB - 1] == 0 && memcmp(memory + 70 * MIB, in, 2 * MIB) == 0);
	free(memory);
	end();
}

/* Something that is asked and answered. */
static void
ask(void)
{
	daos_size_t size;

	OK(dfs_get_size(dfs, file, &size));
}

static void
a_file_that_is_gone_is_told_by_its_event(void)
{
	static const size_t whole[] = {3000, 0};
	struct buffers      b;
	daos_event_t       *ended[EVENTS];
	dfs_t              *other;

	begin();
	OK(fs_write(file, in, 100, 0));
	OK(dfs_mount(poh, coh, O_RDWR, &other));
	/* Where nothing is found the name is looked at; with an event as without. */
	launched = 0;
	OK(dfs_read(dfs, file, buffers(&b, out, whole), 100, &b.read, next()));
	stand_still_with_answers();
	GIVES(b.read, 0);
	OK(dfs_move(other, NULL, "f", NULL, "g", NULL));
	launched = 0;
	OK(dfs_read(dfs, file, buffers(&b, out, whole), 100, &b.read, next()));
	wait_for_all();
	GIVES(evs[0].ev_error, dfs_read(dfs, file, &b.sgl, 100, &b.read, NULL));
	/* No look at it waits, neither for the answer that tells that it is elsewhere. */
	launched = 0;
	OK(dfs_read(dfs, file, buffers(&b, out, whole), 100, &b.read, next()));
	finish_look_by_look(ask, ended);
	GIVES(evs[0].ev_error, ESTALE);
	/* Whom this mount moves meanwhile is looked for where it is. */
	OK(dfs_move(other, NULL, "g", NULL, "f", NULL));
	launched = 0;
	OK(dfs_read(dfs, file, buffers(&b, out, whole), 100, &b.read, next()));
	OK(dfs_move(dfs, NULL, "f", NULL, "h", NULL));
	finish_look_by_look(ask, ended);
	all_well();
	GIVES(b.read, 0);
	OK(dfs_move(other, NULL, "h", NULL, "g", NULL));
	OK(dfs_remove(other, NULL, "g", true, NULL));
	launched = 0;
	OK(dfs_read(dfs, file, buffers(&b, out, whole), 0, &b.read, next()));
	wait_for_all();
	GIVES(evs[0].ev_error, ESTALE);
	GIVES(dfs_read(dfs, file, &b.sgl, 0, &b.read, NULL), ESTALE);
	OK(dfs_umount(other));
	end();
}

static int        looks;
static dfs_obj_t *cut;

/* What another mount does between the looks of a read. */
static void
cut_and_ask(void)
{
	ask();
	/* The read knows how long the file is then, and not yet what is in it. */
	if (looks++ == 1) {
		OK(dfs_punch(dfs, cut, 0, DFS_MAX_FSIZE));
		OK(fs_write(cut, in, 5000, 0));
	}
}

static void
a_file_that_is_cut_while_it_is_read_has_no_zeros(void)
{
	static const size_t whole[] = {20000, 0};
	struct buffers      b;
	daos_event_t       *ended[EVENTS];
	size_t              i;

	begin();
	memset(in, 'i', sizeof(in));
	cut      = fs_open(NULL, "f", 0);
	looks    = 0;
	launched = 0;
	OK(dfs_read(dfs, file, buffers(&b, out, whole), 0, &b.read, next()));
	/* It has found nothing, and finds the file longer. */
	ask();
	OK(fs_write(cut, in, 10000, 0));
	finish_look_by_look(cut_and_ask, ended);
	all_well();
	CHECK(b.read <= 10000);
	for (i = 0; i < b.read; i++)
		CHECK(out[i] == 'i');
	OK(dfs_release(cut));
	end();
}

/* Each piece is a transaction that sees that the file is there. */
static void
writes_that_look_first_go_on_when_somebody_polls(void)
{
	static const size_t three[] = {7, 2 * MIB, MIB + 93, 0}, small[] = {100, 50, 0}, few[] = {10, 0};
	struct buffers      b[3];
	daos_range_t        ranges[2] = {{.rg_idx = 5 * MIB - 10, .rg_len = 120}, {.rg_idx = 8 * MIB, .rg_len = 30}};
	dfs_iod_t           iod = {.iod_nr = 2, .iod_rgs = ranges};
	dfs_t              *balanced;
	dfs_obj_t          *obj;

	begin();
	OK(dfs_mount(poh, coh, O_RDWR | DFS_BALANCED, &balanced));
	OK(dfs_open(balanced, NULL, "f", S_IFREG, O_RDWR, 0, 0, NULL, &obj));
	stand_still();
	OK(dfs_write(balanced, obj, buffers(&b[0], in, three), 500, next()));
	OK(dfs_writex(balanced, obj, &iod, buffers(&b[1], in, small), next()));
	/* Lists are the program's again; bytes are not yet. */
	memset(&b, 0x5a, sizeof(b));
	memset(ranges, 0x5a, sizeof(ranges));
	GIVES(dfs_write(balanced, obj, buffers(&b[0], in, few), (daos_off_t)-5, next()), EFBIG);
	launched--;
	finish();
	all_well();
	GIVES(fs_read(file, out, sizeof(in), 500), (long)sizeof(in));
	CHECK(memcmp(out, in, sizeof(in)) == 0);
	GIVES(fs_read(file, out, 120, 5 * MIB - 10), 120);
	CHECK(memcmp(out, in, 120) == 0);
	GIVES(fs_read(file, out, 100, 8 * MIB), 30);
	CHECK(memcmp(out, in + 120, 30) == 0);

	/* What another mount has removed is not brought back. */
	OK(dfs_remove(dfs, NULL, "f", true, NULL));
	stand_still();
	OK(dfs_write(balanced, obj, buffers(&b[0], in, few), 0, next()));
	finish();
	GIVES(evs[0].ev_error, ESTALE);
	GIVES(dfs_write(balanced, obj, &b[0].sgl, 0, NULL), ESTALE);
	OK(dfs_release(obj));

	/* Nor is it hurt that this mount has removed it: it is there until it is given back. */
	stand_still();
	OK(dfs_write(dfs, file, buffers(&b[0], in, three), 0, next()));
	finish();
	all_well();
	GIVES(fs_read(file, out, sizeof(in), 0), (long)sizeof(in));
	CHECK(memcmp(out, in, sizeof(in)) == 0);
	OK(dfs_umount(balanced));
	end();
}

static void
file_systems_are_destroyed_when_somebody_polls(void)
{
	daos_handle_t other = {0};
	char          doomed[] = "doomed", pool[] = "pool";

	begin();
	OK(dfs_cont_create_with_label(poh, "doomed", NULL, NULL, NULL, NULL));
	stand_still();
	OK(dfs_destroy(pool, NULL, doomed, 0, next()));
	OK(dfs_destroy("pool", NULL, "nothing", 0, next()));
	OK(dfs_destroy("pool", NULL, "files", 0, next()));
	/* In one process the pool is looked for in the call. */
	if (daemon_pid > 0)
		OK(dfs_destroy("nowhere", NULL, "doomed", 0, next()));
	memset(doomed, 'x', 6);
	memset(pool, 'x', 4);
	finish();
	GIVES(evs[0].ev_error, 0);
	GIVES(evs[1].ev_error, ENOENT);
	GIVES(evs[2].ev_error, EBUSY);
	CHECK(daemon_pid == 0 || evs[3].ev_error == ENOENT);
	GIVES(daos_cont_open(poh, "doomed", DAOS_COO_RO, &other, NULL, NULL), -DER_NONEXIST);
	end();
}

#define MODEL 60000

/* Ranges, buffers and holes at random, in a file of tiny chunks, against the same bytes in memory. */
static void
files_are_what_a_model_says(void)
{
	unsigned int  seed = (unsigned int)time(NULL), round, i, len, used;
	static char   model[MODEL], found[MODEL];
	size_t        size = 0, lens[5];
	struct buffers b;
	dfs_obj_t    *small;

	begin();
	printf("seed %u\n", seed);
	srand(seed);
	OK(dfs_open(dfs, NULL, "small", S_IFREG | 0644, O_RDWR | O_CREAT, OC_SX, 4096, NULL, &small));
	for (round = 0; round < 300; round++) {
		size_t at = rand() % (MODEL / 2), sum;

		len = 1 + rand() % (MODEL / 2 - 1);
		if (rand() % 2)
			len = 1 + len % 5000;
		for (used = 0, i = 0; i < 4 && used < len; i++) {
			lens[i] = i == 3 ? len - used : 1 + rand() % (len - used);
			used += lens[i];
		}
		lens[i] = 0;
		launched = 0;
		switch (rand() % 4) {
		case 0:
			for (i = 0; i < len; i++)
				model[at + i] = (char)rand();
			memcpy(found, model + at, len);
			OK(dfs_write(dfs, small, buffers(&b, found, lens), at, next()));
			size = at + len > size ? at + len : size;
			break;
		case 1:
			if (at >= size)
				continue;
			OK(dfs_punch(dfs, small, at, len));
			if (at + len >= size) {
				memset(model + at, 0, size - at);
				size = at;
			} else {
				memset(model + at, 0, len);
			}
			continue;
		default:
			memset(found, '?', sizeof(found));
			OK(dfs_read(dfs, small, buffers(&b, found, lens), at, &b.read, next()));
		}
		wait_for_all();
		all_well();
		if (b.read == 4711)
			continue;
		sum = at >= size ? 0 : size - at < len ? size - at : len;
		GIVES(b.read, sum);
		CHECK(memcmp(found, model + at, sum) == 0);
		for (i = sum; i < len; i++)
			CHECK(found[i] == '?');
	}
	OK(dfs_release(small));
	end();
}

TESTS(TEST(many_chunks_and_buffers_go_on_when_somebody_polls),
      TEST(holes_and_ends_take_another_look_when_somebody_polls), TEST(long_reads_ask_for_the_size_first),
      TEST(a_file_that_is_gone_is_told_by_its_event), TEST(a_file_that_is_cut_while_it_is_read_has_no_zeros),
      TEST(writes_that_look_first_go_on_when_somebody_polls),
      TEST(file_systems_are_destroyed_when_somebody_polls),
      TEST(files_are_what_a_model_says))
