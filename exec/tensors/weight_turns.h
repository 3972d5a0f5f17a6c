#pragma once

#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* Flat buffers of weights that a rank gathers and frees (ZeRO-3) take turns in the same memory: a
 * slot. A flat buffer holds its slot from the alloc before its gather to its free. Two of them
 * share a slot only where, in every program of their stage, each alloc of the one follows each free
 * of the other before it, by the program's streams and dependencies. Passes do not overlap.
 * Addresses do not change during a run. */

/* Fills m->weights.turns, flat and n_slots, by m->temporary, sharded and member. Before flat
 * buffers are placed. LW_ENOMEM. */
enum lw_status exec_turns_find(struct exec_tensors *m, struct lw_err *err);

/* Bytes of a slot's marks, one for each of its n flat buffers. */
int64_t exec_turn_marks_bytes(int32_t n);

/* Bytes that a member keeps of a flat buffer that takes turns: its own share. */
int64_t exec_share_bytes(const struct exec_tensors *m, int32_t bucket);
/* The rank's place among those that gather it. */
int32_t exec_turn_member(const struct exec_tensors *m, int32_t bucket, int32_t rank);
