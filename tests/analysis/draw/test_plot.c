/* Pictures: the data given to gnuplot comes from the database and says what the runs say. The runs
 * are those of tests/lib/commands/run_fixture.h; pixels are not tested. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "analysis/draw/step_bars.h"
#include "analysis/draw/plot.h"
#include "analysis/draw/plot_style.h"
#include "analysis/store/store_search.h"
#include "shared/device/device_time.h"
#include "shared/files/files.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/says.h"

/* An open database with all its runs, and a plot of them. */
struct scene {
    struct lw_store *store;
    struct lw_arena arena;
    struct lw_run *runs;
    struct lw_cluster cluster;
    struct lw_search search;
    struct lw_plot plot;
};

/* A search of two strategies. */
static void store_search(void)
{
    runs_sql("INSERT INTO search (status, hash, space, shard, n_shards, model, cluster, framework,"
             " global_batch, n_best, command, version, started_at) VALUES ('ok', '', '', 1, 1, 'm',"
             " 'c', 'f', 8, 1, 'tune', '1', 0)");
    for (int i = 0; i < 2; i++)
        runs_sql(i == 0 ? "INSERT INTO searched VALUES (1, 0, 'simulated', 1, 1, NULL, 0, 'tp=1',"
                          " '', '', 1, 1000, -1, -1, '', 0, 8, 64, 64, -1, 64, 1, 1, 1, NULL,"
                          " '', -1, 0, 0)"
                        : "INSERT INTO searched VALUES (1, 1, 'simulated', 0, 2, NULL, 1, 'tp=2',"
                          " '', '', 1, 1200, -1, -1, '', 0, 8, 32, 32, -1, 32, 1, 1, 1, NULL,"
                          " '', -1, 0, 0)");
}

static struct scene open_scene(enum lw_plot_kind kind)
{
    struct scene s = {0};
    struct lw_err err = {0};
    int32_t n;

    if (lw_store_open(runs_db, LW_STORE_READ, &s.store, &err) != LW_OK ||
        lw_store_runs(s.store, &s.arena, &s.runs, &n, &err) != LW_OK ||
        lw_cluster_find("dgx-h100", &s.cluster, &err) != LW_OK)
        fail_msg("%s", err.msg);
    s.plot = (struct lw_plot){.kind = kind, .runs = s.runs, .n_runs = n, .step = -1,
                              .max_ranks = 8, .op = LW_OP_ALL_REDUCE};
    if (lw_plot_source_of(kind) == LW_PLOT_FROM_SEARCH)
        s.plot.n_runs = 0;
    lw_store_find_search(s.store, "last", &s.arena, &s.search, NULL);
    return s;
}

static void close_scene(struct scene *s)
{
    lw_store_close(s->store);
    lw_cluster_free(&s->cluster);
    lw_arena_free(&s->arena);
}

/* The script as text; freed by the caller. */
static char *script_at(enum lw_plot_kind kind, int width)
{
    struct scene s = open_scene(kind);
    struct lw_err err = {0};
    FILE *f = tmpfile();

    s.plot.cluster = &s.cluster;
    s.plot.search = &s.search;
    s.plot.width = width;
    assert_ok(lw_plot_script(s.store, &s.plot, f, &err), err);
    long n = ftell(f);
    char *text = test_calloc((size_t)n + 1, 1);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    fclose(f);
    close_scene(&s);
    return text;
}

static char *script_of(enum lw_plot_kind kind)
{
    return script_at(kind, 0);
}

TEST_WITH(the_timeline_holds_every_bar_with_its_times, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    char *text = script_of(LW_PLOT_TIMELINE);
    /* us; rows: compute at -1.5, comm at -2.5; forward 0-100, backward to 300 */
    has(text, "\n0 100 -1.860 -1.140 5682409\n100 300 -1.860 -1.140 29362\n");
    /* bucket 0 on rank 0: starts 202, waits until 212, moves until 312; bucket 1 until 412 */
    has(text, "\n202 212 -2.860 -2.140 16509128\n212 312 -2.860 -2.140 15113984\n");
    has(text, "\n312 412 -2.860 -2.140 13983232\n");
    /* exposed from the end of backward to that of the last bucket */
    has(text, "$exposed << EOD\n300 412 -3.000 -2.880 0\n");
    has(text, "\"bucket 1, 4.00 MiB\"");
    has(text, "time from the start of the step [us]");
    has(text, "'rank 1: compute' -3.8, 'comm' ");
    test_free(text);
}

TEST_WITH(changing_one_span_changes_the_data, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    char *before = script_of(LW_PLOT_TIMELINE);
    runs_change_spans("UPDATE span SET end_ps = 417000000 WHERE rank = 0 AND op = 3");
    char *after = script_of(LW_PLOT_TIMELINE);
    assert_null(strstr(before, "\n312 417 -2.860"));
    has(after, "\n312 417 -2.860 -2.140 13983232\n");
    has(after, "$exposed << EOD\n300 412 "); /* the optimizer runs from 412: hidden there */
    test_free(before);
    test_free(after);
}

TEST_WITH(the_same_database_gives_the_same_script, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    store_search();
    runs_store(&runs_measured);
    for (int k = 0; k < LW_N_PLOTS; k++) {
        if (k == LW_PLOT_SWEEP)
            runs_store(&runs_one_bucket);
        char *a = script_of((enum lw_plot_kind)k), *b = script_of((enum lw_plot_kind)k);
        assert_string_equal(a, b);
        test_free(a);
        test_free(b);
    }
}

/* A plan that was executed twice is two points, and one plan. */
TEST_WITH(executions_of_a_plan_are_told_from_plans, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    char *one = script_of(LW_PLOT_PREDICTED);
    runs_store(&runs_measured);
    char *two = script_of(LW_PLOT_PREDICTED);
    has(one, "Predicted against measured: 1 plan, error ");
    has(one, " title 'a plan'");
    has(two, "Predicted against measured: 2 executions of 1 plan, error ");
    has(two, " title 'an execution'");
    test_free(one);
    test_free(two);
}

TEST_WITH(strips_add_up_to_the_exposed_communication_of_the_summary, runs_open, fixture_close)
{
    struct lw_err err = {0};
    struct picture pic;

    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    struct picture_view view = {s.runs, 2, -1, 8};
    assert_int_equal(picture_read(s.store, &view, &pic, &err), LW_OK);
    lw_ps total[2][2] = {{0}};
    for (int64_t i = 0; i < pic.n_strips; i++) {
        const struct picture_row *r = &pic.rows[pic.strips[i].row];
        total[r->run][r->rank] += pic.strips[i].end - pic.strips[i].start;
    }
    for (int run = 0; run < 2; run++)
        for (int rank = 0; rank < 2; rank++)
            assert_int_equal(total[run][rank], s.runs[run].exposed_comm);
    assert_int_equal(pic.step[1].length, 512 * LW_PS_PER_US); /* the warm-up step is not shown */
    picture_free(&pic);
    close_scene(&s);
}

