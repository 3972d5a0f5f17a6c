/* The part of `lapwing sim` that replays recorded traces: reading them, and predicted against
 * recorded. */
#include "analysis/study/replay_predict.h"

#include <stdio.h>
#include <string.h>

#include "shared/numbers/median.h"
#include "traces/trace/kernel_class.h"
#include "traces/import/convert.h"
#include "shared/numbers/units.h"
#include "traces/import/read_traces.h"
#include "traces/import/trace_names.h"
#include "traces/replay/recorded_timeline.h"
#include "traces/replay/replay_steps.h"

enum lw_status sim_replay_buckets(struct sim_replay *r, const struct lw_plan_source *given,
                                  struct lw_err *err)
{
    static const char *const allowed[] = {"bucket-cap", "first-bucket", "last-bucket-cap"};

    for (int i = 0; i < given->n_given; i++) {
        bool ok = false;
        for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
            ok |= strcmp(given->names[i], allowed[k]) == 0;
        if (!ok)
            return lw_fail(err, LW_EUSAGE,
                           "a replay takes its plan from the traces: --%s cannot be combined with "
                           "--replay",
                           given->names[i]);
    }
    r->other_buckets = given->n_given > 0;
    r->buckets = (struct lw_bucket_request){.policy = LW_BUCKET_C10D_2,
                                            .cap_bytes = given->given.bucket_cap_bytes,
                                            .first_bytes = given->given.first_bucket_bytes,
                                            .last_cap = given->given.last_bucket_cap};
    return LW_OK;
}

/* Borrow the sources of files that are all traces. */
static enum lw_status take_sources(const struct traces_file *f, int n, struct traces_source *v,
                                   struct lw_err *err)
{
    for (int i = 0; i < n; i++) {
        if (f[i].importer->plan)
            return lw_fail(err, LW_EINVAL, "%s is a file of format %s, %s of %s: replay them apart",
                           f[0].file, f[0].importer->name, f[i].file, f[i].importer->name);
        if (!f[i].importer->timeline)
            return lw_fail(err, LW_ENOTSUP,
                           "%s: a file of format %s says what was called or measured, and not "
                           "when a step's ops ran: %s; a replay takes the profiler's traces, "
                           "Nsight Systems reports, Chakra or execution traces, GOAL schedules",
                           f[i].file, f[i].importer->name,
                           f[i].importer->instead ? f[i].importer->instead
                                                  : "'lapwing inspect' shows it");
        v[i] = f[i].source;
    }
    return LW_OK;
}

/* A step whose range has a negative duration ends nowhere. */
static enum lw_status check_steps(const struct traces_source *v, int n, struct lw_err *err)
{
    for (int i = 0; i < n; i++) {
        const struct lw_trace *t = &v[i].trace;
        for (int64_t k = 0; t->n_negative > 0 && k < t->n; k++)
            if (t->dur_ns[k] == 0 && lw_trace_on_host(t, k) &&
                lw_trace_name_begins(t, k, "ProfilerStep#"))
                return lw_fail_at(err, LW_EINVAL, v[i].file, 0,
                                  "'%.60s' lasts no time (negative durations count as 0): a replay "
                                  "needs the end of each step; record it again, or take that range "
                                  "out of the file", lw_trace_name(t, k));
    }
    return LW_OK;
}

/* What the what-ifs need to know about the recording. */
static void describe(struct sim_whatif *w, const struct traces_source *v, int n)
{
    const struct lw_trace *t = &v[0].trace;

    w->world = t->world_size > 0 ? t->world_size : n > 1 ? n : -1;
    w->recorded_device = traces_source_device(&v[0]);
    w->alone = n == 1 && !v[0].parallel;
    w->no_device = !traces_ran_on_device(t);
}

/* Periods of the recording, of all ranks and then of each, and the parts of its middle one. */
static enum lw_status keep_recorded(struct sim_replay *r, const struct traces_replay *replay,
                                    struct lw_err *err)
{
    struct lw_timeline rows;
    struct lw_summary s;
    int64_t n = replay->n_steps;

