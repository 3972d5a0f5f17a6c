#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/store/store_search.h"
#include "analysis/tune_bound/tune_shard.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"

/* A search in the database: what is known of its strategies from earlier searches of the same
 * space, and what it finds, stored as it goes. A NULL memo knows and keeps nothing. */
struct lw_tune_memo;
struct lw_tune_part;
struct lw_tune_result;
struct lw_tune_row;

/* What to open; all borrowed until lw_tune_memo_close. */
struct lw_tune_memo_request {
    const char *db; /* NULL: nothing is stored; it knows what it is told */
    /* In place of a database: what was simulated or found not valid, and was not known. NULL = none
     * wants it. */
    enum lw_status (*take)(void *context, const struct lw_searched *x, struct lw_err *err);
    void *context;
    const struct lw_tune_part *parts;
    int n_parts;
    struct lw_tune_shard shard;
    bool resume; /* go on with the last search of the space and shard, with what all searches of
                  * the space found */
    const char *model, *cluster, *framework, *command;
    int64_t global_batch, n_best;
};

/* The search's row is made with the first strategy that is stored, or gone on with. LW_EINVAL:
 * there is nothing to resume; says what the last search has in another way. */
enum lw_status lw_tune_memo_open(const struct lw_tune_memo_request *r, struct lw_tune_memo **out,
                                 struct lw_err *err);
void lw_tune_memo_close(struct lw_tune_memo *m);

/* What is known of a strategy, by its number among all parts'; NULL = nothing. Threads may call. */
const struct lw_searched *lw_tune_memo_find(const struct lw_tune_memo *m, int64_t number);
/* Its figures, into a row that refers to the memo's texts. LW_EINVAL: it is not valid; says why. */
enum lw_status lw_tune_memo_take(const struct lw_searched *x, struct lw_tune_row *row,
                                 struct lw_err *err);

/* What is known beside that, of another process's search of the space: stored as what that
 * simulated, and copied. Found from lw_tune_memo_learned on. */
enum lw_status lw_tune_memo_learn(struct lw_tune_memo *m, const struct lw_searched *x,
                                  struct lw_err *err);
enum lw_status lw_tune_memo_learned(struct lw_tune_memo *m, struct lw_err *err);
/* All that was known when it was opened; ascending by number. */
const struct lw_searched *lw_tune_memo_all(const struct lw_tune_memo *m, int64_t *n);

/* What a strategy came to; stored within a second, or at the end. why: of an invalid one. */
enum lw_status lw_tune_memo_keep(struct lw_tune_memo *m, int64_t number,
                                 enum lw_searched_outcome outcome, const struct lw_tune_row *row,
                                 const char *why, struct lw_err *err);
/* One that its step's bound excludes: least bound first, the first LW_TUNE_LOST are stored. */
enum { LW_TUNE_LOST = 100000 };
enum lw_status lw_tune_memo_lost(struct lw_tune_memo *m, int64_t number, lw_ps bound,
                                 struct lw_err *err);
/* The answer. */
enum lw_status lw_tune_memo_finish(struct lw_tune_memo *m, const struct lw_tune_result *r,
                                   struct lw_err *err);
/* The first n of the best become runs of the database, and the rows name them. */
enum lw_status lw_tune_memo_runs(struct lw_tune_memo *m, const struct lw_tune_result *r, int64_t n,
                                 struct lw_err *err);

int64_t lw_tune_memo_search(const struct lw_tune_memo *m); /* its number; 0: it has no database */
int64_t lw_tune_memo_known(const struct lw_tune_memo *m);  /* strategies that were known */

/* The parts of a row's key as one text, a line each, and back. */
char *lw_tune_alike_text(struct lw_arena *a, const struct lw_tune_row *x);
enum lw_status lw_tune_alike_set(struct lw_arena *a, const char *text, struct lw_tune_row *x,
                                 struct lw_err *err);
