/* Bounds of many strategies in a process. Shared parts are found by the bytes of a key that holds
 * all that they depend on; keys are zeroed before they are filled. */
#include "analysis/tune/tune_cases.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/tune/tune_chain.h"
#include "analysis/tune/tune_pieces.h"
#include "analysis/tune/tune_rates.h"
#include "shared/cli/model_source.h"
#include "shared/device/device_kind.h"
#include "shared/framework/framework_stages.h"
#include "shared/lower/plan_size.h"
#include "shared/numbers/checked.h"
#include "sim/cost/cost_model.h"

/* --- shared parts by key --- */

enum { BUCKETS = 4096 };

struct entry {
    struct entry *next;
    const void *key;
    size_t size;
    void *value;
};

struct shelf {
    struct entry *bucket[BUCKETS];
};

static uint32_t place_of(const void *key, size_t size)
{
    const unsigned char *b = key;
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < size; i++)
        h = (h ^ b[i]) * 16777619u;
    return h % BUCKETS;
}

static void *take(const struct shelf *s, const void *key, size_t size)
{
    const struct entry *e = s->bucket[place_of(key, size)];

    while (e && (e->size != size || memcmp(e->key, key, size) != 0))
        e = e->next;
    return e ? e->value : NULL;
}

static enum lw_status keep(struct shelf *s, struct lw_arena *a, const void *key, size_t size,
                           void *value, struct lw_err *err)
{
    struct entry *e = lw_arena_alloc(a, 1, sizeof *e);
    unsigned char *copy = lw_arena_alloc(a, (int64_t)size, 1);
    uint32_t at = place_of(key, size);

    if (!e || !copy)
        return lw_fail_nomem(err);
    memcpy(copy, key, size);
    *e = (struct entry){s->bucket[at], copy, size, value};
    s->bucket[at] = e;
    return LW_OK;
}

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

struct order { /* of a schedule */
    struct lw_grid grid;
    struct lw_tune_chain chain;
    struct lw_err why; /* there is none */
    bool by_halves;
    bool pairs; /* has units of a forward and a backward */
    int32_t *first, *held;
    int32_t *before, *first_back, *halves; /* lw_tune_parts */
    struct counts *after; /* by the places of held: actions from the first backward on that is the
                           * last one of its part */
    int32_t *gathers; /* by the places of held: of the part's last module, which ZeRO-3 keeps from a
                       * forward to the next action of the part */
};

struct counts {
    int32_t forward, backward, input, weight;
};

struct lw_tune_context {
    struct lw_tune_request r;
    pthread_mutex_t lock; /* of the shared parts and their arena; what is there does not change */
    struct lw_arena arena;
    struct shelf models; /* as strategies were given; those of `made` */
    struct shelf made, shapes, orders, reaches, divisions;
    const struct lw_framework *framework; /* of all that is made; NULL = not known yet, or none */
    struct lw_cost cost;
    struct lw_cluster cluster; /* placed: a shallow copy */
    int64_t ranks_placed;
    bool unbounded;            /* a device is faster than the others */
    bool on_cpu;
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
    c->on_cpu = r->cluster->device.kind && lw_device_is_cpu(r->cluster->device.kind);
    for (int32_t i = 0; i < r->cluster->n_exceptions; i++)
        c->unbounded |= r->cluster->exceptions[i].speed > 1;
    *out = c;
    return LW_OK;
}

static void free_all(const struct shelf *s, void (*free_one)(void *value))
{
    for (int i = 0; i < BUCKETS; i++)
        for (const struct entry *e = s->bucket[i]; e; e = e->next)
            free_one(e->value);
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
    lw_grid_free(&((struct order *)value)->grid);
}

void lw_tune_context_free(struct lw_tune_context *c)
{
    if (!c)
        return;
    free_all(&c->shapes, free_shape);
    free_all(&c->orders, free_order);
    free_all(&c->made, free_model);
    lw_arena_free(&c->arena);
    pthread_mutex_destroy(&c->lock);
    lw_free(c);
}

/* --- a model --- */

/* What a workload is made from: of a strategy as it was given or, of a model, with the framework's
 * options. */
