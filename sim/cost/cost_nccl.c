/* NCCL's cost model on a cluster: its links become the nodes that sim/nccl/nccl_graph.c searches,
 * its nccl facts the communicator that sim/nccl/nccl_tuning.c times.
 *
 * A device's links inside a node count together. An adapter is what one device, or the devices that
 * share it, send through; a group has the adapters in proportion to its ranks on the node, rounded
 * up. NCCL searches and chooses as if these were the group's alone; the time is that of the choice
 * on channels as slow as the groups side by side make them. An intra link whose name begins with
 * NVLink is NVLink; another is PCIe. NCCL also searches with the rate that an adapter reports
 * (nccl.adapter_bytes_per_s) where its link reaches less. LL128 needs NVLink: NCCL refuses it over
 * PCIe inside a node and where the adapter is not near the GPU.
 *
 * NCCL has no model of send, receive and all-to-all. They take a latency (10 us inside a node, 20
 * us between nodes) plus bytes over the bandwidth of a ring's channels over the same ranks:
 * docs/design/nccl.md. A barrier is an all-reduce of four bytes. */
#include "sim/cost/cost_nccl.h"

#include "sim/nccl/nccl_curves.h"

#include <stdio.h>
#include <string.h>

#include "shared/cluster/link_peak.h"
#include "shared/numbers/checked.h"
#include "shared/workload/kernel.h"

enum { N_PAIR_BITS = SIM_N_NCCL_PROTOCOLS };
_Static_assert(LW_N_NCCL_ALGORITHM_LISTS == 1 << SIM_N_NCCL_ALGORITHMS &&
                   LW_N_NCCL_PROTOCOL_LISTS == 1 << SIM_N_NCCL_PROTOCOLS,
               "a reducer of NCCL has a bit for each algorithm and protocol");

#define P2P_INTRA_US 10.0
#define P2P_INTER_US 20.0
/* Of a ring's rate between two A100 on NVSwitch: an all-reduce of two reaches 197.3 of 240 GB/s at
 * 1 GiB, that of eight 229 (vTrain f8dda84, trace/a100, AR_GPU2_1M_1024M_LUT). */
#define A100_PAIR 0.82
#define NO_MODEL "NCCL has no model of it (docs/design/nccl.md)"

static sim_nccl_pairs pairs(unsigned algorithms, unsigned protocols)
{
    sim_nccl_pairs all = 0;

    for (int a = 0; a < SIM_N_NCCL_ALGORITHMS; a++)
        if (algorithms >> a & 1)
            all |= (sim_nccl_pairs)protocols << (a * N_PAIR_BITS);
    return all;
}

static sim_nccl_pairs pairs_of(enum lw_reducer_kind k)
{
    unsigned both = (unsigned)k - LW_REDUCER_NCCL, a = both / LW_N_NCCL_PROTOCOL_LISTS,
             p = both % LW_N_NCCL_PROTOCOL_LISTS;

    if (k == LW_REDUCER_NVLS)
        return pairs_of(LW_REDUCER_NCCL_NVLS) | pairs_of(LW_REDUCER_NCCL_NVLS_TREE);
    if (!lw_reducer_is_nccl(k) || k == LW_REDUCER_NCCL || k == LW_REDUCER_NCCL_CAL)
        return SIM_NCCL_ALL_PAIRS;
    return pairs(a ? a : LW_N_NCCL_ALGORITHM_LISTS - 1, p ? p : LW_N_NCCL_PROTOCOL_LISTS - 1);
}

bool sim_nccl_is_asked(const struct lw_cluster *c, enum lw_reducer_kind k)
{
    return lw_reducer_is_nccl(k) ||
           (k == LW_REDUCER_NVLS && lw_figure_is_set(c->nccl.compute_capability));
}

bool sim_nccl_applies(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    if (sim_nccl_is_asked(c, q->algorithm))
        return true;
    return q->algorithm == LW_REDUCER_AUTO && lw_figure_is_set(c->nccl.compute_capability) &&
           strcmp(c->library, "nccl") == 0;
}

/* --- the cluster as NCCL sees it --- */

static bool is_one(struct lw_figure f)
{
    return lw_figure_is_set(f) && f.value > 0;
}

static double us_of(struct lw_figure ps, double otherwise)
{
    return lw_figure_is_set(ps) ? ps.value / 1e6 : otherwise;
}

