/* How runs of a few ranks are started, and what must hold after one has stopped: none of its
 * processes is left, and the next run works. */
#include "tests/lib/commands/stop_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/mpi_fixture.h"
#include "tests/lib/files/file_fixture.h"

const char *const stop_before[N_LAUNCHES] = {"", "", "mpirun --oversubscribe -n 3 ", ""};
const char *const stop_after[N_LAUNCHES] = {"", " --spawn", " --backend mpi",
                                            " --spawn --backend mpi"};

const char *stop_shell(const char *words, int *rc)
{
    char line[4096];

    int n =
        snprintf(line, sizeof line,
                 "mine() { for p in /proc/[0-9]*; do [ $p/cwd -ef . ] && "
                 "read -r name 2>/dev/null <$p/comm && case $name in lapwing|exe) "
                 "echo ${p#/proc/};; esac; done; true; } && "
                 "ranks_up() { for i in $(seq 200); do [ $(mine | wc -l) -ge %d ] && break; "
                 "sleep 0.1; done; } && "
                 "begun() { for i in $(seq 200); do $L runs --db s.db 2>/dev/null | "
                 "grep -qE 'running|failed|timeout' && break; sleep 0.1; done; } && { %s; } 2>&1",
                 RANKS, words);
    assert_true(n > 0 && (size_t)n < sizeof line);
    return mpi_shell(line, rc);
}

int stop_repeats(void)
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

/* No process of this folder's runs is left: each has the folder as its working directory. Where the
 * launcher itself was killed, its ranks have until the deadline to see it. */
void nobody_is_left(const char *what)
{
    double until = now_s() + 5;
    int rc;
    const char *out = stop_shell("mine", &rc);

    while (*out && now_s() < until)
        out = stop_shell("sleep 0.1; mine", &rc);
    if (*out)
        fail_msg("%s: left are %s", what, out);
}

void the_next_run_works(enum how how)
{
    char words[256];
    int rc;

    snprintf(words, sizeof words,
             "timeout -k 10 60 %s$L exec -w w.json --dp %d%s --steps 2 --compute sleep --db s.db",
             stop_before[how], RANKS, stop_after[how]);
    const char *out = stop_shell(words, &rc);
    if (rc != 0 || !strstr(out, "verified: "))
        fail_msg("%s: status %d\n%s", words, rc, out);
}

/* A step of 18 ms, in which ranks sleep. */
static const char slow[] =
    "{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"slow\", \"modules\": [{\"name\": \"a\","
    " \"forward_ns\": 9000000, \"backward_input_ns\": 9000000}], \"params\": [{\"name\": \"w\","
    " \"numel\": 4096, \"module\": 0}]}";

int stop_open(void **state)
{
    int rc;

    fixture_open(state);
    fixture_put(fixture_path("slow.json"), slow);
    shell("$L model mlp --layers 4 --width 64 -o w.json && "
          "$L model mlp --layers 4 --width 1024 -o big.json",
          &rc);
    return rc;
}
