/* Series of what a rank does by itself, all ranks at once: products over sizes, and the passes
 * over memory that exec makes of a step: gradients filled, copied into buckets and out, cast to
 * another type and back, parameters updated. */
#include "exec/calibrate/calibrate_plan.h"
#include "exec/calibrate/calibrate_state.h"
#include "exec/backend/element.h"
#include "exec/backend/optimizer.h"
#include "exec/launch/rendezvous.h"
#include "exec/run/memory_fit.h"

enum { N_STEADY = 20, N_EMPTY = 200, N_SIDES = 17 };
enum { N_PASSES = 15, N_NARROW = 13, N_UPDATES = 8 }; /* 1 KiB to 16, 4 and 16 MiB */
enum { MOST_LARGER = 6 };                              /* from 16 MiB to 1 GiB */

const struct exec_work_series exec_work_series[CALIBRATE_N_WORK] = {
    {LW_WORK_GEMM, LW_F32, LW_F32},      {LW_WORK_FILL, LW_F32, LW_F32},
    {LW_WORK_FILL, LW_BF16, LW_BF16},    {LW_WORK_FILL, LW_F16, LW_F16},
    {LW_WORK_COPY_IN, LW_F32, LW_F32},   {LW_WORK_COPY_IN, LW_BF16, LW_BF16},
    {LW_WORK_COPY_IN, LW_F16, LW_F16},   {LW_WORK_COPY_OUT, LW_F32, LW_F32},
    {LW_WORK_COPY_OUT, LW_BF16, LW_BF16}, {LW_WORK_COPY_OUT, LW_F16, LW_F16},
    {LW_WORK_COPY, LW_F32, LW_F32},      {LW_WORK_CAST, LW_BF16, LW_F32},
    {LW_WORK_CAST, LW_F32, LW_BF16},     {LW_WORK_CAST, LW_F16, LW_F32},
    {LW_WORK_CAST, LW_F32, LW_F16},      {LW_WORK_SGD, LW_F32, LW_F32},
    {LW_WORK_MOMENTUM, LW_F32, LW_F32},  {LW_WORK_ADAM, LW_F32, LW_F32},
};

static const int64_t sides[N_SIDES] = {32,  48,  64,   96,   128,  192,  256,  384, 512,
                                       768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};

int64_t exec_work_size(int32_t series, int32_t i)
{
    switch (exec_work_series[series].kind) {
    case LW_WORK_GEMM: return 2 * sides[i] * sides[i] * sides[i];
    case LW_WORK_SGD:
    case LW_WORK_MOMENTUM:
    case LW_WORK_ADAM: return INT64_C(1024) << (2 * i);
    default: return INT64_C(1024) << i;
    }
}

static int32_t find_series(enum lw_work_kind kind, enum lw_dtype dtype, enum lw_dtype from)
{
    int32_t i = 0;

    while (i < CALIBRATE_N_WORK &&
           (exec_work_series[i].kind != kind || exec_work_series[i].dtype != dtype ||
            exec_work_series[i].from != from))
        i++;
    return i < CALIBRATE_N_WORK ? i : -1;
}

/* The first n sizes of a series, as a plan gets them; returns their number. */
static int32_t list_sizes(int32_t series, int32_t n, int64_t sizes[CALIBRATE_SIZES + 1])
{
    int64_t all[CALIBRATE_SIZES];

    for (int32_t i = 0; i < n; i++)
        all[i] = exec_work_size(series, i);
    return exec_calibrate_sizes(all, 0, n, sizes);
}

/* --- kernels ---------------------------------------------------------------------------------- */

static struct exec_calibrate_run steps_of(const struct exec_piece *p)
{
    return (struct exec_calibrate_run){p->n_steps, CALIBRATE_WARMUP, EXEC_COMPUTE_GEMM, EXEC_SGD};
}

/* Which size a row is about; -1: it does not count. Neither does the first kernel of a step. */
static int32_t counted(const struct lw_plan *p, const struct lw_timeline *t, int64_t row)
{
    return exec_calibrate_size_of(p, t, row, 0);
}

static enum lw_status keep_steadiness(struct exec_calibration *c, const struct exec_piece *piece,
                                      const struct lw_plan *p, const struct lw_exec_result *r,
                                      struct lw_err *err)
{
    const struct lw_timeline *t = &r->timeline;

    for (int64_t row = 0; row < t->n; row++)
        if (counted(p, t, row) >= 0)
            LW_TRY(exec_samples_add(&c->kernel, (double)exec_calibrate_length(t, row) /
                                                    (double)LW_PS_PER_MS, err));
    return exec_samples_add(piece->n == c->o->n_ranks ? &c->unit_all : &c->unit_alone, r->unit_ns,
                            err);
}

