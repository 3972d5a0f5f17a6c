/* The plan's tables of a lowering: the model with the stage of each module and parameter, buckets,
 * shards, works; and the memory of a part. A parameter's `tied` is the first at its own stage with
 * the same storage, or, of a copy at another stage, the first of all. */
#include <string.h>

#include "shared/lower_layout/lowering.h"
#include "shared/timeline/param_memory.h"
#include "shared/workload/buffer.h"
#include "shared/workload/product.h"
#include "shared/workload/sparse.h"

static void add_params(struct lw_lowering *l)
{
    const struct lw_workload *w = l->w;

    for (int32_t m = 0; m < w->n_modules; m++)
        lw_builder_module(l->b, lw_lower_stage_of(l, m));
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(w, i);
        int32_t holder = lw_lower_holder(l, i);
        struct lw_plan_param q = {.name = p->name, .numel = p->numel, .dtype = p->dtype,
                                  .stage = lw_lower_stage_of(l, p->module), .module = p->module,
                                  .device = p->device, .tied = holder == i ? p->tied : holder,
                                  .trainable = p->trainable, .sparse = p->sparse,
                                  .used = p->used, .ignored = p->ignored,
                                  .expert = p->expert && l->ep > 1};
        lw_builder_param(l->b, &q);
        bool folded = q.expert && lw_expert_width(l) > 1;
        if (l->tp > 1 && p->tp_split == LW_TP_REPLICATED && !folded)
            lw_builder_whole(l->b, i);
    }
    for (int32_t i = 0; i < w->n_sparse; i++)
        lw_builder_sparse(l->b, &w->sparse[i]);
    for (int32_t i = 0; i < w->n_buffers; i++)
        lw_builder_buffer(l->b, &w->buffers[i]);
}

/* Buckets beside the gradients: none where gradients are views of them, or where they come and
 * go. */
static int64_t set_bytes(const struct lw_part *d, const struct lw_part_set *set)
{
    int64_t bytes = 0;

    if (d->storage != LW_STORED_COPIED)
        return 0;

    for (int32_t b = 0; set->name && b < set->buckets.n_buckets; b++)
        bytes += lw_part_bucket_bytes(d, set, b);
    return bytes;
}

/* Parameters whose shards take equally many bytes for each element. */
struct shard_kind {
    enum lw_dtype dtype;
    bool trainable, matrix, expert;
};

static struct shard_kind kind_of(const struct lw_part *d, const struct lw_shard_run *x)
{
    const struct lw_param *p = LW_PARAM(d->w, x->first.param);

    return (struct shard_kind){p->dtype, p->trainable, p->trainable && lw_param_is_matrix(p),
                               p->expert};
}

static bool same_kind(struct shard_kind a, struct shard_kind b)
{
    return a.dtype == b.dtype && a.trainable == b.trainable && a.matrix == b.matrix &&
           a.expert == b.expert;
}

/* Bytes are at most INT64_MAX, as lw_memory_add counts them. */
static int64_t sum_of(int64_t a, int64_t b)
{
    return b > INT64_MAX - a ? INT64_MAX : a + b;
}

/* What `owned[k]` elements of a kind add to each holder of span k; neighbours mostly have equally
 * many. */
static void add_to_holders(const struct lw_memory_rule *rule, struct shard_kind kind,
                           const int64_t *owned, int32_t n, int64_t (*of_span)[LW_N_MEM])
{
    int64_t added[LW_N_MEM] = {0};

    for (int32_t s = 0; s < n; s++) {
        if (s == 0 || owned[s] != owned[s - 1]) {
            memset(added, 0, sizeof added);
            if (kind.trainable)
                lw_memory_add(rule, kind.dtype, 0, owned[s], added);
            else
                added[LW_MEM_PARAMS] = owned[s] * lw_dtype_size(kind.dtype);
        }
        for (int k = 0; k < LW_N_MEM; k++)
            of_span[s][k] = sum_of(of_span[s][k], added[k]);
    }
}

/* What the shards of one kind add to each holder, of the runs from the i-th on that are not done.
 * owned: [spans + 1]. */
static void add_kind(const struct lw_part *d, struct lw_memory_rule *rule, int32_t i, bool *done,
                     int64_t *owned, int64_t (*of_span)[LW_N_MEM])
{
    const struct shard_kind kind = kind_of(d, &d->shards.runs[i]);
    int32_t n = d->shards.spans.n;

    memset(owned, 0, ((size_t)n + 1) * sizeof *owned);
    for (int32_t k = i; k < d->shards.n_runs; k++) {
        if (done[k] || !same_kind(kind, kind_of(d, &d->shards.runs[k])))
            continue;
        lw_part_run_count(d, &d->shards.runs[k], owned);
        done[k] = true;
    }
    lw_part_runs_sum(d, owned);
    rule->matrix = kind.matrix;
    add_to_holders(rule, kind, owned, n, of_span);
}

