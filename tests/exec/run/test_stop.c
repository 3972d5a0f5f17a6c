/* What becomes of a run when a rank fails, hangs, ends, is killed or is stopped, when a link
 * stalls, when memory or disk run out: everybody stops within the time limit, nobody is left,
 * the run is stored as failed with where each rank was, and the next run works. LAPWING_STRESS=N
 * repeats every case N times (make stress). */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include "tests/lib/unit.h"

#include "tests/lib/files/file_fixture.h"
#include "tests/lib/commands/mpi_fixture.h"

/* The plan of 4 layers on 3 ranks: in its steady program, step 1 and later, op 15 is the first
 * forward, 24 a copy in, 27 the all-reduce, 29 the optimizer. */
enum { COPY_OP = 24, REDUCE_OP = 27, UPDATE_OP = 29, RANKS = 3 };

/* mine: the processes of this folder's runs. ranks_up: waits until there is one for each rank. */
static const char *shell(const char *words, int *rc)
{
    char line[4096];

    int n = snprintf(line, sizeof line,
                     "mine() { for p in $(pgrep -x 'lapwing|exe'); do "
                     "[ \"$(readlink /proc/$p/cwd)\" = \"$PWD\" ] && echo $p; done; true; } && "
                     "ranks_up() { for i in $(seq 200); do [ $(mine | wc -l) -ge %d ] && break; "
                     "sleep 0.1; done; } && { %s; } 2>&1",
                     RANKS, words);
    assert_true(n > 0 && (size_t)n < sizeof line);
    return mpi_shell(line, rc);
}

static int repeats(void)
{
    const char *n = getenv("LAPWING_STRESS");
    return n && *n ? atoi(n) : 1;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum how { THREADS, SPAWN, MPI, N_HOWS, SPAWN_MPI = N_HOWS, N_LAUNCHES };
enum { T = 1 << THREADS, S = 1 << SPAWN, M = 1 << MPI };

static const char *const before[N_LAUNCHES] = {"", "", "mpirun --oversubscribe -n 3 ", ""};
static const char *const after[N_LAUNCHES] = {"", " --spawn", " --backend mpi",
                                              " --spawn --backend mpi"};

/* No process of this folder's runs is left: each has the folder as its working directory. Where the
 * launcher itself was killed, its ranks have until the deadline to see it. */
static void nobody_is_left(const char *what)
{
    double until = now_s() + 5;
    int rc;
    const char *out = shell("mine", &rc);

    while (*out && now_s() < until)
        out = shell("sleep 0.1; mine", &rc);
    if (*out)
        fail_msg("%s: left are %s", what, out);
}

/* Runs, expects a run stored as failed or timed out that names the ops, and nobody left. */
static void stops(enum how how, int rank, int op, const char *kind, const char *expected)
{
    char words[512];
    int rc, rc_sql;

    snprintf(words, sizeof words,
             "rm -f s.db; timeout 40 %s$L exec -w w.json --dp %d%s --steps 3 --warmup 0 "
             "--compute sleep --timeout 0.5 --db s.db --fault %d:2:%d:%s",
             before[how], RANKS, after[how], rank, op, kind);
    char *out = strdup(shell(words, &rc));
    if (rc == 0 || rc == 124 || (how != MPI && rc > 3) || !strstr(out, expected))
        fail_msg("%s\nstatus %d, expected \"%s\" in:\n%s", words, rc, expected, out);
    const char *runs = shell("$L runs --db s.db --format json", &rc_sql);
    bool stored = strstr(runs, "\"status\": \"failed\"") || strstr(runs, "\"status\": \"timeout\"");
    if (!stored || strstr(runs, "\"id\": 2"))
        fail_msg("%s\nis stored as:\n%s\nafter:\n%s", words, runs, out);
    free(out);
    nobody_is_left(words);
}

static void the_next_run_works(enum how how)
{
    char words[256];
    int rc;

    snprintf(words, sizeof words,
             "timeout 60 %s$L exec -w w.json --dp %d%s --steps 2 --compute sleep --db s.db",
             before[how], RANKS, after[how]);
    const char *out = shell(words, &rc);
    if (rc != 0 || !strstr(out, "verified: "))
        fail_msg("%s: status %d\n%s", words, rc, out);
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
        for (int k = 0; k < repeats(); k++)
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

/* At any moment, also inside a collective of 16 MiB: nobody is left, and what is stored is a
 * failure. */
TEST(a_rank_killed_at_any_moment_stops_all)
{
    for (int how = SPAWN; how < (has_mpirun() ? N_HOWS : MPI); how++)
        for (int k = 0; k < repeats(); k++) {
            char words[512];
            int rc;
            snprintf(
                words, sizeof words,
                "rm -f s.db; timeout 40 %s$L exec -w big.json --dp %d%s --steps 100000 --no-verify "
                "--compute sleep --timeout 2 --db s.db -q >/dev/null 2>err & p=$!; ranks_up; "
                "sleep 0.%d; kill -9 $(mine | tail -n 1); wait $p; echo status $?; cat err; "
                "$L runs --db s.db 2>&1",
                before[how], RANKS, after[how], 6 + k % 4);
            const char *out = shell(words, &rc);
            if (strstr(out, "status 0\n") || strstr(out, "status 124\n"))
                fail_msg("%s\n%s", words, out);
            nobody_is_left(words);
        }
}

/* The run is in the database once, failed, with the rank that died: also where it is rank 0, and
 * where the launcher kills the others. With --spawn it is also printed once, and the exit status is
 * 1: the parent is not one of the ranks, also where these are mpirun's. */
TEST(a_killed_rank_is_stored_once_and_blamed)
{
    for (int how = SPAWN; how < (has_mpirun() ? N_LAUNCHES : MPI); how++)
        for (int k = 0; k < 2 * repeats(); k++) {
            bool own = how != MPI;
            int victim = k % 2, rc;
            char words[1024], gone[32], ended[32];
            snprintf(gone, sizeof gone, "rank %d is gone", victim);
            snprintf(ended, sizeof ended, "rank %d was ended", victim);
            snprintf(
                words, sizeof words,
                "rm -f s.db*; timeout 60 %s$L exec -w w.json --dp %d%s --steps 100000 --no-verify "
                "--compute sleep --timeout 2 --db s.db -q --format json >out 2>err & p=$!; "
                "ranks_up; sleep 1.%d; kill -9 $(for q in $(mine); do "
                "tr '\\0' '\\n' </proc/$q/environ | grep -qE "
                "'^(LAPWING_RANK|OMPI_COMM_WORLD_RANK)=%d$' && echo $q; done); wait $p; echo "
                "status $?; "
                "for i in $(seq 200); do [ -z \"$(mine)\" ] && break; sleep 0.1; done; "
                "$L runs --db s.db --format json",
                before[how], RANKS, after[how], k % 4, victim);
            const char *out = shell(words, &rc);
            bool failed =
                strstr(out, "\"status\": \"failed\"") || strstr(out, "\"status\": \"timeout\"");
            bool whose = strstr(out, gone) || strstr(out, ended) ||
                         (!own && victim == 0 && strstr(out, "ended before the run was stored"));
            if (!failed || !whose || strstr(out, "\"id\": 2") || strstr(out, "status 0\n") ||
                (own && !strstr(out, "status 1\n")))
                fail_msg("%s\n%s", words, out);
            nobody_is_left(words);
            /* else the lowest rank that lives prints it, unless mpirun kills that before it ends */
            out = shell("cat out; echo; cat err", &rc);
            const char *status = strstr(out, "\n  \"status\": \"");
            if ((own && (!status || !strstr(out, "\n  \"error\": \""))) ||
                (status && strstr(status + 1, "\n  \"status\": ")))
                fail_msg("%s: not one object with the failure in\n%s", words, out);
        }
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
                     "timeout 40 %s$L exec -w w.json --dp %d%s --steps 4 --warmup 1 --no-db "
                     "--compute sleep --fault %d:%d:%d:flip; echo status $?", before[how], RANKS,
                     after[how], step % RANKS, step, UPDATE_OP);
            snprintf(expected, sizeof expected,
                     "NOT verified: step %d: the averaged gradient of parameter", step);
            const char *out = shell(words, &rc);
            if (!strstr(out, expected) || !strstr(out, "status 3\n"))
                fail_msg("%s\n%s", words, out);
        }
}

