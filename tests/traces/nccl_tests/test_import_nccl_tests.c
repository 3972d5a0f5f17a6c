/* Tables of measured collectives: nccl-tests output of several versions, CSV, and the cluster they
 * become. */
#include "tests/lib/unit.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/cluster/measured.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/traces/bench_text.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/fuzz/bench_target.h"
#include "traces/import/importer.h"
#include "traces/nccl_tests/import_nccl_tests.h"

/* What was read last. */
static struct traces_bench b;
static struct lw_err err;

static int forget(void **state)
{
    (void)state;
    traces_bench_free(&b);
    return (int)lw_alloc_live();
}

#define BENCH_TEST(name) TEST_WITH(name, NULL, forget)

static enum lw_status reads(const char *text, const struct traces_bench_hint *hint)
{
    traces_bench_free(&b);
    return read_text(text, hint, &b, &err);
}

static void read_ok(const char *text)
{
    assert_ok(reads(text, NULL), err);
}

/* 2.17: the test is named, a root column, #wrong. Two nodes of two devices. */
static const char today[] =
    "# nccl-tests version 2.17.6 nccl-headers=22602 nccl-library=22602\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid  10 on     alpha device  0 [0000:07:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid  11 on     alpha device  1 [0000:0f:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid  12 on      beta device  0 [0000:07:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid  13 on      beta device  1 [0000:0f:00] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place                   "
    "    in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
    "time   algbw   busbw  #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
    "(us)  (GB/s)  (GB/s)        \n"
    "        1024           256     float     sum      -1    30.50    0.03    0.05       0    "
    "31.25    0.03    0.05       0\n"
    "           8             2     float     sum      -1    28.01    0.00    0.00       0    "
    "27.96    0.00    0.00       0\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 0.025\n"
    "# Collective test concluded: all_reduce_perf\n";

BENCH_TEST(todays_output_gives_ranks_nodes_device_and_both_times)
{
    read_ok(today);
    assert_int_equal(b.n, 1);
    assert_true(b.is_nccl);
    assert_string_equal(b.version, "2.26.2"); /* 22602 = 2 * 10000 + 26 * 100 + 2 */
    const struct traces_bench_table *t = &b.tables[0];
    assert_int_equal(t->op, LW_OP_ALL_REDUCE);
    assert_int_equal(t->dtype, LW_F32);
    assert_int_equal(t->n_ranks, 4);
    assert_int_equal(t->n_nodes, 2);
    assert_string_equal(t->gpu, "NVIDIA H100 80GB HBM3");
    assert_int_equal(t->n_rows, 2); /* ascending, whatever the order in the file */
    assert_int_equal(t->rows[0].bytes, 8);
    assert_int_equal(t->rows[0].time, 28010000);
    assert_int_equal(t->rows[0].in_place, 27960000);
    assert_int_equal(t->rows[1].bytes, 1024);
    assert_int_equal(t->rows[1].time, 30500000);
}

/* The text with a tag before every line. */
static char *tagged(const char *tag, const char *text)
{
    size_t size = 1;

    for (const char *p = text; *p; p++)
        size += 1 + (*p == '\n') * strlen(tag);
    char *out = calloc(size + strlen(tag) + LW_JSON_PADDING, 1), *to = out;
    for (const char *p = text; *p; p = strchr(p, '\n') + 1)
        to += sprintf(to, "%s%.*s\n", tag, (int)strcspn(p, "\n"), p);
    return out;
}

