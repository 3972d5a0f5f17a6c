/* Kernels in bursts: cases worked by hand. tests/analysis/kernel_bench holds the published ones. */
#include "tests/lib/unit.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/device/burst_data.h"
#include "shared/device/burst_time.h"
#include "shared/files/files.h"
#include "tests/lib/files/file_fixture.h"

/* 4 SMs, 10^12 flop/s of 16 bits, memory that takes no time. */
static struct lw_device small(void)
{
    struct lw_device d = {.kind = "small"};

    d.peak_flops[LW_BF16] = (struct lw_figure){1e12, "test"};
    d.n_sms = (struct lw_figure){4, "test"};
    d.memory_bytes_per_s = (struct lw_figure){1e18, "test"};
    return d;
}

static const struct lw_burst half = {
    .gemm = {[LW_OPERANDS_BF16] = {.short_share = 0.5, .long_share = 0.5, .memory = 1, .cast = 1,
                                  .cut = true},
             [LW_OPERANDS_FP8] = {.short_share = 0.5, .long_share = 0.5, .memory = 1, .cast = 0.5}},
    .attention = {{.share = 0.5,
                   .queries = 1,
                   .keys = 1,
                   .join = 4,
                   .full = 0.5,
                   .fp8 = 1,
                   .narrow_fp8 = 0.5,
                   .fp8_traffic = 1,
                   .odd = 0.5,
                   .form = {0.8, 1, 1, 1, 1, 1}}},
};

static double seconds(const struct lw_device *d, int64_t n, int64_t k, enum lw_operands o)
{
    const struct lw_product p = {.batch = 1, .m = 512, .n = n, .k = k, .dtype = LW_BF16};

    return (double)lw_burst_product(d, &half, &p, o).time * 1e-12;
}

static bool near(double a, double b)
{
    return fabs(a / b - 1) < 1e-6;
}

/* 512 x 512 is 8 tiles of 256 x 128, 2 waves: 2 * 512 * 512 * 256 flops at 0.5 * 10^12 =
 * 0.268435456 ms; 256 is too short to be cut. 640 columns are 2.5 waves, of which the last takes
 * 0.45 of the difference to a whole one beside its own half: 2.725. */
TEST(half_of_the_last_wave_is_lost_before_blackwell)
{
    struct lw_device d = small();

    assert_true(near(seconds(&d, 512, 256, LW_OPERANDS_BF16), 0.268435456e-3));
    assert_true(near(seconds(&d, 640, 256, LW_OPERANDS_BF16), 0.268435456e-3 * 2.725 / 2));
    d.gemm_tile = (struct lw_figure){256, "test"};
    double even = seconds(&d, 512, 256, LW_OPERANDS_BF16);
    /* of 256 x 256 tiles 1.5 waves, of 256 x 128 2.5 of half the length at 0.894 of the speed */
    double speed = 256.0 / 3 / (256.0 / 3 + 40) / (128.0 / 168);
    assert_true(near(seconds(&d, 640, 256, LW_OPERANDS_BF16), even * 1.25 / speed));
}

/* At 10^9 B/s: 2 bytes read and 1 written for each of 512 x 512 inputs, at half of the bandwidth,
 * are 1.572864 ms; the product's memory, 2 * 262144 + 2 * 262144 bytes, is 1.048576 ms beside half
 * of 0.536870912 ms: (1.048576^4 + 0.268435456^4)^(1/4) = 1.049700... */
TEST(inputs_of_8_bits_are_cast_before_the_product)
{
    struct lw_device d = small();
    d.memory_bytes_per_s.value = 1e9;
    double product = pow(pow(1.048576e-3, 4) + pow(0.268435456e-3, 4), 0.25);

    assert_true(near(seconds(&d, 512, 512, LW_OPERANDS_FP8), product + 1.572864e-3));
}

