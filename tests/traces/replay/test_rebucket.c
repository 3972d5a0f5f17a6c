/* Other buckets for a recorded data-parallel step, every time by hand (us); and the buckets of real
 * recordings cut as DDP cut them. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>

#include "tests/lib/failing_alloc.h"
#include "tests/lib/traces/replay_help.h"
#include "shared/bucket/bucket.h"

#define US LW_PS_PER_US
#define MIB INT64_C(1048576)
#define COPY_OUT "torch.distributed.ddp.reducer::copy_bucket_to_grad"

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

/* gloo: one bucket of 3 MiB runs in [63,363), waited for until then in a step of 400. */
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
    replay_row_with(s, LW_ROW_USER, "gloo:all_reduce", 63, 300, 1, -1, &d);
    replay_row(s, LW_ROW_HOST, "aten::as_strided", 380, 1, 0, -1);
    replay_ready(s);
}

TEST(buckets_of_the_host_are_launched_with_their_last_gradient)
{
    static const lw_ps start[] = {22, 122, 222};
    struct traces_replay_choice choice = {0};
    struct traces_source s;
    struct replay_run x;

    make_host(&s, true, 3 * MIB / 4);
    replay_run(&s, 1, &choice, &x);
    assert_int_equal(replay_step(&x, 0), 400 * US);
    replay_run_free(&x);
    choice.buckets = &one_mib;
    replay_run(&s, 1, &choice, &x);
    /* 300 / 3 each, one worker; the first after 20 and a launch of 2 */
    for (int k = 0; k < 3; k++) {
        int32_t op = replay_op(&x, "a new bucket", k);
        assert_int_equal(x.r.plan.ops[op].bytes, MIB);
        assert_int_equal(x.t.start[op], start[k] * US);
        assert_int_equal(x.t.end[op], (start[k] + 100) * US);
    }
    assert_int_equal(replay_step(&x, 0), 359 * US); /* 37 after the last wait, as recorded */
    replay_run_free(&x);
    traces_source_free(&s);
}

enum { INFERRED, RECORDED, NONE }; /* the wait of k3, and a last synchronisation: NONE of both */

/* NCCL: k0, k1, k2 of 30 each from 11 on; one bucket of 300 after k2; k3 waits for it. */
static void make_waits(struct traces_source *s, int waits)
{
    struct lw_row_detail d = replay_no_detail(), to7 = replay_no_detail(), to20 = to7;

    replay_begin(s);
    to7.wait_stream = 20, to7.wait_record = 15;
    to20.wait_stream = 7, to20.wait_record = 16;
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
    replay_row_with(s, LW_ROW_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 101, 300, 20, 11,
                    &d);
    if (waits == RECORDED) {
        replay_row(s, LW_ROW_LAUNCH, "cudaEventRecord", 40, 1, 0, 16);
        replay_row_with(s, LW_ROW_SYNC, "Stream Wait Event", 41, 1, 20, 10, &to20);
        replay_row(s, LW_ROW_LAUNCH, "cudaEventRecord", 45, 1, 0, 15);
        replay_row_with(s, LW_ROW_SYNC, "Stream Wait Event", 70, 1, 7, 12, &to7);
    }
    if (waits != NONE)
        replay_row(s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 70, 1, 0, 12);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 72, 1, 0, 13);
    replay_row(s, LW_ROW_KERNEL, "k3", waits == NONE ? 101 : 401, 10, 7, 13);
    if (waits != NONE)
        replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 80, 332, 0, 14);
    replay_ready(s);
}

static void make_device(struct traces_source *s)
{
    make_waits(s, INFERRED);
}

