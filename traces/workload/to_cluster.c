/* Collectives of traces as measured tables.
 *
 * A collective waits inside for its last member, so one rank's time is an upper bound of the
 * transfer. With traces of all ranks the k-th collectives of each kind belong together (one
 * communicator runs in one order); the member that entered last did not wait, so the shortest time
 * over ranks is taken. Per size the smallest of all samples is the row, their interquartile range
 * its spread; of collectives of the host, whose waiting is known from all ranks, the mean: buckets
 * follow each other on the link, and their sum counts.
 *
 * Gloo runs several at a time, which share one link: of k that overlap each moves at 1 / k of its
 * rate, and a row has the time that one alone would take, as in a replay
 * (traces/replay/core_share.c).
 *
 * A trace does not tell which links were used, nor nodes. One link of the bandwidth and latency
 * that the all-reduces show represents them, so that other collectives have a cost. */
#include "traces/workload/to_cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/cluster/measured.h"
#include "shared/numbers/order.h"
#include "shared/plan/op.h"
#include "traces/steps/device_figures.h"
#include "traces/steps/host_runs.h"

/* Of a small all-reduce of gloo over TCP: the least of what was measured
 * (docs/design/replay_model.md). */
static const lw_ps SMALL_PS = 200 * LW_PS_PER_US;

/* A replay takes the processor to bound what is faster (1 ns a byte, of half a core or more). */
static const double CPU_BOUND_PS_PER_BYTE = 2000;

struct sample {
    enum lw_op_kind op;
    enum lw_dtype dtype;
    int32_t n_ranks, n_in_flight;
    int64_t bytes, dur_ns;
    bool on_host;
};

struct list {
    struct sample *v;
    int64_t n, cap;
};

static const struct {
    const char *name; /* as NCCL, torch and gloo's ranges call it */
    enum lw_op_kind op;
} ops[] = {
    {"allreduce", LW_OP_ALL_REDUCE},
    {"all_reduce", LW_OP_ALL_REDUCE},
    {"broadcast", LW_OP_BROADCAST},
    {"allgather", LW_OP_ALL_GATHER},
    {"all_gather", LW_OP_ALL_GATHER},
    {"_allgather_base", LW_OP_ALL_GATHER},
    {"reduce_scatter", LW_OP_REDUCE_SCATTER},
    {"_reduce_scatter_base", LW_OP_REDUCE_SCATTER},
    {"all_to_all", LW_OP_ALL_TO_ALL},
    {"reduce", LW_OP_REDUCE},
};

static bool op_named(const char *name, enum lw_op_kind *op)
{
    for (size_t i = 0; name && i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].name, name) == 0) {
            *op = ops[i].op;
            return true;
        }
    return false;
}

static enum lw_status add(struct list *l, struct sample s, struct lw_err *err)
{
    LW_ROOM(l->v, l->cap, l->n + 1, err);
    l->v[l->n++] = s;
    return LW_OK;
}

static enum lw_status add_device(const struct traces_source *s, struct list *l, struct lw_err *err)
{
    struct lw_inspection in;
    enum lw_status status = lw_inspect(&s->trace, NULL, &in, err);

    LW_TRY(status);
    for (int64_t i = 0; i < in.n_iterations; i++)
        for (int64_t k = 0; k < in.iterations[i].n_comm && status == LW_OK; k++) {
            const struct lw_comm_op *c = &in.iterations[i].comm[k];
            struct sample v = {.bytes = c->bytes, .dur_ns = c->dur_ns, .n_in_flight = 1,
                               .n_ranks = c->group_size > 0 ? c->group_size : s->trace.world_size};
            if (c->bytes <= 0 || v.n_ranks < 2 || !op_named(c->op, &v.op) ||
                !c->dtype || lw_dtype_parse(c->dtype, &v.dtype, NULL) != LW_OK)
                continue;
            if (v.op == LW_OP_ALL_GATHER) /* the gathered whole, not one member's part */
                v.bytes *= v.n_ranks;
            status = add(l, v, err);
        }
    lw_inspection_free(&in);
    return status;
}

struct turn {
    int64_t at_ns, collective;
    int32_t begins; /* 1: it begins, -1: it ends */
};

LW_COMPARATOR(compare_turns, struct turn, a->at_ns, b->at_ns, a->collective, b->collective,
              b->begins, a->begins)

