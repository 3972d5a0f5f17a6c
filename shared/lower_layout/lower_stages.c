/* The model over a pipeline: the schedule's grid, the partition of modules into its stages, and
 * each part's own workload.
 *
 * A part's workload has the modules of its stage, the parameters that live there and the buffers
 * that belong to them; ready times count from the start of the part's backward. A parameter tied to
 * one of another plan stage is a copy with a gradient of its own; one tied to a parameter that the
 * same stage holds elsewhere is not a parameter of this part. Stages without modules are
 * refused. */
#include <string.h>

#include "shared/lower_layout/lowering.h"
#include "shared/partition/partition.h"
#include "shared/plan/spread.h"
#include "shared/schedule/schedule.h"
#include "shared/workload/buffer.h"
#include "shared/workload/sparse.h"

/* --- the grid -------------------------------------------------------------------------------- */

static bool has_pairs(const struct lw_grid *g)
{
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++)
        if (g->actions[i].with_next)
            return true;
    return false;
}

static enum lw_status make_grid(struct lw_lowering *l, struct lw_err *err)
{
    const struct lw_strategy *s = l->s;
    struct lw_schedule_shape shape = {.schedule = l->pp > 1 ? s->schedule : LW_SCHEDULE_1F1B,
                                      .n_ranks = l->pp,
                                      .n_micro_batches = (int32_t)s->micro_batches,
                                      .n_chunks = l->pp > 1 ? (int32_t)s->chunks : 1,
                                      .group = (int32_t)s->micro_batch_group,
                                      .drain_every = (int32_t)s->drain_every};

    shape.pairs = s->expert_overlap == LW_EXPERT_OVERLAP_ON &&
                  lw_schedule_pairs_of(shape.schedule) == LW_PAIRS_ASKED;

    LW_TRY(lw_schedule_grid(&shape, &l->grid, err));
    LW_TRY(lw_grid_check(&l->grid, err));
    l->mirrored = l->grid.layout == LW_LAYOUT_BIDIR;
    l->pairs = lw_strategy_overlaps_experts(s, NULL) && has_pairs(&l->grid);
    l->n_parts = l->grid.n_stages;
    if (l->pp > 1 && lw_schedule_combines_calls(s->schedule))
        return lw_colossal_order(&shape, false, &l->calls, err);
    return LW_OK;
}

/* --- parts ----------------------------------------------------------------------------------- */

static int32_t stage_of_part(const struct lw_lowering *l, int32_t part)
{
    return lw_stage_of_role(l, lw_grid_rank_of(&l->grid, part, 0));
}

int32_t lw_lower_stage_of(const struct lw_lowering *l, int32_t module)
{
    return stage_of_part(l, l->part_of[module]);
}

/* The part that a buffer belongs to: that of the parameter whose dotted name it shares most of. */
static int32_t part_of_buffer(const struct lw_lowering *l, const char *name)
{
    size_t best = 0;
    int32_t part = 0;

    for (int32_t i = 0; i < l->w->n_params; i++) {
        const char *p = lw_param_at(l->w, i).name;
        size_t n = 0, dot = 0;
        for (; p[n] && p[n] == name[n]; n++)
            dot = p[n] == '.' ? n + 1 : dot;
        if (dot > best) {
            best = dot;
            part = l->part_of[lw_param_at(l->w, i).module];
        }
    }
    return part;
}

struct split {
    struct lw_lowering *l;
    int32_t *local; /* [n_params] l->param_in_part */
    int32_t *buffer_part;
};

static struct lw_workload *workload_of(struct lw_lowering *l, int32_t q, struct lw_range r,
                                       int32_t n_params, struct lw_err *err)
{
    const struct lw_workload *w = l->w;
    struct lw_workload *sub = lw_arena_alloc(&l->arena, 1, sizeof *sub);
    struct lw_param *params = lw_arena_alloc(&l->arena, n_params, sizeof *params);
    int32_t *map = lw_arena_alloc(&l->arena, n_params, sizeof *map);
    bool kernels = w->by_kernels && w->grad_kernel;
    int32_t *kernel = kernels ? lw_arena_alloc(&l->arena, n_params, sizeof *kernel) : NULL;

    if (!sub || !params || !map || (kernels && !kernel)) {
        lw_fail_nomem(err);
        return NULL;
    }
    *sub = (struct lw_workload){.name = w->name,
                                .modules = w->modules ? w->modules + r.begin : NULL,
                                .n_modules = r.end - r.begin, .params = params, .batch = w->batch,
                                .optimizer = w->optimizer, .state_bytes = w->state_bytes,
                                .optimizer_ps = w->optimizer_ps,
                                .products = w->products, .n_products = w->n_products,
                                .kernels = w->kernels, .n_kernels = w->n_kernels,
                                .kernel_times = w->kernel_times, .by_kernels = w->by_kernels,
                                .timed_for = w->timed_for, .step_source = w->step_source};
    if (!w->modules) {
        sub->module_rows = w->module_rows;
        sub->module_row = w->module_row + r.begin;
        sub->module_names = w->module_names + r.begin;
    }
    sub->grad_kernel = kernel;
    if (r.end == w->n_modules)
        sub->dims = w->dims; /* of the loss */
    l->parts[q].w = sub;
    l->parts[q].first_module = r.begin;
    l->parts[q].param_in_model = map;
    return sub;
}

