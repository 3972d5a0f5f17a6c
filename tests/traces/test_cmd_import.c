/* `lapwing import`, `inspect` and `bench import` as a user runs them. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define GPU_FILE "tests/fuzz/corpus/kineto/gpu.json"
#define GPU "$P/" GPU_FILE
#define GLOO "$R/resnet18__gloo2__cap5.rank0.json.gz"
#define GLOO1 "$R/resnet18__gloo2__cap5.rank1.json.gz"

static const char *out; /* of the last command, both outputs */

static int run(const char *args)
{
    int rc;

    out = lapwing(args, &rc);
    return rc;
}

static void run_ok(const char *args)
{
    out = lapwing(args, NULL);
}

/* The numbers of a CSV line, by the titles of the first. */
static const char *cell(const char *line, const char *title)
{
    static char text[256];
    const char *t = out, *p = line;

    while (strncmp(t, title, strlen(title)) != 0 || !strchr(",\n", t[strlen(title)])) {
        t += strcspn(t, ",\n");
        assert_true(*t == ',');
        t++;
        p += strcspn(p, ",\n") + 1;
    }
    snprintf(text, sizeof text, "%.*s", (int)strcspn(p, ",\n"), p);
    return text;
}

static int count_of(const char *word)
{
    int n = 0;

    for (const char *p = out; (p = strstr(p, word)); p += strlen(word))
        n++;
    return n;
}

/* Of a step six all_reduce and two short broadcasts. */
TEST(inspect_prints_the_ten_longest_collectives)
{
    run_ok("inspect " GLOO " --all");
    assert_int_equal(count_of("  all_reduce  "), 12);
    assert_int_equal(count_of("  broadcast  "), 4);
    assert_null(strstr(out, "longest"));
    run_ok("inspect " GLOO);
    assert_int_equal(count_of("  all_reduce  "), 10);
    assert_int_equal(count_of("  broadcast  "), 0);
    assert_non_null(strstr(out, "  the 10 longest of 16 collectives; --all prints every one\n"));
}

TEST(inspect_prints_a_line_per_window_kernel_and_step)
{
    fixture_put(fixture_path("t.json"),
                "[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#3\",\"pid\":1,"
                "\"tid\":1,\"ts\":0,\"dur\":100},"
                "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"l\",\"pid\":1,\"tid\":1,\"ts\":"
                "5,\"dur\":1,\"args\":{\"correlation\":1}},"
                "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce\",\"pid\":0,"
                "\"tid\":7,\"ts\":10,\"dur\":4,"
                "\"args\":{\"stream\":7,\"correlation\":1,\"Collective name\":\"allreduce\",\"In "
                "msg nelems\":8,\"Out msg nelems\":8,"
                "\"dtype\":\"Half\",\"Group size\":2}}]");
    run_ok("inspect t.json --format csv");
    const char *whole = strstr(out, ",whole,"), *comm = strstr(out, ",comm,ProfilerStep#3");
    const char *step = strstr(out, ",step,ProfilerStep#3");
    assert_true(whole && comm && step && strstr(out, ",by_time,") && strstr(out, ",by_launch,"));
    while (whole[-1] != '\n') whole--;
    while (comm[-1] != '\n') comm--;
    while (step[-1] != '\n') step--;
    assert_string_equal(cell(whole, "comm_busy_ns"), "4000");
    assert_string_equal(cell(whole, "n_gpu_ops"), "1");
    assert_string_equal(cell(comm, "op"), "allreduce");
    assert_string_equal(cell(comm, "bytes"), "16");
    assert_string_equal(cell(comm, "launch_ns"), "5000");
    assert_string_equal(cell(comm, "dur_ns"), "4000");
    assert_string_equal(cell(comm, "window_ns"), "");
    assert_string_equal(cell(step, "window_ns"), "100000");
}

TEST(several_files_give_the_same_bytes_on_one_core_and_on_all)
{
    static const char files[] = GLOO " " GPU " " GLOO1 " $P/tests/fuzz/corpus/kineto/old.json " GPU;
    char args[1024], pinned[1100];
    int rc;

    snprintf(args, sizeof args, "inspect %s --format json", files);
    run_ok(args);
    char *first = strdup(out);
    for (int i = 0; i < 3; i++) {
        run_ok(args);
        assert_string_equal(out, first);
    }
    snprintf(pinned, sizeof pinned, "taskset -c 0 $L %s", args);
    out = shell(pinned, &rc);
    if (rc == 0) /* taskset is there */
        assert_string_equal(out, first);
    free(first);
}

TEST(of_several_bad_files_the_first_is_reported)
{
    fixture_put(fixture_path("a.json"), "{\"traceEvents\": [");
    fixture_put(fixture_path("b.json"), "nonsense");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run("inspect " GLOO " b.json a.json " GLOO1), 1);
        assert_non_null(strstr(out, "b.json"));
        assert_null(strstr(out, "a.json"));
    }
}

