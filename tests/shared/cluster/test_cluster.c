/* Clusters: files, known systems, this machine, and what the check refuses. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/cluster/measured.h"
#include "shared/plan/op.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "shared/base/arena.h"
#include "shared/io/embedded.h"
#include "shared/cluster/link_peak.h"
#include "shared/files/files.h"

static const char example_page[] = "docs/formats/cluster.md";

TEST(documented_example_reads_as_described)
{
    char *text = fixture_example(example_page);
    struct lw_cluster c;
    struct lw_err err = {0};
    fixture_put(fixture_path("c.json"), text);
    if (lw_cluster_read(fixture_path("c.json"), &c, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(c.name, "two cores");
    assert_true(c.calibrated);
    assert_int_equal(c.devices_per_node, 2);
    assert_true(c.device.peak_flops[LW_F32].value == 6.4e10);
    assert_string_equal(c.device.peak_flops[LW_F32].source,
                        "lapwing calibrate: sgemm 512, spread 2 %");
    assert_false(lw_figure_is_set(c.device.peak_flops[LW_BF16]));
    assert_true(c.device.launch_ps.value == 412500);
    assert_false(lw_figure_is_set(c.device.n_sms));
    const struct lw_link *link = lw_cluster_link(&c, LW_LINK_INTRA);
    assert_ptr_equal(link, &c.links[0]);
    assert_null(lw_cluster_link(&c, LW_LINK_INTER));
    assert_true(link->latency_ps.value == 1800000);
    assert_int_equal(c.n_tables, 1);
    assert_int_equal(c.tables[0].op, LW_OP_ALL_REDUCE);
    assert_int_equal(c.tables[0].n_nodes, 1);
    assert_int_equal(c.tables[0].time_ps[0], 5210125);
    assert_int_equal(c.tables[0].spread_ps[0], 300000);
    assert_int_equal(c.tables[0].spread_ps[1], -1);
    assert_int_equal(c.device.n_work, 2);
    assert_int_equal(c.device.work[0].kind, LW_WORK_COPY_IN);
    assert_int_equal(c.device.work[0].from, LW_F32);
    assert_int_equal(c.device.work[0].n_rows, 2);
    assert_int_equal(c.device.work[0].size[1], 1048576);
    assert_int_equal(c.device.work[0].time_ps[1], 48000500);
    assert_int_equal(c.device.work[0].spread_ps[0], 90000);
    assert_int_equal(c.device.work[1].kind, LW_WORK_CAST);
    assert_int_equal(c.device.work[1].dtype, LW_BF16);
    assert_null(c.device.work[1].spread_ps);
    assert_int_equal(c.n_pairs, 1);
    assert_int_equal(c.pairs[0].op, LW_ACTIVITY_COMPUTE);
    assert_int_equal(c.pairs[0].beside,
                     LW_ACTIVITY_COMM + LW_OP_ALL_GATHER - LW_OP_ALL_REDUCE);
    assert_int_equal(c.exceptions[0].rank_to, -1);
    assert_int_equal(c.exceptions[1].late_ps, 10500);
    assert_true(c.exceptions[1].speed == 0.25);

    assert_int_equal(lw_cluster_write(&c, fixture_path("again.json"), &err), LW_OK);
    char *again = fixture_written(fixture_path("again.json"));
    assert_string_equal(again, text);
    free(again);
    free(text);
    lw_cluster_free(&c);
}

struct damage {
    const char *from, *to, *message;
};

/* The documented example with one text replaced is refused, and nothing is given. */
static void refuses(const struct damage *cases, size_t n)
{
    char *text = fixture_example(example_page);

    for (size_t i = 0; i < n; i++) {
        struct lw_err err = {0};
        struct lw_cluster c = {.name = "untouched"};
        char *bad = fixture_replaced(text, cases[i].from, cases[i].to), expected[600];
        const char *path = fixture_path("c.json");
        fixture_put(path, bad);
        assert_int_equal(lw_cluster_read(path, &c, &err), LW_EFORMAT);
        snprintf(expected, sizeof expected, "%s: %s", path, cases[i].message);
        assert_string_equal(err.msg, expected);
        assert_string_equal(c.name, "untouched");
        free(bad);
    }
    free(text);
}