TEST(short_bars_of_one_kind_are_drawn_as_one)
{
    struct picture_bar bars[3] = {
        {.start = 0, .end = 10, .kind = LW_OP_KERNEL, .n_ops = 1},
        {.start = 12, .end = 20, .kind = LW_OP_KERNEL, .n_ops = 1},
        {.start = 40, .end = 50, .kind = LW_OP_KERNEL, .n_ops = 1}};
    struct picture pic = {.bars = bars, .n_bars = 3};
    struct picture_bar joined;

    assert_int_equal(picture_join(&pic, 0, 2, &joined), 2);
    assert_int_equal(joined.end, 20);
    assert_int_equal(joined.n_ops, 2);
    assert_int_equal(picture_join(&pic, 0, 1, &joined), 1);
    bars[0].comm = bars[1].comm = true;
    assert_int_equal(picture_join(&pic, 0, 2, &joined), 1);
}

TEST(ops_below_a_pixel_become_one_bar_of_the_longest_kind)
{
    struct picture_bar bars[3] = {
        {.start = 0, .end = 2, .kind = LW_OP_KERNEL, .look = LOOK_KERNEL, .n_ops = 1},
        {.start = 2, .end = 6, .kind = LW_OP_COPY, .look = LOOK_COPY, .n_ops = 1},
        {.start = 6, .end = 9, .kind = LW_OP_KERNEL, .look = LOOK_KERNEL, .n_ops = 1}};
    struct picture_strip strips[2] = {{.start = 0, .end = 4, .covered = 4},
                                      {.start = 6, .end = 9, .covered = 3}};
    struct picture pic = {.bars = bars, .n_bars = 3, .strips = strips, .n_strips = 2};
    struct picture_bar joined;
    struct picture_strip strip;

    assert_int_equal(picture_join(&pic, 0, 5, &joined), 2); /* 0-6 is longer than a gap: closed */
    assert_int_equal(joined.end, 6);
    assert_int_equal(joined.kind, LW_OP_COPY);
    assert_int_equal(joined.look, LOOK_COPY);
    assert_int_equal(picture_join_strips(&pic, 0, 2, &strip), 2);
    assert_int_equal(strip.end, 9);
    assert_int_equal(strip.covered, 7);
    assert_int_equal(picture_join_strips(&pic, 0, 1, &strip), 1);
}

/* The same step on both ranks: one group of rows that names both. */
TEST_WITH(equal_ranks_are_drawn_once, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_sql("UPDATE span_block SET base_ps = o.base_ps, data = o.data FROM span_block AS o"
             " WHERE span_block.rank = 1 AND o.rank = 0 AND o.step = span_block.step"
             " AND o.pass = span_block.pass");
    char *text = script_of(LW_PLOT_TIMELINE);
    has(text, "set ytics ('ranks 0-1 (2): compute' -1.5, 'comm' -2.5)");
    assert_null(strstr(text, "rank 1:"));
    test_free(text);
}

/* Two stages in one more run than fit: of each stage one rank, and the rest is counted. */
TEST_WITH(of_many_ranks_one_of_each_stage_is_drawn, runs_open, fixture_close)
{
    struct lw_err err = {0};
    struct picture pic;

    runs_store(&runs_predicted);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    struct picture_view view = {s.runs, 1, -1, 1};
    assert_int_equal(picture_read(s.store, &view, &pic, &err), LW_OK);
    assert_int_equal(pic.left_out[0], 1);
    assert_string_equal(pic.rows[0].group, "rank 0");
    picture_free(&pic);
    close_scene(&s);
    runs_sql("UPDATE plan_rank SET pp = rank");
    s = open_scene(LW_PLOT_TIMELINE);
    view = (struct picture_view){s.runs, 1, -1, 2};
    assert_int_equal(picture_read(s.store, &view, &pic, &err), LW_OK);
    assert_int_equal(pic.left_out[0], 0);
    assert_string_equal(pic.rows[0].group, "stage 0, rank 0");
    assert_string_equal(pic.rows[2].group, "stage 1, rank 1");
    picture_free(&pic);
    close_scene(&s);
}

/* A later version may know more kinds of ops. */
TEST_WITH(an_unknown_kind_of_op_is_not_drawn_as_another, runs_open, fixture_close)
{
    struct lw_err err = {0};
    struct picture pic;

    runs_store(&runs_predicted);
    runs_sql("UPDATE op_kind SET name = 'teleport' WHERE name = 'all_reduce'");
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    struct picture_view view = {s.runs, 1, -1, 8};
    assert_int_equal(picture_read(s.store, &view, &pic, &err), LW_EINVAL);
    has(err.msg, "of its table op_kind is unknown: a later lapwing stored it");
    close_scene(&s);
}

TEST_WITH(a_picture_is_read_whole_or_not_at_all, runs_open, fixture_close)
{
    struct lw_err err = {0};
    struct picture pic = {0};

    runs_store(&runs_predicted);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    struct picture_view view = {s.runs, 1, -1, 8};
    EACH_ALLOCATION_FAILS(8, picture_read(s.store, &view, &pic, &err), pic, picture_free(&pic));
    close_scene(&s);
}

TEST_WITH(the_legend_holds_what_is_drawn, runs_open, fixture_close)
{
    runs_store(&runs_one_bucket); /* bucket 0 alone: no odd one; no copies, no host */
    char *text = script_of(LW_PLOT_TIMELINE);
    has(text, "set label 9000 'forward' at screen ");
    has(text, "'sums of gradients'");
    has(text, "fillcolor rgb '#e69f00'");
    assert_null(strstr(text, "fillcolor rgb '#d55e00'"));
    assert_null(strstr(text, "copies"));
    assert_null(strstr(text, "'host'"));
    test_free(text);
}

TEST_WITH(micro_batches_are_numbered_and_take_turns_in_colour, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_rows_sql("UPDATE op_row SET micro_batch = 1 WHERE alike IN"
                  " (SELECT alike FROM op_alike WHERE kind = 'backward')");
    char *text = script_of(LW_PLOT_TIMELINE);
    has(text, "\"backward 1\"");
    has(text, "\n100 300 -1.860 -1.140 4167628\n"); /* 0x3f97cc */
    test_free(text);
}

