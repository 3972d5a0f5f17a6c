/* Reports of Nsight Systems: two ranks in one file by hand, every schema recorded, damage. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"
#include "traces/nsys/import_nsys.h"
#include "traces/nsys/nsys_database.h"
#include "traces/nsys/nsys_example.h"
#include "traces/steps/device_figures.h"

#define NSYS "../shared/traces/nsys/"
#define PID(p) "((0x1000000 | " p ") << 24)"

/* Process 10 on device 0 and process 11 on device 1, two iterations each: a kernel on stream 7, an
 * event that stream 20 waits for, an all-reduce on stream 20 that NCCL's range gives 4096 bytes. */
static void put_rank(const char *file, int pid, int device)
{
    char sql[4096];

    for (int i = 0; i < 2; i++) {
        int at = 1000 * i, corr = 10 * i;
        snprintf(sql, sizeof sql,
                 "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
                 "(%d,%d,%d,7,%d," PID("%d") ",1),(%d,%d,%d,20,%d," PID("%d") ",2);"
                 "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
                 "(%d,%d," PID("%d") "|5,%d,3),(%d,%d," PID("%d") "|5,%d,4),"
                 "(%d,%d," PID("%d") "|5,%d,5),(%d,%d," PID("%d") "|5,%d,3);"
                 "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES(7,%d," PID("%d") ",9);"
                 "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES"
                 "(%d,%d,20,%d," PID("%d") ",2,9);"
                 "INSERT INTO NVTX_EVENTS VALUES(%d,%d,59,'step %d',NULL," PID("%d") "|5,0,NULL),"
                 "(%d,%d,59,NULL,6," PID("%d") "|5,3,"
                 "'{\"Message size [bytes]\": 4096}');",
                 at + 20, at + 120, device, corr + 1, pid, at + 200, at + 300 + device, device,
                 corr + 4, pid, /* runtime */ at + 10, at + 15, pid, corr + 1, at + 30, at + 31,
                 pid, corr + 2, at + 40, at + 41, pid, corr + 3, at + 50, at + 60, pid, corr + 4,
                 corr + 2, pid, at + 40, at + 41, corr + 3, pid, at + 5, at + 400, i, pid, at + 45,
                 at + 65, pid);
        sql_do(file, sql);
    }
    snprintf(sql, sizeof sql,
             "INSERT INTO NVTX_EVENTS VALUES(0,NULL,75,'NCCL',NULL," PID("%d") "|5,3,NULL),"
             "(1,2,59,'ncclCommInitRank',NULL," PID("%d") "|5,3,"
             "'{\"No. of ranks\": 2, \"Rank\": %d}');",
             pid, pid, device);
    sql_do(file, sql);
}

static const char tables[] =
    "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES(1,'gemm'),(2,'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'),"
    "(3,'cudaLaunchKernel_v7000'),(4,'cudaEventRecord_v3020'),(5,'cudaStreamWaitEvent_v3020'),"
    "(6,'ncclAllReduce');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER, "
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, globalTid INTEGER, "
    "correlationId INTEGER, nameId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT(streamId INTEGER, correlationId INTEGER, "
    "globalPid INTEGER, eventId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER, end INTEGER, streamId "
    "INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER);"
    "CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId "
    "INTEGER, globalTid INTEGER, domainId INTEGER, jsonText TEXT);"
    "CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT);"
    "INSERT INTO TARGET_INFO_GPU VALUES(0,'NVIDIA A100-SXM4-40GB'),(1,'NVIDIA H100');"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER);"
    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(1700000000000000000);";

static const char *put_report(void)
{
    const char *file = fixture_path("two.db");

    if (access(file, F_OK) == 0)
        return file;
    sql_do(file, tables);
    put_rank(file, 10, 0);
    put_rank(file, 11, 1);
    return file;
}

static enum lw_status take(const char *file, int part, struct lw_trace *t, struct lw_err *err)
{
    struct lw_input in;
    struct lw_trace_reading reading = {.part = part};

    LW_TRY(lw_input_read(file, 0, &in, err));
    return lw_nsys_take(&in, NULL, &reading, t, err);
}

