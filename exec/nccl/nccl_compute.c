/* Tasks on the GPU: the parts as kernels, then the rest of the task's time.
 *
 * By the clock (spin, sleep): lw_begin writes the device's clock to the stream's word, lw_wait
 * keeps one thread busy, or asleep between looks, until begin + work. It occupies one SM in part
 * and no memory bandwidth: overlap is exact, contention is not there. By products (gemm): as
 * many f32 products of `unit` x `unit` as take the time, then smaller ones of `grain` for the
 * remainder. A unit has two 128 x 64 tiles' worth of rows per pair of SMs, so that it fills the
 * device; it slows down when something shares the SMs or the memory. How long units, grains and
 * parts take is measured at opening, with nothing beside them, and units and grains again before
 * each later batch of steps, because the clocks of a device move. The globaltimer that the kernels
 * read ticks in steps that depend on the device (32 ns to 1 us). */
#include "exec/nccl/nccl_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/cpu/gradients.h"

enum { TILE = 128, GRAINS_PER_SIDE = 4, ROUNDS = 5, PER_ROUND = 4, N_TINY = 32 };
enum { ELEMENTS_PER_SM = 1 << 16, MAX_ELEMENTS = 1 << 25 };

enum lw_status nccl_blas(cublasStatus_t s, const char *call, struct lw_err *err)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return LW_OK;
    return lw_fail(err, LW_EFAILED, "cuBLAS: %s: %s", call, cublasGetStatusString(s));
}

static enum lw_status product(struct exec_world *w, CUstream s, CUdeviceptr c, int32_t n,
                              struct lw_err *err)
{
    const float one = 1.0f, zero = 0.0f;

    return nccl_blas(cublasSgemm(w->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one,
                                 (const float *)w->a, n, (const float *)w->b, n, &zero,
                                 (float *)c, n),
                     s == w->setup ? "cublasSgemm while measuring" : "cublasSgemm", err);
}

static enum lw_status products(struct exec_world *w, CUstream s, CUdeviceptr c, int32_t n,
                               int64_t count, struct lw_err *err)
{
    LW_TRY(nccl_blas(cublasSetStream(w->blas, (cudaStream_t)s), "cublasSetStream", err));
    for (int64_t i = 0; i < count; i++)
        LW_TRY(product(w, s, c, n, err));
    return LW_OK;
}

/* --- parts -------------------------------------------------------------------------------------- */

