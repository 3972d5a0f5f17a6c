/* Products whose FLOPs are known and whose time is not. 2 n^3 FLOPs for n rows: the nearest n. */
#include "exec/tensors/flops_compute.h"

static int64_t flops_of(int64_t side)
{
    return 2 * side * side * side;
}

int32_t exec_product_side(const struct lw_plan *p, const struct lw_op *op)
{
    int64_t flops = op->work >= 0 ? lw_work_at(p, op->work)->flops : -1;
    int32_t below = 0, above = EXEC_MAX_SIDE + 1; /* flops_of(below) <= flops < flops_of(above) */

    if (lw_op_class(op->kind) != LW_CLASS_COMPUTE || lw_plan_work_ps(p, op) >= 0 || flops <= 0)
        return 0;
    if (flops >= flops_of(above))
        return above;
    while (above - below > 1) {
        int32_t middle = below + (above - below) / 2;
        if (flops_of(middle) <= flops)
            below = middle;
        else
            above = middle;
    }
    return below == 0 || flops_of(above) - flops < flops - flops_of(below) ? above : below;
}

static int64_t largest_side(const struct lw_plan *p)
{
    int64_t most = 0;

    for (int32_t i = 0; i < p->n_ops; i++)
        if (exec_product_side(p, &p->ops[i]) > most)
            most = exec_product_side(p, &p->ops[i]);
    return most;
}

static void fill(float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(i % 7) * 0.25f - 0.75f;
}

enum lw_status exec_products_alloc(struct exec_tensors *m, int32_t rank, struct lw_err *err)
{
    int64_t side = largest_side(m->plan), n = side * side;
    void *mem = NULL;

    if (n == 0)
        return LW_OK;
    float *numbers = lw_alloc((size_t)(2 * n) * sizeof *numbers);
    if (!numbers)
        return lw_fail_nomem(err);
    fill(numbers, 2 * n);
    enum lw_status s = m->backend->mem_alloc(m->world, rank, (2 + m->plan->n_streams) * n * 4, &mem,
                                             err);
    if (s == LW_OK)
        s = m->backend->mem_write(m->world, rank, mem, numbers, 2 * n * 4, err);
    lw_free(numbers);
    m->ranks[rank].products = mem;
    m->product_elements = n;
    return s;
}

enum lw_status exec_product_parts(const struct exec_tensors *m, const struct lw_op *op,
                                  int32_t rank, struct exec_parts *parts, struct lw_err *err)
{
    float *area = m->ranks[rank].products;
    int64_t n = m->product_elements;
    struct exec_part part = {.kind = EXEC_PART_GEMM, .count = exec_product_side(m->plan, op)};

    if (part.count == 0)
        return LW_OK;
    part.from = area;
    part.state[0] = area + n;
    part.to = area + (2 + op->stream) * n;
    return exec_parts_add(parts, part, err);
}
