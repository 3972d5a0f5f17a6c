/* Elements of buffers. Plain loops that the compiler vectorises for f32, the type that is timed;
 * half types go through f32 one by one. */
#include "exec/backend/element.h"

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

/* Sums by place in the block: any order gives the same where squares are whole numbers. */
static double squares_f32(const float *from, int64_t n, float divisor)
{
    double lane[BLOCK] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++) {
            double v = (double)(from[i + j] / divisor);
            lane[j] += v * v;
        }
    for (int j = 0; j < BLOCK; j++)
        sum += lane[j];
    for (; i < n; i++)
        sum += (double)(from[i] / divisor) * (double)(from[i] / divisor);
    return sum;
}

double exec_squares(enum lw_dtype t, const void *from, int64_t n, int32_t divisor)
{
    double sum = 0;

    if (t == LW_F32)
        return squares_f32(from, n, (float)divisor);
    for (int64_t i = 0; i < n; i++) {
        double v = exec_get(t, from, i) / divisor;
        sum += v * v;
    }
    return sum;
}

static void scale_f32(float *mem, int64_t n, float divisor, float scale)
{
    int64_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++)
            mem[i + j] = mem[i + j] / divisor * scale;
    for (; i < n; i++)
        mem[i] = mem[i] / divisor * scale;
}

void exec_scale(enum lw_dtype t, void *mem, int64_t n, int32_t divisor, float scale)
{
    if (t == LW_F32)
        scale_f32(mem, n, (float)divisor, scale);
    else
        for (int64_t i = 0; i < n; i++)
            exec_scale_one(t, mem, i, divisor, scale);
}

int64_t exec_exact_limit(enum lw_dtype t)
{
    static const int64_t limit[LW_N_DTYPES] = {
        [LW_F32] = 1 << 24, [LW_F64] = INT64_C(1) << 53, [LW_F16] = 1 << 11, [LW_BF16] = 1 << 8,
        [LW_I64] = INT64_C(1) << 53, [LW_I32] = INT32_MAX, [LW_U8] = 255,
    };
    return limit[t];
}

bool exec_has_poison(enum lw_dtype t, const void *from, int64_t n)
{
    int found = 0;

    for (int64_t i = 0; i < n; i++)
        found |= exec_is_poison(t, from, i);
    return found;
}

static inline uint64_t bits_of(const unsigned char *at, int size)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;

    switch (size) {
    case 1: return *at;
    case 2: return memcpy(&two, at, 2), two;
    case 4: return memcpy(&four, at, 4), four;
    default: return memcpy(&eight, at, 8), eight;
    }
}

/* Inlined with a constant size, so that an element is one load. -0 counts as 0. */
static inline uint64_t sum_of(const unsigned char *mem, int64_t n, int size)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
    const uint64_t minus_zero = UINT64_C(1) << (8 * size - 1);
    uint64_t sum = 0, factor = 1;

    for (int64_t i = 0; i < n; i++, factor += 2 * golden) {
        uint64_t bits = bits_of(mem + i * size, size);
        sum += (bits == minus_zero ? 0 : bits) * factor;
    }
    return sum;
}

uint64_t exec_bits_sum(enum lw_dtype t, const void *mem, int64_t n)
{
    switch (lw_dtype_size(t)) {
    case 1: return sum_of(mem, n, 1);
    case 2: return sum_of(mem, n, 2);
    case 4: return sum_of(mem, n, 4);
    default: return sum_of(mem, n, 8);
    }
}

void exec_range(int64_t count, int32_t n_members, int32_t i, int64_t *first, int64_t *n)
{
    *first = exec_range_first(count, n_members, i);
    *n = exec_range_first(count, n_members, i + 1) - *first;
}
