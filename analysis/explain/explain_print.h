#pragma once

#include <stdio.h>

#include "analysis/explain/explain.h"
#include "analysis/explain/explain_faster.h"
#include "analysis/store/store.h"
#include "shared/cli/cli.h"

/* A step simulated again with one thing changed. */
struct lw_what_if {
    const char *name, *key; /* "twice the bandwidth", "twice_the_bandwidth" */
    lw_ps step, exposed_comm;
    lw_ps change;      /* of the step; INT64_MIN for the first, the unchanged run */
    double change_pct; /* NaN there */
};

/* An explanation with what belongs to it. n_what_ifs 0: none, and why; else the first one is the
 * run simulated as it is. */
struct lw_explain_report {
    const struct lw_run *run;
    const struct lw_plan *plan;
    const struct lw_explanation *e;
    const struct lw_path_bounds *bounds;
    const struct lw_faster *faster; /* none of a measured run */
    int n_faster;
    const struct lw_what_if *what_ifs;
    int n_what_ifs;
    const struct lw_sim_stats *stats; /* of the first */
    bool all;        /* text: every piece of the path, not only the longest */
    const char *why; /* there are none; or what to know about them; "" */
};

enum lw_status lw_explain_print(const struct lw_explain_report *r, enum lw_format format, FILE *f,
                                struct lw_err *err);
