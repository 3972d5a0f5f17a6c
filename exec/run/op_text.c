/* What the messages of a run call an op. */
#include "exec/run/op_text.h"

#include <stdio.h>

#include "shared/plan/op.h"

const char *exec_op_text(const struct lw_plan *p, int32_t op, char *text)
{
    const struct lw_op *o = op >= 0 && op < p->n_ops ? &p->ops[op] : NULL;
    char bucket[32] = "";

    if (!o) {
        snprintf(text, EXEC_OP_TEXT, "none");
        return text;
    }
    const char *name = o->name ? o->name : "";
    if (o->bucket >= 0)
        snprintf(bucket, sizeof bucket, " of bucket %d", o->bucket);
    snprintf(text, EXEC_OP_TEXT, "op %d (%s%s%.40s%s)", op, lw_op_name(o->kind), *name ? " " : "",
             name, bucket);
    return text;
}
