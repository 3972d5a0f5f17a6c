/* Units of a forward and a backward whose all-to-alls run beside the other's compute:
 * shared/lower_ops/lower_weave.c, docs/design/lower_expert.md. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/plan/op.h"
#include "shared/check/plan_check.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/traces/model_help.h"

enum { ROOM = 8192 };

/* A model with experts of which a token goes to two of eight. */
static struct lw_workload moe(int64_t layers)
{
    return model_build("mixtral-8x7b", (struct traces_model_shape){.batch = 1,
                                                                   .layers = layers,
                                                                   .hidden = 16,
                                                                   .heads = 4,
                                                                   .kv_heads = 4,
                                                                   .ffn = 32,
                                                                   .experts = 8,
                                                                   .topk = 2,
                                                                   .expert_ffn = 16,
                                                                   .seq = 32,
                                                                   .vocab = 32,
                                                                   .dtype = "f32",
                                                                   .optimizer = "adam"});
}

/* Of role 0: letters of forwards and backwards with their micro-batch, '>' tokens to the experts,
 * '<' back; ops of the same kind and micro-batch after one another once. */
static const char *order_of(const struct lw_plan *p, char *text)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    char last[16] = "", now[16];
    size_t at = 0;

    text[0] = '\0';
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        bool tokens = o->kind == LW_OP_ALL_TO_ALL;
        if (!tokens && o->kind != LW_OP_FORWARD && o->kind != LW_OP_BACKWARD)
            continue;
        snprintf(now, sizeof now, "%s%d", !tokens ? lw_op_letter(o->kind)
                                          : o->name[0] == 'd' ? ">" : "<", o->micro_batch);
        if (strcmp(now, last) != 0 || tokens)
            at += (size_t)snprintf(text + at, ROOM - at, "%s%s", at > 0 ? " " : "", now);
        memcpy(last, now, sizeof last);
    }
    return text;
}

/* One block, three micro-batches: F0, then F1 and B0, F2 and B1, then B2. */
TEST(a_unit_alternates_at_its_all_to_alls)
{
    struct lw_workload w = moe(1);
    struct lw_plan p = plan_of_words(&w, "dp 2 ep 2 micro-batches 3 expert-overlap on");
    char text[ROOM];

    assert_string_equal(order_of(&p, text),
                        "F0 >0 F0 <0 F0 "
                        "B0 <0 F1 >1 B0 >0 F1 <1 B0 F1 "
                        "B1 <1 F2 >2 B1 >1 F2 <2 B1 F2 "
                        "B2 <2 B2 >2 B2");
    lw_plan_free(&p);
    p = plan_of_words(&w, "dp 2 ep 2 micro-batches 3");
    assert_string_equal(order_of(&p, text),
                        "F0 >0 F0 <0 F0 B0 <0 B0 >0 B0 F1 >1 F1 <1 F1 B1 <1 B1 >1 B1 "
                        "F2 >2 F2 <2 F2 B2 <2 B2 >2 B2");
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* Ops of a pass with their parts of the step: the same ones, in another order. */
static void expect_same_ops(const struct lw_workload *w, const char *words)
{
    char on[256];
    int64_t bytes[2] = {0}, work[2] = {0};
    int32_t n[2] = {0};

    snprintf(on, sizeof on, "%s expert-overlap on", words);
    for (int k = 0; k < 2; k++) {
        struct lw_plan p = plan_of_words(w, k ? on : words);
        struct lw_err err = {0};
        assert_ok(lw_plan_check(&p, &err), err);
        struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            n[k]++;
            bytes[k] += p.ops[i].kind == LW_OP_ALL_TO_ALL ? p.ops[i].bytes : 0;
            work[k] += lw_plan_work_ps(&p, &p.ops[i]);
        }
        lw_plan_free(&p);
    }
    assert_int_equal(n[0], n[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_int_equal(work[0], work[1]);
}

TEST(a_woven_pass_has_the_same_ops)
{
    struct lw_workload w = moe(4);

    expect_same_ops(&w, "dp 2 ep 2 micro-batches 4");
    expect_same_ops(&w, "dp 4 ep 2 micro-batches 3 zero 1 recompute full");
    expect_same_ops(&w, "dp 2 ep 2 pp 2 chunks 2 schedule interleaved-1f1b micro-batches 4");
    lw_workload_free(&w);
}

TEST(woven_plans_run_and_are_verified)
{
    static const char *const words[] = {
        "dp 2 ep 2 micro-batches 3 expert-overlap on",
        "dp 4 ep 2 micro-batches 3 zero 1 expert-overlap on",
        "dp 4 ep 2 micro-batches 3 zero 2 bucket-cap 1000 expert-overlap on",
        "dp 2 ep 2 micro-batches 4 recompute full expert-overlap on",
        "dp 2 ep 2 pp 2 chunks 2 schedule interleaved-1f1b micro-batches 4 expert-overlap on",
        "dp 2 ep 2 tp 2 etp 1 sequence-parallel on micro-batches 3 expert-overlap on",
        "dp 2 ep 2 pp 2 chunks 2 schedule dualpipe micro-batches 4",
        "dp 2 ep 2 pp 2 chunks 2 schedule dualpipev micro-batches 6"};
    struct lw_workload w = moe(4);

    exec_expect_verified(&w, words, sizeof words / sizeof *words);
    lw_workload_free(&w);
}

TEST(what_has_no_units_is_refused)
{
    struct lw_workload w = moe(4);

    plan_refused(&w, "dp 2 micro-batches 2 expert-overlap on", "--expert-overlap on needs --ep");
    plan_refused(&w, "dp 2 ep 2 zero 3 micro-batches 2 expert-overlap on",
                 "choose --zero 1 or 2");
    plan_refused(&w, "dp 2 ep 2 pp 2 micro-batches 4 expert-overlap on",
                 "choose that with --chunks of at least 2");
    lw_workload_free(&w);
}
