/* Properties of pools and containers. */
#ifndef DAOS_PROP_H
#define DAOS_PROP_H

#include <daos_types.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Properties of a pool. */
enum daos_pool_props {
	DAOS_PROP_PO_MIN = 0,
	DAOS_PROP_PO_LABEL = 1,
	DAOS_PROP_PO_ACL = 2,
	DAOS_PROP_PO_SPACE_RB = 3,
	DAOS_PROP_PO_SELF_HEAL = 4,
	DAOS_PROP_PO_RECLAIM = 5,
	DAOS_PROP_PO_OWNER = 6,
	DAOS_PROP_PO_OWNER_GROUP = 7,
	DAOS_PROP_PO_SVC_LIST = 8,
	DAOS_PROP_PO_EC_CELL_SZ = 9,
	DAOS_PROP_PO_DATA_THRESH = 10,
	DAOS_PROP_PO_REDUN_FAC = 11,
	DAOS_PROP_PO_EC_PDA = 12,
	DAOS_PROP_PO_RP_PDA = 13,
	DAOS_PROP_PO_GLOBAL_VERSION = 14,
	DAOS_PROP_PO_UPGRADE_STATUS = 15,
	DAOS_PROP_PO_SCRUB_MODE = 16,
	DAOS_PROP_PO_SCRUB_FREQ = 17,
	DAOS_PROP_PO_SCRUB_THRESH = 18,
	DAOS_PROP_PO_SVC_REDUN_FAC = 19,
	DAOS_PROP_PO_OBJ_VERSION = 20,
	DAOS_PROP_PO_PERF_DOMAIN = 21,
	DAOS_PROP_PO_CHECKPOINT_MODE = 22,
	DAOS_PROP_PO_CHECKPOINT_FREQ = 23,
	DAOS_PROP_PO_CHECKPOINT_THRESH = 24,
	DAOS_PROP_PO_REINT_MODE = 25,
	DAOS_PROP_PO_SVC_OPS_ENABLED = 26,
	DAOS_PROP_PO_SVC_OPS_ENTRY_AGE = 27,
	DAOS_PROP_PO_MAX,
};

#define DAOS_PROP_PO_NUM (DAOS_PROP_PO_MAX - DAOS_PROP_PO_MIN - 1)

/* Properties of a container. */
enum daos_cont_props {
	DAOS_PROP_CO_MIN = 0x1000,
	DAOS_PROP_CO_LABEL = 0x1001,
	DAOS_PROP_CO_LAYOUT_TYPE = 0x1002,
	DAOS_PROP_CO_LAYOUT_VER = 0x1003,
	DAOS_PROP_CO_CSUM = 0x1004,
	DAOS_PROP_CO_CSUM_CHUNK_SIZE = 0x1005,
	DAOS_PROP_CO_CSUM_SERVER_VERIFY = 0x1006,
	DAOS_PROP_CO_REDUN_FAC = 0x1007,
	DAOS_PROP_CO_REDUN_LVL = 0x1008,
	DAOS_PROP_CO_SNAPSHOT_MAX = 0x1009,
	DAOS_PROP_CO_ACL = 0x100a,
	DAOS_PROP_CO_COMPRESS = 0x100b,
	DAOS_PROP_CO_ENCRYPT = 0x100c,
	DAOS_PROP_CO_OWNER = 0x100d,
	DAOS_PROP_CO_OWNER_GROUP = 0x100e,
	DAOS_PROP_CO_DEDUP = 0x100f,
	DAOS_PROP_CO_DEDUP_THRESHOLD = 0x1010,
	DAOS_PROP_CO_ROOTS = 0x1011,
	DAOS_PROP_CO_STATUS = 0x1012,
	DAOS_PROP_CO_ALLOCED_OID = 0x1013,
	DAOS_PROP_CO_EC_CELL_SZ = 0x1014,
	DAOS_PROP_CO_EC_PDA = 0x1015,
	DAOS_PROP_CO_RP_PDA = 0x1016,
	DAOS_PROP_CO_GLOBAL_VERSION = 0x1017,
	DAOS_PROP_CO_SCRUBBER_DISABLED = 0x1018,
	DAOS_PROP_CO_OBJ_VERSION = 0x1019,
	DAOS_PROP_CO_PERF_DOMAIN = 0x101a,
	DAOS_PROP_CO_MAX,
};

