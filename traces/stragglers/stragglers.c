/* What-if simulations of a recorded job ("Understanding Stragglers in Large Model Training Using
 * What-if Analysis", equations 1 to 5).
 *
 * A transfer's recorded length includes waiting for its peers; without it, it is its end less the
 * start of its group's last member. Without stragglers every compute takes the mean of its type,
 * every transfer the median. The slowdown S is the mean step with the recorded lengths over that
 * without stragglers, both simulated (job_graph.h), so that what the record does not show (the data
 * loader, a host that is late) does not count. A part's slowdown keeps that part's lengths alone. A
 * worker's is the smaller of its rank's and its stage's. M_W is the share of the slowdown that goes
 * when the slowest 3 % of the workers (at least one) are as without stragglers, M_S when the last
 * stage is: it exceeds 1 where the others are faster than the mean. */
#include "traces/stragglers/stragglers.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/json/jsonout.h"
#include "shared/numbers/median.h"
#include "shared/numbers/order.h"
#include "shared/numbers/units.h"
#include "shared/text/records.h"
#include "shared/text/wrap.h"
#include "traces/stragglers/job_graph.h"

enum { EARLY_NS = 10000000, SLOWEST_PCT = 3 };

struct study {
    const struct job_ops *j;
    struct job_graph graph;
    struct lw_arena scratch;
    int64_t *recorded, *alike, *mixed, *end; /* [n_ops * n_runs] */
    int64_t *step_ns, *simulated, *alike_steps; /* [n_steps] */
    int64_t simulated_ns, alike_ns;
};

/* ---- lengths ---- */

static int64_t at(const struct job_ops *j, int32_t op, int32_t step, int32_t dp)
{
    return op * j->n_runs + (int64_t)step * j->n_dp + dp;
}

/* When the last member of the group starts. */
static int64_t last_start(const struct job_ops *j, const struct job_group *x, int32_t step,
                          int32_t dp)
{
    int64_t last = INT64_MIN;

    for (int32_t d = x->over_dp ? 0 : dp; d < (x->over_dp ? j->n_dp : dp + 1); d++)
        for (int32_t k = 0; k < x->n; k++) {
            int64_t start = j->start_ns[at(j, x->ops[k], step, d)];
            last = start > last ? start : last;
        }
    return last;
}

/* Clocks of workers differ: an end that is a little before the last start is kept, one that is far
 * before is taken as no transfer at all. */
static void set_transfers(struct study *s, const struct job_group *x)
{
    const struct job_ops *j = s->j;

    for (int32_t step = 0; step < j->n_steps; step++) {
        int64_t all = x->over_dp ? last_start(j, x, step, 0) : 0;
        for (int32_t dp = 0; dp < j->n_dp; dp++) {
            int64_t last = x->over_dp ? all : last_start(j, x, step, dp);
            for (int32_t k = 0; k < x->n; k++) {
                int64_t i = at(j, x->ops[k], step, dp);
                int64_t t = j->start_ns[i] + j->dur_ns[i] - last;
                s->recorded[i] = t <= -EARLY_NS ? 0 : t;
            }
        }
    }
}

static enum lw_status set_alike(struct study *s, enum job_type type, struct lw_err *err)
{
    const struct job_ops *j = s->j;
    int64_t *v, n = 0;
    double sum = 0;

    LW_NEW(v, j->n_ops * j->n_runs, err);
    for (int32_t o = 0; o < j->n_ops; o++)
        for (int64_t k = 0; j->ops[o].type == type && k < j->n_runs; k++) {
            v[n] = s->recorded[o * j->n_runs + k];
            sum += (double)v[n++];
        }
    int64_t length = n == 0                   ? 0
                     : job_type_computes(type) ? (int64_t)(sum / (double)n + 0.5)
                                               : lw_median(v, n);
    lw_free(v);
    for (int32_t o = 0; o < j->n_ops; o++)
        for (int64_t k = 0; j->ops[o].type == type && k < j->n_runs; k++)
            s->alike[o * j->n_runs + k] = length;
    return LW_OK;
}

/* ---- simulations ---- */

static int64_t mean(const int64_t *v, int32_t n)
{
    double sum = 0;

    for (int32_t i = 0; i < n; i++)
        sum += (double)v[i];
    return (int64_t)(sum / n + 0.5);
}

static int64_t run(struct study *s, const int64_t *work)
{
    job_graph_run(s->j, &s->graph, work, s->end, s->step_ns);
    return mean(s->step_ns, s->j->n_steps);
}

