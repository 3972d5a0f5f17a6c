/* Errors, orders and missed bars, on cases small enough to follow by hand. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/validate/validate.h"

static void ok(enum lw_status s, const struct lw_err *err)
{
    if (s != LW_OK)
        fail_msg("%s", err->msg);
}

static void add(struct lw_validation *v, int32_t family, int32_t series, const char *id,
                double predicted, double measured, const char *remark)
{
    struct lw_case c = {.id = id, .unit = "ns", .family = family, .series = series,
                        .predicted = predicted, .measured = measured, .remark = remark};
    struct lw_err err = {0};

    ok(lw_validation_case(v, &c, &err), &err);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* Errors +10, -5, +2 %: mean 17/3, worst 10, bias 7/3. Measured 100, 200, 104 with a margin of 5 %:
 * (100, 200) and (200, 104) are pairs, (100, 104) is not; predicted 110, 190, 106.08 orders both
 * right. */
TEST(errors_and_pairs_are_counted)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t f, s;

    ok(lw_validation_family(&v, "a", (struct lw_bars){0, 0, 0}, true, &f, &err), &err);
    ok(lw_validation_series(&v, f, "one", 5, &s, &err), &err);
    add(&v, f, s, "x", 110, 100, "");
    add(&v, f, s, "y", 190, 200, "");
    add(&v, f, s, "z", 106.08, 104, "");
    ok(lw_validation_judge(&v, &err), &err);
    assert_true(near(v.families[f].mean_abs_pct, 17.0 / 3));
    assert_true(near(v.families[f].max_abs_pct, 10));
    assert_true(near(v.families[f].bias_pct, 7.0 / 3));
    assert_int_equal(v.families[f].worst, 0);
    assert_int_equal(v.n_pairs, 2);
    assert_int_equal(v.n_right, 2);
    assert_int_equal(v.n_misses, 0);
    lw_validation_free(&v);
}

/* Equal predictions for different measurements are wrong; the margin counts from the smaller:
 * 100 and 106 are apart by 6 %, 106 and 111.2 by 4.9 %; 100 and 111.2 are a pair, and right. */
TEST(equal_predictions_are_a_wrong_order)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t f, s;

    ok(lw_validation_family(&v, "a", (struct lw_bars){0, 0, 90}, true, &f, &err), &err);
    ok(lw_validation_series(&v, f, "one", 5, &s, &err), &err);
    add(&v, f, s, "x", 100, 100, "");
    add(&v, f, s, "y", 100, 106, "");
    add(&v, f, s, "z", 101, 111.2, "");
    ok(lw_validation_judge(&v, &err), &err);
    assert_int_equal(v.n_pairs, 2);
    assert_int_equal(v.n_right, 1);
    assert_int_equal(v.n_misses, 1);
    assert_string_equal(v.misses[0].bar, "order");
    assert_true(near(v.misses[0].value_pct, 50));
    assert_non_null(strstr(v.misses[0].reason, "wrong pairs: x (+0.0 %) and y (-5.7 %)"));
    lw_validation_free(&v);
}

/* Only cases of one series are paired. */
TEST(files_are_not_ordered_among_each_other)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t f, s, t;

    ok(lw_validation_family(&v, "a", (struct lw_bars){0, 0, 90}, true, &f, &err), &err);
    ok(lw_validation_series(&v, f, "one", 5, &s, &err), &err);
    ok(lw_validation_series(&v, f, "two", 5, &t, &err), &err);
    add(&v, f, s, "x", 100, 200, "");
    add(&v, f, t, "y", 200, 100, "");
    add(&v, f, -1, "z", 200, 50, "");
    ok(lw_validation_judge(&v, &err), &err);
    assert_int_equal(v.n_pairs, 0);
    assert_int_equal(v.n_misses, 0);
    lw_validation_free(&v);
}

/* Mean 12 % against 5, worst 20 % against 15. The reasons name the series with the largest mean and
 * what is known of the worst case. */
