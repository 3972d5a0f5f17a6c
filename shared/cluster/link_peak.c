/* The ceiling of an operation's rate, from what each device and each node must receive. */
#include "shared/cluster/link_peak.h"

static double rate_of(const struct lw_cluster *c, enum lw_link_level level)
{
    const struct lw_link *l = lw_cluster_link(c, level);

    if (!l || !lw_figure_is_set(l->bytes_per_s))
        return 0;
    return l->bytes_per_s.value * (lw_figure_is_set(l->n_links) ? l->n_links.value : 1);
}

/* Of the operation's bytes, what a device receives. */
static double into_device(const struct lw_cluster *c, enum lw_op_kind op, double n)
{
    bool multicast = lw_figure_is_set(c->nccl.multicast) && c->nccl.multicast.value > 0;

    switch (op) {
    case LW_OP_ALL_REDUCE:
        return multicast ? 1 : 2 * (n - 1) / n;
    case LW_OP_ALL_GATHER:
    case LW_OP_REDUCE_SCATTER:
    case LW_OP_ALL_TO_ALL:
        return (n - 1) / n;
    default:
        return 1;
    }
}

/* The same of a node with p of the ranks. */
static double into_node(enum lw_op_kind op, double n, double nodes, double p)
{
    switch (op) {
    case LW_OP_ALL_REDUCE:
        return 2 * (nodes - 1) / nodes;
    case LW_OP_ALL_GATHER:
    case LW_OP_REDUCE_SCATTER:
        return (n - p) / n;
    case LW_OP_ALL_TO_ALL:
        return p * (n - p) / n;
    default:
        return 1;
    }
}

double lw_node_peak(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                    int32_t n_nodes, int32_t fewest)
{
    const struct lw_link *l = lw_cluster_link(c, LW_LINK_INTER);
    double p = fewest > 0 ? fewest : (double)n_ranks / n_nodes;
    double share = p < c->devices_per_node ? p / c->devices_per_node : 1;
    double rate = rate_of(c, LW_LINK_INTER) * share;
    double one = l ? l->bytes_per_s.value : 0; /* a rank alone has an adapter */

    return (rate > one ? rate : one) / into_node(op, n_ranks, n_nodes, p);
}

double lw_link_peak(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                    int32_t n_nodes)
{
    double device = rate_of(c, LW_LINK_INTRA) / into_device(c, op, n_ranks);
    double node = n_nodes > 1 ? lw_node_peak(c, op, n_ranks, n_nodes, 0) : 0;

    if (n_nodes == 1 || !(node > 0))
        return n_nodes == 1 ? device : 0;
    if (n_ranks == n_nodes)
        return node;
    return device < node ? device : node;
}
