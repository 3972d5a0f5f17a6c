#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* How collectives are done: what --collective-algorithm chooses, a communicator of a plan carries,
 * and a cost is requested. hierarchical to pairwise are algorithms that sim times beside the ring:
 * docs/design/collectives.md. The names that begin with nccl ask for NCCL's own cost model:
 * docs/design/nccl.md. */
enum {
    LW_N_NCCL_ALGORITHM_LISTS = 1 << 7,
    LW_N_NCCL_PROTOCOL_LISTS = 1 << 3,
    LW_N_NCCL_LISTS = LW_N_NCCL_ALGORITHM_LISTS * LW_N_NCCL_PROTOCOL_LISTS,
};

/* What a kind is. */
enum {
    LW_REDUCER_ALGORITHM = 1, /* a cluster's list `algorithms` may name it, sim has its messages */
    LW_REDUCER_OF_SUMS = 2,   /* sums alone are done by it: other operations use the ring */
    LW_REDUCER_IN_LEVELS = 4, /* inside nodes and between them: every node holds as many ranks */
};

/* row(ID, "word", what it is): the constant, the word on the command line and in files, completion
 * and refusals are made from the row. New rows are the last: plans are hashed with their numbers.
 * What an algorithm does is a row of sim/cost/collective_messages.c. */
#define LW_REDUCERS(row) \
    row(AUTO, "auto", 0) \
    row(RING, "ring", LW_REDUCER_ALGORITHM) \
    row(TREE, "tree", LW_REDUCER_ALGORITHM | LW_REDUCER_OF_SUMS) /* double binary tree */ \
    row(NVLS, "nvls", 0) \
    row(HFREDUCE, "hfreduce", LW_REDUCER_ALGORITHM | LW_REDUCER_OF_SUMS | LW_REDUCER_IN_LEVELS) \
    row(GLOO, "gloo", 0) \
    row(MPI, "mpi", 0) \
    /* inside nodes, between nodes, inside nodes */ \
    row(HIERARCHICAL, "hierarchical", \
        LW_REDUCER_ALGORITHM | LW_REDUCER_OF_SUMS | LW_REDUCER_IN_LEVELS) \
    row(DIRECT, "direct", LW_REDUCER_ALGORITHM) /* every member to every other, all at once */ \
    row(ONE_SHOT, "one-shot", LW_REDUCER_ALGORITHM) /* the same with the whole buffer, once */ \
    /* every member to every other, one partner after the other */ \
    row(PAIRWISE, "pairwise", LW_REDUCER_ALGORITHM)
#define LW_ROW_REDUCER_ID(id, word, is) LW_REDUCER_##id,
#define LW_ROW_REDUCER_WORD(id, word, is) word,

enum lw_reducer_kind {
    LW_REDUCERS(LW_ROW_REDUCER_ID)
    LW_REDUCER_NCCL, /* as NCCL's own cost model chooses */
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
unsigned lw_reducer_is(enum lw_reducer_kind r);      /* LW_REDUCER_ALGORITHM, ... */
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
