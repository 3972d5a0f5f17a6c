/* --overlap-param-gather: the weights of ZeRO-1 and 2 are gathered at the head of the step, bucket
 * by bucket in the order in which forwards use them, and not after the optimizer.
 *
 * The order is that of the first module that uses a bucket; of equal ones the later bucket comes
 * first, because backwards complete buckets in the reverse order. Which buckets a module uses:
 * those of its own parameters and of those that these are tied to. When they are gathered:
 * shared/lower_ops/lower_gathers_ahead.c. Source: NVIDIA/Megatron-LM@00119989
 * megatron/core/distributed/distributed_data_parallel.py, next_param_gather_bucket_group. */
#include <stdlib.h>

#include "shared/base/sort.h"
#include "shared/lower_part/lower_part.h"
#include "shared/numbers/order.h"

bool lw_part_gathers_ahead(const struct lw_part *d)
{
    return d->shards.forward != NULL;
}

struct use {
    int32_t module, unit;
};

LW_COMPARATOR(by_module, struct use, a->module, b->module, b->unit, a->unit)

/* Each parameter's module with the unit that its weights lie in, sorted. */
static int32_t list_uses(const struct lw_part *d, struct use *uses)
{
    const struct lw_workload *w = d->w;
    int32_t n = 0;

    for (int32_t i = 0; i < w->n_params; i++) {
        int32_t unit = d->shards.unit_of_param[w->params[i].tied >= 0 ? w->params[i].tied : i];
        if (unit >= 0)
            uses[n++] = (struct use){w->params[i].module, unit};
    }
    lw_sort(uses, n, by_module);
    return n;
}

enum lw_status lw_part_order_gathers(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    int32_t n_modules = d->w->n_modules, at = 0, turn = 0;
    struct use *uses;

    LW_TAKE(&d->scratch, uses, d->w->n_params, err);
    int32_t n = list_uses(d, uses);
    LW_TAKE(&d->arena, h->forward, h->n_buffers, err);
    LW_TAKE(&d->arena, h->first_unit, n_modules + 1L, err);
    LW_TAKE(&d->arena, h->used_units, n, err);
    for (int32_t m = 0, i = 0; m < n_modules; m++) {
        for (; i < n && uses[i].module == m; i++) {
            struct lw_part_buffer *f = &h->buffers[uses[i].unit];
            if (at > h->first_unit[m] && h->used_units[at - 1] == uses[i].unit)
                continue;
            h->used_units[at++] = uses[i].unit;
            if (f->first_user >= 0)
                continue;
            f->first_user = m;
            f->turn = turn;
            h->forward[turn++] = uses[i].unit;
        }
        h->first_unit[m + 1] = at;
    }
    return LW_OK;
}
