#pragma once

#include "shared/base/err.h"
#include "shared/plan/plan_builder.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

/* --compat NAME: decide as that reference system does. What a system fixes is a table of strategy
 * options with the words it allows, the first of them its own. See docs/design/compat.md. */

/* *out = s with every option that the system fixes and the user left alone set to the system's own
 * value. LW_EINVAL: one that the user gave is none of the allowed; names both. */
enum lw_status lw_compat_resolve(const struct lw_strategy *s, struct lw_strategy *out,
                                 struct lw_err *err);

/* LW_EINVAL: a workload at which the system itself stops, with its reason. */
enum lw_status lw_compat_check(const struct lw_strategy *s, const struct lw_workload *w,
                               struct lw_err *err);

/* What a plan made under compat keeps of the system, and what it cannot hold. */
void lw_compat_notes(const struct lw_strategy *s, struct lw_builder *b);
