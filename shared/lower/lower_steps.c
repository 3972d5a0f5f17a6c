/* Lowering from end to end: the model's parts are decided, then the plan's tables, then the
 * passes of a run. Passes: K accumulating ones before each synchronised one; the initial buckets
 * for as many synchronised passes as the policy says, the rebuilt ones ever after. */
#include <stdio.h>

#include "shared/lower/lower_steps.h"
#include "shared/lower/plan_size.h"
#include "shared/lower_ops/writer.h"
#include "shared/plan/op_rows.h"

/* --- passes ---------------------------------------------------------------------------------- */

/* accumulate: the variant of the first pass that does not synchronise, and that of the others. */
static void add_cycle(struct lw_lowering *l, const int32_t accumulate[2], int32_t synchronised)
{
    for (int64_t k = 0; k < l->s->no_sync; k++)
        lw_builder_pass(l->b, accumulate[k > 0]);
    lw_builder_pass(l->b, synchronised);
}

static enum lw_status add_accumulate(struct lw_lowering *l, bool held, int32_t accumulate[2],
                                     struct lw_err *err)
{
    struct lw_pass pass = {.name = "accumulate", .set = LW_PASS_REDUCES_NOTHING,
                           .used_map = LW_MAP_NEVER};

    LW_TRY(lw_write_pass(l, &pass, &accumulate[0], err));
    accumulate[1] = accumulate[0];
    if (!held || l->s->no_sync < 2)
        return LW_OK;
    pass.name = "accumulate, weights held";
    pass.held = true;
    return lw_write_pass(l, &pass, &accumulate[1], err);
}

const struct lw_part *lw_lower_speaker(const struct lw_lowering *l)
{
    for (int32_t q = 0; q < l->n_parts; q++)
        if (l->parts[q].n_grads > 0)
            return &l->parts[q];
    return &l->parts[0];
}

static enum lw_status add_passes(struct lw_lowering *l, struct lw_err *err)
{
    const struct lw_part *d = lw_lower_speaker(l);
    const struct lw_bucket_rules *r = &d->rules;
    enum lw_pass_set first_set = d->initial.name ? LW_PASS_INITIAL : LW_PASS_REDUCES_NOTHING;
    enum lw_used_map each = r->used_map == LW_MAP_EACH ? LW_MAP_EACH : LW_MAP_NEVER;
    bool held = l->s->no_sync > 0 && (lw_part_keeps_units(d) || lw_part_gathers_ahead(d));
    struct lw_pass first = {"first", first_set, true, r->first_after_backward, held, r->used_map};
    struct lw_pass second = {"second", first_set, true, false, false, each};
    struct lw_pass steady = {"steady", LW_PASS_REBUILT, true, false, false, each};
    int32_t acc[2] = {-1, -1}, v;

    if (l->s->no_sync > 0)
        LW_TRY(add_accumulate(l, held, acc, err));
    LW_TRY(lw_write_pass(l, &first, &v, err));
    add_cycle(l, acc, v);
    if (!d->rebuilt.name) {
        lw_builder_repeat_from(l->b, 0);
        return LW_OK;
    }
    int64_t passes = l->s->no_sync + 1;
    for (int32_t i = 0; r->n_initial_passes == 1 && i < l->n_parts; i++)
        /* written down; no later pass reads them */
        lw_bucketing_free(&l->parts[i].initial.buckets);
    if (r->n_initial_passes > 1) {
        LW_TRY(lw_write_pass(l, &second, &v, err));
        add_cycle(l, acc, v);
        passes += l->s->no_sync + 1;
    }
    LW_TRY(lw_write_pass(l, &steady, &v, err));
    add_cycle(l, acc, v);
    lw_builder_repeat_from(l->b, (int32_t)passes);
    return LW_OK;
}

/* --- caps of the same plan ------------------------------------------------------------------- */

