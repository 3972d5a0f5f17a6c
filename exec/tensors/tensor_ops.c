/* What an op does with the tensors of its rank.
 *
 * A gradient's way: FILL into its array (or straight into its slot, when the plan copies nothing
 * in); COPY_IN divides by the group's size on the way into the slot; a CAST goes to the bucket's
 * wire form and back; COPY_OUT returns the average; the optimizer reads the array, the slot when
 * nothing is copied out, or the undivided slot. Where the plan clips, grad_norm.c scales it there
 * before. Weights that are narrowed on the wire are cast back on every rank, their owner too, so
 * all go on with what travelled.
 *
 * A sparse gradient's way (exec/cpu/sparse_rows.h): ROWS_FILL into the rank's list; COPY_IN
 * sends the list to its place among all; the copy after the all-gathers adds them up into the
 * array, whose rows the optimizer steps and clears. */
#include "exec/backend/optimizer.h"
#include "exec/tensors/grad_norm.h"
#include "exec/tensors/grad_sums.h"
#include "exec/tensors/sparse_memory.h"
#include "exec/tensors/tensors.h"
#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"

enum lw_status exec_parts_add(struct exec_parts *parts, struct exec_part part, struct lw_err *err)
{
    if (part.count <= 0)
        return LW_OK;
    LW_ROOM(parts->items, parts->capacity, parts->n + 1, err);
    parts->items[parts->n++] = part;
    return LW_OK;
}

static void *grad_array(const struct exec_tensors *m, int32_t rank, int32_t param)
{
    return (char *)m->ranks[rank].grads + m->grad_at[param];
}

/* The gradient's place in its bucket; NULL when it has none. */
static void *slot_of(const struct exec_tensors *m, const struct exec_layout *l, int32_t rank,
                     int32_t param)
{
    int32_t b = l->bucket_of[param];

    if (b < 0)
        return NULL;
    return (char *)m->ranks[rank].buckets + l->stage_at[b] +
           l->slot_of[param] * lw_dtype_size(exec_gradient_dtype(m->plan, param));
}

static void *local_gradient(const struct exec_tensors *m, const struct exec_layout *l, int32_t rank,
                            int32_t param)
{
    void *slot = slot_of(m, l, rank, param);
    return slot && !l->copied_in[param] ? slot : grad_array(m, rank, param);
}

static enum lw_status fill_parts(const struct exec_tensors *m, const struct lw_op *op,
                                 const struct exec_place *at, struct exec_parts *parts,
                                 struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    for (int32_t i = 0; i < op->n_ready; i++) {
        int32_t a = p->ready[op->first_ready + i];
        int32_t micro = op->micro_batch > 0 ? op->micro_batch : 0;
        if (!exec_param_is_here(p, a, at->rank))
            continue;
        struct exec_part part = {
            .kind = EXEC_PART_FILL,
            .to = local_gradient(m, at->layout, at->rank, a),
            .to_dtype = exec_gradient_dtype(p, a),
            .count = p->params[a].numel,
            .add = at->filled[a],
            .gradient = {&m->table, a, at->rank, at->step, at->pass * at->micro_batches + micro},
        };
        at->filled[a] = true;
        if ((part.rows = exec_rows_of(m, at->layout, at->rank, a)))
            part.kind = EXEC_PART_ROWS_FILL;
        LW_TRY(exec_parts_add(parts, part, err));
    }
    return LW_OK;
}

/* Of ranks that own the same and have the same sum of the micro-batches before: one adds to it,
 * because what the others have comes with the next sum over replicas. */
static bool keeps_sum(const struct exec_tensors *m, int32_t rank)
{
    const struct lw_plan *p = m->plan;

    for (int32_t c = 0; p->strategy->sync_each && c < p->n_comms; c++) {
        const struct lw_group *g = lw_plan_group(p, c, rank);
        if (p->comms[c].purpose == LW_COMM_REPLICAS && g)
            return lw_plan_member(p, g, rank) == 0;
    }
    return true;
}

/* What this rank owns of a parameter is added to the sum of the micro-batches before, which a
 * reduction to owners left there; the rest is written over. */
static enum lw_status add_to_owned(const struct exec_tensors *m, const struct exec_place *at,
                                   int32_t param, const struct exec_part *whole,
                                   struct exec_parts *parts, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    for (int32_t s = 0; s < p->n_shards; s++) {
        const struct lw_shard *h = &p->shards[s];
        struct exec_part part = *whole;
        if (h->param != param)
            continue;
        part.add = exec_shard_is_mine(m, s, at->rank) && keeps_sum(m, at->rank);
        part.count = h->numel;
        part.to = (char *)part.to + h->first * lw_dtype_size(part.to_dtype);
        part.from = (const char *)part.from + h->first * lw_dtype_size(part.from_dtype);
        LW_TRY(exec_parts_add(parts, part, err));
    }
    return LW_OK;
}

