/* Times of grids: by hand, against closed forms of the literature, and bounds for every grid. */
#include "tests/lib/unit.h"

#include "shared/schedule/grid_time.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

static struct lw_grid made(enum lw_schedule schedule, int32_t p, int32_t m, int32_t v)
{
    struct lw_schedule_shape s = {schedule, p, m, v, 0, NULL};
    struct lw_grid g;
    struct lw_err err = {0};

    assert_ok(lw_schedule_grid(&s, &g, &err), err);
    return g;
}

static struct lw_grid_times timed(const struct lw_grid *g, struct lw_grid_costs c)
{
    struct lw_grid_times t;
    struct lw_err err = {0};

    assert_ok(lw_grid_time(g, &c, &t, &err), err);
    return t;
}

TEST(two_ranks_by_hand)
{
    /* F 10, I 11, W 7 (B 18), transfer 2; 1f1b, p 2, m 2.
     * rank 0: F0 0-10, F1 10-20, B0 starts when rank 1's B0 (30) + 2 = 40..58, see below
     * rank 1: F0 10+2 = 12-22, B0 22-40, F1 (20+2 = 22, free at 40) 40-50, B1 50-68
     * rank 0: B0 40+2 = 42-60, B1 68+2 = 70-88. Longest: rank 0, 88; rank 1 has 68-12 = 56. */
    struct lw_grid g = made(LW_SCHEDULE_1F1B, 2, 2, 1);
    struct lw_grid_times t = timed(&g, (struct lw_grid_costs){10, 11, 7, 2});
    static const int64_t start[] = {0, 10, 42, 70, 12, 22, 40, 50};

    for (int i = 0; i < 8; i++)
        assert_int_equal(t.start[i], start[i]);
    assert_int_equal(t.makespan, 88);
    assert_int_equal(t.longest_rank, 88);
    assert_int_equal(t.peak_until_input[0], 2);
    assert_int_equal(t.peak_until_input[1], 1);
    lw_grid_times_free(&t);
    lw_grid_free(&g);
}

TEST(a_unit_starts_with_the_later_of_its_inputs_and_takes_both)
{
    struct lw_grid g;
    struct lw_err err = {0};

    /* rank 1: F0 1-2, unit (F1 since 2, B0 since 2) 2-5, B1 5-7; rank 0: B0 5-7, B1 7-9 */
    assert_int_equal(lw_grid_parse("t.csv", "0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n",
                                   LW_LAYOUT_LOOP, &g, &err),
                     LW_OK);
    struct lw_grid_times t = timed(&g, (struct lw_grid_costs){1, 1, 1, 0});
    assert_int_equal(t.start[5], 2);
    assert_int_equal(t.start[6], 2);
    assert_int_equal(t.end[5], 5);
    assert_int_equal(t.end[6], 5);
    assert_int_equal(t.makespan, 9);
    assert_int_equal(t.peak_until_input[1], 2);
    lw_grid_times_free(&t);
    lw_grid_free(&g);
}

/* Narayanan et al. (SC'21) section 2 and Qi et al. (ICLR 2024) Table 2, exactly. */
TEST(bubbles_equal_their_closed_forms)
{
    const struct lw_grid_costs c = {10, 11, 7, 0};
    static const struct {
        enum lw_schedule schedule;
        int64_t per_rank; /* bubble / (p-1) */
    } cases[] = {
        {LW_SCHEDULE_GPIPE, 10 + 18}, /* F + B */
        {LW_SCHEDULE_1F1B, 10 + 18},
        {LW_SCHEDULE_ZB_H1, 10 + 11 - 7},  /* F + I - W */
        {LW_SCHEDULE_ZB_H2, 10 + 11 - 14}, /* F + I - 2W */
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int32_t p = 2; p <= 6; p++) {
            int32_t m = 3 * p;
            struct lw_grid g = made(cases[k].schedule, p, m, 1);
            struct lw_grid_times t = timed(&g, c);
            assert_int_equal(t.longest_rank, m * 28 + (p - 1) * cases[k].per_rank);
            lw_grid_times_free(&t);
            lw_grid_free(&g);
        }
    /* F = I = W: ZB-V has no bubble on any rank */
    struct lw_grid g = made(LW_SCHEDULE_ZBV, 4, 12, 2);
    struct lw_grid_times t = timed(&g, (struct lw_grid_costs){1, 1, 1, 0});
    assert_int_equal(t.longest_rank, 12 * 2 * 3);
    lw_grid_times_free(&t);
    lw_grid_free(&g);
}

static int64_t longest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

