/* Values on their way through the stages. What crosses a boundary is a value of its own: whole
 * numbers, a function of (boundary, direction, micro-batch, step, data and tensor coordinate). The
 * op that makes a message computes it from what its stage received: to = own value + (received -
 * what should have been received), so data really flows and damage goes on flowing. The op that
 * takes a message compares it, element by element, and notes the first that differs; the step goes
 * on, so no rank hangs.
 *
 * After the step the note becomes words. What else could the values be? Those of another
 * micro-batch or boundary (a message that went astray), of the step before (nothing came), or, when
 * the memory is right by now, the right ones too late. Only where a run is verified; else messages
 * carry what lies there. */
#include "exec/tensors/stage_values.h"

#include <stdio.h>

/* Whose block a message of a ring carries, in a backward whose gradients: a forward's blocks come
 * from the ranks before its sender, a backward's from those after it. The first message is named
 * for its sender. */
static int32_t owner_of(const struct exec_tensors *m, const struct lw_op *op, int32_t variant,
                        int32_t rank)
{
    const struct lw_plan *p = m->plan;
    const struct lw_message_ends *f = &exec_tensors_layout(m, variant, rank)->flow;
    int32_t i = (int32_t)(op - p->ops) - lw_plan_program(p, variant, rank).first_op;
    int32_t sender = op->kind == LW_OP_SEND ? rank : lw_plan_operand(p, op, rank).peer;
    const struct lw_group *g = lw_plan_group(p, op->comm, rank);
    int32_t hops = (f->returns[i] ? f->hop[i] : -f->hop[i]) % g->n_members;
    int32_t member = (lw_plan_member(p, g, sender) + hops + g->n_members) % g->n_members;

    return lw_plan_member_at(p, g->first_member + member);
}

/* What tells the values of ranks apart. */
static int32_t place_of(const struct exec_tensors *m, int32_t rank)
{
    return (lw_plan_coord(m->plan, rank, LW_AXIS_DP) << 16) +
           lw_plan_coord(m->plan, rank, LW_AXIS_TP);
}

static bool goes_round(const struct exec_tensors *m, const struct lw_op *op)
{
    return m->plan->comms[op->comm].purpose == LW_COMM_CONTEXT;
}

static bool is_backward(const struct exec_tensors *m, const struct lw_op *op, int32_t variant,
                        int32_t rank)
{
    int32_t i = (int32_t)(op - m->plan->ops) - lw_plan_program(m->plan, variant, rank).first_op;

    return goes_round(m, op) ? exec_tensors_layout(m, variant, rank)->flow.returns[i]
                             : lw_message_is_backward(m->plan, op);
}

static struct exec_gradient value_of(const struct exec_tensors *m, const struct lw_op *op,
                                     int32_t variant, const struct exec_place *at)
{
    int32_t owner = goes_round(m, op) ? owner_of(m, op, variant, at->rank) : at->rank;
    bool backward = is_backward(m, op, variant, at->rank);

    return (struct exec_gradient){.table = &m->values,
                                  .param = op->module * 2 + backward,
                                  .rank = place_of(m, owner),
                                  .step = at->step,
                                  .pass = at->pass * at->micro_batches + op->micro_batch};
}

static struct exec_message message_of(const struct exec_tensors *m, int32_t variant, int32_t i,
                                      int32_t rank)
{
    const struct lw_program g = lw_plan_program(m->plan, variant, rank);

    return exec_tensors_message(m, &m->plan->ops[g.first_op + i], variant, rank, NULL);
}

enum lw_status exec_value_parts(const struct exec_tensors *m, int32_t variant, int32_t i, bool made,
                                const struct exec_place *at, struct exec_parts *parts,
                                struct lw_err *err)
{
    const struct lw_message_ends *f = &exec_tensors_layout(m, variant, at->rank)->flow;
    const struct lw_program g = lw_plan_program(m->plan, variant, at->rank);

    for (int32_t k = m->compares ? f->first[i] : -1; k >= 0; k = f->next[k]) {
        const struct lw_op *op = &m->plan->ops[g.first_op + k];
        if (op->kind != (made ? LW_OP_SEND : LW_OP_RECV))
            continue;
        struct exec_message x = message_of(m, variant, k, at->rank);
        struct exec_part part = {.kind = made ? EXEC_PART_FILL : EXEC_PART_EXPECT,
                                 .to = x.mem,
                                 .from = x.mem,
                                 .to_dtype = x.dtype,
                                 .from_dtype = x.dtype,
                                 .count = x.count,
                                 .message = k,
                                 .gradient = value_of(m, op, variant, at)};
        LW_TRY(exec_parts_add(parts, part, err));
        if (!made || f->source[k] < 0)
            continue;
        struct exec_message from = message_of(m, variant, f->source[k], at->rank);
        part.kind = EXEC_PART_CARRY;
        part.from = from.mem;
        part.from_dtype = from.dtype;
        part.n_from = from.count;
        part.gradient = value_of(m, &m->plan->ops[g.first_op + f->source[k]], variant, at);
        LW_TRY(exec_parts_add(parts, part, err));
    }
    return LW_OK;
}

/* --- words ------------------------------------------------------------------------------------ */

static bool holds(const struct exec_message *x, const double *seen, const struct exec_gradient *g)
{
    for (int64_t e = 0; e < x->count && e < EXEC_SEEN; e++)
        if (seen[e] != exec_gradient_at(g, e))
            return false;
    return true;
}

