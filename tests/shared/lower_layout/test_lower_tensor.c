/* Tensor parallelism and recomputation in programs: docs/design/lower_parallel.md. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_build.h"

enum { ROOM = 4096 };

/* The block's times are whole to 0.5 us in forward; c is split by columns with one sum in
 * backward. */
static void init(struct tiny *t)
{
    tiny_block(t);
    t->modules[1].whole_forward_ps = LW_PS_PER_US / 2;
    t->modules[2].tp_split = LW_TP_COLUMN;
    t->modules[2].tp_backward_bytes = 600;
    t->params[C_WEIGHT].tp_split = LW_TP_COLUMN;
}

static struct lw_strategy two_way(void)
{
    struct lw_strategy s = strategy("tp 2");

    return s;
}

/* Letter and module, ':' length in ns; sums with their bytes after '/'. */
static const char *ops_of(const struct lw_plan *p, const char *variant, char *text)
{
    struct lw_program g = lw_plan_program(p, find_variant(p, variant), 0);
    size_t at = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        at += (size_t)snprintf(text + at, ROOM - at, "%s%s", i > g.first_op ? " " : "",
                               lw_op_letter(o->kind));
        if (o->module >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "%d", o->module);
        if (o->comm >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "/%lld", (long long)o->bytes);
        else if (lw_plan_work_ps(p, o) > 0)
            at += (size_t)snprintf(text + at, ROOM - at, ":%lld",
                                   (long long)(lw_plan_work_ps(p, o) / LW_PS_PER_NS));
    }
    return text;
}

/* Forward: a 1 us; b 0.5 + 1.5 / 2 = 1.25 us in two halves of 625 ns, a sum of 1000 bytes after
 * each; c 3 / 2 = 1.5 us. Backward: c 6 / 2 = 3 us, its gradient ready at 5/6 of it, a sum at the
 * end; b 4 / 2 = 2 us, b.bias ready at half, where the first sum is, b.weight at the end; a 2 us.
 * Optimizer: 100 + 100 + 2 + 150 of 602 elements in 7 us, 4093.02 rounded up. */
TEST(a_rank_has_its_share_and_sums_activations)
{
    struct tiny t;
    struct lw_strategy s = two_way();
    char text[ROOM];

    init(&t);
    struct lw_plan p = build(&t, &s);
    assert_string_equal(ops_of(&p, "first", text),
                        "F0:1000 F1:625 AR1/1000 F1:625 AR1/1000 F2:1500 B2:2500 B2:500 AR2/600 "
                        "B1:1000 AR1/1000 B1:1000 AR1/1000 B0:2000 O:4093");
    assert_int_equal(p.n_ranks, 2);
    assert_int_equal(p.n_roles, 1);
    assert_int_equal(p.params[B_WEIGHT].numel, 100);
    assert_int_equal(p.params[C_WEIGHT].numel, 150);
    assert_int_equal(p.params[B_BIAS].numel, 2);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_PARAMS], (100 + 100 + 2 + 150) * 4);
    assert_string_equal(p.comms[0].name, "tensor");
    assert_int_equal(p.comms[0].purpose, LW_COMM_TENSOR);
    /* the second half of b waits for the sum of the first, c for that of the second */
    for (int32_t i = 3; i <= 5; i += 2) {
        assert_int_equal(p.ops[i].n_deps, 1);
        assert_int_equal(p.deps[p.ops[i].first_dep], i - 1);
    }
    assert_true(has_note(&p, "split modules take their whole part and 1/2 of the rest"));
    assert_false(has_note(&p, "their kernels"));
    lw_plan_free(&p);
}

/* Data groups join ranks of one tensor coordinate: 0 and 2, 1 and 3. */
TEST(gradients_are_reduced_among_equal_shares)
{
    struct tiny t;
    struct lw_strategy s = two_way();

    init(&t);
    s.dp = 2;
    struct lw_plan p = build(&t, &s);
    const struct lw_group *g = lw_plan_group(&p, 0, 3);
    assert_string_equal(p.comms[0].name, "data");
    assert_int_equal(g->n_members, 2);
    assert_int_equal(p.members[g->first_member], 1);
    assert_int_equal(p.members[g->first_member + 1], 3);
    assert_int_equal(p.buckets[0].bytes, (100 + 100 + 2 + 150) * 4);
    lw_plan_free(&p);
    s.pp = 2;
    s.zero = 1;
    s.bucket_policy = LW_BUCKET_SHARDED_DDP;
    p = build(&t, &s);
    /* stage 1 holds c.weight alone, 150 elements, owned by the data group's first member: rank 4 is
     * (tensor 0, data 0), 6 is its group's other; 5 and 7 are the other group */
    int32_t sent = 0;
    for (int32_t i = 0; i < p.n_ops; i++) {
        const struct lw_op *o = &p.ops[i];
        if (o->kind != LW_OP_BROADCAST || o->stage != 1)
            continue;
        assert_int_equal(lw_plan_operand(&p, o, 6).peer, 4);
        assert_int_equal(lw_plan_operand(&p, o, 7).peer, 5);
        assert_int_equal(lw_plan_operand(&p, o, 7).bytes, 600);
        sent++;
    }
    assert_true(sent > 0);
    lw_plan_free(&p);
}

/* Full: each module's forward again, with its sums, before its backward. */
TEST(a_forward_is_done_again_before_its_backward)
{
    struct tiny t;
    struct lw_strategy s = two_way();
    char text[ROOM];

    init(&t);
    s.recompute = LW_RECOMPUTE_FULL;
    struct lw_plan p = build(&t, &s);
    assert_string_equal(ops_of(&p, "first", text),
                        "F0:1000 F1:625 AR1/1000 F1:625 AR1/1000 F2:1500 K2:1500 B2:2500 B2:500 "
                        "AR2/600 K1:625 AR1/1000 K1:625 AR1/1000 B1:1000 AR1/1000 B1:1000 AR1/1000 "
                        "K0:1000 B0:2000 O:4093");
    lw_plan_free(&p);
    s.tp = 1;
    s.recompute = LW_RECOMPUTE_SELECTIVE;
    t.modules[1].selective_ps = 700 * LW_PS_PER_NS;
    p = build(&t, &s);
    assert_string_equal(ops_of(&p, "first", text),
                        "F0:1000 F1:2000 F2:3000 B2:5000 B2:1000 K1:700 B1:2000 B1:2000 B0:2000 "
                        "O:7000");
    lw_plan_free(&p);
}

TEST(indivisible_parameter_is_refused_and_vocabulary_is_padded)
{
    struct tiny t;
    struct lw_strategy s = two_way();

    init(&t);
    s.tp = 3;
    expect_refusal(&t, &s, LW_EINVAL,
                   "parameter 1 'b.weight' has 200 elements, not a multiple of 3");
    t.params[B_WEIGHT].tp_split = LW_TP_VOCAB; /* 67 each */
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.params[B_WEIGHT].numel, 67);
    lw_plan_free(&p);
    tiny_init(&t);
    expect_refusal(&t, &s, LW_EINVAL, "names no module that tensor parallelism splits");
    s.tp = 1;
    s.recompute = LW_RECOMPUTE_SELECTIVE;
    expect_refusal(&t, &s, LW_EINVAL, "does not give the time that it repeats");
}

TEST(running_out_of_memory_leaves_nothing)
{
    struct tiny t;
    struct lw_strategy s = two_way();

    init(&t);
    s.pp = s.dp = 2;
    s.zero = 1;
    s.recompute = LW_RECOMPUTE_FULL;
    assert_true(build_without_memory(&t.w, &s, NULL) > 20);
}
