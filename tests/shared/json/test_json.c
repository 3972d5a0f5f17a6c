/* The JSON reader: what it returns, what it refuses and in which words, and that skipping a value
 * checks it as reading it does (against a small grammar of its own, on mutated texts). */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/json/json.h"
#include "tests/lib/failing_alloc.h"

/* simdjson takes its memory with the nothrow forms of new, which a program may replace: here they
 * count and fail like every other allocation. */
void *new_plain(size_t size) __asm__("_Znwm");
void *new_one(size_t size, const void *tag) __asm__("_ZnwmRKSt9nothrow_t");
void *new_many(size_t size, const void *tag) __asm__("_ZnamRKSt9nothrow_t");
void delete_one(void *p) __asm__("_ZdlPv");
void delete_sized(void *p, size_t size) __asm__("_ZdlPvm");
void delete_many(void *p) __asm__("_ZdaPv");

void *new_plain(size_t size)
{
    return lw_alloc(size);
}

void *new_one(size_t size, const void *tag)
{
    (void)tag;
    return lw_alloc(size);
}

void *new_many(size_t size, const void *tag)
{
    return new_one(size, tag);
}

void delete_one(void *p)
{
    lw_free(p);
}

void delete_sized(void *p, size_t size)
{
    (void)size;
    lw_free(p);
}

void delete_many(void *p)
{
    lw_free(p);
}

/* A copy of `text` with padding that no reader may look at: it would continue the document. */
static char *padded(const char *text, size_t len)
{
    char *p = malloc(len + LW_JSON_PADDING);
    assert_non_null(p);
    memcpy(p, text, len);
    for (int i = 0; i < LW_JSON_PADDING; i++)
        p[len + (size_t)i] = "7]}\"0"[i % 5];
    return p;
}

struct doc {
    char *text;
    struct lw_json *j;
};

static struct doc open_doc(const char *text)
{
    struct lw_err err = {0};
    struct doc d = {padded(text, strlen(text)), NULL};
    assert_ok(lw_json_open("t.json", d.text, strlen(text), &d.j, &err), err);
    return d;
}

static void close_doc(struct doc d)
{
    lw_json_close(d.j);
    free(d.text);
}

static void assert_done(struct doc d)
{
    struct lw_err err = {0};
    assert_ok(lw_json_done(d.j, &err), err);
    close_doc(d);
}

static void assert_refused(struct doc d, const char *message)
{
    struct lw_err err = {0};
    assert_int_equal(lw_json_done(d.j, &err), LW_EFORMAT);
    assert_string_equal(err.msg, message);
    assert_true(lw_json_failed(d.j));
    close_doc(d);
}

/* Read everything, keys too, asking each value for what it is. */
static void read_all(struct lw_json *j)
{
    size_t len;
    enum lw_json_type type = lw_json_type(j);

    if (type == LW_JSON_OBJECT || type == LW_JSON_ARRAY) {
        if (lw_json_enter(j, type))
            while (lw_json_next(j)) {
                lw_json_key(j, &len);
                read_all(j);
            }
    } else if (type == LW_JSON_STRING) {
        lw_json_string(j, &len);
    } else if (type == LW_JSON_NUMBER) {
        lw_json_number_text(j, &len);
    } else if (type == LW_JSON_BOOL) {
        lw_json_bool(j);
    }
}

enum manner { READ_ALL, SKIP_ITEMS, LEAVE_ROOT };

static enum lw_status consume(const char *text, size_t len, enum manner how, struct lw_err *err)
{
    char *copy = padded(text, len);
    struct lw_json *j = NULL;
    enum lw_status s = lw_json_open("t.json", copy, len, &j, err);

    if (s == LW_OK) {
        enum lw_json_type type = lw_json_type(j);
        if (how == READ_ALL || (type != LW_JSON_OBJECT && type != LW_JSON_ARRAY)) {
            read_all(j);
        } else if (lw_json_enter(j, type)) {
            if (how == LEAVE_ROOT)
                lw_json_leave(j);
            else
                while (lw_json_next(j))
                    ;
        }
        s = lw_json_done(j, err);
    }
    lw_json_close(j);
    free(copy);
    return s;
}

/* --- what it returns -------------------------------------------------------------------------- */

