/* Folding: ranks that are alike are simulated once, and nothing changes but the time it takes. */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "sim/cost/cost_model.h"
#include "sim/fold/fold.h"
#include "sim/fold/trie.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"
#include "traces/models/models.h"

static const lw_ps us = LW_PS_PER_US;

/* --- a grid of dp x pp x tp ranks, as a training step has it --- */

enum { COMPUTE, COMM, SIDE, DOWN, UP };         /* streams */
enum { DATA, TENSOR, FORWARD, BACKWARD, TIED }; /* communicators */
enum { MOST = 64 };

struct grid {
    int32_t dp, pp, tp, n_micro, n_steps;
    bool operands; /* bytes of the data collectives differ between data ranks */
    bool spread;   /* weights by a broadcast */
    bool tied;     /* first and last stage share an embedding */
};

static int32_t rank_at(const struct grid *g, int32_t d, int32_t p, int32_t t)
{
    return t + g->tp * (d + g->dp * p); /* tensor, data, pipeline from fast to slow */
}

static void add_groups(struct lw_builder *b, const struct grid *g)
{
    int32_t m[MOST];

    for (int32_t p = 0; p < g->pp; p++) {
        for (int32_t t = 0; t < g->tp; t++) {
            for (int32_t d = 0; d < g->dp; d++)
                m[d] = rank_at(g, d, p, t);
            lw_builder_group(b, DATA, m, g->dp);
        }
        for (int32_t d = 0; d < g->dp; d++) {
            for (int32_t t = 0; t < g->tp; t++)
                m[t] = rank_at(g, d, p, t);
            lw_builder_group(b, TENSOR, m, g->tp);
        }
    }
    for (int32_t d = 0; d < g->dp; d++) {
        for (int32_t t = 0; t < g->tp; t++) {
            for (int32_t p = 0; p < g->pp; p++)
                m[p] = rank_at(g, d, p, t);
            lw_builder_group(b, FORWARD, m, g->pp);
            lw_builder_group(b, BACKWARD, m, g->pp);
            m[1] = m[g->pp - 1];
            if (g->pp > 1)
                lw_builder_group(b, TIED, m, 2);
        }
    }
}

static void begin_grid(struct lw_builder *b, const struct grid *g)
{
    static const char *const streams[] = {"compute", "comm", "side", "down", "up"};
    static const char *const comms[] = {"data", "tensor", "forward", "backward", "tied"};
    static const int32_t stream_of[] = {COMM, SIDE, DOWN, UP, SIDE};

    for (int32_t p = 0; p < g->pp; p++) {
        struct lw_role role = {.name = "stage", .stage = p};
        lw_builder_role(b, &role);
    }
    for (int32_t p = 0; p < g->pp; p++)
        for (int32_t d = 0; d < g->dp; d++)
            for (int32_t t = 0; t < g->tp; t++)
                lw_builder_rank(b, rank_at(g, d, p, t), p, d, p, t);
    for (int i = 0; i < 5; i++)
        lw_builder_stream(b, streams[i], i == COMPUTE ? LW_STREAM_COMPUTE : LW_STREAM_COMM, i > 0);
    for (int i = 0; i < 5; i++)
        lw_builder_comm(b, comms[i], LW_COMM_DATA, LW_REDUCER_AUTO, stream_of[i]);
    add_groups(b, g);
    lw_builder_variant(b, "steady", "", true);
}

/* A send or receive with the rank of the same data and tensor index in the next stage (step 1)
 * or the one before (-1). */
static int32_t add_hop(struct lw_builder *b, const struct grid *g, int32_t p, enum lw_op_kind kind,
                       int32_t comm, int32_t step, int32_t dep)
{
    struct lw_operand row[MOST];
    struct lw_op op = lw_builder_blank(kind, comm == FORWARD ? DOWN : UP);

    for (int32_t d = 0; d < g->dp; d++)
        for (int32_t t = 0; t < g->tp; t++)
            row[d * g->tp + t] = (struct lw_operand){5000, 0, rank_at(g, d, p + step, t)};
    op.comm = comm;
    op.operand = lw_builder_operand_row(b, row, g->dp * g->tp);
    return lw_builder_op(b, &op, &dep, dep >= 0);
}