#define DAOS_PROP_CO_NUM (DAOS_PROP_CO_MAX - DAOS_PROP_CO_MIN - 1)

/* What acknowledged writes of a container survive: 0 the loss of power, 1 the end of the process. Of Dolmen alone. */
#define DOLMEN_PROP_CO_DURABILITY 0x10001

#define DAOS_PROP_ENTRIES_MAX_NR   128
#define DAOS_PROP_LABEL_MAX_LEN    127
#define DAOS_PROP_MAX_LABEL_BUF_LEN (DAOS_PROP_LABEL_MAX_LEN + 1)
#define DAOS_PROP_NO_PO_LABEL      "pool_label_not_set"
#define DAOS_PROP_NO_CO_LABEL      "container_label_not_set"
#define DAOS_PROP_LABEL_BUF_SIZE   DAOS_PROP_MAX_LABEL_BUF_LEN

/* An entry of an answer that has no value. */
#define DAOS_PROP_ENTRY_NOT_SET (1 << 0)

/* Self-healing of a pool, as bits. */
#define DAOS_SELF_HEAL_AUTO_EXCLUDE (1U << 0)
#define DAOS_SELF_HEAL_AUTO_REBUILD (1U << 1)
#define DAOS_SELF_HEAL_DELAY_REBUILD (1U << 2)

enum {
	DAOS_RECLAIM_DISABLED = 0,
	DAOS_RECLAIM_LAZY     = 1,
	DAOS_RECLAIM_SNAPSHOT = 2,
	DAOS_RECLAIM_BATCH    = 3,
	DAOS_RECLAIM_TIME     = 4,
};

enum {
	DAOS_SCRUB_MODE_OFF   = 0,
	DAOS_SCRUB_MODE_LAZY  = 1,
	DAOS_SCRUB_MODE_TIMED = 2,
	DAOS_SCRUB_MODE_INVALID,
};

enum {
	DAOS_CHECKPOINT_DISABLED = 0,
	DAOS_CHECKPOINT_TIMED    = 1,
	DAOS_CHECKPOINT_LAZY     = 2,
};

enum {
	DAOS_REINT_MODE_DATA_SYNC    = 0,
	DAOS_REINT_MODE_NO_DATA_SYNC = 1,
	DAOS_REINT_MODE_INCREMENTAL  = 2,
};

enum {
	DAOS_UPGRADE_STATUS_NOT_STARTED = 0,
	DAOS_UPGRADE_STATUS_IN_PROGRESS = 1,
	DAOS_UPGRADE_STATUS_COMPLETED   = 2,
	DAOS_UPGRADE_STATUS_FAILED      = 3,
};

#define DAOS_PROP_PERF_DOMAIN_ROOT  255
#define DAOS_PROP_PERF_DOMAIN_GROUP 200

/* What a container is used for. */
enum daos_cont_layout_enum {
	DAOS_PROP_CO_LAYOUT_UNKNOWN  = 0,
	DAOS_PROP_CO_LAYOUT_UNKOWN   = DAOS_PROP_CO_LAYOUT_UNKNOWN,
	DAOS_PROP_CO_LAYOUT_POSIX    = 1,
	DAOS_PROP_CO_LAYOUT_HDF5     = 2,
	DAOS_PROP_CO_LAYOUT_PYTHON   = 3,
	DAOS_PROP_CO_LAYOUT_SPARK    = 4,
	DAOS_PROP_CO_LAYOUT_DATABASE = 5,
	DAOS_PROP_CO_LAYOUT_ROOT     = 6,
	DAOS_PROP_CO_LAYOUT_SEISMIC  = 7,
	DAOS_PROP_CO_LAYOUT_METEO    = 8,
	DAOS_PROP_CO_LAYOUT_MAX,
};

