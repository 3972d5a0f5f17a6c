#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/numbers/dtype.h"

/* Sparse gradients: of an embedding, only rows that a micro-batch looked up have a gradient. It
 * is a list of row numbers (i64) and as many rows of values. Members of a data group sum such
 * lists by three all-gathers, of how many there are, of the numbers and of the values, and each
 * adds up what came: docs/design/sparse.md. */
struct lw_sparse {
    int32_t param;             /* lists are ascending by it */
    int32_t row_numel;         /* elements of a row, >= 1; divides the parameter's */
    int32_t touched_rows; /* different rows with a gradient in one micro-batch, 1 .. all rows */
};

/* The entry of a parameter; NULL = none. */
const struct lw_sparse *lw_sparse_of(const struct lw_sparse *list, int32_t n, int32_t param);

/* Rows that one member sends after n_backwards, at most: rows of different micro-batches are
 * taken to be different as long as there are others. */
int64_t lw_sparse_rows(const struct lw_sparse *x, int64_t numel, int64_t n_backwards);
/* its number and values */
int64_t lw_sparse_row_bytes(const struct lw_sparse *x, enum lw_dtype gradient);

/* i64 that each member tells first: the shape of the parameter, at [0] rows and at [4] elements of
 * one, and at [8] how many rows follow; as c10d's gloo lays them out. */
enum { LW_SPARSE_SIZES = 9, LW_SPARSE_ROWS_AT = 0, LW_SPARSE_ROW_AT = 4, LW_SPARSE_COUNT_AT = 8 };

/* The three all-gathers in their order, and what they bring of all members. */
enum lw_sparse_turn { LW_SPARSE_SHAPES, LW_SPARSE_INDICES, LW_SPARSE_VALUES, LW_N_SPARSE_TURNS };
struct lw_plan;
/* Which of them the op of a plan is, for a sparse bucket: one follows the other in the program. */
enum lw_sparse_turn lw_plan_sparse_turn(const struct lw_plan *p, int32_t op);
enum lw_dtype lw_sparse_dtype(enum lw_sparse_turn turn, enum lw_dtype gradient);
int64_t lw_sparse_bytes(const struct lw_sparse *x, enum lw_sparse_turn turn, enum lw_dtype gradient,
                        int64_t rows, int64_t n_members);
