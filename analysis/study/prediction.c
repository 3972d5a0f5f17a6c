/* A prediction from its request to its output: plan, run, row of the database, the errors that such
 * predictions had, and what is printed. A prediction that cannot be stored is printed all the
 * same. */
#include "analysis/study/prediction.h"
#include "analysis/study/stored_plan.h"

#include <string.h>

#include "analysis/store/store.h"
#include "shared/base/clock.h"
#include "shared/text/wrap.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim_head.h"
#include "sim/predict/sim_result.h"

/* What leads up to the steady state is warm-up. A replay has the steps of its traces. */
static void choose_steps(struct lw_prediction *s)
{
    s->n_warmup = s->replay.on ? 0 : lw_sim_warmup_steps(&s->plan);
    s->options.n_steps = s->n_warmup + (int32_t)(s->steps > 0 ? s->steps : 1);
}

static enum lw_status load_replay(struct lw_prediction *s, struct lw_err *err)
{
    const struct lw_plan_source *p = &s->source;

    if (p->workload_file || p->strategy_file)
        return lw_fail(err, LW_EUSAGE,
                       "a replay takes its plan from the traces: %s cannot be combined with "
                       "--replay",
                       p->workload_file ? "-w" : "-s");
    LW_TRY(lw_plan_source_no_model(p, "a replay", err));
    LW_TRY(sim_replay_buckets(&s->replay, p, err));
    s->replay.whatif.network = p->cluster_file;
    s->replay.whatif.as_recorded = p->as_recorded;
    s->replay.whatif.ranks = p->ranks;
    return sim_replay_load(&s->replay, s->operands, s->n_operands, &s->plan, &s->cluster, err);
}

/* Of a stored run, where no -c was given. */
static enum lw_status name_cluster(const struct lw_prediction *s, struct lw_err *err)
{
    const struct lw_plan_source *p = &s->source;
    char hash[33];

    if (p->of_run <= 0 || p->silent)
        return LW_OK;
    LW_TRY(lw_cluster_hash(&s->cluster, hash, err));
    const char *figures = strcmp(hash, p->cluster_hash) != 0 ? ", with other figures than it had"
                          : p->other_today ? ", whose figures are not those of the known system"
                                           : "";
    lw_printf_paragraph(stderr, "lapwing: cluster '%s'%s%s, that of run %lld%s; -c names another",
                        p->cluster_file, p->interference ? " with --interference " : "",
                        p->interference ? p->interference : "", (long long)p->of_run, figures);
    return LW_OK;
}

static enum lw_status load(struct lw_prediction *s, struct lw_err *err)
{
    const char *file = s->n_operands > 0 ? s->operands[0] : NULL;

    if (s->replay.on)
        return load_replay(s, err);
    LW_TRY(lw_stored_plan(s->db, s->run, !s->no_db, file, &s->source, err));
    LW_TRY(lw_plan_source_cluster(&s->source, &s->cluster, err));
    struct lw_cost cost = lw_sim_cost(&s->cluster);
    LW_TRY(lw_plan_source_load(&s->source, file, &cost, &s->cluster, &s->plan, err));
    return name_cluster(s, err);
}

static enum lw_status run(struct lw_prediction *s, struct lw_err *err)
{
    double began = lw_now_s();
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, s->quiet);

    s->options.progress = &progress;
    s->options.no_fold |= s->replay.on; /* its ranks differ */
    enum lw_status status = lw_sim_run_classes(&s->plan, &s->cluster, &s->options, &s->classes,
                                               &s->stats, err);
    s->wall_s = lw_now_s() - began;
    if (status == LW_OK && s->n_samples > 0)
        status = lw_sim_sample(&s->plan, &s->cluster, &s->options, s->n_warmup,
                               (int32_t)s->n_samples, 0, &s->samples, err);
    s->options.progress = NULL;
    lw_progress_bar_end(&bar);
    return status;
}

static void begin_row(struct lw_prediction *s)
{
    struct lw_run_info info = {.kind = LW_RUN_SIM, .plan = &s->plan, .cluster = &s->cluster,
                               .workload = s->source.has_workload ? &s->source.workload : NULL,
                               .command = s->command, .name = s->name,
                               .seed = s->seed > 0 ? s->seed : 0,
                               .n_warmup = s->n_warmup};

    if (!s->no_db)
        lw_sim_row_begin(&s->row, s->db, &info);
}

