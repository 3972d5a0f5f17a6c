/* The table of a period's figures: what it prints adds up, and the glossary defines every key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/timeline/period_figures.h"
#include "tests/lib/files/file_fixture.h"

/* 4 parts of 400 ps are 0 ns each and 2 ns together: idle and the first of the others get them. */
TEST(rounded_parts_add_up_to_the_rounded_period)
{
    const struct lw_measure m = {.rank = 3, .end = 1600, .compute_busy = 400, .exposed_copy = 400,
                                 .transfer = 400, .exposed_comm = 400, .idle = 400,
                                 .peak_memory_bytes = 7};
    struct lw_period_row row = lw_period_row_of(&m);
    lw_ns sum = 0;

    for (int i = 0; i < LW_N_PERIOD_PARTS; i++)
        sum += row.figure[lw_period_parts[i]];
    assert_int_equal(row.rank, 3);
    assert_int_equal(row.figure[LW_FIGURE_PERIOD], 2);
    assert_int_equal(sum, 2);
    assert_int_equal(row.figure[LW_FIGURE_COMPUTE], 0);
    assert_int_equal(row.figure[LW_FIGURE_COPY], 1);
    assert_int_equal(row.figure[LW_FIGURE_TRANSFER], 0);
    assert_int_equal(row.figure[LW_FIGURE_EXPOSED_COMM], 0);
    assert_int_equal(row.figure[LW_FIGURE_IDLE], 1);
    assert_int_equal(row.peak_memory_bytes, 7);
}

/* 400 ps of transfer may count as 1 ns. Busy is at least exposed, and no more than the period. */
TEST(rounded_busy_is_not_below_exposed)
{
    for (lw_ps compute = 0; compute < 1000; compute += 100)
        for (lw_ps copy = 0; copy < 1000; copy += 100)
            for (lw_ps transfer = 0; transfer < 1000; transfer += 100) {
                const struct lw_measure m = {.end = compute + copy + transfer + 100, .idle = 100,
                                             .compute_busy = compute, .exposed_copy = copy,
                                             .copy_busy = copy, .transfer = transfer,
                                             .exposed_comm = transfer, .comm_busy = transfer};
                const struct lw_period_row row = lw_period_row_of(&m);
                const lw_ns *f = row.figure;
                assert_true(f[LW_FIGURE_COMM_BUSY] >= f[LW_FIGURE_EXPOSED_COMM]);
                assert_true(f[LW_FIGURE_COPY_BUSY] >= f[LW_FIGURE_COPY]);
                assert_true(f[LW_FIGURE_COMM_BUSY] <= f[LW_FIGURE_PERIOD]);
                assert_true(f[LW_FIGURE_COPY_BUSY] <= f[LW_FIGURE_PERIOD]);
            }
}

/* 3.6 + 1.3 + 2.3 + 0.3 = 7.5 ns: 4 + 1 + 2 + 1. The parts that are busy times stay as they are
 * rounded by themselves, and idle is lengthened. */
TEST(idle_is_lengthened_before_busy_times)
{
    const struct lw_measure m = {.end = 7500, .compute_busy = 3600, .exposed_copy = 1300,
                                 .copy_busy = 1300, .transfer = 2300, .exposed_comm = 2300,
                                 .comm_busy = 2300, .idle = 300};
    const struct lw_period_row row = lw_period_row_of(&m);

    assert_int_equal(row.figure[LW_FIGURE_PERIOD], 8);
    assert_int_equal(row.figure[LW_FIGURE_COMPUTE], 4);
    assert_int_equal(row.figure[LW_FIGURE_COPY_BUSY], 1);
    assert_int_equal(row.figure[LW_FIGURE_COMM_BUSY], 2);
    assert_int_equal(row.figure[LW_FIGURE_TRANSFER], 2);
    assert_int_equal(row.figure[LW_FIGURE_IDLE], 1);
}

TEST(every_wait_has_its_figure)
{
    struct lw_measure m = {0};
    lw_ps figure[LW_N_FIGURES];

    for (int i = 0; i < LW_N_WAITS; i++)
        m.wait[i] = 10 + i;
    lw_period_figures(&m, figure);
    assert_int_equal(figure[LW_FIGURE_WAIT + LW_WAIT_PIPELINE], 10 + LW_WAIT_PIPELINE);
    assert_string_equal(lw_period_figure_title(LW_FIGURE_WAIT + LW_WAIT_PIPELINE),
                        "wait, pipeline");
    assert_string_equal(lw_period_figure_metric(LW_FIGURE_WAIT + LW_WAIT_OTHER, (char[32]){0}),
                        "wait_other_ps");
}

TEST(the_glossary_defines_every_key)
{
    char *glossary = fixture_get("docs/glossary.md"), quoted[48];

    for (int k = LW_PERIOD_FIRST_COLUMN; k < LW_N_PERIOD_COLUMNS; k++) {
        snprintf(quoted, sizeof quoted, "`%s`", lw_period_columns[k].key);
        if (!strstr(glossary, quoted))
            fail_msg("docs/glossary.md does not define %s", quoted);
    }
    free(glossary);
}
