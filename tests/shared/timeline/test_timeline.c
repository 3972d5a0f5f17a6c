/* Interval arithmetic and measures against numbers worked out by hand. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/plan/op.h"
#include "shared/plan/plan_builder.h"
#include "shared/strategy/reducer_kind.h"
#include "shared/timeline/param_memory.h"
#include "shared/timeline/timeline.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/sim/timeline_check.h"

TEST(union_counts_overlaps_once)
{
    struct lw_interval v[] = {{10, 20}, {0, 5}, {15, 30}, {30, 31}, {40, 40}, {50, 60}};

    /* [0,5) [10,31) [50,60) = 5 + 21 + 10 */
    assert_int_equal(lw_intervals_union(v, 6, 0, 100), 36);
    /* clipped to [12, 55): [12,31) [50,55) = 19 + 5 */
    assert_int_equal(lw_intervals_union(v, 6, 12, 55), 24);
    assert_int_equal(lw_intervals_union(v, 0, 0, 100), 0);
}

TEST(minus_leaves_what_is_not_covered)
{
    struct lw_interval a[] = {{0, 10}, {20, 30}, {25, 40}};
    struct lw_interval b[] = {{5, 22}, {28, 29}, {39, 100}};

    /* a = [0,10) [20,40); b takes [5,10) [20,22) [28,29) [39,40): 30 - (5 + 2 + 1 + 1) = 21 */
    assert_int_equal(lw_intervals_minus(a, 3, b, 3, 0, 100), 21);
}

TEST(random_intervals_match_a_count_of_cells)
{
    uint64_t s = 12345;

    for (int round = 0; round < 300; round++) {
        struct lw_interval a[12], b[12];
        bool in_a[64] = {0}, in_b[64] = {0};
        int n_a = round % 13, n_b = round % 11, expected_union = 0, expected_minus = 0;
        for (int i = 0; i < n_a + n_b; i++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            int from = (int)(s >> 40 & 63), to = from + (int)(s >> 50 & 15);
            if (to > 64)
                to = 64;
            *(i < n_a ? &a[i] : &b[i - n_a]) = (struct lw_interval){from, to};
            for (int c = from; c < to; c++)
                (i < n_a ? in_a : in_b)[c] = true;
        }
        for (int c = 3; c < 60; c++) {
            expected_union += in_a[c];
            expected_minus += in_a[c] && !in_b[c];
        }
        struct lw_interval copy[12];
        memcpy(copy, a, sizeof copy);
        assert_int_equal(lw_intervals_union(copy, n_a, 3, 60), expected_union);
        assert_int_equal(lw_intervals_minus(a, n_a, b, n_b, 3, 60), expected_minus);
    }
}

static void expect_double(double got, double expected)
{
    assert_true(got > expected - 1e-12 && got < expected + 1e-12);
}

static void add(struct lw_timeline *t, int32_t step, int32_t rank, int32_t stream,
                enum lw_op_kind kind, int32_t op, lw_ps start, lw_ps end)
{
    struct lw_span s = {.step = step, .rank = rank, .stream = stream, .comm = -1, .op = op,
                        .kind = kind, .ready = start, .issue = -1, .start = start, .all_in = -1,
                        .end = end};

    assert_int_equal(lw_timeline_add(t, &s, NULL), LW_OK);
}

/* Two ranks, two steps. Step 0 runs 0..100, step 1 100..190 on rank 0 and 110..200 on rank 1. */
static void fill_two_steps(struct lw_timeline *t)
{
    add(t, 0, 0, 0, LW_OP_FORWARD, 0, 0, 40);
    add(t, 0, 0, 1, LW_OP_ALL_REDUCE, 1, 30, 100);
    add(t, 0, 1, 0, LW_OP_FORWARD, 0, 0, 50);
    add(t, 0, 1, 1, LW_OP_ALL_REDUCE, 1, 50, 100);
    add(t, 1, 0, 0, LW_OP_FORWARD, 0, 100, 150);
    add(t, 1, 0, 1, LW_OP_ALL_REDUCE, 1, 140, 190);
    add(t, 1, 1, 0, LW_OP_FORWARD, 0, 110, 160);
    add(t, 1, 1, 2, LW_OP_COPY_IN, 2, 160, 170);
    add(t, 1, 1, 1, LW_OP_ALL_REDUCE, 1, 165, 200);
}

