/* Bounds of many strategies in a process: what they share is made once, under a lock, and found by
 * a key that holds all that it depends on. */
#include "analysis/tune_bound/tune_cases.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/tune_bound/tune_cut.h"
#include "analysis/tune_bound/tune_order.h"
#include "analysis/tune_bound/tune_rates.h"
#include "analysis/tune_bound/tune_shelf.h"
#include "shared/cli/model_source.h"
#include "shared/device/device_kind.h"
#include "shared/framework/framework_memory.h"
#include "shared/framework/framework_stages.h"
#include "shared/lower/plan_size.h"
#include "sim/cost/cost_model.h"

/* --- the context --- */

struct model { /* of a rank's groups */
    struct lw_plan_source source; /* owns the framework */
    struct lw_workload w;
    bool plain; /* lw_params_are_plain */
};

struct shape {
    struct lw_outline outline;
    struct lw_strategy strategy; /* kept for the outline */
};

struct lw_tune_context {
    struct lw_tune_request r;
    pthread_mutex_t lock; /* of the shared parts and their arena; what is there does not change */
    struct lw_arena arena;
    struct lw_tune_shelf models; /* as strategies were given; those of `made` */
    struct lw_tune_shelf made, shapes, orders, reaches, divisions;
    const struct lw_framework *framework; /* of all that is made; NULL = not known yet, or none */
    struct lw_cost cost;
    struct lw_cluster cluster; /* placed: a shallow copy */
    int64_t ranks_placed;
    bool unbounded;            /* a device is faster than the others */
    struct lw_usual_for times; /* of all that is made */
};

enum lw_status lw_tune_source(const struct lw_tune_request *r, const struct lw_tune_given *given,
                              struct lw_plan_source *out, struct lw_err *err)
{
    const struct lw_plan_source *from = r->source;

    lw_plan_source_init(out);
    out->workload_file = from->workload_file;
    out->cluster_file = from->cluster_file;
    out->make_model = from->make_model;
    out->model = from->model;
    out->model_optimizer = from->model_optimizer;
    out->global_batch = from->global_batch;
    out->framework_name = from->framework_name;
    out->node_gbps = from->node_gbps;
    out->interference = from->interference;
    out->device_spread = from->device_spread;
    out->device = from->device;
    out->from_device = from->from_device;
    out->as_recorded = from->as_recorded;
    out->predicts = from->predicts;
    out->silent = true;
    out->max_ops = from->max_ops;
    for (int i = 0; given && i < given->n; i++)
        LW_TRY(lw_plan_source_set(out, given->name[i], given->value[i], err));
    return LW_OK;
}

enum lw_status lw_tune_context_new(const struct lw_tune_request *r, struct lw_tune_context **out,
                                   struct lw_err *err)
{
    struct lw_tune_context *c = lw_calloc(1, sizeof *c);

    if (!c)
        return lw_fail_nomem(err);
    pthread_mutex_init(&c->lock, NULL);
    c->r = *r;
    c->times.on_cpu = r->cluster->device.kind && lw_device_is_cpu(r->cluster->device.kind);
    for (int32_t i = 0; i < r->cluster->n_exceptions; i++)
        c->unbounded |= r->cluster->exceptions[i].speed > 1;
    *out = c;
    return LW_OK;
}

static void free_model(void *value)
{
    struct model *m = value;

    lw_workload_free(&m->w);
    lw_plan_source_free(&m->source);
}

static void free_shape(void *value)
{
    lw_outline_free(&((struct shape *)value)->outline);
}

static void free_order(void *value)
{
    lw_grid_free(&((struct lw_tune_order *)value)->grid);
}

void lw_tune_context_free(struct lw_tune_context *c)
{
    if (!c)
        return;
    lw_tune_shelf_free(&c->shapes, free_shape);
    lw_tune_shelf_free(&c->orders, free_order);
    lw_tune_shelf_free(&c->made, free_model);
    lw_arena_free(&c->arena);
    pthread_mutex_destroy(&c->lock);
    lw_free(c);
}

