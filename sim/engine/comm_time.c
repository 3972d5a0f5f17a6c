/* What timed the collectives and messages of a run: recorded work of the plan, a measured table, a
 * table scaled beyond its rows, or a model. Each op of the programs counts once, for the first rank
 * of its role; a message counts at its sender. */
#include "sim/engine/engine.h"

#include <string.h>

#include "sim/timing/work_time.h"

static struct lw_cost_query query_of(const struct sim_engine *e, const struct lw_op *op,
                                     int32_t rank)
{
    int32_t given = sim_given_rank(e, rank);
    struct lw_operand x = lw_plan_operand(e->plan, op, rank);

    if (lw_op_class(op->kind) == LW_CLASS_P2P) {
        struct sim_message m = {.dtype = op->dtype, .bytes = x.bytes, .given = {given, x.peer}};
        return sim_message_query(e, &m);
    }
    const struct sim_group *g =
        &e->groups[e->ring[e->place_of[(int64_t)op->comm * e->plan->n_ranks + rank]].group];
    return (struct lw_cost_query){op->kind, op->dtype,  x.bytes,
                                  g->n,     g->n_nodes, sim_reducer_of(e, g->comm, op->kind),
                                  g->fewest, g->alone, sim_routing_of(e, op)};
}

/* *row: of stats->timed; -1 = it is not listed. */
static enum lw_status list_op(struct sim_engine *e, const struct lw_op *op, int32_t rank,
                              int32_t *row)
{
    enum lw_op_class k = lw_op_class(op->kind);
    lw_ps own = lw_plan_work_ps(e->plan, op);
    const struct sim_asked *known;
    bool by_messages = false;

    *row = -1;
    if ((k != LW_CLASS_COLLECTIVE && k != LW_CLASS_P2P) || op->kind == LW_OP_RECV)
        return LW_OK;
    struct lw_cost_query q = query_of(e, op, rank);
    if (q.n_ranks < 2 || (own == 0 && q.bytes == 0)) /* in no time */
        return LW_OK;
    if (e->options.detail == LW_SIM_CHUNK && k == LW_CLASS_COLLECTIVE)
        LW_TRY(sim_goes_by_messages(e->cluster, &q, &by_messages, e->err));
    if (own > 0 || by_messages) {
        bool what_if = lw_cluster_is_recorded(e->cluster->name) &&
                       strcmp(e->cluster->name, LW_RECORDED_CLUSTER) != 0;
        *row = sim_note_timed(e->stats, op, own > 0 ? "the plan" : "messages",
                              own <= 0  ? "chunk detail"
                              : what_if ? "recorded times, or those of the what-if"
                                        : "recorded times",
                              own > 0 ? "recorded" : "modelled");
        return LW_OK;
    }
    LW_TRY(sim_ask(e, &q, &known));
    if (known->by)
        *row = sim_note_timed(e->stats, op, known->by, known->source, known->basis);
    return LW_OK;
}

/* Ops that were listed lately. Most of a program are as one of these, and in its row. */
enum { LISTED = 64 };
struct listed {
    struct lw_op op;
    int32_t row;
    bool any;
};

static struct listed *place_of(struct listed *lately, const struct lw_op *op)
{
    uint64_t x = (uint64_t)op->bytes * 31 + (uint64_t)(op->operand + 1) * 7 + op->kind;

    x = x * 31 + (uint64_t)op->comm;
    return &lately[(x * UINT64_C(0x9e3779b97f4a7c15) >> 32) % LISTED];
}

/* The same for a rank. */
static bool is_as(const struct lw_op *a, const struct lw_op *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->comm == b->comm &&
           a->bytes == b->bytes && a->operand == b->operand && a->peer == b->peer &&
           a->work == b->work && a->work_ps == b->work_ps;
}

static enum lw_status list_program(struct sim_engine *e, struct lw_program p, int32_t rank)
{
    struct listed lately[LISTED] = {{.any = false}};

    for (int32_t i = 0; i < p.n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(e->plan, p.first_op + i);
        if (op->comm < 0)
            continue;
        struct listed *x = place_of(lately, op);
        if (!x->any || !is_as(&x->op, op)) {
            LW_TRY(list_op(e, op, rank, &x->row));
            x->op = *op;
            x->any = true;
        } else if (x->row >= 0) {
            e->stats->timed[x->row].n_ops++;
        }
    }
    return LW_OK;
}

enum lw_status sim_list_comm(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    int32_t *rank_of = lw_arena_alloc(&e->arena, p->n_roles, sizeof *rank_of);

    if (!rank_of)
        return lw_fail_nomem(e->err);
    for (int32_t r = p->n_ranks - 1; r >= 0; r--)
        rank_of[lw_plan_role_of(p, r)] = r;
    for (int32_t k = 0; k < p->n_variants * p->n_roles; k++)
        LW_TRY(list_program(e, p->programs[k], rank_of[k % p->n_roles]));
    return LW_OK;
}