enum lw_status exec_calibrate_steady(struct exec_calibration *c, const struct exec_piece *p,
                                     struct lw_err *err)
{
    struct lw_plan plan;

    LW_TRY(exec_plan_kernels(p->n, N_STEADY, LW_PS_PER_MS, &plan, err));
    return exec_calibrate_run(c, p, &plan, steps_of(p), keep_steadiness, err);
}

/* From the start of a kernel without work to that of the next: what giving and taking an op
 * costs. */
static enum lw_status keep_launches(struct exec_calibration *c, const struct exec_piece *piece,
                                    const struct lw_plan *p, const struct lw_exec_result *r,
                                    struct lw_err *err)
{
    const struct lw_timeline *t = &r->timeline;

    (void)piece;
    for (int64_t row = 1; row < t->n; row++)
        if (counted(p, t, row) >= 0)
            LW_TRY(exec_samples_add(&c->launch, (double)(t->start[row] - t->start[row - 1]), err));
    return LW_OK;
}

enum lw_status exec_calibrate_launches(struct exec_calibration *c, const struct exec_piece *p,
                                       struct lw_err *err)
{
    struct lw_plan plan;

    LW_TRY(exec_plan_kernels(c->o->n_ranks, N_EMPTY, 0, &plan, err));
    return exec_calibrate_run(c, p, &plan, steps_of(p), keep_launches, err);
}

/* Rows of one kind of op into one series. */
static enum lw_status keep_kind(struct exec_calibration *c, const struct lw_plan *p,
                                const struct lw_timeline *t, enum lw_op_kind op, int32_t series,
                                struct lw_err *err)
{
    for (int64_t row = 0; row < t->n; row++)
        if (counted(p, t, row) >= 0 && t->kind[row] == op)
            LW_TRY(exec_samples_add(&c->work[series][counted(p, t, row)],
                                    (double)exec_calibrate_length(t, row), err));
    return LW_OK;
}

static enum lw_status keep_products(struct exec_calibration *c, const struct exec_piece *piece,
                                    const struct lw_plan *p, const struct lw_exec_result *r,
                                    struct lw_err *err)
{
    (void)piece;
    return keep_kind(c, p, &r->timeline, LW_OP_KERNEL, find_series(LW_WORK_GEMM, LW_F32, LW_F32),
                     err);
}

enum lw_status exec_calibrate_products(struct exec_calibration *c, const struct exec_piece *p,
                                       struct lw_err *err)
{
    int64_t flops[CALIBRATE_SIZES + 1];
    struct lw_plan plan;
    int32_t n = 0;

    while (n < N_SIDES && sides[n] <= c->o->max_side)
        n++;
    n = list_sizes(find_series(LW_WORK_GEMM, LW_F32, LW_F32), n, flops);
    LW_TRY(exec_plan_products(c->o->n_ranks, flops, n, &plan, err));
    return exec_calibrate_run(c, p, &plan, steps_of(p), keep_products, err);
}

/* --- passes over memory ----------------------------------------------------------------------- */

static int32_t n_passes(const struct exec_calibration *c, int32_t n_here)
{
    return c->n_larger > 0 ? N_PASSES + c->n_larger : n_here;
}

static const struct pass_types {
    enum lw_dtype grad, wire;
    int32_t n;
} pass_types[EXEC_N_PASSES] = {
    {LW_F32, LW_F32, N_PASSES},   {LW_BF16, LW_BF16, N_NARROW}, {LW_F16, LW_F16, N_NARROW},
    {LW_F32, LW_BF16, N_NARROW}, {LW_F32, LW_F16, N_NARROW},
};

/* Gradients are whole numbers whose sums are exact: of many ranks they do not fit into a narrow
 * type. */
bool exec_calibrate_pass_fits(const struct exec_calibration *c, int32_t pass)
{
    int64_t n = c->o->n_ranks, odd = n;

    while (odd % 2 == 0)
        odd /= 2;
    return exec_exact_limit(pass_types[pass].grad) >= n * odd &&
           exec_exact_limit(pass_types[pass].wire) >= n * odd;
}

