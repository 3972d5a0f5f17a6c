/* The way back from the end of a step to the end of the step before.
 *
 * An op began when the last of these had ended: the ops it depends on, the op before it on its
 * stream, the one before it on its communicator. Walking from the op that ends last to the one that
 * held it back, and so on, gives a chain of pieces that tile the step: the op itself, and between
 * two ops the time until the later one was launched and started. A collective moves data from the
 * arrival of its last member on; from there the critical path goes on at that member, while the
 * path of one rank alone waits for it. A communication that others of its stream or communicator
 * held back although it was ready charges their transfers to the queue.
 *
 * Invariants: pieces are found from the end backwards, each ends where the later one begins, so
 * their sum is the step (of one rank: its period), exactly, in integers; the op that is looked at
 * never comes later in the order of the plan, and a bound on the number of pieces turns a circle
 * (edited data) into an error.
 *
 * Charges of one rank: the period is split as every measure splits it (lw_period_cut); the rank's
 * own path says more of a transfer (queued) and of idle time (why nothing ran). So the charges of
 * each part add up to the measure of that part. Not distinguished: why a kernel itself is slow. */
#include "analysis/explain/explain.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/plan/op.h"
#include "shared/plan/op_bound.h"
#include "shared/plan/plan.h"
#include "shared/timeline/rank_period.h"
#include "shared/numbers/order.h"

struct walk {
    const struct lw_timeline *t;
    const struct lw_plan *p;
    struct lw_arena *arena;
    int64_t from, n;          /* rows [from, from + n) are the step's */
    int64_t *before[2]; /* [n] the row before on the same stream, on the same communicator; -1 */
    int64_t *arrivals, n_arrivals; /* rows of communication by (communicator, start) */
    lw_ps start;              /* where the walk ends */
    struct lw_path_part *parts; /* backwards while walking */
    int64_t n_parts, room;
};

const char *lw_cause_name(enum lw_cause c)
{
    static const char *const names[] = {
        "compute", "updates by the host", "copies", "transfer",
        "queued after another transfer", "waiting for the last rank", "host work and gaps",
        "launched late", "slow to start", "not begun or already done",
    };
    return names[c];
}

const char *lw_cause_key(enum lw_cause c)
{
    static const char *const keys[] = {"compute", "host_update", "copies", "transfer", "queue",
                                       "wait", "host", "launch", "start_delay", "skew"};
    return keys[c];
}

LW_FREE_BY_ARENA(lw_explanation_free, struct lw_explanation)

static enum lw_op_class class_of(const struct walk *w, int64_t row)
{
    return lw_op_class((enum lw_op_kind)w->t->kind[row]);
}

static bool is_comm(enum lw_op_class c)
{
    return c == LW_CLASS_COLLECTIVE || c == LW_CLASS_P2P;
}

/* --- who comes before whom -------------------------------------------------------------------- */

struct place {
    int32_t rank, lane; /* stream or communicator */
    lw_ps start;
    int64_t row;
};

LW_COMPARATOR(by_lane, struct place, a->rank, b->rank, a->lane, b->lane, a->start, b->start, a->row,
              b->row)

static void link_lanes(const struct walk *w, struct place *v, bool comms)
{
    int64_t n = 0, *before = w->before[comms];

    for (int64_t i = 0; i < w->n; i++) {
        int64_t row = w->from + i;
        before[i] = -1;
        if (!comms || w->t->comm[row] >= 0)
            v[n++] = (struct place){w->t->rank[row], comms ? w->t->comm[row] : w->t->stream[row],
                                    w->t->start[row], row};
    }
    lw_sort(v, n, by_lane);
    for (int64_t i = 1; i < n; i++)
        if (v[i].rank == v[i - 1].rank && v[i].lane == v[i - 1].lane)
            before[v[i].row - w->from] = v[i - 1].row;
}

