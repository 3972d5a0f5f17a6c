/* Gradients of a plan: each that is to be reduced lies in exactly one bucket of every synchronising
 * variant; each bucket is reduced by an op that begins after all of its gradients are complete (and
 * copied, where the program copies); its result is copied out, and the optimizer begins, after that.
 *
 * "After" is decided with the clocks of vector_clock.h; gradients summed over stages that share a
 * parameter are plan_check_tied.c's. O(ops * streams + dependencies + slots * micro-batches). */
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/check/vector_clock.h"

struct earlier {
    int32_t param, op;
};

struct reduce {
    const struct lw_plan *p;
    int32_t variant;
    struct lw_program program;
    int32_t stage;
    int32_t *bucket_of;                  /* [n_params] in the variant's sets; -1 = none */
    struct lw_op_clock clock;
    bool *temporary;                     /* [n_buckets] weights of plan_check_gather.c */
    int32_t *made_by, *copied_by;        /* [n_params] last op that completes its gradient, or
                                          * copies it; -1 = none */
    struct earlier *earlier;             /* those before the last on other streams, by parameter */
    int32_t n_earlier;
    int32_t optimizer;                   /* of the program so far; -1 = none */
    int32_t *reduced_by, *last_of;       /* [n_buckets]: reducing op, last op about it; -1 */
    int32_t *summed_by;                  /* [n_buckets]: of a sparse gradient, the op that adds up; -1 */
    int32_t role;
    bool copies;
};

static bool reduces(enum lw_op_kind k)
{
    return k == LW_OP_ALL_REDUCE || k == LW_OP_REDUCE || k == LW_OP_REDUCE_SCATTER;
}

static bool needs_bucket(const struct lw_plan *p, int32_t i)
{
    const struct lw_plan_param *a = &p->params[i];

    return a->trainable && a->used && !a->ignored && lw_plan_holds(p, i);
}

/* Fill bucket_of; every gradient that needs a bucket has one, and no parameter has two. */
static enum lw_status place(struct reduce *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const char *name = p->variants[k->variant].name;

    for (int32_t i = 0; i < p->n_params; i++)
        k->bucket_of[i] = -1;
    for (int32_t b = 0; b < p->n_buckets; b++) {
        const struct lw_bucket_set *set = &p->sets[p->buckets[b].set];
        if (!lw_plan_uses_set(p, k->variant, p->buckets[b].set))
            continue;
        for (int32_t i = 0; i < p->buckets[b].n_slots; i++) {
            int32_t a = p->slots[p->buckets[b].first_slot + i];
            if (k->bucket_of[a] >= 0)
                return lw_fail(err, LW_EPLAN, "variant '%s': parameter %d '%s' is in buckets %d and "
                                              "%d", name, a, p->params[a].name, k->bucket_of[a],
                               b);
            if (!p->params[a].trainable || p->params[a].ignored || p->params[a].stage != set->stage)
                return lw_fail(err, LW_EPLAN, "variant '%s': parameter %d '%s' is in bucket %d, but "
                                              "has no gradient to reduce at its stage", name, a,
                               p->params[a].name, b);
            k->bucket_of[a] = b;
        }
    }
    for (int32_t i = 0; i < p->n_params; i++)
        if (needs_bucket(p, i) && k->bucket_of[i] < 0)
            return lw_fail(err, LW_EPLAN, "variant '%s': the gradient of parameter %d '%s' is in no "
                                          "bucket", name, i, p->params[i].name);
    return LW_OK;
}

/* `before` has ended when `op` begins. */
static bool after(const struct reduce *k, int32_t op, int32_t before)
{
    return lw_op_after(&k->clock, op, before);
}

static bool awaited(const struct reduce *k, int32_t op, int32_t before)
{
    return before < 0 || (before < op && after(k, op, before));
}