TEST(a_signal_ends_the_run_and_stores_it)
{
    for (int how = THREADS; how <= SPAWN; how++) {
        char words[512];
        int rc;
        snprintf(
            words, sizeof words,
            "rm -f s.db; timeout 40 $L exec -w w.json --dp 3%s --steps 100000 --compute sleep --db "
            "s.db -q "
            "2>&1 & p=$!; sleep 0.7; kill -TERM $(mine | head -n 1); wait $p; echo status $?; $L "
            "runs --db s.db --format json",
            after[how]);
        const char *out = shell(words, &rc);
        if (!strstr(out, "stopped by signal 15") || !strstr(out, "\"status\": \"failed\"") ||
            !strstr(out, "status 1\n"))
            fail_msg("%s\n%s", words, out);
        nobody_is_left(words);
    }
}

/* At any moment, to the parent alone or to all as a terminal does: nobody and no file is left, and
 * the parent ends at once. */
TEST(spawned_ranks_and_files_go_with_a_signal)
{
    static const char *const commands[] = {
        "exec -w w.json --dp 3 --spawn --steps 100000 --compute sleep --timeout 2 --db s.db -q",
        "calibrate --spawn --ranks 2 -o c.json -q"};
    static const char *const signals[] = {"INT", "TERM", "HUP"};
    unsigned seed = (unsigned)time(NULL);

    srand(seed);
    for (int k = 0; k < unit_cases(6, 50); k++) {
        char words[768];
        int rc;
        snprintf(words, sizeof words,
                 "rm -f s.db*; timeout %s --preserve-status -k 30 -s %s 0.%02d $L %s >out 2>err; "
                 "echo status $?; ls -A | grep -vE '^(s.db.*|w.json|big.json|out|err)$'; true",
                 rand() % 2 ? "--foreground" : "", signals[k % 3], 1 + rand() % 99,
                 commands[k % 4 == 3]);
        const char *out = shell(words, &rc);
        const char *end = strchr(out, '\n');
        if (strncmp(out, "status ", 7) != 0 || strstr(out, "status 137") || !end || end[1])
            fail_msg("%s\n%s", words, out);
        nobody_is_left(words);
    }
}

