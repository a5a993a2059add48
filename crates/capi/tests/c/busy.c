/* Threads, each with operations of all kinds under way on an event queue of its own, until the process is killed. It says
 * "working" now and then.
 *
 * busy SEED: in the containers "objects" and "files" of the pool "load". */
#include <pthread.h>
#include "fs_kit.h"

#define THREADS     4
#define AT_ONCE     8
#define KEYS        16
#define VALUE_BYTES (96 << 10)

/* Which operation a slot is in: each ends with an event, and some lead to another. */
enum stage { FREE, PLAIN, FETCHED, OPENED, CLOSED, CONNECTED, COMMITTED };

struct slot {
	daos_event_t     ev;
	enum stage       stage;
	daos_handle_t    handle;
	uint64_t         key;
	daos_key_t       dkey;
	d_iov_t          iov;
	d_sg_list_t      sgl;
	daos_iod_t       iod;
	daos_recx_t      recx;
	daos_range_t     range;
	daos_array_iod_t ranges;
	daos_size_t      size;
	daos_anchor_t    anchor;
	daos_key_desc_t  kds[KEYS];
	uint32_t         nr;
	char             bytes[VALUE_BYTES];
};

struct thread {
	pthread_t     id;
	unsigned int  seed;
	int           number;
	daos_handle_t eq, objects, arrays;
	dfs_obj_t    *file;
	struct slot   slots[AT_ONCE];
};

static daos_handle_t files;
static struct thread threads[THREADS];

/* All bytes of a value are the same, so that one which is torn shows. */
static void
fill(struct slot *slot, unsigned int bytes, char byte)
{
	memset(slot->bytes, byte, bytes);
	d_iov_set(&slot->iov, slot->bytes, bytes);
	slot->sgl = (d_sg_list_t){.sg_nr = 1, .sg_iovs = &slot->iov};
}

static void
describe(struct slot *slot, unsigned int bytes)
{
	slot->recx = (daos_recx_t){.rx_idx = 0, .rx_nr = bytes};
	slot->iod  = (daos_iod_t){.iod_type = DAOS_IOD_SINGLE, .iod_size = bytes, .iod_nr = 1};
	if (slot->key % 2 == 0) {
		slot->iod.iod_type  = DAOS_IOD_ARRAY;
		slot->iod.iod_size  = 1;
		slot->iod.iod_recxs = &slot->recx;
	}
	d_iov_set(&slot->iod.iod_name, "a", 1);
}

/* Values of odd keys are single ones, those of even keys arrays. */
static void
begin_value(struct thread *own, struct slot *slot, int kind, unsigned int bytes)
{
	uint64_t flags = 0;

	describe(slot, bytes);
	slot->stage = PLAIN;
	switch (kind) {
	case 0:
		OK(daos_obj_update(own->objects, DAOS_TX_NONE, flags, &slot->dkey, 1, &slot->iod, &slot->sgl, &slot->ev));
		break;
	case 1:
		fill(slot, VALUE_BYTES, 0);
		describe(slot, VALUE_BYTES);
		if (slot->iod.iod_type == DAOS_IOD_SINGLE)
			slot->iod.iod_size = DAOS_REC_ANY;
		slot->stage = FETCHED;
		OK(daos_obj_fetch(own->objects, DAOS_TX_NONE, flags, &slot->dkey, 1, &slot->iod, &slot->sgl, NULL,
				  &slot->ev));
		break;
	case 2:
		OK(daos_obj_punch_dkeys(own->objects, DAOS_TX_NONE, flags, 1, &slot->dkey, &slot->ev));
		break;
	default:
		OK(daos_tx_open(coh, &slot->handle, 0, NULL));
		OK(daos_obj_update(own->objects, slot->handle, flags, &slot->dkey, 1, &slot->iod, &slot->sgl, NULL));
		slot->stage = COMMITTED;
		OK(daos_tx_commit(slot->handle, &slot->ev));
	}
}

static void
begin_other(struct thread *own, struct slot *slot, int kind, unsigned int bytes)
{
	slot->stage = PLAIN;
	switch (kind) {
	case 4:
		slot->range  = (daos_range_t){.rg_idx = slot->key * 1000, .rg_len = bytes};
		slot->ranges = (daos_array_iod_t){.arr_nr = 1, .arr_rgs = &slot->range};
		OK(daos_array_write(own->arrays, DAOS_TX_NONE, &slot->ranges, &slot->sgl, &slot->ev));
		break;
	case 5:
		OK(daos_array_set_size(own->arrays, DAOS_TX_NONE, slot->key * 5000, &slot->ev));
		break;
	case 6:
		OK(dfs_write(dfs, own->file, &slot->sgl, slot->key << 18, &slot->ev));
		break;
	case 7:
		OK(dfs_read(dfs, own->file, &slot->sgl, slot->key << 18, &slot->size, &slot->ev));
		break;
	case 8:
		slot->nr = KEYS;
		memset(&slot->anchor, 0, sizeof(slot->anchor));
		d_iov_set(&slot->iov, slot->bytes, sizeof(slot->bytes));
		OK(daos_obj_list_dkey(own->objects, DAOS_TX_NONE, &slot->nr, slot->kds, &slot->sgl, &slot->anchor,
				      &slot->ev));
		break;
	case 9:
		slot->stage = OPENED;
		OK(daos_cont_open(poh, "objects", DAOS_COO_RW, &slot->handle, NULL, &slot->ev));
		break;
	default:
		slot->stage = CONNECTED;
		OK(daos_pool_connect("load", NULL, DAOS_PC_RO, &slot->handle, NULL, &slot->ev));
	}
}

