/* Memory over time, from schedules through plans and the simulator: peaks in flight and what
 * recomputation, ZeRO and unknown figures change. */
#include "tests/lib/unit.h"

#include <string.h>

#include "tests/lib/traces/model_help.h"
#include "shared/schedule/grid_time.h"
#include "shared/timeline/param_memory.h"
#include "shared/lower/lower.h"
#include "tests/lib/sim/sim_help.h"

enum { KEPT = 1000 };

/* p equal layers, one for each rank, that keep KEPT bytes of a micro-batch. */
static struct lw_workload layers(int32_t n)
{
    struct lw_workload w = model_build("mlp", (struct traces_model_shape){.batch = 1, .width = 4,
                                                                         .layers = n + n % 2});
    w.n_modules = n;
    w.n_params = w.n_ready = 2 * n;
    w.n_grad_kernels = 0;
    for (int32_t i = 0; i < w.n_ready; i++)
        w.ready_order[i] = w.n_ready - 1 - i;
    for (int32_t i = 0; i < w.n_params; i++)
        w.params[i].ready_ps = -1;
    for (int32_t m = 0; m < n; m++)
        for (int r = 0; r < LW_N_RECOMPUTE; r++) {
            w.modules[m].kept_bytes[r] = KEPT;
            w.modules[m].whole_kept_bytes[r] = 0;
        }
    return w;
}

static struct lw_plan plan_of(const struct lw_workload *w, const struct lw_strategy *s)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};

    assert_ok(lw_plan_build(w, s, NULL, &p, &err), err);
    return p;
}

/* Activation bytes that each rank holds at most, messages among them; *most, unless it is NULL:
 * what the largest rank holds. */
static void peaks_of(const struct lw_plan *p, bool sends_take_time, int64_t *peak,
                     struct lw_memory_peak *most)
{
    struct lw_cluster c;
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_err err = {0};

    make_cluster(&c, p->n_ranks, 1e12, 0);
    o.buffered = !sends_take_time;
    if (lw_sim_run(p, &c, &o, &t, &stats, &err) != LW_OK ||
        lw_memory_peaks(&t, p, peak, most, &err) != LW_OK)
        fail_msg("%s", err.msg);
    for (int32_t r = 0; r < p->n_ranks; r++)
        peak[r] -= lw_memory_fixed(p, r);
    lw_timeline_free(&t);
    lw_cluster_free(&c);
}

static void peaks(const struct lw_plan *p, int64_t *peak)
{
    peaks_of(p, false, peak, NULL);
}

/* Two stages, one micro-batch, messages of 100 bytes. Rank 0 sends its output while a receive for
 * the gradient waits; rank 1 keeps what it receives as the input of its forward, and its gradient
 * replaces the activations. */
