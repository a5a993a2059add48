/* Operations that are under way until somebody polls: arrays, lists, key queries, commits. */
#include <time.h>
#include "stores.h"

static void
arrays_are_written_read_and_cut_when_somebody_polls(void)
{
	uint32_t    out[RECORDS], in[RECORDS + 10], i;
	daos_size_t size = 4711;

	begin();
	for (i = 0; i < RECORDS; i++)
		out[i] = 100 + i;
	stand_still();
	/* Six chunks, from two pieces of memory. */
	sgl.sg_nr = 2;
	d_iov_set(&iovs[0], out, 12);
	d_iov_set(&iovs[1], out + 3, sizeof(out) - 12);
	OK(daos_array_write(ah, DAOS_TX_NONE, records(5, RECORDS), &sgl, next()));
	finish();
	all_well();
	stand_still();
	memset(in, 0xff, sizeof(in));
	OK(daos_array_read(ah, DAOS_TX_NONE, records(5, RECORDS), buffer(in, sizeof(out)), next()));
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, next()));
	CHECK(in[0] == 0xffffffff && size == 4711);
	finish();
	all_well();
	CHECK(memcmp(in, out, sizeof(out)) == 0 && size == RECORDS + 5);
	CHECK(iod.arr_nr_read == RECORDS && iod.arr_nr_short_read == 0);
	/* Holes and what is beyond the end. */
	stand_still();
	OK(daos_array_punch(ah, DAOS_TX_NONE, records(6, 12), next()));
	finish();
	stand_still();
	OK(daos_array_read(ah, DAOS_TX_NONE, records(5, RECORDS + 10), buffer(in, sizeof(in)), next()));
	finish();
	all_well();
	CHECK(in[0] == 100 && in[1] == 0 && in[12] == 0 && in[13] == 113 && in[39] == 139 && in[40] == 0);
	CHECK(iod.arr_nr_read == RECORDS && iod.arr_nr_short_read == 10);
	/* With the answers in hand a short read asks for the size, and does not wait for that either. */
	memset(in, 0xff, sizeof(in));
	iod.arr_nr_read = 0;
	OK(daos_array_read(ah, DAOS_TX_NONE, records(5, RECORDS + 10), buffer(in, sizeof(in)), &evs[0]));
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	stand_still();
	launched = 1;
	finish();
	all_well();
	CHECK(in[0] == 100 && in[1] == 0 && in[12] == 0 && in[13] == 113 && in[39] == 139 && in[40] == 0);
	CHECK(iod.arr_nr_read == RECORDS && iod.arr_nr_short_read == 10);
	/* In one piece of one chunk, and nothing at all. */
	stand_still();
	OK(daos_array_write(ah, DAOS_TX_NONE, records(0, 1), buffer(out, 4), next()));
	finish();
	OK(daos_array_write(ah, DAOS_TX_NONE, records(0, 0), buffer(out, 0), &evs[0]));
	stand_still();
	OK(daos_array_destroy(ah, DAOS_TX_NONE, &evs[1]));
	launched = 1;
	GIVES(daos_eq_query(eq, DAOS_EQR_WAITING, 0, NULL), 1);
	GIVES(daos_eq_query(eq, DAOS_EQR_COMPLETED, 0, NULL), 1);
	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
	bool flag = false;
	OK(daos_event_test(&evs[1], DAOS_EQ_WAIT, &flag));
	CHECK(flag && evs[0].ev_error == 0 && evs[1].ev_error == 0);
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	CHECK(size == 0);
	GIVES(daos_array_write(ah, DAOS_TX_NONE, records(0, 2), buffer(out, 4), &evs[2]), -DER_INVAL);
	GIVES(daos_array_read(ah, DAOS_TX_NONE, records(0, 2), buffer(out, 4), &evs[2]), -DER_INVAL);
	end();
}

