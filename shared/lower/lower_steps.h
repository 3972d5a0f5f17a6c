#pragma once

#include "shared/lower/lower.h"
#include "shared/lower_layout/lowering.h"

/* A lowering from end to end: lower.c says what can be lowered, lower_steps.c runs it. */

/* A part whose gradients are reduced, for what all such parts have alike; else the first. */
const struct lw_part *lw_lower_speaker(const struct lw_lowering *l);

/* lower_notes.c: the decisions and the rules after them, for people. */
void lw_lower_notes(const struct lw_lowering *l);

/* Lower a strategy that lw_plan_build has found to be one that can be. draft: as lw_plan_draft. */
enum lw_status lw_lower(const struct lw_workload *w, const struct lw_strategy *s, bool draft,
                        const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err);
enum lw_status lw_lower_settled_buckets(const struct lw_workload *w, const struct lw_strategy *s,
                                        const struct lw_cost *cost, struct lw_settled_buckets *out,
                                        struct lw_err *err);
