/* Pools. */
#ifndef DAOS_POOL_H
#define DAOS_POOL_H

#include <daos_types.h>
#include <daos_prop.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* How a pool is connected to. */
#define DAOS_PC_RO    (1U << 0)
#define DAOS_PC_RW    (1U << 1)
#define DAOS_PC_EX    (1U << 2)
#define DAOS_PC_NBITS 3
#define DAOS_PC_MASK  ((1U << DAOS_PC_NBITS) - 1)

/* What a query asks for. */
enum daos_pool_info_bit {
	DPI_SPACE                  = 1ULL << 0,
	DPI_REBUILD_STATUS         = 1ULL << 1,
	DPI_ENGINES_ENABLED        = 1ULL << 2,
	DPI_ENGINES_DISABLED       = 1ULL << 3,
	DPI_ENGINES_DEAD           = 1ULL << 4,
	DPI_REBUILD_MAX_LAYOUT_VER = 1ULL << 5,
	DPI_SELF_HEAL_POLICY       = 1ULL << 6,
	DPI_ALL                    = -1,
};

typedef enum {
	DAOS_TS_UNKNOWN  = 0,
	DAOS_TS_DOWN_OUT = 1,
	DAOS_TS_DOWN     = 2,
	DAOS_TS_UP       = 3,
	DAOS_TS_UP_IN    = 4,
	DAOS_TS_NEW      = 5,
	DAOS_TS_DRAIN    = 6,
} daos_target_state_t;

typedef struct {
	int foo;
} daos_target_perf_t;

struct daos_space {
	uint64_t s_total[DAOS_MEDIA_MAX];
	uint64_t s_free[DAOS_MEDIA_MAX];
};

typedef struct {
	uint32_t            ta_padding;
	daos_target_state_t ta_state;
	daos_target_perf_t  ta_perf;
	struct daos_space   ta_space;
} daos_target_info_t;

struct daos_pool_space {
	struct daos_space ps_space;
	uint64_t          ps_free_min[DAOS_MEDIA_MAX];
	uint64_t          ps_free_max[DAOS_MEDIA_MAX];
	uint64_t          ps_free_mean[DAOS_MEDIA_MAX];
	uint32_t          ps_ntargets;
	uint32_t          ps_padding;
};

typedef enum {
	DRS_IN_PROGRESS = 0,
	DRS_NOT_STARTED = 1,
	DRS_COMPLETED   = 2,
} daos_rebuild_state_t;

#define DAOS_RSF_DEGRADED 1

struct daos_rebuild_status {
	uint32_t rs_version;
	uint32_t rs_seconds;
	int32_t  rs_errno;
	union {
		int32_t rs_state;
		int32_t rs_done;
	};
	uint16_t rs_max_supported_layout_ver;
	uint8_t  rs_flags;
	uint8_t  rs_reserved_;
	int32_t  rs_fail_rank;
	uint64_t rs_toberb_obj_nr;
	uint64_t rs_obj_nr;
	uint64_t rs_rec_nr;
	uint64_t rs_size;
};

typedef struct {
	uuid_t                     pi_uuid;
	uint32_t                   pi_ntargets;
	uint32_t                   pi_nnodes;
	uint32_t                   pi_ndisabled;
	uint32_t                   pi_map_ver;
	uint32_t                   pi_leader;
	uint64_t                   pi_bits;
	struct daos_pool_space     pi_space;
	struct daos_rebuild_status pi_rebuild_st;
} daos_pool_info_t;

struct daos_pool_cont_info {
	uuid_t pci_uuid;
	char   pci_label[DAOS_PROP_LABEL_MAX_LEN + 1];
};

struct daos_pool_cont_info2 {
	struct daos_pool_cont_info pci_id;
	daos_cont_info_t           pci_cinfo;
	void                      *pci_reserved[2];
};

/* A condition on containers: how several parts are combined, and what each compares. */
enum {
	PCF_COMBINE_LOGICAL_AND = 0,
	PCF_COMBINE_LOGICAL_OR  = 1,
};

