/* Objects. */
#include "harness.h"

static daos_handle_t oh;

static daos_obj_id_t
make_oid(uint64_t lo, enum daos_otype_t type)
{
	daos_obj_id_t oid = {.lo = lo, .hi = 0};

	OK(daos_obj_generate_oid(coh, &oid, type, OC_UNKNOWN, 0, 0));
	return oid;
}

static void
begin(enum daos_otype_t type)
{
	open_all();
	OK(daos_obj_open(coh, make_oid(7, type), DAOS_OO_RW, &oh, NULL));
}

static void
end(void)
{
	OK(daos_obj_close(oh, NULL));
	GIVES(daos_obj_close(oh, NULL), -DER_NO_HDL);
	close_all();
}

static int
put(const char *dkey, const char *akey, const char *value, uint64_t flags)
{
	daos_key_t  d = text_iov(dkey);
	daos_iod_t  iod = {.iod_name = text_iov(akey), .iod_type = DAOS_IOD_SINGLE, .iod_nr = 1};
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	iod.iod_size = strlen(value);
	iod.iod_flags = 0xdeadbeef;
	d_iov_set(&iov, (void *)value, strlen(value));
	return daos_obj_update(oh, DAOS_TX_NONE, flags, &d, 1, &iod, &sgl, NULL);
}

/* The value of a key, or "" if there is none. */
static const char *
get(const char *dkey, const char *akey)
{
	static char buf[64];
	daos_key_t  d = text_iov(dkey);
	daos_iod_t  iod = {.iod_name = text_iov(akey), .iod_type = DAOS_IOD_SINGLE, .iod_nr = 1};
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	memset(buf, 0, sizeof(buf));
	d_iov_set(&iov, buf, sizeof(buf));
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL, NULL));
	CHECK(iov.iov_len == iod.iod_size);
	return buf;
}

static void
single_values_come_back(void)
{
	begin(DAOS_OT_MULTI_HASHED);
	CHECK(strcmp(get("d", "a"), "") == 0);
	OK(put("d", "a", "stone", 0));
	CHECK(strcmp(get("d", "a"), "stone") == 0);
	OK(put("d", "a", "menhir", 0));
	CHECK(strcmp(get("d", "a"), "menhir") == 0);
	end();
}

static void
values_lie_in_several_pieces_of_memory(void)
{
	char        one[3], two[4] = {0}, three[8] = {0};
	d_iov_t     in[2], out[3];
	d_sg_list_t write = {.sg_nr = 2, .sg_iovs = in}, read = {.sg_nr = 3, .sg_iovs = out};
	daos_iod_t  iod = {.iod_type = DAOS_IOD_SINGLE, .iod_size = 9, .iod_nr = 1};
	daos_key_t  d = text_iov("d");

	begin(DAOS_OT_MULTI_HASHED);
	iod.iod_name = text_iov("a");
	d_iov_set(&in[0], "12345", 5);
	d_iov_set(&in[1], "6789", 4);
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &write, NULL));
	d_iov_set(&out[0], one, sizeof(one));
	d_iov_set(&out[1], two, sizeof(two));
	d_iov_set(&out[2], three, sizeof(three));
	iod.iod_size = DAOS_REC_ANY;
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &read, NULL, NULL));
	CHECK(memcmp(one, "123", 3) == 0 && memcmp(two, "4567", 4) == 0 && strcmp(three, "89") == 0);
	CHECK(iod.iod_size == 9 && read.sg_nr_out == 3 && out[2].iov_len == 2);
	iod.iod_size = 12;
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &write, NULL), -DER_INVAL);
	end();
}

static void
sizes_are_told_without_buffers(void)
{
	daos_key_t d = text_iov("d");
	daos_iod_t iod[2] = {{.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1}, {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1}};
	char       small[2];
	d_iov_t    iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	begin(DAOS_OT_MULTI_HASHED);
	OK(put("d", "a", "stone", 0));
	iod[0].iod_name = text_iov("a");
	iod[1].iod_name = text_iov("none");
	iod[1].iod_size = 99;
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 2, iod, NULL, NULL, NULL));
	CHECK(iod[0].iod_size == 5 && iod[1].iod_size == 0);
	d_iov_set(&iov, small, sizeof(small));
	iod[0].iod_size = DAOS_REC_ANY;
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, iod, &sgl, NULL, NULL), -DER_REC2BIG);
	CHECK(iod[0].iod_size == 5);
	/* What no request carries is too large, not wrong. */
	iod[0].iod_size = (32 << 20) + 1;
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, iod, &sgl, NULL), -DER_REC2BIG);
	end();
}

/* Writes text under an akey of the dkey d as an array of records of so many bytes, from a record on. */
static void
put_array(const char *akey, uint64_t first, size_t size, const char *text)
{
	daos_key_t  d    = text_iov("d");
	daos_recx_t recx = {.rx_idx = first, .rx_nr = strlen(text) / size};
	daos_iod_t  iod  = {.iod_name = text_iov(akey), .iod_type = DAOS_IOD_ARRAY, .iod_nr = 1, .iod_recxs = &recx};
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	iod.iod_size = size;
	d_iov_set(&iov, (void *)text, strlen(text));
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL));
}

/* Ends a call that was given an event, or none: the event's error, or what the call has returned. */
static int
ended(int rc, daos_event_t *ev)
{
	bool flag = false;

	if (ev == NULL || rc != 0)
		return rc;
	OK(daos_event_test(ev, DAOS_EQ_WAIT, &flag));
	CHECK(flag);
	return ev->ev_error;
}

/* What a size is for this kind of value of an akey of the dkey d. */
static daos_size_t
size_of(daos_handle_t th, const char *akey, daos_iod_type_t type, daos_event_t *ev)
{
	daos_key_t d   = text_iov("d");
	daos_iod_t iod = {.iod_name = text_iov(akey), .iod_type = type, .iod_nr = 1, .iod_size = DAOS_REC_ANY};

	OK(ended(daos_obj_fetch(oh, th, 0, &d, 1, &iod, NULL, NULL, ev), ev));
	return iod.iod_size;
}

