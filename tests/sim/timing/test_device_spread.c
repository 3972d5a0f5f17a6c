/* Products go at the pace of the slowest of the devices that wait for each other. */
#include "tests/lib/unit.h"

#include <stdlib.h>

#include "shared/numbers/normal_max.h"
#include "shared/plan/op_bound.h"
#include "sim/predict/sim.h"
#include "sim/timing/device_spread.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

enum { us = 1000000 };

/* An op with a work of its own, of which products and memory bound so much. */
static void add_kernel(struct lw_builder *b, lw_ps time, lw_ps products, lw_ps memory)
{
    struct lw_work w = {.ps = time, .flops = -1, .bytes = -1};
    struct lw_op op = lw_builder_blank(LW_OP_KERNEL, 0);

    w.bound_ps[LW_BOUND_COMPUTE] = products;
    w.bound_ps[LW_BOUND_MEMORY] = memory;
    op.work = lw_builder_work(b, &w);
    lw_builder_op(b, &op, NULL, 0);
}

static void make(struct world *w, int32_t n, lw_ps time, lw_ps products, lw_ps memory)
{
    struct lw_builder *b = begin_plan("spread", n);

    add_kernel(b, time, products, memory);
    make_world(w, b);
    w->c.noise.device_spread = given(0.02);
}

static const struct lw_sim_options plain = {.n_steps = 1};

/* 1.42360 is the expected largest of 8 (tests/shared/numbers/test_normal_max.c): 60 us of products
 * take 0.02 * 1.42360 * 60 = 1.70832 us longer; memory and the rest do not. */
TEST(products_take_as_long_as_on_the_slowest_of_eight)
{
    struct world w = {0};

    make(&w, 8, 100 * us, 60 * us, 30 * us);
    run_world(&w, plain);
    assert_true(llabs(w.s.end - (lw_ps)(101.70832 * us)) < 10);
    assert_true(term_of(&w, "device_spread")->on);
    assert_string_equal(w.s.remarks[0],
                        "products take 1.0285 times as long as on the mean device: the slowest of "
                        "the 8 devices sets the pace (device_spread)");
    free_world(&w);
}

static void expect_unused(struct world *w, struct lw_sim_options o, lw_ps end, const char *why)
{
    run_world(w, o);
    assert_int_equal(w->s.end, end);
    assert_false(term_of(w, "device_spread")->on);
    assert_string_equal(term_of(w, "device_spread")->why, why);
    assert_int_equal(w->s.n_remarks, 0);
    free_world(w);
}

/* What bounds the op then: all that was added is the products', whatever the rest is. */
TEST(what_is_added_is_of_products)
{
    struct prng r = prng_start("bounds of an op");
    struct world w = {0};

    for (int i = 0; i < 200; i++) {
        lw_ps products = prng_in(&r, 1, 100 * us), memory = prng_below(&r, 100 * us);
        lw_ps rest = (lw_ps)prng_below(&r, 2) * prng_below(&r, 50 * us), sum = 0;
        lw_ps by[LW_N_OP_BOUNDS] = {0};
        make(&w, 8, products + memory + rest, products, memory);
        run_world(&w, plain);
        int64_t parts = sim_spread_parts(&w.c, &plain, 8);
        lw_ps more = w.s.end - (products + memory + rest);
        lw_op_add_bounds(&w.plan, &w.plan.ops[0], w.s.end, parts, by);
        assert_true(more > 0 || products < 100);
        assert_int_equal(by[LW_BOUND_COMPUTE], products + more);
        assert_int_equal(by[LW_BOUND_MEMORY], memory);
        assert_int_equal(by[LW_BOUND_MEASURED], rest);
        for (int k = 0; k < LW_N_OP_BOUNDS; k++)
            sum += by[k];
        assert_int_equal(sum, w.s.end);
        free_world(&w);
    }
}

TEST(it_is_left_out_with_a_reason)
{
    struct world w = {0};

    make(&w, 1, 100 * us, 100 * us, 0);
    expect_unused(&w, plain, 100 * us, "the plan has one device");
    make(&w, 8, 100 * us, 0, 90 * us);
    expect_unused(&w, plain, 100 * us, "no op of the plan is known to be bound by products");
    make(&w, 8, 100 * us, 90 * us, 0);
    w.c.noise.device_spread = given(0);
    expect_unused(&w, plain, 100 * us, "it is 0");
    make(&w, 8, 100 * us, 90 * us, 0);
    w.c.noise.device_spread = (struct lw_figure){.source = NULL};
    run_world(&w, plain);
    assert_int_equal(w.s.end, 100 * us);
    assert_null(term_of(&w, "device_spread"));
    free_world(&w);
}