static enum sim_nccl_arch arch_of(double capability)
{
    return capability >= 100  ? SIM_NCCL_BLACKWELL
           : capability >= 90 ? SIM_NCCL_HOPPER
           : capability >= 80 ? SIM_NCCL_AMPERE
                              : SIM_NCCL_VOLTA;
}

/* Of an adapter's links. */
static double adapter_gbs(const struct lw_cluster *c)
{
    return lw_link_bytes_per_s(lw_cluster_link(c, LW_LINK_INTER)) / lw_adapters(c) / 1e9;
}

static enum lw_status node_of(const struct lw_cluster *c, const struct sim_nccl_comm *comm,
                              struct sim_nccl_node *node, struct lw_err *err)
{
    int32_t on_node = (comm->n_ranks + comm->n_nodes - 1) / comm->n_nodes;
    struct sim_path whole;

    LW_TRY(sim_path_of(c, comm->n_ranks, comm->n_nodes, 0, true, &whole, err));
    *node = (struct sim_nccl_node){.arch = comm->arch,
                                   .version = comm->version,
                                   .n_ranks = on_node,
                                   .n_nodes = comm->n_nodes,
                                   .device_gbs = whole.intra_bytes_per_s / 1e9,
                                   .has_multicast = comm->multicast};
    node->n_adapters = lw_adapters_of(c, on_node);
    if (comm->n_nodes > 1)
        node->adapter_gbs = lw_figure_is_set(c->nccl.adapter_bytes_per_s)
                                ? c->nccl.adapter_bytes_per_s.value / 1e9
                                : adapter_gbs(c);
    return LW_OK;
}

/* The link reaches less than what its adapters report. */
static bool is_slow(const struct lw_cluster *c)
{
    struct lw_figure reported = c->nccl.adapter_bytes_per_s;

    return lw_figure_is_set(reported) && adapter_gbs(c) * 1e9 < reported.value * (1 - 1e-9);
}

/* What the links and groups side by side leave of the rate that the adapters report; 0: all of
 * it. */
static double left_gbs(const struct lw_cluster *c, const struct sim_nccl_node *node, bool alone)
{
    double share = lw_share_of_node(c, node->n_ranks, alone) * lw_adapters(c);
    double left = node->n_nodes < 2 ? 0 : share * adapter_gbs(c);

    return left < node->n_adapters * node->adapter_gbs * (1 - 1e-9) ? left : 0;
}

/* What a device sends over PCIe while so many of its node do; 0: not measured. Straight in the time
 * of a byte between 2, 4 and 8. */
static double port_gbs(const struct lw_cluster *c, int32_t on_node)
{
    const struct lw_nccl_facts *f = &c->nccl;
    const struct lw_figure at[] = {f->port2_bytes_per_s, f->port4_bytes_per_s,
                                   f->port8_bytes_per_s};
    double n = on_node > 8 ? 8 : on_node;

    if (on_node < 2 || !lw_figure_is_set(at[0]))
        return 0;
    int k = n > 4;
    double part = (n - (k ? 4 : 2)) / (k ? 4 : 2);
    return 1e-9 / ((1 - part) / at[k].value + part / at[k + 1].value);
}

/* Across nodes a ring passes the ports of a node as in it. left: by its adapters; 0: all. */
static double left_by_ports(const struct sim_nccl_comm *c, double left)
{
    double ring = c->graphs.ring.n_channels * c->graphs.ring.inter_gbs;
    bool binds = c->n_nodes > 1 && c->port_gbs > 0 && c->port_gbs < ring;

    return binds && (left == 0 || c->port_gbs < left) ? c->port_gbs : left;
}

static bool has_nvlink(const struct lw_cluster *c)
{
    const struct lw_link *intra = lw_cluster_link(c, LW_LINK_INTRA);

    return intra && strncmp(intra->name, "NVLink", 6) == 0;
}

static const char *text_of(const char *maybe)
{
    return maybe ? maybe : "";
}

/* What the cluster's NCCL_ALGO and NCCL_PROTO switch off. */
static enum lw_status switch_off(const struct lw_cluster *c, struct sim_nccl_comm *comm,
                                 struct lw_err *err)
{
    const char *algo = text_of(c->nccl.algo), *proto = text_of(c->nccl.proto);
    uint8_t a[LW_N_NCCL_FUNCTIONS], p[LW_N_NCCL_FUNCTIONS];

