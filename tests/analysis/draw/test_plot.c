/* Pictures: the data given to gnuplot comes from the database and says what the runs say. The runs
 * are those of tests/lib/commands/run_fixture.h; pixels are not tested. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/draw/plot.h"
#include "analysis/draw/plot_style.h"
#include "analysis/draw/step_bars.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/plot_scene.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

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
