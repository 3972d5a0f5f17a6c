#pragma once

#include <stdint.h>

/* Spans of recorded calls on the device, where LAPWING_RECORD_EVENTS=1 asks for them. The CUDA
 * driver is found at run time: nothing here links to it. Streams are the driver's handles. */

struct record_span_events;

/* Puts the first event on the stream. NULL: not requested, no driver, or the stream is being
 * captured. */
struct record_span_events *record_cuda_begin(void *stream);
/* Puts the second event there; calls[n] (numbers of record_call) get the span. NULL: does
 * nothing. */
void record_cuda_end(struct record_span_events *e, void *stream, const int64_t *calls, int n);
/* Writes all spans, waiting up to a second for those that are not over. */
void record_cuda_finish(void);