static int32_t add_layer(struct lw_builder *b, const struct grid *g, enum lw_op_kind kind,
                         lw_ps work, int32_t dep)
{
    dep = add_work(b, kind, COMPUTE, work, dep);
    if (g->tp > 1)
        dep = add_collective(b, LW_OP_ALL_REDUCE, TENSOR, SIDE, 3000, dep);
    return add_work(b, kind, COMPUTE, work / 3, dep);
}

static void add_reduction(struct lw_builder *b, const struct grid *g, struct prng *r, int32_t dep)
{
    struct lw_operand row[MOST];
    struct lw_op op = lw_builder_blank(LW_OP_REDUCE_SCATTER, COMM);

    for (int32_t i = 0; i < g->dp * g->tp; i++)
        row[i] = (struct lw_operand){prng_in(r, 0, 2) * 4000 + 8000, i, -1};
    op.comm = DATA;
    op.bytes = 64000;
    if (g->operands)
        op.operand = lw_builder_operand_row(b, row, g->dp * g->tp);
    dep = lw_builder_op(b, &op, &dep, 1);
    dep = add_work(b, LW_OP_OPTIMIZER, COMPUTE, 7 * us, dep);
    add_collective(b, g->spread ? LW_OP_BROADCAST : LW_OP_ALL_GATHER, DATA, COMM, 64000, dep);
}

static void add_stage(struct lw_builder *b, const struct grid *g, int32_t p, struct prng *r)
{
    int32_t last = -1, in;

    lw_builder_program(b, 0, p);
    for (int32_t m = 0; m < g->n_micro; m++) {
        in = p > 0 ? add_hop(b, g, p, LW_OP_RECV, FORWARD, -1, -1) : -1;
        last = add_layer(b, g, LW_OP_FORWARD, (20 + 3 * p) * us, in);
        if (p + 1 < g->pp)
            add_hop(b, g, p, LW_OP_SEND, FORWARD, 1, last);
    }
    for (int32_t m = 0; m < g->n_micro; m++) {
        in = p + 1 < g->pp ? add_hop(b, g, p, LW_OP_RECV, BACKWARD, 1, -1) : last;
        last = add_layer(b, g, LW_OP_BACKWARD, (40 + 3 * p) * us, in);
        if (p > 0)
            add_hop(b, g, p, LW_OP_SEND, BACKWARD, -1, last);
    }
    if (g->tied && g->pp > 1 && (p == 0 || p == g->pp - 1))
        last = add_collective(b, LW_OP_ALL_REDUCE, TIED, SIDE, 9000, last);
    add_reduction(b, g, r, last);
}

static void make_grid(const struct grid *g, struct prng *r, struct lw_plan *plan)
{
    struct lw_builder *b = lw_builder_new("grid", g->dp * g->pp * g->tp);

    assert_non_null(b);
    begin_grid(b, g);
    for (int32_t p = 0; p < g->pp; p++)
        add_stage(b, g, p, r);
    finish_plan(b, plan);
}

/* Nodes of per_node devices, slower links between them. */
static void make_nodes(struct lw_cluster *c, int32_t n_ranks, int32_t per_node)
{
    make_cluster(c, per_node, 1e9, 700);
    c->n_nodes = (n_ranks + per_node - 1) / per_node;
    c->links[1] = (struct lw_link){.name = "between", .level = LW_LINK_INTER,
                                   .bytes_per_s = given(3e8), .latency_ps = given(9000)};
    c->n_links = 2;
}

static int32_t simulated(const struct grid *g, int32_t per_node, struct lw_exception x,
                         struct lw_sim_options o)
{
    struct prng r = {7};
    struct world w = {0};

    make_grid(g, &r, &w.plan);
    make_nodes(&w.c, w.plan.n_ranks, per_node);
    if (x.speed > 0)
        add_exception(&w.c, x);
    run_world(&w, o);
    free_world(&w);
    return w.s.n_simulated;
}

