#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "shared/numbers/dtype.h"

/* What the host and a GPU must compute alike, element by element: nvcc compiles these for the
 * device, gcc and clang for the host. f16 follows IEEE 754 binary16, bf16 is the upper half of
 * an f32, both rounded to nearest even. */

#ifdef __CUDACC__
#define EXEC_BOTH static __host__ __device__ inline
#else
#define EXEC_BOTH static inline
#endif

EXEC_BOTH int exec_is_poison(enum lw_dtype t, const void *from, int64_t i)
{
    switch (t) {
    case LW_F64: return ((const uint64_t *)from)[i] == UINT64_MAX;
    case LW_F16:
    case LW_BF16: return ((const uint16_t *)from)[i] == UINT16_MAX;
    default: return ((const uint32_t *)from)[i] == UINT32_MAX;
    }
}

EXEC_BOTH float exec_f32_of_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

EXEC_BOTH uint16_t exec_bf16_of_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

EXEC_BOTH float exec_f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff, u;
    float f;

    if (e == 0) {
        f = (float)m / 16777216.0f; /* subnormal: m * 2^-24 */
        memcpy(&u, &f, sizeof u);
        u |= sign;
    } else {
        u = sign | (e == 31 ? 255 : e + 112) << 23 | m << 13;
    }
    memcpy(&f, &u, sizeof f);
    return f;
}

EXEC_BOTH uint16_t exec_f16_of_f32(float f) /* overflow to infinity */
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    uint32_t a = u & 0x7fffffff;

    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (a >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) { /* below 2^-14: a multiple of 2^-24; adding 0.5 aligns and rounds */
        float t, half = 0.5f;
        memcpy(&t, &a, sizeof t);
        t += half;
        memcpy(&a, &t, sizeof a);
        return (uint16_t)(sign | (a - 0x3f000000));
    }
    return (uint16_t)(sign | (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13);
}

/* One element as f64, and back (exact for the values a type can hold; u8 takes them modulo 256). */
EXEC_BOTH double exec_get(enum lw_dtype t, const void *from, int64_t i)
{
    switch (t) {
    case LW_F32: return (double)((const float *)from)[i];
    case LW_F64: return ((const double *)from)[i];
    case LW_F16: return (double)exec_f32_of_f16(((const uint16_t *)from)[i]);
    case LW_BF16: return (double)exec_f32_of_bf16(((const uint16_t *)from)[i]);
    case LW_I64: return (double)((const int64_t *)from)[i];
    case LW_I32: return (double)((const int32_t *)from)[i];
    default: return (double)((const uint8_t *)from)[i];
    }
}

EXEC_BOTH void exec_put(enum lw_dtype t, void *to, int64_t i, double value)
{
    switch (t) {
    case LW_F32: ((float *)to)[i] = (float)value; break;
    case LW_F64: ((double *)to)[i] = value; break;
    case LW_F16: ((uint16_t *)to)[i] = exec_f16_of_f32((float)value); break;
    case LW_BF16: ((uint16_t *)to)[i] = exec_bf16_of_f32((float)value); break;
    case LW_I64: ((int64_t *)to)[i] = (int64_t)value; break;
    case LW_I32: ((int32_t *)to)[i] = (int32_t)value; break;
    default: ((uint8_t *)to)[i] = (uint8_t)(int64_t)value; break;
    }
}

/* What gradients are multiplied by so that their norm, the root of `squares`, is `norm` at most
 * (torch/nn/utils/clip_grad.py). */
EXEC_BOTH float exec_clip_coefficient(double squares, double norm)
{
    double c = norm / (sqrt(squares) + 1e-6);
    return (float)(c < 1 ? c : 1);
}

/* A sum over divisor, which is exact, scaled in f32 and rounded to its type. */
EXEC_BOTH void exec_scale_one(enum lw_dtype t, void *mem, int64_t i, int32_t divisor, float scale)
{
    exec_put(t, mem, i, (double)((float)(exec_get(t, mem, i) / divisor) * scale));
}

/* Elements first .. first + n - 1 of member i when `count` elements are dealt to n_members. */
EXEC_BOTH int64_t exec_range_first(int64_t count, int32_t n_members, int32_t i)
{
    int64_t each = count / n_members, rest = count % n_members;
    return each * i + (i < rest ? i : rest);
}

/* Gradients are stretches of one table: block b of a gradient begins where a hash of what it is
 * about says (see gradients.h). */
enum { EXEC_GRADIENT_TABLE = 4096, EXEC_GRADIENT_BLOCK = 1024 };

EXEC_BOTH uint64_t exec_mix(uint64_t x) /* splitmix64's finaliser (Steele, Lea, Flood 2014) */
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

EXEC_BOTH uint32_t exec_gradient_start(int32_t param, int32_t rank, int32_t step, int32_t pass,
                                       int64_t block)
{
    uint64_t h = exec_mix((uint64_t)param);
    h = exec_mix(h ^ (uint64_t)block);
    h = exec_mix(h ^ (uint64_t)step);
    h = exec_mix(h ^ ((uint64_t)(uint32_t)pass << 32 | (uint32_t)rank));
    return (uint32_t)(h % EXEC_GRADIENT_TABLE);
}