TEST(damaged_figures_of_a_device_are_refused_by_place)
{
    static const struct damage cases[] = {
        {"\"value\": 0.93", "\"value\": 1.01",
         "at device.gemm_efficiency.value: found 1.01, allowed: more than 0 and at most 1"},
        {"\"value\": 64000000000", "\"value\": -1",
         "at device.peak_flops.f32.value: found -1 flop/s, allowed: more than 0, and no less "
         "than 1e-12"},
        {"\"value\": 64000000000", "\"value\": 1e-300",
         "at device.peak_flops.f32.value: found 1e-300 flop/s, allowed: more than 0, and no less "
         "than 1e-12"},
        {"\"gemm_efficiency\": {\"value\": 0.93", "\"gemm_tile\": {\"value\": 1e18",
         "at device.gemm_tile.value: found 1e+18, allowed: a whole number from 1 to 65536"},
        {"\"value\": 12000000000", "\"value\": 1.5",
         "at device.memory_bytes.value: found 1.5 B, allowed: a whole number of at least 1"},
        {"\"value\": 412.5, ", "",
         "at device.launch_ns (byte 668): the field \"value\" is missing"},
        {"\"launch_ns\": {\"value\": 412.5", "\"probe_ns\": {\"value\": -5",
         "at device.probe_ns.value (byte 677): found -5, allowed: 0 ns or more"},
        {"\"launch_ns\": {\"value\": 412.5", "\"probe_ns\": {\"value\": 0",
         "at device.probe_ns.value: found 0, allowed: more than 0"},
        {"\"source\": \"sysconf, half of the machine\"", "\"source\": \"\"",
         "at device.memory_bytes (byte 504): the source of a figure cannot be empty"},
        {"\"size\": 1048576, \"ns\": 48000.5", "\"size\": 4096, \"ns\": 48000.5",
         "at device.work[0].rows[1].size: found 4096, allowed: more than the row before"},
        {"{\"size\": 1048576, \"ns\": 410000}", "",
         "at device.work[1].rows: found none, allowed: at least one"},
        {"\"kind\": \"copy_in\"", "\"kind\": \"memset\"",
         "at device.work[0].kind (byte 765): found \"memset\", allowed: gemm, fill, copy_in, "
         "copy_out, "
         "copy, cast, sgd, momentum, adam"},
        {"\"value\": 0.02", "\"valu\": 0.02",
         "at noise.compute_sigma.valu (byte 1811): unknown field (did you mean 'value'?); allowed: "
         "value, source"},
    };

    refuses(cases, sizeof cases / sizeof *cases);
}

TEST(damaged_files_are_refused_by_place)
{
    static const struct damage cases[] = {
        {"\"kind\": \"cluster\"", "\"kind\": \"workload\"",
         "at kind: found \"workload\", expected \"cluster\""},
        {"\"devices_per_node\": 2", "\"devices_per_node\": 0",
         "at devices_per_node (byte 193): found 0, allowed: 1 or more"},
        {"\"compute_rate_under_comm\": {\"value\": 0.8",
         "\"comm_on_compute_core\": {\"value\": 1.25",
         "at interference.comm_on_compute_core.value: found 1.25, allowed: 0 to 1"},
        {"\"intra\"", "\"inner\"",
         "at links[0].level (byte 1235): found \"inner\", allowed: intra, inter, host, bridge"},
        {"\"n_links\": {\"value\": 1,", "\"n_sharers\": {\"value\": 3,",
         "at links[0].n_sharers.value: found 3, allowed: at most devices_per_node, 2"},
        {"\"links\": [", "\"links\": [" "{\"name\": \"bus\", \"level\": \"intra\", "
                             "\"bytes_per_s\": {\"value\": 1e9, \"source\": \"page\"}, "
                             "\"latency_ns\": {\"value\": 5, \"source\": \"page\"}}" ",",
         "at links[1].level: found the level of links[0] again, allowed: one link of each level"},
        {"\"all_reduce\"", "\"forward\"",
         "at tables[0].op: found forward, allowed: communication only"},
        {"\"bytes\": 1048576", "\"bytes\": 4096",
         "at tables[0].rows[1].bytes: found 4096, allowed: more than the row before"},
        {"\"n_ranks\": 2", "\"n_ranks\": 0",
         "at tables[0]: found 0 ranks on 1 nodes, allowed: at least 1 rank on each of at least 1 "
         "node"},
        {"\"lapwing threads\",\n  \"library_version\": \"0.1.0\"",
         "\"nccl\", \"library_version\": \"latest\"",
         "at library_version: found 'latest', allowed: a version of NCCL, as 2.28.9"},
        {"\"n_ranks\": 2", "\"n_ranks\": 3",
         "at tables[0]: found 3 ranks on 1 nodes, allowed: at most devices_per_node, 2, on each"},
        {"\"rank_to\": 1", "\"rank_to\": 0",
         "at exceptions[1]: found rank 0 to 0, allowed: a rank alone, or to another"},
        {"\"rate\": 0.9", "\"rate\": 1.5",
         "at pairs[0].rate: found 1.5, allowed: more than 0 and at most 1 (1: as fast as alone)"},
        {"\"beside\": \"all_gather\"", "\"beside\": \"compute\"",
         "at pairs[0].beside: found compute beside itself, allowed: another activity (tables with "
         "n_in_flight 2 hold for two of one kind)"},
        {"{\"op\": \"compute\",", "{\"op\": \"compute\", \"beside\": \"all_gather\", \"rate\": "
         "0.5, \"source\": \"a\"}, {\"op\": \"compute\",",
         "at pairs[1]: found compute beside all_gather again, allowed: once (pairs[0] has it)"},
        {"\"speed\": 0.5", "\"speed\": 0", "at exceptions[0].speed: found 0, allowed: more than 0"},
    };

    refuses(cases, sizeof cases / sizeof *cases);
}

