/* Critical paths and charges: a step by hand, and on random plans the sums that must hold. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "analysis/explain/explain.h"
#include "analysis/explain/explain_whatif.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "sim/bench/bench_plan.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"
#include "tests/lib/plans/tiny_workload.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

static struct lw_err err;

static void ok(enum lw_status st)
{
    assert_ok(st, err);
}

/* --- by hand ---------------------------------------------------------------------------------- */

static const int64_t sizes[] = {1 << 20, 3 << 20};
static const struct fixture_run by_hand = {.kind = LW_RUN_EXEC, .sizes = sizes, .n_buckets = 2,
                                           .n_steps = 2, .wire_us = 100, .cap_bytes = 1 << 20};

static void load(const char *id, struct lw_plan *p, struct lw_timeline *t)
{
    struct lw_store *store;
    struct lw_arena arena = {0};
    struct lw_run run;

    ok(lw_store_open(runs_db, LW_STORE_READ, &store, &err));
    ok(lw_store_find_run(store, id, &arena, &run, &err));
    ok(lw_store_load_plan(store, &run, p, &err));
    ok(lw_store_load_timeline(store, &run, t, &err));
    lw_store_close(store);
    lw_arena_free(&arena);
}

static void expect_charge(const struct lw_explanation *e, enum lw_cause c, int64_t us)
{
    assert_int_equal(e->charge[c], us * LW_PS_PER_US);
}

/* tests/lib/commands/run_fixture.h: rank 0 has compute to 300, bucket 0 moves 212-312, bucket 1
 * 312-412, the optimizer runs 412-432. From 300 on the rank waits for bucket 1, which was ready
 * at 250: until 312 bucket 0 stands before it (12 us in the queue), then it moves (100 us). Both
 * are exposed. */
TEST_WITH(a_step_by_hand_is_charged_by_cause, runs_open, fixture_close)
{
    struct lw_explanation e;
    struct lw_timeline t;
    struct lw_plan p;

    runs_store(&by_hand);
    load("1", &p, &t);
    ok(lw_explain(&t, &p, 0, -1, -1, &e, &err));
    assert_int_equal(e.rank, 0);
    assert_int_equal(e.length, 432 * LW_PS_PER_US);
    expect_charge(&e, LW_CAUSE_COMPUTE, 320);
    expect_charge(&e, LW_CAUSE_QUEUE, 12);
    expect_charge(&e, LW_CAUSE_TRANSFER, 100);
    expect_charge(&e, LW_CAUSE_WAIT, 0);
    lw_explanation_free(&e);
    lw_timeline_free(&t);
    lw_plan_free(&p);
}

/* The critical path of that step: optimizer 412-432, bucket 1 312-412, bucket 0 in whose queue
 * it stood from 250 on (250-312), moving since 212 (212-250), where rank 1 came last. It waited
 * for its backward: but that ends at 300, later than the bucket began, so nothing in the plan
 * held rank 1 back before 212: the recording says a bucket starts within its backward. */
TEST_WITH(the_critical_path_goes_on_at_the_last_rank, runs_open, fixture_close)
{
    static const struct {
        int rank;
        enum lw_cause cause;
        int64_t from, to;
    } want[] = {
        {1, LW_CAUSE_COMPUTE, 100, 212},  /* backward, up to where it let go */
        {0, LW_CAUSE_TRANSFER, 212, 250},
        {0, LW_CAUSE_QUEUE, 250, 312},
        {0, LW_CAUSE_TRANSFER, 312, 412},
        {0, LW_CAUSE_COMPUTE, 412, 432},
    };
    struct lw_explanation e;
    struct lw_timeline t;
    struct lw_plan p;

    runs_store(&by_hand);
    load("1", &p, &t);
    ok(lw_explain(&t, &p, 0, 1, 0, &e, &err));
    assert_int_equal(e.n_path, 6);
    assert_int_equal(e.path[0].op, 0); /* the forward of rank 1 */
    for (int i = 0; i < 5; i++) {
        const struct lw_path_part *q = &e.path[i + 1];
        assert_int_equal(q->rank, want[i].rank);
        assert_int_equal(q->cause, want[i].cause);
        assert_int_equal(q->from, want[i].from * LW_PS_PER_US);
        assert_int_equal(q->to, want[i].to * LW_PS_PER_US);
    }
    lw_explanation_free(&e);
    lw_timeline_free(&t);
    lw_plan_free(&p);
}

