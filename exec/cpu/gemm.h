#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Real compute: products of small f32 matrices that stay in a core's own cache. OpenBLAS (or
 * another CBLAS) is opened at run time; a kernel of our own takes its place where there is none. */
struct exec_gemm {
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    char name[96]; /* which it is, for people */
};

void exec_gemm_open(struct exec_gemm *g); /* never fails: the own kernel is always there */

/* The matrices of one thread. */
struct exec_gemm_space {
    float *a, *b, *c;
};
enum lw_status exec_gemm_space_new(struct exec_gemm_space *s, struct lw_err *err);
void exec_gemm_space_free(struct exec_gemm_space *s);

/* A unit is one product of the large size; a grain one of the small size, for the remainder. */
enum { EXEC_GEMM_UNIT = 192, EXEC_GEMM_GRAIN = 32 };
struct exec_gemm_rate {
    double unit_ns, grain_ns; /* processor time of one, with every rank computing */
};

/* c = a * b, all of n rows and columns, row after row. */
void exec_gemm_product(const struct exec_gemm *g, int n, const float *a, const float *b, float *c);

/* Processor time of one product, by the calling thread: median over rounds that last about
 * budget_ns together. */
void exec_gemm_measure(const struct exec_gemm *g, struct exec_gemm_space *s, int64_t budget_ns,
                       const atomic_bool *stop, struct exec_gemm_rate *rate);
/* A newer reading: a quarter of a small difference is believed, a large one wholly. Zeroed rate:
 * none yet. */
void exec_gemm_follow(struct exec_gemm_rate *rate, const struct exec_gemm_rate *now);
/* As many products as take ns when nothing else runs on the core. */
void exec_gemm_run(const struct exec_gemm *g, struct exec_gemm_space *s,
                   const struct exec_gemm_rate *rate, int64_t ns, const atomic_bool *stop);
