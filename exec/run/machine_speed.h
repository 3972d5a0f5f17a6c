#pragma once

#include <stdint.h>

#include "shared/base/err.h"

struct lw_exec_result;
struct lw_plan;

/* How fast this machine was during a run. See docs/design/machine_speed.md. */

/* A reading before a step, or after the last one: processor time of one product of the rank, and
 * the time of one by which the ops of the steps that follow were counted. */
struct lw_exec_probe {
    int32_t step, rank; /* warm-up counts */
    double now_ns, set_ns;
};

/* Shares of the calibrated speed, over all readings of all ranks. n 0: not known. */
struct lw_machine_speed {
    int64_t n;
    double median, p10, p90;
};

/* Sets speed and compute_speed of the result, which holds all ranks, from its probes.
 * calibrated_ns: of the probe, under the same conditions (lw_calibrated_probe); 0 = none, and then
 * speed, and what depends on it, is not set. LW_ENOMEM. */
enum lw_status lw_exec_find_speed(const struct lw_plan *plan, double calibrated_ns,
                                  struct lw_exec_result *r, struct lw_err *err);

/* Over v[n], which it sorts: the value at a share q of the way from the smallest to the largest, on
 * a line between its neighbours. n > 0. */
double lw_speed_quantile(double *v, int64_t n, double q);
