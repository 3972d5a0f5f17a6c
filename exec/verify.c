/* The bitwise check. The run of reference goes parameter by parameter: for each step, sum the
 * gradients of every rank, pass and micro-batch that the programs say exist, divide by the number of
 * ranks that hold the same elements (of a stage and tensor coordinate), add up the copies of a tied
 * parameter at all stages, and let the optimizer step; all of it in the same f32 operations. What
 * --broadcast-dtype takes from weights on the wire it takes from them here: from f32 weights in every
 * step, from others, whose f32 masters do not travel, behind the last. It knows nothing of buckets,
 * so a plan that loses, doubles or misplaces a gradient cannot agree. */
#include "exec/verify.h"

#include <stdio.h>
#include <string.h>

#include "exec/element.h"
#include "exec/optimizer.h"
#include "shared/arena.h"
#include "shared/op.h"

struct reference {
    const struct exec_tensors *m;
    int32_t n_steps, micro_batches;
    int64_t n_bytes;                                     /* compared */
    float *weights, *state[EXEC_MAX_STATES], *sum, *got; /* [largest parameter] */
    void *own;                                           /* the same, in the parameter's type */
    bool *copied;                                        /* [n_params] at several stages */
};

/* The micro-batches in which a program completes a parameter: counted by op. */
static double add_terms(const struct reference *f, struct exec_gradient *g, int32_t variant,
                        int32_t pass, int64_t element, float *sum, int64_t n)
{
    const struct lw_plan *p = f->m->plan;
    struct lw_program program = lw_plan_program(p, variant, g->rank);
    double one = 0;

    for (int32_t i = program.first_op; i < program.first_op + program.n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (lw_op_class(op->kind) != LW_CLASS_COMPUTE)
            continue;
        for (int32_t r = 0; r < op->n_ready; r++) {
            if (p->ready[op->first_ready + r] != g->param)
                continue;
            g->pass = pass * f->micro_batches + (op->micro_batch > 0 ? op->micro_batch : 0);
            if (sum)
                exec_gradient_fill(g, LW_F32, sum, 0, n, true);
            else
                one += exec_gradient_at(g, element);
        }
    }
    return one;
}

/* The first pass behind the step that begins with pass `first`. */
static int64_t after_step(const struct lw_plan *p, int64_t first)
{
    while (!p->variants[lw_plan_variant_of_pass(p, first)].ends_step)
        first++;
    return first + 1;
}

/* One rank's terms of the step that begins with pass `first`: added to sum[n], or of one element when
 * sum is NULL. */
static double add_rank(const struct reference *f, int32_t param, int32_t rank, int32_t step,
                       int64_t first, int64_t element, float *sum, int64_t n)
{
    const struct lw_plan *p = f->m->plan;
    struct exec_gradient g = {.table = &f->m->table, .param = param, .rank = rank, .step = step};
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
    return exec_ranks_agree(p, rank, other);
}

static int32_t n_averaged(const struct lw_plan *p, int32_t param, int32_t rank)
{
    int32_t n = 0;

    for (int32_t r = 0; r < p->n_ranks; r++)
        n += averaged_with(p, param, rank, r);
    return n;
}

/* `other` has a copy of the parameter whose gradients go into this rank's: the parameter itself, or a
 * copy at another stage, of equal tensor coordinate. -1 = none. */
static int32_t copy_on(const struct reference *f, int32_t param, int32_t rank, int32_t other)
{
    const struct lw_plan *p = f->m->plan;

    if (averaged_with(p, param, rank, other))
        return param;
    if (p->params[param].ignored || p->coord[3L * rank + 2] != p->coord[3L * other + 2])
        return -1;
    for (int32_t i = 0; f->copied[param] && i < p->n_params; i++)
        if (i != param && f->copied[i] && exec_param_root(p, i) == exec_param_root(p, param) &&
            exec_param_is_here(p, i, other))
            return i;
    return -1;
}

