/* Handles as bytes. */
#include "harness.h"

static char buf[4096];

static void
pools_and_containers_travel(void)
{
	d_iov_t          glob, cglob;
	daos_handle_t    pool, cont;
	daos_cont_info_t info;
	char             cbuf[4096];

	open_all();
	memset(&glob, 0, sizeof(glob));
	OK(daos_pool_local2global(poh, &glob));
	CHECK(glob.iov_buf_len > 16 && glob.iov_buf_len < sizeof(buf));
	glob.iov_buf     = buf;
	glob.iov_buf_len = 8;
	GIVES(daos_pool_local2global(poh, &glob), -DER_TRUNC);
	CHECK(glob.iov_buf_len > 16);
	glob.iov_buf_len = sizeof(buf);
	OK(daos_pool_local2global(poh, &glob));
	OK(daos_pool_global2local(glob, &pool));
	memset(&cglob, 0, sizeof(cglob));
	OK(daos_cont_local2global(coh, &cglob));
	cglob.iov_buf     = cbuf;
	cglob.iov_buf_len = 8;
	GIVES(daos_cont_local2global(coh, &cglob), -DER_TRUNC);
	CHECK(cglob.iov_buf_len > 16 && cglob.iov_buf_len < sizeof(cbuf));
	OK(daos_cont_local2global(coh, &cglob));
	OK(daos_cont_global2local(pool, cglob, &cont));
	OK(daos_cont_query(cont, &info, NULL, NULL));
	CHECK(info.ci_nhandles == 2);
	GIVES(daos_cont_global2local(poh, glob, &cont), -DER_INVAL);
	GIVES(daos_pool_global2local(cglob, &pool), -DER_INVAL);
	buf[12] ^= 1;
	GIVES(daos_pool_global2local(glob, &pool), -DER_INVAL);
	glob.iov_len = 3;
	GIVES(daos_pool_global2local(glob, &pool), -DER_INVAL);
	glob.iov_len = SIZE_MAX;
	GIVES(daos_pool_global2local(glob, &pool), -DER_INVAL);
	GIVES(daos_pool_local2global(coh, &glob), -DER_NO_HDL);
	GIVES(daos_pool_local2global(poh, NULL), -DER_INVAL);
	OK(daos_cont_close(cont, NULL));
	OK(daos_pool_disconnect(pool, NULL));
	close_all();
}

static void
a_pool_that_is_had_alone_is_shared_by_its_bytes(void)
{
	d_iov_t       glob = {.iov_buf = buf, .iov_buf_len = sizeof(buf)};
	daos_handle_t alone, shared, other;
	daos_size_t   count = 0;

	OK(daos_init());
	OK(daos_pool_connect("pool", NULL, DAOS_PC_EX, &alone, NULL, NULL));
	OK(daos_pool_local2global(alone, &glob));
	OK(daos_pool_global2local(glob, &shared));
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_EX, &other, NULL, NULL), -DER_BUSY);
	/* Until the last of them is given up nobody else has it. */
	OK(daos_pool_disconnect(alone, NULL));
	OK(daos_pool_list_cont(shared, &count, NULL, NULL));
	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL), -DER_BUSY);
	OK(daos_pool_disconnect(shared, NULL));
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &other, NULL, NULL));
	/* The bytes outlive the handle, and let nobody in beside others. */
	GIVES(daos_pool_global2local(glob, &shared), -DER_BUSY);
	OK(daos_pool_disconnect(other, NULL));
	OK(daos_fini());
}

static void
arrays_travel(void)
{
	d_iov_t       glob = {.iov_buf = buf, .iov_buf_len = sizeof(buf)};
	daos_obj_id_t oid = {.lo = 4}, own = {.lo = 5};
	daos_handle_t ah, other;
	daos_size_t   cell = 0, chunk = 0;

	open_all();
	OK(daos_array_generate_oid(coh, &oid, false, OC_S1, 0, 0));
	OK(daos_array_open_with_attr(coh, oid, DAOS_TX_NONE, DAOS_OO_RW, 8, 32, &ah, NULL));
	glob.iov_buf_len = 8;
	GIVES(daos_array_local2global(ah, &glob), -DER_TRUNC);
	CHECK(glob.iov_buf_len > 8);
	OK(daos_array_local2global(ah, &glob));
	OK(daos_array_global2local(coh, glob, 0, &other));
	OK(daos_array_get_attr(other, &chunk, &cell));
	CHECK(cell == 8 && chunk == 32);
	OK(daos_array_close(other, NULL));
	OK(daos_array_close(ah, NULL));
	OK(daos_array_generate_oid(coh, &own, true, OC_S1, 0, 0));
	OK(daos_array_create(coh, own, DAOS_TX_NONE, 4, 16, &ah, NULL));
	glob.iov_buf_len = sizeof(buf);
	OK(daos_array_local2global(ah, &glob));
	OK(daos_array_global2local(coh, glob, DAOS_OO_RO, &other));
	OK(daos_array_get_attr(other, &chunk, &cell));
	CHECK(cell == 4 && chunk == 16);
	OK(daos_array_close(other, NULL));
	OK(daos_array_close(ah, NULL));
	GIVES(daos_array_global2local(poh, glob, 0, &other), -DER_NO_HDL);
	GIVES(daos_array_local2global(coh, &glob), -DER_NO_HDL);
	close_all();
}

TESTS(TEST(pools_and_containers_travel), TEST(a_pool_that_is_had_alone_is_shared_by_its_bytes), TEST(arrays_travel))
