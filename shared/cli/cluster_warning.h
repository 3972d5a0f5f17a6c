#pragma once

#include <stdint.h>

struct lw_cluster;

/* To standard error, a line for each figure of the cluster that no machine has and that a job of
 * n_ranks (0 = not known) uses. */
void lw_cluster_warn(const struct lw_cluster *c, int64_t n_ranks);
