/* No modelled collective is faster than the links of the node with the fewest ranks. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "shared/cluster/link_peak.h"
#include "shared/cluster/measured.h"
#include "shared/files/files.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/cost_help.h"

enum { GIB4_SHIFT = 32 };

static double seconds_of(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                         int32_t n_nodes, bool alone)
{
    struct lw_cost_query q = {.op = op, .dtype = LW_F32, .bytes = INT64_C(1) << GIB4_SHIFT,
                              .n_ranks = n_ranks, .n_nodes = n_nodes, .alone = alone};
    struct lw_cost_answer a;

    assert_int_equal(lw_sim_cost_explain(c, &q, &a, NULL), LW_OK);
    return (double)a.time * 1e-12;
}

static double seconds(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                      int32_t n_nodes)
{
    return seconds_of(c, op, n_ranks, n_nodes, false);
}

/* By hand on dgx-h100, one adapter of 50 GB/s a device, 4 GiB: the ninth rank is alone on the
 * second of two nodes and receives 2 * 1/2 of the bytes, one of eight nodes with nine ranks
 * 2 * 7/8. */
TEST(one_rank_alone_on_a_node_holds_all)
{
    double bytes = 4294967296.0, port = 50e9;
    struct lw_cluster c = known("dgx-h100");

    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 9, 2) >= bytes / port);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 9, 2) < 1.01 * bytes / port);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 9, 8) >= 1.75 * bytes / port);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 9, 8) < 1.01 * 1.75 * bytes / port);
    assert_true(seconds(&c, LW_OP_ALL_REDUCE, 16, 2) < 0.3 * bytes / port);
    lw_cluster_free(&c);
}

/* Of a run whose only group it is, no other device uses the adapters. NCCL takes those whose path
 * to the device is the shortest: on p4d one of four, 12.5 GB/s, in which the list of speeds has 12
 * for a ring. Two devices of a node are next to the same adapter, three to two of them. */
TEST_WITH(a_group_alone_has_the_adapters_that_it_is_next_to, fixture_open, fixture_close)
{
    static const struct {
        const char *name;
        int32_t n, nodes;
        double gbs, beside_gbs; /* of the bytes of 4 GiB over the time */
    } cases[] = {{"p4d", 2, 2, 12, 6.25},      {"p4d", 17, 3, 12.5 / (4 / 3.0), 6.25 / (4 / 3.0)},
                 {"a10g", 2, 2, 12, 12.5 / 8}, {"dgx-h100", 2, 2, 48, 48},
                 {"p5", 2, 2, 48, 48}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cluster c = known(cases[i].name);
        double gib4 = 4.294967296;
        double alone = gib4 / seconds_of(&c, LW_OP_ALL_REDUCE, cases[i].n, cases[i].nodes, true);
        double beside = gib4 / seconds_of(&c, LW_OP_ALL_REDUCE, cases[i].n, cases[i].nodes, false);
        if (fabs(alone / cases[i].gbs - 1) > 0.01 || fabs(beside / cases[i].beside_gbs - 1) > 0.01)
            fail_msg("%s, %d ranks: %.4g GB/s alone, %.4g beside others", cases[i].name,
                     cases[i].n, alone, beside);
        lw_cluster_free(&c);
    }
    EXPECT("cost -c p4d --bytes 4GiB --nodes 2 --ranks",
           {"2", 0, "  11.984  11.984  nccl   model  ring"},
           {"2 --algorithm ring", 0, "12.499"}, {"2 --op send", 0, "11.999"});
}

/* All-gather and reduce-scatter: 8/9 of the bytes go to the ninth rank, or come from it. Of five
 * ranks, of which one is alone on its node, 4/5. */
TEST(fewest_ranks_on_a_node_hold_shares)
{
    struct lw_cost_query q = {LW_OP_REDUCE_SCATTER, LW_F32, INT64_C(1) << GIB4_SHIFT, 5, 2,
                              LW_REDUCER_AUTO, 1};
    double bytes = 4294967296.0, port = 50e9;
    struct lw_cost_answer a;
    struct lw_cluster c = known("dgx-h100");

    double took = seconds(&c, LW_OP_ALL_GATHER, 9, 2) * port / bytes;
    assert_true(took >= 8 / 9.0 && took < 1.01 * 8 / 9.0);
    assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_OK);
    took = (double)a.time * 1e-12 * port / bytes;
    assert_true(took >= 0.8 && took < 1.01 * 0.8);
    lw_cluster_free(&c);
}

