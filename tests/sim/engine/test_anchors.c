/* The exact oracles: a ring all-reduce of 64 MiB (W-AR) and a step of 10 buckets (W-DDP) on N
 * ranks with links of 50e9 B/s and 500 ns, at collective detail, message by message through the
 * event queue, and by the recurrence; then the same with one slow link, one late rank, one op
 * whose rate halves. All from a plan through the engine, compared to the picosecond. */
#include "tests/lib/unit.h"

#include "tests/lib/sim/sim_help.h"

static const struct lw_sim_options ways[] = {
    {.n_steps = 1, .detail = LW_SIM_COLLECTIVE},
    {.n_steps = 1, .detail = LW_SIM_CHUNK, .ring = LW_SIM_RING_EVENTS},
    {.n_steps = 1, .detail = LW_SIM_CHUNK, .ring = LW_SIM_RING_RECURRENCE},
};
enum { N_WAYS = 3, COLLECTIVE = 0 };

static const int32_t sizes[] = {8, 64, 512};

static const lw_ps us = LW_PS_PER_US;

TEST(closed_form_has_the_published_value)
{
    /* chunk 8388608 B * 20 ps = 167772160 ps, + 500000 ps, times 14 */
    assert_int_equal(w_ar_time(8), INT64_C(2355810240));
    assert_int_equal(w_ar_time(64), INT64_C(2705411520));   /* 126 (20971520 + 500000) */
    assert_int_equal(w_ar_time(512), INT64_C(3190111680));  /* 1022 (2621440 + 500000) */
}

/* The plan on n ranks with links of 50e9 B/s and 500 ns. */
static struct world oracle(void (*make)(struct lw_plan *plan, int32_t n_ranks), int32_t n)
{
    struct world w = {0};

    make(&w.plan, n);
    make_cluster(&w.c, n, 50e9, 500 * LW_PS_PER_NS);
    return w;
}

static void expect_end(struct world *w, int way, lw_ps end)
{
    assert_int_equal(run_end(&w->plan, &w->c, ways[way]), end);
}

TEST(all_reduce_takes_the_closed_form)
{
    for (int s = 0; s < 3; s++) {
        struct world w = oracle(make_w_ar, sizes[s]);
        for (int way = 0; way < N_WAYS; way++)
            expect_end(&w, way, w_ar_time(sizes[s]));
        free_world(&w);
    }
}

TEST(ddp_step_takes_the_closed_form)
{
    for (int s = 0; s < 3; s++) {
        struct world w = oracle(make_w_ddp, sizes[s]);
        /* 10 forwards and the first backward, then 10 all-reduces, each longer than a backward */
        for (int way = 0; way < N_WAYS; way++)
            expect_end(&w, way, 12000 * us + 10 * w_ar_time(sizes[s]));
        free_world(&w);
    }
}

/* One link x -> x+1 at half speed: its chunk takes 2c where the others take c, and L < c. The slow
 * link is never idle: its s-th message leaves at 2c s, because the message it forwards is there
 * earlier. That message left x one trip of the ring ago, so it is there no later than
 * 2c (s-N) + N (c + L), and N (c + L) < 2cN. The last member to end receives the slow link's last
 * message: T = 2(N-1) 2c + L. (A message that left x k hops earlier is there at
 * 2c (S-k) + k (c+L) + L, which is earlier for every k >= 1.) */
TEST(half_speed_link_gives_the_hand_formula)
{
    for (int s = 0; s < 3; s++) {
        int32_t n = sizes[s];
        struct world ar = oracle(make_w_ar, n), ddp = oracle(make_w_ddp, n);
        const struct lw_exception slow = {.rank = n / 2, .rank_to = n / 2 + 1, .speed = 0.5};
        lw_ps chunk = ORACLE_BYTES / n * 20, t = 2 * (n - 1) * 2 * chunk + 500 * LW_PS_PER_NS;
        add_exception(&ar.c, slow);
        add_exception(&ddp.c, slow);
        for (int way = 0; way < N_WAYS; way++)
            expect_end(&ar, way, t);
        expect_end(&ddp, COLLECTIVE, 12000 * us + 10 * t);
        /* message by message a member goes on before the slowest one has ended, so the next bucket
         * begins earlier there: the slow link works without a pause, 10 S messages of 2c, and the
         * last of them takes L to arrive */
        lw_ps all = 12000 * us + 10 * 2 * (n - 1) * 2 * chunk + 500 * LW_PS_PER_NS;
        expect_end(&ddp, 1, all);
        expect_end(&ddp, 2, all);
        free_world(&ar);
        free_world(&ddp);
    }
}

/* One rank D late. Collective: data moves from its entry, D + T. Message by message: its first
 * message leaves at D + c; messages that hop on from member to member arrive at
 * D + s c + (s-1) L at hop s, and the last of S = 2(N-1) hops ends D + S (c + L) = D + T. */
TEST(late_rank_shifts_the_end_by_its_delay)
{
    const lw_ps late = 12345678901;
    const struct lw_exception x = {.rank = 3, .rank_to = -1, .speed = 1, .late_ps = late};

    for (int s = 0; s < 3; s++) {
        int32_t n = sizes[s];
        struct world ar = oracle(make_w_ar, n), ddp = oracle(make_w_ddp, n);
        add_exception(&ar.c, x);
        add_exception(&ddp.c, x);
        for (int way = 0; way < N_WAYS; way++)
            expect_end(&ar, way, late + w_ar_time(n));
        expect_end(&ddp, COLLECTIVE, late + 12000 * us + 10 * w_ar_time(n));
        free_world(&ar);
        free_world(&ddp);
    }
}

/* Compute at half speed while data moves. Forwards 10000 us, backward 1 until 12000 us; then
 * all-reduces follow each other without a pause as long as their backwards are done in time: a
 * backward takes 4000 us under them. T = 2355.81024 us (N = 8) is shorter than that, so bucket k
 * + 1 waits for its backward. In a cycle of one backward: the all-reduce runs T, the backward
 * does T/2 of its 2000 us, the rest 2000 - T/2 at full speed: T + 2000 us - T/2 = 2000 us + T/2
 * per cycle. Nine cycles, and the last all-reduce: 12000 us + 9 (2000 us + T/2) + T. T/2 =
 * 1177905120 ps, whole. */
TEST(rate_that_halves_midway_gives_the_hand_value)
{
    struct world w = oracle(make_w_ddp, 8);
    lw_ps t = w_ar_time(8);

    w.c.interference.compute_rate_under_comm = given(0.5);
    for (int way = 0; way < N_WAYS; way++)
        expect_end(&w, way, 12000 * us + 9 * (2000 * us + t / 2) + t);
    free_world(&w);
}

/* For all-reduces longer than a slowed backward (4000 us), backwards hide fully and nothing
 * changes. */
TEST(slowed_backwards_hide_under_longer_all_reduces)
{
    struct world w = oracle(make_w_ddp, 8);

    w.c.links[0].bytes_per_s = given(10e9);
    w.c.interference.compute_rate_under_comm = given(0.5);
    lw_ps t = 14 * (ORACLE_BYTES / 8 * 100 + 500 * LW_PS_PER_NS); /* 11751.05 us, beyond 4000 us */
    expect_end(&w, COLLECTIVE, 12000 * us + 10 * t);
    free_world(&w);
}

TEST(large_rings_stay_exact)
{
    struct world w = oracle(make_w_ar, 4096);

    assert_int_equal(w_ar_time(4096), INT64_C(6778699200));
    expect_end(&w, COLLECTIVE, w_ar_time(4096));
    expect_end(&w, 2, w_ar_time(4096));
    free_world(&w);
}
