/* What must be true of every timeline. */
#include "tests/lib/sim/timeline_check.h"

#include <stdlib.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/plan/op.h"

static enum lw_status bad_row(const struct lw_timeline *t, int64_t row, const char *what,
                              struct lw_err *err)
{
    struct lw_span s = lw_timeline_get(t, row);

    return lw_fail(err, LW_EPLAN,
                   "timeline: step %d, pass %d, rank %d, op %d (%s): %s (ready %lld, start %lld, "
                   "all in %lld, end %lld ps)",
                   s.step, s.pass, s.rank, s.op, lw_op_name(s.kind), what, (long long)s.ready,
                   (long long)s.start, (long long)s.all_in, (long long)s.end);
}

static enum lw_status check_row(const struct lw_timeline *t, int64_t row,
                                const struct lw_plan *plan, struct lw_err *err)
{
    struct lw_span s = lw_timeline_get(t, row);

    if (s.step < 0 || s.pass < 0 || s.rank < 0 || s.kind >= LW_N_OP_KINDS)
        return lw_fail(err, LW_EPLAN, "timeline: row %lld: step, pass, rank or kind out of range",
                       (long long)row);
    if (s.ready > s.start)
        return bad_row(t, row, "starts before it is ready", err);
    if (s.end < s.start)
        return bad_row(t, row, "ends before it starts", err);
    if (s.all_in >= 0 && (s.all_in < s.start || s.all_in > s.end))
        return bad_row(t, row, "last member came outside of it", err);
    if (!plan)
        return LW_OK;
    if (s.rank >= plan->n_ranks || s.op < 0 || s.op >= plan->n_ops)
        return bad_row(t, row, "rank or op is not the plan's", err);
    if (plan->ops[s.op].kind != s.kind || plan->ops[s.op].stream != s.stream)
        return bad_row(t, row, "kind or stream differ from the plan's", err);
    return LW_OK;
}

/* One device op on a stream of a rank, or one end of a message. */
struct place {
    int32_t a, b, c; /* rank, stream, -     or     communicator, from, to */
    int32_t receives;
    lw_ps at;        /* start, or the row as order */
    int64_t row;
};

static int compare_places(const void *pa, const void *pb)
{
    const struct place *a = pa, *b = pb;

    return LW_ORDER(a->a, b->a, a->b, b->b, a->c, b->c, a->receives, b->receives, a->at, b->at,
                    a->row, b->row);
}

static bool on_device(enum lw_op_kind kind)
{
    return lw_op_class(kind) != LW_CLASS_HOST && lw_op_class(kind) != LW_CLASS_MEMORY;
}

/* Parts of one group call share their stream and their time. */
static bool one_call(const struct lw_timeline *t, int64_t a, int64_t b, const struct lw_plan *plan)
{
    if (lw_op_class((enum lw_op_kind)t->kind[a]) != LW_CLASS_P2P ||
        lw_op_class((enum lw_op_kind)t->kind[b]) != LW_CLASS_P2P || t->step[a] != t->step[b] ||
        t->pass[a] != t->pass[b])
        return false;
    return !plan || (plan->ops[t->op[a]].call >= 0 &&
                     plan->ops[t->op[a]].call == plan->ops[t->op[b]].call);
}

/* Collectives of one communicator, run by different workers of the library. */
static bool two_workers(const struct lw_timeline *t, int64_t a, int64_t b)
{
    return t->comm_workers > 1 && t->comm[a] >= 0 && t->comm[a] == t->comm[b] &&
           lw_op_class((enum lw_op_kind)t->kind[a]) == LW_CLASS_COLLECTIVE &&
           lw_op_class((enum lw_op_kind)t->kind[b]) == LW_CLASS_COLLECTIVE;
}

static enum lw_status check_streams(const struct lw_timeline *t, const struct lw_plan *plan,
                                    struct place *v, struct lw_err *err)
{
    int64_t n = 0, longest = 0; /* longest: row of the op on this stream that ends last so far */

    for (int64_t i = 0; i < t->n; i++)
        if (on_device((enum lw_op_kind)t->kind[i]))
            v[n++] = (struct place){t->rank[i], t->stream[i], 0, 0, t->start[i], i};
    lw_sort(v, n, compare_places);
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || v[i].a != v[i - 1].a || v[i].b != v[i - 1].b) {
            longest = v[i].row;
            continue;
        }
        if (t->start[v[i].row] < t->end[longest] && !one_call(t, v[i].row, longest, plan) &&
            !two_workers(t, v[i].row, longest))
            return bad_row(t, v[i].row, "overlaps another op of its stream", err);
        if (t->end[v[i].row] > t->end[longest])
            longest = v[i].row;
    }
    return LW_OK;
}

/* The k-th receive of a channel ends after the k-th send began. */
static enum lw_status check_messages(const struct lw_timeline *t, const struct lw_plan *plan,
                                     struct place *v, struct lw_err *err)
{
    int64_t n = 0;

    for (int64_t i = 0; i < t->n; i++) {
        if (t->kind[i] != LW_OP_SEND && t->kind[i] != LW_OP_RECV)
            continue;
        bool receives = t->kind[i] == LW_OP_RECV;
        int32_t peer = lw_plan_operand(plan, &plan->ops[t->op[i]], t->rank[i]).peer;
        v[n++] = (struct place){t->comm[i], receives ? peer : t->rank[i],
                                receives ? t->rank[i] : peer, receives, i, i};
    }
    lw_sort(v, n, compare_places);
    for (int64_t i = 0; i < n;) {
        int64_t end = i, n_sends = 0;
        for (; end < n && v[end].a == v[i].a && v[end].b == v[i].b && v[end].c == v[i].c; end++)
            n_sends += !v[end].receives;
        if (end - i != 2 * n_sends)
            return bad_row(t, v[i].row, "sends and receives of its channel differ in number", err);
        for (int64_t k = 0; k < n_sends; k++)
            if (t->end[v[i + n_sends + k].row] < t->start[v[i + k].row])
                return bad_row(t, v[i + n_sends + k].row, "ends before its send began", err);
        i = end;
    }
    return LW_OK;
}

enum lw_status timeline_check(const struct lw_timeline *t, const struct lw_plan *plan,
                              struct lw_err *err)
{
    enum lw_status status;

    for (int64_t i = 0; i < t->n; i++)
        LW_TRY(check_row(t, i, plan, err));
    for (int64_t i = 1; i < t->n; i++)
        if (LW_ORDER(t->step[i - 1], t->step[i], t->pass[i - 1], t->pass[i], t->rank[i - 1],
                     t->rank[i], t->op[i - 1], t->op[i]) > 0)
            return bad_row(t, i, "rows are not sorted by step, pass, rank, op", err);
    struct place *v = lw_alloc((size_t)t->n * sizeof *v);
    if (!v)
        return lw_fail_nomem(err);
    status = check_streams(t, plan, v, err);
    if (status == LW_OK && plan)
        status = check_messages(t, plan, v, err);
    lw_free(v);
    return status;
}
