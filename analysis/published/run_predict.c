/* A measured run's configuration -> model, strategy, plan, simulated step.
 *
 * Micro-batches, stages and shards follow what the frameworks of the tables do: blocks are
 * spread evenly over stages, the embedding with the first block and the head with the last;
 * Megatron's distributed optimizer is ZeRO-1 on flat shards; FSDP's full shard is ZeRO-3 a block
 * at a time. What this build cannot express is refused with a reason that has no figure of the
 * row, so that reasons can be counted. */
#include "analysis/published/run_predict.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analysis/published/run_framework.h"
#include "analysis/published/run_machine.h"
#include "analysis/published/run_memory.h"
#include "analysis/published/run_model.h"
#include "analysis/published/run_parts.h"
#include "shared/lower/lower.h"
#include "shared/plan/strategy.h"
#include "shared/timeline/timeline.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

/* --- sizes ------------------------------------------------------------------------------------ */

static int64_t at_least_1(int64_t v)
{
    return v > 0 ? v : 1;
}

/* Tensor groups fill a node before there are stages (Narayanan et al., SC'21, section 3.1). */
static enum lw_status split_model(struct lw_run *r, struct lw_err *err)
{
    int64_t node = at_least_1(r->gpus_per_node);

    if (r->model_parallel <= 1 || r->tp > 0 || r->pp > 0)
        return LW_OK;
    r->tp = r->model_parallel < node ? r->model_parallel : node;
    r->pp = r->model_parallel / r->tp;
    if (r->model_parallel % r->tp != 0)
        return lw_fail(err, LW_ENOTSUP, "model-parallel ranks are not a multiple of a node's");
    return LW_OK;
}

/* Megatron splits each expert over the tensor group unless --expert-tensor-parallel-size says
 * otherwise; experts that data and context ranks are too few for are shared by the tensor group.
 * ep is then of those ranks alone, as in a plan. */
static enum lw_status complete_experts(struct lw_run *r, struct lw_err *err)
{
    int64_t ranks = r->dp * r->cp;

    if (r->etp == 0)
        r->etp = r->ep > ranks ? 1 : r->tp;
    if (r->etp != 1 && r->etp != r->tp)
        return lw_fail(err, LW_ENOTSUP, "the expert tensor group has a size other than 1 or tp");
    if (r->etp < r->tp) {
        if (r->ep % r->tp != 0)
            return lw_fail(err, LW_ENOTSUP, "expert ranks are not a multiple of the tensor group");
        r->ep /= r->tp;
    }
    if (ranks % r->ep != 0)
        return lw_fail(err, LW_ENOTSUP, "expert ranks do not divide data and context ranks");
    return LW_OK;
}

/* Megatron refuses chunks that do not divide a stage's layers (megatron/training/arguments.py):
 * the next number that does. */
static int64_t chunks_of(const struct lw_run *r)
{
    int64_t chunks = at_least_1(r->vpp);

    if (!has(r->framework, "Megatron") || r->layers % r->pp != 0 || chunks > r->layers / r->pp)
        return chunks;
    while (r->layers % (r->pp * chunks) != 0)
        chunks++;
    return chunks;
}

static enum lw_status complete_world(struct lw_run *r, struct lw_err *err)
{
    LW_TRY(split_model(r, err));
    r->cp = at_least_1(r->cp);
    r->tp = at_least_1(r->tp);
    r->pp = at_least_1(r->pp);
    r->ep = at_least_1(r->ep);
    r->vpp = r->pp > 1 ? chunks_of(r) : 1;
    int64_t inner = r->cp * r->tp * r->pp;
    if (r->gpus == 0)
        r->gpus = at_least_1(r->dp) * inner;
    if (r->gpus % inner != 0)
        return lw_fail(err, LW_ENOTSUP, "devices are not a multiple of tp * pp * cp");
    r->dp = r->gpus / inner;
    return complete_experts(r, err);
}

/* Of samples, micro-batch and number of micro-batches two give the third; where all are there the
 * micro-batches are what ran. */
