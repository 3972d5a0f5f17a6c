/* The loads of `lapwing bench` (docs/design/bench.md). Each sets up, then measures the one thing
 * that it is about: wall_s is of that alone, the peak of memory is of the whole process. */
#include "analysis/bench/bench_loads.h"
#include "analysis/bench/bench_tune.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/store/store.h"
#include "shared/base/clock.h"
#include "shared/base/temp_names.h"
#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "sim/bench/bench_plan.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/queue.h"
#include "sim/predict/sim.h"
#include "traces/models/models.h"

static int64_t peak_rss(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : -1;
}

/* ranks = events pending; an event = one pop and one push. */
static enum lw_status run_queue(const struct bench_choice *c, struct bench_result *r,
                                struct lw_err *err)
{
    double began = lw_now_s(), filled;

    r->n_events = 4000000 + r->ranks;
    (void)c;
    if (sim_queue_hold(r->ranks, 0, 1 << 30, 1) < 0)
        return lw_fail_nomem(err);
    filled = lw_now_s() - began;
    began = lw_now_s();
    if (sim_queue_hold(r->ranks, r->n_events, 1 << 30, 1) < 0)
        return lw_fail_nomem(err);
    r->wall_s = lw_now_s() - began - filled;
    return LW_OK;
}

/* --- the simulator --- */

static enum lw_status simulate(const struct bench_choice *c, const struct lw_plan *plan,
                               const struct lw_cluster *cluster, int32_t n_steps,
                               struct bench_result *r, struct lw_err *err)
{
    struct lw_sim_options o = {.n_steps = n_steps, .seed = (uint64_t)c->seed, .no_fold = c->no_fold,
                               .start_skew_ps = lw_ns_to_ps(c->start_skew_ns)};
    struct lw_sim_stats s;

    if (strcmp(r->method, "collective") != 0) {
        o.detail = LW_SIM_CHUNK;
        o.ring = strcmp(r->method, "events") == 0 ? LW_SIM_RING_EVENTS : LW_SIM_RING_RECURRENCE;
    }
    o.jitter_ps = lw_ns_to_ps(c->jitter_ns);
    double began = lw_now_s();
    LW_TRY(lw_sim_run(plan, cluster, &o, NULL, &s, err));
    r->wall_s = lw_now_s() - began;
    r->n_simulated = s.n_simulated;
    r->simulated_ps = s.end;
    r->n_events = s.n_events;
    r->n_messages = s.n_messages;
    return LW_OK;
}

static enum lw_status run_known(enum sim_bench which, const struct bench_choice *c, int32_t n_steps,
                                struct bench_result *r, struct lw_err *err)
{
    struct lw_plan plan = {0};
    struct lw_cluster cluster = {0};

    enum lw_status status = sim_bench_plan(which, (int32_t)r->ranks, &plan, err);
    if (status == LW_OK)
        status = sim_bench_cluster((int32_t)r->ranks, &cluster, err);
    if (status == LW_OK)
        status = simulate(c, &plan, &cluster, n_steps, r, err);
    lw_plan_free(&plan);
    lw_cluster_free(&cluster);
    return status;
}

static enum lw_status run_w_ar(const struct bench_choice *c, struct bench_result *r,
                               struct lw_err *err)
{
    return run_known(SIM_BENCH_W_AR, c, 1, r, err);
}

static enum lw_status run_w_ddp(const struct bench_choice *c, struct bench_result *r,
                                struct lw_err *err)
{
    return run_known(SIM_BENCH_W_DDP, c, 1, r, err);
}

enum { N_STEPS = 8 }; /* what is measured is the engine, not reading the programs */

static enum lw_status run_streams(const struct bench_choice *c, struct bench_result *r,
                                  struct lw_err *err)
{
    return run_known(SIM_BENCH_STREAMS, c, N_STEPS, r, err);
}

enum { TP = 8, PP = 16 };

/* draft: as a search makes the plan, without its proof and its hash. */
static enum lw_status plan_gpt_by(const struct lw_strategy *s, const struct lw_cluster *cluster,
                                  bool draft, struct lw_plan *plan, struct lw_err *err)
{
    struct traces_model_shape shape = {0};
    struct lw_cost cost = lw_sim_cost(cluster);
    struct lw_workload w = {0};

    LW_TRY(traces_model_build("gpt-175b", &shape, &cluster->device, &w, err));
    enum lw_status status = (draft ? lw_plan_draft : lw_plan_build)(&w, s, &cost, plan, err);
    lw_workload_free(&w);
    return status;
}

