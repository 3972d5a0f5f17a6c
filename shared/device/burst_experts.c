/* Experts in bursts.
 *
 * One product of all experts to 2 inter / tp columns, the gate between, one product back. The
 * products are those of shared/device/burst_time.c with one matrix for each expert; a grouped
 * kernel's tiles are fewer and its rows gathered, so that products and memory take a factor of what
 * they take in single products. Beside them rows are copied to their experts and added up again,
 * and the gate reads and writes inner values: passes over the memory, at the bandwidth of the
 * device. With several ranks some kernels (SGLang's) pass the rows of all ranks of the group,
 * whatever part of them is the rank's.
 *
 * The figures are fits on the shapes of public measurements (traces/clusters/fit_burst.py),
 * of an even load. Not modelled: uneven loads; the choice of experts. */
#include "shared/device/burst_experts.h"

#include "shared/numbers/checked.h"
#include "shared/numbers/median.h"

static int64_t divided(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

struct lw_expert_share lw_expert_share_of(const struct lw_expert_layer *e)
{
    int64_t rows = lw_mul_sat(e->tokens, e->topk) / e->ep, here = divided(e->n_experts, e->ep);
    int64_t used = rows < here ? rows : here, each = used > 0 ? divided(rows, used) : 0;
    int64_t inter = divided(e->inter, e->tp);

    return (struct lw_expert_share){
        .rows = rows, .used = used, .each = each, .inter = inter,
        .to = {.batch = used, .m = each, .n = lw_mul_sat(2, inter), .k = e->hidden,
               .dtype = LW_BF16, .out_size = 2},
        .back = {.batch = used, .m = each, .n = e->hidden, .k = inter, .dtype = LW_BF16,
                 .out_size = 2}};
}

static double in_framework(const struct lw_device *d, const struct lw_burst_experts *f,
                           const struct lw_expert_layer *e, const struct lw_product_time t[2])
{
    struct lw_expert_share s = lw_expert_share_of(e);
    double bandwidth = d->memory_bytes_per_s.value, rows = (double)s.rows, products = 0;
    double others = (double)e->tokens * (double)e->topk - rows;

    for (int i = 0; i < 2; i++)
        products += lw_burst_both(t[i].compute_s * f->products, t[i].memory_s * f->memory);
    return products + f->overhead_s +
           2 *
               (f->rows * rows * (double)e->hidden + f->inner * rows * (double)s.inter +
                f->others * others * (double)e->hidden) /
               bandwidth;
}

lw_ps lw_burst_experts_time(const struct lw_device *d, const struct lw_burst *b,
                            const struct lw_expert_layer *e, enum lw_operands o, unsigned servers)
{
    struct lw_expert_share s = lw_expert_share_of(e);
    const struct lw_product_time t[2] = {lw_burst_product(d, b, &s.to, o),
                                         lw_burst_product(d, b, &s.back, o)};
    int64_t times[LW_N_SERVERS];
    int n = 0;

    if (t[0].time <= 0 || t[1].time <= 0)
        return 0;
    if (o != LW_OPERANDS_BF16) {
        const struct lw_burst_experts *f = &b->fastest_experts[o];
        return f->products > 0 ? lw_ps_from_seconds(in_framework(d, f, e, t)) : 0;
    }
    for (int i = 0; i < LW_N_SERVERS; i++)
        if ((servers == 0 || (servers >> i & 1)) && b->experts[i].products > 0)
            times[n++] = lw_ps_from_seconds(in_framework(d, &b->experts[i], e, t));
    return lw_median(times, n);
}
