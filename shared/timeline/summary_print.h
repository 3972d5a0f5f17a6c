#ifndef LW_SHARED_TIMELINE_SUMMARY_PRINT_H
#define LW_SHARED_TIMELINE_SUMMARY_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/base/jsonout.h"
#include "shared/timeline/timeline.h"

/* What predictions and executions say in the same words, so that one can be laid beside the other: the
 * measures of a run (DESIGN section 7). */

/* Text: the busy times of the rank whose step is the longest, each with its share of the step. */
void lw_summary_text(const struct lw_summary *s, FILE *f);
/* CSV: one line per rank. */
enum lw_status lw_summary_csv(const struct lw_summary *s, FILE *f, struct lw_err *err);

/* JSON, into the object that is open: "step_ns", "steps_ns"; the longest rank's measures with
 * "bubble_ratio" and "peak_memory_bytes"; "ranks", on demand each with its own peak (null: unknown). */
void lw_summary_json_steps(struct lw_jsonout *o, const struct lw_summary *s);
void lw_summary_json_measures(struct lw_jsonout *o, const struct lw_summary *s);
void lw_summary_json_ranks(struct lw_jsonout *o, const struct lw_summary *s, bool memory);

#endif