struct model_key {
    int64_t tp, cp, ep, etp, sequence_parallel, tp_overlap, grad_dtype, reduced, zero, schedule,
        compat, again_parts;
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
    LW_TRY(lw_framework_strategy(c->framework, c->on_cpu, &completed, err));
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
        lw_model_is_set(&m->w.from.model))
        c->framework = &m->source.framework;
    if (st == LW_OK)
        st = made_key(c, given, &k, err);
    if (st == LW_OK)
        st = keep(&c->made, &c->arena, &k, sizeof k, m, err);
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

    *out = take(&c->models, &k, sizeof k);
    if (*out)
        return LW_OK;
    LW_TRY(made_key(c, given, &made, err));
    *out = take(&c->made, &made, sizeof made);
    if (!*out)
        LW_TRY(new_model(c, given, out, err));
    return keep(&c->models, &c->arena, &k, sizeof k, *out, err);
}

/* --- a schedule --- */

struct order_key {
    int64_t schedule, pp, chunks, micro_batches;
};

/* Where the first backward begins that is the last one of its part. */
static int32_t first_last(const struct lw_grid *g, int32_t rank, int32_t *left)
{
    for (int32_t q = 0; q < g->n_stages; q++)
        left[q] = 0;
    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++)
        left[g->actions[i].stage] += g->actions[i].kind == LW_OP_BACKWARD ||
                                     g->actions[i].kind == LW_OP_BACKWARD_WEIGHT;
    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++) {
        bool ends = g->actions[i].kind == LW_OP_BACKWARD ||
                    g->actions[i].kind == LW_OP_BACKWARD_WEIGHT;
        if (ends && --left[g->actions[i].stage] == 0)
            return i;
    }
    return g->first[rank + 1];
}

static int32_t place_of_part(const struct order *o, int32_t rank, int32_t part)
{
    int32_t at = o->first[rank];

    while (at < o->first[rank + 1] && o->held[at] != part)
        at++;
    return at;
}

static enum lw_status count_halves(struct order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;

    LW_TAKE(a, o->halves, o->first[g->n_ranks] + 1, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++)
            o->halves[place_of_part(o, r, g->actions[i].stage)] +=
                g->actions[i].kind == LW_OP_BACKWARD_INPUT;
    return LW_OK;
}

static enum lw_status count_after(struct order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;
    int32_t *left;

    LW_TAKE(a, o->after, o->first[g->n_ranks] + 1, err);
    LW_TAKE(a, left, g->n_stages, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t i = first_last(g, r, left); i < g->first[r + 1]; i++) {
            int32_t at = place_of_part(o, r, g->actions[i].stage);
            o->after[at].forward += g->actions[i].kind == LW_OP_FORWARD;
            o->after[at].backward += g->actions[i].kind == LW_OP_BACKWARD;
            o->after[at].input += g->actions[i].kind == LW_OP_BACKWARD_INPUT;
            o->after[at].weight += g->actions[i].kind == LW_OP_BACKWARD_WEIGHT;
        }
    return LW_OK;
}

static enum lw_status count_before(struct order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;

    LW_TAKE(a, o->before, o->first[g->n_ranks] + 1, err);
    LW_TAKE(a, o->first_back, g->n_ranks, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++) {
            o->first_back[r] = g->actions[i].stage;
            if (g->actions[i].kind != LW_OP_FORWARD)
                break;
            o->before[place_of_part(o, r, g->actions[i].stage)]++;
        }
    return LW_OK;
}

static enum lw_status count_gathers(struct order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;

    LW_TAKE(a, o->gathers, o->first[g->n_ranks] + 1, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t at = o->first[r]; at < o->first[r + 1]; at++) {
            bool there = false;
            for (int32_t i = g->first[r]; i < g->first[r + 1]; i++) {
                const struct lw_action *x = &g->actions[i];
                if (x->stage != o->held[at] || x->kind == LW_OP_BACKWARD_WEIGHT)
                    continue;
                o->gathers[at] += !there;
                there = x->kind == LW_OP_FORWARD;
            }
        }
    return LW_OK;
}

