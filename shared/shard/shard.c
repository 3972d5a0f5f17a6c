/* Optimizer shards: who updates which elements.
 *
 * Invariants: the shards of a parameter tile it, in ascending order; a policy that cannot cut
 * evenly pads by a stated rule and records the padding, or refuses. Sizes are elements where the
 * reference system counts elements (oss-greedy, flat, per-tensor) and bytes in lpt.
 *
 * Sources: FairScale fairscale/optim/oss.py@146f1602; R. Graham, "Bounds on multiprocessing timing
 * anomalies", 1969 (LPT); DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py and FSDP's flat
 * parameters (padding to a multiple of the members); llm.c llmc/zero.cuh@f1e2ace. Not modelled:
 * DeepSpeed's round-robin reordering of gradients, hybrid sharding. */
#include "shared/shard/shard.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

#include <inttypes.h>
#include <stdlib.h>

LW_FREE_BY_ARENA(lw_sharding_free, struct lw_sharding)

enum lw_status lw_shard_check_params(const struct lw_shard_param *params, int32_t n, int32_t world,
                                     struct lw_err *err)
{
    int64_t bytes = 0, one;

    if (world < 1)
        return lw_fail(err, LW_EINVAL, "sharding over %d members, allowed: 1 or more", world);
    for (int32_t i = 0; i < n; i++) {
        if (params[i].numel < 0)
            return lw_fail(err, LW_EINVAL,
                           "parameter %d has %" PRId64 " elements, allowed: 0 or more", i,
                           params[i].numel);
        if (__builtin_mul_overflow(params[i].numel, lw_dtype_size(params[i].dtype), &one) ||
            __builtin_add_overflow(bytes, one, &bytes) || bytes > INT64_MAX / 2)
            return lw_fail(err, LW_EINVAL, "parameters 0 to %d hold more than 2^62 bytes", i);
    }
    return LW_OK;
}

void lw_loads_init(struct lw_load *heap, int32_t world)
{
    for (int32_t r = 0; r < world; r++)
        heap[r] = (struct lw_load){0, r};
}

static bool lighter(const struct lw_load *a, const struct lw_load *b)
{
    return a->load != b->load ? a->load < b->load : a->rank < b->rank;
}

int32_t lw_loads_give(struct lw_load *heap, int32_t world, int64_t load)
{
    struct lw_load top = heap[0];
    int32_t i = 0, rank = top.rank;

    top.load += load;
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child + 1 < world && lighter(&heap[child + 1], &heap[child]))
            child++;
        if (child >= world || !lighter(&heap[child], &top))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = top;
    return rank;
}

/* Room for n_shards shards; without units each has unit -1. */
static enum lw_status alloc_shards(struct lw_sharding *s, int32_t world, int64_t n_shards,
                                   int32_t n_units, struct lw_err *err)
{
    *s = (struct lw_sharding){.world = world, .n_shards = (int32_t)n_shards, .n_units = n_units};
    if (n_shards > INT32_MAX)
        return lw_fail(err, LW_EINVAL, "%" PRId64 " shards, allowed: up to 2^31 - 1", n_shards);
    s->shards = lw_arena_alloc(&s->arena, n_shards, sizeof *s->shards);
    s->offset = lw_arena_alloc(&s->arena, n_shards, sizeof *s->offset);
    s->unit = lw_arena_alloc(&s->arena, n_shards, sizeof *s->unit);
    s->units = lw_arena_alloc(&s->arena, n_units, sizeof *s->units);
    if (!s->shards || !s->offset || !s->unit || !s->units) {
        lw_sharding_free(s);
        return lw_fail_nomem(err);
    }
    for (int64_t i = 0; i < n_shards; i++)
        s->unit[i] = -1;
    return LW_OK;
}

struct piece {
    int64_t bytes; /* what parameters are ordered by: bytes, or elements */
    int32_t shard;
};

LW_COMPARATOR(largest_first, struct piece, b->bytes, a->bytes, a->shard, b->shard)

static int64_t n_pieces(const struct lw_shard_param *p, int64_t split_bytes)
{
    int64_t size = lw_dtype_size(p->dtype), most = split_bytes / size;

    if (!p->trainable || split_bytes == 0 || p->numel * size <= split_bytes)
        return 1;
    return most < 1 ? p->numel : (p->numel - 1) / most + 1;
}

static void cut_pieces(const struct lw_shard_param *params, int32_t n, int64_t split_bytes,
                       struct lw_sharding *s, struct piece *pieces, int32_t *n_owned)
{
    int32_t at = 0;

    *n_owned = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t k = n_pieces(&params[i], split_bytes), begin = 0;
        for (int64_t c = 0; c < k; c++, at++) {
            int64_t numel = params[i].numel / k + (c < params[i].numel % k);
            s->shards[at] = (struct lw_shard){i, -1, begin, numel};
            begin += numel;
            if (params[i].trainable)
                pieces[(*n_owned)++] = (struct piece){numel * lw_dtype_size(params[i].dtype), at};
        }
    }
}

