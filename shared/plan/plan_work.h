#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* The work of the ops of a plan apart from its time: what the plan's hash covers of it.
 *
 * Where a module's backward or forward is cut into ops (where a gradient is ready, at tensor
 * collectives) each op gets a share of the module's FLOPs and products by the time at which the cut
 * lies. A share is therefore not the same on two devices. What all ops of one kind of a module and
 * micro-batch do together is. Memory traffic is not: a tensor rank's is a part of the module's by
 * time. */
struct lw_whole_work {
    int64_t flops; /* of all the ops; -1 = one does not say */
    int64_t n_products;
    uint64_t products; /* equal where the products are, in any order */
};

struct lw_whole_works {
    int32_t *of; /* [n_ops]: whose part the op's work is; -1 = the op has no row of works */
    struct lw_whole_work *v;
    int32_t n;
};

enum lw_status lw_whole_works_of(const struct lw_plan *p, struct lw_whole_works *w,
                                 struct lw_err *err);
void lw_whole_works_free(struct lw_whole_works *w);

/* Activations: 1 the work takes some, -1 it frees them. How many bytes depends on the kernels that
 * a device's libraries choose (traces/models/model_framework.c, calls_flash). */
int lw_work_takes(const struct lw_plan *p, int32_t work);

/* What an op does, as a decision. */
enum lw_work_source {
    LW_WORK_BY_CLUSTER, /* the cluster's figures give its time */
    LW_WORK_NONE,
    LW_WORK_OWN, /* a time of its own; of the host also one that is not known */
    LW_WORK_ROW, /* a row of works */
};
enum lw_work_source lw_work_source_of(const struct lw_plan *p, const struct lw_op *op);
const char *lw_work_source_word(int s); /* "the cluster's"; NULL beyond the last */
