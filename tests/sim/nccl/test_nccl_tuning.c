/* NCCL's cost model against what NCCL itself printed (a public tuning log of 2.29.7), public
 * measurements, and cells computed by hand from the constants. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "sim/nccl/nccl_tuning.h"

enum { AR = LW_OP_ALL_REDUCE, RS = LW_OP_REDUCE_SCATTER, AG = LW_OP_ALL_GATHER,
       BC = LW_OP_BROADCAST, RED = LW_OP_REDUCE };
enum { TREE = SIM_NCCL_TREE, RING = SIM_NCCL_RING, DIRECT = SIM_NCCL_COLLNET_DIRECT,
       CHAIN = SIM_NCCL_COLLNET_CHAIN, NVLS = SIM_NCCL_NVLS, NVLST = SIM_NCCL_NVLS_TREE,
       PAT = SIM_NCCL_PAT };
enum { LL, LL128, SIMPLE };

struct expected {
    int op, a, p;
    double latency_us, gbs; /* as printed: one digit after the point */
};

static const struct sim_nccl_version *version(const char *text)
{
    const struct sim_nccl_version *v = NULL;

    assert_int_equal(sim_nccl_version_of(text, &v, NULL), LW_OK);
    return v;
}

static void check_cells(const struct sim_nccl_comm *c, const struct expected *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sim_nccl_cell cell;
        assert_true(sim_nccl_cell_of(c, (enum lw_op_kind)e[i].op, (enum sim_nccl_algorithm)e[i].a,
                                     (enum sim_nccl_protocol)e[i].p, &cell));
        if (fabs(cell.latency_us - e[i].latency_us) > .0501 || fabs(cell.gbs - e[i].gbs) > .0501)
            fail_msg("cell %zu (%s %s/%s): %.3f us, %.3f GB/s; expected %.1f, %.1f", i,
                     lw_op_name((enum lw_op_kind)e[i].op),
                     sim_nccl_algorithm_name((enum sim_nccl_algorithm)e[i].a),
                     sim_nccl_protocol_name((enum sim_nccl_protocol)e[i].p), cell.latency_us,
                     cell.gbs, e[i].latency_us, e[i].gbs);
    }
}

static double best_us(const struct sim_nccl_comm *c, enum lw_op_kind op, int64_t bytes, int *a,
                      int *p)
{
    struct sim_nccl_choice x;

    assert_true(sim_nccl_choose(c, op, bytes, SIM_NCCL_ALL_PAIRS, &x));
    *a = x.algorithm;
    *p = x.protocol;
    return x.time_us;
}

/* Two nodes of one GPU over sockets, two channels of 1.2 GB/s. */
static struct sim_nccl_comm socket_pair(void)
{
    struct sim_nccl_comm c = {.version = version("2.29.7"),
                              .arch = SIM_NCCL_BLACKWELL,
                              .n_ranks = 2,
                              .n_nodes = 2,
                              .x86_host = true,
                              .post_us = 1};

    c.graphs.ring = (struct sim_nccl_graph){2, 1.2, 1.2};
    c.graphs.tree = (struct sim_nccl_graph){2, 2.4, 1.2};
    c.graphs.simple_tree = true;
    return c;
}

/* A public NCCL 2.29.7 tuning log: all 14 enabled cells of two ranks on two nodes, and the
 * latencies that it prints for the LL128 cells it disables. */
