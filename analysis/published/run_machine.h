#pragma once

#include "analysis/published/run_table.h"

/* Name of the known system that the run's device, network and nodes' state are of, NULL: none. */
const char *lw_run_cluster(const struct lw_run *run);
/* "400 Gb/s per node ...": the line rate of all ports of a node together, as stated; 0: not. */
double lw_run_node_gbps(const struct lw_run *run);
