/* Kineto / Chrome JSON into the tables of trace.h, in one pass over the text.
 *
 * Kept: complete events (ph X) of the categories in the table below; flows, instants, metadata,
 * python_function and the device twins of user ranges are only counted. Times are microseconds
 * as decimal text whatever displayTimeUnit says, relative to baseTimeNanoseconds where that is
 * given (it may come after the events, so it is kept apart and never added to a row). Key order
 * is free: what arguments mean depends on name and category, which usually come first; where
 * they do not, everything is collected. Format facts: the traces of HolisticTraceAnalysis
 * (f4d0062), kineto (f329bb5f; its ActivityType names) and param (1e115ff). Not read: stacks,
 * occupancy, memory events, counters. */
#include "traces/kineto/import_kineto.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "shared/base/large_pages.h"
#include "shared/base/parallel.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "traces/kineto/repair_text.h"
#include "traces/trace/append_trace.h"
#include "traces/trace/decimal_time.h"
#include "traces/trace/shaped_ops.h"

static const int64_t MOST_SPAN_NS = INT64_MAX / 4000;

enum { CLASS_UNKNOWN = -2, CLASS_SKIP = -1, EVENTS_PER_REPORT = 1 << 16, MOST_PARTS = 16 };

static const struct {
    const char *category;
    enum lw_row_class class;
} categories[] = {
    {"cpu_op", LW_ROW_HOST},         {"user_annotation", LW_ROW_USER},
    {"cuda_runtime", LW_ROW_LAUNCH}, {"cuda_driver", LW_ROW_LAUNCH},
    {"kernel", LW_ROW_KERNEL},       {"gpu_memcpy", LW_ROW_MEM},
    {"gpu_memset", LW_ROW_MEM},      {"cuda_sync", LW_ROW_SYNC},
    /* other devices call by other names and run kernels of the same category */
    {"mtia_runtime", LW_ROW_LAUNCH}, {"xpu_runtime", LW_ROW_LAUNCH},
    {"xpu_driver", LW_ROW_LAUNCH},   {"glow_runtime", LW_ROW_LAUNCH},
    {"privateuse1_runtime", LW_ROW_LAUNCH}, {"privateuse1_driver", LW_ROW_LAUNCH},
    /* torch 1.8 and 1.9, there with a capital letter */
    {"operator", LW_ROW_HOST},       {"runtime", LW_ROW_LAUNCH},
    {"memcpy", LW_ROW_MEM},          {"memset", LW_ROW_MEM},
};

struct event {
    int class; /* enum lw_row_class, or CLASS_* */
    char ph;
    bool has_ts, has_dur, has_detail;
    bool no_tensor; /* the first input's type is "": it was none, and its shape [] means nothing */
    int64_t ts_ns, dur_ns, correlation, sequence, stream, device;
    int32_t record, external; /* Record function id, External id */
    const char *name, *tid; /* NULL until seen */
    size_t name_len, tid_len, pid_len;
    char pid[32];
    struct lw_row_detail detail;
};

struct reader {
    struct lw_json *json;
    struct lw_trace *trace;
    const struct lw_progress *progress;
    const char *name;
    size_t len;
    bool nomem, has_events, has_nodes, is_own;
    int64_t stop;   /* byte of the event that the next part begins with; 0 = none */
    bool stopped;   /* it was come to */
    bool shapes;
    int64_t n_phases; /* entries with a "ph" */
    /* thread of the previous event: most events follow one of the same thread */
    char thread[96];
    size_t thread_len;
    int32_t thread_id;
};

static int class_of(const char *category, size_t len)
{
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (strlen(categories[i].category) == len &&
            strncasecmp(categories[i].category, category, len) == 0)
            return (int)categories[i].class;
    return CLASS_SKIP;
}

static bool is_shaped(const struct event *e)
{
    return !e->name || traces_op_is_shaped(e->name, e->name_len);
}

static bool is_typed(const struct event *e)
{
    return e->name && traces_op_is_typed(e->name, e->name_len);
}

static int32_t intern(struct reader *r, const char *text, size_t len)
{
    int32_t id = traces_strings_add(&r->trace->strings, text, len);

    r->nomem |= id < 0;
    return id;
}

/* A whole number, bare or as a string; `absent` for anything else. */
static int64_t read_int(struct lw_json *j, int64_t absent)
{
    enum lw_json_type type = lw_json_type(j);
    size_t len = 0;
    int64_t value;

    if (type != LW_JSON_NUMBER && type != LW_JSON_STRING)
        return absent;
    const char *text = type == LW_JSON_NUMBER ? lw_json_number_text(j, &len)
                                              : lw_json_view(j, &len);
    return traces_decimal(text, len, 0, &value) ? value : absent;
}

