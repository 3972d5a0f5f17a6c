#pragma once

#include <stddef.h>

#include "analysis/published/run_table.h"

/* The first module of each of pp * vpp parts, as "0,4,7": the embedding lies in the first part and
 * the head in the last. */
void lw_run_parts(const struct lw_run *r, char *list, size_t size);

/* Why the framework itself ends such a run before its first step; NULL = it does not. */
const char *lw_run_refused(const struct lw_run *r);
