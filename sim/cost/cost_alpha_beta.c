/* The alpha-beta model (Hockney 1994): a message costs latency plus bytes over bandwidth, and an
 * operation is so many messages one after the other. n ranks, buffer of B bytes, chunk C = the
 * largest of n parts of whole elements (B/n where n divides B):
 *
 *     all-reduce                   2(n-1) steps of C      (ring: reduce-scatter, then all-gather;
 *     reduce-scatter, all-gather    (n-1) steps of C       Patarasuk and Yuan, JPDC 69(2), 2009)
 *     all-to-all                   pairwise exchange      (sim/cost/cost_closed_form.c)
 *     broadcast, reduce            B / bandwidth + (n-1) latencies (chain, pieces small against B)
 *     send, receive                B / bandwidth + 1 latency
 *     barrier                      2(n-1) latencies       (an all-reduce of nothing)
 *
 * Over several nodes every step moves at the pace of the slowest link; of the steps of a ring as
 * many pay the latency between nodes as the ring crosses nodes (n_nodes for each trip around
 * it). Between nodes a group shares its adapters with the groups side by side
 * (lw_share_of_node). Every piece is rounded to the picosecond once (lw_transfer_ps), so the
 * closed forms are exact. Not modelled: protocols, contention (the engine's business). */
#include "sim/cost/cost_model.h"

#include "shared/cluster/link_peak.h"
#include "shared/numbers/checked.h"
#include "sim/cost/cost_closed_form.h"

struct lw_cost_query sim_of_pair(const struct lw_cost_query *query)
{
    struct lw_cost_query q = *query;

    if (q.op == LW_OP_SEND && q.n_ranks > 2) {
        q.n_ranks = 2;
        q.n_nodes = q.n_nodes > 1 ? 2 : 1;
        q.fewest = 2 / q.n_nodes;
        q.alone = q.alone && query->n_ranks <= query->n_nodes;
    }
    return q;
}

int64_t sim_chunk_bytes(int64_t bytes, enum lw_dtype dtype, int32_t n)
{
    int64_t size = lw_dtype_size(dtype);

    if (bytes % size != 0)
        size = 1;
    int64_t elements = bytes / size;
    return (elements / n + (elements % n != 0)) * size;
}

int64_t sim_ring_steps(enum lw_op_kind op, int32_t n_ranks)
{
    switch (op) {
    case LW_OP_ALL_REDUCE:
        return 2 * ((int64_t)n_ranks - 1);
    case LW_OP_REDUCE_SCATTER:
    case LW_OP_ALL_GATHER:
        return (int64_t)n_ranks - 1;
    default:
        return 0;
    }
}

static enum lw_status need(const struct lw_cluster *c, struct lw_figure f, const char *what,
                           const char *level, struct lw_err *err)
{
    if (lw_figure_is_set(f))
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP,
                   "cluster '%s' gives no %s for its %s link, and no measured table fits: choose "
                   "another cluster, or measure this one with 'lapwing calibrate'",
                   c->name, what, level);
}

static enum lw_status link_of(const struct lw_cluster *c, enum lw_link_level level,
                              const struct lw_link **link, struct lw_err *err)
{
    const char *word = level == LW_LINK_INTRA ? "intra-node" : "inter-node";

    *link = lw_cluster_link(c, level);
    struct lw_figure none = {0, NULL};
    LW_TRY(need(c, *link ? (*link)->bytes_per_s : none, "bandwidth", word, err));
    return need(c, (*link)->latency_ps, "latency", word, err);
}