    if (!*algo && !*proto)
        return LW_OK;
    if (!lw_nccl_lists(algo, false, a) || !lw_nccl_lists(proto, true, p))
        return lw_cluster_check(c, err);
    for (int f = 0; f < LW_N_NCCL_FUNCTIONS; f++)
        comm->off[f] = SIM_NCCL_ALL_PAIRS & ~pairs(a[f], p[f]);
    return LW_OK;
}

enum lw_status sim_nccl_comm_of(const struct lw_cluster *c, const struct lw_cost_query *q,
                                struct sim_nccl_comm *out, struct lw_err *err)
{
    const struct lw_nccl_facts *f = &c->nccl;
    struct sim_nccl_comm comm = {.n_ranks = q->n_ranks, .n_nodes = q->n_nodes};
    struct sim_nccl_node node;

    if (!lw_figure_is_set(f->compute_capability))
        return lw_fail(err, LW_ENOTSUP,
                       "cluster '%s' gives no nccl.compute_capability, which NCCL's "
                       "cost model needs: add it to the cluster file, or choose "
                       "--collective-algorithm auto or ring (cost: --algorithm)",
                       c->name);
    LW_TRY(sim_nccl_version_of(c->library_version, &comm.version, err));
    comm.arch = arch_of(f->compute_capability.value);
    comm.nvlink = has_nvlink(c);
    comm.ll128 = comm.nvlink && f->compute_capability.value >= 70 &&
                 !(lw_figure_is_set(f->ll128) && f->ll128.value == 0);
    comm.multicast = is_one(f->multicast);
    comm.collnet = is_one(f->collnet);
    comm.amd_host = is_one(f->amd_host);
    comm.x86_host = !is_one(f->arm_host);
    comm.net_latency_us = us_of(f->net_latency_ps, 0);
    comm.post_us = us_of(f->post_ps, comm.amd_host && comm.x86_host ? 2 : 1);
    LW_TRY(node_of(c, &comm, &node, err));
    sim_nccl_search(&node, &comm.graphs);
    if (comm.graphs.ring.n_channels < 1)
        return lw_fail(
            err, LW_ENOTSUP,
            "NCCL's graph search finds no channel on cluster '%s' (%.3g GB/s a device, %.3g "
            "GB/s an adapter): correct the links, or choose --collective-algorithm ring (cost: "
            "--algorithm)",
            c->name, node.device_gbs, node.adapter_gbs);
    comm.port_gbs = port_gbs(c, node.n_ranks);
    comm.inter_gbs = left_by_ports(&comm, left_gbs(c, &node, q->alone));
    LW_TRY(switch_off(c, &comm, err));
    *out = comm;
    return LW_OK;
}

/* --- what was worked out before --- */

/* All that a shape of an operation depends on. The whole key is compared, so a kept answer is right
 * for any cluster. */
struct shape_key {
    double facts[12], links[2][6], fair;
    int32_t n_ranks, n_nodes, devices_per_node;
    enum lw_op_kind op;
    int32_t alone;
    char intra[8]; /* the name's beginning, which tells NVLink */
    char version[24], algo[64], proto[64];
};

struct shape {
    struct shape_key key; /* n_ranks 0: none yet */
    struct sim_nccl_comm comm;
    struct sim_nccl_cells cells;
    struct sim_nccl_cells shared; /* where comm.inter_gbs says less */
};

static double value_of(struct lw_figure f)
{
    return lw_figure_is_set(f) ? f.value : -1;
}

static void copy_text(char *to, size_t size, const char *from)
{
    for (size_t i = 0; i + 1 < size && from[i]; i++)
        to[i] = from[i];
}

static void key_of(const struct lw_cluster *c, const struct lw_cost_query *q, struct shape_key *k)
{
    static const enum lw_link_level levels[] = {LW_LINK_INTRA, LW_LINK_INTER};
    const struct lw_nccl_facts *f = &c->nccl;
    const struct lw_figure facts[12] = {
        f->compute_capability,  f->multicast,         f->amd_host,          f->arm_host,
        f->collnet,             f->ll128,             f->net_latency_ps,    f->post_ps,
        f->adapter_bytes_per_s, f->port2_bytes_per_s, f->port4_bytes_per_s, f->port8_bytes_per_s};

    memset(k, 0, sizeof *k);
    for (int i = 0; i < 12; i++)
        k->facts[i] = value_of(facts[i]);
    for (int i = 0; i < 2; i++) {
        const struct lw_link *l = lw_cluster_link(c, levels[i]);
        if (!l)
            continue;
        k->links[i][0] = value_of(l->bytes_per_s);
        k->links[i][1] = value_of(l->latency_ps);
        k->links[i][2] = value_of(l->n_links);
        k->links[i][3] = value_of(l->n_sharers);
        k->links[i][4] = value_of(l->pair_links);
        k->links[i][5] = value_of(l->quad_links);
        if (i == 0)
            copy_text(k->intra, sizeof k->intra, l->name);
    }
    k->fair = value_of(c->interference.fair_links);
    k->n_ranks = q->n_ranks;
    k->n_nodes = q->n_nodes;
    k->devices_per_node = c->devices_per_node;
    k->op = q->op;
    k->alone = q->alone;
    copy_text(k->version, sizeof k->version, c->library_version);
    copy_text(k->algo, sizeof k->algo, text_of(f->algo));
    copy_text(k->proto, sizeof k->proto, text_of(f->proto));
}

