/* Plans of --overlap-param-gather run: what every rank gathered, and what each owner updated after,
 * equals a run on one rank bit by bit. A gather that is missing or late is named.
 * docs/design/lower_zero1.md, docs/design/exec_verify.md. */
#include "shared/plan/op.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/plans/find_op.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/tiny_workload.h"
#include "tests/lib/unit.h"

#define AHEAD " overlap-param-gather on"

/* Of the chain, its parameters on every rank of a stage: all weights and, of f32, nothing more with
 * sgd. */
static void expect_verified(const struct chain *c, const char *words, enum exec_optimizer_kind kind,
                            int32_t n_steps)
{
    struct lw_exec_options o = exec_asleep(n_steps, kind);
    struct lw_plan p = build(c, words);
    int64_t bytes = 0;

    for (int32_t r = 0; r < p.n_ranks; r++)
        for (int32_t i = 0; i < p.n_params; i++)
            bytes += p.params[i].stage == p.roles[p.role_of[r]].stage
                         ? p.params[i].numel * lw_dtype_size(p.params[i].dtype)
                         : 0;
    int64_t compared = exec_verified(&p, &o, words, NULL);
    if (kind == EXEC_SGD && c->params[0].dtype == LW_F32)
        assert_int_equal(compared, bytes);
    else
        assert_true(compared > bytes);
    lw_plan_free(&p);
}

static const char *const plans[] = {
    "dp 2 zero 1" AHEAD,
    "dp 3 zero 1 bucket-cap 100" AHEAD,
    "dp 2 zero 2 bucket-cap 100" AHEAD,
    "dp 4 zero 2 bucket-policy per-tensor prefetch 3" AHEAD,
    "dp 2 zero 1 bucket-policy single" AHEAD,
    "dp 2 zero 1 bucket-cap 100 micro-batches 3" AHEAD,
    "dp 2 zero 2 bucket-cap 100 micro-batches 3" AHEAD,
    "dp 2 zero 1 bucket-cap 100 no-sync 2" AHEAD,
    "dp 2 zero 2 bucket-cap 100 no-sync 1 clip 1" AHEAD,
    "dp 3 zero 1 bucket-cap 100 clip 0.5" AHEAD,
    "dp 4 zero 1 bucket-cap 100 prefetch 0" AHEAD,
    "dp 4 zero 1 bucket-cap 100 zero-group 2" AHEAD,
    "dp 4 zero 1 bucket-cap 100 zero-group 2 late-replicas on micro-batches 2" AHEAD,
    "dp 2 zero 1 bucket-cap 100 recompute full" AHEAD,
    "dp 2 zero 1 bucket-cap 100 overlap off" AHEAD,
    "dp 2 pp 2 zero 1 bucket-cap 100 micro-batches 4" AHEAD,
    "dp 2 pp 2 zero 2 bucket-cap 100 micro-batches 4 clip 1" AHEAD,
    "dp 2 pp 2 zero 1 bucket-cap 100 micro-batches 4 schedule interleaved-1f1b chunks 2" AHEAD,
    "dp 2 pp 2 zero 2 bucket-cap 60 micro-batches 4 schedule interleaved-1f1b chunks 2" AHEAD,
    "dp 2 pp 2 zero 1 bucket-cap 60 micro-batches 4 schedule interleaved-1f1b chunks 2 "
    "align-param-gather off" AHEAD,
    "dp 2 pp 2 zero 1 bucket-cap 100 micro-batches 4 schedule zbv" AHEAD,
    "dp 2 pp 2 zero 1 bucket-cap 100 micro-batches 4 schedule dualpipe" AHEAD,
    "dp 2 pp 2 zero 1 bucket-cap 100 micro-batches 4 schedule gpipe no-sync 1" AHEAD,
    "dp 2 zero 1 bucket-policy megatron bucket-cap 100" AHEAD,
    "dp 3 zero 1 bucket-policy megatron bucket-cap 100 micro-batches 2 clip 1" AHEAD,
    "dp 3 zero 1 bucket-policy megatron bucket-cap 100 grad-dtype f32",
    "dp 3 zero 2 bucket-policy megatron bucket-cap 100 micro-batches 2",
    "dp 3 bucket-policy megatron bucket-cap 100 no-sync 1",
    "dp 2 pp 2 bucket-policy megatron bucket-cap 100 micro-batches 4 zero 1" AHEAD,
};

