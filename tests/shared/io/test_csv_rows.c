/* Published tables as CSV: cells, numbers, and refusals by line. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/io/csv_rows.h"
#include "tests/lib/failing_alloc.h"

static struct lw_input text(const char *s)
{
    return (struct lw_input){.name = "t.csv", .text = (char *)(uintptr_t)s, .len = strlen(s)};
}

TEST(cells_are_trimmed_and_lines_counted)
{
    struct lw_input in = text("a, b ,c\r\n1,2,\r\n\n 3 ,,4.50");
    struct lw_rows r;
    struct lw_err err = {0};
    double v = 0, unit = 0;
    int64_t n = 0;
    assert_int_equal(lw_rows_read(&in, &r, &err), LW_OK);
    assert_int_equal(r.n_columns, 3);
    assert_int_equal(r.n_rows, 2);
    assert_int_equal(r.line[1], 4);
    assert_string_equal(lw_rows_cell(&r, 0, "b"), "2");
    assert_string_equal(lw_rows_cell(&r, 0, "c"), "");
    assert_string_equal(lw_rows_cell(&r, 0, "none"), "");
    assert_int_equal(lw_rows_int(&r, 1, "a", 0, 3, &n, &err), LW_OK);
    assert_int_equal(n, 3);
    assert_int_equal(lw_rows_printed(&r, 1, "c", &v, &unit, &err), LW_OK);
    assert_true(v == 4.5 && fabs(unit - 0.01) < 1e-15);
    assert_int_equal(lw_rows_printed(&r, 0, "a", &v, &unit, &err), LW_OK);
    assert_true(v == 1 && unit == 1);
    lw_rows_free(&r);
}

TEST(numbers_that_are_none_are_refused_by_place)
{
    static const struct {
        const char *cell, *message;
    } cases[] = {
        {"x", "t.csv:2: a: found 'x', allowed: decimal numbers of 0 or more"},
        {"", "t.csv:2: a: found '', allowed: decimal numbers of 0 or more"},
        {"-1", "t.csv:2: a: found '-1', allowed: decimal numbers of 0 or more"},
        {"nan", "t.csv:2: a: found 'nan', allowed: decimal numbers of 0 or more"},
        {"1e5", "t.csv:2: a: found '1e5', allowed: decimal numbers of 0 or more"},
        {"1.2.3", "t.csv:2: a: found '1.2.3', allowed: decimal numbers of 0 or more"},
        {"0x10", "t.csv:2: a: found '0x10', allowed: decimal numbers of 0 or more"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char s[64];
        snprintf(s, sizeof s, "a,b\n%s,1\n", cases[k].cell);
        struct lw_input in = text(s);
        struct lw_rows r;
        struct lw_err err = {0};
        double v;
        int64_t n;
        assert_int_equal(lw_rows_read(&in, &r, &err), LW_OK);
        assert_int_equal(lw_rows_real(&r, 0, "a", 0, &v, &err), LW_EFORMAT);
        assert_string_equal(err.msg, cases[k].message);
        assert_int_equal(lw_rows_int(&r, 0, "a", 2, 9, &n, &err), LW_EFORMAT);
        lw_rows_free(&r);
    }
}

TEST(damaged_tables_are_refused_by_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "t.csv: an empty file"},
        {"a,b\n", "t.csv:1: found titles and no row"},
        {"a,b,a\n1,2,3\n", "t.csv:1: the column 'a' is given twice"},
        {"a,b\n1,2\n1\n", "t.csv:3: found 1 cells, expected 2"},
        {"a,b\n1,2,3\n", "t.csv:2: found 3 cells, expected 2"},
        {"a,b\n\"1,2\n", "t.csv:2: found 1 cells, expected 2"},
        {"a,b\n1,x\"2\"\n", "t.csv:2: cell 2: found x\"2\", expected quotes around the whole cell "
                            "and \"\" for a quote "
                            "inside"},
        {"a,b\n1,\"2\"3\"\n", "t.csv:2: cell 2: found \"2\"3\", expected quotes around the whole "
                              "cell and \"\" for a quote "
                              "inside"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_input in = text(cases[k].text);
        struct lw_rows r;
        struct lw_err err = {0};
        assert_int_equal(lw_rows_read(&in, &r, &err), LW_EFORMAT);
        assert_string_equal(err.msg, cases[k].message);
    }
}

TEST(quoted_cells_hold_commas_and_quotes)
{
    struct lw_input in = text("a,\"b,c\",d\n1, \"x, \"\"y\"\"\" ,\"\"\n");
    struct lw_rows r;
    assert_int_equal(lw_rows_read(&in, &r, NULL), LW_OK);
    assert_int_equal(r.n_columns, 3);
    assert_string_equal(lw_rows_cell(&r, 0, "b,c"), "x, \"y\"");
    assert_string_equal(lw_rows_cell(&r, 0, "d"), "");
    lw_rows_free(&r);
}

TEST(kinds_are_told_by_their_titles)
{
    struct lw_input in = text("model,p,T_F\n1,2,3\n"), none = text("");
    assert_true(lw_rows_have(&in, "p T_F"));
    assert_true(lw_rows_have(&in, "model"));
    assert_false(lw_rows_have(&in, "p T_"));
    assert_false(lw_rows_have(&in, "1"));
    assert_false(lw_rows_have(&none, "p"));
}

TEST(failing_allocations_leave_nothing)
{
    struct lw_input in = text("a,b\n1,2\n3,4\n");
    struct lw_rows r = {0};
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(1, lw_rows_read(&in, &r, &err), r, lw_rows_free(&r));
}
