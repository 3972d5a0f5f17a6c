/* The critical path by what bounds it, and what faster resources would shorten. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/explain_faster.h"
#include "analysis/explain/path_bound.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/traces/model_help.h"

#define US LW_PS_PER_US

static struct lw_err err;

static void ok(enum lw_status s)
{
    assert_ok(s, err);
}

/* --- by hand ---------------------------------------------------------------------------------- */

static int32_t add_bound(struct lw_builder *b, enum lw_op_kind kind, int32_t module, int32_t work)
{
    struct lw_op op = lw_builder_blank(kind, 0);

    op.module = module;
    op.work = work;
    return lw_builder_op(b, &op, NULL, 0);
}

static int32_t add_row(struct lw_builder *b, lw_ps compute, lw_ps memory)
{
    return lw_builder_work(b, &(struct lw_work){.ps = compute + memory, .flops = -1, .bytes = -1,
                                                .bound_ps = {compute, memory},
                                                .source = LW_TIME_SHAPE});
}

struct explained {
    struct lw_explanation e;
    struct lw_path_bounds b;
    struct lw_faster faster[LW_MAX_FASTER];
    int n;
};

/* The second step of the world's plan. */
static void explain_world(struct world *w, bool with_cluster, struct explained *x)
{
    struct lw_sim_options o = lw_sim_options_default();

    memset(x, 0, sizeof *x);
    o.n_steps = 2;
    if (w->t.n == 0)
        ok(lw_sim_run(&w->plan, &w->c, &o, &w->t, &w->s, &err));
    ok(lw_explain(&w->t, &w->plan, 1, -1, -1, &x->e, &err));
    ok(lw_path_bounds_of(&x->e, &w->plan, false, 0, &x->b, &err));
    ok(lw_explain_faster(&w->plan, with_cluster ? &w->c : NULL, &x->b, x->faster, &x->n, &err));
}

static void forget(struct explained *x)
{
    lw_path_bounds_free(&x->b);
    lw_explanation_free(&x->e);
}

static void expect_row(const struct explained *x, int i, enum lw_resource r, int32_t op,
                       lw_ps bound, lw_ps shorter, enum lw_faster_how how)
{
    assert_true(i < x->n);
    assert_int_equal(x->faster[i].resource, r);
    assert_int_equal(x->faster[i].op, op);
    assert_int_equal(x->faster[i].bound, bound);
    assert_int_equal(x->faster[i].shorter, shorter);
    assert_int_equal(x->faster[i].how, how);
}

/* On each of two ranks, links of 1000 B/us and copies of as much:
 *
 *   op 0  forward      10 us: 6 by products, 4 by memory
 *   op 1  copy_in      11,000 B = 11 us, by memory
 *   op 2  all_reduce   1,100,000 B on two ranks: 2 * (1/2) * 1100 us, by the network
 *   op 3  optimizer    5 us, given
 *
 * The step is 1126 us. A tenth faster: of products 6 us / 11 = 545,454 ps go; of memory 4 us / 11 =
 * 363,636 ps of the forward and 1 us of the copy; of the network 1,000,000 B cost 1000 us.
 */
static void make_four(struct world *w)
{
    struct lw_builder *b = begin_plan("four", 2);
    struct lw_op copy = lw_builder_blank(LW_OP_COPY_IN, 0);
    int32_t last;

    lw_builder_module(b, 0);
    add_bound(b, LW_OP_FORWARD, 0, add_row(b, 6 * US, 4 * US));
    copy.bytes = 11000;
    copy.work_ps = -1;
    last = lw_builder_op(b, &copy, NULL, 0);
    last = add_collective(b, LW_OP_ALL_REDUCE, 0, 1, 1100000, last);
    add_work(b, LW_OP_OPTIMIZER, 0, 5 * US, last);
    make_world(w, b);
    w->c.device.copy_bytes_per_s = given(1e9);
}

