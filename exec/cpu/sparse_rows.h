#pragma once

#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/backend/scalar.h"
#include "shared/base/err.h"
#include "shared/numbers/dtype.h"
#include "shared/workload/sparse.h"

/* Sparse gradients; the GPU has kernels of its own (exec/nccl/nccl_rows.c). On each rank one
 * consists of
 *
 *   its own list    count[1], indices[capacity], values[capacity * row_numel]: each row once
 *   what came       shapes[n_members * LW_SPARSE_SIZES], all_indices[n_members * capacity],
 *                   all_values[n_members * capacity * row_numel], in the bucket: member k's from
 *                   place k on
 *   the sum         sum[n_rows * row_numel], zero but for rows that came in this step
 *
 * all of it in the rank's memory. */
struct exec_rows {
    int32_t row_numel, touched_rows, member, n_members;
    int64_t n_rows, capacity;
    enum lw_dtype dtype;      /* of values and sum */
    int64_t *count, *indices;
    int32_t *place_of;        /* [n_rows] 1 + place in the own list; 0 = not in it */
    void *values;
    int64_t *shapes, *all_indices;
    void *all_values, *sum;
};

/* The rows that a gradient touches: from start on in steps of stride, n of them, all different.
 * Which and how many is a function of what the gradient is a function of; half of touched_rows
 * at least. */
struct exec_touch {
    int64_t start, stride, n_rows;
    int32_t n;
};

static inline int64_t exec_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline struct exec_touch exec_touch_of(const struct exec_gradient *g, int64_t n_rows,
                                              int32_t touched_rows)
{
    uint64_t h = exec_mix(exec_mix((uint64_t)g->param) ^ (uint64_t)g->step);
    struct exec_touch t = {.n_rows = n_rows};

    h = exec_mix(h ^ ((uint64_t)(uint32_t)g->pass << 32 | (uint32_t)g->rank));
    t.start = (int64_t)(h % (uint64_t)n_rows);
    h = exec_mix(h);
    t.n = touched_rows - (int32_t)(h % (uint64_t)(touched_rows / 2 + 1));
    h = exec_mix(h);
    t.stride = (int64_t)(h % (uint64_t)n_rows);
    while (exec_common_divisor(t.stride, n_rows) != 1) /* then no row comes twice */
        t.stride = (t.stride + 1) % n_rows;
    return t;
}

static inline int64_t exec_touch_next(const struct exec_touch *t, int64_t row)
{
    return row < t->n_rows - t->stride ? row + t->stride : row - (t->n_rows - t->stride);
}

/* to[numel] += the gradient's rows, everything else being zero; and one element of it. */
void exec_rows_add(const struct exec_gradient *g, const struct lw_sparse *x, int64_t numel,
                   float *to);
double exec_rows_at(const struct exec_gradient *g, const struct lw_sparse *x, int64_t numel,
                    int64_t element);

/* The parts EXEC_PART_ROWS_*. LW_EFAILED: a list is longer than its room, or what came is not a
 * list of this parameter's rows; the message names member, row and count. */
enum lw_status exec_rows_run(const struct exec_part *p, struct lw_err *err);
