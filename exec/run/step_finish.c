/* After a rehearsed step: what messages brought and what optimizers read is compared. After a batch
 * of measured steps: each rank's ready events are fed, in the order of the times at which they
 * really happened, to the reducer that made the plan: it must ask for the collectives in the order
 * in which they ran. Then the spans are kept. A failed step leaves the timeline as it was after the
 * step before it. */
#include "exec/run/launch_order.h"
#include "exec/tensors/payload_check.h"
#include "exec/tensors/grad_norm.h"
#include "exec/run/run_state.h"
#include "exec/tensors/stage_values.h"
#include "shared/plan/op.h"

static lw_ps on_timeline(const struct exec_run *r, int64_t ns)
{
    return lw_ns_to_ps(ns - r->origin_ns);
}

/* An op counts as handed to its stream when its dependencies are done, or, where the plan has
 * one, when its launch is: everything was given to the backend before the batch. Without
 * dependencies it is ready when its rank begins the pass. */
static struct lw_span span_of(const struct exec_run *r, const struct exec_lane *l, int32_t i)
{
    const struct lw_plan *p = r->plan;
    const struct exec_stamp *s = &r->stamps[l->first_stamp + i];
    const struct lw_op *op = &p->ops[l->program.first_op + i];
    int64_t ready = r->rank_end_ns[l->rank], launched = -1;

    for (int32_t d = 0; d < op->n_deps; d++) {
        int32_t before = p->deps[op->first_dep + d];
        int64_t end = r->stamps[l->first_stamp + before - l->program.first_op].end_ns;
        ready = end > ready ? end : ready;
        if (p->ops[before].kind == LW_OP_LAUNCH && end > launched)
            launched = end;
    }
    ready = ready < s->start_ns ? ready : s->start_ns;
    return (struct lw_span){
        .step = l->step, .pass = l->pass, .rank = l->rank, .stream = op->stream,
        .comm = op->comm, .op = l->program.first_op + i, .kind = op->kind,
        .ready = on_timeline(r, ready),
        .issue = on_timeline(r, launched < 0 ? ready : launched),
        .start = on_timeline(r, s->start_ns),
        .all_in = op->comm >= 0 && s->all_in_ns >= 0 ? on_timeline(r, s->all_in_ns) : -1,
        .end = on_timeline(r, s->end_ns),
    };
}

static enum lw_status keep_lane(struct exec_run *r, const struct exec_lane *l,
                                struct lw_timeline *t, struct lw_err *err)
{
    int64_t end = r->rank_end_ns[l->rank];

    for (int32_t i = 0; i < l->program.n_ops; i++) {
        const struct exec_stamp *s = &r->stamps[l->first_stamp + i];
        struct lw_span span = span_of(r, l, i);
        LW_TRY(lw_timeline_add(t, &span, err));
        end = s->end_ns > end ? s->end_ns : end;
        if (l->step >= r->options->n_warmup)
            r->over_ns += s->over_ns;
    }
    r->rank_end_ns[l->rank] = end;
    return LW_OK;
}

/* Of the batch's first n_steps steps, which are done then. */
static enum lw_status keep_spans(struct exec_run *r, int32_t n_steps, struct lw_timeline *t,
                                 struct lw_err *err)
{
    int32_t end = r->n_done + n_steps;

    for (int32_t rank = 0; rank < r->plan->n_ranks; rank++)
        r->rank_end_ns[rank] = r->released_ns;
    for (int64_t k = 0; k < r->n_lanes && r->lanes[k].step < end; k++)
        LW_TRY(keep_lane(r, &r->lanes[k], t, err));
    r->n_done = end;
    return LW_OK;
}

static bool has_ended(const struct exec_run *r, const struct exec_lane *l)
{
    for (int32_t i = 0; i < l->program.n_ops; i++)
        if (r->stamps[l->first_stamp + i].end_ns <= 0)
            return false;
    return true;
}

enum lw_status exec_keep_ended(struct exec_run *r, struct lw_timeline *t, struct lw_err *err)
{
    int64_t k = 0;

