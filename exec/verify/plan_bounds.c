/* What even a plan that is run unchecked must keep: indexes in range, dependencies backwards, slots
 * inside their buckets, buckets laid out where ops use them, sizes whose sums are numbers. It says
 * nothing about whether the plan is right. */
#include <string.h>

#include "exec/tensors/tensors.h"
#include "shared/base/arena.h"
#include "shared/plan/op.h"

/* No machine holds as much. A size grows at most eightfold (u8 to f64) and is rounded up to 64 bytes;
 * what is laid out of them all stays below 2^60, on every stream. */
static const int64_t MOST_BYTES = INT64_C(1) << 52, MOST_IN_ALL = INT64_C(1) << 56,
                     MOST_ON_STREAMS = INT64_C(1) << 60;

struct safe {
    const struct lw_plan *p;
    int64_t all;    /* bytes of parameters, buckets and ops looked at so far */
    int32_t *laid;  /* [n_buckets] of the program at hand: steps that lay it out, one after another */
    int32_t n_laid; /* steps, by the variant that ends them, that the program is part of */
};

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

static enum lw_status add(struct safe *k, int64_t bytes, struct lw_err *err)
{
    k->all += bytes; /* at most MOST_BYTES */
    if (k->all <= MOST_IN_ALL && k->all <= MOST_ON_STREAMS / (k->p->n_streams > 0 ? k->p->n_streams : 1))
        return LW_OK;
    return lw_fail(err, LW_EPLAN, "the plan's parameters, buckets and ops have more than %lld bytes in all, "
                                  "on %d streams: exec cannot lay them out", (long long)k->all - 1,
                   k->p->n_streams);
}

static enum lw_status too_large(const struct lw_plan *p, int32_t i, const char *whose, int64_t bytes,
                                struct lw_err *err)
{
    return lw_fail(err, LW_EPLAN, "op %d (%s): %s%lld bytes; exec lays out 0 to %lld (2^52)", i,
                   lw_op_name(p->ops[i].kind), whose, (long long)bytes, (long long)MOST_BYTES);
}

/* Its own bytes and, where ranks of the role have their own, theirs: *most. */
static enum lw_status safe_sizes(const struct lw_plan *p, int32_t role, int32_t i, int64_t *most,
                                 struct lw_err *err)
{
    const struct lw_op *op = &p->ops[i];

    if (outside(op->bytes, 0, MOST_BYTES + 1))
        return too_large(p, i, "", op->bytes, err);
    if (outside(op->peer, -1, p->n_ranks))
        return bad_op(p, i, "peer", op->peer, err);
    *most = op->bytes;
    if (op->operand < 0)
        return LW_OK;
    int64_t first = p->operand_first[op->operand], n = p->roles[role].n_ranks;
    if (first < 0 || first + n > p->n_operands)
        return bad_op(p, i, "row of operands, which begins at", first, err);
    for (int64_t r = first; r < first + n; r++) {
        if (outside(p->operands[r].bytes, 0, MOST_BYTES + 1))
            return too_large(p, i, "an operand of ", p->operands[r].bytes, err);
        if (outside(p->operands[r].peer, -1, p->n_ranks))
            return bad_op(p, i, "an operand's peer", p->operands[r].peer, err);
        if (p->operands[r].bytes > *most)
            *most = p->operands[r].bytes;
    }
    return LW_OK;
}

/* Its memory: the step's set of buckets, or what the buckets of weights, copies and norms have. */
static enum lw_status safe_bucket_of(const struct safe *k, int32_t program, int32_t i, int64_t most,
                                     struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *op = &p->ops[i];
    const struct lw_bucket *b = &p->buckets[op->bucket];

    if (op->comm >= 0 && most > b->bytes)
        return bad_op(p, i, "bytes beyond its bucket:", most, err);
    if (lw_plan_is_tied(p, op->bucket) && b->n_slots == 0)
        return bad_op(p, i, "bucket of a copy without a parameter,", op->bucket, err);
    if (lw_plan_is_tied(p, op->bucket) || lw_plan_is_norm(p, op->bucket) ||
        lw_plan_is_weights(p, op->bucket) || k->laid[op->bucket] == k->n_laid)
        return LW_OK;
    return lw_fail(err, LW_EPLAN, "op %d (%s): bucket %d is in no set of buckets that a step with variant "
                                  "'%s' lays out for role '%s'", i, lw_op_name(op->kind), op->bucket,
                   p->variants[program / p->n_roles].name, p->roles[program % p->n_roles].name);
}

