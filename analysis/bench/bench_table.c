/* The loads of `lapwing bench` as a table: one, or each in a process of its own. */
#include "analysis/bench/bench_table.h"

#include <math.h>
#include <stddef.h>

#include "shared/base/progress.h"

#define AT(field) offsetof(struct bench_result, field)
static const struct lw_column columns[] = {
    {"name", "name", LW_COLUMN_STRING, AT(name)},
    {"method", "method", LW_COLUMN_STRING, AT(method)},
    {"ranks", ">ranks", LW_COLUMN_INT, AT(ranks)},
    {"n_simulated_ranks", ">simulated ranks", LW_COLUMN_INT, AT(n_simulated)},
    {"simulated_ps", NULL, LW_COLUMN_INT, AT(simulated_ps)},
    {"simulated_ns", ">simulated time", LW_COLUMN_PS, AT(simulated_ps)},
    {"n_events", ">events", LW_COLUMN_INT, AT(n_events)},
    {"n_messages", ">messages", LW_COLUMN_INT, AT(n_messages)},
    {"wall_s", NULL, LW_COLUMN_REAL, AT(wall_s), .digits = 6},
    {NULL, ">wall s", LW_COLUMN_REAL, AT(wall_s), .digits = 3},
    {NULL, ">events/s", LW_COLUMN_INT, AT(rate)},
    {"whole_s", NULL, LW_COLUMN_REAL, AT(whole_s), .digits = 6},
    {NULL, ">whole s", LW_COLUMN_REAL, AT(whole_s), .digits = 3},
    {"limit_s", ">limit s", LW_COLUMN_REAL, AT(limit_s), .digits = 3, .lacking = "-"},
    {"peak_rss_bytes", ">peak memory", LW_COLUMN_BYTES, AT(peak_rss_bytes)},
    {"limit_bytes", ">limit", LW_COLUMN_BYTES, AT(limit_bytes), .lacking = "-"},
};
#undef AT
enum { MOST = 32 };

/* A load of the table, with the limits that it is to keep on one idle core; 0 = none is set. A
 * limit below 0 is as many times the whole seconds of the row before. */
struct bench_row {
    const char *name, *method;
    int64_t ranks;
    bool no_fold;
    int64_t jitter_ns;
    double limit_s;
    int64_t limit_bytes;
};

enum { MB = 1000000 };

static const struct bench_row table[] = {
    {"w-ar", "recurrence", 0, false},
    {"w-ar", "recurrence", 0, true},
    {"w-ar", "recurrence", 0, true, .jitter_ns = 100, .limit_s = 0.1},
    {"w-ar", "events", 0, true},
    {"w-ddp", "recurrence", 0, false},
    {"w-ddp", "recurrence", 0, true},
    {"3d", NULL, 0, false},
    {"3d", NULL, 1048576, false, .limit_s = 0.5, .limit_bytes = 100 * MB},
    {"3d", NULL, 0, true},
    {"data-ranks", NULL, 4096, false},
    {"data-ranks", NULL, 1048576, false, .limit_s = -1.5},
    {"streams", NULL, 0, true},
    {"queue", NULL, 64, true},
    {"queue", NULL, 16384, true},
    {"queue", NULL, 4194304, true},
    {"cost", NULL, 0, true},
    {"plan", NULL, 0, false, .limit_s = 0.4, .limit_bytes = 150 * MB},
    {"plan-3d", NULL, 0, false},
    {"units", NULL, 0, false, .limit_s = 3},
    {"optimal", NULL, 0, false, .limit_s = 1},
    /* 3 million events a second, 64 bytes each */
    {"pipeline", NULL, 0, false, .limit_s = 1.05, .limit_bytes = 201 * MB},
    {"micro-batches", NULL, 0, false, .limit_s = 0.93, .limit_bytes = 179 * MB},
    /* 76 of 100 a second */
    {"strategies", NULL, 0, false, .limit_s = 1.32},
    {"proofs", NULL, 0, false},
    {"store", NULL, 0, false},
    {"tune", NULL, 0, false},
};

static void add_row(struct lw_records *all, struct bench_result rows[MOST], struct bench_result r)
{
    r.rate = r.wall_s > 0 ? llround((double)r.n_events / r.wall_s) : 0;
    rows[all->n++] = r;
}

/* Limits are of the table's own numbers of ranks. */
static void set_limits(const struct bench_row *row, bool other_ranks,
                       const struct bench_result *before, struct bench_result *r)
{
    if (other_ranks)
        return;
    if (row->limit_s > 0)
        r->limit_s = row->limit_s;
    if (row->limit_s < 0 && before)
        r->limit_s = -row->limit_s * before->whole_s;
    if (row->limit_bytes > 0)
        r->limit_bytes = row->limit_bytes;
}

/* Each in a process of its own. A load that this build cannot run is reported, and the others go
 * on. A signal ends the one that runs; LW_EFAILED: the rows before it are in *all. */
static enum lw_status bench_all(const struct bench_choice *c, struct lw_records *all,
                                struct bench_result done[MOST], FILE *notes, struct lw_err *err)
{
    struct lw_progress progress = {.stop = lw_catch_signals()};
    const size_t n = sizeof table / sizeof *table;

    for (size_t i = 0; i < n; i++) {
        const struct bench_row *row = &table[i];
        struct bench_choice one = *c;
        struct bench_result r;
        one.name = row->name;
        one.method = row->method;
        one.ranks = c->ranks > 0 ? c->ranks : row->ranks;
        one.no_fold = c->no_fold || row->no_fold;
        one.jitter_ns = c->jitter_ns > 0 ? c->jitter_ns : row->jitter_ns;
        enum lw_status status = bench_run_apart(&one, &r, err);
        if (lw_progress_stopped(&progress))
            return lw_fail(err, LW_EFAILED, "interrupted in benchmark %zu of %zu (%s): %s", i + 1,
                           n, one.name, all->n > 0 ? "the rows above are those before it"
                                                   : "nothing is measured");
        set_limits(row, c->ranks > 0, all->n > 0 ? &done[all->n - 1] : NULL, &r);
        if (status == LW_OK)
            add_row(all, done, r);
        else if (status == LW_ENOTSUP || (status == LW_EINVAL && c->ranks > 0))
            fprintf(notes, "lapwing: bench %s: %s\n", one.name, err->msg);
        else
            return status;
    }
    return LW_OK;
}

enum lw_status bench_print(const struct bench_choice *c, enum lw_format format, FILE *f,
                           FILE *notes, struct lw_err *err)
{
    struct bench_result rows[MOST], r = {0};
    struct lw_records all = LW_RECORDS(NULL, columns, rows, 0);
    struct lw_jsonout o = {.file = f};

    if (c->name) {
        LW_TRY(bench_run(c, &r, err));
        add_row(&all, rows, r);
    } else {
        enum lw_status status = bench_all(c, &all, rows, notes, err);
        if (status != LW_OK) {
            if (all.n > 0)
                LW_TRY(lw_records_print(&all, format, f, err));
            fflush(f);
            return status;
        }
    }
    if (format != LW_FORMAT_JSON)
        return lw_records_print(&all, format, f, err);
    lw_jsonout_object(&o, NULL);
    lw_record_json(&o, columns, all.n_columns, rows);
    lw_jsonout_end(&o);
    return LW_OK;
}