BENCH_TEST(tags_of_launchers_and_loggers_are_left_out)
{
    static const char *const tags[] = {
        "[1,0]<stdout>:",           "[prterun-a-7@1,0]<stdout>: ",
        "0: ",                      " 0: ",
        "12: ",                     "2025-03-14T15:09:26.535Z ",
        "2025-03-14 15:09:26 ",     "[2025-03-14T15:09:26+01:00] ",
        "2025-03-14 15:09:26 0: ",  "2025-03-14T15:09:26Z [1,0]<stdout>:",
        "[1,0]<stdout>:0: ",
        "[pod/bench-launcher-x7k/main] ", /* kubectl logs --prefix */
        "bench-worker-0 mpi ",            /* stern */
        "launcher_1  | ",                 /* docker compose */
        "node07: ",                       /* pdsh, clush */
        "bench-0 2025-03-14T15:09:26.5Z ",
        "bench-0  | [1,0]<stdout>:", /* no space before the '#' of the titles */
        "node07:",
    };
    const struct lw_importer *importer;

    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        char *text = tagged(tags[i], today);
        struct lw_input in = {.name = "t.txt", .text = text, .len = strlen(text)};
        assert_int_equal(lw_importer_of(&in, &importer, NULL), LW_OK);
        assert_ptr_equal(importer, &lw_importer_nccl_tests);
        read_ok(text);
        assert_int_equal(b.n, 1);
        assert_string_equal(b.version, "2.26.2");
        assert_int_equal(b.tables[0].n_ranks, 4);
        assert_int_equal(b.tables[0].n_nodes, 2);
        assert_int_equal(b.tables[0].n_rows, 2);
        assert_int_equal(b.tables[0].rows[1].time, 30500000);
        free(text);
    }
}

/* A byte-order mark, and the escapes of a terminal that colours titles. */
BENCH_TEST(marks_and_colours_of_a_terminal_are_left_out)
{
    static const char csv[] = "\xef\xbb\xbf"
                              "op,nranks,nnodes,size_bytes,time_us\nall_reduce,2,1,64,9\n";
    char text[4096] = "\xef\xbb\xbf";

    for (const char *p = today; *p; p += strcspn(p, "\n") + 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), "\x1b[1;33m%.*s\x1b[0m\x1b(B\n",
                 (int)strcspn(p, "\n"), p);
    read_ok(text);
    assert_int_equal(b.tables[0].n_ranks, 4);
    assert_string_equal(b.tables[0].gpu, "NVIDIA H100 80GB HBM3");
    assert_int_equal(b.tables[0].rows[1].time, 30500000);
    read_ok(csv);
    assert_int_equal(b.tables[0].rows[0].time, 9000000);
}

/* 2.0 of 2019: no root column, "error"; what it was follows from busbw = 2 (n - 1) / n of algbw. */
BENCH_TEST(output_of_2019_without_root_or_name_is_understood)
{
    static const char text[] =
        "# nThread 1 nGpus 4 minBytes 8 maxBytes 134217728 step: 2(factor)\n"
        "#   Rank  0 Pid  12345 on  host1 device  0 [0x07] Tesla V100-SXM2-16GB\n"
        "#   Rank  1 Pid  12345 on  host1 device  1 [0x0a] Tesla V100-SXM2-16GB\n"
        "#   Rank  2 Pid  12345 on  host1 device  2 [0x0b] Tesla V100-SXM2-16GB\n"
        "#   Rank  3 Pid  12345 on  host1 device  3 [0x85] Tesla V100-SXM2-16GB\n"
        "#                                                     out-of-place                       "
        "in-place          \n"
        "#       size         count    type   redop     time   algbw   busbw  error     time   "
        "algbw   busbw  error\n"
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  "
        "(GB/s)  (GB/s)       \n"
        "   134217728      33554432   float     sum   1563.1   85.87  128.80  2e-07   1561.9   "
        "85.93  128.90  2e-07\n";

    read_ok(text);
    assert_int_equal(b.tables[0].op, LW_OP_ALL_REDUCE);
    assert_int_equal(b.tables[0].n_ranks, 4);
    assert_int_equal(b.tables[0].n_nodes, 1);
    assert_int_equal(b.tables[0].rows[0].time, 1563100000);
    assert_int_equal(b.tables[0].rows[0].in_place, 1561900000);
}

#define RANK(r, host, device)                                                                      \
    "#  Rank " #r " Group 0 Pid 1 on " host " device " #device " [0x1] A100\n"
#define TITLES                                                                                     \
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"