/* A kernel of 1 ms at the whole peak is at the mean of the shares. */
TEST(long_kernels_run_at_the_long_share)
{
    struct lw_device d = small();
    struct lw_burst b = half;
    const struct lw_product p = {.batch = 1, .m = 512, .n = 512, .k = 512, .dtype = LW_BF16};
    double x = 0.268435456;

    b.gemm[LW_OPERANDS_BF16].short_share = 0.9;
    double share = 0.5 + 0.4 / (1 + x * x);
    assert_true(near((double)lw_burst_product(&d, &b, &p, LW_OPERANDS_BF16).time * 1e-12,
                     0.268435456e-3 / share));
}

/* 4 heads of 128 over 512 tokens: 32 tiles of 64 queries; 4 * 64 * 128 * 512 flops each, 8 tiles on
 * each SM at 0.125 * 10^12 and half of that speed. A causal mask leaves 256 + 64 keys of 512 in the
 * mean. Heads of 72 run as 96, at half of the speed. */
TEST(a_mask_leaves_half_of_the_keys_and_a_tile)
{
    struct lw_device d = small();
    struct lw_attention a = {.batch = 1, .heads = 4, .kv_heads = 4, .seq_q = 512, .seq_k = 512,
                             .qk_width = 128, .v_width = 128, .dtype = LW_BF16};
    double full = 4.0 * 4 * 128 * 128 * 512 / (0.125e12 * 0.5);

    assert_true(near((double)lw_burst_attention_time(&d, &half, &a, false, 0) * 1e-12, full));
    a.causal = true;
    assert_true(near((double)lw_burst_attention_time(&d, &half, &a, false, 0) * 1e-12,
                     full / 2 * 320 / 512));
    a.causal = false;
    a.qk_width = a.v_width = 72;
    assert_true(near((double)lw_burst_attention_time(&d, &half, &a, false, 0) * 1e-12,
                     full * 96 / 128 * 2));
}

/* 4 heads of 512 over 512 tokens, causal: 8 tiles of 320 keys on each SM, and half of a tile of 512
 * keys that nothing hides: 2560 + 256 keys. Heads of 64 without it. 8 bits: half of the speed for
 * heads of 64 alone. */
TEST(wide_heads_have_a_tail_and_narrow_ones_a_speed_of_8_bits)
{
    struct lw_device d = small();
    struct lw_burst b = half;
    struct lw_attention a = {.batch = 1,
                             .heads = 4,
                             .kv_heads = 4,
                             .seq_q = 512,
                             .seq_k = 512,
                             .qk_width = 512,
                             .v_width = 512,
                             .dtype = LW_BF16,
                             .causal = true};

    b.attention[0].wide_tail = 0.5;
    assert_true(near((double)lw_burst_attention_time(&d, &b, &a, false, 0) * 1e-12,
                     4.0 * 64 * 512 * (2560 + 256) / 0.125e12));
    a.qk_width = a.v_width = 64;
    double narrow = 4.0 * 64 * 64 * 2560 / (0.8 * 0.125e12);
    assert_true(near((double)lw_burst_attention_time(&d, &b, &a, false, 0) * 1e-12, narrow));
    assert_true(near((double)lw_burst_attention_time(&d, &b, &a, true, 0) * 1e-12, 2 * narrow));
    a.qk_width = a.v_width = 128;
    assert_int_equal(lw_burst_attention_time(&d, &b, &a, true, 0),
                     lw_burst_attention_time(&d, &b, &a, false, 0));
}

/* 4 heads over 512 tokens have 2 MiB of queries, keys, values and outputs of 128, in memory of 1
 * MB/s: 2.1 s beside 0.7 ms of products. With a cache of as much, half of it and 0.2 for all; with
 * 8 times the sequences, 8 / 9 and 0.2. */
