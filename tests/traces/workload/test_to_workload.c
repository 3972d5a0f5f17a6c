/* From steps to workloads: hand-made traces whose every number is computed beside them. */
#include "tests/lib/unit.h"
#include <stdlib.h>
#include <string.h>

#include "tests/lib/failing_alloc.h"
#include "tests/lib/traces/step_help.h"
#include "traces/workload/step_profile.h"
#include "traces/workload/to_cluster.h"

static const struct traces_choice median = {.step = -1};
static const struct traces_memory memory = {4e9, "by hand"};

TEST(a_step_is_cut_into_modules_gaps_and_ready_times)
{
    struct imported x = import_step(true);

    import_median(&x);
    assert_int_equal(x.w.n_modules, 2);
    assert_string_equal(x.w.modules[0].name, "a");
    assert_string_equal(x.w.modules[1].name, "b");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(x.w.modules[i].forward_ps, 100000);
        assert_int_equal(x.w.modules[i].backward_input_ps, 250000);
        assert_int_equal(x.w.modules[i].backward_weight_ps, 0);
    }
    assert_int_equal(x.w.gap_ps[LW_GAP_BEFORE_FORWARD], 20000);
    assert_int_equal(x.w.gap_ps[LW_GAP_BEFORE_BACKWARD], 10000);
    assert_int_equal(x.w.gap_ps[LW_GAP_BEFORE_OPTIMIZER], 10000);
    assert_int_equal(x.w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 100000);
    assert_int_equal(x.w.optimizer_ps, 160000);
    assert_int_equal(lw_workload_step_ps(&x.w), 1000000); /* the whole step */
    assert_int_equal(x.w.n_params, 2);                    /* nameless: registered a, b */
    assert_int_equal(x.w.params[0].numel, 40);
    assert_int_equal(x.w.params[0].module, 0);
    assert_int_equal(x.w.params[0].ready_ps, 478000);
    assert_int_equal(x.w.params[1].numel, 30);
    assert_int_equal(x.w.params[1].module, 1);
    assert_int_equal(x.w.params[1].ready_ps, 236000);
    assert_int_equal(x.w.ready_order[0], 1);
    assert_int_equal(x.w.ready_order[1], 0);
    assert_int_equal(x.w.recorded.world_size, 1);
    import_free(&x);
}

TEST(without_ranges_forward_ops_with_gradients_are_the_modules)
{
    struct imported x = import_step(false);

    import_median(&x);
    assert_int_equal(x.w.n_modules, 2);
    assert_string_equal(x.w.modules[0].name, "linear.0");
    /* cuts at the linears' starts: 125 - 20 and 220 - 125 */
    assert_int_equal(x.w.modules[0].forward_ps, 105000);
    assert_int_equal(x.w.modules[1].forward_ps, 95000);
    assert_int_equal(x.w.modules[0].backward_input_ps, 250000);
    import_free(&x);
}

TEST(without_sequence_numbers_each_gradient_is_a_module)
{
    struct imported x = import_step(false);

    for (int64_t i = 0; i < x.s.trace.n; i++)
        x.s.trace.link[i] = -1;
    import_median(&x);
    assert_int_equal(x.w.n_modules, 2);
    /* the first gradient's module reaches to the node after it: 480 - 230 */
    assert_int_equal(x.w.modules[1].backward_input_ps, 250000);
    assert_int_equal(x.w.modules[0].forward_ps, 100000); /* shared out like the backward */
    import_free(&x);
}

