/* What does not fit is marked wherever runs are listed. */
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

#define LLAMA "sim -w llama-7b -c dgx-h100 --dp 8 --db runs.db -q "

/* Without ZeRO 7 G parameters take 16 bytes each, more than a device has; with ZeRO-3 they fit. */
TEST(a_run_that_does_not_fit_is_marked_in_every_list)
{
    lapwing(LLAMA, NULL);
    lapwing(LLAMA "--zero 3", NULL);
    EXPECT("compare",
           {"1 2 --db runs.db", 0, "A = run 1 (sim, does not fit)", {"B = run 2 (sim), plan"}},
           {"2 1 2 --db runs.db", 0, "run 1 (sim, does not fit), plan", {"run 2 (sim), plan"}},
           {"--by strategy --db runs.db", 0, "  fits\n"},
           {"1 2 --db runs.db --format json", 0, "\"fits\": false", {"\"fits\": true"}},
           {"1 2 1 --db runs.db --format json", 0, "\"fits\": false", {"\"fits\": true"}});
    const char *by = lapwing("compare --by strategy --db runs.db --format csv", NULL);
    has(by, ",,no\n"); /* the first of its group has no change */
    has(by, ",yes\n");
    EXPECT("explain", {"1 --db runs.db", 0, "run 1 (sim, does not fit), plan"},
           {"2 --db runs.db", 0, "run 2 (sim), plan"});
    EXPECT("runs", {"--db runs.db --format json", 0, "\"fits\": false", {"\"fits\": true"}});
    has(shell("$L plot overlap --db runs.db -o -", NULL), "run 1 (does not fit)");
    EXPECT("sim", {"-w llama-7b -c dgx-h100 --dp 8 --zero 0,3 --no-db -q", 0, "no", {"yes"}});
}
