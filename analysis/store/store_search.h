#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"

/* Searches of `lapwing tune` in the results database, and the strategies that they looked at. See
 * docs/design/tune.md and docs/formats/schema.md. Strings belong to the arena given to the call. */
struct lw_store;

enum lw_search_status { LW_SEARCH_RUNNING, LW_SEARCH_INTERRUPTED, LW_SEARCH_OK };
const char *lw_search_status_name(int status);

struct lw_search {
    int64_t id;
    enum lw_search_status status;
    const char *hash, *space; /* two searches of one hash give a strategy the same figures */
    int64_t shard, n_shards;  /* 1, 1: the whole space */
    const char *model, *cluster, *framework, *command, *version;
    int64_t global_batch, n_best, started_at;
    /* known when it has ended: */
    double wall_s;
    int64_t n_combinations, n_repeated, n_invalid, n_valid;
    int64_t n_bounded_step, n_bounded_memory, n_simulated, n_unfit;
    lw_ps least_pruned; /* the least bound of those that were pruned by it; -1 = none */
    double within;      /* as struct lw_alike_pairs; NAN = not known */
    int64_t n_tables;
    bool same_parallelism;
};

enum lw_searched_outcome {
    LW_SEARCHED_SIMULATED,
    LW_SEARCHED_INVALID, /* it cannot be planned */
    LW_SEARCHED_NO_ROOM, /* the lower bound of its memory exceeds the device's */
    LW_SEARCHED_BOUNDED, /* the lower bound of its step exceeds the last of the best, or its first
                          * samples exceed the last of the best as it was then */
    LW_N_SEARCHED
};
const char *lw_searched_outcome_name(int outcome);

/* A strategy. What its outcome leaves unknown is -1, NAN or "". */
struct lw_searched {
    int64_t combination; /* its number in the space */
    enum lw_searched_outcome outcome;
    int64_t place, front; /* 1, 2, ... among the best and in the Pareto set; 0 = in neither */
    int64_t run;          /* its stored run; 0 = none */
    int64_t nth;          /* of those that were simulated: 0, 1, ... */
    const char *strategy, *command, *why, *interval_of, *alike;
    lw_ps bound, step;
    lw_ps step_p90; /* of the samples, in a search with noise */
    lw_ps p10, p90; /* of measured runs */
    bool told_apart;
    int64_t least_cap, next_cap; /* as struct lw_tune_row */
    int64_t n_devices, peak_memory_bytes, memory_bytes, missing_bytes, needed_bytes, needed_bound;
    double tokens_per_s, samples_per_s, cost_per_trillion_tokens;
};

/* What strategies are ranked by. */
static inline lw_ps lw_searched_rank_by(const struct lw_searched *x)
{
    return x->step_p90 >= 0 ? x->step_p90 : x->step;
}

/* Strategies that are not valid for one reason. */
struct lw_search_reason {
    int64_t n;
    const char *text, *example;
};

/* A row of its own, as running; *id: its number. */
enum lw_status lw_store_begin_search(struct lw_store *s, const struct lw_search *x, int64_t *id,
                                     struct lw_err *err);
/* Goes on with one that was begun: it is running, with these n_best and command. */
enum lw_status lw_store_continue_search(struct lw_store *s, const struct lw_search *x,
                                        struct lw_err *err);
/* Strategies, in place of those with the same number, in one transaction. */
enum lw_status lw_store_put_searched(struct lw_store *s, int64_t search,
                                     const struct lw_searched *v, int64_t n, struct lw_err *err);
/* The end, in one transaction: figures and status of x; the answer (place, front) of the
 * strategies v, and no other ones'; reasons, most frequent first. */
enum lw_status lw_store_finish_search(struct lw_store *s, const struct lw_search *x,
                                      const struct lw_searched *v, int64_t n,
                                      const struct lw_search_reason *reasons, int64_t n_reasons,
                                      struct lw_err *err);
enum lw_status lw_store_searched_run(struct lw_store *s, int64_t search, int64_t combination,
                                     int64_t run, struct lw_err *err);

/* All, ascending by id. */
enum lw_status lw_store_searches(struct lw_store *s, struct lw_arena *a, struct lw_search **out,
                                 int64_t *n, struct lw_err *err);
/* "last" or an id; LW_EINVAL says which there are. */
enum lw_status lw_store_find_search(struct lw_store *s, const char *text, struct lw_arena *a,
                                    struct lw_search *out, struct lw_err *err);
/* Strategies of a search, ascending by number. */
enum lw_status lw_store_searched(struct lw_store *s, int64_t search, struct lw_arena *a,
                                 struct lw_searched **out, int64_t *n, struct lw_err *err);
/* What all searches of a space have simulated or found not valid; ascending by number, each once.
 * A run that was deleted is none. */
enum lw_status lw_store_searched_of_space(struct lw_store *s, const char *hash, struct lw_arena *a,
                                          struct lw_searched **out, int64_t *n,
                                          struct lw_err *err);
enum lw_status lw_store_search_reasons(struct lw_store *s, int64_t search, struct lw_arena *a,
                                       struct lw_search_reason **out, int64_t *n,
                                       struct lw_err *err);
/* With all that belongs to it, but its runs. */
enum lw_status lw_store_delete_search(struct lw_store *s, int64_t search, struct lw_err *err);
