#pragma once

#include <stdbool.h>

#include "analysis/alike/alike.h"

/* What measured runs say of a predicted step (docs/design/evidence.md). */
struct lw_alike_step {
    bool asked; /* false: a prediction of no training program, or without a model */
    struct lw_alike alike;
    char of[96];       /* lw_alike_of_text; "" = no interval */
    char nearest[320]; /* lw_alike_nearest_text; "" = there is none, or runs enough are alike */
};

/* framework: its name. Of the ideal one, which is no training program, nothing is asked. nearest
 * stays "". */
void lw_alike_step_find(const struct lw_alike_runs *runs, const struct lw_alike_key *key,
                        const char *framework, struct lw_alike_step *out);
/* All of it, of the runs that the program carries, which are read for it. */
enum lw_status lw_alike_step_of(const struct lw_alike_key *key, const char *framework,
                                struct lw_alike_step *out, struct lw_err *err);

/* The step between which and which 80 % of such runs would be measured: predicted / ratio. false:
 * no interval; both are -1. */
bool lw_alike_step_interval(const struct lw_alike_step *a, lw_ps step, lw_ps *p10, lw_ps *p90);
