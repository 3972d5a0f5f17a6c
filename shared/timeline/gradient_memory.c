/* Room for gradients where no buffer holds them from step to step: an optimizer that sets them to
 * None after its step (torch's zero_grad since 2.0) leaves none for the forward after it.
 *
 * A gradient takes room from the start of the op that makes it: the first backward op of the step
 * that computes it or adds to it (of a tied parameter, the first of any module that uses it), or,
 * where a rank keeps a share alone, the reduction that brings the share. It is given back at the
 * end of the optimizer's step. A role's gradients are divided over its parameters by their
 * elements, so that all of them take the role's bytes: what one that is never made would take is
 * never taken. */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/order.h"
#include "shared/plan/op.h"
#include "shared/plan/strategy.h"
#include "shared/timeline/param_memory.h"

bool lw_gradients_come(const struct lw_plan *plan)
{
    for (int32_t r = 0; r < plan->n_roles; r++)
        if (plan->roles[r].grads_come && plan->roles[r].static_bytes[LW_MEM_GRADS] > 0)
            return true;
    return false;
}

/* A rank keeps its share of a reduced gradient, and buckets come and go (lw_part_drops_gradients).
 */
static bool keeps_shares(const struct lw_plan *p)
{
    return p->strategy->zero >= 2 && p->n_shards > 0 && p->strategy->no_sync == 0;
}

/* weight[n_params]: the bytes of a role's gradients before each parameter; returns the bytes of
 * all. */
static int64_t weigh(const struct lw_plan *p, int32_t stage, int64_t *weight)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < p->n_params; i++) {
        const struct lw_plan_param *a = &p->params[i];
        weight[i] = sum;
        if (a->stage == stage && a->trainable && lw_plan_holds(p, i))
            sum += a->numel * lw_dtype_size(lw_strategy_grad_dtype(p->strategy, a->dtype));
    }
    return sum;
}

/* One role's gradients, as the ops of a program make them. */
struct making {
    const struct lw_plan *p;
    const int64_t *weight;
    bool *made;
    int64_t sum, of_role;
    int32_t *tied, n_tied; /* parameters of the stage that another one holds, few */
    struct lw_gradient_made *by; /* ops that make gradients */
    int64_t n, capacity;
};

static int64_t up_to(const struct making *k, int64_t weight)
{
    return (int64_t)((__int128)k->of_role * weight / (k->sum > 0 ? k->sum : 1));
}

static int64_t make(const struct making *k, int32_t param)
{
    int32_t holder = lw_plan_holds(k->p, param) ? param : k->p->params[param].tied;
    int64_t after = holder + 1 < k->p->n_params ? k->weight[holder + 1] : k->sum;

    if (k->made[holder])
        return 0;
    k->made[holder] = true;
    return up_to(k, after) - up_to(k, k->weight[holder]);
}

/* The module's backward adds to gradients that its parameters are tied to. */
static int64_t make_tied(const struct making *k, const struct lw_op *op)
{
    bool writes = op->kind == LW_OP_BACKWARD || op->kind == LW_OP_BACKWARD_WEIGHT;
    int64_t bytes = 0;

    for (int32_t i = 0; writes && i < k->n_tied; i++)
        if (k->p->params[k->tied[i]].module == op->module)
            bytes += make(k, k->tied[i]);
    return bytes;
}

static int64_t make_bucket(const struct making *k, const struct lw_op *op)
{
    const struct lw_bucket *b = &k->p->buckets[op->bucket];
    int64_t bytes = 0;

    for (int32_t i = 0; i < b->n_slots; i++)
        bytes += make(k, k->p->slots[b->first_slot + i]);
    return bytes;
}

static bool brings_shares(const struct lw_plan *p, const struct lw_op *op)
{
    bool reduces = op->kind == LW_OP_REDUCE_SCATTER || op->kind == LW_OP_REDUCE ||
                   op->kind == LW_OP_ALL_REDUCE;

    return reduces && op->bucket >= 0 && lw_plan_bucket_kind(p, op->bucket) == LW_BUCKET_GRADIENTS;
}

static int64_t made_by(const struct making *k, bool shares, const struct lw_op *op)
{
    int64_t bytes = 0;

    if (shares)
        return brings_shares(k->p, op) ? make_bucket(k, op) : 0;
    if (lw_op_class((enum lw_op_kind)op->kind) != LW_CLASS_COMPUTE)
        return 0;
    for (int32_t r = op->first_ready; r < op->first_ready + op->n_ready; r++)
        bytes += make(k, k->p->ready[r]);
    return bytes + make_tied(k, op);
}

static enum lw_status follow(struct making *k, struct lw_program g, struct lw_err *err)
{
    bool shares = keeps_shares(k->p);

    memset(k->made, 0, (size_t)k->p->n_params * sizeof *k->made);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        int64_t bytes = made_by(k, shares, LW_OP(k->p, i));
        if (bytes == 0)
            continue;
        LW_ROOM(k->by, k->capacity, k->n + 1, err);
        k->by[k->n++] = (struct lw_gradient_made){i, bytes};
    }
    return LW_OK;
}

static void list_tied(struct making *k, int32_t stage)
{
    const struct lw_plan *p = k->p;

    k->n_tied = 0;
    for (int32_t i = 0; i < p->n_params; i++)
        if (p->params[i].stage == stage && p->params[i].trainable && p->params[i].used &&
            !lw_plan_holds(p, i))
            k->tied[k->n_tied++] = i;
}

static enum lw_status follow_roles(struct making *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_plan *plan = k->p;
    int64_t *weight;

    LW_TAKE(room, weight, plan->n_params, err);
    LW_TAKE(room, k->made, plan->n_params, err);
    LW_TAKE(room, k->tied, plan->n_params, err);
    k->weight = weight;
    for (int32_t r = 0; r < plan->n_roles; r++) {
        const struct lw_role *role = &plan->roles[r];
        k->of_role = role->static_bytes[LW_MEM_GRADS];
        if (!role->grads_come || k->of_role == 0)
            continue;
        k->sum = weigh(plan, role->stage, weight);
        list_tied(k, role->stage);
        for (int32_t v = 0; v < plan->n_variants; v++)
            LW_TRY(follow(k, plan->programs[(int64_t)v * plan->n_roles + r], err));
    }
    return LW_OK;
}

LW_COMPARATOR(by_op, struct lw_gradient_made, a->op, b->op)

enum lw_status lw_gradients_made_init(const struct lw_plan *plan, struct lw_arena *room,
                                      struct lw_gradients_made *out, struct lw_err *err)
{
    struct making k = {.p = plan};
    struct lw_arena scratch = {0};
    enum lw_status status = follow_roles(&k, &scratch, err);

    lw_arena_free(&scratch);
    if (status == LW_OK && k.by && lw_arena_adopt(room, k.by) != 0)
        status = lw_fail_nomem(err);
    if (status != LW_OK) {
        lw_free(k.by);
        return status;
    }
    lw_sort(k.by, k.n, by_op);
    *out = (struct lw_gradients_made){k.n, k.by};
    return LW_OK;
}

int64_t lw_gradients_made_by(const struct lw_gradients_made *g, int32_t op)
{
    int64_t low = 0, high = g->n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (g->v[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->n && g->v[low].op == op ? g->v[low].bytes : 0;
}
