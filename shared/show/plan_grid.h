#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/cli/cli.h"
#include "shared/base/err.h"
#include "shared/cli/plan_source.h"

/* `lapwing plan` without a workload: the grid of a pipeline schedule alone. */
struct lw_grid_request {
    const char *file;  /* --schedule-file: a user's grid; NULL = --schedule says which */
    const char *lower; /* --lower: NULL, "messages" or "shards" */
    const char *durations; /* --durations; NULL = not given */
};
enum { LW_GRID_OPTIONS = 3 };
void lw_grid_request_options(struct lw_grid_request *q, struct lw_opt table[LW_GRID_OPTIONS]);

/* Did the user ask for a grid alone? */
bool lw_grid_requested(const struct lw_grid_request *q, const struct lw_plan_source *src);

/* Make, check and print it to standard output; out (may be NULL): write it as a plan there. */
enum lw_status lw_plan_grid(struct lw_plan_source *src, const struct lw_grid_request *q,
                            const char *out, enum lw_format format, struct lw_err *err);
