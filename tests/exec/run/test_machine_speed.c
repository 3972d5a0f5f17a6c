/* The machine's speed, by hand: docs/design/machine_speed.md. Times of probes are made up, so that
 * nothing here depends on the machine. */
#include "tests/lib/unit.h"

#include <math.h>

#include "exec/run/run.h"
#include "shared/base/arena.h"
#include "shared/cluster/calibrated_probe.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "tests/lib/exec/exec_plan.h"

static void near(double is, double expected)
{
    if (!(fabs(is - expected) <= 1e-9))
        fail_msg("%.17g, expected %.17g", is, expected);
}

/* One calibrated device for each of n ranks, whose probe took 100 us. */
static struct lw_cluster cluster(int32_t n, const char *source)
{
    return (struct lw_cluster){.n_nodes = 1,
                               .devices_per_node = n,
                               .device.probe_ps = {100 * (double)LW_PS_PER_US, source}};
}

#define SOURCE "lapwing calibrate: BLAS 1, sgemm of 192, all ranks at once"

/* A plan with one compute op of the time, or several of them; ps < 0: of FLOPs alone. */
static struct lw_plan plan(struct lw_op *ops, int32_t n_ops, int32_t n_ranks)
{
    return (struct lw_plan){.n_ranks = n_ranks, .n_ops = n_ops, .ops = ops};
}

static struct lw_op op(lw_ps ps)
{
    return (struct lw_op){.kind = LW_OP_BACKWARD, .work = -1, .work_ps = ps};
}

/* After one step of warm-up, measured steps 1 .. 5; batches of steps 0 .. 3 and 4 .. 5. The result
 * owns copies. */
static struct lw_exec_result result(const struct lw_exec_probe *probes, int32_t n)
{
    struct lw_exec_result r = {.n_warmup = 1, .n_steps = 5, .n_probes = n,
                               .compute = "BLAS 1, sgemm of 192"};

    r.probes = lw_alloc((size_t)n * sizeof *r.probes);
    assert_non_null(r.probes);
    memcpy(r.probes, probes, (size_t)n * sizeof *r.probes);
    return r;
}

static enum lw_status find_speed(const struct lw_plan *p, const struct lw_cluster *c,
                                 struct lw_exec_result *r, struct lw_err *err)
{
    return lw_exec_find_speed(p, lw_calibrated_probe(c, r->compute, p->n_ranks), r, err);
}

static const struct lw_exec_probe one_rank[] = {
    {0, 0, 100e3, 100e3}, {4, 0, 125e3, 120e3}, {6, 0, 80e3, 90e3}};

TEST(speeds_of_one_rank_are_as_by_hand)
{
    struct lw_exec_result r = result(one_rank, 3);
    struct lw_cluster c = cluster(1, SOURCE);
    struct lw_op ops[] = {op(1000)};
    struct lw_plan p = plan(ops, 1, 1);
    struct lw_err err = {0};

    assert_ok(find_speed(&p, &c, &r, &err), err);
    assert_int_equal(r.speed.n, 3); /* of 0.8, 1 and 1.25 */
    near(r.speed.median, 1);
    near(r.speed.p10, 0.8 + 0.2 * 0.2);
    near(r.speed.p90, 1 + 0.8 * 0.25);
    assert_int_equal(r.n_compute_speeds, 1);
    near(r.compute_speed[0], 100 / 112.5); /* of three steps; the other two: 120 / 102.5 */
    lw_exec_result_free(&r);
}

/* The table of products predicts them at the calibrated speed, whatever the batch was set by: 100
 * over 112.5, and over 102.5 in two of five steps. */
TEST(ops_of_flops_assume_the_calibrated_speed)
{
    const struct lw_exec_probe set_elsewhere[] = {
        {0, 0, 100e3, 50e3}, {4, 0, 125e3, 50e3}, {6, 0, 80e3, 50e3}};
    struct lw_exec_result r = result(set_elsewhere, 3);
    struct lw_cluster c = cluster(1, SOURCE);
    struct lw_op ops[] = {op(-1), op(0)};
    struct lw_plan p = plan(ops, 2, 1);
    struct lw_err err = {0};

    assert_ok(find_speed(&p, &c, &r, &err), err);
    near(r.compute_speed[0], 100 / 112.5);
    lw_exec_result_free(&r);
}

TEST(each_rank_has_its_own)
{
    const struct lw_exec_probe two[] = {{0, 0, 100e3, 100e3}, {0, 1, 200e3, 200e3},
                                        {6, 0, 100e3, 100e3}, {6, 1, 600e3, 200e3}};
    struct lw_exec_result r = result(two, 4);
    struct lw_cluster c = cluster(2, SOURCE);
    struct lw_op ops[] = {op(1000)};
    struct lw_plan p = plan(ops, 1, 2);
    struct lw_err err = {0};

    assert_ok(find_speed(&p, &c, &r, &err), err);
    assert_int_equal(r.speed.n, 4); /* 1, 1/2, 1, 1/6 */
    near(r.speed.median, 0.75);
    near(r.compute_speed[0], 1);
    near(r.compute_speed[1], 200 / 400.);
    lw_exec_result_free(&r);
}

