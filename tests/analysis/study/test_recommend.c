/* The best bucket cap: every bucketing is met, the best is the best, the reference is what was
 * recorded, and how sure follows from past errors. */
#include "tests/lib/unit.h"
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/timeline/timeline.h"
#include "analysis/study/recommend_print.h"
#include "analysis/study/recommend_store.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/plans/tiny_workload.h"

static struct lw_err err;

static void ok(enum lw_status st)
{
    assert_ok(st, err);
}

static void two_ranks(struct lw_cluster *c, double bytes_per_s, lw_ps latency)
{
    make_cluster(c, 2, bytes_per_s, latency);
    c->device.copy_bytes_per_s = given(8e9);
}

static lw_ps step_with(const struct lw_workload *w, const struct lw_cluster *c, int64_t cap)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_timeline t = {0};
    struct lw_summary sum;
    struct lw_sim_stats stats;
    struct lw_plan p;

    s.dp = 2;
    s.bucket_cap_bytes = cap;
    ok(lw_plan_build(w, &s, NULL, &p, &err));
    o.n_steps = 2; /* one on the initial bucket, one on the rebuilt ones */
    ok(lw_sim_run(&p, c, &o, &t, &stats, &err));
    ok(lw_timeline_summarize(&t, NULL, 1, &sum, &err));
    lw_ps step = sum.step;
    lw_summary_free(&sum);
    lw_timeline_free(&t);
    lw_plan_free(&p);
    return step;
}

static void recommend(const struct lw_workload *w, const struct lw_cluster *c, int64_t cap,
                      struct lw_recommendation *r)
{
    struct lw_strategy s = lw_strategy_default();

    s.dp = 2;
    s.bucket_cap_bytes = cap;
    ok(lw_recommend(w, &s, c, NULL, NULL, r, &err));
}

/* Gradients in ready order have 1200, 8, 800 and 400 bytes. Caps up to 8 B: closed one by one; the
 * smallest closed bucket then holds
 *     1200 | 8 | 800 | 400          8: cap 0 .. 8
 *     1200 | 8+800 | 400          400: cap 9 .. 400
 *     1200 | 8+800 | (400)        808: cap 401 .. 808, the last one is left open: the same buckets
 *     1200 | 8+800+400           1200: cap 809 .. 1200 (1208 is closed at 1208 >= cap)
 *     1200+8 | (800+400)         1208: cap 1201 .. 1208, 1200 left open
 *     1200+8+800 | (400)         2008: cap 1209 .. 2008
 *     1200+8+800+400             2408: cap 2009 .. 2408; above: never closed, the same */
TEST(every_bucketing_is_met_once)
{
    static const int64_t low[] = {0, 9, 401, 809, 1201, 1209, 2009, 2409};
    static const int64_t high[] = {8, 400, 808, 1200, 1208, 2008, 2408, 2409};
    static const int32_t n_buckets[] = {4, 3, 3, 2, 2, 2, 1, 1};
    struct lw_recommendation r;
    struct lw_cluster c;
    struct tiny t;

    tiny_init(&t);
    two_ranks(&c, 1e9, 300 * LW_PS_PER_NS);
    recommend(&t.w, &c, -1, &r);
    assert_int_equal(r.n_points, 8);
    assert_true(r.exhaustive);
    assert_int_equal(r.n_simulated, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(r.points[i].low_bytes, low[i]);
        assert_int_equal(r.points[i].high_bytes, high[i]);
        assert_int_equal(r.points[i].n_buckets, n_buckets[i]);
        assert_in_range(r.points[i].cap_bytes, low[i], high[i]);
    }
    assert_int_equal(r.points[1].cap_bytes, 256);  /* the roundest of 9 .. 400 */
    assert_int_equal(r.points[3].cap_bytes, 1024);
    lw_recommendation_free(&r);
    lw_cluster_free(&c);
}