/* A receive that is entered at 0 and whose sender comes at 60: beside the compute of 0..80 data
 * moves from 60 on; the 60 before are waiting, which hides nothing. */
TEST(waiting_beside_compute_is_not_a_hidden_transfer)
{
    struct lw_timeline t = {0};
    struct lw_summary s;

    add(&t, 0, 0, 0, LW_OP_FORWARD, 0, 0, 80);
    add(&t, 0, 0, 1, LW_OP_RECV, 1, 0, 100);
    t.all_in[1] = 60;
    assert_int_equal(lw_timeline_summarize(&t, NULL, 0, &s, NULL), LW_OK);
    assert_int_equal(s.ranks[0].comm_busy, 100);
    assert_int_equal(s.ranks[0].hidden_transfer, 20);
    assert_int_equal(s.ranks[0].transfer, 20);
    assert_int_equal(s.ranks[0].exposed_comm, 20);
    lw_summary_free(&s);
    lw_timeline_free(&t);
}

TEST(summary_has_the_values_worked_out_by_hand)
{
    struct lw_timeline t = {0};
    struct lw_summary s;

    fill_two_steps(&t);
    assert_int_equal(lw_timeline_sort(&t, NULL), LW_OK);
    assert_int_equal(lw_timeline_summarize(&t, NULL, 0, &s, NULL), LW_OK);
    /* both steps last 100: step 0 from 0 to 100, step 1 from 100 to 200 */
    assert_int_equal(s.n_steps, 2);
    assert_int_equal(s.steps[0], 100);
    assert_int_equal(s.steps[1], 100);
    assert_int_equal(s.step, 100);
    /* the middle (lower) of equal steps is step 0. Rank 0: compute 40, comm 70, exposed 40..100 */
    assert_int_equal(s.ranks[0].step, 0);
    assert_int_equal(s.ranks[0].compute_busy, 40);
    assert_int_equal(s.ranks[0].comm_busy, 70);
    assert_int_equal(s.ranks[0].exposed_comm, 60);
    assert_int_equal(s.ranks[0].idle, 0);
    assert_int_equal(s.ranks[1].exposed_comm, 50);
    assert_int_equal(s.worst, 0);
    expect_double(s.bubble_ratio, 0); /* no pipeline */
    expect_double(s.compute_share, (40 + 50) / 200.0);
    assert_int_equal(s.peak_memory_bytes, -1);
    lw_summary_free(&s);

    assert_int_equal(lw_timeline_summarize(&t, NULL, 1, &s, NULL), LW_OK);
    assert_int_equal(s.n_steps, 1);
    /* rank 1 of step 1: period 100..200, compute 50, copy 10, comm 35 of which 165..170 is hidden
     * under the copy; idle 100..110. Rank 0: period 100..190 */
    assert_int_equal(s.ranks[1].start, 100);
    assert_int_equal(s.ranks[1].copy_busy, 10);
    assert_int_equal(s.ranks[1].exposed_copy, 10);
    assert_int_equal(s.ranks[1].comm_busy, 35);
    assert_int_equal(s.ranks[1].exposed_comm, 30);
    assert_int_equal(s.ranks[1].hidden_transfer, 5);
    assert_int_equal(s.ranks[1].idle, 10);
    assert_int_equal(s.worst, 1);
    assert_int_equal(s.ranks[0].end, 190);
    lw_summary_free(&s);
    lw_timeline_free(&t);
}

TEST(median_of_an_even_number_is_the_mean_of_the_middle_two)
{
    struct lw_timeline t = {0};
    struct lw_summary s;

    for (int32_t i = 0, at = 0; i < 4; i++) { /* lengths 10, 40, 21, 30 */
        int32_t end = at + (int32_t[]){10, 40, 21, 30}[i];
        add(&t, i, 0, 0, LW_OP_KERNEL, 0, at + 5, end);
        at = end;
    }
    t.start[0] = 0;
    assert_int_equal(lw_timeline_summarize(&t, NULL, 0, &s, NULL), LW_OK);
    assert_int_equal(s.step, 25); /* (21 + 30) / 2, rounded down */
    assert_int_equal(s.ranks[0].step, 2);
    lw_summary_free(&s);
    assert_int_equal(lw_timeline_summarize(&t, NULL, 4, &s, NULL), LW_EINVAL);
    lw_timeline_free(&t);
}

