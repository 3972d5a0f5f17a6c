/* Integer gradients, element types and the optimizer: exec/cpu/gradients.h, element.h,
 * optimizer.h and docs/design/gradients.md. */
#include <math.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/backend/element.h"
#include "exec/cpu/gradients.h"
#include "exec/backend/optimizer.h"

static struct exec_gradient_table table;

static struct exec_gradient gradient(int32_t param, int32_t rank, int32_t step, int32_t pass)
{
    return (struct exec_gradient){&table, param, rank, step, pass};
}

/* The example of the page: 6 ranks, 2 passes, bf16. 12 terms; 6 = 3 * 2, so multiples of 3;
 * 256 / 12 / 3 = 7: values 3, 6, ... 21 and their negatives; the largest sum is 12 * 21 = 252. */
TEST(the_table_fits_the_type)
{
    struct lw_err err = {0};

    assert_int_equal(exec_gradient_table_init(&table, 12, 6, exec_exact_limit(LW_BF16), &err),
                     LW_OK);
    assert_int_equal(table.multiple, 3);
    assert_int_equal(table.largest, 7);
    for (int i = 0; i < EXEC_GRADIENT_TABLE + EXEC_GRADIENT_BLOCK; i++) {
        float v = fabsf(table.value[i]);
        assert_true(v >= 3 && v <= 21 && fmodf(v, 3) == 0);
    }
}

/* 257 ranks in bf16: 257 is odd, and 257 terms of at least 257 do not fit 256 */
TEST(sums_beyond_the_type_are_refused)
{
    struct lw_err err = {0};

    assert_int_equal(exec_gradient_table_init(&table, 257, 257, 256, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "multiples of 257"));
    assert_int_equal(exec_gradient_table_init(&table, 256, 256, 256, &err), LW_OK); /* +-1 each */
}

TEST(sums_are_exact_in_every_type_and_order)
{
    static const enum lw_dtype types[] = {LW_F32, LW_F16, LW_BF16, LW_F64};
    enum { N = 3000, RANKS = 6 };
    static unsigned char up[N * 8], down[N * 8], one[N * 8];

    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        enum lw_dtype t = types[k];
        assert_int_equal(exec_gradient_table_init(&table, RANKS, RANKS, exec_exact_limit(t), NULL),
                         LW_OK);
        memset(up, 0, sizeof up);
        memset(down, 0, sizeof down);
        for (int32_t r = 0; r < RANKS; r++) {
            struct exec_gradient a = gradient(5, r, 2, 0), b = gradient(5, RANKS - 1 - r, 2, 0);
            exec_gradient_fill(&a, t, up, 0, N, true);
            exec_gradient_fill(&b, t, one, 0, N, false);
            exec_add(t, down, one, N);
        }
        assert_memory_equal(up, down, (size_t)(N * lw_dtype_size(t)));
        for (int64_t e = 0; e < N; e++) {
            double sum = 0;
            for (int32_t r = 0; r < RANKS; r++) {
                struct exec_gradient a = gradient(5, r, 2, 0);
                sum += exec_gradient_at(&a, e);
            }
            assert_true(exec_get(t, up, e) == sum);
            exec_put(t, one, 0, sum / RANKS); /* 6 = 3 * 2: the quotient is a half at most */
            assert_true(exec_get(t, one, 0) * RANKS == sum);
        }
    }
}

TEST(a_part_is_a_part_of_the_whole)
{
    float whole[5000], part[700];
    struct exec_gradient g = gradient(1, 2, 3, 4);

    assert_int_equal(exec_gradient_table_init(&table, 4, 4, 1 << 24, NULL), LW_OK);
    exec_gradient_fill(&g, LW_F32, whole, 0, 5000, false);
    exec_gradient_fill(&g, LW_F32, part, 1000, 700, false);
    assert_memory_equal(part, whole + 1000, sizeof part);
    for (int64_t e = 0; e < 5000; e++)
        assert_true((double)whole[e] == exec_gradient_at(&g, e));
}

/* How many of n elements agree when one stream is shifted, or is of another parameter, step,
 * pass or rank: about one in 2 * largest by chance, here 2000; 5 % would be a pattern. */
TEST(other_gradients_differ)
{
    struct exec_gradient base = gradient(7, 0, 0, 0);
    const struct exec_gradient others[] = {gradient(8, 0, 0, 0), gradient(7, 1, 0, 0),
                                           gradient(7, 0, 1, 0), gradient(7, 0, 0, 1), base};

    assert_int_equal(exec_gradient_table_init(&table, 2, 2, 1 << 24, NULL), LW_OK);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        int64_t shift = others[k].param == 7 && k == 4 ? 1024 : 0, same = 0;
        for (int64_t e = 0; e < 20000; e++)
            same += exec_gradient_at(&base, e) == exec_gradient_at(&others[k], e + shift);
        assert_true(same < 1000);
    }
}

