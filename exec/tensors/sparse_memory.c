/* Where sparse gradients lie. Each rank has, beside the dense array of such a parameter, its own
 * list of rows; all members' lists lie in the bucket, as the three all-gathers bring them:
 * shapes, indices, values. Room is what the bucket's bytes say, so that even a plan that was not
 * proven stays inside. */
#include "exec/tensors/sparse_memory.h"

#include "exec/cpu/sparse_rows.h"

enum { COUNT_BYTES = 64 /* the list's length, and nothing else in its cache line */ };

/* Rows that each of n members has room for in a bucket. */
static int64_t rows_in(const struct lw_plan *p, int32_t bucket, int32_t n_members)
{
    const struct lw_bucket *b = &p->buckets[bucket];
    int64_t each = b->bytes / n_members - LW_SPARSE_SIZES * lw_dtype_size(LW_I64);

    return each > 0 ? each / lw_sparse_row_bytes(lw_plan_sparse(p, bucket), b->dtype) : 0;
}

int64_t exec_rows_offset(const struct lw_plan *p, const struct exec_layout *l, int32_t bucket,
                         enum lw_sparse_turn turn)
{
    int32_t n = l->divisor[bucket];
    int64_t at = 0;

    for (int t = 0; t < (int)turn; t++)
        at += lw_sparse_bytes(lw_plan_sparse(p, bucket), (enum lw_sparse_turn)t,
                              p->buckets[bucket].dtype, rows_in(p, bucket, n), n);
    return at;
}

/* The gathers of a program stay in their parts of the bucket. */
static enum lw_status check_ops(const struct lw_plan *p, const struct lw_program *g,
                                const struct exec_layout *l, struct lw_err *err)
{
    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (op->bucket < 0 || op->comm < 0 || !lw_plan_sparse(p, op->bucket))
            continue;
        if (op->kind != LW_OP_ALL_GATHER)
            return lw_plan_op_fail(p, i, err, ": a sparse gradient is all-gathered");
        enum lw_sparse_turn turn = lw_plan_sparse_turn(p, i);
        int64_t end = turn + 1 < LW_N_SPARSE_TURNS
                          ? exec_rows_offset(p, l, op->bucket, (enum lw_sparse_turn)(turn + 1))
                          : p->buckets[op->bucket].bytes;
        int64_t room = end - exec_rows_offset(p, l, op->bucket, turn);
        if (op->operand >= 0 || op->bytes > room)
            return lw_plan_op_fail(p, i, err,
                                   ": %lld bytes, where %lld are its part of a sparse gradient",
                                   (long long)op->bytes, (long long)room);
    }
    return LW_OK;
}

static int64_t list_bytes(const struct exec_tensors *m, int32_t k)
{
    const struct lw_sparse *x = &m->plan->sparse[k];
    int64_t values = m->sparse.rows[k] * x->row_numel *
                     lw_dtype_size(exec_gradient_dtype(m->plan, x->param));

    return COUNT_BYTES + exec_aligned(m->sparse.rows[k] * 8) + exec_aligned(values) +
           exec_aligned(m->plan->params[x->param].numel / x->row_numel * 4);
}

/* Of a whole gradient, where steps are compared. */
static int64_t dense_bytes(const struct exec_tensors *m, int32_t k)
{
    int32_t param = m->plan->sparse[k].param;

    return m->compares ? m->plan->params[param].numel *
                             lw_dtype_size(exec_gradient_dtype(m->plan, param))
                       : 0;
}

enum lw_status exec_rows_place(struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    if (p->n_sparse == 0)
        return LW_OK;
    LW_TAKE(&m->arena, m->sparse.rows, p->n_sparse, err);
    LW_TAKE(&m->arena, m->sparse.at, p->n_sparse, err);
    LW_TAKE(&m->arena, m->lists, (int64_t)p->n_variants * p->n_ranks * p->n_sparse, err);
    for (int32_t v = 0; v < p->n_variants * p->n_roles; v++) {
        const struct exec_layout *l = &m->layouts[v];
        LW_TRY(check_ops(p, &p->programs[v], l, err));
        for (int32_t k = 0; k < p->n_sparse; k++) {
            int32_t b = l->bucket_of[p->sparse[k].param];
            int64_t rows = b >= 0 && lw_plan_sparse(p, b) ? rows_in(p, b, l->divisor[b]) : 0;
            m->sparse.rows[k] = rows > m->sparse.rows[k] ? rows : m->sparse.rows[k];
        }
    }
    for (int32_t k = 0; k < p->n_sparse; k++) {
        if (m->sparse.rows[k] > INT32_MAX)
            return lw_fail(err, LW_ENOTSUP,
                           "parameter %d '%s': %lld rows of a sparse gradient are more "
                           "than a list holds",
                           p->sparse[k].param, p->params[p->sparse[k].param].name,
                           (long long)m->sparse.rows[k]);
        m->sparse.at[k] = m->sparse.bytes;
        if (m->sparse.rows[k] > 0)
            m->sparse.bytes += list_bytes(m, k) + exec_aligned(dense_bytes(m, k));
    }
    return LW_OK;
}

