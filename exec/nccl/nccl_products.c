/* The plan's own matrix products, by shape, in the order of the op (gemm compute). One pair of
 * factors, as large as the largest product of the plan needs, serves all; each stream has a result
 * of its own. A product of the plan is row-major; cuBLAS goes by columns and sees everything
 * transposed, so m and n change places and the factors swap. How long each shape takes is measured
 * when the first op needs it, and again before each later batch of steps.
 *
 * Factors hold small bf16 numbers. Read as f16 or f32 the same bits are small numbers too; a device
 * draws less power, and clocks higher, on zeros. Not run by shape: 8-bit operands, which
 * cublasGemmEx does not take, and types other than f32, bf16 and f16. Those ops are filled by
 * nccl_filler.c. */
#include "exec/nccl/nccl_world.h"
#include "shared/workload/product.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 1 << 16 }; /* numbers that the host makes */

static bool type_of(enum lw_dtype t, cudaDataType *type)
{
    *type = t == LW_BF16 ? CUDA_R_16BF : t == LW_F16 ? CUDA_R_16F : CUDA_R_32F;
    return t == LW_BF16 || t == LW_F16 || t == LW_F32;
}

static cudaDataType result_type(const struct lw_product *p)
{
    cudaDataType own = CUDA_R_32F;

    (void)type_of(p->dtype, &own);
    return p->out_size == 4 ? CUDA_R_32F : own;
}

static bool runs(const struct lw_product *p)
{
    cudaDataType type;

    return type_of(p->dtype, &type) && !p->fp8 && !p->tf32;
}

bool nccl_has_products(const struct exec_task *t)
{
    for (int32_t i = 0; i < t->n_products; i++)
        if (!runs(&t->table[t->products[i]]))
            return false;
    return t->n_products > 0;
}