TEST(buckets_of_the_device_follow_the_kernels_before_them)
{
    static const lw_ps start[] = {41, 141, 241}; /* k0 ends at 41; then one after the other */
    struct traces_replay_choice choice = {0};
    struct traces_source s;
    struct replay_run x;

    for (int waits = INFERRED; waits <= RECORDED; waits++) {
        make_waits(&s, waits);
        choice.buckets = NULL;
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
}

TEST(buckets_that_nothing_waits_for_are_refused)
{
    struct traces_replay_choice choice = {.buckets = &one_mib};
    struct traces_source s;
    struct traces_replay r;
    struct lw_err err = {0};

    make_waits(&s, NONE);
    assert_int_equal(traces_replay_build(&s, 1, &choice, &r, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "no wait for the gradients' all-reduces was found"));
    traces_source_free(&s);
}

TEST(trace_beyond_data_parallelism_is_refused)
{
    struct traces_replay_choice choice = {.buckets = &one_mib};
    struct traces_source s;
    struct traces_replay r;
    struct lw_err err = {0};

    make_host(&s, false, 3 * MIB / 4);
    assert_int_equal(traces_replay_build(&s, 1, &choice, &r, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "gradient 0 has no shape"));
    traces_source_free(&s);
    make_host(&s, true, MIB);
    assert_int_equal(traces_replay_build(&s, 1, &choice, &r, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "hold 4194304 bytes, its gradients 3145728"));
    traces_source_free(&s);
}

/* A bucket for each gradient of 1 MiB but the first, which a bucket of its own was recorded for: it
 * stays as recorded, and the wait before each copy is for its bucket. */
static void make_copied(struct traces_source *s)
{
    struct lw_row_detail one, two;

    replay_begin(s);
    one = shape(s, MIB / 4);
    two = shape(s, 2 * MIB / 4);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 400, 0, -1);
    add_gradient(s, 10, 10, 24, true);
    add_gradient(s, 30, 10, 41, true);
    add_gradient(s, 50, 10, 64, true);
    replay_row_with(s, LW_ROW_HOST, "c10d::allreduce_", 21, 2, 0, -1, &one);
    replay_row_with(s, LW_ROW_USER, "gloo:all_reduce", 23, 50, 1, -1, &one);
    replay_row_with(s, LW_ROW_HOST, "c10d::allreduce_", 61, 2, 0, -1, &two);
    replay_row_with(s, LW_ROW_USER, "gloo:all_reduce", 73, 200, 1, -1, &two);
    replay_row_with(s, LW_ROW_HOST, COPY_OUT, 80, 10, 0, -1, &one);  /* waited from 64 to 73 */
    replay_row_with(s, LW_ROW_HOST, COPY_OUT, 270, 10, 0, -1, &one); /* from 90 to 270: cut there */
    replay_row_with(s, LW_ROW_HOST, COPY_OUT, 281, 10, 0, -1, &one);
    replay_row(s, LW_ROW_HOST, "aten::mul_", 300, 90, 0, -1);
    replay_ready(s);
}

TEST(a_host_waits_for_a_bucket_before_it_copies_out)
{
    struct traces_replay_choice choice = {0};
    struct traces_source s;
    struct replay_run x;

    make_copied(&s);
    replay_run(&s, 1, &choice, &x);
    /* the second run, cut at 270, starts at 73 after the first: 73 + 197 = 270 */
    assert_int_equal(replay_step(&x, 0), 400 * US);
    replay_run_free(&x);
    choice.buckets = &one_mib;
    replay_run(&s, 1, &choice, &x);
    int32_t kept = replay_op(&x, "gloo:all_reduce", 0);
    assert_int_equal(x.t.end[kept] - x.t.start[kept], 50 * US);
    for (int k = 0; k < 2; k++) { /* 197 / 2 each: [73,171.5), [171.5,270) */
        int32_t op = replay_op(&x, "a new bucket", k);
        assert_int_equal(x.r.plan.ops[op].bytes, MIB);
        assert_int_equal(2 * x.t.start[op], (146 + 197 * k) * US);
    }
    /* copied out at 171.5 + 10, then 1 more, then from 270 on: as recorded, less the copy before */
    assert_int_equal(replay_step(&x, 0), 389 * US);
    replay_run_free(&x);
    traces_source_free(&s);
}

TEST(the_recorded_cap_keeps_the_recorded_buckets)
{
    static const int mib[] = {1, 5, 25};

    for (int i = 0; i < 6; i++) {
        struct lw_bucket_request want = one_mib;
        struct traces_replay_choice choice = {.buckets = &want};
        struct traces_source s;
        struct replay_run x, recorded;
        char file[128];
        snprintf(file, sizeof file, "traces/recorded/%s__gloo2__cap%d.rank0.json.gz",
                 i < 3 ? "gpt6" : "resnet18", mib[i % 3]);
        want.cap_bytes = mib[i % 3] * MIB;
        replay_read(&s, file);
        replay_run(&s, 1, &choice, &x);
        replay_run(&s, 1, &(struct traces_replay_choice){0}, &recorded);
        for (int32_t op = 0; op < x.r.plan.n_ops; op++)
            assert_string_not_equal(x.r.plan.ops[op].name, "a new bucket");
        for (int32_t k = 0; k < x.r.n_steps; k++)
            assert_int_equal(replay_step(&x, k), replay_step(&recorded, k));
        replay_run_free(&recorded);
        replay_run_free(&x);
        traces_source_free(&s);
    }
}

TEST(failing_allocations_leak_nothing)
{
    struct traces_replay_choice choice = {.buckets = &one_mib};
    struct traces_source s;
    struct traces_replay r = {0};

    make_device(&s);
    EACH_ALLOCATION_FAILS(30, traces_replay_build(&s, 1, &choice, &r, NULL), r,
                          traces_replay_free(&r));
    traces_source_free(&s);
}
