/* Collectives in a node of PCIe whose ports were measured: closed forms. The rates of these tests
 * are 20, 10 and 5 GB/s for 2, 4 and 8 devices; latencies those of an L40S
 * (sim/nccl/nccl_tuning.c). */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/plan/op.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/cost_help.h"

#define GIB 1073741824.0

static struct lw_cluster ports(void)
{
    struct lw_cluster c = known("l40s");

    c.nccl.port2_bytes_per_s = (struct lw_figure){20e9, "test"};
    c.nccl.port4_bytes_per_s = (struct lw_figure){10e9, "test"};
    c.nccl.port8_bytes_per_s = (struct lw_figure){5e9, "test"};
    return c;
}

static void expect_us(const struct lw_cluster *c, enum lw_op_kind op, int64_t bytes, int32_t n,
                      double us)
{
    struct lw_cost_answer a = ask(c, op, bytes, n, 1, LW_REDUCER_AUTO);

    assert_string_equal(a.model, "nccl+cal");
    if (fabs((double)a.time / 1e6 - us) > 1e-4 * us)
        fail_msg("%s of %lld B on %d: %.3f us, expected %.3f", lw_op_name(op), (long long)bytes, n,
                 (double)a.time / 1e6, us);
}

/* Simple: 14.6 us, 3.14 us a transfer, and a rank's part of the bytes at the rate of its port. Of 3
 * ranks a byte takes the mean of 1/20 and 1/10 ns: 13.33 GB/s; of 6 that of 1/10 and 1/5. */
TEST(long_messages_take_the_rate_of_so_many_ports)
{
    struct lw_cluster c = ports();

    expect_us(&c, LW_OP_ALL_GATHER, 1 << 30, 2, 14.6 + 3.14 + GIB / 2 / 20e3);
    expect_us(&c, LW_OP_ALL_REDUCE, 1 << 30, 4, 14.6 + 6 * 3.14 + GIB * 1.5 / 10e3);
    expect_us(&c, LW_OP_REDUCE_SCATTER, 1 << 30, 8, 14.6 + 7 * 3.14 + GIB * 7 / 8 / 5e3);
    expect_us(&c, LW_OP_ALL_GATHER, 3 << 28, 3, 14.6 + 2 * 3.14 + GIB / 2 * 0.075e-3);
    expect_us(&c, LW_OP_ALL_GATHER, 6 << 27, 6, 14.6 + 5 * 3.14 + GIB * 5 / 8 * 0.15e-3);
    expect_us(&c, LW_OP_ALL_TO_ALL, 1 << 30, 8, 10.1 + GIB * 7 / 8 / 5e3);
    lw_cluster_free(&c);
}

/* LL moves a flag with each word, at 1.34 of the port's rate. */
TEST(short_messages_take_a_latency_and_twice_their_bytes)
{
    struct lw_cluster c = ports();

    expect_us(&c, LW_OP_ALL_GATHER, 8192, 2, 5.78 + 0.873 + 2 * 4096 / (1.34 * 20e3));
    expect_us(&c, LW_OP_ALL_REDUCE, 4096, 8, 5.78 + 14 * 0.873 + 2 * 7168 / (1.34 * 5e3));
    expect_us(&c, LW_OP_ALL_TO_ALL, 32768, 4, 8.45 + 2 * 24576 / (1.34 * 10e3));
    lw_cluster_free(&c);
}

/* A ring over two nodes of 8 passes the same ports: 16 / 30 of 5 GB/s. */
TEST(rings_over_nodes_are_no_faster_than_the_ports_in_them)
{
    struct lw_cluster c = ports();
    struct lw_cost_answer a = ask(&c, LW_OP_ALL_REDUCE, 1 << 30, 16, 2, LW_REDUCER_AUTO);

    assert_string_equal(a.detail, "slow ports");
    assert_true(fabs(a.bytes_per_s - 5e9 * 16 / 30) < 1);
    a = ask(&c, LW_OP_ALL_TO_ALL, 1 << 30, 16, 2, LW_REDUCER_AUTO);
    assert_true((double)a.time / 1e6 > GIB * 7 / 16 / 5e3);
    lw_cluster_free(&c);
}

/* Slower ports never shorten a time; without rates the model is NCCL's alone. */
TEST(slower_ports_never_take_less)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_ALL_GATHER,
                                          LW_OP_REDUCE_SCATTER, LW_OP_ALL_TO_ALL};
    struct prng r = prng_start("ports");
    struct lw_cluster c = ports();

    for (int i = 0; i < 400; i++) {
        enum lw_op_kind op = ops[prng_below(&r, 4)];
        int64_t bytes = (int64_t)1 << prng_below(&r, 31);
        int32_t n = 2 + (int32_t)prng_below(&r, 7);
        struct lw_cluster slow = c;
        slow.nccl.port2_bytes_per_s.value /= 2;
        slow.nccl.port4_bytes_per_s.value /= 2;
        slow.nccl.port8_bytes_per_s.value /= 2;
        assert_true(ask(&slow, op, bytes, n, 1, LW_REDUCER_AUTO).time >=
                    ask(&c, op, bytes, n, 1, LW_REDUCER_AUTO).time);
        slow.nccl.port2_bytes_per_s = slow.nccl.port4_bytes_per_s = slow.nccl.port8_bytes_per_s =
            (struct lw_figure){0};
        struct lw_cost_answer bare = ask(&slow, op, bytes, n, 1, LW_REDUCER_AUTO);
        assert_string_equal(bare.model, "nccl");
        assert_int_equal(bare.time, ask(&slow, op, bytes, n, 1, LW_REDUCER_NCCL).time);
    }
    lw_cluster_free(&c);
}
