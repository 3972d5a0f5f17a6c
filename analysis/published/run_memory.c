/* Memory of a measured run beyond what its plan counts, and what kind of figure its table prints:
 *
 *   tensors     the largest sum of allocated tensors, as torch's max_memory_allocated
 *   reserved    what torch's allocator has taken from the device: more by RESERVE, the mean of the
 *               22 B200 runs of MooreThreads/SimuMax@4dcaae5 that print both (1.028 to 1.079).
 *               Buffers made once, before an empty cache, take what they hold
 *   nvidia-smi  reserved, and what the framework takes (device.framework_bytes)
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
 * before it is scattered (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
 *
 * A tensor that a collective's stream reads is not reused before the collective has run
 * (pytorch/pytorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: recordStream). Where the host
 * is ahead of the device, whole inputs and results therefore pile up until its queue is full:
 * nanotron's runs hold LW_RUN_HELD of them, whatever the number of blocks, LW_RUN_HELD_FEW where a
 * step has one micro-batch, whose forward alone is ahead when most activations are held. Stages
 * wait for their neighbours: there so many pile up where the device takes longer than its host
 * (LW_RUN_HELD_SHARE), and in a first stage that has no more blocks than another: its device waits
 * for the gradients of the slowest stage, and its host goes ahead meanwhile. Where hosts sleep
 * between stages (run_parts.c) the device catches up: the first of four or more stages holds the
 * fewer where its tensor group is inside a node, other stages none.
 *
 * Where what is held does not fit, the allocator waits for the streams and frees it, and all cached
 * blocks where that is not enough (CUDACachingAllocator.cpp: malloc tries again after
 * release_cached_blocks, which synchronizes with the events of such blocks). Where a step asks for
 * one tensor of all weights, the figure is then what tensors need; smaller ones fill the device
 * first. */
#include "analysis/published/run_memory.h"

#include <string.h>

#include "analysis/published/run_figures.h"
#include "analysis/published/run_framework.h"
#include "analysis/published/run_model.h"
#include "analysis/published/run_parts.h"
#include "analysis/published/run_predict.h"
#include "shared/plan/strategy.h"

static const double RESERVE = 1.056;

enum { NARROW = 64, MASTER_AND_ADAM = 12, ITEM = 2, GATHERED_IN_BACKWARD = 3 };

enum { MANY_STAGES = 4 };

/* Embedding, head, norms, biases and adapters stay as they are. */
static bool is_product(const struct lw_run *r, const struct lw_plan *plan,
                       const struct lw_plan_param *p)
{
    return p->module > 0 && p->module < plan->n_modules - 1 && p->numel > NARROW * r->hidden;
}

static bool sums_in_f32(const struct lw_run *r)
{
    return strcmp(lw_run_gradients(r), "f32") == 0;
}

/* One flat tensor of gradients of their own type, and buckets of them. */
static bool is_flat(const struct lw_plan *plan)
{
    return plan->strategy->zero < 3;
}

/* Elements whose optimizer state a rank has. */
static double updated(const struct lw_run *r, const int64_t bytes[LW_N_MEM])
{
    int64_t state = lw_run_framework_of(r)->state_bytes;

    return (double)bytes[LW_MEM_OPTIMIZER] / (double)(state > 0 ? state : MASTER_AND_ADAM);
}

static double whole_tensors(const struct lw_run *r, double n)
{
    return n * (double)(ITEM * r->mbs * r->hidden) * (double)r->seq / (double)r->cp;
}

/* Of a stage, buffers of its blocks' inputs and weights beside the inputs of the micro-batches in
 * flight and the weights themselves. */
static double buffer_bytes(const struct lw_run *r, const struct lw_plan *plan, int32_t stage)
{
    double buffers = (double)(lw_run_framework_of(r)->stage_buffers * r->pp), bytes = 0;
    int64_t flight = r->pp - stage < r->micro_batches ? r->pp - stage : r->micro_batches;
    int32_t module = -1;

    if (buffers == 0 || stage == r->pp - 1)
        return 0;
    for (int32_t k = 0; k < plan->n_params; k++) {
        const struct lw_plan_param *p = &plan->params[k];
        if (p->stage != stage || !is_product(r, plan, p))
            continue;
        bytes += (buffers - 1) * (double)(ITEM * p->numel);
        bytes += p->module != module ? whole_tensors(r, buffers - (double)flight) : 0;
        module = p->module;
    }
    return bytes;
}

