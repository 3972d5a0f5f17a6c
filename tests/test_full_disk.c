/* A full disk (here: a limit on file sizes) and a reader that goes away end a command with one line
 * and exit status 1; nothing half-written is left. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/command_fixture.h"
#include "tests/file_fixture.h"

static void expect_one_line(const char *text, const char *says)
{
    int rc;
    const char *out = shell(text, &rc);

    if (rc != 1 || !strstr(out, says) || strchr(out, '\n') != out + strlen(out) - 1)
        fail_msg("%s: exit %d and:\n%s", text, rc, out);
}

static void a_file_that_does_not_fit_is_one_line_and_no_file(void **unused)
{
    int rc;
    (void)unused;

    expect_one_line("ulimit -f 1; $L import $R/gpt6__local.rank0.json.gz -o w.json",
                    "lapwing import: w.json: cannot write: ");
    assert_string_equal(shell("ls", &rc), "");
}

static void a_database_that_does_not_fit_is_one_line(void **unused)
{
    (void)unused;
    expect_one_line("$L model mlp -o m.json >log.txt; ulimit -f 16;"
                    " $L sim -w m.json --dp 2 --spans --db full.db", "lapwing sim: full.db: ");
}

static void a_reader_that_goes_away_is_no_death_by_signal(void **unused)
{
    int rc;
    (void)unused;

    /* the export is longer than a pipe holds */
    const char *out = shell("rm -f full.db; $L sim -w m.json --dp 2 --spans --db r.db >log.txt;"
                            " { $L export 1 --db r.db -o -; echo ended with $? >status; } |"
                            " head -c 1 >first; cat status", &rc);
    assert_non_null(strstr(out, "ended with 1"));
    assert_non_null(strstr(out, "lapwing export: "));
    assert_non_null(strstr(out, "standard output: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_does_not_fit_is_one_line_and_no_file),
        cmocka_unit_test(a_database_that_does_not_fit_is_one_line),
        cmocka_unit_test(a_reader_that_goes_away_is_no_death_by_signal),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
