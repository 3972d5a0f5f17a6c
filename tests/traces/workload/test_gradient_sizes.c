/* Sizes that a trace lacks: from the all-reduce that carried them, the user's total, the
 * optimizer's time. Steps that lack events are left out. */
#include "tests/lib/unit.h"
#include <string.h>

#include "tests/lib/files/says.h"
#include "tests/lib/traces/step_help.h"
#include "tests/lib/failing_alloc.h"

/* Gradients b (node [461,470)) then a (node [701,712)) without a tensor; `numel` floats all-reduced
 * from a's hook at 710. */
static struct imported make(int64_t numel)
{
    struct imported x = import_begin();

    put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
    if (numel > 0)
        put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 5710, 5720, -1, numel);
    import_sort(&x);
    x.s.parallel = numel > 0;
    for (int64_t i = 0; i < x.s.trace.n; i++)
        if (strcmp(lw_trace_name(&x.s.trace, i), ACC) == 0)
            x.s.trace.details[x.s.trace.detail[i]].shape_numel = -1;
    return x;
}

TEST(an_all_reduce_is_shared_by_the_gradients_since_the_last_one)
{
    struct imported x = make(71);

    import_median(&x);
    /* no hook of the device: equal shares, rounded so that they sum to 71 */
    assert_int_equal(x.w.params[1].numel, 36);
    assert_int_equal(x.w.params[0].numel, 35);
    assert_true(notes_say(x.w.notes, x.w.n_notes,
                          "2 of 2 gradients have no recorded size: each takes a share"));
    import_free(&x);
}

TEST(a_known_gradient_leaves_the_rest_of_its_all_reduce)
{
    struct imported x = make(71);

    for (int64_t i = 0; i < x.s.trace.n; i++)
        if (strcmp(lw_trace_name(&x.s.trace, i), ACC) == 0 && x.s.trace.start_ns[i] < 5500)
            x.s.trace.details[x.s.trace.detail[i]].shape_numel = 30;
    import_median(&x);
    assert_int_equal(x.w.params[1].numel, 30);
    assert_int_equal(x.w.params[0].numel, 41);
    import_free(&x);
}

TEST(a_total_is_shared_out_to_the_last_element)
{
    struct imported x = make(0);
    struct traces_choice choice = {.step = -1, .n_elements = 101};

    import_as(&x, &choice);
    assert_int_equal(x.w.params[0].numel + x.w.params[1].numel, 101);
    assert_true(notes_say(x.w.notes, x.w.n_notes, "shared out from --elements 101"));
    import_free(&x);
}

TEST(the_optimizers_time_bounds_the_total)
{
    struct imported x = make(0);
    struct traces_choice choice = {.step = -1, .memory = {1e12, "by hand"}};

    for (int64_t i = 0; i < x.s.trace.n; i++) /* shapes were not recorded at all */
        x.s.trace.detail[i] = -1;
    import_as(&x, &choice);
    /* 160 ns at 1e12 B/s are 160,000 bytes, 20 per element: 8,000 */
    assert_int_equal(x.w.params[0].numel + x.w.params[1].numel, 8000);
    assert_true(notes_say(x.w.notes, x.w.n_notes, "at most 8000 elements in all"));
    import_free(&x);
}

TEST(one_gradient_that_is_no_tensor_counts_one_element)
{
    struct imported x = make(0);

    for (int64_t i = 0; i < x.s.trace.n; i++)
        if (strcmp(lw_trace_name(&x.s.trace, i), ACC) == 0 && x.s.trace.start_ns[i] < 5500)
            x.s.trace.details[x.s.trace.detail[i]].shape_numel = 30;
    import_median(&x);
    assert_int_equal(x.w.params[0].numel, 1);
    assert_true(notes_say(x.w.notes, x.w.n_notes, "1 of 2 gradients are not tensors"));
    import_free(&x);
}

TEST(steps_that_lack_gradients_are_left_out)
{
    struct imported x = import_begin();

    put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
    put_step(&x.s.trace, 7000, "ProfilerStep#4", true);
    put_step(&x.s.trace, 9000, "ProfilerStep#5", true);
    import_sort(&x);
    for (int64_t i = 0; i < x.s.trace.n; i++)
        if (x.s.trace.start_ns[i] == 5462) /* step 3 loses its first accumulation */
            x.s.trace.class[i] = LW_ROW_USER;
    lw_steps_free(&x.s.steps);
    assert_int_equal(lw_steps_find(&x.s.trace, &x.s.steps, NULL), LW_OK);
    import_median(&x);
    assert_int_equal(x.w.n_ready, 2);
    assert_int_equal(lw_workload_step_ps(&x.w), 1000000);
    assert_true(notes_say(x.w.notes, x.w.n_notes, "1 step with other gradients or modules"));
    import_free(&x);
}

TEST(a_capture_without_marks_is_one_step)
{
    struct imported x = import_begin();

    put_micro_batch(&x.s.trace, 5000);
    import_sort(&x);
    assert_string_equal(x.s.steps.found_by, "the whole capture");
    assert_int_equal(x.s.steps.steps[0].n_gradients, 2);
    import_median(&x);
    assert_int_equal(x.w.params[0].numel, 40);
    import_free(&x);
}

TEST(failing_allocations_leak_nothing)
{
    struct imported x = make(71);
    struct traces_choice choice = {.step = -1};

    EACH_ALLOCATION_FAILS(1, lw_workload_from_traces(&x.s, 1, &choice, &x.w, &x.c, NULL), x.w,
                          lw_workload_free(&x.w));
    import_free(&x);
}