TEST(fields_come_in_order_with_their_values)
{
    struct doc d =
        open_doc("{\"a\":1,\"skip\":[{\"x\":[]},2],\"b\":[-5,\"t\\u00e9\\n\",true,null,2.5]}");
    struct lw_json *j = d.j;
    size_t len;

    assert_int_equal(lw_json_type(j), LW_JSON_OBJECT);
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    assert_int_equal(lw_json_type(j), LW_JSON_NONE);
    assert_true(lw_json_next(j));
    assert_true(lw_json_key_is(j, "a"));
    assert_false(lw_json_key_is(j, "ab"));
    assert_string_equal(lw_json_key(j, NULL), "a");
    assert_int_equal(lw_json_offset(j), 5);
    assert_int_equal(lw_json_int64(j), 1);
    assert_true(lw_json_next(j)); /* "skip": passed over */
    assert_true(lw_json_next(j));
    assert_true(lw_json_enter(j, LW_JSON_ARRAY));
    assert_true(lw_json_next(j));
    assert_int_equal(lw_json_int64(j), -5);
    assert_true(lw_json_next(j));
    assert_string_equal(lw_json_string(j, &len), "t\xc3\xa9\n");
    assert_int_equal(len, 4);
    assert_true(lw_json_next(j));
    assert_true(lw_json_bool(j));
    assert_true(lw_json_next(j));
    assert_int_equal(lw_json_type(j), LW_JSON_NULL);
    assert_true(lw_json_next(j));
    assert_true(lw_json_double(j) == 2.5);
    assert_false(lw_json_next(j)); /* leaves the array: the cursor is back on "b" */
    assert_true(lw_json_key_is(j, "b"));
    assert_int_equal(lw_json_type(j), LW_JSON_ARRAY);
    assert_false(lw_json_next(j));
    assert_done(d);
}

TEST(leaving_early_skips_the_rest)
{
    struct doc d = open_doc("[[1,2,3],7]");

    assert_true(lw_json_enter(d.j, LW_JSON_ARRAY));
    assert_true(lw_json_next(d.j));
    assert_true(lw_json_enter(d.j, LW_JSON_ARRAY));
    assert_true(lw_json_next(d.j));
    assert_int_equal(lw_json_int64(d.j), 1);
    lw_json_leave(d.j);
    assert_true(lw_json_next(d.j));
    assert_int_equal(lw_json_int64(d.j), 7);
    assert_false(lw_json_next(d.j));
    assert_done(d);
}

TEST(strings_live_until_the_document_is_closed)
{
    char text[70000] = "[\"first\",\"", *p = text + strlen(text);
    memset(p, 'x', 60000);
    strcpy(p + 60000, "\",\"last\"]");
    struct doc d = open_doc(text);
    const char *s[3];

    lw_json_enter(d.j, LW_JSON_ARRAY);
    for (int i = 0; i < 3; i++) {
        assert_true(lw_json_next(d.j));
        s[i] = lw_json_string(d.j, NULL);
    }
    assert_string_equal(s[0], "first");
    assert_int_equal(strlen(s[1]), 60000);
    assert_string_equal(s[2], "last");
    lw_json_leave(d.j);
    assert_done(d);
}

TEST(escapes_are_resolved)
{
    static const struct {
        const char *json, *plain;
    } cases[] = {
        {"\"\"", ""},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"a\\u0041\\u00E9\\u20ac!\"", "aA\xc3\xa9\xe2\x82\xac!"},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"}, /* U+1F600 */
        {"\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf"}, /* U+10FFFF, the last */
        {"\"caf\xc3\xa9\"", "caf\xc3\xa9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct doc d = open_doc(cases[i].json);
        assert_string_equal(lw_json_string(d.j, NULL), cases[i].plain);
        assert_done(d);
    }
}

TEST(escaped_keys_equal_their_plain_form)
{
    struct doc d = open_doc("{\"b\\u0079tes\":3,\"a\\\\b\":4}");

    assert_true(lw_json_enter(d.j, LW_JSON_OBJECT));
    assert_true(lw_json_next(d.j));
    assert_true(lw_json_key_is(d.j, "bytes"));
    assert_int_equal(lw_json_int64(d.j), 3);
    assert_true(lw_json_key_is(d.j, "bytes"));
    assert_true(lw_json_next(d.j));
    assert_string_equal(lw_json_key(d.j, NULL), "a\\b");
    assert_false(lw_json_next(d.j));
    assert_done(d);
}

TEST(integers_reach_both_ends_of_int64)
{
    static const struct {
        const char *json;
        int64_t value;
    } cases[] = {{"0", 0},
                 {"-0", 0},
                 {" 12 ", 12},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct doc d = open_doc(cases[i].json);
        assert_int_equal(lw_json_int64(d.j), cases[i].value);
        assert_done(d);
    }
}

