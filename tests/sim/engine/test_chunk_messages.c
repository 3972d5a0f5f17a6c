/* Plans whose collectives go by other algorithms than the ring, at both levels of detail. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/files/files.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/files/says.h"
#include "tests/lib/sim/sim_help.h"

static const lw_ps us = LW_PS_PER_US;
static const enum lw_reducer_kind algorithms[] = {
    LW_REDUCER_TREE,     LW_REDUCER_HIERARCHICAL, LW_REDUCER_DIRECT,
    LW_REDUCER_ONE_SHOT, LW_REDUCER_PAIRWISE,
};
enum { N_ALGORITHMS = sizeof algorithms / sizeof *algorithms, BYTES = 5040 * 4 };

/* Compute of 10 us, then one collective over all of n ranks, on links of 1000 bytes/us. */
static struct world one_collective(int32_t n, enum lw_reducer_kind reducer, enum lw_op_kind kind,
                                   int64_t bytes)
{
    struct lw_builder *b = begin_plan("p", n);
    int32_t comm = add_class(b, n, reducer), k = add_work(b, LW_OP_KERNEL, 0, 10 * us, -1);
    struct world w;

    add_collective(b, kind, comm, 1, bytes, k);
    make_world(&w, b);
    return w;
}

static struct lw_sim_options chunk(void)
{
    struct lw_sim_options o = lw_sim_options_default();

    o.detail = LW_SIM_CHUNK;
    return o;
}

static void expect_ends(const struct world *w, lw_ps chunked, lw_ps collective)
{
    assert_int_equal(run_end(&w->plan, &w->c, chunk()), chunked);
    assert_int_equal(run_end(&w->plan, &w->c, lw_sim_options_default()), collective);
}

static lw_ps by_cost(const struct lw_cluster *c, int32_t n, enum lw_reducer_kind k)
{
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, BYTES, n, 1, k};
    struct lw_cost_answer a;

    assert_int_equal(lw_sim_cost_explain(c, &q, &a, NULL), LW_OK);
    return a.time;
}

TEST(both_details_take_the_algorithms_cost)
{
    for (int i = 0; i < N_ALGORITHMS; i++) {
        for (int32_t n = 2; n <= 16; n++) {
            struct world w = one_collective(n, algorithms[i], LW_OP_ALL_REDUCE, BYTES);
            w.c.links[0].latency_ps = given(7000);
            lw_ps expected = 10 * us + by_cost(&w.c, n, algorithms[i]);
            expect_ends(&w, expected, expected);
            free_world(&w);
        }
    }
}

/* Four ranks, 4000 bytes at 1e9 B/s, no latency, one shot: rank r sends to r + 1, r + 2, r + 3,
 * 4 us each. The link 1 -> 2 has half the speed: rank 1's first message takes 8 us; its others
 * leave at 8 and 12 and are there at 12 (rank 3) and 16 (rank 0). Rank 2 waits for its port: 8
 * (from 1), 12 (from 0), 16 (from 3). Rank 0's others: to 2 in 8..12, to 3 in 12..16; at 3, from
 * 2 until 4, from 1 until 12, from 0 until 16. All end at 16 or before: 4 us more than the 12
 * without. */
TEST(a_slow_link_delays_whom_it_concerns)
{
    struct world w = one_collective(4, LW_REDUCER_ONE_SHOT, LW_OP_ALL_REDUCE, 4000);

    expect_ends(&w, (10 + 12) * us, (10 + 12) * us);
    add_exception(&w.c, (struct lw_exception){.rank = 1, .rank_to = 2, .speed = 0.5});
    expect_ends(&w, (10 + 16) * us, (10 + 16) * us);
    free_world(&w);
}

/* The same, with rank 2 entering 5 us late: who sends to it does not wait (eager), it sends its
 * own from 5 on: 5 + 3 x 4 = 17; the receivers' ports are free for it by then. A pairwise
 * exchange is held up as a whole: every step waits for its partners, 5 + 2 x 3 x 1. */