TEST(no_cap_is_better_than_the_recommended_one)
{
    static const double rates[] = {1e7, 1e8, 1e9};
    static const lw_ps latencies[] = {0, 500, 3000};
    struct tiny t;

    tiny_init(&t);
    for (int i = 0; i < 9; i++) {
        struct lw_recommendation r;
        struct lw_cluster c;
        lw_ps best = INT64_MAX;
        two_ranks(&c, rates[i / 3], latencies[i % 3] * LW_PS_PER_NS);
        recommend(&t.w, &c, 2409, &r);
        for (int64_t cap = 0; cap <= 2416; cap += 4) {
            lw_ps step = step_with(&t.w, &c, cap);
            best = step < best ? step : best;
            for (int32_t k = 0; k < r.n_points; k++)
                if (cap >= r.points[k].low_bytes && cap <= r.points[k].high_bytes)
                    assert_int_equal(r.points[k].step, step);
        }
        assert_int_equal(r.reference.step, step_with(&t.w, &c, 2409));
        assert_int_equal(r.reference.step - lw_recommendation_gain(&r), best);
        lw_recommendation_free(&r);
        lw_cluster_free(&c);
    }
}

/* Where a ring pays 38 ms of latency per bucket, large buckets pay; a tree pays 0.7 ms. */
TEST(many_ranks_need_no_large_buckets)
{
    static const enum lw_reducer_kind by[] = {LW_REDUCER_RING, LW_REDUCER_AUTO};
    int64_t cap[2];
    struct lw_cluster c;

    ok(lw_cluster_find("mi300x", &c, &err));
    for (int i = 0; i < 2; i++) {
        struct lw_strategy s = lw_strategy_default();
        struct lw_recommendation r;
        struct tiny t;
        tiny_init(&t);
        for (int k = 0; k < 4; k++) {
            t.params[k].numel *= 100000; /* 40, 80, 0.8 and 120 MB */
            t.params[k].ready_ps *= 5000;
        }
        for (int k = 0; k < 3; k++) {
            t.modules[k].backward_input_ps *= 5000;
            t.modules[k].backward_weight_ps *= 5000;
        }
        s.dp = 4096;
        s.reducer = by[i];
        s.bucket_cap_bytes = (int64_t)832 << 20;
        ok(lw_recommend(&t.w, &s, &c, NULL, NULL, &r, &err));
        cap[i] = r.best >= 0 ? r.points[r.best].cap_bytes : s.bucket_cap_bytes;
        lw_recommendation_free(&r);
    }
    assert_int_equal(cap[0], (int64_t)832 << 20);
    assert_in_range(cap[1], 0, (int64_t)128 << 20);
    lw_cluster_free(&c);
}

/* A reference that misses the recorded step by more than a quarter puts its gains in doubt. It says
 * nothing where other limits, ranks or devices were recorded. */
