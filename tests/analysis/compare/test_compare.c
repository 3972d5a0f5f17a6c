/* Two runs side by side: hand-computed differences, joins, tolerance. The runs are those of
 * tests/lib/commands/run_fixture.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "analysis/compare/compare.h"
#include "analysis/compare/compare_side.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"
#include "tests/lib/commands/run_fixture.h"

static const int64_t two[] = {1024, 4096}, one[] = {5120};

static const struct fixture_run
    predicted = {.kind = LW_RUN_SIM, .sizes = two, .n_buckets = 2, .n_steps = 3, .wire_us = 100,
                 .cap_bytes = 1024},
    measured = {.kind = LW_RUN_EXEC, .sizes = two, .n_buckets = 2, .n_steps = 4, .wire_us = 140,
                .cap_bytes = 1024, .n_warmup = 1},
    one_bucket = {.kind = LW_RUN_EXEC, .sizes = one, .n_buckets = 1, .n_steps = 2,
                  .wire_us = 150, .cap_bytes = 8192};

static lw_ps us(double t)
{
    return (lw_ps)(t * (double)LW_PS_PER_US);
}

static void compare(const char *a, const char *b, struct lw_comparison *c)
{
    struct lw_store *s = NULL;
    struct lw_err err = {0};

    if (lw_store_open(runs_db, LW_STORE_WRITE, &s, &err) != LW_OK ||
        lw_compare(s, a, b, c, &err) != LW_OK)
        fail_msg("%s", err.msg);
    lw_store_close(s);
}

static void assert_both(struct lw_both v, double p, double m)
{
    assert_int_equal(v.predicted, us(p));
    assert_int_equal(v.measured, us(m));
}

TEST_WITH(times_of_buckets_and_step_are_those_of_the_runs, runs_open, fixture_close)
{
    struct lw_comparison c;

    runs_store(&predicted);
    runs_store(&measured);
    compare("1", "2", &c);
    assert_int_equal(c.joined, LW_JOINED_OP);
    /* ends: 212 + 2 * 100 = 412 and 212 + 2 * 140 = 492, then 20 of optimizer */
    assert_both(c.step, 432, 512);
    assert_float_equal(lw_both_error_pct(c.step), -15.625, 1e-9); /* -80 / 512 */
    /* 320 of compute on both sides; the rest of the step is exposed: 412 - 300 and 492 - 300 */
    assert_both(c.figure[LW_FIGURE_COMPUTE], 320, 320);
    assert_both(c.figure[LW_FIGURE_EXPOSED_COMM], 112, 192);
    assert_both(c.figure[LW_FIGURE_IDLE], 0, 0);
    assert_both(c.skew, 0, 0);
    assert_int_equal(c.n_buckets, 2);
    assert_both(c.buckets[0].time[LW_BUCKET_READY], 200, 200);
    assert_both(c.buckets[0].time[LW_BUCKET_LAUNCH], 201, 201);
    assert_both(c.buckets[0].time[LW_BUCKET_START], 212, 212); /* rank 1, the later one */
    assert_both(c.buckets[0].time[LW_BUCKET_FINISH], 312, 352);
    assert_both(c.buckets[1].time[LW_BUCKET_READY], 250, 250);
    assert_both(c.buckets[1].time[LW_BUCKET_START], 312, 352);
    assert_both(c.buckets[1].time[LW_BUCKET_FINISH], 412, 492);
    assert_int_equal(c.buckets[1].bytes.predicted, 4096);
    lw_comparison_free(&c);
}

TEST_WITH(of_an_even_number_of_steps_the_middle_two_are_halved, runs_open, fixture_close)
{
    struct fixture_run two_steps = measured;
    struct lw_comparison c;

    two_steps.n_steps = 2;
    two_steps.n_warmup = 0;
    runs_store(&predicted);
    runs_store(&two_steps);
    runs_change_spans("UPDATE span SET end_ps = end_ps + 10000000"
                      " WHERE run = 2 AND step = 1 AND op = 2");
    compare("1", "2", &c);
    assert_both(c.buckets[0].time[LW_BUCKET_FINISH], 312, 357); /* of 352 and 352 + 10 */
    lw_comparison_free(&c);
}

TEST(without_a_measured_time_there_is_no_error)
{
    assert_true(isnan(lw_both_error_pct((struct lw_both){.predicted = 10, .measured = 0})));
    assert_true(isnan(lw_both_error_pct((struct lw_both){.predicted = 10, .measured = -1})));
    assert_true(isnan(lw_both_error_pct((struct lw_both){.predicted = -1, .measured = 10})));
}

