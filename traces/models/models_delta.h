#pragma once

#include "traces/models/models_transformer.h"

/* Blocks whose attention is a gated delta net. See docs/design/models_hybrid.md. */

/* Block `block`, from 0, has one: all but each linear_every-th, and none for further tokens. */
bool transformer_is_delta(const struct traces_model_shape *s, int64_t block);

/* Heads and the groups of ranks fit together. LW_EINVAL; LW_ENOTSUP: what these blocks have no
 * rule for. */
enum lw_status transformer_delta_check(const struct traces_model_shape *s, struct lw_err *err);

/* The mixer after its norm, to the product back and its sum: kernels, what is kept, and its
 * parameters, "model.layers.BLOCK.linear_attn.NAME". */
void transformer_delta(struct transformer *t, int32_t block);
