#pragma once

#include "analysis/bench/bench_loads.h"

/* The search of a space of more than 20,000 valid strategies, with bounds and without: whole_s is
 * both, wall_s that with bounds. LW_EFAILED: another best ten, or another Pareto set among what
 * both simulated. */
enum lw_status bench_tune(const struct bench_choice *c, struct bench_result *r,
                          struct lw_err *err);