static enum lw_status safe_op(struct safe *k, int32_t program, int32_t i, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_program *g = &p->programs[program];
    const struct lw_op *op = &p->ops[i];
    int64_t most = 0;

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
    LW_TRY(safe_sizes(p, program % p->n_roles, i, &most, err));
    LW_TRY(add(k, most, err));
    if (op->bucket >= 0)
        LW_TRY(safe_bucket_of(k, program, i, most, err));
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

static enum lw_status safe_buckets(struct safe *all, struct lw_err *err)
{
    const struct lw_plan *p = all->p;

    for (int32_t b = 0; b < p->n_buckets; b++) {
        const struct lw_bucket *k = &p->buckets[b];
        if (outside(k->dtype, 0, LW_N_DTYPES))
            return lw_fail(err, LW_EPLAN, "bucket %d: dtype %d is out of range", b, (int)k->dtype);
        if (outside(k->bytes, 0, MOST_BYTES + 1))
            return lw_fail(err, LW_EPLAN, "bucket %d: %lld bytes; exec lays out 0 to %lld (2^52)", b,
                           (long long)k->bytes, (long long)MOST_BYTES);
        LW_TRY(add(all, k->bytes, err));
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
                continue; /* rows: sparse_memory.c */
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

    if (outside(a->numel, 0, MOST_BYTES + 1))
        return lw_fail(err, LW_EPLAN, "parameter %d '%s' has %lld elements; exec lays out 0 to %lld (2^52)",
                       i, a->name, (long long)a->numel, (long long)MOST_BYTES);
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

static enum lw_status safe_sets(const struct lw_plan *p, struct lw_err *err)
{
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct lw_bucket_set *set = &p->sets[s];
        if (set->first_bucket < 0 || set->n_buckets < 0 ||
            set->first_bucket + (int64_t)set->n_buckets > p->n_buckets)
            return lw_fail(err, LW_EPLAN, "set %d '%s': buckets %d to %lld of %d", s, set->name,
                           set->first_bucket, (long long)set->first_bucket + set->n_buckets,
                           p->n_buckets);
    }
    return LW_OK;
}

/* One more step: buckets that all before it lay out, and it does, move on. */
static void lay_out_step(struct safe *k, int32_t last, int32_t stage)
{
    const struct lw_plan *p = k->p;

    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct lw_bucket_set *set = &p->sets[s];
        if (set->stage != stage || !lw_plan_uses_set(p, last, s))
            continue;
        for (int32_t b = set->first_bucket; b < set->first_bucket + set->n_buckets; b++)
            if (k->laid[b] == k->n_laid)
                k->laid[b]++;
    }
    k->n_laid++;
}

/* A step uses the buckets of the pass that ends it (exec/tensors/tensors.c). ends[n_variants] is room. */
static void find_laid(struct safe *k, int32_t program, bool *ends)
{
    const struct lw_plan *p = k->p;
    int32_t last = -1;

    memset(k->laid, 0, (size_t)p->n_buckets * sizeof *k->laid);
    memset(ends, 0, (size_t)p->n_variants * sizeof *ends);
    k->n_laid = 0;
    for (int32_t i = 2 * p->n_passes - p->repeat_from - 1; i >= 0; i--) {
        int32_t v = lw_plan_variant_of_pass(p, i);
        last = p->variants[v].ends_step ? v : last;
        if (v == program / p->n_roles && last >= 0)
            ends[last] = true;
    }
    for (int32_t v = 0; v < p->n_variants; v++)
        if (ends[v])
            lay_out_step(k, v, p->roles[program % p->n_roles].stage);
}

static enum lw_status safe_programs(struct safe *k, bool *ends, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    for (int32_t v = 0; v < p->n_variants * p->n_roles; v++) {
        const struct lw_program *g = &p->programs[v];
        if (g->first_op < 0 || g->n_ops < 0 || g->first_op + (int64_t)g->n_ops > p->n_ops)
            return lw_fail(err, LW_EPLAN, "program %d: ops %d to %lld of %d", v, g->first_op,
                           (long long)g->first_op + g->n_ops, p->n_ops);
        find_laid(k, v, ends);
        for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++)
            LW_TRY(safe_op(k, v, i, err));
    }
    return LW_OK;
}

enum lw_status exec_plan_is_safe(const struct lw_plan *p, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct safe k = {.p = p, .laid = lw_arena_alloc(&room, p->n_buckets, sizeof *k.laid)};
    bool *ends = lw_arena_alloc(&room, p->n_variants, sizeof *ends);
    enum lw_status s = k.laid && ends ? LW_OK : lw_fail_nomem(err);

    for (int32_t i = 0; s == LW_OK && i < p->n_params; i++) {
        s = safe_param(p, i, err);
        if (s == LW_OK)
            s = add(&k, p->params[i].numel, err);
    }
    for (int32_t i = 0; s == LW_OK && i < p->n_sparse; i++)
        s = safe_sparse(p, i, err);
    if (s == LW_OK)
        s = safe_sets(p, err);
    if (s == LW_OK)
        s = safe_buckets(&k, err);
    if (s == LW_OK)
        s = safe_shards(p, err);
    if (s == LW_OK)
        s = safe_programs(&k, ends, err);
    lw_arena_free(&room);
    return s;
}
