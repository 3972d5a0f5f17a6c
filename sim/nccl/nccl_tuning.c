/* NCCL's tuning model (NVIDIA/nccl, src/graph/tuning.cc, ncclTopoTuneModel and ncclTopoGetAlgoTime;
 * which pairs exist: the same and src/enqueue.cc), by formula.
 *
 * R ranks, N nodes, p = R / N; c channels of speed b; steps n = 2(R-1) all-reduce, R-1
 * reduce-scatter and all-gather, R broadcast and reduce. Bandwidth of the bus B = c b with each
 * algorithm's limits; of the operation B R/n (ring), B/2 (tree). Latency = base + steps inside
 * nodes + steps between nodes. Time = latency + bytes / bandwidth; trees times a correction by
 * size; Simple rings between nodes with 1.4 of the latency (1.9 before Ampere) once a rank's share
 * of a channel reaches 64 bytes.
 *
 * Not modelled: several operations fused into one launch, devices of unlike capability, POWER
 * hosts. */
#include "sim/nccl/nccl_tuning.h"

static double least(double a, double b)
{
    return a < b ? a : b;
}

static int floor_log2(int64_t n)
{
    return n > 0 ? 63 - __builtin_clzll((unsigned long long)n) : 0;
}

static bool gathers(enum lw_op_kind op)
{
    return op == LW_OP_REDUCE_SCATTER || op == LW_OP_ALL_GATHER;
}

static const struct sim_nccl_graph *graph_of(const struct sim_nccl_comm *c,
                                             enum sim_nccl_algorithm a)
{
    switch (a) {
    case SIM_NCCL_RING:
        return &c->graphs.ring;
    case SIM_NCCL_TREE:
    case SIM_NCCL_PAT:
        return &c->graphs.tree;
    case SIM_NCCL_NVLS:
    case SIM_NCCL_NVLS_TREE:
        return &c->graphs.nvls;
    default:
        return &c->graphs.collnet;
    }
}

static bool is_collnet(enum sim_nccl_algorithm a)
{
    return a == SIM_NCCL_COLLNET_DIRECT || a == SIM_NCCL_COLLNET_CHAIN;
}

/* Which algorithms an operation has at all. */
static bool offers(const struct sim_nccl_version *v, enum lw_op_kind op, enum sim_nccl_algorithm a)
{
    if (a == SIM_NCCL_RING)
        return gathers(op) || op == LW_OP_ALL_REDUCE || op == LW_OP_BROADCAST || op == LW_OP_REDUCE;
    if (op == LW_OP_ALL_REDUCE)
        return a != SIM_NCCL_PAT;
    if (!gathers(op))
        return false;
    return a == SIM_NCCL_NVLS || (a == SIM_NCCL_PAT && v->rules.has_pat) ||
           (a == SIM_NCCL_COLLNET_DIRECT && v->rules.collnet_gathers);
}

bool sim_nccl_offers(const struct sim_nccl_version *v, enum lw_op_kind op, sim_nccl_pairs pairs)
{
    for (int a = 0; pairs; a++, pairs >>= SIM_N_NCCL_PROTOCOLS)
        if ((pairs & ((1u << SIM_N_NCCL_PROTOCOLS) - 1)) &&
            offers(v, op, (enum sim_nccl_algorithm)a))
            return true;
    return false;
}

/* NVLS and CollNet by what they need of nodes and switches. */
static bool switches_allow(const struct sim_nccl_comm *c, enum lw_op_kind op,
                           enum sim_nccl_algorithm a)
{
    const struct sim_nccl_rules *rules = &c->version->rules;
    int32_t on_node = (c->n_ranks + c->n_nodes - 1) / c->n_nodes;

