/* Of ranks that are alike one rank's spans are stored, and read for each of them: what is read is
 * what is read of a run that stored every rank. */
#include "tests/lib/unit.h"
#include <stdio.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

/* 16 ranks, whose ops are more than are stored without being asked for. */
#define PLAN "-w llama-3-8b -c dgx-h100 --dp 2 --tp 4 --pp 2 --micro-batches 4 "

static int make_runs(void **state)
{
    int rc = fixture_open(state);

    expect("sim " PLAN "--db alike.db", 0, "2 ranks stand for all 16");
    expect("sim " PLAN "--db every.db --spans", 0, "step ");
    return rc;
}

static void read_alike(const char *command)
{
    char line[160];
    int rc;

    snprintf(line, sizeof line, "$L %s --db every.db > every.out", command);
    shell(line, &rc);
    assert_int_equal(rc, 0);
    snprintf(line, sizeof line, "$L %s --db alike.db > alike.out && cmp every.out alike.out",
             command);
    const char *said = shell(line, &rc);
    if (rc != 0)
        fail_msg("%s: %s", command, said);
}

TEST(what_is_read_is_that_of_every_rank)
{
    read_alike("explain 1");
    read_alike("explain 1 --rank 13");
    read_alike("plot timeline 1 -o -");
    read_alike("plot memory 1 -o -");
    read_alike("plot overlap 1 -o -");
    read_alike("export 1 --format csv -o -");
}

/* Two stages of 8 ranks each. */
TEST(one_rank_of_each_class_is_stored)
{
    const char *ask = "for d in every alike; do "
                      "$L runs --format json --db $d.db | tr ',' '\\n' | grep n_spans; done";
    long long every = 0, alike = 0;

    assert_int_equal(sscanf(shell(ask, NULL), " \"n_spans\": %lld \"n_spans\": %lld", &every,
                            &alike), 2);
    assert_true(every > 50000);
    assert_int_equal(every, 8 * alike);
}

TEST_GROUP(make_runs, fixture_close)
