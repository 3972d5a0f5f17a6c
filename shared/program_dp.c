/* Data parallelism, decided: which gradients are reduced, in which buckets and order, which passes a
 * run is made of; and the plan's tables. Ranks are alike, so there is one role.
 *
 * Invariants: a gradient is reduced when its parameter is trainable, not ignored and the first of a
 * tied set; each is in one bucket of every set. Passes: K accumulating ones before each synchronised
 * one; the initial buckets for as many synchronised passes as the policy says, the rebuilt ones ever
 * after. Not modelled: the memory of activations and of optimizer state, which no workload tells. */
#include "shared/program_dp.h"

#include <stdio.h>
#include <string.h>

#include "shared/compat.h"

#define BROADCAST_LIMIT_BYTES (INT64_C(250) << 20) /* of one coalesced broadcast, as in c10d */

enum lw_dtype lw_dp_wire_dtype(const struct lw_strategy *s, enum lw_dtype grad)
{
    if (s->comm_hook == LW_HOOK_FP16)
        return LW_F16;
    return s->comm_hook == LW_HOOK_BF16 ? LW_BF16 : grad;
}

/* ColossalAI's handler runs after the backward and takes the gradients that exist. */
static bool is_reduced(const struct lw_dp *d, const struct lw_param *p)
{
    if (d->s->bucket_policy == LW_BUCKET_COLOSSAL && !p->used)
        return false;
    return p->trainable && !p->ignored && p->tied < 0;
}

/* --- gradients ---------------------------------------------------------------------------------- */

static enum lw_status list_gradients(struct lw_dp *d, struct lw_err *err)
{
    const struct lw_workload *w = d->w;
    int32_t n = 0;

    d->grads = lw_calloc((size_t)w->n_params, sizeof *d->grads);
    d->param_of = lw_arena_alloc(&d->arena, w->n_params, sizeof *d->param_of);
    d->grad_of = lw_arena_alloc(&d->arena, w->n_params, sizeof *d->grad_of);
    d->order = lw_arena_alloc(&d->arena, w->n_params, sizeof *d->order);
    d->unused = lw_arena_alloc(&d->arena, w->n_params, sizeof *d->unused);
    if (!d->grads || !d->param_of || !d->grad_of || !d->order || !d->unused)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        d->grad_of[i] = -1;
        if (d->s->dp == 1 || !is_reduced(d, p))
            continue;
        d->grad_of[i] = d->n_grads;
        d->param_of[d->n_grads] = i;
        d->grads[d->n_grads++] = (struct lw_grad){
            p->numel, lw_strategy_grad_dtype(d->s, p->dtype), p->device, p->sparse};
    }
    for (int32_t i = 0; i < d->back.n_ready; i++)
        if (d->grad_of[d->back.ready[i]] >= 0)
            d->order[n++] = d->grad_of[d->back.ready[i]];
    for (int32_t g = 0; g < d->n_grads; g++) {
        if (lw_param_has_gradient(&w->params[d->param_of[g]]))
            continue;
        d->unused[d->n_unused++] = d->param_of[g];
        d->order[n++] = g;
    }
    return LW_OK;
}

/* --- buckets ------------------------------------------------------------------------------------ */

/* Buffers that rank 0 sends before a synchronised forward, coalesced as one would bucket them. */
static enum lw_status coalesce_buffers(struct lw_dp *d, struct lw_err *err)
{
    /* FairScale sends them one by one */
    const int64_t limit = d->s->compat == LW_COMPAT_FAIRSCALE ? 0 : BROADCAST_LIMIT_BYTES;
    struct lw_grad *as_grads = lw_arena_alloc(&d->arena, d->w->n_buffers, sizeof *as_grads);

    d->buffer_of = lw_arena_alloc(&d->arena, d->w->n_buffers, sizeof *d->buffer_of);
    if (!as_grads || !d->buffer_of)
        return lw_fail_nomem(err);
    for (int32_t i = 0; d->s->dp > 1 && i < d->w->n_buffers; i++) {
        if (!d->w->buffers[i].broadcast)
            continue;
        d->buffer_of[d->n_buffers] = i;
        as_grads[d->n_buffers++] =
            (struct lw_grad){d->w->buffers[i].numel, d->w->buffers[i].dtype, 0, false};
    }
    if (d->n_buffers == 0)
        return LW_OK;
    return lw_bucket_assign_c10d(as_grads, d->n_buffers, NULL, &limit, 1, &d->buffers, err);
}

