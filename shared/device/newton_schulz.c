/* Products of Muon's update. Each reads two operands and writes its result in 16 bits; the addition
 * of A or X is read too. Not counted: queries, keys and values of one parameter, which Megatron
 * orthogonalizes apart, are one matrix. */
#include "shared/device/newton_schulz.h"

enum { ITEM = 2 };

static struct lw_kernel_work work(int64_t m, int64_t n, int64_t k, int64_t added)
{
    return (struct lw_kernel_work){
        .flops = 2 * m * n * k,
        .bytes = ITEM * (m * k + k * n + m * n + added),
        .product = {.batch = 1, .m = m, .n = n, .k = k, .dtype = LW_BF16},
    };
}

void lw_newton_schulz_step(int64_t rows, int64_t columns,
                           struct lw_kernel_work out[LW_NEWTON_SCHULZ_WORKS])
{
    int64_t few = rows < columns ? rows : columns, many = rows < columns ? columns : rows;

    out[0] = work(few, few, many, 0);
    out[1] = work(few, few, few, few * few);
    out[2] = work(few, many, few, few * many);
}

int64_t lw_newton_schulz_shape(const struct lw_workload *w, int32_t i, int64_t *rows,
                               int64_t *columns)
{
    const struct lw_param *p = &w->params[i];

    if (!lw_param_is_matrix(p) || !p->trainable || p->tied >= 0)
        return 0;
    *rows = p->rows;
    *columns = p->numel / p->rows;
    if (!p->expert)
        return 1;
    if (!w->grad_kernel)
        return 0;
    const struct lw_kernel *k = &w->kernels[w->modules[p->module].first_kernel + w->grad_kernel[i]];
    if (k->n * k->k != *columns)
        return 0;
    *rows = k->n;
    *columns = k->k;
    return p->rows;
}
