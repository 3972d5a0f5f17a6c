/* What a step yields: samples, tokens, FLOPs.
 *
 * Model FLOPs count what the model needs, whatever a run does: of a model over tokens 6 P T for its
 * products with P parameters, each as often as a token's products use it (Kaplan et al., arXiv
 * 2001.08361, section 2.1), 4 P T with frozen ones, which have no gradient of their own, and for
 * attention three times its forward, causal scores half (PaLM, arXiv 2204.02311, appendix B, counts
 * all). Of other models three times the forward FLOPs of all modules, where these are known, causal
 * scores half; so of a decoder that reads an encoder, whose parameters see the tokens of one side.
 * Hardware FLOPs add what recomputation does again: a forward of the blocks, or of attention alone
 * (Korthikanti et al., arXiv 2205.05198, section 5). Where experts have a capacity, model FLOPs
 * count every copy of a token, and hardware FLOPs those that are computed: without dropped ones,
 * with padding. */
#include "shared/plan/step_yield.h"

#include <math.h>

#include "shared/base/arena.h"
#include "shared/numbers/checked.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

static int32_t micro_batches(const struct lw_plan *p, int32_t variant)
{
    struct lw_program g = lw_plan_program(p, variant, 0);
    int32_t most = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (lw_op_class(lw_op_at(p, i).kind) == LW_CLASS_COMPUTE &&
            lw_op_at(p, i).micro_batch > most)
            most = lw_op_at(p, i).micro_batch;
    return most + 1;
}

int64_t lw_plan_samples(const struct lw_plan *p, int64_t batch)
{
    int64_t n = 0;
    int32_t dp = p->strategy->dp > 0 ? p->strategy->dp : 1;

    for (int32_t pass = p->repeat_from; pass < p->n_passes; pass++) {
        n += micro_batches(p, p->pass_variant[pass]);
        if (p->variants[p->pass_variant[pass]].ends_step)
            break;
    }
    return lw_mul_sat(lw_mul_sat(n, batch), dp);
}

/* A parameter counts as often as a token's products use it. */
static double active_numel(const struct lw_workload *w)
{
    double reused = 0;

    for (int32_t i = 0; i < w->n_modules; i++)
        reused += (double)lw_module_at(w, i)->reused_numel;
    return (double)(lw_workload_numel(w, false) - w->idle_numel) + reused;
}

/* Each parameter sees every token of a sample. */
static bool counts_tokens(const struct lw_workload *w)
{
    return w->sample_tokens > 0 && w->from.model.decoder_seq == 0;
}

/* Of the forward of a sample's scores, what a causal mask makes needless. */
static double masked_flops(const struct lw_workload *w)
{
    return w->score_flops > w->attention_flops ? (double)(w->score_flops - w->attention_flops) : 0;
}

/* NAN: not known. */
static double forward_flops(const struct lw_workload *w, double samples)
{
    double sum = 0;

    if (counts_tokens(w))
        return 2 * active_numel(w) * (double)w->sample_tokens * samples +
               (double)w->attention_flops * samples;
    for (int32_t i = 0; i < w->n_modules; i++) {
        if (lw_module_at(w, i)->forward_flops < 0)
            return NAN;
        sum += (double)lw_module_at(w, i)->forward_flops;
    }
    return w->batch > 0 && sum > 0 ? sum * samples / (double)w->batch - masked_flops(w) * samples
                                   : NAN;
}

/* Products for the gradients of frozen parameters, which are not computed. Where some are frozen,
 * so are those that are used again. By modules, of all products but attention's the frozen share;
 * without tokens none. forward: of the samples. */
static double spared_flops(const struct lw_workload *w, double forward, double samples)
{
    double active = active_numel(w), trained = (double)lw_workload_numel(w, true);
    bool frozen = trained < (double)(lw_workload_numel(w, false) - w->idle_numel);

    if (!frozen || w->sample_tokens == 0)
        return 0;
    if (counts_tokens(w))
        return 2 * (active - trained) * (double)w->sample_tokens * samples;
    return (1 - trained / active) * (forward - (double)w->attention_flops * samples);
}

/* Fused attention keeps no scores, so that selective recomputation has nothing to do again. */
static bool recomputes_attention(const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_modules; i++)
        if (lw_module_at(w, i)->selective_ps > 0)
            return true;
    return false;
}

static bool is_block(const struct lw_module *m)
{
    const int64_t full = m->kept_bytes[LW_RECOMPUTE_FULL];

    return full < 0 || full != m->kept_bytes[LW_RECOMPUTE_NONE];
}

