/* The searching form of ZB-V (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): two
 * stages per rank in a V, activations of a rank under 2p forwards of one stage.
 *
 * After a warm-up that fills the V, 2m waves follow; in each every rank does one I (of the stage
 * whose gradient is there, the far one first) and one F (the far stage when it can). Before each, W
 * fills the time that the rank would wait; one W more, which makes the action late, is done when
 * the wait would make this rank's bubble the longest. A pass knows only the bubbles so far; so it
 * is repeated with the bubbles of the pass before as a forecast, as long as the longest becomes
 * shorter. All of it is tried with and without the late W before F and before the I of the near
 * stage; the first order with the shortest bubble is taken.
 *
 * The rule was read in sail-sg/zero-bubble-pipeline-parallelism @ 39f2c186,
 * megatron/core/pipeline_parallel/zerobubble/scheduler/zbv.py; recorded orders of that code are
 * reproduced. */
#include <string.h>

#include "shared/schedule/schedule_emit.h"
#include "shared/schedule/schedule_v.h"

struct lane { /* one rank */
    int32_t done[LW_N_LEGS];
    int32_t n; /* actions so far */
    int64_t now, mem, bubble, forecast;
};

struct search {
    int32_t p, m;
    struct lw_schedule_costs cost;
    int64_t limit;
    bool late_f, late_i; /* a W may delay F, or I of the near stage */
    bool stuck;          /* an action was due that could not be done */
    int64_t worst_forecast;
    struct lane *lane;       /* [p] */
    int64_t *end;            /* [6 p m], -1 = not done */
    struct lw_action *order; /* [p 6 m] */
    int64_t *forecast;       /* [p] */
};

static int64_t *end_of(const struct search *z, enum lw_leg leg, int32_t rank, int32_t mb)
{
    return &z->end[((int64_t)leg * z->p + rank) * z->m + mb];
}

static int64_t duration(const struct search *z, enum lw_leg leg)
{
    return leg < LW_I_DOWN ? z->cost.f : leg < LW_W_DOWN ? z->cost.i : z->cost.w;
}

static int64_t growth(const struct search *z, enum lw_leg leg)
{
    return leg < LW_I_DOWN ? z->cost.mem_f : leg < LW_W_DOWN ? z->cost.mem_i : z->cost.mem_w;
}

/* What the next action of a leg needs from another rank. */
struct need {
    bool any, there;
    int64_t at; /* with the transfer */
};

static struct need need_of(const struct search *z, enum lw_leg leg, int32_t rank)
{
    int32_t source = lw_leg_source(z->p, rank, leg), mb = z->lane[rank].done[leg];

    if (source < 0)
        return (struct need){false, true, 0};
    int64_t end = mb < z->m ? *end_of(z, leg, source, mb) : -1;
    return (struct need){true, end >= 0, end + z->cost.comm};
}

/* May the next action of a leg run at all: is it there, and what it needs? */
static bool possible(const struct search *z, enum lw_leg leg, int32_t rank)
{
    int32_t mb = z->lane[rank].done[leg];

    if (mb >= z->m || z->lane[rank].mem + growth(z, leg) > z->limit)
        return false;
    if (leg > LW_F_DOWN && leg < LW_W_DOWN && *end_of(z, (enum lw_leg)(leg - 1), rank, mb) < 0)
        return false;
    return need_of(z, leg, rank).there;
}

static void put(struct search *z, enum lw_leg leg, int32_t rank)
{
    struct lane *l = &z->lane[rank];

    if (z->stuck || !possible(z, leg, rank)) {
        z->stuck = true;
        return;
    }
    struct need need = need_of(z, leg, rank);
    int64_t wait = need.any && need.at > l->now ? need.at - l->now : 0;
    if (l->done[LW_F_DOWN] > 0)
        l->bubble += wait;
    l->now += wait + duration(z, leg);
    l->mem += growth(z, leg);
    *end_of(z, leg, rank, l->done[leg]) = l->now;
    z->order[(int64_t)rank * 6 * z->m + l->n++] = lw_leg_action(z->p, rank, leg, l->done[leg]);
    l->done[leg]++;
}

