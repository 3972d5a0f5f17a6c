/* One rank's period cut into what it does: one sweep over the starts and ends of its ops, so that
 * the parts add up to the period by construction. docs/design/timeline.md has an example. */
#include "shared/timeline/rank_period.h"

#include <stdlib.h>

#include "shared/base/sort_nearly.h"
#include "shared/numbers/order.h"
#include "shared/plan/op.h"
#include "shared/plan/op_bound.h"

struct lw_period_edge {
    lw_ps at;
    int8_t part, by; /* by: 1 = begins, -1 = ends */
};

/* The member for which another waits. The gradient norm, on which all stages agree, is waited for
 * at the stage that ends last, as the first message of the next step would be without it. */
static enum lw_wait wait_of(const struct lw_timeline *t, const struct lw_plan *plan, int64_t row)
{
    static const enum lw_wait of_purpose[] = {
        [LW_COMM_DATA] = LW_WAIT_DATA,         [LW_COMM_MODEL] = LW_WAIT_OTHER,
        [LW_COMM_TENSOR] = LW_WAIT_TENSOR,     [LW_COMM_FORWARD] = LW_WAIT_PIPELINE,
        [LW_COMM_BACKWARD] = LW_WAIT_PIPELINE, [LW_COMM_EMBEDDING] = LW_WAIT_TIED,
        [LW_COMM_WORLD] = LW_WAIT_OTHER,       [LW_COMM_RECORDED] = LW_WAIT_OTHER,
        [LW_COMM_CONTEXT] = LW_WAIT_OTHER,     [LW_COMM_EXPERT] = LW_WAIT_OTHER,
        [LW_COMM_EXPERT_DATA] = LW_WAIT_DATA,  [LW_COMM_REPLICAS] = LW_WAIT_DATA,
        [LW_COMM_RECORDED_DATA] = LW_WAIT_DATA,
    };

    int32_t comm = lw_timeline_comm(t, row);

    if (plan && comm >= 0 && comm < plan->n_comms &&
        plan->comms[comm].purpose < sizeof of_purpose / sizeof *of_purpose) {
        enum lw_comm_purpose purpose = plan->comms[comm].purpose;
        bool stages_meet = purpose == LW_COMM_MODEL && plan->n_stages > 1;
        return stages_meet ? LW_WAIT_PIPELINE : of_purpose[purpose];
    }
    return lw_op_class((enum lw_op_kind)lw_timeline_kind(t, row)) == LW_CLASS_P2P
               ? LW_WAIT_PIPELINE
               : LW_WAIT_OTHER;
}

/* [start, end) of a part, as far as it lies in the period. */
static int64_t add(struct lw_period_edge *v, int64_t n, lw_ps start, lw_ps end, int part,
                   const struct lw_measure *m)
{
    start = start > m->start ? start : m->start;
    end = end < m->end ? end : m->end;
    if (start >= end)
        return n;
    v[n] = (struct lw_period_edge){start, (int8_t)part, 1};
    v[n + 1] = (struct lw_period_edge){end, (int8_t)part, -1};
    return n + 2;
}

/* The device computes, or the host does for it. */
static enum lw_period_part computes(const struct lw_timeline *t, const struct lw_plan *plan,
                                    int64_t row, enum lw_op_kind kind)
{
    return plan && kind == LW_OP_OPTIMIZER &&
                   lw_op_is_host_update(plan, LW_OP(plan, lw_timeline_op(t, row)))
               ? LW_PERIOD_HOST_UPDATE
               : LW_PERIOD_COMPUTE;
}

