/* NCCL's model where a measured table ends, and tables laid onto a cluster. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/files/files.h"
#include "sim/cost/cost_scaled.h"
#include "tests/lib/command_fixture.h"
#include "tests/lib/file_fixture.h"

static const int64_t bytes[] = {1 << 20, 32 << 20};
static lw_ps times[2];
static struct lw_cost_table table = {.op = LW_OP_ALL_REDUCE,
                                     .dtype = LW_F32,
                                     .n_ranks = 8,
                                     .n_nodes = 1,
                                     .n_in_flight = 1,
                                     .n_rows = 2,
                                     .bytes = bytes,
                                     .time_ps = times,
                                     .source = "measured here"};

static struct lw_cost_answer ask(const struct lw_cluster *c, int64_t size, int32_t ranks,
                                 int32_t nodes, enum lw_reducer_kind k)
{
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, size, ranks, nodes, k};
    struct lw_cost_answer a = {0};

    assert_int_equal(lw_sim_cost_explain(c, &q, &a, NULL), LW_OK);
    return a;
}

/* dgx-h100 with a table of two rows: 1 MiB takes twice the model, 32 MiB three times. */
static struct lw_cluster with_table(void)
{
    struct lw_cluster c = {0};

    assert_int_equal(lw_cluster_find("dgx-h100", &c, NULL), LW_OK);
    times[0] = 2 * ask(&c, bytes[0], 8, 1, LW_REDUCER_NCCL).time;
    times[1] = 3 * ask(&c, bytes[1], 8, 1, LW_REDUCER_NCCL).time;
    c.tables = &table;
    c.n_tables = 1;
    return c;
}

TEST(below_and_beyond_its_sizes_the_model_goes_on)
{
    struct lw_cluster c = with_table();
    struct lw_cost_answer low = ask(&c, 1024, 8, 1, LW_REDUCER_AUTO);
    struct lw_cost_answer high = ask(&c, 1 << 30, 8, 1, LW_REDUCER_AUTO);

    assert_string_equal(low.model, "table+nccl");
    assert_non_null(strstr(low.detail, "below its sizes"));
    assert_string_equal(low.source, "measured here");
    assert_int_equal(low.time, 2 * ask(&c, 1024, 8, 1, LW_REDUCER_NCCL).time);
    assert_non_null(strstr(high.detail, "beyond its sizes"));
    assert_int_equal(high.time, 3 * ask(&c, 1 << 30, 8, 1, LW_REDUCER_NCCL).time);
    assert_string_equal(ask(&c, bytes[0], 8, 1, LW_REDUCER_AUTO).model, "table");
    assert_string_equal(ask(&c, 2 << 20, 8, 1, LW_REDUCER_AUTO).model, "table");
    lw_cluster_free(&c);
}

TEST(other_ranks_of_the_same_place_are_scaled)
{
    struct lw_cluster c = with_table();
    struct lw_cost_answer four = ask(&c, bytes[0], 4, 1, LW_REDUCER_AUTO);

    assert_non_null(strstr(four.detail, "other ranks"));
    assert_int_equal(four.time, 2 * ask(&c, bytes[0], 4, 1, LW_REDUCER_NCCL).time);
    assert_string_equal(ask(&c, bytes[0], 16, 2, LW_REDUCER_AUTO).model, "nccl"); /* a network */
    lw_cluster_free(&c);
}

TEST(nearest_table_in_ranks_counts)
{
    struct lw_cluster c = with_table();
    lw_ps slow[2] = {10 * times[0], 10 * times[1]};
    struct lw_cost_table two[2] = {table, table};

    two[1].n_ranks = 4;
    two[1].time_ps = slow;
    c.tables = two;
    c.n_tables = 2;
    lw_ps model4 = ask(&c, bytes[0], 4, 1, LW_REDUCER_NCCL).time;
    double factor = 10 * (double)times[0] / (double)model4;
    lw_ps model3 = ask(&c, bytes[0], 3, 1, LW_REDUCER_NCCL).time;
    assert_true(
        fabs((double)ask(&c, bytes[0], 3, 1, LW_REDUCER_AUTO).time - factor * (double)model3) < 2);
    lw_cluster_free(&c);
}

