/* The executor on the threads backend: exec/run/run.h, docs/design/exec.md. Spin compute
 * throughout, so that the thread sanitizer sees every instruction. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/run/run.h"
#include "shared/base/arena.h"
#include "tests/lib/exec/exec_collectives.h"
#include "tests/lib/exec/exec_plan.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/sim/timeline_check.h"

static struct lw_exec_options options(void)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = EXEC_COMPUTE_SPIN;
    o.n_steps = 3;
    o.n_warmup = 1;
    o.timeout_ns = INT64_C(20) * 1000000000;
    return o;
}

static void build(const struct exec_test_plan *t, struct lw_plan *plan)
{
    struct lw_err err = {0};

    assert_ok(exec_test_plan_build(t, plan, &err), err);
}

/* A plan, how it is run, and what came of it. */
struct trial {
    struct exec_test_plan t;
    struct lw_exec_options o;
    struct lw_plan plan;
    struct lw_exec_result r;
    struct lw_err err;
};

static struct trial trial(void)
{
    return (struct trial){.t = exec_test_plan_default(), .o = options()};
}

static void trial_build(struct trial *x)
{
    build(&x->t, &x->plan);
}

/* Ends so, and says so. */
static void trial_run(struct trial *x, enum lw_status expected, const char *says)
{
    lw_exec_result_free(&x->r);
    enum lw_status status = lw_exec_run(&x->plan, &x->o, &x->r, &x->err);
    if (status != expected || !strstr(x->err.msg, says))
        fail_msg("status %d, expected %d and '%s': %s", status, expected, says, x->err.msg);
}

static void trial_free(struct trial *x)
{
    lw_exec_result_free(&x->r);
    lw_plan_free(&x->plan);
}

/* 5 parameters of 1000 .. 1004 elements, 5010 in all, on each rank: the weights, of half types also
 * f32 masters, and one or two states of f32. With gradients that live in their bucket the sum is
 * divided after it. */
TEST(every_plan_by_hand_ends_like_one)
{
    static const struct {
        int32_t n_ranks, accumulate, micro_batches;
        enum lw_dtype dtype, wire;
        enum exec_optimizer_kind optimizer;
        bool view, works; /* takes time */
        int64_t bytes;    /* of an element */
    } cases[] = {
        {2, 0, 1, LW_F32, LW_F32, EXEC_SGD, false, true, 4},
        {2, 0, 1, LW_F32, LW_F32, EXEC_MOMENTUM, false, true, 4 + 4},
        {2, 0, 1, LW_F32, LW_F32, EXEC_ADAM, false, true, 4 + 8},
        {2, 0, 1, LW_F16, LW_F16, EXEC_ADAM, false, true, 2 + 4 + 8},
        {2, 0, 1, LW_BF16, LW_BF16, EXEC_ADAM, false, true, 2 + 4 + 8},
        {1, 0, 1, LW_F32, LW_F32, EXEC_SGD, false, false, 4},
        {3, 0, 1, LW_F32, LW_F32, EXEC_SGD, false, false, 4},
        {4, 0, 1, LW_F32, LW_F32, EXEC_SGD, false, false, 4},
        {5, 0, 1, LW_F32, LW_F32, EXEC_SGD, false, false, 4},
        {3, 2, 2, LW_F32, LW_F32, EXEC_SGD, false, false, 4},
        {3, 0, 1, LW_F16, LW_F16, EXEC_SGD, false, false, 2 + 4},
        {3, 0, 1, LW_BF16, LW_BF16, EXEC_SGD, false, false, 2 + 4},
        {3, 0, 1, LW_F32, LW_F16, EXEC_SGD, false, false, 4},
        {3, 0, 1, LW_F32, LW_BF16, EXEC_SGD, false, false, 4},
        {3, 0, 1, LW_F64, LW_F64, EXEC_SGD, false, false, 8 + 4},
        {3, 0, 1, LW_F32, LW_F32, EXEC_SGD, true, false, 4},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial x = trial();
        x.t.n_ranks = cases[i].n_ranks;
        x.t.accumulate = cases[i].accumulate;
        x.t.micro_batches = cases[i].micro_batches;
        x.t.dtype = cases[i].dtype;
        x.t.wire = cases[i].wire;
        x.t.view = cases[i].view;
        x.t.work_ps = cases[i].works ? x.t.work_ps : 0;
        x.o.optimizer = exec_optimizer_of(cases[i].optimizer);
        trial_build(&x);
        trial_run(&x, LW_OK, "");
        assert_int_equal(x.r.verified, LW_EXEC_VERIFIED);
        assert_int_equal(x.r.n_steps, x.o.n_steps);
        assert_ok(timeline_check(&x.r.timeline, &x.plan, &x.err), x.err);
        assert_int_equal(x.r.n_checked_bytes, 5010 * cases[i].bytes * cases[i].n_ranks);
        trial_free(&x);
    }
}

