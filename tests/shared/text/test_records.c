/* One printer for text, JSON and CSV: shared/text/records.h. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/text/records.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

struct row {
    int64_t id, bytes;
    lw_ps time;
    int32_t n;
    bool on;
    int32_t known;
    const char *text;
    char chars[16];
    int kind;
    double share;
};

static const char *word(int value)
{
    return value == 1 ? "ring" : "tree";
}

#define AT(field) offsetof(struct row, field)
static const struct lw_column columns[] = {
    {"id", ">id", LW_COLUMN_INT, AT(id)},
    {"size_bytes", ">size", LW_COLUMN_BYTES, AT(bytes), .lacking = "none"},
    {"time_ns", ">time", LW_COLUMN_PS, AT(time), .lacking = "-"},
    {"n", ">n", LW_COLUMN_INT32, AT(n)},
    {"on", "on", LW_COLUMN_FLAG, AT(on)},
    {"known", "known", LW_COLUMN_KNOWN, AT(known), .lacking = "-"},
    {"text", "text", LW_COLUMN_TEXT, AT(text), .digits = 4, .lacking = "?"},
    {"chars", NULL, LW_COLUMN_CHARS, AT(chars)},
    {"kind", "kind", LW_COLUMN_WORD, AT(kind), .word = word},
    {NULL, ">share", LW_COLUMN_REAL, AT(share), .digits = 2},
};

/* 1,500 ps round to 2 ns in JSON and CSV. */
static const struct row rows[] = {
    {7, 1 << 20, 1500, -3, true, 1, "a longer, quoted text", "abc", 1, 0.125},
    {8, -1, -1, 0, false, -1, NULL, "", 2, 2},
};

static const struct lw_records all = {"rows", columns, sizeof columns / sizeof *columns, rows, 2,
                                      sizeof *rows};

static char *printed(const struct lw_records *r, enum lw_format format)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    struct lw_err err = {0};

    assert_non_null(f);
    assert_int_equal(lw_records_print(r, format, f, &err), LW_OK);
    fclose(f);
    return text;
}

static void expect(enum lw_format format, const char *expected)
{
    char *text = printed(&all, format);

    assert_string_equal(text, expected);
    free(text);
}

TEST(text_shows_units_and_cuts_long_texts)
{
    expect(LW_FORMAT_TEXT, "id      size      time   n  on   known  text  kind  share\n"
                           "--  --------  --------  --  ---  -----  ----  ----  -----\n"
                           " 7  1.00 MiB  1.500 ns  -3  yes  yes    a lo  ring   0.12\n"
                           " 8      none         -   0  no   -      ?     tree   2.00\n");
}

TEST(json_has_exact_numbers_and_null_for_what_lacks)
{
    expect(LW_FORMAT_JSON,
           "{\n  \"rows\": [\n"
           "    {\"id\": 7, \"size_bytes\": 1048576, \"time_ns\": 2, \"n\": -3, \"on\": true, "
           "\"known\": true, \"text\": \"a longer, quoted text\", "
           "\"chars\": \"abc\", \"kind\": \"ring\"},\n"
           "    {\"id\": 8, \"size_bytes\": null, \"time_ns\": null, \"n\": 0, "
           "\"on\": false, \"known\": null, \"text\": null, \"chars\": null, "
           "\"kind\": \"tree\"}\n  ]\n}\n");
}

TEST(csv_has_the_columns_of_json)
{
    expect(LW_FORMAT_CSV, "id,size_bytes,time_ns,n,on,known,text,chars,kind\n"
                          "7,1048576,2,-3,yes,yes,\"a longer, quoted text\",abc,ring\n"
                          "8,,,0,no,,,,tree\n");
}

struct judged {
    const char *label;
    lw_ps time, change;
    double pct, value;
};

