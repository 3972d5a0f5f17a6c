/* lapwing doctor: it says what there is, and why not of the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "tests/lib/files/file_fixture.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/commands/command_fixture.h"

TEST_WITH(every_part_is_named_with_a_detail, fixture_open, fixture_close)
{
    static const char *const names[] = {"database", "cores", "memory", "host cluster", "gnuplot",
                                        "BLAS", "MPI", "CUDA", "NCCL", "backend threads",
                                        "backend mpi", "backend nccl"};
    char key[64];

    const char *text = lapwing("doctor --format json", NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(key, sizeof key, "{\"name\": \"%s\", \"ok\": ", names[i]);
        has(text, key);
    }
    assert_null(strstr(text, "\"detail\": \"\""));
    has(text, "{\"name\": \"backend threads\", \"ok\": true");
}

TEST_WITH(a_database_that_is_none_is_named, runs_open, fixture_close)
{
    char arguments[256];

    fixture_put(runs_db, "this file is a text, and longer than the head of a database\n");
    snprintf(arguments, sizeof arguments, "doctor --format csv --db %s", runs_db);
    const char *text = lapwing(arguments, NULL);
    has(text, "database,no,SQLite ");
    has(text, "not a usable SQLite database");
}

TEST_WITH(without_gnuplot_the_package_is_named, runs_open, fixture_close)
{
    char *path = strdup(getenv("PATH"));

    setenv("PATH", fixture_path(""), 1);
    const char *text = lapwing("doctor --format csv", NULL);
    setenv("PATH", path, 1);
    free(path);
    has(text, "gnuplot,no,no gnuplot on the PATH (Debian package gnuplot-nox)");
}
