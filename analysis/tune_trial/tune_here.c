/* The trial. All strategies that fit are in the order of their predicted steps; the first ones are
 * tried, and of the others as many by chance. Runs go round by round over all strategies, so that a
 * slow drift of the machine is in the spread of repeats, and not between strategies. */
#include "analysis/tune_trial/tune_here.h"

#include <math.h>

#include "analysis/study/machine_run.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/timeline/timeline.h"
#include "sim/cost/cost_model.h"
#include "sim/timing/random_draws.h"

enum { MOST = 2 * (LW_TUNE_HERE_BEST + LW_TUNE_HERE_OTHERS) };

struct trial { /* one strategy */
    struct lw_plan_source source;
    struct lw_cluster cluster;
    struct lw_machine_run run;
    int64_t stored[LW_TUNE_REPEATS]; /* runs of the repeats */
    double speed[LW_TUNE_REPEATS];   /* the machine's; NAN = not known */
    double others;
};

struct here {
    const struct lw_tune_here_task *t;
    struct lw_tune_here_result *r;
    const struct lw_tune_row **order; /* [n] that fit, the fastest first */
    bool *taken;
    int64_t n;
    struct trial *trial[MOST]; /* of the result's rows */
    struct lw_tune_measured measured[MOST];
};

/* --- the order --- */

static int by_step(const void *pa, const void *pb)
{
    const struct lw_tune_row *a = *(const struct lw_tune_row *const *)pa;
    const struct lw_tune_row *b = *(const struct lw_tune_row *const *)pb;

    return LW_ORDER(a->step, b->step, a->part, b->part, a->combination, b->combination);
}

static enum lw_status put_order(struct here *h, struct lw_err *err)
{
    const struct lw_tune_result *f = h->t->found;

    LW_TAKE(&h->r->arena, h->order, f->n_rows + 1, err);
    LW_TAKE(&h->r->arena, h->taken, f->n_rows + 1, err);
    for (int64_t i = 0; i < f->n_rows; i++)
        if (f->rows[i].fits)
            h->order[h->n++] = &f->rows[i];
    lw_sort(h->order, h->n, by_step);
    return LW_OK;
}

/* --- one strategy --- */

static struct lw_machine machine_of(const struct here *h, const struct trial *x)
{
    return (struct lw_machine){.backend = &exec_backend_threads, .cluster = &x->cluster,
                               .n_steps = (int32_t)h->t->request->n_steps,
                               .stop = h->t->progress->stop};
}

static void free_trial(struct trial *x)
{
    if (!x)
        return;
    lw_machine_run_free(&x->run);
    lw_cluster_free(&x->cluster);
    lw_plan_source_free(&x->source);
    lw_free(x);
}

static enum lw_status make(const struct here *h, const struct lw_tune_row *row, struct trial *x,
                           struct lw_err *err)
{
    const struct lw_tune_part *part = &h->t->parts[row->part];
    struct lw_strategy strategy;
    struct lw_tune_given given;

    lw_tune_strategy(&part->space, row->combination, &strategy, &given, NULL);
    LW_TRY(lw_tune_source(&part->request, &given, &x->source, err));
    LW_TRY(lw_plan_source_cluster(&x->source, &x->cluster, err));
    const struct lw_cost cost = lw_sim_cost(&x->cluster);
    LW_TRY(lw_plan_source_load(&x->source, NULL, &cost, &x->cluster, &x->run.plan, err));
    const struct lw_machine m = machine_of(h, x);
    return lw_machine_predict(&m, &x->run, err);
}

static const struct lw_workload *workload_of(const struct trial *x)
{
    return x->source.has_workload ? &x->source.workload : NULL;
}

static enum lw_status store_prediction(const struct here *h, int k, struct lw_err *err)
{
    const struct trial *x = h->trial[k];
    const struct lw_machine m = machine_of(h, x);

    if (!h->t->db)
        return LW_OK;
    return lw_machine_store_prediction(&m, &x->run, h->t->db, h->t->command, workload_of(x),
                                       &h->r->row[k].predicted_run, err);
}

