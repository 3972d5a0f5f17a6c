/* Figures of one rank. Classes are those of kernel_class.c. The kinds of idle time, the limits of
 * calls and delays and the length of the queue are those of HolisticTraceAnalysis (f4d0062:
 * breakdown_analysis.py, cuda_kernel_analysis.py, trace_counters.py), but idle time is summed over
 * streams, and the queue is that of all streams.
 *
 * The critical path goes back from the op that ends last. What an op waited for is the latest to
 * end of: the op before it on its stream, the last op that a recorded wait of its stream was for,
 * and the call that launched it. Before a call the host ran since the last call that blocked it,
 * and before that the op which that call waited for. The time between an op and what it waited for
 * is a gap. So the path's parts add up to it, and no change to one part alone can save more than
 * its share. */
#include "traces/report/rank_report.h"

#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/timeline/timeline.h"
#include "traces/trace/comm_facts.h"
#include "traces/trace/runtime_calls.h"

enum { QUEUE_NS = 30, LONG_CALL_NS = 50000, LONG_DELAY_NS = 100000 };

struct study {
    const struct lw_trace *t;
    struct traces_rank_report *r;
    struct lw_arena scratch;
    struct traces_launches launches;
    struct traces_calls calls;
    uint8_t *work;      /* [launches.n] enum traces_work */
    int64_t *previous;  /* [launches.n] the op before on the stream, by place; -1 */
    int64_t *call;      /* [launches.n] into calls; -1 */
};

const char *traces_work_name(int work)
{
    static const char *const names[TRACES_N_WORKS] = {"other", "communication", "compute",
                                                      "memory", "copies", "barriers"};

    return names[work];
}

const char *traces_idle_name(int idle)
{
    static const char *const names[TRACES_N_IDLES] = {"host", "between_ops", "other", "unknown"};

    return names[idle];
}

/* ---- work ---- */

static enum lw_status sum_work(struct study *s, const struct lw_kernel_table *table,
                               struct lw_err *err)
{
    static const uint8_t of_class[] = {TRACES_WORK_OTHER, TRACES_WORK_COMM, TRACES_WORK_COMPUTE,
                                       TRACES_WORK_MEMORY};
    const struct lw_trace *t = s->t;
    struct lw_interval *comm, *compute;
    int64_t n_comm = 0, n_compute = 0, from = INT64_MAX, to = INT64_MIN, n = s->launches.n;
    struct traces_comm_index index;
    uint8_t *class_of;

    LW_TRY(traces_kernel_classes(t, table, &s->scratch, &class_of, err));
    LW_TRY(traces_comm_index_build(t, &s->scratch, &index, err));
    LW_TAKE(&s->scratch, s->work, n, err);
    LW_TAKE(&s->scratch, comm, n, err);
    LW_TAKE(&s->scratch, compute, n, err);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = s->launches.row[i], end = lw_trace_end_ns(t, row);
        bool kernel = t->class[row] == LW_ROW_KERNEL;
        s->work[i] = kernel ? of_class[class_of[t->name[row]]] : TRACES_WORK_COPY;
        if (s->work[i] == TRACES_WORK_COMM &&
            traces_comm_kind(traces_comm_fact_of(t, &index, row, s->launches.launch[i]).op) ==
                LW_OP_BARRIER)
            s->work[i] = TRACES_WORK_BARRIER;
        struct traces_work_use *u = &s->r->work[s->work[i]];
        struct lw_interval v = {t->start_ns[row], end};
        u->n++;
        u->total_ns += t->dur_ns[row];
        u->longest_ns = t->dur_ns[row] > u->longest_ns ? t->dur_ns[row] : u->longest_ns;
        from = v.start < from ? v.start : from;
        to = end > to ? end : to;
        if (s->work[i] == TRACES_WORK_COMM)
            comm[n_comm++] = v;
        else if (kernel && s->work[i] != TRACES_WORK_BARRIER)
            compute[n_compute++] = v;
    }
    s->r->span_ns = n > 0 ? to - from : 0;
    s->r->comm_ns = lw_intervals_union(comm, n_comm, from, to);
    s->r->exposed_comm_ns = lw_intervals_minus(comm, n_comm, compute, n_compute, from, to);
    return LW_OK;
}

