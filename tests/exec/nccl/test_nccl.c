/* The NCCL backend against the fake driver, NCCL and cuBLAS of tests/fake_gpu: its order, data,
 * errors and stopping, on host memory. Nothing here says that it works, or how fast, on a GPU.
 *
 * The libraries a process gets are fixed when it starts, so each rank is a process of its own: this
 * program again, with --rank and an environment. A rank prints one line; the parent reads it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "exec/nccl/kernels.h"
#include "exec/launch/rendezvous.h"
#include "exec/run/run.h"
#include "shared/base/arena.h"
#include "tests/lib/exec/exec_plan.h"
#include "tests/lib/exec/exec_ops.h"
#include "tests/lib/exec/fake_gpu.h"
#include "tests/lib/plans/swapped_plan.h"
#include "tests/lib/sim/timeline_check.h"

enum { MAX_RANKS = 8, LINE = 1024, PATIENCE_S = 60 };
enum { RACE = 66 }; /* exit status of the thread sanitizer */

/* --- a rank ------------------------------------------------------------------------------------- */

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *s = getenv(name);
    return s && *s ? strtoll(s, NULL, 10) : otherwise;
}

static struct exec_test_plan plan_asked_for(int32_t n_ranks)
{
    struct exec_test_plan t = exec_test_plan_default();

    t.n_ranks = n_ranks;
    t.work_ps = setting("T_WORK_US", 200) * LW_PS_PER_US;
    t.dtype = (enum lw_dtype)setting("T_DTYPE", LW_F32);
    t.wire = (enum lw_dtype)setting("T_WIRE", t.dtype);
    t.accumulate = (int32_t)setting("T_ACCUMULATE", 0);
    t.micro_batches = (int32_t)setting("T_MICRO", 1);
    t.view = setting("T_VIEW", 0);
    t.numel = setting("T_NUMEL", 1000);
    return t;
}

static struct lw_exec_options options_asked_for(const struct exec_process *process)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = (enum exec_compute)setting("T_COMPUTE", EXEC_COMPUTE_SLEEP);
    o.n_steps = 3;
    o.n_warmup = 1;
    o.optimizer = exec_optimizer_of(
        (enum exec_optimizer_kind)setting("T_OPTIMIZER", EXEC_MOMENTUM));
    o.optimizer.rate = setting("T_STILL", 0) ? 0 : o.optimizer.rate;
    o.timeout_ns = setting("T_TIMEOUT_MS", 20000) * 1000000;
    o.loop = setting("T_LOOP", 0);
    o.process = process;
    if (setting("T_FAULT", 0) && (!process || process->rank == 1))
        o.fault.kind = (int)setting("T_FAULT", 0), o.fault.rank = 1, o.fault.step = 1,
        o.fault.op = 7;
    return o;
}

static void say(enum lw_status code, const struct lw_err *err, const struct lw_exec_result *r)
{
    printf("code=%d verified=%d checked=%lld honesty=%s spans=%lld steps=%d about=%s compute=%s "
           "msg=%s\n",
           (int)code, (int)r->verified, (long long)r->n_checked_bytes,
           exec_honesty_name(r->honesty), (long long)r->timeline.n, r->n_warmup + r->n_steps,
           r->about, r->compute, err->msg);
}

/* A rank that could not even hand its work over says so too. */
static void give_up(const struct exec_process *process, const char *why)
{
    char words[300];

    if (!process)
        return;
    snprintf(words, sizeof words, "rank %d gave up: %.250s", process->rank, why);
    process->stop(process->context, words);
}

static enum lw_status run_plan(const struct exec_backend *b, const struct exec_process *process,
                               int32_t n_ranks)
{
    struct exec_test_plan t = plan_asked_for(n_ranks);
    struct lw_exec_options o = options_asked_for(process);
    struct lw_exec_result r = {0};
    struct lw_plan plan = {0};
    struct lw_err err = {0};

    o.backend = b;
    enum lw_status s = setting("T_SWAP", 0) ? swapped_plan(&plan, &err)
                                            : exec_test_plan_build(&t, &plan, &err);
    if (s == LW_OK)
        s = lw_exec_run(&plan, &o, &r, &err);
    if (s != LW_OK && s != LW_ENO) /* a mismatch is found when all steps are done */
        give_up(process, err.msg);
    if (s == LW_OK)
        s = timeline_check(&r.timeline, &plan, &err);
    say(s, &err, &r);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

static enum lw_status run_ops(const struct exec_backend *b, const struct exec_process *process,
                              int32_t n_ranks)
{
    struct lw_exec_result r = {0};
    struct lw_err err = {0};
    enum lw_status s = exec_ops_run(b, process, n_ranks, false, &r.n_checked_bytes, &err);

    if (s == LW_OK && !process)
        s = exec_ops_product(b, &err);
    say(s, &err, &r);
    return s;
}

/* The n-th allocation fails, n = 1, 2, ... and later every 7th, until the whole goes through:
 * each time LW_ENOMEM and nothing kept. Says how many failures there were. */
static enum lw_status starve(const struct exec_backend *b)
{
    struct lw_exec_result r = {0};
    struct lw_err err = {0};
    enum lw_status s = LW_ENOMEM;
    int64_t kept = lw_alloc_live(), before = 0;

    for (int64_t n = 1; s == LW_ENOMEM && lw_alloc_live() == kept; n += n < 60 ? 1 : 7) {
        lw_alloc_fail_at(n);
        s = exec_ops_run(b, NULL, 2, false, &r.n_checked_bytes, &err);
        lw_alloc_fail_at(0);
        before += s == LW_ENOMEM;
    }
    if (s == LW_OK && before < 60)
        s = lw_fail(&err, LW_ENO, "only %lld allocations", (long long)before);
    if (lw_alloc_live() != kept)
        s = lw_fail(&err, LW_ENO, "after failure %lld: %lld blocks kept", (long long)before,
                    (long long)(lw_alloc_live() - kept));
    say(s, &err, &r);
    return s;
}

static enum lw_status be_rank(void)
{
    struct exec_identity id = {.n_ranks = (int32_t)setting("T_RANKS", 1)};
    struct exec_agreement same = {.backend = "nccl", .program = "test"};
    struct exec_rendezvous *r = NULL;
    struct exec_process process;
    struct lw_exec_result none = {0};
    struct lw_err err = {0};
    const struct exec_backend *b;
    bool several = false;
    enum lw_status s = exec_backend_find("nccl", &b, &err);

    if (s == LW_OK)
        s = exec_identity_read(&id, &several, &err);
    snprintf(same.plan_hash, sizeof same.plan_hash, "%s",
             getenv("T_HASH") ? getenv("T_HASH") : "0");
    if (s == LW_OK && several)
        s = exec_rendezvous_open(&id, &same, setting("T_TIMEOUT_MS", 20000) * 1000000, NULL, &r,
                                 &err);
    if (s != LW_OK) {
        say(s, &err, &none);
        return s;
    }
    if (setting("T_STARVE", 0))
        return starve(b);
    if (several)
        exec_rendezvous_process(r, &process);
    s = setting("T_OPS", 0) ? run_ops(b, several ? &process : NULL, id.n_ranks)
                            : run_plan(b, several ? &process : NULL, id.n_ranks);
    exec_rendezvous_close(r);
    return s;
}

/* --- the parent --------------------------------------------------------------------------------- */

struct job {
    int32_t n;                /* processes */
    bool alone;               /* no rendezvous: one process */
    const char *set[12][2];   /* environment of all, NULL-ended */
    const char *only[4][3];   /* rank, name, value; NULL-ended */
    pid_t pid[MAX_RANKS];
    int out[MAX_RANKS];
    char line[MAX_RANKS][LINE];
    int code[MAX_RANKS];      /* as printed; 999: killed, nothing printed */
    int left;                 /* had to be killed by the test */
    double wall_s;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void set_int(const char *name, int64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)v);
    setenv(name, text, 1);
}

