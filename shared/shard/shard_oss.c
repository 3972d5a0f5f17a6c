/* FairScale's OSS (fairscale/optim/oss.py, fairscale/nn/misc/param_bucket.py@146f1602).
 *
 * Invariants: `order` lists the parameters group by group; owners come from the greedy rule over
 * that order with the trainability of that moment, so they change only in lw_oss_new and
 * lw_oss_add_group; `sorted` holds, per device and owner, the parameters by size, stable in
 * `order`; buffers are by device in order of appearance, and within a device by the moment an owner
 * first had one. A change builds a whole new state in a new arena and swaps it in at the end. */
#include "shared/shard/shard_oss.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

#include <stdlib.h>
#include <string.h>

struct lw_oss {
    struct lw_arena arena;
    int32_t world, n, n_groups, n_devices, n_buffers;
    bool compat;
    struct lw_shard_param *params; /* [n] */
    int32_t *group_first;          /* [n_groups + 1] into order */
    int32_t *order;                /* [n] */
    int32_t *owner, *holder;       /* [n] */
    int32_t *device_index;         /* [n] */
    int32_t *devices;              /* [n_devices] */
    int32_t *sorted;               /* [n] by (device, owner, numel, place in order) */
    struct lw_oss_buffer *buffers;
};

void lw_oss_free(struct lw_oss *o)
{
    if (!o)
        return;
    lw_arena_free(&o->arena);
    lw_free(o);
}

static enum lw_status alloc_state(struct lw_oss *o, struct lw_err *err)
{
    struct lw_arena *a = &o->arena;

    LW_TAKE(a, o->params, o->n, err);
    LW_TAKE(a, o->group_first, (int64_t)o->n_groups + 1, err);
    LW_TAKE(a, o->order, o->n, err);
    LW_TAKE(a, o->owner, o->n, err);
    LW_TAKE(a, o->holder, o->n, err);
    LW_TAKE(a, o->device_index, o->n, err);
    LW_TAKE(a, o->devices, o->n, err);
    LW_TAKE(a, o->sorted, o->n, err);
    return LW_OK;
}

static void find_devices(struct lw_oss *o)
{
    for (int32_t k = 0; k < o->n; k++) {
        int32_t p = o->order[k], d = 0;
        while (d < o->n_devices && o->devices[d] != o->params[p].device)
            d++;
        if (d == o->n_devices)
            o->devices[o->n_devices++] = o->params[p].device;
        o->device_index[p] = d;
    }
}

static enum lw_status partition(struct lw_oss *o, struct lw_err *err)
{
    struct lw_load *heap;

    LW_NEW(heap, o->world, err);
    lw_loads_init(heap, o->world);
    for (int32_t k = 0; k < o->n; k++) {
        const struct lw_shard_param *p = &o->params[o->order[k]];
        o->owner[o->order[k]] = lw_loads_give(heap, o->world, p->trainable ? p->numel : 1);
    }
    lw_free(heap);
    return LW_OK;
}

struct placed {
    int64_t numel;
    int32_t device, owner, place, param;
};

LW_COMPARATOR(by_buffer, struct placed, a->device, b->device, a->owner, b->owner, a->numel,
              b->numel, a->place, b->place)

static enum lw_status sort_by_buffer(struct lw_oss *o, struct lw_err *err)
{
    struct placed *all;

    LW_NEW(all, o->n, err);
    for (int32_t k = 0; k < o->n; k++) {
        int32_t p = o->order[k];
        all[k] = (struct placed){o->params[p].numel, o->device_index[p], o->owner[p], k, p};
    }
    lw_sort(all, o->n, by_buffer);
    for (int32_t k = 0; k < o->n; k++)
        o->sorted[k] = all[k].param;
    lw_free(all);
    return LW_OK;
}

static bool same_buffer(const struct lw_oss *o, int32_t p, int32_t q)
{
    return o->device_index[p] == o->device_index[q] && o->owner[p] == o->owner[q];
}