TEST(a_late_member_holds_up_who_waits_for_it)
{
    static const struct {
        enum lw_reducer_kind k;
        lw_ps expected;
    } cases[] = {{LW_REDUCER_ONE_SHOT, 17}, {LW_REDUCER_PAIRWISE, 11}};

    for (int i = 0; i < 2; i++) {
        struct world w = one_collective(4, cases[i].k, LW_OP_ALL_REDUCE, 4000);
        add_exception(
            &w.c, (struct lw_exception){.rank = 2, .rank_to = -1, .speed = 1, .late_ps = 5 * us});
        assert_int_equal(run_end(&w.plan, &w.c, chunk()), (10 + cases[i].expected) * us);
        free_world(&w);
    }
}

/* Root 0 sends 4 us each to 1, 2, 3, and is done at 12; rank 1 enters at 50 and finds its own
 * there. */
TEST(a_broadcasts_root_waits_for_the_last_to_enter)
{
    struct lw_builder *b = begin_plan("p", 4);
    struct lw_op op = lw_builder_blank(LW_OP_BROADCAST, 1);
    struct world w;

    op.comm = add_class(b, 4, LW_REDUCER_DIRECT);
    op.bytes = 4000;
    op.peer = 0;
    lw_builder_op(b, &op, NULL, 0);
    make_world(&w, b);
    expect_ends(&w, 12 * us, 12 * us);
    add_exception(&w.c,
                  (struct lw_exception){.rank = 1, .rank_to = -1, .speed = 1, .late_ps = 50 * us});
    expect_ends(&w, 50 * us, 62 * us);
    free_world(&w);
}

/* Later entries never make anything earlier: with entries up to 20 us late, a run takes at least
 * what it takes from a common entry, and at most 20 us more. */
TEST(skewed_entries_cost_at_most_the_skew)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_REDUCE_SCATTER, LW_OP_ALL_GATHER,
                                          LW_OP_ALL_TO_ALL};

    for (int i = 0; i < N_ALGORITHMS; i++) {
        for (int o = 0; o < 4; o++) {
            for (int32_t n = 2; n <= 12; n += 1 + o % 2) {
                struct lw_sim_options options = chunk();
                struct world w = one_collective(n, algorithms[i], ops[o], BYTES);
                w.c.devices_per_node = n % 3 == 0 ? 3 : 16;
                w.c.n_nodes = 0;
                w.c.links[0].latency_ps = given(7000);
                w.c.links[1] = (struct lw_link){.name = "nic",
                                                .level = LW_LINK_INTER,
                                                .bytes_per_s = given(5e8),
                                                .latency_ps = given(9000)};
                w.c.n_links = 2;
                lw_ps together = run_end(&w.plan, &w.c, options);
                options.start_skew_ps = 20 * us;
                options.seed = (uint64_t)n;
                assert_in_range(run_end(&w.plan, &w.c, options), together, together + 20 * us);
                free_world(&w);
            }
        }
    }
}

TEST(messages_are_counted_and_jittered_by_seed)
{
    struct world w = one_collective(8, LW_REDUCER_PAIRWISE, LW_OP_ALL_REDUCE, 8000);
    struct lw_sim_options o = chunk();

    assert_int_equal(lw_sim_run(&w.plan, &w.c, &o, NULL, &w.s, NULL), LW_OK);
    assert_int_equal(w.s.n_messages, 8 * 14);
    o.jitter_ps = 1000;
    o.seed = 7;
    lw_ps jittered = run_end(&w.plan, &w.c, o);
    assert_in_range(jittered, w.s.end + 1, w.s.end + 14 * 1000);
    assert_int_equal(run_end(&w.plan, &w.c, o), jittered);
    free_world(&w);
}

