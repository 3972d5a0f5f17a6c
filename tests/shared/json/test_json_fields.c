/* Fields found by a table of keys are those that a reader of all fields finds, with the same faults
 * at the same places; a number taken as a decimal is the one that its text says. */
#include "tests/lib/unit.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/json/json.h"
#include "tests/lib/prng.h"

enum { ROOM = 1 << 16, N_KEYS = 6 };

static const char *const keys[N_KEYS] = {"a", "", "seven_7", "eight_88", "eight_889", "\xc3\xa9"};
/* as a text has them: the keys, the fifth with an escape, and others that are nearly one */
static const char *const written[] = {"a",          "",        "seven_7", "eight_88", "eight_889",
                                      "\xc3\xa9",   "b",       "seven_8", "eight_880", "aa",
                                      "eight\\u005f889", "\\u0061", "\\u0062"};

struct log {
    char text[2 * ROOM];
    size_t n;
};

static void note(struct log *l, int64_t a, int64_t b)
{
    assert_true(l->n + 64 < sizeof l->text);
    l->n += (size_t)sprintf(l->text + l->n, "%" PRId64 "@%" PRId64 " ", a, b);
}

/* The next field of the object that was entered which has one of the keys, by looking at each. */
static int next_by_comparing(struct lw_json *j)
{
    while (lw_json_next(j)) {
        size_t len;
        const char *key = lw_json_key(j, &len);
        for (int k = 0; k < N_KEYS; k++)
            if (strlen(keys[k]) == len && memcmp(keys[k], key, len) == 0)
                return k;
    }
    return -1;
}

/* What a reader is at; after a fault, which the message tells, it is nowhere. */
static void note_value(struct log *l, struct lw_json *j)
{
    note(l, (int64_t)lw_json_type(j), lw_json_failed(j) ? -1 : lw_json_offset(j));
}

static void walk(struct lw_json *j, const struct lw_json_keys *table, struct log *l)
{
    enum lw_json_type type = lw_json_type(j);
    int64_t value = 0;

    note_value(l, j);
    if (l->n % 7 == 0) /* passed over */
        return;
    if (type == LW_JSON_NUMBER) {
        if (!table || !lw_json_decimal(j, 2, &value))
            lw_json_double(j);
    } else if (type == LW_JSON_ARRAY && lw_json_enter(j, type)) {
        while (lw_json_next(j))
            walk(j, table, l);
    } else if (type == LW_JSON_OBJECT && lw_json_enter(j, type)) {
        int k;
        while ((k = table ? lw_json_next_of(j, table) : next_by_comparing(j)) >= 0) {
            note(l, k, lw_json_offset(j));
            walk(j, table, l);
        }
        note_value(l, j);
    }
}

static enum lw_status read(const char *text, size_t len, bool by_table, struct log *l,
                           struct lw_err *err)
{
    struct lw_json_keys table;
    struct lw_json *j;

    lw_json_keys_init(&table, keys, N_KEYS);
    *err = (struct lw_err){0};
    l->n = 0;
    LW_TRY(lw_json_open("t.json", text, len, &j, err));
    walk(j, by_table ? &table : NULL, l);
    enum lw_status status = lw_json_done(j, err);
    lw_json_close(j);
    return status;
}

static void add_value(char *text, size_t *n, struct prng *r, int depth)
{
    static const char *const scalars[] = {"1",   "-12.5e3", "true", "null",      "\"\"", "\"},{\"",
                                          "0.25", "007",    "\"a\\\"b\\\\\"", "12345678",
                                          "123456789", "-3", "1234567a"};
    static const char *const blanks[] = {"", "", " ", "\n    "};
    size_t items = depth > 5 || *n > ROOM / 2 ? 0 : (size_t)prng_below(r, 7);
    bool object = prng_below(r, 3) > 0;

    if (items == 0 && depth > 0) {
        int k = prng_below(r, 60); /* 007 and 1234567a are no JSON */
        *n += (size_t)sprintf(text + *n, "%s", scalars[k == 7 || k == 12 ? k : k % 7]);
        *n += (size_t)sprintf(text + *n, "%s", blanks[prng_below(r, 4)]);
        return;
    }
    text[(*n)++] = object ? '{' : '[';
    for (size_t i = 0; i < items; i++) {
        *n += (size_t)sprintf(text + *n, "%s%s", i ? "," : "", blanks[prng_below(r, 4)]);
        if (object)
            *n += (size_t)sprintf(text + *n, "\"%s\"%s:%s", written[prng_below(r, 13)],
                                  blanks[prng_below(r, 4)], blanks[prng_below(r, 4)]);
        add_value(text, n, r, depth + 1);
    }
    text[(*n)++] = object ? '}' : ']';
}