TEST(a_format_that_is_not_read_is_told_what_is)
{
    fixture_put(fixture_path("goal"), "<html></html>");
    assert_int_equal(run("import goal -o w.json"), 1);
    assert_non_null(strstr(out, "HTML or XML"));
    assert_non_null(strstr(out, "Kineto"));
    assert_non_null(strstr(out, "nccl-tests"));
    assert_non_null(strstr(out, "PipeDream"));
    fixture_put(fixture_path("et.json"), "{\"schema\": \"1.0.1\", \"nodes\": []}");
    assert_int_equal(run("inspect et.json"), 1);
    assert_non_null(strstr(out, "execution trace"));
    assert_int_equal(run("inspect $P/tests/fuzz/corpus/files/workload.json"), 1);
    assert_non_null(strstr(out, "Lapwing's own"));
    fixture_put(fixture_path("empty"), "");
    assert_int_equal(run("inspect empty"), 1);
    assert_non_null(strstr(out, "empty: empty"));
}

TEST(salvaging_says_how_much_was_kept_and_where_it_broke)
{
    char *text = fixture_get(GPU_FILE);

    text[strlen(text) - 40] = '\0';
    fixture_put(fixture_path("cut.json"), text);
    free(text);
    assert_int_equal(run("inspect cut.json"), 1);
    assert_non_null(strstr(out, "byte "));
    run_ok("inspect cut.json --salvage");
    assert_non_null(strstr(out, "salvaged: the events before "));
    assert_non_null(strstr(out, "byte "));
    run_ok("inspect cut.json --salvage --format json");
    assert_non_null(strstr(out, "\"damage\": \""));
}

TEST(a_version_without_constants_leaves_the_clusters_own)
{
    fixture_put(fixture_path("old.txt"),
                "NCCL version 2.18.6\n./all_reduce_perf\n"
                "#  Rank  0 Group  0 Pid  1 on h device  0 [0x07] NVIDIA H100\n"
                "#  Rank  1 Group  0 Pid  1 on h device  1 [0x0f] NVIDIA H100\n"
                "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n"
                "1048576 262144 float sum -1 35 29.96 29.96 0\n");
    run_ok("import old.txt --onto dgx-h100 --cluster-out c.json");
    assert_non_null(strstr(out, "NCCL is 2.18.6, whose constants are not known: 'dgx-h100' keeps"));
    run_ok("cost -c c.json --ranks 8 --bytes 1024 --algorithm nccl");
}

/* One rank needs no link, so that no rate of its table is too fast. */
TEST(a_table_of_one_rank_is_laid_onto_a_cluster)
{
    fixture_put(fixture_path("one.csv"), "op,nranks,nnodes,size_bytes,time_us\n"
                                         "all_reduce,1,1,1073741824,1.5\n"
                                         "all_gather,1,1,1073741824,1.5\n"
                                         "broadcast,1,1,1073741824,1.5\n");
    run_ok("import one.csv --onto dgx-h100 --cluster-out c.json");
    assert_null(strstr(out, "measured on this fabric"));
    assert_non_null(strstr(out, "3 measured tables"));
}

TEST(measured_tables_and_profiles_are_imported_by_content)
{
    run_ok("import $P/tests/fuzz/corpus/bench/today.txt --cluster-out c.json");
    run_ok("cost -c c.json --bytes 1024 --format json");
    assert_non_null(strstr(out, "\"time_ns\": 30500,"));
    assert_non_null(strstr(out, "today.txt"));
    run_ok("import $P/tests/fuzz/corpus/bench/today.txt --cluster-out c.json --format csv");
    assert_non_null(strstr(out, "all_reduce,f32,2,2,1,1024,30500,"));
    assert_int_equal(run("import $P/tests/fuzz/corpus/bench/today.txt -o w.json"), 1);
    assert_true(text_says(out, "gives no workload"));
    run_ok("import $P/tests/fuzz/corpus/pipedream/graph.txt -o w.json --format json");
    assert_non_null(strstr(out, "\"format\": \"pipedream\""));
    run_ok("plan -w w.json --dp 2 -o p.json");
    assert_int_equal(run("import $P/tests/fuzz/corpus/pipedream/graph.txt --step 1 -o w.json"), 1);
    assert_true(text_says(out, "concern PyTorch traces"));
    assert_int_equal(run("import " GLOO " $P/tests/fuzz/corpus/bench/today.txt -o w.json"), 1);
    assert_true(text_says(out, "import them apart"));
}

