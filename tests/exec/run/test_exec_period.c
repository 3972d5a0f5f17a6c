/* Steps of an execution follow each other as those of a prediction do: the same periods, and
 * parts that add up to them. */
#include <stdio.h>
#include "tests/lib/unit.h"

#include "exec/run/batch_gaps.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/plans/pipelines.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/timeline_check.h"

enum { UNIT_NS = 200000 }; /* many times what switching threads takes */

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

static double late; /* in the last run the sleeps took so many times their length */

/* Sleeps of a step as they were asked for: what p stages do not wait. */
static double lateness(const struct lw_timeline *t, int32_t n_steps, const struct pipeline_case *x)
{
    const double asked = (double)(x->p * x->period - x->bubble) * UNIT_NS * LW_PS_PER_NS * n_steps;
    double took = 0;

    for (int64_t k = 0; k < t->n; k++)
        if (lw_op_class((enum lw_op_kind)t->kind[k]) == LW_CLASS_COMPUTE)
            took += (double)(t->end[k] - t->start[k]);
    return took / asked;
}

/* The shortest of 8 steps. All together take their time at least, because sleeping does: late
 * threads may make one step longer and the next one shorter, never all of them. */
static lw_ps shortest_step(const struct lw_plan *p, const struct pipeline_case *x, lw_ps right)
{
    struct lw_exec_result r = run(p, 1, 8, false);
    struct lw_summary s = summarize(p, &r);
    lw_ps least = s.steps[0], sum = 0;

    late = lateness(&r.timeline, r.n_warmup + s.n_steps, x);

    for (int32_t k = 0; k < s.n_steps; k++) {
        least = s.steps[k] < least ? s.steps[k] : least;
        sum += s.steps[k];
    }
    if (sum < s.n_steps * right - right / 2)
        fail_msg("%s: %d steps take %lld ps, expected %lld each", x->words, s.n_steps,
                 (long long)sum, (long long)right);
    lw_summary_free(&s);
    lw_exec_result_free(&r);
    return least;
}

/* A machine with other work on it may need several tries to run one step in time. */
TEST(pipelines_run_at_the_periods_computed_by_hand)
{
    for (int32_t i = 0; i < N_PIPELINES; i++) {
        const struct pipeline_case *x = &pipeline_cases[i];
        const lw_ps right = (lw_ps)x->period * UNIT_NS * LW_PS_PER_NS;
        lw_ps least = INT64_MAX;
        struct chain c;
        chain_init(&c, PIPELINE_MODULES);
        for (int32_t k = 0; k < PIPELINE_MODULES; k++)
            c.modules[k].forward_ps = c.modules[k].backward_input_ps =
                c.modules[k].backward_weight_ps = UNIT_NS * LW_PS_PER_NS;
        c.w.optimizer_ps = 0;
        struct lw_plan p = build(&c, x->words);
        for (int k = 0; k < 5 && least > right + right / 2; k++)
            least = shortest_step(&p, x, right);
        if (least > right + right / 2 && late > 1.2) {
            printf("SKIP %s: the machine is busy, sleeps take %.2f times their length\n", x->words,
                   late);
            lw_plan_free(&p);
            continue;
        }
        if (least > right + right / 2)
            fail_msg("%s: the shortest step takes %lld ps, expected %lld", x->words,
                     (long long)least, (long long)right);
        lw_plan_free(&p);
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