/* Of a network its extent counts before the ranks: 16 ranks on 16 nodes are like 128 on 16. */
TEST(of_several_nodes_the_nearest_in_nodes_counts)
{
    struct lw_cluster c = with_table();
    lw_ps slow[2] = {10 * times[0], 10 * times[1]};
    struct lw_cost_table two[2] = {table, table};

    two[0].n_ranks = 16;
    two[0].n_nodes = 2;
    two[1].n_ranks = 128;
    two[1].n_nodes = 16;
    two[1].time_ps = slow;
    c.tables = two;
    c.n_tables = 2;
    double factor = 10 * (double)times[0] /
                    (double)ask(&c, bytes[0], 128, 16, LW_REDUCER_NCCL).time;
    double model = (double)ask(&c, bytes[0], 16, 16, LW_REDUCER_NCCL).time;
    double found = (double)ask(&c, bytes[0], 16, 16, LW_REDUCER_AUTO).time;
    assert_true(fabs(found - factor * model) < 2);
    lw_cluster_free(&c);
}

TEST(doubt_is_the_ratio_at_the_largest_size)
{
    struct lw_cluster c = with_table();
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 8, 8, 1, LW_REDUCER_AUTO};
    int64_t at;

    assert_true(fabs(sim_table_over_model(&c, &q, &at) - 3) < 1e-6);
    assert_int_equal(at, bytes[1]);
    q.n_ranks = 4;
    assert_true(sim_table_over_model(&c, &q, &at) == 0);
    lw_cluster_free(&c);
}

#define CSV "op,nranks,nnodes,gpu,size_bytes,time_us\n"

TEST_WITH(tables_are_laid_onto_a_cluster, fixture_open, fixture_close)
{
    fixture_put(fixture_path("t.csv"), CSV "all_reduce,8,1,NVIDIA H100 80GB HBM3,1048576,56.028\n"
                                           "all_reduce,8,1,NVIDIA H100 80GB HBM3,2097152,60\n");
    expect("import t.csv --cluster-out c.json --onto dgx-h100", 0, "c.json: dgx-h100");
    expect("cost -c c.json --ranks 8 --bytes 1MiB", 0, "measured");
    expect("cost -c c.json --ranks 8 --bytes 4KiB", 0, "30.101 us"); /* 2 x 15.051 */
    expect("cost -c c.json --ranks 16 --bytes 1MiB", 0, "nccl ");
    expect("import t.csv --cluster-out d.json --onto dgx-a100", 1,
           "measured on 'NVIDIA H100 80GB HBM3', the cluster has 'A100-SXM4-80GB'");
    expect("import t.csv --cluster-out d.json --onto pcie-box", 1,
           "the tables have 8 ranks on a node");
    expect("import t.csv -o w.json --onto dgx-h100", 2, "--onto goes with --cluster-out");
}

/* 28.014 us by the model against 35.018: 20 % too fast. */
TEST_WITH(measured_rows_stand_beside_the_model, fixture_open, fixture_close)
{
    fixture_put(fixture_path("t.csv"), CSV "all_reduce,8,1,H100,1048576,35.018\n");
    expect("cost -c dgx-h100 --measured t.csv", 0, "28.014 us  35.018 us  -20.0 %  nccl");
    expect("cost -c dgx-h100 --measured t.csv", 0, "1 row on 'dgx-h100': mean error 20.0 %");
    expect("cost -c dgx-h100 --measured t.csv --format json", 0, "\"mean_abs_error_pct\": 20.0");
    expect("cost -c dgx-h100 --measured t.csv --format csv", 0,
           "all_reduce,8,1,1048576,28014,35018,-20.0");
    expect("cost -c dgx-h100 --measured t.csv --algorithm nccl:tree/ll128", 0, "45.069 us");
    fixture_put(fixture_path("no.csv"), "a,b\n1,2\n");
    expect("cost -c dgx-h100 --measured no.csv", 1,
           "--measured no.csv: expected the output of nccl-tests");
}
