/* Sparse gradients: lists of rows, summed as c10d's gloo does it (shared/workload/sparse.c).
 *
 * A backward appends its rows to the rank's list; one that is there already is added to, so a list
 * holds each row once, as a coalesced tensor does. The list goes to the rank's place among all
 * members'. What came is added up into a dense array that is zero elsewhere: then the optimizer
 * steps, and the rows that came are zero again. So the work is in proportion to rows, but for
 * optimizers that move every weight.
 *
 * Invariants: the array is zero between steps; place_of[r] is 0 unless row r is in the list. */
#include "exec/cpu/sparse_rows.h"

#include "exec/backend/element.h"
#include "exec/cpu/gradients.h"

/* --- dense ------------------------------------------------------------------------------------ */

void exec_rows_add(const struct exec_gradient *g, const struct lw_sparse *x, int64_t numel,
                   float *to)
{
    struct exec_touch t = exec_touch_of(g, numel / x->row_numel, x->touched_rows);
    int64_t row = t.start;

    for (int32_t i = 0; i < t.n; i++, row = exec_touch_next(&t, row))
        exec_gradient_fill(g, LW_F32, to + row * x->row_numel, row * x->row_numel, x->row_numel,
                           true);
}

double exec_rows_at(const struct exec_gradient *g, const struct lw_sparse *x, int64_t numel,
                    int64_t element)
{
    struct exec_touch t = exec_touch_of(g, numel / x->row_numel, x->touched_rows);
    int64_t row = t.start;

    for (int32_t i = 0; i < t.n; i++, row = exec_touch_next(&t, row))
        if (row == element / x->row_numel)
            return exec_gradient_at(g, element);
    return 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

static int64_t row_bytes(const struct exec_rows *r)
{
    return (int64_t)r->row_numel * lw_dtype_size(r->dtype);
}

static void clear_list(const struct exec_rows *r)
{
    for (int64_t i = 0; i < *r->count; i++)
        r->place_of[r->indices[i]] = 0;
    *r->count = 0;
}

static enum lw_status fill(const struct exec_part *p, struct lw_err *err)
{
    const struct exec_rows *r = p->rows;
    struct exec_touch t = exec_touch_of(&p->gradient, r->n_rows, r->touched_rows);
    int64_t row = t.start;

    if (!p->add)
        clear_list(r);
    for (int32_t i = 0; i < t.n; i++, row = exec_touch_next(&t, row)) {
        bool there = r->place_of[row] > 0;
        if (!there && *r->count == r->capacity)
            return lw_fail(err, LW_EFAILED,
                           "the rows of a sparse gradient are more than the %lld that "
                           "the plan has room for",
                           (long long)r->capacity);
        int64_t at = there ? r->place_of[row] - 1 : (*r->count)++;
        r->indices[at] = row;
        r->place_of[row] = (int32_t)at + 1;
        exec_gradient_fill(&p->gradient, r->dtype, (char *)r->values + at * row_bytes(r),
                           row * r->row_numel, r->row_numel, there);
    }
    return LW_OK;
}

/* The own list to its place among all. */
static void send(const struct exec_part *p)
{
    const struct exec_rows *r = p->rows;
    int64_t *shape = r->shapes + r->member * (int64_t)LW_SPARSE_SIZES;
    int64_t at = r->member * r->capacity;

    memset(shape, 0, LW_SPARSE_SIZES * sizeof *shape);
    shape[LW_SPARSE_ROWS_AT] = r->n_rows;
    shape[LW_SPARSE_ROW_AT] = r->row_numel;
    shape[LW_SPARSE_COUNT_AT] = *r->count;
    memcpy(r->all_indices + at, r->indices, (size_t)*r->count * sizeof *r->indices);
    exec_convert(r->dtype, (char *)r->all_values + at * row_bytes(r), r->dtype, r->values,
                 *r->count * r->row_numel, p->divisor);
}

static enum lw_status check_list(const struct exec_rows *r, int32_t member, struct lw_err *err)
{
    const int64_t *shape = r->shapes + member * (int64_t)LW_SPARSE_SIZES;
    const int64_t *rows = r->all_indices + member * r->capacity;
    int64_t n = shape[LW_SPARSE_COUNT_AT];

    if (shape[LW_SPARSE_ROWS_AT] != r->n_rows || shape[LW_SPARSE_ROW_AT] != r->row_numel)
        return lw_fail(err, LW_EFAILED,
                       "a sparse gradient of %lld rows of %d: member %d reports %lld "
                       "of %lld",
                       (long long)r->n_rows, r->row_numel, member,
                       (long long)shape[LW_SPARSE_ROWS_AT], (long long)shape[LW_SPARSE_ROW_AT]);
    if (n < 0 || n > r->capacity)
        return lw_fail(err, LW_EFAILED,
                       "a sparse gradient: member %d reports %lld rows, and has room "
                       "for %lld",
                       member, (long long)n, (long long)r->capacity);
    for (int64_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= r->n_rows)
            return lw_fail(err, LW_EFAILED, "a sparse gradient: member %d sends row %lld of %lld",
                           member, (long long)rows[i], (long long)r->n_rows);
    return LW_OK;
}

/* After the own list of member k among all. */
static int64_t end_of(const struct exec_rows *r, int32_t k)
{
    return k * r->capacity + r->shapes[k * (int64_t)LW_SPARSE_SIZES + LW_SPARSE_COUNT_AT];
}

static void sum(const struct exec_rows *r)
{
    for (int32_t k = 0; k < r->n_members; k++)
        for (int64_t i = k * r->capacity; i < end_of(r, k); i++)
            exec_add(r->dtype, (char *)r->sum + r->all_indices[i] * row_bytes(r),
                     (const char *)r->all_values + i * row_bytes(r), r->row_numel);
}

/* What lies of a row in elements [first, first + count) of the parameter. */
static void update_row(const struct exec_part *p, int64_t row)
{
    const struct exec_rows *r = p->rows;
    int64_t from = row * r->row_numel, to = from + r->row_numel, size = lw_dtype_size(r->dtype);

    from = from > p->first ? from : p->first;
    to = to < p->first + p->count ? to : p->first + p->count;
    if (from >= to)
        return;
    float *w = (float *)p->to + (from - p->first);
    char *g = (char *)r->sum + from * size, *own = p->state[0];
    exec_update_run(&p->update, w, NULL, NULL, r->dtype, g, to - from, 1);
    memset(g, 0, (size_t)((to - from) * size));
    if (p->to_dtype != LW_F32)
        exec_convert(p->to_dtype, own + (from - p->first) * lw_dtype_size(p->to_dtype), LW_F32, w,
                     to - from, 1);
}

/* A row that two members sent is stepped at the first, and is zero at the second. */
static void update(const struct exec_part *p)
{
    const struct exec_rows *r = p->rows;

    for (int32_t k = 0; k < r->n_members; k++)
        for (int64_t i = k * r->capacity; i < end_of(r, k); i++)
            update_row(p, r->all_indices[i]);
}

static void clear(const struct exec_rows *r)
{
    for (int32_t k = 0; k < r->n_members; k++)
        for (int64_t i = k * r->capacity; i < end_of(r, k); i++)
            memset((char *)r->sum + r->all_indices[i] * row_bytes(r), 0, (size_t)row_bytes(r));
}

enum lw_status exec_rows_run(const struct exec_part *p, struct lw_err *err)
{
    if (p->kind == EXEC_PART_ROWS_FILL)
        return fill(p, err);
    if (p->kind == EXEC_PART_ROWS_SEND) {
        send(p);
        return LW_OK;
    }
    for (int32_t k = 0; k < p->rows->n_members; k++)
        LW_TRY(check_list(p->rows, k, err)); /* a plan that was not proven brings anything */
    if (p->kind == EXEC_PART_ROWS_SUM)
        sum(p->rows);
    else if (p->kind == EXEC_PART_ROWS_UPDATE)
        update(p);
    else
        clear(p->rows);
    return LW_OK;
}