/* A sidecar as the recorder writes it; measured: step 2000 = 30 + 400 + 1000 + 500 + 70 left. */
static void add_sidecar(struct traces_source *s, bool ddp)
{
    struct traces_sidecar *c = &s->sidecar;
    static const int64_t limits[] = {64, 128}, buckets[] = {120, 160};

    *c = (struct traces_sidecar){.file = "hand.sidecar.json", .model = "hand",
                                 .torch_version = "2.9",
                                 .cpu = "cpu", .gpu = "", .backend = "gloo", .world_size = 1 + ddp,
                                 .is_ddp = ddp, .n_params = 3, .n_modules = 2, .n_ready = 2,
                                 .measured = {{2000, 1900, 2200}, {30}, {400}, {1000}, {500}}};
    c->params = lw_arena_alloc(&c->arena, 3, sizeof *c->params);
    c->modules = lw_arena_alloc(&c->arena, 2, sizeof *c->modules);
    c->ready_order = lw_arena_alloc(&c->arena, 2, sizeof *c->ready_order);
    c->params[0] = (struct traces_param){"a.w", 40, LW_F32, true, false, 900, 0, 0};
    c->params[1] = (struct traces_param){"a.frozen", 7, LW_F32, false, false, -1, 0, 0};
    c->params[2] = (struct traces_param){"b.w", 30, LW_F32, true, false, 300, 1, 0};
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

TEST(measured_times_stretch_the_profile_and_keep_its_shares)
{
    struct imported x = import_step(true);

    add_sidecar(&x.s, false);
    import_median(&x);
    assert_int_equal(x.w.modules[0].forward_ps, 200000); /* half of 400 */
    /* b's window ended at 250: between the ready times 236 -> 300 and 478 -> 900 that is
     * 300 + 14 x 600 / 242 = 334 (rounded down) */
    assert_int_equal(x.w.modules[1].backward_input_ps, 334000);
    assert_int_equal(x.w.modules[0].backward_input_ps, 666000);
    assert_int_equal(x.w.params[2].ready_ps, 300000);
    assert_int_equal(x.w.params[0].ready_ps, 900000);
    assert_int_equal(x.w.gap_ps[LW_GAP_BEFORE_FORWARD], 30000);
    assert_int_equal(x.w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 70000);
    assert_int_equal(lw_workload_step_ps(&x.w), 2000000);
    assert_int_equal(x.c.measured_ns, 2000);
    assert_int_equal(x.c.workload_ns, 2000);
    assert_int_equal(x.w.recorded.step_spread_ps, 300000);
    import_free(&x);
}

TEST(without_measured_ready_times_the_profiles_keep_their_shares)
{
    struct imported x = import_step(true);

    add_sidecar(&x.s, false);
    x.s.sidecar.n_ready = 0;
    import_median(&x);
    /* profiled 236 and 478 of a backward of 500; measured 1000 */
    assert_int_equal(x.w.params[2].ready_ps, 472000);
    assert_int_equal(x.w.params[0].ready_ps, 956000);
    import_free(&x);
}

TEST(frozen_parameters_have_no_gradient_and_keep_their_module)
{
    struct imported x = import_step(true);

    add_sidecar(&x.s, false);
    import_median(&x);
    assert_int_equal(x.w.n_params, 3);
    assert_string_equal(x.w.params[1].name, "a.frozen");
    assert_false(x.w.params[1].trainable);
    assert_false(x.w.params[1].used);
    assert_int_equal(x.w.params[1].ready_ps, -1);
    assert_int_equal(x.w.params[1].module, 0);
    import_free(&x);
}

TEST(as_traced_and_one_step_keep_the_profiled_times)
{
    static const struct traces_choice choices[] = {{.step = -1, .as_traced = true}, {.step = 3}};
    struct imported x = import_step(true);

    add_sidecar(&x.s, false);
    for (int i = 0; i < 2; i++) {
        import_as(&x, &choices[i]);
        assert_int_equal(lw_workload_step_ps(&x.w), 1000000);
        assert_int_equal(x.c.measured_ns, -1);
    }
    import_free(&x);
}

TEST(medians_over_steps_sum_to_the_median_step)
{
    struct imported x = import_begin();

    for (int k = 0; k < 3; k++) { /* steps of 1000, 1010 and 1100 ns: optimizer ends later */
        static const char *const names[] = {"ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"};
        static const int64_t more[] = {0, 10, 100};
        put_step(&x.s.trace, 2000 * k, names[k], true);
        for (int64_t i = 0; i < x.s.trace.n; i++)
            if (x.s.trace.start_ns[i] == 2000 * k && more[k] > 0)
                x.s.trace.dur_ns[i] += more[k];
    }
    import_sort(&x);
    import_median(&x);
    assert_int_equal(lw_workload_step_ps(&x.w), 1010000);
    assert_int_equal(x.w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 110000);
    import_free(&x);
}

/* Under data parallelism: hooks after the accumulation (466..470, 708..712), a broadcast
 * launched at 21 and done at 28, unpacked by 30 when the model begins, and waiting after the
 * last gradient. */
TEST(data_parallel_work_is_taken_out_of_the_profile)
{
    struct imported x = import_begin();

    x.s.parallel = true;
    x.s.trace.world_size = 2;
    put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
    put_row(&x.s.trace, LW_ROW_HOST, "c10d::broadcast_", 5021, 5022, -1, 8);
    put_row(&x.s.trace, LW_ROW_USER, "gloo:broadcast", 5022, 5028, -1, 8);
    put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 5470, 5600, -1, 30);
    put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 5710, 5728, -1, 40);
    import_sort(&x);
    import_median(&x);
    /* forward 200 - broadcast [21,30); backward ends at 708: 478 - hook [466,470) */
    assert_int_equal(lw_workload_forward_ps(&x.w), 191000);
    assert_int_equal(lw_workload_backward_ps(&x.w), 474000);
    assert_int_equal(x.w.params[1].ready_ps, 236000);
    assert_int_equal(x.w.params[0].ready_ps, 474000);
    /* left out: 9 + 4 + waiting [708,730) */
    assert_int_equal(x.c.excluded_ns, 35);
    assert_int_equal(lw_workload_step_ps(&x.w), (1000 - 35) * 1000);
    assert_int_equal(x.w.recorded.world_size, 2);
    assert_int_equal(x.w.recorded.n_buckets, 2);
    assert_int_equal(x.w.recorded.bucket_bytes[0], 120);
    assert_int_equal(x.w.recorded.bucket_bytes[1], 160);
    import_free(&x);
}

