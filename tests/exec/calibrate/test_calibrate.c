/* Calibration: exec/calibrate/calibrate.h, docs/design/calibrate.md. Nothing here asserts how
 * fast the machine is: what is made of given samples is exact, and a real run is complete,
 * consistent and usable. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "exec/calibrate/calibrate.h"
#include "exec/calibrate/calibrate_state.h"
#include "shared/files/files.h"
#include "tests/lib/failing_alloc.h"

/* --- samples ---------------------------------------------------------------------------------- */

static void put(struct exec_samples *s, double v)
{
    struct lw_err err = {0};

    assert_int_equal(exec_samples_add(s, v, &err), LW_OK);
}

TEST(samples_have_a_median_and_a_spread)
{
    struct exec_samples s = {0};

    assert_true(exec_samples_median(&s) == 0 && exec_samples_spread(&s) == 0);
    for (int i = 0; i < 5; i++)
        put(&s, (double[]){50, 10, 40, 20, 30}[i]);
    assert_true(exec_samples_median(&s) == 30);
    assert_true(exec_samples_quarter(&s) == 20);
    assert_true(exec_samples_spread(&s) == 20); /* 40 - 20 */
    put(&s, 60);
    assert_true(exec_samples_median(&s) == 30); /* the lower of 30 and 40 */
    exec_samples_free(&s);
}

/* Sizes from the smallest on come with one more of it in front, which does not count; later ones
 * as they are. Neither do the first two steps. */
TEST(first_op_of_each_step_is_left_out)
{
    static const int64_t all[] = {10, 20, 30, 40};
    int64_t sizes[CALIBRATE_SIZES + 1];
    struct lw_op ops[] = {{.module = 0}, {.module = 1}, {.module = 2}};
    const struct lw_plan p = {.ops = ops, .n_ops = 3};
    int32_t step[] = {1, 2, 2, 2}, op[] = {2, 0, 1, 2};
    const struct lw_timeline t = {.n = 4, .step = step, .op = op};

    assert_int_equal(exec_calibrate_sizes(all, 0, 2, sizes), 3);
    assert_memory_equal(sizes, ((int64_t[]){10, 10, 20}), 3 * sizeof *sizes);
    assert_int_equal(exec_calibrate_sizes(all, 2, 2, sizes), 2);
    assert_memory_equal(sizes, ((int64_t[]){30, 40}), 2 * sizeof *sizes);
    assert_int_equal(exec_calibrate_size_of(&p, &t, 0, 0), -1); /* warm-up */
    assert_int_equal(exec_calibrate_size_of(&p, &t, 1, 0), -1); /* the first of its step */
    assert_int_equal(exec_calibrate_size_of(&p, &t, 2, 0), 0);
    assert_int_equal(exec_calibrate_size_of(&p, &t, 3, 0), 1);
    assert_int_equal(exec_calibrate_size_of(&p, &t, 1, 2), 2);
    assert_int_equal(exec_calibrate_size_of(&p, &t, 3, 2), 4);
}

/* Eight steps; the quarter with the shortest kernels (10 and 20) keeps its rates, 0.1 and 0.2. */
TEST(rates_of_disturbed_steps_are_dropped)
{
    static const double length[] = {80, 10, 70, 20, 60, 50, 40, 30};
    struct exec_calibration c = {0};
    struct exec_samples kept = {0};
    struct lw_err err = {0};

    for (int i = 0; i < 8; i++) {
        put(&c.disturbance, length[i]);
        put(&c.compute_rate, length[i] / 100);
    }
    assert_int_equal(exec_calibrate_undisturbed(&c, &kept, &err), LW_OK);
    assert_int_equal(kept.n, 2);
    assert_true(kept.v[0] == 0.1 && kept.v[1] == 0.2);
    assert_int_equal(c.compute_rate.n, 8); /* in their order: of the next round */
    assert_true(c.disturbance.v[0] == 80 && c.disturbance.v[7] == 30);
    exec_samples_free(&kept);
    exec_samples_free(&c.disturbance);
    exec_samples_free(&c.compute_rate);
}