TEST(equals_a_tuning_log_of_the_library)
{
    static const struct expected log[] = {
        {AR, TREE, LL, 16.8, .5},  {AR, TREE, SIMPLE, 36.4, 1.9}, {AR, RING, LL, 16.6, 1.2},
        {AR, RING, SIMPLE, 36.4, 2.4}, {AG, RING, LL, 11.6, 2.4},  {AG, RING, SIMPLE, 22.4, 4.8},
        {AG, PAT, SIMPLE, 17.6, 3.6},  {RS, RING, LL, 11.6, 2.4},  {RS, RING, SIMPLE, 22.4, 4.8},
        {RS, PAT, SIMPLE, 17.6, 3.6},  {BC, RING, LL, 9.3, 1.2},   {BC, RING, SIMPLE, 22.4, 2.4},
        {RED, RING, LL, 9.3, 1.2},     {RED, RING, SIMPLE, 22.4, 2.4},
    };
    struct sim_nccl_comm c = socket_pair();
    struct sim_nccl_cell cell;

    check_cells(&c, log, sizeof log / sizeof *log);
    for (int op = 0; op < 2; op++)
        assert_false(sim_nccl_cell_of(&c, op ? (enum lw_op_kind)AG : (enum lw_op_kind)AR,
                                      SIM_NCCL_RING, SIM_NCCL_LL128, &cell));
    c.ll128 = true; /* the log prints latencies of disabled cells too */
    const struct { int op, a; double us;
    } off[] = {{AR, TREE, 31},   {AR, RING, 31}, {AG, RING, 22.5},
               {RS, RING, 22.5}, {BC, RING, 18}, {RED, RING, 18}};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        assert_true(sim_nccl_cell_of(&c, (enum lw_op_kind)off[i].op,
                                     (enum sim_nccl_algorithm)off[i].a, SIM_NCCL_LL128, &cell));
        assert_true(fabs(cell.latency_us - off[i].us) < .0501);
    }
}

/* The same log: the library sends a broadcast of 16 KiB by LL and one of 32 KiB by Simple. */
TEST(changes_protocol_where_the_library_does)
{
    struct sim_nccl_comm c = socket_pair();
    int a, p;

    assert_true(fabs(best_us(&c, (enum lw_op_kind)BC, 16384, &a, &p) - 22.95) < .005);
    assert_int_equal(p, LL);
    assert_true(fabs(best_us(&c, (enum lw_op_kind)BC, 32768, &a, &p) - 36.05) < .005);
    assert_int_equal(p, SIMPLE);
}

static struct sim_nccl_comm h100(int32_t nodes)
{
    struct sim_nccl_comm c = {.version = version("2.30"), .arch = SIM_NCCL_HOPPER,
                              .n_ranks = 8 * nodes, .n_nodes = nodes, .nvlink = true, .ll128 = true,
                              .x86_host = true, .post_us = 1};
    struct sim_nccl_node n = {.arch = SIM_NCCL_HOPPER, .n_ranks = 8, .n_nodes = nodes,
                              .device_gbs = 18 * 20.6, .n_adapters = 8, .adapter_gbs = 50,
                              .has_multicast = true, .version = c.version};

    sim_nccl_search(&n, &c.graphs);
    return c;
}

static void assert_graph(struct sim_nccl_graph g, int32_t n, double intra, double inter)
{
    assert_int_equal(g.n_channels, n);
    assert_float_equal(g.intra_gbs, intra, 1e-9);
    assert_float_equal(g.inter_gbs, inter, 1e-9);
}

/* NVIDIA/nccl issue 1197 (2.19.4): ring and tree 12 x 30, NVLS 8 heads at 40/60. A100: 12 x 20.
 * Eight NICs of 400 Gbit/s: 8 x 45, because 8 x 48 exceeds the 370.8 GB/s of a device. */
TEST(finds_the_graphs_of_known_nodes)
{
    struct sim_nccl_comm one = h100(1), four = h100(4);
    struct sim_nccl_node a100 = {.arch = SIM_NCCL_AMPERE,
                                 .version = one.version,
                                 .n_ranks = 8,
                                 .n_nodes = 1,
                                 .device_gbs = 240,
                                 .n_adapters = 8,
                                 .adapter_gbs = 25};
    struct sim_nccl_graphs g;

    assert_graph(one.graphs.ring, 12, 30, 30);
    assert_graph(one.graphs.tree, 12, 30, 30);
    assert_graph(one.graphs.nvls, 8, 40, 60);
    assert_graph(four.graphs.ring, 8, 45, 45);
    assert_graph(four.graphs.nvls, 8, 40, 45);
    sim_nccl_search(&a100, &g);
    assert_graph(g.ring, 12, 20, 20);
    assert_int_equal(g.nvls.n_channels, 0);
    a100.n_nodes = 2; /* one channel of 24 for each NIC of 25 GB/s */
    sim_nccl_search(&a100, &g);
    assert_graph(g.ring, 8, 24, 24);
}

