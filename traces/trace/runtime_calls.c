/* What runtime calls mean. Kinds come from names (cuda*, hip* and cu* spell them alike); what a
 * wait is for comes from the recorder's cuda_sync rows where the file has them, joined by
 * correlation.
 *
 * Where it does not, order tells, by what PyTorch does (torch/csrc/distributed/c10d,
 * ProcessGroupNCCL.cpp: before a collective the communication stream waits for an event on the
 * current one; Work.wait makes the current stream wait for the collective's end event):
 *   - a stream wait before a launch of communication, inside the host's range of that collective:
 *     the communication stream waits for the one that the thread launched on before (where an
 *     execution trace was joined, for the one on which the collective's data were made);
 *   - one after the launch in that range is for callbacks and delays nothing of this file;
 *   - any other: the stream of the thread's launch before or after waits for the oldest collective
 *     that was launched for its work and for which no call has waited yet; without one it stays
 *     unknown;
 *   - an event's or stream's synchronisation: the stream of the thread's last launch, an event up
 *     to the last record on the thread.
 *
 * An inferred wait is dropped where the recording disproves it: the first op after a stream's wait
 * started, or the waiting call returned, before the awaited work had ended. A file that holds no
 * stream wait at all was recorded without them: its collectives wait for the thread's launch before
 * on another stream, unless they started before it ended. Else device times are not used, only
 * order and names. Not seen: waits by polling (EventQuery),
 * implicit ones (cudaFree, cudaMalloc), and any inside a graph. */
#include "traces/trace/runtime_calls.h"
#include "shared/base/sort.h"
#include "traces/trace/comm_facts.h"
#include "shared/numbers/order.h"

#include <stdlib.h>
#include <string.h>

struct builder {
    const struct lw_trace *t;
    struct traces_calls *out;
    int64_t *next, *before;    /* [n] the launch on the same thread after and before a call; -1 */
    int64_t *ranges, n_ranges; /* host rows of collectives: a wait inside depends on its launch */
    int32_t *origin; /* [n] of a collective: the stream whose work it was launched for; -1 */
    bool *taken;     /* [n] of a collective: some wait is for it */
    uint8_t *kind_of; /* [strings.n] one more than the kind of a call of that name; 0 = not known */
    int64_t oldest;  /* no collective before it is untaken */
};

const char *traces_call_kind_name(enum traces_call_kind k)
{
    static const char *const names[TRACES_N_CALL_KINDS] = {
        "other",       "launch",     "copy",        "record",
        "stream_wait", "event_sync", "stream_sync", "device_sync",
    };

    return names[k];
}

bool traces_call_blocks(enum traces_call_kind k)
{
    return k == TRACES_CALL_COPY || k == TRACES_CALL_EVENT_SYNC || k == TRACES_CALL_STREAM_SYNC ||
           k == TRACES_CALL_DEVICE_SYNC;
}

static enum traces_call_kind kind_of_name(const char *name)
{
    static const struct {
        const char *mark;
        enum traces_call_kind kind;
    } names[] = {
        {"EventRecord", TRACES_CALL_RECORD},
        {"StreamWaitEvent", TRACES_CALL_STREAM_WAIT},
        {"EventSynchronize", TRACES_CALL_EVENT_SYNC},
        {"StreamSynchronize", TRACES_CALL_STREAM_SYNC},
        {"DeviceSynchronize", TRACES_CALL_DEVICE_SYNC},
        {"CtxSynchronize", TRACES_CALL_DEVICE_SYNC},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(name, names[i].mark))
            return names[i].kind;
    return TRACES_CALL_OTHER;
}

static enum traces_call_kind kind_of_row(struct builder *b, int64_t row)
{
    uint8_t *kind = &b->kind_of[b->t->name[row]];

    if (*kind == 0)
        *kind = (uint8_t)(1 + kind_of_name(lw_trace_name(b->t, row)));
    return (enum traces_call_kind)(*kind - 1);
}

/* CUDA and HIP return from a copy to pageable memory, and from every copy that is not "Async", when
 * it is done. */
