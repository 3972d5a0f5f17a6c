/* ZeRO-1 in a data-parallel plan: every parameter is updated by its owner alone, and all members
 * get the new weights in flat buffers: a broadcast from the owner where parameters stay whole
 * (oss-greedy, lpt), an all-gather of equal shares where buffers are cut (flat-contiguous,
 * per-tensor).
 *
 * Invariants: shards tile what is trainable; each such parameter lies in exactly one buffer; a
 * buffer has one dtype and device. Owner r is rank r of the one data group. The optimizer's time is
 * that of the member with the most elements, for all: no weights can arrive before.
 * Sources: fairscale@146f1602 optim/oss.py (order of flat buffers and broadcasts); DeepSpeed's and
 * FSDP's flat buffers; llm.c llmc/zero.cuh@f1e2ace. Not modelled: memory of optimizer state, which
 * no workload tells, and broadcasts that overlap the next forward (gathers that do:
 * lower_param_gather.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/lower_part/lower_part.h"
#include "shared/numbers/order.h"

/* --- what the policies are given ------------------------------------------------------------- */

static enum lw_status list_given(struct lw_part *d, struct lw_err *err)
{
    const struct lw_workload *w = d->w;
    struct lw_part_shards *h = &d->shards;

    LW_TAKE(&d->arena, h->param_of, w->n_params, err);
    LW_TAKE(&d->arena, h->as_given, w->n_params, err);
    LW_TAKE(&d->arena, h->items, w->n_params, err);
    LW_TAKE(&d->arena, h->offset, w->n_params, err);
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(w, i);
        if (p->tied >= 0)
            continue;
        if (p->ignored && p->trainable)
            return lw_fail(err, LW_EINVAL, "--zero %d: parameter %d '%s' is ignored by data "
                                           "parallelism, and its owner's weights would overwrite "
                                           "those of the others; choose --zero 0, or leave out its "
                                           "\"ignored\"",
                           (int)d->s->zero, lw_part_param(d, i), p->name);
        h->param_of[h->n] = i;
        h->as_given[h->n++] = (struct lw_shard_param){p->numel, p->dtype, lw_part_device(p),
                                                              p->trainable};
    }
    return LW_OK;
}

static enum lw_status take_shards(struct lw_part *d, const struct lw_sharding *s,
                                  struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;

    LW_TAKE(&h->room, h->runs, s->n_shards, err);
    for (int32_t i = 0; i < s->n_shards; i++) {
        struct lw_shard x = s->shards[i];
        if (!h->as_given[x.param].trainable)
            continue;
        x.param = h->param_of[x.param];
        h->runs[h->n_runs++] = (struct lw_shard_run){x, 1};
    }
    return LW_OK;
}

static enum lw_status room_for_buffers(struct lw_part *d, int64_t n, struct lw_err *err)
{
    d->shards.buffers = lw_arena_alloc(&d->arena, n, sizeof *d->shards.buffers);
    return d->shards.buffers ? LW_OK : lw_fail_nomem(err);
}

static void open_buffer(struct lw_part_shards *h, enum lw_dtype dtype, int32_t device,
                        int32_t owner)
{
    h->buffers[h->n_buffers++] = (struct lw_part_buffer){.dtype = dtype, .device = device,
                                                         .owner = owner, .first_item = h->n_items,
                                                         .module = -1};
}

static void put_item(struct lw_part_shards *h, int32_t given)
{
    struct lw_part_buffer *b = &h->buffers[h->n_buffers - 1];

    h->items[h->n_items] = h->param_of[given];
    h->offset[h->n_items++] = b->elements;
    b->elements += h->as_given[given].numel;
    b->n_items++;
}

/* --- whole parameters ------------------------------------------------------------------------ */

