/* Where tensors lie. Every rank has weights (each in its parameter's type), gradients (in the
 * type that --grad-dtype gives them), f32 masters of weights that are not f32, what the
 * optimizer keeps (f32), one region for buckets and one for communication that carries no
 * bucket. Bucket sets of different variants share the region: a step uses the set of the pass
 * that ends it, and the streams have run dry between steps. */
#include "exec/tensors/tensors.h"

#include "exec/backend/element.h"
#include "exec/tensors/flops_compute.h"
#include "exec/tensors/grad_norm.h"
#include "exec/tensors/payload_check.h"
#include "exec/tensors/scratch_slots.h"
#include "exec/tensors/sparse_memory.h"
#include "exec/tensors/weight_turns.h"
#include "shared/plan/uses.h"
#include "shared/strategy/strategy.h"

enum { VALUES = 3 /* in one element while it is computed: exec/tensors/stage_values.c */ };

bool exec_param_is_here(const struct lw_plan *p, int32_t param, int32_t rank)
{
    const struct lw_plan_param *a = &p->params[param];

    return a->trainable && a->stage == p->roles[lw_plan_role_of(p, rank)].stage &&
           lw_plan_holds(p, param);
}

bool exec_weights_are_here(const struct exec_tensors *m, int32_t param, int32_t rank)
{
    const struct lw_plan *p = m->plan;

    return exec_param_is_here(p, param, rank) ||
           (m->sharded[param] &&
            p->params[param].stage == p->roles[lw_plan_role_of(p, rank)].stage);
}

bool exec_ranks_agree(const struct lw_plan *p, int32_t rank, int32_t other)
{
    return p->roles[lw_plan_role_of(p, rank)].stage == p->roles[lw_plan_role_of(p, other)].stage &&
           lw_plan_coord(p, rank, LW_AXIS_TP) == lw_plan_coord(p, other, LW_AXIS_TP);
}

bool exec_ranks_share(const struct lw_plan *p, int32_t param, int32_t rank, int32_t other)
{
    const struct lw_strategy *s = p->strategy;
    int32_t a[LW_N_AXES], b[LW_N_AXES];

    if (!p->params[param].expert || s->ep <= 1)
        return exec_ranks_agree(p, rank, other);
    lw_plan_place(p, rank, a);
    lw_plan_place(p, other, b);
    return p->roles[lw_plan_role_of(p, rank)].stage == p->roles[lw_plan_role_of(p, other)].stage &&
           (a[2] == b[2] || lw_strategy_folds_experts(s)) &&
           lw_strategy_expert_number(s, a[0], a[2]) % s->ep ==
               lw_strategy_expert_number(s, b[0], b[2]) % s->ep;
}

int32_t exec_param_root(const struct lw_plan *p, int32_t param)
{
    return p->params[param].tied < 0 ? param : p->params[param].tied;
}

int32_t exec_plan_micro_batches(const struct lw_plan *p)
{
    int32_t most = 0;

    for (int32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].micro_batch > most)
            most = p->ops[i].micro_batch;
    return most + 1;
}

/* Ranks that share a parameter at one stage, times the most stages with copies of one. */
static int64_t sharers(const struct lw_plan *p)
{
    int64_t most = 1, stages = 1;

    for (int32_t r = 0; r < p->n_ranks; r++) {
        int64_t n = 0;
        bool first = true;
        for (int32_t k = 0; k < r && first; k++)
            first = !exec_ranks_agree(p, r, k);
        for (int32_t k = r; first && k < p->n_ranks; k++)
            n += exec_ranks_agree(p, r, k);
        most = n > most ? n : most;
    }
    for (int32_t i = 0; i < p->n_params; i++)
        if (p->params[i].tied >= 0 && p->params[i].tied != i && lw_plan_holds(p, i))
            stages = p->n_stages;
    return most * stages;
}

/* Terms that are summed into one gradient: ranks that hold the parameter or a copy, times
 * backwards of one optimizer step. */
static int64_t terms_of(const struct lw_plan *p)
{
    int64_t most = 1, run = 0;

    for (int32_t i = 0; i < p->n_passes + (p->n_passes - p->repeat_from); i++) {
        run++;
        if (run > most)
            most = run;
        if (p->variants[lw_plan_variant_of_pass(p, i)].ends_step)
            run = 0;
    }
    return most * exec_plan_micro_batches(p) * sharers(p);
}