enum {
	DAOS_PROP_CO_CSUM_OFF     = 0,
	DAOS_PROP_CO_CSUM_CRC16   = 1,
	DAOS_PROP_CO_CSUM_CRC32   = 2,
	DAOS_PROP_CO_CSUM_CRC64   = 3,
	DAOS_PROP_CO_CSUM_SHA1    = 4,
	DAOS_PROP_CO_CSUM_SHA256  = 5,
	DAOS_PROP_CO_CSUM_SHA512  = 6,
	DAOS_PROP_CO_CSUM_ADLER32 = 7,
};

enum {
	DAOS_PROP_CO_CSUM_SV_OFF = 0,
	DAOS_PROP_CO_CSUM_SV_ON  = 1,
};

enum {
	DAOS_PROP_CO_DEDUP_OFF    = 0,
	DAOS_PROP_CO_DEDUP_MEMCMP = 1,
	DAOS_PROP_CO_DEDUP_HASH   = 2,
};

enum {
	DAOS_PROP_CO_COMPRESS_OFF      = 0,
	DAOS_PROP_CO_COMPRESS_LZ4      = 1,
	DAOS_PROP_CO_COMPRESS_DEFLATE  = 2,
	DAOS_PROP_CO_COMPRESS_DEFLATE1 = 3,
	DAOS_PROP_CO_COMPRESS_DEFLATE2 = 4,
	DAOS_PROP_CO_COMPRESS_DEFLATE3 = 5,
	DAOS_PROP_CO_COMPRESS_DEFLATE4 = 6,
};

enum {
	DAOS_PROP_CO_ENCRYPT_OFF        = 0,
	DAOS_PROP_CO_ENCRYPT_AES_XTS128 = 1,
	DAOS_PROP_CO_ENCRYPT_AES_XTS256 = 2,
	DAOS_PROP_CO_ENCRYPT_AES_CBC128 = 3,
	DAOS_PROP_CO_ENCRYPT_AES_CBC192 = 4,
	DAOS_PROP_CO_ENCRYPT_AES_CBC256 = 5,
	DAOS_PROP_CO_ENCRYPT_AES_GCM128 = 6,
	DAOS_PROP_CO_ENCRYPT_AES_GCM256 = 7,
};

enum {
	DAOS_PROP_CO_REDUN_RF0 = 0,
	DAOS_PROP_CO_REDUN_RF1 = 1,
	DAOS_PROP_CO_REDUN_RF2 = 2,
	DAOS_PROP_CO_REDUN_RF3 = 3,
	DAOS_PROP_CO_REDUN_RF4 = 4,
};

enum {
	DAOS_PROP_CO_REDUN_RANK  = 1,
	DAOS_PROP_CO_REDUN_NODE  = 2,
	DAOS_PROP_CO_REDUN_FAULT = 3,
	DAOS_PROP_CO_REDUN_MAX   = 254,
};

/* Whether a container can be trusted. */
enum {
	DAOS_PROP_CO_HEALTHY = 0,
	DAOS_PROP_CO_UNCLEAN = 1,
};

#define DAOS_PROP_CO_CLEAR (1 << 0)

struct daos_co_status {
	uint16_t dcs_status;
	uint16_t dcs_flags;
	uint32_t dcs_pm_ver;
};

struct daos_prop_co_roots {
	daos_obj_id_t cr_oids[4];
};

struct daos_prop_byteval {
	void  *dpb_data;
	size_t dpb_len;
};

/* A property: a number, a text, or something else that is allocated with malloc. */
struct daos_prop_entry {
	uint32_t dpe_type;
	uint16_t dpe_flags;
	uint16_t dpe_reserv;
	union {
		uint64_t   dpe_val;
		d_string_t dpe_str;
		void      *dpe_val_ptr;
	};
};

