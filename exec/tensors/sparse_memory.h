#pragma once

#include "exec/tensors/tensors.h"
#include "shared/workload/sparse.h"

/* Sparse gradients of a run: exec/cpu/sparse_rows.h on each rank, for each layout. Layouts are
 * made; then place says how many bytes a rank needs (m->sparse.bytes), and after their allocation
 * bind fills m->lists. LW_EPLAN: an op that would leave its part of the bucket. */
enum lw_status exec_rows_place(struct exec_tensors *m, struct lw_err *err);
enum lw_status exec_rows_bind(struct exec_tensors *m, int32_t rank, struct lw_err *err);

/* Of a parameter in the layout of the pass that ends the step; NULL = it is reduced dense, or
 * not at all. */
const struct exec_rows *exec_rows_of(const struct exec_tensors *m, const struct exec_layout *l,
                                     int32_t rank, int32_t param);
/* Its gradient has rows in this run; NULL = it is dense. */
const struct lw_sparse *exec_rows_entry(const struct exec_tensors *m, int32_t param);
/* Room for a dense copy of its gradient, where steps are compared and it has rows. */
void *exec_rows_copy(const struct exec_tensors *m, int32_t rank, int32_t param);
/* Where in its bucket lies what an all-gather of a sparse gradient brings, bytes. */
int64_t exec_rows_offset(const struct lw_plan *p, const struct exec_layout *l, int32_t bucket,
                         enum lw_sparse_turn turn);