/* What the library's own search and model (2.28.9, src/graph, run on an XML topology of 8 B200
 * with NVSwitch and a NIC of 400 Gbit/s each) give: docs/design/nccl.md, "Comparison with the
 * library". */
TEST(equals_the_librarys_search_for_b200)
{
    static const struct expected two[] = {
        {AR, TREE, LL, 25.2, 16.575},     {AR, TREE, LL128, 48.5, 107.678},
        {AR, TREE, SIMPLE, 92.4, 145.52}, {AR, RING, LL, 40.0, 20.8},
        {AR, RING, SIMPLE, 131.6, 204.8}, {AR, NVLST, SIMPLE, 66.8, 265.216}};
    static const struct expected one[] = {{AR, RING, LL, 15.0, 161.143},
                                          {AR, RING, SIMPLE, 56, 411.429},
                                          {AR, NVLS, SIMPLE, 25, 411.429}};
    struct sim_nccl_comm c = h100(1);
    struct sim_nccl_node n = {.arch = SIM_NCCL_BLACKWELL, .n_ranks = 8, .n_nodes = 1,
                              .device_gbs = 18 * 40.1, .n_adapters = 8, .adapter_gbs = 50,
                              .has_multicast = true, .version = c.version};

    c.arch = SIM_NCCL_BLACKWELL;
    sim_nccl_search(&n, &c.graphs);
    assert_graph(c.graphs.ring, 16, 45, 45);
    assert_graph(c.graphs.nvls, 8, 80, 90);
    check_cells(&c, one, sizeof one / sizeof *one);
    n.n_nodes = c.n_nodes = 2;
    c.n_ranks = 16;
    sim_nccl_search(&n, &c.graphs);
    assert_graph(c.graphs.ring, 8, 48, 48);
    assert_graph(c.graphs.tree, 8, 96, 48);
    assert_graph(c.graphs.nvls, 8, 48, 48);
    check_cells(&c, two, sizeof two / sizeof *two);
}

/* What src/graph/search.cc tries between Blackwell nodes changed in five versions, and 45 inside
 * them came in 2.29.2. Eight adapters of 86 GB/s run 8 channels of 86 with 2.30
 * (doubled), 16 of 42 before. A
 * Hopper device of 11 GB/s has a channel of that speed since 2.21. */
TEST(speeds_of_the_search_are_those_of_the_version)
{
    static const struct {
        const char *version;
        double first, second, sixth_inside;
    } cases[] = {{"2.25", 48, 45, 40},   {"2.27", 47.9, 45, 40},  {"2.27.5", 48, 45.1, 40},
                 {"2.27.6", 96, 48, 40}, {"2.28.9", 96, 48, 40}, {"2.29.2", 96, 48, 45},
                 {"2.29.7", 96, 80, 45}, {"2.30", 96, 86, 45}};
    struct sim_nccl_node n = {.arch = SIM_NCCL_BLACKWELL, .n_ranks = 8, .n_nodes = 4,
                              .device_gbs = 18 * 40.1, .n_adapters = 8, .adapter_gbs = 86};
    struct sim_nccl_graphs g;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sim_nccl_speeds *s = version(cases[i].version)->speeds;
        assert_float_equal(s->inter[2][0], cases[i].first, 0);
        assert_float_equal(s->inter[2][1], cases[i].second, 0);
        assert_float_equal(s->intra[2][5], cases[i].sixth_inside, 0);
        n.version = version(cases[i].version);
        sim_nccl_search(&n, &g);
        assert_int_equal(g.ring.n_channels, 16);
        assert_float_equal(g.ring.inter_gbs, cases[i].second == 86 ? 43 : 42, 0);
    }
    n = (struct sim_nccl_node){.arch = SIM_NCCL_HOPPER, .n_ranks = 2, .n_nodes = 1,
                               .device_gbs = 11, .version = version("2.20")};
    sim_nccl_search(&n, &g);
    assert_float_equal(g.ring.intra_gbs, 3, 0); /* three channels: 9 > 6 */
    n.version = version("2.21");
    sim_nccl_search(&n, &g);
    assert_float_equal(g.ring.intra_gbs, 11, 0);
}