TEST(a_reference_far_from_the_recorded_step_is_said_to_be)
{
    static const int64_t limit[] = {808};
    struct lw_recommendation r;
    struct lw_cluster c;
    struct tiny t;

    tiny_init(&t);
    two_ranks(&c, 1e9, 300 * LW_PS_PER_NS);
    c.device.kind = "box";
    t.w.from.device = "box";
    t.w.recorded.world_size = 2;
    t.w.recorded.n_limits = 1;
    t.w.recorded.limit_bytes = limit;
    const lw_ps step = step_with(&t.w, &c, 808);
    const struct {
        lw_ps recorded;
        int32_t world;
        const char *device;
        int64_t cap;
        bool said;
    } cases[] = {
        {step * 100 / 124, 2, "box", -1, false}, {step * 100 / 126, 2, "box", -1, true},
        {step * 100 / 76, 2, "box", -1, false},  {step * 100 / 74, 2, "box", 808, true},
        {step * 100 / 74, 4, "box", -1, false},  {step * 100 / 74, 2, "H100", -1, false},
        {step * 100 / 74, 2, "box", 8, false},   {-1, 2, "box", -1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        t.w.recorded.step_ps = cases[i].recorded;
        t.w.recorded.world_size = cases[i].world;
        t.w.from.device = cases[i].device;
        recommend(&t.w, &c, cases[i].cap, &r);
        assert_int_equal(r.n_remarks > 0 && strstr(r.remarks[r.n_remarks - 1], "was recorded"),
                         cases[i].said);
        if (i == 1)
            assert_non_null(strstr(r.remarks[r.n_remarks - 1], "+26.0 %"));
        lw_recommendation_free(&r);
    }
    c.device.kind = NULL;
    lw_cluster_free(&c);
}

TEST(it_is_compared_with_what_was_recorded)
{
    static const int64_t usual[] = {1 << 20, 25 << 20}, one[] = {400}, two[] = {100, 800};
    struct lw_recommendation r;
    struct lw_cluster c;
    struct tiny t;

    tiny_init(&t);
    two_ranks(&c, 1e9, 0);
    recommend(&t.w, &c, -1, &r);
    assert_int_equal(r.source, LW_CAP_DEFAULT);
    lw_recommendation_free(&r);
    t.w.recorded.n_limits = 1;
    t.w.recorded.limit_bytes = one;
    recommend(&t.w, &c, -1, &r);
    assert_int_equal(r.source, LW_CAP_RECORDED);
    assert_int_equal(r.reference.cap_bytes, 400);
    assert_int_equal(r.reference.n_buckets, 3);
    lw_recommendation_free(&r);
    t.w.recorded.n_limits = 2;
    t.w.recorded.limit_bytes = two;
    recommend(&t.w, &c, -1, &r);
    assert_int_equal(r.reference.cap_bytes, 800);
    assert_int_equal(r.reference_strategy.first_bucket_bytes, 100);
    lw_recommendation_free(&r);
    t.w.recorded.limit_bytes = usual;
    recommend(&t.w, &c, -1, &r);
    assert_int_equal(r.reference.cap_bytes, -1);
    assert_int_equal(r.source, LW_CAP_RECORDED);
    lw_recommendation_free(&r);
    recommend(&t.w, &c, 900, &r);
    assert_int_equal(r.source, LW_CAP_GIVEN);
    assert_int_equal(r.reference.cap_bytes, 900);
    lw_recommendation_free(&r);
    lw_cluster_free(&c);
}

TEST(how_sure_follows_from_past_errors)
{
    struct lw_cap_point point = {.cap_bytes = 1024, .step = 960};
    struct lw_recommendation r = {.points = &point, .n_points = 1, .n_simulated = 1,
                                  .reference = {.step = 1000}};
    struct lw_recommend_report p = {.r = &r, .n_past = 3, .mean_past_pct = 4, .max_past_pct = 6};

    /* 40 of 1000 is 4 % */
    assert_true(lw_recommend_gain_pct(&p) == 4.0);
    assert_string_equal(lw_recommend_verdict(&p), "below_error");
    p.mean_past_pct = 3;
    assert_string_equal(lw_recommend_verdict(&p), "likely");
    p.max_past_pct = 3.5;
    assert_string_equal(lw_recommend_verdict(&p), "sure");
    p.n_past = 0;
    assert_string_equal(lw_recommend_verdict(&p), "unknown");
    r.reference.step = 1000000;
    point.step = 990001; /* 0.9999 %, which steps of one configuration differ by */
    assert_string_equal(lw_recommend_verdict(&p), "keep");
    point.step = 990000;
    assert_string_equal(lw_recommend_verdict(&p), "unknown");
    r.best = -1;
    assert_string_equal(lw_recommend_verdict(&p), "keep");
    assert_int_equal(lw_recommendation_gain(&r), 0);
    r.n_simulated = 0; /* interrupted before the first */
    assert_string_equal(lw_recommend_verdict(&p), "none");
}

/* Parameters, gradients and momenta of qwen3-8b by itself are more than a device of 80 GB has. */
TEST(a_plan_that_does_not_fit_is_said_not_to)
{
    expect("model qwen3-8b --device h100 -o big.json", 0, "wrote big.json");
    expect("model gpt2 --layers 2 --device h100 -o small.json", 0, "wrote small.json");
    expect("model gpt2 --batch 28 --device A100-SXM4-80GB -o near.json", 0, "wrote near.json");
    expect("recommend near.json -c dgx-a100 --dp 2", 0, "the plan may not fit");
    shell("sed 's/H100-SXM5-80GB/Tesla X/' small.json > x.json", NULL);
    EXPECT("recommend -c dgx-h100",
           {"big.json --dp 8",
            0,
            "more than the device has by ",
            {"the plan does not fit in the device's memory"}},
           {"small.json --dp 2 --format json", 0, "\"memory_missing_bytes\": 0,"},
           {"x.json --dp 2 --as-recorded --format json", 0, "\"memory_missing_bytes\": null"});
    const char *out = lapwing("recommend big.json -c dgx-h100 --dp 8 --format json", NULL);
    assert_true(number_after(out, "\"memory_missing_bytes\": ") > 0);
}

/* 1624 MiB are 1.5859 GiB: 1.59 GiB would be 4 MiB more, and may make other buckets. */
TEST(a_cap_is_printed_so_that_it_can_be_given)
{
    static const struct {
        int64_t bytes;
        const char *text;
    } caps[] = {{(int64_t)1624 << 20, "bucket cap 1624 MiB:"}, {25 << 20, "bucket cap 25.00 MiB:"},
                {3 << 19, "bucket cap 1.50 MiB:"},             {(1 << 20) + 8,
                                                                "bucket cap 1048584 B:"},
                {1000, "bucket cap 1000 B:"},                  {1029 << 10,
                                                                "bucket cap 1029 KiB:"}};

    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        struct lw_cap_point point = {.cap_bytes = caps[i].bytes, .step = 900, .n_buckets = 2};
        struct lw_recommendation r = {.points = &point, .n_points = 1, .n_simulated = 1,
                                      .reference = {.step = 1000}};
        struct lw_cluster c = {.name = "box"};
        struct lw_workload w = {.name = "w"};
        struct lw_recommend_report p = {.r = &r, .workload = &w, .cluster = &c, .ranks_from = "",
                                        .n_ranks = 2};
        char text[1024] = "";
        FILE *f = fmemopen(text, sizeof text, "w");
        assert_non_null(f);
        ok(lw_recommend_print(&p, LW_FORMAT_TEXT, f, &err));
        fclose(f);
        if (!strstr(text, caps[i].text))
            fail_msg("'%s' lacks '%s'", text, caps[i].text);
    }
}