/* --- layout ----------------------------------------------------------------------------------- */

static enum lw_status alloc_layout(struct exec_tensors *m, struct exec_layout *l, int32_t n_ops,
                                   struct lw_err *err)
{
    int32_t n = m->plan->n_params, b = m->plan->n_buckets;
    struct lw_arena *a = &m->arena;

    LW_TAKE(a, l->bucket_of, n, err);
    LW_TAKE(a, l->slot_of, n, err);
    LW_TAKE(a, l->copied_in, n, err);
    LW_TAKE(a, l->produced, n, err);
    LW_TAKE(a, l->copied_out, b, err);
    LW_TAKE(a, l->cast, b, err);
    LW_TAKE(a, l->stage_at, b, err);
    LW_TAKE(a, l->wire_at, b, err);
    LW_TAKE(a, l->divisor, b, err);
    LW_TAKE(a, l->units_comm, b, err);
    LW_TAKE(a, l->scratch_at, n_ops, err);
    LW_TAKE(a, l->turn_of, n_ops, err);
    LW_TAKE(a, l->apart, n_ops, err);
    LW_TAKE(a, l->before_of, n_ops, err);
    return LW_OK;
}

static int32_t a_rank_of(const struct lw_plan *p, int32_t role)
{
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (lw_plan_role_of(p, r) == role)
            return r;
    return -1;
}

/* What the ops of the program say about gradients and buckets. */
static void note_ops(const struct lw_plan *p, const struct lw_program *g, int32_t rank,
                     struct exec_layout *l)
{
    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        bool copies = op->kind == LW_OP_COPY_IN;
        bool completes = lw_op_class(op->kind) == LW_CLASS_COMPUTE;
        for (int32_t r = 0; r < op->n_ready; r++) {
            l->copied_in[p->ready[op->first_ready + r]] |= copies;
            l->produced[p->ready[op->first_ready + r]] |= completes;
        }
        if (op->bucket < 0)
            continue;
        if (lw_plan_is_norm(p, op->bucket)) {
            l->scales |= op->kind == LW_OP_COPY_OUT;
            continue;
        }
        l->copied_out[op->bucket] |= op->kind == LW_OP_COPY_OUT;
        l->cast[op->bucket] |= op->kind == LW_OP_CAST;
        const struct lw_group *group = op->comm >= 0 ? lw_plan_group(p, op->comm, rank) : NULL;
        bool replicas = group && p->comms[op->comm].purpose == LW_COMM_REPLICAS;
        if (group && !lw_plan_is_tied(p, op->bucket)) /* over replicas once, after the others */
            l->divisor[op->bucket] = group->n_members * (replicas ? l->divisor[op->bucket] : 1);
    }
}

enum lw_dtype exec_gradient_dtype(const struct lw_plan *p, int32_t param)
{
    return lw_strategy_grad_dtype(p->strategy, (enum lw_dtype)p->params[param].dtype);
}

enum lw_dtype exec_bucket_filled_in(const struct lw_plan *p, int32_t bucket)
{
    const struct lw_bucket *b = &p->buckets[bucket];

    if (b->n_slots == 0)
        return b->dtype;
    if (lw_plan_is_weights(p, bucket))
        return (enum lw_dtype)p->params[p->slots[b->first_slot]].dtype;
    return exec_gradient_dtype(p, p->slots[b->first_slot]);
}

static void place_bucket(const struct lw_plan *p, struct exec_layout *l, int32_t b)
{
    const struct lw_bucket *k = &p->buckets[b];
    int64_t elements = k->bytes / lw_dtype_size(k->dtype);

    l->wire_at[b] = l->bucket_bytes;
    l->bucket_bytes += exec_aligned(k->bytes);
    l->stage_at[b] = l->wire_at[b];
    if (l->cast[b]) {
        l->stage_at[b] = l->bucket_bytes;
        l->bucket_bytes += exec_aligned(elements * lw_dtype_size(exec_bucket_filled_in(p, b)));
    }
    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, k, &w);) {
        l->bucket_of[w.slot.param] = b;
        l->slot_of[w.slot.param] = w.slot.offset;
    }
}

/* Without a cast, what is filled and what is reduced is the same memory: one type. */
static enum lw_status check_types(const struct lw_plan *p, const struct exec_layout *l, int32_t b,
                                  struct lw_err *err)
{
    const struct lw_bucket *k = &p->buckets[b];