/* Whether the key holds all of the texts. */
static bool is_whole(const struct shape_key *k)
{
    return !k->version[sizeof k->version - 2] && !k->algo[sizeof k->algo - 2] &&
           !k->proto[sizeof k->proto - 2];
}

/* The communicator of a query and the cells of its operation. A few shapes come again and again
 * over sizes, so each thread keeps the latest; *out lives until the thread's next call. */
static enum lw_status shape_of(const struct lw_cluster *c, const struct lw_cost_query *q,
                               const struct shape **out, struct lw_err *err)
{
    enum { N_KEPT = 16 };
    static _Thread_local struct shape kept[N_KEPT];
    struct shape *s = &kept[((uint32_t)q->n_ranks * 7 + (uint32_t)q->n_nodes * 3 +
                             (uint32_t)q->op) % N_KEPT];
    struct shape_key key;

    key_of(c, q, &key);
    *out = s;
    if (memcmp(&s->key, &key, sizeof key) == 0 && is_whole(&key))
        return LW_OK;
    s->key.n_ranks = 0;
    LW_TRY(sim_nccl_comm_of(c, q, &s->comm, err));
    sim_nccl_cells_of(&s->comm, q->op, &s->cells);
    if (s->comm.inter_gbs > 0) {
        struct sim_nccl_comm beside = s->comm;
        sim_nccl_slow_down(&beside.graphs, beside.inter_gbs);
        sim_nccl_cells_of(&beside, q->op, &s->shared);
    }
    s->key = key;
    return LW_OK;
}

/* --- answers --- */

static lw_ps ps_of(double us)
{
    return lw_round_sat(us * 1e6);
}

/* What a machine lacks for the algorithm requested; "" where the shape alone excludes it. */
static const char *missing(const struct sim_nccl_comm *comm, enum lw_op_kind op,
                           sim_nccl_pairs asked)
{
    sim_nccl_pairs nvls = pairs_of(LW_REDUCER_NVLS);
    sim_nccl_pairs ll128 = pairs_of(LW_REDUCER_NCCL_LL128);
    sim_nccl_pairs collnet = pairs_of(LW_REDUCER_NCCL_COLLNET_DIRECT) |
                             pairs_of(LW_REDUCER_NCCL_COLLNET_CHAIN);

    if (!(asked & SIM_NCCL_ALL_PAIRS))
        return " (tree and ring alone have LL and LL128)";
    if (!(asked & ~nvls) && !comm->multicast)
        return " (NVLS needs NVSwitch with multicast: nccl.multicast)";
    if (!(asked & ~nvls) && comm->n_nodes > 1 && op != LW_OP_ALL_REDUCE)
        return " (NVLS of several nodes needs nccl.collnet for it)";
    if (!(asked & ~collnet) && !comm->collnet)
        return " (CollNet needs nccl.collnet)";
    return !(asked & ~ll128) && !comm->ll128 ? " (LL128 needs NVLink, and nccl.ll128 not 0)" : "";
}

