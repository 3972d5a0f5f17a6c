#pragma once

/* Two ranks, each a kernel of so many FLOPs, of which no shape is known. After cmocka.h. */
#include "shared/plan/plan_builder.h"

/* work_ps -1: no time. */
static inline void flops_plan(int64_t flops, lw_ps work_ps, struct lw_plan *plan)
{
    struct lw_builder *b = lw_builder_new("flops", 2);
    struct lw_role role = {.name = "all"};
    struct lw_work work = {.ps = work_ps, .flops = flops, .bytes = -1};
    struct lw_err err = {0};

    assert_non_null(b);
    lw_builder_role(b, &role);
    for (int32_t r = 0; r < 2; r++)
        lw_builder_rank(b, r, 0, r, 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_program(b, lw_builder_variant(b, "steady", "", true), 0);
    struct lw_op op = lw_builder_blank(LW_OP_KERNEL, 0);
    op.work = lw_builder_work(b, &work);
    lw_builder_op(b, &op, NULL, 0);
    lw_builder_pass(b, 0);
    assert_ok(lw_builder_finish(b, plan, &err), err);
}
