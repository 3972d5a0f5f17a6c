/* Kineto traces: exact times, every generation of the format, and what is refused. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/traces/kineto_text.h"
#include "tests/fuzz/kineto_target.h"
#include "traces/trace/decimal_time.h"

/* ---- decimal text ---- */

TEST(decimal_times_keep_every_nanosecond)
{
    static const struct {
        const char *text;
        int power;
        int64_t want;
    } cases[] = {
        {"1712195495519689.123", 3, 1712195495519689123}, /* a double would say ...689250 */
        {"4458676522690.655", 3, 4458676522690655},
        {"0.0005", 3, 1}, {"0.00049", 3, 0}, {"-0.0005", 3, -1}, /* half away from zero */
        {"2.5e3", 3, 2500000}, {"25E-1", 0, 3}, {"+7", 0, 7}, {".5", 3, 500}, {"5.", 0, 5},
        {"9223372036854775807", 0, INT64_MAX}, {"00000000000000000000000000000000000012", 0, 12},
        {"0.000000000000000000000000000000000000001e40", 0, 10}, {"1e-400", 3, 0},
        {"0e999999999999", 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t got = -1;
        assert_true(traces_decimal(cases[i].text, strlen(cases[i].text), cases[i].power, &got));
        assert_int_equal(got, cases[i].want);
    }
}

TEST(decimal_refuses_what_is_no_number_or_too_large)
{
    static const char *const bad[] = {"",     "-",          ".",     "e5",
                                      "1e",   "1e+",        "1.2.3", "0x10",
                                      "NaN",  "Infinity",   "1 ",    "9223372036854775808",
                                      "1e19", "1e999999999"};
    int64_t value;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(traces_decimal(bad[i], strlen(bad[i]), 0, &value));
}

TEST(decimal_agrees_with_integer_arithmetic_on_random_times)
{
    unsigned seed = 7;

    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < 20000; i++) {
        int64_t us = (int64_t)rand() * 1000003 + rand(), frac = rand() % 1000, got;
        char text[64];
        snprintf(text, sizeof text, "%lld.%03lld", (long long)us, (long long)frac);
        assert_true(traces_decimal(text, strlen(text), 3, &got));
        assert_int_equal(got, us * 1000 + frac);
    }
}

/* ---- formats ---- */

/* What was read last. */
static struct lw_trace t;

static int done(void **state)
{
    (void)state;
    lw_trace_free(&t);
    return 0;
}

static void parse_ok(const char *text)
{
    struct lw_err err = {0};

    assert_ok(kineto_text(text, NULL, &t, &err), err);
}

#define TRACE_TEST(name) TEST_WITH(name, NULL, done)

TRACE_TEST(an_object_gives_rank_world_device_and_base)
{
    parse_ok("{\"baseTimeNanoseconds\": 1711964646000000000, \"traceEvents\": [],"
             "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 2},"
             "\"deviceProperties\": [{\"id\": 0, \"name\": \"A100\"}, {\"id\": 1}]}");
    assert_int_equal(t.rank, 1);
    assert_int_equal(t.world_size, 2);
    assert_string_equal(lw_trace_text(&t, t.device), "A100");
    assert_string_equal(lw_trace_text(&t, t.backend), "nccl");
    assert_int_equal(t.base_ns, 1711964646000000000);
    assert_int_equal(t.n, 0);
}

TRACE_TEST(a_bare_array_is_a_trace_whose_rank_is_unknown)
{
    parse_ok("[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7, "
             "\"ts\": 1.5,"
             "\"dur\": 2, \"args\": {\"stream\": 9, \"correlation\": 5}}, {\"ph\": \"i\"}]");
    assert_int_equal(t.n_events, 2);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.class[0], LW_ROW_KERNEL);
    assert_int_equal(t.start_ns[0], 1500);
    assert_int_equal(t.dur_ns[0], 2000);
    assert_int_equal(t.track[0], 9);
    assert_int_equal(t.link[0], 5);
    assert_int_equal(t.rank, -1);
}

