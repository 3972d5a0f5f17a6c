/* Measuring this machine. Everything is measured by exec itself, on small plans in the placement in
 * which plans run: a compute and a communication thread of a rank share a core, all ranks work at
 * once, a bucket has just been written when it is reduced. So what the simulator is told is what
 * exec will meet.
 *
 * The machine may be busy: the whole series is repeated, the series of one repetition are
 * interleaved, and a figure is the median over all of them; its source says the interquartile range
 * as a share of the median. Ratios (slowdown under overlap) are taken within one step: the same
 * kernel runs beside communication and then alone. */
#include "exec/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/calibrate_plan.h"
#include "exec/run.h"
#include "exec/spin.h"
#include "exec/team.h"
#include "shared/arena.h"
#include "shared/timeline.h"

enum { N_SIZES_MAX = 24, N_WARMUP = 2, N_KERNELS = 200, N_BESIDE = 5, N_COPIES = 12 };
enum { SMALL_BYTES = 4 << 20, BUCKET_BYTES = 64 << 20, LARGE_STEPS = 2 };

enum kind { REDUCE_ALL, CAST_OUT, GATHER, SCATTER, REDUCE_ONE, ALL_TO_ALL, PAIRS, N_KINDS };

static const struct {
    enum lw_op_kind op;
    uint32_t needs;
} kinds[N_KINDS] = {
    {LW_OP_ALL_REDUCE, EXEC_CAN_ALL_REDUCE}, {LW_OP_BROADCAST, EXEC_CAN_BROADCAST},
    {LW_OP_ALL_GATHER, EXEC_CAN_ALL_GATHER}, {LW_OP_REDUCE_SCATTER, EXEC_CAN_REDUCE_SCATTER},
    {LW_OP_REDUCE, EXEC_CAN_REDUCE},         {LW_OP_ALL_TO_ALL, EXEC_CAN_ALL_TO_ALL},
    {LW_OP_ALL_REDUCE, EXEC_CAN_ALL_REDUCE}, /* two at once */
};

struct samples {
    double *v;
    int64_t n, capacity;
};

struct bench {
    const struct lw_calibrate_options *o;
    struct lw_cluster *out;
    struct exec_rendezvous *team;     /* of processes: what rank 0 decides, all do */
    int32_t n_sizes, n_small, n_bucket; /* n_small of them in one plan; n_bucket with real buckets */
    int64_t bytes[N_SIZES_MAX];
    struct samples time[N_KINDS][N_SIZES_MAX]; /* ps */
    struct samples copy_rate, launch, kernel;  /* bytes/s; ps; share of the time asked for */
    struct samples compute_rate, comm_rate;    /* under each other */
    struct samples disturbance;                /* length of the kernels of each compute_rate, ps */
    struct samples unit_alone, unit_all;       /* ns per GEMM */
    char name[192], device[96], library[64];
    double unit_flops, memory_bytes;
    bool comm_on_compute_core;
    int32_t n_done, n_parts;          /* of the whole, for progress */
};

struct lw_calibrate_options lw_calibrate_options_default(void)
{
    return (struct lw_calibrate_options){.backend = &exec_backend_threads, .n_ranks = 2,
                                         .n_rounds = 3, .n_steps = 8, .max_bytes = 256 << 20,
                                         .budget_ns = INT64_C(55000000000)};
}

/* --- samples ------------------------------------------------------------------------------------ */

static enum lw_status put(struct samples *s, double v, struct lw_err *err)
{
    if (lw_reserve(&s->v, &s->capacity, s->n + 1, sizeof *s->v))
        return lw_fail_nomem(err);
    s->v[s->n++] = v;
    return LW_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(struct samples *s, int64_t numerator, int64_t denominator)
{
    if (s->n == 0)
        return 0;
    qsort(s->v, (size_t)s->n, sizeof *s->v, compare);
    return s->v[(s->n - 1) * numerator / denominator];
}

static double median(struct samples *s)
{
    return quantile(s, 1, 2);
}

static double spread(struct samples *s)
{
    return quantile(s, 3, 4) - quantile(s, 1, 4);
}

/* --- running one plan --------------------------------------------------------------------------- */

static enum lw_status run_plan(struct bench *b, struct lw_plan *plan, int32_t n_steps,
                               enum exec_compute compute, struct lw_exec_result *r,
                               struct lw_err *err)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct exec_rendezvous *team = NULL;

