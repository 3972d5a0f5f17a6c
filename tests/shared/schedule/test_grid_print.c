/* Grids on paper, and `lapwing plan --schedule` as a user meets it. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/schedule/grid_print.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"

/* What a call writes to a file. */
static enum lw_status draw_text(const struct lw_grid *g, struct lw_grid_costs c, char *text,
                                size_t room)
{
    struct lw_grid_times t;
    struct lw_err err = {0};
    FILE *f = tmpfile();

    assert_non_null(f);
    enum lw_status status = lw_grid_time(g, &c, &t, &err);
    if (status == LW_OK) {
        status = lw_grid_print_text(g, &t, f, &err);
        lw_grid_times_free(&t);
    }
    rewind(f);
    text[fread(text, 1, room - 1, f)] = '\0';
    fclose(f);
    return status;
}

static void expect_drawing(const char *grid, struct lw_grid_costs c, const char *drawing)
{
    struct lw_grid g;
    struct lw_err err = {0};
    char text[4096];

    assert_int_equal(lw_grid_custom("t.csv", grid, &g, &err), LW_OK);
    assert_int_equal(draw_text(&g, c, text, sizeof text), LW_OK);
    text[strlen(drawing) < strlen(text) ? strlen(drawing) : strlen(text)] = '\0';
    assert_string_equal(text, drawing);
    lw_grid_free(&g);
}

TEST(columns_are_units_of_time)
{
    /* rank 1: F0 1-2, unit 2-5, B1 5-7; rank 0: B0 5-7, B1 7-9; three columns idle before it. The
     * widest: 7 characters and a blank in 3 columns, and "0F0 " in 1: 4 a column. */
    expect_drawing("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n",
                   (struct lw_grid_costs){1, 1, 1, 0},
                   "rank 0  0F0 0F1 .   .   .   0B0---- 0B1----\n"
                   "rank 1  .   1F0 1F1;1B0---- 1B1---- .   .\n"
                   "\n"
                   "makespan 9 units, longest rank 9 units, bubble 33.33 %\n");
    /* F 2: "0F0" fills its two columns of two characters with no line after it */
    expect_drawing(
        "0F0,0I0,0W0\n", (struct lw_grid_costs){2, 3, 2, 0},
        "rank 0  0F0 0I0-- 0W0\n\nmakespan 7 units, longest rank 7 units, bubble 0.00 %\n");
}

TEST(ranks_are_summed_up)
{
    char text[4096];
    struct lw_grid g;
    struct lw_err err = {0};

    assert_int_equal(lw_grid_custom("t.csv", "0F0,0B0\n1F0,1B0\n", &g, &err), LW_OK);
    assert_int_equal(draw_text(&g, (struct lw_grid_costs){1, 1, 1, 2}, text, sizeof text),
                     LW_OK);
    /* F0 0-1, there at 3: 3-4, B 4-6, back at 8: 8-10 */
    assert_non_null(strstr(text,
                           "   0            0        10     3             7                  1  "
                           "      1\n"));
    assert_non_null(strstr(text,
                           "   1            3         6     3             0                  1  "
                           "      1\n"));
    lw_grid_free(&g);
}

TEST(the_command_draws_a_schedule)
{
    EXPECT("plan --schedule",
           {"1f1b --pp 2 --micro-batches 2", 0,
            "1f1b: 2 ranks, 2 stages, 2 micro-batches; one column is one unit of time\n"
            "(F, I, W 1 unit, B 2, overlapped pairs 3, transfers 0)\n\n"
            "rank 0  0F0 0F1 .   .   0B0---- .   0B1----\n"
            "rank 1  .   1F0 1B0---- 1F1 1B1---- .   .\n"},
           /* two stages a rank need not be said where nothing else is possible */
           {"zbv --pp 1 --micro-batches 1", 0, "rank 0  0F0 1F0 1I0 1W0 0I0 0W0\n"},
           {"colossal-1f1b --pp 2 --micro-batches 2", 0,
            "rank 0  F0 CN F1 CnN B0 Cn B1\nrank 1  Cp F0 B0 CPp F1 B1 CP\n"},
           /* --group is its name before */
           {"interleaved-1f1b --pp 2 --micro-batches 5 --chunks 2 --group 3 --format csv", 0,
            "1F0,1F1,1F2,3F0,3B0,3F1,3B1,3F2,3B2,1F3,1B0,1F4,1B1,3F3,1B2,3F4,3B3,3B4,1B3,1B4\n"});
}

