/* Measured-run files: what is read of them, what is refused, and that a prediction knows nothing
 * of the result. The small file of the fuzz corpus is worked by hand; ../shared holds measured
 * ones. */
#include "tests/lib/unit.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/validate/validate_kinds.h"
#include "shared/cluster/measured.h"
#include "shared/json/jsonout.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/fuzz/groundtruth_target.h"

#define TINY "tests/fuzz/corpus/groundtruth/tiny.json"
#define SHARED "../shared/groundtruth/*__*.json"

static const lw_ps ms = LW_PS_PER_MS;

static struct lw_input input_of(const char *text)
{
    struct lw_input in = {.name = "t.json", .len = strlen(text)};

    in.text = calloc(in.len + LW_JSON_PADDING, 1);
    assert_non_null(in.text);
    memcpy(in.text, text, in.len);
    return in;
}

static struct lw_groundtruth read_ok(const char *text)
{
    struct lw_input in = input_of(text);
    struct lw_groundtruth g;
    struct lw_err err = {0};

    assert_ok(lw_groundtruth_read(&in, &g, &err), err);
    free(in.text);
    return g;
}

/* --- the small file --- */

TEST(a_workload_is_the_profile_of_rank_0_and_the_slower_step)
{
    char *text = fixture_get(TINY);
    struct lw_groundtruth g = read_ok(text);
    struct lw_workload w;
    struct lw_err err = {0};

    assert_ok(lw_gloo_workload(&g, &w, &err), err);
    assert_string_equal(w.name, "tiny");
    assert_int_equal(w.n_params, 2);
    assert_int_equal(w.params[1].ready_ps, 8 * ms);
    assert_int_equal(w.params[0].ready_ps, 20 * ms);
    assert_int_equal(w.ready_order[0], 1);
    assert_int_equal(lw_workload_backward_ps(&w), 20 * ms);
    assert_int_equal(w.gap_ps[LW_GAP_BEFORE_FORWARD], 1 * ms);
    assert_int_equal(w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 5 * ms); /* 41 - 1 - 10 - 20 - 5 */
    assert_int_equal(lw_workload_step_ps(&w), 41 * ms);
    lw_workload_free(&w);
    lw_groundtruth_free(&g);
    free(text);
}

/* Phases of 1 + 10 + 20 + 5 are longer than a step of 30: the forward gives 6. */
TEST(phases_longer_than_the_step_shorten_the_forward)
{
    char *text = fixture_get(TINY);
    char *less = fixture_replaced(text, "{\"median\": 0.04}", "{\"median\": 0.03}");
    char *both = fixture_replaced(less, "{\"median\": 0.041}", "{\"median\": 0.029}");
    struct lw_groundtruth g = read_ok(both);
    struct lw_workload w;
    struct lw_err err = {0};

    assert_ok(lw_gloo_workload(&g, &w, &err), err);
    assert_int_equal(lw_workload_forward_ps(&w), 4 * ms);
    assert_int_equal(lw_workload_step_ps(&w), 30 * ms);
    lw_workload_free(&w);
    lw_groundtruth_free(&g);
    free(both);
    free(less);
    free(text);
}

static void expect_profile(const char *text, lw_ps backward, const char *note)
{
    struct lw_groundtruth g = read_ok(text);
    struct lw_workload w;
    struct lw_err err = {0};

    assert_ok(lw_gloo_workload(&g, &w, &err), err);
    assert_int_equal(lw_workload_backward_ps(&w), backward);
    assert_string_equal(w.notes[0], note);
    lw_workload_free(&w);
    lw_groundtruth_free(&g);
}

