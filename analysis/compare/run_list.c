/* The list of runs: figures for programs, names and what tells runs apart for people. */
#include "analysis/compare/run_list.h"
#include "analysis/compare/run_words.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/store/run_name.h"
#include "shared/framework/framework.h"
#include "shared/numbers/interval_text.h"

/* A run as it is listed: beside its figures what only a person reads. */
struct listed {
    struct lw_run run;
    char started[32];
    char interval[32]; /* "-6/+66 %" of the step */
    const char *label; /* what tells it from the others */
    const char *framework; /* or "recorded" */
};

#define AT(field) offsetof(struct listed, field)
static const struct lw_column columns[] = {
    {"id", ">run", LW_COLUMN_INT, AT(run.id)},
    {"name", NULL, LW_COLUMN_TEXT, AT(run.name)},
    {"kind", "kind", LW_COLUMN_WORD, AT(run.kind), .word = lw_run_kind_name},
    {"status", "status", LW_COLUMN_WORD, AT(run.status), .word = lw_run_status_name},
    {NULL, "name", LW_COLUMN_TEXT, AT(run.name)},
    {"message", NULL, LW_COLUMN_TEXT, AT(run.message)},
    {"plan_hash", NULL, LW_COLUMN_TEXT, AT(run.plan_hash)},
    {"n_ranks", NULL, LW_COLUMN_INT32, AT(run.n_ranks)},
    {"step_ns", ">step", LW_COLUMN_PS, AT(run.step), .lacking = "-"},
    {"p10_ns", NULL, LW_COLUMN_PS, AT(run.p10), .lacking = ""},
    {"p90_ns", NULL, LW_COLUMN_PS, AT(run.p90), .lacking = ""},
    {"interval_of", NULL, LW_COLUMN_TEXT, AT(run.interval_of)},
    {"exposed_comm_ns", ">exposed", LW_COLUMN_PS, AT(run.exposed_comm), .lacking = "-"},
    {NULL, "framework", LW_COLUMN_TEXT, AT(framework), 20, .lacking = "-"},
    {"n_buckets", NULL, LW_COLUMN_INT32, AT(run.n_buckets)},
    {"bucket_cap_bytes", NULL, LW_COLUMN_INT, AT(run.bucket_cap_bytes)},
    {"workload", NULL, LW_COLUMN_TEXT, AT(run.workload_name)},
    {"cluster", NULL, LW_COLUMN_TEXT, AT(run.cluster_name)},
    {"framework", NULL, LW_COLUMN_TEXT, AT(run.framework)},
    {"framework_hash", NULL, LW_COLUMN_TEXT, AT(run.framework_hash)},
    {"backend", NULL, LW_COLUMN_TEXT, AT(run.backend)},
    {"compute_source", NULL, LW_COLUMN_TEXT, AT(run.compute_source)},
    {"network", NULL, LW_COLUMN_TEXT, AT(run.network)},
    {"honesty", NULL, LW_COLUMN_TEXT, AT(run.honesty)},
    {"n_spans", NULL, LW_COLUMN_INT, AT(run.n_spans)},
    {"started_at_s", NULL, LW_COLUMN_INT, AT(run.started_at)},
    {"label", NULL, LW_COLUMN_TEXT, AT(label), .lacking = ""},
    {"command", NULL, LW_COLUMN_TEXT, AT(run.command)},
    {"samples", NULL, LW_COLUMN_INT, AT(run.samples), .lacking = ""},
    {"tokens", NULL, LW_COLUMN_DOUBLE, AT(run.tokens)},
    {"tokens_per_s", NULL, LW_COLUMN_EXACT, AT(run.tokens_per_s), 1, .lacking = ""},
    {"mfu_pct", NULL, LW_COLUMN_EXACT, AT(run.mfu_pct), 3, .lacking = ""},
    {"overlap_pct", NULL, LW_COLUMN_EXACT, AT(run.overlap_pct), 3, .lacking = ""},
    {"memory_bytes", NULL, LW_COLUMN_INT, AT(run.memory_bytes), .lacking = ""},
    {"device_memory_bytes", NULL, LW_COLUMN_INT, AT(run.device_memory_bytes), .lacking = ""},
    {"fits", NULL, LW_COLUMN_KNOWN, AT(run.fits)},
    {"price_per_device_hour", NULL, LW_COLUMN_EXACT, AT(run.price_per_device_hour), 6,
     .lacking = ""},
    {"others_pct", NULL, LW_COLUMN_REAL, AT(run.others_pct), 2, .lacking = ""},
    {"cost_per_trillion_tokens", NULL, LW_COLUMN_EXACT, AT(run.cost_per_trillion_tokens), 2,
     .lacking = ""},
    {NULL, "started (UTC)", LW_COLUMN_CHARS, AT(started)},
    {NULL, ">p10/p90", LW_COLUMN_CHARS, AT(interval)}, /* the last: left out where none has any */
};

