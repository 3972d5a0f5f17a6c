#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/validate/validate.h"
#include "exec/launch/rendezvous.h"

/* lapwing validate --here: a grid of strategies, each predicted from a calibration of this
 * machine and then executed on it. See docs/design/validate.md. */
struct lw_validate_here {
    const struct exec_backend *backend;
    bool loop;                 /* ranks are streams of one device */
    const struct exec_identity *id; /* this process is one rank of several; NULL = all are in it */
    const char *cluster_file;  /* NULL = calibrate first */
    char **workload_files;     /* what is planned; none = two built-in models */
    int n_workload_files;
    int64_t n_ranks, n_steps;
    const char *only;          /* of the rows, those whose name holds this; NULL = all */
    const char *db;            /* both runs of each row are stored there; NULL = nowhere */
    const char *command;       /* as it was typed */
    bool quiet;
    const volatile sig_atomic_t *stop; /* as of struct lw_progress */
};

/* Where ranks are processes, all call this; rank 0's *v holds the cases, the others' is empty.
 * Adds the family "here", whose rows have a core per rank, and "here, oversubscribed", which is
 * shown and not judged. A strategy that does not fit a workload is a note in its plan's words. */
enum lw_status lw_validate_this_machine(const struct lw_validate_here *h, struct lw_validation *v,
                                        struct lw_err *err);
