#ifndef LW_TRACES_IMPORT_KINETO_H
#define LW_TRACES_IMPORT_KINETO_H

#include <stddef.h>

#include "shared/err.h"
#include "traces/trace.h"

/* Read a PyTorch profiler trace (Kineto, Chrome trace format): text[len] with LW_JSON_PADDING bytes
 * behind it, an object with "traceEvents" or a bare array of events; all of torch 1.8 to today, CUDA,
 * ROCm and CPU-only. `name` begins messages. The rows are not sorted yet (lw_trace_sort).
 * LW_EFORMAT: no JSON, not this format, a complete event without time; LW_ENOMEM. */
enum lw_status lw_kineto_parse(const char *name, char *text, size_t len, struct lw_trace *out,
                               struct lw_err *err);

/* Read, unpack, parse and sort a trace file. hash[33] (may be NULL) gets that of its bytes. */
enum lw_status lw_kineto_read(const char *file, struct lw_trace *out, char hash[33],
                              struct lw_err *err);

#endif
