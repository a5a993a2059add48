/* Basic types that every interface shares: buffers, lists of buffers, ranks. */
#ifndef GURT_TYPES_H
#define GURT_TYPES_H

#include <stddef.h>
#include <stdint.h>
#if defined(__has_include)
#if __has_include(<uuid/uuid.h>)
#include <uuid/uuid.h>
#else
typedef unsigned char uuid_t[16];
#endif
#else
#include <uuid/uuid.h>
#endif

#if defined(__cplusplus)
extern "C" {
#endif

typedef uint32_t d_rank_t;
typedef char    *d_string_t;
typedef const char *d_const_string_t;

/* A buffer: how much it holds, how much of it is filled. */
typedef struct {
	void  *iov_buf;
	size_t iov_buf_len;
	size_t iov_len;
} d_iov_t;

/* Several buffers that hold one value after the other. */
typedef struct {
	uint32_t sg_nr;
	uint32_t sg_nr_out;
	d_iov_t *sg_iovs;
} d_sg_list_t;

typedef struct {
	d_rank_t *rl_ranks;
	uint32_t  rl_nr;
} d_rank_list_t;

typedef d_rank_list_t *d_rank_list_ptr_t;

/* A buffer that is filled. */
static inline void
d_iov_set(d_iov_t *iov, void *buf, size_t size)
{
	iov->iov_buf     = buf;
	iov->iov_buf_len = size;
	iov->iov_len     = size;
}

#if defined(__cplusplus)
}
#endif

#endif /* GURT_TYPES_H */
