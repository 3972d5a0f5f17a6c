/* The public entry: prepare, run, say which terms were on, and give everything back. */
#include "sim/predict/sim.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/nearest.h"
#include "shared/cluster/measured.h"
#include "shared/plan/grid_rule.h"
#include "shared/plan/many_passes.h"
#include "sim/engine/engine.h"
#include "sim/fold/fold.h"
#include "sim/timing/device_spread.h"

struct lw_sim_options lw_sim_options_default(void)
{
    return (struct lw_sim_options){.n_steps = 1};
}

enum lw_status lw_sim_options_set(void *ctx, const char *name, const char *value,
                                  struct lw_err *err)
{
    static const char *const words[][4] = {{"collective", "chunk"},
                                           {"auto", "events", "recurrence"}};
    struct lw_sim_options *o = ctx;
    bool ring = strcmp(name, "ring") == 0;

    for (int i = 0; words[ring][i]; i++) {
        if (strcmp(value, words[ring][i]) != 0)
            continue;
        if (ring)
            o->ring = (enum lw_sim_ring)i;
        else
            o->detail = (enum lw_sim_detail)i;
        return LW_OK;
    }
    return lw_fail_word(err, NULL, value, words[ring]);
}

int32_t lw_sim_warmup_steps(const struct lw_plan *plan)
{
    return lw_plan_warmup_steps(plan);
}

static enum lw_status check_options(const struct lw_sim_options *o, struct lw_err *err)
{
    if (o->n_steps < 1)
        return lw_fail(err, LW_EINVAL, "--steps: found %d, expected at least 1", o->n_steps);
    if (o->jitter_ps < 0 || o->start_skew_ps < 0)
        return lw_fail(err, LW_EINVAL, "jitter and start skew must not be negative");
    if (!(o->sigma >= 0 && o->sigma <= 1) || !(o->rank_sigma >= 0 && o->rank_sigma <= 1))
        return lw_fail(err, LW_EINVAL, "--noise, --rank-noise: found %g, expected a share from 0 "
                                       "to 1",
                       o->sigma >= 0 && o->sigma <= 1 ? o->rank_sigma : o->sigma);
    if (o->jitter_ps > 0 && o->detail != LW_SIM_CHUNK)
        return lw_fail(err, LW_EUSAGE, "--jitter applies to messages: it needs --detail chunk");
    if (o->ring != LW_SIM_RING_AUTO && o->detail != LW_SIM_CHUNK)
        return lw_fail(err, LW_EUSAGE, "--ring events and recurrence need --detail chunk");
    return LW_OK;
}

static void term(struct lw_sim_stats *s, const char *name, double value, const char *source,
                 const char *why)
{
    if (s->n_terms == LW_SIM_MAX_TERMS)
        return;
    struct lw_sim_term *x = &s->terms[s->n_terms++];
    *x = (struct lw_sim_term){.value = value, .source = source, .on = !*why, .why = why};
    snprintf(x->name, sizeof x->name, "%s", name);
}

static void figure(struct lw_sim_stats *s, const char *name, struct lw_figure f, const char *why)
{
    if (lw_figure_is_set(f))
        term(s, name, f.value, f.source, why);
}

/* CPU times of collectives: how much of the compute core each of them wants. */
static void list_cpu_times(const struct sim_engine *e, struct lw_sim_stats *s, const char *why)
{
    for (int32_t t = 0; t < e->cluster->n_tables; t++) {
        if (!e->cluster->tables[t].cpu_ps)
            continue;
        term(s, "cpu_ns", e->cluster->tables[t].n_rows, e->cluster->tables[t].source,
             e->terms.cpu_times ? why : "the cluster gives no comm_on_compute_core");
        return;
    }
}

