#pragma once

#include "shared/io/input.h"
#include "shared/json/value.h"
#include "traces/models/models.h"

/* What decoders of a config.json's `type` have beside the numbers and flags that all types share:
 * norms, biases, widths and rotations that are the type's own. Options (`given`) take precedence.
 * LW_EFORMAT, LW_ENOTSUP: a form that no decoder here has, with its field. */
enum lw_status traces_hf_decoder(const struct lw_input *in, const struct lw_value *v,
                                 const char *type, const struct traces_model_shape *given,
                                 struct traces_model_shape *s, struct lw_err *err);
