#ifndef LW_ANALYSIS_STORE_RUN_NAME_H
#define LW_ANALYSIS_STORE_RUN_NAME_H

#include "analysis/store/store.h"

/* What a run is, for people: "gpt2-124m, dp 8, tp 2, zero 1, bucket-cap 5MiB, dgx-a100" (workload,
 * parallel layout, options that differ from their defaults, cluster), then "exec threads" where it
 * was not simulated. options: "name=value" lines of the plan, "" = none. NULL without memory. */
const char *lw_run_name_make(struct lw_arena *a, const struct lw_run *r, const char *options);

/* A value of a strategy option for people: a number of bytes with its unit ("5.00 MiB"), "default"
 * for one that was not given; else the value itself. buf holds 64 bytes. */
const char *lw_option_shown(const char *option, const char *value, char *buf);

#endif
