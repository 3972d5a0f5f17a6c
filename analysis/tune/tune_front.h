#pragma once

#include "analysis/tune/tune_search.h"

/* What follows from the rows of a search, once all are there: the Pareto set, the intervals of the
 * rows that are shown, and which rows are slower than the first by more than chance. */
enum lw_status lw_tune_front(struct lw_tune_result *r, struct lw_err *err);
