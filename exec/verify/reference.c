/* The run of reference goes parameter by parameter: for each step, sum the gradients of every rank,
 * pass and micro-batch that the programs say exist, divide by the number of ranks that hold the
 * same elements (of a stage and tensor coordinate), add up the copies of a tied parameter at all
 * stages, and let the optimizer step; all of it in the same f32 operations. What --broadcast-dtype
 * takes from weights on the wire it takes from them here: from f32 weights in every step, from
 * others, whose f32 masters do not travel, after the last. It knows nothing of buckets, so a plan
 * that loses, doubles or misplaces a gradient cannot agree.
 *
 * Clipping needs the norm of a step before any parameter's update: norms of all steps are taken
 * first, over all parameters, each element once (lw_plan_counts). The gradient of an ignored
 * parameter is each rank's own: it counts in the norm of its replica alone, the ranks with its
 * data coordinate (of two directions: of its own). */
#include "exec/verify/reference.h"

#include "exec/backend/element.h"
#include "exec/cpu/sparse_rows.h"
#include "exec/tensors/sparse_memory.h"
#include "shared/strategy/strategy.h"

/* --- one gradient ----------------------------------------------------------------------------- */

/* The micro-batches in which a program completes a parameter: counted by op. */
static double add_terms(const struct exec_reference *f, struct exec_gradient *g, int32_t variant,
                        int32_t pass, int64_t element, float *sum, int64_t n)
{
    const struct lw_plan *p = f->m->plan;
    struct lw_program program = lw_plan_program(p, variant, g->rank);
    const struct lw_sparse *rows = exec_rows_entry(f->m, g->param);
    double one = 0;

    for (int32_t i = program.first_op; i < program.first_op + program.n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (lw_op_class(op->kind) != LW_CLASS_COMPUTE)
            continue;
        for (int32_t r = 0; r < op->n_ready; r++) {
            if (p->ready[op->first_ready + r] != g->param)
                continue;
            g->pass = pass * f->micro_batches + (op->micro_batch > 0 ? op->micro_batch : 0);
            if (sum && rows)
                exec_rows_add(g, rows, n, sum);
            else if (sum)
                exec_gradient_fill(g, LW_F32, sum, 0, n, true);
            else
                one += rows ? exec_rows_at(g, rows, p->params[g->param].numel, element)
                            : exec_gradient_at(g, element);
        }
    }
    return one;
}

/* The first pass after the step that begins with pass `first`. */
static int64_t after_step(const struct lw_plan *p, int64_t first)
{
    while (!p->variants[lw_plan_variant_of_pass(p, first)].ends_step)
        first++;
    return first + 1;
}

static int64_t first_of_last_step(const struct exec_reference *f)
{
    int64_t first = 0;

    for (int32_t step = 0; step + 1 < f->n_steps; step++)
        first = after_step(f->m->plan, first);
    return first;
}

int32_t exec_reference_last_variant(const struct exec_reference *f)
{
    const struct lw_plan *p = f->m->plan;

    return lw_plan_variant_of_pass(p, after_step(p, first_of_last_step(f)) - 1);
}

/* One rank's terms of the step that begins with pass `first`: added to sum[n], or of one element
 * when sum is NULL. */
static double add_rank(const struct exec_reference *f, int32_t param, int32_t rank, int32_t step,
                       int64_t first, int64_t element, float *sum, int64_t n)
{
    const struct lw_plan *p = f->m->plan;
    struct exec_gradient g = {.table = &f->m->table, .param = param, .rank = rank,
                              .step = step};
    int64_t end = after_step(p, first);
    double one = 0;

    for (int64_t pass = first; pass < end; pass++)
        one += add_terms(f, &g, lw_plan_variant_of_pass(p, pass), (int32_t)(pass - first), element,
                         sum, n);
    return one;
}

/* Ranks whose gradients are averaged into this one's. */
static bool averaged_with(const struct lw_plan *p, int32_t param, int32_t rank, int32_t other)
{
    if (p->params[param].ignored)
        return other == rank;
    return exec_ranks_share(p, param, rank, other);
}

