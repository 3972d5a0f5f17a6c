/* lw_plan_check on the chain of clipping: one change each, and the fault names the op and the
 * ranks. docs/design/grad_norm.md. Modules a, b | c of tests/lib/plans/tiny_workload.h; weights are
 * split over tensor groups, b.bias is whole on each of their ranks; d.weight in c is a copy of
 * a.weight. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/check/plan_check.h"
#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/norm_ops.h"
#include "tests/lib/plans/tiny_workload.h"

enum { COPY = 4 };

struct model {
    struct tiny t;
    struct lw_param params[5];
    struct lw_plan p;
};

/* "name value name value ..."; --clip 1 and two micro-batches go with each. */
static void make(struct model *k, const char *words)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};
    char text[256];

    tiny_init(&k->t);
    memcpy(k->params, k->t.params, sizeof k->t.params);
    k->params[COPY] = tiny_param("d.weight", 100, 2, 12);
    k->params[COPY].tied = A_WEIGHT;
    k->params[COPY].ready_ps = -1;
    for (int m = 0; m < 3; m++) {
        k->t.modules[m].output_bytes = 1000;
        k->t.modules[m].tp_split = LW_TP_COLUMN;
    }
    for (int i = 0; i < 5; i++)
        k->params[i].tp_split = i == B_BIAS ? LW_TP_REPLICATED : LW_TP_COLUMN;
    k->t.w.params = k->params;
    k->t.w.n_params = 5;
    snprintf(text, sizeof text, "clip 1 micro-batches 2 %s", words);
    for (char *name = strtok(text, " "); name; name = strtok(NULL, " "))
        assert_ok(lw_strategy_set(&s, name, strtok(NULL, " "), &err), err);
    if (lw_plan_build(&k->t.w, &s, NULL, &k->p, &err) != LW_OK)
        fail_msg("%s: %s", words, err.msg);
}

/* Of the last variant. */
static struct lw_op *find(const struct model *k, int32_t role, enum lw_op_kind kind, int n)
{
    return find_norm_op(&k->p, k->p.n_variants - 1, role, kind, n);
}

static void expect(struct model *k, const struct lw_op *op, const char *words)
{
    struct lw_err err = {0};
    char number[32] = "";

    if (op)
        snprintf(number, sizeof number, "op %d (", (int)(op - k->p.ops));
    assert_int_equal(lw_plan_check(&k->p, &err), LW_EPLAN);
    if (!strstr(err.msg, words) || strncmp(err.msg, number, strlen(number)) != 0)
        fail_msg("'%s' does not begin with '%s' and say '%s'", err.msg, number, words);
    lw_plan_free(&k->p);
}

/* What the norm sums over, with the number of members of rank 0's group. */
static void expect_sums(struct model *k, const char *words, const char *sums)
{
    char text[128] = "";
    size_t at = 0;

    make(k, words);
    struct lw_program g = lw_plan_program(&k->p, k->p.n_variants - 1, 0);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &k->p.ops[i];
        if (o->comm < 0 || o->bucket < 0 || !lw_plan_is_norm(&k->p, o->bucket))
            continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s/%d of %s", at > 0 ? ", " : "",
                               k->p.comms[o->comm].name,
                               lw_plan_group(&k->p, o->comm, 0)->n_members,
                               lw_dtype_name(o->dtype));
    }
    assert_string_equal(text, sums);
    lw_plan_free(&k->p);
}

TEST(the_norm_sums_over_whoever_updates_other_elements)
{
    struct model k;

    expect_sums(&k, "dp 2", "");
    expect_sums(&k, "dp 2 zero 3", "data/2 of f64");
    expect_sums(&k, "dp 2 pp 2 tp 2", "model/4 of f64");
    expect_sums(&k, "dp 2 pp 2 tp 2 zero 1", "data/2 of f64, model/4 of f64");
    /* ranks 0 and 1 hold the same two stages, and are one data group of 2 * 2 members */
    expect_sums(&k, "dp 2 pp 2 schedule dualpipe micro-batches 4", "");
    expect_sums(&k, "dp 2 pp 2 tp 2 schedule dualpipe micro-batches 4 zero 2",
                "data/4 of f64, model/2 of f64");
    expect_sums(&k, "dp 2 pp 2 tp 2 compat colossalai", "tensor/2 of f32, pipeline/2 of f32");
}

TEST(whole_parameters_of_tensor_groups_are_listed)
{
    struct model k;

    make(&k, "tp 2");
    assert_int_equal(k.p.n_whole, 1);
    assert_int_equal(k.p.whole[0], B_BIAS);
    assert_true(lw_plan_counts(&k.p, B_BIAS, 0) && !lw_plan_counts(&k.p, B_BIAS, 1));
    assert_true(lw_plan_counts(&k.p, A_WEIGHT, 0) && lw_plan_counts(&k.p, A_WEIGHT, 1));
    k.p.whole[0] = 5;
    expect(&k, NULL, "at whole_params[0]: found 5, allowed: 0 to 4");
    make(&k, "pp 2");
    assert_int_equal(k.p.n_whole, 0);
    assert_true(lw_plan_counts(&k.p, A_WEIGHT, 0) && !lw_plan_counts(&k.p, COPY, 0));
    k.p.strategy->compat = LW_COMPAT_COLOSSALAI; /* whose norm counts both copies */
    assert_true(lw_plan_counts(&k.p, COPY, 0));
    lw_plan_free(&k.p);
}

