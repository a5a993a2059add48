/* The hash table of libgurt. */
#define _GNU_SOURCE
#include "harness.h"
#include <pthread.h>
#include <gurt/common.h>
#include <gurt/hash.h>

struct record {
	d_list_t link;
	int      refs;
	char     key[16];
};

static int freed;

static struct record *
record_of(d_list_t *link)
{
	return container_of(link, struct record, link);
}

static bool
key_cmp(struct d_hash_table *table, d_list_t *link, const void *key, unsigned int len)
{
	CHECK(table->ht_priv == &freed);
	return strlen(record_of(link)->key) == len && memcmp(record_of(link)->key, key, len) == 0;
}

static void
key_init(struct d_hash_table *table, d_list_t *link, void *arg)
{
	(void)table;
	strcpy(record_of(link)->key, arg);
}

static uint32_t
rec_hash(struct d_hash_table *table, d_list_t *link)
{
	(void)table;
	return d_hash_string_u32(record_of(link)->key, strlen(record_of(link)->key));
}

static void
addref(struct d_hash_table *table, d_list_t *link)
{
	(void)table;
	record_of(link)->refs++;
}

static bool
decref(struct d_hash_table *table, d_list_t *link)
{
	(void)table;
	CHECK(record_of(link)->refs > 0);
	return --record_of(link)->refs == 0;
}

static void
rec_free(struct d_hash_table *table, d_list_t *link)
{
	(void)table;
	CHECK(d_hash_rec_unlinked(link));
	free(record_of(link));
	freed++;
}

static d_hash_table_ops_t ops = {
    .hop_key_cmp = key_cmp, .hop_key_init = key_init, .hop_rec_hash = rec_hash, .hop_rec_addref = addref,
    .hop_rec_decref = decref, .hop_rec_free = rec_free,
};

static struct record *
record(const char *key, int refs)
{
	struct record *made = calloc(1, sizeof(*made));

	D_INIT_LIST_HEAD(&made->link);
	strcpy(made->key, key);
	made->refs = refs;
	return made;
}

static int
count_one(d_list_t *link, void *arg)
{
	(void)link;
	return ++*(int *)arg == 50 ? 9 : 0;
}

static void
records_are_found_and_freed(void)
{
	struct d_hash_table *table;
	struct record       *made;
	char                 key[16];
	int                  i, count = 0;

	OK(d_hash_table_create(0, 3, &freed, &ops, &table));
	CHECK(d_hash_table_is_empty(table));
	for (i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "key-%d", i);
		made = record(key, 0);
		OK(d_hash_rec_insert(table, key, strlen(key), &made->link, true));
		GIVES(made->refs, 1);
		CHECK(!d_hash_rec_unlinked(&made->link));
	}
	made = record("key-7", 0);
	GIVES(d_hash_rec_insert(table, "key-7", 5, &made->link, true), -DER_EXIST);
	CHECK(d_hash_rec_find_insert(table, "key-7", 5, &made->link) != &made->link);
	free(made);
	GIVES(d_hash_table_traverse(table, count_one, &count), 9);
	OK(d_hash_table_traverse(table, count_one, &count));
	GIVES(count, 150);
	made = record_of(d_hash_rec_find(table, "key-8", 5));
	GIVES(made->refs, 2);
	d_hash_rec_addref(table, &made->link);
	OK(d_hash_rec_ndecref(table, 2, &made->link));
	GIVES(made->refs, 1);
	CHECK(d_hash_rec_find(table, "none", 4) == NULL);
	CHECK(d_hash_rec_delete(table, "key-8", 5));
	GIVES(freed, 1);
	CHECK(!d_hash_rec_delete(table, "key-8", 5));
	made = record_of(d_hash_rec_find(table, "key-9", 5));
	CHECK(d_hash_rec_delete_at(table, &made->link));
	CHECK(!d_hash_rec_delete_at(table, &made->link));
	GIVES(freed, 1);
	d_hash_rec_decref(table, &made->link);
	GIVES(freed, 2);
	made = record("", 0);
	OK(d_hash_rec_insert_anonym(table, &made->link, "anonym"));
	d_hash_rec_decref(table, d_hash_rec_find(table, "anonym", 6));
	GIVES(made->refs, 1);
	GIVES(d_hash_table_destroy(table, false), -DER_BUSY);
	/* One more reference was taken to key-7. */
	made = record_of(d_hash_rec_find(table, "key-7", 5));
	GIVES(made->refs, 3);
	d_hash_rec_decref(table, &made->link);
	d_hash_rec_decref(table, &made->link);
	OK(d_hash_table_destroy(table, true));
	GIVES(freed, 101);
}