TEST(pinned_cells_of_one_h100_node)
{
    static const struct expected cells[] = {
        {AR, TREE, LL, 15.2, 43.6},      {AR, TREE, LL128, 31.5, 128.8},
        {AR, TREE, SIMPLE, 64.4, 165.6}, {AR, RING, LL, 15.0, 80.6},
        {AR, RING, LL128, 40.6, 189.3},  {AR, RING, SIMPLE, 56.0, 205.7},
        {AR, NVLS, SIMPLE, 25.0, 272},   {AG, RING, LL, 10.8, 161.1},
        {AG, RING, LL128, 27.3, 378.5},  {AG, RING, SIMPLE, 32.2, 411.4},
        {AG, NVLS, SIMPLE, 25, 208.2},   {RS, RING, LL, 10.8, 161.1},
        {RS, RING, LL128, 27.3, 378.5},  {RS, RING, SIMPLE, 32.2, 411.4},
        {RS, NVLS, SIMPLE, 25, 208.2},   {BC, RING, LL, 7.2, 141},
        {BC, RING, LL128, 15.9, 331.2},  {BC, RING, SIMPLE, 11.8, 360},
    };
    struct sim_nccl_comm c = h100(1);
    int a, p;

    check_cells(&c, cells, sizeof cells / sizeof *cells);
    best_us(&c, (enum lw_op_kind)AR, 1 << 20, &a, &p);
    assert_int_equal(a * 3 + p, RING * 3 + LL);
    best_us(&c, (enum lw_op_kind)AR, 2 << 20, &a, &p);
    assert_int_equal(a, NVLS);
}

TEST(pinned_cells_of_one_a100_node)
{
    static const struct expected cells[] = {
        {AR, RING, LL, 15.0, 50.1}, {AR, RING, LL128, 40.6, 126.2}, {AR, RING, SIMPLE, 56.0, 137.1},
        {AR, TREE, LL, 15.2, 29.1}, {AR, TREE, LL128, 31.5, 85.9},  {AR, TREE, SIMPLE, 64.4, 110.4},
    };
    struct sim_nccl_comm c = h100(1);
    struct sim_nccl_node n = {.arch = SIM_NCCL_AMPERE, .version = c.version, .n_ranks = 8,
                              .n_nodes = 1, .device_gbs = 240};

    c.arch = SIM_NCCL_AMPERE;
    sim_nccl_search(&n, &c.graphs);
    check_cells(&c, cells, sizeof cells / sizeof *cells);
}

