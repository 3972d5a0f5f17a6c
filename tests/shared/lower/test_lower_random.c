/* Random combinations of schedule, pipeline, data and tensor parallelism, sharding and partition:
 * every plan passes lw_plan_check (lw_plan_build runs it), runs in the simulator to its end, and
 * keeps as many micro-batches in flight as its schedule's grid says. Of every sixth, all ranks are
 * simulated too: the parts of each rank's period add up to it. LAPWING_TEST_SEED repeats a
 * run. */
#include <inttypes.h>
#include <stdio.h>
#include "tests/lib/unit.h"

#include "shared/schedule/grid_time.h"
#include "shared/lower/lower.h"
#include "shared/lower/plan_size.h"
#include "shared/schedule/schedule.h"
#include "sim/predict/sim.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/sim/sim_help.h"

/* Most forwards without (the input's half of) their backward on a rank, by the program's order,
 * against the grid's. */
static void expect_in_flight(const struct lw_plan *p, const struct random_model *k,
                             const struct lw_grid_times *t, const char *what)
{
    for (int32_t role = 0; role < p->n_roles; role++) {
        struct lw_program prog = p->programs[(int64_t)(p->n_variants - 1) * p->n_roles + role];
        int32_t up = 0, peak = 0, last_module = -1, last_mb = -1;
        enum lw_op_kind last = LW_N_OP_KINDS;
        for (int32_t i = prog.first_op; i < prog.first_op + prog.n_ops; i++) {
            const struct lw_op *o = &p->ops[i];
            bool forward = o->kind == LW_OP_FORWARD;
            bool frees = o->kind == LW_OP_BACKWARD || o->kind == LW_OP_BACKWARD_INPUT;
            if (!forward && !frees)
                continue;
            /* a run of ops of one kind and micro-batch over neighbouring modules is one action */
            bool goes_on = o->kind == last && o->micro_batch == last_mb &&
                           (forward ? o->module == last_module || o->module == last_module + 1
                                    : o->module == last_module || o->module == last_module - 1);
            bool cut = o->module != last_module &&
                       k->begins[o->module > last_module ? o->module : last_module];
            last = o->kind;
            last_mb = o->micro_batch;
            last_module = o->module;
            if (goes_on && !cut)
                continue;
            up += forward ? 1 : -1;
            peak = up > peak ? up : peak;
        }
        if (up != 0 || peak != t->peak_until_input[role])
            fail_msg("role %d: %d left, at most %d in flight, the grid has %d:%s", role, up, peak,
                     t->peak_until_input[role], what);
    }
}

static void check_in_flight(const struct lw_plan *p, const struct random_model *k, const char *what)
{
    struct lw_schedule_shape s = {p->strategy->schedule, (int32_t)p->strategy->pp,
                                  (int32_t)p->strategy->micro_batches, (int32_t)p->strategy->chunks,
                                  0, NULL, .drain_every = (int32_t)p->strategy->drain_every};
    const struct lw_grid_costs unit = {1, 1, 1, 0};
    struct lw_grid g;
    struct lw_grid_times t;
    struct lw_err err = {0};

    if (lw_schedule_grid(&s, &g, &err) != LW_OK || lw_grid_time(&g, &unit, &t, &err) != LW_OK)
        fail_msg("%s", err.msg);
    expect_in_flight(p, k, &t, what);
    lw_grid_times_free(&t);
    lw_grid_free(&g);
}

static void simulate(const struct lw_plan *p, bool adds_up, const char *what)
{
    struct lw_cluster c;
    struct lw_sim_options o = {.n_steps = 2};
    struct lw_sim_stats stats;
    struct lw_err err = {0};

    make_cluster(&c, p->n_ranks, 1e9, 1000);
    c.device.copy_bytes_per_s = given(1e12);
    for (int buffered = 0; buffered < 2; buffered++) {
        struct lw_timeline t = {0};
        o.buffered = buffered;
        if (adds_up)
            run_both(p, &c, o, &t, &stats);
        else if (lw_sim_run(p, &c, &o, NULL, &stats, &err) != LW_OK)
            fail_msg("%s:%s", err.msg, what);
        assert_true(stats.end > 0);
        lw_timeline_free(&t);
    }
    lw_cluster_free(&c);
}

