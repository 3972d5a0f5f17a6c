#pragma once

#include "exec/backend/backend.h"

/* The MPI plugin takes its memory from the program: shared/base/arena.h's lw_alloc and its kin,
 * as the plugin's own files call them, lead to what the program lent. Once, before anything
 * else. */
void mpi_host_set(const struct exec_host *host);
