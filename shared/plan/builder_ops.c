/* Ops of a plan that is built. Invariant: the parts of an op that live in shared tables (deps,
 * ready) belong to the op added last, so they are contiguous. */
#include "shared/plan/builder_inside.h"
#include "shared/plan/op_rows.h"

#include <assert.h>
#include <string.h>

/* --- ops -----------------------------------------------------------------------------------------
 * Where ops share rows, the one added last is whole, since it may still get dependencies and
 * gradients. */

/* The op added last gets its row. */
void lw_builder_close_op(struct lw_builder *b)
{
    if (!b->last_open || b->failed)
        return;
    b->failed = lw_op_rows_set(&b->plan, &b->sharing, b->plan.n_ops - 1, &b->last, NULL) != LW_OK;
    b->last_open = false;
}

static struct lw_op op_of(const struct lw_builder *b, int32_t op)
{
    return b->last_open && op == b->plan.n_ops - 1 ? b->last : lw_op_at(&b->plan, op);
}

static int32_t first_dep_of(const struct lw_builder *b, int32_t op)
{
    return b->last_open && op == b->plan.n_ops - 1 ? b->last.first_dep
                                                   : lw_op_first_dep(&b->plan, op);
}

/* Where the dependencies of the op end. */
static int32_t deps_end(const struct lw_builder *b, int32_t op)
{
    const struct lw_plan *p = &b->plan;

    if (b->last_open && op == p->n_ops - 1)
        return b->last.first_dep + b->last.n_deps;
    return lw_op_first_dep(p, op) + (p->ops ? p->ops[op].n_deps
                                            : p->op_rows[p->op_places[op].row].n_deps);
}

/* The op added last, to change it. */
static struct lw_op *last_op(struct lw_builder *b)
{
    if (!b->shares)
        return &b->plan.ops[b->plan.n_ops - 1];
    if (!b->last_open)
        b->last = lw_op_at(&b->plan, b->plan.n_ops - 1);
    b->last_open = true;
    return &b->last;
}

static int32_t add_op(struct lw_builder *b, const struct lw_op *op)
{
    if (!b->shares)
        return lw_builder_push(b, LW_TABLE_ops, op);
    lw_builder_close_op(b);
    b->failed = b->failed || b->plan.n_ops == INT32_MAX;
    if (b->failed)
        return b->plan.n_ops - 1;
    b->last = *op;
    b->last_open = true;
    return b->plan.n_ops++;
}

/* --- ready lists ---------------------------------------------------------------------------------
 * A copy takes what the backward before it completed, and passes repeat each other: an op whose
 * list stands in the table already refers to it there. */

/* Where the n gradients from `list` on stand in the table before `end`; -1 = nowhere that is looked
 * at. */
static int64_t place_of_list(const struct lw_builder *b, const int32_t *list, int32_t n,
                             int64_t end)
{
    const int64_t places[] = {b->list_before, b->list_next, b->list_first};
    const int32_t *ready = b->plan.ready;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i] + n <= end &&
            (ready + places[i] == list ||
             memcmp(ready + places[i], list, (size_t)n * sizeof *ready) == 0))
            return places[i];
    return -1;
}

/* The op added last will get no more gradients. */
void lw_builder_close_list(struct lw_builder *b)
{
    if (b->failed || !b->list_open)
        return;
    struct lw_op *op = last_op(b);
    b->list_open = false;
    int64_t place = place_of_list(b, b->plan.ready + op->first_ready, op->n_ready, op->first_ready);
    if (place >= 0) {
        b->plan.n_ready -= op->n_ready;
        op->first_ready = (int32_t)place;
    }
    b->list_before = op->first_ready;
    b->list_next = op->first_ready + (int64_t)op->n_ready;
}

static struct lw_program *program_of(const struct lw_builder *b, int32_t variant)
{
    return &b->plan.programs[(int64_t)variant * b->plan.n_roles + b->role];
}

/* Lists of the program that begins now may be those of this role in another variant. */
static void expect_lists(struct lw_builder *b)
{
    b->list_first = b->plan.n_ready;
    for (int32_t v = b->plan.n_variants - 1; v >= 0; v--)
        if (program_of(b, v)->n_ops > 0)
            b->list_first = b->lists_from[program_of(b, v) - b->plan.programs];
    b->list_before = b->list_next = b->list_first;
}

