#pragma once

#include <stdio.h>

#include "analysis/validate/validate.h"
#include "shared/json/jsonout.h"

/* The parts of validate's output that only tables of runs have. */

/* Fields of a family, inside its object: rows, skipped rows, memory, fits. */
void lw_validation_json_runs(const struct lw_validation *v, int32_t family, struct lw_jsonout *o);
/* Fields of a case, inside its object. */
void lw_validation_json_run(const struct lw_case *c, struct lw_jsonout *o);
/* skipped[] and skip_reasons[] of all families. */
void lw_validation_json_skips(const struct lw_validation *v, struct lw_jsonout *o);
/* refused[]: rows with a fault. */
void lw_validation_json_refusals(const struct lw_validation *v, struct lw_jsonout *o);
/* The table of families of runs and of the reasons for which rows were passed over; nothing without
 * such families. */
enum lw_status lw_validation_text_runs(const struct lw_validation *v, FILE *f, struct lw_err *err);