TEST(one_rank_has_nothing_to_recommend)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_recommendation r;
    struct lw_cluster c;
    struct tiny t;

    tiny_init(&t);
    two_ranks(&c, 1e9, 0);
    assert_int_equal(lw_recommend(&t.w, &s, &c, NULL, NULL, &r, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "--dp"));
    lw_cluster_free(&c);
}

static volatile sig_atomic_t asked;

static void ask_in_the_third(void *first, const char *what, double share)
{
    *(double *)first = share > 0 && *(double *)first == 0 ? share : *(double *)first;
    assert_string_equal(what, "simulating bucket caps");
    asked = asked || share >= 2. / 8;
}

/* Compute beside communication is slower, so each op is an event. */
static void slow_ranks(struct lw_cluster *c)
{
    two_ranks(c, 1e9, 300 * LW_PS_PER_NS);
    c->interference.compute_rate_under_comm = given(0.5);
}

static void interrupted(const struct lw_strategy *s, int32_t n_simulated)
{
    double first = 0;
    const struct lw_progress progress = {ask_in_the_third, &first, &asked};
    struct lw_recommendation r;
    struct lw_cluster c;
    struct tiny t;

    asked = 0;
    tiny_init(&t);
    slow_ranks(&c);
    ok(lw_recommend(&t.w, s, &c, NULL, &progress, &r, &err));
    assert_true(first > 0 && first <= 1. / 8);
    assert_true(r.interrupted);
    assert_false(r.exhaustive);
    assert_int_equal(r.n_simulated, n_simulated);
    for (int32_t i = 0; i < r.n_points; i++)
        assert_int_equal(r.points[i].step >= 0, i < n_simulated);
    assert_in_range(r.best + 1, 0, n_simulated);
    lw_recommendation_free(&r);
    lw_cluster_free(&c);
}

