#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"

struct traces_replay_rule;
struct lw_kernel_table;

/* What `lapwing sim --replay` changes: network, number of ranks, device. Zeroed = nothing. See
 * docs/design/replay.md. */
struct sim_whatif {
    const char *network;              /* -c; NULL = recorded times */
    int64_t ranks;                    /* --ranks; 0 = as recorded */
    const char *device, *from_device; /* --device, --from-device */
    bool as_recorded;                 /* --as-recorded: the network of a cluster of another kind */
    const struct lw_kernel_table *kernels;
    int32_t world;               /* ranks of the recorded run; -1 = the traces do not say */
    const char *recorded_device; /* as the trace names it; "" = it does not */

    bool alone, no_device; /* the recording is of one rank without a collective; of a host alone */
    struct lw_cluster net, to, from;
    bool has_net, has_device;
    bool untimed; /* the recording holds no times: kernels are timed by shape */
    int64_t n_products, n_traffic;
    int64_t n_comm, n_comm_kept, n_resized, n_compute, n_memory, n_other, n_unsized;
    int64_t n_untyped; /* products of unknown type */
    int64_t n_unknown; /* collectives whose number of ranks is not recorded: --ranks gives it */
    double untyped, all_kernels; /* recorded time of those, and of all kernels */
    char note[9][320];
};

bool sim_whatif_asked(const struct sim_whatif *w);
/* Read the clusters and fill the rule, which borrows w. LW_EINVAL names what is missing. */
enum lw_status sim_whatif_open(struct sim_whatif *w, struct traces_replay_rule *rule,
                               struct lw_err *err);
/* Before the plan is built again: nothing was timed yet. */
void sim_whatif_restart(struct sim_whatif *w);
/* After the plan was built: LW_EINVAL where what was asked acts on nothing of the recording. */
enum lw_status sim_whatif_acted(const struct sim_whatif *w, struct lw_err *err);
void sim_whatif_close(struct sim_whatif *w);