static int32_t read_int32(struct lw_json *j, int32_t absent)
{
    int64_t value = read_int(j, absent);

    return value >= 0 && value <= INT32_MAX ? (int32_t)value : absent;
}

static int32_t read_text(struct reader *r)
{
    size_t len;

    if (lw_json_type(r->json) != LW_JSON_STRING)
        return -1;
    const char *text = lw_json_view(r->json, &len);
    return len ? intern(r, text, len) : -1;
}

/* Microseconds to ns. Up to 2^61 ns (73 years, so 1970 to 2043) sums and differences fit int64. */
static int64_t read_time(struct lw_json *j, bool *has)
{
    size_t len;
    int64_t ns = 0;
    const char *text = lw_json_number_text(j, &len);

    *has = true;
    if (!lw_json_failed(j) &&
        (!traces_decimal(text, len, 3, &ns) || ns > INT64_MAX / 4 || ns < -(INT64_MAX / 4)))
        lw_json_fail(j, "found %.*s, expected microseconds", (int)(len < 40 ? len : 40), text);
    return ns;
}

/* Elements of a shape ([64, 3]: 192) or of a list of shapes ([[64, 3], [10]]: 202); -1 beyond
 * int64. */
static int64_t read_numel(struct lw_json *j, int depth)
{
    int64_t product = 1, sum = 0, part;
    bool is_list = false, overflow = false;

    if (depth > 8 || lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY))
        return -1;
    while (lw_json_next(j)) {
        is_list |= lw_json_type(j) == LW_JSON_ARRAY;
        part = is_list ? read_numel(j, depth + 1) : read_int(j, -1);
        if (part < 0 || (is_list ? __builtin_add_overflow(sum, part, &sum)
                                 : __builtin_mul_overflow(product, part, &product)))
            overflow = true;
    }
    return overflow ? -1 : is_list ? sum : product;
}

/* Enter an array, let the caller read its first element, skip the rest. */
static bool enter_first(struct lw_json *j)
{
    if (lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY))
        return false;
    return lw_json_next(j);
}

static void read_shape(struct reader *r, struct event *e)
{
    if (!enter_first(r->json))
        return;
    e->detail.shape_numel = read_numel(r->json, 0);
    e->has_detail |= e->detail.shape_numel >= 0;
    lw_json_leave(r->json);
}

static void read_shape_type(struct reader *r, struct event *e)
{
    if (!enter_first(r->json))
        return;
    e->detail.shape_type = read_text(r);
    e->no_tensor = e->detail.shape_type < 0;
    lw_json_leave(r->json);
}

/* ---- sizes of all inputs ---- */

/* A text under way; one that is too long, or has a size that is none, is absent. */
struct inputs {
    char text[480];
    size_t used, first_len;
    int64_t numel, first_numel; /* elements of an input; -1 beyond int64 */
    int32_t n;
    bool bad;
};

static void put(struct inputs *x, const char *text, size_t len)
{
    if (x->bad || len > sizeof x->text - x->used) {
        x->bad = true;
        return;
    }
    memcpy(x->text + x->used, text, len);
    x->used += len;
}

static void put_number(struct inputs *x, const char *before, int64_t n)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%s%" PRId64, before, n);

    x->bad |= n < 0;
    put(x, text, (size_t)len);
}

/* The sizes of one input: [4, 64], [] or, of a list of tensors, [[4, 64], [10]]. */
static void put_sizes(struct reader *r, struct inputs *x)
{
    struct lw_json *j = r->json;
    bool first = true, list = false, overflow = false;
    int64_t sum = 0, product = 1;

    x->numel = -1;
    if (lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY)) {
        x->bad = true;
        return;
    }
    while (lw_json_next(j)) {
        list |= lw_json_type(j) == LW_JSON_ARRAY;
        int64_t n = list ? read_numel(j, 0) : read_int(j, -1);
        overflow |= n < 0 || (list ? __builtin_add_overflow(sum, n, &sum)
                                   : __builtin_mul_overflow(product, n, &product));
        if (!list)
            put_number(x, first ? "" : ",", n);
        first = false;
    }
    x->numel = overflow ? -1 : list ? sum : product;
    x->bad |= overflow;
    if (list)
        put_number(x, "*", sum);
}

static void put_text(struct reader *r, struct inputs *x)
{
    size_t len = 0;
    const char *text = lw_json_type(r->json) == LW_JSON_STRING ? lw_json_view(r->json, &len) : "";

    x->bad |= memchr(text, ';', len) != NULL;
    put(x, text, len);
}