static void add_set(struct lw_dp *d, struct lw_dp_set *set)
{
    const struct lw_bucketing *k = &set->buckets;

    if (!set->name)
        return;
    lw_builder_set(d->b, set->name, 0);
    for (int32_t b = 0; b < k->n_buckets; b++) {
        enum lw_dtype wire = lw_dp_wire_dtype(d->s, set->dtype[b]);
        struct lw_bucket bucket = {
            .dtype = wire,
            .bytes = set->elements[b] * lw_dtype_size(wire),
            .limit_bytes = k->limit_bytes[b] == LW_BUCKET_NO_LIMIT ? 0 : k->limit_bytes[b]};
        int32_t number = lw_builder_bucket(d->b, &bucket, NULL, 0);
        int64_t at = 0;
        for (int32_t i = k->first[b]; i < k->first[b + 1]; i++) {
            int32_t param = d->param_of[k->items[i]];
            lw_builder_slot(d->b, &(struct lw_slot){param, at});
            at += d->w->params[param].numel;
        }
        if (b == 0)
            set->first_bucket = number;
    }
}

/* --- tables ------------------------------------------------------------------------------------- */

static void add_model(struct lw_dp *d)
{
    const struct lw_workload *w = d->w;

    for (int32_t m = 0; m < w->n_modules; m++)
        lw_builder_module(d->b, 0);
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        struct lw_plan_param q = {.name = p->name, .numel = p->numel, .dtype = p->dtype,
                                  .stage = 0, .module = p->module, .device = p->device,
                                  .tied = p->tied, .trainable = p->trainable,
                                  .sparse = p->sparse, .used = p->used, .ignored = p->ignored};
        lw_builder_param(d->b, &q);
        if (d->shards.n == 0 && p->trainable && p->tied < 0)
            lw_builder_shard(d->b, &(struct lw_shard){i, -1, 0, p->numel});
    }
    for (int32_t i = 0; i < w->n_buffers; i++)
        lw_builder_buffer(d->b, &(struct lw_plan_buffer){w->buffers[i].name, w->buffers[i].numel,
                                                         w->buffers[i].dtype,
                                                         w->buffers[i].broadcast});
}

static int64_t set_bytes(const struct lw_dp_set *set)
{
    int64_t bytes = 0;

    for (int32_t b = 0; set->name && b < set->buckets.n_buckets; b++)
        bytes += set->elements[b] * lw_dtype_size(set->dtype[b]);
    return bytes;
}

static struct lw_role role_of_all(const struct lw_dp *d)
{
    struct lw_role r = {.name = "data"};
    const struct lw_workload *w = d->w;

    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        if (p->tied >= 0)
            continue;
        r.static_bytes[LW_MEM_PARAMS] += p->numel * lw_dtype_size(p->dtype);
        if (p->trainable)
            r.static_bytes[LW_MEM_GRADS] +=
                p->numel * lw_dtype_size(lw_strategy_grad_dtype(d->s, p->dtype));
    }
    for (int32_t i = 0; i < w->n_buffers; i++)
        r.static_bytes[LW_MEM_PARAMS] += w->buffers[i].numel * lw_dtype_size(w->buffers[i].dtype);
    r.static_bytes[LW_MEM_BUCKETS] = set_bytes(&d->initial);
    return r;
}

static enum lw_status add_ranks(struct lw_dp *d, struct lw_err *err)
{
    int32_t n = (int32_t)d->s->dp;
    struct lw_role role = role_of_all(d);
    int32_t *members = lw_arena_alloc(&d->arena, n, sizeof *members);

    if (!members)
        return lw_fail_nomem(err);
    lw_builder_role(d->b, &role);
    for (int32_t r = 0; r < n; r++) {
        lw_builder_rank(d->b, r, 0, r, 0, 0);
        members[r] = r;
    }
    d->compute = lw_builder_stream(d->b, "compute", LW_STREAM_COMPUTE, 0);
    d->comm = d->copy = d->data = -1;
    if (n == 1)
        return LW_OK;
    d->comm = lw_builder_stream(d->b, "comm", LW_STREAM_COMM, 1);
    if (d->s->comm_hook != LW_HOOK_NONE)
        d->copy = lw_builder_stream(d->b, "copy", LW_STREAM_COPY, 1);
    d->data = lw_builder_comm(d->b, "data", LW_COMM_DATA, d->s->reducer, d->comm);
    lw_builder_group(d->b, d->data, members, n);
    return LW_OK;
}