/* A ring enters the node of the lone rank by its one adapter, on p4d by half of one, which two
 * devices share: 2 (n-1)/n of 16 GiB by hand. */
TEST(a_ring_enters_the_smallest_node_with_all)
{
    static const struct {
        const char *name;
        int32_t n, nodes;
        double port, ms;
    } cases[] = {{"dgx-h100", 17, 3, 50e9, 646.8},
                 {"dgx-a100", 9, 2, 25e9, 1221.7},
                 {"p4d", 17, 3, 6.25e9, 5174.1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cluster c = known(cases[i].name);
        struct lw_cost_answer a = ask(&c, LW_OP_ALL_REDUCE, INT64_C(16) << 30, cases[i].n,
                                      cases[i].nodes, LW_REDUCER_NCCL_RING);
        double least = 2.0 * (cases[i].n - 1) / cases[i].n * 17179869184.0 / cases[i].port;
        assert_true((double)(a.time - a.latency) >= least * 1e12 * (1 - 1e-9));
        assert_true((double)a.time < least * 1.002e12);
        assert_true((double)a.time > (cases[i].ms - 1) * 1e9);
        assert_string_equal(a.detail, "smaller node's links");
        lw_cluster_free(&c);
    }
}

/* A ring's all-reduce is its reduce-scatter, then its all-gather; and auto takes no longer than
 * any algorithm of NCCL. */
TEST(ring_is_two_halves_and_auto_the_cheapest)
{
    static const char *const names[] = {"dgx-h100", "dgx-a100", "p4d", "dgx-b200"};
    struct prng r = prng_start("rings");

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct lw_cluster c = known(names[k]);
        for (int i = 0; i < 200; i++) {
            int32_t nodes = (int32_t)prng_in(&r, 2, 6);
            int32_t n = (int32_t)prng_in(&r, (nodes - 1) * 8 + 1, nodes * 8);
            int64_t bytes = INT64_C(1) << prng_in(&r, 28, 36);
            enum lw_reducer_kind ring = LW_REDUCER_NCCL_RING;
            struct lw_cost_answer all = ask(&c, LW_OP_ALL_REDUCE, bytes, n, nodes, ring),
                                  out = ask(&c, LW_OP_REDUCE_SCATTER, bytes, n, nodes, ring),
                                  in = ask(&c, LW_OP_ALL_GATHER, bytes, n, nodes, ring),
                                  any = ask(&c, LW_OP_ALL_REDUCE, bytes, n, nodes,
                                            LW_REDUCER_NCCL),
                                  tree = ask(&c, LW_OP_ALL_REDUCE, bytes, n, nodes,
                                             LW_REDUCER_NCCL_TREE);
            double halves = (double)(out.time - out.latency + in.time - in.latency);
            if ((double)all.time < halves * (1 - 1e-9))
                fail_msg("%d ranks on %d nodes of %s: %lld ps, halves %.0f", n, nodes, names[k],
                         (long long)all.time, halves);
            if (any.time > all.time || any.time > tree.time)
                fail_msg("%d ranks on %d nodes of %s, %lld bytes: %s takes %lld ps, ring %lld, "
                         "tree %lld", n, nodes, names[k], (long long)bytes, any.algorithm,
                         (long long)any.time, (long long)all.time, (long long)tree.time);
        }
        lw_cluster_free(&c);
    }
}

/* Three of eight devices are next to two of four adapters of 12.5 GB/s, and have all of them where
 * the engine shares: of an all-to-all of 1 GiB 3 x 3/6 enter each node. */
TEST(fair_links_are_counted_once)
{
    struct lw_cluster c = known("a100-roce4");

    c.interference.fair_links = (struct lw_figure){1, "test"};
    struct lw_cost_answer a = ask(&c, LW_OP_ALL_TO_ALL, 1 << 30, 6, 2, LW_REDUCER_PAIRWISE);
    double least = 1.5 * 1073741824.0 / 25e9;
    assert_true((double)a.time >= least * 1e12 * (1 - 1e-9));
    assert_true((double)a.time < least * 1.03e12); /* and what goes from device to device inside */
    assert_null(strstr(a.detail, "smaller"));
    lw_cluster_free(&c);
}

/* A measured message keeps its time, though the links carry 450 GB/s and it moves 1 TB/s: a table
 * answers a query by nccl+cal, whose curve is the one held to the links. */