/* On when somebody uses memory whose bytes are known. */
static void list_memory(const struct sim_engine *e, struct lw_sim_stats *s, const char *messages)
{
    const struct lw_plan *p = e->plan;
    bool known = false;

    for (int32_t i = 0; i < p->n_ops && !known; i++)
        known = lw_op_class(lw_op_at(p, i).kind) == LW_CLASS_COPY ||
                (lw_op_at(p, i).work >= 0 && lw_work_at(p, lw_op_at(p, i).work)->bytes > 0);
    figure(s, "memory_bytes_per_comm_byte", e->cluster->interference.memory_bytes_per_comm_byte,
           !e->terms.memory ? "the device's memory_bytes_per_s is not given"
           : !known         ? "no op of the plan gives the bytes that it moves"
                            : messages);
}

/* A term of what communication by kernels takes from compute. */
static const char *why_no_kernels(const struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    bool messages = false;

    for (int32_t i = 0; i < p->n_ops && !messages; i++)
        messages = lw_op_class(lw_op_at(p, i).kind) == LW_CLASS_P2P;
    return e->has_kernels || messages ? ""
           : e->has_copies            ? "all collectives of the plan go by copy engines"
                                      : "the plan has no collective";
}

static const char *why_no_channels(const struct sim_engine *e)
{
    if (e->options.detail == LW_SIM_CHUNK)
        return "channels are not known at chunk detail";
    if (e->terms.channel_sms <= 0)
        return "the device's n_sms is not given";
    if (!lw_figure_is_set(e->cluster->nccl.compute_capability))
        return "only NCCL's cost model gives channels";
    return e->has_channels      ? ""
           : e->has_collectives ? "no collective has an algorithm of which channels are known"
           : e->has_copies      ? "all collectives of the plan go by copy engines"
                                : "the plan has no collective";
}

static void list_pairs(const struct lw_cluster *c, struct lw_sim_stats *s, const char *why)
{
    char name[48];

    for (int32_t i = 0; i < c->n_pairs; i++) {
        const struct lw_pair_rate *p = &c->pairs[i];
        snprintf(name, sizeof name, "%s beside %s", lw_activity_word((int)p->op),
                 lw_activity_word((int)p->beside));
        term(s, name, p->rate, p->source, why);
    }
}

static void list_interference(const struct sim_engine *e, struct lw_sim_stats *s)
{
    const struct lw_interference *i = &e->cluster->interference;
    bool chunk = e->options.detail == LW_SIM_CHUNK;
    const char *messages = chunk ? "messages are not re-timed at chunk detail" : "";
    const char *core = e->terms.compute_under_comm && e->terms.comm_under_compute
                           ? "the measured rates replace it"
                           : "";

    figure(s, "compute_rate_under_comm", i->compute_rate_under_comm, why_no_kernels(e));
    figure(s, "comm_rate_under_compute", i->comm_rate_under_compute, messages);
    figure(s, "comm_on_compute_core", i->comm_on_compute_core, core);
    list_cpu_times(e, s, chunk ? messages : core);
    figure(s, "comm_workers", i->comm_workers,
           chunk ? "collectives of a communicator go one by one at chunk detail" : "");
    figure(s, "comm_sms", i->comm_sms,
           e->terms.sm_share ? why_no_kernels(e) : "the device's n_sms is not given");
    figure(s, "sms_per_channel", lw_cluster_sms_per_channel(e->cluster), why_no_channels(e));
    list_memory(e, s, messages);
    if (e->terms.fair_links)
        figure(s, "fair_links", i->fair_links, messages);
    figure(s, "shared_link", i->shared_link, messages);
    list_pairs(e->cluster, s, messages);
    for (int32_t t = 0; t < e->cluster->n_tables; t++) {
        const struct lw_cost_table *table = &e->cluster->tables[t];
        if (table->n_in_flight > 1) {
            term(s, "in_flight", table->n_in_flight, table->source, messages);
            break;
        }
    }
}

