/* Events and event queues. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include "harness.h"
#include <errno.h>
#include <daos_fs.h>

static daos_handle_t eq, other_eq, oh;
static daos_event_t  evs[64];

static void
begin(void)
{
	daos_obj_id_t oid = {.lo = 3};

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_DKEY_UINT64, OC_SX, 0, 0));
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &oh, NULL));
	OK(daos_eq_create(&eq));
}

static void
end(void)
{
	OK(daos_eq_destroy(eq, 0));
	GIVES(daos_eq_destroy(eq, 0), -DER_NO_HDL);
	OK(daos_obj_close(oh, NULL));
	close_all();
}

struct op {
	uint64_t    number;
	daos_key_t  dkey;
	daos_iod_t  iod;
	d_iov_t     iov;
	d_sg_list_t sgl;
	char        buf[4096];
};

static struct op ops[64];

static void
prepare(int i)
{
	struct op *op = &ops[i];

	op->number = i;
	d_iov_set(&op->dkey, &op->number, sizeof(op->number));
	memset(&op->iod, 0, sizeof(op->iod));
	d_iov_set(&op->iod.iod_name, "a", 1);
	op->iod.iod_type = DAOS_IOD_SINGLE;
	op->iod.iod_nr   = 1;
	op->iod.iod_size = sizeof(op->buf);
	d_iov_set(&op->iov, op->buf, sizeof(op->buf));
	op->sgl.sg_nr   = 1;
	op->sgl.sg_iovs = &op->iov;
}

static int
write_one(int i, daos_event_t *ev)
{
	prepare(i);
	memset(ops[i].buf, i + 1, sizeof(ops[i].buf));
	return daos_obj_update(oh, DAOS_TX_NONE, 0, &ops[i].dkey, 1, &ops[i].iod, &ops[i].sgl, ev);
}

static int
read_one(int i, daos_event_t *ev)
{
	prepare(i);
	memset(ops[i].buf, 0, sizeof(ops[i].buf));
	return daos_obj_fetch(oh, DAOS_TX_NONE, 0, &ops[i].dkey, 1, &ops[i].iod, &ops[i].sgl, NULL, ev);
}

/* An operation that fails at the store. */
static int
fail_one(int i, daos_event_t *ev)
{
	prepare(i);
	return daos_obj_update(oh, DAOS_TX_NONE, DAOS_COND_DKEY_UPDATE, &ops[i].dkey, 1, &ops[i].iod, &ops[i].sgl,
			       ev);
}

static void
poll_all(int count)
{
	daos_event_t *done[8];
	int           i, rc;

	while (count > 0) {
		rc = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 8, done);
		CHECK(rc > 0 && rc <= 8);
		for (i = 0; i < rc; i++)
			CHECK(done[i]->ev_error == 0);
		count -= rc;
	}
}

static void
many_operations_complete_on_a_queue(void)
{
	int i, round;

	begin();
	for (i = 0; i < 16; i++)
		OK(daos_event_init(&evs[i], eq, NULL));
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 16; i++)
			OK(write_one(i, &evs[i]));
		poll_all(16);
	}
	for (i = 0; i < 16; i++)
		OK(read_one(i, &evs[i]));
	poll_all(16);
	for (i = 0; i < 16; i++) {
		CHECK(ops[i].iod.iod_size == 4096 && ops[i].buf[0] == i + 1 && ops[i].buf[4095] == i + 1);
		OK(daos_event_fini(&evs[i]));
	}
	end();
}

static void
polls_have_limits(void)
{
	daos_event_t *done[4];
	int           i;

	begin();
	GIVES(daos_eq_poll(eq, 0, DAOS_EQ_NOWAIT, 0, done), -DER_INVAL);
	GIVES(daos_eq_poll(eq, 0, DAOS_EQ_NOWAIT, 4, NULL), -DER_INVAL);
	GIVES(daos_eq_poll(coh, 0, DAOS_EQ_NOWAIT, 4, done), -DER_NO_HDL);
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 4, done), 0);
	GIVES(daos_eq_poll(eq, 0, 2000, 4, done), 0);
	for (i = 0; i < 3; i++) {
		OK(daos_event_init(&evs[i], eq, NULL));
		OK(write_one(i, &evs[i]));
	}
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, done), 1);
	GIVES(daos_eq_query(eq, DAOS_EQR_ALL, 0, NULL), 2);
	GIVES(daos_eq_query(eq, DAOS_EQR_ALL, 4, done), 2);
	GIVES(daos_eq_query(eq, DAOS_EQR_WAITING, 0, NULL) + daos_eq_query(eq, DAOS_EQR_COMPLETED, 0, NULL), 2);
	GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
	poll_all(2);
	GIVES(daos_eq_query(eq, DAOS_EQR_ALL, 0, NULL), 0);
	end();
}

