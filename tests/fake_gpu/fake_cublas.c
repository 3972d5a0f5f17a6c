/* A test fixture, not cuBLAS: the f32 product that the NCCL backend computes with, on host memory,
 * as a host function of the fake driver's stream. */
#include <cublas_v2.h>
#include <cuda.h>

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

static void CUDA_CB multiply(void *arg) /* column-major, not transposed */
{
    struct product *p = arg;

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
    if (!p->kept)
        free(p);
}

cublasStatus_t cublasSgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                           int n, int k, const float *alpha, const float *a, int lda,
                           const float *b, int ldb, const float *beta, float *c, int ldc)
{
    struct product *p = malloc(sizeof *p);

    if (ta != CUBLAS_OP_N || tb != CUBLAS_OP_N || !p) {
        free(p);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *p = (struct product){m, n, k, lda, ldb, ldc, *alpha, *beta, a, b, c, false};
    p->kept = fake_cuda_keep(h->stream, free, p);
    if (cuLaunchHostFunc(h->stream, multiply, p) == CUDA_SUCCESS)
        return CUBLAS_STATUS_SUCCESS;
    if (!p->kept)
        free(p);
    return CUBLAS_STATUS_EXECUTION_FAILED;
}