/* The buffer of sorted[begin..end-1]; n_items = 0 when nothing there is trainable. */
static enum lw_status fill_buffer(struct lw_oss *o, int32_t begin, int32_t end,
                                  struct lw_oss_buffer *b, struct lw_err *err)
{
    int32_t *items;

    LW_TAKE(&o->arena, items, end - begin, err);
    *b = (struct lw_oss_buffer){.device = o->devices[o->device_index[o->sorted[begin]]],
                                .owner = o->owner[o->sorted[begin]],
                                .items = items};
    for (int32_t k = begin; k < end; k++) {
        const struct lw_shard_param *p = &o->params[o->sorted[k]];
        if (!p->trainable)
            continue;
        if (b->n_items == 0)
            b->dtype = p->dtype;
        if (p->dtype != b->dtype)
            return lw_fail(err, LW_EINVAL,
                           "parameter %d is %s, the flat buffer of device %d and rank %d holds %s: "
                           "one buffer has one dtype",
                           o->sorted[k], lw_dtype_name(p->dtype), b->device, b->owner,
                           lw_dtype_name(b->dtype));
        items[b->n_items++] = o->sorted[k];
        b->numel += p->numel;
    }
    return LW_OK;
}

static int32_t find_buffer(const struct lw_oss_buffer *b, int32_t n, int32_t device, int32_t owner)
{
    for (int32_t i = 0; i < n; i++)
        if (b[i].device == device && b[i].owner == owner)
            return i;
    return -1;
}

/* One old buffer that nothing trainable replaces, copied into the new state. */
static enum lw_status keep_buffer(struct lw_oss *o, const struct lw_oss_buffer *old,
                                  struct lw_err *err)
{
    int32_t *items;

    LW_TAKE(&o->arena, items, old->n_items, err);
    memcpy(items, old->items, (size_t)old->n_items * sizeof *items);
    o->buffers[o->n_buffers] = *old;
    o->buffers[o->n_buffers++].items = items;
    return LW_OK;
}

/* Buffers of one device: those that were there first, in their old order, then new owners. */
static enum lw_status merge_device(struct lw_oss *o, const struct lw_oss *old, int32_t device,
                                   const struct lw_oss_buffer *fresh, int32_t n_fresh,
                                   struct lw_err *err)
{
    int32_t first = o->n_buffers;

    for (int32_t i = 0; old && i < old->n_buffers; i++) {
        const struct lw_oss_buffer *b = &old->buffers[i];
        int32_t now = b->device == device ? find_buffer(fresh, n_fresh, device, b->owner) : -1;
        if (b->device != device)
            continue;
        if (now >= 0 && fresh[now].n_items > 0)
            o->buffers[o->n_buffers++] = fresh[now];
        else if (o->compat)
            LW_TRY(keep_buffer(o, b, err));
    }
    for (int32_t i = 0; i < n_fresh; i++)
        if (fresh[i].n_items > 0 &&
            find_buffer(o->buffers + first, o->n_buffers - first, device, fresh[i].owner) < 0)
            o->buffers[o->n_buffers++] = fresh[i];
    return LW_OK;
}

static enum lw_status build_buffers(struct lw_oss *o, const struct lw_oss *old, struct lw_err *err)
{
    struct lw_oss_buffer *fresh = lw_arena_alloc(&o->arena, o->n, sizeof *fresh);

    o->buffers =
        lw_arena_alloc(&o->arena, (int64_t)o->n + (old ? old->n_buffers : 0), sizeof *o->buffers);
    if (!fresh || !o->buffers)
        return lw_fail_nomem(err);
    for (int32_t k = 0, end; k < o->n;) {
        int32_t device = o->device_index[o->sorted[k]], n_fresh = 0;
        for (; k < o->n && o->device_index[o->sorted[k]] == device; k = end) {
            for (end = k + 1; end < o->n && same_buffer(o, o->sorted[k], o->sorted[end]);)
                end++;
            LW_TRY(fill_buffer(o, k, end, &fresh[n_fresh++], err));
        }
        LW_TRY(merge_device(o, old, o->devices[device], fresh, n_fresh, err));
    }
    return LW_OK;
}