static void
waits_on_an_idle_queue_leave_the_processor(void)
{
	daos_event_t   *done[4];
	struct timespec from, to;
	long            used_us;

	begin();
	OK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from));
	GIVES(daos_eq_poll(eq, 0, 500000, 4, done), 0);
	OK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to));
	used_us = (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000;
	CHECK(used_us < 100000);
	end();
}

static void
events_without_a_queue_are_tested(void)
{
	bool flag = false;

	begin();
	OK(daos_event_init(&evs[0], DAOS_HDL_INVAL, NULL));
	OK(write_one(0, &evs[0]));
	OK(daos_event_test(&evs[0], DAOS_EQ_WAIT, &flag));
	CHECK(flag && evs[0].ev_error == 0);
	flag = false;
	OK(read_one(0, &evs[0]));
	while (!flag)
		OK(daos_event_test(&evs[0], DAOS_EQ_NOWAIT, &flag));
	CHECK(ops[0].buf[9] == 1);
	OK(daos_event_fini(&evs[0]));
	GIVES(daos_event_fini(&evs[0]), -DER_INVAL);
	GIVES(daos_event_test(&evs[0], DAOS_EQ_NOWAIT, &flag), -DER_INVAL);
	GIVES(write_one(0, &evs[0]), -DER_INVAL);
	end();
}

static void
the_error_is_the_events(void)
{
	daos_event_t *done;

	begin();
	OK(daos_event_init(&evs[0], eq, NULL));
	OK(fail_one(0, &evs[0]));
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
	CHECK(done == &evs[0]);
	GIVES(evs[0].ev_error, -DER_NONEXIST);
	OK(write_one(0, &evs[0]));
	GIVES(write_one(0, &evs[0]), -DER_NO_PERM);
	poll_all(1);
	OK(daos_event_fini(&evs[0]));
	end();
}

static void
a_parent_completes_with_its_last_child(void)
{
	daos_event_t *parent = &evs[10], *done, *child = NULL;
	bool          flag;
	int           i;

	begin();
	OK(daos_event_init(parent, eq, NULL));
	GIVES(daos_event_parent_barrier(parent), -DER_INVAL);
	for (i = 0; i < 4; i++)
		OK(daos_event_init(&evs[i], DAOS_HDL_INVAL, parent));
	GIVES(daos_event_init(&evs[5], DAOS_HDL_INVAL, &evs[0]), -DER_NO_PERM);
	GIVES(daos_event_parent_barrier(parent), -DER_NO_PERM);
	for (i = 0; i < 4; i++)
		OK(write_one(i, &evs[i]));
	OK(daos_event_parent_barrier(parent));
	GIVES(daos_event_test(&evs[0], DAOS_EQ_NOWAIT, &flag), -DER_NO_PERM);
	GIVES(daos_event_fini(&evs[0]), -DER_INVAL == daos_event_fini(&evs[0]) ? -DER_INVAL : -DER_BUSY);
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
	CHECK(done == parent && parent->ev_error == 0);
	for (i = 0; i < 4; i++) {
		OK(daos_event_next(parent, &child));
		CHECK(child == &evs[i]);
	}
	OK(daos_event_next(parent, &child));
	CHECK(child == NULL);
	for (i = 0; i < 3; i++)
		OK(write_one(i, &evs[i]));
	OK(fail_one(60, &evs[3]));
	OK(daos_event_parent_barrier(parent));
	OK(daos_event_test(parent, DAOS_EQ_WAIT, &flag));
	CHECK(flag);
	GIVES(parent->ev_error, -DER_NONEXIST);
	OK(daos_event_fini(&evs[0]));
	OK(daos_event_fini(parent));
	end();
}

static int   order[4], called;
static daos_event_t *called_for;

