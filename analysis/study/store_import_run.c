/* `lapwing import --store`: what a recording shows, as a run that compare, plot and report read.
 * Its plan is that of the replay, so `lapwing sim --replay --spans` of the same traces joins it
 * op by op. */
#include "analysis/study/store_import_run.h"

#include "analysis/store/store.h"
#include "traces/replay/recorded_timeline.h"
#include "traces/replay/replay_steps.h"

struct recording {
    struct traces_replay replay;
    struct lw_timeline timeline;
    struct lw_summary summary;
    bool has_times;
};

static enum lw_status look(struct recording *r, const struct traces_source *v, int n,
                           struct lw_err *err)
{
    struct traces_replay_choice choice = {0};

    LW_TRY(traces_replay_build(v, n, &choice, &r->replay, err));
    LW_TRY(traces_recorded_timeline(&r->replay, &r->replay.plan, &r->timeline, &r->summary, err));
    r->has_times = true;
    return LW_OK;
}

static enum lw_status store(const struct recording *r, const char *db, const char *command,
                            const char *name, const struct lw_workload *w, int64_t *run,
                            struct lw_err *err)
{
    struct lw_run_info info = {.kind = LW_RUN_IMPORT, .plan = &r->replay.plan, .workload = w,
                               .command = command, .name = name,
                               .n_warmup = 1 + traces_replay_first(&r->replay)};
    struct lw_store *s;

    LW_TRY(lw_store_open(db, LW_STORE_WRITE, &s, err));
    enum lw_status status = lw_store_begin_run(s, &info, run, err);
    if (status == LW_OK)
        status = lw_store_spans(s, *run, &r->timeline, err);
    if (status == LW_OK)
        status = lw_store_finish_run(s, *run, &r->summary, LW_RUN_OK, "", err);
    lw_store_close(s);
    return status;
}

enum lw_status lw_store_import_run(const char *db, const char *command, const char *name,
                                   const struct traces_file *f, int n, const struct lw_workload *w,
                                   int64_t *run, struct lw_err *err)
{
    struct recording r = {0};

    if (f[0].importer->plan)
        return lw_fail(err, LW_EINVAL,
                       "%s: --store: a file of format %s holds no start times; 'lapwing sim "
                       "--replay %s' predicts them and stores the run",
                       f[0].file, f[0].importer->name, f[0].file);
    if (!f[0].importer->timeline)
        return lw_fail(err, LW_EINVAL, "%s: --store: a file of format %s holds no timeline",
                       f[0].file, f[0].importer->name);
    struct traces_source *v = lw_alloc((size_t)n * sizeof *v); /* views: freed with the files */
    if (!v)
        return lw_fail_nomem(err);
    for (int i = 0; i < n; i++)
        v[i] = f[i].source;
    enum lw_status status = look(&r, v, n, err);
    if (status == LW_OK)
        status = store(&r, db, command, name, w, run, err);
    if (r.has_times) {
        lw_timeline_free(&r.timeline);
        lw_summary_free(&r.summary);
    }
    traces_replay_free(&r.replay);
    lw_free(v);
    return status;
}
