/* Merged ops: an event for a block of ops that nothing joins or leaves between, and nothing changes
 * but the number of events. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/plan/op_rows.h"
#include "sim/engine/implied_edges.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

static const lw_ps us = LW_PS_PER_US;

/* Without rows; the lengths are those of an event for each op. */
static int64_t n_events(const struct world *w, bool no_merge)
{
    struct lw_sim_options o = {.n_steps = 1, .no_merge = no_merge};
    struct lw_sim_stats s;
    struct lw_err err = {0};
    lw_ps length;

    if (lw_sim_run_steps(&w->plan, &w->c, &o, &length, &s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(s.end, w->s.end);
    return s.n_events;
}

/* A module's backward: the sum of its input's gradient (10..14) runs beside the gradient of its
 * weights (10..13), and the next module (14..17) waits for both. The second sum waits for the
 * first, but also for what waited for that. The data ranks' sum (stream 2) begins at 13 with the
 * gradient of the weights in the second plan: the block is left there. */
TEST(a_backward_with_a_sum_beside_it_is_one_event)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_BACKWARD_INPUT, 0, .us = 10, .start = 0, .end = 10},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 4, .after = 1, .start = 10, .end = 14},
        {EVERY, LW_OP_BACKWARD_WEIGHT, 0, .us = 3, .start = 10, .end = 13},
        {EVERY, LW_OP_BACKWARD_INPUT, 0, .us = 3, .after = 2, .start = 14, .end = 17},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 2, .after = 4, .start = 17, .end = 19},
        {EVERY, LW_OP_OPTIMIZER, 0, .us = 5, .after = 5, .start = 19, .end = 24},
    };
    struct hand_op left[7];
    struct world w;

    make_hand(&w, 2, ops);
    run_hand(&w, ops);
    assert_int_equal(w.s.n_simulated, 1);
    assert_int_equal(n_events(&w, false), 1);
    assert_int_equal(n_events(&w, true), 6);
    free_world(&w);

    /* 0..10, 10..14, 10..13, 13..19, and the last three from 14 to 24 */
    memcpy(left, ops, sizeof ops);
    left[6] = (struct hand_op){EVERY, LW_OP_ALL_REDUCE, 2, .comm = 1, .us = 6, .after = 3,
                               .start = 13, .end = 19};
    make_hand(&w, 2, left);
    run_hand(&w, left);
    assert_int_equal(n_events(&w, false), 5);
    assert_int_equal(n_events(&w, true), 7);
    free_world(&w);
}

/* Two ranks of different speeds are two classes: their sums are of two members, their compute is
 * merged (0..10 and 0..20 to the sum at 20, 22..27 and 22..32). */
TEST(ops_that_two_ranks_meet_in_are_events_of_their_own)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_KERNEL, 0, .us = 7}, {EVERY, LW_OP_KERNEL, 0, .us = 3},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 2, .after = 2},
        {EVERY, LW_OP_KERNEL, 0, .us = 4, .after = 3}, {EVERY, LW_OP_KERNEL, 0, .us = 1},
    };
    struct world w;

    make_hand(&w, 2, ops);
    add_exception(&w.c, (struct lw_exception){.rank = 1, .rank_to = -1, .speed = 0.5});
    run_world(&w, lw_sim_options_default());
    expect_span(&w, 0, 2, 10 * us, 22 * us);
    expect_span(&w, 1, 1, 14 * us, 20 * us);
    expect_span(&w, 1, 4, 30 * us, 32 * us);
    assert_int_equal(n_events(&w, false), 5);
    assert_int_equal(n_events(&w, true), 9);
    free_world(&w);
}

/* --- random plans --- */

enum { STREAMS = 4, COMMS = 3, MOST_RANKS = 6 };

static void add_groups(struct lw_builder *b, int32_t n)
{
    int32_t all[MOST_RANKS];

    for (int32_t r = 0; r < n; r++)
        all[r] = r;
    for (int c = 0; c < COMMS; c++)
        lw_builder_comm(b, "c", LW_COMM_DATA, LW_REDUCER_AUTO, c + 1);
    lw_builder_group(b, 0, all, n);
    for (int32_t r = 0; r < n; r++) /* of pairs, and of each alone */
        lw_builder_group(b, 1, all + r, n % 2 || r % 2 ? 1 : 2), r += !(n % 2);
    for (int32_t r = 0; r < n; r++)
        lw_builder_group(b, 2, all + r, 1);
}

