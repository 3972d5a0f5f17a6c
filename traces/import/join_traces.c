/* Which execution trace belongs to which of the profiler's traces, and joining them (traces/et). */
#include "traces/import/join_traces.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/parallel.h"
#include "traces/et/et_join.h"
#include "traces/graph/graph_plan.h"

enum { LOOKED_AT = 256 };

bool traces_is_execution(const struct lw_importer *importer)
{
    return importer == &lw_importer_et;
}

/* Host rows name their thread "pid/tid"; the first ones tell. */
static bool is_of_process(const struct lw_trace *t, int64_t pid)
{
    char process[32];
    int n = snprintf(process, sizeof process, "%lld/", (long long)pid), seen = 0;

    for (int64_t i = 0; i < t->n && seen < LOOKED_AT; i++) {
        if (!lw_trace_on_host(t, i))
            continue;
        seen++;
        if (strncmp(lw_trace_text(t, t->track[i]), process, (size_t)n) == 0)
            return true;
    }
    return false;
}

int traces_join_partner(const struct traces_et *e, struct lw_trace *const *t, const bool *taken,
                        int n)
{
    int32_t rank = traces_rank_of_name(e->graph.file);
    int best = -1, best_score = 0, n_free = 0, free = -1;

    for (int i = 0; i < n; i++) {
        if (taken[i])
            continue;
        n_free++;
        free = i;
        bool process = e->pid > 0 && is_of_process(t[i], e->pid);
        if (e->pid > 0 && !process)
            continue;
        int score = 2 * process + (rank >= 0 && t[i]->rank == rank);
        if (score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best >= 0 ? best : e->pid <= 0 && n_free == 1 && n == 1 ? free : -1;
}

enum lw_status traces_join_open(const char *name, struct lw_input *in, struct traces_et *out,
                                struct lw_err *err)
{
    struct lw_trace_reading reading = {0};
    const struct lw_importer *importer;
    struct lw_err damage = {0};

    LW_TRY(traces_file_open(name, &reading, in, &damage, &importer, err));
    enum lw_status status = traces_et_read_calls(in, out, err);
    if (status != LW_OK)
        lw_input_free(in);
    return status;
}

struct job {
    struct traces_file *f;
    int *at; /* [n] files that are execution traces */
    struct traces_et *e;
    struct traces_source **s; /* what each goes into */
};

static enum lw_status read_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    const struct job *job = ctx;

    (void)p;
    return traces_et_read_calls(&job->f[job->at[i]].in, &job->e[i], err);
}

static enum lw_status join_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    const struct job *job = ctx;
    struct traces_source *s = job->s[i];

    (void)p;
    LW_TRY(traces_et_join(&s->trace, s->file, &job->e[i], err));
    lw_steps_free(&s->steps);
    return lw_steps_find(&s->trace, &s->steps, err);
}

static enum lw_status find_partners(struct job *job, int n, struct traces_source **sources,
                                    int n_sources, struct lw_arena *arena, struct lw_err *err)
{
    struct lw_trace **t;
    bool *taken;

    LW_TAKE(arena, t, n_sources, err);
    LW_TAKE(arena, taken, n_sources, err);
    for (int i = 0; i < n_sources; i++)
        t[i] = &sources[i]->trace;
    for (int i = 0; i < n; i++) {
        int k = traces_join_partner(&job->e[i], t, taken, n_sources);
        if (k < 0)
            return lw_fail(err, LW_EINVAL,
                           "%s: an execution trace of process %lld, and no profiler's trace of "
                           "that process among the files: give the one that the same run wrote, "
                           "or execution traces alone",
                           job->f[job->at[i]].file, (long long)job->e[i].pid);
        taken[k] = true;
        job->s[i] = sources[k];
    }
    return LW_OK;
}

static enum lw_status join_all(struct traces_file *f, int n, int n_et, struct lw_arena *arena,
                               struct lw_err *err)
{
    struct job job = {.f = f};
    struct lw_parallel_work reading = {read_one, &job, n_et, "reading", NULL, 0},
                            joining = {join_one, &job, n_et, "joining", NULL, 0};
    struct traces_source **sources;
    int k = 0, n_sources = 0;

    LW_TAKE(arena, job.at, n_et, err);
    LW_TAKE(arena, job.e, n_et, err);
    LW_TAKE(arena, job.s, n_et, err);
    LW_TAKE(arena, sources, n, err);
    for (int i = 0; i < n; i++)
        if (traces_is_execution(f[i].importer))
            job.at[k++] = i;
        else if (f[i].importer->timeline)
            sources[n_sources++] = &f[i].source;
    enum lw_status status = lw_parallel(&reading, err);
    if (status == LW_OK)
        status = find_partners(&job, n_et, sources, n_sources, arena, err);
    if (status == LW_OK)
        status = lw_parallel(&joining, err);
    for (int i = 0; i < n_et; i++)
        traces_et_free(&job.e[i]);
    return status;
}

/* Takes the execution traces out of the list. */
static void drop_joined(struct traces_file *f, int *n)
{
    int k = 0;

    for (int i = 0; i < *n; i++) {
        if (traces_is_execution(f[i].importer)) {
            lw_input_free(&f[i].in);
            continue;
        }
        struct traces_file kept = f[i];
        f[k++] = kept;
    }
    for (int i = k; i < *n; i++)
        f[i] = (struct traces_file){0};
    *n = k;
}

enum lw_status traces_join_files(struct traces_file *f, int *n, struct lw_err *err)
{
    struct lw_arena arena = {0};
    int n_et = 0, n_timelines = 0;

    for (int i = 0; i < *n; i++) {
        n_et += traces_is_execution(f[i].importer);
        n_timelines += f[i].importer->timeline;
    }
    if (n_et == 0 || n_timelines == 0)
        return LW_OK;
    enum lw_status status = join_all(f, *n, n_et, &arena, err);
    lw_arena_free(&arena);
    if (status == LW_OK)
        drop_joined(f, n);
    return status;
}