/* Work of 10 us on rank 0 and 30 us on rank 1 (half speed, 15 us of work), then an all-reduce: rank
 * 0 waits 20 us for the last rank; launched and started at once. */
TEST(waiting_for_a_slow_rank_is_told_from_moving)
{
    struct lw_builder *b = begin_plan("wait", 2);
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_timeline t = {0};
    struct lw_explanation e;
    struct lw_sim_stats stats;
    struct lw_cluster c;
    struct lw_plan p;

    int32_t work = add_work(b, LW_OP_BACKWARD, 0, 10 * LW_PS_PER_US, -1);
    add_collective(b, LW_OP_ALL_REDUCE, 0, 1, 1000000, work);
    finish_plan(b, &p);
    make_cluster(&c, 2, 1e9, 0); /* 2 (n-1)/n B / rate = 1 ms */
    add_exception(&c, (struct lw_exception){.rank = 1, .rank_to = -1, .speed = 1.0 / 3});
    ok(lw_sim_run(&p, &c, &o, &t, &stats, &err));
    ok(lw_explain(&t, &p, 0, -1, 0, &e, &err));
    lw_ps late = e.charge[LW_CAUSE_WAIT];
    assert_true(late > 19999 * LW_PS_PER_NS && late < 20001 * LW_PS_PER_NS);
    expect_charge(&e, LW_CAUSE_COMPUTE, 10);
    expect_charge(&e, LW_CAUSE_TRANSFER, 1000);
    assert_int_equal(e.on_path[LW_CAUSE_WAIT], 0); /* the path goes through rank 1's work */
    assert_int_equal(e.on_path[LW_CAUSE_COMPUTE], 10 * LW_PS_PER_US + late);
    lw_explanation_free(&e);
    ok(lw_explain(&t, &p, 0, -1, 1, &e, &err));
    assert_int_equal(e.charge[LW_CAUSE_WAIT], 0);
    assert_int_equal(e.charge[LW_CAUSE_COMPUTE], 10 * LW_PS_PER_US + late);
    lw_explanation_free(&e);
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    lw_plan_free(&p);
}

/* --- what must hold on any run ---------------------------------------------------------------- */

/* Charges of each part of the glossary's split add up to what the summary of the same rows says. */
static void expect_the_summary(const struct lw_timeline *t, const struct lw_plan *p,
                               const struct lw_explanation *e)
{
    const lw_ps *c = e->charge;
    struct lw_summary s;
    lw_ps waits = 0;

    ok(lw_timeline_measure(t, p, 0, &s, &err));
    const struct lw_measure *m = &s.ranks[e->rank];
    for (int i = 0; i < LW_N_WAITS; i++) {
        waits += m->wait[i];
        assert_int_equal(m->wait[i], e->measure.wait[i]);
    }
    assert_int_equal(c[LW_CAUSE_COMPUTE], m->compute_busy);
    assert_int_equal(c[LW_CAUSE_COPY], m->exposed_copy);
    assert_int_equal(c[LW_CAUSE_TRANSFER] + c[LW_CAUSE_QUEUE], m->transfer);
    assert_int_equal(c[LW_CAUSE_WAIT], waits);
    assert_int_equal(c[LW_CAUSE_HOST] + c[LW_CAUSE_LAUNCH] + c[LW_CAUSE_DELAY] + c[LW_CAUSE_SKEW],
                     m->idle);
    lw_summary_free(&s);
}

