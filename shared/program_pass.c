/* The ops of one pass of data parallelism on one rank (all ranks are alike).
 *
 * A pass is: gap, buffer broadcasts, one forward op per module, gap, the stretches of the backward
 * each followed by the copy of its ready gradients into buckets and by the all-reduces that the
 * reducer launches, the copies out in bucket order, gap, optimizer, gap. Micro-batches before the
 * last only run forward and backward. Source of the order of c10d's ops: pytorch
 * torch/csrc/distributed/c10d/reducer.cpp 1.13.1 (mark_variable_ready, mark_bucket_ready,
 * finalize_backward) and torch/nn/parallel/distributed.py.
 *
 * Invariants: ops of the compute stream are written in the order they run; an all-reduce depends on
 * the copy that completed its bucket, and by the compute stream's order on all earlier ones. The
 * reducer that decides the launches is the one exec runs. */
#include <string.h>

#include "shared/arena.h"
#include "shared/program_dp.h"
#include "shared/reducer.h"

enum { BROADCASTS_IN_FLIGHT = 2, MAP_BYTES_PER_PARAM = 4 };

struct writer {
    struct lw_dp *d;
    const struct lw_dp_pass *pass;
    struct lw_reducer *reducer;  /* NULL: nothing is reduced */
    int32_t micro_batch;
    int32_t *launches;           /* [n_buckets] room for one mark */
    int32_t *late, n_late;       /* [n_buckets] launches that wait for the end of the backward */
    int32_t *done_of;            /* [n_buckets] op after which the bucket holds its result */
    int32_t *params;             /* [n_grads] room for the gradients of one bucket */
    int32_t *deps, n_deps;       /* [deps_room] what the optimizer waits for, then what follows it */
    int32_t last_compute;        /* op added last to the compute stream; -1 = none yet */
    bool unused_copied, map_reduced;
};

static int32_t add_compute(struct writer *k, struct lw_op *op, const int32_t *deps, int32_t n)
{
    op->stream = k->d->compute;
    k->last_compute = lw_builder_op(k->d->b, op, deps, n);
    return k->last_compute;
}

static void add_gap(struct writer *k, enum lw_gap gap)
{
    static const char *const names[LW_N_GAPS] = {"gap before forward", "gap before backward",
                                                 "gap before optimizer", "gap after optimizer"};
    struct lw_op op = lw_builder_blank(LW_OP_HOST, k->d->compute);

    if (k->d->w->gap_ps[gap] <= 0)
        return;
    op.work_ps = k->d->w->gap_ps[gap];
    op.name = names[gap];
    if (gap < LW_GAP_BEFORE_OPTIMIZER)
        op.micro_batch = k->micro_batch;
    add_compute(k, &op, NULL, 0);
}

static int32_t add_copy(struct writer *k, enum lw_op_kind kind, int64_t bytes, enum lw_dtype dtype,
                        int32_t bucket, int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, k->d->compute);

    op.work_ps = -1;
    op.bytes = bytes;
    op.dtype = dtype;
    op.bucket = bucket;
    op.stage = 0;
    op.micro_batch = k->micro_batch;
    return add_compute(k, &op, &dep, dep >= 0);
}

static struct lw_op collective(const struct writer *k, enum lw_op_kind kind, int64_t bytes,
                               enum lw_dtype dtype)
{
    struct lw_op op = lw_builder_blank(kind, k->d->comm);

    op.comm = k->d->data;
    op.work_ps = -1;
    op.bytes = bytes;
    op.dtype = dtype;
    op.stage = 0;
    op.micro_batch = k->micro_batch;
    return op;
}

static void finish_broadcast(struct writer *k, int32_t op, int64_t bytes, enum lw_dtype dtype)
{
    add_copy(k, LW_OP_COPY, bytes, dtype, -1, op);
}

/* Flatten, broadcast from the group's first rank, spread: at most two in flight, the oldest
 * finished first. */
static void broadcast_buffers(struct writer *k)
{
    const struct lw_dp *d = k->d;
    int32_t flying[BROADCASTS_IN_FLIGHT];
    int64_t bytes_of[BROADCASTS_IN_FLIGHT];
    enum lw_dtype dtype_of[BROADCASTS_IN_FLIGHT];
    int32_t n = d->buffers.n_buckets;

    for (int32_t i = 0; i < n + BROADCASTS_IN_FLIGHT; i++) {
        int32_t at = i % BROADCASTS_IN_FLIGHT;
        if (i >= BROADCASTS_IN_FLIGHT && i - BROADCASTS_IN_FLIGHT < n)
            finish_broadcast(k, flying[at], bytes_of[at], dtype_of[at]);
        if (i >= n)
            continue;
        int64_t bytes = 0;
        enum lw_dtype dtype = LW_F32;
        for (int32_t j = d->buffers.first[i]; j < d->buffers.first[i + 1]; j++) {
            const struct lw_buffer *f = &d->w->buffers[d->buffer_of[d->buffers.items[j]]];
            dtype = f->dtype;
            bytes += f->numel * lw_dtype_size(dtype);
        }
        int32_t flat = add_copy(k, LW_OP_COPY, bytes, dtype, -1, -1);
        struct lw_op op = collective(k, LW_OP_BROADCAST, bytes, dtype);
        op.peer = 0;
        op.name = "buffers";
        flying[at] = lw_builder_op(d->b, &op, &flat, 1);
        bytes_of[at] = bytes;
        dtype_of[at] = dtype;
    }
}