static enum lw_status list_parts(struct order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;
    bool both = g->layout == LW_LAYOUT_BIDIR;
    int32_t n = 0;

    LW_TAKE(a, o->first, g->n_ranks + 1, err);
    LW_TAKE(a, o->held, (both ? 2 : 1) * (int64_t)g->n_stages, err);
    for (int32_t r = 0; r < g->n_ranks; r++) {
        o->first[r] = n;
        for (int32_t q = 0; q < g->n_stages; q++)
            if (lw_grid_rank_of(g, q, 0) == r ||
                (both && lw_grid_rank_of(g, q, g->n_micro_batches - 1) == r))
                o->held[n++] = q;
    }
    o->first[g->n_ranks] = n;
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++) {
        o->by_halves |= g->actions[i].kind == LW_OP_BACKWARD_INPUT;
        o->pairs |= g->actions[i].with_next;
    }
    LW_TRY(count_halves(o, a, err));
    LW_TRY(both ? LW_OK : count_before(o, a, err));
    LW_TRY(both ? LW_OK : count_gathers(o, a, err));
    return both ? LW_OK : count_after(o, a, err);
}

/* In the arena; on failure with no grid. */
static enum lw_status make_order(struct lw_tune_context *c, const struct order_key *k,
                                 struct order *o, struct lw_err *err)
{
    const struct lw_schedule_shape shape = {
        .schedule = (enum lw_schedule)k->schedule, .n_ranks = (int32_t)k->pp,
        .n_micro_batches = (int32_t)k->micro_batches, .n_chunks = (int32_t)k->chunks};
    enum lw_status st = LW_OK;

    if (lw_schedule_grid(&shape, &o->grid, &o->why) == LW_OK) {
        st = list_parts(o, &c->arena, err);
        if (st == LW_OK)
            st = lw_tune_chain_make(&o->grid, &c->arena, &o->chain, err);
    }
    if (st == LW_OK)
        st = keep(&c->orders, &c->arena, k, sizeof *k, o, err);
    if (st != LW_OK)
        lw_grid_free(&o->grid);
    return st;
}

static enum lw_status order_of(struct lw_tune_context *c, const struct lw_strategy *s,
                               struct order **out, struct lw_err *err)
{
    bool alone = s->pp == 1;
    const struct order_key k = {alone ? (int64_t)LW_SCHEDULE_1F1B : (int64_t)s->schedule, s->pp,
                                alone ? 1 : s->chunks, s->micro_batches};
    struct order *o = take(&c->orders, &k, sizeof k);

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
static bool tokens_block(const struct lw_strategy *s, const struct order *o)
{
    return !lw_strategy_overlaps_experts(s, NULL) ||
           (s->expert_overlap == LW_EXPERT_OVERLAP_AUTO && !o->pairs &&
            !lw_schedule_combines_calls(s->schedule));
}

static struct shape_key key_of_shape(const struct lw_strategy *s, const struct lw_workload *w,
                                     const struct order *o)
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
                               const struct lw_strategy *s, const struct order *o,
                               struct shape **out, struct lw_err *err)
{
    const struct shape_key k = key_of_shape(s, w, o);
    struct shape *x = take(&c->shapes, &k, sizeof k);

    *out = x;
    if (x)
        return LW_OK;
    if (!(x = lw_arena_alloc(&c->arena, 1, sizeof *x)))
        return lw_fail_nomem(err);
    x->strategy = *s;
    x->strategy.partition_list = NULL;
    LW_TRY(lw_outline_make(w, &x->strategy, o->by_halves, k.tokens != 0, &c->cost, &x->outline,
                           err));
    enum lw_status st = keep(&c->shapes, &c->arena, &k, sizeof k, x, err);
    if (st != LW_OK)
        free_shape(x);
    *out = x;
    return st;
}

/* --- a partition --- */

struct division { /* of a shape's modules over an order's stages */
    int32_t *first; /* [stages + 1] modules */
    struct lw_err why; /* there is none */
};

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
                                           const struct order *o)
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
                                  const struct shape *x, const struct order *o,
                                  const struct division **out, struct lw_err *err)
{
    const struct division_key k = key_of_division(s, x, o);
    struct division *d = take(&c->divisions, &k, sizeof k);

    *out = shares_division(s) ? d : NULL;
    if (d || !shares_division(s))
        return LW_OK;
    if (!(d = lw_arena_alloc(&c->arena, 1, sizeof *d)))
        return lw_fail_nomem(err);
    LW_TAKE(&c->arena, d->first, o->grid.n_stages + 1, err);
    if (lw_outline_cut(&x->outline, s, &o->grid, &c->cost, d->first, &d->why) == LW_ENOMEM)
        return lw_fail_nomem(err);
    *out = d;
    return keep(&c->divisions, &c->arena, &k, sizeof k, d, err);
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
    struct lw_tune_group *x = take(&c->reaches, &k, sizeof k);
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
    return keep(&c->reaches, &c->arena, &k, sizeof k, x, err);
}

