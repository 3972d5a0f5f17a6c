/* The engine's rules, each on an example small enough to follow by hand. Times in us unless
 * said. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/plan/cost.h"
#include "shared/timeline/timeline.h"
#include "tests/lib/sim/sim_help.h"

static const lw_ps us = LW_PS_PER_US;

TEST(streams_run_beside_each_other_and_ops_of_one_in_order)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_KERNEL, 0, .us = 10, .start = 0, .end = 10},
        {EVERY, LW_OP_KERNEL, 0, .us = 5, .start = 10, .end = 15},
        {EVERY, LW_OP_KERNEL, 2, .us = 7, .start = 0, .end = 7},
        {EVERY, LW_OP_KERNEL, 2, .us = 4, .after = 1, .start = 10, .end = 14}, /* not after 2 */
    };
    struct world w;

    make_hand(&w, 1, ops);
    run_hand(&w, ops);
    assert_int_equal(row_of(&w, 0, 0, 1).ready, 0);
    assert_int_equal(row_of(&w, 0, 0, 3).ready, 10 * us);
    assert_int_equal(w.s.n_ops, 4);
    assert_int_equal(w.s.n_events, 4);
    free_world(&w);
}

/* Three collectives on two streams: two of one communicator, one of another. The second op of the
 * first communicator has a free stream and nothing to wait for, but its communicator is busy. */
TEST(ops_of_one_communicator_run_in_issue_order_across_streams)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_KERNEL, 0, .us = 10, .start = 0, .end = 10},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 20, .after = 1, .start = 10, .end = 30},
        {EVERY, LW_OP_ALL_REDUCE, 2, .us = 5, .start = 30, .end = 35},
        {EVERY, LW_OP_ALL_REDUCE, 3, .comm = 1, .us = 12, .start = 0, .end = 12},
    };
    struct world w;

    make_hand(&w, 2, ops);
    run_hand(&w, ops);
    free_world(&w);
}

/* Rank 0 is in at 10, rank 1 at 25: both occupy their streams from entry, data moves 25..45. */
TEST(a_collective_occupies_from_entry_and_moves_from_the_last)
{
    static const struct hand_op ops[] = {
        {0, LW_OP_KERNEL, 0, .us = 10},
        {0, LW_OP_ALL_REDUCE, 1, .us = 20, .after = 1, .start = 10, .end = 45},
        {1, LW_OP_KERNEL, 0, .us = 25},
        {1, LW_OP_ALL_REDUCE, 1, .us = 20, .after = 3, .start = 25, .end = 45},
    };
    struct world w;

    make_hand(&w, 2, ops);
    run_hand(&w, ops);
    assert_int_equal(row_of(&w, 0, 0, 1).all_in, 25 * us);
    assert_int_equal(row_of(&w, 0, 1, 3).all_in, 25 * us);
    free_world(&w);
}

/* Compute of 100 at full rate; a collective of 40 starts at 30 and halves it: 30 done by 30, 20
 * more by 70, the last 50 by 120. With the collective at 0.8 beside compute it lasts 50: 25 more
 * by 80, the last 45 by 125. */
TEST(an_op_is_retimed_when_a_collective_starts_beside_it)
{
    for (int both = 0; both < 2; both++) {
        const struct hand_op ops[] = {
            {EVERY, LW_OP_KERNEL, 0, .us = 100, .start = 0, .end = both ? 125 : 120},
            {EVERY, LW_OP_HOST, 2, .us = 30, .start = 0, .end = 30},
            {EVERY, LW_OP_ALL_REDUCE, 1, .us = 40, .after = 2, .start = 30, .end = both ? 80 : 70},
        };
        struct world w;
        make_hand(&w, 2, ops);
        w.c.interference.compute_rate_under_comm = given(0.5);
        if (both)
            w.c.interference.comm_rate_under_compute = given(0.8);
        run_hand(&w, ops);
        assert_int_equal(w.s.n_stale, 4); /* two re-timings of compute on each of two ranks */
        assert_int_equal(w.s.n_terms, 1 + both);
        assert_string_equal(w.s.terms[0].name, "compute_rate_under_comm");
        assert_true(w.s.terms[0].on);
        free_world(&w);
    }
}