/* one_stream: all compute and copies are on the first stream. */
static void add_random_op(struct lw_builder *b, struct prng *r, int32_t n_ranks, int32_t i,
                          bool one_stream)
{
    static const enum lw_op_kind kinds[] = {
        LW_OP_KERNEL,     LW_OP_FORWARD, LW_OP_COPY_IN,    LW_OP_ALLOC,      LW_OP_HOST,
        LW_OP_ALL_REDUCE, LW_OP_KERNEL,  LW_OP_ALL_GATHER, LW_OP_ALL_REDUCE, LW_OP_BACKWARD};
    enum lw_op_kind kind = kinds[prng_below(r, 10)];
    bool collective = lw_op_class(kind) == LW_CLASS_COLLECTIVE;
    bool first = one_stream && (lw_op_class(kind) == LW_CLASS_COMPUTE ||
                                lw_op_class(kind) == LW_CLASS_COPY);
    struct lw_op op =
        lw_builder_blank(kind, first || prng_below(r, 3) ? 0 : prng_below(r, STREAMS));
    struct lw_operand row[MOST_RANKS];
    int32_t deps[3], n_deps = 0;

    op.work_ps = prng_in(r, 0, 3) == 0 ? 0 : prng_in(r, 1, 40) * us / 7;
    op.bytes = prng_in(r, 0, 9) * 4096;
    if (collective) {
        op.comm = prng_below(r, COMMS);
        op.stream = prng_below(r, 8) ? op.comm + 1 : 0;
        op.work_ps = prng_below(r, 3) ? -1 : op.work_ps;
    } else if (kind == LW_OP_COPY_IN && prng_below(r, 2)) {
        op.work_ps = -1;
    }
    for (int32_t k = 0; k < n_ranks; k++)
        row[k] = (struct lw_operand){op.bytes + k % 2 * 4096, 0, -1};
    if (op.work_ps < 0 && prng_below(r, 6) == 0)
        op.operand = lw_builder_operand_row(b, row, n_ranks);
    for (int32_t k = i - 1; k >= 0 && k > i - 8; k--)
        if (n_deps < 3 && prng_below(r, 3) == 0)
            deps[n_deps++] = k;
    lw_builder_op(b, &op, deps, n_deps);
}

static void make_random(struct prng *r, struct world *w)
{
    int32_t n = (int32_t)prng_in(r, 1, MOST_RANKS), n_ops = (int32_t)prng_in(r, 1, 60);
    struct lw_builder *b = lw_builder_new("random", n);

    lw_builder_role(b, &(struct lw_role){.name = "all"});
    for (int32_t k = 0; k < n; k++)
        lw_builder_rank(b, k, 0, k, 0, 0);
    for (int k = 0; k < STREAMS; k++)
        lw_builder_stream(b, "s", k ? LW_STREAM_COMM : LW_STREAM_COMPUTE, k > 0);
    add_groups(b, n);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    bool one_stream = prng_below(r, 2);
    for (int32_t i = 0; i < n_ops; i++)
        add_random_op(b, r, n, i, one_stream);
    make_world(w, b);
    w->c.device.copy_bytes_per_s = given(3e9);
    w->c.links[0].latency_ps = given(1234);
    if (prng_below(r, 4) == 0)
        add_exception(&w->c, (struct lw_exception){.rank = (int32_t)prng_in(r, 0, n - 1),
                                                   .rank_to = -1, .speed = 1 / 3.0,
                                                   .late_ps = prng_below(r, 2) * 3 * us});
    if (n > 1 && prng_below(r, 6) == 0)
        add_exception(&w->c, (struct lw_exception){.rank = 0, .rank_to = 1, .speed = 0.25});
}

TEST(random_plans_are_the_same_merged_and_not)
{
    struct prng r = prng_start("merged plans");
    int64_t merged = 0, each = 0;

    for (int i = 0; i < 600; i++) {
        struct world w;
        make_random(&r, &w);
        run_world(&w, (struct lw_sim_options){.n_steps = 1});
        merged += n_events(&w, false);
        each += n_events(&w, true);
        if (i % 4 == 0) /* several passes, buffered, ranks that draw their speed */
            run_world(&w, (struct lw_sim_options){
                              .n_steps = 3, .buffered = true, .seed = (uint64_t)i + 1,
                              .rank_sigma = i % 8 ? 0 : 0.2, .start_skew_ps = i % 16 ? 0 : 9000});
        free_world(&w);
    }
    printf("%lld events in place of %lld\n", (long long)merged, (long long)each);
    assert_true(merged < each * 3 / 4);
}