TEST(a_step_by_hand_is_divided_by_bound)
{
    struct world w = {0};
    struct explained x;

    make_four(&w);
    explain_world(&w, true, &x);
    assert_int_equal(x.e.length, 1126 * US);
    const lw_ps want[LW_N_PATH_BOUNDS] = {
        [LW_BOUND_COMPUTE] = 6 * US, [LW_BOUND_MEMORY] = 15 * US, [LW_BOUND_NETWORK] = 1100 * US,
        [LW_BOUND_MEASURED] = 5 * US};
    for (int k = 0; k < LW_N_PATH_BOUNDS; k++)
        assert_int_equal(x.b.ps[k], want[k]);
    assert_int_equal(x.n, 8);
    expect_row(&x, 0, LW_RESOURCE_CLOCK, -1, 6 * US, 545454, LW_FASTER_SIMULATED);
    expect_row(&x, 1, LW_RESOURCE_CLOCK, 0, 6 * US, 545454, LW_FASTER_SIMULATED);
    expect_row(&x, 2, LW_RESOURCE_MEMORY, -1, 15 * US, 1363636, LW_FASTER_SIMULATED);
    expect_row(&x, 3, LW_RESOURCE_MEMORY, 1, 11 * US, 1 * US, LW_FASTER_AT_MOST);
    expect_row(&x, 4, LW_RESOURCE_MEMORY, 0, 4 * US, 363636, LW_FASTER_SIMULATED);
    expect_row(&x, 5, LW_RESOURCE_NETWORK, -1, 1100 * US, 100 * US, LW_FASTER_SIMULATED);
    expect_row(&x, 6, LW_RESOURCE_NETWORK, 2, 1100 * US, 100 * US, LW_FASTER_AT_MOST);
    expect_row(&x, 7, LW_RESOURCE_HOST, -1, 0, 0, LW_FASTER_SIMULATED);
    assert_int_equal(x.faster[1].time, 10 * US); /* the op, of which 6 are bound by the clock */
    forget(&x);
    free_world(&w);
}

/* A run that was measured has no bounds but that of the host. */
TEST(ops_that_ran_for_real_are_measured)
{
    struct world w = {0};
    struct explained x;
    struct lw_path_bounds b;

    make_four(&w);
    explain_world(&w, true, &x);
    ok(lw_path_bounds_of(&x.e, &w.plan, true, 0, &b, &err));
    for (int k = 0; k < LW_N_PATH_BOUNDS; k++)
        assert_int_equal(b.ps[k], k == LW_BOUND_MEASURED ? 1126 * US : 0);
    lw_path_bounds_free(&b);
    struct lw_path_bounds none = {0};
    EACH_ALLOCATION_FAILS(0, lw_path_bounds_of(&x.e, &w.plan, false, 0, &none, &err), none,
                          lw_path_bounds_free(&none));
    forget(&x);
    free_world(&w);
}

/* Rank 1 computes 22 us, rank 0 21 us that are given; then both sum 1000 B in 1 us. A clock that is
 * a tenth faster takes 2 us off rank 1, and the step is 1 us shorter, because rank 0 is the last
 * then. Nothing of that is known without the cluster: at most 2. */
TEST(another_path_may_be_the_longest_then)
{
    struct lw_builder *b = begin_roles(2);
    struct world w = {0};
    struct explained x;

    lw_builder_module(b, 0);
    lw_builder_program(b, 0, 0);
    add_collective(b, LW_OP_ALL_REDUCE, 0, 1, 1000, add_work(b, LW_OP_FORWARD, 0, 21 * US, -1));
    lw_builder_program(b, 0, 1);
    add_collective(b, LW_OP_ALL_REDUCE, 0, 1, 1000,
                   add_bound(b, LW_OP_FORWARD, 0, add_row(b, 22 * US, 0)));
    make_world(&w, b);
    explain_world(&w, true, &x);
    assert_int_equal(x.b.ps[LW_BOUND_COMPUTE], 22 * US);
    expect_row(&x, 0, LW_RESOURCE_CLOCK, -1, 22 * US, 1 * US, LW_FASTER_SIMULATED);
    expect_row(&x, 1, LW_RESOURCE_CLOCK, 2, 22 * US, 1 * US, LW_FASTER_SIMULATED);
    forget(&x);
    explain_world(&w, false, &x);
    expect_row(&x, 0, LW_RESOURCE_CLOCK, -1, 22 * US, 2 * US, LW_FASTER_AT_MOST);
    forget(&x);
    free_world(&w);
}

