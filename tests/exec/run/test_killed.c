/* What becomes of a run when a rank or the whole run is killed or gets a signal at any moment, when
 * the disk is full, when ranks do not come or were started otherwise: no process is left, and what
 * is stored and printed names the failure. LAPWING_STRESS=N repeats cases N times. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/mpi_fixture.h"
#include "tests/lib/commands/stop_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(stop_open, fixture_close)

/* At any moment, also inside a collective of 16 MiB: no process is left, and what is stored is a
 * failure. */
TEST(a_rank_killed_at_any_moment_stops_all)
{
    for (int how = SPAWN; how < (has_mpirun() ? N_HOWS : MPI); how++)
        for (int k = 0; k < stop_repeats(); k++) {
            char words[512];
            int rc;
            snprintf(words, sizeof words,
                     "rm -f s.db; timeout -k 10 40 %s$L exec -w big.json --dp %d%s --steps 5000 "
                     "--no-verify "
                     "--compute sleep --timeout 2 --db s.db -q >/dev/null 2>err & p=$!; ranks_up; "
                     "sleep 0.%d; kill -9 $(mine | tail -n 1); wait $p; echo status $?; cat err; "
                     "$L runs --db s.db 2>&1",
                     stop_before[how], RANKS, stop_after[how], 6 + k % 4);
            const char *out = stop_shell(words, &rc);
            if (strstr(out, "status 0\n") || strstr(out, "status 124\n"))
                fail_msg("%s\n%s", words, out);
            nobody_is_left(words);
        }
}

/* A rank of mpirun that is stopped while the others meet between two steps: they stop at --timeout
 * and do not wait for it in MPI_Finalize. On a quiet machine that takes 2 s; the 60 s here are for
 * one that runs much else. */
TEST(a_stopped_rank_of_mpirun_ends_the_run_at_the_limit)
{
    char words[700];
    int rc;

    if (!has_mpirun()) {
        print_message("SKIP a stopped rank of mpirun: no Open MPI here\n");
        skip();
    }
    snprintf(words, sizeof words,
             "rm -f s.db; %s$L exec -w slow.json --dp %d%s --steps 5000 --compute sleep "
             "--timeout 1 --db s.db -q >/dev/null 2>err & p=$!; ranks_up; sleep 1; "
             "q=$(mine | tail -n 1); kill -STOP $q; (sleep 60; echo TOO-LATE; kill -9 $p $q) >late "
             "2>&1 & w=$!; wait $p; echo status $?; kill $w; cat late err; rm late; "
             "$L runs --db s.db 2>&1",
             stop_before[MPI], RANKS, stop_after[MPI]);
    const char *out = stop_shell(words, &rc);
    if (!strstr(out, "status 1\n") || strstr(out, "TOO-LATE") || strstr(out, "running"))
        fail_msg("%s\n%s", words, out);
    nobody_is_left(words);
}

/* The run is in the database once, failed, with the rank that died: also where it is rank 0, and
 * where the launcher kills the others. With --spawn it is also printed once, and the exit status is
 * 1: the parent is not one of the ranks, also where these are mpirun's. */
TEST(a_killed_rank_is_stored_once_and_blamed)
{
    for (int how = SPAWN; how < (has_mpirun() ? N_LAUNCHES : MPI); how++)
        for (int k = 0; k < 2 * stop_repeats(); k++) {
            bool own = how != MPI;
            int victim = k % 2, rc;
            char words[1024], gone[32], ended[32], early[96];
            snprintf(gone, sizeof gone, "rank %d is gone", victim);
            snprintf(early, sizeof early,
                     "rank %d gave up before the ranks met: it was ended by signal 9", victim);
            snprintf(ended, sizeof ended, "rank %d was ended", victim);
            snprintf(
                words, sizeof words,
                "rm -f s.db*; timeout -k 10 60 %s$L exec -w slow.json --dp %d%s --steps 5000 "
                "--no-verify --compute sleep --timeout 2 --db s.db -q --format json >out 2>err & "
                "p=$!; ranks_up; begun; sleep 0.%d; kill -9 $(for q in $(mine); do "
                "tr '\\0' '\\n' </proc/$q/environ | grep -qE "
                "'^(LAPWING_RANK|OMPI_COMM_WORLD_RANK)=%d$' && echo $q; done); wait $p; echo "
                "status $?; "
                "for i in $(seq 200); do [ -z \"$(mine)\" ] && break; sleep 0.1; done; "
                "$L runs --db s.db --format json",
                stop_before[how], RANKS, stop_after[how], k % 4, victim);
            const char *out = stop_shell(words, &rc);
            bool failed =
                strstr(out, "\"status\": \"failed\"") || strstr(out, "\"status\": \"timeout\"");
            bool whose = strstr(out, gone) || strstr(out, ended) || strstr(out, early) ||
                         (!own && victim == 0 && strstr(out, "ended before the run was stored"));
            if (!failed || !whose || strstr(out, "\"id\": 2") || strstr(out, "status 0\n") ||
                (own && !strstr(out, "status 1\n")))
                fail_msg("%s\n%s", words, out);
            nobody_is_left(words);
            /* else the lowest rank that lives prints it, unless mpirun kills that before it ends */
            out = stop_shell("cat out; echo; cat err", &rc);
            const char *status = strstr(out, "\n  \"status\": \"");
            if ((own && (!status || !strstr(out, "\n  \"error\": \""))) ||
                (status && strstr(status + 1, "\n  \"status\": ")))
                fail_msg("%s: not one object with the failure in\n%s", words, out);
        }
}

