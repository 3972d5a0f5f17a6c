/* A workload that is planned and freed: the same plan as of one that is kept, also where its
 * modules and parameters share rows. Random models of few kinds of both. LAPWING_TEST_SEED repeats
 * a run. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/model_rows.h"
#include "tests/lib/prng.h"

/* Module m is of kind m % kinds; without a common divisor of params and modules. */
static struct lw_workload model(int32_t n_modules, int32_t kinds, int32_t n_params)
{
    struct lw_workload w = {.name = "kinds", .n_modules = n_modules, .n_params = n_params,
                            .optimizer = LW_OPTIMIZER_ADAM, .optimizer_ps = 1000};

    w.from.rank = w.from.step = -1;
    w.modules = lw_arena_alloc(&w.arena, n_modules, sizeof *w.modules);
    w.params = lw_arena_alloc(&w.arena, n_params, sizeof *w.params);
    assert_true(w.modules && w.params);
    for (int32_t m = 0; m < n_modules; m++) {
        int64_t k = m % kinds + 1;
        w.modules[m] = (struct lw_module){
            .forward_ps = 1000 * k, .backward_input_ps = 900 * k, .backward_weight_ps = 800 * k,
            .forward_flops = 7000 * k, .forward_bytes = 500 * k, .output_bytes = 640,
            .kept_bytes = {100 * k, 50 * k, 640}, .selective_ps = 10 * k,
            .tp_split = LW_TP_COLUMN, .tp_forward_bytes = 640, .tp_backward_bytes = 640};
        w.modules[m].name = lw_arena_printf(&w.arena, "module %d", m);
        assert_non_null(w.modules[m].name);
    }
    for (int32_t i = 0; i < n_params; i++) {
        w.params[i] = (struct lw_param){
            .numel = 64 + 8 * (i % 5), .dtype = i % 7 == 0 ? LW_F32 : LW_BF16, .tied = -1,
            .module = (int32_t)((int64_t)i * n_modules / n_params), .used = true,
            .trainable = i % 11 != 0, .ready_ps = -1,
            .tp_split = i % 3 == 0 ? LW_TP_COLUMN : LW_TP_REPLICATED};
        w.params[i].name = lw_arena_printf(&w.arena, "weight %d", i);
        assert_non_null(w.params[i].name);
    }
    return w;
}

static struct lw_strategy draw(struct prng *r)
{
    struct lw_strategy s = lw_strategy_default();

    s.dp = prng_in(r, 1, 4);
    s.pp = prng_in(r, 1, 3);
    s.tp = prng_in(r, 1, 2);
    s.micro_batches = s.pp * prng_in(r, 1, 3);
    s.zero = s.dp > 1 ? prng_in(r, 0, 3) : 0;
    s.recompute = (enum lw_recompute)prng_in(r, 0, LW_N_RECOMPUTE - 1);
    s.clip = (double)prng_in(r, 0, 1);
    s.bucket_cap_bytes = prng_in(r, 0, 1) ? 4096 : -1;
    return s;
}

static void expect_same(const struct lw_plan *a, const struct lw_plan *b)
{
    struct lw_plan_difference d;
    char x[33], y[33];
    struct lw_err err = {0};

    assert_string_equal(a->hash, b->hash);
    assert_ok(lw_plan_hash_times(a, x, &err), err);
    assert_ok(lw_plan_hash_times(b, y, &err), err);
    assert_string_equal(x, y);
    assert_ok(lw_plan_diff(a, b, &d, &err), err);
    assert_string_equal(d.decision, "");
    assert_string_equal(d.bytes, "");
    assert_int_equal(a->n_notes, b->n_notes);
    for (int32_t i = 0; i < a->n_notes; i++)
        assert_string_equal(a->notes[i], b->notes[i]);
    for (int32_t r = 0; r < a->n_roles; r++)
        assert_memory_equal(a->roles[r].static_bytes, b->roles[r].static_bytes,
                            sizeof a->roles[r].static_bytes);
}

static void expect_param(const struct lw_workload *w, int32_t i, const struct lw_param *p)
{
    struct lw_param q = lw_param_at(w, i);

    assert_string_equal(q.name, p->name);
    q.name = p->name;
    assert_memory_equal(&q, p, sizeof q);
}

TEST(a_plan_of_shared_rows_is_that_of_whole_ones)
{
    struct prng r = prng_start("shared rows");
    int n = 0, n_shared = 0;

    for (int i = 0; i < unit_cases(60, 600); i++) {
        int32_t kinds = (int32_t)prng_in(&r, 1, 5);
        int32_t modules = 4 * kinds + (int32_t)prng_in(&r, 0, 9);
        int32_t params = modules * (int32_t)prng_in(&r, 1, 40) + (int32_t)prng_in(&r, 0, 3);
        struct lw_workload w = model(modules, kinds, params), q = model(modules, kinds, params);
        struct lw_strategy s = draw(&r);
        struct lw_plan a, b;
        struct lw_err x = {0}, y = {0};
        assert_ok(lw_workload_share_rows(&q, &x), x);
        assert_null(q.modules);
        n_shared += !q.params;
        for (int32_t k = 0; k < params; k++)
            expect_param(&q, k, &w.params[k]);
        for (int32_t m = 0; m < modules; m++) {
            struct lw_module of = *lw_module_at(&q, m);
            of.name = lw_module_name(&q, m);
            assert_string_equal(of.name, w.modules[m].name);
            of.name = w.modules[m].name;
            assert_memory_equal(&of, &w.modules[m], sizeof of);
        }
        enum lw_status st = lw_plan_build(&w, &s, NULL, &a, &x);
        assert_int_equal(lw_plan_build(&q, &s, NULL, &b, &y), st);
        if (st == LW_OK) {
            n++;
            expect_same(&a, &b);
            lw_plan_free(&a);
            lw_plan_free(&b);
        } else {
            assert_string_equal(x.msg, y.msg);
        }
        lw_workload_free(&w);
        lw_workload_free(&q);
    }
    printf("%d plans, parameters share rows in %d models\n", n, n_shared);
    assert_true(n > 30 && n_shared > 10);
}

