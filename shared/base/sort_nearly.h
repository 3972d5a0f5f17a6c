#pragma once

#include <stdint.h>
#include <string.h>

#include "shared/base/sort.h"

/* lw_sort for items that are in order but for a few, as what a rank does over time: each moves down
 * to its place, equal ones keep their order. Beyond as many comparisons as sorting takes they are
 * sorted. */
#define lw_sort_nearly(v, n, by) lw_sort_nearly_items((v), (n), sizeof *(v), (by))

enum { LW_NEARLY_MOVES = 24, LW_NEARLY_SIZE = 64 }; /* places for each, on average; bytes */

static inline void lw_sort_nearly_items(void *v, int64_t n, size_t size,
                                        int (*by)(const void *, const void *))
{
    char *items = v, x[LW_NEARLY_SIZE];
    int64_t left = size <= sizeof x ? n * LW_NEARLY_MOVES : 0;

    for (int64_t i = 1; i < n; i++) {
        char *item = items + (size_t)i * size, *to = item;
        for (; to > items && left > 0 && by(to - size, item) > 0; left--)
            to -= size;
        if (left == 0) {
            lw_sort_items(v, n, size, by);
            return;
        }
        if (to == item)
            continue;
        memcpy(x, item, size);
        memmove(to + size, to, (size_t)(item - to));
        memcpy(to, x, size);
    }
}