static int
note(void *arg, daos_event_t *ev, int rc)
{
	called_for = ev;
	GIVES(rc, ev->ev_error);
	order[called++] = (int)(intptr_t)arg;
	return (intptr_t)arg == 2 ? -DER_MISC : 0;
}

static void
callbacks_run_in_their_order(void)
{
	daos_event_t *done;

	begin();
	OK(daos_event_init(&evs[0], eq, NULL));
	OK(daos_event_register_comp_cb(&evs[0], note, (void *)1));
	OK(daos_event_register_comp_cb(&evs[0], note, (void *)2));
	GIVES(daos_event_register_comp_cb(&evs[0], NULL, NULL), -DER_INVAL);
	OK(write_one(0, &evs[0]));
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
	CHECK(called == 2 && order[0] == 1 && order[1] == 2 && called_for == &evs[0]);
	GIVES(evs[0].ev_error, -DER_MISC);
	OK(write_one(0, &evs[0]));
	poll_all(1);
	GIVES(called, 2);
	OK(daos_event_fini(&evs[0]));
	end();
}

/* What would wait for events, in one of their callbacks. */
static int
wait_in_callback(void *arg, daos_event_t *ev, int rc)
{
	daos_event_t *done[8];
	bool          flag;
	int           seen;

	OK(rc);
	called++;
	GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
	GIVES(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE), -DER_BUSY);
	do {
		seen = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 8, done);
		*(int *)arg += seen > 0 ? seen : 0;
	} while (seen > 0);
	GIVES(seen, -DER_BUSY);
	GIVES(daos_eq_poll(eq, 0, DAOS_EQ_NOWAIT, 8, done), -DER_BUSY);
	GIVES(daos_event_test(ev, DAOS_EQ_WAIT, &flag), -DER_BUSY);
	GIVES(daos_event_fini(ev), -DER_BUSY);
	GIVES(daos_fini(), -DER_BUSY);
	OK(daos_init());
	OK(daos_fini());
	OK(daos_eq_create(&other_eq));
	OK(daos_eq_destroy(other_eq, DAOS_EQ_DESTROY_FORCE));
	return 0;
}

static void
callbacks_cannot_wait_for_events(void)
{
	int i, seen = 0;

	begin();
	for (i = 0; i < 8; i++) {
		OK(daos_event_init(&evs[i], eq, NULL));
		if (i % 3 == 0)
			OK(daos_event_register_comp_cb(&evs[i], wait_in_callback, &seen));
		OK(write_one(i, &evs[i]));
	}
	while (called < 3) {
		daos_event_t *done[8];
		int           rc = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 8, done);

		CHECK(rc > 0);
		seen += rc;
	}
	poll_all(8 - seen);
	for (i = 0; i < 8; i++)
		OK(daos_event_fini(&evs[i]));
	end();
}

/* The library is being ended around it. */
static int
use_while_ending(void *arg, daos_event_t *ev, int rc)
{
	CHECK(arg == NULL && ev == &evs[0]);
	OK(rc);
	called++;
	GIVES(daos_init(), -DER_BUSY);
	GIVES(dfs_init(), EBUSY);
	GIVES(daos_fini(), -DER_BUSY);
	return 0;
}

static void
callbacks_run_while_the_library_ends(void)
{
	begin();
	OK(daos_event_init(&evs[0], eq, NULL));
	OK(daos_event_register_comp_cb(&evs[0], use_while_ending, NULL));
	OK(write_one(0, &evs[0]));
	OK(daos_fini());
	GIVES(called, 1);
	GIVES(daos_fini(), -DER_UNINIT);
}

static void
abort_does_nothing(void)
{
	begin();
	OK(daos_event_init(&evs[0], eq, NULL));
	OK(write_one(0, &evs[0]));
	OK(daos_event_abort(&evs[0]));
	poll_all(1);
	CHECK(evs[0].ev_error == 0);
	OK(daos_event_fini(&evs[0]));
	GIVES(daos_event_abort(&evs[0]), -DER_INVAL);
	end();
}

