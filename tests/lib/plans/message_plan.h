#pragma once

#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_build.h"

/* The tiny workload under strategy words, where each message between stages and each sum of a
 * tensor group has 20 f32, 80 bytes. After cmocka.h. */
static inline struct lw_plan message_plan(const char *words)
{
    struct lw_strategy s = strategy(words);
    struct tiny t;

    tiny_init(&t);
    for (int m = 0; m < 3; m++) {
        t.modules[m].output_bytes = 80;
        t.modules[m].tp_split = LW_TP_ROW;
        t.modules[m].tp_calls = 1;
        t.modules[m].tp_forward_bytes = t.modules[m].tp_backward_bytes = 80;
    }
    return build(&t, &s);
}
