/* A search simulates drafts (lw_plan_draft), which have neither a proof nor a hash: their steps,
 * rows and memory are those of the plan. LAPWING_TEST_SEED repeats a run. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/unit.h"

#include "shared/cluster/cluster.h"
#include "shared/files/files.h"
#include "shared/framework/framework.h"
#include "shared/framework/framework_memory.h"
#include "shared/lower/lower.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/memory_predict.h"
#include "sim/predict/sim.h"
#include "tests/lib/plans/random_strategy.h"

static void expect_rows(const struct lw_timeline *a, const struct lw_timeline *b)
{
    size_t n = (size_t)a->n;

    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->op, b->op, n * sizeof *a->op);
    assert_memory_equal(a->rank, b->rank, n * sizeof *a->rank);
    assert_memory_equal(a->start, b->start, n * sizeof *a->start);
    assert_memory_equal(a->all_in, b->all_in, n * sizeof *a->all_in);
    assert_memory_equal(a->end, b->end, n * sizeof *a->end);
}

static void expect_equal(const struct lw_plan *p, const struct lw_plan *draft,
                         const struct lw_cluster *c)
{
    struct lw_sim_options o = {.n_steps = 2};
    struct lw_timeline a = {0}, b = {0};
    struct lw_sim_stats s, t;
    struct lw_err err = {0};

    assert_ok(lw_sim_run(p, c, &o, &a, &s, &err), err);
    assert_ok(lw_sim_run(draft, c, &o, &b, &t, &err), err);
    expect_rows(&a, &b);
    assert_int_equal(s.end, t.end);
    assert_int_equal(s.n_events, t.n_events);
    assert_int_equal(s.n_simulated, t.n_simulated);
    lw_timeline_free(&a);
    lw_timeline_free(&b);
}

static void expect_same_memory(struct lw_plan *p, struct lw_plan *draft, const struct lw_cluster *c)
{
    struct lw_framework ideal = {0};
    struct lw_memory_figures a = {0}, b = {0};
    struct lw_err err = {0};

    assert_ok(lw_framework_find("ideal", &ideal, &err), err);
    lw_framework_hold(&ideal, p);
    lw_framework_hold(&ideal, draft);
    assert_ok(lw_memory_predict(p, &ideal, c, &a, &err), err);
    assert_ok(lw_memory_predict(draft, &ideal, c, &b, &err), err);
    assert_memory_equal(&a, &b, sizeof a);
    lw_framework_free(&ideal);
}

TEST(a_draft_is_simulated_as_the_plan)
{
    struct prng r = prng_start("drafts");
    const int tries = unit_cases(300, 3000);
    struct lw_cluster c;
    struct lw_err err = {0};
    int n_planned = 0;

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    struct lw_cost cost = lw_sim_cost(&c);
    for (int i = 0; i < tries; i++) {
        struct random_model k;
        struct lw_strategy s;
        struct lw_plan p, draft;
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        random_fsdp(&r, &s);
        enum lw_status st = lw_plan_build(&k.w, &s, &cost, &p, &err);
        assert_int_equal(lw_plan_draft(&k.w, &s, &cost, &draft, &err), st);
        if (st != LW_OK)
            continue;
        assert_string_equal(draft.hash, "");
        expect_equal(&p, &draft, &c);
        expect_same_memory(&p, &draft, &c);
        n_planned++;
        lw_plan_free(&p);
        lw_plan_free(&draft);
    }
    printf("%d plans\n", n_planned);
    assert_true(n_planned > tries / 4);
    lw_cluster_free(&c);
}