/* Share of `whole` that lies in [from, to) of `length`; shares of a partition sum to the whole. */
static int64_t share(int64_t whole, lw_ps from, lw_ps to, lw_ps length)
{
    if (whole < 0 || length <= 0)
        return whole < 0 ? -1 : 0;
    return (int64_t)((__int128)whole * to / length) - (int64_t)((__int128)whole * from / length);
}

/* The share of the member with the most elements, rounded up. */
static lw_ps optimizer_ps(const struct lw_dp *d)
{
    const struct lw_dp_shards *h = &d->shards;

    if (h->n_elements == 0)
        return d->w->optimizer_ps;
    return (lw_ps)(((__int128)d->w->optimizer_ps * h->most_owned + h->n_elements - 1) /
                   h->n_elements);
}

static enum lw_status add_works(struct lw_dp *d, struct lw_err *err)
{
    const struct lw_workload *w = d->w;
    lw_ps window = 0;
    int32_t module = w->n_modules;

    d->forward_work = lw_arena_alloc(&d->arena, w->n_modules, sizeof *d->forward_work);
    d->stretch_work = lw_arena_alloc(&d->arena, d->back.n_stretches, sizeof *d->stretch_work);
    if (!d->forward_work || !d->stretch_work)
        return lw_fail_nomem(err);
    for (int32_t m = 0; m < w->n_modules; m++)
        d->forward_work[m] =
            lw_builder_work(d->b, &(struct lw_work){w->modules[m].forward_ps,
                                                    w->modules[m].forward_flops,
                                                    w->modules[m].forward_bytes});
    for (int32_t i = 0; i < d->back.n_stretches; i++) {
        const struct lw_stretch *s = &d->back.stretches[i];
        const struct lw_module *m = &w->modules[s->module];
        lw_ps length = m->backward_input_ps + m->backward_weight_ps;
        if (s->module != module)
            window = s->start;
        module = s->module;
        int64_t flops = m->forward_flops <= INT64_MAX / 2 ? 2 * m->forward_flops : INT64_MAX;
        d->stretch_work[i] = lw_builder_work(
            d->b, &(struct lw_work){s->end - s->start,
                                    share(m->forward_flops < 0 ? -1 : flops, s->start - window,
                                          s->end - window, length), -1});
    }
    d->optimizer_work = lw_builder_work(d->b, &(struct lw_work){optimizer_ps(d), -1, -1});
    return LW_OK;
}

/* --- passes ------------------------------------------------------------------------------------- */

static void add_cycle(struct lw_dp *d, int32_t accumulate, int32_t synchronised)
{
    for (int64_t k = 0; k < d->s->no_sync; k++)
        lw_builder_pass(d->b, accumulate);
    lw_builder_pass(d->b, synchronised);
}

static enum lw_status add_passes(struct lw_dp *d, struct lw_err *err)
{
    const struct lw_bucket_rules *r = &d->rules;
    const struct lw_dp_set *first_set = d->initial.name ? &d->initial : NULL;
    enum lw_used_map each = r->used_map == LW_MAP_EACH ? LW_MAP_EACH : LW_MAP_NEVER;
    struct lw_dp_pass first = {"first", first_set, true, r->first_after_backward, r->used_map};
    struct lw_dp_pass second = {"second", first_set, true, false, each};
    struct lw_dp_pass steady = {"steady", &d->rebuilt, true, false, each};
    struct lw_dp_pass accumulate = {"accumulate", NULL, false, false, LW_MAP_NEVER};
    int32_t acc = -1, v;

    if (d->s->no_sync > 0)
        LW_TRY(lw_dp_write_pass(d, &accumulate, &acc, err));
    LW_TRY(lw_dp_write_pass(d, &first, &v, err));
    add_cycle(d, acc, v);
    if (!d->rebuilt.name) {
        lw_builder_repeat_from(d->b, 0);
        return LW_OK;
    }
    int64_t passes = d->s->no_sync + 1;
    if (r->n_initial_passes > 1) {
        LW_TRY(lw_dp_write_pass(d, &second, &v, err));
        add_cycle(d, acc, v);
        passes += d->s->no_sync + 1;
    }
    LW_TRY(lw_dp_write_pass(d, &steady, &v, err));
    add_cycle(d, acc, v);
    lw_builder_repeat_from(d->b, (int32_t)passes);
    return LW_OK;
}