/* Which series a row belongs to; -1: none, or one that another plan measures. */
static int32_t series_of(const struct pass_types *y, const struct lw_op *op)
{
    bool casts = y->grad != y->wire;

    switch (op->kind) {
    case LW_OP_CAST:
        return find_series(LW_WORK_CAST, op->dtype, op->dtype == y->wire ? y->grad : y->wire);
    case LW_OP_BACKWARD: return casts ? -1 : find_series(LW_WORK_FILL, y->grad, y->grad);
    case LW_OP_COPY_IN: return casts ? -1 : find_series(LW_WORK_COPY_IN, y->grad, y->grad);
    case LW_OP_COPY_OUT: return casts ? -1 : find_series(LW_WORK_COPY_OUT, y->grad, y->grad);
    default: return -1;
    }
}

/* Bytes into and out of buckets over the time they took, step by step on each rank. */
static enum lw_status keep_copy_rate(struct exec_calibration *c, const struct lw_plan *p,
                                     const struct lw_timeline *t, struct lw_err *err)
{
    for (int64_t row = 0; row < t->n;) {
        int32_t step = t->step[row], rank = t->rank[row];
        int64_t moved = 0;
        lw_ps time = 0;
        for (; row < t->n && t->step[row] == step && t->rank[row] == rank; row++) {
            const struct lw_op *op = &p->ops[t->op[row]];
            if (op->kind != LW_OP_COPY_IN && op->kind != LW_OP_COPY_OUT)
                continue;
            moved += op->bytes;
            time += exec_calibrate_length(t, row);
        }
        if (step >= CALIBRATE_WARMUP && time > 0)
            LW_TRY(exec_samples_add(&c->copy_rate, (double)moved / (double)time * 1e12, err));
    }
    return LW_OK;
}

static enum lw_status keep_passes(struct exec_calibration *c, const struct exec_piece *piece,
                                  const struct lw_plan *p, const struct lw_exec_result *r,
                                  struct lw_err *err)
{
    const struct lw_timeline *t = &r->timeline;

    for (int64_t row = 0; row < t->n; row++) {
        int32_t series = series_of(&pass_types[piece->series], &p->ops[t->op[row]]);
        if (counted(p, t, row) >= 0 && series >= 0)
            LW_TRY(exec_samples_add(&c->work[series][counted(p, t, row)],
                                    (double)exec_calibrate_length(t, row), err));
    }
    return piece->series == 0 ? keep_copy_rate(c, p, t, err) : LW_OK;
}

enum lw_status exec_calibrate_passes(struct exec_calibration *c, const struct exec_piece *p,
                                     struct lw_err *err)
{
    const struct pass_types *y = &pass_types[p->series];
    int64_t bytes[CALIBRATE_SIZES + 1];
    int32_t n = list_sizes(find_series(LW_WORK_COPY, LW_F32, LW_F32), n_passes(c, y->n), bytes);
    struct lw_plan plan;

    LW_TRY(exec_plan_passes(c->o->n_ranks, y->grad, y->wire, bytes, n, &plan, err));
    return exec_calibrate_run(c, p, &plan, steps_of(p), keep_passes, err);
}

static enum lw_status keep_copies(struct exec_calibration *c, const struct exec_piece *piece,
                                  const struct lw_plan *p, const struct lw_exec_result *r,
                                  struct lw_err *err)
{
    (void)piece;
    return keep_kind(c, p, &r->timeline, LW_OP_COPY, find_series(LW_WORK_COPY, LW_F32, LW_F32),
                     err);
}

enum lw_status exec_calibrate_copies(struct exec_calibration *c, const struct exec_piece *p,
                                     struct lw_err *err)
{
    int64_t bytes[CALIBRATE_SIZES + 1];
    int32_t n = list_sizes(find_series(LW_WORK_COPY, LW_F32, LW_F32), n_passes(c, N_PASSES),
                           bytes);
    struct lw_plan plan;

    LW_TRY(exec_plan_copies(c->o->n_ranks, bytes, n, &plan, err));
    return exec_calibrate_run(c, p, &plan, steps_of(p), keep_copies, err);
}

/* --- optimizers ------------------------------------------------------------------------------- */

static int32_t optimizer_series(const struct exec_piece *p)
{
    static const enum lw_work_kind kinds[EXEC_N_OPTIMIZERS] = {
        [EXEC_SGD] = LW_WORK_SGD, [EXEC_MOMENTUM] = LW_WORK_MOMENTUM, [EXEC_ADAM] = LW_WORK_ADAM};

    return find_series(kinds[p->series], LW_F32, LW_F32);
}

static int32_t n_updates(const struct exec_calibration *c)
{
    return N_UPDATES + c->n_larger / 2; /* by fours */
}