/* Two stages; stage 1 enters step 1 at 60, when stage 0 is still in step 0, and waits for it.
 *   stage 0: step 0 computes 0..100; step 1: send 100..130 (receiver in from 60), computes 130..200
 *   stage 1: step 0 computes 0..60; step 1: receives 60..130 (all in at 100), computes 110..190 */
TEST(a_step_is_the_period_between_latest_ends)
{
    struct lw_timeline t = {0};
    struct lw_summary s;

    add(&t, 0, 0, 0, LW_OP_KERNEL, 0, 0, 100);
    add(&t, 0, 1, 0, LW_OP_KERNEL, 0, 0, 60);
    add(&t, 1, 0, 1, LW_OP_SEND, 1, 100, 130);
    add(&t, 1, 0, 0, LW_OP_KERNEL, 2, 130, 200);
    add(&t, 1, 1, 1, LW_OP_RECV, 1, 60, 130);
    add(&t, 1, 1, 0, LW_OP_KERNEL, 2, 110, 190);
    t.all_in[2] = t.all_in[4] = 100;
    assert_int_equal(lw_timeline_summarize(&t, NULL, 1, &s, NULL), LW_OK);
    assert_int_equal(s.step, 100);
    assert_int_equal(s.span, 140); /* 60..200: the span counts 60..100 twice */
    assert_int_equal(s.ranks[0].start, 100);
    assert_int_equal(s.ranks[0].transfer, 30);
    assert_int_equal(s.ranks[0].compute_busy, 70);
    assert_int_equal(s.ranks[1].start, 60);
    assert_int_equal(s.ranks[1].end, 190);
    assert_int_equal(s.ranks[1].wait[LW_WAIT_PIPELINE], 40);
    assert_int_equal(s.ranks[1].transfer, 10); /* 100..110, the rest under compute */
    assert_int_equal(s.ranks[1].compute_busy, 80);
    assert_int_equal(s.ranks[1].idle, 0);
    assert_int_equal(s.worst, 1);
    expect_double(s.bubble_ratio, 40 / 230.0);
    expect_double(s.compute_share, 150 / 230.0);
    lw_summary_free(&s);
    lw_timeline_free(&t);
}

TEST(sort_orders_by_step_pass_rank_op)
{
    struct lw_timeline t = {0};

    add(&t, 1, 0, 0, LW_OP_KERNEL, 3, 10, 11);
    add(&t, 0, 1, 0, LW_OP_KERNEL, 2, 20, 21);
    add(&t, 0, 1, 0, LW_OP_KERNEL, 1, 30, 31);
    add(&t, 0, 0, 0, LW_OP_KERNEL, 9, 40, 41);
    assert_int_equal(timeline_check(&t, NULL, NULL), LW_EPLAN);
    assert_int_equal(lw_timeline_sort(&t, NULL), LW_OK);
    assert_int_equal(t.start[0], 40);
    assert_int_equal(t.start[1], 30);
    assert_int_equal(t.start[2], 20);
    assert_int_equal(t.start[3], 10);
    assert_int_equal(timeline_check(&t, NULL, NULL), LW_OK);
    lw_timeline_free(&t);
}