/* Number + 1; 0 = absent. */
static int32_t read_inputs(struct reader *r, struct inputs *x,
                           void (*one)(struct reader *r, struct inputs *x))
{
    x->first_numel = -1;
    if (lw_json_type(r->json) != LW_JSON_ARRAY || !lw_json_enter(r->json, LW_JSON_ARRAY))
        return 0;
    while (lw_json_next(r->json)) {
        one(r, x);
        if (x->n++ == 0) {
            x->first_numel = x->numel;
            x->first_len = x->used;
        }
        put(x, ";", 1);
    }
    return x->bad || x->used == 0 ? 0 : intern(r, x->text, x->used) + 1;
}

static void read_all_sizes(struct reader *r, struct event *e)
{
    struct inputs x = {.used = 0};

    e->detail.input_sizes = read_inputs(r, &x, put_sizes);
    if (is_shaped(e))
        e->detail.shape_numel = x.first_numel;
    e->has_detail |= e->detail.input_sizes > 0 || e->detail.shape_numel >= 0;
}

static void read_all_types(struct reader *r, struct event *e)
{
    struct inputs x = {.used = 0};
    bool typed = is_typed(e);

    e->detail.input_types = read_inputs(r, &x, put_text);
    if (x.n == 0 || !(typed || is_shaped(e)))
        return;
    e->detail.shape_type = x.first_len > 0 ? intern(r, x.text, x.first_len) : -1;
    if (is_shaped(e))
        e->no_tensor = e->detail.shape_type < 0;
    else
        e->has_detail |= e->detail.shape_type >= 0;
}

static bool is_operator(const struct reader *r, const struct event *e)
{
    return r->shapes && e->name && e->name_len > 6 && memcmp(e->name, "aten::", 6) == 0;
}

/* Values say of few operators what they do. */
static bool has_values(const struct event *e)
{
    static const char *const parts[] = {"attention", "convolution_backward"};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (memmem(e->name, e->name_len, parts[i], strlen(parts[i])))
            return true;
    return false;
}

static bool key_is(const char *key, size_t len, const char *want)
{
    return strlen(want) == len && memcmp(key, want, len) == 0;
}

/* What a cuda_sync event waited for. */
static void read_sync(struct lw_json *j, struct event *e, const char *key, size_t len)
{
    if (key_is(key, len, "wait_on_stream"))
        e->detail.wait_stream = read_int32(j, -1);
    else if (key_is(key, len, "wait_on_cuda_event_record_corr_id"))
        e->detail.wait_record = read_int(j, -1);
    else
        return;
    e->has_detail = true;
}

static void read_argument(struct reader *r, struct event *e)
{
    struct lw_json *j = r->json;
    struct lw_row_detail *d = &e->detail;
    size_t len;
    const char *key = lw_json_key_view(j, &len);

    if (key_is(key, len, "correlation"))
        e->correlation = read_int(j, -1);
    else if (key_is(key, len, "stream"))
        e->stream = read_int32(j, -1);
    else if (key_is(key, len, "device"))
        e->device = read_int32(j, -1);
    else if (key_is(key, len, "Sequence number"))
        e->sequence = read_int(j, -1);
    else if (key_is(key, len, "Record function id"))
        e->record = read_int32(j, 0);
    else if (key_is(key, len, "External id") || key_is(key, len, "external id"))
        e->external = read_int32(j, 0);
    else if (key_is(key, len, "Collective name")) {
        d->op = read_text(r);
        e->has_detail = true;
    } else if (key_is(key, len, "dtype"))
        d->dtype = read_text(r);
    else if (key_is(key, len, "In msg nelems"))
        d->in_numel = read_int(j, -1);
    else if (key_is(key, len, "Out msg nelems"))
        d->out_numel = read_int(j, -1);
    else if (key_is(key, len, "Group size"))
        d->group_size = read_int32(j, 0);
    else if (key_is(key, len, "Process Group Name"))
        d->group = read_text(r);
    else if (len > 8 && memcmp(key, "wait_on_", 8) == 0)
        read_sync(j, e, key, len);
    else if (is_operator(r, e) &&
             (key_is(key, len, "Input Dims") || key_is(key, len, "Input dims")))
        read_all_sizes(r, e);
    else if (is_operator(r, e) && key_is(key, len, "Input type"))
        read_all_types(r, e);
    else if (is_operator(r, e) && key_is(key, len, "Concrete Inputs") && has_values(e))
        d->input_values = read_inputs(r, &(struct inputs){.used = 0}, put_text);
    else if ((key_is(key, len, "Input Dims") || key_is(key, len, "Input dims")) && is_shaped(e))
        read_shape(r, e);
    else if (key_is(key, len, "Input type") && is_shaped(e))
        read_shape_type(r, e);
    else if (key_is(key, len, "Input type") && is_typed(e)) {
        read_shape_type(r, e);
        e->has_detail |= e->detail.shape_type >= 0;
    }
}

