/* Objects: values under dkeys and akeys. */
#ifndef DAOS_OBJ_H
#define DAOS_OBJ_H

#include <daos_types.h>
#include <daos_obj_class.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Where type, class and number of groups stand in the upper half of an object id. */
#define OID_FMT_INTR_BITS   32
#define OID_FMT_TYPE_BITS   8
#define OID_FMT_CLASS_BITS  8
#define OID_FMT_META_BITS   16
#define OID_FMT_TYPE_SHIFT  (64 - OID_FMT_TYPE_BITS)
#define OID_FMT_CLASS_SHIFT (OID_FMT_TYPE_SHIFT - OID_FMT_CLASS_BITS)
#define OID_FMT_META_SHIFT  (OID_FMT_CLASS_SHIFT - OID_FMT_META_BITS)
#define OID_FMT_TYPE_MAX    ((1ULL << OID_FMT_TYPE_BITS) - 1)
#define OID_FMT_CLASS_MAX   ((1ULL << OID_FMT_CLASS_BITS) - 1)
#define OID_FMT_META_MAX    ((1ULL << OID_FMT_META_BITS) - 1)
#define OID_FMT_TYPE_MASK   (OID_FMT_TYPE_MAX << OID_FMT_TYPE_SHIFT)
#define OID_FMT_CLASS_MASK  (OID_FMT_CLASS_MAX << OID_FMT_CLASS_SHIFT)
#define OID_FMT_META_MASK   (OID_FMT_META_MAX << OID_FMT_META_SHIFT)

enum daos_otype_t {
	DAOS_OT_MULTI_HASHED = 0,
	DAOS_OT_OIT          = 1,
	DAOS_OT_DKEY_UINT64  = 2,
	DAOS_OT_AKEY_UINT64  = 3,
	DAOS_OT_MULTI_UINT64 = 4,
	DAOS_OT_DKEY_LEXICAL = 5,
	DAOS_OT_AKEY_LEXICAL = 6,
	DAOS_OT_MULTI_LEXICAL = 7,
	DAOS_OT_KV_HASHED    = 8,
	DAOS_OT_KV_UINT64    = 9,
	DAOS_OT_KV_LEXICAL   = 10,
	DAOS_OT_ARRAY        = 11,
	DAOS_OT_ARRAY_ATTR   = 12,
	DAOS_OT_ARRAY_BYTE   = 13,
	DAOS_OT_OIT_V2       = 14,
	DAOS_OT_MAX          = DAOS_OT_OIT_V2,
};

#if !defined(__cplusplus)
typedef enum daos_otype_t daos_otype_t;
#endif

#if defined(__cplusplus)
#define DAOS_OBJ_NIL (daos_obj_id_t{})
#else
#define DAOS_OBJ_NIL ((daos_obj_id_t){0})
#endif

/* How an object is opened. */
#define DAOS_OO_RO      (1 << 1)
#define DAOS_OO_RW      (1 << 2)
#define DAOS_OO_EXCL    (1 << 3)
#define DAOS_OO_IO_RAND (1 << 4)
#define DAOS_OO_IO_SEQ  (1 << 5)

/* Conditions of an operation; what must exist or must not. */
#define DAOS_COND_PUNCH       (1ULL << 0)
#define DAOS_COND_DKEY_INSERT (1ULL << 1)
#define DAOS_COND_DKEY_UPDATE (1ULL << 2)
#define DAOS_COND_DKEY_FETCH  (1ULL << 3)
#define DAOS_COND_AKEY_INSERT (1ULL << 4)
#define DAOS_COND_AKEY_UPDATE (1ULL << 5)
#define DAOS_COND_AKEY_FETCH  (1ULL << 6)
#define DAOS_COND_PER_AKEY    (1ULL << 7)
#define DAOS_COND_MASK        ((1ULL << 8) - 1)

/* The record size of a fetch that does not know it. */
#define DAOS_REC_ANY 0

typedef enum {
	DAOS_IOD_NONE   = 0,
	DAOS_IOD_SINGLE = 1,
	DAOS_IOD_ARRAY  = 2,
} daos_iod_type_t;

/* An extent of an array value, in records. */
typedef struct {
	uint64_t rx_idx;
	uint64_t rx_nr;
} daos_recx_t;

/* What is written or read of one akey. */
typedef struct {
	daos_key_t      iod_name;
	daos_iod_type_t iod_type;
	daos_size_t     iod_size;
	uint64_t        iod_flags;
	uint32_t        iod_nr;
	daos_recx_t    *iod_recxs;
} daos_iod_t;

#define DAOS_IOMF_DETAIL 1