/* Kinds of collectives, as bits, that the communicator's reducer does not do. */
static uint64_t left_to_ring(const struct sim_engine *e, int32_t comm)
{
    enum lw_reducer_kind asked = e->plan->comms[comm].reducer;
    uint64_t kinds = 0;

    for (int k = 0; k < LW_N_OP_KINDS; k++)
        if (lw_op_class((enum lw_op_kind)k) == LW_CLASS_COLLECTIVE && k != LW_OP_BARRIER &&
            sim_reducer_of(e, comm, (enum lw_op_kind)k) != asked)
            kinds |= UINT64_C(1) << k;
    return kinds;
}

/* Collectives that their communicator's reducer does not do. */
static enum lw_status list_by_ring(struct sim_engine *e, struct lw_sim_stats *s)
{
    const struct lw_plan *p = e->plan;
    const char *how = NULL;
    uint64_t *left, any = 0;
    int32_t n = 0;

    LW_TAKE(&e->arena, left, p->n_comms + 1, e->err);
    for (int32_t c = 0; c < p->n_comms; c++)
        any |= left[c] = left_to_ring(e, c);
    for (int32_t i = 0; any != 0 && i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(p, i);
        if (op->comm < 0 || !(left[op->comm] >> op->kind & 1))
            continue;
        how = lw_reducer_name(p->comms[op->comm].reducer);
        n++;
    }
    if (n > 0)
        term(s, "ring_instead", n, how, "");
    return LW_OK;
}

static void list_exceptions(const struct sim_engine *e, struct lw_sim_stats *s)
{
    const char *outside = "no rank of the plan";

    for (int32_t i = 0; i < e->cluster->n_exceptions; i++) {
        const struct lw_exception *x = &e->cluster->exceptions[i];
        const char *why =
            x->rank < e->given->n_ranks && x->rank_to < e->given->n_ranks ? "" : outside;
        if (x->rank_to >= 0)
            term(s, "slow_link", x->speed, "exception of the cluster", why);
        else if (x->speed != 1)
            term(s, "slow_rank", x->speed, "exception of the cluster", why);
        if (x->rank_to < 0 && x->late_ps != 0)
            term(s, "late_rank_ps", (double)x->late_ps, "exception of the cluster", why);
    }
}

static void list_noise(const struct sim_engine *e, struct lw_sim_stats *s)
{
    const struct lw_sim_options *o = &e->options;
    const char *why = !o->noise      ? "noise is drawn only when a seed is given"
                      : o->sigma > 0 ? "--noise replaces it"
                                     : "";
    const char *messages = o->detail == LW_SIM_CHUNK ? "messages have --jitter" : "";

    figure(s, "compute_sigma", e->cluster->noise.compute_sigma, why);
    figure(s, "comm_sigma", e->cluster->noise.comm_sigma, *why ? why : messages);
    if (o->sigma > 0)
        term(s, "noise", o->sigma, "--noise", o->noise ? "" : why);
    if (o->rank_sigma > 0)
        term(s, "rank_noise", o->rank_sigma, "--rank-noise", "");
}

/* What the spread of devices makes of products is said beside its figure. */
static void list_spread(const struct sim_engine *e, struct lw_sim_stats *s)
{
    const char *why = sim_spread_unused(e->plan, e->cluster, &e->options, e->given->n_ranks);

    figure(s, "device_spread", e->cluster->noise.device_spread, why);
    if (lw_figure_is_set(e->cluster->noise.device_spread) && !*why)
        sim_remark(s, "products take %.4f times as long as on the mean device: the slowest of the "
                      "%d devices sets the pace (device_spread)",
                   1 + (double)e->spread / (double)SIM_FULL_RATE, e->given->n_ranks);
}

static enum lw_status check_devices(const struct lw_plan *p, const struct lw_cluster *c,
                                    struct lw_err *err)
{
    int64_t n_devices = (int64_t)c->n_nodes * c->devices_per_node;

    if (c->n_nodes > 0 && p->n_ranks > n_devices)
        return lw_fail(err, LW_EINVAL,
                       "plan '%s' has %d ranks, cluster '%s' has %lld devices (%d node%s of %d): "
                       "choose a cluster that is large enough (-c NAME)",
                       p->name, p->n_ranks, c->name, (long long)n_devices, c->n_nodes,
                       lw_plural(c->n_nodes), c->devices_per_node);
    return LW_OK;
}

