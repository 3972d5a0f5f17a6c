/* NCCL's cost model on known clusters: what the links become, what is chosen, what is refused. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "shared/cluster/measured.h"
#include "shared/files/files.h"
#include "shared/workload/kernel.h"
#include "sim/cost/cost_nccl.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/cost_help.h"

/* Bits of the lists: tree 1, ring 2; ll 1, ll128 2, simple 4. */
#define LISTS(a, p) ((enum lw_reducer_kind)LW_REDUCER_NCCL_LISTS(a, p))
#define TREE_LL LISTS(1, 1)
#define TREE_LL128 LISTS(1, 2)
#define TREE_SIMPLE LISTS(1, 4)
#define RING_LL LISTS(2, 1)
#define RING_LL128 LISTS(2, 2)
#define RING_SIMPLE LISTS(2, 4)

/* 1 MiB on 8 H100: ring/LL, 6.6 + 14 x 0.6 us and 80.571 GB/s; 32 MiB: NVLS, 25 us and 272 GB/s. */
/* What auto is: the calibrated model where two measured fabrics are of such a place and one of them
 * is of the device's kind, and in a node of measured ports, else NCCL's model. */
TEST(auto_is_the_calibrated_model_where_it_was_measured)
{
    static const struct {
        const char *cluster;
        int32_t n_ranks, n_nodes;
        const char *model;
    } cases[] = {{"dgx-h100", 8, 1, "nccl+cal"}, {"dgx-h100", 16, 2, "nccl+cal"},
                 {"dgx-a100", 8, 1, "nccl+cal"}, {"gb200", 144, 2, "nccl+cal"},
                 {"l40s", 8, 1, "nccl+cal"},     {"l40s", 16, 2, "nccl"},
                 {"pcie-box", 4, 1, "nccl"},     {"rtx-pro-6000", 2, 1, "nccl+cal"},
                 {"v100-ib", 8, 1, "nccl"},      {"v100-ib", 16, 2, "nccl"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cluster c = known(cases[i].cluster);
        int32_t n = cases[i].n_ranks, nodes = cases[i].n_nodes;
        struct lw_cost_answer by = ask(&c, LW_OP_ALL_REDUCE, 1 << 24, n, nodes, LW_REDUCER_AUTO);
        assert_string_equal(by.model, cases[i].model);
        bool curve = strcmp(by.model, "nccl+cal") == 0;
        enum lw_reducer_kind same = curve ? LW_REDUCER_NCCL_CAL : LW_REDUCER_NCCL;
        assert_int_equal(by.time, ask(&c, LW_OP_ALL_REDUCE, 1 << 24, n, nodes, same).time);
        assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 1 << 24, n, nodes, LW_REDUCER_NCCL).model,
                            "nccl");
        lw_cluster_free(&c);
    }
}

/* From one power of two to the next. What is measured beside NCCL's model leaves LL dearer than
 * LL128 of twice the size. */
TEST(a_larger_message_never_takes_less_time)
{
    static const char *const clusters[] = {"dgx-a100", "dgx-h100", "dgx-b300", "gb200", "p5"};
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_ALL_GATHER,
                                          LW_OP_REDUCE_SCATTER, LW_OP_BROADCAST, LW_OP_REDUCE};

    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        struct lw_cluster c = known(clusters[i]);
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
            for (int32_t n = 2; n <= 64; n *= 2) {
                int32_t nodes = n <= c.devices_per_node ? 1 : n / c.devices_per_node;
                lw_ps before = 0;
                for (int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= 2) {
                    lw_ps time = ask(&c, ops[k], bytes, n, nodes, LW_REDUCER_AUTO).time;
                    if (time < before)
                        fail_msg("%s, %s on %d ranks: %lld bytes take less than half of them",
                                 clusters[i], lw_op_name(ops[k]), n, (long long)bytes);
                    before = time;
                }
            }
        lw_cluster_free(&c);
    }
}

/* Of twice the nodes: more of the buffer leaves a node, in shorter messages. */
TEST(an_all_to_all_among_more_nodes_never_takes_less_time)
{
    static const char *const clusters[] = {"dgx-a100", "dgx-h100", "dgx-b300", "p5"};

    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        struct lw_cluster c = known(clusters[i]);
        for (int64_t bytes = 1 << 10; bytes <= INT64_C(1) << 32; bytes *= 2) {
            lw_ps before = 0;
            for (int32_t nodes = 2; nodes <= 256; nodes *= 2) {
                lw_ps time = ask(&c, LW_OP_ALL_TO_ALL, bytes, nodes * 8, nodes,
                                 LW_REDUCER_AUTO).time;
                if (time < before)
                    fail_msg("%s, %lld bytes: %d nodes take less than half of them", clusters[i],
                             (long long)bytes, nodes);
                before = time;
            }
        }
        lw_cluster_free(&c);
    }
}

