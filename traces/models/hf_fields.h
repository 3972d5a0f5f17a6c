#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/io/input.h"
#include "shared/json/value.h"
#include "traces/models/models.h"

/* Fields of a Hugging Face config.json, for those that read a type. A field of another kind is
 * LW_EFORMAT, which names it and what was found. */

/* What the file writes, for a message; returns text. */
const char *traces_hf_written(const struct lw_value *v, char *text, size_t size);
/* A whole number of at least `least`; null and absent are 0. */
enum lw_status traces_hf_number(const struct lw_input *in, const struct lw_value *v,
                                const char *key, int64_t least, int64_t *out, struct lw_err *err);
/* null and absent are `otherwise`. */
enum lw_status traces_hf_flag(const struct lw_input *in, const struct lw_value *v, const char *key,
                              bool otherwise, bool *out, struct lw_err *err);
/* A list or an object; NULL: null or absent. */
enum lw_status traces_hf_items(const struct lw_input *in, const struct lw_value *v,
                               const char *key, enum lw_json_type type,
                               const struct lw_value **out, struct lw_err *err);
/* A flag that a type has in one way, `needed`: LW_ENOTSUP else. */
enum lw_status traces_hf_need_flag(const struct lw_input *in, const struct lw_value *v,
                                   const char *type, const char *key, bool otherwise, bool needed,
                                   struct lw_err *err);
/* rope_width: elements of a head that are rotated, by a share of its width; `otherwise`: of a file
 * without it. */
enum lw_status traces_hf_rotation(const struct lw_input *in, const struct lw_value *v,
                                  const char *share_key, double otherwise,
                                  struct traces_model_shape *s, struct lw_err *err);
