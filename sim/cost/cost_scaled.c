/* Where a measured table ends, NCCL's model goes on from it.
 *
 * Below or beyond its sizes: model(bytes) x table(edge) / model(edge), edge = its nearest size.
 *
 * Other ranks or nodes: model(ranks, bytes) x table(b) / model(table's ranks, b), b = bytes, or the
 * nearest size of the table. Of the tables of the operation that are of one node where the query
 * is, or of several where it is, the one nearest in nodes counts, and of these the one nearest in
 * ranks.
 *
 * A table of one node says nothing of a network, and the other way round. */
#include "sim/cost/cost_scaled.h"

#include "sim/cost/cost_nccl.h"

static bool leaves_choice(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    return q->algorithm == LW_REDUCER_AUTO && q->op != LW_OP_BARRIER && sim_nccl_applies(c, q);
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

bool sim_scaled_applies(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    if (c->n_tables == 0 || !leaves_choice(c, q))
        return false;
    const struct lw_cost_table *exact = sim_table_find(c, q, 1);
    return exact ? !holds(exact, q->bytes) : nearest(c, q) != NULL;
}

static enum lw_status model_at(const struct lw_cluster *c, const struct lw_cost_query *q,
                               const struct lw_cost_table *t, int64_t bytes,
                               struct lw_cost_answer *out, struct lw_err *err)
{
    struct lw_cost_query there = *q;

    there.algorithm = LW_REDUCER_NCCL;
    there.bytes = bytes;
    if (t) {
        there.n_ranks = t->n_ranks;
        there.n_nodes = t->n_nodes;
    }
    return sim_nccl_answer(c, &there, out, err);
}

enum lw_status sim_scaled_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                               struct lw_cost_answer *out, struct lw_err *err)
{
    const struct lw_cost_table *t = nearest(c, q);
    struct lw_cost_answer there;
    const char *unused;
    bool other = t->n_ranks != q->n_ranks || t->n_nodes != q->n_nodes;
    int64_t edge = q->bytes < t->bytes[0]               ? t->bytes[0]
                   : q->bytes > t->bytes[t->n_rows - 1] ? t->bytes[t->n_rows - 1]
                                                        : q->bytes;

    LW_TRY(model_at(c, q, NULL, q->bytes, out, err));
    LW_TRY(model_at(c, q, t, edge, &there, err));
    double factor =
        there.time > 0 ? (double)sim_table_time(t, edge, &unused) / (double)there.time : 1;
    out->model = "table+nccl";
    out->source = t->source;
    out->detail = other             ? "model scaled to meet a table of other ranks"
                  : edge > q->bytes ? "model scaled to meet the table, below its sizes"
                                    : "model scaled to meet the table, beyond its sizes";
    out->time = (lw_ps)((double)out->time * factor + .5);
    out->latency = (lw_ps)((double)out->latency * factor + .5);
    out->bytes_per_s /= factor;
    return LW_OK;
}

double sim_table_over_model(const struct lw_cluster *c, const struct lw_cost_query *q,
                            int64_t *bytes)
{
    const struct lw_cost_table *t = sim_table_find(c, q, 1);
    struct lw_cost_answer a;
    const char *unused;

    if (!t || !leaves_choice(c, q))
        return 0;
    *bytes = t->bytes[t->n_rows - 1];
    if (model_at(c, q, t, *bytes, &a, NULL) != LW_OK || a.time <= 0)
        return 0;
    return (double)sim_table_time(t, *bytes, &unused) / (double)a.time;
}