static int64_t reduced_bytes(const struct lw_strategy *s, const struct lw_outline_sum *x,
                             bool weights)
{
    int64_t bytes = 0;

    for (int t = 0; t < LW_N_DTYPES; t++) {
        enum lw_dtype own = (enum lw_dtype)t, grad = lw_strategy_grad_dtype(s, own);
        enum lw_dtype wire = weights ? own : lw_strategy_wire_dtype(s, grad);
        bytes += x->reduced[t] * lw_dtype_size(wire);
    }
    return bytes;
}

/* --- one strategy --- */

/* As lw_plan_source_load does: the framework's options, micro-batches, stages. */
static enum lw_status complete(const struct lw_tune_context *c, const struct model *m,
                               const struct lw_strategy *given, struct lw_strategy *s, char *list,
                               size_t size, struct lw_err *err)
{
    const struct lw_framework *f = &m->source.framework;
    bool on_cpu = c->on_cpu;

    *s = *given;
    LW_TRY(lw_framework_strategy(f, on_cpu, s, err));
    LW_TRY(lw_global_batch_divide(c->r.source->global_batch, &m->w, s, err));
    LW_TRY(lw_framework_strategy(f, on_cpu, s, err));
    LW_TRY(lw_strategy_check(s, err));
    const char *refusal = lw_framework_refusal(f, &m->w.dims, s);
    if (refusal)
        return lw_fail(err, LW_ENOTSUP, "framework '%s': %s", f->name, refusal);
    if (lw_framework_stages(f, &m->w.dims, s, list, size)) {
        s->partition = LW_PARTITION_EXPLICIT;
        s->partition_list = list;
    }
    return LW_OK;
}

struct cut {
    struct lw_arena arena;
    struct lw_tune_parts parts;
    int32_t *first; /* modules of parts */
    lw_ps *reduce, *after, *gather, *data;
};

static void put_after(const struct order *o, const struct lw_outline_sum *part, struct cut *out)
{
    for (int32_t i = 0; i < o->first[o->grid.n_ranks]; i++) {
        const struct counts *n = &o->after[i];
        const struct lw_outline_sum *x = &part[o->held[i]];
        out->after[i] = n->forward * x->forward + n->backward * x->backward + n->input * x->input +
                        n->weight * x->weight;
    }
}

/* ZeRO-3 that gathers each module's weights for each forward and again for each backward. The last
 * module of a part stays gathered after its forward, for whatever comes next. Two parts of a rank
 * that share a module's weights (a V of stages) are left out. */
static bool gathers_twice(const struct order *o, const struct lw_strategy *s)
{
    return lw_tune_units_are_modules(s) && s->reshard && o->grid.layout == LW_LAYOUT_LOOP;
}

/* The gathers of a part, `last` of them of its last module: a unit is one module's. */
static lw_ps gathers_of(const struct lw_tune_group *reach, const struct lw_strategy *s,
                        const struct lw_outline *o, int32_t from, int32_t to, int32_t last)
{
    lw_ps sum = 0;

    for (int32_t m = from; m < to; m++) {
        const struct lw_outline_sum x = lw_outline_of(o, m, m + 1);
        int64_t bytes = reduced_bytes(s, &x, true);
        int64_t all = lw_mul_sat(bytes, m + 1 == to ? last : 2 * s->micro_batches);
        sum = lw_add_sat(sum, lw_tune_least_time_of(&reach->gather, all, bytes));
    }
    return sum;
}

/* Of rank r in a step, one after the other: gathers of weights for what it computes, and what is
 * reduced, in a pipeline once, else after each micro-batch where gradients are not kept. */