    LW_TAKE(&r->arena, r->recorded, n * (replay->n_ranks + 1), err);
    LW_TRY(traces_recorded_rows(replay, &replay->plan, &rows, err));
    enum lw_status status = LW_OK;
    for (int32_t rank = -1; status == LW_OK && rank < replay->n_ranks; rank++)
        status = traces_replay_periods(replay, &rows, rank, r->recorded + n * (rank + 1), err);
    if (status == LW_OK)
        status = traces_replay_divide(replay, &rows, err);
    if (status == LW_OK)
        status = lw_timeline_summarize(&rows, &replay->plan, 1 + traces_replay_first(replay), &s,
                                       err);
    lw_timeline_free(&rows);
    LW_TRY(status);
    r->shown.parts = s.ranks[s.worst];
    lw_summary_free(&s);
    return LW_OK;
}

static double error_pct(lw_ps predicted, lw_ps recorded)
{
    return lw_percent((double)(predicted - recorded), (double)recorded);
}

/* Where a replay parts from its recording: the op whose start moves most against the one before it
 * on its stream. */
struct parting {
    int32_t op, rank;
    lw_ps by; /* 0 = nowhere */
};

static enum lw_status find_parting(struct sim_replay *r, const struct traces_replay *replay,
                                   const struct lw_timeline *t, struct parting *out,
                                   struct lw_err *err)
{
    int32_t n_streams = replay->plan.n_streams;
    lw_ps *late;

    *out = (struct parting){-1, 0, 0};
    LW_TAKE(&r->arena, late, (int64_t)n_streams * replay->n_ranks, err);
    for (int64_t i = 0; i < t->n; i++) {
        int32_t op = t->op[i], rank = t->rank[i];
        int64_t at = (int64_t)rank * n_streams + lw_op_at(&replay->plan, op).stream;
        if (replay->row_of[op] < 0)
            continue;
        lw_ps now = t->start[i] - replay->recorded_start[op], by = now - late[at];
        if ((by > 0 ? by : -by) > (out->by > 0 ? out->by : -out->by))
            *out = (struct parting){op, rank, by};
        late[at] = now;
    }
    return LW_OK;
}

static enum lw_status refuse(struct sim_replay *r, const struct traces_replay *replay,
                             const char *file, double error, struct lw_err *err)
{
    struct parting p;
    char where[160] = "", by[32];

    LW_TRY(find_parting(r, replay, &r->unchanged, &p, err));
    if (p.op >= 0)
        snprintf(where, sizeof where, "; most of it before '%.40s' of rank %d, which begins %s %s",
                 lw_op_at(&replay->plan, p.op).name, p.rank,
                 lw_format_ps(by, p.by > 0 ? p.by : -p.by), p.by > 0 ? "later" : "earlier");
    return lw_fail_at(err, LW_EINVAL, file, 0,
                      "the replay misses the recorded period by %+.2f %% before anything is "
                      "changed (at most %d %% is accepted): %s%s; --force answers with that error",
                      error, SIM_REPLAY_TOLERANCE_PCT,
                      replay->n_lost > 0
                          ? "the recorder lost kernels"
                          : "its ops wait for something that the trace does not show",
                      where);
}

/* Medians over the measured steps of what a replay predicts: the device's period and the host's
 * range. */
static enum lw_status medians_of(struct sim_replay *r, const struct traces_replay *replay,
                                 const struct lw_timeline *t, lw_ps *period, lw_ps *host,
                                 struct lw_err *err)
{
    int32_t first = traces_replay_first(replay), n = replay->n_steps - first;
    lw_ps *v;

    LW_TAKE(&r->arena, v, replay->n_steps, err);
    LW_TRY(traces_replay_periods(replay, t, -1, v, err));
    *period = lw_median(v + first, n);
    for (int32_t k = 0; k < replay->n_steps; k++) /* by its own rows: a what-if may have others */
        v[k] = traces_replay_host(replay, t, k, -1);
    *host = lw_median(v + first, n);
    return LW_OK;
}

static enum lw_status run_unchanged(struct sim_replay *r, const struct traces_replay *replay,
                                    struct lw_err *err)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_cluster cluster = traces_replay_cluster(replay);
    struct lw_sim_stats stats;

    lw_timeline_free(&r->unchanged);
    LW_TRY(lw_sim_run(&replay->plan, &cluster, &o, &r->unchanged, &stats, err));
    return medians_of(r, replay, &r->unchanged, &r->shown.unchanged, &r->unchanged_host, err);
}

