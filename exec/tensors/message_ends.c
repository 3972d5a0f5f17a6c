/* Ends of messages. Found by what ops are about (module, micro-batch, direction), not by what they
 * wait for: so a wait that is missing, or one for the wrong op, cannot hide itself. One table of
 * (direction, module, micro-batch) holds the first and the last op that works there. */
#include "exec/tensors/message_ends.h"

#include <string.h>

#include "shared/plan/op.h"

struct table {
    int64_t n_modules, n_micro;
    int32_t *first, *last, *received; /* [2 * n_modules * n_micro]; -1 = none */
};

bool exec_flow_is_backward(const struct lw_plan *p, const struct lw_op *op)
{
    return p->comms[op->comm].purpose == LW_COMM_BACKWARD;
}

static bool is_message(const struct lw_plan *p, const struct lw_op *op)
{
    return lw_op_class(op->kind) == LW_CLASS_P2P && op->comm >= 0 && op->module >= 0 &&
           op->micro_batch >= 0 &&
           (p->comms[op->comm].purpose == LW_COMM_FORWARD || exec_flow_is_backward(p, op));
}

static int64_t place(const struct table *t, bool backward, int64_t module, int64_t micro)
{
    if (module < 0 || module >= t->n_modules || micro < 0 || micro >= t->n_micro)
        return -1;
    return (backward * t->n_modules + module) * t->n_micro + micro;
}

static void note(struct table *t, const struct lw_op *op, int32_t i)
{
    bool backward = op->kind == LW_OP_BACKWARD || op->kind == LW_OP_BACKWARD_INPUT;
    int64_t at = place(t, backward, op->module, op->micro_batch);

    if (at < 0 || (!backward && op->kind != LW_OP_FORWARD))
        return;
    if (t->first[at] < 0)
        t->first[at] = i;
    t->last[at] = i;
}

/* The nearest receive of the micro-batch from which the send's value comes. */
static int32_t source_of(const struct table *t, bool backward, const struct lw_op *op)
{
    int32_t step = backward ? 1 : -1;

    for (int64_t m = (int64_t)op->module + step; m >= 0 && m < t->n_modules; m += step) {
        int32_t r = t->received[place(t, backward, m, op->micro_batch)];
        if (r >= 0)
            return r;
    }
    return -1;
}

static void connect(const struct lw_plan *p, const struct lw_program *g, const struct table *t,
                    struct exec_flow *f, int32_t i)
{
    const struct lw_op *op = &p->ops[g->first_op + i];
    bool backward = exec_flow_is_backward(p, op), sends = op->kind == LW_OP_SEND;
    int64_t at = place(t, backward, (int64_t)op->module + (backward == sends), op->micro_batch);
    int32_t end = at < 0 ? -1 : sends ? t->last[at] : t->first[at];

    if (end < 0)
        return;
    f->end_of[i] = end;
    f->next[i] = f->first[end];
    f->first[end] = i;
    if (sends)
        f->source[i] = source_of(t, backward, op);
}

static void fill(const struct lw_plan *p, const struct lw_program *g, struct table *t,
                 struct exec_flow *f)
{
    for (int32_t i = 0; i < g->n_ops; i++) {
        const struct lw_op *op = &p->ops[g->first_op + i];
        f->end_of[i] = f->first[i] = f->next[i] = f->source[i] = -1;
        note(t, op, i);
        int64_t at = is_message(p, op)
                         ? place(t, exec_flow_is_backward(p, op), op->module, op->micro_batch)
                         : -1;
        if (at >= 0 && op->kind == LW_OP_RECV)
            t->received[at] = i;
    }
    for (int32_t i = 0; i < g->n_ops; i++)
        if (is_message(p, &p->ops[g->first_op + i]))
            connect(p, g, t, f, i);
}

static bool has_messages(const struct lw_plan *p, const struct lw_program *g, struct table *t)
{
    bool any = false;

    for (int32_t i = 0; i < g->n_ops; i++) {
        const struct lw_op *op = &p->ops[g->first_op + i];
        any = any || is_message(p, op);
        if (op->module >= t->n_modules)
            t->n_modules = (int64_t)op->module + 1;
        if (op->micro_batch >= t->n_micro)
            t->n_micro = (int64_t)op->micro_batch + 1;
    }
    return any;
}

enum lw_status exec_flow_init(const struct lw_plan *p, const struct lw_program *g,
                              struct lw_arena *arena, struct exec_flow *f, struct lw_err *err)
{
    struct table t = {0};
    int64_t n = has_messages(p, g, &t) ? 2 * t.n_modules * t.n_micro : 0;

    f->end_of = lw_arena_alloc(arena, g->n_ops, sizeof *f->end_of);
    f->first = lw_arena_alloc(arena, g->n_ops, sizeof *f->first);
    f->next = lw_arena_alloc(arena, g->n_ops, sizeof *f->next);
    f->source = lw_arena_alloc(arena, g->n_ops, sizeof *f->source);
    t.first = lw_alloc((size_t)(3 * n + 1) * sizeof *t.first);
    if (!t.first || !f->end_of || !f->first || !f->next || !f->source) {
        lw_free(t.first);
        return lw_fail_nomem(err);
    }
    memset(t.first, -1, (size_t)(3 * n) * sizeof *t.first);
    t.last = t.first + n;
    t.received = t.last + n;
    if (n == 0)
        t.n_modules = t.n_micro = 0;
    fill(p, g, &t, f);
    lw_free(t.first);
    return LW_OK;
}