/* Two collectives, alone 100 and 200 us, that begin together. The first takes 150: a rate of
 * 100/150. The second takes 260, the last 110 of it alone: it did 90 of its 200 in the 150. Beside
 * compute: a gather of 100 us takes 125 while a kernel of 300 us takes 350; the kernel alone
 * afterwards takes 300: it did 300 - 225 = 75 in the 125. Where they hardly meet, the difference
 * of long times would be divided by a short one: no rate. */
TEST(both_sides_of_a_pair_slow_down_as_by_hand)
{
    static const struct {
        int32_t pair, n;
        struct lw_op ops[4];
        lw_ps start[4], end[4];
        enum lw_activity of[2];
        double rate[2];
    } cases[] = {
        {4, 3, {{.kind = LW_OP_KERNEL},
                {.kind = LW_OP_ALL_GATHER, .comm = 0},
                {.kind = LW_OP_REDUCE_SCATTER, .comm = 1}},
         {0, 10, 10}, {10, 160, 270},
         {LW_ACTIVITY_COMM + LW_OP_ALL_GATHER - LW_OP_ALL_REDUCE,
          LW_ACTIVITY_COMM + LW_OP_REDUCE_SCATTER - LW_OP_ALL_REDUCE}, {100.0 / 150, 90.0 / 150}},
        {1, 4, {{.kind = LW_OP_KERNEL},
                {.kind = LW_OP_ALL_GATHER, .comm = 0},
                {.kind = LW_OP_KERNEL, .work_ps = LW_PS_PER_MS},
                {.kind = LW_OP_KERNEL, .work_ps = LW_PS_PER_MS}},
         {0, 10, 10, 360}, {10, 135, 360, 660},
         {LW_ACTIVITY_COMM + LW_OP_ALL_GATHER - LW_OP_ALL_REDUCE, LW_ACTIVITY_COMPUTE},
         {100.0 / 125, 75.0 / 125}},
        /* together for 49 of the 100 us of the shorter: no rate */
        {4, 3, {{.kind = LW_OP_KERNEL},
                {.kind = LW_OP_ALL_GATHER, .comm = 0},
                {.kind = LW_OP_REDUCE_SCATTER, .comm = 1}},
         {0, 10, 81}, {10, 130, 291},
         {LW_ACTIVITY_COMM + LW_OP_ALL_GATHER - LW_OP_ALL_REDUCE,
          LW_ACTIVITY_COMM + LW_OP_REDUCE_SCATTER - LW_OP_ALL_REDUCE}, {0}},
    };
    const struct lw_calibrate_options o = {.n_ranks = 2};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_calibration *c = lw_calloc(1, sizeof *c);
        struct exec_piece piece = {.series = cases[i].pair};
        struct lw_err err = {0};
        int32_t step[] = {2, 2, 2, 2}, rank[] = {0, 0, 0, 0}, op[] = {0, 1, 2, 3};
        lw_ps start[4], end[4], all_in[] = {-1, -1, -1, -1};
        for (int k = 0; k < 4; k++) {
            start[k] = cases[i].start[k] * LW_PS_PER_US;
            end[k] = cases[i].end[k] * LW_PS_PER_US;
        }
        const struct lw_plan p = {.ops = (struct lw_op *)cases[i].ops, .n_ops = cases[i].n};
        struct lw_exec_result r = {.timeline = {.n = cases[i].n, .step = step, .rank = rank,
                                                .op = op, .start = start, .end = end,
                                                .all_in = all_in}};
        c->o = &o;
        c->n_sizes = 1;
        c->bytes[0] = 1 << 20;
        put(&c->comm[SERIES_GATHER][0], 100.0 * LW_PS_PER_US);
        put(&c->comm[SERIES_SCATTER][0], 200.0 * LW_PS_PER_US);
        assert_ok(exec_calibrate_keep_pairs(c, &piece, &p, &r, &err), err);
        for (int k = 0; k < 2; k++) {
            struct exec_samples *s = &c->pair[cases[i].of[k]][cases[i].of[1 - k]];
            bool kept = cases[i].rate[k] > 0;
            assert_int_equal(s->n, kept);
            assert_int_equal(c->n_apart[cases[i].of[k]][cases[i].of[1 - k]], !kept);
            if (kept)
                assert_float_equal(s->v[0], cases[i].rate[k], 1e-9);
            exec_samples_free(s);
        }
        exec_samples_free(&c->comm[SERIES_GATHER][0]);
        exec_samples_free(&c->comm[SERIES_SCATTER][0]);
        lw_free(c);
    }
}

