/* A timeline as trace events ("Trace Event Format", the Chromium project; read by Perfetto).
 *
 * A rank is a process, a stream a thread; one more thread holds the steps, one the launches. Kinds
 * and names are those that a Kineto recording has, so that our own importer reads the file back:
 * ProfilerStep#N ranges, kernels, copies as gpu_memcpy, collectives as nccl kernels with their
 * arguments, launch calls joined by correlation. A Kineto trace is of one rank, so only the chosen
 * rank carries these categories; the others' begin with "peer_", which readers of one rank skip and
 * viewers show. Copies hide communication by our definition (shared/timeline/timeline.h): the file
 * says so.
 *
 * Every instant is rounded to the ns by itself, half up: what touches still touches, and busy
 * times differ from the picosecond sums by at most 1 ns for each gap; nothing where times are
 * whole ns, as all measured ones are. Not written: memory ops, which take no time. */
#include "traces/export/export_chrome.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/json/jsonout.h"
#include "shared/plan/op.h"
#include "traces/steps/device_figures.h"

struct writer {
    const struct lw_export *e;
    const struct lw_timeline *t;
    const struct lw_plan *p;
    struct lw_jsonout o;
    struct lw_arena scratch;
    int64_t n_flows;
    int32_t n_ranks;
    /* The step that is being written: where its rows begin, when each rank begins it. */
    int64_t from, to;
    lw_ps *step_start, *step_end; /* [n_ranks] */
};

/* Threads after those of the streams. */
static int32_t steps_thread(const struct writer *w)
{
    return w->p->n_streams;
}

static int32_t launch_thread(const struct writer *w)
{
    return w->p->n_streams + 1;
}

static bool is_comm(enum lw_op_class c)
{
    return c == LW_CLASS_COLLECTIVE || c == LW_CLASS_P2P;
}

static bool is_device(enum lw_op_class c)
{
    return is_comm(c) || c == LW_CLASS_COMPUTE || c == LW_CLASS_COPY;
}

/* --- pieces of an event ----------------------------------------------------------------------- */

/* Microseconds with ns after the point: ns are to us what ps are to ns. */
static void put_us(struct lw_jsonout *o, const char *key, lw_ps t)
{
    LW_JSON(o, key, LW_EXACT_NS(lw_ps_to_ns(t)));
}

static void begin(struct writer *w, const char *phase, const char *name, int32_t pid, int32_t tid)
{
    lw_jsonout_line_object(&w->o, NULL);
    LW_JSON(&w->o, "ph", phase, "name", name, "pid", pid, "tid", tid);
}

static void put_category(struct writer *w, const char *category, int32_t rank)
{
    char text[64];

    snprintf(text, sizeof text, "%s%s", rank == w->e->rank ? "" : "peer_", category);
    lw_jsonout_string(&w->o, "cat", text);
}

static void put_span(struct writer *w, lw_ps start, lw_ps end)
{
    put_us(&w->o, "ts", start);
    LW_JSON(&w->o, "dur", LW_EXACT_NS(lw_ps_to_ns(end) - lw_ps_to_ns(start)));
}

/* --- metadata --------------------------------------------------------------------------------- */

static void put_name(struct writer *w, const char *what, int32_t pid, int32_t tid,
                     const char *text)
{
    begin(w, "M", what, pid, tid);
    LW_JSON_ROW(&w->o, "args", "name", text);
    lw_jsonout_end(&w->o);
}

static void put_order(struct writer *w, const char *what, int32_t pid, int32_t tid, int32_t place)
{
    begin(w, "M", what, pid, tid);
    LW_JSON_ROW(&w->o, "args", "sort_index", place);
    lw_jsonout_end(&w->o);
}

static void put_thread(struct writer *w, int32_t rank, int32_t thread, const char *name,
                       int32_t place)
{
    put_name(w, "thread_name", rank, thread, name);
    put_order(w, "thread_sort_index", rank, thread, place);
}