static void read_tid(struct lw_json *j, struct event *e)
{
    enum lw_json_type type = lw_json_type(j);

    if (type == LW_JSON_NUMBER)
        e->tid = lw_json_number_text(j, &e->tid_len);
    else if (type == LW_JSON_STRING)
        e->tid = lw_json_view(j, &e->tid_len);
}

static void read_pid(struct lw_json *j, struct event *e)
{
    enum lw_json_type type = lw_json_type(j);
    size_t len = 0;
    const char *text = NULL;

    if (type == LW_JSON_NUMBER)
        text = lw_json_number_text(j, &len);
    else if (type == LW_JSON_STRING)
        text = lw_json_view(j, &len);
    e->pid_len = len < sizeof e->pid ? len : sizeof e->pid;
    if (text)
        memcpy(e->pid, text, e->pid_len);
}

static void read_field(struct reader *r, struct event *e)
{
    struct lw_json *j = r->json;
    bool skip = e->class == CLASS_SKIP || (e->ph != 0 && e->ph != 'X');
    size_t len;
    const char *key = lw_json_key_view(j, &len);

    if (key_is(key, len, "ph")) {
        const char *ph = lw_json_view(j, &len);
        e->ph = len == 1 ? ph[0] : '?';
        r->n_phases++;
    } else if (skip) {
        return;
    } else if (key_is(key, len, "cat")) {
        const char *category = lw_json_view(j, &len);
        e->class = class_of(category, len);
    } else if (key_is(key, len, "name")) {
        e->name = lw_json_view(j, &e->name_len);
    } else if (key_is(key, len, "ts")) {
        e->ts_ns = read_time(j, &e->has_ts);
    } else if (key_is(key, len, "dur")) {
        e->dur_ns = read_time(j, &e->has_dur);
    } else if (key_is(key, len, "pid")) {
        read_pid(j, e);
    } else if (key_is(key, len, "tid")) {
        read_tid(j, e);
    } else if (key_is(key, len, "args") && lw_json_type(j) == LW_JSON_OBJECT &&
               lw_json_enter(j, LW_JSON_OBJECT)) {
        while (lw_json_next(j))
            read_argument(r, e);
    }
}

/* The host thread "pid/tid" as a string number. */
static int32_t thread_of(struct reader *r, const struct event *e)
{
    char text[sizeof r->thread];
    size_t tid_len = e->tid && e->tid_len < 60 ? e->tid_len : e->tid ? 60 : 0;
    size_t len = e->pid_len + 1 + tid_len;

    memcpy(text, e->pid, e->pid_len);
    text[e->pid_len] = '/';
    if (tid_len)
        memcpy(text + e->pid_len + 1, e->tid, tid_len);
    if (len != r->thread_len || memcmp(text, r->thread, len) != 0) {
        r->thread_id = intern(r, text, len);
        memcpy(r->thread, text, len);
        r->thread_len = len;
    }
    return r->thread_id;
}

/* The stream of a device row: its argument, else the thread id ("stream 7", 7). */
static int32_t stream_of(const struct event *e)
{
    const char *text = e->tid;
    size_t len = e->tid_len;
    int64_t value;

    if (e->stream >= 0)
        return (int32_t)e->stream;
    if (text && len > 7 && memcmp(text, "stream ", 7) == 0) {
        text += 7;
        len -= 7;
    }
    return text && traces_decimal(text, len, 0, &value) && value >= 0 && value <= INT32_MAX
               ? (int32_t)value
               : -1;
}

/* Which device of the file, in order of appearance; those beyond the room are the last. */
static int32_t device_of(struct reader *r, const struct event *e)
{
    struct lw_trace *t = r->trace;
    const int32_t room = (int32_t)(sizeof t->device_id / sizeof *t->device_id);
    int32_t k = 0;

    if (e->device < 0)
        return 0;
    while (k < t->n_devices && t->device_id[k] != e->device)
        k++;
    if (k == t->n_devices && k < room)
        t->device_id[t->n_devices++] = (int32_t)e->device;
    return k < room ? k : room - 1;
}

static int32_t track_of(struct reader *r, const struct event *e)
{
    int32_t stream = stream_of(e), device = device_of(r, e);

    return stream >= 0 && stream < LW_DEVICE_STREAMS ? stream + device * LW_DEVICE_STREAMS : stream;
}

