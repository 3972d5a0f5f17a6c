/* Data parallelism of one part of the model, decided: which gradients are reduced, in which buckets
 * and order, which member updates which elements, and the works of its modules.
 *
 * Invariants: a gradient is reduced when its parameter is trainable, not ignored and the first of a
 * tied set in the part; each is in one bucket of every set. */
#include "shared/lower_part/lower_part.h"

#include "shared/bucket/bucket_megatron.h"
#include "shared/workload/buffer.h"
#include "shared/workload/product.h"

#define BROADCAST_LIMIT_BYTES (INT64_C(250) << 20) /* of one coalesced broadcast, as in c10d */

static bool is_reduced(const struct lw_part *d, const struct lw_param *p)
{
    if (lw_bucket_policy(d->s->bucket_policy)->skips_unused && !p->used)
        return false;
    return p->trainable && !p->ignored && p->tied < 0;
}

/* --- gradients ------------------------------------------------------------------------------- */

static enum lw_status list_gradients(struct lw_part *d, struct lw_err *err)
{
    const struct lw_workload *w = d->w;
    int32_t n = 0, n_unused = 0;

    LW_TAKE_ROOM(&d->scratch, d->grads, w->n_params, err);
    LW_TAKE_ROOM(&d->scratch, d->param_of, w->n_params, err);
    LW_TAKE_ROOM(&d->scratch, d->grad_of, w->n_params, err);
    LW_TAKE_ROOM(&d->scratch, d->order, w->n_params, err);
    LW_TAKE(&d->arena, d->reduced, w->n_params, err);
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(w, i);
        d->grad_of[i] = -1;
        if (d->n_members == 1 || !is_reduced(d, p))
            continue;
        d->reduced[i] = true;
        n_unused += !lw_param_has_gradient(p);
        d->grad_of[i] = d->n_grads;
        d->param_of[d->n_grads] = i;
        d->grads[d->n_grads++] = (struct lw_grad){
            p->numel, lw_strategy_grad_dtype(d->s, p->dtype), lw_part_device(p), p->sparse};
    }
    LW_TAKE(&d->arena, d->unused, n_unused, err);
    for (int32_t i = 0; i < d->back.n_ready; i++)
        if (d->grad_of[d->back.ready[i]] >= 0)
            d->order[n++] = d->grad_of[d->back.ready[i]];
    for (int32_t g = 0; g < d->n_grads; g++) {
        if (lw_param_has_gradient(LW_PARAM(w, d->param_of[g])))
            continue;
        d->unused[d->n_unused++] = d->param_of[g];
        d->order[n++] = g;
    }
    return LW_OK;
}

/* --- buckets --------------------------------------------------------------------------------- */

/* Buffers that rank 0 sends before a synchronised forward, coalesced as one would bucket them. */
static enum lw_status coalesce_buffers(struct lw_part *d, struct lw_err *err)
{
    /* FairScale sends them one by one */
    const int64_t limit = d->s->compat == LW_COMPAT_FAIRSCALE ? 0 : BROADCAST_LIMIT_BYTES;
    struct lw_grad *as_grads = lw_arena_alloc(&d->arena, d->w->n_buffers, sizeof *as_grads);

