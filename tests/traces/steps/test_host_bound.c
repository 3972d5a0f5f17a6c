/* Kernels by class, the host's calls, and host-bound stretches, by hand. Times in us. */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"
#include "tests/lib/traces/replay_help.h"
#include "traces/steps/host_bound.h"

/* The example of docs/design/inspect.md. */
static void make(struct traces_source *s)
{
    replay_begin(s);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 1000, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 100, 10, 0, 1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 120, 10, 0, 2);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 400, 10, 0, 3);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 430, 10, 0, 4);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 450, 300, 0, 5);
    replay_row(s, LW_ROW_KERNEL, "sgemm", 115, 50, 7, 1);
    replay_row(s, LW_ROW_KERNEL, "elementwise", 165, 20, 7, 2);
    replay_row(s, LW_ROW_KERNEL, "mine", 420, 80, 7, 3);
    replay_row(s, LW_ROW_KERNEL, "ncclDevKernel_AllReduce", 700, 40, 20, 4);
    replay_ready(s);
}

TEST(idle_time_before_a_late_launch_is_host_bound)
{
    struct traces_source s;
    struct lw_inspection in;
    struct traces_host_bound m;

    make(&s);
    assert_int_equal(lw_inspect(&s.trace, NULL, &in, NULL), LW_OK);
    assert_int_equal(traces_host_bound_find(&s.trace, &in, NULL, &m, NULL), LW_OK);
    assert_int_equal(in.n_iterations, 1);
    const struct traces_host_use *u = &m.host[0];
    assert_int_equal(u->n_launches, 4);
    assert_int_equal(u->launch_ns, 40000);
    assert_int_equal(u->n_blocking, 1);
    assert_int_equal(u->blocking_ns, 300000);
    /* [0,115) before the first, [185,420); not [500,700): nccl was launched at 430 */
    assert_int_equal(u->host_bound_ns, (115 + 235) * 1000);
    assert_int_equal(u->n_stretches, 2);
    assert_int_equal(u->stretches[1].start_ns, 185000);
    assert_int_equal(u->stretches[1].end_ns, 420000);
    assert_int_equal(u->stretches[1].launch_ns, 400000);
    assert_string_equal(lw_trace_name(&s.trace, u->stretches[1].row), "mine");
    static const int64_t n[LW_N_KERNEL_CLASSES] = {1, 1, 1, 1}, us[] = {80, 40, 50, 20};
    for (int c = 0; c < LW_N_KERNEL_CLASSES; c++) {
        assert_int_equal(m.classes[c].n, n[c]);
        assert_int_equal(m.classes[c].total_ns, us[c] * 1000);
    }
    assert_int_equal(m.n_waits[TRACES_WAIT_RECORDED], 1);
    traces_host_bound_free(&m);
    lw_inspection_free(&in);
    traces_source_free(&s);
}

/* Random steps that follow, overlap or lie within each other; each kernel after its launch. */
static void make_random(struct traces_source *s, struct prng *r)
{
    char name[24];
    int64_t t = 0;

    replay_begin(s);
    for (int i = 0; i < 6; i++, t += prng_below(r, 900)) {
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        replay_row(s, LW_ROW_USER, name, t, 1 + prng_below(r, 1500), 0, -1);
    }
    for (int i = 1; i <= 60; i++) {
        int64_t launch = prng_below(r, (int)t + 500);
        replay_row(s, LW_ROW_LAUNCH, i % 9 ? "cudaLaunchKernel" : "cudaDeviceSynchronize", launch,
                   1 + prng_below(r, 20), 0, i);
        if (i % 9)
            replay_row(s, LW_ROW_KERNEL, "k", launch + 1 + prng_below(r, 300),
                       1 + prng_below(r, 60), 7 + prng_below(r, 2), i);
    }
    replay_ready(s);
}

/* Of one iteration, from all launches and all calls. */
static void by_hand(const struct lw_trace *t, const struct lw_inspection *in,
                    const struct traces_calls *c, const struct lw_iteration *it,
                    struct traces_host_use *u)
{
    int64_t busy = it->start_ns;

    for (int64_t i = 0; i < c->n; i++) {
        int64_t row = c->calls[i].row, start = t->start_ns[row];
        if (start < it->start_ns || start >= it->end_ns)
            continue;
        u->n_launches += c->calls[i].n_device > 0;
        u->launch_ns += c->calls[i].n_device > 0 ? t->dur_ns[row] : 0;
        u->n_blocking += traces_call_blocks(c->calls[i].kind);
        u->blocking_ns += traces_call_blocks(c->calls[i].kind) ? t->dur_ns[row] : 0;
    }
    for (int64_t i = 0; i < in->launches.n; i++) {
        int64_t row = in->launches.row[i], launch = in->launches.launch[i];
        int64_t at = launch < 0 ? -1 : t->start_ns[launch], start = t->start_ns[row];
        bool mine = launch >= 0 && at >= it->start_ns && at < it->end_ns;
        if (mine && start > busy && at >= busy) {
            u->host_bound_ns += start - busy;
            u->n_stretches += start - busy >= 50000;
        }
        busy = lw_trace_end_ns(t, row) > busy ? lw_trace_end_ns(t, row) : busy;
    }
}

TEST(one_pass_gives_what_each_iteration_gives_alone)
{
    struct prng r = prng_start("one_pass_gives_what_each_iteration_gives_alone");
    int64_t bound = 0;

    for (int round = 0; round < 200; round++) {
        struct traces_source s;
        struct lw_inspection in;
        struct traces_host_bound m;
        make_random(&s, &r);
        assert_int_equal(lw_inspect(&s.trace, NULL, &in, NULL), LW_OK);
        assert_int_equal(traces_host_bound_find(&s.trace, &in, NULL, &m, NULL), LW_OK);
        for (int64_t k = 0; k < in.n_iterations; k++) {
            struct traces_host_use want = {.stretches = m.host[k].stretches};
            by_hand(&s.trace, &in, &m.calls, &in.iterations[k], &want);
            assert_memory_equal(&m.host[k], &want, sizeof want);
            bound += want.host_bound_ns;
        }
        traces_host_bound_free(&m);
        lw_inspection_free(&in);
        traces_source_free(&s);
    }
    assert_true(bound > 0);
}

TEST(failing_allocations_leak_nothing)
{
    struct traces_source s;
    struct lw_inspection in;
    struct traces_host_bound m = {0};

    make(&s);
    assert_int_equal(lw_inspect(&s.trace, NULL, &in, NULL), LW_OK);
    EACH_ALLOCATION_FAILS(2, traces_host_bound_find(&s.trace, &in, NULL, &m, NULL), m,
                          traces_host_bound_free(&m));
    lw_inspection_free(&in);
    traces_source_free(&s);
}