TEST(a_rank_without_ready_times_is_replaced_and_it_is_said)
{
    char *text = fixture_get(TINY);
    char *one = fixture_replaced(text, "\"grad_ready\": {\"order\": [1, 0], \"ready_s\": [0.02,",
                                 "\"other\": {\"order\": [1, 0], \"ready_s\": [0.02,");
    char *none = fixture_replaced(one, "\"grad_ready\": {\"order\": [1, 0], \"ready_s\": [0.021,",
                                  "\"other\": {\"order\": [1, 0], \"ready_s\": [0.021,");

    expect_profile(text, 20 * ms, "ready times of rank 0 of the no_sync step");
    expect_profile(one, 21 * ms, "ready times of rank 1 of the no_sync step; rank 0 has none");
    expect_profile(none, 16 * ms, "ready times of a process alone; the no_sync step has none");
    free(none);
    free(one);
    free(text);
}

/* Small messages in their slow mode: 3.7 ms for 4 KiB where 64 KiB took 0.5. A size costs no
 * more than a larger one, CPU time no more than time, two at once between the time of one and of
 * two. */
TEST(the_microbenchmark_is_made_monotone)
{
    static const char sizes[] =
        "{\"bytes\": 4096, \"single\": {\"median\": 0.0037}, \"single_cpu_s\": 0.0007,"
        " \"two_in_flight\": {\"median\": 0.004}},"
        "{\"bytes\": 65536, \"single\": {\"median\": 0.0005}, \"single_cpu_s\": 0.0009,"
        " \"two_in_flight\": {\"median\": 0.0001}},"
        "{\"bytes\": 262144, \"single\": {\"median\": 0.002}, \"single_cpu_s\": 0.0006,"
        " \"two_in_flight\": {\"median\": 0.003}},";
    const struct {
        int64_t bytes, single, cpu, two;
    } rows[] = {{4096, 500, 500, 1000}, {65536, 500, 500, 500}, {262144, 2000, 600, 3000},
                {1048576, 10000, 4000, 20000}}; /* us */
    char *text = fixture_get(TINY);
    char *more = fixture_replaced(text, "{\"bytes\"", "@");
    char all[1024];
    struct lw_cluster c;
    struct lw_err err = {0};

    snprintf(all, sizeof all, "%s{\"bytes\"", sizes);
    char *whole = fixture_replaced(more, "@", all);
    struct lw_groundtruth g = read_ok(whole);
    assert_ok(lw_gloo_cluster(&g, &c, &err), err);
    assert_int_equal(c.n_tables, 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(c.tables[0].bytes[i], rows[i].bytes);
        assert_int_equal(c.tables[0].time_ps[i], rows[i].single * LW_PS_PER_US);
        assert_int_equal(c.tables[0].cpu_ps[i], rows[i].cpu * LW_PS_PER_US);
        assert_int_equal(c.tables[1].time_ps[i], rows[i].two * LW_PS_PER_US);
    }
    lw_cluster_free(&c);
    lw_groundtruth_free(&g);
    free(whole);
    free(more);
    free(text);
}

static void validate_text(const char *text, struct lw_validation *v)
{
    struct lw_input in = input_of(text);
    struct lw_err err = {0};

    *v = (struct lw_validation){0};
    assert_true(lw_validate_is_groundtruth(&in));
    assert_ok(lw_validate_groundtruth(&in, v, &err), err);
    free(in.text);
}

/* Two buckets of 1 MiB; alone 10 ms and 4 ms of CPU each; copies of 1 MiB take 0.262144 ms (4e9
 * B/s).
 *
 *    0          gap 1, forward 10
 *   11          backward: 8, then a copy: the first all-reduce starts at 19.262144
 *   19.262144   it wants 0.4 of the core for 10: of the 12 left of the backward 6 are done by
 *   29.262144   when it ends; the other 6 are done at 35.262144, copied at
 *   35.524288   the second all-reduce starts; the copy out of the first bucket runs beside it
 *   45.524288   it ends; copied out by 45.786432
 *   45.786432   optimizer 5, gap 5: 55.786432
 *
 * Measured: the slower rank, 56 ms and 56.6 ms. */
