/* ZB-1p and ZB-2p (Qi et al., ICLR 2024, section 3: the heuristic): orders of F, I and W on one
 * stage per rank that keep the activations of a rank under 1 or 2 times p forwards.
 *
 * Micro-batches go in waves. The first wave fills the pipeline with as many forwards as fit before
 * each rank's first I. Every later wave gives each rank one forward (or not) and one I; a rank that
 * would wait fills the gap with W, and does W when memory demands it. Three choices are left open:
 * whether a forward may delay the first I, whether a forward is dropped for an I that is nearly
 * there, and whether W fills gaps that would not make this rank the one with the longest bubble.
 * All eight combinations are tried; the first with the shortest longest rank is the order.
 *
 * The rule was read in sail-sg/zero-bubble-pipeline-parallelism @ 39f2c186,
 * megatron/core/pipeline_parallel/zerobubble/scheduler/zb.py; recorded orders of that code are
 * reproduced. Not here: costs that differ between stages. */
#include <string.h>

#include "shared/schedule/schedule_emit.h"

enum { F, I, W };

struct stage {
    int32_t done[3]; /* F, I, W */
    int64_t end, mem, bubble;
};

struct search {
    int32_t p, m;
    struct lw_schedule_costs cost;
    int64_t limit; /* of memory, on every rank */
    bool late_first_i, prefer_i, eager_w;
    bool no_room;
    struct stage *stage;     /* [p] */
    int32_t *wanted;         /* [p] forwards of this wave */
    int64_t *end;            /* [3 p m] */
    struct lw_action *order; /* [p 3 m] */
};

static int64_t duration(const struct search *z, int kind)
{
    return kind == F ? z->cost.f : kind == I ? z->cost.i : z->cost.w;
}

static int64_t growth(const struct search *z, int kind)
{
    return kind == F ? z->cost.mem_f : kind == I ? z->cost.mem_i : z->cost.mem_w;
}

static int64_t *end_of(const struct search *z, int kind, int32_t rank, int32_t mb)
{
    return &z->end[((int64_t)kind * z->p + rank) * z->m + mb];
}

/* When what the next action of that kind needs from another rank is there; 0 if it needs nothing.
 */
static int64_t arrival(const struct search *z, int kind, int32_t rank)
{
    int32_t source = kind == F ? rank - 1 : rank + 1;

    if (kind == W || source < 0 || source == z->p)
        return 0;
    return *end_of(z, kind, source, z->stage[rank].done[kind]) + z->cost.comm;
}

static void put(struct search *z, int kind, int32_t rank)
{
    static const enum lw_op_kind op[] = {LW_OP_FORWARD, LW_OP_BACKWARD_INPUT,
                                         LW_OP_BACKWARD_WEIGHT};
    struct stage *s = &z->stage[rank];
    int32_t mb = s->done[kind], at = s->done[F] + s->done[I] + s->done[W];
    int64_t wait = arrival(z, kind, rank) - s->end;

    wait = wait > 0 ? wait : 0;
    if (s->done[F] > 0)
        s->bubble += wait;
    s->end += wait + duration(z, kind);
    s->mem += growth(z, kind);
    s->done[kind]++;
    *end_of(z, kind, rank, mb) = s->end;
    z->order[(int64_t)rank * 3 * z->m + at] = (struct lw_action){op[kind], rank, mb, false};
}

static bool has_w(const struct search *z, int32_t rank)
{
    return z->stage[rank].done[W] < z->stage[rank].done[I];
}

static int64_t longest_bubble(const struct search *z)
{
    int64_t most = 0;

    for (int32_t r = 0; r < z->p; r++)
        most = z->stage[r].bubble > most ? z->stage[r].bubble : most;
    return most;
}

/* How many forwards fit on each rank before its first I can start. The last rank has one. */
static void count_warmup(struct search *z)
{
    int64_t first_i = *end_of(z, F, z->p - 1, 0) + z->cost.i; /* its end on the rank after */

    for (int32_t r = z->p - 2; r >= 0; r--) {
        int64_t mem = z->stage[r].mem, t = z->stage[r].end, ready = first_i + z->cost.comm;
        while (1 + z->wanted[r] < z->m && mem + z->cost.mem_f <= z->limit) {
            if (z->late_first_i ? t + z->cost.f > ready : t >= ready)
                break;
            mem += z->cost.mem_f;
            t += z->cost.f;
            z->wanted[r]++;
        }
        first_i = (t > ready ? t : ready) + z->cost.i;
    }
    /* a rank does fewer than the one before it, as long as there are more micro-batches */
    for (int32_t r = 1; r < z->p; r++)
        while (z->wanted[r] > 0 && z->wanted[r] >= z->wanted[r - 1] && 1 + z->wanted[r] < z->m)
            z->wanted[r]--;
}

static void first_wave(struct search *z)
{
    for (int32_t r = 0; r < z->p; r++)
        put(z, F, r);
    memset(z->wanted, 0, (size_t)z->p * sizeof *z->wanted);
    count_warmup(z);
    for (int32_t r = 0; r < z->p; r++)
        for (int32_t k = 0; k < z->wanted[r]; k++)
            put(z, F, r);
    for (int32_t r = z->p - 1; r >= 0; r--)
        put(z, I, r);
}