/* Column-major: factor `a` is the plan's k x n, `b` its m x k. */
static enum lw_status multiply(struct exec_world *w, CUstream s, const struct lw_product *p,
                               CUdeviceptr to, struct lw_err *err)
{
    const struct shapes *x = &w->shapes;
    const float alpha = 1.0f / (float)p->k, beta = p->accumulate ? 1.0f : 0.0f;
    int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    int64_t item = lw_dtype_size(p->dtype), result = p->out_size == 4 ? 4 : item;
    cudaDataType type;

    (void)type_of(p->dtype, &type);
    LW_TRY(nccl_blas(cublasSetStream(w->blas, (cudaStream_t)s), "cublasSetStream", err));
    if (p->batch > 1 && !p->grouped)
        return nccl_blas(
            cublasGemmStridedBatchedEx(w->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &alpha,
                                       (const void *)x->a, type, n, p->n * p->k,
                                       (const void *)x->b, type, k, p->m * p->k, &beta,
                                       (void *)to, result_type(p), n, p->m * p->n, (int)p->batch,
                                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "cublasGemmStridedBatchedEx", err);
    for (int64_t i = 0; i < p->batch; i++)
        LW_TRY(nccl_blas(
            cublasGemmEx(w->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &alpha,
                         (const void *)(x->a + (CUdeviceptr)(i * item * p->n * p->k)), type, n,
                         (const void *)(x->b + (CUdeviceptr)(i * item * p->m * p->k)), type, k,
                         &beta, (void *)(to + (CUdeviceptr)(i * result * p->m * p->n)),
                         result_type(p), n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "cublasGemmEx", err));
    return LW_OK;
}

/* --- room and measuring ----------------------------------------------------------------------- */

static enum lw_status fill_factor(struct exec_world *w, CUdeviceptr at, int64_t bytes,
                                  const uint16_t *block, struct lw_err *err)
{
    int64_t done = bytes < 2 * BLOCK ? bytes : 2 * BLOCK;

    LW_TRY(nccl_mem_put(w, at, block, done, err));
    for (; done < bytes; done *= 2) {
        int64_t more = bytes - done < done ? bytes - done : done;
        LW_TRY(nccl_cu(cuMemcpyDtoDAsync(at + (CUdeviceptr)done, at, (size_t)more, w->setup),
                       "cuMemcpyDtoDAsync", err));
    }
    return nccl_wait_setup(w, err);
}

static int64_t larger(int64_t a, double b)
{
    return b > (double)a ? (int64_t)b : a;
}

/* Of the largest products of the plan. */
static enum lw_status open_factors(struct exec_world *w, const struct exec_task *t,
                                   struct lw_err *err)
{
    struct shapes *x = &w->shapes;
    uint16_t *block = lw_calloc(BLOCK, sizeof *block);
    int64_t a = 1, b = 1;

    lw_free(x->ns);
    x->ns = lw_calloc((size_t)t->n_table, sizeof *x->ns);
    if (!block || !x->ns) {
        lw_free(block);
        return lw_fail_nomem(err);
    }
    x->table = t->table;
    x->n = t->n_table;
    for (int32_t i = 0; i < t->n_table; i++) {
        const struct lw_product *p = &t->table[i];
        double item = (double)lw_dtype_size(p->dtype), result = p->out_size == 4 ? 4 : item;
        if (!runs(p))
            continue;
        a = larger(a, item * (double)p->batch * (double)p->n * (double)p->k);
        b = larger(b, item * (double)p->batch * (double)p->m * (double)p->k);
        x->result_bytes = larger(x->result_bytes,
                                 result * (double)p->batch * (double)p->m * (double)p->n);
    }
    for (int64_t i = 0; i < BLOCK; i++)
        exec_put(LW_BF16, block, i, (double)(exec_mix((uint64_t)i) >> 40) / 16777216.0 - 0.5);
    enum lw_status s = nccl_mem_new(w, a, &x->a, err);
    if (s == LW_OK)
        s = nccl_mem_new(w, b, &x->b, err);
    if (s == LW_OK)
        s = nccl_mem_new(w, x->result_bytes, &x->c, err);
    if (s == LW_OK)
        s = fill_factor(w, x->a, a, block, err);
    if (s == LW_OK)
        s = fill_factor(w, x->b, b, block, err);
    lw_free(block);
    return s;
}

static enum lw_status time_shape(struct exec_world *w, int32_t i, int64_t n, struct lw_err *err)
{
    (void)n;
    return multiply(w, w->setup, &w->shapes.table[i], w->shapes.c, err);
}

enum lw_status nccl_products_room(struct exec_stream *s, const struct exec_task *t,
                                  struct lw_err *err)
{
    struct exec_world *w = s->world;
    struct shapes *x = &w->shapes;

    if (!nccl_has_products(t))
        return LW_OK;
    if (!x->a) {
        size_t at = strlen(w->compute);
        LW_TRY(open_factors(w, t, err));
        snprintf(w->compute + at, sizeof w->compute - at, ", the plan's products by shape");
    }
    for (int32_t i = 0; i < t->n_products; i++)
        if (x->ns[t->products[i]] <= 0)
            LW_TRY(nccl_time_repeated(w, time_shape, t->products[i], 0, &x->ns[t->products[i]],
                                    err));
    return s->product ? LW_OK : nccl_mem_new(w, x->result_bytes, &s->product, err);
}

enum lw_status nccl_products_again(struct exec_world *w, struct lw_err *err)
{
    struct shapes *x = &w->shapes;

    for (int32_t i = 0; i < x->n; i++)
        if (x->ns[i] > 0)
            LW_TRY(nccl_time_repeated(w, time_shape, i, 0, &x->ns[i], err));
    return LW_OK;
}

void nccl_products_close(struct exec_world *w)
{
    lw_free(w->shapes.ns);
    w->shapes.ns = NULL;
}

/* --- issuing ---------------------------------------------------------------------------------- */

struct exec_task nccl_rest_of(const struct exec_task *t)
{
    struct exec_task rest = *t;

    if (!nccl_has_products(t))
        return rest;
    for (int32_t i = 0; i < t->n_products; i++) {
        int64_t flops = lw_product_flops(&t->table[t->products[i]]);
        rest.flops = rest.flops > flops ? rest.flops - flops : 0;
    }
    if (rest.flops == 0 && rest.bytes <= 0)
        rest.bytes = 1; /* what is left is traffic */
    return rest;
}

int64_t nccl_products_entries(const struct exec_task *t)
{
    int64_t n = 0;

    for (int32_t i = 0; nccl_has_products(t) && i < t->n_products; i++)
        n += t->table[t->products[i]].grouped ? t->table[t->products[i]].batch : 1;
    return n;
}

enum lw_status nccl_products_issue(struct exec_stream *s, const struct exec_task *t, double *ns,
                                   struct lw_err *err)
{
    *ns = 0;
    for (int32_t i = 0; nccl_has_products(t) && i < t->n_products; i++) {
        LW_TRY(multiply(s->world, s->cu, &t->table[t->products[i]], s->product, err));
        *ns += s->world->shapes.ns[t->products[i]];
    }
    s->n_queued += nccl_products_entries(t);
    return LW_OK;
}