/* One number of one module or parameter is out of its range; 0: none. Their number. */
static int spoil(struct lw_workload *w, int which, int32_t module, int32_t param)
{
    struct lw_module *m = &w->modules[module];
    struct lw_param *p = &w->params[param];

    switch (which) {
    case 0: break;
    case 1: m->forward_ps = -1; break;
    case 2: m->tp_split = LW_N_TP_SPLITS; break;
    case 3: m->whole_forward_ps = m->forward_ps + 1; break;
    case 4: m->attention_ps = m->forward_ps + 1; break;
    case 5: m->tp_row_ps = m->forward_ps + 1; break;
    case 6: m->kept_bytes[LW_RECOMPUTE_FULL] = INT64_MAX; break;
    case 7: p->numel = -1; break;
    case 8: p->numel = INT64_C(1) << 60; break;
    case 9: p->dtype = LW_N_DTYPES; break;
    case 10: p->module = w->n_modules; break;
    case 11: p->module = -1; break;
    case 12: p->device = -1; break;
    case 13: p->tied = param; break;
    case 14: p->ready_ps = INT64_MAX; break;
    default: p->rows = p->numel + 1;
    }
    return 16;
}

/* Numbers of one row are looked at once, and what is a place's own at each. */
TEST(a_model_of_rows_is_refused_as_the_whole_one)
{
    struct prng r = prng_start("models that are wrong");
    int n_refused = 0, n_shared = 0;

    for (int i = 0; i < unit_cases(200, 2000); i++) {
        int32_t kinds = (int32_t)prng_in(&r, 1, 3);
        int32_t modules = 8 * kinds + (int32_t)prng_in(&r, 0, 9);
        int32_t params = modules * (int32_t)prng_in(&r, 40, 80);
        struct lw_workload w = model(modules, kinds, params), q = model(modules, kinds, params);
        struct lw_err x = {0}, y = {0};
        int32_t m = prng_below(&r, modules), k = prng_below(&r, params);
        int which = i % spoil(&w, 0, m, k);
        spoil(&w, which, m, k);
        spoil(&q, which, m, k);
        assert_ok(lw_workload_share_rows(&q, &y), y);
        n_shared += !q.modules && !q.params;
        assert_int_equal(lw_workload_check(&w, &x), which == 0 ? LW_OK : LW_EFORMAT);
        assert_int_equal(lw_workload_check(&q, &y), x.code);
        assert_string_equal(x.msg, y.msg);
        n_refused += which != 0;
        lw_workload_free(&w);
        lw_workload_free(&q);
    }
    assert_true(n_refused > 0 && n_shared > n_refused / 2);
}

/* 5,000 modules of two kinds share rows on the way; nothing is left of the workload. */
TEST(a_workload_is_freed)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_workload w = model(5000, 2, 7000), q = model(5000, 2, 7000);
    struct lw_plan a, b;
    struct lw_err err = {0};

    s.dp = 8;
    s.zero = 1;
    assert_ok(lw_plan_build(&w, &s, NULL, &a, &err), err);
    lw_workload_free(&w);
    assert_ok(lw_plan_build_freeing(&q, &s, NULL, &b, &err), err);
    expect_same(&a, &b);
    lw_plan_free(&a);
    lw_plan_free(&b);
    assert_int_equal(lw_alloc_live(), 0);
    q = model(10, 2, 20);
    s.dp = -1;
    assert_true(lw_plan_build_freeing(&q, &s, NULL, &b, &err) != LW_OK);
    assert_int_equal(lw_alloc_live(), 0);
}

/* Where more than a quarter differ, all stay as they are: 4 of 12 modules, 9 of 20 parameters. */
TEST(rows_that_differ_are_not_shared)
{
    struct lw_workload w = model(12, 4, 20);
    struct lw_module *modules = w.modules;
    struct lw_param *params = w.params;
    struct lw_err err = {0};

    assert_ok(lw_workload_share_rows(&w, &err), err);
    assert_ptr_equal(w.modules, modules);
    assert_ptr_equal(w.params, params);
    lw_workload_free(&w);
}

/* Of 4,096 ranks, whose shards are runs: whichever allocation fails, nothing of the workload and of
 * the plan is left. */
TEST(a_failing_allocation_leaves_nothing)
{
    struct lw_strategy s = lw_strategy_default();
    enum lw_status st = LW_ENOMEM;
    int64_t n = 0;

    s.dp = 4096;
    s.zero = 1;
    s.shard_policy = LW_SHARD_FLAT;
    while (st != LW_OK) {
        struct lw_workload w = model(16, 2, 4096);
        struct lw_plan p;
        struct lw_err err = {0};
        lw_alloc_fail_at(++n);
        st = lw_plan_build_freeing(&w, &s, NULL, &p, &err);
        lw_alloc_fail_at(0);
        if (st != LW_OK && st != LW_ENOMEM)
            fail_msg("allocation %d: %s", (int)n, err.msg);
        if (st == LW_OK)
            assert_true(p.n_shard_runs > 0);
        if (st == LW_OK)
            lw_plan_free(&p);
        assert_int_equal(lw_alloc_live(), 0);
    }
    assert_true(n > 50);
}
