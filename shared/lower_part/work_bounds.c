/* What bounds a work of the plan. Kernels tile their module's window in the order in which they run
 * (kernel_steps.c); a work is a range of that window, and its time is divided by the bounds of the
 * kernels in it. Where the host launches them more slowly than they run, the whole direction lasts
 * as long as the host: all of it is bound by the host. What a host that waits adds is the host's,
 * and the rest the kernels'.
 *
 * Not known, and left 0: of a module without kernels, and where the kernels were timed for other
 * groups than the strategy's. */
#include "shared/lower_part/lower_part.h"

#include "shared/plan/op_bound.h"

static bool is_one(const struct lw_kernel_groups *g)
{
    return g->tp <= 1 && g->cp <= 1 && g->ep <= 1;
}

/* The kernels' times are those of a rank of the strategy. */
static bool fits(const struct lw_part *d, const struct lw_module *m)
{
    const struct lw_strategy *s = d->s;

    return m->n_kernels > 0 && (d->w->by_kernels || (s->tp == 1 && s->cp == 1 && s->ep == 1 &&
                                                     is_one(&d->w->timed_for)));
}

static bool has_bounds(const struct lw_module *m, bool backward)
{
    lw_ps sum = 0;

    for (int k = 0; k < LW_N_BOUNDS; k++)
        sum |= m->bound_ps[backward][k];
    return sum > 0;
}

void lw_part_bound(const struct lw_part *d, int32_t module, unsigned phases, struct lw_share share,
                   struct lw_work *w)
{
    const struct lw_module *m = lw_module_at(d->w, module);
    const bool backward = phases != 1u << LW_PRODUCTS_FORWARD;
    lw_ps weights[LW_N_BOUNDS] = {0};

    w->source = d->w->step_source == LW_TIME_SCALED ? LW_TIME_SCALED : LW_TIME_GIVEN;
    if (w->ps <= 0 || !fits(d, m) || !has_bounds(m, backward))
        return;
    if (d->w->kernel_times)
        w->source = lw_kernel_bounds(d, module, phases, share, weights);
    else
        for (int k = 0; k < LW_N_BOUNDS; k++)
            weights[k] = m->bound_ps[backward][k];
    if (m->host_bounds[backward])
        for (int k = 0; k < LW_N_BOUNDS; k++)
            weights[k] = k == LW_BOUND_HOST;
    if (w->source == LW_TIME_GIVEN) /* the host's alone */
        w->source = d->w->step_source;
    lw_apportion(w->ps, weights, LW_N_BOUNDS, w->bound_ps);
}

void lw_part_bound_again(const struct lw_part *d, int32_t module, struct lw_work *w)
{
    const struct lw_module *m = lw_module_at(d->w, module);
    lw_ps weights[LW_N_BOUNDS] = {0};

    w->source = d->w->step_source == LW_TIME_SCALED ? LW_TIME_SCALED : LW_TIME_GIVEN;
    if (w->ps <= 0 || !fits(d, m) || !d->w->kernel_times || !has_bounds(m, false))
        return;
    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        for (int b = 0; b < LW_N_BOUNDS && d->w->kernels[k].again; b++)
            weights[b] += d->w->kernel_times[k].by[LW_PRODUCTS_FORWARD][b];
    w->source = d->w->step_source;
    lw_apportion(w->ps, weights, LW_N_BOUNDS, w->bound_ps);
}
