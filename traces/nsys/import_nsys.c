/* Nsight Systems' SQLite export into the tables of trace.h.
 *
 * Kept: kernels, copies and sets of one device of one process, that process's runtime and driver
 * calls, its NVTX ranges, and what synchronisations waited for. Times are ns since the session
 * began; base_ns is the session's start where the report has it (utcEpochNs). Kernels carry their
 * demangled names, calls their names without the suffix of the interface's version ("_v7000"),
 * copies the names that a PyTorch trace gives them ("Memcpy HtoD (Pageable -> Device)"), so that
 * all that reads names reads both.
 *
 * A wait is for the last record of its event before it: correlations of one process ascend in the
 * order of its calls, and newer schemas number the records themselves (eventSyncId).
 *
 * Never read: the recorder's environment and output (TARGET_INFO_SYSTEM_ENV, ProcessStreams).
 * Not read: samples, scheduling, metrics, NVTX marks, ranges that were never ended, and those that
 * end on another thread (counted, not kept); payloads in binary form. Work in CUDA graphs is read
 * where it was recorded by node; a graph that was recorded whole (CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
 * is refused, since its kernels are not in the file. */
#include "traces/nsys/import_nsys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/io/input.h"
#include "shared/numbers/order.h"
#include "traces/nsys/nsys_counts.h"
#include "traces/nsys/nsys_database.h"
#include "traces/nsys/nsys_nvtx.h"
#include "traces/nsys/nsys_parts.h"

enum { ROWS_PER_REPORT = 1 << 16, N_TABLES = 6, PUSH_POP = 59, START_END = 60, DOMAIN = 75 };

struct cached { /* a string of the report: its id there and its number here */
    int64_t id;
    int32_t number, used;
};

struct record { /* of an event */
    int64_t event, order, correlation, stream;
};

struct reader {
    const struct nsys_database *d;
    struct lw_trace *t;
    const struct lw_progress *progress;
    struct nsys_part part;
    bool whole; /* no device's work: all of the host's */
    bool only;  /* `part` is that of the first kernel, and has to be that of all */
    struct nsys_counts counts;
    sqlite3_stmt *string; /* of an id */
    struct cached *cache;
    int64_t n_cached, n_slots;
    struct record *records;
    int64_t n_records, record_cap;
    int64_t *nccl; /* domains: process and number */
    int64_t n_nccl, nccl_cap;
    int64_t thread; /* of the row before: most follow one of the same */
    int32_t track;  /* its; -1 = no row yet */
    int table; /* how many were read */
};

/* ---- strings ---- */

static int64_t slot_of(const struct reader *r, int64_t id)
{
    uint64_t at = (uint64_t)id * 0x9e3779b97f4a7c15u;

    for (at >>= 32;; at++) {
        const struct cached *c = &r->cache[at & (uint64_t)(r->n_slots - 1)];
        if (!c->used || c->id == id)
            return (int64_t)(at & (uint64_t)(r->n_slots - 1));
    }
}

static enum lw_status grow_cache(struct reader *r, struct lw_err *err)
{
    struct reader bigger = *r;

    bigger.n_slots = r->n_slots ? 2 * r->n_slots : 1024;
    LW_NEW(bigger.cache, bigger.n_slots, err);
    for (int64_t i = 0; i < r->n_slots; i++)
        if (r->cache[i].used)
            bigger.cache[slot_of(&bigger, r->cache[i].id)] = r->cache[i];
    lw_free(r->cache);
    *r = bigger;
    return LW_OK;
}

/* Names of calls end in the version of their interface. */
static size_t without_version(const char *text, size_t len)
{
    size_t digits = 0;

    while (digits < len && text[len - 1 - digits] >= '0' && text[len - 1 - digits] <= '9')
        digits++;
    if (digits < 4 || len < digits + 3 || memcmp(text + len - digits - 2, "_v", 2) != 0)
        return len;
    return len - digits - 2;
}

static enum lw_status look_up(struct reader *r, int64_t id, bool call, int32_t *number,
                              struct lw_err *err)
{
    char none[40];
    const char *text = NULL;
    size_t len = 0;

