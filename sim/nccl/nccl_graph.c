/* The outcome of NCCL's graph search (NVIDIA/nccl v2.30.7-1, src/graph/search.cc, ncclTopoCompute)
 * on nodes whose devices are all alike, without the search. A pattern asks for as many channels of
 * one speed as the links carry; the speeds are a falling list.
 *
 * ring: of the speeds that fit, the one that moves most in all; the faster of equals; the list is
 * left once a speed is under 0.49 of the best. A device carries floor(device / speed) channels, an
 * adapter floor(adapter / speed). At most 16.
 *
 * doubled: channels of 25 GB/s or more become two of half the speed; on Hopper and later only from
 * 50 GB/s, or with at most four channels.
 *
 * tree: the ring's channels and speed; inside a node faster, up to once past twice the speed
 * between nodes, while the chains fit: p devices carry p floor(device / speed) hops, and c chains
 * have c (p - 1).
 *
 * NVLS: one channel for each device (adapter, between nodes) at the fastest speed that the devices
 * carry for all of them, the device's own channel counted twice; then the other direction goes up
 * the list, to once past twice that speed on one node, to the ring's speed between nodes.
 *
 * CollNet: one channel for each adapter.
 *
 * The rings' order of ranks is one where a node has one adapter, else another for each.
 *
 * Not modelled: nodes whose devices differ, PCIe trees, sockets. */
#include "sim/nccl/nccl_graph.h"

#include <math.h>

enum { MOST_CHANNELS = 16 };

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t carried(double link_gbs, double speed)
{
    double n = (link_gbs * (1 + 1e-9)) / speed;

    return n < MOST_CHANNELS ? (int32_t)n : MOST_CHANNELS;
}

static int32_t channels_at(const struct sim_nccl_node *n, double speed)
{
    int32_t c = MOST_CHANNELS;

    if (n->n_ranks > 1)
        c = least(c, carried(n->device_gbs, speed));
    if (n->n_nodes > 1)
        c = least(c, n->n_adapters * carried(n->adapter_gbs, speed));
    return c;
}

static void double_channels(const struct sim_nccl_node *n, struct sim_nccl_graph *g)
{
    if (g->intra_gbs < 25 || (n->arch >= SIM_NCCL_HOPPER && g->intra_gbs < 50 && g->n_channels > 4))
        return;
    int32_t doubled = least(2 * g->n_channels, 2 * MOST_CHANNELS);
    g->intra_gbs = g->inter_gbs = g->intra_gbs / 2;
    g->n_channels = doubled;
}

static struct sim_nccl_graph search_ring(const struct sim_nccl_node *n, const double *speeds)
{
    struct sim_nccl_graph best = {0};

    for (int k = 0; speeds[k] > 0; k++) {
        if (best.n_channels > 0 && speeds[k] <= .49 * best.intra_gbs)
            break;
        int32_t c = channels_at(n, speeds[k]);
        if (c * speeds[k] > best.n_channels * best.intra_gbs)
            best = (struct sim_nccl_graph){c, speeds[k], speeds[k]};
    }
    double_channels(n, &best);
    return best;
}

/* The last entry that is at least `speed`, in a falling list. */
static int place_of(const double *speeds, double speed)
{
    int k = 0;

    while (speeds[k] > speed && speeds[k + 1] > 0)
        k++;
    return k;
}

static struct sim_nccl_graph search_tree(const struct sim_nccl_node *n, const double *speeds,
                                         struct sim_nccl_graph ring)
{
    struct sim_nccl_graph g = ring;
    int64_t hops = (int64_t)g.n_channels * (n->n_ranks - 1);

    for (int k = place_of(speeds, g.inter_gbs) - 1; k >= 0 && g.intra_gbs < 2 * g.inter_gbs; k--) {
        if (n->n_ranks > 1 &&
            (double)n->n_ranks * floor(n->device_gbs * (1 + 1e-9) / speeds[k]) < (double)hops)
            break;
        g.intra_gbs = speeds[k];
    }
    return g;
}

