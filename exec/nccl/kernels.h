#pragma once

#include <stdint.h>
#ifndef __CUDACC__
#include <time.h>
#endif

#include "exec/backend/optimizer.h"
#include "exec/backend/scalar.h"
#include "shared/numbers/dtype.h"
#include "shared/workload/sparse.h"

/* The bodies of the NCCL backend's kernels. nvcc compiles them for the GPU
 * (exec/nccl/kernels.cu), gcc for the fake GPU of the tests (tests/fake_gpu): so the arithmetic
 * that CI checks is the one that a GPU runs. A kernel lw_X takes one `struct kernel_X` by value;
 * its body sees the number of its thread and of all threads, and strides over its elements. */

enum { KERNEL_MAX_MEMBERS = 64 };

struct kernel_fill { /* to[n] = gradient, or += */
    void *to;
    const float *table; /* [EXEC_GRADIENT_TABLE + EXEC_GRADIENT_BLOCK] in device memory */
    int64_t n;
    int32_t dtype, add, param, rank, step, pass;
};

struct kernel_convert { /* to[n] = from[n] / divisor, or += */
    void *to;
    const void *from;
    int64_t n;
    int32_t to_dtype, from_dtype, divisor, add;
};

struct kernel_update { /* g = gradient * divisor; m, v: what the update keeps */
    float *w, *m, *v;
    const void *g;
    int64_t n;
    int32_t dtype, divisor;
    struct exec_update u;
};

struct kernel_sum { /* each of to[n_to][n] = sum of from[n_from][n]; a `to` may be a `from` */
    void *to[KERNEL_MAX_MEMBERS];
    const void *from[KERNEL_MAX_MEMBERS];
    int64_t n;
    int32_t dtype, n_to, n_from;
};

struct kernel_check { /* *flag = 2 where from[n] holds poison */
    const void *from;
    int64_t n;
    int32_t dtype;
    volatile int32_t *flag;
};

enum { KERNEL_SEEN = 16 };

/* Before anything is found all bits of it are set. */
struct kernel_found {
    uint64_t place;           /* of the first element */
    double value;             /* that is there */
    double seen[KERNEL_SEEN]; /* the first of all */
};
#define KERNEL_NOWHERE UINT64_MAX

/* found->place = the least where from[n] is not the sum of the ranks' gradients */
struct kernel_expect {
    const void *from;
    const float *table;
    int64_t n;
    int32_t dtype, param, n_ranks, step, pass;
    int32_t rank[KERNEL_MAX_MEMBERS];
    struct kernel_found *found;
};

/* found->value = from[found->place], and what is seen of from[n], if anything was found */
struct kernel_note {
    const void *from;
    struct kernel_found *found;
    int64_t n;
    int32_t dtype;
};

struct kernel_carry { /* to[i] += from[i modulo n_from] - its gradient */
    void *to;
    const void *from;
    const float *table;
    int64_t n, n_from;
    int32_t to_dtype, from_dtype, param, rank, step, pass;
};

struct kernel_squares { /* *to += (from[i] / divisor)^2, all i < n; in blocks of whole warps */
    void *to;
    const void *from;
    int64_t n;
    int32_t to_dtype, from_dtype, divisor;
};

/* to[n] = to / divisor, scaled so that the norm, the root of *squares, is at most `norm` */
struct kernel_scale {
    void *to;
    const void *squares;
    double norm;
    int64_t n;
    int32_t dtype, squares_dtype, divisor;
};

struct kernel_begin { /* *at = the device's clock */
    int64_t *at;
};

struct kernel_wait { /* until the device's clock shows *from + ns, or *stop is not 0 */
    const int64_t *from;
    int64_t ns;
    const volatile int32_t *stop;
    int32_t idle; /* sleep between looks */
};

struct kernel_report { /* *flag = value, seen by the host */
    volatile int32_t *flag;
    int32_t value;
};

#define KERNEL_LIST(X) X(fill) X(convert) X(update) X(sum) X(check) X(expect) X(note) \
    X(carry) X(rows) X(squares) X(scale) X(begin) X(wait) X(report)