/* Ops of each stream run in program order, after their dependencies; one collective at a time. */
TEST(streams_keep_order_and_dependencies)
{
    struct trial x = trial();
    lw_ps end_of[64];

    trial_build(&x);
    trial_run(&x, LW_OK, "");
    assert_int_equal(x.r.timeline.n, (int64_t)x.plan.n_ops * 2 * 4);
    for (int64_t i = 0; i < x.r.timeline.n; i++) {
        struct lw_span s = lw_timeline_get(&x.r.timeline, i);
        const struct lw_op *op = &x.plan.ops[s.op];
        if (i > 0 && x.r.timeline.rank[i] == x.r.timeline.rank[i - 1])
            assert_int_equal(s.op, x.r.timeline.op[i - 1] + 1);
        for (int32_t d = 0; d < op->n_deps; d++)
            assert_true(s.start >= end_of[x.plan.deps[op->first_dep + d]]);
        if (op->work_ps > 0)
            assert_true(s.end - s.start >= op->work_ps);
        if (op->kind == LW_OP_ALL_REDUCE)
            assert_true(s.all_in >= s.start && s.all_in <= s.end);
        end_of[s.op] = s.end;
    }
    trial_free(&x);
}

TEST(a_gradient_that_is_reduced_in_part_is_named)
{
    struct trial x = trial();

    x.t.n_params = 4; /* buckets {w03 w02} {w01 w00} */
    x.t.work_ps = 0;
    trial_build(&x);
    for (int32_t i = 0; i < x.plan.n_ops; i++) /* leaves out the last 7 elements */
        if (x.plan.ops[i].kind == LW_OP_ALL_REDUCE && x.plan.ops[i].bucket == 1)
            x.plan.ops[i].bytes -= 7 * 4;
    /* w00 has 1000 elements: the first wrong one is 1000 - 7 = 993 */
    trial_run(&x, LW_ENO, "'w00', element 993, rank 0");
    assert_int_equal(x.r.verified, LW_EXEC_MISMATCH);
    trial_free(&x);
}

TEST(a_lost_gradient_is_named)
{
    struct trial x = trial();

    trial_build(&x);
    for (int32_t b = 0; b < x.plan.n_buckets; b++) /* w00 out of the last bucket's slots */
        if (x.plan.slots[x.plan.buckets[b].first_slot] == 0)
            x.plan.buckets[b].n_slots = 0;
    x.plan.n_buckets -= 1; /* and the bucket itself: its all-reduce goes too */
    x.plan.sets[0].n_buckets -= 1;
    for (int32_t i = 0; i < x.plan.n_ops; i++)
        if (x.plan.ops[i].bucket == x.plan.n_buckets)
            x.plan.ops[i].bucket = -1;
    trial_run(&x, LW_ENO, "'w00', element 0, rank 0");
    assert_non_null(strstr(x.err.msg, "this rank's own"));
    trial_free(&x);
}

/* What exec must refuse even unchecked: it would leave its own memory. */
TEST(unsafe_plans_are_refused)
{
    static const char *const expected[] = {"].stream: found 99", "].deps: found 40",
                                           "].bucket: found 7", "slots end at",
                                           "bytes beyond its bucket"};

    for (int k = 0; k < 5; k++) {
        struct trial x = trial();
        x.t.shift_slot = k == 3 ? 2 : 0;
        trial_build(&x);
        for (int32_t i = 0; i < x.plan.n_ops; i++) {
            struct lw_op *op = &x.plan.ops[i];
            if (op->kind != LW_OP_ALL_REDUCE)
                continue;
            op->stream = k == 0 ? 99 : op->stream;
            op->bucket = k == 2 ? 7 : op->bucket;
            op->bytes += k == 4;
            if (k == 1)
                x.plan.deps[op->first_dep] = 40;
        }
        trial_run(&x, LW_EPLAN, expected[k]);
        trial_free(&x);
    }
}

/* The fault sits in op 7 (the second backward) of rank 1 in step 1. Rank 0 goes on until it needs
 * rank 1. */