/* The stored recording and its replay are two runs of one plan, joined op by op. */
TEST(a_stored_recording_is_compared_with_its_replay)
{
    run_ok("import " GLOO " --store --db t.db");
    assert_non_null(strstr(out, "stored as run 1"));
    run_ok("sim --replay " GLOO " --spans --db t.db");
    run_ok("runs --db t.db --format json");
    assert_non_null(strstr(out, "\"import\""));
    run_ok("compare 2 1 --db t.db --format json");
    run_ok("plot timeline 1 --db t.db -o t.svg");
    assert_int_equal(run("import $P/tests/fuzz/corpus/pipedream/graph.txt --store --db t.db"), 1);
    assert_non_null(strstr(out, "holds no timeline"));
}

TEST(bench_import_repeats_a_trace_to_the_size_asked_for)
{
    long long bytes = 0, events = 0;

    run_ok("bench import " GPU " --size 1MB --format json");
    const char *at = strstr(out, "\"json_bytes\":");
    assert_non_null(at);
    sscanf(at, "\"json_bytes\": %lld", &bytes);
    at = strstr(out, "\"n_events\":");
    sscanf(at, "\"n_events\": %lld", &events);
    assert_true(bytes >= 1000000 && bytes < 1100000);
    char *text = fixture_get(GPU_FILE);
    int one = 0;
    for (char *p = text; (p = strstr(p, "\"ph\"")) != NULL; p++)
        one++;
    free(text);
    assert_true(one > 0 && events > one);
    assert_int_equal(events % one, 0);
    assert_non_null(strstr(out, "\"gzip\": {"));
    assert_non_null(strstr(out, "\"memory_multiple\": "));
    double wall_s = 0;
    int n_cores = 0;
    assert_int_equal(sscanf(strstr(out, "\"wall_s\":"), "\"wall_s\": %lf, \"n_cores\": %d", &wall_s,
                            &n_cores), 2);
    assert_true(wall_s > 0 && n_cores >= 1);
    assert_non_null(strstr(out, "\"cpu_s\": "));
    assert_int_equal(run("bench import"), 2);
    assert_int_equal(run("bench import $P/tests/fuzz/corpus/bench/today.txt"), 1);
}

/* What a system leaves of a file whose writer was stopped before its pages were written. */
TEST(a_file_of_zero_bytes_is_told_apart)
{
    FILE *f = fopen(fixture_path("cut.json"), "wb");
    assert_non_null(f);
    for (int i = 0; i < 5000; i++)
        putc(0, f);
    fclose(f);
    expect("inspect cut.json", 1, "cut.json: this is a file that begins with zero bytes");
    expect("sim --replay cut.json --db cut.db", 1, "begins with zero bytes");
    assert_int_not_equal(access(fixture_path("cut.db"), F_OK), 0);
}

static long long bench_value(const char *key)
{
    const char *at = strstr(out, key);

    assert_non_null(at);
    return strtoll(at + strlen(key) + 2, NULL, 10); /* after its quote and colon */
}

TEST(bench_inspect_measures_the_command_on_a_file)
{
    run_ok("bench inspect " GPU " --format json");
    assert_true(bench_value("file_bytes") > 0);
    assert_true(bench_value("peak_rss_bytes") > 1 << 20);
    assert_int_equal(bench_value("n_kernels"), 0);
    run_ok("bench inspect " GPU);
    assert_non_null(strstr(out, "inspect "));
    assert_int_equal(run("bench inspect"), 2);
    assert_int_equal(run("bench inspect $P/tests/fuzz/corpus/bench/today.txt " GPU), 2);
    assert_int_equal(run("bench inspect no_such_file"), 1);
    fixture_put(fixture_path("bench_nul.json"), "nothing");
    assert_int_equal(run("bench inspect bench_nul.json"), 1);
}

TEST(bench_nsys_reads_a_generated_report)
{
    run_ok("bench nsys --kernels 2500 --format json");
    assert_int_equal(bench_value("n_kernels"), 2500);
    assert_true(bench_value("kernels_per_s") > 0);
    assert_true(bench_value("file_bytes") > 2500 * 60);
    assert_int_equal(run("bench nsys --kernels 0"), 2);
}

/* SIGTERM, as a shell's background commands ignore SIGINT; the handler is the same. */
TEST(a_bench_that_is_ended_leaves_no_file)
{
    static const char *const benches[] = {"nsys --kernels 3000000", "store"};

    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
        const char *said =
            shellf("rm -rf scratch; mkdir scratch; TMPDIR=scratch $L bench %s > /dev/null & p=$!; "
                   "until [ -n \"$(find scratch -type f -size +0)\" ] || ! kill -0 $p; "
                   "do sleep 0.01; done; kill -TERM $p; wait $p; "
                   "echo $? with $(ls scratch | wc -l)",
                   benches[i]);
        has(said, "143 with 0\n");
    }
}