TEST(unmeasured_cluster_takes_the_model)
{
    static const struct cost_case cases[] = {
        {LW_OP_ALL_REDUCE, 1 << 20, 8, 1, LW_REDUCER_NCCL, 28014241, 15000000, "ring", "ll",
         "nccl"},
        {LW_OP_ALL_REDUCE, 32 << 20, 8, 1, LW_REDUCER_NCCL, 148361882, .algorithm = "nvls"},
    };
    struct lw_cluster c = known("dgx-h100");
    struct lw_cost_answer a = ask(&c, LW_OP_ALL_REDUCE, 1 << 20, 8, 1, LW_REDUCER_NCCL);

    expect_costs(&c, cases);
    assert_int_equal(a.n_channels, 12);
    assert_true(a.bytes_per_s > 80.57e9 && a.bytes_per_s < 80.572e9); /* 141 x 8/14 */
    has(a.source, "v2.30.7-1");
    lw_cluster_free(&c);
}

TEST(measured_table_wins)
{
    static const int64_t bytes[] = {1 << 20};
    static const lw_ps time[] = {33000000};
    static const struct cost_case cases[] = {
        {LW_OP_ALL_REDUCE, 1 << 20, 8, 1, LW_REDUCER_AUTO, .model = "table"},
        {LW_OP_ALL_REDUCE, 1 << 20, 8, 1, LW_REDUCER_NCCL, .model = "nccl"},
        {LW_OP_ALL_REDUCE, 1 << 20, 8, 1, LW_REDUCER_RING, .model = "table"},
    };
    struct lw_cost_table t = {.op = LW_OP_ALL_REDUCE,
                              .dtype = LW_F32,
                              .n_ranks = 8,
                              .n_nodes = 1,
                              .n_in_flight = 1,
                              .n_rows = 1,
                              .bytes = bytes,
                              .time_ps = time,
                              .source = "here"};
    struct lw_cluster c = known("dgx-h100");

    c.tables = &t;
    c.n_tables = 1;
    expect_costs(&c, cases);
    lw_cluster_free(&c);
}

/* tree/LL128 of 1 MiB on one node: 14 + 2 x 7 x 1.25 us, and 257.6 / 2 GB/s x 0.6. */
TEST(named_pairs_are_forced)
{
    enum { B = 1 << 16 };
    const enum lw_op_kind OP = LW_OP_ALL_REDUCE;
    const struct cost_case cases[] = {
        {OP, 1 << 20, 8, 1, TREE_LL128, 45068530, 31500000, "tree", "ll128"},
        {OP, B, 8, 1, RING_SIMPLE, .algorithm = "ring", .protocol = "simple"},
        {OP, B, 8, 1, RING_LL, .algorithm = "ring", .protocol = "ll"},
        {OP, B, 8, 1, RING_LL128, .algorithm = "ring", .protocol = "ll128"},
        {OP, B, 8, 1, TREE_LL, .algorithm = "tree", .protocol = "ll"},
        {OP, B, 8, 1, TREE_SIMPLE, .algorithm = "tree", .protocol = "simple"},
        {OP, B, 8, 1, LW_REDUCER_NCCL_TREE, .algorithm = "tree"},
        {OP, B, 8, 1, LW_REDUCER_NCCL_RING, .algorithm = "ring"},
        {OP, B, 8, 1, LW_REDUCER_NCCL_LL128, .protocol = "ll128"},
        {OP, B, 8, 1, LW_REDUCER_NCCL_SIMPLE, .protocol = "simple"},
        {OP, B, 8, 1, LW_REDUCER_NCCL_LL, .protocol = "ll"},
        {OP, B, 8, 1, LW_REDUCER_NCCL_NVLS, .algorithm = "nvls", .protocol = "simple"},
        {OP, B, 8, 1, LW_REDUCER_NVLS, .algorithm = "nvls", .protocol = "simple"},
        {OP, 8, 16, 2, LW_REDUCER_NVLS, .algorithm = "nvls-tree"},
    };
    struct lw_cluster c = known("dgx-h100");

    expect_costs(&c, cases);
    lw_cluster_free(&c);
}

static void not_allowed(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                        int32_t n_nodes, enum lw_reducer_kind algorithm, bool exists,
                        const char *words)
{
    struct lw_cost_query q = {op, LW_F32, 4096, n_ranks, n_nodes, algorithm};
    struct lw_err err = {0};
    bool found = !exists;

    assert_int_equal(sim_nccl_allows(c, &q, &found, &err), LW_ENOTSUP);
    assert_int_equal(found, exists);
    has(err.msg, words);
    assert_null(strchr(err.msg, '\n'));
}

