#ifndef LW_SHARED_PLAN_REDUCER_KIND_H
#define LW_SHARED_PLAN_REDUCER_KIND_H

#include <stdbool.h>

#include "shared/base/err.h"

/* How collectives are done: what --reducer chooses, a communicator of a plan carries, and a cost
 * is asked for. hierarchical to pairwise are algorithms that sim times beside the ring:
 * docs/design/collectives.md. The names that begin with nccl ask for NCCL's own cost model:
 * docs/design/nccl.md. */
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
    LW_REDUCER_NCCL,         /* as NCCL's own cost model chooses; the rest: of these alone */
    LW_REDUCER_NCCL_RING,
    LW_REDUCER_NCCL_RING_LL,
    LW_REDUCER_NCCL_RING_LL128,
    LW_REDUCER_NCCL_RING_SIMPLE,
    LW_REDUCER_NCCL_TREE,
    LW_REDUCER_NCCL_TREE_LL,
    LW_REDUCER_NCCL_TREE_LL128,
    LW_REDUCER_NCCL_TREE_SIMPLE,
    LW_REDUCER_NCCL_COLLNET_DIRECT,
    LW_REDUCER_NCCL_COLLNET_CHAIN,
    LW_REDUCER_NCCL_NVLS,
    LW_REDUCER_NCCL_NVLS_TREE,
    LW_REDUCER_NCCL_PAT,
    LW_REDUCER_NCCL_LL,
    LW_REDUCER_NCCL_LL128,
    LW_REDUCER_NCCL_SIMPLE,
    LW_REDUCER_NCCL_CAL,     /* nccl times curves of measured tables */
    LW_N_REDUCERS,
};

/* "nccl", "nccl+cal", "nccl:tree/ll128", ...: timed by NCCL's cost model. */
static inline bool lw_reducer_is_nccl(enum lw_reducer_kind r)
{
    return r >= LW_REDUCER_NCCL && r < LW_N_REDUCERS;
}

const char *lw_reducer_name(enum lw_reducer_kind r); /* "auto", "one-shot", ... */
/* '-' or '_'. LW_EINVAL lists the names. */
enum lw_status lw_reducer_parse(const char *name, enum lw_reducer_kind *kind, struct lw_err *err);

#endif