TEST(doubles_round_correctly)
{
    static const struct {
        const char *json;
        double value;
    } cases[] = {{"0.1", 0.1},
                 {"-1.5e3", -1500},
                 {"1E+2", 100},
                 {"1.7976931348623157e308", 1.7976931348623157e308},
                 {"5e-324", 5e-324},
                 {"1e-400", 0},
                 {"9007199254740993", 9007199254740992.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct doc d = open_doc(cases[i].json);
        assert_true(lw_json_double(d.j) == cases[i].value);
        assert_done(d);
    }
}

TEST(number_text_keeps_every_digit)
{
    struct doc d = open_doc("[1666666666123456.789, \"0.001\", 3]");
    const char *expected[] = {"1666666666123456.789", "0.001", "3"};

    lw_json_enter(d.j, LW_JSON_ARRAY);
    for (int i = 0; i < 3; i++) {
        size_t len;
        assert_true(lw_json_next(d.j));
        const char *p = lw_json_number_text(d.j, &len);
        assert_int_equal(len, strlen(expected[i]));
        assert_memory_equal(p, expected[i], len);
    }
    assert_false(lw_json_next(d.j));
    assert_done(d);
}

/* A wrong byte at any place among many digits, one by one and eight at once. */
TEST(each_digit_of_a_long_number_is_looked_at)
{
    static const char wrong[] = "/:;<=>?pP@ \x7f\xb5";

    for (size_t n = 1; n <= 26; n++)
        for (size_t at = 0; at < n; at++)
            for (const char *w = wrong; *w; w++) {
                char text[40] = "[1.0]";
                memset(text + 1, '7', n);
                text[1 + n] = ']';
                text[2 + n] = 0;
                struct doc good = open_doc(text);
                assert_true(lw_json_enter(good.j, LW_JSON_ARRAY) && lw_json_next(good.j));
                assert_int_equal(lw_json_type(good.j), LW_JSON_NUMBER);
                close_doc(good);
                if (at == 0 || (*w == ' ' && at == n - 1))
                    continue;
                text[1 + at] = *w;
                struct doc bad = open_doc(text);
                if (lw_json_enter(bad.j, LW_JSON_ARRAY) && lw_json_next(bad.j))
                    assert_int_not_equal(lw_json_next(bad.j), 1);
                assert_int_not_equal(lw_json_done(bad.j, NULL), LW_OK);
                close_doc(bad);
            }
}

TEST(byte_order_mark_is_passed_and_counted)
{
    struct doc d = open_doc("\xef\xbb\xbf[x]");
    assert_true(lw_json_enter(d.j, LW_JSON_ARRAY));
    assert_false(lw_json_next(d.j));
    assert_refused(d, "t.json: at [0] (byte 4): found x, expected a value");
}

/* --- what it refuses, and the words ----------------------------------------------------------- */

TEST(malformed_texts_are_refused_by_place)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"", "t.json: found no text, expected JSON"},
        {" \n", "t.json: found no text, expected JSON"},
        {"NaN", "t.json: at the top level (byte 0): found NaN, expected a value"},
        {"[1,Infinity]", "t.json: at [1] (byte 3): found Infinity, expected a value"},
        {"[-Infinity]", "t.json: at [0] (byte 1): found -Infinity, expected a number"},
        {"[1,]", "t.json: at [1] (byte 3): found ']', expected a value"},
        {"{\"a\":1,}", "t.json: at a (byte 7): found '}', expected a key in quotes"},
        {"{\"a\" 1}", "t.json: at the top level (byte 5): found 1, expected ':' after the key"},
        {"{\"a\":}", "t.json: at a (byte 5): found '}', expected a value"},
        {"{a:1}", "t.json: at the top level (byte 1): found a, expected a key in quotes"},
        {"[1 2]", "t.json: at [0] (byte 3): found 2, expected ',' or ']'"},
        {"{\"a\":[1}", "t.json: at a[0] (byte 7): found '}', expected ',' or ']'"},
        {"{\"a\":{\"b\":[0,{\"c d\":tru}]}}",
         "t.json: at a.b[1].c d (byte 20): found tru, expected a value"},
        {"[01]", "t.json: at [0] (byte 1): found 01, expected a number"},
        {"[1.]", "t.json: at [0] (byte 1): found 1., expected a number"},
        {"[+1]", "t.json: at [0] (byte 1): found +1, expected a value"},
        {"[1e]", "t.json: at [0] (byte 1): found 1e, expected a number"},
        {"[0x10]", "t.json: at [0] (byte 1): found 0x10, expected a number"},
        {"[1]]", "t.json: at the top level (byte 3): found ']', expected the end of the text"},
        {"[1] x", "t.json: at the top level (byte 4): found x, expected the end of the text"},
        {"1 2", "t.json: at the top level (byte 2): found 2, expected the end of the text"},
        {"[\"\\ud800\"]",
         "t.json: at [0] (byte 2): found half of a surrogate pair in a string, expected both"},
        {"[\"\\udc00\\ud800\"]",
         "t.json: at [0] (byte 2): found half of a surrogate pair in a string, expected both"},
        {"[\"\\ud800\\u0041\"]",
         "t.json: at [0] (byte 2): found half of a surrogate pair in a string, expected both"},
        {"[\"\\x\"]", "t.json: at [0] (byte 2): found an unknown escape in a string, expected "
                      "\\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX"},
        {"{\"\\q\":1}",
         "t.json: at the top level (byte 2): found an unknown escape in a string, expected "
         "\\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX"},
        {"[\"a\nb\"]",
         "t.json: at byte 3: found control character 0x0a in a string, expected \\u000a"},
        {"[\xff]", "t.json: at [0] (byte 1): found \xef\xbf\xbd, expected a value"},
        {"[\"abc]", "t.json: at byte 1: found a string that is not closed before the end of the "
                    "text (byte 6)"},
        {"[\"\xff\xff\", \"a\nb\"]",
         "t.json: at byte 9: found control character 0x0a in a string, expected \\u000a"},
        {"[\"\xc3\xa4\xff\", \"abc]",
         "t.json: at byte 8: found a string that is not closed before the end of the text (byte "
         "13)"},
        {"[\"\xff\xfe\", x]", "t.json: at [1] (byte 7): found x, expected a value"},
        {"[1,2", "t.json: at [1] (byte 4): found the end of the text, expected ',' or ']'"},
        {"[", "t.json: at [0] (byte 1): found the end of the text, expected a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        size_t len = strlen(cases[i].json);
        assert_int_equal(consume(cases[i].json, len, READ_ALL, &err), LW_EFORMAT);
        assert_string_equal(err.msg, cases[i].message);
        for (enum manner how = SKIP_ITEMS; how <= LEAVE_ROOT; how++)
            assert_int_equal(consume(cases[i].json, len, how, &err), LW_EFORMAT);
    }
}