TEST(unavailable_algorithm_is_refused_in_one_line)
{
    struct lw_cluster c = known("dgx-h100"), a100 = known("dgx-a100"), pcie = known("pcie-box");

    not_allowed(&c, LW_OP_ALL_REDUCE, 8, 1, LW_REDUCER_NCCL_PAT, false,
                "nccl:pat on 8 ranks of 1 node");
    not_allowed(&c, LW_OP_BROADCAST, 8, 1, LW_REDUCER_NCCL_TREE, false,
                "choose nccl:ring/ll, nccl:ring/ll128");
    not_allowed(&c, LW_OP_ALL_REDUCE, 8, 1, LW_REDUCER_NCCL_PAT, false, ", nccl:nvls");
    not_allowed(&c, LW_OP_ALL_TO_ALL, 8, 1, LW_REDUCER_NCCL_TREE, false, "no algorithms of");
    not_allowed(&c, LW_OP_ALL_REDUCE, 16, 2, LW_REDUCER_NCCL_NVLS, true,
                "no all_reduce by nccl:nvls");
    not_allowed(&c, LW_OP_REDUCE_SCATTER, 16, 2, LW_REDUCER_NVLS, true,
                "needs nccl.collnet for it");
    not_allowed(&a100, LW_OP_ALL_REDUCE, 8, 1, LW_REDUCER_NVLS, true,
                "by nvls on 8 ranks of 1 node here (NVLS needs NVSwitch with multicast");
    not_allowed(&pcie, LW_OP_ALL_REDUCE, 4, 1, LW_REDUCER_NCCL_LL128, true, "LL128 needs NVLink");
    not_allowed(&c, LW_OP_ALL_REDUCE, 16, 2, LW_REDUCER_NCCL_COLLNET_CHAIN, true,
                "CollNet needs nccl.collnet");
    not_allowed(&c, LW_OP_ALL_REDUCE, 8, 1, LISTS(16, 3), true,
                "by nccl:nvls/ll,ll128 on 8 ranks of 1 node here (tree and ring alone have LL");
    lw_cluster_free(&c);
    lw_cluster_free(&a100);
    lw_cluster_free(&pcie);
}

/* nccl.algo and nccl.proto hold for a function each, beside what is asked for. */
TEST(a_cluster_sets_nccl_algo_and_proto)
{
    const enum lw_reducer_kind nccl = LW_REDUCER_NCCL;
    struct lw_cluster c = known("dgx-h100");
    char plain[33], limited[33];

    assert_int_equal(lw_cluster_hash(&c, plain, NULL), LW_OK);
    assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 1 << 26, 8, 1, nccl).algorithm, "nvls");
    assert_string_equal(ask(&c, LW_OP_ALL_GATHER, 1 << 24, 8, 1, nccl).protocol, "ll128");
    c.nccl.algo = "ring;allreduce:tree,ring";
    c.nccl.proto = "^LL128";
    assert_int_equal(lw_cluster_check(&c, NULL), LW_OK);
    assert_int_equal(lw_cluster_hash(&c, limited, NULL), LW_OK);
    assert_string_not_equal(plain, limited);
    assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 1 << 26, 8, 1, nccl).algorithm, "ring");
    assert_string_equal(ask(&c, LW_OP_ALL_GATHER, 1 << 24, 8, 1, nccl).protocol, "simple");
    not_allowed(&c, LW_OP_ALL_REDUCE, 8, 1, LW_REDUCER_NCCL_NVLS, true,
                "choose nccl:tree/ll, nccl:tree/simple, nccl:ring/ll, nccl:ring/simple");
    c.nccl.algo = "pat";
    not_allowed(&c, LW_OP_ALL_REDUCE, 8, 1, nccl, true,
                "no algorithm left for all_reduce on 8 ranks of 1 node: correct nccl.algo "
                "\"pat\"");
    c.nccl.algo = "ring;tree";
    struct lw_err err = {0};
    assert_int_equal(lw_cluster_check(&c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "at nccl.algo: found \"ring;tree\", allowed: what NCCL_ALGO"));
    lw_cluster_free(&c);
}

/* With an adapter for each device the rings differ, and each hop pays: 6.6 + 16 x 2.7, 14 + 16 x 4,
 * 8.4 + 16 x 14 us, as NCCL 2.28.9 has them for two such nodes (tests/nccl_library.py). One adapter
 * makes one chain: 6.6 + 2.7. */