/* An op that works on the parameter's gradient and may still run when `op` begins; -1 = none. */
static int32_t not_awaited(const struct reduce *k, int32_t op, int32_t param)
{
    int32_t low = 0, high = k->n_earlier;

    if (!awaited(k, op, k->copied_by[param]))
        return k->copied_by[param];
    if (!awaited(k, op, k->made_by[param]))
        return k->made_by[param];
    while (low < high) { /* to the first entry of the parameter */
        int32_t mid = low + (high - low) / 2;
        if (k->earlier[mid].param < param)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < k->n_earlier && k->earlier[low].param == param; low++)
        if (!awaited(k, op, k->earlier[low].op))
            return k->earlier[low].op;
    return -1;
}

static enum lw_status check_complete(const struct reduce *k, int32_t op, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_bucket *b = &p->buckets[p->ops[op].bucket];
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    for (int32_t i = 0; i < b->n_slots; i++) {
        int32_t a = p->slots[b->first_slot + i];
        bool made = !p->params[a].used || k->made_by[a] >= 0;
        bool copied = !k->copies || k->copied_by[a] >= 0;
        int32_t late = not_awaited(k, op, a);
        if (late >= 0)
            return lw_fail(err, LW_EPLAN, "%s does not wait for %s, which completes the gradient "
                                          "of parameter %d '%s'",
                           lw_check_op_text(p, op, text), lw_check_op_text(p, late, other), a,
                           p->params[a].name);
        if (!made || !copied)
            return lw_fail(err, LW_EPLAN, "%s: the gradient of parameter %d '%s' is never %s",
                           lw_check_op_text(p, op, text), a, p->params[a].name,
                           made ? "copied into its bucket" : "complete");
    }
    return LW_OK;
}

static enum lw_status check_reduction(struct reduce *k, int32_t op, struct lw_err *err)
{
    const struct lw_op *o = &k->p->ops[op];
    const struct lw_bucket *b = &k->p->buckets[o->bucket];
    char text[LW_OP_TEXT];

    if (o->kind == LW_OP_ALL_REDUCE && k->reduced_by[o->bucket] >= 0)
        return lw_fail(err, LW_EPLAN, "%s: op %d has already reduced this bucket",
                       lw_check_op_text(k->p, op, text), k->reduced_by[o->bucket]);
    if (o->kind == LW_OP_ALL_REDUCE && o->operand < 0 &&
        (o->bytes != b->bytes || o->dtype != b->dtype))
        return lw_fail(err, LW_EPLAN, "%s: %lld bytes of %s, but the bucket has %lld of %s",
                       lw_check_op_text(k->p, op, text), (long long)o->bytes,
                       lw_dtype_name(o->dtype), (long long)b->bytes, lw_dtype_name(b->dtype));
    k->reduced_by[o->bucket] = op;
    return check_complete(k, op, err);
}

/* Weights are sent when they are updated. */
static enum lw_status check_about_weights(const struct reduce *k, int32_t op, struct lw_err *err)
{
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    if (k->optimizer < 0)
        return lw_fail(err, LW_EPLAN, "%s: no optimizer comes before it",
                       lw_check_op_text(k->p, op, text));
    if (!after(k, op, k->optimizer))
        return lw_fail(err, LW_EPLAN, "%s does not wait for %s", lw_check_op_text(k->p, op, text),
                       lw_check_op_text(k->p, k->optimizer, other));
    return LW_OK;
}

/* The first all-gather reduces; the copy behind the last one adds up, once. */
static enum lw_status check_about_sparse(struct reduce *k, int32_t op, struct lw_err *err)
{
    int32_t b = k->p->ops[op].bucket, by = k->reduced_by[b];
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    LW_TRY(lw_check_sparse(k->p, k->variant, k->role, op, by >= 0, err));
    k->last_of[b] = op;
    if (by < 0) {
        k->reduced_by[b] = op;
        return check_complete(k, op, err);
    }
    if (k->p->ops[op].kind != LW_OP_COPY)
        return LW_OK;
    if (k->summed_by[b] >= 0)
        return lw_fail(err, LW_EPLAN, "%s: op %d has already added up", lw_check_op_text(k->p, op, text),
                       k->summed_by[b]);
    if (!after(k, op, by + LW_SPARSE_VALUES))
        return lw_fail(err, LW_EPLAN, "%s does not wait for %s", lw_check_op_text(k->p, op, text),
                       lw_check_op_text(k->p, by + LW_SPARSE_VALUES, other));
    k->summed_by[b] = op;
    return LW_OK;
}

