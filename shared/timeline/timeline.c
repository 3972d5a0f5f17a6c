/* Timelines: columns, their order, and what must be true of them. The measures stand in measure.c.
 * Invariants: all columns have room for `capacity` rows; rows [0, n) are filled. */
#include "shared/timeline/timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/checked.h"
#include "shared/base/host_memory.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/base/order.h"

/* The columns as a table, so that growing, moving and freeing them are one loop each. */
enum { N_COLUMNS = 12 };

struct column {
    void **data;
    size_t size;
};

static void columns_of(struct lw_timeline *t, struct column c[N_COLUMNS])
{
    const struct column all[N_COLUMNS] = {
        {(void **)&t->step, sizeof *t->step},     {(void **)&t->pass, sizeof *t->pass},
        {(void **)&t->rank, sizeof *t->rank},     {(void **)&t->stream, sizeof *t->stream},
        {(void **)&t->comm, sizeof *t->comm},     {(void **)&t->op, sizeof *t->op},
        {(void **)&t->kind, sizeof *t->kind},     {(void **)&t->ready, sizeof *t->ready},
        {(void **)&t->issue, sizeof *t->issue},   {(void **)&t->start, sizeof *t->start},
        {(void **)&t->all_in, sizeof *t->all_in}, {(void **)&t->end, sizeof *t->end},
    };

    memcpy(c, all, sizeof all);
}

/* The system grants memory that it does not have and ends the process later: asked before. Small
 * timelines are not worth reading /proc for. */
static enum lw_status fits(const struct column c[N_COLUMNS], int64_t n, struct lw_err *err)
{
    enum { SMALL = 1000000 };
    char need[32], has[32];
    double row = 0, left;

    if (n <= SMALL)
        return LW_OK;
    for (int i = 0; i < N_COLUMNS; i++)
        row += (double)c[i].size;
    left = lw_host_memory_left();
    if (row * (double)n <= left)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP,
                   "a timeline of %" PRId64 " ops needs %s of memory and this machine has %s left: "
                   "take fewer --steps, or ranks", n,
                   lw_format_bytes(need, lw_round_sat(row * (double)n)),
                   lw_format_bytes(has, (int64_t)left));
}

enum lw_status lw_timeline_reserve(struct lw_timeline *t, int64_t n, struct lw_err *err)
{
    struct column c[N_COLUMNS];

    if (n <= t->capacity)
        return LW_OK;
    columns_of(t, c);
    LW_TRY(fits(c, n, err));
    for (int i = 0; i < N_COLUMNS; i++) {
        void *grown = lw_realloc(*c[i].data, (size_t)n * c[i].size);
        if (!grown)
            return lw_fail_nomem(err); /* columns grown so far are larger than capacity says */
        *c[i].data = grown;
    }
    t->capacity = n;
    return LW_OK;
}

void lw_timeline_put(struct lw_timeline *t, int64_t row, const struct lw_span *s)
{
    t->step[row] = s->step;
    t->pass[row] = s->pass;
    t->rank[row] = s->rank;
    t->stream[row] = s->stream;
    t->comm[row] = s->comm;
    t->op[row] = s->op;
    t->kind[row] = (uint8_t)s->kind;
    t->ready[row] = s->ready;
    t->issue[row] = s->issue;
    t->start[row] = s->start;
    t->all_in[row] = s->all_in;
    t->end[row] = s->end;
}

enum lw_status lw_timeline_add(struct lw_timeline *t, const struct lw_span *s, struct lw_err *err)
{
    if (t->n == t->capacity)
        LW_TRY(lw_timeline_reserve(t, t->capacity > 0 ? 2 * t->capacity : 64, err));
    lw_timeline_put(t, t->n++, s);
    return LW_OK;
}

struct lw_span lw_timeline_get(const struct lw_timeline *t, int64_t row)
{
    return (struct lw_span){
        t->step[row],  t->pass[row],  t->rank[row],   t->stream[row],
        t->comm[row],  t->op[row],    (enum lw_op_kind)t->kind[row],
        t->ready[row], t->issue[row], t->start[row],  t->all_in[row], t->end[row],
    };
}

void lw_timeline_free(struct lw_timeline *t)
{
    struct column c[N_COLUMNS];

    columns_of(t, c);
    for (int i = 0; i < N_COLUMNS; i++)
        lw_free(*c[i].data);
    *t = (struct lw_timeline){0};
}

/* --- order --- */

struct key {
    int32_t step, pass, rank, op;
    int64_t row;
};

static int compare_keys(const void *pa, const void *pb)
{
    const struct key *a = pa, *b = pb;

    return LW_ORDER(a->step, b->step, a->pass, b->pass, a->rank, b->rank, a->op, b->op, a->row,
                    b->row);
}

static struct key key_of(const struct lw_timeline *t, int64_t row)
{
    return (struct key){t->step[row], t->pass[row], t->rank[row], t->op[row], row};
}

static int64_t first_unsorted(const struct lw_timeline *t)
{
    for (int64_t i = 1; i < t->n; i++) {
        struct key a = key_of(t, i - 1), b = key_of(t, i);
        if (compare_keys(&a, &b) > 0)
            return i;
    }
    return -1;
}

enum lw_status lw_timeline_sort(struct lw_timeline *t, struct lw_err *err)
{
    struct column c[N_COLUMNS];

    if (first_unsorted(t) < 0)
        return LW_OK;
    struct key *keys = lw_alloc((size_t)t->n * sizeof *keys);
    char *copy = lw_alloc((size_t)t->n * sizeof(int64_t));
    if (!keys || !copy) {
        lw_free(keys);
        lw_free(copy);
        return lw_fail_nomem(err);
    }
    for (int64_t i = 0; i < t->n; i++)
        keys[i] = key_of(t, i);
    qsort(keys, (size_t)t->n, sizeof *keys, compare_keys);
    columns_of(t, c);
    for (int k = 0; k < N_COLUMNS; k++) {
        char *data = *c[k].data;
        memcpy(copy, data, (size_t)t->n * c[k].size);
        for (int64_t i = 0; i < t->n; i++)
            memcpy(data + (size_t)i * c[k].size, copy + (size_t)keys[i].row * c[k].size, c[k].size);
    }
    lw_free(keys);
    lw_free(copy);
    return LW_OK;
}

/* --- checks --- */

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
    qsort(v, (size_t)n, sizeof *v, compare_places);
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
    qsort(v, (size_t)n, sizeof *v, compare_places);
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

enum lw_status lw_timeline_check(const struct lw_timeline *t, const struct lw_plan *plan,
                                 struct lw_err *err)
{
    enum lw_status status;

    for (int64_t i = 0; i < t->n; i++)
        LW_TRY(check_row(t, i, plan, err));
    int64_t unsorted = first_unsorted(t);
    if (unsorted >= 0)
        return bad_row(t, unsorted, "rows are not sorted by step, pass, rank, op", err);
    struct place *v = lw_alloc((size_t)t->n * sizeof *v);
    if (!v)
        return lw_fail_nomem(err);
    status = check_streams(t, plan, v, err);
    if (status == LW_OK && plan)
        status = check_messages(t, plan, v, err);
    lw_free(v);
    return status;
}
