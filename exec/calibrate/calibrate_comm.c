/* Series of communication: every collective over sizes, messages of neighbours, several at once;
 * and how much an all-reduce and compute beside it slow each other. */
#include <string.h>

#include "exec/calibrate/calibrate_plan.h"
#include "exec/calibrate/calibrate_state.h"
#include "shared/base/arena.h"

enum { N_BESIDE = 5, LARGEST_PAIR = 64 << 20 };
#define LONGEST_BESIDE_PS (250 * LW_PS_PER_MS) /* kernel beside an all-reduce */
#define GAP_PS (LW_PS_PER_MS / 5) /* of compute before each */

static const struct {
    enum lw_op_kind op;
    int32_t n_in_flight;
} series[N_SERIES] = {
    [SERIES_REDUCE_ALL] = {LW_OP_ALL_REDUCE, 1}, [SERIES_BROADCAST] = {LW_OP_BROADCAST, 1},
    [SERIES_GATHER] = {LW_OP_ALL_GATHER, 1},     [SERIES_SCATTER] = {LW_OP_REDUCE_SCATTER, 1},
    [SERIES_REDUCE_ONE] = {LW_OP_REDUCE, 1},     [SERIES_ALL_TO_ALL] = {LW_OP_ALL_TO_ALL, 1},
    [SERIES_BARRIER] = {LW_OP_BARRIER, 1},       [SERIES_SEND] = {LW_OP_SEND, 1},
    [SERIES_SEND_BOTH] = {LW_OP_SEND, 2},        [SERIES_SEND_FAR] = {LW_OP_SEND, 1},
    [SERIES_SEND_FAR_BOTH] = {LW_OP_SEND, 2},
};

/* The row of the table above of a series, in groups or not. */
static int base(enum exec_series s)
{
    return s < N_SERIES ? (int)s : ((int)s - N_SERIES) % N_COLLECTIVES;
}

int32_t exec_calibrate_per_node(const struct exec_calibration *c)
{
    return c->per_node > 0 ? c->per_node : c->o->n_ranks;
}

static int32_t n_nodes(const struct exec_calibration *c)
{
    return c->o->n_ranks / exec_calibrate_per_node(c);
}

static bool is_far_message(enum exec_series s)
{
    return s == SERIES_SEND_FAR || s == SERIES_SEND_FAR_BOTH;
}

/* -1: all ranks are one group. */
static int32_t shape_of(enum exec_series s)
{
    return s < N_SERIES     ? -1
           : s < FIRST_PAIR ? ((int)s - N_SERIES) / N_COLLECTIVES
                            : ((int)s - FIRST_PAIR) / N_COLLECTIVES - 1;
}

static bool across(enum exec_series s)
{
    return shape_of(s) == SHAPE_ACROSS;
}

int32_t exec_series_group(const struct exec_calibration *c, enum exec_series s)
{
    return across(s) ? n_nodes(c) : shape_of(s) < 0 ? c->o->n_ranks : 2 << shape_of(s);
}

/* Ranks of a node are consecutive. */
int32_t exec_series_nodes(const struct exec_calibration *c, enum exec_series s)
{
    int32_t per_node = exec_calibrate_per_node(c);
    int32_t n = exec_series_op(s) == LW_OP_SEND ? 2 : exec_series_group(c, s);

    return across(s) || is_far_message(s) ? n : (n + per_node - 1) / per_node;
}

bool exec_series_can(const struct exec_calibration *c, enum exec_series s)
{
    int32_t n = c->o->n_ranks, group = exec_series_group(c, s);
    int32_t per_node = exec_calibrate_per_node(c);
    bool even = n % group == 0 && (per_node % group == 0 || group % per_node == 0);
    bool fits = n > 1 && (shape_of(s) < 0 || (group > 1 && group < n && (across(s) || even)));

    if (is_far_message(s) && n_nodes(c) < 2)
        return false;
    return fits && exec_backend_can(c->o->backend, exec_series_op(s));
}

enum lw_op_kind exec_series_op(enum exec_series s)
{
    return series[base(s)].op;
}

int32_t exec_series_in_flight(enum exec_series s)
{
    return s < FIRST_PAIR ? series[base(s)].n_in_flight : 2;
}

const int64_t *exec_series_sizes(const struct exec_calibration *c, enum exec_series s, int32_t *n)
{
    static const int64_t nothing[] = {0};

    *n = s == SERIES_BARRIER ? 1 : c->n_sizes;
    while (s >= FIRST_PAIR && c->bytes[*n - 1] > LARGEST_PAIR)
        --*n;
    return s == SERIES_BARRIER ? nothing : c->bytes;
}

static enum lw_status keep_times(struct exec_calibration *c, const struct exec_piece *piece,
                                 const struct lw_plan *p, const struct lw_exec_result *r,
                                 struct lw_err *err)
{
    const struct lw_timeline *t = &r->timeline;

