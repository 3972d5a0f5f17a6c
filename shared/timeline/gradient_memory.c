/* Room for gradients where no buffer holds them from step to step: an optimizer that sets them to
 * None after its step (torch's zero_grad since 2.0) leaves none for the forward after it.
 *
 * A gradient takes room from the start of the op that makes it: the first backward op of the step
 * that computes it or adds to it (of a tied parameter, the first of any module that uses it), or,
 * where a rank keeps a share alone, the reduction that brings the share. It is given back at the
 * end of the optimizer's step. A role's gradients are divided over its parameters by their
 * elements, so that all of them take the role's bytes: what one that is never made would take is
 * never taken.
 *
 * Autograd makes a gradient and then adds it to the one that is there (pytorch/pytorch@035290b7,
 * torch/csrc/autograd/functions/accumulate_grad.h: variable_grad += new_grad), so from the second
 * micro-batch on an op has the largest gradient that it makes beside the sums, from its start to
 * its end. It is added as soon as it is made, so parameters of an op follow one another
 * (@0145925c, accumulate_grad.cpp). A tied parameter has one such node, whose input is the sum of
 * what all of its users make (torch/csrc/autograd/input_buffer.cpp: accumulate): the parts so far
 * wait from the first user's op to the end of the last. Each stage of a pipeline runs a backward of
 * its own, so there no part waits. When the head's gradient is made, the loss has freed its tensors
 * of the scores. */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/larger.h"
#include "shared/numbers/order.h"
#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"
#include "shared/timeline/param_memory.h"

static bool changes(const struct lw_role *role)
{
    return (role->grads_come || role->adds_gradients) && role->static_bytes[LW_MEM_GRADS] > 0;
}

