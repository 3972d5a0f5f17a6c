#pragma once

#include <stddef.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/io/input.h"

/* What is after the tags that launchers and loggers put before a line; *len less them. */
const char *bench_skip_tags(const char *line, size_t *len);

/* The input without a byte-order mark and without the escapes that colour a terminal. out->text is
 * in's, or a copy in the arena; out is not freed. */
enum lw_status bench_plain_text(struct lw_arena *arena, const struct lw_input *in,
                                struct lw_input *out, struct lw_err *err);