/* --- a model --- */

/* What a workload is made from: of a strategy as it was given or, of a model, with the framework's
 * options. */
struct model_key {
    int64_t tp, cp, ep, etp, sequence_parallel, tp_overlap, grad_dtype, reduced, zero, schedule,
        compat, again_parts, dispatch_once, dispatcher;
    struct lw_options_given given;
};

static struct model_key key_of_model(const struct lw_strategy *s)
{
    struct model_key k;
    bool groups = s->tp > 1 || s->pp > 1 || s->cp > 1 || s->ep > 1;

    memset(&k, 0, sizeof k);
    k.tp = s->tp;
    k.cp = s->cp;
    k.ep = s->ep;
    k.etp = s->etp;
    k.sequence_parallel = s->sequence_parallel;
    k.tp_overlap = s->tp_overlap;
    k.grad_dtype = s->grad_dtype;
    k.reduced = s->dp * s->cp > 1;
    k.zero = groups ? -1 : s->zero;
    k.schedule = s->pp > 1 ? (int64_t)s->schedule : -1;
    k.compat = s->compat;
    k.again_parts = s->again_parts;
    k.dispatch_once = s->dispatch_once;
    k.dispatcher = s->dispatcher;
    k.given = s->given;
    return k;
}

/* Not with the global batch, which another strategy of the same key may divide. */
static enum lw_status make_model(struct lw_tune_context *c, const struct lw_strategy *given,
                                 struct model *m, struct lw_err *err)
{
    struct lw_strategy completed = *given;

    LW_TRY(lw_tune_source(&c->r, NULL, &m->source, err));
    m->source.global_batch = 0;
    LW_TRY(lw_plan_source_workload(&m->source, m->source.workload_file, &completed, &c->cluster,
                                   &m->w, err));
    LW_TRY(lw_workload_check(&m->w, err));
    return lw_plan_source_fit(&m->source, &m->w, &c->cluster, err);
}

/* The key of strategies whose workload is the same: once a model is made, its framework tells what
 * their options become, and the schedule and what was given play no part. */
static enum lw_status made_key(const struct lw_tune_context *c, const struct lw_strategy *given,
                               struct model_key *k, struct lw_err *err)
{
    struct lw_strategy completed = *given;

    *k = key_of_model(given);
    if (!c->framework)
        return LW_OK;
    LW_TRY(lw_framework_strategy(c->framework, c->times, &completed, err));
    LW_TRY(lw_strategy_check(&completed, err));
    *k = key_of_model(&completed);
    k->given = (struct lw_options_given){0};
    k->schedule = -2;
    return LW_OK;
}

static enum lw_status new_model(struct lw_tune_context *c, const struct lw_strategy *given,
                                struct model **out, struct lw_err *err)
{
    struct model *m = lw_arena_alloc(&c->arena, 1, sizeof *m);
    struct model_key k;

    *out = m;
    if (!m)
        return lw_fail_nomem(err);
    enum lw_status st = make_model(c, given, m, err);
    m->plain = st == LW_OK && lw_params_are_plain(&m->w);
    if (st == LW_OK && !c->framework && m->source.framework_name &&
        lw_model_is_set(&m->w.from.model)) {
        c->framework = &m->source.framework;
        c->times.measured = m->source.measured;
    }
    if (st == LW_OK)
        st = made_key(c, given, &k, err);
    if (st == LW_OK)
        st = lw_tune_shelf_keep(&c->made, &c->arena, &k, sizeof k, m, err);
    if (st != LW_OK) {
        c->framework = c->framework == &m->source.framework ? NULL : c->framework;
        free_model(m);
    }
    return st;
}

static enum lw_status model_of(struct lw_tune_context *c, const struct lw_strategy *given,
                               struct model **out, struct lw_err *err)
{
    const struct model_key k = key_of_model(given);
    struct model_key made;

