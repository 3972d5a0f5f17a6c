#pragma once

#include "shared/base/err.h"
#include "traces/et/read_et.h"
#include "traces/trace/trace.h"

/* An execution trace into the profiler's trace of the same process and steps: its collectives get
 * sizes, groups and what they wait for, its gradients shapes, where the trace lacks them. t is
 * sorted, e read with its calls. t->joined says what was found. LW_EINVAL: fewer than nine of ten
 * calls are in both. See docs/design/import_et.md. */
enum lw_status traces_et_join(struct lw_trace *t, const char *trace_file, const struct traces_et *e,
                              struct lw_err *err);