/* GPT-3 of 175 G parameters on tp 8, pp stages and as many data ranks as there are. */
static enum lw_status plan_gpt(int64_t ranks, int64_t pp, int64_t micro_batches,
                               const struct lw_cluster *cluster, struct lw_plan *plan,
                               struct lw_err *err)
{
    struct lw_strategy s = lw_strategy_default();

    s.tp = TP;
    s.pp = pp;
    s.dp = ranks / (TP * pp);
    s.micro_batches = micro_batches;
    s.schedule = LW_SCHEDULE_1F1B;
    s.zero = 1;
    if (ranks % (TP * pp) != 0)
        return lw_fail(err, LW_EINVAL, "it has %d tensor and %lld pipeline ranks: found --ranks "
                                       "%lld, allowed: a multiple of %lld", TP, (long long)pp,
                       (long long)ranks, (long long)(TP * pp));
    return plan_gpt_by(&s, cluster, false, plan, err);
}

static enum lw_status plan_3d(int64_t ranks, const struct lw_cluster *cluster, struct lw_plan *plan,
                              struct lw_err *err)
{
    return plan_gpt(ranks, PP, 64, cluster, plan, err);
}

/* The same on half of the stages: ranks differ in their number of data ranks alone. */
static enum lw_status run_data_ranks(const struct bench_choice *c, struct bench_result *r,
                                     struct lw_err *err)
{
    struct lw_plan plan = {0};
    struct lw_cluster cluster = {0};

    LW_TRY(lw_cluster_find("dgx-h100", &cluster, err));
    enum lw_status status = plan_gpt(r->ranks, PP / 2, 32, &cluster, &plan, err);
    if (status == LW_OK)
        status = simulate(c, &plan, &cluster, 1, r, err);
    lw_plan_free(&plan);
    lw_cluster_free(&cluster);
    return status;
}

/* The i-th of 144 strategies: tp 1 to 8, pp 1 to 32 with two micro-batches a stage, ZeRO 0 and 1,
 * and each recomputation. */
static struct lw_strategy nth_strategy(int i, int64_t ranks)
{
    struct lw_strategy s = lw_strategy_default();

    s.tp = INT64_C(1) << i % 4;
    s.pp = INT64_C(1) << i / 4 % 6;
    s.dp = ranks / (s.tp * s.pp);
    s.micro_batches = 2 * s.pp;
    s.schedule = LW_SCHEDULE_1F1B;
    s.zero = i / 24 % 2;
    s.recompute = (enum lw_recompute)(i / 48);
    return s;
}

/* Model, plan and one step of each; events = strategies. */
static enum lw_status try_strategies(const struct bench_choice *c, bool draft,
                                     struct bench_result *r, struct lw_err *err)
{
    enum { N_STRATEGIES = 100 };
    struct lw_cluster cluster = {0};
    struct bench_result one = *r;
    enum lw_status status = LW_OK;

    if (r->ranks % 256 != 0)
        return lw_fail(err, LW_EINVAL, "strategies have up to 256 tensor and pipeline ranks: found "
                                       "--ranks %lld, allowed: a multiple of 256",
                       (long long)r->ranks);
    LW_TRY(lw_cluster_find("dgx-h100", &cluster, err));
    double began = lw_now_s();
    for (int i = 0; i < N_STRATEGIES && status == LW_OK; i++) {
        struct lw_strategy s = nth_strategy(i, r->ranks);
        struct lw_plan plan = {0};
        status = plan_gpt_by(&s, &cluster, draft, &plan, err);
        if (status == LW_OK)
            status = simulate(c, &plan, &cluster, 1, &one, err);
        lw_plan_free(&plan);
        r->simulated_ps += one.simulated_ps;
        r->n_events++;
    }
    r->wall_s = lw_now_s() - began;
    lw_cluster_free(&cluster);
    return status;
}

/* Planned as a search does, without the timeline and the memory that it takes of each. */
static enum lw_status run_strategies(const struct bench_choice *c, struct bench_result *r,
                                     struct lw_err *err)
{
    return try_strategies(c, true, r, err);
}