static void
ephemeral_records_leave_with_their_last_reference(void)
{
	struct d_hash_table *table;
	struct record       *a = record("a", 1), *b = record("b", 1);

	OK(d_hash_table_create(D_HASH_FT_EPHEMERAL | D_HASH_FT_NOLOCK | D_HASH_FT_LRU, 0, &freed, &ops, &table));
	OK(d_hash_rec_insert(table, "a", 1, &a->link, false));
	OK(d_hash_rec_insert(table, "b", 1, &b->link, false));
	GIVES(a->refs, 1);
	CHECK(d_hash_rec_first(table) == &b->link);
	d_hash_rec_decref(table, d_hash_rec_find(table, "a", 1));
	CHECK(d_hash_rec_first(table) == &a->link);
	CHECK(d_hash_rec_evict(table, "a", 1));
	CHECK(d_hash_rec_first(table) == &b->link);
	CHECK(d_hash_rec_evict_at(table, &b->link));
	CHECK(d_hash_rec_first(table) == &a->link);
	d_hash_rec_decref(table, &a->link);
	GIVES(freed, 1);
	d_hash_rec_decref(table, &b->link);
	GIVES(freed, 2);
	CHECK(d_hash_rec_first(table) == NULL);
	OK(d_hash_table_destroy(table, false));
}

static void
tables_can_be_members(void)
{
	struct d_hash_table table;
	struct record      *made = record("a", 0);

	GIVES(d_hash_table_create_inplace(0, 99, &freed, &ops, &table), -DER_INVAL);
	GIVES(d_hash_table_create_inplace(0, 2, &freed, NULL, &table), -DER_INVAL);
	OK(d_hash_table_create_inplace(D_HASH_FT_RWLOCK, 2, &freed, &ops, &table));
	OK(d_hash_rec_insert(&table, "a", 1, &made->link, true));
	GIVES(d_hash_table_destroy_inplace(&table, false), -DER_BUSY);
	OK(d_hash_table_destroy_inplace(&table, true));
	GIVES(freed, 1);
	GIVES(d_hash_table_destroy_inplace(&table, true), -DER_UNINIT);
	CHECK(d_hash_rec_find(NULL, "a", 1) == NULL);
	GIVES(d_hash_table_create(0, 2, NULL, &ops, NULL), -DER_INVAL);
}

static void *
work(void *arg)
{
	struct d_hash_table *table = arg;
	char                 key[16];
	int                  i;

	for (i = 0; i < 2000; i++) {
		struct record *made;

		snprintf(key, sizeof(key), "key-%d", i % 50);
		made = record(key, 0);
		if (d_hash_rec_insert(table, key, strlen(key), &made->link, true) != 0)
			free(made);
		d_hash_rec_delete(table, key, strlen(key));
	}
	return NULL;
}

static void
threads_share_a_table(void)
{
	struct d_hash_table *table;
	pthread_t            threads[4];
	int                  i;

	OK(d_hash_table_create(0, 4, &freed, &ops, &table));
	for (i = 0; i < 4; i++)
		OK(pthread_create(&threads[i], NULL, work, table));
	for (i = 0; i < 4; i++)
		OK(pthread_join(threads[i], NULL));
	OK(d_hash_table_destroy(table, true));
}

static void
hashes_are_numbers_of_their_keys(void)
{
	GIVES(d_hash_string_u32("a", 1), d_hash_string_u32("ab", 1));
	CHECK(d_hash_string_u32("a", 1) != d_hash_string_u32("b", 1));
	CHECK(d_hash_murmur64((const unsigned char *)"stone", 5, 1) !=
	      d_hash_murmur64((const unsigned char *)"stone", 5, 2));
	CHECK(d_hash_murmur64((const unsigned char *)"stone", 5, 1) != 0);
	CHECK(d_hash_mix64(1) != d_hash_mix64(2) && d_hash_mix64(1) != 0);
}

TESTS(TEST(records_are_found_and_freed), TEST(ephemeral_records_leave_with_their_last_reference),
      TEST(tables_can_be_members), TEST(threads_share_a_table), TEST(hashes_are_numbers_of_their_keys))
