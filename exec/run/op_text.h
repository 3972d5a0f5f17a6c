#pragma once

#include "shared/plan/plan.h"

/* "op 12 (all_reduce of bucket 3)", "op 7 (kernel gemm)": an op in the messages of a run; -1 =
 * "none". Room for EXEC_OP_TEXT bytes. */
enum { EXEC_OP_TEXT = 128 };
const char *exec_op_text(const struct lw_plan *p, int32_t op, char *text);