TEST(wild_and_contradictory_facts_are_one_line)
{
    static const struct lw_figure unset;
    static const struct {
        double capability, latency_ps, multicast, amd, arm, sharers;
        const char *link, *message; /* NULL: allowed */
    } cases[] = {
        {90, 1e12, 1, 1, 0, 1, "NVLink 4", NULL},
        {50, 0, 0, 0, 1, 1, "PCIe", NULL},
        {9, 0, 0, 0, 0, 1, "PCIe", "at nccl.compute_capability.value: found 9, allowed: 50 (5.0)"},
        {900, 0, 0, 0, 0, 1, "PCIe", "found 900, allowed: 50 (5.0) to 199 (19.9)"},
        {90, 2e12, 0, 0, 0, 1, "PCIe", "at links[1].latency_ns.value: found 2e+12 ps, allowed"},
        {90, 0, 1, 0, 0, 1, "PCIe 5.0", "multicast: found 1 with the intra-node link 'PCIe"},
        {80, 0, 1, 0, 0, 1, "NVLink 3", "at nccl.multicast: found 1 with compute_capability 80"},
        {90, 0, 1, 1, 1, 1, "NVLink 4", "at nccl: found amd_host and arm_host"},
        {90, 0, 1, 0, 0, .5, "NVLink 4", "n_sharers.value: found 0.5"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cluster c;
        struct lw_err err = {0};
        assert_int_equal(lw_cluster_find("dgx-h100", &c, &err), LW_OK);
        c.nccl.compute_capability.value = cases[i].capability;
        c.links[1].latency_ps.value = cases[i].latency_ps;
        c.nccl.multicast = (struct lw_figure){cases[i].multicast, "test"};
        c.nccl.amd_host = (struct lw_figure){cases[i].amd, "test"};
        c.nccl.arm_host = (struct lw_figure){cases[i].arm, "test"};
        c.links[1].n_sharers = (struct lw_figure){cases[i].sharers, "test"};
        c.links[0].name = cases[i].link;
        enum lw_status status = lw_cluster_check(&c, &err);
        if (!cases[i].message && status != LW_OK)
            fail_msg("%s", err.msg);
        if (cases[i].message && (status != LW_EFORMAT || !strstr(err.msg, cases[i].message)))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].message);
        c.links[1].n_links = (struct lw_figure){3, "test"}; /* 3 x 2 for 8 devices */
        c.links[1].n_sharers = (struct lw_figure){2, "test"};
        assert_int_equal(lw_cluster_check(&c, &err), LW_EFORMAT);
        c.links[1].n_links = unset;
        c.links[1].n_sharers.value = 3; /* 3 of 8 devices, 3 and 2 */
        err.msg[0] = '\0';
        assert_int_equal(lw_cluster_check(&c, &err), LW_EFORMAT);
        c.links[1].n_sharers = unset;
        lw_cluster_free(&c);
    }
}

TEST(communication_may_want_a_share_of_the_compute_core)
{
    static const char *const shares[] = {"0", "0.25", "1"};
    char *text = fixture_example(example_page);
    for (int i = 0; i < 3; i++) {
        struct lw_err err = {0};
        struct lw_cluster c;
        char to[80];
        snprintf(to, sizeof to, "\"comm_on_compute_core\": {\"value\": %s", shares[i]);
        char *good = fixture_replaced(text, "\"compute_rate_under_comm\": {\"value\": 0.8", to);
        fixture_put(fixture_path("c.json"), good);
        if (lw_cluster_read(fixture_path("c.json"), &c, &err) != LW_OK)
            fail_msg("%s", err.msg);
        assert_true(c.interference.comm_on_compute_core.value == atof(shares[i]));
        lw_cluster_free(&c);
        free(good);
    }
    free(text);
}

