/* Tasks on the GPU: the parts as kernels, then the rest of the task's time.
 *
 * By the clock (spin, sleep): lw_begin writes the device's clock to the stream's word, lw_wait
 * keeps one thread busy, or asleep between looks, until begin + work. It occupies one SM in part
 * and no memory bandwidth: overlap is exact, contention is not there. Otherwise (gemm) the rest is
 * filled with work of the op's kind (nccl_filler.c). How long parts take is measured at opening,
 * with nothing beside them. The globaltimer that the kernels read ticks in steps that depend on the
 * device (32 ns to 1 us). */
#include "exec/nccl/nccl_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/cpu/gradients.h"
#include "exec/cpu/sparse_rows.h"

enum { N_TINY = 32 };
enum { ELEMENTS_PER_SM = 1 << 16, MAX_ELEMENTS = 1 << 25 };

/* --- parts ------------------------------------------------------------------------------------ */

/* The table of a run on the device; tables of one shape hold the same numbers (gradients.h). */
static enum lw_status table_on_device(struct exec_world *w, const struct exec_gradient_table *t,
                                      CUdeviceptr *at, struct lw_err *err)
{
    for (const struct gradient_table *k = w->tables; k; k = k->next)
        if (k->multiple == t->multiple && k->largest == t->largest) {
            *at = k->at;
            return LW_OK;
        }
    struct gradient_table *k;
    LW_NEW(k, 1, err);
    enum lw_status s = nccl_mem_new(w, sizeof t->value, &k->at, err);
    if (s == LW_OK)
        s = nccl_mem_put(w, k->at, t->value, sizeof t->value, err);
    if (s != LW_OK) {
        lw_free(k);
        return s;
    }
    k->multiple = t->multiple;
    k->largest = t->largest;
    k->next = w->tables;
    w->tables = k;
    *at = k->at;
    return LW_OK;
}

static enum lw_status fill(struct exec_world *w, CUstream s, const struct exec_part *p,
                           CUdeviceptr table, struct lw_err *err)
{
    const struct exec_gradient *g = &p->gradient;
    struct kernel_fill a = {p->to, (const float *)table, p->count, (int32_t)p->to_dtype, p->add,
                            g->param, g->rank, g->step, g->pass};
    return nccl_launch(w, s, KERNEL_fill, &a, p->count, err);
}

static enum lw_status copy(struct exec_world *w, CUstream s, const struct exec_part *p,
                           struct lw_err *err)
{
    if (p->to_dtype == p->from_dtype && p->divisor == 1 && !p->add)
        return nccl_cu(cuMemcpyDtoDAsync((CUdeviceptr)p->to, (CUdeviceptr)p->from,
                                         (size_t)(p->count * lw_dtype_size(p->to_dtype)), s),
                       "cuMemcpyDtoDAsync", err);
    struct kernel_convert a = {p->to, p->from, p->count, (int32_t)p->to_dtype,
                               (int32_t)p->from_dtype, p->divisor, p->add};
    return nccl_launch(w, s, KERNEL_convert, &a, p->count, err);
}

static enum lw_status update(struct exec_world *w, CUstream s, const struct exec_part *p,
                             struct lw_err *err)
{
    struct kernel_update a = {p->to, p->state[0], p->state[1], p->from, p->count,
                              (int32_t)p->from_dtype, p->divisor, p->update};
    return nccl_launch(w, s, KERNEL_update, &a, p->count, err);
}

static enum lw_status begin(struct exec_stream *s, struct lw_err *err)
{
    struct kernel_begin a = {s->clock};
    s->n_queued++;
    return nccl_launch(s->world, s->cu, KERNEL_begin, &a, 1, err);
}

static enum lw_status wait_until(struct exec_stream *s, int64_t ns, bool idle, struct lw_err *err)
{
    struct kernel_wait a = {s->clock, ns, (const volatile int32_t *)s->world->flags_at + FLAG_STOP,
                            idle};
    s->n_queued++;
    return nccl_launch(s->world, s->cu, KERNEL_wait, &a, 1, err);
}

static enum lw_status hang(struct exec_stream *s, struct lw_err *err)
{
    LW_TRY(begin(s, err));
    return wait_until(s, INT64_MAX, true, err);
}

/* What follows on the stream does not run: a failed rank gives the others nothing more. */
static enum lw_status report(struct exec_stream *s, struct lw_err *err)
{
    struct kernel_report a = {(volatile int32_t *)s->world->flags_at + FLAG_FAILED, 1};

