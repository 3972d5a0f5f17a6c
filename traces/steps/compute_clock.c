/* The compute clock of a step.
 *
 * On a device, work is found through its launch: what the host launched from a moment on starts at
 * the start of the first op of the main stream launched at or after it. One stream runs in launch
 * order, so the map is monotone. On a CPU the host's own times are used.
 *
 * Data parallelism adds work that a compute-only profile must not have. Taken out: on the host what
 * follows an AccumulateGrad inside its engine node (the reducer's hook: scaling, copying into the
 * bucket, launching), on the device the ops launched inside such nodes, and on both the buffer
 * broadcast before the model's own forward. Not identifiable, so still inside: that communication
 * threads take time from compute on the same cores, or bandwidth from it on a device. */
#include "traces/steps/compute_clock.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "traces/steps/device_figures.h"
#include "traces/steps/host_runs.h"
#include "traces/trace/comm_facts.h"
#include "traces/trace/kernel_launches.h"

struct by_launch {
    int64_t launch_ns, row;
};

LW_COMPARATOR(compare_launch, struct by_launch, a->launch_ns, b->launch_ns, a->row, b->row)

struct stream_time {
    int32_t stream;
    __int128 ns;
};

/* The stream with the most compute; few streams, so a linear list will do. */
static int32_t main_stream(const struct lw_trace *t, const struct traces_launches *l,
                           const uint8_t *class_of)
{
    struct stream_time seen[64];
    int n = 0, best = 0;

    for (int64_t i = 0; i < l->n; i++) {
        int64_t row = l->row[i];
        int k = 0;
        if (t->class[row] != LW_ROW_KERNEL || class_of[t->name[row]] == LW_KERNEL_COMM)
            continue;
        while (k < n && seen[k].stream != t->track[row])
            k++;
        if (k == 64)
            continue;
        if (k == n)
            seen[n++] = (struct stream_time){t->track[row], 0};
        seen[k].ns += t->dur_ns[row];
    }
    for (int k = 1; k < n; k++)
        best = seen[k].ns > seen[best].ns ? k : best;
    return n ? seen[best].stream : -1;
}

static enum lw_status find_bounds(const struct lw_trace *t, struct lw_arena *arena,
                                  struct traces_ops *out, struct lw_err *err)
{
    int64_t end = INT64_MIN, start = INT64_MAX;

    LW_TAKE(arena, out->max_end, out->n, err);
    LW_TAKE(arena, out->min_start, out->n, err);
    for (int64_t i = 0; i < out->n; i++) {
        int64_t e = lw_trace_end_ns(t, out->row[i]);
        out->max_end[i] = end = e > end ? e : end;
    }
    for (int64_t i = out->n - 1; i >= 0; i--) {
        int64_t s = t->start_ns[out->row[i]];
        out->min_start[i] = start = s < start ? s : start;
    }
    return LW_OK;
}

static enum lw_status collect_ops(const struct lw_trace *t, const struct traces_launches *l,
                                  struct lw_arena *arena, struct traces_ops *out,
                                  struct lw_err *err)
{
    struct by_launch *v;
    uint8_t *class_of;
    int64_t n = 0;

    LW_TRY(traces_kernel_classes(t, NULL, arena, &class_of, err));
    out->stream = main_stream(t, l, class_of);
    LW_TAKE(arena, out->row, l->n, err);
    LW_TAKE(arena, out->launch_ns, l->n, err);
    LW_NEW(v, l->n, err);
    for (int64_t i = 0; i < l->n; i++)
        if (l->launch[i] >= 0 && t->track[l->row[i]] == out->stream)
            v[n++] = (struct by_launch){t->start_ns[l->launch[i]], l->row[i]};
    lw_sort(v, n, compare_launch);
    for (int64_t i = 0; i < n; i++) {
        out->row[i] = v[i].row;
        out->launch_ns[i] = v[i].launch_ns;
    }
    out->n = n;
    out->device = n > 0;
    lw_free(v);
    return find_bounds(t, arena, out, err);
}

/* Where no op of the device runs: device rows are in start order. */
static enum lw_status find_idle(const struct lw_trace *t, const struct traces_launches *l,
                                struct lw_arena *arena, struct traces_ops *out, struct lw_err *err)
{
    int64_t end = INT64_MIN, sum = 0;

    LW_TAKE(arena, out->idle, l->n, err);
    LW_TAKE(arena, out->idle_before, l->n, err);
    for (int64_t i = 0; i < l->n; i++) {
        int64_t row = l->row[i], start = t->start_ns[row], ends = lw_trace_end_ns(t, row);
        if (end != INT64_MIN && start > end) {
            out->idle[out->n_idle] = (struct lw_interval){end, start};
            out->idle_before[out->n_idle++] = sum;
            sum += start - end;
        }
        end = ends > end ? ends : end;
    }
    return LW_OK;
}

enum lw_status traces_ops_build(const struct lw_trace *t, struct lw_arena *arena,
                                struct traces_ops *out, struct lw_err *err)
{
    struct traces_launches l;

