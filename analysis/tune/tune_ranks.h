#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/tune/tune_search.h"
#include "exec/launch/rendezvous.h"
#include "shared/base/err.h"

/* One search by the processes of a launcher: each searches a shard, all know the N-th best step of
 * all, and rank 0 comes to know what each has simulated, with which it makes the answer of the
 * single search. See docs/design/tune.md, "Processes of one launcher". */
struct lw_tune_ranks;

/* Of no process may a round, or the listing of its shard, take longer. */
#define LW_TUNE_RANKS_WAIT_S 3600

/* The processes meet, and agree that they search one space for as many of the best. LW_ETIMEOUT:
 * who is missing; LW_EINVAL: who differs, in what. */
enum lw_status lw_tune_ranks_open(const struct exec_identity *id, const struct lw_tune_task *t,
                                  struct lw_tune_ranks **out, struct lw_err *err);
/* The search of the shards. At rank 0, t->memo, which is not NULL there, then knows what all have
 * found; t->shard, listed and beside are not read. *stopped: a signal came to one of them, and not
 * all is found. LW_EFAILED: one of them failed or is gone; says which. What rank 0 had come to know
 * is stored in any case. */
enum lw_status lw_tune_ranks_search(struct lw_tune_ranks *k, const struct lw_tune_task *t,
                                    bool *stopped, struct lw_err *err);
/* The others fail with these words. */
void lw_tune_ranks_stop(struct lw_tune_ranks *k, const char *why);
/* It is this process's to say why the search failed: rank 0's, or rank 1's if that is gone. */
bool lw_tune_ranks_speaks(const struct lw_tune_ranks *k);
void lw_tune_ranks_close(struct lw_tune_ranks *k);
