/* lapwing runs: what the results database holds; deletes runs and takes over those of another. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/compare/run_labels.h"
#include "analysis/store/store.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/text/record.h"

/* A run as it is listed: beside its figures what only a person reads. */
struct listed {
    struct lw_run run;
    char started[32];
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
    {"name", NULL, LW_COLUMN_TEXT, AT(run.name), 0, NULL, NULL},
    {"kind", "kind", LW_COLUMN_WORD, AT(run.kind), 0, kind_word, NULL},
    {"status", "status", LW_COLUMN_WORD, AT(run.status), 0, status_word, NULL},
    {NULL, "name", LW_COLUMN_TEXT, AT(run.name), 0, NULL, NULL},
    {"message", NULL, LW_COLUMN_TEXT, AT(run.message), 0, NULL, NULL},
    {"plan_hash", NULL, LW_COLUMN_TEXT, AT(run.plan_hash), 0, NULL, NULL},
    {"n_ranks", NULL, LW_COLUMN_INT32, AT(run.n_ranks), 0, NULL, NULL},
    {"step_ns", ">step", LW_COLUMN_PS, AT(run.step), 0, NULL, "-"},
    {"exposed_comm_ns", ">exposed", LW_COLUMN_PS, AT(run.exposed_comm), 0, NULL, "-"},
    {"n_buckets", NULL, LW_COLUMN_INT32, AT(run.n_buckets), 0, NULL, NULL},
    {"bucket_cap_bytes", NULL, LW_COLUMN_INT, AT(run.bucket_cap_bytes), 0, NULL, NULL},
    {"workload", NULL, LW_COLUMN_TEXT, AT(run.workload_name), 0, NULL, NULL},
    {"cluster", NULL, LW_COLUMN_TEXT, AT(run.cluster_name), 0, NULL, NULL},
    {"backend", NULL, LW_COLUMN_TEXT, AT(run.backend), 0, NULL, NULL},
    {"honesty", NULL, LW_COLUMN_TEXT, AT(run.honesty), 0, NULL, NULL},
    {"n_spans", NULL, LW_COLUMN_INT, AT(run.n_spans), 0, NULL, NULL},
    {"started_at_s", NULL, LW_COLUMN_INT, AT(run.started_at), 0, NULL, NULL},
    {NULL, "started (UTC)", LW_COLUMN_CHARS, AT(started), 0, NULL, NULL},
    {"label", NULL, LW_COLUMN_TEXT, AT(label), 0, NULL, ""},
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
        strftime(x->started, sizeof x->started, "%m-%d %H:%M", gmtime(&at));
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

/* ---- which runs ---- */

struct wanted {
    const char *workload, *since, *kind;
    int64_t since_s;
};

/* "2026-11-22", "2026-11-22 14:30" (UTC), or how long ago: "30m", "12h", "7d". */
static enum lw_status parse_since(const char *text, int64_t *since_s, struct lw_err *err)
{
    struct tm at = {0};
    char unit, rest;
    long long n;

    if (sscanf(text, "%lld%c%c", &n, &unit, &rest) == 2 && n >= 0 && n < 100000 &&
        strchr("mhd", unit)) {
        *since_s = (int64_t)time(NULL) - n * (unit == 'm' ? 60 : unit == 'h' ? 3600 : 86400);
        return LW_OK;
    }
    const char *end = strptime(text, "%Y-%m-%d", &at);
    if (end && (*end == ' ' || *end == 'T'))
        end = strptime(end + 1, "%H:%M", &at);
    if (!end || *end)
        return lw_fail(err, LW_EUSAGE,
                       "--since '%s': expected a date (2026-11-22, 2026-11-22 14:30, in UTC) or an "
                       "age (30m, 12h, 7d)", text);
    *since_s = (int64_t)timegm(&at);
    return LW_OK;
}

static bool is_wanted(const struct wanted *w, const struct lw_run *r)
{
    return (!w->workload || strcasestr(r->workload_name, w->workload)) &&
           (!w->kind || strcmp(lw_run_kind_name(r->kind), w->kind) == 0) &&
           r->started_at >= w->since_s;
}

static enum lw_status check_wanted(struct wanted *w, struct lw_err *err)
{
    bool known = !w->kind;

