/* Filters and aggregations beside the data. */
#ifndef DAOS_PIPELINE_H
#define DAOS_PIPELINE_H

#include <daos_types.h>
#include <daos_obj.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* A node of an expression, in the order operator before operands. */
typedef struct {
	d_iov_t    part_type;
	d_iov_t    data_type;
	uint32_t   num_operands;
	daos_key_t akey;
	size_t     num_constants;
	d_iov_t   *constant;
	size_t     data_offset;
	size_t     data_len;
} daos_filter_part_t;

typedef struct {
	d_iov_t              filter_type;
	uint32_t             num_parts;
	daos_filter_part_t **parts;
} daos_filter_t;

typedef struct {
	uint64_t        version;
	uint32_t        num_filters;
	daos_filter_t **filters;
	uint32_t        num_aggr_filters;
	daos_filter_t **aggr_filters;
} daos_pipeline_t;

typedef struct {
	uint64_t nr_objs;
	uint64_t nr_dkeys;
	uint64_t nr_akeys;
} daos_pipeline_stats_t;

void daos_pipeline_init(daos_pipeline_t *pipeline);
void daos_filter_init(daos_filter_t *filter);
int daos_pipeline_add(daos_pipeline_t *pipeline, daos_filter_t *filter);
int daos_filter_add(daos_filter_t *filter, daos_filter_part_t *part);
int daos_pipeline_free(daos_pipeline_t *pipeline);
int daos_pipeline_check(daos_pipeline_t *pipeline);
/*
 * Gives back the dkeys of an object, or the akeys of one dkey, that meet the conditions, with the records of the iods, or
 * what is aggregated of them. To be called until the anchor is at its end. Records lie one behind the other in sgl_recx,
 * unless it has a piece for each; recx_size has their lengths.
 */
int daos_pipeline_run(daos_handle_t coh, daos_handle_t oh, daos_pipeline_t *pipeline, daos_handle_t th,
		      uint64_t flags, daos_key_t *dkey, uint32_t *nr_iods, daos_iod_t *iods,
		      daos_anchor_t *anchor, uint32_t *nr_kds, daos_key_desc_t *kds, d_sg_list_t *sgl_keys,
		      d_sg_list_t *sgl_recx, daos_size_t *recx_size, d_sg_list_t *sgl_agg,
		      daos_pipeline_stats_t *stats, daos_event_t *ev);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_PIPELINE_H */