    for (int32_t s = 0; s < k->n_slots; s++) {
        int32_t a = p->slots[k->first_slot + s];
        enum lw_dtype of = exec_gradient_dtype(p, a);
        if (of != (l->cast[b] ? exec_bucket_filled_in(p, b) : k->dtype))
            return lw_fail(err, LW_EPLAN,
                           "bucket %d is of %s and holds the gradient of '%s', which "
                           "is of %s, without a cast",
                           b, lw_dtype_name(k->dtype), p->params[a].name, lw_dtype_name(of));
    }
    return LW_OK;
}

/* Of a program of a step that ends with a pass of variant `last`. */
static void place_copies(struct exec_tensors *m, int32_t variant, int32_t last, int32_t role)
{
    const struct lw_plan *p = m->plan;
    const struct exec_layout *l = &m->layouts[(int64_t)last * p->n_roles + role];
    const struct lw_program *g = &p->programs[(int64_t)variant * p->n_roles + role];

    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        int64_t bytes = exec_aligned(exec_most_bytes(p, &p->ops[i], role));
        if (bytes > m->copy_bytes && exec_copy_is_plain(m, &p->ops[i], l))
            m->copy_bytes = bytes;
    }
}

static void place_all_copies(struct exec_tensors *m)
{
    const struct lw_plan *p = m->plan;

    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t last = 0; last < p->n_variants; last++)
            for (int32_t r = 0; r < p->n_roles; r++)
                if (p->variants[last].ends_step && (v == last || !p->variants[v].ends_step))
                    place_copies(m, v, last, r);
}

/* Flat buffers of weights that are gathered before they are used, and the class that gathers them
 * in any pass of a step. */
static void note_units(const struct exec_tensors *m, int32_t role, struct exec_layout *l)
{
    const struct lw_plan *p = m->plan;

    for (int32_t b = 0; b < p->n_buckets; b++)
        l->units_comm[b] = -1;
    for (int32_t v = 0; v < p->n_variants; v++) {
        const struct lw_program *g = &p->programs[(int64_t)v * p->n_roles + role];
        for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
            int32_t b = p->ops[i].kind == LW_OP_ALL_GATHER ? p->ops[i].bucket : -1;
            int32_t a = b >= 0 && lw_plan_is_weights(p, b) && p->buckets[b].n_slots > 0
                            ? p->slots[p->buckets[b].first_slot]
                            : -1;
            if (a >= 0 && (m->temporary[a] || m->ahead[a]))
                l->units_comm[b] = p->ops[i].comm;
        }
    }
}

/* Parameters in the buckets that `find` finds. */
static enum lw_status note_params(const struct lw_plan *p,
                                  bool (*find)(const struct lw_plan *, bool *), bool *params,
                                  bool *any, struct lw_err *err)
{
    bool *found;

    LW_NEW(found, p->n_buckets + 1, err);
    *any = find(p, found);
    for (int32_t b = 0; b < p->n_buckets; b++)
        for (int32_t s = 0; found[b] && s < p->buckets[b].n_slots; s++)
            params[p->slots[p->buckets[b].first_slot + s]] = true;
    lw_free(found);
    return LW_OK;
}

/* Which of its communicator's ops each is: the number that all members, or both ends, agree on. */
static enum lw_status note_messages(struct exec_tensors *m, const struct lw_program *g,
                                    int32_t rank, struct exec_layout *l, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    int64_t classes = (int64_t)p->n_comms * (2 * p->n_ranks + 1);
    int32_t *turn = lw_calloc((size_t)classes, sizeof *turn);

    if (!turn)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < g->n_ops; i++) {
        const struct lw_op *op = &p->ops[g->first_op + i];
        int32_t peer = lw_plan_operand(p, op, rank).peer;
        int64_t at = op->comm * (2L * p->n_ranks + 1);
        if (op->comm < 0)
            continue;
        if (lw_op_class(op->kind) == LW_CLASS_P2P && peer >= 0)
            at += 1 + 2L * peer + (op->kind == LW_OP_SEND);
        l->turn_of[i] = turn[at]++;
    }
    lw_free(turn);
    LW_TRY(lw_message_ends_init(p, g, &m->arena, &l->flow, err));
    return exec_payload_ends_init(p, g, rank, &m->arena, &l->payloads, err);
}

