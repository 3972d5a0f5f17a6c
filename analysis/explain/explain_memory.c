/* What is alive where the fullest rank of a prediction holds most, part by part.
 *
 * Invariant: the parts add up, in integers, to the bytes of a device that every command prints. The
 * plan's tensors are those of the timeline at that moment; what the framework adds are the terms of
 * shared/framework/framework_memory.c; what its allocator reserves beyond them is the rest of
 * reserved bytes, which also takes the rounding; the context is the cluster's figure.
 *
 * Activations are those of modules that hold equally much, neighbours or not (layers of a hybrid
 * take turns): the block of which a backward computes something again stands alone. The scores of
 * the last module are a part of their own where the plan has their size. */
#include "analysis/explain/explain_memory.h"

#include <string.h>

#include "analysis/study/prediction.h"
#include "shared/base/sort.h"
#include "shared/cluster/cluster.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "shared/text/wrap.h"
#include "shared/timeline/param_memory.h"

/* Parts beside those of enum lw_memory. */
enum { OTHER_PARTS = 8 };

static const char *const names[LW_N_MEMORY] = {
    [LW_MEMORY_PARAMETERS] = "parameters",
    [LW_MEMORY_GRADIENTS] = "gradients",
    [LW_MEMORY_OPTIMIZER] = "optimizer states",
    [LW_MEMORY_BUCKETS] = "buckets of gradients, to communicate",
    [LW_MEMORY_GATHERED] = "gathered parameters",
    [LW_MEMORY_ACTIVATIONS] = "activations",
    [LW_MEMORY_MESSAGES] = "messages between ranks",
    [LW_MEMORY_WORKSPACES] = "workspaces of libraries",
};

LW_FREE_BY_ARENA(lw_memory_story_free, struct lw_memory_story)

static void put(struct lw_memory_story *x, const char *kind, const char *name, int64_t bytes)
{
    if (bytes != 0)
        x->parts[x->n_parts++] = (struct lw_memory_part){
            .kind = kind, .name = name, .first_module = -1, .last_module = -1, .bytes = bytes};
}

/* The forward of a module, which has its name; -1: the plan does not run it. */
static int32_t forward_of(const struct lw_plan *p, int32_t module)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (lw_op_at(p, i).kind == LW_OP_FORWARD && lw_op_at(p, i).module == module)
            return i;
    return -1;
}

static const char *name_of(const struct lw_plan *p, int32_t module)
{
    int32_t i = forward_of(p, module);

    return i >= 0 && lw_op_at(p, i).name[0] ? lw_op_at(p, i).name : NULL;
}

static enum lw_status name_modules(const struct lw_plan *p, struct lw_memory_story *x,
                                   struct lw_memory_part *part, struct lw_err *err)
{
    int32_t first = part->first_module, last = part->last_module, n = part->n_modules;
    const char *from = name_of(p, first), *to = name_of(p, last);

    if (!from || !to)
        LW_PRINT(&x->arena, part->name, err, "activations of %d equal modules, %d to %d", n, first,
                 last);
    else if (first == last)
        LW_PRINT(&x->arena, part->name, err, "activations of %s", from);
    else if (n == last - first + 1)
        LW_PRINT(&x->arena, part->name, err, "activations of %s to %s (%d modules)", from, to, n);
    else
        LW_PRINT(&x->arena, part->name, err, "activations of %d equal modules, %s to %s", n, from,
                 to);
    return LW_OK;
}

/* Of what the last module keeps, the scores: bytes of all micro-batches that it has kept. */
static int64_t scores_of(const struct lw_plan *p, int64_t held)
{
    int32_t i = forward_of(p, p->n_modules - 1), work = i < 0 ? -1 : lw_op_at(p, i).work;
    const struct lw_strategy *s = p->strategy;
    int64_t ranks = s->tp * s->cp;
    int64_t scores = (p->dims.score_bytes + ranks - 1) / ranks;

    if (work < 0 || lw_work_at(p, work)->keeps_bytes < scores || scores == 0)
        return 0;
    return held / lw_work_at(p, work)->keeps_bytes * scores;
}

/* The part of modules that hold so many bytes each; NULL: none does yet. */
static struct lw_memory_part *part_of_equal(const struct lw_memory_story *x, int64_t bytes)
{
    for (int32_t i = 0; i < x->n_parts; i++)
        if (x->parts[i].n_modules > 0 && x->parts[i].bytes / x->parts[i].n_modules == bytes)
            return &x->parts[i];
    return NULL;
}

static enum lw_status put_activations(const struct lw_plan *p, const int64_t *of_module,
                                      struct lw_memory_story *x, struct lw_err *err)
{
    int32_t last = p->n_modules - 1;

    for (int32_t m = 0; m < p->n_modules; m++) {
        int64_t bytes = of_module[m], scores = m == last ? scores_of(p, bytes) : 0;
        put(x, "logits", "logits: scores of the vocabulary, and the loss", scores);
        if (bytes == scores)
            continue;
        struct lw_memory_part *equal = scores == 0 ? part_of_equal(x, bytes) : NULL;
        if (!equal) {
            put(x, "activations", NULL, bytes - scores);
            equal = &x->parts[x->n_parts - 1];
            equal->first_module = m;
        } else {
            equal->bytes += bytes;
        }
        equal->last_module = m;
        equal->n_modules++;
    }
    put(x, "activations", "activations of no module", of_module[p->n_modules]);
    for (int32_t i = 0; i < x->n_parts; i++)
        if (!x->parts[i].name)
            LW_TRY(name_modules(p, x, &x->parts[i], err));
    return LW_OK;
}

