/* One-dimensional arrays. */
#include "harness.h"

static daos_handle_t ah;

static daos_obj_id_t
make_oid(bool add_attr)
{
	daos_obj_id_t oid = {.lo = 4};

	OK(daos_array_generate_oid(coh, &oid, add_attr, OC_SX, 0, 0));
	return oid;
}

static void
begin(void)
{
	open_all();
	OK(daos_array_create(coh, make_oid(true), DAOS_TX_NONE, 4, 8, &ah, NULL));
}

static void
end(void)
{
	OK(daos_array_close(ah, NULL));
	GIVES(daos_array_close(ah, NULL), -DER_NO_HDL);
	close_all();
}

static int
io(bool write, uint64_t index, uint64_t count, void *buf, daos_array_iod_t *iod)
{
	daos_range_t     range = {.rg_idx = index, .rg_len = count};
	daos_array_iod_t own = {.arr_nr = 1, .arr_rgs = &range};
	d_iov_t          iov;
	d_sg_list_t      sgl = {.sg_nr = 1, .sg_iovs = &iov};
	int              rc;

	d_iov_set(&iov, buf, count * 4);
	rc = write ? daos_array_write(ah, DAOS_TX_NONE, &own, &sgl, NULL)
		   : daos_array_read(ah, DAOS_TX_NONE, &own, &sgl, NULL);
	if (iod != NULL)
		*iod = own;
	return rc;
}

static void
records_come_back_over_chunks(void)
{
	uint32_t         out[20], in[20], i;
	daos_array_iod_t iod;

	begin();
	for (i = 0; i < 20; i++)
		out[i] = 100 + i;
	OK(io(true, 5, 20, out, NULL));
	OK(io(false, 5, 20, in, &iod));
	CHECK(memcmp(in, out, sizeof(out)) == 0 && iod.arr_nr_short_read == 0 && iod.arr_nr_read == 20);
	memset(in, 0xff, sizeof(in));
	OK(io(false, 0, 20, in, &iod));
	CHECK(in[0] == 0 && in[4] == 0 && in[5] == 100 && in[19] == 114);
	OK(io(false, 15, 20, in, &iod));
	CHECK(iod.arr_nr_short_read == 10 && in[9] == 119);
	end();
}

static void
the_size_is_that_of_the_last_record(void)
{
	uint32_t           value = 7;
	daos_size_t        size = 99;
	daos_array_stbuf_t stat;

	begin();
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	CHECK(size == 0);
	OK(io(true, 1000, 1, &value, NULL));
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	CHECK(size == 1001);
	OK(daos_array_stat(ah, DAOS_TX_NONE, &stat, NULL));
	CHECK(stat.st_size == 1001 && stat.st_max_epoch > 0);
	OK(daos_array_set_size(ah, DAOS_TX_NONE, 500, NULL));
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	CHECK(size == 500);
	OK(daos_array_set_size(ah, DAOS_TX_NONE, 2000, NULL));
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	CHECK(size == 2000);
	end();
}

static void
sizes_are_kept_in_the_array(void)
{
	daos_handle_t other;
	daos_size_t   cell = 0, chunk = 0;

	begin();
	GIVES(daos_array_create(coh, make_oid(true), DAOS_TX_NONE, 4, 8, &other, NULL), -DER_EXIST);
	OK(daos_array_open(coh, make_oid(true), DAOS_TX_NONE, DAOS_OO_RW, &cell, &chunk, &other, NULL));
	CHECK(cell == 4 && chunk == 8);
	cell = chunk = 0;
	OK(daos_array_get_attr(other, &chunk, &cell));
	CHECK(cell == 4 && chunk == 8);
	GIVES(daos_array_update_chunk_size(other, 16), -DER_INVAL);
	OK(daos_array_close(other, NULL));
	OK(daos_array_destroy(ah, DAOS_TX_NONE, NULL));
	GIVES(daos_array_open(coh, make_oid(true), DAOS_TX_NONE, DAOS_OO_RW, &cell, &chunk, &other, NULL),
	      -DER_NONEXIST);
	end();
}