TEST(known_systems_are_complete_and_cited)
{
    int n_files = 0, n_known = 0;
    for (const struct lw_embedded *e = lw_embedded_files; e->path; e++)
        n_files += strncmp(e->path, "traces/clusters/", 16) == 0;
    for (; lw_cluster_known(n_known); n_known++) {
        struct lw_cluster c;
        struct lw_err err = {0};
        struct lw_cluster_figure f;
        if (lw_cluster_find(lw_cluster_known(n_known), &c, &err) != LW_OK)
            fail_msg("%s", err.msg);
        assert_string_equal(c.name, lw_cluster_known(n_known));
        assert_true(lw_figure_is_set(c.device.peak_flops[LW_F32]));
        assert_true(lw_figure_is_set(c.device.memory_bytes_per_s));
        assert_true(lw_figure_is_set(c.device.gemm_efficiency));
        assert_non_null(lw_cluster_link(&c, LW_LINK_INTRA));
        for (int k = 0; lw_cluster_figure(&c, k, &f); k++)
            if (lw_figure_is_set(f.figure))
                assert_true(strlen(f.figure.source) > 5);
        lw_cluster_free(&c);
    }
    assert_int_equal(n_known, n_files); /* every file of traces/clusters has a name */
}

TEST(dgx_a100_has_the_datasheets_figures)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    assert_int_equal(lw_cluster_find("dgx-a100", &c, &err), LW_OK);
    assert_int_equal(c.devices_per_node, 8);
    assert_int_equal(c.n_nodes, 0);
    assert_true(c.device.peak_flops[LW_BF16].value == 312e12);
    assert_true(c.device.memory_bytes_per_s.value == 2039e9);
    assert_true(c.device.n_sms.value == 108);
    /* 12 links of 20 GB/s: NCCL's 240 GB/s for a ring on 8 A100 */
    const struct lw_link *l = lw_cluster_link(&c, LW_LINK_INTRA);
    assert_true(l->bytes_per_s.value * l->n_links.value == 240e9);
    lw_cluster_free(&c);
}

TEST(host_has_this_machines_cores_and_says_it_is_not_calibrated)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    assert_int_equal(lw_cluster_find("host", &c, &err), LW_OK);
    assert_in_range(c.devices_per_node, 1, sysconf(_SC_NPROCESSORS_CONF));
    assert_int_equal(c.n_nodes, 1);
    assert_false(c.calibrated);
    assert_non_null(strstr(c.about, "run 'lapwing calibrate'"));
    assert_non_null(strstr(c.device.peak_flops[LW_F32].source, "assumed"));
    lw_cluster_free(&c);
}

TEST(known_names_may_be_written_as_they_are_spoken)
{
    static const char *const names[][2] = {
        {"Fire-Flyer", "fire-flyer"}, {"pcie box", "pcie-box"}, {"DGX_A100", "dgx-a100"}};

    for (int i = 0; i < 3; i++) {
        struct lw_cluster c;
        assert_int_equal(lw_cluster_find(names[i][0], &c, NULL), LW_OK);
        assert_string_equal(c.name, names[i][1]);
        lw_cluster_free(&c);
    }
    struct lw_cluster none;
    assert_int_equal(lw_cluster_find("dgx-a10", &none, NULL), LW_EINVAL);
    assert_int_equal(lw_cluster_find("dgx-a1000", &none, NULL), LW_EINVAL);
}

TEST(a_device_is_named_by_its_kind_or_the_beginning_of_one)
{
    static const char *const names[][2] = {{"H100-SXM5-80GB", "H100-SXM5-80GB"},
                                           {"h100", "H100-SXM5-80GB"},
                                           {"A100-SXM4-40GB", "A100-SXM4-40GB"},
                                           {"mi300x", "MI300X"},
                                           {"p4d", "A100-SXM4-40GB"}};
    struct lw_cluster c;
    struct lw_err err = {0};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(lw_cluster_find_device(names[i][0], &c, &err), LW_OK);
        assert_string_equal(c.device.kind, names[i][1]);
        lw_cluster_free(&c);
    }
    assert_int_equal(lw_cluster_find_device("a100", &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "device 'a100' fits several kinds; expected one of "
                                    "A100-SXM4-80GB, A100-SXM4-40GB, "));
    assert_int_equal(lw_cluster_find_device("a10", &c, &err), LW_EINVAL);
    assert_int_equal(lw_cluster_find_device("", &c, &err), LW_EINVAL);
}