static int32_t fullest(int64_t (*of_span)[LW_N_MEM], int32_t n)
{
    int64_t most = 0;
    int32_t which = 0;

    for (int32_t m = 0; m < n; m++) {
        int64_t sum = 0;
        for (int k = 0; k < LW_N_MEM; k++)
            sum += of_span[m][k];
        which = sum > most ? m : which;
        most = sum > most ? sum : most;
    }
    return which;
}

/* What the shards add to the holder that has most of them, and the optimizer's state that the last
 * holder has less. */
static enum lw_status add_owned(const struct lw_part *d, struct lw_memory_rule *rule,
                                int64_t bytes[LW_N_MEM], int64_t *last_spares, struct lw_err *err)
{
    struct lw_arena room = {0};
    int32_t n = d->shards.spans.n;
    int64_t(*of_span)[LW_N_MEM] = lw_arena_alloc(&room, n, sizeof *of_span);
    int64_t *owned = lw_arena_alloc(&room, n + 1L, sizeof *owned);
    bool *done = lw_arena_alloc(&room, d->shards.n_runs + 1L, sizeof *done);
    bool there = of_span && owned && done;

    for (int32_t i = 0; there && i < d->shards.n_runs; i++)
        if (!done[i])
            add_kind(d, rule, i, done, owned, of_span);
    int32_t which = there ? fullest(of_span, n) : 0;
    for (int k = 0; there && k < LW_N_MEM; k++)
        bytes[k] += of_span[which][k];
    if (there)
        *last_spares += of_span[which][LW_MEM_OPTIMIZER] - of_span[n - 1][LW_MEM_OPTIMIZER];
    lw_arena_free(&room);
    return there ? LW_OK : lw_fail_nomem(err);
}

/* Rows of sparse gradients, of all members once they are summed, in place of whole ones. */
static int64_t sparse_bytes(const struct lw_part *d)
{
    int64_t bytes = 0;

    for (int32_t i = 0; i < d->w->n_sparse; i++) {
        const struct lw_sparse *x = &d->w->sparse[i];
        const struct lw_param *p = LW_PARAM(d->w, x->param);
        enum lw_dtype grad = lw_strategy_grad_dtype(d->s, (enum lw_dtype)p->dtype);
        if (p->trainable && p->tied < 0)
            bytes += lw_part_rows(d, x, d->n_members) * lw_sparse_row_bytes(x, grad) -
                     p->numel * lw_dtype_size(grad);
    }
    return bytes;
}

/* Parameters from i on that cost the same. Muon's states follow from names too, which rows have
 * not. */
static int32_t n_alike(const struct lw_workload *w, int32_t i)
{
    int32_t n = 1;

    while (w->optimizer != LW_OPTIMIZER_MUON && i + n < w->n_params &&
           lw_params_are_one_row(w, i, i + n))
        n++;
    return n;
}

enum lw_status lw_part_memory(struct lw_part *d, int64_t bytes[LW_N_MEM], int64_t *last_spares,
                              struct lw_err *err)
{
    const struct lw_workload *w = d->w;
    bool sharded = d->shards.n > 0;
    struct lw_memory_rule rule = {.optimizer = w->optimizer, .zero = sharded ? (int)d->s->zero : 0,
                                  .own_states = lw_own_states(w->state_bytes, d->s)};

    if (sharded && rule.zero >= 2 && !lw_part_drops_gradients(d))
        rule.whole_gradients = true;

    for (int32_t i = 0, n; i < w->n_params; i += n) {
        const struct lw_param *p = LW_PARAM(w, i);
        n = n_alike(w, i);
        if (p->tied >= 0)
            continue;
        int64_t numel = n * p->numel; /* a part of all, which is below 2^59 */
        rule.grad = lw_strategy_grad_dtype(d->s, p->dtype);
        rule.matrix = lw_param_is_matrix(p);
        if (p->trainable)
            lw_memory_add(&rule, p->dtype, numel, 0, bytes);
        else if (!lw_part_shards_frozen(d, p))
            bytes[LW_MEM_PARAMS] += numel * lw_dtype_size(p->dtype);
    }
    for (int32_t i = 0; i < w->n_buffers; i++)
        bytes[LW_MEM_PARAMS] += w->buffers[i].numel * lw_dtype_size(w->buffers[i].dtype);
    bytes[LW_MEM_BUCKETS] += set_bytes(d, &d->initial);
    bytes[LW_MEM_GRADS] += sparse_bytes(d);
    return sharded && d->shards.spans.n > 0 ? add_owned(d, &rule, bytes, last_spares, err) : LW_OK;
}