static void forward(struct writer *k)
{
    for (int32_t m = 0; m < k->d->w->n_modules; m++) {
        struct lw_op op = lw_builder_blank(LW_OP_FORWARD, k->d->compute);
        op.work = k->d->forward_work[m];
        op.module = m;
        op.stage = 0;
        op.micro_batch = k->micro_batch;
        op.name = k->d->w->modules[m].name;
        add_compute(k, &op, NULL, 0);
    }
}

static enum lw_dtype dtype_of(const struct lw_dp *d, int32_t param)
{
    return lw_strategy_grad_dtype(d->s, d->w->params[param].dtype);
}

static int64_t bytes_of(const struct lw_dp *d, int32_t param)
{
    return d->w->params[param].numel * lw_dtype_size(dtype_of(d, param));
}

/* One pass over a bucket that holds its gradients already. */
static int32_t scale_bucket(struct writer *k, int32_t b)
{
    const struct lw_dp_set *set = k->pass->set;
    int32_t op = add_copy(k, LW_OP_COPY_IN, set->elements[b] * lw_dtype_size(set->dtype[b]),
                          set->dtype[b], -1, -1);

    for (int32_t i = set->buckets.first[b]; i < set->buckets.first[b + 1]; i++)
        lw_builder_ready(k->d->b, k->d->param_of[set->buckets.items[i]]);
    return op;
}

/* Bucket b goes out; `after` is the op that completed it. */
static void launch(struct writer *k, int32_t b, int32_t after)
{
    const struct lw_dp_set *set = k->pass->set;
    enum lw_dtype grad = set->dtype[b], wire = lw_dp_wire_dtype(k->d->s, grad);
    int32_t number = set->first_bucket + b;
    int64_t full = set->elements[b] * lw_dtype_size(grad);
    int64_t bytes = set->elements[b] * lw_dtype_size(wire);

    if (k->d->at_launch)
        after = scale_bucket(k, b);
    if (wire != grad)
        after = add_copy(k, LW_OP_CAST, full, wire, number, after);
    struct lw_op op = collective(k, k->d->root_of ? LW_OP_REDUCE : LW_OP_ALL_REDUCE, bytes, wire);
    op.bucket = number;
    if (k->d->root_of)
        op.peer = k->d->root_of[b];
    k->done_of[b] = lw_builder_op(k->d->b, &op, &after, 1);
    if (wire != grad) {
        struct lw_op back = lw_builder_blank(LW_OP_CAST, k->d->copy);
        back.work_ps = -1;
        back.bytes = full;
        back.dtype = grad;
        back.bucket = number;
        back.stage = 0;
        back.micro_batch = k->micro_batch;
        k->done_of[b] = lw_builder_op(k->d->b, &back, &k->done_of[b], 1);
    }
}

/* The flags of used parameters, summed: how DDP finds what is unused everywhere. */
static void reduce_used_map(struct writer *k, int32_t after)
{
    struct lw_op op = collective(k, LW_OP_ALL_REDUCE,
                                 (int64_t)MAP_BYTES_PER_PARAM * k->d->n_grads, LW_I32);

    op.name = "used map";
    k->deps[k->n_deps++] = lw_builder_op(k->d->b, &op, &after, 1);
    k->map_reduced = true;
}

/* One copy of these parameters' gradients into their buckets; false when none of them is reduced.
 * The zeros of unused parameters go with the first copy, as at the first hook. */
static bool copy_in(struct writer *k, const int32_t *params, int32_t n)
{
    const struct lw_dp *d = k->d;
    int64_t bytes = 0;
    int32_t n_unused = k->unused_copied ? 0 : d->n_unused, last = -1;

    for (int32_t i = 0; i < n; i++) {
        if (d->grad_of[params[i]] < 0)
            continue;
        last = params[i];
        bytes += bytes_of(d, last);
    }
    if (last < 0)
        return false;
    for (int32_t i = 0; i < n_unused; i++)
        bytes += bytes_of(d, d->unused[i]);
    add_copy(k, LW_OP_COPY_IN, bytes, dtype_of(d, last), -1, -1);
    for (int32_t i = 0; i < n_unused; i++)
        lw_builder_ready(d->b, d->unused[i]);
    for (int32_t i = 0; i < n; i++)
        if (d->grad_of[params[i]] >= 0)
            lw_builder_ready(d->b, params[i]);
    k->unused_copied = true;
    return true;
}

