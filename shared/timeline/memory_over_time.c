/* Memory over time: what a rank holds from the start, and every change that its ops make, in the
 * order of time. At one time what an ended op gives back goes first, so that a backward and the
 * forward after it are never both counted: the peaks in flight are those of the schedule. Rows
 * of warm-up steps count too: what does not fit there does not fit. */
#include <stdlib.h>

#include "shared/base/arena.h"
#include "shared/plan/op.h"
#include "shared/plan/uses.h"
#include "shared/timeline/param_memory.h"
#include "shared/base/checked.h"

enum { TURN_GIVEN_BACK, TURN_ALLOCATION, TURN_TAKEN };

int64_t lw_memory_fixed(const struct lw_plan *plan, int32_t rank)
{
    const struct lw_role *role = &plan->roles[plan->role_of[rank]];
    int64_t sum = 0;

    for (int k = 0; k < LW_N_MEM; k++)
        sum = lw_add_sat(sum, role->static_bytes[k]);
    return sum;
}

/* Rooms of buckets are those of gradients, or of weights that are gathered. */
static enum lw_memory memory_of(const struct lw_plan *plan, int32_t op, const struct lw_use *use)
{
    bool room = lw_op_class((enum lw_op_kind)plan->ops[op].kind) == LW_CLASS_MEMORY;

    if (use->buffer == LW_USE_WEIGHTS)
        return LW_MEMORY_GATHERED;
    return room && plan->ops[op].bucket >= 0 ? LW_MEMORY_BUCKETS : LW_MEMORY_ACTIVATIONS;
}

static bool change_of(const struct lw_timeline *t, const struct lw_plan *plan, int64_t i,
                      struct lw_memory_change *c)
{
    enum lw_op_class class_ = lw_op_class((enum lw_op_kind)t->kind[i]);
    struct lw_use use;

    if (!lw_op_memory(plan, t->op[i], t->rank[i], &use))
        return false;
    bool takes = use.access == LW_TAKE, computes = class_ != LW_CLASS_MEMORY;
    *c = (struct lw_memory_change){.rank = t->rank[i],
                                   .at = takes && computes ? t->start[i] : t->end[i],
                                   .row = i,
                                   .memory = memory_of(plan, t->op[i], &use),
                                   .bytes = takes ? use.n : -use.n};
    c->turn = !computes ? TURN_ALLOCATION : takes ? TURN_TAKEN : TURN_GIVEN_BACK;
    return true;
}

static int compare_changes(const void *pa, const void *pb)
{
    const struct lw_memory_change *a = pa, *b = pb;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if (a->turn != b->turn)
        return a->turn - b->turn;
    return (a->row > b->row) - (a->row < b->row);
}

enum lw_status lw_memory_changes(const struct lw_timeline *t, const struct lw_plan *plan,
                                 struct lw_memory_change **out, int64_t *n, struct lw_err *err)
{
    struct lw_memory_change c, *v = NULL;
    int64_t count = 0;

    for (int64_t i = 0; i < t->n; i++)
        count += change_of(t, plan, i, &c);
    if (count > 0) {
        v = lw_alloc((size_t)count * sizeof *v);
        if (!v)
            return lw_fail_nomem(err);
    }
    count = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (change_of(t, plan, i, &c))
            v[count++] = c;
    if (count > 0)
        qsort(v, (size_t)count, sizeof *v, compare_changes);
    *out = v;
    *n = count;
    return LW_OK;
}

enum lw_status lw_memory_peaks(const struct lw_timeline *t, const struct lw_plan *plan,
                               int64_t *peak, struct lw_err *err)
{
    struct lw_memory_change *v;
    int64_t n, now = 0;

    LW_TRY(lw_memory_changes(t, plan, &v, &n, err));
    for (int32_t r = 0; r < plan->n_ranks; r++)
        peak[r] = lw_memory_fixed(plan, r);
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || v[i].rank != v[i - 1].rank)
            now = lw_memory_fixed(plan, v[i].rank);
        now = lw_add_sat(now, v[i].bytes);
        peak[v[i].rank] = now > peak[v[i].rank] ? now : peak[v[i].rank];
    }
    lw_free(v);
    return LW_OK;
}
