/* Pipelines: filters put together, and run over what is stored. */
#include "harness.h"

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
	filter.filter_type  = text_iov("DAOS_FILTER_CONDITION");
	eq.part_type        = text_iov("DAOS_FILTER_FUNC_EQ");
	eq.num_operands     = 2;
	akey.part_type      = text_iov("DAOS_FILTER_AKEY");
	akey.data_type      = text_iov("DAOS_FILTER_TYPE_CSTRING");
	akey.akey           = text_iov("colour");
	constant.part_type  = text_iov("DAOS_FILTER_CONST");
	constant.data_type  = text_iov("DAOS_FILTER_TYPE_CSTRING");
	value               = text_iov("green");
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
	daos_filter_part_t func = {.num_operands = 1}, number;

	make();
	CHECK(filter.num_parts == 3 && filter.parts[1] == &akey && pipeline.num_filters == 1);
	OK(daos_pipeline_check(&pipeline));
	daos_filter_init(&sum);
	sum.filter_type = text_iov("DAOS_FILTER_AGGREGATION");
	func.part_type  = text_iov("DAOS_FILTER_FUNC_SUM");
	number          = akey;
	number.data_type = text_iov("DAOS_FILTER_TYPE_REAL8");
	OK(daos_filter_add(&sum, &func));
	OK(daos_filter_add(&sum, &number));
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
	akey.part_type  = text_iov("DAOS_FILTER_NOTHING");
	GIVES(daos_pipeline_check(&pipeline), -DER_NOSYS);
	akey.part_type = text_iov("DAOS_FILTER_AKEY");
	constant.num_constants = 0;
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	constant.num_constants = 2;
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	constant.num_constants = 1;
	/* Texts are compared with texts, types have names, and a condition is true or false. */
	constant.data_type = text_iov("DAOS_FILTER_TYPE_UINTEGER4");
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	constant.data_type = text_iov("DAOS_FILTER_TYPE_UINTEGER8");
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	constant.data_type = text_iov("DAOS_FILTER_TYPE_DATE");
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	constant.data_type = text_iov("DAOS_FILTER_TYPE_CSTRING");
	eq.part_type       = text_iov("DAOS_FILTER_FUNC_SUM");
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	eq.part_type    = text_iov("DAOS_FILTER_FUNC_AND");
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	eq.part_type    = text_iov("DAOS_FILTER_FUNC_EQ");
	filter.num_parts = 2;
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	filter.num_parts = 0;
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	filter.num_parts = 3;
	OK(daos_pipeline_check(&pipeline));
	pipeline.version = 9;
	GIVES(daos_pipeline_check(&pipeline), -DER_INVAL);
	pipeline.version = 1;
	GIVES(daos_filter_add(NULL, &eq), -DER_INVAL);
	GIVES(daos_filter_add(&filter, NULL), -DER_INVAL);
	daos_filter_init(&other);
	GIVES(daos_pipeline_add(&pipeline, &other), -DER_INVAL);
	OK(daos_pipeline_free(&pipeline));
}

/* A pipeline is copied: however often it names the same memory, the copy has an end. */
static void
constants_have_a_limit_in_all(void)
{
	enum { LONG = 1 << 20, MANY = 1 << 16, NODES = 48 };
	static daos_filter_part_t in, all[NODES];
	static d_iov_t            same[MANY];
	char                     *bytes = malloc(LONG);
	int                       i;

	make();
	OK(daos_pipeline_free(&pipeline));
	memset(bytes, 'x', LONG);
	daos_pipeline_init(&pipeline);
	daos_filter_init(&filter);
	filter.filter_type = text_iov("DAOS_FILTER_CONDITION");
	in.part_type       = text_iov("DAOS_FILTER_FUNC_IN");
	in.num_operands    = 2;
	for (i = 0; i < MANY; i++)
		d_iov_set(&same[i], bytes, LONG);
	constant.constant = same;
	OK(daos_filter_add(&filter, &in));
	OK(daos_filter_add(&filter, &akey));
	OK(daos_filter_add(&filter, &constant));
	OK(daos_pipeline_add(&pipeline, &filter));
	constant.num_constants = 63;
	OK(daos_pipeline_check(&pipeline));
	constant.num_constants = 64;
	GIVES(daos_pipeline_check(&pipeline), -DER_OVERFLOW);
	constant.num_constants = MANY;
	GIVES(daos_pipeline_check(&pipeline), -DER_OVERFLOW);
	/* Short ones count, too, for what each takes beside its bytes. */
	for (i = 0; i < MANY; i++)
		d_iov_set(&same[i], bytes, 1);
	OK(daos_pipeline_check(&pipeline));
	in.num_operands = NODES + 2;
	for (i = 0; i < NODES; i++) {
		all[i] = constant;
		OK(daos_filter_add(&filter, &all[i]));
	}
	GIVES(daos_pipeline_check(&pipeline), -DER_OVERFLOW);
	OK(daos_pipeline_free(&pipeline));
	free(bytes);
}