static void
completed_events_may_end_unseen(void)
{
	begin();
	OK(daos_event_init(&evs[0], eq, NULL));
	OK(write_one(0, &evs[0]));
	while (daos_eq_query(eq, DAOS_EQR_COMPLETED, 0, NULL) == 0) {
		daos_event_t *done;

		OK(daos_event_init(&evs[1], eq, NULL));
		if (daos_eq_poll(eq, 0, DAOS_EQ_NOWAIT, 1, &done) == 1)
			break;
	}
	OK(daos_event_fini(&evs[0]));
	GIVES(daos_eq_query(eq, DAOS_EQR_ALL, 0, NULL), 0);
	end();
}

static void
a_queue_can_be_destroyed_with_events_under_way(void)
{
	begin();
	OK(daos_event_init(&evs[0], eq, NULL));
	OK(write_one(0, &evs[0]));
	GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	OK(daos_event_fini(&evs[0]));
	GIVES(daos_event_init(&evs[1], eq, NULL), -DER_NO_HDL);
	OK(daos_eq_create(&eq));
	end();
}

static void *
wait_for_ever(void *eqh)
{
	daos_event_t *done[2];

	return (void *)(intptr_t)daos_eq_poll(*(daos_handle_t *)eqh, 0, DAOS_EQ_WAIT, 2, done);
}

/* Whether a thread of this process, of which there are two, sleeps. */
static bool
is_asleep(pid_t tid)
{
	char  path[64], state = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	stat = fopen(path, "r");
	CHECK(stat != NULL);
	CHECK(fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
	fclose(stat);
	return state == 'S';
}

static pid_t poller_tid;

static void *
wait_as_told(void *eqh)
{
	__atomic_store_n(&poller_tid, gettid(), __ATOMIC_RELEASE);
	return wait_for_ever(eqh);
}

/* A thread that waits for an event of an idle queue: it sleeps, time and again. */
static void
start_poller(pthread_t *thread)
{
	poller_tid = 0;
	OK(pthread_create(thread, NULL, wait_as_told, &eq));
	while (__atomic_load_n(&poller_tid, __ATOMIC_ACQUIRE) == 0 || !is_asleep(poller_tid))
		;
}

static void
whoever_waits_hears_that_the_queue_is_gone(void)
{
	pthread_t thread;
	void     *gave;

	begin();
	start_poller(&thread);
	OK(daos_eq_destroy(eq, DAOS_EQ_DESTROY_FORCE));
	OK(pthread_join(thread, &gave));
	GIVES((intptr_t)gave, -DER_NO_HDL);
	/* Without force, too: nothing is under way, and nobody has to be asked. */
	OK(daos_eq_create(&eq));
	start_poller(&thread);
	OK(daos_eq_destroy(eq, 0));
	OK(pthread_join(thread, &gave));
	GIVES((intptr_t)gave, -DER_NO_HDL);
	/* And if the library ends. */
	OK(daos_eq_create(&eq));
	start_poller(&thread);
	OK(daos_obj_close(oh, NULL));
	close_all();
	OK(pthread_join(thread, &gave));
	GIVES((intptr_t)gave, -DER_NO_HDL);
}

static void
a_queue_with_children_under_way_is_busy(void)
{
	daos_event_t *parent = &evs[10];
	bool          flag   = false;

	begin();
	OK(daos_event_init(parent, eq, NULL));
	OK(daos_event_init(&evs[0], eq, parent));
	OK(daos_event_init(&evs[1], eq, parent));
	OK(write_one(0, &evs[0]));
	/* As ROOT launches: the parent comes last. */
	GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
	OK(write_one(1, &evs[1]));
	GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
	OK(daos_event_parent_barrier(parent));
	OK(daos_event_test(parent, DAOS_EQ_WAIT, &flag));
	CHECK(flag && parent->ev_error == 0);
	OK(daos_event_fini(parent));
	end();
}

static void
a_parent_ends_with_its_children_unless_one_is_under_way(void)
{
	daos_event_t *parent = &evs[10], *done;
	bool          flag   = false;

	begin();
	OK(daos_event_init(parent, eq, NULL));
	OK(daos_event_init(&evs[0], eq, parent));
	OK(daos_event_init(&evs[1], eq, parent));
	OK(write_one(0, &evs[0]));
	GIVES(daos_event_fini(parent), -DER_BUSY);
	OK(write_one(1, &evs[1]));
	OK(daos_event_parent_barrier(parent));
	GIVES(daos_event_fini(parent), -DER_BUSY);
	OK(daos_event_test(parent, DAOS_EQ_WAIT, &flag));
	CHECK(flag && parent->ev_error == 0);
	OK(daos_event_fini(parent));
	/* They are nobody's any more, whether they were launched or not. */
	GIVES(daos_event_test(&evs[0], DAOS_EQ_NOWAIT, &flag), -DER_INVAL);
	CHECK(write_one(0, &evs[0]) == -DER_INVAL);
	OK(daos_event_fini(&evs[1]));
	OK(daos_event_init(&evs[0], eq, NULL));
	OK(write_one(0, &evs[0]));
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
	OK(daos_event_fini(&evs[0]));
	end();
}

static void *
worker(void *arg)
{
	daos_event_t ev, *done[4];
	int          i = (int)(intptr_t)arg, round, rc;
	bool         flag;

	for (round = 0; round < 200; round++) {
		OK(daos_event_init(&ev, eq, NULL));
		OK(write_one(i, &ev));
		do {
			OK(daos_event_test(&ev, 100, &flag));
		} while (!flag);
		OK(ev.ev_error);
		OK(daos_event_fini(&ev));
		rc = daos_eq_poll(eq, 1, DAOS_EQ_NOWAIT, 0, done);
		GIVES(rc, -DER_INVAL);
	}
	return NULL;
}

static void
threads_share_a_queue(void)
{
	pthread_t threads[4];
	int       i;

	begin();
	for (i = 0; i < 4; i++)
		OK(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i));
	for (i = 0; i < 4; i++)
		OK(pthread_join(threads[i], NULL));
	for (i = 0; i < 4; i++) {
		OK(read_one(i, NULL));
		CHECK(ops[i].buf[17] == i + 1);
	}
	end();
}