static enum lw_status add_event(struct reader *r, struct event *e, struct lw_err *err)
{
    bool device = e->class == LW_ROW_KERNEL || e->class == LW_ROW_MEM;
    bool on_stream = device || e->class == LW_ROW_SYNC;
    bool linked = on_stream || e->class == LW_ROW_LAUNCH;
    struct lw_row row = {
        .class = (enum lw_row_class)e->class,
        .start_ns = e->ts_ns,
        .dur_ns = e->dur_ns > 0 ? e->dur_ns : 0,
        .link = linked ? e->correlation : e->sequence,
        .track = on_stream ? track_of(r, e) : thread_of(r, e),
        .name = intern(r, e->name ? e->name : "", e->name ? e->name_len : 0),
        .record = linked ? 0 : e->record > 0 ? e->record : -e->external,
    };

    if (e->no_tensor)
        e->detail.shape_numel = -1;
    if (e->class == LW_ROW_SYNC && e->detail.wait_stream >= 0 &&
        e->detail.wait_stream < LW_DEVICE_STREAMS)
        e->detail.wait_stream += device_of(r, e) * LW_DEVICE_STREAMS;
    r->trace->n_negative += e->dur_ns < 0;
    if (r->nomem)
        return lw_fail_nomem(err);
    return lw_trace_add(r->trace, &row, e->has_detail ? &e->detail : NULL, err);
}

static bool is_legacy(const struct event *e)
{
    static const char pid[] = "CPU functions";

    return e->pid_len == sizeof pid - 1 && memcmp(e->pid, pid, sizeof pid - 1) == 0;
}

static enum lw_status read_event(struct reader *r, struct lw_err *err)
{
    struct lw_json *j = r->json;
    struct event e = {.class = CLASS_UNKNOWN, .correlation = -1, .sequence = -1, .stream = -1,
                      .device = -1,
                      .detail = {.op = -1, .dtype = -1, .in_numel = -1, .out_numel = -1,
                                 .group = -1, .wait_stream = -1, .wait_record = -1,
                                 .shape_numel = -1, .shape_type = -1}};

    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return LW_OK; /* the reader holds the error */
    while (lw_json_next(j))
        read_field(r, &e);
    if (r->nomem)
        return lw_fail_nomem(err);
    /* the legacy profiler (EventList.export_chrome_trace, torch built without Kineto) writes host
     * ops without a category */
    if (e.class == CLASS_UNKNOWN && is_legacy(&e))
        e.class = LW_ROW_HOST;
    bool kept = e.ph == 'X' && e.class >= 0;
    if (kept && (!e.has_ts || !e.has_dur))
        lw_json_fail(j, "a complete event (ph X) needs \"%s\"", e.has_ts ? "dur" : "ts");
    if (lw_json_failed(j))
        return LW_OK;
    r->trace->n_events++;
    return kept ? add_event(r, &e, err) : LW_OK;
}

/* The events of the list that was entered, up to the next part. */
static enum lw_status read_list(struct reader *r, struct lw_err *err)
{
    r->has_events = true;
    for (int64_t n = 0; lw_json_next(r->json); n++) {
        if (r->stop > 0 && lw_json_offset(r->json) >= r->stop) {
            r->stopped = lw_json_offset(r->json) == r->stop;
            return LW_OK;
        }
        if (n % EVENTS_PER_REPORT == 0)
            lw_progress_report(r->progress, r->name,
                               (double)lw_json_offset(r->json) / (double)(r->len + 1));
        LW_TRY(read_event(r, err));
    }
    return LW_OK;
}

static enum lw_status read_events(struct reader *r, struct lw_err *err)
{
    r->has_events = true;
    return lw_json_enter(r->json, LW_JSON_ARRAY) ? read_list(r, err) : LW_OK;
}

static void read_distributed(struct reader *r)
{
    struct lw_json *j = r->json;

    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "rank"))
            r->trace->rank = read_int32(j, -1);
        else if (lw_json_key_is(j, "world_size"))
            r->trace->world_size = read_int32(j, -1);
        else if (lw_json_key_is(j, "backend"))
            r->trace->backend = read_text(r);
    }
}

static void read_device(struct reader *r)
{
    struct lw_json *j = r->json;

    if (!enter_first(j))
        return;
    if (lw_json_type(j) == LW_JSON_OBJECT && lw_json_enter(j, LW_JSON_OBJECT))
        while (lw_json_next(j))
            if (lw_json_key_is(j, "name"))
                r->trace->device = read_text(r);
    lw_json_leave(j);
}

