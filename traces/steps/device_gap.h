#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/trace/kernel_launches.h"
#include "traces/trace/trace.h"

/* The time that a device leaves between an op and the next one on its stream, which was launched
 * before the first had ended: the device's own, as nothing else is waited for. */
struct traces_device_gap {
    int64_t n;             /* such pairs */
    int64_t median_ns, sum_ns;
};

enum lw_status traces_device_gap(const struct lw_trace *t, const struct traces_launches *l,
                                 struct lw_arena *scratch, struct traces_device_gap *out,
                                 struct lw_err *err);