static bool copy_blocks(const struct lw_trace *t, int64_t call_row, int64_t device_row)
{
    const char *call = lw_trace_name(t, call_row), *what = lw_trace_name(t, device_row);

    if (!strstr(call, "Memcpy"))
        return false;
    return !strstr(call, "Async") || (strstr(what, "DtoH") && strstr(what, "Pageable"));
}

/* ---- calls and their work ---- */

/* The call that row `launch` is; most come after call `before`. Calls begin with their rows. */
static struct traces_call *call_of(const struct traces_calls *out, int64_t launch,
                                   const struct traces_call *before)
{
    const struct traces_call *end = out->calls + out->n;

    if (before && before + 1 < end && before[1].row == launch)
        return out->calls + (before + 1 - out->calls);
    return out->calls + lw_items_upto(out->calls, out->n, sizeof *out->calls, launch) - 1;
}

/* What each call launched, in the order of start that device rows have. */
static void share_device(struct traces_calls *out, const struct traces_launches *l)
{
    struct traces_call *c = NULL;

    for (int64_t i = 0; i < l->n; i++)
        if (l->launch[i] >= 0) {
            c = call_of(out, l->launch[i], c);
            c->n_device++;
        }
    for (int64_t i = 0; i < out->n; i++) {
        out->calls[i].first_device = out->n_device;
        out->n_device += out->calls[i].n_device;
        out->calls[i].n_device = 0;
    }
    for (int64_t i = 0; i < l->n; i++)
        if (l->launch[i] >= 0) {
            c = call_of(out, l->launch[i], c);
            out->device[c->first_device + c->n_device++] = l->row[i];
        }
}

static void describe(const struct lw_trace *t, struct traces_call *c, const int64_t *device,
                     const uint8_t *class_of)
{
    if (c->n_device == 0)
        return;
    c->stream = t->track[*device];
    c->kind = copy_blocks(t, c->row, *device) ? TRACES_CALL_COPY : TRACES_CALL_LAUNCH;
    for (int64_t i = 0; i < c->n_device && !c->comm; i++)
        c->comm = t->class[device[i]] == LW_ROW_KERNEL &&
                  class_of[t->name[device[i]]] == LW_KERNEL_COMM;
}

static enum lw_status list_calls(struct builder *b, const struct traces_launches *l,
                                 const struct lw_kernel_table *table, struct lw_arena *arena,
                                 struct lw_arena *scratch, struct lw_err *err)
{
    const struct lw_trace *t = b->t;
    struct traces_calls *out = b->out;
    int64_t n_calls = 0;
    uint8_t *class_of;

    if (l->n > INT32_MAX)
        return lw_fail(err, LW_EFORMAT, "%lld device ops; allowed: %d", (long long)l->n, INT32_MAX);
    LW_TRY(traces_kernel_classes(t, table, scratch, &class_of, err));
    for (int64_t i = 0; i < t->n; i++)
        n_calls += t->class[i] == LW_ROW_LAUNCH;
    LW_TAKE(scratch, b->kind_of, t->strings.n, err);
    LW_TAKE(arena, out->calls, n_calls, err);
    LW_TAKE(arena, out->device, l->n, err);
    for (int64_t i = 0; i < t->n; i++)
        if (t->class[i] == LW_ROW_LAUNCH)
            out->calls[out->n++] = (struct traces_call){
                .row = i, .kind = kind_of_row(b, i), .stream = -1, .on_stream = -1, .upto = -1,
                .follows = -1};
    share_device(out, l);
    for (int64_t i = 0; i < out->n; i++)
        describe(t, &out->calls[i], out->device + out->calls[i].first_device, class_of);
    return LW_OK;
}

/* ---- what the recorder knows ---- */

static void take_sync(struct builder *b, int64_t row, const struct traces_correlated *v, int64_t n)
{
    const struct lw_trace *t = b->t;
    const struct lw_row_detail *d = lw_trace_detail(t, row);
    int64_t call = traces_correlated_find(v, n, t->link[row]);
    int64_t record = traces_correlated_find(v, n, d->wait_record);

    if (call < 0)
        return;
    struct traces_call *c = &b->out->calls[call];
    if (c->kind == TRACES_CALL_STREAM_WAIT || c->kind == TRACES_CALL_EVENT_SYNC) {
        if (d->wait_stream < 0 || (record >= 0 && record > call))
            return; /* the event is unknown to the recorder: it was recorded before the capture */
        c->on_stream = d->wait_stream;
        c->upto = record >= 0 ? record : call;
        if (record >= 0)
            b->out->calls[record].stream = d->wait_stream;
        c->stream = c->kind == TRACES_CALL_STREAM_WAIT ? t->track[row] : -1;
    } else if (c->kind == TRACES_CALL_STREAM_SYNC) {
        c->on_stream = t->track[row];
        c->upto = call;
    } else {
        return;
    }
    c->source = TRACES_WAIT_RECORDED;
}

