/* Measuring this machine. Everything is measured by exec itself, on small plans in the placement in
 * which plans run: a compute and a communication thread of a rank share a core, all ranks work at
 * once, a bucket has just been written when it is reduced. So the simulator gets the figures of the
 * conditions under which exec runs.
 *
 * The machine may be busy: the whole series of pieces is repeated, and a figure is the median
 * over all rounds; its source says the interquartile range as a share of the median. Ratios
 * (slowdown under overlap) are taken within one step: the same kernel runs beside communication
 * and then alone. */
#include "exec/calibrate/calibrate.h"

#include <assert.h>
#include <stdio.h>

#include "exec/calibrate/calibrate_state.h"
#include "exec/cpu/clock_wait.h"
#include "exec/launch/multi_process.h"

enum { SMALL_BYTES = 4 << 20, BUCKET_BYTES = 64 << 20, LARGE_STEPS = 2, MAX_PIECES = 168 };

struct round {
    struct exec_piece pieces[MAX_PIECES];
    int32_t n;
};

struct lw_calibrate_options lw_calibrate_options_default(void)
{
    return (struct lw_calibrate_options){.backend = &exec_backend_threads, .n_ranks = 2,
                                         .n_rounds = 3, .n_steps = 8, .max_bytes = 256 << 20,
                                         .max_side = 1024,
                                         .budget_ns = INT64_C(55000000000)};
}

/* --- running one plan ------------------------------------------------------------------------- */

lw_ps exec_calibrate_length(const struct lw_timeline *t, int64_t row)
{
    lw_ps from = t->all_in[row] >= 0 ? t->all_in[row] : t->start[row];
    return t->end[row] - from;
}

int32_t exec_calibrate_sizes(const int64_t *all, int32_t first, int32_t n,
                             int64_t sizes[CALIBRATE_SIZES + 1])
{
    int32_t twice = first == 0;

    sizes[0] = all[0];
    for (int32_t i = 0; i < n; i++)
        sizes[twice + i] = all[first + i];
    return twice + n;
}

int32_t exec_calibrate_size_of(const struct lw_plan *p, const struct lw_timeline *t, int64_t row,
                               int32_t first)
{
    int32_t i = p->ops[t->op[row]].module - (first == 0);

    return t->step[row] < CALIBRATE_WARMUP || i < 0 ? -1 : first + i;
}

static void note_facts(struct exec_calibration *c, const struct lw_exec_result *r)
{
    snprintf(c->name, sizeof c->name, "%s", r->compute);
    snprintf(c->device, sizeof c->device, "%s", r->device);
    c->unit_flops = r->unit_flops;
    c->memory_bytes = r->memory_bytes;
    c->free_bytes = r->free_bytes;
    c->comm_on_compute_core = r->comm_on_compute_core;
}

static enum lw_status keep_probes(struct exec_calibration *c, const struct lw_plan *plan,
                                  const struct lw_exec_result *r, struct lw_err *err)
{
    for (int64_t i = 0; i < r->n_probes && plan->n_ranks == c->o->n_ranks; i++)
        LW_TRY(exec_samples_add(&c->probe, r->probes[i].now_ns * LW_PS_PER_NS, err));
    return LW_OK;
}

static enum lw_status run_plan(const struct exec_calibration *c, const struct lw_plan *plan,
                               struct exec_calibrate_run how, struct lw_exec_result *r,
                               struct lw_err *err)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_team team = {.run = -1};

    o.backend = c->o->backend;
    o.loop = c->o->loop;
    o.link_bytes_per_s = c->o->link_bytes_per_s;
    o.link_latency_ns = c->o->link_latency_ns;
    o.verify = false;
    o.compute = how.compute;
    o.optimizer = exec_optimizer_of(how.optimizer);
    o.n_steps = how.n_steps;
    o.n_warmup = how.n_warmup;
    if (!c->o->id)
        return lw_exec_run(plan, &o, r, err);
    enum lw_status s = lw_exec_team_run(plan, &o, c->o->id, &team, r, err);
    exec_rendezvous_close(team.rendezvous);
    return s;
}

enum lw_status exec_calibrate_run(struct exec_calibration *c, const struct exec_piece *p,
                                  struct lw_plan *plan, struct exec_calibrate_run how,
                                  exec_calibrate_keep *keep, struct lw_err *err)
{
    struct lw_exec_result r = {0};
    enum lw_status s = run_plan(c, plan, how, &r, err);

    if (s == LW_OK && how.compute == EXEC_COMPUTE_GEMM)
        note_facts(c, &r);
    if (s == LW_OK)
        s = keep_probes(c, plan, &r, err);
    if (s == LW_OK)
        s = keep(c, p, plan, &r, err);
    lw_exec_result_free(&r);
    lw_plan_free(plan);
    return s;
}

/* --- one round -------------------------------------------------------------------------------- */