/* ---- streams ---- */

struct on_stream {
    int32_t stream;
    int64_t i;
};

LW_COMPARATOR(by_stream, struct on_stream, a->stream, b->stream, a->i, b->i)

static enum traces_idle why_idle(const struct study *s, int64_t i, int64_t from, int64_t to)
{
    int64_t launch = s->launches.launch[i];

    return to - from <= QUEUE_NS ? TRACES_IDLE_QUEUE
           : launch < 0          ? TRACES_IDLE_UNKNOWN
           : s->t->start_ns[launch] > from ? TRACES_IDLE_HOST
                                           : TRACES_IDLE_OTHER;
}

static enum lw_status link_streams(struct study *s, struct lw_err *err)
{
    const struct lw_trace *t = s->t;
    int64_t n = s->launches.n;
    struct on_stream *v;

    LW_TAKE(&s->scratch, v, n, err);
    LW_TAKE(&s->scratch, s->previous, n, err);
    for (int64_t i = 0; i < n; i++)
        v[i] = (struct on_stream){t->track[s->launches.row[i]], i};
    lw_sort(v, n, by_stream);
    for (int64_t k = 0; k < n; k++) {
        bool first = k == 0 || v[k].stream != v[k - 1].stream;
        s->previous[v[k].i] = first ? -1 : v[k - 1].i;
        if (first)
            continue;
        int64_t from = lw_trace_end_ns(t, s->launches.row[v[k - 1].i]);
        int64_t to = t->start_ns[s->launches.row[v[k].i]];
        if (to > from)
            s->r->idle_ns[why_idle(s, v[k].i, from, to)] += to - from;
    }
    return LW_OK;
}

/* ---- launches ---- */

struct change {
    int64_t at, by;
};

LW_COMPARATOR(by_time, struct change, a->at, b->at, b->by, a->by)

static enum lw_status measure_queue(struct study *s, struct lw_err *err)
{
    struct traces_launch_use *u = &s->r->launch;
    struct change *v;
    int64_t n = 0, length = 0, busy = 0;
    double area = 0;

    LW_TAKE(&s->scratch, v, 2 * s->launches.n, err);
    for (int64_t i = 0; i < s->launches.n; i++) {
        int64_t launch = s->launches.launch[i];
        int64_t start = s->t->start_ns[s->launches.row[i]];
        if (launch < 0 || s->t->start_ns[launch] > start)
            continue;
        v[n++] = (struct change){s->t->start_ns[launch], 1};
        v[n++] = (struct change){start, -1};
    }
    lw_sort(v, n, by_time);
    for (int64_t i = 0; i < n; i++) {
        if (length > 0) {
            busy += v[i].at - v[i - 1].at;
            area += (double)length * (double)(v[i].at - v[i - 1].at);
        }
        length += v[i].by;
        u->longest_queue = length > u->longest_queue ? length : u->longest_queue;
    }
    u->mean_queue = busy > 0 ? area / (double)busy : 0;
    return LW_OK;
}

static void measure_launches(struct study *s)
{
    const struct lw_trace *t = s->t;
    struct traces_launch_use *u = &s->r->launch;

    for (int64_t i = 0; i < s->launches.n; i++) {
        int64_t launch = s->launches.launch[i], row = s->launches.row[i];
        if (launch < 0)
            continue;
        int64_t call = t->dur_ns[launch], delay = t->start_ns[row] - lw_trace_end_ns(t, launch);
        delay = delay > 0 ? delay : 0;
        u->n++;
        u->call_ns += call;
        u->delay_ns += delay;
        u->longest_call_ns = call > u->longest_call_ns ? call : u->longest_call_ns;
        u->longest_delay_ns = delay > u->longest_delay_ns ? delay : u->longest_delay_ns;
        u->n_long_calls += call > LONG_CALL_NS;
        u->n_long_delays += delay > LONG_DELAY_NS;
        u->n_short_ops += t->dur_ns[row] < call;
    }
}

