/* Taking the norm, and scaling by it. A rank has one number, a zero beside it that the number is
 * set to before squares are added, and a copy of the number for each step of a batch.
 *
 * Exactness. With n terms, divisor odd * 2^k and values odd * v, |v| <= V, an average is a whole
 * number of 2^-k, n * V at most; N squares of these add up to at most N (n V)^2 of 4^-k. Below
 * what the number's type holds exactly (2^53, 2^24 of f32) every partial sum is exact, in any
 * order. */
#include "exec/tensors/grad_norm.h"

#include "exec/backend/element.h"
#include "shared/strategy/strategy.h"

enum { NUMBER_BYTES = 8, KEPT = 2 }; /* KEPT: where the copies begin */

/* --- size ------------------------------------------------------------------------------------- */

/* Ranks of a tensor group. */
static int32_t tensor_ranks(const struct lw_plan *p)
{
    int32_t most = 0;

    for (int32_t r = 0; r < p->n_ranks; r++)
        if (lw_plan_coord(p, r, LW_AXIS_TP) > most)
            most = lw_plan_coord(p, r, LW_AXIS_TP);
    return most + 1;
}

/* Elements whose squares are added up; beyond 2^62 as many as that. */
static int64_t n_counted(const struct lw_plan *p)
{
    int64_t n = 0, most = INT64_C(1) << 62, tensor = tensor_ranks(p);

    for (int32_t i = 0; i < p->n_params; i++) {
        int64_t times = (lw_plan_counts(p, i, 0) ? 1 : 0) +
                        (lw_plan_counts(p, i, 1) ? tensor - 1 : 0), more;
        if (__builtin_mul_overflow(times, p->params[i].numel, &more) ||
            __builtin_add_overflow(n, more, &n) || n > most)
            return most;
    }
    return n;
}