/* A shared core: communication wants 0.4 of it, compute gets 0.6 and the collective all it wants;
 * wanting all of it, both get a half. Compute 60, collective 30, both at 0:
 *   0.4: compute does 18 by 30, the other 42 by 72.  1: the collective ends at 60, compute has done
 *   30 and does the other 30 by 90. */
TEST(communication_on_the_compute_core_shares_it_fairly)
{
    for (int all = 0; all < 2; all++) {
        const struct hand_op ops[] = {
            {EVERY, LW_OP_KERNEL, 0, .us = 60, .start = 0, .end = all ? 90 : 72},
            {EVERY, LW_OP_ALL_REDUCE, 1, .us = 30, .start = 0, .end = all ? 60 : 30},
        };
        struct world w;
        make_hand(&w, 2, ops);
        w.c.interference.comm_on_compute_core = given(all ? 1 : 0.4);
        run_hand(&w, ops);
        free_world(&w);
    }
}

static const int64_t table_bytes[] = {1000, 2000};
static const lw_ps one_at_once[] = {100000000, 150000000}, two_at_once[] = {200000000, 300000000};

/* Alone 100, two at once 200 each. A starts at 0, B at 50: A does 50 by 50 and its other 50 at half
 * speed by 150; B has then done 50 and does the other 50 alone by 200. */
TEST(tables_for_two_in_flight_slow_both)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_KERNEL, 0, .us = 50},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1000, .start = 0, .end = 150},
        {EVERY, LW_OP_ALL_REDUCE, 2, .comm = 1, .bytes = 1000, .after = 1, .start = 50, .end = 200},
    };
    struct world w;

    make_hand(&w, 2, ops);
    add_table(&w.c, LW_OP_ALL_REDUCE, 2, 1, 2, table_bytes, one_at_once);
    add_table(&w.c, LW_OP_ALL_REDUCE, 2, 2, 2, table_bytes, two_at_once);
    run_hand(&w, ops);
    assert_string_equal(w.s.terms[0].name, "in_flight");
    free_world(&w);
}

/* Alone 100 by its table, both ways at once 200 each. Rank 0 sends from 0, rank 1 from 50: as
 * above. The links themselves would take 1. */
TEST(messages_both_ways_go_by_their_table)
{
    for (int two = 0; two < 2; two++) {
        const int32_t there = two ? 150 : 100, back = two ? 200 : 150;
        const struct hand_op ops[] = {
            {0, LW_OP_KERNEL, 0, .us = 50},
            {0, LW_OP_SEND, 1, .bytes = 1000, .peer = 1, .start = 0, .end = there},
            {0, LW_OP_RECV, 2, .comm = 1, .bytes = 1000, .peer = 1, .after = 1, .start = 50,
             .end = back},
            {1, LW_OP_KERNEL, 0, .us = 50},
            {1, LW_OP_RECV, 1, .bytes = 1000, .peer = 0, .start = 0, .end = there},
            {1, LW_OP_SEND, 2, .comm = 1, .bytes = 1000, .peer = 0, .after = 4, .start = 50,
             .end = back},
        };
        struct world w;
        make_hand(&w, 2, ops);
        add_table(&w.c, LW_OP_SEND, 2, 1, 2, table_bytes, one_at_once);
        if (two)
            add_table(&w.c, LW_OP_SEND, 2, 2, 2, table_bytes, two_at_once);
        run_hand(&w, ops);
        assert_true(!two || strcmp(w.s.terms[0].name, "in_flight") == 0);
        free_world(&w);
    }
}

/* comm_sms 27 of 108: compute runs at 3/4 from the local entry on, also while rank 0 waits for
 * rank 1. Compute 100 on rank 0; entry at 0, data moves 40..60: the kernel does 45 by 60, the
 * other 55 by 115. */
TEST(a_waiting_collective_holds_its_sms)
{
    static const struct hand_op ops[] = {
        {0, LW_OP_KERNEL, 0, .us = 100, .start = 0, .end = 115},
        {0, LW_OP_ALL_REDUCE, 1, .us = 20, .start = 0, .end = 60},
        {1, LW_OP_HOST, 0, .us = 40},
        {1, LW_OP_ALL_REDUCE, 1, .us = 20, .after = 3},
    };
    struct world w;

    make_hand(&w, 2, ops);
    w.c.interference.comm_sms = given(27);
    w.c.device.n_sms = given(108);
    run_hand(&w, ops);
    free_world(&w);
}