    *out = lw_tune_shelf_take(&c->models, &k, sizeof k);
    if (*out)
        return LW_OK;
    LW_TRY(made_key(c, given, &made, err));
    *out = lw_tune_shelf_take(&c->made, &made, sizeof made);
    if (!*out)
        LW_TRY(new_model(c, given, out, err));
    return lw_tune_shelf_keep(&c->models, &c->arena, &k, sizeof k, *out, err);
}

/* --- a schedule --- */

struct order_key {
    int64_t schedule, pp, chunks, micro_batches, group, drain_every;
};

/* In the arena; on failure with no grid. */
static enum lw_status make_order(struct lw_tune_context *c, const struct order_key *k,
                                 struct lw_tune_order *o, struct lw_err *err)
{
    const struct lw_schedule_shape shape = {
        .schedule = (enum lw_schedule)k->schedule, .n_ranks = (int32_t)k->pp,
        .n_micro_batches = (int32_t)k->micro_batches, .n_chunks = (int32_t)k->chunks,
        .group = (int32_t)k->group, .drain_every = (int32_t)k->drain_every};

    LW_TRY(lw_tune_order_make(&shape, &c->arena, o, err));
    enum lw_status st = lw_tune_shelf_keep(&c->orders, &c->arena, k, sizeof *k, o, err);
    if (st != LW_OK)
        lw_grid_free(&o->grid);
    return st;
}

static enum lw_status order_of(struct lw_tune_context *c, const struct lw_strategy *s,
                               struct lw_tune_order **out, struct lw_err *err)
{
    bool alone = s->pp == 1;
    const struct order_key k = {alone ? (int64_t)LW_SCHEDULE_1F1B : (int64_t)s->schedule, s->pp,
                                alone ? 1 : s->chunks, s->micro_batches, s->micro_batch_group,
                                alone ? 0 : s->drain_every};
    struct lw_tune_order *o = lw_tune_shelf_take(&c->orders, &k, sizeof k);

    if (!o) {
        if (!(o = lw_arena_alloc(&c->arena, 1, sizeof *o)))
            return lw_fail_nomem(err);
        LW_TRY(make_order(c, &k, o, err));
    }
    *out = o;
    if (o->why.code != LW_OK)
        *err = o->why;
    return o->why.code;
}

/* --- an outline --- */

struct shape_key {
    int64_t tp, cp, ep, etp, sequence_parallel, tp_overlap, cp_comm, recompute, recompute_layers,
        recompute_method, again_parts, offload, offload_layers, by_halves, alone, rank_order,
        reducer, pp, dp, tokens, expert_alone, once;
    const struct lw_workload *w;
};

/* Nothing runs beside the all-to-alls of experts. */
static bool tokens_block(const struct lw_strategy *s, const struct lw_tune_order *o)
{
    return !lw_strategy_overlaps_experts(s, NULL) ||
           (s->expert_overlap == LW_EXPERT_OVERLAP_AUTO && !o->pairs &&
            !lw_schedule_combines_calls(s->schedule));
}

static struct shape_key key_of_shape(const struct lw_strategy *s, const struct lw_workload *w,
                                     const struct lw_tune_order *o)
{
    struct shape_key k;

    memset(&k, 0, sizeof k);
    k.tp = s->tp;
    k.cp = s->cp;
    k.ep = s->ep;
    k.etp = s->etp;
    k.sequence_parallel = s->sequence_parallel;
    k.tp_overlap = s->tp_overlap;
    k.cp_comm = s->cp_comm;
    k.recompute = s->recompute;
    k.recompute_layers = s->recompute_layers;
    k.recompute_method = s->recompute_method;
    k.again_parts = s->again_parts;
    k.offload = s->offload;
    k.offload_layers = s->offload_layers;
    k.by_halves = o->by_halves;
    k.tokens = tokens_block(s, o);
    k.expert_alone = lw_strategy_ranks(s) == s->ep;
    k.once = s->dispatch_once;
    k.alone = lw_strategy_ranks(s) == s->tp;
    k.rank_order = s->rank_order;
    k.reducer = s->reducer;
    k.pp = s->rank_order == LW_RANKS_MEGATRON ? 0 : s->pp;
    k.dp = s->rank_order == LW_RANKS_MEGATRON ? 0 : s->dp;
    k.w = w;
    return k;
}

