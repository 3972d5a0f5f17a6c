/* Why a search found no strategy. */
#include "analysis/tune_command/tune_parts.h"

static bool some_by_groups(const struct lw_tune_result *r)
{
    for (int64_t i = 0; i < r->n_reasons; i++)
        if (r->reasons[i].by == LW_TUNE_BY_GROUPS)
            return true;
    return false;
}

/* What stops those that came farthest, and of that what stops most. */
static enum lw_status none_valid(const struct lw_tune_result *r, struct lw_err *err)
{
    const struct lw_tune_reason *x = r->n_reasons > 0 ? &r->reasons[0] : NULL;

    for (int64_t i = 1; i < r->n_reasons; i++)
        if (r->reasons[i].by > x->by)
            x = &r->reasons[i];
    bool of_ranks = x && x->by == LW_TUNE_BY_BOUND && some_by_groups(r);
    return lw_fail(err, LW_EINVAL, "none of %lld combinations is a valid strategy; %s%s",
                   (long long)r->n_combinations,
                   !x                         ? "there is none"
                   : x->by == LW_TUNE_BY_PLAN ? "of those without another fault: "
                   : of_ranks                 ? "of those with --ranks ranks most often: "
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
        return none_valid(r, err);
    if (!r->has_closest)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "none of %lld strategies fits; the closest, %s, lacks %s of each device: take "
                   "more devices (--ranks), larger --pp or --tp, --zero 3, or --recompute full",
                   (long long)r->n_valid, r->closest.strategy,
                   lw_format_bytes(lacks, r->closest.missing_bytes));
}
