#ifndef LW_EXEC_TENSORS_STATE_PLAN_H
#define LW_EXEC_TENSORS_STATE_PLAN_H

#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/tensors/state.h"
#include "exec/tensors/tensors.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* Which values of a saved state lie where by a plan: what a run begins with, and what it leaves. */

/* The parameter of the state that each one of the plan begins with: entry_of[n_params], -1 = no
 * values are kept here. LW_EINVAL names the file, what differs in it, and what would fit. */
enum lw_status exec_state_match(const struct lw_exec_state *s, const struct lw_plan *p,
                                enum exec_optimizer_kind kind, int32_t *entry_of,
                                struct lw_err *err);

/* An empty state of the plan's parameters. LW_EINVAL: what a state cannot say, in words. */
enum lw_status exec_state_of_plan(const struct lw_plan *p, enum exec_optimizer_kind kind,
                                  struct lw_exec_state *s, struct lw_err *err);

/* What array k (0: the weights) of a parameter holds on a rank before the first step: to[numel],
 * from the state that is loaded, or first values and zeros. */
void exec_state_begin(const struct exec_tensors *m, int32_t rank, int32_t param, int32_t k,
                      float *to);
/* Write what the optimizer keeps of a parameter to those elements that the rank updates:
 * room[numel]. The weights are not touched. */
enum lw_status exec_state_give(const struct exec_tensors *m, int32_t rank, int32_t param,
                               float *room, struct lw_err *err);

/* Fill and seal the state that exec_state_of_plan made, after n_steps: every element from the one
 * rank that updates it, or the first of several. Every process calls it; s is NULL but where rank 0
 * lives. */
enum lw_status exec_state_take(const struct exec_tensors *m, const struct exec_process *process,
                               int64_t n_steps, struct lw_exec_state *s, struct lw_err *err);

#endif
