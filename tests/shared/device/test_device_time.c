/* Kernels by shape: cases worked by hand, and the published tables where they are present. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/device/device_time.h"
#include "shared/files/files.h"
#include "shared/io/csv_rows.h"

/* 4 SMs, 10^12 flop/s, 10^9 B/s, half of the peak sustained, no fill, no launch time. */
static struct lw_device small(void)
{
    struct lw_device d = {.kind = "small"};

    d.peak_flops[LW_BF16] = (struct lw_figure){1e12, "test"};
    d.n_sms = (struct lw_figure){4, "test"};
    d.gemm_sustained = (struct lw_figure){0.5, "test"};
    d.gemm_fill = (struct lw_figure){1e-9, "test"};
    d.memory_bytes_per_s = (struct lw_figure){1e15, "test"};
    d.launch_ps = (struct lw_figure){1e-3, "test"};
    return d;
}

static struct lw_product product(int64_t m, int64_t n, int64_t k)
{
    return (struct lw_product){.batch = 1, .m = m, .n = n, .k = k, .dtype = LW_BF16};
}

static bool near(double a, double b)
{
    return fabs(a / b - 1) < 1e-6;
}

/* 512 x 512 makes 8 tiles of 256 x 128: 2 waves on 4 SMs, 2 * 512^3 flops at 0.5 * 10^12 =
 * 0.536870912 ms. Eight columns more need 3 waves, of 256 x 128 (1.5 times as long) or of a
 * smaller, slower tile. */
TEST(a_result_is_cut_into_tiles_that_run_in_waves)
{
    struct lw_device d = small();
    struct lw_product p = product(512, 512, 512), q = product(512, 520, 512);
    struct lw_product_time t = lw_product_explain(&d, &p), u = lw_product_explain(&d, &q);
    assert_int_equal(t.n_waves, 2);
    assert_true(near((double)t.time, 536870912.0));
    assert_int_equal(u.n_waves, 3);
    assert_true((double)u.time > 1.1 * 536870912.0 && (double)u.time < 1.5 * 536870912.0 + 1);
}

/* A fill of 512 steps doubles a k of 512. */
TEST(a_tile_costs_its_fill)
{
    struct lw_device d = small();
    struct lw_product p = product(512, 512, 512);
    lw_ps without = lw_product_time(&d, &p);
    d.gemm_fill.value = 512;
    assert_true(near((double)lw_product_time(&d, &p), 2.0 * (double)without));
}

/* At 10^6 B/s the operands and the result count: 3 * 512^2 * 2 bytes at 85 % = 1.85 s; a sum in
 * place reads the result too: 4 / 3. */
TEST(memory_bounds_a_product)
{
    struct lw_device d = small();
    struct lw_product p = product(512, 512, 512);
    double s = 3.0 * 512 * 512 * 2 / (0.85 * 1e6);
    d.memory_bytes_per_s.value = 1e6;
    assert_true(near((double)lw_product_time(&d, &p), s * 1e12));
    p.accumulate = true;
    assert_true(near((double)lw_product_time(&d, &p), s * 4 / 3 * 1e12));
}

/* 512 x 512 x 513 in f32 takes 513 / 512 of 512 x 512 x 512; in TF32, rows of no whole 16 bytes,
 * twice that, as rows of 514 elements of 2 bytes. */
TEST(products_without_tensor_cores_need_no_alignment)
{
    struct lw_device d = small();
    struct lw_product p = product(512, 512, 512), q = product(512, 512, 513);

    d.peak_flops[LW_F32] = d.tf32_peak_flops = d.peak_flops[LW_BF16];
    p.dtype = q.dtype = LW_F32;
    double plain = (double)lw_product_time(&d, &p);
    assert_true(near((double)lw_product_time(&d, &q), 513.0 / 512 * plain));
    q.tf32 = true;
    assert_true(near((double)lw_product_time(&d, &q), 2 * 513.0 / 512 * plain));
}

/* A gradient of weights of 513 tokens, which are apart in 16 bits, takes 513 / 512 of one of 512;
 * with 514 wide weights twice that. In 8 bits tokens are side by side, but those of experts are
 * padded. */