    if (r->string) {
        sqlite3_reset(r->string);
        sqlite3_bind_int64(r->string, 1, id);
        if (sqlite3_step(r->string) == SQLITE_ROW)
            text = (const char *)sqlite3_column_text(r->string, 0);
        len = text ? (size_t)sqlite3_column_bytes(r->string, 0) : 0;
    }
    if (!text) {
        len = (size_t)snprintf(none, sizeof none, "string %lld", (long long)id);
        text = none;
    }
    *number = traces_strings_add(&r->t->strings, text, call ? without_version(text, len) : len);
    return *number >= 0 ? LW_OK : lw_fail_nomem(err);
}

/* A string is a call's or another's, never both: the cache need not tell them apart. */
static enum lw_status string_of(struct reader *r, int64_t id, bool call, int32_t *number,
                                struct lw_err *err)
{
    if (2 * (r->n_cached + 1) > r->n_slots)
        LW_TRY(grow_cache(r, err));
    struct cached *c = &r->cache[slot_of(r, id)];
    if (!c->used) {
        LW_TRY(look_up(r, id, call, &c->number, err));
        c->id = id;
        c->used = 1;
        r->n_cached++;
    }
    *number = c->number;
    return LW_OK;
}

/* ---- a row ---- */

/* Up to 2^61 ns (73 years) sums and differences fit int64. */
static enum lw_status read_span(struct reader *r, const struct nsys_rows *rows, int64_t *start,
                                int64_t *end, struct lw_err *err)
{
    const int64_t most = INT64_MAX / 4;

    LW_TRY(nsys_rows_int(rows, 0, start, err));
    LW_TRY(nsys_rows_int(rows, 1, end, err));
    if (*start > most || *start < -most || *end > most || *end < -most)
        return lw_fail_at(err, LW_EFORMAT, r->d->name, 0,
                          "table %s, row %lld: from %lld to %lld: expected ns since the session "
                          "began",
                          rows->table, (long long)rows->n, (long long)*start, (long long)*end);
    r->t->n_negative += *end < *start;
    *end = *end < *start ? *start : *end;
    return LW_OK;
}

static enum lw_status read_stream(struct reader *r, const struct nsys_rows *rows, int column,
                                  int32_t *stream, struct lw_err *err)
{
    int64_t value;

    LW_TRY(nsys_rows_int(rows, column, &value, err));
    if (value < 0 || value > INT32_MAX)
        return lw_fail_at(err, LW_EFORMAT, r->d->name, 0,
                          "table %s, row %lld: stream %lld; expected 0 to %d", rows->table,
                          (long long)rows->n, (long long)value, INT32_MAX);
    *stream = (int32_t)value;
    return LW_OK;
}

static enum lw_status read_process(const struct nsys_rows *rows, int column, int64_t *process,
                                   struct lw_err *err)
{
    int64_t global;

    LW_TRY(nsys_rows_maybe(rows, column, -1, &global, err));
    *process = global == -1 ? -1 : nsys_process_of(global);
    return LW_OK;
}

static bool is_process(const struct reader *r, int64_t process)
{
    return r->whole || r->part.process == -1 || process == -1 || process == r->part.process;
}

/* The host thread "process/thread". */
static enum lw_status thread_of(struct reader *r, int64_t global, int32_t *track,
                                struct lw_err *err)
{
    char text[64];
    uint64_t id = (uint64_t)global;

    if (r->track >= 0 && r->thread == global) {
        *track = r->track;
        return LW_OK;
    }
    int len = global == -1 ? snprintf(text, sizeof text, "?")
                           : snprintf(text, sizeof text, "%llu/%llu",
                                      (unsigned long long)(id >> 24 & 0xffffff),
                                      (unsigned long long)(id & 0xffffff));

    *track = traces_strings_add(&r->t->strings, text, (size_t)len);
    r->track = *track;
    r->thread = global;
    return *track >= 0 ? LW_OK : lw_fail_nomem(err);
}

/* ---- device work ---- */

struct device_row {
    int64_t start, end, device, correlation, process;
    int32_t stream;
    bool mine;
};

/* The columns that all tables of device work begin with. */
#define DEVICE_COLUMNS "start", "end", "deviceId", "streamId", "?correlationId", "?globalPid"
enum { N_DEVICE_COLUMNS = 6 };

static enum lw_status read_device(struct reader *r, const struct nsys_rows *rows,
                                  struct device_row *x, struct lw_err *err)
{
    LW_TRY(read_span(r, rows, &x->start, &x->end, err));
    LW_TRY(nsys_rows_int(rows, 2, &x->device, err));
    LW_TRY(read_stream(r, rows, 3, &x->stream, err));
    LW_TRY(nsys_rows_maybe(rows, 4, -1, &x->correlation, err));
    LW_TRY(read_process(rows, 5, &x->process, err));
    x->mine = !r->whole && x->device == r->part.device && x->process == r->part.process;
    return LW_OK;
}