void lw_builder_program(struct lw_builder *b, int32_t variant, int32_t role)
{
    if (b->failed)
        return;
    assert(variant < b->plan.n_variants && role < b->plan.n_roles);
    lw_builder_close_list(b);
    b->variant = variant;
    b->role = role;
    b->failed = lw_reserve(&b->lists_from, &b->lists_from_capacity, b->n_programs,
                           sizeof *b->lists_from) != 0;
    if (b->failed)
        return;
    expect_lists(b);
    b->lists_from[program_of(b, variant) - b->plan.programs] = b->plan.n_ready;
    *program_of(b, variant) = (struct lw_program){b->plan.n_ops, 0};
}

struct lw_op lw_builder_blank(enum lw_op_kind kind, int32_t stream)
{
    return (struct lw_op){.kind = kind,
                          .stream = stream,
                          .comm = -1,
                          .call = -1,
                          .work = -1,
                          .peer = -1,
                          .operand = -1,
                          .module = -1,
                          .stage = -1,
                          .micro_batch = -1,
                          .bucket = -1,
                          .name = ""};
}

int32_t lw_builder_op(struct lw_builder *b, const struct lw_op *op, const int32_t *deps,
                      int32_t n_deps)
{
    struct lw_op copy = *op;

    if (b->failed)
        return -1;
    assert(b->variant >= 0);
    lw_builder_close_list(b);
    copy.name = lw_builder_keep_word(b, op->name);
    copy.first_dep = b->plan.n_deps;
    copy.n_deps = n_deps;
    copy.first_ready = b->plan.n_ready;
    copy.n_ready = 0;
    for (int32_t i = 0; i < n_deps; i++)
        lw_builder_push_dep(b, deps[i]);
    int32_t number = add_op(b, &copy);
    if (!b->failed)
        program_of(b, b->variant)->n_ops++;
    return number;
}

int32_t lw_builder_again(struct lw_builder *b, int32_t op, int32_t micro_batch, const int32_t *deps,
                         int32_t n_deps)
{
    struct lw_plan *p = &b->plan;

    if (b->failed)
        return -1;
    lw_builder_close_list(b);
    assert(deps_end(b, op) - first_dep_of(b, op) == n_deps);
    const int32_t first_dep = p->n_deps;
    for (int32_t i = 0; i < n_deps; i++)
        lw_builder_push_dep(b, deps[i]);
    if (b->shares) {
        lw_builder_close_op(b);
        b->failed = b->failed || p->n_ops == INT32_MAX ||
                    lw_op_rows_repeat(p, &b->sharing, p->n_ops, op, micro_batch, first_dep, NULL) !=
                        LW_OK;
        p->n_ops += !b->failed;
    } else {
        struct lw_op copy = p->ops[op];
        copy.micro_batch = micro_batch;
        copy.first_dep = first_dep;
        copy.first_ready = p->n_ready;
        lw_builder_push(b, LW_TABLE_ops, &copy);
    }
    program_of(b, b->variant)->n_ops += !b->failed;
    return p->n_ops - 1;
}

void lw_builder_dep(struct lw_builder *b, int32_t dep)
{
    lw_builder_push_dep(b, dep);
    if (!b->failed)
        last_op(b)->n_deps++;
}

static int32_t moved_dep(const struct lw_op_range *x, int32_t by, int32_t dep)
{
    if (dep >= x->first)
        return dep + by;
    for (int32_t i = 0; i < x->n_outside; i++)
        if (dep == x->outside[i])
            return x->instead[i];
    assert(!"an op before the range that is not named");
    return dep;
}

/* The op's gradients once more. */
static void repeat_ready(struct lw_builder *b, int32_t first, int32_t n)
{
    int32_t *ready = lw_builder_extend(b, LW_TABLE_ready, n);

    if (!ready)
        return;
    memcpy(ready, b->plan.ready + first, (size_t)n * sizeof *ready);
    last_op(b)->n_ready = n;
    b->list_open = true;
}

/* Its copy of gradients stands where the list stands already, if it does. */
static bool repeat_list(struct lw_builder *b, struct lw_op *op, const struct lw_op *from)
{
    int64_t place =
        place_of_list(b, b->plan.ready + from->first_ready, from->n_ready, b->plan.n_ready);

    if (place < 0)
        return false;
    op->first_ready = (int32_t)place;
    op->n_ready = from->n_ready;
    b->list_before = place;
    b->list_next = place + from->n_ready;
    return true;
}

