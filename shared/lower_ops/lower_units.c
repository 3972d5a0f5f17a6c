/* ZeRO-3's ops: which modules' weights are gathered when, what waits for them, and when they are
 * freed. What a unit is: shared/lower_part/lower_fsdp.c. */
#include <string.h>

#include "shared/lower_ops/writer.h"

static struct lw_op memory_op(const struct lw_writer *k, enum lw_op_kind kind, int32_t stream,
                              const struct lw_part *d, int32_t buffer)
{
    const struct lw_part_buffer *f = &d->shards.buffers[buffer];
    struct lw_op op = lw_write_op(k, kind, stream, "unit");

    op.bytes = f->elements * lw_dtype_size(f->dtype); /* beside the member's own share */
    op.bucket = d->shards.first_bucket + buffer;
    op.module = f->module < 0 ? -1 : lw_part_module(d, f->module);
    return op;
}

/* FSDP2 copies each parameter into the buffer that is gathered and from there to its own place
 * (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py@8fc2039d: all_gather_copy_in,
 * foreach_all_gather_copy_out). */
static void copy_unit(struct lw_writer *k, const struct lw_writer_part *x, int32_t buffer,
                      int32_t n_members)
{
    const struct lw_part_buffer *f = &x->d->shards.buffers[buffer];

    if (x->d->s->unit_copies)
        lw_write_copy(k, LW_OP_COPY, f->elements * lw_dtype_size(f->dtype) / n_members, f->dtype,
                      -1, -1);
}

/* Room, then the weights: after what runs now, and after the last time they were freed. */
static void gather(struct lw_writer *k, struct lw_writer_part *x, int32_t buffer)
{
    const struct lw_part_buffer *f = &x->d->shards.buffers[buffer];
    int32_t deps[2], n = 0;

    if (x->unit_there[buffer])
        return;
    copy_unit(k, x, buffer, lw_part_members(x->d, f->expert));
    if (k->last_compute >= 0)
        deps[n++] = k->last_compute;
    if (x->unit_freed[buffer] >= 0)
        deps[n++] = x->unit_freed[buffer];
    struct lw_op room = memory_op(k, LW_OP_ALLOC, k->l->data.stream, x->d, buffer);
    int32_t there = lw_builder_op(k->l->b, &room, deps, n);
    struct lw_op op = lw_write_weights(k, x->d, buffer, LW_OP_ALL_GATHER, f->dtype);
    op.module = room.module;
    x->unit_at[buffer] = lw_builder_op(k->l->b, &op, &there, 1);
    x->unit_there[buffer] = true;
    x->unit_waited[buffer] = false;
}

/* Some module of the part uses units. */
static bool has_units(const struct lw_writer_part *x)
{
    return x->unit_there || x->n_elsewhere > 0;
}

/* The i-th unit that the module uses: its part's, then those of other parts; part NULL: no more. */
static struct lw_unit_elsewhere unit_at(struct lw_writer_part *x, int32_t module, int32_t i)
{
    const struct lw_part_shards *h = &x->d->shards;
    int32_t n = x->unit_there ? h->first_unit[module + 1] - h->first_unit[module] : 0;

    if (i < n)
        return (struct lw_unit_elsewhere){x, module, h->used_units[h->first_unit[module] + i]};
    for (int32_t e = 0; e < x->n_elsewhere; e++)
        if (x->elsewhere[e].module == module && i-- == n)
            return x->elsewhere[e];
    return (struct lw_unit_elsewhere){NULL, module, -1};
}

/* Elements of gathered units on the rank. */
static int64_t live_elements(const struct lw_writer *k)
{
    int64_t n = 0;

    for (int32_t i = 0; i < k->n_parts; i++)
        for (int32_t b = 0; k->parts[i].unit_there && b < k->parts[i].d->shards.n_buffers; b++)
            n += k->parts[i].unit_there[b] ? k->parts[i].d->shards.buffers[b].elements : 0;
    return n;
}

/* Elements of the module's units that were not there; they are now. */
static int64_t gather_module(struct lw_writer *k, struct lw_writer_part *x, int32_t module)
{
    struct lw_unit_elsewhere u;
    int64_t n = 0;

    for (int32_t i = 0; (u = unit_at(x, module, i)).part; i++) {
        n += u.part->unit_there[u.unit] ? 0 : u.part->d->shards.buffers[u.unit].elements;
        gather(k, u.part, u.unit);
    }
    return n;
}

