/* ZeRO in equal shares: gradients are reduce-scattered in units, and each member updates its share
 * of every unit. shared/lower_ops/lower_units.c writes the ops of ZeRO-3.
 *
 *   ZeRO-1  a unit is a gradient bucket: the policy's. Its weights are all-gathered after the
 *           optimizer, or ahead (lower_param_gather.c). Whole gradients stay (Megatron's
 *           distributed optimizer, DeepSpeed).
 *   ZeRO-2  the same, but gradients take room from the first backward that writes into a bucket
 *           until the bucket is reduced.
 *   ZeRO-3  a unit is what one module trains, per dtype and device. Its weights are all-gathered
 *           before the module's forward and again before its backward, and freed after each;
 *           the last module of a part keeps them, because its backward comes first. A module
 *           with a tied parameter also uses, gathers and frees the unit that holds its weight
 *           (DeepSpeed: a parameter that two modules share is fetched for each,
 *           runtime/zero/partitioned_param_coordinator.py). With
 *           --root-unit the modules outside the blocks are one unit, which stays from its first use
 *           to the end of the backward (torch/distributed/fsdp: the root is not resharded after
 *           its forward). Parameters below the persistence threshold (--persist, in elements) form
 *           units of their own, which stay and are all-gathered after the optimizer.
 *
 * Invariants: a unit's gradient bucket and its flat buffer of weights hold the same parameters
 * at the same offsets, padded to equal shares of whole 4-byte words; shards are the members'
 * shares, so they tile what is trainable. Under ZeRO-3 the frozen parameters of a module lie in
 * units of their own, after those with gradients. Under ZeRO-2 and 3 without a pipeline every
 * micro-batch is reduced and the owners add up; with --no-sync, and in a pipeline, gradients are
 * whole until the last backward. Sources: Rajbhandari et al., arXiv 1910.02054, sections 5 and
 * 7; FSDP's notes (torch/distributed/ fsdp/fully_sharded_data_parallel.py, 2.x): units,
 * prefetch, reshard_after_forward; DeepSpeed runtime/zero/config.py@edaa7221
 * (stage3_param_persistence_threshold). Not modelled: DeepSpeed's one partition of all elements,
 * which spreads a bucket over few owners. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/bucket/bucket_megatron.h"
#include "shared/lower_part/lower_part.h"
#include "shared/lower_part/unit_names.h"
#include "shared/numbers/order.h"

bool lw_part_has_units(const struct lw_strategy *s)
{
    bool tensors = s->shard_policy == LW_SHARD_PER_TENSOR;
    bool takes_shares = lw_bucket_policy(s->bucket_policy)->takes & LW_TAKES_SHARES;

    if (s->zero == 1 && (tensors ? s->bucket_policy != LW_BUCKET_PER_TENSOR : !takes_shares))
        return false; /* gradients are all-reduced in the buckets of any policy */
    return s->zero >= 1 && lw_shard_policy(s->shard_policy)->equal_shares;
}

bool lw_part_drops_gradients(const struct lw_part *d)
{
    return d->s->zero >= 2 && d->shards.n > 0 && d->s->no_sync == 0;
}

bool lw_part_reduces_each(const struct lw_part *d)
{
    return d->s->pp == 1 && (lw_part_drops_gradients(d) || d->s->sync_each);
}

/* FSDP frees after a backward what a forward does not free only where gradients are synchronised:
 * torch/distributed/fsdp/_runtime_utils.py (_should_free_in_backward); torch's pipeline stages set
 * reshard_after_backward only before the last micro-batch's (pipelining/stage.py). */
bool lw_part_keeps_units(const struct lw_part *d)
{
    return d->s->zero == 3 && d->shards.n > 0 && !d->s->reshard && !lw_part_reduces_each(d);
}

bool lw_part_shards_frozen(const struct lw_part *d, const struct lw_param *p)
{
    return d->s->zero == 3 && d->n_members > 1 && !p->trainable && !p->ignored && p->tied < 0 &&
           p->numel >= d->s->persist;
}

/* Outside the blocks, or of no prefix of --units: FSDP's root unit has what no wrapped module
 * has. */
static bool in_root(const struct lw_part *d, int32_t module)
{
    if (lw_units_are_named(d->s))
        return lw_unit_key(d->s->units, lw_module_name(d->w, module)) == LW_UNIT_OF_ROOT;
    return d->s->root_unit && lw_module_at(d->w, module)->tp_split != LW_TP_BLOCK;
}