int32_t lw_lower_holder(const struct lw_lowering *l, int32_t param)
{
    return l->holder ? l->holder[param] : param;
}

/* The holders of one storage, at a stage each, are a chain from the first parameter of all. Without
 * tied parameters each holds itself, and nothing is listed. */
static enum lw_status find_holders(struct lw_lowering *l, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_workload *w = l->w;
    int32_t *next, n_tied = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        n_tied += lw_param_at(w, i).tied >= 0;
    if (n_tied == 0)
        return LW_OK;
    LW_TAKE(&l->arena, l->holder, w->n_params, err);
    LW_TAKE(room, next, w->n_params, err);
    memset(next, -1, (size_t)w->n_params * sizeof *next);
    for (int32_t i = 0; i < w->n_params; i++) {
        int32_t stage = lw_lower_stage_of(l, lw_param_at(w, i).module), last = -1;
        int32_t j = lw_param_at(w, i).tied < i ? lw_param_at(w, i).tied : -1;
        for (; j >= 0 && lw_lower_stage_of(l, lw_param_at(w, j).module) != stage; j = next[j])
            last = j;
        l->holder[i] = j >= 0 ? j : i;
        if (j < 0 && last >= 0)
            next[last] = i;
    }
    return LW_OK;
}

static enum lw_status take_params(struct split *k, int32_t q, struct lw_range r, struct lw_err *err)
{
    struct lw_lowering *l = k->l;
    const struct lw_workload *w = l->w;
    int32_t n = 0;
    lw_ps before = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        n += l->part_of[lw_param_at(w, i).module] == q;
    struct lw_workload *sub = workload_of(l, q, r, n, err);
    if (!sub)
        return LW_ENOMEM;
    for (int32_t m = r.end; m < w->n_modules; m++)
        before += lw_module_at(w, m)->backward_input_ps + lw_module_at(w, m)->backward_weight_ps;
    for (int32_t i = 0; i < w->n_params; i++) {
        int32_t holder;
        if (l->part_of[lw_param_at(w, i).module] != q)
            continue;
        holder = lw_lower_holder(l, i);
        if (holder != i && l->part_of[lw_param_at(w, holder).module] != q)
            continue; /* another part of the stage holds it */
        struct lw_param *p = &sub->params[sub->n_params];
        *p = lw_param_at(w, i);
        p->module -= r.begin;
        p->tied = holder == i ? -1 : k->local[holder];
        p->ready_ps = p->ready_ps < 0 ? -1 : p->ready_ps > before ? p->ready_ps - before : 0;
        ((int32_t *)l->parts[q].param_in_model)[sub->n_params] = i;
        if (sub->grad_kernel)
            sub->grad_kernel[sub->n_params] = w->grad_kernel[i];
        k->local[i] = sub->n_params++;
    }
    return LW_OK;
}

static enum lw_status take_sparse(struct split *k, int32_t q, struct lw_err *err)
{
    const struct lw_workload *w = k->l->w;
    struct lw_workload *sub = (struct lw_workload *)k->l->parts[q].w;

    LW_TAKE(&k->l->arena, sub->sparse, w->n_sparse, err);
    for (int32_t i = 0; i < w->n_sparse; i++) {
        struct lw_sparse x = w->sparse[i];
        if (k->l->part_of[lw_param_at(w, x.param).module] != q || k->local[x.param] < 0)
            continue;
        x.param = k->local[x.param];
        sub->sparse[sub->n_sparse++] = x;
    }
    return LW_OK;
}

/* The model's order, cut to the part; a copy of a tied parameter, which the order leaves out,
 * is after the gradients of its own module. */
