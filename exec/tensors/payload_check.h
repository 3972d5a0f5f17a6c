#pragma once

#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* Which op makes what an all-reduce without a bucket sums up, and which one takes the sum: the
 * last compute op that it waits for, and the first that waits for it. Those set and compare its
 * numbers when they run; the others are set before the step and compared after it. Not of u8,
 * whose sums are cut, nor of more than EXEC_MAX_SUMMED members. Lists come from the arena.
 * LW_ENOMEM. */
enum lw_status exec_payload_ends_init(const struct lw_plan *p, const struct lw_program *g,
                                      int32_t rank, struct lw_arena *arena,
                                      struct exec_payload_ends *ends, struct lw_err *err);

/* Append what op i of the program does with them: before its other parts it compares what it takes;
 * after them (made) it sets what it makes. LW_ENOMEM. */
enum lw_status exec_payload_parts(const struct exec_tensors *m, int32_t variant, int32_t i,
                                  bool made, const struct exec_place *at, struct exec_parts *parts,
                                  struct lw_err *err);
/* LW_ENO with the words for a part of theirs that found something else. */
enum lw_status exec_payloads_explain(const struct exec_tensors *m, int32_t variant,
                                     const struct exec_place *at, const struct exec_part *part,
                                     struct lw_err *err);

/* Communication without a bucket (buffers, maps, whatever a plan sends) of one variant: its
 * memory is set before the step and compared after it, where its places are apart; *n_bytes
 * counts on. u8 holds its numbers modulo 256; what an op leaves undefined is not compared; of an
 * all-to-all among n members, block k goes to member k and after it block k came from member k.
 * Only with compares. LW_ENO names op, element, rank and both values, of an all-to-all
 * also whose block it is. */
enum lw_status exec_payloads_set(const struct exec_tensors *m, int32_t variant, int32_t step,
                                 struct lw_err *err);
enum lw_status exec_payloads_check(const struct exec_tensors *m, int32_t variant, int32_t step,
                                   int64_t *n_bytes, struct lw_err *err);