/* The size that was estimated before is an upper bound, and not far from it. */
static void check_size(const struct lw_plan *p, const struct lw_workload *w, const char *what)
{
    int64_t there = p->n_ops, said = lw_plan_size_estimate(w, p->strategy).ops;

    if (there > said || (there >= 100 && said > 24 * there))
        fail_msg("%" PRId64 " ops, estimated %" PRId64 ":%s", there, said, what);
}

/* What is decided without a plan is what the plan's last pass has, and the largest cap that is to
 * make the same buckets makes as many (test_recommend_policies compares them). */
static void check_settled(const struct lw_plan *p, const struct lw_workload *w,
                          const struct lw_strategy *s, const char *what)
{
    struct lw_settled_buckets got, last;
    struct lw_strategy larger = *s;
    int64_t n = 0;
    int32_t v = lw_plan_variant_of_pass(p, p->n_passes - 1);

    assert_int_equal(lw_plan_settled_buckets(w, s, NULL, &got, NULL), LW_OK);
    for (int32_t i = 0; i < p->n_buckets; i++)
        n += lw_plan_uses_set(p, v, p->buckets[i].set);
    if (got.n != n || got.policy != p->strategy->bucket_policy)
        fail_msg("%d buckets of %s; the plan has %" PRId64 ":%s", got.n,
                 lw_bucket_policy_name(got.policy), n, what);
    if (s->bucket_cap_bytes < 0)
        return;
    larger.bucket_cap_bytes = got.next_cap_bytes - 1;
    assert_int_equal(lw_plan_settled_buckets(w, &larger, NULL, &last, NULL), LW_OK);
    if (last.n != n || last.next_cap_bytes != got.next_cap_bytes)
        fail_msg("caps below %" PRId64 " make %d buckets, the one before it %d:%s",
                 got.next_cap_bytes, got.n, last.n, what);
}

TEST(every_combination_is_proven_and_runs)
{
    struct prng r = prng_start("combinations");
    const int plans = unit_cases(100, 3000);
    int made = 0, pipelines = 0, tensor = 0, zero[4] = {0}, clipped = 0, cut_both_ways = 0;
    int replicas = 0, ahead = 0;

    for (int tries = 0; made < plans; tries++) {
        static struct random_model k;
        struct lw_strategy s;
        struct lw_plan p;
        struct lw_err err = {0};
        char text[1024] = "";
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        random_fsdp(&r, &s);
        strategy_words(&s, text, sizeof text);
        enum lw_status st = lw_plan_build(&k.w, &s, NULL, &p, &err);
        if (st == LW_EPLAN || st == LW_ENOMEM)
            fail_msg("%s:%s", err.msg, text);
        if (tries > 4 * plans)
            fail_msg("only %d of %d combinations can be planned, the last:%s: %s", made, tries,
                     text, err.msg);
        if (st != LW_OK)
            continue;
        simulate(&p, made % 2 == 0, text);
        check_size(&p, &k.w, text);
        check_settled(&p, &k.w, &s, text);
        if (p.strategy->pp > 1)
            check_in_flight(&p, &k, text);
        pipelines += p.strategy->pp > 1;
        tensor += p.strategy->tp > 1;
        zero[p.strategy->zero]++;
        clipped += p.strategy->clip > 0;
        cut_both_ways += p.strategy->zero > 1 && p.strategy->dp > 1 && p.strategy->pp > 1;
        replicas += p.strategy->zero_group > 0;
        ahead += p.strategy->overlap_param_gather && p.strategy->dp > 1;
        lw_plan_free(&p);
        made++;
    }
    printf("%d plans, %d of them pipelines, %d with tensor parallelism, ZeRO 0 to 3: %d %d %d %d "
           "(%d of 2 and 3 on data-parallel pipelines), %d with replicas, %d clipped, %d that "
           "gather ahead\n",
           made, pipelines, tensor, zero[0], zero[1], zero[2], zero[3], cut_both_ways, replicas,
           clipped, ahead);
    assert_true(pipelines > plans / 3 && tensor > plans / 4 && clipped > plans / 4);
    assert_true(zero[1] > plans / 10 && zero[2] > plans / 10 && zero[3] > plans / 10);
    assert_true(cut_both_ways > plans / 10 && replicas > plans / 30);
    assert_true(ahead > plans / 60);
}
