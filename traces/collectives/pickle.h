#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Does it begin as a pickle of protocol 2 or later does? */
bool pickle_is(const char *text, size_t len);

/* A pickle of plain data (None, booleans, whole numbers, floats, texts, lists, tuples, dicts with
 * text keys) as JSON, NUL-terminated, with JSON's padding; memory of the arena. Nothing of the file
 * is run: LW_EFORMAT names the byte of the first operation that would call code, of one that is
 * unknown, or where the data ends early. */
enum lw_status pickle_to_json(const char *name, const char *text, size_t len,
                              struct lw_arena *arena, char **json, size_t *json_len,
                              struct lw_err *err);
