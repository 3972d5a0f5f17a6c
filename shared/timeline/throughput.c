/* Throughput, arithmetic use and price of a step.
 *
 * Model FLOPs count what the model needs, whatever a run does: of a model over tokens 6 P T for
 * its products with P parameters (Kaplan et al., arXiv 2001.08361, section 2.1), 4 P T with frozen
 * ones, which have no gradient of their own, and for attention three times its forward, causal
 * scores half (PaLM, arXiv 2204.02311, appendix B, counts all). Of other models three times the
 * forward FLOPs of all modules, where these are known. Hardware FLOPs add what recomputation does
 * again: a forward of the blocks, or of attention alone (Korthikanti et al., arXiv 2205.05198,
 * section 5). */
#include "shared/timeline/throughput.h"

#include <math.h>

#include "shared/numbers/checked.h"
#include "shared/plan/op.h"
#include "shared/plan/strategy.h"
#include "shared/text/wrap.h"

static int32_t micro_batches(const struct lw_plan *p, int32_t variant)
{
    struct lw_program g = lw_plan_program(p, variant, 0);
    int32_t most = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (lw_op_class(p->ops[i].kind) == LW_CLASS_COMPUTE && p->ops[i].micro_batch > most)
            most = p->ops[i].micro_batch;
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
    return n * batch * dp;
}

static double active_numel(const struct lw_workload *w)
{
    return (double)(lw_workload_numel(w, false) - w->idle_numel);
}

/* NAN: not known. */
static double forward_flops(const struct lw_workload *w, double samples)
{
    double sum = 0;

    if (w->sample_tokens > 0)
        return 2 * active_numel(w) * (double)w->sample_tokens * samples +
               (double)w->attention_flops * samples;
    for (int32_t i = 0; i < w->n_modules; i++) {
        if (w->modules[i].forward_flops < 0)
            return NAN;
        sum += (double)w->modules[i].forward_flops;
    }
    return w->batch > 0 && sum > 0 ? sum * samples / (double)w->batch : NAN;
}

/* Products for the gradients of frozen parameters, which are not computed. */
static double spared_flops(const struct lw_workload *w, double samples)
{
    double active = active_numel(w), trained = (double)lw_workload_numel(w, true);

    return trained < active ? 2 * (active - trained) * (double)w->sample_tokens * samples : 0;
}

/* Fused attention keeps no scores, so that selective recomputation has nothing to do again. */
static bool recomputes_attention(const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_modules; i++)
        if (w->modules[i].selective_ps > 0)
            return true;
    return false;
}

static bool is_block(const struct lw_module *m)
{
    const int64_t full = m->kept_bytes[LW_RECOMPUTE_FULL];

    return full < 0 || full != m->kept_bytes[LW_RECOMPUTE_NONE];
}

/* Elements of a module that one token uses. Idle elements are the same share of all experts. */
static double module_numel(const struct lw_workload *w, int32_t module)
{
    double own = 0, own_experts = 0, experts = 0;

    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *x = &w->params[i];
        double n = x->tied < 0 ? (double)x->numel : 0;
        experts += x->expert ? n : 0;
        own += x->module == module ? n : 0;
        own_experts += x->module == module && x->expert ? n : 0;
    }
    return experts > 0 ? own - own_experts / experts * (double)w->idle_numel : own;
}

/* Full recomputation: another forward of the blocks, which are the modules that keep less with it,
 * of each part the first --recompute-layers. With tokens the blocks share attention evenly. */
static double blocks_again(const struct lw_plan *p, const struct lw_workload *w, double forward,
                           double samples)
{
    const int64_t layers = p->strategy->recompute_layers;
    double all = 0, again = 0, numel = 0;
    int64_t n = 0, n_blocks = 0, n_again = 0;

    for (int32_t m = 0; m < w->n_modules; m++) {
        if (m > 0 && p->stage_of[m] != p->stage_of[m - 1])
            n = 0;
        all += (double)w->modules[m].forward_flops;
        if (!is_block(&w->modules[m]))
            continue;
        n_blocks++;
        if (layers > 0 && n++ >= layers)
            continue;
        n_again++;
        again += (double)w->modules[m].forward_flops;
        if (w->sample_tokens > 0)
            numel += module_numel(w, m);
    }
    if (w->sample_tokens > 0)
        return n_blocks > 0 ? samples * (2 * numel * (double)w->sample_tokens +
                                         (double)w->attention_flops * (double)n_again /
                                             (double)n_blocks)
                            : 0;
    return forward * again / all;
}

static double recomputed_flops(const struct lw_plan *p, const struct lw_workload *w,
                               double forward, double samples)
{
    const enum lw_recompute how = p->strategy->recompute;

    if (how == LW_RECOMPUTE_NONE)
        return 0;
    if (how == LW_RECOMPUTE_FULL)
        return blocks_again(p, w, forward, samples);
    return recomputes_attention(w) ? (double)w->attention_flops * samples : 0;
}

static double known(struct lw_figure f)
{
    return lw_figure_is_set(f) && f.value > 0 ? f.value : NAN;
}