static int64_t count_of(const struct lw_trace *t, const char *key)
{
    for (int64_t i = 0; i < t->n_counts; i++)
        if (strcmp(t->counts[i].key, key) == 0)
            return t->counts[i].value;
    fail_msg("no count '%s'", key);
    return -1;
}

/* 2500 kernels of 1 us, each 1 us after the one before: the last ends at 2 us * 2500. */
TEST(a_generated_report_holds_what_it_says)
{
    const char *file = fixture_path("generated.db");
    struct lw_trace t;
    struct lw_err err = {0};

    remove(file);
    assert_ok(lw_nsys_example(file, 2500, &err), err);
    assert_ok(take(file, 0, &t, &err), err);
    assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_KERNEL"), 2500);
    assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_RUNTIME"), 2500);
    assert_int_equal(count_of(&t, "NVTX_EVENTS"), 3);
    assert_int_equal(count_of(&t, "launches_resolved"), 2500);
    lw_trace_free(&t);
    assert_int_equal(lw_nsys_example("/no/such/folder/x.db", 1, &err), LW_EIO);
}

static int64_t find_row(const struct lw_trace *t, enum lw_row_class class, const char *name)
{
    for (int64_t i = 0; i < t->n; i++)
        if (t->class[i] == class && strcmp(lw_trace_name(t, i), name) == 0)
            return i;
    fail_msg("no row '%s'", name);
    return -1;
}

TEST_WITH(a_report_of_two_ranks_is_read_by_rank, fixture_open, fixture_close)
{
    const char *file = put_report();
    struct lw_trace t;
    struct lw_err err = {0};
    int n;

    assert_int_equal(lw_nsys_count(file, &n, &err), LW_OK);
    assert_int_equal(n, 2);
    assert_int_equal(take(file, 2, &t, &err), LW_OK);
    assert_int_equal(t.rank, 1);
    assert_int_equal(t.world_size, 2);
    assert_string_equal(lw_trace_text(&t, t.device), "NVIDIA H100");
    assert_int_equal(t.base_ns, 1700000000000000000);
    assert_int_equal(t.n_steps, 2);
    assert_string_equal(lw_trace_name(&t, t.step_rows[1]), "step 1");
    /* names without the version of the interface; the wait is for the record before it */
    find_row(&t, LW_ROW_LAUNCH, "cudaLaunchKernel");
    int64_t sync = find_row(&t, LW_ROW_SYNC, "Stream Wait Event");
    assert_int_equal(t.track[sync], 20);
    assert_int_equal(lw_trace_detail(&t, sync)->wait_stream, 7);
    assert_int_equal(lw_trace_detail(&t, sync)->wait_record, 2);
    /* of the whole report: kernels of both ranks lie at 20-120 and 200-300, of rank 1 to 301 */
    assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_KERNEL"), 8);
    assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_MEMCPY"), -1);
    assert_int_equal(count_of(&t, "kernel_busy_ns"), 2 * (100 + 101));
    assert_int_equal(count_of(&t, "kernel_sum_ns"), 2 * (200 + 201));
    assert_int_equal(count_of(&t, "first_kernel_ns"), 20);
    assert_int_equal(count_of(&t, "last_kernel_end_ns"), 1301);
    assert_int_equal(count_of(&t, "launches_resolved"), 8);
    struct lw_inspection in;
    assert_int_equal(lw_inspect(&t, NULL, &in, &err), LW_OK);
    assert_int_equal(in.n_device_rows, 4); /* of this rank */
    assert_int_equal(in.n_iterations, 2);
    assert_int_equal(in.iterations[0].by_launch.comm_busy_ns, 101);
    assert_int_equal(in.iterations[0].n_comm, 1);
    assert_string_equal(in.iterations[0].comm[0].op, "all_reduce");
    assert_int_equal(in.iterations[0].comm[0].bytes, 4096);
    lw_inspection_free(&in);
    lw_trace_free(&t);
    assert_int_equal(take(file, 0, &t, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "2 ranks"));
    assert_int_equal(take(file, 3, &t, &err), LW_EINVAL);
}

