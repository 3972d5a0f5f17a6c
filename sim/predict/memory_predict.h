#pragma once

#include "shared/base/err.h"
#include "shared/framework/memory_figures.h"

struct lw_cluster;
struct lw_framework;
struct lw_plan;

/* Of a plan that nothing has predicted yet: its steady step is simulated. The plan was changed
 * by lw_framework_hold. */
enum lw_status lw_memory_predict(const struct lw_plan *p, const struct lw_framework *f,
                                 const struct lw_cluster *c, struct lw_memory_figures *out,
                                 struct lw_err *err);
