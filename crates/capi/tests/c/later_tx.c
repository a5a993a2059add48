/* Reads in transactions and pipelines: they go on whenever somebody polls, which waits for nobody. */
#include "stores.h"

static daos_handle_t th;
static daos_event_t *ended[EVENTS];

/* Something that is asked and answered. */
static void
ask(void)
{
	daos_size_t size = 0;

	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "first", &size, NULL, NULL));
	GIVES(size, 5);
}

/* What is stored, and over it what a transaction has written. */
static void
begin_tx(void)
{
	uint32_t out[RECORDS], i;

	begin();
	for (i = 0; i < RECORDS; i++)
		out[i] = 100 + i;
	OK(daos_array_write(ah, DAOS_TX_NONE, records(0, RECORDS), buffer(out, sizeof(out)), NULL));
	for (i = 1; i <= 5; i++)
		put(i, i, DAOS_TX_NONE);
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "first", 5, "value", NULL));
	OK(daos_tx_open(coh, &th, 0, NULL));
	/* Holes in the middle of what is there, and more behind its end. */
	OK(daos_array_punch(ah, th, records(2, 20), NULL));
	OK(daos_array_write(ah, th, records(RECORDS, 4), buffer(out, 16), NULL));
	put(3, 9, th);
	put(8, 8, th);
	OK(daos_kv_put(kv, th, 0, "second", 6, "values", NULL));
}

static void
end_tx(void)
{
	OK(daos_tx_commit(th, NULL));
	OK(daos_tx_close(th, NULL));
	end();
}

/* Where the reads of a round go. */
static uint32_t           in[RECORDS + 10];
static uint64_t           values[3], dkeys[32], akeys[32], highest, keys[3] = {3, 4, 9};
static daos_size_t        array_size, extent_size, first_size, second_size;
static daos_array_stbuf_t stat_of;
static daos_epoch_t       epoch;
static char               first[8], second[8], names[64];
static daos_key_desc_t    kds[3][32];
static daos_anchor_t      anchors[5];
static uint32_t           nr[5];
static daos_recx_t        recxs[2][4], recx[3];
static daos_epoch_range_t eprs[2][4];
static daos_iod_t         iods[3];
static daos_key_t         dkey[3], max;
static d_iov_t            lists[6];
static d_sg_list_t        sgls[6];

static d_sg_list_t *
list(int index, void *memory, size_t bytes)
{
	d_iov_set(&lists[index], memory, bytes);
	sgls[index] = (d_sg_list_t){.sg_nr = 1, .sg_iovs = &lists[index]};
	return &sgls[index];
}

/* A value under a dkey that the transaction has written to, under one that it has not, and one whose size nobody knows. */
static void
launch_fetches(void)
{
	static const uint64_t at[3][2] = {{3, 9}, {4, 4}, {3, 3}};
	static uint64_t       names_of[3];
	int                   i;

	for (i = 0; i < 3; i++) {
		keys[i]     = at[i][0];
		names_of[i] = at[i][1];
		values[i]   = 0;
		recx[i]     = (daos_recx_t){.rx_idx = names_of[i], .rx_nr = 1};
		iods[i]     = (daos_iod_t){.iod_type = DAOS_IOD_ARRAY, .iod_nr = 1, .iod_recxs = &recx[i]};
		iods[i].iod_size = i == 2 ? 0 : 8;
		d_iov_set(&dkey[i], &keys[i], 8);
		d_iov_set(&iods[i].iod_name, &names_of[i], 8);
		OK(daos_obj_fetch(oh, th, 0, &dkey[i], 1, &iods[i], list(i, &values[i], 8), NULL, next()));
	}
}