/* first_apart: after the slots of earlier variants that are not reused. */
static enum lw_status lay_out(struct exec_tensors *m, int32_t variant, int32_t role,
                              struct lw_message_order *order, int64_t first_apart,
                              struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    struct exec_layout *l = &m->layouts[(int64_t)variant * p->n_roles + role];
    const struct lw_program *g = &p->programs[(int64_t)variant * p->n_roles + role];
    int32_t rank = a_rank_of(p, role);

    LW_TRY(alloc_layout(m, l, g->n_ops, err));
    for (int32_t i = 0; i < p->n_params; i++)
        l->bucket_of[i] = -1;
    for (int32_t b = 0; b < p->n_buckets; b++) {
        l->stage_at[b] = -1;
        l->divisor[b] = 1;
    }
    if (rank < 0)
        return LW_OK;
    note_ops(p, g, rank, l);
    note_units(m, role, l);
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct lw_bucket_set *set = &p->sets[s];
        if (set->stage != p->roles[role].stage ||
            !lw_plan_uses_set(p, variant, s))
            continue;
        for (int32_t b = set->first_bucket; b < set->first_bucket + set->n_buckets; b++) {
            LW_TRY(check_types(p, l, b, err));
            place_bucket(p, l, b);
        }
    }
    LW_TRY(note_messages(m, g, rank, l, err));
    LW_TRY(exec_slots_find(m, variant, role, order, first_apart, l, err));
    if (l->bucket_bytes > m->bucket_bytes)
        m->bucket_bytes = l->bucket_bytes;
    return LW_OK;
}

static enum lw_status lay_out_variant(struct exec_tensors *m, int32_t variant, int64_t *apart,
                                      int64_t *shared, struct lw_err *err)
{
    struct lw_message_order order = {0};
    int64_t first = *apart;
    enum lw_status s =
        m->compares ? lw_message_order_init(&order, m->plan, variant, err) : LW_OK;

    for (int32_t r = 0; s == LW_OK && r < m->plan->n_roles; r++) {
        const struct exec_layout *l = &m->layouts[(int64_t)variant * m->plan->n_roles + r];
        s = lay_out(m, variant, r, m->compares ? &order : NULL, first, err);
        *apart = l->apart_bytes > *apart ? l->apart_bytes : *apart;
        *shared = l->shared_bytes > *shared ? l->shared_bytes : *shared;
    }
    lw_message_order_free(&order);
    return s;
}

/* Slots that messages reuse lie after those that only one message of any variant has. */
static enum lw_status lay_out_all(struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    int64_t apart = 0, shared = 0;

    for (int32_t v = 0; v < p->n_variants; v++)
        LW_TRY(lay_out_variant(m, v, &apart, &shared, err));
    for (int32_t i = 0; i < p->n_variants * p->n_roles; i++)
        for (int32_t k = 0; k < p->programs[i].n_ops; k++)
            if (!m->layouts[i].apart[k])
                m->layouts[i].scratch_at[k] += apart;
    m->scratch_bytes = apart + shared;
    return LW_OK;
}

const struct exec_layout *exec_tensors_layout(const struct exec_tensors *m, int32_t variant,
                                             int32_t rank)
{
    return &m->layouts[(int64_t)variant * m->plan->n_roles + lw_plan_role_of(m->plan, rank)];
}

bool exec_shard_is_mine(const struct exec_tensors *m, int32_t shard, int32_t rank)
{
    int32_t owner = m->plan->shards[shard].owner;

    if (m->plan->params[m->plan->shards[shard].param].expert)
        return owner < 0 || owner == m->member.expert[rank];
    return owner < 0 || owner == m->member.data[rank];
}

/* --- memory ----------------------------------------------------------------------------------- */

static enum lw_status alloc_some(struct exec_tensors *m, int32_t rank, int64_t bytes, void **mem,
                                 struct lw_err *err)
{
    return bytes > 0 ? m->backend->mem_alloc(m->world, rank, bytes, mem, err) : LW_OK;
}

/* The share lies after its slot, which is as large as all shares of the flat buffer: the place of
 * others' elements is inside of the weights too. */
char *exec_tensors_weights(const struct exec_tensors *m, int32_t rank, int32_t param)
{
    const struct exec_weight_places *w = &m->weights;
    int32_t b = w->flat[param];
    int64_t at = w->at[param];

    if (b >= 0)
        at += w->turns[b].share_at - w->bucket_at[b] -
              exec_turn_member(m, b, rank) * exec_share_bytes(m, b);
    return (char *)m->ranks[rank].weights + at;
}