bool lw_part_same_unit(const struct lw_part *d, int32_t a, int32_t b)
{
    if (a < 0 || b < 0 || a >= d->w->n_modules || b >= d->w->n_modules)
        return false;
    return a == b || (lw_units_are_named(d->s) &&
                      lw_unit_same(d->s->units, lw_module_name(d->w, a), lw_module_name(d->w, b)));
}

struct named_module {
    const char *name;
    int32_t key, module;
};

/* By key, then by module. */
static int by_key(const void *x, const void *y)
{
    const struct named_module *a = x, *b = y;
    int c = (a->key > b->key) - (a->key < b->key);

    if (c == 0 && a->key > 0)
        c = memcmp(a->name, b->name, (size_t)a->key);
    return c ? c : (a->module > b->module) - (a->module < b->module);
}

static enum lw_status find_named(struct lw_part *d, struct lw_err *err)
{
    int32_t n = d->w->n_modules, first = 0;
    struct named_module *list;

    LW_TAKE(&d->scratch, list, n, err);
    for (int32_t m = 0; m < n; m++)
        list[m] = (struct named_module){lw_module_name(d->w, m),
                                        lw_unit_key(d->s->units, lw_module_name(d->w, m)), m};
    lw_sort(list, n, by_key);
    for (int32_t i = 0; i < n; i++) {
        bool same = i > 0 && list[i].key == list[first].key &&
                    (list[i].key <= 0 ||
                     memcmp(list[i].name, list[first].name, (size_t)list[i].key) == 0);
        first = same ? first : i;
        d->unit_module[list[i].module] = list[first].module;
    }
    return LW_OK;
}

/* The module whose unit has a module's parameters: its own, the first one with its name in --units,
 * or the first one outside the blocks. */
static enum lw_status find_unit_modules(struct lw_part *d, struct lw_err *err)
{
    int32_t root = -1;

    if (d->unit_module)
        return LW_OK;
    LW_TAKE(&d->scratch, d->unit_module, d->w->n_modules, err);
    if (lw_units_are_named(d->s))
        return find_named(d, err);
    for (int32_t m = 0; m < d->w->n_modules; m++) {
        bool in = in_root(d, m);
        root = in && root < 0 ? m : root;
        d->unit_module[m] = in ? root : m;
    }
    return LW_OK;
}

/* --- ZeRO-3's buckets ------------------------------------------------------------------------ */

struct placed {
    int32_t module; /* -1: persistent */
    int32_t device, dtype, item; /* item: a gradient, or a frozen parameter */
};

/* As they complete: persistent ones last, modules from the last to the first. */
LW_COMPARATOR(by_unit, struct placed, b->module, a->module, a->device, b->device, a->dtype,
              b->dtype, a->item, b->item)

static bool same_unit(const struct placed *a, const struct placed *b)
{
    return a->module == b->module && a->device == b->device && a->dtype == b->dtype;
}

enum lw_status lw_part_bucket_modules(struct lw_part *d, struct lw_bucketing *out,
                                      struct lw_err *err)
{
    struct placed *p;
    struct lw_bucketing b = {0};

    LW_TRY(find_unit_modules(d, err));
    LW_TAKE(&d->scratch, p, d->n_grads, err);
    LW_TRY(lw_bucketing_room(&b, d->n_grads, d->n_grads, err));
    for (int32_t g = 0; g < d->n_grads; g++) {
        const struct lw_param *x = LW_PARAM(d->w, d->param_of[g]);
        p[g] = (struct placed){x->numel < d->s->persist ? -1 : d->unit_module[x->module],
                               lw_part_device(x),
                               (int32_t)x->dtype, g};
    }
    lw_sort(p, d->n_grads, by_unit);
    for (int32_t i = 0; i < d->n_grads; i++) {
        if (i == 0 || !same_unit(&p[i], &p[i - 1])) {
            b.limit_bytes[b.n_buckets] = LW_BUCKET_NO_LIMIT;
            b.first[b.n_buckets++] = i;
        }
        b.items[b.n_items++] = p[i].item;
    }
    b.first[b.n_buckets] = b.n_items;
    *out = b;
    if (lw_units_are_named(d->s))
        snprintf(d->rules.why, sizeof d->rules.why, "a unit per name of --units, dtype and device");
    else
        snprintf(d->rules.why, sizeof d->rules.why, "a unit per module, dtype and device%s",
                 d->s->root_unit ? "; one for all outside the blocks" : "");
    return LW_OK;
}

/* --- shards ---------------------------------------------------------------------------------- */