/* One akey may hold an array, a single value, both or neither: each is told only to whom asks for it. */
static void
check_sizes(daos_handle_t th, daos_event_t *ev)
{
	static const struct {
		const char *akey;
		daos_size_t single, array;
	} akeys[] = {{"array", 0, 2}, {"bytes", 0, 1}, {"single", 5, 0}, {"both", 9, 3}, {"neither", 0, 0}};
	daos_iod_t iods[10];
	daos_key_t d        = text_iov("d");
	int        i;

	memset(iods, 0, sizeof(iods));
	for (i = 0; i < 10; i++) {
		iods[i].iod_name = text_iov(akeys[i / 2].akey);
		iods[i].iod_type = i % 2 == 0 ? DAOS_IOD_SINGLE : DAOS_IOD_ARRAY;
		iods[i].iod_nr   = 1;
		iods[i].iod_size = i % 2 == 0 ? 77 : DAOS_REC_ANY;
	}
	OK(ended(daos_obj_fetch(oh, th, 0, &d, 10, iods, NULL, NULL, ev), ev));
	for (i = 0; i < 5; i++) {
		GIVES(size_of(th, akeys[i].akey, DAOS_IOD_SINGLE, ev), akeys[i].single);
		GIVES(size_of(th, akeys[i].akey, DAOS_IOD_ARRAY, ev), akeys[i].array);
		GIVES(iods[2 * i].iod_size, akeys[i].single);
		GIVES(iods[2 * i + 1].iod_size, akeys[i].array);
	}
}

/* An array whose record size the program does not know is read although a single value of another size lies beside it. */
static void
check_read_beside_a_single(daos_handle_t th, daos_event_t *ev)
{
	char        text[6] = {0}, value[9];
	daos_recx_t recx    = {.rx_idx = 4, .rx_nr = 1};
	daos_key_t  d       = text_iov("d");
	daos_iod_t  iods[3] = {{.iod_type = DAOS_IOD_ARRAY, .iod_nr = 1, .iod_recxs = &recx},
			       {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1},
			       {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1}};
	d_iov_t     iovs[2];
	d_sg_list_t sgls[3] = {{.sg_nr = 1, .sg_iovs = &iovs[0]}, {.sg_nr = 1, .sg_iovs = &iovs[1]}, {0}};

	iods[0].iod_name = iods[1].iod_name = iods[2].iod_name = text_iov("both");
	d_iov_set(&iovs[0], text, 5);
	d_iov_set(&iovs[1], value, sizeof(value));
	OK(ended(daos_obj_fetch(oh, th, 0, &d, 1, iods, sgls, NULL, ev), ev));
	CHECK(strcmp(text, "def") == 0 && iods[0].iod_size == 3 && iovs[0].iov_len == 3);
	/* The same beside a value that is read, and one that is only asked for. */
	iods[0].iod_size = DAOS_REC_ANY;
	memset(text, 0, sizeof(text));
	OK(ended(daos_obj_fetch(oh, th, 0, &d, 3, iods, sgls, NULL, ev), ev));
	CHECK(strcmp(text, "def") == 0 && memcmp(value, "obelisque", 9) == 0 && iovs[1].iov_len == 9);
	GIVES(iods[0].iod_size, 3);
	GIVES(iods[2].iod_size, 9);
}

static void
sizes_are_those_of_the_kind_that_is_asked_for(void)
{
	daos_event_t  ev;
	daos_handle_t th;

	begin(DAOS_OT_MULTI_HASHED);
	OK(daos_event_init(&ev, DAOS_HDL_INVAL, NULL));
	put_array("array", 0, 2, "aabb");
	put_array("bytes", 1000000, 1, "x");
	OK(put("d", "single", "stone", 0));
	OK(put("d", "both", "obelisque", 0));
	put_array("both", 3, 3, "abcdef");
	check_sizes(DAOS_TX_NONE, NULL);
	check_sizes(DAOS_TX_NONE, &ev);
	check_read_beside_a_single(DAOS_TX_NONE, NULL);
	check_read_beside_a_single(DAOS_TX_NONE, &ev);
	OK(daos_tx_open(coh, &th, 0, NULL));
	check_sizes(th, NULL);
	check_read_beside_a_single(th, NULL);
	check_sizes(th, &ev);
	OK(daos_tx_close(th, NULL));
	OK(daos_event_fini(&ev));
	end();
}

/* Whoever reads several values with too little room for one is told all sizes, and can come back with enough. */
static void
check_retry(daos_event_t *ev)
{
	char        small[4], exact[8], large[16], records[8];
	daos_recx_t recx    = {.rx_idx = 0, .rx_nr = 2};
	daos_key_t  d       = text_iov("d");
	daos_iod_t  iods[3] = {{.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1},
			       {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1},
			       {.iod_type = DAOS_IOD_ARRAY, .iod_nr = 1, .iod_recxs = &recx}};
	d_iov_t     iovs[3];
	d_sg_list_t sgls[3] = {{.sg_nr = 1, .sg_iovs = &iovs[0]},
			       {.sg_nr = 1, .sg_iovs = &iovs[1]},
			       {.sg_nr = 1, .sg_iovs = &iovs[2]}};

	iods[0].iod_name = text_iov("first");
	iods[1].iod_name = text_iov("second");
	iods[2].iod_name = text_iov("array");
	d_iov_set(&iovs[0], small, sizeof(small));
	d_iov_set(&iovs[1], large, sizeof(large));
	d_iov_set(&iovs[2], records, sizeof(records));
	GIVES(ended(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 2, iods, sgls, NULL, ev), ev), -DER_REC2BIG);
	CHECK(iods[0].iod_size == 8 && iods[1].iod_size == 11);
	/* Not known before the call, and too little room for the array. */
	iods[0].iod_size = iods[1].iod_size = iods[2].iod_size = DAOS_REC_ANY;
	d_iov_set(&iovs[0], exact, sizeof(exact));
	d_iov_set(&iovs[2], records, 3);
	GIVES(ended(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 3, iods, sgls, NULL, ev), ev), -DER_REC2BIG);
	CHECK(iods[0].iod_size == 8 && iods[1].iod_size == 11 && iods[2].iod_size == 4);
	/* Known, and too little room all the same. */
	iods[0].iod_size = iods[1].iod_size = DAOS_REC_ANY;
	GIVES(ended(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 3, iods, sgls, NULL, ev), ev), -DER_REC2BIG);
	CHECK(iods[0].iod_size == 8 && iods[1].iod_size == 11 && iods[2].iod_size == 4);
	d_iov_set(&iovs[2], records, sizeof(records));
	OK(ended(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 3, iods, sgls, NULL, ev), ev));
	CHECK(memcmp(records, "aaaabbbb", 8) == 0 && memcmp(exact, "standing", 8) == 0);
}

