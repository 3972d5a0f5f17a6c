/* What becomes of a run when a rank fails, hangs or ends, when a link stalls, when memory runs out,
 * when a bit flips: every rank stops within the time limit, no process is left, the run is stored
 * as failed with where each rank was, and the next run works. LAPWING_STRESS=N repeats every case N
 * times (make stress). */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/mpi_fixture.h"
#include "tests/lib/commands/stop_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(stop_open, fixture_close)

/* The plan of 4 layers on 3 ranks: in its steady program, step 1 and later, op 15 is the first
 * forward, 24 a copy in, 27 the all-reduce, 29 the optimizer. */
enum { COPY_OP = 24, REDUCE_OP = 27, UPDATE_OP = 29 };
enum { T = 1 << THREADS, S = 1 << SPAWN, M = 1 << MPI };

/* Runs, expects a run stored as failed or timed out that names the ops, and no process left. */
static void stops(enum how how, int rank, int op, const char *kind, const char *expected)
{
    char words[512], first[160];
    int rc, rc_sql;

    snprintf(words, sizeof words,
             "rm -f s.db; timeout -k 10 40 %s$L exec -w w.json --dp %d%s --steps 3 --warmup 0 "
             "--compute sleep --timeout 0.5 --db s.db --fault %d:2:%d:%s",
             stop_before[how], RANKS, stop_after[how], rank, op, kind);
    char *out = strdup(stop_shell(words, &rc));
    /* on a busy machine a rank is killed before it could say it, and the parent says so */
    snprintf(first, sizeof first,
             "rank %d ended first; the ranks ended with exit status 1; those "
             "that had not ended in time were killed",
             rank);
    bool says = text_says(out, expected) || text_says(out, first);
    if (rc == 0 || rc == 124 || (how != MPI && rc > 3) || !says)
        fail_msg("%s\nstatus %d, expected \"%s\" in:\n%s", words, rc, expected, out);
    const char *runs = stop_shell("$L runs --db s.db --format json", &rc_sql);
    bool stored = strstr(runs, "\"status\": \"failed\"") || strstr(runs, "\"status\": \"timeout\"");
    if (!stored || strstr(runs, "\"id\": 2"))
        fail_msg("%s\nis stored as:\n%s\nafter:\n%s", words, runs, out);
    free(out);
    nobody_is_left(words);
}

static void every_failure_stops_all(enum how how)
{
    static const struct {
        const char *kind;
        int rank, op;
        bool ends_process;
        int always; /* bits of `how`: the rest under stress alone */
        const char *expected;
    } cases[] = {
        {"fail", 1, COPY_OP, false, T | S | M,
         "rank 1: step 2, last finished: op 23 (backward layers.1); first "
         "unfinished: op 24 (copy_in)"},
        {"hang", 1, COPY_OP, false, 0,
         "rank 1: step 2, last finished: op 23 (backward layers.1); first "
         "unfinished: op 24 (copy_in)"},
        {"hang", 2, REDUCE_OP, false, T | S,
         "rank 2: step 2, last finished: op 26 (copy_in); first unfinished: op "
         "27 (all_reduce of bucket 1)"}, /* its link stalls */
        {"memory", 1, COPY_OP, false, T | S,
         "step 0: out of memory: the system refuses 64 MiB more; last finished: none; first "
         "unfinished: op 0 (forward layers.0)"},
        {"exit", 1, COPY_OP, true, S, "rank 1 is gone"},
        {"kill", 1, REDUCE_OP, true, M, "rank 1 is gone"},
        {"kill", 0, COPY_OP, true, S, "rank 0 is gone"}, /* rank 1 stores the run */
        {"stop", 1, COPY_OP, true, M, "not done after 0.5 s"},
        {"stop", 0, COPY_OP, true, S, "not done after 0.5 s"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if ((cases[i].ends_process && how == THREADS) ||
            (!(cases[i].always & 1 << how) && !getenv("LAPWING_STRESS")))
            continue;
        for (int k = 0; k < stop_repeats(); k++)
            stops(how, cases[i].rank, cases[i].op, cases[i].kind, cases[i].expected);
        if (getenv("LAPWING_STRESS"))
            the_next_run_works(how);
    }
    the_next_run_works(how);
}

TEST(threads_stop_whatever_fails)
{
    every_failure_stops_all(THREADS);
}

TEST(processes_stop_whatever_fails)
{
    every_failure_stops_all(SPAWN);
}

TEST(mpi_ranks_stop_whatever_fails)
{
    if (!has_mpirun()) {
        printf("SKIP mpi_ranks_stop_whatever_fails: no Open MPI here\n");
        skip();
    }
    every_failure_stops_all(MPI);
}

/* The lowest bit of an averaged gradient, on one rank in one step: the run ends, and is not
 * verified. */
TEST(a_flipped_bit_is_found_on_all_kinds_of_ranks)
{
    for (int how = THREADS; how < (has_mpirun() ? N_HOWS : MPI); how++)
        for (int step = 1; step < 5; step++) {
            char words[512], expected[96];
            int rc;
            snprintf(words, sizeof words,
                     "timeout -k 10 40 %s$L exec -w w.json --dp %d%s --steps 4 --warmup 1 --no-db "
                     "--compute sleep --fault %d:%d:%d:flip; echo status $?",
                     stop_before[how], RANKS, stop_after[how], step % RANKS, step, UPDATE_OP);
            snprintf(expected, sizeof expected,
                     "NOT verified: step %d: the averaged gradient of parameter", step);
            const char *out = stop_shell(words, &rc);
            if (!strstr(out, expected) || !strstr(out, "status 3\n"))
                fail_msg("%s\n%s", words, out);
        }
}

/* The lowest bit of a gradient is beyond six digits. */
TEST(two_gradients_that_differ_are_printed_differently)
{
    char got[32], right[32];
    int rc;
    const char *out = stop_shell("$L exec -w w.json --dp 3 --steps 1 --warmup 0 --compute sleep "
                                 "--no-db --optimizer adam --fault 1:0:14:flip 2>&1 | "
                                 "tr -s '\\n ' ' '",
                                 &rc);
    const char *at = strstr(out, "its last gradient is ");

    if (!at || sscanf(at, "its last gradient is %31s instead of %31s", got, right) != 2)
        fail_msg("%s", out);
    right[strcspn(right, ";")] = '\0';
    assert_string_not_equal(got, right);
}

TEST(faults_that_make_no_sense_are_refused)
{
    static const struct {
        const char *fault, *words;
        int rc;
    } cases[] = {
        {"1:2:3", "is not RANK:STEP:OP:KIND", 2},
        {"1:2:3:melt", "is not RANK:STEP:OP:KIND", 2},
        {"9:0:0:fail", "fault in op 0 of rank 9: the plan has 30 ops and 3 ranks", 1},
        {"1:0:0:kill", "needs ranks that are processes", 1},
        {"1:0:27:flip", "needs an optimizer op, on backend threads or mpi: op 27 is all_reduce", 1},
        {"1:0:29:flip", "rank 1 did not meet op 29 in step 0: the fault was not made", 1},
        {"1:0:27:fail", "rank 1 did not meet op 27 in step 0: the fault was not made", 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        int rc;
        snprintf(words, sizeof words,
                 "$L exec -w w.json --dp 3 --steps 1 --warmup 0 --compute sleep --no-db "
                 "--fault %s",
                 cases[i].fault);
        const char *out = stop_shell(words, &rc);
        if (rc != cases[i].rc || !strstr(out, cases[i].words))
            fail_msg("%s: status %d\n%s", words, rc, out);
    }
}