TEST(missed_bars_come_with_a_reason)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t f, s, t;

    ok(lw_validation_family(&v, "a", (struct lw_bars){5, 15, 90}, true, &f, &err), &err);
    ok(lw_validation_series(&v, f, "one", 5, &s, &err), &err);
    ok(lw_validation_series(&v, f, "two", 5, &t, &err), &err);
    add(&v, f, s, "x", 96, 100, "");
    add(&v, f, t, "y", 80, 100, "a first run took 9 % more");
    ok(lw_validation_judge(&v, &err), &err);
    assert_int_equal(v.n_misses, 2);
    assert_string_equal(v.misses[0].bar, "mean");
    assert_true(near(v.misses[0].value_pct, 12));
    assert_non_null(strstr(v.misses[0].reason, "nearly all too fast"));
    assert_non_null(strstr(v.misses[0].reason, "two (mean 20.0 %"));
    assert_string_equal(v.misses[1].bar, "worst");
    assert_non_null(strstr(v.misses[1].reason, "y is -20.0 % off: a first run took 9 % more"));
    lw_validation_free(&v);
}

/* A family in other units has its own figures and does not enter the overall ones. */
TEST(other_units_stay_out_of_the_overall_error)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t a, b;
    char *text = NULL;
    size_t size = 0;

    ok(lw_validation_family(&v, "steps", (struct lw_bars){5, 15, 0}, true, &a, &err), &err);
    ok(lw_validation_family(&v, "rates", (struct lw_bars){0, 0, 0}, false, &b, &err), &err);
    add(&v, a, -1, "x", 101, 100, "");
    struct lw_case c = {.id = "y", .unit = "GB/s", .family = b, .series = -1, .predicted = 7.5,
                        .measured = 12.5, .remark = ""};
    ok(lw_validation_case(&v, &c, &err), &err);
    ok(lw_validation_judge(&v, &err), &err);
    assert_true(near(v.mean_abs_pct, 1));
    assert_true(near(v.families[b].max_abs_pct, 40));
    FILE *f = open_memstream(&text, &size);
    ok(lw_validation_print(&v, LW_FORMAT_JSON, f, &err), &err);
    fclose(f);
    assert_non_null(strstr(text, "\"id\": \"x\", \"family\": \"steps\", \"predicted_ns\": 101, "
                                 "\"measured_ns\": 100, \"error_pct\": 1.0000"));
    assert_non_null(strstr(text, "\"predicted\": 7.5, \"measured\": 12.5, \"unit\": \"GB/s\", "
                                 "\"error_pct\": -40.0000"));
    assert_non_null(strstr(text, "\"cap_order\": {\"n_pairs\": 0, \"right_pct\": null}"));
    free(text);
    lw_validation_free(&v);
}

TEST(a_case_twice_or_without_values_is_refused)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t f;

    ok(lw_validation_family(&v, "a", (struct lw_bars){5, 15, 90}, true, &f, &err), &err);
    add(&v, f, -1, "x", 1, 1, "");
    struct lw_case again = {.id = "x", .unit = "ns", .family = f, .series = -1, .predicted = 1,
                            .measured = 1, .remark = ""};
    assert_int_equal(lw_validation_case(&v, &again, &err), LW_EFORMAT);
    assert_string_equal(err.msg, "case x is given twice: give each file once");
    again.id = "z";
    again.predicted = 0;
    assert_int_equal(lw_validation_case(&v, &again, &err), LW_EFORMAT);
    assert_int_equal(v.n_cases, 1);
    lw_validation_free(&v);
}

/* 11 for 10 is +10 %; the case that was not measured has no error, no order, and fails the
 * family. */
TEST(a_case_without_a_measurement_is_shown_and_missed)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t f, s;
    char *text = NULL;
    size_t size = 0;

    ok(lw_validation_family(&v, "a", (struct lw_bars){20, 20, 90}, true, &f, &err), &err);
    ok(lw_validation_series(&v, f, "one", 5, &s, &err), &err);
    add(&v, f, s, "x", 11, 10, "");
    add(&v, f, s, "y", 500, -1, "");
    ok(lw_validation_judge(&v, &err), &err);
    assert_int_equal(v.families[f].n, 1);
    assert_true(near(v.mean_abs_pct, 10) && near(v.families[f].max_abs_pct, 10));
    assert_int_equal(v.n_pairs, 0);
    assert_int_equal(v.n_misses, 1);
    assert_string_equal(v.misses[0].bar, "measured");
    assert_string_equal(v.misses[0].reason,
                        "1 of 2 cases have no measured value, y is the first");
    FILE *out = open_memstream(&text, &size);
    ok(lw_validation_print(&v, LW_FORMAT_JSON, out, &err), &err);
    fclose(out);
    assert_non_null(strstr(text, "\"predicted_ns\": 500, \"measured_ns\": null, "
                                 "\"error_pct\": null"));
    free(text);
    lw_validation_free(&v);
}
