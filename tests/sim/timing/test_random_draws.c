/* Draws by seed: the jitter and skew of a ring against their definition, the noise of compute. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/timing/random_draws.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

/* --- the definition, written again from its words --- */

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t mix(uint64_t x)
{
    return splitmix64(&x);
}

/* 64 MiB over n ranks at 50e9 B/s: 20 ps a byte; latency 500 ns. With
 *     j(r,s) = mix(seed ^ (r<<32|s)) mod (1000 jitter_ns + 1), skew(r) = mix(~seed ^ r) mod (...),
 *     t[0][r] = skew(r) + j(r,0) + c, t[s][r] = max(t[s-1][r], t[s-1][r-1] + L) + j(r,s) + c
 * the answer is max over r of t[2n-3][r] + L. Rows of the whole matrix, unlike the code. */
static int64_t oracle(uint64_t n, uint64_t seed, uint64_t jitter_ns, uint64_t skew_ns)
{
    int64_t c = (int64_t)(67108864 / n * 20), latency = 500000, answer = 0;
    int64_t *t = calloc((2 * n - 2) * n, sizeof *t);

    assert_non_null(t);
    for (uint64_t s = 0; s <= 2 * n - 3; s++) {
        for (uint64_t r = 0; r < n; r++) {
            int64_t j = (int64_t)(mix(seed ^ (r << 32 | s)) % (1000 * jitter_ns + 1));
            int64_t from = (int64_t)(mix(~seed ^ r) % (1000 * skew_ns + 1));
            if (s > 0) {
                int64_t own = t[(s - 1) * n + r], left = t[(s - 1) * n + (r + n - 1) % n] + latency;
                from = own > left ? own : left;
            }
            t[s * n + r] = from + j + c;
            if (s == 2 * n - 3 && t[s * n + r] + latency > answer)
                answer = t[s * n + r] + latency;
        }
    }
    free(t);
    return answer;
}

/* Value of an integer field in the JSON that "lapwing bench ARGS" prints. */
static int64_t bench(const char *args, const char *field)
{
    char words[512];

    snprintf(words, sizeof words, "bench %s --format json", args);
    const char *out = lapwing(words, NULL);
    has(out, field);
    return strtoll(strstr(out, field) + strlen(field), NULL, 10);
}

static const uint64_t seeds[] = {0, 1, 42, 9223372036854775807u};
static const char *const methods[] = {"events", "recurrence"};

static void expect_bench(uint64_t n, uint64_t seed, uint64_t jitter, uint64_t skew)
{
    int64_t expected = oracle(n, seed, jitter, skew);

    for (int m = 0; m < 2; m++) {
        char args[256];
        snprintf(args, sizeof args,
                 "w-ar --ranks %llu --method %s --seed %llu --jitter-ns %llu --start-skew-ns %llu",
                 (unsigned long long)n, methods[m], (unsigned long long)seed,
                 (unsigned long long)jitter, (unsigned long long)skew);
        int64_t got = bench(args, "\"simulated_ps\":");
        if (got != expected)
            fail_msg("%s: %lld ps, by the definition %lld ps", args, (long long)got,
                     (long long)expected);
    }
    bool drawn = jitter > 0 || skew > 0;
    assert_true(drawn ? expected > w_ar_time((int32_t)n) : expected == w_ar_time((int32_t)n));
}

TEST(jitter_and_skew_follow_their_definition)
{
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        expect_bench(2, seeds[i], 100, 0);
        expect_bench(8, seeds[i], 250, 3000);
        expect_bench(64, seeds[i], 0, 77777);
    }
    expect_bench(8, 3, 0, 0);
    expect_bench(256, 7, 1, 1);
}