TEST_WITH(parts_add_up_to_the_difference_of_the_step, runs_open, fixture_close)
{
    struct lw_comparison c;
    lw_ps p = 0, m = 0;

    runs_store(&predicted);
    runs_store(&one_bucket);
    compare("1", "2", &c);
    for (int i = 0; i < LW_N_PARTS; i++) {
        p += lw_comparison_part(&c, i).predicted;
        m += lw_comparison_part(&c, i).measured;
    }
    assert_int_equal(p, c.step.predicted);
    assert_int_equal(m, c.step.measured);
    lw_comparison_free(&c);
}

TEST_WITH(the_largest_contributors_come_first, runs_open, fixture_close)
{
    struct lw_comparison c;

    runs_store(&predicted);
    runs_store(&measured);
    compare("1", "2", &c);
    /* only the transfers differ, by 40 each: 100 against 140 from the last arrival on */
    assert_int_equal(c.n_ops, 2);
    assert_string_equal(c.ops[0].name, "all_reduce, transfer of bucket 0");
    assert_both(c.ops[0].time, 100, 140);
    assert_string_equal(c.ops[1].name, "all_reduce, transfer of bucket 1");
    lw_comparison_free(&c);
}

TEST_WITH(the_simulation_is_the_prediction_in_either_order, runs_open, fixture_close)
{
    struct lw_comparison c;

    runs_store(&predicted);
    runs_store(&measured);
    compare("2", "1", &c);
    assert_int_equal(c.predicted.id, 1);
    assert_both(c.step, 432, 512);
    lw_comparison_free(&c);
}

TEST_WITH(different_plans_are_joined_by_launch_place_and_say_so, runs_open, fixture_close)
{
    struct lw_comparison c;

    runs_store(&predicted);
    runs_store(&one_bucket);
    compare("1", "2", &c);
    assert_int_equal(c.joined, LW_JOINED_BUCKET);
    assert_non_null(strstr(c.note, "the plans differ"));
    assert_string_equal(c.difference, "strategy: --bucket-cap is 1.00 KiB (1024 B) in the "
                                      "first plan, 8.00 KiB (8192 B) in the second");
    assert_int_equal(c.n_buckets, 1);
    assert_both(c.buckets[0].time[LW_BUCKET_FINISH], 312, 362); /* 212 + 150 */
    assert_int_equal(c.n_ops, 0);
    lw_comparison_free(&c);
}

/* Stage 1 has one bucket of gradients, and each stage the tied weights' one, so three are the
 * first of their set. The plans' buckets are the same, so each has its partner, of its size. */
TEST_WITH(buckets_of_a_pipeline_are_paired_by_set_and_place, fixture_open, fixture_close)
{
    const char *sim =
        "sim -w gpt-1.3b -c dgx-a100 --dp 4 --pp 2 --micro-batches 4 --spans --db p.db";
    struct lw_store *s;
    struct lw_comparison c;
    struct lw_err err = {0};
    char line[200];

    expect(sim, 0, "stored as run 1");
    snprintf(line, sizeof line, "%s --offload update", sim);
    expect(line, 0, "stored as run 2");
    assert_ok(lw_store_open(fixture_path("p.db"), LW_STORE_READ, &s, &err), err);
    assert_ok(lw_compare(s, "1", "2", &c, &err), err);
    lw_store_close(s);
    assert_int_equal(c.joined, LW_JOINED_BUCKET);
    assert_int_equal(c.n_buckets, 16);
    for (int32_t i = 0; i < c.n_buckets; i++) {
        const struct lw_bucket_line *b = &c.buckets[i];
        snprintf(line, sizeof line, "SELECT bytes FROM bucket WHERE plan = 1 AND bucket = %d",
                 b->bucket);
        assert_int_equal(b->bytes.predicted, sql_ask(fixture_path("p.db"), line));
        assert_int_equal(b->bytes.measured, b->bytes.predicted);
        for (int32_t k = 0; k < i; k++)
            assert_int_not_equal(c.buckets[k].bucket, b->bucket);
    }
    lw_comparison_free(&c);
}

/* One hash, two rows of plan: two machines. */
TEST_WITH(plans_that_differ_in_times_alone_are_joined_by_op, runs_open, fixture_close)
{
    struct fixture_run there = measured;
    struct lw_comparison c;

    there.device = "another";
    runs_store(&predicted);
    runs_store(&there);
    compare("1", "2", &c);
    assert_true(c.predicted.plan != c.measured.plan);
    assert_true(c.same_decisions);
    assert_int_equal(c.joined, LW_JOINED_OP);
    assert_string_equal(c.note, "");
    assert_string_equal(c.difference, "");
    assert_both(c.ops[0].time, 100, 140);
    lw_comparison_free(&c);
}

/* The plans' ops 2 and 3, of buckets 0 and 1, stand in the other order in the second plan: ops are
 * joined by what they are about. */
