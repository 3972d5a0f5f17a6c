/* The host's side of a replay. A thread's time is cut at its calls that launch, record or wait, at
 * the marks of steps, and at collectives that the host runs itself; all between two cuts is the
 * host's own time and is kept as it is.
 *
 * A waiting call lasts as long as what it waits for; what it takes of the host itself is the
 * shortest call of that name in the file (for a blocking copy: of what is left without the copy).
 * Where that is 200 us or more, as in a loop that waits once a step, it is the least that calls of
 * that name took after the end of the work that they waited for (the whole call where that had
 * ended before). This is the only use of an end of a device op.
 * Collectives that the host runs itself: host_comms.c. */
#include "traces/replay/replay_points.h"

#include <string.h>

#include "shared/base/sort.h"
#include "traces/replay/host_comms.h"
#include "traces/replay/rebucket.h"
#include "shared/numbers/order.h"

enum { LEAST_BLOCKED_NS = 200000 }; /* a shorter call is the host's own */

struct maker {
    const struct lw_trace *t;
    struct traces_points *out;
    struct lw_arena *arena;
    struct lw_err *err;
    const struct lw_bucket_request *want;
};

LW_COMPARATOR(by_time, struct traces_point, a->ns, b->ns, a->kind, b->kind, a->index, b->index)

static void add(struct maker *m, enum traces_point_kind kind, int32_t thread, int64_t ns,
                int64_t end_ns, int64_t index)
{
    m->out->points[m->out->n++] = (struct traces_point){ns, end_ns, thread, -1, kind, index};
}

static void add_row(struct maker *m, enum traces_point_kind kind, int64_t row, int64_t index)
{
    add(m, kind, m->t->track[row], m->t->start_ns[row], lw_trace_end_ns(m->t, row), index);
}

/* ---- steps ---- */

/* Where nothing marks a step: all that the host's threads did, marked on the thread that made the
 * most calls. */
static enum lw_status whole_file(struct maker *m)
{
    const struct lw_trace *t = m->t;
    int64_t *votes;
    int32_t most = -1;
    struct traces_range *r = m->out->steps;

    LW_TAKE(m->arena, votes, t->strings.n, m->err);
    for (int64_t i = 0; i < t->n; i++) {
        bool call = t->class[i] == LW_ROW_LAUNCH;
        if ((call || lw_trace_on_host(t, i)) && t->track[i] >= 0) {
            votes[t->track[i]] += call ? 1000 : 1;
            if (most < 0 || votes[t->track[i]] > votes[most])
                most = t->track[i];
        }
    }
    if (most < 0)
        return LW_OK;
    *r = (struct traces_range){"whole trace", INT64_MAX, INT64_MIN, most};
    for (int64_t i = 0; i < t->n; i++)
        if (t->class[i] == LW_ROW_LAUNCH || lw_trace_on_host(t, i)) {
            r->start_ns = t->start_ns[i] < r->start_ns ? t->start_ns[i] : r->start_ns;
            r->end_ns = lw_trace_end_ns(t, i) > r->end_ns ? lw_trace_end_ns(t, i) : r->end_ns;
        }
    m->out->n_steps = 1;
    return LW_OK;
}

static bool launches_in(const struct maker *m, int64_t from, int64_t to)
{
    const struct traces_calls *c = &m->out->calls;

    for (int64_t i = 0; i < c->n; i++)
        if (c->calls[i].n_device > 0 && m->t->start_ns[c->calls[i].row] >= from &&
            m->t->start_ns[c->calls[i].row] < to)
            return true;
    return false;
}

/* Of a recording with device ops, the steps that launched some. */
static enum lw_status find_ranges(struct maker *m, const struct lw_steps *steps)
{
    struct traces_points *out = m->out;

    LW_TAKE(m->arena, out->steps, steps->n + 1, m->err);
    for (int64_t k = 0; k < steps->n; k++) {
        const struct lw_step *s = &steps->steps[k];
        if (out->launches.n == 0 || launches_in(m, s->start_ns, s->end_ns))
            out->steps[out->n_steps++] =
                (struct traces_range){s->name, s->start_ns, s->end_ns, s->thread};
    }
    out->marked = out->n_steps > 0;
    return out->marked ? LW_OK : whole_file(m);
}

/* ---- calls ---- */

static bool matters(const struct traces_call *c, bool record_is_used)
{
    switch (c->kind) {
    case TRACES_CALL_LAUNCH:
    case TRACES_CALL_COPY:
        return true;
    case TRACES_CALL_RECORD:
        return record_is_used && c->stream >= 0;
    case TRACES_CALL_OTHER:
        return false;
    default:
        return c->source != TRACES_WAIT_UNKNOWN && c->upto >= 0;
    }
}

static enum lw_status add_calls(struct maker *m)
{
    const struct traces_calls *calls = &m->out->calls;
    bool *used;