static enum lw_status add_device(struct reader *r, const struct device_row *x,
                                 enum lw_row_class class, int32_t name, struct lw_err *err)
{
    struct lw_row row = {class, x->start, x->end - x->start, x->correlation, name, x->stream};

    return lw_trace_add(r->t, &row, NULL, err);
}

static enum lw_status fail_several(const struct reader *r, int n, struct lw_err *err)
{
    return lw_fail_at(err, LW_EINVAL, r->d->name, 0,
                      "holds the work of %d ranks (processes and their devices); name one: "
                      "'%s#1' to '%s#%d'",
                      n, r->d->name, r->d->name, n);
}

/* A kernel of another rank. */
static enum lw_status fail_other(const struct reader *r, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct nsys_part *v;
    int n;
    enum lw_status status = nsys_parts_find(r->d, &scratch, &v, &n, err);

    lw_arena_free(&scratch);
    return status == LW_OK ? fail_several(r, n, err) : status;
}

static enum lw_status add_kernel(struct reader *r, const struct nsys_rows *rows,
                                 struct lw_err *err)
{
    struct device_row x;
    int64_t id;
    int32_t name;

    LW_TRY(read_device(r, rows, &x, err));
    LW_TRY(nsys_count_kernel(&r->counts, x.start, x.end, x.process, x.correlation, x.stream, err));
    if (!x.mine)
        return r->only ? fail_other(r, err) : LW_OK;
    LW_TRY(nsys_rows_maybe(rows, N_DEVICE_COLUMNS, -1, &id, err));
    if (id == -1)
        LW_TRY(nsys_rows_maybe(rows, N_DEVICE_COLUMNS + 1, -1, &id, err));
    LW_TRY(string_of(r, id, false, &name, err));
    return add_device(r, &x, LW_ROW_KERNEL, name, err);
}

static const char *word(const char *const *words, int n, int64_t i)
{
    return i >= 0 && i < n ? words[i] : "?";
}

static enum lw_status add_copy(struct reader *r, const struct nsys_rows *rows, struct lw_err *err)
{
    static const char *const kinds[] = {"?",    "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD",
                                        "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"};
    static const char *const memories[] = {"Pageable", "Pinned", "Device", "Array",
                                           "Managed",  "Device", "Managed"};
    struct device_row x;
    int64_t kind, from, to;
    char text[96];

    LW_TRY(read_device(r, rows, &x, err));
    if (!x.mine)
        return LW_OK;
    LW_TRY(nsys_rows_maybe(rows, N_DEVICE_COLUMNS, 0, &kind, err));
    LW_TRY(nsys_rows_maybe(rows, N_DEVICE_COLUMNS + 1, -1, &from, err));
    LW_TRY(nsys_rows_maybe(rows, N_DEVICE_COLUMNS + 2, -1, &to, err));
    int len = snprintf(text, sizeof text, "Memcpy %s (%s -> %s)", word(kinds, 14, kind),
                       word(memories, 7, from), word(memories, 7, to));
    int32_t name = traces_strings_add(&r->t->strings, text, (size_t)len);
    return name >= 0 ? add_device(r, &x, LW_ROW_MEM, name, err) : lw_fail_nomem(err);
}

static enum lw_status add_set(struct reader *r, const struct nsys_rows *rows, struct lw_err *err)
{
    struct device_row x;

    LW_TRY(read_device(r, rows, &x, err));
    if (!x.mine)
        return LW_OK;
    int32_t name = traces_strings_add(&r->t->strings, "Memset (Device)", 15);
    return name >= 0 ? add_device(r, &x, LW_ROW_MEM, name, err) : lw_fail_nomem(err);
}

/* ---- the host ---- */

static enum lw_status add_call(struct reader *r, const struct nsys_rows *rows, struct lw_err *err)
{
    struct lw_row row = {.class = LW_ROW_LAUNCH};
    int64_t end, global, process, id;