BENCH_TEST(mpirun_tags_and_repeated_host_names_are_seen_through)
{
    static const char text[] =
        "[1,0]<stdout>:# Collective test starting: reduce_scatter_perf\n"
        "[1,0]<stdout>:" RANK(0, "node", 0) "[1,0]<stdout>:" RANK(1, "node", 1)
        "[1,0]<stdout>:" RANK(2, "node", 0) "[1,0]<stdout>:" RANK(3, "node", 1)
        "[1,0]<stdout>:" TITLES
        "[1,0]<stdout>:  0    0  half  sum  -1  9.1  0.00  0.00  0  9.1  0.00  0.00  0\n"
        "[1,1]<stderr>: NCCL WARN something\n"
        "[1,0]<stdout>:  4096  512  half  sum  -1  20.5  0.20  0.15  0  N/A  N/A  N/A  N/A\n";

    read_ok(text);
    assert_int_equal(b.tables[0].op, LW_OP_REDUCE_SCATTER);
    assert_int_equal(b.tables[0].dtype, LW_F16);
    assert_int_equal(b.tables[0].n_ranks, 4);
    assert_int_equal(b.tables[0].n_nodes, 2); /* "node" shows device 0 twice */
    assert_int_equal(b.tables[0].n_rows, 1);  /* a size of 0 bytes is none */
    assert_int_equal(b.tables[0].rows[0].in_place, -1);
}

BENCH_TEST(operation_follows_from_columns_unless_they_are_ambiguous)
{
    static const struct {
        const char *row;
        int op; /* -1 = left open */
    } cases[] = {
        {"64 16 float sum -1 5 0.01 0.02 0\n", LW_OP_ALL_REDUCE},
        {"64 4 float sum -1 5 0.01 0.01 0\n", LW_OP_REDUCE_SCATTER}, /* 64 = 4 ranks * 4 * 4 B */
        {"64 16 float sum 0 5 0.01 0.01 0\n", LW_OP_REDUCE},
        {"64 16 float none 0 5 0.01 0.01 0\n", LW_OP_BROADCAST},
        {"64 16 float none -1 5 0.01 0.01 0\n", LW_OP_SEND},
        {"64 4 float none -1 5 0.01 0.01 0\n", -1}, /* all_gather or alltoall */
    };
    char text[1024];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "%s%s%s%s%s%s", RANK(0, "h", 0), RANK(1, "h", 1),
                 RANK(2, "h", 2), RANK(3, "h", 3), TITLES, cases[i].row);
        enum lw_status status = reads(text, NULL);
        if (cases[i].op < 0) {
            assert_int_equal(status, LW_EFORMAT);
            assert_non_null(strstr(err.msg, "t.txt:6: "));
            assert_non_null(strstr(err.msg, "--op"));
            struct traces_bench_hint hint = {.op = "all_gather"};
            assert_int_equal(reads(text, &hint), LW_OK);
            assert_int_equal(b.tables[0].op, LW_OP_ALL_GATHER);
        } else {
            assert_int_equal(status, LW_OK);
            assert_int_equal(b.tables[0].op, cases[i].op);
        }
    }
}

BENCH_TEST(output_without_its_rank_lines_asks_for_them)
{
    static const char text[] = TITLES "64 16 float sum -1 5 0.01 0.01 0 4 0.01 0.01 0\n";
    struct traces_bench_hint hint = {.n_ranks = 16, .n_nodes = 2};

    assert_int_equal(reads(text, NULL), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "--ranks N and --nodes N"));
    assert_int_equal(reads(text, &hint), LW_OK);
    assert_int_equal(b.tables[0].n_ranks, 16);
    assert_int_equal(b.tables[0].n_nodes, 2);
}

/* As large as a number can be: one more than it is not asked for. */
BENCH_TEST(a_rank_that_cannot_be_is_missing_the_others)
{
    struct traces_bench_hint hint = {.op = "all_reduce"};

    assert_int_equal(reads(RANK(9223372036854775807, "h", 0) TITLES
                               "64 16 float sum -1 5 0.01 0.01 0\n", &hint),
                     LW_EFORMAT);
    assert_non_null(strstr(err.msg, "the highest rank is 9223372036854775807: lines are missing"));
}

/* 15 lines of 16: no rank is missing before the last, and 2 x 15/16 is within 1 % of 2 x 14/15. */
BENCH_TEST(rank_lines_that_are_cut_off_are_found_by_the_bandwidths)
{
    struct traces_bench_hint hint = {.n_ranks = 16, .n_nodes = 2};
    char text[4096] = "./all_reduce_perf\n";

    for (int r = 0; r < 15; r++)
        snprintf(text + strlen(text), sizeof text - strlen(text), RANK(%d, "h", %d), r, r);
    strcat(text, TITLES "1048576 262144 float sum -1 52.43 20.00 37.50 0\n");
    assert_int_equal(reads(text, NULL), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "t.txt:18: busbw 37.50 over algbw 20.00 is all_reduce on 16 "
                                    "ranks, the \"#  Rank\" lines say 15"));
    assert_int_equal(reads(text, &hint), LW_OK);
    hint.n_ranks = 18;
    assert_int_equal(reads(text, &hint), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "on 16 ranks, --ranks is 18"));
}

