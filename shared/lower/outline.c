/* The outline of a plan: the lowering's own tensor group, steps and partition, without parts, ops
 * or ranks. What a plan adds is left out, so every figure is at most that of the plan. */
#include "shared/lower/outline.h"

#include <string.h>

#include "shared/lower_layout/lowering.h"
#include "shared/numbers/checked.h"
#include "shared/timeline/param_memory.h"

/* --- collectives of the tensor and the expert group --- */

struct exchange {
    const struct lw_cost *cost;
    struct lw_cost_query query, tokens; /* tokens: to experts and back */
    bool known, sequence, knows_tokens;
};

/* Every expert group is on equally many nodes: its ranks follow each other, with --etp 1, or are a
 * tensor group apart. */
static void add_tokens(const struct lw_lowering *l, struct exchange *x)
{
    int32_t node = x->cost ? x->cost->ranks_per_node : 0, tp = l->tp, ep = l->ep;
    int32_t span = lw_expert_width(l) > 1 ? ep : ep * tp;
    bool whole = node > 0 && (node % span == 0 || (span % node == 0 && node % (span / ep) == 0));
    int32_t n_nodes = whole && span > node ? span / node : 1;

    x->knows_tokens = x->cost && ep > 1 && l->s->rank_order == LW_RANKS_MEGATRON &&
                      l->stride_tp == 1 && l->stride_dp == tp && (whole || node == 0) &&
                      l->s->reducer == LW_REDUCER_AUTO;
    x->tokens = (struct lw_cost_query){
        .op = LW_OP_ALL_TO_ALL, .dtype = x->query.dtype, .n_ranks = ep, .n_nodes = n_nodes,
        .fewest = ep / n_nodes, .alone = ep == l->n_ranks,
        .once = lw_workload_routing(l->w, l->s->dispatch_once)};
}

/* Every tensor group is on equally many nodes where its ranks follow each other and fill nodes. */
static struct exchange exchange_of(const struct lw_lowering *l, const struct lw_cost *cost)
{
    int32_t node = cost ? cost->ranks_per_node : 0, tp = l->tp;
    bool whole = node > 0 && (node % tp == 0 || tp % node == 0);
    int32_t n_nodes = whole && tp > node ? tp / node : 1;

    struct exchange x = {
        .cost = cost,
        .known = cost && tp > 1 && l->stride_tp == 1 && (whole || node == 0) &&
                 l->s->reducer == LW_REDUCER_AUTO && !lw_overlaps_pieces(l->s),
        .query = {.dtype = l->w->n_params > 0 ? l->w->params[0].dtype : LW_F32, .n_ranks = tp,
                  .n_nodes = n_nodes, .fewest = tp / n_nodes, .alone = tp == l->n_ranks},
        .sequence = l->s->sequence_parallel};
    add_tokens(l, &x);
    return x;
}

/* One way, of a module of the rank. */
static lw_ps time_of_tokens(const struct exchange *x, const struct lw_module *m)
{
    struct lw_cost_query q = x->tokens;

    q.bytes = m->dispatch_bytes;
    lw_ps time = x->knows_tokens && q.bytes > 0 ? x->cost->time(x->cost->ctx, &q) : 0;
    return time > 0 ? time : 0;
}

static lw_ps time_of(const struct exchange *x, const struct lw_module *m,
                     const struct lw_step *step)
{
    struct lw_cost_query q = x->query;

    if (step->kind == LW_STEP_SENT || step->kind == LW_STEP_BACK)
        return time_of_tokens(x, m);
    if (!x->known || (step->kind != LW_STEP_SUM && step->kind != LW_STEP_GATHER))
        return 0;
    q.op = step->kind == LW_STEP_GATHER ? LW_OP_ALL_GATHER
           : x->sequence                ? LW_OP_REDUCE_SCATTER
                                        : LW_OP_ALL_REDUCE;
    q.bytes = step->bytes;
    lw_ps time = x->cost->time(x->cost->ctx, &q);
    return time > 0 ? time : 0;
}