/* Time on the link of a collective that is always in flight, in two parts that add up: the sum of
 * fractions alone is rounded. */
struct share {
    int64_t whole_ns;
    double part_ns;
};

/* What the collectives of a step would take alone: of k at once each gets 1 / k of the link. One
 * sweep over starts and ends; a collective's is the difference of the sums at its end and start. */
static enum lw_status alone_ns(const struct lw_trace *t, const struct lw_step *s,
                               struct lw_arena *arena, int64_t **out, struct lw_err *err)
{
    const int64_t n = s->n_collectives;
    int64_t k = 0, *alone;
    struct turn *turns;
    struct share *from, sum = {0};

    LW_TAKE(arena, alone, n, err);
    LW_TAKE(arena, from, n, err);
    LW_TAKE(arena, turns, 2 * n, err);
    for (int64_t i = 0; i < n; i++) {
        turns[2 * i] = (struct turn){t->start_ns[s->collectives[i]], i, 1};
        turns[2 * i + 1] = (struct turn){lw_trace_end_ns(t, s->collectives[i]), i, -1};
    }
    lw_sort(turns, 2 * n, compare_turns);
    for (int64_t i = 0; i < 2 * n; i++) {
        const struct turn *now = &turns[i];
        struct share *first = &from[now->collective];
        if (k > 0) {
            int64_t ns = now->at_ns - turns[i - 1].at_ns;
            sum.whole_ns += ns / k;
            sum.part_ns += (double)(ns % k) / (double)k;
        }
        k += now->begins;
        if (now->begins > 0)
            *first = sum;
        else
            alone[now->collective] = sum.whole_ns - first->whole_ns +
                                     (int64_t)floor(sum.part_ns - first->part_ns + 0.5);
    }
    *out = alone;
    return LW_OK;
}

/* Where nothing tells the world size, the traces given are taken to be all of its ranks. */
static int32_t world_of(const struct traces_source *s, int n_parallel)
{
    int32_t world = s->has_sidecar ? s->sidecar.world_size : s->trace.world_size;

    return world > 0 ? world : n_parallel > 2 ? n_parallel : 2;
}

/* One run of a collective of the host. Gloo gathers the parts of all ranks, and its events hold one
 * of them. It sums and scatters by an all-reduce of the whole input (torch 2.15): this is both. */
static enum lw_status add_run(const struct lw_trace *t, struct sample v, int64_t row,
                              int64_t launch, struct list *l, struct lw_err *err)
{
    const struct lw_row_detail *d = lw_trace_detail(t, row);

    if (d->shape_numel <= 0 || v.n_ranks < 2 ||
        !op_named(lw_trace_name(t, row) + strlen("gloo:"), &v.op) ||
        (d->shape_type >= 0 && /* not recorded (torch 1.13): f32 is assumed */
         !lw_trace_dtype(t, d->shape_type, &v.dtype)) ||
        __builtin_mul_overflow(d->shape_numel, lw_dtype_size(v.dtype), &v.bytes) ||
        (v.op == LW_OP_ALL_GATHER && __builtin_mul_overflow(v.bytes, v.n_ranks, &v.bytes)))
        return LW_OK;
    LW_TRY(add(l, v, err));
    if (v.op != LW_OP_ALL_REDUCE || launch < 0 ||
        !lw_trace_name_begins(t, launch, "c10d::_reduce_scatter"))
        return LW_OK;
    v.op = LW_OP_REDUCE_SCATTER;
    return add(l, v, err);
}

static enum lw_status add_host(const struct traces_source *s, int n_parallel, struct list *l,
                               struct lw_err *err)
{
    const struct lw_trace *t = &s->trace;
    struct lw_arena arena = {0};
    int64_t *launch;
    enum lw_status status = traces_host_launches(t, &arena, &launch, err);

    for (int64_t i = 0; i < s->steps.n && status == LW_OK; i++) {
        const struct lw_step *step = &s->steps.steps[i];
        int64_t *alone;
        status = alone_ns(t, step, &arena, &alone, err);
        for (int64_t k = 0; k < step->n_collectives && status == LW_OK; k++) {
            int64_t row = step->collectives[k];
            struct sample v = {.dtype = LW_F32, .n_ranks = world_of(s, n_parallel),
                               .n_in_flight = 1, .on_host = true, .dur_ns = alone[k]};
            status = add_run(t, v, row, launch[row], l, err);
        }
    }
    lw_arena_free(&arena);
    return status;
}