static enum lw_status take_order(struct split *k, int32_t q, struct lw_err *err)
{
    struct lw_lowering *l = k->l;
    const struct lw_workload *w = l->w;
    struct lw_workload *sub = (struct lw_workload *)l->parts[q].w;
    int32_t *order = lw_arena_alloc(&l->arena, sub->n_params, sizeof *order), n = 0;

    if (!order)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < w->n_ready; i++)
        if (l->part_of[lw_param_at(w, w->ready_order[i]).module] == q &&
            k->local[w->ready_order[i]] >= 0)
            order[n++] = k->local[w->ready_order[i]];
    for (int32_t i = 0; i < sub->n_params && w->n_ready > 0; i++) {
        int32_t at = n;
        if (lw_param_at(w, l->parts[q].param_in_model[i]).tied < 0 || sub->params[i].tied >= 0 ||
            !lw_param_has_gradient(&sub->params[i]))
            continue;
        while (at > 0 && sub->params[order[at - 1]].module < sub->params[i].module)
            at--;
        memmove(order + at + 1, order + at, (size_t)(n - at) * sizeof *order);
        order[at] = i;
        n++;
    }
    sub->ready_order = order;
    sub->n_ready = n;
    return LW_OK;
}

static enum lw_status take_buffers(struct split *k, int32_t q, struct lw_err *err)
{
    const struct lw_workload *w = k->l->w;
    struct lw_workload *sub = (struct lw_workload *)k->l->parts[q].w;

    LW_TAKE(&k->l->arena, sub->buffers, w->n_buffers, err);
    for (int32_t i = 0; i < w->n_buffers; i++)
        if (k->buffer_part[i] == q)
            sub->buffers[sub->n_buffers++] = w->buffers[i];
    return LW_OK;
}

static enum lw_status split_workload(struct lw_lowering *l, const struct lw_range *ranges,
                                     struct lw_arena *room, struct lw_err *err)
{
    const struct lw_workload *w = l->w;
    struct split k = {.l = l};

    LW_TAKE(&l->arena, k.local, w->n_params, err);
    LW_TAKE(room, k.buffer_part, w->n_buffers, err);
    l->param_in_part = k.local;
    memset(k.local, -1, (size_t)w->n_params * sizeof *k.local);
    for (int32_t i = 0; i < w->n_buffers; i++)
        k.buffer_part[i] = part_of_buffer(l, w->buffers[i].name);
    for (int32_t q = 0; q < l->n_parts; q++) {
        LW_TRY(take_params(&k, q, ranges[q], err));
        LW_TRY(take_order(&k, q, err));
        LW_TRY(take_sparse(&k, q, err));
        LW_TRY(take_buffers(&k, q, err));
    }
    return LW_OK;
}

/* --- all of it ------------------------------------------------------------------------------- */

static enum lw_status count_nodes(struct lw_lowering *l, const struct lw_cost *cost,
                                  struct lw_part *d, struct lw_err *err)
{
    int32_t per_node = cost ? cost->ranks_per_node : 0;
    int32_t *members;

    LW_TAKE(&l->arena, members, lw_n_copies(l), err);
    int32_t n = lw_data_group(l, d->stage, 0, members);
    struct lw_spread at = per_node > 0 ? lw_spread_over(per_node, members, n)
                                       : (struct lw_spread){.n_nodes = 1};
    d->n_nodes = at.n_nodes;
    d->fewest = at.fewest;
    return LW_OK;
}

static enum lw_status cut_model(struct lw_lowering *l, const struct lw_cost *cost,
                                struct lw_arena *room, struct lw_err *err)
{
    struct lw_range *ranges = lw_arena_alloc(room, l->n_parts, sizeof *ranges);

    if (!ranges)
        return lw_fail_nomem(err);
    if (l->n_parts == 1) {
        l->parts[0].w = l->w;
        return find_holders(l, room, err);
    }
    LW_TRY(lw_lower_partition(l, cost, ranges, err));
    for (int32_t q = 0; q < l->n_parts; q++)
        for (int32_t m = ranges[q].begin; m < ranges[q].end; m++)
            l->part_of[m] = q;
    LW_TRY(find_holders(l, room, err));
    return split_workload(l, ranges, room, err);
}

