/* Files and directories by paths. All functions return 0 or a positive errno. */
#ifndef DAOS_FS_SYS_H
#define DAOS_FS_SYS_H

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <daos_fs.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Directories are not kept open between calls; only one thread uses the mount. */
#define DFS_SYS_NO_CACHE 1
#define DFS_SYS_NO_LOCK  2

/* A mount that is used by paths. */
typedef struct dfs_sys dfs_sys_t;

int dfs_sys_connect(const char *pool, const char *sys, const char *cont, int mflags, int sflags,
		    dfs_attr_t *attr, dfs_sys_t **dfs_sys);
int dfs_sys_disconnect(dfs_sys_t *dfs_sys);
int dfs_sys_local2global_all(dfs_sys_t *dfs_sys, d_iov_t *glob);
int dfs_sys_global2local_all(int mflags, int sflags, d_iov_t glob, dfs_sys_t **dfs_sys);
int dfs_sys_mount(daos_handle_t poh, daos_handle_t coh, int mflags, int sflags,
		  dfs_sys_t **dfs_sys);
int dfs_sys_umount(dfs_sys_t *dfs_sys);
int dfs_sys_set_prefix(dfs_sys_t *dfs_sys, const char *prefix);
int dfs_sys_local2global(dfs_sys_t *dfs_sys, d_iov_t *glob);
int dfs_sys_global2local(daos_handle_t poh, daos_handle_t coh, int mflags, int sflags, d_iov_t glob,
			 dfs_sys_t **dfs_sys);
int dfs_sys2base(dfs_sys_t *dfs_sys, dfs_t **dfs);

/* With O_NOFOLLOW in flags a symbolic link itself is meant. */
int dfs_sys_access(dfs_sys_t *dfs_sys, const char *path, int mask, int flags);
int dfs_sys_chmod(dfs_sys_t *dfs_sys, const char *path, mode_t mode);
int dfs_sys_chown(dfs_sys_t *dfs_sys, const char *path, uid_t uid, gid_t gid, int flags);
int dfs_sys_setattr(dfs_sys_t *dfs_sys, const char *path, struct stat *stbuf, int flags,
		    int sflags);
/* Strict C99 knows no such struct. */
struct timespec;
int dfs_sys_utimens(dfs_sys_t *dfs_sys, const char *path, const struct timespec *times,
		    int flags);
int dfs_sys_stat(dfs_sys_t *dfs_sys, const char *path, int flags, struct stat *buf);
int dfs_sys_mknod(dfs_sys_t *dfs_sys, const char *path, mode_t mode, daos_oclass_id_t cid,
		  daos_size_t chunk_size);
int dfs_sys_listxattr(dfs_sys_t *dfs_sys, const char *path, char *list, daos_size_t *size,
		      int flags);
int dfs_sys_getxattr(dfs_sys_t *dfs_sys, const char *path, const char *name, void *value,
		     daos_size_t *size, int flags);
int dfs_sys_setxattr(dfs_sys_t *dfs_sys, const char *path, const char *name, const void *value,
		     daos_size_t size, int flags, int sflags);
int dfs_sys_removexattr(dfs_sys_t *dfs_sys, const char *path, const char *name, int flags);
int dfs_sys_readlink(dfs_sys_t *dfs_sys, const char *path, char *buf, daos_size_t *size);
int dfs_sys_symlink(dfs_sys_t *dfs_sys, const char *target, const char *path);
int dfs_sys_open(dfs_sys_t *dfs_sys, const char *path, mode_t mode, int flags, daos_oclass_id_t cid,
		 daos_size_t chunk_size, const char *value, dfs_obj_t **obj);
int dfs_sys_close(dfs_obj_t *obj);
int dfs_sys_read(dfs_sys_t *dfs_sys, dfs_obj_t *obj, void *buf, daos_off_t off, daos_size_t *size,
		 daos_event_t *ev);
int dfs_sys_write(dfs_sys_t *dfs_sys, dfs_obj_t *obj, const void *buf, daos_off_t off,
		  daos_size_t *size, daos_event_t *ev);
int dfs_sys_punch(dfs_sys_t *dfs_sys, const char *path, daos_off_t off, daos_off_t len);
int dfs_sys_remove(dfs_sys_t *dfs_sys, const char *path, bool force, daos_obj_id_t *oid);
int dfs_sys_remove_type(dfs_sys_t *dfs_sys, const char *path, bool force, mode_t mode,
			daos_obj_id_t *oid);
int dfs_sys_mkdir(dfs_sys_t *dfs_sys, const char *path, mode_t mode, daos_oclass_id_t cid);
int dfs_sys_mkdir_p(dfs_sys_t *dfs_sys, const char *path, mode_t mode, daos_oclass_id_t cid);

/* A DIR of these functions is only for these functions; what readdir gives lasts until its next call. */
int dfs_sys_opendir(dfs_sys_t *dfs_sys, const char *path, int flags, DIR **dirp);
int dfs_sys_closedir(DIR *dirp);
int dfs_sys_readdir(dfs_sys_t *dfs_sys, DIR *dirp, struct dirent **dirent);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_FS_SYS_H */