/* A surrogate, an overlong form, a cut character, one beyond U+10FFFF: each byte is replaced. */
TEST(bytes_that_are_not_utf_8_read_as_the_replacement_character)
{
#define BAD "\xef\xbf\xbd"
    struct doc d = open_doc("[\"a\xff\xc3\xa4\", \"\xed\xa0\x80\", \"\xc0\xaf\", \"\xe2\x82\", "
                            "\"\xf4\x90\x80\x80\", {\"k\xfe\": 5}]");
    static const char *const want[] = {"a" BAD "\xc3\xa4", BAD BAD BAD, BAD BAD, BAD BAD,
                                       BAD BAD BAD BAD};

    lw_json_enter(d.j, LW_JSON_ARRAY);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_true(lw_json_next(d.j));
        assert_string_equal(lw_json_string(d.j, NULL), want[i]);
    }
    lw_json_next(d.j);
    lw_json_enter(d.j, LW_JSON_OBJECT);
    assert_true(lw_json_next(d.j));
    assert_true(lw_json_key_is(d.j, "k" BAD));
    assert_int_equal(lw_json_offset(d.j), 43);
    assert_int_equal(lw_json_int64(d.j), 5);
    assert_false(lw_json_next(d.j));
    assert_false(lw_json_next(d.j));
    close_doc(d);
}

TEST(values_of_another_type_are_refused_with_path_and_byte)
{
    struct doc d = open_doc("{\"ops\":[{\"bytes\":\"many\"}]}");

    lw_json_enter(d.j, LW_JSON_OBJECT);
    lw_json_next(d.j);
    lw_json_enter(d.j, LW_JSON_ARRAY);
    lw_json_next(d.j);
    lw_json_enter(d.j, LW_JSON_OBJECT);
    lw_json_next(d.j);
    assert_int_equal(lw_json_int64(d.j), 0);
    assert_string_equal(lw_json_string(d.j, NULL), ""); /* the first error sticks */
    assert_false(lw_json_next(d.j));
    assert_int_equal(lw_json_type(d.j), LW_JSON_NONE);
    assert_refused(d,
                   "t.json: at ops[0].bytes (byte 17): found string \"many\", expected an integer");
}

