#ifndef LW_ANALYSIS_COMPARE_RUN_LABELS_H
#define LW_ANALYSIS_COMPARE_RUN_LABELS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/store/store.h"

/* What tells runs apart, as a short text for each: the options of their strategies whose values
 * differ among them ("zero 2, bucket-cap 1.00 MiB"), their workloads and their clusters where these
 * differ.
 *   whole   every such value; false: only those that are not the most common one
 *   labels  [n], of the arena; "" = no difference */
enum lw_status lw_run_labels(struct lw_store *s, const struct lw_run *runs, int32_t n, bool whole,
                             struct lw_arena *a, const char ***labels, struct lw_err *err);

#endif