static enum lw_status copy_in_parts(const struct exec_tensors *m, const struct lw_op *op,
                                    const struct exec_place *at, struct exec_parts *parts,
                                    struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    for (int32_t i = 0; i < op->n_ready; i++) {
        int32_t a = p->ready[op->first_ready + i];
        void *slot = slot_of(m, at->layout, at->rank, a);
        if (!slot || !exec_param_is_here(p, a, at->rank))
            continue;
        struct exec_part part = {.kind = EXEC_PART_COPY, .to = slot,
                                 .from = grad_array(m, at->rank, a),
                                 .to_dtype = exec_gradient_dtype(p, a),
                                 .from_dtype = exec_gradient_dtype(p, a),
                                 .count = p->params[a].numel,
                                 .divisor = at->layout->divisor[at->layout->bucket_of[a]]};
        bool again = at->copied[a] && m->sharded[a];
        at->copied[a] = true;
        if (m->sharded[a])
            at->filled[a] = false; /* the next micro-batch begins a gradient of its own */
        if (again) {
            LW_TRY(add_to_owned(m, at, a, &part, parts, err));
            continue;
        }
        if ((part.rows = exec_rows_of(m, at->layout, at->rank, a)))
            part.kind = EXEC_PART_ROWS_SEND;
        LW_TRY(exec_parts_add(parts, part, err));
    }
    return LW_OK;
}

static enum lw_status copy_out_parts(const struct exec_tensors *m, const struct lw_op *op,
                                     const struct exec_place *at, struct exec_parts *parts,
                                     struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    const struct lw_bucket *b = &p->buckets[op->bucket];

    for (int32_t s = 0; s < b->n_slots; s++) {
        int32_t a = p->slots[b->first_slot + s];
        if (!exec_param_is_here(p, a, at->rank) || at->layout->bucket_of[a] != op->bucket)
            continue;
        struct exec_part part = {
            .kind = EXEC_PART_COPY,
            .from = slot_of(m, at->layout, at->rank, a),
            .to = grad_array(m, at->rank, a),
            .to_dtype = exec_gradient_dtype(p, a),
            .from_dtype = exec_gradient_dtype(p, a),
            .count = p->params[a].numel,
            .divisor = at->layout->copied_in[a] ? 1 : at->layout->divisor[op->bucket]};
        LW_TRY(exec_parts_add(parts, part, err));
    }
    return LW_OK;
}

static enum lw_status cast_parts(const struct exec_tensors *m, const struct lw_op *op,
                                 const struct exec_place *at, struct exec_parts *parts,
                                 struct lw_err *err)
{
    const struct lw_bucket *b = &m->plan->buckets[op->bucket];
    const struct exec_rank_memory *r = &m->ranks[at->rank];
    bool weights = m->weights.bucket_at[op->bucket] >= 0;
    char *base = weights ? r->weights : r->buckets;
    enum lw_dtype stage = exec_bucket_filled_in(m->plan, op->bucket);
    void *filled = base + (weights ? m->weights.bucket_at : at->layout->stage_at)[op->bucket];
    void *wire = base + (weights ? m->weights.wire_at : at->layout->wire_at)[op->bucket];
    bool out = op->dtype == b->dtype && op->dtype != stage;
    struct exec_part part = {.kind = EXEC_PART_COPY, .to = out ? wire : filled,
                             .from = out ? filled : wire, .to_dtype = out ? b->dtype : stage,
                             .from_dtype = out ? stage : b->dtype,
                             .count = b->bytes / lw_dtype_size(b->dtype), .divisor = 1};
    return stage == b->dtype ? LW_OK : exec_parts_add(parts, part, err);
}

bool exec_copy_is_plain(const struct exec_tensors *m, const struct lw_op *op,
                        const struct exec_layout *l)
{
    bool bucketed = op->bucket >= 0 && l->stage_at[op->bucket] >= 0;

    if (op->bucket >= 0 && lw_plan_is_norm(m->plan, op->bucket))
        return false;
    switch (op->kind) {
    case LW_OP_COPY: return !bucketed || !lw_plan_sparse(m->plan, op->bucket);
    case LW_OP_LOAD:
    case LW_OP_STORE: return true;
    case LW_OP_COPY_IN: return op->n_ready == 0;
    case LW_OP_COPY_OUT: return !bucketed;
    case LW_OP_CAST: return !bucketed && (op->bucket < 0 || m->weights.bucket_at[op->bucket] < 0);
    default: return false;
    }
}