TEST(tokens_of_a_gradient_of_weights_need_no_alignment)
{
    struct lw_device d = small();
    struct lw_product p = product(512, 512, 512), q = product(512, 512, 513);

    p.accumulate = q.accumulate = true;
    double plain = (double)lw_product_time(&d, &p);
    assert_true(near((double)lw_product_time(&d, &q), 513.0 / 512 * plain));
    p.m = 514;
    q = p;
    q.accumulate = false;
    assert_true(near((double)lw_product_time(&d, &p), 2 * (double)lw_product_time(&d, &q)));
    d.fp8_speedup = (struct lw_figure){2, "test"};
    q = product(512, 512, 513);
    q.accumulate = q.fp8 = true;
    assert_true(near((double)lw_product_time(&d, &q), 2 * 0.5 * 513 / 512 * plain));
    q.grouped = true;
    double padded = (double)lw_product_time(&d, &q); /* with sums that nothing hides */
    assert_true(fabs(padded / (0.5 * 513 / 512 * plain) - 1) < 0.01);
}

/* Rows of 513 elements are odd. In the gradient of weights k are tokens, which are no row; eight
 * bits have another library kernel. */
TEST(odd_rows_have_a_rate_of_their_own)
{
    struct lw_device d = small();
    struct lw_product even = product(512, 512, 514), odd = product(512, 512, 513);
    lw_ps before = lw_product_time(&d, &odd), two = lw_product_time(&d, &even);

    d.gemm_odd = (struct lw_figure){0.125, "test"};
    assert_int_equal(lw_product_time(&d, &even), two);
    assert_true(near((double)lw_product_time(&d, &odd), 0.5 / 0.125 * (double)before));
    odd.accumulate = true;
    assert_true(near((double)lw_product_time(&d, &odd), 0.5 * (double)before));
    odd = product(512, 513, 512);
    odd.accumulate = true;
    double rate = 0.125 * 0.5e12 / 4;
    lw_ps least = (lw_ps)(2.0 * 512 * 513 * 512 / (4 * rate) * 1e12);
    assert_true(lw_product_time(&d, &odd) >= least);
    odd.fp8 = true;
    assert_true(lw_product_time(&d, &odd) < least);
}

/* Rows of 514 elements are no whole 16 bytes. 8-bit operands at twice the rate take half the
 * time. */
TEST(alignment_and_width_of_operands_count)
{
    struct lw_device d = small();
    struct lw_product p = product(512, 512, 514), q = product(512, 512, 512);
    lw_ps plain = lw_product_time(&d, &q);
    assert_true(near((double)lw_product_time(&d, &p), 2.0 * 514 / 512 * (double)plain));
    d.fp8_speedup = (struct lw_figure){2, "test"};
    q.fp8 = true;
    assert_true(near((double)lw_product_time(&d, &q), 0.5 * (double)plain));
    d.fp4_speedup = (struct lw_figure){4, "test"};
    q.fp4 = true;
    assert_true(near((double)lw_product_time(&d, &q), 0.25 * (double)plain));
    q.k = 520; /* rows of 260 bytes: a vector load of 16 does not divide them */
    assert_true(near((double)lw_product_time(&d, &q), 2 * 0.25 * 520 / 512 * (double)plain));
}

/* 16 operands of NVFP4 are 8 bytes and a scale of 1; a cast of 16 reads 2 bytes of each twice and
 * writes 9 bytes twice; for frozen weights once. */
TEST(operands_of_4_bits_have_scales)
{
    struct lw_product p = {.dtype = LW_BF16};

    assert_int_equal(lw_product_operand_bytes(&p, 32), 64);
    p.fp8 = true;
    assert_int_equal(lw_product_operand_bytes(&p, 32), 32);
    assert_int_equal(lw_product_cast_bytes(&p, 32, true), 32 * (2 + 2));
    assert_int_equal(lw_product_cast_bytes(&p, 32, false), 32 * (2 + 1));
    p.fp4 = true;
    assert_int_equal(lw_product_operand_bytes(&p, 32), 2 * 9);
    assert_int_equal(lw_product_cast_bytes(&p, 32, true), 2 * 2 * 32 + 2 * 2 * 9);
    assert_int_equal(lw_product_cast_bytes(&p, 32, false), 2 * 2 * 32 + 2 * 9);
}

