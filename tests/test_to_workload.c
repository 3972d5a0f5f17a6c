/* From steps to workloads: hand-made traces whose every number is computed beside them, our own
 * recordings, and what `lapwing import` refuses. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/files.h"
#include "traces/import_kineto.h"
#include "traces/phases.h"
#include "traces/profile.h"
#include "traces/to_cluster.h"
#include "traces/to_workload.h"

/* ---- a step by hand ----
 *
 * Step [0,1000), zero_grad [10,20), forward [20,220), backward [230,730), optimizer [740,900).
 * Modules a [30,100) and b [120,210); the loss runs after b. Backward nodes: loss [240,260),
 * b's [260,460), its gradient's [461,470) (accumulated [462,466)), a's [480,700), its gradient's
 * [701,712) (accumulated [702,708)).
 *
 * Forward: a reaches from the forward's start to b's start, 100; b the rest, 100.
 * Backward: up to the loss node and the loss itself count to b (it ran after b's range began):
 * 480 - 230 = 250; a has the rest, 730 - 480 = 250. Ready: 466 - 230 = 236 and 708 - 230 = 478. */

enum { THREAD = 1 };

static void put(struct lw_trace *t, enum lw_row_class class, const char *name, int64_t start,
                int64_t end, int64_t link, int64_t numel)
{
    struct lw_row row = {class, start, end - start, link,
                         traces_strings_add(&t->strings, name, strlen(name)), THREAD};
    struct lw_row_detail d = {.op = -1, .dtype = -1, .group = -1, .wait_stream = -1,
                             .wait_record = -1, .in_numel = -1, .out_numel = -1,
                              .shape_numel = numel,
                              .shape_type = traces_strings_add(&t->strings, "float", 5)};

    assert_int_equal(lw_trace_add(t, &row, numel >= 0 ? &d : NULL, NULL), LW_OK);
}

#define EVAL "autograd::engine::evaluate_function: "
#define ACC "torch::autograd::AccumulateGrad"

static void put_step(struct lw_trace *t, int64_t at, const char *name, bool ranges)
{
    put(t, LW_ROW_USER, name, at, at + 1000, -1, -1);
    put(t, LW_ROW_USER, "lw:zero_grad", at + 10, at + 20, -1, -1);
    put(t, LW_ROW_USER, "lw:forward", at + 20, at + 220, -1, -1);
    put(t, LW_ROW_USER, "lw:backward", at + 230, at + 730, -1, -1);
    put(t, LW_ROW_USER, "lw:optimizer", at + 740, at + 900, -1, -1);
    if (ranges) {
        put(t, LW_ROW_USER, "lw:module:a", at + 30, at + 100, -1, -1);
        put(t, LW_ROW_USER, "lw:module:b", at + 120, at + 210, -1, -1);
    }
    put(t, LW_ROW_HOST, "aten::linear", at + 35, at + 95, 10, -1);
    put(t, LW_ROW_HOST, "aten::linear", at + 125, at + 205, 11, -1);
    put(t, LW_ROW_HOST, "aten::nll_loss", at + 212, at + 218, 12, -1);
    put(t, LW_ROW_HOST, EVAL "NllLossBackward0", at + 240, at + 260, 12, -1);
    put(t, LW_ROW_HOST, EVAL "AddmmBackward0", at + 260, at + 460, 11, -1);
    put(t, LW_ROW_HOST, EVAL ACC, at + 461, at + 470, -1, -1);
    put(t, LW_ROW_HOST, ACC, at + 462, at + 466, -1, 30);
    put(t, LW_ROW_HOST, EVAL "AddmmBackward0", at + 480, at + 700, 10, -1);
    put(t, LW_ROW_HOST, EVAL ACC, at + 701, at + 712, -1, -1);
    put(t, LW_ROW_HOST, ACC, at + 702, at + 708, -1, 40);
}

static void make_source(struct traces_source *s, bool ranges)
{
    *s = (struct traces_source){.file = "hand.json"};
    lw_trace_init(&s->trace);
    put_step(&s->trace, 5000, "ProfilerStep#3", ranges);
    assert_int_equal(lw_trace_sort(&s->trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&s->trace, &s->steps, NULL), LW_OK);
}

/* One micro-batch of put_step without ranges: forward from at + 35, backward [at + 240, at + 712). */
static void put_micro_batch(struct lw_trace *t, int64_t at)
{
    put(t, LW_ROW_HOST, "aten::linear", at + 35, at + 95, 10, -1);
    put(t, LW_ROW_HOST, "aten::linear", at + 125, at + 205, 11, -1);
    put(t, LW_ROW_HOST, "aten::nll_loss", at + 212, at + 218, 12, -1);
    put(t, LW_ROW_HOST, EVAL "NllLossBackward0", at + 240, at + 260, 12, -1);
    put(t, LW_ROW_HOST, EVAL "AddmmBackward0", at + 260, at + 460, 11, -1);
    put(t, LW_ROW_HOST, EVAL ACC, at + 461, at + 470, -1, -1);
    put(t, LW_ROW_HOST, ACC, at + 462, at + 466, -1, 30);
    put(t, LW_ROW_HOST, EVAL "AddmmBackward0", at + 480, at + 700, 10, -1);
    put(t, LW_ROW_HOST, EVAL ACC, at + 701, at + 712, -1, -1);
    put(t, LW_ROW_HOST, ACC, at + 702, at + 708, -1, 40);
}

static void import_ok(const struct traces_source *s, int n, const struct traces_choice *c,
                      struct lw_workload *w, struct traces_coverage *coverage)
{
    struct lw_err err = {0};

