/* hfreduce's four ceilings (An et al., Fire-Flyer AI-HPC, SC'24, arXiv 2408.14158, sections IV-A to
 * IV-D). With g devices on a node and B bytes in each device's buffer, for every byte:
 *
 *   host memory  g writes as the devices copy in; g reads and 1 write to add; 2 reads, 2 writes and
 *                1 read for the tree between hosts (none on one node); to copy out one read per
 *                memory node, or g without that figure: 2 g + 1 + 5 + h touches (24 for g = 8, h =
 *                2)
 *   PCIe         in and out are two directions of a device's own link: its bandwidth
 *   host bridge  shared by s devices, both directions together: bandwidth / (2 s)
 *   NIC          in two trees a host sends twice and receives twice: bandwidth / 2
 *
 * The steady rate is the least of the four; filling and draining the pipeline is
 * sim/cost/collective_messages.c's. Copies are issued ahead, so the latency of the device's own
 * link (of the host link, else of the path inside the node) shows twice: as the first copy arrives
 * at the host, and as the last arrives at the device. Not modelled: pairs of devices that reduce
 * over NVLink first, the CPU's own speed. */
#include "sim/cost/hfreduce.h"
#include "shared/cluster/link_peak.h"
#include "shared/numbers/checked.h"

static enum lw_status missing(const struct lw_cluster *c, const char *what, struct lw_err *err)
{
    return lw_fail(
        err, LW_ENOTSUP,
        "hfreduce: cluster '%s' gives no %s: choose fire-flyer, or add the figure to its "
        "file",
        c->name, what);
}

const char *sim_ceiling_name(enum sim_ceiling k)
{
    static const char *const names[] = {"host memory", "PCIe", "host bridge", "NIC"};

    return names[k];
}

static lw_ps copy_latency(const struct lw_cluster *c)
{
    static const enum lw_link_level levels[] = {LW_LINK_HOST, LW_LINK_INTRA};

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const struct lw_link *link = lw_cluster_link(c, levels[i]);
        if (link && lw_figure_is_set(link->latency_ps))
            return lw_round_sat(link->latency_ps.value);
    }
    return 0;
}

static enum lw_status device_ceilings(const struct lw_cluster *c, int32_t g, int32_t n_nodes,
                                      struct sim_hfreduce *x, const char **source,
                                      struct lw_err *err)
{
    const struct lw_link *host = lw_cluster_link(c, LW_LINK_HOST);
    const struct lw_link *bridge = lw_cluster_link(c, LW_LINK_BRIDGE);
    int32_t numa = lw_figure_is_set(c->host.n_numa) && c->host.n_numa.value < g
                       ? (int32_t)c->host.n_numa.value
                       : g;

    if (!lw_figure_is_set(c->host_bytes_per_s))
        return missing(c, "host_bytes_per_s", err);
    if (!host || !lw_figure_is_set(host->bytes_per_s))
        return missing(c, "bandwidth of its host link", err);
    x->touches = 2 * g + 1 + (n_nodes > 1 ? 5 : 0) + numa;
    x->bytes_per_s[SIM_CEILING_MEMORY] = c->host_bytes_per_s.value / x->touches;
    source[SIM_CEILING_MEMORY] = c->host_bytes_per_s.source;
    x->bytes_per_s[SIM_CEILING_PCIE] = host->bytes_per_s.value;
    source[SIM_CEILING_PCIE] = host->bytes_per_s.source;
    if (!bridge || !lw_figure_is_set(bridge->bytes_per_s))
        return LW_OK;
    double sharers = lw_figure_is_set(bridge->n_sharers) ? bridge->n_sharers.value : 1;
    x->bytes_per_s[SIM_CEILING_BRIDGE] =
        bridge->bytes_per_s.value / 2 / (sharers < g ? sharers : g);
    source[SIM_CEILING_BRIDGE] = bridge->bytes_per_s.source;
    return LW_OK;
}

static enum lw_status network_ceiling(const struct lw_cluster *c, struct sim_hfreduce *x,
                                      const char **source, struct lw_err *err)
{
    const struct lw_link *nic = lw_cluster_link(c, LW_LINK_INTER);

    if (!nic || !lw_figure_is_set(nic->bytes_per_s) || !lw_figure_is_set(nic->latency_ps))
        return missing(c, "bandwidth and latency of its inter-node link", err);
    x->bytes_per_s[SIM_CEILING_NIC] = lw_link_bytes_per_s(nic) / 2;
    x->latency = lw_round_sat(nic->latency_ps.value);
    source[SIM_CEILING_NIC] = nic->bytes_per_s.source;
    return LW_OK;
}

enum lw_status sim_hfreduce_of(const struct lw_cluster *c, int32_t per_node, int32_t n_nodes,
                               struct sim_hfreduce *out, struct lw_err *err)
{
    struct sim_hfreduce x = {.least = SIM_CEILING_MEMORY};
    const char *source[SIM_N_CEILINGS] = {NULL};

    LW_TRY(device_ceilings(c, per_node, n_nodes, &x, source, err));
    if (n_nodes > 1)
        LW_TRY(network_ceiling(c, &x, source, err));
    if (!lw_figure_is_set(c->host.piece_bytes))
        return missing(c, "host.piece_bytes", err);
    x.piece_bytes = (int64_t)c->host.piece_bytes.value;
    x.copy_latency = copy_latency(c);
    for (int k = 0; k < SIM_N_CEILINGS; k++)
        if (x.bytes_per_s[k] > 0 && x.bytes_per_s[k] < x.bytes_per_s[x.least])
            x.least = (enum sim_ceiling)k;
    x.device_bytes_per_s = x.bytes_per_s[SIM_CEILING_MEMORY];
    for (int k = SIM_CEILING_PCIE; k <= SIM_CEILING_BRIDGE; k++)
        if (x.bytes_per_s[k] > 0 && x.bytes_per_s[k] < x.device_bytes_per_s)
            x.device_bytes_per_s = x.bytes_per_s[k];
    x.source = source[x.least];
    *out = x;
    return LW_OK;
}
