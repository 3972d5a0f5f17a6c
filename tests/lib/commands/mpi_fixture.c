/* mpirun for tests: found by the shell, with the plugins that the Makefile names in LAPWING_MPI. */
#include "tests/lib/commands/mpi_fixture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"

bool has_mpirun(void)
{
    const char *plugins = getenv("LAPWING_MPI");

    return plugins && *plugins && system("command -v mpirun >/dev/null 2>&1") == 0;
}

const char *mpi_shell(const char *words, int *rc)
{
    char self[PATH_MAX], line[3 * PATH_MAX];

    assert_non_null(realpath("/proc/self/exe", self));
    int n = snprintf(line, sizeof line,
                     "export LAPWING_PLUGINS=$LAPWING_MPI OMPI_ALLOW_RUN_AS_ROOT=1 "
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                     "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 "
                     "TSAN_OPTIONS=allocator_may_return_null=1 T=%s "
                     "M='timeout -k 10 240 mpirun --oversubscribe' L; %s",
                     self, words);
    assert_true(n > 0 && (size_t)n < sizeof line);
    return shell(line, rc);
}