/* As a prediction of each by itself does: plans are proven and hashed. */
static enum lw_status run_proofs(const struct bench_choice *c, struct bench_result *r,
                                 struct lw_err *err)
{
    return try_strategies(c, false, r, err);
}

/* A layer a stage. */
static enum lw_status run_mlp_pipeline(const struct bench_choice *c, int64_t micro_batches,
                                       struct bench_result *r, struct lw_err *err)
{
    struct traces_model_shape shape = {.layers = r->ranks, .width = 64};
    struct lw_strategy s = lw_strategy_default();
    struct lw_workload w = {0};
    struct lw_plan plan = {0};
    struct lw_cluster cluster = {0};

    s.pp = r->ranks;
    s.micro_batches = micro_batches;
    LW_TRY(lw_cluster_find("dgx-h100", &cluster, err));
    enum lw_status status = traces_model_build("mlp", &shape, &cluster.device, &w, err);
    if (status == LW_OK)
        status = lw_plan_build(&w, &s, NULL, &plan, err);
    if (status == LW_OK)
        status = simulate(c, &plan, &cluster, 1, r, err);
    lw_workload_free(&w);
    lw_plan_free(&plan);
    lw_cluster_free(&cluster);
    return status;
}

static enum lw_status run_long_pipeline(const struct bench_choice *c, struct bench_result *r,
                                        struct lw_err *err)
{
    return run_mlp_pipeline(c, 1024, r, err);
}

static enum lw_status run_micro_batches(const struct bench_choice *c, struct bench_result *r,
                                        struct lw_err *err)
{
    return run_mlp_pipeline(c, 100000, r, err);
}

static enum lw_status run_3d(const struct bench_choice *c, struct bench_result *r,
                             struct lw_err *err)
{
    struct lw_plan plan = {0};
    struct lw_cluster cluster = {0};

    LW_TRY(lw_cluster_find("dgx-h100", &cluster, err));
    enum lw_status status = plan_3d(r->ranks, &cluster, &plan, err);
    if (status == LW_OK)
        status = simulate(c, &plan, &cluster, 1, r, err);
    lw_plan_free(&plan);
    lw_cluster_free(&cluster);
    return status;
}

/* --- planning --- */

/* Build, check and hash a data-parallel plan in memory; events = its ops. */
static enum lw_status run_planning(const struct bench_choice *c, struct bench_result *r,
                                   struct lw_err *err)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_workload w = {0};
    struct lw_plan plan = {0};

    s.dp = r->ranks;
    LW_TRY(sim_bench_workload((int32_t)c->params, BENCH_PARAMS_PER_MODULE, &w, err));
    double began = lw_now_s();
    enum lw_status status = lw_plan_build_freeing(&w, &s, NULL, &plan, err);
    r->wall_s = lw_now_s() - began;
    r->n_events = plan.n_ops;
    lw_plan_free(&plan);
    return status;
}

/* A plan of n parameters, `each` of them in a module; events = its ops. */
static enum lw_status plan_many(struct bench_result *r, const struct lw_strategy *s, int32_t n,
                                int32_t each, struct lw_err *err)
{
    struct lw_workload w = {0};
    struct lw_cluster cluster = {0};
    struct lw_plan plan = {0};

    LW_TRY(lw_cluster_find("dgx-h100", &cluster, err));
    struct lw_cost cost = lw_sim_cost(&cluster);
    enum lw_status status = sim_bench_workload(n, each, &w, err);
    double began = lw_now_s();
    if (status == LW_OK)
        status = lw_plan_build_freeing(&w, s, &cost, &plan, err);
    r->wall_s = lw_now_s() - began;
    r->n_events = plan.n_ops;
    lw_plan_free(&plan);
    lw_workload_free(&w);
    lw_cluster_free(&cluster);
    return status;
}

/* 100,000 modules of one parameter in equal shares. */
static enum lw_status run_units(const struct bench_choice *c, struct bench_result *r,
                                struct lw_err *err)
{
    struct lw_strategy s = lw_strategy_default();

    (void)c;
    s.dp = r->ranks;
    s.zero = 3;
    return plan_many(r, &s, 100000, 1, err);
}

/* Buckets of 30,000 parameters chosen by time. */
static enum lw_status run_optimal(const struct bench_choice *c, struct bench_result *r,
                                  struct lw_err *err)
{
    struct lw_strategy s = lw_strategy_default();

