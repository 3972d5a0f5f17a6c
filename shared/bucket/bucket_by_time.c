/* The policies that choose buckets by the time they take: what lw_bucket_mg_wfbp and
 * lw_bucket_optimal (bucket_merge.h) are asked for a plan.
 *
 * A gradient is ready when its stretch of the backward ends, or all of them at the end of the
 * backward where nothing overlaps. Not modelled: the copies into buckets and what they delay. */
#include <inttypes.h>
#include <stdio.h>

#include "shared/numbers/units.h"
#include "shared/bucket/bucket_merge.h"
#include "shared/bucket/policy.h"

typedef enum lw_status lw_bucket_merge_rule(const struct lw_merge *m, struct lw_bucketing *out,
                                            lw_ps *end, struct lw_err *err);

/* Bytes on the wire and ready times of t->order. */
static void list_by_time(const struct lw_bucket_task *t, int64_t *bytes, lw_ps *ready)
{
    const struct lw_backward *back = t->back;
    lw_ps end = back->n_stretches > 0 ? back->stretches[back->n_stretches - 1].end : 0;
    int32_t n = 0;

    for (int32_t i = 0; i < t->n_grads; i++) {
        const struct lw_grad *g = &t->grads[t->order[i]];
        bytes[i] = g->numel * lw_dtype_size(lw_strategy_wire_dtype(t->s, g->dtype));
    }
    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        for (int32_t r = s->first_ready; r < s->first_ready + s->n_ready; r++)
            if (t->grad_of[back->ready[r]] >= 0)
                ready[n++] = t->s->overlap ? s->end : end;
    }
    while (n < t->n_grads) /* unused ones stand last in the order */
        ready[n++] = end;
}

static enum lw_status check_cost(const struct lw_bucket_task *t, const struct lw_merge *m,
                                 struct lw_err *err)
{
    static const struct {
        enum lw_op_kind op;
        const char *words;
    } ops[] = {{LW_OP_ALL_REDUCE, "an all-reduce"}, {LW_OP_REDUCE_SCATTER, "a reduce-scatter"},
               {LW_OP_ALL_GATHER, "an all-gather"}};
    struct lw_cost_query q = m->query;
    const char *policy = lw_bucket_policy_name(t->s->bucket_policy);

    if (!m->cost || !m->cost->time)
        return lw_fail(err, LW_EINVAL, "--bucket-policy %s weighs buckets by the time they take: "
                                       "name a cluster (-c)", policy);
    q.bytes = m->bytes[0];
    for (int i = m->forward ? 1 : 0; i < (m->forward ? 3 : 1); i++) {
        q.op = ops[i].op;
        if (m->cost->time(m->cost->ctx, &q) < 0)
            return lw_fail(err, LW_ENOTSUP, "--bucket-policy %s: the cluster gives no time for %s "
                                            "of %" PRId64 " bytes over %d ranks on %d nodes "
                                            "(see 'lapwing cost'); calibrate it or name "
                                            "another (-c)", policy, ops[i].words, q.bytes,
                           q.n_ranks, q.n_nodes);
    }
    return LW_OK;
}

/* The next forward gathers against the ready order, so a module runs once the bucket of its
 * gradient that is ready first is gathered; a module without gradients runs after the one before
 * it. */
static enum lw_status list_forward(const struct lw_bucket_task *t, struct lw_merge *m,
                                   struct lw_err *err)
{
    if (t->s->pp > 1)
        return lw_fail(err, LW_ENOTSUP,
                       "--count-forward on: the next forward of a pipeline's stage "
                       "is not weighed (--pp 1)");
    const struct lw_workload *w = t->w;
    lw_ps *forward = lw_arena_alloc(t->room, t->n_grads, sizeof *forward);
    int32_t *first = lw_arena_alloc(t->room, w->n_modules, sizeof *first), at = t->n_grads - 1;

    if (!forward || !first)
        return lw_fail_nomem(err);
    for (int32_t k = 0; k < w->n_modules; k++)
        first[k] = -1;
    for (int32_t i = t->n_grads - 1; i >= 0; i--)
        first[lw_param_at(w, t->param_of[t->order[i]]).module] = i;
    for (int32_t k = 0; k < w->n_modules; k++) {
        at = first[k] >= 0 ? first[k] : at;
        forward[at] += lw_module_at(w, k)->forward_ps;
    }
    m->forward = forward;
    m->between = w->optimizer_ps;
    return LW_OK;
}

static enum lw_status merge(const struct lw_bucket_task *t, lw_bucket_merge_rule *rule,
                            const char *rule_text, struct lw_bucket_answer *out,
                            struct lw_err *err)
{
    int64_t *bytes = lw_arena_alloc(t->room, t->n_grads, sizeof *bytes);
    lw_ps *ready = lw_arena_alloc(t->room, t->n_grads, sizeof *ready), end;
    char text[32];

    if (!bytes || !ready)
        return lw_fail_nomem(err);
    LW_TRY(lw_bucket_need_one_kind(t, err));
    list_by_time(t, bytes, ready);
    struct lw_merge m = {.n = t->n_grads, .bytes = bytes, .ready = ready, .cost = t->cost,
                         .query = {.op = LW_OP_ALL_REDUCE, .algorithm = t->s->reducer,
                                   .n_ranks = t->n_members,
                                   .dtype = lw_strategy_wire_dtype(t->s, t->grads[0].dtype),
                                   .n_nodes = t->n_nodes, .fewest = t->fewest}};
    if (t->s->count_forward)
        LW_TRY(list_forward(t, &m, err));
    LW_TRY(check_cost(t, &m, err));
    LW_TRY(rule(&m, &out->buckets, &end, err));
    for (int32_t i = 0; i < out->buckets.n_items; i++)
        out->buckets.items[i] = t->order[out->buckets.items[i]];
    for (int32_t i = 0; i < out->buckets.n_buckets; i++)
        out->buckets.limit_bytes[i] = LW_BUCKET_NO_LIMIT;
    snprintf(out->why, sizeof out->why,
             "ready order, %s; by the cluster's cost %s ends %s after the backward began",
             rule_text, t->s->count_forward ? "it" : "the last all-reduce",
             lw_format_ps(text, end));
    return LW_OK;
}

static enum lw_status mg_wfbp(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                              struct lw_err *err)
{
    return merge(t, lw_bucket_mg_wfbp, "merged where waiting costs less than a start-up", out, err);
}

static enum lw_status optimal(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                              struct lw_err *err)
{
    const char *text = t->s->count_forward
                           ? "the exact minimum over all runs of the next forward's end, were sums "
                             "halved around the optimizer (this plan all-reduces)"
                           : "the exact minimum of that end over all runs";

    return merge(t, lw_bucket_optimal, text, out, err);
}

const struct lw_bucket_policy lw_bucket_policy_mg_wfbp = {
    .takes = LW_TAKES_FIND_UNUSED, .assign = mg_wfbp,
};
const struct lw_bucket_policy lw_bucket_policy_optimal = {
    .takes = LW_TAKES_FIND_UNUSED | LW_TAKES_COUNT_FORWARD, .assign = optimal,
};