TEST(a_slow_rank_computes_at_its_speed)
{
    static const struct hand_op ops[] = {
        {0, LW_OP_KERNEL, 0, .us = 100, .start = 0, .end = 100},
        {0, LW_OP_ALL_REDUCE, 1, .us = 10, .after = 1, .start = 100, .end = 135},
        {1, LW_OP_KERNEL, 0, .us = 100, .start = 0, .end = 125},
        {1, LW_OP_ALL_REDUCE, 1, .us = 10, .after = 3, .start = 125, .end = 135},
    };
    struct world w;

    make_hand(&w, 2, ops);
    add_exception(&w.c, (struct lw_exception){.rank = 1, .rank_to = -1, .speed = 0.8});
    run_hand(&w, ops);
    free_world(&w);
}

/* Two stages on one stream each; a message takes 3 (3000 bytes at 1e9 B/s, no latency).
 *   rank 0: F0 S0 F1 S1 F2 (F = 10)      rank 1: R0 C0 R1 C1 (C = 20)
 * Rendezvous: S0 10..13, F1 13..23, S1 waits for R1 (33): 33..36, F2 36..46, C1 36..56.
 * Buffered: F 0..30 without a pause, R0 ends 13, C0 13..33, R1 finds its message, C1 33..53. */
TEST(rendezvous_holds_the_sender_and_buffered_does_not)
{
    static const struct {
        struct hand_op op;
        int32_t start, end; /* buffered */
    } cases[] = {
        {{0, LW_OP_FORWARD, 0, .us = 10, .start = 0, .end = 10}, 0, 10},
        {{0, LW_OP_SEND, 0, .bytes = 3000, .peer = 1, .start = 10, .end = 13}, 10, 10},
        {{0, LW_OP_FORWARD, 0, .us = 10, .start = 13, .end = 23}, 10, 20},
        {{0, LW_OP_SEND, 0, .bytes = 3000, .peer = 1, .start = 23, .end = 36}, 20, 20},
        {{0, LW_OP_FORWARD, 0, .us = 10, .start = 36, .end = 46}, 20, 30},
        {{1, LW_OP_RECV, 0, .bytes = 3000, .peer = 0, .start = 0, .end = 13}, 0, 13},
        {{1, LW_OP_FORWARD, 0, .us = 20, .start = 13, .end = 33}, 13, 33},
        {{1, LW_OP_RECV, 0, .bytes = 3000, .peer = 0, .start = 33, .end = 36}, 33, 33},
        {{1, LW_OP_FORWARD, 0, .us = 20, .start = 36, .end = 56}, 33, 53},
    };
    struct hand_op ops[9];
    struct world w;

    for (int i = 0; i < 9; i++)
        ops[i] = cases[i].op;
    make_hand(&w, 2, ops);
    run_hand(&w, ops);
    assert_int_equal(w.s.n_messages, 2);
    run_world(&w, (struct lw_sim_options){.n_steps = 1, .buffered = true});
    for (int i = 0; i < 9; i++)
        expect_span(&w, ops[i].rank, i, cases[i].start * us, cases[i].end * us);
    assert_int_equal(w.s.n_messages, 2);
    free_world(&w);
}

/* Rank 0 sends 2000 bytes to 1 and 5000 to 2 in one call: both its ops last until the longer one is
 * through (5 us), while rank 1's receive ends after 2 us. */
TEST(a_group_call_completes_as_a_unit)
{
    static const struct hand_op ops[] = {
        {0, LW_OP_SEND, 1, .bytes = 2000, .peer = 1, .call = 1, .start = 0, .end = 5},
        {0, LW_OP_SEND, 1, .bytes = 5000, .peer = 2, .call = 1, .start = 0, .end = 5},
        {0, LW_OP_KERNEL, 0, .us = 1, .after = 1, .start = 5, .end = 6},
        {1, LW_OP_RECV, 1, .bytes = 2000, .peer = 0, .start = 0, .end = 2},
        {2, LW_OP_RECV, 1, .bytes = 5000, .peer = 0, .start = 0, .end = 5},
    };
    struct world w;

    make_hand(&w, 3, ops);
    run_hand(&w, ops);
    free_world(&w);
}