    (void)c;
    s.dp = r->ranks;
    s.bucket_policy = LW_BUCKET_OPTIMAL;
    return plan_many(r, &s, 30000, BENCH_PARAMS_PER_MODULE, err);
}

/* The plan of 3d, its workload made as well; events = its ops. */
static enum lw_status run_planning_3d(const struct bench_choice *c, struct bench_result *r,
                                      struct lw_err *err)
{
    struct lw_plan plan = {0};
    struct lw_cluster cluster = {0};

    (void)c;
    LW_TRY(lw_cluster_find("dgx-h100", &cluster, err));
    double began = lw_now_s();
    enum lw_status status = plan_3d(r->ranks, &cluster, &plan, err);
    r->wall_s = lw_now_s() - began;
    r->n_events = plan.n_ops;
    lw_plan_free(&plan);
    lw_cluster_free(&cluster);
    return status;
}

/* --- the store --- */

static enum lw_status store_rows(const char *file, const struct lw_plan *plan,
                                 const struct lw_timeline *t, double *wall_s, struct lw_err *err)
{
    struct lw_run_info info = {.kind = LW_RUN_SIM, .plan = plan, .command = "bench"};
    struct lw_store *db;
    int64_t run;

    LW_TRY(lw_store_open(file, LW_STORE_WRITE, &db, err));
    enum lw_status status = lw_store_begin_run(db, &info, &run, err);
    double began = lw_now_s();
    if (status == LW_OK)
        status = lw_store_spans(db, run, t, err);
    *wall_s = lw_now_s() - began;
    lw_store_close(db);
    return status;
}

