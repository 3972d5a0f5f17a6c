#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"

/* What a member of a group does in a collective: it pulls ranges out of other members' buffers,
 * in phases. In a phase it goes through its ranges chunk by chunk, and for each chunk through
 * its pulls in order. Every member of a group has the same number of phases and of pulls per
 * phase, so that "pull 2 of chunk 5 in phase 1" means the same to all; a pull without elements
 * does nothing. */

/* The group: n_nodes nodes of per_node members each, member i on node i / per_node. */
struct exec_shape {
    enum lw_reducer_kind reducer; /* of all-reduces: ring, tree, hierarchical or hfreduce */
    int32_t n_nodes, per_node;
};

struct exec_pull {
    int64_t first, count;  /* elements of the buffer, the same at both ends */
    int32_t from;          /* member */
    int32_t phase, pull;   /* of `from`, that must be done first; phase -1: nothing */
    bool whole;            /* ... for all chunks; else for the current chunk */
    bool add;              /* add what was pulled; else overwrite with it */
};

struct exec_script {
    int32_t n_phases, n_pulls;  /* n_pulls: per phase, the same in all */
    int64_t longest;            /* elements of the longest range */
};

/* The largest n_pulls of any collective of the shape. */
int32_t exec_script_most_pulls(const struct exec_shape *s);

/* How a collective of `count` elements goes; rooted: broadcast or reduce, with the member
 * `root`. */
struct exec_script exec_script_of(const struct exec_shape *s, enum lw_op_kind op, int64_t count);

/* The pulls of one phase of a member: pulls[n_pulls]. */
void exec_script_phase(const struct exec_shape *s, enum lw_op_kind op, int64_t count, int32_t root,
                       int32_t member, int32_t phase, struct exec_pull *pulls);

/* The k-th member, if there is one, that reads this one's buffer and may be the last to do so; -1
 * after the last. A member leaves a collective when all of these have. */
int32_t exec_script_reader(const struct exec_shape *s, enum lw_op_kind op, int32_t member,
                           int32_t k);