static bool has_w(const struct search *z, int32_t rank)
{
    const struct lane *l = &z->lane[rank];

    return l->done[LW_W_DOWN] + l->done[LW_W_UP] < l->done[LW_I_DOWN] + l->done[LW_I_UP];
}

/* The W of the oldest I. */
static void put_w(struct search *z, int32_t rank)
{
    struct lane *l = &z->lane[rank];
    int64_t down = -1, up = -1;

    if (l->done[LW_W_DOWN] < l->done[LW_I_DOWN])
        down = *end_of(z, LW_I_DOWN, rank, l->done[LW_W_DOWN]);
    if (l->done[LW_W_UP] < l->done[LW_I_UP])
        up = *end_of(z, LW_I_UP, rank, l->done[LW_W_UP]);
    put(z, down >= 0 && (up < 0 || down < up) ? LW_W_DOWN : LW_W_UP, rank);
}

static int64_t longest_bubble(const struct search *z)
{
    int64_t most = 0;

    for (int32_t r = 0; r < z->p; r++)
        most = z->lane[r].bubble > most ? z->lane[r].bubble : most;
    return most;
}

/* How much the rank may still wait without having the longest bubble. */
static int64_t spare(const struct search *z, int32_t rank)
{
    int64_t most = longest_bubble(z), forecast = z->worst_forecast - z->forecast[rank];

    return (forecast > most ? forecast : most) - z->lane[rank].bubble;
}

static void put_after_w(struct search *z, enum lw_leg leg, int32_t rank, bool late)
{
    struct need need = need_of(z, leg, rank);
    const struct lane *l = &z->lane[rank];

    while (!z->stuck && l->mem + growth(z, leg) > z->limit && has_w(z, rank))
        put_w(z, rank);
    while (!z->stuck && has_w(z, rank) && need.any && need.at >= l->now + z->cost.w)
        put_w(z, rank);
    if (late && !z->stuck && has_w(z, rank) && need.any && need.at - l->now > spare(z, rank))
        put_w(z, rank);
    put(z, leg, rank);
}

/* --- warm-up ---------------------------------------------------------------------------------- */

/* The first micro-batch goes down and up; on its way up, rank r and all before it do further
 * forwards while r waits for it and memory lasts. */
static void first_round(struct search *z)
{
    int32_t p = z->p;

    for (int32_t r = 0; r < p; r++)
        put(z, LW_F_DOWN, r);
    put(z, LW_F_UP, p - 1);
    for (int32_t r = p - 2; r >= 0 && !z->stuck; r--) {
        const struct lane *l = &z->lane[r];
        int64_t ready = *end_of(z, LW_F_UP, r + 1, 0) + z->cost.comm;
        while (!z->stuck && l->mem + z->cost.mem_f * (2 + 2 * r) <= z->limit &&
               l->now + z->cost.f <= ready && l->done[LW_F_DOWN] < z->m)
            for (int32_t j = 0; j <= r; j++)
                put(z, LW_F_DOWN, j);
        put(z, LW_F_UP, r);
    }
}

/* Then forwards on both stages in turn, until no rank has done fewer than the one before it. */
static void even_out(struct search *z)
{
    enum lw_leg leg = LW_F_DOWN;

    for (int32_t r = 1; r < z->p; r++) {
        const int32_t *own = z->lane[r].done, *before = z->lane[r - 1].done;
        while (!z->stuck && (own[LW_F_DOWN] + own[LW_F_UP] < before[LW_F_DOWN] + before[LW_F_UP] ||
                             (own[LW_F_UP] <= before[LW_F_UP] && before[LW_F_UP] < z->m))) {
            for (int32_t j = z->p - 1; j >= r; j--)
                if (z->lane[j].done[leg] < z->m)
                    put(z, leg, j);
            leg = leg == LW_F_DOWN ? LW_F_UP : LW_F_DOWN;
        }
    }
}

/* --- waves ------------------------------------------------------------------------------------ */

/* The far stage's gradient goes first wherever it is there. */
static bool takes_far_i(const struct search *z, int32_t rank)
{
    const int32_t *done = z->lane[rank].done;

    return done[LW_I_UP] < done[LW_I_DOWN] &&
           (need_of(z, LW_I_UP, rank).there || done[LW_I_DOWN] >= z->m);
}