static void expect_sums(const struct lw_timeline *t, const struct lw_plan *p, int32_t rank)
{
    struct lw_explanation e;
    lw_ps time = 0, exposed = 0, path = 0, at = 0;

    ok(lw_explain(t, p, 0, -1, rank, &e, &err));
    for (int c = 0; c < LW_N_CAUSES; c++) {
        assert_true(e.charge[c] >= 0);
        time += e.charge[c];
        exposed += lw_cause_is_exposed((enum lw_cause)c) ? e.charge[c] : 0;
        path += e.on_path[c];
    }
    assert_int_equal(time, e.measure.end - e.measure.start);
    assert_int_equal(path, e.length);
    assert_int_equal(exposed, e.measure.exposed_comm);
    expect_the_summary(t, p, &e);
    for (int64_t i = 0; i < e.n_path; i++) { /* tiled, in time, by what runs there */
        const struct lw_path_part *q = &e.path[i];
        assert_int_equal(q->from, at);
        assert_true(q->to > q->from);
        at = q->to;
    }
    assert_int_equal(at, e.length);
    lw_explanation_free(&e);
}

TEST(charges_add_up_on_random_clusters)
{
    struct prng r = prng_start("explanations");

    for (int i = 0; i < 60; i++) {
        struct lw_sim_options o = {.n_steps = 2, .seed = (uint64_t)i,
                                   .start_skew_ps = prng_in(&r, 0, 1) * prng_in(&r, 1, 3000000)};
        struct lw_strategy s = lw_strategy_default();
        struct lw_timeline t = {0};
        struct lw_sim_stats stats;
        struct lw_cluster c;
        struct lw_plan p;
        struct tiny w;
        tiny_init(&w);
        s.dp = prng_in(&r, 2, 5);
        s.bucket_cap_bytes = 4 * prng_in(&r, 0, 700);
        make_cluster(&c, (int32_t)s.dp, 1e8 * (double)prng_in(&r, 1, 100), prng_in(&r, 0, 900000));
        c.device.copy_bytes_per_s = given(1e8 * (double)prng_in(&r, 1, 100));
        if (prng_in(&r, 0, 1))
            c.interference.compute_rate_under_comm = given(0.5);
        else if (prng_in(&r, 0, 1))
            give_channels(&c, 96, 2);
        if (prng_in(&r, 0, 1))
            add_exception(&c, (struct lw_exception){.rank = 1, .rank_to = -1, .speed = 0.7,
                                                    .late_ps = prng_in(&r, 0, 2000000)});
        ok(lw_plan_build(&w.w, &s, NULL, &p, &err));
        ok(lw_sim_run(&p, &c, &o, &t, &stats, &err));
        for (int32_t rank = -1; rank < s.dp; rank++)
            expect_sums(&t, &p, rank);
        lw_timeline_free(&t);
        lw_cluster_free(&c);
        lw_plan_free(&p);
    }
}

/* What NCCL takes of compute by itself is a what-if, whose step is that without it. */
TEST_WITH(a_step_without_interference_is_that_of_the_option, fixture_open, fixture_close)
{
    char line[100];
    double off = number_after(lapwing("sim -w gpt2 -c dgx-h100 --dp 8 --interference off --no-db "
                                      "--format json", NULL), "\"step_ns\": ");

    lapwing("sim -w gpt2 -c dgx-h100 --dp 8 --db x.db", NULL);
    snprintf(line, sizeof line, "compute and communication do not slow each other  %.3f",
             off / 1e6);
    expect("explain last --db x.db", 0, line);
}

/* The what-ifs of a stored run begin with its own step, under every --interference, also where its
 * cluster is named. Another cluster gets what the command says. */
TEST_WITH(what_ifs_have_the_interference_of_the_run, fixture_open, fixture_close)
{
    static const char *const words[] = {"", "--interference channels", "--interference off",
                                        "--interference published", "--published-interference"};
    const char sim[] = "sim -w gpt2 -c %s --dp 8 %s %s --format json";
    char line[160];
    double steps[5];

    lapwing("cluster dgx-h100 -o other.json", NULL);
    shell("sed -i 's/\"name\": \"dgx-h100\"/\"name\": \"other\"/' other.json", NULL);
    for (int i = 0; i < 5; i++) {
        snprintf(line, sizeof line, sim, "dgx-h100", words[i], "--db w.db");
        steps[i] = number_after(lapwing(line, NULL), "\"step_ns\": ");
        for (int named = 0; named < 2; named++) {
            const char *out = lapwing(named ? "explain last --db w.db -c dgx-h100"
                                            : "explain last --db w.db", NULL);
            has(out, "simulated");
            has_not(out, "not simulated");
            has_not(out, "figures differ");
            assert_true(number_after(out, "\nas it is ") == round(steps[i] / 1e3) / 1e3);
        }
        snprintf(line, sizeof line, sim, "other.json", words[i], "--no-db");
        double other = number_after(lapwing(line, NULL), "\"step_ns\": ");
        const char *out = lapwing("explain last --db w.db -c other.json", NULL);
        has(out, "figures differ");
        assert_true(number_after(out, "\nas it is ") == round(other / 1e3) / 1e3);
    }
    assert_true(steps[0] == steps[1] && steps[2] < steps[0] && steps[3] == steps[4]);
}