/* Which extents a fetch found. */
typedef struct {
	daos_iod_type_t iom_type;
	uint32_t        iom_nr;
	uint32_t        iom_nr_out;
	uint32_t        iom_flags;
	daos_size_t     iom_size;
	daos_recx_t     iom_recx_lo;
	daos_recx_t     iom_recx_hi;
	daos_recx_t    *iom_recxs;
} daos_iom_t;

/* A key of a listing: its bytes follow those of the one before. */
typedef struct {
	daos_size_t kd_key_len;
	uint32_t    kd_val_type;
} daos_key_desc_t;

struct daos_oclass_attr;

struct daos_obj_attr {
	d_rank_t                 oa_rank;
	struct daos_oclass_attr *oa_oa;
};

/* What a key query asks for. */
#define DAOS_GET_MAX  (1ULL << 0)
#define DAOS_GET_MIN  (1ULL << 1)
#define DAOS_GET_DKEY (1ULL << 2)
#define DAOS_GET_AKEY (1ULL << 3)
#define DAOS_GET_RECX (1ULL << 4)

/* A mark in an object id table has at most so many bytes. */
#define DAOS_OIT_MARKER_MAX_LEN 32

static inline bool
daos_otype_t_is_valid(enum daos_otype_t type)
{
	return (unsigned int)type <= (unsigned int)DAOS_OT_MAX;
}

static inline bool
daos_pa_domain_is_valid(uint32_t pda)
{
	return pda > 0;
}

static inline enum daos_otype_t
daos_obj_id2type(daos_obj_id_t oid)
{
	return (enum daos_otype_t)((oid.hi & OID_FMT_TYPE_MASK) >> OID_FMT_TYPE_SHIFT);
}

static inline uint32_t
daos_obj_id2ord(daos_obj_id_t oid)
{
	return (uint32_t)((oid.hi & OID_FMT_CLASS_MASK) >> OID_FMT_CLASS_SHIFT);
}

static inline uint32_t
daos_obj_id2grp_nr(daos_obj_id_t oid)
{
	return (uint32_t)((oid.hi & OID_FMT_META_MASK) >> OID_FMT_META_SHIFT);
}

static inline daos_oclass_id_t
daos_obj_id2class(daos_obj_id_t oid)
{
	return (daos_obj_id2ord(oid) << OC_REDUN_SHIFT) | daos_obj_id2grp_nr(oid);
}

static inline bool
daos_obj_id_is_nil(daos_obj_id_t oid)
{
	return oid.hi == 0 && oid.lo == 0;
}

static inline bool
daos_is_dkey_lexical_type(enum daos_otype_t type)
{
	return type == DAOS_OT_DKEY_LEXICAL || type == DAOS_OT_MULTI_LEXICAL || type == DAOS_OT_KV_LEXICAL;
}