/* Best times in us, computed by hand from the constants of 2.30; 8 NICs at 45 GB/s, Intel host. */
TEST(pinned_times_over_nodes)
{
    enum { ANY = -1 };
    static const struct {
        int32_t nodes;
        int op;
        int64_t bytes;
        double us;
        int a, p;
    } cases[] = {
        {1, AR, 4096, 15.1, RING, LL},           {1, AR, 1 << 20, 28.0, RING, LL},
        {1, AR, 25 << 20, 121.4, NVLS, SIMPLE},  {1, AR, 1 << 30, 3972.6, NVLS, SIMPLE},
        {1, RS, 4096, 10.8, ANY, ANY},           {1, RS, 1 << 20, 17.3, ANY, ANY},
        {1, RS, 25 << 20, 95.9, ANY, ANY},       {1, RS, 1 << 30, 2642.0, ANY, ANY},
        {2, AR, 4096, 25.5, TREE, LL},           {2, AR, 1 << 20, 60.4, TREE, LL128},
        {2, AR, 25 << 20, 173.3, NVLST, SIMPLE}, {2, AR, 1 << 30, 4428.3, NVLST, SIMPLE},
        {4, AR, 4096, 35.8, TREE, LL},           {4, AR, 1 << 20, 80.6, ANY, ANY},
        {4, AR, 25 << 20, 249.7, ANY, ANY},      {4, AR, 1 << 30, 5887.4, ANY, ANY},
        {16, AR, 4096, 55.8, TREE, LL},          {16, AR, 1 << 20, 114.6, ANY, ANY},
        {16, AR, 25 << 20, 336.7, ANY, ANY},     {16, AR, 1 << 30, 6110.8, ANY, ANY},
        {16, RS, 4096, 159.3, ANY, ANY},         {16, RS, 1 << 20, 210.1, ANY, ANY},
        {16, RS, 25 << 20, 375.4, ANY, ANY},     {16, RS, 1 << 30, 3558.5, ANY, ANY},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sim_nccl_comm c = h100(cases[i].nodes);
        int a, p;
        double us = best_us(&c, (enum lw_op_kind)cases[i].op, cases[i].bytes, &a, &p);
        if (fabs(us - cases[i].us) > .0501)
            fail_msg("case %zu: %.3f us by %s/%s, expected %.1f", i, us,
                     sim_nccl_algorithm_name((enum sim_nccl_algorithm)a),
                     sim_nccl_protocol_name((enum sim_nccl_protocol)p), cases[i].us);
        if (cases[i].a != ANY)
            assert_int_equal(a * 3 + p, cases[i].a * 3 + cases[i].p);
    }
}

/* NVIDIA/nccl issue 1047: reduce-scatter by ring on 8 H100, 128 MiB to 8 GiB. */
TEST(measured_reduce_scatter_is_met)
{
    static const double us[] = {377.2, 709.7, 1377.8, 2689.3, 5295.9, 10505, 20754};
    static const double model[] = {358.4, 684.6, 1337.1, 2642.0, 5251.8, 10471, 20910};
    struct sim_nccl_comm c = h100(1);
    struct sim_nccl_cell cell;
    double latency;

    assert_true(sim_nccl_cell_of(&c, (enum lw_op_kind)RS, SIM_NCCL_RING, SIM_NCCL_SIMPLE, &cell));
    for (int i = 0; i < 7; i++) {
        double t = sim_nccl_time_us(&c, (enum lw_op_kind)RS, SIM_NCCL_RING, SIM_NCCL_SIMPLE, &cell,
                                    INT64_C(134217728) << i, &latency);
        assert_float_equal(latency, 32.2, 1e-9);
        assert_true(fabs(t - model[i]) < (i < 5 ? .06 : .6));
        assert_true(fabs(t / us[i] - 1) < .051);
    }
}

/* NVIDIA/nccl issue 1154: H800, 8 channels of 22 GB/s, pattern TREE: tree Simple 68.8.
 * nccl-tests issue 290: NVLS all-reduce at a bus bandwidth of 476 = 272 x 14/8. */
TEST(printed_bandwidths_of_issues)
{
    struct sim_nccl_comm c = h100(4), one = h100(1);
    struct sim_nccl_cell cell;

    c.graphs.tree = (struct sim_nccl_graph){8, 22, 22};
    c.graphs.simple_tree = true;
    assert_true(sim_nccl_cell_of(&c, (enum lw_op_kind)AR, SIM_NCCL_TREE, SIM_NCCL_SIMPLE, &cell));
    assert_float_equal(cell.gbs, 68.816, 1e-9);
    assert_true(sim_nccl_cell_of(&one, (enum lw_op_kind)AR, SIM_NCCL_NVLS, SIM_NCCL_SIMPLE, &cell));
    assert_float_equal(cell.gbs * 14 / 8, 476, 1e-9);
}

/* What moved between versions: tree Simple 28 us a hop in 2.19, NVLS 23 us and 5/6; LL cap of
 * Hopper. */