/* Communication by (communicator, start), the rank before the row as the last word. */
static void list_arrivals(struct walk *w, struct place *v)
{
    for (int64_t i = 0; i < w->n; i++) {
        int64_t row = w->from + i;
        if (w->t->comm[row] >= 0)
            v[w->n_arrivals++] = (struct place){w->t->comm[row], 0, w->t->start[row], row};
    }
    lw_sort(v, w->n_arrivals, by_lane);
    for (int64_t i = 0; i < w->n_arrivals; i++)
        w->arrivals[i] = v[i].row;
}

static enum lw_status prepare(struct walk *w, struct lw_err *err)
{
    struct place *v = lw_arena_alloc(w->arena, w->n, sizeof *v);

    w->before[0] = lw_arena_alloc(w->arena, w->n, sizeof *w->before[0]);
    w->before[1] = lw_arena_alloc(w->arena, w->n, sizeof *w->before[1]);
    w->arrivals = lw_arena_alloc(w->arena, w->n, sizeof *w->arrivals);
    w->room = 4 * w->n + 16;
    w->parts = lw_arena_alloc(w->arena, w->room, sizeof *w->parts);
    if (!v || !w->before[0] || !w->before[1] || !w->arrivals || !w->parts)
        return lw_fail_nomem(err);
    link_lanes(w, v, false);
    link_lanes(w, v, true);
    list_arrivals(w, v);
    return LW_OK;
}

/* The row of an op in the program run of another row; -1 = it did not run. Rows are sorted by
 * (pass, rank, op). */
static int64_t row_of(const struct walk *w, int64_t beside, int32_t op)
{
    const struct lw_timeline *t = w->t;
    int64_t low = w->from, high = w->from + w->n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        int64_t c = t->pass[mid] != t->pass[beside] ? t->pass[mid] - (int64_t)t->pass[beside]
                    : t->rank[mid] != t->rank[beside] ? t->rank[mid] - (int64_t)t->rank[beside]
                                                      : t->op[mid] - (int64_t)op;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < w->from + w->n && t->op[low] == op && t->rank[low] == t->rank[beside] &&
                   t->pass[low] == t->pass[beside] ? low : -1;
}

static bool comes_before(const struct walk *w, int64_t a, int64_t b)
{
    return w->t->start[a] != w->t->start[b] ? w->t->start[a] < w->t->start[b] : a < b;
}

/* What held a row back, -1 = nothing: the one that ended last; of equals the op it depends on.
 * *lane: only the order of its stream or communicator held it. */
static int64_t held_by(const struct walk *w, int64_t row, bool *lane)
{
    const struct lw_op *op = LW_OP(w->p, w->t->op[row]);
    int64_t best = -1;

    *lane = false;
    for (int32_t k = 0; k < op->n_deps; k++) {
        int64_t d = row_of(w, row, w->p->deps[op->first_dep + k]);
        if (d >= 0 && comes_before(w, d, row) && (best < 0 || w->t->end[d] > w->t->end[best]))
            best = d;
    }
    for (int k = 0; k < 2; k++) {
        int64_t b = w->before[k][row - w->from];
        if (b >= 0 && (best < 0 || w->t->end[b] > w->t->end[best])) {
            best = b;
            *lane = true;
        }
    }
    return best;
}

/* The member that came last to a communication: the one that began when all were in. */
static int64_t last_member(const struct walk *w, int64_t row)
{
    const struct lw_timeline *t = w->t;
    int64_t low = 0, high = w->n_arrivals;

    while (low < high) {
        int64_t mid = low + (high - low) / 2, m = w->arrivals[mid];
        if (t->comm[m] != t->comm[row] ? t->comm[m] < t->comm[row] : t->start[m] < t->all_in[row])
            low = mid + 1;
        else
            high = mid;
    }
    const struct lw_group *group = lw_plan_group(w->p, t->comm[row], t->rank[row]);
    for (; low < w->n_arrivals; low++) {
        int64_t m = w->arrivals[low];
        if (t->comm[m] != t->comm[row] || t->start[m] != t->all_in[row])
            break;
        if (t->all_in[m] == t->all_in[row] && t->pass[m] == t->pass[row] &&
            lw_plan_group(w->p, t->comm[m], t->rank[m]) == group)
            return m;
    }
    return row;
}

