/* The measured-run files: one case per bucket cap. The prediction is made as every other one:
 * workload and cluster from what the file's user had before the run, plan, engine, step. The
 * measured side of the file is read only after the prediction is complete. */
#include "analysis/validate/validate_kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/cluster/gloo.h"
#include "shared/lower/lower.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "shared/timeline/timeline.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"
#include "traces/ddp_runs/ddp_run_measured.h"
#include "traces/ddp_runs/ddp_run_workload.h"
#include "traces/ddp_runs/import_ddp_run.h"

/* Networks whose repeated runs differ by up to 11 %: caps nearer than 10 % have no order there. */
static const char *const noisy_nets[] = {"5g", "unl"};

enum { NOISY_MARGIN_PCT = 10, MARGIN_PCT = 5 };

struct file {
    const struct lw_input *in;
    struct lw_groundtruth g;
    struct lw_workload workload;
    struct lw_cluster cluster;
    struct lw_gt_results results;
    struct lw_validation *v;
    int32_t family, series;
};

struct prediction {
    lw_ps step;
    struct lw_sim_stats stats;
    struct lw_plan plan;
};

bool lw_validate_is_groundtruth(const struct lw_input *in)
{
    return lw_groundtruth_is(in->text, in->len);
}

static enum lw_status simulate(const struct file *f, struct prediction *p, struct lw_err *err)
{
    struct lw_sim_options options = lw_sim_options_default();
    struct lw_timeline timeline;
    struct lw_summary summary;
    int32_t n_warmup = lw_sim_warmup_steps(&p->plan);

    memset(&timeline, 0, sizeof timeline);
    options.n_steps = n_warmup + 1;
    LW_TRY(lw_sim_run(&p->plan, &f->cluster, &options, &timeline, &p->stats, err));
    enum lw_status status = lw_timeline_summarize(&timeline, &p->plan, n_warmup, &summary, err);
    if (status == LW_OK) {
        p->step = summary.step;
        lw_summary_free(&summary);
    }
    lw_timeline_free(&timeline);
    return status;
}

static enum lw_status predict(const struct file *f, int64_t cap_bytes, struct prediction *p,
                              struct lw_err *err)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_cost cost = lw_sim_cost(&f->cluster);

    s.dp = LW_GROUNDTRUTH_RANKS;
    s.bucket_policy = LW_BUCKET_C10D_1_13;
    s.bucket_cap_bytes = cap_bytes;
    s.reducer = LW_REDUCER_GLOO;
    LW_TRY(lw_plan_build(&f->workload, &s, &cost, &p->plan, err));
    enum lw_status status = simulate(f, p, err);
    if (status != LW_OK)
        lw_plan_free(&p->plan);
    return status;
}

/* DDP logged the buckets it used; a plan with others predicts another run. */
static bool same_buckets(const struct lw_plan *p, const struct lw_gt_measured *m)
{
    const struct lw_bucket_set *set = &p->sets[p->n_sets - 1];

    if (m->n_buckets != set->n_buckets)
        return m->n_buckets == 0;
    for (int32_t b = 0; b < m->n_buckets; b++)
        if (p->buckets[set->first_bucket + b].bytes != m->bucket_bytes[b])
            return false;
    return true;
}

static lw_ps slower(const lw_ps step[2])
{
    return step[0] > step[1] ? step[0] : step[1];
}

/* What the file knows about its own measurement that bears on a difference. */
static void remark(const struct prediction *p, const struct lw_gt_measured *m, char *text,
                   size_t size)
{
    lw_ps now = slower(m->step), before = slower(m->first_step);
    double change = before > 0 ? 100 * (double)(now - before) / (double)before : 0;
    size_t used = 0;

    *text = '\0';
    if (!same_buckets(&p->plan, m))
        used += (size_t)snprintf(text, size, "the plan's buckets are not those that DDP logged; ");
    if (m->rel_iqr > 0.1 && used < size)
        used += (size_t)snprintf(text + used, size - used,
                                 "the measured steps spread by %.0f %% (IQR); ", 100 * m->rel_iqr);
    if (fabs(change) > 5 && used < size)
        used += (size_t)snprintf(text + used, size - used,
                                 "a first run of the same took %.1f %% %s; ", fabs(change),
                                 change > 0 ? "less" : "more");
    if (used >= 2 && used < size)
        text[used - 2] = '\0';
}

