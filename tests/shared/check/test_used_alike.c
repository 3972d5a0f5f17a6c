/* Gradients that all ops use alike: which they are, by hand; and that the proof without them
 * refuses what the proof with them refuses, on random plans of which numbers are changed.
 * LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "shared/check/plan_check.h"
#include "shared/lower/lower.h"
#include "shared/plan/uses.h"
#include "tests/lib/plans/random_strategy.h"

enum { N = 6 };

/* Six parameters of stage 0, two lists of ready gradients and one bucket. */
struct example {
    struct lw_plan_param params[N];
    int32_t ready[N], slots[N];
    struct lw_op ops[2];
    struct lw_bucket bucket;
    struct lw_plan p;
};

static void set_up(struct example *x)
{
    *x = (struct example){
        .ready = {2, 1, 0, 3, 4, 5},
        .slots = {0, 1, 2, 3, 4, 5},
        .ops = {{.first_ready = 0, .n_ready = 3}, {.first_ready = 3, .n_ready = 3}},
        .bucket = {.first_slot = 0, .n_slots = N},
    };
    for (int i = 0; i < N; i++)
        x->params[i] = (struct lw_plan_param){.tied = -1, .trainable = true, .used = true};
    x->p = (struct lw_plan){.params = x->params, .n_params = N, .ready = x->ready, .n_ready = N,
                            .slots = x->slots, .n_slots = N, .ops = x->ops, .n_ops = 2,
                            .buckets = &x->bucket, .n_buckets = 1};
}

/* The parameters that are left out, as "12 45". */
static void expect_skipped(const struct example *x, const char *expected)
{
    struct lw_uses u = {.p = &x->p};
    struct lw_err err = {0};
    char text[N + 1];

    assert_ok(lw_uses_skip_alike(&u, &err), err);
    for (int i = 0; i < N; i++)
        text[i] = lw_uses_skips(&u, i) ? (char)('0' + i) : ' ';
    text[N] = '\0';
    assert_string_equal(text, expected);
    lw_uses_free(&u);
}

TEST(gradients_that_all_lists_have_side_by_side_are_alike)
{
    struct example x;

    set_up(&x);
    expect_skipped(&x, " 12 45"); /* 3 begins a list that 2 is not in */
    x.ops[0].n_ready = x.ops[1].first_ready = 4;
    x.ops[1].n_ready = 2; /* 2 1 0 3 and 4 5: 2 and 3 are not neighbours in the first */
    expect_skipped(&x, " 12  5");
    set_up(&x);
    x.ops[1] = (struct lw_op){.first_ready = 1, .n_ready = 5}; /* 1 0 3 4 5 without 2 */
    expect_skipped(&x, " 1  45");
    set_up(&x);
    x.bucket.n_slots = 2; /* 2 and later have none */
    expect_skipped(&x, " 1  45");
    set_up(&x);
    x.bucket = (struct lw_bucket){.first_slot = 1, .n_slots = N - 1}; /* 0 has none */
    expect_skipped(&x, "  2 45");
}

TEST(gradients_that_differ_are_not_alike)
{
    struct example x;

    set_up(&x);
    x.params[1].used = false;
    expect_skipped(&x, "    45");
    set_up(&x);
    x.params[5].stage = 1;
    expect_skipped(&x, " 12 4 ");
    set_up(&x);
    x.params[4].tied = 1;
    expect_skipped(&x, "      ");
}

/* --- the proof with and without them ---------------------------------------------------------- */

static enum lw_status follow(const struct lw_plan *p, struct lw_uses *u, struct lw_err *err)
{
    struct lw_terms *t = NULL;
    struct lw_hazards *h = NULL;
    enum lw_status s = lw_check_terms_init(&t, u, err);