/* A buyer compares machines of one device: its figures are the same in all of them. */
TEST(a_kind_of_device_has_one_set_of_figures)
{
    struct lw_cluster a, b;
    struct lw_err err = {0};
    int n_pairs = 0;

    for (int i = 0; lw_cluster_known(i); i++)
        for (int j = 0; j < i; j++) {
            assert_ok(lw_cluster_find(lw_cluster_known(i), &a, &err), err);
            assert_ok(lw_cluster_find(lw_cluster_known(j), &b, &err), err);
            bool alike = strcmp(a.device.kind, b.device.kind) == 0;
            struct lw_cluster_figure x, y;
            for (int k = 0; alike && lw_cluster_figure(&a, k, &x) &&
                            lw_cluster_figure(&b, k, &y) && strncmp(x.name, "device.", 7) == 0; k++)
                if (strcmp(x.name, y.name) != 0 || x.figure.value != y.figure.value)
                    fail_msg("%s: '%s' has %s %g, '%s' has %s %g", a.device.kind, a.name, x.name,
                             x.figure.value, b.name, y.name, y.figure.value);
            n_pairs += alike;
            lw_cluster_free(&a);
            lw_cluster_free(&b);
        }
    assert_true(n_pairs >= 15);
}

TEST(an_unknown_name_gets_the_nearest)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    assert_int_equal(lw_cluster_find("dgxh100", &c, &err), LW_EINVAL);
    assert_string_equal(err.msg, "cluster 'dgxh100': no such file and no known system (did you "
                                 "mean 'dgx-h100'?); `lapwing cluster` lists them");
}

TEST(a_pair_behind_a_bridge_of_four_has_a_third_of_its_links)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    assert_ok(lw_cluster_find("h200-nvl", &c, &err), err);
    const struct lw_link *l = lw_cluster_link(&c, LW_LINK_INTRA);
    assert_true(lw_intra_bytes_per_s(l, 2) == 6 * l->bytes_per_s.value);
    assert_true(lw_intra_bytes_per_s(l, 3) == 12 * l->bytes_per_s.value);
    assert_true(lw_intra_bytes_per_s(l, 4) == 18 * l->bytes_per_s.value);
    lw_cluster_free(&c);
}

TEST(a_list_of_names_is_called_a_list)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    assert_int_equal(lw_cluster_find("DGX-A100,dgx-h100", &c, &err), LW_EINVAL);
    assert_string_equal(err.msg, "cluster 'DGX-A100,dgx-h100' is a list, and one cluster is "
                                 "expected: of the commands, only `lapwing sim` and `lapwing "
                                 "tune` take several");
}

/* The names of makers and clouds, however they are spelled, where no name is near. */
TEST(a_products_name_gets_the_systems_name)
{
    static const char *const names[][2] = {
        {"gb200-nvl72", "gb200"}, {"GB300_NVL72", "gb300"}, {"p5.48xlarge", "p5"},
        {"p5en.48xlarge", "p5en"}, {"a3-megagpu-8g", "a3-mega"},
        {"a3-highgpu-8g", "a3-high"},
    };
    struct lw_cluster c;
    char says[96];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct lw_err err = {0};
        assert_int_equal(lw_cluster_find(names[i][0], &c, &err), LW_EINVAL);
        snprintf(says, sizeof says, "systems that are described so: %s (", names[i][1]);
        if (!strstr(err.msg, says))
            fail_msg("%s: %s", names[i][0], err.msg);
    }
    struct lw_err err = {0};
    assert_int_equal(lw_cluster_find("p5-48", &c, &err), LW_EINVAL);
    assert_int_equal(lw_cluster_find("with", &c, &err), LW_EINVAL);
}

static enum lw_status read_and_write(const char *in, const char *out)
{
    struct lw_err err = {0};
    struct lw_cluster c = {0};
    enum lw_status s = lw_cluster_read(in, &c, &err);

    if (s == LW_OK)
        s = lw_cluster_write(&c, out, &err);
    lw_cluster_free(&c);
    return s;
}

