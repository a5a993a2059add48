/* Making, mounting, connecting. */
#include "fs_kit.h"

/* Of a container as of a file: what is refused is refused there and here, and nothing is changed in silence. */
static void
chunks_of_files_have_sizes_within_limits(void)
{
	static const daos_size_t wrong[] = {1, 1000, 4095, (1 << 30) + 1}, right[] = {4096, 1 << 30};
	dfs_attr_t               attr    = {0}, told;
	daos_handle_t            cont;
	dfs_obj_t               *file;
	dfs_t                   *made;
	size_t                   i;

	fs_open_all();
	for (i = 0; i < 4; i++) {
		attr.da_chunk_size = wrong[i];
		GIVES(dfs_cont_create(poh, NULL, &attr, &cont, &made), EINVAL);
		GIVES(dfs_cont_create_with_label(poh, "wrong", &attr, NULL, NULL, NULL), EINVAL);
		GIVES(daos_cont_open(poh, "wrong", DAOS_COO_RO, &cont, NULL, NULL), -DER_NONEXIST);
		GIVES(dfs_open(dfs, NULL, "wrong", S_IFREG | 0644, O_RDWR | O_CREAT, 0, wrong[i], NULL, &file), EINVAL);
	}
	for (i = 0; i < 2; i++) {
		attr.da_chunk_size = right[i];
		OK(dfs_cont_create(poh, NULL, &attr, &cont, &made));
		OK(dfs_query(made, &told));
		GIVES(told.da_chunk_size, right[i]);
		OK(dfs_umount(made));
		OK(daos_cont_close(cont, NULL));
		OK(dfs_open(dfs, NULL, i ? "large" : "small", S_IFREG | 0644, O_RDWR | O_CREAT, 0, right[i], NULL, &file));
		OK(dfs_release(file));
	}
	fs_close_all();
}

static void
a_file_system_is_made_mounted_and_told(void)
{
	dfs_attr_t     attr = {0}, told = {0};
	daos_handle_t  none = {0};
	uuid_t         uuid, zero = {0};
	dfs_t         *other = NULL;
	daos_prop_t   *props;

	fs_open_all();
	GIVES(dfs_cont_create_with_label(poh, "files", NULL, NULL, NULL, NULL), EEXIST);
	attr.da_chunk_size = 65536;
	attr.da_mode       = DFS_BALANCED;
	strcpy(attr.da_hints, "file:max,dir:single");
	OK(dfs_cont_create(poh, &uuid, &attr, &none, &other));
	CHECK(memcmp(uuid, zero, sizeof(zero)) != 0);
	CHECK(none.cookie != 0);
	OK(dfs_query(other, &told));
	GIVES(told.da_chunk_size, 65536);
	GIVES(told.da_mode, DFS_BALANCED);
	GIVES(told.da_file_oclass_id, OC_SX);
	GIVES(told.da_dir_oclass_id, OC_S1);
	OK(dfs_query(dfs, &told));
	GIVES(told.da_chunk_size, DFS_DEFAULT_CHUNK_SIZE);
	GIVES(told.da_mode, DFS_RELAXED);
	OK(dfs_umount(other));
	OK(daos_cont_close(none, NULL));
	props = daos_prop_alloc(1);
	props->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
	props->dpp_entries[0].dpe_str  = strdup("labelled");
	attr.da_props = props;
	OK(dfs_cont_create(poh, NULL, &attr, NULL, NULL));
	GIVES(dfs_cont_create(poh, NULL, &attr, NULL, NULL), EEXIST);
	OK(daos_cont_open(poh, "labelled", DAOS_COO_RO, &none, NULL, NULL));
	OK(daos_cont_close(none, NULL));
	daos_prop_free(props);
	attr.da_props = NULL;
	strcpy(attr.da_hints, "file:");
	GIVES(dfs_cont_create(poh, NULL, &attr, NULL, NULL), EINVAL);
	fs_close_all();
}

static void
a_mount_ends_and_its_pointer_with_it(void)
{
	daos_size_t size;

	fs_open_all();
	OK(dfs_umount(dfs));
	GIVES(dfs_umount(dfs), EINVAL);
	GIVES(dfs_sync(dfs), EINVAL);
	GIVES(dfs_umount(NULL), EINVAL);
	GIVES(dfs_umount(NO_DFS), EINVAL);
	GIVES(dfs_get_size(dfs, NO_OBJ, &size), EINVAL);
	GIVES(dfs_mount(poh, NO_HANDLE, O_RDWR, &dfs), EINVAL);
	GIVES(dfs_mount(poh, coh, O_RDWR, NULL), EINVAL);
	GIVES(dfs_mount(poh, coh, O_WRONLY, &dfs), EINVAL);
	OK(dfs_mount(poh, coh, O_RDWR, &dfs));
	fs_close_all();
}

static void
a_container_without_files_is_not_mounted(void)
{
	open_all();
	GIVES(dfs_mount(poh, coh, O_RDWR, &dfs), EINVAL);
	close_all();
}

static void
a_mount_for_reading_refuses_changes(void)
{
	dfs_obj_t *obj;
	dfs_t     *ro;

	fs_open_all();
	fs_put(NULL, "f", "stone");
	OK(dfs_mount(poh, coh, O_RDONLY, &ro));
	GIVES(dfs_mkdir(ro, NULL, "d", 0755, 0), EPERM);
	GIVES(dfs_remove(ro, NULL, "f", false, NULL), EPERM);
	GIVES(dfs_move(ro, NULL, "f", NULL, "g", NULL), EPERM);
	GIVES(dfs_chmod(ro, NULL, "f", 0600), EPERM);
	GIVES(dfs_open(ro, NULL, "f", S_IFREG, O_RDWR, 0, 0, NULL, &obj), EPERM);
	GIVES(dfs_sync(ro), EPERM);
	OK(dfs_sync(dfs));
	OK(dfs_open(ro, NULL, "f", S_IFREG, O_RDONLY, 0, 0, NULL, &obj));
	/* What is open belongs to one mount. */
	GIVES(dfs_ostat(dfs, obj, &(struct stat){0}), EINVAL);
	OK(dfs_release(obj));
	OK(dfs_umount(ro));
	fs_close_all();
}

