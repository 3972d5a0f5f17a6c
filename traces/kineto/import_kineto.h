#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/base/progress.h"
#include "traces/trace/trace.h"

struct lw_input;

/* Read a PyTorch profiler trace (Kineto, Chrome trace format): text[len] with LW_JSON_PADDING
 * bytes after it (undefined afterwards where options->alone is set), an object with "traceEvents"
 * or a bare array of events; all of torch 1.8 to today, CUDA, ROCm and CPU-only. `name` begins
 * messages. The rows are not sorted yet, or by part (lw_trace_sort). LW_EFORMAT: no JSON, not this
 * format, a complete event without time, with salvage also no event before the damage; LW_ENOMEM.
 * options may be NULL. */
enum lw_status lw_kineto_parse(const char *name, char *text, size_t len,
                               const struct lw_trace_reading *options, struct lw_trace *out,
                               struct lw_err *err);

/* Test hook: a text is read in parts of at least that many bytes; 0 = as usual. */
void lw_kineto_parts(size_t bytes);

/* Parse and sort what was read from a file, and free it: text and rows are never held together with
 * the scratch of sorting. `damage` (NULL or code LW_OK: none) is what lw_input_reading got. */
enum lw_status lw_kineto_take(struct lw_input *in, const struct lw_err *damage,
                              const struct lw_trace_reading *options, struct lw_trace *out,
                              struct lw_err *err);
