/* From daos_init to daos_fini. */
#include "harness.h"

static void
init_is_counted(void)
{
	GIVES(daos_fini(), -DER_UNINIT);
	OK(daos_init());
	OK(daos_init());
	OK(daos_fini());
	OK(daos_fini());
	GIVES(daos_fini(), -DER_UNINIT);
}

static void
nothing_works_before_init(void)
{
	daos_event_t ev;

	GIVES(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL), -DER_UNINIT);
	GIVES(daos_reinit(), -DER_UNINIT);
	GIVES(daos_event_init(&ev, DAOS_HDL_INVAL, NULL), -DER_UNINIT);
}

static void
pool_and_container_open_and_close(void)
{
	open_all();
	GIVES(daos_pool_disconnect(poh, NULL), -DER_BUSY);
	close_all();
}

static void
errors_have_names(void)
{
	CHECK(strcmp(d_errstr(-DER_NONEXIST), "DER_NONEXIST") == 0);
	CHECK(strcmp(d_errstr(0), "DER_SUCCESS") == 0);
	CHECK(strcmp(d_errstr(-7), "DER_UNKNOWN") == 0);
	CHECK(strlen(d_errdesc(-DER_NONEXIST)) > 5);
	CHECK(strcmp(d_errdesc(-DER_NONEXIST), d_errdesc(-DER_EXIST)) != 0);
}

TESTS(TEST(init_is_counted), TEST(nothing_works_before_init), TEST(pool_and_container_open_and_close),
      TEST(errors_have_names))