/* 4 x 4 x 2: one rank for each stage. */
TEST(a_stage_is_simulated_once)
{
    const struct grid g = {.dp = 4, .pp = 4, .tp = 2, .n_micro = 3, .tied = true};

    assert_int_equal(simulated(&g, 8, (struct lw_exception){0}, lw_sim_options_default()), 4);
    /* at chunk detail the rings of tensor and data ranks share links: every message has its
     * order */
    struct lw_sim_options chunk = {.n_steps = 1, .detail = LW_SIM_CHUNK};
    const struct grid shared = {.dp = 4, .pp = 4, .tp = 2, .n_micro = 3};
    assert_int_equal(simulated(&shared, 8, (struct lw_exception){0}, chunk), 32);
    assert_int_equal(simulated(&g, 8, (struct lw_exception){0}, chunk), 32);
    /* without tensor ranks and tied stages, a stage's four data ranks are one ring of equal hops */
    const struct grid d = {.dp = 4, .pp = 2, .tp = 1, .n_micro = 2};
    assert_int_equal(simulated(&d, 4, (struct lw_exception){0}, chunk), 2);
    assert_int_equal(simulated(&d, 1, (struct lw_exception){0}, chunk), 2);
    /* two to a node: hops inside and between nodes alternate, and nothing is alike */
    assert_int_equal(simulated(&d, 2, (struct lw_exception){0}, chunk), 8);
    struct lw_sim_options two = {.n_steps = 2, .buffered = true};
    assert_int_equal(simulated(&g, 8, (struct lw_exception){0}, two), 4);
}

/* And where two of a communicator's collectives run at once. */
TEST(a_stage_whose_library_has_workers_is_simulated_once)
{
    const struct grid g = {.dp = 4, .pp = 4, .tp = 2, .n_micro = 3, .tied = true};
    struct prng r = {7};
    struct world w = {0};

    make_grid(&g, &r, &w.plan);
    make_nodes(&w.c, w.plan.n_ranks, 8);
    give_channels(&w.c, 132, 2);
    w.c.interference.comm_workers = given(2);
    run_world(&w, lw_sim_options_default());
    assert_int_equal(w.s.n_simulated, 4);
    free_world(&w);
}

/* 4 x 2 x 2, rank = t + 2 (d + 4 p). Rank 2 (d 1, p 0, t 0) is slow. All of stage 0's data ring
 * with t = 0 waits for it, and what waits can be told apart by whom it meets: itself; its tensor
 * peer 3; the others of its data group {0, 4, 6}, whose tensor peers {1, 5, 7} share a data
 * group with 3. Stage 1 meets them through messages: 10 (peer of 2), 11 (of 3), {8, 12, 14}, {9,
 * 13, 15}. */
TEST(a_slow_rank_unfolds_what_it_touches)
{
    const struct grid g = {.dp = 4, .pp = 2, .tp = 2, .n_micro = 2};
    const struct lw_exception slow = {.rank = 2, .rank_to = -1, .speed = 0.5};
    const struct lw_exception late = {.rank = 2, .rank_to = -1, .speed = 1, .late_ps = 999};
    const struct lw_exception link = {.rank = 0, .rank_to = 2, .speed = 0.25};

    assert_int_equal(simulated(&g, 8, slow, lw_sim_options_default()), 8);
    assert_int_equal(simulated(&g, 8, late, lw_sim_options_default()), 8);
    /* a slow link of the data ring of stage 0, t = 0: its four ranks, and for each its tensor peer
     * and the peers of both in stage 1 */
    assert_int_equal(simulated(&g, 8, link, lw_sim_options_default()), 16);
    /* more data ranks: 3 other ranks or 31, the classes are as many */
    const struct grid wide = {.dp = 16, .pp = 2, .tp = 2, .n_micro = 2};
    assert_int_equal(simulated(&wide, 8, slow, lw_sim_options_default()), 8);
}

TEST(random_draws_per_rank_unfold_all_ranks)
{
    const struct grid g = {.dp = 4, .pp = 1, .tp = 1, .n_micro = 2};
    struct lw_sim_options o = {.n_steps = 1, .detail = LW_SIM_CHUNK};

    assert_int_equal(simulated(&g, 4, (struct lw_exception){0}, o), 1);
    o.jitter_ps = 10;
    assert_int_equal(simulated(&g, 4, (struct lw_exception){0}, o), 4);
    o.jitter_ps = 0;
    o.start_skew_ps = 10;
    assert_int_equal(simulated(&g, 4, (struct lw_exception){0}, o), 4);
}