static lw_ps data_of(const struct order *o, const struct lw_strategy *s,
                     const struct lw_tune_group *reach, const struct lw_outline *outline,
                     int32_t r, const struct cut *k)
{
    bool each = s->pp == 1 && s->zero >= 2 && s->no_sync == 0;
    lw_ps sum = 0;

    for (int32_t i = o->first[r]; i < o->first[r + 1]; i++) {
        const int32_t *first = &k->first[o->held[i]];
        int32_t last = s->pp > 1 ? o->gathers[i] : (int32_t)s->micro_batches;
        sum = lw_add_sat(sum, lw_mul_sat(k->reduce[i], each ? s->micro_batches : 1));
        if (gathers_twice(o, s))
            sum = lw_add_sat(sum, gathers_of(reach, s, outline, first[0], first[1], last));
    }
    return sum;
}

/* The larger of what all bytes take in pieces of any size, and of what they take in buckets. */
static void put_reduce(const struct order *o, const struct lw_strategy *s,
                       const struct lw_tune_group *reach, const struct lw_outline_sum *part,
                       const struct lw_tune_pieces *pieces, struct cut *out)
{
    const struct lw_tune_rates *rates = s->zero > 0 ? &reach->scatter : &reach->sum;

    for (int32_t i = 0; i < o->first[o->grid.n_ranks]; i++) {
        int32_t q = o->held[i];
        lw_ps any = lw_tune_least_time(rates, reduced_bytes(s, &part[q], false));
        out->reduce[i] = pieces && pieces[q].reduce > any ? pieces[q].reduce : any;
    }
}

/* The weights of a rank's parts, all of them once, after the update or ahead of it. */
static lw_ps gather_of(const struct order *o, const struct lw_strategy *s,
                       const struct lw_tune_group *reach, const struct lw_outline_sum *part,
                       const struct lw_tune_pieces *pieces, int32_t r)
{
    int64_t weights = 0;
    lw_ps cut = 0;

    for (int32_t i = o->first[r]; i < o->first[r + 1]; i++) {
        weights += reduced_bytes(s, &part[o->held[i]], true);
        cut = lw_add_sat(cut, pieces ? pieces[o->held[i]].gather : 0);
    }
    lw_ps any = lw_tune_least_time(&reach->gather, weights);
    return cut > any ? cut : any;
}

/* reach: NULL = its collectives count as nothing. pieces: [n_parts]; NULL = of any size. */
static enum lw_status put_data(const struct order *o, const struct lw_strategy *s,
                               const struct lw_tune_group *reach, const struct lw_outline *outline,
                               const struct lw_outline_sum *part,
                               const struct lw_tune_pieces *pieces, struct cut *out,
                               struct lw_err *err)
{
    bool gathers = (s->zero == 1 || s->zero == 2) && s->broadcast_dtype == LW_F32;

    LW_TAKE(&out->arena, out->reduce, o->first[o->grid.n_ranks] + 1, err);
    LW_TAKE(&out->arena, out->after, o->first[o->grid.n_ranks] + 1, err);
    LW_TAKE(&out->arena, out->gather, o->grid.n_ranks, err);
    LW_TAKE(&out->arena, out->data, o->grid.n_ranks, err);
    if (!reach)
        return LW_OK;
    put_after(o, part, out);
    put_reduce(o, s, reach, part, pieces, out);
    for (int32_t r = 0; r < o->grid.n_ranks; r++) {
        lw_ps gather = gathers ? gather_of(o, s, reach, part, pieces, r) : 0;
        out->data[r] = data_of(o, s, reach, outline, r, out);
        if (s->overlap_param_gather)
            out->data[r] = lw_add_sat(out->data[r], gather);
        else
            out->gather[r] = gather;
    }
    return LW_OK;
}

/* The last module that is repeated: those after it have given back what they keep. */
static int64_t repeated_first(const struct lw_outline *o, int32_t from, int32_t to)
{
    const struct lw_outline_sum *before = o->sum; /* of each module */

    for (int32_t m = to - 1; m >= from; m--) {
        int64_t regained = before[m + 1].regained - before[m].regained;
        if (regained > 0)
            return regained - (before[to].kept - before[m + 1].kept);
    }
    return 0;
}

