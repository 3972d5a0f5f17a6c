/* Plans whose collectives go by other algorithms than the ring, at both levels of detail. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/files/files.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/sim/sim_help.h"

static const lw_ps us = LW_PS_PER_US;
static const enum lw_reducer_kind algorithms[] = {
    LW_REDUCER_TREE,     LW_REDUCER_HIERARCHICAL, LW_REDUCER_DIRECT,
    LW_REDUCER_ONE_SHOT, LW_REDUCER_PAIRWISE,
};
enum { N_ALGORITHMS = sizeof algorithms / sizeof *algorithms, BYTES = 5040 * 4 };

/* Compute, then one collective over all of n ranks. */
static void one_collective(struct lw_plan *plan, int32_t n, enum lw_reducer_kind reducer,
                           enum lw_op_kind kind, int64_t bytes)
{
    struct lw_builder *b = begin_plan("p", n);
    int32_t comm = add_class(b, n, reducer);

    int32_t k = add_work(b, LW_OP_KERNEL, 0, 10 * us, -1);
    add_collective(b, kind, comm, 1, bytes, k);
    finish_plan(b, plan);
}

static struct lw_sim_options chunk(void)
{
    struct lw_sim_options o = lw_sim_options_default();

    o.detail = LW_SIM_CHUNK;
    return o;
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
            struct lw_plan plan;
            struct lw_cluster c;
            make_cluster(&c, 16, 1e9, 7000);
            one_collective(&plan, n, algorithms[i], LW_OP_ALL_REDUCE, BYTES);
            lw_ps expected = 10 * us + by_cost(&c, n, algorithms[i]);
            assert_int_equal(run_end(&plan, &c, lw_sim_options_default()), expected);
            assert_int_equal(run_end(&plan, &c, chunk()), expected);
            lw_plan_free(&plan);
            lw_cluster_free(&c);
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
    struct lw_plan plan;
    struct lw_cluster c;

    one_collective(&plan, 4, LW_REDUCER_ONE_SHOT, LW_OP_ALL_REDUCE, 4000);
    make_cluster(&c, 4, 1e9, 0);
    assert_int_equal(run_end(&plan, &c, chunk()), (10 + 12) * us);
    add_exception(&c, (struct lw_exception){.rank = 1, .rank_to = 2, .speed = 0.5});
    assert_int_equal(run_end(&plan, &c, chunk()), (10 + 16) * us);
    assert_int_equal(run_end(&plan, &c, lw_sim_options_default()), (10 + 16) * us);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
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
        struct lw_plan plan;
        struct lw_cluster c;
        one_collective(&plan, 4, cases[i].k, LW_OP_ALL_REDUCE, 4000);
        make_cluster(&c, 4, 1e9, 0);
        add_exception(&c, (struct lw_exception){.rank = 2, .rank_to = -1, .speed = 1,
                                                .late_ps = 5 * us});
        assert_int_equal(run_end(&plan, &c, chunk()), (10 + cases[i].expected) * us);
        lw_plan_free(&plan);
        lw_cluster_free(&c);
    }
}

/* Root 0 sends 4 us each to 1, 2, 3, and is done at 12; rank 1 enters at 50 and finds its own
 * there. */
TEST(a_broadcasts_root_waits_for_the_last_to_enter)
{
    struct lw_builder *b = begin_plan("p", 4);
    struct lw_op op = lw_builder_blank(LW_OP_BROADCAST, 1);
    struct lw_plan plan;
    struct lw_cluster c;

    op.comm = lw_builder_comm(b, "by name", LW_COMM_DATA, LW_REDUCER_DIRECT, 1);
    lw_builder_group(b, op.comm, (int32_t[]){0, 1, 2, 3}, 4);
    op.bytes = 4000;
    op.peer = 0;
    lw_builder_op(b, &op, NULL, 0);
    finish_plan(b, &plan);
    make_cluster(&c, 4, 1e9, 0);
    assert_int_equal(run_end(&plan, &c, chunk()), 12 * us);
    add_exception(&c, (struct lw_exception){.rank = 1, .rank_to = -1, .speed = 1,
                                            .late_ps = 50 * us});
    assert_int_equal(run_end(&plan, &c, chunk()), 50 * us);
    assert_int_equal(run_end(&plan, &c, lw_sim_options_default()), 62 * us);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
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
                struct lw_plan plan;
                struct lw_cluster c;
                struct lw_sim_options options = chunk();
                make_cluster(&c, n % 3 == 0 ? 3 : 16, 1e9, 7000);
                c.n_nodes = 0;
                c.links[1] = (struct lw_link){.name = "nic", .level = LW_LINK_INTER,
                                              .bytes_per_s = given(5e8), .latency_ps = given(9000)};
                c.n_links = 2;
                one_collective(&plan, n, algorithms[i], ops[o], BYTES);
                lw_ps together = run_end(&plan, &c, options);
                options.start_skew_ps = 20 * us;
                options.seed = (uint64_t)n;
                assert_in_range(run_end(&plan, &c, options), together, together + 20 * us);
                lw_plan_free(&plan);
                lw_cluster_free(&c);
            }
        }
    }
}

