/* V-Half and V-Min (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): two stages
 * per rank in a V with about a half and a third of the activations of 1F1B.
 *
 * Time is slots of one action. A micro-batch's four legs (F down, F up, I down, I up) have fixed
 * distances on every rank, chosen so that copies of it every 6 slots never meet: 4 slots hold legs,
 * 2 stay free for W. That is optimal in the steady part and wasteful at both ends, so:
 *   1. W go to the free slots; actions of the ends move to earlier free slots as far as what they
 *      need and the memory of the steady part allow; then idle slots are squeezed out;
 *   2. the W are taken out again, the end's actions move once more with W in whatever slot is free,
 *      and it is squeezed again;
 *   3. W go to the free slots for good, those of the far stage first.
 * The order of slots is the schedule; durations never matter.
 *
 * The rule was read in sail-sg/zero-bubble-pipeline-parallelism @ 39f2c186,
 * megatron/core/pipeline_parallel/zerobubble/scheduler/zbv_greedy.py; recorded orders of that code
 * are reproduced. */
#include <string.h>

#include "shared/schedule/schedule_emit.h"
#include "shared/schedule/schedule_v.h"

enum { ANY_W = LW_W_DOWN, PERIOD = 6 }; /* before step 3 the W of both stages are one kind */

struct item {
    int32_t leg, mb; /* leg -1: a free slot */
};

struct v {
    int32_t p, m;
    int32_t room;        /* slots of one rank */
    struct item *slot;   /* [p room] */
    struct item *before; /* [p room] what the slots held when a step began */
    int32_t *at;         /* [6 p 2m] slot of every action; ANY_W counts to 2m */
    int32_t *ready;      /* [p] squeeze: first free slot */
};

static struct item *slot_of(const struct v *v, int32_t rank, int32_t t)
{
    return &v->slot[(int64_t)rank * v->room + t];
}

static int32_t *at_of(const struct v *v, int32_t leg, int32_t rank, int32_t mb)
{
    return &v->at[((int64_t)leg * v->p + rank) * 2 * v->m + mb];
}

static void set(struct v *v, int32_t rank, int32_t t, int32_t leg, int32_t mb)
{
    *slot_of(v, rank, t) = (struct item){leg, mb};
    *at_of(v, leg, rank, mb) = t;
}

static void clear(struct v *v)
{
    for (int64_t k = 0; k < (int64_t)v->p * v->room; k++)
        v->slot[k].leg = -1;
}

static int32_t last_slot(const struct v *v, int32_t rank)
{
    int32_t t = v->room - 1;

    while (t > 0 && slot_of(v, rank, t)->leg < 0)
        t--;
    return t;
}

/* The steady pattern: slot of a leg of micro-batch 0. Another distance between forwards and
 * backwards keeps copies apart when p divides by 2 or 3. */
static int32_t pattern(enum lw_schedule schedule, int32_t p, int32_t r, enum lw_leg leg)
{
    if (schedule == LW_SCHEDULE_V_MIN) {
        int32_t gap = p % 3 == 0 ? 2 : 0;
        const int32_t min[] = {r, 2 * p - 1 - r, 2 * p + gap + r, 4 * p + gap - 1 - r};
        return min[leg];
    }
    int32_t gap = p % 2 == 0 ? 3 : 0;
    const int32_t half[] = {2 * r, 3 * p - 2 - r, 3 * p + gap - 1 + 2 * r, 6 * p + gap - 2 - r};
    return half[leg];
}

static void lay_out(struct v *v, enum lw_schedule schedule)
{
    clear(v);
    for (int32_t r = 0; r < v->p; r++)
        for (int32_t leg = LW_F_DOWN; leg <= LW_I_UP; leg++)
            for (int32_t mb = 0; mb < v->m; mb++)
                set(v, r, pattern(schedule, v->p, r, (enum lw_leg)leg) + PERIOD * mb, leg, mb);
}

/* W into free slots, as soon as an I is waiting for one. split: each stage's own, the far stage's
 * first; else one kind in the order of their I. */
static void add_w(struct v *v, int32_t rank, bool split)
{
    int32_t due[2] = {0, 0}, done[2] = {0, 0}, end = last_slot(v, rank);

    for (int32_t t = 0; t <= end || due[0] + due[1] > 0; t++) {
        int32_t leg = slot_of(v, rank, t)->leg;
        int k = due[0] > 0 ? 0 : 1;
        if (leg == LW_I_DOWN || leg == LW_I_UP) {
            due[split ? leg - LW_I_DOWN : 0]++;
        } else if (leg < 0 && due[k] > 0) {
            due[k]--;
            set(v, rank, t, ANY_W + k, done[k]++);
        }
    }
}

static void remove_w(struct v *v)
{
    for (int64_t k = 0; k < (int64_t)v->p * v->room; k++)
        if (v->slot[k].leg >= ANY_W)
            v->slot[k].leg = -1;
}

/* Most activations that the rank holds at once. Where no W has a slot, one takes place in every
 * free slot while an I waits for it. */
static int32_t peak(const struct v *v, int32_t rank, bool with_w)
{
    int32_t held = 0, most = 0, due = 0, end = last_slot(v, rank);

    for (int32_t t = 0; t <= end; t++) {
        int32_t leg = slot_of(v, rank, t)->leg;
        if (leg == LW_F_DOWN || leg == LW_F_UP)
            held++;
        else if (leg == ANY_W)
            held--;
        else if (leg >= 0)
            due++;
        else if (!with_w && due > 0)
            due--, held--;
        most = held > most ? held : most;
    }
    return most;
}