/* What a stage updates: of the member with the most elements where they are sharded. */
static int64_t updated_elements(const struct lw_lowering *l, int32_t stage)
{
    int64_t whole = 0, most = 0;

    for (int32_t q = 0; q < l->n_parts; q++) {
        const struct lw_part *d = &l->parts[q];
        for (int32_t i = 0; d->stage == stage && d->shards.n == 0 && i < d->w->n_params; i++)
            if (lw_param_at(d->w, i).trainable && lw_param_at(d->w, i).tied < 0)
                whole += lw_param_at(d->w, i).numel;
    }
    for (int32_t m = 0, next; m < lw_part_holders(&l->parts[0]); m = next) {
        int64_t owned = 0;
        next = lw_part_holders(&l->parts[0]);
        for (int32_t q = 0, end; q < l->n_parts; q++) {
            if (l->parts[q].stage != stage || !l->parts[q].shards.owned)
                continue;
            owned += lw_part_owned_by(&l->parts[q], m, &end);
            next = end < next ? end : next;
        }
        most = owned > most ? owned : most;
    }
    return whole + most;
}

/* Of whose gradients a stage holds all, whichever member updates them. */
static int64_t held_elements(const struct lw_lowering *l, int32_t stage)
{
    int64_t sum = 0;

    if (l->s->zero >= 2)
        return updated_elements(l, stage);
    for (int32_t q = 0; q < l->n_parts; q++)
        if (l->parts[q].stage == stage)
            sum += lw_workload_numel(l->parts[q].w, true);
    return sum;
}

/* The workload's time for all elements, in proportion, rounded up. */
static lw_ps in_proportion(lw_ps time, int64_t elements, int64_t all)
{
    return all == 0 ? time : (lw_ps)(((__int128)time * elements + all - 1) / all);
}

/* The optimizer, and the passes over gradients before it. */
static struct lw_work optimizer_work(const struct lw_lowering *l, int32_t stage)
{
    int64_t all = lw_workload_numel(l->given, true);
    lw_ps update = in_proportion(l->w->optimizer_ps, updated_elements(l, stage), all);
    lw_ps held = in_proportion(l->w->gradients_ps, held_elements(l, stage), all);
    struct lw_work w = {.ps = update + held, .flops = -1, .bytes = -1,
                        .source = l->w->step_source};

    if (w.source == LW_TIME_GIVEN || w.source == LW_TIME_SCALED)
        return w;
    w.bound_ps[l->w->optimizer_bound] += update;
    w.bound_ps[l->w->gradients_bound] += held;
    return w;
}

/* One number per stage, with --clip. */
static void add_norm_sets(struct lw_lowering *l)
{
    const struct lw_bucket number = {.dtype = lw_norm_dtype(l),
                                     .bytes = lw_dtype_size(lw_norm_dtype(l))};

    for (int32_t stage = 0; l->s->clip > 0 && stage < lw_n_replica_stages(l); stage++) {
        lw_builder_set(l->b, LW_BUCKET_NORM, NULL, stage);
        int32_t bucket = lw_builder_bucket(l->b, &number, NULL, 0);
        if (stage == 0)
            l->norm_bucket = bucket;
    }
}

static void expect_shards(const struct lw_lowering *l)
{
    int64_t n = 0;

    for (int32_t q = 0; q < l->n_parts; q++)
        for (int32_t i = 0; i < l->parts[q].shards.n_runs; i++)
            n += l->parts[q].shards.runs[i].n;
    lw_builder_expect_shards(l->b, n);
}

static void expect_params(const struct lw_lowering *l)
{
    int64_t n_slots = 0;

    for (int32_t q = 0; q < l->n_parts; q++)
        n_slots += (int64_t)l->parts[q].initial.buckets.n_items +
                   l->parts[q].rebuilt.buckets.n_items;
    lw_builder_expect_params(l->b, l->w->n_params, n_slots);
}

enum lw_status lw_lower_model(struct lw_lowering *l, struct lw_err *err)
{
    LW_TAKE(&l->arena, l->optimizer_work, l->pp, err);
    if (l->s->offload == LW_OFFLOAD_UPDATE)
        LW_TAKE(&l->arena, l->host_updates, l->pp, err);
    expect_params(l);
    add_params(l);
    expect_shards(l);
    for (int32_t i = 0; i < l->n_parts; i++) {
        lw_part_add_sets(&l->parts[i], l->b);
        lw_part_add_shards(&l->parts[i], l->b);
    }
    lw_lower_tied_sets(l);
    add_norm_sets(l);
    for (int32_t i = 0; lw_products_fit(l->w, l->s) && i < l->w->n_products; i++)
        lw_builder_product(l->b, &l->w->products[i]);
    for (int32_t i = 0; i < l->n_parts; i++)
        LW_TRY(lw_part_add_works(&l->parts[i], l->b, err));
    for (int32_t r = 0; r < l->pp; r++) {
        const struct lw_work w = optimizer_work(l, lw_stage_of_role(l, r));
        l->optimizer_work[r] = lw_builder_work(l->b, &w);
        if (l->host_updates)
            l->host_updates[r] = updated_elements(l, lw_stage_of_role(l, r));
    }
    return LW_OK;
}
