#pragma once

#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/backend/scalar.h"
#include "shared/numbers/dtype.h"
#include "shared/base/err.h"

/* Gradients that can be checked exactly: whole numbers, a function of (parameter, element, step,
 * pass, rank) alone, small enough that every sum over ranks and passes is exact in the dtypes they
 * pass through, and multiples of the odd part of the divisor, so that the average is exact too. */

/* Values to draw from: whole numbers v * multiple, 1 <= |v| <= largest. */
struct exec_gradient_table {
    int32_t multiple, largest;
    float value[EXEC_GRADIENT_TABLE + EXEC_GRADIENT_BLOCK];
};

/* The table for gradients that are summed n_terms times in all and divided by `divisor`, in types
 * whose exact range ends at `limit` (exec_exact_limit). LW_EINVAL when even +-1 does not fit: the
 * message says which number would. */
enum lw_status exec_gradient_table_init(struct exec_gradient_table *t, int64_t n_terms,
                                        int32_t divisor, int64_t limit, struct lw_err *err);

/* to[n] = elements first .. first + n - 1 of the gradient, or += when add. */
void exec_gradient_fill(const struct exec_gradient *g, enum lw_dtype t, void *to, int64_t first,
                        int64_t n, bool add);
double exec_gradient_at(const struct exec_gradient *g, int64_t element);

/* The parts EXEC_PART_EXPECT and EXEC_PART_CARRY. */
void exec_gradient_expect(const struct exec_part *p);
void exec_gradient_carry(const struct exec_part *p);