static void name_value(const struct exec_gradient *g, int32_t micro_batches, char *text,
                       size_t room)
{
    snprintf(text, room, "the %s module %d of micro-batch %d",
             g->param % 2 ? "gradient before" : "activation after",
             g->param % 2 ? g->param / 2 + 1 : g->param / 2, g->pass % micro_batches);
}

static bool lies_there(const struct exec_tensors *m, int32_t rank, const struct exec_message *x,
                       const struct exec_gradient *g)
{
    double raw[EXEC_SEEN], seen[EXEC_SEEN]; /* raw: of the widest type */
    int64_t n = x->count < EXEC_SEEN ? x->count : EXEC_SEEN;

    if (m->backend->mem_read(m->world, rank, raw, x->mem, n * lw_dtype_size(x->dtype), NULL) !=
        LW_OK)
        return false;
    for (int64_t e = 0; e < n; e++)
        seen[e] = exec_get(x->dtype, raw, e);
    return holds(x, seen, g);
}

/* Any value of the step that it is. */
static bool find_value(const struct exec_tensors *m, const struct exec_place *at,
                       const struct exec_message *x, const double *seen, struct exec_gradient *g)
{
    for (g->param = 0; g->param < 2 * m->plan->n_modules; g->param++)
        for (int32_t k = 0; k < at->micro_batches; k++) {
            g->pass = at->pass * at->micro_batches + k;
            if (holds(x, seen, g))
                return true;
        }
    return false;
}

/* Is what was seen what the message before had left in this place? */
static bool was_there(const struct exec_tensors *m, int32_t variant, const struct exec_place *at,
                      int32_t message, const struct exec_message *x, const double *seen)
{
    const struct exec_layout *l = exec_tensors_layout(m, variant, at->rank);
    int32_t before = l->before_of[message];

    if (before < 0 || l->flow.end_of[before] < 0)
        return false;
    int32_t first = lw_plan_program(m->plan, variant, at->rank).first_op;
    struct exec_gradient g = value_of(m, &m->plan->ops[first + before], variant, at);
    return holds(x, seen, &g);
}

/* The rank of the group whose block it is; -1 = no one's. */
static int32_t find_owner(const struct exec_tensors *m, const struct lw_op *op, int32_t rank,
                          const struct exec_message *x, const double *seen, struct exec_gradient g)
{
    const struct lw_plan *p = m->plan;
    const struct lw_group *group = lw_plan_group(p, op->comm, rank);

    for (int32_t k = 0; k < group->n_members; k++) {
        int32_t owner = lw_plan_member_at(p, group->first_member + k);
        g.rank = place_of(m, owner);
        if (holds(x, seen, &g))
            return owner;
    }
    return -1;
}

/* What lies there instead, by what was seen and by what lies there now. */
static void guess(const struct exec_tensors *m, int32_t variant, const struct exec_place *at,
                  const struct exec_part *part, char *text, size_t room)
{
    struct exec_message x = message_of(m, variant, part->message, at->rank);
    struct exec_gradient g = part->gradient;
    const double *seen = part->found->seen;
    const struct lw_op *op =
        &m->plan->ops[lw_plan_program(m->plan, variant, at->rank).first_op + part->message];
    int32_t owner = goes_round(m, op) ? find_owner(m, op, at->rank, &x, seen, g) : -1;
    char name[96];

    text[0] = '\0';
    if (lies_there(m, at->rank, &x, &g)) {
        snprintf(text, room, "; it came later: nothing waits for it");
    } else if (was_there(m, variant, at, part->message, &x, seen)) {
        snprintf(text, room, "; it is the old content of the memory: no message arrived");
    } else if (owner >= 0) {
        snprintf(text, room, "; it is that of rank %d", owner);
    } else if (goes_round(m, op)) {
        return;
    } else if (find_value(m, at, &x, seen, &g)) {
        name_value(&g, at->micro_batches, name, sizeof name);
        snprintf(text, room, "; it is %s", name);
    } else {
        g.step--;
        if (find_value(m, at, &x, seen, &g))
            snprintf(text, room, "; it is the value of the step before: no message arrived");
    }
}

enum lw_status exec_mismatch_tell(const struct exec_tensors *m, int32_t variant, int32_t i,
                                  const struct exec_place *at, const struct exec_part *part,
                                  struct lw_err *err)
{
    const struct lw_program g = lw_plan_program(m->plan, variant, at->rank);
    const struct lw_op *op = &m->plan->ops[g.first_op + part->message];
    struct exec_message x = message_of(m, variant, part->message, at->rank);
    int64_t element = part->found->place - 1;
    char name[96], why[128];

    if (goes_round(m, op))
        snprintf(name, sizeof name, "keys and values of module %d, micro-batch %d, of rank %d",
                 op->module, op->micro_batch, owner_of(m, op, variant, at->rank));
    else
        name_value(&part->gradient, at->micro_batches, name, sizeof name);
    guess(m, variant, at, part, why, sizeof why);
    return lw_fail(err, LW_ENO,
                   "step %d: op %d (%s) of rank %d takes %s from rank %d (op %d): element %lld is "
                   "%g, not %g%s",
                   at->step, g.first_op + i, lw_op_name(m->plan->ops[g.first_op + i].kind),
                   at->rank, name, x.peer, (int32_t)(op - m->plan->ops), (long long)element,
                   part->found->got, exec_gradient_at(&part->gradient, element), why);
}
