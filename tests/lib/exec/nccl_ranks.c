/* Ranks as processes: what a rank does with its environment, and the parent that starts them. */
#include "tests/lib/exec/nccl_ranks.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "exec/launch/rendezvous.h"
#include "shared/base/arena.h"
#include "tests/lib/exec/exec_ops.h"
#include "tests/lib/exec/exec_plan.h"
#include "tests/lib/plans/swapped_plan.h"
#include "tests/lib/sim/timeline_check.h"

enum { PATIENCE_S = 60 };
enum { RACE = 66 }; /* exit status of the thread sanitizer */

/* --- a rank --- */

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

struct lw_exec_options nccl_options(const struct exec_process *process)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = (enum exec_compute)setting("T_COMPUTE", EXEC_COMPUTE_SLEEP);
    o.n_steps = 3;
    o.n_warmup = 1;
    o.optimizer =
        exec_optimizer_of((enum exec_optimizer_kind)setting("T_OPTIMIZER", EXEC_MOMENTUM));
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
    struct lw_exec_options o = nccl_options(process);
    struct lw_exec_result r = {0};
    struct lw_plan plan = {0};
    struct lw_err err = {0};

    o.backend = b;
    enum lw_status s =
        setting("T_SWAP", 0) ? swapped_plan(&plan, &err) : exec_test_plan_build(&t, &plan, &err);
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
    enum lw_status s = exec_ops_run(b, process, n_ranks, true, &r.n_checked_bytes, &err);

    if (s == LW_OK && !process)
        s = exec_ops_product(b, &err);
    say(s, &err, &r);
    return s;
}

/* Rank 1 does not run its first op (FAKE_NCCL_HANG), so rank 0 has a kernel of one communicator
 * that does not end. Then rank 0 sends on another communicator, where rank 1 does not come to
 * connect: the call does not return. */
static enum lw_status block(const struct exec_backend *b, struct exec_world *w, struct lw_err *err)
{
    int32_t both[] = {0, 1};
    struct exec_facts f;
    struct exec_comm *comms[2];
    struct exec_stream *streams[2];
    struct exec_stamp stamp = {0};
    struct exec_transfer x = {LW_OP_ALL_REDUCE, {.count = 1, .dtype = LW_F32, .peer = 1}, &stamp};

    b->facts(w, &f);
    LW_TRY(b->mem_alloc(w, f.first_local, 64, &x.message.mem, err));
    for (int i = 0; i < 2; i++) {
        LW_TRY(b->comm_create(w, both, 2, &comms[i], err));
        LW_TRY(b->stream_create(w, f.first_local, "s", 0, &streams[i], err));
    }
    LW_TRY(b->communicate(streams[0], comms[0], &x, 1, err));
    x.op = LW_OP_SEND;
    if (f.first_local == 0)
        return b->communicate(streams[1], comms[1], &x, 1, err);
    if (b->poll(w, b->now_ns(w) + INT64_C(30000000000), err) != EXEC_FAILED)
        return lw_fail(err, LW_ENO, "rank 0 was not heard of");
    return err->code;
}

static enum lw_status run_blocked(const struct exec_backend *b, const struct exec_process *process)
{
    struct exec_open how = {.n_ranks = 2, .compute = EXEC_COMPUTE_SLEEP, .process = process,
                            .timeout_ns = setting("T_TIMEOUT_MS", 2000) * 1000000};
    struct lw_exec_result none = {0};
    struct exec_world *w;
    struct lw_err err = {0};
    enum lw_status s = b->open(&how, &w, &err);

    if (s == LW_OK) {
        s = block(b, w, &err);
        b->close(w);
    }
    say(s, &err, &none);
    return s;
}

/* The n-th allocation fails, n = 1, 2, ... and later every 7th (every 29th without LAPWING_MANY),
 * until the whole succeeds: each time LW_ENOMEM and no block kept. */
