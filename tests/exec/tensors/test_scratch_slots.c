/* The slots that messages reuse: exec/tensors/scratch_slots.h. A message of 80 bytes takes 128. */
#include "tests/lib/unit.h"

#include "exec/tensors/tensors.h"
#include "tests/lib/plans/message_plan.h"

enum { SLOT = 128 };

static int64_t scratch_of(const char *words)
{
    struct lw_plan p = message_plan(words);
    struct exec_tensors m = {.plan = &p, .backend = &exec_backend_threads,
                             .compares = true, .optimizer = exec_optimizer_of(EXEC_SGD)};
    struct lw_err err = {0};

    if (exec_tensors_lay_out(&m, &err) != LW_OK)
        fail_msg("%s: %s", words, err.msg);
    int64_t bytes = exec_tensors_scratch_size(&m);
    exec_tensors_free(&m);
    lw_plan_free(&p);
    return bytes;
}

/* 1f1b on two stages: two micro-batches are on their way at most. Gradient k comes into the
 * slot of activation k, which is read by then; activation k + 2 is made after B(k), when that
 * slot is free again. Under gpipe all activations go before any gradient comes: a slot for
 * each. */
TEST(a_pipelines_slots_grow_with_what_is_on_its_way)
{
    assert_int_equal(scratch_of("pp 2 micro-batches 4"), 2 * SLOT);
    assert_int_equal(scratch_of("pp 2 micro-batches 64"), 2 * SLOT);
    assert_int_equal(scratch_of("pp 3 micro-batches 64"), scratch_of("pp 3 micro-batches 8"));
    assert_int_equal(scratch_of("pp 2 micro-batches 4 schedule gpipe"), 4 * SLOT);
    assert_int_equal(scratch_of("pp 2 micro-batches 64 schedule gpipe"), 64 * SLOT);
}

/* An op takes one sum and makes the next: two slots, whatever comes after. */
TEST(sums_of_a_tensor_group_take_turns)
{
    assert_int_equal(scratch_of("tp 2 micro-batches 2"), 2 * SLOT);
    assert_int_equal(scratch_of("tp 2 micro-batches 64"), 2 * SLOT);
}