/* Two modules have one row of works, 11 us, and one has another, 33 us: each is a work of its own,
 * and the plan is as it was after. Of equal ones the first comes first. */
TEST(works_that_share_a_row_are_told_apart)
{
    struct lw_builder *b = begin_plan("three", 1);
    struct world w = {0};
    struct explained x;
    int32_t row = add_row(b, 11 * US, 0);

    for (int m = 0; m < 3; m++)
        lw_builder_module(b, 0);
    for (int m = 0; m < 2; m++)
        add_bound(b, LW_OP_FORWARD, m, row);
    add_bound(b, LW_OP_FORWARD, 2, add_row(b, 33 * US, 0));
    make_world(&w, b);
    for (int again = 0; again < 2; again++) {
        explain_world(&w, true, &x);
        assert_int_equal(x.e.length, 55 * US);
        expect_row(&x, 0, LW_RESOURCE_CLOCK, -1, 55 * US, 5 * US, LW_FASTER_SIMULATED);
        expect_row(&x, 1, LW_RESOURCE_CLOCK, 2, 33 * US, 3 * US, LW_FASTER_SIMULATED);
        expect_row(&x, 2, LW_RESOURCE_CLOCK, 0, 11 * US, 1 * US, LW_FASTER_SIMULATED);
        expect_row(&x, 3, LW_RESOURCE_CLOCK, 1, 11 * US, 1 * US, LW_FASTER_SIMULATED);
        forget(&x);
    }
    assert_int_equal(w.plan.works[row].ps, 11 * US);
    free_world(&w);
}

/* Three of five, however they lie. */
TEST(the_largest_three_works_are_shown)
{
    static const lw_ps orders[][5] = {{1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}, {3, 5, 1, 4, 2}};

    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        struct lw_builder *b = begin_plan("five", 1);
        struct world w = {0};
        struct explained x;
        for (int m = 0; m < 5; m++)
            lw_builder_module(b, 0);
        for (int m = 0; m < 5; m++)
            add_bound(b, LW_OP_FORWARD, m, add_row(b, 0, orders[o][m] * US));
        make_world(&w, b);
        explain_world(&w, true, &x);
        assert_int_equal(x.n, LW_N_RESOURCES + 3);
        for (int i = 0; i < 3; i++)
            assert_int_equal(x.faster[2 + i].bound, (5 - i) * US);
        forget(&x);
        free_world(&w);
    }
}

/* --- what must hold on any run ---------------------------------------------------------------- */

static void expect_sums(const struct world *w, int32_t step)
{
    struct lw_explanation e;
    struct lw_path_bounds b;
    lw_ps sum = 0, works = 0;

    ok(lw_explain(&w->t, &w->plan, 0, step, -1, &e, &err));
    for (int measured = 0; measured < 2; measured++) {
        ok(lw_path_bounds_of(&e, &w->plan, measured, 0, &b, &err));
        sum = works = 0;
        for (int k = 0; k < LW_N_PATH_BOUNDS; k++) {
            assert_true(b.ps[k] >= 0);
            sum += b.ps[k];
        }
        assert_int_equal(sum, e.length);
        for (int64_t i = 0; i < b.n_works; i++) {
            works += b.works[i].time;
            assert_true(i == 0 || !lw_same_work(&w->plan.ops[b.works[i].op],
                                                &w->plan.ops[b.works[i - 1].op]));
        }
        assert_int_equal(works, e.length - b.ps[LW_PATH_IDLE]);
        assert_int_equal(b.ps[LW_BOUND_UNKNOWN], 0);
        for (int64_t i = 0; !measured && i < b.n_works; i++) { /* a model's, each by something */
            char text[LW_OP_TEXT];
            const struct lw_op *op = &w->plan.ops[b.works[i].op];
            bool given = op->work >= 0 && strcmp(lw_op_time_source(&w->plan, op), "given") == 0;
            if (given || b.works[i].by[LW_BOUND_MEASURED] > 0)
                fail_msg("%s is measured", lw_plan_op_text(&w->plan, b.works[i].op, text));
        }
        lw_path_bounds_free(&b);
    }
    lw_explanation_free(&e);
}

