/* FLOPs of a step by the definitions of publications: Narayanan et al., SC'21, appendix, and
 * Korthikanti et al., arXiv 2205.05198, appendix A, count all scores of attention, and 4 forwards
 * where blocks are recomputed; torchtitan, Megatron-Core and PaLM (arXiv 2204.02311, appendix B)
 * differ in what they do with the causal half. Embeddings have no products, norms and activations
 * are not counted. */
#include "analysis/evidence/step_flops.h"

#include "shared/plan/product.h"
#include "shared/plan/strategy.h"
#include "shared/timeline/throughput.h"

/* Forward of one micro-batch. */
static double module_forward(const struct lw_module *m)
{
    return m->forward_flops > 0 ? (double)m->forward_flops : 0;
}

/* Of the products whose operands are parameters: attention's are batched, or in no list. */
static double weight_products(const struct lw_workload *w, const struct lw_module *m)
{
    double sum = 0;

    for (int32_t k = 0; k < m->n_products[LW_PRODUCTS_FORWARD]; k++) {
        const struct lw_product *x = &w->products[m->products[LW_PRODUCTS_FORWARD][k]];
        if (x->batch == 1 || x->grouped)
            sum += (double)lw_product_flops(x);
    }
    return sum;
}

/* Scores and sums over values, whole. */
static double attention(const struct lw_workload *w, const struct lw_module *m)
{
    double rest = module_forward(m) - weight_products(w, m);

    return m->tp_split == LW_TP_BLOCK && m->attention_ps > 0 && rest > 0 ? rest : 0;
}

static bool keeps_scores(const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_modules; i++)
        if (w->modules[i].selective_ps > 0)
            return true;
    return false;
}

struct sums {
    double forward, attention, weights; /* of all modules; products with parameters */
    double again, attention_again;      /* what recomputation does once more */
};

/* Of full recomputation the first recompute_layers blocks of each stage. */
static struct sums sum_modules(const struct lw_plan *p, const struct lw_workload *w)
{
    const enum lw_recompute how = p->strategy->recompute;
    const int64_t most = p->strategy->recompute_layers;
    bool scores = how == LW_RECOMPUTE_SELECTIVE && keeps_scores(w);
    struct sums s = {0};
    int64_t n = 0;

    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = &w->modules[i];
        double of_attention = attention(w, m), forward = module_forward(m);
        bool block = m->tp_split == LW_TP_BLOCK;
        if (i > 0 && p->stage_of[i] != p->stage_of[i - 1])
            n = 0;
        s.forward += forward;
        s.attention += of_attention;
        s.weights += weight_products(w, m);
        bool again = how == LW_RECOMPUTE_FULL && block && (most == 0 || n < most);
        n += block;
        s.again += again ? forward : scores ? of_attention : 0;
        s.attention_again += again || scores ? of_attention : 0;
    }
    return s;
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
    struct sums s = sum_modules(p, w);
    double half = s.attention - (double)w->attention_flops * (double)w->batch;
    double share = s.attention > 0 && half > 0 ? half / s.attention : 0; /* that a mask spares */
    double sum = 3 * s.forward + (hardware ? s.again : 0) - frozen(w) * s.weights;

    if (causal)
        sum -= share * (3 * s.attention + (hardware ? s.attention_again : 0));
    return w->batch > 0 ? sum * (double)lw_plan_samples(p, w->batch) / (double)w->batch : 0;
}