static void
all_sizes_are_told_to_whom_has_too_little_room(void)
{
	daos_event_t ev;
	char         small[4];
	daos_key_t   d   = text_iov("d");
	daos_iod_t   iod = {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1};
	d_iov_t      iov;
	d_sg_list_t  sgl = {.sg_nr = 1, .sg_iovs = &iov};

	begin(DAOS_OT_MULTI_HASHED);
	OK(daos_event_init(&ev, DAOS_HDL_INVAL, NULL));
	OK(put("d", "first", "standing", 0));
	OK(put("d", "second", "tone circle", 0));
	put_array("array", 0, 4, "aaaabbbb");
	check_retry(NULL);
	check_retry(&ev);
	iod.iod_name = text_iov("first");
	d_iov_set(&iov, small, sizeof(small));
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL, NULL), -DER_REC2BIG);
	GIVES(iod.iod_size, 8);
	OK(daos_event_fini(&ev));
	end();
}

/* What is asked for is more than memory has, or more than is read for the sake of its map. */
static void
fetches_of_more_than_memory_are_refused(void)
{
	daos_recx_t one = {.rx_idx = 3, .rx_nr = 1}, all = {.rx_nr = 1 << 20}, found[4];
	daos_iod_t  iod = {.iod_type = DAOS_IOD_ARRAY, .iod_size = 1, .iod_nr = 1, .iod_recxs = &one};
	char        value = 'x';
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_iom_t  iom = {.iom_nr = 4, .iom_recxs = found};
	daos_key_t  d = text_iov("d");

	begin(DAOS_OT_MULTI_HASHED);
	iod.iod_name = text_iov("a");
	d_iov_set(&iov, &value, 1);
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL));
	iod.iod_recxs = &all;
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, &iom, NULL));
	CHECK(iom.iom_nr_out == 1 && iom.iom_recx_lo.rx_idx == 3);
	all.rx_nr = 1ULL << 33;
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, &iom, NULL), -DER_REC2BIG);
	all.rx_nr = UINT64_MAX;
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, &iom, NULL), -DER_REC2BIG);
	all.rx_nr = 1ULL << 50;
	iov.iov_buf_len = 1ULL << 50;
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL, NULL), -DER_NOMEM);
	end();
}

static void
array_values_have_extents_and_holes(void)
{
	daos_recx_t w[2] = {{.rx_idx = 10, .rx_nr = 2}, {.rx_idx = 20, .rx_nr = 3}};
	daos_recx_t r = {.rx_idx = 9, .rx_nr = 15};
	daos_iod_t  iod = {.iod_type = DAOS_IOD_ARRAY, .iod_size = 2, .iod_nr = 2, .iod_recxs = w};
	char        buf[30];
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_recx_t found[4];
	daos_iom_t  iom = {.iom_nr = 4, .iom_flags = DAOS_IOMF_DETAIL, .iom_recxs = found};
	daos_key_t  d = text_iov("d");

	begin(DAOS_OT_MULTI_HASHED);
	iod.iod_name = text_iov("a");
	d_iov_set(&iov, "aabbccddee", 10);
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL));
	memset(buf, '.', sizeof(buf));
	d_iov_set(&iov, buf, sizeof(buf));
	iod.iod_nr = 1;
	iod.iod_recxs = &r;
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, &iom, NULL));
	CHECK(memcmp(buf, "..aabb................ccddee..", 30) == 0);
	CHECK(iod.iod_size == 2 && iom.iom_nr_out == 2 && iom.iom_size == 2);
	CHECK(found[0].rx_idx == 10 && found[0].rx_nr == 2 && found[1].rx_idx == 20 && found[1].rx_nr == 3);
	CHECK(iom.iom_recx_lo.rx_idx == 10 && iom.iom_recx_hi.rx_idx == 20);
	CHECK(iov.iov_len == 28);
	iod.iod_size = DAOS_REC_ANY;
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL, NULL));
	CHECK(iod.iod_size == 2);
	iod.iod_size = DAOS_REC_ANY;
	memset(buf, '.', sizeof(buf));
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL, NULL));
	CHECK(memcmp(buf, "..aabb", 6) == 0 && iod.iod_size == 2);
	iod.iod_size = 0;
	iod.iod_recxs = &w[0];
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL));
	iod.iod_size = 2;
	iod.iod_recxs = &r;
	memset(buf, '.', sizeof(buf));
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL, NULL));
	CHECK(memcmp(buf, "......................ccddee..", 30) == 0);
	iod.iod_size = 3;
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL), -DER_INVAL);
	end();
}