/* --- blocks that repeat --- */

/* Blocks of the random ops of two layers, one of them again and again: now and then an op takes
 * longer, is a communication of other bytes, or waits for another op of its layer, and the layer's
 * block must not be taken for one that it only resembles. */
struct layer {
    struct lw_op op[6];
    int32_t dep[6]; /* in the layer; -1: the last op of the layer before */
    int32_t n;
};

static struct layer random_layer(struct prng *r)
{
    struct layer x = {.n = (int32_t)prng_in(r, 2, 6)};

    for (int32_t i = 0; i < x.n; i++) {
        bool sum = prng_below(r, 3) == 0;
        x.op[i] = lw_builder_blank(sum ? LW_OP_ALL_REDUCE : LW_OP_KERNEL, sum ? 1 : 0);
        x.op[i].comm = sum ? 0 : -1;
        x.op[i].bytes = sum ? prng_in(r, 1, 3) << 18 : 0;
        x.op[i].work_ps = sum ? -1 : prng_in(r, 1, 20) * us / 7;
        x.dep[i] = prng_below(r, i + 1) - 1;
    }
    return x;
}

static void change(struct prng *r, struct layer *x)
{
    int32_t i = prng_below(r, x->n);

    if (prng_below(r, 2))
        x->dep[i] = prng_below(r, i + 1) - 1;
    else if (x->op[i].comm >= 0)
        x->op[i].bytes += 1 << 18;
    else
        x->op[i].work_ps += 1;
}

static void add_layer(struct lw_builder *b, const struct layer *x, int32_t *last)
{
    int32_t first = -1;

    for (int32_t i = 0; i < x->n; i++) {
        int32_t dep = x->dep[i] < 0 ? *last : first + x->dep[i];
        int32_t at = lw_builder_op(b, &x->op[i], &dep, dep >= 0);
        first = i == 0 ? at : first;
    }
    *last = first + x->n - 1;
}

TEST(random_repeated_layers_are_the_same_merged_and_not)
{
    struct prng r = prng_start("repeated layers");
    int64_t merged = 0, each = 0;

    for (int k = 0; k < 300; k++) {
        struct layer of[2] = {random_layer(&r), random_layer(&r)};
        struct lw_builder *b = begin_plan("layers", 8);
        lw_builder_stream(b, "host", LW_STREAM_COMPUTE, 0);
        lw_builder_stream(b, "other", LW_STREAM_COMPUTE, 0);
        int32_t last = -1;
        struct world w;
        for (int i = 0; i < 20; i++) {
            struct layer x = of[prng_below(&r, 2)];
            if (prng_below(&r, 3) == 0)
                change(&r, &x);
            add_layer(b, &x, &last);
            if (prng_below(&r, 3) == 0) /* an op that others wait for too: the block ends there */
                add_work(b, LW_OP_HOST, 2 + i % 2, 3 * us, last);
        }
        make_world(&w, b);
        if (k % 2)
            give_channels(&w.c, 96, (double)prng_in(&r, 1, 3));
        run_world(&w, lw_sim_options_default());
        merged += n_events(&w, false);
        each += n_events(&w, true);
        free_world(&w);
    }
    printf("%lld events in place of %lld\n", (long long)merged, (long long)each);
    assert_true(merged < each * 3 / 4);
}

/* --- beside collectives that hold SMs --- */

/* 24 of 96 SMs are held by each sum of 1 MiB on 8 ranks. The data ranks' sum, from 4 to 16, leaves
 * the first gradient three quarters: 4 + 9 of 20 are done at 16, and it ends at 23. Its own sum,
 * 23..31, does the same to the gradient of the weights: 6 of 8. The first four ops are one event,
 * whose end moves twice; a host op and a sum without compute are none. */