/* Weights as they come back from the wire; `room` holds as many of any type. */
static void narrow(const struct reference *f, int32_t param, void *weights, void *room)
{
    const struct lw_plan_param *a = &f->m->plan->params[param];
    enum lw_dtype own = (enum lw_dtype)a->dtype, wire = (enum lw_dtype)f->m->travels_as[param];

    if (wire == own)
        return;
    exec_convert(wire, room, own, weights, a->numel, 1);
    exec_convert(own, weights, wire, room, a->numel, 1);
}

static void run_reference(struct reference *f, int32_t param, int32_t rank)
{
    const struct lw_plan *p = f->m->plan;
    int64_t n = p->params[param].numel, first = 0;
    int32_t divisor = n_averaged(p, param, rank);

    exec_initial_weights(f->weights, exec_param_root(p, param), n);
    for (int32_t k = 0; k < EXEC_MAX_STATES; k++)
        memset(f->state[k], 0, (size_t)n * sizeof *f->state[k]);
    for (int32_t step = 0; step < f->n_steps; step++) {
        memset(f->sum, 0, (size_t)n * sizeof *f->sum);
        for (int32_t r = 0; r < p->n_ranks; r++) {
            int32_t copy = copy_on(f, param, rank, r);
            if (copy >= 0)
                add_rank(f, copy, r, step, first, 0, f->sum, n);
        }
        first = after_step(p, first);
        struct exec_update u = exec_update_of(&f->m->optimizer, step);
        exec_update_run(&u, f->weights, f->state[0], f->state[1], LW_F32, f->sum, n, divisor);
        if (p->params[param].dtype == LW_F32)
            narrow(f, param, f->weights, f->own);
    }
    exec_convert((enum lw_dtype)p->params[param].dtype, f->own, LW_F32, f->weights, n, 1);
    narrow(f, param, f->own, f->got);
}

/* What the optimizer read for an element in the last step. false: it cannot be read. */
static bool last_gradient(const struct reference *f, int32_t param, int32_t rank, int64_t element,
                          int64_t first, double *value)
{
    const struct exec_tensors *m = f->m;
    int32_t divisor, variant = lw_plan_variant_of_pass(m->plan, after_step(m->plan, first) - 1);
    enum lw_dtype t = exec_gradient_dtype(m->plan, param);
    const char *from = exec_tensors_average(m, exec_tensors_layout(m, variant, rank), rank, param,
                                           &divisor);
    double raw = 0; /* room for any type, aligned */

    if (m->backend->mem_read(m->world, rank, &raw, from + element * lw_dtype_size(t),
                             lw_dtype_size(t), NULL) != LW_OK)
        return false;
    *value = exec_get(t, &raw, 0) / divisor;
    return true;
}

/* The gradient of the last step, as the optimizer saw it, against its terms. */
static void explain(const struct reference *f, int32_t param, int32_t rank, int64_t element,
                    char *text, size_t room)
{
    const struct lw_plan *p = f->m->plan;
    int32_t n = n_averaged(p, param, rank), last = f->n_steps - 1;
    int64_t first = 0;
    double got, all = 0;

    text[0] = '\0';
    for (int32_t step = 0; step < last; step++)
        first = after_step(p, first);
    if (!last_gradient(f, param, rank, element, first, &got))
        return;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t copy = copy_on(f, param, rank, r);
        if (copy >= 0)
            all += add_rank(f, copy, r, last, first, element, NULL, 0);
    }
    snprintf(text, room, "; its last gradient is %g instead of %g", got, all / n);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t copy = copy_on(f, param, rank, r);
        double terms = copy < 0 ? 0 : add_rank(f, copy, r, last, first, element, NULL, 0);
        if (terms == 0)
            continue;
        if (got == (all - terms) / n)
            snprintf(text, room, "; the gradient of rank %d was lost", r);
        else if (got == (all + terms) / n)
            snprintf(text, room, "; the gradient of rank %d was counted twice", r);
        else if (r == rank && got == terms && n > 1)
            snprintf(text, room, "; it was not reduced: the last gradient is this rank's own");
    }
}

