/* Times of a grid, exactly: every rank runs its actions in order, each starting when the rank is
 * free and its inputs have arrived. The value of an action is the longest path to it, so the order
 * in which ranks are visited does not matter.
 *
 * Not here: sharing of links, streams, kernels, anything that is not in the grid. The simulator's
 * engine has all of it and is given whole plans; this is for grids alone. */
#include "shared/schedule/grid_time.h"

#include <string.h>

enum { F, I, N_VALUES };

struct clock {
    const struct lw_grid *g;
    const struct lw_grid_costs *cost;
    struct lw_grid_times *t;
    int64_t *end; /* [2 n_stages n_micro_batches] of F and of I or B; -1 = not yet */
    int64_t *now; /* [n_ranks] */
    int32_t *at;  /* [n_ranks] next action */
    int32_t n_run;
};

LW_FREE_BY_ARENA(lw_grid_times_free, struct lw_grid_times)

static int64_t *value(const struct clock *c, int which, int32_t stage, int32_t mb)
{
    return &c->end[((int64_t)which * c->g->n_stages + stage) * c->g->n_micro_batches + mb];
}

/* When a value of another stage is on the rank; -1 = not yet. */
static int64_t arrival(const struct clock *c, int which, int32_t stage, int32_t mb, int32_t rank)
{
    int64_t end = *value(c, which, stage, mb);

    if (end < 0)
        return -1;
    return lw_grid_rank_of(c->g, stage, mb) == rank ? end : end + c->cost->comm;
}

/* When the action could start for its inputs; -1 = not yet. */
static int64_t inputs(const struct clock *c, const struct lw_action *a, int32_t rank)
{
    int32_t mb = a->micro_batch;

    if (a->kind == LW_OP_FORWARD)
        return a->stage == 0 ? 0 : arrival(c, F, a->stage - 1, mb, rank);
    if (a->kind == LW_OP_BACKWARD_WEIGHT)
        return *value(c, I, a->stage, mb);
    int64_t own = *value(c, F, a->stage, mb);
    if (a->stage == c->g->n_stages - 1 || own < 0)
        return own;
    int64_t gradient = arrival(c, I, a->stage + 1, mb, rank);
    return gradient < 0 ? -1 : gradient > own ? gradient : own;
}

static int64_t duration(const struct clock *c, const struct lw_action *a)
{
    const struct lw_grid_costs *k = c->cost;

    return a->kind == LW_OP_FORWARD          ? k->f
           : a->kind == LW_OP_BACKWARD       ? k->i + k->w
           : a->kind == LW_OP_BACKWARD_INPUT ? k->i
                                             : k->w;
}

/* Run the rank's next action or unit if its inputs are known. */
static bool advance(struct clock *c, int32_t rank)
{
    const struct lw_grid *g = c->g;
    int32_t i = c->at[rank], n = 1;

    if (i == g->first[rank + 1])
        return false;
    while (g->actions[i + n - 1].with_next && i + n < g->first[rank + 1])
        n++;
    int64_t start = c->now[rank], end;
    for (int32_t k = i; k < i + n; k++) {
        int64_t in = inputs(c, &g->actions[k], rank);
        if (in < 0)
            return false;
        start = in > start ? in : start;
    }
    end = start;
    for (int32_t k = i; k < i + n; k++)
        end += duration(c, &g->actions[k]);
    if (n > 1 && c->cost->pair > 0)
        end = start + c->cost->pair;
    for (int32_t k = i; k < i + n; k++) {
        const struct lw_action *a = &g->actions[k];
        bool leaves = c->cost->early && k + 1 < i + n;
        c->t->start[k] = start;
        c->t->end[k] = leaves ? start + duration(c, a) : end;
        c->t->turn[k] = c->n_run++;
        if (a->kind != LW_OP_BACKWARD_WEIGHT)
            *value(c, a->kind == LW_OP_FORWARD ? F : I, a->stage, a->micro_batch) = c->t->end[k];
    }
    c->now[rank] = end;
    c->at[rank] = i + n;
    return true;
}

