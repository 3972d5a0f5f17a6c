/* Recipes of 8-bit products: their words, and what casts and operands take with each. */
#include "shared/strategy/fp8_recipe.h"

#include <stddef.h>
#include <string.h>

const char *const lw_fp8_recipe_words[LW_N_FP8_RECIPES + 1] = {
    [LW_FP8_UNSTATED] = "unstated",     [LW_FP8_DELAYED] = "delayed",
    [LW_FP8_TENSORWISE] = "tensorwise", [LW_FP8_ROWWISE] = "rowwise",
    [LW_FP8_BLOCKWISE] = "blockwise",   [LW_FP8_MXFP8] = "mxfp8"};

const char *lw_fp8_recipe_word(int recipe)
{
    return recipe >= 0 && recipe < LW_N_FP8_RECIPES ? lw_fp8_recipe_words[recipe] : NULL;
}

enum lw_fp8_recipe lw_fp8_recipe_named(const char *word)
{
    for (int k = 1; word && k < LW_N_FP8_RECIPES; k++)
        if (strcmp(lw_fp8_recipe_words[k], word) == 0)
            return (enum lw_fp8_recipe)k;
    return LW_FP8_UNSTATED;
}

/* NVIDIA/TransformerEngine@d0067d0d, transformer_engine/common/recipe/__init__.py: of
 * Float8BlockScaling and MXFP8BlockScaling "the quantized tensor and its transpose are not
 * numerically equivalent". */
bool lw_fp8_has_layouts(enum lw_fp8_recipe recipe)
{
    return recipe == LW_FP8_ROWWISE || recipe == LW_FP8_BLOCKWISE || recipe == LW_FP8_MXFP8;
}

int64_t lw_fp8_operand_bytes(enum lw_fp8_recipe recipe, int64_t n)
{
    return recipe == LW_FP8_BLOCKWISE || recipe == LW_FP8_MXFP8 ? n + n / 32 : n;
}

/* Current scaling reads the tensor for its largest value before (NVIDIA/TransformerEngine@c188b533
 * (v2.11), pytorch/csrc/quantizer.cpp, Float8CurrentScalingQuantizer::quantize_impl). torchao casts
 * by rows, which writes columns in 16 bits that a second kernel casts, and MXFP8's rows and columns
 * by a kernel each (pytorch/ao@36027d82, torchao/testing/training/roofline_utils.py,
 * get_tensor_memory_traffic_ovhd_s); TransformerEngine has one kernel for both
 * (pytorch/csrc/quantizer.cpp: nvte_quantize_v2). */
int64_t lw_fp8_cast_more(enum lw_fp8_recipe recipe, int64_t n, bool engine, bool columns)
{
    switch (recipe) {
    case LW_FP8_TENSORWISE:
        return 2 * n;
    case LW_FP8_ROWWISE:
        return columns ? 4 * n : 0;
    case LW_FP8_MXFP8:
        return columns && !engine ? 2 * n : 0;
    default:
        return 0;
    }
}
