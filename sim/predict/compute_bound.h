#pragma once

#include "shared/json/jsonout.h"
#include "shared/plan/op_bound.h"
#include "sim/predict/sim_print.h"

/* What bounds the compute of the rank with the longest period, in the step shown. See "Bound" in
 * docs/glossary.md. */
struct lw_compute_bound {
    lw_ps ps[LW_N_OP_BOUNDS]; /* add up to the ops' time */
    bool known;               /* of any of it; false: times were recorded, or are of a file */
};

struct lw_compute_bound lw_compute_bound_of(const struct lw_sim_report *r);
/* Nothing where it is not known. */
void lw_compute_bound_text(const struct lw_compute_bound *b, FILE *f);
/* "compute_bound": an object of times, or null. */
void lw_compute_bound_json(struct lw_jsonout *o, const struct lw_compute_bound *b);