TEST(kernels_of_a_replay_have_the_colour_of_their_class)
{
    assert_int_equal(look_of(LW_OP_KERNEL, -1, "ampere_sgemm_128x64_nn"), LOOK_ARITHMETIC);
    assert_int_equal(look_of(LW_OP_KERNEL, -1, "void cub::DeviceScanKernel<>"), LOOK_MEMORY);
    assert_int_equal(look_of(LW_OP_KERNEL, -1, ""), LOOK_KERNEL);
    assert_int_equal(look_of(LW_OP_KERNEL, -1, "recompute"), LOOK_RECOMPUTE);
    assert_int_equal(look_of(LW_OP_ALL_GATHER, 3, ""), LOOK_WEIGHTS);
    assert_int_equal(look_of(LW_OP_REDUCE_SCATTER, 3, ""), LOOK_GRADIENTS);
    assert_int_equal(look_of(LW_OP_ALL_REDUCE, -1, ""), LOOK_COLLECTIVE);
}

/* Luma of ITU-R BT.601, as printers and image programs make grey. */
static void assert_greys_differ(const int32_t *colours, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            int grey[2];
            for (int j = 0; j < 2; j++) {
                int32_t c = colours[j ? i : k];
                grey[j] = (299 * (c >> 16 & 255) + 587 * (c >> 8 & 255) + 114 * (c & 255)) / 1000;
            }
            if (abs(grey[0] - grey[1]) < 12)
                fail_msg("#%06x and #%06x are greys %d and %d", (unsigned)colours[k],
                         (unsigned)colours[i], grey[0], grey[1]);
        }
}

/* What may share a row of a timeline: of compute, and of everything else with the optimizer. */
TEST(looks_that_share_a_row_differ_in_grey)
{
    static const enum picture_look compute[] = {
        LOOK_FORWARD, LOOK_BACKWARD, LOOK_BACKWARD_WEIGHT, LOOK_RECOMPUTE, LOOK_OPTIMIZER,
        LOOK_COPY, LOOK_HOST};
    static const enum picture_look others[] = {
        LOOK_OPTIMIZER, LOOK_COPY, LOOK_HOST, LOOK_GRADIENTS, LOOK_WEIGHTS, LOOK_MESSAGE,
        LOOK_COLLECTIVE, LOOK_WAIT, LOOK_EXPOSED};
    const struct {
        const enum picture_look *looks;
        size_t n;
    } rows[] = {{compute, sizeof compute / sizeof *compute},
                {others, sizeof others / sizeof *others}};

    for (int r = 0; r < 2; r++) {
        int32_t colours[2 * N_LOOKS];
        int n = 0;
        for (size_t i = 0; i < rows[r].n; i++) {
            colours[n++] = look_colour(rows[r].looks[i], false);
            if (look_colour(rows[r].looks[i], true) != colours[n - 1])
                colours[n++] = look_colour(rows[r].looks[i], true);
        }
        assert_greys_differ(colours, n);
    }
}

static void legend_differs_in_grey(enum lw_plot_kind kind, int n_expected)
{
    static const char mark[] = "fillcolor rgb '#";
    char *text = script_of(kind);
    int32_t colours[N_LOOKS];
    int n = 0;

    for (const char *at = text; (at = strstr(at, mark)) && n < N_LOOKS; at += sizeof mark)
        colours[n++] = (int32_t)strtol(at + sizeof mark - 1, NULL, 16);
    assert_int_equal(n, n_expected);
    assert_greys_differ(colours, n);
    test_free(text);
}

TEST_WITH(legends_of_memory_and_overlap_differ_in_grey, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_rows_sql("DELETE FROM memory; INSERT INTO memory VALUES"
                  " (1, 0, 0, 0, 'parameters', 1), (1, 1, 0, 0, 'gradients', 1),"
                  " (1, 2, 0, 0, 'optimizer', 1), (1, 3, 0, 0, 'buckets', 1),"
                  " (1, 4, 0, 0, 'gathered_units', 1), (1, 5, 0, 0, 'activations', 1);"
                  "UPDATE metric SET value = 5 WHERE name IN ('wait_pipeline_ps', 'idle_ps')");
    legend_differs_in_grey(LW_PLOT_MEMORY, 6);
    legend_differs_in_grey(LW_PLOT_OVERLAP, 5);
}

/* Labels of a script whose text, at 7/10 of the font size a character, would leave the picture. */
TEST_WITH(no_text_leaves_the_picture_from_600_to_3000_pixels, runs_open, fixture_close)
{
    static const int widths[] = {600, 1400, 3000};

    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    runs_sql("UPDATE run SET name = 'a run whose name is as long as a name can be, with every "
             "option of its strategy that differs from what is usual: dp 8, tp 4, pp 16, zero 3'");
    for (int kind = 0; kind < 2; kind++) /* timeline, overlap */
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            struct scene s = open_scene((enum lw_plot_kind)kind);
            struct lw_err err = {0};
            char line[4096], text[600];
            FILE *f = tmpfile();
            double x;
            s.plot.width = widths[i];
            assert_int_equal(lw_plot_script(s.store, &s.plot, f, &err), LW_OK);
            rewind(f);
            int n = 0;
            while (fgets(line, sizeof line, f))
                if (sscanf(line, "set label %*d '%599[^']' at screen %lf,", text, &x) == 2) {
                    int points = strstr(line, "font ',8'") ? 8 : strstr(line, "',13'") ? 13 : 10;
                    double px = plot_text_px(text, points) * (strstr(line, " center") ? 0.5 : 1);
                    assert_true(strstr(line, " left") || x * widths[i] - px >= 0);
                    assert_true(strstr(line, " right") || x * widths[i] + px <= widths[i]);
                    n++;
                }
            assert_true(n >= 5);
            fclose(f);
            close_scene(&s);
        }
}

/* The first stored rows are those of the fixture's plan. */
TEST_WITH(memory_is_stacked_by_category, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    char *before = script_of(LW_PLOT_MEMORY);
    has(before, "$memory << EOD\n0 4 4 4 4 4 4 4 4\n432 4 4 4 4 4 4 4 4\nEOD");
    test_free(before);
    runs_rows_sql("DELETE FROM memory; INSERT INTO memory VALUES"
                  " (1, 0, 0, 0, 'parameters', 102400), (1, 1, 0, 0, 'activations', 0),"
                  " (1, 2, 0, 100000000, 'activations', 40960),"
                  " (1, 3, 0, 300000000, 'activations', 0)");
    char *text = script_of(LW_PLOT_MEMORY);
    /* us; parameters 100 KiB below, activations on top from 100 to 300 */
    has(text, "\n100 100 100 100 100 100 100 100 100\n100 100 100 100 100 100 100 100 140\n");
    has(text, "\n300 100 100 100 100 100 100 100 140\n300 100 100 100 100 100 100 100 100\n432 ");
    has(text, "set label 1 'peak 140 KiB' at 100,140 left");
    has(text, "set label 4 '' at 100,140 front point");
    has(text, "'activations' at screen");
    assert_null(strstr(text, "'optimizer' at screen")); /* it holds none */
    test_free(text);
}