    LW_TRY(nccl_launch(s->world, s->cu, KERNEL_report, &a, 1, err));
    return hang(s, err);
}

static enum lw_status check(struct exec_stream *s, const struct exec_part *p, struct lw_err *err)
{
    struct kernel_check a = {p->from, p->count, (int32_t)p->from_dtype,
                             (volatile int32_t *)s->world->flags_at + FLAG_FAILED};
    return nccl_launch(s->world, s->cu, KERNEL_check, &a, p->count, err);
}

static enum lw_status carry(struct exec_stream *s, const struct exec_part *p, CUdeviceptr table,
                            struct lw_err *err)
{
    const struct exec_gradient *g = &p->gradient;
    struct kernel_carry a = {p->to,
                             p->from,
                             (const float *)table,
                             p->count,
                             p->n_from,
                             (int32_t)p->to_dtype,
                             (int32_t)p->from_dtype,
                             g->param,
                             g->rank,
                             g->step,
                             g->pass};
    return nccl_launch(s->world, s->cu, KERNEL_carry, &a, p->count, err);
}

/* Row after row: cuBLAS, which goes by columns, sees everything transposed, so the factors swap. */
static enum lw_status part_product(struct exec_world *w, CUstream s, const struct exec_part *p,
                                   struct lw_err *err)
{
    const float one = 1.0f, zero = 0.0f;
    int n = (int)p->count;

    if (w->how.compute != EXEC_COMPUTE_GEMM)
        return lw_fail(err, LW_ENOTSUP, "a product of %d rows needs --compute gemm", n);
    LW_TRY(nccl_blas(cublasSetStream(w->blas, (cudaStream_t)s), "cublasSetStream", err));
    return nccl_blas(cublasSgemm(w->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one,
                                 (const float *)p->state[0], n, (const float *)p->from, n, &zero,
                                 p->to, n), "cublasSgemm", err);
}

/* cuBLAS loads the kernel of a shape at its first product. Under CUDA's lazy loading that may wait
 * for all kernels of the device, also for a collective that waits for another rank (CUDA
 * programming guide, "Lazy Loading"): the first product runs when the task is given. Its result is
 * overwritten when the task runs. Shapes of the plan and fillers first run when they are
 * measured. */
static enum lw_status load_product(struct exec_world *w, const struct exec_part *p,
                                   struct lw_err *err)
{
    struct loaded *k = w->loaded;

    while (k && k->side != p->count)
        k = k->next;
    if (k)
        return LW_OK;
    LW_NEW(k, 1, err);
    *k = (struct loaded){w->loaded, p->count};
    w->loaded = k;
    LW_TRY(part_product(w, w->setup, p, err));
    return nccl_wait_setup(w, err);
}

/* Two threads at least: then there are whole warps of them. */
static enum lw_status squares(struct exec_world *w, CUstream s, const struct exec_part *p,
                              struct lw_err *err)
{
    struct kernel_squares a = {p->to, p->from, p->count, (int32_t)p->to_dtype,
                               (int32_t)p->from_dtype, p->divisor};
    return nccl_launch(w, s, KERNEL_squares, &a, p->count > 1 ? p->count : 2, err);
}

static enum lw_status scale(struct exec_world *w, CUstream s, const struct exec_part *p,
                            struct lw_err *err)
{
    struct kernel_scale a = {p->to, p->clip.squares, p->clip.norm, p->count, (int32_t)p->to_dtype,
                             (int32_t)p->clip.dtype, p->divisor};
    return nccl_launch(w, s, KERNEL_scale, &a, p->count, err);
}

/* What the part takes alone on the device. */
static double time_of(const struct exec_world *w, const struct exec_part *p)
{
    const struct rates *r = &w->rates;
    double n = p->rows ? (double)(p->rows->capacity * p->rows->row_numel) : (double)p->count;

    switch (p->kind) {
    case EXEC_PART_FILL:
    case EXEC_PART_POISON:
        return r->launch_ns + r->fill_ns * n;
    case EXEC_PART_UPDATE:
        return r->launch_ns + r->update_ns * n;
    case EXEC_PART_EXPECT:
        return 2 * r->launch_ns + r->copy_ns * n;
    case EXEC_PART_GEMM:
        return r->launch_ns + pow(n / w->fill[FILL_F32].unit, 3) * w->fill[FILL_F32].unit_ns;
    case EXEC_PART_FAIL:
    case EXEC_PART_HANG:
        return r->launch_ns;
    default:
        return r->launch_ns + r->copy_ns * n;
    }
}

