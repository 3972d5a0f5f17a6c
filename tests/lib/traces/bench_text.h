#pragma once

#include <stdlib.h>
#include <string.h>

#include "shared/json/json.h"
#include "traces/nccl_tests/import_nccl_tests.h"

/* A text as the file t.txt of measured collectives; hint NULL: none. */
static inline enum lw_status read_text(const char *text, const struct traces_bench_hint *hint,
                                struct traces_bench *b, struct lw_err *err)
{
    static const struct traces_bench_hint none;
    size_t len = strlen(text);
    char *copy = calloc(len + LW_JSON_PADDING, 1);
    struct lw_input in = {.name = "t.txt", .text = copy, .len = len};

    memcpy(copy, text, len);
    enum lw_status status = traces_bench_read(&in, hint ? hint : &none, b, err);
    free(copy);
    return status;
}