TEST(a_device_says_what_narrow_products_lack)
{
    struct lw_device d = small();

    assert_non_null(strstr(lw_device_lacks_narrow(&d, LW_BF16, false), "fp8_speedup"));
    assert_non_null(strstr(lw_device_lacks_narrow(&d, LW_BF16, true), "fp4_speedup"));
    d.fp8_speedup = (struct lw_figure){2, "test"};
    assert_null(lw_device_lacks_narrow(&d, LW_BF16, false));
    assert_non_null(strstr(lw_device_lacks_narrow(&d, LW_BF16, true), "fp4_speedup"));
    d.fp4_speedup = d.fp8_speedup;
    assert_null(lw_device_lacks_narrow(&d, LW_BF16, true));
}

/* TF32 at four times the rate of f32, with operands of 4 bytes: memory takes what it took. */
TEST(products_of_f32_in_tf32_have_a_peak_of_their_own)
{
    struct lw_device d = small();
    struct lw_product p = product(512, 512, 512);

    d.peak_flops[LW_F32] = (struct lw_figure){1e12, "test"};
    p.dtype = LW_F32;
    lw_ps plain = lw_product_time(&d, &p);
    assert_non_null(strstr(lw_device_lacks_tf32(&d), "tf32_peak_flops"));
    d.tf32_peak_flops = (struct lw_figure){4e12, "test"};
    assert_null(lw_device_lacks_tf32(&d));
    assert_int_equal(lw_product_time(&d, &p), plain);
    p.tf32 = true;
    assert_true(near((double)lw_product_time(&d, &p), 0.25 * (double)plain));
    assert_int_equal(lw_product_operand_bytes(&p, 32), 4 * 32);
    d.memory_bytes_per_s.value = 1e6;
    assert_true(near((double)lw_product_time(&d, &p), 3.0 * 512 * 512 * 4 / (0.85 * 1e6) * 1e12));
}

/* 128 queries, one head, 512 keys: one tile on 4 SMs. Its mean is 512 + 165 keys, and half of
 * the tile is added: 2 * 128 * 256 * (677 / 4 + 677 / 2) flops at 0.25 of a quarter of 10^12. */
TEST(attention_counts_keys_fill_and_the_last_tile)
{
    struct lw_device d = small();
    struct lw_attention a = {.batch = 1, .heads = 1, .kv_heads = 1, .seq_q = 128, .seq_k = 512,
                             .qk_width = 128, .v_width = 128, .dtype = LW_BF16};
    double flops = 2.0 * 128 * 256 * 677 * 0.75;
    assert_true(near((double)lw_attention_time(&d, &a), flops / (0.25 * 0.25e12) * 1e12));
    a.backward = true;
    flops *= 2.5 * (0.25 + 0.3) / 0.75; /* five products for two, 0.3 of the tile added */
    assert_true(near((double)lw_attention_time(&d, &a), flops / (0.25 * 0.25e12) * 1e12));
    /* three products of 192 and two of 128 per key at (160 + 22) / 160 of the time of (128 + 22) /
     * 128, and 0.8 of the speed */
    a.qk_width = 192;
    double wide = flops / (5 * 128) * (3 * 192 + 2 * 128) / 0.8 * (182.0 / 160) / (150.0 / 128);
    assert_true(near((double)lw_attention_time(&d, &a), wide / (0.25 * 0.25e12) * 1e12));
    a.qk_width = 128;
    a.seq_k = 4096;
    lw_ps full = lw_attention_time(&d, &a);
    a.causal = true;
    assert_true(lw_attention_time(&d, &a) < full);
}

TEST(a_device_without_figures_is_not_timed_by_shape)
{
    struct lw_device d = small();
    assert_true(lw_device_by_shape(&d, LW_BF16));
    assert_false(lw_device_by_shape(&d, LW_F32));
    d.gemm_fill.source = NULL;
    assert_false(lw_device_by_shape(&d, LW_BF16));
}

