/* No modelled collective is faster than the links of the node with the fewest ranks. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/cluster/link_peak.h"
#include "shared/files/files.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/prng.h"

enum { GIB4_SHIFT = 32 };

static double seconds(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                      int32_t n_nodes)
{
    struct lw_cost_query q = {op, LW_F32, INT64_C(1) << GIB4_SHIFT, n_ranks, n_nodes,
                              LW_REDUCER_AUTO};
    struct lw_cost_answer a;

    assert_int_equal(lw_sim_cost_explain(c, &q, &a, NULL), LW_OK);
    return (double)a.time * 1e-12;
}

/* By hand on dgx-h100, one adapter of 50 GB/s a device, 4 GiB: the ninth rank is alone on the
 * second of two nodes and receives 2 * 1/2 of the bytes, one of eight nodes with nine ranks
 * 2 * 7/8. */
TEST(one_rank_alone_on_a_node_holds_all)
{
    double bytes = 4294967296.0, port = 50e9;
    struct lw_cluster c;

    assert_int_equal(lw_cluster_find("dgx-h100", &c, NULL), LW_OK);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 9, 2) >= bytes / port);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 9, 2) < 1.01 * bytes / port);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 9, 8) >= 1.75 * bytes / port);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 9, 8) < 1.01 * 1.75 * bytes / port);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 16, 2) < 0.3 * bytes / port);
    lw_cluster_free(&c);
}

/* All-gather and reduce-scatter: 8/9 of the bytes go to the ninth rank, or come from it. Of five
 * ranks, of which one is alone on its node, 4/5. */
TEST(fewest_ranks_on_a_node_hold_shares)
{
    struct lw_cost_query q = {LW_OP_REDUCE_SCATTER, LW_F32, INT64_C(1) << GIB4_SHIFT, 5, 2,
                              LW_REDUCER_AUTO, 1};
    double bytes = 4294967296.0, port = 50e9;
    struct lw_cost_answer a;
    struct lw_cluster c;

    assert_int_equal(lw_cluster_find("dgx-h100", &c, NULL), LW_OK);
    double took = seconds(&c, LW_OP_ALL_GATHER, 9, 2) * port / bytes;
    assert_true(took >= 8 / 9.0 && took < 1.01 * 8 / 9.0);
    assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_OK);
    took = (double)a.time * 1e-12 * port / bytes;
    assert_true(took >= 0.8 && took < 1.01 * 0.8);
    lw_cluster_free(&c);
}

TEST(no_shape_beats_the_links)
{
    static const char *const names[] = {"dgx-h100", "dgx-a100", "dgx-h200", "p4d", "v100-ib",
                                        "gb200"};
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_ALL_GATHER,
                                          LW_OP_REDUCE_SCATTER};
    struct lw_cluster c;

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        assert_int_equal(lw_cluster_find(names[k], &c, NULL), LW_OK);
        for (int32_t nodes = 2; nodes <= 9; nodes++)
            for (int32_t ranks = nodes; ranks <= nodes * c.devices_per_node; ranks += 1 + ranks / 8)
                for (int o = 0; o < 3; o++) {
                    int32_t last = ranks - (nodes - 1) * c.devices_per_node;
                    int32_t least = ranks % nodes != 0 && last >= 1 ? last : ranks / nodes;
                    double peak = lw_node_peak(&c, ops[o], ranks, nodes, least);
                    double s = seconds(&c, ops[o], ranks, nodes);
                    if (peak > 0 && 4294967296.0 / s > peak * (1 + 1e-9))
                        fail_msg("%s of %d ranks on %d nodes of %s: %.4g GB/s, the links %.4g",
                                 lw_op_name(ops[o]), ranks, nodes, names[k], 4.294967296 / s,
                                 peak / 1e9);
                }
        lw_cluster_free(&c);
    }
}

/* The curve of PCIe is 0.995 at large sizes. */
TEST(no_curve_beats_the_links)
{
    static const char *const names[] = {"l40s", "a10g", "dgx-b200", "gb300", "p5"};
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_BROADCAST, LW_OP_ALL_TO_ALL};
    struct lw_cluster c;

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        assert_int_equal(lw_cluster_find(names[k], &c, NULL), LW_OK);
        for (int i = 0; i < 3; i++)
            for (int32_t nodes = 1; nodes <= 2; nodes++)
                for (int64_t bytes = 1 << 20; bytes <= INT64_C(1) << 34; bytes *= 2) {
                    struct lw_cost_query q = {ops[i], LW_F32, bytes, 4 * nodes, nodes,
                                              LW_REDUCER_NCCL_CAL};
                    struct lw_cost_answer a;
                    double peak = lw_link_peak(&c, q.op, q.n_ranks, nodes);
                    assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_OK);
                    assert_true((double)bytes / ((double)a.time * 1e-12) <= peak * (1 + 1e-6));
                }
        lw_cluster_free(&c);
    }
}

/* More bytes take no less time, but where NCCL's correction of trees changes with the size (by 1/4
 * of the moving time at most: LL128 has 0.6, then 0.8), and where NCCL changes the algorithm as if
 * the adapters that groups share were its own. */
TEST(times_rise_with_the_size)
{
    static const char *const names[] = {"dgx-a100", "dgx-h100", "dgx-b200", "gb200", "l40s", "p4d"};
    struct prng r = prng_start("sizes");
    struct lw_cluster c;

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        assert_int_equal(lw_cluster_find(names[k], &c, NULL), LW_OK);
        for (int i = 0; i < 2000; i++) {
            struct lw_cost_query q = {i % 3 ? LW_OP_ALL_REDUCE : LW_OP_ALL_GATHER, LW_F32, 0, 0, 0,
                                      LW_REDUCER_NCCL};
            struct lw_cost_answer a, b;
            q.n_nodes = (int32_t)prng_in(&r, 1, 9);
            q.n_ranks = q.n_nodes * (int32_t)prng_in(&r, 2, 4);
            q.bytes = prng_in(&r, 1, INT64_C(1) << prng_in(&r, 3, 34));
            assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_OK);
            q.bytes += prng_in(&r, 1, q.bytes);
            assert_int_equal(lw_sim_cost_explain(&c, &q, &b, NULL), LW_OK);
            double least = strstr(b.algorithm, "tree") ? .75 : 1;
            bool chosen_alone = strcmp(b.detail, "shared adapter") == 0 &&
                                (strcmp(a.algorithm, b.algorithm) != 0 ||
                                 strcmp(a.protocol, b.protocol) != 0);
            if (!chosen_alone && (double)b.time < least * (double)a.time)
                fail_msg("%s on %d ranks of %d nodes of %s: %lld bytes take %lld ps, fewer %lld",
                         lw_op_name(q.op), q.n_ranks, q.n_nodes, names[k], (long long)q.bytes,
                         (long long)b.time, (long long)a.time);
        }
        lw_cluster_free(&c);
    }
}
