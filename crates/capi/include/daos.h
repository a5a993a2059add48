/* The whole interface. */
#ifndef DAOS_H
#define DAOS_H

#include <daos_version.h>
#include <daos_types.h>
#include <daos_errno.h>
#include <daos_event.h>
#include <daos_obj_class.h>
#include <daos_obj.h>
#include <daos_array.h>
#include <daos_kv.h>
#include <daos_prop.h>
#include <daos_security.h>
#include <daos_cont.h>
#include <daos_pool.h>
#include <daos_api.h>
#include <daos_mgmt.h>
#include <daos_pipeline.h>

#if defined(__cplusplus)
extern "C" {
#endif

int daos_init(void);

/* The last one gives up every handle, and queues as DAOS_EQ_DESTROY_FORCE does. */
int daos_fini(void);

/*
 * Makes the library of a forked process usable, which refuses every handle until then. Handles of the parent on pools,
 * containers and objects, its mounts (dfs_t, dfs_sys_t) and what is open in them are made anew and keep their values, queues
 * begin empty, and open transactions, object id tables and what was under way stay the parent's. So does all that the parent
 * has open in a directory (file:DIR), which has one process alone.
 */
int daos_reinit(void);

#if defined(__cplusplus)
}
#endif

#endif /* DAOS_H */