static enum lw_status issue_part(struct exec_stream *s, const struct exec_part *p,
                                 struct lw_err *err)
{
    CUdeviceptr table = 0;

    s->n_queued++;
    if (p->count == 0 && p->kind < EXEC_PART_FAIL)
        return LW_OK;
    if (p->gradient.table)
        LW_TRY(table_on_device(s->world, p->gradient.table, &table, err));
    switch (p->kind) {
    case EXEC_PART_FILL:
        return fill(s->world, s->cu, p, table, err);
    case EXEC_PART_COPY:
        return copy(s->world, s->cu, p, err);
    case EXEC_PART_UPDATE:
        return update(s->world, s->cu, p, err);
    case EXEC_PART_POISON:
        return nccl_cu(cuMemsetD8Async((CUdeviceptr)p->to, 0xff,
                                       (size_t)(p->count * lw_dtype_size(p->to_dtype)), s->cu),
                       "cuMemsetD8Async", err);
    case EXEC_PART_CHECK:
        return check(s, p, err);
    case EXEC_PART_EXPECT:
        return nccl_expect(s, p, table, err);
    case EXEC_PART_CARRY:
        return carry(s, p, table, err);
    case EXEC_PART_GEMM:
        return part_product(s->world, s->cu, p, err);
    case EXEC_PART_SQUARES:
        return squares(s->world, s->cu, p, err);
    case EXEC_PART_SCALE:
        return scale(s->world, s->cu, p, err);
    case EXEC_PART_FAIL: return report(s, err);
    case EXEC_PART_HANG: return hang(s, err);
    case EXEC_PART_ROWS_FILL:
    case EXEC_PART_ROWS_SEND:
    case EXEC_PART_ROWS_SUM:
    case EXEC_PART_ROWS_UPDATE:
    case EXEC_PART_ROWS_CLEAR:
        return nccl_rows(s, p, table, err);
    case EXEC_PART_FLIP:
    case EXEC_PART_EXIT:
    case EXEC_PART_KILL:
    case EXEC_PART_STOP: break; /* not among its capabilities */
    }
    return lw_fail(err, LW_ENOTSUP, "part of kind %d", (int)p->kind);
}

/* --- tasks ------------------------------------------------------------------------------------ */

static bool by_clock(const struct exec_world *w, const struct exec_task *t)
{
    return t->idle || w->how.compute != EXEC_COMPUTE_GEMM;
}

enum lw_status nccl_compute_room(struct exec_stream *s, const struct exec_task *t,
                                 struct lw_err *err)
{
    struct exec_world *w = s->world;
    CUdeviceptr table;

    for (int32_t i = 0; i < t->n_parts; i++) {
        if (t->parts[i].gradient.table)
            LW_TRY(table_on_device(w, t->parts[i].gradient.table, &table, err));
        if (t->parts[i].kind == EXEC_PART_GEMM)
            LW_TRY(load_product(w, &t->parts[i], err));
    }
    if (t->work_ns <= 0 || by_clock(w, t))
        return LW_OK;
    struct exec_task rest = nccl_rest_of(t);
    LW_TRY(nccl_products_room(s, t, err));
    return nccl_fill_room(s, &rest, err);
}

int64_t nccl_task_entries(const struct exec_world *w, const struct exec_task *t)
{
    enum { EACH = 2, ROWS = 5 }; /* a comparison is two kernels */
    int64_t n = (int64_t)EACH * t->n_parts + 2;

    for (int32_t i = 0; i < t->n_parts; i++)
        n += t->parts[i].rows ? ROWS + t->parts[i].rows->n_members : 0;
    if (!by_clock(w, t) && t->work_ns > 0) {
        struct exec_task rest = nccl_rest_of(t);
        n += nccl_fill_entries(w, &rest) + nccl_products_entries(t);
    }
    return n;
}

enum lw_status nccl_issue_task(struct exec_stream *s, const struct exec_task *t, struct flight *f,
                               struct lw_err *err)
{
    bool clock = by_clock(s->world, t);
    double rest = (double)t->work_ns, ns;