static enum lw_status take_syncs(struct builder *b, bool *any, struct lw_arena *scratch,
                                 struct lw_err *err)
{
    const struct lw_trace *t = b->t;
    int64_t n = 0;
    struct traces_correlated *v;

    for (int64_t i = 0; i < t->n && !*any; i++)
        *any = t->class[i] == LW_ROW_SYNC;
    if (!*any)
        return LW_OK;
    LW_TAKE(scratch, v, b->out->n, err);
    for (int64_t i = 0; i < b->out->n; i++)
        if (t->link[b->out->calls[i].row] >= 0)
            v[n++] = (struct traces_correlated){t->link[b->out->calls[i].row], i};
    traces_correlated_sort(v, n);
    for (int64_t i = 0; i < t->n; i++)
        if (t->class[i] == LW_ROW_SYNC)
            take_sync(b, i, v, n);
    return LW_OK;
}

/* ---- what order tells ---- */

/* Number the host threads of calls from 0; how many there are. */
static int32_t number_threads(const struct builder *b, int32_t *of_string)
{
    int32_t n = 0;

    memset(of_string, 0xff, (size_t)b->t->strings.n * sizeof *of_string);
    for (int64_t i = 0; i < b->out->n; i++) {
        int32_t s = b->t->track[b->out->calls[i].row];
        if (s >= 0 && of_string[s] < 0)
            of_string[s] = n++;
    }
    return n;
}

static bool launches_work(const struct traces_call *c)
{
    return c->n_device > 0;
}

static void link_launches(struct builder *b, const int32_t *of_string, int64_t *last,
                          int32_t n_threads)
{
    struct traces_calls *out = b->out;

    memset(last, 0xff, (size_t)n_threads * sizeof *last);
    for (int64_t i = 0; i < out->n; i++) {
        int32_t k = of_string[b->t->track[out->calls[i].row]];
        b->before[i] = last[k];
        if (launches_work(&out->calls[i]))
            last[k] = i;
    }
    memset(last, 0xff, (size_t)n_threads * sizeof *last);
    for (int64_t i = out->n - 1; i >= 0; i--) {
        int32_t k = of_string[b->t->track[out->calls[i].row]];
        b->next[i] = last[k];
        if (launches_work(&out->calls[i]))
            last[k] = i;
    }
}

static int32_t stream_at(const struct builder *b, int64_t call)
{
    return call >= 0 ? b->out->calls[call].stream : -1;
}

/* ---- stream waits ---- */

static bool is_comm_range(const struct lw_trace *t, int64_t row)
{
    static const char *const prefixes[] = {"record_param_comms", "nccl:", "c10d::", "rccl:"};

    for (size_t i = 0; lw_trace_on_host(t, row) && i < sizeof prefixes / sizeof *prefixes; i++)
        if (lw_trace_name_begins(t, row, prefixes[i]))
            return true;
    return false;
}

/* Some range of a collective holds both calls of one thread. */
static bool share_range(const struct builder *b, int64_t call, int64_t other)
{
    const struct lw_trace *t = b->t;
    int64_t a = t->start_ns[b->out->calls[call].row], o = t->start_ns[b->out->calls[other].row];
    int64_t first = a < o ? a : o, last = a < o ? o : a;
    int64_t i = lw_trace_rows_upto(t, b->ranges, b->n_ranges, first) - 1;

    for (int64_t tries = 0; i >= 0 && tries < 8; i--, tries++) {
        int64_t row = b->ranges[i];
        if (t->track[row] == t->track[b->out->calls[call].row] && lw_trace_end_ns(t, row) > last)
            return true;
    }
    return false;
}