/* Elements of each module that one token uses. Idle elements are the same share of all experts. */
static void count_active(const struct lw_workload *w, double *of_module)
{
    double experts = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        if (lw_param_at(w, i).expert && lw_param_at(w, i).tied < 0)
            experts += (double)lw_param_at(w, i).numel;
    double used = experts > 0 ? 1 - (double)w->idle_numel / experts : 1;
    for (int32_t i = 0; i < w->n_modules; i++)
        of_module[i] = (double)lw_module_at(w, i)->reused_numel;
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *x = LW_PARAM(w, i);
        if (x->tied < 0)
            of_module[x->module] += (double)x->numel * (x->expert ? used : 1);
    }
}

/* Of the blocks of a part, whether full recomputation computes the n-th again. */
static bool is_again(const struct lw_strategy *s, int64_t n)
{
    const int64_t layers = s->recompute_layers;

    if (layers == 0 || s->recompute_method == LW_RECOMPUTE_UNIFORM)
        return true;
    return s->recompute_method == LW_RECOMPUTE_EVERY ? (n + 1) % layers == 0 : n < layers;
}

/* Forward of a product, of all copies of tokens or of those that are computed. */
static double product_flops(const struct lw_kernel *k, bool computed)
{
    double batch = k->experts > 0 || k->batch < 1 ? 1 : (double)k->batch;
    int64_t rows = computed && k->experts > 0 ? lw_expert_copies(k->m, k->capacity) : k->m;

    return 2 * batch * (double)rows * (double)k->n * (double)k->k;
}

/* What a capacity adds to the forward and to both gradients of a sample (below 0: it drops copies),
 * without recomputation. */
struct capacity {
    double forward, all;
};

static struct capacity capacity_of(const struct lw_workload *w, int32_t module)
{
    const struct lw_module *m = lw_module_at(w, module);
    struct capacity sum = {0};

    for (int32_t j = 0; j < m->n_kernels; j++) {
        const struct lw_kernel *k = &w->kernels[m->first_kernel + j];
        if (k->kind != LW_KERNEL_GEMM || k->experts == 0 || k->capacity == 0)
            continue;
        double more = (product_flops(k, true) - product_flops(k, false)) / (double)w->batch;
        sum.forward += more;
        sum.all += more * (k->trained ? 3 : 2);
    }
    return sum;
}

static double capacity_flops(const struct lw_workload *w)
{
    double sum = 0;

    for (int32_t i = 0; i < w->n_modules; i++)
        sum += capacity_of(w, i).all;
    return sum;
}

/* Products, but for attention's, of the parts that are named (--recompute-modules). */
static double parts_again(const struct lw_workload *w)
{
    double sum = 0;

    for (int32_t i = 0; i < w->n_modules; i++)
        for (int32_t j = 0; j < lw_module_at(w, i)->n_kernels; j++) {
            const struct lw_kernel *k = &w->kernels[lw_module_at(w, i)->first_kernel + j];
            if (k->again && k->kind == LW_KERNEL_GEMM && !k->attention)
                sum += product_flops(k, true);
        }
    return w->batch > 0 ? sum / (double)w->batch : 0;
}

/* Of a module's forward, products that full recomputation leaves out, of one micro-batch. */
static double products_left_out(const struct lw_plan *p, const struct lw_workload *w,
                                const struct lw_module *m)
{
    bool any = lw_unrepeated_ps(p->strategy, m) > 0;
    double sum = 0;

    for (int32_t j = m->first_kernel; any && j < m->first_kernel + m->n_kernels; j++)
        if (w->kernels[j].unrepeated && w->kernels[j].kind == LW_KERNEL_GEMM)
            sum += product_flops(&w->kernels[j], true);
    return sum;
}

/* Full recomputation: another forward of the blocks, which are the modules that keep less with it,
 * of each part those of --recompute-layers. By tokens the blocks share attention evenly,
 * by modules what a causal mask spares in proportion to their FLOPs.
 * active[n_modules]: elements that one token uses. */
static double blocks_again(const struct lw_plan *p, const struct lw_workload *w,
                           const double *active, double samples)
{
    double blocks = 0, again = 0, numel = 0, capacity = 0, left_out = 0;
    int64_t n = 0, n_blocks = 0, n_again = 0;

    for (int32_t m = 0; m < w->n_modules; m++) {
        if (m > 0 && p->stage_of[m] != p->stage_of[m - 1])
            n = 0;
        if (!is_block(lw_module_at(w, m)))
            continue;
        n_blocks++;
        blocks += (double)lw_module_at(w, m)->forward_flops;
        if (!is_again(p->strategy, n++))
            continue;
        n_again++;
        again += (double)lw_module_at(w, m)->forward_flops;
        numel += active[m];
        capacity += capacity_of(w, m).forward;
        left_out += products_left_out(p, w, lw_module_at(w, m)) / (double)w->batch;
    }
    if (counts_tokens(w))
        return n_blocks > 0 ? samples * (2 * numel * (double)w->sample_tokens +
                                         (capacity - left_out) +
                                         (double)w->attention_flops * (double)n_again /
                                             (double)n_blocks)
                            : 0;
    double masked = blocks > 0 ? masked_flops(w) * again / blocks : 0;
    return again * samples / (double)w->batch - (masked + left_out) * samples;
}

