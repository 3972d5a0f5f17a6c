/* The ceiling of an operation's rate, from what each device and each node must receive. */
#include "shared/cluster/link_peak.h"
#include "shared/cluster/measured.h"
#include "shared/plan/op.h"

static double n_links(const struct lw_link *l)
{
    return lw_figure_is_set(l->n_links) ? l->n_links.value : 1;
}

double lw_link_bytes_per_s(const struct lw_link *l)
{
    return l->bytes_per_s.value * n_links(l);
}

/* Three of a group of four have the links to two of the others, a third each. */
double lw_intra_bytes_per_s(const struct lw_link *l, double on_node)
{
    bool of_four = on_node > 2 && on_node <= 4;
    struct lw_figure of_group = on_node <= 2 ? l->pair_links : of_four ? l->quad_links : l->n_links;

    if (!lw_figure_is_set(of_group))
        return lw_link_bytes_per_s(l);
    return l->bytes_per_s.value * of_group.value * (of_four ? (on_node - 1) / 3 : 1);
}

int32_t lw_adapters(const struct lw_cluster *c)
{
    const struct lw_link *l = lw_cluster_link(c, LW_LINK_INTER);
    double devices = c->devices_per_node, n = l ? n_links(l) : 1;

    if (l && lw_figure_is_set(l->n_sharers))
        n = (devices + l->n_sharers.value - 1) / l->n_sharers.value;
    n = n < devices ? n : devices;
    return n < 1 ? 1 : (int32_t)n;
}

int32_t lw_adapters_of(const struct lw_cluster *c, double members)
{
    double n = lw_adapters(c), used = members * n / c->devices_per_node;

    used = used < n ? used : n;
    return (int32_t)used + (used > (int32_t)used);
}

double lw_share_of_node(const struct lw_cluster *c, double members, bool alone)
{
    struct lw_figure fair = c->interference.fair_links;
    double share = (double)lw_adapters_of(c, members) / lw_adapters(c);
    double part = members / c->devices_per_node;

    alone = alone || (lw_figure_is_set(fair) && fair.value > 0);
    return alone || share < part ? share : part;
}

static double rate_of(const struct lw_cluster *c, enum lw_link_level level)
{
    const struct lw_link *l = lw_cluster_link(c, level);

    if (!l || !lw_figure_is_set(l->bytes_per_s))
        return 0;
    return lw_link_bytes_per_s(l);
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

/* The same of a node with p of the ranks; ring: by a ring. */
static double into_node(enum lw_op_kind op, double n, double nodes, double p, bool ring)
{
    if (ring) { /* which passes each rank as if it were a node */
        nodes = n;
        p = 1;
    }
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
                    int32_t n_nodes, int32_t fewest, bool ring, bool alone)
{
    double p = fewest > 0 ? fewest : (double)n_ranks / n_nodes;

    if (n_nodes < 2)
        return 0;
    return rate_of(c, LW_LINK_INTER) * lw_share_of_node(c, p, alone) /
           into_node(op, n_ranks, n_nodes, p, ring);
}

double lw_link_peak(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                    int32_t n_nodes, bool alone)
{
    if (n_ranks < 2)
        return 0;
    const struct lw_link *l = lw_cluster_link(c, LW_LINK_INTER);
    const struct lw_link *in = lw_cluster_link(c, LW_LINK_INTRA);
    double p = (double)n_ranks / n_nodes;
    double inside = rate_of(c, LW_LINK_INTRA) > 0 ? lw_intra_bytes_per_s(in, p) : 0;
    double device = inside / into_device(c, op, n_ranks), one = l ? l->bytes_per_s.value : 0;
    double rate = rate_of(c, LW_LINK_INTER) * lw_share_of_node(c, p, alone);

    if (n_nodes == 1)
        return device;
    double node = (rate > one ? rate : one) / into_node(op, n_ranks, n_nodes, p, false);
    if (!(node > 0))
        return 0;
    if (n_ranks == n_nodes)
        return node;
    return device < node ? device : node;
}

double lw_table_fastest(const struct lw_cost_table *t)
{
    double most = 0;

    for (int32_t i = 0; i < t->n_rows; i++) {
        double rate = t->time_ps[i] > 0
                          ? (double)t->bytes[i] / (double)t->time_ps[i] * (double)LW_PS_PER_S
                          : 0;
        most = rate > most ? rate : most;
    }
    return most;
}

bool lw_table_exceeds_links(const struct lw_cluster *c, const struct lw_cost_table *t,
                            double times, double *reaches, double *links)
{
    *reaches = lw_table_fastest(t);
    *links = lw_link_peak(c, t->op, t->n_ranks, t->n_nodes, true);
    return *links > 0 && *reaches > times * *links;
}