/* A sum that is followed by BESIDE runs beside what follows. */
static lw_ps exchanged(const struct exchange *x, const struct lw_module *m,
                       const struct lw_step *v, int32_t n)
{
    lw_ps all = 0, last = 0;

    for (int32_t i = 0; i < n; i++) {
        if (v[i].kind == LW_STEP_BESIDE)
            all -= last;
        last = v[i].kind == LW_STEP_BESIDE ? 0 : time_of(x, m, &v[i]);
        all = lw_add_sat(all, last);
    }
    return all;
}

static lw_ps of_steps(const struct lw_part *d, const struct exchange *x, const struct lw_steps *of,
                      int32_t module)
{
    return of ? exchanged(x, &d->w->modules[module], of[module].v, of[module].n) : 0;
}

/* --- modules --- */

static bool repeats(const struct lw_strategy *s, const struct lw_module *m)
{
    return s->recompute_layers == 0 && lw_recomputed_ps(s, m) > 0;
}

static void take_times(const struct lw_part *d, const struct exchange *x, int32_t module,
                       struct lw_outline_sum *out)
{
    const struct lw_module *m = &d->w->modules[module];
    lw_ps forward = of_steps(d, x, d->work.forward_steps, module), again = 0;

    out->forward = m->forward_ps + forward;
    if (repeats(d->s, m))
        again = lw_recomputed_ps(d->s, m) + (d->s->recompute == LW_RECOMPUTE_FULL
                                                 ? of_steps(d, x, d->work.again_steps, module)
                                                 : 0);
    out->again = again;
    out->backward = lw_module_backward(m) + again;
    out->input = m->backward_input_ps + of_steps(d, x, d->work.input_steps, module) + again;
    out->weight = m->backward_weight_ps + of_steps(d, x, d->work.weight_steps, module);
}

/* Steps of a whole backward lie at its stretches. */
static void add_backwards(const struct lw_part *d, const struct exchange *x,
                          struct lw_outline_sum *of)
{
    const struct lw_backward *back = &d->back;

    for (int32_t i = 0, end; d->work.first_step && i < back->n_stretches; i = end) {
        for (end = i + 1; end < back->n_stretches &&
                          back->stretches[end].module == back->stretches[i].module;)
            end++;
        const int32_t *first = d->work.first_step;
        int32_t module = back->stretches[i].module;
        of[module].backward += exchanged(x, &d->w->modules[module],
                                         d->work.steps + first[2 * i],
                                         first[2 * end] - first[2 * i]);
    }
}

/* As lower_part.c has it. With --recompute-layers a part keeps more of some; but of a group of
 * several it keeps the input of the first alone, so that a module of it may keep nothing. Of
 * offloaded activations none need be on the device. */
static void take_kept(const struct lw_workload *w, const struct lw_strategy *s, int32_t module,
                      struct lw_outline_sum *out)
{
    const struct lw_module *m = &w->modules[module];
    const int64_t *kept = m->kept_bytes;
    int64_t early = lw_workload_early_bytes(w, s, module);
    bool grouped = s->recompute == LW_RECOMPUTE_FULL && s->recompute_layers > 1 &&
                   s->recompute_method == LW_RECOMPUTE_UNIFORM;

    out->kept = grouped ? 0 : kept[s->recompute];
    if (repeats(s, m) && kept[LW_RECOMPUTE_NONE] > out->kept)
        out->regained = kept[LW_RECOMPUTE_NONE] - out->kept;
    if (s->offload == LW_OFFLOAD_ACTIVATIONS)
        out->kept = out->regained = 0;
    int64_t all = out->kept + out->regained;
    out->kept_early = early < all ? early : all;
}

static void take_params(const struct lw_workload *w, struct lw_outline_sum *of)
{
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        struct lw_outline_sum *x = &of[p->module];
        if (p->tied >= 0)
            continue;
        x->all = lw_add_sat(x->all, p->numel);
        x->trained = lw_add_sat(x->trained, p->trainable ? p->numel : 0);
        (p->trainable ? x->numel : x->frozen)[p->dtype] += p->numel;
        if (p->trainable && lw_param_is_matrix(p))
            x->matrices[p->dtype] += p->numel;
        if (lw_param_has_gradient(p) && !p->ignored && !p->sparse && !p->expert)
            x->reduced[p->dtype] += p->numel;
    }
}

