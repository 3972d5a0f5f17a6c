/* Bars thinner than a pixel are drawn to scale. */
#include "analysis/draw/slivers.h"

#include "tests/lib/unit.h"

enum { PX = 100 };

struct drawn {
    int n;
    lw_ps total[3]; /* by colour */
    lw_ps first, last;
};

static void draw(void *ctx, int32_t row, lw_ps start, lw_ps end, int32_t colour)
{
    struct drawn *d = ctx;

    assert_true(row >= 0 && start < end);
    d->first = d->n == 0 ? start : d->first;
    assert_true(row > 0 || d->n == 0 || start >= d->last);
    d->last = start;
    d->total[colour] += end - start;
    d->n++;
}

static struct slivers to(struct drawn *d)
{
    return (struct slivers){.pixel = PX, .emit = draw, .ctx = d};
}

TEST(a_bar_of_a_pixel_stays_as_it_is)
{
    struct drawn d = {0};
    struct slivers s = to(&d);

    slivers_add(&s, 0, 150, 370, 1);
    slivers_end(&s);
    assert_int_equal(d.n, 1);
    assert_int_equal(d.total[1], 220);
    assert_int_equal(d.first, 150);
}

/* 5 % of the time, in slivers of 10 each 200 (two pixels): 1,000 pixels get 50. */
TEST(many_slivers_have_their_share)
{
    struct drawn d = {0};
    struct slivers s = to(&d);

    for (lw_ps t = 0; t < 1000 * PX; t += 2 * PX)
        slivers_add(&s, 0, t, t + 10, 0);
    slivers_end(&s);
    assert_in_range(d.total[0], 49 * PX, 51 * PX);
}

/* 60 % of one colour and 30 % of another in each pixel, and a tenth of nothing. */
TEST(colours_that_share_a_pixel_take_turns)
{
    struct drawn d = {0};
    struct slivers s = to(&d);

    for (lw_ps t = 0; t < 1000 * PX; t += PX) {
        slivers_add(&s, 0, t, t + 60, 0);
        slivers_add(&s, 0, t + 60, t + 90, 1);
    }
    slivers_end(&s);
    assert_in_range(d.total[0], 598 * PX, 602 * PX);
    assert_in_range(d.total[1], 298 * PX, 302 * PX);
}

/* However short it is, also after others and in a new row. */
TEST(a_sliver_alone_is_a_pixel)
{
    struct drawn d = {0};
    struct slivers s = to(&d);

    slivers_add(&s, 0, 1000, 1001, 0);
    slivers_add(&s, 0, 900000, 900001, 0);
    slivers_add(&s, 1, 10, 11, 0);
    slivers_end(&s);
    assert_int_equal(d.n, 3);
    assert_int_equal(d.total[0], 3 * PX);
}

TEST(nothing_draws_nothing)
{
    struct drawn d = {0};
    struct slivers s = to(&d);

    slivers_end(&s);
    assert_int_equal(d.n, 0);
}