/* The slot of the mb-th I of either stage. */
static int32_t nth_input(const struct v *v, int32_t rank, int32_t n)
{
    int32_t down = 0, up = 0, t = 0;

    for (int32_t k = 0; k <= n; k++) {
        bool take_down = up == v->m || (down < v->m && *at_of(v, LW_I_DOWN, rank, down) <
                                                           *at_of(v, LW_I_UP, rank, up));
        t = take_down ? *at_of(v, LW_I_DOWN, rank, down++) : *at_of(v, LW_I_UP, rank, up++);
    }
    return t;
}

/* The first slot after everything that the action needs. */
static int32_t earliest(const struct v *v, int32_t leg, int32_t rank, int32_t mb)
{
    int32_t after = -1, t;
    int32_t source = lw_leg_source(v->p, rank, (enum lw_leg)leg);

    if (source >= 0 && (t = *at_of(v, leg, source, mb)) > after)
        after = t;
    if (leg > LW_F_DOWN && leg < ANY_W && (t = *at_of(v, leg - 1, rank, mb)) > after)
        after = t;
    if (leg == ANY_W && (t = nth_input(v, rank, mb)) > after)
        after = t;
    if (mb > 0 && (t = *at_of(v, leg, rank, mb - 1)) > after)
        after = t;
    return after + 1;
}

/* Move an action to the first free slot from which the rank's memory stays within `limit`. */
static void move_forward(struct v *v, struct item a, int32_t rank, bool with_w, int32_t limit)
{
    int32_t now = *at_of(v, a.leg, rank, a.mb);

    for (int32_t t = earliest(v, a.leg, rank, a.mb); t < now; t++) {
        if (slot_of(v, rank, t)->leg >= 0)
            continue;
        slot_of(v, rank, now)->leg = -1;
        set(v, rank, t, a.leg, a.mb);
        if (peak(v, rank, with_w) <= limit)
            return;
        slot_of(v, rank, t)->leg = -1;
        set(v, rank, now, a.leg, a.mb);
    }
}

static void keep_slots(struct v *v)
{
    memcpy(v->before, v->slot, (size_t)v->p * (size_t)v->room * sizeof *v->slot);
}

/* Actions before rank 0's first finished micro-batch and after the last one has entered move; the
 * steady part between stays. Without W the beginning stays too. */
static void reorder(struct v *v, bool with_w)
{
    int32_t limit = 0, part = 0;

    for (int32_t r = 0; r < v->p; r++) {
        int32_t most = peak(v, r, with_w);
        limit = most > limit ? most : limit;
    }
    keep_slots(v);
    for (int32_t t = 0; t < v->room; t++) {
        for (int32_t r = 0; r < v->p; r++) {
            struct item a = v->before[(int64_t)r * v->room + t];
            if (a.leg < 0)
                continue;
            if (a.leg == LW_I_UP && r == 0 && part == 0)
                part = 1;
            bool steady = part == 1 || (part == 0 && !with_w);
            if (part == 1 && a.leg == LW_F_DOWN && a.mb == v->m - 1)
                part = 2;
            if (!steady)
                move_forward(v, a, r, with_w, limit);
        }
    }
}

/* Every action to the first slot after the one before it on its rank and after what it needs. */
static void squeeze(struct v *v)
{
    keep_slots(v);
    clear(v);
    memset(v->ready, 0, (size_t)v->p * sizeof *v->ready);
    for (int32_t t = 0; t < v->room; t++) {
        for (int32_t r = 0; r < v->p; r++) {
            struct item a = v->before[(int64_t)r * v->room + t];
            if (a.leg < 0)
                continue;
            int32_t start = a.leg < ANY_W ? earliest(v, a.leg, r, a.mb) : 0;
            start = start > v->ready[r] ? start : v->ready[r];
            set(v, r, start, a.leg, a.mb);
            v->ready[r] = start + 1;
        }
    }
}

static void search(struct v *v, enum lw_schedule schedule)
{
    lay_out(v, schedule);
    for (int32_t r = 0; r < v->p; r++)
        add_w(v, r, false);
    reorder(v, true);
    squeeze(v);
    remove_w(v);
    reorder(v, false);
    for (int32_t r = 0; r < v->p; r++)
        add_w(v, r, false);
    squeeze(v);
    remove_w(v);
    for (int32_t r = 0; r < v->p; r++)
        add_w(v, r, true);
}

static void take_orders(const struct v *v, struct lw_action *actions)
{
    for (int32_t r = 0; r < v->p; r++)
        for (int32_t t = 0; t < v->room; t++)
            if (slot_of(v, r, t)->leg >= 0)
                *actions++ = lw_leg_action(v->p, r, (enum lw_leg)slot_of(v, r, t)->leg,
                                           slot_of(v, r, t)->mb);
}

static enum lw_status search_v_greedy(const struct lw_schedule_shape *s, struct lw_action *actions,
                                      struct lw_arena *room, struct lw_err *err)
{
    struct v v = {.p = s->n_ranks, .m = s->n_micro_batches};

    v.room = PERIOD * v.p + 2 * PERIOD * v.m + PERIOD; /* the pattern's end, and all W after it */
    LW_TAKE(room, v.slot, (int64_t)v.p * v.room, err);
    LW_TAKE(room, v.before, (int64_t)v.p * v.room, err);
    LW_TAKE(room, v.at, (int64_t)LW_N_LEGS * v.p * 2 * v.m, err);
    LW_TAKE(room, v.ready, v.p, err);
    search(&v, s->schedule);
    take_orders(&v, actions);
    return LW_OK;
}

const struct lw_scheduler lw_scheduler_v_half = {
    .all = search_v_greedy, .layout = LW_LAYOUT_V, .chunks = 2};
const struct lw_scheduler lw_scheduler_v_min = {
    .all = search_v_greedy, .layout = LW_LAYOUT_V, .chunks = 2};