/* Twelve dkeys, "p00" to "p11", with an age, a name, a list of four shorts and a weight that every third lacks. */
#define PEOPLE 12

static daos_handle_t oh;
static const char   *names[PEOPLE] = {"ada", "bob", "cy", "dan", "eve", "fay", "gus", "hal", "ida", "jim", "kay", "lee"};

static void
put(daos_key_t *dkey, const char *akey, const void *data, size_t len)
{
	daos_iod_t  iod = {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1, .iod_size = len};
	d_iov_t     iov;
	d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

	iod.iod_name = text_iov(akey);
	d_iov_set(&iov, (void *)data, len);
	OK(daos_obj_update(oh, DAOS_TX_NONE, 0, dkey, 1, &iod, &sgl, NULL));
}

static void
people(void)
{
	daos_obj_id_t oid = {.lo = 1};
	int           i;

	open_all();
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_SX, 0, 0));
	OK(daos_obj_open(coh, oid, DAOS_OO_RW, &oh, NULL));
	for (i = 0; i < PEOPLE; i++) {
		char        key[8];
		uint64_t    age    = 20 + i;
		float       weight = 50.5f + i;
		int16_t     shorts[4] = {i, -i, 100, 7};
		daos_key_t  dkey;
		daos_recx_t recx = {.rx_idx = 10, .rx_nr = 4};
		daos_iod_t  list = {.iod_type = DAOS_IOD_ARRAY, .iod_nr = 1, .iod_size = 2, .iod_recxs = &recx};
		d_iov_t     iov;
		d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &iov};

		snprintf(key, sizeof(key), "p%02d", i);
		d_iov_set(&dkey, key, 3);
		put(&dkey, "age", &age, sizeof(age));
		put(&dkey, "name", names[i], strlen(names[i]) + 1);
		if (i % 3 != 0)
			put(&dkey, "weight", &weight, sizeof(weight));
		list.iod_name = text_iov("list");
		d_iov_set(&iov, shorts, sizeof(shorts));
		OK(daos_obj_update(oh, DAOS_TX_NONE, 0, &dkey, 1, &list, &sgl, NULL));
	}
}

static void
no_people(void)
{
	OK(daos_obj_close(oh, NULL));
	close_all();
}

/* Nodes that tests put filters together of; they live as long as the filters do. */
static daos_filter_part_t nodes[64];
static d_iov_t            values[64];
static daos_filter_t      filters[8];
static int                node_count, filter_count;

static void
begin_pipeline(void)
{
	node_count = filter_count = 0;
	daos_pipeline_init(&pipeline);
}

static daos_filter_t *
begin_filter(const char *type)
{
	daos_filter_t *one = &filters[filter_count++];

	daos_filter_init(one);
	one->filter_type = text_iov(type);
	return one;
}

static daos_filter_part_t *
add(daos_filter_t *to, const char *type, const char *data_type)
{
	daos_filter_part_t *one = &nodes[node_count++];

	memset(one, 0, sizeof(*one));
	one->part_type = text_iov(type);
	one->data_type = text_iov(data_type);
	OK(daos_filter_add(to, one));
	return one;
}

