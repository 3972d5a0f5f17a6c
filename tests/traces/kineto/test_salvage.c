/* Broken traces: a clear error with its byte, and with --salvage what stands before the damage. */
#include "tests/lib/unit.h"
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "traces/kineto/import_kineto.h"

static enum lw_status parse(const char *text, size_t len, bool salvage, struct lw_trace *t,
                            struct lw_err *err)
{
    struct lw_trace_reading options = {.salvage = salvage};
    char *copy = calloc(len + LW_JSON_PADDING, 1);

    memcpy(copy, text, len);
    enum lw_status status = lw_kineto_parse("t.json", copy, len, &options, t, err);
    free(copy);
    return status;
}

#define EVENT(name) "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"ts\":1,\"dur\":2}"
#define HEAD "{\"traceEvents\":["

/* Every way of breaking the third event that is known from the field: which byte, in which
 * words. */
static const struct {
    const char *what, *third;
    int at; /* byte of the complaint, counted from the third event's '{' */
    const char *words;
} breaks[] = {
    {"NaN", "{\"ph\":\"X\",\"ts\":NaN}", 15, "found NaN"},
    {"minus NaN", "{\"ph\":\"X\",\"ts\":-NaN}", 15, "found -NaN"},
    {"Infinity", "{\"ph\":\"X\",\"x\":Infinity}", 14, "found Infinity"},
    {"minus Infinity", "{\"ph\":\"X\",\"x\":-Infinity}", 14, "found -Infinity"},
    {"trailing comma in an object", "{\"ph\":\"X\",}", 10, "found '}', expected a key"},
    {"trailing comma in an array", "{\"ph\":\"X\",\"a\":[1,]}", 17, "found ']', expected a value"},
    {"lone surrogate", "{\"ph\":\"X\",\"n\":\"a\\ud800b\"}", 16, "half of a surrogate pair"},
    {"lone low surrogate", "{\"ph\":\"X\",\"n\":\"a\\udc00\"}", 16, "half of a surrogate pair"},
    {"a time beyond 2^63", "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":9223372036854775808,\"dur\":1}",
     30, "9223372036854775808"},
    {"a time beyond doubles", "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":1e999,\"dur\":1}", 30,
     "1e999"},
    {"no duration", "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":1}", 0, "needs \"dur\""},
    {"leading zero", "{\"ph\":\"X\",\"ts\":01}", 15, "found 01"},
    {"single quotes", "{'ph':'X'}", 1, "expected a key"},
    {"missing comma", "{\"ph\":\"X\" \"ts\":1}", 10, "',' or '}'"},
};

TEST(every_break_is_named_with_its_byte)
{
    static const char head[] = HEAD EVENT("a") "," EVENT("b") ",";

    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        char text[1024], byte[32];
        struct lw_trace t = {.n = 77};
        struct lw_err err = {0};
        snprintf(text, sizeof text, "%s%s,%s]}", head, breaks[i].third, EVENT("d"));
        snprintf(byte, sizeof byte, "byte %zu", strlen(head) + (size_t)breaks[i].at);
        assert_int_equal(parse(text, strlen(text), false, &t, &err), LW_EFORMAT);
        if (!strstr(err.msg, byte) || !strstr(err.msg, breaks[i].words) || strchr(err.msg, '\n'))
            fail_msg("%s: expected %s and '%s': %s", breaks[i].what, byte, breaks[i].words,
                     err.msg);
        assert_int_equal(t.n, 77);
    }
}