static enum lw_status none_allowed(const struct lw_cluster *c, const struct sim_nccl_comm *comm,
                                   const struct lw_cost_query *q, struct lw_err *err)
{
    char can[240] = "", pair[48];
    struct sim_nccl_cell cell;

    for (int a = 0; a < SIM_N_NCCL_ALGORITHMS; a++)
        for (int p = 0; p < SIM_N_NCCL_PROTOCOLS; p++) {
            bool by_protocol = a == SIM_NCCL_TREE || a == SIM_NCCL_RING;
            if (!(SIM_NCCL_ALL_PAIRS >> (a * N_PAIR_BITS + p) & 1) ||
                !sim_nccl_cell_of(comm, q->op, (enum sim_nccl_algorithm)a,
                                  (enum sim_nccl_protocol)p, &cell))
                continue;
            snprintf(pair, sizeof pair, "nccl:%s%s%s",
                     sim_nccl_algorithm_name((enum sim_nccl_algorithm)a), by_protocol ? "/" : "",
                     by_protocol ? sim_nccl_protocol_name((enum sim_nccl_protocol)p) : "");
            lw_err_word(can, sizeof can, pair);
            if (!by_protocol)
                break;
        }
    if (!*can)
        return lw_fail(err, LW_ENOTSUP,
                       "NCCL has no algorithm left for %s on %d ranks of %d node%s: correct "
                       "nccl.algo \"%s\" and nccl.proto \"%s\" of cluster '%s'",
                       lw_op_name(q->op), q->n_ranks, q->n_nodes, lw_plural(q->n_nodes),
                       text_of(c->nccl.algo), text_of(c->nccl.proto), c->name);
    return lw_fail(err, LW_ENOTSUP,
                   "NCCL %s has no %s by %s on %d ranks of %d node%s here%s: choose %s",
                   comm->version->name, lw_op_name(q->op), lw_reducer_name(q->algorithm),
                   q->n_ranks, q->n_nodes, lw_plural(q->n_nodes),
                   missing(comm, q->op, pairs_of(q->algorithm)), can);
}

static bool modelled(enum lw_op_kind op)
{
    return op == LW_OP_ALL_REDUCE || op == LW_OP_REDUCE_SCATTER || op == LW_OP_ALL_GATHER ||
           op == LW_OP_BROADCAST || op == LW_OP_REDUCE;
}

static enum lw_status collective(const struct lw_cluster *c, const struct lw_cost_query *q,
                                 struct lw_cost_answer *out, struct lw_err *err)
{
    const struct shape *s;
    struct sim_nccl_choice x;

    LW_TRY(shape_of(c, q, &s, err));
    const struct sim_nccl_comm *comm = &s->comm;
    bool instead = !sim_nccl_choose_of(comm, q->op, q->bytes, pairs_of(q->algorithm),
                                       &s->cells, &x);
    if (instead &&
        !sim_nccl_choose_of(comm, q->op, q->bytes, SIM_NCCL_ALL_PAIRS, &s->cells, &x))
        return none_allowed(c, comm, q, err);
    if (comm->inter_gbs > 0) {
        x.cell = s->shared.cell[x.algorithm * SIM_N_NCCL_PROTOCOLS + x.protocol];
        x.time_us = sim_nccl_time_us(comm, q->op, x.algorithm, x.protocol, &x.cell, q->bytes,
                                     &x.latency_us);
    }
    *out = (struct lw_cost_answer){.time = ps_of(x.time_us),
                                   .model = "nccl",
                                   .source = comm->version->source,
                                   .constants = comm->version->source,
                                   .detail = instead                ? "own choice"
                                             : comm->inter_gbs == 0 ? "model"
                                             : comm->inter_gbs == comm->port_gbs ? "slow ports"
                                             : is_slow(c)           ? "slow adapter"
                                                                    : "shared adapter",
                                   .instead = instead,
                                   .algorithm = sim_nccl_algorithm_name(x.algorithm),
                                   .protocol = sim_nccl_protocol_name(x.protocol),
                                   .n_channels = x.cell.n_channels,
                                   .n_blocks = sim_nccl_blocks(comm, x.algorithm, x.protocol,
                                                               q->bytes)};
    out->beyond = ps_of(sim_nccl_beyond_us(comm, q->op, &x, out->n_blocks));
    double moving_us = x.time_us - x.latency_us;
    out->latency = ps_of(x.latency_us);
    out->bytes_per_s =
        q->bytes > 0 && moving_us > 0 ? (double)q->bytes / moving_us * 1e6 : x.cell.gbs * 1e9;
    return LW_OK;
}

/* Whether A100_PAIR holds. Boards of four A100 have links from each to each and no switch. */
static bool is_a100_pair(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    return q->op == LW_OP_SEND && q->n_nodes == 1 && has_nvlink(c) && c->devices_per_node > 4 &&
           c->nccl.compute_capability.value == 80;
}

/* The ring of the same ranks tells how fast a rank sends; an all-to-all sends (p-1)/R of the buffer
 * inside the node and the rest out of it, both at once. */