static enum lw_status shape_of(struct lw_tune_context *c, const struct lw_workload *w,
                               const struct lw_strategy *s, const struct lw_tune_order *o,
                               struct shape **out, struct lw_err *err)
{
    const struct shape_key k = key_of_shape(s, w, o);
    struct shape *x = lw_tune_shelf_take(&c->shapes, &k, sizeof k);

    *out = x;
    if (x)
        return LW_OK;
    if (!(x = lw_arena_alloc(&c->arena, 1, sizeof *x)))
        return lw_fail_nomem(err);
    x->strategy = *s;
    x->strategy.partition_list = NULL;
    LW_TRY(lw_outline_make(w, &x->strategy, o->by_halves, k.tokens != 0, &c->cost, &x->outline,
                           err));
    enum lw_status st = lw_tune_shelf_keep(&c->shapes, &c->arena, &k, sizeof k, x, err);
    if (st != LW_OK)
        free_shape(x);
    *out = x;
    return st;
}

/* --- a partition --- */

struct division_key {
    const struct shape *shape;
    int64_t layout, stages, pp, partition, pin_first, pin_last, first_layers, last_layers,
        count_embedding, count_loss;
};

/* Not of the strategies whose other options or lists decide too. */
static bool shares_division(const struct lw_strategy *s)
{
    return s->partition != LW_PARTITION_EXPLICIT && !s->weigh_transfers && s->stage_bytes < 0;
}

static struct division_key key_of_division(const struct lw_strategy *s, const struct shape *x,
                                           const struct lw_tune_order *o)
{
    struct division_key k;

    memset(&k, 0, sizeof k);
    k.shape = x;
    k.layout = (int64_t)o->grid.layout;
    k.stages = o->grid.n_stages;
    k.pp = s->pp;
    k.partition = (int64_t)s->partition;
    k.pin_first = s->pin_first;
    k.pin_last = s->pin_last;
    k.first_layers = s->first_layers;
    k.last_layers = s->last_layers;
    k.count_embedding = s->count_embedding;
    k.count_loss = s->count_loss;
    return k;
}

/* NULL: the strategy's own. */
static enum lw_status division_of(struct lw_tune_context *c, const struct lw_strategy *s,
                                  const struct shape *x, const struct lw_tune_order *o,
                                  const struct lw_tune_division **out, struct lw_err *err)
{
    const struct division_key k = key_of_division(s, x, o);
    struct lw_tune_division *d = lw_tune_shelf_take(&c->divisions, &k, sizeof k);

    *out = shares_division(s) ? d : NULL;
    if (d || !shares_division(s))
        return LW_OK;
    if (!(d = lw_arena_alloc(&c->arena, 1, sizeof *d)))
        return lw_fail_nomem(err);
    LW_TAKE(&c->arena, d->first, o->grid.n_stages + 1, err);
    if (lw_outline_cut(&x->outline, s, &o->grid, &c->cost, d->first, &d->why) == LW_ENOMEM)
        return lw_fail_nomem(err);
    *out = d;
    return lw_tune_shelf_keep(&c->divisions, &c->arena, &k, sizeof k, d, err);
}

/* --- a data group --- */

struct reach_key {
    int64_t n, tp, alone, rank_order;
};

/* What is not counted: groups of which some are on more nodes than others, algorithms by name,
 * several collectives of one communicator at a time, experts and replicas. */
static bool is_plain(const struct lw_tune_context *c, const struct lw_strategy *s)
{
    int64_t span = s->tp * s->cp * s->dp, node = c->cluster.devices_per_node;
    struct lw_figure workers = c->cluster.interference.comm_workers;

    return s->dp * s->cp > 1 && s->reducer == LW_REDUCER_AUTO && s->zero_group == 0 &&
           s->compat == LW_COMPAT_NONE && s->rank_order == LW_RANKS_MEGATRON && node > 0 &&
           (span % node == 0 || node % span == 0) && node % s->tp == 0 &&
           !(lw_figure_is_set(workers) && workers.value > 1) &&
           (s->zero == 0 || s->shard_policy == LW_SHARD_FLAT);
}