/* Padded so that every share is a multiple of 4 bytes, as DeepSpeed does for NCCL. */
static int64_t padded(int64_t elements, enum lw_dtype weights, enum lw_dtype grads, int32_t members)
{
    int64_t size = lw_dtype_size(weights) < lw_dtype_size(grads) ? lw_dtype_size(weights)
                                                                 : lw_dtype_size(grads);
    int64_t each = (int64_t)members * (size < 4 ? 4 / size : 1);

    return (elements + each - 1) / each * each;
}

/* What FSDP2 allocates: each parameter's rows are cut into as many chunks as there are members,
 * and every chunk is as large as the first (torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
 * _init_sharded_param: padded_sharded_size). */
static enum lw_status by_rows(const struct lw_part *d, const int32_t *params, int32_t n,
                              int32_t members, int64_t *elements, struct lw_err *err)
{
    *elements = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct lw_param *p = LW_PARAM(d->w, params[i]);
        if (p->rows == 0 && p->numel > 0)
            return lw_fail(err, LW_EINVAL,
                           "--shard-policy rows: parameter %d '%s' has no \"rows\" in the "
                           "workload: make it again, add them, or choose flat-contiguous",
                           lw_part_param(d, params[i]), p->name);
        int64_t chunk = p->rows > 0 ? (p->rows + members - 1) / members * (p->numel / p->rows) : 0;
        *elements = lw_add_sat(*elements, lw_mul_sat(chunk, members));
    }
    if (*elements > INT64_MAX / 16)
        return lw_fail(err, LW_EINVAL,
                       "--shard-policy rows: the unit of '%s' has more than 2^59 elements on %d "
                       "ranks: choose flat-contiguous",
                       lw_param_at(d->w, params[0]).name, members);
    return LW_OK;
}

/* The members whose shares elements [at, at + numel) of a unit lie in, as shards; one of a
 * parameter without elements. */
static enum lw_status cut(struct lw_part *d, int32_t param, int64_t at, int64_t share,
                          struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    int32_t n_members = lw_part_members(d, lw_param_at(d->w, param).expert);
    int64_t numel = lw_param_at(d->w, param).numel, done = 0;

    do {
        int32_t owner = share > 0 ? (int32_t)((at + done) / share) : 0;
        owner = owner < n_members ? owner : n_members - 1;
        int64_t end = (owner + 1) * share - at;
        end = end < numel ? end : numel;
        int64_t whole = share > 0 && end - done == share ? (numel - done) / share : 1;
        int32_t n = whole < n_members - owner ? (int32_t)whole : n_members - owner;
        if (h->n_runs == h->runs_room)
            return lw_fail(err, LW_EPLAN, "parameter %d is cut into more shards than there are "
                                          "members and units", lw_part_param(d, param));
        h->runs[h->n_runs++] = (struct lw_shard_run){{param, owner, done, end - done}, n};
        done += n * (end - done);
    } while (done < numel);
    return LW_OK;
}

/* By parameter. Those of one were cut in their order. */
static enum lw_status sort_runs(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    struct lw_shard_run *sorted;
    int32_t *next; /* place of the next run of each parameter */

    LW_TAKE(&h->room, sorted, h->n_runs, err);
    LW_TAKE(&d->scratch, next, d->w->n_params + 1, err);
    for (int32_t i = 0; i < h->n_runs; i++)
        next[h->runs[i].first.param + 1]++;
    for (int32_t p = 0; p < d->w->n_params; p++)
        next[p + 1] += next[p];
    for (int32_t i = 0; i < h->n_runs; i++)
        sorted[next[h->runs[i].first.param]++] = h->runs[i];
    h->runs = sorted;
    return LW_OK;
}

/* One type of weights on one device, of gradients that are reduced as they are cut. */
static enum lw_status check_unit(const struct lw_part *d, const int32_t *params, int32_t n,
                                 struct lw_err *err)
{
    const struct lw_param *first = LW_PARAM(d->w, params[0]);

    for (int32_t i = 0; i < n; i++) {
        const struct lw_param *p = LW_PARAM(d->w, params[i]);
        if (p->dtype != first->dtype || lw_part_device(p) != lw_part_device(first))
            return lw_fail(err, LW_EINVAL, "--zero %" PRId64 ": '%s' (%s, device %d) and '%s' (%s, "
                                           "device %d) lie in one unit, which has one flat buffer",
                           d->s->zero, first->name, lw_dtype_name(first->dtype), first->device,
                           p->name, lw_dtype_name(p->dtype), p->device);
    }
    return LW_OK;
}