/* --- the walk --------------------------------------------------------------------------------- */

/* [from, *to) belongs to that; *to moves to from. Nothing that is empty or ends later is kept. */
static void put(struct walk *w, int64_t row, enum lw_cause cause, lw_ps from, lw_ps *to)
{
    from = from < w->start ? w->start : from;
    if (from >= *to || w->n_parts == w->room)
        return;
    w->parts[w->n_parts++] = (struct lw_path_part){w->t->rank[row], w->t->op[row], cause, from,
                                                   *to};
    *to = from;
}

static enum lw_cause cause_of(const struct walk *w, int64_t row)
{
    enum lw_op_class c = class_of(w, row);

    if (c == LW_CLASS_COMPUTE && lw_op_is_host_update(w->p, LW_OP(w->p, w->t->op[row])))
        return LW_CAUSE_HOST_UPDATE;
    return c == LW_CLASS_COMPUTE ? LW_CAUSE_COMPUTE : c == LW_CLASS_COPY ? LW_CAUSE_COPY
           : is_comm(c) ? LW_CAUSE_TRANSFER : LW_CAUSE_HOST;
}

/* The op's own time up to *at. queued_from: a later op was ready from then on and waited for its
 * place after this one. Returns the row to go on from: the last member's, when crossing. */
static int64_t put_own(struct walk *w, int64_t row, bool cross, lw_ps queued_from, lw_ps *at)
{
    const struct lw_timeline *t = w->t;
    enum lw_cause cause = cause_of(w, row);
    bool split = cause == LW_CAUSE_TRANSFER && t->all_in[row] >= t->start[row];
    lw_ps moves = split ? t->all_in[row] : t->start[row];

    if (cause == LW_CAUSE_TRANSFER && queued_from < *at)
        put(w, row, LW_CAUSE_QUEUE, queued_from > moves ? queued_from : moves, at);
    put(w, row, cause, moves, at);
    if (split && cross) {
        int64_t last = last_member(w, row);
        if (t->start[last] <= *at)
            return last;
    }
    put(w, row, LW_CAUSE_WAIT, t->start[row], at);
    return row;
}

/* From the end of a row backwards to w->start; *at = where the walk ends. */
static enum lw_status follow(struct walk *w, int64_t row, bool cross, lw_ps *at,
                             struct lw_err *err)
{
    const struct lw_timeline *t = w->t;
    lw_ps queued_from = INT64_MAX;
    bool lane;

    for (int64_t steps = 0; *at > w->start; steps++) {
        if (steps > 4 * w->n)
            return lw_fail(err, LW_EFORMAT, "step %d: the ops wait for each other in a circle near "
                           "op %d of rank %d: its spans are damaged, or not of its plan; run it "
                           "again", t->step[row], t->op[row], t->rank[row]);
        row = put_own(w, row, cross, queued_from, at);
        int64_t held = held_by(w, row, &lane);
        if (held < 0)
            break;
        if (t->issue[row] > t->end[held] && t->issue[row] < *at)
            put(w, row, LW_CAUSE_DELAY, t->issue[row], at);
        if (t->end[held] < *at)
            put(w, row, t->issue[row] > t->end[held] ? LW_CAUSE_LAUNCH : LW_CAUSE_DELAY,
                t->end[held], at);
        queued_from = lane && is_comm(class_of(w, row)) && is_comm(class_of(w, held))
                          ? t->ready[row] : INT64_MAX;
        row = held;
    }
    if (*at > w->start)
        put(w, row, LW_CAUSE_SKEW, w->start, at);
    return LW_OK;
}

/* The row of `rank` (-1 = of any) that ends last; of equals the first. */
static int64_t last_row(const struct walk *w, int32_t rank)
{
    int64_t best = -1;

    for (int64_t i = w->from; i < w->from + w->n; i++)
        if ((rank < 0 || w->t->rank[i] == rank) && (best < 0 || w->t->end[i] > w->t->end[best]))
            best = i;
    return best;
}