/* The device's memory is a line; far above what is held, a note; without the cluster, nothing. */
TEST_WITH(memory_shows_what_the_device_has, runs_open, fixture_close)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    char hash[33], sql[256];

    runs_store(&runs_predicted);
    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    assert_ok(lw_cluster_hash(&c, hash, &err), err);
    double gib = c.device.memory_bytes.value / (1 << 30);
    runs_rows_sql("DELETE FROM memory; INSERT INTO memory VALUES"
                  " (1, 0, 0, 0, 'parameters', 50000000000)");
    char *text = script_of(LW_PLOT_MEMORY);
    assert_null(strstr(text, "memory of ")); /* "two cores" is known nowhere */
    test_free(text);
    snprintf(sql, sizeof sql, "UPDATE run SET cluster_name = 'dgx-h100', cluster_hash = '%s'",
             hash);
    runs_sql(sql);
    text = script_of(LW_PLOT_MEMORY);
    snprintf(sql, sizeof sql, "'memory of %s: %.2f GiB' at graph", c.device.kind, gib);
    has(text, sql);
    snprintf(sql, sizeof sql, "set arrow 2 from graph 0,first %.6g to graph 1,first %.6g nohead",
             gib, gib);
    has(text, sql);
    test_free(text);
    runs_rows_sql("UPDATE memory SET bytes = 84000000000"); /* 78.23 of 79.65 GiB */
    text = script_of(LW_PLOT_MEMORY);
    snprintf(sql, sizeof sql, "set label 1 'peak 78.23 GiB' at 0,%.6g left", gib);
    has(text, sql);
    has(text, "set label 4 '' at 0,78.2311 front point");
    test_free(text);
    runs_rows_sql("UPDATE memory SET bytes = 2000000000");
    text = script_of(LW_PLOT_MEMORY);
    has(text, " GiB, above this picture' at graph");
    assert_null(strstr(text, "set arrow"));
    test_free(text);
    runs_sql("UPDATE run SET cluster_hash = 'another'");
    text = script_of(LW_PLOT_MEMORY);
    assert_null(strstr(text, "memory of "));
    test_free(text);
    lw_cluster_free(&c);
}

/* In the terminal: 100 MiB below, 50 on top in the second half. */
TEST_WITH(memory_has_a_letter_for_each_category, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_rows_sql("DELETE FROM memory; INSERT INTO memory VALUES"
                  " (1, 0, 0, 0, 'parameters', 104857600),"
                  " (1, 1, 0, 216000000, 'activations', 52428800)");
    const char *text = shell("$L plot memory 1 --db lapwing.db -o - --width 100 --height 11", NULL);
    int columns = (int)strspn(strstr(text, " +") + 2, "-");
    /* 150 * 1.1 over 11 rows: 15 MiB each; activations from 105 MiB, so in rows 7 to 9 */
    const char *row = text;

    assert_int_equal(columns, 89);
    for (int i = 0; i < 11; i++) {
        row = strstr(row, " |") + 2;
        char first = i < 4 ? ' ' : 'p', last = i < 1 ? ' ' : i < 4 ? 'a' : 'p';
        assert_int_equal(row[0], first);
        assert_int_equal(row[columns / 2 - 1], first);
        assert_int_equal(row[columns - 1], last);
        assert_int_equal(row[columns], '\n');
    }
    has(text, "\na activations, p parameters; in MiB, peak 150\n");
}

/* A category more than that is a category that the picture lacks. */
TEST_WITH(memory_is_made_of_all_that_is_stored, runs_open, fixture_close)
{
    char sql[160];

    runs_store(&runs_predicted);
    runs_rows_sql("DELETE FROM memory");
    for (int m = 0; m < LW_N_MEMORY; m++) {
        snprintf(sql, sizeof sql, "INSERT INTO memory VALUES (1, %d, 0, 0, '%s', %d)", m,
                 lw_memory_name((enum lw_memory)m), 1048576 << m);
        runs_rows_sql(sql);
    }
    const char *text = shell("$L plot memory 1 --db lapwing.db -o - --width 100", NULL);
    has(text, "\na activations, m messages, w gathered weights, b buckets, s workspaces, "
              "o optimizer, g gradients, p parameters; in MiB, peak 255\n");
}

/* Against the cluster's own answers: busbw of 1 MiB as `lapwing cost` gives it. */
TEST_WITH(the_roofline_is_what_the_cost_model_says, runs_open, fixture_close)
{
    struct scene s;
    struct lw_err err = {0};
    struct lw_cost_query q = {.op = LW_OP_ALL_REDUCE, .dtype = LW_F32, .bytes = 1 << 20,
                              .n_ranks = 8, .n_nodes = 1, .algorithm = LW_REDUCER_AUTO};
    struct lw_cost_answer a;
    char row[64];

    runs_store(&runs_predicted);
    s = open_scene(LW_PLOT_ROOFLINE);
    assert_int_equal(lw_sim_cost_explain(&s.cluster, &q, &a, &err), LW_OK);
    snprintf(row, sizeof row, "\n1048576 %.6g\n", lw_sim_busbw(&q, a.time) / 1e9);
    close_scene(&s);
    char *text = script_of(LW_PLOT_ROOFLINE);
    has(text, row);
    has(text, "title '16 ranks, 2 nodes'");
    /* the faster link has its name above its line, the slower one below */
    has(text, "ring inside a node, 370.8 GB/s' at graph 0.01, first 370.8 left offset "
              "0,-0.6");
    has(text, "'ring between nodes, 400 GB/s a node' at graph 0.01, first 400 left offset "
              "0,0.6");
    test_free(text);
}

