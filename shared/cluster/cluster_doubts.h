#pragma once

#include <stddef.h>

#include "shared/cluster/cluster.h"

/* Figures that the check allows and no machine has: a rate in the wrong unit, a network without
 * latency. The first from the k-th of lw_cluster_figure on: its number, and a text that names the
 * field, the value and what is usual; -1: there is none. */
int lw_cluster_doubt(const struct lw_cluster *c, int k, char *text, size_t size);
