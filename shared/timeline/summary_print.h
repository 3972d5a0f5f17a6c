#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/json/jsonout.h"
#include "shared/timeline/timeline.h"

/* The measures of a run, printed in the same way for predictions and executions. Terms:
 * docs/glossary.md. */

/* Whether a rank's period and the step that it is of are printed as two figures, and why. */
bool lw_periods_differ(lw_ps period, lw_ps step);
#define LW_PERIOD_AND_STEP                                                                     \
    "a rank's period counts from its own end of the step before (in a first step from its "    \
    "start), the step from that of the last rank"

/* Text: what the period of the rank with the longest one is made of. */
void lw_summary_text(const struct lw_summary *s, FILE *f);
/* CSV: one line per rank. */
enum lw_status lw_summary_csv(const struct lw_summary *s, FILE *f, struct lw_err *err);

/* JSON, into the object that is open: "step_ns", "steps_ns", "span_ns"; the measures of the rank
 * with the longest period, with "bubble_ratio", "compute_share" and "peak_memory_bytes";
 * "ranks", on demand each with its own peak (null: unknown). Parts of a period are rounded to
 * add up to it. */
void lw_summary_json_measure(struct lw_jsonout *o, const struct lw_measure *m); /* of one rank */
void lw_summary_json_steps(struct lw_jsonout *o, const struct lw_summary *s);
void lw_summary_json_measures(struct lw_jsonout *o, const struct lw_summary *s);
/* What memory is made of at the peak: the object "memory_at_peak" (null: unknown), and a line. */
void lw_summary_json_memory(struct lw_jsonout *o, const struct lw_summary *s,
                            const struct lw_plan *plan);
enum lw_status lw_summary_text_memory(const struct lw_summary *s, const struct lw_plan *plan,
                                      FILE *f, struct lw_err *err);
enum lw_status lw_summary_json_ranks(struct lw_jsonout *o, const struct lw_summary *s, bool memory,
                                     struct lw_err *err);