    if (is_collnet(a))
        return c->collnet && c->n_nodes > 1 && on_node <= 8 &&
               (a == SIM_NCCL_COLLNET_CHAIN || c->graphs.nvls.n_channels > 0 || c->nvlink) &&
               (!gathers(op) || on_node <= c->graphs.collnet.n_channels);
    if (on_node < rules->least_nvls_ranks ||
        (rules->nvls_by_efficiency && c->graphs.nvls.n_channels < 2))
        return false;
    if (a == SIM_NCCL_NVLS_TREE)
        return c->n_nodes > 1;
    if (gathers(op) && on_node > rules->nvls_arity)
        return false;
    return c->n_nodes == 1 ||
           (c->collnet && (!gathers(op) || on_node <= c->graphs.nvls.n_channels));
}

static bool algorithm_allowed(const struct sim_nccl_comm *c, enum lw_op_kind op,
                              enum sim_nccl_algorithm a)
{
    if (!offers(c->version, op, a) || graph_of(c, a)->n_channels < 1)
        return false;
    if (a == SIM_NCCL_RING || a == SIM_NCCL_TREE)
        return true;
    return a == SIM_NCCL_PAT ? c->n_nodes == c->n_ranks : switches_allow(c, op, a);
}

/* The protocols of an algorithm, as bits. */
static unsigned protocols_of(const struct sim_nccl_comm *c, enum sim_nccl_algorithm a)
{
    if (a != SIM_NCCL_RING && a != SIM_NCCL_TREE)
        return 1u << SIM_NCCL_SIMPLE;
    return 1u << SIM_NCCL_LL | (unsigned)c->ll128 << SIM_NCCL_LL128 | 1u << SIM_NCCL_SIMPLE;
}

/* --- bandwidth --- */

struct limits {                /* of the caps' tables for this communicator */
    double ll, ll128, channel; /* ll: of the bus; the others of a channel; 0 = none */
};

static struct limits limits_of(const struct sim_nccl_comm *c, enum sim_nccl_algorithm a)
{
    const struct sim_nccl_bandwidths *t = c->version->bandwidths;
    int n = c->n_nodes <= 2 ? c->n_nodes - 1 : 2, row = c->arch;
    double ll = t->ll[c->n_nodes == 1 ? row : c->amd_host ? 1 : 0][n];

    switch (a) {
    case SIM_NCCL_RING:
        return (struct limits){ll, t->ring_ll128[row][n], 0};
    case SIM_NCCL_TREE:
        return (struct limits){ll, t->tree_ll128[row][n], t->tree[row][n]};
    default:
        return (struct limits){0, 0, t->nvls_tree[row][n]};
    }
}

static double nvls_channel(const struct sim_nccl_comm *c, enum lw_op_kind op, bool tree, double cap)
{
    const struct sim_nccl_graph *g = &c->graphs.nvls;
    double p = (double)c->n_ranks / c->n_nodes, intra = g->intra_gbs, inter = g->inter_gbs;

    if (c->version->rules.nvls_by_efficiency) {
        intra *= sim_nccl_nvls_efficiency[c->arch] * (g->n_channels - 1) / g->n_channels;
        intra *= op == LW_OP_ALL_REDUCE ? 2 : (p - 1) / p;
        inter *= c->n_nodes <= 2 && tree ? 2 : 1;
        return tree && cap > 0 ? least(least(intra, inter), cap) : least(intra, inter);
    }
    if (tree)
        return least(intra, c->n_nodes <= 2 ? inter : inter / 2);
    if (gathers(op) && c->version->rules.nvls_gather_by_ranks)
        return least(intra * (p - 1) / p, inter * .9);
    return least(intra, inter);
}

static double ring_bus(const struct sim_nccl_comm *c, enum lw_op_kind op, enum sim_nccl_protocol p,
                       double bus, struct limits l)
{
    const struct sim_nccl_rules *rules = &c->version->rules;
    double share = .5;

    if (rules->ring_ll_quarter)
        share = c->n_nodes > 1 || op == LW_OP_ALL_REDUCE || op == LW_OP_REDUCE ? 1.0 / 4 : 1.0 / 3;
    if (p == SIM_NCCL_LL)
        return least(l.ll, bus * share);
    if (p == SIM_NCCL_LL128) {
        share = rules->before_2_23 && c->n_ranks < 2 * c->n_nodes ? .7 : .92;
        return least(bus * share, c->graphs.ring.n_channels * l.ll128);
    }
    return bus;
}