/* 16 devices of the Fire-Flyer node: both details have the figure of docs/design/collectives.md. */
TEST(hfreduce_runs_message_by_message)
{
    struct world w = one_collective(16, LW_REDUCER_AUTO, LW_OP_ALL_REDUCE, 186 << 20);

    lw_cluster_free(&w.c);
    assert_int_equal(lw_cluster_find("fire-flyer", &w.c, NULL), LW_OK);
    lw_ps end = run_end(&w.plan, &w.c, lw_sim_options_default());
    assert_int_equal((end - 10 * us + us / 2) / us, 24867);
    assert_int_equal(run_end(&w.plan, &w.c, chunk()), end);
    free_world(&w);
}

/* Of 16 ranks on a library that says nothing a few bytes go by tree and many by ring; every message
 * of the choice is run. */
TEST(auto_is_the_same_at_both_details)
{
    static const int64_t sizes[] = {64, 4096, 1 << 28};
    static const char *const by[] = {"tree", "tree", "ring"};

    for (int i = 0; i < 3; i++) {
        struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, sizes[i], 16, 1, LW_REDUCER_AUTO};
        struct lw_cost_answer a;
        struct world w = one_collective(16, LW_REDUCER_AUTO, LW_OP_ALL_REDUCE, sizes[i]);
        w.c.links[0].latency_ps = given(2 * (double)us);
        w.c.library = "";
        assert_int_equal(lw_sim_cost_explain(&w.c, &q, &a, NULL), LW_OK);
        assert_string_equal(a.algorithm, by[i]);
        expect_ends(&w, 10 * us + a.time, 10 * us + a.time);
        free_world(&w);
    }
}

/* A tree is for all-reduces, and so is one-shot: an all-gather of its communicator goes by ring,
 * 3 x 1 us, and the result says so. */
TEST(operation_outside_the_reducer_goes_by_ring)
{
    static const enum lw_reducer_kind asked[] = {LW_REDUCER_TREE, LW_REDUCER_ONE_SHOT};

    for (int i = 0; i < 2; i++) {
        struct world w = one_collective(4, asked[i], LW_OP_ALL_GATHER, 4000);
        expect_ends(&w, 13 * us, 13 * us);
        run_world(&w, lw_sim_options_default());
        assert_int_equal(w.s.n_terms, 1);
        assert_string_equal(w.s.terms[0].name, "ring_instead");
        assert_string_equal(w.s.terms[0].source, lw_reducer_name(asked[i]));
        assert_true(w.s.terms[0].value == 1);
        free_world(&w);
    }
}

TEST(unsupported_reducer_is_refused_with_a_reason)
{
    static const struct {
        enum lw_reducer_kind reducer;
        enum lw_op_kind op;
        struct lw_sim_options o;
        const char *says;
    } cases[] = {
        {LW_REDUCER_NVLS, LW_OP_ALL_GATHER, {.n_steps = 1}, "reducer nvls"},
        {LW_REDUCER_TREE,
         LW_OP_ALL_REDUCE,
         {.n_steps = 1, .detail = LW_SIM_CHUNK, .ring = LW_SIM_RING_EVENTS},
         "only rings can share links or go by events"},
    };

    for (int i = 0; i < 2; i++) {
        struct world w = one_collective(4, cases[i].reducer, cases[i].op, 4000);
        struct lw_err err = {0};
        assert_int_equal(lw_sim_run(&w.plan, &w.c, &cases[i].o, NULL, &w.s, &err), LW_ENOTSUP);
        has(err.msg, cases[i].says);
        free_world(&w);
    }
}

TEST(failed_allocations_leak_nothing)
{
    struct world w = one_collective(4, LW_REDUCER_TREE, LW_OP_ALL_REDUCE, 4000);

    add_exception(&w.c, (struct lw_exception){.rank = 1, .rank_to = 2, .speed = 0.5});
    assert_true(run_without_memory(&w.plan, &w.c, lw_sim_options_default()) > 5);
    assert_true(run_without_memory(&w.plan, &w.c, chunk()) > 5);
    free_world(&w);
}