TEST(a_measured_message_stays_as_it_is)
{
    static const int64_t bytes = 1000000000;
    static const lw_ps time = 1000 * LW_PS_PER_US;
    struct lw_cost_table t = {LW_OP_SEND, LW_F32, 2, 1, 1, 1, &bytes, &time, NULL, NULL, "own"};
    struct lw_cluster c = known("dgx-h100");

    c.tables = &t;
    c.n_tables = 1;
    struct lw_cost_answer a = ask(&c, LW_OP_SEND, bytes, 2, 1, LW_REDUCER_NCCL_CAL);
    assert_string_equal(a.model, "table");
    assert_int_equal(a.time, time);
    c.tables = NULL;
    c.n_tables = 0;
    lw_cluster_free(&c);
}

/* Without a switch a pair has one of V100's six links of 20 GB/s, four devices have two rings there
 * and back; of MI300X's seven of 48 one and three; three devices two thirds of what four have. An
 * all-gather receives (n - 1) / n of its bytes; all eight have all. */
TEST(a_group_has_the_links_that_lead_to_its_devices)
{
    static const struct {
        const char *name;
        double rates[5];
    } cases[] = {{"v100-ib", {20e9, 80e9 * 2 / 3, 80e9, 120e9, 120e9}},
                 {"mi300x", {48e9, 96e9, 144e9, 336e9, 336e9}},
                 {"dgx-h100", {370.8e9, 370.8e9, 370.8e9, 370.8e9, 370.8e9}}};
    static const int32_t n[] = {2, 3, 4, 5, 8};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cluster c = known(cases[i].name);
        for (int k = 0; k < 5; k++) {
            double rate = cases[i].rates[k];
            double peak = lw_link_peak(&c, LW_OP_ALL_GATHER, n[k], 1, true);
            assert_true(fabs(peak * (n[k] - 1) / n[k] / rate - 1) < 1e-12);
            double took = (double)ask(&c, LW_OP_ALL_GATHER, 1 << 30, n[k], 1, LW_REDUCER_RING).time;
            assert_true(took >= 1073741824.0 * (n[k] - 1) / n[k] / rate * 1e12 * (1 - 1e-9));
            assert_true(took < 1073741824.0 * (n[k] - 1) / n[k] / rate * 1.1e12);
        }
        lw_cluster_free(&c);
    }
}

/* A barrier has no bytes to carry, a rank alone no link to carry them. */
TEST(barriers_and_lone_ranks_have_no_bound)
{
    struct lw_cluster c = known("dgx-h100");

    lw_ps none = ask(&c, LW_OP_BARRIER, 0, 17, 3, LW_REDUCER_AUTO).time;
    assert_int_equal(ask(&c, LW_OP_BARRIER, 1 << 30, 17, 3, LW_REDUCER_AUTO).time, none);
    struct lw_cost_answer a = ask(&c, LW_OP_BARRIER, 1 << 30, 17, 3, LW_REDUCER_NCCL_CAL);
    assert_null(strstr(a.detail, "links"));
    assert_true(a.time < LW_PS_PER_S / 1000);
    for (int op = 0; op < LW_N_OP_KINDS; op++) {
        assert_true(lw_link_peak(&c, (enum lw_op_kind)op, 1, 1, false) == 0);
        assert_true(lw_node_peak(&c, (enum lw_op_kind)op, 8, 1, 0, true, false) == 0);
    }
    lw_cluster_free(&c);
}

TEST_WITH(nodes_that_are_not_full_are_named, fixture_open, fixture_close)
{
    EXPECT("cost -c dgx-h100 --bytes 1GiB --ranks",
           {"17", 0, "3 nodes of 'dgx-h100': 8, 8, 1 ranks\n"},
           {"18", 0, "3 nodes of 'dgx-h100': 6, 6, 6 ranks\n"},
           {"20", 0, "3 nodes of 'dgx-h100': 8, 8, 4 ranks\n"},
           {"24", 0, "3 nodes of 'dgx-h100'\n"},
           {"9 --nodes 8", 0, ": 1 node of 2 ranks, 7 of 1\n"},
           {"8 --nodes 8", 0, "8 nodes of 'dgx-h100': 1 rank each\n"},
           {"131", 0, ": 16 nodes of 8 ranks, 1 of 3\n"});
}

