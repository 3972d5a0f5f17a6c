#pragma once

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/steps/step_phases.h"

/* A step may accumulate gradients over several backward passes. Its last pass as a step of its own:
 * from the end of the pass before, with that pass's forward, backward, gradients and nodes, to the
 * step's end; lists belong to s or to the arena. *n_passes = 1: *out is *s. */
enum lw_status lw_step_last_pass(const struct lw_trace *t, const struct lw_step *s,
                                 struct lw_arena *arena, struct lw_step *out, int32_t *n_passes,
                                 struct lw_err *err);
