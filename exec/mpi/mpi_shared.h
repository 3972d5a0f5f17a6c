#pragma once

#include <stdint.h>

#include "shared/base/err.h"

struct ompi_communicator_t; /* what Open MPI's MPI_Comm points to */

/* Memory that all members of a communicator share, zeroed, at an address of each one's own. It has
 * no name in any file system, and goes with the last of them. */
struct mpi_shared {
    void *mem; /* NULL: they do not share a machine, or its processes cannot see each other */
    int64_t bytes;
};

/* All members together; they agree on the outcome; the call waits for the others (mpi_worker.h).
 * LW_EFAILED: of MPI. */
enum lw_status mpi_shared_open(struct mpi_shared *n, struct ompi_communicator_t *comm,
                               int64_t bytes, struct lw_err *err);
void mpi_shared_close(struct mpi_shared *n); /* by each on its own */