/* The wait makes the communication stream wait: the next launch of the thread is communication, in
 * one range with it, or (where no range tells) no other wait is between. */
static bool is_before_comm(const struct builder *b, int64_t i)
{
    const struct traces_calls *out = b->out;
    int64_t next = b->next[i];

    if (next < 0 || !out->calls[next].comm)
        return false;
    if (b->n_ranges > 0)
        return share_range(b, i, next);
    for (int64_t k = i + 1; k < next; k++)
        if (out->calls[k].kind == TRACES_CALL_STREAM_WAIT &&
            b->t->track[out->calls[k].row] == b->t->track[out->calls[i].row])
            return false;
    return true;
}

/* Right after the launch of a collective, in its range: a stream of its own (for callbacks) waits.
 */
static bool is_after_comm(const struct builder *b, int64_t i)
{
    int64_t before = b->before[i];

    return before >= 0 && b->out->calls[before].comm && b->n_ranges > 0 &&
           share_range(b, i, before);
}

/* The thread's latest launch before call i on another stream than that; -1 = none. */
static int64_t other_launch(const struct builder *b, int64_t i, int32_t stream)
{
    int64_t k = b->before[i];

    while (k >= 0 && b->out->calls[k].stream == stream)
        k = b->before[k];
    return k;
}

/* ---- what an execution trace says ---- */

/* The last of the thread's launches that a host row made; -1 = none. */
static int64_t launch_in(const struct builder *b, int64_t row)
{
    const struct traces_calls *out = b->out;
    int64_t low = 0, high = out->n, end = lw_trace_end_ns(b->t, row);

    while (low < high) { /* the first call after the row */
        int64_t middle = low + (high - low) / 2;
        if (b->t->start_ns[out->calls[middle].row] <= end)
            low = middle + 1;
        else
            high = middle;
    }
    for (int64_t k = low - 1; k >= 0; k--) {
        const struct traces_call *c = &out->calls[k];
        if (b->t->start_ns[c->row] < b->t->start_ns[row])
            return -1;
        if (c->n_device > 0 && b->t->track[c->row] == b->t->track[row])
            return k;
    }
    return -1;
}

/* The stream on which the latest work that collective `comm` uses was launched; -1 = not known. */
static int32_t stream_of_data(const struct builder *b, int64_t comm)
{
    const struct lw_trace *t = b->t;
    const struct traces_call *c = &b->out->calls[comm];
    int64_t at = t->start_ns[c->row], latest = -1;
    int64_t rows = lw_items_upto(t->edges, t->n_edges, sizeof *t->edges, c->row);

    for (int64_t i = rows - 1; i >= 0; i--) {
        int64_t to = t->edges[i].to;
        if (to != t->edges[rows - 1].to || t->track[to] != t->track[c->row] ||
            lw_trace_end_ns(t, to) < at)
            break; /* the ranges of collectives do not nest */
        int64_t k = launch_in(b, t->edges[i].from);
        latest = k > latest && b->out->calls[k].stream != c->stream ? k : latest;
    }
    return latest >= 0 ? b->out->calls[latest].stream : -1;
}

/* The thread's launch whose work collective `comm` waits for, from call i on back: the latest on
 * the stream that made its data, else on any other; -1 = none. */
static int64_t awaited_launch(const struct builder *b, int64_t i, int64_t comm)
{
    int32_t stream = stream_of_data(b, comm);
    int64_t k = stream >= 0 ? b->before[i] : -1;

    while (k >= 0 && b->out->calls[k].stream != stream)
        k = b->before[k];
    return k >= 0 ? k : other_launch(b, i, b->out->calls[comm].stream);
}

/* ---- waits of streams ---- */

static void set_wait(struct traces_call *c, int32_t on_stream, int64_t upto)
{
    if (upto < 0)
        return;
    c->on_stream = on_stream;
    c->upto = upto;
    c->source = TRACES_WAIT_INFERRED;
}

/* The oldest collective before call i that was launched for work of one of two streams and that no
 * call has waited for; it now is waited for. -1 = none. */