TEST(csv_is_the_schedule_ir_of_torch)
{
    EXPECT("plan --schedule", {"zb-h1 --pp 1 --micro-batches 1 --format csv", 0, "0F0,0I0,0W0\n"},
           {"dualpipev --pp 1 --micro-batches 2 --format csv", 0,
            "0F0,1F0,0F1,1B0,(1F1;0B0)OVERLAP_F_B,1B1,0I1,0W1\n"},
           {"zb-h1 --pp 2 --micro-batches 1 --format csv --lower messages", 0,
            "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"},
           {"zb-h1 --pp 1 --micro-batches 1 --format csv --lower shards", 0,
            "0UNSHARD,0F0,0B0,0RESHARD\n"});
}

TEST(json_holds_every_action)
{
    EXPECT("plan --micro-batches 1 --format json --schedule",
           {"zb-h1 --pp 1", 0,
            "{\"stage\": 0, \"kind\": \"I\", \"micro_batch\": 0, \"start_units\": 1, "
            "\"end_units\": 2, \"with_next\": false}"},
           {"colossal-1f1b --pp 1", 0, "\"events\": [\n    [\"F0\", \"B0\"]\n  ]"},
           {"gpipe --pp 2", 0, "\"bubble_fraction\": 0.5,"});
}

TEST(a_users_schedule_is_checked_and_drawn)
{
    fixture_put(fixture_path("good.csv"), "1F0,,1B0\n0F0,0B0\n");
    fixture_put(fixture_path("bad.csv"), "0F0,0B0\n1B0,1F0\n");
    fixture_put(fixture_path("word.csv"), "0F0\n0G0\n");
    EXPECT(
        "plan", {"--schedule-file good.csv", 0, "rank 0  .   1F0 1B0----"},
        {"--schedule custom --schedule-file good.csv --pp 2 --format csv", 0, "1F0,1B0\n0F0,0B0\n"},
        {"--schedule-file bad.csv", 1,
         "bad.csv: rank 0: action 0B0 can never run: what it needs is not done before it"},
        {"--schedule-file word.csv", 1, "word.csv:2: cell 1: unknown action '0G0'"},
        {"--schedule-file none.csv", 1, "none.csv"},
        {"--schedule-file good.csv --pp 3", 1, "--pp 3: good.csv has 2 ranks"},
        {"--schedule-file good.csv --micro-batches 2", 1, "--micro-batches 2: good.csv has 1"},
        {"--schedule-file good.csv --chunks 1", 2,
         "--chunks: the stages of a rank follow from good.csv"},
        {"--schedule-file good.csv --drain-every 1", 2,
         "--drain-every: the order follows from good.csv"},
        {"--schedule-file good.csv --schedule gpipe", 2, "leave one of them out"},
        {"--schedule custom --pp 2", 2, "--schedule custom needs --schedule-file FILE"});
}

TEST(options_of_other_outputs_are_refused)
{
    EXPECT("plan", {"--schedule 1f1b --pp 2 --zero 1", 2, "--zero needs -w FILE"},
           {"--schedule 1f1b --pp 2 -c host", 2, "-c, -s, --ranks, --node-gbps,"},
           {"--schedule 1f1b --pp 2 --lower shards", 2, "--lower needs --format csv"},
           {"--schedule 1f1b --pp 2 --format csv --lower nothing", 2,
            "--lower: unknown value 'nothing'; expected one of messages, shards"},
           {"--schedule 1f1b --pp 2 --group 2", 2,
            "--micro-batch-group is of --schedule interleaved-1f1b, not of 1f1b"},
           {"--schedule 1f1b --pp 2 --durations 1us,1us,1us,0us", 2, "--durations needs -o"},
           {"--schedule 1f1b --pp 2 -o - --durations 1us,1us,1us", 2, "expected four times"},
           {"--schedule 1f1b --pp 2 -o -", 0, "\"name\":"},
           {"--lower shards -w w.json", 2, "--lower and --durations are for a grid alone"},
           {"--schedule dualpipe --pp 3 --micro-batches 6", 1, "it needs an even pp"},
           {"--schedule zbv --pp 2 --chunks 3", 1, "it takes --chunks 2"},
           {"--schedule gpipe --pp 32767 --micro-batches 65536", 1,
            "these are more actions than a grid holds"});
}

TEST(a_failed_allocation_is_reported)
{
    struct lw_schedule_shape s = {LW_SCHEDULE_1F1B, 2, 2, 1, 0, NULL};
    const struct lw_grid_costs unit = {1, 1, 1, 0};
    struct lw_grid g;
    struct lw_err err = {0};
    char text[4096];

    assert_int_equal(lw_schedule_grid(&s, &g, &err), LW_OK);
    EACH_ALLOCATION_FAILS_IN(1, draw_text(&g, unit, text, sizeof text));
    lw_grid_free(&g);
}

TEST_GROUP(fixture_open, fixture_close)
