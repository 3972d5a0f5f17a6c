/* The small plans that calibrate runs: exec/calibrate/calibrate_plan.h. */
#include "tests/lib/unit.h"

#include "exec/calibrate/calibrate_plan.h"
#include "exec/run/run.h"
#include "tests/lib/failing_alloc.h"

static const int64_t sizes[] = {1024, 4096, 100000};
static const lw_ps works[] = {0, 0, 0};
static const int64_t flops[] = {16, 54};

enum {
    ALONE, BESIDE, PASSES, PASSES_HALF, PASSES_CAST, COPIES, UPDATES, PRODUCTS, KERNELS, OVERLAP,
    COLLECTIVES, BARRIERS, PAIRS, WITH_COMPUTE, MESSAGES, MESSAGES_BOTH, N_PLANS,
};

static enum lw_status build(int which, int32_t n, struct lw_plan *p, struct lw_err *err)
{
    static const int64_t none[] = {0, 0};

    static const enum lw_op_kind kinds[] = {LW_OP_BARRIER, LW_OP_BROADCAST, LW_OP_ALL_GATHER};

    switch (which) {
    case ALONE: return exec_plan_reduce(n, sizes, 3, 0, NULL, p, err);
    case BESIDE: return exec_plan_reduce(n, sizes, 3, LW_PS_PER_MS / 5, works, p, err);
    case PASSES: return exec_plan_passes(n, LW_F32, LW_F32, sizes, 3, p, err);
    case PASSES_HALF: return exec_plan_passes(n, LW_BF16, LW_BF16, sizes, 3, p, err);
    case PASSES_CAST: return exec_plan_passes(n, LW_F32, LW_F16, sizes, 3, p, err);
    case COPIES: return exec_plan_copies(n, sizes, 3, p, err);
    case UPDATES: return exec_plan_updates(n, sizes, 3, 0, p, err);
    case PRODUCTS: return exec_plan_products(n, flops, 2, p, err);
    case KERNELS: return exec_plan_kernels(n, 3, 0, p, err);
    case COLLECTIVES:
        return exec_plan_collectives(n, n, 1, &kinds[1], 1, sizes, 3, 0, p, err);
    case BARRIERS: return exec_plan_collectives(n, n, 1, &kinds[0], 1, none, 2, 0, p, err);
    case PAIRS: return exec_plan_collectives(n, n, 1, &kinds[1], 2, sizes, 3, 0, p, err);
    case WITH_COMPUTE:
        return exec_plan_with_compute(n, LW_OP_ALL_GATHER, sizes, 3, 0, works, p, err);
    case MESSAGES: return exec_plan_messages(n, 1, sizes, 3, false, 0, p, err);
    case MESSAGES_BOTH: return exec_plan_messages(n, 1, sizes, 3, true, 0, p, err);
    default: return exec_plan_overlap(n, 4096, 3, 0, p, err);
    }
}

static void make(int which, int32_t n, struct lw_plan *p)
{
    struct lw_err err = {0};

    if (build(which, n, p, &err) != LW_OK)
        fail_msg("plan %d of %d ranks: %s", which, n, err.msg);
}

/* Every variant once, with the contents of what has no bucket compared. Plans with buckets never
 * update their parameters, which a verified run would miss. */
static void run(int which, int32_t n)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_result r;
    struct lw_err err = {0};
    struct lw_plan p;
    int64_t rows = 0;

    make(which, n, &p);
    o.compute = which == PRODUCTS ? EXEC_COMPUTE_GEMM : EXEC_COMPUTE_SPIN;
    o.n_steps = p.n_passes;
    o.n_warmup = 0;
    o.verify = which >= KERNELS;
    if (lw_exec_run(&p, &o, &r, &err) != LW_OK)
        fail_msg("plan %d of %d ranks: %s", which, n, err.msg);
    for (int32_t pass = 0; pass < p.n_passes; pass++)
        for (int32_t rank = 0; rank < n; rank++)
            rows += lw_plan_program(&p, p.pass_variant[pass], rank).n_ops;
    assert_int_equal(r.timeline.n, rows);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

TEST(plans_of_two_and_three_ranks_run)
{
    for (int which = 0; which < N_PLANS; which++)
        for (int32_t n = 2; n <= 3; n++)
            run(which, n);
}

