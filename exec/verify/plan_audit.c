/* Faults of a plan that a run need not show. A gradient in two buckets is averaged twice, to the
 * same value; a shard that nobody has may be of a parameter that all then update; a message without
 * its other end waits until the deadline; a wait that is missing may be won by chance; what was not
 * cast is what another step left; gradients that nobody scales need not have been too large.
 * lw_plan_check proves all of this but casts, and more; here it is asked again of what exec itself has
 * laid out, so that a plan that was not proven is judged by its run alone. */
#include "exec/verify/plan_audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/check/plan_check.h"
#include "shared/plan/op.h"

/* --- buckets ------------------------------------------------------------------------------------
 */

static enum lw_status audit_set(const struct lw_plan *p, const struct lw_bucket_set *set,
                                int32_t *bucket_of, struct lw_err *err)
{
    for (int32_t b = set->first_bucket; b < set->first_bucket + set->n_buckets; b++)
        for (int32_t s = 0; s < p->buckets[b].n_slots; s++) {
            int32_t a = p->slots[p->buckets[b].first_slot + s];
            if (bucket_of[a] >= 0)
                return lw_fail(err, LW_ENO,
                               "the gradient of parameter %d '%s' lies in bucket %d and "
                               "in bucket %d of set '%s'",
                               a, p->params[a].name, bucket_of[a], b, set->name);
            bucket_of[a] = b;
        }
    return LW_OK;
}

static enum lw_status audit_buckets(const struct lw_plan *p, struct lw_err *err)
{
    int32_t *bucket_of = lw_alloc((size_t)(p->n_params + 1) * sizeof *bucket_of);
    enum lw_status s = bucket_of ? LW_OK : lw_fail_nomem(err);

    for (int32_t v = 0; v < p->n_variants && s == LW_OK; v++) {
        for (int32_t i = 0; i < p->n_params; i++)
            bucket_of[i] = -1;
        for (int32_t i = 0; i < p->n_sets && s == LW_OK; i++)
            if (lw_plan_uses_set(p, v, i))
                s = audit_set(p, &p->sets[i], bucket_of, err);
    }
    lw_free(bucket_of);
    return s;
}

/* --- shards -------------------------------------------------------------------------------------
 */

