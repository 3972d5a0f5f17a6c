/* Measured collectives: rows that cannot be, the JSON of nccl-tests -J, and rows chosen by --where.
 */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/traces/bench_text.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "traces/import/importer.h"
#include "traces/nccl_tests/import_nccl_tests.h"

#define TITLES "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw\n"
#define CSV "op,nranks,nnodes,size_bytes,time_us,algbw_gbs,busbw_gbs\n"
#define JSON_FILE "tests/fuzz/corpus/bench/output.json"

/* 1 MiB in 100 us are 10.486 GB/s; an all-reduce of 8 ranks has 1.75 of that on the bus: 18.35. */
TEST(rows_that_cannot_be_are_refused_with_line_and_value)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {CSV "all_reduce,8,1,1048576,0.001,,\n", "t.txt:2: 1048576 bytes in 0.001 us: a launch"},
        {CSV "all_reduce,8,1,1048576,100,20.97,\n",
         "t.txt:2: algbw of 20.97 GB/s, but 1048576 bytes"
         " in 100.000 us are 10.49 GB/s"},
        {CSV "all_reduce,8,1,1048576,100,10.49,10.49\n",
         "t.txt:2: busbw of 10.49 GB/s, but 1048576 bytes in 100.000 us are 18.35 GB/s for "
         "all_reduce"},
        {CSV "all_reduce,8,1,64,20,,\nall_reduce,8,1,64,21,,\n",
         "t.txt:3: 64 bytes of all_reduce on 8 ranks are already in line 2"},
        {CSV "all_reduce,8,1,1048576,,,\n", "t.txt:2: time_us: found ''"},
        {TITLES "1048576 262144 float sum -1 100 10.49 18.35 0 100 10.49 9.18\n",
         "t.txt:2: busbw of 9.18 GB/s"},
        {"#  size  count  type  redop  root  cputime  algbw  busbw  #wrong\n"
         "1048576 262144 float sum -1 100 10.49 18.35 0\n",
         "t.txt:2: cputime is the host's time"},
    };
    struct traces_bench_hint hint = {.op = "all_reduce", .n_ranks = 8, .n_nodes = 1};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_bench b = {.n = 77};
        struct lw_err err = {0};
        enum lw_status status = read_text(cases[i].text, &hint, &b, &err);
        if (status == LW_OK || !strstr(err.msg, cases[i].want) || strchr(err.msg, '\n'))
            fail_msg("case %zu: %d %s", i, status, err.msg);
        assert_int_equal(b.n, 77);
    }
}

/* Two decimals: 0.00 of 64 bytes and 0.01 of 200 are right. */
TEST(rounded_bandwidths_pass)
{
    static const char text[] =
        CSV "all_reduce,8,1,64,20,0.00,0.01\nall_reduce,8,1,256,20,0.01,0.02\n";
    struct traces_bench b;

    assert_int_equal(read_text(text, NULL, &b, NULL), LW_OK);
    traces_bench_free(&b);
}

/* 18.35 GB/s on the bus of 8 ranks are 10.4857 of 1 MiB: 1048576 x 1.75 / 18.35. */
TEST(a_row_without_time_takes_it_from_its_bandwidth)
{
    struct traces_bench b;

    assert_int_equal(read_text(CSV "all_reduce,8,1,1048576,,,18.35\n", NULL, &b, NULL), LW_OK);
    assert_int_equal(b.tables[0].rows[0].time, 100000436);
    traces_bench_free(&b);
    assert_int_equal(read_text("op,nranks,nnodes,size_bytes,busbw_gbps\n"
                               "all_reduce,8,1,1048576,18.35\n", NULL, &b, NULL), LW_OK);
    assert_int_equal(b.tables[0].rows[0].time, 100000436);
    traces_bench_free(&b);
}

static const char collection[] = "gpu,gpus,nodes,op,algo,size_bytes,time_us,algbw_gbps\n"
                                 "A100,8,1,all_reduce,,64,20,\n"
                                 "H100,8,1,all_reduce,NVLS,64,30,\n"
                                 "H100,8,1,all_reduce,\"Ring, LL\",64,10,\n"
                                 "H100,8,1,all_gather,,,,5\n";

