/* Other buckets for a recorded data-parallel step, every time by hand (us); and the buckets of real
 * recordings cut as DDP cut them. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* More cores than computing threads: collectives of the host have their own. */
static void add_cores(struct traces_source *s)
{
    s->has_sidecar = true;
    s->sidecar.n_cores = 8;
    s->sidecar.n_threads = 1;
    s->sidecar.world_size = 2;
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
    add_cores(s);
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
        int32_t op = replay_op(&x, "*(new)", k);
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
            assert_int_equal(x.t.start[replay_op(&x, "*(new)", k)], start[k] * US);
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
    add_cores(s);
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
    int32_t kept = replay_op(&x, "*bucket 0, ", 0);
    assert_int_equal(x.t.end[kept] - x.t.start[kept], 50 * US);
    /* 247 / 3 for each MiB: [73, 155.33). The recorded bucket took 197 - 164.67 more, taken as
     * waiting for the other rank at its last gradient: [155.33, 270) */
    for (int k = 0; k < 2; k++) {
        int32_t op = replay_op(&x, "*(new)", k);
        assert_int_equal(x.r.plan.ops[op].bytes, MIB);
        assert_in_range(3 * x.t.start[op], (219 + 247 * k) * US - 9, (219 + 247 * k) * US + 9);
    }
    /* copied out at 155.33 + 10, then 1 more, then from 270 on: as recorded, less that copy */
    assert_int_equal(replay_step(&x, 0), 389 * US);
    replay_run_free(&x);
    traces_source_free(&s);
}

#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
#define N_STEPS 2

/* A broadcast of 10, without a size, before the gradients; k0, k1, k2 of 30, each with a gradient
 * of 1 MiB; two buckets on stream 20, of 2 and 1 MiB; copies out of them of 10 on stream 7. Step k
 * begins at 1000 * k. Its buckets take 200 and 100 longer[k]; rank 0 of 2 alone is known. */
static void make_copies_on_device(struct traces_source *s, const int *longer, bool waits)
{
    int corr = 100;

    replay_begin(s);
    s->trace.world_size = 2;
    for (int step = 0; step < N_STEPS; step++) {
        int64_t t = 1000 * step, device = t + 60;
        struct lw_row_detail d = replay_no_detail(), one = shape(s, MIB / 4);
        char name[32];
        d.dtype = traces_strings_add(&s->trace.strings, "Float", 5);
        d.group_size = 2;
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        replay_row(s, LW_ROW_USER, name, t, 999, 0, -1);
        replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernelExC", t + 1, 1, 0, ++corr);
        replay_row(s, LW_ROW_KERNEL, "ncclDevKernel_Broadcast_RING_LL", t + 5, 10, 20, corr);
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "k%d", k);
            replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", t + 20 + 20 * k, 1, 0, ++corr);
            replay_row(s, LW_ROW_KERNEL, name, t + 21 + 30 * k, 30, 7, corr);
            add_gradient(s, t + 22 + 20 * k, 3, t + 35 + 20 * k, true);
            if (k == 0)
                continue;
            d.in_numel = (k == 1 ? 2 : 1) * MIB / 4;
            replay_row(s, LW_ROW_HOST, "c10d::allreduce_", t + 26 + 20 * k, 8, 0, -1);
            replay_row(s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", t + 27 + 20 * k, 1, 0, ++corr);
            replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernelExC", t + 29 + 20 * k, 1, 0, ++corr);
            int64_t dur = (k == 1 ? 200 : 100) + longer[step];
            device = device > t + 21 + 30 * (k + 1) ? device : t + 21 + 30 * (k + 1);
            replay_row_with(s, LW_ROW_KERNEL, NCCL, device, dur, 20, corr, &d);
            device += dur;
        }
        int64_t at = t + 100;
        for (int k = 0; k < 3; k++) {
            if (waits && k != 1)
                replay_row(s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", at, 1, 0, ++corr);
            replay_row_with(s, LW_ROW_HOST, COPY_OUT, at + 1, 4, 0, -1, &one);
            replay_row(s, LW_ROW_LAUNCH, "cudaMemcpyAsync", at + 2, 1, 0, ++corr);
            replay_row(s, LW_ROW_MEM, "Memcpy DtoD", device + 10 * k, 10, 7, corr);
            at += 5;
        }
        replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", at + 5, device + 31 - at - 5, 0,
                   ++corr);
    }
    replay_ready(s);
}

/* The host of such a recording launches its copies at once: streams wait, not the host. */
TEST(copies_on_a_device_do_not_make_the_host_wait)
{
    struct lw_bucket_request want = {.policy = LW_BUCKET_C10D_2, .cap_bytes = 3 * MIB,
                                     .first_bytes = -1};
    struct traces_replay_choice choice = {.buckets = &want};
    const int longer[N_STEPS] = {0, 0};
    struct traces_source s;
    struct replay_run x;

    make_copies_on_device(&s, longer, true);
    replay_run(&s, 1, &choice, &x);
    for (int step = 0; step < N_STEPS; step++) {
        int32_t bucket = replay_op(&x, "*(new)", step);
        /* 100 for 1 MiB, 200 for 2: 300 for 3 */
        assert_int_equal(x.t.end[bucket] - x.t.start[bucket], 300 * US);
        for (int k = 0; k < 3; k++) {
            int32_t copy = replay_op(&x, "Memcpy DtoD", 3 * step + k);
            assert_int_equal(x.t.start[copy], x.t.end[bucket] + 10 * k * US);
        }
    }
    for (int32_t i = 0; i < x.r.plan.n_ops; i++)
        assert_string_not_equal(x.r.plan.ops[i].name, "wait for a collective");
    replay_run_free(&x);
    traces_source_free(&s);
}