static double tree_bus(const struct sim_nccl_comm *c, enum sim_nccl_protocol p, double bus,
                       struct limits l)
{
    int32_t n = c->graphs.tree.n_channels;

    bus = least(bus * .92, n * l.channel);
    if (p == SIM_NCCL_LL)
        bus = least(bus / 3.8, l.ll);
    if (p == SIM_NCCL_LL128)
        bus = least(bus * (c->n_nodes == 1 ? 7.0 / 9 : 120.0 / 128), n * l.ll128);
    return c->graphs.simple_tree ? bus * .85 : bus;
}

static double collnet_direct_bus(const struct sim_nccl_comm *c, enum lw_op_kind op, double bus)
{
    const struct sim_nccl_graph *g = &c->graphs.collnet;
    double p = (double)c->n_ranks / c->n_nodes, factor = p / g->n_channels, w = (p - 1) / 7;

    if (gathers(op) && c->version->rules.collnet_by_share)
        return p * g->intra_gbs * (w * .85 + (1 - w) * .95);
    if (gathers(op))
        return p * least(g->intra_gbs, g->inter_gbs * .9);
    bus /= factor - (factor - 1) / 2;
    return c->arch >= SIM_NCCL_HOPPER ? bus * .85 : bus;
}

static double bus_of(const struct sim_nccl_comm *c, enum lw_op_kind op, enum sim_nccl_algorithm a,
                     enum sim_nccl_protocol p)
{
    const struct sim_nccl_graph *g = graph_of(c, a);
    struct limits l = limits_of(c, a);
    double speed = c->n_nodes <= 2 || is_collnet(a) ? g->intra_gbs : g->inter_gbs;
    double bus = g->n_channels * speed;

    switch (a) {
    case SIM_NCCL_RING:
        return ring_bus(c, op, p, bus, l);
    case SIM_NCCL_TREE:
        return tree_bus(c, p, bus, l);
    case SIM_NCCL_PAT:
        return bus * c->version->pat_share;
    case SIM_NCCL_COLLNET_DIRECT:
        return collnet_direct_bus(c, op, bus);
    case SIM_NCCL_NVLS:
    case SIM_NCCL_NVLS_TREE:
        return g->n_channels * nvls_channel(c, op, a == SIM_NCCL_NVLS_TREE, l.channel);
    default:
        return bus;
    }
}

static int64_t steps_of(enum lw_op_kind op, int64_t n_ranks)
{
    return op == LW_OP_ALL_REDUCE ? 2 * (n_ranks - 1) : gathers(op) ? n_ranks - 1 : n_ranks;
}

/* Bytes of the operation that a byte on the bus moves. */
static double ratio_of(const struct sim_nccl_comm *c, enum lw_op_kind op, enum sim_nccl_algorithm a)
{
    bool nvls = a == SIM_NCCL_NVLS || a == SIM_NCCL_NVLS_TREE;
    bool old = c->version->rules.before_2_23; /* converts gathers too */

    if (a != SIM_NCCL_RING && gathers(op) && !(old && nvls))
        return 1;
    if (a == SIM_NCCL_RING || (nvls && c->version->rules.nvls_by_efficiency))
        return (double)c->n_ranks / (double)steps_of(op, c->n_ranks);
    return nvls ? 5.0 / 6 : .5;
}

/* --- latency --- */

/* Of a hop between nodes; `as`: the algorithm whose constant it is. */
static double hop_between(const struct sim_nccl_comm *c, enum sim_nccl_algorithm as,
                          enum sim_nccl_protocol p)
{
    return c->version->latencies->wire[SIM_NCCL_NET][as][p] +
           c->net_latency_us * (p == SIM_NCCL_SIMPLE ? 2 : 1);
}

