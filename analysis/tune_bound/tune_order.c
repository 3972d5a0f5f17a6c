/* Counts of a schedule's grid: what each rank does before its first backward and after the first
 * one that is the last of its part, which of its backwards are split, how often the weights of a
 * part are gathered. Of two directions parts are on two ranks each, and only halves are counted. */
#include "analysis/tune_bound/tune_order.h"

/* Where the first backward begins that is the last one of its part. */
static int32_t first_last(const struct lw_grid *g, int32_t rank, int32_t *left)
{
    for (int32_t q = 0; q < g->n_stages; q++)
        left[q] = 0;
    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++)
        left[g->actions[i].stage] += g->actions[i].kind == LW_OP_BACKWARD ||
                                     g->actions[i].kind == LW_OP_BACKWARD_WEIGHT;
    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++) {
        bool ends = g->actions[i].kind == LW_OP_BACKWARD ||
                    g->actions[i].kind == LW_OP_BACKWARD_WEIGHT;
        if (ends && --left[g->actions[i].stage] == 0)
            return i;
    }
    return g->first[rank + 1];
}

static int32_t place_of_part(const struct lw_tune_order *o, int32_t rank, int32_t part)
{
    int32_t at = o->first[rank];

    while (at < o->first[rank + 1] && o->held[at] != part)
        at++;
    return at;
}

static enum lw_status count_halves(struct lw_tune_order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;

    LW_TAKE(a, o->halves, o->first[g->n_ranks] + 1, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++)
            o->halves[place_of_part(o, r, g->actions[i].stage)] +=
                g->actions[i].kind == LW_OP_BACKWARD_INPUT;
    return LW_OK;
}

static enum lw_status count_after(struct lw_tune_order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;
    int32_t *left;

    LW_TAKE(a, o->after, o->first[g->n_ranks] + 1, err);
    LW_TAKE(a, left, g->n_stages, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t i = first_last(g, r, left); i < g->first[r + 1]; i++) {
            int32_t at = place_of_part(o, r, g->actions[i].stage);
            o->after[at].forward += g->actions[i].kind == LW_OP_FORWARD;
            o->after[at].backward += g->actions[i].kind == LW_OP_BACKWARD;
            o->after[at].input += g->actions[i].kind == LW_OP_BACKWARD_INPUT;
            o->after[at].weight += g->actions[i].kind == LW_OP_BACKWARD_WEIGHT;
        }
    return LW_OK;
}

static enum lw_status count_before(struct lw_tune_order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;

    LW_TAKE(a, o->before, o->first[g->n_ranks] + 1, err);
    LW_TAKE(a, o->first_back, g->n_ranks, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++) {
            o->first_back[r] = g->actions[i].stage;
            if (g->actions[i].kind != LW_OP_FORWARD)
                break;
            o->before[place_of_part(o, r, g->actions[i].stage)]++;
        }
    return LW_OK;
}

static enum lw_status count_gathers(struct lw_tune_order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;

    LW_TAKE(a, o->gathers, o->first[g->n_ranks] + 1, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t at = o->first[r]; at < o->first[r + 1]; at++) {
            bool there = false;
            for (int32_t i = g->first[r]; i < g->first[r + 1]; i++) {
                const struct lw_action *x = &g->actions[i];
                if (x->stage != o->held[at] || x->kind == LW_OP_BACKWARD_WEIGHT)
                    continue;
                o->gathers[at] += !there;
                there = x->kind == LW_OP_FORWARD;
            }
        }
    return LW_OK;
}

static enum lw_status list_parts(struct lw_tune_order *o, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_grid *g = &o->grid;
    bool both = g->layout == LW_LAYOUT_BIDIR;
    int32_t n = 0;

    LW_TAKE(a, o->first, g->n_ranks + 1, err);
    LW_TAKE(a, o->held, (both ? 2 : 1) * (int64_t)g->n_stages, err);
    for (int32_t r = 0; r < g->n_ranks; r++) {
        o->first[r] = n;
        for (int32_t q = 0; q < g->n_stages; q++)
            if (lw_grid_rank_of(g, q, 0) == r ||
                (both && lw_grid_rank_of(g, q, g->n_micro_batches - 1) == r))
                o->held[n++] = q;
    }
    o->first[g->n_ranks] = n;
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++) {
        o->by_halves |= g->actions[i].kind == LW_OP_BACKWARD_INPUT;
        o->pairs |= g->actions[i].with_next;
    }
    LW_TRY(count_halves(o, a, err));
    LW_TRY(both ? LW_OK : count_before(o, a, err));
    LW_TRY(both ? LW_OK : count_gathers(o, a, err));
    return both ? LW_OK : count_after(o, a, err);
}

enum lw_status lw_tune_order_make(const struct lw_schedule_shape *shape, struct lw_arena *a,
                                  struct lw_tune_order *o, struct lw_err *err)
{
    enum lw_status st;

    if (lw_schedule_grid(shape, &o->grid, &o->why) != LW_OK)
        return LW_OK;
    st = list_parts(o, a, err);
    if (st == LW_OK)
        st = lw_tune_chain_make(&o->grid, a, &o->chain, err);
    if (st != LW_OK)
        lw_grid_free(&o->grid);
    return st;
}
