/* Memory of a rank beyond what its plan counts, and the kinds of figures that programs print:
 *
 *   allocated   the largest sum of allocated tensors, as torch's max_memory_allocated
 *   reserved    what torch's allocator has taken from the device: more by the fact `reserved`,
 *               and by scores that the loss has freed (`freed_scores`). Buffers made once, before
 *               an empty cache, take what they hold
 *   device      as nvidia-smi: reserved, and what the framework takes outside of its allocator
 *
 * Blocks that are freed stay with the allocator. What an optimizer's step allocates adds to what
 * the allocator has reserved where no freed block is large enough. A device that is full takes
 * freed blocks back, so no figure is more than the device's memory unless tensors need more
 * (pytorch/pytorch, c10/cuda/CUDACachingAllocator.cpp: malloc, release_cached_blocks).
 *
 * Gradients of the parameters' type beside their f32 sums take the blocks of the micro-batch's
 * activations, which the same backward frees: only what exceeds these counts. DDP's buckets have
 * the gradients' own type.
 *
 * Under sequence parallelism a block's backward holds whole inputs beside the rank's parts: the
 * gathered input of a product, the gathered gradient of its result, and the gradient of the input
 * before it is scattered (Korthikanti et al., arXiv 2205.05198, section 4.2.2). */
#include "shared/framework/framework_memory.h"

#include <string.h>

#include "shared/cluster/cluster.h"
#include "shared/device/device_kind.h"
#include "shared/framework/framework.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/dtype.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/plan/shard_runs.h"
#include "shared/plan/uses.h"
#include "shared/strategy/fp8_recipe.h"
#include "shared/strategy/strategy.h"
#include "shared/timeline/param_memory.h"
#include "shared/workload/workload.h"

enum { NARROW = 64, MASTER_AND_ADAM = LW_MASTER_AND_ADAM_BYTES, ITEM = 2 };

struct run {
    const struct lw_framework *f;
    const struct lw_model_dims *d;
    const struct lw_plan *plan;
    const struct lw_strategy *s;
};

/* Embedding, head, norms, biases and adapters stay as they are. */
static bool is_product(const struct run *r, const struct lw_plan_param *p)
{
    return lw_plan_in_block(r->plan, p, NARROW * r->d->hidden);
}

static bool sums_in_f32(const struct run *r)
{
    return r->s->grad_dtype == LW_GRAD_F32;
}

/* Beside f32 sums: a second copy of all weights. */
static bool has_flat_weights(const struct run *r)
{
    return lw_fact(r->f->flat_weights) && sums_in_f32(r);
}

/* One flat tensor of gradients of their own type, and buckets of them. */
static bool is_flat(const struct run *r)
{
    return r->s->zero < 3;
}

/* The type of most elements that are trained: half precision of a plan without parameters. */
static enum lw_dtype trained_dtype(const struct lw_plan *p)
{
    int64_t numel[LW_N_DTYPES] = {[LW_BF16] = 1};
    enum lw_dtype most = LW_BF16;

    for (int32_t k = 0; k < p->n_params; k++)
        numel[p->params[k].dtype] += p->params[k].trainable ? p->params[k].numel : 0;
    for (int t = 0; t < LW_N_DTYPES; t++)
        most = numel[t] > numel[most] ? (enum lw_dtype)t : most;
    return most;
}

static enum lw_optimizer optimizer_of(const struct lw_plan *p)
{
    for (int k = 0; p->optimizer && k < LW_N_OPTIMIZERS; k++)
        if (strcmp(p->optimizer, lw_optimizer_name(k)) == 0)
            return (enum lw_optimizer)k;
    return LW_OPTIMIZER_UNKNOWN;
}

/* Elements whose optimizer state a rank has; 0 where an element has none (SGD of f32). */
static double updated(const struct run *r, const int64_t bytes[LW_N_MEM])
{
    const struct lw_memory_rule rule = {.optimizer = optimizer_of(r->plan),
                                        .own_states = r->plan->own_states};
    int64_t item = rule.optimizer == LW_OPTIMIZER_UNKNOWN
                       ? MASTER_AND_ADAM : lw_memory_state_bytes(&rule, trained_dtype(r->plan));

    return item > 0 ? (double)bytes[LW_MEM_OPTIMIZER] / (double)item : 0;
}

