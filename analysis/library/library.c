/* The functions of lapwing.h over the parts that the commands use: nothing is computed here. A plan
 * handle keeps its cluster, because policies asked for its costs; a result keeps the names of its
 * ops, so that it outlives the plan. It keeps the rows of one rank of each class, and those of all
 * ranks from the first call that asks for rows: thousands of ranks need gigabytes. */
#include "analysis/library/lapwing.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "analysis/alike/alike_step.h"
#include "shared/base/arena.h"
#include "shared/cli/plan_source.h"
#include "shared/framework/framework_memory.h"
#include "shared/numbers/units.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"
#include "sim/predict/sim_result.h"
#include "traces/models/model_workload.h"

struct lapwing_plan {
    struct lw_arena arena; /* texts of options */
    struct lw_cluster cluster;
    struct lw_plan plan;
    struct lw_alike_step alike;
    struct lw_framework framework;
    struct lw_budget_request budget; /* "tokens", "price" */
};

enum { MOST_STEPS = 1000000 }; /* as `lapwing sim --steps` */

struct lapwing_result {
    struct lw_arena arena;
    struct lw_sim_classes classes; /* without their plan, which may be freed before */
    struct lw_timeline rows;       /* of all ranks, once asked for */
    bool has_rows;
    struct lw_summary summary;
    struct lw_sim_result row; /* its texts are not kept */
    int64_t n_events;
    int32_t n_ranks, n_op_names;
    const char **op_name;
};

const char *lapwing_version(void)
{
    return LW_VERSION;
}

static void give_error(const struct lw_err *err, char *error, size_t size)
{
    if (error && size > 0)
        snprintf(error, size, "%s", err->msg);
}

/* ---- plans ---- */

/* A library reads no standard input: it belongs to the program that uses it. */
static enum lw_status check_name(const char *what, const char *name, struct lw_err *err)
{
    if (!name)
        return lw_fail(err, LW_EINVAL, "the %s is NULL: give a name or a file", what);
    if (strcmp(name, "-") == 0)
        return lw_fail(err, LW_EINVAL, "the %s is '-': a library reads no standard input; give a "
                                       "name or a file", what);
    return LW_OK;
}

/* Options are those of the command line: of the strategy, of a model, --framework,
 * --interference, --device-spread, --global-batch, --tokens, --price. */
static enum lw_status set_option(struct lw_plan_source *src, struct lw_budget_request *budget,
                                 const char *name, const char *value, struct lw_err *err)
{
    const struct lw_opt price = {.kind = LW_OPT_DOUBLE, .value = &budget->price, .arg = "P",
                                 .max = 1000000, .check = lw_cli_above_0};

    if (strcmp(name, "tokens") == 0)
        return lw_err_context(err, lw_parse_tokens(value, &budget->tokens, err), "--%s", name);
    if (strcmp(name, "price") == 0)
        return lw_err_context(err, lw_cli_set(&price, value, err), "--%s", name);
    if (strcmp(name, "global-batch") == 0)
        return lw_err_context(err, lw_parse_int(value, 1, INT64_MAX, &src->global_batch, err),
                              "--%s", name);
    if (strcmp(name, "framework") == 0) {
        src->framework_name = value;
        return LW_OK;
    }
    if (strcmp(name, "interference") == 0) {
        src->interference = value;
        return lw_err_context(err, lw_plan_source_interference(value, err), "--%s", name);
    }
    if (strcmp(name, "device-spread") == 0) {
        src->device_spread = value;
        return lw_err_context(err, lw_plan_source_spread(value, err), "--%s", name);
    }
    if (lw_model_find(name) >= 0)
        return lw_model_set(&src->model, name, value, err);
    return lw_plan_source_set(src, name, value, err);
}

static enum lw_status set_options(struct lapwing_plan *p, const char *const *options,
                                  struct lw_plan_source *src, struct lw_err *err)
{
    for (; options && *options; options += 2) {
        if (!options[1])
            return lw_fail(err, LW_EINVAL, "option '%s' has no value: names and values in turns, "
                                           "ended by NULL", *options);
        char *name = lw_arena_strdup(&p->arena, options[0]); /* both are kept by pointer */
        char *value = lw_arena_strdup(&p->arena, options[1]);
        if (!name || !value)
            return lw_fail_nomem(err);
        LW_TRY(set_option(src, &p->budget, name, value, err));
    }
    return LW_OK;
}