/* 17 ranks divide by 17 and add up 17 such numbers: 289, more than 2^8, less than 2^11. */
TEST(narrow_gradients_of_many_ranks_are_left_out)
{
    static const struct {
        int32_t n_ranks;
        bool fits[EXEC_N_PASSES]; /* f32, bf16, f16, f32 as bf16, f32 as f16 */
    } cases[] = {{2, {1, 1, 1, 1, 1}}, {64, {1, 1, 1, 1, 1}}, {17, {1, 0, 1, 0, 1}}};

    for (int i = 0; i < 3; i++) {
        struct lw_calibrate_options o = {.n_ranks = cases[i].n_ranks};
        const struct exec_calibration c = {.o = &o};
        for (int32_t k = 0; k < EXEC_N_PASSES; k++)
            assert_int_equal(exec_calibrate_pass_fits(&c, k), cases[i].fits[k]);
    }
}

/* --- the cluster that comes of samples -------------------------------------------------------- */

static int32_t work_series(enum lw_work_kind kind, enum lw_dtype dtype)
{
    int32_t i = 0;

    while (exec_work_series[i].kind != kind || exec_work_series[i].dtype != dtype)
        i++;
    return i;
}

/* 1, 2 and 3 times `unit`: the median is 2, three quarters are no larger than 2, a quarter than
 * 1. */
static void put_three(struct exec_samples *s, double unit)
{
    for (int i = 1; i <= 3; i++)
        put(s, i * unit);
}

/* Three ranks; sizes of 1 and 2 KiB; of the backend's series all-reduces, barriers and messages. */
static void make_samples(struct exec_calibration *c)
{
    c->n_sizes = 2;
    c->n_small = 1;
    c->bytes[0] = 1024;
    c->bytes[1] = 2048;
    for (int i = 0; i < 2; i++) {
        put_three(&c->comm[SERIES_REDUCE_ALL][i], 1000 * (i + 1));
        put_three(&c->comm[SERIES_SEND][i], 500 * (i + 1));
        put_three(&c->comm[FIRST_PAIR + SERIES_REDUCE_ALL][i], 1500 * (i + 1));
        put_three(&c->comm[SERIES_SEND_BOTH][i], 600 * (i + 1));
        put_three(&c->work[work_series(LW_WORK_GEMM, LW_F32)][i], 100 * (i + 1));
        put_three(&c->work[work_series(LW_WORK_CAST, LW_F16)][i], 300 * (i + 1));
    }
    put_three(&c->comm[SERIES_BARRIER][0], 50);
    put(&c->work[work_series(LW_WORK_ADAM, LW_F32)][1], 77); /* the smallest was not measured */
    put_three(&c->copy_rate, 1e9);
    put_three(&c->launch, 30000);
    put_three(&c->kernel, 0.5);
    put_three(&c->compute_rate, 0.2);
    put_three(&c->comm_rate, 0.6); /* a median of 1.2: as fast as alone */
    put_three(&c->unit_all, 500);
    snprintf(c->name, sizeof c->name, "BLAS 7, sgemm of 5");
    snprintf(c->device, sizeof c->device, "abacus");
    c->unit_flops = 250;
    c->memory_bytes = 1000;
    c->comm_on_compute_core = true;
}