TEST(messages_take_room_until_they_are_sent_or_used)
{
    struct lw_workload w = layers(2);
    struct lw_strategy s = lw_strategy_default();
    struct lw_memory_peak most;
    int64_t peak[2];

    w.modules[0].output_bytes = w.modules[1].output_bytes = 100;
    s.pp = 2;
    s.partition = LW_PARTITION_UNIFORM;
    struct lw_plan p = plan_of(&w, &s);
    for (int sends = 0; sends < 2; sends++) { /* at once, or in some time */
        peaks_of(&p, sends, peak, &most);
        assert_int_equal(peak[0], KEPT + 100 + 100 * sends);
        assert_int_equal(peak[1], KEPT);
        assert_int_equal(most.rank, 0);
        assert_int_equal(most.bytes[LW_MEMORY_MESSAGES], 100 + 100 * sends);
        assert_int_equal(most.bytes[LW_MEMORY_ACTIVATIONS], KEPT);
    }
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* What the grid alone has in flight until the weights' gradients, rank by rank. */
TEST(peaks_in_flight_are_those_of_the_schedule)
{
    static const enum lw_schedule schedules[] = {LW_SCHEDULE_GPIPE, LW_SCHEDULE_1F1B,
                                                 LW_SCHEDULE_ZB_H1, LW_SCHEDULE_ZB_H2};
    for (int32_t p = 2; p <= 5; p++) {
        for (int32_t m = p; m <= 3 * p; m += p + 1) {
            struct lw_workload w = layers(p);
            for (int32_t i = 0; i < p; i++)
                w.modules[i].output_bytes = 0;
            for (size_t k = 0; k < sizeof schedules / sizeof *schedules; k++) {
                struct lw_schedule_shape shape = {.schedule = schedules[k], .n_ranks = p,
                                                  .n_micro_batches = m, .n_chunks = 1};
                struct lw_strategy s = lw_strategy_default();
                struct lw_grid g;
                struct lw_grid_times times;
                int64_t peak[8];
                assert_int_equal(lw_schedule_grid(&shape, &g, NULL), LW_OK);
                assert_int_equal(lw_grid_time(&g, &(struct lw_grid_costs){.f = 1, .i = 1, .w = 1},
                                              &times, NULL), LW_OK);
                s.pp = p;
                s.micro_batches = m;
                s.schedule = schedules[k];
                s.partition = LW_PARTITION_UNIFORM;
                struct lw_plan plan = plan_of(&w, &s);
                peaks(&plan, peak);
                for (int32_t r = 0; r < p; r++) {
                    assert_int_equal(peak[r], (int64_t)KEPT * times.peak_until_weight[r]);
                    if (schedules[k] == LW_SCHEDULE_1F1B)
                        assert_int_equal(peak[r], KEPT * (p - r < m ? p - r : m));
                    if (schedules[k] == LW_SCHEDULE_GPIPE)
                        assert_int_equal(peak[r], KEPT * m);
                }
                lw_plan_free(&plan);
                lw_grid_times_free(&times);
                lw_grid_free(&g);
            }
            lw_workload_free(&w);
        }
    }
}

/* One GPT block more or less is 34 s b h + 5 a s^2 b; without a pipeline all modules of a
 * micro-batch are held when its backward begins. */
TEST(one_rank_holds_a_whole_micro_batch)
{
    struct lw_workload w = model_build("gpt-125m", (struct traces_model_shape){.layers = 3});
    struct lw_strategy s = lw_strategy_default();
    int64_t peak[1], sum = 0;
    for (int32_t m = 0; m < w.n_modules; m++)
        sum += w.modules[m].kept_bytes[LW_RECOMPUTE_NONE];
    s.micro_batches = 3;
    struct lw_plan p = plan_of(&w, &s);
    peaks(&p, peak);
    assert_int_equal(peak[0], sum);
    lw_plan_free(&p);
    w.modules[1].kept_bytes[LW_RECOMPUTE_NONE] = -1; /* one that is unknown: none are counted */
    w.modules[1].whole_kept_bytes[LW_RECOMPUTE_NONE] = 0;
    p = plan_of(&w, &s);
    peaks(&p, peak);
    assert_int_equal(peak[0], 0);
    assert_non_null(strstr(p.notes[p.n_notes - 1], "no activations, since the workload does not"));
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* 16 layers of 4 x 4 and 4: 320 f32 elements, momentum 4 B each. */
TEST(optimizer_state_is_the_workloads)
{
    struct lw_workload w = model_build("mlp", (struct traces_model_shape){.batch = 1, .width = 4});
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p = plan_of(&w, &s);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_PARAMS], 4 * 320);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], 4 * 320);
    lw_plan_free(&p);
    w.optimizer = LW_OPTIMIZER_UNKNOWN;
    p = plan_of(&w, &s);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], 0);
    lw_plan_free(&p);
    /* ZeRO-1 over two members, by whole parameters: 8 of 16 weights and biases each */
    w.optimizer = LW_OPTIMIZER_ADAM;
    s.dp = 2;
    s.zero = 1;
    p = plan_of(&w, &s);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_PARAMS], 4 * 320);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_GRADS], 4 * 320);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], 8 * 160);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* Bytes that rooms of that kind of rank 0 take in a step, all together. */
static int64_t rooms(const struct lw_plan *p, enum lw_memory kind)
{
    struct lw_cluster c;
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    const struct lw_memory_change *v;
    struct lw_memory_walk *walk;
    struct lw_err err = {0};
    int64_t n, taken = 0, left = 0;

    o.n_steps = 1;
    make_cluster(&c, p->n_ranks, 1e12, 0);
    c.device.copy_bytes_per_s = (struct lw_figure){.value = 1e12, .source = "a test"};
    assert_ok(lw_sim_run(p, &c, &o, &t, &stats, &err), err);
    assert_ok(lw_memory_walk_new(&t, p, &walk, &err), err);
    assert_ok(lw_memory_walk_rank(walk, 0, &v, &n, &err), err);
    for (int64_t i = 0; i < n; i++) {
        bool counts = v[i].memory == kind;
        taken += counts && v[i].bytes > 0 ? v[i].bytes : 0;
        left += counts ? v[i].bytes : 0;
    }
    assert_int_equal(left, 0);
    lw_memory_walk_free(walk);
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    return taken;
}