float *exec_tensors_master(const struct exec_tensors *m, int32_t rank, int32_t param)
{
    const struct exec_rank_memory *r = &m->ranks[rank];

    if (m->plan->params[param].dtype != LW_F32)
        return r->masters + m->state_at[param];
    return (float *)(void *)exec_tensors_weights(m, rank, param);
}

/* Of a parameter in a flat buffer that takes turns, elements [*begin, *end) lie in the rank's
 * share. */
static void own_range(const struct exec_tensors *m, int32_t rank, int32_t param, int64_t *begin,
                      int64_t *end)
{
    const struct lw_plan_param *a = &m->plan->params[param];
    int32_t b = m->weights.flat[param];
    int64_t size = lw_dtype_size((enum lw_dtype)a->dtype), each = exec_share_bytes(m, b) / size;
    int64_t at = (m->weights.at[param] - m->weights.bucket_at[b]) / size;
    int64_t first = exec_turn_member(m, b, rank) * each - at;

    *begin = first > 0 ? first : 0;
    *end = first + each < a->numel ? first + each : a->numel;
}

/* Values repeat, so that what is made of the first of them is written for all. */
enum { PIECE = 32 * EXEC_WEIGHTS_REPEAT };

/* The first values of a parameter, in its type and as masters, unless it is frozen: first[PIECE]
 * and own[PIECE] are room. What the optimizer keeps begins with zeros. */
static enum lw_status set_param(struct exec_tensors *m, int32_t rank, int32_t param, float *first,
                                char *own, struct lw_err *err)
{
    const struct lw_plan_param *a = &m->plan->params[param];
    enum lw_dtype dtype = (enum lw_dtype)a->dtype;
    int64_t size = lw_dtype_size(dtype), n = a->numel < PIECE ? a->numel : PIECE, begin = 0,
            end = a->numel;

    exec_initial_weights(first, exec_param_root(m->plan, param), n);
    exec_convert(dtype, own, LW_F32, first, n, 1);
    if (m->weights.flat[param] >= 0)
        own_range(m, rank, param, &begin, &end);
    for (int64_t at = 0; at < a->numel; at += PIECE) {
        int64_t next = at + PIECE < a->numel ? at + PIECE : a->numel;
        int64_t from = at > begin ? at : begin, to = next < end ? next : end;
        if (a->trainable && dtype != LW_F32)
            LW_TRY(m->backend->mem_write(m->world, rank,
                                         exec_tensors_master(m, rank, param) + at, first,
                                         (next - at) * 4, err));
        if (from < to)
            LW_TRY(m->backend->mem_write(m->world, rank,
                                         exec_tensors_weights(m, rank, param) + from * size,
                                         own + (from - at) * size, (to - from) * size, err));
    }
    return LW_OK;
}

static enum lw_status set_weights(struct exec_tensors *m, int32_t rank, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    float *first = lw_alloc(PIECE * sizeof *first);
    char *own = lw_alloc(PIECE * sizeof(double)); /* of the widest type */
    enum lw_status s = first && own ? LW_OK : lw_fail_nomem(err);

    for (int32_t i = 0; i < p->n_params && s == LW_OK; i++)
        if (p->params[i].numel > 0 && exec_weights_are_here(m, i, rank))
            s = set_param(m, rank, i, first, own, err);
    lw_free(first);
    lw_free(own);
    return s;
}

char *exec_tensors_scratch(const struct exec_tensors *m, int32_t rank, int32_t stream)
{
    return (char *)m->ranks[rank].scratch + (m->compares ? 0 : m->scratch_bytes * stream);
}

int64_t exec_tensors_scratch_size(const struct exec_tensors *m)
{
    return m->compares ? m->scratch_bytes : m->scratch_bytes * m->plan->n_streams;
}

/* After the messages: source and target of copies that name no bucket. */
int64_t exec_tensors_message_bytes(const struct exec_tensors *m)
{
    int64_t bytes = exec_tensors_scratch_size(m) + 2 * m->copy_bytes * m->plan->n_streams;

    return bytes > m->least_message_bytes ? bytes : m->least_message_bytes;
}

static enum lw_status alloc_rank(struct exec_tensors *m, int32_t rank, struct lw_err *err)
{
    struct exec_rank_memory *r = &m->ranks[rank];
    void *mem = NULL;

