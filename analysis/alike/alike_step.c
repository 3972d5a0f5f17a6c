/* The interval of a predicted step: the one place where ratios become times. */
#include "analysis/alike/alike_step.h"

#include <string.h>

#include "shared/framework/framework.h"
#include "shared/numbers/checked.h"

static bool is_asked(const char *framework)
{
    return framework && strcmp(framework, LW_IDEAL_FRAMEWORK) != 0;
}

void lw_alike_step_find(const struct lw_alike_runs *runs, const struct lw_alike_key *key,
                        const char *framework, struct lw_alike_step *out)
{
    struct lw_alike_step a = {.asked = is_asked(framework)};

    if (a.asked) {
        lw_alike_find(runs, key, NULL, &a.alike);
        if (a.alike.of != LW_ALIKE_OF_NONE)
            lw_alike_of_text(&a.alike, a.of, sizeof a.of);
    }
    *out = a;
}

static void find_nearest(const struct lw_alike_runs *runs, const struct lw_alike_key *key,
                         struct lw_alike_step *a)
{
    lw_alike_find_nearest(runs, key, NULL, &a->alike);
    if (a->alike.n_nearest > 0)
        lw_alike_nearest_text(&a->alike, key, a->nearest, sizeof a->nearest);
    a->alike.nearest = (struct lw_alike_key){{NULL}}; /* its texts go with the runs */
}

enum lw_status lw_alike_step_of(const struct lw_alike_key *key, const char *framework,
                                struct lw_alike_step *out, struct lw_err *err)
{
    struct lw_alike_runs runs = {.n = 0};

    if (is_asked(framework))
        LW_TRY(lw_alike_known(&runs, err));
    lw_alike_step_find(&runs, key, framework, out);
    if (out->asked && out->alike.n < LW_ALIKE_LEAST)
        find_nearest(&runs, key, out);
    lw_alike_free(&runs);
    return LW_OK;
}

bool lw_alike_step_interval(const struct lw_alike_step *a, lw_ps step, lw_ps *p10, lw_ps *p90)
{
    *p10 = *p90 = -1;
    if (!a->of[0] || step <= 0)
        return false;
    *p10 = lw_round_sat((double)step / a->alike.high);
    *p90 = lw_round_sat((double)step / a->alike.low);
    return true;
}