/* The same through the library, with ranges that are no whole nanoseconds. */
TEST(any_ring_follows_the_definition)
{
    struct prng p = prng_start("rings");

    for (int i = 0; i < 40; i++) {
        struct lw_plan plan;
        struct lw_cluster c;
        int32_t n = 1 << prng_in(&p, 1, 6);
        struct lw_sim_options o = {.n_steps = 1, .detail = LW_SIM_CHUNK, .seed = prng_next(&p),
                                   .jitter_ps = prng_in(&p, 0, 1000) * 1000,
                                   .start_skew_ps = prng_in(&p, 0, 5000) * 1000};
        int64_t expected = oracle((uint64_t)n, o.seed, (uint64_t)o.jitter_ps / 1000,
                                  (uint64_t)o.start_skew_ps / 1000);
        make_w_ar(&plan, n);
        make_cluster(&c, n, 50e9, 500 * LW_PS_PER_NS);
        o.ring = LW_SIM_RING_EVENTS;
        assert_int_equal(run_end(&plan, &c, o), expected);
        o.ring = LW_SIM_RING_RECURRENCE;
        assert_int_equal(run_end(&plan, &c, o), expected);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
}

TEST(every_message_is_counted_and_every_event)
{
    for (int m = 0; m < 2; m++) {
        char args[128];
        snprintf(args, sizeof args, "w-ar --ranks 64 --method %s", methods[m]);
        assert_int_equal(bench(args, "\"n_messages\":"), 2 * 64 * 63);
        snprintf(args, sizeof args, "w-ddp --ranks 16 --method %s --jitter-ns 9", methods[m]);
        assert_int_equal(bench(args, "\"n_messages\":"), 10 * 2 * 16 * 15);
    }
    assert_true(bench("w-ar --ranks 64 --method events", "\"n_events\":") >= 2 * 64 * 63);
    /* recurrence is the default: 64 members end, no message is an event */
    assert_true(bench("w-ar --ranks 64", "\"n_events\":") <= 64);
}

/* Messages are counted through: the second all-reduce of a rank draws other jitter than the
 * first. */
TEST(a_whole_step_agrees_by_both_methods)
{
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char a[160], b[160];
        snprintf(a, sizeof a, "w-ddp --ranks 16 --method events --seed %llu --jitter-ns 500 "
                 "--start-skew-ns 9000", (unsigned long long)seeds[i]);
        snprintf(b, sizeof b, "w-ddp --ranks 16 --method recurrence --seed %llu --jitter-ns 500 "
                 "--start-skew-ns 9000", (unsigned long long)seeds[i]);
        int64_t end = bench(a, "\"simulated_ps\":");
        assert_int_equal(end, bench(b, "\"simulated_ps\":"));
        assert_true(end > 12000 * LW_PS_PER_US + 10 * w_ar_time(16));
    }
}

TEST(a_range_takes_what_a_division_leaves)
{
    struct prng p = prng_start("ranges");

    for (int i = 0; i < 20000; i++) {
        lw_ps most = (lw_ps)(prng_next(&p) >> 1 >> prng_in(&p, 0, 62));
        uint64_t x = prng_in(&p, 0, 3) ? prng_next(&p) : UINT64_MAX - (uint64_t)prng_in(&p, 0, 2);
        assert_int_equal(sim_range_take(sim_range_of(most), x), x % ((uint64_t)most + 1));
    }
    for (lw_ps most = 0; most < 10; most++)
        assert_int_equal(sim_range_take(sim_range_of(most), UINT64_MAX),
                         UINT64_MAX % ((uint64_t)most + 1));
}

/* Noise: twelve draws of [0, 1) less 6, times sigma; 1000003 ps of work, to the nearest ps. A draw
 * mixes the seed with the four numbers that name it. */
/* Whatever the registers of this machine: each is the definition's, and none beside them. */
TEST(draws_of_many_ranks_are_those_of_each)
{
    enum { MOST = 75 };
    struct prng r = prng_start("draws of many ranks");

    for (int k = unit_cases(2000, 100000); k > 0; k--) {
        uint64_t seed = prng_next(&r), s = prng_next(&r) >> prng_below(&r, 64);
        uint64_t most = prng_next(&r) >> (1 + prng_below(&r, 63));
        struct sim_range range = sim_range_of((lw_ps)most);
        int32_t ranks[MOST], n = prng_below(&r, MOST);
        lw_ps longer[MOST + 1];
        for (int32_t i = 0; i < n; i++)
            ranks[i] = prng_below(&r, 4) == 0 ? INT32_MAX - i : (int32_t)prng_in(&r, 0, 1 << 20);
        longer[n] = -7;
        sim_jitter_each(seed, range, ranks, n, s, longer);
        for (int32_t i = 0; i < n; i++)
            if ((uint64_t)longer[i] != mix(seed ^ ((uint64_t)ranks[i] << 32 | s)) % (most + 1))
                fail_msg("rank %d: %lld", ranks[i], (long long)longer[i]);
        assert_int_equal(longer[n], -7);
    }
}

TEST(noise_rounds_to_the_nearest_picosecond)
{
    for (uint64_t op = 0; op < 200; op++) {
        double sum = -6;
        for (uint64_t i = 3; i < 15; i++)
            sum += (double)(sim_mix(sim_mix(sim_mix(sim_mix(sim_mix(5) ^ 1) ^ 2) ^ op) ^ i) >> 11) *
                   0x1p-53;
        double exact = 1000003 * (1 + 0.1 * sum);
        lw_ps got = sim_noisy(5, 1, 2, op, 0.1, 1000003);
        assert_true((double)got >= exact - 0.5 && (double)got <= exact + 0.5);
    }
    /* two picoseconds, one standard deviation of 100 %: never negative, and both ends are
     * reached */
    bool none = false, more = false;
    for (uint64_t op = 0; op < 200; op++) {
        lw_ps got = sim_noisy(5, 1, 2, op, 1, 2);
        assert_true(got >= 0);
        none |= got == 0;
        more |= got > 4;
    }
    assert_true(none && more);
}
