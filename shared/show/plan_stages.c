/* The roles of a parallel plan as a table: a rank's memory and one pass of its program, summed. */
#include "shared/show/plan_stages.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/text/records.h"
#include "shared/text/wrap.h"
#include "shared/base/arena.h"
#include "shared/plan/op.h"

struct stage_row {
    const char *role;
    int32_t n_ranks, n_modules;
    int64_t n_elements, memory_bytes;
    lw_ps forward, backward; /* with what is done again */
    double forward_ms, backward_ms;
    int64_t sent_bytes, summed_bytes, reduced_bytes;
};

#define AT(field) offsetof(struct stage_row, field)
static const struct lw_column columns[] = {
    {NULL, "role", LW_COLUMN_STRING, AT(role)},
    {NULL, ">ranks", LW_COLUMN_INT32, AT(n_ranks)},
    {NULL, ">modules", LW_COLUMN_INT32, AT(n_modules)},
    {NULL, ">elements", LW_COLUMN_INT, AT(n_elements)},
    {NULL, ">memory", LW_COLUMN_BYTES, AT(memory_bytes)},
    {NULL, ">forward ms", LW_COLUMN_REAL, AT(forward_ms), .digits = 1, .lacking = "-"},
    {NULL, ">backward ms", LW_COLUMN_REAL, AT(backward_ms), .digits = 1, .lacking = "-"},
    {NULL, ">sent", LW_COLUMN_BYTES, AT(sent_bytes)},
    {NULL, ">tensor sums", LW_COLUMN_BYTES, AT(summed_bytes)},
    {NULL, ">gradients reduced", LW_COLUMN_BYTES, AT(reduced_bytes)},
};
#undef AT

static void add_op(struct stage_row *x, const struct lw_plan *p, const struct lw_op *o)
{
    lw_ps work = lw_plan_work_ps(p, o);

    if (o->kind == LW_OP_FORWARD)
        x->forward += work;
    else if (o->kind == LW_OP_BACKWARD || o->kind == LW_OP_BACKWARD_INPUT ||
             o->kind == LW_OP_BACKWARD_WEIGHT || o->kind == LW_OP_KERNEL)
        x->backward += work;
    else if (o->comm >= 0 && p->comms[o->comm].purpose == LW_COMM_TENSOR)
        x->summed_bytes += o->bytes;
    else if (o->kind == LW_OP_SEND)
        x->sent_bytes += o->bytes;
    else if (o->kind == LW_OP_ALL_REDUCE || o->kind == LW_OP_REDUCE ||
             o->kind == LW_OP_REDUCE_SCATTER ||
             (o->kind == LW_OP_ALL_GATHER && o->bucket >= 0 && lw_plan_sparse(p, o->bucket)))
        x->reduced_bytes += o->bytes;
}

static struct stage_row row_of(const struct lw_plan *p, int32_t role)
{
    const struct lw_role *r = &p->roles[role];
    struct lw_program g = p->programs[(int64_t)(p->n_variants - 1) * p->n_roles + role];
    struct stage_row x = {.role = r->name, .n_ranks = r->n_ranks};

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        add_op(&x, p, LW_OP(p, i));
    for (int32_t m = 0; m < p->n_modules; m++)
        x.n_modules += p->stage_of[m] == r->stage;
    for (int32_t i = 0; i < p->n_params; i++)
        if (p->params[i].stage == r->stage && lw_plan_holds(p, i))
            x.n_elements += p->params[i].numel;
    for (int m = 0; m < LW_N_MEM; m++)
        x.memory_bytes += r->static_bytes[m];
    bool timed = lw_plan_has_times(p);
    x.forward_ms = timed ? (double)x.forward / (double)LW_PS_PER_MS : NAN;
    x.backward_ms = timed ? (double)x.backward / (double)LW_PS_PER_MS : NAN;
    return x;
}

enum lw_status lw_plan_show_stages(const struct lw_plan *p, struct lw_err *err)
{
    struct stage_row *rows;

    LW_NEW(rows, p->n_roles, err);
    for (int32_t r = 0; r < p->n_roles; r++)
        rows[r] = row_of(p, r);
    lw_printf_paragraph(stdout,
                        "stages: what a rank holds (memory without activations), and one pass of "
                        "'%s': work alone on the device with what is recomputed, bytes sent and "
                        "reduced by a rank",
                        p->variants[p->n_variants - 1].name);
    enum lw_status s = lw_records_text(&LW_RECORDS("stages", columns, rows, p->n_roles), stdout, 1,
                                       err);
    lw_free(rows);
    return s;
}