/* All steps of a ring of which so many are between nodes. */
static double ring_steps(const struct sim_nccl_comm *c, enum lw_op_kind op,
                         enum sim_nccl_protocol p, int64_t between, double inter)
{
    double post = c->n_nodes > 1 ? c->post_us * (p == SIM_NCCL_SIMPLE ? 3 : 1) : 0;
    enum sim_nccl_wire w = c->nvlink ? SIM_NCCL_NVLINK : SIM_NCCL_PCI;
    double intra = c->version->latencies->wire[w][SIM_NCCL_RING][p];

    intra = intra > post ? intra : post;
    return (double)(steps_of(op, c->n_ranks) - between) * intra + (double)between * inter;
}

static double ring_latency(const struct sim_nccl_comm *c, enum lw_op_kind op,
                           enum sim_nccl_protocol p, double inter)
{
    int64_t between = c->n_nodes - 1;

    if (op == LW_OP_BROADCAST || op == LW_OP_REDUCE) {
        enum sim_nccl_wire w = c->n_nodes > 1 ? SIM_NCCL_NET
                               : c->nvlink    ? SIM_NCCL_NVLINK
                                              : SIM_NCCL_PCI;
        if (!c->graphs.rings_differ) /* one chain: one hop, whatever its length */
            return c->version->latencies->wire[w][SIM_NCCL_RING][p];
        enum sim_nccl_algorithm a = p == SIM_NCCL_SIMPLE ? SIM_NCCL_TREE : SIM_NCCL_RING;
        return (double)steps_of(op, c->n_ranks) * c->version->latencies->wire[w][a][p];
    }
    if (op == LW_OP_ALL_REDUCE)
        between = 2 * (c->version->rules.before_2_23 && c->n_nodes > 1 ? between + 1 : between);
    return ring_steps(c, op, p, between, inter);
}

static double latency_of(const struct sim_nccl_comm *c, enum lw_op_kind op,
                         enum sim_nccl_algorithm a, enum sim_nccl_protocol p)
{
    const struct sim_nccl_latencies *t = c->version->latencies;
    bool exposed = c->version->rules.exposed_net && c->n_ranks == c->n_nodes;
    double base = t->base[a][p], intra = t->wire[c->nvlink ? SIM_NCCL_NVLINK : SIM_NCCL_PCI][a][p];
    double inter = hop_between(c, exposed ? SIM_NCCL_TREE : a, p);

    if (a == SIM_NCCL_RING)
        return base + ring_latency(c, op, p, inter);
    int32_t others = c->n_ranks / c->n_nodes - 1, levels = floor_log2(c->n_nodes);
    switch (a) {
    case SIM_NCCL_TREE:
        return base + 2 * (others * intra + levels * inter);
    case SIM_NCCL_COLLNET_DIRECT:
        return base + 2 * ((others < 1 ? others : 1) * intra + others * .4) + inter;
    case SIM_NCCL_COLLNET_CHAIN:
        return base + 2 * others * intra + inter;
    case SIM_NCCL_NVLS:
        return intra + (c->n_nodes > 1 ? inter : 0);
    case SIM_NCCL_NVLS_TREE:
        return base + intra + 2 * levels * inter;
    default: /* PAT */
        return base + levels * (inter / 3.5) + c->n_ranks * 2.8;
    }
}

/* Where a node has several ranks, a chunk of a ring crosses all boundaries between nodes in each
 * round. The model has one less, and hides a part of the network's latency; nothing hides it on the
 * way of one chunk, and NCCL's own constant for that is the tree's. */
static double ring_beyond(const struct sim_nccl_comm *c, enum lw_op_kind op,
                          enum sim_nccl_protocol p, double latency)
{
    int64_t rounds = op == LW_OP_ALL_REDUCE ? 2 : 1;

    if (c->n_nodes < 2 || c->n_ranks == c->n_nodes || op == LW_OP_BROADCAST || op == LW_OP_REDUCE)
        return 0;
    bool exposed = c->version->rules.exposed_net;
    double inter = hop_between(c, exposed ? SIM_NCCL_TREE : SIM_NCCL_RING, p);
    double beyond = c->version->latencies->base[SIM_NCCL_RING][p] +
                    ring_steps(c, op, p, rounds * c->n_nodes, inter) - latency;
    return beyond > 0 ? beyond : 0;
}