static void
func(daos_filter_t *to, const char *type, uint32_t operands)
{
	add(to, type, "")->num_operands = operands;
}

static daos_filter_part_t *
field(daos_filter_t *to, const char *name, const char *data_type)
{
	daos_filter_part_t *one = add(to, "DAOS_FILTER_AKEY", data_type);

	one->akey = text_iov(name);
	return one;
}

static void
fixed(daos_filter_t *to, const char *data_type, const void *data, size_t len)
{
	daos_filter_part_t *one = add(to, "DAOS_FILTER_CONST", data_type);
	d_iov_t            *at  = &values[node_count - 1];

	d_iov_set(at, (void *)data, len);
	one->constant      = at;
	one->num_constants = 1;
}

static const uint64_t n0 = 0, n1 = 1, n2 = 2, n23 = 23, n25 = 25, n28 = 28;
static const int16_t  short_minus_four = -4;

#define U8 "DAOS_FILTER_TYPE_UINTEGER8"
#define CS "DAOS_FILTER_TYPE_CSTRING"
#define BIN "DAOS_FILTER_TYPE_BINARY"
#define I2 "DAOS_FILTER_TYPE_INTEGER2"
#define R4 "DAOS_FILTER_TYPE_REAL4"

/* Whom the pipeline lets through, as a mask; looked for so many at a time. */
static unsigned
through(uint32_t at_a_time, uint64_t *scanned)
{
	daos_anchor_t         anchor = {0};
	daos_key_desc_t       kds[PEOPLE];
	char                  room[PEOPLE * 3];
	d_iov_t               iov;
	d_sg_list_t           sgl = {.sg_nr = 1, .sg_iovs = &iov};
	daos_pipeline_stats_t stats;
	unsigned              mask = 0;

	*scanned = 0;
	while (!daos_anchor_is_eof(&anchor)) {
		uint32_t nr = at_a_time, i;

		d_iov_set(&iov, room, sizeof(room));
		memset(&stats, 0xff, sizeof(stats));
		OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, &sgl, NULL,
				     NULL, NULL, &stats, NULL));
		CHECK(nr <= at_a_time && iov.iov_len == 3 * (size_t)nr && stats.nr_objs == 0 && stats.nr_akeys == 0);
		*scanned += stats.nr_dkeys;
		for (i = 0; i < nr; i++) {
			unsigned bit = 1u << (10 * (room[3 * i + 1] - '0') + (room[3 * i + 2] - '0'));

			CHECK(kds[i].kd_key_len == 3 && room[3 * i] == 'p' && !(mask & bit));
			mask |= bit;
		}
	}
	return mask;
}

#define LETS(mask)                                                                                                     \
	do {                                                                                                           \
		uint64_t scanned_;                                                                                     \
		OK(daos_pipeline_check(&pipeline));                                                                    \
		GIVES(through(PEOPLE, &scanned_), (mask));                                                             \
		GIVES(scanned_, PEOPLE);                                                                               \
		GIVES(through(1, &scanned_), (mask));                                                                  \
		GIVES(scanned_, PEOPLE);                                                                               \
		OK(daos_pipeline_free(&pipeline));                                                                     \
		begin_pipeline();                                                                                      \
	} while (0)

/* A condition of one comparison of the age. */
static void
aged(const char *function, const uint64_t *than)
{
	daos_filter_t *one = begin_filter("DAOS_FILTER_CONDITION");

	func(one, function, 2);
	field(one, "age", U8);
	fixed(one, U8, than, sizeof(*than));
	OK(daos_pipeline_add(&pipeline, one));
}

