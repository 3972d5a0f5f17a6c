/* The roles of a parallel plan as a table: a rank's memory and one pass of its program, summed. */
#include "shared/show/plan_stages.h"

#include <stdio.h>

#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "shared/plan/op.h"

struct pass {
    lw_ps forward, backward, again;
    int64_t sent_bytes, reduced_bytes, summed_bytes;
};

static void add_op(struct pass *x, const struct lw_plan *p, const struct lw_op *o)
{
    lw_ps work = lw_plan_work_ps(p, o);

    if (o->kind == LW_OP_FORWARD)
        x->forward += work;
    else if (o->kind == LW_OP_BACKWARD || o->kind == LW_OP_BACKWARD_INPUT ||
             o->kind == LW_OP_BACKWARD_WEIGHT)
        x->backward += work;
    else if (o->kind == LW_OP_KERNEL)
        x->again += work;
    else if (o->comm >= 0 && p->comms[o->comm].purpose == LW_COMM_TENSOR)
        x->summed_bytes += o->bytes;
    else if (o->kind == LW_OP_SEND)
        x->sent_bytes += o->bytes;
    else if (o->kind == LW_OP_ALL_REDUCE || o->kind == LW_OP_REDUCE ||
             o->kind == LW_OP_REDUCE_SCATTER ||
             (o->kind == LW_OP_ALL_GATHER && o->bucket >= 0 && lw_plan_sparse(p, o->bucket)))
        x->reduced_bytes += o->bytes;
}

static struct pass pass_of(const struct lw_plan *p, int32_t role)
{
    struct lw_program g = p->programs[(int64_t)(p->n_variants - 1) * p->n_roles + role];
    struct pass x = {0};

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        add_op(&x, p, &p->ops[i]);
    return x;
}

static void add_role(struct lw_table *t, const struct lw_plan *p, int32_t role)
{
    const struct lw_role *r = &p->roles[role];
    struct pass x = pass_of(p, role);
    int64_t elements = 0, memory = 0;
    int32_t modules = 0;

    for (int32_t m = 0; m < p->n_modules; m++)
        modules += p->stage_of[m] == r->stage;
    for (int32_t i = 0; i < p->n_params; i++)
        if (p->params[i].stage == r->stage && lw_plan_holds(p, i))
            elements += p->params[i].numel;
    for (int m = 0; m < LW_N_MEM; m++)
        memory += r->static_bytes[m];
    LW_CELLS(t, r->name, r->n_ranks, modules, elements, LW_BYTES(memory),
             lw_decimals((double)x.forward / (double)LW_PS_PER_MS, 1),
             lw_decimals((double)(x.backward + x.again) / (double)LW_PS_PER_MS, 1),
             LW_BYTES(x.sent_bytes), LW_BYTES(x.summed_bytes), LW_BYTES(x.reduced_bytes));
}

enum lw_status lw_plan_show_stages(const struct lw_plan *p, struct lw_err *err)
{
    static const char *const titles[] = {"role", ">ranks", ">modules", ">elements", ">memory",
                                         ">forward ms", ">backward ms", ">sent", ">tensor sums",
                                         ">gradients reduced"};
    struct lw_table *t = lw_table_new(10, titles);

    for (int32_t r = 0; r < p->n_roles; r++)
        add_role(t, p, r);
    lw_printf_paragraph(stdout,
                        "stages: what a rank holds (memory without activations), and one pass of "
                        "'%s': work alone on the device with what is recomputed, bytes sent and "
                        "reduced by a rank",
                        p->variants[p->n_variants - 1].name);
    return lw_table_end(t, stdout, 1, err);
}