static void add(struct round *round, struct exec_piece piece)
{
    assert(round->n < MAX_PIECES);
    if (piece.n > 0)
        round->pieces[round->n++] = piece;
}

/* Large ones in a plan of their own and fewer steps: they take long, and are steady. All-reduces
 * up to 64 MiB have been measured with buckets. */
static void add_communication(struct round *round, const struct exec_calibration *c,
                              enum exec_series s)
{
    bool messages = exec_series_op((enum exec_series)s) == LW_OP_SEND;
    struct exec_piece p = {messages ? exec_calibrate_messages : exec_calibrate_collectives, s, 0,
                           c->n_small, c->o->n_steps};
    int32_t n;

    if (!exec_series_can(c, s))
        return;
    exec_series_sizes(c, s, &n);
    p.n = n < p.n ? n : p.n;
    if (s != SERIES_REDUCE_ALL)
        add(round, p);
    p.first = s == SERIES_REDUCE_ALL ? c->n_bucket : c->n_small;
    p.n = n - p.first;
    p.n_steps = LARGE_STEPS;
    add(round, p);
}

static void list_pieces(struct round *round, const struct exec_calibration *c)
{
    int32_t steps = c->o->n_steps, fewer = (steps + 1) / 2;

    bool several = c->o->n_ranks > 1;

    if (several)
        add(round,
            (struct exec_piece){exec_calibrate_alone, SERIES_REDUCE_ALL, 0, c->n_small, steps});
    if (several && !c->o->id) /* one rank alone: of one process */
        add(round, (struct exec_piece){exec_calibrate_steady, 0, 0, 1, steps});
    for (int32_t i = c->n_small; several && i < c->n_bucket; i++)
        add(round, (struct exec_piece){exec_calibrate_alone, SERIES_REDUCE_ALL, i, 1, steps});
    if (several)
        add(round, (struct exec_piece){exec_calibrate_beside, 0, 0, 1, steps});
    for (int32_t i = 0; i < EXEC_N_PASSES; i++)
        if (exec_calibrate_pass_fits(c, i))
            add(round, (struct exec_piece){exec_calibrate_passes, i, 0, 1, steps});
    add(round, (struct exec_piece){exec_calibrate_copies, 0, 0, 1, fewer});
    for (int32_t i = 0; i < EXEC_N_OPTIMIZERS; i++)
        add(round, (struct exec_piece){exec_calibrate_updates, i, 0, 1, fewer});
    add(round, (struct exec_piece){exec_calibrate_products, 0, 0, 1, steps});
    add(round, (struct exec_piece){exec_calibrate_launches, 0, 0, 1, steps});
    for (int s = SERIES_REDUCE_ALL; s < N_TABLES; s++)
        add_communication(round, c, (enum exec_series)s);
    for (int32_t i = 0; i < exec_calibrate_n_pairs(); i++)
        if (exec_calibrate_pair_fits(c, i))
            add(round, (struct exec_piece){exec_calibrate_pairs, i, 0, 1, fewer});
    add(round, (struct exec_piece){exec_calibrate_steady, 0, 0, c->o->n_ranks, steps});
}