/* The caps of the tiny workload are simulated in order; a signal comes as the third begins. A short
 * one is simulated to its end, a long one is left out. */
TEST(an_interrupt_keeps_what_was_simulated)
{
    struct lw_strategy s = lw_strategy_default();

    s.dp = 2;
    interrupted(&s, 3);
    s.micro_batches = 2000;
    interrupted(&s, 2);
}

TEST(an_interrupt_before_the_first_cap_leaves_the_reference)
{
    double first = 0;
    const struct lw_progress progress = {ask_in_the_third, &first, &asked};
    struct lw_strategy s = lw_strategy_default();
    struct lw_recommendation r;
    struct lw_cluster c;
    struct tiny t;

    asked = 1;
    tiny_init(&t);
    slow_ranks(&c);
    s.dp = 2;
    ok(lw_recommend(&t.w, &s, &c, NULL, &progress, &r, &err));
    assert_true(r.interrupted && r.n_simulated == 0 && r.best == -1 && r.reference.step > 0);
    lw_recommendation_free(&r);
    s.micro_batches = 2000;
    assert_int_equal(lw_recommend(&t.w, &s, &c, NULL, &progress, &r, &err), LW_EFAILED);
    assert_non_null(strstr(err.msg, "interrupted"));
    lw_cluster_free(&c);
}

TEST(memory_is_given_back_when_it_runs_out)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_cluster c;
    struct tiny t;
    enum lw_status st = LW_ENOMEM;

    tiny_init(&t);
    two_ranks(&c, 1e9, 0);
    s.dp = 2;
    for (int64_t n = 1; st != LW_OK; n += 1 + n / 8) {
        struct lw_recommendation r = {0};
        int64_t live = lw_alloc_live();
        lw_alloc_fail_at(n);
        st = lw_recommend(&t.w, &s, &c, NULL, NULL, &r, &err);
        lw_alloc_fail_at(0);
        lw_recommendation_free(&r);
        assert_int_equal(lw_alloc_live(), live);
        assert_true(st == LW_OK || st == LW_ENOMEM);
    }
    lw_cluster_free(&c);
}

/* --- the command ------------------------------------------------------------------------------ */

TEST(a_trace_is_answered_in_one_sentence)
{
    EXPECT("recommend",
           {"$R/gpt6__local.rank0.json.gz -c dgx-a100 --as-recorded",
            0,
            "on 8 ranks (all devices of the cluster)",
            {"keep the default cap: 2 buckets",
             "how sure: unknown, nothing was measured on cluster 'dgx-a100 "}},
           {"$R/gpt6__gloo2__cap5.rank0.json.gz -c host --format json",
            0,
            "\"reference\": {\"bucket_cap_bytes\": 5242880,",
            {"\"reference_is\": \"recorded\""}},
           {"absent.json", 1, "absent.json"}, {"", 2, "traces or one workload file"},
           {"- other.json -c dgx-a100", 2, "'-' is one workload, and traces are files"},
           {"$R/gpt6__local.rank0.json.gz --dp 1 --ranks 1", 1, "--dp N"});
    assert_true(is_one_message(
        lapwing("recommend $R/gpt6__local.rank0.json.gz -c dgx-a100 --as-recorded", NULL)));
}

/* A workload is read once: from a pipe the answer is that of the file. */
TEST(a_workload_may_come_from_a_pipe)
{
    int rc;
    char *file = strdup(shell("$L model gpt2 --batch 2 --device dgx-a100 -o piped.json >all && "
                              "$L recommend piped.json -c dgx-a100 --dp 4 --format json", &rc));

    assert_non_null(file);
    assert_int_equal(rc, 0);
    assert_non_null(strstr(file, "\"reference\""));
    assert_string_equal(shell("cat piped.json | $L recommend - -c dgx-a100 --dp 4 --format json",
                              &rc), file);
    assert_int_equal(rc, 0);
    free(file);
}