#define MANY 20000
#define QUESTIONS 5000

static void
any_number_of_questions_is_launched_before_the_first_poll(void)
{
	daos_event_t     *many = calloc(2 * QUESTIONS, sizeof(*many)), *done[64];
	daos_handle_t    *arrays = calloc(QUESTIONS, sizeof(*arrays)), made;
	daos_cont_info_t *infos = calloc(QUESTIONS, sizeof(*infos));
	daos_size_t       cell, chunk;
	daos_obj_id_t     oid = {.lo = 9};
	int               i, seen, taken;

	begin();
	OK(daos_array_generate_oid(coh, &oid, true, OC_SX, 0, 0));
	OK(daos_array_create(coh, oid, DAOS_TX_NONE, 4, 8, &made, NULL));
	for (i = 0; i < 2 * QUESTIONS; i++)
		OK(daos_event_init(&many[i], eq, NULL));
	for (i = 0; i < QUESTIONS; i++) {
		OK(daos_array_open(coh, oid, DAOS_TX_NONE, DAOS_OO_RW, &cell, &chunk, &arrays[i], &many[2 * i]));
		OK(daos_cont_query(coh, &infos[i], NULL, &many[2 * i + 1]));
	}
	for (seen = 0; seen < 2 * QUESTIONS; seen += taken) {
		taken = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 64, done);
		CHECK(taken > 0);
	}
	for (i = 0; i < QUESTIONS; i++) {
		GIVES(many[2 * i].ev_error, 0);
		GIVES(many[2 * i + 1].ev_error, 0);
		GIVES(infos[i].ci_nhandles, 1);
		OK(daos_array_close(arrays[i], NULL));
	}
	for (i = 0; i < 2 * QUESTIONS; i++)
		OK(daos_event_fini(&many[i]));
	OK(daos_array_close(made, NULL));
	free(many);
	free(arrays);
	free(infos);
	end();
}