enum {
	PCF_FUNC_EQ = 0,
	PCF_FUNC_NE = 1,
	PCF_FUNC_LT = 2,
	PCF_FUNC_LE = 3,
	PCF_FUNC_GT = 4,
	PCF_FUNC_GE = 5,
};

enum {
	PCF_KEY_MD_OTIME      = 0,
	PCF_KEY_MD_MTIME      = 1,
	PCF_KEY_NUM_SNAPSHOTS = 2,
	PCF_KEY_NUM_HANDLES   = 3,
};

typedef struct daos_pool_cont_filter_part {
	uint32_t pcfp_func;
	uint32_t pcfp_key;
	union {
		uint32_t pcfp_val32;
		uint64_t pcfp_val64;
	};
} daos_pool_cont_filter_part_t;

typedef struct {
	uint32_t                            pcf_combine_func;
	uint32_t                            pcf_nparts;
	struct daos_pool_cont_filter_part **pcf_parts;
} daos_pool_cont_filter_t;

static inline const char *
daos_pool_cont_filter_func_str(uint32_t f)
{
	switch (f) {
	case PCF_FUNC_EQ:
		return "==";
	case PCF_FUNC_NE:
		return "!=";
	case PCF_FUNC_LT:
		return "<";
	case PCF_FUNC_LE:
		return "<=";
	case PCF_FUNC_GT:
		return ">";
	case PCF_FUNC_GE:
		return ">=";
	default:
		return "invalid";
	}
}

static inline const char *
daos_pool_cont_filter_key_str(uint32_t k)
{
	switch (k) {
	case PCF_KEY_MD_OTIME:
		return "md_otime";
	case PCF_KEY_MD_MTIME:
		return "md_mtime";
	case PCF_KEY_NUM_SNAPSHOTS:
		return "num_snapshots";
	case PCF_KEY_NUM_HANDLES:
		return "num_handles";
	default:
		return "invalid";
	}
}

/* By label or by the text of its UUID; sys is a system, NULL for the default one. */
#define daos_pool_connect daos_pool_connect2
int daos_pool_connect(const char *pool, const char *sys, unsigned int flags, daos_handle_t *poh,
		      daos_pool_info_t *info, daos_event_t *ev);
int daos_pool_disconnect(daos_handle_t poh, daos_event_t *ev);

/*
 * The bytes make the same connection in another process of this user, also one that has the pool alone (DAOS_PC_EX): nobody
 * else is let in until all who share it have given it up. So does daos_reinit in a child.
 */
int daos_pool_local2global(daos_handle_t poh, d_iov_t *glob);
int daos_pool_global2local(d_iov_t glob, daos_handle_t *poh);

/* The ranks, the state as info->pi_bits ask, and properties (an empty list: all). */
int daos_pool_query(daos_handle_t poh, d_rank_list_t **ranks, daos_pool_info_t *info,
		    daos_prop_t *pool_prop, daos_event_t *ev);
int daos_pool_query_target(daos_handle_t poh, uint32_t tgt, d_rank_t rank, daos_target_info_t *info,
			   daos_event_t *ev);

int daos_pool_list_attr(daos_handle_t poh, char *buffer, size_t *size, daos_event_t *ev);
int daos_pool_get_attr(daos_handle_t poh, int n, char const *const names[], void *const buffers[],
		       size_t sizes[], daos_event_t *ev);
int daos_pool_set_attr(daos_handle_t poh, int n, char const *const names[], void const *const values[],
		       size_t const sizes[], daos_event_t *ev);
int daos_pool_del_attr(daos_handle_t poh, int n, char const *const names[], daos_event_t *ev);

/* *ncont is the room in cbuf and becomes the number of containers; -DER_TRUNC if there are more. */
int daos_pool_list_cont(daos_handle_t poh, daos_size_t *ncont, struct daos_pool_cont_info *cbuf,
			daos_event_t *ev);

/* What the list allows a user with these groups. */
int daos_pool_get_perms(daos_prop_t *pool_prop, uid_t uid, gid_t *gids, size_t nr_gids, uint64_t *perms);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_POOL_H */