TEST(salvaging_keeps_the_events_before_the_break)
{
    static const char head[] = HEAD EVENT("a") "," EVENT("b") ",";

    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        char text[1024], byte[32];
        struct lw_trace t;
        struct lw_err err = {0};
        snprintf(text, sizeof text, "%s%s,%s]}", head, breaks[i].third, EVENT("d"));
        snprintf(byte, sizeof byte, "byte %zu", strlen(head) + (size_t)breaks[i].at);
        assert_int_equal(parse(text, strlen(text), true, &t, &err), LW_OK);
        assert_int_equal(t.n_events, 2);
        assert_int_equal(t.n, 2);
        assert_string_equal(lw_trace_name(&t, 1), "b");
        assert_non_null(strstr(lw_trace_text(&t, t.damage), byte));
        lw_trace_free(&t);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

/* Cut anywhere: strictly an error that names a byte; salvaged the events that ended before the
 * cut. */
TEST(a_cut_at_any_byte_keeps_the_whole_events_before_it)
{
    static const char text[] = HEAD EVENT("a\\\\\\\"") "," EVENT("\xc3\xa4") "," EVENT("c") "]}";
    size_t ends[3], n_ends = 0, len = sizeof text - 1;

    for (size_t i = strlen(HEAD); i < len && n_ends < 3; i++)
        if (text[i] == '}')
            ends[n_ends++] = i + 1;
    for (size_t cut = 0; cut < len; cut++) {
        struct lw_trace t;
        struct lw_err err = {0};
        int64_t want = (cut >= ends[0]) + (cut >= ends[1]) + (cut >= ends[2]);
        assert_int_equal(parse(text, cut, false, &t, &err), LW_EFORMAT);
        assert_true(cut == 0 || strstr(err.msg, "byte "));
        enum lw_status status = parse(text, cut, true, &t, &err);
        assert_int_equal(status, want > 0 ? LW_OK : LW_EFORMAT);
        if (status != LW_OK)
            continue;
        if (t.n_events != want)
            fail_msg("cut at byte %zu: %d events, expected %d", cut, (int)t.n_events, (int)want);
        assert_true(t.damage >= 0);
        lw_trace_free(&t);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(a_whole_trace_is_read_alike_with_and_without_salvaging)
{
    static const char text[] = HEAD EVENT("a") "]}";
    struct lw_trace t;

    assert_int_equal(parse(text, sizeof text - 1, true, &t, NULL), LW_OK);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.damage, -1);
    lw_trace_free(&t);
}

TEST(text_without_events_is_not_salvaged)
{
    static const char *const texts[] = {
        "",        "hello", "{\"a\": 1}", "{\"a\": ", "[", "{\"traceEvents\":[", "[{\"a\": 1}]",
        "\xff\xff"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct lw_trace t;
        struct lw_err err = {0};
        assert_int_equal(parse(texts[i], strlen(texts[i]), true, &t, &err), LW_EFORMAT);
        assert_non_null(strstr(err.msg, "t.json"));
    }
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(a_million_nested_arrays_are_refused_with_the_byte_and_salvaged_before)
{
    enum { DEEP = 1000000 };
    static const char head[] = HEAD EVENT("a") ",{\"ph\":\"X\",\"args\":{\"Input Dims\":";
    char *text = malloc(sizeof head + DEEP);
    struct lw_trace t;
    struct lw_err err = {0};
    char byte[32];

    memcpy(text, head, sizeof head);
    memset(text + sizeof head - 1, '[', DEEP);
    /* the root, its array, the event and its args are four containers of 1024 */
    snprintf(byte, sizeof byte, "(byte %zu)", sizeof head - 1 + 1020);
    assert_int_equal(parse(text, sizeof head - 1 + DEEP, false, &t, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, byte));
    assert_non_null(strstr(err.msg, "1024 containers"));
    assert_int_equal(parse(text, sizeof head - 1 + DEEP, true, &t, &err), LW_OK);
    assert_int_equal(t.n, 1);
    lw_trace_free(&t);
    free(text);
}

/* ---- gzip ---- */

static size_t pack(const char *text, size_t len, char *out, size_t room)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    size_t n = libdeflate_gzip_compress(c, text, len, out, room);

    libdeflate_free_compressor(c);
    assert_true(n > 0);
    return n;
}

static char *many_events(size_t *len, int n)
{
    char *text = malloc((size_t)n * 100 + 100), *p = text;

    p += sprintf(p, "%s", HEAD);
    for (int i = 0; i < n; i++)
        p +=
            sprintf(p, "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op%d\",\"ts\":%d,\"dur\":%d}",
                    i ? "," : "", i % 7, i * 13, i * i % 11);
    p += sprintf(p, "]}");
    *len = (size_t)(p - text);
    return text;
}

static void put_bytes(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(fixture_path(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static enum lw_status read_broken(const char *path, struct lw_input *in, struct lw_err *damage,
                                  struct lw_err *err)
{
    return lw_input_read_as(path, &(struct lw_input_reading){.damage = damage}, in, err);
}

/* Cut the packed file at many places: what unpacks before the cut is a beginning of the text. */
TEST(a_cut_gzip_file_gives_the_beginning_of_its_text)
{
    size_t len, last = 0;
    char *text = many_events(&len, 2000), *packed = malloc(len + 1000);
    size_t n = pack(text, len, packed, len + 1000);

    for (size_t cut = 2; cut < n; cut += n / 50 + 1) {
        struct lw_input in;
        struct lw_err damage, err = {0};
        char byte[96];
        put_bytes("cut.gz", packed, cut);
        assert_int_equal(lw_input_read(fixture_path("cut.gz"), 0, &in, &err), LW_EFORMAT);
        snprintf(byte, sizeof byte, "byte %zu: the gzip data ends too early (truncated)", cut);
        assert_non_null(strstr(err.msg, byte));
        assert_int_equal(read_broken(fixture_path("cut.gz"), &in, &damage, &err),
                         LW_OK);
        assert_int_equal(damage.code, LW_EFORMAT);
        assert_string_equal(damage.msg, err.msg);
        assert_true(in.len >= last && in.len <= len);
        assert_memory_equal(in.text, text, in.len);
        last = in.len;
        lw_input_free(&in);
    }
    assert_true(last > len * 9 / 10);
    put_bytes("cut.gz", packed, n);
    struct lw_input in;
    struct lw_err damage;
    assert_int_equal(read_broken(fixture_path("cut.gz"), &in, &damage, NULL), LW_OK);
    assert_int_equal(damage.code, LW_OK);
    assert_int_equal(in.len, len);
    lw_input_free(&in);
    free(text);
    free(packed);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(a_wrong_checksum_keeps_the_text_and_is_called_one)
{
    size_t len;
    char *text = many_events(&len, 100), *packed = malloc(len + 1000);
    size_t n = pack(text, len, packed, len + 1000);
    struct lw_input in;
    struct lw_err damage, err = {0};

    packed[n - 6] ^= 1; /* of the CRC */
    put_bytes("sum.gz", packed, n);
    assert_int_equal(lw_input_read(fixture_path("sum.gz"), 0, &in, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "damaged (incorrect data check)"));
    assert_int_equal(read_broken(fixture_path("sum.gz"), &in, &damage, &err), LW_OK);
    assert_non_null(strstr(damage.msg, "damaged (incorrect data check)"));
    assert_int_equal(in.len, len);
    lw_input_free(&in);
    free(text);
    free(packed);
}

static enum lw_status salvage_cut(void)
{
    struct lw_trace_reading options = {.salvage = true};
    struct lw_input in;
    struct lw_trace t;
    struct lw_err damage, err = {0};
    enum lw_status status =
        read_broken(fixture_path("cut.gz"), &in, &damage, &err);

    if (status == LW_OK)
        status = lw_kineto_take(&in, &damage, &options, &t, &err);
    if (status == LW_OK) {
        assert_true(t.n > 100 && t.n < 300);
        assert_non_null(strstr(lw_trace_text(&t, t.damage), "truncated"));
        lw_trace_free(&t);
    }
    return status;
}

TEST(failing_allocations_while_salvaging_leak_nothing)
{
    size_t len;
    char *text = many_events(&len, 300), *packed = malloc(len + 1000);
    size_t n_packed = pack(text, len, packed, len + 1000);

    put_bytes("cut.gz", packed, n_packed / 2);
    EACH_ALLOCATION_FAILS_IN(1, salvage_cut());
    assert_int_equal(lw_alloc_live(), 0);
    free(text);
    free(packed);
}

TEST_GROUP(fixture_open, fixture_close)