/* fully_shard on a host: its ranges hold the blocking collectives, [5030,5050) in a's module and
 * [5470,5480) between the gradients' nodes. */
TEST(ranges_of_fsdp2_are_no_compute)
{
    struct imported x = import_begin();

    x.s.parallel = true;
    x.s.trace.world_size = 2;
    put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
    put_row(&x.s.trace, LW_ROW_USER, "FSDP::pre_forward (0)", 5030, 5050, -1, -1);
    put_row(&x.s.trace, LW_ROW_USER, "FSDP::all_gather (0)", 5032, 5045, -1, -1);
    put_row(&x.s.trace, LW_ROW_USER, "gloo:all_gather", 5033, 5044, -1, 30);
    put_row(&x.s.trace, LW_ROW_USER, "FSDP::post_backward_reduce (1)", 5470, 5480, -1, -1);
    import_sort(&x);
    import_median(&x);
    assert_int_equal(lw_workload_forward_ps(&x.w), 180000);
    assert_int_equal(lw_workload_backward_ps(&x.w), 464000); /* 478 - hook 4 - 10 */
    assert_int_equal(x.c.excluded_ns, 20 + 4 + 10 + 22);
    import_free(&x);
}

TEST(a_local_trace_gives_the_times_and_parallel_ones_what_was_recorded)
{
    struct traces_source s[2] = {import_step(true).s, import_step(true).s};
    struct lw_workload w;
    struct traces_coverage c;

    add_sidecar(&s[0], true); /* the parallel one comes first on the command line */
    s[0].sidecar.measured.step.median = 3000;
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

/* Two kernels a module on stream 7, launched by the host ops; times shifted by 1000 to the
 * device. */
TEST(on_a_device_times_are_those_of_the_main_stream)
{
    struct imported x = import_begin();
    static const struct {
        int64_t launch, start, end;
    } k[] = {{36, 1000, 1100}, {126, 1100, 1250}, {213, 1250, 1260},   /* a, b, loss */
             {241, 1260, 1300}, {261, 1300, 1500}, {481, 1520, 1700},  /* loss', b', a' */
             {741, 1700, 1750}};                                       /* optimizer */

    put_step(&x.s.trace, 0, "ProfilerStep#3", true);
    for (int i = 0; i < 7; i++) {
        put_row(&x.s.trace, LW_ROW_LAUNCH, "cudaLaunchKernel", k[i].launch, k[i].launch + 1, 50 + i,
                -1);
        put_row(&x.s.trace, LW_ROW_KERNEL, "k", k[i].start, k[i].end, 50 + i, -1);
    }
    import_sort(&x);
    import_median(&x);
    assert_int_equal(x.w.modules[0].forward_ps, 100000); /* [1000,1100) */
    assert_int_equal(x.w.modules[1].forward_ps, 160000); /* b and the loss */
    assert_int_equal(x.w.modules[1].backward_input_ps, 260000); /* [1260,1520), idle 20 included */
    assert_int_equal(x.w.modules[0].backward_input_ps, 180000);
    assert_int_equal(x.w.params[1].ready_ps, 240000); /* b' ends at 1500 */
    assert_int_equal(x.w.params[0].ready_ps, 440000);
    assert_int_equal(x.w.optimizer_ps, 50000);
    assert_int_equal(x.c.traced_ns, 1000); /* the device is done before the host's 1000 ns passed */
    import_free(&x);
}

TEST(another_models_sidecar_is_refused)
{
    struct imported x = import_step(true);
    struct lw_err err = {0};

    add_sidecar(&x.s, false);
    x.s.sidecar.params[2].numel = 31;
    assert_int_equal(lw_workload_from_traces(&x.s, 1, &median, &x.w, &x.c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "'b.w'"));
    assert_non_null(strstr(err.msg, "30"));
    x.s.sidecar.n_ready = 1;
    assert_int_equal(lw_workload_from_traces(&x.s, 1, &median, &x.w, &x.c, &err), LW_EFORMAT);
    import_free(&x);
}

TEST(unknown_sizes_are_refused_with_the_remedy)
{
    struct imported x = import_step(true);
    struct lw_err err = {0};

    for (int64_t i = 0; i < x.s.trace.n_details; i++)
        x.s.trace.details[i].shape_numel = -1;
    assert_int_equal(lw_workload_from_traces(&x.s, 1, &median, &x.w, &x.c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "--model-params"));
    import_free(&x);
}

TEST(a_given_list_is_matched_in_reverse_registration_order)
{
    struct imported x = import_step(true);

    for (int64_t i = 0; i < x.s.trace.n_details; i++)
        x.s.trace.details[i].shape_numel = -1;
    add_sidecar(&x.s, false);
    x.s.sidecar.n_ready = 0;
    x.s.has_sidecar = false;
    struct traces_choice choice = {.step = -1, .params = &x.s.sidecar};
    import_as(&x, &choice);
    assert_int_equal(x.w.ready_order[0], 2);
    assert_int_equal(x.w.ready_order[1], 0);
    assert_int_equal(x.w.params[2].ready_ps, 236000);
    import_free(&x);
}

TEST(a_missing_step_is_refused)
{
    struct imported x = import_step(true);
    struct lw_err err = {0};
    struct traces_choice choice = {.step = 9};

    assert_int_equal(lw_workload_from_traces(&x.s, 1, &choice, &x.w, &x.c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "ProfilerStep#3"));
    import_free(&x);
}

TEST(failing_allocations_leak_nothing)
{
    struct traces_source s = import_step(true).s;
    struct lw_workload w = {.n_modules = 77};
    struct traces_coverage c;

    add_sidecar(&s, false);
    EACH_ALLOCATION_FAILS(0, lw_workload_from_traces(&s, 1, &median, &w, &c, NULL), w,
                          lw_workload_free(&w));
    traces_source_free(&s);
}

TEST(scaling_is_exact_and_keeps_shares)
{
    int64_t v[] = {1, 2, 0, 3}, zero[] = {0, 0};

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

/* Rows at random: whatever they mean, a workload passes its check and covers the step that its
 * parts sum to, or the trace is refused; nothing leaks. */
TEST(random_traces_become_sound_workloads_or_are_refused)
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
            put_row(&s.trace, kinds[k].class, kinds[k].name, start, start + rand() % 400,
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
        if (lw_cluster_from_traces(&s, 1, &memory, &links, &err) == LW_OK)
            lw_cluster_free(&links);
        traces_source_free(&s);
        assert_int_equal(lw_alloc_live(), 0);
    }
    print_message("%d of 4000 became workloads\n", n_sound);
    assert_true(n_sound > 500);
}

/* The same under DDP, whose range of the backward reaches to 2340: 28 after the last hook are the
 * wait for the reduction, and no gap. Hooks 4 + 4. */
TEST(the_wait_for_the_reduction_of_the_last_pass_is_no_gap)
{
    struct imported x = import_begin();

    x.s.parallel = true;
    x.s.trace.world_size = 2;
    put_row(&x.s.trace, LW_ROW_USER, "ProfilerStep#3", 0, 2600, -1, -1);
    for (int k = 0; k < 3; k++) {
        put_micro_batch(&x.s.trace, 800 * k);
        put_row(&x.s.trace, LW_ROW_USER, "lw:forward", 800 * k + 30, 800 * k + 235, -1, -1);
        put_row(&x.s.trace, LW_ROW_USER, "lw:backward", 800 * k + 238,
                k == 2 ? 2340 : 800 * k + 714, -1, -1);
    }
    put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 2310, 2335, -1, 70);
    put_row(&x.s.trace, LW_ROW_USER, "lw:optimizer", 2350, 2500, -1, -1);
    import_sort(&x);
    import_median(&x);
    assert_int_equal(x.w.gap_ps[LW_GAP_BEFORE_OPTIMIZER], 10000);
    assert_int_equal(lw_workload_backward_ps(&x.w), 464000);
    import_free(&x);
}