    for (int k = LW_RUN_SIM; k <= LW_RUN_IMPORT; k++)
        known |= w->kind && strcmp(w->kind, lw_run_kind_name((enum lw_run_kind)k)) == 0;
    if (!known)
        return lw_fail(err, LW_EUSAGE, "--kind '%s': expected sim, exec or import", w->kind);
    return w->since ? parse_since(w->since, &w->since_s, err) : LW_OK;
}

/* The runs of the operands, else all; of them those that are wanted. */
static enum lw_status select_runs(struct lw_store *s, char **names, int n_names,
                                  const struct wanted *w, struct lw_arena *a, struct lw_run **runs,
                                  int32_t *n, struct lw_err *err)
{
    int32_t kept = 0;

    if (n_names > 0)
        LW_TRY(lw_store_select_runs(s, names, n_names, a, runs, n, err));
    else
        LW_TRY(lw_store_runs(s, a, runs, n, err));
    for (int32_t i = 0; i < *n; i++)
        if (is_wanted(w, &(*runs)[i]))
            (*runs)[kept++] = (*runs)[i];
    *n = kept;
    return LW_OK;
}

/* ---- the command ---- */

struct options {
    const char *db, *merge;
    bool del;
    enum lw_format format;
    struct wanted wanted;
};

static enum lw_status work(const struct options *o, struct lw_store *s, char **names, int n_names,
                           struct lw_arena *a, struct lw_err *err)
{
    struct lw_run *runs;
    const char **labels;
    int32_t n;

    if (o->merge) {
        LW_TRY(lw_store_merge(s, o->merge, &n, err));
        printf("%d run%s of %s taken over into %s\n", n, n == 1 ? "" : "s", o->merge, o->db);
        return LW_OK;
    }
    LW_TRY(select_runs(s, names, n_names, &o->wanted, a, &runs, &n, err));
    if (!o->del) {
        LW_TRY(lw_run_labels(s, runs, n, false, a, &labels, err));
        LW_TRY(print(runs, labels, n, a, o->format, err));
        if (o->format == LW_FORMAT_TEXT)
            put_failures(runs, n);
        return LW_OK;
    }
    LW_TRY(lw_store_delete_runs(s, runs, n, err));
    for (int32_t i = 0; i < n; i++)
        printf("deleted run %lld: %s\n", (long long)runs[i].id, runs[i].name);
    return LW_OK;
}

int cmd_runs(int argc, char **argv)
{
    struct options o = {.db = "lapwing.db"};
    const struct lw_opt table[] = {
        LW_OPTION_DB(&o.db),
        {"workload", 0, LW_OPT_STRING, &o.wanted.workload, "TEXT",
         "only runs whose workload's name holds TEXT", 0, 0},
        {"since", 0, LW_OPT_STRING, &o.wanted.since, "WHEN",
         "only runs since a date (2026-11-22, UTC) or for so long (30m, 12h, 7d)", 0, 0},
        {"kind", 0, LW_OPT_STRING, &o.wanted.kind, "sim|exec|import", "only runs of that kind", 0,
         0},
        {"delete", 0, LW_OPT_FLAG, &o.del, NULL,
         "delete these runs with their spans; needs operands or a filter", 0, 0},
        {"merge", 0, LW_OPT_STRING, &o.merge, "FILE",
         "take over all runs of another database, with new numbers", 0, 0},
        LW_OPTION_FORMAT(&o.format),
        {0},
    };
    const struct lw_usage usage = {
        "runs", "[RUN...] [--workload TEXT] [--since WHEN] [--kind KIND] [--delete | --merge FILE]",
        "List the runs of the results database, delete some, or take over those of another one. A "
        "run is named by its workload, its parallel layout, the options that differ from their "
        "defaults and its cluster; --name of the command that made it overrides that.", 0, -1};
    struct lw_err err = {0};
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    int n, rc;

    if ((rc = lw_cli_begin(&usage, table, argc, argv, &n)) >= 0)
        return rc;
    if (o.merge && (o.del || n > 0))
        return lw_cli_usage("runs", "--merge takes over a whole database: no --delete, no RUN");
    if (o.del && n == 0 && !o.wanted.workload && !o.wanted.since && !o.wanted.kind)
        return lw_cli_usage("runs",
                            "--delete needs the runs: numbers, --workload, --since or --kind");
    enum lw_status st = check_wanted(&o.wanted, &err);
    if (st == LW_OK)
        st = lw_store_open(o.db, o.del || o.merge ? LW_STORE_WRITE : LW_STORE_READ, &store, &err);
    if (st == LW_OK)
        st = work(&o, store, argv + 1, n, &arena, &err);
    lw_store_close(store);
    lw_arena_free(&arena);
    return lw_cli_end("runs", st, &err);
}
