/* The ops of one pass on every role: forwards and backwards in the schedule's order, each part's
 * last backward with its copies and collectives, what is left of the reduction, and where the pass
 * ends a step the update.
 *
 * Invariant: ops of the compute stream are written in the order they run. Source of the order:
 * torch/nn/parallel/distributed.py 1.13.1. */
#include <string.h>

#include "shared/lower_ops/writer.h"

static enum lw_status write_ops(struct lw_writer *k, struct lw_err *err)
{
    LW_TRY(lw_write_pipeline(k, err));
    if (k->pass->ends_step)
        lw_write_load_state(k);
    for (int32_t i = 0; i < k->n_parts; i++)
        if (k->parts[i].reducer)
            LW_TRY(lw_write_reduction_end(k, &k->parts[i], err));
    if (k->pass->ends_step)
        lw_write_update(k);
    return lw_write_interleaved(k, err);
}

/* --- room ------------------------------------------------------------------------------------ */

static const struct lw_part_set *set_of(const struct lw_part *d, enum lw_pass_set which)
{
    const struct lw_part_set *set = which == LW_PASS_INITIAL   ? &d->initial
                                    : which == LW_PASS_REBUILT ? &d->rebuilt
                                                               : NULL;

    return set && set->name ? set : NULL;
}

static void find_buckets(const struct lw_part *d, const struct lw_bucketing *k, int32_t *bucket_of)
{
    memset(bucket_of, -1, (size_t)d->w->n_params * sizeof *bucket_of);
    for (int32_t b = 0; b < k->n_buckets; b++)
        for (int32_t i = k->first[b]; i < k->first[b + 1]; i++)
            bucket_of[k->items[i]] = b;
}

static enum lw_status index_room(struct lw_writer_part *x, struct lw_arena *room,
                                 struct lw_err *err)
{
    const struct lw_bucketing *k = &x->set->buckets;

    LW_TAKE(room, x->room_at, k->n_buckets, err);
    LW_TAKE_ROOM(room, x->bucket_of, x->d->w->n_params, err);
    memset(x->room_at, -1, (size_t)k->n_buckets * sizeof *x->room_at);
    find_buckets(x->d, k, x->bucket_of);
    return LW_OK;
}

static enum lw_status new_reducer(const struct lw_part *d, const struct lw_part_set *set,
                                  struct lw_reducer **out, struct lw_err *err)
{
    const struct lw_bucketing *k = &set->buckets;
    struct lw_arena room = {0};
    int32_t *bucket_of = lw_arena_room(&room, d->w->n_params, sizeof *bucket_of);

    if (!bucket_of)
        return lw_fail_nomem(err);
    find_buckets(d, k, bucket_of);
    enum lw_status st = lw_reducer_new(d->w->n_params, bucket_of, k->n_buckets, d->s->launch_order,
                                       out, err);
    lw_arena_free(&room); /* the reducer has a copy */
    if (st == LW_OK)
        lw_reducer_set_rules(*out, lw_reducer_rules_of(d->s));
    return st;
}

static enum lw_status begin_part(struct lw_writer *k, struct lw_writer_part *x,
                                 struct lw_arena *room, struct lw_err *err)
{
    const struct lw_part *d = x->d;

    LW_TRY(lw_write_begin_units(k->pass, x, room, err));
    LW_TRY(lw_write_begin_gathers_ahead(k->pass, x, room, err));
    x->set = set_of(d, k->pass->set);
    if (!x->set)
        return LW_OK;
    int32_t n_buckets = x->set->buckets.n_buckets;
    LW_TAKE(room, x->launches, n_buckets, err);
    LW_TAKE(room, x->late, n_buckets, err);
    LW_TAKE(room, x->done_of, 2L * n_buckets, err);
    if (d->s->late_replicas && k->l->replicas.comm >= 0)
        LW_TAKE(room, x->held, n_buckets, err);
    if (d->one_by_one)
        LW_TAKE(room, x->params, d->n_grads, err);
    if (lw_part_drops_gradients(d))
        LW_TRY(index_room(x, room, err));
    LW_TRY(new_reducer(d, x->set, &x->reducer, err));
    return lw_write_round_begin(x, err);
}

static enum lw_status begin_parts(struct lw_writer *k, struct lw_arena *room, struct lw_err *err)
{
    int64_t n_reduced = 2L + k->l->n_tied, n_weights = 0;

    for (int32_t i = 0; i < k->l->n_parts; i++)
        k->n_places += k->l->parts[i].stage == k->stage;
    int64_t n_values = 2L * k->n_places * k->l->grid.n_micro_batches;
    LW_TAKE(room, k->parts, k->n_places, err);
    LW_TAKE(room, k->made, n_values, err);
    LW_TAKE(room, k->got, n_values, err);
    LW_TAKE(room, k->sent, n_values, err);
    LW_TAKE(room, k->gap_written, 2L * k->l->grid.n_micro_batches, err);
    memset(k->made, -1, (size_t)n_values * sizeof *k->made);
    memset(k->got, -1, (size_t)n_values * sizeof *k->got);
    for (int32_t i = 0; i < k->l->n_parts; i++) {
        if (k->l->parts[i].stage != k->stage)
            continue;
        struct lw_writer_part *x = &k->parts[k->n_parts++];
        x->d = &k->l->parts[i];
        x->written = k->l->written + (int64_t)i * LW_N_ACTIONS;
        x->backwards_left = x->uses_left = lw_lower_backwards(k->l, k->role, i);
        LW_TRY(begin_part(k, x, room, err));
        n_reduced += x->d->n_empty + (x->set ? x->set->buckets.n_buckets : 0);
        n_weights += x->d->shards.n_buffers;
    }
    LW_TRY(lw_write_link_tied(k, room, err));
    LW_TRY(lw_write_begin_pairs(k, room, err));
    k->deps = lw_arena_alloc(room, n_reduced > n_weights ? n_reduced : n_weights, sizeof *k->deps);
    return k->deps ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status write_role(struct lw_writer *k, int32_t variant, struct lw_err *err)
{
    struct lw_arena room = {0};
    enum lw_status s = begin_parts(k, &room, err);

    if (s == LW_OK) {
        lw_builder_program(k->l->b, variant, k->role);
        s = write_ops(k, err);
    }
    for (int32_t i = 0; i < k->n_parts; i++)
        lw_reducer_free(k->parts[i].reducer);
    lw_arena_free(&room);
    return s;
}

enum lw_status lw_write_pass(struct lw_lowering *l, const struct lw_pass *pass, int32_t *variant,
                             struct lw_err *err)
{
    static const char *const sets[] = {"", "initial", "rebuilt"};

    /* ops of a program of pairs are put into another order when it is complete */
    if (!l->written || l->pairs)
        LW_TAKE(&l->arena, l->written, (int64_t)l->n_parts * LW_N_ACTIONS, err);
    *variant = lw_builder_variant(l->b, pass->name, sets[pass->set], pass->ends_step);
    for (int32_t role = 0; role < l->pp; role++) {
        struct lw_writer k = {.l = l, .pass = pass, .last_compute = -1, .after = -1, .loaded = -1,
                              .back = -1, .back_of = -1, .needed = -1,
                              .role = role,
                              .stage = lw_stage_of_role(l, role)};
        LW_TRY(write_role(&k, *variant, err));
    }
    return LW_OK;
}