static enum lw_status oss_greedy(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    bool compat = d->s->compat == LW_COMPAT_FAIRSCALE;

    LW_TRY(lw_oss_new(h->as_given, h->n, NULL, NULL, 0, d->n_members, compat, &h->oss, err));
    LW_TAKE(&h->room, h->runs, h->n, err);
    for (int32_t i = 0; i < h->n; i++)
        if (h->as_given[i].trainable)
            h->runs[h->n_runs++] = (struct lw_shard_run){
                {h->param_of[i], lw_oss_owner(h->oss, i), 0, h->as_given[i].numel}, 1};
    LW_TRY(room_for_buffers(d, lw_oss_n_buffers(h->oss), err));
    for (int32_t b = 0; b < lw_oss_n_buffers(h->oss); b++) {
        const struct lw_oss_buffer *from = lw_oss_buffer(h->oss, b);
        open_buffer(h, from->dtype, from->device, from->owner);
        for (int32_t i = 0; i < from->n_items; i++)
            put_item(h, from->items[i]);
    }
    return LW_OK;
}

const struct lw_shard_policy lw_shard_policy_oss_greedy = {
    .assign = oss_greedy, .buckets = LW_BUCKET_SHARDED_DDP};

struct place {
    int32_t device, dtype, owner, given;
};

LW_COMPARATOR(by_buffer, struct place, a->device, b->device, a->owner, b->owner, a->dtype, b->dtype,
              a->given, b->given)

/* Of what is given: an expert that not all members hold. */
static bool is_apart(const struct lw_part *d, int32_t given)
{
    return d->s->ep > 1 && lw_param_at(d->w, d->shards.param_of[given]).expert;
}

/* One buffer per device, owner and dtype. owners: of what is given. */
static enum lw_status buffers_by_owner(struct lw_part *d, const int32_t *owners,
                                       struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    struct place *places = lw_arena_alloc(&d->scratch, h->n, sizeof *places);
    int32_t n = 0;

    if (!places)
        return lw_fail_nomem(err);
    LW_TRY(room_for_buffers(d, h->n, err));
    for (int32_t g = 0; g < h->n; g++)
        if (h->as_given[g].trainable)
            places[n++] = (struct place){h->as_given[g].device, (int32_t)h->as_given[g].dtype,
                                         owners[g], g};
    lw_sort(places, n, by_buffer);
    for (int32_t i = 0; i < n; i++) {
        const struct place *x = &places[i], *before = &places[i > 0 ? i - 1 : 0];
        if (i == 0 || x->device != before->device || x->owner != before->owner ||
            x->dtype != before->dtype)
            open_buffer(h, (enum lw_dtype)x->dtype, x->device, x->owner);
        put_item(h, x->given);
        h->buffers[h->n_buffers - 1].expert = is_apart(d, x->given);
    }
    return LW_OK;
}

struct whole_rule {
    enum lw_status (*give)(const struct lw_shard_param *params, int32_t n, int32_t world,
                           struct lw_sharding *out, struct lw_err *err);
    bool fused; /* queries, keys and values of a module are one parameter */
};

/* Queries, keys and values of a module, or keys and values after queries. */
static bool in_one(const struct lw_param *a, const struct lw_param *b)
{
    static const char *const names[] = {"q_proj.", "k_proj.", "v_proj."};

    for (int k = 0; a->module == b->module && k < 2; k++) {
        const char *x = strstr(a->name, names[k]), *y = strstr(b->name, names[k + 1]);
        if (x && y && strcmp(x + strlen(names[k]), y + strlen(names[k + 1])) == 0)
            return true;
    }
    return false;
}

/* The one of some[i] whose owner is that of some[k]: where queries, keys and values are one
 * parameter (fused), theirs, which counts their elements. */
static int32_t first_of_fused(const struct lw_part *d, const int32_t *given, int32_t k,
                              const int32_t *first)
{
    const int32_t *param_of = d->shards.param_of;

    for (int32_t i = k - 1; i >= 0 && i >= k - 4; i--) /* a bias may lie between */
        if (in_one(LW_PARAM(d->w, param_of[given[i]]), LW_PARAM(d->w, param_of[given[k]])))
            return first[i];
    return k;
}

/* Of experts, or of all others: whole parameters to the members that hold them. owners: of what is
 * given. */
