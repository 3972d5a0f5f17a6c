/* The reduction of a part's gradients: copies into buckets, launches as the reducer asks for them,
 * and after the backward whatever is left. The reducer that decides the launches is the one exec
 * runs.
 *
 * Invariant: a collective depends on the copy that completed its bucket, and by the compute
 * stream's order on all earlier ones. Source of c10d's order: pytorch
 * torch/csrc/distributed/c10d/reducer.cpp 1.13.1 (mark_variable_ready, mark_bucket_ready,
 * finalize_backward). */
#include "shared/lower_ops/writer.h"
#include "shared/workload/sparse.h"

enum { MAP_BYTES_PER_PARAM = 4 };

static enum lw_dtype dtype_of(const struct lw_part *d, int32_t param)
{
    return lw_strategy_grad_dtype(d->s, lw_param_at(d->w, param).dtype);
}

static int64_t bytes_of(const struct lw_part *d, int32_t param)
{
    const struct lw_sparse *x = d->w->n_sparse > 0 ? lw_part_sparse(d, param) : NULL;

    return x ? lw_part_rows(d, x, 1) * lw_sparse_row_bytes(x, dtype_of(d, param))
             : lw_param_at(d->w, param).numel * lw_dtype_size(dtype_of(d, param));
}

/* Known to take as many bytes. */
static bool alike(const struct lw_part *d, int32_t a, int32_t b)
{
    return d->w->n_sparse == 0 && lw_params_are_one_row(d->w, a, b);
}

/* One pass over a bucket that holds its gradients already. */
static int32_t scale_bucket(struct lw_writer *k, struct lw_writer_part *x, int32_t b)
{
    const struct lw_part_set *set = x->set;
    int32_t op = lw_write_copy(k, LW_OP_COPY_IN, set->elements[b] * lw_dtype_size(set->dtype[b]),
                               set->dtype[b], -1, -1);

    lw_write_complete(k, x->d, set->buckets.items + set->buckets.first[b],
                      set->buckets.first[b + 1] - set->buckets.first[b]);
    return op;
}

/* A pass over the whole bucket: reference systems that do not scale while they copy. */
static int32_t divide(struct lw_writer *k, int64_t bytes, enum lw_dtype dtype, int32_t after)
{
    struct lw_op op =
        lw_write_moved(k, LW_OP_COPY, (struct lw_line){-1, k->l->compute}, bytes, dtype, "divide");

    return lw_write_compute(k, &op, &after, 1);
}

/* Gradients are reduced to the ranks that update them; to all where copies at other stages are
 * added to one. */
static enum lw_op_kind reduction_of(const struct lw_writer *k, const struct lw_writer_part *x,
                                    int32_t b)
{
    const struct lw_bucketing *set = &x->set->buckets;

    for (int32_t i = set->first[b]; k->l->n_tied > 0 && i < set->first[b + 1]; i++)
        if (lw_lower_has_tied(k->l, lw_part_param(x->d, set->items[i])))
            return LW_OP_ALL_REDUCE;
    return x->d->root_of                      ? LW_OP_REDUCE
           : x->d->storage == LW_STORED_UNITS ? LW_OP_REDUCE_SCATTER
                                              : LW_OP_ALL_REDUCE;
}

/* --- room for gradients ---------------------------------------------------------------------- */

static struct lw_op room_op(const struct lw_writer *k, const struct lw_writer_part *x,
                            enum lw_op_kind kind, int32_t b)
{
    const struct lw_part_set *set = x->set;
    enum lw_dtype grad = set->dtype[b], wire = lw_strategy_wire_dtype(x->d->s, grad);
    struct lw_op op = lw_write_op(k, kind, k->l->compute, "gradients");

    op.bytes = set->elements[b] * (lw_dtype_size(grad) + (wire == grad ? 0 : lw_dtype_size(wire)));
    op.bucket = set->first_bucket + b;
    return op;
}

static void take_room(struct lw_writer *k, struct lw_writer_part *x, int32_t param)
{
    int32_t b = x->bucket_of[param];

    if (b < 0 || x->room_at[b] >= 0)
        return;
    struct lw_op op = room_op(k, x, LW_OP_ALLOC, b);
    x->room_at[b] = lw_write_compute(k, &op, NULL, 0);
}

void lw_write_grad_room(struct lw_writer *k, struct lw_writer_part *x, int32_t module,
                        const int32_t *params, int32_t n)
{
    int32_t use = k->module_tied ? k->module_tied[lw_part_module(x->d, module)] : -1;

    for (; use >= 0; use = k->tied[use].next)
        take_room(k, k->tied[use].part, k->tied[use].param);
    for (int32_t i = 0; x->room_at && i < n; i++)
        take_room(k, x, params[i]);
    for (int32_t i = 0; x->room_at && n > 0 && i < x->d->n_unused; i++)
        take_room(k, x, x->d->unused[i]); /* zeros go in with the first */
}