static void stops_at(int kind, enum lw_status status, const char *words)
{
    struct trial x = trial();

    trial_build(&x);
    x.o.timeout_ns = INT64_C(2000000000);
    x.o.fault.kind = kind;
    x.o.fault.rank = 1;
    x.o.fault.step = 1;
    x.o.fault.op = 7;
    assert_int_equal(x.plan.ops[7].kind, LW_OP_BACKWARD);
    trial_run(&x, status, words);
    assert_non_null(strstr(x.err.msg, "first unfinished: op 7 (backward) of rank 1"));
    assert_non_null(strstr(x.err.msg, "last finished: op "));
    /* step 0 is kept as a whole, unless rank 0 was still in it when rank 1 failed */
    assert_true(x.r.timeline.n == 0 || x.r.timeline.n == (int64_t)x.plan.n_ops * 2);
    assert_int_equal(x.r.verified, LW_EXEC_NOT_VERIFIED);
    trial_free(&x);
}

TEST(a_rank_that_fails_stops_all)
{
    stops_at(LW_FAULT_FAIL, LW_EFAILED, "step 1: made to fail");
}

TEST(a_rank_that_hangs_stops_all_at_the_deadline)
{
    stops_at(LW_FAULT_HANG, LW_ETIMEOUT, "step 1: not done after 2 s");
}

/* Two collectives swapped: not the order that the gradients ask for. */
TEST(another_launch_order_is_a_failure)
{
    struct trial x = trial();
    int32_t at[2] = {-1, -1};

    x.t.n_ranks = 1; /* no rank to race with: the swapped one begins before its bucket is filled */
    trial_build(&x);
    for (int32_t i = x.plan.n_ops - 1; i >= 0; i--)
        if (x.plan.ops[i].kind == LW_OP_ALL_REDUCE) {
            at[1] = at[0];
            at[0] = i;
        }
    struct lw_op *a = &x.plan.ops[at[0]], *b = &x.plan.ops[at[1]];
    int32_t bucket = a->bucket;
    int64_t bytes = a->bytes;
    a->bucket = b->bucket, a->bytes = b->bytes;
    b->bucket = bucket, b->bytes = bytes;
    /* verified: it is found in advance */
    trial_run(&x, LW_ENO, "does not wait for op 9 (all_reduce, bucket 1)");
    x.o.verify = false;
    trial_run(&x, LW_EFAILED,
              "collective 0 was of bucket 1, but the gradients, as they became ready, "
              "ask for bucket 0");
    trial_free(&x);
}

/* The last all-reduce runs on the compute stream. Nothing else waits for the others, which come
 * before it in their communicator. */
TEST(a_plan_is_ordered_by_its_communicator_alone)
{
    struct trial x = trial();
    int32_t last = -1;

    trial_build(&x);
    for (int32_t i = 0; i < x.plan.n_ops; i++)
        last = x.plan.ops[i].kind == LW_OP_ALL_REDUCE ? i : last;
    x.plan.ops[last].stream = 0;
    for (int32_t i = last + 1; i < x.plan.n_ops; i++)
        x.plan.ops[i].n_deps = 0;
    if (lw_plan_check(&x.plan, &x.err) != LW_OK)
        fail_msg("%s", x.err.msg);
    trial_run(&x, LW_OK, "");
    assert_int_equal(x.r.verified, LW_EXEC_VERIFIED);
    trial_free(&x);
}

/* A paced link: an all-reduce on 2 ranks sends each half twice over a link of 100 MB/s. */
TEST(paced_links_hold_back)
{
    struct trial x = trial();

    x.t.n_params = 1;
    x.t.numel = 50000; /* 200 000 bytes; 2 * 100 000 bytes / (100 MB/s) = 2 ms */
    x.o.link_bytes_per_s = 1e8;
    trial_build(&x);
    trial_run(&x, LW_OK, "");
    assert_int_equal(x.r.honesty, EXEC_PACED);
    for (int64_t i = 0; i < x.r.timeline.n; i++)
        if (x.r.timeline.kind[i] == LW_OP_ALL_REDUCE)
            assert_true(x.r.timeline.end[i] - x.r.timeline.all_in[i] >= 2 * LW_PS_PER_MS);
    trial_free(&x);
}

static void run_by(enum lw_reducer_kind reducer, int32_t ranks_per_node, double link_rate,
                   enum lw_status expected, struct lw_exec_result *r, struct lw_err *err)
{
    struct exec_test_plan t = exec_test_plan_default();
    struct lw_exec_options o = options();
    struct lw_plan plan;