enum lw_status lw_shard_lpt(const struct lw_shard_param *params, int32_t n, int32_t world,
                            int64_t split_bytes, struct lw_sharding *out, struct lw_err *err)
{
    struct lw_sharding s;
    int64_t total = 0;
    int32_t n_owned;

    LW_TRY(lw_shard_check_params(params, n, world, err));
    if (split_bytes < 0)
        return lw_fail(err, LW_EINVAL, "split size %" PRId64 " bytes, allowed: 0 (never) or more",
                       split_bytes);
    for (int32_t i = 0; i < n; i++)
        total += n_pieces(&params[i], split_bytes);
    LW_TRY(alloc_shards(&s, world, total, 0, err));
    struct piece *pieces = lw_calloc((size_t)total, sizeof *pieces);
    struct lw_load *heap = lw_calloc((size_t)world, sizeof *heap);
    enum lw_status status = pieces && heap ? LW_OK : lw_fail_nomem(err);

    if (status == LW_OK) {
        cut_pieces(params, n, split_bytes, &s, pieces, &n_owned);
        lw_sort(pieces, n_owned, largest_first);
        lw_loads_init(heap, world);
        for (int32_t i = 0; i < n_owned; i++)
            s.shards[pieces[i].shard].owner = lw_loads_give(heap, world, pieces[i].bytes);
        *out = s;
    } else {
        lw_sharding_free(&s);
    }
    lw_free(pieces);
    lw_free(heap);
    return status;
}

LW_COMPARATOR(smallest_first, struct piece, a->bytes, b->bytes, a->shard, b->shard)

enum lw_status lw_shard_ping_pong(const struct lw_shard_param *params, int32_t n, int32_t world,
                                  struct lw_sharding *out, struct lw_err *err)
{
    struct lw_sharding s;
    int32_t n_owned = 0;

    LW_TRY(lw_shard_check_params(params, n, world, err));
    LW_TRY(alloc_shards(&s, world, n, 0, err));
    struct piece *pieces = lw_calloc((size_t)n, sizeof *pieces);
    if (!pieces) {
        lw_sharding_free(&s);
        return lw_fail_nomem(err);
    }
    for (int32_t i = 0; i < n; i++) {
        s.shards[i] = (struct lw_shard){i, -1, 0, params[i].numel};
        if (params[i].trainable)
            pieces[n_owned++] = (struct piece){params[i].numel, i};
    }
    lw_sort(pieces, n_owned, smallest_first);
    for (int32_t i = 0; i < n_owned; i++) {
        int32_t at = i % world;
        s.shards[pieces[i].shard].owner = i / world % 2 ? world - 1 - at : at;
    }
    lw_free(pieces);
    *out = s;
    return LW_OK;
}

/* Each trainable parameter in exactly one unit, one dtype and device per unit. */
static enum lw_status check_units(const struct lw_shard_param *params, int32_t n,
                                  const int32_t *first, const int32_t *items, int32_t n_units,
                                  int32_t *unit_of, struct lw_err *err)
{
    for (int32_t i = 0; i < n; i++)
        unit_of[i] = -1;
    for (int32_t u = 0; u < n_units; u++) {
        const struct lw_shard_param *head = NULL;
        for (int32_t k = first[u]; k < first[u + 1]; k++) {
            int32_t i = items[k];
            if (i < 0 || i >= n)
                return lw_fail(err, LW_EINVAL, "unit %d names parameter %d, allowed: 0 to %d", u, i,
                               n - 1);
            if (unit_of[i] >= 0)
                return lw_fail(err, LW_EINVAL, "parameter %d is in units %d and %d", i, unit_of[i],
                               u);
            unit_of[i] = u;
            if (!params[i].trainable)
                continue;
            head = head ? head : &params[i];
            if (params[i].dtype != head->dtype || params[i].device != head->device)
                return lw_fail(
                    err, LW_EINVAL,
                    "unit %d mixes %s on device %d with %s on device %d (parameter %d): a "
                    "flat buffer has one dtype and device",
                    u, lw_dtype_name(head->dtype), head->device, lw_dtype_name(params[i].dtype),
                    params[i].device, i);
        }
    }
    for (int32_t i = 0; i < n; i++)
        if (params[i].trainable && unit_of[i] < 0)
            return lw_fail(err, LW_EINVAL, "trainable parameter %d is in no unit", i);
    return LW_OK;
}

