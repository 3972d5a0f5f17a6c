/* lapwing validate --here: what is judged, what is only shown, what is told. How good
 * predictions are is the machine's matter; a status of 0 or 3 says that all of it ran. */
#include "tests/lib/unit.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static const char cluster[] =
    "{\"lapwing\": 1, \"kind\": \"cluster\", \"name\": \"two cores\", \"calibrated\": true,"
    " \"devices_per_node\": 2, \"device\": {\"kind\": \"cpu core\", \"copy_bytes_per_s\": "
    "{\"value\": "
    "1e9, \"source\": \"t\"}},"
    " \"links\": [{\"name\": \"memory\", \"level\": \"intra\", \"bytes_per_s\": {\"value\": 1e9, "
    "\"source\": "
    "\"t\"}, \"latency_ns\": {\"value\": 1000, \"source\": \"t\"}, \"n_links\": {\"value\": 1, "
    "\"source\": "
    "\"t\"}}]}";

static const char workload[] =
    "{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"tiny\", \"modules\": ["
    "{\"name\": \"a\", \"forward_ns\": 1000000, \"backward_input_ns\": 2000000},"
    "{\"name\": \"b\", \"forward_ns\": 1000000, \"backward_input_ns\": 2000000}],"
    " \"params\": [{\"name\": \"a.weight\", \"numel\": 1000, \"module\": 0},"
    " {\"name\": \"b.weight\", \"numel\": 1000, \"module\": 1}], \"optimizer_ns\": 100000}";

static int put_files(void **state)
{
    fixture_open(state);
    fixture_put(fixture_path("c.json"), cluster);
    fixture_put(fixture_path("w.json"), workload);
    return 0;
}

/* What was printed, good predictions or bad. */
static const char *here(const char *words)
{
    char args[400];
    int rc;

    snprintf(args, sizeof args, "validate --here -c c.json w.json --steps 1 --format json %s",
             words);
    const char *out = lapwing(args, &rc);
    if (rc != 0 && rc != 3 && rc != 4) /* 4: beside other programs */
        fail_msg("lapwing %s: exit %d\n%s", args, rc, out);
    return out;
}

static bool two_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 2 &&
           CPU_COUNT(&set) < 4;
}

TEST(a_row_is_predicted_executed_and_stored)
{
    if (!two_cores())
        skip();
    const char *out = here("--only 'cap 1 MiB' --db results.db");
    has(out, "\"id\": \"tiny: cap 1 MiB\", \"family\": \"here\", \"predicted_ns\": ");
    has(out, "medians of 1 step after 3, threads backend, pinned, verified bitwise");
    expect("compare --db results.db 1 2", 0, "run 1 (sim) against run 2 (exec threads, real)");
}

TEST(more_ranks_than_cores_are_shown_and_not_judged)
{
    if (!two_cores())
        skip();
    const char *out = here("--only 'data parallel'");
    has(out, "\"id\": \"tiny: data parallel\", \"family\": \"here, oversubscribed\"");
    has(out, "\"missed\": []");
}

TEST(a_strategy_that_does_not_fit_is_told)
{
    has(here("--only 'zbv'"), "not planned: tiny: zbv: ");
}

TEST(wrong_words_are_refused)
{
    expect("validate --here -c c.json w.json --only nothing", 2,
           "--only 'nothing': it matches no row of the grid");
    expect("validate --here -c dgx-a100 w.json", 1, "'dgx-a100' is not calibrated");
    expect("validate", 2, "");
    expect("validate --only x w.json", 2, "");
}

TEST_GROUP(put_files, fixture_close)
