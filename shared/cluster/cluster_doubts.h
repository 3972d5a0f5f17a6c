#pragma once

#include <stddef.h>

#include "shared/cluster/cluster.h"

/* Figures that the check allows and no machine has: a rate in the wrong unit, a network without
 * latency, a measured table that is faster than the links. The first from the k-th on, of
 * lw_cluster_figure and then of the tables: its number, and a text that names the field, the value
 * and what is usual; -1: there is none. n_ranks: of the job, whose ranks fill nodes in order: no
 * latency is named of a link that it does not use; 0: not known, and links inside a node are not
 * doubted for a latency of 0. */
int lw_cluster_doubt(const struct lw_cluster *c, int64_t n_ranks, int k, char *text, size_t size);