TEST(runs_equal_one_rank)
{
    struct chain c;

    chain_init(&c, 8);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        expect_verified(&c, plans[i], i % 2 ? EXEC_SGD : EXEC_ADAM, 3);
}

/* Half types are updated on masters, of which the owner alone has the last step's. */
TEST(half_types_and_tied_weights_equal_one_rank)
{
    struct chain c;

    chain_init(&c, 8);
    for (int i = 0; i < 8; i++)
        c.params[i].dtype = LW_BF16;
    c.params[7] = c.params[0];
    c.params[7].module = 7;
    c.params[7].tied = 0;
    chain_without(&c, 7);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i += 2)
        if (!strstr(plans[i], "dualpipe"))
            expect_verified(&c, plans[i], i % 4 ? EXEC_SGD : EXEC_MOMENTUM, 2);
}

/* b's forward is cut where it first uses b.bias, which lies in a bucket of its own. */
TEST(forwards_in_pieces_equal_one_rank)
{
    static const char *const words[] = {
        "dp 2 zero 1 bucket-policy per-tensor" AHEAD,
        "dp 3 zero 2 bucket-policy per-tensor micro-batches 2" AHEAD,
        "dp 2 zero 1 bucket-policy per-tensor no-sync 1" AHEAD,
        "dp 2 zero 1 bucket-policy per-tensor recompute full prefetch 0" AHEAD,
    };
    struct tiny t;

    tiny_init(&t);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_exec_options o = exec_asleep(3, EXEC_ADAM);
        struct lw_plan p = plan_of_words(&t.w, words[i]);
        int n = 0;
        for (int32_t k = 0; k < p.n_ops; k++)
            n += p.ops[k].kind == LW_OP_FORWARD && p.ops[k].bucket >= 0;
        assert_int_equal(n, 1);
        exec_verified(&p, &o, words[i], NULL);
        lw_plan_free(&p);
    }
}

/* One step: what is gathered is what weights began with. */
TEST(one_step_gathers_what_was_there)
{
    struct chain c;

    chain_init(&c, 4);
    expect_verified(&c, "dp 2 zero 1 bucket-cap 100" AHEAD, EXEC_SGD, 1);
}

TEST(a_wait_that_is_missing_is_named)
{
    struct chain c;
    struct lw_exec_options o = options();

    chain_init(&c, 4);
    struct lw_plan p = build(&c, "dp 2 zero 1 bucket-policy per-tensor" AHEAD);
    p.ops[find_op(&p, LW_OP_EVENT_WAIT, 2)].n_deps = 0;
    exec_expect_fault(&p, &o, "(forward, module 2) of 'first' for role 'data' does not wait for");
    lw_plan_free(&p);
}

/* The pass that gathers is never run: in the second step the first forward finds what the optimizer
 * made stale. Where no op reads weights, the last comparison finds what was not gathered. */
TEST(a_gather_that_is_missing_is_named)
{
    struct chain c;
    struct lw_exec_options o = options();

    chain_init(&c, 4);
    struct lw_plan p = build(&c, "dp 2 zero 1 bucket-policy per-tensor no-sync 2" AHEAD);
    p.pass_variant[0] = find_variant(&p, "accumulate, weights held");
    exec_ends(&p, &o, LW_EFAILED, "step 1: weights of f32 are used after they were freed or "
                                  "updated and before they were gathered again");
    for (int32_t i = 0; i < p.n_ops; i++)
        p.ops[i].module = lw_op_uses_weights(&p.ops[i]) ? -1 : p.ops[i].module;
    exec_expect_fault(&p, &o, "gathered weight of parameter 0 'w0', element 5, rank 0: ");
    exec_expect_fault(&p, &o, " before its last update");
    lw_plan_free(&p);
}
