/* Why a search found no strategy. */
#include "analysis/tune_command/tune_parts.h"

#include <stdio.h>

static bool some_by_groups(const struct lw_tune_result *r)
{
    for (int64_t i = 0; i < r->n_reasons; i++)
        if (r->reasons[i].by == LW_TUNE_BY_GROUPS)
            return true;
    return false;
}

/* Before a reason: of those whose groups make up the ranks that were asked for. */
static const char *of_ranks(const struct lw_tune_command *c, char text[64])
{
    int64_t ranks = c->parts[0].space.ranks;
    bool several = false;

    for (int i = 1; i < c->n_parts; i++)
        several = several || c->parts[i].space.ranks != ranks;
    if (several)
        return "of those with the ranks of --ranks most often: ";
    snprintf(text, 64, "of those with %lld ranks most often: ", (long long)ranks);
    return text;
}

/* What stops those that came farthest, and of that what stops most. */
static enum lw_status none_valid(const struct lw_tune_command *c, const struct lw_tune_result *r,
                                 struct lw_err *err)
{
    char text[64];
    const struct lw_tune_reason *x = r->n_reasons > 0 ? &r->reasons[0] : NULL;

    for (int64_t i = 1; i < r->n_reasons; i++)
        if (r->reasons[i].by > x->by)
            x = &r->reasons[i];
    bool some_by_ranks = x && x->by == LW_TUNE_BY_BOUND && some_by_groups(r);
    return lw_fail(err, LW_EINVAL, "none of %lld combinations is a valid strategy; %s%s",
                   (long long)r->n_combinations,
                   !x                         ? "there is none"
                   : x->by == LW_TUNE_BY_PLAN ? "of those without another fault: "
                   : some_by_ranks            ? of_ranks(c, text)
                                              : "most often: ",
                   x ? x->example : "");
}

enum lw_status lw_tune_answer(const struct lw_tune_command *c, const struct lw_tune_result *r,
                              struct lw_err *err)
{
    char lacks[32];

    if (r->n_best > 0 || r->interrupted || c->shard.n > 1)
        return LW_OK;
    if (r->n_valid == 0)
        return none_valid(c, r, err);
    if (!r->has_closest)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "none of %lld strategies fits; the closest, %s, lacks %s%s of each device%s: "
                   "take more devices (--ranks), larger --pp or --tp, --zero 3, or "
                   "--recompute full",
                   (long long)r->n_valid, r->closest.strategy,
                   r->closest.needed_bytes > 0 ? "" : "at least ", /* a bound: not simulated */
                   lw_format_bytes(lacks, r->closest.missing_bytes),
                   lw_tune_is_close(&c->parts[r->closest.part], &r->closest)
                       ? " (predictions of memory are off by 3 %)" : "");
}
