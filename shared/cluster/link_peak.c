/* The ceiling of an operation's rate, from what each device and each node must receive. */
#include "shared/cluster/link_peak.h"

static double rate_of(const struct lw_cluster *c, enum lw_link_level level)
{
    const struct lw_link *l = lw_cluster_link(c, level);

    if (!l || !lw_figure_is_set(l->bytes_per_s))
        return 0;
    return l->bytes_per_s.value * (lw_figure_is_set(l->n_links) ? l->n_links.value : 1);
}

/* Shares of the operation's bytes that a device and a node receive. */
static void received(const struct lw_cluster *c, enum lw_op_kind op, double n, double nodes,
                     double *device, double *node)
{
    bool multicast = lw_figure_is_set(c->nccl.multicast) && c->nccl.multicast.value > 0;
    double p = n / nodes;

    *device = *node = 1;
    if (op == LW_OP_ALL_REDUCE) {
        *device = multicast ? 1 : 2 * (n - 1) / n;
        *node = 2 * (nodes - 1) / nodes;
    } else if (op == LW_OP_ALL_GATHER || op == LW_OP_REDUCE_SCATTER) {
        *device = (n - 1) / n;
        *node = (nodes - 1) / nodes;
    } else if (op == LW_OP_ALL_TO_ALL) {
        *device = (n - 1) / n;
        *node = p * (n - p) / n;
    }
}

double lw_link_peak(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                    int32_t n_nodes)
{
    double device, node, peak = 0, p = (double)n_ranks / n_nodes;

    received(c, op, n_ranks, n_nodes, &device, &node);
    if (n_ranks > n_nodes) {
        peak = rate_of(c, LW_LINK_INTRA) / device;
        if (!(peak > 0))
            return 0;
    }
    if (n_nodes > 1) {
        double adapters = rate_of(c, LW_LINK_INTER);
        double share = p < c->devices_per_node ? p / c->devices_per_node : 1;
        const struct lw_link *l = lw_cluster_link(c, LW_LINK_INTER);
        double one = l ? l->bytes_per_s.value : 0; /* a rank alone has an adapter */
        double rate = adapters * share > one ? adapters * share : one;
        if (!(rate > 0))
            return 0;
        peak = peak > 0 && peak < rate / node ? peak : rate / node;
    }
    return peak;
}