/* A pass over what came of a sparse gradient. */
static enum lw_status rows_part(const struct exec_tensors *m, const struct exec_place *at,
                                int32_t param, enum exec_part_kind kind, struct exec_parts *parts,
                                struct lw_err *err)
{
    struct exec_part part = {.kind = kind, .count = 1,
                             .rows = exec_rows_of(m, at->layout, at->rank, param)};

    return part.rows ? exec_parts_add(parts, part, err) : LW_OK;
}

static char *copy_area(const struct exec_tensors *m, int32_t rank, int32_t stream)
{
    return (char *)m->ranks[rank].scratch + exec_tensors_scratch_size(m) +
           2 * m->copy_bytes * stream;
}

static enum lw_status plain_copy(const struct exec_tensors *m, const struct lw_op *op,
                                 const struct exec_place *at, struct exec_parts *parts,
                                 struct lw_err *err)
{
    char *area = copy_area(m, at->rank, op->stream);
    struct exec_part part = {.kind = EXEC_PART_COPY, .to = area, .from = area + m->copy_bytes,
                             .to_dtype = LW_U8, .from_dtype = LW_U8, .divisor = 1,
                             .count = lw_plan_operand(m->plan, op, at->rank).bytes};
    return exec_parts_add(parts, part, err);
}

void *exec_tensors_gradient(const struct exec_tensors *m, const struct exec_layout *l, int32_t rank,
                            int32_t param, int32_t *divisor)
{
    int32_t b = l->bucket_of[param];
    bool from_slot = b >= 0 && !l->copied_out[b] && !exec_rows_of(m, l, rank, param);

    *divisor = from_slot && !l->copied_in[param] ? l->divisor[b] : 1;
    return from_slot ? slot_of(m, l, rank, param) : grad_array(m, rank, param);
}

const void *exec_tensors_average(const struct exec_tensors *m, const struct exec_layout *l,
                                int32_t rank, int32_t param, int32_t *divisor)
{
    const void *at = exec_tensors_gradient(m, l, rank, param, divisor);

    *divisor = l->scales ? 1 : *divisor;
    return at;
}

/* Elements [first, first + n) of a parameter take a step, in f32; half types are then rounded from
 * their masters. */
static enum lw_status update_parts(const struct exec_tensors *m, const struct exec_place *at,
                                   int32_t a, int64_t first, int64_t n, struct exec_parts *parts,
                                   struct lw_err *err)
{
    const struct exec_rank_memory *r = &m->ranks[at->rank];
    enum lw_dtype own = (enum lw_dtype)m->plan->params[a].dtype;
    enum lw_dtype gradient = exec_gradient_dtype(m->plan, a);
    struct exec_part part = {.kind = EXEC_PART_UPDATE,
                             .to = exec_tensors_master(m, at->rank, a) + first,
                             .to_dtype = LW_F32, .from_dtype = gradient, .count = n,
                             .update = exec_update_of(&m->optimizer, at->step)};
    const char *from = exec_tensors_average(m, at->layout, at->rank, a, &part.divisor);

    part.from = from + first * lw_dtype_size(gradient);
    if (at->sums)
        LW_TRY(exec_sums_add(at->sums, m, at, &part, a, first, parts, err));
    for (int32_t k = 0; k < exec_optimizer_states(m->optimizer.kind); k++)
        part.state[k] = r->state[k] + m->state_at[a] + first;
    if (m->optimizer.kind == EXEC_SGD && (part.rows = exec_rows_of(m, at->layout, at->rank, a))) {
        part.kind = EXEC_PART_ROWS_UPDATE; /* it moves no other weight */
        part.first = first;
        part.to_dtype = own;
        part.state[0] = exec_tensors_weights(m, at->rank, a) + first * lw_dtype_size(own);
        return exec_parts_add(parts, part, err);
    }
    LW_TRY(exec_parts_add(parts, part, err));
    if (own == LW_F32)
        return LW_OK;
    struct exec_part copy = {.kind = EXEC_PART_COPY, .from = part.to, .from_dtype = LW_F32,
                             .to = exec_tensors_weights(m, at->rank, a) +
                                   first * lw_dtype_size(own),
                             .to_dtype = own, .count = n, .divisor = 1};
    return exec_parts_add(parts, copy, err);
}

static bool has_gradient(const struct exec_tensors *m, const struct exec_place *at, int32_t a)
{
    return exec_param_is_here(m->plan, a, at->rank) &&
           (at->layout->bucket_of[a] >= 0 || at->filled[a]);
}

bool exec_next_owned(const struct exec_tensors *m, const struct exec_place *at,
                     struct exec_owned *o)
{
    const struct lw_plan *p = m->plan;

