#pragma once

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Two searches whose spaces are the same text give each strategy the same number and the same
 * figures. */
struct lw_tune_part;

/* *space, *hash: in the arena. A line for each option, and for each input with the hash of its
 * contents; the version of lapwing comes first. */
enum lw_status lw_tune_identity(const struct lw_tune_part *parts, int n_parts, struct lw_arena *a,
                                const char **space, const char **hash, struct lw_err *err);
/* The first line in which two spaces differ: of each, from where it is of interest on. */
void lw_tune_differing(const char *a, const char *b, char one[64], char other[64]);