static int64_t take_collective(struct builder *b, int64_t i, int32_t one, int32_t other)
{
    const struct traces_calls *out = b->out;
    int64_t *first = &b->oldest;

    while (*first < i && (!out->calls[*first].comm || b->taken[*first]))
        ++*first;
    for (int64_t k = *first; k < i; k++)
        if (out->calls[k].comm && !b->taken[k] && b->origin[k] >= 0 &&
            (b->origin[k] == one || b->origin[k] == other)) {
            b->taken[k] = true;
            return k;
        }
    return -1;
}

/* Which stream was current is not recorded: that of the thread's launch before, or of the one
 * after. The collective that is waited for tells, as it was launched for the work of that stream.
 */
static void infer_stream_wait(struct builder *b, int64_t i)
{
    struct traces_calls *out = b->out;
    struct traces_call *c = &out->calls[i];
    int64_t next = b->next[i], before = b->before[i], upto;

    if (is_before_comm(b, i)) {
        c->stream = out->calls[next].stream;
        upto = awaited_launch(b, i, next);
        set_wait(c, stream_at(b, upto), upto);
        return;
    }
    if (is_after_comm(b, i))
        return;
    if (next >= 0 && out->calls[next].comm)
        next = other_launch(b, next, out->calls[next].stream);
    if (before >= 0 && out->calls[before].comm)
        before = other_launch(b, before, out->calls[before].stream);
    upto = take_collective(b, i, stream_at(b, next), stream_at(b, before));
    if (upto >= 0)
        c->stream = b->origin[upto];
    set_wait(c, stream_at(b, upto), upto);
}

/* The stream whose work each collective was launched for: that of the thread's launch before. */
static enum lw_status find_origins(struct builder *b, struct lw_arena *scratch, struct lw_err *err)
{
    LW_TAKE(scratch, b->origin, b->out->n, err);
    LW_TAKE(scratch, b->taken, b->out->n, err);
    for (int64_t i = 0; i < b->out->n; i++)
        if (b->out->calls[i].comm)
            b->origin[i] = stream_at(b, awaited_launch(b, i, i));
        else
            b->origin[i] = -1;
    return LW_OK;
}

/* ---- waits of the host ---- */

static int64_t last_record(const struct builder *b, int64_t i)
{
    const struct traces_calls *out = b->out;
    int32_t thread = b->t->track[out->calls[i].row];

    for (int64_t k = i - 1; k >= 0; k--)
        if (out->calls[k].kind == TRACES_CALL_RECORD && b->t->track[out->calls[k].row] == thread)
            return k;
    return -1;
}

static void infer(struct builder *b, int64_t i)
{
    struct traces_call *c = &b->out->calls[i];

    if (c->source == TRACES_WAIT_RECORDED)
        return;
    switch (c->kind) {
    case TRACES_CALL_STREAM_WAIT:
        infer_stream_wait(b, i);
        break;
    case TRACES_CALL_STREAM_SYNC:
        set_wait(c, stream_at(b, b->before[i]), b->before[i]);
        break;
    case TRACES_CALL_EVENT_SYNC: {
        int64_t record = last_record(b, i);
        int64_t launch = record >= 0 ? b->before[record] : b->before[i];
        set_wait(c, stream_at(b, launch), launch);
        break;
    }
    case TRACES_CALL_DEVICE_SYNC:
        c->on_stream = -1;
        c->upto = i;
        c->source = TRACES_WAIT_RECORDED; /* its name says it all */
        break;
    default:
        break;
    }
}

/* ---- what device times disprove ---- */

enum { CLOCK_NS = 2000 }; /* of host and device agree to that; recorders round to 1 us */

static int64_t end_of_launch(const struct builder *b, int64_t call)
{
    const struct traces_call *c = &b->out->calls[call];
    int64_t end = INT64_MIN;

    for (int64_t i = 0; i < c->n_device; i++) {
        int64_t e = lw_trace_end_ns(b->t, b->out->device[c->first_device + i]);
        end = e > end ? e : end;
    }
    return end;
}

/* When the work that call i waits for had ended; INT64_MIN: there is none. */
static int64_t end_of_awaited(const struct builder *b, int64_t i)
{
    const struct traces_call *c = &b->out->calls[i];

    for (int64_t k = c->upto; k >= 0; k--)
        if (b->out->calls[k].n_device > 0 && b->out->calls[k].stream == c->on_stream)
            return end_of_launch(b, k);
    return INT64_MIN;
}

