/* Recipes of 8-bit products: words, and what casts and operands move by published counts. */
#include "shared/strategy/fp8_recipe.h"

#include "tests/lib/unit.h"

TEST(words_name_recipes)
{
    for (int k = 0; k < LW_N_FP8_RECIPES; k++)
        assert_int_equal(lw_fp8_recipe_named(lw_fp8_recipe_word(k)), k);
    assert_null(lw_fp8_recipe_word(LW_N_FP8_RECIPES));
    assert_null(lw_fp8_recipe_word(-1));
    assert_int_equal(lw_fp8_recipe_named(NULL), LW_FP8_UNSTATED);
    assert_int_equal(lw_fp8_recipe_named(""), LW_FP8_UNSTATED);
    assert_int_equal(lw_fp8_recipe_named("mx"), LW_FP8_UNSTATED);
}

/* What torchao's roofline_utils.py counts of an input or a gradient of n elements (2 bytes, and 1
 * in 8 bits), kernel by kernel, less one kernel that reads 16 bits and writes both layouts. */
TEST(casts_of_torchao_are_its_kernels)
{
    const int64_t n = 4096, one = 2 * n + 2 * n;
    const struct { enum lw_fp8_recipe recipe; int64_t kernels; } cases[] = {
        {LW_FP8_DELAYED, one},
        {LW_FP8_TENSORWISE, 2 * n + (2 * n + 2 * n)},          /* the largest; both layouts */
        {LW_FP8_ROWWISE, (2 * n + n + 2 * n) + (2 * n + n)},   /* rows, 16-bit columns; columns */
        {LW_FP8_MXFP8, (2 * n + n) + (2 * n + n)},             /* rows; columns */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(one + lw_fp8_cast_more(cases[i].recipe, n, false, true),
                         cases[i].kernels);
    assert_int_equal(lw_fp8_cast_more(LW_FP8_ROWWISE, n, false, false), 0); /* rows alone */
    assert_int_equal(lw_fp8_cast_more(LW_FP8_MXFP8, n, false, false), 0);
    assert_int_equal(lw_fp8_cast_more(LW_FP8_TENSORWISE, n, false, false), 2 * n);
}

/* TransformerEngine's kernel writes both layouts, whatever the scales; the pass for one scale of
 * the tensor's own values is before it. */
TEST(casts_of_transformer_engine_are_one_kernel)
{
    for (int k = 0; k < LW_N_FP8_RECIPES; k++)
        if (k != LW_FP8_ROWWISE)
            assert_int_equal(lw_fp8_cast_more((enum lw_fp8_recipe)k, 64, true, true),
                             k == LW_FP8_TENSORWISE ? 128 : 0);
}

/* 256 x 128 elements: of MXFP8 a byte for 32, of blocks an f32 for 128. */
TEST(operands_have_their_scales)
{
    const int64_t n = INT64_C(256) * 128;

    assert_int_equal(lw_fp8_operand_bytes(LW_FP8_MXFP8, n), n + n / 32);
    assert_int_equal(lw_fp8_operand_bytes(LW_FP8_BLOCKWISE, n), n + n / 128 * 4);
    assert_int_equal(lw_fp8_operand_bytes(LW_FP8_DELAYED, n), n);
    assert_int_equal(lw_fp8_operand_bytes(LW_FP8_TENSORWISE, n), n);
    for (int k = 0; k < LW_N_FP8_RECIPES; k++)
        assert_int_equal(lw_fp8_has_layouts((enum lw_fp8_recipe)k), k >= LW_FP8_ROWWISE);
}