static enum lw_status check_about_bucket(struct reduce *k, int32_t op, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = &p->ops[op];
    const struct lw_bucket_set *set = &p->sets[p->buckets[o->bucket].set];
    char text[LW_OP_TEXT];

    if (lw_plan_is_weights(p, o->bucket))
        return k->temporary[o->bucket] ? LW_OK : check_about_weights(k, op, err);
    if (lw_plan_is_tied(p, o->bucket) || lw_plan_is_norm(p, o->bucket))
        return LW_OK;
    if (!lw_plan_uses_set(p, k->variant, p->buckets[o->bucket].set) || set->stage != k->stage)
        return lw_fail(err, LW_EPLAN, "%s: the bucket is of set '%s', stage %d",
                       lw_check_op_text(p, op, text), set->name, set->stage);
    if (lw_plan_sparse(p, o->bucket))
        return check_about_sparse(k, op, err);
    if (reduces(o->kind))
        LW_TRY(check_reduction(k, op, err));
    if (o->kind == LW_OP_COPY_OUT &&
        (k->reduced_by[o->bucket] < 0 || !after(k, op, k->reduced_by[o->bucket])))
        return lw_fail(err, LW_EPLAN, "%s does not wait for the reduction of its bucket",
                       lw_check_op_text(p, op, text));
    k->last_of[o->bucket] = op;
    return LW_OK;
}

static enum lw_status check_optimizer(const struct reduce *k, int32_t op, struct lw_err *err)
{
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    for (int32_t b = 0; b < k->p->n_buckets; b++)
        if (k->last_of[b] >= 0 && !after(k, op, k->last_of[b]))
            return lw_fail(err, LW_EPLAN, "%s does not wait for %s",
                           lw_check_op_text(k->p, op, text),
                           lw_check_op_text(k->p, k->last_of[b], other));
    return LW_OK;
}

/* Find the last op that completes each parameter's gradient, and the last that copies it. Of the ops
 * before it those on its own stream need no entry: who waits for the last waited for them. Returns
 * how many others there are; `list` takes them unless it is NULL. */
static int32_t find_makers(struct reduce *k, struct earlier *list)
{
    const struct lw_plan *p = k->p;
    int32_t end = k->program.first_op + k->program.n_ops, n = 0;

    memset(k->made_by, -1, (size_t)p->n_params * sizeof *k->made_by);
    memset(k->copied_by, -1, (size_t)p->n_params * sizeof *k->copied_by);
    k->copies = false;
    for (int32_t op = k->program.first_op; op < end; op++) {
        const struct lw_op *o = &p->ops[op];
        int32_t *by = o->kind == LW_OP_COPY_IN ? k->copied_by : k->made_by;
        k->copies = k->copies || (o->kind == LW_OP_COPY_IN &&
                                  !(o->bucket >= 0 && lw_plan_is_norm(p, o->bucket)));
        for (int32_t r = o->first_ready; r < o->first_ready + o->n_ready; r++) {
            int32_t param = p->ready[r], before = by[param];
            if (before >= 0 && p->ops[before].stream != o->stream) {
                if (list)
                    list[n] = (struct earlier){param, before};
                n++;
            }
            by[param] = op;
        }
    }
    return n;
}

