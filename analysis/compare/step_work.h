#pragma once

#include <stdint.h>

#include "analysis/store/store.h"

/* What one step of each of several runs trains: steps of different work compare by it. */
struct lw_step_work {
    const char *unit; /* "token" or "sample"; NULL: not known of all, or no step trains another
                       * number of them than the others */
};

struct lw_step_work lw_step_work_of(const struct lw_run *const *runs, int32_t n);
/* Of one step of a run, in that unit; 1 where the unit is NULL. */
double lw_step_units(const struct lw_step_work *w, const struct lw_run *r);

/* Nanoseconds of one unit with four digits and no exponent: "38792", "37.19"; returns buf. */
enum { LW_UNIT_NS_TEXT = 40 };
const char *lw_unit_ns_text(double ns, char buf[LW_UNIT_NS_TEXT]);
