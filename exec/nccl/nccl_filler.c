/* What fills the rest of a task's time: work of the op's own kind, so that the SMs and the memory
 * are contended for as in training.
 *
 *   FILL_F32     f32 products on cuBLAS
 *   FILL_BF16    bf16 products that accumulate in f32: tensor cores; for ops of a 16-bit type
 *   FILL_STREAM  copies through memory; for ops whose bytes take longer than their FLOPs
 *
 * As many units as take the time, then smaller grains for the remainder. A unit of f32 has two
 * 128 x 64 tiles' worth of rows per pair of SMs, so that it fills the device; one of bf16 has twice
 * the rows. Products here are square, of equal FLOPs; those that the plan has by shape run as they
 * are (nccl_products.c), and only what is left of the op is filled. How long
 * units and grains take is measured with nothing beside them, f32 at opening, the others when the
 * first op needs them, and all again before each later batch of steps, because clocks ramp up and
 * drop. */
#include "exec/nccl/nccl_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TILE = 128, GRAINS_PER_SIDE = 4, GRAINS_PER_COPY = 64 };
enum { ROUNDS = 5, PER_ROUND = 4, MOST_CALLS = 128 };

enum lw_status nccl_blas(cublasStatus_t s, const char *call, struct lw_err *err)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return LW_OK;
    return lw_fail(err, LW_EFAILED, "cuBLAS: %s: %s", call, cublasGetStatusString(s));
}

