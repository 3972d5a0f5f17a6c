/* The matrix products of a model's modules, by shape: one table of those that are different, and
 * for each module a list of indexes by phase. */
#include <string.h>

#include "traces/models/models_build.h"

static void use(struct traces_builder *b, const struct lw_product *p, enum lw_product_phase phase)
{
    int32_t i = 0;

    if (b->no_memory || lw_product_check(p, 0, NULL) != LW_OK)
        return;
    while (i < b->w.n_products && !lw_product_equal(&b->products[i], p))
        i++;
    b->no_memory = lw_reserve(&b->products, &b->products_capacity, i + 1, sizeof *b->products) ||
                   lw_reserve(&b->uses, &b->uses_capacity, b->n_uses + 1, sizeof *b->uses);
    if (b->no_memory)
        return;
    b->products[i] = *p;
    b->w.n_products += i == b->w.n_products;
    b->uses[b->n_uses++] = (struct traces_product){b->w.n_modules - 1, (int32_t)phase, i};
}

void traces_builder_products(struct traces_builder *b, const struct traces_cost *c)
{
    use(b, &c->forward, LW_PRODUCTS_FORWARD);
    use(b, &c->input, LW_PRODUCTS_INPUT);
    use(b, &c->second_input, LW_PRODUCTS_INPUT);
    use(b, &c->weight, LW_PRODUCTS_WEIGHT);
}

static void list(struct traces_builder *b, int phase, int32_t *room)
{
    int32_t at = 0;

    for (int64_t i = 0; i < b->n_uses; i++) {
        struct lw_module *m = &b->w.modules[b->uses[i].module];
        if (b->uses[i].phase != phase)
            continue;
        if (m->n_products[phase]++ == 0)
            m->products[phase] = room + at;
        room[at++] = b->uses[i].product;
    }
}

void traces_builder_settle_products(struct traces_builder *b)
{
    struct lw_workload *w = &b->w;

    w->products = lw_arena_alloc(&w->arena, w->n_products, sizeof *w->products);
    w->products_tp = b->shape.tensor > 1 ? (int32_t)b->shape.tensor : 0;
    w->products_cp = b->shape.context > 1 ? (int32_t)b->shape.context : 0;
    b->no_memory = b->no_memory || !w->products;
    if (!b->no_memory && w->n_products > 0)
        memcpy(w->products, b->products, (size_t)w->n_products * sizeof *w->products);
    for (int phase = 0; phase < LW_N_PRODUCT_PHASES && !b->no_memory; phase++) {
        int32_t *room = lw_arena_alloc(&w->arena, b->n_uses, sizeof *room);
        b->no_memory = !room;
        if (room)
            list(b, phase, room);
    }
}