/* While steps sleep, and while they are rehearsed. */
TEST(a_signal_ends_the_run_and_stores_it)
{
    for (int how = THREADS; how <= SPAWN; how++) {
        char words[512];
        int rc;
        snprintf(words, sizeof words,
                 "rm -f s.db; timeout -k 10 40 $L exec -w slow.json --dp 3%s%s --compute sleep "
                 "--db s.db "
                 "-q 2>&1 & p=$!; begun; sleep 0.3; kill -TERM $(mine | head -n 1); wait $p; "
                 "echo status $?; $L runs --db s.db --format json",
                 stop_after[how], how == THREADS ? " --steps 5000 --no-verify" : " --steps 100000");
        const char *out = stop_shell(words, &rc);
        if (!strstr(out, "stopped by signal 15") || !strstr(out, "\"status\": \"failed\"") ||
            !strstr(out, "status 1\n"))
            fail_msg("%s\n%s", words, out);
        nobody_is_left(words);
    }
}

/* At any moment, of the rehearsal, of steps that sleep, of a calibration, to the parent alone or to
 * all as a terminal does: no process and no file is left, and the parent ends at once. */
TEST(spawned_ranks_and_files_go_with_a_signal)
{
    static const char *const commands[] = {
        "exec -w slow.json --dp 3 --spawn --steps 100000 --compute sleep --timeout 2 --db s.db -q",
        "exec -w slow.json --dp 3 --spawn --steps 5000 --compute sleep --timeout 2 --db s.db -q "
        "--no-verify",
        "calibrate --spawn --ranks 2 -o c.json -q"};
    static const char *const signals[] = {"INT", "TERM", "HUP"};
    unsigned seed = (unsigned)time(NULL);

    srand(seed);
    for (int k = 0; k < unit_cases(6, 50); k++) {
        char words[768];
        int rc;
        snprintf(words, sizeof words,
                 "rm -f s.db*; timeout %s --preserve-status -k 30 -s %s 0.%02d $L %s >out 2>err; "
                 "echo status $?; ls -A | grep -vE '^(s.db.*|(w|big|slow).json|out|err)$'; "
                 "true",
                 rand() % 2 ? "--foreground" : "", signals[k % 3], 1 + rand() % 99,
                 commands[k % 4 == 3 ? 2 : k % 2]);
        const char *out = stop_shell(words, &rc);
        const char *end = strchr(out, '\n');
        if (strncmp(out, "status ", 7) != 0 || strstr(out, "status 137") || !end || end[1])
            fail_msg("%s\n%s", words, out);
        nobody_is_left(words);
    }
}

TEST(a_full_disk_ends_all_and_the_next_run_works)
{
    for (int k = 0; k < stop_repeats(); k++) {
        int rc;
        const char *out = stop_shell(
            "rm -f s.db*; ( ulimit -f 8; timeout -k 10 40 $L exec -w w.json --dp 3 --steps 3 "
            "--compute sleep --db s.db ); echo status $?",
            &rc);
        if (!strstr(out, "status 1\n") || !strstr(out, "s.db"))
            fail_msg("%s", out);
        nobody_is_left("full disk");
        out = stop_shell(
            "timeout -k 10 40 $L exec -w w.json --dp 3 --spawn --steps 3 --compute sleep --db "
            "/proc/s.db; "
            "echo status $?",
            &rc);
        if (!strstr(out, "status 1\n") || !strstr(out, "/proc/s.db"))
            fail_msg("%s", out);
        nobody_is_left("no disk");
        stop_shell("rm -f s.db*", &rc);
    }
    the_next_run_works(SPAWN);
}

TEST(too_few_open_files_are_named_before_the_start)
{
    int rc;

    const char *out = stop_shell(
        "ulimit -n 16; timeout -k 10 20 $L exec -w w.json --dp 8 --spawn --steps 1 --no-db; "
        "echo status $?",
        &rc);
    if (!text_says(out, "8 processes: rank 0 needs 26 open files, and the limit is 16: raise it "
                        "(ulimit -n 26), or leave out --spawn\nstatus 1\n"))
        fail_msg("%s", out);
    out = stop_shell("ulimit -n 16; timeout -k 10 60 $L exec -w w.json --dp 3 --spawn --steps 1 "
                     "--compute sleep --db "
                     "s.db; echo status $?",
                     &rc);
    if (!strstr(out, "status 0\n"))
        fail_msg("%s", out);
    nobody_is_left("ulimit");
}