/* Owners and buffers from scratch; `old` (may be NULL) is what was before. */
static enum lw_status build_all(struct lw_oss *o, const struct lw_oss *old, struct lw_err *err)
{
    find_devices(o);
    LW_TRY(partition(o, err));
    for (int32_t p = 0; p < o->n; p++)
        o->holder[p] = old && o->compat && p < old->n ? old->holder[p] : o->owner[p];
    LW_TRY(sort_by_buffer(o, err));
    return build_buffers(o, old, err);
}

static enum lw_status copy_groups(struct lw_oss *o, const int32_t *first, const int32_t *items,
                                  struct lw_err *err)
{
    int32_t at = 0;

    for (int32_t p = 0; p < o->n; p++)
        o->holder[p] = -1; /* holds the group seen, until owners are known */
    for (int32_t g = 0; g < o->n_groups; g++) {
        for (int32_t k = first ? first[g] : 0; k < (first ? first[g + 1] : o->n); k++) {
            int32_t p = first ? items[k] : k;
            if (p < 0 || p >= o->n)
                return lw_fail(err, LW_EINVAL,
                               "param group %d names parameter %d, allowed: 0 to %d", g, p,
                               o->n - 1);
            if (o->holder[p] >= 0)
                return lw_fail(err, LW_EINVAL,
                               "parameter %d is in param groups %d and %d, allowed: one", p,
                               o->holder[p], g);
            o->holder[p] = g;
            o->order[at++] = p;
        }
        o->group_first[g + 1] = at;
    }
    for (int32_t p = 0; p < o->n; p++)
        if (o->holder[p] < 0)
            return lw_fail(err, LW_EINVAL, "parameter %d is in no param group", p);
    return LW_OK;
}

enum lw_status lw_oss_new(const struct lw_shard_param *params, int32_t n, const int32_t *first,
                          const int32_t *items, int32_t n_groups, int32_t world, bool compat,
                          struct lw_oss **out, struct lw_err *err)
{
    LW_TRY(lw_shard_check_params(params, n, world, err));
    struct lw_oss *o;

    LW_NEW(o, 1, err);
    o->world = world;
    o->n = n;
    o->n_groups = n_groups > 0 ? n_groups : 1;
    o->compat = compat;
    enum lw_status status = alloc_state(o, err);
    if (status == LW_OK) {
        for (int32_t p = 0; p < n; p++)
            o->params[p] = params[p];
        status = copy_groups(o, n_groups > 0 ? first : NULL, items, err);
    }
    if (status == LW_OK)
        status = build_all(o, NULL, err);
    if (status != LW_OK)
        lw_oss_free(o);
    else
        *out = o;
    return status;
}

enum lw_status lw_oss_set_trainable(struct lw_oss *o, const int32_t *params, int32_t n,
                                    bool trainable, struct lw_err *err)
{
    for (int32_t i = 0; i < n; i++)
        if (params[i] < 0 || params[i] >= o->n)
            return lw_fail(err, LW_EINVAL, "parameter %d, allowed: 0 to %d", params[i], o->n - 1);
    for (int32_t i = 0; i < n; i++)
        o->params[params[i]].trainable = trainable;
    return LW_OK;
}

/* A copy of o's inputs with room for n_new more parameters in one more group. */
static enum lw_status copy_state(const struct lw_oss *o, const struct lw_shard_param *more,
                                 int32_t n_new, bool new_group, struct lw_oss *next,
                                 struct lw_err *err)
{
    *next = (struct lw_oss){.world = o->world,
                            .n = o->n + n_new,
                            .compat = o->compat,
                            .n_groups = o->n_groups + new_group};
    LW_TRY(alloc_state(next, err));
    for (int32_t p = 0; p < o->n; p++) {
        next->params[p] = o->params[p];
        next->order[p] = o->order[p];
    }
    for (int32_t g = 0; g <= o->n_groups; g++)
        next->group_first[g] = o->group_first[g];
    for (int32_t i = 0; i < n_new; i++) {
        next->params[o->n + i] = more[i];
        next->order[o->n + i] = o->n + i;
    }
    if (new_group)
        next->group_first[next->n_groups] = next->n;
    return LW_OK;
}

