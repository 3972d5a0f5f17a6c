#pragma once

/* A step of 3 ranks that is nothing but collectives without a bucket, for tests of exec. */
#include "exec/backend/backend.h"
#include "shared/plan/op.h"
#include "shared/plan/plan_builder.h"

/* kinds[n], of bytes[n]: bf16 and f32 by turns; the group's members are ranks 2, 0, 1; root is rank
 * 1. A plan without ops: it could not be built. */
static inline struct lw_plan exec_collectives_plan(const enum lw_op_kind *kinds,
                                                   const int64_t *bytes, int32_t n)
{
    int32_t members[3] = {2, 0, 1};
    struct lw_role role = {.name = "all"};
    struct lw_plan plan = {0};
    struct lw_builder *b = lw_builder_new("collectives", 3);

    lw_builder_role(b, &role);
    for (int32_t i = 0; i < 3; i++)
        lw_builder_rank(b, i, 0, i, 0, 0);
    int32_t s = lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    int32_t c = lw_builder_comm(b, "world", LW_COMM_WORLD, LW_REDUCER_AUTO, s);
    lw_builder_group(b, c, members, 3);
    lw_builder_program(b, lw_builder_variant(b, "steady", "", true), 0);
    for (int32_t i = 0; i < n; i++) {
        struct lw_op op = lw_builder_blank(kinds[i], s);
        op.comm = c;
        op.work_ps = -1;
        op.dtype = i % 2 ? LW_F32 : LW_BF16;
        op.bytes = bytes[i];
        op.peer = kinds[i] == LW_OP_BROADCAST || kinds[i] == LW_OP_REDUCE ? 1 : -1;
        lw_builder_op(b, &op, NULL, 0);
    }
    lw_builder_pass(b, 0);
    lw_builder_repeat_from(b, 0);
    lw_builder_finish(b, &plan, NULL);
    return plan;
}

/* The backend that exec_backend_reversed was asked for last. */
static const struct exec_backend *exec_reversed_of;

static inline enum lw_status exec_reversed_comm(struct exec_world *w, const int32_t *members,
                                                int32_t n, struct exec_comm **c, struct lw_err *err)
{
    int32_t other[8];

    for (int32_t i = 0; i < n; i++)
        other[i] = members[n - 1 - i];
    return exec_reversed_of->comm_create(w, other, n, c, err);
}

/* The members of its groups stand the other way round: block k goes to member n - 1 - k. */
static inline struct exec_backend exec_backend_reversed(const struct exec_backend *b)
{
    struct exec_backend wrong = *b;

    exec_reversed_of = b;
    wrong.comm_create = exec_reversed_comm;
    return wrong;
}
