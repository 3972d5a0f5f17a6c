#pragma once

#include <stdbool.h>

#include "shared/plan/plan_tables.h"

struct lw_hash;

/* Feed a table of ranks, groups or members that the plan has as rules alone: the numbers are those
 * that feeding the table gives, after the number of rows. false: the plan has the table. */
bool lw_grid_hash(struct lw_hash *h, const struct lw_plan *p, enum lw_plan_table_id table);
