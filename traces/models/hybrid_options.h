#pragma once

#include "shared/base/err.h"
#include "traces/models/models.h"

/* Options of hybrids (hybrid_build); `given`: what a user or a configuration gives. */

/* Whether hybrids take an option of the llama family. */
bool hybrid_takes(const char *option);
/* LW_EINVAL: an option of hybrids alone, of a model of another family. */
enum lw_status hybrid_check_options(const struct traces_model *m,
                                    const struct traces_model_shape *given, struct lw_err *err);
/* As many layers as the given pattern has letters, or the first letters of the model's own. Sizes
 * of the model's layers that the pattern does not have are left out of *out; given ones are refused
 * here or by the family. Of other families nothing. */
enum lw_status hybrid_take_layers(const struct traces_model *m,
                                  const struct traces_model_shape *given,
                                  struct traces_model_shape *out, struct lw_err *err);
