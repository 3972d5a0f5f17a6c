#pragma once

#include <stdio.h>

#include "analysis/store/store_search.h"
#include "shared/base/err.h"
#include "shared/text/records.h"

/* Stored searches, printed: the list of them; the answer of one, as `lapwing tune` printed it; and
 * why each of its strategies is not the best. */
struct lw_store;

enum lw_status lw_search_list_print(struct lw_store *s, enum lw_format format, FILE *f,
                                    struct lw_err *err);
/* LW_EINVAL: it has no end yet; says how to go on. */
enum lw_status lw_search_print(struct lw_store *s, const struct lw_search *x,
                               enum lw_format format, FILE *f, struct lw_err *err);
/* most: rows of the text; 0 = all. */
enum lw_status lw_search_losers_print(struct lw_store *s, const struct lw_search *x, int64_t most,
                                      enum lw_format format, FILE *f, struct lw_err *err);