    *out = (struct traces_ops){.stream = -1};
    LW_TRY(traces_launches_build(t, arena, &l, err));
    if (l.n == 0)
        return LW_OK;
    LW_TRY(find_idle(t, &l, arena, out, err));
    return collect_ops(t, &l, arena, out, err);
}

/* The first op launched at or after ns. */
static int64_t op_at(const struct traces_ops *o, int64_t ns)
{
    return lw_values_below(o->launch_ns, o->n, ns);
}

/* ---- what data parallelism added ---- */

static void exclude(struct traces_axis *a, int64_t start, int64_t end)
{
    if (end > start)
        a->excluded[a->n_excluded++] = (struct lw_interval){start, end};
}

static bool is_broadcast(const struct lw_trace *t, int64_t row)
{
    return lw_trace_on_host(t, row) && (lw_trace_name_begins(t, row, "c10d::broadcast") ||
                                        lw_trace_name_begins(t, row, "gloo:broadcast") ||
                                        lw_trace_name_begins(t, row, "nccl:broadcast"));
}

/* The model's own work: a module's range, or an op that autograd numbered. */
static bool is_model_work(const struct lw_trace *t, int64_t row)
{
    return lw_trace_name_begins(t, row, "lw:module:") ||
           (t->class[row] == LW_ROW_HOST && t->link[row] >= 0 && !lw_row_is_range(t, row) &&
            !lw_trace_name_begins(t, row, "c10d::"));
}

/* Buffers are packed, broadcast and unpacked before the model runs: from the wrapper's start (else
 * the first broadcast) to the first of the model's own work after the last broadcast. */
static void exclude_broadcasts(struct traces_axis *a, const struct lw_step *s)
{
    const struct lw_trace *t = a->t;
    const struct lw_phase_span *f = &s->phase[LW_PHASE_FORWARD];
    int64_t start = INT64_MAX, end = INT64_MIN, from = lw_trace_row_at(t, f->start_ns);
    int64_t to = lw_trace_row_at(t, f->end_ns);

    for (int64_t i = from; i < to; i++) {
        bool wrapper = start == INT64_MAX && t->track[i] == s->thread &&
                       lw_trace_name_begins(t, i, "DistributedDataParallel.forward");
        if (!wrapper && !is_broadcast(t, i))
            continue;
        start = t->start_ns[i] < start ? t->start_ns[i] : start;
        end = !wrapper && lw_trace_end_ns(t, i) > end ? lw_trace_end_ns(t, i) : end;
    }
    if (end == INT64_MIN)
        return;
    for (int64_t i = lw_trace_row_at(t, end); i < to; i++)
        if (t->track[i] == s->thread && is_model_work(t, i)) {
            end = t->start_ns[i];
            break;
        }
    exclude(a, traces_axis_start(a, start),
            traces_axis_start(a, end < f->end_ns ? end : f->end_ns));
}

static int64_t count_fsdp(const struct lw_trace *t, const struct lw_step *s)
{
    int64_t n = 0, last = lw_trace_row_at(t, s->end_ns);

    for (int64_t i = lw_trace_row_at(t, s->start_ns); i < last; i++)
        n += traces_is_fsdp(t, i);
    return n;
}

static void exclude_on_host(struct traces_axis *a, const struct lw_step *s)
{
    int64_t first = lw_trace_row_at(a->t, s->start_ns), last = lw_trace_row_at(a->t, s->end_ns);

    for (int64_t i = first; i < last; i++)
        if (traces_is_fsdp(a->t, i))
            exclude(a, a->t->start_ns[i], lw_trace_end_ns(a->t, i));
    for (int64_t g = 0; g < s->n_gradients; g++)
        exclude(a, lw_trace_end_ns(a->t, s->gradients[g].row), s->gradients[g].node_end_ns);
}

static void exclude_on_device(struct traces_axis *a, const struct lw_step *s)
{
    for (int64_t g = 0; g < s->n_gradients; g++) {
        const struct lw_gradient *grad = &s->gradients[g];
        for (int64_t i = op_at(a->ops, grad->node_start_ns);
             i < a->ops->n && a->ops->launch_ns[i] < grad->node_end_ns; i++) {
            int64_t row = a->ops->row[i];
            if (!a->is_overhead[i - a->first])
                exclude(a, a->t->start_ns[row], lw_trace_end_ns(a->t, row));
            a->is_overhead[i - a->first] = true;
        }
    }
}

LW_COMPARATOR(by_start, struct lw_interval, a->start, b->start)

static void merge_excluded(struct traces_axis *a)
{
    int64_t n = 0;

    lw_sort(a->excluded, a->n_excluded, by_start);
    for (int64_t i = 0; i < a->n_excluded; i++) {
        struct lw_interval v = a->excluded[i];
        if (n > 0 && v.start <= a->excluded[n - 1].end)
            a->excluded[n - 1].end = v.end > a->excluded[n - 1].end ? v.end
                                                                    : a->excluded[n - 1].end;
        else
            a->excluded[n++] = v;
    }
    a->n_excluded = n;
}