static void
keys_are_listed_and_queried_when_somebody_polls(void)
{
	uint64_t          number = 3, dkeys[32], akeys[32], highest = 0, tiny;
	daos_key_desc_t   kds[32], small_kds[1];
	daos_anchor_t     anchors[4] = {0};
	uint32_t          nr[4]      = {32, 32, 32, 1};
	daos_key_t        dkey, akey, max = {.iov_buf = &highest, .iov_buf_len = sizeof(highest)};
	daos_recx_t       recxs[32];
	daos_epoch_range_t eprs[32];
	daos_size_t       size = 0;
	d_iov_t           lists[3];
	d_sg_list_t       sgls[3];
	int               i;

	begin();
	for (i = 1; i <= 3; i++)
		put(i, i, DAOS_TX_NONE);
	put(3, 9, DAOS_TX_NONE);
	d_iov_set(&dkey, &number, sizeof(number));
	d_iov_set(&akey, &number, sizeof(number));
	d_iov_set(&lists[0], dkeys, sizeof(dkeys));
	d_iov_set(&lists[1], akeys, sizeof(akeys));
	d_iov_set(&lists[2], &tiny, 4);
	for (i = 0; i < 3; i++)
		sgls[i] = (d_sg_list_t){.sg_nr = 1, .sg_iovs = &lists[i]};
	stand_still();
	OK(daos_obj_list_dkey(oh, DAOS_TX_NONE, &nr[0], kds, &sgls[0], &anchors[0], next()));
	OK(daos_obj_list_akey(oh, DAOS_TX_NONE, &dkey, &nr[1], kds, &sgls[1], &anchors[1], next()));
	OK(daos_obj_list_recx(oh, DAOS_TX_NONE, &dkey, &akey, &size, &nr[2], recxs, eprs, &anchors[2], true, next()));
	OK(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MAX | DAOS_GET_DKEY, &max, NULL, NULL, next()));
	OK(daos_obj_list_dkey(oh, DAOS_TX_NONE, &nr[3], small_kds, &sgls[2], &anchors[3], next()));
	CHECK(nr[0] == 32 && nr[1] == 32 && nr[2] == 32 && highest == 0);
	finish();
	for (i = 0; i < 4; i++)
		GIVES(evs[i].ev_error, 0);
	GIVES(evs[4].ev_error, -DER_KEY2BIG);
	CHECK(small_kds[0].kd_key_len == 8);
	CHECK(nr[0] > 0 && nr[0] <= 3 && nr[1] == 2 && akeys[0] == 3 && akeys[1] == 9);
	CHECK(nr[2] == 1 && recxs[0].rx_idx == 3 && recxs[0].rx_nr == 1 && size == 8 && eprs[0].epr_hi > 0);
	CHECK(highest == 3 && max.iov_len == 8 && daos_anchor_is_eof(&anchors[1]));
	/* What is over is over at once. */
	launched = 0;
	OK(daos_obj_list_akey(oh, DAOS_TX_NONE, &dkey, &nr[1], kds, &sgls[1], &anchors[1], &evs[0]));
	GIVES(daos_eq_query(eq, DAOS_EQR_COMPLETED, 0, NULL), 1);
	CHECK(nr[1] == 0);
	end();
}

static void
stores_are_listed_when_somebody_polls(void)
{
	daos_anchor_t   anchor = {0};
	daos_key_desc_t kds[8];
	uint32_t        nr, total = 0;
	char            names[64];

	begin();
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "one", 1, "1", NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "two", 1, "2", NULL));
	while (!daos_anchor_is_eof(&anchor)) {
		nr = 8;
		stand_still();
		OK(daos_kv_list(kv, DAOS_TX_NONE, &nr, kds, buffer(names, sizeof(names)), &anchor, next()));
		CHECK(nr == 8);
		finish();
		all_well();
		total += nr;
	}
	GIVES(total, 2);
	end();
}

