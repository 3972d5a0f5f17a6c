/* What has ended when an op begins: shared/check/message_order.h.
 *
 * The tiny workload on two stages, a and b | c; a message is an activation or a gradient. Ops of
 * one micro-batch k: Sk sends its activation, Tk takes it (c's forward), Gk sends its gradient, Rk
 * receives that, Bk takes it (b's backward). */
#include "tests/lib/unit.h"

#include "shared/check/message_order.h"
#include "shared/plan/op.h"
#include "shared/plan/plan_builder.h"
#include "tests/lib/plans/message_plan.h"

/* The op of a kind, module and micro-batch on a rank; module -1 = any. */
static int32_t find(const struct lw_plan *p, int32_t rank, enum lw_op_kind kind, int32_t module,
                    int32_t micro_batch)
{
    const struct lw_program g = lw_plan_program(p, 0, rank);

    for (int32_t i = 0; i < g.n_ops; i++) {
        const struct lw_op *op = &p->ops[g.first_op + i];
        if (op->kind == kind && (module < 0 || op->module == module) &&
            op->micro_batch == micro_batch)
            return g.first_op + i;
    }
    fail_msg("rank %d has no %s of micro-batch %d", rank, lw_op_name(kind), micro_batch);
    return -1;
}

static struct lw_message_order order_of(const struct lw_plan *p, int32_t rank)
{
    struct lw_message_order o;
    struct lw_err err = {0};

    assert_ok(lw_message_order_init(&o, p, 0, &err), err);
    lw_message_order_set(&o, p->role_of[rank]);
    return o;
}

/* Rank 0 of 1f1b: F0 S0 F1 S1 B0 F2 S2 B1 ...; rank 1: T0 G0 T1 G1 ... B0 needs gradient 0,
 * which rank 1 sends after it received S0. Nothing orders B0 after the receive of S1: rank 1 may
 * send gradient 0 before it. */
TEST(a_gradient_says_that_its_activation_is_read)
{
    struct lw_plan p = message_plan("pp 2 micro-batches 4");
    struct lw_message_order o = order_of(&p, 0);
    int32_t b0 = find(&p, 0, LW_OP_BACKWARD, 1, 0), b1 = find(&p, 0, LW_OP_BACKWARD, 1, 1);

    assert_true(lw_ended_before(&o, find(&p, 0, LW_OP_SEND, -1, 0), b0));
    assert_false(lw_ended_before(&o, find(&p, 0, LW_OP_SEND, -1, 1), b0));
    assert_true(lw_ended_before(&o, find(&p, 0, LW_OP_SEND, -1, 1), b1));
    assert_true(lw_ended_before(&o, find(&p, 0, LW_OP_SEND, -1, 0),
                                find(&p, 0, LW_OP_FORWARD, 0, 2)));
    assert_false(lw_ended_before(&o, b1, b0));
    lw_message_order_free(&o);
    lw_plan_free(&p);
}

/* Rank 1 posts all receives at once. Activation 2 is sent after B0, which had gradient 0, which
 * is made after T0; and not after T1. */
TEST(data_comes_when_its_sender_has_begun)
{
    struct lw_plan p = message_plan("pp 2 micro-batches 4");
    struct lw_message_order o = order_of(&p, 1);
    int32_t come = find(&p, 1, LW_OP_RECV, -1, 2);

    assert_true(lw_ended_before(&o, find(&p, 1, LW_OP_FORWARD, 2, 0), come));
    assert_false(lw_ended_before(&o, find(&p, 1, LW_OP_FORWARD, 2, 1), come));
    lw_message_order_free(&o);
    lw_plan_free(&p);
}

TEST(unmatched_message_orders_nothing)
{
    struct lw_plan p = message_plan("pp 2 micro-batches 4");
    struct lw_op *send = &p.ops[find(&p, 0, LW_OP_SEND, -1, 3)];

    send->kind = LW_OP_EVENT_WAIT;
    send->comm = send->operand = -1;
    struct lw_message_order o = order_of(&p, 0);
    assert_false(lw_ended_before(&o, find(&p, 0, LW_OP_FORWARD, 0, 0),
                                 find(&p, 0, LW_OP_FORWARD, 1, 0)));
    lw_message_order_free(&o);
    lw_plan_free(&p);
}

/* --- calls and roles: by hand --- */

struct hand {
    struct lw_builder *b;
    int32_t stream[3], comm[3];
};

/* n ranks, each of a role of its own or all of one; streams and communicators x, y and compute. */
static struct hand hand_begin(int32_t n, bool one_role)
{
    struct hand h = {.b = lw_builder_new("hand", n)};
    int32_t members[4] = {0, 1, 2, 3};