TEST(messages_are_counted_and_jittered_by_seed)
{
    struct lw_plan plan;
    struct lw_cluster c;
    struct lw_sim_options o = chunk();
    struct lw_sim_stats s, again;

    one_collective(&plan, 8, LW_REDUCER_PAIRWISE, LW_OP_ALL_REDUCE, 8000);
    make_cluster(&c, 8, 1e9, 0);
    assert_int_equal(lw_sim_run(&plan, &c, &o, NULL, &s, NULL), LW_OK);
    assert_int_equal(s.n_messages, 8 * 14);
    o.jitter_ps = 1000;
    o.seed = 7;
    assert_int_equal(lw_sim_run(&plan, &c, &o, NULL, &again, NULL), LW_OK);
    assert_in_range(again.end, s.end + 1, s.end + 14 * 1000);
    assert_int_equal(lw_sim_run(&plan, &c, &o, NULL, &s, NULL), LW_OK);
    assert_int_equal(s.end, again.end);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
}

/* 16 devices of the Fire-Flyer node: both details have the figure of docs/design/collectives.md. */
TEST(hfreduce_runs_message_by_message)
{
    struct lw_plan plan;
    struct lw_cluster c;

    one_collective(&plan, 16, LW_REDUCER_AUTO, LW_OP_ALL_REDUCE, 186 << 20);
    assert_int_equal(lw_cluster_find("fire-flyer", &c, NULL), LW_OK);
    lw_ps end = run_end(&plan, &c, lw_sim_options_default());
    assert_int_equal((end - 10 * us + us / 2) / us, 24855);
    assert_int_equal(run_end(&plan, &c, chunk()), end);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
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
        struct lw_plan plan;
        struct lw_cluster c;
        one_collective(&plan, 16, LW_REDUCER_AUTO, LW_OP_ALL_REDUCE, sizes[i]);
        make_cluster(&c, 16, 1e9, 2 * us);
        c.library = "";
        assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_OK);
        assert_string_equal(a.algorithm, by[i]);
        assert_int_equal(run_end(&plan, &c, lw_sim_options_default()), 10 * us + a.time);
        assert_int_equal(run_end(&plan, &c, chunk()), 10 * us + a.time);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
}

/* A tree is for all-reduces, and so is one-shot: an all-gather of its communicator goes by ring,
 * 3 x 1 us, and the result says so. */
TEST(operation_outside_the_reducer_goes_by_ring)
{
    static const enum lw_reducer_kind asked[] = {LW_REDUCER_TREE, LW_REDUCER_ONE_SHOT};

    for (int i = 0; i < 2; i++) {
        struct lw_plan plan;
        struct lw_cluster c;
        struct lw_sim_options o = lw_sim_options_default();
        struct lw_sim_stats s;
        one_collective(&plan, 4, asked[i], LW_OP_ALL_GATHER, 4000);
        make_cluster(&c, 4, 1e9, 0);
        assert_int_equal(run_end(&plan, &c, o), 13 * us);
        assert_int_equal(run_end(&plan, &c, chunk()), 13 * us);
        assert_int_equal(lw_sim_run(&plan, &c, &o, NULL, &s, NULL), LW_OK);
        assert_int_equal(s.n_terms, 1);
        assert_string_equal(s.terms[0].name, "ring_instead");
        assert_string_equal(s.terms[0].source, lw_reducer_name(asked[i]));
        assert_true(s.terms[0].value == 1);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
}

static void expect_refusal(const struct lw_plan *plan, const struct lw_cluster *c,
                           struct lw_sim_options o, const char *says)
{
    struct lw_sim_stats s;
    struct lw_err err = {0};

    assert_int_equal(lw_sim_run(plan, c, &o, NULL, &s, &err), LW_ENOTSUP);
    if (!strstr(err.msg, says))
        fail_msg("'%s' does not say '%s'", err.msg, says);
}

TEST(unsupported_reducer_is_refused_with_a_reason)
{
    struct lw_plan plan;
    struct lw_cluster c;
    struct lw_sim_options o = chunk();

    make_cluster(&c, 4, 1e9, 0);
    one_collective(&plan, 4, LW_REDUCER_NVLS, LW_OP_ALL_GATHER, 4000);
    expect_refusal(&plan, &c, lw_sim_options_default(), "reducer nvls");
    lw_plan_free(&plan);
    o.ring = LW_SIM_RING_EVENTS;
    one_collective(&plan, 4, LW_REDUCER_TREE, LW_OP_ALL_REDUCE, 4000);
    expect_refusal(&plan, &c, o, "only rings can share links or go by events");
    lw_plan_free(&plan);
    lw_cluster_free(&c);
}

TEST(failed_allocations_leak_nothing)
{
    struct lw_plan plan;
    struct lw_cluster c;

    one_collective(&plan, 4, LW_REDUCER_TREE, LW_OP_ALL_REDUCE, 4000);
    make_cluster(&c, 4, 1e9, 0);
    add_exception(&c, (struct lw_exception){.rank = 1, .rank_to = 2, .speed = 0.5});
    assert_true(run_without_memory(&plan, &c, lw_sim_options_default()) > 5);
    assert_true(run_without_memory(&plan, &c, chunk()) > 5);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
}
