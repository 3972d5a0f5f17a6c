#pragma once

#include "shared/timeline/timeline.h"

struct lw_device;
struct lw_framework;
struct lw_plan;

/* Adds to what the ranks of a plan hold throughout what the framework holds beside: buckets,
 * weights of blocks' products that are 8-bit numbers, an optimizer's state of another size. */
void lw_framework_hold(const struct lw_framework *f, struct lw_plan *plan);

/* Bytes of a rank at its peak. */
struct lw_framework_bytes {
    double allocated; /* tensors, as torch's max_memory_allocated */
    double reserved;  /* what the allocator has taken from the device */
    double device;    /* as nvidia-smi: reserved, and what the framework and the driver take */
    double needed;    /* what the allocator needs: a full device takes freed blocks back */
};

void lw_framework_bytes_of(const struct lw_framework *f, const struct lw_plan *plan,
                           const struct lw_device *device, const struct lw_measure *m,
                           struct lw_framework_bytes *out);