    d->buffer_of = lw_arena_alloc(&d->arena, d->w->n_buffers, sizeof *d->buffer_of);
    if (!as_grads || !d->buffer_of)
        return lw_fail_nomem(err);
    if (lw_part_has_units(d->s))
        return LW_OK; /* DeepSpeed, FSDP and Megatron broadcast none */
    for (int32_t i = 0; d->n_members > 1 && i < d->w->n_buffers; i++) {
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

struct lw_bucket lw_part_bucket(const struct lw_part *d, const struct lw_part_set *set, int32_t n)
{
    enum lw_dtype wire = lw_strategy_wire_dtype(d->s, set->dtype[n]);
    int64_t limit = set->buckets.limit_bytes[n];

    return (struct lw_bucket){.dtype = wire,
                              .bytes = wire == set->dtype[n]
                                           ? lw_part_bucket_bytes(d, set, n)
                                           : set->elements[n] * lw_dtype_size(wire),
                              .limit_bytes = limit == LW_BUCKET_NO_LIMIT ? 0 : limit};
}

/* The slots of bucket n, where each follows the one before it. */
static void add_slots(const struct lw_part *d, struct lw_builder *b, const struct lw_bucketing *k,
                      int32_t n)
{
    int32_t n_slots = k->first[n + 1] - k->first[n];
    int32_t *to = n_slots > 0 ? lw_builder_slot_room(b, n_slots) : NULL;

    for (int32_t i = 0; to && i < n_slots; i++)
        to[i] = lw_part_param(d, k->items[k->first[n] + i]);
}

/* Where the policy leaves room between them. */
static void add_apart(const struct lw_part *d, struct lw_builder *b, const struct lw_bucketing *k,
                      int32_t n)
{
    int64_t at = 0;

    for (int32_t i = k->first[n]; i < k->first[n + 1]; i++) {
        int32_t param = k->items[i];
        at = lw_megatron_start(d->s, at);
        lw_builder_slot(b, &(struct lw_slot){lw_part_param(d, param), at});
        at += lw_param_at(d->w, param).numel;
    }
}

static void add_set(struct lw_part *d, struct lw_builder *b, struct lw_part_set *set)
{
    const struct lw_bucketing *k = &set->buckets;
    bool apart = lw_megatron_start(d->s, 1) != 1;

    if (!set->name)
        return;
    lw_builder_set(b, LW_BUCKET_GRADIENTS, set->name, d->stage);
    for (int32_t n = 0; n < k->n_buckets; n++) {
        struct lw_bucket bucket = lw_part_bucket(d, set, n);
        int32_t number = lw_builder_bucket(b, &bucket, NULL, 0);
        if (apart)
            add_apart(d, b, k, n);
        else
            add_slots(d, b, k, n);
        if (n == 0)
            set->first_bucket = number;
    }
}

/* --- works ----------------------------------------------------------------------------------- */

/* Share of `whole` that lies in [from, to) of `length`; shares of a partition sum to the whole. */
static int64_t share(int64_t whole, lw_ps from, lw_ps to, lw_ps length)
{
    if (whole < 0 || length <= 0)
        return whole < 0 ? -1 : 0;
    return (int64_t)((__int128)whole * to / length) - (int64_t)((__int128)whole * from / length);
}

/* Of a backward, from a forward's. -1 stays unknown. */
static int64_t twice(int64_t x)
{
    return x < 0 ? -1 : x <= INT64_MAX / 2 ? 2 * x : INT64_MAX;
}

static enum lw_status list_ready(struct lw_part *d, struct lw_err *err)
{
    const struct lw_workload *w = d->w;
    const struct lw_backward *back = &d->back;

    LW_TAKE(&d->arena, d->work.ready, back->n_ready, err);
    LW_TAKE(&d->arena, d->work.first_ready, w->n_modules + 2L, err);
    /* counted one too far, so that filling moves it back */
    int32_t *first = d->work.first_ready + 1;
    for (int32_t i = 0; i < back->n_ready; i++)
        first[lw_param_at(w, back->ready[i]).module + 1]++;
    for (int32_t m = 0; m < w->n_modules; m++)
        first[m + 1] += first[m];
    for (int32_t i = 0; i < back->n_ready; i++)
        d->work.ready[first[lw_param_at(w, back->ready[i]).module]++] = back->ready[i];
    return LW_OK;
}

/* A work that is a share of the module's phases, with its bounds; of a draft without its products,
 * which nothing simulates. */
static int32_t add_share(const struct lw_part *d, struct lw_builder *b, int32_t module,
                         unsigned phases, struct lw_share s, struct lw_work w)
{
    lw_part_bound(d, module, phases, s, &w);
    int32_t at = lw_builder_work(b, &w);
    if (!lw_builder_is_draft(b))
        lw_part_add_products(d, b, module, phases, s);
    return at;
}

/* A work of a module, one for each op of its steps, with its products; returns the number of the
 * first. The first takes the activations that the work takes, the last gives back what it gives
 * back. */
static int32_t add_parts(const struct lw_part *d, struct lw_builder *b, const struct lw_work *w,
                         struct lw_steps steps, int32_t module, enum lw_product_phase phase)
{
    int32_t first = -1, holder = w->keeps_bytes < 0 ? lw_steps_works(steps) - 1 : 0, n = 0;

    for (int32_t i = 0; i < steps.n; i++) {
        struct lw_share s = steps.v[i].share;
        if (steps.v[i].kind != LW_STEP_WORK)
            continue;
        int32_t at = add_share(d, b, module, 1u << phase, s,
                               (struct lw_work){.ps = share(w->ps, s.from, s.to, s.of),
                                                .flops = share(w->flops, s.from, s.to, s.of),
                                                .bytes = share(w->bytes, s.from, s.to, s.of),
                                                .keeps_bytes = n == holder ? w->keeps_bytes : 0});
        first = n++ == 0 ? at : first;
    }
    return first;
}

static bool again(const struct lw_strategy *s, const struct lw_module *m)
{
    int64_t full = m->kept_bytes[LW_RECOMPUTE_FULL];

    if (s->recompute == LW_RECOMPUTE_SELECTIVE)
        return m->selective_ps > 0;
    return s->recompute == LW_RECOMPUTE_FULL &&
           (full < 0 || full != m->kept_bytes[LW_RECOMPUTE_NONE]);
}

/* Of modules in a row that have something to do again, which one it is, from 0; -1: it has not. */
static int64_t place_in_run(const struct lw_part *d, int32_t module)
{
    int64_t n = -1;

    for (int32_t m = module; m >= 0 && again(d->s, lw_module_at(d->w, m)); m--)
        n++;
    return n;
}

static bool in_groups(const struct lw_strategy *s)
{
    return s->recompute == LW_RECOMPUTE_FULL && s->recompute_method == LW_RECOMPUTE_UNIFORM &&
           s->recompute_layers > 1;
}

/* --recompute-layers N of the modules of the part that have something to do again: the first N
 * (Megatron-LM's method "block"), or each N-th; the others keep what they have. */
static enum lw_recompute mode_of(const struct lw_part *d, int32_t module)
{
    int64_t n = 0, layers = d->s->recompute_layers;
    bool every = d->s->recompute_method == LW_RECOMPUTE_EVERY;

    if (d->s->recompute_method == LW_RECOMPUTE_UNIFORM)
        return d->s->recompute;
    for (int32_t m = 0; layers > 0 && m <= module; m++)
        n += again(d->s, lw_module_at(d->w, m));
    return layers > 0 && (every ? n % layers != 0 : n > layers) ? LW_RECOMPUTE_NONE
                                                                : d->s->recompute;
}

int32_t lw_part_again_first(const struct lw_part *d, int32_t module)
{
    int64_t layers = d->s->recompute_layers;
    bool last = module + 1 == d->w->n_modules || !again(d->s, lw_module_at(d->w, module + 1));

    if (!in_groups(d->s))
        return module;
    int64_t place = place_in_run(d, module);
    return place < 0 || last || (place + 1) % layers == 0 ? module - (int32_t)(place % layers)
                                                          : -1;
}

/* A group keeps the input of its first module. */
static bool keeps_nothing(const struct lw_part *d, int32_t module)
{
    return in_groups(d->s) && place_in_run(d, module) % d->s->recompute_layers > 0;
}

/* Activations are counted where every module tells them. */
static bool tells_kept(const struct lw_part *d)
{
    for (int32_t m = 0; m < d->w->n_modules; m++)
        if (lw_module_at(d->w, m)->kept_bytes[mode_of(d, m)] < 0)
            return false;
    return true;
}

/* Of one micro-batch, from forward to backward; modules are a tensor rank's own. */
static int64_t kept_bytes(const struct lw_part *d, int32_t module)
{
    return d->work.tells_kept && !keeps_nothing(d, module)
               ? lw_module_at(d->w, module)->kept_bytes[mode_of(d, module)] : 0;
}

/* Modules that recomputation could run again are those whose activations are worth to be moved: a
 * transformer's blocks. The backward of the last one comes next: its activations stay. */
static bool can_offload(const struct lw_part *d, int32_t module)
{
    const int64_t *kept = lw_module_at(d->w, module)->kept_bytes;

    return kept[LW_RECOMPUTE_FULL] < 0 || kept[LW_RECOMPUTE_FULL] != kept[LW_RECOMPUTE_NONE];
}

int64_t lw_part_offloaded_bytes(const struct lw_part *d, int32_t module)
{
    int64_t before = 0, after = 0, layers = d->s->offload_layers;

    if (d->s->offload != LW_OFFLOAD_ACTIVATIONS || !can_offload(d, module))
        return 0;
    for (int32_t m = 0; m < d->w->n_modules; m++)
        *(m < module ? &before : &after) += m != module && can_offload(d, m);
    return after == 0 || (layers > 0 && before >= layers) ? 0 : kept_bytes(d, module);
}

lw_ps lw_recomputed_ps(const struct lw_strategy *s, const struct lw_module *m)
{
    lw_ps full = m->forward_ps - lw_unrepeated_ps(s, m);
    lw_ps time = s->recompute == LW_RECOMPUTE_FULL ? full : m->selective_ps;

    return again(s, m) ? time : 0;
}

static bool does_again(const struct lw_part *d, int32_t module)
{
    return mode_of(d, module) != LW_RECOMPUTE_NONE && again(d->s, lw_module_at(d->w, module));
}

/* What recomputation brings back before the backward. */
static int64_t regained_bytes(const struct lw_part *d, int32_t module)
{
    int64_t all = lw_module_at(d->w, module)->kept_bytes[LW_RECOMPUTE_NONE];
    int64_t kept = kept_bytes(d, module);

    return does_again(d, module) && d->work.tells_kept && all > kept ? all - kept : 0;
}

/* All of it is given back when the module's backward is through. */
static int64_t given_back(const struct lw_part *d, int32_t module)
{
    return -kept_bytes(d, module) - regained_bytes(d, module);
}

/* Of it by the input half of a split backward. */
static int64_t given_back_early(const struct lw_part *d, int32_t module)
{
    int64_t early = lw_workload_early_bytes(d->w, d->s, module), all = -given_back(d, module);

    return !d->work.tells_kept ? 0 : -(early < all ? early : all);
}

static int32_t add_forward(const struct lw_part *d, struct lw_builder *b, int32_t m,
                           struct lw_steps steps, int64_t keeps)
{
    const struct lw_module *x = lw_module_at(d->w, m);

    return add_parts(d, b,
                     &(struct lw_work){.ps = x->forward_ps, .flops = x->forward_flops,
                                       .bytes = x->forward_bytes, .keeps_bytes = keeps},
                     steps, m, LW_PRODUCTS_FORWARD);
}

/* With full recomputation. How many FLOPs and bytes it has where it stops early is not known: its
 * share of the forward's time would be another one on each device. */
static int32_t add_forward_again(const struct lw_part *d, struct lw_builder *b, int32_t m)
{
    const struct lw_module *x = lw_module_at(d->w, m);
    bool stops = lw_unrepeated_ps(d->s, x) > 0;

    return add_parts(d, b,
                     &(struct lw_work){.ps = x->forward_ps, .flops = stops ? -1 : x->forward_flops,
                                       .bytes = stops ? -1 : x->forward_bytes,
                                       .keeps_bytes = regained_bytes(d, m)},
                     d->work.again_steps[m], m, LW_PRODUCTS_FORWARD);
}

/* A forward whose buffers are gathered ahead, cut also where it first uses one: the first one of a
 * step runs so. */
static int32_t add_cut_forward(const struct lw_part *d, struct lw_builder *b, int32_t m,
                               int64_t keeps)
{
    const struct lw_module *x = lw_module_at(d->w, m);
    int32_t first = -1, n_all = lw_steps_works(d->work.forward_steps[m]);
    lw_ps end = x->forward_ps;

    for (int32_t k = 0; k < n_all; k++) {
        lw_ps at = lw_part_op_start(d, m, k), stop = lw_part_op_start(d, m, k + 1);
        do {
            lw_ps next = lw_part_piece_end(d, m, at, stop);
            int32_t work =
                add_share(d, b, m, 1u << LW_PRODUCTS_FORWARD, (struct lw_share){at, next, end},
                          (struct lw_work){.ps = next - at,
                                           .flops = share(x->forward_flops, at, next, end),
                                           .bytes = share(x->forward_bytes, at, next, end),
                                           .keeps_bytes = first < 0 ? keeps : 0});
            first = first < 0 ? work : first;
            at = next;
        } while (at < stop);
    }
    return first;
}

static enum lw_status add_cut_forwards(struct lw_part *d, struct lw_builder *b, struct lw_err *err)
{
    if (!lw_part_gathers_ahead(d))
        return LW_OK;
    LW_TAKE(&d->arena, d->work.cut, d->w->n_modules, err);
    for (int32_t m = 0; m < d->w->n_modules; m++)
        d->work.cut[m] = lw_part_piece_end(d, m, 0, INT64_MAX) < lw_module_at(d->w, m)->forward_ps
                             ? add_cut_forward(d, b, m, kept_bytes(d, m))
                             : -1;
    return LW_OK;
}

/* What recomputation does again: the forward with its sums, or what the workload says. */
static enum lw_status add_again(struct lw_part *d, struct lw_builder *b, struct lw_err *err)
{
    const struct lw_workload *w = d->w;

    LW_TAKE(&d->arena, d->work.again, w->n_modules, err);
    for (int32_t m = 0; m < w->n_modules; m++) {
        lw_ps selective = lw_module_at(w, m)->selective_ps;
        d->work.again[m] = -1;
        if (!does_again(d, m))
            continue;
        if (d->s->recompute == LW_RECOMPUTE_FULL)
            d->work.again[m] = add_forward_again(d, b, m);
        else {
            struct lw_work x = {.ps = selective, .flops = -1, .bytes = -1,
                                .keeps_bytes = regained_bytes(d, m)};
            lw_part_bound_again(d, m, &x);
            d->work.again[m] = lw_builder_work(b, &x);
        }
    }
    return LW_OK;
}

/* The halves of every module's backward, each with the flops and the bytes of a forward. */
static enum lw_status add_halves(struct lw_part *d, struct lw_builder *b, struct lw_err *err)
{
    const struct lw_workload *w = d->w;

    LW_TAKE(&d->arena, d->work.input, w->n_modules, err);
    LW_TAKE(&d->arena, d->work.weight, w->n_modules, err);
    for (int32_t m = 0; m < w->n_modules; m++) {
        const struct lw_module *x = lw_module_at(w, m);
        int64_t early = given_back_early(d, m);
        d->work.input[m] =
            add_parts(d, b,
                      &(struct lw_work){.ps = x->backward_input_ps, .flops = x->forward_flops,
                                        .bytes = x->forward_bytes, .keeps_bytes = early},
                      d->work.input_steps[m], m, LW_PRODUCTS_INPUT);
        d->work.weight[m] =
            add_parts(d, b,
                      &(struct lw_work){.ps = x->backward_weight_ps, .flops = x->forward_flops,
                                        .bytes = x->forward_bytes,
                                        .keeps_bytes = given_back(d, m) - early},
                      d->work.weight_steps[m], m, LW_PRODUCTS_WEIGHT);
    }
    return list_ready(d, err);
}

enum lw_status lw_part_add_works(struct lw_part *d, struct lw_builder *b, struct lw_err *err)
{
    const struct lw_workload *w = d->w;
    lw_ps window = 0;
    int32_t module = w->n_modules;

    d->work.tells_kept = tells_kept(d);
    LW_TAKE(&d->arena, d->work.forward, w->n_modules, err);
    LW_TAKE(&d->arena, d->work.stretch, d->back.n_stretches, err);
    for (int32_t m = 0; m < w->n_modules; m++)
        d->work.forward[m] =
            add_forward(d, b, m, d->work.forward_steps[m], kept_bytes(d, m));
    LW_TRY(add_cut_forwards(d, b, err));
    for (int32_t i = 0; i < d->back.n_stretches; i++) {
        const struct lw_stretch *s = &d->back.stretches[i];
        const struct lw_module *m = lw_module_at(w, s->module);
        lw_ps length = lw_module_backward(m);
        if (s->module != module)
            window = s->start;
        module = s->module;
        const struct lw_share part = {s->start - window, s->end - window, length};
        bool last = i == d->back.n_stretches - 1 || s[1].module != s->module;
        d->work.stretch[i] = add_share(
            d, b, s->module, 1u << LW_PRODUCTS_INPUT | 1u << LW_PRODUCTS_WEIGHT, part,
            (struct lw_work){.ps = s->end - s->start,
                             .flops = share(twice(m->forward_flops), part.from, part.to, length),
                             .bytes = share(twice(m->forward_bytes), part.from, part.to, length),
                             .keeps_bytes = last ? given_back(d, s->module) : 0});
    }
    LW_TRY(add_again(d, b, err));
    return d->work.splits ? add_halves(d, b, err) : LW_OK;
}

/* --- all ------------------------------------------------------------------------------------- */

void lw_part_add_sets(struct lw_part *d, struct lw_builder *b)
{
    add_set(d, b, &d->initial);
    add_set(d, b, &d->rebuilt);
}

enum lw_status lw_part_decide(struct lw_part *d, struct lw_err *err)
{
    LW_TRY(lw_backward_cut(d->w, &d->back, err));
    LW_TRY(lw_part_make_steps(d, err));
    LW_TRY(list_gradients(d, err));
    LW_TRY(lw_part_assign_shards(d, err));
    LW_TRY(lw_part_list_gathered(d, err));
    LW_TRY(lw_part_assign_buckets(d, err));
    LW_TRY(lw_part_assign_units(d, err));
    LW_TRY(coalesce_buffers(d, err));
    lw_oss_free(d->shards.oss);
    d->shards.oss = NULL;
    lw_arena_free(&d->scratch);
    d->grads = NULL;
    d->param_of = d->grad_of = d->order = NULL;
    return LW_OK;
}

void lw_part_free(struct lw_part *d)
{
    lw_oss_free(d->shards.oss);
    lw_arena_free(&d->scratch);
    lw_bucketing_free(&d->buffers);
    lw_bucketing_free(&d->rebuilt.buckets);
    lw_bucketing_free(&d->initial.buckets);
    lw_backward_free(&d->back);
    lw_arena_free(&d->shards.room);
    lw_arena_free(&d->arena);
    *d = (struct lw_part){0};
}