static void
dkeys_that_meet_conditions_come_back(void)
{
	daos_filter_t      *one;
	daos_filter_part_t *part;
	static const char   counted[] = "\3\0\0\0\0\0\0\0eve";

	people();
	begin_pipeline();
	LETS(0xfff);
	aged("DAOS_FILTER_FUNC_EQ", &n23);
	LETS(1u << 3);
	aged("DAOS_FILTER_FUNC_NE", &n23);
	LETS(0xfff & ~(1u << 3));
	aged("DAOS_FILTER_FUNC_LT", &n23);
	LETS(7);
	aged("DAOS_FILTER_FUNC_LE", &n23);
	LETS(15);
	aged("DAOS_FILTER_FUNC_GT", &n28);
	LETS(0xe00);
	/* One condition after the other: all of them hold. */
	aged("DAOS_FILTER_FUNC_GE", &n23);
	aged("DAOS_FILTER_FUNC_LT", &n25);
	LETS(3u << 3);
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_LIKE", 2);
	field(one, "name", CS);
	fixed(one, CS, "%a_", 4);
	OK(daos_pipeline_add(&pipeline, one));
	LETS((1u << 3) | (1u << 5) | (1u << 7) | (1u << 10));
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_IN", 3);
	field(one, "name", CS);
	fixed(one, CS, "bob", 4);
	fixed(one, "DAOS_FILTER_TYPE_STRING", counted, 11);
	OK(daos_pipeline_add(&pipeline, one));
	LETS((1u << 1) | (1u << 4));
	/* A list may be one node, too. */
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_IN", 2);
	field(one, "name", CS);
	fixed(one, CS, "gus", 4);
	d_iov_set(&values[node_count], "cy", 3);
	nodes[node_count++ - 1].num_constants = 2;
	OK(daos_pipeline_add(&pipeline, one));
	LETS((1u << 2) | (1u << 6));
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_ISNULL", 1);
	field(one, "weight", R4);
	OK(daos_pipeline_add(&pipeline, one));
	LETS(0x249);
	/* What is not there is not unequal to anything, either. */
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_OR", 2);
	func(one, "DAOS_FILTER_FUNC_NE", 2);
	field(one, "weight", R4);
	fixed(one, U8, &n0, 8);
	func(one, "DAOS_FILTER_FUNC_NOT", 1);
	func(one, "DAOS_FILTER_FUNC_ISNOTNULL", 1);
	field(one, "name", BIN);
	OK(daos_pipeline_add(&pipeline, one));
	LETS(0xfff & ~0x249);
	/* Parts of dkeys, and records of lists. */
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_AND", 2);
	func(one, "DAOS_FILTER_FUNC_EQ", 2);
	part              = add(one, "DAOS_FILTER_DKEY", BIN);
	part->data_offset = 1;
	part->data_len    = 1;
	fixed(one, BIN, "0", 1);
	func(one, "DAOS_FILTER_FUNC_LT", 2);
	part              = field(one, "list", I2);
	part->data_offset = 11;
	fixed(one, I2, &short_minus_four, 2);
	OK(daos_pipeline_add(&pipeline, one));
	LETS(0x3e0);
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_EQ", 2);
	part              = field(one, "list", BIN);
	part->data_offset = 12;
	fixed(one, BIN, "d\0\7\0", 4);
	OK(daos_pipeline_add(&pipeline, one));
	LETS(0xfff);
	no_people();
}

static void
conditions_calculate(void)
{
	daos_filter_t      *one;
	daos_filter_part_t *part;
	daos_anchor_t       anchor = {0};
	daos_key_desc_t     kds[2];
	uint32_t            nr = 2;
	char                room[8];
	daos_obj_id_t       oid = {.lo = 1};
	d_iov_t             iov;
	d_sg_list_t         sgl = {.sg_nr = 1, .sg_iovs = &iov};

	people();
	begin_pipeline();
	/* (age - 2) * 2 / 2 + 2 == 25 */
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_EQ", 2);
	func(one, "DAOS_FILTER_FUNC_ADD", 2);
	func(one, "DAOS_FILTER_FUNC_DIV", 2);
	func(one, "DAOS_FILTER_FUNC_MUL", 2);
	func(one, "DAOS_FILTER_FUNC_SUB", 2);
	field(one, "age", U8);
	fixed(one, U8, &n2, 8);
	fixed(one, U8, &n2, 8);
	fixed(one, U8, &n2, 8);
	fixed(one, U8, &n2, 8);
	fixed(one, U8, &n25, 8);
	OK(daos_pipeline_add(&pipeline, one));
	LETS(1u << 5);
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_EQ", 2);
	func(one, "DAOS_FILTER_FUNC_BITAND", 2);
	field(one, "age", U8);
	fixed(one, U8, &n1, 8);
	fixed(one, U8, &n1, 8);
	OK(daos_pipeline_add(&pipeline, one));
	LETS(0xaaa);
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_MULTI_HASHED, OC_SX, 0, 0));
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_EQ", 2);
	part           = add(one, "DAOS_FILTER_OID", BIN);
	part->data_len = 16;
	fixed(one, BIN, &oid, sizeof(oid));
	OK(daos_pipeline_add(&pipeline, one));
	LETS(0xfff);
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_EQ", 2);
	func(one, "DAOS_FILTER_FUNC_DIV", 2);
	field(one, "age", U8);
	fixed(one, U8, &n0, 8);
	fixed(one, U8, &n1, 8);
	OK(daos_pipeline_add(&pipeline, one));
	d_iov_set(&iov, room, sizeof(room));
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, &sgl, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_DIV_BY_ZERO);
	OK(daos_pipeline_free(&pipeline));
	no_people();
}

