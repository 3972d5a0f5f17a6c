/* What must not change a step at chunk detail: folding, the way in which rings are computed, a seed
 * without noise, and more steps after the measured one; on random models and strategies, with more
 * than one communicator on a link. LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include "shared/lower/lower.h"
#include "sim/predict/sim.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/sim/sim_help.h"

enum { WARM_UP = 2, STEPS = 5 };

/* lengths[STEPS]; false: refused, as the recurrence is where communicators share a link. */
static bool lengths_of(const struct lw_plan *p, const struct lw_cluster *c,
                       const struct lw_sim_options *o, lw_ps *lengths, const char *words)
{
    struct lw_sim_stats stats;
    struct lw_err err = {0};
    enum lw_status s = lw_sim_run_steps(p, c, o, lengths, &stats, &err);

    if (s != LW_OK && o->ring != LW_SIM_RING_RECURRENCE)
        fail_msg("%s:%s", err.msg, words);
    return s == LW_OK;
}

/* *n_recurrences: plans whose rings the recurrence can compute. */
static void compare(const struct lw_plan *p, const char *words, int *n_recurrences)
{
    const struct lw_sim_options base = {.n_steps = STEPS, .detail = LW_SIM_CHUNK};
    struct lw_sim_options others[] = {base, base, base, base, base};
    lw_ps right[STEPS], found[STEPS];
    struct lw_cluster c;

    others[0].no_fold = true;
    others[1].ring = LW_SIM_RING_EVENTS;
    others[2].ring = LW_SIM_RING_RECURRENCE;
    others[3].seed = 12345;
    others[4].n_steps = WARM_UP + 1;
    make_cluster(&c, p->n_ranks, 1e9, 1000);
    c.device.copy_bytes_per_s = given(1e12);
    lengths_of(p, &c, &base, right, words);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool ran = lengths_of(p, &c, &others[i], found, words);
        *n_recurrences += i == 2 && ran;
        for (int32_t k = 0; ran && k < others[i].n_steps; k++)
            if (found[k] != right[k])
                fail_msg("option %d: step %d takes %lld ps, without it %lld:%s", (int)i, k,
                         (long long)found[k], (long long)right[k], words);
    }
    lw_cluster_free(&c);
}

TEST(no_neutral_option_changes_a_step_at_chunk_detail)
{
    struct prng r = prng_start("neutral options");
    const int plans = unit_cases(60, 500);
    int n_recurrences = 0;

    for (int made = 0; made < plans;) {
        static struct random_model k;
        struct lw_strategy s;
        struct lw_plan p;
        char words[1024] = "";
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        random_fsdp(&r, &s);
        strategy_words(&s, words, sizeof words);
        if (lw_plan_build(&k.w, &s, NULL, &p, NULL) != LW_OK)
            continue;
        compare(&p, words, &n_recurrences);
        lw_plan_free(&p);
        made++;
    }
    printf("%d plans, of %d the recurrence computes all rings\n", plans, n_recurrences);
    assert_true(n_recurrences > plans / 10);
}