TEST(check_names_the_fault)
{
    static const struct {
        struct lw_span a, b;
        const char *expected;
    } cases[] = {
        {{.kind = LW_OP_KERNEL, .op = 0, .ready = 5, .start = 4, .all_in = -1, .end = 6},
         {.kind = LW_OP_KERNEL, .op = 1, .start = 6, .all_in = -1, .end = 7},
         "before it is ready"},
        {{.kind = LW_OP_KERNEL, .op = 0, .start = 4, .all_in = -1, .end = 3},
         {.kind = LW_OP_KERNEL, .op = 1, .start = 6, .all_in = -1, .end = 7},
         "ends before it starts"},
        {{.kind = LW_OP_ALL_REDUCE, .op = 0, .start = 4, .all_in = 9, .end = 8},
         {.kind = LW_OP_KERNEL, .op = 1, .start = 8, .all_in = -1, .end = 9},
         "last member"},
        {{.kind = LW_OP_KERNEL, .op = 0, .start = 0, .all_in = -1, .end = 8},
         {.kind = LW_OP_KERNEL, .op = 1, .start = 7, .all_in = -1, .end = 9},
         "overlaps"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_timeline t = {0};
        struct lw_err err = {0};
        lw_timeline_add(&t, &cases[i].a, NULL);
        lw_timeline_add(&t, &cases[i].b, NULL);
        assert_int_equal(timeline_check(&t, NULL, &err), LW_EPLAN);
        assert_non_null(strstr(err.msg, cases[i].expected));
        lw_timeline_free(&t);
    }
}

/* Rank 0 sends to rank 1 on stream 0; the roles hold 100 + 20 bytes; each allocates 8 twice. */
static void make_plan(struct lw_plan *plan)
{
    struct lw_builder *b = lw_builder_new("p", 2);
    struct lw_role roles[2] = {{.name = "a", .static_bytes = {100, 20}}, {.name = "b"}};

    for (int32_t r = 0; r < 2; r++) {
        lw_builder_role(b, &roles[r]);
        lw_builder_rank(b, r, r, r, 0, 0);
    }
    int32_t stream = lw_builder_stream(b, "comm", LW_STREAM_COMM, 0);
    int32_t comm = lw_builder_comm(b, "pp", LW_COMM_FORWARD, LW_REDUCER_AUTO, stream);
    lw_builder_group(b, comm, (int32_t[]){0, 1}, 2);
    int32_t v = lw_builder_variant(b, "steady", "", true);
    for (int32_t r = 0; r < 2; r++) {
        lw_builder_program(b, v, r);
        struct lw_op op = lw_builder_blank(r == 0 ? LW_OP_SEND : LW_OP_RECV, stream);
        op.comm = comm;
        op.peer = !r;
        lw_builder_op(b, &op, NULL, 0);
        for (int i = 0; i < 3; i++) {
            op = lw_builder_blank(i == 2 ? LW_OP_FREE : LW_OP_ALLOC, stream);
            op.bytes = 8;
            lw_builder_op(b, &op, NULL, 0);
        }
    }
    lw_builder_pass(b, v);
    assert_int_equal(lw_builder_finish(b, plan, NULL), LW_OK);
}

TEST(a_receive_may_not_end_before_its_send_begins)
{
    struct lw_plan plan;

    make_plan(&plan);
    for (lw_ps recv_end = 4; recv_end <= 5; recv_end++) {
        struct lw_timeline t = {0};
        struct lw_span s = {.kind = LW_OP_SEND, .op = 0, .ready = 5, .start = 5, .all_in = -1,
                            .end = 9};
        lw_timeline_add(&t, &s, NULL);
        s = (struct lw_span){.rank = 1, .kind = LW_OP_RECV, .op = 4, .all_in = -1, .end = recv_end};
        lw_timeline_add(&t, &s, NULL);
        assert_int_equal(timeline_check(&t, &plan, NULL), recv_end < 5 ? LW_EPLAN : LW_OK);
        lw_timeline_free(&t);
    }
    lw_plan_free(&plan);
}

TEST(peak_memory_follows_allocations_in_time)
{
    struct lw_plan plan;
    struct lw_timeline t = {0};
    struct lw_summary s;

    make_plan(&plan);
    /* rank 0: alloc 8 at 1, free 8 at 2, alloc 8 at 3: 120 + 8; out of program order on purpose */
    add(&t, 0, 0, 0, LW_OP_ALLOC, 1, 1, 1);
    add(&t, 0, 0, 0, LW_OP_ALLOC, 2, 3, 3);
    add(&t, 0, 0, 0, LW_OP_FREE, 3, 2, 2);
    add(&t, 0, 1, 0, LW_OP_ALLOC, 5, 1, 1);
    assert_int_equal(lw_timeline_summarize(&t, &plan, 0, &s, NULL), LW_OK);
    assert_int_equal(s.peak_memory_bytes, 128);
    assert_int_equal(s.memory.rank, 0);
    assert_int_equal(s.memory.at, 1); /* the first of two equal moments */
    assert_int_equal(s.memory.op, 1);
    assert_int_equal(s.memory.bytes[LW_MEMORY_PARAMETERS], 100);
    assert_int_equal(s.memory.bytes[LW_MEMORY_GRADIENTS], 20);
    assert_int_equal(s.memory.bytes[LW_MEMORY_ACTIVATIONS], 8);
    assert_int_equal(s.memory.total, 128);
    lw_summary_free(&s);
    lw_timeline_free(&t);
    lw_plan_free(&plan);
}

/* One stage keeps 100 B a micro-batch: F0 0..10, F1 10..20, B0 20..30, F2 30..40, B1 40..50, B2
 * 50..60. B0 gives back at 30 what F2 takes at 30: two in flight, 120 fixed + 200; rank 1 keeps
 * nothing. */
TEST(activations_are_held_until_their_backward_ends)
{
    struct lw_plan plan;
    struct lw_timeline t = {0};
    struct lw_summary s;
    struct lw_work works[] = {
        {.ps = 10, .flops = -1, .bytes = -1, .keeps_bytes = 100},
        {.ps = 10, .flops = -1, .bytes = -1, .keeps_bytes = -100},
    };
    const struct {
        bool forward;
        lw_ps at;
    } ops[] = {{true, 0}, {true, 10}, {false, 20}, {true, 30}, {false, 40}, {false, 50}};

    make_plan(&plan);
    int32_t held[] = {plan.ops[0].work, plan.ops[1].work};
    plan.works = works;
    plan.n_works = 2;
    plan.ops[0].work = 0;
    plan.ops[1].work = 1;
    plan.ops[0].kind = LW_OP_FORWARD;
    plan.ops[1].kind = LW_OP_BACKWARD;
    for (int i = 0; i < 6; i++)
        add(&t, 0, 0, 0, ops[i].forward ? LW_OP_FORWARD : LW_OP_BACKWARD, !ops[i].forward,
            ops[i].at, ops[i].at + 10);
    add(&t, 0, 1, 0, LW_OP_ALLOC, 5, 1, 1);
    assert_int_equal(lw_timeline_summarize(&t, &plan, 0, &s, NULL), LW_OK);
    assert_int_equal(s.ranks[0].peak_memory_bytes - lw_memory_fixed(&plan, 0), 200);
    assert_int_equal(s.ranks[1].peak_memory_bytes - lw_memory_fixed(&plan, 1), 8);
    assert_int_equal(s.peak_memory_bytes, s.ranks[0].peak_memory_bytes);
    lw_summary_free(&s);
    lw_timeline_free(&t);
    plan.ops[0].work = held[0];
    plan.ops[1].work = held[1];
    lw_plan_free(&plan);
}

/* The system would grant it and end the process while it is filled. */
TEST(a_timeline_beyond_the_machine_is_refused_with_its_size)
{
    static const int64_t n[] = {INT64_C(1) << 40, INT64_MAX};
    static const char *const size[] = {"1099511627776 ops needs 65.00 TiB", "8192.00 PiB"};

    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        struct lw_timeline t = {0};
        struct lw_err err = {0};
        assert_int_equal(lw_timeline_reserve(&t, n[i], &err), LW_ENOTSUP);
        assert_non_null(strstr(err.msg, size[i]));
        assert_non_null(strstr(err.msg, "--steps"));
        assert_null(t.step);
    }
}