/* After the last op that uses the bucket, on its stream: a later one would hold up what follows on
 * this. The member's share is kept elsewhere. */
static void give_room(struct lw_writer *k, struct lw_writer_part *x, int32_t b, int32_t after,
                      int32_t stream)
{
    if (!x->room_at || x->room_at[b] < 0)
        return;
    struct lw_op op = room_op(k, x, LW_OP_FREE, b);
    op.stream = stream;
    x->done_of[x->set->buckets.n_buckets + b] = lw_builder_op(k->l->b, &op, &after, 1);
    x->room_at[b] = -1;
}

/* --- launches -------------------------------------------------------------------------------- */

/* The sum of a data group is added to those of the groups that hold replicas: once, after the last
 * micro-batch, as DeepSpeed's MiCS does (runtime/zero/mics.py, allreduce_mics_shard_grads); with
 * --sync-each-micro-batch in every one, as FSDP and FSDP2 do unless they are told otherwise. */
static bool adds_replicas(const struct lw_writer *k, const struct lw_writer_part *x)
{
    bool waits = lw_part_reduces_each(x->d) && !x->d->s->sync_each && x->backwards_left > 0;

    return k->l->replicas.comm >= 0 && !waits;
}

/* A member has its share, or of what was all-reduced all. `after`: the data group's sum, and of
 * those that were held the end of the backward. */
static int32_t add_replicas(struct lw_writer *k, struct lw_writer_part *x,
                            const struct lw_held_sum *sum, const int32_t *after, int32_t n)
{
    struct lw_op op = sum->reduced;

    op.kind = LW_OP_ALL_REDUCE;
    op.comm = k->l->replicas.comm;
    op.stream = k->l->replicas.stream;
    if (sum->reduced.kind == LW_OP_REDUCE_SCATTER) {
        int32_t n_members = lw_part_members(x->d, sum->expert);
        bool own = sum->expert && k->l->ep > 1;
        op.operand = lw_lower_row(k->l, own ? LW_ROW_EXPERT_SHARE : LW_ROW_SHARE, k->role,
                                  n_members, op.bytes);
        op.bytes /= n_members;
    }
    return lw_builder_op(k->l->b, &op, after, n);
}

/* What follows the data group's sum. `end` < 0: nothing else is waited for. */
static void finish(struct lw_writer *k, struct lw_writer_part *x, const struct lw_held_sum *sum,
                   int32_t end)
{
    const struct lw_part_set *set = x->set;
    int32_t b = sum->bucket, used = sum->at, stream = sum->reduced.stream;
    enum lw_dtype grad = set->dtype[b], wire = lw_strategy_wire_dtype(x->d->s, grad);
    const int32_t after[] = {sum->at, end};

    x->done_of[b] = sum->at;
    if (adds_replicas(k, x))
        x->done_of[b] = add_replicas(k, x, sum, after, 1 + (end >= 0));
    if (x->done_of[b] != sum->at && sum->reduced.kind != LW_OP_REDUCE_SCATTER) { /* all is added */
        used = x->done_of[b];
        stream = k->l->replicas.stream;
    }
    if (wire != grad) {
        struct lw_op back = lw_write_moved(k, LW_OP_CAST, (struct lw_line){-1, k->l->copy},
                                           set->elements[b] * lw_dtype_size(grad), grad, "");
        back.bucket = set->first_bucket + b;
        x->done_of[b] = used = lw_builder_op(k->l->b, &back, &x->done_of[b], 1);
        stream = back.stream;
    }
    give_room(k, x, b, used, stream);
}

/* --late-replicas. Of what was scattered and not cast only the member's share is kept. */
static void hold(struct lw_writer *k, struct lw_writer_part *x, const struct lw_held_sum *sum)
{
    enum lw_dtype grad = x->set->dtype[sum->bucket];

    x->done_of[sum->bucket] = sum->at;
    if (sum->reduced.kind == LW_OP_REDUCE_SCATTER && lw_strategy_wire_dtype(x->d->s, grad) == grad)
        give_room(k, x, sum->bucket, sum->at, sum->reduced.stream);
    x->held[x->n_held++] = *sum;
}

static void finish_held(struct lw_writer *k, struct lw_writer_part *x)
{
    int32_t end = k->last_compute;

    for (int32_t i = 0; i < x->n_held; i++)
        finish(k, x, &x->held[i], end);
    x->n_held = 0;
}