/* An op that completes gradients, with its micro-batch and dependencies as they are now. */
static void repeat_with_ready(struct lw_builder *b, int32_t from, int32_t micro_batch,
                              int32_t first_dep)
{
    struct lw_op op = op_of(b, from);
    const int32_t first_ready = op.first_ready, n_ready = op.n_ready;

    op.micro_batch = micro_batch;
    op.first_dep = first_dep;
    op.first_ready = b->plan.n_ready;
    op.n_ready = 0;
    add_op(b, &op);
    repeat_ready(b, first_ready, n_ready);
}

/* Room for its dependencies is there. */
static void repeat_row(struct lw_builder *b, const struct lw_op_range *x, int32_t from, int32_t by)
{
    struct lw_plan *p = &b->plan;

    lw_builder_close_list(b);
    lw_builder_close_op(b);
    if (b->failed)
        return;
    const struct lw_op_place place = p->op_places[from];
    const struct lw_op *row = &p->op_rows[place.row];
    const int32_t first_dep = p->n_deps;
    int32_t micro_batch =
        place.micro_batch == x->from_micro_batch ? x->micro_batch : place.micro_batch;
    for (int32_t i = 0; i < row->n_deps; i++)
        p->deps[p->n_deps++] = moved_dep(x, by, p->deps[place.first_dep + i]);
    if (row->n_ready > 0) {
        repeat_with_ready(b, from, micro_batch, first_dep);
        return;
    }
    b->failed = lw_op_rows_repeat(p, &b->sharing, p->n_ops, from, micro_batch, first_dep, NULL) !=
                LW_OK;
    p->n_ops += !b->failed;
}

/* The same in a table of whole ops, which has room for it too. */
static void repeat_op(struct lw_builder *b, const struct lw_op_range *x, int32_t from, int32_t by)
{
    struct lw_plan *p = &b->plan;

    lw_builder_close_list(b);
    struct lw_op *op = &p->ops[p->n_ops++];
    *op = p->ops[from];
    if (op->micro_batch == x->from_micro_batch)
        op->micro_batch = x->micro_batch;
    op->first_dep = p->n_deps;
    op->first_ready = p->n_ready;
    op->n_ready = 0;
    const int32_t *deps = p->deps + p->ops[from].first_dep;
    for (int32_t i = 0; i < op->n_deps; i++)
        p->deps[p->n_deps++] = moved_dep(x, by, deps[i]);
    if (p->ops[from].n_ready > 0 &&
        (from + 1 == x->first + x->n || !repeat_list(b, op, &p->ops[from])))
        repeat_ready(b, p->ops[from].first_ready, p->ops[from].n_ready); /* the last is open */
}

static void repeat_rows(struct lw_builder *b, const struct lw_op_range *x, int32_t by)
{
    for (int32_t i = 0; i < x->n && !b->failed; i++)
        repeat_row(b, x, x->first + i, by);
}

static void repeat_ops(struct lw_builder *b, const struct lw_op_range *x, int32_t by)
{
    if (!lw_builder_extend(b, LW_TABLE_ops, x->n))
        return;
    b->plan.n_ops -= x->n;
    for (int32_t i = 0; i < x->n && !b->failed; i++)
        repeat_op(b, x, x->first + i, by);
}

void lw_builder_repeat(struct lw_builder *b, const struct lw_op_range *x)
{
    if (b->failed || x->n == 0)
        return;
    int32_t n_ops = b->plan.n_ops, by = n_ops - x->first;
    int32_t n_deps = deps_end(b, x->first + x->n - 1) - first_dep_of(b, x->first);
    /* room for all of them */
    b->failed =
        x->n > INT32_MAX - n_ops || (!lw_builder_extend(b, LW_TABLE_deps, n_deps) && b->failed);
    if (b->failed)
        return;
    b->plan.n_deps -= n_deps;
    if (b->shares)
        repeat_rows(b, x, by);
    else
        repeat_ops(b, x, by);
    program_of(b, b->variant)->n_ops += b->plan.n_ops - n_ops;
}

/* --- another order ---------------------------------------------------------------------------- */

/* Of n ops, the i-th is what the order[i]-th was, but for where its dependencies stand: `old` has
 * them as they were, as the builder holds them. */
