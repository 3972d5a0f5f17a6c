/* NCCL's model where a measured table ends, and tables laid onto a cluster. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/cluster/measured.h"
#include "shared/files/files.h"
#include "sim/cost/cost_scaled.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/sim/cost_help.h"

static const enum lw_op_kind AR = LW_OP_ALL_REDUCE;

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

/* Of the cluster without its tables. */
static lw_ps by_model(const struct lw_cluster *c, int64_t size, int32_t ranks, int32_t nodes)
{
    struct lw_cluster bare = *c;

    bare.n_tables = 0;
    return ask(&bare, AR, size, ranks, nodes, LW_REDUCER_AUTO).time;
}

/* What auto says; time -1: any. */
static void expect_auto(const struct lw_cluster *c, int64_t size, int32_t ranks, int32_t nodes,
                        lw_ps time, const char *model, const char *detail)
{
    struct lw_cost_answer a = ask(c, AR, size, ranks, nodes, LW_REDUCER_AUTO);

    assert_string_equal(a.model, model);
    has(a.detail, detail);
    if (time >= 0)
        assert_int_equal(a.time, time);
}

/* dgx-h100 with a table of two rows: 1 MiB takes twice the model, 32 MiB three times. */
static struct lw_cluster with_table(void)
{
    struct lw_cluster c = known("dgx-h100");

    times[0] = 2 * by_model(&c, bytes[0], 8, 1);
    times[1] = 3 * by_model(&c, bytes[1], 8, 1);
    c.tables = &table;
    c.n_tables = 1;
    return c;
}

TEST(outside_its_sizes_and_ranks_the_model_goes_on)
{
    struct lw_cluster c = with_table();

    expect_auto(&c, 1024, 8, 1, 2 * by_model(&c, 1024, 8, 1), "table+nccl", "below its sizes");
    assert_string_equal(ask(&c, AR, 1024, 8, 1, LW_REDUCER_AUTO).source, "measured here");
    expect_auto(&c, 1 << 30, 8, 1, 3 * by_model(&c, 1 << 30, 8, 1), "table+nccl",
                "beyond its sizes");
    expect_auto(&c, bytes[0], 8, 1, times[0], "table", "");
    expect_auto(&c, 2 << 20, 8, 1, -1, "table", "");
    expect_auto(&c, bytes[0], 4, 1, 2 * by_model(&c, bytes[0], 4, 1), "table+nccl", "other ranks");
    expect_auto(&c, bytes[0], 16, 2, -1, "nccl+cal", ""); /* a network */
    lw_cluster_free(&c);
}

/* The tables of two groups, the second ten times as slow, and the ranks and nodes asked for. Of
 * one node the nearest in ranks counts; of a network its extent counts before the ranks: 16 ranks
 * on 16 nodes are like 128 on 16. */
TEST(nearest_table_in_nodes_and_then_in_ranks_counts)
{
    static const int32_t cases[][6] = {{8, 1, 4, 1, 3, 1}, {16, 2, 128, 16, 16, 16}};

    for (int i = 0; i < 2; i++) {
        const int32_t *k = cases[i];
        struct lw_cluster c = with_table();
        lw_ps slow[2] = {10 * times[0], 10 * times[1]};
        struct lw_cost_table two[2] = {table, table};
        for (int t = 0; t < 2; t++) {
            two[t].n_ranks = k[2 * t];
            two[t].n_nodes = k[2 * t + 1];
        }
        two[1].time_ps = slow;
        c.tables = two;
        c.n_tables = 2;
        double factor = 10 * (double)times[0] / (double)by_model(&c, bytes[0], k[2], k[3]);
        double model = (double)by_model(&c, bytes[0], k[4], k[5]);
        double found = (double)ask(&c, AR, bytes[0], k[4], k[5], LW_REDUCER_AUTO).time;
        assert_true(fabs(found - factor * model) < 2);
        lw_cluster_free(&c);
    }
}

