/* lapwing doctor: it says what there is, and why not of the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "tests/lib/files/file_fixture.h"
#include "tests/lib/commands/run_fixture.h"

static char *ask(const char *arguments)
{
    static char text[16384];
    char command[512];

    snprintf(command, sizeof command, "%s doctor %s", getenv("LAPWING"), arguments);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    assert_int_equal(pclose(f), 0);
    return text;
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

TEST(every_part_is_named_with_a_detail)
{
    static const char *const names[] = {"database", "cores", "memory", "host cluster", "gnuplot",
                                        "BLAS", "MPI", "CUDA", "NCCL", "backend threads",
                                        "backend mpi", "backend nccl"};
    char key[64];

    const char *text = ask("--format json");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(key, sizeof key, "{\"name\": \"%s\", \"ok\": ", names[i]);
        assert_has(text, key);
    }
    assert_null(strstr(text, "\"detail\": \"\""));
    assert_has(text, "{\"name\": \"backend threads\", \"ok\": true");
}

TEST_WITH(a_database_that_is_none_is_named, runs_open, fixture_close)
{
    char arguments[256];

    FILE *f = fopen(runs_db, "w");
    fputs("this file is a text, and longer than the head of a database\n", f);
    fclose(f);
    snprintf(arguments, sizeof arguments, "--format csv --db %s", runs_db);
    const char *text = ask(arguments);
    assert_has(text, "database,no,SQLite ");
    assert_has(text, "not a usable SQLite database");
}

TEST_WITH(without_gnuplot_the_package_is_named, runs_open, fixture_close)
{
    char *path = strdup(getenv("PATH")), *binary = realpath(getenv("LAPWING"), NULL);

    assert_non_null(binary);
    setenv("LAPWING", binary, 1);
    setenv("PATH", fixture_path(""), 1);
    const char *text = ask("--format csv");
    setenv("PATH", path, 1);
    free(path);
    free(binary);
    assert_has(text, "gnuplot,no,no gnuplot on the PATH (Debian package gnuplot-nox)");
}