/* ---- the critical path ---- */

static enum lw_status link_calls(struct study *s, struct lw_err *err)
{
    int64_t *of_row;

    LW_TAKE(&s->scratch, of_row, s->t->n, err);
    LW_TAKE(&s->scratch, s->call, s->launches.n, err);
    for (int64_t i = 0; i < s->calls.n; i++)
        of_row[s->calls.calls[i].row] = i + 1;
    for (int64_t i = 0; i < s->launches.n; i++)
        s->call[i] = s->launches.launch[i] >= 0 ? of_row[s->launches.launch[i]] - 1 : -1;
    return LW_OK;
}

/* The op, before op `before`, that ends last of those which call c waited for; -1 = none. */
static int64_t waited_for(const struct study *s, const struct traces_call *c, int64_t before)
{
    int64_t best = -1;

    for (int64_t i = before - 1, tries = 0; c->upto >= 0 && i >= 0 && tries < 4096; i--, tries++) {
        int64_t row = s->launches.row[i];
        if (s->call[i] < 0 || s->call[i] > c->upto ||
            (c->on_stream >= 0 && s->t->track[row] != c->on_stream))
            continue;
        if (best < 0 || lw_trace_end_ns(s->t, row) >
                            lw_trace_end_ns(s->t, s->launches.row[best]))
            best = i;
        if (c->on_stream >= 0)
            break; /* a stream ends its ops in order */
    }
    return best;
}

static int64_t end_of(const struct study *s, int64_t i)
{
    return lw_trace_end_ns(s->t, s->launches.row[i]);
}

/* The last op that a wait of op i's stream, made before its launch, was for; -1 = none. */
static int64_t stream_waited(const struct study *s, int64_t i)
{
    int32_t stream = s->t->track[s->launches.row[i]];
    int64_t k = s->call[i] - 1;

    for (int64_t tries = 0; k >= 0 && tries < 64; k--, tries++) {
        const struct traces_call *c = &s->calls.calls[k];
        if (c->n_device > 0 && c->stream == stream)
            return -1; /* waits before it are that op's */
        if (c->kind == TRACES_CALL_STREAM_WAIT && c->stream == stream && c->upto >= 0)
            return waited_for(s, c, i);
    }
    return -1;
}

/* Back over the host from the call that launched op i; *from: since when it ran. The op that it had
 * waited for, -1 = none. */
static int64_t host_before(const struct study *s, int64_t i, int64_t *from)
{
    int64_t k = s->call[i];
    int32_t thread = s->t->track[s->calls.calls[k].row];

    for (k--; k >= 0; k--) {
        const struct traces_call *c = &s->calls.calls[k];
        if (s->t->track[c->row] != thread || !traces_call_blocks(c->kind))
            continue;
        int64_t op = c->n_device > 0 ? -1 : waited_for(s, c, i);
        if (op < 0 && c->n_device == 0)
            continue;
        *from = lw_trace_end_ns(s->t, c->row);
        if (op >= 0 && end_of(s, op) <= *from)
            return op;
    }
    *from = s->calls.n > 0 ? s->t->start_ns[s->calls.calls[0].row] : 0;
    return -1;
}