/* Of a model, as `lapwing sim` asks (analysis/study/prediction.c). */
static enum lw_status find_alike(struct lapwing_plan *p, const struct lw_plan_source *src,
                                 struct lw_err *err)
{
    const struct lw_alike_job job = lw_alike_job_of(&p->plan);
    struct lw_alike_key key = lw_alike_key_of(&job, &p->cluster, &src->framework);

    return lw_alike_step_of(&key, src->framework.name, &p->alike, err);
}

static enum lw_status make_plan(struct lapwing_plan *p, const char *workload, const char *cluster,
                                const char *const *options, struct lw_err *err)
{
    struct lw_plan_source src;

    LW_TRY(check_name("workload", workload, err));
    LW_TRY(check_name("cluster", cluster, err));
    lw_plan_source_init(&src);
    src.workload_file = workload;
    src.cluster_file = cluster;
    src.make_model = traces_model_workload;
    src.predicts = src.silent = true;
    LW_TRY(set_options(p, options, &src, err));
    LW_TRY(lw_plan_source_cluster(&src, &p->cluster, err));
    struct lw_cost cost = lw_sim_cost(&p->cluster);
    enum lw_status status = lw_plan_source_load(&src, NULL, &cost, &p->cluster, &p->plan, err);
    if (status == LW_OK) {
        lw_framework_hold(&src.framework, &p->plan);
        status = find_alike(p, &src, err);
        p->framework = src.framework;
        src.framework = (struct lw_framework){0};
    }
    lw_plan_source_free(&src);
    return status;
}

lapwing_plan *lapwing_plan_make(const char *workload, const char *cluster,
                                const char *const *options, char *error, size_t error_size)
{
    struct lw_err err = {0};
    struct lapwing_plan *p = lw_calloc(1, sizeof *p);
    enum lw_status status = p ? make_plan(p, workload, cluster, options, &err)
                              : lw_fail_nomem(&err);

    if (status == LW_OK)
        return p;
    give_error(&err, error, error_size);
    lapwing_plan_free(p);
    return NULL;
}

void lapwing_plan_free(lapwing_plan *p)
{
    if (!p)
        return;
    lw_plan_free(&p->plan);
    lw_framework_free(&p->framework);
    lw_cluster_free(&p->cluster);
    lw_arena_free(&p->arena);
    lw_free(p);
}

const char *lapwing_plan_hash(const lapwing_plan *p)
{
    return p ? p->plan.hash : NULL;
}

const char *lapwing_plan_framework(const lapwing_plan *p)
{
    return p ? p->plan.framework : NULL;
}

int32_t lapwing_plan_ranks(const lapwing_plan *p)
{
    return p ? p->plan.n_ranks : -1;
}

/* Bucket k of those that the variant which the run settles on reduces, over all stages; *n counts
 * them. NULL: there are not so many. */
static const struct lw_bucket *steady_bucket(const struct lw_plan *p, int32_t k, int32_t *n)
{
    const struct lw_bucket *found = NULL;

    *n = 0;
    for (int32_t i = 0; i < p->n_sets; i++) {
        const struct lw_bucket_set *set = &p->sets[i];
        if (!lw_plan_uses_set(p, p->pass_variant[p->n_passes - 1], i))
            continue;
        if (k >= *n && k < *n + set->n_buckets)
            found = &p->buckets[set->first_bucket + k - *n];
        *n += set->n_buckets;
    }
    return found;
}

int32_t lapwing_plan_buckets(const lapwing_plan *p)
{
    int32_t n = -1;

    if (p)
        steady_bucket(&p->plan, -1, &n);
    return n;
}

int64_t lapwing_plan_bucket_bytes(const lapwing_plan *p, int32_t bucket)
{
    int32_t n;
    const struct lw_bucket *b = p ? steady_bucket(&p->plan, bucket, &n) : NULL;

    return b ? b->bytes : -1;
}

/* ---- results ---- */

static enum lw_status keep_names(struct lapwing_result *r, const struct lw_plan *p,
                                 struct lw_err *err)
{
    LW_TAKE(&r->arena, r->op_name, p->n_ops, err);
    r->n_op_names = p->n_ops;
    for (int32_t i = 0; i < p->n_ops; i++)
        if (!(r->op_name[i] = lw_arena_strdup(&r->arena, lw_op_at(p, i).name)))
            return lw_fail_nomem(err);
    return LW_OK;
}

