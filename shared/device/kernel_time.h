#pragma once

#include "shared/base/err.h"
#include "shared/device/kernel_share.h"
#include "shared/workload/workload.h"

/* Kernels, a device, a framework's rates and groups -> times of a workload. The one evaluator: see
 * docs/design/kernels.md. */

/* What a framework does to the time of a kernel. Zeroed: nothing. */
struct lw_kernel_rates {
    lw_ps host_op_ps;       /* host time per launch: a lower bound of a module */
    /* Host time of the linear layer around a product, with its casts: [operands of 16 bits,
     * narrower][forward, backward with the weights' gradient]; 0 = of its launches, as of the
     * backward of frozen weights. Of a grouped one with its first expert. */
    lw_ps host_layer_ps[2][2];
    bool joined_layers; /* products of LW_LAYER_JOINED are launched as part of the one before */
    bool captured; /* with experts, parts of a block are graphs: such a time is only that of
                    * experts' products */
    bool host_waits;        /* each launch waits for the previous kernel: times add up */
    bool input_casts;      /* a kernel casts what an 8-bit product reads, unless a norm writes it */
    bool scale_passes;      /* before each such cast, gradients' too, another reads the tensor */
    bool expert_products;   /* a grouped product is a launch for each expert of the rank */
    int32_t router_forward, router_backward; /* launches of a layer with experts that its kernels
                                              * do not count */
    double traffic;         /* bytes that kernels without a product move, of those counted; 0 = 1 */
    lw_ps memory_op_ps;     /* that they take beside their bytes and a launch */
    double grouped_speed;   /* of experts' products, against the device's figures; 0 = 1 */
    double attention_speed; /* of the fused kernel, against the device's best known; 0 = 1 */
    double scores_forward, scores_backward; /* time of products of stored scores, against that by
                                             * shape; 0 = 1 */
};

/* Sets what the workload's kernels determine: times, FLOPs and bytes of its modules, attention in
 * their windows, kernel_times (NULL: not kept), ready times and ready order (without grad_kernel:
 * left as they are), the optimizer and the passes over gradients. Modules without kernels keep
 * their times. Times stop at INT64_MAX, which lw_workload_check refuses. LW_ENOMEM. */
enum lw_status lw_kernels_time(struct lw_workload *w, const struct lw_device *d,
                               const struct lw_kernel_rates *rates,
                               const struct lw_kernel_groups *groups, struct lw_err *err);

/* kernel_products.c: the products of the workload's kernels as one rank of the groups has them:
 * w->products and the modules' lists. LW_ENOMEM. */
enum lw_status lw_kernels_list_products(struct lw_workload *w,
                                        const struct lw_kernel_groups *groups,
                                        struct lw_err *err);

/* Measured steps of the workload's optimizer: of f32 parameters, those that keep 2-byte copies were
 * not measured. NULL: none. */
const struct lw_work_table *lw_optimizer_table(const struct lw_device *d,
                                               const struct lw_workload *w);