/* In a backward: the plan's tensors of the moment, and what the framework adds. */
static enum lw_status put_backward(const struct lw_plan *p, const int64_t *of_module,
                                   const struct lw_framework_beside *beside,
                                   struct lw_memory_story *x, struct lw_err *err)
{
    LW_TRY(put_activations(p, of_module, x, err));
    for (int k = 0; k < LW_N_MEMORY; k++)
        if (k != LW_MEMORY_ACTIVATIONS)
            put(x, lw_memory_name((enum lw_memory)k), names[k], x->at.bytes[k]);
    put(x, "gradients_beside_sums", "gradients of the parameters' type beside their f32 sums",
        lw_round_sat(beside->gradients));
    put(x, "whole_inputs", "whole inputs of a block's backward (sequence parallelism)",
        lw_round_sat(beside->whole_inputs));
    put(x, "stage_outputs", "outputs of the stage that wait for their backward",
        lw_round_sat(beside->stage_outputs));
    return LW_OK;
}

/* In the optimizer's step: what a role holds throughout, its gradients, and the step's tensors. */
static void put_step(const struct lw_plan *p, const struct lw_framework_beside *beside,
                     struct lw_memory_story *x)
{
    static const enum lw_memory of[LW_N_MEM] = {
        [LW_MEM_PARAMS] = LW_MEMORY_PARAMETERS,   [LW_MEM_GRADS] = LW_MEMORY_GRADIENTS,
        [LW_MEM_OPTIMIZER] = LW_MEMORY_OPTIMIZER, [LW_MEM_BUCKETS] = LW_MEMORY_BUCKETS,
        [LW_MEM_WORKSPACES] = LW_MEMORY_WORKSPACES,
    };
    const struct lw_role *role = &p->roles[lw_plan_role_of(p, x->at.rank)];

    for (int k = 0; k < LW_N_MEM; k++)
        if (!beside->flat || (k != LW_MEM_GRADS && k != LW_MEM_BUCKETS))
            put(x, lw_memory_name(of[k]), names[of[k]], role->static_bytes[k]);
    put(x, "optimizer_step", "tensors of the optimizer's step", lw_round_sat(beside->step));
}

/* By bytes, the largest first; the order in which parts were put breaks ties. */
struct place {
    int64_t smaller;
    int32_t index;
};
LW_COMPARATOR(by_size, struct place, a->smaller, b->smaller, a->index, b->index)

static enum lw_status sort_parts(struct lw_memory_story *x, struct lw_err *err)
{
    struct lw_memory_part *sorted;
    struct place *v;

    LW_TAKE(&x->arena, v, x->n_parts, err);
    LW_TAKE(&x->arena, sorted, x->n_parts, err);
    for (int32_t i = 0; i < x->n_parts; i++)
        v[i] = (struct place){-x->parts[i].bytes, i};
    lw_sort(v, x->n_parts, by_size);
    for (int32_t i = 0; i < x->n_parts; i++) {
        sorted[i] = x->parts[v[i].index];
        sorted[i].share_pct = lw_percent((double)sorted[i].bytes, (double)x->device);
    }
    x->parts = sorted;
    return LW_OK;
}

/* The rest of what the allocator has taken, and what the framework takes before any tensor. */
static void put_rest(const struct lw_prediction *s, struct lw_memory_story *x)
{
    int64_t context = s->memory.own_bytes, sum = 0;

    for (int32_t i = 0; i < x->n_parts; i++)
        sum += x->parts[i].bytes;
    x->allocated = sum;
    x->reserved = x->device - context;
    put(x, "fragmentation", "reserved by the allocator beyond: fragmentation, freed blocks",
        x->reserved - sum);
    put(x, "context", "the framework's context, kernels and communicators", context);
}

static enum lw_status tell(const struct lw_prediction *s, struct lw_memory_story *x,
                           struct lw_err *err)
{
    const struct lw_measure *m = lw_memory_fullest(&s->summary);
    const struct lw_plan *p = &s->plan;
    struct lw_framework_beside beside;
    int64_t *of_module;

    LW_TAKE(&x->arena, of_module, p->n_modules + 1, err);
    LW_TAKE(&x->arena, x->parts, p->n_modules + 1 + LW_N_MEMORY + OTHER_PARTS, err);
    LW_TRY(lw_memory_alive(&s->classes.rows, &s->classes.plan,
                           lw_alike_class(&s->classes.ranks, m->rank), of_module, &x->at, err));
    x->at.rank = m->rank;
    x->device = lw_memory_device_bytes(&s->memory);
    lw_framework_beside_of(&s->source.framework, p, m, &beside);
    x->in_step = beside.in_step;
    if (beside.in_step)
        put_step(p, &beside, x);
    else
        LW_TRY(put_backward(p, of_module, &beside, x, err));
    put_rest(s, x);
    return sort_parts(x, err);
}

enum lw_status lw_memory_story_of(const struct lw_prediction *s, struct lw_memory_story *out,
                                  struct lw_err *err)
{
    struct lw_memory_story x = {0};

    if (s->memory.peak_bytes < 0 || s->summary.n_ranks == 0)
        return lw_fail(err, LW_EINVAL,
                       "plan '%s' does not say what activations its modules keep (kept_bytes of a "
                       "workload): name a model with -w", s->plan.name);
    enum lw_status st = tell(s, &x, err);
    LW_GIVE(st, out, x, lw_memory_story_free(&x));
}