TEST(ranks_with_other_options_are_refused)
{
    int rc;

    const char *out = stop_shell(
        "t() { LAPWING_RANK=$1 LAPWING_RANKS=2 LAPWING_TOKEN=x$$ LAPWING_RENDEZVOUS="
        "127.0.0.1:$((20000 + $$ % 12000)) timeout -k 10 40 $L exec -w w.json --dp 2 --no-db "
        "--steps $2 "
        "--optimizer $3; echo status $?; }; t 0 3 sgd & t 1 3 adam & wait; t 0 3 sgd & t 1 4 sgd & "
        "wait",
        &rc);
    if (!text_says(out, "rank 1 was started with optimizer adam, rank 0 with optimizer sgd: give "
                        "all ranks the same options") ||
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
        snprintf(
            words, sizeof words,
            "t() { LAPWING_RANK=$1 LAPWING_RANKS=2 LAPWING_TOKEN=test LAPWING_RENDEZVOUS="
            "127.0.0.1:$((20000 + $$ %% 12000)) timeout -k 10 25 $L exec -w w.json --dp 2 --no-db "
            "--compute sleep $2; echo rank $1 status $?; }; t 0 & sleep 0.5; t 1 '%s'; wait",
            wrong[i]);
        const char *out = stop_shell(words, &rc);
        if (!strstr(out, "rank 1 gave up before the ranks met: it ended with exit status ") ||
            !strstr(out, "rank 0 status 1\n"))
            fail_msg("%s\n%s", words, out);
    }
}

/* Killed as soon as it is seen, mostly before the ranks met: it is blamed, at most by a line of
 * each other rank that had come and not by the parent once more, and no rank waits until the
 * deadline for rank 0. */
TEST(a_rank_killed_at_the_start_is_not_waited_for)
{
    for (int victim = 0; victim < 2; victim++) {
        char words[1024], gone[32];
        int rc, n = 0;
        snprintf(gone, sizeof gone, "rank %d ", victim);
        snprintf(
            words, sizeof words,
            "timeout -k 10 60 $L exec -w w.json --dp %d --spawn --steps 100000 --compute sleep "
            "--timeout 20 --no-db -q >/dev/null 2>err & p=$!; v=; for i in $(seq 500); do "
            "[ \"$v\" ] && break; for q in $(mine); do tr '\\0' '\\n' 2>/dev/null "
            "</proc/$q/environ | grep -qx LAPWING_RANK=%d && v=$q; done; done; kill -9 $v; "
            "wait $p; echo status $?; cat err",
            RANKS, victim);
        const char *out = stop_shell(words, &rc);
        for (const char *at = out; (at = strstr(at, "ended by signal 9")) != NULL; at++)
            n++;
        if (!strstr(out, "status 1\n") || !strstr(out, gone) || n >= RANKS ||
            strstr(out, "does not listen") || strstr(out, "have not come"))
            fail_msg("%s\n%s", words, out);
        nobody_is_left(words);
    }
}

/* SIGTERM is sent when the process handles it. */
TEST(a_rank_without_rank_0_ends_by_a_signal)
{
    int rc;
    const char *out = stop_shell(
        "export LAPWING_RANK=1 LAPWING_RANKS=2 LAPWING_TOKEN=x LAPWING_RENDEZVOUS=127.0.0.1:9; "
        "timeout -s KILL 40 $L exec -w w.json --dp 2 --no-db --timeout 30 & for i in "
        "$(seq 500); do q=$(mine) && [ \"$q\" ] && "
        "[ $((0x$(sed -n 's/^SigCgt:.//p' /proc/$q/status) & 0x4000)) -gt 0 ] && break; "
        "sleep 0.02; done; kill $q; wait; echo ended",
        &rc);
    if (!strstr(out, "stopped by signal 15 while rank 0 did not listen at 127.0.0.1:9"))
        fail_msg("%s", out);
}

/* A launcher in the place of mpirun: its ranks are its children with the variable of Open MPI. The
 * parent says which ended first, or that there was none. */
TEST(a_launcher_that_blames_no_rank_is_watched)
{
    static const struct {
        const char *launcher, *says;
    } cases[] = {
        {"for r in 0 1 2; do OMPI_COMM_WORLD_RANK=$r sleep 9 & [ $r = 1 ] && v=$!; done; "
         "sleep 2; kill -9 $v; sleep 2; kill $(jobs -p); exit 1",
         "rank 1 ended first; the ranks ended with exit status 1; their messages say why"},
        {"exit 3", "mpirun ended with exit status 3 and no rank was seen"},
    };

    if (!has_mpirun()) {
        printf("SKIP a_launcher_that_blames_no_rank_is_watched: no Open MPI here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        int rc;
        snprintf(text, sizeof text, "#!/bin/bash\n%s\n", cases[i].launcher);
        fixture_put(fixture_path("mpirun"), text);
        const char *out =
            stop_shell("chmod +x mpirun; PATH=.:$PATH timeout -k 10 60 $L exec -w w.json "
                       "--dp 3 --spawn --backend mpi --no-db; rm mpirun",
                       &rc);
        if (!strstr(out, cases[i].says))
            fail_msg("expected '%s' in\n%s", cases[i].says, out);
    }
}
