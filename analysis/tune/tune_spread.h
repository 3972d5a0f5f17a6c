#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "analysis/tune/tune_search.h"
#include "shared/base/arena.h"
#include "shared/text/records.h"

/* How devices of a kind differ in the steps of a search (docs/design/device_spread.md): of each
 * cluster that it was made on. */
struct lw_tune_spread {
    const char *cluster;
    double value; /* -1: the cluster gives none */
    bool drawn;   /* --rank-noise draws each rank's speed in its place */
};

struct lw_tune_spreads {
    struct lw_tune_spread *item;
    int n;
};

/* Of the parts of a search, each cluster and figure once; in the arena, but names, which are
 * borrowed. */
enum lw_status lw_tune_spreads(const struct lw_tune_part *parts, int n_parts, struct lw_arena *a,
                               struct lw_tune_spreads *out, struct lw_err *err);
/* The same from what a stored search says of its space (lw_tune_identity); all in the arena. */
enum lw_status lw_tune_spreads_of_space(const char *space, struct lw_arena *a,
                                        struct lw_tune_spreads *out, struct lw_err *err);

/* A line for each. */
enum lw_status lw_tune_spreads_text(const struct lw_tune_spreads *s, FILE *f, struct lw_err *err);
/* "device_spread": [{"cluster", "value" or null, "used"}, ...] */
void lw_tune_spreads_json(const struct lw_tune_spreads *s, struct lw_jsonout *o);