#define OF(field) offsetof(struct judged, field)
static const struct lw_column judged_columns[] = {
    {"label", "", LW_COLUMN_STRING, OF(label)},
    {"time_ns", ">ms", LW_COLUMN_MS, OF(time), .lacking = "-"},
    {"change_ns", ">change ms", LW_COLUMN_CHANGE_MS, OF(change)},
    {"change_pct", ">%", LW_COLUMN_CHANGE_PCT, OF(pct), .lacking = "-"},
    {"value", ">value", LW_COLUMN_DOUBLE, OF(value), .lacking = "-"},
};

/* -1 ps is an unknown time and a known change; an empty label is a text, none is null. */
TEST(changes_carry_their_sign_and_may_be_negative)
{
    static const struct judged judged[] = {{"", 1500000000, -1, -2.25, 0.1},
                                           {NULL, -1, 2500000, NAN, NAN}};
    const struct lw_records r = {"rows", judged_columns, 5, judged, 2, sizeof *judged};
    static const char *const expected[] = {
        [LW_FORMAT_TEXT] = "     ms  change ms     %  value\n"
                           "  -----  ---------  ----  -----\n"
                           "  1.500     -0.000  -2.2    0.1\n"
                           "      -     +0.003     -      -\n",
        [LW_FORMAT_JSON] = "{\n  \"rows\": [\n"
                           "    {\"label\": \"\", \"time_ns\": 1500000, \"change_ns\": 0, "
                           "\"change_pct\": -2.250, \"value\": 0.1},\n"
                           "    {\"label\": null, \"time_ns\": null, \"change_ns\": 2500, "
                           "\"change_pct\": null, \"value\": null}\n  ]\n}\n",
        [LW_FORMAT_CSV] = "label,time_ns,change_ns,change_pct,value\n"
                          ",1500000,0,-2.250,0.1\n,,2500,,\n",
    };

    for (int f = LW_FORMAT_TEXT; f <= LW_FORMAT_CSV; f++) {
        char *text = printed(&r, (enum lw_format)f);
        assert_string_equal(text, expected[f]);
        free(text);
    }
}

TEST(a_failing_allocation_is_reported)
{
    struct lw_err err = {0};
    FILE *f = fopen("/dev/null", "w");
    struct lw_records largest = all;

    assert_non_null(f);
    largest.most = 1;
    largest.largest = offsetof(struct row, bytes);
    EACH_ALLOCATION_FAILS_IN(3, lw_records_text(&largest, f, 0, &err));
    for (int format = LW_FORMAT_TEXT; format <= LW_FORMAT_CSV; format += 2)
        EACH_ALLOCATION_FAILS_IN(3, lw_records_print(&all, (enum lw_format)format, f, &err));
    fclose(f);
}

/* Text shows those that a sort puts first, of equals the earlier, in their order. */
TEST(the_largest_of_random_rows_are_shown)
{
    enum { MOST = 40, SHOWN = 10 };
    struct prng p = prng_start("rows");

    for (int round = 0; round < 500; round++) {
        struct row v[MOST] = {0};
        struct lw_records r = {.columns = columns, .n_columns = 1, .rows = v, .size = sizeof *v,
                               .most = round % 5 ? SHOWN : 0, .largest = AT(bytes)};
        int most = prng_below(&p, 30);
        char expected[512] = "id\n--\n";
        r.n = prng_below(&p, MOST);
        for (int i = 0; i < r.n; i++) {
            v[i].id = 10 + i;
            v[i].bytes = prng_in(&p, 0, most);
        }
        for (int i = 0; i < r.n; i++) {
            int n_before = 0;
            for (int k = 0; k < r.n; k++)
                n_before += v[k].bytes > v[i].bytes || (v[k].bytes == v[i].bytes && k < i);
            if (r.most == 0 || n_before < SHOWN)
                sprintf(expected + strlen(expected), "%d\n", 10 + i);
        }
        char *text = printed(&r, LW_FORMAT_TEXT);
        assert_string_equal(text, expected);
        free(text);
    }
}
