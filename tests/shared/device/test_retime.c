/* A workload on another device: hand-computed ratios, and what is refused. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/device/retime.h"
#include "tests/lib/plans/tiny_workload.h"

static const struct lw_device slow = {.kind = "slow", .peak_flops[LW_F32] = {100, "t"},
                                      .memory_bytes_per_s = {10, "t"}};
static const struct lw_device fast = {.kind = "fast", .peak_flops[LW_F32] = {400, "t"},
                                      .memory_bytes_per_s = {20, "t"}};

/* Module a: 600 FLOPs, no bytes: 4 times faster. b: 600 FLOPs (6 s), 200 bytes (20 s): by
 * memory, twice (10 s of the fast one against 1.5). c: 600 FLOPs (6 s), 50 bytes (5 s): 6 s
 * there, 2.5 s here. */
TEST(each_module_goes_by_its_own_roofline)
{
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    t.modules[1].forward_bytes = 200;
    t.modules[2].forward_bytes = 50;
    assert_int_equal(lw_workload_retime(&t.w, &slow, &fast, &err), LW_OK);
    assert_int_equal(t.modules[0].forward_ps, LW_PS_PER_US / 4);
    assert_int_equal(t.modules[1].backward_input_ps, 2 * LW_PS_PER_US / 2);
    assert_int_equal(t.modules[2].backward_weight_ps, 1250000); /* 3 us * 2.5 / 6 */
    assert_int_equal(t.w.optimizer_ps, 7 * LW_PS_PER_US / 2);
    /* windows: c [0, 2.5), b [2.5, 4.5), a [4.5, 5) us; c.weight at 5 of 6, b.bias at 8 of 6..10 */
    assert_int_equal(t.params[C_WEIGHT].ready_ps, 2083333);
    assert_int_equal(t.params[B_BIAS].ready_ps, 3500000);
    assert_int_equal(t.params[A_WEIGHT].ready_ps, 5000000);
    assert_string_equal(t.w.from.device, "fast");
    assert_int_equal(lw_workload_check(&t.w, &err), LW_OK);
    lw_arena_free(&t.w.arena);
}

/* A quarter of 4 ps of forward is 1 ps. A quarter of each of its products of 2 ps would be rounded
 * up to 1 ps: the row product has what the column product leaves. */
TEST(products_stay_within_the_forward)
{
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    t.modules[0].forward_ps = 4;
    t.modules[0].tp_column_ps = t.modules[0].tp_row_ps = 2;
    assert_int_equal(lw_workload_retime(&t.w, &slow, &fast, &err), LW_OK);
    assert_int_equal(t.modules[0].forward_ps, 1);
    assert_int_equal(t.modules[0].tp_column_ps + t.modules[0].tp_row_ps, 1);
    assert_ok(lw_workload_check(&t.w, &err), err);
    lw_arena_free(&t.w.arena);
}

TEST(what_has_no_figures_is_refused_and_unchanged)
{
    struct lw_device bare = {.kind = "bare"};
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    t.modules[1].forward_flops = -1;
    assert_int_equal(lw_workload_retime(&t.w, &slow, &fast, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "module 1 'b' says neither FLOPs nor bytes"));
    assert_int_equal(t.modules[0].forward_ps, LW_PS_PER_US);
    assert_int_equal(lw_workload_retime(&t.w, &slow, &bare, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "'bare'"));
    assert_int_equal(t.w.optimizer_ps, 7 * LW_PS_PER_US);
}

TEST(what_has_no_figures_is_known_before)
{
    struct tiny t;

    tiny_init(&t);
    assert_true(lw_workload_can_retime(&t.w));
    t.modules[1].forward_flops = -1;
    assert_false(lw_workload_can_retime(&t.w));
    t.modules[1].forward_bytes = 8;
    assert_true(lw_workload_can_retime(&t.w));
}

TEST(failed_allocations_leave_it_as_it_was)
{
    int64_t live = lw_alloc_live(), n = 0;
    enum lw_status s;

    do {
        struct tiny t;
        tiny_init(&t);
        lw_alloc_fail_at(++n);
        s = lw_workload_retime(&t.w, &slow, &fast, NULL);
        lw_alloc_fail_at(0);
        assert_true(s == LW_OK || (s == LW_ENOMEM && t.modules[0].forward_ps == LW_PS_PER_US));
        lw_arena_free(&t.w.arena);
        assert_int_equal(lw_alloc_live(), live);
    } while (s != LW_OK);
    assert_true(n > 2);
}