static void free_all(struct exec_calibration *c)
{
    struct exec_samples *one[] = {&c->copy_rate, &c->launch,   &c->kernel,
                                  &c->compute_rate, &c->comm_rate, &c->unit_all};

    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        exec_samples_free(one[i]);
    for (int32_t i = 0; i < CALIBRATE_SIZES; i++) {
        for (int s = 0; s < N_TABLES; s++)
            exec_samples_free(&c->comm[s][i]);
        for (int s = 0; s < CALIBRATE_N_WORK; s++)
            exec_samples_free(&c->work[s][i]);
    }
}

static const struct exec_backend few = {
    .name = "few",
    .capabilities = EXEC_CAN_ALL_REDUCE | EXEC_CAN_BARRIER | EXEC_CAN_SEND_RECV,
};

static void table_is(const struct lw_cost_table *t, enum lw_op_kind op, int32_t n_ranks,
                     int32_t n_in_flight, int32_t n_rows, lw_ps first, const char *source)
{
    assert_int_equal(t->op, op);
    assert_int_equal(t->n_ranks, n_ranks);
    assert_int_equal(t->n_in_flight, n_in_flight);
    assert_int_equal(t->n_rows, n_rows);
    assert_int_equal(t->time_ps[0], first);
    assert_int_equal(t->spread_ps[0], first / 2);
    assert_string_equal(t->source, source);
    if (n_rows == 2) {
        assert_int_equal(t->bytes[0], 1024);
        assert_int_equal(t->bytes[1], 2048);
        assert_int_equal(t->time_ps[1], 2 * first);
    }
}

static void work_is(const struct lw_work_table *t, enum lw_work_kind kind, enum lw_dtype dtype,
                    enum lw_dtype from, int32_t n_rows, int64_t size, lw_ps time,
                    const char *source)
{
    assert_int_equal(t->kind, kind);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->from, from);
    assert_int_equal(t->n_rows, n_rows);
    assert_int_equal(t->size[0], size);
    assert_int_equal(t->time_ps[0], time);
    assert_string_equal(t->source, source);
}

/* 2 * 32^3 = 65536 FLOPs and 2 * 48^3 = 221184; an optimizer's second size is 4 KiB. */
TEST(samples_become_tables_and_figures)
{
    struct lw_calibrate_options o = {.backend = &few, .n_ranks = 3};
    struct exec_calibration c = {.o = &o};
    struct lw_cluster out = {0};
    struct lw_err err = {0};

    make_samples(&c);
    c.n_apart[0][1] = 4;
    assert_ok(exec_calibrate_cluster(&c, &out, &err), err);
    assert_non_null(strstr(out.about, ", rates of pairs left out for too little overlap: 1"));
    assert_int_equal(out.n_tables, 5);
    table_is(&out.tables[0], LW_OP_ALL_REDUCE, 3, 1, 2, 2000,
             "lapwing calibrate: all_reduce of backend few, medians of up to 3");
    table_is(&out.tables[1], LW_OP_BARRIER, 3, 1, 1, 100,
             "lapwing calibrate: barrier of backend few, medians of up to 3");
    assert_int_equal(out.tables[1].bytes[0], 0);
    table_is(&out.tables[2], LW_OP_SEND, 2, 1, 2, 1000,
             "lapwing calibrate: send of backend few, medians of up to 3");
    table_is(&out.tables[3], LW_OP_SEND, 2, 2, 2, 1200,
             "lapwing calibrate: send of backend few, one each way at once, medians of up to 3");
    table_is(&out.tables[4], LW_OP_ALL_REDUCE, 3, 2, 2, 3000,
             "lapwing calibrate: all_reduce of backend few, two at once, medians of up to 3");
    assert_int_equal(out.device.n_work, 3);
    work_is(&out.device.work[0], LW_WORK_GEMM, LW_F32, LW_F32, 2, 65536, 200,
            "lapwing calibrate: gemm by BLAS 7, all ranks at once, medians of up to 3");
    assert_int_equal(out.device.work[0].size[1], 221184);
    work_is(&out.device.work[1], LW_WORK_CAST, LW_F16, LW_F32, 2, 1024, 600,
            "lapwing calibrate: cast, all ranks at once, medians of up to 3");
    work_is(&out.device.work[2], LW_WORK_ADAM, LW_F32, LW_F32, 1, 4096, 77,
            "lapwing calibrate: adam, all ranks at once, medians of up to 1");
    assert_true(out.device.peak_flops[LW_F32].value == 0.25e9); /* 250 in 1000 ns */
    assert_true(out.device.copy_bytes_per_s.value == 2e9);
    assert_string_equal(out.device.copy_bytes_per_s.source,
                        "lapwing calibrate: copies into and out of buckets on all ranks at once, "
                        "median of 3, spread 50.0 %");
    assert_true(out.device.launch_ps.value == 60000);
    assert_true(out.device.memory_bytes.value == 333); /* whole bytes of 1000 over 3 */
    assert_true(out.interference.compute_rate_under_comm.value == 0.4);
    assert_true(out.interference.comm_rate_under_compute.value == 1);
    assert_true(out.interference.comm_on_compute_core.value == 1);
    assert_true(out.links[0].latency_ps.value == 500); /* 2000 over 2 * (3 - 1) steps */
    lw_cluster_free(&out);
    free_all(&c);
}

