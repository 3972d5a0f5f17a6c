/* lapwing tune beside brute force. The model is small, so that 26,376 strategies are simulated in
 * minutes: what is compared is the search, which does not know the size of a model. */
#include "analysis/bench/bench_tune.h"

#include "analysis/tune_command/tune_parts.h"
#include "shared/base/clock.h"

enum { BEST = 10, LEAST = 20000, RANKS = 16 };

static char *words[] = {
    "tune", "-w", "mlp", "--layers", "16", "--width", "256", "-c", "dgx-a100", "--ranks", "16",
    "--global-batch", "64", "--batch", "1,2,4", "--zero", "0..3", "--bucket-policy", "all",
    "--bucket-cap", "1MiB..64MiB", "--pp", "1..8", "--schedule", "all", "--chunks", "2,4",
    "--recompute", "none", "--framework", "ideal", "--no-db", "-q", NULL};

static enum lw_status search(const struct lw_tune_command *c, bool no_bounds,
                             struct lw_tune_result *out, struct lw_err *err)
{
    const struct lw_progress silent = {0};
    const struct lw_tune_task t = {.parts = c->parts, .n_parts = c->n_parts, .n_best = BEST,
                                   .no_bounds = no_bounds, .progress = &silent};

    return lw_tune(&t, out, err);
}

static bool is_same(const struct lw_tune_row *a, const struct lw_tune_row *b)
{
    return a->part == b->part && a->combination == b->combination && a->step == b->step &&
           a->peak_memory_bytes == b->peak_memory_bytes;
}

static bool has(const struct lw_tune_row *const *v, int64_t n, const struct lw_tune_row *x)
{
    for (int64_t i = 0; i < n; i++)
        if (is_same(v[i], x))
            return true;
    return false;
}

static bool simulated(const struct lw_tune_result *r, const struct lw_tune_row *x)
{
    for (int64_t i = 0; i < r->n_rows; i++)
        if (is_same(&r->rows[i], x))
            return true;
    return false;
}

static enum lw_status compare(const struct lw_tune_result *all, const struct lw_tune_result *found,
                              struct lw_err *err)
{
    if (all->n_valid < LEAST || all->n_simulated != all->n_valid || found->n_valid != all->n_valid)
        return lw_fail(err, LW_EFAILED, "bench tune: %lld strategies, of which %lld were simulated",
                       (long long)all->n_valid, (long long)all->n_simulated);
    for (int64_t i = 0; i < BEST; i++)
        if (found->n_best != BEST || all->n_best != BEST ||
            !is_same(all->best[i], found->best[i]))
            return lw_fail(err, LW_EFAILED, "bench tune: place %lld of the best differs from brute "
                                            "force", (long long)i + 1);
    for (int64_t i = 0; i < all->n_front; i++)
        if (simulated(found, all->front[i]) && !has(found->front, found->n_front, all->front[i]))
            return lw_fail(err, LW_EFAILED, "bench tune: '%s' is not in the Pareto set",
                           all->front[i]->strategy);
    return LW_OK;
}

static enum lw_status run(const struct lw_tune_command *c, struct bench_result *r,
                          struct lw_err *err)
{
    struct lw_tune_result all = {0}, found = {0};
    enum lw_status st = search(c, true, &all, err);
    double began = lw_now_s();

    if (st == LW_OK)
        st = search(c, false, &found, err);
    r->wall_s = lw_now_s() - began;
    if (st == LW_OK)
        st = compare(&all, &found, err);
    if (st == LW_OK) {
        r->n_simulated = found.n_simulated;
        r->n_events = all.n_valid;
        r->simulated_ps = found.best[0]->step;
    }
    lw_tune_free(&all);
    lw_tune_free(&found);
    return st;
}

enum lw_status bench_tune(const struct bench_choice *choice, struct bench_result *r,
                          struct lw_err *err)
{
    struct lw_tune_command c;

    if (choice->ranks > 0 && choice->ranks != RANKS)
        return lw_fail(err, LW_EINVAL,
                       "found --ranks %lld, allowed: %d (the space is of that many)",
                       (long long)choice->ranks, RANKS);
    int rc = lw_tune_parts(&c, (int)(sizeof words / sizeof *words) - 1, words);
    enum lw_status st = rc < 0 ? run(&c, r, err)
                               : lw_fail(err, LW_EFAILED, "bench tune: its options are refused");

    lw_tune_parts_free(&c);
    return st;
}
