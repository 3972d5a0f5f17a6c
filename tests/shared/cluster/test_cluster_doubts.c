/* Figures that no machine has are named; those of every known system are not doubted. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/cluster/cluster_doubts.h"
#include "shared/cluster/measured.h"
#include "shared/files/files.h"

TEST(no_known_system_is_doubted)
{
    struct lw_err err = {0};
    char text[256];
    int n = 0;

    for (const char *name; (name = lw_cluster_known(n)) != NULL; n++) {
        struct lw_cluster c;
        assert_ok(lw_cluster_find(name, &c, &err), err);
        if (lw_cluster_doubt(&c, 0, 0, text, sizeof text) >= 0)
            fail_msg("%s: %s", name, text);
        lw_cluster_free(&c);
    }
    assert_true(n > 20);
}

TEST(each_absurd_figure_is_named_with_what_is_usual)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    char text[256];

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    struct lw_link *links = c.links;
    const struct {
        struct lw_figure *figure;
        double value;
        const char *says;
    } cases[] = {
        {&c.device.peak_flops[LW_BF16], 1e300,
         "device.peak_flops.bf16.value is 1e+300 flop/s, usual are 1e+06 to 1e+17 flop/s: check "
         "the number and its unit"},
        {&c.device.peak_flops[LW_BF16], 989, "device.peak_flops.bf16.value is 989 flop/s"},
        {&c.device.n_sms, 1e18, "device.n_sms.value is 1e+18, usual are 1 to 10000"},
        {&c.device.gemm_efficiency, 1e-30,
         "device.gemm_efficiency.value is 1e-30, usual are 0.01 to 1"},
        {&c.device.attention_backward, 0.0047, "device.attention_backward.value is 0.0047"},
        {&c.device.memory_bytes, 80,
         "device.memory_bytes.value is 80 B, usual are 1e+06 to 1e+14 B"},
        {&c.device.memory_bytes_per_s, 3350, "device.memory_bytes_per_s.value is 3350 B/s"},
        {&links[0].bytes_per_s, 1e300, "links[0].bytes_per_s.value is 1e+300 B/s"},
        {&links[1].latency_ps, 0, "links[1].latency_ns.value is 0 ns, usual are 10 to 1e+08 ns"},
        {&links[1].latency_ps, 5e11, "links[1].latency_ns.value is 5e+08 ns"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double before = cases[i].figure->value;
        cases[i].figure->value = cases[i].value;
        int k = lw_cluster_doubt(&c, 0, 0, text, sizeof text);
        if (k < 0 || strncmp(text, cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("'%s' does not begin with '%s'", k < 0 ? "no doubt" : text, cases[i].says);
        assert_int_equal(lw_cluster_doubt(&c, 0, k + 1, text, sizeof text), -1);
        cases[i].figure->value = before;
    }
    c.noise.compute_sigma = (struct lw_figure){.value = 5.71, .source = "t"};
    assert_true(lw_cluster_doubt(&c, 0, 0, text, sizeof text) >= 0);
    assert_string_equal(text, "noise.compute_sigma.value is 5.71, usual are 0 to 3: check the "
                              "number and its unit");
    c.calibrated = true; /* by this program, which knows the unit */
    assert_true(lw_cluster_doubt(&c, 0, 0, text, sizeof text) >= 0);
    assert_string_equal(text, "noise.compute_sigma.value is 5.71, usual are 0 to 3: calibrate "
                              "again while nothing else runs");
    c.calibrated = false;
    c.noise.compute_sigma = (struct lw_figure){0};
    links[0].latency_ps.value = 0; /* inside a node: not separated from the rate */
    assert_int_equal(lw_cluster_doubt(&c, 0, 0, text, sizeof text), -1);
    lw_cluster_free(&c);
}

/* 0.001 is the least that calibrate writes; as anyone else's figure it is doubted, and so is what
 * calibrate cannot write. */
TEST(a_measured_rate_beside_communication_is_not_doubted)
{
    const struct {
        double value;
        const char *source;
        bool doubted;
    } cases[] = {
        {0.001, "lapwing calibrate: a kernel beside all-reduces", false},
        {0.001, "a datasheet", true},
        {0.0095, "measured, then divided by 100 again", true},
        {0.0001, "lapwing calibrate: a kernel beside all-reduces", true},
        {0.5, "a datasheet", false},
    };
    struct lw_cluster c;
    struct lw_err err = {0};
    char text[256];

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c.interference.compute_rate_under_comm =
            (struct lw_figure){cases[i].value, cases[i].source};
        assert_int_equal(lw_cluster_doubt(&c, 0, 0, text, sizeof text) >= 0, cases[i].doubted);
    }
    lw_cluster_free(&c);
}

/* 8 devices a node: 8 ranks use the links inside it, 9 those between nodes too, one none. */
TEST(latencies_of_links_in_use_are_doubted)
{
    static const struct {
        int link;
        int64_t n_ranks;
        bool doubted;
    } cases[] = {{0, 1, false}, {0, 8, true}, {0, 9, true}, {0, 0, false},
                 {1, 1, false}, {1, 8, false}, {1, 9, true}, {1, 0, true}};
    struct lw_cluster c;
    struct lw_err err = {0};
    char text[256];

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double before = c.links[cases[i].link].latency_ps.value;
        c.links[cases[i].link].latency_ps.value = 0;
        assert_int_equal(lw_cluster_doubt(&c, cases[i].n_ranks, 0, text, sizeof text) >= 0,
                         cases[i].doubted);
        c.links[cases[i].link].latency_ps.value = before;
    }
    lw_cluster_free(&c);
}

/* An all-reduce of 4 ranks over links of 1 GB/s: 2 x 3/4 of the bytes enter a device, at most 0.667
 * GB/s. Beyond twice that no algorithm explains it. */
TEST(tables_faster_than_the_links_are_doubted)
{
    int64_t bytes[] = {1000000, 2000000};
    lw_ps time[] = {INT64_C(1500000000), 1000};
    struct lw_link link = {.name = "link", .level = LW_LINK_INTRA,
                           .bytes_per_s = {.value = 1e9, .source = "t"}};
    struct lw_cost_table table = {.op = LW_OP_ALL_REDUCE, .n_ranks = 4, .n_nodes = 1,
                                  .n_in_flight = 1, .n_rows = 2, .bytes = bytes, .time_ps = time,
                                  .source = "t"};
    struct lw_cluster c = {.name = "c", .devices_per_node = 4, .n_links = 1, .links = &link,
                           .n_tables = 1, .tables = &table};
    char text[256];

    int k = lw_cluster_doubt(&c, 4, 0, text, sizeof text);
    assert_true(k >= 0);
    assert_string_equal(text, "tables[0]: all_reduce on 4 ranks of 1 node reaches 2e+06 GB/s, the "
                              "links carry 0.6667: check its bytes and ns, or the links");
    assert_int_equal(lw_cluster_doubt(&c, 4, k + 1, text, sizeof text), -1);
    time[1] = INT64_C(1510000000); /* 1.325 GB/s */
    assert_int_equal(lw_cluster_doubt(&c, 4, 0, text, sizeof text), -1);
    time[1] = INT64_C(1490000000); /* 1.342 */
    assert_true(lw_cluster_doubt(&c, 4, 0, text, sizeof text) >= 0);
    c.calibrated = true;
    assert_int_equal(lw_cluster_doubt(&c, 4, 0, text, sizeof text), -1);
}