static void
extents_out_of_order_land_where_they_belong(void)
{
	daos_recx_t w[3] = {{8, 4}, {0, 4}, {4, 4}};
	daos_recx_t r[2] = {{6, 4}, {1, 2}};
	daos_iod_t  iod = {.iod_type = DAOS_IOD_ARRAY, .iod_size = 1, .iod_nr = 3, .iod_recxs = w};
	char        buf[7] = {0};
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_key_t  d = text_iov("d");

	begin(DAOS_OT_MULTI_HASHED);
	iod.iod_name = text_iov("a");
	d_iov_set(&iov, "89ab01234567", 12);
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL));
	d_iov_set(&iov, buf, 6);
	iod.iod_nr = 2;
	iod.iod_recxs = r;
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL, NULL));
	CHECK(strcmp(buf, "678912") == 0);
	end();
}

static void
conditions_are_checked(void)
{
	daos_key_t d = text_iov("d"), none = text_iov("none");
	daos_iod_t iod = {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1};

	begin(DAOS_OT_MULTI_HASHED);
	GIVES(put("d", "a", "x", DAOS_COND_DKEY_UPDATE), -DER_NONEXIST);
	iod.iod_name = text_iov("b");
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, DAOS_COND_DKEY_UPDATE, &d, 1, &iod, NULL, NULL), -DER_NONEXIST);
	OK(put("d", "a", "x", DAOS_COND_DKEY_INSERT));
	GIVES(put("d", "b", "x", DAOS_COND_DKEY_INSERT), -DER_EXIST);
	GIVES(put("d", "a", "x", DAOS_COND_AKEY_INSERT), -DER_EXIST);
	GIVES(put("d", "b", "x", DAOS_COND_AKEY_UPDATE), -DER_NONEXIST);
	iod.iod_name = text_iov("b");
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, DAOS_COND_AKEY_FETCH, &d, 1, &iod, NULL, NULL, NULL), -DER_NONEXIST);
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, DAOS_COND_DKEY_FETCH, &none, 1, &iod, NULL, NULL, NULL),
	      -DER_NONEXIST);
	GIVES(daos_obj_punch_dkeys(oh, DAOS_TX_NONE, DAOS_COND_PUNCH, 1, &none, NULL), -DER_NONEXIST);
	GIVES(put("d", "a", "x", 1ULL << 40), -DER_INVAL);
	end();
}

static void
conditions_hold_for_single_akeys(void)
{
	daos_key_t  d = text_iov("d");
	daos_iod_t  iods[2] = {{.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1, .iod_size = 1},
			       {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1, .iod_size = 1}};
	d_iov_t     iov[2];
	d_sg_list_t sgls[2] = {{.sg_nr = 1, .sg_iovs = &iov[0]}, {.sg_nr = 1, .sg_iovs = &iov[1]}};

	begin(DAOS_OT_MULTI_HASHED);
	OK(put("d", "old", "x", 0));
	iods[0].iod_name = text_iov("old");
	iods[1].iod_name = text_iov("fresh");
	iods[0].iod_flags = DAOS_COND_AKEY_UPDATE;
	iods[1].iod_flags = DAOS_COND_AKEY_INSERT;
	d_iov_set(&iov[0], "1", 1);
	d_iov_set(&iov[1], "2", 1);
	OK(daos_obj_update(oh, DAOS_TX_NONE, DAOS_COND_PER_AKEY, &d, 2, iods, sgls, NULL));
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, DAOS_COND_PER_AKEY, &d, 2, iods, sgls, NULL), -DER_EXIST);
	iods[0].iod_flags = DAOS_COND_AKEY_FETCH;
	iods[1].iod_flags = 0;
	iods[1].iod_name = text_iov("none");
	OK(daos_obj_fetch(oh, DAOS_TX_NONE, DAOS_COND_PER_AKEY, &d, 2, iods, NULL, NULL, NULL));
	CHECK(iods[0].iod_size == 1 && iods[1].iod_size == 0);
	iods[1].iod_flags = DAOS_COND_AKEY_FETCH;
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, DAOS_COND_PER_AKEY, &d, 2, iods, NULL, NULL, NULL), -DER_NONEXIST);
	end();
}

static void
punched_is_gone(void)
{
	daos_key_t d = text_iov("d"), akeys[2] = {text_iov("a"), text_iov("b")};

	begin(DAOS_OT_MULTI_HASHED);
	OK(put("d", "a", "x", 0));
	OK(put("d", "b", "x", 0));
	OK(put("d", "c", "x", 0));
	OK(put("e", "a", "x", 0));
	OK(daos_obj_punch_akeys(oh, DAOS_TX_NONE, 0, &d, 2, akeys, NULL));
	CHECK(*get("d", "a") == 0 && *get("d", "b") == 0 && *get("d", "c") == 'x');
	GIVES(daos_obj_punch_dkeys(oh, DAOS_TX_NONE, 0, 2, akeys, NULL), -DER_INVAL);
	OK(daos_obj_punch_dkeys(oh, DAOS_TX_NONE, 0, 1, &d, NULL));
	CHECK(*get("d", "c") == 0 && *get("e", "a") == 'x');
	OK(daos_obj_punch(oh, DAOS_TX_NONE, 0, NULL));
	CHECK(*get("e", "a") == 0);
	GIVES(daos_obj_punch(oh, DAOS_TX_NONE, DAOS_COND_PUNCH, NULL), -DER_NONEXIST);
	end();
}

static int
list(daos_anchor_t *anchor, uint32_t *nr, size_t room, daos_key_desc_t *kds, char *buf)
{
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	d_iov_set(&iov, buf, room);
	return daos_obj_list_dkey(oh, DAOS_TX_NONE, nr, kds, &sgl, anchor, NULL);
}