/* Sends and receives between many ranks, and starts moved at random: a measured run's times obey no
 * plan to the ns. */
TEST(charges_add_up_on_pipelines_and_on_shaken_times)
{
    struct prng r = prng_start("shaken times");
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_cluster c;
    struct lw_plan p;

    ok(sim_bench_plan(SIM_BENCH_STREAMS, 4, &p, &err));
    ok(sim_bench_cluster(4, &c, &err));
    ok(lw_sim_run(&p, &c, &o, &t, &stats, &err));
    for (int32_t rank = -1; rank < 4; rank++)
        expect_sums(&t, &p, rank);
    for (int round = 0; round < 20; round++) {
        for (int64_t i = 0; i < t.n; i++) {
            lw_ps late = prng_in(&r, 0, 5000000);
            t.issue[i] = prng_in(&r, 0, 2) ? t.ready[i] + late / 2 : -1;
            t.start[i] += late;
            t.end[i] += late + prng_in(&r, 0, 300000);
            t.all_in[i] = t.all_in[i] >= 0 && t.all_in[i] < t.start[i] ? t.start[i] : t.all_in[i];
            t.all_in[i] = t.all_in[i] > t.end[i] ? t.end[i] : t.all_in[i];
        }
        for (int32_t rank = -1; rank < 4; rank++)
            expect_sums(&t, &p, rank);
    }
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    lw_plan_free(&p);
}

TEST_WITH(missing_run_is_refused, runs_open, fixture_close)
{
    struct lw_explanation e = {0};
    struct lw_timeline t;
    struct lw_plan p;

    runs_store(&by_hand);
    load("1", &p, &t);
    assert_int_equal(lw_explain(&t, &p, 0, 7, -1, &e, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "no step 7; it has steps 0 to 1"));
    assert_int_equal(lw_explain(&t, &p, 0, -1, 2, &e, &err), LW_EINVAL);
    t.op[3] = 99;
    assert_int_equal(lw_explain(&t, &p, 0, -1, -1, &e, &err), LW_EINVAL);
    t.op[3] = 3;
    EACH_ALLOCATION_FAILS(0, lw_explain(&t, &p, 0, -1, -1, &e, &err), e, lw_explanation_free(&e));
    lw_timeline_free(&t);
    lw_plan_free(&p);
}

/* A plan out of the database says for whom its communicators are, so a pipeline's waits stay. */
TEST_WITH(a_stored_pipeline_waits_for_its_neighbours, runs_open, fixture_close)
{
    expect("model mlp --device dgx-a100 -o m.json", 0, "");
    expect("sim -w m.json -c dgx-a100 --pp 2 --micro-batches 4 --db p.db", 0, "wait, pipeline");
    expect("explain 1 --db p.db", 0, "  wait, pipeline");
}

/* --- the command ------------------------------------------------------------------------------ */

static int half_compute(const struct lw_what_if *what, int n)
{
    int k = 0;

    while (k < n && strcmp(what[k].key, "half_compute") != 0)
        k++;
    assert_true(k < n);
    return k;
}

/* One rank computes 12 us of forward and backward, and an optimizer of 7: half of it. Works belong
 * to the plan, and ops share them: none is changed twice, and all are as they were after. */
