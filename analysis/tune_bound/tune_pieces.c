/* A bucket's collective of b bytes takes at least b times the least time of a byte in pieces of up
 * to u bytes, for any u >= b. What u is follows from the policy:
 *
 *   ZeRO-3     a unit is one module's, or a part of it: u = the module.
 *   deepspeed  a bucket goes before the gradient that would overflow it: u = the larger of the
 *              limit and the gradient.
 *   c10d       a bucket closes once it has the limit: without the gradient that came last it has
 *              less. Each gradient is the last of one bucket at most, so the i-th bucket has less
 *              than limit + x(i), where x are all gradients in some order. The least sum fills the
 *              largest buckets first, because a byte in a larger piece takes no longer.
 *
 * A bucket that also holds what is not counted here (padding, unused parameters) has more bytes
 * than b, and takes no less. */
#include "analysis/tune_bound/tune_pieces.h"

#include <string.h>

#include "shared/base/sort.h"
#include "shared/bucket/bucket_deepspeed.h"
#include "shared/bucket/policy.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"

bool lw_tune_units_are_modules(const struct lw_strategy *s)
{
    bool of_modules = !s->units || !s->units[0] || strcmp(s->units, "modules") == 0;

    return s->zero == 3 && s->persist == 0 && !s->root_unit && of_modules;
}

static bool is_counted(const struct lw_param *p)
{
    return lw_param_has_gradient(p) && !p->ignored && !p->sparse && !p->expert;
}

struct pieces {
    const struct lw_outline *o;
    const struct lw_strategy *s;
    const struct lw_tune_group *g;
    const int32_t *first;
    int32_t n_parts;
    int32_t *part_of; /* [o->n_modules] */
    struct lw_tune_pieces *out;
};

/* --- what is cut at a limit --- */

static void add_limited(const struct pieces *x)
{
    for (int32_t i = 0; i < x->o->n_params; i++) {
        const struct lw_param *p = &x->o->params[i];
        if (!is_counted(p))
            continue;
        struct lw_tune_pieces *out = &x->out[x->part_of[p->module]];
        enum lw_dtype grad = lw_strategy_grad_dtype(x->s, p->dtype);
        int64_t limit = lw_deepspeed_limit(x->s, grad);
        int64_t most = limit > p->numel ? limit : p->numel;
        int64_t wire = lw_dtype_size(lw_strategy_wire_dtype(x->s, grad));
        int64_t own = lw_dtype_size(p->dtype);
        out->reduce = lw_add_sat(out->reduce, lw_tune_least_time_of(&x->g->scatter, p->numel * wire,
                                                                    lw_mul_sat(most, wire)));
        out->gather = lw_add_sat(out->gather, lw_tune_least_time_of(&x->g->gather, p->numel * own,
                                                                    lw_mul_sat(most, own)));
    }
}

/* --- what closes at a limit --- */

lw_ps lw_tune_closing_time(const struct lw_tune_rates *r, const int64_t *sizes, int32_t n,
                           int64_t limit)
{
    int64_t left = 0;
    lw_ps sum = 0;

    for (int32_t i = 0; i < n; i++)
        left = lw_add_sat(left, sizes[i]);
    for (int32_t i = 0; i < n && left > 0; i++) {
        int64_t most = lw_add_sat(limit, sizes[i]), held = left < most ? left : most;
        sum = lw_add_sat(sum, lw_tune_least_time_of(r, held, most));
        left -= held;
    }
    return sum;
}

LW_COMPARATOR(descending, int64_t, *b, *a)

/* The closing limit of the buckets of a step; LW_BUCKET_NO_LIMIT: another policy's. */
static int64_t closing_limit(const struct lw_strategy *s)
{
    const struct lw_bucket_request r = {s->bucket_policy, s->bucket_cap_bytes,
                                        s->first_bucket_bytes, s->find_unused, s->static_graph,
                                        s->last_bucket_cap};
    struct lw_bucket_rules rules;
    struct lw_err err;

    if (lw_bucket_rules(&r, &rules, &err) != LW_OK || !rules.limited)
        return LW_BUCKET_NO_LIMIT;
    int32_t n = rules.n_rebuilt > 0 ? rules.n_rebuilt : rules.n_initial;
    const int64_t *limits = rules.n_rebuilt > 0 ? rules.rebuilt_limits : rules.initial_limits;
    int64_t most = limits[0];
    for (int32_t i = 1; i < n; i++)
        most = limits[i] > most ? limits[i] : most;
    return most;
}

