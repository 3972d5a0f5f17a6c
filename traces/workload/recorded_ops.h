#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/workload/workload.h"
#include "traces/steps/module_segments.h"
#include "traces/steps/step_phases.h"
#include "traces/trace/trace.h"

/* What a step's operators do, from the sizes of their inputs: w->ops, and the list of each module
 * (see shared/workload/recorded_op.h and docs/design/recorded_ops.md). */

struct traces_op_counts {
    int64_t n_sized;     /* operators of the step that have sizes */
    int64_t n_counted;
    int64_t n_conv_guessed; /* convolutions whose output is not known from their backward */
    int64_t n_left;      /* products and the like whose sizes or types are not understood */
};

/* parallel: what data parallelism's hooks do is left out. Modules must be there. Without sizes, or
 * where the forward cannot be cut, the workload is left as it is. LW_ENOMEM. */
enum lw_status traces_ops_count(const struct lw_trace *t, const struct lw_step *s,
                                const struct traces_segments *segments, bool parallel,
                                struct lw_workload *w, struct traces_op_counts *counts,
                                struct lw_err *err);