static void
dkeys_are_listed_in_pages(void)
{
	daos_anchor_t   anchor = DAOS_ANCHOR_INIT;
	daos_key_desc_t kds[3];
	char            buf[256], name[16];
	int             seen[20] = {0}, i, total = 0;

	begin(DAOS_OT_MULTI_LEXICAL);
	for (i = 0; i < 20; i++) {
		sprintf(name, "key%02d", i);
		OK(put(name, "a", "x", 0));
	}
	while (!daos_anchor_is_eof(&anchor)) {
		uint32_t nr = 3, k;
		char    *at = buf;

		OK(list(&anchor, &nr, sizeof(buf), kds, buf));
		CHECK(nr <= 3);
		for (k = 0; k < nr; k++) {
			CHECK(kds[k].kd_key_len == 5);
			seen[atoi(at + 3)]++;
			at += kds[k].kd_key_len;
			total++;
		}
	}
	CHECK(total == 20);
	for (i = 0; i < 20; i++)
		CHECK(seen[i] == 1);
	end();
}

static void
a_key_that_does_not_fit_tells_its_length(void)
{
	daos_anchor_t   anchor = DAOS_ANCHOR_INIT;
	daos_key_desc_t kds[3] = {{0}};
	char            buf[64];
	uint32_t        nr = 3;
	daos_key_t      d = text_iov("a rather long key"), a = text_iov("a");
	d_iov_t         iov;
	d_sg_list_t     sgl = {.sg_nr = 1, .sg_iovs = &iov};

	begin(DAOS_OT_MULTI_HASHED);
	OK(put("a rather long key", "a", "x", 0));
	d_iov_set(&iov, buf, 4);
	GIVES(daos_obj_list_dkey(oh, DAOS_TX_NONE, &nr, kds, &sgl, &anchor, NULL), -DER_KEY2BIG);
	CHECK(kds[0].kd_key_len == 17);
	nr = 3;
	OK(list(&anchor, &nr, 17, kds, buf));
	CHECK(nr == 1);
	OK(put("a rather long key", "one that is even longer", "x", 0));
	OK(daos_obj_punch_akeys(oh, DAOS_TX_NONE, 0, &d, 1, &a, NULL));
	memset(&anchor, 0, sizeof(anchor));
	nr = 3;
	GIVES(daos_obj_list_akey(oh, DAOS_TX_NONE, &d, &nr, kds, &sgl, &anchor, NULL), -DER_KEY2BIG);
	CHECK(kds[0].kd_key_len == 23);
	/* The anchor stands where it stood: with more room the listing goes on. */
	d_iov_set(&iov, buf, 23);
	nr = 3;
	OK(daos_obj_list_akey(oh, DAOS_TX_NONE, &d, &nr, kds, &sgl, &anchor, NULL));
	CHECK(nr == 1 && memcmp(buf, "one that is even longer", 23) == 0);
	end();
}

static void
akeys_and_extents_are_listed(void)
{
	daos_anchor_t      anchor = DAOS_ANCHOR_INIT;
	daos_key_desc_t    kds[8];
	char               buf[64];
	uint32_t           nr = 8;
	d_iov_t            iov;
	d_sg_list_t        sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_key_t         d = text_iov("d"), a = text_iov("array");
	daos_recx_t        w[2] = {{0, 4}, {100, 2}}, found[4];
	daos_epoch_range_t eprs[4];
	daos_size_t        size = 0;
	daos_iod_t         iod = {.iod_type = DAOS_IOD_ARRAY, .iod_size = 1, .iod_nr = 2, .iod_recxs = w};

	begin(DAOS_OT_MULTI_LEXICAL);
	OK(put("d", "single", "value", 0));
	iod.iod_name = a;
	d_iov_set(&iov, "abcdef", 6);
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL));
	d_iov_set(&iov, buf, sizeof(buf));
	OK(daos_obj_list_akey(oh, DAOS_TX_NONE, &d, &nr, kds, &sgl, &anchor, NULL));
	CHECK(nr == 2 && kds[0].kd_key_len == 5 && memcmp(buf, "arraysingle", 11) == 0);
	memset(&anchor, 0, sizeof(anchor));
	nr = 4;
	OK(daos_obj_list_recx(oh, DAOS_TX_NONE, &d, &a, &size, &nr, found, eprs, &anchor, true, NULL));
	CHECK(nr == 2 && size == 1 && found[0].rx_idx == 0 && found[0].rx_nr == 4 && found[1].rx_idx == 100);
	CHECK(eprs[0].epr_lo != 0 && eprs[0].epr_lo == eprs[0].epr_hi);
	end();
}

/* Extents of the array, from the anchor on. */
static int
list_extents(daos_recx_t *recxs, uint32_t *nr, daos_size_t *size, daos_anchor_t *anchor, bool incr, daos_event_t *ev)
{
	daos_key_t d = text_iov("d"), a = text_iov("array");

	return ended(daos_obj_list_recx(oh, DAOS_TX_NONE, &d, &a, size, nr, recxs, NULL, anchor, incr, ev), ev);
}

static void
check_orders(daos_event_t *ev)
{
	/* In two windows, and far away. */
	static const uint64_t starts[5] = {0, 10, 20, (3 << 20) - 1, 1ULL << 60};
	uint32_t              page, nr, i, seen;
	daos_recx_t           recxs[8];
	daos_anchor_t         anchor;
	daos_size_t           size;
	int                   incr;

	for (incr = 0; incr < 2; incr++) {
		for (page = 1; page <= 8; page++) {
			memset(&anchor, 0, sizeof(anchor));
			seen = 0;
			while (!daos_anchor_is_eof(&anchor)) {
				nr   = page;
				size = 0;
				OK(list_extents(recxs, &nr, &size, &anchor, incr, ev));
				CHECK(nr <= page && seen + nr <= 5 && size == (nr > 0));
				for (i = 0; i < nr; i++, seen++) {
					GIVES(recxs[i].rx_idx, starts[incr ? seen : 4 - seen]);
					GIVES(recxs[i].rx_nr, 1);
				}
			}
			GIVES(seen, 5);
			nr = 3;
			OK(list_extents(recxs, &nr, &size, &anchor, incr, ev));
			GIVES(nr, 0);
		}
	}
}