TEST(where_chooses_rows)
{
    struct traces_bench b;
    struct lw_err err = {0};
    struct traces_bench_hint hint = {.where = "gpu=H100;algo=Ring, LL"};

    assert_int_equal(read_text(collection, &hint, &b, &err), LW_OK);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.tables[0].rows[0].time, 10000000);
    assert_string_equal(b.tables[0].gpu, "H100");
    traces_bench_free(&b);
    hint.where = "op=all_reduce"; /* devices and algorithms are tables of their own */
    assert_int_equal(read_text(collection, &hint, &b, &err), LW_OK);
    assert_int_equal(b.n, 3);
    traces_bench_free(&b);
    assert_int_equal(read_text(collection, NULL, &b, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "t.txt:5: size_bytes: found ''"));
    assert_non_null(strstr(err.msg, "--where"));
    hint.where = "colour=red";
    assert_int_equal(read_text(collection, &hint, &b, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "no column 'colour'"));
    hint.where = "gpu";
    assert_int_equal(read_text(collection, &hint, &b, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "expected COLUMN=TEXT"));
}

/* A process drives two devices, and a file lists one device for each process: 2 x 2 ranks. */
TEST(json_gives_ranks_nodes_operation_and_both_times)
{
    static const struct traces_bench_hint none;
    struct lw_input in;
    struct traces_bench b;
    const struct lw_importer *importer;

    assert_int_equal(lw_input_read(JSON_FILE, 0, &in, NULL), LW_OK);
    assert_int_equal(lw_importer_of(&in, &importer, NULL), LW_OK);
    assert_ptr_equal(importer, &lw_importer_nccl_tests);
    assert_int_equal(traces_bench_read(&in, &none, &b, NULL), LW_OK);
    lw_input_free(&in);
    const struct traces_bench_table *t = &b.tables[0];
    assert_int_equal(b.n, 1);
    assert_string_equal(b.version, "2.27.3");
    assert_string_equal(b.time_is, "mean of the iterations");
    assert_int_equal(t->op, LW_OP_ALL_REDUCE);
    assert_int_equal(t->n_ranks, 4);
    assert_int_equal(t->n_nodes, 2);
    assert_string_equal(t->gpu, "NVIDIA H100 80GB HBM3");
    assert_int_equal(t->n_rows, 2);
    assert_int_equal(t->rows[0].time, 28010000);
    assert_int_equal(t->rows[0].in_place, -1);
    assert_int_equal(t->rows[1].time, 60500000);
    assert_int_equal(t->rows[1].in_place, 61250000);
    traces_bench_free(&b);
}

TEST(json_that_cannot_be_is_refused_at_its_place)
{
    static const struct {
        const char *old, *new, *want;
    } cases[] = {
        {"60.500000", "0.001", "results[0]"},
        {"60.500000", "0.001", "in 0.001 us"},
        {"60.500000", "\"soon\"", "results[0].out_of_place.time"},
        {"\"time\":60.5", "\"cpu_time\":60.5", "cpu"},
        {"25.997752", "17.33", "busbw of 17.33 GB/s"},
        {"all_reduce_perf\",\"-J", "x\",\"-J", "--op"},
        {"all_reduce_perf\",\"-J", "gather_perf\",\"-J", "operation 'gather'"},
        {"\"ngpus\":2", "\"ngpus\":0", "config.ngpus"},
        {"\"type\":\"float\"", "\"type\":\"quux\"", "quux"},
        {"\"size\":8", "\"size\":", "results[1]"},
    };

    char *text = fixture_get(JSON_FILE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        struct traces_bench b;
        char *changed = fixture_replaced(text, cases[i].old, cases[i].new);
        if (read_text(changed, NULL, &b, &err) == LW_OK || !strstr(err.msg, cases[i].want) ||
            strchr(err.msg, '\n'))
            fail_msg("case %zu: %s", i, err.msg);
        free(changed);
    }
    free(text);
}

TEST(failing_allocations_leak_nothing)
{
    static const struct traces_bench_hint none;
    const char *texts[] = {fixture_get(JSON_FILE), CSV "all_reduce,8,1,64,20,,\n"};

    for (int i = 0; i < 2; i++) {
        struct traces_bench b = {0};
        EACH_ALLOCATION_FAILS(1, read_text(texts[i], &none, &b, NULL), b, traces_bench_free(&b));
    }
    free((char *)texts[0]);
}

/* The summary says which size a time belongs to, and what the time is. */
TEST_WITH(import_says_what_its_times_are, fixture_open, fixture_close)
{
    int rc;

    const char *out = lapwing("import $P/" JSON_FILE " --cluster-out c.json", &rc);
    assert_int_equal(rc, 0);
    assert_non_null(strstr(out, "smallest"));
    char *cluster = fixture_get(fixture_path("c.json"));
    assert_non_null(strstr(cluster, "out of place, mean of the iterations"));
    free(cluster);
}
