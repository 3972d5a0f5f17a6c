/* Pictures of what a model says: roofline, products, validation, predictions against executions. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/draw/plot.h"
#include "analysis/draw/plot_style.h"
#include "shared/device/device_time.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/plot_scene.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

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
