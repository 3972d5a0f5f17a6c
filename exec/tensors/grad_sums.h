#pragma once

#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* What the optimizers read in each step of a rehearsal: a 64-bit sum over the bits of each gradient
 * (element.h: exec_bits_sum), taken on the host between two steps. Compared in
 * exec/verify/verify.c. */
struct exec_sum {
    int32_t step, rank, param, divisor; /* divisor: what the optimizer divides by */
    int64_t first, n;                   /* elements of the parameter */
    const void *from;                   /* where they lie when the step has ended */
    uint64_t got;
};

struct exec_sums {
    struct exec_sum *items;
    int64_t n, n_read, capacity; /* items from n_read on are of the current step */
};

void exec_sums_free(struct exec_sums *s);

/* Records what an update reads. If the gradient no longer exists at the end of the step, a part
 * copies it first. LW_ENOMEM. */
enum lw_status exec_sums_add(struct exec_sums *s, const struct exec_tensors *m,
                             const struct exec_place *at, const struct exec_part *update,
                             int32_t param, int64_t first, struct exec_parts *parts,
                             struct lw_err *err);

/* The step has ended, and nothing is in flight: take its sums. LW_ENOMEM. */
enum lw_status exec_sums_read(struct exec_sums *s, const struct exec_tensors *m,
                              struct lw_err *err);
