#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How the operands of 8-bit products are scaled, as Megatron-LM's --fp8-recipe and torchao's
 * recipes name it. See docs/design/models.md, "8-bit recipes". */
enum lw_fp8_recipe {
    LW_FP8_UNSTATED,   /* as the framework and the device imply */
    LW_FP8_DELAYED,    /* one scale a tensor, of earlier steps' values */
    LW_FP8_TENSORWISE, /* one, of its own values: current scaling */
    LW_FP8_ROWWISE,    /* one a row, of rows or of columns */
    LW_FP8_BLOCKWISE,  /* one for 128 elements, of weights for 128 x 128 */
    LW_FP8_MXFP8,      /* one for 32 elements, of rows or of columns */
    LW_N_FP8_RECIPES,
};

/* "unstated", "delayed", "tensorwise", ..., by recipe; NULL at the end. */
extern const char *const lw_fp8_recipe_words[LW_N_FP8_RECIPES + 1];
/* NULL: no such recipe. */
const char *lw_fp8_recipe_word(int recipe);

/* NULL, "" and words that are none: LW_FP8_UNSTATED. */
enum lw_fp8_recipe lw_fp8_recipe_named(const char *word);

/* Scales are of rows or of columns, so that either layout is made of 16 bits and kept or sent
 * beside the other. */
bool lw_fp8_has_layouts(enum lw_fp8_recipe recipe);

/* Bytes of n elements in one layout, with their scales: 1/32 of a byte an element of MXFP8 (8 bits
 * for 32) and of blocks (32 bits for 128); of the others' scales nothing. */
int64_t lw_fp8_operand_bytes(enum lw_fp8_recipe recipe, int64_t n);

/* Bytes that a cast of n elements moves beside one reading of 16 bits and its writing. engine:
 * TransformerEngine casts; else torchao. columns: columns are written too. */
int64_t lw_fp8_cast_more(enum lw_fp8_recipe recipe, int64_t n, bool engine, bool columns);
