/* Collectives with CPU times on the compute core, and libraries with several workers (gloo),
 * each on an example small enough to follow by hand. Times in us unless said. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/timeline/timeline.h"
#include "tests/lib/files/says.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

static const lw_ps us = LW_PS_PER_US;

/* 1000 bytes: 100 alone, `two` with two in flight, `cpu` of the core. */
static const int64_t bytes[] = {1000};
static const lw_ps alone[] = {100 * LW_PS_PER_US}, two[] = {200 * LW_PS_PER_US};

/* Two ranks whose communication is on the compute core, if that takes CPU time. */
static void time_by_table(struct lw_cluster *c, const lw_ps *cpu)
{
    add_table(c, LW_OP_ALL_REDUCE, 2, 1, 1, bytes, alone);
    c->tables[0].cpu_ps = cpu;
    c->interference.comm_on_compute_core = given(1);
}

/* Compute 120 and a collective, both at 0.
 *   CPU 40 of 100: it wants 0.4 of the core; compute does 60 by 100 and the other 60 by 160.
 *   CPU 80 of 100: both want more than half and get half, so the collective runs at 0.5 / 0.8 and
 *                  ends at 160; compute has done 80 then and ends at 200. */
TEST(a_collective_wants_its_cpu_time_of_the_core)
{
    static const lw_ps cpu[] = {40 * LW_PS_PER_US, 80 * LW_PS_PER_US};

    for (int i = 0; i < 2; i++) {
        const struct hand_op ops[] = {
            {EVERY, LW_OP_KERNEL, 0, .us = 120, .start = 0, .end = i ? 200 : 160},
            {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1000, .start = 0, .end = i ? 160 : 100},
        };
        struct world w;
        make_hand(&w, 2, ops);
        time_by_table(&w.c, &cpu[i]);
        run_hand(&w, ops);
        assert_true(term_of(&w, "cpu_ns")->on);
        free_world(&w);
    }
}

/* Without the figure that says whose core it is, CPU times change nothing, and the run says so. */
TEST(cpu_times_are_off_unless_communication_is_on_the_core)
{
    static const lw_ps cpu[] = {40 * LW_PS_PER_US};
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_KERNEL, 0, .us = 120, .start = 0, .end = 120},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1000, .start = 0, .end = 100},
    };
    struct world w;

    make_hand(&w, 2, ops);
    time_by_table(&w.c, cpu);
    w.c.interference.comm_on_compute_core = (struct lw_figure){0, NULL};
    run_hand(&w, ops);
    assert_false(term_of(&w, "cpu_ns")->on);
    free_world(&w);
}

/* Three all-reduces at 0, two workers. Two share the link at half speed and want 0.2 of the core
 * each (CPU 40 of 100, at half speed); the third waits for a worker.
 *   0..200    two in flight; compute runs at 0.6 and does 120 of 200
 *   200..300  the third alone wants 0.4; compute does 60
 *   300..320  compute alone does the last 20 */
TEST(two_workers_share_the_link_and_the_third_collective_waits)
{
    static const lw_ps cpu[] = {40 * LW_PS_PER_US};
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_KERNEL, 0, .us = 200, .start = 0, .end = 320},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1000, .start = 0, .end = 200},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1000, .start = 0, .end = 200},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1000, .start = 200, .end = 300},
    };
    struct world w;

    make_hand(&w, 2, ops);
    time_by_table(&w.c, cpu);
    add_table(&w.c, LW_OP_ALL_REDUCE, 2, 2, 1, bytes, two);
    w.c.interference.comm_workers = given(2);
    run_hand(&w, ops);
    assert_true(term_of(&w, "comm_workers")->on);
    free_world(&w);
}

/* Recorded times, two workers: the third takes the worker that is free first (the second's), and
 * the fourth, ready long before the third's worker is free, does not overtake: it takes the
 * third's worker at 50 + 10. A kernel on the communication stream comes after all of them. */
TEST(a_free_worker_takes_the_next_in_issue_order)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_KERNEL, 0, .us = 50},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 100, .start = 0, .end = 100},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 30, .start = 0, .end = 30},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 10, .after = 1, .start = 50, .end = 60},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 20, .start = 60, .end = 80},
        {EVERY, LW_OP_KERNEL, 1, .us = 5, .start = 100, .end = 105},
    };
    struct world w;

    make_hand(&w, 2, ops);
    w.c.interference.comm_workers = given(2);
    run_hand(&w, ops);
    free_world(&w);
}