    for (int64_t row = 0; row < t->n; row++) {
        int32_t size = exec_calibrate_size_of(p, t, row, piece->first);
        if (size >= 0 && t->kind[row] == exec_series_op((enum exec_series)piece->series))
            LW_TRY(exec_samples_add(&c->comm[piece->series][size],
                                    (double)exec_calibrate_length(t, row), err));
    }
    return LW_OK;
}

static enum lw_status keep_times_and_unit(struct exec_calibration *c,
                                          const struct exec_piece *piece, const struct lw_plan *p,
                                          const struct lw_exec_result *r, struct lw_err *err)
{
    LW_TRY(exec_samples_add(&c->unit_all, r->unit_ns, err));
    return keep_times(c, piece, p, r, err);
}

/* All-reduces of buckets that have just been written, nothing beside them. */
enum lw_status exec_calibrate_alone(struct exec_calibration *c, const struct exec_piece *p,
                                    struct lw_err *err)
{
    struct exec_calibrate_run how = {p->n_steps, CALIBRATE_WARMUP, EXEC_COMPUTE_GEMM, EXEC_SGD};
    int64_t sizes[CALIBRATE_SIZES + 1];
    int32_t n = exec_calibrate_sizes(c->bytes, p->first, p->n, sizes);
    struct lw_plan plan;

    LW_TRY(exec_plan_reduce(c->o->n_ranks, sizes, n, GAP_PS, NULL, &plan, err));
    return exec_calibrate_run(c, p, &plan, how, keep_times_and_unit, err);
}

static struct exec_calibrate_run with_gaps(const struct exec_calibration *c, int32_t n_steps)
{
    enum exec_compute gaps = c->o->loop ? EXEC_COMPUTE_GEMM : EXEC_COMPUTE_SPIN;

    return (struct exec_calibrate_run){n_steps, CALIBRATE_WARMUP, gaps, EXEC_SGD};
}

enum lw_status exec_calibrate_collectives(struct exec_calibration *c, const struct exec_piece *p,
                                          struct lw_err *err)
{
    enum exec_series which = (enum exec_series)p->series;
    const enum lw_op_kind kinds[2] = {exec_series_op(which), exec_series_op(which)};
    int64_t sizes[CALIBRATE_SIZES + 1];
    struct lw_plan plan;
    int32_t n;
    const int64_t *all = exec_series_sizes(c, which, &n);

    n = exec_calibrate_sizes(all, p->first, p->n, sizes);
    LW_TRY(exec_plan_collectives(c->o->n_ranks, exec_series_group(c, which),
                                 across(which) ? exec_calibrate_per_node(c) : 1,
                                 kinds, exec_series_in_flight(which), sizes, n, GAP_PS, &plan,
                                 err));
    return exec_calibrate_run(c, p, &plan, with_gaps(c, p->n_steps), keep_times, err);
}

/* --- messages --------------------------------------------------------------------------------- */

static int32_t stride_of(const struct exec_calibration *c, int32_t which)
{
    return is_far_message((enum exec_series)which) ? exec_calibrate_per_node(c) : 1;
}

/* Both ends of a message stand at the same place of their ranks' programs, which are of one
 * length. The end that came last did not wait: the shorter of the two is the message. */
static enum lw_status keep_messages(struct exec_calibration *c, const struct exec_piece *piece,
                                    const struct lw_plan *p, const struct lw_exec_result *r,
                                    struct lw_err *err)
{
    const struct lw_timeline *t = &r->timeline;
    int32_t stride = stride_of(c, piece->series);

    for (int64_t row = 0; row < t->n; row++) {
        int32_t size = exec_calibrate_size_of(p, t, row, piece->first);
        int64_t other = row + (int64_t)stride * lw_plan_program(p, 1, t->rank[row]).n_ops;
        if (size < 0 || t->kind[row] == LW_OP_KERNEL || t->rank[row] / stride % 2 != 0 ||
            other >= t->n)
            continue; /* a process other than rank 0 has its own rows alone */
        lw_ps here = exec_calibrate_length(t, row), there = exec_calibrate_length(t, other);
        LW_TRY(exec_samples_add(&c->comm[piece->series][size],
                                (double)(here < there ? here : there), err));
    }
    return LW_OK;
}

enum lw_status exec_calibrate_messages(struct exec_calibration *c, const struct exec_piece *p,
                                       struct lw_err *err)
{
    int64_t sizes[CALIBRATE_SIZES + 1];
    int32_t n = exec_calibrate_sizes(c->bytes, p->first, p->n, sizes);
    struct lw_plan plan;