/* The actions of a rank count in order; a unit counts as its forward, then its backward. */
static void count_in_flight(const struct clock *c, int32_t rank)
{
    const struct lw_grid *g = c->g;
    int32_t to_input = 0, to_weight = 0;

    for (int32_t k = g->first[rank]; k < g->first[rank + 1]; k++) {
        enum lw_op_kind kind = g->actions[k].kind;
        to_input += kind == LW_OP_FORWARD ? 1 : kind != LW_OP_BACKWARD_WEIGHT ? -1 : 0;
        to_weight += kind == LW_OP_FORWARD ? 1 : kind != LW_OP_BACKWARD_INPUT ? -1 : 0;
        if (to_input > c->t->peak_until_input[rank])
            c->t->peak_until_input[rank] = to_input;
        if (to_weight > c->t->peak_until_weight[rank])
            c->t->peak_until_weight[rank] = to_weight;
    }
}

static enum lw_status run(struct clock *c, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_grid *g = c->g;
    int64_t n_values = (int64_t)N_VALUES * g->n_stages * g->n_micro_batches;
    int32_t n = g->first[g->n_ranks];

    LW_TAKE(&c->t->arena, c->t->start, n, err);
    LW_TAKE(&c->t->arena, c->t->end, n, err);
    LW_TAKE(&c->t->arena, c->t->turn, n, err);
    LW_TAKE(&c->t->arena, c->t->peak_until_input, g->n_ranks, err);
    LW_TAKE(&c->t->arena, c->t->peak_until_weight, g->n_ranks, err);
    LW_TAKE(room, c->end, n_values, err);
    LW_TAKE(room, c->now, g->n_ranks, err);
    LW_TAKE(room, c->at, g->n_ranks, err);
    memset(c->end, -1, (size_t)n_values * sizeof *c->end);
    memcpy(c->at, g->first, (size_t)g->n_ranks * sizeof *c->at);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < g->n_ranks; r++)
            while (advance(c, r))
                moved = true;
    }
    for (int32_t r = 0; r < g->n_ranks; r++) {
        int32_t begin = g->first[r], end = g->first[r + 1];
        if (c->at[r] < end)
            return lw_fail(err, LW_EPLAN, "rank %d: action %d%c%d can never run", r,
                           g->actions[c->at[r]].stage, lw_action_letter(g->actions[c->at[r]].kind),
                           g->actions[c->at[r]].micro_batch);
        if (begin == end)
            continue;
        int64_t time = c->t->end[end - 1] - c->t->start[begin];
        if (c->now[r] > c->t->makespan)
            c->t->makespan = c->now[r];
        if (time > c->t->longest_rank)
            c->t->longest_rank = time;
        count_in_flight(c, r);
    }
    return LW_OK;
}

enum lw_status lw_grid_costs_check(const struct lw_grid_costs *c, struct lw_err *err)
{
    if (c->f >= 0 && c->i >= 0 && c->w >= 0 && c->comm >= 0 && c->pair >= 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "durations of a grid must not be negative, got F %lld, I %lld, W %lld, transfer "
                   "%lld", (long long)c->f, (long long)c->i, (long long)c->w, (long long)c->comm);
}

enum lw_status lw_grid_time(const struct lw_grid *g, const struct lw_grid_costs *costs,
                            struct lw_grid_times *out, struct lw_err *err)
{
    struct lw_grid_times t = {0};
    struct clock c = {.g = g, .cost = costs, .t = &t};
    struct lw_arena room = {0};

    LW_TRY(lw_grid_costs_check(costs, err));
    enum lw_status status = run(&c, &room, err);
    lw_arena_free(&room);
    LW_GIVE(status, out, t, lw_grid_times_free(&t));
}