/* Ranks whose speeds are drawn differ already. */
TEST(drawn_speeds_take_its_place)
{
    struct lw_sim_options drawn = {.n_steps = 1, .rank_sigma = 0.05, .seed = 7, .noise = true};
    struct world with = {0}, without = {0};

    make(&with, 8, 100 * us, 90 * us, 0);
    make(&without, 8, 100 * us, 90 * us, 0);
    without.c.noise.device_spread = (struct lw_figure){.source = NULL};
    run_world(&with, drawn);
    run_world(&without, drawn);
    assert_int_equal(with.s.end, without.s.end);
    assert_string_equal(term_of(&with, "device_spread")->why,
                        "--rank-noise draws the speed of each rank");
    free_world(&with);
    free_world(&without);
}

/* Bounds of a work whose time was changed keep their proportions. */
TEST(a_changed_time_keeps_the_proportions_of_its_bounds)
{
    const int64_t tenth = 100000000; /* parts in 1e9 */
    struct world w = {0};

    make(&w, 2, 50 * us, 60 * us, 40 * us); /* by hand: a plan whose time was halved */
    const struct lw_op *op = LW_OP_HELD(&w.plan, 0);
    assert_int_equal(sim_spread_ps(&w.plan, op, 50 * us, tenth), 3 * us);
    assert_int_equal(sim_spread_ps(&w.plan, op, 100 * us, tenth), 6 * us);
    assert_int_equal(sim_spread_ps(&w.plan, op, 200 * us, tenth), 6 * us);
    assert_int_equal(sim_spread_ps(&w.plan, op, 0, tenth), 0);
    assert_int_equal(sim_spread_ps(&w.plan, op, 100 * us, 0), 0);
    free_world(&w);
}

/* --- random plans ----------------------------------------------------------------------------- */

enum { MOST_OPS = 12 };

/* Works in random proportions, collectives between them; stretched: with the times that the spread
 * gives, by hand. The same generator makes the same plan. */
static void random_world(struct world *w, struct prng r, bool stretched, double spread)
{
    int32_t n = (int32_t)prng_in(&r, 2, 31), n_ops = (int32_t)prng_in(&r, 1, MOST_OPS), last = -1;
    struct lw_builder *b = begin_plan("random", n);
    double more = spread * lw_normal_max(n);

    for (int32_t i = 0; i < n_ops; i++) {
        lw_ps time = (lw_ps)prng_below(&r, 400) * us, products = prng_below(&r, 101) * time / 100;
        lw_ps added = stretched ? (lw_ps)((double)products * more + 0.5) : 0;
        add_kernel(b, time + added, products, (time - products) / 2);
        if (prng_below(&r, 2))
            last = add_collective(b, LW_OP_ALL_REDUCE, 0, 1, prng_below(&r, 90000), last);
    }
    make_world(w, b);
    if (!stretched)
        w->c.noise.device_spread = given(spread);
}

/* One picosecond a work is the rounding of the parts. */
TEST(a_spread_is_a_plan_with_longer_works_folded_or_not)
{
    struct prng r = prng_start("plans with a spread");

    for (int plan = 1; plan <= 200; plan++) {
        const struct lw_sim_options each[] = {{.n_steps = 2},
                                              {.n_steps = 2, .no_fold = true},
                                              {.n_steps = 2, .no_fold = true, .no_merge = true}};
        struct world spread = {0}, longer = {0};
        random_world(&spread, r, false, 0.0005 * (plan % 90));
        random_world(&longer, r, true, 0.0005 * (plan % 90));
        prng_next(&r);
        lw_ps first = -1;
        for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
            struct lw_timeline a = {0}, b = {0};
            struct lw_sim_stats s, t;
            struct lw_err err = {0};
            assert_ok(lw_sim_run(&spread.plan, &spread.c, &each[i], &a, &s, &err), err);
            assert_ok(lw_sim_run(&longer.plan, &longer.c, &each[i], &b, &t, &err), err);
            if (llabs(s.end - t.end) > 4 * MOST_OPS || (first >= 0 && s.end != first))
                fail_msg("plan %d, options %zu: %lld, longer works %lld, folded %lld",
                         plan, i, (long long)s.end, (long long)t.end,
                         (long long)first);
            first = s.end;
            lw_timeline_free(&a);
            lw_timeline_free(&b);
        }
        free_world(&spread);
        free_world(&longer);
    }
}
