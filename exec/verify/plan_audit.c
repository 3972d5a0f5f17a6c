/* Faults of a plan that a run need not show. A message without its other end waits until the
 * deadline; a wait that is missing may be won by chance; what was not cast is what another step
 * left; gradients that are not scaled need not have been too large. lw_plan_check proves all of
 * this but casts, and more; here it is checked for every verified plan, because a plan that was not
 * proven (--no-check) is judged only by its run. */
#include "exec/verify/plan_audit.h"

#include "shared/check/plan_check.h"
#include "shared/strategy/strategy.h"

/* Every send has a receive, in every variant: what it brings is compared when it comes. */
static enum lw_status audit_messages(const struct lw_plan *p, struct lw_err *err)
{
    struct lw_arena room = {0};
    enum lw_status s = LW_OK;

    for (int32_t v = 0; v < p->n_variants && s == LW_OK; v++) {
        struct lw_matches matches = {.ends_only = true};
        s = lw_match_messages(p, v, &matches, &room, err);
    }
    lw_arena_free(&room);
    return s;
}

/* --- clipping --------------------------------------------------------------------------------- */

static enum lw_status audit_clipping(const struct lw_plan *p, int32_t variant, int32_t role,
                                     struct lw_err *err)
{
    const struct lw_program *g = &p->programs[(int64_t)variant * p->n_roles + role];
    int32_t squares = 0, scales = 0, optimizers = 0;

    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        bool norm = op->bucket >= 0 && lw_plan_is_norm(p, op->bucket);
        squares += norm && op->kind == LW_OP_COPY_IN;
        scales += norm && op->kind == LW_OP_COPY_OUT;
        optimizers += op->kind == LW_OP_OPTIMIZER;
    }
    if (optimizers == 0 || (squares == 1 && scales == 1))
        return LW_OK;
    return lw_fail(err, LW_ENO,
                   "variant '%s', role '%s': the plan clips at norm %g, but %d ops take the "
                   "squares of gradients and %d scale them (copy_in and copy_out of set "
                   "'%s')",
                   p->variants[variant].name, p->roles[role].name, p->strategy->clip, squares,
                   scales, lw_bucket_kind_name(LW_BUCKET_NORM));
}

/* --- casts ------------------------------------------------------------------------------------ */

static enum lw_status no_cast_back(const struct lw_plan *p, int32_t bucket, int32_t role,
                                   struct lw_err *err)
{
    return lw_fail(err, LW_ENO, "bucket %d comes back as %s and is never cast to %s (role %d)",
                   bucket, lw_dtype_name(p->buckets[bucket].dtype),
                   lw_dtype_name(exec_bucket_filled_in(p, bucket)), role);
}

/* What is reduced or sent in another type than it is filled in is cast before, and back after. */
static enum lw_status audit_casts(const struct lw_plan *p, int32_t variant, int32_t role,
                                  enum lw_dtype *is, struct lw_err *err)
{
    const struct lw_program *g = &p->programs[(int64_t)variant * p->n_roles + role];
    char text[LW_OP_TEXT];

    for (int32_t b = 0; b < p->n_buckets; b++)
        is[b] = exec_bucket_filled_in(p, b);
    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (op->bucket < 0)
            continue;
        if (op->kind == LW_OP_CAST)
            is[op->bucket] = (enum lw_dtype)op->dtype;
        else if (op->comm >= 0 && is[op->bucket] != p->buckets[op->bucket].dtype)
            return lw_fail(err, LW_ENO, "%s takes %s, and nothing has cast the bucket's %s",
                           lw_plan_op_text(p, i, text), lw_dtype_name(p->buckets[op->bucket].dtype),
                           lw_dtype_name(is[op->bucket]));
    }
    for (int32_t b = 0; b < p->n_buckets; b++)
        if (is[b] != exec_bucket_filled_in(p, b))
            return no_cast_back(p, b, role, err);
    return LW_OK;
}

static enum lw_status audit_all_casts(const struct lw_plan *p, struct lw_err *err)
{
    enum lw_dtype *is = lw_alloc((size_t)(p->n_buckets + 1) * sizeof *is);
    enum lw_status s = is ? LW_OK : lw_fail_nomem(err);

    for (int32_t v = 0; v < p->n_variants && s == LW_OK; v++)
        for (int32_t role = 0; role < p->n_roles && s == LW_OK; role++)
            s = audit_casts(p, v, role, is, err);
    lw_free(is);
    return s;
}

enum lw_status exec_audit(const struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    enum lw_status s = audit_all_casts(p, err);

    for (int64_t i = 0; s == LW_OK && m->clips && i < (int64_t)p->n_variants * p->n_roles; i++)
        s = audit_clipping(p, (int32_t)(i / p->n_roles), (int32_t)(i % p->n_roles), err);
    if (s == LW_OK)
        s = lw_check_programs(p, false, err);
    if (s == LW_OK)
        s = audit_messages(p, err);
    return s == LW_EPLAN ? LW_ENO : s; /* the run could end right by chance */
}
