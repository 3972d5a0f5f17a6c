#pragma once

/* What the kernels use of CUDA's headers, made of clang's own functions: for the architectures that
 * the installed nvcc does not know (tests/check_cuda.sh). */
#define __CUDACC__ 1
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))

/* memcpy of a fixed size and square roots are instructions. */
#pragma clang force_cuda_host_device begin
#include <math.h>
#include <string.h>
#pragma clang force_cuda_host_device end

struct along_x {
    unsigned x;
};

#define threadIdx (along_x{(unsigned)__nvvm_read_ptx_sreg_tid_x()})
#define blockIdx (along_x{(unsigned)__nvvm_read_ptx_sreg_ctaid_x()})
#define blockDim (along_x{(unsigned)__nvvm_read_ptx_sreg_ntid_x()})
#define gridDim (along_x{(unsigned)__nvvm_read_ptx_sreg_nctaid_x()})

static __device__ inline void __threadfence_system(void)
{
    __nvvm_membar_sys();
}

#if __CUDA_ARCH__ >= 700
static __device__ inline void __nanosleep(unsigned ns)
{
    asm volatile("nanosleep.u32 %0;" : : "r"(ns));
}
#endif

static __device__ inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long n)
{
    return (unsigned long long)__nvvm_atom_add_gen_ll((long long *)at, (long long)n);
}

static __device__ inline float atomicAdd(float *at, float value)
{
    return __nvvm_atom_add_gen_f(at, value);
}

static __device__ inline double atomicAdd(double *at, double value)
{
    return __nvvm_atom_add_gen_d(at, value);
}

static __device__ inline unsigned long long atomicMin(unsigned long long *at, unsigned long long n)
{
    return __nvvm_atom_min_gen_ull(at, n);
}

static __device__ inline double __shfl_down_sync(unsigned lanes, double value, unsigned far)
{
    int half[2];

    __builtin_memcpy(half, &value, sizeof half);
    for (int i = 0; i < 2; i++)
        half[i] = __nvvm_shfl_sync_down_i32(lanes, half[i], far, 0x1f);
    __builtin_memcpy(&value, half, sizeof half);
    return value;
}
