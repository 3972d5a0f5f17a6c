#ifndef LW_EXEC_THREAD_RING_H
#define LW_EXEC_THREAD_RING_H

#include <stdatomic.h>
#include <stdint.h>

#include "exec/backend.h"
#include "shared/err.h"
#include "shared/op.h"

/* Collectives among n threads that share memory: each member calls exec_ring_run with its own
 * buffer, all in the same order of ops; the calls block. The data of a chunk moves from the left
 * neighbour (member i - 1) straight out of its buffer: there is no staging copy. */
struct exec_ring;

/* Links of a chosen speed: member i's link from its left neighbour. bytes_per_s 0 = as fast as it
 * goes. */
struct exec_pace {
    double bytes_per_s;
    int64_t latency_ns;
};

/* *stop (borrowed) makes every call return LW_EFAILED. */
enum lw_status exec_ring_new(int32_t n, struct exec_pace pace, const atomic_bool *stop,
                             struct exec_ring **ring, struct lw_err *err);
void exec_ring_free(struct exec_ring *ring);

/* Run one collective as member i. `m->peer` is the member number of the root here. *all_in_ns: when
 * the last member entered. LW_EFAILED: stopped, or the members do not agree on op, count, dtype or
 * root (the message shows both). */
enum lw_status exec_ring_run(struct exec_ring *ring, int32_t i, enum lw_op_kind op,
                             const struct exec_message *m, int64_t *all_in_ns, struct lw_err *err);

/* Send and receive by rendezvous: a list of them completes together. In any order on both sides;
 * several between one pair match in the order given. m[k].peer is the member number of the peer. */
enum lw_status exec_ring_exchange(struct exec_ring *ring, int32_t i, const struct exec_message *m,
                                  const enum lw_op_kind *op, int32_t n, struct lw_err *err);

#endif