TRACE_TEST(torch_1_9_categories_and_string_streams_are_understood)
{
    parse_ok("{\"traceEvents\": ["
             "{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"o\",\"pid\":1,\"tid\":\"2\",\"ts\":0,"
             "\"dur\":1},"
             "{\"ph\":\"X\",\"cat\":\"Runtime\",\"name\":\"r\",\"pid\":1,\"tid\":\"2\",\"ts\":1,"
             "\"dur\":1},"
             "{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":0,\"tid\":\"stream "
             "7\",\"ts\":2,\"dur\":1},"
             "{\"ph\":\"X\",\"cat\":\"Memcpy\",\"name\":\"m\",\"pid\":0,\"tid\":\"stream "
             "8\",\"ts\":3,\"dur\":1},"
             "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"t\",\"pid\":\"Traces\",\"tid\":\"x\","
             "\"ts\":3,\"dur\":1}]}");
    static const int want[] = {LW_ROW_HOST, LW_ROW_LAUNCH, LW_ROW_KERNEL, LW_ROW_MEM};
    assert_int_equal(t.n, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(t.class[i], want[i]);
    assert_int_equal(t.track[0], t.track[1]);
    assert_int_equal(t.track[2], 7);
    assert_int_equal(t.track[3], 8);
}

TRACE_TEST(collective_arguments_and_shapes_are_kept)
{
    parse_ok(
        "{\"traceEvents\": ["
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"nccl\",\"pid\":0,\"tid\":7,\"ts\":0,\"dur\":1,"
        "\"args\":{"
        "\"Collective name\":\"_allgather_base\",\"In msg nelems\":10,\"Out msg nelems\":20,"
        "\"Group size\":2,\"dtype\":\"BFloat16\",\"Process Group Ranks\":\"[0, 1]\"}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c10d::allreduce_\",\"pid\":1,\"tid\":1,\"ts\":"
        "1,\"dur\":1,"
        "\"args\":{\"Input Dims\":[[[2,3],[4]],[],[]],\"Input type\":[\"TensorList\",\"\",\"\"]}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::add\",\"pid\":1,\"tid\":1,\"ts\":2,"
        "\"dur\":1,"
        "\"args\":{\"Input Dims\":[[2,3]],\"Sequence number\":12}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"torch::autograd::AccumulateGrad\",\"pid\":1,"
        "\"tid\":1,"
        "\"ts\":3,\"dur\":1,\"args\":{\"Input Dims\":[[]],\"Input type\":[\"c10::Half\"]}}]}");
    assert_int_equal(t.n_details, 3); /* shapes of ordinary ops are not worth their memory */
    const struct lw_row_detail *d = &t.details[t.detail[0]];
    assert_string_equal(lw_trace_text(&t, d->op), "_allgather_base");
    assert_int_equal(d->in_numel, 10);
    assert_int_equal(d->out_numel, 20);
    assert_int_equal(d->group_size, 2);
    assert_int_equal(t.details[t.detail[1]].shape_numel, 10); /* 2 x 3 + 4 */
    assert_int_equal(t.detail[2], -1);
    assert_int_equal(t.link[2], 12);
    assert_int_equal(t.details[t.detail[3]].shape_numel, 1);  /* a scalar */
    enum lw_dtype dtype;
    assert_true(lw_trace_dtype(&t, t.details[t.detail[3]].shape_type, &dtype));
    assert_int_equal(dtype, LW_F16);
}

static struct lw_row_detail sized(const char *sizes, const char *types)
{
    const struct lw_trace_reading options = {.shapes = true};
    struct lw_err err = {0};
    char text[2048];

    lw_trace_free(&t);
    snprintf(text, sizeof text,
             "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::cat\","
             "\"pid\":1,\"tid\":1,\"ts\":2,\"dur\":1,\"args\":{\"Input Dims\":%s,"
             "\"Input type\":%s}}]}",
             sizes, types);
    assert_ok(kineto_text(text, &options, &t, &err), err);
    return *lw_trace_detail(&t, 0);
}

/* Of all inputs where they are asked for; what is no size is absent. */
TRACE_TEST(sizes_of_all_inputs_are_kept)
{
    struct lw_row_detail d =
        sized("[[[2,3],[4]],[],[8,1]]", "[\"TensorList\",\"Scalar\",\"float\"]");

    assert_string_equal(lw_trace_text(&t, d.input_sizes - 1), "*10;;8,1;");
    assert_string_equal(lw_trace_text(&t, d.input_types - 1), "TensorList;Scalar;float;");
    assert_int_equal(d.input_values, 0);
    static const char *const bad[] = {"[[-1,3]]", "[[99999999999999999999]]", "[[3000000000,"
                                      "3000000000,3000000000]]", "[4]", "7", "[[[-1]]]",
                                      "[[\"x\"]]", "[]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sized(bad[i], "[\"float\"]").input_sizes, 0);
    assert_int_equal(sized("[[4]]", "[\"a;b\"]").input_types, 0);
}

TRACE_TEST(keys_may_come_in_any_order)
{
    parse_ok(
        "{\"traceEvents\": [{\"args\": {\"Input Dims\": [[8, 4]], \"Input type\": [\"float\"]},"
        "\"dur\": 3, \"ts\": \"2\", \"tid\": 4, \"pid\": 1, \"name\": \"gloo:all_reduce\","
        "\"cat\": \"user_annotation\", \"ph\": \"X\"}]}");
    assert_int_equal(t.n, 1);
    assert_int_equal(t.start_ns[0], 2000);
    assert_int_equal(t.details[t.detail[0]].shape_numel, 32);
}

TRACE_TEST(negative_durations_count_as_zero_and_are_reported)
{
    parse_ok("[" X("cpu_op", "a", "1", "5", "-1", "") "]");
    assert_int_equal(t.dur_ns[0], 0);
    assert_int_equal(t.n_negative, 1);
}

TRACE_TEST(sorting_puts_parents_before_their_children)
{
    parse_ok("[" X("cpu_op", "late", "1", "9", "1", "") ","
             X("cpu_op", "child", "1", "5", "1", "") ","
             X("cpu_op", "parent", "1", "5", "4", "") "]");
    assert_int_equal(lw_trace_sort(&t, NULL), LW_OK);
    assert_string_equal(lw_trace_name(&t, 0), "parent");
    assert_string_equal(lw_trace_name(&t, 1), "child");
    assert_string_equal(lw_trace_name(&t, 2), "late");
    assert_int_equal(lw_trace_row_at(&t, 5001), 2);
}

/* ---- what is refused ---- */

TEST(bad_contents_are_refused_with_file_and_place)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"hello", "t.json"},
        {"", "t.json"},
        {"{\"a\": 1}", "no \"traceEvents\""},
        {"3", "t.json"},
        {"{\"traceEvents\": 7}", "traceEvents"},
        {"{\"traceEvents\": [4]}", "traceEvents[0]"},
        {"{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2",
         "t.json"},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1}]", "needs \"dur\""},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":1}]", "needs \"ts\""},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":\"soon\",\"dur\":1}]", "[0].ts"},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1e300,\"dur\":1}]", "[0].ts"},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":9223372036854775}]",
         "a time of 9223372036854775 us is beyond 73 years from 0"},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":-2305843009213694,\"dur\":1}]",
         "a time of -2305843009213694 us is beyond 73 years from 0"},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":NaN,\"dur\":1}]", "t.json"},
        {"[{\"ph\":\"X\"},]", "t.json"},
        {"{\"baseTimeNanoseconds\":9223372036854775808,\"traceEvents\":[]}",
         "baseTimeNanoseconds (byte 23): found 9223372036854775808"},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":7,\"dur\":1},"
         "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1712195495519689,\"dur\":1}]",
         "span 19817 days"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_trace none = {.n = 77};
        struct lw_err err = {0};
        assert_int_equal(kineto_text(cases[i].text, NULL, &none, &err), LW_EFORMAT);
        if (!strstr(err.msg, "t.json") || !strstr(err.msg, cases[i].want) || strchr(err.msg, '\n'))
            fail_msg("%s -> %s", cases[i].text, err.msg);
        assert_int_equal(none.n, 77); /* output unset */
    }
}

TEST(failing_allocations_leak_nothing)
{
    static const char text[] =
        "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,"
        "\"ts\":0,\"dur\":1,\"args\":{\"Collective name\":\"x\"}}], \"deviceProperties\": "
        "[{\"name\":\"d\"}]}";
    struct lw_trace read = {.n = 77};

    EACH_ALLOCATION_FAILS(0, kineto_text(text, NULL, &read, NULL), read, lw_trace_free(&read));
}

TEST(every_fuzz_corpus_file_is_read_or_refused)
{
    assert_true(fixture_corpus("tests/fuzz/corpus/kineto", LLVMFuzzerTestOneInput) >= 5);
}