/* W that must be done before one more forward fits, in time. */
static int64_t time_to_make_room(const struct search *z, int32_t rank)
{
    const struct stage *s = &z->stage[rank];
    int64_t mem = s->mem + z->cost.mem_f, time = 0;

    for (int32_t w = s->done[W]; mem > z->limit && w < s->done[I]; w++) {
        mem += z->cost.mem_w;
        time += z->cost.w;
    }
    return time;
}

/* Does the rank do a forward in this wave, or leave the place to an I that is nearly there? */
static bool wants_forward(const struct search *z, int32_t rank)
{
    const struct stage *s = &z->stage[rank], *next = s + 1;

    if (s->done[F] >= z->m)
        return false;
    if (!z->prefer_i || rank + 1 == z->p || s->done[F] < next->done[F] + 2)
        return true;
    int64_t next_i = next->end + z->cost.f + z->cost.i + z->cost.comm;
    if (s->end >= next_i)
        return false;
    if (s->end + z->cost.f + time_to_make_room(z, rank) <= next_i)
        return true;
    return next_i - s->end > longest_bubble(z) - s->bubble;
}

/* W until the action fits into memory, then W in the time until `ready`; and one more that ends
 * after it, unless this rank can afford to wait. */
static void put_after_w(struct search *z, int kind, int32_t rank)
{
    struct stage *s = &z->stage[rank];
    int64_t ready = arrival(z, kind, rank);

    while (s->mem + growth(z, kind) > z->limit && !z->no_room) {
        z->no_room = !has_w(z, rank);
        if (!z->no_room)
            put(z, W, rank);
    }
    while (has_w(z, rank) && s->end + z->cost.w <= ready)
        put(z, W, rank);
    if (has_w(z, rank) && s->end < ready &&
        (z->eager_w || ready - s->end > longest_bubble(z) - s->bubble))
        put(z, W, rank);
    if (kind == I && rank == 0 && s->done[F] == z->m)
        while (has_w(z, rank))
            put(z, W, rank);
    put(z, kind, rank);
}

static void next_wave(struct search *z)
{
    for (int32_t r = 0; r < z->p; r++)
        z->wanted[r] = wants_forward(z, r);
    for (int32_t r = z->p - 2; r >= 0; r--)
        z->wanted[r] &= z->wanted[r + 1];
    for (int32_t r = 0; r < z->p && !z->no_room; r++)
        if (z->wanted[r])
            put_after_w(z, F, r);
    for (int32_t r = z->p - 1; r >= 0 && !z->no_room; r--)
        put_after_w(z, I, r);
}

/* The longest time of a rank from its first action to its last. */
static int64_t attempt(struct search *z)
{
    int64_t longest = 0;

    memset(z->stage, 0, (size_t)z->p * sizeof *z->stage);
    first_wave(z);
    for (int32_t k = 1; k < z->m && !z->no_room; k++)
        next_wave(z);
    for (int32_t r = 0; r < z->p && !z->no_room; r++) {
        while (has_w(z, r))
            put(z, W, r);
        int64_t time = z->stage[r].end - *end_of(z, F, r, 0) + z->cost.f;
        longest = time > longest ? time : longest;
    }
    return longest;
}

static void try_all(struct search *z, struct lw_action *best)
{
    int64_t shortest = INT64_MAX;
    size_t size = (size_t)z->p * 3 * (size_t)z->m * sizeof *best;

    for (int choice = 0; choice < 8 && !z->no_room; choice++) {
        z->late_first_i = !(choice & 4);
        z->prefer_i = !(choice & 2);
        z->eager_w = !(choice & 1);
        int64_t time = attempt(z);
        if (!z->no_room && time < shortest) {
            shortest = time;
            memcpy(best, z->order, size);
        }
    }
}

/* h = 4096, a = 32 heads, s = 1024: a layer keeps 34 h + 5 a s bytes per token, 32 h of them until
 * W. */
static const struct lw_schedule_costs usual = {1, 1, 1, 0, 303104, -172032, -131072};

static enum lw_status search_zb_auto(const struct lw_schedule_shape *s, struct lw_action *actions,
                                     struct lw_arena *room, struct lw_err *err)
{
    struct search z = {
        .p = s->n_ranks, .m = s->n_micro_batches, .cost = s->costs ? *s->costs : usual};
    int64_t n = INT64_C(3) * z.p * z.m, times = s->schedule == LW_SCHEDULE_ZB_AUTO_1P ? 1 : 2;

    z.limit = times * z.p * z.cost.mem_f;
    LW_TAKE(room, z.stage, z.p, err);
    LW_TAKE(room, z.wanted, z.p, err);
    LW_TAKE(room, z.end, n, err);
    LW_TAKE(room, z.order, n, err);
    try_all(&z, actions);
    if (z.no_room)
        return lw_fail(err, LW_EINVAL,
                       "--schedule %s: the search finds no order that keeps %d forwards "
                       "per rank in memory",
                       lw_schedule_name(s->schedule), (int)times * z.p);
    return LW_OK;
}

const struct lw_scheduler lw_scheduler_zb_auto_1p = {.all = search_zb_auto, .chunks = 1};
const struct lw_scheduler lw_scheduler_zb_auto_2p = {.all = search_zb_auto, .chunks = 1};