TEST(failing_allocations_leave_nothing)
{
    char *text = fixture_example(example_page);

    fixture_put(fixture_path("c.json"), text);
    EACH_ALLOCATION_FAILS_IN(6, read_and_write(fixture_path("c.json"), fixture_path("out.json")));
    free(text);
}

TEST(command_shows_figures_with_unit_and_source)
{
    const char *text = lapwing("cluster dgx-h100 --format csv", NULL);
    assert_non_null(strstr(text, "figure,value,unit,source\n"));
    assert_non_null(strstr(text, "device.n_sms,132,,"));
    assert_non_null(strstr(text, "links[1].latency_ns,14000,ns,"));
    expect(
        "cluster dgx-h100 --format json", 0,
        "{\"name\": \"host_bytes_per_s\", \"value\": 6.144e+11, \"unit\": \"B/s\", \"source\": \"");
    expect("cluster", 0, "\ndgx-a100       A100-SXM4-80GB");
    expect("cluster nothing-of-the-kind", 1, "lapwing cluster: cluster 'nothing-of-the-kind': no "
                                             "such file and no known system; `lapwing cluster` "
                                             "lists them");
    assert_int_equal(strncmp(shell_err(), "lapwing cluster: ", 17), 0);
}

/* Published terms do nothing until they are asked for, and the cluster's own win. */
TEST(published_terms_are_off_until_asked_for)
{
    struct lw_cluster c = {0}, none = {0};
    struct lw_err err = {0};

    assert_int_equal(lw_cluster_find("dgx-h100", &c, &err), LW_OK);
    assert_false(lw_figure_is_set(c.interference.compute_rate_under_comm));
    c.interference.fair_links = (struct lw_figure){0, "own"};
    assert_int_equal(lw_cluster_use_published(&c, &err), LW_OK);
    assert_true(c.interference.compute_rate_under_comm.value == 0.841);
    assert_non_null(strstr(c.interference.compute_rate_under_comm.source, "2507.03114"));
    assert_string_equal(c.interference.fair_links.source, "own");
    lw_cluster_free(&c);
    assert_int_equal(lw_cluster_find("p4d", &none, &err), LW_OK);
    assert_int_equal(lw_cluster_use_published(&none, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "'p4d' has no published interference"));
    lw_cluster_free(&none);
}

static bool has_channels(const struct lw_cluster *c)
{
    return lw_figure_is_set(lw_cluster_sms_per_channel(c));
}

/* An SM for each block, where NCCL's model applies and nothing else is known of the device. */
TEST(channels_take_sms_unless_the_cluster_states_what_compute_loses)
{
    const struct lw_figure own = {0.5, "own"};
    struct lw_pair_rate pair = {LW_ACTIVITY_COMPUTE, lw_activity_of(LW_OP_ALL_REDUCE), 0.5, "own"};
    struct lw_cluster c = {0}, amd = {0};
    struct lw_err err = {0};
    char with[33], without[33];

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    assert_true(lw_cluster_sms_per_channel(&c).value == 1);
    assert_ok(lw_cluster_hash(&c, with, &err), err);
    struct lw_cluster x = c;
    x.own_terms_only = true;
    assert_ok(lw_cluster_hash(&x, without, &err), err);
    assert_false(has_channels(&x));
    assert_string_not_equal(with, without);
    x = c;
    x.calibrated = true;
    assert_false(has_channels(&x));
    x = c;
    x.interference.compute_rate_under_comm = own;
    assert_false(has_channels(&x));
    x.interference.sms_per_channel = own; /* its own wins */
    assert_true(lw_cluster_sms_per_channel(&x).value == 0.5);
    x = c;
    x.pairs = &pair;
    x.n_pairs = 1;
    assert_false(has_channels(&x));
    pair.op = lw_activity_of(LW_OP_SEND);
    assert_true(has_channels(&x));
    assert_ok(lw_cluster_find("mi300x", &amd, &err), err);
    assert_false(has_channels(&amd));
    lw_cluster_free(&amd);
    lw_cluster_free(&c);
}

/* What buyers compare, one line a system, 100 columns at most: 18 NVLinks of 20.6 GB/s, 8 ports
 * of 50. */
TEST(list_of_systems_fits_a_page)
{
    expect("cluster", 0,
           "dgx-h100       H100-SXM5-80GB          8        370.8           400  nccl ");
    expect("cluster --format csv", 0, "l40s,L40S,8,24,50,nccl,");
    static const char *const shown[] = {"cluster", "cluster gb300", "cluster p4d",
                                        "cluster a100-pcie-8", "cluster mi300x"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const char *line = lapwing(shown[i], NULL);
        while (*line) {
            int columns = 0;
            for (; *line && *line != '\n'; line++)
                columns += (*line & 0xc0) != 0x80; /* not the rest of a UTF-8 letter */
            assert_true(columns <= 100);
            line += *line == '\n';
        }
    }
}