/* The replay without the change must come out at the recorded period. */
static enum lw_status check_unchanged(struct sim_replay *r, const struct traces_replay *replay,
                                      const char *file, struct lw_err *err)
{
    int32_t first = traces_replay_first(replay), n = replay->n_steps - first;
    lw_ps *v;

    LW_TAKE(&r->arena, v, replay->n_steps, err);
    LW_TRY(run_unchanged(r, replay, err));
    r->shown.as_recorded = r->shown.unchanged;
    memcpy(v, r->recorded, (size_t)replay->n_steps * sizeof *v);
    double error = error_pct(r->shown.unchanged, lw_median(v + first, n));
    if (r->force ||
        (error <= SIM_REPLAY_TOLERANCE_PCT && error >= -SIM_REPLAY_TOLERANCE_PCT))
        return LW_OK;
    return refuse(r, replay, file, error, err);
}

/* The replay as recorded, which tells whether a what-if is answered. */
static enum lw_status replay_unchanged(struct sim_replay *r, const struct traces_source *v, int n,
                                       const struct lw_kernel_table *kernels, struct lw_err *err)
{
    struct traces_replay_choice choice = {.kernels = kernels};
    struct traces_replay replay;

    LW_TRY(traces_replay_build(v, n, &choice, &replay, err));
    enum lw_status status = keep_recorded(r, &replay, err);
    if (status == LW_OK)
        status = check_unchanged(r, &replay, v[0].file, err);
    traces_replay_free(&replay);
    return status;
}

/* ---- the step without the profiler ---- */

/* As the sidecars measured it, of the slowest rank; 0 = no rank has one. */
static lw_ps unprofiled_step(const struct traces_source *v, int n)
{
    int64_t longest = 0;

    for (int i = 0; i < n; i++)
        if (v[i].has_sidecar && v[i].sidecar.measured.step.median > longest)
            longest = v[i].sidecar.measured.step.median;
    return lw_ns_to_ps(longest);
}

/* The unchanged replay with scaled host gaps; its timeline becomes r->unchanged. */
static enum lw_status replay_scaled(struct sim_replay *r, const struct traces_source *v, int n,
                                    const struct lw_kernel_table *kernels, double scale,
                                    struct lw_err *err)
{
    struct traces_replay_choice choice = {.kernels = kernels, .host_scale = scale};
    struct traces_replay replay;

    LW_TRY(traces_replay_build(v, n, &choice, &replay, err));
    enum lw_status status = run_unchanged(r, &replay, err);
    traces_replay_free(&replay);
    return status;
}

/* The profiler costs the host time. The scale of the host's own times with which the replay takes
 * as long as the step was measured to take without it; a longer step has longer gaps, so halving
 * the range finds it. None where the device alone takes longer. */
static enum lw_status find_scale(struct sim_replay *r, const struct traces_source *v, int n,
                                 const struct lw_kernel_table *kernels, struct lw_err *err)
{
    const double least = 1.0 / 1024, most = 4;
    double low = least, high = most;

    if (!r->replay->has_device || r->as_traced)
        return LW_OK;
    r->shown.unprofiled = unprofiled_step(v, n);
    if (r->shown.unprofiled <= 0)
        return LW_OK;
    LW_TRY(replay_scaled(r, v, n, kernels, least, err));
    r->shown.scaled = r->shown.unchanged;
    if (r->shown.scaled >= r->shown.unprofiled)
        return LW_OK;
    while (high - low > 1e-4) {
        double middle = (low + high) / 2;
        LW_TRY(replay_scaled(r, v, n, kernels, middle, err));
        bool longer = r->shown.unchanged > r->shown.unprofiled;
        low = longer ? low : middle;
        high = longer ? middle : high;
    }
    LW_TRY(replay_scaled(r, v, n, kernels, low, err));
    r->shown.scaled = r->shown.unchanged;
    r->shown.host_scale = low;
    return LW_OK;
}

/* A what-if's replay is built again with the scale. */
static enum lw_status apply_scale(struct sim_replay *r, const struct traces_source *v, int n,
                                  struct traces_replay_choice *choice, struct lw_err *err)
{
    LW_TRY(find_scale(r, v, n, choice->kernels, err));
    if (r->shown.host_scale <= 0)
        return r->shown.unprofiled > 0 ? replay_scaled(r, v, n, choice->kernels, 0, err) : LW_OK;
    choice->host_scale = r->shown.host_scale;
    choice->unprofiled = r->shown.unprofiled;
    traces_replay_free(r->replay);
    sim_whatif_restart(&r->whatif);
    return traces_replay_build(v, n, choice, r->replay, err);
}

/* A device that was behind its host and no longer is catches up within the recorded steps, and
 * their periods are shorter than the host's. The step of a run of any length is the host's then:
 * nothing would be queued when the recording begins. */