static void put_names(struct writer *w)
{
    char text[160];

    for (int32_t r = 0; r < w->n_ranks; r++) {
        snprintf(text, sizeof text, "%s, rank %d", w->e->title, r);
        put_name(w, "process_name", r, 0, text);
        put_order(w, "process_sort_index", r, 0, r);
        put_thread(w, r, steps_thread(w), "steps", 0);
        put_thread(w, r, launch_thread(w), "launches", 1);
        for (int32_t s = 0; s < w->p->n_streams; s++)
            put_thread(w, r, s, w->p->streams[s].name, s + 2);
    }
}

/* --- ops -------------------------------------------------------------------------------------- */

/* "ncclAllReduce": "all_reduce" in NCCL's spelling. */
static void name_kernel(enum lw_op_kind kind, char *text, size_t size)
{
    bool upper = true;
    size_t n = (size_t)snprintf(text, size, "nccl");

    for (const char *c = lw_op_name(kind); *c && n + 1 < size; c++) {
        if (*c != '_')
            text[n++] = (char)(upper ? toupper((unsigned char)*c) : *c);
        upper = *c == '_';
    }
    text[n] = '\0';
}

static void name_op(const struct lw_op *op, char *text, size_t size)
{
    if (is_comm(lw_op_class(op->kind)))
        name_kernel(op->kind, text, size);
    else
        snprintf(text, size, "%s%s%s", lw_op_name(op->kind), op->name[0] ? " " : "", op->name);
    if (op->bucket >= 0)
        snprintf(text + strlen(text), size - strlen(text), " bucket %d", op->bucket);
    /* a module of that name would count as communication */
    if (!is_comm(lw_op_class(op->kind)) && lw_kernel_is_comm(text))
        snprintf(text, size, "%s of module %d", lw_op_name(op->kind), op->module);
}

static const char *category_of(enum lw_op_class c)
{
    return c == LW_CLASS_COPY ? "gpu_memcpy" : is_device(c) ? "kernel" : "cpu_op";
}

static void put_comm_args(struct writer *w, const struct lw_op *op, const struct lw_span *s)
{
    const struct lw_group *g = op->comm >= 0 ? lw_plan_group(w->p, op->comm, s->rank) : NULL;
    int64_t bytes = lw_plan_operand(w->p, op, s->rank).bytes;

    LW_JSON(&w->o, "Collective name", lw_op_name(op->kind),
            "In msg nelems", bytes / lw_dtype_size(op->dtype),
            "Out msg nelems", bytes / lw_dtype_size(op->dtype), "dtype", lw_dtype_name(op->dtype),
            "Group size", g ? g->n_members : 1);
    if (op->comm >= 0)
        lw_jsonout_string(&w->o, "communicator", w->p->comms[op->comm].name);
    if (s->all_in >= 0) {
        put_us(&w->o, "last rank arrived [us]", s->all_in);
        put_us(&w->o, "waited [us]", s->all_in - s->start);
    }
}

static void put_op_args(struct writer *w, const struct lw_span *s, int64_t row)
{
    const struct lw_op *op = LW_OP(w->p, s->op);

    lw_jsonout_object(&w->o, "args");
    if (is_device(lw_op_class(op->kind)))
        LW_JSON(&w->o, "stream", s->stream, "correlation", row + 1);
    LW_JSON(&w->o, "step", s->step, "op", s->op);
    if (op->bucket >= 0)
        lw_jsonout_int(&w->o, "bucket", op->bucket);
    if (op->micro_batch >= 0)
        lw_jsonout_int(&w->o, "micro batch", op->micro_batch);
    int64_t bytes = lw_plan_operand(w->p, op, s->rank).bytes;
    if (bytes > 0)
        lw_jsonout_int(&w->o, "bytes", bytes);
    put_us(&w->o, "ready [us]", s->ready);
    if (is_comm(lw_op_class(op->kind)))
        put_comm_args(w, op, s);
    lw_jsonout_end(&w->o);
}

