#pragma once

#include "shared/io/input.h"
#include "shared/json/value.h"
#include "traces/models/models.h"

/* What a config.json of model_type nemotron_h has beside a transformer's numbers: which mixer each
 * layer has, and the sizes of state-space layers and of experts. Options (`given`) take precedence.
 * LW_EFORMAT, LW_ENOTSUP: a form that no layer here has, with its field. */
enum lw_status traces_hf_hybrid(const struct lw_input *in, const struct lw_value *v,
                                const struct traces_model_shape *given,
                                struct traces_model_shape *s, struct lw_err *err);
