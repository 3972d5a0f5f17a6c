#pragma once

#include <stdint.h>

#include "exec/tensors/tensors.h"

/* Activations and gradients that pass from stage to stage: parts of the ops that take and make
 * them, where a run is verified. Op numbers count within the program of (variant, rank). */

/* Append, before the op's other parts: what it takes is compared; or (made) after them: what it
 * sends on is computed. LW_ENOMEM. */
enum lw_status exec_value_parts(const struct exec_tensors *m, int32_t variant, int32_t i, bool made,
                                const struct exec_place *at, struct exec_parts *parts,
                                struct lw_err *err);

/* LW_ENO with the words for an EXEC_PART_EXPECT of op i that found something else. Nothing is in
 * flight. */
enum lw_status exec_mismatch_tell(const struct exec_tensors *m, int32_t variant, int32_t i,
                                  const struct exec_place *at, const struct exec_part *part,
                                  struct lw_err *err);
