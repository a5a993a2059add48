/* What the macros of our headers do, for programs that keep to a standard of C or C++: no feature macro is set here. */
#include <daos.h>
#include <daos_fs.h>
#include <daos_fs_sys.h>
#include <daos_uns.h>
#include <gurt/common.h>
#include <gurt/hash.h>
#include <gurt/list.h>

#define CHECK(claim)                                                                                                   \
	do {                                                                                                           \
		if (!(claim)) {                                                                                        \
			fprintf(stderr, "%d: not so: %s\n", __LINE__, #claim);                                         \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

D_CASSERT(sizeof(daos_obj_id_t) == 16, "an object has 128 bits");

static void
texts_are_made(void)
{
	char  plain[3] = {'a', 'b', 'c'};
	char *one = NULL, *two = NULL, *three = NULL;
	int   rc = 0;

	D_STRNDUP(one, "stones", 5);
	D_STRNDUP_S(two, "stone");
	D_STRDUP(three, "stone");
	CHECK(one != NULL && two != NULL && three != NULL);
	CHECK(strcmp(one, two) == 0 && strcmp(two, three) == 0);
	D_FREE(one);
	CHECK(one == NULL);
	D_FREE(two);
	D_FREE(three);
	/* Not further than it may read. */
	D_STRNDUP(one, plain, 3);
	CHECK(strcmp(one, "abc") == 0);
	D_FREE(one);
	/* More arguments than there are registers, of both kinds. */
	D_ASPRINTF(one, "%d %s %.1f %d %d %d %d %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %ld", 1, "two", 3.0, 4, 5, 6, 7,
		   8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 1L << 40);
	CHECK(strcmp(one, "1 two 3.0 4 5 6 7 8.0 9.0 10.0 11.0 12.0 13.0 14.0 15.0 1099511627776") == 0);
	D_FREE(one);
	one = d_asprintf2(&rc, "%s-%d", "stone", 7);
	CHECK(one != NULL && rc == 7 && strcmp(one, "stone-7") == 0);
	D_FREE(one);
}

static void
memory_is_had(void)
{
	int *list, *more;

	D_ALLOC_ARRAY(list, 3);
	CHECK(list != NULL && list[2] == 0);
	D_REALLOC_ARRAY(more, list, 3, 6);
	CHECK(more != NULL && more[5] == 0);
	D_REALLOC_ARRAY_NZ(list, more, 7);
	D_REALLOC(more, list, 7 * sizeof(int), 8 * sizeof(int));
	CHECK(more != NULL && more[7] == 0);
	D_REALLOC_NZ(list, more, 40);
	D_REALLOC_Z(more, list, 44);
	D_FREE(more);
	D_ALLOC(list, sizeof(*list));
	CHECK(*list == 0);
	D_FREE(list);
	D_ALLOC_NZ(list, sizeof(*list));
	D_FREE(list);
	D_ALLOC_PTR(list);
	D_FREE_PTR(list);
	D_ALLOC_PTR_NZ(list);
	D_FREE(list);
	D_ALLOC_ARRAY_NZ(list, 2);
	D_FREE(list);
}

static int
something_is_said(void)
{
	daos_obj_id_t nil  = DAOS_OBJ_NIL;
	int           four[4] = {0, 0, 0, 0}, rc = 1;

	D_ASSERT(daos_obj_id_is_nil(nil));
	D_ASSERTF(ARRAY_SIZE(four) == 4, "%d", four[0]);
	CHECK(daos_obj_id_is_nil(nil) && ARRAY_SIZE(four) == 4);
	CHECK(MIN(1, 2) == 1 && MAX(1, 2) == 2);
	D_PRINT(DF_U64 " " DF_X64 " " DF_BOOL " " DF_RC "\n", (uint64_t)2, (uint64_t)3, DP_BOOL(true), DP_RC(0));
	D_PRINT_ERR("%d\n", 1);
	D_FATAL("%d\n", 1);
	D_CRIT("%d\n", 1);
	D_ERROR("%d\n", 1);
	D_WARN("%d\n", 1);
	D_NOTE("%d\n", 1);
	D_INFO("%d\n", 1);
	D_DEBUG(1, "%d\n", 1);
	D_GOTO(out, rc = 0);
out:
	return rc;
}

int
main(void)
{
	texts_are_made();
	memory_is_had();
	return something_is_said();
}
