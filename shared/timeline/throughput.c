/* Throughput, arithmetic use and price of a step: what it yields, by its time. */
#include "shared/timeline/throughput.h"

#include <math.h>

#include "shared/numbers/dtype.h"
#include "shared/plan/step_yield.h"
#include "shared/text/wrap.h"

static double known(struct lw_figure f)
{
    return lw_figure_is_set(f) && f.value > 0 ? f.value : NAN;
}

/* The peak of the type that most of the products' FLOPs are in. */
static void find_peak(struct lw_throughput *t, const struct lw_step_yield *y,
                      const struct lw_device *d)
{
    t->peak_of = lw_yield_type(y);
    t->peak_flops_per_s = known(y->fp4    ? d->fp4_peak_flops
                                : y->fp8  ? d->fp8_peak_flops
                                : y->tf32 ? d->tf32_peak_flops
                                          : d->peak_flops[y->dtype]);
}

struct lw_throughput lw_throughput_of(const struct lw_plan *p, const struct lw_cluster *c,
                                      lw_ps step)
{
    double s = step > 0 ? (double)step * 1e-12 : NAN;
    const struct lw_step_yield *y = &p->yield;
    struct lw_throughput t = {.n_devices = p->n_ranks, .model_flops = NAN, .hardware_flops = NAN,
                              .samples_per_s = NAN, .tokens_per_s = NAN, .peak_flops_per_s = NAN,
                              .peak_of = ""};

    if (y->samples > 0) {
        t.samples = y->samples;
        t.tokens = y->tokens;
        t.samples_per_s = (double)t.samples / s;
        t.tokens_per_s = t.tokens > 0 ? (double)t.tokens / s : NAN;
        t.model_flops = y->model_flops > 0 ? y->model_flops : NAN;
        t.hardware_flops = y->hardware_flops > 0 ? y->hardware_flops : NAN;
        if (c)
            find_peak(&t, y, &c->device);
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

const char *lw_format_rate(char *buf, size_t size, double per_s)
{
    snprintf(buf, size, per_s < 1e5 ? "%.5g" : "%.0f", per_s);
    return buf;
}

void lw_throughput_text(const struct lw_throughput *t, FILE *f)
{
    char tokens[96] = "", price[64] = "", used[128] = "", all[32], device[32];

    if (isnan(t->samples_per_s))
        return;
    if (!isnan(t->tokens_per_s))
        snprintf(tokens, sizeof tokens, ", %s tokens/s (%s a device)",
                 lw_format_rate(all, sizeof all, t->tokens_per_s),
                 lw_format_rate(device, sizeof device, t->tokens_per_s / t->n_devices));
    if (!isnan(t->price_per_million_tokens))
        snprintf(price, sizeof price, ", %.4g per million tokens", t->price_per_million_tokens);
    lw_printf_paragraph(f, "throughput: %s samples/s%s%s",
                        lw_format_rate(all, sizeof all, t->samples_per_s), tokens, price);
    if (isnan(t->model_flops_per_s))
        return;
    if (!isnan(t->mfu))
        snprintf(used, sizeof used, ", MFU %.1f %%, HFU %.1f %% of %.5g TFLOP/s (%s peak)",
                 100 * t->mfu, 100 * t->hfu, t->peak_flops_per_s * 1e-12, t->peak_of);
    lw_printf_paragraph(f, "model FLOPs: %.4g TFLOP/s a device%s", t->model_flops_per_s * 1e-12,
                        used);
}

static void count(struct lw_jsonout *o, const char *key, int64_t n)
{
    LW_JSON(o, key, lw_known_if(n > 0, n));
}

void lw_throughput_json(struct lw_jsonout *o, const struct lw_throughput *t)
{
    lw_jsonout_object(o, "throughput");
    count(o, "samples_per_step", t->samples);
    count(o, "tokens_per_step", t->tokens);
    lw_jsonout_double(o, "samples_per_s", t->samples_per_s);
    lw_jsonout_double(o, "tokens_per_s", t->tokens_per_s);
    lw_jsonout_double(o, "samples_per_s_per_device", t->samples_per_s / t->n_devices);
    lw_jsonout_double(o, "tokens_per_s_per_device", t->tokens_per_s / t->n_devices);
    lw_jsonout_double(o, "model_flops_per_step", t->model_flops);
    lw_jsonout_double(o, "hardware_flops_per_step", t->hardware_flops);
    lw_jsonout_double(o, "model_tflops_per_s_per_device", t->model_flops_per_s * 1e-12);
    lw_jsonout_double(o, "hardware_tflops_per_s_per_device", t->hardware_flops_per_s * 1e-12);
    lw_jsonout_double(o, "peak_tflops_per_s_per_device", t->peak_flops_per_s * 1e-12);
    lw_jsonout_double(o, "mfu", t->mfu);
    lw_jsonout_double(o, "hfu", t->hfu);
    lw_jsonout_double(o, "price_per_million_tokens", t->price_per_million_tokens);
    lw_jsonout_end(o);
}