    LW_TRY(exec_plan_messages(c->o->n_ranks, stride_of(c, p->series), sizes, n,
                              exec_series_in_flight((enum exec_series)p->series) == 2, GAP_PS,
                              &plan, err));
    return exec_calibrate_run(c, p, &plan, with_gaps(c, p->n_steps), keep_messages, err);
}

/* --- beside compute --------------------------------------------------------------------------- */

/* One rank's step of the plan `beside`. */
struct overlap {
    int32_t n_kernels;
    lw_ps comm, beside, alone; /* sums over the sizes */
};

static void add_row(struct overlap *v, const struct lw_op *op, const struct lw_timeline *t,
                    int64_t row)
{
    if (op->comm >= 0) {
        v->comm += exec_calibrate_length(t, row);
    } else if (op->kind == LW_OP_KERNEL && v->n_kernels++ % 2 == 0) {
        v->beside += exec_calibrate_length(t, row);
    } else if (op->kind == LW_OP_KERNEL) {
        v->alone += exec_calibrate_length(t, row);
    }
}

/* What the all-reduces of the plan take alone. */
static double alone(struct exec_calibration *c, const struct lw_plan *p)
{
    double sum = 0;

    for (int32_t i = 0; i < p->n_ops; i++)
        for (int32_t k = 0; p->ops[i].comm >= 0 && k < c->n_sizes; k++)
            if (c->bytes[k] == p->ops[i].bytes)
                sum += exec_samples_median(&c->comm[SERIES_REDUCE_ALL][k]);
    return sum;
}

static enum lw_status keep_overlap(struct exec_calibration *c, const struct exec_piece *piece,
                                   const struct lw_plan *p, const struct lw_exec_result *r,
                                   struct lw_err *err)
{
    const struct lw_timeline *t = &r->timeline;
    double comm_alone = alone(c, p);

    (void)piece;
    for (int64_t row = 0; row < t->n;) {
        int32_t step = t->step[row], rank = t->rank[row];
        struct overlap v = {0};
        for (; row < t->n && t->step[row] == step && t->rank[row] == rank; row++)
            add_row(&v, &p->ops[t->op[row]], t, row);
        if (step < CALIBRATE_WARMUP || v.comm <= 0)
            continue;
        LW_TRY(exec_samples_add(&c->comm_rate, comm_alone / (double)v.comm, err));
        LW_TRY(exec_samples_add(&c->compute_rate,
                                1 - (double)(v.beside - v.alone) / (double)v.comm, err));
        LW_TRY(exec_samples_add(&c->disturbance, (double)(v.beside + v.alone), err));
    }
    return LW_OK;
}

enum lw_status exec_calibrate_undisturbed(const struct exec_calibration *c,
                                          struct exec_samples *out, struct lw_err *err)
{
    int64_t n = c->disturbance.n;
    struct exec_samples sorted = {0};
    enum lw_status s = LW_OK;

    for (int64_t i = 0; s == LW_OK && i < n; i++)
        s = exec_samples_add(&sorted, c->disturbance.v[i], err);
    double limit = exec_samples_quarter(&sorted);
    for (int64_t i = 0; s == LW_OK && i < n; i++)
        if (c->disturbance.v[i] <= limit)
            s = exec_samples_add(out, c->compute_rate.v[i], err);
    exec_samples_free(&sorted);
    return s;
}

/* Sizes from 1 MiB to 16 MiB, what buckets mostly are, each beside a kernel three times as long. */
static void choose_kernels(struct exec_calibration *c, int64_t *bytes, lw_ps *work)
{
    for (int32_t i = 0; i < N_BESIDE; i++) {
        bytes[i] = INT64_C(1) << (20 + i);
        for (int32_t k = 0; k < c->n_sizes; k++)
            if (c->bytes[k] == bytes[i])
                work[i] = 3 * (lw_ps)exec_samples_median(&c->comm[SERIES_REDUCE_ALL][k]);
        work[i] += LW_PS_PER_MS;
    }
}

enum lw_status exec_calibrate_beside(struct exec_calibration *c, const struct exec_piece *p,
                                     struct lw_err *err)
{
    struct exec_calibrate_run how = {p->n_steps, CALIBRATE_WARMUP, EXEC_COMPUTE_GEMM, EXEC_SGD};
    int64_t bytes[N_BESIDE];
    lw_ps work[N_BESIDE] = {0};
    struct lw_plan plan;
    int32_t n = 0;

    choose_kernels(c, bytes, work);
    if (c->team) /* all run rank 0's plan */
        LW_TRY(exec_rendezvous_broadcast(c->team, work, sizeof work, err));
    while (n < N_BESIDE && (n == 0 || work[n] <= LONGEST_BESIDE_PS))
        n++; /* on slow links the small ones alone */
    LW_TRY(exec_plan_reduce(c->o->n_ranks, bytes, n, GAP_PS, work, &plan, err));
    return exec_calibrate_run(c, p, &plan, how, keep_overlap, err);
}