/* One repeat. LW_ENOTSUP: the executor does not run such a plan. */
static enum lw_status repeat(struct here *h, int k, struct lw_err *err)
{
    struct trial *x = h->trial[k];
    struct lw_tune_measured *m = &h->measured[k];
    const struct lw_machine machine = machine_of(h, x);

    LW_TRY(lw_machine_execute(&machine, &x->run, err));
    LW_TRY(lw_machine_summarize(&machine, &x->run, err));
    m->repeat[m->n_repeats] = x->run.measured.step;
    m->at_speed[m->n_repeats] = lw_machine_step_at_speed(&x->run);
    x->speed[m->n_repeats] =
        x->run.result.speed.n > 0 ? x->run.result.speed.median : (double)NAN;
    if (h->t->db)
        LW_TRY(lw_machine_store_execution(&machine, &x->run, h->t->db, h->t->command,
                                          workload_of(x), &x->stored[m->n_repeats], err));
    m->n_repeats++;
    if (x->run.result.others_share > x->others)
        x->others = x->run.result.others_share;
    h->r->row[k].n_loaded += lw_machine_is_loaded(&x->run);
    lw_machine_run_clear(&x->run);
    return LW_OK;
}

/* --- which --- */

/* Runs of the strategies take this long, by what is predicted of those that are there. */
static enum lw_status check_time(const struct here *h, lw_ps step, struct lw_err *err)
{
    const struct lw_tune_here_request *q = h->t->request;
    double all = (double)(q->n_steps + LW_MACHINE_WARMUP) * (double)q->n_repeats *
                 (LW_TUNE_HERE_BEST + LW_TUNE_HERE_OTHERS) * (double)step / (double)LW_PS_PER_S;

    if (all <= q->most_s)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--here: steps of %.3g s make runs of %.0f s, allowed: %.0f s; take a smaller "
                   "model, --global-batch, --steps or --repeats",
                   (double)step / (double)LW_PS_PER_S, all, q->most_s);
}

/* A trial of the place-th strategy becomes a row; with the reason if it cannot be executed. */
static enum lw_status try_place(struct here *h, int64_t place, const char *of, bool *ran,
                                struct lw_err *err)
{
    struct lw_tune_here_result *r = h->r;
    const struct lw_tune_row *row = h->order[place];
    struct lw_err why = {0};
    int k = r->n_rows;

    *ran = false;
    h->taken[place] = true;
    if (!(h->trial[k] = lw_calloc(1, sizeof *h->trial[k])))
        return lw_fail_nomem(err);
    r->row[k] = (struct lw_tune_here_row){.strategy = row->strategy, .of = of, .place = place + 1,
                                          .predicted = row->step, .predicted_run = -1,
                                          .measured_run = -1, .measured = -1, .least = -1,
                                          .most = -1, .at_speed = -1,
                                          .machine_speed = NAN, .error_pct = NAN, .reason = ""};
    h->measured[k] = (struct lw_tune_measured){.predicted = row->step};
    r->n_rows++;
    LW_TRY(check_time(h, row->step, err));
    LW_TRY(make(h, row, h->trial[k], err));
    enum lw_status st = repeat(h, k, &why);
    if (st == LW_ENOTSUP) {
        r->row[k].reason = lw_arena_strdup(&r->arena, why.msg);
        return r->row[k].reason ? LW_OK : lw_fail_nomem(err);
    }
    if (st != LW_OK)
        return lw_err_context(err, lw_fail(err, st, "%s", why.msg), "%s", row->strategy);
    *ran = true;
    return store_prediction(h, k, err);
}

/* Whether one that is there takes as long: to the predictor it is the same strategy. */
static bool is_alike(const struct here *h, int64_t place)
{
    for (int k = 0; k < h->r->n_rows; k++)
        if (h->r->row[k].predicted == h->order[place]->step)
            return true;
    return false;
}

static bool goes_on(const struct here *h)
{
    return h->r->n_rows < MOST && !lw_progress_stopped(h->t->progress);
}

