/* Paths that stand for containers. All functions return 0 or a positive errno. */
#ifndef DAOS_UNS_H
#define DAOS_UNS_H

#include <stdbool.h>
#include <daos_types.h>
#include <daos_cont.h>
#include <daos_obj_class.h>
#include <daos_prop.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* The extended attribute of a path that stands for a container, and its form: layout, pool, container. */
#define DUNS_XATTR_NAME    "user.daos"
#define DUNS_MAX_XATTR_LEN 170
#define DUNS_XATTR_FMT     "DAOS.%s://%36s/%36s"

#ifndef DAOS_PROP_LABEL_MAX_LEN
#define DAOS_PROP_LABEL_MAX_LEN 127
#endif
#ifndef DAOS_PROP_MAX_LABEL_BUF_LEN
#define DAOS_PROP_MAX_LABEL_BUF_LEN (DAOS_PROP_LABEL_MAX_LEN + 1)
#endif
#ifndef DAOS_CONT_HINT_MAX_LEN
#define DAOS_CONT_HINT_MAX_LEN 128
#endif

/* How a path is looked at. */
enum {
	/* It is /pool/container/path, without daos:/ before it. */
	DUNS_NO_PREFIX         = (1 << 0),
	/* The directories above it are not looked at. */
	DUNS_NO_REVERSE_LOOKUP = (1 << 1),
	/* It need not be there. */
	DUNS_NO_CHECK_PATH     = (1 << 2),
};

/* What a path stands for, or is to stand for; zero it to begin. */
struct duns_attr_t {
	daos_cont_layout_t da_type;
	daos_oclass_id_t   da_oclass_id;
	daos_size_t        da_chunk_size;
	daos_prop_t       *da_props;
	uint32_t           da_flags;
	char               da_pool[DAOS_PROP_MAX_LABEL_BUF_LEN];
	char               da_cont[DAOS_PROP_MAX_LABEL_BUF_LEN];
	char              *da_sys;
	char              *da_rel_path;
	bool               da_on_lustre;
	bool               da_no_prefix;
	uuid_t             da_puuid;
	uuid_t             da_cuuid;
	daos_oclass_id_t   da_dir_oclass_id;
	daos_oclass_id_t   da_file_oclass_id;
	char               da_hints[DAOS_CONT_HINT_MAX_LEN];
};

/* Makes a container of the layout da_type, and a directory or file that stands for it. */
int duns_create_path(daos_handle_t poh, const char *path, struct duns_attr_t *attrp);

/* Tells what a path stands for: daos://pool/container/path, or one that duns_create_path or duns_link_cont made. */
int duns_resolve_path(const char *path, struct duns_attr_t *attr);

/* Destroys the container that a path stands for, and removes the path. */
int duns_destroy_path(daos_handle_t poh, const char *path);

/* Tells what a value of the extended attribute means. */
int duns_parse_attr(char *str, daos_size_t len, struct duns_attr_t *attr);

int duns_set_sys_name(struct duns_attr_t *attrp, const char *sys);

/* Frees what the library has put into an attribute. */
void duns_destroy_attr(struct duns_attr_t *attrp);

/* Makes a path that stands for a container that there is. */
int duns_link_cont(daos_handle_t poh, const char *cont, const char *path);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_UNS_H */