static enum lw_status give_to(struct lw_part *d, bool expert, const struct whole_rule *rule,
                              int32_t *owners, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    struct lw_shard_param *some = lw_arena_alloc(&d->scratch, h->n, sizeof *some);
    int32_t *given = lw_arena_alloc(&d->scratch, h->n, sizeof *given), n = 0;
    int32_t *first = lw_arena_alloc(&d->scratch, h->n, sizeof *first);
    struct lw_sharding s;

    if (!some || !given || !first)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < h->n; i++) {
        if (is_apart(d, i) != expert)
            continue;
        some[n] = h->as_given[i];
        given[n] = i;
        first[n] = rule->fused ? first_of_fused(d, given, n, first) : n;
        if (first[n] != n && some[n].trainable) {
            some[first[n]].numel += some[n].numel;
            some[n].trainable = false;
        }
        n++;
    }
    LW_TRY(rule->give(some, n, lw_part_members(d, expert), &s, err));
    for (int32_t i = 0; i < n; i++)
        owners[given[i]] = s.shards[first[i]].owner;
    lw_sharding_free(&s);
    return LW_OK;
}

static enum lw_status whole(struct lw_part *d, const struct whole_rule *rule, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    int32_t *owners = lw_arena_alloc(&d->scratch, h->n, sizeof *owners);

    if (!owners)
        return lw_fail_nomem(err);
    LW_TRY(give_to(d, false, rule, owners, err));
    LW_TRY(give_to(d, true, rule, owners, err));
    LW_TAKE(&h->room, h->runs, h->n, err);
    for (int32_t i = 0; i < h->n; i++)
        if (h->as_given[i].trainable)
            h->runs[h->n_runs++] = (struct lw_shard_run){
                {h->param_of[i], owners[i], 0, h->as_given[i].numel}, 1};
    return buffers_by_owner(d, owners, err);
}

static enum lw_status give_largest(const struct lw_shard_param *params, int32_t n, int32_t world,
                                   struct lw_sharding *out, struct lw_err *err)
{
    return lw_shard_lpt(params, n, world, 0, out, err);
}

static enum lw_status lpt(struct lw_part *d, struct lw_err *err)
{
    return whole(d, &(struct whole_rule){give_largest, false}, err);
}

const struct lw_shard_policy lw_shard_policy_lpt = {
    .assign = lpt, .buckets = LW_BUCKET_C10D_2, .experts = true};

static enum lw_status ping_pong(struct lw_part *d, struct lw_err *err)
{
    return whole(d, &(struct whole_rule){lw_shard_ping_pong, true}, err);
}

const struct lw_shard_policy lw_shard_policy_ping_pong = {
    .assign = ping_pong, .buckets = LW_BUCKET_C10D_2, .experts = true};

/* --- equal shares ---------------------------------------------------------------------------- */

/* Lists of the trainable parameters by device and dtype: units of flat buffers. */
static int32_t list_units(const struct lw_part_shards *h, struct place *places, int32_t *first,
                          int32_t *items)
{
    int32_t n = 0, n_units = 0;

    for (int32_t g = 0; g < h->n; g++)
        if (h->as_given[g].trainable)
            places[n++] =
                (struct place){h->as_given[g].device, (int32_t)h->as_given[g].dtype, 0, g};
    lw_sort(places, n, by_buffer);
    for (int32_t i = 0; i < n; i++) {
        if (i == 0 || places[i].device != places[i - 1].device ||
            places[i].dtype != places[i - 1].dtype)
            first[n_units++] = i;
        items[i] = places[i].given;
    }
    first[n_units] = n;
    return n_units;
}

/* Padded so that every share is a multiple of 4 bytes, as DeepSpeed does for NCCL. */
static enum lw_status cut_units(struct lw_part *d, const int32_t *first, const int32_t *items,
                               int32_t n_units, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    struct lw_sharding s;
    int64_t align = 1;

    for (int32_t u = 0; u < n_units; u++)
        if (lw_dtype_size(h->as_given[items[first[u]]].dtype) < 4)
            align = 2;
    LW_TRY(lw_shard_flat(h->as_given, h->n, d->n_members, first, items, n_units, align, &s,
                         err));
    enum lw_status st = take_shards(d, &s, err);
    for (int32_t u = 0; st == LW_OK && u < n_units; u++) {
        const struct lw_shard_param *p = &h->as_given[items[first[u]]];
        open_buffer(h, p->dtype, p->device, -1);
        for (int32_t i = first[u]; i < first[u + 1]; i++)
            put_item(h, items[i]);
        h->buffers[h->n_buffers - 1].elements += s.units[u].padding;
        h->padding += s.units[u].padding;
    }
    lw_sharding_free(&s);
    return st;
}