TEST(a_full_disk_ends_all_and_the_next_run_works)
{
    for (int k = 0; k < repeats(); k++) {
        int rc;
        const char *out =
            shell("rm -f s.db*; ( ulimit -f 8; timeout 40 $L exec -w w.json --dp 3 --steps 3 "
                  "--compute sleep --db s.db ); echo status $?",
                  &rc);
        if (!strstr(out, "status 1\n") || !strstr(out, "s.db"))
            fail_msg("%s", out);
        nobody_is_left("full disk");
        out = shell("timeout 40 $L exec -w w.json --dp 3 --spawn --steps 3 --compute sleep --db "
                    "/proc/s.db; "
                    "echo status $?",
                    &rc);
        if (!strstr(out, "status 1\n") || !strstr(out, "/proc/s.db"))
            fail_msg("%s", out);
        nobody_is_left("no disk");
        shell("rm -f s.db*", &rc);
    }
    the_next_run_works(SPAWN);
}

TEST(too_few_open_files_are_named_before_the_start)
{
    int rc;

    const char *out =
        shell("ulimit -n 16; timeout 20 $L exec -w w.json --dp 8 --spawn --steps 1 --no-db; "
              "echo status $?",
              &rc);
    if (!strstr(out,
                "8 processes: rank 0 needs 26 open files, and the limit is 16: raise it (ulimit -n "
                "26), or leave out --spawn\nstatus 1\n"))
        fail_msg("%s", out);
    out = shell(
        "ulimit -n 16; timeout 60 $L exec -w w.json --dp 3 --spawn --steps 1 --compute sleep --db "
        "s.db; echo status $?",
        &rc);
    if (!strstr(out, "status 0\n"))
        fail_msg("%s", out);
    nobody_is_left("ulimit");
}

TEST(ranks_with_other_options_are_refused)
{
    int rc;

    const char *out = shell(
        "t() { LAPWING_RANK=$1 LAPWING_RANKS=2 LAPWING_TOKEN=x$$ LAPWING_RENDEZVOUS="
        "127.0.0.1:$((20000 + $$ % 12000)) timeout 40 $L exec -w w.json --dp 2 --no-db --steps $2 "
        "--optimizer $3; echo status $?; }; t 0 3 sgd & t 1 3 adam & wait; t 0 3 sgd & t 1 4 sgd & "
        "wait",
        &rc);
    if (!strstr(out, "rank 1 was started with optimizer adam, rank 0 with optimizer sgd: give all "
                     "ranks the same "
                     "options") ||
        !strstr(out, "rank 1 was started with --steps 4, rank 0 with --steps 3") ||
        strstr(out, "status 0"))
        fail_msg("%s", out);
}

/* Rank 1 ends before it could connect: rank 0 ends with that, not after 30 s without it. */
TEST(a_rank_that_does_not_come_is_not_waited_for)
{
    static const char *const wrong[] = {"--nosuch", "--compute nosuch", "--backend nosuch",
                                        "--dp 2 --pp 7"};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char words[512];
        int rc;
        snprintf(words, sizeof words,
                 "t() { LAPWING_RANK=$1 LAPWING_RANKS=2 LAPWING_TOKEN=test LAPWING_RENDEZVOUS="
                 "127.0.0.1:$((20000 + $$ %% 12000)) timeout 25 $L exec -w w.json --dp 2 --no-db "
                 "--compute sleep $2; echo rank $1 status $?; }; t 0 & sleep 0.5; t 1 '%s'; wait",
                 wrong[i]);
        const char *out = shell(words, &rc);
        if (!strstr(out, "rank 1 gave up before the ranks met: it ended with exit status ") ||
            !strstr(out, "rank 0 status 1\n"))
            fail_msg("%s\n%s", words, out);
    }
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
        {"1:0:27:fail", "rank 1 did not meet op 27 in step 0: the fault was not made", 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        int rc;
        snprintf(words, sizeof words,
                 "$L exec -w w.json --dp 3 --steps 1 --warmup 0 --compute sleep --no-db "
                 "--fault %s",
                 cases[i].fault);
        const char *out = shell(words, &rc);
        if (rc != cases[i].rc || !strstr(out, cases[i].words))
            fail_msg("%s: status %d\n%s", words, rc, out);
    }
}

static int make_models(void **state)
{
    int rc;

    fixture_open(state);
    shell("$L model mlp --layers 4 --width 64 -o w.json && $L model mlp --layers 4 --width 1024 -o "
        "big.json",
        &rc);
    return rc;
}

TEST_GROUP(make_models, fixture_close)