/* Models under strategies that cut their works, on random devices and links, with noise, skew and
 * interference: the bounds of the path sum to the step, to the picosecond. */
MODEL_TEST(bounds_sum_to_the_step)
{
    static const struct {
        const char *words;
        int64_t tp, cp;
        bool sequence;
    } cases[] = {
        {"dp 4 bucket-cap 4000", 0, 0, false},
        {"dp 2 zero 3", 0, 0, false},
        {"tp 2 sequence-parallel on dp 2", 2, 0, true},
        {"tp 2 sequence-parallel on tp-overlap pieces", 2, 0, true},
        {"cp 2", 0, 2, false},
        {"pp 2 micro-batches 4 recompute full partition uniform", 0, 0, false},
        {"pp 2 micro-batches 4 schedule zb-h1 partition uniform", 0, 0, false},
    };
    struct prng r = prng_start("bounds");

    for (int i = 0; i < 42; i++) {
        size_t k = (size_t)i % (sizeof cases / sizeof *cases);
        const struct traces_model_shape shape = {
            .batch = 1, .layers = 2, .hidden = 16, .heads = 4, .ffn = 32, .seq = 32, .vocab = 32,
            .dtype = "f32", .optimizer = "adam", .attention = i % 2 ? "flash" : "full",
            .tensor = cases[k].tp, .context = cases[k].cp,
            .sequence_parallel = cases[k].sequence,
            .rates = {.host_op_ps = prng_in(&r, 0, 1) * prng_in(&r, 1, 9000000),
                      .host_waits = prng_in(&r, 0, 1)}};
        struct lw_sim_options o = {.n_steps = 3, .seed = (uint64_t)i,
                                   .start_skew_ps = prng_in(&r, 0, 1) * prng_in(&r, 1, 3000000)};
        struct lw_device d = model_device();
        struct world w = {0};
        d.memory_bytes_per_s = given(1e9 * (double)prng_in(&r, 1, 100));
        struct lw_workload m = model_kept("llama-7b", &d, shape);
        w.plan = plan_of_words(&m, cases[k].words);
        make_cluster(&w.c, w.plan.n_ranks, 1e8 * (double)prng_in(&r, 1, 100),
                     prng_in(&r, 0, 900000));
        w.c.device.copy_bytes_per_s = given(1e8 * (double)prng_in(&r, 1, 100));
        if (prng_in(&r, 0, 1))
            w.c.interference.compute_rate_under_comm = given(0.5);
        o.noise = prng_in(&r, 0, 1);
        o.sigma = o.noise ? 0.1 : 0;
        ok(lw_sim_run(&w.plan, &w.c, &o, &w.t, &w.s, &err));
        for (int32_t step = 0; step < 3; step++)
            expect_sums(&w, step);
        free_world(&w);
    }
}

/* --- the command ------------------------------------------------------------------------------ */

