#pragma once

#include "analysis/store/store.h"

/* What the frameworks of two stored runs differ in. */
struct lw_framework_difference {
    bool differ; /* in name or facts; false where a run has none */
    bool known;  /* both are known ones, so that `facts` is filled */
    int32_t n_facts;
    const char **facts; /* "host.host_op_ns", "usual.zero": that differ; in the arena */
};

/* The same framework: of equal name and facts. Replays, and runs that were stored before version 6
 * of the schema, have none, and suit each. */
bool lw_same_framework(const struct lw_run *a, const struct lw_run *b);

enum lw_status lw_framework_differ(const struct lw_run *a, const struct lw_run *b,
                                   struct lw_arena *arena, struct lw_framework_difference *out,
                                   struct lw_err *err);
