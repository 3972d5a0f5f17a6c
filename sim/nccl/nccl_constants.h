#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* The constants of NCCL's own cost model, one set for each library version that changed them. They
 * are facts of NVIDIA/nccl, src/graph/tuning.cc and src/graph/search.cc, at the tags named in the
 * table. Times in us, bandwidths in GB/s of 10^9 bytes, as there. */

enum sim_nccl_algorithm {
    SIM_NCCL_TREE,
    SIM_NCCL_RING,
    SIM_NCCL_COLLNET_DIRECT,
    SIM_NCCL_COLLNET_CHAIN,
    SIM_NCCL_NVLS,
    SIM_NCCL_NVLS_TREE,
    SIM_NCCL_PAT,
    SIM_N_NCCL_ALGORITHMS,
};

enum sim_nccl_protocol { SIM_NCCL_LL, SIM_NCCL_LL128, SIM_NCCL_SIMPLE, SIM_N_NCCL_PROTOCOLS };

/* Rows of the bandwidth caps: the GPU's compute capability. */
enum sim_nccl_arch {
    SIM_NCCL_VOLTA,
    SIM_NCCL_AMPERE,
    SIM_NCCL_HOPPER,
    SIM_NCCL_BLACKWELL,
    SIM_N_NCCL_ARCHS,
};

enum sim_nccl_wire { SIM_NCCL_NVLINK, SIM_NCCL_PCI, SIM_NCCL_NET, SIM_N_NCCL_WIRES };

enum { SIM_NCCL_N_CORRECTIONS = 24 };

struct sim_nccl_latencies {
    double base[SIM_N_NCCL_ALGORITHMS][SIM_N_NCCL_PROTOCOLS];
    double wire[SIM_N_NCCL_WIRES][SIM_N_NCCL_ALGORITHMS][SIM_N_NCCL_PROTOCOLS];
};

/* By architecture, then by nodes: one, two, more. */
typedef double sim_nccl_caps[SIM_N_NCCL_ARCHS][3];

struct sim_nccl_bandwidths {
    sim_nccl_caps ll; /* of the bus; over several nodes row 0 is an Intel host, row 1 an AMD host */
    sim_nccl_caps ring_ll128, tree_ll128, tree, nvls_tree; /* of a channel; nvls_tree: 0 = no cap */
};

/* Speeds of a channel that the graph search tries, falling, 0 after the last: up to Ampere, Hopper,
 * Blackwell. */
struct sim_nccl_speeds {
    const double *intra[3], *inter[3];
};

/* Rules that changed between versions. */
struct sim_nccl_rules {
    bool ring_ll_quarter; /* ring LL at 1/4 or 1/3 of the bandwidth, not 1/2 */
    bool before_2_23;     /* ring LL128 at 0.7 with one rank on a node; 2N network steps of an
                           * all-reduce, not 2(N-1); NVLS gathers at 5/6 */
    bool exposed_net;     /* one rank on a node pays the tree's network latency */
    bool has_pat;
    bool collnet_gathers;      /* CollNet direct gathers and scatters */
    bool collnet_by_share;     /* ... at a share of 0.95 to 0.85, by ranks on a node */
    bool nvls_gather_by_ranks; /* NVLS gathers at (p-1)/p of the NVLink or 0.9 of the network
                                  bandwidth */
    bool nvls_by_efficiency;   /* NVLS by R/n with an efficiency; else 5/6 */
    bool nvls_tree_corrected;  /* the tree correction holds for NVLSTree on Blackwell with an x86
                                  host */
    int nvls_arity;            /* heads of NVLS at most */
    int least_nvls_ranks;      /* ranks of a node that NVLS needs */
};

struct sim_nccl_version {
    const char *name, *source;
    int32_t number; /* 10000 * major + 100 * minor + patch */
    const struct sim_nccl_latencies *latencies;
    const struct sim_nccl_bandwidths *bandwidths;
    const struct sim_nccl_speeds *speeds;
    double pat_share;
    struct sim_nccl_rules rules;
};

/* The constants for a library version "2.27.3": the newest that are not newer. Empty: the newest of
 * all. LW_EINVAL: no version number, or one before the first row. */
enum lw_status sim_nccl_version_of(const char *text, const struct sim_nccl_version **out,
                                   struct lw_err *err);
/* The sentence that says that `text` is a newer version than the newest row; false: it is not. */
bool sim_nccl_say_newer(const char *text, char *out, size_t size);

extern const double sim_nccl_nvls_efficiency[SIM_N_NCCL_ARCHS];
/* By floor(log2(bytes / 64)); beyond the last entry 1. */
extern const double sim_nccl_tree_correction[SIM_N_NCCL_PROTOCOLS][SIM_NCCL_N_CORRECTIONS];

const char *sim_nccl_algorithm_name(enum sim_nccl_algorithm a); /* "nvls-tree" */
const char *sim_nccl_protocol_name(enum sim_nccl_protocol p);   /* "ll128" */