static double whole_tensors(const struct run *r, double n)
{
    return n * (double)(ITEM * r->d->batch * r->d->hidden) * (double)r->d->seq / (double)r->s->cp;
}

static int64_t largest_item(const struct lw_plan *p)
{
    int64_t item = p->n_params == 0 ? ITEM : 0;

    for (int32_t k = 0; k < p->n_params; k++) {
        int64_t size = lw_dtype_size((enum lw_dtype)p->params[k].dtype);
        item = size > item ? size : item;
    }
    return item;
}

static int64_t flight_of(const struct run *r, int64_t stage)
{
    int64_t left = r->s->pp - stage, most = lw_strategy_run_batches(r->s);

    return left < most ? left : most;
}

/* Of a stage, buffers of its blocks' inputs and weights beside the inputs of the micro-batches in
 * flight and the weights themselves. */
static double buffer_bytes(const struct run *r, int32_t stage)
{
    double buffers = lw_fact_value(r->f->stage_buffers, 0) * (double)r->s->pp, bytes = 0;
    int64_t flight = flight_of(r, stage);
    int32_t module = -1;

    if (buffers == 0 || stage == r->s->pp - 1)
        return 0;
    for (int32_t k = 0; k < r->plan->n_params; k++) {
        const struct lw_plan_param *p = &r->plan->params[k];
        if (p->stage != stage || !is_product(r, p))
            continue;
        bytes += (buffers - 1) * (double)(ITEM * p->numel);
        bytes += p->module != module ? whole_tensors(r, buffers - (double)flight) : 0;
        module = p->module;
    }
    return bytes;
}

/* DeepSpeed's buffers of a stage beside what its blocks keep (deepspeed/pipe_engine.py of
 * eth-easl/sailor@cf2c8e3): the whole input of each micro-batch in flight, where the first norm
 * does not keep it; on the last stage the outputs, scores in f32, which their backward leaves and
 * the next forward into the same of at least two buffers replaces (schedule.py,
 * num_pipe_buffers). */
static int64_t pipe_buffers(const struct run *r, int64_t stage)
{
    int64_t tokens = r->d->batch * r->d->seq / r->s->cp, held = 0;
    int64_t outputs = (int64_t)lw_fact_value(r->f->last_outputs, 0);

    if (lw_fact(r->f->kept_norm_result) && stage > 0)
        held = flight_of(r, stage) * largest_item(r->plan) * tokens * r->d->hidden;
    if (outputs == 0 || stage < r->s->pp - 1)
        return held;
    outputs = outputs < r->s->micro_batches ? outputs : r->s->micro_batches;
    return held + outputs * lw_dtype_size(LW_F32) * tokens * r->d->vocab / r->s->tp;
}

/* To be changed; those of the plan are kept beside them. */
static int64_t *own_bytes(struct lw_role *role)
{
    if (role->held)
        memcpy(role->static_bytes, role->decided_bytes, sizeof role->static_bytes);
    else
        memcpy(role->decided_bytes, role->static_bytes, sizeof role->static_bytes);
    role->held = true;
    return role->static_bytes;
}

/* Of a buffer of reduced gradients, whatever the model. */
static int64_t reduce_elements(const struct run *r)
{
    int64_t elements = (int64_t)lw_fact_value(r->f->bucket, 0);
    bool third = r->s->zero == 3 && lw_fact(r->f->bucket_zero3);

    if (elements == 0 || (!is_flat(r) && !third))
        return 0;
    if (r->s->reduce_elements > 0)
        return r->s->reduce_elements;
    if (r->s->bucket_cap_bytes >= 0 && r->s->bucket_policy == LW_BUCKET_DEEPSPEED)
        return r->s->bucket_cap_bytes / largest_item(r->plan);
    return elements;
}

/* The buffers have the parameters' type. */
static int64_t reduce_buffers(const struct run *r)
{
    bool twice = lw_fact(r->f->bucket_overlaps) && r->s->overlap && r->s->zero < 3;

    return lw_mul_sat(reduce_elements(r), (twice ? 2 : 1) * largest_item(r->plan));
}

/* The largest copy of a bucket's gradients in the order in which their reduction sends them: of
 * several, or of one that the ranks do not divide. Gradients are taken in reverse order of their
 * parameters. A stream of its own makes it, and gives its blocks to no other
 * (pytorch/pytorch, c10/cuda/CUDACachingAllocator.cpp: blocks belong to the stream that asked). */
