/* Vector clocks of programs: what has surely ended when an op begins, against a search of the graph
 * of streams, communicators and dependencies. */
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/check/vector_clock.h"
#include "shared/plan/plan_builder.h"
#include "tests/lib/prng.h"

enum { STREAMS = 5, COMMS = 3, MOST = 60 };

/* Ops without group calls; waits[i][k]: i waits for k itself. */
static void make_random(struct prng *r, struct lw_plan *plan, bool waits[MOST][MOST])
{
    struct lw_builder *b = lw_builder_new("random", 1);
    int32_t n = (int32_t)prng_in(r, 1, MOST), on_stream[STREAMS], on_comm[COMMS];
    struct lw_err err = {0};

    assert_non_null(b);
    lw_builder_role(b, &(struct lw_role){.name = "all"});
    lw_builder_rank(b, 0, 0, 0, 0, 0);
    for (int s = 0; s < STREAMS; s++) {
        on_stream[s] = -1;
        lw_builder_stream(b, "s", LW_STREAM_COMM, 0);
    }
    for (int c = 0; c < COMMS; c++) {
        on_comm[c] = -1;
        lw_builder_comm(b, "c", LW_COMM_DATA, LW_REDUCER_AUTO, c);
        lw_builder_group(b, c, (const int32_t[]){0}, 1);
    }
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    for (int32_t i = 0; i < n; i++) {
        bool sum = prng_below(r, 3) == 0;
        struct lw_op op =
            lw_builder_blank(sum ? LW_OP_ALL_REDUCE : LW_OP_KERNEL, prng_below(r, STREAMS));
        int32_t deps[3], n_deps = 0, last = on_stream[op.stream];
        op.comm = sum ? prng_below(r, COMMS) : -1;
        for (int32_t k = 0; k < n; k++)
            waits[i][k] = k == last || (sum && k == on_comm[op.comm]);
        for (int32_t k = i - 1; k >= 0 && n_deps < 3; k--)
            if (prng_below(r, 6) == 0)
                waits[i][deps[n_deps++] = k] = true;
        lw_builder_op(b, &op, deps, n_deps);
        on_stream[op.stream] = i;
        if (sum)
            on_comm[op.comm] = i;
    }
    lw_builder_pass(b, 0);
    assert_ok(lw_builder_finish(b, plan, &err), err);
}

/* after[i][k]: k has ended when i begins. */
static void follow(int32_t n, bool after[MOST][MOST])
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < i; k++)
            for (int32_t j = 0; after[i][k] && j < k; j++)
                after[i][j] |= after[k][j];
}

TEST(clocks_are_what_a_search_finds)
{
    struct prng r = prng_start("clocks");

    for (int k = 0; k < 500; k++) {
        struct lw_plan plan;
        struct lw_op_clock c;
        struct lw_arena room = {0};
        struct lw_err err = {0};
        bool after[MOST][MOST];
        make_random(&r, &plan, after);
        follow(plan.n_ops, after);
        assert_ok(lw_op_clock_init(&c, &plan, &room, &err), err);
        lw_op_clock_set(&c, plan.programs[0]);
        for (int32_t i = 0; i < plan.n_ops; i++) {
            int32_t latest[STREAMS] = {-1, -1, -1, -1, -1};
            for (int32_t j = 0; j < i; j++)
                latest[plan.ops[j].stream] = after[i][j] ? j : latest[plan.ops[j].stream];
            assert_memory_equal(lw_op_clock_row(&c, i), latest, sizeof latest);
        }
        lw_arena_free(&room);
        lw_plan_free(&plan);
    }
}