TEST(numbers_that_do_not_fit_are_refused)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"9223372036854775808", "t.json: at the top level (byte 0): found 9223372036854775808, "
                                "expected an integer from -2^63 to 2^63-1"},
        {"-9223372036854775809", "t.json: at the top level (byte 0): found -9223372036854775809, "
                                 "expected an integer from -2^63 to 2^63-1"},
        {"1.5", "t.json: at the top level (byte 0): found 1.5, expected an integer"},
        {"1e3", "t.json: at the top level (byte 0): found 1e3, expected an integer"},
        {"007", "t.json: at the top level (byte 0): found 007, expected a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct doc d = open_doc(cases[i].json);
        assert_int_equal(lw_json_int64(d.j), 0);
        assert_refused(d, cases[i].message);
    }
    struct doc d = open_doc("-1e999");
    assert_true(lw_json_double(d.j) == 0);
    assert_refused(d, "t.json: at the top level (byte 0): found -1e999, expected a number of at "
                      "most 1.797e308");
}

TEST(zero_byte_is_refused_where_the_length_is_not_asked)
{
    struct doc d = open_doc("[\"a\\u0000b\"]");
    size_t len;

    lw_json_enter(d.j, LW_JSON_ARRAY);
    lw_json_next(d.j);
    assert_memory_equal(lw_json_string(d.j, &len), "a\0b", 4);
    assert_int_equal(len, 3);
    assert_string_equal(lw_json_string(d.j, NULL), "");
    assert_refused(d, "t.json: at [0] (byte 1): found \\u0000 in a string, expected none");
}

TEST(zero_bytes_of_the_text_are_named)
{
    static const char text[] = "[\0{}]", after[] = "[1\0,2]";
    struct lw_err err = {0};
    struct doc d = {padded(text, sizeof text - 1), NULL};

    assert_ok(lw_json_open("t.json", d.text, sizeof text - 1, &d.j, &err), err);
    lw_json_enter(d.j, LW_JSON_ARRAY);
    lw_json_next(d.j);
    assert_refused(d, "t.json: at [0] (byte 1): found a zero byte, expected a value");
    d.text = padded(after, sizeof after - 1);
    assert_ok(lw_json_open("t.json", d.text, sizeof after - 1, &d.j, &err), err);
    lw_json_enter(d.j, LW_JSON_ARRAY);
    lw_json_next(d.j);
    lw_json_next(d.j);
    assert_refused(d, "t.json: at [0] (byte 1): found 1?, expected a number");
}

TEST(callers_errors_carry_the_place)
{
    struct doc d = open_doc("{\"world\":[1,-4]}");

    lw_json_enter(d.j, LW_JSON_OBJECT);
    lw_json_next(d.j);
    lw_json_enter(d.j, LW_JSON_ARRAY);
    lw_json_next(d.j);
    lw_json_next(d.j);
    lw_json_fail(d.j, "found %d, expected 0 or more", -4);
    assert_refused(d, "t.json: at world[1] (byte 12): found -4, expected 0 or more");
}

TEST(long_paths_keep_their_inner_end)
{
    char text[2000] = "", *p = text;
    for (int i = 0; i < 40; i++)
        p += sprintf(p, "{\"level%02d\":", i);
    strcpy(p, "x");
    struct lw_err err = {0};
    assert_int_equal(consume(text, strlen(text), READ_ALL, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "t.json: at ..."));
    assert_non_null(strstr(err.msg, ".level38.level39 (byte 440): found x, expected a value"));
}

TEST(million_nested_arrays_are_refused)
{
    size_t n = 1000000;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, '[', n);
    for (enum manner how = READ_ALL; how <= LEAVE_ROOT; how++) {
        struct lw_err err = {0};
        assert_int_equal(consume(text, n, how, &err), LW_EFORMAT);
        assert_non_null(
            strstr(err.msg, "(byte 1024): found more than 1024 containers inside each other"));
    }
    free(text);
}

TEST(every_truncation_is_refused)
{
    static const char text[] =
        "{\"a\":[1.5,-2e3,\"x\\u00e9\\\\\",true],\"b\":{\"c\":null,\"d\":\"\xc3\xa9\"}}";
    struct lw_err err = {0};
    for (enum manner how = READ_ALL; how <= LEAVE_ROOT; how++) {
        assert_int_equal(consume(text, sizeof text - 1, how, &err), LW_OK);
        for (size_t len = 0; len < sizeof text - 1; len++)
            if (consume(text, len, how, &err) != LW_EFORMAT)
                fail_msg("%.*s was accepted", (int)len, text);
    }
}

