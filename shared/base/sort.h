#pragma once

#include <stdint.h>
#include <stdlib.h>

/* Sort n items of an array; where n is 0 it may be NULL, which qsort may not be given. Recorded
 * events are often in order already: then n - 1 comparisons are all it costs. */
#define lw_sort(v, n, by) lw_sort_items((v), (n), sizeof *(v), (by))

static inline void lw_sort_items(void *v, int64_t n, size_t size,
                                 int (*by)(const void *, const void *))
{
    const char *item = v;
    int64_t i = 1;

    while (i < n && by(item + (size_t)(i - 1) * size, item + (size_t)i * size) <= 0)
        i++;
    if (i < n)
        qsort(v, (size_t)n, size, by);
}