static void
begin(struct thread *own, struct slot *slot)
{
	unsigned int bytes = 1 + rand_r(&own->seed) % (rand_r(&own->seed) % 4 ? 3000 : VALUE_BYTES);
	int          kind = rand_r(&own->seed) % 11;

	slot->key = 1 + rand_r(&own->seed) % KEYS;
	d_iov_set(&slot->dkey, &slot->key, sizeof(slot->key));
	fill(slot, bytes, (char)(1 + rand_r(&own->seed) % 100));
	if (kind < 4)
		begin_value(own, slot, kind, bytes);
	else
		begin_other(own, slot, kind, bytes);
}

/* What follows the end of an operation of a slot. */
static void
go_on(struct slot *slot)
{
	enum stage stage = slot->stage;
	size_t     i;

	if (stage != COMMITTED || slot->ev.ev_error != -DER_TX_RESTART)
		GIVES(slot->ev.ev_error, 0);
	slot->stage = FREE;
	switch (stage) {
	case FETCHED:
		for (i = 1; slot->key % 2 == 1 && i < slot->iod.iod_size; i++)
			CHECK(slot->bytes[i] == slot->bytes[0]);
		break;
	case OPENED:
		slot->stage = CLOSED;
		OK(daos_cont_close(slot->handle, &slot->ev));
		break;
	case CONNECTED:
		slot->stage = CLOSED;
		OK(daos_pool_disconnect(slot->handle, &slot->ev));
		break;
	case COMMITTED:
		OK(daos_tx_close(slot->handle, NULL));
		break;
	default:
		break;
	}
}

static void *
work(void *argument)
{
	struct thread *own = argument;
	daos_event_t  *done[AT_ONCE];
	int            i, found, count;

	for (count = 0;; count += found) {
		for (i = 0; i < AT_ONCE; i++)
			if (own->slots[i].stage == FREE)
				begin(own, &own->slots[i]);
		found = daos_eq_poll(own->eq, 1, rand_r(&own->seed) % 2 ? DAOS_EQ_WAIT : DAOS_EQ_NOWAIT, AT_ONCE, done);
		CHECK(found >= 0);
		/* The event is the first of its slot. */
		for (i = 0; i < found; i++)
			go_on((struct slot *)done[i]);
		if (count / 20 != (count + found) / 20)
			CHECK(write(1, "working\n", 8) == 8);
	}
	return NULL;
}

static void
prepare(struct thread *own, int number, unsigned int seed)
{
	daos_obj_id_t objects = {.lo = 100 + number}, arrays = {.lo = 200 + number};
	char          name[16];
	int           i;

	own->number = number;
	own->seed   = seed * THREADS + number;
	OK(daos_eq_create(&own->eq));
	OK(daos_obj_generate_oid(coh, &objects, DAOS_OT_DKEY_UINT64, OC_SX, 0, 0));
	OK(daos_obj_open(coh, objects, DAOS_OO_RW, &own->objects, NULL));
	OK(daos_obj_generate_oid(coh, &arrays, DAOS_OT_ARRAY_BYTE, OC_SX, 0, 0));
	OK(daos_array_open_with_attr(coh, arrays, DAOS_TX_NONE, DAOS_OO_RW, 1, 16384, &own->arrays, NULL));
	snprintf(name, sizeof(name), "busy.%d", number);
	own->file = fs_open(NULL, name, O_CREAT);
	for (i = 0; i < AT_ONCE; i++)
		OK(daos_event_init(&own->slots[i].ev, own->eq, NULL));
}

int
main(int argc, char **argv)
{
	int i;

	CHECK(argc == 2);
	OK(daos_init());
	OK(daos_pool_connect("load", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_cont_open(poh, "objects", DAOS_COO_RW, &coh, NULL, NULL));
	OK(daos_cont_open(poh, "files", DAOS_COO_RW, &files, NULL, NULL));
	OK(dfs_mount(poh, files, O_RDWR, &dfs));
	for (i = 0; i < THREADS; i++)
		prepare(&threads[i], i, (unsigned int)atoi(argv[1]));
	for (i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i].id, NULL, work, &threads[i]) == 0);
	for (i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i].id, NULL) == 0);
	return 0;
}
