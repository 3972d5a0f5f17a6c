#pragma once

#include <stdint.h>
#include <stdlib.h>

/* Sort n items of an array; where n is 0 it may be NULL, which qsort may not be given. */
#define lw_sort(v, n, by) lw_sort_items((v), (n), sizeof *(v), (by))

static inline void lw_sort_items(void *v, int64_t n, size_t size,
                                 int (*by)(const void *, const void *))
{
    if (n > 1)
        qsort(v, (size_t)n, size, by);
}