static void same_fields(const char *text, size_t len, size_t piece, uint64_t seed)
{
    static struct log all, table;
    struct lw_err a, b;

    lw_json_pieces(piece);
    enum lw_status x = read(text, len, false, &all, &a), y = read(text, len, true, &table, &b);
    lw_json_pieces(0);
    if (x != y || all.n != table.n || memcmp(all.text, table.text, all.n) != 0 ||
        strcmp(a.msg, b.msg) != 0)
        fail_msg("seed %" PRIu64 ", pieces of %zu: %s | %s: %.*s", seed, piece, a.msg, b.msg,
                 (int)len, text);
}

TEST(a_table_finds_the_fields_and_faults_that_a_comparison_finds)
{
    static char text[4 * ROOM];

    for (uint64_t seed = 1; seed <= (uint64_t)unit_cases(1500, 20000); seed++) {
        struct prng r = {seed * 2685821657736338717u + 1};
        size_t n = 0;
        add_value(text, &n, &r, 0);
        memset(text + n, 0, LW_JSON_PADDING);
        same_fields(text, n, 0, seed);
        same_fields(text, n, 1 + (size_t)prng_below(&r, 200), seed);
        text[prng_below(&r, (int)n)] = "\"\\,:{}[]x\n1"[prng_below(&r, 11)];
        same_fields(text, n, 0, seed);
        n = 1 + (size_t)prng_below(&r, (int)n);
        memset(text + n, 0, LW_JSON_PADDING);
        same_fields(text, n, 1 + (size_t)prng_below(&r, 200), seed);
    }
}

/* ,"b":[[[...]]] up to 20 deep, with line breaks, at which a piece may end. */
static void add_deep(char *text, size_t *n, struct prng *r)
{
    int depth = 1 + prng_below(r, 20), breaks = prng_below(r, 2) ? 4 : 40;

    *n += (size_t)sprintf(text + *n, ",\"%s\":", prng_below(r, 8) ? "b" : "a");
    for (int k = 0; k < 2 * depth; k++)
        *n += (size_t)sprintf(text + *n, "%s%c", prng_below(r, breaks) ? "" : "\n",
                              k < depth ? '[' : ']');
}

/* Brackets that close beyond the tokens of a piece are those of the text, and not what the place
 * held before. Half of the texts have a wrong one. */
TEST(deep_values_are_passed_over_at_the_end_of_a_piece)
{
    static char text[ROOM];

    for (uint64_t seed = 1; seed <= (uint64_t)unit_cases(3000, 30000); seed++) {
        struct prng r = {seed * 2685821657736338717u + 1};
        bool large = seed % 16 == 0; /* more tokens than there is room for at first */
        size_t n = (size_t)sprintf(text, "{\"a\":1"), at;
        for (int k = large ? 200 : 20; k > 0; k--)
            add_deep(text, &n, &r);
        text[n++] = '}';
        memset(text + n, 0, LW_JSON_PADDING);
        for (at = (size_t)prng_below(&r, (int)n); text[at] != ']' && at > 0; at--)
            ;
        if (at > 0 && prng_below(&r, 2))
            text[at] = "},"[prng_below(&r, 2)];
        same_fields(text, n, (size_t)((large ? 1200 : 40) + prng_below(&r, 200)), seed);
    }
}

static bool decimal(const char *number, int power, int64_t *value)
{
    char text[160] = "";
    struct lw_json *j;
    struct lw_err err = {0};

    snprintf(text, sizeof text - LW_JSON_PADDING, "[%s]", number);
    assert_ok(lw_json_open("t.json", text, strlen(text), &j, &err), err);
    assert_true(lw_json_enter(j, LW_JSON_ARRAY) && lw_json_next(j));
    bool is = lw_json_decimal(j, power, value);
    if (is)
        assert_false(lw_json_next(j) || lw_json_failed(j)); /* it was taken, and is the only one */
    else
        assert_int_equal(lw_json_offset(j), 1);
    lw_json_close(j);
    return is;
}

TEST(decimals_are_exact_or_left_to_the_text)
{
    static const struct {
        const char *text;
        int power;
        int64_t value;
    } rows[] = {
        {"0", 0, 0},           {"-0", 3, 0},          {"7", 3, 7000},        {"-7.25", 3, -7250},
        {"1712195495519.689", 3, 1712195495519689},
        {"0.001", 3, 1},       {"12345678", 0, 12345678},
        {"123456789012345678", 0, 123456789012345678},
        {"999999999999999.999", 3, 999999999999999999},
        {"1234567.8", 1, 12345678},   {"1712195495519689.123", 3, 1712195495519689123},
        {"-9223372036854775.807", 3, -INT64_MAX},
    };
    static const char *const left[] = {
        "1e3", "0.0005", "9223372036854775808", "9223372036854775.808", "01", "1.", "-", "\"7\"",
        "true", "1.2.3", "12345678x",
    };
    int64_t value;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        value = -1;
        assert_true(decimal(rows[i].text, rows[i].power, &value));
        assert_int_equal(value, rows[i].value);
    }
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (decimal(left[i], 3, &value))
            fail_msg("%s was taken for %" PRId64, left[i], value);
}
