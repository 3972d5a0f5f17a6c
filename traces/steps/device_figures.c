/* Device figures of a trace, by the definitions of docs/design/inspect.md.
 *
 * Busy times are lengths of unions of intervals over all streams, clipped to a window; exposed
 * times are differences of such unions; so window = compute + exposed comm + exposed mem + idle
 * holds exactly, in whole nanoseconds. Barriers move nothing: they are idle time. An iteration is a
 * distinct host-side ProfilerStep#N, or a range that the importer found to be one.
 * Nothing is estimated: a communication kernel's time includes waiting for peers, and no figure
 * corrects it. */
#include "traces/steps/device_figures.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/timeline/timeline.h"
#include "traces/trace/comm_facts.h"
#include "traces/trace/kernel_launches.h"

enum kind { COMPUTE, COMM, MEM, BARRIER, N_KINDS };

struct launched {
    int64_t launch, i; /* rows of calls ascend with their starts */
};

struct context {
    const struct lw_trace *t;
    const struct lw_kernel_table *table; /* a user's classes; NULL = none */
    struct traces_launches launches;
    uint8_t *kind;                     /* [launches.n] enum kind */
    struct traces_comm_index comms;
    struct launched *launched;         /* [n_launched] those with a launch, in order of it */
    int64_t n_launched;
    int64_t *mine;                     /* [n_launched] scratch: an iteration's, in start order */
    int64_t *latest_end;               /* [launches.n] of the rows up to here */
    struct lw_interval *set[N_KINDS];  /* the rows of one window; launches.n in all */
    struct lw_interval *scratch;       /* [launches.n] as measuring reorders its input */
    int64_t n_set[N_KINDS];
};

/* ---- measuring ---- */

/* Each set is in order of start, and so is what they make. */
static struct lw_interval *join(struct lw_interval *to, const struct context *c, unsigned kinds,
                                int64_t *n)
{
    const struct lw_interval *at[N_KINDS], *end[N_KINDS];
    int left = 0;

    for (int k = 0; k < N_KINDS; k++)
        if (kinds & 1u << k && c->n_set[k] > 0) {
            at[left] = c->set[k];
            end[left++] = c->set[k] + c->n_set[k];
        }
    *n = 0;
    while (left > 1) {
        int first = 0;
        for (int k = 1; k < left; k++)
            first = at[k]->start < at[first]->start ? k : first;
        to[(*n)++] = *at[first]++;
        if (at[first] == end[first]) {
            at[first] = at[--left];
            end[first] = end[left];
        }
    }
    if (left == 1) {
        memcpy(to + *n, at[0], (size_t)(end[0] - at[0]) * sizeof *to);
        *n += end[0] - at[0];
    }
    return to;
}

static int64_t busy(struct context *c, unsigned kinds, int64_t from, int64_t to)
{
    int64_t n;
    struct lw_interval *v = join(c->scratch, c, kinds, &n);

    return lw_intervals_union(v, n, from, to);
}

/* No kind is in both. */
static int64_t exposed(struct context *c, unsigned kinds, unsigned hidden_by, int64_t from,
                       int64_t to)
{
    int64_t n_a, n_b;
    struct lw_interval *a = join(c->scratch, c, kinds, &n_a);
    struct lw_interval *b = join(a + n_a, c, hidden_by, &n_b);

    return lw_intervals_minus(a, n_a, b, n_b, from, to);
}

static struct lw_busy measure(struct context *c, int64_t from, int64_t to)
{
    unsigned compute = 1u << COMPUTE, comm = 1u << COMM, mem = 1u << MEM;
    unsigned hides_comm = c->t->copies_hide_comm ? compute | mem : compute;
    unsigned hides_mem = c->t->copies_hide_comm ? compute : compute | comm;

    return (struct lw_busy){
        .window_ns = to - from,
        .compute_busy_ns = busy(c, compute, from, to),
        .comm_busy_ns = busy(c, comm, from, to),
        .mem_busy_ns = busy(c, mem, from, to),
        .exposed_comm_ns = exposed(c, comm, hides_comm, from, to),
        .exposed_mem_ns = exposed(c, mem, hides_mem, from, to),
        .idle_ns = to - from - busy(c, compute | comm | mem, from, to),
        .barrier_ns = busy(c, 1u << BARRIER, from, to),
    };
}

static void clear(struct context *c)
{
    memset(c->n_set, 0, sizeof c->n_set);
}

static void put(struct context *c, int64_t i)
{
    int64_t row = c->launches.row[i];
    int k = c->kind[i];

    c->set[k][c->n_set[k]++] =
        (struct lw_interval){c->t->start_ns[row], lw_trace_end_ns(c->t, row)};
}