static void
extents_are_listed_in_both_orders(void)
{
	static const uint64_t starts[5] = {20, 0, 1ULL << 60, (3 << 20) - 1, 10};
	daos_event_t          ev;
	daos_anchor_t         anchor = DAOS_ANCHOR_INIT;
	daos_recx_t           recxs[4];
	uint32_t              nr = 4;
	daos_size_t           size;
	int                   i;

	begin(DAOS_OT_MULTI_HASHED);
	OK(daos_event_init(&ev, DAOS_HDL_INVAL, NULL));
	/* Nothing at all has neither order. */
	OK(list_extents(recxs, &nr, &size, &anchor, false, NULL));
	CHECK(nr == 0 && daos_anchor_is_eof(&anchor));
	/* A single value under the same akey is no extent of its array. */
	OK(put("d", "array", "beside", 0));
	for (i = 0; i < 5; i++)
		put_array("array", starts[i], 1, "x");
	check_orders(NULL);
	check_orders(&ev);
	OK(daos_event_fini(&ev));
	end();
}

static void
extents_are_no_single_values_and_need_no_memory(void)
{
	daos_key_t         d = text_iov("d"), a = text_iov("array"), single = text_iov("single");
	daos_anchor_t      anchor = DAOS_ANCHOR_INIT;
	daos_recx_t        recxs[2];
	daos_epoch_range_t eprs[5];
	daos_size_t        size = 0;
	uint32_t           nr   = 1;

	begin(DAOS_OT_MULTI_HASHED);
	OK(put("d", "single", "stone", 0));
	OK(put("d", "array", "beside", 0));
	put_array("array", 7, 4, "aaaabbbb");
	/* As daos-serialize of mpifileutils learns the size of records. */
	OK(daos_obj_list_recx(oh, DAOS_TX_NONE, &d, &a, &size, &nr, NULL, eprs, &anchor, true, NULL));
	CHECK(nr == 1 && size == 4);
	nr = 2;
	memset(&anchor, 0, sizeof(anchor));
	OK(daos_obj_list_recx(oh, DAOS_TX_NONE, &d, &single, &size, &nr, recxs, eprs, &anchor, true, NULL));
	CHECK(nr == 0 && size == 0 && daos_anchor_is_eof(&anchor));
	nr = 0;
	memset(&anchor, 0, sizeof(anchor));
	GIVES(daos_obj_list_recx(oh, DAOS_TX_NONE, &d, &a, &size, &nr, recxs, eprs, &anchor, true, NULL), -DER_INVAL);
	end();
}

static void
split_listings_cover_everything_once(void)
{
	daos_anchor_t   anchors[8];
	daos_key_desc_t kds[64];
	char            buf[1024], name[16];
	uint32_t        parts = 0, p, nr;
	int             i, total = 0;
	daos_obj_id_t   oid = {.lo = 9};

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_SX, 0, 0));
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &oh, NULL));
	for (i = 0; i < 40; i++) {
		sprintf(name, "key%02d", i);
		OK(put(name, "a", "x", 0));
	}
	OK(daos_obj_anchor_split(oh, &parts, NULL));
	GIVES(parts, 2);
	OK(daos_obj_anchor_split(oh, &parts, anchors));
	for (p = 0; p < parts; p++) {
		while (!daos_anchor_is_eof(&anchors[p])) {
			nr = 64;
			OK(list(&anchors[p], &nr, sizeof(buf), kds, buf));
			total += nr;
		}
	}
	GIVES(total, 40);
	total = 0;
	for (p = 0; p < parts; p++) {
		OK(daos_obj_anchor_set(oh, p, &anchors[0]));
		while (!daos_anchor_is_eof(&anchors[0])) {
			nr = 7;
			OK(list(&anchors[0], &nr, sizeof(buf), kds, buf));
			total += nr;
		}
	}
	GIVES(total, 40);
	GIVES(daos_obj_anchor_set(oh, 2, &anchors[0]), -DER_INVAL);
	end();
}

static int
list_akeys(daos_key_t *dkey, daos_anchor_t *anchor, uint32_t *nr, daos_key_desc_t *kds, char buf[64])
{
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	d_iov_set(&iov, buf, 64);
	return daos_obj_list_akey(oh, DAOS_TX_NONE, dkey, nr, kds, &sgl, anchor, NULL);
}

/* Numbers as dkeys in the order of their values, lexical keys, and hashed ones, of which nobody knows the order. */
static void
check_every_start(enum daos_otype_t type)
{
	static const char *texts[6] = {"a", "a\001", "b", "ba", "c", "c~"};
	uint64_t           numbers[6] = {0, 1, 255, 256, 1ULL << 40, UINT64_MAX};
	bool               is_number  = type == DAOS_OT_MULTI_UINT64;
	daos_anchor_t      anchor     = DAOS_ANCHOR_INIT;
	daos_key_desc_t    kds[8];
	char               all[64], buf[64];
	uint32_t           nr = 8, i, at;
	daos_key_t         d, a;
	daos_iod_t         iod = {.iod_type = DAOS_IOD_SINGLE, .iod_size = 1, .iod_nr = 1};
	d_iov_t            iov;
	d_sg_list_t        sgl = {.sg_nr = 1, .sg_iovs = &iov};

	OK(daos_obj_open(coh, make_oid(100 + type, type), DAOS_OO_RW, &oh, NULL));
	for (i = 0; i < 6; i++) {
		d = text_iov(texts[i]);
		if (is_number)
			d_iov_set(&d, &numbers[i], 8);
		a = d;
		iod.iod_name = a;
		d_iov_set(&iov, "x", 1);
		OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL));
	}
	OK(list(&anchor, &nr, sizeof(all), kds, all));
	GIVES(nr, 6);
	for (i = 0, at = 0; i < 6; at += kds[i++].kd_key_len) {
		daos_key_desc_t found[8];

		d_iov_set(&d, all + at, kds[i].kd_key_len);
		OK(daos_obj_key2anchor(oh, DAOS_TX_NONE, &d, NULL, &anchor, NULL));
		nr = 8;
		OK(list(&anchor, &nr, sizeof(buf), found, buf));
		GIVES(nr, 6 - i);
		CHECK(found[0].kd_key_len == d.iov_len && memcmp(buf, d.iov_buf, d.iov_len) == 0);
		OK(daos_obj_key2anchor(oh, DAOS_TX_NONE, &d, &d, &anchor, NULL));
		nr = 8;
		OK(list_akeys(&d, &anchor, &nr, found, buf));
		CHECK(nr == 1 && memcmp(buf, d.iov_buf, d.iov_len) == 0);
	}
	OK(daos_obj_close(oh, NULL));
}