TEST_WITH(plans_with_the_same_ops_are_joined_by_what_they_are_about, runs_open, fixture_close)
{
    struct fixture_run other = measured;
    struct lw_comparison c;

    other.cap_bytes = 2048;
    runs_store(&predicted);
    runs_store(&other);
    runs_rows_sql("UPDATE op_row SET op = 10 + op WHERE plan = 2 AND op IN (2, 3);"
                  "UPDATE op_row SET op = 15 - op WHERE plan = 2 AND op > 9");
    runs_change_spans("UPDATE span SET op = 5 - op WHERE run = 2 AND op IN (2, 3);"
                      "UPDATE span SET end_ps = end_ps + 9000000 WHERE run = 2 AND op = 2");
    compare("1", "2", &c);
    assert_false(c.same_decisions);
    assert_int_equal(c.joined, LW_JOINED_OP);
    assert_string_equal(c.note, "the plans differ, but have the same ops one by one");
    assert_string_equal(c.difference, "strategy: --bucket-cap is 1.00 KiB (1024 B) in the "
                                      "first plan, 2.00 KiB (2048 B) in the second");
    assert_string_equal(c.ops[0].name, "all_reduce, transfer of bucket 1");
    assert_both(c.ops[0].time, 100, 149);
    assert_both(c.ops[1].time, 100, 140);
    lw_comparison_free(&c);
}

TEST_WITH(runs_without_spans_are_compared_by_their_totals, runs_open, fixture_close)
{
    struct lw_comparison c;

    runs_store(&predicted);
    runs_store(&measured);
    runs_sql("UPDATE run SET n_spans = 0 WHERE id = 1");
    compare("1", "2", &c);
    assert_int_equal(c.joined, LW_JOINED_STEP);
    assert_non_null(strstr(c.note, "--spans"));
    assert_both(c.step, 432, 512);
    assert_int_equal(c.n_buckets, 0);
    lw_comparison_free(&c);
}

TEST_WITH(a_run_without_a_step_is_refused, runs_open, fixture_close)
{
    struct lw_store *s = NULL;
    struct lw_comparison c = {0};
    struct lw_err err = {0};

    runs_store(&predicted);
    runs_store(&measured);
    runs_sql("DELETE FROM metric WHERE run = 2; UPDATE run SET status = 'running' WHERE id = 2");
    assert_int_equal(lw_store_open(runs_db, LW_STORE_READ, &s, &err), LW_OK);
    assert_int_equal(lw_compare(s, "1", "2", &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "run 2 has no step to show (status running)"));
    assert_int_equal(c.n_buckets, 0);
    lw_store_close(s);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST_WITH(comparisons_become_the_past_errors_of_a_cluster, runs_open, fixture_close)
{
    struct lw_figure speed = {.value = 1e9, .source = "measured"};
    struct lw_cluster two_cores = {.name = "two cores", .n_nodes = 1, .devices_per_node = 2,
                                   .device = {.kind = "cpu", .copy_bytes_per_s = speed}};
    struct lw_past_errors e;
    struct lw_store *s = NULL;
    struct lw_err err = {0};

    runs_store(&predicted);
    runs_store(&measured);
    runs_store(&predicted);
    assert_int_equal(lw_store_open(runs_db, LW_STORE_WRITE, &s, &err), LW_OK);
    assert_int_equal(lw_comparison_record(s, 1, &err), LW_OK); /* with 2 */
    assert_int_equal(lw_store_past_errors(s, &two_cores, &e, &err), LW_OK);
    assert_int_equal(e.n, 1);
    assert_float_equal(e.mean_abs_pct, 15.625, 1e-9);
    assert_int_equal(lw_comparison_record(s, 2, &err), LW_OK); /* with 3, the later prediction */
    assert_int_equal(lw_comparison_record(s, 2, &err), LW_OK); /* the same pair is one row */
    assert_int_equal(lw_comparison_record(s, 3, &err), LW_OK);
    assert_int_equal(lw_store_past_errors(s, &two_cores, &e, &err), LW_OK);
    assert_int_equal(e.n, 1); /* one execution, however often it was predicted */
    assert_float_equal(e.max_abs_pct, 15.625, 1e-9);
    lw_store_close(s);
}

TEST_WITH(beyond_the_tolerance_the_command_exits_with_3, runs_open, fixture_close)
{
    runs_store(&predicted);
    runs_store(&measured);
    EXPECT("compare", {"1 2 --tolerance 15.6", 3}, {"1 2 --tolerance 15.7", 0},
           {"1 2 --format json", 0}, {"1 last", 0}, {"1 9", 1}, {"1", 2});
}

TEST_WITH(json_holds_what_the_documentation_shows, runs_open, fixture_close)
{
    static const char *const parts[] = {
        "\"step\": {\"predicted_ns\": 432000, \"measured_ns\": 512000, \"error_pct\": -15.625}",
        "\"exposed_comm\": {\"predicted_ns\": 112000, \"measured_ns\": 192000, ",
        "\"comm_busy\": {\"predicted_ns\": 210000, \"measured_ns\": 290000, ",
        "\"finish\": {\"predicted_ns\": 312000, \"measured_ns\": 352000, \"error_pct\": -11.364}",
        "\"joined_by\": \"op\"", "\"within_tolerance\": null"};
    static char page[8192];

    runs_store(&predicted);
    runs_store(&measured);
    const char *out = lapwing("compare 1 2 --format json", NULL);
    FILE *f = fopen("docs/formats/compare.md", "r");
    assert_non_null(f);
    page[fread(page, 1, sizeof page - 1, f)] = '\0';
    fclose(f);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        assert_non_null(strstr(out, parts[i]));
        assert_non_null(strstr(page, parts[i]));
    }
}