TEST(doubt_is_the_ratio_at_the_largest_size)
{
    struct lw_cluster c = with_table();
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 8, 8, 1, LW_REDUCER_AUTO};
    double ratio;
    int64_t at;

    assert_true(sim_table_is_doubtful(&c, &q, &ratio, &at));
    assert_true(fabs(ratio - 3) < 1e-6);
    assert_int_equal(at, bytes[1]);
    q.n_ranks = 4;
    assert_false(sim_table_is_doubtful(&c, &q, &ratio, &at));
    assert_true(sim_ratio_is_doubtful(1.6, false) && sim_ratio_is_doubtful(.6, false));
    assert_false(sim_ratio_is_doubtful(1.6, true) || sim_ratio_is_doubtful(.6, true));
    lw_cluster_free(&c);
}

static const int64_t decimal[] = {1000000, 100000000};

/* Tables of these rows and no links. */
static struct lw_cluster alone(struct lw_cost_table *t, int n, const lw_ps *rows,
                               const char *library)
{
    for (int i = 0; i < n; i++)
        t[i] = table;
    t->bytes = decimal;
    t->time_ps = rows;
    return (struct lw_cluster){.name = "alone",
                               .library = library,
                               .library_version = "",
                               .devices_per_node = 8,
                               .tables = t,
                               .n_tables = n};
}

/* Tables alone: 21 us at 1 MB, 200 us at 100 MB: 500 GB/s, and 19 us at no bytes. */
TEST(tables_alone_scale_by_their_own_rows)
{
    static const lw_ps rows[] = {21000000, 200000000};
    struct lw_cost_table t;
    struct lw_cluster c = alone(&t, 1, rows, "nccl");
    struct lw_cost_answer a;

    expect_auto(&c, 1000, 8, 1, 19002000, "table+fit", "");
    expect_auto(&c, 1000000, 8, 1, 21000000, "table", "");
    /* 4 rounds instead of 3, 15/16 of the buffer instead of 7/8: 19 x 4/3 + 2 x 15/14 us */
    expect_auto(&c, 1000000, 16, 1, 27476190, "table+fit", "other ranks");
    t.op = LW_OP_ALL_GATHER; /* n - 1 steps: 19 x 15/7 + 2 x 15/14 us */
    struct lw_cost_query q = {LW_OP_ALL_GATHER, LW_F32, 1000000, 16, 1, LW_REDUCER_AUTO};
    assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_OK);
    assert_int_equal(a.time, 42857143);
    q.n_nodes = 2; /* a network */
    assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_ENOTSUP);
}

/* 1 us at 1 MB and 200 us at 100 MB leave no latency: in proportion to the smallest row, so that no
 * smaller size takes longer than it. 2 us a MB of the largest row would give 1 us at 0.5 MB. */
TEST(below_a_table_without_a_latency_time_is_in_proportion_to_its_smallest_row)
{
    static const lw_ps rows[] = {1000000, 200000000};
    struct lw_cost_table t;
    struct lw_cluster c = alone(&t, 1, rows, "nccl");
    lw_ps before = 0;

    assert_int_equal(ask(&c, AR, 500000, 8, 1, LW_REDUCER_AUTO).time, 500000);
    for (int64_t size = 1000; size < 200000000; size += size / 7) {
        lw_ps time = ask(&c, AR, size, 8, 1, LW_REDUCER_AUTO).time;
        assert_true(time >= before);
        before = time;
    }
}

/* Alone 1 MB takes 4 us, so that 100 MB would take 400 us; beside another they take 200 us, and
 * alone no more. At 2 MB the table of two at once is slower than 8 us, at its 1.5 MB faster than
 * what was measured alone at 1 MB. */
TEST(beyond_the_rows_alone_those_of_two_at_once_are_a_limit)
{
    static const int64_t two_bytes[] = {1500000, 2000000, 100000000};
    static const lw_ps one[] = {4000000}, beside[] = {3000000, 9000000, 200000000};
    struct lw_cost_table t[2];
    struct lw_cluster c = alone(t, 2, one, "gloo");

    t[0].n_rows = 1;
    t[1].n_in_flight = 2;
    t[1].n_rows = 3;
    t[1].bytes = two_bytes;
    t[1].time_ps = beside;
    expect_auto(&c, 100000000, 8, 1, 200000000, "table", "two at once");
    expect_auto(&c, 2000000, 8, 1, 8000000, "table", "");
    expect_auto(&c, 1500000, 8, 1, 4000000, "table", "");
    expect_auto(&c, 1000000, 8, 1, 4000000, "table", "");
}

