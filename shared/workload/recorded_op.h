#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/workload/kernel.h"

/* One operator of a recorded step in one direction, as the recording has it: a model's kernel says
 * by a rule what its backward does, a recording holds both. Independent of the device. See
 * docs/design/recorded_ops.md. */
struct lw_recorded_op {
    int64_t batch, m, n, k; /* GEMM: batch products of m x k and k x n; ATTENTION: batch sequences
                             * of m tokens */
    int64_t heads, kv_heads, qk_width, v_width; /* ATTENTION */
    int64_t flops, bytes;   /* COUNTED; bytes: TRAFFIC too, read and written */
    uint8_t kind, dtype;    /* enum lw_kernel_kind, lw_dtype */
    bool backward, causal;
    uint8_t unused[4];      /* no padding: operators are compared as bytes */
};

/* FLOPs (attention's with all scores; its backward 2.5 times the forward) and bytes of device
 * memory, each operand once; at most INT64_MAX. */
struct lw_op_work {
    int64_t flops, bytes;
};
struct lw_op_work lw_recorded_op_work(const struct lw_recorded_op *op);

struct lw_kernel lw_recorded_kernel(const struct lw_recorded_op *op);

/* LW_EFORMAT names the size that is out of range: a dimension beyond INT32_MAX, which no library
 * takes, or work beyond 2^58 FLOPs or bytes. */
enum lw_status lw_recorded_op_check(const struct lw_recorded_op *op, int32_t i,
                                    struct lw_err *err);