    LW_TRY(read_span(r, rows, &row.start_ns, &end, err));
    LW_TRY(nsys_rows_maybe(rows, 2, -1, &row.link, err));
    LW_TRY(nsys_rows_maybe(rows, 3, -1, &global, err));
    LW_TRY(read_process(rows, 3, &process, err));
    LW_TRY(nsys_count_launch(&r->counts, process, row.link, err));
    if (!is_process(r, process))
        return LW_OK;
    LW_TRY(nsys_rows_int(rows, 4, &id, err));
    LW_TRY(string_of(r, id, true, &row.name, err));
    LW_TRY(thread_of(r, global, &row.track, err));
    row.dur_ns = end - row.start_ns;
    return lw_trace_add(r->t, &row, NULL, err);
}

static bool is_nccl(const struct reader *r, int64_t process, int64_t domain)
{
    for (int64_t i = 0; i < r->n_nccl; i += 2)
        if (r->nccl[i] == process && r->nccl[i + 1] == domain)
            return true;
    return false;
}

static enum lw_status text_of(struct reader *r, const struct nsys_rows *rows, int text, int id,
                              const char **out, int *len, struct lw_err *err)
{
    int64_t number;
    int32_t name;

    *out = nsys_rows_text(rows, text, len);
    if (*len > 0)
        return LW_OK;
    LW_TRY(nsys_rows_maybe(rows, id, -1, &number, err));
    if (number == -1)
        return LW_OK;
    LW_TRY(string_of(r, number, false, &name, err));
    *out = lw_trace_text(r->t, name);
    *len = (int)strlen(*out);
    return LW_OK;
}

enum { NVTX_TYPE = 2, NVTX_TEXT, NVTX_TEXT_ID, NVTX_THREAD, NVTX_END_THREAD, NVTX_DOMAIN, NVTX_JSON,
       NVTX_JSON_ID };

static enum lw_status add_domain(struct reader *r, const struct nsys_rows *rows, int64_t process,
                                 struct lw_err *err)
{
    const char *text;
    int len;
    int64_t domain;

    LW_TRY(text_of(r, rows, NVTX_TEXT, NVTX_TEXT_ID, &text, &len, err));
    LW_TRY(nsys_rows_maybe(rows, NVTX_DOMAIN, 0, &domain, err));
    if (len != 4 || memcmp(text, "NCCL", 4) != 0 || is_nccl(r, process, domain))
        return LW_OK;
    LW_ROOM(r->nccl, r->nccl_cap, r->n_nccl + 2, err);
    r->nccl[r->n_nccl++] = process;
    r->nccl[r->n_nccl++] = domain;
    return LW_OK;
}

static enum lw_status add_range(struct reader *r, const struct nsys_rows *rows, struct lw_err *err)
{
    static const struct lw_row_detail none = {
        .op = -1, .dtype = -1, .group = -1, .wait_stream = -1, .wait_record = -1, .in_numel = -1,
        .out_numel = -1, .shape_type = -1, .shape_numel = -1};
    struct lw_row_detail detail = none;
    struct lw_row row = {0};
    struct nsys_range range = {0};
    int64_t type, process, global, end_global, domain, end;
    bool has_detail;

    LW_TRY(nsys_rows_int(rows, NVTX_TYPE, &type, err));
    LW_TRY(nsys_rows_maybe(rows, NVTX_THREAD, -1, &global, err));
    LW_TRY(read_process(rows, NVTX_THREAD, &process, err));
    if (!is_process(r, process))
        return LW_OK;
    if (type == DOMAIN)
        return add_domain(r, rows, process, err);
    LW_TRY(nsys_rows_maybe(rows, 1, INT64_MIN, &end, err));
    LW_TRY(nsys_rows_maybe(rows, NVTX_END_THREAD, -1, &end_global, err));
    if ((type != PUSH_POP && type != START_END) || end == INT64_MIN ||
        (end_global != -1 && end_global != 0 && end_global != global))
        return LW_OK;
    LW_TRY(read_span(r, rows, &row.start_ns, &end, err));
    row.dur_ns = end - row.start_ns;
    LW_TRY(nsys_rows_maybe(rows, NVTX_DOMAIN, 0, &domain, err));
    range.nccl = is_nccl(r, process, domain);
    range.json = "";
    if (range.nccl)
        LW_TRY(text_of(r, rows, NVTX_JSON, NVTX_JSON_ID, &range.json, &range.json_len, err));
    LW_TRY(text_of(r, rows, NVTX_TEXT, NVTX_TEXT_ID, &range.text, &range.len, err));
    LW_TRY(nsys_range_read(r->t, &range, &row, &detail, &has_detail, err));
    LW_TRY(thread_of(r, global, &row.track, err));
    return lw_trace_add(r->t, &row, has_detail ? &detail : NULL, err);
}