static struct lw_outline_sum plus(const struct lw_outline_sum *a, const struct lw_outline_sum *b,
                                  int sign)
{
    struct lw_outline_sum x = *a;

    x.forward += sign * b->forward;
    x.backward += sign * b->backward;
    x.input += sign * b->input;
    x.weight += sign * b->weight;
    x.again += sign * b->again;
    x.kept += sign * b->kept;
    x.regained += sign * b->regained;
    x.kept_early += sign * b->kept_early;
    x.trained += sign * b->trained;
    x.all += sign * b->all;
    for (int t = 0; t < LW_N_DTYPES; t++) {
        x.numel[t] += sign * b->numel[t];
        x.frozen[t] += sign * b->frozen[t];
        x.matrices[t] += sign * b->matrices[t];
        x.reduced[t] += sign * b->reduced[t];
    }
    return x;
}

/* Activations count where every module tells them. */
static bool tells_kept(const struct lw_workload *w)
{
    for (int32_t m = 0; m < w->n_modules; m++)
        for (int r = 0; r < LW_N_RECOMPUTE; r++)
            if (w->modules[m].kept_bytes[r] < 0)
                return false;
    return true;
}

static enum lw_status sum_up(struct lw_part *d, const struct exchange *x, struct lw_outline *out,
                             struct lw_err *err)
{
    const struct lw_workload *w = d->w;
    struct lw_outline_sum *of;
    bool tells = tells_kept(w);

    LW_TAKE(&out->arena, out->sum, w->n_modules + 1, err);
    LW_TAKE(&d->scratch, of, w->n_modules, err);
    for (int32_t m = 0; m < w->n_modules; m++) {
        take_times(d, x, m, &of[m]);
        if (tells)
            take_kept(w, d->s, m, &of[m]);
    }
    add_backwards(d, x, of);
    take_params(w, of);
    for (int32_t m = 0; m < w->n_modules; m++)
        out->sum[m + 1] = plus(&out->sum[m], &of[m], 1);
    return LW_OK;
}

static enum lw_status make(struct lw_lowering *l, struct lw_part *d, const struct lw_cost *cost,
                           bool tokens, struct lw_outline *out, struct lw_err *err)
{
    LW_TRY(lw_lower_axes(l, err));
    LW_TRY(lw_lower_tensor(l, err));
    d->w = l->w;
    LW_TRY(lw_backward_cut(l->w, &d->back, err));
    LW_TRY(lw_part_make_steps(d, err));
    struct exchange x = exchange_of(l, cost);
    x.knows_tokens = x.knows_tokens && tokens;
    return sum_up(d, &x, out, err);
}

enum lw_status lw_outline_make(const struct lw_workload *w, const struct lw_strategy *s,
                               bool by_halves, bool tokens, const struct lw_cost *cost,
                               struct lw_outline *out, struct lw_err *err)
{
    struct lw_outline o = {.by_halves = by_halves, .n_modules = w->n_modules};
    struct lw_lowering *l = lw_arena_alloc(&o.arena, 1, sizeof *l);
    struct lw_part d = {.s = s, .cost = cost, .work.splits = by_halves};

    if (!l)
        return lw_fail_nomem(err);
    *l = (struct lw_lowering){.given = w, .w = w, .s = s};
    o.held = l;
    enum lw_status st = make(l, &d, cost, tokens, &o, err);
    lw_part_free(&d);
    if (st == LW_OK) {
        o.n_params = l->w->n_params;
        o.params = l->w->params;
        o.modules = l->w->modules;
        o.all_elements = lw_workload_numel(w, true);
        o.optimizer_ps = l->w->optimizer_ps;
        o.gradients_ps = l->w->gradients_ps;
        o.optimizer = w->optimizer;
        o.state_bytes = w->state_bytes;
        o.host_bytes = w->step_traffic.host;
        o.dims = w->dims;
        o.dims.experts = lw_workload_has_experts(w);
        o.dims.n_experts = lw_workload_routing(w, 0).experts;
    }
    LW_GIVE(st, out, o, lw_outline_free(&o));
}

enum lw_status lw_outline_check(const struct lw_workload *w, const struct lw_strategy *s,
                                struct lw_err *err)
{
    const struct lw_lowering l = {.given = w, .w = w, .s = s, .tp = (int32_t)s->tp,
                                  .ep = (int32_t)s->ep};

    return lw_lower_check_experts(&l, err);
}

