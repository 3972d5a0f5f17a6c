/* The slowest of the devices that wait for each other.
 *
 * The time of a sustained product differs among devices of a kind with a relative standard
 * deviation s: at the power limit each runs at the clock that its voltage allows. Of n devices with
 * normal times of mean t the slowest is expected to take t (1 + s E), where E is the expected
 * largest of n standard normal numbers. All ranks are given that time, so that ranks that are alike
 * stay alike. Only what products (and attention) bound is longer: memory, launches, the host and
 * the network have clocks of their own.
 *
 * Not modelled: tails heavier than normal; which device is slow (a stage that holds it delays the
 * others, and they its fill and drain, at its own pace); a device's mean over its products, which
 * differ in power. */
#include "sim/timing/device_spread.h"

#include "shared/numbers/checked.h"
#include "shared/numbers/normal_max.h"
#include "shared/plan/op_bound.h"
#include "sim/timing/device.h"
#include "sim/timing/sim_options.h"

static bool has_spread(const struct lw_cluster *c)
{
    return lw_figure_is_set(c->noise.device_spread) && c->noise.device_spread.value > 0;
}

int64_t sim_spread_parts(const struct lw_cluster *c, const struct lw_sim_options *o, int64_t n)
{
    struct lw_figure f = c->noise.device_spread;

    if (!has_spread(c) || n <= 1 || o->rank_sigma > 0)
        return 0;
    return (int64_t)(f.value * lw_normal_max(n) * (double)SIM_FULL_RATE + 0.5);
}

static bool has_products(const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_works; i++)
        if (lw_work_at(p, i)->bound_ps[LW_BOUND_COMPUTE] > 0)
            return true;
    return false;
}

const char *sim_spread_unused(const struct lw_plan *p, const struct lw_cluster *c,
                              const struct lw_sim_options *o, int64_t n)
{
    return o->rank_sigma > 0  ? "--rank-noise draws the speed of each rank"
           : n <= 1           ? "the plan has one device"
           : !has_spread(c)   ? "it is 0"
           : !has_products(p) ? "no op of the plan is known to be bound by products"
                              : "";
}

lw_ps sim_spread_ps(const struct lw_plan *p, const struct lw_op *op, lw_ps own, int64_t parts)
{
    const struct lw_work *w = op->work >= 0 ? lw_work_at(p, op->work) : NULL;
    lw_ps known = 0;

    if (!w || own <= 0 || parts <= 0)
        return 0;
    for (int k = 0; k < LW_N_BOUNDS; k++)
        known = lw_add_sat(known, w->bound_ps[k]);
    if (w->bound_ps[LW_BOUND_COMPUTE] <= 0)
        return 0;
    /* of a work whose time was changed its bounds keep their proportions */
    lw_ps products = known > own ? (lw_ps)((__int128)own * w->bound_ps[LW_BOUND_COMPUTE] / known)
                                 : w->bound_ps[LW_BOUND_COMPUTE];
    return lw_spread_more(products, parts);
}
