#pragma once

#include <stdint.h>

#include "analysis/tune_bound/tune_space.h"
#include "shared/cluster/cluster.h"
#include "shared/lower/outline.h"
#include "shared/plan/cost.h"

/* What strategies of a search share, made once: the model's workload by groups and micro-batch, its
 * outline by what changes a rank's modules, the schedule's grid by its shape. */

struct lw_tune_context; /* one model on one cluster, with one micro-batch */

/* What one strategy comes to before it is simulated. */
struct lw_tune_case {
    lw_ps bound;            /* of the step */
    int64_t needed_bytes;   /* lower bound of what the fullest rank's allocator needs; -1 = not
                             * asked for, or not known */
    int64_t own_bytes;      /* beside, of a device (lw_framework_own_bytes) */
    int64_t most_ops;       /* of its plan there are no more */
    bool selects_nothing;   /* selective recomputation is the same as none */
};

struct lw_tune_request {
    const struct lw_plan_source *source; /* parsed, without options of the strategy; borrowed */
    const struct lw_cluster *cluster;    /* borrowed */
};

enum lw_status lw_tune_context_new(const struct lw_tune_request *r, struct lw_tune_context **out,
                                   struct lw_err *err);
void lw_tune_context_free(struct lw_tune_context *c);

/* The last strategy with a bound of the step, of one thread; zeroed = none yet. Those after it that
 * differ in sizes of buckets alone have the same. */
struct lw_tune_last {
    struct lw_strategy given, of; /* as it was given; resolved */
    struct lw_tune_context *context; /* NULL = none */
    struct lw_tune_case found;
};

/* The bounds of a strategy as lw_tune_strategy makes it. memory: that of memory too; then all that
 * is shared must have been made by a call without, and several threads may call. last: NULL = not
 * kept. LW_EINVAL, LW_ENOTSUP: it is not valid; err says why. */
enum lw_status lw_tune_case_of(struct lw_tune_context *c, const struct lw_strategy *given,
                               bool memory, struct lw_tune_last *last, struct lw_tune_case *out,
                               struct lw_err *err);

/* A source of its own for one strategy: that of the request, with its options set. */
enum lw_status lw_tune_source(const struct lw_tune_request *r, const struct lw_tune_given *given,
                              struct lw_plan_source *out, struct lw_err *err);
