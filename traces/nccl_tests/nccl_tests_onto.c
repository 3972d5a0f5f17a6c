/* Measured tables laid onto a cluster that has links and rates: the tables win where they hold, the
 * cluster's models go on where they end.
 *
 * nccl-tests counts hosts as nodes; a node of the cluster may be an NVLink domain of several hosts
 * (nccl.devices_per_host: 18 trays of 4 devices in an NVL72 rack). A table with at most
 * devices_per_host ranks on a host lies in as few domains as hold its ranks, if these are fewer
 * than its hosts and its rate is beyond what the adapters of the hosts carry; else its hosts are
 * domains of their own.
 *
 * A table faster than the links of the cluster is of another machine, and refused. */
#include <stdio.h>
#include <string.h>

#include "shared/cluster/link_peak.h"
#include "shared/cluster/measured.h"
#include "shared/device/device_kind.h"
#include "traces/nccl_tests/import_nccl_tests.h"

#define MORE_THAN_LINKS 1.1

/* What a log's network and an inter-node link's name have in common. */
static const struct {
    const char *network, *links[4];
} networks[] = {
    {"Libfabric", {"EFA", "Slingshot", "Omni-Path"}},
    {"OFI", {"EFA", "Slingshot", "Omni-Path"}},
    {"IB", {"InfiniBand", "RoCE", "ConnectX", "Infiniband"}},
    {"gIB", {"RoCE"}},
    {"FasTrak", {"TCPXO"}},
    {"TCPX", {"TCPX"}},
    {"Socket", {"Ethernet", "TCP", "sockets"}},
};

bool traces_same_network(const struct lw_cluster *base, const char *network)
{
    const struct lw_link *inter = lw_cluster_link(base, LW_LINK_INTER);
    bool known = false;

    for (size_t i = 0; inter && i < sizeof networks / sizeof *networks; i++) {
        if (!strstr(network, networks[i].network))
            continue;
        known = true;
        for (int k = 0; k < 4 && networks[i].links[k]; k++)
            if (strstr(inter->name, networks[i].links[k]))
                return true;
    }
    return !known;
}

int32_t traces_domains(const struct lw_cluster *base, enum lw_op_kind op, int32_t n_ranks,
                       int32_t n_nodes, double bytes_per_s)
{
    struct lw_figure host = base->nccl.devices_per_host;
    int32_t on_host = (n_ranks + n_nodes - 1) / n_nodes;
    int32_t fewest = (n_ranks + base->devices_per_node - 1) / base->devices_per_node;

    if (!lw_figure_is_set(host) || on_host > host.value || fewest >= n_nodes)
        return n_nodes;
    return bytes_per_s > lw_link_peak(base, op, n_ranks, n_nodes, true) ? fewest : n_nodes;
}

static enum lw_status check_table(const struct lw_cluster *base, const struct lw_cost_table *t,
                                  const char *kind, struct lw_err *err)
{
    double peak, rate;
    int32_t on_node = (t->n_ranks + t->n_nodes - 1) / t->n_nodes;

    if (on_node > base->devices_per_node)
        return lw_fail(err, LW_EINVAL,
                       "--onto %s: the tables have %d rank%s on a node, the cluster has %d "
                       "devices",
                       base->name, on_node, lw_plural(on_node), base->devices_per_node);
    if (base->n_nodes > 0 && t->n_nodes > base->n_nodes)
        return lw_fail(err, LW_EINVAL, "--onto %s: the tables have %d node%s, the cluster has %d",
                       base->name, t->n_nodes, lw_plural(t->n_nodes), base->n_nodes);
    if (strcmp(kind, "unknown") != 0 && !lw_device_has_links_of(base->device.kind, kind))
        return lw_fail(err, LW_EINVAL,
                       "--onto %s: the tables were measured on '%s', the cluster has '%s'",
                       base->name, kind, base->device.kind);
    if (lw_table_exceeds_links(base, t, MORE_THAN_LINKS, &rate, &peak))
        return lw_fail(err, LW_EINVAL,
                       "--onto %s: %s on %d rank%s of %d node%s reaches %.4g GB/s, the cluster's "
                       "links carry %.4g: the table is of another fabric, or its nodes share one "
                       "NVLink domain (--nodes N)",
                       base->name, lw_op_name(t->op), t->n_ranks, lw_plural(t->n_ranks), t->n_nodes,
                       lw_plural(t->n_nodes), rate / 1e9, peak / 1e9);
    return LW_OK;
}

static enum lw_status copy_table(struct lw_arena *arena, const struct lw_cost_table *from,
                                 struct lw_cost_table *to, struct lw_err *err)
{
    int64_t *bytes;
    lw_ps *time;

    *to = *from;
    LW_TAKE(arena, bytes, from->n_rows, err);
    LW_TAKE(arena, time, from->n_rows, err);
    LW_PRINT(arena, to->source, err, "%s", from->source);
    memcpy(bytes, from->bytes, (size_t)from->n_rows * sizeof *bytes);
    memcpy(time, from->time_ps, (size_t)from->n_rows * sizeof *time);
    to->bytes = bytes;
    to->time_ps = time;
    to->spread_ps = to->cpu_ps = NULL;
    return LW_OK;
}

enum lw_status lw_cluster_lay_onto(struct lw_cluster *base, const struct lw_cluster *tables,
                                   struct lw_err *err)
{
    int64_t n = (int64_t)base->n_tables + tables->n_tables;
    struct lw_cost_table *all;

    LW_TAKE(&base->arena, all, n, err);
    for (int32_t i = 0; i < tables->n_tables; i++) { /* first: of equals the first is found */
        LW_TRY(copy_table(&base->arena, &tables->tables[i], &all[i], err));
        all[i].n_nodes = traces_domains(base, all[i].op, all[i].n_ranks, all[i].n_nodes,
                                        lw_table_fastest(&all[i]));
        LW_TRY(check_table(base, &all[i], tables->device.kind, err));
    }
    for (int32_t i = 0; i < base->n_tables; i++)
        all[tables->n_tables + i] = base->tables[i];
    if (*tables->library_version)
        LW_PRINT(&base->arena, base->library_version, err, "%s", tables->library_version);
    base->tables = all;
    base->n_tables = (int32_t)n;
    return lw_cluster_check(base, err);
}
