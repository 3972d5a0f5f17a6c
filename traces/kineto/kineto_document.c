/* The document of a Kineto trace: its list of events and the fields beside it, and whether what was
 * read is such a trace. */
#include "traces/kineto/kineto_reader.h"

#include <string.h>

#include "shared/base/large_pages.h"
#include "shared/json/json.h"
#include "traces/trace/decimal_time.h"

static const int64_t MOST_SPAN_NS = INT64_MAX / 4000;

enum { EVENTS_PER_REPORT = 1 << 14 };

/* How far it is; what was read is given back. */
static void report(struct kineto_reader *r)
{
    size_t at = (size_t)lw_json_offset(r->json);

    lw_progress_report(r->progress, r->name, (double)at / (double)(r->len + 1));
    if (r->mapped && at > r->given_back && at <= r->len) {
        lw_alloc_give_back(r->mapped + r->given_back, at - r->given_back);
        r->given_back = at;
    }
}

/* The events of the list that was entered, up to the next part. */
enum lw_status traces_kineto_read_list(struct kineto_reader *r, struct lw_err *err)
{
    r->has_events = true;
    for (int64_t n = 0; lw_json_next(r->json); n++) {
        if (r->stop > 0 && lw_json_offset(r->json) >= r->stop) {
            r->stopped = lw_json_offset(r->json) == r->stop;
            return LW_OK;
        }
        if (n % EVENTS_PER_REPORT == 0)
            report(r);
        LW_TRY(traces_kineto_read_event(r, err));
    }
    return LW_OK;
}

static enum lw_status read_events(struct kineto_reader *r, struct lw_err *err)
{
    r->has_events = true;
    return lw_json_enter(r->json, LW_JSON_ARRAY) ? traces_kineto_read_list(r, err) : LW_OK;
}

static void read_distributed(struct kineto_reader *r)
{
    struct lw_json *j = r->json;

    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "rank"))
            r->trace->rank = traces_kineto_read_int32(j, -1);
        else if (lw_json_key_is(j, "world_size"))
            r->trace->world_size = traces_kineto_read_int32(j, -1);
        else if (lw_json_key_is(j, "backend"))
            r->trace->backend = traces_kineto_read_text(r);
    }
}

static void read_device(struct kineto_reader *r)
{
    struct lw_json *j = r->json;

    if (!traces_kineto_enter_first(j))
        return;
    if (lw_json_type(j) == LW_JSON_OBJECT && lw_json_enter(j, LW_JSON_OBJECT))
        while (lw_json_next(j))
            if (lw_json_key_is(j, "name"))
                r->trace->device = traces_kineto_read_text(r);
    lw_json_leave(j);
}

