/* Reducers that name an algorithm or a protocol of NCCL (nccl:tree, nvls), in a plan. An operation
 * that NCCL does not have by it, or whose group's shape excludes it, goes by NCCL's own choice
 * (sim/cost/cost_nccl.c); a remark for each reducer names these operations and what they use. A
 * plan of which no operation can use one of its reducers is refused with the reason. */

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/plan/spread.h"
#include "sim/cost/cost_nccl.h"

struct check {
    const struct lw_cluster *cluster;
    const struct lw_plan *plan;
    sim_nccl_say *say;
    void *ctx;
    struct lw_err *err;
};

/* Of one reducer that is requested. */
struct choice {
    enum lw_reducer_kind asked;
    int32_t n_used;
    bool has;         /* `why` is of an operation that has the algorithm on other shapes */
    struct lw_err why; /* of the first operation that cannot use it */
    char others[200]; /* "broadcast on 16 ranks (ring/simple), ..." */
};

static enum lw_status ask_group(const struct check *k, const struct lw_cost_query *q,
                                struct choice *x)
{
    struct lw_err why = {0};
    struct lw_cost_answer a;
    char word[96];
    bool has = false;

    if (sim_nccl_allows(k->cluster, q, &has, &why) == LW_OK) {
        x->n_used++;
        return LW_OK;
    }
    LW_TRY(lw_sim_cost_explain(k->cluster, q, &a, k->err));
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

/* Every shape of the groups of an operation's communicator. */
static enum lw_status ask_op(const struct check *k, const struct lw_op *op, struct choice *x)
{
    const struct lw_plan *p = k->plan;
    struct lw_cost_query q = {op->kind, op->dtype, 0, 0, 0, x->asked};

    for (int32_t i = 0; i < p->n_groups; i++) {
        const struct lw_group *g = &p->groups[i];
        if (g->n_members < 2)
            continue;
        int32_t first = lw_plan_member_of(p, g, 0);
        if (lw_plan_group_of(p, op->comm, first) != i)
            continue;
        struct lw_spread at = lw_plan_spread(p, k->cluster->devices_per_node, g);
        if (g->n_members == q.n_ranks && at.n_nodes == q.n_nodes && at.fewest == q.fewest)
            continue;
        q.n_ranks = g->n_members;
        q.n_nodes = at.n_nodes;
        q.fewest = at.fewest;
        q.alone = g->n_members == p->n_ranks;
        q.bytes = lw_plan_operand(p, op, first).bytes;
        LW_TRY(ask_group(k, &q, x));
    }
    return LW_OK;
}

static bool is_collective(const struct lw_plan *p, const struct lw_op *op)
{
    return lw_op_class(op->kind) == LW_CLASS_COLLECTIVE && op->kind != LW_OP_BARRIER &&
           lw_plan_work_ps(p, op) <= 0;
}

/* Each kind of collective on the communicators of one reducer, once. */
static enum lw_status ask_reducer(const struct check *k, struct choice *x)
{
    const struct lw_plan *p = k->plan;
    char text[320];
    enum lw_status status = LW_OK;
    uint64_t *seen = lw_calloc((size_t)p->n_comms, sizeof *seen); /* kinds, of each communicator */

    if (!seen)
        return lw_fail_nomem(k->err);
    for (int32_t i = 0; i < p->n_ops && status == LW_OK; i++) {
        const struct lw_op *op = LW_OP_HELD(p, i);
        if (!is_collective(p, op) || p->comms[op->comm].reducer != (int32_t)x->asked ||
            (seen[op->comm] >> op->kind & 1))
            continue;
        seen[op->comm] |= UINT64_C(1) << op->kind;
        status = ask_op(k, op, x);
    }
    lw_free(seen);
    LW_TRY(status);
    if (!*x->others)
        return LW_OK;
    if (x->n_used == 0)
        return lw_fail(k->err, x->why.code, "%s", x->why.msg);
    snprintf(text, sizeof text, "reducer %s: NCCL's own choice where it has no such form: %s",
             lw_reducer_name(x->asked), x->others);
    k->say(k->ctx, text);
    return LW_OK;
}

/* Whether NCCL's model answers for some collective. */
static bool is_modelled(const struct lw_cluster *c, const struct lw_plan *p)
{
    struct lw_cost_query q = {.n_ranks = 2, .n_nodes = 1};
    int32_t n;
    const struct lw_op *held = lw_plan_held_ops(p, &n);

    n = p->op_own ? p->n_ops : n; /* works are the ops' own */
    for (int32_t i = 0; i < n; i++) {
        const struct lw_op *op = p->op_own ? LW_OP(p, i) : &held[i];
        q.op = op->kind;
        if (!is_collective(p, op))
            continue;
        q.algorithm = (enum lw_reducer_kind)p->comms[op->comm].reducer;
        if (sim_nccl_applies(c, &q))
            return true;
    }
    return false;
}

static bool is_first(const struct lw_plan *p, int32_t comm)
{
    int32_t i = 0;

    while (p->comms[i].reducer != p->comms[comm].reducer)
        i++;
    return i == comm;
}

enum lw_status sim_nccl_check_plan(const struct lw_cluster *c, const struct lw_plan *p,
                                   sim_nccl_say *say, void *ctx, struct lw_err *err)
{
    const struct check k = {c, p, say, ctx, err};
    const struct sim_nccl_version *version;
    char newer[320];

    bool limited = (c->nccl.algo && *c->nccl.algo) || (c->nccl.proto && *c->nccl.proto);

    for (int32_t i = 0; i < p->n_comms; i++) {
        struct choice x = {.asked = (enum lw_reducer_kind)p->comms[i].reducer};
        const struct lw_cost_query any = {.op = LW_OP_ALL_REDUCE, .algorithm = x.asked};
        if ((limited ? sim_nccl_applies(c, &any) : sim_nccl_is_asked(c, x.asked)) && is_first(p, i))
            LW_TRY(ask_reducer(&k, &x));
    }
    if (!is_modelled(c, p))
        return LW_OK;
    if (c->n_tables == 0) /* else the model may not be asked */
        LW_TRY(sim_nccl_version_of(c->library_version, &version, err));
    if (sim_nccl_say_newer(c->library_version, newer, sizeof newer))
        say(ctx, newer);
    return LW_OK;
}