/* 80 SMs, of which ring/LL takes 24 for 1 MiB and 8 for 256 KiB (test_nccl_tuning.c). At 30 the
 * first one's worker takes the third, in the same lane: every rank gives 24 back, not 8.
 *   0..30     32 of 80 are held: the kernel does 18
 *   30..80    16 of 80: it does 40
 *   80..122   it does the other 42 of 100 */
TEST(the_next_collective_of_a_worker_leaves_the_sms_of_the_last)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_KERNEL, 0, .us = 100, .start = 0, .end = 122},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 1 << 20, .us = 30, .start = 0, .end = 30},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 256 << 10, .us = 80, .start = 0, .end = 80},
        {EVERY, LW_OP_ALL_REDUCE, 1, .bytes = 256 << 10, .us = 50, .start = 30, .end = 80},
    };
    struct world w;

    make_hand(&w, 8, ops);
    give_channels(&w.c, 80, 1);
    w.c.interference.comm_workers = given(2);
    run_hand(&w, ops);
    free_world(&w);
}

TEST(a_table_tells_every_cpu_time_or_none)
{
    static const lw_ps cpu[] = {-1};
    struct lw_cluster c;
    struct lw_err err = {0};

    make_cluster(&c, 2, 1e9, 0);
    time_by_table(&c, cpu);
    c.device.kind = "core";
    assert_int_equal(lw_cluster_check(&c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "at tables[0].rows[0].cpu_ns"));
    lw_cluster_free(&c);
}

/* The same plan on a library that says nothing of workers: one by one. */
TEST(without_the_figure_collectives_go_one_by_one)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 100, .start = 0, .end = 100},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 30, .start = 100, .end = 130},
    };
    struct world w;

    make_hand(&w, 2, ops);
    w.c.interference.comm_workers = given(1);
    run_hand(&w, ops);
    free_world(&w);
}

/* Rank 1 computes 40 before its first collective, rank 0 nothing: the k-th collectives of both are
 * one, so both begin to move at 40, and three workers run three at once. */
TEST(the_kth_collectives_of_all_members_are_one)
{
    static const struct hand_op ops[] = {
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 30},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 20},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 10},
        {EVERY, LW_OP_ALL_REDUCE, 1, .us = 5},
    };
    static const lw_ps ends[] = {70, 60, 50, 55};
    struct world w;

    make_hand(&w, 2, ops);
    w.c.interference.comm_workers = given(3);
    add_exception(&w.c, (struct lw_exception){1, -1, 1, 40 * us});
    run_world(&w, lw_sim_options_default());
    assert_int_equal(w.t.n, 8);
    for (int64_t i = 0; i < w.t.n; i++) {
        assert_int_equal(w.t.end[i], ends[w.t.op[i]] * us);
        assert_int_equal(w.t.all_in[i], w.t.op[i] < 3 ? 40 * us : 50 * us);
    }
    free_world(&w);
}

/* Many more ready collectives than workers, on one stream and over three steps, with failing
 * allocations: the run ends or reports memory, and every stretch of two is 2 x 7. */
TEST(ready_collectives_queue_without_bound)
{
    struct hand_op ops[41] = {{EVERY, LW_OP_KERNEL, 0, .us = 1}};
    struct world w;
    struct lw_sim_options o = lw_sim_options_default();

    for (int i = 1; i <= 40; i++)
        ops[i] = (struct hand_op){EVERY, LW_OP_ALL_REDUCE, 1, .us = 7, .after = 1};
    make_hand(&w, 2, ops);
    w.c.interference.comm_workers = given(2);
    o.n_steps = 3;
    assert_true(run_without_memory(&w.plan, &w.c, o) > 15);
    assert_int_equal(run_end(&w.plan, &w.c, o), 3 * (1 + 20 * 7) * us);
    free_world(&w);
}

static struct prng draws;

static uint64_t draw(uint64_t below)
{
    return prng_next(&draws) % below;
}

static void random_world(struct world *w, int32_t n_workers, int32_t n_collectives, int32_t *ops)
{
    struct lw_builder *b = begin_plan("p", 2);
    struct lw_exception x[2];
    int32_t last = -1;

    for (int32_t r = 0; r < 2; r++)
        x[r] = (struct lw_exception){r, -1, 0.25 * (double)(1 + draw(4)), (lw_ps)draw(50) * us};
    for (int32_t i = 0; i < n_collectives; i++) {
        if (draw(2))
            last = add_work(b, LW_OP_KERNEL, 0, (lw_ps)draw(40) * us, draw(2) ? last : -1);
        ops[i] = add_timed(b, 0, 1, 8, (lw_ps)(1 + draw(90)) * us, last);
    }
    make_world(w, b);
    w->c.interference.comm_workers = given(n_workers);
    for (int32_t r = 0; r < 2; r++)
        add_exception(&w->c, x[r]);
    run_world(w, lw_sim_options_default());
}