/* Two nodes of two ranks: 0 with 2, 1 with 3; a fifth rank has no partner. */
TEST(messages_between_nodes_pair_ranks_of_two_nodes)
{
    for (int32_t n = 4; n <= 5; n++)
        for (int both = 0; both < 2; both++) {
            struct lw_exec_options o = lw_exec_options_default();
            struct lw_exec_result r;
            struct lw_plan p;
            struct lw_err err = {0};
            int64_t there = 1024 + 4096 + 100000;
            o.compute = EXEC_COMPUTE_SPIN;
            o.n_steps = 2;
            o.n_warmup = 0;
            assert_ok(exec_plan_messages(n, 2, sizes, 3, both, 0, &p, &err), err);
            assert_ok(lw_plan_check(&p, &err), err);
            for (int32_t rank = 0; rank < n; rank++) {
                struct lw_program g = lw_plan_program(&p, 1, rank);
                int64_t bytes = 0;
                for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
                    if (lw_op_class(p.ops[i].kind) == LW_CLASS_P2P) {
                        struct lw_operand to = lw_plan_operand(&p, &p.ops[i], rank);
                        assert_int_equal(to.peer, rank < 2 ? rank + 2 : rank - 2);
                        bytes += p.ops[i].kind == LW_OP_SEND ? to.bytes : 0;
                    }
                assert_int_equal(bytes, rank == 4 ? 0 : there * (both ? 2 : 1));
            }
            assert_ok(lw_exec_run(&p, &o, &r, &err), err);
            lw_exec_result_free(&r);
            lw_plan_free(&p);
        }
}

/* 1024 bytes are 256 elements, of which 255 go in 3 equal blocks. The first step is an
 * all-reduce of the largest size. */
TEST(an_all_to_all_of_three_ranks_has_equal_blocks)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_result r;
    const enum lw_op_kind all_to_all = LW_OP_ALL_TO_ALL;
    struct lw_plan p;
    struct lw_err err = {0};

    o.compute = EXEC_COMPUTE_SPIN;
    o.n_steps = 2;
    o.n_warmup = 0;
    assert_ok(exec_plan_collectives(3, 3, 1, &all_to_all, 1, sizes, 3, 0, &p, &err), err);
    assert_int_equal(p.ops[lw_plan_program(&p, 1, 0).first_op + 1].bytes, 1020);
    assert_ok(lw_exec_run(&p, &o, &r, &err), err);
    assert_int_equal(r.n_checked_message_bytes, 3 * 100000 + 3 * (1020 + 4092 + 99996));
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

/* Ranks 0 and 1 meet, and ranks 2 and 3 beside them; or ranks 0 and 2, and 1 and 3. The root of a
 * group is its first member. */
static void two_groups_meet(enum lw_op_kind kind, int32_t stride)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_result r;
    struct lw_plan p;
    struct lw_err err = {0};

    o.compute = EXEC_COMPUTE_SPIN;
    o.n_steps = 2;
    o.n_warmup = 0;
    assert_ok(exec_plan_collectives(4, 2, stride, &kind, 1, sizes, 3, 0, &p, &err), err);
    int32_t comm = p.ops[lw_plan_program(&p, 1, 0).first_op + 1].comm;
    const int32_t *group = p.comm_group + (int64_t)comm * p.n_ranks;
    assert_int_equal(group[0], group[stride]);
    assert_int_equal(group[3 - stride], group[3]);
    assert_int_not_equal(group[0], group[3]);
    assert_ok(lw_exec_run(&p, &o, &r, &err), err);
    assert_true(r.n_checked_message_bytes > 0);
    if (kind == LW_OP_ALL_GATHER)
        assert_int_equal(r.n_checked_message_bytes, 4 * (100000 + 1024 + 4096 + 100000));
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

TEST(groups_of_two_of_four_ranks_run_at_once)
{
    static const enum lw_op_kind kinds[] = {LW_OP_ALL_GATHER, LW_OP_BROADCAST, LW_OP_REDUCE,
                                            LW_OP_REDUCE_SCATTER, LW_OP_ALL_TO_ALL};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int32_t stride = 1; stride <= 2; stride++)
            two_groups_meet(kinds[i], stride);
}

/* So that no buffer is left of zeros that no op wrote. */
TEST(the_first_step_writes_what_is_moved)
{
    static const int which[] = {COLLECTIVES, PAIRS, MESSAGES, MESSAGES_BOTH};
    static const int32_t n_streams[] = {1, 2, 1, 2};

    for (int k = 0; k < 4; k++) {
        struct lw_plan p;
        make(which[k], 2, &p);
        assert_int_equal(p.n_passes, 2);
        assert_int_equal(p.repeat_from, 1);
        for (int32_t rank = 0; rank < 2; rank++) {
            struct lw_program g = lw_plan_program(&p, 0, rank);
            assert_int_equal(g.n_ops, n_streams[k]);
            for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
                assert_int_equal(p.ops[i].kind, LW_OP_ALL_REDUCE);
                assert_int_equal(p.ops[i].bytes, 100000);
            }
            assert_true(n_streams[k] == 1 ||
                        p.ops[g.first_op].stream != p.ops[g.first_op + 1].stream);
        }
        lw_plan_free(&p);
    }
}

