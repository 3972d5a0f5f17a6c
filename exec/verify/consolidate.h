#pragma once

#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* The optimizer state that the members of a data group hold in parts, gathered on one of them: what
 * one rank alone would hold. */

/* How the group of `rank` meets: its communicator, NULL if it has no other member, and the stream
 * of each rank of this process, by rank. */
struct exec_meeting {
    struct exec_comm *comm;
    struct exec_stream *const *streams; /* [n_ranks] */
    int64_t timeout_ns;
};

/* Arrays of f32 that belong to the state: what the optimizer keeps, and masters where weights are
 * not f32. */
int32_t exec_state_arrays(const struct exec_tensors *m);

/* Every process calls it. The owners send in the order of the group; *whole, of lw_alloc, is filled
 * where `rank` lives, else NULL: array k of the state at k * m->n_state, parameters in the order of
 * registration, each at m->state_at. LW_EFAILED, LW_ETIMEOUT: a transfer did not end. */
enum lw_status exec_consolidate(const struct exec_tensors *m, const struct exec_meeting *meeting,
                                int32_t rank, float **whole, struct lw_err *err);
