/* A strategy's modules cut into parts, with the times and collectives of each, for the bounds of
 * its step and memory. What it shares with others is not changed; what is cut is freed at the end.
 */
#include "analysis/tune_bound/tune_cut.h"

#include <string.h>

#include "analysis/tune_bound/tune_bound.h"
#include "analysis/tune_bound/tune_rates.h"
#include "shared/numbers/checked.h"
#include "shared/plan/op_bound.h"
#include "sim/timing/work_time.h"

static int64_t reduced_bytes(const struct lw_strategy *s, const struct lw_outline_sum *x,
                             bool weights)
{
    int64_t bytes = 0;

    for (int t = 0; t < LW_N_DTYPES; t++) {
        enum lw_dtype own = (enum lw_dtype)t, grad = lw_strategy_grad_dtype(s, own);
        enum lw_dtype wire = weights ? own : lw_strategy_wire_dtype(s, grad);
        bytes += x->reduced[t] * lw_dtype_size(wire);
    }
    return bytes;
}

struct cut {
    struct lw_arena arena;
    struct lw_tune_parts parts;
    int32_t *first; /* modules of parts */
    lw_ps *reduce, *after, *gather, *data;
};

static void put_after(const struct lw_tune_order *o, const struct lw_outline_sum *part,
                      struct cut *out)
{
    for (int32_t i = 0; i < o->first[o->grid.n_ranks]; i++) {
        const struct lw_tune_counts *n = &o->after[i];
        const struct lw_outline_sum *x = &part[o->held[i]];
        out->after[i] = n->forward * x->forward + n->backward * x->backward + n->input * x->input +
                        n->weight * x->weight;
    }
}

/* ZeRO-3 that gathers each module's weights for each forward and again for each backward. The last
 * module of a part stays gathered after its forward, for whatever comes next. Two parts of a rank
 * that share a module's weights (a V of stages) are left out. */
static bool gathers_twice(const struct lw_tune_order *o, const struct lw_strategy *s)
{
    return lw_tune_units_are_modules(s) && s->reshard && o->grid.layout == LW_LAYOUT_LOOP;
}

/* The gathers of a part, `last` of them of its last module: a unit is one module's. */
static lw_ps gathers_of(const struct lw_tune_group *reach, const struct lw_strategy *s,
                        const struct lw_outline *o, int32_t from, int32_t to, int32_t last)
{
    lw_ps sum = 0;

    for (int32_t m = from; m < to; m++) {
        const struct lw_outline_sum x = lw_outline_of(o, m, m + 1);
        int64_t bytes = reduced_bytes(s, &x, true);
        int64_t all = lw_mul_sat(bytes, m + 1 == to ? last : 2 * s->micro_batches);
        sum = lw_add_sat(sum, lw_tune_least_time_of(&reach->gather, all, bytes));
    }
    return sum;
}

/* Of rank r in a step, one after the other: gathers of weights for what it computes, and what is
 * reduced, in a pipeline once, else after each micro-batch where gradients are not kept. */
static lw_ps data_of(const struct lw_tune_order *o, const struct lw_strategy *s,
                     const struct lw_tune_group *reach, const struct lw_outline *outline,
                     int32_t r, const struct cut *k)
{
    bool each = s->pp == 1 && s->zero >= 2 && s->no_sync == 0;
    lw_ps sum = 0;

    for (int32_t i = o->first[r]; i < o->first[r + 1]; i++) {
        const int32_t *first = &k->first[o->held[i]];
        int32_t last = s->pp > 1 ? o->gathers[i] : (int32_t)s->micro_batches;
        sum = lw_add_sat(sum, lw_mul_sat(k->reduce[i], each ? s->micro_batches : 1));
        if (gathers_twice(o, s))
            sum = lw_add_sat(sum, gathers_of(reach, s, outline, first[0], first[1], last));
    }
    return sum;
}

/* The larger of what all bytes take in pieces of any size, and of what they take in buckets. */
static void put_reduce(const struct lw_tune_order *o, const struct lw_strategy *s,
                       const struct lw_tune_group *reach, const struct lw_outline_sum *part,
                       const struct lw_tune_pieces *pieces, struct cut *out)
{
    const struct lw_tune_rates *rates = s->zero > 0 ? &reach->scatter : &reach->sum;

    for (int32_t i = 0; i < o->first[o->grid.n_ranks]; i++) {
        int32_t q = o->held[i];
        lw_ps any = lw_tune_least_time(rates, reduced_bytes(s, &part[q], false));
        out->reduce[i] = pieces && pieces[q].reduce > any ? pieces[q].reduce : any;
    }
}