/* Across nodes and within them side by side: what comes to a node goes on to its ranks, of copies
 * once to each. May take the place of the shape of q. */
static enum lw_status exchange_us(const struct lw_cluster *c, const struct lw_cost_query *q,
                                  double gbs, double *us, struct lw_err *err)
{
    int32_t on_node = (q->n_ranks + q->n_nodes - 1) / q->n_nodes;
    double bytes = (double)q->bytes, p = q->n_ranks;
    struct lw_cost_query inside = *q;
    const struct shape *s;

    *us = bytes * on_node * (q->n_ranks - on_node) / p / (1000 * gbs);
    if (on_node == 1)
        return LW_OK;
    inside.n_ranks = on_node;
    inside.n_nodes = 1;
    LW_TRY(shape_of(c, &inside, &s, err));
    double in_gbs = s->comm.graphs.ring.n_channels * s->comm.graphs.ring.intra_gbs;
    if (s->comm.port_gbs > 0 && s->comm.port_gbs < in_gbs)
        in_gbs = s->comm.port_gbs;
    double in_us = bytes * (on_node - 1) / p / (1000 * in_gbs);
    if (q->once.copies > 0)
        in_us = bytes * lw_first_copies(q->n_ranks, &q->once) /
                lw_first_copies(q->n_nodes, &q->once) * (on_node - 1) / on_node / (1000 * in_gbs);
    *us = *us > in_us ? *us : in_us;
    return LW_OK;
}

static enum lw_status point_to_point(const struct lw_cluster *c, const struct lw_cost_query *q,
                                     struct lw_cost_answer *out, struct lw_err *err)
{
    double alpha = q->n_nodes > 1 ? P2P_INTER_US : P2P_INTRA_US, us, p = q->n_ranks;
    const struct shape *s;

    LW_TRY(shape_of(c, q, &s, err));
    const struct sim_nccl_comm *comm = &s->comm;
    const struct sim_nccl_version *version = comm->version;
    int32_t n_channels = comm->graphs.ring.n_channels;
    bool crosses = q->op == LW_OP_ALL_TO_ALL && q->n_nodes > 1;
    double gbs = crosses ? comm->graphs.exchange_gbs : n_channels * comm->graphs.ring.inter_gbs;
    double bytes = (double)q->bytes;

    if (comm->inter_gbs > 0 && comm->inter_gbs < gbs)
        gbs = comm->inter_gbs;
    if (is_a100_pair(c, q))
        gbs *= A100_PAIR;
    if (crosses) /* below, s is read of one node alone */
        LW_TRY(exchange_us(c, q, gbs, &us, err));
    else
        us = (q->op == LW_OP_ALL_TO_ALL ? bytes * (p - 1) / p : bytes) / (1000 * gbs);
    *out =
        (struct lw_cost_answer){.time = ps_of(alpha + us),
                                .model = "nccl",
                                .source = is_a100_pair(c, q)
                                              ? "latency assumed by Lapwing, rate 0.82 of a ring's "
                                                "as measured on two A100: " NO_MODEL
                                              : "latency and rate assumed by Lapwing: " NO_MODEL,
                                .detail = "assumed",
                                .algorithm = "p2p",
                                .protocol = "simple",
                                .constants = version->source,
                                .instead = pairs_of(q->algorithm) != SIM_NCCL_ALL_PAIRS,
                                .n_channels = n_channels,
                                .n_blocks = n_channels,
                                .latency = ps_of(alpha)};
    out->bytes_per_s = us > 0 ? bytes / us * 1e6 : gbs * 1e9;
    if (q->n_nodes == 1) {
        bool all = q->op == LW_OP_ALL_TO_ALL;
        double link_us = us * (is_a100_pair(c, q) ? A100_PAIR : 1);
        double took = sim_nccl_p2p_us(comm, all ? q->bytes / q->n_ranks : q->bytes, link_us);
        out->beyond = took > 0 ? ps_of(took) - out->time : 0;
    }
    return LW_OK;
}

