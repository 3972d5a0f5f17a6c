#pragma once

#include <stdint.h>

/* Which class each rank is of, where ranks that are alike are simulated once. On a grid the class
 * is a coordinate, and no array holds it. */
struct lw_alike_ranks {
    int32_t *of;            /* [ranks]: class of each; NULL: */
    int32_t n_each, n_classes; /* ranks r * n_each to (r + 1) * n_each - 1 are of class r, modulo
                                * n_classes; n_each 0: each rank is a class of its own */
};

static inline int32_t lw_alike_class(const struct lw_alike_ranks *a, int32_t rank)
{
    if (a->of)
        return a->of[rank];
    return a->n_each > 0 ? rank / a->n_each % a->n_classes : rank;
}

/* The first rank from `rank` + 1 on, at most n, of another class. */
static inline int32_t lw_alike_end(const struct lw_alike_ranks *a, int32_t rank, int32_t n)
{
    int32_t end = rank + 1;

    if (a->of) {
        while (end < n && a->of[end] == a->of[rank])
            end++;
        return end;
    }
    if (a->n_each > 0)
        end = a->n_classes == 1 ? n : (rank / a->n_each + 1) * a->n_each;
    return end < n ? end : n;
}