/* DeepSpeed's prefetch: after the module's own, what comes next until so many elements are on their
 * way; the last may exceed it (deepspeedai/DeepSpeed@641d86fa
 * deepspeed/runtime/zero/partitioned_param_coordinator.py, fetch_sub_module). */
static void gather_elements_ahead(struct lw_writer *k, struct lw_writer_part *x, int32_t module,
                                  int32_t step)
{
    const struct lw_strategy *s = x->d->s;
    int64_t most = s->prefetch_elements, n = 0;

    gather_module(k, x, module);
    if (s->live_elements > 0 && s->live_elements - live_elements(k) < most)
        most = s->live_elements - live_elements(k);
    for (int32_t m = module + step; n < most && m >= 0 && m < x->d->w->n_modules; m += step)
        n += gather_module(k, x, m);
}

/* The units of the module and of those that are prefetched with it. */
static void gather_ahead(struct lw_writer *k, struct lw_writer_part *x, int32_t module,
                         int32_t step)
{
    int64_t ahead = x->d->s->prefetch >= 0 ? x->d->s->prefetch : LW_PREFETCH_DEFAULT;

    if (x->d->s->prefetch_elements > 0) {
        gather_elements_ahead(k, x, module, step);
        return;
    }
    for (int64_t i = 0, m = module; i <= ahead && m >= 0 && m < x->d->w->n_modules; m += step) {
        gather_module(k, x, (int32_t)m);
        i += !lw_part_same_unit(x->d, (int32_t)m, (int32_t)m + step);
    }
}

/* Returns 0: so many are left. */
static int32_t wait_for(struct lw_writer *k, const struct lw_unit_elsewhere *units,
                        const int32_t *gathers, int32_t n)
{
    lw_write_wait(k, "unit", gathers, n);
    for (int32_t i = 0; i < n; i++)
        copy_unit(k, units[i].part, units[i].unit, 1);
    return 0;
}

void lw_write_units(struct lw_writer *k, struct lw_writer_part *x, int32_t module, int32_t step)
{
    struct lw_unit_elsewhere u, waited[8];
    int32_t wait[8], n = 0;

    if (!has_units(x))
        return;
    gather_ahead(k, x, module, step);
    for (int32_t i = 0; (u = unit_at(x, module, i)).part; i++) {
        if (u.part->unit_waited[u.unit])
            continue;
        u.part->unit_waited[u.unit] = true;
        waited[n] = u;
        wait[n++] = u.part->unit_at[u.unit];
        if (n == 8)
            n = wait_for(k, waited, wait, n);
    }
    if (n > 0)
        wait_for(k, waited, wait, n);
}

/* The module's, or those of all modules outside the blocks. Without --reshard a unit that tied
 * parameters of its part share stays until the last backward that uses it. */
static void free_units(struct lw_writer *k, struct lw_writer_part *x, int32_t module, bool root)
{
    struct lw_unit_elsewhere u;

    for (int32_t i = 0; (u = unit_at(x, module, i)).part; i++) {
        const struct lw_part_buffer *f = &u.part->d->shards.buffers[u.unit];
        bool later = !x->d->s->reshard && u.part == x && f->first_user != module;
        if (!u.part->unit_there[u.unit] || f->root != root || later)
            continue;
        struct lw_op op = memory_op(k, LW_OP_FREE, k->l->compute, u.part->d, u.unit);
        u.part->unit_freed[u.unit] = lw_write_compute(k, &op, NULL, 0);
        u.part->unit_there[u.unit] = false;
    }
}

static bool frees_units(const struct lw_writer *k, const struct lw_writer_part *x)
{
    bool stays = lw_part_keeps_units(x->d) && (x->uses_left > 0 || !k->pass->ends_step);

    return has_units(x) && !stays;
}

void lw_write_free_units(struct lw_writer *k, struct lw_writer_part *x, int32_t module)
{
    if (frees_units(k, x) && !lw_part_same_unit(x->d, module, module - 1))
        free_units(k, x, module, false);
}

void lw_write_free_root(struct lw_writer *k, struct lw_writer_part *x)
{
    for (int32_t m = 0; frees_units(k, x) && m < x->d->w->n_modules; m++)
        free_units(k, x, m, true);
}

void lw_write_reshard(struct lw_writer *k, struct lw_writer_part *x, int32_t module)
{
    if (has_units(x) && x->d->s->reshard && module + 1 < x->d->w->n_modules &&
        !lw_part_same_unit(x->d, module, module + 1))
        free_units(k, x, module, false);
}