int32_t exec_reference_divisor(const struct exec_reference *f, int32_t param, int32_t rank)
{
    int32_t n = 0;

    for (int32_t r = 0; r < f->m->plan->n_ranks; r++)
        n += averaged_with(f->m->plan, param, rank, r);
    return n;
}

/* `other` has a copy of the parameter whose gradients go into this rank's: the parameter itself,
 * or a copy at another stage, of equal tensor coordinate. -1 = none. */
static int32_t copy_on(const struct exec_reference *f, int32_t param, int32_t rank, int32_t other)
{
    const struct lw_plan *p = f->m->plan;

    if (averaged_with(p, param, rank, other))
        return param;
    if (p->params[param].ignored ||
        lw_plan_coord(p, rank, LW_AXIS_TP) != lw_plan_coord(p, other, LW_AXIS_TP))
        return -1;
    for (int32_t i = 0; f->copied[param] && i < p->n_params; i++)
        if (i != param && f->copied[i] && exec_param_root(p, i) == exec_param_root(p, param) &&
            exec_param_is_here(p, i, other))
            return i;
    return -1;
}

/* f->sum = all terms of the step that begins with pass `first`. */
static void add_up(struct exec_reference *f, int32_t param, int32_t rank, int32_t step,
                   int64_t first)
{
    const struct lw_plan *p = f->m->plan;
    int64_t n = p->params[param].numel;

    memset(f->sum, 0, (size_t)n * sizeof *f->sum);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t copy = copy_on(f, param, rank, r);
        if (copy >= 0)
            add_rank(f, copy, r, step, first, 0, f->sum, n);
    }
}

double exec_reference_term(const struct exec_reference *f, int32_t param, int32_t rank,
                           int32_t other, int64_t element)
{
    int32_t copy = copy_on(f, param, rank, other);

    return copy < 0
               ? 0
               : add_rank(f, copy, other, f->n_steps - 1, first_of_last_step(f), element, NULL, 0);
}

/* --- clipping --------------------------------------------------------------------------------- */

/* f->sum[n] divided, scaled, and rounded to the gradient's type. */
static void clip(struct exec_reference *f, int32_t param, int32_t divisor, double squares)
{
    enum lw_dtype t = exec_gradient_dtype(f->m->plan, param);
    int64_t n = f->m->plan->params[param].numel;

    exec_scale(LW_F32, f->sum, n, divisor,
               exec_clip_coefficient(squares, f->m->plan->strategy->clip));
    exec_convert(t, f->got, LW_F32, f->sum, n, 1);
    exec_convert(LW_F32, f->sum, t, f->got, n, 1);
}

double exec_reference_clipped(const struct exec_reference *f, int32_t param, double average,
                              double squares)
{
    enum lw_dtype t = exec_gradient_dtype(f->m->plan, param);
    double room; /* for any type, aligned */

    if (!f->m->clips)
        return average;
    exec_put(t, &room, 0, average);
    exec_scale_one(t, &room, 0, 1, exec_clip_coefficient(squares, f->m->plan->strategy->clip));
    return exec_get(t, &room, 0);
}

void exec_reference_last(struct exec_reference *f, int32_t param, int32_t rank, double squares)
{
    int32_t divisor = exec_reference_divisor(f, param, rank);

    add_up(f, param, rank, f->n_steps - 1, first_of_last_step(f));
    if (f->m->clips)
        clip(f, param, divisor, squares);
    else
        exec_scale(LW_F32, f->sum, f->m->plan->params[param].numel, divisor, 1);
}

/* Which of the ranks with its data and tensor coordinates and its parameters this is. */
static int32_t direction_of(const struct lw_plan *p, int32_t rank)
{
    int32_t n = 0;

    for (int32_t r = 0; r < rank; r++)
        n += exec_ranks_agree(p, r, rank) &&
             lw_plan_coord(p, r, LW_AXIS_DP) == lw_plan_coord(p, rank, LW_AXIS_DP);
    return n;
}

