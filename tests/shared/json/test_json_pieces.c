/* A text that is scanned a piece at a time reads as one that is scanned whole. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/json/json.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/says.h"
#include "tests/lib/prng.h"

enum { ROOM = 1 << 16 };

struct log {
    char text[2 * ROOM];
    size_t n;
};

static void put(struct log *l, const char *text, size_t len)
{
    assert_true(l->n + len < sizeof l->text);
    memcpy(l->text + l->n, text, len);
    l->n += len;
}

/* Everything that a reader is told: keys, values, places; every fifth value is passed over. */
static void walk(struct lw_json *j, struct log *l, int *k)
{
    char word[48];
    size_t len;
    enum lw_json_type type = lw_json_type(j);
    const char *key = lw_json_key(j, &len);

    put(l, key, len);
    put(l, word, (size_t)snprintf(word, sizeof word, ":%d@%lld ", (int)type,
                                  (long long)lw_json_offset(j)));
    if (++*k % 5 == 0)
        return;
    if (type == LW_JSON_OBJECT || type == LW_JSON_ARRAY) {
        if (!lw_json_enter(j, type))
            return;
        while (lw_json_next(j))
            walk(j, l, k);
        put(l, word, (size_t)snprintf(word, sizeof word, "<%d@%lld ", (int)lw_json_type(j),
                                      (long long)lw_json_offset(j)));
    } else if (type == LW_JSON_STRING) {
        const char *text = lw_json_string(j, &len);
        put(l, text, len);
    } else if (type == LW_JSON_NUMBER) {
        const char *text = lw_json_number_text(j, &len);
        put(l, text, len);
    }
}

static enum lw_status read(const char *text, size_t len, struct log *l, struct lw_err *err)
{
    struct lw_json *j;
    int k = 0;

    l->n = 0;
    *err = (struct lw_err){0};
    LW_TRY(lw_json_open("t.json", text, len, &j, err));
    for (int again = 0; again < 2; again++) { /* and from its beginning once more */
        walk(j, l, &k);
        if (again == 0 && !lw_json_failed(j))
            lw_json_rewind(j);
    }
    enum lw_status status = lw_json_done(j, err);
    lw_json_close(j);
    return status;
}

static void add_value(char *text, size_t *n, struct prng *r, int depth)
{
    static const char *const scalars[] = {"1", "-12.5e3", "true", "null", "\"\"", "\"},{\"",
                                          "\"a\\\"b\\\\\"", "\"\\u00e9 long, long text {\"",
                                          "123456789012345678", "\"\xc3\xa9\""};
    static const char *const blanks[] = {"", "", " ", "\n", "\n    ", "\t"};
    size_t items = depth > 4 || *n > ROOM / 2 ? 0 : (size_t)prng_below(r, 5);
    bool object = prng_below(r, 2) == 0;

    *n += (size_t)sprintf(text + *n, "%s", blanks[prng_below(r, 6)]);
    if (items == 0 && depth > 0) {
        *n += (size_t)sprintf(text + *n, "%s", scalars[prng_below(r, 10)]);
    } else {
        text[(*n)++] = object ? '{' : '[';
        for (size_t i = 0; i < items; i++) {
            *n += (size_t)sprintf(text + *n, "%s%s", i ? "," : "", blanks[prng_below(r, 6)]);
            if (object)
                *n += (size_t)sprintf(text + *n, "\"key%d\"%s:", (int)i, blanks[prng_below(r, 6)]);
            add_value(text, n, r, depth + 1);
        }
        text[(*n)++] = object ? '}' : ']';
    }
    *n += (size_t)sprintf(text + *n, "%s", blanks[prng_below(r, 6)]);
}

static void same_in_pieces(const char *text, size_t len, size_t piece, uint64_t seed)
{
    static struct log whole, pieces;
    struct lw_err a, b;

    lw_json_pieces(SIZE_MAX);
    enum lw_status x = read(text, len, &whole, &a);
    lw_json_pieces(piece);
    enum lw_status y = read(text, len, &pieces, &b);
    lw_json_pieces(0);
    if (x != y || (x == LW_OK && (whole.n != pieces.n || memcmp(whole.text, pieces.text, whole.n))))
        fail_msg("seed %llu, pieces of %zu: %s | %s: %.*s", (unsigned long long)seed, piece, a.msg,
                 b.msg, (int)len, text);
}

TEST(pieces_of_any_size_read_as_the_whole)
{
    static char text[2 * ROOM];

    for (uint64_t seed = 1; seed <= (uint64_t)unit_cases(400, 4000); seed++) {
        struct prng r = {seed * 2685821657736338717u + 1};
        size_t n = 0;
        add_value(text, &n, &r, 0);
        memset(text + n, 0, LW_JSON_PADDING);
        same_in_pieces(text, n, 1 + (size_t)prng_below(&r, 90), seed);
        if (n == 0)
            continue;
        text[prng_below(&r, (int)n)] = "\"\\,:{}[]x\n"[prng_below(&r, 10)]; /* mostly no JSON now */
        same_in_pieces(text, n, 1 + (size_t)prng_below(&r, 90), seed);
        n = (size_t)prng_below(&r, (int)n);
        memset(text + n, 0, LW_JSON_PADDING);
        same_in_pieces(text, n, 1 + (size_t)prng_below(&r, 90), seed);
    }
}

