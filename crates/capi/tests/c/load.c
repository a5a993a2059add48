/* A client under load, as IOR and mdtest are: says before each operation what it tries, and afterwards how it went.
 *
 * load KIND RANK RANKS: transfers to a file of its own (easy) or in turn with others to one file (hard), or files in a
 * directory of its own (meta) or with contents in one that all share (small). "go FIRST COUNT" on the standard input
 * begins operations with these numbers; "idle" is the answer when they are over. */
#include "fs_kit.h"

#define EASY_BYTES  (1 << 20)
#define HARD_BYTES  47008
#define SMALL_BYTES 3901
#define CHUNK       (1 << 20)
#define SLOTS       24
#define NAMES       48

static int         is_hard, is_small, rank, ranks;
static dfs_obj_t  *file, *dir;
static size_t      bytes;
static uint64_t   *words;

static void
say(const char *what, uint64_t number, const char *rest)
{
	char line[128];
	int  len = snprintf(line, sizeof(line), "%s %lu%s\n", what, number, rest);

	CHECK(write(1, line, len) == len);
}

static void
say_result(uint64_t number, int rc)
{
	char rest[32];

	snprintf(rest, sizeof(rest), " %d", rc);
	say(rc == 0 ? "done" : "fail", number, rc == 0 ? "" : rest);
}

static void
say_seen(uint64_t number, uint64_t first, uint64_t last)
{
	char rest[64];

	snprintf(rest, sizeof(rest), " %lu %lu", first, last);
	say("saw", number, rest);
}

/* Every word says who wrote it, when, and where it belongs. */
static uint64_t
word(uint64_t number, size_t at)
{
	return (uint64_t)(rank + 1) << 56 | number << 20 | at;
}

static void
fill(uint64_t number)
{
	size_t at;

	for (at = 0; at * 8 < bytes; at++)
		words[at] = word(number, at);
}

/* The number of the operation that has written a word; 0 for a hole. */
static uint64_t
stamp(size_t at)
{
	uint64_t number = words[at] >> 20 & 0xfffffffff;

	CHECK(words[at] == 0 || words[at] == word(number, at));
	return number;
}

/* Claims that each chunk has what one operation wrote, and tells of the first and the last. */
static void
look(uint64_t number, daos_off_t off, size_t len)
{
	uint64_t first = 0, now = 0;
	size_t   at;

	for (at = 0; (at + 1) * 8 <= len; at++) {
		if (at == 0)
			first = now = stamp(at);
		else if (stamp(at) != now) {
			CHECK((off + at * 8) % CHUNK == 0);
			now = stamp(at);
		}
	}
	say_seen(number, first, now);
}

static void
transfer(uint64_t number, uint64_t random)
{
	unsigned    slot  = random % SLOTS;
	daos_off_t  off   = is_hard ? ((daos_off_t)slot * ranks + rank) * HARD_BYTES : (daos_off_t)slot * EASY_BYTES;
	d_iov_t     iov   = {.iov_buf = words, .iov_len = bytes, .iov_buf_len = bytes};
	d_sg_list_t sgl   = {.sg_nr = 1, .sg_iovs = &iov};
	daos_size_t found = 0;
	int         rc, is_read = random / SLOTS % 4 == 0;
	char        rest[32];

	snprintf(rest, sizeof(rest), " %s %u", is_read ? "read" : "write", slot);
	say("try", number, rest);
	if (!is_read) {
		fill(number);
		say_result(number, dfs_write(dfs, file, &sgl, off, NULL));
		return;
	}
	memset(words, 0, bytes);
	rc = dfs_read(dfs, file, &sgl, off, &found, NULL);
	if (rc == 0)
		look(number, off, bytes);
	else
		say_result(number, rc);
}

static int
create(const char *name, uint64_t number)
{
	dfs_obj_t *obj;
	int        rc = dfs_open(dfs, dir, name, S_IFREG | 0644, O_RDWR | O_CREAT | O_EXCL, 0, 0, NULL, &obj);

	if (rc == 0 && is_small) {
		fill(number);
		rc = fs_write(obj, words, bytes, 0);
	}
	if (rc == 0)
		rc = dfs_release(obj);
	return rc;
}