static enum lw_status flat(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    struct place *places = lw_arena_alloc(&d->arena, h->n, sizeof *places);
    int32_t *first = lw_arena_alloc(&d->arena, h->n + 1L, sizeof *first);
    int32_t *items = lw_arena_alloc(&d->arena, h->n, sizeof *items);

    if (!places || !first || !items)
        return lw_fail_nomem(err);
    int32_t n_units = list_units(h, places, first, items);
    LW_TRY(room_for_buffers(d, n_units, err));
    return cut_units(d, first, items, n_units, err);
}

const struct lw_shard_policy lw_shard_policy_flat = {
    .assign = flat, .buckets = LW_BUCKET_DEEPSPEED, .equal_shares = true};

static enum lw_status per_tensor(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    struct lw_sharding s;

    for (int32_t g = 0; g < h->n; g++)
        if (h->as_given[g].trainable && h->as_given[g].numel % d->n_members != 0)
            return lw_fail(err, LW_EINVAL,
                           "--shard-policy per-tensor: parameter %d '%s' has %" PRId64
                           " elements, not a multiple of %" PRId64 " ranks; choose "
                           "flat-contiguous, which pads",
                           h->param_of[g], lw_param_at(d->w, h->param_of[g]).name,
                           h->as_given[g].numel, (int64_t)d->n_members);
    LW_TRY(lw_shard_per_tensor(h->as_given, h->n, d->n_members, &s, err));
    enum lw_status st = take_shards(d, &s, err);
    if (st == LW_OK)
        st = room_for_buffers(d, h->n, err);
    for (int32_t g = 0; st == LW_OK && g < h->n; g++) {
        if (!h->as_given[g].trainable)
            continue;
        open_buffer(h, h->as_given[g].dtype, h->as_given[g].device, -1);
        put_item(h, g);
    }
    lw_sharding_free(&s);
    return st;
}

const struct lw_shard_policy lw_shard_policy_per_tensor = {
    .assign = per_tensor, .buckets = LW_BUCKET_PER_TENSOR, .equal_shares = true};

enum lw_dtype lw_part_weights_dtype(const struct lw_strategy *s, enum lw_dtype weights)
{
    bool narrows = s->broadcast_dtype != LW_F32; /* the default: as they are, f64 too */

    return narrows && lw_dtype_size(s->broadcast_dtype) < lw_dtype_size(weights)
               ? s->broadcast_dtype
               : weights;
}

/* --- all ------------------------------------------------------------------------------------- */

/* The first holder of member m or of one after it. */
static int32_t holder_of(const struct lw_part *d, bool expert, int64_t m)
{
    int64_t h = m * lw_part_holders_of(d, expert), n = lw_part_holders(d);

    return (int32_t)(h < n ? h : n);
}

static bool is_of_expert(const struct lw_part *d, const struct lw_shard_run *x)
{
    return lw_param_at(d->w, x->first.param).expert;
}

static enum lw_status find_spans(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    struct lw_holder_spans *x = &h->spans;
    int32_t n = lw_part_holders(d);

    LW_TAKE(&d->arena, x->number, n + 1L, err);
    x->number[0] = x->number[n] = 1; /* marks, until they are counted */
    for (int32_t i = 0; i < h->n_runs; i++) {
        const struct lw_shard_run *r = &h->runs[i];
        bool expert = is_of_expert(d, r);
        x->number[holder_of(d, expert, r->first.owner)] = 1;
        x->number[holder_of(d, expert, r->first.owner + (int64_t)r->n)] = 1;
    }
    for (int32_t k = 0; k < n; k++)
        x->n += x->number[k];
    LW_TAKE(&d->arena, x->first, x->n + 1L, err);
    for (int32_t k = 0, at = 0; k <= n; k++)
        if (x->number[k] != 0) {
            x->first[at] = k;
            x->number[k] = at++;
        }
    return LW_OK;
}

