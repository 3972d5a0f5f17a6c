/* Elements of buffers. Plain loops that the compiler vectorises for f32, the type that is timed; half
 * types go through f32 one by one. f16 follows IEEE 754 binary16, bf16 is the upper half of a f32,
 * both rounded to nearest even. */
#include "exec/element.h"

#include <string.h>

float exec_f32_of_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t exec_bf16_of_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float exec_f32_of_f16(uint16_t h)
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

uint16_t exec_f16_of_f32(float f)
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

/* Blocks of a fixed length: gcc makes vector code of them at -O2, where it leaves a loop of unknown
 * length alone. */
enum { BLOCK = 32 };

#define DEFINE_ADD(NAME, T)                                                    \
    static void NAME(T *restrict to, const T *restrict from, int64_t n)        \
    {                                                                          \
        int64_t i = 0;                                                         \
        for (; i + BLOCK <= n; i += BLOCK)                                     \
            for (int j = 0; j < BLOCK; j++)                                    \
                to[i + j] = (T)(to[i + j] + from[i + j]);                      \
        for (; i < n; i++)                                                     \
            to[i] = (T)(to[i] + from[i]);                                      \
    }

DEFINE_ADD(add_f32, float)
DEFINE_ADD(add_f64, double)
DEFINE_ADD(add_i64, int64_t)
DEFINE_ADD(add_i32, int32_t)
DEFINE_ADD(add_u8, uint8_t)

static void add_half(enum lw_dtype t, uint16_t *to, const uint16_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = t == LW_F16 ? exec_f16_of_f32(exec_f32_of_f16(to[i]) + exec_f32_of_f16(from[i]))
                            : exec_bf16_of_f32(exec_f32_of_bf16(to[i]) + exec_f32_of_bf16(from[i]));
}

void exec_add(enum lw_dtype t, void *to, const void *from, int64_t n)
{
    switch (t) {
    case LW_F32: add_f32(to, from, n); break;
    case LW_F64: add_f64(to, from, n); break;
    case LW_I64: add_i64(to, from, n); break;
    case LW_I32: add_i32(to, from, n); break;
    case LW_U8: add_u8(to, from, n); break;
    default: add_half(t, to, from, n); break;
    }
}

double exec_get(enum lw_dtype t, const void *from, int64_t i)
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

void exec_put(enum lw_dtype t, void *to, int64_t i, double value)
{
    switch (t) {
    case LW_F32: ((float *)to)[i] = (float)value; break;
    case LW_F64: ((double *)to)[i] = value; break;
    case LW_F16: ((uint16_t *)to)[i] = exec_f16_of_f32((float)value); break;
    case LW_BF16: ((uint16_t *)to)[i] = exec_bf16_of_f32((float)value); break;
    case LW_I64: ((int64_t *)to)[i] = (int64_t)value; break;
    case LW_I32: ((int32_t *)to)[i] = (int32_t)value; break;
    default: ((uint8_t *)to)[i] = (uint8_t)value; break;
    }
}

static void divide_f32(float *restrict to, const float *restrict from, int64_t n, float divisor)
{
    int64_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++)
            to[i + j] = from[i + j] / divisor;
    for (; i < n; i++)
        to[i] = from[i] / divisor;
}

void exec_convert(enum lw_dtype to_type, void *to, enum lw_dtype from_type, const void *from,
                  int64_t n, int32_t divisor)
{
    if (to_type == from_type && divisor == 1) {
        memcpy(to, from, (size_t)(n * lw_dtype_size(to_type)));
    } else if (to_type == LW_F32 && from_type == LW_F32) {
        divide_f32(to, from, n, (float)divisor);
    } else {
        for (int64_t i = 0; i < n; i++)
            exec_put(to_type, to, i, exec_get(from_type, from, i) / divisor);
    }
}

int64_t exec_exact_limit(enum lw_dtype t)
{
    static const int64_t limit[LW_N_DTYPES] = {
        [LW_F32] = 1 << 24, [LW_F64] = INT64_C(1) << 53, [LW_F16] = 1 << 11, [LW_BF16] = 1 << 8,
        [LW_I64] = INT64_C(1) << 53, [LW_I32] = INT32_MAX, [LW_U8] = 255,
    };
    return limit[t];
}
