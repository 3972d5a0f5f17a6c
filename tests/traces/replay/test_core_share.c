/* Ranks whose collectives run on the core that computes, by hand. Times in us. */
#include "tests/lib/unit.h"

#include "tests/lib/traces/replay_help.h"

#define US LW_PS_PER_US

static const struct traces_replay_choice plain = {0};

/* An op in [12,92); a collective in [12,52), which wants a whole core: both run at half of it. */
static void make_trace(struct traces_source *s, int32_t cores)
{
    replay_begin(s);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    replay_row(s, LW_ROW_HOST, "aten::mm", 0, 10, 0, -1);
    replay_row(s, LW_ROW_HOST, "c10d::allreduce_", 10, 2, 0, -1);
    replay_row(s, LW_ROW_USER, "gloo:all_reduce", 12, 40, 1, -1);
    replay_row(s, LW_ROW_HOST, "aten::mm", 12, 80, 0, -1);
    replay_ready(s);
    s->has_sidecar = true;
    s->sidecar = (struct traces_sidecar){.world_size = 2, .n_cores = cores, .n_threads = 1};
}

static void check(int32_t cores, lw_ps comm, lw_ps compute)
{
    struct traces_source s;
    struct replay_run x;

    make_trace(&s, cores);
    replay_run(&s, 1, &plain, &x);
    int32_t run = replay_op(&x, "gloo:all_reduce", 0), op = replay_op(&x, "ops of the host", 1);
    assert_int_equal(x.r.plan.ops[run].work_ps, comm);
    assert_int_equal(x.r.plan.ops[op].work_ps, compute);
    assert_int_equal(x.t.end[run], 52 * US); /* as recorded, shared or not */
    assert_int_equal(x.t.end[op], 92 * US);
    assert_int_equal(replay_step(&x, 0), 100 * US);
    replay_run_free(&x);
    traces_source_free(&s);
}

/* Two ranks of one thread on two cores. Alone the collective takes 40 / 2, the op 40 / 2 + 40. */
TEST(times_on_a_shared_core_are_those_without_the_other)
{
    check(2, 20 * US, 60 * US);
}

TEST(times_on_cores_of_their_own_stay)
{
    check(4, 40 * US, 80 * US);
}
