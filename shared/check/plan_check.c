/* The proof of a plan, part by part, and the words that name an op in its messages. */
#include "shared/check/plan_check.h"

#include <stdio.h>

const char *lw_check_op_text(const struct lw_plan *p, int32_t op, char *text)
{
    const struct lw_op *o = &p->ops[op];
    int n = snprintf(text, LW_OP_TEXT, "op %d (%s", op, lw_op_name(o->kind));

    if (o->bucket >= 0)
        n += snprintf(text + n, LW_OP_TEXT - (size_t)n, ", bucket %d", o->bucket);
    else if (o->module >= 0)
        n += snprintf(text + n, LW_OP_TEXT - (size_t)n, ", module %d", o->module);
    n += snprintf(text + n, LW_OP_TEXT - (size_t)n, ")");
    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++) {
        const struct lw_program *g = &p->programs[i];
        if (op >= g->first_op && op < g->first_op + g->n_ops) {
            snprintf(text + n, LW_OP_TEXT - (size_t)n, " of '%.40s' for role '%.40s'",
                     p->variants[i / p->n_roles].name, p->roles[i % p->n_roles].name);
            break;
        }
    }
    return text;
}

enum lw_status lw_plan_check(const struct lw_plan *p, struct lw_err *err)
{
    LW_TRY(lw_check_tables(p, err));
    LW_TRY(lw_check_reduce(p, err));
    LW_TRY(lw_check_tied(p, err));
    LW_TRY(lw_check_shards(p, err));
    LW_TRY(lw_check_norm(p, err));
    LW_TRY(lw_check_gathers(p, err));
    return lw_check_comm(p, err);
}
