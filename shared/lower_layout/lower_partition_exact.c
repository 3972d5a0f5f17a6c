/* The inputs of the exact partition from a plan: work, transfers, memory, pins
 * (docs/design/partition.md).
 *
 * Transfers (--weigh-transfers): the activation after a module and its gradient coming back, each
 * by the cluster's cost of a message between neighbours, which both stages wait for; over two nodes
 * where any two neighbours are on different ones. Memory (--stage-memory): what a rank holds when
 * nothing runs, what recomputation brings back of one module (the largest of the model, wherever it
 * is), and the activations of as many micro-batches as the schedule keeps on it at once. What is
 * not known before the cut (shares of ZeRO-1, buffers, copies of tied parameters) is estimated
 * before it and checked after it, so a plan never goes beyond the limit. Not modelled: transfers
 * hidden after compute. Refused: a limit for several parts on one rank, and for ZeRO-2 and 3, whose
 * units come and go. */
#include <inttypes.h>
#include <string.h>

#include "shared/timeline/param_memory.h"
#include "shared/lower_layout/lowering.h"

/* --- transfers ------------------------------------------------------------------------------- */

static int32_t nodes_of_neighbours(const struct lw_lowering *l, const struct lw_cost *cost)
{
    int32_t per_node = cost->ranks_per_node;

    for (int32_t s = 0; per_node > 0 && s + 1 < l->pp; s++)
        for (int32_t d = 0; d < l->dp; d++)
            if (lw_rank_at(l, d, s, 0) / per_node != lw_rank_at(l, d, s + 1, 0) / per_node)
                return 2;
    return 1;
}

static enum lw_status weigh_transfers(const struct lw_lowering *l, const struct lw_cost *cost,
                                      int64_t *transfer, struct lw_err *err)
{
    const struct lw_workload *w = l->w;

    if (!cost || !cost->time)
        return lw_fail(err, LW_EINVAL, "--weigh-transfers on asks the cluster what messages take: "
                                       "name one (-c)");
    struct lw_cost_query q = {.op = LW_OP_SEND, .n_ranks = 2,
                              .dtype = w->n_params > 0 ? lw_param_at(w, 0).dtype : LW_F32,
                              .n_nodes = nodes_of_neighbours(l, cost)};
    for (int32_t m = 0; m + 1 < w->n_modules; m++) {
        q.bytes = lw_module_at(w, m)->output_bytes;
        if (q.bytes < 0)
            return lw_fail(err, LW_EINVAL, "--weigh-transfers on: workload '%s' does not say how "
                                           "many bytes module %d '%s' passes on (output_bytes)",
                           w->name, m, lw_module_name(w, m));
        lw_ps one = cost->time(cost->ctx, &q);
        if (one < 0)
            return lw_fail(err, LW_ENOTSUP,
                           "--weigh-transfers on: the cluster cannot tell what a "
                           "message of %" PRId64 " bytes between 2 ranks on %d "
                           "nodes takes (see 'lapwing cost'); calibrate it or name "
                           "another (-c)",
                           q.bytes, q.n_nodes);
        transfer[m] = one > INT64_MAX / 8 ? INT64_MAX / 4 : 2 * one;
    }
    return LW_OK;
}

/* --- memory ---------------------------------------------------------------------------------- */

/* The most micro-batches between forward and the end of the backward that each rank holds. */
static void count_in_flight(const struct lw_grid *g, int32_t *in_flight)
{
    for (int32_t r = 0; r < g->n_ranks; r++) {
        int32_t held = 0;
        in_flight[r] = 0;
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++) {
            enum lw_op_kind kind = g->actions[i].kind;
            held += kind == LW_OP_FORWARD;
            held -= kind == LW_OP_BACKWARD || kind == LW_OP_BACKWARD_WEIGHT;
            in_flight[r] = held > in_flight[r] ? held : in_flight[r];
        }
    }
}

static int64_t sum_of(const int64_t bytes[LW_N_MEM])
{
    int64_t sum = 0;

    for (int k = 0; k < LW_N_MEM; k++)
        sum += bytes[k];
    return sum;
}

/* Parameter, gradient, bucket and state; a copy of a tied one counts where another module has
 * it. */
static int64_t static_bytes(const struct lw_lowering *l, const struct lw_param *p)
{
    const struct lw_workload *w = l->w;
    int64_t bytes[LW_N_MEM] = {0}, share = (p->numel + l->dp - 1) / l->dp;
    struct lw_memory_rule rule = {.grad = lw_strategy_grad_dtype(l->s, p->dtype),
                                  .optimizer = w->optimizer, .zero = (int)l->s->zero,
                                  .matrix = lw_param_is_matrix(p),
                                  .own_states = lw_own_states(w->state_bytes, l->s)};

    if (p->tied >= 0 && lw_param_at(w, p->tied).module == p->module)
        return 0;
    if (!p->trainable)
        return p->numel * lw_dtype_size(p->dtype);
    lw_memory_add(&rule, p->dtype, p->numel, share, bytes);
    if (l->dp > 1 && p->used && !p->ignored && !lw_part_has_units(l->s))
        bytes[LW_MEM_BUCKETS] += p->numel * lw_dtype_size(rule.grad);
    return sum_of(bytes);
}

