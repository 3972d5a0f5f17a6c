/* A full disk (a limit on file sizes, or a small file system of one's own) and a reader that
 * goes away end a command with one line and exit status 1; nothing half-written is left. */
#include <stdbool.h>
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/commands/mpi_fixture.h"
#include "tests/lib/files/says.h"

static void expect_one_line(const char *text, const char *says)
{
    int rc;
    const char *out = shell(text, &rc);

    if (rc != 1 || !strstr(out, says) || strchr(out, '\n') != out + strlen(out) - 1)
        fail_msg("%s: exit %d and:\n%s", text, rc, out);
}

TEST(a_file_that_does_not_fit_is_one_line_and_no_file)
{
    int rc;

    expect_one_line("ulimit -f 1; $L import $R/gpt6__local.rank0.json.gz -o w.json",
                    "lapwing import: w.json: cannot write: ");
    assert_string_equal(shell("ls", &rc), "");
}

/* The prediction is printed all the same. */
TEST(a_database_that_does_not_fit_is_one_line)
{
    expect_one_line("$L model mlp -o m.json >log.txt; ulimit -f 16;"
                    " $L sim -w m.json --dp 2 --spans --db full.db >shown",
                    "lapwing sim: full.db: ");
    assert_non_null(strstr(shell("cat shown", NULL), "peak memory"));
}

TEST(a_reader_that_goes_away_ends_the_program_silently)
{
    int rc;

    /* the export is longer than a pipe holds */
    const char *out = shell("rm -f full.db; $L sim -w m.json --dp 2 --spans --db r.db >log.txt;"
                            " { $L export 1 --db r.db -o -; echo ended with $? >status; } |"
                            " head -c 1 >first; cat status",
                            &rc);
    assert_non_null(strstr(out, "ended with 0"));
    assert_null(strstr(out, "lapwing export: "));
}

/* --- a run whose database is on a full disk --------------------------------------------------- */

enum how { THREADS, SPAWN, MPI, N_HOWS };
enum { STEP_KIB = 256 };

static const char *const before[N_HOWS] = {"", "", "mpirun --oversubscribe -n 3 "};
static const char *const after[N_HOWS] = {"", "--spawn", "--backend mpi"};

/* A run of 3 ranks, its database on a file system of so many KiB; then what is left: processes,
 * and, when there is room again, runs. Last, a run that has room. */
static const char *run_on_small_disk(enum how how, int kib)
{
    char text[2048];
    int rc;

    snprintf(text, sizeof text,
             "mkdir -p full && unshare "
             "-rm sh -c 'mount -t tmpfs -o size=%dk none full || exit 1; "
             "X=\"timeout -k 10 60 %s$L exec -w m.json --dp 3 %s --compute sleep --db full/s.db -q "
             "--steps\"; "
             "$X 60 >out 2>err; echo status $?; cat out; grep lapwing err; "
             "for p in $(pgrep -x lapwing); do [ \"$(readlink /proc/$p/cwd)\" = \"$PWD\" ] && echo "
             "left; "
             "done; mount -o remount,size=64M full; $L runs --db full/s.db --format json; "
             "$X 3 >out 2>&1; echo then $?'",
             kib, before[how], after[how]);
    return mpi_shell(text, &rc);
}

/* One line says so, what was measured is printed, no process is left, and no run but one that
 * failed. */
static void told_and_over(enum how how, int kib, const char *out)
{
    if (strncmp(out, "status 1\n", 9) != 0 || count_words(out, "lapwing exec: ") != 1 ||
        !strstr(out, "lapwing exec: full/s.db: ") || !strstr(out, "verified: ") ||
        strstr(out, "left\n") || strstr(out, "stored as run") ||
        strstr(out, "\"status\": \"ok\"") || strstr(out, "\"status\": \"running\"") ||
        !strstr(out, "then 0\n"))
        fail_msg("%s, %d KiB:\n%s", after[how], kib, out);
}

static bool has_small_disks(void)
{
    if (system("unshare -rm sh -c 'mount -t tmpfs none /mnt' >/dev/null 2>&1") == 0)
        return true;
    printf("SKIP a_run_that_cannot_be_stored: no file system of one's own here (unshare -rm, "
           "mount)\n");
    return false;
}

/* From a disk that does not take the tables to the first that takes all; the last but one takes
 * the run's row and not its spans. */
TEST(a_run_that_cannot_be_stored_is_told_and_over)
{
    int kib = 64, rc, cut_short = 0;
    bool has_mpi = getenv("LAPWING_MPI") && *getenv("LAPWING_MPI");

    if (!has_small_disks())
        skip();
    shell("$L model mlp --layers 4 --width 64 -o m.json", &rc);
    for (;; kib += STEP_KIB) {
        const char *out = run_on_small_disk(THREADS, kib);
        if (kib > 64 && strncmp(out, "status 0\n", 9) == 0)
            break;
        told_and_over(THREADS, kib, out);
        cut_short += strstr(out, "not stored whole") != NULL;
    }
    assert_true(cut_short > 0);
    for (enum how how = SPAWN; how < (has_mpi ? N_HOWS : MPI); how++) {
        const char *out = run_on_small_disk(how, kib - STEP_KIB);
        told_and_over(how, kib - STEP_KIB, out);
        assert_non_null(strstr(out, "not stored whole"));
    }
}

TEST_GROUP(fixture_open, fixture_close)