TEST_WITH(products_are_drawn_as_the_device_model_times_them, runs_open, fixture_close)
{
    struct lw_product p = {.m = 1024, .n = 4096, .k = 4096, .dtype = LW_BF16};
    struct scene s;
    char row[2][64];

    runs_store(&runs_predicted);
    s = open_scene(LW_PLOT_GEMM);
    for (int k = 0; k < 2; k++) {
        p.batch = k ? 8 : 1;
        p.grouped = k;
        lw_ps time = lw_product_time(&s.cluster.device, &p);
        snprintf(row[k], sizeof row[k], "\n4096 %.6g\n",
                 2.0 * (double)p.batch * 1024 * 4096 * 4096 / (double)time);
    }
    close_scene(&s);
    assert_string_not_equal(row[0], row[1]);
    char *text = script_of(LW_PLOT_GEMM);
    has(text, row[0]);
    has(text, row[1]);
    has(text, "title 'bf16, m = 1024'");
    has(text, "title 'bf16, 8 experts of m = 1024'");
    test_free(text);
}

/* A calibration's products: 2 x 64^3 FLOPs in 20 us are 0.0262144 TFLOP/s. */
TEST_WITH(products_of_a_calibration_are_drawn_as_measured, runs_open, fixture_close)
{
    fixture_put(fixture_path("mine.json"),
                "{\"lapwing\": 1, \"kind\": \"cluster\", \"name\": \"mine\", "
                "\"devices_per_node\": 2, \"device\": {\"kind\": \"cpu core\", \"work\": ["
                "{\"kind\": \"gemm\", \"dtype\": \"f32\", \"source\": \"measured\", "
                "\"rows\": [{\"size\": 524288, \"ns\": 20000}, "
                "{\"size\": 4194304, \"ns\": 100000}]}]}}\n");
    expect("plot gemm -c mine.json -o g.gp", 0, "wrote g.gp");
    char *text = fixture_get(fixture_path("g.gp"));
    has(text, "64 0.0262144\n128 0.041943\n");
    has(text, "title 'f32, measured, m = n = k'");
    has(text, "set xrange [64:128]");
    assert_null(strstr(text, "$memory"));
    free(text);
    expect("plot gemm -c host -o g.gp --force", 1, "or measure this machine (lapwing calibrate)");
}

/* No two kinds of a timeline of characters have one character. */
TEST_WITH(characters_of_kinds_are_distinct, runs_open, fixture_close)
{
    shell("$L sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 --pp 2 --micro-batches 2 --spans --db "
          "c.db >log", NULL);
    char *text = strdup(lapwing("plot timeline --db c.db -o -", NULL));
    bool seen[128] = {false};
    int n = 0;

    assert_non_null(text);
    char *legend = strstr(text, "\nF forward, ");
    assert_non_null(legend);
    for (char *p = legend + 1; *p && strncmp(p, "digits", 6) != 0; n++) {
        assert_false(seen[(int)*p]);
        seen[(int)*p] = true;
        p = strstr(p, ", ");
        assert_non_null(p);
        p += 2;
    }
    assert_in_range(n, 6, 20);
    free(text);
}

TEST_WITH(a_validation_is_drawn_by_family_and_model, runs_open, fixture_close)
{
    static const char json[] =
        "{\"families\": [], \"cases\": ["
        "{\"id\": \"net__1g__cap1\", \"family\": \"a\", \"predicted_ns\": 2000000,"
        " \"measured_ns\": 1000000, \"error_pct\": 100},"
        "{\"id\": \"other:3\", \"family\": \"a\", \"predicted_ns\": 9000000,"
        " \"measured_ns\": 10000000, \"error_pct\": -10},"
        "{\"id\": \"x\", \"family\": \"b\", \"predicted\": 3, \"measured\": 3,"
        " \"unit\": \"GiB\"}]}";
    struct lw_plot p = {.kind = LW_PLOT_PREDICTED};
    struct lw_err err = {0};
    char file[512], text[8192] = "";

    fixture_put(fixture_path("v.json"), json);
    snprintf(file, sizeof file, "%s", fixture_path("v.json"));
    p.validation = file;
    FILE *f = tmpfile();
    assert_int_equal(lw_plot_script(NULL, &p, f, &err), LW_OK);
    rewind(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    has(text, "'a: 2 cases, error 55.0 % in the mean, 100.0 % at most'");
    has(text, "$model0 << EOD\n1 2\nEOD\n$model1 << EOD\n10 9\nEOD");
    has(text, "title 'net'");
    has(text, "'net__1g__cap1, +100.0 %'");
    has(text, "set logscale xy 10");
    p.family = "c";
    f = tmpfile();
    assert_int_equal(lw_plot_script(NULL, &p, f, &err), LW_EINVAL);
    fclose(f);
    has(err.msg, "no case of family 'c'");
}

TEST(many_runs_come_in_pages)
{
    struct lw_run runs[8] = {{.id = 1}};
    struct lw_plot p = {.kind = LW_PLOT_TIMELINE, .runs = runs, .n_runs = 8};
    struct lw_err err = {0};
    int64_t n_pages;

    assert_int_equal(lw_plot_page(&p, 2, &n_pages, &err), LW_OK);
    assert_int_equal(n_pages, 2);
    assert_ptr_equal(p.runs, runs + 6);
    assert_int_equal(p.n_runs, 2);
    assert_int_equal(lw_plot_page(&p, 2, &n_pages, &err), LW_EINVAL);
    has(err.msg, "--page 2: 'timeline' of 2 runs has 1 page");
}

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

TEST_WITH(predictions_are_paired_with_executions_of_the_same_plan, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket); /* never executed: no point */
    runs_store(&runs_measured);
    char *text = script_of(LW_PLOT_PREDICTED);
    has(text, "$pairs << EOD\n512 432 512 512 432 432\nEOD");
    has(text, "set label '1.00 MiB, -15.6 %' at graph ");
    has(text, "1 plan, error 15.6 % in the mean");
    test_free(text);
    runs_sql("INSERT INTO metric VALUES (3, 'others_pct', -1, -1, 40.0)");
    text = script_of(LW_PLOT_PREDICTED);
    has(text, "set label '1.00 MiB, -15.6 %, under load' at graph ");
    has(text, "'Predicted against measured: 1 plan, 1 measured under load'");
    test_free(text);
    text = script_of(LW_PLOT_OVERLAP);
    has(text, "'run 3 (under load), measured");
    test_free(text);
}

/* A short step beside one of 100 times as much: its point stays off the axis. */
TEST_WITH(the_lowest_point_has_room_below, runs_open, fixture_close)
{
    double low, high;

    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    runs_sql("UPDATE metric SET value = value * 100 WHERE run = 2 AND name = 'step_ps'");
    char *text = script_of(LW_PLOT_PREDICTED);
    const char *range = strstr(text, "set yrange [");
    assert_non_null(range);
    assert_int_equal(sscanf(range, "set yrange [%lf:%lf]", &low, &high), 2);
    assert_true((0.432 - low) / (high - low) >= 0.05); /* ms */
    test_free(text);
}

