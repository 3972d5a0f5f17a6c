#pragma once

#include "analysis/store/store_search.h"
#include "analysis/tune/tune_search.h"

/* The row of one strategy: its place in the space and its bounds are set before. Texts are in the
 * arena. */

/* The strategy's options and its command. */
enum lw_status lw_tune_row_texts(const struct lw_tune_part *p, const struct lw_tune_given *g,
                                 struct lw_arena *a, struct lw_tune_row *x, struct lw_err *err);
/* What measured runs have to share with it. */
enum lw_status lw_tune_row_key(const struct lw_alike_key *from, const char *framework,
                               struct lw_arena *a, struct lw_tune_row *x, struct lw_err *err);

/* The prediction; the plan is not checked, which is for those that are shown. most, stop: of the
 * samples of a search with noise; step_p90 is -1 where it is above `most`. */
enum lw_status lw_tune_row_predict(const struct lw_tune_part *part, const struct lw_tune_given *g,
                                   lw_ps most, const struct lw_progress *stop, struct lw_arena *a,
                                   struct lw_tune_row *x, struct lw_err *err);
/* As an earlier search of the space left it. Whether another one has its plan is of this search. */
enum lw_status lw_tune_row_recall(const struct lw_searched *known, struct lw_arena *a,
                                  struct lw_tune_row *x, struct lw_err *err);
/* The figures of a strategy whose plan is the same; its run is its own, where it is known. */
enum lw_status lw_tune_row_share(const struct lw_tune_row *of, const struct lw_searched *known,
                                 struct lw_arena *a, struct lw_tune_row *x, struct lw_err *err);