static enum lw_status reach_of(struct lw_tune_context *c, const struct lw_strategy *s,
                               const struct lw_tune_group **out, struct lw_err *err)
{
    struct reach_key k;

    memset(&k, 0, sizeof k);
    k.n = s->dp * s->cp;
    k.tp = s->tp;
    k.alone = lw_strategy_ranks(s) == s->dp * s->cp;
    struct lw_tune_group *x = lw_tune_shelf_take(&c->reaches, &k, sizeof k);
    *out = x;
    if (x)
        return LW_OK;
    if (!(x = lw_arena_alloc(&c->arena, 1, sizeof *x)))
        return lw_fail_nomem(err);
    int64_t span = s->tp * k.n, node = c->cluster.devices_per_node;
    int64_t n_nodes = span > node ? span / node : 1;
    struct lw_cost_query q = {.dtype = LW_BF16, .n_ranks = (int32_t)k.n,
                              .n_nodes = (int32_t)n_nodes, .fewest = (int32_t)(k.n / n_nodes),
                              .alone = k.alone};
    q.op = LW_OP_ALL_REDUCE;
    lw_tune_rates_of(&c->cost, &q, &x->sum);
    q.op = LW_OP_REDUCE_SCATTER;
    lw_tune_rates_of(&c->cost, &q, &x->scatter);
    q.op = LW_OP_ALL_GATHER;
    lw_tune_rates_of(&c->cost, &q, &x->gather);
    *out = x;
    return lw_tune_shelf_keep(&c->reaches, &c->arena, &k, sizeof k, x, err);
}

/* --- one strategy --- */

/* As lw_plan_source_load does: the framework's options, micro-batches, stages. */
static enum lw_status complete(const struct lw_tune_context *c, const struct model *m,
                               const struct lw_strategy *given, struct lw_strategy *s, char *list,
                               size_t size, struct lw_err *err)
{
    const struct lw_framework *f = &m->source.framework;
    const struct lw_usual_for times = {c->times.on_cpu, m->source.measured};

    *s = *given;
    LW_TRY(lw_framework_strategy(f, times, s, err));
    LW_TRY(lw_global_batch_divide(c->r.source->global_batch, &m->w, s, err));
    LW_TRY(lw_framework_strategy(f, times, s, err));
    LW_TRY(lw_strategy_check(s, err));
    LW_TRY(lw_plan_source_idle(c->r.source, s, err));
    const char *refusal = lw_framework_refusal(f, &m->w.dims, s);
    if (refusal)
        return lw_fail(err, LW_ENOTSUP, "framework '%s': %s", f->name, refusal);
    if (lw_framework_stages(f, &m->w.dims, s, list, size)) {
        s->partition = LW_PARTITION_EXPLICIT;
        s->partition_list = list;
    }
    return LW_OK;
}

/* Ranks fill the nodes that they need. */
static void place(struct lw_tune_context *c, const struct lw_strategy *s)
{
    int64_t ranks = lw_strategy_ranks(s);

    if (c->ranks_placed == ranks)
        return;
    c->cluster = *c->r.cluster;
    lw_cluster_place(&c->cluster, ranks);
    c->cost = lw_sim_cost(&c->cluster);
    c->cost.ranks_per_node = c->cluster.devices_per_node;
    c->ranks_placed = ranks;
}

static enum lw_status find_model(struct lw_tune_context *c, const struct lw_strategy *given,
                                 struct model **m, struct lw_err *err)
{
    pthread_mutex_lock(&c->lock);
    place(c, given);
    enum lw_status st = model_of(c, given, m, err);
    pthread_mutex_unlock(&c->lock);
    return st;
}

