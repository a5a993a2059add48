/* Pipelines: filters put together. */
#include "harness.h"

static d_iov_t
text(const char *word)
{
	d_iov_t iov;

	d_iov_set(&iov, (void *)word, strlen(word));
	return iov;
}

static daos_pipeline_t    pipeline;
static daos_filter_t      filter;
static daos_filter_part_t eq, akey, constant;
static d_iov_t            value;

static void
make(void)
{
	memset(&filter, 0xff, sizeof(filter));
	daos_pipeline_init(&pipeline);
	daos_filter_init(&filter);
	CHECK(pipeline.version == 1 && filter.num_parts == 0);
	filter.filter_type  = text("DAOS_FILTER_CONDITION");
	eq.part_type        = text("DAOS_FILTER_FUNC_EQ");
	eq.num_operands     = 2;
	akey.part_type      = text("DAOS_FILTER_AKEY");
	akey.akey           = text("colour");
	constant.part_type  = text("DAOS_FILTER_CONST");
	value               = text("green");
	constant.constant   = &value;
	constant.num_constants = 1;
	OK(daos_filter_add(&filter, &eq));
	OK(daos_filter_add(&filter, &akey));
	OK(daos_filter_add(&filter, &constant));
	OK(daos_pipeline_add(&pipeline, &filter));
}

static void
filters_are_put_together_and_checked(void)
{
	daos_filter_t      sum;
	daos_filter_part_t func = {.num_operands = 1};

	make();
	CHECK(filter.num_parts == 3 && filter.parts[1] == &akey && pipeline.num_filters == 1);
	OK(daos_pipeline_check(&pipeline));
	daos_filter_init(&sum);
	sum.filter_type = text("DAOS_FILTER_AGGREGATION");
	func.part_type  = text("DAOS_FILTER_FUNC_SUM");
	OK(daos_filter_add(&sum, &func));
	OK(daos_filter_add(&sum, &akey));
	OK(daos_pipeline_add(&pipeline, &sum));
	CHECK(pipeline.num_aggr_filters == 1);
	OK(daos_pipeline_check(&pipeline));
	OK(daos_pipeline_free(&pipeline));
	CHECK(pipeline.num_filters == 0 && filter.parts == NULL);
	GIVES(daos_pipeline_free(NULL), -DER_INVAL);
}

static void
what_is_none_is_refused(void)
{
	daos_filter_t other;

	make();
	eq.num_operands = 3;
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	eq.num_operands = 2;
	akey.part_type  = text("DAOS_FILTER_NOTHING");
	GIVES(daos_pipeline_check(&pipeline), -DER_NOSYS);
	akey.part_type = text("DAOS_FILTER_AKEY");
	constant.num_constants = 0;
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	constant.num_constants = 1;
	pipeline.version = 9;
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	pipeline.version = 1;
	GIVES(daos_filter_add(NULL, &eq), -DER_INVAL);
	GIVES(daos_filter_add(&filter, NULL), -DER_INVAL);
	daos_filter_init(&other);
	GIVES(daos_pipeline_add(&pipeline, &other), -DER_INVAL);
	OK(daos_pipeline_free(&pipeline));
}

static void
running_does_not_exist_yet(void)
{
	daos_handle_t oh;
	daos_obj_id_t oid = {.lo = 1};

	make();
	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_S1, 0, 0));
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &oh, NULL));
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_NOSYS);
	GIVES(daos_pipeline_run(coh, coh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_NO_HDL);
	OK(daos_obj_close(oh, NULL));
	OK(daos_pipeline_free(&pipeline));
	close_all();
}

TESTS(TEST(filters_are_put_together_and_checked), TEST(what_is_none_is_refused), TEST(running_does_not_exist_yet))
