/* FLOPs of a step by the definitions of publications: Narayanan et al., SC'21, appendix, and
 * Korthikanti et al., arXiv 2205.05198, appendix A, count all scores of attention, and 4 forwards
 * where blocks are recomputed; torchtitan, Megatron-Core and PaLM (arXiv 2204.02311, appendix B)
 * differ in what they do with the causal half. Embeddings have no products, norms and activations
 * are not counted. */
#include "analysis/evidence/step_flops.h"

#include "shared/strategy/strategy.h"
#include "shared/timeline/throughput.h"

/* Forwards of one micro-batch. Attention: scores and sums over values, all of them. */
struct forwards {
    double all, attention, spared; /* of all modules; of attention what a causal mask spares */
    double blocks, again;          /* of the blocks, and of those that are computed again */
};

/* Fused attention keeps no scores, so that selective recomputation has nothing to do again. */
static bool keeps_scores(const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_modules; i++)
        if (w->modules[i].selective_ps > 0)
            return true;
    return false;
}

/* Of the blocks of a stage, whether full recomputation computes the n-th again. */
static bool is_again(const struct lw_strategy *s, int64_t n)
{
    if (s->recompute_layers == 0 || s->recompute_method == LW_RECOMPUTE_UNIFORM)
        return true;
    return s->recompute_method == LW_RECOMPUTE_EVERY ? (n + 1) % s->recompute_layers == 0
                                                     : n < s->recompute_layers;
}

static struct forwards sum_forwards(const struct lw_plan *p, const struct lw_workload *w)
{
    const bool full = p->strategy->recompute == LW_RECOMPUTE_FULL;
    const double batch = (double)w->batch;
    struct forwards f = {.attention = batch * (double)w->attention_flops};
    int64_t n = 0;

    if (w->score_flops > w->attention_flops) {
        f.attention = batch * (double)w->score_flops;
        f.spared = f.attention - batch * (double)w->attention_flops;
    }
    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = &w->modules[i];
        double forward = m->forward_flops > 0 ? (double)m->forward_flops : 0;
        bool block = m->tp_split == LW_TP_BLOCK;
        if (i > 0 && p->stage_of[i] != p->stage_of[i - 1])
            n = 0;
        f.all += forward;
        f.blocks += block ? forward : 0;
        f.again += full && block && is_again(p->strategy, n) ? forward : 0;
        n += block;
    }
    return f;
}

/* Share of the parameters that is frozen: it has no products for its gradients. */
static double frozen(const struct lw_workload *w)
{
    double all = (double)lw_workload_numel(w, false);

    return all > 0 ? 1 - (double)lw_workload_numel(w, true) / all : 0;
}

double lw_step_flops(const struct lw_plan *p, const struct lw_workload *w, bool hardware,
                     bool causal)
{
    struct forwards f = sum_forwards(p, w);
    bool scores = p->strategy->recompute == LW_RECOMPUTE_SELECTIVE && keeps_scores(w);
    double again = f.blocks > 0 ? f.again / f.blocks : 0; /* share of the blocks */
    double sum = 3 * f.all - frozen(w) * (f.all - f.attention), spared = 3 * f.spared;

    if (hardware) {
        sum += f.again + (scores ? f.attention : 0);
        spared += (scores ? 1 : again) * f.spared;
    }
    sum -= causal ? spared : 0;
    return w->batch > 0 ? sum * (double)lw_plan_samples(p, w->batch) / (double)w->batch : 0;
}