/* Words of host memory that the host and kernels share. */
EXEC_BOTH int32_t kernel_look(const volatile int32_t *word)
{
#ifdef __CUDACC__
    return *word;
#else
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

EXEC_BOTH void kernel_say(volatile int32_t *word, int32_t value)
{
#ifdef __CUDACC__
    *word = value;
#else
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

EXEC_BOTH int64_t kernel_now_ns(void)
{
#ifdef __CUDA_ARCH__
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return (int64_t)t;
#elif defined(__CUDACC__)
    return 0; /* the host half of a device function: never called */
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
#endif
}

EXEC_BOTH void kernel_doze(int64_t left_ns) /* at most left_ns, and short */
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700 /* older devices poll without a pause */
    (void)left_ns;
    __nanosleep(2000);
#elif !defined(__CUDACC__)
    nanosleep(&(struct timespec){0, left_ns < 1000000 ? (long)left_ns : 1000000}, 0);
#else
    (void)left_ns;
#endif
}

EXEC_BOTH void kernel_publish(void) /* what was written is seen by the host */
{
#ifdef __CUDA_ARCH__
    __threadfence_system();
#endif
}

EXEC_BOTH void kernel_keep_least(uint64_t *least, uint64_t value)
{
#ifdef __CUDA_ARCH__
    atomicMin((unsigned long long *)least, (unsigned long long)value);
#else
    if (value < *least) /* the fake GPU runs a kernel's threads one after the other */
        *least = value;
#endif
}

EXEC_BOTH void kernel_fill_run(const struct kernel_fill *a, int64_t thread, int64_t n_threads)
{
    enum lw_dtype t = (enum lw_dtype)a->dtype;
    int64_t block = -1;
    uint32_t start = 0;

    for (int64_t i = thread; i < a->n; i += n_threads) {
        if (i / EXEC_GRADIENT_BLOCK != block) { /* a thread that stays in one hashes once */
            block = i / EXEC_GRADIENT_BLOCK;
            start = exec_gradient_start(a->param, a->rank, a->step, a->pass, block);
        }
        float v = a->table[start + i % EXEC_GRADIENT_BLOCK];
        if (a->add)
            exec_put(t, a->to, i, (double)v + exec_get(t, a->to, i));
        else
            exec_put(t, a->to, i, (double)v);
    }
}

EXEC_BOTH void kernel_convert_run(const struct kernel_convert *a, int64_t thread, int64_t n_threads)
{
    enum lw_dtype to = (enum lw_dtype)a->to_dtype, from = (enum lw_dtype)a->from_dtype;

    for (int64_t i = thread; i < a->n; i += n_threads) {
        if (a->add)
            exec_put(to, a->to, i,
                     exec_get(to, a->to, i) + exec_get(from, a->from, i) / a->divisor);
        else if (to == LW_F32 && from == LW_F32)
            ((float *)a->to)[i] = ((const float *)a->from)[i] / (float)a->divisor;
        else
            exec_put(to, a->to, i, exec_get(from, a->from, i) / a->divisor);
    }
}

EXEC_BOTH void kernel_update_run(const struct kernel_update *a, int64_t thread, int64_t n_threads)
{
    for (int64_t i = thread; i < a->n; i += n_threads)
        exec_update_one(&a->u, a->w + i, a->m ? a->m + i : 0, a->v ? a->v + i : 0,
                        (float)(exec_get((enum lw_dtype)a->dtype, a->g, i) / a->divisor));
}

EXEC_BOTH void kernel_sum_run(const struct kernel_sum *a, int64_t thread, int64_t n_threads)
{
    enum lw_dtype t = (enum lw_dtype)a->dtype;

    for (int64_t i = thread; i < a->n; i += n_threads) {
        double sum = exec_get(t, a->from[0], i);
        for (int32_t k = 1; k < a->n_from; k++)
            sum += exec_get(t, a->from[k], i);
        for (int32_t k = 0; k < a->n_to; k++)
            exec_put(t, a->to[k], i, sum);
    }
}

EXEC_BOTH void kernel_check_run(const struct kernel_check *a, int64_t thread, int64_t n_threads)
{
    for (int64_t i = thread; i < a->n; i += n_threads)
        if (exec_is_poison((enum lw_dtype)a->dtype, a->from, i)) {
            kernel_say(a->flag, 2);
            kernel_publish();
        }
}

EXEC_BOTH void kernel_expect_run(const struct kernel_expect *a, int64_t thread, int64_t n_threads)
{
    for (int64_t i = thread; i < a->n; i += n_threads) {
        double want = 0;
        for (int32_t k = 0; k < a->n_ranks; k++) {
            uint32_t start = exec_gradient_start(a->param, a->rank[k], a->step, a->pass,
                                                 i / EXEC_GRADIENT_BLOCK);
            want += (double)a->table[start + i % EXEC_GRADIENT_BLOCK];
        }
        if (exec_get((enum lw_dtype)a->dtype, a->from, i) != want) {
            kernel_keep_least(&a->found->place, (uint64_t)i);
            return; /* the places after are this thread's later ones */
        }
    }
}

EXEC_BOTH void kernel_note_run(const struct kernel_note *a, int64_t thread, int64_t n_threads)
{
    enum lw_dtype t = (enum lw_dtype)a->dtype;

    (void)n_threads;
    if (thread != 0 || a->found->place == KERNEL_NOWHERE)
        return;
    a->found->value = exec_get(t, a->from, (int64_t)a->found->place);
    for (int64_t i = 0; i < KERNEL_SEEN && i < a->n; i++)
        a->found->seen[i] = exec_get(t, a->from, i);
}

EXEC_BOTH void kernel_carry_run(const struct kernel_carry *a, int64_t thread, int64_t n_threads)
{
    enum lw_dtype to = (enum lw_dtype)a->to_dtype, from = (enum lw_dtype)a->from_dtype;

    for (int64_t i = thread; i < a->n; i += n_threads) {
        int64_t k = i % a->n_from;
        uint32_t start = exec_gradient_start(a->param, a->rank, a->step, a->pass,
                                             k / EXEC_GRADIENT_BLOCK);
        double more =
            exec_get(from, a->from, k) - (double)a->table[start + k % EXEC_GRADIENT_BLOCK];
        exec_put(to, a->to, i, exec_get(to, a->to, i) + more);
    }
}

#ifdef __CUDA_ARCH__
/* Devices before sm_60 have no atomic addition of f64: exchange until no other thread has come
 * between. */
__device__ inline void kernel_add_f64(double *to, double value)
{
#if __CUDA_ARCH__ >= 600
    atomicAdd(to, value);
#else
    unsigned long long *word = (unsigned long long *)to, seen = *word, expected;

    do {
        expected = seen;
        seen =
            atomicCAS(word, expected, __double_as_longlong(__longlong_as_double(expected) + value));
    } while (seen != expected);
#endif
}
#endif

#include "exec/nccl/rows_kernel.h" /* uses what stands above */

/* f64 or f32; whole numbers over a power of two: exact in any order. */
EXEC_BOTH void kernel_add_to(enum lw_dtype t, void *to, double value)
{
#ifdef __CUDA_ARCH__
    if (t == LW_F64)
        kernel_add_f64((double *)to, value);
    else
        atomicAdd((float *)to, (float)value);
#else
    exec_put(t, to, 0, exec_get(t, to, 0) + value);
#endif
}

/* Of the 32 threads of a warp the first has their sum; all of them are here. */
EXEC_BOTH double kernel_sum_of_warp(double value)
{
#ifdef __CUDA_ARCH__
    for (int far = 16; far > 0; far /= 2)
        value += __shfl_down_sync(0xffffffffu, value, far);
#endif
    return value;
}

EXEC_BOTH int kernel_speaks_for_warp(int64_t thread)
{
#ifdef __CUDA_ARCH__
    return thread % 32 == 0;
#else
    return thread >= 0; /* each for itself */
#endif
}

EXEC_BOTH void kernel_squares_run(const struct kernel_squares *a, int64_t thread, int64_t n_threads)
{
    double sum = 0;

    for (int64_t i = thread; i < a->n; i += n_threads) {
        double v = exec_get((enum lw_dtype)a->from_dtype, a->from, i) / a->divisor;
        sum += v * v;
    }
    sum = kernel_sum_of_warp(sum);
    if (kernel_speaks_for_warp(thread))
        kernel_add_to((enum lw_dtype)a->to_dtype, a->to, sum);
}

EXEC_BOTH void kernel_scale_run(const struct kernel_scale *a, int64_t thread, int64_t n_threads)
{
    double squares = exec_get((enum lw_dtype)a->squares_dtype, a->squares, 0);
    float scale = exec_clip_coefficient(squares, a->norm);

    for (int64_t i = thread; i < a->n; i += n_threads)
        exec_scale_one((enum lw_dtype)a->dtype, a->to, i, a->divisor, scale);
}

EXEC_BOTH void kernel_begin_run(const struct kernel_begin *a, int64_t thread, int64_t n_threads)
{
    (void)n_threads;
    if (thread == 0)
        *a->at = kernel_now_ns();
}

EXEC_BOTH void kernel_wait_run(const struct kernel_wait *a, int64_t thread, int64_t n_threads)
{
    (void)n_threads;
    if (thread != 0)
        return;
    for (;;) {
        int64_t left = a->ns - (kernel_now_ns() - *a->from);
        if (left <= 0 || kernel_look(a->stop) != 0)
            return;
        if (a->idle)
            kernel_doze(left);
    }
}

EXEC_BOTH void kernel_report_run(const struct kernel_report *a, int64_t thread, int64_t n_threads)
{
    (void)n_threads;
    if (thread != 0)
        return;
    kernel_say(a->flag, a->value);
    kernel_publish();
}