/* Each op of squares, sum, sum, scale, optimizer stands after the one before it. */
TEST(a_chain_that_does_not_wait_is_named)
{
    static const struct {
        enum lw_op_kind kind;
        int n;
        const char *words;
    } cases[] = {
        {LW_OP_COPY_IN, 0,
         "for role 'stage 1', which writes the gradient of parameter 4 'd.weight'"},
        {LW_OP_ALL_REDUCE, 0, "for role 'stage 1', which writes bucket 11"},
        {LW_OP_ALL_REDUCE, 1, "for role 'stage 1', which writes bucket 11"},
        {LW_OP_COPY_OUT, 0, "for role 'stage 1', which writes bucket 11"},
        {LW_OP_OPTIMIZER, 0, "for role 'stage 1', which writes"},
    };
    struct model k;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make(&k, "dp 2 pp 2 tp 2 zero 1 shard-policy oss-greedy");
        struct lw_op *op = find(&k, 1, cases[i].kind, cases[i].n);
        struct lw_op *optimizer = find(&k, 1, LW_OP_OPTIMIZER, 0);
        if (cases[i].kind == LW_OP_COPY_IN) { /* the optimizer still waits for the copies' sum */
            optimizer->first_dep = op->first_dep;
            optimizer->n_deps = op->n_deps;
        }
        op->n_deps = 0;
        if (op == optimizer) /* else after it on the compute stream */
            find(&k, 1, LW_OP_COPY_OUT, 0)->stream = find(&k, 1, LW_OP_ALL_REDUCE, 1)->stream;
        expect(&k, op, cases[i].words);
    }
}

TEST(a_chain_without_an_end_is_named)
{
    struct model k;

    make(&k, "dp 2 zero 1");
    drop(find(&k, 0, LW_OP_COPY_IN, 0));
    expect(&k, find(&k, 0, LW_OP_ALL_REDUCE, 0), "no copy_in of its bucket comes before it");
    make(&k, "dp 2 zero 1");
    drop(find(&k, 0, LW_OP_COPY_OUT, 0));
    expect(&k, find(&k, 0, LW_OP_OPTIMIZER, 0),
           "the plan clips at norm 1, but no copy_out of set 'norm' comes before it");
    make(&k, "dp 2 zero 1");
    k.p.strategy->clip = 0;
    k.p.n_variants = 1; /* the first alone */
    k.p.n_passes = 1;
    k.p.repeat_from = 0;
    k.p.n_ops = k.p.programs[0].n_ops;
    expect(&k, find(&k, 0, LW_OP_COPY_IN, 0), "the plan clips nothing");
}

TEST(a_chain_that_repeats_itself_is_named)
{
    struct model k;

    make(&k, "dp 2 pp 2 tp 2 zero 1");
    struct lw_op *op = find(&k, 0, LW_OP_ALL_REDUCE, 1);
    op->kind = LW_OP_COPY_OUT;
    op->comm = -1;
    expect(&k, find(&k, 0, LW_OP_COPY_OUT, 1), "has already scaled the gradients");
    make(&k, "dp 2 pp 2 tp 2 zero 1");
    op = find(&k, 0, LW_OP_ALL_REDUCE, 0);
    op->kind = LW_OP_COPY_IN;
    op->comm = -1;
    expect(&k, op, "has already taken the squares");
    make(&k, "dp 2 pp 2 tp 2 zero 1");
    op = find(&k, 0, LW_OP_ALL_REDUCE, 1);
    op->comm = find(&k, 0, LW_OP_ALL_REDUCE, 0)->comm;
    expect(&k, op, "is the second sum over 'data', after op");
}

/* The gradients of the last bucket come back after the squares. */
TEST(gradients_that_come_after_the_norm_are_named)
{
    struct model k;

    make(&k, "dp 2 zero 1 shard-policy oss-greedy");
    struct lw_op *squares = find(&k, 0, LW_OP_COPY_IN, 0), *out = squares - 1;
    assert_int_equal(out->kind, LW_OP_COPY_OUT);
    int32_t bucket = squares->bucket;
    *squares = (struct lw_op){.kind = LW_OP_COPY_OUT,
                              .bucket = out->bucket,
                              .comm = -1,
                              .call = -1,
                              .work = -1,
                              .work_ps = -1,
                              .peer = -1,
                              .operand = -1,
                              .module = -1,
                              .stage = -1,
                              .micro_batch = -1,
                              .name = "",
                              .first_dep = out->first_dep,
                              .n_deps = out->n_deps};
    out->kind = LW_OP_COPY_IN;
    out->bucket = bucket;
    out->n_deps = 0;
    expect(&k, squares, "has already taken the squares of the gradients that it works on");
}