/* `size`: rows of a product, elements of a copy. */
static enum lw_status fill_once(struct exec_world *w, CUstream s, enum filler_kind kind,
                                CUdeviceptr to, int32_t size, struct lw_err *err)
{
    const float one = 1.0f, zero = 0.0f;
    const struct filler *f = &w->fill[kind];
    struct kernel_convert copy = {(void *)to, (const void *)w->a, size, LW_F32, LW_F32, 2, 0};
    int n = size;

    switch (kind) {
    case FILL_F32:
        return nccl_blas(cublasSgemm(w->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one,
                                     (const float *)f->a, n, (const float *)f->b, n, &zero,
                                     (float *)to, n),
                         s == w->setup ? "cublasSgemm while measuring" : "cublasSgemm", err);
    case FILL_BF16:
        return nccl_blas(cublasGemmEx(w->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one,
                                      (const void *)f->a, CUDA_R_16BF, n, (const void *)f->b,
                                      CUDA_R_16BF, n, &zero, (void *)to, CUDA_R_16BF, n,
                                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                         "cublasGemmEx", err);
    default:
        return nccl_launch(w, s, KERNEL_convert, &copy, size, err);
    }
}

static enum lw_status fill_many(struct exec_world *w, CUstream s, enum filler_kind kind,
                                CUdeviceptr to, int32_t size, int64_t count, struct lw_err *err)
{
    if (kind != FILL_STREAM && count > 0)
        LW_TRY(nccl_blas(cublasSetStream(w->blas, (cudaStream_t)s), "cublasSetStream", err));
    for (int64_t i = 0; i < count; i++)
        LW_TRY(fill_once(w, s, kind, to, size, err));
    return LW_OK;
}

/* --- measuring -------------------------------------------------------------------------------- */

static enum lw_status time_once(struct exec_world *w, nccl_work_fn *work, int32_t kind, int64_t n,
                                int32_t repeat, double *ns, struct lw_err *err)
{
    CUevent from, to;
    float ms = 0;

    LW_TRY(nccl_timer_take(w, &from, err));
    LW_TRY(nccl_timer_take(w, &to, err));
    LW_TRY(nccl_cu(cuEventRecord(from, w->setup), "cuEventRecord", err));
    for (int32_t i = 0; i < repeat; i++)
        LW_TRY(work(w, kind, n, err));
    LW_TRY(nccl_cu(cuEventRecord(to, w->setup), "cuEventRecord", err));
    LW_TRY(nccl_wait_setup(w, err));
    LW_TRY(nccl_cu(cuEventElapsedTime(&ms, from, to), "cuEventElapsedTime", err));
    nccl_timer_give(w, from);
    nccl_timer_give(w, to);
    *ns = (double)ms * 1e6 / repeat;
    return LW_OK;
}

/* As many calls as take a millisecond: launches and the two events are then no part of a call,
 * which in a step follows others. On an H200 a product of 54 to 64 us took 85 in rounds of four. */
static int32_t calls_of_a_round(double ns, int32_t least)
{
    static const double ROUND_NS = 1e6;
    double n = ns > 0 ? ROUND_NS / ns : least;

    n = n < MOST_CALLS ? n : MOST_CALLS;
    return n > least ? (int32_t)n : least;
}

enum lw_status nccl_time_work(struct exec_world *w, nccl_work_fn *work, int32_t kind, int64_t n,
                              int32_t repeat, double *ns, struct lw_err *err)
{
    double sample[ROUNDS];

    LW_TRY(time_once(w, work, kind, n, repeat, &sample[0], err)); /* loads the kernel */
    for (int i = 0; i < ROUNDS; i++) {
        double t;
        int k = i;
        LW_TRY(time_once(w, work, kind, n, repeat, &t, err));
        for (; k > 0 && sample[k - 1] > t; k--)
            sample[k] = sample[k - 1];
        sample[k] = t;
    }
    *ns = sample[ROUNDS / 2];
    return LW_OK;
}

enum lw_status nccl_time_repeated(struct exec_world *w, nccl_work_fn *work, int32_t kind, int64_t n,
                                double *ns, struct lw_err *err)
{
    double first;

    LW_TRY(time_once(w, work, kind, n, 1, &first, err)); /* loads the kernel */
    LW_TRY(time_once(w, work, kind, n, 1, &first, err));
    return nccl_time_work(w, work, kind, n, calls_of_a_round(first, 1), ns, err);
}

static enum lw_status fill_for_time(struct exec_world *w, int32_t kind, int64_t size,
                                    struct lw_err *err)
{
    return fill_many(w, w->setup, (enum filler_kind)kind, w->c, (int32_t)size, 1, err);
}

static enum lw_status measure(struct exec_world *w, enum filler_kind kind, struct lw_err *err)
{
    struct filler *f = &w->fill[kind];

    LW_TRY(nccl_time_repeated(w, fill_for_time, kind, f->unit, &f->unit_ns, err));
    LW_TRY(nccl_time_repeated(w, fill_for_time, kind, f->grain, &f->grain_ns, err));
    if (f->unit_ns <= 0 || f->grain_ns <= 0)
        return lw_fail(err, LW_EFAILED, "compute that fills %d rows or elements took no time",
                       f->unit);
    f->first_ns = f->unit_ns;
    return LW_OK;
}

enum lw_status nccl_fill_again(struct exec_world *w, struct lw_err *err)
{
    for (int k = 0; w->had_batch && k < N_FILLERS; k++) {
        struct filler *f = &w->fill[k];
        double unit = 0, grain = 0;
        if (f->unit_ns <= 0)
            continue; /* no op has needed it */
        LW_TRY(time_once(w, fill_for_time, k, f->unit, calls_of_a_round(f->unit_ns, PER_ROUND),
                         &unit, err));
        LW_TRY(time_once(w, fill_for_time, k, f->grain, calls_of_a_round(f->grain_ns, PER_ROUND),
                         &grain, err));
        f->unit_ns = unit > 0 ? unit : f->unit_ns;
        f->grain_ns = grain > 0 ? grain : f->grain_ns;
    }
    if (w->had_batch)
        LW_TRY(nccl_products_again(w, err));
    w->had_batch = true;
    return LW_OK;
}

/* --- the kinds -------------------------------------------------------------------------------- */

static void describe(struct exec_world *w, enum filler_kind kind)
{
    static const char *const names[N_FILLERS] = {"sgemm", "bf16 products of", "copies of"};
    const struct filler *f = &w->fill[kind];
    size_t at = strlen(w->compute);

    snprintf(w->compute + at, sizeof w->compute - at, ", %s %d (%.1f us) and %d (%.1f us)",
             names[kind], f->unit, f->unit_ns / 1e3, f->grain, f->grain_ns / 1e3);
}

/* Matrices of small random numbers: a device draws less power, and clocks higher, on zeros. */
static enum lw_status open_products(struct exec_world *w, enum filler_kind kind, struct lw_err *err)
{
    struct filler *f = &w->fill[kind];
    int64_t n = (int64_t)f->unit * f->unit;
    enum lw_dtype t = kind == FILL_BF16 ? LW_BF16 : LW_F32;
    int64_t bytes = n * lw_dtype_size(t);
    void *host = lw_calloc((size_t)n, (size_t)lw_dtype_size(t));

    if (!host)
        return lw_fail_nomem(err);
    for (int64_t i = 0; i < n; i++)
        exec_put(t, host, i, (double)(exec_mix((uint64_t)i) >> 40) / 16777216.0 - 0.5);
    CUdeviceptr *factors[] = {&f->a, &f->b};
    enum lw_status s = LW_OK;
    for (int i = 0; s == LW_OK && i < 2; i++) {
        s = nccl_mem_new(w, bytes, factors[i], err);
        if (s == LW_OK)
            s = nccl_mem_put(w, *factors[i], host, bytes, err);
    }
    lw_free(host);
    return s;
}

static int64_t bytes_of(const struct filler *f, enum filler_kind kind)
{
    return kind == FILL_STREAM ? INT64_C(4) * f->unit
                               : (kind == FILL_F32 ? 4 : 2) * (int64_t)f->unit * f->unit;
}

int64_t nccl_fill_sizes(struct exec_world *w, int64_t elements)
{
    int64_t most = 0;
    int32_t side = TILE * (int32_t)ceil(sqrt((double)w->n_sm / 2));

    w->fill[FILL_F32] = (struct filler){.unit = side, .grain = side / GRAINS_PER_SIDE,
                                        .unit_work = 2.0 * side * side * side};
    w->fill[FILL_BF16] = (struct filler){.unit = 2 * side, .grain = 2 * side / GRAINS_PER_SIDE,
                                         .unit_work = 16.0 * side * side * side};
    w->fill[FILL_STREAM] = (struct filler){.unit = (int32_t)elements,
                                           .grain = (int32_t)(elements / GRAINS_PER_COPY),
                                           .unit_work = 8.0 * (double)elements};
    for (int k = 0; k < N_FILLERS; k++) {
        int64_t bytes = bytes_of(&w->fill[k], (enum filler_kind)k);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static enum lw_status open_kind(struct exec_world *w, enum filler_kind kind, struct lw_err *err)
{
    if (w->fill[kind].unit_ns > 0)
        return LW_OK;
    if (kind != FILL_STREAM)
        LW_TRY(open_products(w, kind, err));
    LW_TRY(measure(w, kind, err));
    describe(w, kind);
    return LW_OK;
}

enum lw_status nccl_fill_open(struct exec_world *w, struct lw_err *err)
{
    int version = 0;

    LW_TRY(nccl_blas(cublasCreate(&w->blas), "cublasCreate", err));
    LW_TRY(nccl_blas(cublasGetVersion(w->blas, &version), "cublasGetVersion", err));
    snprintf(w->compute, sizeof w->compute, "cuBLAS %d", version);
    return open_kind(w, FILL_F32, err);
}

/* Copies where the op's bytes take longer than its FLOPs do as products; products where one of them
 * is not known. The same when the task is given and when it is submitted, after lengths were
 * measured again: the room for results is that of one kind. */
static enum filler_kind kind_of(const struct exec_world *w, const struct exec_task *t)
{
    enum filler_kind product = lw_dtype_size(t->dtype) == 2 ? FILL_BF16 : FILL_F32;
    const struct filler *p = &w->fill[product], *s = &w->fill[FILL_STREAM];
    double flops_ns = (double)t->flops / p->unit_work * p->first_ns;
    double bytes_ns = (double)t->bytes / s->unit_work * s->first_ns;

    return t->flops >= 0 && t->bytes > 0 && bytes_ns > flops_ns ? FILL_STREAM : product;
}

static const char shapeless[] = ", square for ops without shapes in the plan";

/* The kinds among which the task's is chosen, and room for its results. */
enum lw_status nccl_fill_room(struct exec_stream *s, const struct exec_task *t, struct lw_err *err)
{
    struct exec_world *w = s->world;

    LW_TRY(open_kind(w, lw_dtype_size(t->dtype) == 2 ? FILL_BF16 : FILL_F32, err));
    if (t->bytes > 0)
        LW_TRY(open_kind(w, FILL_STREAM, err));
    enum filler_kind kind = kind_of(w, t);
    if (kind != FILL_STREAM && t->n_products == 0 && t->flops > 0 &&
        !strstr(w->compute, shapeless)) {
        size_t at = strlen(w->compute);
        snprintf(w->compute + at, sizeof w->compute - at, "%s", shapeless);
    }
    return s->result[kind] ? LW_OK : nccl_mem_new(w, bytes_of(&w->fill[kind], kind),
                                                  &s->result[kind], err);
}

int64_t nccl_fill_entries(const struct exec_world *w, const struct exec_task *t)
{
    const struct filler *f = &w->fill[kind_of(w, t)];

    return (int64_t)((double)t->work_ns / f->unit_ns + f->unit_ns / f->grain_ns) + 1;
}

enum lw_status nccl_fill_rest(struct exec_stream *s, const struct exec_task *t, double ns,
                              struct lw_err *err)
{
    struct exec_world *w = s->world;
    enum filler_kind kind = kind_of(w, t);
    const struct filler *f = &w->fill[kind];
    int64_t units = (int64_t)(ns / f->unit_ns);
    int64_t grains = (int64_t)((ns - (double)units * f->unit_ns) / f->grain_ns + 0.5);

    s->n_queued += units + grains;
    LW_TRY(fill_many(w, s->cu, kind, s->result[kind], f->unit, units, err));
    return fill_many(w, s->cu, kind, s->result[kind], f->grain, grains, err);
}
