#pragma once

#include <stdint.h>

#include "shared/base/err.h"

struct lw_arena;
struct lw_plan;

/* Ops of a plan that are alike: all that the database keeps of them is equal, except for the
 * micro-batch. Arrays lie in the caller's arena. */
struct alike_ops {
    int32_t n;      /* sets of them */
    int32_t *set;   /* [n_ops]: of each op, numbered by their first op */
    int32_t *first; /* [n]: the first op of each */
};

enum lw_status alike_ops_find(const struct lw_plan *p, struct lw_arena *room, struct alike_ops *out,
                              struct lw_err *err);