/* The table of a run on the device; tables of one shape hold the same numbers (gradients.h). */
static enum lw_status table_on_device(struct exec_world *w, const struct exec_gradient_table *t,
                                      CUdeviceptr *at, struct lw_err *err)
{
    for (const struct gradient_table *k = w->tables; k; k = k->next)
        if (k->multiple == t->multiple && k->largest == t->largest) {
            *at = k->at;
            return LW_OK;
        }
    struct gradient_table *k = nccl_alloc(1, sizeof *k);
    if (!k)
        return lw_fail(err, LW_ENOMEM, "out of memory");
    enum lw_status s = nccl_mem_new(w, sizeof t->value, &k->at, err);
    if (s == LW_OK)
        s = nccl_mem_put(w, k->at, t->value, sizeof t->value, err);
    if (s != LW_OK) {
        nccl_free(k);
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
                           struct lw_err *err)
{
    CUdeviceptr table = 0;
    const struct exec_gradient *g = &p->gradient;

    LW_TRY(table_on_device(w, g->table, &table, err));
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

static enum lw_status expect(struct exec_stream *s, const struct exec_part *p, struct lw_err *err)
{
    CUdeviceptr table = 0;

    LW_TRY(table_on_device(s->world, p->gradient.table, &table, err));
    return nccl_expect(s, p, table, err);
}

static enum lw_status carry(struct exec_stream *s, const struct exec_part *p, struct lw_err *err)
{
    const struct exec_gradient *g = &p->gradient;
    CUdeviceptr table = 0;

    LW_TRY(table_on_device(s->world, g->table, &table, err));
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
static enum lw_status part_product(struct exec_stream *s, const struct exec_part *p,
                                   struct lw_err *err)
{
    const float one = 1.0f, zero = 0.0f;
    int n = (int)p->count;

    if (s->world->how.compute != EXEC_COMPUTE_GEMM)
        return lw_fail(err, LW_ENOTSUP, "a product of %d rows where compute goes by the clock", n);
    LW_TRY(nccl_blas(cublasSetStream(s->world->blas, (cudaStream_t)s->cu), "cublasSetStream", err));
    return nccl_blas(cublasSgemm(s->world->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one,
                                 (const float *)p->state[0], n, (const float *)p->from, n, &zero,
                                 p->to, n), "cublasSgemm", err);
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

/* *ns: what the part takes alone on the device. */
static enum lw_status issue_part(struct exec_stream *s, const struct exec_part *p, double *ns,
                                 struct lw_err *err)
{
    const struct rates *r = &s->world->rates;

    s->n_queued++;
    *ns = r->launch_ns;
    if (p->count == 0 && p->kind < EXEC_PART_FAIL)
        return LW_OK;
    switch (p->kind) {
    case EXEC_PART_FILL:
        *ns += r->fill_ns * (double)p->count;
        return fill(s->world, s->cu, p, err);
    case EXEC_PART_COPY:
        *ns += r->copy_ns * (double)p->count;
        return copy(s->world, s->cu, p, err);
    case EXEC_PART_UPDATE:
        *ns += r->update_ns * (double)p->count;
        return update(s->world, s->cu, p, err);
    case EXEC_PART_POISON:
        *ns += r->fill_ns * (double)p->count;
        return nccl_cu(cuMemsetD8Async((CUdeviceptr)p->to, 0xff,
                                       (size_t)(p->count * lw_dtype_size(p->to_dtype)), s->cu),
                       "cuMemsetD8Async", err);
    case EXEC_PART_CHECK:
        *ns += r->copy_ns * (double)p->count;
        return check(s, p, err);
    case EXEC_PART_EXPECT:
        *ns += r->launch_ns + r->copy_ns * (double)p->count;
        return expect(s, p, err);
    case EXEC_PART_CARRY:
        *ns += r->copy_ns * (double)p->count;
        return carry(s, p, err);
    case EXEC_PART_GEMM:
        *ns += pow((double)p->count / s->world->unit, 3) * s->world->unit_ns;
        return part_product(s, p, err);
    case EXEC_PART_SQUARES:
        *ns += r->copy_ns * (double)p->count;
        return squares(s->world, s->cu, p, err);
    case EXEC_PART_SCALE:
        *ns += r->copy_ns * (double)p->count;
        return scale(s->world, s->cu, p, err);
    case EXEC_PART_FAIL: return report(s, err);
    case EXEC_PART_HANG: return hang(s, err);
    case EXEC_PART_ROWS_FILL:
    case EXEC_PART_ROWS_SEND:
    case EXEC_PART_ROWS_SUM:
    case EXEC_PART_ROWS_UPDATE:
    case EXEC_PART_ROWS_CLEAR:
    case EXEC_PART_FLIP:
    case EXEC_PART_EXIT:
    case EXEC_PART_KILL:
    case EXEC_PART_STOP: break; /* not among its capabilities */
    }
    return lw_fail(err, LW_ENOTSUP, "part of kind %d", (int)p->kind);
}

/* --- tasks -------------------------------------------------------------------------------------- */

static enum lw_status compute_rest(struct exec_stream *s, double ns, struct lw_err *err)
{
    struct exec_world *w = s->world;
    int64_t units = (int64_t)(ns / w->unit_ns);
    int64_t grains = (int64_t)((ns - (double)units * w->unit_ns) / w->grain_ns + 0.5);

    s->n_queued += units + grains;
    LW_TRY(products(w, s->cu, s->result, w->unit, units, err));
    return products(w, s->cu, s->result, w->grain, grains, err);
}

static bool by_clock(const struct exec_world *w, const struct exec_task *t)
{
    return t->idle || w->how.compute != EXEC_COMPUTE_GEMM;
}

enum lw_status nccl_compute_room(struct exec_stream *s, const struct exec_task *t,
                                 struct lw_err *err)
{
    struct exec_world *w = s->world;
    int64_t bytes = (int64_t)sizeof(float) * w->unit * w->unit;
    CUdeviceptr table;

    for (int32_t i = 0; i < t->n_parts; i++)
        if (t->parts[i].gradient.table)
            LW_TRY(table_on_device(w, t->parts[i].gradient.table, &table, err));
    if (s->result || t->work_ns <= 0 || by_clock(w, t))
        return LW_OK;
    return nccl_mem_new(w, bytes, &s->result, err);
}

int64_t nccl_task_entries(const struct exec_world *w, const struct exec_task *t)
{
    enum { EACH = 2 }; /* a comparison is two kernels */
    int64_t n = (int64_t)EACH * t->n_parts + 2;

    if (!by_clock(w, t) && t->work_ns > 0)
        n += (int64_t)((double)t->work_ns / w->unit_ns + w->unit_ns / w->grain_ns) + 1;
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
        LW_TRY(issue_part(s, &t->parts[i], &ns, err));
        f->fails |= t->parts[i].kind == EXEC_PART_FAIL;
        rest -= ns;
    }
    if (t->work_ns > 0 && rest < 0)
        f->over_ns = (int64_t)-rest;
    if (clock && t->work_ns > 0)
        return wait_until(s, t->work_ns,
                          t->idle || s->world->how.compute == EXEC_COMPUTE_SLEEP, err);
    return rest > 0 && t->work_ns > 0 ? compute_rest(s, rest, err) : LW_OK;
}

/* --- measuring ---------------------------------------------------------------------------------- */

typedef enum lw_status work_fn(struct exec_world *w, int64_t n, struct lw_err *err);

static enum lw_status time_once(struct exec_world *w, work_fn *work, int64_t n, int32_t repeat,
                                double *ns, struct lw_err *err)
{
    CUevent from, to;
    float ms = 0;

    LW_TRY(nccl_timer_take(w, &from, err));
    LW_TRY(nccl_timer_take(w, &to, err));
    LW_TRY(nccl_cu(cuEventRecord(from, w->setup), "cuEventRecord", err));
    for (int32_t i = 0; i < repeat; i++)
        LW_TRY(work(w, n, err));
    LW_TRY(nccl_cu(cuEventRecord(to, w->setup), "cuEventRecord", err));
    LW_TRY(nccl_wait_setup(w, err));
    LW_TRY(nccl_cu(cuEventElapsedTime(&ms, from, to), "cuEventElapsedTime", err));
    nccl_timer_give(w, from);
    nccl_timer_give(w, to);
    *ns = (double)ms * 1e6 / repeat;
    return LW_OK;
}

/* The median of ROUNDS after one that is not counted. */
static enum lw_status time_of(struct exec_world *w, work_fn *work, int64_t n, int32_t repeat,
                              double *ns, struct lw_err *err)
{
    double sample[ROUNDS];

    LW_TRY(time_once(w, work, n, repeat, &sample[0], err));
    for (int i = 0; i < ROUNDS; i++) {
        double t;
        int k = i;
        LW_TRY(time_once(w, work, n, repeat, &t, err));
        for (; k > 0 && sample[k - 1] > t; k--)
            sample[k] = sample[k - 1];
        sample[k] = t;
    }
    *ns = sample[ROUNDS / 2];
    return LW_OK;
}

static enum lw_status one_product(struct exec_world *w, int64_t n, struct lw_err *err)
{
    return products(w, w->setup, w->c, (int32_t)n, 1, err);
}

static enum lw_status one_fill(struct exec_world *w, int64_t n, struct lw_err *err)
{
    struct kernel_fill a = {(void *)w->a, (const float *)w->b, n, LW_F32, 0, 0, 0, 0, 0};
    return nccl_launch(w, w->setup, KERNEL_fill, &a, n, err);
}

static enum lw_status one_copy(struct exec_world *w, int64_t n, struct lw_err *err)
{
    struct kernel_convert a = {(void *)w->a, (const void *)w->b, n, LW_F32, LW_F32, 2, 0};
    return nccl_launch(w, w->setup, KERNEL_convert, &a, n, err);
}

static enum lw_status one_update(struct exec_world *w, int64_t n, struct lw_err *err)
{
    struct kernel_update a = {(float *)w->a, NULL, NULL, (const void *)w->b, n, LW_F32, 1, {0}};
    return nccl_launch(w, w->setup, KERNEL_update, &a, n, err);
}

/* Matrices of small random numbers: a device draws less power, and clocks higher, on zeros. */
static enum lw_status fill_matrices(struct exec_world *w, int64_t elements, struct lw_err *err)
{
    float *host = nccl_alloc((size_t)elements, sizeof *host);
    int64_t bytes = elements * (int64_t)sizeof *host;

    if (!host)
        return lw_fail(err, LW_ENOMEM, "out of memory");
    for (int64_t i = 0; i < elements; i++)
        host[i] = (float)(exec_mix((uint64_t)i) >> 40) / 16777216.0f - 0.5f;
    enum lw_status s = nccl_mem_put(w, w->a, host, bytes, err);
    if (s == LW_OK)
        s = nccl_mem_put(w, w->b, host, bytes, err);
    nccl_free(host);
    return s;
}

static enum lw_status measure_parts(struct exec_world *w, int64_t n, struct lw_err *err)
{
    struct rates *r = &w->rates;

    LW_TRY(time_of(w, one_copy, 1, N_TINY, &r->launch_ns, err));
    LW_TRY(time_of(w, one_fill, n, 1, &r->fill_ns, err));
    LW_TRY(time_of(w, one_copy, n, 1, &r->copy_ns, err));
    LW_TRY(time_of(w, one_update, n, 1, &r->update_ns, err));
    r->fill_ns = fmax(r->fill_ns - r->launch_ns, 0) / (double)n;
    r->copy_ns = fmax(r->copy_ns - r->launch_ns, 0) / (double)n;
    r->update_ns = fmax(r->update_ns - r->launch_ns, 0) / (double)n;
    return LW_OK;
}

static enum lw_status measure_products(struct exec_world *w, struct lw_err *err)
{
    int version = 0;

    LW_TRY(nccl_blas(cublasCreate(&w->blas), "cublasCreate", err));
    LW_TRY(nccl_blas(cublasGetVersion(w->blas, &version), "cublasGetVersion", err));
    LW_TRY(time_of(w, one_product, w->unit, PER_ROUND, &w->unit_ns, err));
    LW_TRY(time_of(w, one_product, w->grain, PER_ROUND, &w->grain_ns, err));
    if (w->unit_ns <= 0 || w->grain_ns <= 0)
        return lw_fail(err, LW_EFAILED, "cuBLAS: a product of %d took no time", w->unit);
    snprintf(w->compute, sizeof w->compute, "cuBLAS %d, sgemm %d (%.1f us) and %d (%.1f us)",
             version, w->unit, w->unit_ns / 1e3, w->grain, w->grain_ns / 1e3);
    return LW_OK;
}

enum lw_status nccl_compute_again(struct exec_world *w, struct lw_err *err)
{
    const int32_t sides[] = {w->unit, w->grain};
    double *lengths[] = {&w->unit_ns, &w->grain_ns};

    for (int i = 0; w->blas && w->had_batch && i < 2; i++) {
        double ns = 0;
        LW_TRY(time_once(w, one_product, sides[i], PER_ROUND, &ns, err));
        if (ns > 0)
            *lengths[i] = ns;
    }
    w->had_batch = true;
    return LW_OK;
}

enum lw_status nccl_compute_open(struct exec_world *w, struct lw_err *err)
{
    int64_t n = (int64_t)ELEMENTS_PER_SM * w->n_sm;
    int64_t side;

    w->unit = TILE * (int32_t)ceil(sqrt((double)w->n_sm / 2));
    w->grain = w->unit / GRAINS_PER_SIDE;
    side = (int64_t)w->unit * w->unit;
    n = n > MAX_ELEMENTS ? MAX_ELEMENTS : n;
    LW_TRY(nccl_mem_new(w, 4 * (n > side ? n : side), &w->a, err));
    LW_TRY(nccl_mem_new(w, 4 * (n > side ? n : side), &w->b, err));
    LW_TRY(nccl_mem_new(w, 4 * side, &w->c, err));
    LW_TRY(measure_parts(w, n, err));
    if (w->how.compute == EXEC_COMPUTE_GEMM) {
        LW_TRY(fill_matrices(w, side, err));
        return measure_products(w, err);
    }
    snprintf(w->compute, sizeof w->compute, "a kernel of one thread, %s, by the device's clock",
             w->how.compute == EXEC_COMPUTE_SLEEP ? "asleep" : "busy");
    return LW_OK;
}

void nccl_compute_close(struct exec_world *w)
{
    if (w->blas)
        cublasDestroy(w->blas);
    w->blas = NULL;
}