void lw_run_hold(const struct lw_run *r, struct lw_plan *plan)
{
    const struct lw_run_framework *f = lw_run_framework_of(r);
    bool sums = sums_in_f32(r), reduced = r->dp > 1 || f->buckets_alone;

    for (int32_t i = 0; i < plan->n_roles; i++) {
        int64_t *bytes = plan->roles[i].static_bytes;
        bytes[LW_MEM_BUCKETS] /= f->own_gradients && sums ? lw_dtype_size(LW_F32) / ITEM : 1;
        if (f->state_bytes > 0 && !sums)
            bytes[LW_MEM_OPTIMIZER] = bytes[LW_MEM_OPTIMIZER] / MASTER_AND_ADAM * f->state_bytes;
        bytes[LW_MEM_GRADS] *= lw_run_takes(r, "optimizer in backward") ? 0 : 1;
        bytes[LW_MEM_BUCKETS] += reduced && !sums && is_flat(plan) ? f->bucket * ITEM : 0;
        bytes[LW_MEM_BUCKETS] += (int64_t)buffer_bytes(r, plan, plan->roles[i].stage);
        bytes[LW_MEM_PARAMS] *= f->flat_weights && sums ? 2 : 1;
        for (int32_t k = 0; lw_run_is_8bit(r) && f->fp8_params && k < plan->n_params; k++)
            if (plan->params[k].stage == plan->roles[i].stage &&
                is_product(r, plan, &plan->params[k]))
                bytes[LW_MEM_PARAMS] -= plan->params[k].numel;
    }
}

static bool splits_sequence(const struct lw_run *r)
{
    return r->tp > 1 && lw_run_is_yes(r->seq_parallel);
}

static double whole_inputs(const struct lw_run *r, double n)
{
    return splits_sequence(r) ? whole_tensors(r, n) : 0;
}

static int64_t in_flight(const struct lw_run *r)
{
    return r->micro_batches < r->pp ? r->micro_batches : r->pp;
}

/* Of the first stage, which has most micro-batches in flight. */
static double stage_outputs(const struct lw_run *r)
{
    bool kept = lw_run_framework_of(r)->keeps_outputs && r->pp > 1;
    double outputs = kept ? whole_tensors(r, (double)in_flight(r)) : 0;

    return splits_sequence(r) ? outputs / (double)r->tp : outputs;
}

/* The largest tensor that a backward frees: f32 scores where one stage has all blocks, else the
 * gated pair's results. */
static double largest_block(const struct lw_run *r)
{
    double tokens = (double)r->mbs * (double)r->seq / (double)(r->cp * r->tp);
    double pair = 2 * ITEM * (double)r->ffn, scores = r->pp == 1 ? 4.0 * (double)r->vocab : 0;

    return tokens * (pair > scores ? pair : scores);
}

/* What the optimizer's step of a rank allocates beside what it holds. */
static double step_bytes(const struct lw_run *r, const struct lw_plan *plan,
                         const int64_t bytes[LW_N_MEM])
{
    const struct lw_run_framework *f = lw_run_framework_of(r);
    double weights = (double)bytes[LW_MEM_PARAMS], part = weights / (double)r->dp;

    if (f->step_gathers && plan->strategy->zero == 1 && r->dp > 1)
        return (part > largest_block(r) ? weights + part : 0) +
               (weights > largest_block(r) ? weights : 0);
    if (sums_in_f32(r))
        return 0;
    return updated(r, bytes) * (f->step_bytes + (f->flat_gradients && is_flat(plan) ? ITEM : 0));
}

/* Of a rank: what it holds throughout, at most beside that, and gradients that take no freed
 * block. */
struct rank_bytes {
    const int64_t *bytes;
    double fixed, active, gradients;
};

static struct rank_bytes bytes_of_rank(const struct lw_run *r, const struct lw_plan *plan,
                                       const struct lw_measure *m)
{
    struct rank_bytes x = {.bytes = plan->roles[plan->role_of[m->rank]].static_bytes};

    for (int k = 0; k < LW_N_MEM; k++)
        x.fixed += (double)x.bytes[k];
    x.active = (double)m->peak_memory_bytes - x.fixed;
    double own = (double)x.bytes[LW_MEM_PARAMS] - x.active / (double)in_flight(r);
    if (lw_run_framework_of(r)->own_gradients && sums_in_f32(r) && own > 0)
        x.gradients = own;
    return x;
}

