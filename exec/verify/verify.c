/* The bitwise check: what every rank holds after the last step against the one-rank run of
 * reference.c, and where the plan clips, before that, the number that each rank clipped by in
 * every step. A weight that differs is explained by the last gradient: what the optimizer read
 * against its terms. */
#include "exec/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/backend/element.h"
#include "exec/tensors/grad_norm.h"
#include "exec/verify/reference.h"
#include "exec/tensors/sparse_memory.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

struct check {
    struct exec_reference ref;
    int64_t n_bytes; /* compared */
    const struct exec_sums *sums; /* sorted by parameter, rank, step, first element */
    const struct exec_sum *wrong; /* the first that differs; NULL = none */
};

/* What the optimizer read for elements [first, first + n) in the last step, and by what it divided;
 * false: it cannot be read, or its rows are zero again. */
static bool last_gradient(const struct exec_reference *f, int32_t param, int32_t rank,
                          int64_t first, int64_t n, void *to, int32_t *divisor)
{
    const struct exec_tensors *m = f->m;
    int64_t size = lw_dtype_size(exec_gradient_dtype(m->plan, param));
    const struct exec_layout *layout =
        exec_tensors_layout(m, exec_reference_last_variant(f), rank);
    const char *from = exec_tensors_average(m, layout, rank, param, divisor);

    return !exec_rows_entry(m, param) &&
           m->backend->mem_read(m->world, rank, to, from + first * size, n * size, NULL) == LW_OK;
}

/* So many significant digits, 6 or more, that the two are printed differently. */
static int digits_apart(double a, double b)
{
    char text[2][32];
    int n = 6;

    for (; n < 17; n++) {
        snprintf(text[0], sizeof text[0], "%.*g", n, a);
        snprintf(text[1], sizeof text[1], "%.*g", n, b);
        if (strcmp(text[0], text[1]) != 0)
            break;
    }
    return n;
}

/* The gradient of the last step, as the optimizer saw it, against its terms. */
static void explain(const struct exec_reference *f, int32_t param, int32_t rank, int64_t element,
                    char *text, size_t room)
{
    const struct lw_plan *p = f->m->plan;
    int32_t n = exec_reference_divisor(f, param, rank), divisor, last = f->n_steps - 1;
    double squares = f->m->clips ? exec_norm_kept(f->m, rank, last) : 0, all = 0;
    double raw = 0; /* room for any type, aligned */

    text[0] = '\0';
    if (!last_gradient(f, param, rank, element, 1, &raw, &divisor))
        return;
    double got = exec_get(exec_gradient_dtype(p, param), &raw, 0) / divisor;
    for (int32_t r = 0; r < p->n_ranks; r++)
        all += exec_reference_term(f, param, rank, r, element);
    double right = exec_reference_clipped(f, param, all / n, squares);
    int digits = digits_apart(got, right);
    snprintf(text, room, "; its last gradient is %.*g instead of %.*g", digits, got, digits, right);
    if (got == right) {
        snprintf(text, room, "; its last gradient is right: the update, or a step before, is not");
        return;
    }
    for (int32_t r = 0; r < p->n_ranks; r++) {
        double terms = exec_reference_term(f, param, rank, r, element);
        if (terms == 0)
            continue;
        if (got == exec_reference_clipped(f, param, (all - terms) / n, squares))
            snprintf(text, room, "; the gradient of rank %d was lost", r);
        else if (got == exec_reference_clipped(f, param, (all + terms) / n, squares))
            snprintf(text, room, "; the gradient of rank %d was counted twice", r);
        else if (r == rank && n > 1 && got == exec_reference_clipped(f, param, terms, squares))
            snprintf(text, room, "; it was not reduced: the last gradient is this rank's own");
    }
}

/* --- what ranks hold -------------------------------------------------------------------------- */

/* What a rank holds of a parameter, whole, at mem; and what it should hold. */
struct held {
    const char *what;
    enum lw_dtype dtype;
    const void *mem, *want;
};