static void wave_of_i(struct search *z, bool *second)
{
    for (int32_t r = 0; r < z->p; r++) {
        while (!z->stuck && z->lane[r].mem + z->cost.mem_i > z->limit)
            has_w(z, r) ? put_w(z, r) : (void)(z->stuck = true);
        second[r] = takes_far_i(z, r);
    }
    for (int32_t r = z->p - 1; r >= 0; r--)
        if (second[r])
            put_after_w(z, LW_I_UP, r, true);
    for (int32_t r = 0; r < z->p; r++)
        if (!second[r])
            put_after_w(z, LW_I_DOWN, r, z->late_i);
}

static void wave_of_f(struct search *z)
{
    for (int32_t r = 0; r < z->p && !z->stuck; r++) {
        const int32_t *done = z->lane[r].done;
        if (done[LW_F_UP] >= z->m)
            continue;
        if (done[LW_F_UP] >= done[LW_F_DOWN])
            put_after_w(z, LW_F_DOWN, r, z->late_f);
        else if (need_of(z, LW_F_UP, r).there)
            put_after_w(z, LW_F_UP, r, z->late_f);
        else if (done[LW_F_DOWN] < z->m && need_of(z, LW_F_DOWN, r).there)
            put_after_w(z, LW_F_DOWN, r, z->late_f);
    }
}

/* One pass; its longest bubble. */
static int64_t pass(struct search *z, bool *second)
{
    memset(z->lane, 0, (size_t)z->p * sizeof *z->lane);
    memset(z->end, -1, (size_t)LW_N_LEGS * (size_t)z->p * (size_t)z->m * sizeof *z->end);
    first_round(z);
    even_out(z);
    for (int32_t k = 0; k < 2 * z->m && !z->stuck; k++) {
        wave_of_i(z, second);
        wave_of_f(z);
    }
    for (int32_t r = 0; r < z->p; r++)
        while (!z->stuck && has_w(z, r))
            put_w(z, r);
    return longest_bubble(z);
}

/* Passes with the bubbles of the one before as forecast, while they help; the best goes to `best`
 * if it is better than what is there. */
static void refine(struct search *z, bool *second, int64_t *shortest, struct lw_action *best)
{
    size_t size = (size_t)z->p * 6 * (size_t)z->m * sizeof *best;
    int64_t last = INT64_MAX;

    z->worst_forecast = -1;
    for (int32_t r = 0; r < z->p; r++)
        z->forecast[r] = -1;
    for (;;) {
        int64_t bubble = pass(z, second);
        if (z->stuck || bubble >= last)
            return;
        if (bubble < *shortest) {
            *shortest = bubble;
            memcpy(best, z->order, size);
        }
        last = z->worst_forecast = bubble;
        for (int32_t r = 0; r < z->p; r++)
            z->forecast[r] = z->lane[r].bubble;
    }
}

static const struct lw_schedule_costs usual = {1000, 1000, 1000, 1, 303104, -172032, -131072};

static enum lw_status search_zbv_auto(const struct lw_schedule_shape *s, struct lw_action *actions,
                                      struct lw_arena *room, struct lw_err *err)
{
    struct search z = {
        .p = s->n_ranks, .m = s->n_micro_batches, .cost = s->costs ? *s->costs : usual};
    int64_t n = (int64_t)LW_N_LEGS * z.p * z.m, shortest = INT64_MAX;
    bool *second;

    z.limit = 2 * z.p * z.cost.mem_f;
    LW_TAKE(room, second, z.p, err);
    LW_TAKE(room, z.lane, z.p, err);
    LW_TAKE(room, z.forecast, z.p, err);
    LW_TAKE(room, z.end, n, err);
    LW_TAKE(room, z.order, n, err);
    for (int choice = 0; choice < 4 && !z.stuck; choice++) {
        z.late_i = !(choice & 2);
        z.late_f = !(choice & 1);
        refine(&z, second, &shortest, actions);
    }
    if (z.stuck)
        return lw_fail(err, LW_EINVAL,
                       "--schedule zbv-auto: the search finds no order that keeps %d "
                       "forwards per rank in memory",
                       2 * z.p);
    return LW_OK;
}

const struct lw_scheduler lw_scheduler_zbv_auto = {
    .all = search_zbv_auto, .layout = LW_LAYOUT_V, .chunks = 2};