static int32_t a_port(void)
{
    static int32_t next;
    return 20000 + (int32_t)((getpid() * 37 + next++ * 101) % 12000); /* below the ephemeral ones */
}

static void become(const struct job *j, int32_t rank, int32_t port)
{
    char plugins[PATH_MAX], address[64];

    if (!realpath(getenv("LAPWING"), plugins))
        _exit(98);
    *strrchr(plugins, '/') = '\0';
    setenv("LAPWING_PLUGINS", plugins, 1);
    setenv("LD_LIBRARY_PATH", getenv("LAPWING_FAKE_GPU"), 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    setenv("LAPWING_RENDEZVOUS", address, 1);
    if (!j->alone) {
        set_int("LAPWING_RANK", rank);
        set_int("LAPWING_RANKS", j->n);
        set_int("LAPWING_LOCAL_RANK", rank);
        set_int("LAPWING_TOKEN", port);
    }
    set_int("FAKE_GPU_COUNT", j->n); /* one device each; one alone has no identity */
    for (int i = 0; i < 12 && j->set[i][0]; i++)
        setenv(j->set[i][0], j->set[i][1], 1);
    for (int i = 0; i < 4 && j->only[i][0]; i++)
        if (atoi(j->only[i][0]) == rank)
            setenv(j->only[i][1], j->only[i][2], 1);
    execl("/proc/self/exe", "test_nccl", "--rank", (char *)NULL);
    _exit(99);
}

static void start(struct job *j)
{
    int32_t port = a_port();

    for (int32_t r = 0; r < j->n; r++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        j->pid[r] = fork();
        assert_true(j->pid[r] >= 0);
        if (j->pid[r] == 0) {
            dup2(pipes[1], STDOUT_FILENO);
            close(pipes[0]);
            close(pipes[1]);
            become(j, r, port);
        }
        close(pipes[1]);
        j->out[r] = pipes[0];
    }
}

static void collect(struct job *j)
{
    for (int32_t r = 0; r < j->n; r++) {
        ssize_t n = 0, got;
        while (n < LINE - 1 && (got = read(j->out[r], j->line[r] + n, (size_t)(LINE - 1 - n))) > 0)
            n += got;
        j->line[r][n] = '\0';
        close(j->out[r]);
        j->code[r] = 999;
        sscanf(j->line[r], "code=%d", &j->code[r]);
    }
}

/* Starts all ranks, waits until each is gone; what is not gone in time is killed and counted. */
static void run(struct job *j)
{
    double began = now_s();
    int32_t alive = j->n, races = 0;

    j->left = 0;
    start(j);
    bool gone[MAX_RANKS] = {false};
    while (alive > 0) {
        int status;
        for (int32_t r = 0; r < j->n; r++)
            if (!gone[r] && waitpid(j->pid[r], &status, WNOHANG) == j->pid[r]) {
                gone[r] = true;
                alive--;
                races += WIFEXITED(status) && WEXITSTATUS(status) == RACE;
            }
        if (alive > 0 && now_s() - began > PATIENCE_S)
            for (int32_t r = 0; r < j->n; r++)
                if (!gone[r]) {
                    j->left++;
                    kill(j->pid[r], SIGKILL);
                }
        poll(NULL, 0, 5);
    }
    j->wall_s = now_s() - began;
    collect(j);
    assert_int_equal(j->left, 0);
    assert_int_equal(races, 0);
}

/* 5 parameters of 1000 .. 1004 elements on each local rank: 5010 weights of T_DTYPE, as many f32
 * masters beside those that are not f32, and as many of each array that the optimizer keeps. */
static void all_verified_with(const struct job *j, int32_t local, int32_t bytes_each,
                              const char *honesty)
{
    char words[128];

    for (int32_t r = 0; r < j->n; r++) {
        snprintf(words, sizeof words, "code=0 verified=1 checked=%d honesty=%s",
                 5010 * bytes_each * local, honesty);
        has(j->line[r], words);
    }
}

static void all_verified(const struct job *j, int32_t local, const char *honesty)
{
    all_verified_with(j, local, 4 + 4, honesty); /* f32 with momentum */
}

static char *log_path(char path[64])
{
    snprintf(path, 64, "/tmp/lapwing-test-nccl-%d.log", (int)getpid());
    unlink(path);
    return path;
}

static char *read_log(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(f);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    unlink(path);
    return text;
}

/* --- one process -------------------------------------------------------------------------------- */

TEST(a_world_of_one_leaves_nothing_behind)
{
    needs_fakes();
    char path[64], *text;
    struct job j = {.n = 1, .alone = true, .set = {{"FAKE_GPU_LOG", log_path(path)}}};

    run(&j);
    all_verified(&j, 1, "emulated");
    has(j.line[0], "fake device 0 on host memory");
    has(j.line[0], "the driver does not identify the device");
    text = read_log(path);
    has(text, "priority 0\n");
    has(text, "priority -1\n"); /* communication above computation: smaller runs first */
    has(text, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");
    free(text);
}

TEST(a_loop_of_ranks_ends_like_one)
{
    needs_fakes();
    static const char *const n_ranks[] = {"1", "2", "3", "5"};

    for (int i = 0; i < 4; i++) {
        char path[64], *text;
        struct job j = {.n = 1, .alone = true,
                        .set = {{"T_LOOP", "1"}, {"T_RANKS", n_ranks[i]},
                                {"FAKE_GPU_DELAY_US", "300"}, {"FAKE_GPU_SEED", n_ranks[i]},
                                {"FAKE_GPU_LOG", log_path(path)}, {"T_WORK_US", "50"}}};
        run(&j);
        all_verified(&j, atoi(n_ranks[i]), "emulated");
        text = read_log(path);
        has(text, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");
        free(text);
    }
}

TEST(types_passes_and_views_end_like_one)
{
    needs_fakes();
    static const int32_t bytes_each[] = {2 + 4 + 4, 8, 8 + 4 + 4, 8, 8, 8, 8, 4 + 4 + 4, 2 + 4 + 8};
    static const char *const cases[][4][2] = {
        {{"T_DTYPE", "2"}},                   /* f16 */
        {{"T_WIRE", "3"}},                    /* f32 reduced as bf16 */
        {{"T_DTYPE", "1"}},                   /* f64 */
        {{"T_ACCUMULATE", "2"}, {"T_MICRO", "2"}},
        {{"T_VIEW", "1"}},
        {{"T_COMPUTE", "1"}},                 /* spin */
        {{"T_COMPUTE", "0"}, {"T_WORK_US", "2500"}}, /* products */
        {{"T_OPTIMIZER", "2"}},               /* adam */
        {{"T_OPTIMIZER", "2"}, {"T_DTYPE", "3"}}, /* on bf16 */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job j = {.n = 1, .alone = true, .set = {{"T_LOOP", "1"}, {"T_RANKS", "3"}}};
        for (int k = 0; k < 4 && cases[i][k][0]; k++)
            memcpy(j.set[2 + k], cases[i][k], sizeof j.set[0]);
        run(&j);
        all_verified_with(&j, 3, bytes_each[i], "emulated");
        if (i == 6)
            has(j.line[0], "compute=cuBLAS");
    }
}

TEST(every_collective_moves_the_right_elements)
{
    needs_fakes();
    struct job loop = {.n = 1, .alone = true,
                       .set = {{"T_LOOP", "1"}, {"T_RANKS", "3"}, {"T_OPS", "1"},
                               {"FAKE_GPU_DELAY_US", "200"}}};
    struct job three = {.n = 3, .set = {{"T_OPS", "1"}, {"FAKE_NCCL_DELAY_US", "500"},
                                        {"FAKE_NCCL_LAUNCH_US", "300"}}};

    run(&loop);
    has(loop.line[0], "code=0");
    run(&three);
    for (int r = 0; r < 3; r++)
        has(three.line[r], "code=0");
}

/* Threads of a kernel meet the places in any order: here threads 1, 2, 3 of 4 find 9, 6 and 11. */
TEST(the_first_wrong_place_is_kept)
{
    static const float table[EXEC_GRADIENT_TABLE + EXEC_GRADIENT_BLOCK];
    struct kernel_found found = {.place = KERNEL_NOWHERE, .value = -1};
    float from[40] = {0};
    struct kernel_expect look = {.from = from, .table = table, .n = 40, .dtype = LW_F32,
                                 .n_ranks = 2, .found = &found};
    struct kernel_note note = {from, &found, 40, LW_F32};

    for (int pass = 0; pass < 2; pass++) {
        for (int64_t thread = 0; thread < 4; thread++)
            kernel_expect_run(&look, thread, 4);
        kernel_note_run(&note, 0, 4);
        assert_true(pass == 1 || (found.place == KERNEL_NOWHERE && found.value < 0));
        from[6] = 2.5f;
        from[9] = from[10] = from[11] = 3;
    }
    assert_int_equal(found.place, 6);
    assert_true(found.value > 2.4 && found.value < 2.6);
    assert_true(found.seen[6] > 2.4 && found.seen[9] > 2.9 && found.seen[15] < 0.1);
}

/* 3 buckets and 4 steps. With a learning rate of 0 the weights are right whatever the sums are:
 * only the comparison of every step's gradients sees the bit. */
TEST(a_flipped_bit_that_the_weights_hide_is_found)
{
    static const char *const ops[] = {"1:1", "1:5", "1:8", "1:12"};
    char sgd[8];

    needs_fakes();
    snprintf(sgd, sizeof sgd, "%d", (int)EXEC_SGD);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct job j = {.n = 2, .set = {{"T_STILL", "1"}, {"T_OPTIMIZER", sgd},
                                        {"FAKE_NCCL_FLIP", ops[i]}}};
        char expected[80];
        run(&j);
        snprintf(expected, sizeof expected, "step %d: the averaged gradient of parameter",
                 (int)i);
        assert_int_equal(j.code[1], LW_ENO);
        if (!strstr(j.line[1], expected))
            fail_msg("op %s: %s", ops[i], j.line[1]);
    }
}

/* The words are those of the threads backend, to the last value. */
TEST(a_wrong_message_is_named_as_by_threads)
{
    needs_fakes();
    struct lw_exec_options o = options_asked_for(NULL);
    struct job loop = {.n = 1, .alone = true, .set = {{"T_SWAP", "1"}, {"T_LOOP", "1"}}};
    struct job two = {.n = 2, .set = {{"T_SWAP", "1"}}};
    struct lw_exec_result r;
    struct lw_plan plan;
    struct lw_err err = {0};

    assert_int_equal(swapped_plan(&plan, &err), LW_OK);
    assert_int_equal(lw_exec_run(&plan, &o, &r, &err), LW_ENO);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    assert_non_null(strstr(err.msg, "of micro-batch 0 from rank 0 (op "));
    assert_non_null(strstr(err.msg, "): element 0 is "));
    run(&loop);
    assert_int_equal(loop.code[0], LW_ENO);
    has(loop.line[0], err.msg);
    run(&two);
    assert_int_equal(two.code[1], LW_ENO);
    has(two.line[1], err.msg);
}

TEST(running_out_of_memory_leaves_nothing_behind)
{
    needs_fakes();
    char path[64], *text;
    struct job j = {.n = 1, .alone = true,
                    .set = {{"T_STARVE", "1"}, {"FAKE_GPU_LOG", log_path(path)}}};

    run(&j);
    has(j.line[0], "code=0");
    text = read_log(path);
    has(text, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");
    free(text);
}

TEST(several_ranks_in_one_process_are_refused_without_a_loop)
{
    needs_fakes();
    struct job j = {.n = 1, .alone = true, .set = {{"T_RANKS", "2"}}};

    run(&j);
    assert_int_equal(j.code[0], LW_ENOTSUP);
    has(j.line[0], "one process for 2 ranks");
}

TEST(errors_of_the_driver_are_named)
{
    needs_fakes();
    static const struct {
        const char *name, *value, *words;
        int code;
    } cases[] = {
        {"FAKE_CUDA_FAIL", "cuMemAlloc:6:2", "has no", LW_ENOMEM},
        {"FAKE_GPU_MEMORY", "790600", "has no", LW_ENOMEM},
        {"FAKE_CUDA_FAIL", "cuModuleLoadData:1:200", "cuModuleLoadData", LW_EFAILED},
        {"FAKE_CUDA_FAIL", "cuStreamCreateWithPriority:2:2", "CUDA", LW_ENOMEM},
        {"FAKE_CUDA_ASYNC", "lw_update:14:700", "an illegal memory access was encountered",
         LW_EFAILED},
        {"FAKE_CUDA_ASYNC", "lw_update:16:700", "last finished", LW_EFAILED},
        {"FAKE_GPU_COUNT", "0", "CUDA_ERROR_NO_DEVICE", LW_ENOTSUP},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job j = {.n = 1, .alone = true, .set = {{cases[i].name, cases[i].value}}};
        run(&j);
        if (j.code[0] != cases[i].code)
            fail_msg("case %zu: %s", i, j.line[0]);
        has(j.line[0], cases[i].words);
    }
}

/* --- several processes -------------------------------------------------------------------------- */

TEST(processes_end_like_one_rank_whatever_the_delays)
{
    needs_fakes();
    static const char *const seeds[] = {"1", "2", "3"};

    for (int32_t n = 2; n <= 4; n++)
        for (int s = 0; s < 3; s++) {
            struct job j = {.n = n, .set = {{"FAKE_GPU_SEED", seeds[s]},
                                            {"FAKE_GPU_DELAY_US", s == 1 ? "300" : "0"},
                                            {"FAKE_NCCL_DELAY_US", s == 0 ? "3000" : "0"},
                                            {"FAKE_NCCL_LAUNCH_US", s == 2 ? "2000" : "0"},
                                            {"T_WORK_US", "50"}}};
            run(&j);
            all_verified(&j, 1, "sleep"); /* each has a device of its own */
        }
}

TEST(ranks_with_devices_of_their_own_share_nothing)
{
    needs_fakes();
    struct job j = {.n = 2};
    struct job one = {.n = 1, .alone = true, .set = {{"FAKE_GPU_COUNT", "2"}}};

    run(&j);
    all_verified(&j, 1, "sleep");
    has(j.line[1], "fake device 1");
    run(&one);
    all_verified(&one, 1, "sleep");
}

/* By NCCL, and the message adds what to do. */
TEST(two_ranks_on_one_device_are_refused)
{
    needs_fakes();
    struct job j = {.n = 3, .set = {{"FAKE_GPU_COUNT", "2"}}}; /* ranks 0 and 2 on device 0 */

    run(&j);
    has(j.line[0], "Duplicate GPU detected : rank"); /* its own message, or that of rank 2 */
    has(j.line[0], "rank 0 of 3 sees 2 GPUs");
    has(j.line[0], "--transport loop");
    assert_int_not_equal(j.code[1], LW_OK);
    has(j.line[2], "Duplicate GPU detected : rank");
    assert_int_equal(j.left, 0);
}

TEST(large_buckets_and_half_types_cross_processes)
{
    needs_fakes();
    struct job j = {.n = 3, .set = {{"T_NUMEL", "40000"}, {"T_DTYPE", "2"}, {"T_WORK_US", "50"}}};

    run(&j);
    for (int r = 0; r < 3; r++)
        has(j.line[r], "code=0 verified=1");
}

/* Each rank ends by itself, says what it was at, and none waits for its own time limit when another
 * has already given up: the limit is 20 s, all are gone long before. */
static void all_stop(struct job *j, int lost, const char *words)
{
    run(j);
    for (int32_t r = 0; r < j->n; r++) {
        if (r == lost) {
            assert_int_equal(j->code[r], 999);
            continue;
        }
        if (j->code[r] != LW_EFAILED && j->code[r] != LW_ETIMEOUT)
            fail_msg("rank %d: %s", r, j->line[r]);
        has(j->line[r], words);
    }
}

TEST(an_asynchronous_error_stops_all_and_names_the_op)
{
    needs_fakes();
    for (int32_t n = 2; n <= 4; n++) {
        /* each step has 3 all-reduces: op 5 is step 1's second */
        struct job j = {.n = n,
                        .set = {{"FAKE_NCCL_ERROR", "1:5:6"}, {"FAKE_NCCL_DELAY_US", "500"}}};
        all_stop(&j, -1, "first unfinished: op ");
        for (int32_t r = 0; r < n; r++) {
            has(j.line[r], "step 1");
            has(j.line[r], "remote process exited or there was a network error");
        }
        has(j.line[1], "first unfinished: op ");
        has(j.line[1], "(all_reduce of bucket 1) of rank 1");
        has(j.line[0], "rank 1 gave up");
    }
}

TEST(a_lost_rank_stops_the_others)
{
    needs_fakes();
    for (int32_t n = 2; n <= 4; n++) {
        struct job j = {.n = n, .set = {{"FAKE_NCCL_LOSE", n == 3 ? "0:6" : "1:6"}}};
        all_stop(&j, n == 3 ? 0 : 1, n == 3 ? "rank 0 is gone" : "rank 1 is gone");
        has(j.line[n == 3 ? 1 : 0], "step 1");
        has(j.line[n == 3 ? 1 : 0], "first unfinished: op ");
    }
}

TEST(a_hanging_rank_ends_at_the_time_limit)
{
    needs_fakes();
    for (int32_t n = 2; n <= 4; n++) {
        struct job j = {.n = n, .set = {{"FAKE_NCCL_HANG", "1:4"}, {"T_TIMEOUT_MS", "3000"}}};
        all_stop(&j, -1, "first unfinished: op ");
        for (int32_t r = 0; r < n; r++)
            has(j.line[r], "(all_reduce of bucket 0)");
    }
}

TEST(a_failing_and_a_hanging_kernel_stop_all)
{
    needs_fakes();
    struct job fails = {.n = 2, .set = {{"T_FAULT", "1"}}};
    struct job hangs = {.n = 2, .set = {{"T_FAULT", "2"}, {"T_TIMEOUT_MS", "3000"}}};
    struct job loop = {.n = 1, .alone = true,
                       .set = {{"T_LOOP", "1"}, {"T_RANKS", "2"}, {"T_FAULT", "2"},
                               {"T_TIMEOUT_MS", "1000"}}};

    all_stop(&fails, -1, "step 1");
    has(fails.line[1], "made to fail");
    has(fails.line[1], "first unfinished: op 7 (backward) of rank 1");
    has(fails.line[0], "rank 1 gave up: made to fail");
    all_stop(&hangs, -1, "step 1");
    all_stop(&loop, -1, "first unfinished: op 7 (backward) of rank 1");
    assert_int_equal(loop.code[0], LW_ETIMEOUT);
}

TEST(a_rank_lost_while_opening_stops_the_others)
{
    needs_fakes();
    struct job lost = {.n = 3, .set = {{"FAKE_NCCL_LOSE", "2:0"}}};
    struct job hung = {.n = 2, .set = {{"FAKE_NCCL_HANG", "1:0"}, {"T_TIMEOUT_MS", "1500"}}};

    all_stop(&lost, 2, "rank 2 is gone");
    run(&hung);
    for (int r = 0; r < 2; r++)
        if (hung.code[r] != LW_ETIMEOUT && hung.code[r] != LW_EFAILED)
            fail_msg("%s", hung.line[r]);
}

TEST(a_driver_error_of_one_rank_stops_all)
{
    needs_fakes();
    struct job j = {.n = 3, .only = {{"1", "FAKE_CUDA_ASYNC", "lw_convert:200:700"}},
                    .set = {{"T_WORK_US", "50"}}};
    struct job memory = {.n = 2, .only = {{"1", "FAKE_GPU_MEMORY", "790600"}}};

    all_stop(&j, -1, "an illegal memory access was encountered");
    run(&memory);
    assert_int_equal(memory.code[1], LW_ENOMEM);
    has(memory.line[0], "rank 1 gave up");
}

/* --- finding each other ------------------------------------------------------------------------- */

TEST(processes_that_differ_are_turned_away)
{
    needs_fakes();
    struct job plan = {.n = 3, .only = {{"2", "T_HASH", "abc"}}};
    struct job size = {.n = 2, .only = {{"1", "LAPWING_RANKS", "4"}}};
    struct job twice = {.n = 3, .only = {{"2", "LAPWING_RANK", "1"}}};
    struct job absent = {.n = 2, .only = {{"1", "LAPWING_TOKEN", "other"}},
                         .set = {{"T_TIMEOUT_MS", "1000"}}};
    struct job two_launchers = {.n = 1, .set = {{"RANK", "0"}, {"WORLD_SIZE", "8"}}};

    run(&plan);
    for (int r = 0; r < 3; r += 2)
        has(plan.line[r], "rank 2 has another plan (abc) than rank 0 (0)");
    run(&size);
    has(size.line[0], "rank 1 of 4 came to a run of 2 ranks");
    has(size.line[1], "rank 1 of 4 came to a run of 2 ranks");
    run(&twice);
    has(twice.line[0], "two processes say that they are rank 1");
    run(&absent);
    has(absent.line[0], "these ranks have not come: 1");
    run(&two_launchers);
    has(two_launchers.line[0], "torchrun (RANK, WORLD_SIZE) says rank 0 of 8");
}

/* --- the command -------------------------------------------------------------------------------- */

/* The command in a folder of its own, against the fakes; its output, and status by *rc. */
static char *command(const char *words, int *rc)
{
    static char text[8192];
    char binary[PATH_MAX], line[PATH_MAX * 3];
    const char *dir = "/tmp/lapwing-test-nccl";

    assert_non_null(realpath(getenv("LAPWING"), binary));
    snprintf(line, sizeof line,
             "mkdir -p %s.%d && cd %s.%d && export FAKE_GPU_COUNT=8 LD_LIBRARY_PATH=%s L=%s && { "
             "%s; } 2>&1",
             dir, (int)getpid(), dir, (int)getpid(), getenv("LAPWING_FAKE_GPU"), binary, words);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    *rc = WEXITSTATUS(pclose(f));
    return text;
}

TEST(spawned_processes_store_one_run)
{
    needs_fakes();
    int rc;
    char *out =
        command("$L model mlp --layers 4 --width 64 -o w.json >/dev/null && $L exec -w w.json "
                "--dp 3 --backend nccl --spawn --ranks 3 --compute sleep --steps 2 --warmup 1 "
                "--format json --db spawned.db && $L runs --db spawned.db --format json",
                &rc);

    if (rc != 0)
        fail_msg("%s", out);
    has(out, "\"verified\": true");
    has(out, "\"honesty\": \"sleep\"");
    has(out, "\"rank\": 2"); /* rank 0 has everybody's times */
    has(out, "\"id\": 1");
    assert_null(strstr(out, "\"id\": 2"));
}

/* One bucket of 66,560 B on three ranks. The fake estimates 10 us and 10 GB/s: 16.656 us. The model
 * is that of `lapwing cost`: 9.629 us on three of a DGX H100. */
TEST(the_librarys_estimate_stands_beside_model_and_measured)
{
    needs_fakes();
    int rc;
    char *out = command("$L model mlp --layers 4 --width 64 -o w.json >/dev/null && "
                        "$L exec -w w.json -c dgx-h100 --as-recorded --dp 3 --backend nccl --spawn "
                        "--compute sleep --steps 2 --warmup 1 --format json --no-db && "
                        "$L cost -c dgx-h100 --ranks 3 --bytes 66560 --format json",
                        &rc);

    if (rc != 0)
        fail_msg("%s", out);
    has(out, "{\"op\": \"all_reduce\", \"n_ranks\": 3, \"n_nodes\": 1, \"bytes\": 66560, "
             "\"estimate_ns\": 16656, \"model_ns\": 9629, \"measured_ns\": ");
    has(out, "\"n_measured\": 2}");
    has(out, "\"time_ns\": 9629");
    out = command("$L exec -w w.json --dp 2 --backend nccl --transport loop --compute sleep "
                  "--steps 2 --warmup 1 --format json --no-db",
                  &rc);
    assert_int_equal(rc, 0);
    assert_null(strstr(out, "estimate_ns")); /* a loop makes no calls of the library */
}

TEST(a_loop_runs_from_the_command_line)
{
    needs_fakes();
    int rc;
    char *out =
        command("$L model mlp --layers 4 --width 64 -o w.json >/dev/null && $L exec -w w.json "
                "--dp 2 --backend nccl --transport loop --compute sleep --steps 2 --warmup 1 "
                "--no-db",
                &rc);

    if (rc != 0)
        fail_msg("%s", out);
    has(out, "ranks are streams");
    has(out, "bit by bit");
    out = command(
        "$L exec -w w.json --dp 2 --zero 1 --broadcast-dtype bf16 --grad-dtype f16 --backend "
        "nccl --transport loop --compute sleep --steps 2 --warmup 1 --no-db",
        &rc);
    if (rc != 0)
        fail_msg("%s", out);
    has(out, "bit by bit");
}

/* Module a has FLOPs and hardly any bytes, b has bytes and no FLOPs: products on tensor cores, and
 * copies. In f32 no bf16 products are measured; where no bytes are known, no copies. */
TEST(time_is_filled_with_work_of_the_ops_kind)
{
    needs_fakes();
    static const struct {
        const char *dtype, *a_bytes, *bytes;
        bool bf16, copies;
    } cases[] = {{"bf16", ", \"forward_bytes\": 64", ", \"forward_bytes\": 4000000", true, true},
                 {"f16", "", "", true, false},
                 {"f32", "", "", false, false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[1024];
        int rc;
        snprintf(words, sizeof words,
                 "echo '{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"k\", \"modules\": ["
                 "{\"name\": \"a\", \"forward_ns\": 2000000, \"backward_input_ns\": 2000000, "
                 "\"forward_flops\": 90000000%s}, {\"name\": \"b\", "
                 "\"forward_ns\": 2000000, \"backward_input_ns\": 2000000, \"forward_flops\": 0%s}"
                 "], \"params\": [{\"name\": \"w\", \"numel\": 1000, \"module\": 0, \"dtype\": "
                 "\"%s\"}]}' > k.json; $L exec -w k.json --dp 2 --backend nccl --transport loop "
                 "--steps 2 --warmup 1 --no-db --format json", cases[i].a_bytes, cases[i].bytes,
                 cases[i].dtype);
        char *out = command(words, &rc);
        if (rc != 0)
            fail_msg("%s", out);
        has(out, "\"verified\": true");
        has(out, ", sgemm 128 (");
        assert_true((strstr(out, ", bf16 products of 256 (") != NULL) == cases[i].bf16);
        assert_true((strstr(out, ", copies of 65536 (") != NULL) == cases[i].copies);
    }
}

/* Squares are summed on the device, by processes and by ranks that are streams of one. */
TEST(clipped_plans_end_like_one_rank)
{
    needs_fakes();
    static const char *const plans[] = {
        "--dp 3 --zero 1 --clip 1 --spawn",
        "--dp 2 --pp 2 --micro-batches 2 --clip 0.5 --spawn",
        "--dp 3 --zero 3 --clip 1 --transport loop",
        "--dp 2 --clip 1 --grad-dtype bf16 --transport loop",
    };

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char words[512];
        int rc;
        snprintf(words, sizeof words,
                 "$L model mlp --layers 4 --width 64 -o w.json >/dev/null && $L exec "
                 "-w w.json %s --backend nccl --compute sleep --momentum 0.5 --steps 2 --warmup 1 "
                 "--no-db "
                 "--format json",
                 plans[i]);
        char *out = command(words, &rc);
        if (rc != 0)
            fail_msg("%s: %s", plans[i], out);
        has(out, "\"verified\": true");
    }
}

/* The fake connects a pair of ranks at their first message, and the call blocks until both have
 * come. Submitted step by step these plans wait in a circle: rank 0 connects to rank 1 for a
 * message of one direction while rank 1 is in a gather of the other. */
TEST(pipelines_connect_before_the_first_step)
{
    needs_fakes();
    static const char *const plans[] = {
        "--pp 2 --dp 2 --micro-batches 8 --schedule dualpipe --zero 3",
        "--pp 4 --micro-batches 8 --schedule dualpipe --zero 3",
        "--pp 4 --micro-batches 8 --schedule dualpipev",
        "--pp 2 --dp 2 --micro-batches 4 --schedule 1f1b --zero 1",
        "--pp 2 --dp 2 --micro-batches 4 --schedule interleaved-1f1b --chunks 2 --zero 2",
        "--pp 4 --micro-batches 4 --schedule zb-h1",
        "--pp 4 --micro-batches 8 --schedule zbv",
        "--pp 2 --dp 2 --micro-batches 4 --schedule gpipe --zero 3 --clip 1",
    };

    for (size_t i = 0; i < 2 * (sizeof plans / sizeof *plans); i++) {
        char words[512];
        int rc; /* the environment may ask that collectives connect at their first use */
        if (i / 2 % 2 != i % 2 && unit_cases(1, 0))
            continue;
        snprintf(words, sizeof words, "$L model mlp --layers 16 --width 32 -o w.json >/dev/null && "
                 "NCCL_RUNTIME_CONNECT=%d $L exec -w w.json %s --spawn --backend nccl "
                 "--compute sleep --steps 2 --warmup 1 --no-db --timeout 20 --format json",
                 (int)(i % 2), plans[i / 2]);
        char *out = command(words, &rc);
        if (rc != 0)
            fail_msg("%s: %s", plans[i / 2], out);
        has(out, "\"verified\": true");
    }
}

/* An embedding of 20 rows of 6, of which a micro-batch touches 5, and a dense parameter. */
TEST(sparse_gradients_end_like_one_rank)
{
    needs_fakes();
    static const char *const runs[] = {
        "--dp 2 --transport loop",
        "--dp 3 --transport loop --micro-batches 2 --no-sync 2",
        "--dp 3 --transport loop --zero 1 --shard-policy oss-greedy",
        "--dp 2 --transport loop --momentum 0.5",
        "--dp 4 --transport loop --grad-dtype bf16",
        "--dp 2 --spawn",
        "--dp 3 --spawn --momentum 0.5 --micro-batches 2",
    };

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int half = 0; half < 2; half++) {
            char words[768];
            int rc;
            snprintf(
                words, sizeof words,
                "echo '{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"e\",\"modules\":[{\"name\":"
                "\"e\"}],\"params\":[{\"name\":\"w\",\"numel\":120,\"module\":0,"
                "\"sparse\":true,\"dtype\":\"%s\"},{\"name\":\"v\",\"numel\":30,"
                "\"module\":0,\"dtype\":\"%s\"}],"
                "\"sparse\":[{\"param\":0,\"row_numel\":6,\"touched_rows\":5}]}' > e.json && $L "
                "exec -w e.json %s --backend nccl --compute sleep --steps 3 --no-db --format json",
                half ? "bf16" : "f32", half ? "bf16" : "f32", runs[i]);
            char *out = command(words, &rc);
            if (rc != 0 || !strstr(out, "\"verified\": true"))
                fail_msg("%s: status %d\n%s", runs[i], rc, out);
        }
}

TEST(what_cannot_start_says_how_to)
{
    needs_fakes();
    static const struct {
        const char *words, *expected;
        int status;
    } cases[] = {
        {"--dp 2 --backend nccl", "--spawn, torchrun, mpirun, srun", 1},
#ifndef __SANITIZE_THREAD__ /* whose processes cannot share memory at one address */
        {"--dp 2 --backend threads --spawn --compute sleep", "bit by bit", 0},
#endif
        {"--dp 2 --backend threads --transport loop", "has no loop transport", 1},
        {"--dp 2 --backend nccl --ranks 4 --spawn", "--ranks 4, but --dp 2", 2},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        int rc;
        snprintf(words, sizeof words, "$L model mlp --layers 2 --width 64 -o w.json >/dev/null && "
                 "$L exec -w w.json --no-db %s", cases[i].words);
        char *out = command(words, &rc);
        assert_int_equal(rc, cases[i].status);
        has(out, cases[i].expected);
    }
    int rc;
    has(command("WORLD_SIZE=4 RANK=0 $L exec -w w.json --dp 2 --backend nccl --no-db", &rc),
        "torchrun (RANK, WORLD_SIZE) started 4 processes; the plan has 2 ranks");
    has(command("WORLD_SIZE=2 RANK=5 $L exec -w w.json --dp 2 --backend nccl --no-db", &rc),
        "RANK=5 of WORLD_SIZE=2");
}

TEST(a_spawned_rank_that_is_lost_leaves_a_failed_run_and_no_process)
{
    needs_fakes();
    int rc;
    char *out =
        command("$L model mlp --layers 4 --width 64 -o w.json >/dev/null; FAKE_NCCL_LOSE=1:3 $L "
                "exec -w w.json --dp 3 --backend nccl --spawn --compute sleep --steps 3 "
                "--warmup 0 --db lost.db; echo rc=$?; $L runs --db lost.db",
                &rc);

    has(out, "rank 1 is gone");
    has(out, "first unfinished: op ");
    has(out, "failed");
    assert_null(strstr(out, "rc=0"));
}

/* Two processes as each launcher starts them: all GPUs visible to both, one each, by number or
 * UUID, or an instance of MIG each. R: the rank. */
TEST(launchers_and_visible_devices_are_respected)
{
    needs_fakes();
    static const char *const launchers[] = {
        "RANK=$R WORLD_SIZE=2 LOCAL_RANK=$R LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
        "MASTER_PORT=$P",
        "OMPI_COMM_WORLD_RANK=$R OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$R "
        "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=job$P",
        "PMI_RANK=$R PMI_SIZE=2 MPI_LOCALRANKID=$R PMI_ID=$P",
        "SLURM_PROCID=$R SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$R SLURM_JOB_ID=$P "
        "SLURM_STEP_NUM_NODES=1",
    };
    static const struct {
        const char *devices, *expected;
    } cases[] = {
        {"X=", "bit by bit"},
        {"CUDA_VISIBLE_DEVICES=$R", "bit by bit"},
        {"CUDA_VISIBLE_DEVICES=GPU-$R", "bit by bit"},
        {"CUDA_VISIBLE_DEVICES=MIG-a$R", "bit by bit"},
        {"CUDA_VISIBLE_DEVICES=MIG-a", "Duplicate GPU"},
        {"CUDA_VISIBLE_DEVICES=3", "rank 0 of 2 sees 1 GPU; start at most one process per"},
        {"CUDA_VISIBLE_DEVICES=", "CUDA_ERROR_NO_DEVICE"},
    };
    int port = 20000 + (int)(getpid() * 41 % 12000);

    for (size_t i = 0; i < 4 * (sizeof cases / sizeof *cases); i++) {
        const char *launcher = launchers[i % 4], *devices = cases[i / 4].devices;
        char words[1024];
        int rc;
        if (i > 7 && i % 4 != i / 4 % 4)
            continue; /* the rest with one launcher each */
        snprintf(words, sizeof words,
                 "$L model mlp --layers 4 --width 64 -o w.json >/dev/null; P=%d; for R in 0 1; do "
                 "env %s %s $L exec -w w.json --dp 2 --backend nccl --compute sleep --steps 2 "
                 "--warmup 1 --no-db & done; wait", port + (int)i, launcher, devices);
        char *out = command(words, &rc);
        if (!strstr(out, cases[i / 4].expected))
            fail_msg("%s %s: %s", launcher, devices, out);
    }
}

/* Each rank registers the memory that its collectives use, and gives all of it back: the fake
 * refuses to finalize a communicator otherwise, and counts what lives. */
TEST(buffers_are_registered_with_nccl)
{
    needs_fakes();
    const char *plan = "--dp 2 --zero 2 --backend nccl --compute sleep --steps 2 --warmup 1 "
                       "--no-db";
    char words[1024];
    int rc;

    snprintf(words, sizeof words,
             "$L model mlp --layers 4 --width 64 -o w.json >/dev/null; FAKE_GPU_LOG=$PWD/g "
             "FAKE_NCCL_LOG=$PWD/n $L exec -w w.json %s --spawn --nccl-register --nccl-env "
             "NCCL_ALGO=Ring --nccl-env NCCL_PROTO=LL --format json | grep -E 'verified|settings'; "
             "sort -u g n | grep -E 'live|registers'", plan);
    char *out = command(words, &rc);
    has(out, "\"verified\": true");
    has(out, "NCCL_ALGO=Ring");
    has(out, "NCCL_PROTO=LL");
    has(out, "buffers registered\"");
    has(out, "rank 1 of 2: registers ");
    has(out, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");

    static const char *const refused[][2] = {
        {"--spawn --nccl-register", "NCCL 2.28.9 has no ncclCommRegister"},
        {"--transport loop --nccl-register", "--nccl-register: a loop of backend 'nccl'"},
        {"--backend threads --nccl-register", "--nccl-register: backend 'threads'"},
        {"--backend threads --nccl-env NCCL_ALGO=Ring", "--nccl-env: backend 'threads'"},
        {"--nccl-env ALGO=Ring", "--nccl-env ALGO=Ring: expected NCCL_NAME=VALUE"},
        {"--nccl-env NCCL_ALGO", "--nccl-env NCCL_ALGO: expected NCCL_NAME=VALUE"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(words, sizeof words, "export LD_LIBRARY_PATH=%s$LD_LIBRARY_PATH; "
                 "$L exec -w w.json %s %s", i == 0 ? "$LD_LIBRARY_PATH/old:" : "", plan,
                 refused[i][0]);
        out = command(words, &rc);
        has(out, refused[i][1]);
        assert_true(rc == 1 || rc == 2);
    }
}

/* Reading k is 1000 + 10 k MHz, 300 + k W, throttled when k is even: three readings and more. */
TEST(clocks_and_power_are_stored_with_the_run)
{
    needs_fakes();
    const char *plan = "-w w.json --dp 2 --backend nccl --spawn --compute sleep --steps 40 "
                       "--warmup 1";
    char words[1024];
    int rc;

    snprintf(words, sizeof words,
             "$L model mlp --layers 4 --width 64 -o w.json >/dev/null; $L exec %s --db state.db && "
             "$L exec %s --no-db --format json", plan, plan);
    char *out = command(words, &rc);
    has(out, "device of rank 1: SM clock 1");
    has(out, "(least 1010), memory 2000 MHz");
    has(out, "{\"rank\": 1, \"sm_clock_mean_mhz\": 1");
    has(out, "\"temperature_max_c\": 50.0");
    snprintf(words, sizeof words, "FAKE_NVML=none $L exec %s --no-db --format json", plan);
    has(command(words, &rc), "\"devices\": []");
    assert_null(strstr(command("$L runs --db state.db --format json", &rc), "\"id\": 2"));
}

#ifndef __SANITIZE_THREAD__ /* minutes of products */
static const char here_cluster[] =
    "{\"lapwing\": 1, \"kind\": \"cluster\", \"name\": \"c\", \"calibrated\": true,"
    " \"devices_per_node\": 4, \"device\": {\"kind\": \"gpu\", \"copy_bytes_per_s\":"
    " {\"value\": 1e9, \"source\": \"t\"}}, \"links\": [{\"name\": \"l\", \"level\": \"intra\","
    " \"bytes_per_s\": {\"value\": 1e9, \"source\": \"t\"},"
    " \"latency_ns\": {\"value\": 1000, \"source\": \"t\"},"
    " \"n_links\": {\"value\": 1, \"source\": \"t\"}}]}";

static const char here_workload[] =
    "{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"tiny\", \"modules\": ["
    "{\"name\": \"a\", \"forward_ns\": 1000000, \"backward_input_ns\": 2000000}],"
    " \"params\": [{\"name\": \"w\", \"numel\": 1000, \"module\": 0}], \"optimizer_ns\": 100000}";

/* The same grid on the NCCL backend: a world of one, ranks as streams of one device, one process
 * per rank; --only keeps them short. Predictions are of another machine: what is tested is that
 * every way plans, runs, verifies, stores and prints once. */
TEST(a_gpu_runs_the_same_grid)
{
    needs_fakes();
    static const struct {
        const char *words, *expected[2];
    } cases[] = {
        {"", {"flat\", \"family\": \"here\"", "nccl backend, verified bitwise"}},
        {"--transport loop --ranks 3",
         {"flat\", \"family\": \"here, oversubscribed\"", "ranks share one device"}},
        {"--spawn --ranks 3 --db here.db", {"flat\", \"family\": \"here\"", "\"n\": 1,"}},
    };
    int rc;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[2048];
        snprintf(words, sizeof words,
                 "echo '%s' > c.json; echo '%s' > tiny.json; $L validate --here --backend nccl %s "
                 "-c c.json tiny.json --steps 1 --only 'zero 1, flat' --format json",
                 here_cluster, here_workload, cases[i].words);
        char *out = command(words, &rc);
        if (rc != 0 && rc != 3)
            fail_msg("%s: exit %d: %s", cases[i].words, rc, out);
        for (int k = 0; k < 2; k++)
            has(out, cases[i].expected[k]);
    }
    char *out = command("$L runs --db here.db --format json", &rc);
    has(out, "\"id\": 2");
    assert_null(strstr(out, "\"id\": 3"));
    has(command("$L validate --here --backend nccl --spawn --ranks 2 -c dgx-a100 tiny.json", &rc),
        "'dgx-a100' is not calibrated");
    assert_int_equal(rc, 1);
}
#endif

static int remove_folder(void **state)
{
    char line[128];

    (void)state;
    snprintf(line, sizeof line, "rm -rf /tmp/lapwing-test-nccl.%d", (int)getpid());
    return system(line) == 0 ? 0 : -1;
}

static int as_rank(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--rank") == 0)
        return be_rank() == LW_OK ? 0 : 1;
    return -1;
}

TEST_GROUP(NULL, remove_folder)
TEST_MAIN(as_rank)