/* A step of the plan is one size; the first of each is not counted. */
static enum lw_status keep_updates(struct exec_calibration *c, const struct exec_piece *piece,
                                   const struct lw_plan *p, const struct lw_exec_result *r,
                                   struct lw_err *err)
{
    const struct lw_timeline *t = &r->timeline;

    for (int64_t row = 0; row < t->n; row++)
        if (t->step[row] >= n_updates(c) && t->kind[row] == LW_OP_OPTIMIZER)
            LW_TRY(exec_samples_add(
                &c->work[optimizer_series(piece)][p->ops[t->op[row]].module],
                (double)exec_calibrate_length(t, row), err));
    return LW_OK;
}

enum lw_status exec_calibrate_updates(struct exec_calibration *c, const struct exec_piece *p,
                                      struct lw_err *err)
{
    int32_t n = n_updates(c);
    struct exec_calibrate_run how = {p->n_steps * n, n, EXEC_COMPUTE_GEMM,
                                     (enum exec_optimizer_kind)p->series};
    int64_t bytes[CALIBRATE_SIZES];
    struct lw_plan plan;

    for (int32_t i = 0; i < n; i++)
        bytes[i] = exec_work_size(optimizer_series(p), i);
    LW_TRY(exec_plan_updates(c->o->n_ranks, bytes, n, LW_PS_PER_MS, &plan, err));
    return exec_calibrate_run(c, p, &plan, how, keep_updates, err);
}

/* --- sizes beyond 16 MiB ---------------------------------------------------------------------- */

static enum lw_status fits(const struct exec_calibration *c, struct lw_plan *plan,
                           enum exec_optimizer_kind optimizer, struct lw_err *err)
{
    struct lw_exec_options o = lw_exec_options_default();
    int32_t n_here = c->o->loop ? c->o->n_ranks : 1; /* of a device */

    o.backend = c->o->backend;
    o.verify = false;
    o.optimizer = exec_optimizer_of(optimizer);
    enum lw_status st = exec_fits_in(plan, &o, n_here, 0.8 * c->free_bytes, err); /* workspaces */
    lw_plan_free(plan);
    return st;
}

/* The plans that take most: f32 with a cast, copies, and Adam. */
static enum lw_status largest_fit(const struct exec_calibration *c, struct lw_err *err)
{
    int64_t bytes[CALIBRATE_SIZES + 1], updated[CALIBRATE_SIZES];
    int32_t n = list_sizes(find_series(LW_WORK_COPY, LW_F32, LW_F32), n_passes(c, N_PASSES), bytes);
    struct lw_plan plan;

    LW_TRY(exec_plan_passes(c->o->n_ranks, LW_F32, LW_BF16, bytes, n, &plan, err));
    LW_TRY(fits(c, &plan, EXEC_SGD, err));
    LW_TRY(exec_plan_copies(c->o->n_ranks, bytes, n, &plan, err));
    LW_TRY(fits(c, &plan, EXEC_SGD, err));
    for (int32_t i = 0; i < n_updates(c); i++)
        updated[i] = exec_work_size(find_series(LW_WORK_ADAM, LW_F32, LW_F32), i);
    LW_TRY(exec_plan_updates(c->o->n_ranks, updated, n_updates(c), LW_PS_PER_MS, &plan, err));
    return fits(c, &plan, EXEC_ADAM, err);
}

/* The run tells the facts of the device. */
static enum lw_status keep_nothing(struct exec_calibration *c, const struct exec_piece *piece,
                                   const struct lw_plan *p, const struct lw_exec_result *r,
                                   struct lw_err *err)
{
    (void)c, (void)piece, (void)p, (void)r, (void)err;
    return LW_OK;
}

enum lw_status exec_calibrate_find_larger(struct exec_calibration *c, struct lw_err *err)
{
    const struct exec_piece one = {.n = 1, .n_steps = 1};
    struct lw_plan plan;
    enum lw_status st = LW_ENOTSUP;

    if (c->o->backend->capabilities & EXEC_IN_HOST_MEMORY)
        return LW_OK;
    LW_TRY(exec_plan_kernels(c->o->n_ranks, 1, 0, &plan, err));
    LW_TRY(exec_calibrate_run(c, &one, &plan, steps_of(&one), keep_nothing, err));
    for (c->n_larger = MOST_LARGER; c->n_larger > 0; c->n_larger--)
        if ((st = largest_fit(c, err)) != LW_ENOTSUP)
            break;
    if (st != LW_OK && st != LW_ENOTSUP)
        return st;
    return c->team ? exec_rendezvous_broadcast(c->team, &c->n_larger, sizeof c->n_larger, err)
                   : LW_OK; /* rank 0's: all run the same plans */
}
