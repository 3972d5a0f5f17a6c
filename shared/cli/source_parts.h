#pragma once

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/cli/plan_source.h"
#include "shared/cluster/cluster.h"
#include "shared/framework/framework.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

/* What the files of a plan source (source_*.c, plan_source.c) have of each other. */

/* Workloads that were made here have NULL for absent texts, files "". */
static inline const char *lw_source_text(const char *s)
{
    return s ? s : "";
}

/* --- device --- */

/* The cluster whose device times are computed for: that of --device, else `c`. The source owns what
 * it finds. */
enum lw_status lw_source_device(struct lw_plan_source *s, const struct lw_cluster *c,
                                const struct lw_cluster **of, struct lw_err *err);

/* No device is named, and the command takes plans without times. */
static inline bool lw_source_is_timeless(const struct lw_plan_source *s)
{
    return s->takes_timeless && !s->cluster_file && !s->device;
}

/* lw_plan_source_fit of a plan. */
enum lw_status lw_source_fit_plan(struct lw_plan_source *s, struct lw_plan *p, struct lw_cluster *c,
                                  struct lw_err *err);

/* --- framework --- */

/* NULL: the ideal one, whose hash is "". */
const struct lw_framework *lw_source_framework(const struct lw_plan_source *s);
const char *lw_source_framework_hash(const struct lw_plan_source *s);

/* Of a workload file. One that was not given is chosen again; edits and --as-recorded keep the
 * file's times, and so its framework. of: the device that the times will be of. */
enum lw_status lw_source_framework_of_file(struct lw_plan_source *s, const char *name,
                                           const struct lw_workload *w,
                                           const struct lw_strategy *strategy,
                                           const struct lw_device *of, struct lw_err *err);

/* Of a plan file, which holds its times; what its framework holds beside the plan's tensors is
 * added. */
enum lw_status lw_source_framework_of_plan(struct lw_plan_source *s, const char *file,
                                           const struct lw_plan *p, struct lw_err *err);

/* --- kernels of a workload file --- */

/* Its modules whose times are those of their kernels are by kernels from here on; others are as
 * measured, which is noted. c: a cluster that may have the device of the times; NULL = none. */
enum lw_status lw_source_take_kernels(struct lw_plan_source *s, const struct lw_cluster *c,
                                      struct lw_workload *w, struct lw_err *err);
/* Its kernels timed for the cluster's device and the strategy's groups. LW_EINVAL: what the file
 * has beside them would be another for these. */
enum lw_status lw_source_time_kernels(struct lw_plan_source *s, const char *name,
                                      const struct lw_strategy *strategy,
                                      const struct lw_cluster *c, struct lw_workload *w,
                                      struct lw_err *err);
/* "tp 2, cp 1, ep 1": what times were made for, and where two are for other frameworks or gradients
 * these too. */
const char *lw_source_made_for_text(const struct lw_made_for *m, const struct lw_made_for *other,
                                    bool timed, char *buf, size_t size);

/* --- workload --- */

/* Can be read once only: standard input, a pipe, a device. */
bool lw_source_is_stream(const char *name);

/* Of the sizes of a model alone: no device, no framework. */
enum lw_status lw_source_sizes(const struct lw_plan_source *s, const struct lw_model_request *r,
                               struct lw_workload *w, struct lw_err *err);

/* --- options without effect --- */

/* To standard error, unless the source is silent: options of a model's experts that change nothing
 * of such a strategy with the source's framework. */
void lw_source_warn_of_idle(const struct lw_plan_source *s, const struct lw_strategy *x);
