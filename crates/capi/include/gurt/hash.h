/* Hash tables of records that belong to the program, and hash functions. */
#ifndef GURT_HASH_H
#define GURT_HASH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <gurt/common.h>
#include <gurt/list.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* A number of a string of so many bytes. */
uint32_t d_hash_string_u32(const char *string, unsigned int len);
uint64_t d_hash_murmur64(const unsigned char *key, int key_len, unsigned int seed);
uint64_t d_hash_mix64(uint64_t key);

struct d_hash_table;

/* What a program does with its records; hop_key_cmp is needed, the others may be NULL. */
typedef struct {
	/* Whether a record has a key. */
	bool (*hop_key_cmp)(struct d_hash_table *htable, d_list_t *link, const void *key,
			    unsigned int ksize);
	/* Gives a record a key, for d_hash_rec_insert_anonym. */
	void (*hop_key_init)(struct d_hash_table *htable, d_list_t *link, void *arg);
	/* The hash of a key; d_hash_string_u32 if NULL. */
	uint32_t (*hop_key_hash)(struct d_hash_table *htable, const void *key, unsigned int ksize);
	/* The hash of the key of a record. */
	uint32_t (*hop_rec_hash)(struct d_hash_table *htable, d_list_t *link);
	/* Takes a reference. */
	void (*hop_rec_addref)(struct d_hash_table *htable, d_list_t *link);
	/* Gives a reference back; true if it was the last. */
	bool (*hop_rec_decref)(struct d_hash_table *htable, d_list_t *link);
	/* Gives several back: 0, 1 if one was the last, or an error. */
	int (*hop_rec_ndecref)(struct d_hash_table *htable, d_list_t *link, int count);
	/* Frees a record to which there is no reference. */
	void (*hop_rec_free)(struct d_hash_table *htable, d_list_t *link);
} d_hash_table_ops_t;

enum d_hash_feats {
	/* The program sees to it that one thread at a time uses the table. */
	D_HASH_FT_NOLOCK    = (1 << 0),
	/* A hint that readers are many. */
	D_HASH_FT_RWLOCK    = (1 << 1),
	/* The table has no references: a record leaves it with the last one. */
	D_HASH_FT_EPHEMERAL = (1 << 2),
	/* What was found last is found first. */
	D_HASH_FT_LRU       = (1 << 3),
	/* A hint that hop_key_init needs no lock. */
	D_HASH_FT_NO_KEYINIT_LOCK = (1 << 4),
	/* One lock for the whole table. */
	D_HASH_FT_GLOCK     = (1 << 5),
};

union d_hash_lock {
	uint64_t space[7];
};

struct d_hash_bucket {
	d_list_t hb_head;
};

/* A table; a program reads ht_priv and ht_ops only. */
struct d_hash_table {
	union d_hash_lock     ht_lock;
	uint32_t              ht_bits;
	uint32_t              ht_feats;
	void                 *ht_priv;
	d_hash_table_ops_t   *ht_ops;
	struct d_hash_bucket *ht_buckets;
	union d_hash_lock    *ht_locks;
};

/* Makes a table of 2^bits chains. */
int d_hash_table_create(uint32_t feats, uint32_t bits, void *priv, d_hash_table_ops_t *hops,
			struct d_hash_table **htable_pp);
int d_hash_table_create_inplace(uint32_t feats, uint32_t bits, void *priv, d_hash_table_ops_t *hops,
				struct d_hash_table *htable);

/* Gives a table up: -DER_BUSY if it has records, unless force takes them out. */
int d_hash_table_destroy(struct d_hash_table *htable, bool force);
int d_hash_table_destroy_inplace(struct d_hash_table *htable, bool force);

typedef int (*d_hash_traverse_cb_t)(d_list_t *link, void *arg);

int d_hash_table_traverse(struct d_hash_table *htable, d_hash_traverse_cb_t cb, void *arg);
bool d_hash_table_is_empty(struct d_hash_table *htable);

/* The record of a key, with a reference. */
d_list_t *d_hash_rec_find(struct d_hash_table *htable, const void *key, unsigned int ksize);
int d_hash_rec_insert(struct d_hash_table *htable, const void *key, unsigned int ksize,
		      d_list_t *link, bool exclusive);
d_list_t *d_hash_rec_find_insert(struct d_hash_table *htable, const void *key, unsigned int ksize,
				 d_list_t *link);
int d_hash_rec_insert_anonym(struct d_hash_table *htable, d_list_t *link, void *arg);
bool d_hash_rec_delete(struct d_hash_table *htable, const void *key, unsigned int ksize);
bool d_hash_rec_delete_at(struct d_hash_table *htable, d_list_t *link);
bool d_hash_rec_evict(struct d_hash_table *htable, const void *key, unsigned int ksize);
bool d_hash_rec_evict_at(struct d_hash_table *htable, d_list_t *link);
void d_hash_rec_addref(struct d_hash_table *htable, d_list_t *link);
void d_hash_rec_decref(struct d_hash_table *htable, d_list_t *link);
int d_hash_rec_ndecref(struct d_hash_table *htable, int count, d_list_t *link);
bool d_hash_rec_unlinked(d_list_t *link);

/* Any record, without a reference. */
d_list_t *d_hash_rec_first(struct d_hash_table *htable);

#if defined(__cplusplus)
}
#endif

#endif /* GURT_HASH_H */