/* --- what others ask --- */

/* What bytes cost in a cell that has its latency; false: no channel carries anything. */
static bool add_rate(const struct sim_nccl_comm *c, enum lw_op_kind op, enum sim_nccl_algorithm a,
                     enum sim_nccl_protocol p, struct sim_nccl_cell *out)
{
    out->gbs = bus_of(c, op, a, p) * ratio_of(c, op, a);
    out->n_channels = graph_of(c, a)->n_channels;
    return out->gbs > 0;
}

static bool is_off(const struct sim_nccl_comm *c, enum lw_op_kind op, enum sim_nccl_algorithm a,
                   enum sim_nccl_protocol p)
{
    int f = op == LW_OP_BROADCAST        ? 0
            : op == LW_OP_REDUCE         ? 1
            : op == LW_OP_ALL_GATHER     ? 2
            : op == LW_OP_REDUCE_SCATTER ? 3
                                         : 4;

    return c->off[f] >> (a * SIM_N_NCCL_PROTOCOLS + p) & 1;
}

bool sim_nccl_cell_of(const struct sim_nccl_comm *c, enum lw_op_kind op, enum sim_nccl_algorithm a,
                      enum sim_nccl_protocol p, struct sim_nccl_cell *out)
{
    if (!(protocols_of(c, a) >> p & 1) || !algorithm_allowed(c, op, a) || is_off(c, op, a, p))
        return false;
    out->latency_us = latency_of(c, op, a, p);
    out->ring_us = a == SIM_NCCL_RING ? ring_beyond(c, op, p, out->latency_us) : 0;
    return add_rate(c, op, a, p, out);
}

double sim_nccl_time_us(const struct sim_nccl_comm *c, enum lw_op_kind op,
                        enum sim_nccl_algorithm a, enum sim_nccl_protocol p,
                        const struct sim_nccl_cell *cell, int64_t bytes, double *latency_us)
{
    double gbs = cell->gbs, latency = cell->latency_us;
    int size = floor_log2(bytes >> 6);
    bool x86_blackwell = c->arch >= SIM_NCCL_BLACKWELL && c->x86_host;

    if (op == LW_OP_ALL_REDUCE && a == SIM_NCCL_TREE && size < SIM_NCCL_N_CORRECTIONS - 1)
        gbs *= sim_nccl_tree_correction[p][size];
    if (op == LW_OP_ALL_REDUCE && a == SIM_NCCL_NVLS_TREE && size < SIM_NCCL_N_CORRECTIONS &&
        c->version->rules.nvls_tree_corrected && x86_blackwell)
        gbs *= sim_nccl_tree_correction[p][size];
    if (op == LW_OP_ALL_REDUCE && a == SIM_NCCL_RING && p == SIM_NCCL_SIMPLE && c->n_nodes > 1 &&
        bytes / ((int64_t)c->graphs.ring.n_channels * c->n_ranks) >= 64)
        latency *= c->arch < SIM_NCCL_AMPERE ? 1.9 : 1.4;
    *latency_us = latency;
    return latency + (double)bytes / (1000 * gbs);
}

void sim_nccl_cells_of(const struct sim_nccl_comm *c, enum lw_op_kind op,
                       struct sim_nccl_cells *out)
{
    out->pairs = 0;
    for (int a = 0; a < SIM_N_NCCL_ALGORITHMS; a++)
        for (int p = 0; p < SIM_N_NCCL_PROTOCOLS; p++)
            if (sim_nccl_cell_of(c, op, (enum sim_nccl_algorithm)a, (enum sim_nccl_protocol)p,
                                 &out->cell[a * SIM_N_NCCL_PROTOCOLS + p]))
                out->pairs |= (sim_nccl_pairs)1 << (a * SIM_N_NCCL_PROTOCOLS + p);
}

bool sim_nccl_choose_of(const struct sim_nccl_comm *c, enum lw_op_kind op, int64_t bytes,
                        sim_nccl_pairs pairs, const struct sim_nccl_cells *cells,
                        struct sim_nccl_choice *out)
{
    double least_us = -1, latency_us = 0;
    int best = -1;