/* ---- events and what waits for them ---- */

static enum lw_status add_record(struct reader *r, const struct nsys_rows *rows,
                                 struct lw_err *err)
{
    struct record x;
    int64_t process, sync;
    int32_t stream;

    LW_TRY(read_stream(r, rows, 0, &stream, err));
    LW_TRY(nsys_rows_maybe(rows, 1, -1, &x.correlation, err));
    LW_TRY(read_process(rows, 2, &process, err));
    LW_TRY(nsys_rows_int(rows, 3, &x.event, err));
    LW_TRY(nsys_rows_maybe(rows, 4, 0, &sync, err));
    if (!is_process(r, process) || x.correlation < 0)
        return LW_OK;
    x.stream = stream;
    x.order = sync > 0 ? sync : x.correlation;
    LW_ROOM(r->records, r->record_cap, r->n_records + 1, err);
    r->records[r->n_records++] = x;
    return LW_OK;
}

LW_COMPARATOR(by_event, struct record, a->event, b->event, a->order, b->order)

/* The last record of the event up to `order`; NULL = before the capture. */
static const struct record *record_of(const struct reader *r, int64_t event, int64_t order)
{
    int64_t low = 0, high = r->n_records;
    const struct record *x;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        x = &r->records[mid];
        if (x->event < event || (x->event == event && x->order <= order))
            low = mid + 1;
        else
            high = mid;
    }
    x = low > 0 ? &r->records[low - 1] : NULL;
    return x && x->event == event ? x : NULL;
}

enum { EVENT_SYNC = 1, STREAM_WAIT, STREAM_SYNC, CONTEXT_SYNC };

static enum lw_status add_sync(struct reader *r, const struct nsys_rows *rows, struct lw_err *err)
{
    struct lw_row_detail detail = {.op = -1, .dtype = -1, .group = -1, .wait_stream = -1,
                                   .wait_record = -1, .in_numel = -1, .out_numel = -1,
                                   .shape_type = -1, .shape_numel = -1};
    struct lw_row row = {.class = LW_ROW_SYNC, .track = -1};
    int64_t end, type, process, event, stream, sync;

    LW_TRY(read_span(r, rows, &row.start_ns, &end, err));
    LW_TRY(nsys_rows_maybe(rows, 2, -1, &stream, err));
    LW_TRY(nsys_rows_maybe(rows, 3, -1, &row.link, err));
    LW_TRY(read_process(rows, 4, &process, err));
    LW_TRY(nsys_rows_int(rows, 5, &type, err));
    LW_TRY(nsys_rows_maybe(rows, 6, -1, &event, err));
    LW_TRY(nsys_rows_maybe(rows, 7, 0, &sync, err));
    if (!is_process(r, process) || type < EVENT_SYNC || type > CONTEXT_SYNC)
        return LW_OK;
    row.dur_ns = end - row.start_ns;
    if ((type == STREAM_WAIT || type == STREAM_SYNC) && stream >= 0 && stream <= INT32_MAX)
        row.track = (int32_t)stream;
    if (type == EVENT_SYNC || type == STREAM_WAIT) {
        const struct record *x = record_of(r, event, sync > 0 ? sync : row.link);
        detail.wait_stream = x ? (int32_t)x->stream : -1;
        detail.wait_record = x ? x->correlation : -1;
    }
    static const char *const names[] = {"", "Event Sync", "Stream Wait Event", "Stream Sync",
                                        "Context Sync"};
    row.name = traces_strings_add(&r->t->strings, names[type], strlen(names[type]));
    return row.name >= 0 ? lw_trace_add(r->t, &row, &detail, err) : lw_fail_nomem(err);
}

/* ---- tables ---- */

struct table {
    const char *name;
    const char *columns[NSYS_MOST_COLUMNS];
    enum lw_status (*add)(struct reader *r, const struct nsys_rows *rows, struct lw_err *err);
};

static enum lw_status read_table(struct reader *r, const struct table *x, int64_t *n_rows,
                                 struct lw_err *err)
{
    struct nsys_rows rows;
    bool more;