TEST(command_shows_each_pair_with_its_rate)
{
    char *example = fixture_example(example_page);

    fixture_put(fixture_path("pairs.json"), example);
    free(example);
    expect("cluster pairs.json --format csv", 0,
           "pairs[0]: compute beside all_gather,0.9,of its speed alone,lapwing calibrate\n");
    expect("cluster pairs.json --format json", 0,
           "{\"op\": \"compute\", \"beside\": \"all_gather\", \"rate\": 0.9, \"source\": "
           "\"lapwing calibrate\"}");
}

TEST(command_shows_tables_of_work_with_their_range)
{
    char *example = fixture_example(example_page);
    fixture_put(fixture_path("work.json"), example);
    free(example);
    const char *text = lapwing("cluster work.json --format csv", NULL);
    assert_non_null(strstr(text,
                           "device.work[0]: copy_in f32,2,rows,\"lapwing calibrate, medians of 48: "
                           "4096 to 1048576 B\"\n"));
    assert_non_null(strstr(text,
                           "device.work[1]: cast bf16,1,rows,\"lapwing calibrate, medians of 48: "
                           "from f32, 1048576 to 1048576 B\"\n"));
    expect("cluster work.json --format json", 0,
           "{\"kind\": \"cast\", \"dtype\": \"bf16\", \"from\": \"f32\", "
           "\"n_rows\": 1, \"least_size\": 1048576, \"most_size\": 1048576, "
           "\"source\": \"lapwing calibrate, medians of 48\"}");
}

/* As any other figure. */
TEST(a_table_of_work_is_part_of_the_hash)
{
    const int64_t size[] = {1024, 2048};
    const lw_ps time[] = {10, 20}, other[] = {10, 21};
    struct lw_work_table work = {.kind = LW_WORK_COPY, .n_rows = 2, .size = size, .time_ps = time,
                                 .source = "test"};
    struct lw_cluster c = {.name = "c", .devices_per_node = 1};
    char without[33], with[33], changed[33];
    struct lw_err err = {0};

    assert_int_equal(lw_cluster_hash(&c, without, &err), LW_OK);
    c.device.n_work = 1;
    c.device.work = &work;
    assert_int_equal(lw_cluster_hash(&c, with, &err), LW_OK);
    work.time_ps = other;
    assert_int_equal(lw_cluster_hash(&c, changed, &err), LW_OK);
    assert_string_not_equal(without, with);
    assert_string_not_equal(with, changed);
}

/* 1000 B hold 1000 B, the framework's among them, and not one byte more. */
TEST(missing_memory_is_unknown_without_a_capacity_or_a_peak)
{
    struct lw_device d = {.framework_bytes = {600, "test"}};

    assert_int_equal(lw_device_missing_bytes(&d, 1000), -1);
    d.memory_bytes = (struct lw_figure){1000, "test"};
    assert_int_equal(lw_device_missing_bytes(&d, 1000), 0);
    assert_int_equal(lw_device_missing_bytes(&d, 1001), 1);
    assert_int_equal(lw_device_missing_bytes(&d, -1), -1);
    assert_true(lw_device_missing_bytes(&d, INT64_MAX) == INT64_MAX - 1000);
}

/* 3 % of 1000 B, on both sides. */
TEST(a_need_near_the_memory_is_close)
{
    struct lw_device d = {0};

    assert_false(lw_device_is_close(&d, 1000));
    d.memory_bytes = (struct lw_figure){1000, "test"};
    assert_false(lw_device_is_close(&d, 969));
    assert_true(lw_device_is_close(&d, 970));
    assert_true(lw_device_is_close(&d, 1030));
    assert_false(lw_device_is_close(&d, 1031));
    assert_false(lw_device_is_close(&d, -1));
    assert_false(lw_device_is_close(&d, INT64_MAX));
}