TEST(a_number_that_is_none_is_named)
{
    struct model k;

    make(&k, "dp 2 zero 1");
    k.p.buckets[find(&k, 0, LW_OP_COPY_IN, 0)->bucket].bytes = 16;
    expect(&k, NULL, "16 bytes of f64 and 0 gradients; it is one number of f64 or f32");
    make(&k, "dp 2 zero 1");
    struct lw_op *op = find(&k, 0, LW_OP_ALL_REDUCE, 0);
    op->bytes = 4;
    op->dtype = LW_F32;
    expect(&k, op, "4 bytes of f32, but the number has 8 of f64");
    make(&k, "pp 2");
    op = find(&k, 1, LW_OP_COPY_IN, 0);
    op->bucket--;
    expect(&k, op, "the bucket is of stage 0");
    make(&k, "dp 2 zero 1");
    op = find(&k, 0, LW_OP_ALL_REDUCE, 0);
    op->kind = LW_OP_BROADCAST;
    expect(&k, op, "a norm is taken by copy_in, summed by all_reduce, used by copy_out");
}

/* Two data ranks with half of the shards each; two stages of two tensor ranks. */
TEST(a_sum_that_is_missing_is_named)
{
    struct model k;

    make(&k, "dp 2 zero 1");
    drop(find(&k, 0, LW_OP_ALL_REDUCE, 0));
    expect(&k, find(&k, 0, LW_OP_COPY_OUT, 0), "the norm of rank 0 lacks what rank 1 updates");
    for (int n = 0; n < 2; n++) {
        make(&k, "dp 2 pp 2 tp 2 zero 1"); /* ranks: tensor, data, pipeline from fast to slow */
        for (int32_t role = 0; role < 2; role++)
            drop(find(&k, role, LW_OP_ALL_REDUCE, n));
        expect(&k, find(&k, 0, LW_OP_COPY_OUT, 0),
               n == 0 ? "the norm of rank 0 lacks what rank 2 updates"
                      : "the norm of rank 0 lacks what rank 1 updates");
    }
}

TEST(norm_counted_twice_is_refused)
{
    struct model k;

    make(&k, "dp 2 pp 2 tp 2");
    for (int32_t c = 0; c < k.p.n_comms; c++)
        for (int32_t role = 0; k.p.comms[c].purpose == LW_COMM_DATA && role < 2; role++)
            find(&k, role, LW_OP_ALL_REDUCE, 0)->comm = c;
    expect(&k, find(&k, 0, LW_OP_COPY_OUT, 0),
           "the norm of rank 0 counts what ranks 0 and 2 both update from each of them");
    /* tensor groups for data groups: 0 and 1, then all of the replica */
    make(&k, "dp 2 pp 2 tp 2 zero 1");
    for (int32_t c = 0; c < k.p.n_comms; c++)
        for (int32_t role = 0; k.p.comms[c].purpose == LW_COMM_TENSOR && role < 2; role++)
            find(&k, role, LW_OP_ALL_REDUCE, 0)->comm = c;
    expect(&k, find(&k, 0, LW_OP_COPY_OUT, 0), "the norm of rank 0 counts rank 0 twice");
}

TEST(roles_that_sum_differently_are_named)
{
    struct model k;

    make(&k, "dp 2 pp 2 tp 2 zero 1");
    struct lw_op *a = find(&k, 1, LW_OP_ALL_REDUCE, 0), *b = find(&k, 1, LW_OP_ALL_REDUCE, 1);
    int32_t comm = a->comm;
    a->comm = b->comm;
    b->comm = comm;
    expect(&k, NULL, "roles sum the norm over");
    make(&k, "pp 2");
    drop(find(&k, 1, LW_OP_ALL_REDUCE, 0));
    expect(&k, find(&k, 0, LW_OP_ALL_REDUCE, 0), "rank 1 does not add its squares");
}

/* Faults that other checks find first; here this one alone is asked. */
TEST(elements_that_no_rank_counts_are_named)
{
    struct model k;
    struct lw_err err = {0};

    make(&k, "dp 2 zero 1");
    k.p.shards[0].owner = 5;
    assert_int_equal(lw_check_norm(&k.p, &err), LW_EPLAN);
    if (!strstr(err.msg, "elements belong to member 5, but the data groups of its stage have 2"))
        fail_msg("%s", err.msg);
    lw_plan_free(&k.p);
    make(&k, "dp 2 pp 2");
    k.p.role_of[1] = 1; /* beside rank 0 in its data group */
    assert_int_equal(lw_check_norm(&k.p, &err), LW_EPLAN);
    if (!strstr(err.msg,
                "ranks 0 and 1 share a data group, but one is at stage 0 and one at stage 1"))
        fail_msg("%s", err.msg);
    lw_plan_free(&k.p);
}

TEST(running_out_of_memory_is_said)
{
    struct lw_err err = {0};
    struct model k;

    make(&k, "dp 2 pp 2 tp 2 zero 1");
    EACH_ALLOCATION_FAILS_IN(1, lw_plan_check(&k.p, &err));
    lw_plan_free(&k.p);
}
