/* lapwing export: a stored run as a file that other programs open. */
#include <stdio.h>
#include <string.h>

#include "analysis/store/store.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/io/output.h"
#include "traces/export/export_chrome.h"

/* What one call was asked to do. */
struct request {
    const char *db, *file, *run;
    bool csv;
    int64_t rank; /* -1 = the run's worst */
};

/* A run's worst rank in its shown step, as its measures are. */
static int32_t worst_rank(const struct lw_timeline *t, const struct lw_plan *p,
                          const struct lw_run *run)
{
    struct lw_summary s = {0};
    struct lw_err unused;
    int32_t rank = 0;

    if (lw_timeline_summarize(t, NULL, run->n_warmup, &s, &unused) == LW_OK)
        rank = s.ranks[s.worst].rank;
    lw_summary_free(&s);
    return rank < p->n_ranks ? rank : 0;
}

static enum lw_status write_file(const struct request *q, const struct lw_run *run,
                                 const struct lw_timeline *t, const struct lw_plan *p,
                                 struct lw_err *err)
{
    char id[24], title[96];
    const struct lw_export_note notes[] = {
        {"made by", "lapwing export"}, {"lapwing version", run->version}, {"run", id},
        {"kind", lw_run_kind_name(run->kind)}, {"status", lw_run_status_name(run->status)},
        {"backend", run->backend}, {"honesty", run->honesty}, {"plan", run->plan_name},
        {"plan hash", run->plan_hash}, {"workload", run->workload_name},
        {"workload hash", run->workload_hash}, {"recorded by", run->workload_from},
        {"cluster", run->cluster_name}, {"cluster hash", run->cluster_hash},
        {"command", run->command},
    };
    const char *who = run->kind == LW_RUN_SIM ? "predicted" : run->kind == LW_RUN_EXEC ? "measured"
                                                                                       : "imported";
    struct lw_output out;

    snprintf(id, sizeof id, "%lld", (long long)run->id);
    snprintf(title, sizeof title, "%s (run %lld)", who, (long long)run->id);
    struct lw_export e = {.timeline = t, .plan = p, .title = title, .notes = notes,
                          .n_notes = sizeof notes / sizeof notes[0],
                          .rank = q->rank >= 0 ? (int32_t)q->rank : worst_rank(t, p, run)};
    LW_TRY(lw_output_open(q->file, q->csv ? "spans" : "trace events", &out, err));
    enum lw_status st = q->csv ? lw_export_csv(&e, out.file, err)
                               : lw_export_chrome(&e, out.file, err);
    if (st == LW_OK)
        st = lw_output_commit(&out, err);
    lw_output_abort(&out);
    if (st == LW_OK && strcmp(q->file, "-") != 0)
        printf("wrote %s: %lld spans of run %lld%s\n", q->file, (long long)t->n,
               (long long)run->id, q->csv ? "" : "; open it at ui.perfetto.dev");
    return st;
}

static enum lw_status export_run(const struct request *q, struct lw_err *err)
{
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    struct lw_timeline t = {0};
    struct lw_plan plan = {0};
    struct lw_run run;

    enum lw_status st = lw_store_open(q->db, LW_STORE_READ, &store, err);
    if (st == LW_OK)
        st = lw_store_find_run(store, q->run, &arena, &run, err);
    if (st == LW_OK)
        st = lw_store_load_plan(store, &run, &plan, err);
    if (st == LW_OK)
        st = lw_store_load_timeline(store, &run, &t, err);
    lw_store_close(store);
    if (st == LW_OK)
        st = write_file(q, &run, &t, &plan, err);
    lw_timeline_free(&t);
    lw_plan_free(&plan);
    lw_arena_free(&arena);
    return st;
}

static enum lw_status set_format(void *ctx, const char *name, const char *value,
                                 struct lw_err *err)
{
    struct request *q = ctx;

    (void)name, (void)err;
    q->csv = strcmp(value, "csv") == 0;
    return LW_OK;
}

int cmd_export(int argc, char **argv)
{
    struct request q = {.db = "lapwing.db", .rank = -1};
    struct lw_opt_call format = {set_format, &q};
    const struct lw_opt options[] = {
        {"format", 0, LW_OPT_CALL, &format, "chrome|csv",
         "trace events for Perfetto, or one line a span (chrome)"},
        {"output", 'o', LW_OPT_STRING, &q.file, "FILE", "file to write; - = stdout (needed)"},
        LW_OPTION_FORCE,
        {"rank", 0, LW_OPT_INT, &q.rank, "N",
         "chrome: whose recording it is for readers of one rank (the rank with the longest period)",
         0, INT32_MAX},
        LW_OPTION_DB(&q.db),
        {0},
    };
    const struct lw_usage usage = {
        "export", "[RUN] -o FILE [options]",
        "Write a stored run as a file for other programs: all ranks as processes with their "
        "streams, "
        "flows from gradient to bucket to collective, and counters, for Perfetto (ui.perfetto.dev) "
        "or chrome://tracing; `lapwing inspect` reads it back. RUN is a number (the last run).",
        0, 1};
    struct lw_err err = {0};
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    if (!q.file)
        return lw_cli_usage("export", "needs -o FILE");
    q.run = n_operands == 1 ? argv[1] : "last";
    return lw_cli_end("export", export_run(&q, &err), &err);
}