TEST(chains_of_several_orders_pay_every_hop)
{
    static const struct cost_case cases[] = {
        {LW_OP_BROADCAST, 8, 16, 2, RING_LL, .latency = 49800000},
        {LW_OP_REDUCE, 8, 16, 2, RING_LL128, .latency = 78000000},
        {LW_OP_BROADCAST, 8, 16, 2, RING_SIMPLE, .latency = 232400000},
        {LW_OP_BROADCAST, 8, 2, 2, RING_LL, .latency = 9300000},
    };
    struct lw_cluster c = known("dgx-h100");

    expect_costs(&c, cases);
    lw_cluster_free(&c);
}

/* Broadcast has rings alone; 8 H100, 4 KiB: ring/LL, 7.2 us + 4096 B / 141 GB/s. */
TEST(unavailable_algorithm_is_left_to_nccl)
{
    static const enum lw_op_kind ops[] = {LW_OP_BROADCAST, LW_OP_ALL_GATHER, LW_OP_ALL_TO_ALL,
                                          LW_OP_SEND};
    struct lw_cluster c = known("dgx-h100");
    static const struct cost_case broadcast[] = {{LW_OP_BROADCAST, 4096, 8, 1, LW_REDUCER_NCCL_TREE,
                                                  7229050, .algorithm = "ring",
                                                  .detail = "own choice"}};

    expect_costs(&c, broadcast);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct lw_cost_answer own = ask(&c, ops[i], 1 << 20, 8, 1, LW_REDUCER_NCCL);
        assert_false(own.instead);
        struct lw_cost_answer a = ask(&c, ops[i], 1 << 20, 8, 1, TREE_LL);
        assert_true(a.instead);
        assert_int_equal(a.time, own.time);
    }
    assert_false(ask(&c, LW_OP_ALL_REDUCE, 4096, 8, 1, LW_REDUCER_NCCL_TREE).instead);
    assert_false(ask(&c, LW_OP_BARRIER, 0, 8, 1, LW_REDUCER_AUTO).instead);
    lw_cluster_free(&c);
}

TEST(ll128_may_be_switched_off)
{
    struct lw_cluster c = known("dgx-h100");

    assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 1 << 20, 16, 2, LW_REDUCER_NCCL).protocol,
                        "ll128");
    c.nccl.ll128 = (struct lw_figure){0, "NCCL_PROTO=^LL128"};
    for (int64_t bytes = 8; bytes < 1 << 30; bytes *= 2)
        assert_string_not_equal(ask(&c, LW_OP_ALL_REDUCE, bytes, 16, 2, LW_REDUCER_NCCL).protocol,
                                "ll128");
    c.nccl.ll128.value = 1;
    assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 1 << 20, 16, 2, LW_REDUCER_NCCL).protocol,
                        "ll128");
    lw_cluster_free(&c);
}

TEST(missing_cluster_figure_is_refused_in_one_line)
{
    struct lw_cluster c = known("dgx-h100"), host = known("host");

    expect_no_cost(&host, LW_OP_ALL_REDUCE, 2, 1, LW_REDUCER_NCCL, LW_ENOTSUP,
                   "nccl.compute_capability");
    c.library_version = "2.4.8";
    expect_no_cost(&c, LW_OP_ALL_REDUCE, 8, 1, LW_REDUCER_AUTO, LW_EINVAL,
                   "unknown version '2.4.8' of NCCL");
    c.library_version = "";
    for (int32_t i = 0; i < c.n_links; i++)
        c.links[i].bytes_per_s.value /= 1e4;
    expect_no_cost(&c, LW_OP_ALL_REDUCE, 8, 1, LW_REDUCER_AUTO, LW_ENOTSUP,
                   "finds no channel on cluster");
    c.n_links = 1;
    expect_no_cost(&c, LW_OP_ALL_REDUCE, 16, 2, LW_REDUCER_AUTO, LW_ENOTSUP,
                   "no bandwidth for its inter-node");
    lw_cluster_free(&c);
    lw_cluster_free(&host);
}

/* A cluster option changes the choice: SHARP opens CollNet and NVLS over nodes; an AMD host lowers
 * the LL cap over nodes, and posts in 2 us. */
