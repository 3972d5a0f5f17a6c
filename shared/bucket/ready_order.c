/* Cutting the backward. The ready order is the recorded one; without it, ready times in ascending
 * order where all are known, else reverse registration order (autograd runs the forward's order
 * backwards). Invariants: effective ready times ascend along the order; a gradient without a time
 * is attached to a stretch of its own module (or a later one, when the order demands it), also
 * where windows have no length; the stretches' lengths sum to the backward. */
#include "shared/bucket/ready_order.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

struct cut {
    const struct lw_workload *w;
    struct lw_backward *b;
    lw_ps *window_end;  /* [n_modules] */
    lw_ps *at;          /* [n_ready] effective time of ready[i] */
    int32_t next;       /* first gradient not attached yet */
    struct lw_arena room;
};

struct timed {
    lw_ps at;
    int32_t param;
};

LW_FREE_BY_ARENA(lw_backward_free, struct lw_backward)

/* later registered first */
LW_COMPARATOR(compare_timed, struct timed, a->at, b->at, b->param, a->param)

/* No recorded order: by time where all times are known. */
static enum lw_status assume_order(struct cut *c, struct lw_err *err)
{
    struct lw_backward *b = c->b;
    const struct lw_workload *w = c->w;

    for (int32_t i = w->n_params - 1; i >= 0; i--)
        if (lw_param_has_gradient(LW_PARAM(w, i)))
            b->ready[b->n_ready++] = i;
    if (b->n_untimed > 0)
        return LW_OK;
    struct timed *t;
    LW_TAKE(&c->room, t, b->n_ready, err);
    for (int32_t i = 0; i < b->n_ready; i++)
        t[i] = (struct timed){lw_param_at(w, b->ready[i]).ready_ps, b->ready[i]};
    lw_sort(t, b->n_ready, compare_timed);
    for (int32_t i = 0; i < b->n_ready; i++)
        b->ready[i] = t[i].param;
    b->order_known = b->n_ready > 0;
    return LW_OK;
}

static enum lw_status find_order(struct cut *c, struct lw_err *err)
{
    struct lw_backward *b = c->b;
    const struct lw_workload *w = c->w;

    for (int32_t i = 0; i < w->n_params; i++)
        b->n_untimed += lw_param_has_gradient(LW_PARAM(w, i)) && lw_param_at(w, i).ready_ps < 0;
    if (w->n_ready == 0)
        return assume_order(c, err);
    for (int32_t i = 0; i < w->n_ready; i++)
        if (lw_param_has_gradient(LW_PARAM(w, w->ready_order[i])))
            b->ready[b->n_ready++] = w->ready_order[i];
    b->order_known = true;
    return LW_OK;
}

static void find_times(struct cut *c)
{
    const struct lw_workload *w = c->w;
    lw_ps end = 0, before = 0;

    for (int32_t m = w->n_modules - 1; m >= 0; m--) {
        end += lw_module_at(w, m)->backward_input_ps + lw_module_at(w, m)->backward_weight_ps;
        c->window_end[m] = end;
    }
    for (int32_t i = 0; i < c->b->n_ready; i++) {
        const struct lw_param *p = LW_PARAM(w, c->b->ready[i]);
        lw_ps at = p->ready_ps >= 0 ? p->ready_ps : c->window_end[p->module];
        at = at < before ? before : at > end ? end : at;
        c->at[i] = before = at;
    }
}

/* The next gradient belongs to a stretch of module m, which ends no later than m's window. */
static bool belongs_to(const struct cut *c, int32_t m)
{
    if (c->next == c->b->n_ready)
        return false;
    if (c->at[c->next] != c->window_end[m])
        return c->at[c->next] < c->window_end[m];
    return m == 0 || lw_param_at(c->w, c->b->ready[c->next]).module >= m;
}

static void cut_module(struct cut *c, int32_t m, lw_ps from)
{
    struct lw_backward *b = c->b;
    lw_ps at = from;
    int32_t n_before = b->n_stretches;

    while (belongs_to(c, m)) {
        struct lw_stretch s = {m, at, c->at[c->next], c->next, 0};
        while (belongs_to(c, m) && c->at[c->next] == s.end) {
            s.n_ready++;
            c->next++;
        }
        b->stretches[b->n_stretches++] = s;
        at = s.end;
    }
    if (at < c->window_end[m] || b->n_stretches == n_before)
        b->stretches[b->n_stretches++] =
            (struct lw_stretch){m, at, c->window_end[m], c->next, 0};
}

static enum lw_status cut_all(struct cut *c, struct lw_err *err)
{
    const struct lw_workload *w = c->w;
    struct lw_backward *b = c->b;

    LW_TAKE_ROOM(&b->arena, b->ready, w->n_params, err);
    LW_TAKE_ROOM(&b->arena, b->stretches, (int64_t)w->n_modules + w->n_params, err);
    LW_TAKE(&c->room, c->window_end, w->n_modules, err);
    LW_TAKE_ROOM(&c->room, c->at, w->n_params, err);
    LW_TRY(find_order(c, err));
    find_times(c);
    for (int32_t m = w->n_modules - 1; m >= 0; m--)
        cut_module(c, m, m + 1 < w->n_modules ? c->window_end[m + 1] : 0);
    return LW_OK;
}

enum lw_status lw_backward_cut(const struct lw_workload *w, struct lw_backward *out,
                               struct lw_err *err)
{
    struct lw_backward b = {0};
    struct cut c = {.w = w, .b = &b};
    enum lw_status s = cut_all(&c, err);

    lw_arena_free(&c.room);
    LW_GIVE(s, out, b, lw_backward_free(&b));
}