/* The weights of a rank's parts, all of them once, after the update or ahead of it. */
static lw_ps gather_of(const struct lw_tune_order *o, const struct lw_strategy *s,
                       const struct lw_tune_group *reach, const struct lw_outline_sum *part,
                       const struct lw_tune_pieces *pieces, int32_t r)
{
    int64_t weights = 0;
    lw_ps cut = 0;

    for (int32_t i = o->first[r]; i < o->first[r + 1]; i++) {
        weights += reduced_bytes(s, &part[o->held[i]], true);
        cut = lw_add_sat(cut, pieces ? pieces[o->held[i]].gather : 0);
    }
    lw_ps any = lw_tune_least_time(&reach->gather, weights);
    return cut > any ? cut : any;
}

/* reach: NULL = its collectives count as nothing. pieces: [n_parts]; NULL = of any size. */
static enum lw_status put_data(const struct lw_tune_order *o, const struct lw_strategy *s,
                               const struct lw_tune_group *reach, const struct lw_outline *outline,
                               const struct lw_outline_sum *part,
                               const struct lw_tune_pieces *pieces, struct cut *out,
                               struct lw_err *err)
{
    bool gathers = (s->zero == 1 || s->zero == 2) && s->broadcast_dtype == LW_F32;

    LW_TAKE(&out->arena, out->reduce, o->first[o->grid.n_ranks] + 1, err);
    LW_TAKE(&out->arena, out->after, o->first[o->grid.n_ranks] + 1, err);
    LW_TAKE(&out->arena, out->gather, o->grid.n_ranks, err);
    LW_TAKE(&out->arena, out->data, o->grid.n_ranks, err);
    if (!reach)
        return LW_OK;
    put_after(o, part, out);
    put_reduce(o, s, reach, part, pieces, out);
    for (int32_t r = 0; r < o->grid.n_ranks; r++) {
        lw_ps gather = gathers ? gather_of(o, s, reach, part, pieces, r) : 0;
        out->data[r] = data_of(o, s, reach, outline, r, out);
        if (s->overlap_param_gather)
            out->data[r] = lw_add_sat(out->data[r], gather);
        else
            out->gather[r] = gather;
    }
    return LW_OK;
}

/* The last module that is repeated: those after it have given back what they keep. -1: none is. */
static int32_t repeated_first(const struct lw_outline *o, int32_t from, int32_t to)
{
    for (int32_t m = to - 1; m >= from; m--)
        if (o->sum[m + 1].regained > o->sum[m].regained)
            return m;
    return -1;
}

/* What that adds to what is still kept. */
static int64_t repeated_bytes(const struct lw_outline *o, int32_t m, int32_t to)
{
    const struct lw_outline_sum *before = o->sum; /* of each module */

    return m < 0 ? 0
                 : before[m + 1].regained - before[m].regained -
                       (before[to].kept - before[m + 1].kept);
}

/* A unit of ZeRO-3 is there while its module computes. Without --reshard all of a part are there
 * when a forward of it ends. */
static enum lw_status put_units(const struct lw_tune_shared *of, const struct lw_strategy *s,
                                struct cut *k, struct lw_err *err)
{
    const struct lw_outline *x = of->outline;
    const struct lw_grid *g = &of->order->grid;
    int64_t *unit, *again;

    if (!lw_tune_units_are_modules(s) || s->dp * s->cp < 2 || s->zero_group > 0 ||
        g->layout != LW_LAYOUT_LOOP)
        return LW_OK;
    LW_TAKE(&k->arena, unit, g->n_stages, err);
    LW_TAKE(&k->arena, again, g->n_stages, err);
    for (int32_t q = 0; q < g->n_stages; q++) {
        int32_t to = k->first[q + 1], m = repeated_first(x, k->first[q], to);
        const struct lw_outline_sum there = lw_outline_of(x, s->reshard ? to - 1 : k->first[q], to);
        const struct lw_outline_sum then = lw_outline_of(x, m < 0 ? to - 1 : m, m < 0 ? to : m + 1);
        unit[q] = reduced_bytes(s, &there, true);
        again[q] = reduced_bytes(s, &then, true);
    }
    k->parts.unit = unit;
    k->parts.unit_again = again;
    return LW_OK;
}

