#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cli/option_lists.h"
#include "shared/cli/plan_source.h"
#include "shared/strategy/strategy.h"

/* The strategies of a search: combinations of values of strategy options, the last option varying
 * fastest. An option that does not apply to a combination (chunks without a pipeline) is left out
 * of it, and counts with its first value alone. */
enum { LW_TUNE_DIMS = 32, LW_TUNE_TEXT = 64 };

/* What an option applies to. */
enum lw_tune_when {
    LW_TUNE_ALWAYS,
    LW_TUNE_OF_PIPELINES,
    LW_TUNE_OF_CHUNKS,  /* schedules with as many as one says */
    LW_TUNE_OF_TENSORS,
    LW_TUNE_OF_BOTH,    /* tensor groups in a pipeline */
    LW_TUNE_OF_CONTEXT,
    LW_TUNE_OF_EXPERTS, /* with tensor groups */
    LW_TUNE_OF_DATA,
    LW_TUNE_OF_BUCKETS, /* of a policy that takes the option */
    LW_TUNE_OF_THIRD,   /* ZeRO-3 */
    LW_TUNE_OF_SHARDS,  /* ZeRO */
    LW_TUNE_OF_WEIGHTS, /* ZeRO-1 and 2 */
};

struct lw_tune_dim {
    const char *name;
    int option; /* of the strategy */
    int n;
    const char *const *values;
    enum lw_tune_when when;
    bool after_dp; /* --dp is known before it */
};

struct lw_tune_space {
    struct lw_tune_dim dim[LW_TUNE_DIMS];
    int n_dims;
    int64_t n; /* combinations */
    int64_t ranks;
};

/* The options that were given (of the source, which keeps none of them; and lists), and default
 * lists for the others, by the model's sizes, the devices of a node and the number of ranks. Texts
 * are in the arena. LW_EUSAGE: an option that a search does not take. */
enum lw_status lw_tune_space(struct lw_plan_source *source, const struct lw_option_lists *lists,
                             const struct lw_workload *w, int32_t devices_per_node, int64_t ranks,
                             struct lw_arena *a, struct lw_tune_space *out, struct lw_err *err);

/* What a combination comes to. */
enum lw_tune_kind {
    LW_TUNE_STRATEGY,  /* a strategy */
    LW_TUNE_REPEATED,  /* the same as another combination */
    LW_TUNE_INVALID,   /* contradicts itself; err says why */
};
/* given: what was set of it, in the order of the dimensions: [n_given] of them. */
struct lw_tune_given {
    int n;
    const char *name[LW_TUNE_DIMS + 1], *value[LW_TUNE_DIMS + 1];
    char dp[24]; /* of value, where --dp follows from --ranks */
    int64_t n_alike; /* combinations from this one on that are of its kind for the same reason */
};
/* A walk through combinations: what the last one had in common with the next is not set again. The
 * same as lw_tune_strategy of each; the strategy is set[n_dims] of the space. begun false: none
 * yet. `given` refers to itself: a walk is not copied. */
struct lw_tune_walk {
    bool begun;
    int64_t k;
    int n_set; /* dimensions of k that are set */
    int n_given[LW_TUNE_DIMS + 1];
    struct lw_strategy set[LW_TUNE_DIMS + 1]; /* after so many dimensions */
    struct lw_tune_given given;
};
enum lw_tune_kind lw_tune_walk(const struct lw_tune_space *x, struct lw_tune_walk *w, int64_t k,
                               struct lw_err *err);
/* The option is searched, and with this value too. */
bool lw_tune_space_has(const struct lw_tune_space *x, const char *option, const char *value);
enum lw_tune_kind lw_tune_strategy(const struct lw_tune_space *x, int64_t k,
                                   struct lw_strategy *out, struct lw_tune_given *given,
                                   struct lw_err *err);