BENCH_TEST(a_size_that_was_measured_again_counts_by_its_median)
{
    struct traces_bench_hint hint = {.op = "all_reduce", .n_ranks = 2, .n_nodes = 1};

    assert_int_equal(reads(TITLES "64 16 float sum -1 9 0.01 0.01 0 3 0.01 0.01 0\n"
                                      "64 16 float sum -1 5 0.01 0.01 0 8 0.01 0.01 0\n"
                                      "64 16 float sum -1 7 0.01 0.01 0 4 0.01 0.01 0\n",
                               &hint), LW_OK);
    assert_int_equal(b.tables[0].n_rows, 1);
    assert_int_equal(b.tables[0].rows[0].time, 7000000);     /* of 5, 7, 9 */
    assert_int_equal(b.tables[0].rows[0].in_place, 4000000); /* of 3, 4, 8 */
}

BENCH_TEST(two_tests_in_one_log_are_two_tables)
{
    static const char text[] =
        "./all_reduce_perf -b 8\n" RANK(0, "h", 0) RANK(1, "h", 1) TITLES
        "64 16 float sum -1 5 0.01 0.01 0\n"
        "./all_gather_perf -b 8\n" RANK(0, "h", 0) RANK(1, "h", 1) RANK(2, "i", 0) TITLES
        "96 8 float none -1 6 0.01 0.01 0\n";

    read_ok(text);
    assert_int_equal(b.n, 2);
    assert_int_equal(b.tables[0].op, LW_OP_ALL_REDUCE);
    assert_int_equal(b.tables[0].n_ranks, 2);
    assert_int_equal(b.tables[1].op, LW_OP_ALL_GATHER);
    assert_int_equal(b.tables[1].n_ranks, 3);
    assert_int_equal(b.tables[1].n_nodes, 2);
}

BENCH_TEST(ranks_that_see_one_device_each_differ_by_bus_address)
{
    static const char text[] =
        "./all_reduce_perf\n"
        "#  Rank  0 Group  0 Pid  11 on h device  0 [0000:07:00] A100\n"
        "#  Rank  1 Group  0 Pid  12 on h device  0 [0000:0f:00] A100\n"
        "#  Rank  2 Group  0 Pid  13 on i device  0 [0000:07:00] A100\n"
        "#  Rank  3 Group  0 Pid  14 on i device  0 [0000:0f:00] A100\n" TITLES
        "64 16 float sum -1 9 0.01 0.01 0\n";

    read_ok(text);
    assert_int_equal(b.tables[0].n_ranks, 4);
    assert_int_equal(b.tables[0].n_nodes, 2);
}

