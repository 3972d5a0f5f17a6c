/* Reducers that name an algorithm or a protocol of NCCL (nccl:tree, nvls). An operation that NCCL
 * does not have by it, or whose group's shape excludes it, goes by NCCL's own choice
 * (sim/cost/cost_nccl.c); a remark of the result for each reducer names these operations and what
 * they use. A plan of which no operation can use one of its reducers is refused with the reason. */
#include "sim/engine/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/cost/cost_nccl.h"

void sim_remark(struct lw_sim_stats *s, const char *fmt, ...)
{
    va_list ap;
    int32_t same = 0;

    if (s->n_remarks == LW_SIM_MAX_REMARKS)
        return;
    va_start(ap, fmt);
    vsnprintf(s->remarks[s->n_remarks], sizeof s->remarks[0], fmt, ap);
    va_end(ap);
    while (strcmp(s->remarks[same], s->remarks[s->n_remarks]) != 0)
        same++;
    s->n_remarks += same == s->n_remarks;
}

/* Of one reducer that is asked for. */
struct choice {
    enum lw_reducer_kind asked;
    int32_t n_used;
    bool has;         /* `why` is of an operation that has the algorithm on other shapes */
    struct lw_err why; /* of the first operation that cannot use it */
    char others[200]; /* "broadcast on 16 ranks (ring/simple), ..." */
};

static enum lw_status ask_group(struct sim_engine *e, const struct lw_cost_query *q,
                                struct choice *x)
{
    struct lw_err why = {0};
    struct lw_cost_answer a;
    char word[96];
    bool has = false;
    enum lw_status status = sim_nccl_allows(e->cluster, q, &has, &why);

    if (status == LW_OK) {
        x->n_used++;
        return LW_OK;
    }
    LW_TRY(lw_sim_cost_explain(e->cluster, q, &a, e->err));
    snprintf(word, sizeof word, "%s on %d ranks (%s/%s)", lw_op_name(q->op), q->n_ranks,
             a.algorithm, a.protocol ? a.protocol : "");
    if (!strstr(x->others, word))
        lw_err_word(x->others, sizeof x->others, word);
    if (x->why.code == LW_OK || (has && !x->has)) {
        x->has = has;
        x->why = why;
    }
    return LW_OK;
}

struct choices {
    struct choice *all; /* in the order of their first use; as many as there are communicators */
    int32_t n;
};

static struct choice *choice_of(struct choices *c, enum lw_reducer_kind asked)
{
    int32_t i = 0;

    while (i < c->n && c->all[i].asked != asked)
        i++;
    if (i == c->n)
        c->all[c->n++].asked = asked;
    return &c->all[i];
}

/* Every shape of the groups of an operation's communicator; all: by reducer. modelled: NCCL's model
 * answers for some collective. */
static enum lw_status ask_op(struct sim_engine *e, const struct lw_op *op, struct choices *all,
                             bool *modelled)
{
    int32_t n_lanes = e->plan->n_groups * e->n_workers;
    struct lw_cost_query q = {op->kind, op->dtype, 0, 0, 0,
                              sim_reducer_of(e, op->comm, op->kind)};

    for (int32_t i = 0; i < n_lanes; i += e->n_workers) {
        const struct sim_group *g = &e->groups[i];
        if (g->comm != op->comm || g->n < 2 || (g->n == q.n_ranks && g->n_nodes == q.n_nodes))
            continue;
        q.n_ranks = g->n;
        q.n_nodes = g->n_nodes;
        q.bytes = lw_plan_operand(e->plan, op, e->ring[g->first].rank).bytes;
        *modelled |= sim_nccl_applies(e->cluster, &q);
        if (sim_nccl_is_asked(e->cluster, q.algorithm))
            LW_TRY(ask_group(e, &q, choice_of(all, q.algorithm)));
    }
    return LW_OK;
}

static enum lw_status judge(struct sim_engine *e, const struct choice *x)
{
    if (*x->others && x->n_used == 0) {
        if (e->err)
            *e->err = x->why;
        return x->why.code;
    }
    if (*x->others)
        sim_remark(e->stats,
                   "reducer %s: NCCL's own choice where it has no such form: %s",
                   lw_reducer_name(x->asked), x->others);
    return LW_OK;
}

enum lw_status sim_check_nccl_choice(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    uint64_t *seen = lw_arena_alloc(&e->arena, p->n_comms, sizeof *seen);
    size_t n_most = p->n_comms < LW_N_REDUCERS ? (size_t)p->n_comms : LW_N_REDUCERS;
    struct choices all = {lw_arena_alloc(&e->arena, n_most, sizeof *all.all), 0};
    bool modelled = false;
    char newer[sizeof e->stats->remarks[0]];

    if (!seen || !all.all)
        return lw_fail_nomem(e->err);
    for (int32_t i = 0; i < p->n_ops && !e->options.cost; i++) {
        const struct lw_op *op = &p->ops[i];
        if (lw_op_class(op->kind) != LW_CLASS_COLLECTIVE || op->kind == LW_OP_BARRIER ||
            lw_plan_work_ps(p, op) > 0 || (seen[op->comm] >> op->kind & 1))
            continue;
        seen[op->comm] |= UINT64_C(1) << op->kind;
        LW_TRY(ask_op(e, op, &all, &modelled));
    }
    for (int32_t i = 0; i < all.n; i++)
        LW_TRY(judge(e, &all.all[i]));
    if (modelled && sim_nccl_say_newer(e->cluster->library_version, newer, sizeof newer))
        sim_remark(e->stats, "%s", newer);
    return LW_OK;
}
