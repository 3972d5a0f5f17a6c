#pragma once

#include "analysis/tune/tune_search.h"

/* Why strategies of a search are not valid, counted by message without its numbers. */

/* n more that are not valid for this reason. */
enum lw_status lw_tune_reason_count(struct lw_tune_result *r, const char *msg,
                                    enum lw_tune_found by, int64_t n, struct lw_err *err);
/* Most first; of as many the first that was counted. */
void lw_tune_reasons_sort(struct lw_tune_result *r);
