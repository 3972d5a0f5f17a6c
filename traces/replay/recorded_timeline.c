/* A recording as a timeline. Each op of a replay's plan that was recorded knows when; here those
 * ops have these times. Unknown are when an op's dependencies were done (its start represents
 * that), and when the last member of a collective arrived (-1). Recorded spans of one stream may
 * overlap by a microsecond, where the recorder rounded. */
#include "traces/replay/recorded_timeline.h"

#include "shared/plan/op.h"
#include "traces/replay/replay_steps.h"

static lw_ps first_start(const struct traces_replay *r, const struct lw_plan *p)
{
    lw_ps first = INT64_MAX;

    for (int32_t i = 0; i < p->n_ops; i++)
        if (r->recorded_time[i] >= 0 && r->recorded_start[i] < first)
            first = r->recorded_start[i];
    return first;
}

static enum lw_status add_rank(const struct traces_replay *r, const struct lw_plan *p,
                               int32_t rank, lw_ps first, struct lw_timeline *t,
                               struct lw_err *err)
{
    struct lw_program program = lw_plan_program(p, 0, rank);

    for (int32_t i = program.first_op; i < program.first_op + program.n_ops; i++) {
        const struct lw_op *op = LW_OP(p, i);
        if (r->recorded_time[i] < 0)
            continue;
        lw_ps start = r->recorded_start[i] - first;
        struct lw_span span = {
            .step = r->step_of[i], .rank = rank, .stream = op->stream, .comm = op->comm, .op = i,
            .kind = (enum lw_op_kind)op->kind, .ready = start, .issue = -1, .start = start,
            .all_in = -1, .end = start + r->recorded_time[i]};
        LW_TRY(lw_timeline_add(t, &span, err));
    }
    return LW_OK;
}

enum lw_status traces_recorded_rows(const struct traces_replay *r, const struct lw_plan *p,
                                    struct lw_timeline *t, struct lw_err *err)
{
    struct lw_timeline all = {.comm_workers = r->n_workers};
    lw_ps first = first_start(r, p);
    enum lw_status status = LW_OK;

    for (int32_t k = 0; status == LW_OK && k < r->n_ranks; k++)
        status = add_rank(r, p, k, first, &all, err);
    LW_GIVE(status, t, all, lw_timeline_free(&all));
}

static bool has_rows(const struct traces_replay *r, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (r->row_of[i] >= 0)
            return true;
    return false;
}

enum lw_status traces_recorded_timeline(const struct traces_replay *r, const struct lw_plan *p,
                                        struct lw_timeline *t, struct lw_summary *summary,
                                        struct lw_err *err)
{
    struct lw_timeline all;
    struct lw_summary s = {0};

    if (!has_rows(r, p))
        return lw_fail(err, LW_EFORMAT, "the traces hold no device op and no collective whose "
                                        "recorded time could be stored");
    LW_TRY(traces_recorded_rows(r, p, &all, err));
    enum lw_status status = traces_replay_divide(r, &all, err);
    if (status == LW_OK)
        status = lw_timeline_summarize(&all, p, 1 + traces_replay_first(r), &s, err);
    if (status != LW_OK) {
        lw_timeline_free(&all);
        return status;
    }
    *t = all;
    *summary = s;
    return LW_OK;
}
