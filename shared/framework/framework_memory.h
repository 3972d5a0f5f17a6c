#pragma once

#include <stdbool.h>

#include "shared/timeline/timeline.h"

struct lw_device;
struct lw_framework;
struct lw_plan;
struct lw_strategy;

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

/* What a framework takes of a device outside its allocator's memory: a context, loaded kernels,
 * communicators. The cluster's figure comes before the framework's, and that before the default
 * (lw_device_framework_bytes). */
int64_t lw_framework_own_bytes(const struct lw_framework *f, const struct lw_strategy *s,
                               const struct lw_device *device);

void lw_framework_bytes_of(const struct lw_framework *f, const struct lw_plan *plan,
                           const struct lw_device *device, const struct lw_measure *m,
                           struct lw_framework_bytes *out);

/* The same of the last rank, with what it has of the optimizer's state (lw_plan.last_spares). */
void lw_framework_bytes_of_last(const struct lw_framework *f, const struct lw_plan *plan,
                                const struct lw_device *device, const struct lw_measure *m,
                                struct lw_framework_bytes *out);

/* What a rank holds at its most beside the tensors of its plan. A backward's, or the optimizer's
 * step where that holds more: then no activations and, where a flat tensor takes their place
 * (flat), neither gradients nor buckets. With the plan's they add up to `allocated`. */
struct lw_framework_beside {
    bool in_step, flat;
    double step;                                    /* in the optimizer's step */
    double gradients, whole_inputs, stage_outputs;  /* in a backward */
};

void lw_framework_beside_of(const struct lw_framework *f, const struct lw_plan *plan,
                            const struct lw_measure *m, struct lw_framework_beside *out);
