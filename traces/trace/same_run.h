#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "traces/trace/trace.h"

/* Traces that are taken for ranks of one run must say nothing else: the same number of ranks, each
 * rank once, and recorded at the same time (within a second on clocks that are taken as common).
 * False: why says what differs, for people. */
bool lw_traces_same_run(const struct lw_trace *a, const struct lw_trace *b, char *why,
                        size_t size);