static int64_t reduced_copy(const struct run *r, int32_t stage)
{
    int64_t members = r->s->zero_group > 0 ? r->s->zero_group : r->s->dp * r->s->cp;
    int64_t room = reduce_elements(r), sum = 0, most = 0, n = 0;
    bool copies = lw_fact(r->f->bucket_copy_zero3) && r->s->zero == 3 && r->s->overlap;

    for (int32_t k = r->plan->n_params - 1; copies && members > 1 && k >= 0; k--) {
        const struct lw_plan_param *p = &r->plan->params[k];
        if (p->stage != stage || !p->trainable || !lw_plan_holds(r->plan, k))
            continue;
        n = sum + p->numel > room ? 1 : n + 1;
        sum = n > 1 ? sum + p->numel : p->numel;
        if (sum > most && (n > 1 || p->numel % members != 0))
            most = sum;
    }
    return lw_mul_sat(most, largest_item(r->plan));
}

/* Of the roles of a stage: what its first load brings. */
static void find_offloaded(struct lw_plan *plan)
{
    int32_t n = plan->strategy->offload == LW_OFFLOAD_OPTIMIZER ? plan->n_ops : 0;

    for (int32_t i = 0; i < plan->n_roles; i++)
        plan->roles[i].offloaded = 0;
    for (int32_t i = n - 1; i >= 0; i--)
        for (int32_t k = 0; lw_op_at(plan, i).kind == LW_OP_LOAD && k < plan->n_roles; k++)
            if (plan->roles[k].stage == lw_op_at(plan, i).stage)
                plan->roles[k].offloaded = lw_op_at(plan, i).bytes;
}

/* Elements of products that a rank of a stage holds. Under ZeRO-3 those of the first member: even
 * shards leave their padding to the last. A plan without shards, as a sketch, has an even share. */
static int64_t product_elements(const struct run *r, int32_t stage)
{
    const struct lw_plan *p = r->plan;
    int64_t whole = 0, first = 0;

    for (int32_t k = 0; k < p->n_params; k++)
        if (p->params[k].stage == stage && is_product(r, &p->params[k]))
            whole += p->params[k].numel;
    if (r->s->zero < 3)
        return whole;
    if (p->n_shards == 0)
        return whole / (r->s->zero_group > 0 ? r->s->zero_group : r->s->dp * r->s->cp);
    for (int32_t i = 0; i < lw_n_shard_runs(p); i++) {
        const struct lw_shard s = lw_shard_run_at(p, i).first;
        const struct lw_plan_param *x = &p->params[s.param];
        first += s.owner <= 0 && x->stage == stage && is_product(r, x) ? s.numel : 0;
    }
    return first;
}

/* TransformerEngine gives autograd, in place of a gradient that its product added to the sums, a
 * tensor that all weights of the same shape share: a block's products, whose shapes differ. Not
 * counted: those of experts and of ZeRO-3. */
static int64_t dummy_gradients(const struct run *r, int32_t stage)
{
    int64_t most = 0, sum = 0;
    int32_t module = -1;

    if (!lw_fact(r->f->dummy_gradients) || r->s->zero == 3)
        return 0;
    for (int32_t k = 0; k < r->plan->n_params; k++) {
        const struct lw_plan_param *p = &r->plan->params[k];
        if (p->stage != stage || p->expert || !p->trainable || !is_product(r, p))
            continue;
        sum = p->module == module ? sum + p->numel : p->numel;
        module = p->module;
        most = sum > most ? sum : most;
    }
    return ITEM * most;
}