enum lw_status sim_nccl_allows(const struct lw_cluster *c, const struct lw_cost_query *q,
                               bool *has, struct lw_err *err)
{
    sim_nccl_pairs asked = pairs_of(q->algorithm);
    struct sim_nccl_comm comm;
    struct sim_nccl_choice x;

    LW_TRY(sim_nccl_comm_of(c, q, &comm, err));
    *has = !(asked & SIM_NCCL_ALL_PAIRS) || asked == SIM_NCCL_ALL_PAIRS ||
           sim_nccl_offers(comm.version, q->op, asked);
    if ((asked == SIM_NCCL_ALL_PAIRS && !modelled(q->op)) ||
        (*has && sim_nccl_choose(&comm, q->op, 1, asked, &x)))
        return LW_OK;
    if (modelled(q->op))
        return none_allowed(c, &comm, q, err);
    return lw_fail(err, LW_ENOTSUP,
                   "NCCL has no algorithms of %s to choose from: found '%s', choose nccl",
                   lw_op_name(q->op), lw_reducer_name(q->algorithm));
}

enum lw_status sim_nccl_check_shape(const struct lw_cluster *c, const struct lw_cost_query *q,
                                    struct lw_err *err)
{
    struct lw_err why = {0};
    bool has = false;

    if (q->n_ranks < 2 || !sim_nccl_is_asked(c, q->algorithm) ||
        sim_nccl_allows(c, q, &has, &why) == LW_OK || !has)
        return LW_OK;
    return lw_fail(err, why.code, "%s", why.msg);
}

/* --- calibrated --- */

/* What the curves are asked for. */
static struct sim_nccl_spot spot_of(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    const struct sim_nccl_comm group = {
        .n_ranks = q->n_ranks, .n_nodes = q->n_nodes, .nvlink = has_nvlink(c)};

    return (struct sim_nccl_spot){sim_nccl_place_of(&group),
                                  sim_nccl_share(q->op, q->bytes, q->n_ranks)};
}

/* What the answer says that it is, with the curve. */
static const char *with_curve(const char *detail)
{
    static const char *const words[][2] = {{"shared adapter", "calibrated, shared adapter"},
                                           {"slow adapter", "calibrated, slow adapter"},
                                           {"own choice", "calibrated, own choice"}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(detail, words[i][0]) == 0)
            return words[i][1];
    return "calibrated";
}

/* Whether measured fabrics are like the group's. Those of several nodes have NVLink in each. */
static bool has_curve(const struct lw_cluster *c, enum sim_nccl_place place)
{
    enum { NOT_YET, NO, YES };
    static _Thread_local uint8_t kept[SIM_N_NCCL_PLACES][SIM_N_NCCL_ARCHS];
    uint8_t *has = &kept[place][arch_of(c->nccl.compute_capability.value)];

    if (*has == NOT_YET) {
        int n;
        const struct sim_nccl_measured *tables = sim_nccl_measured_rows(&n);
        *has = sim_nccl_has_curve(tables, n, -1, place,
                                  arch_of(c->nccl.compute_capability.value)) ? YES : NO;
    }
    return *has == YES && (place != SIM_NCCL_ACROSS || has_nvlink(c));
}

bool sim_nccl_is_calibrated(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    bool asked = q->algorithm == LW_REDUCER_AUTO || q->algorithm == LW_REDUCER_NCCL_CAL;

    return asked && (has_curve(c, spot_of(c, q).place) ||
                     (q->n_nodes == 1 && lw_figure_is_set(c->nccl.port2_bytes_per_s)));
}

void sim_nccl_calibrate(const struct lw_cluster *c, const struct lw_cost_query *q,
                        struct lw_cost_answer *a)
{
    const struct sim_nccl_spot at = spot_of(c, q);
    double factor = sim_nccl_curve(&at);
    double model = (double)a->time, total = (double)(a->time + a->beyond);

    a->model = "nccl+cal";
    a->detail = with_curve(a->detail);
    if (q->n_nodes == 1 && model > 0) { /* of latency and rate alike */
        factor *= total / model;
        total = model;
        a->beyond = 0;
    }
    a->time = lw_round_sat(total * factor);
    a->latency = lw_round_sat((double)(a->latency + a->beyond) * factor);
    a->bytes_per_s /= factor;
}

static enum lw_status by_model(const struct lw_cluster *c, const struct lw_cost_query *q,
                               struct lw_cost_answer *out, struct lw_err *err)
{
    struct lw_cost_query least = *q;

    if (modelled(q->op))
        return collective(c, q, out, err);
    if (q->op != LW_OP_BARRIER)
        return point_to_point(c, q, out, err);
    least.op = LW_OP_ALL_REDUCE;
    least.bytes = 4;
    return collective(c, &least, out, err);
}