/* The call that handed a device op to its stream: a point, inside the rank's step. */
static void put_launch(struct writer *w, const struct lw_span *s, const char *name, int64_t row)
{
    lw_ps at = s->issue >= 0 && s->issue <= s->start ? s->issue : s->start;

    at = at < w->step_start[s->rank] ? w->step_start[s->rank] : at;
    begin(w, "X", name, s->rank, launch_thread(w));
    put_category(w, "cuda_runtime", s->rank);
    put_span(w, at, at);
    LW_JSON_ROW(&w->o, "args", "correlation", row + 1);
    lw_jsonout_end(&w->o);
}

static void put_op(struct writer *w, int64_t row)
{
    struct lw_span s = lw_timeline_get(w->t, row);
    enum lw_op_class c = lw_op_class(s.kind);
    char name[512];

    if (c == LW_CLASS_MEMORY || (!is_device(c) && s.end == s.start))
        return;
    name_op(LW_OP(w->p, s.op), name, sizeof name);
    begin(w, "X", name, s.rank, s.stream);
    put_category(w, category_of(c), s.rank);
    put_span(w, s.start, s.end);
    put_op_args(w, &s, row);
    lw_jsonout_end(&w->o);
    if (is_comm(c) && s.all_in > s.start) {
        begin(w, "X", "waiting for the last rank", s.rank, s.stream);
        lw_jsonout_string(&w->o, "cat", "wait");
        put_span(w, s.start, s.all_in);
        lw_jsonout_end(&w->o);
    }
    if (is_device(c))
        put_launch(w, &s, name, row);
}

static void put_step(struct writer *w, int32_t step)
{
    char name[48];

    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    for (int32_t r = 0; r < w->n_ranks; r++) {
        if (w->step_start[r] > w->step_end[r])
            continue;
        begin(w, "X", name, r, steps_thread(w));
        put_category(w, "user_annotation", r);
        put_span(w, w->step_start[r], w->step_end[r]);
        lw_jsonout_end(&w->o);
    }
}

/* --- flows ------------------------------------------------------------------------------------ */

/* The rows of one program run that lead a bucket's gradients to its collective. Index -1 = none. */
struct path {
    int64_t *made;    /* [n_params] row that completes the gradient */
    int64_t *copied;  /* [n_params] row that copies it into its bucket */
    int64_t *reduced; /* [n_buckets] row of the first collective on it */
};

static void put_flow_point(struct writer *w, const char *phase, int64_t id, int64_t row)
{
    begin(w, phase, "gradient", w->t->rank[row], w->t->stream[row]);
    LW_JSON(&w->o, "cat", "gradient", "id", id);
    put_us(&w->o, "ts", w->t->start[row]);
    if (phase[0] == 'f')
        lw_jsonout_string(&w->o, "bp", "e");
    lw_jsonout_end(&w->o);
}

static void put_flows(struct writer *w, const struct path *at)
{
    for (int32_t b = 0; b < w->p->n_buckets; b++) {
        if (at->reduced[b] < 0)
            continue;
        const struct lw_bucket *bucket = &w->p->buckets[b];
        for (int32_t k = 0; k < bucket->n_slots; k++) {
            int32_t param = w->p->slots[bucket->first_slot + k];
            int64_t made = at->made[param], copied = at->copied[param];
            if (made < 0 && copied < 0)
                continue;
            int64_t id = ++w->n_flows;
            put_flow_point(w, "s", id, made >= 0 ? made : copied);
            if (made >= 0 && copied >= 0)
                put_flow_point(w, "t", id, copied);
            put_flow_point(w, "f", id, at->reduced[b]);
        }
    }
}

static void note_row(const struct writer *w, struct path *at, int64_t row)
{
    const struct lw_op *op = LW_OP(w->p, w->t->op[row]);
    int64_t *of = op->kind == LW_OP_COPY_IN ? at->copied : at->made;

    for (int32_t k = 0; k < op->n_ready; k++)
        of[w->p->ready[op->first_ready + k]] = row;
    if (lw_op_class(op->kind) == LW_CLASS_COLLECTIVE && op->bucket >= 0 &&
        at->reduced[op->bucket] < 0)
        at->reduced[op->bucket] = row;
}