static struct sim_nccl_graph search_nvls(const struct sim_nccl_node *n, const double *speeds,
                                         struct sim_nccl_graph ring)
{
    int32_t heads = least(n->n_ranks, n->version->rules.nvls_arity);
    int k = 0;

    if (n->n_nodes > 1)
        heads = least(heads, n->n_adapters);
    if (!n->has_multicast || n->arch < SIM_NCCL_HOPPER || n->n_ranks < 2)
        return (struct sim_nccl_graph){0};
    while (speeds[k] > 0 && (speeds[k] * (heads + 1) > n->device_gbs * (1 + 1e-9) ||
                             (n->n_nodes > 1 && speeds[k] > n->adapter_gbs)))
        k++;
    if (!(speeds[k] > 0))
        return (struct sim_nccl_graph){0};
    struct sim_nccl_graph g = {heads, speeds[k], speeds[k]};
    while (n->n_nodes == 1 && k > 0 && g.inter_gbs < 2 * g.intra_gbs)
        g.inter_gbs = speeds[--k];
    if (n->n_nodes > 1 && ring.inter_gbs > g.inter_gbs)
        g.inter_gbs = ring.inter_gbs;
    return g;
}

static struct sim_nccl_graph search_collnet(const struct sim_nccl_node *n, const double *speeds)
{
    int32_t heads = least(n->n_ranks, n->n_adapters);
    int k = 0;

    while (speeds[k] > 0 && (speeds[k] > n->adapter_gbs ||
                             (n->n_ranks > 1 && speeds[k] * heads > n->device_gbs * (1 + 1e-9))))
        k++;
    if (n->n_nodes == 1 || heads < 1 || !(speeds[k] > 0))
        return (struct sim_nccl_graph){0};
    return (struct sim_nccl_graph){heads, speeds[k], speeds[k]};
}

/* Each adapter at the largest speed of the list that it has. A ring passes every device with all
 * that the node sends, and is as slow as a device's links allow; what ranks send to each other
 * passes the links of its own device alone. */
static double search_exchange(const struct sim_nccl_node *n, const double *speeds,
                              struct sim_nccl_graph ring)
{
    double along_ring = ring.n_channels * ring.inter_gbs;
    int k = 0;

    while (speeds[k] > 0 && speeds[k] > n->adapter_gbs)
        k++;
    return fmax(along_ring, fmin(n->n_adapters * speeds[k], n->n_ranks * n->device_gbs));
}

void sim_nccl_search(const struct sim_nccl_node *n, struct sim_nccl_graphs *out)
{
    const struct sim_nccl_speeds *all = n->version->speeds;
    int row = n->arch >= SIM_NCCL_BLACKWELL ? 2 : n->arch >= SIM_NCCL_HOPPER ? 1 : 0;
    const double *speeds = n->n_nodes > 1 ? all->inter[row] : all->intra[row];

    out->ring = search_ring(n, speeds);
    out->tree = search_tree(n, speeds, out->ring);
    out->nvls = search_nvls(n, speeds, out->ring);
    out->collnet = search_collnet(n, speeds);
    out->exchange_gbs = search_exchange(n, speeds, out->ring);
    out->rings_differ = n->n_nodes > 1 && n->n_adapters > 1;
    out->simple_tree = n->n_ranks == 1 || (n->arch >= SIM_NCCL_BLACKWELL && n->n_nodes > 1);
}

/* The channels' speed between nodes, and inside so much of it as carries what crosses. */
static void slow_down(struct sim_nccl_graph *g, double inter_gbs, double inside)
{
    double speed = g->n_channels > 0 ? inter_gbs / g->n_channels : 0;

    g->inter_gbs = speed < g->inter_gbs ? speed : g->inter_gbs;
    if (inside > 0 && inside * speed < g->intra_gbs)
        g->intra_gbs = inside * speed;
}

void sim_nccl_slow_down(struct sim_nccl_graphs *g, double inter_gbs)
{
    slow_down(&g->ring, inter_gbs, 1);
    slow_down(&g->tree, inter_gbs, 2); /* of two nodes each sends the buffer once */
    slow_down(&g->nvls, inter_gbs, 0);
    slow_down(&g->collnet, inter_gbs, 1);
}
