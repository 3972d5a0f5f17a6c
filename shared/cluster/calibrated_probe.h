#pragma once

#include <stdint.h>

struct lw_cluster;

/* Time of the speed probe in a calibration, ns; 0 = the cluster has none of this product and of as
 * many ranks. compute: what the product is, as the executor names it. See
 * docs/design/machine_speed.md. */
double lw_calibrated_probe(const struct lw_cluster *c, const char *compute, int32_t n_ranks);
