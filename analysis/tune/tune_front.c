/* The Pareto set by comparing all pairs of rows, and what measured runs say of the rows. */
#include "analysis/tune/tune_front.h"

#include <math.h>

/* In steps as long as what strategies are ranked by. */
static double rate(const struct lw_tune_row *x)
{
    return x->step_p90 < 0 ? x->samples_per_s
                           : x->samples_per_s * ((double)x->step / (double)x->step_p90);
}

static bool is_dominated(const struct lw_tune_row *x, const struct lw_tune_row *by)
{
    bool no_worse = rate(by) >= rate(x) &&
                    by->peak_memory_bytes <= x->peak_memory_bytes &&
                    by->n_devices <= x->n_devices &&
                    !(by->cost_per_trillion_tokens > x->cost_per_trillion_tokens);
    bool better = rate(by) > rate(x) ||
                  by->peak_memory_bytes < x->peak_memory_bytes ||
                  by->n_devices < x->n_devices ||
                  by->cost_per_trillion_tokens < x->cost_per_trillion_tokens;

    return no_worse && (better || by < x);
}

static int by_memory(const struct lw_tune_row *a, const struct lw_tune_row *b)
{
    return a->peak_memory_bytes != b->peak_memory_bytes
               ? (a->peak_memory_bytes > b->peak_memory_bytes ? 1 : -1)
               : (lw_tune_rank_by(a) > lw_tune_rank_by(b)) -
                     (lw_tune_rank_by(a) < lw_tune_rank_by(b));
}

static enum lw_status find_front(struct lw_tune_result *r, struct lw_err *err)
{
    LW_TAKE(&r->arena, r->front, r->n_rows + 1, err);
    for (int64_t i = 0; i < r->n_rows; i++) {
        const struct lw_tune_row *x = &r->rows[i];
        bool out = !x->fits;
        for (int64_t k = 0; !out && k < r->n_rows; k++)
            out = k != i && r->rows[k].fits && is_dominated(x, &r->rows[k]);
        if (out)
            continue;
        int64_t at = r->n_front++;
        for (; at > 0 && by_memory(r->front[at - 1], x) > 0; at--)
            r->front[at] = r->front[at - 1];
        r->front[at] = x;
    }
    return LW_OK;
}

static enum lw_status put_interval(const struct lw_alike_runs *known, struct lw_arena *a,
                                   struct lw_tune_row *x, struct lw_err *err)
{
    struct lw_alike_step alike;

    lw_alike_step_find(known, &x->key, x->framework, &alike);
    lw_alike_step_interval(&alike, x->step, &x->p10, &x->p90);
    x->interval_of = lw_arena_strdup(a, alike.of);
    return x->interval_of ? LW_OK : lw_fail_nomem(err);
}

/* Of the rows that are shown. */
static enum lw_status put_intervals(const struct lw_alike_runs *known, struct lw_tune_result *r,
                                    struct lw_err *err)
{
    for (int64_t i = 0; i < r->n_best; i++)
        LW_TRY(put_interval(known, &r->arena, (struct lw_tune_row *)r->best[i], err));
    for (int64_t i = 0; i < r->n_front; i++)
        LW_TRY(put_interval(known, &r->arena, (struct lw_tune_row *)r->front[i], err));
    return LW_OK;
}

static void tell_from(const struct lw_tune_row *first, double within, struct lw_tune_row *x)
{
    x->told_apart = (double)lw_tune_rank_by(x) > within * (double)lw_tune_rank_by(first);
}

/* A recording has no runs like it: nothing is known of its differences. */
static enum lw_status tell_apart(const struct lw_alike_runs *known, struct lw_tune_result *r,
                                 struct lw_err *err)
{
    r->pairs.within = NAN;
    if (r->n_best == 0)
        return LW_OK;
    LW_TRY(lw_alike_pairs_of(known, &r->best[0]->key, &r->pairs, err));
    for (int64_t i = 0; i < r->n_best; i++)
        tell_from(r->best[0], r->pairs.within, (struct lw_tune_row *)r->best[i]);
    for (int64_t i = 0; i < r->n_rows; i++)
        tell_from(r->best[0], r->pairs.within, &r->rows[i]);
    return LW_OK;
}

/* The rows of the best have what is known of the best. */
static void share_best(struct lw_tune_result *r)
{
    for (int64_t i = 0; i < r->n_best; i++)
        for (int64_t k = 0; k < r->n_rows; k++)
            if (r->rows[k].part == r->best[i]->part &&
                r->rows[k].combination == r->best[i]->combination)
                r->rows[k] = *r->best[i];
}

enum lw_status lw_tune_front(struct lw_tune_result *r, struct lw_err *err)
{
    struct lw_alike_runs known = {.n = 0};

    LW_TRY(find_front(r, err));
    enum lw_status st =
        r->n_best > 0 || r->n_front > 0 ? lw_alike_known(&known, err) : LW_OK;
    if (st == LW_OK)
        st = put_intervals(&known, r, err);
    if (st == LW_OK)
        st = tell_apart(&known, r, err);
    lw_alike_free(&known);
    if (st == LW_OK)
        share_best(r);
    return st;
}
