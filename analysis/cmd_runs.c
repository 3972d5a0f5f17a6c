/* lapwing runs: what the results database holds. */
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "analysis/compare/run_labels.h"
#include "analysis/store/store.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/base/record.h"

/* A run as it is listed: beside its figures what only a person reads. */
struct listed {
    struct lw_run run;
    char kind[48], cap[32], started[32];
    const char *label; /* what tells it from the others */
};

static const char *kind_word(int kind)
{
    return lw_run_kind_name((enum lw_run_kind)kind);
}

static const char *status_word(int status)
{
    return lw_run_status_name((enum lw_run_status)status);
}

#define AT(field) offsetof(struct listed, field)
static const struct lw_column columns[] = {
    {"id", ">run", LW_COLUMN_INT, AT(run.id), 0, NULL, NULL},
    {"kind", NULL, LW_COLUMN_WORD, AT(run.kind), 0, kind_word, NULL},
    {NULL, "kind", LW_COLUMN_CHARS, AT(kind), 0, NULL, NULL},
    {"status", "status", LW_COLUMN_WORD, AT(run.status), 0, status_word, NULL},
    {"message", NULL, LW_COLUMN_TEXT, AT(run.message), 0, NULL, NULL},
    {"plan_hash", "plan", LW_COLUMN_TEXT, AT(run.plan_hash), 8, NULL, NULL},
    {NULL, ">bucket cap", LW_COLUMN_CHARS, AT(cap), 0, NULL, NULL},
    {"n_ranks", ">ranks", LW_COLUMN_INT32, AT(run.n_ranks), 0, NULL, NULL},
    {"step_ns", ">step", LW_COLUMN_PS, AT(run.step), 0, NULL, "-"},
    {"exposed_comm_ns", ">exposed comm", LW_COLUMN_PS, AT(run.exposed_comm), 0, NULL, "-"},
    {"n_buckets", NULL, LW_COLUMN_INT32, AT(run.n_buckets), 0, NULL, NULL},
    {"bucket_cap_bytes", NULL, LW_COLUMN_INT, AT(run.bucket_cap_bytes), 0, NULL, NULL},
    {"workload", "workload", LW_COLUMN_TEXT, AT(run.workload_name), 0, NULL, NULL},
    {"cluster", "cluster", LW_COLUMN_TEXT, AT(run.cluster_name), 0, NULL, NULL},
    {"backend", NULL, LW_COLUMN_TEXT, AT(run.backend), 0, NULL, NULL},
    {"honesty", NULL, LW_COLUMN_TEXT, AT(run.honesty), 0, NULL, NULL},
    {"n_spans", NULL, LW_COLUMN_INT, AT(run.n_spans), 0, NULL, NULL},
    {"started_at_s", NULL, LW_COLUMN_INT, AT(run.started_at), 0, NULL, NULL},
    {NULL, "started (UTC)", LW_COLUMN_CHARS, AT(started), 0, NULL, NULL},
    {"label", "what differs", LW_COLUMN_TEXT, AT(label), 0, NULL, ""},
    {"command", NULL, LW_COLUMN_TEXT, AT(run.command), 0, NULL, NULL},
};
#undef AT

static enum lw_status print(const struct lw_run *runs, const char **labels, int32_t n,
                            struct lw_arena *room, enum lw_format format, struct lw_err *err)
{
    struct listed *rows = lw_arena_alloc(room, n, sizeof *rows);

    if (!rows)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *r = &runs[i];
        struct listed *x = &rows[i];
        time_t at = (time_t)r->started_at;
        x->run = *r;
        x->label = labels[i];
        snprintf(x->kind, sizeof x->kind, "%s%s%s", lw_run_kind_name(r->kind),
                 r->backend[0] ? " " : "", r->backend);
        if (r->plan < 0 || r->bucket_cap_bytes < 0)
            snprintf(x->cap, sizeof x->cap, "%s", r->plan < 0 ? "-" : "default");
        else
            lw_format_bytes(x->cap, r->bucket_cap_bytes);
        strftime(x->started, sizeof x->started, "%Y-%m-%d %H:%M:%S", gmtime(&at));
    }
    return lw_records_print(&(struct lw_records){"runs", columns, sizeof columns / sizeof *columns,
                                                 rows, n, sizeof *rows},
                            format, stdout, err);
}

/* Why runs failed, below the table. */
static void put_failures(const struct lw_run *runs, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (runs[i].message[0] && runs[i].status != LW_RUN_OK)
            printf("run %lld %s: %s\n", (long long)runs[i].id, lw_run_status_name(runs[i].status),
                   runs[i].message);
}

int cmd_runs(int argc, char **argv)
{
    const char *db = "lapwing.db";
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt options[] = {
        LW_OPTION_DB(&db),
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {"runs", "[options]",
                                   "List the runs of the results database.", 0, 0};
    struct lw_err err = {0};
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    struct lw_run *runs;
    const char **labels;
    int32_t n;
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    enum lw_status st = lw_store_open(db, LW_STORE_READ, &store, &err);
    if (st == LW_OK)
        st = lw_store_runs(store, &arena, &runs, &n, &err);
    if (st == LW_OK)
        st = lw_run_labels(store, runs, n, false, &arena, &labels, &err);
    if (st == LW_OK)
        st = print(runs, labels, n, &arena, format, &err);
    if (st == LW_OK && format == LW_FORMAT_TEXT)
        put_failures(runs, n);
    lw_store_close(store);
    lw_arena_free(&arena);
    return lw_cli_end("runs", st, &err);
}
