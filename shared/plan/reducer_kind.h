#ifndef LW_SHARED_PLAN_REDUCER_KIND_H
#define LW_SHARED_PLAN_REDUCER_KIND_H

#include "shared/base/err.h"

/* How collectives are done: what --reducer chooses, a communicator of a plan carries, and a cost is
 * asked for. The last four are algorithms that sim times beside the ring: docs/design/collectives.md. */
enum lw_reducer_kind {
    LW_REDUCER_AUTO,
    LW_REDUCER_RING,
    LW_REDUCER_TREE,         /* double binary tree */
    LW_REDUCER_NVLS,
    LW_REDUCER_HFREDUCE,
    LW_REDUCER_GLOO,
    LW_REDUCER_MPI,
    LW_REDUCER_HIERARCHICAL, /* inside nodes, between nodes, inside nodes */
    LW_REDUCER_DIRECT,       /* every member to every other, all at once */
    LW_REDUCER_ONE_SHOT,     /* the same with the whole buffer: one exchange */
    LW_REDUCER_PAIRWISE,     /* every member to every other, one partner after the other */
    LW_N_REDUCERS,
};

const char *lw_reducer_name(enum lw_reducer_kind r); /* "auto", "one-shot", ... */
/* '-' or '_'. LW_EINVAL lists the names. */
enum lw_status lw_reducer_parse(const char *name, enum lw_reducer_kind *kind, struct lw_err *err);

#endif