    for (pairs &= cells->pairs; pairs; pairs &= pairs - 1) {
        int k = __builtin_ctz(pairs);
        const struct sim_nccl_cell *cell = &cells->cell[k];
        double latency, time;
        if (best >= 0 && cell->latency_us >= least_us) /* bytes take time on top */
            continue;
        time = sim_nccl_time_us(c, op, (enum sim_nccl_algorithm)(k / SIM_N_NCCL_PROTOCOLS),
                                (enum sim_nccl_protocol)(k % SIM_N_NCCL_PROTOCOLS), cell, bytes,
                                &latency);
        if (best < 0 || time < least_us) {
            best = k;
            least_us = time;
            latency_us = latency;
        }
    }
    if (best < 0)
        return false;
    *out = (struct sim_nccl_choice){(enum sim_nccl_algorithm)(best / SIM_N_NCCL_PROTOCOLS),
                                    (enum sim_nccl_protocol)(best % SIM_N_NCCL_PROTOCOLS),
                                    cells->cell[best], least_us, latency_us};
    return true;
}

bool sim_nccl_choose(const struct sim_nccl_comm *c, enum lw_op_kind op, int64_t bytes,
                     sim_nccl_pairs pairs, struct sim_nccl_choice *out)
{
    struct sim_nccl_cells cells;

    sim_nccl_cells_of(c, op, &cells);
    return sim_nccl_choose_of(c, op, bytes, pairs, &cells, out);
}

/* --- blocks (src/graph/connect.cc, src/transport/nvls.cc, src/enqueue.cc of v2.30.7-1) --- */

enum { MOST_BLOCKS = 64, FEW_BLOCKS = 16 };

/* After the search: doubled, and again on few fast channels between nodes of Hopper and later. */
static int32_t connected(const struct sim_nccl_comm *c)
{
    const struct sim_nccl_graph *ring = &c->graphs.ring;
    int32_t n = 2 * ring->n_channels;

    if (c->arch >= SIM_NCCL_HOPPER && c->n_nodes > 1 && ring->intra_gbs > 45 && n < FEW_BLOCKS)
        n *= 2;
    return n < MOST_BLOCKS ? n : MOST_BLOCKS;
}

static int32_t nvls_blocks(const struct sim_nccl_comm *c)
{
    return c->arch < SIM_NCCL_BLACKWELL ? 16 : c->n_nodes > 1 ? 32 : 24;
}

/* Bytes that a block should have at least: threads times bytes of a thread. */
static int64_t bytes_of_block(const struct sim_nccl_comm *c, enum sim_nccl_algorithm a,
                              enum sim_nccl_protocol p)
{
    const struct sim_nccl_graph *ring = &c->graphs.ring;

    if (p == SIM_NCCL_LL128)
        return 640 * 8;
    if (p == SIM_NCCL_LL)
        return 512 * 8 * (int64_t)(a == SIM_NCCL_RING ? c->n_ranks : 1);
    return 64 * (a == SIM_NCCL_RING && ring->intra_gbs * ring->n_channels <= 12 ? 256 : 512);
}

int32_t sim_nccl_blocks(const struct sim_nccl_comm *c, enum sim_nccl_algorithm a,
                        enum sim_nccl_protocol p, int64_t bytes)
{
    int32_t n = connected(c), most = nvls_blocks(c);

    if (a == SIM_NCCL_NVLS_TREE || (a == SIM_NCCL_NVLS && c->n_nodes == 1))
        return most;
    if (a == SIM_NCCL_NVLS)
        return n < most ? n : most;
    int64_t block = bytes_of_block(c, a, p);
    return bytes < 2 * block ? 1 : bytes >= n * block ? n : (int32_t)(bytes / block);
}

/* Of a block in a round. NCCL keeps LL's buffers in host memory, and the proxy thread of a rank
 * posts a message for each channel and looks through the flags of each (NVIDIA/nccl v2.30.7-1,
 * src/transport/net.cc). Chosen by leaving tables out. */
