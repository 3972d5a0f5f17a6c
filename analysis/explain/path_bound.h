#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/explain/explain.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/op_bound.h"

/* What bounds the critical path of a step, and which works of it. See docs/design/explain.md. */

/* After the bounds of ops: nothing runs on the path, or it is not known what does. */
enum { LW_PATH_IDLE = LW_N_OP_BOUNDS, LW_N_PATH_BOUNDS };

const char *lw_path_bound_name(int bound); /* for people */
const char *lw_path_bound_key(int bound);  /* without the unit: "idle" */

/* What can be made faster. */
enum lw_resource {
    LW_RESOURCE_CLOCK,   /* products */
    LW_RESOURCE_MEMORY,
    LW_RESOURCE_NETWORK,
    LW_RESOURCE_HOST,    /* launches and the host */
    LW_N_RESOURCES,
};

/* Ops of one kind, module, bucket and name are one work, over micro-batches, ranks and the pieces
 * that a backward is cut into. */
bool lw_same_work(const struct lw_op *a, const struct lw_op *b);

struct lw_path_work {
    int32_t op, n_ops;             /* one of them, of the plan; how many are on the path */
    lw_ps time, by[LW_N_OP_BOUNDS]; /* on the path; by what bounds it */
};

struct lw_path_bounds {
    struct lw_arena arena;         /* owns the rest */
    lw_ps ps[LW_N_PATH_BOUNDS];    /* sum to the step, exactly */
    struct lw_path_work *works;    /* that are on the path, each once */
    int64_t n_works;
};

/* Of what bounds counts for the resource. */
lw_ps lw_resource_time(enum lw_resource r, const lw_ps by[LW_N_OP_BOUNDS]);

/* A piece of an op has the proportions of the op, whose products the run lengthened by `spread`
 * parts of 1e9. measured: ops ran for real, and what bounded them is not known. LW_ENOMEM. */
enum lw_status lw_path_bounds_of(const struct lw_explanation *e, const struct lw_plan *plan,
                                 bool measured, int64_t spread, struct lw_path_bounds *out,
                                 struct lw_err *err);
void lw_path_bounds_free(struct lw_path_bounds *b);