/* A table three times as fast as the model: on 4 ranks, or beyond its sizes, the links' 370.8 GB/s
 * stay the ceiling. */
TEST(no_scaled_answer_is_faster_than_the_links)
{
    struct lw_cluster c = with_table();

    times[1] = times[1] / 9;
    expect_auto(&c, 1 << 30, 8, 1, lw_transfer_ps(1 << 30, 370.8e9), "table+nccl", "links' peak");
    for (int64_t size = 8; size < INT64_C(1) << 34; size *= 2)
        for (int32_t n = 2; n <= 8; n++)
            if (n < 8 || size < bytes[0] || size > bytes[1])
                assert_true(ask(&c, AR, size, n, 1, LW_REDUCER_AUTO).time >=
                            lw_transfer_ps(size, 370.8e9));
    lw_cluster_free(&c);
}

/* A measured table t.csv of these rows. */
static void put_table(const char *rows)
{
    char text[256];

    snprintf(text, sizeof text, "op,nranks,nnodes,gpu,size_bytes,time_us\n%s", rows);
    fixture_put(fixture_path("t.csv"), text);
}

TEST_WITH(tables_are_laid_onto_a_cluster, fixture_open, fixture_close)
{
    put_table("all_reduce,8,1,NVIDIA H100 80GB HBM3,1048576,56.451\n"
              "all_reduce,8,1,NVIDIA H100 80GB HBM3,2097152,60\n");
    expect("import t.csv --cluster-out c.json --onto dgx-h100", 0, "c.json: dgx-h100");
    EXPECT(
        "cost -c c.json --ranks", {"8 --bytes 1MiB", 0, "measured"},
        {"8 --bytes 4KiB",
         0,
         "31.983 us", /* 2 x 15.991 */
         {"scaled by NCCL's model, constants of NVIDIA/nccl v2.30.7-1"}},
        {"8 --bytes 4KiB --format json", 0, "\"constants\": \"constants of NVIDIA/nccl v2.30.7-1"},
        {"16 --bytes 1MiB", 0, "nccl "});
    EXPECT("import t.csv --cluster-out d.json --onto",
           {"dgx-a100", 1, "measured on 'NVIDIA H100 80GB HBM3', the cluster has 'A100-SXM4-80GB'"},
           {"pcie-box", 1, "the tables have 8 ranks on a node"});
    put_table("all_reduce,2,1,NVIDIA H100 PCIe,1048576,90\n");
    expect("import t.csv --cluster-out d.json --onto dgx-h100", 1,
           "measured on 'NVIDIA H100 PCIe', the cluster has 'H100-SXM5-80GB'");
    expect("cost -c dgx-h100 --measured t.csv", 0, "note: all_reduce was measured on 'NVIDIA H100");
    put_table("all_reduce,8,1,H100,1073741824,2000\n");
    expect("import t.csv --cluster-out d.json --onto dgx-h100", 1,
           "all_reduce on 8 ranks of 1 node reaches 536.9 GB/s, the cluster's links carry 370.8");
    put_table("all_reduce,16,2,H100,8,70\n"
              "all_reduce,16,2,H100,1073741824,9000\n");
    expect("import t.csv --cluster-out d.json --onto dgx-h100", 0,
           "times NCCL's model on 'dgx-h100' at 1.00 GiB: was it measured on this fabric?");
    EXPECT("cost --measured t.csv -c", {"dgx-h100", 0, "takes 1.9 times the model at 1.00 GiB"},
           {"dgx-a100", 0,
            "note: all_reduce was measured on 'H100', 'dgx-a100' has 'A100-SXM4-80GB'"});
    expect("import t.csv -o w.json --onto dgx-h100", 2, "--onto needs --cluster-out");
}

