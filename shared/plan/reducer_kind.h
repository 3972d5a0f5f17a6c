#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* How collectives are done: what --reducer chooses, a communicator of a plan carries, and a cost
 * is asked for. hierarchical to pairwise are algorithms that sim times beside the ring:
 * docs/design/collectives.md. The names that begin with nccl ask for NCCL's own cost model:
 * docs/design/nccl.md. */
enum {
    LW_N_NCCL_ALGORITHM_LISTS = 1 << 7,
    LW_N_NCCL_PROTOCOL_LISTS = 1 << 3,
    LW_N_NCCL_LISTS = LW_N_NCCL_ALGORITHM_LISTS * LW_N_NCCL_PROTOCOL_LISTS,
};

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
    LW_REDUCER_NCCL,         /* as NCCL's own cost model chooses */
#define LW_REDUCER_NCCL_LISTS(algorithms, protocols) \
    (LW_REDUCER_NCCL + (algorithms) * LW_N_NCCL_PROTOCOL_LISTS + (protocols))
    /* ... of these alone: bits of enum sim_nccl_algorithm and sim_nccl_protocol, 0: of all. Some by
     * name: */
    LW_REDUCER_NCCL_LL = LW_REDUCER_NCCL_LISTS(0, 1),
    LW_REDUCER_NCCL_LL128 = LW_REDUCER_NCCL_LISTS(0, 2),
    LW_REDUCER_NCCL_SIMPLE = LW_REDUCER_NCCL_LISTS(0, 4),
    LW_REDUCER_NCCL_TREE = LW_REDUCER_NCCL_LISTS(1, 0),
    LW_REDUCER_NCCL_RING = LW_REDUCER_NCCL_LISTS(2, 0),
    LW_REDUCER_NCCL_COLLNET_DIRECT = LW_REDUCER_NCCL_LISTS(4, 0),
    LW_REDUCER_NCCL_COLLNET_CHAIN = LW_REDUCER_NCCL_LISTS(8, 0),
    LW_REDUCER_NCCL_NVLS = LW_REDUCER_NCCL_LISTS(16, 0),
    LW_REDUCER_NCCL_NVLS_TREE = LW_REDUCER_NCCL_LISTS(32, 0),
    LW_REDUCER_NCCL_PAT = LW_REDUCER_NCCL_LISTS(64, 0),
    LW_REDUCER_NCCL_CAL = LW_REDUCER_NCCL + LW_N_NCCL_LISTS, /* nccl times measured curves */
    LW_N_REDUCERS,
};

/* "nccl", "nccl+cal", "nccl:tree/ll128", ...: timed by NCCL's cost model. */
static inline bool lw_reducer_is_nccl(enum lw_reducer_kind r)
{
    return r >= LW_REDUCER_NCCL && r < LW_N_REDUCERS;
}

/* What the hash of a plan holds for r: where it had another number before lists, that one. */
int lw_reducer_number(enum lw_reducer_kind r);
const char *lw_reducer_name(enum lw_reducer_kind r); /* "auto", "nccl:tree,ring/ll128", ... */
/* What the text of NCCL_ALGO (protocols: NCCL_PROTO) leaves each function of NCCL: bits as above,
 * in the order of the library (broadcast, reduce, all-gather, reduce-scatter, all-reduce). Lists
 * for a function follow its name, those of all come first: "ring;allreduce:tree,ring", "^tree".
 * False: no such text. */
enum { LW_N_NCCL_FUNCTIONS = 5 };
bool lw_nccl_lists(const char *text, bool protocols, uint8_t left[LW_N_NCCL_FUNCTIONS]);
/* In any case, '-' and '_' left out; of NCCL also lists: "nccl:Ring,Tree/^LL128". */
bool lw_reducer_find(const char *name, enum lw_reducer_kind *kind);
/* The same for --algorithm. LW_EINVAL lists the names. */
enum lw_status lw_reducer_parse(const char *name, enum lw_reducer_kind *kind, struct lw_err *err);
