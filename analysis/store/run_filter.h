#pragma once

#include <stdint.h>

#include "analysis/store/store.h"

/* The words of --workload, --since and --kind; NULL = any. */
struct lw_run_filter {
    const char *workload, *since, *kind;
    int64_t since_s; /* set by lw_run_filter_check */
};

/* LW_EINVAL: an invalid date. */
enum lw_status lw_run_filter_check(struct lw_run_filter *w, struct lw_err *err);
enum lw_status lw_run_since_check(const char *since, struct lw_err *err); /* of --since */
/* The runs that are named, else all; of them those that the filter lets through. */
enum lw_status lw_run_filter_select(struct lw_store *s, char **names, int n_names,
                                    const struct lw_run_filter *w, struct lw_arena *a,
                                    struct lw_run **runs, int32_t *n, struct lw_err *err);
