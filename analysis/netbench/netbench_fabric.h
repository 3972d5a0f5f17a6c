#pragma once

#include "shared/cluster/cluster.h"

/* The words of a published nccl-tests table (gpu, intra, inter) as a cluster: docs/design/nccl.md.
 */
struct netbench_fabric {
    const char *gpu, *intra, *inter; /* as the table says; borrowed */
    int32_t n_ranks, n_nodes;
    const char *source; /* of the row, borrowed; may be NULL: what its job sets is not known */
};

/* Why the table cannot be compared with NCCL on a fabric that does what its parts say; NULL: it
 * can. *can_predict: whether a prediction can be shown all the same. */
const char *netbench_apart(const struct netbench_fabric *f, const char *algo, bool *can_predict);

/* Host time in us of each call that the times of this source contain: 0 for nccl-tests with a
 * process for each GPU, whose calls queue on the device. */
double netbench_host_us(const char *source);

/* The cluster, and how many of its nodes the ranks live on (a rack of NVL72 is one). LW_ENOTSUP:
 * words that are not known. Nothing in it is owned: it needs no free and lives as long as links[2].
 */
enum lw_status netbench_cluster(const struct netbench_fabric *f, struct lw_link links[2],
                                struct lw_cluster *out, int32_t *n_nodes, struct lw_err *err);
