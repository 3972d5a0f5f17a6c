/* An event of a Kineto trace into a row. Key order is free: what arguments mean depends on name and
 * category, which usually come first; where they do not, everything is collected. */
#include "traces/kineto/kineto_reader.h"

#include <string.h>
#include <strings.h>

#include "shared/json/json.h"
#include "traces/trace/decimal_time.h"

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

/* Most events are of the category of one of the last few. */
static int class_of(struct kineto_reader *r, const char *category, size_t len)
{
    size_t at = len > 0 ? (len + (unsigned char)category[0]) % KINETO_CATEGORIES : 0;
    struct kineto_category *known = &r->category[at];

    if (known->len == len && len > 0 && memcmp(known->text, category, len) == 0)
        return known->class;
    int class = KINETO_SKIPPED;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (strlen(categories[i].category) == len &&
            strncasecmp(categories[i].category, category, len) == 0)
            class = (int)categories[i].class;
    if (len <= sizeof known->text) {
        memcpy(known->text, category, len);
        known->len = len;
        known->class = class;
    }
    return class;
}

static bool is_operator(const struct kineto_reader *r, const struct kineto_event *e)
{
    return r->shapes && e->name && e->name_len > 6 && memcmp(e->name, "aten::", 6) == 0;
}

/* Values say of few operators what they do. */
static bool has_values(const struct kineto_event *e)
{
    static const char *const parts[] = {"attention", "convolution_backward"};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (memmem(e->name, e->name_len, parts[i], strlen(parts[i])))
            return true;
    return false;
}

/* The keys of an argument, in the order of argument_keys. */
enum {
    CORRELATION, STREAM, DEVICE, SEQUENCE, RECORD, EXTERNAL, EXTERNAL_LOWER, WAIT_STREAM,
    WAIT_RECORD, COLLECTIVE, DTYPE, IN_NUMEL, OUT_NUMEL, GROUP_SIZE, GROUP, DIMS, DIMS_LOWER,
    TYPES, VALUES, N_ARGUMENT_KEYS
};
static const char *const argument_keys[] = {
    "correlation", "stream", "device", "Sequence number", "Record function id", "External id",
    "external id", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "Collective name",
    "dtype", "In msg nelems", "Out msg nelems", "Group size", "Process Group Name", "Input Dims",
    "Input dims", "Input type", "Concrete Inputs",
};

enum { PH, CAT, NAME, TS, DUR, PID, TID, ARGS, N_EVENT_KEYS };
static const char *const event_keys[] = {"ph", "cat", "name", "ts", "dur", "pid", "tid", "args"};

void traces_kineto_set_keys(struct kineto_reader *r)
{
    lw_json_keys_init(&r->of_event, event_keys, N_EVENT_KEYS);
    lw_json_keys_init(&r->of_skipped, event_keys, PH + 1);
    lw_json_keys_init(&r->of_arguments, argument_keys, N_ARGUMENT_KEYS);
}

static void read_input(struct kineto_reader *r, struct kineto_event *e, int key)
{
    bool dims = key == DIMS || key == DIMS_LOWER, type = key == TYPES;

    if (is_operator(r, e)) {
        if (dims)
            traces_kineto_read_sizes(r, e);
        else if (type)
            traces_kineto_read_types(r, e);
        else if (has_values(e))
            e->detail.input_values = traces_kineto_read_values(r);
    } else if (dims && traces_kineto_is_shaped(e)) {
        traces_kineto_read_shape(r, e);
    } else if (type && traces_kineto_is_shaped(e)) {
        traces_kineto_read_shape_type(r, e);
    } else if (type && traces_kineto_is_typed(e)) {
        traces_kineto_read_shape_type(r, e);
        e->has_detail |= e->detail.shape_type >= 0;
    }
}

/* What the event is part of: a collective, a wait. */
static void read_detail(struct kineto_reader *r, struct kineto_event *e, int key)
{
    struct lw_row_detail *d = &e->detail;

    e->has_detail |= key == COLLECTIVE || key == WAIT_STREAM || key == WAIT_RECORD;
    switch (key) {
    case WAIT_STREAM: d->wait_stream = traces_kineto_read_int32(r->json, -1); break;
    case WAIT_RECORD: d->wait_record = traces_kineto_read_int(r->json, -1); break;
    case COLLECTIVE: d->op = traces_kineto_read_text(r); break;
    case DTYPE: d->dtype = traces_kineto_read_text(r); break;
    case IN_NUMEL: d->in_numel = traces_kineto_read_int(r->json, -1); break;
    case OUT_NUMEL: d->out_numel = traces_kineto_read_int(r->json, -1); break;
    case GROUP_SIZE: d->group_size = traces_kineto_read_int32(r->json, 0); break;
    case GROUP: d->group = traces_kineto_read_text(r); break;
    default: read_input(r, e, key); break;
    }
}

static void read_argument(struct kineto_reader *r, struct kineto_event *e, int key)
{
    struct lw_json *j = r->json;

    switch (key) {
    case CORRELATION: e->correlation = traces_kineto_read_int(j, -1); break;
    case STREAM: e->stream = traces_kineto_read_int32(j, -1); break;
    case DEVICE: e->device = traces_kineto_read_int32(j, -1); break;
    case SEQUENCE: e->sequence = traces_kineto_read_int(j, -1); break;
    case RECORD: e->record = traces_kineto_read_int32(j, 0); break;
    case EXTERNAL:
    case EXTERNAL_LOWER: e->external = traces_kineto_read_int32(j, 0); break;
    default: read_detail(r, e, key); break;
    }
}

