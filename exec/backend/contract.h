#pragma once

#include <stdint.h>

#include "exec/backend/backend.h"
#include "shared/base/err.h"

/* What all backends do alike: what they ask of a communicator and of what is given to it, and that
 * the other processes hear when this one gives up. */

/* Copies members[n] to own[n] and fills index_of[n_ranks]: the member number of a rank, -1 =
 * outside. LW_EINVAL: no such rank, or one named twice. */
enum lw_status exec_members_index(const int32_t *members, int32_t n, int32_t n_ranks, int32_t *own,
                                  int32_t *index_of, struct lw_err *err);

/* out[n] = x[n], with member numbers for peers (0 where the op has none): what `rank` gives to a
 * communicator of n_members. LW_EINVAL, LW_ENOTSUP: as struct exec_backend's `communicate`. */
enum lw_status exec_transfers_check(const struct exec_transfer *x, int32_t n, int32_t rank,
                                    int32_t n_ranks, int32_t n_members, const int32_t *index_of,
                                    struct exec_transfer *out, struct lw_err *err);

/* They stop when this process does, not at their own time limit. p NULL: there is no other. */
void exec_tell_others(const struct exec_process *p, const char *why);