TEST(compute_in_half_the_time_halves_the_works_of_a_plan)
{
    struct tiny t;
    struct lw_plan p;
    struct lw_cluster c;
    struct lw_what_if what[LW_N_WHAT_IFS];
    struct lw_sim_stats stats;
    struct lw_strategy s = lw_strategy_default();
    int n = 0, half;

    tiny_init(&t);
    make_cluster(&c, 1, 1e9, 0);
    ok(lw_plan_build(&t.w, &s, NULL, &p, &err));
    ok(lw_explain_what_ifs(&p, &c, what, &n, &stats, &err));
    half = half_compute(what, n);
    assert_int_equal(what[half].step, what[0].step / 2);
    ok(lw_explain_what_ifs(&p, &c, what, &n, &stats, &err));
    assert_int_equal(what[half].step, what[0].step / 2);
    lw_plan_free(&p);
    lw_cluster_free(&c);
    lw_arena_free(&t.w.arena);
}

/* The cluster times the optimizer, which has no time of its own: it is as long beside half of the
 * 18 us of forward and backward. */
TEST(compute_that_the_cluster_times_is_not_left_out)
{
    struct tiny t;
    struct lw_plan p;
    struct lw_cluster c;
    struct lw_what_if what[LW_N_WHAT_IFS];
    struct lw_sim_stats stats;
    struct lw_strategy s = lw_strategy_default();
    int n = 0, half;

    tiny_init(&t);
    make_cluster(&c, 1, 1e9, 0);
    c.device.memory_bytes_per_s = (struct lw_figure){1e9, "test"};
    ok(lw_plan_build(&t.w, &s, NULL, &p, &err));
    int32_t optimizer = 0; /* of 7 us */
    while (p.ops[optimizer].kind != LW_OP_OPTIMIZER)
        optimizer++;
    struct lw_work *w = &p.works[p.ops[optimizer].work];
    w->ps = -1;
    w->bytes = 10000;
    ok(lw_explain_what_ifs(&p, &c, what, &n, &stats, &err));
    half = half_compute(what, n);
    lw_ps others = 18 * LW_PS_PER_US, asked = what[0].step - others;
    assert_true(asked > 0);
    assert_int_equal(what[half].step, others / 2 + asked);
    lw_plan_free(&p);
    lw_cluster_free(&c);
    lw_arena_free(&t.w.arena);
}

TEST_WITH(what_ifs_are_simulated_or_it_says_why_not, runs_open, fixture_close)
{
    expect("import $R/gpt6__local.rank0.json.gz -o w.json", 0, "w.json");
    expect("sim -w w.json --dp 2 -c dgx-a100 --as-recorded --spans --db r.db", 0,
           "step 150.083 ms");
    EXPECT(
        "explain", {"last --db r.db", 0, "as it is                  150.083          -         -"},
        {"1 --db r.db", 0, "twice the bandwidth", {"modelled by nccl+cal ("}},
        {"1 --db r.db --format json",
         0,
         "\"change\": \"no_communication\"",
         {"\"what_ifs_note\": null", "\"wait_pipeline_ns\": ", "\"by\": \"nccl+cal\""}},
        {"1 --db r.db --format csv", 0, "cause,time_ns,share_pct,exposed_comm_ns,critical_path_ns"},
        {"1 --db r.db -c dgx-h100", 0, "note: 'dgx-h100' is not the cluster of the run"},
        {"2 --db r.db", 1, "no run '2'"});
    /* spans are kept without being asked for up to 50,000 ops */
    expect("sim -w w.json --dp 2 -c dgx-a100 --as-recorded --db r.db", 0, "run 2");
    expect("explain 2 --db r.db", 0, "twice the bandwidth");
    expect("sim -w w.json --dp 2 -c dgx-a100 --as-recorded --db r.db --steps 2000", 0, "run 3");
    expect("explain 3 --db r.db", 1, "--spans");
    expect("explain --db r.db", 1, "run 3"); /* the last run, where none is named */
    expect("export --db r.db -o - --format csv", 1, "run 3");
    runs_store(&by_hand);
    sql_do(runs_db, "UPDATE run SET cluster_file = NULL"); /* as an older lapwing stored it */
    const char *out = lapwingf("explain 1 --db %s", runs_db);
    has(out, "what-ifs are not simulated: ");
    has(out, "name the run's cluster file with -c");
}
