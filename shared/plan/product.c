/* Matrix products by shape: comparison, FLOPs, and what a table of them may hold. */
#include "shared/plan/product.h"

#include <inttypes.h>
#include <stddef.h>

bool lw_product_equal(const struct lw_product *a, const struct lw_product *b)
{
    return a->batch == b->batch && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->dtype == b->dtype && a->fp8 == b->fp8 && a->accumulate == b->accumulate &&
           a->out_size == b->out_size && a->grouped == b->grouped;
}

int64_t lw_product_flops(const struct lw_product *p)
{
    int64_t x = 2;

    if (__builtin_mul_overflow(x, p->batch, &x) || __builtin_mul_overflow(x, p->m, &x) ||
        __builtin_mul_overflow(x, p->n, &x) || __builtin_mul_overflow(x, p->k, &x))
        return INT64_MAX;
    return x;
}

enum lw_status lw_product_check(const struct lw_product *p, int32_t i, struct lw_err *err)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"batch", p->batch}, {"m", p->m}, {"n", p->n}, {"k", p->k}};

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        if (sizes[s].value < 1 || sizes[s].value > INT32_MAX)
            return lw_fail(err, LW_EFORMAT, "at products[%d].%s: found %" PRId64
                           ", allowed: 1 to %d", i, sizes[s].name, sizes[s].value, INT32_MAX);
    return LW_OK;
}