/* A machine that is slow, but steady, runs ops of the plan's time in that time. */
TEST(a_steady_machine_has_a_compute_speed_of_1)
{
    const struct lw_exec_probe slow[] = {
        {0, 0, 200e3, 200e3}, {4, 0, 200e3, 200e3}, {6, 0, 200e3, 200e3}};
    struct lw_exec_result r = result(slow, 3);
    struct lw_cluster c = cluster(1, SOURCE);
    struct lw_op ops[] = {op(1000)};
    struct lw_plan p = plan(ops, 1, 1);
    struct lw_err err = {0};

    assert_ok(find_speed(&p, &c, &r, &err), err);
    near(r.speed.median, 0.5);
    near(r.compute_speed[0], 1);
    lw_exec_result_free(&r);
}

/* Without the same probe in the calibration nothing is said of it; a plan's times need none. */
TEST(what_is_not_known_is_not_set)
{
    const struct {
        struct lw_cluster c;
        lw_ps ps[2];
        double compute_speed;
    } cases[] = {
        {{.n_nodes = 1, .devices_per_node = 1}, {1000, 1000}, 100 / 112.5}, /* an old file */
        {cluster(1, "BLAS 2, sgemm of 192"), {1000, 1000}, 100 / 112.5},
        {cluster(2, SOURCE), {1000, 1000}, 100 / 112.5},
        {cluster(2, SOURCE), {-1, -1}, NAN},
        {cluster(1, SOURCE), {-1, 1000}, NAN}, /* ops of both kinds */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_exec_result r = result(one_rank, 3);
        struct lw_op ops[] = {op(cases[i].ps[0]), op(cases[i].ps[1])};
        struct lw_plan p = plan(ops, 2, 1);
        struct lw_err err = {0};
        assert_ok(find_speed(&p, &cases[i].c, &r, &err), err);
        assert_int_equal(r.speed.n, i == 4 ? 3 : 0);
        if (isnan(cases[i].compute_speed))
            assert_true(isnan(r.compute_speed[0]));
        else
            near(r.compute_speed[0], cases[i].compute_speed);
        lw_exec_result_free(&r);
    }
}

TEST(without_probes_nothing_is_set)
{
    struct lw_exec_result r = {.n_steps = 1, .compute = "BLAS 1, sgemm of 192"};
    struct lw_cluster c = cluster(1, SOURCE);
    struct lw_op ops[] = {op(1000)};
    struct lw_plan p = plan(ops, 1, 1);

    assert_int_equal(find_speed(&p, &c, &r, NULL), LW_OK);
    assert_int_equal(r.speed.n, 0);
    assert_int_equal(r.n_compute_speeds, 0);
}

/* --- when it is probed ------------------------------------------------------------------------ */

static int n_probes;

/* Of rank k the n-th time: 1000 n + k, set by half of it. */
static enum lw_status made_up(struct exec_world *w, struct exec_product_time *t, struct lw_err *err)
{
    (void)w, (void)err;
    n_probes++;
    for (int k = 0; k < 2; k++)
        t[k] = (struct exec_product_time){1000 * n_probes + k, 500 * n_probes};
    return LW_OK;
}

static struct lw_exec_result run(struct lw_exec_options o, lw_ps work_ps)
{
    struct exec_test_plan t = exec_test_plan_default();
    struct exec_backend probing = exec_backend_threads;
    struct lw_exec_result r = {0};
    struct lw_err err = {0};
    struct lw_plan p;

    n_probes = 0;
    probing.time_product = made_up;
    o.backend = &probing;
    t.n_params = 1;
    t.work_ps = work_ps;
    assert_ok(exec_test_plan_build(&t, &p, &err), err);
    assert_ok(lw_exec_run(&p, &o, &r, &err), err);
    lw_plan_free(&p);
    return r;
}

static void expect_probes(const struct lw_exec_result *r, const int32_t *steps, int32_t n)
{
    assert_int_equal(n_probes, n);
    assert_int_equal(r->n_probes, 2 * n);
    for (int32_t i = 0; i < 2 * n; i++) {
        assert_int_equal(r->probes[i].step, steps[i / 2]);
        assert_int_equal(r->probes[i].rank, i % 2);
        near(r->probes[i].now_ns, 1000 * (i / 2 + 1) + i % 2);
        near(r->probes[i].set_ns, 500 * (i / 2 + 1));
    }
}

/* A forward and a backward of 40 ms each: seven steps take half a second of compute. Twelve are two
 * batches of six; a rehearsal is not probed. Steps of a microsecond are one batch, and where half a
 * second is less than four steps, four are one. */
TEST(probes_stand_between_batches_of_half_a_second)
{
    struct lw_exec_options o = lw_exec_options_default();
    const int32_t of_12[] = {0, 6, 12}, of_8[] = {0, 4, 8}, of_all[] = {0, 8};

    o.n_warmup = 2;
    o.n_steps = 10;
    struct lw_exec_result r = run(o, 40 * LW_PS_PER_MS);
    expect_probes(&r, of_12, 3);
    assert_int_equal(r.n_batches, 2);
    lw_exec_result_free(&r);
    o.n_steps = 6;
    r = run(o, 100 * LW_PS_PER_MS);
    expect_probes(&r, of_8, 3);
    lw_exec_result_free(&r);
    r = run(o, LW_PS_PER_US);
    expect_probes(&r, of_all, 2);
    lw_exec_result_free(&r);
}

/* Compute by the clock does not depend on the machine's speed. */
TEST(other_compute_is_not_probed)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = EXEC_COMPUTE_SLEEP;
    o.n_steps = 6;
    struct lw_exec_result r = run(o, LW_PS_PER_US);
    assert_int_equal(n_probes, 0);
    assert_int_equal(r.n_probes, 0);
    lw_exec_result_free(&r);
}
