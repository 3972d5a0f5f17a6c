#pragma once

#include <stdint.h>

#include "shared/base/err.h"

struct lw_cluster;

/* What PyTorch's gloo process group on CPUs does, which times of its operations do not tell: facts
 * with their sources, and what they add to a cluster that has measured times alone. See
 * docs/design/gloo.md. */

enum lw_gloo_fact_id {
    LW_GLOO_COPY,      /* device.copy_bytes_per_s */
    LW_GLOO_WORKERS,   /* interference.comm_workers */
    LW_GLOO_ON_CORE,   /* interference.comm_on_compute_core */
    LW_GLOO_ONE_LINK,  /* interference.shared_link */
    LW_GLOO_BYTE_CPU,  /* CPU time of a byte that is sent or received, in ps */
    LW_N_GLOO_FACTS,
};

struct lw_gloo_fact {
    const char *name, *unit; /* of a cluster file; unit "" = a count or share */
    double value;
    const char *source;
    const char *fitted_on; /* NULL: not fitted */
    int32_t n_rows;        /* that the fit saw */
};
extern const struct lw_gloo_fact lw_gloo_facts[LW_N_GLOO_FACTS];

/* For times of a CPU: a cluster of measured tables without links, whose library is gloo or not
 * named. Where it is not named, figures that the cluster does not give become the facts', a size of
 * a table costs no more than a larger one, and tables get CPU times. An operation without a table
 * gets one that follows from another operation's. Each source says what is assumed. Other clusters
 * stay as they are. */
enum lw_status lw_gloo_complete(struct lw_cluster *c, struct lw_err *err);
