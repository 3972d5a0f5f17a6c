#pragma once

#include <stdbool.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

struct lw_store;

/* Operands that name runs, as every command takes them: "3", "last", "5-7" (those that are there),
 * "5-last", and lists of these with ',' between. Whether it may name several. */
bool lw_names_runs(const char *text);

/* One word for each run that the operands name, in their order, and twice where it is named twice;
 * a word that is no list stays as it is. *out and its words are of the arena.
 * LW_EINVAL: an empty item, a range that goes down, or one without any run. */
enum lw_status lw_store_run_numbers(struct lw_store *s, char **names, int n_names,
                                    struct lw_arena *a, char ***out, int *n, struct lw_err *err);
