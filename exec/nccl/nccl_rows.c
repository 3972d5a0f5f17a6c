/* The parts of sparse gradients (exec/cpu/sparse_rows.h) as kernels on the GPU. The lists of
 * several members may hold the same row: they are added up one after the other. */
#include "exec/nccl/nccl_world.h"

#include "exec/cpu/sparse_rows.h"

static enum lw_status step(struct exec_stream *s, struct kernel_rows *a, enum kernel_rows_step what,
                           int64_t n, struct lw_err *err)
{
    a->step = (int32_t)what;
    a->n = n;
    s->n_queued++;
    return nccl_launch(s->world, s->cu, KERNEL_rows, a, n, err);
}

static enum lw_status fill(struct exec_stream *s, const struct exec_part *p, struct kernel_rows *a,
                           struct lw_err *err)
{
    struct exec_touch t = exec_touch_of(&p->gradient, a->n_rows, p->rows->touched_rows);

    a->start = t.start;
    a->stride = t.stride;
    if (!p->add) {
        LW_TRY(step(s, a, ROWS_DROP, a->capacity, err));
        s->n_queued++;
        LW_TRY(nccl_cu(cuMemsetD8Async((CUdeviceptr)a->count, 0, sizeof *a->count, s->cu),
                       "cuMemsetD8Async", err));
    }
    LW_TRY(step(s, a, ROWS_PLACE, t.n, err));
    return step(s, a, ROWS_FILL, (int64_t)t.n * a->row_numel, err);
}

static enum lw_status of_each_member(struct exec_stream *s, const struct exec_part *p,
                                     struct kernel_rows *a, enum kernel_rows_step what,
                                     struct lw_err *err)
{
    for (a->member = 0; a->member < p->rows->n_members; a->member++)
        LW_TRY(step(s, a, what, a->capacity * a->row_numel, err));
    return LW_OK;
}

enum lw_status nccl_rows(struct exec_stream *s, const struct exec_part *p, CUdeviceptr table,
                         struct lw_err *err)
{
    const struct exec_rows *r = p->rows;
    const struct exec_gradient *g = &p->gradient;
    struct kernel_rows a = {
        .n_rows = r->n_rows, .capacity = r->capacity, .first = p->first,
        .end = p->first + p->count, .count = r->count, .indices = r->indices,
        .shapes = r->shapes, .all_indices = r->all_indices, .place_of = r->place_of,
        .values = r->values, .all_values = r->all_values, .sum = r->sum,
        .table = (const float *)table, .w = p->to, .own = p->state[0], .u = p->update,
        .flag = (volatile int32_t *)s->world->flags_at + FLAG_FAILED, .row_numel = r->row_numel,
        .member = r->member, .dtype = (int32_t)r->dtype, .own_dtype = (int32_t)p->to_dtype,
        .divisor = p->divisor, .param = g->param, .rank = g->rank, .of_step = g->step,
        .pass = g->pass};

    switch (p->kind) {
    case EXEC_PART_ROWS_FILL: return fill(s, p, &a, err);
    case EXEC_PART_ROWS_SEND: { /* its shape, too, where the list is short */
        int64_t n = a.capacity * a.row_numel;
        return step(s, &a, ROWS_SEND, n > LW_SPARSE_SIZES ? n : LW_SPARSE_SIZES, err);
    }
    case EXEC_PART_ROWS_SUM: return of_each_member(s, p, &a, ROWS_SUM, err);
    case EXEC_PART_ROWS_UPDATE: return of_each_member(s, p, &a, ROWS_UPDATE, err);
    default: return of_each_member(s, p, &a, ROWS_CLEAR, err);
    }
}