/* Every number of the text, one row each: step, parts, buckets, ops. */
TEST_WITH(csv_holds_buckets_and_ops_too, runs_open, fixture_close)
{
    static const char *const rows[] = {
        "of,bucket,what,unit,predicted,measured,difference,error %\n",
        "step,,step,ns,432000,512000,-80000,-15.625\n",
        "part,,\"transfers, exposed\",ns,112000,192000,-80000,-41.667\n",
        "busy,,communication,ns,210000,290000,-80000,-27.586\n",
        "bucket,0,size,bytes,1024,1024,0,0.000\n",
        "bucket,0,finish,ns,312000,352000,-40000,-11.364\n",
        "bucket,1,size,bytes,4096,4096,0,0.000\n",
        "op,,\"all_reduce, transfer of bucket 0\",ns,100000,140000,-40000,-28.571\n"};

    runs_store(&predicted);
    runs_store(&measured);
    const char *out = lapwing("compare 1 2 --format csv", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strstr(out, rows[i]))
            fail_msg("no '%s' in\n%s", rows[i], out);
}

TEST_WITH(without_runs_every_execution_stands_beside_its_last_prediction, runs_open, fixture_close)
{
    runs_store(&predicted);
    runs_store(&one_bucket); /* never predicted */
    runs_store(&predicted);
    runs_store(&measured);
    assert_string_equal(lapwing("compare --format csv", NULL),
                        "runs,bucket cap,buckets,predicted step ms,measured step ms,error %,"
                        "predicted exposed ms,measured exposed ms,measured on,framework,machine "
                        "speed\n"
                        "\"3, 4\",1.00 KiB,2,0.432,0.512,-15.6,0.112,0.192,\"threads, real\",-,-"
                        "\n");
    expect("compare --tolerance 15", 3, "");
    expect("compare --tolerance 16", 0, "");
    /* compare only reads */
    runs_sql("CREATE TABLE proof (n CHECK (n = 0)); INSERT INTO proof SELECT count(*) FROM"
             " comparison");
}

static enum lw_status try_compare(struct lw_store *s, struct lw_comparison *c, struct lw_err *err)
{
    LW_TRY(lw_compare(s, "1", "2", c, err));
    lw_comparison_free(c);
    return lw_comparison_record(s, 2, err);
}

TEST_WITH(every_failing_allocation_is_reported_and_leaks_nothing, runs_open, fixture_close)
{
    struct lw_comparison c = {0};
    struct lw_store *s = NULL;
    struct lw_err err = {0};

    runs_store(&predicted);
    runs_store(&measured);
    assert_int_equal(lw_store_open(runs_db, LW_STORE_WRITE, &s, &err), LW_OK);
    EACH_ALLOCATION_FAILS(10, try_compare(s, &c, &err), c, (void)0);
    lw_store_close(s);
}

/* Of plans that differ both are loaded. */
static enum lw_status try_differing(struct lw_store *s, struct lw_comparison *c,
                                    struct lw_err *err)
{
    LW_TRY(lw_compare(s, "1", "2", c, err));
    assert_non_null(strstr(c->difference, "--bucket-cap"));
    lw_comparison_free(c);
    return LW_OK;
}

TEST_WITH(plans_that_differ_leak_nothing_without_memory, runs_open, fixture_close)
{
    struct lw_comparison c = {0};
    struct lw_store *s = NULL;
    struct lw_err err = {0};

    runs_store(&predicted);
    runs_store(&one_bucket);
    assert_int_equal(lw_store_open(runs_db, LW_STORE_READ, &s, &err), LW_OK);
    EACH_ALLOCATION_FAILS(10, try_differing(s, &c, &err), c, (void)0);
    lw_store_close(s);
}

/* 432 us with a cap of 1 KiB, 512 with 8: B takes 80 us, 18.519 %, more than A, whichever is
 * called A. */
