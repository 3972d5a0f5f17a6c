/* The matrix products of a workload's kernels, by the shapes that one rank has: one table of those
 * that are different, and for each module a list of indexes by phase. Modules with the same kernels
 * share their lists. */
#include <string.h>

#include "shared/device/kernel_time.h"

/* Of the kernels in their order. */
struct use {
    int32_t kernel, phase, product;
};

struct list {
    struct lw_product *products;
    struct use *uses;
    int64_t products_capacity, uses_capacity;
    int32_t n_products, n_uses, kernel;
    bool no_memory;
};

static void use(struct list *l, const struct lw_product *p, enum lw_product_phase phase)
{
    int32_t i = 0;

    if (l->no_memory || lw_product_check(p, 0, NULL) != LW_OK)
        return;
    while (i < l->n_products && !lw_product_equal(&l->products[i], p))
        i++;
    l->no_memory = lw_reserve(&l->products, &l->products_capacity, i + 1, sizeof *l->products) ||
                   lw_reserve(&l->uses, &l->uses_capacity, l->n_uses + 1, sizeof *l->uses);
    if (l->no_memory)
        return;
    l->products[i] = *p;
    l->n_products += i == l->n_products;
    l->uses[l->n_uses++] = (struct use){l->kernel, (int32_t)phase, i};
}

static void use_work(void *ctx, const struct lw_kernel_work *work)
{
    use(ctx, &work->product, work->phase);
    use(ctx, &work->second, work->phase);
}

static void list_phase(struct lw_workload *w, const struct list *l, int phase, int32_t *room)
{
    int32_t n = 0, at = 0;

    for (int32_t u = 0; u < l->n_uses; u++)
        if (l->uses[u].phase == phase)
            room[n++] = l->uses[u].product;
    /* by first kernel: uses are in the order of kernels */
    for (int32_t i = 0; i < w->n_modules; i++) {
        struct lw_module *m = &w->modules[i];
        int32_t first = 0;
        for (at = 0; at < l->n_uses && l->uses[at].kernel < m->first_kernel; at++)
            first += l->uses[at].phase == phase;
        m->n_products[phase] = 0;
        for (; at < l->n_uses && l->uses[at].kernel < m->first_kernel + m->n_kernels; at++)
            m->n_products[phase] += l->uses[at].phase == phase;
        m->products[phase] = m->n_products[phase] > 0 ? room + first : NULL;
    }
}

static enum lw_status settle(struct lw_workload *w, const struct list *l, struct lw_err *err)
{
    struct lw_product *products;
    int32_t *room;

    if (l->no_memory)
        return lw_fail_nomem(err);
    LW_TAKE(&w->arena, products, l->n_products, err);
    if (l->n_products > 0)
        memcpy(products, l->products, (size_t)l->n_products * sizeof *products);
    for (int phase = 0; phase < LW_N_PRODUCT_PHASES; phase++) {
        LW_TAKE(&w->arena, room, l->n_uses, err);
        list_phase(w, l, phase, room);
    }
    w->products = products;
    w->n_products = l->n_products;
    return LW_OK;
}

enum lw_status lw_kernels_list_products(struct lw_workload *w,
                                        const struct lw_kernel_groups *groups,
                                        struct lw_err *err)
{
    struct list l = {0};

    for (l.kernel = 0; l.kernel < w->n_kernels; l.kernel++)
        lw_kernel_share(&w->kernels[l.kernel], groups, use_work, &l);
    enum lw_status s = settle(w, &l, err);
    if (s == LW_OK)
        w->timed_for = *groups;
    lw_free(l.products);
    lw_free(l.uses);
    return s;
}