static bool in_one_replica(const struct lw_plan *p, int32_t rank, int32_t other)
{
    return lw_plan_coord(p, rank, LW_AXIS_DP) == lw_plan_coord(p, other, LW_AXIS_DP) &&
           direction_of(p, rank) == direction_of(p, other);
}

static bool counts(const struct lw_plan *p, int32_t param, int32_t rank)
{
    return exec_param_is_here(p, param, rank) &&
           lw_plan_counts(p, param, lw_plan_coord(p, rank, LW_AXIS_TP));
}

/* The first of the ranks that hold the same elements of the parameter. */
static bool is_first_holder(const struct lw_plan *p, int32_t param, int32_t rank)
{
    for (int32_t r = 0; r < rank; r++)
        if (averaged_with(p, param, r, rank) && exec_param_is_here(p, param, r))
            return false;
    return true;
}

/* The squares of a rank's gradient of a parameter, step by step, onto those of all, or of its
 * replica. */
static void add_squares(struct exec_reference *f, int32_t param, int32_t rank)
{
    const struct lw_plan *p = f->m->plan;
    const struct exec_facts *facts = &f->m->facts;
    int32_t divisor = exec_reference_divisor(f, param, rank);
    int64_t first = 0;

    for (int32_t step = 0; step < f->n_steps; step++) {
        add_up(f, param, rank, step, first);
        first = after_step(p, first);
        double squares = exec_squares(LW_F32, f->sum, p->params[param].numel, divisor);
        if (!p->params[param].ignored)
            f->squares[step] += squares;
        for (int32_t k = 0; p->params[param].ignored && k < facts->n_local; k++)
            if (in_one_replica(p, facts->first_local + k, rank))
                f->own_squares[(int64_t)k * f->n_steps + step] += squares;
    }
}

static enum lw_status take_norms(struct exec_reference *f, struct lw_err *err)
{
    const struct lw_plan *p = f->m->plan;
    bool ignored = false;

    for (int32_t i = 0; i < p->n_params; i++)
        ignored = ignored || (p->params[i].ignored && p->params[i].trainable);
    f->squares = lw_calloc((size_t)f->n_steps + 1, sizeof *f->squares);
    if (ignored)
        f->own_squares = lw_calloc((size_t)f->m->facts.n_local * (size_t)f->n_steps + 1,
                                   sizeof *f->own_squares);
    if (!f->squares || (ignored && !f->own_squares))
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < p->n_params; i++)
        for (int32_t r = 0; r < p->n_ranks; r++)
            if (counts(p, i, r) && is_first_holder(p, i, r))
                add_squares(f, i, r);
    return LW_OK;
}

double exec_reference_squares(const struct exec_reference *f, int32_t rank, int32_t step)
{
    int64_t local = rank - f->m->facts.first_local;

    return f->squares[step] + (f->own_squares ? f->own_squares[local * f->n_steps + step] : 0);
}

bool exec_reference_alike(const struct exec_reference *f, int32_t param, int32_t rank,
                          int32_t other)
{
    const struct lw_plan *p = f->m->plan;

    return averaged_with(p, param, rank, other) &&
           (!f->own_squares || in_one_replica(p, rank, other));
}

/* --- the run ---------------------------------------------------------------------------------- */

/* Weights as they come back from the wire; `room` holds as many of any type. */
static void narrow(const struct exec_reference *f, int32_t param, void *weights, void *room)
{
    const struct lw_plan_param *a = &f->m->plan->params[param];
    enum lw_dtype own = (enum lw_dtype)a->dtype,
                  wire = (enum lw_dtype)f->m->weights.travels_as[param];

    if (wire == own)
        return;
    exec_convert(wire, room, own, weights, a->numel, 1);
    exec_convert(own, weights, wire, room, a->numel, 1);
}