    LW_TRY(nsys_rows_open(r->d, x->name, x->columns, "", &rows, err));
    enum lw_status status = nsys_rows_next(&rows, &more, err);
    while (status == LW_OK && more) {
        if (rows.n % ROWS_PER_REPORT == 1)
            lw_progress_report(r->progress, r->d->name, (double)r->table / N_TABLES);
        status = x->add(r, &rows, err);
        if (status == LW_OK)
            status = nsys_rows_next(&rows, &more, err);
    }
    r->table++;
    if (n_rows) {
        *n_rows = rows.present ? rows.n : -1;
        r->t->n_events += rows.n;
    }
    nsys_rows_close(&rows);
    return status;
}

/* Domains are named by rows that may come after their ranges. */
static enum lw_status add_domains_only(struct reader *r, const struct nsys_rows *rows,
                                       struct lw_err *err)
{
    int64_t type, process;

    LW_TRY(nsys_rows_int(rows, NVTX_TYPE, &type, err));
    LW_TRY(read_process(rows, NVTX_THREAD, &process, err));
    return type == DOMAIN && is_process(r, process) ? add_domain(r, rows, process, err) : LW_OK;
}

static enum lw_status read_tables(struct reader *r, struct lw_err *err)
{
    static const struct table kernels = {"CUPTI_ACTIVITY_KIND_KERNEL",
                                         {DEVICE_COLUMNS, "?demangledName", "?shortName"},
                                         add_kernel},
        copies = {"CUPTI_ACTIVITY_KIND_MEMCPY",
                  {DEVICE_COLUMNS, "?copyKind", "?srcKind", "?dstKind"}, add_copy},
        sets = {"CUPTI_ACTIVITY_KIND_MEMSET", {DEVICE_COLUMNS}, add_set},
        calls = {"CUPTI_ACTIVITY_KIND_RUNTIME",
                 {"start", "end", "?correlationId", "?globalTid", "nameId"}, add_call},
        domains = {"NVTX_EVENTS",
                   {"start", "?end", "eventType", "?text", "?textId", "?globalTid",
                    "?endGlobalTid", "?domainId", "?jsonText", "?jsonTextId"},
                   add_domains_only},
        ranges = {"NVTX_EVENTS",
                  {"start", "?end", "eventType", "?text", "?textId", "?globalTid", "?endGlobalTid",
                   "?domainId", "?jsonText", "?jsonTextId"},
                  add_range},
        records = {"CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                   {"streamId", "?correlationId", "?globalPid", "eventId", "?eventSyncId"},
                   add_record},
        syncs = {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                 {"start", "end", "?streamId", "?correlationId", "?globalPid", "syncType",
                  "?eventId", "?eventSyncId"},
                 add_sync};
    struct nsys_counts *c = &r->counts;
    int64_t n_kernels;

    LW_TRY(read_table(r, &kernels, &n_kernels, err));
    LW_TRY(read_table(r, &copies, &c->n_memcpy, err));
    LW_TRY(read_table(r, &sets, &c->n_memset, err));
    LW_TRY(read_table(r, &calls, &c->n_runtime, err));
    LW_TRY(read_table(r, &domains, NULL, err));
    LW_TRY(read_table(r, &ranges, &c->n_nvtx, err));
    LW_TRY(read_table(r, &records, &c->n_events, err));
    lw_sort(r->records, r->n_records, by_event);
    return read_table(r, &syncs, &c->n_sync, err);
}

/* ---- what else the report says ---- */

/* A name that the report may lack: the device's. */
static enum lw_status read_device_name(struct reader *r, struct lw_err *err)
{
    static const char *const columns[] = {"id", "name", NULL};
    struct nsys_rows rows;
    bool more;

    if (r->whole)
        return LW_OK;
    LW_TRY(nsys_rows_open(r->d, "TARGET_INFO_GPU", columns, "", &rows, err));
    enum lw_status status = nsys_rows_next(&rows, &more, err);
    while (status == LW_OK && more && r->t->device < 0) {
        int64_t id;
        int len;
        status = nsys_rows_int(&rows, 0, &id, err);
        const char *name = nsys_rows_text(&rows, 1, &len);
        if (status == LW_OK && id == r->part.device && len > 0) {
            r->t->device = traces_strings_add(&r->t->strings, name, (size_t)len);
            status = r->t->device >= 0 ? LW_OK : lw_fail_nomem(err);
        }
        if (status == LW_OK)
            status = nsys_rows_next(&rows, &more, err);
    }
    nsys_rows_close(&rows);
    return status;
}

static enum lw_status read_session(struct reader *r, struct lw_err *err)
{
    static const char *const columns[] = {"?utcEpochNs", NULL};
    struct nsys_rows rows;
    bool more;