static void follow_path(struct study *s)
{
    const struct lw_trace *t = s->t;
    struct traces_rank_report *r = s->r;
    int64_t i = 0;

    for (int64_t k = 1; k < s->launches.n; k++)
        i = end_of(s, k) >= end_of(s, i) ? k : i;
    for (int64_t steps = 0; i >= 0 && s->launches.n > 0 && steps <= s->launches.n; steps++) {
        int64_t row = s->launches.row[i], start = t->start_ns[row], from;
        int64_t before = s->previous[i], wait = s->call[i] >= 0 ? stream_waited(s, i) : -1;
        r->work[s->work[i]].critical_ns += t->dur_ns[row];
        if (wait >= 0 && end_of(s, wait) <= start &&
            (before < 0 || end_of(s, wait) > end_of(s, before)))
            before = wait;
        int64_t launch = s->launches.launch[i];
        bool host = launch >= 0 && t->start_ns[launch] <= start &&
                    (before < 0 || t->start_ns[launch] > end_of(s, before));
        if (!host) {
            int64_t gap = before >= 0 ? start - end_of(s, before) : 0;
            r->critical_gap_ns += gap > 0 ? gap : 0;
            i = before < i ? before : -1;
            continue;
        }
        int64_t op = host_before(s, i, &from);
        r->critical_gap_ns += start - t->start_ns[launch];
        from = from < t->start_ns[launch] ? from : t->start_ns[launch];
        int64_t since = op >= 0 ? end_of(s, op) : from;
        r->critical_host_ns += t->start_ns[launch] - (since < from ? since : from);
        i = op < i ? op : -1;
    }
    r->critical_ns = r->critical_gap_ns + r->critical_host_ns;
    for (int k = 0; k < TRACES_N_WORKS; k++)
        r->critical_ns += r->work[k].critical_ns;
}

/* ---- the whole ---- */

static enum lw_status study(struct study *s, const struct lw_kernel_table *table,
                            struct lw_err *err)
{
    LW_TRY(traces_launches_build(s->t, &s->scratch, &s->launches, err));
    if (s->launches.n == 0)
        return LW_OK;
    LW_TRY(traces_calls_build(s->t, &s->launches, table, &s->scratch, &s->calls, err));
    LW_TRY(sum_work(s, table, err));
    LW_TRY(link_streams(s, err));
    LW_TRY(link_calls(s, err));
    measure_launches(s);
    LW_TRY(measure_queue(s, err));
    follow_path(s);
    return LW_OK;
}

enum lw_status traces_rank_report_find(const struct lw_trace *t,
                                       const struct lw_kernel_table *table,
                                       struct traces_rank_report *out, struct lw_err *err)
{
    struct traces_rank_report r = {0};
    struct study s = {.t = t, .r = &r};
    enum lw_status status = study(&s, table, err);

    lw_arena_free(&s.scratch);
    LW_TRY(status);
    *out = r;
    return LW_OK;
}

/* ---- two files ---- */

struct named {
    const char *name;
    int which;
    int64_t ns;
};

static int by_name(const void *pa, const void *pb)
{
    const struct named *a = pa, *b = pb;

    return strcmp(a->name, b->name);
}

static int64_t distance(const struct traces_kernel_change *c)
{
    return c->ns[1] > c->ns[0] ? c->ns[1] - c->ns[0] : c->ns[0] - c->ns[1];
}

static int by_change(const void *pa, const void *pb)
{
    const struct traces_kernel_change *a = pa, *b = pb;
    int64_t x = distance(a), y = distance(b);

    return x != y ? (x > y ? -1 : 1) : strcmp(a->name, b->name);
}

enum lw_status traces_kernel_changes(const struct lw_trace *a, const struct lw_trace *b,
                                     struct lw_arena *arena, struct traces_kernel_change **v,
                                     int64_t *n, struct lw_err *err)
{
    const struct lw_trace *t[] = {a, b};
    struct named *all;
    int64_t count = 0;

    *n = 0;
    LW_NEW(all, a->n + b->n + 1, err);
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < t[k]->n; i++)
            if (lw_trace_on_device(t[k], i))
                all[count++] = (struct named){lw_trace_name(t[k], i), k, t[k]->dur_ns[i]};
    lw_sort(all, count, by_name);
    *v = lw_arena_alloc(arena, count, sizeof **v);
    for (int64_t i = 0; *v && i < count; i++) {
        if (i == 0 || strcmp(all[i].name, all[i - 1].name) != 0)
            (*v)[(*n)++] = (struct traces_kernel_change){.name = all[i].name};
        (*v)[*n - 1].n[all[i].which]++;
        (*v)[*n - 1].ns[all[i].which] += all[i].ns;
    }
    lw_free(all);
    if (!*v)
        return lw_fail_nomem(err);
    lw_sort(*v, *n, by_change);
    return LW_OK;
}
