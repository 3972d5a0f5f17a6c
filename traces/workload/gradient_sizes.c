/* Sizes of gradients that the trace does not give, by what it gives instead, in this order:
 *
 *   1. An all-reduce of known size that the engine launched inside the node of gradient k carries
 *      the gradients since the all-reduce before it (DistributedDataParallel launches a bucket from
 *      the hook of its last gradient). What the known ones leave is shared out.
 *   2. A gradient that was no tensor (fused into the backward, or unused) counts one element,
 *      unless none was a tensor.
 *   3. The user's total, or the elements that the optimizer's time allows: time times memory
 *      bandwidth over the bytes that it moves per element. That is an upper bound, as short kernels
 *      do not reach the bandwidth. It is shared out.
 *
 * Shares follow the device time of the hook (a copy or scaling of the gradient: proportional to its
 * size beyond the shortest one), and are equal where no hook ran. Everything filled is reported. */
#include "traces/workload/gradient_sizes.h"

#include <string.h>

#include "traces/trace/comm_facts.h"
#include "traces/trace/kernel_class.h"
#include "traces/workload/step_profile.h"
#include "traces/trace/kernel_launches.h"

struct message { /* an all-reduce; last: the gradient whose hook launched it */
    int64_t launch_ns, numel, last;
};

struct filler {
    const struct lw_trace *t;
    const struct lw_step *s;
    const struct traces_ops *ops;
    struct traces_sizes *out;
    struct lw_arena scratch;
    struct lw_err *err;
    int64_t *numel, *weight; /* [n_gradients] */
    bool *undefined;
    struct message *messages;
    int64_t n_messages;
};

/* ---- the all-reduces of the backward ---- */

static bool is_accumulation(const struct filler *f, int64_t row)
{
    return strstr(lw_trace_name(f->t, row), "AccumulateGrad") != NULL;
}

/* The gradient whose node or hook runs at ns; -1 = none does. */
static int64_t gradient_at(const struct filler *f, int64_t ns)
{
    int64_t last = -1, node = -1;

    for (int64_t g = 0; g < f->s->n_gradients; g++)
        if (f->t->start_ns[f->s->gradients[g].row] <= ns)
            last = g;
    for (int64_t k = 0; k < f->s->n_nodes && f->t->start_ns[f->s->nodes[k]] <= ns; k++)
        node = f->s->nodes[k];
    return node >= 0 && is_accumulation(f, node) ? last : -1;
}

static void add_message(struct filler *f, int64_t launch_ns, int64_t numel)
{
    int64_t last = numel > 0 ? gradient_at(f, launch_ns) : -1;
    struct message *m = f->messages;
    int64_t at = f->n_messages;

    if (last < 0)
        return;
    if (at > 0 && m[at - 1].last == last && m[at - 1].launch_ns <= launch_ns) {
        m[at - 1].numel += numel; /* several buckets that one gradient completed */
        return;
    }
    for (; at > 0 && m[at - 1].launch_ns > launch_ns; at--)
        m[at] = m[at - 1];
    m[at] = (struct message){launch_ns, numel, last};
    f->n_messages++;
}

static void host_messages(struct filler *f)
{
    for (int64_t i = 0; i < f->s->n_collectives; i++) {
        int64_t row = f->s->collectives[i];
        if (strcmp(lw_trace_name(f->t, row), "gloo:all_reduce") == 0)
            add_message(f, f->t->start_ns[row], lw_trace_detail(f->t, row)->shape_numel);
    }
}

static enum lw_status device_messages(struct filler *f)
{
    const struct lw_trace *t = f->t;
    struct traces_launches l;
    struct traces_comm_index index;
    enum lw_dtype dtype;

