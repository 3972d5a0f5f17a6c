#pragma once

struct lw_cluster;

/* To standard error, a line for each figure of the cluster that no machine has. */
void lw_cluster_warn(const struct lw_cluster *c);