/* Which runs of an op are of a part of the job. */
struct part {
    enum { BY_TYPE, BY_DP, BY_STAGE, BY_WORKERS } by;
    int32_t number;      /* of the type, rank or stage */
    const bool *workers; /* [n_dp * n_stages] */
};

/* Transfers of the pipeline are blamed by direction, not by end. */
static int32_t blamed_type(enum job_type t)
{
    return t == JOB_FORWARD_RECV    ? JOB_FORWARD_SEND
           : t == JOB_BACKWARD_RECV ? JOB_BACKWARD_SEND
                                    : t;
}

static bool is_in(const struct part *p, const struct job_ops *j, int32_t op, int32_t dp)
{
    switch (p->by) {
    case BY_TYPE: return blamed_type(j->ops[op].type) == p->number;
    case BY_DP: return dp == p->number;
    case BY_STAGE: return j->ops[op].stage == p->number;
    case BY_WORKERS: return p->workers[dp * j->n_stages + j->ops[op].stage];
    }
    return false;
}

/* The mean step with the part's lengths from `of` and the others' from `rest`. */
static int64_t run_mixed(struct study *s, const struct part *p, const int64_t *of,
                         const int64_t *rest)
{
    const struct job_ops *j = s->j;

    for (int32_t o = 0; o < j->n_ops; o++)
        for (int64_t k = 0; k < j->n_runs; k++) {
            int64_t i = o * j->n_runs + k;
            s->mixed[i] = is_in(p, j, o, (int32_t)(k % j->n_dp)) ? of[i] : rest[i];
        }
    return run(s, s->mixed);
}

static double over(int64_t ns, int64_t alike_ns)
{
    return alike_ns > 0 ? (double)ns / (double)alike_ns : 1;
}

static enum lw_status blame(struct study *s, struct part p, const char *name, int32_t number,
                            struct traces_blames *to, struct lw_arena *arena, struct lw_err *err)
{
    struct traces_blame b = {name, number, 0, NULL};

    LW_TAKE(arena, b.steps, s->j->n_steps, err);
    b.slowdown = over(run_mixed(s, &p, s->recorded, s->alike), s->alike_ns);
    for (int32_t i = 0; i < s->j->n_steps; i++)
        b.steps[i] = over(s->step_ns[i], s->alike_steps[i]);
    to->v[to->n++] = b;
    return LW_OK;
}

static struct traces_share share_of(struct study *s, const struct part *p)
{
    struct traces_share x = {.removed_ns = run_mixed(s, p, s->alike, s->recorded),
                             .added_ns = run_mixed(s, p, s->recorded, s->alike)};
    double all = (double)(s->simulated_ns - s->alike_ns);

    x.removed = all != 0 ? (double)(s->simulated_ns - x.removed_ns) / all : 0;
    x.added = all != 0 ? (double)(x.added_ns - s->alike_ns) / all : 0;
    return x;
}

/* ---- blame ---- */

static int by_blame(const void *pa, const void *pb)
{
    const struct traces_blame *a = pa, *b = pb;

    return a->slowdown > b->slowdown ? -1 : a->slowdown < b->slowdown ? 1
                                                    : LW_ORDER(a->number, b->number);
}

static void sort_blames(struct traces_blames *v)
{
    lw_sort(v->v, v->n, by_blame);
}

static const char *blamed_name(enum job_type t)
{
    return t == JOB_FORWARD_SEND    ? "forward-pp-comm"
           : t == JOB_BACKWARD_SEND ? "backward-pp-comm"
                                    : job_type_name(t);
}

static enum lw_status blame_types(struct study *s, struct traces_stragglers *out,
                                  struct lw_err *err)
{
    bool has[JOB_N_TYPES] = {0};

    for (int32_t o = 0; o < s->j->n_ops; o++)
        has[blamed_type(s->j->ops[o].type)] = true;
    LW_TAKE(&out->arena, out->by_type.v, JOB_N_TYPES, err);
    for (int t = 0; t < JOB_N_TYPES; t++)
        if (has[t])
            LW_TRY(blame(s, (struct part){BY_TYPE, t, NULL}, blamed_name((enum job_type)t), -1,
                         &out->by_type, &out->arena, err));
    sort_blames(&out->by_type);
    return LW_OK;
}