static enum lw_status try_best(struct here *h, struct lw_err *err)
{
    int n = 0;
    bool ran;

    for (int64_t i = 0; i < h->n && n < LW_TUNE_HERE_BEST && goes_on(h); i++) {
        h->taken[i] = is_alike(h, i);
        h->r->n_alike += h->taken[i];
        if (h->taken[i])
            continue;
        lw_progress_report(h->t->progress, "the best", (double)n / LW_TUNE_HERE_BEST);
        LW_TRY(try_place(h, i, "best", &ran, err));
        n += ran;
    }
    return LW_OK;
}

/* Each of those that are left with the same chance. */
static enum lw_status try_others(struct here *h, struct lw_err *err)
{
    int n = 0;
    bool ran;

    for (uint64_t draw = 0; n < LW_TUNE_HERE_OTHERS && goes_on(h); draw++) {
        int64_t left = 0, at = 0;
        for (int64_t i = 0; i < h->n; i++)
            left += !h->taken[i];
        if (left == 0)
            break;
        uint64_t seed = sim_seed_of((uint64_t)h->t->request->seed, draw);
        int64_t k = (int64_t)(sim_mix(seed) % (uint64_t)left);
        while (h->taken[at] || k-- > 0)
            at++;
        h->taken[at] = is_alike(h, at);
        h->r->n_alike += h->taken[at];
        if (h->taken[at])
            continue;
        lw_progress_report(h->t->progress, "others", (double)n / LW_TUNE_HERE_OTHERS);
        LW_TRY(try_place(h, at, "others", &ran, err));
        n += ran;
    }
    return LW_OK;
}

/* --- the other rounds --- */

static enum lw_status repeat_all(struct here *h, struct lw_err *err)
{
    int64_t n = h->t->request->n_repeats;

    for (int64_t round = 1; round < n; round++)
        for (int k = 0; k < h->r->n_rows; k++) {
            if (lw_progress_stopped(h->t->progress))
                return LW_OK;
            if (h->r->row[k].reason[0])
                continue;
            lw_progress_report(h->t->progress, "repeats",
                               (double)((round - 1) * h->r->n_rows + k) /
                                   (double)((n - 1) * h->r->n_rows));
            LW_TRY(lw_err_context(err, repeat(h, k, err), "%s", h->r->row[k].strategy));
        }
    return LW_OK;
}

/* Of repeats whose speed is known. */
static double median_speed(const struct trial *x, int n)
{
    double v[LW_TUNE_REPEATS];
    int known = 0;

    for (int i = 0; i < n; i++)
        if (!isnan(x->speed[i]))
            v[known++] = x->speed[i];
    return known > 0 ? lw_speed_quantile(v, known, 0.5) : (double)NAN;
}

static void fill_row(const struct here *h, int k)
{
    struct lw_tune_here_row *row = &h->r->row[k];
    const struct lw_tune_measured *m = &h->measured[k];

    lw_ps nearest = 0;

    row->measured = m->measured;
    row->at_speed = m->measured_at_speed;
    row->machine_speed = median_speed(h->trial[k], m->n_repeats);
    row->error_pct = m->error_pct;
    row->tie = m->tie;
    row->others_pct = 100 * h->trial[k]->others;
    row->least = row->most = m->repeat[0];
    for (int i = 0; i < m->n_repeats; i++) {
        if (m->repeat[i] < row->least)
            row->least = m->repeat[i];
        if (m->repeat[i] > row->most)
            row->most = m->repeat[i];
        lw_ps off = m->repeat[i] > m->measured ? m->repeat[i] - m->measured
                                               : m->measured - m->repeat[i];
        if (h->t->db && (i == 0 || off < nearest))
            row->measured_run = h->trial[k]->stored[i];
        nearest = i == 0 || off < nearest ? off : nearest;
    }
    h->r->n_loaded += row->n_loaded;
}

