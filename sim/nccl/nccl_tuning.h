#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/plan/op.h"
#include "shared/strategy/reducer_kind.h"
#include "sim/nccl/nccl_constants.h"
#include "sim/nccl/nccl_graph.h"

/* NCCL's cost model: latency and bandwidth of every (operation, algorithm, protocol) of a
 * communicator, and the time of so many bytes. See docs/design/nccl.md. */

/* The pairs that may be chosen: bit (algorithm * SIM_N_NCCL_PROTOCOLS + protocol). */
typedef uint32_t sim_nccl_pairs;
/* All there are: tree and ring by any protocol, the rest by Simple. */
#define SIM_NCCL_ALL_PAIRS 0x12493fu

struct sim_nccl_comm {
    const struct sim_nccl_version *version;
    enum sim_nccl_arch arch;
    int32_t n_ranks, n_nodes;
    bool nvlink;  /* devices of a node reach each other by NVLink; else by PCIe */
    bool ll128;   /* the paths are fit for LL128 */
    bool multicast; /* NVSwitch with multicast */
    bool collnet; /* the network reduces (SHARP) and NCCL is told to use it */
    bool amd_host, x86_host;
    double net_latency_us; /* that the network plug-in adds to a step between nodes */
    double post_us;        /* host time to post one network operation */
    double port_gbs;       /* of a device on PCIe while the node's ranks all send; 0: the links' */
    double inter_gbs;      /* what groups side by side leave of the node's adapters; 0: all */
    /* what NCCL_ALGO and NCCL_PROTO switch off, by function as in lw_nccl_lists */
    sim_nccl_pairs off[LW_N_NCCL_FUNCTIONS];
    struct sim_nccl_graphs graphs;
};

struct sim_nccl_cell {
    double latency_us, gbs; /* gbs: bytes of the operation, not of the bus */
    double ring_us; /* what a ring takes beyond latency_us: sim_nccl_beyond_us */
    int32_t n_channels;
};

/* False where NCCL does not offer the pair for op. op: all-reduce, reduce-scatter, all-gather,
 * broadcast, reduce. n_ranks > 1. */
bool sim_nccl_cell_of(const struct sim_nccl_comm *c, enum lw_op_kind op, enum sim_nccl_algorithm a,
                      enum sim_nccl_protocol p, struct sim_nccl_cell *out);

/* Time in us of `bytes` by a cell; *latency_us: what of it is latency at this size. */
double sim_nccl_time_us(const struct sim_nccl_comm *c, enum lw_op_kind op,
                        enum sim_nccl_algorithm a, enum sim_nccl_protocol p,
                        const struct sim_nccl_cell *cell, int64_t bytes, double *latency_us);

struct sim_nccl_choice {
    enum sim_nccl_algorithm algorithm;
    enum sim_nccl_protocol protocol;
    struct sim_nccl_cell cell;
    double time_us, latency_us; /* latency_us: its part that no byte moves */
};

/* The fastest of the allowed pairs that are in `pairs`; of equals the first. False: none is
 * allowed. */
bool sim_nccl_choose(const struct sim_nccl_comm *c, enum lw_op_kind op, int64_t bytes,
                     sim_nccl_pairs pairs, struct sim_nccl_choice *out);

/* The same in two parts: what holds for all sizes of an operation on a communicator, and the choice
 * at one size. */
struct sim_nccl_cells {
    sim_nccl_pairs pairs; /* that exist */
    struct sim_nccl_cell cell[SIM_N_NCCL_ALGORITHMS * SIM_N_NCCL_PROTOCOLS];
};
void sim_nccl_cells_of(const struct sim_nccl_comm *c, enum lw_op_kind op,
                       struct sim_nccl_cells *out);
bool sim_nccl_choose_of(const struct sim_nccl_comm *c, enum lw_op_kind op, int64_t bytes,
                        sim_nccl_pairs pairs, const struct sim_nccl_cells *cells,
                        struct sim_nccl_choice *out);

/* Whether NCCL has any of the pairs for op, on some shape. */
bool sim_nccl_offers(const struct sim_nccl_version *v, enum lw_op_kind op, sim_nccl_pairs pairs);

/* Thread blocks of the kernel that moves `bytes`, each on an SM of its own: the channels, which
 * NCCL doubles after its search and lowers for small sizes. */
int32_t sim_nccl_blocks(const struct sim_nccl_comm *c, enum sim_nccl_algorithm a,
                        enum sim_nccl_protocol p, int64_t bytes);

/* What NCCL's model leaves out of the time of a choice on n_blocks blocks: between nodes the
 * boundaries that a ring crosses and messages of LL; on one node of NVLink, and of PCIe whose rates
 * were measured, what kernels take beyond its constants, which are the same for all generations.
 * docs/design/nccl.md, "Calibration". */
double sim_nccl_beyond_us(const struct sim_nccl_comm *c, enum lw_op_kind op,
                          const struct sim_nccl_choice *choice, int32_t n_blocks);

/* Of messages inside one node of NVLink or of measured PCIe, peer_bytes to each rank, which take
 * link_us on the links: their time; 0: not measured on such a device. */
double sim_nccl_p2p_us(const struct sim_nccl_comm *c, int64_t peer_bytes, double link_us);