/* Rates, memory and costs, as `lapwing sim --format csv` has them. */
static enum lw_status put_row(const struct lapwing_plan *p, struct lapwing_result *r,
                              struct lw_err *err)
{
    struct lw_memory_figures memory;
    struct lw_sim_report report = {.plan = &p->plan, .cluster = &p->cluster,
                                   .summary = &r->summary, .memory = &memory,
                                   .budget = p->budget, .run = -1};

    lw_memory_figures_of(&r->summary, &p->plan, &p->framework, &p->cluster, &memory);
    lw_alike_step_interval(&p->alike, r->summary.step, &report.alike.p10, &report.alike.p90);
    report.alike.of = p->alike.of[0] ? p->alike.of : NULL;
    return lw_sim_result_of(&report, &r->arena, &r->row, err);
}

static enum lw_status simulate(const struct lapwing_plan *p, int32_t steps,
                               struct lapwing_result *r, struct lw_err *err)
{
    struct lw_sim_options options = lw_sim_options_default();
    struct lw_sim_stats stats;

    if (!p)
        return lw_fail(err, LW_EINVAL, "the plan is NULL: lapwing_plan_make refused it and wrote "
                                       "why");
    if (steps < 0 || steps > MOST_STEPS)
        return lw_fail(err, LW_EINVAL, "steps: found %d, expected 0 (up to the steady state) to "
                                       "%d", steps, MOST_STEPS);
    int32_t before = lw_sim_warmup_steps(&p->plan);
    options.n_steps = steps > 0 ? steps : before + 1;
    before = before < options.n_steps ? before : options.n_steps - 1;
    LW_TRY(lw_sim_run_classes(&p->plan, &p->cluster, &options, &r->classes, &stats, err));
    enum lw_status status = lw_sim_summarize(&r->classes, before, &r->summary, err);
    if (status == LW_OK) /* a result outlives its plan */
        status = lw_timeline_unpack(&r->classes.rows, err);
    r->classes.plan = (struct lw_plan){0};
    if (status == LW_OK)
        status = put_row(p, r, err);
    r->n_events = stats.n_events;
    r->n_ranks = p->plan.n_ranks;
    return status == LW_OK ? keep_names(r, &p->plan, err) : status;
}

lapwing_result *lapwing_simulate(const lapwing_plan *plan, int32_t steps, char *error,
                                 size_t error_size)
{
    struct lw_err err = {0};
    struct lapwing_result *r = lw_calloc(1, sizeof *r);
    enum lw_status status = r ? simulate(plan, steps, r, &err) : lw_fail_nomem(&err);

    if (status == LW_OK)
        return r;
    give_error(&err, error, error_size);
    lapwing_result_free(r);
    return NULL;
}

void lapwing_result_free(lapwing_result *r)
{
    if (!r)
        return;
    lw_sim_classes_free(&r->classes);
    lw_timeline_free(&r->rows);
    lw_summary_free(&r->summary);
    lw_arena_free(&r->arena);
    lw_free(r);
}

/* ---- figures ---- */

static const struct lw_measure *worst(const struct lapwing_result *r)
{
    static const struct lw_measure none;

    return r->summary.worst >= 0 && r->summary.worst < r->summary.n_ranks
               ? &r->summary.ranks[r->summary.worst]
               : &none;
}

enum figure { STEP, EXPOSED, COMPUTE, COPY, COMM, IDLE, MEMORY, BUBBLE, RANKS, STEPS, OPS, EVENTS,
              P10, P90, TOKENS, SAMPLES, MFU, OVERLAP, TAKEN, THERE, FITS, PRICE, PER_TRILLION,
              DAYS, HOURS, COST, HOST_UPDATE, N_FIGURES };

static const char *const figure_names[N_FIGURES] = {
    "step_ps", "exposed_comm_ps", "compute_busy_ps", "copy_busy_ps", "comm_busy_ps", "idle_ps",
    "peak_memory_bytes", "bubble_ratio", "n_ranks", "n_steps", "n_ops", "n_events",
    "p10_ps", "p90_ps", "tokens_per_s", "samples_per_s", "mfu_pct", "overlap_pct", "memory_bytes",
    "device_memory_bytes", "fits", "price_per_device_hour", "cost_per_trillion_tokens", "days",
    "device_hours", "cost", "host_update_ps",
};