/* Where each parameter begins in its unit, and the units themselves. */
static enum lw_status lay_out(const struct lw_shard_param *params, int32_t world, int64_t align,
                              const int32_t *first, const int32_t *items, struct lw_sharding *s,
                              int64_t *begin, struct lw_err *err)
{
    int64_t step;

    if (align < 1 || __builtin_mul_overflow(align, (int64_t)world, &step) || step > INT64_MAX / 4)
        return lw_fail(err, LW_EINVAL,
                       "alignment %" PRId64 " elements for %d members, allowed: 1 or more, within "
                       "2^61 together",
                       align, world);
    for (int32_t u = 0; u < s->n_units; u++) {
        struct lw_flat_unit *unit = &s->units[u];
        for (int32_t k = first[u]; k < first[u + 1]; k++) {
            const struct lw_shard_param *p = &params[items[k]];
            if (!p->trainable)
                continue;
            if (unit->numel == 0)
                unit->dtype = p->dtype;
            begin[items[k]] = unit->numel;
            unit->numel += p->numel;
        }
        unit->padding = (step - unit->numel % step) % step;
        unit->share = (unit->numel + unit->padding) / world;
    }
    return LW_OK;
}

/* Cut one parameter at the shares' edges. With `write` false only counts. */
static int64_t cut_at_shares(const struct lw_shard_param *p, int32_t param, int32_t u,
                             int64_t begin, struct lw_sharding *s, int64_t at, bool write)
{
    int64_t share = u >= 0 ? s->units[u].share : 0, done = 0, n = 0;

    do {
        struct lw_shard x = {param, -1, done, p->numel - done};
        int64_t offset = 0;
        if (p->trainable && share > 0) {
            int64_t place = begin + done;
            x.owner = (int32_t)(place / share);
            offset = place % share;
            x.owner = x.owner < s->world ? x.owner : s->world - 1; /* an empty one at the end */
            if (x.numel > share - offset)
                x.numel = share - offset;
        } else if (p->trainable) {
            x.owner = 0; /* a unit without elements */
        }
        if (write) {
            s->shards[at + n] = x;
            s->offset[at + n] = offset;
            s->unit[at + n] = p->trainable ? u : -1;
        }
        done += x.numel;
        n++;
    } while (done < p->numel);
    return n;
}

enum lw_status lw_shard_flat(const struct lw_shard_param *params, int32_t n, int32_t world,
                             const int32_t *first, const int32_t *items, int32_t n_units,
                             int64_t align, struct lw_sharding *out, struct lw_err *err)
{
    struct lw_sharding s = {0}, layout = {.world = world, .n_units = n_units};
    struct lw_arena work = {0};
    int64_t total = 0;

    LW_TRY(lw_shard_check_params(params, n, world, err));
    int32_t *unit_of = lw_arena_alloc(&work, n, sizeof *unit_of);
    int64_t *begin = lw_arena_alloc(&work, n, sizeof *begin);
    layout.units = lw_arena_alloc(&work, n_units, sizeof *layout.units);
    enum lw_status status = unit_of && begin && layout.units ? LW_OK : lw_fail_nomem(err);

    if (status == LW_OK)
        status = check_units(params, n, first, items, n_units, unit_of, err);
    if (status == LW_OK)
        status = lay_out(params, world, align, first, items, &layout, begin, err);
    for (int32_t i = 0; status == LW_OK && i < n; i++)
        total += cut_at_shares(&params[i], i, unit_of[i], begin[i], &layout, 0, false);
    if (status == LW_OK)
        status = alloc_shards(&s, world, total, n_units, err);
    if (status == LW_OK) {
        for (int32_t u = 0; u < n_units; u++)
            s.units[u] = layout.units[u];
        total = 0;
        for (int32_t i = 0; i < n; i++)
            total += cut_at_shares(&params[i], i, unit_of[i], begin[i], &s, total, true);
        *out = s;
    }
    lw_arena_free(&work);
    return status;
}

enum lw_status lw_shard_per_tensor(const struct lw_shard_param *params, int32_t n, int32_t world,
                                   struct lw_sharding *out, struct lw_err *err)
{
    struct lw_sharding s;
    int64_t total = 0;

    LW_TRY(lw_shard_check_params(params, n, world, err));
    for (int32_t i = 0; i < n; i++) {
        if (params[i].trainable && params[i].numel % world != 0)
            return lw_fail(err, LW_EINVAL,
                           "per-tensor shards: parameter %d has %" PRId64
                           " elements, not a multiple of %d members (flat shards pad instead)",
                           i, params[i].numel, world);
        total += params[i].trainable ? world : 1;
    }
    LW_TRY(alloc_shards(&s, world, total, 0, err));
    int64_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t part = params[i].numel / world;
        if (!params[i].trainable)
            s.shards[at++] = (struct lw_shard){i, -1, 0, params[i].numel};
        for (int32_t r = 0; params[i].trainable && r < world; r++)
            s.shards[at++] = (struct lw_shard){i, r, r * part, part};
    }
    *out = s;
    return LW_OK;
}
