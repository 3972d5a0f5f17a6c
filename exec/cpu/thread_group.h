#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/cpu/thread_collective_steps.h"
#include "shared/base/err.h"
#include "shared/plan/op.h"

/* Collectives among n threads that share memory, of one process or of several: each member calls
 * exec_group_run with its own buffer, all in the same order of ops; the calls block. Data moves
 * straight out of another member's buffer, as exec/cpu/thread_collective_steps.h says: there is
 * no staging copy. */
struct exec_group;

/* Links of a chosen speed: what a member pulls comes over its own link of this speed. */
struct exec_pace {
    double bytes_per_s;  /* 0 = as fast as it goes */
    int64_t latency_ns;
    /* of each member, borrowed: links within a node are not paced; NULL: all */
    const int32_t *node;
};

/* Bytes of what n members share. */
int64_t exec_group_shared_bytes(int32_t n);

/* *stop (borrowed) makes every call return LW_EFAILED. shared (borrowed, zeroed, at any address;
 * NULL: all members are in this process): what the members' processes share. */
enum lw_status exec_group_new(const struct exec_shape *shape, struct exec_pace pace,
                              const atomic_bool *stop, void *shared, struct exec_group **group,
                              struct lw_err *err);
void exec_group_free(struct exec_group *group);

/* Run one collective as member i. `m->peer` is the member number of the root here. *all_in_ns: when
 * the last member entered. LW_EFAILED: stopped, or the members do not agree on op, count, dtype or
 * root (the message shows both). */
enum lw_status exec_group_run(struct exec_group *group, int32_t i, enum lw_op_kind op,
                              const struct exec_message *m, int64_t *all_in_ns,
                              struct lw_err *err);

/* What exec_group_run begins with, and nothing else: members wait for each other and compare what
 * they bring, and no data moves. */
enum lw_status exec_group_meet(struct exec_group *group, int32_t i, enum lw_op_kind op,
                               const struct exec_message *m, int64_t *all_in_ns,
                               struct lw_err *err);

/* Send and receive by rendezvous: a list of them completes together. In any order on both sides;
 * several between one pair match in the order given. A message's peer is a member number.
 * *all_in_ns: when the last of the peers was there. */
enum lw_status exec_group_exchange(struct exec_group *group, int32_t i,
                                   const struct exec_transfer *x, int32_t n, int64_t *all_in_ns,
                                   struct lw_err *err);