/* Copy, then let the reducer launch what the copied gradients complete. */
static enum lw_status copy_and_mark(struct writer *k, const int32_t *params, int32_t n,
                                    struct lw_err *err)
{
    const struct lw_dp *d = k->d;
    bool late = k->pass->after_backward || !d->s->overlap;

    if (!d->at_launch && !copy_in(k, params, n))
        return LW_OK;
    int32_t copy = k->last_compute;
    for (int32_t i = 0; i < n; i++) {
        int32_t n_launches;
        if (d->grad_of[params[i]] < 0)
            continue;
        LW_TRY(lw_reducer_mark(k->reducer, params[i], k->launches, &n_launches, err));
        for (int32_t l = 0; l < n_launches; l++) {
            if (late)
                k->late[k->n_late++] = k->launches[l];
            else
                launch(k, k->launches[l], copy);
        }
    }
    if (!late && k->pass->used_map == LW_MAP_EACH && lw_reducer_finished(k->reducer))
        reduce_used_map(k, copy);
    return LW_OK;
}

static enum lw_status backward(struct writer *k, bool reduce, struct lw_err *err)
{
    const struct lw_backward *back = &k->d->back;

    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        struct lw_op op = lw_builder_blank(LW_OP_BACKWARD, k->d->compute);
        op.work = k->d->stretch_work[i];
        op.module = s->module;
        op.stage = 0;
        op.micro_batch = k->micro_batch;
        op.name = k->d->w->modules[s->module].name;
        add_compute(k, &op, NULL, 0);
        for (int32_t r = 0; r < s->n_ready; r++)
            lw_builder_ready(k->d->b, back->ready[s->first_ready + r]);
        if (reduce && !k->pass->after_backward)
            LW_TRY(copy_and_mark(k, back->ready + s->first_ready, s->n_ready, err));
    }
    return LW_OK;
}

static int32_t copy_out(struct writer *k, int32_t b)
{
    const struct lw_dp_set *set = k->pass->set;

    return add_copy(k, LW_OP_COPY_OUT, set->elements[b] * lw_dtype_size(set->dtype[b]),
                    set->dtype[b], set->first_bucket + b, k->done_of[b]);
}

/* Flatten, reduce and spread one bucket after the other, each waited for (ColossalAI's handler). */
static enum lw_status reduce_one_by_one(struct writer *k, struct lw_err *err)
{
    const struct lw_bucketing *set = &k->pass->set->buckets;

    for (int32_t b = 0; b < set->n_buckets; b++) {
        int32_t n = 0;
        for (int32_t i = set->first[b]; i < set->first[b + 1]; i++)
            k->params[n++] = k->d->param_of[set->items[i]];
        LW_TRY(copy_and_mark(k, k->params, n, err));
        int32_t copy = k->last_compute;
        while (k->n_late > 0)
            launch(k, k->late[--k->n_late], copy);
        k->deps[k->n_deps++] = copy_out(k, b);
    }
    return LW_OK;
}

/* What follows on the compute stream waits for these. */
static int32_t wait_for(struct writer *k, const char *what, const int32_t *ops, int32_t n)
{
    struct lw_op op = lw_builder_blank(LW_OP_EVENT_WAIT, k->d->compute);

    op.stage = 0;
    op.micro_batch = k->micro_batch;
    op.name = what;
    return add_compute(k, &op, ops, n);
}

/* FairScale reduces a bucket that took no gradient like any other. */
static void reduce_empty(struct writer *k)
{
    for (int32_t i = 0; i < k->d->n_empty; i++) {
        struct lw_op op = collective(k, LW_OP_REDUCE, 0, LW_F32);
        op.peer = k->d->empty[i];
        op.name = "empty bucket";
        k->deps[k->n_deps++] = lw_builder_op(k->d->b, &op, &k->last_compute, 1);
    }
}

static enum lw_status finish_reduction(struct writer *k, struct lw_err *err)
{
    const struct lw_dp_set *set = k->pass->set;
    const struct lw_backward *back = &k->d->back;