    LW_TRY(nsys_rows_open(r->d, "TARGET_INFO_SESSION_START_TIME", columns, "", &rows, err));
    enum lw_status status = nsys_rows_next(&rows, &more, err);
    if (status == LW_OK && more)
        status = nsys_rows_maybe(&rows, 0, 0, &r->t->base_ns, err);
    nsys_rows_close(&rows);
    return status;
}

static enum lw_status choose_part(struct reader *r, int part, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct nsys_part *v = NULL;
    int n;

    if (part == 0) { /* of one rank, as reading its kernels will show */
        LW_TRY(nsys_parts_first(r->d, &r->part, &r->only, err));
        if (r->only)
            return LW_OK;
    }
    enum lw_status status = nsys_parts_find(r->d, &scratch, &v, &n, err);
    r->whole = n == 0;
    r->counts.several = n > 1;
    if (status == LW_OK && n > 1 && part == 0)
        status = fail_several(r, n, err);
    if (status == LW_OK && part > 0 && part > (n > 0 ? n : 1))
        status = lw_fail_at(err, LW_EINVAL, r->d->name, 0,
                            "rank %d of the report: it holds the work of %d", part, n);
    if (status == LW_OK && n > 0)
        r->part = v[part > 0 ? part - 1 : 0];
    /* without anything that names ranks, the order of devices does */
    if (status == LW_OK && n > 1) {
        r->t->rank = part - 1;
        r->t->world_size = n;
    }
    lw_arena_free(&scratch);
    return status;
}

static enum lw_status read_report(struct reader *r, int part, struct lw_err *err)
{
    int64_t n_graphs = 0;

    LW_TRY(nsys_database_check(r->d, err));
    if (nsys_database_has(r->d, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"))
        LW_TRY(nsys_database_number(r->d, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                                    &n_graphs, err));
    if (n_graphs > 0)
        return lw_fail_at(err, LW_EFORMAT, r->d->name, 0,
                          "%lld launches of CUDA graphs were recorded whole, without their "
                          "kernels: record with --cuda-graph-trace=node",
                          (long long)n_graphs);
    if (nsys_database_has(r->d, "StringIds") &&
        sqlite3_prepare_v2(r->d->db, "SELECT value FROM StringIds WHERE id = ?1", -1, &r->string,
                           NULL) != SQLITE_OK)
        return lw_fail_at(err, LW_EFORMAT, r->d->name, 0, "table StringIds: %s",
                          sqlite3_errmsg(r->d->db));
    LW_TRY(choose_part(r, part, err));
    LW_TRY(read_tables(r, err));
    LW_TRY(read_device_name(r, err));
    LW_TRY(read_session(r, err));
    LW_TRY(nsys_counts_give(&r->counts, r->d, r->t, err));
    return lw_trace_check_span(r->d->name, r->t, err);
}

static void forget(struct reader *r)
{
    nsys_counts_free(&r->counts);
    lw_free(r->cache);
    lw_free(r->records);
    lw_free(r->nccl);
}

bool lw_nsys_is(const struct lw_input *in)
{
    return in->len >= 16 && memcmp(in->text, "SQLite format 3", 16) == 0;
}

enum lw_status lw_nsys_take(struct lw_input *in, const struct lw_err *damage,
                            const struct lw_trace_reading *options, struct lw_trace *out,
                            struct lw_err *err)
{
    struct lw_trace t;
    struct nsys_database d = {0};
    struct reader r = {.d = &d, .t = &t, .track = -1,
                       .progress = options ? options->progress : NULL};

    if (damage && damage->code != LW_OK) { /* part of a database is none */
        lw_input_free(in);
        if (err)
            *err = *damage;
        return damage->code;
    }
    lw_trace_init(&t);
    t.format = "nsys";
    enum lw_status status = nsys_database_open(in, &d, err);
    if (status == LW_OK)
        status = read_report(&r, options ? options->part : 0, err);
    sqlite3_finalize(r.string);
    nsys_database_close(&d);
    lw_input_free(in);
    if (status == LW_OK)
        status = lw_trace_sort(&t, err);
    if (status == LW_OK)
        status = nsys_counts_resolve(&r.counts, &t, err);
    forget(&r);
    if (status == LW_OK)
        status = nsys_steps_find(&t, err);
    LW_GIVE(status, out, t, lw_trace_free(&t));
}
