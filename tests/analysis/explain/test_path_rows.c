/* The rows of the critical path that explain prints: each has the time of one cause. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static const char *const causes[] = {
    "compute", "updates by the host", "copies", "transfer", "queued after another transfer",
    "waiting for the last rank", "host work and gaps", "launched late", "slow to start",
    "not begun or already done",
};

enum { N_CAUSES = sizeof causes / sizeof *causes };

/* Where the text names a cause at its begin; -1. */
static int cause_at(const char *text)
{
    for (int c = 0; c < N_CAUSES; c++) {
        size_t n = strlen(causes[c]);
        if (strncmp(text, causes[c], n) == 0 && text[n] == ' ')
            return c;
    }
    return -1;
}

/* The column "on the critical path" of the table of causes, in ms. */
static void read_causes(const char *out, double on_path[N_CAUSES])
{
    for (const char *at = out; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        int c = cause_at(at);
        if (strncmp(at, "\ncritical path", 14) == 0)
            return;
        const char *end = strchr(at, '\n'), *last = end;
        while (last && last > at && last[-1] != ' ')
            last--;
        if (c >= 0)
            on_path[c] = strtod(last, NULL);
    }
}

/* The rows below "critical path over all ranks": their times by cause; returns how many. */
static int add_rows(const char *out, double by_row[N_CAUSES])
{
    const char *at = strstr(out, "critical path over all ranks\n");
    double from, to, time;
    int rank, used, n = 0;

    assert_non_null(at);
    for (int k = 0; k < 3; k++)
        at = strchr(at, '\n') + 1;
    for (; sscanf(at, "%lf %lf %lf %d %n", &from, &to, &time, &rank, &used) == 4; n++) {
        int c = cause_at(at + used);
        if (c < 0)
            fail_msg("no cause in %.100s", at);
        by_row[c] += time;
        at = strchr(at, '\n') + 1;
    }
    return n;
}

/* Of a cause, its rows have what the table of causes says of the path. */
TEST_WITH(rows_of_a_cause_add_up_to_its_time_on_the_path, fixture_open, fixture_close)
{
    static const char *const options[] = {
        "--dp 2", "--dp 2 --offload optimizer", "--dp 2 --offload activations",
        "--dp 2 --offload update", "--pp 2 --dp 2 --micro-batches 4", "--dp 4 --zero 2",
        "--dp 2 --recompute full --offload update --zero 1",
    };

    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        double on_path[N_CAUSES] = {0}, by_row[N_CAUSES] = {0};
        shellf("$L sim -w gpt-125m -c dgx-h100 %s --db a.db -q", options[k]);
        const char *out = lapwingf("explain %d --db a.db --all", (int)k + 1);
        read_causes(out, on_path);
        int n = add_rows(out, by_row);
        assert_true(on_path[0] > 0 && n > 0);
        for (int c = 0; c < N_CAUSES; c++)
            if (fabs(on_path[c] - by_row[c]) > 0.0005 * (n + 1)) /* each row is rounded */
                fail_msg("%s: %s: rows have %.3f ms, the path %.3f", options[k], causes[c],
                         by_row[c], on_path[c]);
    }
}

/* Copies of buckets interrupt a backward, which stays one row; a load before the update is none. */
TEST_WITH(copies_have_rows_of_their_own, fixture_open, fixture_close)
{
    shell("$L sim -w gpt-125m -c dgx-h100 --dp 2 --offload optimizer --db a.db -q", NULL);
    const char *out = lapwing("explain 1 --db a.db --all", NULL);
    has(out, "copies   copy_in, ");
    has(out, " in between\n");
    has(out, "copies   load optimizer state\n");
    has(out, "copies   store optimizer state\n");
    const char *backward = strstr(out, "compute  backward");
    assert_non_null(backward);
    assert_null(strstr(backward + 1, "compute  backward"));
}