/* What a strategy shares with others. */
struct shared {
    struct order *order;
    struct shape *shape;
    const struct lw_tune_group *reach; /* NULL: its collectives count as nothing */
    const struct division *division;   /* NULL: its own */
};

static enum lw_status divide(const struct lw_tune_context *c, const struct shared *of,
                             const struct lw_strategy *s, int32_t *first, struct lw_err *err)
{
    const struct division *d = of->division;

    if (!d)
        return lw_outline_cut(&of->shape->outline, s, &of->order->grid, &c->cost, first, err);
    if (d->why.code != LW_OK)
        *err = d->why;
    else
        memcpy(first, d->first, ((size_t)of->order->grid.n_stages + 1) * sizeof *first);
    return d->why.code;
}

/* Of a unit one action runs beside the all-to-alls of the other. */
static bool mixes_units(const struct lw_strategy *s, const struct order *o)
{
    return o->pairs && lw_strategy_overlaps_experts(s, NULL);
}

static enum lw_status cut_parts(const struct lw_tune_context *c, const struct shared *of,
                                const struct lw_strategy *s, bool fine, struct cut *out,
                                struct lw_err *err)
{
    const struct shape *x = of->shape;
    const struct order *o = of->order;
    const struct lw_tune_group *reach = of->reach;
    struct lw_tune_pieces *pieces = NULL;
    struct lw_outline_sum *part;
    int64_t *again;
    lw_ps *optimizer, *ahead;

    LW_TAKE(&out->arena, again, o->grid.n_stages, err);
    LW_TAKE(&out->arena, ahead, o->grid.n_stages, err);
    LW_TAKE(&out->arena, out->first, o->grid.n_stages + 1, err);
    LW_TAKE(&out->arena, part, o->grid.n_stages, err);
    LW_TAKE(&out->arena, optimizer, o->grid.n_ranks, err);
    LW_TRY(divide(c, of, s, out->first, err));
    for (int32_t q = 0; q < o->grid.n_stages; q++) {
        part[q] = lw_outline_of(&x->outline, out->first[q], out->first[q + 1]);
        again[q] = repeated_first(&x->outline, out->first[q], out->first[q + 1]);
        const struct lw_outline_sum *end = &x->outline.sum[out->first[q + 1]];
        ahead[q] = end->again - end[-1].again;
    }
    bool mirrored = o->grid.layout == LW_LAYOUT_BIDIR;
    for (int32_t r = 0; r < o->grid.n_ranks; r++) {
        struct lw_outline_sum sum = {0};
        for (int32_t i = o->first[r]; i < o->first[r + 1]; i++)
            sum.trained += part[o->held[i]].trained;
        optimizer[r] = lw_outline_optimizer(&x->outline, s, &sum,
                                            lw_tune_copies(&x->outline, s, mirrored));
    }
    if (fine && reach && !mirrored) {
        LW_TAKE(&out->arena, pieces, o->grid.n_stages, err);
        LW_TRY(lw_tune_pieces_of(&x->outline, s, reach, out->first, o->grid.n_stages, pieces,
                                 err));
    }
    LW_TRY(put_data(o, s, mirrored ? NULL : reach, &x->outline, part, pieces, out, err));
    out->parts = (struct lw_tune_parts){
        .n_parts = o->grid.n_stages, .n_ranks = o->grid.n_ranks, .part = part, .first = o->first,
        .held = o->held, .optimizer = optimizer, .ahead = ahead, .reduce = out->reduce,
        .after = out->after, .gather = out->gather, .before = o->before,
        .first_back = o->first_back, .halves = o->halves, .data = out->data, .again = again,
        .by_halves = o->by_halves, .mirrored = mirrored, .mixed = mixes_units(s, o),
        .n_micro_batches = s->micro_batches};
    return LW_OK;
}

static enum lw_status stages_of(const struct shape *x, const struct order *o, struct cut *k,
                                int32_t **out, struct lw_err *err)
{
    LW_TAKE(&k->arena, *out, x->outline.n_modules, err);
    for (int32_t q = 0; q < o->grid.n_stages; q++)
        for (int32_t m = k->first[q]; m < k->first[q + 1]; m++)
            (*out)[m] = lw_grid_rank_of(&o->grid, q, 0);
    return LW_OK;
}

