/* Memory, messages and settings, as programs of DAOS use them. */
#ifndef GURT_COMMON_H
#define GURT_COMMON_H

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <daos_errno.h>
#include <gurt/list.h>
#include <gurt/types.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Reads a variable of the environment: 0, -DER_NONEXIST, or -DER_INVAL; the value is left alone but for 0. */
int d_getenv_bool(const char *name, bool *value);
int d_getenv_char(const char *name, char *value);
int d_getenv_int(const char *name, unsigned int *value);
int d_getenv_uint(const char *name, unsigned int *value);
int d_getenv_uint32_t(const char *name, uint32_t *value);
int d_getenv_uint64_t(const char *name, uint64_t *value);
int d_agetenv_str(char **value, const char *name);
void d_freeenv_str(char **value);

void d_rank_list_free(d_rank_list_t *list);

/* What the macros of the original headers call. */
void *d_calloc(size_t count, size_t size);
void *d_malloc(size_t size);
void *d_realloc(void *memory, size_t size);
void d_free(void *memory);
char *d_strndup(const char *text, size_t size);

/* A text made as by printf, in memory of its own; NULL if there is none. rc, if not NULL, is its length, or -1. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
char *d_asprintf2(int *rc, const char *format, ...);

#define D_ALLOC_ARRAY(ptr, count) ((ptr) = (__typeof__(ptr))calloc((count), sizeof(*(ptr))))
#define D_ALLOC(ptr, size)        ((ptr) = (__typeof__(ptr))calloc(1, (size)))
#define D_ALLOC_PTR(ptr)          D_ALLOC(ptr, sizeof(*(ptr)))
#define D_ALLOC_NZ(ptr, size)     ((ptr) = (__typeof__(ptr))malloc(size))
#define D_ALLOC_ARRAY_NZ(ptr, count) ((ptr) = (__typeof__(ptr))malloc((count) * sizeof(*(ptr))))
#define D_ALLOC_PTR_NZ(ptr)       D_ALLOC_NZ(ptr, sizeof(*(ptr)))
#define D_FREE(ptr)                                                                                \
	do {                                                                                       \
		free(ptr);                                                                         \
		(ptr) = NULL;                                                                      \
	} while (0)
#define D_FREE_PTR(ptr)           D_FREE(ptr)
#define D_STRNDUP(ptr, s, n)      ((ptr) = d_strndup(s, n))
#define D_STRNDUP_S(ptr, s)       D_STRDUP(ptr, s)
#define D_STRDUP(ptr, s)          ((ptr) = d_strndup(s, strlen(s)))
#define D_ASPRINTF(ptr, ...)      ((ptr) = d_asprintf2(NULL, __VA_ARGS__))

/* Makes room for more; what is new is zero. */
#define D_REALLOC_COMMON(newptr, oldptr, oldsize, newsize)                                         \
	do {                                                                                       \
		size_t d_old_ = (oldsize), d_new_ = (newsize);                                     \
		(newptr) = (__typeof__(newptr))realloc((oldptr), d_new_);                          \
		if ((newptr) != NULL && d_new_ > d_old_)                                           \
			memset((char *)(newptr) + d_old_, 0, d_new_ - d_old_);                     \
	} while (0)
#define D_REALLOC(newptr, oldptr, oldsize, size) D_REALLOC_COMMON(newptr, oldptr, oldsize, size)
#define D_REALLOC_ARRAY(newptr, oldptr, oldcount, count)                                           \
	D_REALLOC_COMMON(newptr, oldptr, (oldcount) * sizeof(*(oldptr)), (count) * sizeof(*(oldptr)))
#define D_REALLOC_NZ(newptr, oldptr, size)                                                         \
	((newptr) = (__typeof__(newptr))realloc((oldptr), (size)))
#define D_REALLOC_ARRAY_NZ(newptr, oldptr, count)                                                  \
	((newptr) = (__typeof__(newptr))realloc((oldptr), (count) * sizeof(*(oldptr))))
#define D_REALLOC_Z(newptr, oldptr, size)                                                          \
	((newptr) = (__typeof__(newptr))realloc((oldptr), (size)))

#define D_GOTO(label, expr)                                                                        \
	do {                                                                                       \
		(void)(expr);                                                                      \
		goto label;                                                                        \
	} while (0)
#define D_ASSERT(e)           assert(e)
#define D_ASSERTF(cond, ...)  assert(cond)
#if defined(__cplusplus)
#define D_CASSERT(cond, ...)  static_assert(cond, #cond)
#else
#define D_CASSERT(cond, ...)  _Static_assert(cond, #cond)
#endif

/* Messages: warnings and errors go to the standard error stream. */
#define D_PRINT(...)     printf(__VA_ARGS__)
#define D_PRINT_ERR(...) fprintf(stderr, __VA_ARGS__)
#define D_FATAL(...)     fprintf(stderr, __VA_ARGS__)
#define D_CRIT(...)      fprintf(stderr, __VA_ARGS__)
#define D_ERROR(...)     fprintf(stderr, __VA_ARGS__)
#define D_WARN(...)      fprintf(stderr, __VA_ARGS__)
#define D_NOTE(...)      D_LOG_NOTHING(__VA_ARGS__)
#define D_INFO(...)      D_LOG_NOTHING(__VA_ARGS__)
#define D_DEBUG(mask, ...) D_LOG_NOTHING(__VA_ARGS__)
#define D_LOG_NOTHING(...)                                                                         \
	do {                                                                                       \
		if (0)                                                                             \
			fprintf(stderr, __VA_ARGS__);                                              \
	} while (0)

/* What the macros of the original headers call when they have a message. */
void d_vlog(int flags, const char *format, va_list arguments);
void d_log_sync(void);

/* Faults that programs ask for are never made. */
struct d_fault_attr_t;
bool d_should_fail(struct d_fault_attr_t *attr);

#define DF_U64  "%" PRIu64
#define DF_X64  "%" PRIx64
#define DF_BOOL "%s"
#define DP_BOOL(x) ((x) ? "true" : "false")

/* An error number as text. */
#define DF_RC     "%s(%d): '%s'"
#define DP_RC(rc) d_errstr(rc), rc, d_errdesc(rc)

#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))

#if defined(__cplusplus)
}
#endif

#endif /* GURT_COMMON_H */
