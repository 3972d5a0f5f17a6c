/* Parameters with copies on several stages (a tied embedding): which they are and the communicator
 * over their stages. lower_update.c sums their gradients before the update.
 *
 * Invariants: the copies of a set are at distinct stages, ascending; sets over the same stages
 * share a communicator class, whose groups join equal data and tensor coordinates (of two
 * directions, the ranks of one direction). Every copy is a flat buffer of the kind
 * LW_BUCKET_TIED. Shares and owners of the copies may differ from stage to stage, so ZeRO
 * reduces buckets that hold one to all members (lower_reduce.c): each then has the whole sum,
 * whatever part of it it updates. Source of the order, after the reduction over data:
 * NVIDIA/Megatron-LM megatron/core/distributed/finalize_model_grads.py @d98e8a64. */
#include <stdio.h>

#include "shared/lower_layout/lowering.h"
#include "shared/plan/grid_rule.h"

static bool is_copy(const struct lw_lowering *l, int32_t i)
{
    const struct lw_param *p = LW_PARAM(l->w, i);

    return p->tied >= 0 && p->trainable && p->used && !p->ignored && lw_lower_holder(l, i) == i;
}

static void put(struct lw_tied_set *x, struct lw_tied_copy copy)
{
    int32_t at = x->n_copies++;

    for (; at > 0 && x->copies[at - 1].stage > copy.stage; at--)
        x->copies[at] = x->copies[at - 1];
    x->copies[at] = copy;
}

static enum lw_status add_copy(struct lw_lowering *l, int32_t i, struct lw_err *err)
{
    int32_t first = lw_param_at(l->w, i).tied, s = 0;

    while (s < l->n_tied && l->tied[s].first != first)
        s++;
    struct lw_tied_set *x = &l->tied[s];
    if (s == l->n_tied) {
        *x = (struct lw_tied_set){.first = first};
        LW_TAKE(&l->arena, x->copies, l->pp, err);
        l->n_tied++;
        put(x, (struct lw_tied_copy){first,
                                     lw_lower_stage_of(l, lw_param_at(l->w, first).module), -1});
    }
    put(x, (struct lw_tied_copy){i, lw_lower_stage_of(l, lw_param_at(l->w, i).module), -1});
    return LW_OK;
}

enum lw_status lw_lower_tied(struct lw_lowering *l, struct lw_err *err)
{
    int32_t n = 0;

    for (int32_t i = 0; l->n_parts > 1 && i < l->w->n_params; i++)
        n += is_copy(l, i);
    if (n == 0)
        return LW_OK;
    LW_TAKE(&l->arena, l->tied, n, err);
    for (int32_t i = 0; i < l->w->n_params; i++)
        if (is_copy(l, i))
            LW_TRY(add_copy(l, i, err));
    return LW_OK;
}

bool lw_lower_has_tied(const struct lw_lowering *l, int32_t param)
{
    for (int32_t s = 0; s < l->n_tied; s++)
        for (int32_t i = 0; i < l->tied[s].n_copies; i++)
            if (l->tied[s].copies[i].param == param)
                return true;
    return false;
}

/* --- communicators and buffers --------------------------------------------------------------- */

static bool same_stages(const struct lw_tied_set *a, const struct lw_tied_set *b)
{
    for (int32_t i = 0; i < a->n_copies && i < b->n_copies; i++)
        if (a->copies[i].stage != b->copies[i].stage)
            return false;
    return a->n_copies == b->n_copies;
}

/* By a rule where the stages are equally far apart: two always are. */
static bool add_by_rule(struct lw_lowering *l, const struct lw_tied_set *x)
{
    int32_t first = x->copies[0].stage, apart = x->copies[1].stage - first;
    struct lw_comm_rule rule = {.n_groups = l->dp * l->tp, .n_members = x->n_copies,
                                .n_group_digits = 2};

    for (int32_t i = 1; i < x->n_copies; i++)
        if (l->mirrored || x->copies[i].stage != first + i * apart)
            return false;
    rule.ranks = (struct lw_digits){first * l->stride_pp, 3,
                                    {{l->dp, l->stride_dp}, {l->tp, l->stride_tp},
                                     {x->n_copies, apart * l->stride_pp}}};
    lw_builder_groups(l->b, &rule);
    return true;
}

static void add_groups(struct lw_lowering *l, const struct lw_tied_set *x, int32_t *members)
{
    if (add_by_rule(l, x))
        return;
    for (int32_t d = 0; d < l->dp; d++) {
        for (int32_t t = 0; t < l->tp; t++) {
            for (int32_t half = 0; half < 1 + l->mirrored; half++) {
                for (int32_t i = 0; i < x->n_copies; i++) {
                    int32_t stage = x->copies[i].stage;
                    members[i] = lw_rank_at(l, d, half ? l->pp - 1 - stage : stage, t);
                }
                lw_builder_group(l->b, x->line.comm, members, x->n_copies);
            }
        }
    }
}

void lw_lower_tied_comms(struct lw_lowering *l, int32_t *members)
{
    int32_t n = 0;

    if (l->n_tied == 0)
        return;
    int32_t stream = lw_builder_stream(l->b, "embedding", LW_STREAM_COMM, 1);
    for (int32_t s = 0; s < l->n_tied; s++) {
        struct lw_tied_set *x = &l->tied[s];
        int32_t like = 0;
        char name[32] = "embedding";
        x->line.stream = stream;
        while (like < s && !same_stages(&l->tied[like], x))
            like++;
        if (like < s) {
            x->line = l->tied[like].line;
            continue;
        }
        if (n++ > 0)
            snprintf(name, sizeof name, "embedding %d", n);
        x->line.comm = lw_builder_comm(l->b, name, LW_COMM_EMBEDDING, l->s->reducer, stream);
        add_groups(l, x, members);
    }
}

void lw_lower_tied_sets(struct lw_lowering *l)
{
    for (int32_t stage = 0; l->n_tied > 0 && stage < l->pp; stage++) {
        bool opened = false;
        for (int32_t s = 0; s < l->n_tied; s++) {
            for (int32_t i = 0; i < l->tied[s].n_copies; i++) {
                struct lw_tied_copy *c = &l->tied[s].copies[i];
                const struct lw_param *p = LW_PARAM(l->w, c->param);
                enum lw_dtype dtype = lw_strategy_grad_dtype(l->s, p->dtype);
                struct lw_bucket bucket = {.dtype = dtype,
                                           .bytes = p->numel * lw_dtype_size(dtype)};
                struct lw_slot slot = {c->param, 0};
                if (c->stage != stage)
                    continue;
                if (!opened)
                    lw_builder_set(l->b, LW_BUCKET_TIED, NULL, stage);
                opened = true;
                c->bucket = lw_builder_bucket(l->b, &bucket, &slot, 1);
            }
        }
    }
}