static enum lw_status divide(const struct lw_tune_shared *of,
                             const struct lw_strategy *s, int32_t *first, struct lw_err *err)
{
    const struct lw_tune_division *d = of->division;

    if (!d)
        return lw_outline_cut(of->outline, s, &of->order->grid, of->cost, first, err);
    if (d->why.code != LW_OK)
        *err = d->why;
    else
        memcpy(first, d->first, ((size_t)of->order->grid.n_stages + 1) * sizeof *first);
    return d->why.code;
}

/* Of a unit one action runs beside the all-to-alls of the other. */
static bool mixes_units(const struct lw_strategy *s, const struct lw_tune_order *o)
{
    return o->pairs && lw_strategy_overlaps_experts(s, NULL);
}

/* Of a rank that has `x`. What the host updates crosses its link as gradients, and comes back as
 * weights. */
static lw_ps update_of(const struct lw_tune_shared *of, const struct lw_strategy *s,
                       const struct lw_outline_sum *x, int32_t n_copies)
{
    const struct lw_outline *o = of->outline;

    if (s->offload != LW_OFFLOAD_UPDATE || o->n_params == 0)
        return lw_outline_optimizer(o, s, x, n_copies);
    enum lw_dtype weight = (enum lw_dtype)o->params[0].dtype;
    int64_t copied = lw_dtype_size(weight) + lw_dtype_size(lw_strategy_grad_dtype(s, weight));
    return sim_host_update_ps(of->cluster, s, lw_outline_updated(o, s, x, n_copies),
                              lw_host_update_bytes(lw_own_states(o->state_bytes, s), o->host_bytes),
                              copied);
}

static enum lw_status cut_parts(const struct lw_tune_shared *of,
                                const struct lw_strategy *s, bool fine, struct cut *out,
                                struct lw_err *err)
{
    const struct lw_outline *x = of->outline;
    const struct lw_tune_order *o = of->order;
    const struct lw_tune_group *reach = of->reach;
    struct lw_tune_pieces *pieces = NULL;
    struct lw_outline_sum *part;
    int64_t *again;
    lw_ps *optimizer, *ahead;

    LW_TAKE(&out->arena, again, o->grid.n_stages, err);
    LW_TAKE(&out->arena, ahead, o->grid.n_stages, err);
    LW_TAKE(&out->arena, out->first, o->grid.n_stages + 1, err);
    LW_TAKE(&out->arena, part, o->grid.n_stages, err);
    LW_TAKE(&out->arena, optimizer, o->grid.n_ranks, err);
    LW_TRY(divide(of, s, out->first, err));
    for (int32_t q = 0; q < o->grid.n_stages; q++) {
        part[q] = lw_outline_of(x, out->first[q], out->first[q + 1]);
        again[q] = repeated_bytes(x, repeated_first(x, out->first[q], out->first[q + 1]),
                                  out->first[q + 1]);
        const struct lw_outline_sum *end = &x->sum[out->first[q + 1]];
        ahead[q] = end->again - end[-1].again;
    }
    bool mirrored = o->grid.layout == LW_LAYOUT_BIDIR;
    for (int32_t r = 0; r < o->grid.n_ranks; r++) {
        struct lw_outline_sum sum = {0};
        for (int32_t i = o->first[r]; i < o->first[r + 1]; i++)
            sum.trained += part[o->held[i]].trained;
        optimizer[r] = update_of(of, s, &sum, lw_tune_copies(x, s, mirrored));
    }
    if (fine && reach && !mirrored) {
        LW_TAKE(&out->arena, pieces, o->grid.n_stages, err);
        LW_TRY(lw_tune_pieces_of(x, s, reach, out->first, o->grid.n_stages, pieces,
                                 err));
    }
    LW_TRY(put_data(o, s, mirrored ? NULL : reach, x, part, pieces, out, err));
    out->parts = (struct lw_tune_parts){
        .n_parts = o->grid.n_stages, .n_ranks = o->grid.n_ranks, .part = part, .first = o->first,
        .held = o->held, .optimizer = optimizer, .ahead = ahead, .reduce = out->reduce,
        .after = out->after, .gather = out->gather, .before = o->before,
        .first_back = o->first_back, .halves = o->halves, .data = out->data, .again = again,
        .by_halves = o->by_halves, .mirrored = mirrored, .mixed = mixes_units(s, o),
        .n_micro_batches = s->micro_batches};
    return fine ? put_units(of, s, out, err) : LW_OK;
}