bool lw_gradients_change(const struct lw_plan *plan)
{
    for (int32_t r = 0; r < plan->n_roles; r++)
        if (changes(&plan->roles[r]))
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

/* A gradient in a program: made in this step; and of the backward at hand how many of its users
 * have made their part, of which the last did so for a micro-batch. */
struct state {
    bool made;
    bool waits_first; /* the part that waits in this backward does so in a step's first pass too */
    int32_t users, parts, module, micro_batch;
};

/* One role's gradients, as the ops of a program make them. */
struct making {
    const struct lw_plan *p;
    const struct lw_role *role;
    const int64_t *weight;
    struct state *state; /* [n_params] */
    int64_t sum, of_role;
    int32_t *tied, n_tied; /* parameters of the stage that another one holds, few */
    struct lw_gradient_made *by; /* ops that make gradients */
    int64_t n, capacity;
};

static int64_t up_to(const struct making *k, int64_t weight)
{
    return (int64_t)((__int128)k->of_role * weight / (k->sum > 0 ? k->sum : 1));
}

static int32_t holder_of(const struct making *k, int32_t param)
{
    return lw_plan_holds(k->p, param) ? param : k->p->params[param].tied;
}

static int64_t bytes_of(const struct making *k, int32_t holder)
{
    int64_t after = holder + 1 < k->p->n_params ? k->weight[holder + 1] : k->sum;

    return up_to(k, after) - up_to(k, k->weight[holder]);
}

/* What a loss has freed of its tensors of the scores when the head's gradient is made: of each
 * stays a gradient of the products' type. */
static int64_t freed_by_loss(const struct lw_plan *p, int32_t module, enum lw_dtype dtype)
{
    const struct lw_model_dims *d = &p->dims;
    int64_t done = d->score_bytes - lw_dtype_size(dtype) * d->vocab * d->batch * d->seq;

    if (module != p->n_modules - 1 || done <= 0)
        return 0;
    return done / ((int64_t)p->strategy->tp * p->strategy->cp);
}

/* A part of a gradient is made: the first one that there is, or one beside others. */
static void make_part(const struct making *k, const struct lw_op *op, int32_t holder,
                      struct lw_gradient_made *x)
{
    struct state *g = &k->state[holder];
    int64_t bytes = bytes_of(k, holder);
    bool was_made = g->made;

    if (g->module == op->module && g->micro_batch == op->micro_batch)
        return; /* another op of the same module's backward */
    g->module = op->module;
    g->micro_batch = op->micro_batch;
    g->made = true;
    x->bytes += was_made || !k->role->grads_come ? 0 : bytes;
    if (!k->role->adds_gradients)
        return;
    enum lw_dtype dtype = (enum lw_dtype)k->p->params[holder].dtype;
    int64_t more = lw_larger(bytes - freed_by_loss(k->p, op->module, dtype), 0);
    bool begins = g->parts == 0 && g->users > 1, ends = g->parts + 1 == g->users && g->users > 1;
    g->parts = g->parts + 1 < g->users ? g->parts + 1 : 0;
    g->waits_first = begins ? was_made : g->waits_first;
    for (int pass = was_made ? LW_FIRST_PASS : LW_LATER_PASS; pass < LW_N_PASS_KINDS; pass++) {
        x->waits[pass] += begins ? more : 0;
        x->waited[pass] += begins ? more - bytes : 0;
        x->beside[pass] = begins ? x->beside[pass] : lw_larger(x->beside[pass], more);
    }
    x->waited[LW_FIRST_PASS] += ends && g->waits_first ? bytes : 0;
    x->waited[LW_LATER_PASS] += ends ? bytes : 0;
}

/* The module's backward adds to gradients that its parameters are tied to. */
static void make_tied(const struct making *k, const struct lw_op *op, struct lw_gradient_made *x)
{
    bool writes = op->kind == LW_OP_BACKWARD || op->kind == LW_OP_BACKWARD_WEIGHT;

    for (int32_t i = 0; writes && i < k->n_tied; i++)
        if (k->p->params[k->tied[i]].module == op->module)
            make_part(k, op, holder_of(k, k->tied[i]), x);
}

static void make_bucket(const struct making *k, const struct lw_op *op, struct lw_gradient_made *x)
{
    const struct lw_bucket *b = &k->p->buckets[op->bucket];

    for (int32_t i = 0; i < b->n_slots; i++) {
        int32_t holder = holder_of(k, k->p->slots[b->first_slot + i]);
        x->bytes += k->state[holder].made || !k->role->grads_come ? 0 : bytes_of(k, holder);
        k->state[holder].made = true;
    }
}

static bool brings_shares(const struct lw_plan *p, const struct lw_op *op)
{
    bool reduces = op->kind == LW_OP_REDUCE_SCATTER || op->kind == LW_OP_REDUCE ||
                   op->kind == LW_OP_ALL_REDUCE;

    return reduces && op->bucket >= 0 && lw_plan_bucket_kind(p, op->bucket) == LW_BUCKET_GRADIENTS;
}

static void made_by(const struct making *k, bool shares, const struct lw_op *op,
                    struct lw_gradient_made *x)
{
    if (shares && brings_shares(k->p, op))
        make_bucket(k, op, x);
    if (shares || lw_op_class((enum lw_op_kind)op->kind) != LW_CLASS_COMPUTE)
        return;
    for (int32_t r = op->first_ready; r < op->first_ready + op->n_ready; r++)
        make_part(k, op, holder_of(k, k->p->ready[r]), x);
    make_tied(k, op, x);
}

static void begin_program(struct making *k)
{
    for (int32_t i = 0; i < k->p->n_params; i++)
        k->state[i] = (struct state){.users = k->state[i].users, .module = -2, .micro_batch = -2};
}

static enum lw_status follow(struct making *k, struct lw_program g, struct lw_err *err)
{
    bool shares = keeps_shares(k->p);

    begin_program(k);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        struct lw_gradient_made x = {.op = i};
        made_by(k, shares, LW_OP(k->p, i), &x);
        if (x.bytes == 0 && x.beside[LW_LATER_PASS] == 0 && x.waits[LW_LATER_PASS] == 0 &&
            x.waited[LW_LATER_PASS] == 0)
            continue;
        LW_ROOM(k->by, k->capacity, k->n + 1, err);
        k->by[k->n++] = x;
    }
    return LW_OK;
}

static void list_tied(struct making *k, int32_t stage)
{
    const struct lw_plan *p = k->p;

    k->n_tied = 0;
    for (int32_t i = 0; i < p->n_params; i++)
        k->state[i].users = 1;
    for (int32_t i = 0; i < p->n_params; i++) {
        if (p->params[i].stage != stage || !p->params[i].trainable || !p->params[i].used ||
            lw_plan_holds(p, i))
            continue;
        k->tied[k->n_tied++] = i;
        k->state[p->params[i].tied].users += p->strategy->pp == 1;
    }
}

static enum lw_status follow_roles(struct making *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_plan *plan = k->p;
    int64_t *weight;

    LW_TAKE(room, weight, plan->n_params, err);
    LW_TAKE(room, k->state, plan->n_params, err);
    LW_TAKE(room, k->tied, plan->n_params, err);
    k->weight = weight;
    for (int32_t r = 0; r < plan->n_roles; r++) {
        k->role = &plan->roles[r];
        k->of_role = k->role->static_bytes[LW_MEM_GRADS];
        if (!changes(k->role))
            continue;
        k->sum = weigh(plan, k->role->stage, weight);
        list_tied(k, k->role->stage);
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

const struct lw_gradient_made *lw_gradients_made_by(const struct lw_gradients_made *g, int32_t op)
{
    int64_t low = 0, high = g->n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (g->v[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->n && g->v[low].op == op ? &g->v[low] : NULL;
}