static int64_t n_steps_of(const char *ranges)
{
    const char *file = fixture_path("ranges.db");
    char sql[2048];
    struct lw_trace t;
    struct lw_err err = {0};

    unlink(file);
    snprintf(sql, sizeof sql,
             "CREATE TABLE META_DATA_EXPORT(name, value); CREATE TABLE NVTX_EVENTS(start, end, "
             "eventType, text, globalTid); INSERT INTO NVTX_EVENTS VALUES %s",
             ranges);
    sql_do(file, sql);
    if (take(file, 0, &t, &err) != LW_OK)
        fail_msg("%s", err.msg);
    int64_t n = t.n_steps;
    if (n == 2)
        assert_string_not_equal(lw_trace_name(&t, t.step_rows[0]),
                                lw_trace_name(&t, t.step_rows[1]));
    lw_trace_free(&t);
    return n;
}

TEST_WITH(iterations_are_ranges_whose_names_say_so, fixture_open, fixture_close)
{
    assert_int_equal(n_steps_of("(0,9,59,'iteration 1',1),(9,20,59,'iteration 2',1)"), 2);
    assert_int_equal(n_steps_of("(0,9,59,'train_step',1),(9,20,59,'train_step',1)"), 2);
    assert_int_equal(n_steps_of("(0,9,59,'batch 7',1)"), 1);
    assert_int_equal(n_steps_of("(0,9,59,'train',1)"), 0); /* all of it, perhaps */
    /* the one that covers most; a part of a step is none */
    assert_int_equal(n_steps_of("(0,9,59,'iter 0',1),(1,5,59,'step a',1),(6,8,59,'step a',1)"), 1);
    assert_int_equal(n_steps_of("(0,9,59,'optimizer.step',1),(9,20,59,'optimizer.step',1)"), 0);
    /* that overlap; on two threads; marks */
    assert_int_equal(n_steps_of("(0,9,59,'step 1',1),(5,20,59,'step 2',1)"), 0);
    assert_int_equal(n_steps_of("(0,9,59,'step',1),(9,20,59,'step',2)"), 0);
    assert_int_equal(n_steps_of("(0,NULL,34,'step 1',1),(9,NULL,34,'step 2',1)"), 0);
}