/* What `lapwing export` says about its files. */
static void read_own(struct kineto_reader *r)
{
    struct lw_json *j = r->json;

    if (lw_json_type(j) != LW_JSON_OBJECT || !lw_json_enter(j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(j))
        if (lw_json_key_is(j, "copies_hide_comm"))
            r->trace->copies_hide_comm = lw_json_bool(j);
}

/* Identifiers beyond 2^63 are taken as unknown; a clock must be read as it is. */
static void read_base(struct kineto_reader *r)
{
    struct lw_json *j = r->json;
    size_t len;

    if (lw_json_type(j) != LW_JSON_NUMBER) {
        r->trace->base_ns = traces_kineto_read_int(j, 0);
        return;
    }
    const char *text = lw_json_number_text(j, &len);
    if (!lw_json_failed(j) && !traces_decimal(text, len, 0, &r->trace->base_ns))
        lw_json_fail(j, "found %.*s, expected nanoseconds below 2^63", (int)(len < 40 ? len : 40),
                     text);
}

enum lw_status traces_kineto_read_fields(struct kineto_reader *r, struct lw_err *err)
{
    struct lw_json *j = r->json;

    while (!r->stopped && lw_json_next(j)) {
        if (lw_json_key_is(j, "traceEvents"))
            LW_TRY(read_events(r, err));
        else if (lw_json_key_is(j, "baseTimeNanoseconds"))
            read_base(r);
        else if (lw_json_key_is(j, "distributedInfo"))
            read_distributed(r);
        else if (lw_json_key_is(j, "deviceProperties"))
            read_device(r);
        else if (lw_json_key_is(j, "nodes"))
            r->has_nodes = true;
        else if (lw_json_key_is(j, "lapwing")) {
            r->is_own = lw_json_type(j) == LW_JSON_NUMBER;
            read_own(r);
        }
    }
    return r->nomem ? lw_fail_nomem(err) : LW_OK;
}

enum lw_status traces_kineto_read_root(struct kineto_reader *r, struct lw_err *err)
{
    struct lw_json *j = r->json;

    if (lw_json_type(j) == LW_JSON_ARRAY)
        return read_events(r, err);
    return lw_json_enter(j, LW_JSON_OBJECT) ? traces_kineto_read_fields(r, err) : LW_OK;
}

static int64_t span_of(const struct lw_trace *t, bool timeless, int64_t *first, int64_t *last)
{
    *first = INT64_MAX;
    *last = INT64_MIN;
    for (int64_t i = 0; i < t->n; i++) {
        if (!timeless && t->start_ns[i] == 0)
            continue;
        *first = t->start_ns[i] < *first ? t->start_ns[i] : *first;
        *last = lw_trace_end_ns(t, i) > *last ? lw_trace_end_ns(t, i) : *last;
    }
    return *last > *first ? *last - *first : 0;
}

/* Profilers write ts 0 for device ops whose time they lost: beside events of today they are set
 * aside. */
static void drop_timeless(struct lw_trace *t)
{
    int64_t first, last, n = 0;

    if (span_of(t, true, &first, &last) <= MOST_SPAN_NS ||
        span_of(t, false, &first, &last) > MOST_SPAN_NS)
        return;
    for (int64_t i = 0; i < t->n; i++) {
        if (t->start_ns[i] == 0) {
            t->n_timeless++;
            continue;
        }
        lw_trace_move(t, n++, i);
    }
    t->n = n;
}

/* Is this what was read of a trace, and all of it? An array of anything is not a trace. */
enum lw_status traces_kineto_check_kind(const struct kineto_reader *r, struct lw_err *err)
{
    if (!r->has_events)
        return lw_fail_at(err, LW_EFORMAT, r->name, 0,
                          "no \"traceEvents\": not a Kineto (Chrome) trace%s",
                          r->is_own ? " but a file of Lapwing's own"
                          : r->has_nodes
                              ? " but perhaps a PyTorch execution trace, which holds no times"
                              : "");
    if (r->trace->n_events > 0 && r->n_phases == 0)
        return lw_fail_at(err, LW_EFORMAT, r->name, 0,
                          "%lld entries without \"ph\": not a Kineto (Chrome) trace",
                          (long long)r->trace->n_events);
    drop_timeless(r->trace);
    return lw_trace_check_span(r->name, r->trace, err);
}

/* A broken text that may be salvaged: what was read stands, and `damage` becomes a text of it. */
static enum lw_status keep_damage(struct kineto_reader *r, const struct lw_err *damage,
                                  struct lw_err *err)
{
    if (r->trace->n_events == 0) {
        if (err)
            *err = *damage;
        return lw_err_context(err, damage->code, "nothing to salvage");
    }
    r->trace->damage = traces_kineto_intern(r, damage->msg, strlen(damage->msg));
    return r->nomem ? lw_fail_nomem(err) : LW_OK;
}

static enum lw_status read_document(struct kineto_reader *r, const struct lw_err *broken,
                                    bool salvage, struct lw_err *err)
{
    struct lw_err found = {0};
    enum lw_status status = traces_kineto_read_root(r, &found);

    if (status == LW_OK)
        status = lw_json_done(r->json, &found);
    if (status == LW_OK && broken->code != LW_OK)
        status = broken->code;
    if (status == LW_EFORMAT && salvage)
        status = keep_damage(r, broken->code != LW_OK ? broken : &found, err);
    else if (status != LW_OK && err)
        *err = found;
    return status == LW_OK ? traces_kineto_check_kind(r, err) : status;
}

/* A text that may be damaged is opened up to there; one of which it is not known to be UTF-8 yet is
 * refused where it is not. */
static enum lw_status open_reader(struct kineto_reader *r, const char *text, bool salvage,
                                  bool unmended, struct lw_err *broken, struct lw_err *err)
{
    if (salvage)
        return lw_json_open_broken(r->name, text, r->len, &r->json, broken, err);
    return unmended ? lw_json_open_unmended(r->name, text, r->len, &r->json, err)
                    : lw_json_open(r->name, text, r->len, &r->json, err);
}

static enum lw_status parse_as(const char *name, char *text, size_t len, bool unmended,
                               const struct lw_trace_reading *options, struct lw_trace *out,
                               struct lw_err *err)
{
    struct lw_trace t;
    struct lw_err broken = {0};
    struct kineto_reader r = {.trace = &t, .name = name, .len = len,
                              .progress = options ? options->progress : NULL,
                              .shapes = options && options->shapes,
                              .mapped = options && options->mapped ? text : NULL};
    bool salvage = options && options->salvage;

    LW_TRY(open_reader(&r, text, salvage, unmended, &broken, err));
    traces_kineto_set_keys(&r);
    lw_trace_init(&t);
    t.format = "kineto";
    enum lw_status status = read_document(&r, &broken, salvage, err);
    lw_json_close(r.json);
    LW_GIVE(status, out, t, lw_trace_free(&t));
}

/* Nearly every text is UTF-8: one pass over it is saved by finding out while it is read. */
enum lw_status traces_kineto_parse_once(const char *name, char *text, size_t len,
                                        const struct lw_trace_reading *options,
                                        struct lw_trace *out, struct lw_err *err)
{
    struct lw_err unused = {0};

    if (!(options && options->salvage) &&
        parse_as(name, text, len, true, options, out, &unused) == LW_OK)
        return LW_OK;
    return parse_as(name, text, len, false, options, out, err);
}
