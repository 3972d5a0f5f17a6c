/* Payloads: communication without a bucket that names no value of a stage. Each op of each rank
 * gets numbers of its own, compared with what the op must leave. Sums that one op of the rank
 * makes and another one takes (tensor parallelism) are set by the one and compared by the other,
 * as values of stages are, so that they need memory no longer; the rest is set on the host
 * before the step and compared after it. Not compared: what an op leaves undefined, and a send. */
#include "exec/tensors/payload_check.h"

#include <stdio.h>

#include "exec/backend/element.h"

struct payload { /* one op as one rank sends it */
    const struct lw_op *op;
    const struct lw_group *group;
    struct exec_message m;
    struct exec_gradient g;
    int32_t member;
};

/* false: nothing to set or compare. */
static bool read_payload(const struct exec_tensors *m, int32_t variant, int32_t rank, int32_t step,
                         int32_t i, struct payload *l)
{
    const struct lw_plan *p = m->plan;
    const struct lw_op *op = &p->ops[i];

    const struct exec_layout *layout = exec_tensors_layout(m, variant, rank);
    int32_t k0 = i - lw_plan_program(p, variant, rank).first_op;
    bool passes = lw_op_class(op->kind) == LW_CLASS_P2P;

    if (op->comm < 0 || op->bucket >= 0 || op->kind == LW_OP_BARRIER ||
        (passes && (layout->flow.end_of[k0] >= 0 || layout->flow.passed[k0] >= 0)))
        return false;
    *l = (struct payload){.op = op, .group = lw_plan_group(p, op->comm, rank)};
    l->m = exec_tensors_message(m, op, variant, rank, layout);
    l->g =
        (struct exec_gradient){&m->messages, layout->turn_of[k0] * p->n_comms + op->comm, rank,
                               step, passes ? 1 + (op->kind == LW_OP_SEND ? l->m.peer : rank) : 0};
    l->member = l->group ? lw_plan_member(p, l->group, rank) : -1;
    return l->group && l->m.count > 0;
}

/* --- ends ------------------------------------------------------------------------------------- */

static int32_t maker_of(const struct lw_plan *p, const struct lw_program *g, int32_t k)
{
    const struct lw_op *op = &p->ops[g->first_op + k];
    int32_t maker = -1;

    for (int32_t d = 0; d < op->n_deps; d++) {
        int32_t i = p->deps[op->first_dep + d] - g->first_op;
        if (lw_op_class(p->ops[g->first_op + i].kind) == LW_CLASS_COMPUTE && i > maker)
            maker = i;
    }
    return maker;
}

static bool waits_for(const struct lw_plan *p, const struct lw_op *op, int32_t before)
{
    for (int32_t d = 0; d < op->n_deps; d++)
        if (p->deps[op->first_dep + d] == before)
            return true;
    return false;
}

static int32_t taker_of(const struct lw_plan *p, const struct lw_program *g, int32_t k)
{
    for (int32_t i = k + 1; i < g->n_ops; i++) {
        const struct lw_op *op = &p->ops[g->first_op + i];
        enum lw_op_class class = lw_op_class(op->kind);
        if ((class == LW_CLASS_COMPUTE || class == LW_CLASS_COPY) &&
            waits_for(p, op, g->first_op + k))
            return i;
    }
    return -1;
}

static bool may_have_ends(const struct lw_plan *p, const struct lw_op *op, int32_t rank)
{
    const struct lw_group *group = op->comm >= 0 ? lw_plan_group(p, op->comm, rank) : NULL;

    return op->kind == LW_OP_ALL_REDUCE && op->bucket < 0 && op->dtype != LW_U8 && group &&
           group->n_members <= EXEC_MAX_SUMMED;
}

static void connect(struct exec_payload_ends *e, int32_t k, int32_t maker, int32_t taker)
{
    e->maker[k] = maker;
    e->taker[k] = taker;
    e->next_made[k] = e->made[maker];
    e->made[maker] = k;
    e->next_taken[k] = e->taken[taker];
    e->taken[taker] = k;
}

enum lw_status exec_payload_ends_init(const struct lw_plan *p, const struct lw_program *g,
                                      int32_t rank, struct lw_arena *arena,
                                      struct exec_payload_ends *e, struct lw_err *err)
{
    int32_t **lists[] = {&e->maker,     &e->taker, &e->made,
                         &e->next_made, &e->taken, &e->next_taken};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        LW_TAKE(arena, *lists[i], g->n_ops, err);
        for (int32_t k = 0; k < g->n_ops; k++)
            (*lists[i])[k] = -1;
    }
    for (int32_t k = 0; k < g->n_ops; k++) {
        const struct lw_op *op = &p->ops[g->first_op + k];
        int32_t maker = may_have_ends(p, op, rank) ? maker_of(p, g, k) : -1;
        int32_t taker = maker >= 0 ? taker_of(p, g, k) : -1;
        if (taker >= 0)
            connect(e, k, maker, taker);
    }
    return LW_OK;
}

