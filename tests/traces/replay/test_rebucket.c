/* Other buckets for a recorded data-parallel step, every time by hand (us); and the buckets of real
 * recordings cut as DDP cut them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/replay_help.h"
#include "shared/base/arena.h"
#include "shared/bucket/bucket.h"

#define US LW_PS_PER_US
#define MIB INT64_C(1048576)

static const struct lw_bucket_request one_mib = {.policy = LW_BUCKET_C10D_2, .cap_bytes = MIB,
                                                 .first_bytes = -1};

static struct lw_row_detail shape(struct traces_source *s, int64_t numel)
{
    struct lw_row_detail d = replay_no_detail();

    d.shape_numel = numel;
    d.shape_type = traces_strings_add(&s->trace.strings, "float", 5);
    return d;
}

/* A gradient of 1 MiB, accumulated in [at, at + dur), its node until `end`. */
static void add_gradient(struct traces_source *s, int64_t at, int64_t dur, int64_t end, bool shaped)
{
    struct lw_row_detail d = shape(s, MIB / 4);

    replay_row(s, LW_ROW_HOST,
               "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", at - 1,
               end - at + 1, 0, -1);
    replay_row_with(s, LW_ROW_HOST, "torch::autograd::AccumulateGrad", at, dur, 0, -1,
                    shaped ? &d : NULL);
}

/* gloo: one bucket of 3 MiB runs in [70,370), waited for until 380 in a step of 400. */
static void make_host(struct traces_source *s, bool shaped, int64_t numel)
{
    struct lw_row_detail d;

    replay_begin(s);
    d = shape(s, numel);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 400, 0, -1);
    add_gradient(s, 10, 10, 21, shaped);
    add_gradient(s, 30, 10, 41, shaped);
    add_gradient(s, 50, 10, 64, shaped);
    replay_row_with(s, LW_ROW_HOST, "c10d::allreduce_", 61, 2, 0, -1, &d);
    replay_row_with(s, LW_ROW_USER, "gloo:all_reduce", 70, 300, 1, -1, &d);
    replay_row(s, LW_ROW_HOST, "aten::as_strided", 380, 1, 0, -1);
    replay_ready(s);
}

static void buckets_of_the_host_are_launched_with_their_last_gradient(void **state)
{
    static const lw_ps start[] = {20, 120, 220};
    struct traces_replay_choice choice = {0};
    struct traces_source s;
    struct replay_run x;

    (void)state;
    make_host(&s, true, 3 * MIB / 4);
    replay_run(&s, 1, &choice, &x);
    assert_int_equal(replay_step(&x, 0), 393 * US); /* run from 63 to 363, and 30 after the wait */
    replay_run_free(&x);
    choice.buckets = &one_mib;
    replay_run(&s, 1, &choice, &x);
    for (int k = 0; k < 3; k++) { /* 300 / 3 each, one worker; gradients at 20, 40, 60 */
        int32_t op = replay_op(&x, "a new bucket", k);
        assert_int_equal(x.r.plan.ops[op].bytes, MIB);
        assert_int_equal(x.t.start[op], start[k] * US);
        assert_int_equal(x.t.end[op], (start[k] + 100) * US);
    }
    assert_int_equal(replay_step(&x, 0), 350 * US);
    replay_run_free(&x);
    traces_source_free(&s);
}

/* NCCL: k0, k1, k2 of 30 each from 11 on; one bucket of 300 after k2; k3 waits for it. */
static void make_device(struct traces_source *s)
{
    struct lw_row_detail d = replay_no_detail();

    replay_begin(s);
    d.in_numel = 3 * MIB / 4;
    d.dtype = traces_strings_add(&s->trace.strings, "Float", 5);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 500, 0, -1);
    for (int k = 0; k < 3; k++) {
        char name[8];
        snprintf(name, sizeof name, "k%d", k);
        replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 10 + 10 * k, 1, 0, k + 1);
        replay_row(s, LW_ROW_KERNEL, name, 11 + 30 * k, 30, 7, k + 1);
        add_gradient(s, 12 + 10 * k, 3, k < 2 ? 16 + 10 * k : 60, true);
    }
    replay_row(s, LW_ROW_HOST, "c10d::allreduce_", 40, 10, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 41, 1, 0, 10);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernelExC", 43, 1, 0, 11);
    replay_row_with(s, LW_ROW_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 101, 300, 20, 11, &d);
    replay_row(s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 70, 1, 0, 12);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 72, 1, 0, 13);
    replay_row(s, LW_ROW_KERNEL, "k3", 401, 10, 7, 13);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 80, 332, 0, 14);
    replay_ready(s);
}