static enum lw_status blame_numbers(struct study *s, struct traces_blames *to, int by, int32_t n,
                                    const char *what, struct lw_arena *arena, struct lw_err *err)
{
    LW_TAKE(arena, to->v, n, err);
    for (int32_t i = 0; i < n; i++)
        LW_TRY(blame(s, (struct part){by, i, NULL}, what, i, to, arena, err));
    return LW_OK;
}

/* by_dp and by_stage are not sorted yet. */
static enum lw_status blame_workers(struct study *s, struct traces_stragglers *out,
                                    struct lw_err *err)
{
    const struct job_ops *j = s->j;
    int32_t n = j->n_dp * j->n_stages;
    struct part p = {BY_WORKERS, 0, NULL};
    bool *workers;

    LW_TAKE(&out->arena, out->by_worker.v, n, err);
    LW_TAKE(&s->scratch, workers, n, err);
    for (int32_t d = 0; d < j->n_dp; d++)
        for (int32_t k = 0; k < j->n_stages; k++) {
            double dp = out->by_dp.v[d].slowdown, stage = out->by_stage.v[k].slowdown;
            out->by_worker.v[out->by_worker.n++] = (struct traces_blame){
                "worker", j->rank[d * j->n_stages + k], dp < stage ? dp : stage, NULL};
        }
    sort_blames(&out->by_worker);
    int32_t most = (n * SLOWEST_PCT + 99) / 100;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < most; k++)
            workers[i] |= j->rank[i] == out->by_worker.v[k].number;
    p.workers = workers;
    out->slowest = share_of(s, &p);
    out->slowest.n_ranks = most;
    out->slowest.rank = out->by_worker.v[0].number;
    return LW_OK;
}

static enum lw_status blame_all(struct study *s, struct traces_stragglers *out, struct lw_err *err)
{
    const struct job_ops *j = s->j;
    struct part last = {BY_STAGE, j->n_stages - 1, NULL};

    LW_TRY(blame_types(s, out, err));
    LW_TRY(blame_numbers(s, &out->by_dp, BY_DP, j->n_dp, "dp_rank", &out->arena, err));
    LW_TRY(blame_numbers(s, &out->by_stage, BY_STAGE, j->n_stages, "stage", &out->arena, err));
    LW_TRY(blame_workers(s, out, err));
    out->last_stage = share_of(s, &last);
    sort_blames(&out->by_dp);
    sort_blames(&out->by_stage);
    return LW_OK;
}

/* ---- the whole ---- */

static enum lw_status prepare(struct study *s, struct lw_err *err)
{
    const struct job_ops *j = s->j;
    int64_t n = j->n_ops * j->n_runs;

    LW_TAKE(&s->scratch, s->recorded, n, err);
    LW_TAKE(&s->scratch, s->alike, n, err);
    LW_TAKE(&s->scratch, s->mixed, n, err);
    LW_TAKE(&s->scratch, s->end, n, err);
    LW_TAKE(&s->scratch, s->step_ns, j->n_steps, err);
    LW_TAKE(&s->scratch, s->simulated, j->n_steps, err);
    LW_TAKE(&s->scratch, s->alike_steps, j->n_steps, err);
    memcpy(s->recorded, j->dur_ns, (size_t)n * sizeof *s->recorded);
    for (int32_t g = 0; g < s->graph.n_groups; g++)
        set_transfers(s, &s->graph.groups[g]);
    for (int t = 0; t < JOB_N_TYPES; t++)
        LW_TRY(set_alike(s, (enum job_type)t, err));
    return LW_OK;
}

static void fill_recorded(const struct job_ops *j, struct traces_stragglers *out)
{
    double sum = 0;

    for (int32_t s = 0; s < j->n_steps; s++) {
        int64_t first = INT64_MAX, last = 0;
        for (int32_t o = 0; o < j->n_ops; o++)
            for (int32_t d = 0; d < j->n_dp; d++) {
                int64_t i = at(j, o, s, d), end = j->start_ns[i] + j->dur_ns[i];
                first = j->start_ns[i] < first ? j->start_ns[i] : first;
                last = end > last ? end : last;
            }
        out->steps[s].step = j->steps[s];
        out->steps[s].recorded_ns = last - first;
        sum += (double)(last - first);
    }
    out->recorded_ns = (int64_t)(sum / j->n_steps + 0.5);
}

static enum lw_status study(struct study *s, struct traces_stragglers *out, struct lw_err *err)
{
    const struct job_ops *j = s->j;

