#pragma once

#include <stdio.h>

#include "exec/run/run.h"
#include "shared/plan/cost.h"
#include "shared/cli/cli.h"
#include "shared/framework/framework_choice.h"
#include "shared/framework/memory_figures.h"
#include "shared/timeline/run_sources.h"

/* What an execution says, as text, JSON (DESIGN section 7) or CSV (one line per rank). */
struct lw_exec_report {
    const struct lw_plan *plan;
    const struct lw_exec_options *options;
    const struct lw_exec_result *result;
    const struct lw_summary *summary; /* n_steps 0: no step was measured */
    const char *status, *message;     /* "ok", "failed", "timeout"; "" or what went wrong */
    bool verify;
    const struct lw_workload *workload; /* NULL: not known */
    const struct lw_cluster *cluster;
    bool of_cluster;                    /* the times are of its device, whose peak MFU is over */
    const struct lw_framework_choice *framework;
    const struct lw_memory_figures *memory; /* predicted; NULL: not for such a device, */
    const char *no_memory; /* or for this reason; NULL or "" = none */
    struct lw_cost cost;              /* of the cluster: beside the library's estimates */
    int64_t run;                      /* id in the database; -1 = not stored */
};

/* What the run's times come from, as it is stored (shared/timeline/run_sources.h). */
const char *lw_exec_sources(const struct lw_exec_result *x, enum exec_compute compute,
                            char text[LW_RUN_SOURCES]);

enum lw_status lw_exec_print(const struct lw_exec_report *r, enum lw_format format, FILE *f,
                             struct lw_err *err);
/* For people: where each rank was when the run stopped, and strangers that were turned away;
 * nothing when there is nothing to say. */
void lw_exec_print_stop(const struct lw_exec_report *r, FILE *f);
/* --list-backends. */
enum lw_status lw_exec_print_backends(enum lw_format format, FILE *f, struct lw_err *err);