/* Do the two lists show the same collectives in the same order? */
static bool alike(const struct list *a, const struct list *b)
{
    if (a->n != b->n)
        return false;
    for (int64_t i = 0; i < a->n; i++)
        if (a->v[i].op != b->v[i].op || a->v[i].bytes != b->v[i].bytes)
            return false;
    return true;
}

/* Fold further ranks into the first where they match, else append; returns how many matched. */
static enum lw_status collect(const struct traces_source *source, int n, struct list *all,
                              int *n_matched, struct lw_err *err)
{
    enum lw_status status = LW_OK;
    int n_parallel = 0;

    *n_matched = 1;
    for (int i = 0; i < n; i++)
        n_parallel += source[i].parallel;
    for (int i = 0; i < n && status == LW_OK; i++) {
        struct list one = {0};
        if (!source[i].parallel)
            continue;
        status = add_device(&source[i], &one, err);
        if (status == LW_OK)
            status = add_host(&source[i], n_parallel, &one, err);
        bool same = all->n > 0 && alike(all, &one);
        *n_matched += same;
        for (int64_t k = 0; k < one.n && status == LW_OK; k++) {
            if (!same)
                status = add(all, one.v[k], err);
            else if (one.v[k].dur_ns < all->v[k].dur_ns)
                all->v[k].dur_ns = one.v[k].dur_ns;
        }
        lw_free(one.v);
    }
    return status;
}

LW_COMPARATOR(compare, struct sample, a->op, b->op, a->dtype, b->dtype, a->n_ranks, b->n_ranks,
              a->n_in_flight, b->n_in_flight, a->bytes, b->bytes, a->dur_ns, b->dur_ns)

static bool same_table(const struct sample *a, const struct sample *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->n_ranks == b->n_ranks &&
           a->n_in_flight == b->n_in_flight;
}

/* The shortest collective of that many ranks, of any kind. */
static int64_t shortest_of(const struct list *l, int32_t n_ranks)
{
    int64_t least = INT64_MAX;

    for (int64_t i = 0; i < l->n; i++)
        if (l->v[i].n_ranks == n_ranks && l->v[i].dur_ns < least)
            least = l->v[i].dur_ns;
    return least;
}

/* What of each row does not grow with its bytes, beyond twice the shortest collective (a ring
 * all-reduce has twice the steps of a broadcast): a rank waits for others. Of rows that show a
 * line, as a replay finds it (traces/replay/bucket_times.c). */
static double waiting_ps(const struct lw_cost_table *t, int64_t shortest_ns)
{
    double sb = 0, st = 0, sbb = 0, sbt = 0, n = t->n_rows;

    for (int32_t i = 0; i < t->n_rows; i++) {
        double bytes = (double)t->bytes[i], ps = (double)t->time_ps[i];
        sb += bytes, st += ps, sbb += bytes * bytes, sbt += bytes * ps;
    }
    double width = n * sbb - sb * sb, slope = width > 0 ? (n * sbt - sb * st) / width : 0;
    double wait = slope > 0 ? (st - slope * sb) / n - 2 * (double)lw_ns_to_ps(shortest_ns) : 0;
    return wait > 0 ? wait : 0;
}

/* Where plans with other buckets than the recorded ones part from a replay with them. */
static enum lw_status say_limits(struct lw_cluster *c, const struct list *l, bool matched,
                                 struct lw_cost_table *t, struct lw_err *err)
{
    double wait = matched ? 0 : waiting_ps(t, shortest_of(l, t->n_ranks));
    char waits[160] = "", buf[32];

    if (t->op != LW_OP_ALL_REDUCE)
        return LW_OK;
    if (wait > 0)
        snprintf(waits, sizeof waits,
                 "; %s of each do not grow with the bytes and count in every bucket of a "
                 "plan, in a replay at the recorded gradients",
                 lw_format_ps(buf, (lw_ps)(wait + 0.5)));
    LW_PRINT(&c->arena, t->source, err,
             "%s%s; below %.2f MiB, the smallest recorded, the time stays %s, in a replay "
             "(sim --replay --bucket-cap) it goes down with the bytes",
             t->source, waits, (double)t->bytes[0] / (1 << 20),
             lw_format_ps(buf, t->time_ps[0]));
    return LW_OK;
}