    if (s == LW_OK)
        s = lw_check_hazards_init(&h, u, err);
    for (int32_t i = 0; s == LW_OK && i < p->n_variants * p->n_roles; i++) {
        s = lw_uses_program(u, i / p->n_roles, i % p->n_roles, err);
        if (s == LW_OK)
            s = lw_check_terms(t, err);
        if (s == LW_OK)
            s = lw_check_hazards(h, err);
    }
    lw_check_hazards_free(h);
    lw_check_terms_free(t);
    return s;
}

/* *n_skipped, NULL: nothing is left out. */
static enum lw_status prove(const struct lw_plan *p, int64_t *n_skipped, struct lw_err *err)
{
    struct lw_uses u;
    enum lw_status s = lw_uses_init(&u, p, err);

    if (s == LW_OK && n_skipped)
        s = lw_uses_skip_alike(&u, err);
    for (int32_t i = 0; n_skipped && i < p->n_params; i++)
        *n_skipped += lw_uses_skips(&u, i);
    if (s == LW_OK)
        s = follow(p, &u, err);
    lw_uses_free(&u);
    return s;
}

/* Models of modules with several parameters, whose gradients are ready together. */
static void build_random(struct prng *r, struct lw_plan *p)
{
    static struct random_model k;
    struct lw_strategy s;

    do {
        random_model(r, &k);
        random_strategy(r, &k, &s);
        if (prng_in(r, 0, 1))
            random_fsdp(r, &s);
    } while (lw_plan_build(&k.w, &s, NULL, p, NULL) != LW_OK);
}

/* A number of an op, a dependency, a gradient of a list or a slot. */
static int32_t *drawn_number(struct prng *r, struct lw_plan *p, int32_t *limit)
{
    struct lw_op *op = &p->ops[prng_in(r, 0, p->n_ops - 1)];
    int32_t *of_op[] = {&op->bucket, &op->comm, &op->n_deps, &op->n_ready, &op->stream,
                        &op->first_ready, &op->micro_batch};

    *limit = p->n_params;
    switch (prng_in(r, 0, 3)) {
    case 0:
        return p->n_ready > 0 ? &p->ready[prng_in(r, 0, p->n_ready - 1)] : of_op[0];
    case 1:
        return p->n_slots > 0 ? &p->slots[prng_in(r, 0, p->n_slots - 1)] : of_op[0];
    case 2:
        *limit = p->n_ops;
        return p->n_deps > 0 ? &p->deps[prng_in(r, 0, p->n_deps - 1)] : of_op[0];
    default:
        *limit = 20;
        return of_op[prng_in(r, 0, 6)];
    }
}

TEST(a_proof_without_them_refuses_what_the_proof_with_them_does)
{
    struct prng r = prng_start("gradients that are used alike");
    int64_t skipped = 0;
    int refused = 0, passed = 0;

    for (int i = 0; i < unit_cases(60, 1000); i++) {
        struct lw_plan p;
        struct lw_err full = {0}, less = {0}, err = {0};
        build_random(&r, &p);
        for (int change = 0; p.ops && change < 40; change++) {
            bool grid;
            int32_t limit, *at = drawn_number(&r, &p, &limit), was = *at;
            *at = (int32_t)(change == 0        ? was
                            : prng_in(&r, 0, 1) ? was + prng_in(&r, -2, 2)
                                                : prng_in(&r, 0, limit - 1));
            if (lw_check_tables(&p, &grid, &err) == LW_OK) {
                enum lw_status s = prove(&p, NULL, &full);
                assert_int_equal(prove(&p, &skipped, &less), s);
                assert_int_equal(lw_check_programs(&p, true, &less), s);
                if (s != LW_OK)
                    assert_string_equal(less.msg, full.msg);
                refused += s != LW_OK;
                passed += s == LW_OK;
            }
            *at = was;
        }
        lw_plan_free(&p);
    }
    printf("%d changes refused, %d not, %lld times a gradient left out\n", refused, passed,
           (long long)skipped);
    assert_true(refused > 0 && passed > 0 && skipped > 0);
}