static enum lw_status stages_of(const struct lw_outline *x, const struct lw_tune_order *o,
                                struct cut *k, int32_t **out, struct lw_err *err)
{
    LW_TAKE(&k->arena, *out, x->n_modules, err);
    for (int32_t q = 0; q < o->grid.n_stages; q++)
        for (int32_t m = k->first[q]; m < k->first[q + 1]; m++)
            (*out)[m] = lw_grid_rank_of(&o->grid, q, 0);
    return LW_OK;
}

/* Between two nodes or inside one, whichever is faster. */
static lw_ps message_time(const struct lw_cost *cost, enum lw_dtype dtype, int64_t bytes)
{
    struct lw_cost_query q = {.op = LW_OP_SEND, .dtype = dtype, .bytes = bytes, .n_ranks = 2,
                              .n_nodes = 1, .fewest = 2};
    lw_ps inside = cost->time(cost->ctx, &q);

    q.n_nodes = 2;
    q.fewest = 1;
    lw_ps between = cost->time(cost->ctx, &q), least = between < inside ? between : inside;
    return bytes > 0 && least > 0 ? least : 0;
}

/* Of values from each part to the next one. */
static enum lw_status messages_of(const struct lw_tune_shared *of, const struct lw_strategy *s,
                                  struct cut *k, lw_ps **out, struct lw_err *err)
{
    const struct lw_outline *x = of->outline;
    const struct lw_grid *g = &of->order->grid;
    bool scattered = s->scatter_gather && !s->sequence_parallel && s->tp > 1;
    enum lw_dtype dtype = x->n_params > 0 ? x->params[0].dtype : LW_F32;

    LW_TAKE(&k->arena, *out, g->n_stages, err);
    for (int32_t q = 0; q + 1 < g->n_stages; q++) {
        int64_t whole = x->modules[k->first[q + 1] - 1].output_bytes;
        int64_t bytes = scattered ? (whole + s->tp - 1) / s->tp : whole;
        if (lw_grid_rank_of(g, q, 0) != lw_grid_rank_of(g, q + 1, 0))
            (*out)[q] = message_time(of->cost, dtype, bytes);
    }
    return LW_OK;
}

/* Of actions that run one after the other, each in the order of its schedule. */
static bool has_chain(const struct lw_tune_order *o, const struct lw_strategy *s)
{
    return o->chain.n > 0 && !s->expert_overlap && !mixes_units(s, o) &&
           !lw_schedule_combines_calls(s->schedule);
}

/* The longest chain, where there is one; else what all actions take. */
static enum lw_status better_bound(const struct lw_tune_shared *of, const struct lw_strategy *s,
                                   struct cut *k, lw_ps *bound, struct lw_err *err)
{
    lw_ps *message;

    if (!has_chain(of->order, s)) {
        *bound = lw_tune_step_bound(&k->parts);
        return LW_OK;
    }
    LW_TRY(messages_of(of, s, k, &message, err));
    return lw_tune_chain_bound(&of->order->chain, &k->parts, message, bound, err);
}

static enum lw_status memory_bound(const struct lw_tune_shared *of, const struct lw_strategy *s,
                                   struct cut *k, int64_t *needed, struct lw_err *err)
{
    int32_t *stage_of;

    LW_TRY(stages_of(of->outline, of->order, k, &stage_of, err));
    return lw_tune_memory_bound(&k->parts, &of->order->grid, of->outline, s, of->framework,
                                &of->cluster->device, stage_of, needed, err);
}

enum lw_status lw_tune_bounds(const struct lw_tune_shared *of, const struct lw_strategy *s,
                              bool memory, lw_ps *bound, int64_t *needed, struct lw_err *err)
{
    struct cut k = {{0}};
    enum lw_status st = cut_parts(of, s, memory, &k, err);

    *needed = -1;
    if (st == LW_OK && memory)
        st = better_bound(of, s, &k, bound, err);
    else if (st == LW_OK)
        *bound = lw_tune_step_bound(&k.parts);
    if (st == LW_OK && memory)
        st = memory_bound(of, s, &k, needed, err);
    lw_arena_free(&k.arena);
    return st;
}