/* 18 trays of 4 are one rack: at 400 GB/s no network of theirs is that fast. 8 ranks on 2 trays at
 * a rate that a network has are on two racks. */
TEST_WITH(trays_of_a_rack_are_one_node, fixture_open, fixture_close)
{
    static const struct {
        const char *row, *cluster, *args, *time;
    } cases[] = {
        {"all_reduce,72,18,GB200,8589934592,20299\n", "gb200", "--ranks 72 --nodes 1", "20.299 ms"},
        {"all_reduce,128,32,GB200,8589934592,21493\n", "gb200", "--ranks 128 --nodes 2", ""},
        {"all_gather,8,2,GB300,8589934592,21012\n", "gb300", "--op all_gather --ranks 8 --nodes 2",
         ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_table(cases[i].row);
        lapwingf("import t.csv --cluster-out c.json --onto %s --force", cases[i].cluster);
        const char *out = lapwingf("cost -c c.json --bytes 8GiB %s", cases[i].args);
        has(out, "measured");
        has(out, cases[i].time);
    }
}

/* Hosts of one domain that are asked for as nodes. */
TEST_WITH(hosts_of_a_domain_are_said_not_to_be_nodes, fixture_open, fixture_close)
{
    EXPECT("cost -c gb200 --bytes 1GiB",
           {"--ranks 72 --nodes 18", 0,
            "NVLink domain of 72 devices: these are 18 domains; --nodes 1 takes"},
           {"--ranks 144 --nodes 2", 0, .lacks = "note"});
}

static const char log_text[] =
    "h:1:1 [0] NCCL INFO Using network AWS Libfabric\n"
    "# Collective test starting: all_reduce_perf\n"
    "#  Rank  0 Group  0 Pid  10 on     alpha device  0 [0000:07:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid  11 on      beta device  0 [0000:0f:00] NVIDIA H100 80GB HBM3\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n"
    "     1048576        262144     float     sum      -1    95.00   11.04   11.04       0\n";

TEST_WITH(another_network_is_told, fixture_open, fixture_close)
{
    fixture_put(fixture_path("t.log"), log_text);
    expect("import t.log --cluster-out c.json --onto dgx-h100", 0,
           "note: the log's network is 'AWS Libfabric', that of 'dgx-h100' is 'NDR InfiniBand'");
    EXPECT("cost --measured t.log -c",
           {"dgx-h100", 0, "note: the log's network is 'AWS Libfabric'"},
           {"p5", 0, .lacks = "network"});
}

/* 28.014 us by the model against 35.018: 20 % too fast. */
TEST_WITH(measured_rows_stand_beside_the_model, fixture_open, fixture_close)
{
    put_table("all_reduce,8,1,H100,1048576,35.018\n");
    EXPECT("cost -c dgx-h100 --measured",
           {"t.csv --algorithm nccl",
            0,
            "28.014 us  35.018 us  -20.0 %  nccl",
            {"1 row on 'dgx-h100': mean error 20.0 %"}},
           {"t.csv --algorithm nccl --format json", 0, "\"mean_abs_error_pct\": 20.0"},
           {"t.csv --algorithm nccl --format csv", 0, "all_reduce,8,1,1048576,28014,35018,-20.0"},
           {"t.csv", 0, "  nccl+cal"}, {"t.csv --algorithm nccl:tree/ll128", 0, "45.069 us"},
           {"t.csv --algorithm nccl:collnet-direct", 1,
            "by nccl:collnet-direct on 8 ranks of 1 node here (CollNet needs nccl.collnet)"});
    put_table("broadcast,8,1,H100,1048576,35.018\n");
    expect("cost -c dgx-h100 --measured t.csv --algorithm nccl:tree", 0,
           "note: NCCL has no nccl:tree for broadcast: its own choice is shown");
    fixture_put(fixture_path("no.csv"), "a,b\n1,2\n");
    expect("cost -c dgx-h100 --measured no.csv", 1,
           "--measured no.csv: expected the output of nccl-tests");
}

TEST_WITH(options_may_not_contradict_a_measured_file, fixture_open, fixture_close)
{
    put_table("all_reduce,8,1,H100,1048576,35.018\n");
    fixture_put(fixture_path("t.log"), log_text);
    EXPECT("cost -c dgx-h100 --measured",
           {"t.csv --op all_gather", 1,
            "t.csv:2: --op all_gather: the file says all_reduce: leave --op out"},
           {"t.csv --ranks 16", 1, "--ranks 16: the file says 8"},
           {"t.csv --nodes 2", 1, "--nodes 2: the file says 1"},
           {"t.log --op all_gather", 1, "--op all_gather: the file says all_reduce"},
           {"t.csv --op all_reduce --ranks 8 --nodes 1", 0, "1 row on"},
           {"t.log --op all_reduce", 0, "1 row on"});
}

/* A table of one node does not apply to several; both the cost and the run say so. */
TEST_WITH(a_table_of_another_place_is_said_not_to_count, fixture_open, fixture_close)
{
    static const char remark[] = "no measured table applies to this group (all_reduce: 8 "
                                 "ranks of 1 node), modelled by nccl";

    put_table("all_reduce,8,1,H100,1048576,60\n"
              "all_reduce,8,1,H100,67108864,400\n");
    expect("import t.csv --onto dgx-h100 --cluster-out mine.json", 0, "");
    EXPECT("cost -c mine.json --bytes 1MiB --ranks",
           {"16 --nodes 2", 0, "no measured table applies"},
           {"16 --nodes 2 --format json", 0, remark}, {"8", 0, .lacks = "measured t"});
    expect("model gpt2 --device dgx-h100 -o w.json", 0, "");
    EXPECT("sim -w w.json -c mine.json --no-db --dp", {"16", 0, "no measured table applies"},
           {"16 --format json", 0, remark}, {"8", 0, .lacks = "measured t"});
}

/* What a run leaves out is said where its figures are. */
TEST_WITH(communicators_that_do_not_share_nvlinks_are_said_not_to, fixture_open, fixture_close)
{
    expect("model gpt2 --device dgx-h100 -o w.json", 0, "");
    EXPECT("sim -w w.json -c dgx-h100 --dp 4 --tp 2 --no-db",
           {"", 0, "not modelled: what communications lose to others on the same links",
            {"no such term; --interference published"}},
           {"--interference published", 0, "interference: fair_links = 1",
            .lacks = "not modelled: what"});
}

/* What NCCL takes of compute is on by itself, published figures and nothing on request. */
TEST_WITH(interference_is_of_channels_unless_another_is_asked_for, fixture_open, fixture_close)
{
    expect("model gpt2 --device dgx-h100 -o w.json", 0, "");
    expect("model gpt2 --device mi300x -o m.json", 0, "");
    EXPECT("sim -w w.json -c dgx-h100 --dp 8 --no-db",
           {"", 0, "interference: sms_per_channel = 1 (NVIDIA/nccl v2.30.7",
            {"a block takes an SM"}},
           {"--interference channels", 0, "interference: sms_per_channel = 1 (NVIDIA/nccl"},
           {"--interference off", 0, "not modelled: what slows down beside compute",
            .lacks = "sms_per_channel"},
           {"--interference published", 0, "interference: compute_rate_under_comm = 0.841"},
           {"--published-interference", 0, "interference: compute_rate_under_comm = 0.841"},
           {"--published-interference --interference off", 2, "give only one of them"},
           {"--interference none", 2, "expected one of channels, published, off"},
           {"--interference ''", 2, "the value is empty; expected channels|published|off"});
    expect("sim -w gpt2 --dp 8 --interference published", 2, "needs a cluster that has published");
    EXPECT("sim -w m.json -c mi300x --dp 8 --no-db",
           {"", 0, "not modelled: what slows down beside compute", .lacks = "interference:"},
           {"--interference published", 1, "--interference: cluster 'mi300x' has no published"});
}

/* A term without effect is not said to be one: the step is that without it, and the loss of compute
 * is among what is left out. Noise is no such loss. */
TEST_WITH(channels_that_no_collective_has_are_said_to_be_unused, fixture_open, fixture_close)
{
    static const struct {
        const char *options, *why;
    } cases[] = {
        {"-w gpt2 --dp 8 --collective-algorithm ring",
         "no collective has an algorithm of which channels"},
        {"-w gpt2 --dp 8 --detail chunk", "channels are not known at chunk detail"},
        {"-w gpt2 --dp 1", "the plan has no collective"},
        {"-w llama-3-8b --pp 2 --micro-batches 4", "the plan has no collective"},
    };
    char line[160], why[160];

    for (int i = 0; i < 4; i++) {
        double steps[2];
        for (int off = 0; off < 2; off++) {
            snprintf(line, sizeof line, "sim -c dgx-h100 --no-db --format json %s %s",
                     cases[i].options, off ? "--interference off" : "");
            steps[off] = number_after(lapwing(line, NULL), "\"step_ns\": ");
        }
        assert_true(steps[0] == steps[1]);
        snprintf(line, sizeof line, "sim -c dgx-h100 --no-db --noise 0.01 %s",
                 cases[i].options);
        snprintf(why, sizeof why, ", not used: %s", cases[i].why);
        const char *out = lapwing(line, NULL);
        has(out, why);
        has(out, "not modelled: what slows down beside compute, or beside others");
        has(out, "gives no other term; --interference published");
    }
    expect("sim -w gpt2 -c dgx-h100 --dp 8 --noise 0.01 --no-db", 0,
           "not modelled: what communications lose to others");
}

/* Times of a recording of several ranks hold what communication took. */
TEST_WITH(times_recorded_beside_communication_are_said_to_hold_it, fixture_open, fixture_close)
{
    static const char said[] = "lapwing: workload 'gpt2' was recorded on 8 ranks: its times hold";

    expect("model gpt2 --device dgx-h100 -o w.json", 0, "");
    expect("sim -w w.json -c dgx-h100 --dp 8 --no-db", 0, "");
    assert_null(strstr(shell_err(), "was recorded on"));
    shell("sed -i 's/\"kind\": \"workload\",/& \"recorded\": {\"world_size\": 8},/' w.json", NULL);
    expect("sim -w w.json -c dgx-h100 --dp 8 --no-db", 0, "");
    has(shell_err(), said);
    expect("sim -w w.json -c dgx-h100 --dp 8 --no-db --interference off", 0, "");
    assert_null(strstr(shell_err(), "was recorded on"));
}

/* A cluster whose library is nccl and that does not say which device it has. */
TEST_WITH(times_without_the_model_of_nccl_are_said_to_be, fixture_open, fixture_close)
{
    EXPECT("cost --bytes 1MiB -c",
           {"a100-pcie-8 --ranks 6 --nodes 2", 0,
            "NCCL's own choice is not modelled without nccl.compute_capability: alpha-beta"},
           {"a100-pcie-8 --ranks 6 --nodes 2 --format json", 0,
            "not modelled without nccl.compute_capability"},
           {"v100-ib --ranks 8", 0, "NVIDIA/nccl v2.30.7-1", .lacks = "not modelled"});
}

TEST_WITH(rccl_is_not_taken_for_nccl, fixture_open, fixture_close)
{
    expect("model gpt2 --device mi300x -o w.json", 0, "");
    expect("sim -w w.json -c mi300x --dp 8 --no-db", 0, "RCCL's own choice is not modelled");
    EXPECT("recommend w.json -c mi300x --dp 8", {"", 0, "RCCL's own choice is not modelled"},
           {"--format json", 0, "\"RCCL's own choice is not modelled"});
    EXPECT("cost -c mi300x --ranks 8 --bytes 1MiB",
           {"", 0, "RCCL's own choice is not modelled: alpha-beta times on the links of 'mi300x'"},
           {"--algorithm nccl", 1, "nccl.compute_capability"});
}