static void
any_number_of_updates_is_launched_before_the_first_poll(void)
{
	daos_event_t *many = calloc(MANY, sizeof(*many)), *done[64];
	uint64_t     *numbers = calloc(MANY, sizeof(*numbers)), *found = calloc(MANY, sizeof(*found));
	daos_size_t  *sizes = calloc(MANY, sizeof(*sizes));
	daos_obj_id_t oid = {.lo = 8};
	daos_handle_t kv;
	char          key[20];
	int           i, seen, taken;

	begin();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	for (i = 0; i < MANY; i++) {
		numbers[i] = i + 1;
		snprintf(key, sizeof(key), "%d", i);
		OK(daos_event_init(&many[i], eq, NULL));
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, key, sizeof(numbers[i]), &numbers[i], &many[i]));
	}
	for (seen = 0; seen < MANY; seen += taken) {
		taken = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 64, done);
		CHECK(taken > 0);
	}
	for (i = 0; i < MANY; i++) {
		GIVES(many[i].ev_error, 0);
		sizes[i] = sizeof(found[i]);
		snprintf(key, sizeof(key), "%d", i);
		OK(daos_kv_get(kv, DAOS_TX_NONE, 0, key, &sizes[i], &found[i], &many[i]));
	}
	for (seen = 0; seen < MANY; seen += taken) {
		taken = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 64, done);
		CHECK(taken > 0);
	}
	for (i = 0; i < MANY; i++) {
		GIVES(many[i].ev_error, 0);
		CHECK(sizes[i] == sizeof(found[i]) && found[i] == numbers[i]);
		OK(daos_event_fini(&many[i]));
	}
	OK(daos_kv_close(kv, NULL));
	free(many);
	free(numbers);
	free(found);
	free(sizes);
	end();
}

static void
everything_takes_an_event(void)
{
	daos_event_t    *ev = &evs[0];
	daos_handle_t    kv, other, th;
	daos_obj_id_t    oid = {.lo = 8};
	daos_size_t      size = 16;
	char             buf[16];
	daos_anchor_t    anchor = DAOS_ANCHOR_INIT;
	daos_key_desc_t  kds[4];
	uint32_t         nr = 4;
	d_iov_t          iov;
	d_sg_list_t      sgl = {.sg_nr = 1, .sg_iovs = &iov};

	begin();
	OK(daos_event_init(ev, eq, NULL));
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, ev));
	poll_all(1);
	OK(daos_kv_put(kv, DAOS_TX_NONE, 0, "key", 5, "stone", ev));
	poll_all(1);
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "key", &size, buf, ev));
	poll_all(1);
	CHECK(size == 5 && memcmp(buf, "stone", 5) == 0);
	d_iov_set(&iov, buf, sizeof(buf));
	OK(daos_kv_list(kv, DAOS_TX_NONE, &nr, kds, &sgl, &anchor, ev));
	poll_all(1);
	CHECK(nr == 1);
	OK(daos_tx_open(coh, &th, 0, ev));
	poll_all(1);
	OK(daos_kv_remove(kv, th, 0, "key", ev));
	poll_all(1);
	OK(daos_tx_commit(th, ev));
	poll_all(1);
	OK(daos_tx_close(th, ev));
	poll_all(1);
	OK(daos_kv_get(kv, DAOS_TX_NONE, 0, "key", &size, NULL, ev));
	poll_all(1);
	CHECK(size == 0);
	OK(daos_kv_destroy(kv, DAOS_TX_NONE, ev));
	poll_all(1);
	OK(daos_kv_close(kv, ev));
	poll_all(1);
	OK(daos_cont_open(poh, "cont", DAOS_COO_RO, &other, NULL, ev));
	poll_all(1);
	OK(daos_cont_close(other, ev));
	poll_all(1);
	OK(daos_event_fini(ev));
	end();
}

TESTS(TEST(many_operations_complete_on_a_queue), TEST(polls_have_limits), TEST(waits_on_an_idle_queue_leave_the_processor),
      TEST(events_without_a_queue_are_tested),
      TEST(the_error_is_the_events), TEST(a_parent_completes_with_its_last_child),
      TEST(callbacks_run_in_their_order), TEST(callbacks_cannot_wait_for_events),
      TEST(callbacks_run_while_the_library_ends), TEST(abort_does_nothing), TEST(completed_events_may_end_unseen),
      TEST(a_queue_can_be_destroyed_with_events_under_way), TEST(whoever_waits_hears_that_the_queue_is_gone),
      TEST(a_queue_with_children_under_way_is_busy),
      TEST(a_parent_ends_with_its_children_unless_one_is_under_way), TEST(threads_share_a_queue),
      TEST(any_number_of_updates_is_launched_before_the_first_poll),
      TEST(any_number_of_questions_is_launched_before_the_first_poll), TEST(everything_takes_an_event))
