/* What exec refuses of a plan that was not proven: exec/verify/plan_bounds.c. One field is
 * changed in each. */
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/tensors/tensors.h"
#include "tests/lib/exec/exec_chain.h"

static struct lw_plan make(const char *words)
{
    static struct chain c;

    chain_init(&c, 4);
    return build(&c, words);
}

static struct lw_op *first(struct lw_plan *p, enum lw_op_kind kind)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind)
            return &p->ops[i];
    fail_msg("no such op");
    return NULL;
}

/* It is refused before it runs, in these words. */
static void expect(struct lw_plan *p, const char *words)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};

    assert_int_equal(exec_plan_is_safe(p, &err), LW_EPLAN);
    if (!strstr(err.msg, words))
        fail_msg("'%s' does not say '%s'", err.msg, words);
    assert_int_equal(lw_exec_run(p, &o, &r, &err), LW_EPLAN);
    lw_plan_free(p);
}

TEST(plans_as_made_are_safe)
{
    static const char *const words[] = {"dp 2",           "pp 2 micro-batches 2",
                                        "dp 2 no-sync 2", "dp 2 zero 1",
                                        "dp 2 zero 3",    "dp 2 pp 2 micro-batches 2 zero 2",
                                        "dp 2 clip 1"};
    struct lw_err err = {0};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_plan p = make(words[i]);
        if (exec_plan_is_safe(&p, &err) != LW_OK)
            fail_msg("%s: %s", words[i], err.msg);
        lw_plan_free(&p);
    }
}

/* The first pass names a bucket of the second one's set, which has no memory then. */
TEST(a_bucket_that_no_step_lays_out_is_refused)
{
    for (int k = 0; k < 3; k++) {
        struct lw_plan p = make("dp 2");
        enum lw_op_kind kinds[] = {LW_OP_COPY_IN, LW_OP_COPY_OUT, LW_OP_ALL_REDUCE};
        assert_int_equal(p.n_sets, 2);
        first(&p, kinds[k])->bucket = p.sets[1].first_bucket;
        expect(&p, "is in no set of buckets that a step with variant");
    }
}

TEST(sets_stay_inside_the_buckets)
{
    struct lw_plan p = make("dp 2");
    p.sets[0].n_buckets = p.n_buckets + 1;
    expect(&p, "bucket set 0: buckets 0 and ");
}

/* Each micro-batch has an op at least: the number of terms of a gradient has no overflow. */
TEST(micro_batches_are_fewer_than_ops)
{
    struct lw_plan p = make("dp 2");
    p.ops[1].micro_batch = INT32_MAX;
    expect(&p, "at ops[1].micro_batch: found 2147483647, allowed: -1 to ");
}

TEST(sizes_that_do_not_sum_are_refused)
{
    static const int64_t sizes[] = {INT64_MAX, (INT64_C(1) << 52) + 1, -1};

    for (int k = 0; k < 3; k++) {
        struct lw_plan p = make("dp 2");
        bool negative = sizes[k] < 0;
        p.buckets[0].bytes = sizes[k];
        expect(&p, negative ? "at bucket_sets[0].buckets[0].bytes: found -1" : "bucket 0: ");
        p = make("pp 2 micro-batches 2");
        first(&p, LW_OP_RECV)->bytes = sizes[k];
        expect(&p, negative ? "].bytes: found -1, allowed: 0 or more" : "op ");
        p = make("pp 2 micro-batches 2");
        p.operands[0].bytes = sizes[k];
        expect(&p, negative ? "at operands[0].of_ranks[0].bytes: found -1" : "op ");
        p = make("pp 2 micro-batches 2");
        p.params[1].numel = sizes[k];
        expect(&p, k == 1 ? "parameter 1: " : "at params[1].numel: found ");
    }
}

/* 160 messages and more of 2^52 bytes: more than 2^56, each allowed. */
TEST(sizes_that_are_too_many_are_refused)
{
    struct lw_plan p = make("pp 2 micro-batches 80");
    for (int32_t i = 0; i < p.n_ops; i++)
        if (lw_op_class(p.ops[i].kind) == LW_CLASS_P2P)
            p.ops[i].bytes = INT64_C(1) << 52;
    expect(&p, "in all, on ");
}

TEST(operands_stay_inside_their_bucket_and_row)
{
    struct lw_plan p = make("pp 2 micro-batches 2");
    p.operand_first[0] = p.n_operands;
    expect(&p, "its operand row begins at");
    p = make("pp 2 micro-batches 2");
    p.operands[0].peer = 2;
    expect(&p, "at operands[0].of_ranks[0].peer: found 2, allowed: -1 to 1");
    p = make("pp 2 micro-batches 2");
    first(&p, LW_OP_RECV)->peer = 2;
    expect(&p, "].peer: found 2, allowed: -1 to 1");
}