static void
launch_reads(void)
{
	int i;

	memset(in, 0xff, sizeof(in));
	memset(anchors, 0, sizeof(anchors));
	memset(&stat_of, 0, sizeof(stat_of));
	array_size = extent_size = highest = epoch = 0;
	first_size = 8;
	for (i = 0; i < 5; i++)
		nr[i] = i == 2 || i == 3 ? 4 : 32;
	d_iov_set(&max, &highest, 8);
	launch_fetches();
	OK(daos_obj_list_dkey(oh, th, &nr[0], kds[0], list(3, dkeys, sizeof(dkeys)), &anchors[0], next()));
	OK(daos_obj_list_akey(oh, th, &dkey[0], &nr[1], kds[1], list(4, akeys, sizeof(akeys)), &anchors[1], next()));
	OK(daos_obj_list_recx(oh, th, &dkey[0], &iods[0].iod_name, &extent_size, &nr[2], recxs[0], eprs[0], &anchors[2],
			      true, next()));
	OK(daos_obj_list_recx(oh, th, &dkey[0], &iods[0].iod_name, &extent_size, &nr[3], recxs[1], eprs[1], &anchors[3],
			      false, next()));
	OK(daos_obj_query_key(oh, th, DAOS_GET_MAX | DAOS_GET_DKEY, &max, NULL, NULL, next()));
	OK(daos_obj_query_max_epoch(oh, th, &epoch, next()));
	OK(daos_kv_get(kv, th, 0, "first", &first_size, first, next()));
	OK(daos_kv_list(kv, th, &nr[4], kds[2], list(5, names, sizeof(names)), &anchors[4], next()));
	OK(daos_array_read(ah, th, records(0, RECORDS + 10), buffer(in, sizeof(in)), next()));
	OK(daos_array_get_size(ah, th, &array_size, next()));
	OK(daos_array_stat(ah, th, &stat_of, next()));
}

static void
claim_reads(void)
{
	uint64_t at = 0;

	all_well();
	GIVES(values[0], 9);
	GIVES(values[1], 4);
	GIVES(values[2], 3);
	GIVES(iods[2].iod_size, 8);
	CHECK(nr[0] > 0 && nr[1] == 2 && akeys[0] == 3 && akeys[1] == 9);
	CHECK(nr[2] == 1 && recxs[0][0].rx_idx == 9 && recxs[0][0].rx_nr == 1 && extent_size == 8);
	CHECK(nr[3] == 1 && recxs[1][0].rx_idx == 9);
	OK(daos_tx_hdl2epoch(th, &at));
	CHECK(highest == 8 && epoch == at && eprs[0][0].epr_hi == at);
	CHECK(first_size == 5 && memcmp(first, "value", 5) == 0);
	CHECK(nr[4] > 0 && (memcmp(names, "first", 5) == 0 || memcmp(names, "second", 6) == 0));
	CHECK(in[0] == 100 && in[1] == 101 && in[2] == 0 && in[21] == 0 && in[22] == 122 && in[RECORDS - 1] == 139);
	CHECK(in[RECORDS] == 100 && in[RECORDS + 3] == 103 && in[RECORDS + 4] == 0);
	CHECK(iod.arr_nr_read == RECORDS + 4 && iod.arr_nr_short_read == 6);
	CHECK(array_size == RECORDS + 4 && stat_of.st_size == RECORDS + 4 && stat_of.st_max_epoch == at);
}

static void
reads_in_transactions_go_on_when_somebody_polls(void)
{
	begin_tx();
	stand_still();
	launch_reads();
	finish();
	claim_reads();
	/* No look waits, whatever it has in hand. */
	stand_still();
	launch_reads();
	finish_look_by_look(ask, ended);
	claim_reads();
	/* What the transaction itself has written is there at once. */
	stand_still();
	second_size = 8;
	OK(daos_kv_get(kv, th, 0, "second", &second_size, second, next()));
	GIVES(daos_eq_poll(eq, 0, DAOS_EQ_NOWAIT, EVENTS, ended), 1);
	all_well();
	CHECK(second_size == 6 && memcmp(second, "values", 6) == 0);
	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
	end_tx();
}

