/* The matrix products of models by shape: in the workload, in the plan, and in their files. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/traces/model_help.h"

/* Two sequences of 24 tokens, hidden 32, 2 heads of 16, inner 128, vocabulary 40. */
static const struct traces_model_shape small = {.layers = 3, .hidden = 32, .heads = 2, .seq = 24,
                                                .vocab = 40, .batch = 2, .attention = "full"};

static bool has_shape(const struct lw_product *p, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    return p->batch == batch && p->m == m && p->n == n && p->k == k;
}

/* Queries, keys and values; scores; values; projection; the pair: 48 tokens. The gradient of an
 * input is (m, k, n), that of the weights (k, n, m); scores and values have two gradients each. */
MODEL_TEST(a_block_has_the_products_of_its_kernels)
{
    static const int64_t forward[][4] = {{1, 48, 96, 32}, {4, 24, 24, 16}, {4, 24, 16, 24},
                                         {1, 48, 32, 32}, {1, 48, 128, 32}, {1, 48, 32, 128}};
    static const int64_t input[][4] = {{1, 48, 32, 96}, {4, 24, 16, 24}, {4, 24, 16, 24},
                                       {4, 24, 24, 16}, {4, 24, 16, 24}, {1, 48, 32, 32},
                                       {1, 48, 32, 128}, {1, 48, 128, 32}};
    static const int64_t weight[][4] = {{1, 32, 96, 48}, {1, 32, 32, 48}, {1, 32, 128, 48},
                                        {1, 128, 32, 48}};
    static const struct {
        const int64_t (*shapes)[4];
        int32_t n;
    } phases[LW_N_PRODUCT_PHASES] = {{forward, 6}, {input, 8}, {weight, 4}};
    struct lw_workload w = model_kept("gpt2", NULL, small);

    for (int32_t block = 1; block <= 3; block++)
        for (int f = 0; f < LW_N_PRODUCT_PHASES; f++) {
            const struct lw_module *m = &w.modules[block];
            assert_int_equal(m->n_products[f], phases[f].n);
            for (int32_t k = 0; k < m->n_products[f]; k++) {
                const int64_t *x = phases[f].shapes[k];
                assert_true(has_shape(&w.products[m->products[f][k]], x[0], x[1], x[2], x[3]));
            }
        }
    /* with the head's three, shared by blocks and by directions of one shape */
    assert_true(w.n_products < 18 + 3);
}

static int64_t uses_of(const struct lw_workload *w, int32_t product)
{
    int64_t n = 0;

    for (int32_t m = 0; m < w->n_modules; m++)
        for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
            for (int32_t k = 0; k < w->modules[m].n_products[f]; k++)
                n += w->modules[m].products[f][k] == product;
    return n;
}

/* In one pass, of all roles together. */
static int64_t uses_in_plan(const struct lw_plan *p, int32_t product)
{
    int64_t n = 0;

    for (int32_t r = 0; r < p->n_roles; r++) {
        int32_t last = p->pass_variant[p->n_passes - 1];
        struct lw_program g = p->programs[(int64_t)last * p->n_roles + r];
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            const struct lw_work *w = p->ops[i].work >= 0 ? &p->works[p->ops[i].work] : NULL;
            for (int32_t k = 0; w && k < w->n_products; k++)
                n += p->work_products[w->first_product + k] == product;
        }
    }
    return n;
}

/* However modules are cut, each product is in one op of a pass; hash and file keep them. */
MODEL_TEST(each_product_is_in_one_op)
{
    static const struct {
        const char *name, *options;
        int32_t tensor, micro_batches;
    } cases[] = {
        {"gpt2", "dp=2", 0, 1},
        {"gpt2", "dp=2 zero=3", 0, 1},
        {"gpt2", "pp=2 micro-batches=4 schedule=zb-h1", 0, 4},
        {"gpt2", "dp=2 tp=2", 2, 1},
        {"gpt2", "pp=2 tp=2 micro-batches=3 schedule=zb-h1", 2, 3},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape = small;
        struct lw_strategy s = lw_strategy_default();
        struct lw_plan p, read;
        struct lw_err err = {0};
        shape.tensor = cases[i].tensor;
        struct lw_workload w = model_kept(cases[i].name, NULL, shape);
        char options[128];
        snprintf(options, sizeof options, "%s", cases[i].options);
        for (char *rest = options, *o; (o = strtok_r(rest, " ", &rest));) {
            char *value = strchr(o, '=');
            *value++ = 0;
            assert_ok(lw_strategy_set(&s, o, value, &err), err);
        }
        assert_ok(lw_plan_build(&w, &s, NULL, &p, &err), err);
        assert_ok(lw_plan_check(&p, &err), err);
        assert_int_equal(p.n_products, w.n_products);
        for (int32_t k = 0; k < w.n_products; k++)
            assert_int_equal(uses_in_plan(&p, k), uses_of(&w, k) * cases[i].micro_batches);
        assert_ok(lw_plan_write(&p, fixture_path("p.json"), &err), err);
        assert_ok(lw_plan_read(fixture_path("p.json"), false, &read, &err), err);
        assert_string_equal(read.hash, p.hash);
        assert_int_equal(read.n_work_products, p.n_work_products);
        p.products[0].k++;
        assert_ok(lw_plan_hash(&p, &err), err);
        assert_string_not_equal(read.hash, p.hash);
        lw_plan_free(&p);
        lw_plan_free(&read);
    }
}

/* Shapes of other groups than the plan's are left out, and a note says so. */
MODEL_TEST(shapes_of_other_groups_are_left_out)
{
    struct lw_workload w = model_kept("gpt2", NULL, small);
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p;
    struct lw_err err = {0};
    bool said = false;

    s.tp = 2;
    assert_ok(lw_plan_build(&w, &s, NULL, &p, &err), err);
    assert_int_equal(p.n_products, 0);
    for (int32_t i = 0; i < p.n_notes; i++)
        said = said || strstr(p.notes[i], "make the workload with --tp 2 --cp 1");
    assert_true(said);
    lw_plan_free(&p);
}

TEST_GROUP(fixture_open, fixture_close)