/* Nothing of a processor, a default of a GPU, or the figure, which is then part of the hash. */
TEST(a_framework_takes_what_the_cluster_says)
{
    struct lw_cluster c = {.name = "c", .devices_per_node = 1};
    char before[33], stated[33];
    struct lw_err err = {0};

    assert_int_equal(lw_device_framework_bytes(&c.device), 0);
    c.device.n_sms = (struct lw_figure){108, "test"};
    assert_int_equal(lw_device_framework_bytes(&c.device), INT64_C(1343) << 20);
    assert_int_equal(lw_cluster_hash(&c, before, &err), LW_OK);
    c.device.framework_bytes = (struct lw_figure){600, "test"};
    assert_int_equal(lw_device_framework_bytes(&c.device), 600);
    assert_int_equal(lw_cluster_hash(&c, stated, &err), LW_OK);
    assert_string_not_equal(before, stated);
}

TEST(command_writes_a_system_that_reads_back)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    expect("cluster dgx-a100 -o a100.json", 0, "");
    assert_int_equal(lw_cluster_find(fixture_path("a100.json"), &c, &err), LW_OK);
    assert_string_equal(c.name, "dgx-a100");
    lw_cluster_free(&c);
    expect("cluster host -o /dev/full", 1, "");
    expect("cluster -o x.json", 2, "");
}

TEST_GROUP(fixture_open, fixture_close)

/* Racks of 72: 128 ranks are two of 64, 64 one of 64, 216 three of 72. Nodes of 8 are filled. */
TEST(jobs_on_racks_take_as_many_devices_of_each)
{
    static const struct {
        const char *cluster;
        int64_t ranks;
        int32_t per_node;
    } cases[] = {{"gb200", 128, 64}, {"gb200", 64, 64}, {"gb300", 216, 72}, {"gb300", 72, 72},
                 {"gb200", 73, 1},   {"dgx-h100", 12, 8}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_cluster c;
        struct lw_err err;
        assert_ok(lw_cluster_find(cases[k].cluster, &c, &err), err);
        lw_cluster_place(&c, cases[k].ranks);
        assert_int_equal(c.devices_per_node, cases[k].per_node);
        lw_cluster_free(&c);
    }
}

static double of_node(const struct lw_cluster *c)
{
    double all = 0;

    for (int32_t i = 0; i < c->n_links; i++)
        if (c->links[i].level == LW_LINK_INTER)
            all += c->links[i].bytes_per_s.value * c->links[i].n_links.value;
    return all;
}

TEST(a_nodes_network_is_stated)
{
    struct lw_cluster c;
    struct lw_err err;

    assert_ok(lw_cluster_find("dgx-a100", &c, &err), err);
    assert_ok(lw_cluster_state_network(&c, 400, &err), err);
    assert_true(of_node(&c) > 49.99e9 && of_node(&c) < 50.01e9);
    assert_int_equal(lw_cluster_state_network(&c, -1, &err), LW_EINVAL);
    assert_int_equal(lw_cluster_state_network(&c, 1.0 / 0.0, &err), LW_EINVAL);
    lw_cluster_free(&c);
    assert_ok(lw_cluster_find("host", &c, &err), err);
    assert_int_equal(lw_cluster_state_network(&c, 400, &err), LW_EINVAL);
    lw_cluster_free(&c);
}

TEST(rates_of_ports_are_three_and_of_pcie)
{
    struct lw_cluster c;
    struct lw_err err = {0};

    assert_int_equal(lw_cluster_find("rtx-pro-6000", &c, &err), LW_OK);
    assert_int_equal(lw_cluster_check(&c, &err), LW_OK);
    char before[33], after[33];
    assert_int_equal(lw_cluster_hash(&c, before, &err), LW_OK);
    c.nccl.port4_bytes_per_s.value *= 2;
    assert_int_equal(lw_cluster_hash(&c, after, &err), LW_OK);
    assert_string_not_equal(before, after);
    c.nccl.port4_bytes_per_s = (struct lw_figure){0};
    assert_int_equal(lw_cluster_check(&c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "found 2 of port2_bytes_per_s, port4_bytes_per_s and port8"));
    c.nccl.port4_bytes_per_s = c.nccl.port2_bytes_per_s;
    c.links[0].name = "NVLink 5";
    assert_int_equal(lw_cluster_check(&c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "found with the intra link 'NVLink 5', allowed: with links"));
    c.nccl.port2_bytes_per_s = c.nccl.port4_bytes_per_s = c.nccl.port8_bytes_per_s =
        (struct lw_figure){0};
    assert_int_equal(lw_cluster_check(&c, &err), LW_OK);
    lw_cluster_free(&c);
}

/* The nodes' ports report 12.5 GB/s. An all-reduce reached 40.5 of a node's 400 Gb/s before the
 * repair (all_reduce_bench-a100-n4 of the BLOOM trials). */
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
