/* lapwing cost --gemm: a product by its shape, with what bounds it. */
#include "sim/cost_query/gemm_cost.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shared/text/table.h"
#include "shared/device/burst_time.h"
#include "shared/device/device_time.h"
#include "shared/text/wrap.h"

enum { LARGEST = 1 << 24 };

static enum lw_status parse(const char *text, struct lw_product *p, struct lw_err *err)
{
    int64_t v[4] = {0};
    int n = 0;

    for (const char *at = text; n < 4; n++) {
        char *end;
        v[n] = strtoll(at, &end, 10);
        p->grouped = p->grouped || (n == 0 && *end == 'x');
        if (end == at || v[n] < 1 || v[n] > LARGEST || (*end && *end != ',' && *end != 'x'))
            break;
        if (*end == 'x' && n > 0)
            break;
        if (!*end) {
            n++;
            break;
        }
        at = end + 1;
    }
    if (n != 4 && (n != 3 || p->grouped))
        return lw_fail(err, LW_EINVAL,
                       "--gemm '%s': expected M,N,K, BATCH,M,N,K or, for experts, GROUPSxM,N,K, "
                       "each from 1 to %d", text, LARGEST);
    const int64_t *s = n == 4 ? v + 1 : v;
    p->batch = n == 4 ? v[0] : 1;
    p->m = s[0];
    p->n = s[1];
    p->k = s[2];
    return LW_OK;
}

enum lw_status sim_gemm_check(const char *shape, struct lw_err *err)
{
    struct lw_product p = {0};

    return parse(shape, &p, err);
}

static const char *bound_by(const struct lw_product_time *t)
{
    return lw_bound_word(lw_product_bound(t));
}

/* A product and its time, for whoever prints it. */
struct answer {
    const struct lw_device *device;
    const struct lw_product *product;
    const struct lw_product_time *time;
    const char *dtype, *clock, *source;
    double flops, peak;
};

static void print_json(const struct answer *a, FILE *f)
{
    const struct lw_product *p = a->product;
    const struct lw_product_time *t = a->time;
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "device", a->device->kind, "batch", p->batch, "grouped", p->grouped, "m", p->m,
            "n", p->n, "k", p->k, "dtype", a->dtype, "time_ns", lw_ps_to_ns(t->time),
            "flops", a->flops);
    LW_JSON(&o, "flops_per_s", a->flops / ((double)t->time * 1e-12), "tile_m", t->tile_m,
            "tile_n", t->tile_n, "split_k", t->split_k, "n_tiles", t->n_tiles,
            "n_waves", t->n_waves, "bound_by", bound_by(t), "share_of_peak", t->rate_share,
            "source", a->source);
    lw_jsonout_string(&o, "clock", a->clock);
    lw_jsonout_end(&o);
}

static enum lw_status print_csv(const struct answer *a, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"batch", "m", "n", "k", "time_ns", "flops_per_s"};
    const struct lw_product *p = a->product;
    struct lw_table *x = lw_table_new(6, titles);

    LW_CELLS(x, p->batch, p->m, p->n, p->k, lw_ps_to_ns(a->time->time));
    lw_table_cell(x, "%.6g", a->flops / ((double)a->time->time * 1e-12));
    return lw_table_end(x, f, LW_TABLE_CSV, err);
}

static void print_text(const struct answer *a, FILE *f)
{
    const struct lw_product_time *t = a->time;
    double rate = a->flops / ((double)t->time * 1e-12);
    char time[32];

    lw_printf_paragraph(f, "%s, %s%s: %s, %.4g TFLOP/s, %.1f %% of the peak", a->device->kind,
                        a->dtype, strcmp(a->clock, "burst") == 0 ? ", in a burst" : "",
                        lw_format_ps(time, t->time), rate / 1e12, 100 * rate / a->peak);
    lw_printf_paragraph(f,
                        "%" PRId64 " tile%s of %d x %d, k in %d: %" PRId64
                        " wave%s on %.0f SMs at %.3g of the peak; products %.4g us, memory %.4g "
                        "us, %s %.3g us; bound by %s",
                        t->n_tiles, t->n_tiles == 1 ? "" : "s", t->tile_m, t->tile_n,
                        t->split_k, t->n_waves, t->n_waves == 1 ? "" : "s",
                        a->device->n_sms.value, t->rate_share, t->compute_s * 1e6,
                        t->memory_s * 1e6,
                        strcmp(a->clock, "burst") == 0 ? "casts and launch" : "launch",
                        t->overhead_s * 1e6, bound_by(t));
    lw_printf_paragraph(f, "source: %s", a->source);
}

static enum lw_status print_answer(const struct answer *a, enum lw_format format, FILE *f,
                                   struct lw_err *err)
{
    if (format == LW_FORMAT_CSV)
        return print_csv(a, f, err);
    if (format == LW_FORMAT_JSON)
        print_json(a, f);
    else
        print_text(a, f);
    return LW_OK;
}

static double flops_of(const struct lw_product *p)
{
    return 2.0 * (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
}

enum lw_status sim_gemm_print(const struct lw_cluster *c, const char *shape, enum lw_dtype dtype,
                              enum lw_format format, FILE *f, struct lw_err *err)
{
    struct lw_product p = {.dtype = dtype};

    LW_TRY(parse(shape, &p, err));
    if (!lw_device_by_shape(&c->device, dtype))
        return lw_fail(err, LW_ENOTSUP,
                       "device '%s' of cluster '%s' has no figures for products of %s by shape "
                       "(gemm_sustained, gemm_fill, n_sms, peak_flops.%s); choose another cluster "
                       "(-c) or type (--dtype)%s", c->device.kind, c->name,
                       lw_dtype_name(dtype), lw_dtype_name(dtype),
                       lw_burst_of(c->device.kind) ? ", or --burst" : "");
    struct lw_product_time t = lw_product_explain(&c->device, &p);
    return print_answer(&(struct answer){&c->device, &p, &t, lw_dtype_name(dtype), "sustained",
                                         c->device.gemm_sustained.source, flops_of(&p),
                                         c->device.peak_flops[dtype].value}, format, f, err);
}

enum lw_status sim_gemm_burst_print(const struct lw_cluster *c, const char *shape,
                                    const char *operands, enum lw_format format, FILE *f,
                                    struct lw_err *err)
{
    struct lw_product p = {.dtype = LW_BF16};
    const struct lw_burst *b = lw_burst_of(c->device.kind);
    int o = lw_operands_parse(operands);

    LW_TRY(parse(shape, &p, err));
    if (o < 0)
        return lw_fail(err, LW_EINVAL, "--burst --dtype '%s': expected bf16, f16, fp8, fp8_block "
                                       "or nvfp4", operands);
    if (p.grouped)
        return lw_fail(err, LW_ENOTSUP, "--gemm '%s': products of experts are timed at the "
                                        "sustained clock alone: leave out --burst", shape);
    struct lw_product_time t = {.time = 0};
    if (b)
        t = lw_burst_product(&c->device, b, &p, (enum lw_operands)o);
    if (t.time <= 0)
        return lw_fail(err, LW_ENOTSUP,
                       "no products of %s on '%s' (cluster '%s') are published; leave out --burst, "
                       "or choose a cluster of A100, H100, H200, B200, B300, GB200, GB300 or L40S "
                       "(8 bits: not A100; nvfp4: Blackwell)", operands, c->device.kind, c->name);
    return print_answer(&(struct answer){&c->device, &p, &t, operands, "burst", LW_BURST_SOURCE,
                                         flops_of(&p),
                                         lw_burst_peak(&c->device, (enum lw_operands)o)},
                        format, f, err);
}