static void narrow_caps(const struct lw_part_set *set, int64_t cap, int64_t *least, int64_t *next)
{
    const struct lw_bucketing *b = &set->buckets;
    int64_t from = b->least_cap > 0 && b->least_cap < cap ? b->least_cap : cap;

    if (!set->name)
        return;
    *least = from > *least ? from : *least;
    *next = b->next_cap < *next ? b->next_cap : *next;
}

/* Of --bucket-cap, by all buckets of the plan. Initial ones without a limit have no cap. */
static void find_caps(const struct lw_lowering *l, int64_t *least, int64_t *next)
{
    int64_t cap = l->s->bucket_cap_bytes;

    *least = 0;
    *next = cap >= 0 ? LW_BUCKET_NO_LIMIT : 0;
    for (int32_t q = 0; cap >= 0 && q < l->n_parts; q++) {
        const struct lw_part *d = &l->parts[q];
        bool endless = d->rules.n_rebuilt > 0 &&
                       d->rules.initial_limits[d->rules.n_initial - 1] == LW_BUCKET_NO_LIMIT;
        if (!endless)
            narrow_caps(&d->initial, cap, least, next);
        narrow_caps(&d->rebuilt, cap, least, next);
    }
}

/* --- all of it ------------------------------------------------------------------------------- */

static enum lw_status decide(struct lw_lowering *l, const struct lw_cost *cost, struct lw_err *err)
{
    int64_t n_grads = 0;

    LW_TRY(lw_lower_axes(l, err));
    LW_TRY(lw_lower_tensor(l, err));
    LW_TRY(lw_lower_stages(l, cost, err));
    LW_TRY(lw_lower_tied(l, err));
    LW_TRY(lw_grid_order(&l->grid, l->pairs, &l->order, err));
    for (int32_t q = 0; q < l->n_parts; q++)
        n_grads += l->parts[q].n_grads;
    if (l->parts[0].n_members > 1 && n_grads == 0)
        return lw_fail(err, LW_EINVAL, "--dp %d: no parameter of workload '%s' needs a gradient",
                       l->dp, l->w->name);
    return LW_OK;
}

static enum lw_status write_all(struct lw_lowering *l, struct lw_err *err)
{
    lw_builder_strategy(l->b, l->s);
    LW_TRY(lw_lower_ranks(l, err));
    LW_TRY(lw_lower_model(l, err));
    LW_TRY(add_passes(l, err));
    lw_grid_order_free(&l->order);
    lw_lower_notes(l);
    return l->no_memory ? lw_fail_nomem(err) : LW_OK;
}

static enum lw_status keep_origin(const struct lw_workload *w, struct lw_plan *plan,
                                  struct lw_err *err)
{
    const struct lw_made_for *m = &w->from.made_for;
    bool has = m->framework && m->framework[0];

    plan->workload_hash = lw_arena_strdup(&plan->arena, w->from.hash ? w->from.hash : "");
    plan->device = lw_arena_strdup(&plan->arena, w->from.device ? w->from.device : "");
    plan->rules = has ? LW_PLAN_RULES : 0;
    plan->framework = lw_arena_strdup(&plan->arena, has ? m->framework : "ideal");
    plan->framework_hash =
        lw_arena_strdup(&plan->arena, has && m->framework_hash ? m->framework_hash : "");
    if (w->optimizer != LW_OPTIMIZER_UNKNOWN)
        plan->optimizer = lw_optimizer_name((int)w->optimizer);
    plan->own_states = lw_own_states(w->state_bytes, plan->strategy);
    plan->dims = w->dims;
    plan->dims.experts = lw_workload_has_experts(w);
    plan->dims.n_experts = lw_workload_routing(w, 0).experts;
    bool copied = plan->workload_hash && plan->device && plan->framework && plan->framework_hash;
    enum lw_status st = copied ? lw_plan_count_yield(plan, w, err) : lw_fail_nomem(err);
    if (st != LW_OK)
        lw_plan_free(plan);
    return st;
}

