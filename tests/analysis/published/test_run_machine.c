/* Clusters of published runs: known systems, with what a row states of its network. */
#include <string.h>

#include "tests/lib/unit.h"

#include "analysis/published/run_machine.h"
#include "shared/cluster/cluster.h"
#include "shared/files/files.h"

static struct lw_run row_of(const char *gpu, const char *network)
{
    return (struct lw_run){.framework = "", .state = "", .gpu = gpu, .network = network,
                           .gpus = 16};
}

TEST(a_row_states_the_rate_of_a_nodes_ports)
{
    static const struct {
        const char *network;
        double gbps;
    } cases[] = {
        {"400 Gb/s per node", 400},
        {"1600 Gb/s per node RoCE", 1600},
        {"", 0},
        {"8x HDR InfiniBand 200 Gb/s per node", 0}, /* of each port */
        {"400 Gb/s per GPU", 0},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_run r = row_of("A100-80GB", cases[k].network);
        assert_true(lw_run_node_gbps(&r) == cases[k].gbps);
    }
}

TEST(the_first_cluster_whose_words_a_row_has)
{
    struct lw_run r = row_of("A100-SXM4-80GB", "4x Omni-Path links per node");

    assert_string_equal(lw_run_cluster(&r), "jean-zay-a100");
    r.state = "before PCIe/NUMA fix of 02-25";
    assert_string_equal(lw_run_cluster(&r), "jean-zay-slow");
    r = row_of("GH200-96GB", "");
    assert_string_equal(lw_run_cluster(&r), "dgx-h200");
    r = row_of("TPU v5e", "");
    assert_null(lw_run_cluster(&r));
}

/* The nodes' ports report 12.5 GB/s. An all-reduce reached 40.5 of a node's 400 Gb/s before the
 * repair (all_reduce_bench-a100-n4). */
TEST(ports_that_reach_less_still_report_their_line_rate)
{
    struct lw_cluster c;
    struct lw_err err;

    assert_ok(lw_cluster_find("jean-zay-slow", &c, &err), err);
    double node = 4 * lw_cluster_link(&c, LW_LINK_INTER)->bytes_per_s.value * 8 / 1e9;
    assert_true(node > 40.3 && node < 40.5);
    assert_true(c.nccl.adapter_bytes_per_s.value == 12.5e9);
    lw_cluster_free(&c);
}