    LW_TRY(job_graph_build(j, &s->graph, err));
    LW_TRY(prepare(s, err));
    out->n_steps = j->n_steps;
    LW_TAKE(&out->arena, out->steps, j->n_steps, err);
    fill_recorded(j, out);
    out->simulated_ns = s->simulated_ns = run(s, s->recorded);
    memcpy(s->simulated, s->step_ns, (size_t)j->n_steps * sizeof *s->simulated);
    out->alike_ns = s->alike_ns = run(s, s->alike);
    memcpy(s->alike_steps, s->step_ns, (size_t)j->n_steps * sizeof *s->alike_steps);
    out->slowdown = over(s->simulated_ns, s->alike_ns);
    for (int32_t i = 0; i < j->n_steps; i++) {
        out->steps[i].simulated_ns = s->simulated[i];
        out->steps[i].alike_ns = s->alike_steps[i];
        out->steps[i].slowdown = over(s->simulated[i], s->alike_steps[i]);
    }
    return blame_all(s, out, err);
}

enum lw_status traces_stragglers_find(const struct job_ops *j, struct traces_stragglers *out,
                                      struct lw_err *err)
{
    struct traces_stragglers r = {0};
    struct study s = {.j = j};
    enum lw_status status = study(&s, &r, err);

    job_graph_free(&s.graph);
    lw_arena_free(&s.scratch);
    LW_GIVE(status, out, r, traces_stragglers_free(&r));
}

LW_FREE_BY_ARENA(traces_stragglers_free, struct traces_stragglers)

/* ---- printing ---- */

#define AT(field) offsetof(struct traces_blame, field)
static const struct lw_column type_columns[] = {
    {"optype", "operation", LW_COLUMN_STRING, AT(name)},
    {"slowdown", ">job slower by it", LW_COLUMN_REAL, AT(slowdown), .digits = 4},
};
static const struct lw_column dp_columns[] = {
    {"dp_rank", ">dp rank", LW_COLUMN_INT32, AT(number)},
    {"slowdown", ">job slower by it", LW_COLUMN_REAL, AT(slowdown), .digits = 4},
};
static const struct lw_column stage_columns[] = {
    {"stage", ">stage", LW_COLUMN_INT32, AT(number)},
    {"slowdown", ">job slower by it", LW_COLUMN_REAL, AT(slowdown), .digits = 4},
};
static const struct lw_column worker_columns[] = {
    {"rank", ">worker (rank)", LW_COLUMN_INT32, AT(number)},
    {"slowdown", ">job slower by it", LW_COLUMN_REAL, AT(slowdown), .digits = 4},
};
#undef AT
#define AT(field) offsetof(struct traces_straggler_step, field)
static const struct lw_column step_columns[] = {
    {"step", ">step", LW_COLUMN_INT, AT(step)},
    {"recorded_ns", ">recorded", LW_COLUMN_NS, AT(recorded_ns)},
    {"simulated_ns", ">simulated", LW_COLUMN_NS, AT(simulated_ns)},
    {"alike_ns", ">all alike", LW_COLUMN_NS, AT(alike_ns)},
    {"slowdown", ">slowdown", LW_COLUMN_REAL, AT(slowdown), .digits = 4},
};
#undef AT

/* A row of each step and part. */
static void steps_json(struct lw_jsonout *o, const char *list, const char *key,
                       const struct traces_stragglers *s, const struct traces_blames *v)
{
    lw_jsonout_array(o, list);
    for (int32_t i = 0; i < s->n_steps; i++)
        for (int32_t k = 0; k < v->n; k++) {
            lw_jsonout_object(o, NULL);
            LW_JSON(o, "step", s->steps[i].step);
            if (v->v[k].number < 0)
                LW_JSON(o, key, v->v[k].name);
            else
                LW_JSON(o, key, v->v[k].number);
            LW_JSON(o, "slowdown", lw_decimals(v->v[k].steps[i], 6));
            lw_jsonout_end(o);
        }
    lw_jsonout_end(o);
}

static void share_json(struct lw_jsonout *o, const char *key, const struct traces_share *x)
{
    LW_JSON_ROW(o, key, "removed", lw_decimals(x->removed, 6), "added", lw_decimals(x->added, 6),
                "step_removed_ns", x->removed_ns, "step_added_ns", x->added_ns);
}