/* The iods of a name and two records of a list. */
static daos_recx_t part_of_list = {.rx_idx = 12, .rx_nr = 2};

static void
describe(daos_iod_t iods[2])
{
	memset(iods, 0, 2 * sizeof(*iods));
	iods[0].iod_name  = text_iov("name");
	iods[0].iod_type  = DAOS_IOD_SINGLE;
	iods[0].iod_nr    = 1;
	iods[1].iod_name  = text_iov("list");
	iods[1].iod_type  = DAOS_IOD_ARRAY;
	iods[1].iod_nr    = 1;
	iods[1].iod_recxs = &part_of_list;
}

static void
records_come_back_with_their_dkeys(void)
{
	daos_anchor_t   anchor = {0};
	daos_key_desc_t kds[PEOPLE];
	daos_iod_t      iods[2];
	daos_size_t     sizes[2 * PEOPLE];
	uint32_t        nr, nr_iods = 2, i, total = 0;
	char            keys[64], packed[20], own[4][8];
	d_iov_t         iov, one, each[4];
	d_sg_list_t     sgl = {.sg_nr = 1, .sg_iovs = &iov}, recs = {.sg_nr = 1, .sg_iovs = &one};

	people();
	describe(iods);
	begin_pipeline();
	aged("DAOS_FILTER_FUNC_GE", &n23);
	/* In one piece of memory records lie one behind the other; what does not fit comes next time. */
	while (!daos_anchor_is_eof(&anchor)) {
		char *at = packed;

		nr = PEOPLE;
		d_iov_set(&iov, keys, sizeof(keys));
		d_iov_set(&one, packed, sizeof(packed));
		OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, &nr_iods, iods, &anchor, &nr, kds, &sgl,
				     &recs, sizes, NULL, NULL, NULL));
		CHECK(nr <= 2 && nr_iods == 2);
		for (i = 0; i < nr; i++) {
			int number = 10 * (keys[3 * i + 1] - '0') + (keys[3 * i + 2] - '0');

			GIVES(sizes[2 * i], strlen(names[number]) + 1);
			CHECK(strcmp(at, names[number]) == 0);
			at += sizes[2 * i];
			GIVES(sizes[2 * i + 1], 4);
			CHECK(memcmp(at, "d\0\7\0", 4) == 0);
			at += 4;
		}
		CHECK(one.iov_len == (size_t)(at - packed));
		total += nr;
	}
	GIVES(total, 9);
	/* With as many pieces as records each has its own. */
	memset(&anchor, 0, sizeof(anchor));
	for (i = 0; i < 4; i++)
		d_iov_set(&each[i], own[i], sizeof(own[i]));
	recs = (d_sg_list_t){.sg_nr = 4, .sg_iovs = each};
	nr   = 2;
	d_iov_set(&iov, keys, sizeof(keys));
	OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, &nr_iods, iods, &anchor, &nr, kds, &sgl, &recs,
			     sizes, NULL, NULL, NULL));
	CHECK(nr == 2 && recs.sg_nr_out == 4 && each[3].iov_len == 4 && memcmp(own[3], "d\0\7\0", 4) == 0);
	CHECK(strcmp(own[2], names[10 * (keys[4] - '0') + (keys[5] - '0')]) == 0);
	/* Not one fits. */
	memset(&anchor, 0, sizeof(anchor));
	d_iov_set(&one, packed, 2);
	recs = (d_sg_list_t){.sg_nr = 1, .sg_iovs = &one};
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, &nr_iods, iods, &anchor, &nr, kds, &sgl, &recs,
				sizes, NULL, NULL, NULL),
	      -DER_REC2BIG);
	d_iov_set(&iov, keys, 2);
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, &sgl, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_KEY2BIG);
	GIVES(kds[0].kd_key_len, 3);
	OK(daos_pipeline_free(&pipeline));
	no_people();
}

