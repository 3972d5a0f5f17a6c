/* The bounds of options that change what a device holds: none is above what it bounds. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/csv_cells.h"
#include "tests/lib/files/file_fixture.h"

static int64_t figure(const char *csv, int line, const char *key)
{
    return atoll(csv_cell(csv, line, csv_column(csv, key)));
}

/* Every row is simulated and fits, so that no bound hides one. */
static void check_bounds(const char *args, int n_rows)
{
    char *csv = strdup(lapwingf("tune %s --no-bounds --no-db --format csv -q", args));
    int n = 0;

    for (const char *c = csv; *c; c++)
        n += *c == '\n';
    if (n - 1 != n_rows)
        fail_msg("%s: %d rows of %d", args, n - 1, n_rows);
    for (int line = 1; line < n; line++)
        if (figure(csv, line, "bound_ns") > figure(csv, line, "step_ns") ||
            figure(csv, line, "needed_bound_bytes") > figure(csv, line, "needed_bytes"))
            fail_msg("%s: bound %lld of step %lld, bytes %lld of %lld: %s", args,
                     (long long)figure(csv, line, "bound_ns"),
                     (long long)figure(csv, line, "step_ns"),
                     (long long)figure(csv, line, "needed_bound_bytes"),
                     (long long)figure(csv, line, "needed_bytes"), csv_cell(csv, line, 0));
    free(csv);
}

TEST_WITH(an_optimizer_on_the_host_takes_no_device_memory, fixture_open, fixture_close)
{
    check_bounds("-w gpt2 -c dgx-a100 --ranks 8 --global-batch 8 --batch 1 --tp 1 --pp 1,2 "
                 "--zero 0,1,2,3 --recompute none,full --schedule 1f1b "
                 "--overlap-param-gather off --offload none,optimizer",
                 32);
}

TEST_WITH(recomputed_groups_of_layers_keep_one_input_each, fixture_open, fixture_close)
{
    check_bounds("-w llama-2-7b -c dgx-a100 --ranks 16 --global-batch 8 --batch 1 --tp 8 --cp 2 "
                 "--pp 1 --zero 1 --recompute full --recompute-layers 1,4,8,16 "
                 "--recompute-method uniform,block --schedule 1f1b --sequence-parallel off "
                 "--overlap-param-gather off",
                 8);
}