static struct lw_busy measure_span(struct context *c)
{
    int64_t from = INT64_MAX, to = INT64_MIN;

    for (int k = 0; k < N_KINDS; k++)
        for (int64_t i = 0; i < c->n_set[k]; i++) {
            from = c->set[k][i].start < from ? c->set[k][i].start : from;
            to = c->set[k][i].end > to ? c->set[k][i].end : to;
        }
    return measure(c, from, to);
}

/* ---- communication kernels ---- */

static enum lw_status fill_comm(struct context *c, int64_t i, struct lw_iteration *it,
                                struct lw_arena *arena, struct lw_err *err)
{
    const struct lw_trace *t = c->t;
    int64_t row = c->launches.row[i], launch = c->launches.launch[i];
    const char *name = lw_trace_name(t, row);
    struct traces_comm_fact f = traces_comm_fact_of(t, &c->comms, row, launch);
    struct lw_comm_op *op = &it->comm[it->n_comm++];

    *op = (struct lw_comm_op){
        .op = f.op,
        .kernel = lw_arena_strndup(arena, name, strcspn(name, "(")),
        .dtype = f.dtype,
        .stream = t->track[row],
        .group_size = f.group_size,
        .launch_ns = t->start_ns[launch] - it->start_ns,
        .start_ns = t->start_ns[row] - it->start_ns,
        .dur_ns = t->dur_ns[row],
        .bytes = f.bytes,
    };
    return op->kernel ? LW_OK : lw_fail_nomem(err);
}

/* ---- iterations ---- */

static void measure_by_time(struct context *c, struct lw_iteration *it)
{
    const struct lw_trace *t = c->t;

    clear(c);
    int64_t first = lw_values_upto(c->latest_end, c->launches.n, it->start_ns); /* not ended yet */
    for (int64_t i = first; i < c->launches.n; i++) {
        int64_t row = c->launches.row[i];
        if (t->start_ns[row] >= it->end_ns)
            break;
        if (lw_trace_end_ns(t, row) > it->start_ns)
            put(c, i);
    }
    it->by_time = measure(c, it->start_ns, it->end_ns);
}

LW_COMPARATOR(by_number, int64_t, *a, *b)

/* Place in `launched` of the first call that starts at or after ns. */
static int64_t first_launch(const struct context *c, int64_t ns)
{
    int64_t row = lw_trace_row_at(c->t, ns);

    return lw_items_upto(c->launched, c->n_launched, sizeof *c->launched, row - 1);
}

static bool is_comm(const struct context *c, int64_t i)
{
    return c->kind[i] == COMM || c->kind[i] == BARRIER;
}

static enum lw_status measure_by_launch(struct context *c, struct lw_iteration *it,
                                        struct lw_arena *arena, struct lw_err *err)
{
    int64_t from = first_launch(c, it->start_ns), to = first_launch(c, it->end_ns), n_comm = 0;

    clear(c);
    it->n_gpu_ops = to > from ? to - from : 0;
    for (int64_t k = 0; k < it->n_gpu_ops; k++)
        c->mine[k] = c->launched[from + k].i;
    lw_sort(c->mine, it->n_gpu_ops, by_number);
    for (int64_t k = 0; k < it->n_gpu_ops; k++) {
        put(c, c->mine[k]);
        n_comm += is_comm(c, c->mine[k]);
    }
    if (it->n_gpu_ops > 0)
        it->by_launch = measure_span(c);
    LW_TAKE(arena, it->comm, n_comm, err);
    for (int64_t k = 0; k < it->n_gpu_ops; k++)
        if (is_comm(c, c->mine[k]))
            LW_TRY(fill_comm(c, c->mine[k], it, arena, err));
    return LW_OK;
}

static bool is_step(const struct lw_trace *t, int64_t row)
{
    return lw_trace_on_host(t, row) && lw_trace_name_begins(t, row, "ProfilerStep#");
}

/* What lets an iteration be measured without a look at all rows. */
static enum lw_status index_rows(struct context *c, struct lw_arena *scratch, struct lw_err *err)
{
    int64_t latest = INT64_MIN;

    LW_TAKE(scratch, c->mine, c->n_launched, err);
    LW_TAKE(scratch, c->latest_end, c->launches.n, err);
    for (int64_t i = 0; i < c->launches.n; i++) {
        int64_t end = lw_trace_end_ns(c->t, c->launches.row[i]);
        c->latest_end[i] = latest = end > latest ? end : latest;
    }
    return LW_OK;
}

/* A name counts once: the device's twin of a range has the same. */
static enum lw_status measure_iterations(struct context *c, struct lw_arena *scratch,
                                         struct lw_inspection *out, struct lw_err *err)
{
    const struct lw_trace *t = c->t;
    int64_t *rows, n;
    bool *seen;

