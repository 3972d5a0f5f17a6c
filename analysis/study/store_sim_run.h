#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/timeline/timeline.h"
#include "sim/predict/sim.h"

struct lw_run_info; /* analysis/store/store.h */
struct lw_store;
struct lw_sim_result; /* sim/predict/sim_result.h */
struct lw_alike_step; /* analysis/alike/alike_step.h */

/* The row of a prediction, from its first moment to its end. */
struct lw_sim_row {
    const char *db;
    struct lw_store *store; /* NULL: the run has no row */
    int64_t id;             /* -1 without one */
    struct lw_err unstored; /* why there is none */
};

/* The run is stored as running. Where that fails, the prediction is still made: unstored
 * says why, and lw_sim_row_end returns it. Close with lw_sim_row_close in either case. */
void lw_sim_row_begin(struct lw_sim_row *row, const char *db, const struct lw_run_info *info);

/* What a prediction came to; everything is borrowed. */
struct lw_sim_end {
    const struct lw_plan *plan;
    const struct lw_sim_classes *classes;
    const struct lw_sim_stats *stats;
    const struct lw_summary *summary;
    const struct lw_alike_step *alike;
    const struct lw_sim_result *result; /* its rates, memory and price are stored */
    int32_t n_warmup;
    double wall_s;
    bool spans; /* store every op of every rank; few are stored without being requested */
};

/* Whether spans are stored: those of every rank, or of one of each set of equal ranks. */
bool lw_sim_row_has_spans(const struct lw_sim_end *end);

/* Store the figures and end the run as ok, in one piece: an interrupt waits for it. LW_EFAILED:
 * another command deleted or ended the run meanwhile. */
enum lw_status lw_sim_row_end(struct lw_sim_row *row, const struct lw_sim_end *end,
                              struct lw_err *err);
/* A prediction that failed: it is stored as such (LW_EFAILED, LW_ENOMEM). A request that was
 * refused is not a run, and its row is deleted. */
void lw_sim_row_fail(struct lw_sim_row *row, enum lw_status status, const char *message,
                     int32_t n_warmup);
void lw_sim_row_close(struct lw_sim_row *row);