/* The user named no device: only decisions that read no time are decided. */
static enum lw_status forget_times(struct lw_plan *plan, struct lw_err *err)
{
    if (plan->n_from_times > 0) {
        enum lw_status st =
            lw_fail(err, LW_EINVAL, "%s: times decide this, and no device is named: give the "
                                    "cluster (-c NAME) or the device (--device NAME), or choose "
                                    "what reads no times",
                    plan->from_times[0]);
        lw_plan_free(plan);
        return st;
    }
    lw_plan_drop_times(plan);
    return LW_OK;
}

static void free_all(struct lw_lowering *l)
{
    for (int32_t i = 0; l->parts && i < l->n_parts; i++)
        lw_part_free(&l->parts[i]);
    lw_colossal_free(&l->calls);
    lw_grid_order_free(&l->order);
    lw_grid_free(&l->grid);
    lw_free(l->rows);
    lw_arena_free(&l->arena);
}

/* Tables of these, and of LW_SHARE_OPS_FROM ops, are large: what was freed goes to the system. */
enum { MANY_PARAMS = 1 << 18 };

enum lw_status lw_lower(const struct lw_workload *w, const struct lw_strategy *s, bool draft,
                        const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err)
{
    struct lw_lowering l = {.given = w, .w = w, .s = s};
    enum lw_status st = decide(&l, cost, err);
    struct lw_plan_size size = lw_plan_size_estimate(w, s);
    bool many = w->n_params >= MANY_PARAMS || size.ops >= LW_SHARE_OPS_FROM;
    int64_t least_cap = 0, next_cap = 0;

    if (many)
        lw_alloc_trim(); /* of what decisions were made with */
    if (st == LW_OK) {
        find_caps(&l, &least_cap, &next_cap);
        char name[256], more[64] = "";
        int32_t cp = s->cp > 1 ? (int32_t)s->cp : 1, at = 0; /* l.dp counts those ranks too */
        if (cp > 1)
            at = snprintf(more, sizeof more, " cp%d", cp);
        if (!lw_is_plain(&l))
            snprintf(more + at, sizeof more - (size_t)at, " pp%d tp%d", l.pp, l.tp);
        snprintf(name, sizeof name, "%s dp%d%s", w->name, l.dp / cp, more);
        l.b = lw_builder_new(name, l.n_ranks);
        if (l.b && draft)
            lw_builder_draft(l.b);
        if (l.b && size.ops >= LW_SHARE_OPS_FROM)
            lw_builder_share_ops(l.b, LW_SHARED_OPS_LEAST, !size.repeats);
        if (l.b)
            lw_builder_expect_ops(l.b, size.ops);
        st = l.b ? write_all(&l, err) : lw_fail_nomem(err);
    }
    free_all(&l);
    if (many)
        lw_alloc_trim();
    if (st != LW_OK) {
        lw_builder_free(l.b);
        return st;
    }
    LW_TRY(lw_builder_finish(l.b, plan, err));
    if (many)
        lw_alloc_trim(); /* of what the hash took */
    plan->last_spares = l.last_spares;
    plan->least_cap = least_cap;
    plan->next_cap = next_cap;
    LW_TRY(keep_origin(w, plan, err));
    return w->timeless ? forget_times(plan, err) : LW_OK;
}

enum lw_status lw_lower_settled_buckets(const struct lw_workload *w, const struct lw_strategy *s,
                                        const struct lw_cost *cost, struct lw_settled_buckets *out,
                                        struct lw_err *err)
{
    struct lw_lowering l = {.given = w, .w = w, .s = s};
    struct lw_settled_buckets found = {.policy = s->bucket_policy, .next_cap_bytes = INT64_MAX};
    enum lw_status st = decide(&l, cost, err);

    for (int32_t q = 0; st == LW_OK && q < l.n_parts; q++) {
        const struct lw_part *d = &l.parts[q];
        const struct lw_part_set *set = d->rebuilt.name ? &d->rebuilt : &d->initial;
        if (set->name && set->buckets.next_cap < found.next_cap_bytes)
            found.next_cap_bytes = set->buckets.next_cap;
        found.n += set->buckets.n_buckets;
    }
    free_all(&l);
    if (st == LW_OK)
        *out = found;
    return st;
}