/* Largest u with u * u <= x. */
static int64_t root_of(int64_t x)
{
    int64_t low = 0, high = INT64_C(1) << 27;

    while (low < high) {
        int64_t mid = (low + high + 1) / 2;
        if (mid * mid <= x)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

enum lw_status exec_norm_limit(const struct lw_plan *p, int64_t n_terms, int32_t divisor,
                               int64_t *limit, struct lw_err *err)
{
    int64_t holds = exec_exact_limit(LW_F64), elements = n_counted(p);
    enum lw_dtype narrowest = LW_F64;
    int32_t odd = divisor > 0 ? divisor : 1;

    if (p->strategy->clip <= 0 || elements == 0)
        return LW_OK;
    for (int32_t b = 0; b < p->n_buckets; b++)
        if (lw_plan_is_norm(p, b) && exec_exact_limit(p->buckets[b].dtype) < holds) {
            narrowest = p->buckets[b].dtype;
            holds = exec_exact_limit(narrowest);
        }
    while (odd % 2 == 0)
        odd /= 2;
    int64_t most = root_of(holds / elements);
    if (most < n_terms)
        return lw_fail(err, LW_EINVAL,
                       "the plan clips at norm %g: the squares of %lld elements, of %lld gradients "
                       "each, do not add up exactly in %s: with so many elements at most %lld "
                       "gradients each can be verified", p->strategy->clip, (long long)elements,
                       (long long)n_terms, lw_dtype_name(narrowest), (long long)most);
    if (most * odd < *limit)
        *limit = most * odd;
    return LW_OK;
}

enum lw_status exec_norm_alloc(struct exec_tensors *m, int32_t rank, struct lw_err *err)
{
    int64_t n = KEPT + (m->batch_steps > 1 ? m->batch_steps : 1);

    return m->clips
               ? m->backend->mem_alloc(m->world, rank, n * NUMBER_BYTES, &m->ranks[rank].norm, err)
               : LW_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

static enum lw_status add_squares(const struct exec_tensors *m, const struct exec_place *at,
                                  int32_t a, int64_t first, int64_t n, enum lw_dtype number,
                                  struct exec_parts *parts, struct lw_err *err)
{
    enum lw_dtype t = exec_gradient_dtype(m->plan, a);
    struct exec_part part = {.kind = EXEC_PART_SQUARES, .to = m->ranks[at->rank].norm,
                             .to_dtype = number, .from_dtype = t, .count = n};
    char *from = exec_tensors_gradient(m, at->layout, at->rank, a, &part.divisor);

    part.from = from + first * lw_dtype_size(t);
    return lw_plan_counts(m->plan, a, lw_plan_coord(m->plan, at->rank, LW_AXIS_TP))
               ? exec_parts_add(parts, part, err)
               : LW_OK;
}

static enum lw_status add_scale(const struct exec_tensors *m, const struct exec_place *at,
                                int32_t a, int64_t first, int64_t n, enum lw_dtype number,
                                struct exec_parts *parts, struct lw_err *err)
{
    enum lw_dtype t = exec_gradient_dtype(m->plan, a);
    struct exec_part part = {.kind = EXEC_PART_SCALE, .to_dtype = t, .count = n,
                             .clip = {m->ranks[at->rank].norm, number, m->plan->strategy->clip}};
    char *mem = exec_tensors_gradient(m, at->layout, at->rank, a, &part.divisor);

    part.to = mem + first * lw_dtype_size(t);
    return exec_parts_add(parts, part, err);
}

enum lw_status exec_norm_parts(const struct exec_tensors *m, const struct lw_op *op,
                               const struct exec_place *at, struct exec_parts *parts,
                               struct lw_err *err)
{
    enum lw_dtype number = m->plan->buckets[op->bucket].dtype;
    char *norm = m->ranks[at->rank].norm;
    struct exec_part zero = {.kind = EXEC_PART_COPY, .to = norm, .from = norm + NUMBER_BYTES,
                             .to_dtype = number, .from_dtype = number, .count = 1, .divisor = 1};
    struct exec_part keep = {.kind = EXEC_PART_COPY, .to = norm + (KEPT + at->slot) * NUMBER_BYTES,
                             .from = norm, .to_dtype = number, .from_dtype = number, .count = 1,
                             .divisor = 1};
    bool scales = op->kind == LW_OP_COPY_OUT;
    struct exec_owned own = {0};

    if (op->kind == LW_OP_COPY_IN)
        LW_TRY(exec_parts_add(parts, zero, err));
    else if (scales)
        LW_TRY(exec_parts_add(parts, keep, err));
    else
        return LW_OK;
    while (exec_next_owned(m, at, &own))
        LW_TRY((scales ? add_scale : add_squares)(m, at, own.param, own.first, own.numel, number,
                                                  parts, err));
    return LW_OK;
}

/* --- what ranks clipped by -------------------------------------------------------------------- */

static enum lw_dtype number_of(const struct lw_plan *p, int32_t rank)
{
    for (int32_t b = 0; b < p->n_buckets; b++)
        if (lw_plan_is_norm(p, b) &&
            p->sets[p->buckets[b].set].stage == p->roles[lw_plan_role_of(p, rank)].stage)
            return p->buckets[b].dtype;
    return LW_F64;
}

enum lw_status exec_norm_keep(struct exec_tensors *m, int32_t step, int32_t slot,
                              struct lw_err *err)
{
    int32_t n = m->facts.n_local;

    if (!m->clips)
        return LW_OK;
    LW_ROOM(m->squares, m->squares_capacity, (int64_t)(step + 1) * n, err);
    for (int32_t k = 0; k < n; k++) {
        int32_t rank = m->facts.first_local + k;
        enum lw_dtype t = number_of(m->plan, rank);
        double raw = 0;
        const char *kept = (const char *)m->ranks[rank].norm + (KEPT + slot) * NUMBER_BYTES;
        LW_TRY(m->backend->mem_read(m->world, rank, &raw, kept, lw_dtype_size(t), err));
        m->squares[(int64_t)step * n + k] = exec_get(t, &raw, 0);
    }
    return LW_OK;
}

double exec_norm_kept(const struct exec_tensors *m, int32_t rank, int32_t step)
{
    return m->squares[(int64_t)step * m->facts.n_local + rank - m->facts.first_local];
}
