#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/plan/op.h"

/* What a bar of a timeline is, for its colour and the legend. Each look has a colour for even and
 * one for odd numbers: micro-batches of compute, buckets of communication. */
enum picture_look {
    LOOK_FORWARD,
    LOOK_BACKWARD,
    LOOK_BACKWARD_INPUT,
    LOOK_BACKWARD_WEIGHT,
    LOOK_RECOMPUTE, /* a forward that backward needs again */
    LOOK_OPTIMIZER,
    LOOK_ARITHMETIC, /* recorded kernels, by traces/trace/kernel_class.h */
    LOOK_MEMORY,
    LOOK_KERNEL,
    LOOK_COPY,
    LOOK_HOST,
    LOOK_GRADIENTS,
    LOOK_WEIGHTS,
    LOOK_MESSAGE,
    LOOK_COLLECTIVE,
    LOOK_WAIT,
    LOOK_EXPOSED,
    N_LOOKS,
};

/* kernel: the name of the op: of a recorded kernel, or "recompute"; "" = unknown. */
enum picture_look look_of(enum lw_op_kind kind, int32_t bucket, const char *kernel);
const char *look_name(enum picture_look look); /* "sums of gradients" */
int32_t look_colour(enum picture_look look, bool odd);
bool look_is_dark(enum picture_look look, bool odd); /* text on it is white */