static void
transactions_are_committed_when_somebody_polls(void)
{
	daos_handle_t th, other;
	uint64_t      number = 0;
	daos_key_t    max    = {.iov_buf = &number, .iov_buf_len = sizeof(number)};
	bool          flag   = false;

	begin();
	OK(daos_tx_open(coh, &th, 0, NULL));
	put(7, 7, th);
	put(8, 8, th);
	GIVES(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MAX | DAOS_GET_DKEY, &max, NULL, NULL, NULL), -DER_NONEXIST);
	stand_still();
	OK(daos_tx_commit(th, next()));
	GIVES(daos_tx_commit(th, &evs[5]), -DER_ALREADY);
	finish();
	all_well();
	OK(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MAX | DAOS_GET_DKEY, &max, NULL, NULL, NULL));
	CHECK(number == 8);
	OK(daos_tx_close(th, NULL));
	/* One of two that read what the other writes has to begin anew, and may. */
	OK(daos_tx_open(coh, &th, 0, NULL));
	OK(daos_tx_open(coh, &other, 0, NULL));
	OK(daos_obj_query_key(oh, th, DAOS_GET_MAX | DAOS_GET_DKEY, &max, NULL, NULL, NULL));
	OK(daos_obj_query_key(oh, other, DAOS_GET_MAX | DAOS_GET_DKEY, &max, NULL, NULL, NULL));
	put(9, 9, th);
	put(10, 10, other);
	stand_still();
	OK(daos_tx_commit(th, next()));
	OK(daos_tx_commit(other, next()));
	finish();
	CHECK((evs[0].ev_error == -DER_TX_RESTART) + (evs[1].ev_error == -DER_TX_RESTART) >= 1);
	OK(daos_tx_restart(evs[0].ev_error != 0 ? th : other, NULL));
	OK(daos_tx_close(th, NULL));
	OK(daos_tx_close(other, NULL));
	/* Nothing to commit takes nobody else. */
	OK(daos_tx_open(coh, &th, 0, NULL));
	stand_still();
	OK(daos_tx_commit(th, next()));
	OK(daos_event_test(&evs[0], DAOS_EQ_WAIT, &flag));
	CHECK(flag && evs[0].ev_error == 0);
	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
	OK(daos_tx_close(th, NULL));
	end();
}


static void
what_takes_several_requests_goes_on_when_somebody_polls(void)
{
	uint32_t            out[RECORDS], i;
	daos_array_stbuf_t  stat  = {0};
	daos_epoch_t        epoch = 0;
	uint64_t            number = 3, value = 0;
	daos_recx_t         recx = {.rx_idx = 3, .rx_nr = 1};
	daos_iod_t          one  = {.iod_type = DAOS_IOD_ARRAY, .iod_nr = 1, .iod_recxs = &recx}, gone;
	daos_key_t          dkey, other;
	d_sg_list_t         list = {.sg_nr = 1, .sg_iovs = &iovs[1]};
	daos_size_t         size;

	begin();
	for (i = 0; i < RECORDS; i++)
		out[i] = 100 + i;
	OK(daos_array_write(ah, DAOS_TX_NONE, records(5, RECORDS), buffer(out, sizeof(out)), NULL));
	for (i = 1; i <= 5; i++)
		put(i, i, DAOS_TX_NONE);
	d_iov_set(&dkey, &number, sizeof(number));
	d_iov_set(&one.iod_name, &number, sizeof(number));
	d_iov_set(&iovs[1], &value, sizeof(value));
	stand_still();
	OK(daos_array_stat(ah, DAOS_TX_NONE, &stat, next()));
	OK(daos_obj_query_max_epoch(oh, DAOS_TX_NONE, &epoch, next()));
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &dkey, 1, &one, &list, NULL, next()));
	CHECK(stat.st_size == 0 && epoch == 0 && value == 0 && one.iod_size == 0);
	finish();
	all_well();
	CHECK(stat.st_size == RECORDS + 5 && stat.st_max_epoch > 0 && stat.st_max_epoch < epoch);
	CHECK(value == 3 && one.iod_size == 8 && iovs[1].iov_len == 8);
	/* As long as numbers go: the chunks that exist are looked for. */
	stand_still();
	OK(daos_array_punch(ah, DAOS_TX_NONE, records(9, UINT64_MAX - 9), next()));
	finish();
	all_well();
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	GIVES(size, 9);
	OK(daos_array_stat(ah, DAOS_TX_NONE, &stat, NULL));
	GIVES(stat.st_size, 9);
	GIVES(daos_array_punch(ah, DAOS_TX_NONE, records(9, UINT64_MAX), &evs[5]), -DER_INVAL);
	/* Of nothing there is no size, and of an object without values no epoch. */
	gone      = one;
	number    = 77;
	gone.iod_size = 0;
	d_iov_set(&other, &number, sizeof(number));
	OK(daos_obj_punch(oh, DAOS_TX_NONE, 0, NULL));
	stand_still();
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &other, 1, &gone, &list, NULL, next()));
	OK(daos_obj_query_max_epoch(oh, DAOS_TX_NONE, &epoch, next()));
	finish();
	all_well();
	CHECK(gone.iod_size == 0 && iovs[1].iov_len == 0 && epoch == 0);
	/* An error of the second request is that of the operation. */
	put(78, 78, DAOS_TX_NONE);
	number           = 78;
	iovs[1].iov_buf_len = 4;
	stand_still();
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &other, 1, &gone, &list, NULL, next()));
	finish();
	GIVES(evs[0].ev_error, -DER_REC2BIG);
	end();
}

