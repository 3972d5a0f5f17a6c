/* `lapwing import`, `inspect` and `bench import` as a user runs them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/command_fixture.h"
#include "tests/file_fixture.h"

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

static void inspect_prints_a_line_per_window_kernel_and_step(void **state)
{
    (void)state;
    fixture_put(fixture_path("t.json"),
                "[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#3\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":100},"
                "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"l\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":1,\"args\":{\"correlation\":1}},"
                "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce\",\"pid\":0,\"tid\":7,\"ts\":10,\"dur\":4,"
                "\"args\":{\"stream\":7,\"correlation\":1,\"Collective name\":\"allreduce\",\"In msg nelems\":8,\"Out msg nelems\":8,"
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

static void several_files_give_the_same_bytes_on_one_core_and_on_all(void **state)
{
    static const char files[] = GLOO " " GPU " " GLOO1 " $P/tests/fuzz/corpus/kineto/old.json " GPU;
    char args[1024], pinned[1100];
    int rc;

    (void)state;
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

static void of_several_bad_files_the_first_is_reported(void **state)
{
    (void)state;
    fixture_put(fixture_path("a.json"), "{\"traceEvents\": [");
    fixture_put(fixture_path("b.json"), "nonsense");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run("inspect " GLOO " b.json a.json " GLOO1), 1);
        assert_non_null(strstr(out, "b.json"));
        assert_null(strstr(out, "a.json"));
    }
}

static void a_format_that_is_not_read_is_told_what_is(void **state)
{
    (void)state;
    fixture_put(fixture_path("goal"), "num_ranks 2\nrank 0 { }\n");
    assert_int_equal(run("import goal -o w.json"), 1);
    assert_non_null(strstr(out, "a GOAL schedule"));
    assert_non_null(strstr(out, "Kineto"));
    assert_non_null(strstr(out, "nccl-tests"));
    assert_non_null(strstr(out, "PipeDream"));
    fixture_put(fixture_path("et.json"), "{\"schema\": \"1.0.1\", \"pid\": 1, \"nodes\": []}");
    assert_int_equal(run("inspect et.json"), 1);
    assert_non_null(strstr(out, "execution trace"));
    assert_int_equal(run("inspect $P/tests/fuzz/corpus/files/workload.json"), 1);
    assert_non_null(strstr(out, "Lapwing's own"));
    fixture_put(fixture_path("empty"), "");
    assert_int_equal(run("inspect empty"), 1);
    assert_non_null(strstr(out, "empty: empty"));
}

static void salvaging_says_how_much_was_kept_and_where_it_broke(void **state)
{
    char *text = fixture_get(GPU_FILE);

    (void)state;
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

static void measured_tables_and_profiles_are_imported_by_content(void **state)
{
    (void)state;
    run_ok("import $P/tests/fuzz/corpus/bench/today.txt --cluster-out c.json");
    run_ok("cost -c c.json --bytes 1024 --format json");
    assert_non_null(strstr(out, "\"time_ns\": 30500,"));
    assert_non_null(strstr(out, "today.txt"));
    run_ok("import $P/tests/fuzz/corpus/bench/today.txt --cluster-out c.json --format csv");
    assert_non_null(strstr(out, "all_reduce,f32,2,2,1,1024,30500,"));
    assert_int_equal(run("import $P/tests/fuzz/corpus/bench/today.txt -o w.json"), 1);
    assert_non_null(strstr(out, "gives no workload"));
    run_ok("import $P/tests/fuzz/corpus/pipedream/graph.txt -o w.json --format json");
    assert_non_null(strstr(out, "\"format\": \"pipedream\""));
    run_ok("plan -w w.json --dp 2 -o p.json");
    assert_int_equal(run("import $P/tests/fuzz/corpus/pipedream/graph.txt --step 1 -o w.json"), 1);
    assert_non_null(strstr(out, "concern PyTorch traces"));
    assert_int_equal(run("import " GLOO " $P/tests/fuzz/corpus/bench/today.txt -o w.json"), 1);
    assert_non_null(strstr(out, "import them apart"));
}

/* The stored recording and its replay are two runs of one plan, joined op by op. */
static void a_stored_recording_is_compared_with_its_replay(void **state)
{
    (void)state;
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

static void bench_import_repeats_a_trace_to_the_size_asked_for(void **state)
{
    long long bytes = 0, events = 0;

    (void)state;
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
    assert_int_equal(run("bench import"), 2);
    assert_int_equal(run("bench import $P/tests/fuzz/corpus/bench/today.txt"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inspect_prints_a_line_per_window_kernel_and_step),
        cmocka_unit_test(several_files_give_the_same_bytes_on_one_core_and_on_all),
        cmocka_unit_test(of_several_bad_files_the_first_is_reported),
        cmocka_unit_test(a_format_that_is_not_read_is_told_what_is),
        cmocka_unit_test(salvaging_says_how_much_was_kept_and_where_it_broke),
        cmocka_unit_test(measured_tables_and_profiles_are_imported_by_content),
        cmocka_unit_test(a_stored_recording_is_compared_with_its_replay),
        cmocka_unit_test(bench_import_repeats_a_trace_to_the_size_asked_for),
    };

    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
