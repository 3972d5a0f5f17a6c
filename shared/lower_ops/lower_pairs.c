/* Units of a forward and a backward whose all-to-alls of experts run beside each other's compute
 * (DeepSeek-V3, arXiv 2412.19437, section 3.2.1: two directions of DualPipe; NVIDIA/Megatron-LM
 * @00caa53a megatron/core/pipeline_parallel/combined_1f1b.py: overlap_moe_expert_parallel_comm).
 *
 * A pass is written action by action as always, but the two of a unit wait for nothing of each
 * other: each is a lane with its own last compute. When the program is complete, the ops of units
 * that follow each other are put into another order. Communication is issued as soon as its lane
 * gets there, and of two lanes the next compute is that of the one whose all-to-all was issued
 * first: while one waits for its tokens, the other computes. What a lane sends before its first
 * compute may go beside the last compute of the unit before, or of the action alone before it.
 *
 * Why no rank waits for ever: in the one order of all ranks (lw_grid_order with `early`) both
 * inputs of a unit are there before it begins, so its two lanes may be mixed in any way. An op that
 * goes ahead of the unit before has its message before it on the rank's list: this message is
 * earlier in the one order than what the op passes, and members of its communicator are ranks of
 * the same role, which issue the same list. The order depends on no times. */
#include <string.h>

#include "shared/lower_ops/writer.h"

enum { N_LANES = 2, MESSAGE = 2, OTHER = -1 };

enum lw_status lw_write_begin_pairs(struct lw_writer *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_grid_order *o = &k->l->order;

    if (!k->l->pairs)
        return LW_OK;
    LW_TAKE(room, k->items, (int64_t)o->first[k->role + 1] - o->first[k->role], err);
    return LW_OK;
}

/* The action before this one on the rank's list; NULL = it is the first. */
static const struct lw_action *action_before(const struct lw_writer *k, int32_t step)
{
    const struct lw_grid_order *o = &k->l->order;

    while (step-- > o->first[k->role])
        if (o->steps[step].kind == LW_GRID_RUN)
            return lw_step_action(o, &o->steps[step]);
    return NULL;
}

static int8_t lane_of(const struct lw_writer *k, int32_t step)
{
    const struct lw_grid_order *o = &k->l->order;
    const struct lw_grid_step *s = &o->steps[step];
    const struct lw_action *before;

    if (s->kind != LW_GRID_RUN)
        return MESSAGE;
    if (lw_step_action(o, s)->with_next)
        return 0;
    before = action_before(k, step);
    return before && before->with_next ? 1 : OTHER;
}

void lw_write_enter_step(struct lw_writer *k, int32_t step)
{
    if (!k->items)
        return;
    struct lw_pair_item *x = &k->items[k->n_items++];
    *x = (struct lw_pair_item){.first = lw_builder_n_ops(k->l->b), .lane = lane_of(k, step),
                               .unit = -1};
    x->backward =
        lw_step_action(&k->l->order, &k->l->order.steps[step])->kind != LW_OP_FORWARD;
    if (x->lane != 0 && x->lane != 1)
        return;
    x->unit = x->lane == 0 ? k->n_units++ : k->n_units - 1;
    k->first_last = x->lane == 1 ? k->last_compute : -1;
    k->last_compute = k->after = -1;
}

void lw_write_leave_step(struct lw_writer *k)
{
    if (!k->items)
        return;
    struct lw_pair_item *x = &k->items[k->n_items - 1];
    x->n = lw_builder_n_ops(k->l->b) - x->first;
    if (x->lane != 1)
        return;
    k->last_compute = k->last_compute < 0 ? k->first_last : k->last_compute;
    k->after = -1; /* who needs what the last all-to-all brings waits for it by name */
}

int32_t lw_write_local_input(const struct lw_writer *k, const struct lw_action *a)
{
    bool backward = a->kind != LW_OP_FORWARD;

    if (!backward)
        return a->stage == 0 ? -1 : k->made[lw_value_at(k, false, a->stage - 1, a->micro_batch)];
    return a->stage + 1 == k->l->grid.n_stages
               ? k->made[lw_value_at(k, false, a->stage, a->micro_batch)]
               : k->made[lw_value_at(k, true, a->stage + 1, a->micro_batch)];
}