TEST(the_worked_example_comes_out_to_the_nanosecond)
{
    char *text = fixture_get(TINY);
    struct lw_validation v;

    validate_text(text, &v);
    assert_int_equal(v.n_cases, 2);
    assert_string_equal(v.cases[0].id, "tiny__1g__cap1");
    assert_string_equal(v.cases[1].id, "tiny__1g__cap25");
    assert_true(v.cases[0].predicted == 55786432 && v.cases[1].predicted == 55786432);
    assert_true(v.cases[0].measured == 56000000 && v.cases[1].measured == 56600000);
    assert_string_equal(v.cases[0].remark, "");
    assert_string_equal(v.cases[1].remark, "a first run of the same took 19.1 % more");
    lw_validation_free(&v);
    free(text);
}

TEST(a_run_that_was_not_measured_is_predicted_all_the_same)
{
    char *text = fixture_get(TINY);
    char *less = fixture_replaced(text, "{\"step\": {\"median\": 0.056}}", "\"lost\"");
    struct lw_validation v;

    validate_text(less, &v);
    assert_true(v.cases[0].predicted == 55786432 && v.cases[0].measured == 0);
    assert_non_null(strstr(v.cases[0].remark, "ddp.cap1 has no timing.step.median"));
    assert_true(v.cases[1].measured == 56600000);
    lw_validation_free(&v);
    free(less);
    free(text);
}

TEST(invalid_recording_is_refused_with_its_place)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"groundtruth/1", "groundtruth/2", "at schema: found \"lapwing-groundtruth/2\""},
        {"\"bytes\": 1048576,", "\"bytes\": 0,", "net.microbench.sizes[0]"},
        {"\"single_cpu_s\": 0.004,", "", "single_cpu_s"},
        {"\"sizes\": [", "\"sizes\": [], \"other\": [", "no size was measured"},
        {"\"median\": 0.01,", "\"median\": -0.01,", "net.microbench.sizes[0].single.median"},
        {"\"model_name\": \"tiny\"", "\"model_name\": \"\"", "model_name"},
        {"\"params\": [", "\"params\": [], \"other\": [", "no parameter"},
        {"\"numel\": 262144", "\"numel\": -1", "local.model.params[0]"},
        {"\"dtype\": \"float32\"", "\"dtype\": \"float12\"", "float12"},
        {"\"no_sync\"", "\"sync\"", "ddp.no_sync.rank0"},
        {"\"step\": {\"median\": 0.041}", "\"step\": {\"median\": null}", "ddp.no_sync.rank1"},
        {"\"bucket_cap_mb\": 1,", "\"bucket_cap_mb\": 2,", "where another rank has"},
        {"\"bucket_cap_mb\": 25, \"timing\": {\"step\": {\"median\": 0.0565}}",
         "\"bucket_cap_mb\": 0", "ddp.cap25.rank0.bucket_cap_mb"},
        {"\"cap25\": {\n", "\"cap1\": {\n", "cap1 is given twice"},
        {"{\"order\": [1, 0], \"ready_s\": [0.02,", "{\"order\": [1, 2], \"ready_s\": [0.02,",
         "grad_ready.order[1]: found 2"},
        {"{\"order\": [1, 0], \"ready_s\": [0.02,", "{\"order\": [null, 0], \"ready_s\": [0.02,",
         "grad_ready.order[0]: found -1"},
        {"\"dtype\": \"float32\"", "\"dtype\": null", "dtype"},
        {"{\"order\": [1, 0], \"ready_s\": [0.02,", "{\"order\": [1], \"ready_s\": [0.02,",
         "expected all 2"},
        {"{\"order\": [1, 0], \"ready_s\": [0.02,", "{\"order\": [1, 1], \"ready_s\": [0.02,",
         "a second time"},
    };
    char *text = fixture_get(TINY);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = fixture_replaced(text, cases[i].from, cases[i].to);
        struct lw_input in = input_of(bad);
        struct lw_validation v = {0};
        struct lw_err err = {0};
        enum lw_status s = lw_validate_groundtruth(&in, &v, &err);
        if (s == LW_OK || !strstr(err.msg, cases[i].says) || !strstr(err.msg, "t.json"))
            fail_msg("'%s' -> '%s': status %d, expected '%s': %s", cases[i].from, cases[i].to, s,
                     cases[i].says, err.msg);
        lw_validation_free(&v);
        free(in.text);
        free(bad);
    }
    free(text);
}

