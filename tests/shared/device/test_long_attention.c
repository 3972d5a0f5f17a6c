/* Attention of Blackwell against the published kernels of its training libraries. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/cluster/cluster.h"
#include "shared/device/device_time.h"
#include "shared/files/files.h"
#include "shared/framework/framework.h"
#include "shared/framework/framework_rates.h"

TEST_GROUP(NULL, NULL)

/* 128 heads of 128, causal, bf16; milliseconds (NVIDIA/cudnn-frontend@f937055e,
 * benchmark/sdpa_benchmark_bf16_training/artifacts, and @b372d398, sdpa_benchmark_training). */
static const struct row {
    const char *cluster;
    int64_t batch, seq;
    double forward_ms, backward_ms;
} LONG[] = {{"dgx-b200", 2, 131072, 854.100, 2736.916},
            {"gb200", 1, 131072, 383.713, 1184.584},
            {"gb300", 1, 131072, 309.147, 1034.802}},
  SHORT[] = {{"dgx-b200", 1, 32768, 24.518, 77.677},
             {"gb200", 1, 8192, 1.389, 4.542},
             {"gb200", 1, 32768, 20.937, 65.277},
             {"gb300", 1, 8192, 1.158, 4.256},
             {"gb300", 1, 32768, 17.536, 61.187}};

/* Predicted / measured. */
static double ratio(const struct row *r, bool backward, double speed)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    const struct lw_attention a = {.batch = r->batch, .heads = 128, .kv_heads = 8, .seq_q = r->seq,
                                   .seq_k = r->seq, .qk_width = 128, .v_width = 128, .causal = true,
                                   .backward = backward, .dtype = LW_BF16, .speed = speed};

    assert_ok(lw_cluster_find(r->cluster, &c, &err), err);
    double ms = (double)lw_attention_time(&c.device, &a) / 1e9;
    lw_cluster_free(&c);
    return ms / (backward ? r->backward_ms : r->forward_ms);
}

TEST(long_kernels_take_what_was_measured)
{
    for (size_t i = 0; i < sizeof LONG / sizeof *LONG; i++)
        for (int back = 0; back < 2; back++)
            assert_float_equal(ratio(&LONG[i], back, 1), 1, 0.002);
}

/* They run for milliseconds, with pauses: at a clock that a long one does not keep. */
TEST(short_kernels_are_faster_by_less_than_a_quarter)
{
    for (size_t i = 0; i < sizeof SHORT / sizeof *SHORT; i++)
        for (int back = 0; back < 2; back++) {
            double x = ratio(&SHORT[i], back, 1);
            if (x < 0.95 || x > 1.25)
                fail_msg("%s, %lld tokens: %.3f", SHORT[i].cluster, (long long)SHORT[i].seq, x);
        }
}

/* FlashAttention-2 2.7 on B200 and GB300, of both directions together. */
TEST(a_framework_of_flash_attention_2_is_slower_on_blackwell)
{
    static const struct row rows[] = {{"dgx-b200", 2, 131072, 2527.642, 7692.665},
                                      {"gb300", 1, 131072, 1164.878, 3694.044}};
    struct lw_framework f;
    struct lw_err err = {0};

    assert_ok(lw_framework_find("nanotron", &f, &err), err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lw_cluster c;
        assert_ok(lw_cluster_find(rows[i].cluster, &c, &err), err);
        double speed = lw_framework_rates(&f, &c.device).attention_speed;
        assert_float_equal(speed, 0.31, 1e-9);
        double ms = ratio(&rows[i], false, speed) * rows[i].forward_ms +
                    ratio(&rows[i], true, speed) * rows[i].backward_ms;
        assert_float_equal(ms / (rows[i].forward_ms + rows[i].backward_ms), 1, 0.14);
        lw_cluster_free(&c);
    }
    lw_framework_free(&f);
    assert_ok(lw_framework_find("megatron-bridge", &f, &err), err);
    struct lw_device b = {.kind = "GB300"}, h = {.kind = "H100-SXM5-80GB"};
    assert_float_equal(lw_framework_rates(&f, &b).attention_speed, 1, 1e-9);
    assert_float_equal(lw_framework_rates(&f, &h).attention_speed, 1.55, 1e-9);
    lw_framework_free(&f);
}
