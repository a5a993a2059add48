/* Types that all parts of the interface share. */
#ifndef DAOS_TYPES_H
#define DAOS_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <daos_errno.h>
#include <gurt/types.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Room for the text of a UUID with its zero. */
#define DAOS_UUID_STR_SIZE 37

#define DAOS_SYS_NAME_MAX     15
#define DAOS_SYS_INFO_STRING_MAX 63
#define DAOS_ATTR_NAME_MAX    511
#define DAOS_SYS_INFO_BUF_SIZE (DAOS_SYS_INFO_STRING_MAX + 1)
#define DAOS_DEFAULT_SYS_NAME "daos_server"

typedef uint64_t daos_size_t;
typedef uint64_t daos_off_t;

typedef d_iov_t daos_key_t;

/* A handle of a pool, container, object, transaction or queue. */
typedef struct {
	uint64_t cookie;
} daos_handle_t;

#if defined(__cplusplus)
#define DAOS_HDL_INVAL (daos_handle_t{0})
#define DAOS_TX_NONE   (daos_handle_t{0})
#else
#define DAOS_HDL_INVAL ((daos_handle_t){0})
#define DAOS_TX_NONE   ((daos_handle_t){0})
#endif

static inline bool
daos_handle_is_inval(daos_handle_t hdl)
{
	return hdl.cookie == 0;
}

static inline bool
daos_handle_is_valid(daos_handle_t hdl)
{
	return hdl.cookie != 0;
}

static inline bool
daos_key_is_null(daos_key_t key)
{
	return key.iov_len == 0 || key.iov_buf == NULL;
}

/* Whether so many characters are the text of a UUID: hexadecimal digits in groups of 8, 4, 4, 4 and 12. */
static inline bool
daos_is_valid_uuid_string(const char *uuid, size_t len)
{
	size_t i;

	if (uuid == NULL || len != DAOS_UUID_STR_SIZE - 1 || memchr(uuid, 0, len) != NULL)
		return false;
	for (i = 0; i < len; i++) {
		char c   = uuid[i];
		bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
		bool bar = i == 8 || i == 13 || i == 18 || i == 23;

		if (bar ? c != '-' : !hex)
			return false;
	}
	return true;
}

typedef uint64_t daos_epoch_t;

#define DAOS_EPOCH_MAX ((daos_epoch_t)-1)

typedef struct {
	daos_epoch_t epr_lo;
	daos_epoch_t epr_hi;
} daos_epoch_range_t;

/* Where an enumeration stands; zero it to begin. */
#define DAOS_ANCHOR_BUF_MAX 104
#define DAOS_HASH_HKEY_MAX  32
#define DAOS_HASH_HKEY_START 0

typedef enum {
	DAOS_ANCHOR_TYPE_ZERO = 0,
	DAOS_ANCHOR_TYPE_HKEY = 1,
	DAOS_ANCHOR_TYPE_KEY  = 2,
	DAOS_ANCHOR_TYPE_EOF  = 3,
} daos_anchor_type_t;

typedef struct {
	uint16_t da_type;
	uint16_t da_shard;
	uint32_t da_flags;
	uint64_t da_sub_anchors;
	uint8_t  da_buf[DAOS_ANCHOR_BUF_MAX];
} daos_anchor_t;

#define DAOS_ANCHOR_INIT {DAOS_ANCHOR_TYPE_ZERO, 0, 0, 0, {0}}

/* An object id: the upper 32 bits of hi carry type and class. */
typedef struct {
	uint64_t lo;
	uint64_t hi;
} daos_obj_id_t;

typedef uint32_t daos_oclass_id_t;
typedef uint16_t daos_oclass_hints_t;

/* What a container is used for. */
typedef uint32_t daos_cont_layout_t;

/* An asynchronous operation; the program only reads ev_error. */
typedef struct daos_event {
	int ev_error;
	struct {
		uint64_t space[20];
	} ev_private;
	uint64_t ev_debug;
} daos_event_t;

typedef enum {
	DAOS_EQR_COMPLETED = (1),
	DAOS_EQR_WAITING   = (1 << 1),
	DAOS_EQR_ALL       = (DAOS_EQR_COMPLETED | DAOS_EQR_WAITING),
} daos_eq_query_t;

#define DAOS_EQ_DESTROY_FORCE 1

/* How long a poll waits, in microseconds. */
#define DAOS_EQ_NOWAIT 0
#define DAOS_EQ_WAIT   (-1)

/* What daos_cont_query tells. */
typedef struct {
	uuid_t       ci_uuid;
	daos_epoch_t ci_lsnapshot;
	uint32_t     ci_nhandles;
	uint32_t     ci_nsnapshots;
	uint64_t     ci_md_otime;
	uint64_t     ci_md_mtime;
} daos_cont_info_t;

/* What daos_mgmt_get_sys_info tells. */
struct daos_rank_uri {
	uint32_t dru_rank;
	char    *dru_uri;
};

struct daos_sys_info {
	char                  dsi_system_name[DAOS_SYS_INFO_STRING_MAX + 1];
	char                  dsi_fabric_provider[DAOS_SYS_INFO_STRING_MAX + 1];
	char                  dsi_agent_path[4096];
	uint32_t              dsi_nr_ranks;
	struct daos_rank_uri *dsi_ranks;
	uint32_t              dsi_nr_ms_ranks;
	uint32_t             *dsi_ms_ranks;
};

/* Media of a pool. */
enum {
	DAOS_MEDIA_SCM  = 0,
	DAOS_MEDIA_NVME,
	DAOS_MEDIA_MAX
};

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_TYPES_H */