    o.backend = b->o->backend;
    o.loop = b->o->loop;
    o.verify = false;
    o.compute = compute;
    o.n_steps = n_steps;
    o.n_warmup = N_WARMUP;
    lw_progress_report(b->o->progress, "calibrating", (double)b->n_done++ / b->n_parts);
    if (!b->o->id)
        return lw_exec_run(plan, &o, r, err);
    enum lw_status s = lw_exec_team_run(plan, &o, b->o->id, &team, r, err);
    exec_rendezvous_close(team);
    return s;
}

static const struct lw_op *measured_op(const struct lw_plan *p, const struct lw_timeline *t,
                                       int64_t row)
{
    return t->step[row] < N_WARMUP ? NULL : &p->ops[t->op[row]];
}

static lw_ps length(const struct lw_timeline *t, int64_t row)
{
    lw_ps from = t->all_in[row] >= 0 ? t->all_in[row] : t->start[row];
    return t->end[row] - from;
}

/* --- the series --------------------------------------------------------------------------------- */

static enum lw_status keep_times(struct bench *b, const struct lw_plan *p,
                                 const struct lw_timeline *t, enum kind kind, int32_t first_size,
                                 struct lw_err *err)
{
    for (int64_t row = 0; row < t->n; row++) {
        const struct lw_op *op = measured_op(p, t, row);
        if (op && op->kind == kinds[kind].op)
            LW_TRY(put(&b->time[kind][first_size + op->module], (double)length(t, row), err));
    }
    return LW_OK;
}

static void note_facts(struct bench *b, const struct lw_exec_result *r)
{
    snprintf(b->name, sizeof b->name, "%s", r->compute);
    snprintf(b->device, sizeof b->device, "%s", r->device);
    b->unit_flops = r->unit_flops;
    b->memory_bytes = r->memory_bytes;
    b->comm_on_compute_core = r->comm_on_compute_core;
}

static enum lw_status alone(struct bench *b, int32_t first, int32_t n, struct lw_err *err)
{
    struct lw_plan plan;
    struct lw_exec_result r = {0};

