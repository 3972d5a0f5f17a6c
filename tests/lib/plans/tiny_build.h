#pragma once

#include <stdbool.h>

#include "shared/lower/lower.h"
#include "tests/lib/plans/tiny_workload.h"

/* Plans of the tiny workload under a strategy, for tests of lowering. Every failure stops the
 * test. */

/* a and c are whole; b is a tensor-parallel block of two sums of 1000 bytes in each direction. */
void tiny_block(struct tiny *t);

struct lw_plan build(const struct tiny *t, const struct lw_strategy *s); /* no cost handed in */
struct lw_plan build_with(const struct tiny *t, const struct lw_strategy *s,
                          const struct lw_cost *cost);

/* The last variant's ops, as tiny_ops writes them. */
void expect_ops(const struct tiny *t, const struct lw_strategy *s, const char *expected);
void expect_ops_with(const struct tiny *t, const struct lw_strategy *s, const struct lw_cost *cost,
                     const char *expected);
/* There is no such plan, and the message says so. */
void expect_refusal(const struct tiny *t, const struct lw_strategy *s, enum lw_status status,
                    const char *part);
void expect_refusal_with(const struct tiny *t, const struct lw_strategy *s,
                         const struct lw_cost *cost, enum lw_status status, const char *part);
bool has_note(const struct lw_plan *p, const char *part);

/* The first, second, ... allocation fails, until none does: what failed is LW_ENOMEM, keeps nothing
 * and leaves the plan as it was. How often it failed. */
int64_t build_without_memory(const struct lw_workload *w, const struct lw_strategy *s,
                             const struct lw_cost *cost);
