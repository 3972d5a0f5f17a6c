/* Each recorded trace with its steps, and with steps that it has not: a workload of that step, or a
 * refusal in one message. Under SAN=1 every read is watched. Of a trace with many steps the first,
 * the last and two between are tried, with LAPWING_MANY each. */
#include "tests/lib/unit.h"
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

enum { MOST_STEPS = 64 };

/* The numbers of the ProfilerSteps in a file; by the file's text, not by the reader. */
static int steps_of(const char *file, long *steps)
{
    char words[4096];
    int n = 0, rc;

    snprintf(words, sizeof words,
             "zcat '%s' | grep -oE 'ProfilerStep#[0-9]+' | grep -oE '[0-9]+$' | sort -nu", file);
    for (const char *p = shell(words, &rc); *p && n < MOST_STEPS; n++) {
        char *end;
        steps[n] = strtol(p, &end, 10);
        p = end + strspn(end, "\n");
    }
    return n;
}

static int fewer(long *steps, int n)
{
    int most = unit_cases(4, MOST_STEPS);

    if (n <= most)
        return n;
    for (int i = 0; i < most; i++)
        steps[i] = steps[(long)i * (n - 1) / (most - 1)];
    return most;
}

static bool try_step(const char *file, long step)
{
    char args[4096];
    int rc;

    snprintf(args, sizeof args, "import '%s' --step %ld -o o.json --force", file, step);
    const char *out = lapwing(args, &rc);
    if ((rc != 0 && !(rc == 1 && is_one_message(out))) || strstr(out, "(null)"))
        fail_msg("%s: exit %d: %s", args, rc, out);
    return rc == 0;
}

static int try_all(const char *pattern)
{
    char path[1024];
    int n_taken = 0;
    glob_t g;

    if (glob(pattern, 0, NULL, &g) != 0)
        return -1;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        long steps[MOST_STEPS + 3];
        assert_non_null(realpath(g.gl_pathv[i], path));
        int n = fewer(steps, steps_of(path, steps));
        steps[n++] = 0;
        steps[n++] = 5;
        steps[n++] = 2147483647;
        for (int k = 0; k < n; k++)
            n_taken += try_step(path, steps[k]);
    }
    globfree(&g);
    return n_taken;
}

TEST_WITH(each_step_of_our_recordings_is_taken_or_refused, fixture_open, fixture_close)
{
    assert_true(try_all("traces/recorded/*.rank0.json.gz") >= 20);
}

TEST_WITH(each_step_of_public_traces_is_taken_or_refused, fixture_open, fixture_close)
{
    int n_taken = try_all("../shared/traces/kineto/*.json.gz");

    if (n_taken < 0) {
        printf("SKIP each_step_of_public_traces_is_taken_or_refused: no ../shared/traces/kineto\n");
        skip();
    }
    assert_true(n_taken >= 20);
}
