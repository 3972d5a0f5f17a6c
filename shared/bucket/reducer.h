#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/strategy/strategy.h"

/* Ready gradients in, bucket launches out: the state machine of one backward on one rank. The same
 * code plans (lowering asks it for the launch order), simulates and executes (exec feeds real ready
 * events and asserts the plan's order). See docs/design/reducer.md. */
struct lw_reducer;

/* bucket_of[n_params]: bucket of each gradient, -1 = not reduced; copied.
 * n_buckets buckets launch in index order (LW_LAUNCH_IN_ORDER) or as they complete.
 * LW_EINVAL: a bucket number out of range, or a bucket without gradients. */
enum lw_status lw_reducer_new(int32_t n_params, const int32_t *bucket_of, int32_t n_buckets,
                              enum lw_launch_order order, struct lw_reducer **out,
                              struct lw_err *err);
void lw_reducer_free(struct lw_reducer *r);

/* torch of 2020 finds a second mark only when its bucket waits for no gradient. Until then the mark
 * counts as one of the bucket's others, and the bucket leaves with a gradient missing. The default
 * repairs this. */
enum lw_reducer_rules { LW_REDUCER_REPAIRED, LW_REDUCER_C10D_2020 };

void lw_reducer_set_rules(struct lw_reducer *r, enum lw_reducer_rules rules);
/* Those of a strategy: of 2020 under --compat c10d with that generation, else repaired. */
enum lw_reducer_rules lw_reducer_rules_of(const struct lw_strategy *s);

/* Begin a forward and backward. A backward that is not synchronised launches nothing. LW_EFAILED
 * when the last one was unfinished, also under no_sync: names the unmarked gradients; the reducer
 * is then as before. */
enum lw_status lw_reducer_begin(struct lw_reducer *r, bool synchronised, struct lw_err *err);
/* These gradients get no value in this backward: they count as ready just before the first mark.
 * Call between begin and the first mark; copied. LW_EINVAL: not reduced, or too late.
 * LW_ENOMEM: nothing is declared. */
enum lw_status lw_reducer_unused(struct lw_reducer *r, const int32_t *params, int32_t n,
                                 struct lw_err *err);
/* Gradient p is ready. launches[] (room for n_buckets) receives the buckets to launch now, in
 * order; *n_launches their number. LW_EFAILED: marked twice, or not reduced at all. */
enum lw_status lw_reducer_mark(struct lw_reducer *r, int32_t p, int32_t *launches,
                               int32_t *n_launches, struct lw_err *err);
/* The same of n gradients, one after the other: launches[] has the buckets of all of them. */
enum lw_status lw_reducer_mark_list(struct lw_reducer *r, const int32_t *params, int32_t n,
                                    int32_t *launches, int32_t *n_launches, struct lw_err *err);
/* Every bucket was launched. */
bool lw_reducer_finished(const struct lw_reducer *r);
/* Reduced gradients not ready in this backward, ascending: fills at most room, returns how many. */
int32_t lw_reducer_unmarked(const struct lw_reducer *r, int32_t *params, int32_t room);