/* Bucket b goes out; `after` is the op that completed it. */
static void launch(struct lw_writer *k, struct lw_writer_part *x, int32_t b, int32_t after)
{
    const struct lw_part_set *set = x->set;
    enum lw_dtype grad = set->dtype[b], wire = lw_strategy_wire_dtype(x->d->s, grad);
    int32_t number = set->first_bucket + b;
    int64_t full = set->elements[b] * lw_dtype_size(grad);
    int64_t bytes = set->elements[b] * lw_dtype_size(wire);

    if (x->d->scaling == LW_SCALE_AT_LAUNCH)
        after = scale_bucket(k, x, b);
    const struct lw_sparse *sparse = lw_part_sparse_bucket(x->d, set, b);
    if (x->d->scaling == LW_SCALE_IN_BUCKET)
        after = divide(k, sparse ? bytes_of(x->d, sparse->param) : full, grad, after);
    if (sparse) {
        x->done_of[b] = lw_write_sparse(k, x, b, after);
        return;
    }
    if (wire != grad)
        after = lw_write_copy(k, LW_OP_CAST, full, wire, number, after);
    if (x->d->scaling == LW_SCALE_ON_WIRE)
        after = divide(k, bytes, wire, after);
    enum lw_op_kind kind = reduction_of(k, x, b);
    const struct lw_param *first = LW_PARAM(x->d->w, set->buckets.items[set->buckets.first[b]]);
    struct lw_op op = lw_write_moved(k, kind, lw_data_line(k->l, first->expert), bytes, wire, "");
    op.bucket = number;
    if (kind == LW_OP_REDUCE)
        lw_write_root(k, &op, x->d->root_of[b], false);
    struct lw_held_sum sum = {op, lw_builder_op(k->l->b, &op, &after, 1), b, first->expert};
    if (x->held && !x->d->one_by_one && adds_replicas(k, x))
        hold(k, x, &sum);
    else
        finish(k, x, &sum, -1);
}

/* The flags of used parameters, summed: how DDP finds what is unused everywhere. */
static void reduce_used_map(struct lw_writer *k, struct lw_writer_part *x, int32_t after)
{
    struct lw_op op =
        lw_write_moved(k, LW_OP_ALL_REDUCE, k->l->data,
                       (int64_t)MAP_BYTES_PER_PARAM * x->d->n_grads, LW_I32, "used map");

    k->deps[k->n_deps++] = lw_builder_op(k->l->b, &op, &after, 1);
    x->map_reduced = true;
}

/* One copy of these parameters' gradients into their buckets; false when none of them is reduced.
 * The zeros of unused parameters go with the first copy, as at the first hook. */
static bool copy_in(struct lw_writer *k, struct lw_writer_part *x, const int32_t *params, int32_t n)
{
    const struct lw_part *d = x->d;
    int64_t bytes = 0, each = 0;
    int32_t n_unused = x->unused_copied ? 0 : d->n_unused, last = -1, n_reduced = 0;

    for (int32_t i = 0; i < n; i++) {
        if (!d->reduced[params[i]])
            continue;
        if (last < 0 || !alike(d, last, params[i]))
            each = bytes_of(d, params[i]);
        last = params[i];
        n_reduced++;
        bytes += each;
    }
    if (last < 0)
        return false;
    for (int32_t i = 0; i < n_unused; i++)
        bytes += bytes_of(d, d->unused[i]);
    lw_write_copy(k, LW_OP_COPY_IN, bytes, dtype_of(d, last), -1, -1);
    lw_write_complete(k, d, d->unused, n_unused);
    if (n_reduced == n)
        lw_write_complete(k, d, params, n);
    for (int32_t i = 0; n_reduced < n && i < n; i++)
        if (d->reduced[params[i]])
            lw_write_complete(k, d, &params[i], 1);
    x->unused_copied = true;
    return true;
}

/* The reducer launches what the n gradients complete, all of which are reduced. */
static enum lw_status mark(struct lw_writer *k, struct lw_writer_part *x, const int32_t *params,
                           int32_t n, bool late, int32_t copy, struct lw_err *err)
{
    int32_t n_launches;

    LW_TRY(lw_reducer_mark_list(x->reducer, params, n, x->launches, &n_launches, err));
    for (int32_t l = 0; l < n_launches; l++) {
        if (late)
            x->late[x->n_late++] = x->launches[l];
        else
            launch(k, x, x->launches[l], copy);
    }
    return LW_OK;
}