    if (k->pass->used_map == LW_MAP_FIRST)
        reduce_used_map(k, k->last_compute);
    if (k->d->one_by_one)
        return reduce_one_by_one(k, err);
    if (k->pass->after_backward)
        LW_TRY(copy_and_mark(k, back->ready, back->n_ready, err));
    int32_t end = k->last_compute;
    for (int32_t i = 0; i < k->n_late; i++)
        launch(k, k->late[i], end);
    if (!lw_reducer_finished(k->reducer))
        return lw_fail(err, LW_EINVAL, "no parameter that is reduced gets a gradient in the step");
    if (k->pass->used_map == LW_MAP_EACH && !k->map_reduced)
        reduce_used_map(k, k->last_compute);
    reduce_empty(k);
    if (k->d->in_place)
        k->deps[k->n_deps++] = wait_for(k, "buckets", k->done_of, set->buckets.n_buckets);
    for (int32_t b = 0; !k->d->in_place && b < set->buckets.n_buckets; b++)
        k->deps[k->n_deps++] = copy_out(k, b);
    return LW_OK;
}

/* The new weights reach every member: flat buffer by flat buffer, in order. */
static void spread_weights(struct writer *k, int32_t optimizer)
{
    const struct lw_dp_shards *h = &k->d->shards;

    k->n_deps = 0;
    for (int32_t b = 0; b < h->n_buffers; b++) {
        const struct lw_dp_buffer *f = &h->buffers[b];
        struct lw_op op = collective(k, f->owner < 0 ? LW_OP_ALL_GATHER : LW_OP_BROADCAST,
                                     f->elements * lw_dtype_size(f->dtype), f->dtype);
        op.peer = f->owner;
        op.bucket = h->first_bucket + b;
        op.name = "weights";
        k->deps[k->n_deps++] = lw_builder_op(k->d->b, &op, &optimizer, 1);
    }
    if (h->n_buffers > 0)
        wait_for(k, "weights", k->deps, k->n_deps);
}

static void end_step(struct writer *k)
{
    struct lw_op op = lw_builder_blank(LW_OP_OPTIMIZER, k->d->compute);

    k->micro_batch = -1;
    add_gap(k, LW_GAP_BEFORE_OPTIMIZER);
    if (k->n_deps == 0)
        k->deps[k->n_deps++] = k->last_compute;
    op.work = k->d->optimizer_work;
    op.stage = 0;
    spread_weights(k, add_compute(k, &op, k->deps, k->n_deps));
    add_gap(k, LW_GAP_AFTER_OPTIMIZER);
}

static enum lw_status write_ops(struct writer *k, struct lw_err *err)
{
    for (int32_t m = 0; m < k->d->s->micro_batches; m++) {
        bool reduce = k->reducer && m + 1 == k->d->s->micro_batches;
        k->micro_batch = m;
        add_gap(k, LW_GAP_BEFORE_FORWARD);
        if (reduce) {
            broadcast_buffers(k);
            LW_TRY(lw_reducer_begin(k->reducer, true, err));
            LW_TRY(lw_reducer_unused(k->reducer, k->d->unused, k->d->n_unused, err));
        }
        forward(k);
        add_gap(k, LW_GAP_BEFORE_BACKWARD);
        LW_TRY(backward(k, reduce, err));
        if (reduce)
            LW_TRY(finish_reduction(k, err));
    }
    if (k->pass->ends_step)
        end_step(k);
    return LW_OK;
}

enum lw_status lw_dp_write_pass(struct lw_dp *d, const struct lw_dp_pass *pass, int32_t *variant,
                                struct lw_err *err)
{
    struct writer k = {.d = d, .pass = pass, .last_compute = -1};
    int32_t n_buckets = pass->set ? pass->set->buckets.n_buckets : 0;
    int64_t deps_room = (int64_t)n_buckets + d->n_empty + 2;
    struct lw_arena room = {0};
    enum lw_status s = LW_OK;

    k.launches = lw_arena_alloc(&room, n_buckets, sizeof *k.launches);
    k.late = lw_arena_alloc(&room, n_buckets, sizeof *k.late);
    k.done_of = lw_arena_alloc(&room, n_buckets, sizeof *k.done_of);
    k.params = lw_arena_alloc(&room, d->n_grads, sizeof *k.params);
    if (deps_room < d->shards.n_buffers)
        deps_room = d->shards.n_buffers;
    k.deps = lw_arena_alloc(&room, deps_room, sizeof *k.deps);
    if (!k.launches || !k.late || !k.done_of || !k.params || !k.deps)
        s = lw_fail_nomem(err);
    if (s == LW_OK && pass->set)
        s = lw_reducer_new(d->w->n_params, pass->set->bucket_of, n_buckets, d->s->launch_order,
                           &k.reducer, err);
    if (s == LW_OK) {
        *variant = lw_builder_variant(d->b, pass->name, pass->set ? pass->set->name : "",
                                      pass->ends_step);
        lw_builder_program(d->b, *variant, 0);
        s = write_ops(&k, err);
    }
    lw_reducer_free(k.reducer);
    lw_arena_free(&room);
    return s;
}