TEST_WITH(a_sweep_marks_the_best_cap, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket); /* 212 + 150 + 20 = 382 */
    char *text = script_of(LW_PLOT_SWEEP);
    has(text, "$predicted << EOD\n1 432 432 432\n25 382 382 382\nEOD");
    has(text, "'+' using (25):(382) every ::0::0");
    has(text, "set xtics ('1 MiB' 1, '2 MiB' 2, '4 MiB' 4, '8 MiB' 8, '16 MiB' 16, '32 MiB' 32)");
    test_free(text);
}

/* A line would connect steps of two clusters, and pass between two at one cap. */
TEST_WITH(a_sweep_of_two_clusters_has_two_lines, runs_open, fixture_close)
{
    struct lw_err err = {0};

    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket);
    char *text = script_of(LW_PLOT_SWEEP);
    has(text, "$predicted using 1:2 smooth unique with linespoints");
    has(text, "$measured using 1:2 smooth unique with lines");
    test_free(text);
    runs_sql("UPDATE run SET cluster_hash = 'another' WHERE id = 2");
    struct scene s = open_scene(LW_PLOT_SWEEP);
    assert_int_equal(lw_plot_script(s.store, &s.plot, stderr, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "no two of 2 runs differ only in --bucket-cap"));
    close_scene(&s);
}

/* Lines over the option with most values; where runs have several, over caps; a run that lacks
 * memory is marked, and is not the best. */
TEST_WITH(a_sweep_has_a_line_for_each_of_all_else, runs_open, fixture_close)
{
    shell("$L sim -w gpt2 --batch 1 -c dgx-a100,dgx-h100 --dp 2,4,8 --zero 0,1 --db l.db -q >log",
          NULL);
    EXPECT("plot sweep --db l.db -o dp.gp", {"--force", 0, "wrote dp.gp"},
           {"--x zero --force", 0, "wrote dp.gp"}, {"--x none", 1, "--none; --x names another"},
           {"--x cluster --force", 0, "wrote dp.gp"});
    expect("plot overlap --x dp --db l.db -o o.gp", 2, "--x is for 'sweep'");
    expect("plot sweep --db l.db -o lines.gp", 0, "");
    char *text = fixture_get(fixture_path("lines.gp"));
    has(text, "set xlabel 'dp'");
    has(text, "set ylabel 'ns a token'"); /* a step of more ranks trains more */
    has(text, "title 'dgx-a100, zero 0'");
    has(text, "title 'dgx-h100, zero 1'");
    has(text, "title 'best: run ");
    assert_non_null(strstr(text, "$line3 << EOD\n2 "));
    assert_null(strstr(text, "$line4"));
    assert_null(strstr(text, "does not fit"));
    free(text);
    shell("mv l.db lapwing.db", NULL);
    runs_sql("UPDATE metric SET value = 0 WHERE name = 'fits' AND run >= 9");
    shell("mv lapwing.db l.db", NULL);
    expect("plot sweep --db l.db -o lacks.gp", 0, "");
    text = fixture_get(fixture_path("lacks.gp"));
    has(text, "title 'does not fit'");
    has(text, "set key outside top right");
    free(text);
    expect("plot sweep --db l.db -o narrow.gp --width 400", 0, "");
    text = fixture_get(fixture_path("narrow.gp")); /* names of 16 characters beside a line */
    has(text, "set key at screen 0.5, screen ");
    free(text);
    const char *letters = shell("$L plot sweep --db l.db -o -", NULL);
    has(letters, "x does not fit; * best: run ");
    has(letters, "A dgx-a100, zero 0");
    has(letters, "D dgx-h100, zero 1");
    has(letters, "Dx");
}

/* Two models are lines of their own, and neither is the best of both. */
TEST_WITH(a_sweep_of_two_models_rings_none, runs_open, fixture_close)
{
    shell("$L sim -w gpt2,bert-base --batch 1 -c dgx-a100 --dp 2,4 -q --db two.db >log && "
          "$L plot sweep --x dp --db two.db -o two.gp && "
          "$L plot sweep --x dp 1 2 --db two.db -o one.gp", NULL);
    char *two = fixture_get(fixture_path("two.gp")), *one = fixture_get(fixture_path("one.gp"));

    has(two, "$line1");
    assert_null(strstr(two, "best: run"));
    has(one, "best: run");
    free(two);
    free(one);
}

/* A default cap that is less than 1 % slower is kept, as `lapwing recommend` does. */
TEST_WITH(a_sweep_keeps_a_default_that_is_as_fast, runs_open, fixture_close)
{
    struct fixture_run usual = runs_one_bucket;

    usual.cap_bytes = -1; /* 382 us, as the best */
    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket);
    runs_store(&usual);
    char *text = script_of(LW_PLOT_SWEEP);
    has(text, "\n  382 with lines ");
    has(text, "title 'default cap, predicted: none is 1 % faster'");
    assert_null(strstr(text, "title 'best predicted'"));
    test_free(text);
    runs_sql("UPDATE run SET step_p10_ps = 370000000, step_p90_ps = 400000000 WHERE id = 3");
    text = script_of(LW_PLOT_SWEEP);
    const char *range = strstr(text, "set xrange ["), *interval = strstr(text, "'+' using (");
    double from, to, at; /* right of all caps, on the axis */
    assert_true(range && interval);
    assert_int_equal(sscanf(range, "set xrange [%lf:%lf]", &from, &to), 2);
    assert_int_equal(sscanf(interval, "'+' using (%lf):(382):(370):(400)", &at), 1);
    assert_true(at > 25 && at < to);
    test_free(text);
    runs_sql("UPDATE metric SET value = value * 2 WHERE run = 3");
    text = script_of(LW_PLOT_SWEEP);
    has(text, "\n  764 with lines ");
    has(text, "title 'default cap, predicted', ");
    has(text, "title 'best predicted'");
    test_free(text);
}

/* 2 KiB is 1/512 of the next cap: it would take most of the axis. */
TEST_WITH(a_sweep_begins_at_the_smallest_useful_cap, runs_open, fixture_close)
{
    struct fixture_run small = runs_one_bucket;

    small.cap_bytes = 2048;
    small.wire_us = 300;
    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket);
    runs_store(&small);
    char *text = script_of(LW_PLOT_SWEEP);
    has(text, "set xtics ('1 MiB' 1, '2 MiB' 2, ");
    has(text, "'left of the axis: cap 2 KiB' at graph");
    test_free(text);
    runs_sql("UPDATE metric SET value = value / 2 WHERE run = 3"); /* the best is shown */
    text = script_of(LW_PLOT_SWEEP);
    has(text, "set xtics ('2 KiB' 0.00195312");
    assert_null(strstr(text, "left of the axis"));
    test_free(text);
}