/* Time over bytes beyond the rows. Below the smallest: what a small collective costs the processor,
 * and the time per byte of that row, or the mean one of all rows where that is less (rows at
 * halves, as tables are interpolated on logarithmic axes). Above the largest: the mean one. */
enum { MOST_HALVES = 32, TIMES_LARGEST = 8 };

static double mean_rate(const struct lw_cost_table *t)
{
    double bytes = 0, ps = 0;

    for (int32_t i = 0; i < t->n_rows; i++) {
        bytes += (double)t->bytes[i];
        ps += (double)t->time_ps[i];
    }
    return ps / bytes;
}

static int32_t rows_below(const struct lw_cost_table *t, int64_t *bytes, lw_ps *time)
{
    double least = fmin((double)SMALL_PS, (double)t->time_ps[0]);
    double per_byte = fmin(((double)t->time_ps[0] - least) / (double)t->bytes[0], mean_rate(t));
    int64_t size = lw_dtype_size(t->dtype), half[MOST_HALVES];
    int32_t n = 0, n_halves = 0;

    for (int64_t b = t->bytes[0] / 2; n_halves < MOST_HALVES && b > size; b /= 2) {
        half[n_halves++] = b;
        if (per_byte * (double)b < least / 4)
            break;
    }
    if (t->bytes[0] > size) {
        bytes[n] = size;
        time[n++] = (lw_ps)least;
    }
    for (int32_t i = n_halves - 1; i >= 0; i--) {
        bytes[n] = half[i];
        time[n++] = (lw_ps)(least + per_byte * (double)half[i]);
    }
    return n;
}

static bool row_above(const struct lw_cost_table *t, int64_t *bytes, lw_ps *time)
{
    const int32_t last = t->n_rows - 1;

    if (t->bytes[last] > (INT64_C(1) << 50))
        return false;
    *bytes = TIMES_LARGEST * t->bytes[last];
    double more = mean_rate(t) * (double)(*bytes - t->bytes[last]);
    *time = (lw_ps)fmin((double)t->time_ps[last] + more, 9e18);
    return true;
}

static enum lw_status continue_rows(struct lw_cluster *c, struct lw_cost_table *t,
                                    struct lw_err *err)
{
    int64_t *bytes, most = t->n_rows + MOST_HALVES + 2;
    lw_ps *time, *spread = NULL;
    char buf[32];

    LW_TAKE(&c->arena, bytes, most, err);
    LW_TAKE(&c->arena, time, most, err);
    int32_t n = rows_below(t, bytes, time), first = n;
    for (int32_t i = 0; i < t->n_rows; i++) {
        bytes[n] = t->bytes[i];
        time[n++] = t->time_ps[i];
    }
    n += row_above(t, &bytes[n], &time[n]);
    if (t->spread_ps) {
        LW_TAKE(&c->arena, spread, most, err);
        for (int32_t i = 0; i < t->n_rows; i++)
            spread[first + i] = t->spread_ps[i];
    }
    LW_PRINT(&c->arena, t->source, err,
             "%s, alone on the link; below %.2f MiB and above %.2f MiB nothing was recorded: "
             "assumed as in a replay (sim --replay --bucket-cap), in proportion to the bytes, and "
             "%s for the smallest (gloo: 0.2 to 0.9 ms were measured)%s",
             t->source, (double)t->bytes[0] / (1 << 20),
             (double)t->bytes[t->n_rows - 1] / (1 << 20), lw_format_ps(buf, time[0]),
             mean_rate(t) > CPU_BOUND_PS_PER_BYTE
                 ? ""
                 : "; the processor bounds them: their times hold what computing cost them, and a "
                   "plan gives them a core of their own, where a replay shares the computing one");
    t->bytes = bytes;
    t->time_ps = time;
    t->spread_ps = spread;
    t->n_rows = n;
    return LW_OK;
}

static bool is_on_host(const struct list *l, const struct lw_cost_table *t)
{
    for (int64_t i = 0; i < l->n; i++)
        if (l->v[i].op == t->op && l->v[i].dtype == t->dtype && l->v[i].n_ranks == t->n_ranks)
            return l->v[i].on_host;
    return false;
}

