#pragma once

#include "shared/base/err.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

/* --units: which modules of a workload are gathered together. A module's key is the part of its
 * name that names its unit; modules of equal keys are one unit. */

enum { LW_UNIT_OF_ROOT = -1 };

/* The names say the units: not each module is one. */
bool lw_units_are_named(const struct lw_strategy *s);

/* The length of the key at the beginning of `name`: of "children" up to the first '.'; of prefixes
 * what the longest of them matches; LW_UNIT_OF_ROOT where none does. */
int lw_unit_key(const char *units, const char *name);
bool lw_unit_same(const char *units, const char *a, const char *b);

/* LW_EINVAL: an empty prefix, or one that no module's name begins with. */
enum lw_status lw_units_check(const struct lw_strategy *s, const struct lw_workload *w,
                              struct lw_err *err);