enum lw_status lw_sim_check(const struct lw_plan *plan, const struct lw_cluster *cluster,
                            const struct lw_sim_options *options, struct lw_err *err)
{
    LW_TRY(check_options(options, err));
    return check_devices(plan, cluster, err);
}

/* lengths: when steps end is wanted. */
static enum lw_status simulate(struct sim_engine *e, const lw_ps *lengths)
{
    LW_TRY(sim_prepare(e));
    if (lengths)
        LW_TAKE(&e->arena, e->step_end, e->options.n_steps, e->err);
    LW_TRY(sim_engine_begin(e));
    LW_TRY(sim_engine_loop(e));
    list_interference(e, e->stats);
    e->stats->n_interference = e->stats->n_terms;
    list_noise(e, e->stats);
    list_spread(e, e->stats);
    list_exceptions(e, e->stats);
    LW_TRY(list_by_ring(e, e->stats));
    sim_list_timed(e->plan, e->cluster, e->stats);
    return sim_list_comm(e);
}

/* Steps as lw_timeline_summarize counts them. */
static void take_lengths(const struct sim_engine *e, lw_ps *lengths)
{
    lw_ps before = e->run_start;

    for (int32_t i = 0; i < e->options.n_steps; i++) {
        lw_ps end = e->step_end[i] > before ? e->step_end[i] : before;
        lengths[i] = end - before;
        before = end;
    }
}

/* One run of a plan, or of its quotient: rows and lengths (NULL: none) and stats are set on
 * success. *shortened: ranks were folded or ops merged, and there were not too many. */
static enum lw_status run(const struct lw_plan *plan, const struct sim_fold *fold,
                          const struct lw_cluster *cluster, const struct lw_sim_options *options,
                          struct lw_timeline *rows, lw_ps *lengths, struct lw_sim_stats *stats,
                          bool *shortened, struct lw_err *err)
{
    struct lw_sim_stats counted = {0};
    struct sim_engine e = {.plan = fold ? &fold->plan : plan, .given = plan, .fold = fold,
                           .cluster = cluster, .options = *options,
                           .cost = options->cost ? *options->cost : lw_sim_cost(cluster),
                           .wants_rows = rows != NULL, .stats = &counted, .err = err,
                           .free_message = -1, .run_start = INT64_MAX};

    enum lw_status status = simulate(&e, lengths);
    *shortened = (fold || e.merges) && !e.too_many;
    if (status == LW_OK) {
        counted.n_simulated = e.plan->n_ranks;
        *stats = counted;
        if (lengths)
            take_lengths(&e, lengths);
        if (rows)
            *rows = (struct lw_timeline){.n = e.n_rows, .capacity = e.n_rows,
                                         .comm_workers = e.n_workers, .packed = e.rows};
    } else {
        lw_packed_free(e.rows);
    }
    sim_queue_free(&e.queue);
    lw_free(e.messages);
    lw_free(e.memory_wants);
    lw_free(e.wants);
    sim_slots_free(&e);
    sim_net_free(&e);
    lw_free(e.channels);
    lw_arena_free(&e.arena);
    return status;
}

/* Folded and merged where that is possible. What fails there fails again rank by rank and op by op,
 * with those named; but too many ops are not tried as still more. */
static enum lw_status run_folded(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                 const struct lw_sim_options *options, struct lw_arena *arena,
                                 struct sim_fold *fold, struct lw_timeline *rows, lw_ps *lengths,
                                 struct lw_sim_stats *stats, struct lw_err *err)
{
    LW_TRY(lw_sim_check(plan, cluster, options, err));
    LW_TRY(sim_fold_make(plan, cluster, options, arena, fold, err));
    struct lw_plan full = *plan;
    if (fold->n_classes == 0 || options->detail == LW_SIM_CHUNK)
        LW_TRY(lw_plan_with_tables(plan, arena, &full, err));
    plan = &full;
    bool shortened;
    enum lw_status status = run(plan, fold->n_classes > 0 ? fold : NULL, cluster, options, rows,
                                lengths, stats, &shortened, err);
    if (status == LW_OK || status == LW_ENOMEM || !shortened ||
        lw_progress_stopped(options->progress))
        return status;
    struct lw_sim_options each = *options;
    each.no_merge = true;
    *fold = (struct sim_fold){.n_ranks = plan->n_ranks};
    LW_TRY(lw_plan_with_tables(plan, arena, &full, err));
    return run(plan, NULL, cluster, &each, rows, lengths, stats, &shortened, err);
}

