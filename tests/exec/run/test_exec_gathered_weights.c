/* Waits for weights that a program gives up (ZeRO-3): a verified run names a missing one before its
 * first step, also where it would have been won by chance. docs/design/lower_fsdp.md. */
#include "shared/plan/op.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/unit.h"
#include "tests/lib/plans/find_op.h"

static void expect_fault(const struct lw_plan *p, const char *words)
{
    struct lw_exec_options o = options();

    exec_expect_fault(p, &o, words);
}

/* The op at or before it that waits for something. */
static struct lw_op *waiting(const struct lw_plan *p, int32_t op)
{
    while (op > 0 && p->ops[op].n_deps == 0)
        op--;
    return &p->ops[op];
}

/* Of four modules. Not the last one's backward: its weights stay for it. */
TEST(computing_waits_for_its_weights)
{
    static const struct {
        enum lw_op_kind kind;
        int n;
    } cases[] = {{LW_OP_FORWARD, 0}, {LW_OP_FORWARD, 1}, {LW_OP_FORWARD, 2}, {LW_OP_FORWARD, 3},
                 {LW_OP_BACKWARD, 1}, {LW_OP_BACKWARD, 2}, {LW_OP_BACKWARD, 3}};
    struct chain c;
    char words[160];

    chain_init(&c, 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_plan p = build(&c, "dp 2 zero 3");
        int32_t at = find_op(&p, cases[i].kind, cases[i].n);
        waiting(&p, at)->n_deps = 0;
        snprintf(words, sizeof words,
                 "op %d (%s, module %d) of 'first' for role 'data' does not wait", (int)at,
                 lw_op_name(cases[i].kind), (int)p.ops[at].module);
        expect_fault(&p, words);
        expect_fault(&p, "(all_gather, bucket ");
        lw_plan_free(&p);
    }
}

/* The free goes to the stream of the gathers, where nothing holds it back. */
TEST(giving_up_waits_for_users)
{
    struct chain c;

    chain_init(&c, 4);
    struct lw_plan p = build(&c, "dp 2 zero 3");
    struct lw_op *op = &p.ops[find_op(&p, LW_OP_FREE, 0)];
    op->stream = p.ops[find_op(&p, LW_OP_ALL_GATHER, 0)].stream;
    op->n_deps = 0;
    expect_fault(
        &p,
        "(free, bucket 7) of 'first' for role 'data' does not wait for op 5 (forward, module 0)");
    lw_plan_free(&p);
}

static enum lw_status verdict(const struct lw_plan *p, struct lw_err *err)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r;

    o.n_warmup = 0;
    o.n_steps = 1;
    enum lw_status s = lw_exec_run(p, &o, &r, err);
    if (s == LW_OK || s == LW_ENO)
        lw_exec_result_free(&r);
    return s;
}

/* Every op in turn forgets what it waits for. */
TEST(whatever_the_check_refuses_a_run_names)
{
    static const char *const words[] = {"dp 2 zero 3", "dp 2 zero 3 reshard off",
                                        "dp 3 zero 3 prefetch 2", "dp 2 zero 3 micro-batches 2",
                                        "dp 2 pp 2 micro-batches 2 zero 3"};
    struct chain c;
    int n_refused = 0;

    chain_init(&c, 3);
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        struct lw_plan p = build(&c, words[k]);
        for (int32_t i = 0; i < p.n_ops; i++) {
            struct lw_err check = {0}, run = {0};
            int32_t n = p.ops[i].n_deps;
            p.ops[i].n_deps = 0;
            if (n > 0 && lw_plan_check(&p, &check) != LW_OK) {
                n_refused++;
                if (verdict(&p, &run) != LW_ENO || !strstr(run.msg, "does not wait for"))
                    fail_msg("%s, op %d: '%s', but a run: '%s'", words[k], (int)i, check.msg,
                             run.msg);
            }
            p.ops[i].n_deps = n;
        }
        lw_plan_free(&p);
    }
    assert_int_equal(n_refused, 71);
}