/* --- published shapes ------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A row of traces/measure_kernels.py. */
static double error_of_own(const struct lw_device *d, const struct lw_rows *r, int32_t row)
{
    struct lw_product p = product(atoll(lw_rows_cell(r, row, "m")),
                                  atoll(lw_rows_cell(r, row, "n")),
                                  atoll(lw_rows_cell(r, row, "k")));

    p.fp8 = strcmp(lw_rows_cell(r, row, "dtype"), "fp8") == 0;
    p.out_size = 2;
    return fabs((double)lw_product_time(d, &p) / 1e9 / atof(lw_rows_cell(r, row, "latency_ms")) -
                1);
}

/* A row of SimuMax's tables; of groups the shape is the forward's, whatever the role. */
static double error_of(const struct lw_device *d, const struct lw_rows *r, int32_t row)
{
    int64_t m = atoll(lw_rows_cell(r, row, "m")), n = atoll(lw_rows_cell(r, row, "n"));
    int64_t k = atoll(lw_rows_cell(r, row, "k")), groups = atoll(lw_rows_cell(r, row, "groups"));
    const char *role = lw_rows_cell(r, row, "role");
    struct lw_product p = product(m, n, k);

    if (strcmp(lw_rows_cell(r, row, "op"), "group_matmul") == 0) {
        p = strcmp(role, "dgrad") == 0   ? product(m, k, n)
            : strcmp(role, "wgrad") == 0 ? product(k, n, m)
                                         : p;
        p.batch = groups;
        p.grouped = true;
    }
    p.accumulate = strcmp(lw_rows_cell(r, row, "accumulate"), "True") == 0;
    bool sums = p.grouped && p.accumulate; /* Megatron's are f32, whatever the operands */
    p.out_size = sums || strcmp(lw_rows_cell(r, row, "out_dtype"), "fp32") == 0 ? 4 : 2;
    return fabs((double)lw_product_time(d, &p) / 1e6 / atof(lw_rows_cell(r, row, "time_us")) - 1);
}

/* Rows of that operation, or of that type in an own table, NULL = all: the fit of SimuMax's tables
 * has seen a random half of the shapes. */
static void check_rows(const char *file, const char *cluster, const char *op, double most)
{
    struct lw_input in;
    struct lw_rows rows;
    struct lw_cluster c;
    struct lw_err err = {0};

    if (lw_input_read(file, 0, &in, &err) != LW_OK) {
        print_message("SKIP: %s\n", err.msg);
        skip();
    }
    assert_int_equal(lw_rows_read(&in, &rows, &err), LW_OK);
    assert_int_equal(lw_cluster_find(cluster, &c, &err), LW_OK);
    double *error = calloc((size_t)rows.n_rows, sizeof *error);
    assert_non_null(error);
    int32_t n = 0;
    bool own = lw_rows_column(&rows, "latency_ms") >= 0;
    for (int32_t i = 0; i < rows.n_rows; i++)
        if (!op || strcmp(lw_rows_cell(&rows, i, own ? "dtype" : "op"), op) == 0)
            error[n++] = own ? error_of_own(&c.device, &rows, i) : error_of(&c.device, &rows, i);
    assert_true(n > 0);
    lw_sort(error, n, ascending);
    print_message("%s: median error %.1f %% of %d shapes\n", cluster, 100 * error[n / 2], n);
    assert_true(error[n / 2] <= most);
    free(error);
    lw_cluster_free(&c);
    lw_rows_free(&rows);
    lw_input_free(&in);
}

static void check_table(const char *file, const char *cluster, double most)
{
    check_rows(file, cluster, NULL, most);
}

TEST(published_shapes_of_a100_are_met)
{
    check_table("../shared/gpu-tables/gemm_efficiency_a100_pcie_simumax.csv", "a100-pcie-8", 0.08);
}

TEST(published_shapes_of_b200_are_met)
{
    check_table("../shared/gpu-tables/gemm_efficiency_b200_simumax.csv", "dgx-b200", 0.08);
}

