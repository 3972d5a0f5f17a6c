#pragma once

#include <string.h>

#include "shared/plan/op.h"
#include "shared/plan/plan.h"

/* What a plan holds, by name and kind. After cmocka.h. */

/* The index of the plan's variant of that name; -1: none. */
static inline int32_t find_variant(const struct lw_plan *p, const char *name)
{
    for (int32_t v = 0; v < p->n_variants; v++)
        if (strcmp(p->variants[v].name, name) == 0)
            return v;
    return -1;
}

/* The index of the n-th op of a kind; without one the test fails. */
static inline int32_t find_op(const struct lw_plan *p, enum lw_op_kind kind, int n)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind && n-- == 0)
            return i;
    fail_msg("no %s", lw_op_name(kind));
    return -1;
}
