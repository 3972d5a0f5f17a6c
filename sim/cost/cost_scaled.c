/* Where a measured table ends.
 *
 * With NCCL's model of the cluster: below or beyond the table's sizes model(bytes) x table(edge) /
 * model(edge), edge = its nearest size. Other ranks or nodes: model(ranks, bytes) x table(b) /
 * model(table's ranks, b), b = bytes, or the nearest size of the table.
 *
 * Without any links (tables alone): latency + bytes / bandwidth of the table's own rows. The
 * bandwidth B is that of the largest row, the latency L = t(smallest) - smallest / B, at least 0.
 * Below its sizes: L + bytes / B, or, where L is 0, the smallest row's time in proportion to the
 * bytes. On n ranks instead of m: L r(n) / r(m) + (t - L) f(n) / f(m). r counts the rounds, log2(n)
 * rounded up of all-reduce, broadcast and reduce (trees), n - 1 of the rest, 1 of a message; f the
 * bytes that a device receives, 2 (n-1)/n of all-reduce, (n-1)/n of all-gather, reduce-scatter and
 * all-to-all, else 1. The nodes of the other shape are not known to these laws.
 *
 * Of the tables of the operation that are of one node where the query is, or of several where it
 * is, the one nearest in nodes counts, and of these the one nearest in ranks. A table of one node
 * does not apply to a network, nor one of a network to a node. No answer is faster than the links
 * (shared/cluster/link_peak.h). */
#include "sim/cost/cost_scaled.h"

#include <stdio.h>
#include <string.h>

#include "shared/cluster/measured.h"
#include "shared/numbers/checked.h"
#include "shared/cluster/link_peak.h"
#include "sim/cost/cost_nccl.h"

static bool leaves_choice(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    return q->algorithm == LW_REDUCER_AUTO && q->op != LW_OP_BARRIER && sim_nccl_applies(c, q);
}

static bool tables_alone(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    return q->algorithm == LW_REDUCER_AUTO && q->op != LW_OP_BARRIER && c->n_links == 0;
}

bool sim_say_other_shape(const struct lw_cluster *c, const struct lw_cost_query *q,
                         const struct lw_cost_answer *a, char *text, size_t size)
{
    const struct lw_cost_table *t = c->tables, *end = t + c->n_tables;

    if (q->algorithm != LW_REDUCER_AUTO || q->n_ranks < 2 || strncmp(a->model, "table", 5) == 0)
        return false;
    while (t < end && t->op != q->op)
        t++;
    if (t == end)
        return false;
    snprintf(text, size,
             "no measured table applies to this group (%s: %d ranks of %d node%s), modelled by %s",
             lw_op_name(q->op), t->n_ranks, t->n_nodes, lw_plural(t->n_nodes), a->model);
    return true;
}

static bool holds(const struct lw_cost_table *t, int64_t bytes)
{
    return bytes >= t->bytes[0] && bytes <= t->bytes[t->n_rows - 1];
}

static int32_t apart(int32_t a, int32_t b)
{
    return a > b ? a - b : b - a;
}

static bool of_place(const struct lw_cost_table *t, const struct lw_cost_query *q)
{
    return t->op == q->op && t->n_in_flight == 1 && t->n_rows > 0 && t->n_ranks > 1 &&
           (t->n_nodes > 1) == (q->n_nodes > 1);
}

static bool is_nearer(const struct lw_cost_table *t, const struct lw_cost_table *best,
                      const struct lw_cost_query *q)
{
    int32_t nodes = apart(t->n_nodes, q->n_nodes), best_nodes = apart(best->n_nodes, q->n_nodes);

    if (nodes != best_nodes)
        return nodes < best_nodes;
    return apart(t->n_ranks, q->n_ranks) < apart(best->n_ranks, q->n_ranks);
}

/* The table of the query's ranks, else the nearest in nodes, then in ranks; of equals the first. */
static const struct lw_cost_table *nearest(const struct lw_cluster *c,
                                           const struct lw_cost_query *q)
{
    const struct lw_cost_table *exact = sim_table_find(c, q, 1), *best = NULL;

    for (int32_t i = 0; !exact && i < c->n_tables; i++)
        if (of_place(&c->tables[i], q) && (!best || is_nearer(&c->tables[i], best, q)))
            best = &c->tables[i];
    return exact ? exact : best;
}

static bool same_shape(const struct lw_cost_table *t, const struct lw_cost_query *q)
{
    return t->n_ranks == q->n_ranks && t->n_nodes == q->n_nodes;
}

bool sim_scaled_applies(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    if (c->n_tables == 0 || !leaves_choice(c, q))
        return false;
    const struct lw_cost_table *t = nearest(c, q);
    return t && (!same_shape(t, q) || !holds(t, q->bytes));
}

bool sim_fitted_applies(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    if (c->n_tables == 0 || !tables_alone(c, q))
        return false;
    const struct lw_cost_table *t = nearest(c, q);
    return t && (!same_shape(t, q) || q->bytes < t->bytes[0]);
}

static enum lw_status model_at(const struct lw_cluster *c, const struct lw_cost_query *q,
                               const struct lw_cost_table *t, int64_t bytes,
                               struct lw_cost_answer *out, struct lw_err *err)
{
    struct lw_cost_query there = *q;

    there.algorithm = LW_REDUCER_AUTO;
    there.bytes = bytes;
    if (t) {
        there.n_ranks = t->n_ranks;
        there.n_nodes = t->n_nodes;
    }
    return sim_nccl_answer(c, &there, out, err);
}