void *exec_rows_copy(const struct exec_tensors *m, int32_t rank, int32_t param)
{
    int32_t k = (int32_t)(exec_rows_entry(m, param) - m->plan->sparse);

    return (char *)m->ranks[rank].rows + m->sparse.at[k] + list_bytes(m, k);
}

/* One sparse gradient of a rank in a layout. */
static struct exec_rows bind(const struct exec_tensors *m, const struct exec_layout *l,
                             int32_t rank, int32_t k)
{
    const struct lw_plan *p = m->plan;
    const struct lw_sparse *x = &p->sparse[k];
    int32_t b = l->bucket_of[x->param];
    char *own = (char *)m->ranks[rank].rows + m->sparse.at[k];
    char *all = (char *)m->ranks[rank].buckets + l->stage_at[b];
    struct exec_rows r = {.row_numel = x->row_numel, .touched_rows = x->touched_rows,
                          .member = m->member.data[rank], .n_members = l->divisor[b],
                          .n_rows = p->params[x->param].numel / x->row_numel,
                          .capacity = rows_in(p, b, l->divisor[b]),
                          .dtype = exec_gradient_dtype(p, x->param)};

    r.count = (int64_t *)(void *)own;
    r.indices = (int64_t *)(void *)(own + COUNT_BYTES);
    r.values = own + COUNT_BYTES + exec_aligned(m->sparse.rows[k] * 8);
    r.place_of =
        (int32_t *)(void *)((char *)r.values + exec_aligned(m->sparse.rows[k] * x->row_numel *
                                                            lw_dtype_size(r.dtype)));
    r.shapes = (int64_t *)(void *)all;
    r.all_indices = (int64_t *)(void *)(all + exec_rows_offset(p, l, b, LW_SPARSE_INDICES));
    r.all_values = all + exec_rows_offset(p, l, b, LW_SPARSE_VALUES);
    r.sum = (char *)m->ranks[rank].grads + m->grad_at[x->param];
    return r;
}

enum lw_status exec_rows_bind(struct exec_tensors *m, int32_t rank, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    for (int32_t v = 0; v < p->n_variants; v++) {
        const struct exec_layout *l = exec_tensors_layout(m, v, rank);
        for (int32_t k = 0; k < p->n_sparse; k++) {
            int32_t b = l->bucket_of[p->sparse[k].param];
            if (b < 0 || l->stage_at[b] < 0 || !lw_plan_sparse(p, b) ||
                !exec_param_is_here(p, p->sparse[k].param, rank))
                continue;
            if (m->member.data[rank] >= l->divisor[b])
                return lw_fail(err, LW_EPLAN,
                               "rank %d is member %d of its data group, and bucket %d is "
                               "gathered by %d",
                               rank, m->member.data[rank], b, l->divisor[b]);
            m->lists[((int64_t)v * p->n_ranks + rank) * p->n_sparse + k] = bind(m, l, rank, k);
        }
    }
    return LW_OK;
}

const struct exec_rows *exec_rows_of(const struct exec_tensors *m, const struct exec_layout *l,
                                     int32_t rank, int32_t param)
{
    const struct lw_plan *p = m->plan;
    const struct lw_sparse *x = lw_sparse_of(p->sparse, p->n_sparse, param);

    if (!x)
        return NULL;
    int64_t v = (l - m->layouts) / p->n_roles;
    const struct exec_rows *r = &m->lists[(v * p->n_ranks + rank) * p->n_sparse + (x - p->sparse)];
    return r->sum ? r : NULL;
}

const struct lw_sparse *exec_rows_entry(const struct exec_tensors *m, int32_t param)
{
    const struct lw_plan *p = m->plan;
    const struct lw_sparse *x = lw_sparse_of(p->sparse, p->n_sparse, param);

    return x && m->sparse.rows[x - p->sparse] > 0 ? x : NULL;
}