    if (clock && t->work_ns > 0)
        LW_TRY(begin(s, err));
    for (int32_t i = 0; i < t->n_parts; i++) {
        LW_TRY(issue_part(s, &t->parts[i], err));
        f->fails |= t->parts[i].kind == EXEC_PART_FAIL;
        rest -= time_of(s->world, &t->parts[i]);
    }
    if (!clock && t->work_ns > 0) {
        LW_TRY(nccl_products_issue(s, t, &ns, err));
        rest -= ns;
    }
    if (t->work_ns > 0 && rest < 0)
        f->over_ns = (int64_t)-rest;
    if (clock && t->work_ns > 0)
        return wait_until(s, t->work_ns,
                          t->idle || s->world->how.compute == EXEC_COMPUTE_SLEEP, err);
    struct exec_task left = nccl_rest_of(t);
    return rest > 0 && t->work_ns > 0 ? nccl_fill_rest(s, &left, rest, err) : LW_OK;
}

/* --- measuring -------------------------------------------------------------------------------- */

static enum lw_status one_fill(struct exec_world *w, int32_t kind, int64_t n, struct lw_err *err)
{
    struct kernel_fill a = {(void *)w->a, (const float *)w->b, n, LW_F32, 0, 0, 0, 0, 0};
    (void)kind;
    return nccl_launch(w, w->setup, KERNEL_fill, &a, n, err);
}

static enum lw_status one_copy(struct exec_world *w, int32_t kind, int64_t n, struct lw_err *err)
{
    struct kernel_convert a = {(void *)w->a, (const void *)w->b, n, LW_F32, LW_F32, 2, 0};
    (void)kind;
    return nccl_launch(w, w->setup, KERNEL_convert, &a, n, err);
}

static enum lw_status one_update(struct exec_world *w, int32_t kind, int64_t n, struct lw_err *err)
{
    struct kernel_update a = {(float *)w->a, NULL, NULL, (const void *)w->b, n, LW_F32, 1, {0}};
    (void)kind;
    return nccl_launch(w, w->setup, KERNEL_update, &a, n, err);
}

static enum lw_status measure_parts(struct exec_world *w, int64_t n, struct lw_err *err)
{
    struct rates *r = &w->rates;

    LW_TRY(nccl_time_work(w, one_copy, 0, 1, N_TINY, &r->launch_ns, err));
    LW_TRY(nccl_time_work(w, one_fill, 0, n, 1, &r->fill_ns, err));
    LW_TRY(nccl_time_work(w, one_copy, 0, n, 1, &r->copy_ns, err));
    LW_TRY(nccl_time_work(w, one_update, 0, n, 1, &r->update_ns, err));
    r->fill_ns = fmax(r->fill_ns - r->launch_ns, 0) / (double)n;
    r->copy_ns = fmax(r->copy_ns - r->launch_ns, 0) / (double)n;
    r->update_ns = fmax(r->update_ns - r->launch_ns, 0) / (double)n;
    return LW_OK;
}

enum lw_status nccl_compute_again(struct exec_world *w, struct lw_err *err)
{
    return w->blas ? nccl_fill_again(w, err) : LW_OK;
}

enum lw_status nccl_compute_open(struct exec_world *w, struct lw_err *err)
{
    int64_t n = (int64_t)ELEMENTS_PER_SM * w->n_sm;

    n = n > MAX_ELEMENTS ? MAX_ELEMENTS : n;
    LW_TRY(nccl_mem_new(w, 4 * n, &w->a, err));
    LW_TRY(nccl_mem_new(w, 4 * n, &w->b, err));
    LW_TRY(nccl_mem_new(w, nccl_fill_sizes(w, n), &w->c, err));
    LW_TRY(measure_parts(w, n, err));
    if (w->how.compute == EXEC_COMPUTE_GEMM)
        return nccl_fill_open(w, err);
    snprintf(w->compute, sizeof w->compute, "a kernel of one thread, %s, by the device's clock",
             w->how.compute == EXEC_COMPUTE_SLEEP ? "asleep" : "busy");
    return LW_OK;
}

void nccl_compute_close(struct exec_world *w)
{
    if (w->blas)
        cublasDestroy(w->blas);
    w->blas = NULL;
    while (w->loaded) {
        struct loaded *k = w->loaded;
        w->loaded = k->next;
        lw_free(k);
    }
    nccl_products_close(w);
}