static enum lw_status swap_in(struct lw_oss *o, struct lw_oss *next, enum lw_status status)
{
    if (status != LW_OK) {
        lw_arena_free(&next->arena);
        return status;
    }
    lw_arena_free(&o->arena);
    *o = *next;
    return LW_OK;
}

enum lw_status lw_oss_refresh(struct lw_oss *o, struct lw_err *err)
{
    struct lw_oss next;
    enum lw_status status = copy_state(o, NULL, 0, false, &next, err);

    if (status == LW_OK) {
        find_devices(&next);
        for (int32_t p = 0; p < o->n; p++) {
            next.owner[p] = o->owner[p];
            next.holder[p] = o->holder[p];
            next.sorted[p] = o->sorted[p];
        }
        status = build_buffers(&next, o, err);
    }
    return swap_in(o, &next, status);
}

enum lw_status lw_oss_add_group(struct lw_oss *o, const struct lw_shard_param *params, int32_t n,
                                struct lw_err *err)
{
    struct lw_oss next = {0};

    LW_TRY(lw_shard_check_params(params, n, o->world, err));
    if (o->n > INT32_MAX - n)
        return lw_fail(err, LW_EINVAL, "%d and %d parameters are more than 2^31 - 1", o->n, n);
    enum lw_status status = copy_state(o, params, n, true, &next, err);
    if (status == LW_OK)
        status = lw_shard_check_params(next.params, next.n, o->world, err);
    if (status == LW_OK)
        status = build_all(&next, o, err);
    return swap_in(o, &next, status);
}

int32_t lw_oss_n_params(const struct lw_oss *o)
{
    return o->n;
}

int32_t lw_oss_n_groups(const struct lw_oss *o)
{
    return o->n_groups;
}

int32_t lw_oss_owner(const struct lw_oss *o, int32_t param)
{
    return o->owner[param];
}

static int32_t of_group(const struct lw_oss *o, const int32_t *whose, int32_t rank, int32_t group,
                        int32_t *items)
{
    int32_t n = 0;

    for (int32_t k = o->group_first[group]; k < o->group_first[group + 1]; k++)
        if (whose[o->order[k]] == rank)
            items[n++] = o->order[k];
    return n;
}

int32_t lw_oss_partition(const struct lw_oss *o, int32_t rank, int32_t group, int32_t *items)
{
    return of_group(o, o->owner, rank, group, items);
}

int32_t lw_oss_local(const struct lw_oss *o, int32_t rank, int32_t group, int32_t *items)
{
    return of_group(o, o->holder, rank, group, items);
}

int32_t lw_oss_n_devices(const struct lw_oss *o)
{
    return o->n_devices;
}

int32_t lw_oss_device(const struct lw_oss *o, int32_t device)
{
    return o->devices[device];
}

int32_t lw_oss_of_device(const struct lw_oss *o, int32_t device, int32_t rank, int32_t *items)
{
    int32_t n = 0;

    for (int32_t k = 0; k < o->n; k++)
        if (o->device_index[o->sorted[k]] == device && o->owner[o->sorted[k]] == rank)
            items[n++] = o->sorted[k];
    return n;
}

void lw_oss_in_buffer_order(const struct lw_oss *o, int32_t *items)
{
    for (int32_t k = 0; k < o->n; k++)
        items[k] = o->sorted[k];
}

int32_t lw_oss_device_index(const struct lw_oss *o, int32_t param)
{
    return o->device_index[param];
}

int32_t lw_oss_n_buffers(const struct lw_oss *o)
{
    return o->n_buffers;
}

const struct lw_oss_buffer *lw_oss_buffer(const struct lw_oss *o, int32_t buffer)
{
    return &o->buffers[buffer];
}