/* One role, ring of three: rank r sends 1000 (r+1) bytes to r+1 and receives from r-1, in one
 * call. */
TEST(operands_say_what_differs_between_ranks_of_a_role)
{
    struct lw_builder *b = begin_plan("p", 3);
    struct world w;
    static const struct lw_operand to[] = {{1000, 0, 1}, {2000, 0, 2}, {3000, 0, 0}};
    static const struct lw_operand from[] = {{3000, 0, 2}, {1000, 0, 0}, {2000, 0, 1}};
    int32_t ops[2];

    for (int i = 0; i < 2; i++) {
        struct lw_op op = lw_builder_blank(i == 0 ? LW_OP_SEND : LW_OP_RECV, 1);
        op.comm = 0;
        op.call = 0;
        op.operand = lw_builder_operand_row(b, i == 0 ? to : from, 3);
        ops[i] = lw_builder_op(b, &op, NULL, 0);
    }
    make_world(&w, b);
    run_world(&w, lw_sim_options_default());
    for (int32_t r = 0; r < 3; r++) /* longer of what it sends and receives: 3, 2, 3 */
        expect_span(&w, r, ops[0], 0, r == 1 ? 2 * us : 3 * us);
    free_world(&w);
}

/* Variants first, accumulate, steady; passes: first, then (accumulate, steady) for ever.
 * Rank-local: rank 1 is slower and enters its passes later. */
TEST(passes_run_their_variants_and_are_rank_local)
{
    struct lw_builder *b = lw_builder_new("p", 2);
    struct lw_role role = {.name = "all"};
    struct world w = {0};

    lw_builder_role(b, &role);
    for (int32_t r = 0; r < 2; r++)
        lw_builder_rank(b, r, 0, r, 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    int32_t op[3];
    for (int i = 0; i < 3; i++) {
        lw_builder_variant(b, i == 0 ? "first" : i == 1 ? "accumulate" : "steady", "", i != 1);
        lw_builder_program(b, i, 0);
        op[i] = add_work(b, LW_OP_FORWARD, 0, (i == 0 ? 10 : i == 1 ? 3 : 5) * us, -1);
    }
    lw_builder_pass(b, 0);
    lw_builder_pass(b, 1);
    lw_builder_pass(b, 2);
    lw_builder_repeat_from(b, 1);
    assert_int_equal(lw_builder_finish(b, &w.plan, NULL), LW_OK);
    make_cluster(&w.c, 2, 1e9, 0);
    add_exception(&w.c, (struct lw_exception){.rank = 1, .rank_to = -1, .speed = 0.5});
    run_world(&w, (struct lw_sim_options){.n_steps = 3});
    assert_int_equal(w.t.n, 10); /* 2 ranks x (1 + 2 + 2 passes) */
    assert_int_equal(row_of(&w, 1, 0, op[1]).start, 10 * us);
    assert_int_equal(row_of(&w, 1, 0, op[1]).pass, 0);
    assert_int_equal(row_of(&w, 1, 0, op[2]).pass, 1);
    assert_int_equal(row_of(&w, 2, 0, op[2]).end, 26 * us); /* 10 + 2 (3 + 5) */
    assert_int_equal(row_of(&w, 2, 1, op[2]).end, 52 * us);
    free_world(&w);
}

static void expect_failure(const struct lw_plan *plan, const struct lw_cluster *c,
                           struct lw_sim_options o, enum lw_status expected,
                           const char *const *says)
{
    struct lw_timeline t = {0};
    struct lw_sim_stats s = {.end = -7};
    struct lw_err err = {0};
    int64_t live = lw_alloc_live();

    assert_int_equal(lw_sim_run(plan, c, &o, &t, &s, &err), expected);
    for (; *says; says++)
        if (!strstr(err.msg, *says))
            fail_msg("'%s' does not say '%s'", err.msg, *says);
    assert_int_equal(s.end, -7);
    assert_null(t.start);
    assert_int_equal(lw_alloc_live(), live);
}

/* Two ranks whose ops wait for each other, or do not fit: the message names the ops. */
TEST(ops_that_never_end_are_named)
{
    static const struct {
        struct hand_op op[4];
        const char *says[3];
    } cases[] = {
        {{{0, LW_OP_SEND, 1, .bytes = 8, .peer = 1},
          {0, LW_OP_RECV, 1, .bytes = 8, .peer = 1},
          {1, LW_OP_SEND, 1, .bytes = 8, .peer = 0},
          {1, LW_OP_RECV, 1, .bytes = 8, .peer = 0}},
         {"ops wait for each other: rank 0 send to 1 (op 0) entered",
          "rank 1 send to 0 (op 2) entered"}},
        /* two communicators in opposite order; one stream is an order */
        {{{0, LW_OP_ALL_REDUCE, 1, .bytes = 8},
          {0, LW_OP_ALL_REDUCE, 1, .comm = 1, .bytes = 8},
          {1, LW_OP_ALL_REDUCE, 1, .comm = 1, .bytes = 8},
          {1, LW_OP_ALL_REDUCE, 1, .bytes = 8}},
         {"rank 0 all_reduce (op 0) entered", "rank 1 all_reduce (op 2) entered"}},
        {{{0, LW_OP_ALL_REDUCE, 1, .bytes = 8},
          {0, LW_OP_KERNEL, 0, .us = 1},
          {1, LW_OP_KERNEL, 0, .us = 1},
          {1, LW_OP_KERNEL, 0, .us = 1}},
         {"rank 0 all_reduce (op 0)", "rank 1, which has finished"}},
        {{{0, LW_OP_ALL_REDUCE, 1, .bytes = 8},
          {0, LW_OP_KERNEL, 0, .us = 1},
          {1, LW_OP_BROADCAST, 1, .bytes = 8},
          {1, LW_OP_KERNEL, 0, .us = 1}},
         {"all_reduce (op 0)", "broadcast (op 2)"}},
        {{{0, LW_OP_SEND, 1, .bytes = 8, .peer = 1},
          {0, LW_OP_KERNEL, 0, .us = 1},
          {1, LW_OP_RECV, 1, .bytes = 16, .peer = 0},
          {1, LW_OP_KERNEL, 0, .us = 1}},
         {"sends 8 bytes (op 0)", "receives 16 (op 2)"}},
    };
    struct world w;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_hand(&w, 2, cases[i].op);
        expect_failure(&w.plan, &w.c, lw_sim_options_default(), LW_EFAILED, cases[i].says);
        if (i == 0) /* buffered sends do not wait */
            assert_int_equal(
                run_end(&w.plan, &w.c, (struct lw_sim_options){.n_steps = 1, .buffered = true}),
                8000);
        free_world(&w);
    }
}

