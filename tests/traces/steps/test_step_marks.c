/* Which ranges are steps, and which all-reduces of a step are of its gradients. Times in us. */
#include "tests/lib/unit.h"
#include <string.h>
#include <unistd.h>

#include "tests/lib/traces/replay_help.h"
#include "traces/steps/step_phases.h"

#define ENGINE "autograd::engine::evaluate_function: "
#define MEGATRON "../shared/traces/kineto/megatron_tp2_2xV100_rank0.json.gz"

TEST(an_empty_last_step_is_dropped)
{
    struct traces_source s;

    replay_begin(&s);
    replay_row(&s, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    replay_row(&s, LW_ROW_HOST, "aten::mm", 10, 5, 0, -1);
    replay_row(&s, LW_ROW_USER, "ProfilerStep#2", 100, 100, 0, -1);
    replay_row(&s, LW_ROW_LAUNCH, "cudaLaunchKernel", 110, 5, 0, 1);
    replay_row(&s, LW_ROW_USER, "ProfilerStep#3", 200, 50, 0, -1);
    replay_row(&s, LW_ROW_USER, "Optimizer.zero_grad#SGD.zero_grad", 210, 5, 0, -1);
    replay_ready(&s);
    assert_int_equal(s.steps.n, 2);
    traces_source_free(&s);
    replay_begin(&s); /* the only one stays */
    replay_row(&s, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    replay_ready(&s);
    assert_int_equal(s.steps.n, 1);
    traces_source_free(&s);
}

/* Two gradients in the nodes [20,30) and [40,50), an op of the backward [30,40) between them, the
 * optimizer at 70. */
TEST(gradients_are_reduced_by_their_hooks_or_after_the_last_one)
{
    static const struct {
        int64_t at;
        bool gradients;
    } cases[] = {{10, false}, {25, true}, {35, false}, {45, true}, {60, true}, {75, false}};
    struct traces_source s;

    replay_begin(&s);
    replay_row(&s, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    for (int k = 0; k < 2; k++) {
        replay_row(&s, LW_ROW_HOST, ENGINE "torch::autograd::AccumulateGrad", 20 + 20 * k, 10, 0,
                   -1);
        replay_row(&s, LW_ROW_HOST, "torch::autograd::AccumulateGrad", 21 + 20 * k, 2, 0, -1);
    }
    replay_row(&s, LW_ROW_HOST, ENGINE "LinearBackward", 30, 10, 0, -1);
    replay_row(&s, LW_ROW_USER, "Optimizer.step#SGD.step", 70, 20, 0, -1);
    replay_ready(&s);
    assert_int_equal(s.steps.steps[0].n_gradients, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(lw_step_reduces_gradients(&s.steps.steps[0], 1000 * cases[i].at),
                         cases[i].gradients);
    traces_source_free(&s);
}

/* torch 1.8: no sequence numbers, nodes are ops. A batch is loaded in [0,10) and copied in [10,20);
 * the forward runs in [20,60), the backward on thread 1 from 80 on. zero_grad stands at 12 or at
 * 65, before the forward or, as in torch's tutorials, before the backward. */
TEST(without_numbers_the_forward_begins_after_the_data_wherever_zero_grad_stands)
{
    static const int64_t zero_grad[] = {12, 65};

    for (size_t i = 0; i < 2; i++) {
        struct traces_source s;
        replay_begin(&s);
        replay_row(&s, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
        replay_row(&s, LW_ROW_USER, "enumerate(DataLoader)#_SingleProcess.__next__", 0, 10, 0, -1);
        replay_row(&s, LW_ROW_HOST, "aten::to", 10, 2, 0, -1);
        replay_row(&s, LW_ROW_HOST, "aten::copy_", 11, 1, 0, -1);
        replay_row(&s, LW_ROW_USER, "Optimizer.zero_grad#SGD.zero_grad", zero_grad[i], 5, 0, -1);
        replay_row(&s, LW_ROW_HOST, "aten::zero_", zero_grad[i] + 1, 3, 0, -1);
        replay_row(&s, LW_ROW_HOST, "aten::conv2d", 20, 30, 0, -1);
        replay_row(&s, LW_ROW_HOST, "aten::linear", 50, 10, 0, -1);
        replay_row(&s, LW_ROW_HOST, "AddmmBackward", 80, 5, 1, -1);
        replay_row(&s, LW_ROW_HOST, "AccumulateGrad", 86, 2, 1, -1);
        replay_ready(&s);
        const struct lw_phase_span *f = &s.steps.steps[0].phase[LW_PHASE_FORWARD];
        assert_true(f->found && s.steps.steps[0].forward_by_order);
        assert_int_equal(f->start_ns, 20000);
        assert_int_equal(f->end_ns, 80000);
        traces_source_free(&s);
    }
}

/* torch.compile: the whole backward is one node, in which compiled all-reduces are launched. */
TEST(all_reduces_inside_a_compiled_backward_are_of_gradients)
{
    struct traces_source s;

    replay_begin(&s);
    replay_row(&s, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    replay_row(&s, LW_ROW_HOST, ENGINE "CompiledFunctionBackward", 19, 22, 0, -1);
    replay_row(&s, LW_ROW_HOST, "CompiledFunctionBackward", 20, 20, 0, -1);
    replay_row(&s, LW_ROW_HOST, ENGINE "torch::autograd::AccumulateGrad", 50, 10, 0, -1);
    replay_row(&s, LW_ROW_HOST, "torch::autograd::AccumulateGrad", 51, 2, 0, -1);
    replay_ready(&s);
    assert_true(lw_step_reduces_gradients(&s.steps.steps[0], 30000));
    assert_false(lw_step_reduces_gradients(&s.steps.steps[0], 45000));
    traces_source_free(&s);
}

/* Tensor parallelism of two ranks: none of the 13 all-reduces of 24,576 and 2,048 bytes is of a
 * gradient. */
TEST(megatrons_tensor_parallel_all_reduces_are_not_buckets)
{
    struct traces_choice choice = {.step = -1, .memory = {900e9, "test"}};
    struct traces_source s;
    struct traces_coverage coverage;
    struct lw_workload w;
    struct lw_err err = {0};
    bool said = false;

    if (access(MEGATRON, R_OK) != 0) {
        print_message("SKIP Megatron: %s is absent\n", MEGATRON);
        skip();
    }
    replay_read(&s, MEGATRON);
    assert_ok(lw_workload_from_traces(&s, 1, &choice, &w, &coverage, &err), err);
    assert_int_equal(w.recorded.world_size, 2);
    assert_int_equal(w.recorded.n_buckets, 0);
    for (int32_t i = 0; i < w.n_notes; i++)
        said |= strstr(w.notes[i], "8 all-reduces of the forward and 5 inside ops of the backward "
                                   "are not gradient buckets") != NULL;
    assert_true(said);
    lw_workload_free(&w);
    traces_source_free(&s);
}