/* The k-th op of the program, as the rank at a place sends it in its pass. */
static bool payload_at(const struct exec_tensors *m, int32_t variant, int32_t k,
                       const struct exec_place *at, struct payload *l)
{
    int32_t first = lw_plan_program(m->plan, variant, at->rank).first_op;
    bool is = read_payload(m, variant, at->rank, at->step, first + k, l);

    l->g.pass = at->pass;
    return is;
}

enum lw_status exec_payload_parts(const struct exec_tensors *m, int32_t variant, int32_t i,
                                  bool made, const struct exec_place *at, struct exec_parts *parts,
                                  struct lw_err *err)
{
    const struct exec_payload_ends *e = &exec_tensors_layout(m, variant, at->rank)->payloads;
    const int32_t *first = made ? e->made : e->taken, *next = made ? e->next_made : e->next_taken;
    struct payload l;

    for (int32_t k = m->compares ? first[i] : -1; k >= 0; k = next[k]) {
        if (!payload_at(m, variant, k, at, &l))
            continue;
        struct exec_part part = {.kind = made ? EXEC_PART_FILL : EXEC_PART_EXPECT,
                                 .to = l.m.mem,
                                 .from = l.m.mem,
                                 .to_dtype = l.m.dtype,
                                 .from_dtype = l.m.dtype,
                                 .count = l.m.count,
                                 .message = k,
                                 .gradient = l.g,
                                 .ranks = m->plan->members + l.group->first_member,
                                 .n_ranks = l.group->n_members};
        LW_TRY(exec_parts_add(parts, part, err));
    }
    return LW_OK;
}

/* --- before and after the step ---------------------------------------------------------------- */

/* One payload whose place serves no other message; *n_bytes counts what is compared. */
typedef enum lw_status payload_fn(const struct exec_tensors *m, const struct payload *l,
                                  int64_t *n_bytes, struct lw_err *err);

static enum lw_status each_apart(const struct exec_tensors *m, int32_t variant, int32_t step,
                                 payload_fn *work, int64_t *n_bytes, struct lw_err *err)
{
    for (int32_t k = 0; k < m->facts.n_local; k++) {
        int32_t rank = m->facts.first_local + k;
        struct lw_program g = lw_plan_program(m->plan, variant, rank);
        const bool *apart = exec_tensors_layout(m, variant, rank)->apart;
        for (int32_t i = 0; i < g.n_ops; i++) {
            struct payload l;
            if (apart[i] && read_payload(m, variant, rank, step, g.first_op + i, &l))
                LW_TRY(work(m, &l, n_bytes, err));
        }
    }
    return LW_OK;
}

static enum lw_status set_payload(const struct exec_tensors *m, const struct payload *l,
                                  int64_t *n_bytes, struct lw_err *err)
{
    int64_t bytes = l->m.count * lw_dtype_size(l->m.dtype);
    void *host = lw_alloc((size_t)bytes);

    (void)n_bytes;
    if (!host)
        return lw_fail_nomem(err);
    exec_gradient_fill(&l->g, l->m.dtype, host, 0, l->m.count, false);
    enum lw_status s = m->backend->mem_write(m->world, l->g.rank, l->m.mem, host, bytes, err);
    lw_free(host);
    return s;
}

enum lw_status exec_payloads_set(const struct exec_tensors *m, int32_t variant, int32_t step,
                                 struct lw_err *err)
{
    return each_apart(m, variant, step, set_payload, NULL, err);
}

/* The range of elements that the op defines on this rank. */
static void defined_range(const struct payload *l, int64_t *first, int64_t *n)
{
    *first = 0;
    *n = l->m.count;
    if (l->op->kind == LW_OP_REDUCE_SCATTER)
        exec_range(l->m.count, l->group->n_members, l->member, first, n);
    if (l->op->kind == LW_OP_REDUCE && l->m.peer != l->g.rank)
        *n = 0;
    if (l->op->kind == LW_OP_SEND)
        *n = 0;
}

/* As the type holds it. */
static double as_type(enum lw_dtype t, double value)
{
    double room;

    exec_put(t, &room, 0, value);
    return exec_get(t, &room, 0);
}

