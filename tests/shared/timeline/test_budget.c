/* Days and costs of a training, by hand. */
#include <math.h>
#include <string.h>

#include "shared/timeline/budget.h"
#include "tests/lib/unit.h"

static void expect_close(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g, expected %.12g", got, expected);
}

/* 64 devices, 100,000 tokens/s: 8.64e9 tokens are one day, 64 * 24 = 1,536 device-hours. */
static const struct lw_throughput rate = {.n_devices = 64, .tokens_per_s = 100000};

TEST(a_day_of_tokens_is_a_day)
{
    struct lw_budget_request q = {.tokens = 8.64e9, .price = 2.5};
    struct lw_budget b = lw_budget_of(&rate, NULL, &q, LW_PS_PER_S, LW_PS_PER_S / 2,
                                      LW_PS_PER_S * 2);

    expect_close(b.days, 1);
    expect_close(b.days_p10, 0.5);
    expect_close(b.days_p90, 2);
    expect_close(b.device_hours, 1536);
    expect_close(b.cost, 3840);
    expect_close(b.cost_p10, 1920);
    expect_close(b.cost_p90, 7680);
    expect_close(b.cost_per_trillion, 3840 / 8.64e9 * 1e12);
    expect_close(b.cost_per_step, 64 * 2.5 / 3600);
}

TEST(a_given_price_precedes_the_cluster_s)
{
    struct lw_cluster c = {.price_per_device_hour = {4, "list"}};
    struct lw_budget_request q = {.tokens = 8.64e9};

    expect_close(lw_budget_of(&rate, &c, &q, LW_PS_PER_S, -1, -1).cost, 1536 * 4);
    q.price = 1;
    expect_close(lw_budget_of(&rate, &c, &q, LW_PS_PER_S, -1, -1).cost, 1536);
}

TEST(what_is_not_known_is_not_a_number)
{
    struct lw_budget_request none = {0}, days = {.tokens = 1e12};
    struct lw_budget b = lw_budget_of(&rate, NULL, &none, LW_PS_PER_S, -1, -1);

    assert_true(isnan(b.days) && isnan(b.cost) && isnan(b.cost_per_trillion) && isnan(b.price));
    b = lw_budget_of(&rate, NULL, &days, LW_PS_PER_S, -1, -1);
    assert_true(b.days > 0 && isnan(b.cost) && isnan(b.days_p10));
    struct lw_throughput samples = {.n_devices = 8, .tokens_per_s = NAN};
    days.price = 2;
    b = lw_budget_of(&samples, NULL, &days, LW_PS_PER_S, -1, -1);
    assert_true(isnan(b.days) && isnan(b.cost) && isnan(b.cost_per_trillion));
    expect_close(b.cost_per_step, 16.0 / 3600);
}

TEST(tokens_are_read_with_their_letters)
{
    static const struct {
        const char *text;
        double tokens;
    } good[] = {{"1T", 1e12}, {"300b", 3e11}, {"1.5T", 1.5e12}, {"2e9", 2e9}, {"40M", 4e7},
                {"5k", 5000}, {"7", 7}};
    static const char *const bad[] = {"", "T", "0", "-1T", "1TT", "1X", "nan", "inf", "0x10",
                                      "1e30", "1 T", "0.1"};
    struct lw_err err = {0};
    double tokens = -1;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(lw_parse_tokens(good[i].text, &tokens, &err), err);
        expect_close(tokens, good[i].tokens);
    }
    tokens = -1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (lw_parse_tokens(bad[i], &tokens, &err) != LW_EINVAL || tokens != -1)
            fail_msg("'%s' is taken as %g", bad[i], tokens);
}