/* Tokens are asked for that the step does not have. */
static enum lw_status check_tokens(const struct lw_prediction *s, struct lw_err *err)
{
    return s->budget.tokens > 0 && s->plan.yield.tokens <= 0
               ? lw_fail(err, LW_EINVAL,
                         "--tokens: '%s' does not say how many tokens a step has; leave it out, or "
                         "give a language model's name to -w", s->plan.name)
               : LW_OK;
}

/* Before a row is made in the database, which brings an older one up to date. */
static enum lw_status check(const struct lw_prediction *s, struct lw_err *err)
{
    LW_TRY(check_tokens(s, err));
    LW_TRY(lw_sim_check(&s->plan, &s->cluster, &s->options, err));
    return s->n_samples > 0
               ? lw_sim_sample_check(&s->cluster, &s->options, s->n_warmup, (int32_t)s->n_samples,
                                     err)
               : LW_OK;
}

enum lw_status lw_predict(struct lw_prediction *s, struct lw_err *err)
{
    LW_TRY(load(s, err));
    if (!s->no_db)
        LW_TRY(lw_store_usable(s->db, err));
    lw_framework_hold(&s->source.framework, &s->plan);
    choose_steps(s);
    s->options.buffered |= s->replay.buffered;
    s->options.noise = s->seed >= 0 || s->options.sigma > 0;
    s->options.seed = s->seed >= 0 ? (uint64_t)s->seed : 0;
    LW_TRY(check(s, err));
    begin_row(s);
    LW_TRY(run(s, err));
    if (s->replay.on && !s->replay.graph) {
        LW_TRY(lw_timeline_unpack(&s->classes.rows, err)); /* steps are divided anew */
        LW_TRY(sim_replay_compare(&s->replay, &s->classes.rows, &s->n_warmup, err));
    }
    LW_TRY(lw_sim_summarize(&s->classes, s->n_warmup, &s->summary, err));
    if (s->replay.on) /* a recording's plan has no sizes of what is held */
        lw_summary_forget_memory(&s->summary);
    lw_memory_figures_of(&s->summary, &s->plan, &s->source.framework, &s->cluster, &s->memory);
    return LW_OK;
}

static enum lw_status store(struct lw_prediction *s, struct lw_sim_report *r, struct lw_err *err)
{
    struct lw_arena texts = {0};
    struct lw_sim_result result;
    struct lw_sim_end end = {.plan = &s->plan, .classes = &s->classes, .stats = &s->stats,
                             .summary = &s->summary, .n_warmup = s->n_warmup,
                             .wall_s = s->wall_s, .spans = s->spans, .alike = &s->alike,
                             .result = &result};
    enum lw_status status = s->no_db ? LW_OK : lw_sim_result_of(r, &texts, &result, err);

    if (status == LW_OK && !s->no_db)
        status = lw_sim_row_end(&s->row, &end, err);
    r->no_spans = !lw_sim_row_has_spans(&end);
    lw_arena_free(&texts);
    return status;
}

/* How far earlier predictions on this cluster were off. */
static enum lw_status find_past(struct lw_prediction *s, struct lw_sim_report *r,
                                struct lw_err *err)
{
    struct lw_past_errors past = {0};

    LW_TRY(lw_store_past_errors(s->row.store, &s->cluster, &past, err));
    r->n_past = past.n;
    r->mean_past_pct = past.mean_abs_pct;
    r->max_past_pct = past.max_abs_pct;
    return LW_OK;
}

struct lw_alike_key lw_prediction_key(const struct lw_prediction *s)
{
    const struct lw_alike_job job = lw_alike_job_of(&s->plan);

    return lw_alike_key_of(&job, &s->cluster, &s->source.framework);
}

/* The interval of the step from measured runs. No run is like a recording, whose framework is
 * ideal, nor like a plan whose times were scaled from one device to another. The ratios are of
 * predictions at collective detail and say nothing of another model of collectives. */
static enum lw_status find_alike(struct lw_prediction *s, struct lw_err *err)
{
    struct lw_alike_key key = lw_prediction_key(s);

    bool by_evidence = s->options.detail != LW_SIM_CHUNK;

