/* A text read in parts, each on a thread, gives the rows of one reader; where a part does not begin
 * with an event, or anything is wrong, it is read in one go, with the same message. */
#include "tests/lib/unit.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/prng.h"
#include "tests/lib/traces/kineto_text.h"

static struct lw_trace read_as(const char *text, size_t part, struct lw_err *err)
{
    struct lw_trace_reading options = {.alone = true, .shapes = true};
    struct lw_trace t = {0};

    lw_kineto_parts(part);
    if (part == 0)
        options.alone = false;
    if (kineto_text(text, &options, &t, err) == LW_OK) /* rows of parts are sorted already */
        assert_int_equal(lw_trace_sort(&t, err), LW_OK);
    lw_kineto_parts(0);
    return t;
}

static void equal_details(const struct lw_trace *a, const struct lw_trace *b, int64_t row)
{
    const struct lw_row_detail *x = lw_trace_detail(a, row), *y = lw_trace_detail(b, row);

    /* without the padding after the last member */
    assert_memory_equal(x, y, offsetof(struct lw_row_detail, input_values) + sizeof(int32_t));
}

static void equal(const struct lw_trace *a, const struct lw_trace *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->strings.n, b->strings.n);
    for (int32_t i = 0; i < (int32_t)a->strings.n; i++)
        assert_string_equal(a->strings.text[i], b->strings.text[i]);
    for (int64_t i = 0; i < a->n; i++) {
        assert_int_equal(a->start_ns[i], b->start_ns[i]);
        assert_int_equal(a->dur_ns[i], b->dur_ns[i]);
        assert_int_equal(a->link[i], b->link[i]);
        assert_int_equal(a->name[i], b->name[i]);
        assert_int_equal(a->track[i], b->track[i]);
        assert_int_equal(a->class[i], b->class[i]);
        assert_int_equal(a->record[i], b->record[i]);
        equal_details(a, b, i);
    }
    assert_int_equal(a->n_events, b->n_events);
    assert_int_equal(a->n_negative, b->n_negative);
    assert_int_equal(a->base_ns, b->base_ns);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->world_size, b->world_size);
    assert_int_equal(a->device, b->device);
    assert_int_equal(a->n_devices, b->n_devices);
    assert_memory_equal(a->device_id, b->device_id, sizeof a->device_id);
}

static void both_equal(const char *text, size_t part)
{
    struct lw_err one = {0}, parts = {0};
    struct lw_trace a = read_as(text, 0, &one), b = read_as(text, part, &parts);

    assert_int_equal(one.code, parts.code);
    assert_string_equal(one.msg, parts.msg);
    if (one.code == LW_OK)
        equal(&a, &b);
    lw_trace_free(&a);
    lw_trace_free(&b);
}

static size_t put_event(struct prng *r, char *to, size_t room, int i, int n_devices)
{
    static const char *const names[] = {"aten::mm", "k \\\"q\\\" ,{\\\"x\\\":1}", "ncclAllReduce",
                                        "a, {b}", "cudaLaunchKernel"};
    static const char *const cats[] = {"kernel", "cpu_op", "cuda_runtime", "gpu_memcpy",
                                       "cuda_sync", "python_function"};
    static const char *const gaps[] = {"", " ", "\n  "};
    const char *gap = gaps[prng_below(r, 3)];
    const char *inside =
        prng_below(r, 8) == 0 ? ",\"list\":[1, {\"a\":2}, {\"b\":[{\"c\":3}]}]" : "";

    return (size_t)snprintf(
        to, room,
        "%s%s{%s\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s%d\",\"pid\":%d,\"tid\":%d,"
        "\"ts\":%d.5,\"dur\":%d,\"args\":{\"device\":%d,\"stream\":%d,\"correlation\":%d,"
        "\"dtype\":\"%s\",\"Collective name\":\"all%d\",\"In msg nelems\":%d,"
        "\"wait_on_stream\":%d,\"Input Dims\":[[%d,3],[]],\"Input type\":[\"float\",\"\"]%s}}",
        i > 0 ? "," : "", gap, gap, cats[prng_below(r, 6)], names[prng_below(r, 5)],
        prng_below(r, 7), prng_below(r, 3), prng_below(r, 4), i, 5 - i % 7,
        prng_below(r, n_devices), prng_below(r, 30), i, i % 2 ? "Float" : "Half",
        prng_below(r, 3), i * 3, prng_below(r, 30), i, inside);
}

/* Metadata before or after the events, or a bare list. */
static char *random_text(struct prng *r)
{
    size_t room = 1 << 16, len = 0;
    char *text = calloc(room, 1);
    int form = prng_below(r, 3), n = prng_below(r, 60);
    int n_devices = prng_below(r, 2) ? 1 : 3;
    const char *facts = "\"distributedInfo\":{\"rank\":3,\"world_size\":8,\"backend\":\"nccl\"},"
                        "\"deviceProperties\":[{\"id\":0,\"name\":\"A\"},"
                        "{\"id\":1,\"name\":\"B\"}],"
                        "\"baseTimeNanoseconds\":77";

    len += (size_t)snprintf(text, room, form == 0   ? "{%s,\"traceEvents\":["
                                        : form == 1 ? "{\"traceEvents\":["
                                                    : "[",
                            facts);
    for (int i = 0; i < n; i++)
        len += put_event(r, text + len, room - len, i, n_devices);
    snprintf(text + len, room - len, form == 0 ? "]}" : form == 1 ? "],%s}" : "]", facts);
    return text;
}

TEST(parts_are_what_one_reader_reads)
{
    struct prng r = prng_start("parts_are_what_one_reader_reads");

    for (int round = 0; round < 300; round++) {
        char *text = random_text(&r);
        both_equal(text, 40 + (size_t)prng_below(&r, 2000));
        free(text);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

/* Cut, or with a byte changed. */
TEST(faults_have_the_message_of_one_reader)
{
    struct prng r = prng_start("faults_have_the_message_of_one_reader");

    for (int round = 0; round < 300; round++) {
        char *text = random_text(&r);
        size_t len = strlen(text), at = (size_t)prng_below(&r, (int)len);
        if (round % 2)
            text[at] = '\0';
        else
            text[at] = "\"{}[],:x\\"[prng_below(&r, 9)];
        both_equal(text, 100 + (size_t)prng_below(&r, 500));
        free(text);
    }
    assert_int_equal(lw_alloc_live(), 0);
}
