/* The dispatcher of communication costs: a table of models, of which the first that applies
 * answers. Every answer says which it was. Costs are whole picoseconds before anything is
 * compared. */
#include "sim/cost/cost_model.h"

#include <math.h>
#include <string.h>

#include "shared/cluster/link_peak.h"
#include "shared/cluster/measured.h"
#include "shared/numbers/checked.h"
#include "shared/workload/kernel.h"
#include "sim/cost/cost_closed_form.h"
#include "sim/cost/cost_library.h"
#include "sim/cost/cost_nccl.h"
#include "sim/cost/cost_scaled.h"

static enum lw_status check(const struct lw_cost_query *q, struct lw_err *err)
{
    enum lw_op_class k = lw_op_class(q->op);

    if (k != LW_CLASS_COLLECTIVE && k != LW_CLASS_P2P)
        return lw_fail(err, LW_EINVAL, "'%s' is not communication", lw_op_name(q->op));
    if (q->n_ranks < 1 || q->n_nodes < 1 || q->n_nodes > q->n_ranks)
        return lw_fail(err, LW_EINVAL, "%d ranks on %d nodes: need at least one rank on every node",
                       q->n_ranks, q->n_nodes);
    if (q->bytes < 0)
        return lw_fail(err, LW_EINVAL, "%s of %lld bytes: the size must not be negative",
                       lw_op_name(q->op), (long long)q->bytes);
    return LW_OK;
}

/* Whether tables, and the model that stands in for them, answer for the algorithm. */
static bool speaks_for(enum lw_reducer_kind algorithm)
{
    return algorithm == LW_REDUCER_AUTO || algorithm == LW_REDUCER_RING ||
           algorithm == LW_REDUCER_GLOO;
}

static bool by_name(const struct lw_cost_query *q)
{
    return lw_op_class(q->op) == LW_CLASS_COLLECTIVE && q->op != LW_OP_BARRIER;
}

static bool algorithm_applies(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    return by_name(q) && !speaks_for(q->algorithm) && !sim_nccl_is_asked(c, q->algorithm);
}

static bool table_applies(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    return (!by_name(q) || speaks_for(q->algorithm)) && sim_table_find(c, q, 1) != NULL;
}

/* Alone a collective takes no longer than beside another: beyond the rows of those alone, a table
 * of two at once is a limit. */
static void hold_to_two_at_once(const struct lw_cluster *c, const struct lw_cost_query *q,
                                const struct lw_cost_table *alone, struct lw_cost_answer *out)
{
    const struct lw_cost_table *two = sim_table_find(c, q, 2);
    const lw_ps least = alone->time_ps[alone->n_rows - 1];
    const char *unused;

    if (!two || q->bytes <= alone->bytes[alone->n_rows - 1])
        return;
    lw_ps beside = sim_table_time(two, q->bytes, &unused);
    beside = beside > least ? beside : least;
    if (beside >= out->time)
        return;
    out->time = beside;
    out->detail = "beyond the largest measured alone: as two at once";
}

static enum lw_status table_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                                 struct lw_cost_answer *out, struct lw_err *err)
{
    const struct lw_cost_table *t = sim_table_find(c, q, 1);

    (void)err;
    *out = (struct lw_cost_answer){.model = "table", .source = t->source, .algorithm = "library"};
    out->time = sim_table_time(t, q->bytes, &out->detail);
    hold_to_two_at_once(c, q, t, out);
    return LW_OK;
}

static bool always(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    (void)c, (void)q;
    return true;
}

/* The first that applies answers. */
static const struct {
    bool (*applies)(const struct lw_cluster *cluster, const struct lw_cost_query *query);
    enum lw_status (*time)(const struct lw_cluster *cluster, const struct lw_cost_query *query,
                           struct lw_cost_answer *out, struct lw_err *err);
} models[] = {
    /* "algorithm": the closed form of the algorithm requested, on the cluster's links */
    {algorithm_applies, sim_algorithm_time},
    /* "table+nccl": NCCL's model scaled to meet a measured table, outside its sizes or ranks */
    {sim_scaled_applies, sim_scaled_time},
    /* "table+fit": latency and bandwidth of a table's own rows, below its sizes or of other ranks,
     * where the cluster has no links */
    {sim_fitted_applies, sim_scaled_time},
    /* "table": a measured table of the cluster */
    {table_applies, table_time},
    /* "nccl+cal", "nccl": NCCL's own cost model, the least of its algorithms and protocols, times
     * the curve of measured tables where one is of such a fabric */
    {sim_nccl_applies, sim_nccl_answer},
    /* "library": the cheapest algorithm of those that the cluster's library has */
    {sim_library_applies, sim_library_time},
    /* "alpha-beta": latency plus bytes over bandwidth on the cluster's links, as a ring or chain */
    {always, sim_alpha_beta},
};

int32_t sim_fewest_on_a_node(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    int64_t filled = q->n_ranks - (int64_t)(q->n_nodes - 1) * c->devices_per_node;
    bool even = q->n_ranks % q->n_nodes == 0 || filled < 1;

    return (int32_t)(even ? q->n_ranks / q->n_nodes : filled);
}

static double ps_at(const struct lw_cost_query *q, double bytes_per_s)
{
    return (double)q->bytes / bytes_per_s * (double)LW_PS_PER_S;
}

/* Models give each node the adapters of the fullest. All wait for the node with the fewest members.
 * Measured tables are what they are; hfreduce's hosts use all adapters; a barrier has no bytes. */
static bool hold_to_links(const struct lw_cluster *c, const struct lw_cost_query *q,
                          struct lw_cost_answer *a)
{
    bool ring = strcmp(a->algorithm, "ring") == 0;

