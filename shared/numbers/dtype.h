#pragma once

#include <stdint.h>

#include "shared/base/err.h"

enum lw_dtype { LW_F32, LW_F64, LW_F16, LW_BF16, LW_I64, LW_I32, LW_U8, LW_N_DTYPES };

int64_t lw_dtype_size(enum lw_dtype t);       /* bytes of one element */
const char *lw_dtype_word(int t);             /* lw_dtype_name, for tables; NULL beyond the last */
/* The type with most of something; of equals the first. */
enum lw_dtype lw_dtype_of_most(const int64_t n[LW_N_DTYPES]);
const char *lw_dtype_name(enum lw_dtype t);   /* "f32", "f64", "f16", "bf16", "i64", "i32", "u8" */

/* The short names above and torch's ("float32", "torch.float32", "Float", ...). */
enum lw_status lw_dtype_parse(const char *name, enum lw_dtype *t, struct lw_err *err);
