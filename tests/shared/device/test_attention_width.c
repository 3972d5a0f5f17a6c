/* Attention of heads narrower than 128, where the device's file says what an SM does in a clock:
 * the softmax of a score takes as long as in heads of 128, and products hide a part of it. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/cluster/cluster.h"
#include "shared/device/device_time.h"
#include "shared/files/files.h"
#include "tests/lib/prng.h"

static const double ROUNDING = 1e-6; /* times are whole picoseconds */

/* 4 SMs, 10^12 flop/s, a quarter of it in attention. In a clock an SM does 8192 flops of products
 * and 32 exponentials. */
static struct lw_device small(void)
{
    struct lw_device d = {.kind = "small"};

    d.peak_flops[LW_BF16] = (struct lw_figure){1e12, "test"};
    d.peak_flops[LW_F32] = (struct lw_figure){1e12, "test"};
    d.n_sms = (struct lw_figure){4, "test"};
    d.gemm_sustained = (struct lw_figure){0.5, "test"};
    d.gemm_fill = (struct lw_figure){1e-9, "test"};
    d.memory_bytes_per_s = (struct lw_figure){1e18, "test"};
    d.launch_ps = (struct lw_figure){1e-3, "test"};
    d.sm_flops_per_clock = (struct lw_figure){8192, "test"};
    d.sm_exponentials_per_clock = (struct lw_figure){32, "test"};
    return d;
}

static struct lw_attention heads_of(int64_t width)
{
    return (struct lw_attention){.batch = 1, .heads = 8, .kv_heads = 8, .seq_q = 4096,
                                 .seq_k = 4096, .qk_width = width, .v_width = width,
                                 .dtype = LW_BF16, .causal = true};
}

static double time_of(const struct lw_device *d, int64_t width)
{
    struct lw_attention a = heads_of(width);

    return (double)lw_attention_time(d, &a);
}

static double backward_of(const struct lw_device *d, int64_t width)
{
    struct lw_attention a = heads_of(width);

    a.backward = true;
    return (double)lw_attention_time(d, &a);
}

static bool near(double a, double b)
{
    return fabs(a / b - 1) < ROUNDING;
}

/* A score takes 1/32 of a clock for its exponential and 6 others at 128 a clock: 5/64 of a clock,
 * in which products do 640 flops at the peak. Two products of 128 are 512 flops, at a quarter of
 * the peak 2048: the softmax is 5/16 of the time of a score, its square 25/256. Heads of 32 have a
 * quarter of the products, a sixteenth of the square: 231/4096 + 400/4096 = 631/4096, whose root is
 * 0.3925 of the time of heads of 128. */
TEST(the_softmax_of_a_score_does_not_shrink_with_the_head)
{
    struct lw_device d = small();

    assert_true(near(time_of(&d, 32), sqrt(631) / 64 * time_of(&d, 128)));
    d.sm_exponentials_per_clock.value = 16; /* 7/64 of a clock, 896 flops: 7/16 of the score */
    double part = 49.0 / 256;
    assert_true(near(time_of(&d, 32), sqrt((1 - part) / 16 + part) * time_of(&d, 128)));
}

/* Five products of 128 are 1280 flops; an exponential and 31 others take 35/128 of a clock, 2240
 * flops: 0.25 * 2240 / 1280 = 0.4375 of the score. */
TEST(the_backward_has_more_instructions_and_five_products)
{
    struct lw_device d = small();
    double part = 0.4375 * 0.4375;

    assert_true(near(backward_of(&d, 32), sqrt((1 - part) / 16 + part) * backward_of(&d, 128)));
}

/* Where the softmax takes all of the time of heads of 128, no narrower head is faster. */
TEST(heads_are_not_faster_than_their_softmax)
{
    struct lw_device d = small();

    d.sm_exponentials_per_clock.value = 1;
    for (int64_t w = 16; w < 128; w += 16) {
        assert_true(near(time_of(&d, w), time_of(&d, 128)));
        assert_true(near(backward_of(&d, w), backward_of(&d, 128)));
    }
}

/* w / (w + 22): without the figures, for heads of 128 and more, and for types of 4 bytes. */
TEST(other_heads_keep_the_constant)
{
    struct lw_device d = small(), plain = small();

    plain.sm_exponentials_per_clock.source = NULL;
    for (int64_t w = 16; w <= 256; w += 16) {
        struct lw_attention a = heads_of(w);
        double fill = (double)w / ((double)w + 22) * 150 / 128;
        assert_true(near(time_of(&plain, w), time_of(&plain, 128) * (double)w / 128 / fill));
        assert_true(w < 128 || time_of(&d, w) == time_of(&plain, w));
        assert_true(w < 128 || backward_of(&d, w) == backward_of(&plain, w));
        a.dtype = LW_F32;
        assert_int_equal(lw_attention_time(&d, &a), lw_attention_time(&plain, &a));
    }
}