/* What a rank holds of a parameter, whole, at mem; and what it should hold. */
struct held {
    const char *what;
    enum lw_dtype dtype;
    const void *mem, *want;
};

/* Elements [first, first + n) of it. */
static enum lw_status compare(struct reference *f, int32_t param, int32_t rank,
                              const struct held *h, int64_t first, int64_t n, struct lw_err *err)
{
    const struct exec_tensors *m = f->m;
    int64_t size = lw_dtype_size(h->dtype);
    const char *want = (const char *)h->want + first * size, *got = (const char *)f->got;
    char why[160];

    if (n == 0)
        return LW_OK;
    LW_TRY(m->backend->mem_read(m->world, rank, f->got, (const char *)h->mem + first * size,
                                n * size, err));
    f->n_bytes += n * size;
    if (memcmp(got, want, (size_t)(n * size)) == 0)
        return LW_OK;
    for (int64_t e = 0; e < n; e++) {
        if (memcmp(got + e * size, want + e * size, (size_t)size) == 0)
            continue;
        explain(f, param, rank, first + e, why, sizeof why);
        return lw_fail(err, LW_ENO,
                       "%s of parameter %d '%s', element %lld, rank %d: %.9g, the one-rank run has "
                       "%.9g%s", h->what, param, m->plan->params[param].name,
                       (long long)(first + e), rank, exec_get(h->dtype, got, e),
                       exec_get(h->dtype, want, e), why);
    }
    return LW_OK;
}

/* Masters and optimizer state, on elements that this rank updates. */
static enum lw_status compare_state(struct reference *f, int32_t param, int32_t rank, int64_t first,
                                    int64_t n, struct lw_err *err)
{
    static const char *const names[EXEC_N_OPTIMIZERS][EXEC_MAX_STATES] = {
        [EXEC_MOMENTUM] = {"momentum"}, [EXEC_ADAM] = {"first moment", "second moment"}};
    const struct exec_tensors *m = f->m;

    if (m->plan->params[param].dtype != LW_F32) {
        struct held h = {"master", LW_F32, exec_tensors_master(m, rank, param), f->weights};
        LW_TRY(compare(f, param, rank, &h, first, n, err));
    }
    for (int32_t k = 0; k < exec_optimizer_states(m->optimizer.kind); k++) {
        struct held h = {names[m->optimizer.kind][k], LW_F32,
                         m->ranks[rank].state[k] + m->state_at[param], f->state[k]};
        LW_TRY(compare(f, param, rank, &h, first, n, err));
    }
    return LW_OK;
}

static enum lw_status compare_param(struct reference *f, int32_t param, int32_t rank,
                                    struct lw_err *err)
{
    const struct exec_tensors *m = f->m;
    const struct lw_plan *p = m->plan;
    int64_t n = p->params[param].numel;
    struct held h = {"weight", (enum lw_dtype)p->params[param].dtype,
                     (const char *)m->ranks[rank].weights + m->weight_at[param], f->own};

    if (!m->given_up[param])
        LW_TRY(compare(f, param, rank, &h, 0, n, err));
    if (!m->sharded[param])
        return compare_state(f, param, rank, 0, n, err);
    for (int32_t s = 0; s < p->n_shards; s++) {
        const struct lw_shard *x = &p->shards[s];
        if (x->param != param || !exec_shard_is_mine(m, s, rank))
            continue;
        if (m->given_up[param])
            LW_TRY(compare(f, param, rank, &h, x->first, x->numel, err));
        LW_TRY(compare_state(f, param, rank, x->first, x->numel, err));
    }
    return LW_OK;
}

static enum lw_status verify_param(struct reference *f, int32_t param, struct lw_err *err)
{
    const struct exec_tensors *m = f->m;
    const struct lw_plan *p = m->plan;
    int32_t first = m->facts.first_local, end = first + m->facts.n_local;