/* ZeRO-2 of 16 weights of 16 elements and as many biases of 4. Gradients that fit a framework's
 * buffer take no room of their own; larger ones do, and so does what is cast for the wire. */
TEST(buckets_in_a_buffer_take_no_room_beside_it)
{
    static const struct {
        int64_t elements, bytes;
    } cases[] = {{0, 4 * 320}, {16, 0}, {15, 4 * 256}, {1000, 0}, {3, 4 * 320}};
    struct lw_workload w = model_build("mlp", (struct traces_model_shape){.batch = 1, .width = 4});
    struct lw_strategy s = lw_strategy_default();

    s.dp = 2;
    s.zero = 2;
    for (int cast = 0; cast < 2; cast++) {
        s.comm_hook = cast ? LW_HOOK_FP16 : LW_HOOK_NONE;
        struct lw_plan p = plan_of(&w, &s);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            p.roles[0].reduce_elements = cases[k].elements;
            assert_int_equal(rooms(&p, LW_MEMORY_BUCKETS), cases[k].bytes + cast * 2 * 320);
        }
        lw_plan_free(&p);
    }
    lw_workload_free(&w);
}

/* ZeRO-3 of 16 modules of 16 weights and 4 biases of f32, each gathered in forward and in backward:
 * in 8 bits the weights of the 14 that are neither first nor last take 3 bytes less. */
TEST(weights_of_8_bits_are_gathered_in_8_bits)
{
    static const struct {
        int64_t above, saved;
    } cases[] = {{15, 14 * 2 * 16 * 3}, {16, 0}, {3, 14 * 2 * 20 * 3}};
    struct lw_workload w = model_build("mlp", (struct traces_model_shape){.batch = 1, .width = 4});
    struct lw_strategy s = lw_strategy_default();

    s.dp = 2;
    s.zero = 3;
    struct lw_plan p = plan_of(&w, &s);
    int64_t all = rooms(&p, LW_MEMORY_GATHERED);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        p.roles[0].narrow_above = cases[k].above;
        assert_int_equal(rooms(&p, LW_MEMORY_GATHERED), all - cases[k].saved);
    }
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* ZeRO-3 of 16 modules of 20 parameters of 16 bits, reduced in f32: a bucket of 80 bytes from the
 * backward on. Where a reduction makes that copy, each of 80 is there while it runs, and before it
 * the gradients in their own type, 40 bytes, of the 14 modules that are neither first nor last. */
