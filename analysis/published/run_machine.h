#pragma once

#include "analysis/published/run_table.h"

struct lw_cluster;

/* The cluster of known systems that fits the device and network of a run. LW_ENOTSUP: none does. */
enum lw_status lw_run_machine(const struct lw_run *run, struct lw_cluster *c, struct lw_err *err);