/* The flat buffer of n parameters whose gradients are of type `grads`, and the shards that its
 * shares are. */
static enum lw_status make_unit(struct lw_part *d, const int32_t *params, int32_t n,
                                enum lw_dtype grads, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    const struct lw_param *first = LW_PARAM(d->w, params[0]);
    struct lw_part_buffer *f = &h->buffers[h->n_buffers++];
    int64_t elements = 0, end = 0, at = 0, room;
    int32_t n_members = lw_part_members(d, first->expert);

    LW_TRY(check_unit(d, params, n, err));
    for (int32_t i = 0; i < n; i++) {
        elements += lw_param_at(d->w, params[i]).numel;
        end = lw_megatron_start(d->s, end) + lw_param_at(d->w, params[i]).numel;
    }
    end = lw_megatron_end(d->s, end, n_members);
    room = padded(end, first->dtype, grads, n_members);
    if (d->s->shard_policy == LW_SHARD_ROWS)
        LW_TRY(by_rows(d, params, n, n_members, &room, err));
    *f = (struct lw_part_buffer){.dtype = first->dtype, .device = first->device, .owner = -1,
                                 .first_item = h->n_items, .module = -1, .first_user = -1,
                                 .expert = first->expert, .elements = room};
    if (d->s->zero == 3 && first->numel >= d->s->persist) {
        f->module = d->unit_module[first->module];
        f->root = in_root(d, first->module);
    }
    h->padding += f->elements - elements;
    for (int32_t i = 0; i < n; i++) {
        at = lw_megatron_start(d->s, at);
        h->items[h->n_items] = params[i];
        h->offset[h->n_items++] = at;
        f->n_items++;
        LW_TRY(cut(d, params[i], at, f->elements / n_members, err));
        at += lw_param_at(d->w, params[i]).numel;
    }
    return LW_OK;
}

static enum lw_status make_frozen_units(struct lw_part *d, const struct placed *p, int32_t n,
                                        struct lw_err *err)
{
    int32_t *params;

    LW_TAKE(&d->scratch, params, n, err);
    for (int32_t i = 0; i < n; i++)
        params[i] = p[i].item;
    for (int32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_unit(&p[i], &p[end]);)
            end++;
        LW_TRY(make_unit(d, params + i, end - i, (enum lw_dtype)p[i].dtype, err));
    }
    return LW_OK;
}

static void add_unit(struct lw_part_shards *h, int32_t module, int32_t unit, int32_t *end)
{
    for (int32_t u = h->first_unit[module]; u < *end; u++)
        if (h->used_units[u] == unit)
            return;
    if (h->buffers[unit].first_user < 0)
        h->buffers[unit].first_user = module;
    h->used_units[(*end)++] = unit;
}

static enum lw_status find_units(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;

    LW_TAKE(&d->arena, h->unit_of_param, d->w->n_params, err);
    memset(h->unit_of_param, -1, (size_t)d->w->n_params * sizeof *h->unit_of_param);
    for (int32_t b = 0; b < h->n_buffers; b++)
        for (int32_t i = 0; i < h->buffers[b].n_items; i++)
            h->unit_of_param[h->items[h->buffers[b].first_item + i]] = b;
    return LW_OK;
}

int32_t lw_part_temporary_unit(const struct lw_part *d, int32_t param)
{
    int32_t unit = d->shards.unit_of_param[param];

    return unit >= 0 && d->shards.buffers[unit].module >= 0 ? unit : -1;
}

/* Units by module: those of module m are list[first[m]] .. list[first[m + 1] - 1]. */
struct units_of {
    int32_t *first, *list;
};

struct use {
    int32_t module, unit;
};

static enum lw_status list_by_module(struct lw_part *d, const struct use *uses, int32_t n,
                                     struct units_of *out, struct lw_err *err)
{
    int32_t n_modules = d->w->n_modules, *next;

    LW_TAKE(&d->scratch, out->first, n_modules + 1L, err);
    LW_TAKE(&d->scratch, out->list, n, err);
    LW_TAKE(&d->scratch, next, n_modules, err);
    for (int32_t i = 0; i < n; i++)
        out->first[uses[i].module + 1]++;
    for (int32_t m = 0; m < n_modules; m++)
        out->first[m + 1] += out->first[m];
    memcpy(next, out->first, (size_t)n_modules * sizeof *next);
    for (int32_t i = 0; i < n; i++)
        out->list[next[uses[i].module]++] = uses[i].unit;
    return LW_OK;
}

