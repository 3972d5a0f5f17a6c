#pragma once

#include <stdbool.h>

bool has_mpirun(void); /* and the mpi backend is built */

/* shell() of command_fixture.h with the plugins and the environment of mpirun, $M mpirun and $T
 * this program. */
const char *mpi_shell(const char *words, int *rc);