static const struct lw_measure *rank_shown(const struct lw_run *r, const struct lw_summary *s)
{
    const struct lw_measure *most = s->ranks;

    for (int32_t i = 0; i < s->n_ranks; i++) {
        if (strstr(r->memory, "rank 0") && s->ranks[i].rank == 0)
            return &s->ranks[i];
        if (s->ranks[i].peak_memory_bytes > most->peak_memory_bytes)
            most = &s->ranks[i];
    }
    return most;
}

/* Tensors of a rank at their most: in a backward, or in the optimizer's step. Before it updates,
 * the tensor of all gradients has replaced them and their buckets, and its f32 copy has replaced
 * it. */
static double tensors(const struct lw_run *r, const struct lw_plan *plan,
                      const struct rank_bytes *x)
{
    bool flat = lw_run_framework_of(r)->flat_gradients && is_flat(plan) && !sums_in_f32(r);
    double backward = x->active + x->gradients + whole_inputs(r, GATHERED_IN_BACKWARD) +
                      stage_outputs(r);
    double step = step_bytes(r, plan, x->bytes);

    if (flat)
        step -= (double)(x->bytes[LW_MEM_GRADS] + x->bytes[LW_MEM_BUCKETS]) +
                ITEM * updated(r, x->bytes);
    return x->fixed + (backward > step ? backward : step);
}

/* Tensors that are held only because the host is ahead are waited for where the device is full. */
double lw_run_needed_bytes(const struct lw_run *r, const struct lw_plan *plan,
                           const struct lw_summary *s)
{
    double most = 0;

    for (int32_t i = 0; i < s->n_ranks; i++) {
        struct rank_bytes x = bytes_of_rank(r, plan, &s->ranks[i]);
        double bytes = RESERVE * tensors(r, plan, &x);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static double n_held(const struct lw_run *r, double device_share)
{
    if (!lw_run_framework_of(r)->runs_ahead)
        return GATHERED_IN_BACKWARD;
    double few = lw_run_figure(r, LW_RUN_HELD_FEW, GATHERED_IN_BACKWARD);
    double held = r->micro_batches == 1
                      ? few
                      : lw_run_figure(r, LW_RUN_HELD, GATHERED_IN_BACKWARD);
    if (r->pp == 1 || device_share > lw_run_figure(r, LW_RUN_HELD_SHARE, 1))
        return held;
    if (lw_run_polls(r))
        return r->pp >= MANY_STAGES && r->tp <= r->gpus_per_node ? few : GATHERED_IN_BACKWARD;
    return lw_run_first_stage_waits(r) ? held : GATHERED_IN_BACKWARD;
}

double lw_run_shown_bytes(const struct lw_run *r, const struct lw_plan *plan,
                          const struct lw_device *d, const struct lw_summary *s,
                          double device_share)
{
    const struct rank_bytes x = bytes_of_rank(r, plan, rank_shown(r, s));
    bool smi = strstr(r->memory, "nvidia-smi");
    double full = d->memory_bytes.value - (double)lw_device_framework_bytes(d);
    double framework = smi ? (double)lw_device_framework_bytes(d) : 0;

    if (!smi && !strstr(r->memory, "reserved"))
        return tensors(r, plan, &x);
    double fixed = lw_run_framework_of(r)->step_gathers ? 1 : RESERVE;
    double bytes = fixed * (x.fixed + x.gradients + step_bytes(r, plan, x.bytes)) +
                   RESERVE * (x.active + stage_outputs(r));
    double held = RESERVE * whole_inputs(r, n_held(r, device_share));
    bool fits = RESERVE * tensors(r, plan, &x) <= full;

    if (fits && bytes + held > full)
        held = RESERVE * whole_inputs(r, GATHERED_IN_BACKWARD);
    bytes += held;
    if (fits && bytes > full)
        bytes = lw_run_framework_of(r)->step_gathers ? RESERVE * tensors(r, plan, &x) : full;
    return bytes + framework;
}