static void
aggregation(const char *function, const char *name, const char *data_type)
{
	daos_filter_t *one = begin_filter("DAOS_FILTER_AGGREGATION");

	func(one, function, 1);
	field(one, name, data_type);
	OK(daos_pipeline_add(&pipeline, one));
}

static void
values_are_aggregated(void)
{
	daos_anchor_t         anchor = {0};
	daos_key_desc_t       kds[PEOPLE];
	daos_pipeline_stats_t stats;
	uint32_t              nr = PEOPLE, i;
	double                found[5];
	char                  keys[64];
	d_iov_t               iov, each[5];
	d_sg_list_t           sgl = {.sg_nr = 1, .sg_iovs = &iov}, agg = {.sg_nr = 5, .sg_iovs = each};

	people();
	begin_pipeline();
	aged("DAOS_FILTER_FUNC_GE", &n23);
	aggregation("DAOS_FILTER_FUNC_SUM", "age", U8);
	aggregation("DAOS_FILTER_FUNC_MIN", "weight", R4);
	aggregation("DAOS_FILTER_FUNC_MAX", "age", U8);
	aggregation("DAOS_FILTER_FUNC_AVG", "weight", R4);
	aggregation("DAOS_FILTER_FUNC_COUNT", "weight", R4);
	for (i = 0; i < 5; i++)
		d_iov_set(&each[i], &found[i], sizeof(found[i]));
	d_iov_set(&iov, keys, sizeof(keys));
	OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, &sgl, NULL, NULL,
			     &agg, &stats, NULL));
	CHECK(nr == 1 && keys[0] == 'p' && stats.nr_dkeys == PEOPLE && daos_anchor_is_eof(&anchor));
	/* 23 to 31; 54.5, 55.5, 57.5, 58.5, 60.5 and 61.5. */
	CHECK(found[0] == 243 && found[1] == 54.5 && found[2] == 31 && found[3] == 58 && found[4] == 6);
	CHECK(each[4].iov_len == 8 && agg.sg_nr_out == 5);
	/* Nobody has to take the key. */
	memset(&anchor, 0, sizeof(anchor));
	OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, NULL, NULL, NULL, NULL, NULL,
			     &agg, NULL, NULL));
	CHECK(found[0] == 243);
	/* A place for each, and room in it. */
	agg.sg_nr = 4;
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, NULL, NULL, NULL, NULL,
				NULL, &agg, NULL, NULL),
	      -DER_INVAL);
	agg.sg_nr           = 5;
	each[2].iov_buf_len = 4;
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, NULL, NULL, NULL, NULL,
				NULL, &agg, NULL, NULL),
	      -DER_INVAL);
	OK(daos_pipeline_free(&pipeline));
	no_people();
}