static enum lw_status without_backlog(struct sim_replay *r, const struct traces_source *v, int n,
                                      struct traces_replay_choice *choice, struct lw_err *err)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_cluster cluster = traces_replay_cluster(r->replay);
    struct lw_timeline t;
    struct lw_sim_stats stats;
    lw_ps period, host;

    if (traces_replay_basis(r->replay) != TRACES_DEVICE_PERIOD)
        return LW_OK;
    LW_TRY(lw_sim_run(&r->replay->plan, &cluster, &o, &t, &stats, err));
    enum lw_status status = medians_of(r, r->replay, &t, &period, &host, err);
    lw_timeline_free(&t);
    LW_TRY(status);
    if (r->shown.unchanged < r->unchanged_host || period >= host)
        return LW_OK;
    traces_replay_free(r->replay);
    choice->no_backlog = true;
    sim_whatif_restart(&r->whatif);
    return traces_replay_build(v, n, choice, r->replay, err);
}

static enum lw_status build_with(struct sim_replay *r, const struct traces_source *v, int n,
                                 const struct lw_kernel_table *kernels, struct lw_err *err)
{
    struct traces_replay_rule rule;
    struct traces_replay_choice choice = {.kernels = kernels,
                                          .buckets = r->other_buckets ? &r->buckets : NULL};

    r->shown.what_if = r->other_buckets;
    if (sim_whatif_asked(&r->whatif) || r->whatif.from_device || r->whatif.as_recorded) {
        r->whatif.kernels = kernels;
        describe(&r->whatif, v, n);
        LW_TRY(sim_whatif_open(&r->whatif, &rule, err));
        choice.rule = &rule;
        r->shown.what_if = true;
    }
    LW_TRY(traces_replay_build(v, n, &choice, r->replay, err));
    LW_TRY(sim_whatif_acted(&r->whatif, err));
    if (r->shown.what_if) {
        LW_TRY(replay_unchanged(r, v, n, kernels, err));
        LW_TRY(apply_scale(r, v, n, &choice, err));
        return without_backlog(r, v, n, &choice, err);
    }
    LW_TRY(keep_recorded(r, r->replay, err));
    return find_scale(r, v, n, kernels, err);
}

static enum lw_status build(struct sim_replay *r, const struct traces_source *v, int n,
                            struct lw_err *err)
{
    struct lw_kernel_table kernels = {0};

    if (r->kernels_file)
        LW_TRY(lw_kernel_table_read(r->kernels_file, &kernels, err));
    enum lw_status status = build_with(r, v, n, &kernels, err);
    sim_whatif_close(&r->whatif);
    lw_kernel_table_free(&kernels);
    return status;
}

/* ---- graphs ---- */

static bool has_no_time(const struct lw_plan *p, const struct lw_op *op)
{
    enum lw_op_class c = lw_op_class(op->kind);

    return lw_plan_work_ps(p, op) < 0 && (c == LW_CLASS_COLLECTIVE || c == LW_CLASS_P2P ||
                                          c == LW_CLASS_COMPUTE || c == LW_CLASS_COPY);
}

/* What no file and no what-if gives a time. */
static enum lw_status check_times(const struct lw_plan *p, const char *file, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP(p, i);
        bool message = op->comm >= 0;
        if (has_no_time(p, op))
            return lw_fail_at(err, LW_EINVAL, file, 0, "'%.80s' (%s) has no recorded duration: %s",
                              op->name, lw_op_name(op->kind),
                              message ? "name a network that times it (-c CLUSTER --as-recorded)"
                                      : "write the plan (lapwing import -o PLAN.json) and predict "
                                        "it on a cluster (lapwing sim PLAN.json -c CLUSTER)");
    }
    return LW_OK;
}

static enum lw_status load_graph(struct sim_replay *r, const struct traces_file *f, int n,
                                 struct lw_plan *plan, struct lw_err *err)
{
    struct traces_replay_rule rule;
    struct traces_plan_wanted want = {.loggops = r->loggops};

