/* What even a plan that is run unchecked must keep: indexes in range, dependencies backwards, slots
 * inside their buckets. It says nothing about whether the plan is right. */
#include "exec/tensors.h"
#include "shared/op.h"

static enum lw_status bad_op(const struct lw_plan *p, int32_t i, const char *what, int64_t value,
                             struct lw_err *err)
{
    return lw_fail(err, LW_EPLAN, "op %d (%s): %s %lld is out of range", i,
                   p->ops[i].kind < LW_N_OP_KINDS ? lw_op_name(p->ops[i].kind) : "?", what,
                   (long long)value);
}

static bool outside(int64_t value, int64_t low, int64_t end)
{
    return value < low || value >= end;
}

static enum lw_status safe_op(const struct lw_plan *p, const struct lw_program *g, int32_t i,
                              struct lw_err *err)
{
    const struct lw_op *op = &p->ops[i];

    if (outside(op->kind, 0, LW_N_OP_KINDS))
        return lw_fail(err, LW_EPLAN, "op %d is of unknown kind %d", i, (int)op->kind);
    if (outside(op->stream, 0, p->n_streams))
        return bad_op(p, i, "stream", op->stream, err);
    if (outside(op->comm, -1, p->n_comms))
        return bad_op(p, i, "communicator", op->comm, err);
    if (outside(op->dtype, 0, LW_N_DTYPES))
        return bad_op(p, i, "dtype", op->dtype, err);
    if (outside(op->work, -1, p->n_works))
        return bad_op(p, i, "work", op->work, err);
    if (outside(op->bucket, -1, p->n_buckets))
        return bad_op(p, i, "bucket", op->bucket, err);
    if (outside(op->operand, -1, p->n_operand_rows))
        return bad_op(p, i, "row of operands", op->operand, err);
    if (op->bytes < 0)
        return bad_op(p, i, "bytes", op->bytes, err);
    if (op->bucket >= 0 && op->comm >= 0 && op->bytes > p->buckets[op->bucket].bytes)
        return bad_op(p, i, "bytes beyond its bucket:", op->bytes, err);
    if (op->n_deps < 0 || outside(op->first_dep, 0, (int64_t)p->n_deps + 1) ||
        op->first_dep + (int64_t)op->n_deps > p->n_deps)
        return bad_op(p, i, "dependency list at", op->first_dep, err);
    for (int32_t d = 0; d < op->n_deps; d++)
        if (outside(p->deps[op->first_dep + d], g->first_op, i))
            return bad_op(p, i, "dependency", p->deps[op->first_dep + d], err);
    if (op->n_ready < 0 || outside(op->first_ready, 0, (int64_t)p->n_ready + 1) ||
        op->first_ready + (int64_t)op->n_ready > p->n_ready)
        return bad_op(p, i, "gradient list at", op->first_ready, err);
    for (int32_t r = 0; r < op->n_ready; r++)
        if (outside(p->ready[op->first_ready + r], 0, p->n_params))
            return bad_op(p, i, "gradient", p->ready[op->first_ready + r], err);
    return LW_OK;
}

static enum lw_status safe_buckets(const struct lw_plan *p, struct lw_err *err)
{
    for (int32_t b = 0; b < p->n_buckets; b++) {
        const struct lw_bucket *k = &p->buckets[b];
        int64_t room = k->bytes / lw_dtype_size(k->dtype);
        if (lw_plan_is_norm(p, b) && ((k->dtype != LW_F64 && k->dtype != LW_F32) || room != 1))
            return lw_fail(err, LW_EPLAN, "bucket %d: a norm of %lld bytes of %s; it is one number of f64 "
                                          "or f32", b, (long long)k->bytes, lw_dtype_name(k->dtype));
        if (lw_plan_is_norm(p, b) && p->strategy.clip <= 0)
            return lw_fail(err, LW_EPLAN, "bucket %d is of a norm, but the plan clips nothing", b);
        if (k->first_slot < 0 || k->n_slots < 0 || k->first_slot + (int64_t)k->n_slots > p->n_slots)
            return lw_fail(err, LW_EPLAN, "bucket %d: slots %d to %lld of %d", b, k->first_slot,
                           (long long)k->first_slot + k->n_slots, p->n_slots);
        if (k->first_offset >= 0 && k->first_offset + (int64_t)k->n_slots > p->n_offsets)
            return lw_fail(err, LW_EPLAN, "bucket %d: offsets %d to %lld of %d", b, k->first_offset,
                           (long long)k->first_offset + k->n_slots, p->n_offsets);
        for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, k, &w);) {
            if (outside(w.slot.param, 0, p->n_params))
                return lw_fail(err, LW_EPLAN, "bucket %d: slot %d is of parameter %d of %d", b,
                               w.n - 1, w.slot.param, p->n_params);
            int64_t numel = p->params[w.slot.param].numel;
            if (lw_plan_sparse(p, b))
                continue; /* rows: rows_memory.c */
            if (w.slot.offset < 0 || w.slot.offset > room || numel > room - w.slot.offset)
                return lw_fail(err, LW_EPLAN,
                               "bucket %d: '%s' at element %lld with %lld elements leaves its "
                               "%lld elements",
                               b, p->params[w.slot.param].name, (long long)w.slot.offset,
                               (long long)numel, (long long)room);
        }
    }
    return LW_OK;
}