static void
arrays_are_cut_and_changed_in_transactions_when_somebody_polls(void)
{
	uint32_t      out[4] = {1, 2, 3, 4}, in[4] = {0};
	daos_handle_t th;
	daos_size_t   size = 0;
	uint64_t      highest = 0;
	daos_key_t    max = {.iov_buf = &highest, .iov_buf_len = sizeof(highest)};
	pid_t         daemon;
	int           i;

	begin();
	daemon = daemon_pid;
	stand_still();
	OK(daos_array_set_size(ah, DAOS_TX_NONE, 100, next()));
	finish();
	all_well();
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	GIVES(size, 100);
	/* Longer, with data in the chunks that are cut then; to nothing; and to what is there already. */
	OK(daos_array_write(ah, DAOS_TX_NONE, records(300, 4), buffer(out, sizeof(out)), NULL));
	stand_still();
	OK(daos_array_set_size(ah, DAOS_TX_NONE, 301, next()));
	finish();
	all_well();
	OK(daos_array_read(ah, DAOS_TX_NONE, records(300, 4), buffer(in, sizeof(in)), NULL));
	CHECK(in[0] == 1 && in[1] == 0 && iod.arr_nr_short_read == 3);
	stand_still();
	OK(daos_array_set_size(ah, DAOS_TX_NONE, 0, next()));
	finish();
	all_well();
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	GIVES(size, 0);
	stand_still();
	OK(daos_array_set_size(ah, DAOS_TX_NONE, 100, next()));
	OK(daos_array_set_size(ah, DAOS_TX_NONE, 100, next()));
	finish();
	all_well();
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	GIVES(size, 100);
	daemon_pid = 0;
	/* In a transaction writes are in the order of their calls, and reads see them. */
	OK(daos_tx_open(coh, &th, 0, NULL));
	launched = 0;
	OK(daos_array_write(ah, th, records(98, 4), buffer(out, sizeof(out)), next()));
	OK(daos_array_get_size(ah, th, &size, NULL));
	GIVES(size, 102);
	OK(daos_array_set_size(ah, th, 101, next()));
	OK(daos_array_punch(ah, th, records(98, 1), next()));
	OK(daos_array_get_size(ah, th, &size, next()));
	size = 0;
	finish();
	all_well();
	GIVES(size, 101);
	launched = 0;
	OK(daos_array_read(ah, th, records(98, 4), buffer(in, sizeof(in)), next()));
	CHECK(in[1] == 0);
	finish();
	all_well();
	CHECK(in[0] == 0 && in[1] == 2 && in[2] == 3 && in[3] == 0 && iod.arr_nr_short_read == 1);
	/* The commit has what was called before it, seen or not. */
	launched = 0;
	OK(daos_array_write(ah, th, records(200, 4), buffer(out, sizeof(out)), next()));
	OK(daos_tx_commit(th, next()));
	finish();
	all_well();
	OK(daos_tx_close(th, NULL));
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	GIVES(size, 204);
	/* A condition that is read at several targets. */
	daemon_pid = daemon;
	put(1, 1, DAOS_TX_NONE);
	stand_still();
	OK(daos_obj_punch(oh, DAOS_TX_NONE, DAOS_COND_PUNCH, next()));
	finish();
	all_well();
	GIVES(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MAX | DAOS_GET_DKEY, &max, NULL, NULL, NULL), -DER_NONEXIST);
	stand_still();
	OK(daos_obj_punch(oh, DAOS_TX_NONE, DAOS_COND_PUNCH, next()));
	finish();
	GIVES(evs[0].ev_error, -DER_NONEXIST);
	/* What is there at any of the targets is enough. */
	for (i = 1; i <= 8; i++) {
		put(i, 1, DAOS_TX_NONE);
		stand_still();
		OK(daos_obj_punch(oh, DAOS_TX_NONE, DAOS_COND_PUNCH, next()));
		finish();
		all_well();
	}
	/* By force a queue ends what it was given. */
	for (i = 0; i < 3; i++)
		OK(daos_array_set_size(ah, DAOS_TX_NONE, 50, &evs[i]));
	GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
	GIVES(daos_event_fini(&evs[0]), -DER_BUSY);
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	GIVES(size, 50);
	OK(daos_eq_create(&eq));
	end();
}