    if (r->other_buckets)
        return lw_fail(err, LW_EINVAL,
                       "%s: a file of format %s holds no gradients: bucket options "
                       "cannot be combined with it",
                       f[0].file, f[0].importer->name);
    for (int i = 1; i < n; i++)
        if (f[i].importer != f[0].importer)
            return lw_fail(err, LW_EINVAL, "%s is a file of format %s, %s of %s: replay them apart",
                           f[0].file, f[0].importer->name, f[i].file, f[i].importer->name);
    if (sim_whatif_asked(&r->whatif) || r->whatif.from_device || r->whatif.as_recorded) {
        /* a schedule holds all ranks; one file of several does not say how many they are */
        r->whatif.world = n > 1 || f[0].importer->buffered ? n : -1;
        r->whatif.recorded_device = "";
        r->whatif.untimed = f[0].importer->untimed;
        LW_TRY(sim_whatif_open(&r->whatif, &rule, err));
        want.rule = &rule;
    }
    if (r->loggops && !f[0].importer->buffered)
        return lw_fail(err, LW_EINVAL,
                       "%s: --loggops concerns GOAL schedules; this is a file of "
                       "format %s",
                       f[0].file, f[0].importer->name);
    r->graph = true;
    r->buffered = f[0].importer->buffered;
    enum lw_status status = f[0].importer->plan(f, n, &want, plan, err);
    if (status == LW_OK)
        status = sim_whatif_acted(&r->whatif, err);
    sim_whatif_close(&r->whatif);
    if (status == LW_OK)
        status = check_times(plan, f[0].file, err);
    if (status != LW_OK)
        lw_plan_free(plan);
    return status;
}

/* A what-if's times are not only recorded ones, and the run says so. */
static enum lw_status name_cluster(struct sim_replay *r, struct lw_cluster *c, struct lw_err *err)
{
    const struct sim_whatif *w = &r->whatif;

    if (!w->network && !w->device)
        return LW_OK;
    LW_PRINT(&r->arena, c->name, err, LW_RECORDED_CLUSTER " with%s%s%s%s%s",
             w->network ? " the network of " : "", w->network ? w->network : "",
             w->network && w->device ? " and" : "", w->device ? " the kernels of " : "",
             w->device ? w->device : "");
    return LW_OK;
}

enum lw_status sim_replay_load(struct sim_replay *r, char **files, int n, struct lw_plan *plan,
                               struct lw_cluster *cluster, struct lw_err *err)
{
    struct traces_reading reading = {0};
    struct traces_names names = {0};

    LW_TRY(traces_names_find(files, n, &names, err));
    files = names.names;
    n = names.n;
    lw_arena_join(&r->arena, &names.arena);
    LW_TRY(traces_names_once(&names, err));
    struct traces_file *f = lw_calloc((size_t)n, sizeof *f);
    struct traces_source *v = lw_calloc((size_t)n, sizeof *v);

    r->replay = lw_calloc(1, sizeof *r->replay);
    enum lw_status status =
        f && v && r->replay ? traces_files_read(&reading, files, &n, f, err) : lw_fail_nomem(err);
    if (status == LW_OK) {
        if (f[0].importer->plan)
            status = load_graph(r, f, n, plan, err);
        else
            status = take_sources(f, n, v, err);
        if (status == LW_OK && !r->graph && r->loggops)
            status = lw_fail(err, LW_EINVAL,
                             "%s: --loggops concerns GOAL schedules; this is a "
                             "recorded trace",
                             f[0].file);
        if (status == LW_OK && !r->graph)
            status = check_steps(v, n, err);
        if (status == LW_OK && !r->graph)
            status = build(r, v, n, err);
        traces_files_free(f, n);
    }
    lw_free(v);
    lw_free(f);
    LW_TRY(status);
    *cluster = traces_replay_cluster(r->replay);
    LW_TRY(name_cluster(r, cluster, err));
    if (r->graph)
        return LW_OK;
    *plan = r->replay->plan;
    r->replay->plan = (struct lw_plan){0};
    return LW_OK;
}

/* ---- predicted against recorded ---- */

/* One rank's periods; -1: those of all ranks. */
static enum lw_status fill_periods(struct sim_replay *r, const struct lw_timeline *t, int32_t rank,
                                   struct lw_err *err)
{
    const struct lw_sim_replayed *x = &r->shown;
    const lw_ps *recorded = r->recorded + (int64_t)x->n_steps * (rank + 1);
    lw_ps *v;

    LW_TAKE(&r->arena, v, x->n_steps, err);
    LW_TRY(traces_replay_periods(r->replay, t, rank, v, err));
    for (int32_t k = 0; k < x->n_steps; k++) {
        struct lw_sim_replayed_step *s = &x->steps[k];
        *(rank < 0 ? &s->period : &s->rank_period[rank]) =
            (struct lw_sim_replayed_time){v[k], recorded[k]};
    }
    return LW_OK;
}