/* What `lapwing export` says about its files. */
static void read_own(struct reader *r)
{
    struct lw_json *j = r->json;

    if (lw_json_type(j) != LW_JSON_OBJECT || !lw_json_enter(j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(j))
        if (lw_json_key_is(j, "copies_hide_comm"))
            r->trace->copies_hide_comm = lw_json_bool(j);
}

/* Identifiers beyond 2^63 are taken as unknown; a clock must be read as it is. */
static void read_base(struct reader *r)
{
    struct lw_json *j = r->json;
    size_t len;

    if (lw_json_type(j) != LW_JSON_NUMBER) {
        r->trace->base_ns = read_int(j, 0);
        return;
    }
    const char *text = lw_json_number_text(j, &len);
    if (!lw_json_failed(j) && !traces_decimal(text, len, 0, &r->trace->base_ns))
        lw_json_fail(j, "found %.*s, expected nanoseconds below 2^63", (int)(len < 40 ? len : 40),
                     text);
}

static enum lw_status read_fields(struct reader *r, struct lw_err *err)
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

static enum lw_status read_root(struct reader *r, struct lw_err *err)
{
    struct lw_json *j = r->json;

    if (lw_json_type(j) == LW_JSON_ARRAY)
        return read_events(r, err);
    return lw_json_enter(j, LW_JSON_OBJECT) ? read_fields(r, err) : LW_OK;
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
static enum lw_status check_kind(const struct reader *r, struct lw_err *err)
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
static enum lw_status keep_damage(struct reader *r, const struct lw_err *damage, struct lw_err *err)
{
    if (r->trace->n_events == 0) {
        if (err)
            *err = *damage;
        return lw_err_context(err, damage->code, "nothing to salvage");
    }
    r->trace->damage = intern(r, damage->msg, strlen(damage->msg));
    return r->nomem ? lw_fail_nomem(err) : LW_OK;
}

static enum lw_status read_document(struct reader *r, const struct lw_err *broken, bool salvage,
                                    struct lw_err *err)
{
    struct lw_err found = {0};
    enum lw_status status = read_root(r, &found);

    if (status == LW_OK)
        status = lw_json_done(r->json, &found);
    if (status == LW_OK && broken->code != LW_OK)
        status = broken->code;
    if (status == LW_EFORMAT && salvage)
        status = keep_damage(r, broken->code != LW_OK ? broken : &found, err);
    else if (status != LW_OK && err)
        *err = found;
    return status == LW_OK ? check_kind(r, err) : status;
}

static enum lw_status parse_once(const char *name, char *text, size_t len,
                                 const struct lw_trace_reading *options, struct lw_trace *out,
                                 struct lw_err *err)
{
    struct lw_trace t;
    struct lw_err broken = {0};
    struct reader r = {.trace = &t, .name = name, .len = len,
                       .progress = options ? options->progress : NULL,
                       .shapes = options && options->shapes};
    bool salvage = options && options->salvage;
    enum lw_status status = salvage ? lw_json_open_broken(name, text, len, &r.json, &broken, err)
                                    : lw_json_open(name, text, len, &r.json, err);

    if (status != LW_OK)
        return status;
    lw_trace_init(&t);
    t.format = "kineto";
    status = read_document(&r, &broken, salvage, err);
    lw_json_close(r.json);
    LW_GIVE(status, out, t, lw_trace_free(&t));
}

/* ---- a long text in parts, each on a thread ---- */

/* A part begins where an event is likely to. That it does is known once the part before has come
 * to that byte as the beginning of an event: the parts together are then what one reader reads.
 * Otherwise, and after any error, the text is read in one go, which says what is wrong. */

enum { LEAST_PART_BYTES = 16 << 20 };
static size_t least_part_bytes = LEAST_PART_BYTES;

void lw_kineto_parts(size_t bytes)
{
    least_part_bytes = bytes ? bytes : LEAST_PART_BYTES;
}

struct parts {
    const char *name, *text;
    size_t len;
    const struct lw_trace_reading *options;
    int n;
    size_t at[MOST_PARTS + 1]; /* at[n] = 0: the last does not stop */
    struct reader r[MOST_PARTS];
    struct lw_trace t[MOST_PARTS];
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The first '{' from `at` on that follows a comma and begins with a key; 0: none. */
static size_t likely_event(const char *text, size_t len, size_t at)
{
    for (const char *p; (p = memchr(text + at, '{', len - at)); at = (size_t)(p - text) + 1) {
        const char *before = p - 1, *after = p + 1;
        while (before > text && is_blank(*before))
            before--;
        while (is_blank(*after))
            after++;
        if (before > text && *before == ',' && *after == '"')
            return (size_t)(p - text);
    }
    return 0;
}

static void choose_parts(struct parts *x)
{
    int want = least_part_bytes < LEAST_PART_BYTES ? MOST_PARTS : lw_n_cores();

    want = want < MOST_PARTS ? want : MOST_PARTS;
    while (want > 1 && x->len / (size_t)want < least_part_bytes)
        want--;
    x->n = 1;
    for (int i = 1; i < want; i++) {
        size_t at = likely_event(x->text, x->len, x->len / (size_t)want * (size_t)i);
        if (at > x->at[x->n - 1])
            x->at[x->n++] = at;
    }
}

static enum lw_status read_part(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    struct parts *x = ctx;
    struct reader *r = &x->r[i];
    bool last = i == x->n - 1, of_field = x->text[strspn(x->text, " \n\t\r")] == '{';

    *r = (struct reader){.trace = &x->t[i], .name = x->name, .len = x->len, .progress = p,
                         .shapes = x->options->shapes, .stop = (int64_t)x->at[i + 1]};
    lw_trace_init(r->trace);
    LW_TRY(i == 0 ? lw_json_open(x->name, x->text, x->len, &r->json, err)
                  : lw_json_open_within(x->name, x->text, x->len, x->at[i], of_field, &r->json,
                                        err));
    enum lw_status status = i == 0 ? read_root(r, err) : read_list(r, err);
    if (status == LW_OK && i > 0 && last && of_field)
        status = read_fields(r, err);
    if (status == LW_OK)
        status = lw_json_done(r->json, err);
    lw_json_close(r->json);
    return status == LW_OK && !last && !r->stopped
               ? lw_fail(err, LW_EFORMAT, "no event begins at byte %zu", x->at[i + 1])
               : status;
}

static bool can_join(const struct parts *x)
{
    for (int i = 1; i < x->n; i++)
        for (int k = 0; k < i; k++)
            if (!lw_trace_can_append(&x->t[k], &x->t[i]))
                return false;
    return true;
}

static enum lw_status join_parts(struct parts *x, struct lw_trace *out, struct lw_err *err)
{
    struct lw_trace *t = &x->t[0];

    t->format = "kineto";
    for (int i = 1; i < x->n; i++) {
        LW_TRY(lw_trace_append(t, &x->t[i], err));
        x->r[0].n_phases += x->r[i].n_phases;
    }
    LW_TRY(check_kind(&x->r[0], err));
    *out = *t;
    *t = (struct lw_trace){0};
    return LW_OK;
}

/* *done false: it is to be read in one go. */
static enum lw_status parse_parts(const char *name, char *text, size_t len,
                                  const struct lw_trace_reading *options, bool *done,
                                  struct lw_trace *out, struct lw_err *err)
{
    enum lw_status status = LW_OK;
    struct lw_err unused = {0};
    struct parts *x;

    *done = false;
    if (!options || !options->alone || options->salvage || len / 2 < least_part_bytes)
        return LW_OK;
    LW_NEW(x, 1, err);
    *x = (struct parts){.name = name, .text = text, .len = len, .options = options};
    choose_parts(x);
    struct lw_parallel_work work = {read_part, x, x->n, "reading", options->progress, x->n};
    *done = x->n > 1 && lw_parallel(&work, &unused) == LW_OK && can_join(x);
    if (*done) { /* the room of the text is for the rows now */
        lw_alloc_give_back(text, len);
        status = join_parts(x, out, err);
    }
    for (int i = 0; i < x->n; i++)
        lw_trace_free(&x->t[i]);
    lw_free(x);
    return status;
}

static enum lw_status name_salvage(struct lw_err *err, const struct lw_err *why, size_t len)
{
    if (strstr(why->msg, "before the end of the text") || strstr(why->msg, "found the end"))
        return lw_fail(err, why->code,
                       "%s: the file ends after %zu bytes; 'lapwing inspect --salvage' reads the "
                       "events before that",
                       why->msg, len);
    if (err)
        *err = *why;
    return why->code;
}

/* The text with its names mended, if that makes it JSON; *out is set then. */
static enum lw_status parse_mended(const char *name, const char *text, size_t len,
                                   const struct lw_trace_reading *options, struct lw_trace *out,
                                   struct lw_err *err)
{
    struct lw_trace_reading strict = {.progress = options ? options->progress : NULL,
                                      .shapes = options && options->shapes};
    char *copy = lw_calloc(len + LW_JSON_PADDING, 1);

    if (!copy)
        return lw_fail_nomem(err);
    memcpy(copy, text, len);
    int64_t n = traces_repair_text(copy, len);
    enum lw_status status =
        n > 0 ? parse_once(name, copy, len, &strict, out, err) : LW_EFORMAT;
    lw_free(copy);
    if (status == LW_OK)
        out->n_repaired = n;
    return status;
}

/* A text that is no JSON is mended and read again, if its names are the reason. */
enum lw_status lw_kineto_parse(const char *name, char *text, size_t len,
                               const struct lw_trace_reading *options, struct lw_trace *out,
                               struct lw_err *err)
{
    struct lw_err found = {0}, unused = {0};
    struct lw_trace mended;
    bool done;
    enum lw_status again, status = parse_parts(name, text, len, options, &done, out, err);

    if (done || status != LW_OK)
        return status;
    status = parse_once(name, text, len, options, out, &found);

    if (status == LW_OK && out->damage < 0)
        return LW_OK;
    if (status != LW_OK && status != LW_EFORMAT) {
        if (err)
            *err = found;
        return status;
    }
    again = parse_mended(name, text, len, options, &mended, &unused);
    if (again == LW_OK) {
        if (status == LW_OK)
            lw_trace_free(out);
        *out = mended;
        return LW_OK;
    }
    if (again == LW_ENOMEM) {
        if (status == LW_OK)
            lw_trace_free(out);
        return lw_fail_nomem(err);
    }
    return status == LW_OK ? LW_OK : name_salvage(err, &found, len);
}

/* Packed data that ends early leaves a text that ends early: both are reported. */
static enum lw_status add_damage(struct lw_trace *t, const struct lw_err *damage,
                                 struct lw_err *err)
{
    char text[2 * sizeof damage->msg];

    if (!damage || damage->code == LW_OK)
        return LW_OK;
    snprintf(text, sizeof text, "%s%s%s", damage->msg, t->damage >= 0 ? "; " : "",
             lw_trace_text(t, t->damage));
    t->damage = traces_strings_add(&t->strings, text, strlen(text));
    return t->damage >= 0 ? LW_OK : lw_fail_nomem(err);
}

/* The process of a host row's thread ("pid/tid"). */
static int process_of(const struct lw_trace *t, int64_t row, const char **text)
{
    *text = lw_trace_text(t, t->track[row]);
    return (int)strcspn(*text, "/");
}

static bool makes_calls(const struct lw_trace *t, const char *process, int len)
{
    for (int64_t i = 0; i < t->n; i++) {
        const char *text;
        if (t->class[i] == LW_ROW_LAUNCH && process_of(t, i, &text) == len &&
            strncmp(text, process, (size_t)len) == 0)
            return true;
    }
    return false;
}

/* Files of several ranks that were joined: two processes that both launch work and both have the
 * same step of their own. */
static enum lw_status check_processes(const char *name, const struct lw_trace *t,
                                      struct lw_err *err)
{
    int64_t first = -1;
    const char *a, *b;

    for (int64_t i = 0; i < t->n; i++) {
        if (!lw_trace_on_host(t, i) || !lw_trace_name_begins(t, i, "ProfilerStep#"))
            continue;
        first = first < 0 ? i : first;
        int n = process_of(t, first, &a), len = process_of(t, i, &b);
        if (t->name[i] != t->name[first] || (n == len && strncmp(a, b, (size_t)n) == 0) ||
            !makes_calls(t, a, n) || !makes_calls(t, b, len))
            continue;
        return lw_fail_at(err, LW_EFORMAT, name, 0,
                          "processes %.*s and %.*s both have their own %s: ranks of a run that "
                          "were merged into one file; give the file of each rank",
                          n, a, len, b, lw_trace_name(t, i));
    }
    return LW_OK;
}

/* A profiler that recorded nothing writes a list all the same. */
static enum lw_status check_empty(const char *name, const struct lw_trace *t, struct lw_err *err)
{
    if (t->n_events == 0)
        return lw_fail_at(err, LW_EFORMAT, name, 0,
                          "its list of events is empty: the profiler recorded nothing. Run whole "
                          "steps while it is active (of a schedule: wait and warmup steps are not "
                          "recorded), and export after it has stopped");
    if (t->n == 0 && t->n_timeless == 0)
        return lw_fail_at(err, LW_EFORMAT, name, 0,
                          "of its %lld events none is an op, a call, a kernel or a range with a "
                          "duration (\"ph\": \"X\"): metadata alone, or not a profile. Record with "
                          "ProfilerActivity.CPU, on a device also CUDA",
                          (long long)t->n_events);
    return LW_OK;
}

enum lw_status lw_kineto_take(struct lw_input *in, const struct lw_err *damage,
                              const struct lw_trace_reading *options, struct lw_trace *out,
                              struct lw_err *err)
{
    struct lw_trace t;
    const char *name = in->name;
    enum lw_status status = lw_kineto_parse(name, in->text, in->len, options, &t, err);

    lw_input_free(in);
    LW_TRY(status);
    status = add_damage(&t, damage, err);
    if (status == LW_OK)
        status = lw_trace_sort(&t, err);
    if (status == LW_OK)
        status = check_empty(name, &t, err);
    if (status == LW_OK)
        status = check_processes(name, &t, err);
    LW_GIVE(status, out, t, lw_trace_free(&t));
}