static double number_at(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (!at)
        fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

/* The sum of values of a key in an array of objects, all whole. */
static int64_t sum_at(const char *array, const char *key)
{
    const char *end = strchr(array, ']');
    int64_t sum = 0;

    for (const char *at = array; (at = strstr(at, key)) && at < end; at += strlen(key)) {
        double v = number_at(at, key);
        assert_true(v == floor(v));
        sum += (int64_t)v;
    }
    return sum;
}

/* Whole nanoseconds add up: bounds, and what the causes have of the path. */
static void expect_json(const char *run, int64_t *by)
{
    static const char *const keys[LW_N_PATH_BOUNDS] = {
        "\"compute_ns\": ", "\"memory_ns\": ", "\"launch_ns\": ", "\"host_ns\": ",
        "\"network_ns\": ", "\"measured_ns\": ", "\"unknown_ns\": ", "\"idle_ns\": "};
    const char *out = lapwingf("explain %s --db b.db --format json", run);
    const char *at = strstr(out, "\"bounds\": {");
    int64_t sum = 0;

    assert_non_null(at);
    for (int k = 0; k < LW_N_PATH_BOUNDS; k++) {
        by[k] = (int64_t)number_at(at, keys[k]);
        assert_true(number_at(at, keys[k]) == (double)by[k]);
        sum += by[k];
    }
    double step = number_at(out, "\"step_ns\": ");
    assert_true((double)sum == step);
    assert_true((double)sum_at(strstr(out, "\"charges\": ["), "\"critical_path_ns\": ") == step);
    assert_true(number_at(out, "\"period_ns\": ") ==
                (double)sum_at(strstr(out, "\"charges\": ["), "\"time_ns\": "));
}

/* A model, its plan's file and the stored plan have one path and one answer. */
TEST_WITH(a_model_its_file_and_its_stored_plan_are_explained_alike, fixture_open, fixture_close)
{
    int64_t of[3][LW_N_PATH_BOUNDS];

    shell("$L sim -w gpt-125m --batch 1 -c dgx-h100 --dp 4 --db b.db --spans", NULL);
    shell("$L plan -w gpt-125m --batch 1 -c dgx-h100 --dp 4 -o p.json", NULL);
    shell("$L sim p.json -c dgx-h100 --db b.db --spans", NULL);
    shell("$L sim --run 1 -c dgx-h100 --db b.db --spans", NULL);
    expect_json("1", of[0]);
    expect_json("2", of[1]);
    expect_json("3", of[2]);
    assert_memory_equal(of[0], of[1], sizeof of[0]);
    assert_memory_equal(of[0], of[2], sizeof of[0]);
    assert_true(of[0][LW_BOUND_COMPUTE] > 0 && of[0][LW_BOUND_MEMORY] > 0);
    assert_true(of[0][LW_BOUND_HOST] > 0 && of[0][LW_BOUND_NETWORK] > 0);
    assert_int_equal(of[0][LW_BOUND_MEASURED], 0);
    expect("explain 2 --db b.db", 0, "the step with a resource that is 10 % faster");
    expect("explain 2 --db b.db", 0, "network  all_reduce of bucket");
    expect("explain 2 --db b.db --format json", 0, "\"resource\": \"network\", \"op\": null");
}

/* Nothing is said about what a recording or a run on hardware gives. */
TEST_WITH(what_is_measured_has_no_bound, fixture_open, fixture_close)
{
    int64_t of[LW_N_PATH_BOUNDS];
    const char *out;

    recording_of_model("gpt-125m --batch 1 --device dgx-h100", "r.json");
    shell("$L sim -w r.json -c dgx-h100 --db b.db --spans", NULL);
    expect_json("1", of);
    assert_int_equal(of[LW_BOUND_COMPUTE] + of[LW_BOUND_MEMORY] + of[LW_BOUND_HOST], 0);
    assert_true(of[LW_BOUND_MEASURED] > 0);
    out = lapwing("explain 1 --db b.db", NULL);
    assert_non_null(strstr(out, "what bounds them is not known"));
    assert_null(strstr(out, "clock "));
    assert_null(strstr(out, "device memory"));
    shell("$L exec -w $P/tests/golden/chain.workload.json --dp 2 --db b.db", NULL);
    expect_json("2", of);
    assert_int_equal(of[LW_BOUND_NETWORK] + of[LW_BOUND_MEMORY] + of[LW_BOUND_COMPUTE], 0);
    expect("explain 2 --db b.db", 0, "the run is measured: what bounds its ops is not known");
    expect("explain 2 --db b.db --format json", 0, "\"faster\": []");
}
