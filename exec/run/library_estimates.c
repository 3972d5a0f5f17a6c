/* What the library itself estimates for the collectives of a plan, beside what they take. A call is
 * one (operation, communicator class, group, dtype, bytes) of the first rank of this process: all
 * members ask for the same calls in the same order. A barrier and messages have no estimate. */
#include "exec/run/run_state.h"
#include "shared/plan/op.h"

static bool has_estimate(const struct lw_op *op)
{
    return op->comm >= 0 && lw_op_class(op->kind) == LW_CLASS_COLLECTIVE &&
           op->kind != LW_OP_BARRIER;
}

static struct lw_exec_call call_of(const struct lw_plan *p, const struct lw_op *op, int32_t rank)
{
    return (struct lw_exec_call){.op = op->kind,
                                 .dtype = op->dtype,
                                 .comm = op->comm,
                                 .group = lw_plan_group_of(p, op->comm, rank),
                                 .bytes = lw_plan_operand(p, op, rank).bytes,
                                 .estimate = -1};
}

static int32_t find(const struct lw_exec_result *x, const struct lw_exec_call *c)
{
    for (int32_t i = 0; i < x->n_calls; i++) {
        const struct lw_exec_call *k = &x->calls[i];
        if (k->op == c->op && k->dtype == c->dtype && k->comm == c->comm && k->group == c->group &&
            k->bytes == c->bytes)
            return i;
    }
    return -1;
}

static enum lw_status ask(struct exec_run *r, const struct lw_op *op, int32_t rank,
                          struct lw_exec_call *c, struct lw_err *err)
{
    struct exec_message m = {NULL, c->bytes / lw_dtype_size(c->dtype), c->dtype,
                             lw_plan_operand(r->plan, op, rank).peer};
    int64_t ns;
    enum lw_status s = r->backend->comm_estimate(
        r->world, r->comms[(int64_t)c->comm * r->plan->n_groups + c->group], rank, c->op, &m, &ns,
        err);

    if (s == LW_OK)
        c->estimate = lw_ns_to_ps(ns);
    return s == LW_ENOTSUP ? LW_OK : s;
}

/* What is not known yet, is requested. */
static enum lw_status take(struct exec_run *r, const struct lw_op *op, int32_t rank,
                           int64_t *capacity, struct lw_exec_result *out, struct lw_err *err)
{
    struct lw_exec_call c = call_of(r->plan, op, rank);

    if (c.group < 0 || c.bytes <= 0 || find(out, &c) >= 0)
        return LW_OK;
    LW_TRY(ask(r, op, rank, &c, err));
    if (lw_reserve(&out->calls, capacity, out->n_calls + 1, sizeof *out->calls) != 0)
        return lw_fail_nomem(err);
    out->calls[out->n_calls++] = c;
    return LW_OK;
}

enum lw_status exec_ask_estimates(struct exec_run *r, struct lw_exec_result *out,
                                  struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    int32_t rank = r->memory.facts.first_local;
    int64_t capacity = 0;

    out->calls_rank = rank;
    if (!r->backend->comm_estimate || r->options->loop)
        return LW_OK;
    for (int32_t v = 0; v < p->n_variants; v++) {
        const struct lw_program *g =
            &p->programs[(int64_t)v * p->n_roles + lw_plan_role_of(p, rank)];
        for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++)
            if (has_estimate(&p->ops[i]))
                LW_TRY(take(r, &p->ops[i], rank, &capacity, out, err));
    }
    return LW_OK;
}

/* The spans of one op in one pass: the last member did not wait. */
static void keep_least(lw_ps *least, const struct lw_span *s)
{
    lw_ps took = s->end - (s->all_in > s->start ? s->all_in : s->start);

    if (*least < 0 || took < *least)
        *least = took;
}

static void close_pass(const struct lw_plan *p, lw_ps *least, struct lw_exec_result *x)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (least[i] < 0)
            continue;
        struct lw_exec_call c = call_of(p, &p->ops[i], x->calls_rank);
        int32_t k = find(x, &c);
        if (k >= 0) {
            x->calls[k].measured += least[i];
            x->calls[k].n_measured++;
        }
        least[i] = -1;
    }
}

static void measure(const struct lw_plan *p, lw_ps *least, struct lw_exec_result *x)
{
    struct lw_span last = {.step = -1};

    for (int32_t i = 0; i < p->n_ops; i++)
        least[i] = -1;
    for (int64_t i = 0; i < x->timeline.n; i++) {
        struct lw_span s = lw_timeline_get(&x->timeline, i);
        if (s.step < x->n_warmup || !has_estimate(&p->ops[s.op]) ||
            lw_plan_role_of(p, s.rank) != lw_plan_role_of(p, x->calls_rank))
            continue;
        if (s.step != last.step || s.pass != last.pass)
            close_pass(p, least, x);
        last = s;
        keep_least(&least[s.op], &s);
    }
    close_pass(p, least, x);
}

enum lw_status lw_exec_measure_calls(const struct lw_plan *plan, struct lw_exec_result *r,
                                     struct lw_err *err)
{
    if (r->n_calls == 0)
        return LW_OK;
    lw_ps *least = lw_alloc((size_t)plan->n_ops * sizeof *least);
    if (!least)
        return lw_fail_nomem(err);
    measure(plan, least, r);
    lw_free(least);
    for (int32_t k = 0; k < r->n_calls; k++)
        if (r->calls[k].n_measured > 0)
            r->calls[k].measured /= r->calls[k].n_measured;
    return LW_OK;
}