static enum lw_status judge(const struct lw_input *in)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    enum lw_status status = lw_validate_groundtruth(in, &v, &err);

    lw_validation_free(&v);
    return status;
}

TEST(every_failing_allocation_is_reported_and_leaks_nothing)
{
    char *text = fixture_get(TINY);
    struct lw_input in = input_of(text);

    EACH_ALLOCATION_FAILS_IN(1, judge(&in));
    free(in.text);
    free(text);
}

TEST(every_fuzz_corpus_file_is_read_or_refused)
{
    assert_true(fixture_corpus("tests/fuzz/corpus/groundtruth", LLVMFuzzerTestOneInput) >= 1);
}

/* --- a prediction knows nothing of the result --- */

/* Copies a document; under ddp.cap* every scalar but bucket_cap_mb becomes another one. */
static void scramble(struct lw_json *j, struct lw_jsonout *o, const char *key, int depth,
                     bool in_ddp, bool change)
{
    bool here = change && !(key && strcmp(key, "bucket_cap_mb") == 0);
    enum lw_json_type type = lw_json_type(j);

    if (type == LW_JSON_OBJECT || type == LW_JSON_ARRAY) {
        assert_true(lw_json_enter(j, type));
        type == LW_JSON_OBJECT ? lw_jsonout_object(o, key) : lw_jsonout_array(o, key);
        while (lw_json_next(j)) {
            char name[128] = "";
            if (type == LW_JSON_OBJECT)
                snprintf(name, sizeof name, "%s", lw_json_key(j, NULL));
            scramble(j, o, type == LW_JSON_OBJECT ? name : NULL, depth + 1,
                     depth == 0 && strcmp(name, "ddp") == 0,
                     change || (in_ddp && strncmp(name, "cap", 3) == 0));
        }
        lw_jsonout_end(o);
    } else if (type == LW_JSON_NUMBER) {
        size_t len;
        char text[64];
        const char *number = lw_json_number_text(j, &len);
        snprintf(text, sizeof text, "%.*s", (int)len, number);
        double x = strtod(text, NULL);
        if (strspn(text, "-0123456789") == strlen(text))
            lw_jsonout_int(o, key,
                           here ? 3 * strtoll(text, NULL, 10) + 1 : strtoll(text, NULL, 10));
        else
            lw_jsonout_double(o, key, here ? 3 * x + 0.5 : x);
    } else if (type == LW_JSON_STRING) {
        const char *text = lw_json_string(j, NULL);
        lw_jsonout_string(o, key, here ? "7, scrambled" : text);
    } else if (type == LW_JSON_BOOL) {
        lw_jsonout_bool(o, key, lw_json_bool(j) != here);
    } else {
        lw_jsonout_null(o, key);
    }
}

static char *scrambled(const char *text)
{
    struct lw_input in = input_of(text);
    struct lw_json *j;
    struct lw_err err = {0};
    char *out = NULL;
    size_t size = 0;
    struct lw_jsonout o = {.file = open_memstream(&out, &size)};

    assert_ok(lw_json_open("t.json", in.text, in.len, &j, &err), err);
    scramble(j, &o, NULL, 0, false, false);
    assert_ok(lw_json_done(j, &err), err);
    lw_json_close(j);
    fclose(o.file);
    free(in.text);
    return out;
}

/* Both files give the same predictions to the bit, and other measurements. */
static void expect_blind(const char *file)
{
    char *text = fixture_get(file), *other = scrambled(text);
    struct lw_validation v, w;

    fixture_put(fixture_path("scrambled.json"), other);
    free(other);
    other = fixture_get(fixture_path("scrambled.json"));
    validate_text(text, &v);
    validate_text(other, &w);
    assert_int_equal(v.n_cases, w.n_cases);
    assert_true(v.n_cases > 0);
    for (int32_t i = 0; i < v.n_cases; i++) {
        assert_string_equal(v.cases[i].id, w.cases[i].id);
        assert_memory_equal(&v.cases[i].predicted, &w.cases[i].predicted, sizeof(double));
        if (!(w.cases[i].measured > 2 * v.cases[i].measured))
            fail_msg("%s %s: the copy was not scrambled", file, v.cases[i].id);
    }
    lw_validation_free(&v);
    lw_validation_free(&w);
    free(other);
    free(text);
}