TEST_WITH(two_predictions_are_a_and_b, runs_open, fixture_close)
{
    struct fixture_run slow = predicted;
    struct lw_comparison c;

    slow.wire_us = 140;
    slow.cap_bytes = 8192;
    runs_store(&predicted);
    runs_store(&slow);
    compare("2", "1", &c);
    assert_true(c.of_one_kind);
    assert_int_equal(c.predicted.id, 2);
    assert_string_equal(c.label[0], "bucket-cap 8.00 KiB");
    assert_string_equal(c.label[1], "bucket-cap 1.00 KiB");
    assert_true(fabs(lw_comparison_pct(&c, c.step) + 15.625) < 1e-9); /* (432 - 512) / 512 */
    lw_comparison_free(&c);
    EXPECT("compare 1 2",
           {"",
            0,
            "A = run 1 (sim)",
            {"bucket-cap 8.00 KiB", "B is 80.000 us longer than A"},
            .lacks = "predict"},
           {"--format json", 0, "\"a_ns\": 432000, \"b_ns\": 512000, \"change_pct\": 18.519"});
    expect("runs --format csv", 0, "bucket-cap 8.00 KiB");
}

/* Without decisions by times a pipeline has one plan on three machines, and its ops are joined; the
 * exact partition cuts otherwise on L40S, and the comparison says that times decided it. */
TEST_WITH(pipelines_are_joined_across_machines, fixture_open, fixture_close)
{
    shell("set -e; for c in dgx-a100 dgx-h100 l40s; do for how in '--partition uniform' "
          "'--framework megatron-lm' '--framework ideal'; do $L sim -w gpt2 --batch 8 --pp 4 "
          "--micro-batches 8 $how -c $c --db m.db -q >log; done; done",
          NULL);
    EXPECT("compare --db m.db --format json",
           {"1 4", 0, "\"same_plan\": true", {"\"joined_by\": \"op\"", "\"a_from_times\": []"}},
           {"1 7", 0, "\"same_plan\": true", {"\"joined_by\": \"op\"", "\"a_from_times\": []"}},
           {"2 5", 0, "\"same_plan\": true", {"\"joined_by\": \"op\""}},
           {"2 8", 0, "\"same_plan\": true", {"\"joined_by\": \"op\""}},
           {"3 9", 0, "\"same_plan\": false",
            {"\"first_difference\": \"module 4: stage is 0 in the first plan, 1 in the second\"",
             "\"b_from_times\": [\n    \"--partition exact\"\n  ]"}});
    EXPECT("compare --db m.db",
           {"3 9", 0, "first difference of the plans: module 4: stage is 0",
            {"decided by times in run 3: --partition exact",
             "decided by times in run 9: --partition exact"}},
           {"1 7", 0, "", .lacks = "decided by times"});
}

/* A step beside other programs is no evidence: it is marked, the prediction is not blamed, and a
 * missed tolerance is status 4. At 5 % and below all is as usual. */
TEST_WITH(a_step_under_load_judges_nothing, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_measured); /* 432 us predicted, 512 measured: -15.6 % */
    EXPECT("compare 1 2",
           {"", 0, "the prediction is 80.000 us too short", .lacks = "under load"},
           {"--tolerance 5", 3, "beyond the tolerance of 5 %"});
    runs_sql("INSERT INTO metric VALUES (2, 'other_calibration', -1, -1, 1)");
    EXPECT("compare 1 2",
           {"", 0, "and its cluster was calibrated with another", {"80.000 us too short"}});
    runs_sql("DELETE FROM metric WHERE name = 'other_calibration'");
    EXPECT("compare 1 2", {"", 0, "", .lacks = "calibrated with another"});
    runs_sql("INSERT INTO metric VALUES (2, 'others_pct', -1, -1, 5.0)");
    expect("compare 1 2 --tolerance 5", 3, "beyond the tolerance of 5 %");
    runs_sql("UPDATE metric SET value = 40.0 WHERE name = 'others_pct'");
    EXPECT("compare 1 2",
           {"", 0, "run 2 was measured under load: other programs took 40.0 % of the processors",
            .lacks = "too short"},
           {"--tolerance 20", 0, "under load"},
           {"--tolerance 5", 4, "measured under load: repeat; other programs took 40.0 %"},
           {"--format json", 0, "\"others_pct\": 40.00, \"under_load\": true"});
    EXPECT("compare", {"", 0, "under load: ", {"its error is not the model's"}},
           {"--tolerance 5", 4, "measured under load: repeat"});
    expect("compare 1 2 1 --tolerance 5", 4, "runs 1 and 2: measured under load");
    expect("report -o r.html", 0, "");
    char *page = fixture_get(fixture_path("r.html"));
    assert_non_null(strstr(page, "1 of the executions was measured under load"));
    free(page);
}