    LW_TAKE(m->arena, used, calls->n, m->err);
    for (int64_t i = 0; i < calls->n; i++)
        if (calls->calls[i].upto >= 0)
            used[calls->calls[i].upto] = true;
    for (int64_t i = 0; i < calls->n; i++)
        if (matters(&calls->calls[i], used[i]))
            add_row(m, TRACES_POINT_CALL, calls->calls[i].row, i);
    return LW_OK;
}

/* The last end on the device of what was launched up to a call; on_stream -1: on any stream. */
static int64_t awaited_end(const struct maker *m, const struct traces_call *c, int64_t i)
{
    const struct traces_calls *calls = &m->out->calls;
    int64_t end = INT64_MIN;

    if (c->kind == TRACES_CALL_COPY) {
        for (int64_t k = 0; k < c->n_device; k++) {
            int64_t e = lw_trace_end_ns(m->t, calls->device[c->first_device + k]);
            end = e > end ? e : end;
        }
        return end;
    }
    for (int64_t k = c->upto < i ? c->upto : i; k >= 0; k--) {
        const struct traces_call *x = &calls->calls[k];
        for (int64_t j = 0; j < x->n_device; j++) {
            int64_t row = calls->device[x->first_device + j];
            if (c->on_stream >= 0 && m->t->track[row] != c->on_stream)
                continue;
            end = lw_trace_end_ns(m->t, row) > end ? lw_trace_end_ns(m->t, row) : end;
            if (c->on_stream >= 0)
                return end;
        }
    }
    return end;
}

/* What a waiting call took of the host itself: what is left of it after the end of the work that it
 * waited for, by the device's clock. The whole call where that had ended before. */
static int64_t after_work(const struct maker *m, const struct traces_call *c, int64_t i)
{
    int64_t start = m->t->start_ns[c->row], end = lw_trace_end_ns(m->t, c->row);
    int64_t work = awaited_end(m, c, i);

    if (work <= start)
        return end - start;
    return work < end ? end - work : 0;
}

static enum lw_status own_times(const struct maker *m)
{
    const struct lw_trace *t = m->t;
    int64_t *own = m->out->own_ns, *after;

    LW_TAKE(m->arena, after, t->strings.n, m->err);
    for (int64_t s = 0; s < t->strings.n; s++)
        own[s] = after[s] = INT64_MAX;
    for (int64_t i = 0; i < m->out->calls.n; i++) {
        const struct traces_call *c = &m->out->calls.calls[i];
        int64_t dur = t->dur_ns[c->row];
        if (c->kind == TRACES_CALL_COPY)
            dur -= t->dur_ns[m->out->calls.device[c->first_device]];
        dur = dur < 0 ? 0 : dur;
        if (!traces_call_blocks(c->kind) || (c->kind != TRACES_CALL_COPY && c->upto < 0))
            continue;
        int64_t left = after_work(m, c, i), *least = &after[t->name[c->row]];
        *least = left < *least ? left : *least;
        if (dur < own[t->name[c->row]])
            own[t->name[c->row]] = dur;
    }
    for (int64_t s = 0; s < t->strings.n; s++)
        if (own[s] != INT64_MAX && own[s] >= LEAST_BLOCKED_NS && after[s] < own[s]) {
            own[s] = after[s];
            m->out->own_after[s] = true;
        }
    for (int64_t i = 0; i < m->out->n_comms; i++) {
        int64_t issue = m->out->comms[i].issue;
        if (t->dur_ns[issue] < own[t->name[issue]])
            own[t->name[issue]] = t->dur_ns[issue];
    }
    return LW_OK;
}

/* ---- device rows without a launch ---- */

struct on_stream {
    int32_t stream;
    int64_t at, call; /* place among the device rows; call that launched it, -1 = none */
};

LW_COMPARATOR(by_stream, struct on_stream, a->stream, b->stream, a->at, b->at)

LW_COMPARATOR(by_call, struct on_stream, a->call, b->call, a->at, b->at)

static enum lw_status place_orphans(struct maker *m)
{
    struct traces_points *p = m->out;
    const struct traces_launches *l = &p->launches;
    struct on_stream *v;
    int64_t *call_of; /* of a row of the trace */