typedef struct {
	uint32_t                dpp_nr;
	uint32_t                dpp_reserv;
	struct daos_prop_entry *dpp_entries;
} daos_prop_t;

/* A status as the number that the property has: status, flags and map version, 16, 16 and 32 bits from below. */
static inline uint64_t
daos_prop_co_status_2_val(struct daos_co_status *status)
{
	return (uint64_t)status->dcs_status | (uint64_t)status->dcs_flags << 16 |
	       (uint64_t)status->dcs_pm_ver << 32;
}

static inline void
daos_prop_val_2_co_status(uint64_t val, struct daos_co_status *status)
{
	status->dcs_status = (uint16_t)val;
	status->dcs_flags  = (uint16_t)(val >> 16);
	status->dcs_pm_ver = (uint32_t)(val >> 32);
}

/* 1 to 127 letters, digits and . _ : - that are not the text of a UUID. */
static inline bool
daos_label_is_valid(const char *label)
{
	size_t len, i;

	if (label == NULL)
		return false;
	for (len = 0; len <= DAOS_PROP_LABEL_MAX_LEN && label[len] != 0; len++)
		;
	if (len == 0 || len > DAOS_PROP_LABEL_MAX_LEN)
		return false;
	for (i = 0; i < len; i++) {
		char c = label[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
		      c == '_' || c == ':' || c == '-'))
			return false;
	}
	return !daos_is_valid_uuid_string(label, len);
}

static inline bool
daos_rf_is_valid(unsigned long long rf)
{
	return rf <= DAOS_PROP_CO_REDUN_RF4;
}

static inline bool
daos_svc_rf_is_valid(uint64_t svc_rf)
{
	return svc_rf <= 4;
}

static inline bool
daos_perf_domain_is_valid(uint32_t perf_domain)
{
	return perf_domain == DAOS_PROP_PERF_DOMAIN_ROOT || perf_domain == DAOS_PROP_PERF_DOMAIN_GROUP;
}

static inline bool
daos_prop_is_set(struct daos_prop_entry *entry)
{
	return (entry->dpe_flags & DAOS_PROP_ENTRY_NOT_SET) == 0;
}

/* A list of so many properties, all zero. */
daos_prop_t *daos_prop_alloc(uint32_t entries_nr);
void daos_prop_free(daos_prop_t *prop);

/* Frees the values of a list, but not the list. */
void daos_prop_fini(daos_prop_t *prop);

/* A list of what both have; new_prop wins. */
daos_prop_t *daos_prop_merge(daos_prop_t *old_prop, daos_prop_t *new_prop);
int daos_prop_merge2(daos_prop_t *old_prop, daos_prop_t *new_prop, daos_prop_t **out_prop);

/* "name:value;name:value" with the names of the command line: label, layout, cksum, rd_fac ... */
int daos_prop_from_str(const char *str, daos_size_t len, daos_prop_t **prop);

struct daos_prop_entry *daos_prop_entry_get(daos_prop_t *prop, uint32_t type);

int daos_prop_set_str(daos_prop_t *prop, uint32_t type, const char *str, daos_size_t len);
int daos_prop_entry_set_str(struct daos_prop_entry *entry, const char *str, daos_size_t len);
int daos_prop_set_ptr(daos_prop_t *prop, uint32_t type, const void *ptr, daos_size_t size);
int daos_prop_entry_set_ptr(struct daos_prop_entry *entry, const void *ptr, daos_size_t size);
int daos_prop_entry_dup_ptr(struct daos_prop_entry *entry_dst, struct daos_prop_entry *entry_src, size_t len);
int daos_prop_entry_cmp_acl(struct daos_prop_entry *entry1, struct daos_prop_entry *entry2);
int daos_prop_entry_dup_co_roots(struct daos_prop_entry *dst, struct daos_prop_entry *src);

/* Whether the value of an entry is a text, or something else that is allocated. */
bool daos_prop_has_str(struct daos_prop_entry *entry);
bool daos_prop_has_ptr(struct daos_prop_entry *entry);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_PROP_H */