/* Clusters are compared under one interference. */
TEST_WITH(groups_of_clusters_have_one_interference, runs_open, fixture_close)
{
    shell("for i in off published channels; do for c in dgx-a100 dgx-h100; do $L sim -w gpt2 "
          "--dp 8 -c $c --interference $i --db i.db -q >log; done; done", NULL);
    EXPECT("compare --by cluster --db i.db",
           {"", 0, "interference off        dgx-a100    1 ",
            {"interference off        dgx-h100    2 ", "interference published  dgx-a100    3 ",
             "interference channels   dgx-h100    6 "}},
           {"2 3", 1, "no two of 2 runs differ only in their cluster"});
}

/* Groups of runs that differ in one thing; the last of equal runs counts. */
TEST_WITH(runs_are_grouped_by_what_differs, runs_open, fixture_close)
{
    shell("for f in ideal torch-ddp ideal; do for c in dgx-a100 dgx-h100; do $L sim -w gpt2 "
          "--batch 1 -c $c --dp 2 --framework $f --db g.db -q >log; done; done; "
          "$L sim -w gpt2 --batch 1 -c dgx-a100 --dp 4 --framework ideal --db g.db -q >log", NULL);
    EXPECT("compare --db g.db",
           {"--by framework", 0, "torch-ddp    3 ", {"ideal        5 ", "3 runs beside them"}},
           {"--by cluster", 0, "dgx-h100    4 ", {"dgx-a100    3 "}},
           {"--by strategy", 0, "all  dp 4        7 ", {"all  dp 2        5 "}, "dgx-h100"},
           {"--by framework 1 2", 1, "no two of 2 runs differ only in their framework"},
           {"--by colour", 2, "expected one of framework, cluster, strategy"},
           {"--by cluster --tolerance 3", 2, "leave out --by"});
    expect("compare --by strategy 5 7 --db g.db --format json", 0,
           "\"strategy\": \"dp 4\", \"run\": 7");
}

/* A step that trains fewer samples is shorter and no gain: 2 samples (1 a rank) against 8. */
TEST_WITH(steps_of_other_sample_counts_compare_by_sample, runs_open, fixture_close)
{
    shell("$L model mlp --layers 2 --width 64 --batch 1 -o w.json >log && "
          "for dp in 2 8; do $L sim -w w.json -c dgx-a100 --as-recorded --dp $dp --db s.db -q "
          ">log; done",
          NULL);
    const char *out = lapwing("compare 1 2 --db s.db", NULL);
    assert_non_null(strstr(out, "A step trains 2 samples in A and 8 in B: they compare by sample"));
    out = lapwing("compare 1 2 --db s.db --format json", NULL);
    assert_non_null(strstr(out, "\"samples\": 2"));
    assert_non_null(strstr(out, "\"samples\": 8"));
    assert_null(strstr(lapwing("compare 1 1 --db s.db", NULL), "a sample takes"));
    /* the table and the sentence below it are of a sample too, and no sentence is of the step */
    EXPECT("compare 1 2 --db s.db",
           {"", 0, "A ns a sample", {"a sample takes ", "% faster; the largest part of it is "},
            .lacks = "than A"},
           {"", 0, "", .lacks = "e+0"});
    /* 4 times the samples in about the same time: -75 % a sample, in both commands */
    expect("compare 1 2 --db s.db --format json", 0, "\"per_unit\": {\"unit\": \"sample\", ");
    double of_two, of_three;
    out = strstr(lapwing("compare 1 2 --db s.db --format json", NULL), "\"per_unit\"");
    assert_int_equal(sscanf(strstr(out, "change_pct"), "change_pct\": %lf", &of_two), 1);
    out = lapwing("compare 1 2 1 --db s.db --format json", NULL);
    assert_int_equal(sscanf(strstr(out, "change_pct"), "change_pct\": %lf", &of_three), 1);
    assert_true(of_two < -70 && of_two > -76 && fabs(of_two - of_three) < 2e-3);
    expect("compare 1 2 --db s.db --tolerance 60", 3, "% off, beyond the tolerance of 60 %");
}

/* One plan, predicted on two clusters: each execution belongs to the prediction on its own
 * cluster. */
