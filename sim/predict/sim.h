#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "shared/timeline/alike_ranks.h"
#include "shared/timeline/timeline.h"
#include "sim/timing/sim_options.h"

/* Predict what a plan does on a cluster. See docs/design/engine.md. */

/* What of a run can be refused before it begins: an option out of range or without effect
 * (LW_EINVAL, LW_EUSAGE), more ranks than devices (LW_EINVAL). lw_sim_run begins with it. */
enum lw_status lw_sim_check(const struct lw_plan *plan, const struct lw_cluster *cluster,
                            const struct lw_sim_options *options, struct lw_err *err);

/* Run n_steps optimizer steps. Plan and cluster must have passed their checks.
 *   timeline  NULL, or zeroed; filled with one row per op that ran, sorted; the caller frees it
 *   stats     filled
 * LW_EINVAL: an option out of range, or more ranks than the cluster has devices. LW_ENOTSUP: the
 * cluster lacks a figure that an op needs, or the plan asks for a reducer without a model.
 * LW_EFAILED: ops wait for each other; the message names them; or the
 * options' progress asked to stop. Outputs are unset on failure. */
enum lw_status lw_sim_run(const struct lw_plan *plan, const struct lw_cluster *cluster,
                          const struct lw_sim_options *options, struct lw_timeline *timeline,
                          struct lw_sim_stats *stats, struct lw_err *err);

/* The same without rows: lengths[n_steps] as the steps of lw_timeline_summarize. */
enum lw_status lw_sim_run_steps(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                const struct lw_sim_options *options, lw_ps *lengths,
                                struct lw_sim_stats *stats, struct lw_err *err);

/* What a run gives where ranks that are alike are simulated once (docs/design/folding.md): the
 * rows of one rank for each class. Without folding every rank is a class of its own. */
struct lw_sim_classes {
    struct lw_arena arena;   /* owns the columns below */
    int32_t n_ranks, n_classes;
    struct lw_alike_ranks ranks; /* class of each */
    int32_t *rank_of;        /* [n_classes]: the lowest rank of the class; ascending */
    struct lw_timeline rows; /* packed: read by functions. `rank` is a class; else as lw_sim_run */
    struct lw_plan plan; /* of the classes: roles and operands by class. Borrows the plan's rest */
};

/* As lw_sim_run, with the rows of the classes alone; free with lw_sim_classes_free. */
enum lw_status lw_sim_run_classes(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                  const struct lw_sim_options *options, struct lw_sim_classes *out,
                                  struct lw_sim_stats *stats, struct lw_err *err);
/* Rows of every rank in columns, in the order of lw_sim_run; the caller frees them. */
enum lw_status lw_sim_expand(const struct lw_sim_classes *c, struct lw_timeline *timeline,
                             struct lw_err *err);
/* lw_timeline_summarize of the expanded rows, without expanding them. */
enum lw_status lw_sim_summarize(const struct lw_sim_classes *c, int32_t first_step,
                                struct lw_summary *out, struct lw_err *err);
void lw_sim_classes_free(struct lw_sim_classes *c);

/* One step of a plan whose ops all have times of their own, on devices that share nothing; a
 * send costs its sender nothing. What shared/golden/golden.h asks of an engine; ctx is not used.
 * *timeline is zeroed before and the caller's to free. LW_ENOTSUP: an op that a cluster would
 * have to time. */
enum lw_status lw_sim_alone(const void *ctx, const struct lw_plan *plan,
                            struct lw_timeline *timeline, struct lw_err *err);

/* Set "detail" or "ring" by its word; ctx is a struct lw_sim_options (a handler of lw_opt_call).
 * LW_EINVAL names the words allowed. */
enum lw_status lw_sim_options_set(void *ctx, const char *name, const char *value,
                                  struct lw_err *err);

/* Steps that are not measured: those that lead up to the passes that a plan repeats, and one of
 * these, because a step is the period from the end of one to the end of the next. */
int32_t lw_sim_warmup_steps(const struct lw_plan *plan);

/* One step, collective detail, rendezvous, the cluster's costs, no noise. */
struct lw_sim_options lw_sim_options_default(void);