/* A pass of an accumulating loop is not a step, and no cap changes the buckets of FSDP. */
TEST(a_trace_is_planned_as_it_ran)
{
    static const char words[] = "recommend $R/loops/accumulate_torch2.15.rank0.json.gz -c dgx-a100 "
                                "--as-recorded --dp 2 --format json";
    char *out = strdup(lapwing(words, NULL));

    assert_string_equal(out, lapwingf("%s --no-sync 2", words));
    assert_string_not_equal(out, lapwingf("%s --no-sync 0", words));
    free(out);
    EXPECT("recommend $R/loops/fsdp1_torch2.15.rank0.json.gz",
           {"", 1, "--zero 3: no bucket cap changes"}, {"--zero 0", 0, "on 2 ranks as recorded"});
}

/* As `import` reads them: sizes that a trace without shapes lacks are assumed. */
TEST(a_trace_without_shapes_is_answered)
{
    if (access("../shared/traces/kineto/linear_1gpu.json.gz", R_OK) != 0) {
        print_message("SKIP a trace without shapes: ../shared is absent\n");
        skip();
    }
    expect("recommend $P/../shared/traces/kineto/linear_1gpu.json.gz -c dgx-a100 --as-recorded "
           "--dp 4", 0, "step ");
}

static double step_of_cap(int64_t cap)
{
    return number_after(lapwingf("sim -w llama-3-8b -c p4d --dp 64 --zero 1 --bucket-cap %lldB "
                                 "--format json --no-db", (long long)cap),
                        "\"step_ns\": ");
}

/* DeepSpeed's policy, of whose bucketings a walk by the rule of c10d found two. */
TEST(sharded_optimizers_are_searched_by_the_rule_of_their_policy)
{
    const char *out = lapwing("recommend llama-3-8b -c p4d --dp 64 --zero 1 --bucket-cap 25MiB "
                              "--format json", NULL);
    int64_t best = (int64_t)number_after(out, "\"best\": {\"bucket_cap_bytes\": ");
    double step = number_after(out, "\"step_ns\": ");

    assert_true(number_after(out, "\"n_bucketings\": ") > 500);
    assert_true(step_of_cap(best) == step);
    for (int shift = 28; shift <= 33; shift++)
        assert_true(step_of_cap((int64_t)1 << shift) >= step);
}

static void ask_when_two_are_stored(void *n, const char *what, double share)
{
    assert_string_equal(what, "storing predictions");
    asked = share * *(int *)n >= 1.999;
}

/* The reference and the eight caps of the tiny workload; the third is simulated to its end, because
 * it is short. */
TEST(an_interrupt_keeps_the_predictions_stored_before)
{
    int n = 9;
    const struct lw_progress progress = {ask_when_two_are_stored, &n, &asked};
    struct lw_strategy s = lw_strategy_default();
    struct lw_recommendation r;
    struct lw_cluster c;
    struct tiny t;

    asked = 0;
    tiny_init(&t);
    slow_ranks(&c);
    s.dp = 2;
    ok(lw_recommend(&t.w, &s, &c, NULL, NULL, &r, &err));
    const struct lw_recommend_store store = {fixture_path("some.db"), "", &t.w, &c, &s, NULL, &r,
                                             &progress};
    assert_int_equal(lw_recommend_store(&store, &err), LW_EFAILED);
    assert_string_equal(err.msg, "interrupted: 3 of 9 predictions were stored");
    lw_recommendation_free(&r);
    lw_cluster_free(&c);
    expect("runs --db some.db --format csv", 0, "\n3,");
}

TEST(stored_caps_can_be_drawn)
{
    expect("import $R/gpt6__local.rank0.json.gz -o w.json", 0, "w.json");
    expect("recommend w.json --dp 2 -c dgx-a100 --as-recorded --store --db caps.db --format csv", 0,
           "bucket_cap_bytes,from_bytes,to_bytes,n_buckets,step_ns,exposed_comm_ns");
    expect("runs --db caps.db", 0, "18.00 MiB");
    expect("plot sweep --db caps.db -o sweep.gp", 0, "");
}

TEST_GROUP(fixture_open, fixture_close)