static int by_place(const void *a, const void *b)
{
    const struct lw_shard *x = a, *y = b;

    if (x->param != y->param)
        return x->param < y->param ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static enum lw_status tiled(const struct lw_plan *p, const struct lw_shard *s, int32_t n,
                            struct lw_err *err)
{
    int32_t k = 0;

    for (int32_t i = 0; i < p->n_params; i++) {
        int64_t at = 0;
        for (; k < n && s[k].param == i && s[k].first == at; k++)
            at += s[k].numel;
        bool more = k < n && s[k].param == i;
        if (p->params[i].trainable && lw_plan_holds(p, i) && (at != p->params[i].numel || more))
            return lw_fail(err, LW_ENO, "parameter %d '%s': from element %lld of %lld on %s", i,
                           p->params[i].name, (long long)at, (long long)p->params[i].numel,
                           more && s[k].first < at ? "shards overlap"
                                                   : "no shard says who updates it");
        while (k < n && s[k].param == i)
            k++;
    }
    return LW_OK;
}

static enum lw_status audit_shards(const struct lw_plan *p, struct lw_err *err)
{
    size_t bytes = (size_t)p->n_shards * sizeof(struct lw_shard);

    if (p->n_shards == 0)
        return LW_OK;
    struct lw_shard *s = lw_alloc(bytes);
    if (!s)
        return lw_fail_nomem(err);
    memcpy(s, p->shards, bytes);
    qsort(s, (size_t)p->n_shards, sizeof *s, by_place);
    enum lw_status status = tiled(p, s, p->n_shards, err);
    lw_free(s);
    return status;
}

/* --- messages -----------------------------------------------------------------------------------
 */

struct message {
    int32_t comm, from, to, received, op;
};

static int by_channel(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    for (size_t i = 0; i < sizeof(struct message) / sizeof *x; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int64_t list_messages(const struct lw_plan *p, int32_t variant, struct message *list)
{
    int64_t n = 0;

    for (int32_t r = 0; r < p->n_ranks; r++) {
        struct lw_program g = lw_plan_program(p, variant, r);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            const struct lw_op *op = &p->ops[i];
            bool received = op->kind == LW_OP_RECV;
            if (lw_op_class(op->kind) != LW_CLASS_P2P)
                continue;
            int32_t peer = lw_plan_operand(p, op, r).peer;
            if (list)
                list[n] = (struct message){op->comm, received ? peer : r, received ? r : peer,
                                           received, i};
            n++;
        }
    }
    return n;
}

static bool same_channel(const struct message *a, const struct message *b)
{
    return a->comm == b->comm && a->from == b->from && a->to == b->to;
}

static enum lw_status audit_channels(const struct lw_plan *p, const struct message *list, int64_t n,
                                     struct lw_err *err)
{
    char text[LW_OP_TEXT];

    for (int64_t i = 0, end; i < n; i = end) {
        int64_t sent = 0, received = 0;
        for (end = i; end < n && same_channel(&list[i], &list[end]); end++)
            list[end].received ? received++ : sent++;
        if (sent == received)
            continue;
        const struct message *odd = sent > received ? &list[i + received] : &list[i + 2 * sent];
        return lw_fail(err, LW_ENO,
                       "%s, micro-batch %d, on rank %d: rank %d never %s it; %lld are sent "
                       "from rank %d to rank %d and %lld received",
                       lw_plan_op_text(p, odd->op, text), p->ops[odd->op].micro_batch,
                       odd->received ? odd->to : odd->from, odd->received ? odd->from : odd->to,
                       odd->received ? "sends" : "receives", (long long)sent, odd->from, odd->to,
                       (long long)received);
    }
    return LW_OK;
}

static enum lw_status audit_messages(const struct lw_plan *p, int32_t variant, struct lw_err *err)
{
    int64_t n = list_messages(p, variant, NULL);

    if (n == 0)
        return LW_OK;
    struct message *list = lw_alloc((size_t)n * sizeof *list);
    if (!list)
        return lw_fail_nomem(err);
    list_messages(p, variant, list);
    qsort(list, (size_t)n, sizeof *list, by_channel);
    enum lw_status s = audit_channels(p, list, n, err);
    lw_free(list);
    return s;
}

/* --- clipping ------------------------------------------------------------------------------------
 */

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
    return lw_fail(err, LW_ENO, "variant '%s', role '%s': the plan clips at norm %g, but %d ops take the "
                                "squares of gradients and %d scale them (copy_in and copy_out of set "
                                "'%s')", p->variants[variant].name, p->roles[role].name,
                   p->strategy.clip, squares, scales, lw_bucket_kind_name(LW_BUCKET_NORM));
}

/* --- casts ---------------------------------------------------------------------------------------
 */

static enum lw_status no_cast_back(const struct lw_plan *p, int32_t bucket, int32_t role,
                                   struct lw_err *err)
{
    return lw_fail(err, LW_ENO, "bucket %d comes back as %s and is never cast to %s (role %d)", bucket,
                   lw_dtype_name(p->buckets[bucket].dtype),
                   lw_dtype_name(exec_bucket_filled_in(p, bucket)), role);
}

/* What is reduced or sent in another type than it is filled in is cast before, and back behind. */
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

static enum lw_status audit_waits(const struct lw_plan *p, struct lw_err *err)
{
    enum lw_status s = lw_check_programs(p, false, err);

    return s == LW_EPLAN ? LW_ENO : s;
}

enum lw_status exec_audit(const struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    LW_TRY(audit_buckets(p, err));
    LW_TRY(audit_shards(p, err));
    LW_TRY(audit_all_casts(p, err));
    LW_TRY(audit_waits(p, err));
    for (int32_t v = 0; v < p->n_variants; v++) {
        LW_TRY(audit_messages(p, v, err));
        for (int32_t role = 0; m->clips && role < p->n_roles; role++)
            LW_TRY(audit_clipping(p, v, role, err));
    }
    return LW_OK;
}
