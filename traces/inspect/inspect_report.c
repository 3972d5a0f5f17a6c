/* What `lapwing inspect` reads before it prints: for a trace its device figures and host steps, for
 * other formats what they count. */
#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "traces/et/et_join.h"
#include "traces/import/join_traces.h"
#include "traces/inspect/inspect_print.h"
#include "shared/base/parallel.h"
#include "traces/trace/same_run.h"

struct job {
    struct traces_report *report;
    char **names;
    const struct traces_reading *reading;
    const struct traces_bench_hint *hint;
};

static void free_file(struct traces_report_file *f)
{
    lw_inspection_free(&f->device);
    lw_steps_free(&f->steps);
    traces_host_bound_free(&f->host_bound);
    lw_trace_free(&f->trace);
    if (f->facts)
        f->importer->free(f->facts);
    lw_free(f->facts);
}

/* What is found of a trace: parts that read it and do not need each other. */
enum part { PROFILE, DEVICE, STEPS, N_PARTS };
struct look {
    struct traces_report_file *f;
    const struct traces_report *r;
};

static enum lw_status look_at_part(void *ctx, int part, const struct lw_progress *p,
                                   struct lw_err *err)
{
    const struct look *x = ctx;
    struct traces_report_file *f = x->f;
    const struct lw_kernel_table *kernels = x->r->kernels;

    (void)p;
    if (part == PROFILE)
        return x->r->report ? traces_rank_report_find(&f->trace, kernels, &f->profile, err) : LW_OK;
    if (part == STEPS)
        return lw_steps_find(&f->trace, &f->steps, err);
    LW_TRY(lw_inspect(&f->trace, kernels, &f->device, err));
    return traces_host_bound_find(&f->trace, &f->device, kernels, &f->host_bound, err);
}

/* On all cores where no other file is on them. */
static enum lw_status look_at_trace(struct traces_report_file *f, const struct traces_report *r,
                                    struct lw_err *err)
{
    struct look x = {f, r};
    struct lw_parallel_work work = {look_at_part, &x, N_PARTS, "looking", NULL,
                                    r->names.n == 1 ? 0 : 1};

    return lw_parallel(&work, err);
}

static enum lw_status look_at_other(struct traces_report_file *f, const struct lw_input *in,
                                    const struct traces_bench_hint *hint, struct lw_err *err)
{
    void *facts = lw_calloc(1, f->importer->facts_size + 1);

    if (!facts)
        return lw_fail_nomem(err);
    enum lw_status status = f->importer->look(in, hint, facts, err);
    if (status == LW_OK)
        f->facts = facts;
    else
        lw_free(facts);
    return status;
}

static enum lw_status read_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    const struct job *job = ctx;
    struct lw_trace_reading options = {.salvage = job->reading->salvage,
                                       .alone = job->report->names.n == 1, .unhashed = true,
                                       .progress = p};
    struct traces_report_file f = {.name = job->names[i]};
    struct lw_err damage = {0};
    struct lw_input in;

    LW_TRY(traces_file_open(f.name, &options, &in, &damage, &f.importer, err));
    enum lw_status status = LW_OK;
    if (job->hint->loggops && !f.importer->buffered)
        status = lw_fail(err, LW_EINVAL,
                         "%s: --loggops concerns GOAL schedules; this is a file of format %s",
                         f.name, f.importer->name);
    else if (f.importer->timeline) {
        status = f.importer->take(&in, &damage, &options, &f.trace, err);
        if (status == LW_OK)
            status = look_at_trace(&f, job->report, err);
    } else {
        status = look_at_other(&f, &in, job->hint, err);
    }
    lw_input_free(&in);
    if (status != LW_OK)
        free_file(&f);
    else
        job->report->files[i] = f;
    return status;
}

/* ---- execution traces beside the profiler's traces of the same run ---- */

static void forget_look(struct traces_report_file *f)
{
    lw_inspection_free(&f->device);
    lw_steps_free(&f->steps);
    traces_host_bound_free(&f->host_bound);
    f->device = (struct lw_inspection){0};
    f->steps = (struct lw_steps){0};
    f->host_bound = (struct traces_host_bound){0};
    f->profile = (struct traces_rank_report){0};
}

/* Files of other steps are shown apart. */
static enum lw_status note_apart(struct lw_trace *t, const struct lw_err *why, struct lw_err *err)
{
    char text[sizeof why->msg + 16];
    int n = snprintf(text, sizeof text, "not joined: %s", why->msg);

    t->joined = traces_strings_add(&t->strings, text, (size_t)n);
    return t->joined >= 0 ? LW_OK : lw_fail_nomem(err);
}

/* Reads the execution trace of files[et] again, with its calls, and joins it with its partner
 * among t[n], whose files are at[n]. *joined: it has one. */
static enum lw_status join_one(struct traces_report *r, int64_t et, struct lw_trace **t,
                               const int64_t *at, bool *taken, int n, bool *joined,
                               struct lw_err *err)
{
    struct traces_et e;
    struct lw_input in;

    LW_TRY(traces_join_open(r->files[et].name, &in, &e, err));
    int k = traces_join_partner(&e, t, taken, n);
    enum lw_status status = LW_OK;
    if (k >= 0) {
        struct traces_report_file *f = &r->files[at[k]];
        struct lw_err apart = {0};
        status = traces_et_join(&f->trace, f->name, &e, &apart);
        *joined = taken[k] = status == LW_OK;
        if (status == LW_EINVAL)
            status = note_apart(&f->trace, &apart, err);
        else if (status != LW_OK)
            *err = apart;
        if (*joined) {
            forget_look(f);
            status = look_at_trace(f, r, err);
        }
    }
    traces_et_free(&e);
    lw_input_free(&in);
    return status;
}

