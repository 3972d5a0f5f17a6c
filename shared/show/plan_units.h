#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"

/* What a plan says of its units of weights, indexed once: plans may have 10^5 of them. */
struct lw_plan_units;
enum lw_status lw_plan_units_new(const struct lw_plan *p, struct lw_plan_units **out,
                                 struct lw_err *err);
void lw_plan_units_free(struct lw_plan_units *u);

/* Whether the bucket is a unit of weights that is gathered before use and freed after it. */
bool lw_plan_is_gathered(const struct lw_plan_units *u, int32_t bucket);

/* The ops between which such a unit is whole: before which it is gathered, or after which it is
 * freed, as "forward 3, backward 3" (by module; each once, of all micro-batches).
 * In buf. */
const char *lw_plan_unit_uses(struct lw_plan_units *u, int32_t bucket,
                              enum lw_op_kind gather_or_free, char *buf, size_t size);

/* A table of these units to standard output; nothing where there is none. */
enum lw_status lw_plan_show_units(struct lw_plan_units *u, struct lw_err *err);
