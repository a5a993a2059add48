/* Paths that stand for containers. */
#include "fs_kit.h"

static void
paths_are_made_resolved_and_destroyed(void)
{
	struct duns_attr_t made = {0}, found = {0};
	daos_handle_t      cont;

	fs_open_all();
	made.da_type       = 1;
	made.da_chunk_size = 8192;
	OK(duns_create_path(poh, "./path", &made));
	CHECK(made.da_cont[0] != 0 && made.da_pool[0] != 0);
	GIVES(duns_create_path(poh, "./path", &made), EEXIST);
	OK(mkdir("./path/below", 0755));
	OK(duns_resolve_path("./path", &found));
	GIVES(found.da_type, 1);
	CHECK(strcmp(found.da_cont, made.da_cont) == 0 && strcmp(found.da_pool, made.da_pool) == 0);
	CHECK(memcmp(found.da_cuuid, made.da_cuuid, sizeof(uuid_t)) == 0);
	CHECK(found.da_rel_path == NULL);
	duns_destroy_attr(&found);
	OK(duns_resolve_path("./path/below", &found));
	CHECK(strcmp(found.da_rel_path, "/below") == 0);
	duns_destroy_attr(&found);
	CHECK(found.da_rel_path == NULL);
	found.da_flags = DUNS_NO_REVERSE_LOOKUP;
	GIVES(duns_resolve_path("./path/below", &found), ENODATA);
	GIVES(duns_resolve_path("./path/none", &found), ENOENT);
	found.da_flags = DUNS_NO_CHECK_PATH;
	OK(duns_resolve_path("./path/none", &found));
	duns_destroy_attr(&found);
	GIVES(duns_resolve_path(".", &(struct duns_attr_t){0}), ENODATA);
	OK(rmdir("./path/below"));
	OK(daos_cont_open(poh, made.da_cont, DAOS_COO_RO, &cont, NULL, NULL));
	OK(daos_cont_close(cont, NULL));
	OK(duns_destroy_path(poh, "./path"));
	GIVES(access("./path", F_OK), -1);
	GIVES(daos_cont_open(poh, made.da_cont, DAOS_COO_RO, &cont, NULL, NULL), -DER_NONEXIST);
	GIVES(duns_destroy_path(poh, "./path"), ENOENT);
	fs_close_all();
}

static void
other_layouts_are_files(void)
{
	struct duns_attr_t made = {0}, found = {0};
	struct stat        st;

	fs_open_all();
	GIVES(duns_create_path(poh, "./file", &made), EINVAL);
	made.da_type = 2;
	OK(duns_create_path(poh, "./file", &made));
	OK(stat("./file", &st));
	CHECK(S_ISREG(st.st_mode));
	OK(duns_resolve_path("./file", &found));
	GIVES(found.da_type, 2);
	OK(duns_destroy_path(poh, "./file"));
	fs_close_all();
}

static void
containers_are_linked(void)
{
	struct duns_attr_t found = {0};

	fs_open_all();
	OK(duns_link_cont(poh, "files", "./link"));
	OK(duns_resolve_path("./link", &found));
	GIVES(found.da_type, 1);
	GIVES(duns_link_cont(poh, "none", "./other"), ENOENT);
	GIVES(access("./other", F_OK), -1);
	OK(rmdir("./link"));
	fs_close_all();
}

static void
direct_paths_need_no_path(void)
{
	struct duns_attr_t found = {0};
	char               text[] = "DAOS.POSIX://00000000-0000-0000-0000-000000000001/00000000-0000-0000-0000-000000000002";

	OK(duns_resolve_path("daos://pool/files/a/b", &found));
	CHECK(strcmp(found.da_pool, "pool") == 0 && strcmp(found.da_cont, "files") == 0);
	CHECK(strcmp(found.da_rel_path, "/a/b") == 0);
	OK(duns_set_sys_name(&found, "mine"));
	CHECK(strcmp(found.da_sys, "mine") == 0);
	GIVES(duns_set_sys_name(&found, NULL), EINVAL);
	duns_destroy_attr(&found);
	CHECK(found.da_sys == NULL);
	/* A pool alone: whoever copies to it makes a container there. */
	OK(duns_resolve_path("daos://pool", &found));
	CHECK(strcmp(found.da_pool, "pool") == 0 && found.da_cont[0] == 0 && found.da_rel_path == NULL);
	OK(duns_resolve_path("daos://pool/", &found));
	CHECK(strcmp(found.da_pool, "pool") == 0 && found.da_cont[0] == 0);
	GIVES(duns_resolve_path("daos://", &found), EINVAL);
	GIVES(duns_resolve_path("daos:///files", &found), EINVAL);
	GIVES(duns_resolve_path("daos://pool//a", &found), EINVAL);
	found.da_flags = DUNS_NO_PREFIX;
	OK(duns_resolve_path("/pool/files", &found));
	CHECK(found.da_rel_path == NULL);
	OK(duns_parse_attr(text, sizeof(text), &found));
	GIVES(found.da_type, 1);
	GIVES(found.da_cuuid[15], 2);
	GIVES(duns_parse_attr("DAOS.POSIX", 10, &found), EINVAL);
	GIVES(duns_parse_attr(NULL, 10, &found), EINVAL);
}

TESTS(TEST(paths_are_made_resolved_and_destroyed), TEST(other_layouts_are_files), TEST(containers_are_linked),
      TEST(direct_paths_need_no_path))