/* As text, as the CSV and the JSON of nccl-tests, and as a CSV with titles. */
BENCH_TEST(the_in_place_half_alone_is_called_in_place)
{
    static const char *const texts[] = {
        "./all_reduce_perf\n" RANK(0, "h", 0) RANK(1, "h", 1)
        "#                          in-place\n"
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n"
        "64 16 float sum -1 9 0.01 0.01 0\n",
        "./all_reduce_perf\n" RANK(0, "h", 0) RANK(1, "h", 1)
        ",,,,,in-place,in-place,in-place,in-place\n"
        "size, count, type, redop, root, time, algbw, busbw, #wrong\n"
        "64, 16, float, sum, -1, 9, 0.01, 0.01, 0\n",
        "{\"args\": [\"all_reduce_perf\"], \"nccl_version\": 22703, \"config\": {\"nthreads\": 1, "
        "\"ngpus\": 1, \"devices\": [{\"rank\": 0, \"hostname\": \"h\", \"device\": 0}, "
        "{\"rank\": 1, \"hostname\": \"h\", \"device\": 1}]}, \"results\": [{\"size\": 64, "
        "\"count\": 16, \"type\": \"float\", \"redop\": \"sum\", \"root\": \"-1\", "
        "\"out_of_place\": null, \"in_place\": {\"time\": 9, \"alg_bw\": 0.01, "
        "\"bus_bw\": 0.01, \"nwrong\": 0}}]}",
        "op,nranks,nnodes,size_bytes,in_place_us\nall_reduce,2,1,64,9\n",
        "op,nranks,nnodes,size_bytes,time_us,in_place_us\nall_reduce,2,1,64,,9\n",
    };
    struct lw_cluster c;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        read_ok(texts[i]);
        assert_true(traces_bench_is(texts[i], strlen(texts[i])));
        assert_int_equal(b.n, 1);
        assert_true(b.tables[0].only_in_place);
        assert_int_equal(b.tables[0].rows[0].in_place, 9000000);
        for (int in_place = 0; in_place < 2; in_place++) {
            assert_ok(lw_cluster_from_bench(&b, 1, in_place, &c, &err), err);
            assert_non_null(strstr(c.tables[0].source, ", in place"));
            assert_int_equal(c.tables[0].time_ps[0], 9000000);
            lw_cluster_free(&c);
        }
    }
}

/* Cut in the third row, within its size or after its time: the rest of it is not a measurement. A
 * last line without an end is whole when it has the columns of the row before. */
BENCH_TEST(a_log_that_is_cut_off_is_refused_at_its_last_row)
{
    static const char text[] = "./all_reduce_perf\n" RANK(0, "h", 0) RANK(1, "h", 1) TITLES
        "64 16 float sum -1 9 0.01 0.01 0\n"
        "128 32 float sum -1 9 0.01 0.01 0\n"
        "25";
    static const char *const more[] = {"", "6 64 float sum -1 9.", "6 64 float sum -1 9.1 0.03",
                                       "6 64 float sum -1 9.1 0.03 0.03",
                                       "6 64 float sum -1 9.1 0.03 0.03 0"};
    char whole[1024];

    for (int i = 0; i < 5; i++) {
        snprintf(whole, sizeof whole, "%s%s", text, more[i]);
        if (i == 4) {
            read_ok(whole);
            assert_int_equal(b.tables[0].n_rows, 3);
            continue;
        }
        assert_int_equal(reads(whole, NULL), LW_EFORMAT);
        assert_non_null(strstr(err.msg, "t.txt:7: the last row ends after "));
    }
}

BENCH_TEST(types_of_one_run_are_tables_of_their_own)
{
    static const char text[] =
        "./all_reduce_perf -d all\n" RANK(0, "h", 0) RANK(1, "h", 1) TITLES
        "64 64 int8 sum -1 9 0.01 0.01 0\n"
        "64 16 float sum -1 5 0.01 0.01 0\n"
        "128 32 float sum -1 6 0.02 0.02 0\n"
        "64 64 uint8 sum -1 9 0.01 0.01 0\n";

    read_ok(text);
    assert_int_equal(b.n, 2);
    assert_int_equal(b.tables[0].dtype, LW_U8); /* int8 and uint8: one dtype */
    assert_int_equal(b.tables[0].n_rows, 1);
    assert_int_equal(b.tables[0].rows[0].time, 9000000);
    assert_int_equal(b.tables[1].dtype, LW_F32);
    assert_int_equal(b.tables[1].n_rows, 2);
}

BENCH_TEST(the_csv_that_nccl_tests_writes_is_read_too)
{
    static const char text[] =
        ",,,,,out-of-place,out-of-place,out-of-place,out-of-place,in-place,in-place,in-place,in-"
        "place,,,\n"
        "size, count, type, redop, root, time, algbw, busbw, #wrong, time, algbw, busbw, #wrong, "
        "nthreads, op, root\n"
        "(B), (elements),,,,(us),(GB/s),(GB/s),,(us),(GB/s),(GB/s),,,,\n"
        "1024, 256, bfloat16, sum, -1, 20.25, 0.1, 0.1, 0, 21.5, 0.1, 0.1, 0,1,sum,0\n";
    struct traces_bench_hint hint = {.op = "all_reduce", .n_ranks = 8, .n_nodes = 1};

    assert_int_equal(reads(text, &hint), LW_OK);
    assert_int_equal(b.tables[0].dtype, LW_BF16);
    assert_int_equal(b.tables[0].rows[0].time, 20250000);
    assert_int_equal(b.tables[0].rows[0].in_place, 21500000);
}