    t.n_ranks = 4;
    t.reducer = reducer;
    t.n_params = 1;
    t.numel = 50000;
    o.ranks_per_node = ranks_per_node;
    o.link_bytes_per_s = link_rate;
    build(&t, &plan);
    if (lw_exec_run(&plan, &o, r, err) != expected)
        fail_msg("%s on %d ranks a node: %s", lw_reducer_name(reducer), ranks_per_node, err->msg);
    lw_plan_free(&plan);
}

TEST(a_plans_reducer_is_used_and_verified)
{
    struct lw_exec_result r;
    struct lw_err err = {0};

    for (int32_t per_node = 1; per_node <= 4; per_node *= 2) {
        run_by(LW_REDUCER_TREE, per_node, 0, LW_OK, &r, &err);
        assert_int_equal(r.verified, LW_EXEC_VERIFIED);
        lw_exec_result_free(&r);
        run_by(LW_REDUCER_HIERARCHICAL, per_node, 0, LW_OK, &r, &err);
        lw_exec_result_free(&r);
        run_by(LW_REDUCER_HFREDUCE, per_node, 0, LW_OK, &r, &err);
        lw_exec_result_free(&r);
    }
    run_by(LW_REDUCER_HFREDUCE, 3, 0, LW_ENOTSUP, &r, &err);
    assert_non_null(strstr(err.msg, "4 members at 3 ranks per node are not laid out so"));
    run_by(LW_REDUCER_NVLS, 2, 0, LW_ENOTSUP, &r, &err);
    assert_non_null(strstr(err.msg, "no reducer 'nvls' (ring, tree, hierarchical, hfreduce)"));
}

/* Four ranks on two nodes, 200 000 bytes, 100 MB/s between nodes alone. hfreduce: the firsts
 * exchange halves: each pulls 100 000 bytes up and 100 000 down its trees, 2 ms. hierarchical:
 * of its 100 000 bytes each rank pulls 50 000 twice, 1 ms; and a ring over all links would take
 * 3 ms. */
TEST(only_links_between_nodes_are_paced)
{
    static const struct { enum lw_reducer_kind reducer; lw_ps least; } cases[] = {
        {LW_REDUCER_HFREDUCE, 2 * LW_PS_PER_MS}, {LW_REDUCER_HIERARCHICAL, LW_PS_PER_MS}};
    struct lw_exec_result r;
    struct lw_err err = {0};

    for (int c = 0; c < 2; c++) {
        lw_ps shortest = INT64_MAX;
        run_by(cases[c].reducer, 2, 1e8, LW_OK, &r, &err);
        for (int64_t i = 0; i < r.timeline.n; i++) {
            lw_ps t = r.timeline.end[i] - r.timeline.all_in[i];
            if (r.timeline.kind[i] == LW_OP_ALL_REDUCE && r.timeline.rank[i] == 0 && t < shortest)
                shortest = t;
        }
        assert_true(shortest >= cases[c].least && shortest < INT64_MAX);
        lw_exec_result_free(&r);
    }
}

/* Collectives without buckets carry numbers of their own, which are checked. */
TEST(other_collectives_are_checked)
{
    static const enum lw_op_kind kinds[] = {LW_OP_ALL_REDUCE, LW_OP_BROADCAST, LW_OP_ALL_GATHER,
                                            LW_OP_REDUCE_SCATTER, LW_OP_REDUCE, LW_OP_ALL_TO_ALL,
                                            LW_OP_BARRIER};
    static const int64_t bytes[] = {2002, 4004, 2002, 4004, 2002, 3 * 333 * 4, 0};
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};

    struct lw_plan plan = exec_collectives_plan(kinds, bytes, 7);
    assert_ok(lw_exec_run(&plan, &o, &r, &err), err);
    /* of 4 steps, one of them not measured: all-reduce 3*1001*2, broadcast 3*1001*4, all-gather
     * 3*1001*2, reduce-scatter 1001*4 in all, reduce 1001*2 at the root, all-to-all 3*999*4 */
    assert_int_equal(r.n_compared_steps, 4);
    assert_int_equal(r.n_checked_message_bytes, 4 * (1001 * (6 + 12 + 6 + 4 + 2) + 999 * 12));
    assert_int_equal(r.n_checked_bytes, 0); /* no parameters */
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
}