TEST(versions_differ_as_their_sources_do)
{
    static const struct {
        const char *version;
        struct expected cell;
    } cases[] = {
        /* tree: base 0, 2 * 7 * 28 = 392; 12 * 30 * .92 / 2 */
        {"2.19", {AR, TREE, SIMPLE, 392, 165.6}},
        /* ring LL: 360 / 4 = 90 over the cap 87.7; x 8/14 */
        {"2.19", {AR, RING, LL, 15, 50.1}},
        {"2.19", {AR, NVLS, SIMPLE, 23, 266.7}}, /* 8 * 40 * 5/6 */
        {"2.20", {AR, NVLS, SIMPLE, 23, 266.7}},
        {"2.21", {AR, NVLS, SIMPLE, 25, 266.7}},
        {"2.21", {AG, NVLS, SIMPLE, 25, 266.7}}, /* gathers at 5/6 too, to 2.22 */
        {"2.21", {AR, RING, LL, 15, 80.6}},      /* 360 / 2 over the cap 141; x 8/14 */
        {"2.21", {AR, TREE, SIMPLE, 392, 165.6}},
        {"2.23", {AR, NVLS, SIMPLE, 25, 266.7}},
        {"2.23", {AG, NVLS, SIMPLE, 25, 320}},
        {"2.27", {AG, NVLS, SIMPLE, 25, 280}},   /* 8 * 40 * 7/8 */
        {"2.28", {AG, NVLS, SIMPLE, 25, 208.2}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sim_nccl_comm c = h100(1);
        c.version = version(cases[i].version);
        check_cells(&c, &cases[i].cell, 1);
    }
    struct sim_nccl_comm c = h100(2);
    struct expected new_tree = {AR, NVLST, SIMPLE, 66.8, 246.2},
                    old_tree = {AR, NVLST, SIMPLE, 53, 246.2};
    check_cells(&c, &new_tree, 1);
    c.version = version("2.28");
    check_cells(&c, &old_tree, 1);
    struct expected ring = {AR, RING, SIMPLE, 152.8, 192};
    static const char *const old[] = {"2.19", "2.21", "2.22.3"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        c.version = version(old[i]); /* 2 N network steps of 14 us: 8.4 + 26 * 3.4 + 4 * 14 */
        check_cells(&c, &ring, 1);
    }
}

TEST(version_is_the_newest_that_is_not_newer)
{
    static const struct {
        const char *text, *name;
    } cases[] = {{"2.19", "2.19"},   {"2.22.3", "2.21"}, {"2.23.4", "2.23"},
                 {"2.26.2", "2.25"}, {"2.20.5", "2.20"}, {"2.24.3", "2.24"},
                 {"2.27.7", "2.27.6"}, {"2.29.3", "2.29.2"}, {"2.29.7", "2.29.7"},
                 {"2.30.7", "2.30"}, {"3.0", "2.30"},    {"", "2.30"},
                 {"2.28.9-1", "2.28.9"}, {"2.28.8", "2.28"}, {"2.21.5+cuda12.4", "2.21"},
                 {"2.28.9-1+cuda13.0", "2.28.9"}};
    static const char *const garbage[] = {"new", "2", "2.", "2.28.", "2.28.3a", "2.28-rc", "2.28+",
                                          "2.28+cuda", "v2.28", " 2.28", "2.28 ", "2.28.3.4",
                                          "2.100", "2.28.100", "22803", "-2.28", "2.-28",
                                          "2.28+rocm6.0"};
    const struct sim_nccl_version *v;
    struct lw_err err = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(version(cases[i].text)->name, cases[i].name);
    assert_int_equal(sim_nccl_version_of("2.10.3", &v, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "unknown version '2.10.3'"));
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        assert_int_equal(sim_nccl_version_of(garbage[i], &v, &err), LW_EINVAL);
        assert_non_null(strstr(err.msg, "known of 2.19, 2.20, 2.21, 2.23, 2.24, 2.25, 2.27, "
                                        "2.27.5, 2.27.6, 2.28, 2.28.9, 2.29.2, 2.29.7, 2.30; "));
    }
}

TEST(a_version_beyond_the_newest_is_told)
{
    static const char *const texts[] = {"", "2.30.9", "2.28", "2.31", "3.0.1"};
    char said[200];

    for (int i = 0; i < 5; i++) {
        assert_int_equal(sim_nccl_say_newer(texts[i], said, sizeof said), i >= 3);
        if (i >= 3)
            assert_non_null(strstr(said, "those of 2.30 are used"));
    }
}