/* --- another order --------------------------------------------------------------------------- */

/* Units that follow each other, and the messages between them. */
struct merge {
    const struct lw_writer *k;
    const struct lw_pair_item *items;
    int32_t n_items, first, n;  /* ops [first, first + n) */
    int32_t *place;             /* [n] in the new order; -1 = not yet */
    int32_t *order, n_placed;   /* [n] */
    int32_t *left;              /* [n_items] ops not placed */
    int32_t done;               /* items before it are placed */
    int32_t item[N_LANES + 1];  /* of each lane, and of messages: the item at hand, */
    int32_t next[N_LANES + 1];  /* and its next op; item n_items: no more */
    int32_t lane;               /* that computed last */
};

static struct lw_op op_at(const struct merge *m, int32_t op)
{
    return lw_builder_op_at(m->k->l->b, op);
}

/* To the lane's next op. */
static void settle(struct merge *m, int lane)
{
    while (m->item[lane] < m->n_items && (m->items[m->item[lane]].lane != lane ||
                                          m->next[lane] == m->items[m->item[lane]].n)) {
        m->item[lane]++;
        m->next[lane] = 0;
    }
}

static int32_t head_of(const struct merge *m, int lane)
{
    return m->item[lane] < m->n_items ? m->items[m->item[lane]].first + m->next[lane] : -1;
}

static void put(struct merge *m, int lane)
{
    int32_t op = head_of(m, lane);

    m->place[op - m->first] = m->n_placed;
    m->order[m->n_placed++] = op - m->first;
    m->left[m->item[lane]]--;
    m->next[lane]++;
    settle(m, lane);
}

static bool computes(const struct merge *m, int32_t op)
{
    return op_at(m, op).stream == m->k->l->compute;
}

static bool inputs_there(const struct merge *m, int32_t op)
{
    const int32_t *deps = lw_builder_deps_of(m->k->l->b, op);

    for (int32_t i = 0; i < op_at(m, op).n_deps; i++)
        if (deps[i] >= m->first && m->place[deps[i] - m->first] < 0)
            return false;
    return true;
}

/* Nothing of the item was computed yet, nor is the op a compute; and the unit before is at its last
 * compute: no all-to-all is left that another one follows. */
static bool leads(const struct merge *m, int lane)
{
    const struct lw_pair_item *x = &m->items[m->item[lane]];
    int other = 1 - lane;
    bool sends = false;

    for (int32_t i = 0; i <= m->next[lane]; i++)
        if (computes(m, x->first + i))
            return false;
    x = &m->items[m->item[other]];
    for (int32_t i = m->next[other]; i < x->n; i++) {
        if (sends && computes(m, x->first + i))
            return false;
        sends = sends || op_at(m, x->first + i).comm == m->k->l->expert.comm;
    }
    return x->unit + 1 == m->items[m->item[lane]].unit;
}

/* No lane of an earlier unit has ops left. */
static bool is_first_unit(const struct merge *m, int lane)
{
    int other = 1 - lane;

    return m->item[other] >= m->n_items ||
           m->items[m->item[other]].unit >= m->items[m->item[lane]].unit;
}

/* All that stands before the message has been placed. */
static bool message_due(struct merge *m)
{
    while (m->done < m->item[MESSAGE] && m->left[m->done] == 0)
        m->done++;
    return m->done == m->item[MESSAGE];
}

static bool may_go(struct merge *m, int lane)
{
    int32_t op = head_of(m, lane);

    if (op < 0 || !inputs_there(m, op))
        return false;
    if (lane == MESSAGE)
        return message_due(m);
    return is_first_unit(m, lane) || leads(m, lane);
}

/* When the all-to-all was issued that the lane's next compute waits for; -1 = for none. */
static int32_t waits_since(const struct merge *m, int lane)
{
    int32_t op = head_of(m, lane), since = -1;
    const int32_t *deps = lw_builder_deps_of(m->k->l->b, op);

    for (int32_t i = 0; i < op_at(m, op).n_deps; i++) {
        int32_t at = deps[i] >= m->first ? m->place[deps[i] - m->first] : -1;
        if (op_at(m, deps[i]).comm == m->k->l->expert.comm && at > since)
            since = at;
    }
    return since;
}

