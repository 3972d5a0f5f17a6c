/* A plan whose ops share rows runs as the plan with whole ops does, folded and not, merged and not.
 * LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/lower/lower.h"
#include "shared/plan/op_rows.h"
#include "sim/predict/sim.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/sim/sim_help.h"

static void expect_rows(const struct lw_timeline *a, const struct lw_timeline *b, const char *words)
{
    bool same = a->n == b->n;

    for (int64_t i = 0; same && i < a->n; i++) {
        struct lw_span x = lw_timeline_get(a, i), y = lw_timeline_get(b, i);
        same = x.op == y.op && x.rank == y.rank && x.kind == y.kind && x.start == y.start &&
               x.end == y.end && x.ready == y.ready && x.issue == y.issue && x.all_in == y.all_in;
    }
    if (!same)
        fail_msg("times differ:%s", words);
}

static void compare_runs(const struct lw_plan *p, const struct lw_plan *q,
                         const struct lw_cluster *c, bool no_fold, const char *words)
{
    const struct lw_sim_options o = {.n_steps = 2, .no_fold = no_fold, .no_merge = no_fold};
    struct lw_sim_classes a, b;
    struct lw_sim_stats x, y;
    struct lw_err err = {0};

    assert_ok(lw_sim_run_classes(p, c, &o, &a, &x, &err), err);
    assert_ok(lw_sim_run_classes(q, c, &o, &b, &y, &err), err);
    assert_int_equal(x.n_events, y.n_events);
    assert_int_equal(x.n_messages, y.n_messages);
    expect_rows(&a.rows, &b.rows, words);
    lw_sim_classes_free(&a);
    lw_sim_classes_free(&b);
}

TEST(shared_and_whole_ops_run_alike)
{
    struct prng r = prng_start("shared ops");
    const int plans = unit_cases(60, 500);
    struct lw_cluster c;

    for (int made = 0; made < plans;) {
        static struct random_model k;
        struct lw_strategy s;
        struct lw_plan p, q;
        struct lw_err err = {0};
        char words[1024] = "";
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        if (prng_in(&r, 0, 1))
            random_fsdp(&r, &s);
        strategy_words(&s, words, sizeof words);
        if (lw_plan_build(&k.w, &s, NULL, &p, NULL) != LW_OK)
            continue;
        assert_ok(lw_plan_build(&k.w, &s, NULL, &q, &err), err);
        assert_ok(lw_plan_share_ops(&q, made % 2 == 1, &err), err);
        make_cluster(&c, p.n_ranks, 1e9, 1000);
        c.device.copy_bytes_per_s = given(1e12);
        compare_runs(&p, &q, &c, false, words);
        compare_runs(&p, &q, &c, true, words);
        lw_cluster_free(&c);
        lw_plan_free(&p);
        lw_plan_free(&q);
        made++;
    }
}