TEST(every_grid_stays_within_its_bounds)
{
    const struct lw_grid_costs c = {5, 7, 3, 2};
    int n = 0;

    for (int k = 0; k < LW_SCHEDULE_CUSTOM; k++)
        for (int32_t p = 1; p <= 6; p++)
            for (int32_t m = 1; m <= 13; m++) {
                struct lw_schedule_shape s = {(enum lw_schedule)k, p, m, 1, 0, NULL};
                struct lw_grid g;
                struct lw_err err = {0};
                enum lw_status made_one = lw_schedule_grid(&s, &g, &err);
                if (made_one != LW_OK) {
                    s.n_chunks = 2;
                    made_one = lw_schedule_grid(&s, &g, &err);
                }
                if (made_one != LW_OK)
                    continue;
                struct lw_grid_times t = timed(&g, c);
                /* one micro-batch through all stages and back; the work of one rank; all in turn,
                 * each action with one transfer */
                int64_t path = (int64_t)g.n_stages * (5 + 7) + 3, work = 0, serial = 0;
                for (int32_t r = 0; r < p; r++) {
                    int64_t own = 0;
                    for (int32_t i = g.first[r]; i < g.first[r + 1]; i++) {
                        int64_t d = g.actions[i].kind == LW_OP_FORWARD          ? 5
                                    : g.actions[i].kind == LW_OP_BACKWARD       ? 10
                                    : g.actions[i].kind == LW_OP_BACKWARD_INPUT ? 7
                                                                                : 3;
                        own += d;
                        serial += d + 2;
                    }
                    work = longest(work, own);
                }
                assert_true(t.makespan >= longest(path, work) && t.makespan <= serial);
                assert_true(t.longest_rank >= work && t.longest_rank <= t.makespan);
                lw_grid_times_free(&t);
                lw_grid_free(&g);
                n++;
            }
    assert_true(n > 800);
}

/* Rank 0 begins a run and, with whole backwards, ends it: n runs take n times as long. 1f1b of q
 * micro-batches in each and free transfers: n (q + p - 1) (F + B). */
TEST(runs_of_a_drained_pipeline_add_up)
{
    static const enum lw_schedule whole[] = {LW_SCHEDULE_GPIPE, LW_SCHEDULE_1F1B,
                                             LW_SCHEDULE_INTERLEAVED_1F1B, LW_SCHEDULE_LOOPED_BFS};
    struct prng r = prng_start("drained pipelines");

    for (int i = 0; i < 300; i++) {
        enum lw_schedule schedule = whole[prng_in(&r, 0, 3)];
        bool looped = schedule != LW_SCHEDULE_GPIPE && schedule != LW_SCHEDULE_1F1B;
        int32_t p = (int32_t)prng_in(&r, 1, 5), n = (int32_t)prng_in(&r, 1, 4);
        int32_t q = p * (int32_t)prng_in(&r, 1, 3), v = looped ? (int32_t)prng_in(&r, 1, 3) : 1;
        struct lw_grid_costs c = {prng_in(&r, 1, 9), prng_in(&r, 1, 9), prng_in(&r, 0, 9),
                                  prng_in(&r, 0, 3)};
        struct lw_schedule_shape s = {schedule, p, n * q, v, 0, NULL, .drain_every = q};
        struct lw_grid one = made(schedule, p, q, v), all;
        struct lw_err err = {0};
        assert_ok(lw_schedule_grid(&s, &all, &err), err);
        struct lw_grid_times a = timed(&one, c), b = timed(&all, c);
        assert_int_equal(b.makespan, n * a.makespan);
        if (schedule == LW_SCHEDULE_1F1B && c.comm == 0)
            assert_int_equal(b.makespan, n * (q + p - 1) * (c.f + c.i + c.w));
        assert_int_equal(b.peak_until_input[0], a.peak_until_input[0]);
        lw_grid_times_free(&a);
        lw_grid_times_free(&b);
        lw_grid_free(&one);
        lw_grid_free(&all);
    }
}

TEST(durations_below_zero_are_refused)
{
    struct lw_grid g = made(LW_SCHEDULE_1F1B, 2, 2, 1);
    struct lw_grid_times t = {0};
    struct lw_err err = {0};

    assert_int_equal(lw_grid_time(&g, &(struct lw_grid_costs){1, 1, -1, 0}, &t, &err),
                     LW_EINVAL);
    assert_string_equal(err.msg, "durations of a grid must not be negative, got F 1, I 1, W -1, "
                                 "transfer 0");
    lw_grid_free(&g);
}

TEST(a_failed_allocation_leaves_nothing)
{
    const struct lw_grid_costs unit = {1, 1, 1, 0};
    struct lw_grid g = made(LW_SCHEDULE_1F1B, 2, 2, 1);
    struct lw_grid_times t = {0};
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(2, lw_grid_time(&g, &unit, &t, &err), t, lw_grid_times_free(&t));
    lw_grid_free(&g);
}