static double recomputed_flops(const struct lw_plan *p, const struct lw_workload *w,
                               const double *active, double samples)
{
    const enum lw_recompute how = p->strategy->recompute;

    if (how == LW_RECOMPUTE_NONE)
        return 0;
    if (how == LW_RECOMPUTE_FULL)
        return blocks_again(p, w, active, samples);
    if (p->strategy->again_parts != 0)
        return samples * (parts_again(w) +
                          (p->strategy->again_parts & LW_AGAIN_BIT(LW_AGAIN_CORE_ATTN)
                               ? (double)w->attention_flops : 0));
    return recomputes_attention(w) ? (double)w->attention_flops * samples : 0;
}

/* Multiply-adds of the forward that are counted and no product: convolutions, not scans. */
static void add_counted(const struct lw_workload *w, const struct lw_module *m, double *of,
                        double *tf32)
{
    for (int32_t i = m->first_kernel; i < m->first_kernel + m->n_kernels; i++) {
        const struct lw_kernel *k = &w->kernels[i];
        double work = (double)k->flops[LW_PRODUCTS_FORWARD] / 2;
        if (k->kind != LW_KERNEL_COUNTED || k->scan)
            continue;
        of[k->dtype] += work;
        *tf32 += k->tf32 ? work : 0;
    }
}

/* The type that most FLOPs of the forward's products are in, narrower operands apart; that of the
 * parameters where no product is known. */
static void find_type(const struct lw_workload *w, struct lw_step_yield *y)
{
    double narrow = 0, four = 0, tf32 = 0, of[LW_N_DTYPES] = {0};
    enum lw_dtype most = lw_workload_main_dtype(w);

    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = lw_module_at(w, i);
        for (int32_t k = 0; k < m->n_products[LW_PRODUCTS_FORWARD]; k++) {
            const struct lw_product *x = &w->products[m->products[LW_PRODUCTS_FORWARD][k]];
            double work = (double)x->batch * (double)x->m * (double)x->n * (double)x->k;
            *(x->fp8 ? &narrow : &of[x->dtype]) += work;
            four += x->fp4 ? work : 0;
            tf32 += x->tf32 ? work : 0;
        }
        add_counted(w, m, of, &tf32);
    }
    for (int t = 0; t < LW_N_DTYPES; t++)
        if (of[t] > of[most])
            most = (enum lw_dtype)t;
    y->dtype = (uint8_t)most;
    y->fp8 = narrow > of[most];
    y->fp4 = y->fp8 && 2 * four > narrow;
    y->tf32 = !y->fp8 && most == LW_F32 && 2 * tf32 > of[most];
}

const char *lw_yield_type(const struct lw_step_yield *y)
{
    return y->fp4    ? "nvfp4"
           : y->fp8  ? "fp8"
           : y->tf32 ? "tf32"
                     : lw_dtype_name((enum lw_dtype)y->dtype);
}

/* 0 in place of NAN: files hold no NAN. */
static double known(double flops)
{
    return isnan(flops) ? 0 : flops;
}

enum lw_status lw_plan_count_yield(struct lw_plan *p, const struct lw_workload *w,
                                   struct lw_err *err)
{
    struct lw_step_yield y = {.samples = 0};

    find_type(w, &y);
    p->yield = y;
    if (w->batch <= 0)
        return LW_OK;
    double *active = lw_calloc((size_t)w->n_modules, sizeof *active);
    if (!active)
        return lw_fail_nomem(err);
    count_active(w, active);
    y.samples = lw_plan_samples(p, w->batch);
    y.tokens = lw_mul_sat(y.samples, w->sample_tokens);
    double n = (double)y.samples, forward = forward_flops(w, n);
    double model = 3 * forward - spared_flops(w, forward, n);
    y.model_flops = known(model);
    double capacity = counts_tokens(w) ? n * capacity_flops(w) : 0; /* else part of forward */
    y.hardware_flops = known(model + capacity + recomputed_flops(p, w, active, n));
    lw_free(active);
    p->yield = y;
    return LW_OK;
}
