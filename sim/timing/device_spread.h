#pragma once

#include <stdint.h>

#include "shared/cluster/cluster.h"
#include "shared/numbers/units.h"
#include "shared/plan/plan.h"

/* Devices of a kind differ, and ranks wait for each other within a step: products take as long as
 * on the slowest device of the job. See docs/design/device_spread.md. */

struct lw_sim_options;

/* How much longer than on the mean device a product takes on the slowest of n, in parts of 1e9 of
 * its time: device_spread times the expected largest of n normal numbers. 0: the cluster gives no
 * spread, the plan has one device, or each rank's speed is drawn (--rank-noise). */
int64_t sim_spread_parts(const struct lw_cluster *c, const struct lw_sim_options *o, int64_t n);

/* Why the cluster's device_spread is not used; "" = it is. */
const char *sim_spread_unused(const struct lw_plan *p, const struct lw_cluster *c,
                              const struct lw_sim_options *o, int64_t n);

/* So many parts of what products bound of an op's own time, to the nearest picosecond. 0 where the
 * plan does not say what bounds it. */
lw_ps sim_spread_ps(const struct lw_plan *p, const struct lw_op *op, lw_ps own, int64_t parts);
