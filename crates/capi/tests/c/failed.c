/* What functions without error numbers say when they cannot. */
#define _GNU_SOURCE
#include <stdint.h>
#include "harness.h"
#include <gurt/common.h>
#include <gurt/hash.h>

static void
memory_that_nobody_has_is_not_given(void)
{
	char       *text = d_malloc(4);
	const char *nothing = NULL;
	size_t      all = SIZE_MAX;
	int         rc  = 0;

	CHECK(text != NULL);
	FAILS(d_calloc(all, 2), NULL);
	FAILS(d_malloc(all), NULL);
	FAILS(d_realloc(text, all), NULL);
	FAILS(d_strndup(NULL, 3), NULL);
	FAILS(d_asprintf2(&rc, nothing), NULL);
	GIVES(rc, -1);
	/* What had no room is as it was. */
	text[3] = 1;
	d_free(text);
}

static bool
never(struct d_hash_table *table, d_list_t *link, const void *key, unsigned int len)
{
	(void)table, (void)link, (void)key, (void)len;
	return false;
}

static int
six(d_list_t *link, void *arg)
{
	(void)link, (void)arg;
	return 6;
}

static void
tables_without_the_record_say_so(void)
{
	d_hash_table_ops_t   ops = {.hop_key_cmp = never};
	struct d_hash_table *table;
	d_list_t             link = D_LIST_HEAD_INIT(link), alone = D_LIST_HEAD_INIT(alone);

	OK(d_hash_table_create(0, 2, NULL, &ops, &table));
	FAILS(d_hash_rec_find(table, "k", 1), NULL);
	FAILS(d_hash_rec_find_insert(NULL, "k", 1, &link), NULL);
	FAILS(d_hash_rec_first(table), NULL);
	FAILS(d_hash_rec_delete(table, "k", 1), false);
	FAILS(d_hash_rec_delete_at(table, &alone), false);
	FAILS(d_hash_rec_evict(table, "k", 1), false);
	FAILS(d_hash_rec_evict_at(NULL, &alone), false);
	FAILS(d_hash_rec_unlinked(NULL), true);
	FAILS(d_hash_table_is_empty(NULL), true);
	GIVES(d_hash_rec_insert_anonym(table, &link, NULL), -DER_INVAL);
	GIVES(d_hash_rec_insert(table, NULL, 0, &link, true), -DER_INVAL);
	GIVES(d_hash_rec_ndecref(NULL, 1, &link), -DER_INVAL);
	GIVES(d_hash_table_traverse(table, NULL, NULL), -DER_INVAL);
	OK(d_hash_table_traverse(table, six, NULL));
	OK(d_hash_rec_insert(table, "k", 1, &link, true));
	GIVES(d_hash_table_traverse(table, six, NULL), 6);
	OK(d_hash_table_destroy(table, true));
}

static void
lists_of_access_that_are_none_are_not_made(void)
{
	struct daos_ace *none[1] = {NULL};

	FAILS(daos_ace_create(DAOS_ACL_USER, NULL), NULL);
	FAILS(daos_ace_create(DAOS_ACL_GROUP, "no-at"), NULL);
	FAILS(daos_ace_get_principal_str(NULL), NULL);
	FAILS(daos_ace_is_valid(NULL), false);
	FAILS(daos_acl_create(none, 1), NULL);
	FAILS(daos_acl_dup(NULL), NULL);
	FAILS(daos_acl_get_next_ace(NULL, NULL), NULL);
	FAILS(daos_acl_principal_is_valid("ann"), false);
}

static void
names_and_properties_that_are_none_have_no_value(void)
{
	char         name[64], text[4];
	daos_prop_t *prop = daos_prop_alloc(1);

	FAILS(daos_oclass_id2name(0xffffffff, name), -1);
	FAILS(daos_oclass_name2id("S3"), OC_UNKNOWN);
	FAILS((ssize_t)daos_oclass_names_list(sizeof(text), text), -1);
	FAILS(daos_prop_alloc(DAOS_PROP_ENTRIES_MAX_NR + 1), NULL);
	FAILS(daos_prop_entry_get(prop, DAOS_PROP_CO_LABEL), NULL);
	FAILS(daos_prop_has_ptr(NULL), false);
	FAILS(daos_prop_has_str(NULL), false);
	FAILS(daos_prop_merge(NULL, NULL), NULL);
	FAILS(daos_rank_list_parse("x", ","), NULL);
	daos_prop_free(prop);
}

TESTS(TEST(memory_that_nobody_has_is_not_given), TEST(tables_without_the_record_say_so),
      TEST(lists_of_access_that_are_none_are_not_made), TEST(names_and_properties_that_are_none_have_no_value))
