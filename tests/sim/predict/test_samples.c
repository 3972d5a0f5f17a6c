/* Noise drawn again and again: percentiles of the step, the same for any number of threads. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "sim/timing/random_draws.h"
#include "sim/predict/samples.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/sim/sim_help.h"

static const lw_ps us = LW_PS_PER_US;

static int begin(void **state)
{
    static struct world w;

    make_w_ddp(&w.plan, 4);
    make_cluster(&w.c, 4, 50e9, 500 * LW_PS_PER_NS);
    *state = &w;
    return 0;
}

static int end(void **state)
{
    struct world *w = *state;

    free_world(w);
    return 0;
}

static struct lw_sim_samples sample(const struct world *w, struct lw_sim_options o, int32_t n,
                                    int32_t n_threads)
{
    struct lw_sim_samples s;
    struct lw_err err = {0};

    assert_ok(lw_sim_sample(&w->plan, &w->c, &o, 0, n, n_threads, &s, &err), err);
    return s;
}

/* Sample i is the run with the i-th seed, sample 0 with the seed itself. */
TEST(a_sample_is_the_run_with_its_seed)
{
    const struct world *w = *state;
    struct lw_sim_options o = {.n_steps = 1, .seed = 99, .sigma = 0.1};
    struct lw_sim_samples s = sample(w, o, 20, 1);
    lw_ps sorted[20];

    o.noise = true;
    for (uint64_t i = 0; i < 20; i++) {
        o.seed = i == 0 ? 99 : sim_mix(99 + i);
        assert_int_equal(s.step[i], run_end(&w->plan, &w->c, o));
        sorted[i] = s.step[i];
        for (uint64_t k = i; k > 0 && sorted[k - 1] > sorted[k]; k--) {
            lw_ps t = sorted[k];
            sorted[k] = sorted[k - 1];
            sorted[k - 1] = t;
        }
    }
    /* nearest rank of 20: the 10th, the 18th, the 20th */
    assert_int_equal(s.p50, sorted[9]);
    assert_int_equal(s.p90, sorted[17]);
    assert_int_equal(s.p99, sorted[19]);
    assert_int_equal(s.least, sorted[0]);
    assert_int_equal(s.most, sorted[19]);
    assert_true(s.least < s.p50 && s.p50 < s.p99);
    lw_sim_samples_free(&s);
}

TEST(any_number_of_threads_gives_the_same_numbers)
{
    const struct world *w = *state;
    struct lw_sim_options o = {.n_steps = 3, .seed = 5, .sigma = 0.05, .rank_sigma = 0.02,
                               .start_skew_ps = 30 * us};
    struct lw_sim_samples one = sample(w, o, 101, 1);

    for (int32_t n = 2; n <= 7; n += 5) {
        struct lw_sim_samples many = sample(w, o, 101, n);
        assert_memory_equal(one.step, many.step, 101 * sizeof *one.step);
        assert_int_equal(one.p50, many.p50);
        assert_int_equal(one.p90, many.p90);
        assert_int_equal(one.p99, many.p99);
        lw_sim_samples_free(&many);
    }
    /* nearest rank of 101: the 51st, the 91st, the 100th */
    int below = 0;
    for (int i = 0; i < 101; i++)
        below += one.step[i] <= one.p90;
    assert_int_equal(below, 91);
    lw_sim_samples_free(&one);
}

/* One all-reduce of T on its own: its time alone is drawn, with the deviation that was asked
 * for. */
TEST(transfers_are_drawn_too)
{
    struct world w = *(struct world *)*state;
    struct lw_sim_options o = {.n_steps = 1, .seed = 1, .sigma = 0.1};
    double sum = 0, square = 0, t = (double)w_ar_time(4);

    make_w_ar(&w.plan, 4);
    struct lw_sim_samples s = sample(&w, o, 2000, 0);
    for (int i = 0; i < s.n; i++) {
        double x = ((double)s.step[i] - t) / t;
        sum += x;
        square += x * x;
    }
    /* mean 0 +- 4 x 0.1 / sqrt(2000) = 0.009; variance 0.01 +- 4 x 0.01 sqrt(2 / 2000) = 0.0013 */
    assert_true(sum / s.n > -0.009 && sum / s.n < 0.009);
    assert_true(square / s.n > 0.0087 && square / s.n < 0.0113);
    lw_sim_samples_free(&s);
    lw_plan_free(&w.plan);
}

/* Two ranks that only compute: each is off for the whole run, by one factor for all of its ops. */
TEST(a_rank_keeps_its_speed)
{
    struct lw_builder *b = begin_plan("p", 2);
    struct world w;
    struct lw_sim_options o = {.n_steps = 2, .seed = 4, .rank_sigma = 0.2};

    for (int i = 0; i < 3; i++)
        add_work(b, LW_OP_KERNEL, 0, 1000 * us, -1);
    make_world(&w, b);
    run_world(&w, o);
    assert_int_equal(w.t.n, 12);
    lw_ps of[2] = {0, 0};
    for (int64_t i = 0; i < w.t.n; i++) {
        lw_ps took = w.t.end[i] - w.t.start[i], known = of[w.t.rank[i]];
        assert_true(known == 0 || (took - known <= 1 && known - took <= 1));
        of[w.t.rank[i]] = took;
    }
    assert_true(of[0] != of[1] && of[0] != 1000 * us && of[1] != 1000 * us);
    free_world(&w);
}