/* Experts' products alone: forward, both gradients, 20 to 256 experts. */
/* Under load all, in bursts those that fill the device: the sustained share is of the former. */
TEST(measured_shapes_of_h200_are_met)
{
    check_rows("docs/results/h200-20261128/gemm_sustained.csv", "dgx-h200", "bf16", 0.03);
    check_rows("docs/results/h200-20261128/gemm_sustained.csv", "dgx-h200", "fp8", 0.08);
    check_rows("docs/results/h200-20261128/gemm.csv", "dgx-h200", "bf16", 0.12);
}

TEST(published_groups_are_met)
{
    check_rows("../shared/gpu-tables/gemm_efficiency_a100_pcie_simumax.csv", "a100-pcie-8",
               "group_matmul", 0.12);
    check_rows("../shared/gpu-tables/gemm_efficiency_b200_simumax.csv", "dgx-b200", "group_matmul",
               0.12);
}

/* 4 groups of 1024 x 512 sums of f32, read and written: 16 MiB at 85 % of the bandwidth, of which
 * half is not hidden. */
TEST(half_of_the_sums_of_experts_is_not_hidden)
{
    struct lw_device d = small();
    struct lw_product p = product(1024, 512, 4096);
    p.batch = 4;
    p.grouped = true;
    p.out_size = 4;
    double plain = (double)lw_product_time(&d, &p);
    p.accumulate = true;
    double bytes = 2.0 * 4 * 4 * 1024 * 512;
    double sums = 0.5 * bytes / (0.85 * d.memory_bytes_per_s.value) * 1e12;
    assert_true(fabs((double)lw_product_time(&d, &p) - plain - sums) < 2);
}

/* 1024 x 512 sums of f32, read and written: 4 MiB at 85 % of the bandwidth, of which 0.4 is not
 * hidden; sums of the operands' type are. */
TEST(a_part_of_f32_sums_is_not_hidden)
{
    struct lw_device d = small();
    struct lw_product p = product(1024, 512, 4096);
    p.out_size = 4;
    double plain = (double)lw_product_time(&d, &p);
    p.accumulate = true;
    double sums = 0.4 * 2 * 4 * 1024 * 512 / (0.85 * d.memory_bytes_per_s.value) * 1e12;
    assert_true(fabs((double)lw_product_time(&d, &p) - plain - sums) < 2);
    p.out_size = 0;
    assert_true(fabs((double)lw_product_time(&d, &p) - plain) < 2);
}

TEST(no_time_of_traffic_wraps)
{
    struct lw_device d = small();

    assert_int_equal(lw_traffic_bounded(&d, 1000000, INT64_MAX).time, INT64_MAX);
}

/* 10^6 bytes at 10^9 B/s: 1 / 0.85 ms, or 2 ms where the device sustains half. */
TEST(traffic_runs_at_the_sustained_share_of_the_bandwidth)
{
    struct lw_device d = small();
    d.memory_bytes_per_s.value = 1e9;
    assert_true(near((double)lw_traffic_time(&d, 1000000), 1e9 / 0.85));
    d.memory_sustained = (struct lw_figure){0.5, "test"};
    assert_true(near((double)lw_traffic_time(&d, 1000000), 2e9));
}

/* Power limits long kernels: the H100 of 500 W keeps 500/700 of what an H200, the same processor
 * at 700 W, was measured to keep of products, and 500/690 and 500/652 of attention, which draws so
 * many watts forward and backward (docs/design/device.md). */
TEST(a_lower_power_limit_lowers_the_sustained_share)
{
    struct lw_cluster full, limited;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("dgx-h200", &full, &err), err);
    assert_ok(lw_cluster_find("h100-500w", &limited, &err), err);
    assert_true(near(limited.device.gemm_sustained.value,
                     full.device.gemm_sustained.value * 500 / 700));
    assert_float_equal(limited.device.attention_forward.value,
                       full.device.attention_forward.value * 500 / 690, 1e-4);
    assert_float_equal(limited.device.attention_backward.value,
                       full.device.attention_backward.value * 500 / 652, 1e-4);
    assert_true(near(limited.device.memory_bytes_per_s.value, 2.4e12));
    lw_cluster_free(&full);
    lw_cluster_free(&limited);
}
