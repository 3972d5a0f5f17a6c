#pragma once

#include "analysis/published/run_table.h"
#include "shared/base/err.h"

struct lw_framework;

/* The options of `lapwing sim` that a run's row stands for: what a user types. "workload",
 * "cluster" and "framework" are -w, -c and --framework. value NULL: a flag. */
enum { LW_RUN_OPTIONS = 64 };
struct lw_run_options {
    int n;
    struct lw_run_option {
        const char *name;
        char value[64];
        bool is_flag;
    } options[LW_RUN_OPTIONS];
};

/* Fills what a row leaves open from what it gives (dp from gpus, batch from its parts), and makes
 * the options. LW_ENOTSUP: the run cannot be expressed; the message is the reason, without file or
 * row, so that equal reasons can be counted. */
enum lw_status lw_run_express(struct lw_run *run, struct lw_run_options *out, struct lw_err *err);

/* The known framework that a row's cells name. */
const char *lw_run_framework(const struct lw_run *run);