/* In a folder of its own below $TMPDIR, which goes again. */
static enum lw_status store_apart(const struct lw_plan *plan, const struct lw_timeline *t,
                                  double *wall_s, struct lw_err *err)
{
    const char *tmp = getenv("TMPDIR");
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char folder[512], files[4][544];

    snprintf(folder, sizeof folder, "%s/lapwing-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return lw_fail(err, LW_EIO, "%s: %s", folder, strerror(errno));
    lw_temp_note(folder);
    for (int i = 0; i < 4; i++) {
        snprintf(files[i], sizeof files[i], "%s/bench.db%s", folder, ends[i]);
        lw_temp_note(files[i]);
    }
    enum lw_status status = store_rows(files[0], plan, t, wall_s, err);
    for (int i = 0; i < 4; i++) {
        unlink(files[i]);
        lw_temp_forget(files[i]);
    }
    rmdir(folder);
    lw_temp_forget(folder);
    return status;
}

/* Spans of w-ddp, all ranks; events = rows. */
static enum lw_status run_store(const struct bench_choice *c, struct bench_result *r,
                                struct lw_err *err)
{
    struct lw_sim_options o = {.n_steps = 8};
    struct lw_plan plan = {0};
    struct lw_cluster cluster = {0};
    struct lw_timeline t = {0};
    struct lw_sim_stats s = {0};

    (void)c;
    enum lw_status status = sim_bench_plan(SIM_BENCH_W_DDP, (int32_t)r->ranks, &plan, err);
    if (status == LW_OK)
        status = sim_bench_cluster((int32_t)r->ranks, &cluster, err);
    if (status == LW_OK)
        status = lw_sim_run(&plan, &cluster, &o, &t, &s, err);
    if (status == LW_OK)
        status = store_apart(&plan, &t, &r->wall_s, err);
    r->n_events = t.n;
    lw_timeline_free(&t);
    lw_plan_free(&plan);
    lw_cluster_free(&cluster);
    return status;
}

/* Queries of NCCL's cost model: all-reduces over sizes on one shape; events = calls. The sum of
 * the times is the simulated time. */
static enum lw_status run_cost(const struct bench_choice *c, struct bench_result *r,
                               struct lw_err *err)
{
    enum { N_CALLS = 2000000, N_SIZES = 20 };
    struct lw_cluster cluster = {0};

    (void)c;
    LW_TRY(lw_cluster_find("dgx-h100", &cluster, err));
    struct lw_cost cost = lw_sim_cost(&cluster);
    struct lw_cost_query q = {
        .op = LW_OP_ALL_REDUCE, .dtype = LW_F32, .n_ranks = (int32_t)r->ranks};
    q.n_nodes = (q.n_ranks + cost.ranks_per_node - 1) / cost.ranks_per_node;
    double start = lw_now_s();
    for (int i = 0; i < N_CALLS; i++) {
        q.bytes = INT64_C(1024) << i % N_SIZES;
        lw_ps t = cost.time(cost.ctx, &q);
        if (t < 0)
            break;
        r->simulated_ps += t;
        r->n_events++;
    }
    r->wall_s = lw_now_s() - start;
    r->n_simulated = r->ranks;
    lw_cluster_free(&cluster);
    return LW_OK;
}

/* --- one of them --- */

static const struct load {
    const char *name, *method;
    int64_t ranks;
    bool rings; /* has methods */
    enum lw_status (*run)(const struct bench_choice *c, struct bench_result *r,
                          struct lw_err *err);
} loads[] = {
    {"w-ar", "recurrence", 4096, true, run_w_ar},
    {"w-ddp", "recurrence", 4096, true, run_w_ddp},
    {"3d", "collective", 16384, true, run_3d},
    {"data-ranks", "collective", 4096, true, run_data_ranks},
    {"pipeline", "collective", 512, true, run_long_pipeline},
    {"micro-batches", "collective", 8, true, run_micro_batches},
    {"strategies", "collective", 4096, true, run_strategies},
    {"proofs", "collective", 4096, true, run_proofs},
    {"streams", "collective", 512, true, run_streams},
    {"queue", "hold", 4096, false, run_queue},
    {"cost", "nccl", 128, false, run_cost},
    {"plan", "c10d-2", 4096, false, run_planning},
    {"plan-3d", "build+check", 16384, false, run_planning_3d},
    {"units", "zero 3", 64, false, run_units},
    {"optimal", "optimal", 64, false, run_optimal},
    {"store", "spans", 4096, false, run_store},
    {"tune", "bounds", 16, false, bench_tune},
};

static const struct load *find(const char *name)
{
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        if (strcmp(name, loads[i].name) == 0)
            return &loads[i];
    return NULL;
}

bool bench_knows(const char *name)
{
    return find(name) != NULL;
}

bool bench_simulates(const char *name)
{
    return find(name) && find(name)->rings;
}

enum lw_status bench_run(const struct bench_choice *c, struct bench_result *r, struct lw_err *err)
{
    const struct load *l = find(c->name);

    if (!l)
        return lw_fail(err, LW_EINVAL, "unknown benchmark '%s'", c->name);
    struct bench_result x = {.name = l->name, .ranks = c->ranks > 0 ? c->ranks : l->ranks,
                             .method = l->rings && c->method ? c->method : l->method,
                             .limit_s = -1, .limit_bytes = -1};
    double began = lw_now_s();
    LW_TRY(l->run(c, &x, err));
    x.whole_s = lw_now_s() - began;
    x.peak_rss_bytes = peak_rss();
    *r = x;
    return LW_OK;
}

/* What a child says: its strings are constants, at the same place in parent and child. */
struct answer {
    enum lw_status status;
    struct bench_result result;
    struct lw_err err;
};

static void answer(const struct bench_choice *c, int fd)
{
    struct answer a = {0};

    a.status = bench_run(c, &a.result, &a.err);
    _exit(write(fd, &a, sizeof a) == (ssize_t)sizeof a ? 0 : 1);
}

enum lw_status bench_run_apart(const struct bench_choice *c, struct bench_result *r,
                               struct lw_err *err)
{
    struct answer a;
    int fd[2];

    if (pipe(fd) != 0)
        return lw_fail(err, LW_EIO, "bench: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0)
        answer(c, fd[1]);
    close(fd[1]);
    ssize_t n = child > 0 ? read(fd[0], &a, sizeof a) : -1;
    close(fd[0]);
    if (child > 0 && n != (ssize_t)sizeof a)
        kill(child, SIGKILL); /* a signal ended the read: the child may still measure */
    if (child > 0)
        waitpid(child, NULL, 0);
    if (n != (ssize_t)sizeof a)
        return lw_fail(err, LW_EIO, "bench: the process that ran '%s' ended early", c->name);
    if (a.status != LW_OK) {
        *err = a.err;
        return a.status;
    }
    *r = a.result;
    return LW_OK;
}