static void
programs_may_keep_the_sizes(void)
{
	daos_handle_t other;
	daos_size_t   cell = 0, chunk = 0;

	begin();
	GIVES(daos_array_open_with_attr(coh, make_oid(true), DAOS_TX_NONE, DAOS_OO_RW, 1, 64, &other, NULL),
	      -DER_INVAL);
	OK(daos_array_open_with_attr(coh, make_oid(false), DAOS_TX_NONE, DAOS_OO_RW, 1, 64, &other, NULL));
	OK(daos_array_update_chunk_size(other, 128));
	OK(daos_array_get_attr(other, &chunk, &cell));
	CHECK(cell == 1 && chunk == 128);
	OK(daos_obj_close(other, NULL));
	end();
}

static void
punched_ranges_read_as_zeros(void)
{
	uint32_t         out[4] = {1, 2, 3, 4}, in[4];
	daos_range_t     range = {.rg_idx = 1, .rg_len = 2};
	daos_array_iod_t iod = {.arr_nr = 1, .arr_rgs = &range};

	begin();
	OK(io(true, 0, 4, out, NULL));
	OK(daos_array_punch(ah, DAOS_TX_NONE, &iod, NULL));
	OK(io(false, 0, 4, in, NULL));
	CHECK(in[0] == 1 && in[1] == 0 && in[2] == 0 && in[3] == 4);
	end();
}

static void
ranges_as_long_as_numbers_go_are_punched(void)
{
	uint32_t         value = 7;
	daos_size_t      size = 99;
	daos_range_t     range[2] = {{.rg_idx = 0, .rg_len = UINT64_MAX}, {.rg_idx = 1, .rg_len = 1}};
	daos_array_iod_t iod = {.arr_nr = 1, .arr_rgs = range};

	open_all();
	OK(daos_array_create(coh, make_oid(true), DAOS_TX_NONE, 4, 1, &ah, NULL));
	OK(io(true, 1000, 1, &value, NULL));
	OK(daos_array_punch(ah, DAOS_TX_NONE, &iod, NULL));
	OK(io(false, 1000, 1, &value, NULL));
	CHECK(value == 0);
	OK(daos_array_get_size(ah, DAOS_TX_NONE, &size, NULL));
	CHECK(size == 0);
	range[0].rg_idx = 1;
	GIVES(daos_array_punch(ah, DAOS_TX_NONE, &iod, NULL), -DER_INVAL);
	range[0].rg_idx = 0;
	iod.arr_nr = 2;
	OK(daos_array_punch(ah, DAOS_TX_NONE, &iod, NULL));
	end();
}

static void
wrong_requests_are_refused(void)
{
	uint32_t         value = 7;
	daos_range_t     range = {.rg_idx = 0, .rg_len = 1ULL << 62};
	daos_array_iod_t iod = {.arr_nr = 1, .arr_rgs = &range};
	d_iov_t          iov;
	d_sg_list_t      sgl = {.sg_nr = 1, .sg_iovs = &iov};

	begin();
	d_iov_set(&iov, &value, sizeof(value));
	GIVES(daos_array_write(ah, DAOS_TX_NONE, &iod, &sgl, NULL), -DER_INVAL);
	GIVES(daos_array_read(ah, DAOS_TX_NONE, &iod, &sgl, NULL), -DER_INVAL);
	range.rg_len = 2;
	GIVES(daos_array_read(ah, DAOS_TX_NONE, &iod, &sgl, NULL), -DER_INVAL);
	GIVES(daos_array_read(ah, DAOS_TX_NONE, NULL, &sgl, NULL), -DER_INVAL);
	GIVES(daos_array_read(ah, DAOS_TX_NONE, &iod, NULL, NULL), -DER_INVAL);
	iod.arr_nr = 1ULL << 60;
	GIVES(daos_array_read(ah, DAOS_TX_NONE, &iod, &sgl, NULL), -DER_INVAL);
	GIVES(daos_array_get_size(coh, DAOS_TX_NONE, NULL, NULL), -DER_NO_HDL);
	end();
}

TESTS(TEST(records_come_back_over_chunks), TEST(the_size_is_that_of_the_last_record),
      TEST(sizes_are_kept_in_the_array), TEST(programs_may_keep_the_sizes), TEST(punched_ranges_read_as_zeros),
      TEST(ranges_as_long_as_numbers_go_are_punched), TEST(wrong_requests_are_refused))