/* Block `block` of what member `member` brings to an all-to-all, its element e. */
static double brought(const struct lw_plan *p, const struct payload *l, int32_t member,
                      int64_t block, int64_t e)
{
    struct exec_gradient g = l->g;

    g.rank = lw_plan_member_at(p, l->group->first_member + member);
    return as_type(l->m.dtype,
                   exec_gradient_at(&g, block * (l->m.count / l->group->n_members) + e));
}

static double expected(const struct lw_plan *p, const struct payload *l, int64_t element)
{
    int64_t each = l->m.count / l->group->n_members;
    struct exec_gradient g = l->g;
    double sum = 0;

    if (l->op->kind == LW_OP_ALL_TO_ALL)
        return brought(p, l, (int32_t)(element / each), l->member, element % each);
    if (l->op->kind == LW_OP_BROADCAST || l->op->kind == LW_OP_RECV) {
        g.rank = l->m.peer;
        return as_type(l->m.dtype, exec_gradient_at(&g, element));
    }
    for (int32_t k = 0; k < l->group->n_members; k++) {
        int64_t first, n;
        g.rank = lw_plan_member_at(p, l->group->first_member + k);
        exec_range(l->m.count, l->group->n_members, k, &first, &n);
        if (l->op->kind == LW_OP_ALL_GATHER && (element < first || element >= first + n))
            continue;
        sum += exec_gradient_at(&g, element);
    }
    return as_type(l->m.dtype, sum);
}

/* Whose block lies where block `at` of an all-to-all should; mem: the whole of it. */
static void name_block(const struct lw_plan *p, const struct payload *l, const void *mem,
                       int64_t at, char *text, size_t room)
{
    int32_t n = l->group->n_members;
    const int32_t *members = p->members + l->group->first_member;
    int64_t each = l->m.count / n;

    for (int32_t k = 0; k < n * n; k++) {
        int64_t e = 0;
        while (e < each &&
               exec_get(l->m.dtype, mem, at * each + e) == brought(p, l, k / n, k % n, e))
            e++;
        if (e < each)
            continue;
        snprintf(text, room, "; it is block %d of rank %d, not block %d of rank %d", k % n,
                 members[k / n], l->member, members[at]);
        return;
    }
}

static enum lw_status astray(const struct lw_plan *p, const struct payload *l, const void *mem,
                             int64_t first, int64_t e, struct lw_err *err)
{
    char why[96] = "";

    if (l->op->kind == LW_OP_ALL_TO_ALL)
        name_block(p, l, mem, e / (l->m.count / l->group->n_members), why, sizeof why);
    return lw_fail(err, LW_ENO, "op %lld (%s %s), element %lld, rank %d: %g, not %g%s",
                   (long long)(l->op - p->ops), lw_op_name(l->op->kind), l->op->name,
                   (long long)(first + e), l->g.rank, exec_get(l->m.dtype, mem, e),
                   expected(p, l, first + e), why);
}

static enum lw_status check_payload(const struct exec_tensors *m, const struct payload *l,
                                    int64_t *n_bytes, struct lw_err *err)
{
    int64_t first, n, size = lw_dtype_size(l->m.dtype);

    defined_range(l, &first, &n);
    if (n == 0)
        return LW_OK;
    char *host = lw_alloc((size_t)(n * size));
    if (!host)
        return lw_fail_nomem(err);
    enum lw_status s = m->backend->mem_read(m->world, l->g.rank, host,
                                            (char *)l->m.mem + first * size, n * size, err);
    for (int64_t e = 0; e < n && s == LW_OK; e++)
        if (exec_get(l->m.dtype, host, e) != expected(m->plan, l, first + e))
            s = astray(m->plan, l, host, first, e, err);
    lw_free(host);
    *n_bytes += n * size;
    return s;
}

enum lw_status exec_payloads_check(const struct exec_tensors *m, int32_t variant, int32_t step,
                                   int64_t *n_bytes, struct lw_err *err)
{
    return each_apart(m, variant, step, check_payload, n_bytes, err);
}

enum lw_status exec_payloads_explain(const struct exec_tensors *m, int32_t variant,
                                     const struct exec_place *at, const struct exec_part *part,
                                     struct lw_err *err)
{
    int64_t e = part->found->place - 1;
    struct payload l;

    payload_at(m, variant, part->message, at, &l);
    return lw_fail(err, LW_ENO, "step %d: op %lld (%s %s), element %lld, rank %d: %g, not %g",
                   at->step, (long long)(l.op - m->plan->ops), lw_op_name(l.op->kind), l.op->name,
                   (long long)e, at->rank, part->found->got, expected(m->plan, &l, e));
}
