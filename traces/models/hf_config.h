#pragma once

#include "shared/base/err.h"
#include "shared/io/input.h"
#include "traces/models/models.h"

/* The config.json of a Hugging Face model: the family that builds it, and its sizes where `shape`
 * does not have them already. *name: a model of traces_model_at. LW_EFORMAT: a field of another
 * type, or one that is missing; LW_ENOTSUP: a model_type that no family here builds exactly, with
 * the reason. */
enum lw_status traces_hf_config(const struct lw_input *in, const char **name,
                                struct traces_model_shape *shape, struct lw_err *err);
/* Whether the text is JSON with a model's type, as config.json has. */
bool traces_is_hf_config(const struct lw_input *in);
