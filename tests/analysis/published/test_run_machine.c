/* Clusters of published runs: shared/cluster's, with what a row states of its network. */
#include <string.h>

#include "tests/lib/unit.h"

#include "analysis/published/run_figures.h"
#include "analysis/published/run_machine.h"
#include "shared/cluster/cluster.h"

static struct lw_run row_of(const char *gpu, const char *network)
{
    return (struct lw_run){.framework = "", .state = "", .gpu = gpu, .network = network,
                           .gpus = 16};
}

/* Bytes a second of a node's ports together. */
static double of_node(const char *gpu, const char *network)
{
    struct lw_run r = row_of(gpu, network);
    struct lw_cluster c;
    struct lw_err err;
    double all = 0;

    assert_ok(lw_run_machine(&r, &c, &err), err);
    for (int32_t i = 0; i < c.n_links; i++)
        if (c.links[i].level == LW_LINK_INTER)
            all += c.links[i].bytes_per_s.value * c.links[i].n_links.value;
    lw_cluster_free(&c);
    return all;
}

TEST(a_rate_that_is_not_finite_is_refused)
{
    static const char *const networks[] = {"inf Gb/s per node", "nan Gb/s per node",
                                           "0 Gb/s per node"};
    struct lw_cluster c;
    struct lw_err err;

    for (int k = 0; k < 3; k++) {
        struct lw_run r = row_of("A100-80GB", networks[k]);
        assert_int_equal(lw_run_machine(&r, &c, &err), LW_EINVAL);
        assert_non_null(strstr(err.msg, networks[k]));
    }
}

TEST(a_stated_rate_has_the_row_as_its_source)
{
    struct lw_run r = row_of("A100-80GB", "400 Gb/s per node");
    struct lw_cluster c;
    struct lw_err err;

    assert_ok(lw_run_machine(&r, &c, &err), err);
    assert_non_null(strstr(lw_cluster_link(&c, LW_LINK_INTER)->bytes_per_s.source, "row"));
    lw_cluster_free(&c);
}

TEST(a_row_states_the_rate_of_a_nodes_ports)
{
    static const struct {
        const char *gpu, *network;
        double bytes_per_s;
    } cases[] = {
        {"A100-80GB", "400 Gb/s per node", 50e9},
        {"A100-80GB", "1600 Gb/s per node RoCE", 200e9},
        {"H100-80GB", "800 Gb/s per node", 100e9},
        {"H100-80GB", "", 400e9},
        {"A100-80GB", "8x HDR InfiniBand 200 Gb/s per node", 200e9}, /* of each port */
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double found = of_node(cases[k].gpu, cases[k].network);
        if (found < cases[k].bytes_per_s * 0.999 || found > cases[k].bytes_per_s * 1.001)
            fail_msg("%s, '%s': %g", cases[k].gpu, cases[k].network, found);
    }
}

/* The nodes' ports report 12.5 GB/s. An all-reduce reached 40.5 of a node's 400 Gb/s before the
 * repair (all_reduce_bench-a100-n4). */
TEST(ports_that_reach_less_still_report_their_line_rate)
{
    struct lw_run r = row_of("A100-SXM4-80GB", "4x Omni-Path links per node");
    struct lw_cluster c;
    struct lw_err err;

    r.state = "before PCIe/NUMA fix of 02-25";
    assert_ok(lw_run_machine(&r, &c, &err), err);
    double node = 4 * lw_cluster_link(&c, LW_LINK_INTER)->bytes_per_s.value * 8 / 1e9;
    assert_true(node > 40.3 && node < 40.5);
    assert_true(c.nccl.adapter_bytes_per_s.value == 12.5e9);
    assert_int_equal(lw_run_figure_of(&r, LW_RUN_NETWORK)->n_rows, 0); /* not fitted */
    r.state = "after PCIe/NUMA fix of 02-25";
    assert_true(lw_run_figure_of(&r, LW_RUN_NETWORK)->n_rows > 0);
    lw_cluster_free(&c);
    r = row_of("A100-SXM4-80GB", "800 Gb/s");
    assert_ok(lw_run_machine(&r, &c, &err), err);
    assert_false(lw_figure_is_set(c.nccl.adapter_bytes_per_s));
    lw_cluster_free(&c);
}