/* They see what was written before they were called, and nothing of what came between then and their answers. */
static void
reads_see_what_was_written_before_they_were_called(void)
{
	daos_size_t size = 0;
	uint32_t    zeros[RECORDS + 10] = {0};
	d_iov_t     own;
	d_sg_list_t data = {.sg_nr = 1, .sg_iovs = &own};

	d_iov_set(&own, zeros, sizeof(zeros));
	begin_tx();
	stand_still();
	launch_reads();
	OK(daos_kv_put(kv, th, 0, "first", 3, "new", NULL));
	OK(daos_kv_remove(kv, th, 0, "second", NULL));
	OK(daos_obj_punch(oh, th, 0, NULL));
	OK(daos_array_write(ah, th, records(0, RECORDS + 10), &data, NULL));
	finish();
	claim_reads();
	/* Those that begin now see all of it. */
	OK(daos_kv_get(kv, th, 0, "first", &size, NULL, NULL));
	GIVES(size, 3);
	launched = 0;
	first_size = 8;
	OK(daos_kv_get(kv, th, 0, "second", &first_size, NULL, next()));
	OK(daos_array_get_size(ah, th, &array_size, next()));
	OK(daos_obj_query_key(oh, th, DAOS_GET_MAX | DAOS_GET_DKEY, &max, NULL, NULL, next()));
	finish_look_by_look(ask, ended);
	GIVES(evs[0].ev_error, 0);
	CHECK(first_size == 0 && array_size == RECORDS + 10);
	GIVES(evs[2].ev_error, -DER_NONEXIST);
	OK(daos_tx_abort(th, NULL));
	OK(daos_tx_close(th, NULL));
	end();
}

static void
arrays_are_made_and_opened_in_transactions_when_somebody_polls(void)
{
	daos_obj_id_t new_oid = {.lo = 41}, old_oid = {.lo = 42}, none_oid = {.lo = 43};
	daos_handle_t made = {0}, opened = {0}, none = {0}, again = {0};
	daos_size_t   cell = 0, chunk = 0;

	begin_tx();
	OK(daos_array_generate_oid(coh, &new_oid, true, OC_SX, 0, 0));
	OK(daos_array_generate_oid(coh, &old_oid, true, OC_SX, 0, 0));
	OK(daos_array_generate_oid(coh, &none_oid, true, OC_SX, 0, 0));
	OK(daos_array_create(coh, old_oid, DAOS_TX_NONE, 8, 16, &opened, NULL));
	OK(daos_array_close(opened, NULL));
	OK(daos_tx_restart(th, NULL));
	opened.cookie = 0;
	stand_still();
	OK(daos_array_create(coh, new_oid, th, 4, CHUNK, &made, next()));
	OK(daos_array_open(coh, old_oid, th, DAOS_OO_RW, &cell, &chunk, &opened, next()));
	OK(daos_array_open(coh, none_oid, th, DAOS_OO_RW, &cell, &chunk, &none, next()));
	OK(daos_array_create(coh, old_oid, th, 4, CHUNK, &again, next()));
	CHECK(made.cookie == 0 && opened.cookie == 0);
	finish_look_by_look(ask, ended);
	GIVES(evs[0].ev_error, 0);
	GIVES(evs[1].ev_error, 0);
	GIVES(evs[2].ev_error, -DER_NONEXIST);
	GIVES(evs[3].ev_error, -DER_EXIST);
	CHECK(made.cookie != 0 && opened.cookie != 0 && cell == 8 && chunk == 16);
	CHECK(none.cookie == 0 && again.cookie == 0);
	/* It is there for the transaction, and for others when that is committed. */
	launched = 0;
	OK(daos_array_open(coh, new_oid, th, DAOS_OO_RW, &cell, &chunk, &again, next()));
	finish_look_by_look(ask, ended);
	all_well();
	CHECK(cell == 4 && chunk == CHUNK);
	GIVES(daos_array_open(coh, new_oid, DAOS_TX_NONE, DAOS_OO_RW, &cell, &chunk, &none, NULL), -DER_NONEXIST);
	OK(daos_tx_commit(th, NULL));
	OK(daos_array_open(coh, new_oid, DAOS_TX_NONE, DAOS_OO_RW, &cell, &chunk, &none, NULL));
	OK(daos_array_close(none, NULL));
	OK(daos_array_close(again, NULL));
	OK(daos_array_close(made, NULL));
	OK(daos_array_close(opened, NULL));
	OK(daos_tx_close(th, NULL));
	end();
}

#define ROWS 30

static daos_pipeline_t    pipeline;
static daos_filter_t      filter;
static daos_filter_part_t func, akey;
static double             largest;