#define LL_BLOCK_US 3.0

/* --- one node of NVLink --- */

/* NCCL's constants of latency are the same for all generations, and its rates are those of the
 * links. A ring's kernel does one primitive more than it has transfers (NVIDIA/nccl 5067397c,
 * src/device/all_gather.h: a send, R - 2 receive-and-sends, a receive for R - 1 transfers;
 * src/device/all_reduce.h: 2 R - 1 for 2 R - 2), so that of S transfers bytes flow S / (S + 1) of
 * the time: most is lost by two ranks. A message to each rank goes by LL up to 16 KiB and by Simple
 * beyond (src/enqueue.cc, NCCL_P2P_LL_THRESHOLD). The latencies and the rates beside the links'
 * (LL's is of a cap that hardware exceeds) were measured on one node of A100, H100, H200, B200,
 * B300, GB200 and GB300 (ai-dynamo/aiconfigurator@095f58a, comm/nccl), on the half of the visible
 * rows that `lapwing cost --measured` names fitted. */
static const struct one_node {
    struct {
        double base_us, step_us, rate;
    } ring[SIM_N_NCCL_PROTOCOLS]; /* rate: of the model's, beside S / (S + 1) */
    double p2p_ll_us, p2p_simple_us, p2p_rate, nvls_us, nvls_rate;
    double long_mb; /* a rank's part of which Simple hides half of the last primitive; 0: never */
} one_node[SIM_N_NCCL_ARCHS] = {
    [SIM_NCCL_AMPERE] = {{{9.1, 0.9, 1.12}, {19.7, 0.67, 0.74}, {15, 9.7, 1.06}},
                         12.4, 20.7, 0.76, 0, 0, 290},
    [SIM_NCCL_HOPPER] = {{{4.8, 0.85, 1.21}, {6.2, 1.0, 0.81}, {6.9, 6.5, 1.17}},
                         6.9, 11.8, 0.81, 29.7, 0.9, 670},
    [SIM_NCCL_BLACKWELL] = {{{7.9, 1.29, 1.25}, {0}, {8.1, 9.0, 1.13}},
                            10.5, 15.7, 0.68, 49, 0.95, 0},
};

enum { P2P_LL_BYTES = 16384 };

static const struct one_node *node_figures(const struct sim_nccl_comm *c)
{
    const struct one_node *n = &one_node[c->arch];

    return c->n_nodes == 1 && c->nvlink && n->p2p_rate > 0 ? n : NULL;
}

/* Time of bytes of a ring over that of all its transfers at the model's rate: a primitive more. Of
 * it long gathers and reduce-scatters hide a part, all-reduces none (of two A100 PCIe, 1 GiB); the
 * blocks of the channels may fall out of step, so that one sends while another receives. What is
 * hidden brings no more than the model's rate. */
static double ring_share(const struct one_node *n, const struct sim_nccl_choice *x,
                         enum lw_op_kind op, double steps, double part_mb)
{
    double rate = n->ring[x->protocol].rate, whole = (steps + 1) / steps;
    bool hides = gathers(op) && x->protocol == SIM_NCCL_SIMPLE && n->long_mb > 0;
    double rest = hides ? 1 + 1 / steps / (1 + part_mb / n->long_mb) : whole;

    return (rest >= rate ? rest : least(rate, whole)) / rate;
}

/* Of the time in one node, less what the model says. */
static double beyond_one_node(const struct sim_nccl_comm *c, enum lw_op_kind op,
                              const struct sim_nccl_choice *x)
{
    const struct one_node *n = node_figures(c);
    double moving = x->time_us - x->latency_us, steps = (double)steps_of(op, c->n_ranks);

    if (!n || (op != LW_OP_ALL_REDUCE && !gathers(op)))
        return 0;
    if (x->algorithm == SIM_NCCL_NVLS && n->nvls_rate > 0)
        return n->nvls_us + moving / n->nvls_rate - x->time_us;
    if (x->algorithm != SIM_NCCL_RING || n->ring[x->protocol].rate <= 0)
        return 0;
    return n->ring[x->protocol].base_us + steps * n->ring[x->protocol].step_us +
           moving * ring_share(n, x, op, steps, moving * x->cell.gbs / 1000 / c->n_ranks) -
           x->time_us;
}

