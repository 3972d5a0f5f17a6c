#ifndef LW_EXEC_TENSORS_GRAD_SUMS_H
#define LW_EXEC_TENSORS_GRAD_SUMS_H

#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* What optimizers read, kept of every step: a 64-bit sum over the bits of each gradient
 * (element.h: exec_bits_sum), taken by a part of the optimizer op before it updates, so that
 * steps need not stop for it. Compared in exec/verify/verify.c. */
struct exec_sum {
    int32_t step, rank, param, divisor; /* divisor: what the optimizer divides by */
    int64_t first, n;                   /* elements of the parameter */
    int64_t slot;                       /* in the rank's memory, while its batch runs */
    uint64_t got;
};

struct exec_sums {
    struct exec_sum *items;
    int64_t n, n_read, capacity; /* items from n_read on are of the batch at hand */
    uint64_t **mem;              /* [n_ranks] the backend's */
    int64_t *used, room;         /* [n_ranks] slots of a rank's memory */
};

/* Room on each local rank for a batch, from the arena and the backend. LW_ENOMEM. */
enum lw_status exec_sums_init(struct exec_sums *s, struct exec_tensors *m, struct lw_err *err);
void exec_sums_free(struct exec_sums *s);

/* A part that takes the sum of what an update reads. LW_ENOMEM; LW_ENOTSUP: an optimizer op that
 * updates more than the plan says. */
enum lw_status exec_sums_add(struct exec_sums *s, const struct exec_place *at,
                             const struct exec_part *update, int32_t param, int64_t first,
                             struct exec_parts *parts, struct lw_err *err);

/* The batch has ended: fetch its sums. */
enum lw_status exec_sums_read(struct exec_sums *s, const struct exec_tensors *m, struct lw_err *err);

#endif
