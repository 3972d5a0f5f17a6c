/* Ratios to measured runs are of collective detail: they make no interval of a step whose
 * collectives another model times. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

#define JOB "sim -w llama-3-8b --layers 4 --seq 256 -c l40s --dp 3 --tokens 1B --price 1 "

TEST(only_collective_detail_has_an_interval)
{
    static const char *const keys[] = {"\"p10_ns\"", "\"p90_ns\"", "\"interval_of\"",
                                       "\"days_p10\"", "\"cost_p90\""};
    int rc;

    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        char null[64];
        snprintf(null, sizeof null, "%s: null", keys[k]);
        const char *text = lapwing(JOB "--no-db --format json", &rc);
        assert_int_equal(rc, 0);
        has(text, keys[k]);
        has_not(text, null);
        text = lapwing(JOB "--detail chunk --no-db --format json", &rc);
        assert_int_equal(rc, 0);
        has(text, null);
    }
}

TEST(the_head_says_why_there_is_none)
{
    EXPECT(JOB "--no-db", {"", 0, "(p10-p90 "},
           {"--detail chunk", 0,
            "no p10-p90: the ratios to measured runs are of collective detail"},
           {"--detail collective", 0, "(p10-p90 "});
    has_not(lapwing(JOB "--no-db --detail chunk --framework ideal", NULL), "(p10-p90 ");
}

TEST(nor_has_the_stored_run)
{
    lapwing(JOB "--detail chunk --db c.db", NULL);
    has_not(lapwing("runs 1 --db c.db", NULL), "p10/p90");
}