/* --- one node of PCIe --- */

/* The rate is the host's (sim_nccl_comm.port_gbs): what its bridges and sockets forward between
 * ports. Beside it a kernel takes a latency, and LL sends a flag with each word, twice the bytes.
 * Measured on one node of 8 L40S and of 8 RTX PRO 6000 (ai-dynamo/aiconfigurator@095f58a,
 * comm/nccl), on the half of the visible rows that `lapwing cost --measured` names fitted, by
 * traces/clusters/fit_ports.py; without figures the latency is the model's. */
static const struct one_pci {
    double base_us[SIM_N_NCCL_PROTOCOLS], step_us[SIM_N_NCCL_PROTOCOLS];
    double p2p_ll_us, p2p_simple_us, ll_rate; /* ll_rate: of the port's, in bytes with flags */
} one_pci[SIM_N_NCCL_ARCHS] = {
    [SIM_NCCL_AMPERE] = {{5.78, 0, 14.6}, {0.873, 0, 3.14}, 8.45, 10.1, 1.34},
    [SIM_NCCL_BLACKWELL] = {{4.26, 0, 10.9}, {1.48, 0, 3.08}, 8.35, 17.0, 1.08},
};

static bool is_port(const struct sim_nccl_comm *c)
{
    return c->n_nodes == 1 && !c->nvlink && c->port_gbs > 0;
}

static double beyond_port(const struct sim_nccl_comm *c, enum lw_op_kind op,
                          const struct sim_nccl_choice *x)
{
    const struct one_pci *n = &one_pci[c->arch];
    double steps = (double)steps_of(op, c->n_ranks), base = n->base_us[x->protocol];

    if (x->algorithm != SIM_NCCL_RING)
        return 0;
    double latency = base > 0 ? base + steps * n->step_us[x->protocol] : x->latency_us;
    double wire_us = (x->time_us - x->latency_us) * x->cell.gbs / c->port_gbs * steps / c->n_ranks;
    if (x->protocol == SIM_NCCL_LL)
        wire_us *= 2 / (n->ll_rate > 0 ? n->ll_rate : 1);
    return latency + wire_us - x->time_us;
}

static double port_p2p_us(const struct sim_nccl_comm *c, int64_t peer_bytes, double link_us)
{
    const struct one_pci *n = &one_pci[c->arch];
    double us = link_us * c->graphs.ring.n_channels * c->graphs.ring.inter_gbs / c->port_gbs;

    if (n->p2p_simple_us <= 0)
        return 0;
    return peer_bytes <= P2P_LL_BYTES ? n->p2p_ll_us + 2 * us / n->ll_rate : n->p2p_simple_us + us;
}

double sim_nccl_p2p_us(const struct sim_nccl_comm *c, int64_t peer_bytes, double link_us)
{
    const struct one_node *n = node_figures(c);

    if (is_port(c))
        return port_p2p_us(c, peer_bytes, link_us);
    if (!n)
        return 0;
    return (peer_bytes <= P2P_LL_BYTES ? n->p2p_ll_us : n->p2p_simple_us) + link_us / n->p2p_rate;
}

double sim_nccl_beyond_us(const struct sim_nccl_comm *c, enum lw_op_kind op,
                          const struct sim_nccl_choice *x, int32_t n_blocks)
{
    int rounds = x->algorithm == SIM_NCCL_RING && op == LW_OP_ALL_REDUCE ? 2 : 1;

    if (is_port(c))
        return beyond_port(c, op, x);
    if (c->n_nodes < 2)
        return beyond_one_node(c, op, x);
    bool posts = x->protocol == SIM_NCCL_LL && n_blocks > 1;
    return x->cell.ring_us + (posts ? LL_BLOCK_US * rounds * n_blocks : 0);
}