/* Micro-batches at 0, 800 and 1600, optimizer [2350,2500), step [0,2600). The last pass begins
 * where the second ended, at 800 + 712 = 1512. Gap before its forward 1635 - 1512 = 123; forward
 * 1635 to 1840 = 205; backward 1840 to 2312 = 472; gap 38; optimizer 150; gap 100: 1088 = 2600 -
 * 1512. Ready: 466 - 240 = 226 and 708 - 240 = 468. */
TEST(of_several_backward_passes_the_last_is_the_workload)
{
    struct imported x = import_begin();

    put_row(&x.s.trace, LW_ROW_USER, "ProfilerStep#3", 0, 2600, -1, -1);
    for (int k = 0; k < 3; k++)
        put_micro_batch(&x.s.trace, 800 * k);
    put_row(&x.s.trace, LW_ROW_USER, "Optimizer.step#SGD.step", 2350, 2500, -1, -1);
    import_sort(&x);
    assert_int_equal(x.s.steps.steps[0].n_gradients, 6); /* what the trace shows stays as it is */
    import_median(&x);
    assert_int_equal(x.w.n_params, 2);
    assert_int_equal(x.w.gap_ps[LW_GAP_BEFORE_FORWARD], 123000);
    assert_int_equal(lw_workload_forward_ps(&x.w), 205000);
    assert_int_equal(lw_workload_backward_ps(&x.w), 472000);
    assert_int_equal(x.w.gap_ps[LW_GAP_BEFORE_OPTIMIZER], 38000);
    assert_int_equal(x.w.optimizer_ps, 150000);
    assert_int_equal(x.w.gap_ps[LW_GAP_AFTER_OPTIMIZER], 100000);
    assert_int_equal(lw_workload_step_ps(&x.w), 1088000);
    assert_int_equal(x.w.params[x.w.ready_order[0]].ready_ps, 226000);
    assert_int_equal(x.w.params[x.w.ready_order[1]].ready_ps, 468000);
    int told = 0;
    for (int32_t i = 0; i < x.w.n_notes; i++)
        told += strstr(x.w.notes[i], "3 backward passes a step") != NULL &&
                strstr(x.w.notes[i], "--no-sync 2") != NULL;
    assert_int_equal(told, 1);
    import_free(&x);
}