    LW_TAKE(m->arena, v, l->n, m->err);
    LW_TAKE(m->arena, call_of, m->t->n, m->err);
    LW_TAKE(m->arena, p->orphan, l->n, m->err);
    LW_TAKE(m->arena, p->before, l->n, m->err);
    for (int64_t i = 0; i < p->calls.n; i++)
        call_of[p->calls.calls[i].row] = i;
    for (int64_t i = 0; i < l->n; i++)
        v[i] = (struct on_stream){m->t->track[l->row[i]], i,
                                  l->launch[i] >= 0 ? call_of[l->launch[i]] : -1};
    lw_sort(v, l->n, by_stream);
    int64_t *before = call_of; /* its rows are not needed any more: by place */
    for (int64_t i = l->n - 1, next = -1; i >= 0; i--) {
        if (i + 1 == l->n || v[i + 1].stream != v[i].stream)
            next = p->calls.n;
        next = v[i].call >= 0 ? v[i].call : next;
        before[v[i].at] = next;
    }
    bool launched = false; /* on this stream, up to here */
    for (int64_t i = 0; i < l->n; i++) {
        launched = (launched && v[i].stream == v[i - 1].stream) || v[i].call >= 0;
        if (!launched)
            before[v[i].at] = TRACES_BEFORE_ALL;
    }
    struct on_stream *order = v; /* its rows are not needed any more either */
    for (int64_t i = 0; i < l->n; i++)
        if (l->launch[i] < 0)
            order[p->n_orphans++] = (struct on_stream){0, l->row[i], before[i]};
    lw_sort(order, p->n_orphans, by_call);
    for (int64_t i = 0; i < p->n_orphans; i++) {
        p->orphan[i] = order[i].at;
        p->before[i] = order[i].call;
    }
    return LW_OK;
}

/* ---- collectives of the host ---- */

static void add_comms(struct maker *m)
{
    const struct traces_points *p = m->out;

    for (int64_t i = 0; i < p->n_comms; i++) {
        const struct traces_host_comm *c = &p->comms[i];
        add_row(m, TRACES_POINT_ISSUE, c->issue, i);
        if (c->wait_ns >= 0)
            add(m, TRACES_POINT_WAIT, m->t->track[c->issue], c->wait_ns, c->wait_end_ns, i);
    }
    for (int64_t i = 0; i < p->n_buckets; i++) {
        const struct traces_bucket *b = &p->buckets[i];
        add(m, TRACES_POINT_BUCKET, b->thread, b->ns, b->ns, i);
        if (b->wait_ns >= 0)
            add(m, TRACES_POINT_BUCKET_WAIT, b->thread, b->wait_ns, b->wait_ns, i);
    }
}

/* ---- together ---- */

static void add_marks(struct maker *m)
{
    for (int64_t k = 0; k < m->out->n_steps; k++) {
        const struct traces_range *r = &m->out->steps[k];
        add(m, TRACES_POINT_STEP_BEGIN, r->thread, r->start_ns, r->start_ns, k);
        add(m, TRACES_POINT_STEP_END, r->thread, r->end_ns, r->end_ns, k);
    }
}

/* Sort; drop what comes after the last step; say which step each belongs to. */
static void order(struct traces_points *p)
{
    int64_t last = INT64_MIN, n = 0;
    int32_t step = -1;

    for (int64_t k = 0; k < p->n_steps; k++)
        last = p->steps[k].end_ns > last ? p->steps[k].end_ns : last;
    lw_sort(p->points, p->n, by_time);
    for (int64_t i = 0; i < p->n; i++) {
        struct traces_point *x = &p->points[i];
        if (x->ns > last)
            continue;
        if (x->kind == TRACES_POINT_STEP_BEGIN)
            step++;
        p->points[n] = *x;
        p->points[n++].step = step;
    }
    p->n = n;
    p->start_ns = n > 0 ? p->points[0].ns : 0;
}

static enum lw_status make(struct maker *m, const struct traces_source *s,
                           const struct lw_kernel_table *kernels)
{
    struct traces_points *p = m->out;

    LW_TRY(traces_launches_build(m->t, m->arena, &p->launches, m->err));
    LW_TRY(traces_calls_build(m->t, &p->launches, kernels, m->arena, &p->calls, m->err));
    LW_TRY(find_ranges(m, &s->steps));
    LW_TRY(traces_host_comms_find(s, m->arena, p, m->err));
    if (m->want)
        LW_TRY(traces_rebucket(s, m->want, m->arena, p, m->err));
    LW_TAKE(m->arena, p->points, p->calls.n + 2 * (p->n_steps + p->n_comms + p->n_buckets),
            m->err);
    LW_TAKE(m->arena, p->own_ns, m->t->strings.n, m->err);
    LW_TAKE(m->arena, p->own_after, m->t->strings.n, m->err);
    LW_TRY(add_calls(m));
    LW_TRY(own_times(m));
    LW_TRY(place_orphans(m));
    add_comms(m);
    add_marks(m);
    order(p);
    return LW_OK;
}

enum lw_status traces_points_build(const struct traces_source *s,
                                   const struct lw_kernel_table *kernels,
                                   const struct lw_bucket_request *buckets, struct lw_arena *arena,
                                   struct traces_points *out, struct lw_err *err)
{
    struct traces_points p = {0};
    struct maker m = {.t = &s->trace, .out = &p, .arena = arena, .want = buckets, .err = err};

    LW_TRY(make(&m, s, kernels));
    *out = p;
    return LW_OK;
}