/* 4 ranks on 2 nodes. All-reduces of 2 KiB: of all ranks (2 nodes) 3000 * 2 ps, of the pair of a
 * node (1 node) 2000 * 2, of a rank of each node (2 nodes) 6000 * 2. A pair's ring moves
 * 2 * (2 - 1) / 2 of the bytes: 2048 in 4000 ps within a node, in 12,000 between nodes. Messages
 * have a table of each. */
TEST(groups_within_nodes_and_across_have_tables_and_links)
{
    static const struct {
        int series;
        double unit;
        int32_t n_ranks, n_nodes;
    } cases[] = {{SERIES_REDUCE_ALL, 1500, 4, 2},
                 {SERIES_SEND, 500, 2, 1},
                 {SERIES_SEND_FAR, 700, 2, 2},
                 {SERIES_SEND_FAR_BOTH, 800, 2, 2},
                 {N_SERIES, 1000, 2, 1},
                 {N_SERIES + SHAPE_ACROSS * N_COLLECTIVES, 3000, 2, 2},
                 {FIRST_PAIR + N_COLLECTIVES, 4500, 2, 1},
                 {FIRST_PAIR + (1 + SHAPE_ACROSS) * N_COLLECTIVES, 5500, 2, 2}};
    struct lw_calibrate_options o = {.backend = &few, .n_ranks = 4};
    struct exec_calibration c = {.o = &o, .per_node = 2, .n_sizes = 2, .n_small = 1,
                                 .bytes = {1024, 2048}, .memory_bytes = 1000};
    struct lw_cluster out = {0};
    struct lw_err err = {0};

    make_samples(&c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 2; k++) {
            exec_samples_free(&c.comm[cases[i].series][k]);
            put_three(&c.comm[cases[i].series][k], cases[i].unit * (k + 1));
        }
    assert_ok(exec_calibrate_cluster(&c, &out, &err), err);
    assert_int_equal(out.n_nodes, 2);
    assert_int_equal(out.devices_per_node, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct lw_cost_table *t = NULL;
        for (int32_t k = 0; k < out.n_tables && !t; k++)
            if (out.tables[k].n_rows == 2 &&
                out.tables[k].time_ps[0] == 2 * (lw_ps)cases[i].unit)
                t = &out.tables[k];
        assert_non_null(t);
        assert_int_equal(t->n_ranks, cases[i].n_ranks);
        assert_int_equal(t->n_nodes, cases[i].n_nodes);
    }
    assert_int_equal(out.n_links, 2);
    assert_int_equal(out.links[0].level, LW_LINK_INTRA);
    assert_true(fabs(out.links[0].bytes_per_s.value - 2048 / 4000.0 * 1e12) < 1);
    assert_int_equal(out.links[1].level, LW_LINK_INTER);
    assert_true(fabs(out.links[1].bytes_per_s.value - 2048 / 12000.0 * 1e12) < 1);
    assert_true(out.device.memory_bytes.value == 500); /* of a node, over its two ranks */
    lw_cluster_free(&out);
    free_all(&c);
}