static enum lw_status starve(const struct exec_backend *b)
{
    struct lw_exec_result r = {0};
    struct lw_err err = {0};
    enum lw_status s = LW_ENOMEM;
    int64_t kept = lw_alloc_live(), before = 0;
    const int each = unit_cases(12, 60), then = unit_cases(29, 7);

    for (int64_t n = 1; s == LW_ENOMEM && lw_alloc_live() == kept; n += n < each ? 1 : then) {
        lw_alloc_fail_at(n);
        s = exec_ops_run(b, NULL, 2, false, &r.n_checked_bytes, &err);
        lw_alloc_fail_at(0);
        before += s == LW_ENOMEM;
    }
    if (s == LW_OK && before < each)
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
    s = setting("T_BLOCK", 0) ? run_blocked(b, &process)
        : setting("T_OPS", 0) ? run_ops(b, several ? &process : NULL, id.n_ranks)
                              : run_plan(b, several ? &process : NULL, id.n_ranks);
    exec_rendezvous_close(r);
    return s;
}

/* --- the parent --- */

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

/* The ranks meet at a port that they derive from it. */
static int64_t a_token(void)
{
    static int64_t next;
    return getpid() * INT64_C(1000) + next++;
}

static void become(const struct nccl_job *j, int32_t rank, int64_t token)
{
    char plugins[PATH_MAX];

    if (!realpath(getenv("LAPWING"), plugins))
        _exit(98);
    *strrchr(plugins, '/') = '\0';
    setenv("LAPWING_PLUGINS", plugins, 1);
    setenv("LD_LIBRARY_PATH", getenv("LAPWING_FAKE_GPU"), 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
    if (!j->alone) {
        set_int("LAPWING_RANK", rank);
        set_int("LAPWING_RANKS", j->n);
        set_int("LAPWING_LOCAL_RANK", rank);
        set_int("LAPWING_TOKEN", token);
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

void nccl_start(struct nccl_job *j)
{
    int64_t token = a_token();

    for (int32_t r = 0; r < j->n; r++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        j->pid[r] = fork();
        assert_true(j->pid[r] >= 0);
        if (j->pid[r] == 0) {
            dup2(pipes[1], STDOUT_FILENO);
            close(pipes[0]);
            close(pipes[1]);
            become(j, r, token);
        }
        close(pipes[1]);
        j->out[r] = pipes[0];
    }
}

static void collect(struct nccl_job *j)
{
    for (int32_t r = 0; r < j->n; r++) {
        ssize_t n = 0, got;
        while (n < NCCL_LINE - 1 &&
               (got = read(j->out[r], j->line[r] + n, (size_t)(NCCL_LINE - 1 - n))) > 0)
            n += got;
        j->line[r][n] = '\0';
        close(j->out[r]);
        j->code[r] = 999;
        sscanf(j->line[r], "code=%d", &j->code[r]);
    }
}

void nccl_run(struct nccl_job *j)
{
    double began = now_s();
    int32_t alive = j->n, races = 0, killed = 0;
    bool gone[NCCL_MAX_RANKS] = {false};

    if (!j->pid[0])
        nccl_start(j);
    while (alive > 0) {
        bool late = now_s() - began > PATIENCE_S;
        for (int32_t r = 0; r < j->n; r++) {
            int status;
            if (gone[r])
                continue;
            if (waitpid(j->pid[r], &status, WNOHANG) == j->pid[r]) {
                gone[r] = true;
                alive--;
                races += WIFEXITED(status) && WEXITSTATUS(status) == RACE;
            } else if (late) {
                killed++;
                kill(j->pid[r], SIGKILL);
            }
        }
        poll(NULL, 0, 5);
    }
    collect(j);
    assert_int_equal(killed, 0);
    assert_int_equal(races, 0);
}

char *nccl_log_path(char path[64])
{
    snprintf(path, 64, "/tmp/lapwing-test-nccl-%d.log", (int)getpid());
    unlink(path);
    return path;
}

char *nccl_read_log(const char *path)
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

int nccl_rank(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--rank") == 0)
        return be_rank() == LW_OK ? 0 : 1;
    return -1;
}
