#pragma once

#include "shared/numbers/dtype.h"
#include "shared/json/json.h"

/* The text under a reader's cursor; another one fails the reader and gives f32. */
enum lw_dtype lw_dtype_read(struct lw_json *j);