static enum lw_status complete_batch(struct lw_run *r, struct lw_err *err)
{
    if (r->gbs == 0 && r->batch_per_dp > 0)
        r->gbs = r->batch_per_dp * r->dp;
    if (r->mbs == 0 && r->gbs > 0 && r->micro_batches > 0)
        r->mbs = r->gbs / (r->micro_batches * r->dp);
    if (r->mbs == 0)
        return lw_fail(err, LW_ENOTSUP, "the micro-batch is not given");
    if (r->gbs > 0 && r->micro_batches > 0 && r->gbs != r->mbs * r->dp * r->micro_batches)
        return lw_fail(err, LW_ENOTSUP,
                       "the global batch is not micro-batch * micro-batches * data-parallel ranks");
    if (r->micro_batches > 0)
        r->gbs = r->mbs * r->dp * r->micro_batches;
    if (r->gbs == 0)
        return lw_fail(err, LW_ENOTSUP, "the global batch is not given");
    if (r->gbs % (r->mbs * r->dp) != 0)
        return lw_fail(err, LW_ENOTSUP, "the global batch does not divide into micro-batches");
    r->micro_batches = r->gbs / (r->mbs * r->dp);
    return LW_OK;
}

/* --- strategy --------------------------------------------------------------------------------- */

static int64_t zero_of(const struct lw_run *r)
{
    if (has(r->zero, "GRAD_OP") || has(r->zero, "ZeRO-2"))
        return 2;
    if (has(r->zero, "ZeRO-1") || (r->zero[0] == '1' && (!r->zero[1] || r->zero[1] == ',')))
        return 1;
    if ((has(r->zero, "FSDP") && !has(r->zero, "FSDP=0")) || has(r->zero, "ZeRO-3"))
        return 3;
    if (has(r->dist_optimizer, "yes") || has(r->dist_optimizer, "True") ||
        has(r->zero, "distributed optimizer"))
        return 1;
    return lw_run_framework_of(r)->shards_optimizer;
}

struct setting {
    const char *name;
    const char *value;
};

static enum lw_status set_all(struct lw_strategy *s, const struct setting *settings,
                              struct lw_err *err)
{
    for (; settings->name; settings++)
        if (*settings->value)
            LW_TRY(lw_strategy_set(s, settings->name, settings->value, err));
    return LW_OK;
}

static const char *recompute_of(const struct lw_run *r)
{
    const char *usual = lw_run_framework_of(r)->recompute;
    const char *text = *r->recompute || !usual ? r->recompute : usual;

    if (has(text, "full") || lw_run_takes(r, "checkpointing"))
        return "full";
    return has(text, "selective") || has(text, "core_attn") ? "selective" : "none";
}

static enum lw_status strategy_of(const struct lw_run *r, char *list, size_t size,
                                  struct lw_strategy *s, struct lw_err *err)
{
    const struct lw_run_framework *f = lw_run_framework_of(r);

    *s = lw_strategy_default();
    s->dp = r->dp;
    s->pp = r->pp;
    s->tp = r->tp;
    s->sequence_parallel = r->tp > 1 && lw_run_is_yes(r->seq_parallel);
    s->tp_overlap = lw_run_tp_overlap(r);
    s->cp = r->cp;
    if (s->cp > 1 && s->tp_overlap == LW_TP_OVERLAP_OFF)
        s->cp_comm = f->cp_comm;
    s->scatter_gather = f->splits_messages && s->tp > 1 && s->pp > 1 &&
                        !s->sequence_parallel;
    s->micro_batches = r->micro_batches;
    s->zero = zero_of(r);
    s->reshard = !has(r->zero, "kept");
    s->ep = r->ep;
    s->chunks = r->vpp;
    bool ddp = s->zero == 0 && f->ddp_bucket > 0;
    s->overlap = s->zero == 3 || (r->dp > 1 && (ddp || !has(r->overlap, "no")));
    s->bucket_cap_bytes = ddp ? f->ddp_bucket : s->bucket_cap_bytes;
    if (s->zero > 0)
        s->shard_policy = LW_SHARD_FLAT;
    s->overlap_param_gather = (s->zero == 1 || s->zero == 2) && lw_run_gathers_ahead(r);
    if (r->pp > 1)
        lw_run_parts(r, list, size);
    const struct setting settings[] = {
        {"recompute", recompute_of(r)},
        {"grad-dtype", lw_run_gradients(r)},
        {"schedule", r->pp == 1 ? "" : r->vpp > 1 ? "interleaved-1f1b" : "1f1b"},
        {"partition", r->pp == 1 ? "" : "explicit"},
        {"partition-list", list},
        {NULL, NULL},
    };
    return set_all(s, settings, err);
}