static enum lw_status fill_and_summarize(void)
{
    struct lw_timeline t = {0};
    struct lw_summary s = {0};
    struct lw_span row = {.step = 1, .kind = LW_OP_KERNEL, .all_in = -1, .end = 5};
    enum lw_status status = LW_OK;

    for (int i = 0; i < 70 && status == LW_OK; i++) {
        row.step = i < 2 ? 1 - i : 1;
        row.op = i;
        row.start = row.end = i;
        status = lw_timeline_add(&t, &row, NULL);
    }
    if (status == LW_OK)
        status = lw_timeline_sort(&t, NULL);
    if (status == LW_OK)
        status = timeline_check(&t, NULL, NULL);
    if (status == LW_OK)
        status = lw_timeline_summarize(&t, NULL, 0, &s, NULL);
    lw_summary_free(&s);
    lw_timeline_free(&t);
    return status;
}

TEST(failed_allocations_leak_nothing)
{
    EACH_ALLOCATION_FAILS_IN(20, fill_and_summarize()); /* 12 columns twice at least */
}

/* Room for steps is taken by their number: refused before, however large it is. */
TEST(steps_that_the_ops_cannot_fill_are_refused)
{
    const struct lw_span v = {.step = 1000000, .comm = -1, .issue = -1, .all_in = -1, .end = 10};
    struct lw_timeline t = {0};
    struct lw_summary s;
    struct lw_err err = {0};

    assert_ok(lw_timeline_add(&t, &v, &err), err);
    assert_int_equal(lw_timeline_summarize(&t, NULL, 0, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg, "timeline: step 1000000, with 1 ops in all: a step has no op");
    lw_timeline_free(&t);
}