/* A string that is longer than any piece, and one that is not closed after 300 values. */
TEST(long_strings_and_late_faults_are_found)
{
    static char text[ROOM];
    static struct log l;
    struct lw_err err;
    size_t n = (size_t)sprintf(text, "[\"");

    memset(text + n, 'x', 5000);
    n += 5000;
    n += (size_t)sprintf(text + n, "\", 7]");
    lw_json_pieces(64);
    assert_ok(read(text, n, &l, &err), err);
    n = 0;
    for (int i = 0; i < 300; i++)
        n += (size_t)sprintf(text + n, "%s%d", i ? "," : "[", i);
    size_t quote = n + 1;
    n += (size_t)sprintf(text + n, ",\"open]");
    memset(text + n, 0, LW_JSON_PADDING);
    assert_int_equal(read(text, n, &l, &err), LW_EFORMAT);
    char says[64];
    snprintf(says, sizeof says, "at byte %zu: found a string that is not closed", quote);
    has(err.msg, says);
    memset(text, ' ', 500);
    assert_int_equal(read(text, 500, &l, &err), LW_EFORMAT);
    has(err.msg, "found no text, expected JSON");
    lw_json_pieces(0);
    assert_int_equal(lw_alloc_live(), 0);
}

static enum lw_status read_some(int *read_values)
{
    static char text[8192];
    static struct log l;
    struct lw_err err;
    size_t n = 0;

    for (int i = 0; i < 300; i++)
        n += (size_t)sprintf(text + n, "%s\n{\"a\":%d}", i ? "," : "[", i);
    n += (size_t)sprintf(text + n, "]");
    LW_TRY(read(text, n, &l, &err));
    *read_values = 300;
    return LW_OK;
}

TEST(every_failed_allocation_leaves_nothing)
{
    int values = 0;

    lw_json_pieces(100);
    EACH_ALLOCATION_FAILS(3, read_some(&values), values, (void)0);
    lw_json_pieces(0);
}

/* The list's elements from one of them on, then the root's other fields. */
static void rest_of_list(const char *text, size_t at, bool of_field, int64_t first, int64_t n)
{
    char copy[256] = "";
    struct lw_json *j;
    struct lw_err err = {0};
    int64_t i = first;

    strcpy(copy, text);
    assert_int_equal(lw_json_open_within("t.json", copy, strlen(copy), at, of_field, &j, &err),
                     LW_OK);
    for (; lw_json_next(j); i++) {
        assert_true(lw_json_enter(j, LW_JSON_OBJECT));
        assert_true(lw_json_next(j));
        assert_int_equal(lw_json_int64(j), i);
        assert_false(lw_json_next(j));
    }
    assert_int_equal(i, n);
    assert_int_equal(lw_json_next(j), of_field);
    if (of_field) {
        assert_true(lw_json_key_is(j, "after"));
        assert_int_equal(lw_json_int64(j), 7);
        assert_false(lw_json_next(j));
    }
    assert_int_equal(lw_json_done(j, &err), LW_OK);
    lw_json_close(j);
}

TEST(a_text_is_read_from_within_a_list)
{
    static const char field[] =
        "{\"l\":[{\"k\":0}, {\"k\":1},\n {\"k\":2},{\"k\":3}],\"after\":7} ";
    static const char list[] = "[{\"k\":0}, {\"k\":1},\n {\"k\":2},{\"k\":3}]";

    for (size_t piece = 0; piece < 20; piece++) {
        lw_json_pieces(piece);
        for (int i = 0; i < 4; i++) {
            char element[16];
            snprintf(element, sizeof element, "{\"k\":%d}", i);
            rest_of_list(field, (size_t)(strstr(field, element) - field), true, i, 4);
            rest_of_list(list, (size_t)(strstr(list, element) - list), false, i, 4);
        }
    }
    lw_json_pieces(0);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(a_fault_behind_a_list_is_found_from_within)
{
    static const char *const texts[] = {"[{\"k\":0}, {\"k\":1}", "[{\"k\":0}, {\"k\":1}] 2",
                                        "[{\"k\":0}, {\"k\":1} {\"k\":2}]",
                                        "[{\"k\":0}, {\"k\":1,}]"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char copy[256] = "";
        struct lw_json *j;
        struct lw_err err = {0};
        strcpy(copy, texts[i]);
        assert_int_equal(lw_json_open_within("t.json", copy, strlen(copy), 10, false, &j, &err),
                         LW_OK);
        while (lw_json_next(j))
            ;
        assert_int_equal(lw_json_done(j, &err), LW_EFORMAT);
        lw_json_close(j);
    }
}
