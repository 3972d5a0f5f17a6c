/* Pairs of activities of a device: compute beside each kind of collective, and kinds of collectives
 * beside each other. Both sides of a pair are measured in the same steps.
 *
 * What two activities do at once is seen where they overlap. One that takes `length` beside the
 * other, `together` of it at the same time, and `alone` by itself, has done alone - (length -
 * together) of its work in that time: its rate is that over `together`. A sample whose overlap is
 * less than half of the shorter time alone gives no rate: it would divide the jitter of the lengths
 * by a short time. Measured where ranks have devices. Ranks on cores share a core, and its split
 * gives the rates (docs/design/engine_rates.md). */
#include <string.h>

#include "exec/calibrate/calibrate_plan.h"
#include "exec/calibrate/calibrate_state.h"
#include "shared/cluster/measured.h"

enum { N_BESIDE = 3, FIRST_MIB = 20 }; /* 1, 4 and 16 MiB */
#define GAP_PS (LW_PS_PER_MS / 5)

static const enum lw_op_kind pairs[][2] = {
    {LW_OP_ALL_REDUCE, LW_OP_KERNEL},        {LW_OP_ALL_GATHER, LW_OP_KERNEL},
    {LW_OP_REDUCE_SCATTER, LW_OP_KERNEL},    {LW_OP_ALL_TO_ALL, LW_OP_KERNEL},
    {LW_OP_ALL_GATHER, LW_OP_REDUCE_SCATTER}, {LW_OP_ALL_REDUCE, LW_OP_ALL_GATHER},
    {LW_OP_ALL_REDUCE, LW_OP_REDUCE_SCATTER}, {LW_OP_ALL_REDUCE, LW_OP_ALL_TO_ALL},
};

int32_t exec_calibrate_n_pairs(void)
{
    return (int32_t)(sizeof pairs / sizeof *pairs);
}

/* Of all ranks; N_COLLECTIVES: compute. */
static enum exec_series series_of(enum lw_op_kind op)
{
    int s = 0;

    while (s < N_COLLECTIVES && exec_series_op((enum exec_series)s) != op)
        s++;
    return (enum exec_series)s;
}

bool exec_calibrate_pair_fits(const struct exec_calibration *c, int32_t pair)
{
    bool fits = c->o->n_ranks > 1 && !(c->o->backend->capabilities & EXEC_IN_HOST_MEMORY);

    for (int k = 0; k < 2; k++)
        fits = fits && (pairs[pair][k] == LW_OP_KERNEL ||
                        exec_series_can(c, series_of(pairs[pair][k])));
    return fits;
}

/* The rate beside another activity during `together`; 0: they did not meet. */
static double rate_beside(lw_ps alone, lw_ps length, lw_ps together)
{
    return together > 0 ? (double)(alone - (length - together)) / (double)together : 0;
}

struct side { /* a row of the timeline; -1: none */
    int64_t row;
    lw_ps alone;
};

static lw_ps alone(struct exec_calibration *c, enum lw_op_kind op, int32_t beside)
{
    int32_t size = 0;

    while (size + 1 < c->n_sizes && c->bytes[size] < INT64_C(1) << (FIRST_MIB + 2 * beside))
        size++;
    return (lw_ps)exec_samples_median(&c->comm[series_of(op)][size]);
}

static lw_ps began(const struct lw_timeline *t, int64_t row)
{
    return t->end[row] - exec_calibrate_length(t, row);
}

static enum lw_status add_both(struct exec_calibration *c, const struct lw_timeline *t,
                               const struct lw_plan *p, const struct side *s, struct lw_err *err)
{
    lw_ps from = began(t, s[0].row), to = t->end[s[0].row];

    from = began(t, s[1].row) > from ? began(t, s[1].row) : from;
    to = t->end[s[1].row] < to ? t->end[s[1].row] : to;
    lw_ps shorter = s[0].alone < s[1].alone ? s[0].alone : s[1].alone;
    for (int k = 0; k < 2; k++) {
        enum lw_activity of = lw_activity_of(p->ops[t->op[s[k].row]].kind);
        enum lw_activity beside = lw_activity_of(p->ops[t->op[s[1 - k].row]].kind);
        if (to <= from || to - from < shorter / 2) {
            c->n_apart[of][beside]++;
            continue;
        }
        double rate = rate_beside(s[k].alone, exec_calibrate_length(t, s[k].row), to - from);
        LW_TRY(exec_samples_add(&c->pair[of][beside], rate, err));
    }
    return LW_OK;
}

/* Rows of one rank and step are in the order of its program: of each size the gap, the two sides,
 * and beside compute the kernel alone. */
enum lw_status exec_calibrate_keep_pairs(struct exec_calibration *c, const struct exec_piece *piece,
                                         const struct lw_plan *p, const struct lw_exec_result *r,
                                         struct lw_err *err)
{
    const enum lw_op_kind *pair = pairs[piece->series];
    const struct lw_timeline *t = &r->timeline;
    struct side s[2] = {{-1, 0}, {-1, 0}};

    for (int64_t row = 0; row < t->n; row++) {
        const struct lw_op *op = &p->ops[t->op[row]];
        bool kernel = op->kind == LW_OP_KERNEL;
        if (t->step[row] < CALIBRATE_WARMUP || (kernel && op->work_ps <= GAP_PS)) {
            s[0].row = s[1].row = -1;
            continue;
        }
        int k = op->kind == pair[0] ? 0 : 1;
        if (!kernel) {
            s[k] = (struct side){row, alone(c, op->kind, op->module)};
        } else if (s[1].row < 0) {
            s[1].row = row;
            continue;
        } else {
            s[1].alone = exec_calibrate_length(t, row);
        }
        if (s[0].row >= 0 && s[1].row >= 0 && s[1].alone > 0)
            LW_TRY(add_both(c, t, p, s, err));
    }
    return LW_OK;
}

enum lw_status exec_calibrate_pairs(struct exec_calibration *c, const struct exec_piece *p,
                                    struct lw_err *err)
{
    const enum lw_op_kind *pair = pairs[p->series];
    struct exec_calibrate_run how = {p->n_steps, CALIBRATE_WARMUP, EXEC_COMPUTE_GEMM, EXEC_SGD};
    int64_t bytes[N_BESIDE];
    lw_ps work[N_BESIDE];
    struct lw_plan plan;

    for (int32_t i = 0; i < N_BESIDE; i++) {
        bytes[i] = INT64_C(1) << (FIRST_MIB + 2 * i);
        work[i] = 2 * alone(c, pair[0], i) + LW_PS_PER_MS;
    }
    if (c->team) /* all run rank 0's plan */
        LW_TRY(exec_rendezvous_broadcast(c->team, work, sizeof work, err));
    LW_TRY(pair[1] == LW_OP_KERNEL
               ? exec_plan_with_compute(c->o->n_ranks, pair[0], bytes, N_BESIDE, GAP_PS, work,
                                        &plan, err)
               : exec_plan_collectives(c->o->n_ranks, c->o->n_ranks, 1, pair, 2, bytes, N_BESIDE,
                                       GAP_PS, &plan, err));
    return exec_calibrate_run(c, p, &plan, how, exec_calibrate_keep_pairs, err);
}
