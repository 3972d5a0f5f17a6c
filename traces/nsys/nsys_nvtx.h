#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "traces/trace/trace.h"

/* An NVTX range as a row: class, name, sequence number and what it says of a collective. */
struct nsys_range {
    const char *text;
    int len;
    bool nccl;        /* of NCCL's own domain */
    const char *json; /* its payload, "" = none */
    int json_len;
};

/* LW_ENOMEM. Of NCCL's communicator ranges rank and size go into the trace. */
enum lw_status nsys_range_read(struct lw_trace *t, const struct nsys_range *range,
                               struct lw_row *row, struct lw_row_detail *detail, bool *has_detail,
                               struct lw_err *err);

/* After sorting: which ranges are iterations; names that several of them share are numbered. */
enum lw_status nsys_steps_find(struct lw_trace *t, struct lw_err *err);