/* As nccl-tests is launched: a process on each device of the nodes. */
TEST_WITH(nodes_without_ranks_are_all_their_devices, fixture_open, fixture_close)
{
    EXPECT("cost --bytes 1GiB",
           {"-c dgx-h100 --nodes 2", 0, "on 16 ranks, all devices of 2 nodes of 'dgx-h100'\n"},
           {"-c dgx-h100 --nodes 1", 0, "on 8 ranks, all devices of 1 node of 'dgx-h100'\n"},
           {"-c dgx-h100 --nodes 2 --ranks 8", 0, "on 8 ranks, 2 nodes of 'dgx-h100': 4, 4"},
           {"-c gb200 --nodes 2", 0, "on 144 ranks, all devices of 2 nodes of 'gb200'\n"},
           {"-c dgx-h100 --nodes 16777216", 1, "--nodes 16777216: found 134217728 devices"},
           {"-c dgx-h100 --nodes 3 --format json", 0, "\"n_ranks\": 24,"});
}

/* It goes from one to another, whatever the number of devices. */
TEST_WITH(a_message_has_two_ranks, fixture_open, fixture_close)
{
    EXPECT("cost --bytes 1GiB -c dgx-h100 --op",
           {"send", 0, "send of f32 on 2 ranks, 1 node of 'dgx-h100'\n"},
           {"recv --nodes 2", 0, "recv of f32 on 2 ranks, 2 nodes of 'dgx-h100': 1, 1 ranks\n"},
           {"send --nodes 2 --ranks 2", 0, "on 2 ranks, 2 nodes of 'dgx-h100': 1, 1 ranks\n"},
           {"send --nodes 2 --format json", 0, "\"n_ranks\": 2,"},
           {"send --nodes 2 --ranks 16", 1, "--ranks 16: found with --op send, which has 2 memb"},
           {"send --nodes 3", 1, "--nodes 3: found with --op send, whose 2 members are of 1"});
}

TEST(no_shape_beats_the_links)
{
    static const char *const names[] = {"dgx-h100", "dgx-a100", "dgx-h200", "p4d", "v100-ib",
                                        "gb200"};
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_ALL_GATHER,
                                          LW_OP_REDUCE_SCATTER};

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct lw_cluster c = known(names[k]);
        for (int32_t nodes = 2; nodes <= 9; nodes++)
            for (int32_t ranks = nodes; ranks <= nodes * c.devices_per_node; ranks += 1 + ranks / 8)
                for (int o = 0; o < 6; o++) {
                    bool alone = o > 2;
                    int32_t last = ranks - (nodes - 1) * c.devices_per_node;
                    int32_t least = ranks % nodes != 0 && last >= 1 ? last : ranks / nodes;
                    double peak = lw_node_peak(&c, ops[o % 3], ranks, nodes, least, false, alone);
                    double s = seconds_of(&c, ops[o % 3], ranks, nodes, alone);
                    if (peak > 0 && 4294967296.0 / s > peak * (1 + 1e-9))
                        fail_msg("%s of %d ranks on %d nodes of %s: %.4g GB/s, the links %.4g",
                                 lw_op_name(ops[o % 3]), ranks, nodes, names[k], 4.294967296 / s,
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

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct lw_cluster c = known(names[k]);
        for (int i = 0; i < 6; i++)
            for (int32_t nodes = 1; nodes <= 2; nodes++)
                for (int64_t bytes = 1 << 20; bytes <= INT64_C(1) << 34; bytes *= 2) {
                    struct lw_cost_query q = {ops[i % 3], LW_F32, bytes, 4 * nodes, nodes,
                                              LW_REDUCER_NCCL_CAL, 0, i > 2};
                    struct lw_cost_answer a;
                    double peak = lw_link_peak(&c, q.op, q.n_ranks, nodes, q.alone);
                    assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_OK);
                    assert_true((double)bytes / ((double)a.time * 1e-12) <= peak * (1 + 1e-6));
                }
        lw_cluster_free(&c);
    }
}

/* More bytes take no less time, but where NCCL's correction of trees changes with the size (by 1/4
 * of the moving time at most: LL128 has 0.6, then 0.8), and where NCCL changes the algorithm as if
 * the adapters that groups share were its own, or ports as fast as their links. */
TEST(times_rise_with_the_size)
{
    static const char *const names[] = {"dgx-a100", "dgx-h100", "dgx-b200", "gb200", "l40s", "p4d"};
    struct prng r = prng_start("sizes");

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct lw_cluster c = known(names[k]);
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
            bool chosen_alone = (strcmp(b.detail, "shared adapter") == 0 ||
                                 strcmp(b.detail, "slow ports") == 0) &&
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