TEST(a_prediction_belongs_to_its_cluster)
{
    struct lw_run runs[] = {
        {.id = 1,
         .kind = LW_RUN_SIM,
         .status = LW_RUN_OK,
         .plan = 7,
         .step = 10,
         .cluster_hash = "a"},
        {.id = 2,
         .kind = LW_RUN_EXEC,
         .status = LW_RUN_OK,
         .plan = 7,
         .step = 11,
         .cluster_hash = "a"},
        {.id = 3,
         .kind = LW_RUN_SIM,
         .status = LW_RUN_OK,
         .plan = 7,
         .step = 20,
         .cluster_hash = "b"},
        {.id = 4,
         .kind = LW_RUN_EXEC,
         .status = LW_RUN_OK,
         .plan = 7,
         .step = 21,
         .cluster_hash = "b"},
        {.id = 5,
         .kind = LW_RUN_EXEC,
         .status = LW_RUN_OK,
         .plan = 7,
         .step = 30,
         .cluster_hash = ""},
        {.id = 6,
         .kind = LW_RUN_EXEC,
         .status = LW_RUN_OK,
         .plan = 8,
         .step = 30,
         .cluster_hash = "a"},
    };

    assert_int_equal(lw_prediction_of(runs, 6, &runs[1])->id, 1);
    assert_int_equal(lw_prediction_of(runs, 6, &runs[3])->id, 3);
    assert_int_equal(lw_prediction_of(runs, 6, &runs[4])->id, 3); /* of no cluster: the last one */
    assert_null(lw_prediction_of(runs, 6, &runs[5]));
}

/* --- frameworks ------------------------------------------------------------------------------- */

TEST_WITH(frameworks_of_runs_are_shown, fixture_open, fixture_close)
{
    shell("set -e; sim='$L sim -w gpt2 -c dgx-h100 --dp 2 --db f.db -q';"
          "eval $sim --framework ideal; eval $sim --framework torch-ddp;"
          "$L framework torch-ddp -o mine.json;"
          "sed -i '/host_op_ns/s/28900/50000/' mine.json; eval $sim --framework mine.json;"
          "$L plan -w gpt2 -c dgx-h100 --dp 2 -o p.json", NULL);
    EXPECT("runs --db f.db", {"", 0, "framework", {"ideal", "torch-ddp"}});
    EXPECT("compare --db f.db",
           {"1 1", 0, "framework ideal\n", .lacks = "differ in"},
           {"1 2", 0, "framework ideal of run 1, torch-ddp (",
            {"of run 2; they differ in kernels.unfused_loss", "host.host_op_ns"}},
           {"2 3", 0, "a run does not store the facts", {"framework torch-ddp ("}},
           {"1 2 --format json", 0, "\"framework_differs_in\": [", {"host.host_op_ns"}},
           {"1 1 --format json", 0, "\"framework_differs_in\": []"},
           {"2 3 --format json", 0, "\"framework_differs_in\": null"});
    /* two of one name are told apart by their facts */
    expect("runs 2 3 --db f.db --format json", 0, "\"name\": \"framework hash ");
    const char *page = shell("$L report --db f.db -o - ", NULL);
    assert_non_null(strstr(page, "<td class=\"t\">torch-ddp</td>"));
    assert_non_null(strstr(page, "<td class=\"t\">ideal</td>"));
}

/* A plan has no times: predicted with two frameworks it has one hash. */
TEST(a_prediction_has_the_framework_of_its_execution)
{
    struct lw_run runs[] = {
        {.id = 1, .kind = LW_RUN_SIM, .status = LW_RUN_OK, .plan = 7, .step = 10,
         .cluster_hash = "a", .framework = "torch", .framework_hash = "1"},
        {.id = 2, .kind = LW_RUN_SIM, .status = LW_RUN_OK, .plan = 7, .step = 20,
         .cluster_hash = "a", .framework = "torch", .framework_hash = "2"},
        {.id = 3, .kind = LW_RUN_EXEC, .status = LW_RUN_OK, .plan = 7, .step = 11,
         .cluster_hash = "a", .framework = "torch", .framework_hash = "1"},
        {.id = 4, .kind = LW_RUN_EXEC, .status = LW_RUN_OK, .plan = 7, .step = 12,
         .cluster_hash = "a", .framework = "nemo", .framework_hash = "3"},
        {.id = 5, .kind = LW_RUN_EXEC, .status = LW_RUN_OK, .plan = 7, .step = 13,
         .cluster_hash = "a"},
    };

    assert_ptr_equal(lw_prediction_of(runs, 5, &runs[2]), &runs[0]);
    assert_null(lw_prediction_of(runs, 5, &runs[3]));
    assert_ptr_equal(lw_prediction_of(runs, 5, &runs[4]), &runs[1]); /* of a plan file */
}

/* The execution of framework 1 is compared with the prediction of framework 1. */
TEST_WITH(past_errors_are_of_the_execution_s_framework, runs_open, fixture_close)
{
    struct lw_store *s = NULL;
    struct lw_err err = {0};

    runs_store(&predicted);
    runs_store(&predicted);
    runs_store(&measured);
    runs_sql("UPDATE run SET framework = 'torch', framework_hash = id WHERE id < 3;"
             "UPDATE run SET framework = 'torch', framework_hash = 1 WHERE id = 3");
    assert_int_equal(lw_store_open(runs_db, LW_STORE_WRITE, &s, &err), LW_OK);
    assert_ok(lw_comparison_record(s, 3, &err), err);
    lw_store_close(s);
    runs_sql("CREATE TABLE proof (n CHECK (n = 1)); INSERT INTO proof SELECT predicted FROM"
             " comparison");
}