#define LARGE ((3 << 20) + 100)

/* Over the borders of windows, which one request does not cross; the condition goes with the first. */
static void
large_updates_with_conditions_go_on_when_somebody_polls(void)
{
	static char  out[LARGE], in[LARGE];
	uint64_t     key = 3, absent = 4, akey = 1;
	daos_key_t   dkey, none;
	daos_recx_t  recx = {.rx_idx = 500000, .rx_nr = LARGE};
	daos_iod_t   one  = {.iod_type = DAOS_IOD_ARRAY, .iod_size = 1, .iod_nr = 1, .iod_recxs = &recx};
	d_iov_t      iov;
	d_sg_list_t  data = {.sg_nr = 1, .sg_iovs = &iov};
	int          i;

	begin();
	for (i = 0; i < LARGE; i++)
		out[i] = (char)(i * 7 + i / 5000);
	d_iov_set(&dkey, &key, sizeof(key));
	d_iov_set(&none, &absent, sizeof(absent));
	d_iov_set(&one.iod_name, &akey, sizeof(akey));
	d_iov_set(&iov, out, LARGE);
	stand_still();
	OK(daos_obj_update(oh, DAOS_TX_NONE, DAOS_COND_DKEY_INSERT, &dkey, 1, &one, &data, next()));
	OK(daos_obj_update(oh, DAOS_TX_NONE, DAOS_COND_DKEY_UPDATE, &none, 1, &one, &data, next()));
	finish();
	GIVES(evs[0].ev_error, 0);
	GIVES(evs[1].ev_error, -DER_NONEXIST);
	d_iov_set(&iov, in, LARGE);
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &dkey, 1, &one, &data, NULL, NULL));
	CHECK(memcmp(in, out, LARGE) == 0);
	/* What is refused writes nothing, and what is allowed all of it. */
	memset(in, 'x', LARGE);
	stand_still();
	OK(daos_obj_update(oh, DAOS_TX_NONE, DAOS_COND_DKEY_INSERT, &dkey, 1, &one, &data, next()));
	finish();
	GIVES(evs[0].ev_error, -DER_EXIST);
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &dkey, 1, &one, &data, NULL, NULL));
	CHECK(memcmp(in, out, LARGE) == 0);
	memset(out, 'y', LARGE);
	d_iov_set(&iov, out, LARGE);
	stand_still();
	OK(daos_obj_update(oh, DAOS_TX_NONE, DAOS_COND_DKEY_UPDATE, &dkey, 1, &one, &data, next()));
	finish();
	all_well();
	d_iov_set(&iov, in, LARGE);
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &dkey, 1, &one, &data, NULL, NULL));
	CHECK(memcmp(in, out, LARGE) == 0);
	end();
}

static uint32_t     numbers[RECORDS];
static char         found[8];
static daos_size_t  found_size, array_size;
static size_t       attrs_size;
static char         attrs[8];