/* A second table of the runs that have such figures. */
static const struct lw_column yields[] = {
    {NULL, ">run", LW_COLUMN_INT, AT(run.id)},
    {NULL, ">tokens/s", LW_COLUMN_REAL, AT(run.tokens_per_s), 0, .lacking = "-"},
    {NULL, ">MFU %", LW_COLUMN_REAL, AT(run.mfu_pct), 1, .lacking = "-"},
    {NULL, ">overlap %", LW_COLUMN_REAL, AT(run.overlap_pct), 1, .lacking = "-"},
    {NULL, ">memory a device", LW_COLUMN_BYTES, AT(run.memory_bytes), .lacking = "-"},
    {NULL, "fits", LW_COLUMN_KNOWN, AT(run.fits), .lacking = "-"},
    {NULL, ">price per device-hour", LW_COLUMN_REAL, AT(run.price_per_device_hour), 2,
     .lacking = "-"},
    {NULL, ">cost per 1T tokens", LW_COLUMN_REAL, AT(run.cost_per_trillion_tokens), 0,
     .lacking = "-"}, /* with the price left out where none has any */
};
#undef AT

/* Why runs failed, below the table. */
static void put_failures(FILE *f, const struct lw_run *runs, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (runs[i].message[0] && runs[i].status != LW_RUN_OK)
            fprintf(f, "run %lld %s: %s\n", (long long)runs[i].id,
                    lw_run_status_name(runs[i].status), runs[i].message);
}

/* The times and the memory of a recording are of no framework here. */
static const char *framework_text(const struct lw_run *r)
{
    static const char made[] = "lapwing model ";
    const char *from = r->workload_from ? r->workload_from : "";
    bool recorded = *from && strncmp(from, made, sizeof made - 1) != 0;

    return recorded && strcmp(r->framework, LW_IDEAL_FRAMEWORK) == 0 ? "recorded" : r->framework;
}

static void interval_text(const struct lw_run *r, char *buf, size_t size)
{
    char text[LW_INTERVAL_PCT];
    const char *pct = lw_interval_pct(text, r->step, r->p10, r->p90);

    snprintf(buf, size, "%s%s", pct, strcmp(pct, "-") == 0 ? "" : " %");
}

/* Rates, memory and price of those that have any; `rows` is reordered. */
static enum lw_status print_yields(struct listed *rows, int32_t n, FILE *f, struct lw_err *err)
{
    bool priced = false;
    int32_t k = 0;

    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *r = &rows[i].run;
        priced |= r->cost_per_trillion_tokens >= 0;
        if (r->tokens_per_s >= 0 || r->mfu_pct >= 0 || r->memory_bytes >= 0)
            rows[k++] = rows[i];
    }
    if (k == 0)
        return LW_OK;
    struct lw_records all = LW_RECORDS("runs", yields, rows, k);
    all.n_columns -= priced ? 0 : 2;
    fputc('\n', f);
    return lw_records_text(&all, f, 0, err);
}

enum lw_status lw_run_list_print(const struct lw_run *runs, int32_t n, struct lw_arena *room,
                                 enum lw_format format, FILE *f, struct lw_err *err)
{
    struct listed *rows = lw_arena_alloc(room, n, sizeof *rows);
    const char **labels, **names;
    bool any = false;

    if (!rows)
        return lw_fail_nomem(err);
    LW_TRY(lw_run_texts(runs, n, LW_RUN_RARE, room, &labels, err));
    LW_TRY(lw_run_texts(runs, n, LW_RUN_NAMES, room, &names, err));
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *r = &runs[i];
        struct listed *x = &rows[i];
        time_t at = (time_t)r->started_at;
        x->run = *r;
        x->framework = framework_text(r);
        x->run.name = r->named ? r->name : names[i];
        x->label = labels[i];
        any |= r->p90 > 0;
        interval_text(r, x->interval, sizeof x->interval);
        strftime(x->started, sizeof x->started, "%m-%d %H:%M", gmtime(&at));
    }
    struct lw_records all = LW_RECORDS("runs", columns, rows, n);
    all.n_columns -= !any;
    LW_TRY(lw_records_print(&all, format, f, err));
    if (format != LW_FORMAT_TEXT)
        return LW_OK;
    put_failures(f, runs, n);
    return print_yields(rows, n, f, err);
}
