/* Sizes of sparse gradients. Source of the order and of the layout: pytorch
 * torch/csrc/distributed/c10d/ProcessGroupGlooDetail.hpp (AsyncSparseAllreduceWork): coalesce,
 * all-gather nine i64 per rank, then indices, then values, and add up locally. Not modelled:
 * members that send different numbers of rows; all send as many as the plan says. */
#include "shared/workload/sparse.h"

const struct lw_sparse *lw_sparse_of(const struct lw_sparse *list, int32_t n, int32_t param)
{
    int32_t low = 0, high = n;

    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (list[mid].param < param)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && list[low].param == param ? &list[low] : NULL;
}

int64_t lw_sparse_rows(const struct lw_sparse *x, int64_t numel, int64_t n_backwards)
{
    int64_t all = numel / x->row_numel;

    return n_backwards <= all / x->touched_rows ? x->touched_rows * n_backwards : all;
}

int64_t lw_sparse_row_bytes(const struct lw_sparse *x, enum lw_dtype gradient)
{
    return lw_dtype_size(LW_I64) + (int64_t)x->row_numel * lw_dtype_size(gradient);
}

enum lw_dtype lw_sparse_dtype(enum lw_sparse_turn turn, enum lw_dtype gradient)
{
    return turn == LW_SPARSE_VALUES ? gradient : LW_I64;
}

int64_t lw_sparse_bytes(const struct lw_sparse *x, enum lw_sparse_turn turn, enum lw_dtype gradient,
                        int64_t rows, int64_t n_members)
{
    const int64_t each[LW_N_SPARSE_TURNS] = {LW_SPARSE_SIZES, rows, rows * x->row_numel};

    return n_members * each[turn] * lw_dtype_size(lw_sparse_dtype(turn, gradient));
}