static lw_ps mean_ps(const struct sample *v, int64_t from, int64_t to)
{
    double ns = 0;

    for (int64_t i = from; i < to; i++)
        ns += (double)v[i].dur_ns;
    return (lw_ps)(ns / (double)(to - from) * 1e3 + 0.5);
}

/* Samples [from, to) are one table: one row per size. */
static enum lw_status fill_table(struct lw_cluster *c, const struct sample *v, int64_t from,
                                 int64_t to, const char *about, bool matched, struct lw_err *err)
{
    struct lw_cost_table *t = &c->tables[c->n_tables++];
    int64_t *bytes;
    lw_ps *time, *spread;

    LW_TAKE(&c->arena, bytes, to - from, err);
    LW_TAKE(&c->arena, time, to - from, err);
    LW_TAKE(&c->arena, spread, to - from, err);
    *t = (struct lw_cost_table){.op = v[from].op, .dtype = v[from].dtype,
                                .n_ranks = v[from].n_ranks, .n_nodes = 1,
                                .n_in_flight = v[from].n_in_flight, .bytes = bytes,
                                .time_ps = time, .spread_ps = spread, .source = about};
    for (int64_t i = from, end; i < to; i = end) {
        for (end = i; end < to && v[end].bytes == v[i].bytes; end++)
            ;
        int64_t last = end - i - 1; /* quartiles rounded outwards */
        bytes[t->n_rows] = v[i].bytes;
        time[t->n_rows] = matched && v[i].on_host ? mean_ps(v, i, end) : lw_ns_to_ps(v[i].dur_ns);
        spread[t->n_rows++] =
            lw_ns_to_ps(v[i + (3 * last + 3) / 4].dur_ns - v[i + last / 4].dur_ns);
        if (last == 0)
            t->spread_ps = NULL; /* one sample has no spread */
    }
    return LW_OK;
}

static const char *about_samples(struct lw_cluster *c, const struct list *l, int n_matched,
                                 int32_t world)
{
    if (n_matched >= world)
        return lw_arena_printf(&c->arena,
                               "traces of %d ranks, %lld collectives: shortest over ranks",
                               n_matched, (long long)l->n);
    return lw_arena_printf(&c->arena, "traces of %d of %d ranks, %lld collectives: upper bounds, "
                                      "waiting for late ranks is inside",
                           n_matched, world, (long long)l->n);
}

/* The row of the all-reduce tables from which the link is taken: alone in flight, the most bytes;
 * NULL: no all-reduce of at least two ranks. */
static const struct lw_cost_table *link_table(const struct lw_cluster *c)
{
    const struct lw_cost_table *best = NULL;

    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *t = &c->tables[i];
        if (t->op == LW_OP_ALL_REDUCE && t->time_ps[t->n_rows - 1] > 0 &&
            (!best || t->n_in_flight < best->n_in_flight ||
             (t->n_in_flight == best->n_in_flight &&
              t->bytes[t->n_rows - 1] > best->bytes[best->n_rows - 1])))
            best = t;
    }
    return best;
}

bool traces_link_of_rows(const struct lw_cost_table *t, double *bytes_per_s, double *latency_ps)
{
    const int32_t last = t->n_rows - 1;
    const double n = t->n_ranks, steps = 2 * (n - 1), most = (double)t->bytes[last],
                 longest = (double)t->time_ps[last], least = (double)t->bytes[0];
    double per_byte = longest / most;

    *latency_ps = 0;
    if (t->bytes[0] <= t->bytes[last] / 2 && t->time_ps[0] < t->time_ps[last]) {
        double slope = (longest - (double)t->time_ps[0]) / (most - least);
        if (slope < per_byte) {
            per_byte = slope;
            *latency_ps = floor((longest - slope * most) / steps + 0.5); /* whole picoseconds */
        }
    }
    *bytes_per_s = steps / n / per_byte * (double)LW_PS_PER_S;
    return *latency_ps > 0;
}

static enum lw_status fill_link(struct lw_cluster *c, struct lw_err *err)
{
    const struct lw_cost_table *t = link_table(c);
    const char *source, *of_latency;
    double bytes_per_s, latency_ps;