static void refused(enum lw_plot_kind kind, const char *words)
{
    struct scene s = open_scene(kind);
    struct lw_err err = {0};
    FILE *f = tmpfile();

    assert_int_equal(lw_plot_script(s.store, &s.plot, f, &err), LW_EINVAL);
    has(err.msg, words);
    fclose(f);
    close_scene(&s);
}

TEST_WITH(a_picture_that_lacks_its_runs_says_which, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    refused(LW_PLOT_PREDICTED, "no execution among these runs has a prediction of the same plan");
    refused(LW_PLOT_SWEEP, "needs two or more runs");
    runs_sql("UPDATE run SET n_spans = 0, first_span = NULL, last_span = NULL;"
             "DELETE FROM span_block");
    refused(LW_PLOT_TIMELINE, "run 1 was stored without spans");
    runs_sql("DELETE FROM metric");
    refused(LW_PLOT_OVERLAP, "run 1 has no step to show");
}

TEST(the_output_name_chooses_the_terminal)
{
    enum lw_plot_terminal t;
    struct lw_err err;

    assert_int_equal(lw_plot_terminal_of("a.b/x.png", &t, &err), LW_OK);
    assert_int_equal(t, LW_TERMINAL_PNG);
    assert_int_equal(lw_plot_terminal_of("x.svg", &t, &err), LW_OK);
    assert_int_equal(t, LW_TERMINAL_SVG);
    assert_int_equal(lw_plot_terminal_of("-", &t, &err), LW_OK);
    assert_int_equal(t, LW_TERMINAL_DUMB);
    assert_int_equal(lw_plot_terminal_of("x.gp", &t, &err), LW_OK);
    assert_int_equal(t, LW_TERMINAL_SCRIPT);
    assert_int_equal(lw_plot_terminal_of("x.jpg", &t, &err), LW_EINVAL);
    has(err.msg, ".png, .svg, .pdf or .gp");
}

static bool have_gnuplot(void)
{
    char buf[128];
    struct lw_err err;

    if (lw_plot_version(buf, sizeof buf, &err) == LW_OK)
        return true;
    print_message("SKIP plot: %s\n", err.msg);
    return false;
}

static void draw(enum lw_plot_kind kind, const char *name, char *head, size_t n)
{
    char file[512];
    struct scene s = open_scene(kind);
    struct lw_err err = {0};

    s.plot.cluster = &s.cluster;
    s.plot.search = &s.search;
    snprintf(file, sizeof file, "%s", fixture_path(name));
    assert_int_equal(lw_plot_terminal_of(file, &s.plot.terminal, &err), LW_OK);
    assert_ok(lw_plot_draw(s.store, &s.plot, file, &err), err);
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, n, f), n);
    fclose(f);
    close_scene(&s);
}

TEST_WITH(gnuplot_draws_every_kind_without_complaint, runs_open, fixture_close)
{
    char head[8], file[32];

    if (!have_gnuplot())
        skip();
    runs_store(&runs_predicted);
    store_search();
    runs_store(&runs_measured);
    runs_store(&runs_one_bucket);
    for (int k = 0; k < LW_N_PLOTS; k++) {
        snprintf(file, sizeof file, "%s.png", lw_plot_name((enum lw_plot_kind)k));
        draw((enum lw_plot_kind)k, file, head, 8);
        assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
        snprintf(file, sizeof file, "%s.svg", lw_plot_name((enum lw_plot_kind)k));
        draw((enum lw_plot_kind)k, file, head, 5);
        assert_memory_equal(head, "<?xml", 5);
    }
}

/* A PDF of the same picture has the same bytes at any time of day, and is replaced without --force;
 * one that was edited is not. */
TEST_WITH(a_pdf_is_lapwing_s_own, runs_open, fixture_close)
{
    int rc;

    if (!have_gnuplot())
        skip();
    shell("$L sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 -q --db p.db >log", NULL);
    shell("$L plot overlap --db p.db -o o.pdf && cp o.pdf first.pdf && sleep 1 && "
          "$L plot overlap --db p.db -o o.pdf && cmp o.pdf first.pdf && head -c 5 o.pdf | "
          "grep -q %PDF- && grep -qa 'D:19700101000000' o.pdf", &rc);
    assert_int_equal(rc, 0);
    shell("echo x >>o.pdf", NULL);
    expect("plot overlap --db p.db -o o.pdf", 1, "--force");
}

/* XML allows "]]>" in no text and no reference to character 0: a name with both, in every kind that
 * shows the name of a run. */
TEST_WITH(a_name_with_the_end_of_cdata_is_xml, runs_open, fixture_close)
{
    static const char *const kinds[] = {"timeline", "overlap", "memory", "sweep", "predicted"};

    if (!have_gnuplot())
        skip();
    lapwing("model mlp --layers 2 --width 32 --device dgx-a100 -o w.json", NULL);
    shell("sed -i '0,/\"name\": \"[^\"]*\"/s//\"name\": \"x]]]>y<\\&#0;\"/' w.json", NULL);
    for (int i = 1; i < 3; i++)
        shellf("$L sim -w w.json --dp 2 -c dgx-a100 --bucket-cap %dKiB --spans --db x.db", i);
    shell("$L exec -w w.json --dp 2 --steps 2 --compute sleep --bucket-cap 1KiB --db x.db", NULL);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        shellf("$L plot %s --db x.db -o %s.svg", kinds[k], kinds[k]);
        char name[32];
        snprintf(name, sizeof name, "%s.svg", kinds[k]);
        char *text = fixture_get(fixture_path(name));
        if (strstr(text, "]]>") || !strstr(text, "x]]]&gt;y&lt;&amp;#0;"))
            fail_msg("%s: %s", name, strstr(text, "]]") ? strstr(text, "]]") : text);
        free(text);
    }
}

TEST_WITH(without_gnuplot_nothing_is_written_and_it_is_named, runs_open, fixture_close)
{
    char file[512], *path = strdup(getenv("PATH"));
    struct lw_err err = {0};

    runs_store(&runs_predicted);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    snprintf(file, sizeof file, "%s", fixture_path("x.png"));
    setenv("PATH", fixture_path(""), 1);
    assert_int_equal(lw_plot_draw(s.store, &s.plot, file, &err), LW_ENOTSUP);
    setenv("PATH", path, 1);
    free(path);
    has(err.msg, "gnuplot-nox");
    assert_int_not_equal(access(file, F_OK), 0);
    close_scene(&s);
}