    while (k < r->n_lanes && has_ended(r, &r->lanes[k]))
        k++;
    return keep_spans(r, k < r->n_lanes ? r->lanes[k].step - r->n_done : r->n_given, t, err);
}

static enum lw_status check_launches(const struct exec_run *r, struct lw_err *err)
{
    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct exec_lane *l = &r->lanes[k];
        LW_TRY(exec_launch_order_check(r->plan,
                                       exec_tensors_layout(&r->memory, l->variant, l->rank),
                                       l->variant, l->rank, r->stamps + l->first_stamp, err));
    }
    return LW_OK;
}

/* What did not stop the step: kept for the end of the run, when it can be sent to all ranks. */
static enum lw_status keep_mismatch(struct exec_run *r, enum lw_status s, const struct lw_err *why,
                                    struct lw_err *err)
{
    if (s == LW_ENO && r->mismatch.code == LW_OK)
        r->mismatch = *why;
    if (s != LW_OK && s != LW_ENO && err)
        *err = *why;
    return s == LW_ENO ? LW_OK : s;
}

static enum lw_status tell(const struct exec_run *r, const struct exec_lane *l, int32_t i,
                           const struct exec_place *at, const struct exec_part *part,
                           struct lw_err *why)
{
    const struct exec_layout *layout = exec_tensors_layout(&r->memory, l->variant, l->rank);

    return layout->flow.end_of[part->message] >= 0
               ? exec_mismatch_tell(&r->memory, l->variant, i, at, part, why)
               : exec_payloads_explain(&r->memory, l->variant, at, part, why);
}

/* What ops took from other stages, or of sums; those of the earliest op in a program come first. */
static enum lw_status check_values(struct exec_run *r, struct lw_err *err)
{
    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct exec_lane *l = &r->lanes[k];
        struct exec_place at = exec_lane_place(r, l, l->variant);
        for (int32_t i = 0; i < l->program.n_ops; i++)
            for (int64_t n = r->first_part[l->first_stamp + i];
                 n < r->first_part[l->first_stamp + i + 1]; n++) {
                const struct exec_part *part = &r->parts.items[n];
                struct lw_err why = {0};
                if (part->kind != EXEC_PART_EXPECT)
                    continue;
                r->n_checked_messages += part->count * lw_dtype_size(part->from_dtype);
                if (part->found->place > 0)
                    LW_TRY(keep_mismatch(r, tell(r, l, i, &at, part, &why), &why, err));
            }
    }
    return LW_OK;
}

/* A variant that ran twice in the step has sent what it had received: only the others are
 * checked. */
static enum lw_status check_messages(struct exec_run *r, struct lw_err *err)
{
    int32_t n_local = r->memory.facts.n_local;

    for (int64_t k = 0; k < r->n_lanes; k += n_local) {
        int32_t v = r->lanes[k].variant, times = 0;
        for (int64_t j = 0; j < r->n_lanes; j += n_local)
            times += r->lanes[j].variant == v;
        struct lw_err why = {0};
        if (times == 1)
            LW_TRY(keep_mismatch(
                r, exec_payloads_check(&r->memory, v, r->n_done, &r->n_checked_messages, &why),
                &why, err));
    }
    return LW_OK;
}

enum lw_status exec_rehearsed(struct exec_run *r, struct lw_err *err)
{
    LW_TRY(check_values(r, err));
    LW_TRY(check_messages(r, err));
    LW_TRY(exec_sums_read(&r->sums, &r->memory, err));
    r->n_done += r->n_given;
    return LW_OK;
}

enum lw_status exec_batch_done(struct exec_run *r, struct lw_timeline *t, struct lw_err *err)
{
    LW_TRY(check_launches(r, err));
    for (int32_t k = 0; r->options->verify && k < r->n_given; k++)
        LW_TRY(exec_norm_keep(&r->memory, r->n_done + k, k, err));
    return keep_spans(r, r->n_given, t, err);
}
