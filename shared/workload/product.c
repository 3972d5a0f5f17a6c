/* Matrix products by shape: comparison, FLOPs, and what a table of them may hold. */
#include "shared/workload/product.h"

#include <inttypes.h>
#include <stddef.h>

bool lw_product_equal(const struct lw_product *a, const struct lw_product *b)
{
    return a->batch == b->batch && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->dtype == b->dtype && a->fp8 == b->fp8 && a->fp4 == b->fp4 &&
           a->tf32 == b->tf32 && a->accumulate == b->accumulate && a->out_size == b->out_size &&
           a->grouped == b->grouped;
}

double lw_product_operand_bytes(const struct lw_product *p, double n)
{
    return p->fp4 ? n * LW_FP4_16 / 16 : p->fp8 ? n : n * (double)lw_dtype_size(p->dtype);
}

/* Reads 16 bits an element, writes it twice, or once where no product reads columns: with frozen
 * weights (NVIDIA/TransformerEngine@v2.15, pytorch/module/linear.py: columnwise usage of the input
 * is backward_needs_input, that of the gradient requires_wgrad). Of 4 bits a pass before reads the
 * tensor for its largest value and that of its transform, whose columns are written
 * (pytorch/csrc/quantizer.cpp, NVFP4Quantizer: amax, then the casts, which newer versions make in
 * one kernel; two read the tensor once more). */
int64_t lw_product_cast_bytes(const struct lw_product *p, int64_t n, bool columns)
{
    int64_t written = columns ? 2 * n : n;

    return p->fp4 ? 4 * n + written * LW_FP4_16 / 16 : 2 * n + written;
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
