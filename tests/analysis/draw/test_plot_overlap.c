/* The picture of overlap: parts of a step, their letters, and the names beside them. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "analysis/draw/plot_style.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/plot_scene.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_WITH(parts_of_a_step_stand_end_to_end, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    char *text = script_of(LW_PLOT_OVERLAP);
    /* rank 0: communication 202-412 = 210, of it exposed 112; compute 320; of the 98 with
     * communication 10 wait for rank 1 (202-212), and data moves in 88 */
    has(text, "$parts << EOD\n0 232 -0.340 0.340 5682409\n"
              "232 320 -0.340 0.340 29362\n"
              "320 432 -0.340 0.340 13983232\nEOD\n");
    has(text, "set label '112' at 376,0 center");
    test_free(text);
}

/* In the terminal each part has a letter: of 445.09 us on the axis 232, 88 and 112. */
TEST_WITH(parts_of_a_step_have_letters, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    const char *text = shell("$L plot overlap --db lapwing.db -o - --width 80", NULL);
    double n = (double)strspn(strstr(text, " +") + 2, "-"), axis = 432 + 432 / 33.0;
    const char *bar = strstr(text, " |c") + 2;
    int ends[] = {(int)(232 / axis * n + 0.5), (int)(320 / axis * n + 0.5),
                  (int)(432 / axis * n + 0.5)};

    assert_in_range((int)n, 30, 80);
    assert_int_equal(strspn(bar, "c"), ends[0]);
    assert_int_equal(strspn(bar + ends[0], "h"), ends[1] - ends[0]);
    assert_int_equal(strspn(bar + ends[1], "!"), ends[2] - ends[1]);
    has(bar + ends[2], " 432\n");
    has(text, "\nc compute and copies alone, h transfers under compute, ! exposed communication\n");
}

/* One run of 20 times the others' period: its bar ends with their axis and says its length. */
TEST_WITH(a_long_run_leaves_room_for_the_others, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_predicted);
    runs_store(&runs_predicted);
    runs_sql("UPDATE metric SET value = value * 20 WHERE run = 3 AND name LIKE '%_ps'");
    char *text = script_of(LW_PLOT_OVERLAP);
    has(text, "set xrange [0:445.09");
    has(text, "set label 'goes on to 8640 us >' at 445.09");
    has(text, "\n0 445.091 -2.340 -1.660 5682409\nEOD\n"); /* its first part alone is longer */
    has(text, "\n0 232 -0.340 0.340 5682409\n");
    test_free(text);
}

/* An interval that ends at 800 us widens the axis of 432; one that ends at 1500 does not, also
 * where it comes after. */
TEST_WITH(a_long_interval_is_cut_in_any_order_of_runs, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_predicted);
    for (int first = 1; first <= 2; first++) {
        char line[200];
        snprintf(line, sizeof line, "UPDATE run SET step_p10_ps = 400000000, step_p90_ps ="
                                    " iif(id = %d, 800000000, 1500000000)", first);
        runs_sql(line);
        char *text = script_of(LW_PLOT_OVERLAP);
        has(text, "set xrange [0:824.24");
        test_free(text);
    }
}

/* A long name ends after a whole part; all take half of the width at most. */
TEST_WITH(names_of_an_overlap_take_half, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_predicted);
    runs_sql("UPDATE run SET name = 'a name too long for 600 pixels, cap ' || id");
    char *text = script_of(LW_PLOT_OVERLAP);
    has(text, "set ytics ('run 1: a name too long for 600 pixels, cap 1' 0, 'run 2: ");
    has(text, "What a step is made of: 2 predicted runs");
    test_free(text);
    text = script_at(LW_PLOT_OVERLAP, 600);
    has(text, "set lmargin at screen 0.5000\n");
    has(text, "set ytics ('run 1: a name too long for 600 pixels,\xe2\x80\xa6' 0, ");
    test_free(text);
    runs_sql("UPDATE run SET name = 'zero 3, dp 8, micro-batches 16, batch 2, seq ' || id");
    text = script_at(LW_PLOT_OVERLAP, 600);
    has(text, "set ytics ('run 1: zero 3, dp 8, micro-batches 16,\xe2\x80\xa6' 0, ");
    has(text, "time, of the rank with the longest period");
    test_free(text);
}

/* A title and the corner end after a whole part, and the corner keeps the plan. */
TEST_WITH(a_long_title_ends_after_a_whole_part, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_sql("UPDATE run SET name = "
             "'a long workload, zero 3, dp 8, micro-batches 16, batch 2, sequence length ' || id");
    char *text = script_at(LW_PLOT_TIMELINE, 600);
    has(text, "'One training step: a long workload, zero 3, dp 8, micro-batches 16, batch 2,"
              "\xe2\x80\xa6'");
    has(text, "| a long workload, zero 3, dp 8, micro-batches 16, batch 2,\xe2\x80\xa6 "
              "| plan ");
    test_free(text);
}

/* Steps of other batches are drawn by token; the interval is under the bar, and a run that lacks
 * memory is marked. */
TEST_WITH(an_overlap_of_two_batches_is_by_token, runs_open, fixture_close)
{
    shell("$L sim -w gpt2 --batch 1,2 --seq 1000 -c dgx-a100 --dp 2 -q --db lapwing.db >log", NULL);
    /* 2,000 tokens of a step take 2 ms and nothing else: 1,000 ns each */
    runs_sql("UPDATE metric SET value = 2000000000 WHERE name = 'compute_busy_ps' AND run = 1");
    runs_sql("UPDATE metric SET value = 0 WHERE name IN ('exposed_copy_ps', 'comm_busy_ps', "
             "'exposed_comm_ps', 'idle_ps', 'hidden_transfer_ps') AND run = 1");
    runs_sql("UPDATE metric SET value = 0 WHERE name = 'fits' AND run = 2");
    runs_sql("UPDATE run SET step_p10_ps = 1900000000, step_p90_ps = 2100000000 WHERE id = 1");
    char *text = script_of(LW_PLOT_OVERLAP);
    has(text, "What a token is made of: 2 predicted runs");
    has(text, "time of a token, of the rank with the longest period");
    has(text, "'run 2 (does not fit): ");
    has(text, "$parts << EOD\n0 1000 -0.340 0.340 ");
    has(text, "set arrow from 950,-0.42 to 1050,-0.42 heads");
    test_free(text);
    text = script_at(LW_PLOT_OVERLAP, 600); /* 324 pixels, and the whole name is 480 wide */
    has(text, "set xlabel 'time of a token, slowest rank [ns]; |-| p10-p90'\n");
    test_free(text);
}