static void forget(const struct writer *w, struct path *at)
{
    memset(at->made, -1, (size_t)w->p->n_params * sizeof *at->made);
    memset(at->copied, -1, (size_t)w->p->n_params * sizeof *at->copied);
    memset(at->reduced, -1, (size_t)w->p->n_buckets * sizeof *at->reduced);
}

/* Rows of one rank's pass follow each other: the timeline is sorted. */
static void put_step_flows(struct writer *w, struct path *at)
{
    const struct lw_timeline *t = w->t;

    for (int64_t i = w->from; i < w->to; i++) {
        if (i == w->from || t->rank[i] != t->rank[i - 1] || t->pass[i] != t->pass[i - 1]) {
            if (i > w->from)
                put_flows(w, at);
            forget(w, at);
        }
        note_row(w, at, i);
    }
    put_flows(w, at);
}

/* --- counters --------------------------------------------------------------------------------- */

struct edge {
    int32_t rank;
    lw_ps at;
    int64_t bytes;
    int32_t comm, compute;
};

LW_COMPARATOR(by_place, struct edge, a->rank, b->rank, a->at, b->at)

static void put_counter(struct writer *w, const char *name, int32_t rank, lw_ps at,
                        const char *unit, int64_t value)
{
    begin(w, "C", name, rank, 0);
    put_us(&w->o, "ts", at);
    LW_JSON_ROW(&w->o, "args", unit, value);
    lw_jsonout_end(&w->o);
}

static int64_t collect_edges(const struct writer *w, struct edge *v)
{
    int64_t n = 0;

    for (int64_t i = w->from; i < w->to; i++) {
        struct lw_span s = lw_timeline_get(w->t, i);
        enum lw_op_class c = lw_op_class(s.kind);
        if (s.end == s.start || (!is_comm(c) && c != LW_CLASS_COMPUTE))
            continue;
        int64_t bytes = is_comm(c) ? lw_plan_operand(w->p, LW_OP(w->p, s.op), s.rank).bytes : 0;
        lw_ps moves = s.all_in >= 0 ? s.all_in : s.start;
        v[n++] = (struct edge){s.rank, s.start, 0, is_comm(c), c == LW_CLASS_COMPUTE};
        v[n++] = (struct edge){s.rank, s.end, -bytes, -is_comm(c), -(c == LW_CLASS_COMPUTE)};
        if (is_comm(c))
            v[n++] = (struct edge){s.rank, moves, bytes, 0, 0};
    }
    lw_sort(v, n, by_place);
    return n;
}

/* A counter's value is written where it changes, once an instant (instants as they are written). */
static void put_counters(struct writer *w, struct edge *v)
{
    int64_t n = collect_edges(w, v), now[3] = {0}, shown[3] = {0};
    static const char *const names[] = {"bytes in flight", "communication active",
                                        "compute active"};
    static const char *const units[] = {"bytes", "ops", "ops"};

    for (int64_t i = 0; i < n; i++) {
        now[0] += v[i].bytes;
        now[1] += v[i].comm;
        now[2] += v[i].compute;
        if (i + 1 < n && v[i + 1].rank == v[i].rank &&
            lw_ps_to_ns(v[i + 1].at) == lw_ps_to_ns(v[i].at))
            continue;
        for (int k = 0; k < 3; k++) {
            if (now[k] != shown[k])
                put_counter(w, names[k], v[i].rank, v[i].at, units[k], now[k]);
            shown[k] = now[k];
        }
    }
}

/* --- the file --------------------------------------------------------------------------------- */

enum lw_status lw_export_check(const struct lw_export *e, struct lw_err *err)
{
    const struct lw_timeline *t = e->timeline;
    const struct lw_plan *p = e->plan;

    for (int64_t i = 0; i < t->n; i++)
        if (t->op[i] < 0 || t->op[i] >= p->n_ops || t->rank[i] < 0 || t->rank[i] >= p->n_ranks ||
            t->stream[i] < 0 || t->stream[i] >= p->n_streams)
            return lw_fail(err, LW_EINVAL,
                           "span %lld (rank %d, stream %d, op %d) is not the plan's", (long long)i,
                           t->rank[i], t->stream[i], t->op[i]);
    return LW_OK;
}