TEST(tables_come_back_from_the_file)
{
    struct lw_calibrate_options o = {.backend = &few, .n_ranks = 3};
    struct exec_calibration c = {.o = &o};
    struct lw_cluster out = {0}, again;
    char file[] = "/tmp/lapwing-calibrate-XXXXXX", before[33], after[33];
    struct lw_err err = {0};

    make_samples(&c);
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    if (exec_calibrate_cluster(&c, &out, &err) != LW_OK ||
        lw_cluster_write(&out, file, &err) != LW_OK || lw_cluster_read(file, &again, &err) != LW_OK)
        fail_msg("%s", err.msg);
    unlink(file);
    assert_int_equal(again.n_tables, out.n_tables);
    assert_int_equal(again.device.n_work, out.device.n_work);
    for (int32_t i = 0; i < out.device.n_work; i++)
        assert_int_equal(again.device.work[i].spread_ps[0], out.device.work[i].spread_ps[0]);
    /* of every size, time and source */
    assert_int_equal(lw_cluster_hash(&out, before, &err), LW_OK);
    assert_int_equal(lw_cluster_hash(&again, after, &err), LW_OK);
    assert_string_equal(before, after);
    lw_cluster_free(&again);
    lw_cluster_free(&out);
    free_all(&c);
}

static enum lw_status make_cluster(struct exec_calibration *c)
{
    struct lw_cluster out = {0};
    struct lw_err err = {0};
    enum lw_status s = exec_calibrate_cluster(c, &out, &err);

    lw_cluster_free(&out);
    return s;
}

TEST(failing_allocations_leave_nothing)
{
    struct lw_calibrate_options o = {.backend = &few, .n_ranks = 3};
    struct exec_calibration c = {.o = &o};

    make_samples(&c);
    EACH_ALLOCATION_FAILS_IN(1, make_cluster(&c));
    free_all(&c);
}

/* --- a real one ------------------------------------------------------------------------------- */

struct shares { /* of progress */
    int64_t n;
    double step, last;
};

/* Each report is as much more than the one before, from 0 on. */
static void note_share(void *ctx, const char *what, double share)
{
    struct shares *s = ctx;

    assert_string_equal(what, "calibrating");
    if (s->n == 0)
        assert_true(share == 0);
    if (s->n == 1)
        s->step = share;
    assert_true(share < 1);
    s->last = share;
    s->n++;
}

static void figure_is_share(struct lw_figure f)
{
    assert_non_null(f.source);
    assert_non_null(strstr(f.source, "spread"));
    assert_true(f.value > 0 && f.value <= 1);
}

static void communication_is_whole(const struct lw_cluster *c)
{
    static const struct {
        enum lw_op_kind op;
        int32_t n_in_flight, n_rows;
    } expected[] = {
        {LW_OP_ALL_REDUCE, 1, 15}, {LW_OP_BROADCAST, 1, 15},  {LW_OP_ALL_GATHER, 1, 15},
        {LW_OP_REDUCE_SCATTER, 1, 15}, {LW_OP_REDUCE, 1, 15}, {LW_OP_ALL_TO_ALL, 1, 15},
        {LW_OP_BARRIER, 1, 1}, {LW_OP_SEND, 1, 15}, {LW_OP_SEND, 2, 15},
        {LW_OP_ALL_REDUCE, 2, 15}, {LW_OP_BROADCAST, 2, 15},  {LW_OP_ALL_GATHER, 2, 15},
        {LW_OP_REDUCE_SCATTER, 2, 15}, {LW_OP_REDUCE, 2, 15}, {LW_OP_ALL_TO_ALL, 2, 15},
    };
    int32_t n = sizeof expected / sizeof *expected;

    assert_int_equal(c->n_tables, n);
    for (int32_t i = 0; i < n; i++) {
        const struct lw_cost_table *t = &c->tables[i];
        assert_int_equal(t->op, expected[i].op);
        assert_int_equal(t->n_in_flight, expected[i].n_in_flight);
        assert_int_equal(t->n_rows, expected[i].n_rows); /* 1 KiB * 2^14 = 16 MiB */
        assert_int_equal(t->n_ranks, 2);
        for (int32_t k = 0; k < t->n_rows; k++) {
            assert_int_equal(t->bytes[k], t->op == LW_OP_BARRIER ? 0 : INT64_C(1024) << k);
            assert_true(t->time_ps[k] > 0);
        }
    }
}