    LW_TRY(traces_comm_index_build(t, &f->scratch, &index, f->err));
    LW_TRY(traces_launches_build(t, &f->scratch, &l, f->err));
    LW_TAKE(&f->scratch, f->messages, l.n + f->s->n_collectives, f->err);
    for (int64_t i = 0; i < l.n; i++) {
        int64_t launch = l.launch[i];
        if (launch < 0 || t->class[l.row[i]] != LW_ROW_KERNEL ||
            t->start_ns[launch] < f->s->start_ns || t->start_ns[launch] >= f->s->end_ns ||
            !lw_kernel_is_comm(lw_trace_name(t, l.row[i])))
            continue;
        struct traces_comm_fact c = traces_comm_fact_of(t, &index, l.row[i], launch);
        if (traces_comm_kind(c.op) == LW_OP_ALL_REDUCE && c.bytes > 0 &&
            c.dtype && lw_trace_dtype_named(c.dtype, &dtype))
            add_message(f, t->start_ns[launch], c.bytes / lw_dtype_size(dtype));
    }
    return LW_OK;
}

/* ---- sharing out ---- */

/* Device time of what each gradient's node launched, beyond the shortest of all, plus 1. */
static void set_weights(struct filler *f)
{
    int64_t n = f->s->n_gradients, least = INT64_MAX;

    for (int64_t g = 0; g < n; g++) {
        const struct lw_gradient *grad = &f->s->gradients[g];
        int64_t i = lw_values_below(f->ops->launch_ns, f->ops->n, grad->node_start_ns);
        for (; i < f->ops->n && f->ops->launch_ns[i] < grad->node_end_ns; i++)
            if (!lw_kernel_is_comm(lw_trace_name(f->t, f->ops->row[i])))
                f->weight[g] += f->t->dur_ns[f->ops->row[i]];
        least = f->weight[g] < least ? f->weight[g] : least;
    }
    for (int64_t g = 0; g < n; g++)
        f->weight[g] += 1 - least;
}

/* Give the unknown ones of gradients [from, to) what `total` leaves; returns how many there are. */
static int32_t share(struct filler *f, int64_t from, int64_t to, int64_t total, bool undefined_too)
{
    int64_t *part = f->weight + f->s->n_gradients; /* room for as many after the weights */
    int32_t n = 0;

    for (int64_t g = from; g < to; g++) {
        total -= f->numel[g] > 0 ? f->numel[g] : 0;
        if (f->numel[g] < 0 && (undefined_too || !f->undefined[g]))
            part[n++] = f->weight[g];
    }
    if (n == 0)
        return 0;
    traces_scale(part, n, total > n ? total : n);
    for (int64_t g = from, k = 0; g < to; g++)
        if (f->numel[g] < 0 && (undefined_too || !f->undefined[g])) {
            f->numel[g] = part[k] > 0 ? part[k] : 1;
            k++;
        }
    return n;
}

static void by_buckets(struct filler *f)
{
    int64_t from = 0;

    for (int64_t i = 0; i < f->n_messages; i++) {
        const struct message *m = &f->messages[i];
        int32_t n = m->last >= from ? share(f, from, m->last + 1, m->numel, true) : 0;
        f->out->n_bucket += n;
        f->out->n_buckets += n > 0;
        from = m->last + 1 > from ? m->last + 1 : from;
    }
}

static bool all_unknown(const struct filler *f)
{
    for (int64_t g = 0; g < f->s->n_gradients; g++)
        if (f->numel[g] >= 0 || !f->undefined[g])
            return false;
    return true;
}

static void undefined_ones(struct filler *f)
{
    for (int64_t g = 0; g < f->s->n_gradients; g++)
        if (f->numel[g] < 0 && f->undefined[g]) {
            f->numel[g] = 1;
            f->out->n_undefined++;
        }
}

/* ---- a total ---- */

/* Bytes that one float32 element moves: parameter and gradient read, parameter written, each state
 * read and written. */
static int32_t bytes_of_optimizer(const char *name)
{
    bool two = strcasestr(name, "adam") || strcasestr(name, "lamb") || strcasestr(name, "adan");

    return two ? 28 : 20;
}

