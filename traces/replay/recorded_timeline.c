/* A recording as a timeline. Each op of a replay's plan that stands for rows of a trace knows
 * its row; here those rows keep the times that were recorded. Not known, and not made up: when
 * an op's dependencies were done (its start stands for that), and when the last member of a
 * collective arrived (-1). Recorded spans of one stream may overlap by a microsecond, where the
 * recorder rounded. */
#include "traces/replay/recorded_timeline.h"

#include "shared/base/median.h"

struct shift { /* of a rank's clock, so that the earliest span starts at 0 */
    int64_t base_ns, first_ns;
};

/* ns since the first rank's base; false beyond int64. */
static bool common_ns(const struct lw_trace *t, int64_t base_ns, int64_t ns, int64_t *out)
{
    int64_t offset;

    return !__builtin_sub_overflow(t->base_ns, base_ns, &offset) &&
           !__builtin_add_overflow(offset, ns, out);
}

static enum lw_status find_first(const struct traces_replay *r, const struct lw_plan *p,
                                 const struct traces_source *source, int n, struct shift *shift,
                                 struct lw_err *err)
{
    shift->base_ns = source[0].trace.base_ns;
    shift->first_ns = INT64_MAX;
    for (int32_t k = 0; k < n; k++) {
        const struct lw_trace *t = &source[k].trace;
        struct lw_program program = lw_plan_program(p, 0, k);
        for (int32_t i = 0; i < program.n_ops; i++) {
            int64_t row = r->row_of[program.first_op + i], at;
            if (row < 0)
                continue;
            if (!common_ns(t, shift->base_ns, t->start_ns[row], &at))
                return lw_fail(err, LW_EFORMAT, "%s: its clock is not that of %s", source[k].file,
                               source[0].file);
            shift->first_ns = at < shift->first_ns ? at : shift->first_ns;
        }
    }
    return shift->first_ns < INT64_MAX
               ? LW_OK
               : lw_fail(err, LW_EFORMAT, "%s: holds no device op and no collective whose recorded time could be "
                         "stored",
                         source[0].file);
}

static enum lw_status add_rank(const struct traces_replay *r, const struct lw_plan *p,
                               const struct lw_trace *trace, int32_t rank,
                               const struct shift *shift, struct lw_timeline *t,
                               struct lw_err *err)
{
    struct lw_program program = lw_plan_program(p, 0, rank);

    for (int32_t i = program.first_op; i < program.first_op + program.n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        int64_t row = r->row_of[i], at = 0;
        if (row < 0)
            continue;
        common_ns(trace, shift->base_ns, trace->start_ns[row], &at);
        lw_ps start = lw_ns_to_ps(at - shift->first_ns);
        struct lw_span span = {
            .step = r->step_of[i], .rank = rank, .stream = op->stream, .comm = op->comm, .op = i,
            .kind = (enum lw_op_kind)op->kind, .ready = start, .issue = -1, .start = start,
            .all_in = -1, .end = start + lw_ns_to_ps(trace->dur_ns[row])};
        LW_TRY(lw_timeline_add(t, &span, err));
    }
    return LW_OK;
}

/* Steps last as long as the host says: the last kernel of one may end within the next. */
static enum lw_status set_steps(const struct traces_replay *r, struct lw_summary *s,
                                struct lw_err *err)
{
    lw_ps *v = lw_alloc((size_t)(r->n_steps > 0 ? r->n_steps : 1) * sizeof *v);

    if (!v)
        return lw_fail_nomem(err);
    int32_t n = s->n_steps < r->n_steps ? s->n_steps : r->n_steps;
    for (int32_t k = 0; k < n; k++)
        s->steps[k] = v[k] = r->steps[k].recorded;
    if (n > 0)
        s->step = lw_median(v, n);
    lw_free(v);
    return LW_OK;
}

static void move_steps(struct lw_timeline *t, int32_t by)
{
    for (int64_t i = 0; i < t->n; i++)
        t->step[i] += by;
}

/* The replay's step 0 is what ran before the first step, which may be nothing that has a row: steps
 * are then counted from 1 on. */
static enum lw_status summarize(const struct traces_replay *r, const struct lw_plan *p,
                                struct lw_timeline *t, struct lw_summary *s, struct lw_err *err)
{
    int32_t low = t->n > 0 ? t->step[0] : 0; /* sorted by step */

    move_steps(t, -low);
    enum lw_status status =
        lw_timeline_summarize(t, p, r->n_before > low ? r->n_before - low : 0, s, err);
    move_steps(t, low);
    if (status != LW_OK)
        return status;
    for (int32_t i = 0; i < s->n_ranks; i++)
        s->ranks[i].step += low;
    return set_steps(r, s, err);
}

enum lw_status traces_recorded_timeline(const struct traces_replay *r, const struct lw_plan *p,
                                        const struct traces_source *source, int n,
                                        struct lw_timeline *t, struct lw_summary *summary,
                                        struct lw_err *err)
{
    struct lw_timeline all = {.comm_workers = r->n_workers};
    struct lw_summary s = {0};
    struct shift shift;
    enum lw_status status = find_first(r, p, source, n, &shift, err);

    for (int32_t k = 0; status == LW_OK && k < n; k++)
        status = add_rank(r, p, &source[k].trace, k, &shift, &all, err);
    if (status == LW_OK)
        status = lw_timeline_sort(&all, err);
    if (status == LW_OK)
        status = summarize(r, p, &all, &s, err);
    if (status != LW_OK) {
        lw_timeline_free(&all);
        lw_summary_free(&s);
        return status;
    }
    *t = all;
    *summary = s;
    return LW_OK;
}