static int32_t rows_of(const struct lw_work_table *t)
{
    if (t->kind == LW_WORK_GEMM)
        return 3; /* 32, 48 and 64 */
    if (t->kind == LW_WORK_SGD || t->kind == LW_WORK_MOMENTUM || t->kind == LW_WORK_ADAM)
        return 8; /* 1 KiB * 4^7 = 16 MiB */
    return t->dtype == LW_F32 && t->from == LW_F32 ? 15 : 13; /* to 16 MiB, to 4 MiB */
}

static void work_is_whole(const struct lw_device *d)
{
    assert_int_equal(d->n_work, CALIBRATE_N_WORK);
    for (int32_t i = 0; i < CALIBRATE_N_WORK; i++) {
        const struct lw_work_table *t = &d->work[i];
        assert_int_equal(t->kind, exec_work_series[i].kind);
        assert_int_equal(t->dtype, exec_work_series[i].dtype);
        assert_int_equal(t->from, exec_work_series[i].from);
        assert_int_equal(t->n_rows, rows_of(t));
        for (int32_t k = 0; k < t->n_rows; k++) {
            assert_int_equal(t->size[k], exec_work_size(i, k));
            assert_true(t->time_ps[k] > 0);
        }
        assert_non_null(strstr(t->source, "medians of up to"));
    }
}

TEST(a_short_calibration_gives_a_whole_cluster)
{
    struct lw_calibrate_options o = lw_calibrate_options_default();
    struct shares shares = {0};
    struct lw_progress progress = {.report = note_share, .ctx = &shares};
    struct lw_cluster c;
    struct lw_err err = {0};

    o.n_rounds = 1;
    o.n_steps = 1;
    o.max_bytes = 16 << 20;
    o.max_side = 64;
    o.progress = &progress;
    assert_ok(lw_calibrate(&o, &c, &err), err);
    assert_string_equal(c.name, "calibrated host"); /* not the built-in one */
    assert_true(c.calibrated);
    assert_int_equal(c.devices_per_node, 2);
    communication_is_whole(&c);
    work_is_whole(&c.device);
    figure_is_share(c.interference.compute_rate_under_comm);
    figure_is_share(c.interference.comm_rate_under_compute);
    assert_true(c.device.copy_bytes_per_s.value > 0);
    assert_true(c.device.peak_flops[LW_F32].value > 0);
    /* the first report is at 0, the last one piece before the end */
    assert_true(shares.n > 30);
    assert_true(shares.step * (double)shares.n > 0.999999 &&
                shares.step * (double)shares.n < 1.000001);
    assert_true(shares.last + shares.step > 0.999999);
    lw_cluster_free(&c);
}

struct stopping {
    volatile sig_atomic_t stop;
    int n_kept;
};

static enum lw_status keep_and_stop(void *ctx, const struct lw_cluster *c, struct lw_err *err)
{
    struct stopping *s = ctx;

    assert_int_equal(c->n_tables, 0);
    work_is_whole(&c->device);
    s->stop = 1;
    s->n_kept++;
    return lw_cluster_check(c, err);
}