static int64_t add_row(const struct lw_timeline *t, const struct lw_plan *plan, int64_t row,
                       const struct lw_measure *m, struct lw_period_edge *v, int64_t n)
{
    const struct lw_times at = lw_timeline_times(t, row);
    enum lw_op_kind kind = (enum lw_op_kind)lw_timeline_kind(t, row);
    lw_ps start = at.start, end = at.end, moves = start;

    switch (lw_op_class(kind)) {
    case LW_CLASS_COMPUTE:
        return add(v, n, start, end, (int)computes(t, plan, row, kind), m);
    case LW_CLASS_COPY:
        return add(v, n, start, end, LW_PERIOD_COPY, m);
    case LW_CLASS_COLLECTIVE:
    case LW_CLASS_P2P:
        if (at.all_in > start)
            moves = at.all_in < end ? at.all_in : end;
        if (kind == LW_OP_BARRIER) /* moves nothing */
            moves = end;
        if (moves > start)
            n = add(v, n, start, moves, LW_PERIOD_WAIT + (int)wait_of(t, plan, row), m);
        return add(v, n, moves, end, LW_PERIOD_TRANSFER, m);
    default:
        return n;
    }
}

LW_COMPARATOR(by_time, struct lw_period_edge, a->at, b->at)

static struct lw_period_stretch stretch(const int32_t active[LW_N_PERIOD_PARTS], lw_ps from,
                                        lw_ps to)
{
    struct lw_period_stretch s = {.from = from, .to = to, .copies = active[LW_PERIOD_COPY] > 0,
                                  .moves = active[LW_PERIOD_TRANSFER] > 0};
    int part = 0;

    while (part < LW_PERIOD_IDLE && active[part] == 0)
        part++;
    for (int i = LW_PERIOD_TRANSFER; i < LW_PERIOD_IDLE; i++)
        s.comm |= active[i] > 0;
    s.part = (enum lw_period_part)part;
    return s;
}

size_t lw_period_edge_size(void)
{
    return sizeof(struct lw_period_edge);
}

void lw_period_cut(const struct lw_timeline *t, const struct lw_plan *plan, const int64_t *rows,
                   int64_t n_rows, struct lw_period_edge *edges, const struct lw_measure *m,
                   lw_period_visit *visit, void *ctx)
{
    int32_t active[LW_N_PERIOD_PARTS] = {0};
    struct lw_period_stretch s;
    int64_t n = 0;
    lw_ps at = m->start;

    for (int64_t i = 0; i < n_rows; i++)
        n = add_row(t, plan, rows[i], m, edges, n);
    lw_sort_nearly(edges, n, by_time);
    for (int64_t i = 0; i < n; i++) {
        if (edges[i].at > at) {
            s = stretch(active, at, edges[i].at);
            visit(ctx, &s);
        }
        at = edges[i].at;
        active[edges[i].part] += edges[i].by;
    }
    if (m->end > at) {
        s = stretch(active, at, m->end);
        visit(ctx, &s);
    }
}

static void add_up(void *ctx, const struct lw_period_stretch *s)
{
    struct lw_measure *m = ctx;
    lw_ps time = s->to - s->from;

    m->copy_busy += s->copies ? time : 0;
    m->comm_busy += s->comm ? time : 0;
    if (s->part < LW_PERIOD_TRANSFER && s->moves)
        m->hidden_transfer += time;
    if (s->part == LW_PERIOD_COMPUTE)
        m->compute_busy += time;
    else if (s->part == LW_PERIOD_HOST_UPDATE)
        m->host_update += time;
    else if (s->part == LW_PERIOD_COPY)
        m->exposed_copy += time;
    else if (s->part == LW_PERIOD_IDLE)
        m->idle += time;
    else
        m->exposed_comm += time;
    if (s->part == LW_PERIOD_TRANSFER)
        m->transfer += time;
    else if (s->part >= LW_PERIOD_WAIT && s->part < LW_PERIOD_IDLE)
        m->wait[s->part - LW_PERIOD_WAIT] += time;
}

void lw_period_measure(const struct lw_timeline *t, const struct lw_plan *plan,
                       const int64_t *rows, int64_t n_rows, struct lw_period_edge *edges,
                       struct lw_measure *m)
{
    lw_period_cut(t, plan, rows, n_rows, edges, m, add_up, m);
}
