#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/trace/kernel_class.h"
#include "traces/trace/kernel_launches.h"
#include "traces/trace/trace.h"

/* The runtime and driver calls of a trace in the order they were made: what each launched, recorded
 * or waited for. See docs/design/runtime_calls.md. */

enum traces_call_kind {
    TRACES_CALL_OTHER,
    TRACES_CALL_LAUNCH,      /* device work of the file came from it */
    TRACES_CALL_COPY,        /* the same, and the host waits for it: a blocking copy */
    TRACES_CALL_RECORD,      /* an event on a stream */
    TRACES_CALL_STREAM_WAIT, /* a stream waits for an event */
    TRACES_CALL_EVENT_SYNC,  /* the host waits for an event, a stream, the device */
    TRACES_CALL_STREAM_SYNC,
    TRACES_CALL_DEVICE_SYNC,
    TRACES_N_CALL_KINDS,
};

/* The source of what a wait is for. */
enum traces_wait_source {
    TRACES_WAIT_UNKNOWN,  /* it waits for nothing that could be found */
    TRACES_WAIT_RECORDED, /* a cuda_sync row */
    TRACES_WAIT_INFERRED, /* the order of calls */
};

struct traces_call {
    int64_t row;
    int64_t first_device; /* into device: what it launched, in start order */
    /* waits: for the work on on_stream (-1 = of all streams) launched up to call `upto`, inclusive
     */
    int64_t upto; /* into calls; -1 = nothing */
    int64_t follows; /* launch of communication in a file without stream waits: the launch before
                      * it on another stream, whose work it waits for; -1 = none */
    int32_t n_device;
    int32_t on_stream;
    int32_t stream; /* launch: of its work; record: where; stream wait: who waits; -1 unknown */
    enum traces_call_kind kind : 8;
    enum traces_wait_source source : 8;
    bool comm; /* it launched communication */
};

struct traces_calls {
    int64_t n;
    struct traces_call *calls; /* in start order */
    int64_t n_disproved;       /* inferred waits that the order of device ops disproves: dropped */
    int64_t n_unrecorded;      /* waits of collectives for what was launched before, added below */
    int64_t n_device;          /* device rows whose call is in the file */
    int64_t *device;           /* rows */
};

/* table may be NULL. Memory is the arena's. */
enum lw_status traces_calls_build(const struct lw_trace *t, const struct traces_launches *launches,
                                  const struct lw_kernel_table *table, struct lw_arena *arena,
                                  struct traces_calls *out, struct lw_err *err);

const char *traces_call_kind_name(enum traces_call_kind k); /* "stream_wait", ... */
bool traces_call_blocks(enum traces_call_kind k);           /* the host */