static double figure(const struct lapwing_result *r, int k)
{
    const struct lw_summary *s = &r->summary;
    const struct lw_sim_result *x = &r->row;
    const double all[N_FIGURES] = {
        [STEP] = (double)s->step, [EXPOSED] = (double)worst(r)->exposed_comm,
        [COMPUTE] = (double)worst(r)->compute_busy, [COPY] = (double)worst(r)->copy_busy,
        [COMM] = (double)worst(r)->comm_busy, [IDLE] = (double)worst(r)->idle,
        [MEMORY] = (double)s->peak_memory_bytes, [BUBBLE] = s->bubble_ratio,
        [RANKS] = r->n_ranks, [STEPS] = s->n_steps, [OPS] = (double)s->n_ops,
        [EVENTS] = (double)r->n_events, [P10] = (double)x->p10, [P90] = (double)x->p90,
        [TOKENS] = x->tokens_per_s, [SAMPLES] = x->samples_per_s, [MFU] = x->mfu_pct,
        [OVERLAP] = x->overlap_pct, [TAKEN] = (double)x->memory_bytes,
        [THERE] = (double)x->device_memory_bytes, [FITS] = x->fits,
        [PRICE] = x->price_per_device_hour, [PER_TRILLION] = x->cost_per_trillion_tokens,
        [DAYS] = x->days, [HOURS] = x->device_hours, [COST] = x->cost,
        [HOST_UPDATE] = (double)worst(r)->host_update,
    };

    return isnan(all[k]) ? -1 : all[k];
}

const char *lapwing_figure_name(int k)
{
    return k >= 0 && k < N_FIGURES ? figure_names[k] : NULL;
}

int lapwing_figure(const lapwing_result *r, const char *name, double *value)
{
    for (int k = 0; r && name && value && k < N_FIGURES; k++)
        if (strcmp(name, figure_names[k]) == 0) {
            *value = figure(r, k);
            return 0;
        }
    return -1;
}

/* ---- the timeline ---- */

/* The rows of all ranks; NULL: no result was given, or there is not the memory. */
static const struct lw_timeline *rows_of(const struct lapwing_result *result)
{
    struct lapwing_result *r = (struct lapwing_result *)result; /* what it says stays the same */

    if (!r)
        return NULL;
    if (!r->has_rows) {
        r->has_rows = lw_sim_expand(&r->classes, &r->rows, NULL) == LW_OK;
        if (r->has_rows)
            lw_sim_classes_free(&r->classes);
    }
    return r->has_rows ? &r->rows : NULL;
}

int64_t lapwing_rows(const lapwing_result *r)
{
    const struct lw_timeline *t = rows_of(r);

    return t ? t->n : -1;
}

const int32_t *lapwing_column32(const lapwing_result *r, const char *name)
{
    static const struct lw_timeline empty;
    const struct lw_timeline *rows = rows_of(r), *t = rows ? rows : &empty;
    const struct {
        const char *name;
        const int32_t *column;
    } all[] = {
        {"step", t->step},     {"pass", t->pass}, {"rank", t->rank},
        {"stream", t->stream}, {"op", t->op},
    };

    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].column;
    return NULL;
}

const int64_t *lapwing_column64(const lapwing_result *r, const char *name)
{
    static const struct lw_timeline empty;
    const struct lw_timeline *rows = rows_of(r), *t = rows ? rows : &empty;
    const struct {
        const char *name;
        const lw_ps *column;
    } all[] = {
        {"ready_ps", t->ready},   {"issue_ps", t->issue}, {"start_ps", t->start},
        {"all_in_ps", t->all_in}, {"end_ps", t->end},
    };

    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].column;
    return NULL;
}

int32_t lapwing_kind(const lapwing_result *r, int64_t row)
{
    const struct lw_timeline *t = rows_of(r);

    return t && row >= 0 && row < t->n ? t->kind[row] : -1;
}

const char *lapwing_kind_name(int32_t kind)
{
    return kind >= 0 && kind < LW_N_OP_KINDS ? lw_op_name((enum lw_op_kind)kind) : "";
}

const char *lapwing_op_name(const lapwing_result *r, int32_t op)
{
    if (!r)
        return NULL;
    return op >= 0 && op < r->n_op_names ? r->op_name[op] : "";
}