static void
akeys_of_one_dkey_are_filtered(void)
{
	daos_iod_t            iods[3] = {0};
	daos_key_t            dkey;
	daos_pipeline_stats_t stats;
	daos_filter_t        *one;
	daos_size_t           sizes[3];
	uint32_t              nr = 0, nr_iods = 3;
	char                  packed[32];
	double                sum;
	d_iov_t               recs_iov, sum_iov;
	d_sg_list_t           recs = {.sg_nr = 1, .sg_iovs = &recs_iov}, agg = {.sg_nr = 1, .sg_iovs = &sum_iov};

	people();
	d_iov_set(&dkey, "p04", 3);
	d_iov_set(&recs_iov, packed, sizeof(packed));
	describe(iods);
	iods[2]          = iods[0];
	iods[2].iod_name = text_iov("nothing");
	/* Conditions of the dkey: all akeys that are there come back, or none. */
	begin_pipeline();
	aged("DAOS_FILTER_FUNC_LT", &n25);
	OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, &dkey, &nr_iods, iods, NULL, &nr, NULL, NULL, &recs,
			     sizes, NULL, &stats, NULL));
	CHECK(nr == 1 && nr_iods == 2 && stats.nr_akeys == 2 && stats.nr_dkeys == 0);
	CHECK(sizes[0] == 4 && sizes[1] == 4 && memcmp(packed, "eve\0d\0\7\0", 8) == 0 && recs_iov.iov_len == 8);
	CHECK(iods[0].iod_size == 4 && iods[1].iod_size == 2);
	d_iov_set(&dkey, "p05", 3);
	OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, &dkey, &nr_iods, iods, NULL, &nr, NULL, NULL, &recs,
			     sizes, NULL, &stats, NULL));
	CHECK(nr == 0 && nr_iods == 0 && recs_iov.iov_len == 0);
	OK(daos_pipeline_free(&pipeline));
	/* A node without a name is the akey that is looked at. */
	begin_pipeline();
	one = begin_filter("DAOS_FILTER_CONDITION");
	func(one, "DAOS_FILTER_FUNC_LIKE", 2);
	field(one, "", CS);
	fixed(one, CS, "f%", 3);
	OK(daos_pipeline_add(&pipeline, one));
	describe(iods);
	nr_iods = 2;
	OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, &dkey, &nr_iods, iods, NULL, &nr, NULL, NULL, &recs,
			     sizes, NULL, &stats, NULL));
	CHECK(nr == 1 && nr_iods == 1 && stats.nr_akeys == 2 && strcmp(packed, "fay") == 0);
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, &dkey, NULL, NULL, NULL, &nr, NULL, NULL, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_INVAL);
	OK(daos_pipeline_free(&pipeline));
	/* What is missing is nothing, or not well, as the flags say. */
	begin_pipeline();
	aggregation("DAOS_FILTER_FUNC_SUM", "age", U8);
	d_iov_set(&sum_iov, &sum, sizeof(sum));
	describe(iods);
	iods[1].iod_name = text_iov("nothing");
	nr_iods          = 2;
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, DAOS_COND_AKEY_FETCH, &dkey, &nr_iods, iods, NULL, &nr,
				NULL, NULL, NULL, NULL, &agg, NULL, NULL),
	      -DER_NONEXIST);
	OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, &dkey, &nr_iods, iods, NULL, &nr, NULL, NULL, NULL, NULL,
			     &agg, NULL, NULL));
	CHECK(sum == 25 && nr_iods == 1);
	OK(daos_pipeline_free(&pipeline));
	no_people();
}

