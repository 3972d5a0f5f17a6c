/* Which gathered weights take turns in which memory: exec/tensors/weight_turns.h. First fit, the
 * largest first. A slot that would not save memory is dissolved: beside it each member's own share
 * lies apart, which lies in the flat buffer otherwise.
 *
 * Invariant: the turns of a slot, sorted by program and alloc, follow each other: a turn begins
 * when the turn before it has ended. So it is enough to compare neighbours. */
#include "exec/tensors/weight_turns.h"

#include <stdlib.h>

#include "shared/base/sort.h"
#include "shared/check/vector_clock.h"
#include "shared/numbers/order.h"
#include "shared/plan/op.h"

struct span { /* from an alloc to the free */
    int32_t bucket, program, take, give, give_stream;
    int64_t row; /* what has ended when the alloc begins: into rows */
};

struct slot {
    int32_t stage;
    int32_t n_buckets;
    int64_t bytes, apart_bytes; /* of the largest; of all, each in memory of its own */
    int64_t share_bytes;        /* of all own shares */
    struct span *spans;
    int64_t n;
};

struct finder {
    struct exec_tensors *m;
    struct lw_arena room;
    struct lw_op_clock clock;
    bool *can;                  /* [n_buckets] take turns */
    int32_t *take, *gather;     /* [n_buckets] of the current turn; -1 = none */
    int32_t *n_members;         /* [n_comms] of each group; -1 = not known, 0 = not by shards */
    struct span *spans;
    int64_t n_spans, capacity;
    int32_t *rows;
    int64_t n_rows, row_capacity;
    int64_t *first;             /* [n_buckets + 1] into spans */
    struct slot *slots;         /* [n_buckets] */
    int32_t n_slots;
    int32_t *slot_of;           /* [n_buckets] -1 = none */
};

static int32_t stage_of(const struct lw_plan *p, int32_t bucket)
{
    return p->params[p->slots[p->buckets[bucket].first_slot]].stage;
}

int64_t exec_share_bytes(const struct exec_tensors *m, int32_t bucket)
{
    return m->plan->buckets[bucket].bytes / m->weights.turns[bucket].n_members;
}

int32_t exec_turn_member(const struct exec_tensors *m, int32_t bucket, int32_t rank)
{
    int32_t comm = m->weights.turns[bucket].comm;

    return m->plan->comms[comm].purpose == LW_COMM_EXPERT_DATA ? m->member.expert[rank]
                                                               : m->member.data[rank];
}

static int64_t share_room(const struct exec_tensors *m, int32_t bucket)
{
    return exec_aligned(exec_share_bytes(m, bucket));
}

/* --- own shares ------------------------------------------------------------------------------- */

/* Members of every group of the class, whose places are those that own shards; 0 = not so. */
static int32_t members_of(const struct finder *f, int32_t comm)
{
    const struct exec_tensors *m = f->m;
    const struct lw_plan *p = m->plan;
    enum lw_comm_purpose purpose = p->comms[comm].purpose;
    const int32_t *member = purpose == LW_COMM_EXPERT_DATA ? m->member.expert : m->member.data;
    int32_t n = 0;

    if (purpose != LW_COMM_DATA && purpose != LW_COMM_EXPERT_DATA)
        return 0;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const struct lw_group *g = lw_plan_group(p, comm, r);
        if (!g)
            continue;
        if ((n > 0 && g->n_members != n) || lw_plan_member(p, g, r) != member[r])
            return 0;
        n = g->n_members;
    }
    return n;
}

/* Every rank of the stage gathers it, with equal shares. */
static bool is_cut(struct finder *f, int32_t bucket, int32_t comm)
{
    const struct lw_plan *p = f->m->plan;
    const struct lw_bucket *k = &p->buckets[bucket];

    if (f->n_members[comm] < 0)
        f->n_members[comm] = members_of(f, comm);
    int32_t n = f->n_members[comm];
    if (n < 2 || k->bytes / lw_dtype_size(k->dtype) % n != 0 ||
        exec_bucket_filled_in(p, bucket) != k->dtype)
        return false;
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (p->roles[lw_plan_role_of(p, r)].stage == stage_of(p, bucket) &&
            !lw_plan_group(p, comm, r))
            return false;
    return true;
}

/* A rank owns nothing outside of its own share. */
static enum lw_status check_shards(struct finder *f, struct lw_err *err)
{
    const struct exec_tensors *m = f->m;
    const struct lw_plan *p = m->plan;
    int64_t *offset, *left;