/* By part of the model; NULL: it is at another stage. */
static enum lw_status index_writers(const struct lw_writer *k, struct lw_arena *room,
                                    struct lw_writer_part ***out, struct lw_err *err)
{
    LW_TAKE(room, *out, k->l->n_parts, err);
    for (int32_t i = 0; i < k->n_parts; i++)
        (*out)[k->parts[i].d - k->l->parts] = &k->parts[i];
    return LW_OK;
}

/* Number of the model's parameter in the part that holds it. */
static int32_t number_in_part(const struct lw_writer *k, int32_t param)
{
    return k->l->param_in_part ? k->l->param_in_part[param] : param;
}

/* A V-shaped pipeline has the first module and the last one at one stage, in two parts. */
static enum lw_status link_unit(const struct lw_writer *k, struct lw_writer_part *user,
                                struct lw_writer_part *x, int32_t param, struct lw_arena *room,
                                struct lw_err *err)
{
    const struct lw_workload *w = k->l->w;
    int32_t holder = number_in_part(k, lw_lower_holder(k->l, param));
    int32_t unit = user != x && x->unit_there ? lw_part_temporary_unit(x->d, holder) : -1;
    int32_t module = lw_param_at(w, param).module - user->d->first_module;

    if (unit < 0)
        return LW_OK;
    if (!user->elsewhere)
        LW_TAKE(room, user->elsewhere, w->n_params, err);
    const struct lw_unit_elsewhere *last =
        user->n_elsewhere > 0 ? &user->elsewhere[user->n_elsewhere - 1] : NULL;
    if (!last || last->part != x || last->module != module || last->unit != unit)
        user->elsewhere[user->n_elsewhere++] = (struct lw_unit_elsewhere){x, module, unit};
    return LW_OK;
}

/* The module of a tied parameter adds to the gradient that another holds. From the last one: each
 * goes before those of its module. */
static void link_gradients(struct lw_writer *k, struct lw_writer_part *const *writer_of)
{
    const struct lw_workload *w = k->l->w;
    int32_t n = 0;

    for (int32_t i = w->n_params - 1; i >= 0; i--) {
        int32_t holder = lw_lower_holder(k->l, i), module = lw_param_at(w, i).module;
        struct lw_writer_part *x = writer_of[k->l->part_of[lw_param_at(w, holder).module]];
        if (holder == i || !x || !x->room_at || !writer_of[k->l->part_of[module]])
            continue;
        k->tied[n] = (struct lw_tied_use){x, number_in_part(k, holder), k->module_tied[module]};
        k->module_tied[module] = n++;
    }
}

enum lw_status lw_write_link_tied(struct lw_writer *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_workload *w = k->l->w;
    struct lw_writer_part **writer_of;
    int32_t n = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        n += lw_param_at(w, i).tied >= 0;
    if (n == 0)
        return LW_OK;
    LW_TRY(index_writers(k, room, &writer_of, err));
    LW_TAKE(room, k->tied, n, err);
    LW_TAKE(room, k->module_tied, w->n_modules, err);
    memset(k->module_tied, -1, (size_t)w->n_modules * sizeof *k->module_tied);
    for (int32_t i = 0; i < w->n_params; i++) {
        int32_t holder = lw_lower_holder(k->l, i);
        struct lw_writer_part *user = writer_of[k->l->part_of[lw_param_at(w, i).module]];
        struct lw_writer_part *x = writer_of[k->l->part_of[lw_param_at(w, holder).module]];
        if (holder != i && user && x)
            LW_TRY(link_unit(k, user, x, i, room, err));
    }
    link_gradients(k, writer_of);
    return LW_OK;
}

enum lw_status lw_write_begin_units(const struct lw_pass *pass, struct lw_writer_part *x,
                                    struct lw_arena *room, struct lw_err *err)
{
    int32_t n = x->d->shards.n_buffers;

    if (x->d->storage != LW_STORED_UNITS || x->d->s->zero < 3)
        return LW_OK;
    LW_TAKE(room, x->unit_there, n, err);
    LW_TAKE(room, x->unit_at, n, err);
    LW_TAKE(room, x->unit_freed, n, err);
    LW_TAKE(room, x->unit_waited, n, err);
    for (int32_t b = 0; b < n; b++) {
        x->unit_at[b] = x->unit_freed[b] = -1;
        x->unit_there[b] = x->unit_waited[b] = pass->held && x->d->shards.buffers[b].module >= 0;
    }
    return LW_OK;
}
