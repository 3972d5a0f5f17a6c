/* Which matrix products a work of the plan has. A module's products are laid side by side by their
 * FLOPs; a work that has a share of the module's time has the products whose middle lies in that
 * share, so that each product belongs to one work. The shapes are those of one rank of the groups
 * that the workload was made for; a plan with other groups has no products. */
#include "shared/lower_part/lower_part.h"
#include "shared/workload/product.h"

struct walk {
    const struct lw_part *d;
    const struct lw_module *m;
    unsigned phases;
    int32_t done[LW_N_PRODUCT_PHASES];
};

/* Of several phases the one of which the smallest part is done. */
static int32_t next(struct walk *w)
{
    int best = -1;

    for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
        if (w->phases >> f & 1 && w->done[f] < w->m->n_products[f] &&
            (best < 0 || (int64_t)w->done[f] * w->m->n_products[best] <
                             (int64_t)w->done[best] * w->m->n_products[f]))
            best = f;
    if (best < 0)
        return -1;
    int32_t i = w->done[best]++;
    return w->m->products[best][best == LW_PRODUCTS_FORWARD ? i : w->m->n_products[best] - 1 - i];
}

void lw_part_add_products(const struct lw_part *d, struct lw_builder *b, int32_t module,
                          unsigned phases, struct lw_share s)
{
    struct walk w = {d, lw_module_at(d->w, module), phases, {0}};
    __int128 total = 0, before = 0;

    if (!lw_products_fit(d->w, d->s))
        return;
    if (lw_has_kernels(d->w, w.m)) {
        lw_kernel_products(d, b, module, phases, s);
        return;
    }
    for (int32_t i = next(&w); i >= 0; i = next(&w))
        total += lw_product_flops(&d->w->products[i]);
    for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
        w.done[f] = 0;
    for (int32_t i = next(&w); i >= 0; i = next(&w)) {
        int64_t flops = lw_product_flops(&d->w->products[i]);
        double middle = ((double)before + (double)flops / 2) / (double)total;
        if (middle * (double)s.of >= (double)s.from && middle * (double)s.of < (double)s.to)
            lw_builder_work_product(b, i);
        before += flops;
    }
}
