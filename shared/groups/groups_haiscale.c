/* HaiScale's node and local ranks (rules 4 to 8 of its DistributedDataParallel wrapper, which then
 * hands them to hfreduce). O(n^2) as there: a gather of one entry per rank is all it has.
 *
 * The compat form shows three faults: nodes of different size pass as long as their number divides
 * the ranks; a device named twice on a node is seen only by later ranks of that node, which stop
 * while the two culprits go on with the same local rank; the local rank is a position, not the
 * device number. The strict form refuses the first two on every rank. */
#include "shared/groups/groups.h"

LW_FREE_BY_ARENA(lw_haiscale_free, struct lw_haiscale)

static void count_nodes(const int64_t *node, struct lw_haiscale *h)
{
    for (int32_t r = 0; r < h->n_ranks; r++) {
        int32_t same = 0;
        while (node[same] != node[r])
            same++;
        h->node_rank[r] = same < r ? h->node_rank[same] : h->n_nodes++;
    }
}

/* Entries of r's node before the first with r's device; -1 when two of those name one device. */
static int32_t position(const int64_t *node, const int32_t *device, int32_t r)
{
    int32_t n = 0;

    for (int32_t i = 0; node[i] != node[r] || device[i] != device[r]; i++) {
        if (node[i] != node[r])
            continue;
        for (int32_t j = 0; j < i; j++)
            if (node[j] == node[r] && device[j] == device[i])
                return -1;
        n++;
    }
    return n;
}

static enum lw_status check_strictly(const int64_t *node, const int32_t *device,
                                     const struct lw_haiscale *h, struct lw_err *err)
{
    for (int32_t r = 0; r < h->n_ranks; r++)
        for (int32_t i = 0; i < r; i++)
            if (node[i] == node[r] && device[i] == device[r])
                return lw_fail(
                    err, LW_EINVAL,
                    "ranks %d and %d both use device %d of node %d, allowed: one rank per "
                    "device",
                    i, r, device[r], h->node_rank[r]);
    for (int32_t k = 0; k < h->n_nodes; k++) {
        int32_t n = 0;
        for (int32_t r = 0; r < h->n_ranks; r++)
            n += h->node_rank[r] == k;
        if ((int64_t)n * h->n_nodes != h->n_ranks)
            return lw_fail(
                err, LW_EINVAL,
                "node %d has %d of %d ranks on %d nodes, allowed: the same number on each", k, n,
                h->n_ranks, h->n_nodes);
    }
    return LW_OK;
}

enum lw_status lw_haiscale_ranks(const int64_t *node, const int32_t *device, int32_t n_ranks,
                                 bool compat, struct lw_haiscale *out, struct lw_err *err)
{
    struct lw_haiscale h = {.n_ranks = n_ranks};
    enum lw_status status = LW_OK;

    if (n_ranks < 1)
        return lw_fail(err, LW_EINVAL, "%d ranks, allowed: 1 or more", n_ranks);
    h.node_rank = lw_arena_alloc(&h.arena, n_ranks, sizeof *h.node_rank);
    h.local_rank = lw_arena_alloc(&h.arena, n_ranks, sizeof *h.local_rank);
    if (!h.node_rank || !h.local_rank) {
        lw_haiscale_free(&h);
        return lw_fail_nomem(err);
    }
    count_nodes(node, &h);
    if (!compat)
        status = check_strictly(node, device, &h, err);
    else if (n_ranks % h.n_nodes != 0)
        status = lw_fail(err, LW_EINVAL, "%d ranks on %d nodes, allowed: a multiple of the nodes",
                         n_ranks, h.n_nodes);
    if (status != LW_OK) {
        lw_haiscale_free(&h);
        return status;
    }
    h.ranks_per_node = n_ranks / h.n_nodes;
    h.group_id = device[0];
    for (int32_t r = 0; r < n_ranks; r++) {
        h.local_rank[r] = position(node, device, r);
        h.n_asserting += h.local_rank[r] < 0;
    }
    *out = h;
    return LW_OK;
}
