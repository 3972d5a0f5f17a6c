#pragma once

#include "shared/io/input.h"
#include "shared/json/value.h"
#include "traces/models/models.h"

/* What a config.json of Qwen3-Next's or Qwen3.5's types has beside a decoder's numbers: which
 * blocks have linear attention, and the sizes of its heads. LW_EFORMAT, LW_ENOTSUP: a form that no
 * block here has, with its field. */
enum lw_status traces_hf_linear(const struct lw_input *in, const struct lw_value *v,
                                const char *type, const struct traces_model_shape *given,
                                struct traces_model_shape *s, struct lw_err *err);