/* Copies of a new bucket wait for it alone. */
TEST(copies_on_a_device_wait_for_their_own_bucket)
{
    struct traces_replay_choice choice = {.buckets = &one_mib};
    const int longer[N_STEPS] = {0, 0};
    struct traces_source s;
    struct replay_run x;

    make_copies_on_device(&s, longer, true);
    replay_run(&s, 1, &choice, &x);
    for (int k = 0; k < 2; k++) { /* the third bucket of 1 MiB is a recorded one */
        int32_t bucket = replay_op(&x, "*(new)", k);
        assert_int_equal(x.t.end[bucket] - x.t.start[bucket], 100 * US);
        assert_int_equal(x.t.start[replay_op(&x, "Memcpy DtoD", k)], x.t.end[bucket]);
    }
    replay_run_free(&x);
    traces_source_free(&s);
}

/* Of the buckets of one size the shortest is the transfer; what others took more is waiting, and
 * once in a bucket that holds both their last gradients. The broadcast of 10 bounds the constant
 * part: 20. */
TEST(waiting_for_other_ranks_is_not_charged_to_every_bucket)
{
    static const struct {
        int64_t cap;
        int n;
        lw_ps us[3]; /* in the second step */
    } of[] = {
        {3 * MIB, 1, {20 + 300 + 280}}, /* 280 beyond 20 + 100 per MiB in each */
        {MIB, 2, {20 + 100, 20 + 100 + 280}},
    };
    const int longer[N_STEPS] = {250, 300};

    for (int i = 0; i < 2; i++) {
        struct lw_bucket_request want = {.policy = LW_BUCKET_C10D_2, .cap_bytes = of[i].cap,
                                         .first_bytes = -1};
        struct traces_replay_choice choice = {.buckets = &want};
        struct traces_source s;
        struct replay_run x;
        make_copies_on_device(&s, longer, true);
        replay_run(&s, 1, &choice, &x);
        for (int k = 0; k < of[i].n; k++) {
            int32_t op = replay_op(&x, "*(new)", of[i].n + k);
            assert_int_equal(x.t.end[op] - x.t.start[op], of[i].us[k] * US);
        }
        replay_run_free(&x);
        traces_source_free(&s);
    }
}

/* The recorded buckets again: every op at the same picosecond. */
static void check_identity(const struct traces_source *s, int n, int64_t first, int64_t cap)
{
    struct lw_bucket_request want = one_mib;
    struct traces_replay_choice choice = {.buckets = &want};
    struct replay_run x, recorded;

    want.first_bytes = first;
    want.cap_bytes = cap;
    replay_run(s, n, &choice, &x);
    replay_run(s, n, &(struct traces_replay_choice){0}, &recorded);
    assert_int_equal(x.r.n_new_buckets, 0);
    assert_int_equal(x.r.plan.n_ops, recorded.r.plan.n_ops);
    for (int32_t op = 0; op < x.r.plan.n_ops; op++) {
        assert_int_equal(x.t.start[op], recorded.t.start[op]);
        assert_int_equal(x.t.end[op], recorded.t.end[op]);
    }
    replay_run_free(&recorded);
    replay_run_free(&x);
}

TEST(the_recorded_buckets_change_nothing)
{
    static const struct {
        const char *file[2];
        int64_t first, cap;
    } of[] = {
        {{"../shared/traces/kineto/ddp_resnet18_8xMI300_rank0.json.gz"}, MIB, 25 * MIB},
        {{"../shared/groundtruth-torch/traces/gpt__1g__ddp_cap25.rank0.json.gz",
          "../shared/groundtruth-torch/traces/gpt__1g__ddp_cap25.rank1.json.gz"},
         25 * MIB, 25 * MIB},
        {{"../shared/groundtruth-torch/traces/gpt__1g__acc4_nosync.rank0.json.gz",
          "../shared/groundtruth-torch/traces/gpt__1g__acc4_nosync.rank1.json.gz"},
         25 * MIB, 25 * MIB},
        {{"../shared/groundtruth/gpt6__1g__cap25.rank0.trace.json.gz",
          "../shared/groundtruth/gpt6__1g__cap25.rank1.trace.json.gz"},
         MIB, 25 * MIB},
    };
    const int longer[3][N_STEPS] = {{0, 0}, {250, 300}, {50, 10}};
    struct traces_source s[2];
    int n_checked = 0;

    for (int i = 0; i < 3; i++, n_checked++) { /* of the device; the last waits for no bucket */
        make_copies_on_device(&s[0], longer[i], i < 2);
        check_identity(s, 1, 2 * MIB, 2 * MIB);
        traces_source_free(&s[0]);
    }
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int n = of[i].file[1] ? 2 : 1;
        if (access(of[i].file[0], R_OK) != 0) {
            print_message("SKIP %s: absent\n", of[i].file[0]);
            continue;
        }
        for (int r = 0; r < n; r++)
            replay_read(&s[r], of[i].file[r]);
        check_identity(s, n, of[i].first, of[i].cap);
        for (int r = 0; r < n; r++)
            traces_source_free(&s[r]);
        n_checked++;
    }
    assert_true(n_checked >= 3);
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
            assert_string_not_equal(x.r.plan.ops[op].name, "*(new)");
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