static void reverse(struct walk *w)
{
    for (int64_t i = 0, j = w->n_parts - 1; i < j; i++, j--) {
        struct lw_path_part x = w->parts[i];
        w->parts[i] = w->parts[j];
        w->parts[j] = x;
    }
    for (int64_t i = 0; i < w->n_parts; i++) {
        w->parts[i].from -= w->start;
        w->parts[i].to -= w->start;
    }
}

/* The path through [start, end): of one rank (cross false), or over all (rank -1). */
static enum lw_status walk_back(struct walk *w, int32_t rank, bool cross, lw_ps start, lw_ps end,
                                struct lw_err *err)
{
    int64_t row = last_row(w, rank);
    lw_ps at = end;

    w->start = start;
    w->n_parts = 0;
    put(w, row, LW_CAUSE_SKEW, w->t->end[row], &at);
    LW_TRY(follow(w, row, cross, &at, err));
    if (at > w->start) /* more pieces than there can be */
        return lw_fail(err, LW_EFORMAT, "step %d: its path has more than %lld pieces: its spans "
                       "are damaged, or not of its plan; run it again",
                       w->t->step[row], (long long)w->room);
    reverse(w);
    return LW_OK;
}

/* --- charges ---------------------------------------------------------------------------------- */

bool lw_cause_is_exposed(enum lw_cause c)
{
    return c == LW_CAUSE_TRANSFER || c == LW_CAUSE_QUEUE || c == LW_CAUSE_WAIT;
}

/* The cause of a moment of that part, of which the rank's path says `path`. */
static enum lw_cause cause_in(enum lw_period_part part, enum lw_cause path)
{
    switch (part) {
    case LW_PERIOD_COMPUTE:
        return LW_CAUSE_COMPUTE;
    case LW_PERIOD_HOST_UPDATE:
        return LW_CAUSE_HOST_UPDATE;
    case LW_PERIOD_COPY:
        return LW_CAUSE_COPY;
    case LW_PERIOD_TRANSFER:
        return path == LW_CAUSE_QUEUE ? LW_CAUSE_QUEUE : LW_CAUSE_TRANSFER;
    case LW_PERIOD_IDLE:
        return path >= LW_CAUSE_HOST ? path : LW_CAUSE_DELAY;
    default:
        return LW_CAUSE_WAIT;
    }
}

struct charging {
    const struct walk *w; /* its parts tile the period */
    int64_t k;            /* the part that the next stretch begins in */
    lw_ps *charge;
};

static void charge(void *ctx, const struct lw_period_stretch *s)
{
    struct charging *c = ctx;
    const struct walk *w = c->w;

    for (lw_ps at = s->from; at < s->to && c->k < w->n_parts;) {
        const struct lw_path_part *p = &w->parts[c->k];
        lw_ps end = w->start + p->to < s->to ? w->start + p->to : s->to;
        c->charge[cause_in(s->part, p->cause)] += end - at;
        c->k += end == w->start + p->to;
        at = end;
    }
}

static enum lw_status charge_all(const struct walk *w, const struct lw_measure *m,
                                 lw_ps charges[LW_N_CAUSES], struct lw_err *err)
{
    int64_t *rows = lw_arena_alloc(w->arena, w->t->n, sizeof *rows), n = 0;
    struct charging c = {.w = w, .charge = charges};

    for (int64_t i = 0; rows && i < w->t->n; i++)
        if (w->t->rank[i] == m->rank && w->t->end[i] > m->start && w->t->start[i] < m->end)
            rows[n++] = i;
    struct lw_period_edge *edges =
        lw_arena_alloc(w->arena, 4 * n + 1, (int64_t)lw_period_edge_size());
    if (!rows || !edges)
        return lw_fail_nomem(err);
    lw_period_cut(w->t, w->p, rows, n, edges, m, charge, &c);
    return LW_OK;
}

/* --- together --------------------------------------------------------------------------------- */

static enum lw_status check(const struct lw_timeline *t, const struct lw_plan *p,
                            struct lw_err *err)
{
    for (int64_t i = 0; i < t->n; i++)
        if (t->op[i] < 0 || t->op[i] >= p->n_ops || t->rank[i] < 0 || t->rank[i] >= p->n_ranks ||
            t->comm[i] >= p->n_comms)
            return lw_fail(err, LW_EINVAL, "span %lld (rank %d, op %d) is not the plan's",
                           (long long)i, t->rank[i], t->op[i]);
    return LW_OK;
}

