#pragma once

#include "shared/base/err.h"
#include "shared/io/input.h"
#include "shared/json/value.h"
#include "traces/models/models.h"

/* Refuses a config.json of `type` that lacks a field without which its model would have other
 * experts, or none. `given`: options, which stand in for a field; `s`: sizes as read, with them. */
enum lw_status traces_hf_experts(const struct lw_input *in, const struct lw_value *v,
                                 const char *type, const struct traces_model_shape *given,
                                 const struct traces_model_shape *s, struct lw_err *err);
