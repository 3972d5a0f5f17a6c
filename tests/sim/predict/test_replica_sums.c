/* Sharded groups with replicas (--zero-group): a bucket's room is free after its reduce-scatter, so
 * the replicas' sums hold back no gather of the backward (pytorch/pytorch#106080, #121023). */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"

enum { BLOCKS = 8 };

/* Equal blocks of 50 million bf16 weights: 1 ms forward, 2 ms backward each. */
static void put_blocks(void)
{
    FILE *f = fopen(fixture_path("w.json"), "w");

    assert_non_null(f);
    fprintf(f, "{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"blocks\", \"optimizer_ns\": "
               "1000000, \"modules\": [");
    for (int i = 0; i < BLOCKS; i++)
        fprintf(f, "%s{\"name\": \"b%d\", \"forward_ns\": 1000000, \"backward_input_ns\": 1000000, "
                   "\"backward_weight_ns\": 1000000}", i ? ", " : "", i);
    fprintf(f, "], \"params\": [");
    for (int i = 0; i < BLOCKS; i++)
        fprintf(f, "%s{\"name\": \"b%d.w\", \"numel\": 50000000, \"dtype\": \"bf16\", \"module\": "
                   "%d}", i ? ", " : "", i, i);
    fprintf(f, "]}");
    fclose(f);
}

static int64_t ask(const char *what)
{
    char sql[400];

    snprintf(sql, sizeof sql, "SELECT %s FROM span s JOIN op ON op.plan = 1 AND op.op = s.op "
                              "WHERE s.rank = 0 AND s.step = (SELECT max(step) FROM span)", what);
    return sql_ask(fixture_path("r.db"), sql);
}

/* A sum of 12.5 MB on p4d's network takes longer than a block's backward with its copy: the eight
 * sums follow each other without a gap from the first reduce-scatter on, and the step is
 *   first gather + 8 forwards + 1 backward, copy and reduce-scatter + 8 sums + the update. */
TEST_WITH(sums_of_replicas_follow_each_other, fixture_open, fixture_close)
{
    put_blocks();
    lapwing("sim -w w.json -c p4d --dp 16 --zero 3 --zero-group 8 --interference off --spans "
            "--db r.db", NULL);
#define SUMS "FILTER (WHERE op.kind = 'all_reduce')"
    int64_t sum = ask("max(end_ps - all_in_ps) " SUMS), first = ask("min(start_ps) " SUMS);

    assert_int_equal(ask("count(*) " SUMS), BLOCKS);
    assert_int_equal(ask("min(end_ps - all_in_ps) " SUMS), sum);
    assert_true(sum > 2 * INT64_C(1000000000)); /* a block's backward */
    assert_int_equal(ask("max(end_ps) " SUMS), first + BLOCKS * sum);
    assert_int_equal(ask("min(end_ps) FILTER (WHERE op.kind = 'reduce_scatter')"), first);
    assert_int_equal(ask("max(end_ps)"), first + BLOCKS * sum + 1000000000 / 8);
#undef SUMS
}