/* When what waits went on: the next op of the stream, or the host after the call. */
static int64_t went_on(const struct builder *b, int64_t i)
{
    const struct traces_call *c = &b->out->calls[i];

    if (c->kind != TRACES_CALL_STREAM_WAIT)
        return lw_trace_end_ns(b->t, c->row);
    for (int64_t k = i + 1; k < b->out->n; k++)
        if (b->out->calls[k].n_device > 0 && b->out->calls[k].stream == c->stream)
            return b->t->start_ns[b->out->device[b->out->calls[k].first_device]];
    return INT64_MAX;
}

static void drop_disproved(struct builder *b)
{
    struct traces_calls *out = b->out;

    for (int64_t i = 0; i < out->n; i++) {
        struct traces_call *c = &out->calls[i];
        if (c->source != TRACES_WAIT_INFERRED || c->upto < 0)
            continue;
        int64_t end = end_of_awaited(b, i);
        if (end == INT64_MIN || went_on(b, i) >= end - CLOCK_NS)
            continue;
        c->source = TRACES_WAIT_UNKNOWN;
        c->upto = -1;
        out->n_disproved++;
    }
}

/* Collectives of a file without any stream wait. */
static void follow_launches(struct builder *b)
{
    struct traces_calls *out = b->out;

    for (int64_t i = 0; i < out->n; i++)
        if (out->calls[i].kind == TRACES_CALL_STREAM_WAIT)
            return;
    for (int64_t i = 0; i < out->n; i++) {
        struct traces_call *c = &out->calls[i];
        int64_t before = c->comm ? awaited_launch(b, i, i) : -1;
        if (before < 0)
            continue;
        if (b->t->start_ns[out->device[c->first_device]] >= end_of_launch(b, before) - CLOCK_NS) {
            c->follows = before;
            out->n_unrecorded++;
        }
    }
}

/* Some call waits or launches communication: else order has nothing to tell. */
static bool may_wait(const struct traces_calls *c)
{
    for (int64_t i = 0; i < c->n; i++)
        if (c->calls[i].comm || c->calls[i].kind >= TRACES_CALL_STREAM_WAIT)
            return true;
    return false;
}

/* Where the recorder wrote cuda_sync rows, a call without such a row does not wait for work of this
 * file. */
static enum lw_status infer_all(struct builder *b, bool recorded, struct lw_arena *scratch,
                                struct lw_err *err)
{
    struct traces_calls *out = b->out;
    int32_t *of_string;
    int64_t *last;

    if (!may_wait(out))
        return LW_OK;
    LW_TAKE(scratch, of_string, b->t->strings.n, err);
    LW_TAKE(scratch, b->before, out->n, err);
    LW_TAKE(scratch, b->next, out->n, err);
    int32_t n_threads = number_threads(b, of_string);
    LW_TAKE(scratch, last, n_threads, err);
    link_launches(b, of_string, last, n_threads);
    LW_TRY(lw_trace_pick(b->t, 0, b->t->n, is_comm_range, scratch, &b->ranges, &b->n_ranges, err));
    LW_TRY(find_origins(b, scratch, err));
    for (int64_t i = 0; i < out->n; i++)
        if (!recorded || out->calls[i].kind == TRACES_CALL_DEVICE_SYNC)
            infer(b, i);
    drop_disproved(b);
    follow_launches(b);
    return LW_OK;
}

enum lw_status traces_calls_build(const struct lw_trace *t, const struct traces_launches *launches,
                                  const struct lw_kernel_table *table, struct lw_arena *arena,
                                  struct traces_calls *out, struct lw_err *err)
{
    struct traces_calls calls = {0};
    struct lw_arena scratch = {0};
    struct builder b = {.t = t, .out = &calls};
    bool recorded = false;

    enum lw_status status = list_calls(&b, launches, table, arena, &scratch, err);
    if (status == LW_OK)
        status = take_syncs(&b, &recorded, &scratch, err);
    if (status == LW_OK)
        status = infer_all(&b, recorded, &scratch, err);
    lw_arena_free(&scratch);
    if (status == LW_OK)
        *out = calls;
    return status;
}