TEST(missing_cluster_figure_is_refused_with_a_reason)
{
    struct world w = {0};

    make_w_ar(&w.plan, 4);
    make_cluster(&w.c, 2, 1e9, 0);
    expect_failure(&w.plan, &w.c, lw_sim_options_default(), LW_EINVAL,
                   (const char *[]){"4 ranks", "2 devices", NULL});
    w.c.devices_per_node = 4;
    w.c.links[0].latency_ps = (struct lw_figure){0, NULL};
    expect_failure(&w.plan, &w.c, lw_sim_options_default(), LW_ENOTSUP,
                   (const char *[]){"no latency", "calibrate", NULL});
    lw_plan_free(&w.plan);

    struct lw_builder *b = begin_plan("p", 2);
    struct lw_op op = lw_builder_blank(LW_OP_COPY_IN, 0);
    op.bytes = 64;
    op.work_ps = -1;
    lw_builder_op(b, &op, NULL, 0);
    finish_plan(b, &w.plan);
    expect_failure(&w.plan, &w.c, lw_sim_options_default(), LW_ENOTSUP,
                   (const char *[]){"copy_in", "copy bandwidth", NULL});
    w.c.device.copy_bytes_per_s = given(64e6);
    assert_int_equal(run_end(&w.plan, &w.c, lw_sim_options_default()), us);
    lw_plan_free(&w.plan);

    b = begin_plan("p", 2);
    int32_t tree = lw_builder_comm(b, "t", LW_COMM_DATA, LW_REDUCER_NVLS, 1);
    lw_builder_group(b, tree, (int32_t[]){0, 1}, 2);
    add_collective(b, LW_OP_ALL_REDUCE, tree, 1, 8, -1);
    finish_plan(b, &w.plan);
    expect_failure(&w.plan, &w.c, lw_sim_options_default(), LW_ENOTSUP,
                   (const char *[]){"reducer nvls", "ring", NULL});
    free_world(&w);
}

