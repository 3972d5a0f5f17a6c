#pragma once

#include <stdint.h>
#include <stdio.h>

#include "analysis/compare/compare.h"
#include "analysis/compare/step_work.h"
#include "shared/text/records.h"

/* Three and more stored runs beside each other, such as a prediction, its execution and the
 * recording of the program that both are of: the step and the parts of the slowest rank's period of
 * each, and how far each is from the first. Their plans may differ. */
enum { LW_SIDES_MOST = 8 };

struct lw_sides {
    struct lw_arena arena; /* owns the runs' texts */
    int32_t n;
    struct lw_run run[LW_SIDES_MOST];
    struct lw_run_parts parts[LW_SIDES_MOST];
    struct lw_step_work work;
};

/* LW_EINVAL: a run that has no step, or more than LW_SIDES_MOST. */
enum lw_status lw_sides_read(struct lw_store *s, char **names, int32_t n, struct lw_sides *out,
                             struct lw_err *err);
/* Of part -1 the step, else of enum lw_part; -1 = not known. */
lw_ps lw_sides_time(const struct lw_sides *x, int32_t side, int part);
/* As `compare` of the two: of a prediction and a measured run the error predicted / measured - 1,
 * else the change from the first to the side; per token or sample where steps train different
 * numbers. In percent; NAN where one is unknown or the divisor is 0. */
double lw_sides_pct(const struct lw_sides *x, int32_t side, int part);
enum lw_status lw_sides_print(const struct lw_sides *x, enum lw_format format, FILE *f,
                              struct lw_err *err);
void lw_sides_free(struct lw_sides *x);