TEST(a_merged_backward_is_slower_beside_collectives_in_and_out_of_it)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_BACKWARD_INPUT, 0, .us = 20, .start = 0, .end = 23},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1 << 20, .us = 8, .after = 1, .start = 23, .end = 31},
        {EVERY, LW_OP_BACKWARD_WEIGHT, 0, .us = 6, .after = 1, .start = 23, .end = 31},
        {EVERY, LW_OP_OPTIMIZER, 0, .us = 6, .after = 2, .start = 31, .end = 37},
        {EVERY, LW_OP_HOST, 2, .us = 4, .start = 0, .end = 4},
        {EVERY, LW_OP_ALL_REDUCE, 2, .comm = 1, .bytes = 1 << 20, .us = 12, .after = 5, .start = 4,
         .end = 16},
    };
    struct world w;

    make_hand(&w, 8, ops);
    give_channels(&w.c, 96, 1);
    run_hand(&w, ops);
    assert_int_equal(w.s.n_simulated, 1);
    assert_int_equal(n_events(&w, false), 3);
    assert_int_equal(n_events(&w, true), 6);
    free_world(&w);
}

/* 600 kernels of 1 us in blocks of 256, 256 and 88, beside 3 sums of 4 us from 100 on, which slow
 * them to three quarters until 112 and make them 3 us longer; nine of them take 1 1/3 us, which are
 * rounded up to whole picoseconds. */
TEST(blocks_beside_channels_have_256_ops_at_most)
{
    enum { KERNELS = 600 };
    struct lw_builder *b = begin_plan("long", 8);
    struct lw_sim_options o = lw_sim_options_default();
    int32_t last = -1, sum = add_work(b, LW_OP_HOST, 1, 100 * us, -1);
    struct world w;

    for (int i = 0; i < KERNELS; i++)
        last = add_work(b, LW_OP_KERNEL, 0, us, last);
    for (int i = 0; i < 3; i++)
        sum = add_timed(b, 0, 1, 1 << 20, 4 * us, sum);
    make_world(&w, b);
    run_world(&w, o);
    assert_int_equal(w.s.end, KERNELS * us);
    assert_int_equal(n_events(&w, false), 2); /* the sums too are one block */
    give_channels(&w.c, 96, 1);
    run_world(&w, o);
    assert_in_range(w.s.end, (KERNELS + 3) * us, (KERNELS + 3) * us + 9);
    assert_int_equal(n_events(&w, false), 3 + 4);
    assert_int_equal(n_events(&w, true), KERNELS + 4);
    free_world(&w);
}

/* A copy on a stream of its own runs beside the sum, which therefore is in no block: the copy does
 * 3 of 4 us beside it, from 10 to 14, and ends at 15; the optimizer starts at 14. */
TEST(a_sum_beside_which_other_compute_may_run_is_not_merged)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_BACKWARD_INPUT, 0, .us = 10, .start = 0, .end = 10},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1 << 20, .us = 4, .after = 1, .start = 10, .end = 14},
        {EVERY, LW_OP_OPTIMIZER, 0, .us = 6, .after = 2, .start = 14, .end = 20},
        {EVERY, LW_OP_HOST, 2, .us = 10, .start = 0, .end = 10},
        {EVERY, LW_OP_COPY_IN, 2, .us = 4, .after = 4, .start = 10, .end = 15},
    };
    struct world w;

    make_hand(&w, 8, ops);
    give_channels(&w.c, 96, 1);
    run_hand(&w, ops);
    assert_int_equal(n_events(&w, false), 4); /* host and copy are one */
    free_world(&w);
}

static void expect_same_rows(const struct lw_timeline *a, const struct lw_timeline *b)
{
    size_t size = (size_t)a->n * sizeof(lw_ps);

    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->start, b->start, size);
    assert_memory_equal(a->all_in, b->all_in, size);
    assert_memory_equal(a->end, b->end, size);
}

/* A rate of 1 of a kind beside another changes nothing, but every rate is then settled by the
 * general rules, and nothing is merged. */
TEST(random_plans_beside_channels_are_the_same_merged_and_by_the_general_rules)
{
    struct prng r = prng_start("channels");
    int64_t merged = 0, each = 0;

    for (int i = 0; i < 400; i++) {
        struct lw_pair_rate none = {lw_activity_of(LW_OP_BROADCAST), lw_activity_of(LW_OP_REDUCE),
                                    1, "test"};
        struct world w;
        struct lw_timeline general;
        struct lw_sim_stats s;
        struct lw_sim_options o = {.n_steps = 1};
        make_random(&r, &w);
        give_channels(&w.c, 96, (double)prng_in(&r, 1, 9));
        run_world(&w, o);
        merged += n_events(&w, false);
        each += n_events(&w, true);
        if (i % 4 == 0) { /* several passes, ranks that draw their speed */
            o = (struct lw_sim_options){.n_steps = 3, .seed = (uint64_t)i + 1,
                                        .rank_sigma = i % 8 ? 0 : 0.2};
            run_world(&w, o);
        }
        w.c.pairs = &none;
        w.c.n_pairs = 1;
        run_both(&w.plan, &w.c, o, &general, &s);
        expect_same_rows(&w.t, &general);
        lw_timeline_free(&general);
        free_world(&w);
    }
    printf("%lld events in place of %lld\n", (long long)merged, (long long)each);
    assert_true(merged < each * 9 / 10);
}