/* Whether a strategy's text has this word of n bytes. */
static bool has_word(const char *text, const char *word, int n)
{
    for (; *text; text += strcspn(text, " "), text += *text == ' ')
        if ((int)strcspn(text, " ") == n && strncmp(text, word, (size_t)n) == 0)
            return true;
    return false;
}

/* The words of a row that some row lacks, or those that all have. */
static enum lw_status put_words(struct lw_tune_here_result *r, const char *text, bool common,
                                const char **out, struct lw_err *err)
{
    *out = "";
    for (; *text; text += strcspn(text, " "), text += *text == ' ') {
        int n = (int)strcspn(text, " "), has = 0;
        for (int k = 0; k < r->n_rows; k++)
            has += has_word(r->row[k].strategy, text, n);
        if ((has == r->n_rows) == common)
            LW_PRINT(&r->arena, *out, err, "%s%s%.*s", *out, **out ? " " : "", n, text);
    }
    return LW_OK;
}

static enum lw_status finish(struct here *h, struct lw_err *err)
{
    struct lw_tune_here_result *r = h->r;

    lw_tune_judge(h->measured, r->n_rows, &r->verdict);
    r->interrupted = lw_progress_stopped(h->t->progress);
    for (int k = 0; k < r->n_rows; k++)
        if (h->measured[k].n_repeats > 0)
            fill_row(h, k);
    r->common = "";
    for (int k = 0; k < r->n_rows; k++)
        LW_TRY(put_words(r, r->row[k].strategy, false, &r->row[k].differs, err));
    if (r->n_rows > 0)
        LW_TRY(put_words(r, r->row[0].strategy, true, &r->common, err));
    if (r->verdict.n_measured > 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "--here: no strategy could be executed%s%s",
                   r->n_rows > 0 ? "; the first: " : "", r->n_rows > 0 ? r->row[0].reason : "");
}

enum lw_status lw_tune_here(const struct lw_tune_here_task *t, struct lw_tune_here_result *out,
                            struct lw_err *err)
{
    struct here h = {.t = t, .r = out};

    *out = (struct lw_tune_here_result){.n_rows = 0};
    enum lw_status st = put_order(&h, err);
    if (st == LW_OK)
        st = try_best(&h, err);
    if (st == LW_OK)
        st = try_others(&h, err);
    if (st == LW_OK)
        st = repeat_all(&h, err);
    if (lw_progress_stopped(t->progress) && out->n_rows > 0 && h.measured[0].n_repeats > 0)
        st = LW_OK; /* the run that was stopped has failed */
    if (st == LW_OK)
        st = finish(&h, err);
    for (int k = 0; k < out->n_rows; k++)
        free_trial(h.trial[k]);
    return st;
}

void lw_tune_here_free(struct lw_tune_here_result *r)
{
    lw_arena_free(&r->arena);
    *r = (struct lw_tune_here_result){.n_rows = 0};
}

enum lw_status lw_tune_here_verdict(const struct lw_tune_here_result *r, struct lw_err *err)
{
    const struct lw_tune_verdict *v = &r->verdict;

    if (r->interrupted)
        return lw_fail(err, LW_EFAILED, "interrupted: %d of the strategies were measured",
                       v->n_measured);
    if (r->n_loaded > 0 && v->longer_pct > LW_TUNE_REGRET_PCT) /* tied by the load's noise or not */
        return lw_fail(err, LW_ELOAD,
                       "measured under load: repeat; beside %d runs other programs took more than "
                       "%.0f %% of the processors, and what is predicted fastest takes %.2f %% "
                       "longer than the fastest, allowed %g %%",
                       r->n_loaded, LW_LOADED_PCT, v->longer_pct, LW_TUNE_REGRET_PCT);
    if (v->regret_pct <= LW_TUNE_REGRET_PCT)
        return LW_OK;
    return lw_fail(err, LW_ENO,
                   "the regret is %.2f %%, allowed %g %%: '%s' was measured faster than what is "
                   "predicted fastest",
                   v->regret_pct, LW_TUNE_REGRET_PCT, r->row[v->fastest].strategy);
}