TEST(facts_of_the_cluster_count)
{
    struct lw_cluster c = known("dgx-h100");
    struct lw_figure one = {1, "test"}, us = {30e6, "test"};
    lw_ps plain = ask(&c, LW_OP_ALL_REDUCE, 8, 16, 2, TREE_LL).time;
    lw_ps ring = ask(&c, LW_OP_REDUCE_SCATTER, 8, 16, 2, RING_LL).latency;

    c.nccl.collnet = one;
    assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 8, 16, 2, LW_REDUCER_NCCL_NVLS).algorithm,
                        "nvls");
    c.nccl.net_latency_ps = us; /* two steps between nodes */
    assert_int_equal(ask(&c, LW_OP_ALL_REDUCE, 8, 16, 2, TREE_LL).time,
                     plain + 2 * 30000000);
    c.nccl.net_latency_ps = (struct lw_figure){0};
    c.nccl.amd_host =
        one; /* 14 steps inside nodes of a reduce-scatter: max(0.6, 2) and not max(0.6, 1) us */
    assert_int_equal(ask(&c, LW_OP_REDUCE_SCATTER, 8, 16, 2, RING_LL).latency,
                     ring + 14 * 1000000);
    lw_cluster_free(&c);
}

/* Eight devices share an adapter of 12.5 GB/s (a10g). A rank of each of two nodes sends the whole
 * buffer in an all-reduce of both: NCCL's ring has a channel of 12 GB/s, beside seven others 12.5/8
 * GB/s. A message the same. Four of a node are half of it: of half of the adapter the tree moves
 * 0.92. The latency is as alone. */
TEST(groups_side_by_side_share_an_adapter)
{
    static const struct {
        enum lw_op_kind op;
        int32_t n_ranks;
        double gbs, alone_gbs;
    } cases[] = {
        {LW_OP_ALL_REDUCE, 2, 12.5 / 8, 12},
        {LW_OP_SEND, 2, 12.5 / 8, 12},
        {LW_OP_ALL_REDUCE, 8, .92 * 12.5 / 2, .92 * 12},
        {LW_OP_ALL_REDUCE, 16, .92 * 12, .92 * 12},
    };
    struct lw_cluster c = known("a10g"), alone = known("a10g");

    alone.interference.fair_links = (struct lw_figure){1, "test"}; /* the engine shares */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cost_answer a =
            ask(&c, cases[i].op, 1 << 30, cases[i].n_ranks, 2, LW_REDUCER_NCCL);
        struct lw_cost_answer b =
            ask(&alone, cases[i].op, 1 << 30, cases[i].n_ranks, 2, LW_REDUCER_NCCL);
        assert_true(fabs(a.bytes_per_s / 1e9 - cases[i].gbs) < 1e-6);
        assert_true(fabs(b.bytes_per_s / 1e9 - cases[i].alone_gbs) < 1e-6);
        assert_int_equal(a.latency, b.latency);
        assert_string_equal(a.algorithm, b.algorithm);
        if (cases[i].op == LW_OP_ALL_REDUCE)
            assert_string_equal(a.detail, cases[i].n_ranks == 16 ? "model" : "shared adapter");
    }
    lw_cluster_free(&c);
    lw_cluster_free(&alone);
}

/* Four ports of 12.5 GB/s that reach 1.75. Searched with 1.75, each has one channel of 1.2 GB/s,
 * the next speed of NCCL's list. Searched with what they report, the ring has all of 4 x 1.75. A
 * ring of 32 ranks passes 2 x 31/32 of the bytes; of two ranks on two nodes each has half of a
 * port. */
TEST(a_port_that_reaches_less_than_it_reports_is_searched_with_what_it_reports)
{
    struct lw_cluster c = known("jean-zay-a100");
    double ring = 32.0 / 62;

    c.links[1].bytes_per_s.value = 1.75e9;
    double searched = ask(&c, LW_OP_ALL_REDUCE, 1 << 30, 32, 4, RING_SIMPLE).bytes_per_s;
    assert_true(fabs(searched * 1e-9 - 4 * 1.2 * ring) < 1e-6);
    c.nccl.adapter_bytes_per_s = (struct lw_figure){12.5e9, "test"};
    struct lw_cost_answer a = ask(&c, LW_OP_ALL_REDUCE, 1 << 30, 32, 4, RING_SIMPLE);
    assert_true(fabs(a.bytes_per_s * 1e-9 - 4 * 1.75 * ring) < 1e-6);
    assert_string_equal(a.detail, "slow adapter");
    c.links[1].bytes_per_s.value = 12.5e9; /* as reported: two ranks share it with others */
    a = ask(&c, LW_OP_ALL_REDUCE, 1 << 30, 2, 2, RING_SIMPLE);
    assert_string_equal(a.detail, "shared adapter");
    c.links[1].bytes_per_s.value = 1.75e9;
    struct lw_cost_answer send = ask(&c, LW_OP_SEND, 1 << 30, 2, 2, LW_REDUCER_NCCL);
    assert_true(fabs(send.bytes_per_s - 1.75e9 / 2) < 1);
    c.nccl.adapter_bytes_per_s.value = 1.75e9;
    assert_true(ask(&c, LW_OP_ALL_REDUCE, 1 << 30, 32, 4, RING_SIMPLE).bytes_per_s == searched);
    lw_cluster_free(&c);
}

