/* Ranks of an MPI job share a container: the first connects and hands what it has open to the others. */
#include <mpi.h>
#include "harness.h"

#define VALUE_BYTES 8192
#define VALUES 16

/* After so many seconds a rank that hangs is ended by the system. */
#define SECONDS_MAX 100

static void
share(int rank, d_iov_t *blob)
{
	unsigned long long len = blob->iov_len;

	OK(MPI_Bcast(&len, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD));
	if (rank != 0) {
		blob->iov_buf     = malloc(len);
		blob->iov_buf_len = blob->iov_len = len;
	}
	OK(MPI_Bcast(blob->iov_buf, (int)len, MPI_BYTE, 0, MPI_COMM_WORLD));
}

/* One rank opens, and all have the handles then, as MPI programs do it. */
static void
open_together(int rank)
{
	d_iov_t pool = {0}, cont = {0};

	if (rank == 0) {
		OK(daos_pool_connect("pool", NULL, DAOS_PC_RW, &poh, NULL, NULL));
		OK(daos_cont_create_with_label(poh, "ranks", NULL, NULL, NULL));
		OK(daos_cont_open(poh, "ranks", DAOS_COO_RW, &coh, NULL, NULL));
		OK(daos_pool_local2global(poh, &pool));
		pool.iov_buf     = malloc(pool.iov_buf_len);
		pool.iov_len     = pool.iov_buf_len;
		OK(daos_pool_local2global(poh, &pool));
		OK(daos_cont_local2global(coh, &cont));
		cont.iov_buf     = malloc(cont.iov_buf_len);
		cont.iov_len     = cont.iov_buf_len;
		OK(daos_cont_local2global(coh, &cont));
	}
	share(rank, &pool);
	share(rank, &cont);
	if (rank != 0) {
		OK(daos_pool_global2local(pool, &poh));
		OK(daos_cont_global2local(poh, cont, &coh));
	}
	free(pool.iov_buf);
	free(cont.iov_buf);
}

static void
name(char *key, int rank, int number)
{
	snprintf(key, 32, "rank%d-%d", rank, number);
}

int
main(int argc, char **argv)
{
	static char   value[VALUE_BYTES], found[VALUE_BYTES];
	daos_obj_id_t oid = {.lo = 7};
	daos_handle_t kv;
	daos_size_t   size;
	char          key[32];
	int           rank, count, other, i;

	alarm(SECONDS_MAX);
	OK(MPI_Init(&argc, &argv));
	OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	OK(MPI_Comm_size(MPI_COMM_WORLD, &count));
	OK(daos_init());
	/* All at once: whoever comes first starts the daemon, and the others find it. */
	OK(MPI_Barrier(MPI_COMM_WORLD));
	OK(daos_pool_connect("pool", NULL, DAOS_PC_RO, &poh, NULL, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(MPI_Barrier(MPI_COMM_WORLD));

	open_together(rank);
	OK(daos_obj_generate_oid(coh, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	for (i = 0; i < VALUES; i++) {
		name(key, rank, i);
		memset(value, rank * VALUES + i + 1, sizeof(value));
		OK(daos_kv_put(kv, DAOS_TX_NONE, 0, key, sizeof(value), value, NULL));
	}
	OK(MPI_Barrier(MPI_COMM_WORLD));
	for (other = 0; other < count; other++) {
		for (i = 0; i < VALUES; i++) {
			name(key, other, i);
			size = sizeof(found);
			OK(daos_kv_get(kv, DAOS_TX_NONE, 0, key, &size, found, NULL));
			CHECK(size == sizeof(found));
			memset(value, other * VALUES + i + 1, sizeof(value));
			CHECK(memcmp(value, found, sizeof(value)) == 0);
		}
	}
	OK(daos_kv_close(kv, NULL));
	OK(MPI_Barrier(MPI_COMM_WORLD));
	close_all();
	OK(MPI_Finalize());
	if (rank == 0)
		printf("ok %d ranks\n", count);
	return 0;
}