static lw_ps seven(const void *ctx, const struct lw_cost_query *q)
{
    return *(const lw_ps *)ctx + q->n_ranks;
}

TEST(the_cost_is_the_callers_function)
{
    static const lw_ps base = 700;
    const struct lw_cost cost = {.time = seven, .ctx = &base};
    struct world w = {0};

    make_w_ar(&w.plan, 4);
    make_cluster(&w.c, 4, 1e9, 0);
    assert_int_equal(run_end(&w.plan, &w.c, (struct lw_sim_options){.n_steps = 1, .cost = &cost}),
                     704);
    free_world(&w);
}

/* Two rings on one rank pair share the outgoing link: 2 ranks, 2 steps each, chunk c = 1 us, no
 * latency. Messages queue up: the links are busy 4 c, so both rings end at 4 us, not 2. */
TEST(rings_of_two_communicators_share_the_link)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 2000},
        {EVERY, LW_OP_ALL_REDUCE, 2, .comm = 1, .bytes = 2000},
    };
    struct world w;
    struct lw_sim_options o = {.n_steps = 1, .detail = LW_SIM_CHUNK};

    make_hand(&w, 2, ops);
    assert_int_equal(run_end(&w.plan, &w.c, o), 4 * us);
    o.ring = LW_SIM_RING_RECURRENCE;
    expect_failure(&w.plan, &w.c, o, LW_EINVAL, (const char *[]){"two communicators", NULL});
    free_world(&w);
}

TEST(noise_is_drawn_by_seed_and_said)
{
    struct world w = {0};
    struct lw_sim_options o = {.n_steps = 1};

    make_w_ddp(&w.plan, 2);
    make_cluster(&w.c, 2, 50e9, 0);
    lw_ps quiet = run_end(&w.plan, &w.c, o);
    w.c.noise.compute_sigma = given(0.05);
    assert_int_equal(run_end(&w.plan, &w.c, o), quiet); /* given, but no seed */
    assert_int_equal(lw_sim_run(&w.plan, &w.c, &o, NULL, &w.s, NULL), LW_OK);
    assert_false(w.s.terms[0].on);
    o.noise = true;
    o.seed = 1;
    lw_ps one = run_end(&w.plan, &w.c, o);
    assert_int_equal(run_end(&w.plan, &w.c, o), one);
    o.seed = 2;
    assert_int_not_equal(run_end(&w.plan, &w.c, o), one);
    /* 20 ops of 5 % noise: within 5 standard deviations of the sum (5 * 0.05 / sqrt(20) = 5.6 %) */
    assert_true(one > quiet - quiet / 15 && one < quiet + quiet / 15);
    free_world(&w);
}

TEST(failed_allocations_leak_nothing)
{
    int64_t live = lw_alloc_live();
    struct world w = {0};

    struct lw_builder *b = begin_plan("p", 3);
    int32_t k = add_work(b, LW_OP_KERNEL, 0, us, -1);
    add_collective(b, LW_OP_ALL_REDUCE, 0, 1, 96, k);
    static const struct lw_operand to[] = {{8, 0, 1}, {8, 0, 2}, {8, 0, 0}};
    static const struct lw_operand from[] = {{8, 0, 2}, {8, 0, 0}, {8, 0, 1}};
    for (int i = 0; i < 2; i++) {
        struct lw_op op = lw_builder_blank(i == 0 ? LW_OP_SEND : LW_OP_RECV, 1);
        op.comm = 0;
        op.call = 0;
        op.operand = lw_builder_operand_row(b, i == 0 ? to : from, 3);
        lw_builder_op(b, &op, NULL, 0);
    }
    finish_plan(b, &w.plan);
    make_cluster(&w.c, 3, 1e9, 100);
    w.c.interference.compute_rate_under_comm = given(0.5);
    struct lw_sim_options o = {.n_steps = 2, .detail = LW_SIM_CHUNK, .ring = LW_SIM_RING_EVENTS};
    assert_true(run_without_memory(&w.plan, &w.c, o) >= 15);
    free_world(&w);
    assert_int_equal(lw_alloc_live(), live);
}