/* 100 MB between two devices of a node: 10 us + 1e8 B / 360 GB/s. All-to-all of 16 ranks on 2
 * nodes: half of the buffer of 8 ranks leaves the node at 360 GB/s: 20 us + 8 x 1e8 / 2 / 360 GB/s.
 */
TEST(point_to_point_is_marked_as_assumed)
{
    struct lw_cluster c = known("dgx-h100");
    const struct cost_case cases[] = {
        {LW_OP_SEND, 100000000, 2, 1, LW_REDUCER_NCCL, 10000000 + 277777778, .detail = "assumed"},
        {LW_OP_ALL_TO_ALL, 100000000, 16, 2, LW_REDUCER_NCCL, 20000000 + 1041666667},
        {LW_OP_BARRIER, 0, 8, 1, LW_REDUCER_NCCL,
         ask(&c, LW_OP_ALL_REDUCE, 4, 8, 1, LW_REDUCER_NCCL).time},
    };

    expect_costs(&c, cases);
    has(ask(&c, LW_OP_SEND, 8, 2, 1, LW_REDUCER_NCCL).source, "NCCL has no model");
    lw_cluster_free(&c);
}

/* A ring passes every device's NVLink with all that a node sends, 160 GB/s of an H800, an exchange
 * does not: 8 adapters of 48 GB/s either way. 64 ranks: 8 x 56/64 of the bytes leave a node. */
TEST(an_exchange_between_nodes_is_not_a_ring)
{
    struct lw_cluster h800 = known("h800"), h100 = known("dgx-h100");
    const lw_ps each = 20000000 + 1822916667; /* + 1e8 x 56/64 / 48 GB/s */

    assert_int_equal(ask(&h800, LW_OP_ALL_TO_ALL, 100000000, 64, 8, LW_REDUCER_NCCL).time, each);
    assert_int_equal(ask(&h100, LW_OP_ALL_TO_ALL, 100000000, 64, 8, LW_REDUCER_NCCL).time, each);
    lw_cluster_free(&h100);
    lw_cluster_free(&h800);
}

/* No bytes, so one time for all sizes: the least bytes that cross the links do not count. */
TEST_WITH(a_barrier_takes_the_same_time_at_every_size, fixture_open, fixture_close)
{
    struct lw_cluster c = known("dgx-h100");
    struct lw_cost_answer least = ask(&c, LW_OP_BARRIER, 0, 16, 2, LW_REDUCER_NCCL);
    struct lw_cost_answer most = ask(&c, LW_OP_BARRIER, INT64_C(1) << 34, 16, 2, LW_REDUCER_NCCL);

    assert_int_equal(most.time, least.time);
    assert_string_equal(most.detail, least.detail);
    lw_cluster_free(&c);
    EXPECT("cost -c dgx-h100 --op barrier --ranks 16 --bytes 16GiB --algorithm nccl",
           {"--format csv", 0, "\n17179869184,25200,,,nccl"}, {"", 0, "a barrier carries no"});
}

/* A message is one pair's, whatever the group: 20 us + 1e8 B / 48 GB/s between nodes of H100. In
 * a node of A100: 10 us + 1e8 B / (0.82 x 240 GB/s); two devices were measured at 197.3 GB/s. */
TEST(a_message_costs_the_same_in_every_group)
{
    static const enum lw_reducer_kind by[] = {LW_REDUCER_AUTO, LW_REDUCER_NCCL_CAL,
                                              LW_REDUCER_RING};
    static const int32_t groups[][2] = {{4, 2}, {16, 2}, {32, 4}, {4, 4}};
    struct lw_cluster c = known("dgx-h100"), a100 = known("dgx-a100");

    assert_int_equal(ask(&c, LW_OP_SEND, 100000000, 16, 2, LW_REDUCER_NCCL).time,
                     20000000 + 2083333333);
    assert_int_equal(ask(&a100, LW_OP_SEND, 100000000, 8, 1, LW_REDUCER_NCCL).time,
                     10000000 + 508130081);
    lw_cluster_free(&a100);
    for (int k = 0; k < 3; k++) {
        lw_ps between = ask(&c, LW_OP_SEND, 100000000, 2, 2, by[k]).time;
        assert_int_equal(ask(&c, LW_OP_SEND, 100000000, 8, 1, by[k]).time,
                         ask(&c, LW_OP_SEND, 100000000, 2, 1, by[k]).time);
        for (int i = 0; i < 4; i++)
            assert_int_equal(
                ask(&c, LW_OP_SEND, 100000000, groups[i][0], groups[i][1], by[k]).time, between);
    }
    lw_cluster_free(&c);
}

