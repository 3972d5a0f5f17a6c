#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/device/device_time.h"
#include "shared/workload/kernel.h"

/* What one rank of the groups does of a kernel: the one place that divides by a group. */

/* One launch, or a few alike, of one phase. */
struct lw_kernel_work {
    enum lw_product_phase phase;
    int64_t flops, bytes; /* of one context rank, and of all ranks of its tensor group together */
    struct lw_product product, second; /* as one rank has them; batch 0 = none. second: the gradient
                                        * of the other operand, one kernel with it by roofline */
    struct lw_attention attention;     /* batch 0 = none */
    int32_t n_launches;                /* 0 = one, and one of `second` */
    int64_t blocks;   /* that move `bytes`; 0 = enough for all SMs */
    bool whole;       /* each rank of the tensor group does all of it */
    bool by_roofline; /* on every device */
    bool scan;        /* by_roofline: lw_kernel.scan */
    bool completes;   /* gradients of the kernel's parameters are complete when backward, which
                       * comes from the kernels after it, has done this work and those that follow
                       * it here */
};

typedef void lw_kernel_visit(void *ctx, const struct lw_kernel_work *work);

/* Works of one kernel in the order of the forward. */
void lw_kernel_share(const struct lw_kernel *k, const struct lw_kernel_groups *g,
                     lw_kernel_visit *visit, void *ctx);
