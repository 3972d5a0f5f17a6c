/* The choice of a collective library: each of its algorithms that does the operation for the group
 * is timed on the cluster's links, and the least time wins; of equal times the first in the order
 * of enum lw_reducer_kind.
 *
 * A cluster file may name the algorithms (its field algorithms), for every operation that they do.
 * Without it the table below holds for the libraries that it names:
 *   nccl, rccl        ring; double binary tree for all-reduces (NVIDIA/nccl v2.30.7-1,
 *                     src/graph/tuning.cc; RCCL is a fork of it)
 *   hfreduce          its own
 *   no library given  ring, tree and hierarchical
 * Any other library has the ring alone: gloo (pytorch/gloo, gloo/allreduce.cc: the default is a
 * ring) and the threads backend (exec/cpu/thread_collective_steps.c). The ring includes the chain
 * of a broadcast or reduce and the pairs of an all-to-all (sim/cost/cost_alpha_beta.c).
 *
 * Not modelled: thresholds by which a library chooses otherwise than by time. */
#include "sim/cost/cost_library.h"

#include <stdio.h>
#include <string.h>

#include "sim/cost/cost_closed_form.h"
#include "sim/cost/cost_nccl.h"

#define BIT(k) (1u << (k))

static const struct {
    const char *library;
    unsigned all_reduce, others;
} libraries[] = {
    {"", BIT(LW_REDUCER_RING) | BIT(LW_REDUCER_TREE) | BIT(LW_REDUCER_HIERARCHICAL),
     BIT(LW_REDUCER_RING) | BIT(LW_REDUCER_TREE) | BIT(LW_REDUCER_HIERARCHICAL)},
    {"nccl", BIT(LW_REDUCER_RING) | BIT(LW_REDUCER_TREE), BIT(LW_REDUCER_RING)},
    {"rccl", BIT(LW_REDUCER_RING) | BIT(LW_REDUCER_TREE), BIT(LW_REDUCER_RING)},
    {"hfreduce", BIT(LW_REDUCER_HFREDUCE), BIT(LW_REDUCER_RING)},
};

static unsigned algorithms_of(const struct lw_cluster *c, enum lw_op_kind op)
{
    unsigned all = 0;

    for (int32_t i = 0; i < c->n_algorithms; i++) {
        enum lw_reducer_kind k;
        if (lw_reducer_parse(c->algorithms[i], &k, NULL) == LW_OK)
            all |= BIT(k);
    }
    for (size_t i = 0; all == 0 && i < sizeof libraries / sizeof *libraries; i++)
        if (strcmp(c->library, libraries[i].library) == 0)
            all = op == LW_OP_ALL_REDUCE ? libraries[i].all_reduce : libraries[i].others;
    return all ? all : BIT(LW_REDUCER_RING);
}

bool sim_auto_chooses(const struct lw_cluster *c)
{
    const struct lw_cost_query any = {.op = LW_OP_ALL_REDUCE, .n_ranks = 2, .n_nodes = 1};

    return algorithms_of(c, any.op) != BIT(LW_REDUCER_RING) && !sim_nccl_applies(c, &any);
}

bool sim_library_applies(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    return q->algorithm == LW_REDUCER_AUTO && lw_op_class(q->op) == LW_CLASS_COLLECTIVE &&
           q->op != LW_OP_BARRIER && q->n_ranks > 1 && sim_auto_chooses(c) &&
           algorithms_of(c, q->op) != BIT(LW_REDUCER_RING);
}

/* Whether the algorithm does the operation for the group. Hierarchical in one level is the ring. */
static bool serves(const struct lw_cost_query *q, enum lw_reducer_kind k)
{
    bool even = sim_is_even(q);

    if (k == LW_REDUCER_RING)
        return true;
    if (k == LW_REDUCER_HIERARCHICAL && (!even || q->n_nodes == 1 || q->n_nodes == q->n_ranks))
        return false;
    return sim_algorithm_does(k, q->op) && (even || k != LW_REDUCER_HFREDUCE);
}

static enum lw_status time_of(const struct lw_cluster *c, const struct lw_cost_query *q,
                              enum lw_reducer_kind k, struct lw_cost_answer *out,
                              struct lw_err *err)
{
    struct lw_cost_query named = *q;

    named.algorithm = k;
    return k == LW_REDUCER_RING ? sim_alpha_beta(c, &named, out, err)
                                : sim_algorithm_time(c, &named, out, err);
}

static enum lw_status choose(const struct lw_cluster *c, const struct lw_cost_query *q,
                             enum lw_reducer_kind *kind, struct lw_cost_answer *out,
                             struct lw_err *err)
{
    unsigned all = algorithms_of(c, q->op);
    struct lw_cost_answer a, best = {.time = -1};

    for (int k = LW_REDUCER_RING; k < LW_REDUCER_NCCL; k++) {
        if (!(all & BIT(k)) || !serves(q, (enum lw_reducer_kind)k))
            continue;
        LW_TRY(time_of(c, q, (enum lw_reducer_kind)k, &a, err));
        if (best.time >= 0 && a.time >= best.time)
            continue;
        best = a;
        *kind = (enum lw_reducer_kind)k;
    }
    if (best.time < 0) { /* none serves this group */
        *kind = LW_REDUCER_RING;
        LW_TRY(time_of(c, q, *kind, &best, err));
    }
    *out = best;
    return LW_OK;
}

enum lw_status sim_library_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                                struct lw_cost_answer *out, struct lw_err *err)
{
    enum lw_reducer_kind unused;

    return choose(c, q, &unused, out, err);
}

enum lw_status sim_algorithm_of(const struct lw_cluster *c, const struct lw_cost_query *q,
                                enum lw_reducer_kind *kind, struct lw_err *err)
{
    struct lw_cost_answer unused;

    *kind = q->algorithm;
    return sim_library_applies(c, q) ? choose(c, q, kind, &unused, err) : LW_OK;
}

bool sim_say_not_modelled(const struct lw_cluster *c, const struct lw_cost_query *q,
                          const struct lw_cost_answer *a, char *text, size_t size)
{
    if (q->algorithm != LW_REDUCER_AUTO || q->n_ranks < 2 || strstr(a->model, "nccl") ||
        strncmp(a->model, "table", 5) == 0)
        return false;
    if (strcmp(c->library, "rccl") == 0)
        snprintf(text, size,
                 "RCCL's own choice is not modelled: alpha-beta times on the links of '%s'",
                 c->name);
    else if (strcmp(c->library, "nccl") == 0)
        snprintf(text, size,
                 "NCCL's own choice is not modelled without nccl.compute_capability: alpha-beta "
                 "times on the links of '%s'",
                 c->name);
    else
        return false;
    return true;
}