/* Messages need sizes, and an element type: that of the first parameter. */
static enum lw_status check_boundaries(struct lw_lowering *l, struct lw_err *err)
{
    l->activation_dtype = l->w->n_params > 0 ? lw_param_at(l->w, 0).dtype : LW_F32;
    for (int32_t q = 0; q + 1 < l->n_parts; q++) {
        int32_t m = l->parts[q].first_module + l->parts[q].w->n_modules - 1;
        if (lw_module_at(l->w, m)->output_bytes < 0)
            return lw_fail(err, LW_EINVAL,
                           "--pp %d: module %d '%s' ends a stage, and workload '%s' does not give "
                           "the bytes that it passes on (output_bytes)",
                           l->pp, m, lw_module_name(l->w, m), l->w->name);
    }
    return LW_OK;
}

static bool runs_halves(const struct lw_grid *g)
{
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++)
        if (g->actions[i].kind == LW_OP_BACKWARD_INPUT)
            return true;
    return false;
}

/* Collectives and rings that run beside a whole backward. */
static enum lw_status refuse_halves(const struct lw_lowering *l, struct lw_err *err)
{
    bool overlaps = l->s->tp_overlap != LW_TP_OVERLAP_OFF;

    if (!runs_halves(&l->grid) || (!overlaps && l->s->cp_comm != LW_CP_P2P))
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP,
                   "--%s cannot be combined with --schedule %s, which computes weight gradients in "
                   "ops of their own; choose --%s",
                   overlaps ? "tp-overlap" : "cp-comm-type p2p", lw_schedule_name(l->s->schedule),
                   overlaps ? "tp-overlap off" : "cp-comm-type all-gather");
}

int32_t lw_lower_backwards(const struct lw_lowering *l, int32_t rank, int32_t part)
{
    const struct lw_grid *g = &l->grid;
    int32_t n = 0;

    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++)
        n += g->actions[i].stage == part && (g->actions[i].kind == LW_OP_BACKWARD ||
                                             g->actions[i].kind == LW_OP_BACKWARD_WEIGHT);
    return n;
}

/* Of each part: until its gradients are reduced, on the rank that has the most. */
static enum lw_status count_backwards(struct lw_lowering *l, struct lw_err *err)
{
    const struct lw_grid *g = &l->grid;
    int64_t *n;

    LW_TAKE(&l->arena, n, l->n_parts, err);
    for (int32_t r = 0; r < l->pp; r++) {
        memset(n, 0, (size_t)l->n_parts * sizeof *n);
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++)
            n[g->actions[i].stage] += g->actions[i].kind == LW_OP_BACKWARD ||
                                      g->actions[i].kind == LW_OP_BACKWARD_WEIGHT;
        for (int32_t q = 0; q < l->n_parts; q++) {
            int64_t all = n[q] * (l->s->no_sync + 1);
            l->parts[q].n_backwards =
                all > l->parts[q].n_backwards ? all : l->parts[q].n_backwards;
        }
    }
    return LW_OK;
}

/* The stage of each part, and its place among the parts there. */
static enum lw_status place_parts(struct lw_lowering *l, struct lw_err *err)
{
    int32_t *n;

    LW_TAKE(&l->arena, n, l->n_parts, err);
    for (int32_t q = 0; q < l->n_parts; q++) {
        l->parts[q].stage = stage_of_part(l, q);
        l->parts[q].place = n[l->parts[q].stage]++;
    }
    return LW_OK;
}

enum lw_status lw_lower_stages(struct lw_lowering *l, const struct lw_cost *cost,
                               struct lw_err *err)
{
    struct lw_arena room = {0};

    LW_TRY(make_grid(l, err));
    LW_TAKE(&l->arena, l->parts, l->n_parts, err);
    LW_TAKE(&l->arena, l->part_of, l->w->n_modules, err);
    enum lw_status s = cut_model(l, cost, &room, err);
    lw_arena_free(&room);
    if (s == LW_OK)
        s = refuse_halves(l, err);
    if (s == LW_OK)
        s = check_boundaries(l, err);
    if (s == LW_OK)
        s = place_parts(l, err);
    if (s == LW_OK)
        s = count_backwards(l, err);
    bool halves = runs_halves(&l->grid);
    for (int32_t q = 0; s == LW_OK && q < l->n_parts; q++) {
        struct lw_part *d = &l->parts[q];
        d->s = l->s;
        d->cost = cost;
        d->work.splits = halves;
        d->n_members = l->s->zero_group > 0 ? (int32_t)l->s->zero_group : lw_n_copies(l);
        d->n_expert_members = d->n_members * lw_expert_width(l) / l->ep;
        s = count_nodes(l, cost, d, err);
        if (s == LW_OK)
            s = lw_part_decide(d, err);
    }
    return s == LW_OK ? lw_lower_check_memory(l, err) : s;
}