static void
tell(const char *name, uint64_t number)
{
	d_iov_t     iov   = {.iov_buf = words, .iov_len = SMALL_BYTES, .iov_buf_len = SMALL_BYTES};
	d_sg_list_t sgl   = {.sg_nr = 1, .sg_iovs = &iov};
	daos_size_t found = 0;
	dfs_obj_t  *obj;
	int         rc = dfs_open(dfs, dir, name, S_IFREG, O_RDONLY, 0, 0, NULL, &obj);

	if (rc == 0) {
		rc = dfs_read(dfs, obj, &sgl, 0, &found, NULL);
		OK(dfs_release(obj));
	}
	if (rc == 0)
		look(number, 0, found);
	else
		say_result(number, rc);
}

static void
entry(uint64_t number, uint64_t random)
{
	static const char *const actions[] = {"create", "create", "stat", "read", "unlink"};
	unsigned                 slot      = random % NAMES;
	unsigned                 action    = random / NAMES % 5;
	char                     name[32], rest[32];
	struct stat              st;
	int                      rc;

	snprintf(name, sizeof(name), "f.%d.%u", rank, slot);
	snprintf(rest, sizeof(rest), " %s %u", actions[action], slot);
	say("try", number, rest);
	if (action < 2) {
		say_result(number, create(name, number));
	} else if (action == 2) {
		rc = dfs_stat(dfs, dir, name, &st);
		if (rc == 0)
			say_seen(number, st.st_size, st.st_size);
		else
			say_result(number, rc);
	} else if (action == 3) {
		tell(name, number);
	} else {
		say_result(number, dfs_remove(dfs, dir, name, false, NULL));
	}
}

static void
open_own(int is_transfer)
{
	char name[32];

	snprintf(name, sizeof(name), is_hard ? "hard" : "easy.%d", rank);
	if (is_transfer) {
		OK(dfs_open(dfs, NULL, name, S_IFREG | 0644, O_RDWR | O_CREAT, 0, CHUNK, NULL, &file));
		bytes = is_hard ? HARD_BYTES : EASY_BYTES;
	} else {
		snprintf(name, sizeof(name), is_small ? "small" : "meta.%d", rank);
		OK(dfs_open(dfs, NULL, name, S_IFDIR | 0755, O_RDWR | O_CREAT, 0, 0, NULL, &dir));
		bytes = SMALL_BYTES;
	}
	words = malloc(EASY_BYTES);
}

/* Connects, again while there is no daemon: who comes first when one has just died is told so. */
static int
connect_again(void)
{
	int rc = -DER_UNREACH, tries;

	for (tries = 0; rc == -DER_UNREACH && tries < 1000; tries++) {
		rc = daos_pool_connect("load", NULL, DAOS_PC_RW, &poh, NULL, NULL);
		if (rc != 0)
			usleep(10000);
	}
	return rc;
}

int
main(int argc, char **argv)
{
	uint64_t number, first, count, random;
	int      is_transfer;
	char     line[64];

	CHECK(argc == 4);
	is_hard     = strcmp(argv[1], "hard") == 0;
	is_small    = strcmp(argv[1], "small") == 0;
	is_transfer = is_hard || strcmp(argv[1], "easy") == 0;
	rank        = atoi(argv[2]);
	ranks       = atoi(argv[3]);
	OK(daos_init());
	OK(connect_again());
	OK(daos_cont_open(poh, "files", DAOS_COO_RW, &coh, NULL, NULL));
	OK(dfs_mount(poh, coh, O_RDWR, &dfs));
	open_own(is_transfer);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		CHECK(sscanf(line, "go %lu %lu", &first, &count) == 2);
		for (number = first; number < first + count; number++) {
			random = number * 0x9e3779b97f4a7c15 >> 20;
			if (is_transfer)
				transfer(number, random);
			else
				entry(number, random);
		}
		CHECK(write(1, "idle\n", 5) == 5);
	}
	return 0;
}