void traces_stragglers_json(const struct traces_stragglers *s, struct lw_jsonout *o)
{
    lw_jsonout_object(o, "stragglers");
    LW_JSON(o, "slowdown", lw_decimals(s->slowdown, 6), "recorded_ns", s->recorded_ns,
            "simulated_ns", s->simulated_ns, "alike_ns", s->alike_ns, "m_w",
            lw_decimals(s->slowest.removed, 6), "m_s", lw_decimals(s->last_stage.removed, 6));
    share_json(o, "slowest_workers", &s->slowest);
    share_json(o, "last_stage", &s->last_stage);
    lw_records_json(o, &LW_RECORDS("by_optype", type_columns, s->by_type.v, s->by_type.n));
    lw_records_json(o, &LW_RECORDS("by_dp_rank", dp_columns, s->by_dp.v, s->by_dp.n));
    lw_records_json(o, &LW_RECORDS("by_stage", stage_columns, s->by_stage.v, s->by_stage.n));
    lw_records_json(o, &LW_RECORDS("by_worker", worker_columns, s->by_worker.v, s->by_worker.n));
    lw_records_json(o, &LW_RECORDS("steps", step_columns, s->steps, s->n_steps));
    steps_json(o, "by_optype_per_step", "optype", s, &s->by_type);
    steps_json(o, "by_dp_rank_per_step", "dp_rank", s, &s->by_dp);
    steps_json(o, "by_stage_per_step", "stage", s, &s->by_stage);
    lw_jsonout_end(o);
}

static enum lw_status put_top(const struct lw_column *columns, int n_columns,
                              const struct traces_blames *v, FILE *f, struct lw_err *err)
{
    struct lw_records r = {NULL, columns, n_columns, v->v, v->n < 10 ? v->n : 10, sizeof *v->v,
                           0, 0};

    LW_TRY(lw_records_text(&r, f, 2, err));
    if (v->n > 10)
        fprintf(f, "  the 10 largest of %d\n", v->n);
    return LW_OK;
}

/* The part of most blame in step i. */
static const struct traces_blame *worst(const struct traces_blames *v, int32_t i)
{
    const struct traces_blame *w = &v->v[0];

    for (int32_t k = 1; k < v->n; k++)
        w = v->v[k].steps[i] > w->steps[i] ? &v->v[k] : w;
    return w;
}

static void put_slowest_step(const struct traces_stragglers *s, FILE *f)
{
    int32_t i = 0;

    for (int32_t k = 1; k < s->n_steps; k++)
        i = s->steps[k].slowdown > s->steps[i].slowdown ? k : i;
    const struct traces_blame *type = worst(&s->by_type, i), *stage = worst(&s->by_stage, i),
                              *dp = worst(&s->by_dp, i);
    lw_printf_paragraph(f,
                        "the slowest step, %lld, is %.3f times as long: %.3f by %s alone, %.3f by "
                        "stage %d, %.3f by dp rank %d; --format json has each step",
                        (long long)s->steps[i].step, s->steps[i].slowdown, type->steps[i],
                        type->name, stage->steps[i], stage->number, dp->steps[i], dp->number);
}

enum lw_status traces_stragglers_text(const struct traces_stragglers *s, FILE *f,
                                      struct lw_err *err)
{
    char a[32], b[32], c[32];

    fprintf(f,
            "mean step: recorded %s, its operations without delays between them %s,\n"
            "  if all workers were alike %s: stragglers make the job %.3f times as long\n",
            lw_format_ps(a, lw_ns_to_ps(s->recorded_ns)),
            lw_format_ps(b, lw_ns_to_ps(s->simulated_ns)),
            lw_format_ps(c, lw_ns_to_ps(s->alike_ns)), s->slowdown);
    fprintf(f,
            "of the slowdown goes, with the slowest %d of the workers (rank %d first) as the "
            "others:\n  %.1f %%; with the last stage as the others: %.1f %%\n",
            s->slowest.n_ranks, s->slowest.rank, 100 * s->slowest.removed,
            100 * s->last_stage.removed);
    if (s->n_steps > 1)
        put_slowest_step(s, f);
    LW_TRY(put_top(type_columns, LW_N_COLUMNS(type_columns), &s->by_type, f, err));
    LW_TRY(put_top(stage_columns, LW_N_COLUMNS(stage_columns), &s->by_stage, f, err));
    LW_TRY(put_top(dp_columns, LW_N_COLUMNS(dp_columns), &s->by_dp, f, err));
    return put_top(worker_columns, LW_N_COLUMNS(worker_columns), &s->by_worker, f, err);
}