/* The ops from the first to the last that a gradient's node launched. */
static void find_overhead(struct traces_axis *a, const struct lw_step *s)
{
    int64_t first = a->ops->n, last = 0;

    for (int64_t g = 0; g < s->n_gradients; g++) {
        int64_t from = op_at(a->ops, s->gradients[g].node_start_ns);
        int64_t to = op_at(a->ops, s->gradients[g].node_end_ns);
        first = to > from && from < first ? from : first;
        last = to > from && to > last ? to : last;
    }
    a->first = first;
    a->n = last > first ? last - first : 0;
}

static void find_ends(struct traces_axis *a)
{
    const struct traces_ops *o = a->ops;
    int64_t end = a->first > 0 && a->n > 0 ? o->max_end[a->first - 1] : INT64_MIN;

    for (int64_t k = 0; k < a->n; k++) {
        int64_t e = lw_trace_end_ns(a->t, o->row[a->first + k]);
        a->max_end[k] = end = !a->is_overhead[k] && e > end ? e : end;
    }
}

enum lw_status traces_axis_build(const struct lw_trace *t, const struct traces_ops *ops,
                                 const struct lw_step *s, bool parallel, struct lw_arena *arena,
                                 struct traces_axis *out, struct lw_err *err)
{
    struct traces_axis a = {.t = t, .ops = ops, .host_scale = TRACES_HOST_UNIT};

    if (parallel && ops->device)
        find_overhead(&a, s);
    LW_TAKE(arena, a.is_overhead, a.n, err);
    LW_TAKE(arena, a.max_end, a.n, err);
    LW_TAKE(arena, a.excluded, s->n_gradients + 1 + a.n + count_fsdp(t, s), err);
    if (parallel && s->phase[LW_PHASE_FORWARD].found)
        exclude_broadcasts(&a, s);
    if (parallel && ops->device)
        exclude_on_device(&a, s);
    else if (parallel)
        exclude_on_host(&a, s);
    merge_excluded(&a);
    find_ends(&a);
    *out = a;
    return LW_OK;
}

/* ---- asking ---- */

static bool is_overhead(const struct traces_axis *a, int64_t i)
{
    return i >= a->first && i < a->first + a->n && a->is_overhead[i - a->first];
}

/* The latest end of the ops before op i, overhead left out. After the last overhead it is the later
 * of what was latest there and of what ends since. */
static int64_t end_before(const struct traces_axis *a, int64_t i)
{
    const struct traces_ops *o = a->ops;
    int64_t last = a->first + a->n, end;

    if (i <= a->first || a->n == 0)
        return i > 0 ? o->max_end[i - 1] : INT64_MIN;
    if (i <= last)
        return a->max_end[i - 1 - a->first];
    end = a->max_end[a->n - 1];
    if (o->max_end[i - 1] > o->max_end[last - 1]) /* it is of an op since */
        return o->max_end[i - 1];
    for (int64_t k = last; k < i; k++) {
        int64_t e = lw_trace_end_ns(a->t, o->row[k]);
        end = e > end ? e : end;
    }
    return end;
}

int64_t traces_axis_start(const struct traces_axis *a, int64_t ns)
{
    if (!a->ops->device)
        return ns;
    int64_t i = op_at(a->ops, ns);
    while (i < a->ops->n && is_overhead(a, i))
        i++;
    return i < a->ops->n ? a->t->start_ns[a->ops->row[i]] : INT64_MAX;
}

int64_t traces_axis_end(const struct traces_axis *a, int64_t ns)
{
    if (!a->ops->device)
        return ns;
    return end_before(a, op_at(a->ops, ns));
}

/* Idle time before ns. */
static int64_t idle_upto(const struct traces_ops *o, int64_t ns)
{
    int64_t i = lw_items_upto(o->idle, o->n_idle, sizeof *o->idle, ns) - 1;

    if (i < 0)
        return 0;
    int64_t end = o->idle[i].end < ns ? o->idle[i].end : ns;
    return o->idle_before[i] + end - o->idle[i].start;
}

int64_t traces_ops_idle(const struct traces_ops *o, int64_t from, int64_t to)
{
    return to > from ? idle_upto(o, to) - idle_upto(o, from) : 0;
}

int64_t traces_axis_span(const struct traces_axis *a, int64_t from, int64_t to)
{
    if (to <= from)
        return 0;
    if (a->host_scale == TRACES_HOST_UNIT)
        return to - from;
    int64_t idle = traces_ops_idle(a->ops, from, to);
    return to - from - idle + (int64_t)((__int128)idle * a->host_scale / TRACES_HOST_UNIT);
}

int64_t traces_axis_length(const struct traces_axis *a, int64_t from, int64_t to)
{
    int64_t length = traces_axis_span(a, from, to);

    for (int64_t i = 0; i < a->n_excluded && a->excluded[i].start < to; i++) {
        int64_t start = a->excluded[i].start > from ? a->excluded[i].start : from;
        int64_t end = a->excluded[i].end < to ? a->excluded[i].end : to;
        length -= traces_axis_span(a, start, end);
    }
    return length > 0 ? length : 0;
}