static void random_cluster(struct prng *r, const struct lw_plan *plan, struct lw_cluster *c)
{
    static const int32_t per_node[] = {1, 2, 3, 4, 8, 64};

    make_nodes(c, plan->n_ranks, per_node[prng_in(r, 0, 5)]);
    for (int64_t n = prng_in(r, -2, 2); n > 0; n--) {
        int32_t a = (int32_t)prng_in(r, 0, plan->n_ranks - 1);
        int32_t b = (int32_t)prng_in(r, 0, plan->n_ranks - 1);
        bool link = a != b && prng_in(r, 0, 1);
        add_exception(c, (struct lw_exception){
                             .rank = a, .rank_to = link ? b : -1,
                             .speed = 1.0 / (double)prng_in(r, 1, 3),
                             .late_ps = link ? 0 : prng_in(r, 0, 1) * 333333});
    }
    if (prng_in(r, 0, 3) == 0)
        c->interference.comm_workers = given((double)prng_in(r, 2, 3));
    if (prng_in(r, 0, 1)) /* and no terms of rates: ops are merged beside them */
        give_channels(c, 132, (double)prng_in(r, 1, 9));
    if (c->device.n_sms.value > 0 && prng_in(r, 0, 1))
        return;
    if (prng_in(r, 0, 2) == 0)
        c->interference.compute_rate_under_comm = given(0.7);
    if (prng_in(r, 0, 2) == 0)
        c->interference.comm_rate_under_compute = given(0.6);
    if (prng_in(r, 0, 3) == 0)
        c->interference.comm_on_compute_core = given(0.5);
}

TEST(random_grids_are_the_same_folded_and_not)
{
    struct prng r = prng_start("grids");
    int64_t n_ranks = 0, n_simulated = 0;

    for (int i = 0; i < 300; i++) {
        struct grid g = {.dp = (int32_t)prng_in(&r, 1, 4), .pp = (int32_t)prng_in(&r, 1, 4),
                         .tp = (int32_t)prng_in(&r, 1, 4), .n_micro = (int32_t)prng_in(&r, 1, 3),
                         .operands = prng_in(&r, 0, 3) == 0, .spread = prng_in(&r, 0, 3) == 0,
                         .tied = prng_in(&r, 0, 1)};
        struct lw_sim_options o = {.n_steps = (int32_t)prng_in(&r, 1, 2),
                                   .buffered = prng_in(&r, 0, 1),
                                   .detail = prng_in(&r, 0, 1) ? LW_SIM_CHUNK : LW_SIM_COLLECTIVE};
        struct world w = {0};
        make_grid(&g, &r, &w.plan);
        random_cluster(&r, &w.plan, &w.c);
        run_world(&w, o);
        n_ranks += w.plan.n_ranks;
        n_simulated += w.s.n_simulated;
        free_world(&w);
    }
    printf("%lld of %lld ranks were simulated\n", (long long)n_simulated, (long long)n_ranks);
    assert_true(n_simulated < n_ranks * 9 / 10); /* many were folded */
}