    LW_TAKE(&f->room, offset, p->n_params, err);
    LW_TAKE(&f->room, left, p->n_buckets, err);
    for (int32_t b = 0; b < p->n_buckets; b++)
        for (struct lw_slot_walk w = {0}; f->can[b] && lw_plan_next_slot(p, &p->buckets[b], &w);) {
            bool expert = p->comms[m->weights.turns[b].comm].purpose == LW_COMM_EXPERT_DATA;
            offset[w.slot.param] = w.slot.offset;
            left[b] += p->params[w.slot.param].numel;
            m->weights.flat[w.slot.param] = b;
            f->can[b] = f->can[b] && p->params[w.slot.param].expert == expert;
        }
    for (int32_t s = 0; s < p->n_shards; s++) {
        const struct lw_shard *x = &p->shards[s];
        int32_t b = m->weights.flat[x->param];
        if (b < 0)
            continue;
        int64_t each = exec_share_bytes(m, b) / lw_dtype_size(p->buckets[b].dtype);
        bool owned = x->owner >= 0 && x->owner < m->weights.turns[b].n_members;
        int64_t at = offset[x->param] + x->first - (owned ? x->owner * each : 0);
        f->can[b] = f->can[b] && ((owned && at >= 0 && at + x->numel <= each) || x->numel == 0);
        left[b] -= x->numel;
    }
    for (int32_t b = 0; b < p->n_buckets; b++)
        f->can[b] = f->can[b] && left[b] == 0;
    return LW_OK;
}

/* --- turns ------------------------------------------------------------------------------------ */

static bool is_temporary(const struct finder *f, int32_t bucket)
{
    const struct lw_plan *p = f->m->plan;
    const struct lw_bucket *k = &p->buckets[bucket];

    return lw_plan_is_weights(p, bucket) && k->n_slots > 0 &&
           f->m->temporary[p->slots[k->first_slot]];
}

static enum lw_status add_span(struct finder *f, int32_t program, int32_t give, struct lw_err *err)
{
    const struct lw_op *op = &f->m->plan->ops[give];
    const int32_t *row = lw_op_clock_row(&f->clock, f->take[op->bucket]);
    int32_t n = f->clock.n_streams;

    LW_ROOM(f->spans, f->capacity, f->n_spans + 1, err);
    LW_ROOM(f->rows, f->row_capacity, f->n_rows + n, err);
    f->spans[f->n_spans++] = (struct span){op->bucket, program, f->take[op->bucket], give,
                                           op->stream, f->n_rows};
    for (int32_t s = 0; s < n; s++)
        f->rows[f->n_rows++] = row[s];
    return LW_OK;
}

static bool gathers_all(struct finder *f, const struct lw_op *op)
{
    const struct lw_bucket *k = &f->m->plan->buckets[op->bucket];
    struct exec_turn *t = &f->m->weights.turns[op->bucket];

    if (op->comm < 0 || op->operand >= 0 || op->bytes != k->bytes || op->dtype != k->dtype)
        return false;
    if (t->comm >= 0)
        return t->comm == op->comm;
    if (!is_cut(f, op->bucket, op->comm))
        return false;
    t->comm = op->comm;
    t->n_members = f->n_members[op->comm];
    return true;
}

/* One op of a bucket's turn: alloc, gather and free follow each other. */
static enum lw_status follow(struct finder *f, int32_t program, int32_t i, struct lw_err *err)
{
    const struct lw_op *op = &f->m->plan->ops[i];
    int32_t b = op->bucket, *take = &f->take[b], *gather = &f->gather[b];

    if (op->kind == LW_OP_ALLOC && *take < 0) {
        *take = i;
    } else if (op->kind == LW_OP_ALL_GATHER && *take >= 0 && *gather < 0 &&
               lw_op_after(&f->clock, i, *take) && gathers_all(f, op)) {
        *gather = i;
    } else if (op->kind == LW_OP_FREE && *gather >= 0 && lw_op_after(&f->clock, i, *gather)) {
        LW_TRY(add_span(f, program, i, err));
        *take = *gather = -1;
    } else {
        f->can[b] = false;
    }
    return LW_OK;
}