static void
connecting_makes_what_is_missing(void)
{
	dfs_t        *one, *two;
	daos_handle_t lent;

	OK(dfs_init());
	GIVES(dfs_connect("pool", NULL, "new", O_RDWR, NULL, &one), ENOENT);
	GIVES(dfs_connect("none", NULL, "new", O_RDWR, NULL, &one), ENOENT);
	OK(dfs_connect("pool", NULL, "new", O_RDWR | O_CREAT, NULL, &one));
	GIVES(dfs_connect("pool", NULL, "new", O_RDWR | O_CREAT | O_EXCL, NULL, &two), EEXIST);
	OK(dfs_connect("pool", "daos_server", "new", O_RDONLY, NULL, &two));
	OK(dfs_mkdir(one, NULL, "d", 0755, 0));
	OK(dfs_stat(two, NULL, "d", &(struct stat){0}));
	GIVES(dfs_umount(one), EINVAL);
	OK(dfs_cont_get(one, &lent));
	CHECK(lent.cookie != 0);
	GIVES(dfs_disconnect(one), EBUSY);
	GIVES(dfs_cont_put(one, NO_HANDLE), EINVAL);
	OK(dfs_cont_put(one, lent));
	GIVES(dfs_cont_put(one, lent), EINVAL);
	OK(dfs_pool_get(one, &lent));
	GIVES(dfs_disconnect(one), EBUSY);
	OK(dfs_pool_put(one, lent));
	OK(dfs_disconnect(one));
	OK(dfs_disconnect(two));
	OK(dfs_destroy("pool", NULL, "new", 0, NULL));
	GIVES(dfs_destroy("pool", NULL, "new", 0, NULL), ENOENT);
	OK(dfs_fini());
	GIVES(dfs_fini(), EIO);
}

static void
a_prefix_is_no_part_of_the_file_system(void)
{
	dfs_obj_t *obj;
	mode_t     mode = 0;

	fs_open_all();
	OK(dfs_mkdir(dfs, NULL, "d", 0750, 0));
	OK(dfs_set_prefix(dfs, "/mnt/here/"));
	OK(dfs_lookup(dfs, "/mnt/here/d", O_RDONLY, &obj, &mode, NULL));
	GIVES(mode, S_IFDIR | 0750);
	OK(dfs_release(obj));
	OK(dfs_lookup(dfs, "/mnt/here", O_RDONLY, &obj, NULL, NULL));
	OK(dfs_release(obj));
	GIVES(dfs_lookup(dfs, "/mnt/hered", O_RDONLY, &obj, NULL, NULL), EINVAL);
	GIVES(dfs_lookup(dfs, "/d", O_RDONLY, &obj, NULL, NULL), EINVAL);
	GIVES(dfs_set_prefix(dfs, "mnt"), EINVAL);
	OK(dfs_set_prefix(dfs, NULL));
	OK(dfs_lookup(dfs, "/d", O_RDONLY, &obj, NULL, NULL));
	OK(dfs_release(obj));
	fs_close_all();
}

static void
hints_suggest_classes(void)
{
	daos_oclass_id_t cid = 7;

	fs_open_all();
	OK(dfs_suggest_oclass(dfs, "file:max", &cid));
	GIVES(cid, OC_SX);
	OK(dfs_suggest_oclass(dfs, "directory:single", &cid));
	GIVES(cid, OC_S1);
	GIVES(dfs_suggest_oclass(dfs, "pipe:single", &cid), EINVAL);
	fs_close_all();
}

static void
handles_of_the_library_end_with_it(void)
{
	dfs_obj_t *obj;

	fs_open_all();
	obj = fs_open(NULL, "f", O_CREAT);
	OK(daos_fini());
	GIVES(dfs_release(obj), EINVAL);
	GIVES(dfs_umount(dfs), EINVAL);
	OK(daos_init());
	GIVES(dfs_release(obj), EINVAL);
	OK(daos_fini());
}

static void
a_forked_child_has_no_handles(void)
{
	dfs_obj_t *obj;
	int        status;
	pid_t      child;

	fs_open_all();
	obj   = fs_open(NULL, "f", O_CREAT);
	child = fork();
	if (child == 0) {
		GIVES(dfs_release(obj), EINVAL);
		OK(daos_reinit());
		GIVES(dfs_release(obj), EINVAL);
		GIVES(dfs_umount(dfs), EINVAL);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	GIVES(status, 0);
	OK(dfs_release(obj));
	fs_close_all();
}

TESTS(TEST(chunks_of_files_have_sizes_within_limits), TEST(a_file_system_is_made_mounted_and_told), TEST(a_mount_ends_and_its_pointer_with_it),
      TEST(a_container_without_files_is_not_mounted), TEST(a_mount_for_reading_refuses_changes),
      TEST(connecting_makes_what_is_missing), TEST(a_prefix_is_no_part_of_the_file_system),
      TEST(hints_suggest_classes), TEST(handles_of_the_library_end_with_it), TEST(a_forked_child_has_no_handles))