/* Against the rule itself, computed the slow way: on each rank a collective starts when it is
 * ready, all before it have started, and fewer than n of those have not ended; it moves when the
 * slower rank has entered, and lasts its recorded time. */
TEST(random_collectives_follow_the_rule_of_the_workers)
{
    enum { MOST = 12 };

    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world w;
        int32_t ops[MOST];
        draws = prng_of(seed * 0x9e3779b97f4a7c15u);
        int32_t n_workers = 1 + (int32_t)draw(4), n = 1 + (int32_t)draw(MOST);
        random_world(&w, n_workers, n, ops);
        for (int32_t k = 0; k < n; k++) {
            lw_ps enters[2];
            for (int32_t r = 0; r < 2; r++) {
                lw_ps at = row_of(&w, 0, r, ops[k]).ready, ends[MOST];
                for (int32_t i = 0; i < k; i++) {
                    struct lw_span s = row_of(&w, 0, r, ops[i]);
                    at = s.start > at ? s.start : at;
                    int32_t j = i; /* ends[] sorted, latest first */
                    for (; j > 0 && ends[j - 1] < s.end; j--)
                        ends[j] = ends[j - 1];
                    ends[j] = s.end;
                }
                if (k >= n_workers && ends[n_workers - 1] > at)
                    at = ends[n_workers - 1];
                enters[r] = at;
                if (row_of(&w, 0, r, ops[k]).start != at)
                    fail_msg("seed %llu, collective %d of rank %d", (unsigned long long)seed, k, r);
            }
            lw_ps all_in = enters[0] > enters[1] ? enters[0] : enters[1];
            assert_int_equal(row_of(&w, 0, 0, ops[k]).all_in, all_in);
            assert_int_equal(row_of(&w, 0, 1, ops[k]).end,
                             all_in + w.plan.ops[ops[k]].work_ps);
        }
        free_world(&w);
    }
}

/* Rank 0 receives before its first all-reduce; rank 1 sends after its second. The second of rank
 * 0 is ready, but the first one has not started. */
TEST(a_collective_after_one_that_never_starts_is_a_deadlock)
{
    static const struct hand_op ops[] = {
        {0, LW_OP_RECV, 2, .comm = 1, .bytes = 8, .peer = 1},
        {0, LW_OP_ALL_REDUCE, 1, .bytes = 1000, .after = 1},
        {0, LW_OP_ALL_REDUCE, 1, .bytes = 1000},
        {1, LW_OP_ALL_REDUCE, 1, .bytes = 1000},
        {1, LW_OP_ALL_REDUCE, 1, .bytes = 1000},
        {1, LW_OP_SEND, 2, .comm = 1, .bytes = 8, .peer = 0, .after = 5},
    };
    struct lw_sim_options o = lw_sim_options_default();
    struct world w;
    struct lw_err err = {0};

    make_hand(&w, 2, ops);
    w.c.interference.comm_workers = given(2);
    assert_int_equal(lw_sim_run(&w.plan, &w.c, &o, NULL, &w.s, &err), LW_EFAILED);
    has(err.msg, "ops wait for each other: ");
    has(err.msg, "rank 0 all_reduce (op 1) cannot start");
    has(err.msg, "rank 0 recv from 1 (op 0) entered");
    free_world(&w);
}

/* A message of 100 with 40 of CPU at either end, beside compute of 120 on the sender: it wants 0.4
 * of the core, so compute does 60 by 100 and ends at 160. The receiver computes nothing. Without
 * CPU times it wants a whole core and gets half: 200, by when compute has done 100, and ends at
 * 220. */
TEST(a_message_wants_its_cpu_time_of_the_core)
{
    static const lw_ps cpu[] = {40 * LW_PS_PER_US};

    for (int i = 0; i < 2; i++) {
        const struct hand_op ops[] = {
            {0, LW_OP_KERNEL, 0, .us = 120, .start = 0, .end = i ? 220 : 160},
            {0, LW_OP_SEND, 1, .bytes = 1000, .peer = 1, .start = 0, .end = i ? 200 : 100},
            {1, LW_OP_RECV, 1, .bytes = 1000, .peer = 0, .start = 0, .end = i ? 200 : 100},
        };
        struct world w;
        make_hand(&w, 2, ops);
        add_table(&w.c, LW_OP_SEND, 2, 1, 1, bytes, alone);
        w.c.tables[0].cpu_ps = i ? NULL : cpu;
        w.c.interference.comm_on_compute_core = given(1);
        run_hand(&w, ops);
        free_world(&w);
    }
}