TEST(blocks_that_go_to_the_wrong_member_are_named)
{
    static const enum lw_op_kind kind = LW_OP_ALL_TO_ALL;
    static const int64_t bytes = 3 * 100 * 2;
    struct exec_backend wrong = exec_backend_reversed(&exec_backend_threads);
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};

    o.backend = &wrong;
    struct lw_plan plan = exec_collectives_plan(&kind, &bytes, 1);
    assert_int_equal(lw_exec_run(&plan, &o, &r, &err), LW_ENO);
    /* rank 0 stands in the middle either way: its block 0 came from rank 1 instead of rank 2 */
    assert_non_null(strstr(err.msg, "op 0 (all_to_all ), element 0, rank 0: "));
    assert_non_null(strstr(err.msg, "; it is block 1 of rank 1, not block 1 of rank 2"));
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
}

TEST(an_all_to_all_needs_equal_blocks_and_a_backend_that_has_it)
{
    static const enum lw_op_kind kind = LW_OP_ALL_TO_ALL;
    static const int64_t bytes = 2 * 100;
    struct exec_backend without = exec_backend_threads;
    struct lw_exec_options o = options();

    struct lw_plan plan = exec_collectives_plan(&kind, &bytes, 1);
    exec_ends(&plan, &o, LW_ENOTSUP,
              "op 0 (all_to_all) of rank 0: all_to_all of 100 elements "
              "among 3 ranks: not equal blocks");
    without.capabilities &= ~(uint32_t)EXEC_CAN_ALL_TO_ALL;
    o.backend = &without;
    exec_ends(&plan, &o, LW_ENOTSUP, "op 0: backend 'threads' does not support all_to_all");
    lw_plan_free(&plan);
}

TEST(out_of_memory_leaves_nothing)
{
    struct exec_test_plan t = exec_test_plan_default();
    struct lw_exec_options o = options();
    struct lw_plan plan;
    enum lw_status s;
    int64_t n = 1;

    t.work_ps = 0;
    o.n_steps = 1;
    build(&t, &plan);
    int64_t live = lw_alloc_live();
    do {
        struct lw_exec_result r = {0};
        struct lw_err err = {0};
        lw_alloc_fail_at(n++);
        s = lw_exec_run(&plan, &o, &r, &err);
        lw_alloc_fail_at(0);
        lw_exec_result_free(&r);
        assert_int_equal(lw_alloc_live(), live);
        if (s != LW_OK && s != LW_ENOMEM && s != LW_EFAILED)
            fail_msg("allocation %lld: %s", (long long)n, err.msg);
    } while (s != LW_OK && n < 2000);
    assert_int_equal(s, LW_OK);
    assert_true(n > 20);
    lw_plan_free(&plan);
}

TEST(backends_say_why_not)
{
    struct exec_listing list[EXEC_N_BACKENDS];
    const struct exec_backend *b;
    struct lw_err err = {0};

    unsetenv("LAPWING_PLUGINS"); /* nor is it beside this test */
    exec_backend_list(list);
    assert_string_equal(list[0].name, "threads");
    assert_ptr_equal(list[0].backend, &exec_backend_threads);
    for (int i = 1; i < EXEC_N_BACKENDS; i++)
        assert_int_equal(list[i].backend == NULL, list[i].reason[0] != '\0');
    assert_non_null(strstr(list[1].reason, "lapwing-openmpi.so is not in $LAPWING_PLUGINS"));
    assert_int_equal(exec_backend_find("mpi", &b, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, list[1].reason));
    assert_int_equal(exec_backend_find("rdma", &b, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "threads, mpi, nccl"));
}

TEST(backend_tables_are_checked)
{
    struct exec_backend b = exec_backend_threads;
    struct lw_err err = {0};

    assert_int_equal(exec_backend_check(&b, &err), LW_OK);
    b.comm_reducer = NULL; /* a bit without its function */
    assert_int_equal(exec_backend_check(&b, &err), LW_ENOTSUP);
    b = exec_backend_threads;
    b.api_version++;
    assert_int_equal(exec_backend_check(&b, &err), LW_ENOTSUP);
    b = exec_backend_threads;
    b.poll = NULL;
    assert_int_equal(exec_backend_check(&b, &err), LW_ENOTSUP);
    b = exec_backend_threads;
    b.communicate = NULL;
    assert_int_equal(exec_backend_check(&b, &err), LW_ENOTSUP);
}

/* Infinite on both sides: equal bit by bit, and no proof. */
TEST(weights_that_are_no_numbers_prove_nothing)
{
    struct trial x = trial();

    x.o.optimizer = exec_optimizer_of(EXEC_SGD);
    x.o.optimizer.rate = INFINITY;
    trial_build(&x);
    trial_run(&x, LW_ENO, "in the one-rank run; change --momentum or --optimizer");
    trial_free(&x);
}