/* A head takes at least what its products take of heads of 128, and no longer than these and than
 * wider ones. More exponentials in a clock never take longer. A framework's faster kernels gain at
 * most their speed. */
TEST(narrow_heads_lie_between_products_and_heads_of_128)
{
    struct prng r = prng_start("widths of heads");

    for (int i = 0; i < 2000; i++) {
        struct lw_device d = small();
        int64_t width = 8 * prng_in(&r, 1, 15);
        struct lw_attention a = heads_of(width), wide = heads_of(128), fast, next;
        d.attention_forward.value = d.attention_backward.value = (double)prng_in(&r, 5, 95) / 100;
        d.attention_forward.source = d.attention_backward.source = "test";
        d.sm_exponentials_per_clock.value = (double)prng_in(&r, 1, 64);
        a.backward = wide.backward = prng_below(&r, 2);
        fast = next = a;
        double t = (double)lw_attention_time(&d, &a), most = (double)lw_attention_time(&d, &wide);
        assert_true(t <= most * (1 + ROUNDING));
        assert_true(t >= most * (double)width / 128 * (1 - ROUNDING));
        next.qk_width = next.v_width = width + 8;
        assert_true((double)lw_attention_time(&d, &next) >= t * (1 - ROUNDING));
        fast.speed = 1 + (double)prng_in(&r, 0, 100) / 100;
        double quick = (double)lw_attention_time(&d, &fast);
        assert_true(quick <= t * (1 + ROUNDING) && quick >= t / fast.speed * (1 - ROUNDING));
        d.sm_exponentials_per_clock.value *= 2;
        assert_true((double)lw_attention_time(&d, &a) <= t * (1 + ROUNDING));
    }
}

/* Milliseconds of cuDNN 9.19, bf16, causal, 64 heads on 8 of keys and values: heads of 128 over
 * 32,768 tokens (llama3.1), and two sequences of heads of 64 with a window of 1,024 (gpt_oss).
 * NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results: gb200_919_only_cudnn,
 * gb300_919_only_cudnn and h200_919_only_cudnn at afa9f7c0 and df73764a. */
enum { N_SEQS = 5 };
static const int64_t seqs[N_SEQS] = {32768, 16384, 8192, 4096, 2048};
static const struct published {
    const char *cluster;
    bool backward;
    double wide_ms, narrow_ms[N_SEQS];
} published[] = {
    {"gb200", false, 10.226, {1.711, 0.853, 0.423, 0.209, 0.104}},
    {"gb200", true, 29.863, {4.099, 2.024, 0.998, 0.487, 0.230}},
    {"gb300", false, 8.734, {1.448, 0.722, 0.359, 0.178, 0.089}},
    {"gb300", true, 28.390, {3.930, 1.951, 0.965, 0.472, 0.221}},
    {"dgx-h200", false, 25.566, {3.021, 1.499, 0.738, 0.358, 0.166}},
    {"dgx-h200", true, 75.688, {9.045, 4.392, 2.149, 1.042, 0.488}},
};

static double ms_of(const struct lw_device *d, int64_t batch, int64_t seq, int64_t width,
                    int64_t window, bool backward)
{
    const struct lw_attention a = {.batch = batch, .heads = 64, .kv_heads = 8, .seq_q = seq,
                                   .seq_k = seq, .qk_width = width, .v_width = width,
                                   .window = window, .dtype = LW_BF16, .causal = true,
                                   .backward = backward};
    return (double)lw_attention_time(d, &a) * 1e-9;
}

static double largest_error(const struct lw_device *d, const struct published *p)
{
    double largest = 0;

    for (int i = 0; i < N_SEQS; i++) {
        double t = ms_of(d, 2, seqs[i], 64, 1024, p->backward);
        largest = fmax(largest, fabs(t / p->narrow_ms[i] - 1));
    }
    return largest;
}

/* With the share of the peak that the kernel reaches in heads of 128, heads of 64 are within a
 * fifth of what was measured. By the constant they are more than a quarter too fast. */
TEST(heads_of_64_are_as_slow_as_published)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const struct published *p = &published[i];
        struct lw_cluster c;
        struct lw_err err;
        assert_ok(lw_cluster_find(p->cluster, &c, &err), err);
        struct lw_device d = c.device;
        double slower = ms_of(&d, 1, 32768, 128, 0, p->backward) / p->wide_ms;
        d.attention_forward.value *= slower;
        d.attention_backward.value *= slower;
        assert_true(fabs(ms_of(&d, 1, 32768, 128, 0, p->backward) / p->wide_ms - 1) < 1e-2);
        assert_true(largest_error(&d, p) < 0.2);
        d.sm_flops_per_clock.source = NULL;
        assert_true(largest_error(&d, p) > 0.25);
        lw_cluster_free(&c);
    }
}
