/* The version of the DAOS interface that these headers describe. */
#ifndef DAOS_VERSION_H
#define DAOS_VERSION_H

#define DAOS_API_VERSION_MAJOR 2
#define DAOS_API_VERSION_MINOR 8
#define DAOS_API_VERSION_FIX   0

#define DAOS_VERSION_MAJOR 2
#define DAOS_VERSION_MINOR 8
#define DAOS_VERSION_FIX   0
#define DAOS_VERSION       "2.8.0"

#endif /* DAOS_VERSION_H */
