/* How many calls make the communicators of a large plan: exec/run/communicators.c, with a backend
 * that only counts. */
#include "tests/lib/unit.h"

#include "exec/run/run_state.h"
#include "shared/lower/lower.h"
#include "tests/lib/traces/model_help.h"

static int32_t n_calls, n_groups, n_connects;

static enum lw_status create_class(struct exec_world *w, const struct exec_members *groups,
                                   int32_t n, struct exec_comm **comms, struct lw_err *err)
{
    (void)w, (void)err;
    n_calls++;
    n_groups += n;
    for (int32_t i = 0; i < n; i++) {
        assert_true(groups[i].n > 1);
        comms[i] = NULL;
    }
    return LW_OK;
}

static enum lw_status connect(struct exec_world *w, struct exec_comm *c, int32_t rank,
                              const int32_t *peers, int32_t n, struct lw_err *err)
{
    (void)w, (void)c, (void)rank, (void)peers, (void)err;
    n_connects += n;
    return LW_OK;
}

static void give(struct lw_strategy *s, const char *name, const char *value)
{
    struct lw_err err = {0};

    assert_ok(lw_strategy_set(s, name, value, &err), err);
}

/* 8 data-parallel ranks of 16 stages of 8 tensor ranks: 128 groups of data, 128 of tensors, and 64
 * each of messages forward, of messages backward and of the tied embedding. */
TEST(gpt_175b_on_1024_ranks_splits_five_times)
{
    const struct exec_backend counting = {.name = "counting", .comm_create_class = create_class,
                                          .comm_connect = connect};
    struct lw_workload w = model_build("gpt-175b", (struct traces_model_shape){.batch = 1});
    struct lw_strategy s = lw_strategy_default();
    struct exec_run r = {.backend = &counting};
    struct lw_plan p;
    struct lw_err err = {0};

    give(&s, "dp", "8");
    give(&s, "pp", "16");
    give(&s, "tp", "8");
    give(&s, "micro-batches", "16");
    assert_ok(lw_plan_build(&w, &s, NULL, &p, &err), err);
    r.plan = &p;
    r.memory.facts.first_local = 64; /* of the second stage */
    r.memory.facts.n_local = 1;
    r.comms = lw_arena_alloc(&r.arena, (int64_t)p.n_comms * p.n_groups, sizeof(struct exec_comm *));
    assert_ok(exec_create_comms(&r, &err), err);
    assert_int_equal(p.n_ranks, 1024);
    assert_int_equal(n_groups, 128 + 128 + 3 * 64);
    assert_int_equal(n_calls, 5);
    assert_int_equal(n_connects, 4); /* the stages before and after it, on both communicators */
    lw_arena_free(&r.arena);
    lw_plan_free(&p);
    lw_workload_free(&w);
}