static enum lw_status fill_step(struct sim_replay *r, const struct lw_timeline *t, int32_t k,
                                struct lw_err *err)
{
    const struct traces_replay_step *s = &r->replay->steps[k];
    struct lw_sim_replayed_step *x = &r->shown.steps[k];
    int32_t n = r->replay->n_ranks;

    x->name = s->name;
    x->measured = k >= traces_replay_first(r->replay);
    x->host = (struct lw_sim_replayed_time){traces_replay_host(r->replay, t, k, -1), s->host};
    LW_TAKE(&r->arena, x->rank_period, n, err);
    LW_TAKE(&r->arena, x->rank_host, n, err);
    for (int32_t i = 0; i < n; i++)
        x->rank_host[i] = (struct lw_sim_replayed_time){traces_replay_host(r->replay, t, k, i),
                                                        s->host_of_rank[i]};
    return LW_OK;
}

static enum lw_status fill_medians(struct sim_replay *r, struct lw_err *err)
{
    struct lw_sim_replayed *x = &r->shown;
    int32_t first = traces_replay_first(r->replay), n = x->n_steps - first;
    lw_ps *v;

    LW_TAKE(&r->arena, v, n, err);
    for (int32_t k = 0; k < n; k++)
        v[k] = x->steps[first + k].period.recorded;
    x->period.recorded = lw_median(v, n);
    for (int32_t k = 0; k < n; k++)
        v[k] = x->steps[first + k].period.predicted;
    x->period.predicted = lw_median(v, n);
    return LW_OK;
}

/* A change that the host hides is refused: where no op of the host moves, a period changes by what
 * the last ops of the two steps at its ends differ, which says nothing about other steps. So is one
 * that moves the period by less than the last printed digit. */
static enum lw_status check_change(struct sim_replay *r, const struct lw_timeline *t,
                                   struct lw_err *err)
{
    struct lw_sim_replayed *x = &r->shown;
    double change = error_pct(x->period.predicted, x->unchanged);
    bool host_bound = false;

    x->same_buckets = r->other_buckets && r->replay->n_new_buckets == 0;
    if (r->other_buckets && r->replay->core_want > 0) { /* docs/design/replay_accuracy.md */
        x->error_pct = r->replay->core_want >= 1 ? 4.7 : 1.2;
        x->most_error_pct = r->replay->core_want >= 1 ? 14.7 : 3.5;
    }
    if (!x->what_if || x->same_buckets)
        return LW_OK;
    if (!r->other_buckets)
        LW_TRY(traces_replay_host_bound(r->replay, &r->unchanged, t, &host_bound, err));
    if (host_bound)
        return lw_fail(err, LW_EINVAL,
                       "the what-if changes the times of device ops, no op of the host moves, and "
                       "in every step the device waits for the host: the period is the host's own "
                       "and stays as recorded ('lapwing explain' of the replay shows the path)");
    if (change >= 0.005 || change <= -0.005)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "the what-if changes the times of ops, and the period stays the same: none of "
                   "them is on the critical path, which is the host's own time between calls and "
                   "stays as recorded ('lapwing explain' of the replay shows the path)");
}

enum lw_status sim_replay_compare(struct sim_replay *r, struct lw_timeline *t, int32_t *n_warmup,
                                  struct lw_err *err)
{
    struct lw_sim_replayed *x = &r->shown;

    x->n_steps = r->replay->n_steps;
    x->n_ranks = r->replay->n_ranks;
    x->tolerance_pct = SIM_REPLAY_TOLERANCE_PCT;
    x->basis = traces_replay_basis_name(traces_replay_basis(r->replay));
    x->rank_of_file = r->replay->rank_of_file;
    LW_TAKE(&r->arena, x->steps, x->n_steps, err);
    for (int32_t k = 0; k < x->n_steps; k++)
        LW_TRY(fill_step(r, t, k, err));
    for (int32_t rank = -1; rank < x->n_ranks; rank++)
        LW_TRY(fill_periods(r, t, rank, err));
    LW_TRY(fill_medians(r, err));
    LW_TRY(check_change(r, t, err));
    *n_warmup = 1 + traces_replay_first(r->replay);
    return traces_replay_divide(r->replay, t, err);
}

void sim_replay_free(struct sim_replay *r)
{
    if (r->replay)
        traces_replay_free(r->replay);
    lw_free(r->replay);
    lw_timeline_free(&r->unchanged);
    lw_arena_free(&r->arena);
}