static void copy_damaged(const char *from, const char *to, long cut, long flip)
{
    static char bytes[1 << 20];
    FILE *f = fopen(from, "rb");

    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    if (flip)
        bytes[n - (size_t)flip] ^= 1;
    f = fopen(fixture_path(to), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, cut ? (size_t)cut : n, f), cut ? (size_t)cut : n);
    fclose(f);
}

TEST(bad_input_gets_one_line_exit_1_and_no_output)
{
    static const struct {
        const char *args, *want;
    } cases[] = {
        {"import absent.json -o o.json", "absent.json: cannot open"},
        {"import text.json -o o.json", "text.json"},
        {"import cut.json -o o.json", "cut.json"},
        {"import cut.json.gz -o o.json",
         "cut.json.gz: byte 5000: the gzip data ends too early (truncated)"},
        {"import sum.json.gz -o o.json", "the gzip data is damaged (incorrect data check)"},
        {"import nostep.json -o o.json", "no training step: expected ProfilerStep#N"},
        {"import nostep.json --step 5 -o o.json",
         "nostep.json: --step 5: this trace has no ProfilerStep"},
        {"import nostep.json --step 0 -o o.json",
         "nostep.json: --step 0: this trace has no ProfilerStep"},
        {"import other.json -o o.json", "no \"traceEvents\""},
        {"import $P/tests/fuzz/corpus/kineto/gpu.json -o o.json",
         "Record whole training steps with"},
        {"import $P/tests/fuzz/corpus/kineto/cpu_ddp.json --step 77 -o o.json", "--step 77"},
        {"import $P/tests/fuzz/corpus/kineto/cpu_ddp.json --sidecar absent -o o.json", "absent"},
        {"import $P/tests/fuzz/corpus/kineto/cpu_ddp.json --sidecar badside.json -o o.json",
         "badside.json"},
        {"import $P/tests/fuzz/corpus/kineto/cpu_ddp.json --model-params badside.json -o o.json",
         "badside.json"},
        {"import $P/tests/fuzz/corpus/kineto/cpu_ddp.json -o no/such/o.json", "no/such/o.json"},
        {"import $P/tests/fuzz/corpus/kineto/cpu_ddp.json -o - > /dev/full", "No space left"},
        {"import $P/tests/fuzz/corpus/kineto/cpu_ddp.json -o /dev/full", "/dev/full: "},
        {"import $R/gpt6__local.rank0.json.gz -o o.json --cluster-out c.json",
         "no collective of known size"},
        {"inspect absent.json", "absent.json: cannot open"},
        {"inspect cut.json --format csv", "cut.json"},
        {"inspect $P/tests/fuzz/corpus/kineto/gpu.json cut.json", "cut.json"},
        {"inspect $P/tests/fuzz/corpus/kineto/gpu.json > /dev/full", "No space left"},
    };

    fixture_put(fixture_path("text.json"), "hello, world\n");
    fixture_put(fixture_path("cut.json"),
                "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"na");
    fixture_put(fixture_path("other.json"), "{\"lapwing\": 1}");
    fixture_put(fixture_path("badside.json"), "{\"lapwing\": 2, \"kind\": \"recording\"}");
    fixture_put(fixture_path("nostep.json"),
                "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":0,\"dur\":1}]");
    copy_damaged("traces/recorded/gpt6__local.rank0.json.gz", "cut.json.gz", 5000, 0);
    copy_damaged("traces/recorded/gpt6__local.rank0.json.gz", "sum.json.gz", 0, 6);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = run(cases[i].args);
        if (rc != 1 || !text_says(out, cases[i].want) || !is_one_message(out))
            fail_msg("lapwing %s: exit %d: %s", cases[i].args, rc, out);
        assert_int_not_equal(access(fixture_path("o.json"), F_OK), 0);
    }
}

TEST(wrong_usage_exits_2)
{
    static const char *const cases[] = {"import", "import $P/tests/fuzz/corpus/kineto/cpu_ddp.json",
                                        "import a b --sidecar c -o d", "inspect", "inspect --nope",
                                        "inspect x --format yaml"};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(run(cases[i]), 2);
}

TEST(the_command_writes_a_workload_that_reads_back_the_same_twice)
{
    struct lw_workload w;
    struct lw_err err = {0};

    expect("import $R/gpt6__local.rank0.json.gz -o w.json --format json", 0,
           "\"coverage_pct\": 100.000");
    shell("$L import $R/gpt6__local.rank0.json.gz -o v.json && cmp w.json v.json", NULL);
    assert_ok(lw_workload_read(fixture_path("w.json"), &w, &err), err);
    assert_string_equal(w.name, "gpt6");
    assert_int_equal(w.n_params, 76);
    assert_int_equal(w.n_ready, 76);
    assert_string_equal(w.params[w.ready_order[75]].name, "tokens.weight"); /* tied, so last */
    lw_workload_free(&w);
}

TEST_GROUP(fixture_open, fixture_close)