TEST(a_reduction_copies_gradients_to_its_own_type)
{
    struct lw_workload w = model_build("mlp", (struct traces_model_shape){.batch = 1, .width = 4,
                                                                         .dtype = "bf16"});
    struct lw_strategy s = lw_strategy_default();

    s.dp = 2;
    s.zero = 3;
    s.grad_dtype = LW_GRAD_F32;
    struct lw_plan p = plan_of(&w, &s);
    assert_int_equal(rooms(&p, LW_MEMORY_BUCKETS), 16 * 80);
    p.roles[0].reduce_copies = true;
    assert_int_equal(rooms(&p, LW_MEMORY_BUCKETS), 14 * 40 + 16 * 80);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* Of four blocks, the first and the last are none: embedding and head in a transformer. Their
 * backwards hold more from start to end, whatever runs beside them. */
TEST(gradients_of_activations_are_there_in_the_backward_of_blocks)
{
    struct lw_workload w = model_build("mlp", (struct traces_model_shape){.batch = 2, .width = 8});
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p = plan_of(&w, &s);

    int64_t all = rooms(&p, LW_MEMORY_ACTIVATIONS);
    p.roles[0].block_gradients = 1000;
    assert_int_equal(rooms(&p, LW_MEMORY_ACTIVATIONS), all + 1000 * (p.n_modules - 2));
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* Korthikanti et al., equation 2, section 5: s b h (10 + 24 / t + 5 a s / (h t)), of which
 * selective recomputation drops the scores until the backward and full recomputation all but 2 s b
 * h. */
TEST(a_tensor_rank_keeps_the_whole_part_and_its_share)
{
    int64_t n = 2048, h = 12288, a = 96, sbh = n * h;
    const int64_t all = 10 * sbh + (24 * sbh + 5 * a * n * n) / 8;
    const int64_t kept[] = {all, 13 * sbh, 2 * sbh};
    struct lw_workload w = model_build("gpt-175b", (struct traces_model_shape){.layers = 2});
    struct lw_strategy s = lw_strategy_default();
    s.tp = 8;
    for (int mode = 0; mode < LW_N_RECOMPUTE; mode++) {
        int64_t taken[2] = {0}, given = 0;
        s.recompute = (enum lw_recompute)mode;
        struct lw_plan p = plan_of(&w, &s);
        struct lw_program g = lw_plan_program(&p, 0, 3);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            int64_t keeps = p.ops[i].work < 0 ? 0 : p.works[p.ops[i].work].keeps_bytes;
            if (p.ops[i].module != 1)
                continue;
            taken[p.ops[i].kind != LW_OP_FORWARD] += keeps > 0 ? keeps : 0;
            given += keeps < 0 ? keeps : 0;
        }
        assert_int_equal(taken[0], kept[mode]);
        assert_int_equal(taken[1], all - kept[mode]);
        assert_int_equal(given, -all);
        lw_plan_free(&p);
    }
    lw_workload_free(&w);
}

/* Full recomputation: what is kept of all modules while the head's backward runs, or without the
 * head and with all of the last block, whichever is more. */
TEST(recomputation_brings_back_one_module_at_a_time)
{
    struct lw_workload w = model_build("gpt-125m", (struct traces_model_shape){.layers = 4});
    struct lw_strategy s = lw_strategy_default();
    int64_t peak[1], sum = 0, head = w.modules[5].kept_bytes[LW_RECOMPUTE_FULL];
    int64_t dropped = w.modules[4].kept_bytes[LW_RECOMPUTE_NONE] -
                      w.modules[4].kept_bytes[LW_RECOMPUTE_FULL];
    for (int32_t m = 0; m < w.n_modules; m++)
        sum += w.modules[m].kept_bytes[LW_RECOMPUTE_FULL];
    s.recompute = LW_RECOMPUTE_FULL;
    struct lw_plan p = plan_of(&w, &s);
    peaks(&p, peak);
    assert_int_equal(peak[0], head > dropped ? sum : sum - head + dropped);
    lw_plan_free(&p);
    w.modules[5].kept_bytes[LW_RECOMPUTE_NONE] = w.modules[5].kept_bytes[LW_RECOMPUTE_FULL] = 1;
    w.modules[5].whole_kept_bytes[LW_RECOMPUTE_NONE] = 0;
    w.modules[5].whole_kept_bytes[LW_RECOMPUTE_FULL] = 0;
    p = plan_of(&w, &s);
    peaks(&p, peak);
    assert_int_equal(peak[0], sum - head + dropped);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* Fig. 7 of the paper, as Calculon read it: kept with selective and full recomputation in per cent
 * of all, t = 8: 22B 49.42 and 7.64, 530B 62.04 and 9.42. */
TEST(shares_kept_are_those_of_the_published_figure)
{
    static const struct {
        int64_t hidden, heads;
        double selective, full;
    } models[] = {{6144, 64, 49.42, 7.64}, {20480, 128, 62.04, 9.42}};
    for (int k = 0; k < 2; k++) {
        struct lw_workload w = model_build("gpt-175b", (struct traces_model_shape){
            .hidden = models[k].hidden, .heads = models[k].heads, .layers = 1});
        const struct lw_module *m = &w.modules[1];
        double rank[LW_N_RECOMPUTE];
        for (int r = 0; r < LW_N_RECOMPUTE; r++)
            rank[r] = (double)m->whole_kept_bytes[r] +
                      (double)(m->kept_bytes[r] - m->whole_kept_bytes[r]) / 8;
        assert_float_equal(100 * rank[1] / rank[0], models[k].selective, 0.2);
        assert_float_equal(100 * rank[2] / rank[0], models[k].full, 0.2);
        lw_workload_free(&w);
    }
}

/* A program that gives back more than it took, or less, is not a plan. */
TEST(plans_that_lose_activations_are_refused)
{
    struct lw_workload w = layers(2);
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};
    struct lw_plan p = plan_of(&w, &s);
    struct lw_work *forward = &p.works[p.ops[0].work];
    assert_int_equal(forward->keeps_bytes, KEPT);
    forward->keeps_bytes = KEPT + 1;
    assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
    assert_non_null(strstr(err.msg, "keeps 1 bytes of activations that no backward gives back"));
    forward->keeps_bytes = KEPT - 1;
    assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
    assert_non_null(strstr(err.msg, "gives back more activations than are kept"));
    lw_plan_free(&p);
    lw_workload_free(&w);
}

static void expect_same_changes(struct lw_memory_walk *a, struct lw_memory_walk *b, int32_t rank)
{
    const struct lw_memory_change *x, *y;
    struct lw_err err = {0};
    int64_t n, m;

    assert_ok(lw_memory_walk_rank(a, rank, &x, &n, &err), err);
    assert_ok(lw_memory_walk_rank(b, rank, &y, &m, &err), err);
    assert_true(n > 0);
    assert_int_equal(m, n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(x[i].at, y[i].at);
        assert_int_equal(x[i].row, y[i].row);
        assert_int_equal(x[i].bytes, y[i].bytes);
        assert_int_equal(x[i].turn, y[i].turn);
        assert_int_equal(x[i].memory, y[i].memory);
    }
}

struct parts {
    const struct lw_memory_change *expected;
    int64_t n, n_parts, largest;
};

static enum lw_status compare_part(void *ctx, const struct lw_memory_change *v, int64_t n,
                                   struct lw_err *err)
{
    struct parts *x = ctx;

    (void)err;
    for (int64_t i = 0; i < n; i++, x->n++) {
        assert_int_equal(v[i].at, x->expected[x->n].at);
        assert_int_equal(v[i].row, x->expected[x->n].row);
        assert_int_equal(v[i].bytes, x->expected[x->n].bytes);
    }
    x->n_parts++;
    x->largest = n > x->largest ? n : x->largest;
    return LW_OK;
}

/* 2 stages of 2 layers, 2,000 micro-batches and 2 steps: about 50,000 rows, whose order in the
 * program is not that of time: a receive is listed before the compute that it runs beside. */
TEST(changes_part_by_part_are_all_changes_in_their_order)
{
    struct lw_workload w = layers(4);
    struct lw_strategy s = lw_strategy_default();
    struct lw_cluster c;
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_err err = {0};
    s.pp = 2;
    s.micro_batches = 2000;
    o.n_steps = 2;
    struct lw_plan p = plan_of(&w, &s);
    make_cluster(&c, p.n_ranks, 1e12, 0);
    assert_ok(lw_sim_run(&p, &c, &o, &t, &stats, &err), err);
    for (int32_t r = 0; r < p.n_ranks; r++) {
        struct lw_memory_walk *whole, *parts;
        struct parts x = {0};
        int64_t n;
        assert_ok(lw_memory_walk_new(&t, &p, &whole, &err), err);
        assert_ok(lw_memory_walk_new(&t, &p, &parts, &err), err);
        assert_ok(lw_memory_walk_rank(whole, r, &x.expected, &n, &err), err);
        assert_ok(lw_memory_walk_visit(parts, r, compare_part, &x, &err), err);
        assert_int_equal(x.n, n);
        assert_true(x.n_parts > 3 && x.largest < n / 3);
        lw_memory_walk_free(whole);
        lw_memory_walk_free(parts);
    }
    lw_timeline_free(&t);
    lw_plan_free(&p);
    lw_workload_free(&w);
    lw_cluster_free(&c);
}

/* Ranks of two stages in turn, as data ranks of a grid whose pipeline varies first are: the changes
 * of a rank do not depend on whose were asked for before. */
TEST(changes_of_a_rank_do_not_depend_on_the_rank_before)
{
    struct lw_workload w = layers(4);
    struct lw_strategy s = lw_strategy_default();
    struct lw_cluster c;
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_err err = {0};
    s.dp = s.pp = 2;
    s.micro_batches = 3;
    struct lw_plan p = plan_of(&w, &s);
    make_cluster(&c, p.n_ranks, 1e12, 0);
    c.device.copy_bytes_per_s = (struct lw_figure){.value = 1e12, .source = "a test"};
    assert_ok(lw_sim_run(&p, &c, &o, &t, &stats, &err), err);
    for (int32_t r = 0; r < p.n_ranks; r++) {
        struct lw_memory_walk *new, *used;
        const struct lw_memory_change *v;
        int64_t n;
        assert_ok(lw_memory_walk_new(&t, &p, &new, &err), err);
        assert_ok(lw_memory_walk_new(&t, &p, &used, &err), err);
        assert_ok(lw_memory_walk_rank(used, p.n_ranks - 1 - r, &v, &n, &err), err);
        expect_same_changes(new, used, r);
        lw_memory_walk_free(new);
        lw_memory_walk_free(used);
    }
    lw_timeline_free(&t);
    lw_plan_free(&p);
    lw_workload_free(&w);
    lw_cluster_free(&c);
}