/* 1e8 B / 240 GB/s and 10 us where A100's measured share is not known to hold: another device with
 * NVLink, and four A100 whose links go from one to the other. */
TEST(the_share_of_a_pair_is_of_a100_on_a_switch)
{
    struct lw_cluster c = known("dgx-a100");
    struct lw_cost_answer a = ask(&c, LW_OP_SEND, 100000000, 2, 1, LW_REDUCER_NCCL);

    assert_non_null(strstr(a.source, "0.82 of a ring"));
    c.devices_per_node = 4;
    a = ask(&c, LW_OP_SEND, 100000000, 2, 1, LW_REDUCER_NCCL);
    assert_null(strstr(a.source, "0.82"));
    assert_int_equal(a.time, 10000000 + 416666667);
    c.devices_per_node = 8;
    c.nccl.compute_capability.value = 86;
    assert_int_equal(ask(&c, LW_OP_SEND, 100000000, 2, 1, LW_REDUCER_NCCL).time, a.time);
    lw_cluster_free(&c);
}

/* Every known cluster whose library is nccl answers for every operation on 1 to 16 nodes and for
 * parts of nodes, and more bytes never take less time by one pair. */
TEST(every_known_cluster_answers)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_REDUCE_SCATTER, LW_OP_ALL_GATHER,
                                          LW_OP_BROADCAST,  LW_OP_REDUCE,         LW_OP_ALL_TO_ALL,
                                          LW_OP_SEND,       LW_OP_BARRIER};
    int n = 0;

    for (int k = 0; lw_cluster_known(k); k++) {
        struct lw_cluster c = known(lw_cluster_known(k));
        bool nccl = strcmp(c.library, "nccl") == 0 && lw_figure_is_set(c.nccl.compute_capability);
        for (int32_t nodes = 1; nccl && nodes <= (c.n_nodes ? c.n_nodes : 16); nodes *= 2)
            for (int32_t on = 1; on <= c.devices_per_node; on++)
                for (size_t o = 0; o < sizeof ops / sizeof *ops && on * nodes > 1; o++, n++) {
                    struct lw_cost_answer a =
                        ask(&c, ops[o], 1 << 20, on * nodes, nodes, LW_REDUCER_AUTO);
                    if (c.n_tables == 0)
                        assert_int_equal(strncmp(a.model, "nccl", 4), 0);
                    assert_non_null(strstr(a.model, "nccl"));
                    assert_true(a.time > 0 && a.latency > 0 && a.latency <= a.time &&
                                a.n_channels > 0);
                }
        lw_cluster_free(&c);
    }
    assert_true(n > 1000);
}

/* Shapes that come again are not worked out again: 20,000 queries of clusters that change in place,
 * against the tuning table made anew for each. */
TEST(cached_graphs_change_no_answer)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_ALL_GATHER, LW_OP_REDUCE_SCATTER,
                                          LW_OP_BROADCAST, LW_OP_REDUCE};
    static const char *const versions[] = {"2.19", "2.23.4", "2.28.9", "",
                                           "2.28.9-1+cuda12.9-xxxxx"};
    static const char *const names[] = {"dgx-h100", "p4d", "gb200", "pcie-box"};
    struct lw_cluster clusters[4];
    struct prng r = prng_start("kept shapes");

    for (int i = 0; i < 4; i++)
        clusters[i] = known(names[i]);
    for (int i = 0; i < 20000; i++) {
        struct lw_cluster *c = &clusters[prng_in(&r, 0, 3)];
        int32_t nodes = (int32_t)prng_in(&r, 1, 3), on = (int32_t)prng_in(&r, 2, 4);
        struct lw_cost_query q = {ops[prng_in(&r, 0, 4)], LW_F32,
                                  prng_in(&r, 0, 1 << 28), on * nodes, nodes,
                                  LW_REDUCER_NCCL};
        struct sim_nccl_comm comm, slow;
        struct sim_nccl_choice x;
        struct lw_cost_answer a;
        c->library_version = versions[prng_in(&r, 0, 4)];
        if (lw_cluster_link(c, LW_LINK_INTER))
            c->links[1].bytes_per_s.value = prng_in(&r, 0, 1) ? 25e9 : 50e9;
        c->nccl.amd_host = (struct lw_figure){(double)prng_in(&r, 0, 1), "test"};
        enum lw_status status = sim_nccl_comm_of(c, &q, &comm, NULL);
        assert_int_equal(lw_sim_cost_explain(c, &q, &a, NULL), status);
        if (status != LW_OK)
            continue;
        assert_true(sim_nccl_choose(&comm, q.op, q.bytes, SIM_NCCL_ALL_PAIRS, &x));
        slow = comm;
        if (comm.inter_gbs > 0)
            sim_nccl_slow_down(&slow.graphs, comm.inter_gbs);
        assert_true(sim_nccl_cell_of(&slow, q.op, x.algorithm, x.protocol, &x.cell));
        double us = sim_nccl_time_us(&slow, q.op, x.algorithm, x.protocol, &x.cell, q.bytes,
                                     &x.latency_us);
        assert_int_equal(a.time, (lw_ps)(us * 1e6 + .5));
        assert_string_equal(a.algorithm, sim_nccl_algorithm_name(x.algorithm));
        assert_string_equal(a.source, comm.version->source);
    }
    for (int i = 0; i < 4; i++)
        lw_cluster_free(&clusters[i]);
}