    while (o->next_param < p->n_params) {
        int32_t a = o->next_param++;
        if (m->sharded[a] || !has_gradient(m, at, a))
            continue;
        *o = (struct exec_owned){a, 0, p->params[a].numel, o->next_param, o->next_shard};
        return true;
    }
    while (o->next_shard < p->n_shards) {
        int32_t s = o->next_shard++;
        const struct lw_shard *h = &p->shards[s];
        if (!m->sharded[h->param] || !has_gradient(m, at, h->param) ||
            !exec_shard_is_mine(m, s, at->rank))
            continue;
        *o = (struct exec_owned){h->param, h->first, h->numel, o->next_param, o->next_shard};
        return true;
    }
    return false;
}

static enum lw_status optimizer_parts(const struct exec_tensors *m, const struct exec_place *at,
                                      struct exec_parts *parts, struct lw_err *err)
{
    struct exec_owned own = {0};

    while (exec_next_owned(m, at, &own))
        LW_TRY(update_parts(m, at, own.param, own.first, own.numel, parts, err));
    for (int32_t k = 0; k < m->plan->n_sparse; k++)
        LW_TRY(rows_part(m, at, m->plan->sparse[k].param, EXEC_PART_ROWS_CLEAR, parts, err));
    return LW_OK;
}

enum lw_status exec_tensors_parts(const struct exec_tensors *m, const struct lw_op *op,
                                 const struct exec_place *at, struct exec_parts *parts,
                                 struct lw_err *err)
{
    bool bucketed = op->bucket >= 0 && at->layout->stage_at[op->bucket] >= 0;

    if (exec_copy_is_plain(m, op, at->layout))
        return plain_copy(m, op, at, parts, err);
    if (op->bucket >= 0 && lw_plan_is_norm(m->plan, op->bucket) &&
        lw_op_class(op->kind) == LW_CLASS_COPY)
        return exec_norm_parts(m, op, at, parts, err);
    const struct lw_sparse *x = bucketed ? lw_plan_sparse(m->plan, op->bucket) : NULL;
    if (x && lw_op_class(op->kind) == LW_CLASS_COPY && op->kind != LW_OP_COPY_IN)
        return op->kind == LW_OP_COPY ? rows_part(m, at, x->param, EXEC_PART_ROWS_SUM, parts, err)
                                      : LW_OK;
    switch (op->kind) {
    case LW_OP_COPY_IN:
        return copy_in_parts(m, op, at, parts, err);
    case LW_OP_COPY_OUT:
        return copy_out_parts(m, op, at, parts, err);
    case LW_OP_CAST:
        return cast_parts(m, op, at, parts, err);
    case LW_OP_OPTIMIZER:
        return optimizer_parts(m, at, parts, err);
    default:
        return fill_parts(m, op, at, parts, err);
    }
}

struct exec_message exec_tensors_message(const struct exec_tensors *m, const struct lw_op *op,
                                        int32_t variant, int32_t rank,
                                        const struct exec_layout *step_layout)
{
    const struct lw_plan *p = m->plan;
    struct lw_operand o = lw_plan_operand(p, op, rank);
    struct exec_message msg = {.dtype = op->dtype, .peer = o.peer,
                               .count = o.bytes / lw_dtype_size(op->dtype)};

    if (msg.count == 0 && lw_op_class(op->kind) == LW_CLASS_P2P)
        msg.count = 1;
    if (op->bucket >= 0 && lw_plan_is_tied(p, op->bucket)) {
        int32_t divisor; /* alike for all copies: the sum may be divided later */
        msg.mem = exec_tensors_gradient(m, step_layout, rank,
                                        p->slots[p->buckets[op->bucket].first_slot], &divisor);
        return msg;
    }
    if (op->bucket >= 0 && lw_plan_is_norm(p, op->bucket)) {
        msg.mem = m->ranks[rank].norm;
        return msg;
    }
    if (op->bucket >= 0 && m->weights.bucket_at[op->bucket] >= 0) {
        msg.mem = (char *)m->ranks[rank].weights + m->weights.wire_at[op->bucket];
        return msg;
    }
    if (op->bucket >= 0 && step_layout->stage_at[op->bucket] >= 0) {
        msg.mem = (char *)m->ranks[rank].buckets + step_layout->wire_at[op->bucket] + o.offset;
        if (lw_plan_sparse(p, op->bucket))
            msg.mem =
                (char *)msg.mem + exec_rows_offset(p, step_layout, op->bucket,
                                                   lw_plan_sparse_turn(p, (int32_t)(op - p->ops)));
        return msg;
    }
    const struct exec_layout *own = exec_tensors_layout(m, variant, rank);
    int32_t i = (int32_t)(op - p->ops) - lw_plan_program(p, variant, rank).first_op;
    msg.mem = exec_tensors_scratch(m, rank, op->stream) + own->scratch_at[i];
    return msg;
}