static enum lw_status run_round(struct exec_calibration *c, const struct round *round,
                                int32_t n_before, struct lw_err *err)
{
    for (int32_t i = 0; i < round->n; i++) {
        const struct exec_piece *p = &round->pieces[i];
        lw_progress_report(c->o->progress, "calibrating",
                           (double)(n_before * round->n + i) / (c->o->n_rounds * round->n));
        if (lw_progress_stopped(c->o->progress))
            return lw_fail(err, LW_EFAILED, "interrupted after %d of %d rounds", n_before,
                           c->o->n_rounds);
        LW_TRY(p->run(c, p, err));
    }
    return LW_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void list_sizes(struct exec_calibration *c)
{
    for (int64_t bytes = 1024; bytes <= c->o->max_bytes && c->n_sizes < CALIBRATE_SIZES;
         bytes *= 2) {
        c->bytes[c->n_sizes++] = bytes;
        c->n_small += bytes <= SMALL_BYTES;
        c->n_bucket += bytes <= BUCKET_BYTES;
    }
}

static void free_samples(struct exec_calibration *c)
{
    struct exec_samples *all[] = {&c->copy_rate, &c->launch, &c->kernel, &c->compute_rate,
                                  &c->comm_rate, &c->disturbance, &c->unit_alone, &c->unit_all,
                                  &c->probe};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        exec_samples_free(all[i]);
    for (int i = 0; i < LW_N_ACTIVITIES * LW_N_ACTIVITIES; i++)
        exec_samples_free(&c->pair[i / LW_N_ACTIVITIES][i % LW_N_ACTIVITIES]);
    for (int32_t i = 0; i < CALIBRATE_SIZES; i++) {
        for (int s = 0; s < N_TABLES; s++)
            exec_samples_free(&c->comm[s][i]);
        for (int s = 0; s < CALIBRATE_N_WORK; s++)
            exec_samples_free(&c->work[s][i]);
    }
}

/* Beside the runs, which meet each on its own: what rank 0 measured decides the next plan. */
static enum lw_status meet(struct exec_calibration *c, struct lw_err *err)
{
    struct exec_agreement same = {.plan_hash = "calibrate", .program = LW_VERSION};

    if (c->o->id->n_ranks != c->o->n_ranks)
        return lw_fail(err, LW_EINVAL, "%s started %d processes, --ranks is %d", c->o->id->source,
                       c->o->id->n_ranks, c->o->n_ranks);
    snprintf(same.backend, sizeof same.backend, "%s", c->o->backend->name);
    return exec_rendezvous_open(c->o->id, &same, INT64_C(10000000000), NULL, &c->team, err);
}

/* Another round, if it will end within the time; rank 0 decides for all. */
static enum lw_status decide(struct exec_calibration *c, int32_t n_rounds, int64_t took_ns,
                             bool *more, struct lw_err *err)
{
    const struct lw_calibrate_options *o = c->o;

    *more = n_rounds < o->n_rounds && took_ns + took_ns / n_rounds <= o->budget_ns;
    return c->team ? exec_rendezvous_broadcast(c->team, more, sizeof *more, err) : LW_OK;
}

/* Medians sort samples; the pairs of rates and disturbances stay for the next round. */
static enum lw_status cluster_so_far(struct exec_calibration *c, struct lw_cluster *out,
                                     struct lw_err *err)
{
    struct exec_samples all = c->compute_rate, quiet = {0};
    enum lw_status s = exec_calibrate_undisturbed(c, &quiet, err);

    c->compute_rate = quiet;
    if (s == LW_OK)
        s = exec_calibrate_cluster(c, out, err);
    exec_samples_free(&c->compute_rate);
    c->compute_rate = all;
    if (s != LW_OK)
        lw_cluster_free(out);
    return s;
}

/* The cluster of the rounds until here; *out is empty on ranks but 0. */
static enum lw_status keep_round(struct exec_calibration *c, struct lw_cluster *out,
                                 struct lw_err *err)
{
    if (c->o->id && c->o->id->rank > 0)
        return LW_OK;
    lw_cluster_free(out);
    LW_TRY(cluster_so_far(c, out, err));
    return c->o->keep ? c->o->keep(c->o->keep_ctx, out, err) : LW_OK;
}

static enum lw_status measure(struct exec_calibration *c, struct lw_cluster *out,
                              struct lw_err *err)
{
    struct round round = {.n = 0};
    int64_t began = exec_now_ns();
    bool more = true;

    list_sizes(c);
    list_pieces(&round, c);
    if (c->o->id)
        LW_TRY(meet(c, err));
    LW_TRY(exec_calibrate_find_larger(c, err));
    for (int32_t i = 0; more; i++) {
        LW_TRY(run_round(c, &round, i, err));
        LW_TRY(keep_round(c, out, err));
        LW_TRY(decide(c, i + 1, exec_now_ns() - began, &more, err));
    }
    return LW_OK;
}

/* A launcher that does not say how many it started here says 1. */
static int32_t ranks_of_a_node(const struct lw_calibrate_options *o)
{
    int32_t said = o->id ? o->id->n_here : 0;

    if (o->ranks_per_node > 0)
        return o->ranks_per_node;
    return said > 1 && o->n_ranks % said == 0 ? said : o->n_ranks;
}

enum lw_status lw_calibrate(const struct lw_calibrate_options *o, struct lw_cluster *out,
                            struct lw_err *err)
{
    struct lw_cluster made = {0};

    if (o->n_ranks < 1)
        return lw_fail(err, LW_EINVAL, "--ranks: found %d, expected at least 1", o->n_ranks);
    if (o->max_bytes < CALIBRATE_LEAST_BYTES || o->max_bytes > CALIBRATE_MOST_BYTES)
        return lw_fail(err, LW_EINVAL,
                       "the largest message must be of 16 MiB to 1 GiB, got %lld bytes",
                       (long long)o->max_bytes);
    if (o->max_side < 32)
        return lw_fail(err, LW_EINVAL,
                       "the largest matrix product must have 32 rows or more, got %d", o->max_side);
    if (o->ranks_per_node > 0 && o->n_ranks % o->ranks_per_node != 0)
        return lw_fail(err, LW_EINVAL, "%d ranks per node do not divide %d ranks",
                       o->ranks_per_node, o->n_ranks);
    struct exec_calibration *c;
    LW_NEW(c, 1, err);
    c->o = o;
    c->per_node = ranks_of_a_node(o);
    enum lw_status s = measure(c, &made, err);
    exec_rendezvous_close(c->team);
    free_samples(c);
    lw_free(c);
    if (s == LW_OK)
        *out = made;
    else
        lw_cluster_free(&made);
    return s;
}