/* --- notes -------------------------------------------------------------------------------------- */

static void note_all(struct lw_dp *d)
{
    const struct lw_backward *back = &d->back;
    struct lw_builder *b = d->b;
    int64_t gap = 0;

    lw_builder_note(b, "ready order: %s",
                    back->order_known ? "from the workload"
                                      : "unknown to the workload; reverse registration is assumed");
    if (back->n_untimed > 0)
        lw_builder_note(b, "ready times: %d of %d gradients have none and count as ready at the "
                           "end of their module's backward", back->n_untimed, back->n_ready);
    if (d->s->dp > 1)
        lw_dp_note_buckets(d);
    else
        lw_builder_note(b, "one rank: nothing is reduced");
    lw_dp_note_shards(d);
    if (d->n_buffers > 0)
        lw_builder_note(b, "buffers: %d are broadcast from rank 0 before a synchronised forward, in "
                           "%d%s", d->n_buffers, d->buffers.n_buckets,
                        d->s->compat == LW_COMPAT_FAIRSCALE ? ", one by one" : " of at most 250 MiB");
    for (int i = 0; i < LW_N_GAPS; i++)
        gap += d->w->gap_ps[i];
    if (gap > 0)
        lw_builder_note(b, "host gaps: on the compute stream; those before forward and backward "
                           "in every micro-batch, those around the optimizer once a step");
    lw_builder_note(b, "memory: parameters, gradients and buckets alone; the workload tells no "
                       "optimizer state, and activations are not counted");
    lw_compat_notes(d->s, b);
}

/* --- all of it ---------------------------------------------------------------------------------- */

static enum lw_status decide(struct lw_dp *d, struct lw_err *err)
{
    LW_TRY(lw_backward_cut(d->w, &d->back, err));
    LW_TRY(list_gradients(d, err));
    LW_TRY(lw_dp_assign_shards(d, err));
    LW_TRY(lw_dp_assign_buckets(d, err));
    return coalesce_buffers(d, err);
}

static enum lw_status lower(struct lw_dp *d, struct lw_err *err)
{
    lw_builder_strategy(d->b, d->s);
    LW_TRY(add_ranks(d, err));
    add_model(d);
    add_set(d, &d->initial);
    add_set(d, &d->rebuilt);
    lw_dp_add_shards(d);
    LW_TRY(add_works(d, err));
    LW_TRY(add_passes(d, err));
    note_all(d);
    return LW_OK;
}

static enum lw_status keep_origin(const struct lw_workload *w, struct lw_plan *plan,
                                  struct lw_err *err)
{
    if (!w->from.hash || !*w->from.hash)
        return LW_OK;
    plan->workload_hash = lw_arena_strdup(&plan->arena, w->from.hash);
    if (plan->workload_hash)
        return LW_OK;
    lw_plan_free(plan);
    return lw_fail_nomem(err);
}

enum lw_status lw_dp_build(const struct lw_workload *w, const struct lw_strategy *s,
                           const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err)
{
    struct lw_dp d = {.w = w, .s = s, .cost = cost};
    enum lw_status st = decide(&d, err);

    lw_dp_free_shards(&d);
    lw_free(d.grads); /* buckets are made: what follows looks at the workload */
    if (st == LW_OK) {
        char name[256];
        snprintf(name, sizeof name, "%s dp%lld", w->name, (long long)s->dp);
        d.b = lw_builder_new(name, (int32_t)s->dp);
        st = d.b ? lower(&d, err) : lw_fail_nomem(err);
    }
    lw_bucketing_free(&d.buffers);
    lw_bucketing_free(&d.rebuilt.buckets);
    lw_bucketing_free(&d.initial.buckets);
    lw_backward_free(&d.back);
    lw_arena_free(&d.arena);
    if (st != LW_OK) {
        lw_builder_free(d.b);
        return st;
    }
    LW_TRY(lw_builder_finish(d.b, plan, err));
    return keep_origin(w, plan, err);
}
