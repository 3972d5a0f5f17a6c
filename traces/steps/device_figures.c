/* Device figures of a trace, by the definitions of docs/design/inspect.md.
 *
 * Busy times are lengths of unions of intervals over all streams, clipped to a window; exposed
 * times are differences of such unions; so window = compute + exposed comm + exposed mem + idle
 * holds exactly, in whole nanoseconds. An iteration is a distinct host-side ProfilerStep#N.
 * Nothing is estimated: a communication kernel's time includes waiting for peers, and no figure
 * corrects it. */
#include "traces/steps/device_figures.h"

#include <stdlib.h>
#include <string.h>

#include "shared/numbers/order.h"
#include "shared/timeline/timeline.h"
#include "traces/trace/comm_facts.h"
#include "traces/trace/kernel_launches.h"

enum kind { COMPUTE, COMM, MEM, N_KINDS };

struct context {
    const struct lw_trace *t;
    const struct lw_kernel_table *table; /* a user's classes; NULL = none */
    struct traces_launches launches;
    uint8_t *kind;                     /* [launches.n] enum kind */
    struct traces_comm_index comms;
    int64_t *launched, n_launched;     /* those with a launch, in order of it */
    int64_t *mine;                     /* [n_launched] scratch: an iteration's, in start order */
    int64_t *latest_end;               /* [launches.n] of the rows up to here */
    struct lw_interval *set[N_KINDS];  /* [launches.n] each: the rows of one window */
    struct lw_interval *a, *b;         /* [launches.n] scratch, as measuring reorders its input */
    int64_t n_set[N_KINDS];
};

/* ---- measuring ---- */

static struct lw_interval *join(struct lw_interval *to, const struct context *c, unsigned kinds,
                                int64_t *n)
{
    *n = 0;
    for (int k = 0; k < N_KINDS; k++)
        if (kinds & 1u << k) {
            memcpy(to + *n, c->set[k], (size_t)c->n_set[k] * sizeof *to);
            *n += c->n_set[k];
        }
    return to;
}

static int64_t busy(struct context *c, unsigned kinds, int64_t from, int64_t to)
{
    int64_t n;
    struct lw_interval *v = join(c->a, c, kinds, &n);

    return lw_intervals_union(v, n, from, to);
}

