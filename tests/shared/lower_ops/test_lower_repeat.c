/* Micro-batches that are copied from an earlier one: a copied range of ops is what adding its ops
 * one by one makes, and on random models and strategies each micro-batch has the compute and
 * completes the gradients that the others have. LAPWING_TEST_SEED repeats a run. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "shared/plan/plan_builder.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/plans/random_strategy.h"

enum { MOST = 12, MOST_DEPS = 3 };

static struct lw_builder *begin(void)
{
    struct lw_builder *b = lw_builder_new("repeated", 1);

    lw_builder_role(b, &(struct lw_role){.name = "data", .stage = 0});
    lw_builder_rank(b, 0, 0, 0, 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    return b;
}

struct drawn_op {
    int64_t bytes;
    int32_t deps[MOST_DEPS], n_deps, ready[2], n_ready;
};

static struct lw_plan finish(struct lw_builder *b)
{
    struct lw_plan p;
    struct lw_err err = {0};

    lw_builder_pass(b, 0);
    assert_ok(lw_builder_finish(b, &p, &err), err);
    return p;
}

static void add(struct lw_builder *b, const struct drawn_op *x, int32_t micro_batch)
{
    struct lw_op op = lw_builder_blank(LW_OP_KERNEL, 0);
    char name[16];

    op.bytes = x->bytes;
    op.micro_batch = micro_batch;
    snprintf(name, sizeof name, "op %lld", (long long)x->bytes % 3);
    op.name = name;
    lw_builder_op(b, &op, x->deps, x->n_deps);
    for (int32_t i = 0; i < x->n_ready; i++)
        lw_builder_ready(b, x->ready[i]);
}

/* Ops 0 and 1 are before the range; op i of the range waits for those and for earlier ones of it.
 * Gradients are complete at the end of some. */
static int32_t draw(struct prng *r, struct drawn_op *ops)
{
    int32_t n = prng_in(r, 1, MOST - 2);

    for (int32_t i = 0; i < n + 2; i++) {
        ops[i] = (struct drawn_op){.bytes = prng_in(r, 0, 1000)};
        ops[i].n_deps = i < 2 ? 0 : prng_in(r, 0, MOST_DEPS);
        for (int32_t d = 0; d < ops[i].n_deps; d++)
            ops[i].deps[d] = prng_in(r, 0, i - 1);
        ops[i].n_ready = prng_in(r, 0, 2);
        for (int32_t d = 0; d < ops[i].n_ready; d++)
            ops[i].ready[d] = prng_in(r, 0, 3);
    }
    return n;
}

static void assert_same_plan(const struct lw_plan *a, const struct lw_plan *b)
{
    assert_string_equal(a->hash, b->hash);
    assert_int_equal(a->n_ops, b->n_ops);
    assert_int_equal(a->n_deps, b->n_deps);
    assert_int_equal(a->n_ready, b->n_ready);
    assert_memory_equal(a->deps, b->deps, (size_t)a->n_deps * sizeof *a->deps);
    assert_memory_equal(a->ready, b->ready, (size_t)a->n_ready * sizeof *a->ready);
    for (int32_t i = 0; i < a->n_ops; i++) {
        struct lw_op x = a->ops[i], y = b->ops[i];
        assert_string_equal(x.name, y.name);
        x.name = y.name = NULL;
        assert_memory_equal(&x, &y, sizeof x);
    }
}

TEST(a_repeated_range_is_what_its_ops_one_by_one_are)
{
    struct prng r = prng_start("a repeated range");

    for (int round = 0; round < 500; round++) {
        struct drawn_op ops[MOST];
        int32_t n = draw(&r, ops), times = prng_in(&r, 1, 4);
        struct lw_builder *each = begin(), *repeated = begin();
        for (int32_t i = 0; i < n + 2; i++) {
            add(each, &ops[i], i < 2 ? -1 : 7);
            add(repeated, &ops[i], i < 2 ? -1 : 7);
        }
        for (int32_t t = 0; t < times; t++) {
            const int32_t outside[] = {0, 1}, instead[] = {1 + t, t};
            int32_t by = n * (t + 1);
            for (int32_t i = 2; i < n + 2; i++) {
                struct drawn_op x = ops[i];
                for (int32_t d = 0; d < x.n_deps; d++)
                    x.deps[d] = x.deps[d] < 2 ? instead[x.deps[d]] : x.deps[d] + by;
                add(each, &x, 8 + t);
            }
            lw_builder_repeat(repeated, &(struct lw_op_range){2, n, outside, instead, 2, 7, 8 + t});
        }
        struct lw_plan a = finish(each), b = finish(repeated);
        assert_same_plan(&a, &b);
        lw_plan_free(&a);
        lw_plan_free(&b);
    }
}

/* Of a program and a micro-batch: the modules of compute and its work, and gradients that are
 * complete. A zero-bubble schedule splits the backwards of some micro-batches: together the halves
 * take a backward's time. */
static uint64_t work_of_micro_batch(const struct lw_plan *p, struct lw_program g, int32_t mb)
{
    uint64_t sum = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (op->micro_batch != mb || lw_op_class(op->kind) != LW_CLASS_COMPUTE || op->module < 0)
            continue;
        sum += (uint64_t)lw_plan_work_ps(p, op) * (uint64_t)(op->module + 1) *
               UINT64_C(0x9e3779b97f4a7c15);
        for (int32_t k = 0; k < op->n_ready; k++)
            sum += (uint64_t)(p->ready[op->first_ready + k] + 1) * UINT64_C(0x165667b19e3779f9);
    }
    return sum;
}

static void check_micro_batches(const struct lw_plan *p, int32_t n)
{
    for (int32_t i = 0; i < p->n_variants * p->n_roles; i++) {
        uint64_t first = work_of_micro_batch(p, p->programs[i], 0);
        for (int32_t mb = 1; mb < n; mb++)
            assert_int_equal(work_of_micro_batch(p, p->programs[i], mb), first);
    }
}

TEST(each_micro_batch_has_the_work_of_the_first)
{
    struct prng r = prng_start("each micro-batch");
    const int tries = unit_cases(300, 3000);
    int n_planned = 0;

    for (int i = 0; i < tries; i++) {
        struct random_model k;
        struct lw_strategy s;
        struct lw_plan p;
        struct lw_err err = {0};
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        /* two directions of one pipeline have half of the micro-batches each */
        if (s.schedule == LW_SCHEDULE_DUALPIPE || s.no_sync > 0 ||
            lw_plan_build(&k.w, &s, NULL, &p, &err) != LW_OK)
            continue;
        check_micro_batches(&p, (int32_t)s.micro_batches);
        n_planned++;
        lw_plan_free(&p);
    }
    printf("%d plans\n", n_planned);
    assert_true(n_planned > tries / 4);
}