    for (int32_t rank = first; rank < end; rank++) {
        bool known = !exec_param_is_here(p, param, rank);
        for (int32_t before = first; before < rank && !known; before++)
            known = exec_param_is_here(p, param, before) && averaged_with(p, param, before, rank);
        if (known)
            continue;
        run_reference(f, param, rank);
        for (int32_t r = rank; r < end; r++)
            if (averaged_with(p, param, rank, r))
                LW_TRY(compare_param(f, param, r, err));
    }
    return LW_OK;
}

static void note_copies(struct reference *f)
{
    const struct lw_plan *p = f->m->plan;

    for (int32_t i = 0; i < p->n_params; i++)
        if (exec_param_root(p, i) != i && lw_plan_holds(p, i))
            f->copied[i] = f->copied[exec_param_root(p, i)] = true;
}

static enum lw_status reference_init(struct reference *f, const struct exec_tensors *m,
                                     int32_t n_steps, struct lw_err *err)
{
    int64_t most = 1;

    *f = (struct reference){.m = m, .n_steps = n_steps,
                            .micro_batches = exec_plan_micro_batches(m->plan)};
    for (int32_t i = 0; i < m->plan->n_params; i++)
        if (m->plan->params[i].numel > most)
            most = m->plan->params[i].numel;
    float *room = lw_alloc((size_t)most * 8 * sizeof *room);
    f->copied = lw_calloc((size_t)m->plan->n_params + 1, sizeof *f->copied);
    if (!room || !f->copied) {
        lw_free(room);
        lw_free(f->copied);
        return lw_fail_nomem(err);
    }
    note_copies(f);
    f->weights = room;
    f->state[0] = room + most;
    f->state[1] = room + 2 * most;
    f->sum = room + 3 * most;
    f->got = room + 4 * most; /* of any type: up to twice as wide */
    f->own = room + 6 * most;
    return LW_OK;
}

static void reference_free(struct reference *f)
{
    lw_free(f->weights);
    lw_free(f->copied);
}

enum lw_status exec_verify(const struct exec_tensors *m, int32_t n_steps, int64_t *n_bytes,
                           struct lw_err *err)
{
    struct reference f;
    enum lw_status s = LW_OK;

    LW_TRY(reference_init(&f, m, n_steps, err));
    for (int32_t i = 0; i < m->plan->n_params && s == LW_OK; i++)
        if (m->plan->params[i].numel > 0)
            s = verify_param(&f, i, err);
    *n_bytes += f.n_bytes;
    reference_free(&f);
    return s;
}

/* One array of the state of one parameter. */
static enum lw_status same_state(const struct exec_tensors *m, int32_t param, int32_t array,
                                 const float *got, const float *want, struct lw_err *err)
{
    int64_t n = m->plan->params[param].numel, e = 0;

    if (memcmp(got, want, (size_t)n * sizeof *got) == 0)
        return LW_OK;
    while (memcmp(got + e, want + e, sizeof *got) == 0)
        e++;
    return lw_fail(err, LW_ENO, "consolidated state %d of parameter %d '%s', element %lld: %.9g, the "
                                "one-rank run has %.9g", array, param, m->plan->params[param].name,
                   (long long)e, (double)got[e], (double)want[e]);
}

enum lw_status exec_verify_consolidated(const struct exec_tensors *m, int32_t n_steps, int32_t rank,
                                        const float *whole, struct lw_err *err)
{
    int32_t n_states = exec_optimizer_states(m->optimizer.kind);
    struct reference f;
    enum lw_status s = LW_OK;

    LW_TRY(reference_init(&f, m, n_steps, err));
    for (int32_t a = 0; a < m->plan->n_params && s == LW_OK; a++) {
        const float *got = whole + m->state_at[a];
        if (!exec_param_is_here(m->plan, a, rank) || m->plan->params[a].numel == 0)
            continue;
        run_reference(&f, a, rank);
        for (int32_t k = 0; k < n_states && s == LW_OK; k++)
            s = same_state(m, a, k, got + k * m->n_state, f.state[k], err);
        if (s == LW_OK && m->plan->params[a].dtype != LW_F32)
            s = same_state(m, a, n_states, got + n_states * m->n_state, f.weights, err);
    }
    reference_free(&f);
    return s;
}