/* What recomputation brings back of one module at a time, at most. */
static int64_t regained(const struct lw_lowering *l, const struct lw_range *r)
{
    int64_t most = 0;

    for (int32_t m = r->begin; m < r->end; m++) {
        const int64_t *kept = lw_module_at(l->w, m)->kept_bytes;
        int64_t more = kept[LW_RECOMPUTE_NONE] - kept[l->s->recompute];
        most = more > most ? more : most;
    }
    return most;
}

static enum lw_status check_tells(const struct lw_lowering *l, struct lw_err *err)
{
    const struct lw_workload *w = l->w;

    if (l->n_parts != l->pp || l->mirrored)
        return lw_fail(err, LW_ENOTSUP, "--stage-memory limits stages of one part; --schedule %s "
                                        "puts %d parts on %d ranks",
                       lw_schedule_name(l->s->schedule), l->n_parts, l->pp);
    if (l->s->zero > 1)
        return lw_fail(err, LW_ENOTSUP,
                       "--stage-memory with --zero %lld: what stages hold of units "
                       "that come and go is not weighed",
                       (long long)l->s->zero);
    for (int32_t m = 0; m < w->n_modules; m++)
        if (lw_module_at(w, m)->kept_bytes[l->s->recompute] < 0)
            return lw_fail(err, LW_EINVAL, "--stage-memory: workload '%s' does not say how many "
                                           "bytes module %d '%s' keeps for its backward "
                                           "(kept_bytes)", w->name, m, lw_module_name(w, m));
    return LW_OK;
}

static enum lw_status weigh_memory(const struct lw_lowering *l, struct lw_arena *room,
                                   struct lw_stage_problem *p, struct lw_err *err)
{
    const struct lw_workload *w = l->w;
    int64_t *fixed = lw_arena_alloc(room, w->n_modules, sizeof *fixed);
    int64_t *kept = lw_arena_alloc(room, w->n_modules, sizeof *kept);
    int32_t *in_flight = lw_arena_alloc(room, l->pp, sizeof *in_flight);
    struct lw_range all = {0, w->n_modules};

    if (!fixed || !kept || !in_flight)
        return lw_fail_nomem(err);
    LW_TRY(check_tells(l, err));
    for (int32_t i = 0; i < w->n_params; i++)
        fixed[lw_param_at(w, i).module] += static_bytes(l, LW_PARAM(w, i));
    for (int32_t m = 0; m < w->n_modules; m++)
        kept[m] = lw_module_at(w, m)->kept_bytes[l->s->recompute];
    count_in_flight(&l->grid, in_flight);
    p->limit_bytes = l->s->stage_bytes;
    p->beside_bytes = regained(l, &all);
    p->static_bytes = fixed;
    p->kept_bytes = kept;
    p->in_flight = in_flight;
    return LW_OK;
}

enum lw_status lw_lower_check_memory(struct lw_lowering *l, struct lw_err *err)
{
    struct lw_arena room = {0};
    enum lw_status s = LW_OK;

    if (l->s->stage_bytes < 0 || l->pp == 1)
        return LW_OK;
    int32_t *in_flight;
    LW_TAKE(&room, in_flight, l->pp, err);
    count_in_flight(&l->grid, in_flight);
    for (int32_t q = 0; s == LW_OK && q < l->n_parts; q++) {
        struct lw_part *d = &l->parts[q];
        struct lw_range r = {d->first_module, d->first_module + d->w->n_modules};
        int64_t bytes[LW_N_MEM] = {0}, kept = 0, less = 0;
        s = lw_part_memory(d, bytes, &less, err);
        for (int32_t m = r.begin; m < r.end; m++)
            kept += lw_module_at(l->w, m)->kept_bytes[l->s->recompute];
        int64_t held = sum_of(bytes) + kept * in_flight[q] + regained(l, &r);
        if (s == LW_OK && held > l->s->stage_bytes)
            s = lw_fail(err, LW_EINVAL,
                        "--stage-memory %" PRId64 ": stage %d with modules %d to %d "
                        "holds %" PRId64 " bytes (buffers, shares of the optimizer "
                        "and copies of tied parameters are known after the cut)",
                        l->s->stage_bytes, q, r.begin, r.end - 1, held);
    }
    lw_arena_free(&room);
    return s;
}

/* --- all ------------------------------------------------------------------------------------- */

enum lw_status lw_lower_exact(struct lw_lowering *l, const struct lw_cost *cost,
                              const int64_t *work, struct lw_arena *room,
                              struct lw_partitioning *out, struct lw_err *err)
{
    int32_t n = l->w->n_modules;
    struct lw_stage_problem p = {.n_items = n, .n_stages = l->n_parts, .work = work,
                                 .pinned_first = (int32_t)l->s->pin_first,
                                 .pinned_last = (int32_t)l->s->pin_last};

    if (l->s->weigh_transfers) {
        int64_t *transfer;
        LW_TAKE(room, transfer, n, err);
        LW_TRY(weigh_transfers(l, cost, transfer, err));
        p.transfer = transfer;
    }
    if (l->s->stage_bytes >= 0)
        LW_TRY(weigh_memory(l, room, &p, err));
    enum lw_status s = lw_partition_exact(&p, out, &l->slowest_part, err);
    return s == LW_EINVAL ? lw_err_context(err, s, "--partition exact") : s;
}