/* The lane that computes next; -1 = none may. */
static int next_lane(struct merge *m)
{
    int other = 1 - m->lane;
    bool mine = may_go(m, m->lane), theirs = may_go(m, other);

    if (mine && theirs)
        return waits_since(m, other) < waits_since(m, m->lane) ? other : m->lane;
    return mine ? m->lane : theirs ? other : -1;
}

static bool put_communication(struct merge *m)
{
    bool any = false;

    for (int lane = 0; lane <= MESSAGE; lane++)
        while (may_go(m, lane) && (lane == MESSAGE || !computes(m, head_of(m, lane)))) {
            put(m, lane);
            any = true;
        }
    return any;
}

static enum lw_status merge(struct merge *m, struct lw_err *err)
{
    for (int lane = 0; lane <= MESSAGE; lane++)
        settle(m, lane);
    while (m->n_placed < m->n) {
        if (put_communication(m))
            continue;
        int lane = next_lane(m);
        if (lane < 0)
            return lw_fail(err, LW_EPLAN, "the ops of an overlapped unit wait for each other");
        put(m, lane);
        m->lane = lane;
    }
    return LW_OK;
}

/* Items from `from` on that are merged: from an action alone before a unit, or a unit's forward, to
 * the last unit's backward before an action alone; 0 = none begins here. */
static int32_t run_length(struct lw_writer *k, int32_t from)
{
    struct lw_pair_item *x = &k->items[from];
    int32_t n = 0, next = from + 1;

    while (next < k->n_items && k->items[next].lane == MESSAGE)
        next++;
    if (x->lane == MESSAGE)
        return 0;
    if (x->lane == OTHER && (next == k->n_items || k->items[next].lane != 0))
        return 0;
    for (int32_t i = next; i < k->n_items && k->items[i].lane != OTHER; i++)
        if (k->items[i].lane == 1)
            n = i + 1 - from;
    if (x->lane == OTHER) {
        x->lane = x->backward;
        x->unit = k->items[next].unit - 1;
    }
    return n;
}

static enum lw_status merge_run(struct lw_writer *k, int32_t from, int32_t n_items, int32_t *order,
                                struct lw_arena *room, struct lw_err *err)
{
    const struct lw_pair_item *last = &k->items[from + n_items - 1];
    struct merge m = {.k = k, .items = k->items + from, .n_items = n_items};

    m.first = k->items[from].first;
    m.n = last->first + last->n - m.first;
    LW_TAKE(room, m.place, m.n, err);
    LW_TAKE(room, m.order, m.n, err);
    LW_TAKE(room, m.left, n_items, err);
    memset(m.place, -1, (size_t)m.n * sizeof *m.place);
    for (int32_t i = 0; i < n_items; i++)
        m.left[i] = m.items[i].n;
    LW_TRY(merge(&m, err));
    int32_t at = m.first - k->items[0].first;
    for (int32_t i = 0; i < m.n; i++)
        order[at + i] = at + m.order[i];
    return LW_OK;
}

enum lw_status lw_write_interleaved(struct lw_writer *k, struct lw_err *err)
{
    struct lw_arena room = {0};
    enum lw_status s = LW_OK;
    int32_t *order;

    if (!k->items || k->n_items == 0 || lw_builder_has_failed(k->l->b))
        return LW_OK;
    int32_t first = k->items[0].first, n = lw_builder_n_ops(k->l->b) - first;
    order = lw_arena_alloc(&room, n, sizeof *order);
    if (!order)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    for (int32_t i = 0; s == LW_OK && i < k->n_items;) {
        int32_t run = run_length(k, i);
        if (run > 0)
            s = merge_run(k, i, run, order, &room, err);
        i += run > 0 ? run : 1;
    }
    if (s == LW_OK)
        lw_builder_reorder(k->l->b, first, order, n);
    lw_arena_free(&room);
    return s;
}
