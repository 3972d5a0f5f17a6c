#pragma once

#include <stdint.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

/* Where a timeline comes from, for the reader of the file. */
struct lw_export_note {
    const char *name, *text;
};

/* One run to be written for other programs. All borrowed. */
struct lw_export {
    const struct lw_timeline *timeline; /* sorted, not empty; its ops are the plan's */
    const struct lw_plan *plan;
    const char *title;                  /* begins the names of the processes */
    int32_t rank;                       /* the rank whose trace this is for readers of one rank */
    const struct lw_export_note *notes;
    int n_notes;
};

/* Trace-event JSON as Perfetto and chrome://tracing open it: a process per rank, a thread per
 * stream, flows from gradient to bucket to collective, counters. Times in us with ns after the
 * point. `lapwing inspect` reads it as the recording of rank e->rank. See docs/design/export.md.
 * LW_EINVAL: an op, rank or bucket outside the plan. Write errors are found when f is closed. */
enum lw_status lw_export_chrome(const struct lw_export *e, FILE *f, struct lw_err *err);

/* LW_EINVAL: a span whose op, rank or stream is not the plan's. */
enum lw_status lw_export_check(const struct lw_export *e, struct lw_err *err);

/* Every span as a line of comma-separated values, times in ns. */
enum lw_status lw_export_csv(const struct lw_export *e, FILE *f, struct lw_err *err);