/* A prediction, its execution and a run of another plan: each against the first. 432 against 512 is
 * -15.6 %; one bucket of 5120 bytes ends at 212 + 150 = 362, and the step at 382: +13.1 %. */
TEST_WITH(three_runs_stand_beside_each_other, runs_open, fixture_close)
{
    char *names[] = {"1", "2", "3"};
    struct lw_store *s = NULL;
    struct lw_sides x;
    struct lw_err err = {0};

    runs_store(&predicted);
    runs_store(&measured);
    runs_store(&one_bucket);
    assert_ok(lw_store_open(runs_db, LW_STORE_READ, &s, &err), err);
    assert_ok(lw_sides_read(s, names, 3, &x, &err), err);
    lw_store_close(s);
    assert_int_equal(x.n, 3);
    assert_int_equal(lw_sides_time(&x, 0, -1), us(432));
    assert_int_equal(lw_sides_time(&x, 1, -1), us(512));
    assert_int_equal(lw_sides_time(&x, 2, -1), us(382));
    assert_float_equal(lw_sides_pct(&x, 1, -1), 100.0 * (432 - 512) / 512, 1e-9);
    assert_float_equal(lw_sides_pct(&x, 2, -1), 100.0 * (432 - 382) / 382, 1e-9);
    lw_ps sum[3] = {0};
    for (int part = 0; part < LW_N_PARTS; part++)
        for (int i = 0; i < 3; i++)
            sum[i] += lw_sides_time(&x, i, part);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sum[i], lw_sides_time(&x, i, -1));
    lw_sides_free(&x);
}

TEST_WITH(three_runs_are_printed_in_each_format, runs_open, fixture_close)
{
    runs_store(&predicted);
    runs_store(&measured);
    runs_store(&one_bucket);
    const char *db = strrchr(runs_db, '/') ? strrchr(runs_db, '/') + 1 : runs_db;
    char line[256];
    snprintf(line, sizeof line, "compare 1 2 3 --db %s", db);
    expect(line, 0, "run 1 ms");
    expect(line, 0, "-15.6");
    expect(line, 0, "+13.1");
    snprintf(line, sizeof line, "compare 1 2 3 --db %s --format json", db);
    expect(line, 0, "\"error_pct\": -15.625");
    snprintf(line, sizeof line, "compare 1 2 3 --db %s --format csv", db);
    expect(line, 0, "step,0.432,0.512,-15.6,0.382,+13.1");
    snprintf(line, sizeof line, "compare 1 2 3 --db %s --tolerance 5", db);
    expect(line, 3, "runs 1 and 2: the step is -15.62 % off");
    snprintf(line, sizeof line, "compare 1 2 9 --db %s", db);
    expect(line, 1, "9");
}

/* An interval is of training programs on GPUs. */
TEST_WITH(executions_on_other_devices_have_no_place_in_an_interval, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    runs_sql("UPDATE run SET step_p10_ps = 1000, step_p90_ps = 2000, interval_of = '9 tables' "
             "WHERE id = 1");
    expect("compare 1 2", 0, "step of run 1: p10-p90 1.000 ns-2.000 ns: 9 tables\n");
    expect("compare 1 2", 0, "executed the plan with exec threads, real\n");
    assert_null(strstr(lapwing("compare 1 2", NULL), "above it"));
    runs_sql("UPDATE run SET backend = 'nccl' WHERE id = 2");
    expect("compare 1 2", 0, "\nthe measured step is above it\n");
}

/* Text has the buckets that differ most, other formats all. */
TEST_WITH(ten_buckets_are_enough_for_a_reader, runs_open, fixture_close)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const struct fixture_run p = {.kind = LW_RUN_SIM, .sizes = sizes, .n_buckets = 12,
                                  .n_steps = 1, .wire_us = 10, .cap_bytes = 1024};
    struct fixture_run m = p;

    m.kind = LW_RUN_EXEC;
    m.wire_us = 100; /* longer than the 50 between buckets: the last end furthest apart */
    runs_store(&p);
    runs_store(&m);
    expect("compare 1 2", 0, "  the 10 that differ most of 12; --all prints every one\n");
    assert_null(strstr(lapwing("compare 1 2", NULL), "\n     0  all_reduce"));
    assert_non_null(strstr(lapwing("compare 1 2", NULL), "\n    11  all_reduce"));
    expect("compare 1 2 --all", 0, "\n     0  all_reduce");
    assert_null(strstr(lapwing("compare 1 2 --all", NULL), "that differ most of"));
    expect("compare 1 2 --format csv", 0, "bucket,0,finish");
}