/* Gradients of part q of a type, on the wire. */
static int32_t sizes_of(const struct pieces *x, int32_t q, enum lw_dtype type, int64_t *sizes)
{
    enum lw_dtype wire = lw_strategy_wire_dtype(x->s, lw_strategy_grad_dtype(x->s, type));
    int32_t n = 0;

    for (int32_t i = 0; i < x->o->n_params; i++) {
        const struct lw_param *p = &x->o->params[i];
        if (is_counted(p) && p->dtype == type && x->part_of[p->module] == q)
            sizes[n++] = p->numel * lw_dtype_size(wire);
    }
    lw_sort(sizes, n, descending);
    return n;
}

/* Parameters of two types may share a bucket where gradients have one: then nothing is known. */
static bool has_one_type(const struct lw_outline *o)
{
    for (int32_t i = 1; i < o->n_params; i++)
        if (o->params[i].dtype != o->params[0].dtype)
            return false;
    return o->n_params > 0;
}

static enum lw_status add_closing(const struct pieces *x, struct lw_arena *room,
                                  struct lw_err *err)
{
    int64_t limit = closing_limit(x->s), *sizes;

    LW_TAKE(room, sizes, x->o->n_params, err);
    if (!has_one_type(x->o))
        return LW_OK;
    enum lw_dtype type = x->o->params[0].dtype, grad = lw_strategy_grad_dtype(x->s, type);
    int64_t wire = lw_dtype_size(lw_strategy_wire_dtype(x->s, grad));
    if (limit != LW_BUCKET_NO_LIMIT)
        limit = lw_mul_sat(limit / lw_dtype_size(grad) + 1, wire);
    for (int32_t q = 0; q < x->n_parts; q++) {
        int32_t n = sizes_of(x, q, type, sizes);
        x->out[q].reduce = lw_tune_closing_time(&x->g->sum, sizes, n, limit);
    }
    return LW_OK;
}

/* --- units of modules --- */

static int64_t reduced_bytes(const struct lw_strategy *s, const struct lw_outline_sum *x)
{
    int64_t bytes = 0;

    for (int t = 0; t < LW_N_DTYPES; t++) {
        enum lw_dtype grad = lw_strategy_grad_dtype(s, (enum lw_dtype)t);
        bytes += x->reduced[t] * lw_dtype_size(lw_strategy_wire_dtype(s, grad));
    }
    return bytes;
}

static void add_modules(const struct pieces *x)
{
    for (int32_t m = 0; m < x->o->n_modules; m++) {
        const struct lw_outline_sum sum = lw_outline_of(x->o, m, m + 1);
        struct lw_tune_pieces *out = &x->out[x->part_of[m]];
        out->reduce = lw_add_sat(out->reduce, lw_tune_least_time(&x->g->scatter,
                                                                 reduced_bytes(x->s, &sum)));
    }
}

enum lw_status lw_tune_pieces_of(const struct lw_outline *o, const struct lw_strategy *s,
                                 const struct lw_tune_group *g, const int32_t *first,
                                 int32_t n_parts, struct lw_tune_pieces *out, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct pieces x = {o, s, g, first, n_parts, NULL, out};
    enum lw_status st = LW_OK;

    memset(out, 0, (size_t)n_parts * sizeof *out);
    x.part_of = lw_arena_alloc(&room, o->n_modules, sizeof *x.part_of);
    if (!x.part_of)
        return lw_fail_nomem(err);
    for (int32_t q = 0; q < n_parts; q++)
        for (int32_t m = first[q]; m < first[q + 1]; m++)
            x.part_of[m] = q;
    if (lw_tune_units_are_modules(s))
        add_modules(&x);
    else if ((s->zero == 1 || s->zero == 2) && s->bucket_policy == LW_BUCKET_DEEPSPEED)
        add_limited(&x);
    else if (s->zero == 0)
        st = add_closing(&x, &room, err);
    lw_arena_free(&room);
    return st;
}
