/* Ranges of caps by family: a table of chains, by the family's number. */
#include "analysis/tune_bound/tune_same.h"

#include <string.h>

enum { CHAINS = 4096 };

struct range {
    struct range *next_range;
    int64_t family, least, next, row;
};

struct lw_tune_same {
    struct lw_arena *arena;
    struct range *chain[CHAINS];
};

enum lw_status lw_tune_same_new(struct lw_arena *a, struct lw_tune_same **out, struct lw_err *err)
{
    LW_TAKE(a, *out, 1, err);
    (*out)->arena = a;
    return LW_OK;
}

int64_t lw_tune_family(const struct lw_tune_space *x, int64_t k)
{
    int64_t rest = x->n;

    for (int i = 0; i < x->n_dims; i++) {
        rest /= x->dim[i].n;
        if (strcmp(x->dim[i].name, "bucket-cap") == 0)
            return k - k / rest % x->dim[i].n * rest;
    }
    return k;
}

enum lw_status lw_tune_same_put(struct lw_tune_same *s, int64_t family, int64_t least, int64_t next,
                                int64_t row, struct lw_err *err)
{
    struct range **chain = &s->chain[family % CHAINS], *x;

    LW_TAKE(s->arena, x, 1, err);
    *x = (struct range){*chain, family, least, next, row};
    *chain = x;
    return LW_OK;
}

int64_t lw_tune_same_find(const struct lw_tune_same *s, int64_t family, int64_t cap)
{
    for (const struct range *x = s->chain[family % CHAINS]; x; x = x->next_range)
        if (x->family == family && x->least <= cap && cap < x->next)
            return x->row;
    return -1;
}