static int by_param(const void *a, const void *b)
{
    const struct earlier *x = a, *y = b;

    if (x->param != y->param)
        return x->param < y->param ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static enum lw_status index_makers(struct reduce *k, struct lw_err *err)
{
    int32_t n = find_makers(k, NULL);

    lw_free(k->earlier);
    k->earlier = NULL;
    k->n_earlier = 0;
    if (n == 0)
        return LW_OK;
    k->earlier = lw_alloc((size_t)n * sizeof *k->earlier);
    if (!k->earlier)
        return lw_fail_nomem(err);
    k->n_earlier = find_makers(k, k->earlier);
    qsort(k->earlier, (size_t)n, sizeof *k->earlier, by_param);
    return LW_OK;
}

static enum lw_status check_program(struct reduce *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_variant *v = &p->variants[k->variant];

    LW_TRY(index_makers(k, err));
    k->optimizer = -1;
    lw_op_clock_set(&k->clock, k->program);
    lw_check_temporary(p, k->program, k->temporary);
    memset(k->reduced_by, -1, (size_t)p->n_buckets * sizeof *k->reduced_by);
    memset(k->last_of, -1, (size_t)p->n_buckets * sizeof *k->last_of);
    memset(k->summed_by, -1, (size_t)p->n_buckets * sizeof *k->summed_by);
    for (int32_t i = 0; i < k->program.n_ops; i++) {
        int32_t op = k->program.first_op + i;
        if (p->ops[op].bucket >= 0)
            LW_TRY(check_about_bucket(k, op, err));
        if (p->ops[op].kind == LW_OP_OPTIMIZER) {
            LW_TRY(check_optimizer(k, op, err));
            k->optimizer = op;
        }
    }
    for (int32_t b = 0; b < p->n_buckets; b++) {
        const struct lw_bucket_set *set = &p->sets[p->buckets[b].set];
        if (set->stage != k->stage || !lw_plan_uses_set(p, k->variant, p->buckets[b].set))
            continue;
        if (k->reduced_by[b] < 0)
            return lw_fail(err, LW_EPLAN, "variant '%s': bucket %d is never reduced", v->name, b);
        if (lw_plan_sparse(p, b) && k->summed_by[b] < 0)
            return lw_fail(err, LW_EPLAN, "variant '%s': bucket %d is gathered and never added up",
                           v->name, b);
    }
    return LW_OK;
}

static enum lw_status run(struct reduce *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    LW_TRY(lw_op_clock_init(&k->clock, p, room, err));
    k->bucket_of = lw_arena_alloc(room, p->n_params, sizeof *k->bucket_of);
    k->made_by = lw_arena_alloc(room, p->n_params, sizeof *k->made_by);
    k->copied_by = lw_arena_alloc(room, p->n_params, sizeof *k->copied_by);
    k->temporary = lw_arena_alloc(room, p->n_buckets, sizeof *k->temporary);
    k->reduced_by = lw_arena_alloc(room, p->n_buckets, sizeof *k->reduced_by);
    k->last_of = lw_arena_alloc(room, p->n_buckets, sizeof *k->last_of);
    k->summed_by = lw_arena_alloc(room, p->n_buckets, sizeof *k->summed_by);
    if (!k->bucket_of || !k->made_by || !k->copied_by || !k->temporary || !k->reduced_by ||
        !k->last_of || !k->summed_by)
        return lw_fail_nomem(err);
    for (k->variant = 0; k->variant < p->n_variants; k->variant++) {
        if (!*p->variants[k->variant].set_name)
            continue;
        LW_TRY(place(k, err));
        for (int32_t r = 0; r < p->n_roles; r++) {
            k->program = p->programs[(int64_t)k->variant * p->n_roles + r];
            k->stage = p->roles[r].stage;
            k->role = r;
            LW_TRY(check_program(k, err));
        }
    }
    return LW_OK;
}

enum lw_status lw_check_reduce(const struct lw_plan *p, struct lw_err *err)
{
    struct reduce k = {.p = p};
    struct lw_arena room = {0};
    bool any = false;

    for (int32_t v = 0; v < p->n_variants; v++) {
        any = any || *p->variants[v].set_name;
        for (int32_t r = 0; !*p->variants[v].set_name && r < p->n_roles; r++) {
            struct lw_program g = p->programs[(int64_t)v * p->n_roles + r];
            for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
                if (p->ops[i].bucket >= 0 && !lw_plan_is_tied(p, p->ops[i].bucket) &&
                    !lw_plan_is_norm(p, p->ops[i].bucket) &&
                    !lw_plan_is_weights(p, p->ops[i].bucket))
                    return lw_fail(err, LW_EPLAN, "op %d (%s): variant '%s' has no buckets", i,
                                   lw_op_name(p->ops[i].kind), p->variants[v].name);
        }
    }
    if (!any)
        return LW_OK;
    enum lw_status s = run(&k, &room, err);
    lw_free(k.earlier);
    lw_arena_free(&room);
    return s;
}