/* NCCL leaves LL and LL128 where its own model says so, which counts less of them than is measured,
 * and curves fall where latencies do: a message takes at most what a larger one takes, of the next
 * eight powers of two. One that takes more than twice its latency does. */
static enum lw_status at_most_of_larger(const struct lw_cluster *c, const struct lw_cost_query *q,
                                        struct lw_cost_answer *out, struct lw_err *err)
{
    enum { OCTAVES = 8 };
    struct lw_cost_query larger = *q;
    lw_ps least = out->time;

    if (q->bytes < 1 || out->time > 2 * out->latency)
        return LW_OK;
    for (larger.bytes = 1; larger.bytes <= q->bytes;)
        larger.bytes *= 2;
    for (int i = 0; i < OCTAVES; i++, larger.bytes *= 2) {
        struct lw_cost_answer a;
        LW_TRY(by_model(c, &larger, &a, err));
        sim_nccl_calibrate(c, &larger, &a);
        least = a.time < least ? a.time : least;
    }
    double part = (double)least / (double)out->time;
    out->time = least;
    out->latency = lw_round_sat((double)out->latency * part);
    out->bytes_per_s /= part;
    return LW_OK;
}

static enum lw_status by_curve(const struct lw_cluster *c, const struct lw_cost_query *q,
                               struct lw_cost_answer *out, struct lw_err *err)
{
    LW_TRY(by_model(c, q, out, err));
    sim_nccl_calibrate(c, q, out);
    return at_most_of_larger(c, q, out, err);
}

/* More of the buffer leaves a node than among fewer, in shorter messages, whose factors may be
 * smaller: an all-to-all takes at least what it takes among half as many nodes, a quarter, and so
 * on down to two. */
static enum lw_status at_least_of_fewer(const struct lw_cluster *c, const struct lw_cost_query *q,
                                        struct lw_cost_answer *out, struct lw_err *err)
{
    struct lw_cost_query fewer = *q;

    if (q->op != LW_OP_ALL_TO_ALL || q->n_nodes < 4 || q->n_ranks % q->n_nodes != 0)
        return LW_OK;
    for (fewer.n_nodes /= 2; fewer.n_nodes >= 2; fewer.n_nodes /= 2) {
        struct lw_cost_answer a;
        fewer.n_ranks = q->n_ranks / q->n_nodes * fewer.n_nodes;
        LW_TRY(by_curve(c, &fewer, &a, err));
        if (a.time <= out->time)
            continue;
        double part = (double)a.time / (double)out->time;
        out->time = a.time;
        out->latency = lw_round_sat((double)out->latency * part);
        out->bytes_per_s /= part;
    }
    return LW_OK;
}

enum lw_status sim_nccl_answer(const struct lw_cluster *c, const struct lw_cost_query *query,
                               struct lw_cost_answer *out, struct lw_err *err)
{
    const struct lw_cost_query q = sim_of_pair(query);

    if (sim_nccl_is_calibrated(c, &q)) {
        LW_TRY(by_curve(c, &q, out, err));
        return at_least_of_fewer(c, &q, out, err);
    }
    LW_TRY(by_model(c, &q, out, err));
    if (q.algorithm == LW_REDUCER_NCCL_CAL)
        out->detail = "model: no measured curve here";
    return LW_OK;
}

bool sim_nccl_fabrics_of(const struct lw_cluster *c, const struct lw_cost_query *q,
                         const struct lw_cost_answer *answer, struct sim_nccl_fabrics *out)
{
    static const char *const kinds[SIM_N_NCCL_PLACES] = {
        "one node by NVLink", "one node by PCIe", "several nodes", "several nodes of one rank"};
    const struct sim_nccl_spot at = spot_of(c, q);
    bool calibrated = strcmp(answer->model, "nccl+cal") == 0;
    int n;
    const struct sim_nccl_measured *tables = sim_nccl_measured_rows(&n);

    if ((!calibrated && strcmp(answer->model, "nccl") != 0) || q->op == LW_OP_BARRIER)
        return false;
    double wide = sim_nccl_p90_over_p50(sim_nccl_spread(tables, n, -1, &at, &out->n));
    double middle = (double)answer->time;
    if (!calibrated && has_curve(c, at.place))
        middle = (middle + (double)answer->beyond) * sim_nccl_curve(&at);
    out->p10 = lw_round_sat(middle / wide);
    out->p90 = lw_round_sat(middle * wide);
    out->kind = kinds[at.place];
    return out->n > 0;
}