static void op_is(const struct lw_plan *p, int32_t rank, int32_t i, enum lw_op_kind kind,
                  int32_t size, int32_t peer, int64_t bytes)
{
    const struct lw_op *op = &p->ops[lw_plan_program(p, 1, rank).first_op + i];

    assert_int_equal(op->kind, kind);
    assert_int_equal(op->module, size);
    assert_int_equal(lw_plan_operand(p, op, rank).peer, peer);
    assert_int_equal(lw_plan_operand(p, op, rank).bytes, bytes);
}

/* Five ranks are two pairs and one that looks on. Of each pair the left one sends first and then
 * receives the same size; both ways, the other message goes against it. */
TEST(neighbours_send_there_and_back)
{
    struct lw_plan p;

    make(MESSAGES, 5, &p);
    assert_int_equal(lw_plan_program(&p, 1, 0).n_ops, 3 * 4);
    assert_int_equal(lw_plan_program(&p, 1, 4).n_ops, 1);
    for (int32_t left = 0; left < 4; left += 2) {
        op_is(&p, left, 0, LW_OP_KERNEL, 0, -1, 0);
        op_is(&p, left, 1, LW_OP_SEND, 0, left + 1, 1024);
        op_is(&p, left + 1, 1, LW_OP_RECV, 0, left, 1024);
        op_is(&p, left, 3, LW_OP_RECV, 0, left + 1, 1024);
        op_is(&p, left + 1, 3, LW_OP_SEND, 0, left, 1024);
        op_is(&p, left, 9, LW_OP_SEND, 2, left + 1, 100000);
    }
    lw_plan_free(&p);

    make(MESSAGES_BOTH, 2, &p);
    assert_int_equal(lw_plan_program(&p, 1, 0).n_ops, 3 * 8);
    op_is(&p, 0, 2, LW_OP_SEND, 0, 1, 1024);
    op_is(&p, 0, 3, LW_OP_RECV, 0, 1, 1024);
    op_is(&p, 1, 2, LW_OP_RECV, 0, 0, 1024);
    op_is(&p, 1, 3, LW_OP_SEND, 0, 0, 1024);
    op_is(&p, 0, 6, LW_OP_RECV, 0, 1, 1024);
    op_is(&p, 0, 7, LW_OP_SEND, 0, 1, 1024);
    lw_plan_free(&p);
}

/* f32 gradients of 1024, 4096 and 100000 bytes, reduced as f16: half as many on the wire. */
TEST(passes_go_by_their_types)
{
    static const enum lw_op_kind kinds[] = {LW_OP_BACKWARD, LW_OP_KERNEL, LW_OP_COPY_IN,
                                            LW_OP_CAST};
    struct lw_plan p;

    make(PASSES_CAST, 2, &p);
    assert_int_equal(p.n_ops, 3 * (4 + 2 + 1));
    for (int32_t i = 0; i < 12; i++)
        assert_int_equal(p.ops[i].kind, kinds[i % 4]);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(p.ops[4 * i + 3].dtype, LW_F16);
        assert_int_equal(p.ops[4 * i + 3].bytes, sizes[i]);
        assert_int_equal(p.buckets[i].dtype, LW_F16);
        assert_int_equal(p.buckets[i].bytes, sizes[i] / 2);
        assert_int_equal(p.ops[12 + 2 * i].kind, LW_OP_ALL_REDUCE);
        assert_int_equal(p.ops[12 + 2 * i].bytes, sizes[i] / 2);
        assert_int_equal(p.ops[13 + 2 * i].kind, LW_OP_CAST);
        assert_int_equal(p.ops[13 + 2 * i].dtype, LW_F32);
        assert_int_equal(p.ops[18 + i].kind, LW_OP_COPY_OUT);
    }
    lw_plan_free(&p);
    make(PASSES, 2, &p);
    assert_int_equal(p.n_ops, 3 * (3 + 1 + 1)); /* no casts */
    lw_plan_free(&p);
}

TEST(a_step_of_updates_is_one_size)
{
    struct lw_plan p;

    make(UPDATES, 2, &p);
    assert_int_equal(p.n_passes, 3);
    assert_int_equal(p.repeat_from, 0);
    for (int32_t i = 0; i < 3; i++) {
        const struct lw_op *op = &p.ops[lw_plan_program(&p, p.pass_variant[i], 0).first_op];
        assert_int_equal(op[0].kind, LW_OP_BACKWARD);
        assert_int_equal(p.ready[op[0].first_ready], i);
        assert_int_equal(op[2].kind, LW_OP_OPTIMIZER);
        assert_int_equal(op[2].module, i);
        assert_int_equal(p.params[i].numel, sizes[i] / 4);
    }
    lw_plan_free(&p);
}

TEST(failing_allocations_leave_nothing)
{
    for (int which = 0; which < N_PLANS; which++) {
        struct lw_plan p = {0};
        struct lw_err err = {0};
        EACH_ALLOCATION_FAILS(5, build(which, 3, &p, &err), p, lw_plan_free(&p));
    }
}
