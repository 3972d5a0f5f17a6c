/* Experts in bursts: cases worked by hand. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/device/burst_experts.h"

/* 4 SMs, 10^12 flop/s of 16 bits; memory that takes no time, or 10^9 B/s. */
static struct lw_device small(double bandwidth)
{
    struct lw_device d = {.kind = "small"};

    d.peak_flops[LW_BF16] = (struct lw_figure){1e12, "test"};
    d.n_sms = (struct lw_figure){4, "test"};
    d.memory_bytes_per_s = (struct lw_figure){bandwidth, "test"};
    return d;
}

/* At half of the peak; the first framework takes twice the time of single products. */
static const struct lw_burst half = {
    .gemm = {[LW_OPERANDS_BF16] = {.short_share = 0.5, .long_share = 0.5, .memory = 1, .cast = 1},
             [LW_OPERANDS_FP8] = {.short_share = 0.5, .long_share = 0.5, .memory = 1, .cast = 1}},
    .experts = {{.products = 2, .memory = 1, .rows = 4, .inner = 3, .others = 0.5},
                {.products = 1, .memory = 1},
                {.products = 6, .memory = 1}},
    .fastest_experts = {[LW_OPERANDS_FP8] = {.products = 1, .memory = 1, .overhead_s = 1}},
};

/* 4 experts of 512 rows: every SM has one of them, in tiles of 128 x 256. */
static const struct lw_expert_layer layer = {
    .tokens = 1024, .hidden = 512, .inter = 512, .topk = 2, .n_experts = 4, .tp = 1, .ep = 1};

static double seconds(const struct lw_device *d, const struct lw_expert_layer *e,
                      enum lw_operands o, unsigned servers)
{
    return (double)lw_burst_experts_time(d, &half, e, o, servers) * 1e-12;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b) + 1e-12;
}

TEST(a_rank_has_its_part_of_rows_experts_and_columns)
{
    struct lw_expert_layer e = layer;

    e.ep = 2;
    e.tp = 3;
    struct lw_expert_share s = lw_expert_share_of(&e);
    assert_int_equal(s.rows, 1024); /* of 2,048 */
    assert_int_equal(s.used, 2);
    assert_int_equal(s.each, 512);
    assert_int_equal(s.inter, 171);
    e.tokens = 1; /* two rows, one of them here: the other expert has none */
    s = lw_expert_share_of(&e);
    assert_int_equal(s.rows, 1);
    assert_int_equal(s.used, 1);
    assert_int_equal(s.each, 1);
    e.topk = 1; /* half a row: none */
    assert_int_equal(lw_expert_share_of(&e).rows, 0);
}

/* 2 x 2048 rows x 512 x (1024 + 512) flops at 10^12 / 2: 6.442 ms. Frameworks at 1, 2 and 6 times
 * that: the median is the second. */
TEST(frameworks_take_a_factor_of_single_products)
{
    struct lw_device d = small(1e21);
    double single = 2.0 * 2048 * 512 * (1024 + 512) / 0.5e12;

    assert_true(near(seconds(&d, &layer, LW_OPERANDS_BF16, 0), 2 * single));
    assert_true(near(seconds(&d, &layer, LW_OPERANDS_BF16, 2), single));
    assert_true(near(seconds(&d, &layer, LW_OPERANDS_BF16, 4), 6 * single));
    assert_true(near(seconds(&d, &layer, LW_OPERANDS_BF16, 3), 1.5 * single));
    assert_true(near(seconds(&d, &layer, LW_OPERANDS_FP8, 1), single / 2 + 1));
}

/* Products that take no time, at 10^9 B/s. Of two ranks one has 1,024 rows in two experts: matrices
 * of 2 bytes, 4 passes over its rows, 3 over inner values, half a pass over the other rank's. */
TEST(rows_pass_the_memory_beside_the_products)
{
    struct lw_device d = small(1e9);
    struct lw_expert_layer e = layer;

    d.peak_flops[LW_BF16].value = 1e20;
    e.ep = 2;
    double there = 2 * 2 * (512.0 * 512 + 512 * 1024 + 512 * 1024);
    double back = 2 * 2 * (512.0 * 512 + 512 * 512 + 512 * 512);
    double moved = 2 * 1024.0 * 512 * (4 + 3 + 0.5);
    assert_true(near(seconds(&d, &e, LW_OPERANDS_BF16, 1), (there + back + moved) / 1e9));
}

TEST(experts_that_are_not_known_are_not_timed)
{
    struct lw_device d = small(1e21);
    struct lw_expert_layer e = layer;

    assert_int_equal(lw_burst_experts_time(&d, &half, &e, LW_OPERANDS_NVFP4, 0), 0);
    e.ep = 4096; /* no row comes here */
    assert_int_equal(lw_burst_experts_time(&d, &half, &e, LW_OPERANDS_BF16, 0), 0);
    d.n_sms = (struct lw_figure){0};
    assert_int_equal(lw_burst_experts_time(&d, &half, &layer, LW_OPERANDS_BF16, 0), 0);
}
