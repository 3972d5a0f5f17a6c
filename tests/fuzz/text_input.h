#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Arbitrary bytes as the text of a file, with the padding that the JSON reader needs. */
static inline struct lw_input fuzz_input_begin(const uint8_t *data, size_t size)
{
    struct lw_input in = {.name = "fuzz", .text = calloc(size + LW_JSON_PADDING, 1), .len = size};

    if (!in.text)
        abort();
    if (size > 0)
        memcpy(in.text, data, size);
    return in;
}

/* Aborts when anything was left behind. */
static inline void fuzz_input_end(struct lw_input *in)
{
    free(in->text);
    if (lw_alloc_live() != 0)
        abort();
}