/* With an exception, which says what holds without it, classes are found by refinement. */
TEST(roles_and_refinement_find_the_same_classes)
{
    static const int32_t per_node[] = {1, 2, 3, 4, 8, 64};
    struct prng r = prng_start("roles");
    struct lw_sim_options o = lw_sim_options_default();
    int n_roles_alike = 0, n_refined = 0;

    for (int i = 0; i < 500; i++) {
        struct grid g = {.dp = (int32_t)prng_in(&r, 1, 5), .pp = (int32_t)prng_in(&r, 1, 5),
                         .tp = (int32_t)prng_in(&r, 1, 4), .n_micro = 1,
                         .operands = prng_in(&r, 0, 3) == 0, .spread = prng_in(&r, 0, 3) == 0,
                         .tied = prng_in(&r, 0, 1)};
        struct lw_arena room = {0};
        struct sim_fold by_roles, refined;
        struct lw_plan plan;
        struct lw_cluster c;
        struct lw_err err = {0};
        make_grid(&g, &r, &plan);
        make_nodes(&c, plan.n_ranks, per_node[prng_in(&r, 0, 5)]);
        assert_int_equal(sim_fold_make(&plan, &c, &o, &room, &by_roles, &err), LW_OK);
        add_exception(&c, (struct lw_exception){.rank = 0, .rank_to = -1, .speed = 1});
        assert_int_equal(sim_fold_make(&plan, &c, &o, &room, &refined, &err), LW_OK);
        assert_int_equal(by_roles.n_classes, refined.n_classes);
        assert_int_equal(by_roles.plan.n_groups, refined.plan.n_groups);
        for (int32_t k = 0; k < plan.n_ranks; k++)
            assert_int_equal(lw_alike_class(&by_roles.ranks, k),
                             lw_alike_class(&refined.ranks, k));
        n_roles_alike += refined.n_classes == plan.n_roles;
        n_refined += refined.n_classes > plan.n_roles;
        lw_arena_free(&room);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
    assert_true(n_roles_alike > 100 && n_refined > 20);
}

/* Strategies drawn at random, as a user asks for them. */
static enum lw_status random_plan(struct prng *r, const struct lw_workload *w,
                                  const struct lw_cluster *c, struct lw_plan *plan)
{
    static const enum lw_schedule schedules[] = {LW_SCHEDULE_GPIPE, LW_SCHEDULE_1F1B,
                                                 LW_SCHEDULE_INTERLEAVED_1F1B, LW_SCHEDULE_ZB_H1,
                                                 LW_SCHEDULE_ZBV, LW_SCHEDULE_DUALPIPE};
    struct lw_strategy s = lw_strategy_default();
    struct lw_cost cost = lw_sim_cost(c);
    struct lw_err err = {0};

    s.dp = prng_in(r, 1, 4);
    s.pp = 1 << prng_in(r, 0, 2);
    s.tp = 1 << prng_in(r, 0, 2);
    s.micro_batches = s.pp * prng_in(r, 1, 3);
    s.schedule = schedules[prng_in(r, 0, 5)];
    s.chunks = s.schedule == LW_SCHEDULE_INTERLEAVED_1F1B ? 2 : 1;
    s.zero = s.dp > 1 && prng_in(r, 0, 1);
    s.shard_policy = s.zero ? (enum lw_shard_policy_id)prng_in(r, 0, LW_SHARD_PER_TENSOR)
                            : s.shard_policy;
    s.rank_order = (enum lw_rank_order)prng_in(r, 0, 1);
    s.bucket_cap_bytes = 1 << prng_in(r, 12, 22);
    return lw_plan_build(w, &s, &cost, plan, &err);
}

TEST(lowered_strategies_are_the_same_folded_and_not)
{
    struct prng r = prng_start("strategies");
    struct traces_model_shape shape = {.layers = 6, .hidden = 64, .heads = 4, .seq = 32,
                                       .vocab = 128};
    int n_planned = 0, n_pipelines = 0;
    int64_t n_ranks = 0, n_simulated = 0;
    struct lw_workload w;
    struct lw_cluster dgx;
    struct lw_err err = {0};

    if (lw_cluster_find("dgx-a100", &dgx, &err) != LW_OK ||
        traces_model_build("gpt-125m", &shape, &dgx.device, &w, &err) != LW_OK)
        fail_msg("%s", err.msg);
    const int tries = unit_cases(150, 1000); /* of which about two thirds can be planned */

    for (int i = 0; i < tries; i++) {
        struct lw_plan plan;
        struct lw_cluster c;
        struct lw_timeline t;
        struct lw_sim_stats s;
        struct lw_sim_options o = {.n_steps = 2, .detail = prng_in(&r, 0, 3) == 0
                                                               ? LW_SIM_CHUNK
                                                               : LW_SIM_COLLECTIVE};
        if (random_plan(&r, &w, &dgx, &plan) != LW_OK)
            continue;
        random_cluster(&r, &plan, &c);
        c.device = dgx.device;
        run_both(&plan, &c, o, &t, &s);
        n_planned++;
        n_pipelines += plan.n_stages > 1;
        n_ranks += plan.n_ranks;
        n_simulated += s.n_simulated;
        lw_timeline_free(&t);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
    printf("%d plans, %d of pipelines; %lld of %lld ranks were simulated\n", n_planned, n_pipelines,
           (long long)n_simulated, (long long)n_ranks);
    assert_true(n_planned > tries / 2 && n_pipelines > tries / 6);
    assert_true(n_simulated < n_ranks * 4 / 5);
    lw_workload_free(&w);
    lw_cluster_free(&dgx);
}

/* Ranks of one role that send round in a circle, and one that two others send to. */
TEST(messages_within_a_class_are_not_folded)
{
    struct lw_builder *b = begin_plan("circle", 6);
    struct lw_operand next[6], before[6];
    struct world w;
    struct lw_op op = lw_builder_blank(LW_OP_SEND, 1);

    for (int32_t i = 0; i < 6; i++) {
        next[i] = (struct lw_operand){800, 0, (i + 1) % 6};
        before[i] = (struct lw_operand){800, 0, (i + 5) % 6};
    }
    add_work(b, LW_OP_KERNEL, 0, 5 * us, -1);
    op.comm = op.call = 0;
    op.operand = lw_builder_operand_row(b, next, 6);
    lw_builder_op(b, &op, NULL, 0);
    op.kind = LW_OP_RECV;
    op.operand = lw_builder_operand_row(b, before, 6);
    lw_builder_op(b, &op, NULL, 0);
    make_world(&w, b);
    w.c.links[0].latency_ps = given(10);
    run_world(&w, lw_sim_options_default());
    assert_int_equal(w.s.n_simulated, 6);
    free_world(&w);
}

/* Two roles, senders 0 .. n-1 and receivers n .. 2n-1; the programs are the caller's. */
static struct lw_builder *begin_pairs(int32_t n)
{
    struct lw_builder *b = lw_builder_new("pairs", 2 * n);
    struct lw_role role = {.name = "end"};

    assert_non_null(b);
    for (int32_t r = 0; r < 2; r++)
        lw_builder_role(b, &role);
    for (int32_t r = 0; r < 2 * n; r++)
        lw_builder_rank(b, r, r / n, r % n, r / n, 0);
    lw_builder_stream(b, "s", LW_STREAM_COMPUTE, 0);
    lw_builder_comm(b, "down", LW_COMM_FORWARD, LW_REDUCER_AUTO, 0);
    lw_builder_variant(b, "steady", "", true);
    return b;
}

static void add_to(struct lw_builder *b, enum lw_op_kind kind, const int32_t *peers, int32_t n)
{
    struct lw_op op = lw_builder_blank(kind, 0);
    struct lw_operand row[8];

    for (int32_t i = 0; i < n; i++)
        row[i] = (struct lw_operand){800, 0, peers[i]};
    op.comm = 0;
    op.operand = lw_builder_operand_row(b, row, n);
    lw_builder_op(b, &op, NULL, 0);
}

static int32_t simulated_plan(struct lw_builder *b, struct lw_exception x, bool buffered)
{
    struct lw_sim_options o = {.n_steps = 2, .buffered = buffered};
    struct world w;

    make_world(&w, b);
    w.c.links[0].latency_ps = given(10);
    if (x.speed > 0)
        add_exception(&w.c, x);
    run_world(&w, o);
    free_world(&w);
    return w.s.n_simulated;
}

/* 0 -> 3, 1 -> 4, 2 -> 5; receiver 4 is slow: what only its sender can tell. */
TEST(a_sender_is_known_by_its_receiver)
{
    for (int buffered = 0; buffered < 2; buffered++) {
        struct lw_builder *b = begin_pairs(3);
        lw_builder_program(b, 0, 0);
        add_to(b, LW_OP_SEND, (const int32_t[]){3, 4, 5}, 3);
        lw_builder_program(b, 0, 1);
        add_work(b, LW_OP_KERNEL, 0, 3 * us, -1);
        add_to(b, LW_OP_RECV, (const int32_t[]){0, 1, 2}, 3);
        /* {0, 2}, {1}, {3, 5}, {4} */
        assert_int_equal(simulated_plan(b, (struct lw_exception){4, -1, 0.5, 0}, buffered), 4);
    }
}

/* 0 sends to 2 and 3, with work in between, and 1 to 4 and 5: receivers of one role, of which the
 * second of each pair gets its message later. */
TEST(receivers_of_one_sender_are_told_apart)
{
    for (int buffered = 0; buffered < 2; buffered++) {
        struct lw_builder *b = lw_builder_new("fan", 6);
        struct lw_role role = {.name = "end"};
        assert_non_null(b);
        lw_builder_role(b, &role);
        lw_builder_role(b, &role);
        for (int32_t r = 0; r < 6; r++)
            lw_builder_rank(b, r, r > 1, r, 0, 0);
        lw_builder_stream(b, "s", LW_STREAM_COMPUTE, 0);
        lw_builder_comm(b, "down", LW_COMM_FORWARD, LW_REDUCER_AUTO, 0);
        lw_builder_variant(b, "steady", "", true);
        lw_builder_program(b, 0, 0);
        add_to(b, LW_OP_SEND, (const int32_t[]){2, 4}, 2);
        add_work(b, LW_OP_KERNEL, 0, 3 * us, -1);
        add_to(b, LW_OP_SEND, (const int32_t[]){3, 5}, 2);
        lw_builder_program(b, 0, 1);
        add_to(b, LW_OP_RECV, (const int32_t[]){0, 0, 1, 1}, 4);
        int32_t n = simulated_plan(b, (struct lw_exception){0}, buffered);
        assert_true(n >= 3 && n <= 6);
    }
}

/* Two ranks that send to both of n further roles, one to the first of each and one to the second.
 * Unmatched: the last role expects them the other way round. */
static struct lw_builder *fan_out(int32_t n, bool unmatched)
{
    struct lw_builder *b = lw_builder_new("fan out", 2 * n + 2);
    struct lw_role role = {.name = "end"};

    assert_non_null(b);
    for (int32_t r = 0; r <= n; r++)
        lw_builder_role(b, &role);
    for (int32_t r = 0; r < 2 * n + 2; r++)
        lw_builder_rank(b, r, r / 2, r, 0, 0);
    lw_builder_stream(b, "s", LW_STREAM_COMPUTE, 0);
    lw_builder_comm(b, "down", LW_COMM_FORWARD, LW_REDUCER_AUTO, 0);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    for (int32_t i = 0; i < n; i++)
        add_to(b, LW_OP_SEND, (const int32_t[]){2 * i + 2, 2 * i + 3}, 2);
    for (int32_t i = 0; i < n; i++) {
        int32_t swap = unmatched && i == n - 1;
        lw_builder_program(b, 0, i + 1);
        add_to(b, LW_OP_RECV, (const int32_t[]){swap, 1 - swap}, 2);
    }
    return b;
}

/* Roles with few peers and with many: half of the ranks are simulated; where a message has no
 * receiver, none is folded and the run fails as it does without folding. */
TEST(messages_of_many_peers_are_matched)
{
    static const int32_t n_peers[] = {1, 5, 60};

    for (size_t i = 0; i < sizeof n_peers / sizeof *n_peers; i++) {
        int32_t n = n_peers[i];
        assert_int_equal(simulated_plan(fan_out(n, false), (struct lw_exception){0}, false), n + 1);
        struct lw_plan plan = {0};
        struct lw_cluster c;
        struct lw_arena room = {0};
        struct lw_sim_options o = lw_sim_options_default();
        struct sim_fold fold;
        struct lw_err err = {0};
        assert_int_equal(lw_builder_finish(fan_out(n, true), &plan, &err), LW_OK);
        make_nodes(&c, plan.n_ranks, 2);
        assert_int_equal(sim_fold_make(&plan, &c, &o, &room, &fold, &err), LW_OK);
        assert_int_equal(fold.n_classes, 0);
        lw_arena_free(&room);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
}

static void fail_both(const struct lw_plan *plan, const struct lw_cluster *c)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats s;
    struct lw_err folded = {0}, all = {0};

    assert_int_equal(lw_sim_run(plan, c, &o, NULL, &s, &folded), LW_EFAILED);
    o.no_fold = true;
    assert_int_equal(lw_sim_run(plan, c, &o, NULL, &s, &all), LW_EFAILED);
    assert_string_equal(folded.msg, all.msg);
}

/* Stages in a row of which the second never receives: all data ranks wait, and the ranks are
 * named as they are. And a pair whose receivers expect another sender, which only looks alike by
 * classes. */
TEST(deadlock_names_the_same_op_as_without_folding)
{
    struct lw_plan plan;
    struct lw_cluster c;
    struct lw_operand to[2] = {{8, 0, 2}, {8, 0, 3}}, crossed[2] = {{8, 0, 1}, {8, 0, 0}};
    struct lw_role role = {.name = "stage"};

    for (int receives = 0; receives < 2; receives++) {
        struct lw_builder *b = lw_builder_new("waits", 4);
        struct lw_op op = lw_builder_blank(LW_OP_SEND, 0);
        for (int32_t r = 0; r < 2; r++)
            lw_builder_role(b, &role);
        for (int32_t r = 0; r < 4; r++)
            lw_builder_rank(b, r, r / 2, r % 2, r / 2, 0);
        lw_builder_stream(b, "s", LW_STREAM_COMM, 0);
        lw_builder_comm(b, "down", LW_COMM_FORWARD, LW_REDUCER_AUTO, 0);
        lw_builder_group(b, 0, (const int32_t[]){0, 1, 2, 3}, 4);
        lw_builder_variant(b, "steady", "", true);
        lw_builder_program(b, 0, 0);
        op.comm = 0;
        op.operand = lw_builder_operand_row(b, to, 2);
        lw_builder_op(b, &op, NULL, 0);
        lw_builder_program(b, 0, 1);
        op.kind = LW_OP_RECV;
        op.operand = lw_builder_operand_row(b, crossed, 2);
        if (receives)
            lw_builder_op(b, &op, NULL, 0);
        else
            add_work(b, LW_OP_KERNEL, 0, us, -1);
        finish_plan(b, &plan);
        make_cluster(&c, 4, 1e9, 10);
        fail_both(&plan, &c);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
}

static enum lw_status run_and_expand(const struct lw_plan *plan, const struct lw_cluster *c,
                                     struct lw_sim_stats *s)
{
    const struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_classes classes = {0};
    struct lw_timeline t = {0};
    struct lw_summary summary = {0};
    enum lw_status status = lw_sim_run_classes(plan, c, &o, &classes, s, NULL);

    if (status == LW_OK)
        status = lw_sim_expand(&classes, &t, NULL);
    if (status == LW_OK)
        status = lw_sim_summarize(&classes, 0, &summary, NULL);
    lw_sim_classes_free(&classes);
    lw_timeline_free(&t);
    lw_summary_free(&summary);
    return status;
}

TEST(failed_allocations_leak_nothing)
{
    const struct grid g = {.dp = 2, .pp = 2, .tp = 2, .n_micro = 1};
    struct prng r = {7};
    struct lw_plan plan;
    struct lw_cluster c;
    struct lw_sim_stats s;

    make_grid(&g, &r, &plan);
    make_nodes(&c, plan.n_ranks, 4);
    EACH_ALLOCATION_FAILS_IN(40, run_and_expand(&plan, &c, &s));
    assert_int_equal(s.n_simulated, 2);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
}

TEST(equal_sequences_have_equal_numbers)
{
    struct sim_trie t = {0};
    int64_t seen[300];

    for (int again = 0; again < 2; again++) {
        for (int64_t i = 0; i < 300; i++) { /* (i / 100, i % 100, -i) */
            int64_t x = sim_trie_next(&t, sim_trie_next(&t, 0, i / 100), i % 100);
            x = sim_trie_next(&t, x, -i);
            if (again)
                assert_int_equal(x, seen[i]);
            seen[i] = x;
            for (int64_t j = 0; j < i; j++)
                assert_int_not_equal(seen[j], x);
        }
    }
    assert_int_equal(t.n, 3 + 300 + 300);
    sim_trie_free(&t);
}
