/* The NCCL backend runs the plan's own matrix products: the calls that the fake cuBLAS receives,
 * compared with the plan. */
#include "tests/lib/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/files/files.h"
#include "shared/plan/plan_builder.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/fake_gpu.h"
#include "tests/lib/exec/flops_plan.h"
#include "tests/lib/files/file_fixture.h"

enum { MAX_CALLS = 1 << 14 };

struct call {
    int64_t batch, m, n, k;
    char type[8];
};

static struct call calls[MAX_CALLS], wanted[MAX_CALLS];

static bool same(const struct call *a, const struct call *b)
{
    return a->batch == b->batch && a->m == b->m && a->n == b->n && a->k == b->k &&
           strcmp(a->type, b->type) == 0;
}

/* As cuBLAS sees it: columns first, m and n changed. */
static struct call call_of(const struct lw_product *p)
{
    struct call c = {p->batch, p->n, p->m, p->k, ""};

    snprintf(c.type, sizeof c.type, "%s", lw_dtype_name(p->dtype));
    return c;
}

/* The products of one step of the plan's one rank, in order. */
static int32_t products_of_step(const struct lw_plan *p)
{
    struct lw_program g = lw_plan_program(p, p->pass_variant[p->n_passes - 1], 0);
    int32_t n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_work *w = p->ops[i].work >= 0 ? &p->works[p->ops[i].work] : NULL;
        for (int32_t k = 0; w && k < w->n_products; k++)
            wanted[n++] = call_of(&p->products[p->work_products[w->first_product + k]]);
    }
    return n;
}

/* Calls of a product of the plan; those that fill time are squares that no product equals. */
static int32_t read_calls(const struct lw_plan *p)
{
    FILE *f = fopen(fixture_path("calls"), "r");
    struct call c;
    int32_t n = 0;

    assert_non_null(f);
    while (n < MAX_CALLS && fscanf(f, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %7s",
                                   &c.batch, &c.m, &c.n, &c.k, c.type) == 5)
        for (int32_t i = 0; i < p->n_products; i++) {
            struct call own = call_of(&p->products[i]);
            if (same(&c, &own)) {
                calls[n++] = c;
                break;
            }
        }
    fclose(f);
    return n;
}

static int32_t n_times(int32_t n_calls, int32_t n_wanted)
{
    int32_t n = 0;

    for (int32_t at = 0; at + n_wanted <= n_calls; at++) {
        int32_t k = 0;
        while (k < n_wanted && same(&calls[at + k], &wanted[k]))
            k++;
        if (k == n_wanted) {
            n++;
            at += n_wanted - 1;
        }
    }
    return n;
}

/* Two steps of a small transformer: its products in the plan's order, twice, beside those that
 * measure. */
TEST(products_of_the_plan_run_by_shape)
{
    needs_fakes();
    static const struct {
        const char *options;
        int32_t batch;
    } cases[] = {{"--dtype bf16 --attention full", 4},
                 {"--dtype bf16 --attention flash", 1},
                 {"--dtype f32 --attention full", 4}};
    struct lw_plan p;
    struct lw_err err = {0};
    char line[900];
    int rc;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line,
                 "rm -f calls; $L model gpt2 --layers 2 --hidden 32 --heads 2 --seq 24 --vocab 40 "
                 "--batch 2 %s --device dgx-h100 -o g.json >log && "
                 "$L plan -w g.json -o p.json --force >log && FAKE_GPU_COUNT=1 "
                 "FAKE_CUBLAS_LOG=$PWD/calls LD_LIBRARY_PATH=%s $L exec p.json --backend nccl "
                 "--compute gemm --steps 2 --warmup 0 --no-db --format json",
                 cases[i].options, getenv("LAPWING_FAKE_GPU"));
        const char *out = shell(line, &rc);
        if (rc != 0)
            fail_msg("%s", out);
        has(out, ", the plan's products by shape");
        assert_ok(lw_plan_read(fixture_path("p.json"), false, &p, &err), err);
        int32_t n_wanted = products_of_step(&p), n_calls = read_calls(&p), largest = 0;
        assert_true(n_wanted > 12);
        for (int32_t k = 0; k < n_wanted; k++)
            largest = wanted[k].batch > largest ? (int32_t)wanted[k].batch : largest;
        assert_int_equal(largest, cases[i].batch); /* heads of the micro-batch */
        assert_int_equal(n_times(n_calls, n_wanted), 2);
        lw_plan_free(&p);
    }
}

TEST(a_plan_without_shapes_says_that_its_products_are_square)
{
    needs_fakes();
    char line[600];
    int rc;

    snprintf(line, sizeof line,
             "echo '{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"k\", \"modules\": "
             "[{\"name\": \"a\", \"forward_ns\": 2000000, \"forward_flops\": 90000000}], "
             "\"params\": [{\"name\": \"w\", \"numel\": 1000, \"module\": 0}]}' >m.json && "
             "FAKE_GPU_COUNT=1 LD_LIBRARY_PATH=%s $L exec -w m.json --backend nccl --compute gemm "
             "--steps 1 --warmup 0 --no-db --format json",
             getenv("LAPWING_FAKE_GPU"));
    const char *out = shell(line, &rc);
    if (rc != 0)
        fail_msg("%s", out);
    has(out, ", square for ops without shapes in the plan");
    has_not(out, "by shape");
}

/* Of a kernel nothing is known but its FLOPs, 2 * 40^3. */
static void write_plan_of_flops(void)
{
    struct lw_plan p;
    struct lw_err err = {0};

    flops_plan(128000, -1, &p);
    assert_ok(lw_plan_write(&p, fixture_path("flops.json"), &err), err);
    lw_plan_free(&p);
}

/* cuBLAS loads the kernel of a shape at its first product, and may wait for an idle device: on the
 * set-up stream (0) before a step, not on a stream of the plan while a collective waits for another
 * rank. */
TEST(every_shape_is_loaded_before_the_first_step)
{
    needs_fakes();
    static const char *const runs[] = {"-w g.json --dp 2", "flops.json --no-check --no-verify"};
    char line[600];
    int rc;

    write_plan_of_flops();
    shell("$L model gpt2 --layers 2 --hidden 32 --heads 2 --seq 24 --vocab 40 --batch 2 --dtype "
          "bf16 --attention full --device dgx-h100 -o g.json --force >log",
          NULL);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        snprintf(
            line, sizeof line,
            "rm -f gpu; FAKE_GPU_LOG=$PWD/gpu timeout -k 10 60 $L exec %s --backend nccl --spawn "
            "--compute gemm --steps 2 --warmup 0 --no-db 2>&1",
            runs[i]);
        const char *out = fake_shell(line, &rc);
        if (rc != 0)
            fail_msg("%s", out);
        char *log = fixture_get(fixture_path("gpu"));
        int n = 0;
        for (const char *at = log; (at = strstr(at, "load product ")); at++, n++) {
            int stream = -1;
            assert_int_equal(sscanf(at, "load product %*d %*d %*d stream %d", &stream), 1);
            if (stream != 0)
                fail_msg("%s: %.40s", runs[i], at);
        }
        assert_true(n >= 2 * 3); /* ranks; two that fill time, one of the plan */
        free(log);
    }
}

TEST_GROUP(fixture_open, fixture_close)