/* The temporary buffers, by the module that their unit is named after. */
static enum lw_status list_own(struct lw_part *d, struct units_of *out, struct lw_err *err)
{
    const struct lw_part_shards *h = &d->shards;
    struct use *uses;
    int32_t n = 0;

    LW_TAKE(&d->scratch, uses, h->n_buffers, err);
    for (int32_t b = 0; b < h->n_buffers; b++)
        if (h->buffers[b].module >= 0)
            uses[n++] = (struct use){h->buffers[b].module, b};
    return list_by_module(d, uses, n, out, err);
}

/* The units that tied parameters refer to, by the module of the parameter. */
static enum lw_status list_tied(struct lw_part *d, struct units_of *out, struct lw_err *err)
{
    struct use *uses;
    int32_t n = 0;

    LW_TAKE(&d->scratch, uses, d->w->n_params, err);
    for (int32_t i = 0; i < d->w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(d->w, i);
        int32_t unit = p->tied < 0 ? -1 : lw_part_temporary_unit(d, p->tied);
        if (unit >= 0)
            uses[n++] = (struct use){p->module, unit};
    }
    return list_by_module(d, uses, n, out, err);
}

/* Buffers of each module, [first_unit[m], first_unit[m + 1]) of used_units: forward finds them
 * there. They hold its own parameters and those that its parameters are tied to. */
static enum lw_status index_units(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    int32_t n = d->w->n_modules, at = 0;
    struct units_of own, tied;
    int64_t room = 0;

    LW_TRY(list_own(d, &own, err));
    LW_TRY(list_tied(d, &tied, err));
    for (int32_t m = 0; m < n; m++)
        room += own.first[d->unit_module[m] + 1] - own.first[d->unit_module[m]] +
                tied.first[m + 1] - tied.first[m];
    LW_TAKE(&d->arena, h->first_unit, n + 1L, err);
    LW_TAKE(&d->arena, h->used_units, room, err);
    for (int32_t m = 0; m < n; m++) {
        int32_t u = d->unit_module[m];
        for (int32_t i = own.first[u]; i < own.first[u + 1]; i++)
            add_unit(h, m, own.list[i], &at);
        for (int32_t i = tied.first[m]; i < tied.first[m + 1]; i++)
            add_unit(h, m, tied.list[i], &at);
        h->first_unit[m + 1] = at;
    }
    return LW_OK;
}

/* Frozen parameters of the part that are sharded, by unit. */
static int32_t list_frozen(const struct lw_part *d, struct placed *p)
{
    int32_t n = 0;

    for (int32_t i = 0; i < d->w->n_params; i++) {
        const struct lw_param *x = LW_PARAM(d->w, i);
        if (lw_part_shards_frozen(d, x))
            p[n++] = (struct placed){d->unit_module[x->module], lw_part_device(x),
                                     (int32_t)x->dtype, i};
    }
    lw_sort(p, n, by_unit);
    return n;
}

enum lw_status lw_part_assign_units(struct lw_part *d, struct lw_err *err)
{
    struct lw_part_shards *h = &d->shards;
    const struct lw_bucketing *k = &d->initial.buckets;
    int32_t n_units = d->initial.name ? k->n_buckets : 0;
    struct placed *frozen;

    if (!lw_part_has_units(d->s) || d->n_members == 1)
        return LW_OK;
    LW_TRY(find_unit_modules(d, err));
    LW_TAKE(&d->scratch, frozen, d->w->n_params, err);
    int32_t n_frozen = list_frozen(d, frozen);
    if (n_units + n_frozen == 0)
        return LW_OK;
    h->runs_room = 3 * (d->n_grads + n_frozen); /* whole shares, and one before and after them */
    LW_TAKE(&d->scratch, h->runs, h->runs_room, err); /* until they are sorted */
    LW_TAKE(&d->arena, h->buffers, n_units + n_frozen, err);
    for (int32_t u = 0; u < n_units; u++) {
        LW_TRY(make_unit(d, k->items + k->first[u], k->first[u + 1] - k->first[u],
                         d->initial.dtype[u], err));
        d->initial.elements[u] = h->buffers[u].elements;
    }
    LW_TRY(make_frozen_units(d, frozen, n_frozen, err));
    LW_TRY(sort_runs(d, err));
    d->storage = LW_STORED_UNITS;
    LW_TRY(find_units(d, err));
    LW_TRY(d->s->overlap_param_gather ? lw_part_order_gathers(d, err) : index_units(d, err));
    return lw_part_count_owned(d, err);
}