static enum lw_status take_classes(const struct lw_plan *plan, const struct sim_fold *fold,
                                   struct lw_sim_classes *c, struct lw_err *err)
{
    c->n_ranks = plan->n_ranks;
    c->n_classes = fold->n_classes > 0 ? fold->n_classes : plan->n_ranks;
    c->ranks = fold->ranks;
    c->rank_of = fold->rank_of;
    c->plan = fold->n_classes > 0 ? fold->plan : *plan;
    c->plan.arena = (struct lw_arena){0};
    if (fold->n_classes > 0)
        return LW_OK;
    LW_TAKE(&c->arena, c->rank_of, plan->n_ranks, err);
    for (int32_t r = 0; r < plan->n_ranks; r++)
        c->rank_of[r] = r;
    return LW_OK;
}

enum lw_status lw_sim_run_classes(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                  const struct lw_sim_options *options, struct lw_sim_classes *out,
                                  struct lw_sim_stats *stats, struct lw_err *err)
{
    struct lw_sim_classes c = {0};
    struct lw_sim_stats counted;
    struct sim_fold fold = {0};

    enum lw_status status =
        run_folded(plan, cluster, options, &c.arena, &fold, &c.rows, NULL, &counted, err);
    if (status == LW_OK)
        status = take_classes(plan, &fold, &c, err);
    if (status != LW_OK) {
        lw_sim_classes_free(&c);
        return status;
    }
    *out = c;
    *stats = counted;
    return LW_OK;
}

enum lw_status lw_sim_run(const struct lw_plan *plan, const struct lw_cluster *cluster,
                          const struct lw_sim_options *options, struct lw_timeline *timeline,
                          struct lw_sim_stats *stats, struct lw_err *err)
{
    struct lw_sim_classes c;
    struct lw_sim_stats counted;

    if (!timeline)
        return lw_sim_run_steps(plan, cluster, options, NULL, stats, err);
    LW_TRY(lw_sim_run_classes(plan, cluster, options, &c, &counted, err));
    enum lw_status status = lw_sim_expand(&c, timeline, err);
    if (status == LW_OK)
        *stats = counted;
    lw_sim_classes_free(&c);
    return status;
}

enum lw_status lw_sim_run_steps(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                const struct lw_sim_options *options, lw_ps *lengths,
                                struct lw_sim_stats *stats, struct lw_err *err)
{
    struct lw_arena arena = {0};
    struct sim_fold fold = {0};
    struct lw_sim_stats counted;
    enum lw_status status = run_folded(plan, cluster, options, &arena, &fold, NULL, lengths,
                                       &counted, err);

    if (status == LW_OK)
        *stats = counted;
    lw_arena_free(&arena);
    return status;
}

/* On a cluster without figures: whatever would need one is refused by name. */
enum lw_status lw_sim_alone(const void *ctx, const struct lw_plan *plan,
                            struct lw_timeline *timeline, struct lw_err *err)
{
    struct lw_cluster c = {.name = "devices that share nothing",
                           .n_nodes = 1,
                           .devices_per_node = plan->n_ranks,
                           .library = "",
                           .library_version = "",
                           .about = "",
                           .device = {.kind = "any"}};
    struct lw_sim_options o = {.n_steps = 1, .buffered = true};
    struct lw_sim_stats stats;

    (void)ctx;
    return lw_sim_run(plan, &c, &o, timeline, &stats, err);
}