/* Copy, then let the reducer launch what the copied gradients complete. */
enum lw_status lw_write_ready(struct lw_writer *k, struct lw_writer_part *x, const int32_t *params,
                              int32_t n, struct lw_err *err)
{
    const struct lw_part *d = x->d;
    bool late = k->pass->after_backward || !d->s->overlap || k->l->mirrored;

    if (d->scaling != LW_SCALE_AT_LAUNCH && !copy_in(k, x, params, n))
        return LW_OK;
    int32_t copy = k->last_compute;
    for (int32_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && d->reduced[params[end]];)
            end++;
        LW_TRY(mark(k, x, params + i, end - i, late, copy, err));
    }
    if (!late && k->pass->used_map == LW_MAP_EACH && lw_reducer_finished(x->reducer))
        reduce_used_map(k, x, copy);
    return LW_OK;
}

/* The op after which the gradients of a bucket are averages. */
static int32_t copy_out(struct lw_writer *k, struct lw_writer_part *x, int32_t b)
{
    const struct lw_part_set *set = x->set;

    if (lw_part_sparse_bucket(x->d, set, b))
        return x->done_of[b];
    return lw_write_copy(k, LW_OP_COPY_OUT, set->elements[b] * lw_dtype_size(set->dtype[b]),
                         set->dtype[b], set->first_bucket + b, x->done_of[b]);
}

/* Flatten, reduce and spread one bucket after the other, each waited for (ColossalAI's handler). */
static enum lw_status reduce_one_by_one(struct lw_writer *k, struct lw_writer_part *x,
                                        struct lw_err *err)
{
    const struct lw_bucketing *set = &x->set->buckets;

    for (int32_t b = 0; b < set->n_buckets; b++) {
        int32_t n = 0;
        for (int32_t i = set->first[b]; i < set->first[b + 1]; i++)
            x->params[n++] = set->items[i];
        LW_TRY(lw_write_ready(k, x, x->params, n, err));
        int32_t copy = k->last_compute;
        while (x->n_late > 0)
            launch(k, x, x->late[--x->n_late], copy);
        k->deps[k->n_deps++] = copy_out(k, x, b);
    }
    return LW_OK;
}

/* FairScale reduces a bucket that took no gradient like any other. */
static void reduce_empty(struct lw_writer *k, struct lw_writer_part *x)
{
    for (int32_t i = 0; i < x->d->n_empty; i++) {
        struct lw_op op = lw_write_moved(k, LW_OP_REDUCE, k->l->data, 0, LW_F32, "empty bucket");
        lw_write_root(k, &op, x->d->empty[i], false);
        k->deps[k->n_deps++] = lw_builder_op(k->l->b, &op, &k->last_compute, 1);
    }
}

enum lw_status lw_write_reduction_end(struct lw_writer *k, struct lw_writer_part *x,
                                      struct lw_err *err)
{
    const struct lw_part_set *set = x->set;
    const struct lw_backward *back = &x->d->back;

    if (k->pass->used_map == LW_MAP_FIRST)
        reduce_used_map(k, x, k->last_compute);
    if (x->d->one_by_one)
        return reduce_one_by_one(k, x, err);
    if (k->pass->after_backward)
        LW_TRY(lw_write_ready(k, x, back->ready, back->n_ready, err));
    int32_t end = k->last_compute;
    for (int32_t i = 0; i < x->n_late; i++)
        launch(k, x, x->late[i], end);
    finish_held(k, x);
    if (!lw_reducer_finished(x->reducer))
        return lw_fail(err, LW_EINVAL, "no parameter that is reduced gets a gradient in the step");
    if (k->pass->used_map == LW_MAP_EACH && !x->map_reduced)
        reduce_used_map(k, x, k->last_compute);
    reduce_empty(k, x);
    if (x->d->storage != LW_STORED_COPIED)
        k->deps[k->n_deps++] = lw_write_wait(k, "buckets", x->done_of,
                                             (1 + (x->room_at != NULL)) * set->buckets.n_buckets);
    for (int32_t b = 0; x->d->storage == LW_STORED_COPIED && b < set->buckets.n_buckets; b++)
        k->deps[k->n_deps++] = copy_out(k, x, b);
    return LW_OK;
}

enum lw_status lw_write_round_begin(struct lw_writer_part *x, struct lw_err *err)
{
    LW_TRY(lw_reducer_begin(x->reducer, true, err));
    return lw_reducer_unused(x->reducer, x->d->unused, x->d->n_unused, err);
}

enum lw_status lw_write_round_end(struct lw_writer *k, struct lw_writer_part *x, struct lw_err *err)
{
    int32_t n_deps = k->n_deps;

    LW_TRY(lw_write_reduction_end(k, x, err));
    k->n_deps = n_deps; /* the compute stream has waited */
    x->n_late = 0;
    x->unused_copied = x->map_reduced = false;
    return lw_write_round_begin(x, err);
}