    LW_TAKE(scratch, seen, t->strings.n, err);
    if (t->n_steps > 0) {
        rows = t->step_rows;
        n = t->n_steps;
    } else {
        LW_TRY(lw_trace_pick(t, 0, t->n, is_step, scratch, &rows, &n, err));
    }
    if (n > 0)
        LW_TRY(index_rows(c, scratch, err));
    LW_TAKE(&out->arena, out->iterations, n, err);
    for (int64_t k = 0; k < n; k++) {
        struct lw_iteration *it = &out->iterations[out->n_iterations];
        int64_t row = rows[k];
        if (seen[t->name[row]])
            continue;
        out->n_iterations++;
        seen[t->name[row]] = true;
        it->name = lw_trace_name(t, row);
        it->start_ns = t->start_ns[row];
        it->end_ns = lw_trace_end_ns(t, row);
        measure_by_time(c, it);
        LW_TRY(measure_by_launch(c, it, &out->arena, err));
    }
    return LW_OK;
}

/* ---- the whole ---- */

LW_COMPARATOR(by_launch_order, struct launched, a->launch, b->launch, a->i, b->i)

static enum lw_status list_launched(struct context *c, struct lw_arena *scratch,
                                    struct lw_err *err)
{
    LW_TAKE(scratch, c->launched, c->launches.n, err);
    for (int64_t i = 0; i < c->launches.n; i++)
        if (c->launches.launch[i] >= 0)
            c->launched[c->n_launched++] = (struct launched){c->launches.launch[i], i};
    lw_sort(c->launched, c->n_launched, by_launch_order);
    return LW_OK;
}

static bool is_barrier(const struct context *c, int64_t i)
{
    struct traces_comm_fact f =
        traces_comm_fact_of(c->t, &c->comms, c->launches.row[i], c->launches.launch[i]);

    return traces_comm_kind(f.op) == LW_OP_BARRIER;
}

/* Each kind has as much of set[0] as it has rows. */
static void share_sets(struct context *c)
{
    int64_t n[N_KINDS] = {0};

    for (int64_t i = 0; i < c->launches.n; i++)
        n[c->kind[i]]++;
    for (int k = 1; k < N_KINDS; k++)
        c->set[k] = c->set[k - 1] + n[k - 1];
}

static enum lw_status prepare(struct context *c, struct lw_arena *scratch, struct lw_err *err)
{
    const struct lw_trace *t = c->t;
    int64_t n = c->launches.n;
    uint8_t *class_of;

    LW_TRY(traces_kernel_classes(t, c->table, scratch, &class_of, err));
    LW_TAKE(scratch, c->kind, n, err);
    LW_TAKE(scratch, c->scratch, n, err);
    LW_TAKE(scratch, c->set[0], n, err);
    LW_TRY(traces_comm_index_build(t, scratch, &c->comms, err));
    for (int64_t i = 0; i < n; i++) {
        int64_t row = c->launches.row[i];
        c->kind[i] = t->class[row] == LW_ROW_MEM                ? MEM
                     : class_of[t->name[row]] == LW_KERNEL_COMM ? COMM
                                                                : COMPUTE;
        if (c->kind[i] == COMM && is_barrier(c, i))
            c->kind[i] = BARRIER;
    }
    share_sets(c);
    return list_launched(c, scratch, err);
}

static enum lw_status inspect(struct context *c, struct lw_arena *scratch,
                              struct lw_inspection *out, struct lw_err *err)
{
    LW_TRY(traces_launches_build(c->t, &out->arena, &out->launches, err));
    c->launches = out->launches;
    if (c->launches.n == 0)
        return LW_OK;
    LW_TRY(prepare(c, scratch, err));
    LW_TRY(traces_lost_launches(c->t, &c->launches, &out->n_lost, err));
    out->n_repeated = traces_repeated_rows(c->t);
    for (int64_t i = 0; i < c->launches.n; i++)
        put(c, i);
    out->n_resolved = c->n_launched;
    out->n_device_rows = c->launches.n;
    out->has_device = true;
    out->whole = measure_span(c);
    return measure_iterations(c, scratch, out, err);
}

enum lw_status lw_inspect(const struct lw_trace *t, const struct lw_kernel_table *table,
                          struct lw_inspection *out, struct lw_err *err)
{
    struct lw_inspection result = {0};
    struct lw_arena scratch = {0};
    struct context c = {.t = t, .table = table};
    enum lw_status status = inspect(&c, &scratch, &result, err);

    lw_arena_free(&scratch);
    LW_GIVE(status, out, result, lw_inspection_free(&result));
}

LW_FREE_BY_ARENA(lw_inspection_free, struct lw_inspection)