static void place_again(struct lw_builder *b, int32_t first, const int32_t *order, int32_t n,
                        const void *old)
{
    const struct lw_op *ops = old;
    const struct lw_op_place *places = old;

    for (int32_t i = 0; i < n; i++)
        if (b->shares)
            b->plan.op_places[first + i] = places[order[i]];
        else
            b->plan.ops[first + i] = ops[order[i]];
}

static void *held_ops(const struct lw_builder *b, int32_t first)
{
    return b->shares ? (void *)(b->plan.op_places + first) : (void *)(b->plan.ops + first);
}

static size_t held_size(const struct lw_builder *b)
{
    return b->shares ? sizeof(struct lw_op_place) : sizeof(struct lw_op);
}

/* Of an array beside the places of ops; NULL: there is none. */
static void reorder_beside(struct lw_builder *b, void *items, size_t size, int32_t first,
                           const int32_t *order, int32_t n)
{
    char *at = items ? (char *)items + (size_t)first * size : NULL;
    char *old = at ? lw_alloc((size_t)n * size) : NULL;

    b->failed = b->failed || (at && !old);
    if (old)
        memcpy(old, at, (size_t)n * size);
    for (int32_t i = 0; old && i < n; i++)
        memcpy(at + (size_t)i * size, old + (size_t)order[i] * size, size);
    lw_free(old);
}

/* They are the last ones of the table: nothing else was added since. */
static void reorder_deps(struct lw_builder *b, int32_t first, int32_t n, const int32_t *now,
                         int32_t from, const int32_t *old)
{
    for (int32_t i = 0, at = from; i < n; i++) {
        struct lw_op op = lw_op_at(&b->plan, first + i);
        const int32_t *mine = old + (op.first_dep - from);
        if (b->shares)
            b->plan.op_places[first + i].first_dep = at;
        else
            b->plan.ops[first + i].first_dep = at;
        for (int32_t k = 0; k < op.n_deps; k++)
            b->plan.deps[at++] = mine[k] < first ? mine[k] : now[mine[k] - first];
    }
}

void lw_builder_reorder(struct lw_builder *b, int32_t first, const int32_t *order, int32_t n)
{
    lw_builder_close_list(b);
    lw_builder_close_op(b);
    if (b->failed || n == 0)
        return;
    int32_t from = lw_op_at(&b->plan, first).first_dep, n_deps = b->plan.n_deps - from;
    void *old = lw_alloc((size_t)n * held_size(b));
    int32_t *now = lw_alloc((size_t)n * sizeof *now);
    int32_t *deps = lw_alloc(((size_t)n_deps + 1) * sizeof *deps);
    b->failed = !old || !now || !deps;
    if (!b->failed) {
        memcpy(old, held_ops(b, first), (size_t)n * held_size(b));
        for (int32_t i = 0; i < n; i++)
            now[order[i]] = first + i;
        if (n_deps > 0)
            memcpy(deps, b->plan.deps + from, (size_t)n_deps * sizeof *deps);
        place_again(b, first, order, n, old);
        reorder_beside(b, b->plan.op_calls, sizeof *b->plan.op_calls, first, order, n);
        reorder_beside(b, b->plan.op_own, sizeof *b->plan.op_own, first, order, n);
        reorder_deps(b, first, n, now, from, deps);
    }
    lw_free(old);
    lw_free(now);
    lw_free(deps);
}

bool lw_builder_has_failed(const struct lw_builder *b)
{
    return b->failed;
}

struct lw_op lw_builder_op_at(const struct lw_builder *b, int32_t op)
{
    return b->failed ? lw_builder_blank(LW_OP_HOST, 0) : op_of(b, op);
}

const int32_t *lw_builder_deps_of(const struct lw_builder *b, int32_t op)
{
    return b->failed ? NULL : b->plan.deps + first_dep_of(b, op);
}

int32_t lw_builder_n_ops(const struct lw_builder *b)
{
    return b->plan.n_ops;
}

int32_t *lw_builder_ready_room(struct lw_builder *b, int32_t n)
{
    int32_t *to = lw_builder_extend(b, LW_TABLE_ready, n);

    if (!to)
        return NULL;
    b->list_open = true;
    last_op(b)->n_ready += n;
    return to;
}

void lw_builder_ready(struct lw_builder *b, int32_t param)
{
    int32_t *to = lw_builder_ready_room(b, 1);

    if (to)
        *to = param;
}
