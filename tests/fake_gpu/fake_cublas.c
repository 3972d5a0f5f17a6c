/* A test fixture, not cuBLAS: the f32 and bf16 products that the NCCL backend computes with, on
 * host memory, as host functions of the fake driver's streams.
 *
 * Each shape has a kernel of its own, which is loaded at its first product: that call waits until
 * the device is idle, as CUDA may under lazy loading (CUDA programming guide, "Lazy Loading").
 * FAKE_GPU_LOG gets a line for each load. */
#include <cublas_v2.h>
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "exec/backend/scalar.h"
#include "tests/fake_gpu/fake_cuda.h"
#include "tests/fake_gpu/fake_env.h"

struct cublasContext {
    CUstream stream;
};

struct product {
    int m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const float *a, *b;
    float *c;
    const uint16_t *a16, *b16; /* bf16 instead of f32; c or c16 */
    uint16_t *c16;
    bool kept; /* by the graph that it was captured into */
};

cublasStatus_t cublasCreate(cublasHandle_t *h)
{
    *h = calloc(1, sizeof **h);
    return *h ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy(cublasHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t h, int *version)
{
    (void)h;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s)
{
    h->stream = (CUstream)s;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_EXECUTION_FAILED";
}

/* column-major, not transposed */
static void multiply_f32(const struct product *p)
{
    for (int j = 0; j < p->n; j++) {
        float *c = p->c + (size_t)j * (size_t)p->ldc;
        for (int i = 0; i < p->m; i++)
            c[i] *= p->beta;
        for (int l = 0; l < p->k; l++) {
            float b = p->alpha * p->b[(size_t)j * (size_t)p->ldb + (size_t)l];
            const float *a = p->a + (size_t)l * (size_t)p->lda;
            for (int i = 0; i < p->m; i++)
                c[i] += b * a[i];
        }
    }
}

static float *widened(const uint16_t *from, size_t n)
{
    float *to = malloc(n * sizeof *to);

    for (size_t i = 0; i < n; i++)
        to[i] = exec_f32_of_bf16(from[i]);
    return to;
}

static void multiply_bf16(struct product p) /* each matrix without gaps */
{
    size_t n = (size_t)p.m * (size_t)p.n;
    float *a = widened(p.a16, (size_t)p.m * (size_t)p.k);
    float *b = widened(p.b16, (size_t)p.k * (size_t)p.n);

    p.a = a, p.b = b;
    p.c = p.c16 ? widened(p.c16, n) : p.c;
    multiply_f32(&p);
    for (size_t i = 0; p.c16 && i < n; i++)
        p.c16[i] = exec_bf16_of_f32(p.c[i]);
    free(a);
    free(b);
    if (p.c16)
        free(p.c);
}

static void CUDA_CB multiply(void *arg)
{
    struct product *p = arg;

    if (p->a16)
        multiply_bf16(*p);
    else
        multiply_f32(p);
    if (!p->kept)
        free(p);
}

enum { MAX_LOADED = 256 };

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static struct product loaded[MAX_LOADED];
static int n_loaded;

static bool one_kernel(const struct product *a, const struct product *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && !a->a16 == !b->a16 &&
           !a->c16 == !b->c16 && (a->beta > 0) == (b->beta > 0);
}

/* The lock is held while the device is waited for, as CUDA's own is. */
static void load(const struct product *p, int stream)
{
    int fd = fake_log_fd(FAKE_ENV("FAKE_GPU_LOG")), i = 0;

    pthread_mutex_lock(&loading);
    while (i < n_loaded && !one_kernel(&loaded[i], p))
        i++;
    if (i == n_loaded && n_loaded < MAX_LOADED) {
        loaded[n_loaded++] = *p;
        fake_cuda_drain();
        if (fd >= 0)
            dprintf(fd, "load product %d %d %d stream %d\n", p->m, p->n, p->k, stream);
    }
    pthread_mutex_unlock(&loading);
}

static cublasStatus_t give(cublasHandle_t h, struct product made)
{
    struct product *p = malloc(sizeof *p);

    if (!p)
        return CUBLAS_STATUS_ALLOC_FAILED;
    load(&made, h->stream->id);
    *p = made;
    p->kept = fake_cuda_keep(h->stream, free, p);
    if (cuLaunchHostFunc(h->stream, multiply, p) == CUDA_SUCCESS)
        return CUBLAS_STATUS_SUCCESS;
    if (!p->kept)
        free(p);
    return CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasSgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                           int n, int k, const float *alpha, const float *a, int lda,
                           const float *b, int ldb, const float *beta, float *c, int ldc)
{
    if (ta != CUBLAS_OP_N || tb != CUBLAS_OP_N)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return give(h, (struct product){.m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc,
                                    .alpha = *alpha, .beta = *beta, .a = a, .b = b, .c = c});
}

/* FAKE_CUBLAS_LOG names a file: a line "batch m n k type" per call that is not one of Sgemm. */
static void log_call(int batch, int m, int n, int k, cudaDataType type)
{
    const char *name = getenv("FAKE_CUBLAS_LOG");
    FILE *f = name ? fopen(name, "a") : NULL;

    if (!f)
        return;
    fprintf(f, "%d %d %d %d %s\n", batch, m, n, k, type == CUDA_R_16BF ? "bf16" : "f32");
    fclose(f);
}

static cublasStatus_t give_typed(cublasHandle_t h, int m, int n, int k, const void *alpha,
                                 const void *a, cudaDataType at, int lda, const void *b,
                                 cudaDataType bt, int ldb, const void *beta, void *c,
                                 cudaDataType ct, int ldc, cublasComputeType_t compute)
{
    struct product p = {.m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc,
                        .alpha = *(const float *)alpha, .beta = *(const float *)beta};

    if ((at != CUDA_R_16BF && at != CUDA_R_32F) || bt != at ||
        (ct != at && ct != CUDA_R_32F) || compute != CUBLAS_COMPUTE_32F || lda != m || ldb != k ||
        ldc != m)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (at == CUDA_R_16BF)
        p.a16 = a, p.b16 = b;
    else
        p.a = a, p.b = b;
    if (ct == CUDA_R_16BF)
        p.c16 = c;
    else
        p.c = c;
    return give(h, p);
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                            int n, int k, const void *alpha, const void *a, cudaDataType at,
                            int lda, const void *b, cudaDataType bt, int ldb, const void *beta,
                            void *c, cudaDataType ct, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm)
{
    (void)algorithm;
    if (ta != CUBLAS_OP_N || tb != CUBLAS_OP_N)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    log_call(1, m, n, k, at);
    return give_typed(h, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, compute);
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const void *alpha, const void *a, cudaDataType at, int lda, long long step_a, const void *b,
    cudaDataType bt, int ldb, long long step_b, const void *beta, void *c, cudaDataType ct,
    int ldc, long long step_c, int batch, cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    size_t item = at == CUDA_R_16BF ? 2 : 4, result = ct == CUDA_R_16BF ? 2 : 4;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;

    (void)algorithm;
    if (ta != CUBLAS_OP_N || tb != CUBLAS_OP_N)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    log_call(batch, m, n, k, at);
    for (size_t i = 0; s == CUBLAS_STATUS_SUCCESS && i < (size_t)batch; i++)
        s = give_typed(h, m, n, k, alpha, (const char *)a + i * item * (size_t)step_a, at, lda,
                       (const char *)b + i * item * (size_t)step_b, bt, ldb, beta,
                       (char *)c + i * result * (size_t)step_c, ct, ldc, compute);
    return s;
}