static int64_t exposed(struct context *c, unsigned kinds, unsigned hidden_by, int64_t from,
                       int64_t to)
{
    int64_t n_a, n_b;
    struct lw_interval *a = join(c->a, c, kinds, &n_a), *b = join(c->b, c, hidden_by, &n_b);

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
    int64_t low = 0, high = c->n_launched;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (c->t->start_ns[c->launches.launch[c->launched[mid]]] < ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static enum lw_status measure_by_launch(struct context *c, struct lw_iteration *it,
                                        struct lw_arena *arena, struct lw_err *err)
{
    int64_t from = first_launch(c, it->start_ns), to = first_launch(c, it->end_ns), n_comm = 0;

    clear(c);
    it->n_gpu_ops = to > from ? to - from : 0;
    if (it->n_gpu_ops > 0) {
        memcpy(c->mine, c->launched + from, (size_t)it->n_gpu_ops * sizeof *c->mine);
        qsort(c->mine, (size_t)it->n_gpu_ops, sizeof *c->mine, by_number);
    }
    for (int64_t k = 0; k < it->n_gpu_ops; k++) {
        put(c, c->mine[k]);
        n_comm += c->kind[c->mine[k]] == COMM;
    }
    if (it->n_gpu_ops > 0)
        it->by_launch = measure_span(c);
    LW_TAKE(arena, it->comm, n_comm, err);
    for (int64_t k = 0; k < it->n_gpu_ops; k++)
        if (c->kind[c->mine[k]] == COMM)
            LW_TRY(fill_comm(c, c->mine[k], it, arena, err));
    return LW_OK;
}

static bool is_step(const struct lw_trace *t, int64_t row)
{
    return lw_trace_on_host(t, row) && lw_trace_name_begins(t, row, "ProfilerStep#");
}

/* A name counts once: the device's twin of a range has the same. */
static enum lw_status measure_iterations(struct context *c, struct lw_arena *scratch,
                                         struct lw_inspection *out, struct lw_err *err)
{
    const struct lw_trace *t = c->t;
    bool *seen = lw_arena_alloc(scratch, t->strings.n, sizeof *seen);
    int64_t n = 0;

    for (int64_t row = 0; row < t->n; row++)
        n += is_step(t, row);
    out->iterations = lw_arena_alloc(&out->arena, n, sizeof *out->iterations);
    if (!seen || !out->iterations)
        return lw_fail_nomem(err);
    for (int64_t row = 0; row < t->n; row++)
        if (is_step(t, row) && !seen[t->name[row]]) {
            struct lw_iteration *it = &out->iterations[out->n_iterations++];
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

struct launched { /* while they are sorted */
    int64_t launch, i;
};

LW_COMPARATOR(by_launch_order, struct launched, a->launch, b->launch, a->i, b->i)

/* What lets an iteration be measured without a look at all rows. */
static enum lw_status index_rows(struct context *c, struct lw_arena *scratch, struct lw_err *err)
{
    int64_t n = c->launches.n, latest = INT64_MIN;
    struct launched *v = lw_alloc((size_t)n * sizeof *v);

    c->launched = lw_arena_alloc(scratch, n, sizeof *c->launched);
    c->mine = lw_arena_alloc(scratch, n, sizeof *c->mine);
    c->latest_end = lw_arena_alloc(scratch, n, sizeof *c->latest_end);
    if (!v || !c->launched || !c->mine || !c->latest_end) {
        lw_free(v);
        return lw_fail_nomem(err);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t end = lw_trace_end_ns(c->t, c->launches.row[i]);
        c->latest_end[i] = latest = end > latest ? end : latest;
        if (c->launches.launch[i] >= 0)
            v[c->n_launched++] = (struct launched){c->launches.launch[i], i};
    }
    qsort(v, (size_t)c->n_launched, sizeof *v, by_launch_order);
    for (int64_t k = 0; k < c->n_launched; k++)
        c->launched[k] = v[k].i;
    lw_free(v);
    return LW_OK;
}

static enum lw_status prepare(struct context *c, struct lw_arena *scratch, struct lw_err *err)
{
    const struct lw_trace *t = c->t;
    int64_t n = c->launches.n;
    uint8_t *is_comm = lw_arena_alloc(scratch, t->strings.n, 1);

    c->kind = lw_arena_alloc(scratch, n, sizeof *c->kind);
    c->a = lw_arena_alloc(scratch, n, sizeof *c->a);
    c->b = lw_arena_alloc(scratch, n, sizeof *c->b);
    for (int k = 0; k < N_KINDS; k++)
        c->set[k] = lw_arena_alloc(scratch, n, sizeof *c->set[k]);
    if (!is_comm || !c->kind || !c->a || !c->b || !c->set[COMPUTE] ||
        !c->set[COMM] || !c->set[MEM])
        return lw_fail_nomem(err);
    for (int64_t s = 0; s < t->strings.n; s++)
        is_comm[s] =
            lw_kernel_class_of(c->table, t->strings.text[s]) == LW_KERNEL_COMM;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = c->launches.row[i];
        c->kind[i] = t->class[row] == LW_ROW_MEM ? MEM : is_comm[t->name[row]] ? COMM : COMPUTE;
    }
    return traces_comm_index_build(t, scratch, &c->comms, err);
}

static enum lw_status inspect(struct context *c, struct lw_arena *scratch,
                              struct lw_inspection *out, struct lw_err *err)
{
    clear(c);
    for (int64_t i = 0; i < c->launches.n; i++) {
        put(c, i);
        out->n_resolved += c->launches.launch[i] >= 0;
    }
    out->n_device_rows = c->launches.n;
    out->has_device = true;
    out->whole = measure_span(c);
    return measure_iterations(c, scratch, out, err);
}

enum lw_status lw_inspect(const struct lw_trace *t, struct lw_inspection *out, struct lw_err *err)
{
    return lw_inspect_with(t, NULL, out, err);
}

enum lw_status lw_inspect_with(const struct lw_trace *t, const struct lw_kernel_table *table,
                               struct lw_inspection *out, struct lw_err *err)
{
    struct lw_inspection result = {0};
    struct lw_arena scratch = {0};
    struct context c = {.t = t, .table = table};

    LW_TRY(traces_launches_build(t, &c.launches, err));
    enum lw_status status = LW_OK;
    if (c.launches.n > 0) {
        status = prepare(&c, &scratch, err);
        if (status == LW_OK)
            status = index_rows(&c, &scratch, err);
        if (status == LW_OK)
            status = inspect(&c, &scratch, &result, err);
    }
    traces_launches_free(&c.launches);
    lw_arena_free(&scratch);
    if (status != LW_OK) {
        lw_inspection_free(&result);
        return status;
    }
    *out = result;
    return LW_OK;
}

LW_FREE_BY_ARENA(lw_inspection_free, struct lw_inspection)
