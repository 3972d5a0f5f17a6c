/* Compute by counted matrix products. An op that should take t when alone runs t / unit_ns products
 * of the unit size and fills the rest with grains. It never looks at the clock, so whatever shares
 * the core or the memory shows as a longer op, as it would in training. The unit (192 x 192: 432
 * KiB for three matrices) stays in a second-level cache; the grain is about a microsecond.
 *
 * The library runs single-threaded: a rank is one core. Its pool size is fixed before it is
 * loaded. */
#include "exec/cpu/gemm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/cpu/clock_wait.h"
#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

enum { ROW_MAJOR = 101, NO_TRANS = 111, ROUNDS = 400 };
#define FOLLOW_SHARE 0.1

/* Same interface as cblas_sgemm, for what this file asks of it: row major, not transposed. Rows
 * of c are built from rows of b, so the inner loop is a vector one. */
static void own_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc)
{
    (void)order, (void)trans_a, (void)trans_b;
    for (int i = 0; i < m; i++) {
        float *restrict row = c + (size_t)i * (size_t)ldc;
        for (int j = 0; j < n; j++)
            row[j] *= beta;
        for (int p = 0; p < k; p++) {
            float x = alpha * a[(size_t)i * (size_t)lda + (size_t)p];
            const float *restrict from = b + (size_t)p * (size_t)ldb;
            for (int j = 0; j < n; j++)
                row[j] += x * from[j];
        }
    }
}

static void *open_library(const char **file)
{
    static const char *const files[] = {"libopenblas.so.0", "libblas.so.3"};
    const char *before = getenv("OPENBLAS_NUM_THREADS");
    void *lib = NULL;

    if (!before)
        setenv("OPENBLAS_NUM_THREADS", "1", 0);
    for (size_t i = 0; i < sizeof files / sizeof *files && !lib; i++) {
        lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        *file = files[i];
        if (lib && !dlsym(lib, "cblas_sgemm")) {
            dlclose(lib);
            lib = NULL;
        }
    }
    if (!before)
        unsetenv("OPENBLAS_NUM_THREADS");
    return lib;
}

void exec_gemm_open(struct exec_gemm *g)
{
    const char *file = "";
    void *lib = open_library(&file);
    void (*set_threads)(int) = NULL;
    char *(*config)(void) = NULL;

    g->sgemm = own_sgemm;
    snprintf(g->name, sizeof g->name, "built-in sgemm (no libopenblas.so.0 or libblas.so.3 here)");
    if (!lib)
        return;
    *(void **)&g->sgemm = dlsym(lib, "cblas_sgemm");
    *(void **)&set_threads = dlsym(lib, "openblas_set_num_threads");
    *(void **)&config = dlsym(lib, "openblas_get_config");
    if (set_threads)
        set_threads(1);
    snprintf(g->name, sizeof g->name, "%s", file);
    if (config)
        snprintf(g->name, sizeof g->name, "%.*s", (int)strcspn(config() + 9, " ") + 9, config());
}

enum lw_status exec_gemm_space_new(struct exec_gemm_space *s, struct lw_err *err)
{
    size_t n = (size_t)EXEC_GEMM_UNIT * EXEC_GEMM_UNIT;
    float *all = lw_alloc(3 * n * sizeof *all);

    if (!all)
        return lw_fail_nomem(err);
    for (size_t i = 0; i < 3 * n; i++)
        all[i] = i < 7 ? (float)i * 0.25f - 0.75f : all[i - 7];
    *s = (struct exec_gemm_space){all, all + n, all + 2 * n};
    return LW_OK;
}

void exec_gemm_space_free(struct exec_gemm_space *s)
{
    lw_free(s->a);
    *s = (struct exec_gemm_space){0};
}

void exec_gemm_product(const struct exec_gemm *g, int n, const float *a, const float *b, float *c)
{
    g->sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
}

static void multiply(const struct exec_gemm *g, struct exec_gemm_space *s, int n, int64_t times,
                     const atomic_bool *stop)
{
    for (int64_t i = 0; i < times && !atomic_load_explicit(stop, memory_order_relaxed); i++)
        g->sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, n, n, n, 0.5f, s->a, n, s->b, n, 0.0f, s->c, n);
}

LW_COMPARATOR(compare, double, *a, *b)

static double measure(const struct exec_gemm *g, struct exec_gemm_space *s, int n, int64_t times,
                      int64_t budget_ns, const atomic_bool *stop)
{
    double ns[ROUNDS];
    int n_rounds = 0;
    int64_t until = exec_now_ns() + budget_ns;

    multiply(g, s, n, times, stop);
    do {
        int64_t t = exec_cpu_ns();
        multiply(g, s, n, times, stop);
        ns[n_rounds++] = (double)(exec_cpu_ns() - t) / (double)times;
    } while (n_rounds < ROUNDS && exec_now_ns() < until);
    lw_sort(ns, n_rounds, compare);
    double median = ns[n_rounds / 2];
    return median >= 1 ? median : 1;
}

void exec_gemm_measure(const struct exec_gemm *g, struct exec_gemm_space *s, int64_t budget_ns,
                       const atomic_bool *stop, struct exec_gemm_rate *rate)
{
    rate->unit_ns = measure(g, s, EXEC_GEMM_UNIT, 4, budget_ns * 4 / 5, stop);
    rate->grain_ns = measure(g, s, EXEC_GEMM_GRAIN, 64, budget_ns / 5, stop);
}

/* Single readings scatter by a few per cent; a change of the core's speed is more. */
static double follow(double before, double now)
{
    double change = before > 0 ? now / before - 1 : 1;

    return change > -FOLLOW_SHARE && change < FOLLOW_SHARE ? before + (now - before) / 4 : now;
}

void exec_gemm_follow(struct exec_gemm_rate *rate, const struct exec_gemm_rate *now)
{
    rate->unit_ns = follow(rate->unit_ns, now->unit_ns);
    rate->grain_ns = follow(rate->grain_ns, now->grain_ns);
}

void exec_gemm_run(const struct exec_gemm *g, struct exec_gemm_space *s,
                   const struct exec_gemm_rate *rate, int64_t ns, const atomic_bool *stop)
{
    int64_t units = (int64_t)((double)ns / rate->unit_ns);
    double rest = (double)ns - (double)units * rate->unit_ns;

    multiply(g, s, EXEC_GEMM_UNIT, units, stop);
    multiply(g, s, EXEC_GEMM_GRAIN, (int64_t)(rest / rate->grain_ns + 0.5), stop);
}
