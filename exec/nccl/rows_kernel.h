#pragma once

#include "exec/nccl/kernels.h"

/* Sparse gradients on the GPU, included by kernels.h: the steps of exec/cpu/sparse_rows.c, each one
 * kernel. Rows of one list are all different, so threads meet no element twice. */

enum kernel_rows_step {
    ROWS_DROP,   /* n = capacity: the own list's rows are in no list */
    ROWS_PLACE,  /* n = rows touched: each gets a place in the own list, zero where it is new */
    ROWS_FILL,   /* n = elements touched: the gradient is added to its places */
    ROWS_SEND,   /* n = elements of a list: the own one over divisor to its place among all */
    ROWS_SUM,    /* n = elements of a list: what came from a member is added to the sum */
    ROWS_UPDATE, /* the same: elements [first, end) take a step, and their sum is zero again */
    ROWS_CLEAR,  /* the same: the sum of what came is zero again */
};

struct kernel_rows {
    int64_t n, start, stride; /* the i-th row touched is start + i * stride, modulo n_rows */
    int64_t n_rows, capacity, first, end;
    int64_t *count, *indices, *shapes, *all_indices;
    int32_t *place_of;
    void *values, *all_values, *sum;
    const float *table;
    float *w;  /* [end - first] */
    void *own; /* the same in own_dtype */
    struct exec_update u;
    volatile int32_t *flag; /* = KERNEL_BAD_ROWS: a list that does not fit */
    int32_t step, row_numel, member, dtype, own_dtype, divisor;
    int32_t param, rank, of_step, pass;
};
enum { KERNEL_BAD_ROWS = 3 };

EXEC_BOTH int64_t kernel_take(int64_t *count) /* the next place */
{
#ifdef __CUDA_ARCH__
    return (int64_t)atomicAdd((unsigned long long *)count, 1ull);
#else
    return (*count)++;
#endif
}

EXEC_BOTH void kernel_bad_rows(const struct kernel_rows *a)
{
    kernel_say(a->flag, KERNEL_BAD_ROWS);
    kernel_publish();
}

EXEC_BOTH int64_t kernel_touched(const struct kernel_rows *a, int64_t i)
{
    return (int64_t)(((uint64_t)a->start + (uint64_t)i * (uint64_t)a->stride) %
                     (uint64_t)a->n_rows);
}

EXEC_BOTH void kernel_rows_place(const struct kernel_rows *a, int64_t i)
{
    int64_t row = kernel_touched(a, i), at;

    if (a->place_of[row] > 0)
        return;
    at = kernel_take(a->count);
    if (at >= a->capacity) {
        kernel_bad_rows(a);
        return;
    }
    a->indices[at] = row;
    a->place_of[row] = (int32_t)at + 1;
    for (int64_t e = 0; e < a->row_numel; e++)
        exec_put((enum lw_dtype)a->dtype, a->values, at * a->row_numel + e, 0);
}

EXEC_BOTH void kernel_rows_fill(const struct kernel_rows *a, int64_t i)
{
    enum lw_dtype t = (enum lw_dtype)a->dtype;
    int64_t row = kernel_touched(a, i / a->row_numel), e = row * a->row_numel + i % a->row_numel;
    int64_t at = (a->place_of[row] - 1) * (int64_t)a->row_numel + i % a->row_numel;
    uint32_t start = exec_gradient_start(a->param, a->rank, a->of_step, a->pass,
                                         e / EXEC_GRADIENT_BLOCK);

    if (at >= 0)
        exec_put(t, a->values, at, exec_get(t, a->values, at) +
                                       (double)a->table[start + e % EXEC_GRADIENT_BLOCK]);
}

EXEC_BOTH void kernel_rows_send(const struct kernel_rows *a, int64_t i)
{
    enum lw_dtype t = (enum lw_dtype)a->dtype;
    int64_t *shape = a->shapes + a->member * (int64_t)LW_SPARSE_SIZES;
    int64_t at = a->member * a->capacity + i / a->row_numel;

    if (i < LW_SPARSE_SIZES)
        shape[i] = i == LW_SPARSE_ROWS_AT    ? a->n_rows
                   : i == LW_SPARSE_ROW_AT   ? a->row_numel
                   : i == LW_SPARSE_COUNT_AT ? *a->count
                                             : 0;
    if (i / a->row_numel >= *a->count || i >= a->capacity * a->row_numel)
        return;
    if (i % a->row_numel == 0)
        a->all_indices[at] = a->indices[i / a->row_numel];
    exec_put(t, a->all_values, at * a->row_numel + i % a->row_numel,
             exec_get(t, a->values, i) / a->divisor);
}

EXEC_BOTH void kernel_rows_update(const struct kernel_rows *a, int64_t e)
{
    enum lw_dtype t = (enum lw_dtype)a->dtype, own = (enum lw_dtype)a->own_dtype;
    float *w = a->w + (e - a->first);

    if (e < a->first || e >= a->end)
        return;
    exec_update_one(&a->u, w, 0, 0, (float)exec_get(t, a->sum, e));
    exec_put(t, a->sum, e, 0);
    if (own != LW_F32)
        exec_put(own, a->own, e - a->first, *w);
}

EXEC_BOTH void kernel_rows_came(const struct kernel_rows *a, int64_t i)
{
    enum lw_dtype t = (enum lw_dtype)a->dtype;
    const int64_t *shape = a->shapes + a->member * (int64_t)LW_SPARSE_SIZES;
    int64_t n = shape[LW_SPARSE_COUNT_AT], at = a->member * a->capacity + i / a->row_numel, row, e;

    if (shape[LW_SPARSE_ROWS_AT] != a->n_rows || shape[LW_SPARSE_ROW_AT] != a->row_numel || n < 0 ||
        n > a->capacity) {
        kernel_bad_rows(a);
        return;
    }
    if (i / a->row_numel >= n)
        return;
    row = a->all_indices[at];
    if (row < 0 || row >= a->n_rows) {
        kernel_bad_rows(a);
        return;
    }
    e = row * a->row_numel + i % a->row_numel;
    if (a->step == ROWS_SUM)
        exec_put(t, a->sum, e, exec_get(t, a->sum, e) +
                                   exec_get(t, a->all_values,
                                            at * a->row_numel + i % a->row_numel));
    else if (a->step == ROWS_UPDATE)
        kernel_rows_update(a, e);
    else
        exec_put(t, a->sum, e, 0);
}

EXEC_BOTH void kernel_rows_run(const struct kernel_rows *a, int64_t thread, int64_t n_threads)
{
    for (int64_t i = thread; i < a->n; i += n_threads)
        switch (a->step) {
        case ROWS_DROP:
            if (i < *a->count)
                a->place_of[a->indices[i]] = 0;
            break;
        case ROWS_PLACE: kernel_rows_place(a, i); break;
        case ROWS_FILL: kernel_rows_fill(a, i); break;
        case ROWS_SEND: kernel_rows_send(a, i); break;
        default: kernel_rows_came(a, i); break;
        }
}