static enum lw_status safe_shards(const struct lw_plan *p, struct lw_err *err)
{
    for (int32_t s = 0; s < p->n_shards; s++) {
        const struct lw_shard *h = &p->shards[s];
        if (outside(h->param, 0, p->n_params) || h->first < 0 || h->numel < 0 ||
            h->numel > p->params[h->param].numel - h->first)
            return lw_fail(err, LW_EPLAN, "shard %d: elements %lld and %lld more of parameter %d "
                                          "do not exist", s, (long long)h->first,
                           (long long)h->numel, h->param);
    }
    return LW_OK;
}

static enum lw_status safe_param(const struct lw_plan *p, int32_t i, struct lw_err *err)
{
    const struct lw_plan_param *a = &p->params[i];

    if (a->numel < 0)
        return lw_fail(err, LW_EPLAN, "parameter %d '%s' has %lld elements", i, a->name,
                       (long long)a->numel);
    if (outside(a->stage, 0, p->n_stages))
        return lw_fail(err, LW_EPLAN, "parameter %d '%s' is of stage %d of %d", i, a->name,
                       (int)a->stage, p->n_stages);
    if (outside(a->tied, -1, p->n_params))
        return lw_fail(err, LW_EPLAN, "parameter %d '%s' is tied to parameter %d of %d", i, a->name,
                       a->tied, p->n_params);
    return LW_OK;
}

static enum lw_status safe_sparse(const struct lw_plan *p, int32_t i, struct lw_err *err)
{
    const struct lw_sparse *x = &p->sparse[i];

    if (outside(x->param, i > 0 ? p->sparse[i - 1].param + INT64_C(1) : 0, p->n_params))
        return lw_fail(err, LW_EPLAN, "sparse gradient %d is of parameter %d of %d", i, x->param,
                       p->n_params);
    int64_t numel = p->params[x->param].numel;
    if (x->row_numel < 1 || numel % x->row_numel != 0 ||
        outside(x->touched_rows, 1, numel / x->row_numel + 1))
        return lw_fail(err, LW_EPLAN, "sparse gradient %d: %d rows of %d elements, of a parameter of %lld", i,
                       x->touched_rows, x->row_numel, (long long)numel);
    return LW_OK;
}

enum lw_status exec_plan_is_safe(const struct lw_plan *p, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_params; i++)
        LW_TRY(safe_param(p, i, err));
    for (int32_t i = 0; i < p->n_sparse; i++)
        LW_TRY(safe_sparse(p, i, err));
    LW_TRY(safe_buckets(p, err));
    LW_TRY(safe_shards(p, err));
    for (int32_t v = 0; v < p->n_variants * p->n_roles; v++) {
        const struct lw_program *g = &p->programs[v];
        if (g->first_op < 0 || g->n_ops < 0 || g->first_op + (int64_t)g->n_ops > p->n_ops)
            return lw_fail(err, LW_EPLAN, "program %d: ops %d to %lld of %d", v, g->first_op,
                           (long long)g->first_op + g->n_ops, p->n_ops);
        for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++)
            LW_TRY(safe_op(p, g, i, err));
    }
    return LW_OK;
}