    if (!t)
        return LW_OK;
    LW_PRINT(&c->arena, source, err,
             "derived from the recorded all-reduces of %d ranks, %lld to %lld bytes", t->n_ranks,
             (long long)t->bytes[0], (long long)t->bytes[t->n_rows - 1]);
    of_latency = source;
    if (!traces_link_of_rows(t, &bytes_per_s, &latency_ps))
        LW_PRINT(&c->arena, of_latency, err,
                 "%s: they do not separate latency from rate, taken as 0", source);
    LW_TAKE(&c->arena, c->links, 1, err);
    c->links[c->n_links++] = (struct lw_link){
        .name = "recorded", .level = LW_LINK_INTRA, .bytes_per_s = {bytes_per_s, source},
        .latency_ps = {latency_ps, of_latency}, .n_links = {1, source}, .n_sharers = {1, source}};
    return LW_OK;
}

static enum lw_status fill_memory(struct lw_cluster *c, const struct traces_memory *m,
                                  struct lw_err *err)
{
    struct lw_device *d = &c->device;

    if (m->bytes_per_s <= 0)
        return LW_OK;
    d->memory_bytes_per_s.value = m->bytes_per_s;
    d->copy_bytes_per_s.value = m->bytes_per_s / 2;
    LW_PRINT(&c->arena, d->memory_bytes_per_s.source, err, "%s", m->source);
    LW_PRINT(&c->arena, d->copy_bytes_per_s.source, err, "%s; a copy reads and writes", m->source);
    return LW_OK;
}

/* After the link, which is of recorded rows. */
static enum lw_status fill_below(struct lw_cluster *c, const struct list *l, bool matched,
                                 struct lw_err *err)
{
    for (int32_t i = 0; i < c->n_tables; i++)
        if (matched && is_on_host(l, &c->tables[i]))
            LW_TRY(continue_rows(c, &c->tables[i], err));
        else
            LW_TRY(say_limits(c, l, matched, &c->tables[i], err));
    return LW_OK;
}

static enum lw_status fill(struct lw_cluster *c, const struct traces_source *s,
                           const struct list *l, int n_matched, const struct traces_memory *memory,
                           struct lw_err *err)
{
    const struct lw_trace *t = &s->trace;
    int32_t world = l->v[0].n_ranks;
    const char *about;

    lw_sort(l->v, l->n, compare);
    for (int64_t i = 0; i < l->n; i++)
        world = l->v[i].n_ranks > world ? l->v[i].n_ranks : world;
    about = about_samples(c, l, n_matched, world);
    c->name = lw_arena_strdup(&c->arena, "recorded");
    c->about = about;
    const char *device = traces_source_device(s);
    c->device.kind = lw_arena_strdup(&c->arena, *device ? device : "unknown");
    c->library = lw_arena_strdup(&c->arena, s->has_sidecar ? s->sidecar.backend
                                                           : lw_trace_text(t, t->backend));
    c->library_version = "";
    c->n_nodes = 1;
    c->devices_per_node = world;
    c->tables = lw_arena_alloc(&c->arena, l->n, sizeof *c->tables);
    if (!about || !c->name || !c->device.kind || !c->library || !c->tables)
        return lw_fail_nomem(err);
    for (int64_t i = 0, end; i < l->n; i = end) {
        for (end = i; end < l->n && same_table(&l->v[i], &l->v[end]); end++)
            ;
        LW_TRY(fill_table(c, l->v, i, end, about, n_matched >= world, err));
    }
    LW_TRY(fill_link(c, err));
    LW_TRY(fill_below(c, l, n_matched >= world, err));
    LW_TRY(fill_memory(c, memory, err));
    return lw_cluster_check(c, err);
}

enum lw_status lw_cluster_from_traces(const struct traces_source *source, int n,
                                      const struct traces_memory *memory, struct lw_cluster *out,
                                      struct lw_err *err)
{
    struct lw_cluster c = {0};
    struct list all = {0};
    int n_matched;
    enum lw_status status = collect(source, n, &all, &n_matched, err);

    if (status == LW_OK && all.n == 0)
        status = lw_fail(err, LW_EFORMAT,
                         "%s: --cluster-out: no collective of known size between ranks (expected "
                         "a data-parallel trace with shapes or NCCL sizes)",
                         source[0].file);
    for (int i = 0; status == LW_OK && i < n; i++)
        if (source[i].parallel) {
            status = fill(&c, &source[i], &all, n_matched, memory, err);
            break;
        }
    lw_free(all.v);
    LW_GIVE(status, out, c, lw_arena_free(&c.arena));
}
