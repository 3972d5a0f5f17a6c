#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cli/option_lists.h"
#include "shared/cli/plan_source.h"
#include "shared/plan/strategy.h"

/* The strategies of a search: combinations of values of strategy options, the last option varying
 * fastest. An option that does not apply to a combination (chunks without a pipeline) is left out
 * of it, and counts with its first value alone. */
enum { LW_TUNE_DIMS = 32, LW_TUNE_TEXT = 64 };

struct lw_tune_dim {
    const char *name;
    int option; /* of the strategy */
    int n;
    const char *const *values;
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
/* The option is searched, and with this value too. */
bool lw_tune_space_has(const struct lw_tune_space *x, const char *option, const char *value);
enum lw_tune_kind lw_tune_strategy(const struct lw_tune_space *x, int64_t k,
                                   struct lw_strategy *out, struct lw_tune_given *given,
                                   struct lw_err *err);