static void
a_listing_goes_on_with_a_key(void)
{
	daos_anchor_t   anchor;
	daos_key_desc_t kds[8];
	char            buf[64];
	uint32_t        nr = 8;
	daos_key_t      b = text_iov("b"), y = text_iov("y"), none = text_iov(""), between = text_iov("bb");

	begin(DAOS_OT_MULTI_LEXICAL);
	OK(put("a", "x", "1", 0));
	OK(put("b", "x", "1", 0));
	OK(put("c", "x", "1", 0));
	OK(daos_obj_key2anchor(oh, DAOS_TX_NONE, &b, NULL, &anchor, NULL));
	OK(list(&anchor, &nr, sizeof(buf), kds, buf));
	CHECK(nr == 2 && buf[0] == 'b' && buf[1] == 'c');
	/* Of a key that is not there, with what follows its place. */
	OK(daos_obj_key2anchor(oh, DAOS_TX_NONE, &between, NULL, &anchor, NULL));
	nr = 8;
	OK(list(&anchor, &nr, sizeof(buf), kds, buf));
	CHECK(nr == 1 && buf[0] == 'c');
	OK(put("b", "y", "1", 0));
	OK(put("b", "z", "1", 0));
	OK(daos_obj_key2anchor(oh, DAOS_TX_NONE, &b, &y, &anchor, NULL));
	nr = 8;
	OK(list_akeys(&b, &anchor, &nr, kds, buf));
	CHECK(nr == 2 && buf[0] == 'y' && buf[1] == 'z');
	GIVES(daos_obj_key2anchor(oh, DAOS_TX_NONE, NULL, &y, &anchor, NULL), -DER_INVAL);
	GIVES(daos_obj_key2anchor(oh, DAOS_TX_NONE, &b, &none, &anchor, NULL), -DER_INVAL);
	OK(daos_obj_close(oh, NULL));
	check_every_start(DAOS_OT_MULTI_LEXICAL);
	check_every_start(DAOS_OT_MULTI_HASHED);
	check_every_start(DAOS_OT_MULTI_UINT64);
	close_all();
}

static void
integer_keys_are_queried(void)
{
	uint64_t    numbers[3] = {5, 900, 77}, n, found = 0;
	daos_key_t  d, a;
	daos_recx_t recx = {0}, w = {.rx_idx = 30, .rx_nr = 2};
	daos_iod_t  iod = {.iod_type = DAOS_IOD_ARRAY, .iod_size = 1, .iod_nr = 1, .iod_recxs = &w};
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};
	int         i;

	begin(DAOS_OT_DKEY_UINT64);
	d_iov_set(&d, &found, sizeof(found));
	a = text_iov("a");
	GIVES(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MAX | DAOS_GET_DKEY, &d, NULL, NULL, NULL), -DER_NONEXIST);
	iod.iod_name = a;
	d_iov_set(&iov, "xy", 2);
	for (i = 0; i < 3; i++) {
		n = numbers[i];
		d_iov_set(&d, &n, sizeof(n));
		OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, &sgl, NULL));
	}
	d_iov_set(&d, &found, sizeof(found));
	OK(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MAX | DAOS_GET_DKEY | DAOS_GET_RECX, &d, &a, &recx, NULL));
	GIVES(found, 900);
	GIVES(recx.rx_idx + recx.rx_nr, 32);
	OK(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MIN | DAOS_GET_DKEY, &d, NULL, NULL, NULL));
	CHECK(found == 5);
	GIVES(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MIN, &d, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_obj_query_key(oh, DAOS_TX_NONE, DAOS_GET_MIN | DAOS_GET_DKEY, NULL, NULL, NULL, NULL), -DER_INVAL);
	end();
}

static void
ids_carry_type_and_class(void)
{
	daos_obj_id_t oid = {.lo = 77, .hi = 5};

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_S2, 0, 0));
	CHECK(daos_obj_id2type(oid) == DAOS_OT_KV_HASHED && daos_obj_id2class(oid) == OC_S2);
	CHECK(oid.lo == 77 && (oid.hi & 0xffffffff) == 5);
	oid.hi = 5;
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_ARRAY_BYTE, OC_SX, 0, 0));
	CHECK(daos_obj_id2grp_nr(oid) == 2);
	oid.hi = 5;
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_UNKNOWN, DAOS_OCH_SHD_MAX, 0));
	CHECK(daos_obj_id2class(oid) == OC_S2);
	oid.hi = 5;
	OK((daos_obj_generate_oid)(coh, &oid, DAOS_OT_MULTI_HASHED, OC_UNKNOWN, DAOS_OCH_SHD_TINY, 0));
	CHECK(daos_obj_id2class(oid) == OC_S1);
	GIVES(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_S1, 0, 0), -DER_INVAL);
	oid.hi = 5;
	GIVES(daos_obj_generate_oid(coh, &oid, 200, OC_S1, 0, 0), -DER_INVAL);
	GIVES(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_RP_2G1, 0, 0), -DER_INVAL);
	GIVES(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_UNKNOWN, DAOS_OCH_RDD_RP, 0), -DER_INVAL);
	/* As many copies as there are engines: one. */
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_RP_XSF, 0, 0));
	CHECK(daos_obj_id2class(oid) == OC_RP_XSF);
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &oh, NULL));
	OK(put("d", "a", "x", 0));
	CHECK(strcmp(get("d", "a"), "x") == 0);
	OK(daos_obj_close(oh, NULL));
	close_all();
}