/* FLOPs of the forward's products with 8-bit operands against those of all others. */
static bool runs_in_8_bits(const struct lw_workload *w)
{
    double eight = 0, others = 0;

    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = &w->modules[i];
        for (int32_t k = 0; k < m->n_products[LW_PRODUCTS_FORWARD]; k++) {
            const struct lw_product *x = &w->products[m->products[LW_PRODUCTS_FORWARD][k]];
            *(x->fp8 ? &eight : &others) +=
                (double)x->batch * (double)x->m * (double)x->n * (double)x->k;
        }
    }
    return eight > others;
}

/* The peak of the type that most of the products' FLOPs are in. */
static void find_peak(struct lw_throughput *t, const struct lw_workload *w,
                      const struct lw_device *d)
{
    bool eight = runs_in_8_bits(w);
    enum lw_dtype dtype = lw_workload_main_dtype(w);

    t->peak_of = eight ? "fp8" : lw_dtype_name(dtype);
    t->peak_flops_per_s = known(eight ? d->fp8_peak_flops : d->peak_flops[dtype]);
}

struct lw_throughput lw_throughput_of(const struct lw_plan *p, const struct lw_workload *w,
                                      const struct lw_cluster *c, lw_ps step)
{
    double s = step > 0 ? (double)step * 1e-12 : NAN;
    struct lw_throughput t = {.n_devices = p->n_ranks, .model_flops = NAN, .hardware_flops = NAN,
                              .samples_per_s = NAN, .tokens_per_s = NAN, .peak_flops_per_s = NAN,
                              .peak_of = ""};

    if (w && w->batch > 0) {
        t.samples = lw_plan_samples(p, w->batch);
        t.tokens = lw_mul_sat(t.samples, w->sample_tokens);
        t.samples_per_s = (double)t.samples / s;
        t.tokens_per_s = t.tokens > 0 ? (double)t.tokens / s : NAN;
        double forward = forward_flops(w, (double)t.samples);
        t.model_flops = 3 * forward - spared_flops(w, (double)t.samples);
        t.hardware_flops = t.model_flops + recomputed_flops(p, w, forward, (double)t.samples);
        if (c)
            find_peak(&t, w, &c->device);
    }
    t.model_flops_per_s = t.model_flops / s / t.n_devices;
    t.hardware_flops_per_s = t.hardware_flops / s / t.n_devices;
    t.mfu = t.model_flops_per_s / t.peak_flops_per_s;
    t.hfu = t.hardware_flops_per_s / t.peak_flops_per_s;
    t.price_per_million_tokens =
        c ? known(c->price_per_device_hour) * t.n_devices / 3600 / t.tokens_per_s * 1e6 : NAN;
    return t;
}

/* --- printing --- */

void lw_throughput_text(const struct lw_throughput *t, FILE *f)
{
    char tokens[96] = "", price[64] = "", used[128] = "";

    if (isnan(t->samples_per_s))
        return;
    if (!isnan(t->tokens_per_s))
        snprintf(tokens, sizeof tokens, ", %.6g tokens/s (%.5g a device)", t->tokens_per_s,
                 t->tokens_per_s / t->n_devices);
    if (!isnan(t->price_per_million_tokens))
        snprintf(price, sizeof price, ", %.4g per million tokens", t->price_per_million_tokens);
    lw_printf_paragraph(f, "throughput: %.6g samples/s%s%s", t->samples_per_s, tokens, price);
    if (isnan(t->model_flops_per_s))
        return;
    if (!isnan(t->mfu))
        snprintf(used, sizeof used, ", MFU %.1f %%, HFU %.1f %% of %.4g TFLOP/s (%s peak)",
                 100 * t->mfu, 100 * t->hfu, t->peak_flops_per_s * 1e-12, t->peak_of);
    lw_printf_paragraph(f, "model FLOPs: %.4g TFLOP/s a device%s", t->model_flops_per_s * 1e-12,
                        used);
}

static void count(struct lw_jsonout *o, const char *key, int64_t n)
{
    LW_JSON(o, key, lw_known_if(n > 0, n));
}

static void real(struct lw_jsonout *o, const char *key, double v)
{
    if (isnan(v))
        lw_jsonout_null(o, key);
    else
        lw_jsonout_double(o, key, v);
}

void lw_throughput_json(struct lw_jsonout *o, const struct lw_throughput *t)
{
    lw_jsonout_object(o, "throughput");
    count(o, "samples_per_step", t->samples);
    count(o, "tokens_per_step", t->tokens);
    real(o, "samples_per_s", t->samples_per_s);
    real(o, "tokens_per_s", t->tokens_per_s);
    real(o, "samples_per_s_per_device", t->samples_per_s / t->n_devices);
    real(o, "tokens_per_s_per_device", t->tokens_per_s / t->n_devices);
    real(o, "model_flops_per_step", t->model_flops);
    real(o, "hardware_flops_per_step", t->hardware_flops);
    real(o, "model_tflops_per_s_per_device", t->model_flops_per_s * 1e-12);
    real(o, "hardware_tflops_per_s_per_device", t->hardware_flops_per_s * 1e-12);
    real(o, "peak_tflops_per_s_per_device", t->peak_flops_per_s * 1e-12);
    real(o, "mfu", t->mfu);
    real(o, "hfu", t->hfu);
    real(o, "price_per_million_tokens", t->price_per_million_tokens);
    lw_jsonout_end(o);
}
