/* Rank correlation, ties and regret of measured strategies, by hand. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdint.h>

#include "analysis/tune_trial/tune_judge.h"

static void near(double is, double expected, double by)
{
    if (!(fabs(is - expected) <= by))
        fail_msg("%.17g, expected %.17g", is, expected);
}

static struct lw_tune_measured of(lw_ps predicted, lw_ps a, lw_ps b, lw_ps c)
{
    return (struct lw_tune_measured){.predicted = predicted, .repeat = {a, b, c}, .n_repeats = 3};
}

/* Repeats 99, 100, 101: squares 2e-4 of two degrees of freedom each, so 1 % and ties below 2 %. */
TEST(the_spread_is_of_repeats_about_their_mean)
{
    struct lw_tune_measured v[] = {of(1000, 9900, 10000, 10100), of(2000, 20200, 19800, 20000)};
    struct lw_tune_verdict r;

    lw_tune_judge(v, 2, &r);
    near(r.spread_pct, 1, 1e-9);
    near(r.tied_pct, 2, 1e-9);
    assert_int_equal(v[0].measured, 10000);
    assert_int_equal(v[1].measured, 20000);
    near(v[0].error_pct, -90, 1e-9);
    assert_int_equal(r.n_measured, 2);
}

/* Medians 10000, 10150, 10250, 12000 with ties below 2 %: the second is tied with the first, the
 * third is not, though it is with the second. Groups 1, 1, 2, 3 of predictions 1, 2, 3, 4: ranks
 * 1.5, 1.5, 3, 4 against 1, 2, 3, 4, whose correlation is 4.5 / sqrt(4.5 * 5). */
TEST(ties_share_a_rank)
{
    struct lw_tune_measured v[] = {of(1, 9900, 10000, 10100), of(2, 10049, 10150, 10251),
                                   of(3, 10147, 10250, 10353), of(4, 11880, 12000, 12120)};
    struct lw_tune_verdict r;

    lw_tune_judge(v, 4, &r);
    near(r.tied_pct, 2, 0.01);
    assert_int_equal(v[0].tie, 1);
    assert_int_equal(v[1].tie, 1);
    assert_int_equal(v[2].tie, 2);
    assert_int_equal(v[3].tie, 3);
    near(r.rank_correlation, 4.5 / sqrt(4.5 * 5), 1e-12);
    assert_int_equal(r.n_pairs, 6);
    assert_int_equal(r.n_apart, 4); /* not (0, 1) and (1, 2) */
    near(r.pair_correlation, 1, 0);
    near(r.regret_pct, 0, 0);
}

/* Predicted fastest, measured 10 % longer than the fastest: the regret, with ties below 2 %. */
TEST(regret_is_of_what_is_predicted_fastest)
{
    struct lw_tune_measured v[] = {of(3, 9900, 10000, 10100), of(2, 10890, 11000, 11110),
                                   of(4, 12870, 13000, 13130)};
    struct lw_tune_verdict r;

    lw_tune_judge(v, 3, &r);
    assert_int_equal(r.chosen, 1);
    assert_int_equal(r.fastest, 0);
    near(r.regret_pct, 10, 1e-9);
    near(r.longer_pct, 10, 1e-9);
    assert_int_equal(r.n_apart, 3);
    near(r.pair_correlation, 1. / 3, 1e-12); /* two right, one wrong */
    near(r.rank_correlation, 0.5, 1e-12);    /* 2 1 3 against 1 2 3 */
}

TEST(no_regret_of_a_tie)
{
    struct lw_tune_measured v[] = {of(3, 9900, 10000, 10100), of(2, 10049, 10150, 10251)};
    struct lw_tune_verdict r;

    lw_tune_judge(v, 2, &r);
    assert_int_equal(r.chosen, 1);
    near(r.longer_pct, 1.5, 1e-9);
    near(r.regret_pct, 0, 0);
    assert_int_equal(r.n_apart, 0);
    assert_true(isnan(r.rank_correlation));
    assert_true(isnan(r.pair_correlation));
}

/* What was not executed counts for nothing; without a second run there is no spread, and every
 * difference counts. */
TEST(what_was_not_measured_is_left_out)
{
    struct lw_tune_measured v[] = {{.predicted = 1},
                                   {.predicted = 2, .repeat = {100}, .n_repeats = 1},
                                   {.predicted = 3, .repeat = {99}, .n_repeats = 1}};
    struct lw_tune_verdict r;

    lw_tune_judge(v, 3, &r);
    assert_int_equal(r.n_measured, 2);
    assert_int_equal(r.chosen, 1);
    assert_int_equal(r.fastest, 2);
    assert_int_equal(v[0].tie, 0);
    assert_true(isnan(r.spread_pct));
    near(r.regret_pct, 100. / 99, 1e-9);
    near(r.rank_correlation, -1, 1e-12);
    lw_tune_judge(v, 1, &r);
    assert_int_equal(r.chosen, -1);
}

/* Repeats 98, 100, 102 of one strategy, of which all but 99, 100, 101 is the machine's speed:
 * spreads of 2 and 1 %, so three quarters of the squared spread. What is judged stays what was
 * measured. */
TEST(the_machines_part_of_the_spread_stands_beside_it)
{
    struct lw_tune_measured v[] = {of(1, 9800, 10000, 10200), of(2, 19600, 20000, 20400)};
    struct lw_tune_verdict r;

    for (int i = 0; i < 3; i++) {
        v[0].at_speed[i] = 9900 + 100 * i;
        v[1].at_speed[i] = 19800 + 200 * i;
    }
    lw_tune_judge(v, 2, &r);
    near(r.spread_pct, 2, 1e-9);
    near(r.tied_pct, 4, 1e-9);
    near(r.spread_at_speed_pct, 1, 1e-9);
    near(lw_tune_machine_spread_pct(&r), 75, 1e-9);
    assert_int_equal(v[0].measured, 10000);
    assert_int_equal(v[0].measured_at_speed, 10000);
    v[1].at_speed[2] = 0; /* of one run it is not known */
    lw_tune_judge(v, 2, &r);
    near(r.spread_pct, 2, 1e-9);
    assert_true(isnan(r.spread_at_speed_pct));
    assert_true(isnan(lw_tune_machine_spread_pct(&r)));
    assert_int_equal(v[0].measured_at_speed, 10000);
    assert_int_equal(v[1].measured_at_speed, -1);
}
