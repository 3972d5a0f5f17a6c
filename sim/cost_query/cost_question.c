/* What `lapwing cost` asks of a cluster: a range of sizes, and ranks on nodes. */
#include "sim/cost_query/cost_question.h"

#include <inttypes.h>
#include <string.h>

#include "shared/base/nearest.h"
#include "sim/cost/cost_nccl.h"

enum lw_status sim_cost_range(const char *text, int64_t *from, int64_t *to, struct lw_err *err)
{
    const char *dots = strstr(text, "..");
    char first[64];

    if (!dots) {
        LW_TRY(lw_parse_size(text, from, err));
        *to = *from;
        return LW_OK;
    }
    if ((size_t)(dots - text) >= sizeof first)
        return lw_fail(err, LW_EINVAL, "sizes: found '%s', allowed: a range (1KiB..1GiB)", text);
    memcpy(first, text, (size_t)(dots - text));
    first[dots - text] = '\0';
    LW_TRY(lw_parse_size(first, from, err));
    LW_TRY(lw_parse_size(dots + 2, to, err));
    if (*from < 1 || *to < *from)
        return lw_fail(err, LW_EINVAL, "'%s': a range goes from at least 1 byte upwards", text);
    return LW_OK;
}

enum lw_status sim_cost_op(const char *text, enum lw_op_kind *op, struct lw_err *err)
{
    const char *words[LW_N_OP_KINDS + 1] = {NULL};
    int n = 0;

    for (int k = 0; k < LW_N_OP_KINDS; k++) {
        enum lw_op_class class_ = lw_op_class((enum lw_op_kind)k);
        if (class_ != LW_CLASS_COLLECTIVE && class_ != LW_CLASS_P2P)
            continue;
        words[n++] = lw_op_word(k);
        if (strcmp(text, lw_op_word(k)) == 0) {
            *op = (enum lw_op_kind)k;
            return LW_OK;
        }
    }
    return lw_fail_word(err, "op", text, words);
}

enum lw_status sim_cost_ask(const struct lw_cluster *c, struct lw_cost_query q, int64_t from,
                            int64_t to, struct sim_cost_answers *a, struct lw_err *err)
{
    LW_TRY(sim_nccl_check_shape(c, &q, err));
    for (q.bytes = from; a->n < SIM_COST_MAX_ROWS; q.bytes = q.bytes > to / 2 ? to : 2 * q.bytes) {
        LW_TRY(lw_sim_cost_explain(c, &q, &a->answer[a->n], err));
        a->query[a->n++] = q;
        if (q.bytes >= to)
            break;
    }
    return LW_OK;
}

/* A message goes from one rank to another: of one node, or of two. */
static enum lw_status take_pair(int64_t *ranks, int64_t nodes, enum lw_op_kind op,
                                struct lw_err *err)
{
    if (*ranks != 0 && *ranks != 2)
        return lw_fail(err, LW_EINVAL, "--ranks %" PRId64 ": found with --op %s, which has 2 "
                                       "members: leave --ranks out", *ranks, lw_op_name(op));
    if (nodes > 2)
        return lw_fail(err, LW_EINVAL, "--nodes %" PRId64 ": found with --op %s, whose 2 members "
                                       "are of 1 node or 2", nodes, lw_op_name(op));
    *ranks = 2;
    return LW_OK;
}

enum lw_status sim_cost_shape(const struct lw_cluster *c, int64_t ranks, int64_t nodes,
                              struct lw_cost_query *q, struct lw_err *err)
{
    int64_t per_node = c->devices_per_node;
    int64_t n_devices = (c->n_nodes > 0 ? c->n_nodes : 1) * per_node; /* 0: as many as needed */

    if (lw_op_class(q->op) == LW_CLASS_P2P)
        LW_TRY(take_pair(&ranks, nodes, q->op, err));
    if (ranks == 0 && nodes * per_node > SIM_COST_MAX_RANKS)
        return lw_fail(err, LW_EINVAL,
                       "--nodes %" PRId64 ": found %" PRId64 " devices, allowed: at most %d: give "
                       "fewer nodes, or --ranks", nodes, nodes * per_node, SIM_COST_MAX_RANKS);
    ranks = ranks > 0 ? ranks : nodes > 0 ? nodes * per_node : n_devices;
    nodes = nodes > 0 ? nodes : (ranks + per_node - 1) / per_node;
    if (c->n_nodes > 0 && (ranks > n_devices || nodes > c->n_nodes))
        return lw_fail(err, LW_EINVAL,
                       "%" PRId64 " ranks on %" PRId64 " node%s: cluster '%s' has %d node%s of %d "
                       "devices",
                       ranks, nodes, lw_plural(nodes), c->name, c->n_nodes,
                       lw_plural(c->n_nodes), c->devices_per_node);
    if (ranks > nodes * per_node)
        return lw_fail(err, LW_EINVAL,
                       "--ranks %" PRId64 " --nodes %" PRId64 ": a node of cluster '%s' has %d "
                       "devices: --nodes %" PRId64 " holds them",
                       ranks, nodes, c->name, c->devices_per_node,
                       (ranks + per_node - 1) / per_node);
    q->n_ranks = (int32_t)ranks;
    q->n_nodes = (int32_t)nodes;
    q->alone = true;
    return LW_OK;
}