    for (int32_t r = 0; r < (one_role ? 1 : n); r++) {
        struct lw_role role = {.name = "r"};
        lw_builder_role(h.b, &role);
    }
    for (int32_t r = 0; r < n; r++)
        lw_builder_rank(h.b, r, one_role ? 0 : r, r, 0, 0);
    for (int i = 0; i < 3; i++) {
        h.stream[i] = lw_builder_stream(h.b, i < 2 ? "comm" : "compute",
                                        i < 2 ? LW_STREAM_COMM : LW_STREAM_COMPUTE, 0);
        h.comm[i] =
            i < 2 ? lw_builder_comm(h.b, "c", LW_COMM_RECORDED, LW_REDUCER_AUTO, h.stream[i]) : -1;
        if (i < 2)
            lw_builder_group(h.b, h.comm[i], members, n);
    }
    return h;
}

static int32_t hand_op(struct hand *h, enum lw_op_kind kind, int lane, int32_t peer, int32_t call,
                       int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, h->stream[lane]);

    op.work_ps = kind == LW_OP_KERNEL ? 0 : -1;
    op.comm = kind == LW_OP_KERNEL ? -1 : h->comm[lane];
    op.peer = peer;
    op.call = call;
    op.bytes = kind == LW_OP_KERNEL ? 0 : 80;
    return lw_builder_op(h->b, &op, &dep, dep >= 0);
}

static struct lw_plan hand_end(struct hand *h)
{
    struct lw_plan p;
    struct lw_err err = {0};

    lw_builder_pass(h->b, 0);
    lw_builder_repeat_from(h->b, 0);
    assert_ok(lw_builder_finish(h->b, &p, &err), err);
    return p;
}

/* Rank 0 receives A and sends B in one call, then hears C. Rank 1 sends C when it has B, and A
 * after that: B is read when C is there, A need not have come; a clock of the stream cannot say
 * the one without the other. */
TEST(of_a_call_nothing_is_over_before_all_of_it)
{
    struct hand h = hand_begin(2, false);

    int32_t v = lw_builder_variant(h.b, "steady", "", true);
    lw_builder_program(h.b, v, 0);
    int32_t a = hand_op(&h, LW_OP_RECV, 0, 1, 7, -1), b = hand_op(&h, LW_OP_SEND, 0, 1, 7, -1);
    int32_t c = hand_op(&h, LW_OP_RECV, 1, 1, -1, -1);
    int32_t heard = hand_op(&h, LW_OP_KERNEL, 2, -1, -1, c);
    int32_t both = hand_op(&h, LW_OP_KERNEL, 2, -1, -1, a);
    lw_builder_program(h.b, v, 1);
    int32_t got = hand_op(&h, LW_OP_RECV, 0, 0, -1, -1);
    int32_t told = hand_op(&h, LW_OP_SEND, 1, 0, -1, got);
    hand_op(&h, LW_OP_SEND, 0, 0, -1, told);
    struct lw_plan p = hand_end(&h);
    struct lw_message_order o = order_of(&p, 0);
    assert_false(lw_ended_before(&o, a, heard));
    assert_false(lw_ended_before(&o, b, heard));
    assert_true(lw_ended_before(&o, c, heard));
    assert_true(lw_ended_before(&o, b, both));
    assert_false(lw_ended_before(&o, b, a)); /* they begin together */
    lw_message_order_free(&o);
    lw_plan_free(&p);
}

static bool is_known(const struct lw_plan *p)
{
    struct lw_message_order o = order_of(p, 0);
    bool known = o.known;

    lw_message_order_free(&o);
    return known;
}

TEST(replicas_of_a_pipeline_are_alike_and_rings_of_one_role_are_not)
{
    struct lw_plan p = message_plan("pp 3 dp 2 micro-batches 2");

    assert_true(is_known(&p));
    for (int32_t i = 0; i < p.n_ops; i++) /* one replica's first stage sends to the last one's */
        if (p.ops[i].kind == LW_OP_SEND && p.ops[i].operand >= 0) {
            p.operands[p.operand_first[p.ops[i].operand]].peer = 4;
            break;
        }
    assert_false(is_known(&p));
    lw_plan_free(&p);
    struct hand h = hand_begin(2, true); /* each sends to rank 0: not even a ring */
    lw_builder_program(h.b, lw_builder_variant(h.b, "steady", "", true), 0);
    hand_op(&h, LW_OP_SEND, 0, 0, -1, -1);
    p = hand_end(&h);
    assert_false(is_known(&p));
    lw_plan_free(&p);
}