/* Tree with LL takes longer than 106 days for them. */
TEST(a_time_beyond_all_times_is_the_longest)
{
    struct lw_cluster c = known("dgx-h100");

    assert_true(ask(&c, LW_OP_ALL_REDUCE, INT64_C(9000000000000000000), 8, 1,
                    TREE_LL).time == INT64_MAX);
    lw_cluster_free(&c);
}

TEST_WITH(times_of_nccl_have_the_interval_of_measured_fabrics, fixture_open, fixture_close)
{
    EXPECT("cost -c dgx-h100 --bytes 1MiB --ranks", {"16", 0, "measured fabrics of several nodes"},
           {"8 --format json", 0, "\"n_fabrics\": "}, {"8 --algorithm ring --format json", 0, "["});
    const char *out = lapwingf("cost -c dgx-h100 --bytes 1MiB --ranks 8 --algorithm nccl+cal "
                               "--format json");
    double p10 = number_after(out, "\"p10_ns\": "), p90 = number_after(out, "\"p90_ns\": ");
    double time = number_after(out, "\"time_ns\": ");
    assert_true(p10 < time && time < p90);
    assert_true(p10 * p90 / time / time > 0.999 && p10 * p90 / time / time < 1.001);
    has_not(lapwingf("cost -c host --bytes 1MiB --format json"), "p10_ns");
}

static lw_ps tokens(const struct lw_cluster *c, int64_t bytes, int32_t n_ranks, int32_t n_nodes,
                    int32_t copies)
{
    const struct lw_cost_query q = {.op = LW_OP_ALL_TO_ALL,
                                    .dtype = LW_BF16,
                                    .bytes = bytes,
                                    .n_ranks = n_ranks,
                                    .n_nodes = n_nodes,
                                    .algorithm = LW_REDUCER_NCCL,
                                    .once.copies = copies};
    struct lw_cost_answer a;
    struct lw_err err = {0};

    assert_ok(lw_sim_cost_explain(c, &q, &a, &err), err);
    return a.time - a.latency;
}

/* 8 experts of a token at random: 2 (1 - 1/256) / 8 = 0.249 of its copies are the first to one of
 * two nodes, 8 (1 - (7/8)^8) / 8 = 0.656 to one of eight ranks. DeepEP on two nodes of H100,
 * combine of 4,096 tokens of 7,168 bf16 (kernel-tables/deepep_normal.csv, topk 8): 2.10 ms, here
 * 1.22; of 4 nodes and 2,048 tokens 1.83 ms, here 1.65. Every copy sent takes 4.89 ms on two
 * nodes. */
TEST(copies_of_a_token_travel_once)
{
    const int64_t bytes = 4096LL * 8 * 7168 * 2;
    struct lw_cluster c = known("dgx-h100");

    double one = (double)tokens(&c, bytes, 8, 1, 8) / (double)tokens(&c, bytes, 8, 1, 0);
    assert_true(fabs(one - 0.6564) < 1e-3);
    double two = (double)tokens(&c, bytes, 16, 2, 8), all = (double)tokens(&c, bytes, 16, 2, 0);
    double four = (double)tokens(&c, bytes / 2, 32, 4, 8);
    print_message("two nodes %.3f ms of 2.10, all copies %.3f; four %.3f ms of 1.83\n", two * 1e-9,
                  all * 1e-9, four * 1e-9);
    assert_true(two < 0.35 * all);
    assert_true(two * 1e-9 > 1.0 && two * 1e-9 < 2.10);
    assert_true(fabs(four * 1e-9 / 1.83 - 1) < 0.2);
    lw_cluster_free(&c);
}