static void
runs_end_when_somebody_polls(void)
{
	daos_handle_t   eq, th;
	daos_event_t    ev, *done;
	daos_anchor_t   anchor = {0};
	uint32_t        nr = 0;
	double          sum = 0;
	uint64_t        old = 1000;
	daos_key_t      dkey;
	d_iov_t         iov;
	d_sg_list_t     agg = {.sg_nr = 1, .sg_iovs = &iov};

	people();
	begin_pipeline();
	aggregation("DAOS_FILTER_FUNC_MAX", "age", U8);
	d_iov_set(&iov, &sum, sizeof(sum));
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&ev, eq, NULL));
	OK(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, NULL, NULL, NULL, NULL,
			     &agg, NULL, &ev));
	/* The pipeline may go once it is launched. */
	OK(daos_pipeline_free(&pipeline));
	GIVES(daos_eq_query(eq, DAOS_EQR_WAITING, 0, NULL), 1);
	CHECK(sum == 0 && !daos_anchor_is_eof(&anchor));
	GIVES(daos_eq_destroy(eq, 0), -DER_BUSY);
	GIVES(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done), 1);
	CHECK(done == &ev && ev.ev_error == 0 && sum == 31 && daos_anchor_is_eof(&anchor));
	/* In a transaction its writes are seen. */
	begin_pipeline();
	aggregation("DAOS_FILTER_FUNC_MAX", "age", U8);
	OK(daos_tx_open(coh, &th, 0, NULL));
	d_iov_set(&dkey, "p99", 3);
	{
		daos_iod_t  iod = {.iod_type = DAOS_IOD_SINGLE, .iod_nr = 1, .iod_size = 8};
		d_iov_t     own;
		d_sg_list_t sgl = {.sg_nr = 1, .sg_iovs = &own};

		iod.iod_name = text_iov("age");
		d_iov_set(&own, &old, sizeof(old));
		OK(daos_obj_update(oh, th, 0, &dkey, 1, &iod, &sgl, NULL));
	}
	memset(&anchor, 0, sizeof(anchor));
	OK(daos_pipeline_run(coh, oh, &pipeline, th, 0, NULL, NULL, NULL, &anchor, &nr, NULL, NULL, NULL, NULL, &agg, NULL,
			     NULL));
	CHECK(sum == 1000);
	OK(daos_tx_abort(th, NULL));
	OK(daos_tx_close(th, NULL));
	OK(daos_pipeline_free(&pipeline));
	OK(daos_event_fini(&ev));
	OK(daos_eq_destroy(eq, 0));
	no_people();
}

static void
wrong_runs_are_refused(void)
{
	daos_anchor_t   anchor = {0};
	daos_key_desc_t kds[2];
	daos_iod_t      iods[2];
	uint32_t        nr = 2, nr_iods = 2;
	char            room[16];
	d_iov_t         iov;
	d_sg_list_t     sgl = {.sg_nr = 1, .sg_iovs = &iov};

	make();
	people();
	d_iov_set(&iov, room, sizeof(room));
	describe(iods);
	GIVES(daos_pipeline_run(coh, DAOS_HDL_INVAL, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, &sgl,
				NULL, NULL, NULL, NULL, NULL),
	      -DER_NOSYS);
	GIVES(daos_pipeline_run(coh, coh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, &sgl, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_NO_HDL);
	GIVES(daos_pipeline_run(coh, oh, NULL, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, &sgl, NULL, NULL, NULL,
				NULL, NULL),
	      -DER_INVAL);
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, DAOS_COND_PUNCH, NULL, NULL, NULL, &anchor, &nr, kds,
				&sgl, NULL, NULL, NULL, NULL, NULL),
	      -DER_INVAL);
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, NULL, &nr, kds, &sgl, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_INVAL);
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, NULL, kds, &sgl, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_INVAL);
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, NULL, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_INVAL);
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, &nr_iods, NULL, &anchor, &nr, kds, &sgl, NULL,
				NULL, NULL, NULL, NULL),
	      -DER_INVAL);
	iods[1].iod_type = DAOS_IOD_NONE;
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, &nr_iods, iods, &anchor, &nr, kds, &sgl, NULL,
				NULL, NULL, NULL, NULL),
	      -DER_INVAL);
	eq.part_type = text_iov("DAOS_FILTER_FUNC_ROT13");
	GIVES(daos_pipeline_run(coh, oh, &pipeline, DAOS_TX_NONE, 0, NULL, NULL, NULL, &anchor, &nr, kds, &sgl, NULL, NULL,
				NULL, NULL, NULL),
	      -DER_NOSYS);
	OK(daos_pipeline_free(&pipeline));
	no_people();
}

TESTS(TEST(filters_are_put_together_and_checked), TEST(what_is_none_is_refused),
      TEST(constants_have_a_limit_in_all), TEST(dkeys_that_meet_conditions_come_back), TEST(conditions_calculate),
      TEST(records_come_back_with_their_dkeys), TEST(values_are_aggregated), TEST(akeys_of_one_dkey_are_filtered), TEST(runs_end_when_somebody_polls),
      TEST(wrong_runs_are_refused))