static enum lw_status by_model(const struct lw_cluster *c, const struct lw_cost_query *q,
                               const struct lw_cost_table *t, struct lw_cost_answer *out,
                               struct lw_err *err)
{
    struct lw_cost_answer there;
    const char *unused;
    int64_t edge = q->bytes < t->bytes[0]               ? t->bytes[0]
                   : q->bytes > t->bytes[t->n_rows - 1] ? t->bytes[t->n_rows - 1]
                                                        : q->bytes;

    LW_TRY(model_at(c, q, NULL, q->bytes, out, err));
    LW_TRY(model_at(c, q, t, edge, &there, err));
    double factor =
        there.time > 0 ? (double)sim_table_time(t, edge, &unused) / (double)there.time : 1;
    out->model = "table+nccl";
    out->detail = !same_shape(t, q) ? "model scaled to meet a table of other ranks"
                  : edge > q->bytes ? "model scaled to meet the table, below its sizes"
                                    : "model scaled to meet the table, beyond its sizes";
    out->time = lw_round_sat((double)out->time * factor);
    out->latency = lw_round_sat((double)out->latency * factor);
    out->bytes_per_s /= factor;
    return LW_OK;
}

static double rounds(enum lw_op_kind op, int32_t n)
{
    int levels = 0;

    while (levels < 31 && (INT32_C(1) << levels) < n)
        levels++;
    switch (op) {
    case LW_OP_ALL_REDUCE:
    case LW_OP_BROADCAST:
    case LW_OP_REDUCE:
        return levels;
    case LW_OP_ALL_GATHER:
    case LW_OP_REDUCE_SCATTER:
    case LW_OP_ALL_TO_ALL:
        return n - 1;
    default:
        return 1;
    }
}

static double received(enum lw_op_kind op, int32_t n)
{
    struct lw_cost_query q = {.op = op, .bytes = LW_PS_PER_S, .n_ranks = n};

    return lw_sim_busbw(&q, LW_PS_PER_S) / lw_sim_algbw(&q, LW_PS_PER_S);
}

static void by_rows(const struct lw_cost_query *q, const struct lw_cost_table *t,
                    struct lw_cost_answer *out)
{
    int32_t last = t->n_rows - 1;
    double per_byte = t->bytes[last] > 0 ? (double)t->time_ps[last] / (double)t->bytes[last] : 0;
    double latency = (double)t->time_ps[0] - (double)t->bytes[0] * per_byte;
    const char *unused;

    latency = latency > 0 ? latency : 0;
    double time = (double)sim_table_time(t, q->bytes, &unused);
    if (q->bytes < t->bytes[0]) /* from the latency to the smallest row */
        time = latency + ((double)t->time_ps[0] - latency) * (double)q->bytes / (double)t->bytes[0];
    double moving = time > latency ? time - latency : 0;
    latency = time - moving;
    latency *= rounds(q->op, q->n_ranks) / rounds(q->op, t->n_ranks);
    moving *= received(q->op, q->n_ranks) / received(q->op, t->n_ranks);
    *out = (struct lw_cost_answer){.time = lw_round_sat(latency + moving), .model = "table+fit",
                                   .algorithm = "library"};
    out->detail = same_shape(t, q) ? "latency and bandwidth of the table, below its sizes"
                                   : "latency and bandwidth of a table of other ranks";
}

/* A table of a faster fabric scales beyond what the links carry. */
static void keep_to_links(const struct lw_cluster *c, const struct lw_cost_query *q,
                          struct lw_cost_answer *out)
{
    double peak = lw_link_peak(c, q->op, q->n_ranks, q->n_nodes, q->alone);
    lw_ps least = peak > 0 ? lw_transfer_ps(q->bytes, peak) : 0;

    if (out->time >= least)
        return;
    out->time = least;
    out->latency = 0;
    out->bytes_per_s = peak;
    out->detail = "the links' peak: the table scales beyond it";
}

enum lw_status sim_scaled_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                               struct lw_cost_answer *out, struct lw_err *err)
{
    const struct lw_cost_table *t = nearest(c, q);

    if (leaves_choice(c, q))
        LW_TRY(by_model(c, q, t, out, err));
    else
        by_rows(q, t, out);
    keep_to_links(c, q, out);
    out->source = t->source;
    return LW_OK;
}

/* 0: there is no such table, or no model. */
static double over_model(const struct lw_cluster *c, const struct lw_cost_query *q, bool smallest,
                         int64_t *bytes)
{
    const struct lw_cost_table *t = sim_table_find(c, q, 1);
    struct lw_cost_answer a;
    const char *unused;

    if (!t || q->n_ranks < 2 || !leaves_choice(c, q)) /* one rank has no links */
        return 0;
    *bytes = t->bytes[smallest ? 0 : t->n_rows - 1];
    if (model_at(c, q, t, *bytes, &a, NULL) != LW_OK || a.time <= 0)
        return 0;
    return (double)sim_table_time(t, *bytes, &unused) / (double)a.time;
}

bool sim_ratio_is_doubtful(double ratio, bool smallest)
{
    double most = smallest ? 2 : 1.5;

    return ratio > 0 && (ratio > most || ratio < 1 / most);
}

bool sim_table_is_doubtful(const struct lw_cluster *c, const struct lw_cost_query *q, double *ratio,
                           int64_t *bytes)
{
    for (int smallest = 0; smallest < 2; smallest++) {
        *ratio = over_model(c, q, smallest, bytes);
        if (sim_ratio_is_doubtful(*ratio, smallest))
            return true;
    }
    return false;
}