static enum lw_status find_parts(struct lw_tune_context *c, const struct model *m,
                                 const struct lw_strategy *s, struct lw_tune_shared *x,
                                 struct lw_err *err)
{
    struct lw_tune_order *order = NULL;
    struct shape *shape = NULL;

    LW_TRY(lw_outline_check(&m->w, s, err));
    LW_TRY(order_of(c, s, &order, err));
    LW_TRY(shape_of(c, &m->w, s, order, &shape, err));
    LW_TRY(division_of(c, s, shape, order, &x->division, err));
    x->order = order;
    x->outline = &shape->outline;
    x->cost = &c->cost;
    x->cluster = &c->cluster;
    x->framework = &m->source.framework;
    return is_plain(c, s) ? reach_of(c, s, &x->reach, err) : LW_OK;
}

/* The sizes of buckets say how a plan cuts collectives, which the bound of the step leaves open.
 * Whether a strategy is valid depends on whether they were given, not on how large they are. */
static void without_sizes(const struct lw_strategy *s, const char *list, struct lw_strategy *out)
{
    memcpy(out, s, sizeof *out); /* with its padding, so that bytes can be compared */
    out->bucket_cap_bytes = s->bucket_cap_bytes < 0 ? -1 : 0;
    out->first_bucket_bytes = s->first_bucket_bytes < 0 ? -1 : 0;
    if (s->partition_list == list) /* follows from the framework and the other options */
        out->partition_list = NULL;
}

static bool is_like_last(const struct lw_tune_context *c, const struct lw_tune_last *last,
                         bool given, const struct lw_strategy *sizeless)
{
    return last && last->context == c &&
           memcmp(given ? &last->given : &last->of, sizeless, sizeof *sizeless) == 0;
}

/* The strategy as it was given, without sizes, has a bound; as it was resolved, it is `of`. */
static void keep_last(struct lw_tune_context *c, struct lw_tune_last *last,
                      const struct lw_strategy *given, const struct lw_strategy *of,
                      const struct lw_tune_case *found)
{
    if (!last)
        return;
    memcpy(&last->given, given, sizeof *given);
    memcpy(&last->of, of, sizeof *of);
    last->context = c;
    last->found = *found;
}

enum lw_status lw_tune_case_of(struct lw_tune_context *c, const struct lw_strategy *given,
                               bool memory, struct lw_tune_last *last, struct lw_tune_case *out,
                               struct lw_err *err)
{
    struct lw_strategy s, resolved, sizeless, as_given;
    struct lw_tune_shared x = {0};
    struct model *m;
    char list[4096];

    without_sizes(given, NULL, &as_given);
    if (is_like_last(c, last, true, &as_given)) {
        *out = last->found;
        return LW_OK;
    }
    LW_TRY(find_model(c, given, &m, err));
    LW_TRY(complete(c, m, given, &s, list, sizeof list, err));
    LW_TRY(lw_plan_resolve(&m->w, m->plain, &s, &resolved, err));
    without_sizes(&resolved, list, &sizeless);
    if (is_like_last(c, last, false, &sizeless)) {
        *out = last->found;
        keep_last(c, last, &as_given, &sizeless, out);
        return LW_OK;
    }
    pthread_mutex_lock(&c->lock);
    enum lw_status st = find_parts(c, m, &resolved, &x, err);
    pthread_mutex_unlock(&c->lock);
    LW_TRY(st);
    *out = (struct lw_tune_case){.most_ops = lw_plan_size_estimate(&m->w, &resolved).ops,
                                 .selects_nothing = s.recompute == LW_RECOMPUTE_SELECTIVE &&
                                                    lw_workload_selects_nothing(&m->w)};
    LW_TRY(lw_tune_bounds(&x, &resolved, memory, &out->bound, &out->needed_bytes, err));
    out->bound = c->unbounded ? 0 : out->bound;
    out->own_bytes = lw_framework_own_bytes(x.framework, &resolved, &c->cluster.device);
    keep_last(c, last, &as_given, &sizeless, out);
    return LW_OK;
}
