/* Attention to a window: what one rank computes, and how long it takes. Under a causal mask query i
 * of s attends to min(i + 1, W) keys; counted as s^2 / 2 is for s (s + 1) / 2, these are
 * s W - W^2 / 2, and a kernel's FLOPs count twice as many, as they count s^2 without a window. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/device/kernel_share.h"

enum { SEQ = 4096, BATCH = 2, HEADS = 8, KV_HEADS = 2, QK_WIDTH = 192, V_WIDTH = 128, MAX = 64 };

struct works {
    struct lw_kernel_work of[MAX];
    int n;
};

static void keep_work(void *ctx, const struct lw_kernel_work *work)
{
    struct works *w = ctx;

    assert_true(w->n < MAX);
    w->of[w->n++] = *work;
}

static struct works works_of(int64_t window, int64_t cp)
{
    const struct lw_kernel k = {.kind = LW_KERNEL_ATTENTION, .split = LW_SPLIT_HEADS,
                                .batch = BATCH, .m = SEQ, .n = window, .heads = HEADS,
                                .kv_heads = KV_HEADS, .qk_width = QK_WIDTH, .v_width = V_WIDTH,
                                .dtype = LW_BF16, .causal = true};
    struct works w = {.n = 0};

    lw_kernel_share(&k, &(struct lw_kernel_groups){.cp = cp}, keep_work, &w);
    return w;
}

static int64_t flops_of(const struct works *w, enum lw_product_phase phase)
{
    int64_t sum = 0;

    for (int i = 0; i < w->n; i++)
        sum += w->of[i].phase == phase ? w->of[i].flops : 0;
    return sum;
}

/* 4 SMs, 10^12 flop/s, a quarter of it in attention. */
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

static bool near(double a, double b)
{
    return fabs(a / b - 1) < 1e-6;
}

/* Of all ranks together, whatever the window is to a rank's share of the sequence. */
TEST(every_context_group_does_the_work_of_the_window)
{
    static const int64_t windows[] = {128, 512, 1024, 2048, 3000, SEQ};

    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (int64_t cp = 1; cp <= 8; cp *= 2) {
            int64_t w = windows[i], twice = 2 * SEQ * w - w * w;
            int64_t flops = 2 * BATCH * HEADS * (QK_WIDTH + V_WIDTH) * twice;
            struct works x = works_of(w, cp);
            assert_int_equal(flops_of(&x, LW_PRODUCTS_FORWARD) * cp, flops);
            assert_int_equal(flops_of(&x, LW_PRODUCTS_INPUT) * cp, flops / 2 * 5);
        }
}

/* The keys of a window are gathered: one kernel of a rank's queries, not one for each block. */
TEST(a_context_group_attends_to_a_window_at_once)
{
    struct works w = works_of(1024, 4);

    assert_int_equal(w.n, 2); /* forward and backward */
    for (int i = 0; i < w.n; i++) {
        assert_int_equal(w.of[i].attention.seq_q, SEQ / 4);
        assert_int_equal(w.of[i].attention.seq_k, SEQ);
        assert_int_equal(w.of[i].attention.window, 1024);
        assert_true(w.of[i].attention.causal);
    }
}

TEST(a_window_of_the_sequence_is_none)
{
    for (int64_t cp = 1; cp <= 4; cp *= 2) {
        struct works none = works_of(0, cp), all = works_of(SEQ, cp), more = works_of(SEQ + 1, cp);
        assert_memory_equal(&all, &none, sizeof none);
        assert_memory_equal(&more, &none, sizeof none);
    }
}

/* 512 queries of one head are 4 tiles, one on each of 4 SMs. A window of 256 leaves a query
 * 256 - 256^2 / (2 * 512) = 192 keys in the mean. A tile of 128 queries also loads half of the tile
 * at the diagonal, 64 keys, and where the window begins after the first key (half of the queries)
 * as many at its other edge: 192 + 96 + 165 of the fill. The longest tile, of which half is added,
 * has the window and its queries: 256 + 128 + 165. */
TEST(a_tile_loads_its_window_and_both_edges)
{
    struct lw_device d = small();
    struct lw_attention a = {.batch = 1, .heads = 1, .kv_heads = 1, .seq_q = 512, .seq_k = 512,
                             .window = 256, .qk_width = 128, .v_width = 128, .dtype = LW_BF16,
                             .causal = true};
    double keys = 192 + 96 + 165, longest = 256 + 128 + 165, rate = 0.25 * 0.25e12;

    assert_true(near((double)lw_attention_time(&d, &a),
                     2.0 * 128 * 256 * (keys + longest / 2) / rate * 1e12));
    a.backward = true; /* 0.3 of the longest tile */
    assert_true(near((double)lw_attention_time(&d, &a),
                     2.0 * 128 * 640 * (keys + longest * 0.3) / rate * 1e12));
}

/* The time grows with the window, until no tile of 128 queries has a block to skip, and has no step
 * where the window is the sequence. */
TEST(time_is_continuous_where_the_sequence_reaches_the_window)
{
    struct lw_device d = small();
    struct lw_attention a = {.batch = 1, .heads = 32, .kv_heads = 8, .seq_q = SEQ, .seq_k = SEQ,
                             .qk_width = 128, .v_width = 128, .dtype = LW_BF16, .causal = true};
    lw_ps whole = lw_attention_time(&d, &a), before = 0;

    for (int64_t window = 64; window <= SEQ; window += 64) {
        a.window = window;
        lw_ps t = lw_attention_time(&d, &a);
        assert_true(t <= whole && (window <= SEQ - 128 ? t > before : t == whole));
        before = t;
    }
    assert_int_equal(before, whole);
    a.window = SEQ - 1;
    assert_true(near((double)lw_attention_time(&d, &a), (double)whole));
}
