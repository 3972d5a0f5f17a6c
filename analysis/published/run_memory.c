/* Memory of a measured run beyond what its plan counts, and what kind of figure its table prints:
 *
 *   tensors     the largest sum of allocated tensors, as torch's max_memory_allocated
 *   reserved    what torch's allocator has taken from the device: more by RESERVE, the mean of the
 *               22 B200 runs of MooreThreads/SimuMax@4dcaae5 that print both (1.028 to 1.079)
 *   nvidia-smi  reserved, and what the framework takes (device.framework_bytes)
 *
 * Under sequence parallelism a block's backward holds whole inputs beside the rank's parts: the
 * gathered input of a product, the gathered gradient of its result, and the gradient of the input
 * before it is scattered (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
 *
 * A tensor that a collective's stream reads is not reused before the collective has run
 * (pytorch/pytorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: recordStream). Where the host
 * is ahead of the device, whole inputs and results therefore pile up until its queue is full.
 * Without stages, on which the host waits, nanotron's runs hold HELD_AHEAD of them, whatever the
 * number of blocks: the median of 220 runs of nanotron_ultrascale is 46 to 60 by size of the tensor
 * group. Where the host is slower than the device there are none. */
#include "analysis/published/run_memory.h"

#include <string.h>

#include "analysis/published/run_framework.h"
#include "analysis/published/run_model.h"
#include "analysis/published/run_predict.h"

static const double RESERVE = 1.056;

enum { NARROW = 64, MASTER_AND_ADAM = 12, ITEM = 2, GATHERED_IN_BACKWARD = 3, HELD_AHEAD = 40 };

/* Embedding, head, norms, biases and adapters stay as they are. */
static bool is_product(const struct lw_run *r, const struct lw_plan *plan,
                       const struct lw_plan_param *p)
{
    return p->module > 0 && p->module < plan->n_modules - 1 && p->numel > NARROW * r->hidden;
}

void lw_run_hold(const struct lw_run *r, struct lw_plan *plan)
{
    const struct lw_run_framework *f = lw_run_framework_of(r);
    bool sums = strcmp(lw_run_gradients(r), "f32") == 0;

    for (int32_t i = 0; i < plan->n_roles; i++) {
        int64_t *bytes = plan->roles[i].static_bytes;
        bytes[LW_MEM_GRADS] += f->own_gradients && sums ? bytes[LW_MEM_PARAMS] : 0;
        if (f->state_bytes > 0 && !sums)
            bytes[LW_MEM_OPTIMIZER] = bytes[LW_MEM_OPTIMIZER] / MASTER_AND_ADAM * f->state_bytes;
        bytes[LW_MEM_GRADS] *= lw_run_takes(r, "optimizer in backward") ? 0 : 1;
        bytes[LW_MEM_BUCKETS] += r->dp > 1 && !sums ? f->bucket * ITEM : 0;
        bytes[LW_MEM_PARAMS] *= f->flat_weights && sums ? 2 : 1;
        for (int32_t k = 0; lw_run_is_8bit(r) && f->fp8_params && k < plan->n_params; k++)
            if (plan->params[k].stage == plan->roles[i].stage &&
                is_product(r, plan, &plan->params[k]))
                bytes[LW_MEM_PARAMS] -= plan->params[k].numel;
    }
}

static double whole_tensors(const struct lw_run *r, int64_t n)
{
    return (double)(n * ITEM * r->mbs * r->hidden) * (double)r->seq / (double)r->cp;
}

static double whole_inputs(const struct lw_run *r, int64_t n)
{
    return r->tp > 1 && lw_run_is_yes(r->seq_parallel) ? whole_tensors(r, n) : 0;
}

/* Of the first stage, which has most micro-batches in flight. */
static double stage_outputs(const struct lw_run *r)
{
    bool kept = lw_run_framework_of(r)->keeps_outputs && r->pp > 1;

    return kept ? whole_tensors(r, r->micro_batches < r->pp ? r->micro_batches : r->pp) : 0;
}

/* Tensors that are held only because the host is ahead are waited for where the device is full. */
double lw_run_needed_bytes(const struct lw_run *r, const struct lw_summary *s)
{
    return RESERVE * ((double)s->peak_memory_bytes + whole_inputs(r, GATHERED_IN_BACKWARD) +
                      stage_outputs(r));
}

double lw_run_shown_bytes(const struct lw_run *r, const struct lw_device *d,
                          const struct lw_summary *s)
{
    bool smi = strstr(r->memory, "nvidia-smi"), reserved = smi || strstr(r->memory, "reserved");
    bool ahead = lw_run_framework_of(r)->runs_ahead && r->pp == 1;
    int64_t n = ahead ? HELD_AHEAD : GATHERED_IN_BACKWARD;
    int64_t peak = s->peak_memory_bytes;

    for (int32_t i = 0; strstr(r->memory, "rank 0") && i < s->n_ranks; i++)
        if (s->ranks[i].rank == 0)
            peak = s->ranks[i].peak_memory_bytes;
    double bytes = ((double)peak + whole_inputs(r, n) + stage_outputs(r)) *
                   (reserved ? RESERVE : 1);
    return bytes + (smi ? (double)lw_device_framework_bytes(d) : 0);
}