BENCH_TEST(csv_columns_are_found_by_title_and_cells_may_be_quoted)
{
    static const char text[] =
        "time_us,source,op,size_bytes,nnodes,nranks,gpu\r\n"
        "13.5,\"a \"\"b\"\", c\",sendrecv,4096,1,8,\"A100, SXM\"\r\n"
        "9,x,all_gather,64,2,16,\"A100, SXM\"\r\n"
        "12,x,sendrecv,1024,1,8,\"A100, SXM\"\r\n\r\n";

    read_ok(text);
    assert_int_equal(b.n, 2);
    assert_int_equal(b.tables[0].op, LW_OP_SEND);
    assert_string_equal(b.tables[0].source, "a \"b\", c");
    assert_string_equal(b.tables[0].gpu, "A100, SXM");
    assert_int_equal(b.tables[0].n_rows, 2);
    assert_int_equal(b.tables[0].rows[0].bytes, 1024);
    assert_int_equal(b.tables[0].rows[1].time, 13500000);
    assert_int_equal(b.tables[1].n_nodes, 2);
}

TEST(bad_tables_are_refused_with_file_and_line)
{
    static const struct {
        const char *text, *want;
        enum lw_status status;
    } cases[] = {
        {"op,nranks,size_bytes,time_us\nall_reduce,2,4,1\n", "no column 'nnodes'", LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\n", "titles, but no row below",
         LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\nall_reduce,2,1,4\n", "t.txt:2: 4 cells", LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\nall_reduce,2,3,4,1\n",
         "nnodes: found 3, with 2 ranks: ", LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\nall_reduce,16777217,2,4,1\n",
         "nranks: found '16777217'", LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\nall_reduce,x,1,4,1\n", "nranks: found 'x'",
         LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\nall_reduce,2,1,1e30,1\n", "size_bytes", LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\nall_reduce,2,1,4,soon\n",
         "time_us: found 'soon', expected a time in us", LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\nall_reduce,2,1,4,0\n", "above zero", LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes,time_us\nhypercube,2,1,4,1\n", "operation 'hypercube'",
         LW_ENOTSUP},
        {TITLES, "no row", LW_EFORMAT},
        {RANK(0, "h", 0) TITLES "64 16 float sum -1 -5 0.01 0.01 0\n", "t.txt:3: ", LW_EFORMAT},
        {"./gather_perf\n" RANK(0, "h", 0) RANK(1, "h", 1) TITLES
         "64 16 float none 0 5 0.01 0.01 0\n",
         "operation 'gather'", LW_ENOTSUP},
        {"./all_reduce_perf\n" RANK(0, "h", 0) RANK(2, "h", 2) TITLES
         "64 16 float sum -1 5 0.01 0.01 0\n",
         "2 \"#  Rank\" lines, the highest rank is 2", LW_EFORMAT},
        {"./all_reduce_perf\n" RANK(0, "h", 0) RANK(0, "h", 0) RANK(1, "h", 1) RANK(1, "h", 1)
         TITLES "64 16 float sum -1 5 0.01 0.01 0\n",
         "3 \"#  Rank\" lines, the highest rank is 1", LW_EFORMAT},
        {"./all_reduce_perf\n" RANK(0, "h", 0) RANK(1, "h", 1) TITLES
         "64 16 float sum -1 5 0.01 0.01 0\n"
         "1048576 262144 float sum -1 52.4288 20.00 26.67 0\n", /* 26.67 / 20 = 2 (3 - 1) / 3 */
         "t.txt:6: busbw of 26.67 GB/s", LW_EFORMAT},
        {"./all_gather_perf\n" RANK(0, "h", 0) RANK(1, "h", 1) TITLES /* 19.33 / 20 = 29 / 30 */
         "1048576 8738 float none -1 52.4288 20.00 19.33 0\n",
         "t.txt:5: busbw of 19.33 GB/s", LW_EFORMAT},
        {"op,nranks,nnodes,size_bytes\nall_reduce,2,1,4\n", "no column 'time_us'", LW_EFORMAT},
        {"size,count,type,redop,root,algbw,busbw\n64,16,float,sum,-1,10,10\n",
         "no row with a size and a time: expected the titles", LW_EFORMAT},
        {"./all_reduce_perf\n" RANK(0, "h", 0)
         "#  Rank  1 Group  1 Pid  11 on h device  1 [0000:0f:00] NVIDIA H100\n" TITLES
         "64 16 float sum -1 5 0.01 0.01 0\n",
         "rank 1 is of group 1", LW_ENOTSUP},
        {"./all_reduce_perf\n"
         "#  Rank  0 Group  0 Pid  11 on h device  0 [0000:07:00] NVIDIA H100\n"
         "#  Rank  1 Group  0 Pid  11 on h device  1 [0000:0f:00] NVIDIA A100\n" TITLES
         "64 16 float sum -1 5 0.01 0.01 0\n",
         "ranks on 'NVIDIA H100' and on 'NVIDIA A100'", LW_EFORMAT},
        {"./all_reduce_perf\n" RANK(0, "h", 0) RANK(1, "h", 1) TITLES
         "64 16 float sum -1 5 0.01 0.01 7\n",
         "7 wrong values", LW_EFORMAT},
        {"./all_reduce_perf\n" RANK(0, "h", 0) RANK(1, "h", 1) TITLES
         "64 16 float sum -1 5 0.01 0.01 9223372036854775807 5 0.01 0.01 28\n",
         "9223372036854775807 wrong values", LW_EFORMAT}, /* 28 more than an int64 */
        {RANK(0, "h", 0) TITLES "64 16 quux sum -1 5 0.01 0.01 0\n", "quux", LW_EINVAL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_bench none = {.n = 77};
        enum lw_status status = read_text(cases[i].text, NULL, &none, &err);
        if (status != cases[i].status || !strstr(err.msg, cases[i].want) || strchr(err.msg, '\n'))
            fail_msg("case %zu: %d %s", i, status, err.msg);
        assert_int_equal(none.n, 77);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

BENCH_TEST(a_cluster_holds_the_rows_as_they_were_measured)
{
    struct lw_cluster c;

    read_ok(today);
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_int_equal(lw_cluster_from_bench(&b, 1, in_place, &c, &err), LW_OK);
        assert_int_equal(c.n_nodes, 2);
        assert_int_equal(c.devices_per_node, 2);
        assert_string_equal(c.device.kind, "NVIDIA H100 80GB HBM3");
        assert_string_equal(c.library, "nccl");
        assert_string_equal(c.library_version, "2.26.2");
        struct lw_cost_query q = {
            .op = LW_OP_ALL_REDUCE, .dtype = LW_F32, .bytes = 1024, .n_ranks = 4, .n_nodes = 2};
        struct lw_cost_answer a;
        assert_int_equal(lw_sim_cost_explain(&c, &q, &a, &err), LW_OK);
        assert_string_equal(a.model, "table");
        assert_int_equal(a.time, in_place ? 31250000 : 30500000);
        lw_cluster_free(&c);
    }
}

/* rccl-tests (ROCm/rccl-tests): the titles of nccl-tests, devices of AMD. */
BENCH_TEST(rccl_tests_are_of_rccl)
{
    static const char *const devices[][2] = {{"AMD Instinct MI300X", "rccl"}, {"Vega 20", "rccl"},
                                             {"NVIDIA H200", "nccl"}};
    char text[700];

    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct lw_cluster c;
        snprintf(text, sizeof text,
                 "# Collective test starting: all_reduce_perf\n"
                 "rccl-tests: Version develop:3a0a3ea\n"
                 "#  Rank  0 Group  0 Pid 22 on a device  0 [0000:05:00] %s\n"
                 "#  Rank  1 Group  0 Pid 22 on a device  1 [0000:26:00] %s\n"
                 "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n"
                 "   1024  256  float  sum  -1  26.80  0.04  0.04  0\n",
                 devices[i][0], devices[i][0]);
        read_ok(text);
        assert_ok(lw_cluster_from_bench(&b, 1, false, &c, &err), err);
        assert_string_equal(c.library, devices[i][1]);
        lw_cluster_free(&c);
    }
}

TEST(files_of_different_devices_or_the_same_table_twice_are_refused)
{
    static const char one[] = "op,nranks,nnodes,size_bytes,time_us,gpu\nall_reduce,2,1,4,1,A100\n";
    static const char two[] = "op,nranks,nnodes,size_bytes,time_us,gpu\nall_gather,2,1,4,1,H100\n";
    static const char three[] =
        "op,nranks,nnodes,size_bytes,time_us,gpu\nall_gather,2,1,4,1,A100\n";
    struct traces_bench pair[2];
    struct lw_cluster c;

    assert_ok(read_text(one, NULL, &pair[0], &err), err);
    assert_ok(read_text(two, NULL, &pair[1], &err), err);
    assert_int_equal(lw_cluster_from_bench(pair, 2, false, &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "'A100'"));
    traces_bench_free(&pair[1]);
    assert_ok(read_text(one, NULL, &pair[1], &err), err);
    assert_int_equal(lw_cluster_from_bench(pair, 2, false, &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "second table of all_reduce"));
    traces_bench_free(&pair[1]);
    assert_ok(read_text(three, NULL, &pair[1], &err), err);
    assert_int_equal(lw_cluster_from_bench(pair, 2, false, &c, &err), LW_OK);
    assert_int_equal(c.n_tables, 2);
    lw_cluster_free(&c);
    assert_int_equal(lw_cluster_from_bench(pair, 1, true, &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "not measured in place"));
    traces_bench_free(&pair[0]);
    traces_bench_free(&pair[1]);
}

static enum lw_status convert_today(struct lw_cluster *c)
{
    struct traces_bench one;
    enum lw_status status = read_text(today, NULL, &one, NULL);

    if (status == LW_OK) {
        status = lw_cluster_from_bench(&one, 1, false, c, NULL);
        traces_bench_free(&one);
    }
    return status;
}

TEST(failing_allocations_leak_nothing)
{
    struct lw_cluster c = {0};

    EACH_ALLOCATION_FAILS(1, convert_today(&c), c, lw_cluster_free(&c));
}

/* Every row of every published table comes back from the cost function to the picosecond. */
BENCH_TEST(published_tables_come_back_from_the_cost_function)
{
    DIR *dir = opendir("../shared/netbench");
    static const struct traces_bench_hint none;
    struct dirent *e;
    int n_files = 0, n_rows = 0;

    if (!dir) {
        print_message("SKIP published_tables: ../shared/netbench is not here\n");
        skip();
    }
    while ((e = readdir(dir)) != NULL) {
        char path[512];
        struct lw_input in;
        struct lw_cluster c;
        const struct lw_importer *importer;
        if (!strstr(e->d_name, ".csv"))
            continue;
        snprintf(path, sizeof path, "../shared/netbench/%s", e->d_name);
        assert_int_equal(lw_input_read(path, 0, &in, &err), LW_OK);
        assert_int_equal(lw_importer_of(&in, &importer, &err), LW_OK);
        assert_ptr_equal(importer, &lw_importer_nccl_tests);
        traces_bench_free(&b);
        if (traces_bench_read(&in, &none, &b, &err) != LW_OK ||
            lw_cluster_from_bench(&b, 1, false, &c, &err) != LW_OK)
            fail_msg("%s", err.msg);
        for (int32_t k = 0; k < b.tables[0].n_rows; k++, n_rows++) {
            const struct traces_bench_table *t = &b.tables[0];
            struct lw_cost_query q = {.op = t->op, .dtype = LW_F32, .bytes = t->rows[k].bytes,
                                      .n_ranks = t->n_ranks, .n_nodes = t->n_nodes};
            struct lw_cost_answer a;
            assert_int_equal(lw_sim_cost_explain(&c, &q, &a, &err), LW_OK);
            assert_int_equal(a.time, t->rows[k].time);
        }
        lw_cluster_free(&c);
        lw_input_free(&in);
        n_files++;
    }
    closedir(dir);
    assert_true(n_files > 0 && n_rows > 5 * n_files);
}

TEST(every_fuzz_corpus_file_is_read_or_refused)
{
    assert_true(fixture_corpus("tests/fuzz/corpus/bench", LLVMFuzzerTestOneInput) >= 4);
}