/* CollNet exists between nodes, and only where the cluster says so. */
TEST(collnet_needs_the_network_to_reduce)
{
    /* direct: 2 (3.7 + 7 * .4) + 31 = 44; 360 / 1 * .85 / 2. chain: 2 * 7 * 2.8 + 30 = 69.2; 360
     * / 2. NVLS: 25 + 18; 8 * min(66.9, 45) * 32/62 */
    static const struct expected cells[] = {{AR, DIRECT, SIMPLE, 44, 153},
                                            {AR, CHAIN, SIMPLE, 69.2, 180},
                                            {AR, NVLS, SIMPLE, 43, 185.8}};
    struct sim_nccl_comm c = h100(4);
    struct sim_nccl_cell cell;

    for (int a = 0; a < SIM_N_NCCL_ALGORITHMS; a++)
        assert_int_equal(sim_nccl_cell_of(&c, (enum lw_op_kind)AR, (enum sim_nccl_algorithm)a,
                                          SIM_NCCL_SIMPLE, &cell),
                         a == TREE || a == RING || a == NVLST);
    c.collnet = true;
    check_cells(&c, cells, sizeof cells / sizeof *cells);
    c = h100(1);
    c.collnet = true;
    assert_false(
        sim_nccl_cell_of(&c, (enum lw_op_kind)AR, SIM_NCCL_COLLNET_CHAIN, SIM_NCCL_SIMPLE, &cell));
}

TEST(nothing_allowed_is_said)
{
    struct sim_nccl_comm c = h100(1);
    struct sim_nccl_choice x;

    assert_false(sim_nccl_choose(&c, (enum lw_op_kind)BC, 1, 1u << (TREE * 3 + LL), &x));
    assert_true(sim_nccl_choose(&c, (enum lw_op_kind)BC, 1, 1u << (RING * 3 + LL), &x));
}

/* 8 H100: 12 channels of the search are 24 blocks. LL wants 8 ranks x 8 B x 512 threads = 32 KiB a
 * block, Simple 64 B x 512 threads = 32 KiB, LL128 5 KiB; NVLS has 16 blocks, on Blackwell 24. Two
 * nodes: 8 channels of 45 are 16 blocks. */
TEST(blocks_are_twice_the_channels_and_fewer_for_small_sizes)
{
    struct sim_nccl_comm one = h100(1), two = h100(2), blackwell = h100(1);
    static const struct {
        enum sim_nccl_algorithm a;
        enum sim_nccl_protocol p;
        int64_t bytes;
        int32_t blocks;
    } cases[] = {
        {SIM_NCCL_RING, SIM_NCCL_LL, 1 << 10, 1},
        {SIM_NCCL_RING, SIM_NCCL_LL, 1 << 18, 8},
        {SIM_NCCL_RING, SIM_NCCL_LL, 768 << 10, 24},
        {SIM_NCCL_RING, SIM_NCCL_LL, 1 << 30, 24},
        {SIM_NCCL_RING, SIM_NCCL_LL128, 10 << 10, 2},
        {SIM_NCCL_RING, SIM_NCCL_SIMPLE, 96 << 10, 3},
        {SIM_NCCL_RING, SIM_NCCL_SIMPLE, 768 << 10, 24},
        {SIM_NCCL_TREE, SIM_NCCL_LL, 16 << 10, 4},
        {SIM_NCCL_NVLS, SIM_NCCL_SIMPLE, 1 << 10, 16},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sim_nccl_blocks(&one, cases[i].a, cases[i].p, cases[i].bytes),
                         cases[i].blocks);
    assert_int_equal(sim_nccl_blocks(&two, SIM_NCCL_RING, SIM_NCCL_SIMPLE, 1 << 30), 16);
    blackwell.arch = SIM_NCCL_BLACKWELL;
    assert_int_equal(sim_nccl_blocks(&blackwell, SIM_NCCL_NVLS, SIM_NCCL_SIMPLE, 1 << 30), 24);
}