TEST(half_types_convert_both_ways)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = exec_f32_of_f16((uint16_t)h), b = exec_f32_of_bf16((uint16_t)h);
        if (f == f)
            assert_int_equal(exec_f16_of_f32(f), h);
        if (b == b)
            assert_int_equal(exec_bf16_of_f32(b), h);
    }
    assert_true(exec_f32_of_f16(exec_f16_of_f32(2049.0f)) == 2048.0f); /* to even */
    assert_true(exec_f32_of_f16(exec_f16_of_f32(2051.0f)) == 2052.0f);
    assert_true(exec_f32_of_bf16(exec_bf16_of_f32(257.0f)) == 256.0f);
    assert_true(exec_f32_of_bf16(exec_bf16_of_f32(259.0f)) == 260.0f);
}

/* rate 0.5, momentum 0.5, gradient 6 / 3 = 2 twice from w = 10:
 * state 2, w = 10 - 1 = 9; state 0.5 * 2 + 2 = 3, w = 9 - 1.5 = 7.5 */
TEST(the_optimizer_steps_by_hand)
{
    float w[70], s[70] = {0}, g[70], plain[70];

    for (int i = 0; i < 70; i++) {
        w[i] = plain[i] = 10;
        g[i] = 6;
    }
    struct exec_optimizer sgd = {.kind = EXEC_SGD, .rate = 0.5f};
    struct exec_optimizer momentum = {.kind = EXEC_MOMENTUM, .rate = 0.5f, .momentum = 0.5f};
    struct exec_update u = exec_update_of(&momentum, 0), v = exec_update_of(&sgd, 0);

    exec_update_run(&u, w, s, NULL, LW_F32, g, 70, 3);
    exec_update_run(&u, w, s, NULL, LW_F32, g, 70, 3);
    exec_update_run(&v, plain, NULL, NULL, LW_F32, g, 70, 3);
    for (int i = 0; i < 70; i++) {
        assert_true(w[i] == 7.5f && s[i] == 3.0f);
        assert_true(plain[i] == 9.0f);
    }
}

/* rate 1, betas 0.5 and 0.75, epsilon 0, gradient 2 from w = 10. Step 0: m = 1, v = 1, rate_t =
 * 1 / 0.5, root_t = sqrt(0.25): w = 10 - 2 * 1 / (1 / 0.5) = 9. Step 1, gradient 2: m = 0.5 + 1
 * = 1.5, v = 0.75 + 1 = 1.75, rate_t = 1 / 0.75, root_t = sqrt(1 - 0.5625): the same direction,
 * so w = 9 - (1.5 / 0.75) / sqrt(1.75 / 0.4375) = 9 - 2 / 2 = 8. */
TEST(adam_steps_by_hand)
{
    struct exec_optimizer adam = {EXEC_ADAM, 1.0f, 0.5f, 0.75f, 0.0f};
    float w[3] = {10, 10, 10}, m[3] = {0}, v[3] = {0}, g[3] = {2, 2, 2};

    for (int64_t step = 0; step < 2; step++) {
        struct exec_update u = exec_update_of(&adam, step);
        exec_update_run(&u, w, m, v, LW_F32, g, 3, 1);
        assert_float_equal(w[2], step == 0 ? 9 : 8, 1e-6);
    }
    assert_true(m[1] == 1.5f && v[1] == 1.75f);
}

/* Cut anywhere, the same bits: what a sharded optimizer will rely on. */
TEST(the_optimizer_is_the_same_in_parts)
{
    float whole[333], parts[333], g[333], m[2][333] = {{0}}, v[2][333] = {{0}};
    struct exec_optimizer adam = exec_optimizer_of(EXEC_ADAM);
    struct exec_update u = exec_update_of(&adam, 4);

    for (int i = 0; i < 333; i++) {
        whole[i] = parts[i] = 1.0f / (float)(i + 1);
        g[i] = (float)(i % 17) / 3.0f;
    }
    exec_update_run(&u, whole, m[0], v[0], LW_F32, g, 333, 1);
    exec_update_run(&u, parts, m[1], v[1], LW_F32, g, 101, 1);
    exec_update_run(&u, parts + 101, m[1] + 101, v[1] + 101, LW_F32, g + 101, 232, 1);
    assert_memory_equal(whole, parts, sizeof whole);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
}
