/* Steps of an execution follow each other as those of a prediction do: the same periods, and
 * parts that add up to them. */
#include <stdio.h>
#include "tests/lib/unit.h"

#include "exec/run/batch_gaps.h"
#include "shared/timeline/period_figures.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/plans/pipelines.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/timeline_check.h"

static const lw_ps FIRST_UNIT = 400 * (lw_ps)LW_PS_PER_US;

static struct lw_exec_result run(const struct lw_plan *p, int32_t n_warmup, int32_t n_steps,
                                 bool verify)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r = {0};
    struct lw_err err = {0};

    o.n_warmup = n_warmup;
    o.n_steps = n_steps;
    o.verify = verify;
    o.timeout_ns = INT64_C(30000000000);
    assert_ok(lw_exec_run(p, &o, &r, &err), err);
    return r;
}

static struct lw_summary summarize(const struct lw_plan *p, const struct lw_exec_result *r)
{
    struct lw_summary s = {0};
    struct lw_err err = {0};

    if (timeline_check(&r->timeline, p, &err) != LW_OK ||
        lw_timeline_summarize(&r->timeline, p, r->n_warmup, &s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* The most slots that exec may take for a step that the simulator and the closed form agree on.
 * Stages that waited for each other between steps would take `drained`: where that is more, the
 * limit is half way to it. Elsewhere it is 10 % more, 2 to 7 slots. */
static double most_slots(const struct lw_plan *p, const struct pipeline_case *x, lw_ps unit)
{
    const lw_ps right = x->period * unit;
    lw_ps steps[3];

    pipeline_steps(p, 3, steps);
    assert_int_equal(steps[1], right);
    assert_int_equal(steps[2], right);
    const double most = 1.1 * x->period, drained = (double)steps[0] / (double)unit;
    const double half_way = (x->period + drained) / 2;
    return steps[0] > right && half_way < most ? half_way : most;
}

/* The length of measured step k over that of its sleeps in the mean, which the machine ends
 * late. */
static double slots_of_step(const struct lw_timeline *t, const struct lw_summary *s, int32_t k,
                            int32_t n_warmup)
{
    double slept = 0;
    int64_t n = 0;

    for (int64_t i = 0; i < t->n; i++)
        if (t->step[i] == n_warmup + k &&
            lw_op_class((enum lw_op_kind)t->kind[i]) == LW_CLASS_COMPUTE &&
            t->kind[i] != LW_OP_OPTIMIZER) {
            slept += (double)(t->end[i] - t->start[i]);
            n++;
        }
    return (double)s->steps[k] * (double)n / slept;
}

/* The fewest slots of 6 steps. All steps together take their time at least, because sleeping does:
 * late threads may make one step longer and the next one shorter, never all of them. */
static double fewest_slots(const struct lw_plan *p, const struct pipeline_case *x, lw_ps right)
{
    struct lw_exec_result r = run(p, 1, 6, false);
    struct lw_summary s = summarize(p, &r);
    double fewest = 1e9;
    lw_ps sum = 0;

    assert_int_equal(r.honesty, EXEC_SLEPT);
    for (int32_t k = 0; k < s.n_steps; k++) {
        double slots = slots_of_step(&r.timeline, &s, k, r.n_warmup);
        fewest = slots < fewest ? slots : fewest;
        sum += s.steps[k];
    }
    if (sum < s.n_steps * right - right / 2)
        fail_msg("%s: %d steps take %lld ps, expected %lld each", x->words, s.n_steps,
                 (long long)sum, (long long)right);
    lw_summary_free(&s);
    lw_exec_result_free(&r);
    return fewest;
}

/* The machine wakes threads late, by the same time whatever they slept: a try that misses is
 * repeated with slots of twice the length, from 0.4 to 25.6 ms. */
TEST(pipelines_run_at_the_periods_computed_by_hand)
{
    const lw_ps last = FIRST_UNIT << 6;
    lw_ps unit = FIRST_UNIT;

    for (int32_t i = 0; i < N_PIPELINES; i++) {
        const struct pipeline_case *x = &pipeline_cases[i];
        for (;; unit *= 2) {
            struct chain c;
            pipeline_chain(&c, unit);
            struct lw_plan p = build(&c, x->words);
            const double limit = most_slots(&p, x, unit);
            const double slots = fewest_slots(&p, x, x->period * unit);
            lw_plan_free(&p);
            if (slots <= limit)
                break;
            if (unit == last)
                fail_msg("%s: a step takes %.2f slots, expected %d, at most %.2f", x->words, slots,
                         x->period, limit);
        }
    }
}

static void random_words(struct prng *r, char *words, size_t room)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "zb-h2"};
    int64_t pp = prng_in(r, 1, 2), dp = prng_in(r, 1, 4 / pp), zero = dp > 1 ? prng_in(r, 0, 3) : 0;
    size_t n =
        (size_t)snprintf(words, room, "pp %d dp %d micro-batches %d zero %d", (int)pp, (int)dp,
                         (int)(pp > 1 ? 2 * prng_in(r, 1, 2) : prng_in(r, 1, 2)), (int)zero);

    if (zero > 0 && dp == 4 && prng_in(r, 0, 1))
        n += (size_t)snprintf(words + n, room - n, " zero-group 2");
    if (zero == 3 && prng_in(r, 0, 1))
        n += (size_t)snprintf(words + n, room - n, " reshard off");
    if (prng_in(r, 0, 3) == 0)
        n += (size_t)snprintf(words + n, room - n, " no-sync 1");
    if (pp > 1)
        n += (size_t)snprintf(words + n, room - n, " schedule %s", schedules[prng_in(r, 0, 3)]);
    if (prng_in(r, 0, 2) == 0)
        snprintf(words + n, room - n, " clip 1");
}

TEST(the_parts_of_every_period_add_up)
{
    struct prng random = prng_start("periods of executions");

    for (int i = 0; i < 50; i++) {
        char words[160];
        struct chain c;
        random_words(&random, words, sizeof words);
        chain_init(&c, 6);
        struct lw_plan p = build(&c, words);
        struct lw_exec_result r = run(&p, 2, 3, i % 2);
        struct lw_summary s = summarize(&p, &r);
        lw_ps steps = 0, begin = INT64_MAX, end = 0;
        for (int64_t k = 0; k < r.timeline.n; k++) {
            lw_ps at = r.timeline.end[k];
            if (r.timeline.step[k] < r.n_warmup)
                begin = begin == INT64_MAX || at > begin ? at : begin;
            end = at > end ? at : end;
        }
        for (int32_t k = 0; k < s.n_steps; k++)
            steps += s.steps[k];
        assert_int_equal(steps, end - begin);
        for (int32_t k = 0; k < s.n_ranks; k++) {
            const struct lw_measure *m = &s.ranks[k];
            lw_ps exposed = m->transfer;
            for (int w = 0; w < LW_N_WAITS; w++)
                exposed += m->wait[w];
            assert_int_equal(m->exposed_comm, exposed);
            if (m->end - m->start != m->compute_busy + m->exposed_copy + exposed + m->idle)
                fail_msg("%s: rank %d does not add up", words, k);
            struct lw_period_row row = lw_period_row_of(m);
            lw_ns printed = 0;
            for (int part = 0; part < LW_N_PERIOD_PARTS; part++)
                printed += row.figure[lw_period_parts[part]];
            if (printed != row.figure[LW_FIGURE_PERIOD])
                fail_msg("%s: rank %d does not add up in ns", words, k);
        }
        lw_summary_free(&s);
        lw_exec_result_free(&r);
        lw_plan_free(&p);
    }
}

/* Two batches of one rank: the pause between them, 40..90, is taken out. */
TEST(pauses_between_batches_are_no_part_of_a_step)
{
    struct lw_exec_result r = {.n_batches = 2};
    int32_t first[] = {0, 1};
    struct lw_span rows[] = {
        {.step = 0,
         .kind = LW_OP_KERNEL,
         .ready = 0,
         .issue = -1,
         .start = 0,
         .all_in = -1,
         .end = 40},
        {.step = 1,
         .kind = LW_OP_KERNEL,
         .ready = 90,
         .issue = 91,
         .start = 95,
         .all_in = -1,
         .end = 120},
        {.step = 2,
         .kind = LW_OP_KERNEL,
         .ready = 120,
         .issue = -1,
         .start = 120,
         .all_in = 125,
         .end = 130},
    };

    r.first_of_batch = first;
    for (int i = 0; i < 3; i++)
        assert_int_equal(lw_timeline_add(&r.timeline, &rows[i], NULL), LW_OK);
    exec_close_gaps(&r);
    assert_int_equal(r.timeline.start[1], 45);
    assert_int_equal(r.timeline.issue[1], 41);
    assert_int_equal(r.timeline.all_in[1], -1);
    assert_int_equal(r.timeline.end[1], 70);
    assert_int_equal(r.timeline.all_in[2], 75);
    assert_int_equal(r.timeline.end[2], 80);
    lw_timeline_free(&r.timeline);
}