#undef daos_obj_generate_oid
int daos_obj_generate_oid(daos_handle_t, daos_obj_id_t *, enum daos_otype_t, daos_oclass_id_t, daos_oclass_hints_t,
			  uint32_t);

static void
the_old_name_generates_ids_too(void)
{
	daos_obj_id_t oid = {.lo = 1};

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_ARRAY, OC_S1, 0, 0));
	CHECK(daos_obj_id2type(oid) == DAOS_OT_ARRAY);
	close_all();
}

static void
handles_that_are_none_are_refused(void)
{
	daos_key_t d = text_iov("d");
	daos_iod_t iod = {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1};

	begin(DAOS_OT_MULTI_HASHED);
	iod.iod_name = text_iov("a");
	GIVES(daos_obj_fetch(NO_HANDLE, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_obj_fetch(coh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_obj_fetch(DAOS_HDL_INVAL, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_obj_fetch(oh, NO_HANDLE, 0, &d, 1, &iod, NULL, NULL, NULL), -DER_NO_HDL);
	GIVES(daos_obj_close(poh, NULL), -DER_NO_HDL);
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, NULL, 1, &iod, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1, NULL, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 0, &iod, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_obj_fetch(oh, DAOS_TX_NONE, 0, &d, 1u << 31, &iod, NULL, NULL, NULL), -DER_INVAL);
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL), 0);
	iod.iod_size = 5;
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL), -DER_INVAL);
	iod.iod_type = 9;
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL), -DER_INVAL);
	iod.iod_type = DAOS_IOD_SINGLE;
	iod.iod_nr = 2;
	GIVES(daos_obj_update(oh, DAOS_TX_NONE, 0, &d, 1, &iod, NULL, NULL), -DER_INVAL);
	GIVES(daos_obj_query(oh, NULL, NULL, NULL), -DER_NOSYS);
	GIVES(daos_obj_open(coh, DAOS_OBJ_NIL, DAOS_OO_RW, &oh, NULL), -DER_INVAL);
	close_all();
}

static void
what_is_opened_for_reading_is_not_written(void)
{
	daos_handle_t ro, ro_cont;

	begin(DAOS_OT_MULTI_HASHED);
	OK(put("d", "a", "x", 0));
	ro = oh;
	OK(daos_obj_open(coh, make_oid(7, DAOS_OT_MULTI_HASHED), DAOS_OO_RO, &oh, NULL));
	GIVES(put("d", "a", "y", 0), -DER_NO_PERM);
	GIVES(daos_obj_punch(oh, DAOS_TX_NONE, 0, NULL), -DER_NO_PERM);
	CHECK(strcmp(get("d", "a"), "x") == 0);
	OK(daos_obj_close(oh, NULL));
	oh = ro;
	OK(daos_cont_open(poh, "cont", DAOS_COO_RO, &ro_cont, NULL, NULL));
	OK(daos_obj_close(oh, NULL));
	OK(daos_obj_open(ro_cont, make_oid(7, DAOS_OT_MULTI_HASHED), DAOS_OO_RW, &oh, NULL));
	GIVES(put("d", "a", "y", 0), -DER_NO_PERM);
	CHECK(strcmp(get("d", "a"), "x") == 0);
	OK(daos_cont_close(ro_cont, NULL));
	end();
}

static void
objects_are_verified_and_dated(void)
{
	daos_epoch_t before, after;

	begin(DAOS_OT_MULTI_HASHED);
	OK(put("d", "a", "x", 0));
	OK(daos_obj_query_max_epoch(oh, DAOS_TX_NONE, &before, NULL));
	OK(put("d", "b", "y", 0));
	OK(daos_obj_query_max_epoch(oh, DAOS_TX_NONE, &after, NULL));
	CHECK(before > 0 && after > before);
	OK(daos_obj_verify(coh, make_oid(7, DAOS_OT_MULTI_HASHED), DAOS_EPOCH_MAX));
	GIVES(daos_obj_verify(NO_HANDLE, make_oid(7, DAOS_OT_MULTI_HASHED), DAOS_EPOCH_MAX), -DER_NO_HDL);
	end();
}

static void
classes_of_ones_own_do_not_exist(void)
{
	open_all();
	GIVES(daos_obj_register_class(coh, 5, NULL, NULL), -DER_NOSYS);
	GIVES(daos_obj_query_class(coh, 5, NULL, NULL), -DER_NOSYS);
	GIVES(daos_obj_list_class(coh, NULL, NULL, NULL), -DER_NOSYS);
	close_all();
}

TESTS(TEST(single_values_come_back), TEST(values_lie_in_several_pieces_of_memory),
      TEST(sizes_are_told_without_buffers),
      TEST(sizes_are_those_of_the_kind_that_is_asked_for), TEST(all_sizes_are_told_to_whom_has_too_little_room),
      TEST(fetches_of_more_than_memory_are_refused),
      TEST(array_values_have_extents_and_holes),
      TEST(extents_out_of_order_land_where_they_belong), TEST(conditions_are_checked),
      TEST(conditions_hold_for_single_akeys), TEST(punched_is_gone), TEST(dkeys_are_listed_in_pages),
      TEST(a_key_that_does_not_fit_tells_its_length), TEST(akeys_and_extents_are_listed),
      TEST(extents_are_listed_in_both_orders), TEST(extents_are_no_single_values_and_need_no_memory),
      TEST(split_listings_cover_everything_once), TEST(a_listing_goes_on_with_a_key),
      TEST(integer_keys_are_queried), TEST(ids_carry_type_and_class), TEST(the_old_name_generates_ids_too),
      TEST(handles_that_are_none_are_refused), TEST(what_is_opened_for_reading_is_not_written),
      TEST(objects_are_verified_and_dated), TEST(classes_of_ones_own_do_not_exist))