TEST(a_cache_serves_a_part_of_what_passes_again)
{
    struct lw_device d = small();
    struct lw_burst b = half;
    struct lw_attention a = {.batch = 1, .heads = 4, .kv_heads = 4, .seq_q = 512, .seq_k = 512,
                             .qk_width = 128, .v_width = 128, .dtype = LW_BF16, .causal = true};
    double once = 4.0 * 512 * 512 * 2;

    d.memory_bytes_per_s.value = 1e6;
    assert_true(near((double)lw_burst_attention_time(&d, &b, &a, false, 0) * 1e-12, once / 1e6));
    b.attention[0].cache_bytes = once;
    assert_true(near((double)lw_burst_attention_time(&d, &b, &a, false, 0) * 1e-12,
                     once * 0.7 / 1e6));
    a.batch = 8;
    assert_true(near((double)lw_burst_attention_time(&d, &b, &a, false, 0) * 1e-12,
                     8 * once * (8.0 / 9 + 0.2) / 1e6));
}

/* Three frameworks, one at half and one at a third of the speed of the first: the middle one
 * counts, of two the mean, of those that are named alone. One without kernels of 8 bits does not
 * count. */
TEST(frameworks_that_measured_a_shape_give_its_median)
{
    struct lw_device d = small();
    struct lw_burst b = half;
    struct lw_attention a = {.batch = 1,
                             .heads = 4,
                             .kv_heads = 4,
                             .seq_q = 512,
                             .seq_k = 512,
                             .qk_width = 128,
                             .v_width = 128,
                             .dtype = LW_BF16,
                             .causal = true};
    double first = 4.0 * 64 * 128 * 2560 / 0.125e12;

    b.attention[1] = b.attention[2] = b.attention[0];
    b.attention[1].share /= 3;
    b.attention[2].share /= 2;
    b.attention[1].fp8 = 0;
    const struct {
        unsigned servers;
        bool fp8;
        double times;
    } cases[] = {{0, false, 2}, {7, false, 2},   {3, false, 2}, {1, false, 1},
                 {2, false, 3}, {6, false, 2.5}, {0, true, 1.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(near(
            (double)lw_burst_attention_time(&d, &b, &a, cases[i].fp8, cases[i].servers) * 1e-12,
            first * cases[i].times));
    assert_int_equal(lw_burst_attention_time(&d, &b, &a, true, 2), 0);
}

/* Queries and outputs pass the memory twice, keys and values three times: 2 bytes x 2 x 512 tokens
 * x 128 x (4 heads x 2 + 1 x 3) at 10^9 B/s, beside products of no time. */
TEST(frameworks_pass_the_memory_more_than_once)
{
    struct lw_device d = small();
    struct lw_burst b = half;
    struct lw_attention a = {.batch = 1,
                             .heads = 4,
                             .kv_heads = 1,
                             .seq_q = 512,
                             .seq_k = 512,
                             .qk_width = 128,
                             .v_width = 128,
                             .dtype = LW_BF16,
                             .causal = true};

    d.peak_flops[LW_BF16].value = 1e18;
    d.memory_bytes_per_s.value = 1e9;
    b.attention[0].queries = 2;
    b.attention[0].keys = 3;
    assert_true(near((double)lw_burst_attention_time(&d, &b, &a, false, 0) * 1e-12,
                     2.0 * 256 * 512 * (4 * 2 + 3) / 1e9));
}

/* Not a time of 0 SMs, nor of a kernel of 512 for wider heads. */
TEST(attention_that_is_not_known_is_not_timed)
{
    struct lw_device d = small();
    struct lw_attention a = {.batch = 1, .heads = 4, .kv_heads = 4, .seq_q = 512, .seq_k = 512,
                             .qk_width = 512, .v_width = 512, .dtype = LW_BF16};

    assert_true(lw_burst_attention_time(&d, &half, &a, false, 0) > 0);
    a.qk_width = 513;
    assert_int_equal(lw_burst_attention_time(&d, &half, &a, false, 0), 0);
    a.qk_width = 512;
    a.v_width = 1024;
    assert_int_equal(lw_burst_attention_time(&d, &half, &a, false, 0), 0);
    a.v_width = 512;
    d.n_sms = (struct lw_figure){0};
    assert_int_equal(lw_burst_attention_time(&d, &half, &a, false, 0), 0);
    d = small();
    d.memory_bytes_per_s = (struct lw_figure){0};
    assert_int_equal(lw_burst_attention_time(&d, &half, &a, false, 0), 0);
}

TEST(figures_are_those_of_the_kind)
{
    assert_non_null(lw_burst_of("NVIDIA H100 80GB HBM3"));
    assert_string_equal(lw_burst_of("B200")->kind, "B200-SXM-180GB");
    assert_string_equal(lw_burst_of("GH200-96GB")->kind, "H100-SXM5-80GB");
    assert_string_equal(lw_burst_of("A100-SXM4-40GB")->kind, "A100-SXM4-80GB");
    assert_null(lw_burst_of("MI300X"));
    assert_null(lw_burst_of("unknown"));
    for (const struct lw_burst *b = lw_bursts; b->kind; b++)
        assert_ptr_equal(lw_burst_of(b->kind), b);
    assert_int_equal(lw_operands_parse("nvfp4"), LW_OPERANDS_NVFP4);
    assert_int_equal(lw_operands_parse("f32"), -1);
}

/* About a quarter of the shapes of a sweep is in each fold, and each fold's figures are of the same
 * devices as those of all shapes, and others. */
TEST(a_fold_is_a_part_of_the_shapes)
{
    int n[LW_BURST_FOLDS] = {0};

    for (int64_t m = 128; m < 128 + 400; m++)
        n[lw_burst_fold((int64_t[]){m, 4096, 4096}, 3)]++;
    for (int k = 0; k < LW_BURST_FOLDS; k++) {
        assert_in_range(n[k], 60, 140);
        for (const struct lw_burst *b = lw_bursts; b->kind; b++) {
            const struct lw_burst *without = lw_burst_without(b->kind, k);
            assert_string_equal(without->kind, b->kind);
            assert_memory_not_equal(without->gemm, b->gemm, sizeof b->gemm);
        }
        assert_null(lw_burst_without("MI300X", k));
    }
}

/* 4 heads over 512 tokens without a mask: 8 tiles of 64 queries on each SM, of 512 keys and a fill:
 * 128 of heads of 128, 64 of heads of 64, 256 of heads of 256, and of heads of 72 an eighth of
 * 128. */
TEST(kernels_of_each_width_have_a_fill)
{
    struct lw_device d = small();
    struct lw_burst b = half;
    struct lw_attention a = {.batch = 1, .heads = 4, .kv_heads = 4, .seq_q = 512, .seq_k = 512,
                             .dtype = LW_BF16};
    static const struct {
        int64_t width, form;
        double fill, speed;
    } cases[] = {{128, 128, 128, 1}, {64, 64, 64, 0.8}, {192, 192, 128, 1}, {256, 256, 256, 1},
                 {72, 96, 16, 0.5}};

    b.attention[0].fill = 128;
    memcpy(b.attention[0].form_fill, (double[]){0.5, 1, 1, 1, 2, 1},
           sizeof b.attention[0].form_fill);
    b.attention[0].odd_fill = 0.125;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        a.qk_width = a.v_width = cases[i].width;
        double t = 4.0 * 8 * 64 * (double)cases[i].form * (512 + cases[i].fill);
        assert_true(near((double)lw_burst_attention_time(&d, &b, &a, false, 0) * 1e-12,
                         t / (0.125e12 * 0.5 * cases[i].speed)));
    }
}

/* Three sequences cost three times what one costs beside the kernel, with or without a mask. */
TEST(each_sequence_has_a_cost)
{
    struct lw_device d = small();
    struct lw_burst b = half;
    struct lw_attention a = {.batch = 3, .heads = 4, .kv_heads = 4, .seq_q = 512, .seq_k = 512,
                             .qk_width = 128, .v_width = 128, .dtype = LW_BF16};

    for (int causal = 0; causal < 2; causal++) {
        a.causal = causal;
        b.attention[0].sequence_s = 0;
        lw_ps none = lw_burst_attention_time(&d, &b, &a, false, 0);
        b.attention[0].sequence_s = 1e-6;
        assert_int_equal(lw_burst_attention_time(&d, &b, &a, false, 0), none + 3000000);
    }
}

/* One tile of 64 x 64 and k of 8192 on 4 SMs: in four parts each SM has one. Of kernels that do not
 * cut k the tile is the work of one SM, four times as long but for the cast of the input. */
TEST(kernels_that_cut_k_fill_the_device)
{
    struct lw_device d = small();
    struct lw_burst b = half;
    const struct lw_product p = {.batch = 1, .m = 64, .n = 64, .k = 8192, .dtype = LW_BF16};
    double whole = (double)lw_burst_product(&d, &b, &p, LW_OPERANDS_FP8).time;

    assert_int_equal(lw_burst_product(&d, &b, &p, LW_OPERANDS_FP8).split_k, 1);
    b.gemm[LW_OPERANDS_FP8].cut = true;
    struct lw_product_time t = lw_burst_product(&d, &b, &p, LW_OPERANDS_FP8);
    assert_true(t.split_k >= 4);
    assert_true(near((double)t.time, whole / 4));
}

/* The value after "NAME = " of a C file. */
static double c_value(const char *text, const char *name)
{
    for (const char *p = text; (p = strstr(p, name)); p += strlen(name))
        if (strncmp(p + strlen(name), " = ", 3) == 0 && !isalnum((unsigned char)p[-1]) &&
            p[-1] != '_')
            return strtod(p + strlen(name) + 3, NULL);
    fail_msg("no '%s = ' in shared/device/burst_time.c", name);
    return NAN;
}

/* A list of numbers between `begin` and `end`. */
static int list_of(const char *text, const char *begin, char end, double *out, int most)
{
    const char *p = strstr(text, begin);
    int n = 0;

    assert_non_null(p);
    for (p += strlen(begin); *p != end && n < most; p += strspn(p, ", ")) {
        char *rest;
        out[n++] = strtod(p, &rest);
        assert_true(rest > p);
        p = rest;
    }
    return n;
}

/* The figures are fitted by a model whose constants stand once more in Python: they are those of
 * the C file. */
TEST(the_fit_has_the_constants_of_the_model)
{
    char *c = fixture_get("shared/device/burst_time.c"),
         *py = fixture_get("traces/clusters/fit_burst.py");
    char names[256];
    double values[16], widths[2][LW_N_HEAD_FORMS], sides[8], splits[8];
    int n_names = 0;
    const char *line = strstr(py, "\nSMALL_TILE, ");

    assert_non_null(line);
    size_t length = strcspn(line + 1, "=");
    assert_in_range(length, 1, sizeof names - 1);
    memcpy(names, line + 1, length);
    names[length] = '\0';
    int n = list_of(line, " = ", '\n', values, 16);
    for (char *word = strtok(names, ", "); word; word = strtok(NULL, ", "), n_names++)
        if (strcmp(word, "CLIP") != 0 && c_value(c, word) != values[n_names])
            fail_msg("%s: %g and %g", word, c_value(c, word), values[n_names]);
    assert_int_equal(n_names, n);
    assert_int_equal(n, 7);
    assert_int_equal(list_of(c, "forms[LW_N_HEAD_FORMS] = {", '}', widths[0], LW_N_HEAD_FORMS),
                     LW_N_HEAD_FORMS);
    assert_int_equal(list_of(py, "\nFORMS = (", ')', widths[1], LW_N_HEAD_FORMS), LW_N_HEAD_FORMS);
    assert_memory_equal(widths[0], widths[1], sizeof widths[0]);
    n = list_of(py, "SIDES, SPLITS = (", ')', sides, 8);
    assert_true(sides[0] == c_value(c, "TILE_STEP") && sides[n - 1] == c_value(c, "TILE"));
    assert_true(n * sides[0] == sides[n - 1]);
    n = list_of(strstr(py, "SIDES, SPLITS"), "), (", ')', splits, 8);
    assert_true(splits[n - 1] == c_value(c, "MOST_SPLIT"));
    free(c);
    free(py);
}