TEST_WITH(a_failing_gnuplot_leaves_no_file, runs_open, fixture_close)
{
    char file[512], *path = strdup(getenv("PATH"));
    struct lw_err err = {0};

    runs_store(&runs_predicted);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    snprintf(file, sizeof file, "%s", fixture_path("x.png"));
    fixture_put(fixture_path("gnuplot"),
                 "#!/bin/sh\necho half a picture\necho '   line 7: no such terminal' >&2\n"
                "exit 3\n");
    assert_int_equal(chmod(fixture_path("gnuplot"), 0700), 0);
    char command[4096];
    snprintf(command, sizeof command, "%s:%s", fixture_path(""), path);
    setenv("PATH", command, 1);
    assert_int_equal(lw_plot_draw(s.store, &s.plot, file, &err), LW_EFAILED);
    setenv("PATH", path, 1);
    free(path);
    has(err.msg, "gnuplot ended with status 3: the script's line 7: no such terminal");
    assert_int_not_equal(access(file, F_OK), 0);
    close_scene(&s);
}

TEST_WITH(characters_show_streams_buckets_and_exposure, runs_open, fixture_close)
{
    struct lw_err err = {0};
    char text[4096] = "";

    runs_store(&runs_predicted);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    s.plot.width = 21 + 43; /* 43 cells for 432 us: 10.05 us each */
    FILE *f = tmpfile();
    assert_int_equal(plot_characters(s.store, &s.plot, f, &err), LW_OK);
    rewind(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    has(text, "rank 0\n           compute |FFFFFFFFFFBBBBBBBBBBBBBBBBBBBB           OO\n");
    /* data moves from 212 to 412 us: 20 cells */
    has(text, "              comm |                    .00000000001111111111\n");
    has(text, "           exposed |                             :!!!!!!!!!!!.\n");
    close_scene(&s);
}

/* Kernels are shorter than a character: recomputation takes as much as the forward, a quarter of
 * all, and has that share of the letters. */
TEST_WITH(characters_are_drawn_to_scale, runs_open, fixture_close)
{
    int n[128] = {0}, all = 0;

    shell("$L sim -w llama-3-8b --batch 1 --seq 1024 -c dgx-a100 --recompute full "
          "--framework ideal --spans -q --db r.db >log", NULL);
    const char *text = shell("$L plot timeline --db r.db -o -", NULL);
    for (const char *p = strstr(text, "compute |") + 9; *p != '\n'; p++, all++)
        n[(int)*p]++;
    assert_in_range(n['r'], all * 15 / 100, all * 30 / 100);
    assert_in_range(n['F'], all * 15 / 100, all * 30 / 100);
    assert_in_range(n['B'], all * 30 / 100, all * 60 / 100);
}

static enum lw_status script_nowhere(struct scene *s)
{
    FILE *f = tmpfile();
    enum lw_status st = lw_plot_script(s->store, &s->plot, f, NULL);

    fclose(f);
    return st;
}

TEST_WITH(every_failing_allocation_is_reported_and_leaks_nothing, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    store_search();
    runs_store(&runs_measured);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    s.plot.cluster = &s.cluster;
    s.plot.search = &s.search;
    for (int k = 0; k < LW_N_PLOTS; k++) {
        s.plot.kind = (enum lw_plot_kind)k;
        if (k == LW_PLOT_SWEEP)
            s.runs[0].bucket_cap_bytes = 8;
        EACH_ALLOCATION_FAILS_IN(0, script_nowhere(&s));
    }
    close_scene(&s);
}

/* A stage posts its first receive when it has ended the step before. The picture begins at the
 * first forward; waiting for neighbours is a part of its own; the legend has no part without
 * time. */
TEST_WITH(a_pipeline_begins_at_its_first_forward, runs_open, fixture_close)
{
    shell("$L model mlp --device dgx-a100 -o m.json && $L sim -w m.json -c dgx-a100 --pp 2 "
          "--micro-batches 4 --db p.db && $L plot timeline --db p.db -o t.gp && "
          "$L plot overlap --db p.db -o o.gp", NULL);
    shell("sed -n '/^.bars/,/^EOD/p' t.gp | grep -q '^0 '", NULL);
    has(shell("$L plot timeline --db p.db -o - --width 80 | grep -A1 'stage 0'", NULL), "|F");
    const char *keys = shell("grep 'set label 900' o.gp", NULL);
    has(keys, "waiting for pipeline neighbours");
    assert_null(strstr(keys, "idle"));
}

/* The span of the heading is that of the prediction, from the first receive on; the bars end where
 * the step does, counted from the first forward. */
TEST_WITH(the_span_of_a_pipeline_is_that_of_the_prediction, runs_open, fixture_close)
{
    char spans[32], text[64];
    double us, last, before;
    long long span_ns;

    shell("$L model mlp --device dgx-a100 -o m.json && $L sim -w m.json -c dgx-a100 --pp 2 "
          "--micro-batches 4 --db p.db --format json >s.json && "
          "$L plot timeline --db p.db -o t.gp && $L report --db p.db -o r.html", NULL);
    assert_int_equal(sscanf(shell("grep -o '\"span_ns\": [0-9]*' s.json", NULL),
                            "\"span_ns\": %lld", &span_ns), 1);
    lw_format_ps(spans, span_ns * LW_PS_PER_NS);
    snprintf(text, sizeof text, "this step spans %s</text>", spans);
    has(shell("grep 'this step' r.html", NULL), text);
    snprintf(text, sizeof text, "this step %s (", spans);
    has(shell("$L plot timeline --db p.db -o - --width 80", NULL), text);
    assert_int_equal(sscanf(shell("grep -o 'this step spans .* us' t.gp", NULL),
                            "this step spans %lf us", &us), 1);
    assert_true(fabs(us * 1000 - (double)span_ns) <= (double)span_ns / 1000);
    assert_int_equal(sscanf(shell("sed -n '/^.bars/,/^EOD/p' t.gp | cut -d' ' -f2 | grep '^[0-9]'"
                                  " | sort -g | tail -1", NULL), "%lf", &last), 1);
    assert_true(last > us / 2 && last < us * 0.99);
    assert_int_equal(sscanf(shell("grep -o '[0-9.]* of it receives' t.gp", NULL), "%lf", &before),
                     1);
    assert_true(fabs(us - before - last) < 1);
    /* a narrow picture leaves that out, and not the run's name */
    const char *head = shell("$L plot timeline --db p.db --width 600 -o n.gp >log && "
                             "grep 'set label 1 ' n.gp", NULL);
    has(head, "'run 1, predicted; this step spans ");
    has(head, ", exposed ");
    has_not(head, "receives");
}