TEST(an_interrupted_calibration_has_kept_its_rounds)
{
    struct lw_calibrate_options o = lw_calibrate_options_default();
    struct stopping stopping = {0};
    struct lw_progress progress = {.stop = &stopping.stop};
    struct lw_cluster c;
    struct lw_err err = {0};

    o.n_ranks = 1; /* no communication: a short round */
    o.n_steps = 1;
    o.max_bytes = 16 << 20;
    o.max_side = 64;
    o.progress = &progress;
    o.budget_ns = INT64_MAX / 4; /* another round always fits */
    o.keep = keep_and_stop;
    o.keep_ctx = &stopping;
    assert_int_equal(lw_calibrate(&o, &c, &err), LW_EFAILED);
    assert_string_equal(err.msg, "interrupted after 1 of 3 rounds");
    assert_int_equal(stopping.n_kept, 1);
}

TEST(bad_options_are_refused)
{
    struct lw_calibrate_options o = lw_calibrate_options_default();
    struct lw_cluster c;
    struct lw_err err = {0};

    o.n_ranks = 0;
    assert_int_equal(lw_calibrate(&o, &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "--ranks: found 0, expected at least 1"));
    o.n_ranks = 2;
    o.max_bytes = 1 << 20;
    assert_int_equal(lw_calibrate(&o, &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "16 MiB to 1 GiB, got 1048576 bytes"));
    o.max_bytes = INT64_C(1) << 46;
    assert_int_equal(lw_calibrate(&o, &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "16 MiB to 1 GiB, got 70368744177664 bytes"));
    o.max_bytes = 16 << 20;
    o.max_side = 31;
    assert_int_equal(lw_calibrate(&o, &c, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "32 rows or more, got 31"));
}

/* --- sizes of a GPU --------------------------------------------------------------------------- */

static double gpu_free_bytes;

static void gpu_facts(const struct exec_world *w, struct exec_facts *f)
{
    exec_backend_threads.facts(w, f);
    f->free_bytes = gpu_free_bytes;
}

/* The plan that takes most is that of copies up to L bytes: 4 L are written between them, with 4 L
 * of weights, 4 L of gradients and 4 L of room for what is copied: 12 L, in 80 % of the free
 * memory. Of 512 MiB that is 410: L is 32 MiB (384) and not 64 (768). Two ranks on one device have
 * half of it each: L stays at 16 MiB (192). From 12 / 0.8 = 15 GiB on L is 1 GiB. On a CPU nothing
 * changes. */
TEST(passes_grow_with_the_free_memory_of_a_gpu)
{
    static const struct {
        double free_mib;
        int32_t n_ranks, n_larger;
    } cases[] = {{256, 1, 0}, {512, 1, 1}, {512, 2, 0}, {1024, 1, 2}, {1024, 2, 1},
                 {15350, 1, 5}, {15370, 1, 6}, {142000, 1, 6}, {142000, 8, 6}, {0, 1, 0}};
    struct exec_backend gpu = exec_backend_threads;
    struct lw_err err = {0};

    gpu.capabilities &= ~(uint32_t)EXEC_IN_HOST_MEMORY;
    gpu.capabilities |= EXEC_CAN_LOOP;
    gpu.facts = gpu_facts;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_calibrate_options o = {.backend = &gpu, .n_ranks = cases[i].n_ranks,
                                         .loop = true};
        struct exec_calibration *c = lw_calloc(1, sizeof *c);
        c->o = &o;
        gpu_free_bytes = cases[i].free_mib * 1048576;
        assert_ok(exec_calibrate_find_larger(c, &err), err);
        if (c->n_larger != cases[i].n_larger)
            fail_msg("%g MiB, %d ranks: %d sizes more, expected %d", cases[i].free_mib,
                     cases[i].n_ranks, c->n_larger, cases[i].n_larger);
        o.backend = &exec_backend_threads;
        c->n_larger = 0;
        assert_ok(exec_calibrate_find_larger(c, &err), err);
        assert_int_equal(c->n_larger, 0);
        exec_samples_free(&c->probe);
        lw_free(c);
    }
}