/* The step and the rank to explain, as the run's own measures choose them. */
static enum lw_status choose(const struct lw_timeline *t, const struct lw_plan *plan,
                             int32_t first_step, int32_t step, int32_t rank,
                             struct lw_explanation *e, struct lw_err *err)
{
    struct lw_timeline one = *t;
    struct lw_summary s;
    int64_t from = 0, to = t->n;

    if (step >= 0) {
        while (from < t->n && t->step[from] < step)
            from++;
        for (to = from; to < t->n && t->step[to] == step;)
            to++;
        if (from == to)
            return lw_fail(err, LW_EINVAL, "the run has no step %d; it has steps 0 to %d", step,
                           t->n > 0 ? t->step[t->n - 1] : -1);
        one.n = to; /* the last step of a cut timeline is measured alone */
        first_step = step;
    }
    LW_TRY(lw_timeline_measure(&one, plan, first_step, &s, err));
    enum lw_status st = LW_OK;
    if (rank >= s.n_ranks)
        st = lw_fail(err, LW_EINVAL, "the run has no rank %d; it has ranks 0 to %d", rank,
                     s.n_ranks - 1);
    else
        e->measure = rank >= 0 ? lw_summary_of(&s, rank) : s.ranks[s.worst];
    lw_summary_free(&s);
    e->step = e->measure.step;
    e->rank = e->measure.rank;
    return st;
}

/* Its rows; [*start, *end) is the step as lw_timeline_summarize has it. */
static void find_rows(struct walk *w, int32_t step, lw_ps *start, lw_ps *end)
{
    const struct lw_timeline *t = w->t;
    lw_ps begin = INT64_MAX;

    *start = INT64_MIN;
    for (int64_t i = 0; i < t->n; i++)
        begin = t->start[i] < begin ? t->start[i] : begin;
    for (; w->from < t->n && t->step[w->from] < step; w->from++)
        *start = t->end[w->from] > *start ? t->end[w->from] : *start;
    *start = w->from > 0 ? *start : begin;
    *end = *start;
    for (int64_t i = w->from; i < t->n && t->step[i] == step; i++, w->n++)
        *end = t->end[i] > *end ? t->end[i] : *end;
}

static enum lw_status explain(struct walk *w, struct lw_explanation *e, struct lw_err *err)
{
    lw_ps start, end;

    find_rows(w, e->step, &start, &end);
    LW_TRY(prepare(w, err));
    LW_TRY(walk_back(w, e->rank, false, e->measure.start, e->measure.end, err));
    LW_TRY(charge_all(w, &e->measure, e->charge, err));
    LW_TRY(walk_back(w, -1, true, start, end, err));
    LW_TAKE(&e->arena, e->path, w->n_parts, err);
    e->n_path = w->n_parts;
    if (w->n_parts > 0)
        memcpy(e->path, w->parts, (size_t)w->n_parts * sizeof *e->path);
    for (int64_t i = 0; i < e->n_path; i++)
        e->on_path[e->path[i].cause] += e->path[i].to - e->path[i].from;
    e->length = end - start;
    return LW_OK;
}

enum lw_status lw_explain(const struct lw_timeline *t, const struct lw_plan *plan,
                          int32_t first_step, int32_t step, int32_t rank,
                          struct lw_explanation *out, struct lw_err *err)
{
    struct lw_explanation e = {0};
    struct lw_arena scratch = {0};
    struct walk w = {.t = t, .p = plan, .arena = &scratch};

    LW_TRY(check(t, plan, err));
    LW_TRY(choose(t, plan, first_step, step, rank, &e, err));
    enum lw_status st = explain(&w, &e, err);
    lw_arena_free(&scratch);
    if (st != LW_OK) {
        lw_explanation_free(&e);
        return st;
    }
    *out = e;
    return LW_OK;
}