void lw_outline_free(struct lw_outline *o)
{
    struct lw_lowering *l = o->held;

    if (l)
        lw_arena_free(&l->arena);
    lw_arena_free(&o->arena);
    *o = (struct lw_outline){0};
}

struct lw_outline_sum lw_outline_of(const struct lw_outline *o, int32_t from, int32_t to)
{
    return plus(&o->sum[to], &o->sum[from], -1);
}

/* --- parts --- */

enum lw_status lw_outline_cut(const struct lw_outline *o, const struct lw_strategy *s,
                              const struct lw_grid *g, const struct lw_cost *cost, int32_t *first,
                              struct lw_err *err)
{
    const struct lw_lowering *held = o->held;
    struct lw_lowering l = {.given = held->given, .w = held->w, .s = s, .grid = *g,
                            .n_parts = g->n_stages, .mirrored = g->layout == LW_LAYOUT_BIDIR};
    struct lw_range *ranges;

    first[g->n_stages] = o->n_modules;
    first[0] = 0;
    if (g->n_stages == 1)
        return LW_OK;
    enum lw_status st = lw_lower_axes(&l, err);
    ranges = lw_arena_alloc(&l.arena, g->n_stages, sizeof *ranges);
    if (st == LW_OK && !ranges)
        st = lw_fail_nomem(err);
    if (st == LW_OK)
        st = lw_lower_partition(&l, cost, ranges, err);
    for (int32_t q = 0; st == LW_OK && q < g->n_stages; q++)
        first[q] = ranges[q].begin;
    lw_arena_free(&l.arena);
    return st;
}

/* --- the optimizer, and fixed bytes --- */

/* At least as many ranks as share any parameter: experts that lie elsewhere than --zero-group says
 * may have more. */
static int32_t members_of(const struct lw_outline *o, const struct lw_strategy *s, int32_t n_copies)
{
    bool groups = s->zero_group > 0 && !o->dims.experts;

    return s->zero == 0 ? 1 : groups ? (int32_t)s->zero_group : n_copies;
}

static lw_ps in_proportion(lw_ps time, int64_t elements, int64_t all)
{
    return all == 0 ? 0 : (lw_ps)((__int128)time * elements / all);
}

int64_t lw_outline_updated(const struct lw_outline *o, const struct lw_strategy *s,
                           const struct lw_outline_sum *x, int32_t n_copies)
{
    return x->trained / members_of(o, s, n_copies);
}

lw_ps lw_outline_optimizer(const struct lw_outline *o, const struct lw_strategy *s,
                           const struct lw_outline_sum *x, int32_t n_copies)
{
    int64_t updated = lw_outline_updated(o, s, x, n_copies);
    int64_t held = s->zero >= 2 ? updated : x->trained;

    return in_proportion(o->optimizer_ps, updated, o->all_elements) +
           in_proportion(o->gradients_ps, held, o->all_elements);
}

void lw_outline_bytes(const struct lw_outline *o, const struct lw_strategy *s,
                      const struct lw_outline_sum *x, int32_t n_copies, int64_t bytes[LW_N_MEM])
{
    struct lw_memory_rule rule = {.optimizer = o->optimizer, .zero = (int)s->zero,
                                  .own_states = lw_own_states(o->state_bytes, s)};
    int32_t n_members = members_of(o, s, n_copies);

    memset(bytes, 0, LW_N_MEM * sizeof *bytes);
    for (int t = 0; t < LW_N_DTYPES; t++) {
        const int64_t of[2] = {x->numel[t] - x->matrices[t], x->matrices[t]};
        rule.grad = lw_strategy_grad_dtype(s, (enum lw_dtype)t);
        for (int k = 0; k < 2; k++) {
            rule.matrix = k == 1;
            lw_memory_add(&rule, (enum lw_dtype)t, of[k], of[k] / n_members, bytes);
        }
        if (s->zero < 3)
            bytes[LW_MEM_PARAMS] += x->frozen[t] * lw_dtype_size((enum lw_dtype)t);
    }
    if (s->offload == LW_OFFLOAD_OPTIMIZER || s->offload == LW_OFFLOAD_UPDATE)
        bytes[LW_MEM_OPTIMIZER] = 0;
    if (s->offload == LW_OFFLOAD_UPDATE && s->zero >= 2)
        bytes[LW_MEM_GRADS] = 0;
}