static enum lw_status expressible(const struct lw_run *r, struct lw_err *err)
{
    if (has(r->offload, "CPU") || has(r->offload, "True") || lw_run_takes(r, "offloading"))
        return lw_fail(err, LW_ENOTSUP, "offload to the host is not modelled");
    return LW_OK;
}

/* --- prediction ------------------------------------------------------------------------------- */

static enum lw_status simulate(const struct lw_run *r, const struct lw_plan *plan,
                               const struct lw_cluster *c, double device_share,
                               struct lw_run_prediction *out, struct lw_err *err)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_classes classes = {0};
    struct lw_sim_stats stats;
    struct lw_summary summary;
    int32_t warmup = lw_sim_warmup_steps(plan);

    warmup = warmup > 0 ? warmup : 1;
    o.n_steps = warmup + 1;
    LW_TRY(lw_sim_run_classes(plan, c, &o, &classes, &stats, err));
    enum lw_status s = lw_sim_summarize(&classes, warmup, &summary, err);
    lw_sim_classes_free(&classes);
    if (s != LW_OK)
        return s;
    out->step_ns = (double)summary.step / (double)LW_PS_PER_NS;
    out->memory_bytes = lw_run_shown_bytes(r, plan, &c->device, &summary, device_share);
    out->needed_bytes = lw_run_needed_bytes(r, plan, &summary);
    lw_summary_free(&summary);
    return LW_OK;
}

static enum lw_status plan_and_simulate(const struct lw_run *r, const struct lw_workload *w,
                                        const struct lw_cluster *c, struct lw_run_prediction *out,
                                        struct lw_err *err)
{
    struct lw_strategy s;
    struct lw_cost cost = lw_sim_cost(c);
    struct lw_plan plan;
    double device_share;
    char list[2048] = "";

    LW_TRY(lw_run_device_share(r, c, w, &device_share, err));
    LW_TRY(strategy_of(r, list, sizeof list, &s, err));
    LW_TRY(lw_plan_build(w, &s, &cost, &plan, err));
    lw_run_hold(r, &plan);
    enum lw_status status = simulate(r, &plan, c, device_share, out, err);
    lw_plan_free(&plan);
    return status;
}

/* By the definition of the table: 3 times the forward's products; hardware: recomputed ones once
 * more; causal: half of attention's scores. */
static double step_flops(const struct lw_run *r, const struct lw_workload *w)
{
    bool again = has(r->flops, "hardware") && has(r->recompute, "full");
    double sum = 0;

    for (int32_t m = 0; m < w->n_modules; m++) {
        const struct lw_module *x = &w->modules[m];
        sum += (double)x->forward_flops * (again && x->tp_split == LW_TP_BLOCK ? 4 : 3);
    }
    sum *= (double)r->gbs / (double)r->mbs;
    if (has(r->flops, "causal"))
        sum -= 6.0 * (double)r->layers * (double)r->hidden * (double)r->seq * (double)r->seq *
               (double)r->gbs;
    return sum;
}

static enum lw_status on_machine(struct lw_run *r, const struct lw_cluster *c,
                                 struct lw_run_prediction *out, struct lw_err *err)
{
    struct lw_workload w;
    enum lw_dtype dtype;

    LW_TRY(lw_run_workload(r, c, &w, &dtype, err));
    out->step_flops = step_flops(r, &w);
    out->peak = c->device.peak_flops[dtype].value; /* of bf16 where products are of 8 bits */
    out->capacity_bytes =
        c->device.memory_bytes.value - (double)lw_device_framework_bytes(&c->device);
    enum lw_status s = lw_run_add_polls(r, &w, err);
    if (s == LW_OK)
        s = plan_and_simulate(r, &w, c, out, err);
    lw_workload_free(&w);
    if (s == LW_OK)
        out->tokens_per_s_device = (double)r->gbs * (double)r->seq / (double)r->gpus /
                                   (out->step_ns * 1e-9);
    return s;
}

enum lw_status lw_run_predict(struct lw_run *r, struct lw_run_prediction *out, struct lw_err *err)
{
    struct lw_cluster c;

    *out = (struct lw_run_prediction){0};
    LW_TRY(lw_run_shape(r, err));
    LW_TRY(complete_world(r, err));
    LW_TRY(complete_batch(r, err));
    LW_TRY(expressible(r, err));
    out->refused = lw_run_refused(r);
    if (out->refused)
        return LW_OK;
    LW_TRY(lw_run_machine(r, &c, err));
    enum lw_status s = on_machine(r, &c, out, err);
    lw_cluster_free(&c);
    return s;
}