void lw_part_run_count(const struct lw_part *d, const struct lw_shard_run *x, int64_t *owned)
{
    const int32_t *number = d->shards.spans.number;
    bool expert = is_of_expert(d, x);

    owned[number[holder_of(d, expert, x->first.owner)]] += x->first.numel;
    owned[number[holder_of(d, expert, x->first.owner + (int64_t)x->n)]] -= x->first.numel;
}

int64_t lw_part_runs_sum(const struct lw_part *d, int64_t *owned)
{
    int64_t most = 0;

    for (int32_t k = 0; k < d->shards.spans.n; k++) {
        owned[k] += k > 0 ? owned[k - 1] : 0;
        most = owned[k] > most ? owned[k] : most;
    }
    return most;
}

int64_t lw_part_owned_by(const struct lw_part *d, int32_t holder, int32_t *end)
{
    const struct lw_holder_spans *x = &d->shards.spans;
    int32_t low = 0, high = x->n - 1;

    while (low < high) {
        int32_t middle = (low + high + 1) / 2;
        if (x->first[middle] <= holder)
            low = middle;
        else
            high = middle - 1;
    }
    *end = x->first[low + 1];
    return d->shards.owned[low];
}

enum lw_status lw_part_count_owned(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;

    LW_TRY(find_spans(d, err));
    LW_TAKE(&d->arena, h->owned, h->spans.n + 1L, err);
    for (int32_t i = 0; i < h->n_runs; i++) {
        const struct lw_param *p = LW_PARAM(d->w, h->runs[i].first.param);
        if (!p->trainable)
            continue;
        lw_part_run_count(d, &h->runs[i], h->owned);
        h->n_elements += h->runs[i].n * h->runs[i].first.numel;
    }
    h->most_owned = lw_part_runs_sum(d, h->owned);
    return LW_OK;
}

const struct lw_shard_policy *lw_shard_policy(enum lw_shard_policy_id id)
{
#define ROW(id, symbol, word, help) [LW_SHARD_##id] = &lw_shard_policy_##symbol,
    static const struct lw_shard_policy *const policies[] = {LW_SHARD_POLICIES(ROW)};
#undef ROW

    return policies[id];
}

enum lw_status lw_part_assign_shards(struct lw_part *d, struct lw_err *err)
{
    if (d->s->zero == 0 || d->n_members == 1)
        return LW_OK;
    LW_TRY(list_given(d, err));
    if (d->shards.n == 0 || lw_part_has_units(d->s))
        return LW_OK;
    LW_TRY(lw_err_context(err, lw_shard_policy(d->s->shard_policy)->assign(d, err), "--zero 1"));
    return lw_part_count_owned(d, err);
}

void lw_part_add_shards(struct lw_part *d, struct lw_builder *b)
{
    struct lw_part_shards *h = &d->shards;

    if (h->n == 0)
        return;
    for (int32_t i = 0; i < h->n_runs; i++) {
        struct lw_shard x = h->runs[i].first;
        x.param = lw_part_param(d, x.param);
        lw_builder_shards(b, &x, h->runs[i].n);
    }
    lw_arena_free(&h->room);
    h->runs = NULL;
    lw_builder_set(b, LW_BUCKET_WEIGHTS, NULL, d->stage);
    for (int32_t k = 0; k < h->n_buffers; k++) {
        const struct lw_part_buffer *f = &h->buffers[k];
        enum lw_dtype wire = lw_part_weights_dtype(d->s, f->dtype);
        struct lw_bucket bucket = {.dtype = wire, .bytes = f->elements * lw_dtype_size(wire)};
        int32_t number = lw_builder_bucket(b, &bucket, NULL, 0);
        if (k == 0)
            h->first_bucket = number;
        for (int32_t i = f->first_item; i < f->first_item + f->n_items; i++)
            lw_builder_slot(b, &(struct lw_slot){lw_part_param(d, h->items[i]), h->offset[i]});
    }
}
