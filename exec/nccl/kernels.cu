/* The kernels of the NCCL backend for the GPU: nothing but the launch of the bodies in kernels.h.
 * Compiled with -fmad=false, so that a multiplication and an addition round as on the host. */
#include "exec/nccl/kernels.h"

#define DEFINE(name)                                                                      \
    extern "C" __global__ void lw_##name(struct kernel_##name a)                          \
    {                                                                                     \
        kernel_##name##_run(&a, (int64_t)blockIdx.x * blockDim.x + threadIdx.x,           \
                            (int64_t)gridDim.x * blockDim.x);                             \
    }

KERNEL_LIST(DEFINE)