static int64_t optimizer_time(const struct filler *f)
{
    const struct lw_phase_span *o = &f->s->phase[LW_PHASE_OPTIMIZER];
    int64_t ns = 0;

    if (!o->found || !f->ops->device)
        return o->found ? o->end_ns - o->start_ns : 0;
    int64_t i = lw_values_below(f->ops->launch_ns, f->ops->n, o->start_ns);
    for (; i < f->ops->n && f->ops->launch_ns[i] < o->end_ns; i++)
        ns += f->t->dur_ns[f->ops->row[i]];
    return ns;
}

static const char *optimizer_name(const struct filler *f)
{
    int64_t from = lw_trace_row_at(f->t, f->s->start_ns), to = lw_trace_row_at(f->t, f->s->end_ns);

    for (int64_t i = from; i < to; i++)
        if (lw_trace_on_host(f->t, i) && lw_trace_name_begins(f->t, i, "Optimizer.step#"))
            return lw_trace_name(f->t, i);
    return "the optimizer";
}

static int64_t estimate(struct filler *f, double bytes_per_s)
{
    struct traces_sizes *o = f->out;
    double numel;

    o->optimizer = optimizer_name(f);
    o->optimizer_ns = optimizer_time(f);
    o->bytes_per_element = bytes_of_optimizer(o->optimizer);
    o->bytes_per_s = bytes_per_s;
    numel = (double)o->optimizer_ns / 1e9 * bytes_per_s / o->bytes_per_element;
    return numel < 1e15 ? (int64_t)numel : 0;
}

static void by_total(struct filler *f, int64_t total, double bytes_per_s)
{
    int64_t n = 0;

    for (int64_t g = 0; g < f->s->n_gradients; g++)
        n += f->numel[g] < 0;
    if (n == 0)
        return;
    if (total <= 0)
        total = estimate(f, bytes_per_s);
    if (total > 0)
        f->out->n_total = share(f, 0, f->s->n_gradients, total, true);
    else
        f->out->n_unknown = (int32_t)n;
}

/* ---- all ---- */

static enum lw_status fill(struct filler *f, int64_t given_numel, double bytes_per_s)
{
    int64_t n = f->s->n_gradients;

    LW_TAKE(&f->scratch, f->weight, 2 * n, f->err);
    LW_TAKE(&f->scratch, f->undefined, n, f->err);
    for (int64_t g = 0; g < n; g++) { /* a detail without a shape: the input was no tensor */
        int64_t row = f->s->gradients[g].row;
        f->undefined[g] = f->t->detail[row] >= 0 && lw_trace_detail(f->t, row)->shape_numel < 0;
    }
    set_weights(f);
    LW_TRY(device_messages(f));
    host_messages(f);
    by_buckets(f);
    if (given_numel <= 0 && all_unknown(f)) { /* a filtered file: nothing to measure by */
        f->out->n_unknown = (int32_t)n;
        return LW_OK;
    }
    if (given_numel <= 0)
        undefined_ones(f);
    by_total(f, given_numel, bytes_per_s);
    for (int64_t g = 0; g < n && f->out->n_unknown == 0; g++)
        f->out->total_numel += f->numel[g];
    return LW_OK;
}

enum lw_status traces_sizes_fill(const struct lw_trace *t, const struct lw_step *s,
                                 const struct traces_ops *ops, int64_t given_numel,
                                 double bytes_per_s, int64_t *numel, struct traces_sizes *out,
                                 struct lw_err *err)
{
    struct filler f = {.t = t, .s = s, .ops = ops, .out = out, .numel = numel, .err = err};
    bool complete = true;

    *out = (struct traces_sizes){0};
    for (int64_t g = 0; g < s->n_gradients; g++)
        complete &= numel[g] >= 0;
    if (complete)
        return LW_OK;
    enum lw_status status = fill(&f, given_numel, bytes_per_s);
    lw_arena_free(&f.scratch);
    return status;
}