    if (lw_workload_from_traces(s, n, c, w, coverage, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

static const struct traces_choice median = {.step = -1};

static void a_step_is_cut_into_modules_gaps_and_ready_times(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    make_source(&s, true);
    import_ok(&s, 1, &median, &w, &c);
    assert_int_equal(w.n_modules, 2);
    assert_string_equal(w.modules[0].name, "a");
    assert_string_equal(w.modules[1].name, "b");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w.modules[i].forward_ps, 100000);
        assert_int_equal(w.modules[i].backward_input_ps, 250000);
        assert_int_equal(w.modules[i].backward_weight_ps, 0);
    }
    assert_int_equal(w.gap_ps[LW_GAP_BEFORE_FORWARD], 20000);
    assert_int_equal(w.gap_ps[LW_GAP_BEFORE_BACKWARD], 10000);
    assert_int_equal(w.gap_ps[LW_GAP_BEFORE_OPTIMIZER], 10000);
    assert_int_equal(w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 100000);
    assert_int_equal(w.optimizer_ps, 160000);
    assert_int_equal(lw_workload_step_ps(&w), 1000000); /* the whole step */
    assert_int_equal(w.n_params, 2);                    /* nameless: registered a, b */
    assert_int_equal(w.params[0].numel, 40);
    assert_int_equal(w.params[0].module, 0);
    assert_int_equal(w.params[0].ready_ps, 478000);
    assert_int_equal(w.params[1].numel, 30);
    assert_int_equal(w.params[1].module, 1);
    assert_int_equal(w.params[1].ready_ps, 236000);
    assert_int_equal(w.ready_order[0], 1);
    assert_int_equal(w.ready_order[1], 0);
    assert_int_equal(w.recorded.world_size, 1);
    lw_workload_free(&w);
    traces_source_free(&s);
}

static void without_ranges_forward_ops_with_gradients_are_the_modules(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    make_source(&s, false);
    import_ok(&s, 1, &median, &w, &c);
    assert_int_equal(w.n_modules, 2);
    assert_string_equal(w.modules[0].name, "linear.0");
    /* cuts at the linears' starts: 125 - 20 and 220 - 125 */
    assert_int_equal(w.modules[0].forward_ps, 105000);
    assert_int_equal(w.modules[1].forward_ps, 95000);
    assert_int_equal(w.modules[0].backward_input_ps, 250000);
    lw_workload_free(&w);
    traces_source_free(&s);
}

static void without_sequence_numbers_each_gradient_is_a_module(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    make_source(&s, false);
    for (int64_t i = 0; i < s.trace.n; i++)
        s.trace.link[i] = -1;
    import_ok(&s, 1, &median, &w, &c);
    assert_int_equal(w.n_modules, 2);
    /* the first gradient's module reaches to the node after it: 480 - 230 */
    assert_int_equal(w.modules[1].backward_input_ps, 250000);
    assert_int_equal(w.modules[0].forward_ps, 100000); /* shared out like the backward */
    lw_workload_free(&w);
    traces_source_free(&s);
}

/* A sidecar as the recorder writes it; measured: step 2000 = 30 + 400 + 1000 + 500 + 70 left. */
static void add_sidecar(struct traces_source *s, bool ddp)
{
    struct traces_sidecar *c = &s->sidecar;
    static const int64_t limits[] = {64, 128}, buckets[] = {120, 160};

    *c = (struct traces_sidecar){.file = "hand.sidecar.json", .model = "hand", .torch_version = "2.9",
                                 .cpu = "cpu", .gpu = "", .backend = "gloo", .world_size = 1 + ddp,
                                 .is_ddp = ddp, .n_params = 3, .n_modules = 2, .n_ready = 2,
                                 .measured = {2000, 1900, 2200, 30, 400, 1000, 500}};
    c->params = lw_arena_alloc(&c->arena, 3, sizeof *c->params);
    c->modules = lw_arena_alloc(&c->arena, 2, sizeof *c->modules);
    c->ready_order = lw_arena_alloc(&c->arena, 2, sizeof *c->ready_order);
    c->params[0] = (struct traces_param){"a.w", 40, LW_F32, true, false, 900, 0};
    c->params[1] = (struct traces_param){"a.frozen", 7, LW_F32, false, false, -1, 0};
    c->params[2] = (struct traces_param){"b.w", 30, LW_F32, true, false, 300, 1};
    c->modules[0] = "a";
    c->modules[1] = "b";
    c->ready_order[0] = 2;
    if (ddp) {
        c->limit_bytes = lw_arena_alloc(&c->arena, 2, sizeof *limits);
        c->bucket_bytes = lw_arena_alloc(&c->arena, 2, sizeof *buckets);
        memcpy(c->limit_bytes, limits, sizeof limits);
        memcpy(c->bucket_bytes, buckets, sizeof buckets);
        c->n_limits = c->n_buckets = 2;
    }
    s->has_sidecar = true;
    s->parallel = ddp;
}

static void measured_times_stretch_the_profile_and_keep_its_shares(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    make_source(&s, true);
    add_sidecar(&s, false);
    import_ok(&s, 1, &median, &w, &c);
    assert_int_equal(w.modules[0].forward_ps, 200000); /* half of 400 */
    /* b's window ended at 250: between the ready times 236 -> 300 and 478 -> 900 that is
     * 300 + 14 x 600 / 242 = 334 (rounded down) */
    assert_int_equal(w.modules[1].backward_input_ps, 334000);
    assert_int_equal(w.modules[0].backward_input_ps, 666000);
    assert_int_equal(w.params[2].ready_ps, 300000);
    assert_int_equal(w.params[0].ready_ps, 900000);
    assert_int_equal(w.gap_ps[LW_GAP_BEFORE_FORWARD], 30000);
    assert_int_equal(w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 70000);
    assert_int_equal(lw_workload_step_ps(&w), 2000000);
    assert_int_equal(c.measured_ns, 2000);
    assert_int_equal(c.workload_ns, 2000);
    assert_int_equal(w.recorded.step_spread_ps, 300000);
    lw_workload_free(&w);
    traces_source_free(&s);
}

static void frozen_parameters_have_no_gradient_and_keep_their_module(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    make_source(&s, true);
    add_sidecar(&s, false);
    import_ok(&s, 1, &median, &w, &c);
    assert_int_equal(w.n_params, 3);
    assert_string_equal(w.params[1].name, "a.frozen");
    assert_false(w.params[1].trainable);
    assert_false(w.params[1].used);
    assert_int_equal(w.params[1].ready_ps, -1);
    assert_int_equal(w.params[1].module, 0);
    lw_workload_free(&w);
    traces_source_free(&s);
}

static void as_traced_and_one_step_keep_the_profiled_times(void **state)
{
    static const struct traces_choice choices[] = {{.step = -1, .as_traced = true}, {.step = 3}};
    struct traces_source s;

    (void)state;
    make_source(&s, true);
    add_sidecar(&s, false);
    for (int i = 0; i < 2; i++) {
        struct lw_workload w;
        struct traces_coverage c;
        import_ok(&s, 1, &choices[i], &w, &c);
        assert_int_equal(lw_workload_step_ps(&w), 1000000);
        assert_int_equal(c.measured_ns, -1);
        lw_workload_free(&w);
    }
    traces_source_free(&s);
}

static void medians_over_steps_sum_to_the_median_step(void **state)
{
    struct traces_source s = {.file = "hand.json"};
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    lw_trace_init(&s.trace);
    for (int k = 0; k < 3; k++) { /* steps of 1000, 1010 and 1100 ns: optimizer ends later */
        static const char *const names[] = {"ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"};
        static const int64_t more[] = {0, 10, 100};
        put_step(&s.trace, 2000 * k, names[k], true);
        for (int64_t i = 0; i < s.trace.n; i++)
            if (s.trace.start_ns[i] == 2000 * k && more[k] > 0)
                s.trace.dur_ns[i] += more[k];
    }
    assert_int_equal(lw_trace_sort(&s.trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&s.trace, &s.steps, NULL), LW_OK);
    import_ok(&s, 1, &median, &w, &c);
    assert_int_equal(lw_workload_step_ps(&w), 1010000);
    assert_int_equal(w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 110000);
    lw_workload_free(&w);
    traces_source_free(&s);
}

/* Under data parallelism: hooks after the accumulation (466..470, 708..712), a broadcast launched
 * at 21 and done at 28, unpacked by 30 when the model begins, and waiting after the last gradient. */
static void data_parallel_work_is_taken_out_of_the_profile(void **state)
{
    struct traces_source s = {.file = "hand.json", .parallel = true};
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    lw_trace_init(&s.trace);
    s.trace.world_size = 2;
    put_step(&s.trace, 5000, "ProfilerStep#3", true);
    put(&s.trace, LW_ROW_HOST, "c10d::broadcast_", 5021, 5022, -1, 8);
    put(&s.trace, LW_ROW_USER, "gloo:broadcast", 5022, 5028, -1, 8);
    put(&s.trace, LW_ROW_USER, "gloo:all_reduce", 5470, 5600, -1, 30);
    put(&s.trace, LW_ROW_USER, "gloo:all_reduce", 5710, 5728, -1, 40);
    assert_int_equal(lw_trace_sort(&s.trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&s.trace, &s.steps, NULL), LW_OK);
    import_ok(&s, 1, &median, &w, &c);
    /* forward 200 - broadcast [21,30); backward ends at 708: 478 - hook [466,470) */
    assert_int_equal(lw_workload_forward_ps(&w), 191000);
    assert_int_equal(lw_workload_backward_ps(&w), 474000);
    assert_int_equal(w.params[1].ready_ps, 236000);
    assert_int_equal(w.params[0].ready_ps, 474000);
    /* left out: 9 + 4 + waiting [708,730) */
    assert_int_equal(c.excluded_ns, 35);
    assert_int_equal(lw_workload_step_ps(&w), (1000 - 35) * 1000);
    assert_int_equal(w.recorded.world_size, 2);
    assert_int_equal(w.recorded.n_buckets, 2);
    assert_int_equal(w.recorded.bucket_bytes[0], 120);
    assert_int_equal(w.recorded.bucket_bytes[1], 160);
    lw_workload_free(&w);
    traces_source_free(&s);
}

static void a_local_trace_gives_the_times_and_parallel_ones_what_was_recorded(void **state)
{
    struct traces_source s[2];
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    make_source(&s[0], true); /* the parallel one comes first on the command line */
    add_sidecar(&s[0], true);
    s[0].sidecar.measured.step_ns = 3000;
    make_source(&s[1], true);
    add_sidecar(&s[1], false);
    import_ok(s, 2, &median, &w, &c);
    assert_int_equal(lw_workload_step_ps(&w), 2000000);
    assert_int_equal(w.recorded.world_size, 2);
    assert_int_equal(w.recorded.step_ps, 3000000);
    assert_int_equal(w.recorded.n_limits, 2);
    assert_int_equal(w.recorded.limit_bytes[1], 128);
    assert_int_equal(w.recorded.bucket_bytes[1], 160);
    lw_workload_free(&w);
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

/* Two kernels a module on stream 7, launched by the host ops; times shifted by 1000 to the device. */
static void on_a_device_times_are_those_of_the_main_stream(void **state)
{
    struct traces_source s = {.file = "hand.json"};
    struct lw_workload w;
    struct traces_coverage c;
    static const struct {
        int64_t launch, start, end;
    } k[] = {{36, 1000, 1100}, {126, 1100, 1250}, {213, 1250, 1260},   /* a, b, loss */
             {241, 1260, 1300}, {261, 1300, 1500}, {481, 1520, 1700},  /* loss', b', a' */
             {741, 1700, 1750}};                                       /* optimizer */

    (void)state;
    lw_trace_init(&s.trace);
    put_step(&s.trace, 0, "ProfilerStep#3", true);
    for (int i = 0; i < 7; i++) {
        put(&s.trace, LW_ROW_LAUNCH, "cudaLaunchKernel", k[i].launch, k[i].launch + 1, 50 + i, -1);
        put(&s.trace, LW_ROW_KERNEL, "k", k[i].start, k[i].end, 50 + i, -1);
    }
    assert_int_equal(lw_trace_sort(&s.trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&s.trace, &s.steps, NULL), LW_OK);
    import_ok(&s, 1, &median, &w, &c);
    assert_int_equal(w.modules[0].forward_ps, 100000); /* [1000,1100) */
    assert_int_equal(w.modules[1].forward_ps, 160000); /* b and the loss */
    assert_int_equal(w.modules[1].backward_input_ps, 260000); /* [1260,1520), idle 20 included */
    assert_int_equal(w.modules[0].backward_input_ps, 180000);
    assert_int_equal(w.params[1].ready_ps, 240000); /* b' ends at 1500 */
    assert_int_equal(w.params[0].ready_ps, 440000);
    assert_int_equal(w.optimizer_ps, 50000);
    assert_int_equal(c.traced_ns, 1000); /* the device is done before the host's 1000 ns passed */
    lw_workload_free(&w);
    traces_source_free(&s);
}

static void another_models_sidecar_is_refused(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;
    struct lw_err err = {0};

    (void)state;
    make_source(&s, true);
    add_sidecar(&s, false);
    s.sidecar.params[2].numel = 31;
    assert_int_equal(lw_workload_from_traces(&s, 1, &median, &w, &c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "'b.w'"));
    assert_non_null(strstr(err.msg, "30"));
    s.sidecar.n_ready = 1;
    assert_int_equal(lw_workload_from_traces(&s, 1, &median, &w, &c, &err), LW_EFORMAT);
    traces_source_free(&s);
}

static void unknown_sizes_are_refused_with_the_remedy(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;
    struct lw_err err = {0};

    (void)state;
    make_source(&s, true);
    for (int64_t i = 0; i < s.trace.n_details; i++)
        s.trace.details[i].shape_numel = -1;
    assert_int_equal(lw_workload_from_traces(&s, 1, &median, &w, &c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "--model-params"));
    traces_source_free(&s);
}

static void a_given_list_is_matched_in_reverse_registration_order(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    make_source(&s, true);
    for (int64_t i = 0; i < s.trace.n_details; i++)
        s.trace.details[i].shape_numel = -1;
    add_sidecar(&s, false);
    s.sidecar.n_ready = 0;
    s.has_sidecar = false;
    struct traces_choice choice = {.step = -1, .params = &s.sidecar};
    import_ok(&s, 1, &choice, &w, &c);
    assert_int_equal(w.ready_order[0], 2);
    assert_int_equal(w.ready_order[1], 0);
    assert_int_equal(w.params[2].ready_ps, 236000);
    lw_workload_free(&w);
    traces_source_free(&s);
}

static void a_missing_step_is_refused(void **state)
{
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;
    struct lw_err err = {0};
    struct traces_choice choice = {.step = 9};

    (void)state;
    make_source(&s, true);
    assert_int_equal(lw_workload_from_traces(&s, 1, &choice, &w, &c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "ProfilerStep#3"));
    traces_source_free(&s);
}

static void failing_allocations_leave_nothing_behind(void **state)
{
    struct traces_source s;
    struct lw_workload w = {.n_modules = 77};
    struct traces_coverage c;
    enum lw_status status = LW_ENOMEM;

    (void)state;
    make_source(&s, true);
    add_sidecar(&s, false);
    int64_t live = lw_alloc_live();
    for (int64_t n = 1; status != LW_OK; n++) {
        lw_alloc_fail_at(n);
        status = lw_workload_from_traces(&s, 1, &median, &w, &c, NULL);
        lw_alloc_fail_at(0);
        if (status != LW_OK) {
            assert_int_equal(status, LW_ENOMEM);
            assert_int_equal(lw_alloc_live(), live);
            assert_int_equal(w.n_modules, 77);
        }
    }
    lw_workload_free(&w);
    traces_source_free(&s);
}

static void scaling_is_exact_and_keeps_shares(void **state)
{
    int64_t v[] = {1, 2, 0, 3}, zero[] = {0, 0};

    (void)state;
    traces_scale(v, 4, 600);
    assert_int_equal(v[0], 100);
    assert_int_equal(v[1], 200);
    assert_int_equal(v[2], 0);
    assert_int_equal(v[3], 300);
    traces_scale(v, 4, 7); /* cumulative shares 1.17, 3.5, 3.5, 7 round to 1, 4, 4, 7 */
    assert_int_equal(v[0], 1);
    assert_int_equal(v[1], 3);
    assert_int_equal(v[2], 0);
    assert_int_equal(v[3], 3);
    traces_scale(zero, 2, 5);
    assert_int_equal(zero[0], 5);
}

/* Rows at random: whatever they mean, a workload passes its check and covers the step that its parts
 * sum to, or the trace is refused; nothing leaks. */
static void random_traces_become_sound_workloads_or_are_refused(void **state)
{
    static const struct {
        enum lw_row_class class;
        const char *name;
    } kinds[] = {
        {LW_ROW_USER, "ProfilerStep#1"}, {LW_ROW_USER, "ProfilerStep#2"},
        {LW_ROW_USER, "lw:forward"},     {LW_ROW_USER, "lw:backward"},
        {LW_ROW_USER, "lw:optimizer"},   {LW_ROW_USER, "lw:module:a"},
        {LW_ROW_USER, "lw:module:b"},    {LW_ROW_USER, "Optimizer.step#SGD.step"},
        {LW_ROW_HOST, "aten::linear"},   {LW_ROW_HOST, EVAL "AddmmBackward0"},
        {LW_ROW_HOST, EVAL ACC},         {LW_ROW_HOST, ACC},
        {LW_ROW_HOST, ACC},              {LW_ROW_LAUNCH, "cudaLaunchKernel"},
        {LW_ROW_KERNEL, "gemm"},         {LW_ROW_KERNEL, "ncclKernel_AllReduce"},
        {LW_ROW_USER, "gloo:all_reduce"}, {LW_ROW_HOST, "c10d::broadcast_"},
        {LW_ROW_USER, "DistributedDataParallel.forward"},
    };
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    int n_sound = 0;
    unsigned seed = 4711;

    (void)state;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 4000; round++) {
        struct traces_source s = {.file = "random.json", .parallel = round % 2};
        struct lw_workload w;
        struct lw_cluster links;
        struct traces_coverage c;
        struct lw_err err = {0};
        int n = rand() % 80;
        lw_trace_init(&s.trace);
        s.trace.world_size = 1 + round % 2;
        if (rand() % 2)
            put_step(&s.trace, 0, "ProfilerStep#1", rand() % 2);
        for (int i = 0; i < n; i++) {
            int k = rand() % N_KINDS, start = rand() % 1000;
            put(&s.trace, kinds[k].class, kinds[k].name, start, start + rand() % 400,
                rand() % 4 ? rand() % 14 : -1, rand() % 3 ? rand() % 50 : -1);
            if (rand() % 8 == 0)
                s.trace.track[s.trace.n - 1] = 2;
        }
        assert_int_equal(lw_trace_sort(&s.trace, NULL), LW_OK);
        assert_int_equal(lw_steps_find(&s.trace, &s.steps, NULL), LW_OK);
        enum lw_status status = lw_workload_from_traces(&s, 1, &median, &w, &c, &err);
        if (status == LW_OK) {
            n_sound++;
            assert_int_equal(lw_workload_check(&w, &err), LW_OK);
            assert_true(c.excluded_ns >= 0 && c.workload_ns >= 0);
            /* one step: exact; a median of two differs by at most the halves that are dropped */
            assert_true(llabs(c.workload_ns - (c.traced_ns - c.excluded_ns)) <= 1);
            lw_workload_free(&w);
        } else {
            assert_int_equal(status, LW_EFORMAT);
            assert_true(err.msg[0] != '\0');
        }
        if (lw_cluster_from_traces(&s, 1, &links, &err) == LW_OK)
            lw_cluster_free(&links);
        traces_source_free(&s);
        assert_int_equal(lw_alloc_live(), 0);
    }
    print_message("%d of 4000 became workloads\n", n_sound);
    assert_true(n_sound > 500);
}

/* ---- our own recordings ---- */

static void recorded_local_steps_are_covered_within_one_percent(void **state)
{
    static const char *const files[] = {"traces/recorded/resnet18__local.rank0.json.gz",
                                        "traces/recorded/gpt6__local.rank0.json.gz"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct traces_source s;
        struct lw_workload w;
        struct traces_coverage c;
        struct lw_err err = {0};
        struct traces_choice choice = {.step = -1, .as_traced = i >= 2};
        if (traces_source_read(files[i % 2], NULL, &s, &err) != LW_OK)
            fail_msg("%s", err.msg);
        import_ok(&s, 1, &choice, &w, &c);
        int64_t want = choice.as_traced ? c.traced_ns : c.measured_ns;
        double pct = 100.0 * (double)c.workload_ns / (double)want;
        print_message("%s: %.3f %% of %.3f ms\n", files[i % 2], pct, (double)want / 1e6);
        assert_true(want > 0 && pct >= 99.0 && pct <= 101.0);
        lw_workload_free(&w);
        traces_source_free(&s);
    }
}

/* What the recorder names decides what a plan counts for the optimizer's state. */
static void the_sidecar_names_the_optimizer(void **state)
{
    static const struct {
        const char *named;
        enum lw_optimizer optimizer;
    } cases[] = {
        {"\"SGD, momentum 0.9\"", LW_OPTIMIZER_MOMENTUM}, {"\"SGD\"", LW_OPTIMIZER_SGD},
        {"\"SGD, momentum 0\"", LW_OPTIMIZER_SGD},       {"\"AdamW\"", LW_OPTIMIZER_ADAM},
        {"\"Adam\"", LW_OPTIMIZER_ADAM},                 {"\"Adamax\"", LW_OPTIMIZER_UNKNOWN},
        {"null", LW_OPTIMIZER_UNKNOWN},
    };
    static const char *const trace = "traces/recorded/gpt6__local.rank0.json.gz";
    char path[] = "/tmp/lapwing-sidecar-XXXXXX";

    (void)state;
    assert_true(mkstemp(path) >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_sidecar s;
        struct lw_err err = {0};
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "{\"lapwing\":1,\"kind\":\"recording\",\"optimizer\":%s,\"parameters\":[]}",
                cases[i].named);
        assert_int_equal(fclose(f), 0);
        if (traces_sidecar_read(path, &s, &err) != LW_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(s.optimizer, cases[i].optimizer);
        traces_sidecar_free(&s);
    }
    remove(path);
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;
    struct lw_err err = {0};
    struct traces_choice choice = {.step = -1};
    if (traces_source_read(trace, NULL, &s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    import_ok(&s, 1, &choice, &w, &c);
    assert_int_equal(w.optimizer, LW_OPTIMIZER_MOMENTUM);
    lw_workload_free(&w);
    traces_source_free(&s);
}

/* Each gradient becomes ready inside its module's window of the backward. */
static void recorded_gradients_are_ready_inside_their_modules_windows(void **state)
{
    static const char *const files[] = {"traces/recorded/resnet18__local.rank0.json.gz",
                                        "traces/recorded/gpt6__local.rank0.json.gz"};

    (void)state;
    for (int f = 0; f < 2; f++) {
        struct traces_source s;
        struct lw_workload w;
        struct traces_coverage c;
        lw_ps start[512], end = 0;
        assert_int_equal(traces_source_read(files[f], NULL, &s, NULL), LW_OK);
        import_ok(&s, 1, &median, &w, &c);
        assert_true(w.n_modules <= 512);
        for (int32_t i = w.n_modules - 1; i >= 0; i--) {
            start[i] = end;
            end += w.modules[i].backward_input_ps;
        }
        for (int32_t i = 0; i < w.n_params; i++) {
            int32_t m = w.params[i].module;
            lw_ps window_end = start[m] + w.modules[m].backward_input_ps;
            assert_true(w.params[i].ready_ps >= start[m]);
            assert_true(w.params[i].ready_ps <= window_end);
        }
        lw_workload_free(&w);
        traces_source_free(&s);
    }
}

static void recorded_ranks_give_the_buckets_that_ddp_logged(void **state)
{
    struct traces_source s[2];
    struct lw_workload w, bare;
    struct traces_coverage c;

    (void)state;
    assert_int_equal(traces_source_read("traces/recorded/resnet18__local.rank0.json.gz", NULL, &s[0],
                                        NULL), LW_OK);
    assert_int_equal(traces_source_read("traces/recorded/resnet18__gloo2__cap5.rank0.json.gz", NULL,
                                        &s[1], NULL), LW_OK);
    import_ok(s, 2, &median, &w, &c);
    assert_int_equal(w.recorded.world_size, 2);
    assert_int_equal(w.recorded.n_buckets, 6);
    /* the same from the trace's own all-reduces, without the sidecar */
    s[1].has_sidecar = false;
    import_ok(&s[1], 1, &median, &bare, &c);
    assert_int_equal(bare.recorded.n_buckets, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(bare.recorded.bucket_bytes[i], w.recorded.bucket_bytes[i]);
    lw_workload_free(&w);
    lw_workload_free(&bare);
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

/* ---- links ---- */

/* One rank of a run of two: all-reduces of 30 and 40 floats. */
static void make_rank(struct traces_source *s, int64_t first, int64_t second)
{
    *s = (struct traces_source){.file = "rank.json", .parallel = true};
    lw_trace_init(&s->trace);
    s->trace.world_size = 2;
    put_step(&s->trace, 5000, "ProfilerStep#3", true);
    put(&s->trace, LW_ROW_USER, "gloo:all_reduce", 5470, 5470 + first, -1, 30);
    put(&s->trace, LW_ROW_USER, "gloo:all_reduce", 5710, 5710 + second, -1, 40);
    assert_int_equal(lw_trace_sort(&s->trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&s->trace, &s->steps, NULL), LW_OK);
}

static void one_ranks_collectives_are_upper_bounds(void **state)
{
    struct traces_source s;
    struct lw_cluster c;

    (void)state;
    make_rank(&s, 130, 18);
    assert_int_equal(lw_cluster_from_traces(&s, 1, &c, NULL), LW_OK);
    assert_int_equal(c.n_tables, 1);
    assert_int_equal(c.tables[0].op, LW_OP_ALL_REDUCE);
    assert_int_equal(c.tables[0].n_ranks, 2);
    assert_int_equal(c.tables[0].n_in_flight, 1);
    assert_int_equal(c.tables[0].n_rows, 2);
    assert_int_equal(c.tables[0].bytes[0], 120);
    assert_int_equal(c.tables[0].time_ps[0], 130000);
    assert_int_equal(c.tables[0].bytes[1], 160);
    assert_int_equal(c.tables[0].time_ps[1], 18000);
    assert_non_null(strstr(c.tables[0].source, "upper bounds"));
    lw_cluster_free(&c);
    traces_source_free(&s);
}

static void of_all_ranks_the_shortest_time_counts(void **state)
{
    struct traces_source s[2];
    struct lw_cluster c;

    (void)state;
    make_rank(&s[0], 130, 18);
    make_rank(&s[1], 90, 19); /* came later to the first, waited in the second */
    assert_int_equal(lw_cluster_from_traces(s, 2, &c, NULL), LW_OK);
    assert_int_equal(c.tables[0].time_ps[0], 90000);
    assert_int_equal(c.tables[0].time_ps[1], 18000);
    assert_non_null(strstr(c.tables[0].source, "shortest over ranks"));
    lw_cluster_free(&c);
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

static void collectives_that_overlap_count_as_two_in_flight(void **state)
{
    struct traces_source s;
    struct lw_cluster c;

    (void)state;
    make_rank(&s, 300, 18);
    assert_int_equal(lw_cluster_from_traces(&s, 1, &c, NULL), LW_OK);
    assert_int_equal(c.n_tables, 1);
    assert_int_equal(c.tables[0].n_in_flight, 2);
    lw_cluster_free(&c);
    traces_source_free(&s);
}

/* ---- the command ---- */

static char folder[] = "/tmp/lapwing-import-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Run "lapwing ARGS" with @ standing for the test's folder; returns its exit status. */
static int run(const char *args, char *output, size_t room)
{
    char command[2048], expanded[1024];
    size_t n = 0;
    const char *binary = getenv("LAPWING");

    for (const char *p = args; *p && n + sizeof folder < sizeof expanded; p++) {
        size_t len = *p == '@' ? strlen(folder) : 1;
        memcpy(expanded + n, *p == '@' ? folder : p, len);
        n += len;
    }
    expanded[n] = '\0';
    snprintf(command, sizeof command, "%s 2>&1 %s", binary ? binary : "build/lapwing", expanded);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t got = fread(output, 1, room - 1, f);
    output[got] = '\0';
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void put_file(const char *name, const char *bytes, size_t n)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static bool exists(const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void copy_damaged(const char *from, const char *to, long cut, long flip)
{
    static char bytes[1 << 20];
    FILE *f = fopen(from, "rb");

    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    if (flip)
        bytes[n - (size_t)flip] ^= 1;
    put_file(to, bytes, cut ? (size_t)cut : n);
}

static void bad_input_gets_one_line_exit_1_and_no_output(void **state)
{
    static const struct {
        const char *args, *want;
    } cases[] = {
        {"import @/absent.json -o @/o.json", "absent.json: cannot open"},
        {"import @/text.json -o @/o.json", "text.json"},
        {"import @/cut.json -o @/o.json", "cut.json"},
        {"import @/cut.json.gz -o @/o.json", "cut.json.gz: byte 5000: the gzip data ends too early (truncated)"},
        {"import @/sum.json.gz -o @/o.json", "the gzip data is damaged (incorrect data check)"},
        {"import @/nostep.json -o @/o.json", "no training step: expected ProfilerStep#N"},
        {"import @/other.json -o @/o.json", "no \"traceEvents\""},
        {"import tests/fuzz/corpus/kineto/gpu.json -o @/o.json",
         "Record whole training steps with"},
        {"import tests/fuzz/corpus/kineto/cpu_ddp.json --step 77 -o @/o.json", "--step 77"},
        {"import tests/fuzz/corpus/kineto/cpu_ddp.json --step x -o @/o.json", "--step"},
        {"import tests/fuzz/corpus/kineto/cpu_ddp.json --sidecar @/absent -o @/o.json", "absent"},
        {"import tests/fuzz/corpus/kineto/cpu_ddp.json --sidecar @/badside.json -o @/o.json",
         "badside.json"},
        {"import tests/fuzz/corpus/kineto/cpu_ddp.json --model-params @/badside.json -o @/o.json",
         "badside.json"},
        {"import tests/fuzz/corpus/kineto/cpu_ddp.json -o @/no/such/o.json", "no/such/o.json"},
        {"import tests/fuzz/corpus/kineto/cpu_ddp.json -o - > /dev/full", "No space left"},
        {"import tests/fuzz/corpus/kineto/cpu_ddp.json -o /dev/full", "/dev/full: "},
        {"import traces/recorded/gpt6__local.rank0.json.gz -o @/o.json --cluster-out @/c.json",
         "no collective of known size"},
        {"inspect @/absent.json", "absent.json: cannot open"},
        {"inspect @/cut.json --format json", "cut.json"},
        {"inspect tests/fuzz/corpus/kineto/gpu.json @/cut.json", "cut.json"},
        {"inspect tests/fuzz/corpus/kineto/gpu.json > /dev/full", "No space left"},
    };

    (void)state;
    put_file("text.json", "hello, world\n", 13);
    put_file("cut.json", "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"na", 45);
    put_file("other.json", "{\"lapwing\": 1}", 14);
    put_file("badside.json", "{\"lapwing\": 2, \"kind\": \"recording\"}", 35);
    put_file("nostep.json", "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":0,\"dur\":1}]", 53);
    copy_damaged("traces/recorded/gpt6__local.rank0.json.gz", "cut.json.gz", 5000, 0);
    copy_damaged("traces/recorded/gpt6__local.rank0.json.gz", "sum.json.gz", 0, 6);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char output[4096];
        int status = run(cases[i].args, output, sizeof output);
        char *newline = strchr(output, '\n');
        if (status != 1 || !strstr(output, cases[i].want) || !newline || newline[1] != '\0')
            fail_msg("lapwing %s: exit %d: %s", cases[i].args, status, output);
        assert_false(exists("o.json"));
    }
}

static void wrong_usage_exits_2(void **state)
{
    static const char *const cases[] = {"import", "import tests/fuzz/corpus/kineto/cpu_ddp.json",
                                        "import a b --sidecar c -o d", "inspect", "inspect --nope",
                                        "inspect x --format yaml"};
    char output[4096];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(run(cases[i], output, sizeof output), 2);
}

static void the_command_writes_a_workload_that_reads_back_the_same_twice(void **state)
{
    char output[4096], path[128];
    struct lw_workload w;
    struct lw_err err = {0};

    (void)state;
    assert_int_equal(run("import traces/recorded/gpt6__local.rank0.json.gz -o @/w.json --format json",
                         output, sizeof output), 0);
    assert_non_null(strstr(output, "\"coverage_pct\": 100.000"));
    assert_int_equal(run("import traces/recorded/gpt6__local.rank0.json.gz -o @/v.json", output,
                         sizeof output), 0);
    snprintf(path, sizeof path, "cmp %s/w.json %s/v.json", folder, folder);
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s/w.json", folder);
    if (lw_workload_read(path, &w, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(w.name, "gpt6");
    assert_int_equal(w.n_params, 76);
    assert_int_equal(w.n_ready, 76);
    assert_string_equal(w.params[w.ready_order[75]].name, "tokens.weight"); /* tied, so last */
    lw_workload_free(&w);
}

static void ddp_resnet50_takes_its_parameters_from_a_list(void **state)
{
    const char *file = "../shared/traces/kineto/ddp_resnet50_2xA100_rank0.json.gz";
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;
    struct lw_err err = {0};
    int64_t sum = 0;

    (void)state;
    if (access(file, R_OK) != 0) {
        print_message("SKIP parameters of ddp_resnet50: %s is absent\n", file);
        skip();
    }
    assert_int_equal(traces_source_read(file, NULL, &s, NULL), LW_OK);
    assert_int_equal(lw_workload_from_traces(&s, 1, &median, &w, &c, &err), LW_EFORMAT);
    struct traces_param params[161] = {{0}};
    for (int i = 0; i < 161; i++)
        params[i] = (struct traces_param){"p", 1, LW_F32, true, false, -1, -1};
    struct traces_sidecar list = {.file = "list", .model = "resnet50", .n_params = 161,
                                  .params = params};
    struct traces_choice choice = {.step = -1, .params = &list};
    import_ok(&s, 1, &choice, &w, &c);
    assert_int_equal(w.n_ready, 161);
    assert_int_equal(w.recorded.world_size, 2);
    assert_int_equal(w.recorded.n_buckets, 5);
    for (int i = 0; i < 5; i++)
        sum += w.recorded.bucket_bytes[i];
    assert_int_equal(sum, 4 * 25557032LL);
    lw_workload_free(&w);
    traces_source_free(&s);
}

/* Micro-batches at 0, 800 and 1600, optimizer [2350,2500), step [0,2600). The last pass begins where
 * the second ended, at 800 + 712 = 1512. Gap before its forward 1635 - 1512 = 123; forward 1635 to
 * 1840 = 205; backward 1840 to 2312 = 472; gap 38; optimizer 150; gap 100: 1088 = 2600 - 1512.
 * Ready: 466 - 240 = 226 and 708 - 240 = 468. */
static void of_several_backward_passes_the_last_is_the_workload(void **state)
{
    struct traces_source s = {.file = "hand.json"};
    struct lw_workload w;
    struct traces_coverage c;

    (void)state;
    lw_trace_init(&s.trace);
    put(&s.trace, LW_ROW_USER, "ProfilerStep#3", 0, 2600, -1, -1);
    for (int k = 0; k < 3; k++)
        put_micro_batch(&s.trace, 800 * k);
    put(&s.trace, LW_ROW_USER, "Optimizer.step#SGD.step", 2350, 2500, -1, -1);
    assert_int_equal(lw_trace_sort(&s.trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&s.trace, &s.steps, NULL), LW_OK);
    assert_int_equal(s.steps.steps[0].n_gradients, 6); /* what the trace shows stays as it is */
    import_ok(&s, 1, &median, &w, &c);
    assert_int_equal(w.n_params, 2);
    assert_int_equal(w.gap_ps[LW_GAP_BEFORE_FORWARD], 123000);
    assert_int_equal(lw_workload_forward_ps(&w), 205000);
    assert_int_equal(lw_workload_backward_ps(&w), 472000);
    assert_int_equal(w.gap_ps[LW_GAP_BEFORE_OPTIMIZER], 38000);
    assert_int_equal(w.optimizer_ps, 150000);
    assert_int_equal(w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 100000);
    assert_int_equal(lw_workload_step_ps(&w), 1088000);
    assert_int_equal(w.params[w.ready_order[0]].ready_ps, 226000);
    assert_int_equal(w.params[w.ready_order[1]].ready_ps, 468000);
    int told = 0;
    for (int32_t i = 0; i < w.n_notes; i++)
        told += strstr(w.notes[i], "3 backward passes a step") != NULL &&
                strstr(w.notes[i], "--no-sync 2") != NULL;
    assert_int_equal(told, 1);
    lw_workload_free(&w);
    traces_source_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_cut_into_modules_gaps_and_ready_times),
        cmocka_unit_test(of_several_backward_passes_the_last_is_the_workload),
        cmocka_unit_test(without_ranges_forward_ops_with_gradients_are_the_modules),
        cmocka_unit_test(without_sequence_numbers_each_gradient_is_a_module),
        cmocka_unit_test(measured_times_stretch_the_profile_and_keep_its_shares),
        cmocka_unit_test(frozen_parameters_have_no_gradient_and_keep_their_module),
        cmocka_unit_test(as_traced_and_one_step_keep_the_profiled_times),
        cmocka_unit_test(medians_over_steps_sum_to_the_median_step),
        cmocka_unit_test(data_parallel_work_is_taken_out_of_the_profile),
        cmocka_unit_test(a_local_trace_gives_the_times_and_parallel_ones_what_was_recorded),
        cmocka_unit_test(on_a_device_times_are_those_of_the_main_stream),
        cmocka_unit_test(another_models_sidecar_is_refused),
        cmocka_unit_test(unknown_sizes_are_refused_with_the_remedy),
        cmocka_unit_test(a_given_list_is_matched_in_reverse_registration_order),
        cmocka_unit_test(a_missing_step_is_refused),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
        cmocka_unit_test(scaling_is_exact_and_keeps_shares),
        cmocka_unit_test(random_traces_become_sound_workloads_or_are_refused),
        cmocka_unit_test(the_sidecar_names_the_optimizer),
        cmocka_unit_test(recorded_local_steps_are_covered_within_one_percent),
        cmocka_unit_test(recorded_gradients_are_ready_inside_their_modules_windows),
        cmocka_unit_test(recorded_ranks_give_the_buckets_that_ddp_logged),
        cmocka_unit_test(one_ranks_collectives_are_upper_bounds),
        cmocka_unit_test(of_all_ranks_the_shortest_time_counts),
        cmocka_unit_test(collectives_that_overlap_count_as_two_in_flight),
        cmocka_unit_test(bad_input_gets_one_line_exit_1_and_no_output),
        cmocka_unit_test(wrong_usage_exits_2),
        cmocka_unit_test(the_command_writes_a_workload_that_reads_back_the_same_twice),
        cmocka_unit_test(ddp_resnet50_takes_its_parameters_from_a_list),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