/* Within what at least 90 % of the samples do not exceed, the percentile is that of all samples;
 * within one picosecond less, or anything less, it is said to be larger. */
TEST(a_percentile_within_a_limit)
{
    const struct world *w = *state;
    struct lw_err err = {0};

    for (int32_t n = 1; n <= 21; n += n == 1 ? 8 : 1) {
        struct lw_sim_options o = {.n_steps = 1, .seed = (uint64_t)n, .sigma = 0.1};
        struct lw_sim_samples s = sample(w, o, n, 1);
        const lw_ps most[] = {INT64_MAX, s.most, s.p90, s.p90 - 1, s.least, 0};
        for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
            lw_ps p90;
            assert_ok(lw_sim_sample_within(&w->plan, &w->c, &o, 0, n, most[i], NULL, &p90, &err),
                      err);
            assert_int_equal(p90, s.p90 <= most[i] ? s.p90 : -1);
        }
        lw_sim_samples_free(&s);
    }
}

TEST(samples_without_noise_are_refused)
{
    struct world *w = *state;
    struct lw_sim_options o = {.n_steps = 1};
    struct lw_sim_samples s;
    struct lw_err err = {0};

    assert_int_equal(lw_sim_sample(&w->plan, &w->c, &o, 0, 5, 1, &s, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "--noise"));
    assert_int_equal(lw_sim_sample(&w->plan, &w->c, &o, 0, 0, 1, &s, &err), LW_EINVAL);
    o.sigma = 0.1;
    assert_int_equal(lw_sim_sample(&w->plan, &w->c, &o, 1, 5, 1, &s, &err), LW_EINVAL);
    o.sigma = 2;
    assert_int_equal(lw_sim_sample(&w->plan, &w->c, &o, 0, 5, 2, &s, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "0 to 1"));
    w->c.noise.comm_sigma = given(0.1); /* the cluster's own is enough */
    o.sigma = 0;
    assert_int_equal(lw_sim_sample(&w->plan, &w->c, &o, 0, 5, 1, &s, &err), LW_OK);
    assert_true(s.least < s.most);
    lw_sim_samples_free(&s);
    w->c.noise.comm_sigma = (struct lw_figure){0};
}

TEST(failed_allocations_leak_nothing)
{
    const struct world *w = *state;
    struct lw_sim_options o = {.n_steps = 1, .sigma = 0.1};
    struct lw_sim_samples s = {0};
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(10, lw_sim_sample(&w->plan, &w->c, &o, 0, 3, 1, &s, &err), s,
                          lw_sim_samples_free(&s));
}

/* Allocations that a run of so many steps makes. */
static int64_t allocations(const struct world *w, struct lw_sim_options o)
{
    enum lw_status status = LW_ENOMEM;
    int64_t n = 0;

    while (status != LW_OK) {
        struct lw_err err = {0};
        struct lw_sim_stats s;
        lw_alloc_fail_at(++n);
        status = lw_sim_run(&w->plan, &w->c, &o, NULL, &s, &err);
        lw_alloc_fail_at(0);
        if (status != LW_OK && status != LW_ENOMEM)
            fail_msg("%s", err.msg);
    }
    return n;
}

/* Rates, streams and rings by events: what a run takes does not grow with its events. Time twice as
 * long has one bit more, and the queue a bucket for it: one block. */
TEST(a_run_twice_as_long_allocates_nothing_more)
{
    struct world w = *(struct world *)*state;

    w.c.interference.compute_rate_under_comm = given(0.7);
    for (int detail = 0; detail < 2; detail++) {
        struct lw_sim_options o = {.n_steps = 20,
                                   .no_fold = true,
                                   .ring = detail ? LW_SIM_RING_EVENTS : LW_SIM_RING_AUTO,
                                   .detail = detail ? LW_SIM_CHUNK : LW_SIM_COLLECTIVE};
        int64_t once = allocations(&w, o);
        o.n_steps = 40;
        assert_true(allocations(&w, o) <= once + 1);
        assert_true(once < 200); /* of 20 steps: 2400 ops, 4800 messages */
    }
}

/* --- the command --- */

TEST(the_command_prints_percentiles_and_seed)
{
    static const char args[] =
        "sim plan.json -c dgx-a100 --no-db --noise 0.1 --samples 50 --seed 77";
    static const char *const keys[] = {"min", "p50", "p90", "p99", "max"};
    const struct world *w = *state;
    struct lw_err err = {0};
    double at[5];
    char key[32];

    fixture_open(NULL);
    assert_ok(lw_plan_write(&w->plan, fixture_path("plan.json"), &err), err);
    const char *out = lapwingf("%s --format json", args);
    has(out, "\"seed\": 77,");
    has(out, "\"n_samples\": 50,");
    for (int i = 0; i < 5; i++) {
        snprintf(key, sizeof key, "\"step_%s_ns\": ", keys[i]);
        at[i] = number_after(out, key);
    }
    assert_true(at[0] < at[1] && at[1] < at[2] && at[2] <= at[3] && at[3] <= at[4]);
    assert_true(number_after(lapwingf("%s --format json", args), "\"step_p50_ns\": ") == at[1]);
    EXPECT(args, {"", 0, "50 samples of the step: p50 ", {"seed 77"}});
    EXPECT("sim plan.json -c dgx-a100 --no-db",
           {"--format json", 0, "\"seed\": null", .lacks = "n_samples"});
    fixture_close(NULL);
}

TEST_GROUP(begin, end)