/* Operations of each kind: of one request, of several, of one that is put off; they write to memory of the program. */
static void
launch_all(daos_handle_t th)
{
	daos_key_t   dkey;
	daos_iod_t   one = {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1, .iod_size = 4};
	d_iov_t      iov;
	d_sg_list_t  data = {.sg_nr = 1, .sg_iovs = &iov};
	static uint64_t key = 7;

	d_iov_set(&dkey, &key, sizeof(key));
	d_iov_set(&one.iod_name, "a", 1);
	d_iov_set(&iov, numbers, 4);
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "key", 5, "value", next()));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "key", &found_size, found, next()));
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &dkey, 1, &one, &data, next()));
	OK(daos_array_read(ah, DAOS_TX_NONE, records(0, RECORDS), buffer(numbers, sizeof(numbers)), next()));
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &array_size, next()));
	OK(daos_cont_list_attr(coh, attrs, &attrs_size, next()));
	OK(daos_array_get_size(ah, th, &array_size, next()));
	OK(daos_tx_commit(th, next()));
}

static void
begin_and_launch_all(void)
{
	daos_handle_t th;
	uint32_t      all[RECORDS] = {1, 2, 3};

	begin();
	OK(daos_array_write(ah, DAOS_TX_NONE, records(0, RECORDS), buffer(all, sizeof(all)), NULL));
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "key", 5, "first", NULL));
	OK(daos_cont_set_attr(coh, 1, (char const *const[]){"name"}, (const void *const[]){"value"}, (size_t[]){5}, NULL));
	OK(daos_tx_open(coh, &th, 0, NULL));
	OK(daos_kv_put(kv, th, 0, "other", 5, "value", NULL));
	found_size = sizeof(found);
	attrs_size = sizeof(attrs);
	stand_still();
	launch_all(th);
}

/* All are called off, but in one process those that need nobody else. The memory is the program's: nothing writes to it. */
static void
claim_called_off(void)
{
	int i;

	for (i = 0; daemon_pid > 0 && i < launched; i++)
		GIVES(evs[i].ev_error, -DER_CANCELED);
	if (daemon_pid > 0)
		CHECK(!is_running());
	memset(numbers, 0x55, sizeof(numbers));
	memset(found, 0x55, sizeof(found));
	memset(attrs, 0x55, sizeof(attrs));
	memset(evs, 0x55, sizeof(evs));
	found_size = array_size = attrs_size = 4711;
	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
}

static void
claim_untouched(void)
{
	const char *bytes = (const char *)evs;
	size_t      i;

	CHECK(numbers[0] == 0x55555555 && numbers[RECORDS - 1] == 0x55555555 && found[0] == 0x55 && attrs[0] == 0x55);
	CHECK(found_size == 4711 && array_size == 4711 && attrs_size == 4711);
	for (i = 0; i < sizeof(evs); i++)
		CHECK(bytes[i] == 0x55);
}

static void
a_queue_is_given_up_although_nobody_answers(void)
{
	daos_size_t size = 0;
	int         i;

	begin_and_launch_all();
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	claim_called_off();
	/* The answers come, and find nobody; all else goes on. */
	for (i = 0; i < 100; i++)
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "last", 4, "last", NULL));
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "last", &size, NULL, NULL));
	GIVES(size, 4);
	claim_untouched();
	OK(daos_eq_create(&eq));
	end();
}

static void
the_library_ends_although_nobody_answers(void)
{
	time_t began;

	begin_and_launch_all();
	began = time(NULL);
	OK(daos_fini());
	/* Whoever waits for an engine does so for half a minute, and every handle would. */
	CHECK(time(NULL) - began < 25);
	claim_called_off();
	/* What it had open is gone with its connection. */
	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_cont_open(poh, "cont", DAOS_COO_RW, &coh, NULL, NULL));
	claim_untouched();
	close_all();
}

TESTS(TEST(arrays_are_written_read_and_cut_when_somebody_polls), TEST(keys_are_listed_and_queried_when_somebody_polls),
      TEST(stores_are_listed_when_somebody_polls), TEST(transactions_are_committed_when_somebody_polls),
      TEST(what_takes_several_requests_goes_on_when_somebody_polls),
      TEST(arrays_are_cut_and_changed_in_transactions_when_somebody_polls),
      TEST(large_updates_with_conditions_go_on_when_somebody_polls),
      TEST(a_queue_is_given_up_although_nobody_answers), TEST(the_library_ends_although_nobody_answers))