    return by_evidence && (s->source.has_workload || !s->source.device)
               ? lw_alike_step_of(&key, s->source.framework.name, &s->alike, err)
               : LW_OK;
}

static void show_alike(const struct lw_prediction *s, struct lw_sim_alike *out)
{
    const struct lw_alike_step *a = &s->alike;

    *out = (struct lw_sim_alike){.asked = a->asked, .n = a->alike.n, .n_tables = a->alike.n_tables,
                                 .mean = a->alike.mean, .low = a->alike.p10, .high = a->alike.p90,
                                 .of = a->of[0] ? a->of : NULL, .median = a->alike.median,
                                 .longer = a->alike.longer,
                                 .nearest = a->nearest[0] ? a->nearest : NULL};
    lw_alike_step_interval(a, s->summary.step, &out->p10, &out->p90);
}

static enum lw_status check_fits(const struct lw_sim_report *r, struct lw_err *err)
{
    const int64_t missing = lw_sim_missing_bytes(r);
    char lacks[32];

    if (missing < 0)
        return lw_fail(err, LW_EINVAL, "--must-fit: not known: %s",
                       r->summary->peak_memory_bytes < 0
                           ? "the workload does not say what activations it keeps (kept_bytes)"
                           : "the cluster does not say how much memory a device has "
                             "(device.memory_bytes)");
    return missing == 0 ? LW_OK
                        : lw_fail(err, LW_ENO, "--must-fit: a device of cluster '%s' lacks %s%s",
                                  r->cluster->name, lw_format_bytes(lacks, missing),
                                  lw_sim_is_close(r) ? ", less than " LW_MEMORY_ERROR_TEXT : "");
}

static void fill_report(struct lw_prediction *s, struct lw_sim_report *r)
{
    r->graph = s->replay.graph;
    r->replayed = s->replay.on && !r->graph ? &s->replay.shown : NULL;
    r->wall_s = s->wall_s;
    r->workload = s->source.has_workload ? &s->source.workload : NULL;
    show_alike(s, &r->alike);
    r->framework = s->source.framework.name ? &s->source.choice : NULL;
    r->memory = r->framework && !s->replay.on ? &s->memory : NULL;
}

enum lw_status lw_prediction_make(struct lw_prediction *s, struct lw_sim_report *r,
                                  struct lw_err *err)
{
    enum lw_status status = lw_predict(s, err);

    *r = (struct lw_sim_report){.plan = &s->plan, .cluster = &s->cluster, .options = &s->options,
                                .timeline = &s->classes.rows, .summary = &s->summary,
                                .stats = &s->stats, .samples = &s->samples, .run = -1,
                                .n_past = -1, .all = s->all, .budget = s->budget,
                                .per_rank = s->per_rank};
    if (status == LW_OK)
        status = find_alike(s, err);
    if (status != LW_OK) {
        lw_sim_row_fail(&s->row, status, err->msg, s->n_warmup);
        return status;
    }
    fill_report(s, r);
    status = store(s, r, &s->unstored);
    if (status == LW_OK && !s->no_db)
        status = find_past(s, r, &s->unstored);
    if (status == LW_OK)
        s->unstored = (struct lw_err){0};
    r->run = status == LW_OK ? s->row.id : -1;
    r->not_stored = status == LW_OK ? NULL : s->unstored.msg;
    return LW_OK;
}

enum lw_status lw_prediction_run(struct lw_prediction *s, FILE *f, struct lw_err *err)
{
    struct lw_sim_report r;

    LW_TRY(lw_prediction_make(s, &r, err));
    LW_TRY(lw_sim_print(&r, s->format, f, err));
    if (s->unstored.code != LW_OK)
        *err = s->unstored;
    return s->unstored.code == LW_OK && s->must_fit ? check_fits(&r, err) : s->unstored.code;
}

void lw_prediction_free(struct lw_prediction *s)
{
    lw_sim_row_close(&s->row);
    lw_summary_free(&s->summary);
    lw_sim_classes_free(&s->classes);
    lw_sim_samples_free(&s->samples);
    lw_plan_free(&s->plan);
    lw_cluster_free(&s->cluster);
    sim_replay_free(&s->replay);
    lw_plan_source_free(&s->source);
}
