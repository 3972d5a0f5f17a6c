#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether the first input of a host op of this name is kept: its elements and their type, or the
 * type alone. */
bool traces_op_is_shaped(const char *name, size_t len);
bool traces_op_is_typed(const char *name, size_t len);