static enum lw_status add_terms(const struct file *f, const struct lw_sim_stats *s,
                                struct lw_err *err)
{
    char text[320];

    for (int32_t i = 0; i < s->n_terms; i++) {
        const struct lw_sim_term *t = &s->terms[i];
        snprintf(text, sizeof text, "term %s = %g (%s)%s%s", t->name, t->value, t->source,
                 t->on ? "" : ", not used: ", t->why);
        LW_TRY(lw_validation_note(f->v, f->family, t->name, text, err));
    }
    return LW_OK;
}

static enum lw_status add_case(const struct file *f, const struct lw_gt_cap *cap,
                               const struct prediction *p, struct lw_err *err)
{
    const struct lw_gt_measured *m = lw_gt_measured_find(&f->results, cap->config);
    char id[256], about[320];

    bool measured = m && m->step[0] > 0 && m->step[1] > 0;

    snprintf(id, sizeof id, "%s__%s__%s", f->g.model, f->g.net, cap->config);
    if (measured)
        remark(p, m, about, sizeof about);
    else
        snprintf(about, sizeof about, "ddp.%s has no timing.step.median above 0 of both ranks",
                 cap->config);
    struct lw_case c = {.id = id, .unit = "ns", .family = f->family, .series = f->series,
                        .predicted = (double)lw_ps_to_ns(p->step),
                        .measured = measured ? (double)lw_ps_to_ns(slower(m->step)) : 0,
                        .remark = about};
    LW_TRY(lw_validation_case(f->v, &c, err));
    return add_terms(f, &p->stats, err);
}

static enum lw_status add_family(struct file *f, struct lw_err *err)
{
    static const struct lw_bars bars = {.mean_pct = 5, .worst_pct = 15, .order_pct = 90};
    double margin = MARGIN_PCT;
    char name[256];

    for (size_t i = 0; i < sizeof noisy_nets / sizeof *noisy_nets; i++)
        if (strcmp(f->g.net, noisy_nets[i]) == 0)
            margin = NOISY_MARGIN_PCT;
    snprintf(name, sizeof name, "%s__%s", f->g.model, f->g.net);
    LW_TRY(lw_validation_family(f->v, "groundtruth", bars, true, &f->family, err));
    LW_TRY(lw_validation_series(f->v, f->family, name, margin, &f->series, err));
    const struct lw_gloo_fact *x = &lw_gloo_facts[LW_GLOO_COPY];
    struct lw_fit fit = {f->family, x->n_rows, x->name, x->unit, x->fitted_on, x->value};
    return lw_validation_fit(f->v, &fit, err);
}

static enum lw_status add_cases(struct file *f, struct lw_err *err)
{
    LW_TRY(lw_gloo_workload(&f->g, &f->workload, err));
    LW_TRY(lw_gloo_cluster(&f->g, &f->cluster, err));
    LW_TRY(add_family(f, err));
    for (int32_t i = 0;
         i < f->g.n_caps && lw_validation_goes_on(f->v, f->in->name, i, f->g.n_caps); i++) {
        struct prediction p;
        memset(&p, 0, sizeof p);
        LW_TRY(lw_err_context(err, predict(f, f->g.caps[i].cap_bytes, &p, err), "%s: %s",
                              f->in->name, f->g.caps[i].config));
        enum lw_status status = LW_OK;
        if (f->results.n == 0)
            status = lw_groundtruth_measured(f->in, &f->results, err);
        if (status == LW_OK)
            status = add_case(f, &f->g.caps[i], &p, err);
        lw_plan_free(&p.plan);
        LW_TRY(status);
    }
    return LW_OK;
}

enum lw_status lw_validate_groundtruth(const struct lw_input *in, struct lw_validation *v,
                                       struct lw_err *err)
{
    struct file f = {.in = in, .v = v};

    LW_TRY(lw_groundtruth_read(in, &f.g, err));
    enum lw_status status = add_cases(&f, err);
    lw_gt_results_free(&f.results);
    lw_cluster_free(&f.cluster);
    lw_workload_free(&f.workload);
    lw_groundtruth_free(&f.g);
    return status;
}