/* Gradients that are applied where they are made: one at a time, the largest of the stage. */
static int64_t applied_gradient(const struct run *r, int32_t stage)
{
    int64_t most = 0;

    for (int32_t k = 0; k < r->plan->n_params; k++) {
        const struct lw_plan_param *p = &r->plan->params[k];
        enum lw_dtype grad = lw_strategy_grad_dtype(r->s, (enum lw_dtype)p->dtype);
        int64_t bytes = p->stage == stage && p->trainable ? p->numel * lw_dtype_size(grad) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* A plan's own bytes are those of its decisions; what autograd has between them is no decision. */
static int64_t block_gradients(const struct run *r)
{
    const struct lw_model_dims *d = r->d;
    int64_t whole = r->s->sequence_parallel ? r->s->tp : 1;

    int64_t pair = d->whole_grad_bytes / (whole * r->s->cp) +
                   d->pair_grad_bytes / (r->s->tp * r->s->cp);
    int64_t scores = (d->whole_grad_bytes - d->pair_kept_whole) / (whole * r->s->cp) +
                     d->score_grad_bytes / (r->s->tp * r->s->cp);

    return d->score_grad_bytes > 0 && scores > pair ? scores : pair;
}

/* A plan file of before plans had states of their framework's size: all have f32 ones. */
static bool has_older_states(const struct run *r)
{
    return lw_fact_value(r->f->state_bytes, 0) > 0 && !sums_in_f32(r) && r->plan->own_states == 0 &&
           optimizer_of(r->plan) != LW_OPTIMIZER_UNKNOWN &&
           lw_dtype_size(trained_dtype(r->plan)) == ITEM;
}

/* Theirs, in the framework's size. */
static int64_t states_of_today(const struct run *r, int64_t older_bytes)
{
    struct lw_memory_rule rule = {.optimizer = optimizer_of(r->plan)};
    int64_t older = lw_memory_state_bytes(&rule, trained_dtype(r->plan));

    rule.own_states = (int64_t)r->f->state_bytes.value;
    return older > 0 ? lw_mul_sat(older_bytes / older,
                                  lw_memory_state_bytes(&rule, trained_dtype(r->plan)))
                     : older_bytes;
}

/* FSDP2's shard of a weight is f32, from which its gather casts what it sends: no 16-bit one stays
 * beside the master (pytorch/pytorch@v2.8.0, torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
 * _init_sharded_param and all_gather_inputs). */
static bool has_f32_shards(const struct run *r)
{
    return lw_fact(r->f->f32_shards) && r->s->zero == 3 &&
           lw_dtype_size(trained_dtype(r->plan)) == ITEM &&
           optimizer_of(r->plan) != LW_OPTIMIZER_UNKNOWN;
}

/* Where micro-batches are summed before they are reduced, their sums have the reduction's type
 * (_fsdp_param.py, to_accumulated_grad_if_needed), as the plan's buckets. */
static bool reduces_each(const struct run *r)
{
    bool each = r->s->pp == 1 && r->s->no_sync == 0;

    return lw_fact(r->f->reduce_copies) && r->s->zero == 3 && each;
}

/* Autograd adds what it makes to what is there. Where a buffer has the sums, products add to it
 * themselves (Megatron's gradient_accumulation_fusion) or what is beside it is counted already
 * (own_gradients); what is applied at once is not added. */
static bool adds_gradients(const struct lw_framework *f)
{
    return !lw_fact(f->gradients_stay) && !lw_fact(f->applied_gradients);
}

/* With its transpose a weight takes as much as one of 16 bits; with ZeRO-3 each gathered copy loses
 * it (NVIDIA/Megatron-LM@d98e8a64, megatron/core/distributed/fsdp/src/README.md,
 * keep_fp8_transpose_cache). So do MXFP8's two layouts, which ZeRO-3 has shards of, and gathers one
 * at a time (megatron_fsdp/param_and_grad_buffer.py, transpose_weight_buffer). Weights of blocks
 * stay in 16 bits (NVIDIA-NeMo/Megatron-Bridge@067f987d, training/mixed_precision.py,
 * bf16_with_fp8_subchannel_scaling_mixed: fp8_param_gather is off). */
static bool has_narrow_weights(const struct run *r)
{
    bool both = r->d->fp8_transposes || r->d->fp8_recipe == LW_FP8_MXFP8;

    return r->d->fp8 && !r->d->fp4 && lw_fact(r->f->fp8_params) &&
           r->d->fp8_recipe != LW_FP8_BLOCKWISE && !(both && r->s->zero < 3);
}

void lw_framework_hold(const struct lw_framework *f, struct lw_plan *plan)
{
    const struct lw_model_dims *dims = &plan->dims;
    const struct run r = {f, dims, plan, plan->strategy};
    bool sums = sums_in_f32(&r), reduced = r.s->dp > 1 || lw_fact(f->buckets_alone);
    bool older = has_older_states(&r);
    bool narrow = has_narrow_weights(&r);
    bool halves = narrow && dims->fp8_recipe != LW_FP8_MXFP8;

    find_offloaded(plan);
    for (int32_t i = 0; i < plan->n_roles; i++) {
        plan->roles[i].grads_come = !lw_fact(f->gradients_stay) && !r.s->bucket_view;
        plan->roles[i].adds_gradients = adds_gradients(f);
    }
    for (int32_t i = 0; dims->layers > 0 && i < plan->n_roles; i++) {
        int64_t *bytes = own_bytes(&plan->roles[i]);
        if (lw_fact(f->own_gradients) && sums)
            bytes[LW_MEM_BUCKETS] /= lw_dtype_size(LW_F32) / ITEM;
        if (older)
            bytes[LW_MEM_OPTIMIZER] = states_of_today(&r, bytes[LW_MEM_OPTIMIZER]);
        if (lw_fact(f->applied_gradients)) {
            int64_t one = applied_gradient(&r, plan->roles[i].stage);
            bytes[LW_MEM_GRADS] = one < bytes[LW_MEM_GRADS] ? one : bytes[LW_MEM_GRADS];
            plan->roles[i].grads_come = false;
        }
        bytes[LW_MEM_BUCKETS] *= lw_fact(f->buckets_in_place) ? 0 : 1;
        plan->roles[i].reduce_elements = reduced && !sums ? reduce_elements(&r) : 0;
        bytes[LW_MEM_BUCKETS] += reduced && !sums ? reduce_buffers(&r) : 0;
        bytes[LW_MEM_BUCKETS] += (int64_t)buffer_bytes(&r, plan->roles[i].stage) +
                                 pipe_buffers(&r, plan->roles[i].stage);
        bytes[LW_MEM_WORKSPACES] =
            dims->workspace + dummy_gradients(&r, plan->roles[i].stage);
        bytes[LW_MEM_PARAMS] *= has_flat_weights(&r) ? 2 : 1;
        bytes[LW_MEM_PARAMS] -= halves ? product_elements(&r, plan->roles[i].stage) : 0;
        bytes[LW_MEM_PARAMS] *= has_f32_shards(&r) ? 0 : 1;
        plan->roles[i].reduce_copies = reduces_each(&r);
        plan->roles[i].narrow_above = narrow ? NARROW * dims->hidden : 0;
        plan->roles[i].block_gradients = block_gradients(&r);
    }
}

/* A backward's whole inputs. */
static double whole_inputs(const struct run *r)
{
    return r->s->tp > 1 && r->s->sequence_parallel
               ? whole_tensors(r, lw_fact_value(r->f->whole_inputs, 0)) : 0;
}

static int64_t in_flight(const struct run *r)
{
    int64_t most = lw_strategy_run_batches(r->s);

    return most < r->s->pp ? most : r->s->pp;
}

/* Of the first stage, which has most micro-batches in flight. Where a tensor rank sends its part of
 * an output, the part is kept, and a backward restores the whole (deepspeedai/DeepSpeed@2151c787,
 * runtime/pipe/engine.py: _exec_forward_pass clears first_output.data, _exec_backward_pass fills
 * it by part_output.full()). */
static double stage_outputs(const struct run *r)
{
    bool kept = lw_fact(r->f->keeps_outputs) && r->s->pp > 1;
    double output = kept ? whole_tensors(r, 1) : 0, n = (double)in_flight(r);

    if (r->s->sequence_parallel)
        return n * output / (double)r->s->tp;
    return r->s->scatter_gather && r->s->tp > 1 ? (n / (double)r->s->tp + 1) * output : n * output;
}

/* Scores in 16 bits that the loss freed: their block is smaller than what it takes next. The stage
 * with the last module has them. */
static double freed_scores(const struct run *r, const struct lw_measure *m)
{
    const struct lw_plan *p = r->plan;
    int32_t stage = p->roles[lw_plan_role_of(p, m->rank)].stage;
    double scores = (double)(r->d->batch * r->d->seq) * (double)r->d->vocab;

    if (r->s->pp > 1 && (!p->stage_of || p->stage_of[p->n_modules - 1] != stage))
        return 0;
    return lw_fact_value(r->f->freed_scores, 0) * scores / (double)(r->s->cp * r->s->tp);
}

/* Of a rank: what it holds throughout, at most beside that, and gradients that take no freed
 * block. */
struct rank_bytes {
    int64_t bytes[LW_N_MEM]; /* with the state that the host holds until the update */
    int64_t offloaded;       /* that state */
    double fixed, active, gradients;
    double coming; /* gradients that are not fixed: all of them, when the step begins */
};

/* FSDP2 gathers into a buffer of the stream that copies, from which weights are copied out, and it
 * goes when the next unit's has been asked for: at most two neighbours. Reduced shards of
 * gradients belong to the stream that reduces. Neither takes a block that the backward freed
 * (pytorch/pytorch@v2.8.0, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py,
 * foreach_all_gather and foreach_reduce). In a pipeline shards are at the peak already. */
static double stream_pools(const struct run *r, const struct rank_bytes *x, int32_t stage,
                           int32_t rank)
{
    int64_t before = 0, most = 0;

    if (!lw_fact(r->f->stream_pools) || r->s->zero < 3)
        return 0;
    for (int32_t i = 0; i < r->plan->n_ops; i++) {
        struct lw_use use;
        if (lw_op_at(r->plan, i).kind != LW_OP_ALLOC || lw_op_at(r->plan, i).stage != stage ||
            !lw_op_memory(r->plan, i, rank, &use) || use.buffer != LW_USE_WEIGHTS)
            continue;
        most = before + use.n > most ? before + use.n : most;
        before = use.n;
    }
    return (double)most + (r->s->pp == 1 ? x->coming : 0);
}

/* The largest tensor that a backward frees: f32 scores where one stage has all blocks, else the
 * gated pair's results. */
static double largest_block(const struct run *r)
{
    double tokens = (double)r->d->batch * (double)r->d->seq / (double)(r->s->cp * r->s->tp);
    double pair = 2 * ITEM * (double)r->d->ffn;
    double scores = r->s->pp == 1 ? 4.0 * (double)r->d->vocab : 0;

    return tokens * (pair > scores ? pair : scores);
}

/* What the optimizer's step of a rank allocates beside what it holds. */
static double step_bytes(const struct run *r, const int64_t bytes[LW_N_MEM])
{
    double weights = (double)bytes[LW_MEM_PARAMS], part = weights / (double)r->s->dp;
    bool flat = lw_fact(r->f->flat_gradients) && is_flat(r);

    if (lw_fact(r->f->step_gathers) && r->s->zero == 1 && r->s->dp > 1)
        return (part > largest_block(r) ? weights + part : 0) +
               (weights > largest_block(r) ? weights : 0);
    if (sums_in_f32(r))
        return 0;
    double item = lw_fact_value(r->f->step_bytes, 0) + (flat ? ITEM : 0);
    return item > 0 ? item * updated(r, bytes) : 0;
}

static struct rank_bytes bytes_of_rank(const struct run *r, const struct lw_measure *m)
{
    const struct lw_role *role = &r->plan->roles[lw_plan_role_of(r->plan, m->rank)];
    struct rank_bytes x = {.offloaded = role->offloaded};

    memcpy(x.bytes, role->static_bytes, sizeof x.bytes);
    x.bytes[LW_MEM_OPTIMIZER] += x.offloaded;
    x.coming = role->grads_come ? (double)x.bytes[LW_MEM_GRADS] : 0;
    x.fixed = (double)lw_memory_fixed(r->plan, m->rank);
    x.active = (double)m->peak_memory_bytes - x.fixed;
    double weights = (double)x.bytes[LW_MEM_PARAMS] / (has_flat_weights(r) ? 2 : 1);
    double own = weights - x.active / (double)in_flight(r);
    if (lw_fact(r->f->own_gradients) && sums_in_f32(r) && own > 0)
        x.gradients = own;
    return x;
}

/* What is beside the plan's tensors where a rank holds most: in a backward, or in the optimizer's
 * step. Before it updates, the tensor of all gradients has replaced them and their buckets, and its
 * f32 copy has replaced it. */
static struct lw_framework_beside beside(const struct run *r, const struct rank_bytes *x)
{
    struct lw_framework_beside y = {.gradients = x->gradients, .whole_inputs = whole_inputs(r),
                                    .stage_outputs = stage_outputs(r)};
    double backward = x->active + y.gradients + y.whole_inputs + y.stage_outputs;
    double replaced = 0;

    y.flat = lw_fact(r->f->flat_gradients) && is_flat(r) && !sums_in_f32(r);
    y.step = step_bytes(r, x->bytes) + (double)x->offloaded;
    if (y.flat) {
        y.step -= ITEM * updated(r, x->bytes);
        replaced = (double)(x->bytes[LW_MEM_GRADS] + x->bytes[LW_MEM_BUCKETS]);
    }
    y.in_step = y.step + x->coming - replaced > backward;
    return y;
}

/* The last rank has less of the optimizer's state than its role, whose fullest rank has most. */
static void take_spared(const struct run *r, struct rank_bytes *x)
{
    x->bytes[LW_MEM_OPTIMIZER] =
        lw_add_sat(x->bytes[LW_MEM_OPTIMIZER], -r->plan->last_spares);
    x->fixed -= (double)r->plan->last_spares;
}

static double tensors(const struct run *r, const struct rank_bytes *x)
{
    struct lw_framework_beside y = beside(r, x);

    if (!y.in_step)
        return x->fixed + x->active + y.gradients + y.whole_inputs + y.stage_outputs;
    return x->fixed + y.step + x->coming -
           (y.flat ? (double)(x->bytes[LW_MEM_GRADS] + x->bytes[LW_MEM_BUCKETS]) : 0);
}

void lw_framework_beside_of(const struct lw_framework *f, const struct lw_plan *plan,
                            const struct lw_measure *m, struct lw_framework_beside *out)
{
    const struct run r = {f, &plan->dims, plan, plan->strategy};
    const struct rank_bytes x = bytes_of_rank(&r, m);

    *out = beside(&r, &x);
}

int64_t lw_framework_own_bytes(const struct lw_framework *f, const struct lw_strategy *s,
                               const struct lw_device *d)
{
    static const char *const grace[] = {"GH200", NULL};
    struct lw_figure own = f->own_bytes;

    if (lw_figure_is_set(f->own_bytes_split) && s->tp > 1)
        own = f->own_bytes_split;
    if (lw_figure_is_set(f->own_bytes_grace) && lw_device_is_one_of(d->kind, grace))
        own = f->own_bytes_grace;
    if (lw_figure_is_set(d->framework_bytes) || !lw_figure_is_set(own))
        return lw_device_framework_bytes(d);
    return (int64_t)own.value;
}

/* What the allocator reserves against tensors. A device without room takes freed blocks back, so
 * stages need no more than others. */
static double reserved_factor(const struct run *r)
{
    double factor = lw_fact_value(r->f->reserved, 1);

    return r->s->pp > 1 ? lw_fact_value(r->f->reserved_stages, factor) : factor;
}

static void bytes_of(const struct run *r, const struct lw_device *d, const struct rank_bytes *x,
                     const struct lw_measure *m, struct lw_framework_bytes *out)
{
    const struct lw_framework *f = r->f;
    double least = lw_fact_value(f->reserved, 1), factor = reserved_factor(r);
    double own = (double)lw_framework_own_bytes(f, r->s, d);
    double full = lw_figure_is_set(d->memory_bytes) ? d->memory_bytes.value - own : 1e300;
    bool gathers = lw_fact(f->step_gathers); /* buffers made once, before an empty cache */
    int32_t stage = r->plan->roles[lw_plan_role_of(r->plan, m->rank)].stage;

    out->allocated = tensors(r, x);
    out->needed = least * out->allocated;
    double bytes = (gathers ? 1 : factor) * (x->fixed + x->gradients + step_bytes(r, x->bytes)) +
                   factor * (x->active + stage_outputs(r)) + factor * whole_inputs(r) +
                   freed_scores(r, m) + (double)reduced_copy(r, stage) +
                   stream_pools(r, x, stage, m->rank);
    if (out->needed <= full && bytes > full)
        bytes = gathers ? out->needed : full;
    out->reserved = bytes;
    out->device = bytes + own;
}

void lw_framework_bytes_of(const struct lw_framework *f, const struct lw_plan *plan,
                           const struct lw_device *d, const struct lw_measure *m,
                           struct lw_framework_bytes *out)
{
    const struct run r = {f, &plan->dims, plan, plan->strategy};
    const struct rank_bytes x = bytes_of_rank(&r, m);

    bytes_of(&r, d, &x, m, out);
}

void lw_framework_bytes_of_last(const struct lw_framework *f, const struct lw_plan *plan,
                                const struct lw_device *d, const struct lw_measure *m,
                                struct lw_framework_bytes *out)
{
    const struct run r = {f, &plan->dims, plan, plan->strategy};
    struct rank_bytes x = bytes_of_rank(&r, m);

    take_spared(&r, &x);
    bytes_of(&r, d, &x, m, out);
}