TEST_WITH(other_databases_are_refused_with_the_way_to_one_that_is_read, fixture_open, fixture_close)
{
    static const struct {
        const char *sql, *says;
    } cases[] = {
        {"CREATE TABLE a(b)", "nsys export --type sqlite"},
        {"CREATE TABLE rocpd_op(b)", "torch.profiler"},
        {"CREATE TABLE run(b); CREATE TABLE span(b)", "lapwing runs --db"},
        {"CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(b)", "nvprof"},
        {"CREATE TABLE META_DATA_EXPORT(a); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start)",
         "no column 'deviceId'"},
        {"CREATE TABLE META_DATA_EXPORT(a); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, "
         "deviceId, streamId); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1,'soon',0,7)",
         "row 1: 'end' holds no whole number"},
        {"CREATE TABLE META_DATA_EXPORT(a); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, "
         "deviceId, streamId); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1,2,0,-7)",
         "stream -7"},
        {"CREATE TABLE META_DATA_EXPORT(a); CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(a); "
         "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES(1)",
         "--cuda-graph-trace=node"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        struct lw_trace t = {.n = 77};
        struct lw_err err = {0};
        snprintf(name, sizeof name, "%zu.db", i);
        sql_do(fixture_path(name), cases[i].sql);
        assert_int_equal(take(fixture_path(name), 0, &t, &err), LW_EFORMAT);
        if (!strstr(err.msg, cases[i].says) || !strstr(err.msg, name))
            fail_msg("'%s' is not in: %s", cases[i].says, err.msg);
        assert_int_equal(t.n, 77);
    }
    /* a view of the name is no table: nothing of the file's runs */
    sql_do(fixture_path("v.db"),
           "CREATE TABLE META_DATA_EXPORT(a); CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH "
           "RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS start, n AS "
           "end, 0 AS deviceId, 7 AS streamId FROM r");
    struct lw_trace t;
    struct lw_err err = {0};
    assert_int_equal(take(fixture_path("v.db"), 0, &t, &err), LW_OK);
    assert_int_equal(t.n, 0);
    lw_trace_free(&t);
}

TEST_WITH(a_report_of_two_ranks_is_not_read_as_one, fixture_open, fixture_close)
{
    struct lw_trace t;
    struct lw_err err = {0};

    assert_int_equal(take(put_report(), 0, &t, &err), LW_EINVAL);
    has(err.msg, "holds the work of 2 ranks");
    has(err.msg, "two.db#1' to '");
    /* the other rank is of another process, and its kernels come first */
    sql_do(put_report(), "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 0;"
                         "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -1 WHERE globalPid = " PID(
                             "11"));
    assert_int_equal(take(put_report(), 0, &t, &err), LW_EINVAL);
    has(err.msg, "holds the work of 2 ranks");
    /* one rank needs no name, and is that of its part */
    sql_do(put_report(), "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid = " PID("10"));
    int n;
    assert_int_equal(lw_nsys_count(put_report(), &n, &err), LW_OK);
    assert_int_equal(n, 1);
    assert_int_equal(take(put_report(), 0, &t, &err), LW_OK);
    assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_KERNEL"), 4);
    assert_int_equal(count_of(&t, "launches_resolved"), 4);
    lw_trace_free(&t);
}

/* A file is read by its name, and its bytes are given back first; where they are not the file's any
 * more they are what is read. */
TEST_WITH(a_report_is_kept_in_memory_only_where_it_has_to_be, fixture_open, fixture_close)
{
    const char *file = put_report();
    struct lw_trace_reading reading = {.part = 1};
    struct nsys_database d;
    struct lw_input in;
    struct lw_trace t;
    struct lw_err err = {0};

    assert_int_equal(lw_input_read(file, 0, &in, &err), LW_OK);
    assert_int_equal(nsys_database_open(&in, &d, &err), LW_OK);
    assert_null(in.text);
    nsys_database_close(&d);
    assert_int_equal(lw_input_read(file, 0, &in, &err), LW_OK);
    sql_do(file, "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL");
    assert_int_equal(lw_nsys_take(&in, NULL, &reading, &t, &err), LW_OK);
    assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_KERNEL"), 8);
    lw_trace_free(&t);
    assert_int_equal(lw_input_read(file, 0, &in, &err), LW_OK);
    assert_int_equal(nsys_database_open(&in, &d, &err), LW_OK);
    int64_t n;
    assert_int_equal(nsys_database_number(&d, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL", &n,
                                          &err), LW_OK);
    assert_int_equal(n, 0);
    nsys_database_close(&d);
}

static enum lw_status take_bytes(const char *text, size_t len, struct lw_trace *t,
                                 struct lw_err *err)
{
    struct lw_input in = {.name = "x.db", .text = lw_alloc(len + 64), .len = len};
    struct lw_trace_reading reading = {.part = 1};

    if (!in.text)
        return lw_fail_nomem(err);
    memcpy(in.text, text, len);
    return lw_nsys_take(&in, NULL, &reading, t, err);
}

TEST_WITH(damage_is_read_or_refused_and_leaks_nothing, fixture_open, fixture_close)
{
    struct lw_input in;
    struct lw_err err = {0};
    struct lw_trace t;
    uint32_t random = 1;

    assert_int_equal(lw_input_read(put_report(), 0, &in, &err), LW_OK);
    for (int i = 0; i < 600; i++) {
        char *copy = malloc(in.len);
        size_t len = i % 3 == 0 ? in.len * (size_t)i / 600 : in.len;
        memcpy(copy, in.text, in.len);
        for (int k = 0; i % 3 && k < 4; k++) {
            random = random * 1664525u + 1013904223u;
            copy[random % in.len] = (char)(random >> 24);
        }
        if (take_bytes(copy, len, &t, &err) == LW_OK)
            lw_trace_free(&t);
        else
            assert_null(strchr(err.msg, '\n'));
        free(copy);
    }
    lw_input_free(&in);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST_WITH(failing_allocations_leak_nothing, fixture_open, fixture_close)
{
    const char *file = put_report();
    struct lw_trace read = {.n = 77};

    EACH_ALLOCATION_FAILS(0, take(file, 1, &read, NULL), read, lw_trace_free(&read));
}

/* ---- the recorded files ---- */

static const struct {
    const char *file;
    int64_t tables, kernels, copies, sets, calls, syncs, events, nvtx, busy, sum, first, last;
} recorded[] = { /* ../shared/traces/truth.json */
    {"cnn_rtx2070s_oldschema.sqlite", 19, 46, 12, 4, 279, 68, 58, 82, 334427, 346684, 2792694214,
     2794688960},
    {"nvfuser_matmul_h100_schema3.16.sqlite", 85, 19, 1, 1, 975, 1, -1, 1054, 401436, 401436,
     1348466847, 1879651178},
    {"nvfuser_pytest_h200_schema3.17.sqlite", 87, 18, 3, 3, 990, 3, -1, 13513, 10167602, 10167602,
     5844617581, 9034955316},
};

TEST(recorded_files_have_the_counts_of_their_truth)
{
    if (access(NSYS, F_OK) != 0) {
        puts("SKIP: no " NSYS);
        skip();
    }
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        char file[128];
        struct lw_trace t;
        struct lw_err err = {0};
        snprintf(file, sizeof file, NSYS "%s", recorded[i].file);
        if (take(file, 0, &t, &err) != LW_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(count_of(&t, "tables"), recorded[i].tables);
        assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_KERNEL"), recorded[i].kernels);
        assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_MEMCPY"), recorded[i].copies);
        assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_MEMSET"), recorded[i].sets);
        assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_RUNTIME"), recorded[i].calls);
        assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"), recorded[i].syncs);
        assert_int_equal(count_of(&t, "CUPTI_ACTIVITY_KIND_CUDA_EVENT"), recorded[i].events);
        assert_int_equal(count_of(&t, "NVTX_EVENTS"), recorded[i].nvtx);
        assert_int_equal(count_of(&t, "kernel_busy_ns"), recorded[i].busy);
        assert_int_equal(count_of(&t, "kernel_sum_ns"), recorded[i].sum);
        assert_int_equal(count_of(&t, "first_kernel_ns"), recorded[i].first);
        assert_int_equal(count_of(&t, "last_kernel_end_ns"), recorded[i].last);
        assert_int_equal(count_of(&t, "launches_resolved"), recorded[i].kernels);
        lw_trace_free(&t);
    }
}

/* ---- through the program ---- */

TEST_WITH(a_report_goes_through_every_command, fixture_open, fixture_close)
{
    put_report();
    expect("inspect two.db", 0, "rank 1 of 2");
    expect("inspect two.db#2", 0, "two.db#2: nsys");
    expect("inspect two.db#9", 1, "it holds the work of 2");
    expect("inspect --format csv two.db", 0, "two.db#1,nsys,0,by_launch,step 0");
    expect("import --store two.db", 0, "run");
    expect("sim --replay two.db --spans", 0, "median period: predicted");
    expect("compare 1 2", 0, "step");
    expect("explain 2", 0, "critical");
    expect("plot timeline 2 -o t.svg", 0, "t.svg");
    expect("export 2 --format chrome -o t.json", 0, "");
    expect("inspect t.json", 0, "kineto");
    expect("import two.db -o w.json", 1, "no backward in the file");
    expect("import two.db --cluster-out c.json", 0, "all_reduce");
}

TEST_WITH(a_folder_and_a_pattern_stand_for_their_files, fixture_open, fixture_close)
{
    const char *file = put_report();
    struct lw_input in;
    struct lw_err err = {0};

    assert_int_equal(lw_input_read(file, 0, &in, &err), LW_OK);
    lw_input_free(&in);
    expect("inspect .", 0, "two.db#2");
    shell("mkdir d e && for i in 2 10; do cp two.db d/rank$i.db; done", NULL);
    has(lapwing("inspect 'd/rank*.db'", NULL), "d/rank10.db#2");
    const char *out = lapwing("inspect d/", NULL);
    assert_true(strstr(out, "rank2.db") < strstr(out, "rank10.db"));
    expect("inspect e", 1, "a folder without files");
    expect("inspect 'e/*'", 1, "no file matches");
    shell("echo words > d/notes", NULL);
    expect("inspect d", 1, "d/notes: this is text of no format that is known");
}
