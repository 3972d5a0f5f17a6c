/* The critical path by what bounds it. A piece of the path is an op that runs (compute, copies,
 * transfers, with those that hold a queue up), which is divided as the op's time is; the host,
 * which works or launches late; or nothing: no op of the step runs, or a communication waits for a
 * member that is not known. Each piece is divided in integers that sum to it, and pieces tile the
 * step, so the bounds sum to the step. */
#include "analysis/explain/path_bound.h"

#include <string.h>

#include "shared/base/sort.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"

const char *lw_path_bound_name(int bound)
{
    return bound == LW_PATH_IDLE ? "nothing runs" : lw_op_bound_name(bound);
}

const char *lw_path_bound_key(int bound)
{
    return bound == LW_PATH_IDLE ? "idle" : lw_op_bound_key(bound);
}

LW_FREE_BY_ARENA(lw_path_bounds_free, struct lw_path_bounds)

lw_ps lw_resource_time(enum lw_resource r, const lw_ps by[LW_N_OP_BOUNDS])
{
    switch (r) {
    case LW_RESOURCE_CLOCK: return by[LW_BOUND_COMPUTE];
    case LW_RESOURCE_MEMORY: return by[LW_BOUND_MEMORY];
    case LW_RESOURCE_NETWORK: return by[LW_BOUND_NETWORK];
    default: return by[LW_BOUND_LAUNCH] + by[LW_BOUND_HOST];
    }
}

/* --- works ------------------------------------------------------------------------------------ */

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_works(const struct lw_op *a, const struct lw_op *b)
{
    int c = order(a->kind, b->kind);

    c = c ? c : order(a->module, b->module);
    c = c ? c : order(a->bucket, b->bucket);
    return c ? c : strcmp(a->name, b->name);
}

bool lw_same_work(const struct lw_op *a, const struct lw_op *b)
{
    return compare_works(a, b) == 0;
}

struct piece {
    struct lw_op op;
    struct lw_path_work work;
};

static int by_work(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    int c = compare_works(&a->op, &b->op);

    return c ? c : order(a->work.op, b->work.op);
}

/* Pieces of one work become the first of them. Returns their number. */
static int64_t join(struct piece *v, int64_t n)
{
    int64_t k = 0;

    lw_sort(v, n, by_work);
    for (int64_t i = 1, last = 0; i < n; i++) {
        if (!lw_same_work(&v[k].op, &v[i].op)) {
            v[++k] = v[i];
            last = i;
            continue;
        }
        v[k].work.n_ops += v[i].work.op != v[last].work.op;
        last = i;
        v[k].work.time += v[i].work.time;
        for (int b = 0; b < LW_N_OP_BOUNDS; b++)
            v[k].work.by[b] += v[i].work.by[b];
    }
    return n > 0 ? k + 1 : 0;
}

/* --- the path --------------------------------------------------------------------------------- */

static void divide(const struct lw_plan *plan, const struct lw_path_part *p, bool measured,
                   int64_t spread, lw_ps by[LW_N_PATH_BOUNDS])
{
    lw_ps time = p->to - p->from;

    switch (p->cause) {
    case LW_CAUSE_COMPUTE:
    case LW_CAUSE_HOST_UPDATE:
    case LW_CAUSE_COPY:
    case LW_CAUSE_TRANSFER:
    case LW_CAUSE_QUEUE:
        if (measured)
            by[LW_BOUND_MEASURED] += time;
        else
            lw_op_add_bounds(plan, LW_OP(plan, p->op), time, spread, by);
        break;
    case LW_CAUSE_HOST:
        if (measured)
            by[LW_BOUND_HOST] += time;
        else
            lw_op_add_bounds(plan, LW_OP(plan, p->op), time, spread, by);
        break;
    case LW_CAUSE_LAUNCH: by[LW_BOUND_HOST] += time; break;
    default: by[LW_PATH_IDLE] += time; break;
    }
}

enum lw_status lw_path_bounds_of(const struct lw_explanation *e, const struct lw_plan *plan,
                                 bool measured, int64_t spread, struct lw_path_bounds *out,
                                 struct lw_err *err)
{
    struct lw_path_bounds b = {0};
    struct lw_arena scratch = {0};
    struct piece *v = lw_arena_alloc(&scratch, e->n_path, sizeof *v);
    int64_t n = 0;

    for (int64_t i = 0; v && i < e->n_path; i++) {
        const struct lw_path_part *p = &e->path[i];
        lw_ps by[LW_N_PATH_BOUNDS] = {0};
        divide(plan, p, measured, spread, by);
        for (int k = 0; k < LW_N_PATH_BOUNDS; k++)
            b.ps[k] += by[k];
        if (by[LW_PATH_IDLE] > 0)
            continue;
        v[n] = (struct piece){lw_op_at(plan, p->op),
                              {.op = p->op, .n_ops = 1, .time = p->to - p->from}};
        memcpy(v[n++].work.by, by, sizeof v->work.by);
    }
    n = v ? join(v, n) : 0;
    b.works = v ? lw_arena_alloc(&b.arena, n, sizeof *b.works) : NULL;
    for (; b.works && b.n_works < n; b.n_works++)
        b.works[b.n_works] = v[b.n_works].work;
    lw_arena_free(&scratch);
    if (!b.works) {
        lw_arena_free(&b.arena);
        return lw_fail_nomem(err);
    }
    *out = b;
    return LW_OK;
}