    LW_TRY(exec_plan_alone(b->o->n_ranks, b->bytes + first, n, LW_PS_PER_MS / 5, &plan, err));
    enum lw_status s = run_plan(b, &plan, b->o->n_steps, EXEC_COMPUTE_GEMM, &r, err);
    if (s == LW_OK)
        s = keep_times(b, &plan, &r.timeline, REDUCE_ALL, first, err);
    if (s == LW_OK)
        s = put(&b->unit_all, r.unit_ns, err);
    note_facts(b, &r);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

static bool can(const struct bench *b, enum kind kind)
{
    return (b->o->backend->capabilities & kinds[kind].needs) != 0;
}

static enum lw_status collectives(struct bench *b, enum kind kind, int32_t first, int32_t n,
                                  int32_t n_steps, struct lw_err *err)
{
    struct lw_plan plan;
    struct lw_exec_result r = {0};

    LW_TRY(kind == PAIRS
               ? exec_plan_pairs(b->o->n_ranks, b->bytes + first, n, LW_PS_PER_MS / 5, &plan, err)
               : exec_plan_collectives(b->o->n_ranks, kinds[kind].op, b->bytes + first, n,
                                       LW_PS_PER_MS / 5, &plan, err));
    enum exec_compute gaps = b->o->loop ? EXEC_COMPUTE_GEMM : EXEC_COMPUTE_SPIN; /* before each */
    enum lw_status s = run_plan(b, &plan, n_steps, gaps, &r, err);
    if (s == LW_OK)
        s = keep_times(b, &plan, &r.timeline, kind, first, err);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

/* Large ones in a plan of their own and fewer steps: they take long, and are steady. */
static enum lw_status all_sizes(struct bench *b, enum kind kind, struct lw_err *err)
{
    int32_t first = kind == REDUCE_ALL ? b->n_bucket : b->n_small;

    if (!can(b, kind))
        return LW_OK;
    if (kind != REDUCE_ALL)
        LW_TRY(collectives(b, kind, 0, b->n_small, b->o->n_steps, err));
    return first < b->n_sizes
               ? collectives(b, kind, first, b->n_sizes - first, LARGE_STEPS, err)
               : LW_OK;
}

/* Kernels without work: the time from one start to the next is what giving and taking an op costs.
 * Kernels of a millisecond: how steady compute is. */
static enum lw_status kernels(struct bench *b, int32_t n_ranks, int32_t n, lw_ps work_ps,
                              struct lw_err *err)
{
    struct lw_plan plan;
    struct lw_exec_result r = {0};

    LW_TRY(exec_plan_kernels(n_ranks, n, work_ps, &plan, err));
    enum lw_status s = run_plan(b, &plan, b->o->n_steps, EXEC_COMPUTE_GEMM, &r, err);
    const struct lw_timeline *t = &r.timeline;
    for (int64_t row = 1; row < t->n && s == LW_OK; row++) {
        const struct lw_op *op = measured_op(&plan, t, row);
        if (!op || op->module == 0)
            continue;
        s = work_ps == 0 ? put(&b->launch, (double)(t->start[row] - t->start[row - 1]), err)
                         : put(&b->kernel, (double)length(t, row) / (double)work_ps, err);
    }
    if (s == LW_OK)
        s = put(n_ranks == 1 ? &b->unit_alone : &b->unit_all, r.unit_ns, err);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

/* One rank's step of the plan `beside`. */
struct overlap {
    int32_t n_kernels;
    lw_ps comm, beside, alone; /* sums over the sizes */
};

static void add_row(struct overlap *v, const struct lw_op *op, const struct lw_timeline *t,
                    int64_t row)
{
    if (op->comm >= 0) {
        v->comm += length(t, row);
    } else if (op->kind == LW_OP_KERNEL && v->n_kernels++ % 2 == 0) {
        v->beside += length(t, row);
    } else if (op->kind == LW_OP_KERNEL) {
        v->alone += length(t, row);
    }
}

static enum lw_status keep_overlap(struct bench *b, const struct lw_plan *p,
                                   const struct lw_timeline *t, double comm_alone,
                                   struct lw_err *err)
{
    for (int64_t row = 0; row < t->n;) {
        int32_t step = t->step[row], rank = t->rank[row];
        struct overlap v = {0};
        for (; row < t->n && t->step[row] == step && t->rank[row] == rank; row++)
            add_row(&v, &p->ops[t->op[row]], t, row);
        if (step < N_WARMUP || v.comm <= 0)
            continue;
        LW_TRY(put(&b->comm_rate, comm_alone / (double)v.comm, err));
        LW_TRY(put(&b->compute_rate, 1 - (double)(v.beside - v.alone) / (double)v.comm, err));
        LW_TRY(put(&b->disturbance, (double)(v.beside + v.alone), err));
    }
    return LW_OK;
}

/* The lost compute is a small difference of long times: keep the rates of the steps that something
 * else on the machine disturbed least, the quarter with the shortest kernels. */
static enum lw_status drop_disturbed(struct bench *b, struct lw_err *err)
{
    int64_t n = b->disturbance.n, kept = 0;
    double *copy = lw_alloc((size_t)(n > 0 ? n : 1) * sizeof *copy);

    if (!copy)
        return lw_fail_nomem(err);
    memcpy(copy, b->disturbance.v, (size_t)n * sizeof *copy);
    double limit = quantile(&b->disturbance, 1, 4);
    for (int64_t i = 0; i < n; i++)
        if (copy[i] <= limit)
            b->compute_rate.v[kept++] = b->compute_rate.v[i];
    b->compute_rate.n = kept;
    lw_free(copy);
    return LW_OK;
}

/* Sizes from 1 MiB to 16 MiB, what buckets mostly are, each beside a kernel three times as long. */
static enum lw_status beside(struct bench *b, struct lw_err *err)
{
    int64_t bytes[N_BESIDE];
    lw_ps work[N_BESIDE];
    double comm_alone = 0;
    struct lw_plan plan;
    struct lw_exec_result r = {0};

    for (int32_t i = 0; i < N_BESIDE; i++) {
        bytes[i] = INT64_C(1) << (20 + i);
        for (int32_t k = 0; k < b->n_sizes; k++)
            if (b->bytes[k] == bytes[i])
                work[i] = (lw_ps)median(&b->time[REDUCE_ALL][k]);
        comm_alone += (double)work[i];
        work[i] = 3 * work[i] + LW_PS_PER_MS;
    }
    if (b->team) /* all run rank 0's plan */
        LW_TRY(exec_rendezvous_broadcast(b->team, work, sizeof work, err));
    LW_TRY(exec_plan_beside(b->o->n_ranks, bytes, N_BESIDE, work, &plan, err));
    enum lw_status s = run_plan(b, &plan, b->o->n_steps, EXEC_COMPUTE_GEMM, &r, err);
    if (s == LW_OK)
        s = keep_overlap(b, &plan, &r.timeline, comm_alone, err);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

/* 48 MiB of gradients in buckets of 4 MiB. */
static enum lw_status copies(struct bench *b, struct lw_err *err)
{
    int64_t bytes[N_COPIES];
    struct lw_plan plan;
    struct lw_exec_result r = {0};

    for (int32_t i = 0; i < N_COPIES; i++)
        bytes[i] = 4 << 20;
    LW_TRY(exec_plan_copies(b->o->n_ranks, bytes, N_COPIES, &plan, err));
    enum lw_status s = run_plan(b, &plan, b->o->n_steps, EXEC_COMPUTE_GEMM, &r, err);
    const struct lw_timeline *t = &r.timeline;
    for (int64_t row = 0; row < t->n && s == LW_OK;) {
        int32_t step = t->step[row], rank = t->rank[row];
        int64_t moved = 0;
        lw_ps time = 0;
        for (; row < t->n && t->step[row] == step && t->rank[row] == rank; row++) {
            const struct lw_op *op = &plan.ops[t->op[row]];
            if (lw_op_class(op->kind) != LW_CLASS_COPY)
                continue;
            moved += op->bytes;
            time += length(t, row);
        }
        if (step >= N_WARMUP && time > 0)
            s = put(&b->copy_rate, (double)moved / (double)time * 1e12, err);
    }
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

static enum lw_status one_round(struct bench *b, struct lw_err *err)
{
    LW_TRY(alone(b, 0, b->n_small, err));
    if (!b->o->id) /* one rank alone: of one process */
        LW_TRY(kernels(b, 1, 20, LW_PS_PER_MS, err));
    for (int32_t i = b->n_small; i < b->n_bucket; i++)
        LW_TRY(alone(b, i, 1, err));
    LW_TRY(beside(b, err));
    LW_TRY(copies(b, err));
    LW_TRY(kernels(b, b->o->n_ranks, N_KERNELS, 0, err));
    for (int k = REDUCE_ALL; k < N_KINDS; k++)
        LW_TRY(all_sizes(b, (enum kind)k, err));
    return kernels(b, b->o->n_ranks, 20, LW_PS_PER_MS, err);
}

/* --- the cluster -------------------------------------------------------------------------------- */

static struct lw_figure figure(struct bench *b, struct samples *s, double value, const char *what)
{
    char text[256];
    double middle = median(s);

    snprintf(text, sizeof text, "lapwing calibrate: %s, median of %lld, spread %.1f %%", what,
             (long long)s->n, middle != 0 ? 100 * spread(s) / middle : 0.0);
    return (struct lw_figure){value, lw_arena_strdup(&b->out->arena, text)};
}

static struct lw_figure stated(double value, const char *source)
{
    return (struct lw_figure){value, source};
}

static double clamped(double rate)
{
    return rate > 1 ? 1 : rate < 0.001 ? 0.001 : rate;
}

static enum lw_status fill_table(struct bench *b, enum kind kind, struct lw_cost_table *t,
                                 struct lw_err *err)
{
    struct lw_arena *a = &b->out->arena;
    int64_t *bytes = lw_arena_alloc(a, b->n_sizes, sizeof *bytes), most = 0;
    lw_ps *time = lw_arena_alloc(a, b->n_sizes, sizeof *time);
    lw_ps *iqr = lw_arena_alloc(a, b->n_sizes, sizeof *iqr);
    char text[256];
    int32_t n = 0;

    if (!bytes || !time || !iqr)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < b->n_sizes; i++) {
        struct samples *s = &b->time[kind][i];
        if (s->n == 0)
            continue;
        most = s->n > most ? s->n : most;
        bytes[n] = b->bytes[i];
        time[n] = (lw_ps)median(s);
        iqr[n++] = (lw_ps)spread(s);
    }
    snprintf(text, sizeof text, "lapwing calibrate: %s of backend %s%s, medians of up to %lld",
             lw_op_name(kinds[kind].op), b->o->backend->name, kind == PAIRS ? ", two at once" : "",
             (long long)most);
    *t = (struct lw_cost_table){.op = kinds[kind].op, .dtype = LW_F32, .n_ranks = b->o->n_ranks,
                                .n_nodes = 1, .n_in_flight = kind == PAIRS ? 2 : 1, .n_rows = n,
                                .bytes = bytes, .time_ps = time, .spread_ps = iqr,
                                .source = lw_arena_strdup(a, text)};
    return t->source ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status fill_link(struct bench *b, struct lw_err *err)
{
    struct lw_cluster *c = b->out;
    struct samples *small = &b->time[REDUCE_ALL][0];
    struct samples *large = &b->time[REDUCE_ALL][b->n_sizes - 1];
    double n = b->o->n_ranks, steps = 2 * (n - 1);

    c->links = lw_arena_alloc(&c->arena, 1, sizeof *c->links);
    if (!c->links)
        return lw_fail_nomem(err);
    c->n_links = 1;
    double bytes = (double)b->bytes[b->n_sizes - 1] * steps / n;
    c->links[0] = (struct lw_link){
        .name = b->o->loop ? "device memory" : "shared memory", .level = LW_LINK_INTRA,
        .bytes_per_s = figure(b, large, bytes / median(large) * 1e12,
                              "bus bandwidth of the largest all-reduce"),
        .latency_ps = figure(b, small, median(small) / steps,
                             "smallest all-reduce over its ring steps"),
        .n_links = stated(1, b->o->loop ? "streams of one device" : "threads of one process"),
    };
    return LW_OK;
}

static void fill_device(struct bench *b)
{
    struct lw_cluster *c = b->out;
    double flop = b->unit_flops;
    char text[320];

    c->device.kind = lw_arena_strdup(&c->arena, b->device);
    int at = snprintf(text, sizeof text, "%s with every rank computing", b->name);
    if (b->unit_alone.n > 0)
        snprintf(text + at, sizeof text - (size_t)at, " (%.1f Gflop/s of one rank alone)",
                 flop / median(&b->unit_alone));
    c->device.peak_flops[LW_F32] =
        figure(b, &b->unit_all, flop / median(&b->unit_all) * 1e9, text);
    c->device.gemm_efficiency = stated(1, "the rate above is that of real GEMMs");
    c->device.copy_bytes_per_s = figure(b, &b->copy_rate, median(&b->copy_rate),
                                        "copies into and out of buckets on all ranks at once");
    c->device.memory_bytes_per_s = figure(b, &b->copy_rate, 2 * median(&b->copy_rate),
                                          "read and write of those copies");
    c->host_bytes_per_s = figure(b, &b->copy_rate, 2 * median(&b->copy_rate) * b->o->n_ranks,
                                 "read and write of those copies, all ranks");
    c->device.launch_ps = figure(b, &b->launch, median(&b->launch), "from an empty op to the next");
    c->device.memory_bytes = stated(b->memory_bytes / b->o->n_ranks,
                                    "physical memory over the ranks");
}

static void fill_interference(struct bench *b)
{
    struct lw_cluster *c = b->out;
    double comm_sigma = 0;

    c->interference.compute_rate_under_comm =
        figure(b, &b->compute_rate, clamped(median(&b->compute_rate)),
               "a kernel beside all-reduces against the same kernel alone");
    c->interference.comm_rate_under_compute =
        figure(b, &b->comm_rate, clamped(median(&b->comm_rate)),
               "all-reduces of 1 to 16 MiB beside a kernel against alone");
    c->interference.comm_on_compute_core =
        b->comm_on_compute_core ? stated(1, "pinned to the rank's compute core")
                                : stated(0, "a stream of its own");
    c->noise.compute_sigma = figure(b, &b->kernel, spread(&b->kernel) / 1.349 / median(&b->kernel),
                                    "kernels of 1 ms");
    for (int32_t i = b->n_small; i < b->n_sizes; i++)
        comm_sigma += spread(&b->time[REDUCE_ALL][i]) / 1.349 / median(&b->time[REDUCE_ALL][i]) /
                      (b->n_sizes - b->n_small);
    if (b->n_sizes > b->n_small)
        c->noise.comm_sigma = figure(b, &b->time[REDUCE_ALL][b->n_sizes - 1], comm_sigma,
                                     "mean over the all-reduces above 4 MiB");
}

static enum lw_status fill_cluster(struct bench *b, struct lw_err *err)
{
    struct lw_cluster *c = b->out;
    char about[256];

    c->name = "host";
    c->n_nodes = 1;
    c->devices_per_node = b->o->n_ranks;
    snprintf(b->library, sizeof b->library, "lapwing %s%s", b->o->backend->name,
             b->o->loop ? ", loop" : "");
    c->library = lw_arena_strdup(&c->arena, b->library);
    c->library_version = LW_VERSION;
    c->calibrated = true;
    c->tables = lw_arena_alloc(&c->arena, N_KINDS, sizeof *c->tables);
    if (!c->tables)
        return lw_fail_nomem(err);
    for (int k = 0; k < N_KINDS; k++)
        if (can(b, (enum kind)k))
            LW_TRY(fill_table(b, (enum kind)k, &c->tables[c->n_tables++], err));
    LW_TRY(fill_link(b, err));
    fill_device(b);
    fill_interference(b);
    snprintf(about, sizeof about,
             "this machine, measured by lapwing calibrate: backend %s, %d ranks, %s",
             b->o->backend->name, b->o->n_ranks,
             b->o->loop ? "all of them streams of one device (emulated)"
                        : "a compute and a communication thread per rank on one core");
    c->about = lw_arena_strdup(&c->arena, about);
    return c->about && c->library && c->device.kind ? lw_cluster_check(c, err)
                                                    : lw_fail_nomem(err);
}

static void list_sizes(struct bench *b)
{
    for (int64_t bytes = 1024; bytes <= b->o->max_bytes && b->n_sizes < N_SIZES_MAX; bytes *= 2) {
        b->bytes[b->n_sizes++] = bytes;
        b->n_small += bytes <= SMALL_BYTES;
        b->n_bucket += bytes <= BUCKET_BYTES;
    }
}

static void free_samples(struct bench *b)
{
    struct samples *all[] = {&b->copy_rate, &b->launch, &b->kernel, &b->compute_rate,
                             &b->comm_rate, &b->disturbance, &b->unit_alone, &b->unit_all};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lw_free(all[i]->v);
    for (int k = 0; k < N_KINDS; k++)
        for (int32_t i = 0; i < N_SIZES_MAX; i++)
            lw_free(b->time[k][i].v);
}

/* Beside the runs, which meet each on its own: what rank 0 measured decides the next plan. */
static enum lw_status meet(struct bench *b, struct lw_err *err)
{
    struct exec_agreement same = {.plan_hash = "calibrate", .program = LW_VERSION};

    if (b->o->id->n_ranks != b->o->n_ranks)
        return lw_fail(err, LW_EINVAL, "%s started %d processes, --ranks is %d", b->o->id->source,
                       b->o->id->n_ranks, b->o->n_ranks);
    snprintf(same.backend, sizeof same.backend, "%s", b->o->backend->name);
    return exec_rendezvous_open(b->o->id, &same, INT64_C(10000000000), &b->team, err);
}

/* Another round, if it will end within the time; rank 0 decides for all. */
static enum lw_status decide(struct bench *b, int32_t n_rounds, int64_t took_ns, bool *more,
                             struct lw_err *err)
{
    const struct lw_calibrate_options *o = b->o;

    *more = n_rounds < o->n_rounds && took_ns + took_ns / n_rounds <= o->budget_ns;
    return b->team ? exec_rendezvous_broadcast(b->team, more, sizeof *more, err) : LW_OK;
}

enum lw_status lw_calibrate(const struct lw_calibrate_options *o, struct lw_cluster *out,
                            struct lw_err *err)
{
    struct lw_cluster made = {0};
    enum lw_status s = LW_OK;

    if (o->n_ranks < 2)
        return lw_fail(err, LW_EINVAL, "calibrating needs 2 ranks or more, got %d", o->n_ranks);
    if (o->max_bytes < (16 << 20))
        return lw_fail(err, LW_EINVAL, "the largest message must be 16 MiB or more, got %lld bytes",
                       (long long)o->max_bytes);
    struct bench *b = lw_calloc(1, sizeof *b);
    if (!b)
        return lw_fail_nomem(err);
    b->o = o;
    b->out = &made;
    list_sizes(b);
    int32_t n_kinds = 0;
    for (int k = CAST_OUT; k < N_KINDS; k++)
        n_kinds += can(b, (enum kind)k);
    b->n_parts = o->n_rounds * (b->n_bucket - b->n_small + 7 + 2 * (n_kinds + 1));
    if (o->id)
        s = meet(b, err);
    int64_t began = exec_now_ns();
    bool more = true;
    for (int32_t i = 1; s == LW_OK && more; i++) {
        s = one_round(b, err);
        if (s == LW_OK)
            s = decide(b, i, exec_now_ns() - began, &more, err);
    }
    exec_rendezvous_close(b->team);
    if (s == LW_OK)
        s = drop_disturbed(b, err);
    if (s == LW_OK)
        s = fill_cluster(b, err);
    free_samples(b);
    lw_free(b);
    if (s == LW_OK)
        *out = made;
    else
        lw_cluster_free(&made);
    return s;
}
