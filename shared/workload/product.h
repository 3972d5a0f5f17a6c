#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/numbers/dtype.h"
#include "shared/base/err.h"

/* Bytes of 16 elements of NVFP4: 4 bits each, and their scale of 8 bits. A scale of the whole
 * tensor, 4 bytes, is not counted. (NVIDIA, "Pretraining Large Language Models with NVFP4", arXiv
 * 2509.25149, section 2) */
#define LW_FP4_16 9

/* `batch` products of m x k and k x n, of one kernel (batched) or of as many groups (grouped:
 * experts). */
struct lw_product {
    int64_t batch, m, n, k;
    enum lw_dtype dtype;
    bool fp8;            /* operands of 8 bits, at the device's fp8_speedup */
    bool fp4;            /* with fp8: of 4 bits in place of 8, a scale of 8 bits for each 16
                          * (NVFP4), at fp4_speedup */
    bool tf32;           /* of f32 operands, in TF32, at the device's tf32_peak_flops */
    bool accumulate;     /* the result is added to what is there */
    int32_t out_size;    /* bytes of an element of the result; 0 = that of dtype */
    bool grouped;        /* a launch per product */
};

/* A workload and a plan hold a table of the products that are different, and lists of indexes into
 * it: of a module by phase, of a plan's work. */
enum lw_product_phase {
    LW_PRODUCTS_FORWARD, LW_PRODUCTS_INPUT, LW_PRODUCTS_WEIGHT, LW_N_PRODUCT_PHASES,
};

/* Bytes of n operands of p. */
double lw_product_operand_bytes(const struct lw_product *p, double n);
/* Bytes that a kernel moves which casts n elements of 16 bits to operands of p, by rows and, for a
 * gradient of weights, by columns. */
int64_t lw_product_cast_bytes(const struct lw_product *p, int64_t n, bool columns);
bool lw_product_equal(const struct lw_product *a, const struct lw_product *b);
int64_t lw_product_flops(const struct lw_product *p); /* at most INT64_MAX */
/* LW_EFORMAT: a size below 1, or a dimension beyond INT32_MAX, which no library takes. */
enum lw_status lw_product_check(const struct lw_product *p, int32_t i, struct lw_err *err);
