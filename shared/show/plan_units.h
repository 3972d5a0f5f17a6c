#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"

/* Whether the bucket is a unit of weights that is gathered before use and freed after it. */
bool lw_plan_is_gathered(const struct lw_plan *p, int32_t bucket);

/* The ops between which such a unit is whole: before which it is gathered, or after which it is
 * freed, as "forward 3, backward 3" (by module; each once, of all micro-batches).
 * In buf. */
const char *lw_plan_unit_uses(const struct lw_plan *p, int32_t bucket,
                              enum lw_op_kind gather_or_free, char *buf, size_t size);

/* A table of these units to standard output; nothing where there is none. */
enum lw_status lw_plan_show_units(const struct lw_plan *p, struct lw_err *err);