static void measured_files(glob_t *files)
{
    if (glob(SHARED, 0, NULL, files) == 0)
        return;
    printf("SKIP no %s: measured runs are not looked at\n", SHARED);
    skip();
}

TEST(predictions_are_blind_to_what_caps_measured)
{
    glob_t files;

    fixture_open(NULL);
    expect_blind(TINY);
    if (glob(SHARED, 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++)
            expect_blind(files.gl_pathv[i]);
        globfree(&files);
    } else {
        printf("SKIP no %s: only the small file was scrambled\n", SHARED);
    }
    fixture_close(NULL);
}

/* The bars that the model must reach, and the buckets that DDP logged, on every measured file. */
TEST(measured_runs_are_predicted_within_the_bars)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    glob_t files;

    measured_files(&files);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct lw_input in;
        if (lw_input_read(files.gl_pathv[i], 0, &in, &err) != LW_OK ||
            lw_validate_groundtruth(&in, &v, &err) != LW_OK)
            fail_msg("%s", err.msg);
        lw_input_free(&in);
    }
    assert_ok(lw_validation_judge(&v, &err), err);
    for (int32_t i = 0; i < v.n_misses; i++)
        print_message("missed: %s\n", v.misses[i].reason);
    assert_int_equal(v.n_misses, 0);
    assert_true(v.n_cases >= 4 * (int32_t)files.gl_pathc);
    for (int32_t i = 0; i < v.n_cases; i++)
        if (strstr(v.cases[i].remark, "buckets"))
            fail_msg("%s: %s", v.cases[i].id, v.cases[i].remark);
    globfree(&files);
    lw_validation_free(&v);
}

/* --- the command --- */

/* The worked example once more: import, then sim, as a user does it. */
TEST(import_and_sim_give_the_same_step)
{
    fixture_open(NULL);
    expect("import $P/" TINY " -o w.json --cluster-out c.json", 0,
           "note: ready times of rank 0 of the no_sync step");
    EXPECT("sim -w w.json -c c.json --dp 2 --bucket-policy c10d-1.13 --bucket-cap 1MiB",
           {"--collective-algorithm gloo --no-db --format json", 0, "\"step_ns\": 55786432"});
    expect("import $P/" TINY " -o w.json --step 1", 1, "concern PyTorch traces");
    fixture_close(NULL);
}

TEST(the_command_says_no_with_3_and_what_it_cannot_read_with_1)
{
    char *text = fixture_get(TINY);
    char *slow = fixture_replaced(text, "{\"median\": 0.056}", "{\"median\": 0.08}");

    fixture_open(NULL);
    expect("validate $P/" TINY, 0, "device.copy_bytes_per_s = 4e+09 B/s, on 34 rows");
    expect("validate $P/" TINY, 0, "every bar is reached");
    /* 55.786432 / 80 - 1 = -30.3 %, the mean with -1.4 %: 15.9 %; 80 against 56.6 is a wrong
     * pair */
    fixture_put(fixture_path("slow.json"), slow);
    EXPECT("validate",
           {"slow.json",
            3,
            "missed: groundtruth: worst 30.27 %, allowed 15 %: tiny__1g__cap1 is -30.3 % off",
            {"missed: groundtruth: order 0.00 %"}},
           {"$P/README.md", 1, "README.md: nothing that can be validated; expected a measured-run"},
           {"no-such-file.json", 1});
    expect("validate $P/" TINY " $P/" TINY, 1, "is given twice");
    expect("validate", 2, "");
    fixture_close(NULL);
    free(slow);
    free(text);
}