/* The largest number under akey 0 of all dkeys. */
static void
launch_pipeline(daos_handle_t tx, daos_anchor_t *anchor)
{
	static d_iov_t     result;
	static d_sg_list_t agg = {.sg_nr = 1, .sg_iovs = &result};
	static uint32_t    none;

	memset(&akey, 0, sizeof(akey));
	memset(&func, 0, sizeof(func));
	memset(anchor, 0, sizeof(*anchor));
	daos_pipeline_init(&pipeline);
	daos_filter_init(&filter);
	filter.filter_type = text_iov("DAOS_FILTER_AGGREGATION");
	func.part_type     = text_iov("DAOS_FILTER_FUNC_MAX");
	func.num_operands  = 1;
	akey.part_type     = text_iov("DAOS_FILTER_AKEY");
	akey.data_type     = text_iov("DAOS_FILTER_TYPE_UINTEGER8");
	akey.akey          = text_iov("0");
	OK(daos_filter_add(&filter, &func));
	OK(daos_filter_add(&filter, &akey));
	OK(daos_pipeline_add(&pipeline, &filter));
	largest = 0;
	none    = 0;
	d_iov_set(&result, &largest, sizeof(largest));
	OK(daos_pipeline_run(coh, kv, &pipeline, tx, 0, NULL, NULL, NULL, anchor, &none, NULL, NULL, NULL, NULL, &agg,
			     NULL, next()));
	OK(daos_pipeline_free(&pipeline));
}

static void
pipelines_go_on_when_somebody_polls(void)
{
	daos_anchor_t anchor;
	daos_size_t   size = 0;
	uint64_t      i;
	char          name[8];

	begin();
	for (i = 1; i <= ROWS; i++) {
		snprintf(name, sizeof(name), "n%d", (int)i);
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, name, sizeof(i), &i, NULL));
	}
	OK(daos_tx_open(coh, &th, 0, NULL));
	i = 1000;
	OK(daos_kv_put(kv, th, 0, "n1", sizeof(i), &i, NULL));
	stand_still();
	launch_pipeline(DAOS_TX_NONE, &anchor);
	finish();
	all_well();
	CHECK(largest == ROWS && daos_anchor_is_eof(&anchor));
	/* Others go on beside it: what needs one answer is there before what needs one for each row. */
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "first", 5, "value", NULL));
	stand_still();
	launch_pipeline(th, &anchor);
	OK(daos_kv_get(kv, th, 0, "first", &size, NULL, next()));
	OK(daos_array_get_size(ah, th, &array_size, next()));
	finish_look_by_look(ask, ended);
	all_well();
	CHECK(largest == 1000 && size == 0 && ended[2] == &evs[0]);
	OK(daos_tx_abort(th, NULL));
	OK(daos_tx_close(th, NULL));
	end();
}

/* By force a queue gives up what is under way, and a transaction goes on without it. */
static void
reads_in_transactions_are_given_up_with_their_queue(void)
{
	size_t i;

	begin_tx();
	stand_still();
	launch_reads();
	GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	if (daemon_pid > 0) {
		for (i = 0; i < (size_t)launched; i++)
			GIVES(evs[i].ev_error, -DER_CANCELED);
		CHECK(!is_running());
	}
	memset(in, 0x55, sizeof(in));
	memset(first, 0x55, sizeof(first));
	memset(values, 0x55, sizeof(values));
	if (daemon_pid > 0)
		CHECK(kill(daemon_pid, SIGCONT) == 0);
	for (i = 0; i < 100; i++)
		ask();
	CHECK(in[0] == 0x55555555 && first[0] == 0x55 && values[0] == 0x5555555555555555);
	begin_events();
	launched = 0;
	launch_reads();
	finish_look_by_look(ask, ended);
	claim_reads();
	end_tx();
}

TESTS(TEST(reads_in_transactions_go_on_when_somebody_polls), TEST(reads_see_what_was_written_before_they_were_called),
      TEST(arrays_are_made_and_opened_in_transactions_when_somebody_polls), TEST(pipelines_go_on_when_somebody_polls),
      TEST(reads_in_transactions_are_given_up_with_their_queue))
