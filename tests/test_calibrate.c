/* Calibration: exec/calibrate.h, docs/design/calibrate.md. Nothing here asserts how fast the machine
 * is, only that the figures are complete, consistent and usable. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "exec/calibrate.h"
#include "exec/calibrate_plan.h"
#include "exec/run.h"
#include "shared/arena.h"
#include "shared/files.h"

static const int64_t sizes[] = {1024, 4096, 100000};
static const lw_ps works[] = {0, 0, 0};

static enum lw_status build(int which, struct lw_plan *p, struct lw_err *err)
{
    switch (which) {
    case 0: return exec_plan_alone(2, sizes, 3, 0, p, err);
    case 1: return exec_plan_beside(2, sizes, 3, works, p, err);
    case 2: return exec_plan_copies(2, sizes, 3, p, err);
    case 3: return exec_plan_collectives(2, LW_OP_BROADCAST, sizes, 3, 0, p, err);
    case 4: return exec_plan_kernels(2, 3, 0, p, err);
    case 5: return exec_plan_pairs(2, sizes, 3, 0, p, err);
    default: return exec_plan_overlap(2, 4096, 3, 0, p, err);
    }
}

static void its_plans_run(void **state)
{
    (void)state;
    for (int k = 0; k < 7; k++) {
        struct lw_plan p;
        struct lw_exec_result r;
        struct lw_err err = {0};
        struct lw_exec_options o = lw_exec_options_default();
        o.compute = EXEC_COMPUTE_SPIN;
        o.n_steps = 1;
        o.n_warmup = 0;
        o.verify = k == 3 || k >= 5; /* the others never update their parameters */
        assert_int_equal(build(k, &p, &err), LW_OK);
        if (lw_exec_run(&p, &o, &r, &err) != LW_OK)
            fail_msg("plan %d: %s", k, err.msg);
        assert_int_equal(r.timeline.n, (int64_t)p.n_ops * 2);
        lw_exec_result_free(&r);
        lw_plan_free(&p);
    }
}

/* 1024 bytes are 256 elements, of which 255 go in 3 equal blocks. */
static void an_all_to_all_of_three_ranks_has_equal_blocks(void **state)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_result r;
    struct lw_plan p;
    struct lw_err err = {0};

    (void)state;
    o.compute = EXEC_COMPUTE_SPIN;
    o.n_steps = 1;
    o.n_warmup = 0;
    assert_int_equal(exec_plan_collectives(3, LW_OP_ALL_TO_ALL, sizes, 3, 0, &p, &err), LW_OK);
    assert_int_equal(p.ops[1].bytes, 1020);
    if (lw_exec_run(&p, &o, &r, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(r.n_checked_message_bytes, 3 * (1020 + 4092 + 99996));
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

static void figure_is_share(struct lw_figure f)
{
    assert_non_null(f.source);
    assert_non_null(strstr(f.source, "spread"));
    assert_true(f.value > 0 && f.value <= 1);
}

static void a_short_calibration_gives_a_whole_cluster(void **state)
{
    struct lw_calibrate_options o = lw_calibrate_options_default();
    struct lw_cluster c, again;
    struct lw_err err = {0};
    char file[] = "/tmp/lapwing-calibrate-XXXXXX";

    (void)state;
    o.n_rounds = 1;
    o.n_steps = 2;
    o.max_bytes = 16 << 20;
    if (lw_calibrate(&o, &c, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(c.name, "host");
    assert_true(c.calibrated);
    assert_int_equal(c.devices_per_node, 2);
    /* all-reduce, broadcast, all-gather, reduce-scatter, reduce, all-to-all where the backend has it, and two
     * all-reduces at once */
    bool all_to_all = o.backend->capabilities & EXEC_CAN_ALL_TO_ALL;
    assert_int_equal(c.n_tables, all_to_all ? 7 : 6);
    assert_int_equal(c.tables[c.n_tables - 1].n_in_flight, 2);
    assert_int_equal(c.tables[c.n_tables - 1].op, LW_OP_ALL_REDUCE);
    assert_int_equal(c.tables[c.n_tables - 2].n_in_flight, 1);
    for (int32_t i = 0; i < c.n_tables; i++)
        for (int32_t k = 0; k < c.tables[i].n_rows; k++) {
            assert_int_equal(c.tables[i].bytes[k], INT64_C(1024) << k);
            assert_true(c.tables[i].time_ps[k] > 0);
        }
    assert_int_equal(c.tables[0].op, LW_OP_ALL_REDUCE);
    for (int32_t i = 0; i < c.n_tables; i++)
        assert_int_equal(c.tables[i].n_rows, 15); /* 1 KiB * 2^14 = 16 MiB */
    figure_is_share(c.interference.compute_rate_under_comm);
    figure_is_share(c.interference.comm_rate_under_compute);
    assert_true(c.device.copy_bytes_per_s.value > 0);
    assert_true(c.device.peak_flops[LW_F32].value > 0);

    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    if (lw_cluster_write(&c, file, &err) != LW_OK || lw_cluster_read(file, &again, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(again.tables[0].time_ps[3], c.tables[0].time_ps[3]);
    assert_true(again.calibrated);
    unlink(file);
    lw_cluster_free(&again);
    lw_cluster_free(&c);
}

static void one_rank_is_refused(void **state)
{
    (void)state;
    struct lw_calibrate_options o = lw_calibrate_options_default();
    struct lw_cluster c;
    struct lw_err err = {0};

    o.n_ranks = 1;
    assert_int_equal(lw_calibrate(&o, &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "2 ranks or more, got 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_plans_run),
        cmocka_unit_test(an_all_to_all_of_three_ranks_has_equal_blocks),
        cmocka_unit_test(a_short_calibration_gives_a_whole_cluster),
        cmocka_unit_test(one_rank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