/* The optimizer leaves alone what no backward of the step completes and no rank reduces. */
static bool takes_step(const struct exec_reference *f, int32_t param, int32_t rank, int64_t first)
{
    const struct lw_plan *p = f->m->plan;
    const struct exec_layout *l = NULL;
    int64_t end = after_step(p, first);
    bool produced = false;

    for (int64_t pass = first; pass < end; pass++) {
        l = exec_tensors_layout(f->m, lw_plan_variant_of_pass(p, pass), rank);
        produced = produced || l->produced[param];
    }
    return produced || l->bucket_of[param] >= 0;
}

void exec_reference_run(struct exec_reference *f, int32_t param, int32_t rank)
{
    const struct lw_plan *p = f->m->plan;
    int64_t n = p->params[param].numel, first = 0;
    int32_t divisor = exec_reference_divisor(f, param, rank);

    exec_initial_weights(f->weights, exec_param_root(p, param), n);
    for (int32_t k = 0; k < exec_optimizer_states(f->m->optimizer.kind); k++)
        memset(f->state[k], 0, (size_t)n * sizeof *f->state[k]);
    for (int32_t step = 0; step < f->n_steps; step++) {
        struct exec_update u = exec_update_of(&f->m->optimizer, step);
        if (f->before && step + 1 == f->n_steps)
            exec_convert((enum lw_dtype)p->params[param].dtype, f->before, LW_F32, f->weights, n,
                         1);
        add_up(f, param, rank, step, first);
        if (f->m->clips)
            clip(f, param, divisor, exec_reference_squares(f, rank, step));
        if (f->each_step)
            f->each_step(f, param, rank, step, f->m->clips ? 1 : divisor);
        if (takes_step(f, param, rank, first))
            exec_update_run(&u, f->weights, f->state[0], f->state[1], LW_F32, f->sum, n,
                            f->m->clips ? 1 : divisor);
        first = after_step(p, first);
        if (p->params[param].dtype == LW_F32)
            narrow(f, param, f->weights, f->own);
    }
    exec_convert((enum lw_dtype)p->params[param].dtype, f->own, LW_F32, f->weights, n, 1);
    narrow(f, param, f->own, f->got);
}

static void note_copies(struct exec_reference *f)
{
    const struct lw_plan *p = f->m->plan;

    for (int32_t i = 0; i < p->n_params; i++)
        if (exec_param_root(p, i) != i && lw_plan_holds(p, i))
            f->copied[i] = f->copied[exec_param_root(p, i)] = true;
}

static enum lw_status make_room(struct exec_reference *f, struct lw_err *err)
{
    int64_t most = 1;

    for (int32_t i = 0; i < f->m->plan->n_params; i++)
        if (f->m->plan->params[i].numel > most)
            most = f->m->plan->params[i].numel;
    f->weights = lw_alloc((size_t)most * (f->m->has_ahead ? 10 : 8) * sizeof *f->weights);
    f->copied = lw_calloc((size_t)f->m->plan->n_params + 1, sizeof *f->copied);
    if (!f->weights || !f->copied)
        return lw_fail_nomem(err);
    f->state[0] = f->weights + most;
    f->state[1] = f->weights + 2 * most;
    f->sum = f->weights + 3 * most;
    f->got = f->weights + 4 * most; /* of any type: up to twice as wide */
    f->own = f->weights + 6 * most;
    f->before = f->m->has_ahead ? f->weights + 8 * most : NULL;
    return LW_OK;
}

enum lw_status exec_reference_init(struct exec_reference *f, const struct exec_tensors *m,
                                   int32_t n_steps, struct lw_err *err)
{
    *f = (struct exec_reference){.m = m, .n_steps = n_steps,
                                 .micro_batches = exec_plan_micro_batches(m->plan)};
    enum lw_status s = make_room(f, err);

    if (s == LW_OK)
        note_copies(f);
    if (s == LW_OK && m->clips)
        s = take_norms(f, err);
    if (s != LW_OK)
        exec_reference_free(f);
    return s;
}

void exec_reference_free(struct exec_reference *f)
{
    lw_free(f->weights);
    lw_free(f->copied);
    lw_free(f->squares);
    lw_free(f->own_squares);
    *f = (struct exec_reference){0};
}