static enum lw_status join_executions(struct traces_report *r, struct lw_arena *arena,
                                      struct lw_err *err)
{
    struct lw_trace **t;
    int64_t *at, kept = 0;
    bool *taken, *joined;
    int n = 0;

    LW_TAKE(arena, t, r->n, err);
    LW_TAKE(arena, at, r->n, err);
    LW_TAKE(arena, taken, r->n, err);
    LW_TAKE(arena, joined, r->n, err);
    for (int64_t i = 0; i < r->n; i++)
        if (r->files[i].importer->timeline) {
            at[n] = i;
            t[n++] = &r->files[i].trace;
        }
    for (int64_t i = 0; n > 0 && i < r->n; i++)
        if (traces_is_execution(r->files[i].importer))
            LW_TRY(join_one(r, i, t, at, taken, n, &joined[i], err));
    for (int64_t i = 0; i < r->n; i++)
        if (joined[i])
            free_file(&r->files[i]);
        else
            r->files[kept++] = r->files[i];
    r->n = kept;
    return LW_OK;
}

/* Traces with device work, each of a rank, that say nothing that keeps them from being one run. */
static enum lw_status find_one_run(struct traces_report *r, struct lw_err *err)
{
    char why[96];

    for (int64_t i = 0; i < r->n; i++)
        if (!r->files[i].importer->timeline || r->files[i].trace.rank < 0 ||
            !r->files[i].device.has_device)
            return LW_OK;
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t k = 0; k < i; k++)
            if (!lw_traces_same_run(&r->files[k].trace, &r->files[i].trace, why, sizeof why)) {
                LW_PRINT(&r->arena, r->apart, err, "%s and %s: %s", r->files[k].name,
                         r->files[i].name, why);
                return LW_OK;
            }
    r->one_run = r->n > 1;
    return LW_OK;
}

static enum lw_status find_alike(struct traces_report *r, const struct traces_comm_list *lists,
                                 struct lw_err *err)
{
    int64_t *starts, *ends;

    LW_TAKE(&r->arena, starts, r->n, err);
    LW_TAKE(&r->arena, ends, r->n, err);
    for (int64_t k = 0; k < r->n; k++) {
        const struct lw_trace *t = &r->files[k].trace;
        starts[k] = INT64_MAX;
        ends[k] = INT64_MIN;
        for (int64_t i = 0; i < t->n; i++)
            if (lw_trace_on_device(t, i)) {
                starts[k] = t->start_ns[i] < starts[k] ? t->start_ns[i] : starts[k];
                ends[k] = lw_trace_end_ns(t, i) > ends[k] ? lw_trace_end_ns(t, i) : ends[k];
            }
    }
    return traces_alike_find(lists, (int32_t)r->n, &r->cross, starts, ends, &r->arena, &r->alike,
                             err);
}

static enum lw_status compare_ranks(struct traces_report *r, struct lw_err *err)
{
    struct traces_comm_list *lists;

    LW_TAKE(&r->arena, lists, r->n, err);
    for (int64_t k = 0; k < r->n; k++)
        LW_TRY(traces_comm_list_build(&r->files[k].trace, r->kernels, &r->arena, &lists[k], err));
    LW_TRY(traces_cross_rank_build(lists, (int32_t)r->n, &r->arena, &r->cross, err));
    return r->report ? find_alike(r, lists, err) : LW_OK;
}

/* Two files with device work that are not ranks of one run. */
static enum lw_status compare_files(struct traces_report *r, struct lw_err *err)
{
    if (!r->report || r->n != 2 || !r->files[0].device.has_device ||
        !r->files[1].device.has_device)
        return LW_OK;
    return traces_kernel_changes(&r->files[0].trace, &r->files[1].trace, &r->arena, &r->changes,
                                 &r->n_changes, err);
}

enum lw_status traces_report_read(struct traces_report *r, char **names, int n,
                                  const struct traces_reading *reading,
                                  const struct traces_bench_hint *hint, struct lw_err *err)
{
    LW_TRY(traces_names_find(names, n, &r->names, err));
    struct job job = {r, r->names.names, reading, hint};
    struct lw_parallel_work work = {read_one, &job, r->names.n, "reading", reading->progress};
    r->files = lw_calloc((size_t)r->names.n, sizeof *r->files);
    r->n = r->files ? r->names.n : 0;
    enum lw_status status = r->files ? lw_parallel(&work, err) : lw_fail_nomem(err);
    if (status == LW_OK)
        status = join_executions(r, &r->arena, err);
    if (status == LW_OK)
        status = find_one_run(r, err);
    if (status == LW_OK)
        status = r->one_run ? compare_ranks(r, err) : compare_files(r, err);
    if (status != LW_OK)
        traces_report_free(r);
    return status;
}

void traces_report_free(struct traces_report *r)
{
    for (int64_t i = 0; i < r->n; i++)
        free_file(&r->files[i]);
    lw_free(r->files);
    traces_names_free(&r->names);
    lw_arena_free(&r->arena);
    *r = (struct traces_report){0};
}
