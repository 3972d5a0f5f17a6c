#pragma once

#include <stdio.h>

#include "analysis/compare/compare.h"

/* A comparison for people and programs. tolerance < 0: none was requested. all: every bucket, not
 * those alone that differ most. */
enum lw_status lw_comparison_text(const struct lw_comparison *c, bool all, FILE *f,
                                  struct lw_err *err);
/* One row a number: times in ns, bytes; empty = not known. */
enum lw_status lw_comparison_csv(const struct lw_comparison *c, FILE *f, struct lw_err *err);
void lw_comparison_json(const struct lw_comparison *c, double tolerance, bool within, FILE *f);

/* Every execution of `runs` (ascending by id) beside its prediction, one row a pair. */
enum lw_status lw_pairs_text(const struct lw_run *runs, int32_t n, bool csv, FILE *f,
                             struct lw_err *err);
void lw_pairs_json(const struct lw_run *runs, int32_t n, FILE *f);
