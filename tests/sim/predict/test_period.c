/* A step is the steady period: closed forms of pipelines, and what must not change it. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/files/files.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/plans/pipelines.h"
#include "tests/lib/sim/sim_help.h"
#include "traces/models/models.h"

enum { UNIT = 1000000 }; /* ps */

/* Measured steps; cost NULL: messages and collectives take no time. */
static struct lw_summary simulate(const struct lw_plan *p, const struct lw_cost *cost,
                                  int32_t n_steps, bool buffered)
{
    const struct lw_cost none = pipeline_cost(p);
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_classes classes;
    struct lw_sim_stats stats;
    struct lw_summary s = {0};
    struct lw_cluster c;
    struct lw_err err = {0};

    make_cluster(&c, p->n_ranks, 1e9, 0);
    c.device.copy_bytes_per_s = given(1e9);
    o.n_steps = lw_sim_warmup_steps(p) + n_steps;
    o.cost = cost ? cost : &none;
    o.buffered = buffered;
    if (lw_sim_run_classes(p, &c, &o, &classes, &stats, &err) != LW_OK ||
        lw_sim_summarize(&classes, o.n_steps - n_steps, &s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    lw_sim_classes_free(&classes);
    lw_cluster_free(&c);
    return s;
}

TEST(pipelines_have_the_periods_and_bubbles_of_their_closed_forms)
{
    for (int32_t i = 0; i < 2 * N_PIPELINES; i++) {
        const struct pipeline_case *x = &pipeline_cases[i / 2];
        struct chain c;
        pipeline_chain(&c, UNIT);
        struct lw_plan p = build(&c, x->words);
        struct lw_summary s = simulate(&p, NULL, 3, i % 2);
        for (int32_t k = 0; k < 3; k++)
            if (s.steps[k] != (lw_ps)x->period * UNIT)
                fail_msg("%s: step %d takes %g units, expected %d", x->words, k,
                         (double)s.steps[k] / UNIT, x->period);
        for (int32_t r = 0; r < x->p; r++) {
            struct lw_measure m = lw_summary_of(&s, r);
            assert_int_equal(m.end - m.start, (lw_ps)x->period * UNIT);
        }
        double bubble = (double)x->bubble / (x->p * x->period);
        if (s.bubble_ratio < bubble - 1e-12 || s.bubble_ratio > bubble + 1e-12)
            fail_msg("%s: bubble %.6f, expected %.6f", x->words, s.bubble_ratio, bubble);
        assert_true(s.bubble_ratio + s.compute_share > 1 - 1e-12);
        lw_summary_free(&s);
        lw_plan_free(&p);
    }
}

/* Stages that meet for the norm of the gradients wait there for the stage that ends last, and not
 * at the first message of the next step: the same waiting, by the same name, less the squares that
 * they take meanwhile. zb-h2 fills it with the next step, which now waits for the norm. */
TEST(clipping_changes_no_bubble)
{
    int n = 0;

    for (int32_t i = 0; i < N_PIPELINES; i++) {
        const struct pipeline_case *x = &pipeline_cases[i];
        char words[160];
        struct chain c;
        double waits = 0;
        if (strstr(x->words, "zb-h2"))
            continue;
        snprintf(words, sizeof words, "%s clip 1", x->words);
        pipeline_chain(&c, UNIT);
        struct lw_plan p = build(&c, words);
        struct lw_summary s = simulate(&p, NULL, 2, false);
        for (int32_t r = 0; r < x->p; r++) {
            waits += (double)lw_summary_of(&s, r).wait[LW_WAIT_PIPELINE] / UNIT;
            assert_int_equal(lw_summary_of(&s, r).wait[LW_WAIT_OTHER], 0);
        }
        if (waits > x->bubble || waits < 0.99 * x->bubble)
            fail_msg("%s: %g units of waiting, %d without", words, waits, x->bubble);
        n++;
        lw_summary_free(&s);
        lw_plan_free(&p);
    }
    assert_true(n > 3);
}

/* With costs of messages and gradients the bubble of a 1F1B pipeline holds no transfer. */
TEST(a_bubble_is_waiting_for_neighbours_alone)
{
    struct chain c;
    struct lw_cluster links;

    pipeline_chain(&c, UNIT);
    make_cluster(&links, 8, 1e6, 0); /* 80 bytes a message: 80 units */
    struct lw_cost cost = lw_sim_cost(&links);
    struct lw_plan p = build(&c, "pp 4 dp 2 micro-batches 8");
    struct lw_summary s = simulate(&p, &cost, 2, false);
    double all = 0, waits = 0;
    for (int32_t r = 0; r < s.n_ranks; r++) {
        const struct lw_measure x = lw_summary_of(&s, r), *m = &x;
        assert_int_equal(m->end - m->start,
                         m->compute_busy + m->exposed_copy + m->exposed_comm + m->idle);
        assert_true(m->transfer > 0);
        all += (double)(m->end - m->start);
        waits += (double)m->wait[LW_WAIT_PIPELINE];
    }
    assert_true(s.bubble_ratio > 0 && s.bubble_ratio + s.compute_share < 1);
    assert_true(s.bubble_ratio > waits / all - 1e-12 && s.bubble_ratio < waits / all + 1e-12);
    lw_summary_free(&s);
    lw_plan_free(&p);
    lw_cluster_free(&links);
}

/* More steps, other buckets: the same period; more work: no shorter one. */
TEST(the_period_is_steady)
{
    static const char *const words[] = {
        "pp 4 dp 2 micro-batches 8", "pp 2 dp 2 micro-batches 4 schedule interleaved-1f1b chunks 2",
        "pp 4 micro-batches 8 schedule zb-h1", "dp 4", "pp 2 dp 2 zero 1 micro-batches 4",
        "dp 4 zero 3",
    };
    struct lw_cluster links;

    make_cluster(&links, 8, 1e8, 3 * UNIT);
    struct lw_cost cost = lw_sim_cost(&links);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char clipped[160];
        struct chain c;
        pipeline_chain(&c, UNIT);
        struct lw_plan p = build(&c, words[i]);
        struct lw_summary one = simulate(&p, &cost, 1, false), five = simulate(&p, &cost, 5, false);
        for (int32_t k = 0; k < 5; k++)
            assert_int_equal(five.steps[k], one.step);
        snprintf(clipped, sizeof clipped, "%s clip 1", words[i]);
        struct lw_plan q = build(&c, clipped);
        struct lw_summary more = simulate(&q, &cost, 1, false);
        if (more.step < one.step)
            fail_msg("%s: %lld ps with clipping, %lld without", words[i], (long long)more.step,
                     (long long)one.step);
        lw_summary_free(&more);
        lw_summary_free(&five);
        lw_summary_free(&one);
        lw_plan_free(&q);
        lw_plan_free(&p);
    }
    lw_cluster_free(&links);
}

/* 1,024 ranks with 16 stages: ranks enter the next step while others are in this one, so the
 * span of a step is longer than the period that every rank has. */
TEST(a_deep_pipeline_counts_no_time_twice)
{
    static const char *const words[] = {
        "tp 8 pp 16 dp 8 micro-batches 64", "tp 8 pp 16 dp 8 micro-batches 64 clip 1",
        "tp 8 pp 16 dp 8 micro-batches 64 bucket-policy single"};
    struct traces_model_shape shape = {0};
    struct lw_workload w;
    struct lw_cluster cluster;
    struct lw_err err = {0};
    lw_ps step[3];

    if (lw_cluster_find("dgx-h100", &cluster, &err) != LW_OK ||
        traces_model_build("gpt-175b", &shape, &cluster.device, &w, &err) != LW_OK)
        fail_msg("%s", err.msg);
    struct lw_cost cost = lw_sim_cost(&cluster);
    for (int i = 0; i < 3; i++) {
        struct lw_strategy strategy_of = strategy(words[i]);
        struct lw_sim_options o = lw_sim_options_default();
        struct lw_sim_classes classes;
        struct lw_sim_stats stats;
        struct lw_summary s;
        struct lw_plan p;
        assert_ok(lw_plan_build(&w, &strategy_of, &cost, &p, &err), err);
        int32_t n_warmup = lw_sim_warmup_steps(&p);
        o.n_steps = n_warmup + 2;
        if (lw_sim_run_classes(&p, &cluster, &o, &classes, &stats, &err) != LW_OK ||
            lw_sim_summarize(&classes, n_warmup, &s, &err) != LW_OK)
            fail_msg("%s", err.msg);
        step[i] = s.step;
        assert_int_equal(s.steps[0], s.steps[1]);
        for (int32_t r = 0; r < s.n_ranks; r++)
            assert_int_equal(lw_summary_of(&s, r).end - lw_summary_of(&s, r).start, s.step);
        assert_true(i == 1 || (double)s.span > 1.1 * (double)s.step);
        lw_summary_free(&s);
        lw_sim_classes_free(&classes);
        lw_plan_free(&p);
    }
    assert_true(step[1] >= step[0]); /* clipping is work on top */
    assert_true(step[2] >= step[0]); /* one bucket overlaps less */
    lw_workload_free(&w);
    lw_cluster_free(&cluster);
}