static enum lw_status check(const struct writer *w, struct lw_err *err)
{
    if (w->t->n == 0)
        return lw_fail(err, LW_EINVAL, "a timeline without spans cannot be exported");
    LW_TRY(lw_export_check(w->e, err));
    if (w->e->rank < 0 || w->e->rank >= w->p->n_ranks)
        return lw_fail(err, LW_EINVAL, "rank %d: the run has ranks 0 to %d", w->e->rank,
                       w->p->n_ranks - 1);
    return LW_OK;
}

/* The rows [from, to) of the step that begins at `from`, and when each rank does it. */
static void find_step(struct writer *w, int64_t from)
{
    const struct lw_timeline *t = w->t;

    w->from = from;
    for (int32_t r = 0; r < w->n_ranks; r++) {
        w->step_start[r] = INT64_MAX;
        w->step_end[r] = INT64_MIN;
    }
    for (w->to = from; w->to < t->n && t->step[w->to] == t->step[from]; w->to++) {
        int32_t r = t->rank[w->to];
        lw_ps start = t->start[w->to], end = t->end[w->to];
        w->step_start[r] = start < w->step_start[r] ? start : w->step_start[r];
        w->step_end[r] = end > w->step_end[r] ? end : w->step_end[r];
    }
}

static enum lw_status put_events(struct writer *w, struct lw_err *err)
{
    int64_t n_params = w->p->n_params, n_buckets = w->p->n_buckets, most = 0;
    struct path path;
    struct edge *edges;

    LW_TAKE(&w->scratch, path.made, n_params, err);
    LW_TAKE(&w->scratch, path.copied, n_params, err);
    LW_TAKE(&w->scratch, path.reduced, n_buckets, err);
    LW_TAKE(&w->scratch, w->step_start, w->n_ranks, err);
    LW_TAKE(&w->scratch, w->step_end, w->n_ranks, err);
    for (int64_t i = 0; i < w->t->n; i = w->to) {
        find_step(w, i);
        most = w->to - w->from > most ? w->to - w->from : most;
    }
    LW_TAKE(&w->scratch, edges, 3 * most, err);
    put_names(w);
    for (int64_t i = 0; i < w->t->n; i = w->to) {
        find_step(w, i);
        put_step(w, w->t->step[i]);
        for (int64_t k = w->from; k < w->to; k++)
            put_op(w, k);
        put_step_flows(w, &path);
        put_counters(w, edges);
    }
    return LW_OK;
}

static enum lw_status put_file(struct writer *w, struct lw_err *err)
{
    struct lw_jsonout *o = &w->o;

    lw_jsonout_object(o, NULL);
    LW_JSON(o, "schemaVersion", 1, "displayTimeUnit", "ns");
    LW_JSON_ROW(o, "lapwing", "copies_hide_comm", (bool)true);
    LW_JSON_ROW(o, "distributedInfo", "backend", "lapwing", "rank", w->e->rank,
                "world_size", w->p->n_ranks);
    lw_jsonout_object(o, "otherData");
    for (int i = 0; i < w->e->n_notes; i++)
        lw_jsonout_string(o, w->e->notes[i].name, w->e->notes[i].text);
    lw_jsonout_end(o);
    lw_jsonout_array(o, "traceEvents");
    enum lw_status st = put_events(w, err);
    lw_jsonout_end(o);
    lw_jsonout_end(o);
    return st;
}

enum lw_status lw_export_chrome(const struct lw_export *e, FILE *f, struct lw_err *err)
{
    struct writer w = {.e = e, .t = e->timeline, .p = e->plan, .o = {.file = f},
                       .n_ranks = e->plan->n_ranks};
    enum lw_status st = check(&w, err);

    if (st == LW_OK)
        st = put_file(&w, err);
    lw_arena_free(&w.scratch);
    return st;
}