/* Elements [first, first + n) of it. */
static enum lw_status compare(struct check *k, int32_t param, int32_t rank,
                              const struct held *h, int64_t first, int64_t n, struct lw_err *err)
{
    struct exec_reference *f = &k->ref;
    const struct exec_tensors *m = f->m;
    int64_t size = lw_dtype_size(h->dtype);
    const char *want = (const char *)h->want + first * size, *got = f->got;
    char why[160];

    if (n == 0)
        return LW_OK;
    LW_TRY(m->backend->mem_read(m->world, rank, f->got, (const char *)h->mem + first * size,
                                n * size, err));
    k->n_bytes += n * size;
    if (memcmp(got, want, (size_t)(n * size)) == 0)
        return LW_OK;
    for (int64_t e = 0; e < n; e++) {
        if (memcmp(got + e * size, want + e * size, (size_t)size) == 0)
            continue;
        if (h->want == f->before)
            snprintf(why, sizeof why, " before its last update");
        else
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
static enum lw_status compare_state(struct check *k, int32_t param, int32_t rank, int64_t first,
                                    int64_t n, struct lw_err *err)
{
    static const char *const names[EXEC_N_OPTIMIZERS][EXEC_MAX_STATES] = {
        [EXEC_MOMENTUM] = {"momentum"}, [EXEC_ADAM] = {"first moment", "second moment"}};
    const struct exec_tensors *m = k->ref.m;

    if (m->plan->params[param].dtype != LW_F32) {
        struct held h = {"master", LW_F32, exec_tensors_master(m, rank, param), k->ref.weights};
        LW_TRY(compare(k, param, rank, &h, first, n, err));
    }
    for (int32_t i = 0; i < exec_optimizer_states(m->optimizer.kind); i++) {
        struct held h = {names[m->optimizer.kind][i], LW_F32,
                         m->ranks[rank].state[i] + m->state_at[param], k->ref.state[i]};
        LW_TRY(compare(k, param, rank, &h, first, n, err));
    }
    return LW_OK;
}

/* What is gathered ahead is others' of the step before: the last update reaches them in a step
 * that does not come. */
static enum lw_status compare_param(struct check *k, int32_t param, int32_t rank,
                                    struct lw_err *err)
{
    const struct exec_tensors *m = k->ref.m;
    const struct lw_plan *p = m->plan;
    int64_t n = p->params[param].numel;
    struct held h = {"weight", (enum lw_dtype)p->params[param].dtype,
                     exec_tensors_weights(m, rank, param), k->ref.own};

    struct held gathered = {"gathered weight", h.dtype, h.mem, k->ref.before};
    bool apart = m->temporary[param] || m->ahead[param];

    if (!apart)
        LW_TRY(compare(k, param, rank, &h, 0, n, err));
    if (!m->sharded[param])
        return compare_state(k, param, rank, 0, n, err);
    for (int32_t s = 0; s < p->n_shards; s++) {
        const struct lw_shard *x = &p->shards[s];
        if (x->param != param)
            continue;
        if (!exec_shard_is_mine(m, s, rank)) {
            if (m->ahead[param])
                LW_TRY(compare(k, param, rank, &gathered, x->first, x->numel, err));
            continue;
        }
        if (apart)
            LW_TRY(compare(k, param, rank, &h, x->first, x->numel, err));
        if (p->params[param].trainable)
            LW_TRY(compare_state(k, param, rank, x->first, x->numel, err));
    }
    return LW_OK;
}

/* --- what optimizers read --------------------------------------------------------------------- */

static int compare_keys(const struct exec_sum *a, const struct exec_sum *b)
{
    return LW_ORDER(a->param, b->param, a->rank, b->rank, a->step, b->step);
}

static int by_key(const void *pa, const void *pb)
{
    const struct exec_sum *a = pa, *b = pb;
    int c = compare_keys(a, b);

    return c ? c : (a->first > b->first) - (a->first < b->first);
}

/* The first of a parameter, rank and step. */
static int64_t find_sum(const struct exec_sums *s, struct exec_sum key)
{
    int64_t low = 0, high = s->n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (compare_keys(&s->items[mid], &key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Ranks of a group read the same elements. */
static bool is_known(const struct exec_sum *x, const struct exec_sum *known)
{
    return x->first == known->first && x->n == known->n && x->divisor == known->divisor;
}

/* Into known->got: the sum that the one-rank run's gradient has there, unless known is of it. */
static uint64_t right_sum(struct exec_reference *f, const struct exec_sum *x, int32_t divisor,
                          struct exec_sum *known)
{
    enum lw_dtype t = exec_gradient_dtype(f->m->plan, x->param);

    if (is_known(x, known))
        return known->got;
    for (int64_t e = 0; e < x->n; e++) {
        double average = (double)f->sum[x->first + e] / divisor;
        exec_put(t, f->got, e, divisor == x->divisor ? (double)f->sum[x->first + e]
                                                     : average * x->divisor);
    }
    *known = *x;
    known->got = exec_bits_sum(t, f->got, x->n);
    return known->got;
}

static void judge_step(struct exec_reference *f, int32_t param, int32_t rank, int32_t step,
                       int32_t divisor)
{
    struct check *k = f->context;
    const struct exec_facts *facts = &f->m->facts;
    struct exec_sum known = {.n = -1};

    for (int32_t r = rank; r < facts->first_local + facts->n_local && !k->wrong; r++) {
        struct exec_sum key = {.param = param, .rank = r, .step = step};
        if (!exec_reference_alike(f, param, rank, r))
            continue;
        for (int64_t i = find_sum(k->sums, key);
             i < k->sums->n && compare_keys(&k->sums->items[i], &key) == 0 && !k->wrong; i++)
            if (k->sums->items[i].got != right_sum(f, &k->sums->items[i], divisor, &known))
                k->wrong = &k->sums->items[i];
    }
}

static enum lw_status tell_wrong(const struct check *k, struct lw_err *err)
{
    const struct exec_sum *x = k->wrong;

    return lw_fail(err, LW_ENO,
                   "step %d: the averaged gradient of parameter %d '%s', elements %lld to "
                   "%lld, that the optimizer of rank %d read is not that of the one-rank "
                   "run; the weights are equal all the same",
                   x->step, x->param, k->ref.m->plan->params[x->param].name, (long long)x->first,
                   (long long)(x->first + x->n - 1), x->rank);
}

/* What is not a number equals nothing, and bit by bit everything of its kind. */
static enum lw_status has_numbers(const struct exec_reference *f, int32_t param, struct lw_err *err)
{
    const struct lw_plan_param *a = &f->m->plan->params[param];

    for (int64_t e = 0; e < a->numel; e++)
        if (!isfinite(f->weights[e]))
            return lw_fail(err, LW_ENO,
                           "cannot verify: weight of parameter %d '%s', element %lld, is %g in the "
                           "one-rank run; change --momentum or --optimizer",
                           param, a->name, (long long)e, (double)f->weights[e]);
    return LW_OK;
}

static enum lw_status verify_param(struct check *k, int32_t param, struct lw_err *err)
{
    const struct exec_tensors *m = k->ref.m;
    int32_t first = m->facts.first_local, end = first + m->facts.n_local;

    for (int32_t rank = first; rank < end; rank++) {
        bool known = !exec_weights_are_here(m, param, rank);
        for (int32_t before = first; before < rank && !known; before++)
            known = exec_weights_are_here(m, param, before) &&
                    exec_reference_alike(&k->ref, param, before, rank);
        if (known)
            continue;
        exec_reference_run(&k->ref, param, rank);
        LW_TRY(has_numbers(&k->ref, param, err));
        for (int32_t r = rank; r < end; r++)
            if (exec_reference_alike(&k->ref, param, rank, r))
                LW_TRY(compare_param(k, param, r, err));
        if (k->wrong)
            return tell_wrong(k, err);
    }
    return LW_OK;
}

/* --- norms ------------------------------------------------------------------------------------ */

/* The first of elements [first, first + n) of the last gradient that is not the reference's,
 * which lies in f->sum; -1 = none, or it cannot be read. */
static int64_t first_difference(const struct exec_reference *f, int32_t param, int32_t rank,
                                int64_t first, int64_t n)
{
    enum lw_dtype t = exec_gradient_dtype(f->m->plan, param);
    int32_t divisor;

    if (!last_gradient(f, param, rank, first, n, f->got, &divisor))
        return -1;
    for (int64_t e = 0; e < n; e++)
        if (exec_get(t, f->got, e) / divisor != (double)f->sum[first + e])
            return first + e;
    return -1;
}

/* Of what a rank updates of a parameter. */
static int64_t find_difference(struct exec_reference *f, int32_t param, int32_t rank)
{
    const struct lw_plan *p = f->m->plan;
    int64_t at = -1;

    exec_reference_last(f, param, rank, exec_norm_kept(f->m, rank, f->n_steps - 1));
    if (!f->m->sharded[param])
        return first_difference(f, param, rank, 0, p->params[param].numel);
    for (int32_t s = 0; s < p->n_shards && at < 0; s++)
        if (p->shards[s].param == param && exec_shard_is_mine(f->m, s, rank))
            at = first_difference(f, param, rank, p->shards[s].first, p->shards[s].numel);
    return at;
}

/* A gradient that is itself wrong, on some rank of this process: "; parameter ...". */
static void explain_norm(struct exec_reference *f, char *text, size_t room)
{
    const struct exec_tensors *m = f->m;
    char why[160];

    text[0] = '\0';
    for (int32_t i = 0; i < m->plan->n_params; i++)
        for (int32_t k = 0; k < m->facts.n_local; k++) {
            int32_t rank = m->facts.first_local + k;
            if (m->plan->params[i].numel == 0 || !exec_param_is_here(m->plan, i, rank))
                continue;
            int64_t element = find_difference(f, i, rank);
            if (element < 0)
                continue;
            explain(f, i, rank, element, why, sizeof why);
            snprintf(text, room, "; parameter %d '%.60s', element %lld, rank %d%s", i,
                     m->plan->params[i].name, (long long)element, rank, why);
            return;
        }
}

/* What each rank clipped by, in every step. */
static enum lw_status verify_norms(struct exec_reference *f, struct lw_err *err)
{
    const struct exec_tensors *m = f->m;
    char why[320];

    for (int32_t step = 0; m->clips && step < f->n_steps; step++)
        for (int32_t k = 0; k < m->facts.n_local; k++) {
            int32_t rank = m->facts.first_local + k;
            double got = exec_norm_kept(m, rank, step),
                   want = exec_reference_squares(f, rank, step);
            if (got == want)
                continue;
            explain_norm(f, why, sizeof why);
            return lw_fail(err, LW_ENO,
                           "gradient norm of step %d, rank %d: %.9g (squares add up to "
                           "%.17g), the one-rank run has %.9g (%.17g)%s",
                           step, rank, sqrt(got), got, sqrt(want), want, why);
        }
    return LW_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

enum lw_status exec_verify(const struct exec_tensors *m, int32_t n_steps, struct exec_sums *sums,
                           int64_t *n_bytes, struct lw_err *err)
{
    struct check k = {.sums = sums};

    LW_TRY(exec_reference_init(&k.ref, m, n_steps, err));
    k.ref.each_step = judge_step;
    k.ref.context = &k;
    lw_sort(sums->items, sums->n, by_key);
    enum lw_status s = verify_norms(&k.ref, err);
    for (int32_t i = 0; i < m->plan->n_params && s == LW_OK; i++)
        if (m->plan->params[i].numel > 0)
            s = verify_param(&k, i, err);
    *n_bytes += k.n_bytes;
    exec_reference_free(&k.ref);
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
    return lw_fail(err, LW_ENO,
                   "consolidated state %d of parameter %d '%s', element %lld: %.9g, the "
                   "one-rank run has %.9g",
                   array, param, m->plan->params[param].name, (long long)e, (double)got[e],
                   (double)want[e]);
}

enum lw_status exec_verify_consolidated(const struct exec_tensors *m, int32_t n_steps, int32_t rank,
                                        const float *whole, struct lw_err *err)
{
    int32_t n_states = exec_optimizer_states(m->optimizer.kind);
    struct exec_reference f;
    enum lw_status s = LW_OK;

    LW_TRY(exec_reference_init(&f, m, n_steps, err));
    for (int32_t a = 0; a < m->plan->n_params && s == LW_OK; a++) {
        const float *got = whole + m->state_at[a];
        if (!exec_param_is_here(m->plan, a, rank) || m->plan->params[a].numel == 0)
            continue;
        exec_reference_run(&f, a, rank);
        for (int32_t k = 0; k < n_states && s == LW_OK; k++)
            s = same_state(m, a, k, got + k * m->n_state, f.state[k], err);
        if (s == LW_OK && m->plan->params[a].dtype != LW_F32)
            s = same_state(m, a, n_states, got + n_states * m->n_state, f.weights, err);
    }
    exec_reference_free(&f);
    return s;
}