/* The optimizer writes into shares: not while they are copied or gathered. */
static void keep_from_optimizer(struct finder *f, int64_t first_span, int32_t optimizer)
{
    for (int64_t i = first_span; i < f->n_spans; i++)
        if (!lw_op_after(&f->clock, f->spans[i].take, optimizer) &&
            !lw_op_after(&f->clock, optimizer, f->spans[i].give))
            f->can[f->spans[i].bucket] = false;
}

static enum lw_status follow_program(struct finder *f, int32_t program, struct lw_err *err)
{
    const struct lw_plan *p = f->m->plan;
    struct lw_program g = p->programs[program];
    int32_t stage = p->roles[program % p->n_roles].stage;
    int64_t first = f->n_spans;

    lw_op_clock_set(&f->clock, g);
    for (int32_t b = 0; b < p->n_buckets; b++)
        f->take[b] = f->gather[b] = -1;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        int32_t b = p->ops[i].bucket;
        if (b < 0 || !f->can[b])
            continue;
        f->can[b] = stage_of(p, b) == stage;
        LW_TRY(follow(f, program, i, err));
    }
    for (int32_t b = 0; b < p->n_buckets; b++)
        f->can[b] = f->can[b] && f->take[b] < 0;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p->ops[i].kind == LW_OP_OPTIMIZER)
            keep_from_optimizer(f, first, i);
    return LW_OK;
}

LW_COMPARATOR(by_bucket, struct span, a->bucket, b->bucket, a->program, b->program, a->take,
              b->take)

static enum lw_status list_spans(struct finder *f, struct lw_err *err)
{
    const struct lw_plan *p = f->m->plan;

    LW_TRY(lw_op_clock_init(&f->clock, p, &f->room, err));
    for (int32_t i = 0; i < p->n_variants * p->n_roles; i++)
        LW_TRY(follow_program(f, i, err));
    lw_sort(f->spans, f->n_spans, by_bucket);
    for (int64_t i = 0; i < f->n_spans; i++)
        f->first[f->spans[i].bucket + 1] = i + 1;
    for (int32_t b = 0; b < p->n_buckets; b++) {
        if (f->first[b + 1] < f->first[b])
            f->first[b + 1] = f->first[b];
        f->can[b] = f->can[b] && f->first[b + 1] > f->first[b];
    }
    return LW_OK;
}

/* --- slots ------------------------------------------------------------------------------------ */

static bool comes_before(const struct span *a, const struct span *b)
{
    return LW_ORDER(a->program, b->program, a->take, b->take) < 0;
}

/* The turns of both, by program and alloc, into `merged`. False: two of them are not in order. */
static bool merge(const struct finder *f, const struct slot *s, int32_t bucket,
                  struct span *merged)
{
    const struct span *a = s->spans, *end_a = a + s->n;
    const struct span *b = f->spans + f->first[bucket], *end_b = f->spans + f->first[bucket + 1];
    int64_t n = 0;

    while (a < end_a || b < end_b) {
        const struct span *next = b == end_b || (a < end_a && comes_before(a, b)) ? a++ : b++;
        const struct span *last = n > 0 ? &merged[n - 1] : NULL;
        if (last && last->program == next->program &&
            f->rows[next->row + last->give_stream] < last->give)
            return false;
        merged[n++] = *next;
    }
    return true;
}

/* Takes the slot: it is new, or all turns are in order. */
static enum lw_status take_slot(struct finder *f, int32_t i, int32_t bucket, bool *taken,
                                struct lw_err *err)
{
    struct exec_tensors *m = f->m;
    struct slot *s = &f->slots[i];
    int64_t n = s->n + f->first[bucket + 1] - f->first[bucket];
    int64_t bytes = exec_aligned(m->plan->buckets[bucket].bytes);
    struct span *merged = lw_alloc((size_t)n * sizeof *merged);

    if (!merged)
        return lw_fail_nomem(err);
    *taken = merge(f, s, bucket, merged);
    if (!*taken) {
        lw_free(merged);
        return LW_OK;
    }
    lw_free(s->spans);
    s->spans = merged;
    s->n = n;
    s->n_buckets++;
    s->bytes = bytes > s->bytes ? bytes : s->bytes;
    s->apart_bytes += bytes;
    s->share_bytes += share_room(m, bucket);
    f->slot_of[bucket] = i;
    return LW_OK;
}

static enum lw_status find_slot(struct finder *f, int32_t bucket, struct lw_err *err)
{
    int32_t stage = stage_of(f->m->plan, bucket);
    bool taken = false;

