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

static char folder[] = "/tmp/lapwing_full_XXXXXX";

/* The output of "sh -c TEXT" in the test's folder, with $L the binary and $R the recordings. */
static const char *shell(const char *text, int *rc)
{
    static char out[1 << 16];
    char command[2048], *binary = realpath(getenv("LAPWING") ? getenv("LAPWING") : "", NULL);
    char *traces = realpath("traces/recorded", NULL);

    if (!binary || !traces) {
        printf("SKIP LAPWING does not name the binary\n");
        skip();
    }
    snprintf(command, sizeof command, "cd %s && L=%s && R=%s && (%s) 2>&1", folder, binary, traces,
             text);
    free(binary);
    free(traces);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, sizeof out - 1, f);
    out[n] = '\0';
    int status = pclose(f);
    *rc = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
}

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

static int make_folder(void **unused)
{
    (void)unused;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **unused)
{
    char command[128];
    (void)unused;

    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_does_not_fit_is_one_line_and_no_file),
        cmocka_unit_test(a_database_that_does_not_fit_is_one_line),
        cmocka_unit_test(a_reader_that_goes_away_is_no_death_by_signal),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
