/* Sums of gradients, step by step. A gradient stays where the optimizer read it until the next step
 * begins, but for a sparse one, whose rows the optimizer clears: that is copied first. */
#include "exec/tensors/grad_sums.h"

#include "exec/backend/element.h"
#include "exec/tensors/sparse_memory.h"

void exec_sums_free(struct exec_sums *s)
{
    lw_free(s->items);
    *s = (struct exec_sums){0};
}

enum lw_status exec_sums_add(struct exec_sums *s, const struct exec_tensors *m,
                             const struct exec_place *at, const struct exec_part *update,
                             int32_t param, int64_t first, struct exec_parts *parts,
                             struct lw_err *err)
{
    struct exec_sum sum = {.step = at->step, .rank = at->rank, .param = param,
                           .divisor = update->divisor > 0 ? update->divisor : 1, .first = first,
                           .n = update->count, .from = update->from};

    if (exec_rows_of(m, at->layout, at->rank, param)) {
        char *copy = (char *)exec_rows_copy(m, at->rank, param) +
                     first * lw_dtype_size(update->from_dtype);
        sum.from = copy;
        LW_TRY(exec_parts_add(parts,
                              (struct exec_part){.kind = EXEC_PART_COPY, .to = copy,
                                                 .from = update->from, .divisor = 1,
                                                 .to_dtype = update->from_dtype,
                                                 .from_dtype = update->from_dtype,
                                                 .count = update->count},
                              err));
    }
    LW_ROOM(s->items, s->capacity, s->n + 1, err);
    s->items[s->n++] = sum;
    return LW_OK;
}

static int64_t bytes_of(const struct exec_sum *x, const struct exec_tensors *m)
{
    return x->n * lw_dtype_size(exec_gradient_dtype(m->plan, x->param));
}

enum lw_status exec_sums_read(struct exec_sums *s, const struct exec_tensors *m, struct lw_err *err)
{
    int64_t most = 0;
    enum lw_status status = LW_OK;

    for (int64_t i = s->n_read; i < s->n; i++)
        most = bytes_of(&s->items[i], m) > most ? bytes_of(&s->items[i], m) : most;
    void *host = lw_alloc((size_t)most);
    if (!host)
        return lw_fail_nomem(err);
    for (; s->n_read < s->n && status == LW_OK; s->n_read++) {
        struct exec_sum *x = &s->items[s->n_read];
        status = m->backend->mem_read(m->world, x->rank, host, x->from, bytes_of(x, m), err);
        x->got = exec_bits_sum(exec_gradient_dtype(m->plan, x->param), host, x->n);
    }
    lw_free(host);
    return status;
}
