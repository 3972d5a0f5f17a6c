#pragma once

#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "shared/cluster/cluster.h"

/* What hfreduce can do on a node: devices copy to the host, the CPU adds, hosts reduce and
 * broadcast over a double binary tree, results are copied back. Each ceiling is the rate, in
 * bytes of one device's buffer per second, at which that resource alone would let the pipeline
 * run. 0 = the node has no such thing (one node: no network; no bridge that devices share). */
enum sim_ceiling { SIM_CEILING_MEMORY, SIM_CEILING_PCIE, SIM_CEILING_BRIDGE, SIM_CEILING_NIC,
                   SIM_N_CEILINGS };

struct sim_hfreduce {
    double bytes_per_s[SIM_N_CEILINGS];
    enum sim_ceiling least;
    int32_t touches;         /* of host memory per byte of one device's buffer */
    double device_bytes_per_s; /* least of memory, pcie, bridge: what a slot of copies runs at */
    lw_ps latency;           /* between hosts */
    lw_ps copy_latency;      /* of the first copy in and of the last out: those between overlap */
    int64_t piece_bytes;
    const char *source;      /* of the least ceiling */
};

/* per_node: devices that take part on each of n_nodes nodes. LW_ENOTSUP names the missing
 * figure. */
enum lw_status sim_hfreduce_of(const struct lw_cluster *c, int32_t per_node, int32_t n_nodes,
                               struct sim_hfreduce *out, struct lw_err *err);
const char *sim_ceiling_name(enum sim_ceiling k); /* "host memory", "PCIe", "host bridge", "NIC" */
