/* A recording does not say what a rank holds: no figure of memory is given for its replay, in JSON,
 * text, CSV and the database. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

/* Two ranks, one message of 1,000 bytes, and compute before it. */
static const char goal[] = "num_ranks 2\n\nrank 0 {\nl1: calc 5000\nl2: send 1000b to 1 tag 0\n"
                           "l2 requires l1\n}\n\nrank 1 {\nl1: recv 1000b from 0 tag 0\n}\n";

static const char *const replays[] = {
    "$R/gpt6__local.rank0.json.gz",
    "$R/gpt6__gloo2__cap25.rank0.json.gz $R/gpt6__gloo2__cap25.rank1.json.gz",
    "two.goal",
};

TEST(no_format_has_a_figure)
{
    static const char *const nulls[] = {"\"memory_at_peak\": null", "\"framework_bytes\": null",
                                        "\"memory_fits\": null", "\"memory_missing_bytes\": null"};
    int rc;

    fixture_put(fixture_path("two.goal"), goal);
    for (size_t k = 0; k < sizeof replays / sizeof *replays; k++) {
        const char *text = lapwingf("sim --replay %s --no-db --format json", replays[k]);
        for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
            has(text, nulls[i]);
        int n = count_words(text, "\"peak_memory_bytes\": ");
        assert_true(n >= 2); /* of the run, and of each rank */
        assert_int_equal(count_words(text, "\"peak_memory_bytes\": null"), n);
        has_not(lapwingf("sim --replay %s --no-db", replays[k]), "peak memory 0");
        char command[256];
        snprintf(command, sizeof command, "rm -f m.db && $L sim --replay %s --db m.db >log && "
                 "sqlite3 m.db \"SELECT count(*) FROM metric WHERE name LIKE '%%memory%%'\"",
                 replays[k]);
        assert_string_equal(shell(command, &rc), "0\n");
        assert_int_equal(rc, 0);
    }
}

/* A plan of the same ranks has them. */
TEST(a_plan_has_them)
{
    const char *text = lapwing("sim -w mlp -c host --dp 2 --no-db --format json", NULL);

    has_not(text, "\"peak_memory_bytes\": null");
    has_not(text, "\"memory_at_peak\": null");
    has_not(text, "\"framework_bytes\": null");
}

/* Its plan has the recorded steps in one pass: predicted as a plan, one step would take as long as
 * all of them. */
TEST(a_stored_replay_is_not_predicted_as_a_plan)
{
    expect("sim --replay $R/gpt6__local.rank0.json.gz --db r.db", 0, "stored as run 1");
    EXPECT("", {"sim --run 1 --db r.db", 1, "run 1 is a replay, whose plan has the recorded steps"},
           {"sim --run 1 -c host --db r.db", 1, "give the recordings to sim --replay"},
           {"explain --memory 1 -c host --db r.db", 1, "run 1 is a replay"},
           {"explain 1 --db r.db", 0, "run 1 (sim)"},
           {"export 1 --format plan -o p.json --db r.db", 0, "the plan of run 1"},
           {"sim p.json -c host --no-db", 0, "memory: not known"});
}

/* A schedule that is drawn without a model holds nothing. */
TEST(a_drawn_schedule_says_nothing_of_memory)
{
    lapwing("plan --schedule zbv --pp 4 --micro-batches 8 -o z.json", NULL);
    EXPECT("sim z.json -c dgx-h100 --no-db",
           {"", 0, "memory: not known", {"peak memory not known\n"}, .lacks = "fits"},
           {"--format json", 0, "\"memory_at_peak\": null", {"\"memory_fits\": null"}},
           {"--must-fit", 1, "--must-fit: not known"});
}