/* --- edges that are never made --- */

/* The program by one walk has the edges that the one of all edges has once the implied ones are
 * removed. */
static void expect_lean(const struct lw_plan *p)
{
    struct lw_arena a = {0};
    struct sim_program all, lean;
    struct lw_err err = {0};

    assert_ok(sim_program_make(p, p->programs[0], NULL, &a, &all, &err), err);
    assert_ok(sim_program_drop_implied(p, &all, &err), err);
    assert_ok(sim_program_make_lean(p, p->programs[0], &a, &lean, &err), err);
    const size_t n = (size_t)all.n_units, n_edges = (size_t)all.first_next[n];
    assert_int_equal(lean.n_units, n);
    for (int32_t i = 0; i < all.n_ops; i++)
        assert_int_equal(sim_part(&lean, i), sim_part(&all, i));
    for (int32_t u = 0; u <= all.n_units; u++)
        assert_int_equal(sim_first_part(&lean, u), sim_first_part(&all, u));
    assert_memory_equal(lean.wait, all.wait, n * sizeof *all.wait);
    assert_memory_equal(lean.first_next, all.first_next, (n + 1) * sizeof *all.first_next);
    assert_memory_equal(lean.next, all.next, n_edges * sizeof *all.next);
    lw_arena_free(&a);
}

TEST(implied_edges_of_random_plans_are_never_made)
{
    struct prng r = prng_start("lean programs");

    for (int i = 0; i < 600; i++) {
        struct world w;
        make_random(&r, &w);
        expect_lean(&w.plan);
        free_world(&w);
    }
}

/* Of a program: ops on random streams and communicators, each after some of the last `far`. */
static void add_op_after(struct lw_builder *b, int32_t stream, int32_t comm, int32_t at,
                         const int32_t *far)
{
    struct lw_op op = lw_builder_blank(comm < 0 ? LW_OP_KERNEL : LW_OP_ALL_REDUCE, stream);
    int32_t deps[2], n = 0;

    op.comm = comm;
    op.work_ps = us;
    for (int k = 0; k < 2; k++)
        if (far[k] > 0 && far[k] <= at)
            deps[n++] = at - far[k];
    lw_builder_op(b, &op, deps, n);
}

/* A few ops, then a pattern of ops again and again, of which one is another now and then, and
 * shared rows: what the walk copies is what it would find. */
static void make_repeats(struct prng *r, struct lw_plan *p)
{
    enum { LONGEST = 40, N_OPS = 9000, FIRST = 20 };
    struct lw_builder *b = lw_builder_new("repeats", 1);
    const int32_t length = (int32_t)prng_in(r, 1, LONGEST), rank = 0;
    int32_t stream[LONGEST], comm[LONGEST], far[LONGEST][2];
    int64_t every = prng_in(r, 0, 1) ? N_OPS + 1 : prng_in(r, 10, N_OPS);
    struct lw_err err = {0};

    lw_builder_role(b, &(struct lw_role){.name = "all"});
    lw_builder_rank(b, 0, 0, 0, 0, 0);
    for (int k = 0; k < STREAMS; k++)
        lw_builder_stream(b, "s", LW_STREAM_COMPUTE, 0);
    for (int k = 0; k < COMMS; k++)
        lw_builder_group(b, lw_builder_comm(b, "c", LW_COMM_DATA, 0, 0), &rank, 1);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    for (int32_t i = 0; i < length; i++) {
        stream[i] = (int32_t)prng_in(r, 0, STREAMS - 2);
        comm[i] = (int32_t)prng_in(r, -3, COMMS - 1);
        comm[i] = comm[i] < 0 ? -1 : comm[i];
        for (int k = 0; k < 2; k++)
            far[i][k] = prng_in(r, 0, 1) ? (int32_t)prng_in(r, 1, 3 * length) : 0;
    }
    for (int32_t i = 0; i < N_OPS; i++) {
        static const int32_t none[2] = {0, 0};
        int32_t k = i % length;
        if (i < FIRST || i % every == every - 1)
            add_op_after(b, (int32_t)prng_in(r, 0, STREAMS - 1), -1, i, none);
        else
            add_op_after(b, stream[k], comm[k], i, far[k]);
    }
    assert_ok(lw_builder_finish(b, p, &err), err);
    assert_ok(lw_plan_share_ops(p, false, &err), err);
}

