/* The all-reduces of gradients of a replayed recording are its buckets, by number, bytes and
 * gradients: those that DistributedDataParallel logged (gpt6 with 5 MiB: 18, 22, 20 and 16
 * gradients of 5,263,360, 5,265,408, 5,266,432 and 11,680,768 bytes). */
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static const char names_of[] =
    "python3 -c \"import sqlite3; print([r[0] for r in sqlite3.connect('runs.db').execute("
    "'SELECT DISTINCT name FROM op')])\"";

TEST_WITH(recorded_buckets_have_the_numbers_sizes_and_gradients_that_ddp_logged, fixture_open,
          fixture_close)
{
    static const char *const names[] = {
        "bucket 0, 5.02 MiB, 18 gradients", "bucket 1, 5.02 MiB, 22 gradients",
        "bucket 2, 5.02 MiB, 20 gradients", "bucket 3, 11.14 MiB, 16 gradients"};

    lapwing("sim --replay $R/gpt6__gloo2__cap5.rank?.json.gz --db runs.db", NULL);
    const char *out = shell(names_of, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        has(out, names[i]);
    has_not(out, "bucket 4");
    has(lapwing("explain last --db runs.db", NULL), "all_reduce bucket 3, 11.14 MiB, 16 gradients");
    out = lapwing("plot timeline last --db runs.db -o -", NULL);
    has(out, "digits buckets"); /* drawn as buckets, as those of a plan are */
    has(out, "333");
}

TEST_WITH(buckets_of_a_what_if_are_named_as_new, fixture_open, fixture_close)
{
    lapwing("sim --replay $R/gpt6__gloo2__cap5.rank?.json.gz --bucket-cap 50MiB --db runs.db",
            NULL);
    has(shell(names_of, NULL), "bucket 0 (new), 26.20 MiB, 76 gradients");
}