enum lw_status sim_path_of(const struct lw_cluster *c, int32_t n_ranks, int32_t n_nodes,
                           int32_t fewest, bool alone, struct sim_path *path, struct lw_err *err)
{
    double on_node = fewest > 0 ? fewest : (double)n_ranks / n_nodes;
    const struct lw_link *l;
    struct sim_path p = {0};

    if (n_ranks > n_nodes) {
        LW_TRY(link_of(c, LW_LINK_INTRA, &l, err));
        p.bytes_per_s = p.intra_bytes_per_s = lw_intra_bytes_per_s(l, on_node);
        p.intra_ps = lw_round_sat(l->latency_ps.value);
        p.source = l->bytes_per_s.source;
    }
    if (n_nodes > 1) {
        LW_TRY(link_of(c, LW_LINK_INTER, &l, err));
        double per_node = lw_link_bytes_per_s(l);
        p.inter_bytes_per_s = per_node * lw_share_of_node(c, on_node, alone);
        p.inter_ps = lw_round_sat(l->latency_ps.value);
        if (n_ranks == n_nodes || p.inter_bytes_per_s < p.bytes_per_s) {
            p.bytes_per_s = p.inter_bytes_per_s;
            p.source = l->bytes_per_s.source;
        }
    }
    *path = p;
    return LW_OK;
}

/* Latencies of `steps` hops on a ring that crosses nodes n_nodes times a trip of n_ranks hops; the
 * hops left over from whole trips are the dearest. */
static lw_ps latencies(const struct sim_path *p, int64_t steps, int32_t n_ranks, int32_t n_nodes)
{
    int64_t trips = steps / n_ranks, rest = steps % n_ranks;
    int64_t crossings = n_nodes > 1 ? trips * n_nodes + (rest < n_nodes ? rest : n_nodes) : 0;

    return lw_add_sat(lw_mul_sat(crossings, p->inter_ps),
                      lw_mul_sat(steps - crossings, p->intra_ps));
}

/* Of a cluster of measured tables: the operation that none of them is of, and the line that adds
 * it. */
static enum lw_status say_what_lacks(const struct lw_cluster *c, const struct lw_cost_query *q,
                                     enum lw_status status, struct lw_err *err)
{
    struct lw_err why = {0};

    if (status != LW_ENOTSUP || c->n_tables == 0)
        return status;
    if (err)
        why = *err;
    return lw_fail(err, LW_ENOTSUP,
                   "%s of %lld bytes on %d ranks of %d node%s: %s; or add lines such as "
                   "\"%s,%d,%d,%lld,MICROSECONDS\" to the CSV that the cluster was imported from "
                   "(op,nranks,nnodes,size_bytes,time_us)",
                   lw_op_name(q->op), (long long)q->bytes, q->n_ranks, q->n_nodes,
                   lw_plural(q->n_nodes), why.msg, lw_op_name(q->op), q->n_ranks, q->n_nodes,
                   (long long)q->bytes);
}

enum lw_status sim_alpha_beta(const struct lw_cluster *c, const struct lw_cost_query *query,
                              struct lw_cost_answer *out, struct lw_err *err)
{
    const struct lw_cost_query pair = sim_of_pair(query), *q = &pair;
    struct sim_path p;
    int64_t steps = sim_ring_steps(q->op, q->n_ranks), hops = (int64_t)q->n_ranks - 1;
    lw_ps t;

    enum lw_status has =
        sim_path_of(c, q->n_ranks, q->n_nodes, q->fewest, q->alone, &p, err);
    LW_TRY(say_what_lacks(c, q, has, err));
    if (q->op == LW_OP_ALL_TO_ALL) {
        struct lw_cost_query exchange = *q;
        exchange.algorithm = LW_REDUCER_PAIRWISE;
        LW_TRY(sim_algorithm_time(c, &exchange, out, err));
        out->model = "alpha-beta";
        return LW_OK;
    }
    if (steps > 0) {
        lw_ps hop = lw_transfer_ps(sim_chunk_bytes(q->bytes, q->dtype, q->n_ranks), p.bytes_per_s);
        t = lw_add_sat(lw_mul_sat(steps, hop), latencies(&p, steps, q->n_ranks, q->n_nodes));
    } else if (q->op == LW_OP_BARRIER) {
        t = latencies(&p, 2 * hops, q->n_ranks, q->n_nodes);
    } else {
        t = lw_add_sat(lw_transfer_ps(q->bytes, p.bytes_per_s),
                       latencies(&p, hops, q->n_ranks, q->n_nodes));
    }
    *out = (struct lw_cost_answer){.time = t, .model = "alpha-beta", .source = p.source,
                                   .detail = "closed form",
                                   .algorithm = steps > 0 ? "ring" : "chain"};
    return LW_OK;
}