TEST(edges_of_ops_that_repeat_are_copied)
{
    struct prng r = prng_start("lean repeats");

    for (int i = 0; i < unit_cases(60, 1000); i++) {
        struct lw_plan p;
        make_repeats(&r, &p);
        expect_lean(&p);
        lw_plan_free(&p);
    }
}

/* 40 sums on four streams, and an op that waits for all of them in a random order, some of them
 * twice: the last of each stream is enough. */
TEST(an_op_that_waits_for_many_waits_for_the_last_of_each_stream)
{
    enum { N = 40, EACH = N / STREAMS, N_DEPS = 50 };
    struct prng r = prng_start("many");
    struct lw_builder *b = lw_builder_new("many", 1);
    int32_t deps[N_DEPS];
    struct world w;

    lw_builder_role(b, &(struct lw_role){.name = "all"});
    lw_builder_rank(b, 0, 0, 0, 0, 0);
    for (int k = 0; k < STREAMS + 1; k++)
        lw_builder_stream(b, "s", LW_STREAM_COMPUTE, 0);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    for (int32_t i = 0; i < N; i++) {
        struct lw_op op = lw_builder_blank(LW_OP_KERNEL, i / EACH);
        op.work_ps = us;
        lw_builder_op(b, &op, NULL, 0);
    }
    for (int32_t i = 0; i < N_DEPS; i++)
        deps[i] = i % N;
    for (int32_t i = N_DEPS - 1; i > 0; i--) {
        int32_t k = prng_below(&r, i + 1), x = deps[i];
        deps[i] = deps[k];
        deps[k] = x;
    }
    struct lw_op last = lw_builder_blank(LW_OP_KERNEL, STREAMS);
    lw_builder_op(b, &last, deps, N_DEPS);
    make_world(&w, b);
    expect_lean(&w.plan);

    struct lw_arena a = {0};
    struct sim_program p;
    struct lw_err err = {0};
    assert_ok(sim_program_make_lean(&w.plan, w.plan.programs[0], &a, &p, &err), err);
    assert_int_equal(p.wait[N], STREAMS);
    lw_arena_free(&a);
    free_world(&w);
}

/* --- what fails --- */

/* The first three ops would be one event; then rank 0 sends to one that never receives. */
TEST(what_fails_names_the_op_as_without_merging)
{
    struct lw_builder *b = begin_roles(2);
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats s;
    struct lw_err merged = {0}, each = {0};
    struct world w;

    lw_builder_program(b, 0, 0);
    for (int i = 0; i < 3; i++)
        add_work(b, LW_OP_KERNEL, 0, us, i - 1);
    add_message(b, LW_OP_SEND, 0, 1, 8, 1, -1, 2);
    lw_builder_program(b, 0, 1);
    add_work(b, LW_OP_KERNEL, 0, us, -1);
    make_world(&w, b);
    assert_int_equal(lw_sim_run(&w.plan, &w.c, &o, NULL, &s, &merged), LW_EFAILED);
    o.no_merge = true;
    assert_int_equal(lw_sim_run(&w.plan, &w.c, &o, NULL, &s, &each), LW_EFAILED);
    assert_string_equal(merged.msg, each.msg);
    assert_non_null(strstr(merged.msg, "(op 3)"));
    free_world(&w);
}

TEST(no_memory_is_an_error_at_every_allocation)
{
    struct prng r = prng_start("memory");
    struct world w;

    make_random(&r, &w);
    assert_true(run_without_memory(&w.plan, &w.c, lw_sim_options_default()) > 10);
    give_channels(&w.c, 96, 2);
    assert_true(run_without_memory(&w.plan, &w.c, lw_sim_options_default()) > 10);
    free_world(&w);
}