    LW_TRY(alloc_some(m, rank, m->weight_bytes, &r->weights, err));
    LW_TRY(alloc_some(m, rank, m->has_masters ? m->n_state * 4 : 0, &mem, err));
    r->masters = mem;
    for (int32_t k = 0; k < exec_optimizer_states(m->optimizer.kind); k++) {
        LW_TRY(alloc_some(m, rank, m->n_state * 4, &mem, err));
        r->state[k] = mem;
    }
    LW_TRY(alloc_some(m, rank, m->grad_bytes, &r->grads, err));
    LW_TRY(alloc_some(m, rank, m->bucket_bytes, &r->buckets, err));
    LW_TRY(exec_norm_alloc(m, rank, err));
    LW_TRY(alloc_some(m, rank, m->sparse.bytes, &r->rows, err));
    LW_TRY(exec_rows_bind(m, rank, err));
    LW_TRY(alloc_some(m, rank, exec_tensors_message_bytes(m), &r->scratch, err));
    LW_TRY(exec_products_alloc(m, rank, err));
    return set_weights(m, rank, err);
}

static int64_t least(int64_t limit, enum lw_dtype t)
{
    return exec_exact_limit(t) < limit ? exec_exact_limit(t) : limit;
}

/* Of the types that gradients pass through: their own, their buckets', the optimizer's. */
static int64_t exact_limit(const struct lw_plan *p)
{
    int64_t limit = exec_exact_limit(LW_F32);

    for (int32_t i = 0; i < p->n_params; i++)
        if (p->params[i].trainable)
            limit = least(limit, exec_gradient_dtype(p, i));
    for (int32_t b = 0; b < p->n_buckets; b++)
        if (!lw_plan_is_weights(p, b))
            limit = least(limit, p->buckets[b].dtype);
    return limit;
}

/* Numbers of half types, which collectives sum as well: as small as those need, where there are
 * any. */
static int64_t number_limit(const struct lw_plan *p, bool messages_alone)
{
    int64_t limit = exec_exact_limit(LW_F32);

    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        bool passes = lw_op_class(op->kind) == LW_CLASS_P2P;
        if (op->comm >= 0 && op->bucket < 0 && (passes || !messages_alone) && op->dtype != LW_U8)
            limit = least(limit, op->dtype);
    }
    return limit;
}

static int32_t largest_divisor(const struct exec_tensors *m)
{
    int32_t most = 1;

    for (int32_t v = 0; v < m->plan->n_variants * m->plan->n_roles; v++)
        for (int32_t b = 0; b < m->plan->n_buckets; b++)
            if (m->layouts[v].divisor[b] > most)
                most = m->layouts[v].divisor[b];
    return most;
}

/* Each rank's place in its group of a class of this purpose. */
static void index_members(const struct lw_plan *p, enum lw_comm_purpose purpose, int32_t *member)
{
    for (int32_t c = 0; c < p->n_comms; c++)
        for (int32_t g = 0; p->comms[c].purpose == purpose && g < p->n_groups; g++)
            for (int32_t i = 0; i < p->groups[g].n_members; i++) {
                int32_t rank = lw_plan_member_at(p, p->groups[g].first_member + i);
                if (lw_plan_group_of(p, c, rank) == g)
                    member[rank] = i;
            }
}

static enum lw_status index_shards(struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    bool any;

    LW_TAKE(&m->arena, m->sharded, p->n_params, err);
    LW_TAKE(&m->arena, m->temporary, p->n_params, err);
    LW_TAKE(&m->arena, m->ahead, p->n_params, err);
    LW_TAKE(&m->arena, m->next_tied, p->n_params, err);
    lw_plan_link_tied(p, m->next_tied);
    LW_TAKE(&m->arena, m->member.data, p->n_ranks, err);
    LW_TAKE(&m->arena, m->member.expert, p->n_ranks, err);
    index_members(p, LW_COMM_DATA, m->member.data);
    index_members(p, LW_COMM_EXPERT_DATA, m->member.expert);
    for (int32_t s = 0; s < p->n_shards; s++)
        if (p->shards[s].owner >= 0)
            m->sharded[p->shards[s].param] = true;
    LW_TRY(note_params(p, lw_plan_temporary_weights, m->temporary, &any, err));
    return note_params(p, lw_plan_weights_ahead, m->ahead, &m->has_ahead, err);
}

