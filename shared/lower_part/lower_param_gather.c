/* --overlap-param-gather: the weights of ZeRO-1 and 2 are gathered at the head of the step, bucket
 * by bucket in the order in which forwards use them, and not after the optimizer.
 *
 * The order is that of the first module that uses a bucket; of equal ones the later bucket comes
 * first, because backwards complete buckets in the reverse order. Which buckets a module uses:
 * those of its own parameters and of those that these are tied to. When they are gathered:
 * shared/lower_ops/lower_gathers_ahead.c.
 *
 * When, in a module of several layers: where the parameter's kernel begins. Without kernels a layer
 * begins as long after the module as its gradients are ready before the end of the
 * module's backward, each against its own length; where the workload does not say when gradients
 * are ready, all are used from the start. The first use of a module is its start.
 *
 * Source: NVIDIA/Megatron-LM@00119989 megatron/core/distributed/distributed_data_parallel.py,
 * next_param_gather_bucket_group; enable_forward_pre_hook: a hook on every module that has
 * parameters of its own. */
#include <stdlib.h>

#include "shared/base/sort.h"
#include "shared/lower_part/lower_part.h"
#include "shared/numbers/order.h"

bool lw_part_gathers_ahead(const struct lw_part *d)
{
    return d->shards.forward != NULL;
}

bool lw_part_gathers_on_demand(const struct lw_strategy *s)
{
    return s->pp > 1 && s->prefetch < 0 && (!s->align_param_gather || s->chunks == 1);
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
        const struct lw_param *p = LW_PARAM(w, i);
        int32_t unit = d->shards.unit_of_param[p->tied >= 0 ? p->tied : i];
        if (unit >= 0)
            uses[n++] = (struct use){p->module, unit};
    }
    lw_sort(uses, n, by_module);
    return n;
}

/* When the forward of the module begins with a parameter whose gradient is ready `rest` before the
 * end of a backward of such a length. A gradient of another module's has no kernel here. */
static lw_ps start_of(const struct lw_part *d, int32_t param, int32_t module, lw_ps rest,
                      lw_ps length)
{
    const struct lw_workload *w = d->w;
    const struct lw_module *m = lw_module_at(w, module);

    if (lw_has_kernels(w, m) && w->grad_kernel && lw_param_at(w, param).module == module)
        return lw_kernel_start(w, m, w->grad_kernel[param]);
    return (lw_ps)((__int128)m->forward_ps * rest / length);
}

/* at[n_params]: when the forward of a parameter's module first uses it; the backward's windows are
 * mirrored. */
static void find_starts(const struct lw_part *d, lw_ps *at)
{
    const struct lw_backward *back = &d->back;

    for (int32_t i = 0, end; i < back->n_stretches; i = end) {
        const struct lw_stretch *s = &back->stretches[i];
        const int32_t m = s->module;
        for (end = i; end < back->n_stretches && back->stretches[end].module == m;)
            end++;
        lw_ps last = back->stretches[end - 1].end, length = last - s->start;
        for (; s < &back->stretches[end]; s++)
            for (int32_t r = s->first_ready; length > 0 && r < s->first_ready + s->n_ready; r++)
                at[back->ready[r]] = start_of(d, back->ready[r], m, last - s->end, length);
    }
}

/* Of a module: its parameters' first uses, by unit; the earliest is the module's start. */
static void find_uses(struct lw_part *d, const lw_ps *at)
{
    struct lw_part_shards *h = &d->shards;
    const struct lw_workload *w = d->w;

    for (int32_t u = 0; u < h->first_unit[w->n_modules]; u++)
        h->used_at[u] = INT64_MAX;
    for (int32_t i = 0; i < w->n_params; i++) {
        int32_t unit = h->unit_of_param[lw_param_at(w, i).tied >= 0 ? lw_param_at(w, i).tied : i];
        int32_t m = lw_param_at(w, i).module;
        for (int32_t u = h->first_unit[m]; unit >= 0 && u < h->first_unit[m + 1]; u++)
            if (h->used_units[u] == unit && at[i] < h->used_at[u])
                h->used_at[u] = at[i];
    }
    for (int32_t m = 0; m < w->n_modules; m++) {
        lw_ps first = INT64_MAX;
        for (int32_t u = h->first_unit[m]; u < h->first_unit[m + 1]; u++)
            first = h->used_at[u] < first ? h->used_at[u] : first;
        for (int32_t u = h->first_unit[m]; u < h->first_unit[m + 1]; u++)
            h->used_at[u] = h->used_at[u] == first ? 0 : h->used_at[u];
    }
}

lw_ps lw_part_piece_end(const struct lw_part *d, int32_t module, lw_ps at, lw_ps stop)
{
    const struct lw_part_shards *h = &d->shards;
    lw_ps end = stop;

    for (int32_t u = h->first_unit[module]; u < h->first_unit[module + 1]; u++)
        if (h->used_at[u] > at && h->used_at[u] < end)
            end = h->used_at[u];
    return end;
}

lw_ps lw_part_op_start(const struct lw_part *d, int32_t module, int32_t k)
{
    const struct lw_steps steps = d->work.forward_steps[module];
    lw_ps length = lw_module_at(d->w, module)->forward_ps;

    for (int32_t i = 0, n = 0; i < steps.n; i++) {
        struct lw_share s = steps.v[i].share;
        if (steps.v[i].kind == LW_STEP_WORK && n++ == k)
            return s.of > 0 ? (lw_ps)((__int128)length * s.from / s.of) : 0;
    }
    return length;
}

enum lw_status lw_part_order_gathers(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    int32_t n_modules = d->w->n_modules, at = 0, turn = 0;
    struct use *uses;
    lw_ps *starts;

    LW_TAKE(&d->scratch, uses, d->w->n_params, err);
    LW_TAKE(&d->scratch, starts, d->w->n_params, err);
    int32_t n = list_uses(d, uses);
    LW_TAKE(&d->arena, h->forward, h->n_buffers, err);
    LW_TAKE(&d->arena, h->first_unit, n_modules + 1L, err);
    LW_TAKE(&d->arena, h->used_units, n, err);
    LW_TAKE(&d->arena, h->used_at, n, err);
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
    find_starts(d, starts);
    find_uses(d, starts);
    return LW_OK;
}
