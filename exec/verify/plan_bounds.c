/* What even a plan that is run unchecked must keep: its tables (lw_check_tables), and sizes that
 * exec can lay out. It says nothing about whether the plan computes the right sums. */
#include <string.h>

#include "exec/tensors/tensors.h"
#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/numbers/checked.h"
#include "shared/strategy/strategy.h"

/* No machine holds as much. A size grows at most eightfold (u8 to f64) and is rounded up to 64
 * bytes; what is laid out of them all stays below 2^60, on every stream. */
static const int64_t MOST_BYTES = INT64_C(1) << 52, MOST_IN_ALL = INT64_C(1) << 56,
                     MOST_ON_STREAMS = INT64_C(1) << 60;

struct bounds {
    const struct lw_plan *p;
    int64_t all;    /* bytes of parameters, buckets and ops so far */
    /* [n_buckets] of the current program: steps that lay it out, one after another */
    int32_t *laid;
    int32_t n_laid; /* steps, by the variant that ends them, that the program is part of */
};

/* Takes this many bytes, or elements, of what may be laid out; what: of which table entry. */
static enum lw_status take(struct bounds *k, const char *what, int32_t i, int64_t size,
                           struct lw_err *err)
{
    if (size > MOST_BYTES)
        return lw_fail(err, LW_EPLAN,
                       "%s %d: %lld bytes or elements; exec lays out 0 to %lld (2^52)", what, i,
                       (long long)size, (long long)MOST_BYTES);
    k->all += size;
    if (k->all <= MOST_IN_ALL && k->all <= MOST_ON_STREAMS / k->p->n_streams)
        return LW_OK;
    return lw_fail(err, LW_EPLAN,
                   "the plan's parameters, buckets and ops have more than %lld bytes in all, on %d "
                   "streams: exec cannot lay them out",
                   (long long)k->all - 1, k->p->n_streams);
}

/* Where the bytes of the op end in its buffer, on the rank of the role where that is last. */
static int64_t most_bytes(const struct lw_plan *p, int32_t role, const struct lw_op *op)
{
    int64_t most = op->bytes;

    for (int32_t r = 0; op->operand >= 0 && r < p->roles[role].n_ranks; r++) {
        struct lw_operand d = lw_operand_at(p, op->operand, r);
        int64_t end = lw_add_sat(d.bytes, d.offset);
        most = end > most ? end : most;
    }
    return most;
}

/* Its memory: the step's set of buckets, or what the buckets of other kinds have. */
static enum lw_status check_bucket_of(const struct bounds *k, int32_t program, int32_t i,
                                      int64_t most, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_bucket *b = &p->buckets[p->ops[i].bucket];
    int32_t kind = p->sets[b->set].kind;

    if (p->ops[i].comm >= 0 && most > b->bytes)
        return lw_plan_op_fail(p, i, err, ": %lld bytes beyond its bucket, which has %lld",
                               (long long)most, (long long)b->bytes);
    if (kind == LW_BUCKET_TIED && b->n_slots == 0)
        return lw_plan_op_fail(p, i, err, ": the bucket holds no parameter");
    if (kind != LW_BUCKET_GRADIENTS || k->laid[p->ops[i].bucket] == k->n_laid)
        return LW_OK;
    return lw_plan_op_fail(p, i, err, ": the bucket is in no set of buckets that a step with "
                           "variant '%s' lays out for role '%s'",
                           p->variants[program / p->n_roles].name,
                           p->roles[program % p->n_roles].name);
}

static enum lw_status check_sizes(struct bounds *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    for (int32_t i = 0; i < p->n_params; i++)
        LW_TRY(take(k, "parameter", i, p->params[i].numel, err));
    for (int32_t b = 0; b < p->n_buckets; b++) {
        LW_TRY(take(k, "bucket", b, p->buckets[b].bytes, err));
        if (lw_plan_is_norm(p, b) && p->strategy->clip <= 0)
            return lw_fail(err, LW_EPLAN, "bucket %d is of a norm, but the plan clips nothing", b);
    }
    return LW_OK;
}

/* One more step: buckets that all before it lay out, and it does, move on. */
static void lay_out_step(struct bounds *k, int32_t last, int32_t stage)
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

/* A step uses the buckets of the pass that ends it (exec/tensors/tensors.c). ends[n_variants] is
 * room. */
static void find_laid(struct bounds *k, int32_t program, bool *ends)
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

static enum lw_status check_programs(struct bounds *k, bool *ends, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    for (int32_t v = 0; v < p->n_variants * p->n_roles; v++) {
        const struct lw_program *g = &p->programs[v];
        find_laid(k, v, ends);
        for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
            int64_t most = most_bytes(p, v % p->n_roles, &p->ops[i]);
            LW_TRY(take(k, "op", i, most, err));
            if (p->ops[i].bucket >= 0)
                LW_TRY(check_bucket_of(k, v, i, most, err));
        }
    }
    return LW_OK;
}

enum lw_status exec_plan_is_safe(const struct lw_plan *p, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct bounds k = {.p = p};
    bool grid;

    LW_TRY(lw_check_tables(p, &grid, err));
    k.laid = lw_arena_alloc(&room, p->n_buckets, sizeof *k.laid);
    bool *ends = lw_arena_alloc(&room, p->n_variants, sizeof *ends);
    enum lw_status s = k.laid && ends ? check_sizes(&k, err) : lw_fail_nomem(err);
    if (s == LW_OK)
        s = check_programs(&k, ends, err);
    lw_arena_free(&room);
    return s;
}