/* A run that compares first goes on in this layout. */
static struct exec_tensors without_comparing(const struct exec_tensors *m)
{
    return (struct exec_tensors){.plan = m->plan, .backend = m->backend, .world = m->world,
                                 .facts = m->facts, .optimizer = m->optimizer,
                                 .batch_steps = m->batch_steps};
}

static enum lw_status note_least_bytes(struct exec_tensors *m, struct lw_err *err)
{
    struct exec_tensors next = without_comparing(m);
    enum lw_status s = exec_tensors_lay_out(&next, err);

    m->least_message_bytes = s == LW_OK ? exec_tensors_message_bytes(&next) : 0;
    exec_tensors_free(&next);
    return s;
}

enum lw_status exec_tensors_lay_out(struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    if (m->compares)
        LW_TRY(note_least_bytes(m, err));
    m->clips = p->strategy->clip > 0;
    LW_TRY(index_shards(m, err));
    LW_TAKE(&m->arena, m->layouts, (int64_t)p->n_variants * p->n_roles, err);
    LW_TAKE(&m->arena, m->ranks, p->n_ranks, err);
    LW_TRY(exec_params_place(m, err));
    LW_TRY(lay_out_all(m, err));
    place_all_copies(m);
    LW_TRY(exec_rows_place(m, err));
    int64_t limit = exact_limit(p), n_terms = terms_of(p);
    LW_TRY(exec_norm_limit(p, n_terms, largest_divisor(m), &limit, err));
    LW_TRY(exec_gradient_table_init(&m->table, n_terms, largest_divisor(m), limit, err));
    LW_TRY(exec_gradient_table_init(&m->messages, p->n_ranks, 1, number_limit(p, false), err));
    return exec_gradient_table_init(&m->values, VALUES, 1, number_limit(p, true), err);
}

enum lw_status exec_tensors_init(struct exec_tensors *m, struct lw_err *err)
{
    LW_TRY(exec_tensors_lay_out(m, err));
    for (int32_t r = m->facts.first_local; r < m->facts.first_local + m->facts.n_local; r++)
        LW_TRY(alloc_rank(m, r, err));
    return LW_OK;
}

static enum lw_status zero(const struct exec_tensors *m, int32_t rank, void *mem, int64_t bytes,
                           struct lw_err *err)
{
    static const char zeros[1 << 16];

    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof zeros) {
        int64_t n = bytes - at < (int64_t)sizeof zeros ? bytes - at : (int64_t)sizeof zeros;
        LW_TRY(m->backend->mem_write(m->world, rank, (char *)mem + at, zeros, n, err));
    }
    return LW_OK;
}

static enum lw_status zero_rank(const struct exec_tensors *m, int32_t rank, struct lw_err *err)
{
    const struct exec_rank_memory *r = &m->ranks[rank];

    for (int32_t k = 0; k < exec_optimizer_states(m->optimizer.kind); k++)
        LW_TRY(zero(m, rank, r->state[k], m->n_state * 4, err));
    LW_TRY(zero(m, rank, r->grads, m->grad_bytes, err));
    LW_TRY(zero(m, rank, r->buckets, m->bucket_bytes, err));
    LW_TRY(zero(m, rank, r->rows, m->sparse.bytes, err));
    return zero(m, rank, r->scratch, exec_tensors_message_bytes(m), err);
}

static enum lw_status restart_rank(const struct exec_tensors *m, int32_t rank,
                                   struct exec_tensors *next, struct lw_err *err)
{
    LW_TRY(zero_rank(m, rank, err));
    next->ranks[rank] = m->ranks[rank];
    LW_TRY(exec_rows_bind(next, rank, err));
    return set_weights(next, rank, err);
}

enum lw_status exec_tensors_restart(struct exec_tensors *m, struct lw_err *err)
{
    struct exec_tensors next = without_comparing(m);
    enum lw_status s = exec_tensors_lay_out(&next, err);

    next.product_elements = m->product_elements;
    for (int32_t k = 0; k < m->facts.n_local && s == LW_OK; k++)
        s = restart_rank(m, m->facts.first_local + k, &next, err);
    exec_tensors_free(s == LW_OK ? m : &next);
    if (s == LW_OK)
        *m = next;
    return s;
}

void exec_tensors_free(struct exec_tensors *m)
{
    lw_arena_free(&m->arena);
    lw_free(m->squares);
    *m = (struct exec_tensors){0};
}