/* Between two nodes or inside one, whichever is faster. */
static lw_ps message_time(const struct lw_tune_context *c, enum lw_dtype dtype, int64_t bytes)
{
    struct lw_cost_query q = {.op = LW_OP_SEND, .dtype = dtype, .bytes = bytes, .n_ranks = 2,
                              .n_nodes = 1, .fewest = 2};
    lw_ps inside = c->cost.time(c->cost.ctx, &q);

    q.n_nodes = 2;
    q.fewest = 1;
    lw_ps between = c->cost.time(c->cost.ctx, &q), least = between < inside ? between : inside;
    return bytes > 0 && least > 0 ? least : 0;
}

/* Of values from each part to the next one. */
static enum lw_status messages_of(const struct lw_tune_context *c, const struct shape *x,
                                  const struct order *o, const struct lw_strategy *s,
                                  struct cut *k, lw_ps **out, struct lw_err *err)
{
    const struct lw_outline *of = &x->outline;
    bool scattered = s->scatter_gather && !s->sequence_parallel && s->tp > 1;
    enum lw_dtype dtype = of->n_params > 0 ? of->params[0].dtype : LW_F32;

    LW_TAKE(&k->arena, *out, o->grid.n_stages, err);
    for (int32_t q = 0; q + 1 < o->grid.n_stages; q++) {
        int64_t whole = of->modules[k->first[q + 1] - 1].output_bytes;
        if (lw_grid_rank_of(&o->grid, q, 0) != lw_grid_rank_of(&o->grid, q + 1, 0))
            (*out)[q] = message_time(c, dtype, scattered ? (whole + s->tp - 1) / s->tp : whole);
    }
    return LW_OK;
}

/* Of actions that run one after the other, each in the order of its schedule. */
static bool has_chain(const struct order *o, const struct lw_strategy *s)
{
    return o->chain.n > 0 && !s->expert_overlap && !mixes_units(s, o) &&
           !lw_schedule_combines_calls(s->schedule);
}

/* Bounds of a strategy whose shared parts are there. */
static enum lw_status bounds(const struct lw_tune_context *c, const struct model *m,
                             const struct shared *of, const struct lw_strategy *s, bool memory,
                             struct lw_tune_case *out, struct lw_err *err)
{
    const struct shape *x = of->shape;
    const struct order *o = of->order;
    struct cut k = {{0}};
    int32_t *stage_of;
    int64_t needed = -1;
    lw_ps bound = 0;
    enum lw_status st = cut_parts(c, of, s, memory, &k, err);

    if (st == LW_OK && memory && has_chain(o, s)) {
        lw_ps *message;
        st = messages_of(c, x, o, s, &k, &message, err);
        if (st == LW_OK)
            st = lw_tune_chain_bound(&o->chain, &k.parts, message, &bound, err);
    } else if (st == LW_OK) {
        bound = lw_tune_step_bound(&k.parts);
    }
    if (st == LW_OK && memory) {
        st = stages_of(x, o, &k, &stage_of, err);
        if (st == LW_OK)
            st = lw_tune_memory_bound(&k.parts, &o->grid, &x->outline, s, &m->source.framework,
                                      &c->cluster.device, stage_of, &needed, err);
    }
    if (st == LW_OK)
        *out = (struct lw_tune_case){.bound = c->unbounded ? 0 : bound, .needed_bytes = needed,
                                     .most_ops = lw_plan_size_estimate(&m->w, s).ops};
    lw_arena_free(&k.arena);
    return st;
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
                                 const struct lw_strategy *s, struct shared *x, struct lw_err *err)
{
    LW_TRY(lw_outline_check(&m->w, s, err));
    LW_TRY(order_of(c, s, &x->order, err));
    LW_TRY(shape_of(c, &m->w, s, x->order, &x->shape, err));
    LW_TRY(division_of(c, s, x->shape, x->order, &x->division, err));
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
    struct shared x = {0};
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
    LW_TRY(bounds(c, m, &x, &resolved, memory, out, err));
    out->selects_nothing = s.recompute == LW_RECOMPUTE_SELECTIVE &&
                           lw_workload_selects_nothing(&m->w);
    keep_last(c, last, &as_given, &sizeless, out);
    return LW_OK;
}