    for (int32_t i = 0; i < f->n_slots && !taken; i++)
        if (f->slots[i].stage == stage)
            LW_TRY(take_slot(f, i, bucket, &taken, err));
    if (taken)
        return LW_OK;
    f->slots[f->n_slots] = (struct slot){.stage = stage};
    return take_slot(f, f->n_slots++, bucket, &taken, err);
}

struct sized {
    int64_t bytes;
    int32_t bucket;
};

LW_COMPARATOR(by_size, struct sized, b->bytes, a->bytes, a->bucket, b->bucket)

static enum lw_status find_slots(struct finder *f, struct lw_err *err)
{
    const struct lw_plan *p = f->m->plan;
    struct sized *list;
    int32_t n = 0;

    LW_TAKE(&f->room, list, p->n_buckets, err);
    for (int32_t b = 0; b < p->n_buckets; b++)
        if (f->can[b])
            list[n++] = (struct sized){p->buckets[b].bytes, b};
    lw_sort(list, n, by_size);
    for (int32_t i = 0; i < n; i++)
        LW_TRY(find_slot(f, list[i].bucket, err));
    return LW_OK;
}

int64_t exec_turn_marks_bytes(int32_t n)
{
    return exec_aligned((int64_t)n * EXEC_TURN_MARK);
}

/* Slots that save memory get numbers, their buckets turns. */
static void note_turns(struct finder *f)
{
    struct exec_weight_places *w = &f->m->weights;
    const struct lw_plan *p = f->m->plan;

    for (int32_t i = 0; i < f->n_slots; i++) {
        const struct slot *s = &f->slots[i];
        int64_t bytes = s->bytes + s->share_bytes + exec_turn_marks_bytes(s->n_buckets);
        int32_t turn = 0;
        if (bytes >= s->apart_bytes)
            continue;
        for (int32_t b = 0; b < p->n_buckets; b++) {
            if (f->slot_of[b] != i)
                continue;
            w->turns[b].slot = w->n_slots;
            w->turns[b].turn = turn++;
            w->turns[b].n_turns = s->n_buckets;
            w->turns[b].slot_bytes = s->bytes;
        }
        w->n_slots++;
    }
}

static enum lw_status find(struct finder *f, struct lw_err *err)
{
    const struct lw_plan *p = f->m->plan;

    LW_TAKE(&f->room, f->can, p->n_buckets, err);
    LW_TAKE(&f->room, f->take, p->n_buckets, err);
    LW_TAKE(&f->room, f->gather, p->n_buckets, err);
    LW_TAKE(&f->room, f->n_members, p->n_comms, err);
    LW_TAKE(&f->room, f->first, p->n_buckets + 1L, err);
    LW_TAKE(&f->room, f->slots, p->n_buckets, err);
    LW_TAKE(&f->room, f->slot_of, p->n_buckets, err);
    for (int32_t c = 0; c < p->n_comms; c++)
        f->n_members[c] = -1;
    for (int32_t b = 0; b < p->n_buckets; b++) {
        f->can[b] = is_temporary(f, b);
        f->slot_of[b] = -1;
    }
    LW_TRY(list_spans(f, err));
    LW_TRY(check_shards(f, err));
    LW_TRY(find_slots(f, err));
    note_turns(f);
    return LW_OK;
}

enum lw_status exec_turns_find(struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    struct finder f = {.m = m};
    bool any = false;

    LW_TAKE(&m->arena, m->weights.turns, p->n_buckets, err);
    LW_TAKE(&m->arena, m->weights.flat, p->n_params, err);
    for (int32_t b = 0; b < p->n_buckets; b++)
        m->weights.turns[b] = (struct exec_turn){.slot = -1, .comm = -1, .n_members = 1};
    for (int32_t i = 0; i < p->n_params; i++) {
        m->weights.flat[i] = -1;
        any = any || m->temporary[i];
    }
    enum lw_status s = any ? find(&f, err) : LW_OK;
    for (int32_t i = 0; i < p->n_params; i++)
        if (m->weights.flat[i] >= 0 && m->weights.turns[m->weights.flat[i]].slot < 0)
            m->weights.flat[i] = -1;
    for (int32_t i = 0; i < f.n_slots; i++)
        lw_free(f.slots[i].spans);
    lw_free(f.spans);
    lw_free(f.rows);
    lw_arena_free(&f.room);
    return s;
}