static inline bool
daos_is_dkey_lexical(daos_obj_id_t oid)
{
	return daos_is_dkey_lexical_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_akey_lexical_type(enum daos_otype_t type)
{
	return type == DAOS_OT_AKEY_LEXICAL || type == DAOS_OT_MULTI_LEXICAL;
}

static inline bool
daos_is_akey_lexical(daos_obj_id_t oid)
{
	return daos_is_akey_lexical_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_array_type(enum daos_otype_t type)
{
	return type == DAOS_OT_ARRAY || type == DAOS_OT_ARRAY_ATTR || type == DAOS_OT_ARRAY_BYTE;
}

static inline bool
daos_is_array(daos_obj_id_t oid)
{
	return daos_is_array_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_kv_type(enum daos_otype_t type)
{
	return type == DAOS_OT_KV_HASHED || type == DAOS_OT_KV_UINT64 || type == DAOS_OT_KV_LEXICAL;
}

static inline bool
daos_is_kv(daos_obj_id_t oid)
{
	return daos_is_kv_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_dkey_uint64_type(enum daos_otype_t type)
{
	return type == DAOS_OT_DKEY_UINT64 || type == DAOS_OT_MULTI_UINT64 || type == DAOS_OT_KV_UINT64 ||
	       daos_is_array_type(type);
}

static inline bool
daos_is_dkey_uint64(daos_obj_id_t oid)
{
	return daos_is_dkey_uint64_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_akey_uint64_type(enum daos_otype_t type)
{
	return type == DAOS_OT_AKEY_UINT64 || type == DAOS_OT_MULTI_UINT64;
}

static inline bool
daos_is_akey_uint64(daos_obj_id_t oid)
{
	return daos_is_akey_uint64_type(daos_obj_id2type(oid));
}

/* The next of many object ids that differ in their upper half and lie far apart. */
static inline void
daos_obj_oid_cycle(daos_obj_id_t *oid)
{
	uint32_t user = (uint32_t)oid->hi + 999999937u;

	oid->hi = (oid->hi & ~(uint64_t)UINT32_MAX) | user;
}

/* Stamps type and class (0: chosen by type, hints and the container) into an id of the caller's 96 bits. */
#define daos_obj_generate_oid daos_obj_generate_oid2
int daos_obj_generate_oid(daos_handle_t coh, daos_obj_id_t *oid, enum daos_otype_t type,
			  daos_oclass_id_t cid, daos_oclass_hints_t hints, uint32_t args);

/* A handle on an object; nothing is asked. daos_obj_close also takes handles of arrays and key-value stores. */
int daos_obj_open(daos_handle_t coh, daos_obj_id_t oid, unsigned int mode, daos_handle_t *oh, daos_event_t *ev);
int daos_obj_close(daos_handle_t oh, daos_event_t *ev);

int daos_obj_punch(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_event_t *ev);
int daos_obj_punch_dkeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, unsigned int nr,
			 daos_key_t *dkeys, daos_event_t *ev);
int daos_obj_punch_akeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t *dkey,
			 unsigned int nr, daos_key_t *akeys, daos_event_t *ev);

/* -DER_NOSYS, as in DAOS. */
int daos_obj_query(daos_handle_t oh, struct daos_obj_attr *oa, d_rank_list_t *ranks, daos_event_t *ev);

int daos_obj_query_max_epoch(daos_handle_t oh, daos_handle_t th, daos_epoch_t *epoch, daos_event_t *ev);

/* Reads values under one dkey. Without sgls only sizes are told; a missing value has size 0. */
int daos_obj_fetch(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t *dkey, unsigned int nr,
		   daos_iod_t *iods, d_sg_list_t *sgls, daos_iom_t *ioms, daos_event_t *ev);

/* Writes values under one dkey, atomically; a size of 0 removes. */
int daos_obj_update(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t *dkey, unsigned int nr,
		    daos_iod_t *iods, d_sg_list_t *sgls, daos_event_t *ev);

/* The next keys after the anchor, up to *nr, one after the other in sgl. */
int daos_obj_list_dkey(daos_handle_t oh, daos_handle_t th, uint32_t *nr, daos_key_desc_t *kds,
		       d_sg_list_t *sgl, daos_anchor_t *anchor, daos_event_t *ev);
int daos_obj_list_akey(daos_handle_t oh, daos_handle_t th, daos_key_t *dkey, uint32_t *nr,
		       daos_key_desc_t *kds, d_sg_list_t *sgl, daos_anchor_t *anchor, daos_event_t *ev);
int daos_obj_list_recx(daos_handle_t oh, daos_handle_t th, daos_key_t *dkey, daos_key_t *akey,
		       daos_size_t *size, uint32_t *nr, daos_recx_t *recxs, daos_epoch_range_t *eprs,
		       daos_anchor_t *anchor, bool incr_order, daos_event_t *ev);

/* The largest or smallest dkey, akey or extent, as flags ask. */
int daos_obj_query_key(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t *dkey,
		       daos_key_t *akey, daos_recx_t *recx, daos_event_t *ev);

/* Reads an object and verifies its checksums: 0, or -DER_MISMATCH. */
int daos_obj_verify(daos_handle_t coh, daos_obj_id_t oid, daos_epoch_t epoch);

/* Cuts a listing of dkeys into parts that can be listed side by side. */
int daos_obj_anchor_split(daos_handle_t oh, uint32_t *nr, daos_anchor_t *anchors);
int daos_obj_anchor_set(daos_handle_t oh, uint32_t index, daos_anchor_t *anchor);

/* The anchor of a listing that goes on behind a key. */
int daos_obj_key2anchor(daos_handle_t oh, daos_handle_t th, daos_key_t *dkey, daos_key_t *akey,
			daos_anchor_t *anchor, daos_event_t *ev);

/* The objects of a snapshot. */
int daos_oit_open(daos_handle_t coh, daos_epoch_t epoch, daos_handle_t *oh, daos_event_t *ev);
int daos_oit_close(daos_handle_t oh, daos_event_t *ev);
int daos_oit_list(daos_handle_t oh, daos_obj_id_t *oids, uint32_t *oids_nr, daos_anchor_t *anchor,
		  daos_event_t *ev);
int daos_oit_mark(daos_handle_t oh, daos_obj_id_t oid, d_iov_t *marker, daos_event_t *ev);
int daos_oit_list_unmarked(daos_handle_t oh, daos_obj_id_t *oids, uint32_t *oids_nr, daos_anchor_t *anchor,
			   daos_event_t *ev);

/* As daos_oit_list, but only objects for which the filter says so; marker has no bytes for an object without a mark. */
typedef int (*daos_oit_filter_cb)(daos_obj_id_t oid, d_iov_t *marker, bool *listed);
int daos_oit_list_filter(daos_handle_t oh, daos_obj_id_t *oids, uint32_t *oids_nr, daos_anchor_t *anchor,
			 daos_oit_filter_cb filter, daos_event_t *ev);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_OBJ_H */
