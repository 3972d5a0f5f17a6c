/* What PyTorch's DDP and pipelines do with micro-batches: --sync-each-micro-batch,
 * --gradient-as-bucket-view, --accumulate-pass, --async-messages. The workload is that of
 * tests/lib/plans/tiny_workload.h: a.weight 100 elements, b.weight 200, b.bias 2, c.weight 300, all
 * f32; the optimizer takes 7 us for all 602. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "tests/lib/plans/find_op.h"
#include "tests/lib/plans/message_plan.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/tiny_build.h"

enum { ROOM = 4096 };

static void expect_last(const struct tiny *t, const char *words, const char *ops)
{
    struct lw_strategy s = strategy(words);

    expect_ops(t, &s, ops);
}

/* Two buckets of 300 elements at most; each is copied, reduced and copied out in both
 * micro-batches. */
TEST(every_micro_batch_is_reduced_and_copied_out)
{
    struct tiny t;

    tiny_init(&t);
    expect_last(&t, "dp 2 micro-batches 2 sync-each-micro-batch on bucket-policy single",
                "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR0/2408 "
                "Co0/2408 "
                "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR0/2408 "
                "Co0/2408 O:7");
}

TEST(views_are_not_copied_out)
{
    struct tiny t;

    tiny_init(&t);
    expect_last(&t, "dp 2 bucket-cap 25MiB gradient-as-bucket-view on",
                "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR1/2408 Ew "
                "O:7");
}

/* The second micro-batch's gradients are added to the first's: an eighth of Adam's 7 us. */
TEST(later_gradients_are_added_in_a_pass)
{
    struct tiny t;

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_ADAM;
    struct lw_plan p = plan_of_words(&t.w, "dp 2 micro-batches 3 accumulate-pass on");
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    int n = 0;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p.ops[i].kind == LW_OP_HOST) {
            assert_int_equal(p.ops[i].work_ps, 7 * LW_PS_PER_US / 8);
            n++;
        }
    assert_int_equal(n, 2);
    lw_plan_free(&p);
}

/* Of K + 1 backwards in passes of their own K add. */
TEST(accumulating_passes_add_too)
{
    struct tiny t;
    int n = 0;

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_SGD;
    struct lw_plan p = plan_of_words(&t.w, "dp 2 no-sync 3 accumulate-pass on");
    for (int32_t k = p.n_passes - 4; k < p.n_passes; k++) {
        struct lw_program g = lw_plan_program(&p, lw_plan_variant_of_pass(&p, k), 0);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            n += p.ops[i].kind == LW_OP_HOST && p.ops[i].work_ps == 7 * LW_PS_PER_US;
    }
    assert_int_equal(n, 3);
    lw_plan_free(&p);
}

/* The op of a role's program before op i on the compute stream, and whether i waits for op j. */
static bool waits_for(const struct lw_plan *p, int32_t i, int32_t j)
{
    for (int32_t d = 0; d < p->ops[i].n_deps; d++)
        if (p->deps[p->ops[i].first_dep + d] == j)
            return true;
    return false;
}

static int32_t nth(const struct lw_plan *p, int32_t role, enum lw_op_kind kind, int n)
{
    struct lw_program g = p->programs[role];

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p->ops[i].kind == kind && n-- == 0)
            return i;
    fail_msg("no %s", lw_op_name(kind));
    return -1;
}

static int count_waits(const struct lw_plan *p, int32_t role)
{
    struct lw_program g = p->programs[role];
    int n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        n += p->ops[i].kind == LW_OP_EVENT_WAIT && strcmp(p->ops[i].name, "sent") == 0;
    return n;
}

/* 1F1B of three micro-batches on two stages. Stage 0: F F B F B B: it waits for its sends where a
 * backward follows forwards, twice, and for none where backwards send nothing. Stage 1: F B F B F B
 * sends gradients: it waits before the second and the third forward. */
TEST(stages_wait_for_what_they_sent_where_they_turn)
{
    struct lw_plan p = message_plan("pp 2 micro-batches 3 async-messages off");

    assert_int_equal(count_waits(&p, 0), 2);
    assert_int_equal(count_waits(&p, 1), 2);
    lw_plan_free(&p);
    p = message_plan("pp 2 micro-batches 3 schedule gpipe async-messages off");
    assert_int_equal(count_waits(&p, 0), 1); /* all forwards have been sent */
    assert_int_equal(count_waits(&p, 1), 0); /* gradients only at the end */
    lw_plan_free(&p);
    p = message_plan("pp 2 micro-batches 3");
    assert_int_equal(count_waits(&p, 0) + count_waits(&p, 1), 0);
    lw_plan_free(&p);
}

/* Stage 1 asks for its second activation when what precedes it has ended, not ahead. */
TEST(receives_are_posted_when_their_turn_comes)
{
    struct lw_plan p = message_plan("pp 2 micro-batches 3 schedule gpipe async-messages off");
    int32_t second = nth(&p, 1, LW_OP_RECV, 1);
    struct lw_program g = p.programs[1];
    int32_t last = -1;

    for (int32_t i = g.first_op; i < second; i++)
        last = p.ops[i].kind == LW_OP_FORWARD ? i : last;
    assert_true(waits_for(&p, second, last));
    lw_plan_free(&p);
    p = message_plan("pp 2 micro-batches 3 schedule gpipe");
    second = nth(&p, 1, LW_OP_RECV, 1);
    assert_int_equal(p.ops[second].n_deps, 0);
    lw_plan_free(&p);
}

static void refused(const char *words, enum lw_status status, const char *says)
{
    struct tiny t;
    struct lw_strategy s = strategy(words);

    tiny_init(&t);
    expect_refusal(&t, &s, status, says);
}

TEST(what_ddp_does_not_do_is_refused)
{
    refused("dp 2 zero 1 gradient-as-bucket-view on", LW_EINVAL, "is of DDP's buckets");
    refused("dp 2 bucket-policy picotron gradient-as-bucket-view on", LW_EINVAL,
            "is of DDP's buckets");
    refused("dp 2 comm-hook fp16 gradient-as-bucket-view on", LW_ENOTSUP, "--comm-hook");
    refused("dp 2 pp 2 micro-batches 2 sync-each-micro-batch on", LW_ENOTSUP,
            "a pipeline reduces the gradients of its micro-batches together");
    refused("dp 2 no-sync 1 sync-each-micro-batch on", LW_EINVAL, "give only one of them");
    refused("pp 2 micro-batches 4 schedule zb-h1 async-messages off", LW_ENOTSUP,
            "is of --schedule 1f1b and gpipe, not zb-h1");
    refused("dp 2 async-messages off", LW_EINVAL, "--async-messages needs --pp of at least 2");
}

/* Any number of stages and micro-batches: the plan's check finds no ranks that wait for each other.
 */
TEST(stages_that_wait_do_not_deadlock)
{
    char words[128];

    for (int pp = 2; pp <= 3; pp++)
        for (int m = 1; m <= 7; m++)
            for (int gpipe = 0; gpipe < 2; gpipe++) {
                snprintf(words, sizeof words,
                         "pp %d micro-batches %d schedule %s async-messages off", pp, m,
                         gpipe ? "gpipe" : "1f1b");
                struct lw_plan p = message_plan(words);
                lw_plan_free(&p);
            }
}

TEST(plans_without_memory_keep_nothing)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 micro-batches 2 sync-each-micro-batch on "
                                    "gradient-as-bucket-view on accumulate-pass on");

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_ADAM;
    assert_true(build_without_memory(&t.w, &s, NULL) > 20);
}