    if (q->n_nodes == 1 || q->op == LW_OP_BARRIER || strncmp(a->model, "table", 5) == 0 ||
        strcmp(a->algorithm, lw_reducer_name(LW_REDUCER_HFREDUCE)) == 0)
        return false;
    double peak = lw_node_peak(c, q->op, q->n_ranks, q->n_nodes, q->fewest, ring, q->alone);
    if (peak <= 0 || (double)a->time >= ps_at(q, peak))
        return false;
    a->time = lw_round_sat(ps_at(q, peak) + (double)a->latency);
    a->bytes_per_s = peak;
    a->detail = sim_is_even(q) ? "the links between nodes" : "smaller node's links";
    return true;
}

/* NCCL chose as if all nodes were equal: the algorithm that is the cheapest on the links of the
 * smallest takes the place of its choice. */
static void choose_again(const struct lw_cluster *c, const struct lw_cost_query *q,
                         struct lw_cost_answer *best)
{
    struct lw_cost_query one = *q;
    struct lw_cost_answer a;
    bool curve = strcmp(best->model, "nccl+cal") == 0;

    if ((!curve && strcmp(best->model, "nccl") != 0) ||
        (q->algorithm != LW_REDUCER_AUTO && q->algorithm != LW_REDUCER_NCCL &&
         q->algorithm != LW_REDUCER_NCCL_CAL))
        return;
    for (int list = 1; list < LW_N_NCCL_ALGORITHM_LISTS; list *= 2) {
        one.algorithm = (enum lw_reducer_kind)LW_REDUCER_NCCL_LISTS(list, 0);
        if (sim_nccl_answer(c, &one, &a, NULL) != LW_OK || a.instead)
            continue;
        if (curve)
            sim_nccl_calibrate(c, q, &a);
        hold_to_links(c, q, &a);
        if (a.time < best->time)
            *best = a;
    }
}

/* A curve below 1 stays at what the links carry. */
static void hold_curve(const struct lw_cluster *c, const struct lw_cost_query *q,
                       struct lw_cost_answer *a)
{
    double peak = lw_link_peak(c, q->op, q->n_ranks, q->n_nodes, q->alone);
    double least = peak > 0 ? ps_at(q, peak) : 0;

    if ((double)a->time >= least)
        return;
    a->time = lw_round_sat(least);
    a->bytes_per_s = peak;
    a->latency = 0;
    a->detail = "the links' peak: the curve is faster";
}

/* Copies that travel once: between nodes those that are the first to their node. */
static void send_once(struct lw_cost_query *q)
{
    double share = lw_first_copies(q->n_nodes > 1 ? q->n_nodes : q->n_ranks, &q->once);

    if (q->once.copies > 0)
        q->bytes = (int64_t)ceil((double)q->bytes * share);
}

enum lw_status lw_sim_cost_explain(const struct lw_cluster *cluster,
                                   const struct lw_cost_query *query, struct lw_cost_answer *out,
                                   struct lw_err *err)
{
    struct lw_cost_query q = *query;
    int m = 0;

    LW_TRY(check(&q, err));
    if (q.op == LW_OP_RECV) /* both ends of one message cost the same */
        q.op = LW_OP_SEND;
    if (q.op == LW_OP_BARRIER) /* carries no bytes, whatever the caller says */
        q.bytes = 0;
    if (q.n_ranks == 1) {
        *out = (struct lw_cost_answer){.model = "nothing to do", .source = "", .detail = "one rank",
                                       .algorithm = "none"};
        return LW_OK;
    }
    if (q.fewest == 0)
        q.fewest = sim_fewest_on_a_node(cluster, &q);
    send_once(&q);
    while (!models[m].applies(cluster, &q))
        m++;
    LW_TRY(models[m].time(cluster, &q, out, err));
    if (hold_to_links(cluster, &q, out))
        choose_again(cluster, &q, out);
    if (strcmp(out->model, "nccl+cal") == 0 && q.op != LW_OP_BARRIER)
        hold_curve(cluster, &q, out);
    return LW_OK;
}

const char *sim_cost_basis(const struct lw_cost_answer *a)
{
    bool inside = strcmp(a->detail, "measured") == 0 ||
                  strcmp(a->detail, "between measured sizes") == 0;

    if (strncmp(a->model, "table", 5) != 0)
        return "modelled";
    return strcmp(a->model, "table") == 0 && inside ? "measured" : "scaled";
}

static lw_ps time_of(const void *ctx, const struct lw_cost_query *query)
{
    struct lw_cost_answer a;

    return lw_sim_cost_explain(ctx, query, &a, NULL) == LW_OK ? a.time : -1;
}

struct lw_cost lw_sim_cost(const struct lw_cluster *cluster)
{
    return (struct lw_cost){time_of, cluster, cluster->devices_per_node};
}

double lw_sim_algbw(const struct lw_cost_query *query, lw_ps time)
{
    return time > 0 ? (double)query->bytes / ((double)time / (double)LW_PS_PER_S) : 0;
}

double lw_sim_busbw(const struct lw_cost_query *query, lw_ps time)
{
    double n = query->n_ranks, factor = 1;

    if (query->op == LW_OP_ALL_REDUCE)
        factor = 2 * (n - 1) / n;
    else if (query->op == LW_OP_ALL_GATHER || query->op == LW_OP_REDUCE_SCATTER ||
             query->op == LW_OP_ALL_TO_ALL)
        factor = (n - 1) / n;
    return lw_sim_algbw(query, time) * factor;
}