static void buckets_of_the_device_follow_the_kernels_before_them(void **state)
{
    static const lw_ps start[] = {41, 141, 241}; /* k0 ends at 41; then one after the other */
    struct traces_replay_choice choice = {0};
    struct traces_source s;
    struct replay_run x;

    (void)state;
    make_device(&s);
    replay_run(&s, 1, &choice, &x);
    assert_int_equal(x.t.start[replay_op(&x, "k3", 0)], 401 * US);
    replay_run_free(&x);
    choice.buckets = &one_mib;
    replay_run(&s, 1, &choice, &x);
    for (int k = 0; k < 3; k++)
        assert_int_equal(x.t.start[replay_op(&x, "a new bucket", k)], start[k] * US);
    assert_int_equal(x.t.start[replay_op(&x, "k3", 0)], 341 * US);
    for (int32_t i = 0; i < x.r.plan.n_ops; i++)
        assert_true(strncmp(x.r.plan.ops[i].name, "nccl", 4) != 0);
    replay_run_free(&x);
    traces_source_free(&s);
}

static void what_is_no_plain_data_parallelism_is_refused(void **state)
{
    struct traces_replay_choice choice = {.buckets = &one_mib};
    struct traces_source s;
    struct traces_replay r;
    struct lw_err err = {0};

    (void)state;
    make_host(&s, false, 3 * MIB / 4);
    assert_int_equal(traces_replay_build(&s, 1, &choice, &r, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "gradient 0 has no shape"));
    traces_source_free(&s);
    make_host(&s, true, MIB);
    assert_int_equal(traces_replay_build(&s, 1, &choice, &r, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "hold 4194304 bytes, its gradients 3145728"));
    traces_source_free(&s);
}

static void the_recorded_cap_gives_the_recorded_buckets(void **state)
{
    static const int mib[] = {1, 5, 25};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct lw_bucket_request want = one_mib;
        struct traces_replay_choice choice = {.buckets = &want};
        struct traces_source s;
        struct replay_run x;
        struct lw_err err = {0};
        char file[128];
        snprintf(file, sizeof file, "traces/recorded/%s__gloo2__cap%d.rank0.json.gz",
                 i < 3 ? "gpt6" : "resnet18", mib[i % 3]);
        want.cap_bytes = mib[i % 3] * MIB;
        if (traces_source_read(file, NULL, &s, &err) != LW_OK)
            fail_msg("%s", err.msg);
        replay_run(&s, 1, &choice, &x);
        int32_t n = 0, per_step = s.sidecar.n_buckets;
        for (int32_t op = 0; op < x.r.plan.n_ops; op++)
            if (strcmp(x.r.plan.ops[op].name, "a new bucket") == 0)
                assert_int_equal(x.r.plan.ops[op].bytes, s.sidecar.bucket_bytes[n++ % per_step]);
        assert_int_equal(n, x.r.n_steps * per_step);
        replay_run_free(&x);
        traces_source_free(&s);
    }
}

static void failing_allocations_leave_nothing_behind(void **state)
{
    struct traces_replay_choice choice = {.buckets = &one_mib};
    struct traces_source s;
    struct traces_replay r;
    enum lw_status status = LW_ENOMEM;

    (void)state;
    make_device(&s);
    int64_t live = lw_alloc_live(), n = 1;
    for (; status != LW_OK && n < 5000; n++) {
        lw_alloc_fail_at(n);
        status = traces_replay_build(&s, 1, &choice, &r, NULL);
        lw_alloc_fail_at(0);
        assert_true(status == LW_OK || (status == LW_ENOMEM && lw_alloc_live() == live));
    }
    assert_true(n > 30);
    traces_replay_free(&r);
    assert_int_equal(lw_alloc_live(), live);
    traces_source_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_of_the_host_are_launched_with_their_last_gradient),
        cmocka_unit_test(buckets_of_the_device_follow_the_kernels_before_them),
        cmocka_unit_test(what_is_no_plain_data_parallelism_is_refused),
        cmocka_unit_test(the_recorded_cap_gives_the_recorded_buckets),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