static void read_arguments(struct kineto_reader *r, struct kineto_event *e)
{
    if (lw_json_type(r->json) != LW_JSON_OBJECT || !lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    for (int key; (key = lw_json_next_of(r->json, &r->of_arguments)) >= 0;)
        read_argument(r, e, key);
}

static void read_tid(struct lw_json *j, struct kineto_event *e)
{
    enum lw_json_type type = lw_json_type(j);

    if (type == LW_JSON_NUMBER)
        e->tid = lw_json_number_text(j, &e->tid_len);
    else if (type == LW_JSON_STRING)
        e->tid = lw_json_view(j, &e->tid_len);
}

static void read_pid(struct lw_json *j, struct kineto_event *e)
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

static void read_field(struct kineto_reader *r, struct kineto_event *e, int key)
{
    struct lw_json *j = r->json;
    const char *text;
    size_t len;

    switch (key) {
    case PH:
        text = lw_json_view(j, &len);
        e->ph = len == 1 ? text[0] : '?';
        r->n_phases++;
        break;
    case CAT:
        text = lw_json_view(j, &len);
        e->class = class_of(r, text, len);
        break;
    case NAME: e->name = lw_json_view(j, &e->name_len); break;
    case TS: e->ts_ns = traces_kineto_read_time(j, &e->has_ts); break;
    case DUR: e->dur_ns = traces_kineto_read_time(j, &e->has_dur); break;
    case PID: read_pid(j, e); break;
    case TID: read_tid(j, e); break;
    default: read_arguments(r, e); break;
    }
}

static bool is_skipped(const struct kineto_event *e)
{
    return e->class == KINETO_SKIPPED || (e->ph != 0 && e->ph != 'X');
}

/* The host thread "pid/tid" as a string number. */
static int32_t thread_of(struct kineto_reader *r, const struct kineto_event *e)
{
    char text[sizeof r->thread];
    size_t tid_len = e->tid && e->tid_len < 60 ? e->tid_len : e->tid ? 60 : 0;
    size_t len = e->pid_len + 1 + tid_len;

    memcpy(text, e->pid, e->pid_len);
    text[e->pid_len] = '/';
    if (tid_len)
        memcpy(text + e->pid_len + 1, e->tid, tid_len);
    if (len != r->thread_len || memcmp(text, r->thread, len) != 0) {
        r->thread_id = traces_kineto_intern(r, text, len);
        memcpy(r->thread, text, len);
        r->thread_len = len;
    }
    return r->thread_id;
}

/* The stream of a device row: its argument, else the thread id ("stream 7", 7). */
static int32_t stream_of(const struct kineto_event *e)
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
static int32_t device_of(struct kineto_reader *r, const struct kineto_event *e)
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

static int32_t track_of(struct kineto_reader *r, const struct kineto_event *e)
{
    int32_t stream = stream_of(e), device = device_of(r, e);

    return stream >= 0 && stream < LW_DEVICE_STREAMS ? stream + device * LW_DEVICE_STREAMS : stream;
}

static enum lw_status add_event(struct kineto_reader *r, struct kineto_event *e, struct lw_err *err)
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
        .name = traces_kineto_intern(r, e->name ? e->name : "", e->name ? e->name_len : 0),
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

static bool is_legacy(const struct kineto_event *e)
{
    static const char pid[] = "CPU functions";

    return e->pid_len == sizeof pid - 1 && memcmp(e->pid, pid, sizeof pid - 1) == 0;
}

enum lw_status traces_kineto_read_event(struct kineto_reader *r, struct lw_err *err)
{
    struct lw_json *j = r->json;
    struct kineto_event e = {.class = KINETO_UNKNOWN, .correlation = -1, .sequence = -1,
                             .stream = -1, .device = -1,
                             .detail = {.op = -1, .dtype = -1, .in_numel = -1, .out_numel = -1,
                                        .group = -1, .wait_stream = -1, .wait_record = -1,
                                        .shape_numel = -1, .shape_type = -1}};

    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return LW_OK; /* the reader holds the error */
    for (int key; (key = lw_json_next_of(j, is_skipped(&e) ? &r->of_skipped : &r->of_event)) >= 0;)
        read_field(r, &e, key);
    if (r->nomem)
        return lw_fail_nomem(err);
    /* the legacy profiler (EventList.export_chrome_trace, torch built without Kineto) writes host
     * ops without a category */
    if (e.class == KINETO_UNKNOWN && is_legacy(&e))
        e.class = LW_ROW_HOST;
    bool kept = e.ph == 'X' && e.class >= 0;
    if (kept && (!e.has_ts || !e.has_dur))
        lw_json_fail(j, "a complete event (ph X) needs \"%s\"", e.has_ts ? "dur" : "ts");
    if (lw_json_failed(j))
        return LW_OK;
    r->trace->n_events++;
    return kept ? add_event(r, &e, err) : LW_OK;
}