TEST(failing_allocations_leave_nothing)
{
    static const char text[] = "[{\"k\\u0065y\":\"v\"},\"w\",1e-999]";
    struct lw_err err = {0};

    /* the reader, three of the scanner, a key, strings */
    EACH_ALLOCATION_FAILS_IN(5, consume(text, strlen(text), READ_ALL, &err));
    assert_string_equal(err.msg, "out of memory");
}

/* --- against a grammar of its own ------------------------------------------------------------- */

static const char *blanks(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

static const char *want_number(const char *p)
{
    p += *p == '-';
    if (*p < '0' || *p > '9')
        return NULL;
    p += *p == '0' ? 1 : strspn(p, "0123456789");
    if (*p == '.') {
        size_t n = strspn(p + 1, "0123456789");
        if (!n)
            return NULL;
        p += 1 + n;
    }
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '+' || p[1] == '-');
        size_t n = strspn(p, "0123456789");
        return n ? p + n : NULL;
    }
    return p;
}

static const char *want_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    while (*p != '"') {
        if ((unsigned char)*p < ' ')
            return NULL;
        if (*p == '\\') {
            p++;
            if (!*p || !strchr("\"\\/bfnrtu", *p))
                return NULL;
            if (*p == 'u') {
                if (strspn(p + 1, "0123456789abcdefABCDEF") < 4)
                    return NULL;
                if (p[1] == 'd' && strchr("89abcdef", p[2])) /* no pairs among the texts below */
                    return NULL;
                p += 4;
            }
        }
        p++;
    }
    return p + 1;
}

static const char *want_value(const char *p)
{
    p = blanks(p);
    if (*p == '"')
        return want_string(p);
    if (*p == '[' || *p == '{') {
        char close = *p == '[' ? ']' : '}';
        p = blanks(p + 1);
        if (*p == close)
            return p + 1;
        for (;;) {
            if (close == '}') {
                p = want_string(blanks(p));
                if (!p || *(p = blanks(p)) != ':')
                    return NULL;
                p++;
            }
            p = want_value(p);
            if (!p)
                return NULL;
            p = blanks(p);
            if (*p == close)
                return p + 1;
            if (*p++ != ',')
                return NULL;
        }
    }
    for (int i = 0; i < 3; i++) {
        const char *word = (const char *[]){"true", "false", "null"}[i];
        if (strncmp(p, word, strlen(word)) == 0)
            return p + strlen(word);
    }
    return want_number(p);
}

TEST(mutated_texts_are_judged_as_by_the_grammar)
{
    static const char *const seeds[] = {
        "{\"a\": [1.5, -2e3, \"x\\u00e9\\\\\", true], \"b\": {\"c\": null, \"d\": \"y\"}}",
        "[[], {}, [{}], 0, \"\\n\\\"\", false , {\"k\":[ ] } ]",
        "[\"\\\\\", \"a\\\\\\\"b\", 12]",
    };
    static const char bytes[] = "{}[]\",:0123456789-+.eE tfnu\\\n\x0b";
    unsigned seed = 20240611;
    int n_valid = 0;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 20000; round++) {
        char text[200];
        struct lw_err err = {0};
        strcpy(text, seeds[rand() % 3]);
        for (int m = rand() % 3; m >= 0; m--) {
            size_t len = strlen(text), at = (size_t)rand() % (len + 1);
            char c = bytes[(size_t)rand() % (sizeof bytes - 1)];
            switch (rand() % 3) {
            case 0:
                memmove(text + at + 1, text + at, len - at + 1);
                text[at] = c;
                break;
            case 1:
                memmove(text + at, text + at + (at < len), len - at + (at == len));
                break;
            default:
                if (at < len)
                    text[at] = c;
            }
        }
        const char *end = want_value(text);
        bool valid = end && !*blanks(end);
        n_valid += valid;
        for (enum manner how = READ_ALL; how <= LEAVE_ROOT; how++) {
            enum lw_status s = consume(text, strlen(text), how, &err);
            if (s != (valid ? LW_OK : LW_EFORMAT))
                fail_msg("%s (manner %d): %d, expected valid = %d: %s", text, how, s, valid,
                         err.msg);
            assert_null(strchr(err.msg, '\n'));
        }
    }
    assert_in_range(n_valid, 1000, 19000); /* both answers are exercised */
}
