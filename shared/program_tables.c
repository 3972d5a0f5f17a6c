/* The plan's tables of a lowering: the model with the stage of each module, ranks with their
 * memory, streams, communicators, the optimizer's work. Not counted in memory: activations and
 * optimizer state, which no workload tells. */
#include "shared/program_lower.h"

static void add_params(struct lw_lowering *l)
{
    const struct lw_workload *w = l->w;
    const struct lw_part *d = &l->parts[0];

    for (int32_t m = 0; m < w->n_modules; m++)
        lw_builder_module(l->b, d->stage);
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        struct lw_plan_param q = {.name = p->name, .numel = p->numel, .dtype = p->dtype,
                                  .stage = d->stage, .module = p->module, .device = p->device,
                                  .tied = p->tied, .trainable = p->trainable,
                                  .sparse = p->sparse, .used = p->used, .ignored = p->ignored};
        lw_builder_param(l->b, &q);
    }
    for (int32_t i = 0; i < w->n_buffers; i++)
        lw_builder_buffer(l->b, &(struct lw_plan_buffer){w->buffers[i].name, w->buffers[i].numel,
                                                         w->buffers[i].dtype,
                                                         w->buffers[i].broadcast});
}

static int64_t set_bytes(const struct lw_part_set *set)
{
    int64_t bytes = 0;

    for (int32_t b = 0; set->name && b < set->buckets.n_buckets; b++)
        bytes += set->elements[b] * lw_dtype_size(set->dtype[b]);
    return bytes;
}

static void count_memory(const struct lw_part *d, int64_t bytes[LW_N_MEM])
{
    const struct lw_workload *w = d->w;

    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        if (p->tied >= 0)
            continue;
        bytes[LW_MEM_PARAMS] += p->numel * lw_dtype_size(p->dtype);
        if (p->trainable)
            bytes[LW_MEM_GRADS] +=
                p->numel * lw_dtype_size(lw_strategy_grad_dtype(d->s, p->dtype));
    }
    for (int32_t i = 0; i < w->n_buffers; i++)
        bytes[LW_MEM_PARAMS] += w->buffers[i].numel * lw_dtype_size(w->buffers[i].dtype);
    bytes[LW_MEM_BUCKETS] += set_bytes(&d->initial);
}

enum lw_status lw_lower_ranks(struct lw_lowering *l, struct lw_err *err)
{
    int32_t n = (int32_t)l->s->dp;
    struct lw_role role = {.name = "data"};
    int32_t *members = lw_arena_alloc(&l->arena, n, sizeof *members);

    if (!members)
        return lw_fail_nomem(err);
    count_memory(&l->parts[0], role.static_bytes);
    lw_builder_role(l->b, &role);
    for (int32_t r = 0; r < n; r++) {
        lw_builder_rank(l->b, r, 0, r, 0, 0);
        members[r] = r;
    }
    l->compute = lw_builder_stream(l->b, "compute", LW_STREAM_COMPUTE, 0);
    l->comm = l->copy = l->data = -1;
    if (n == 1)
        return LW_OK;
    l->comm = lw_builder_stream(l->b, "comm", LW_STREAM_COMM, 1);
    if (l->s->comm_hook != LW_HOOK_NONE)
        l->copy = lw_builder_stream(l->b, "copy", LW_STREAM_COPY, 1);
    l->data = lw_builder_comm(l->b, "data", LW_COMM_DATA, l->s->reducer, l->comm);
    lw_builder_group(l->b, l->data, members, n);
    return LW_OK;
}

/* The share of the member with the most elements, rounded up. */
static lw_ps optimizer_ps(const struct lw_lowering *l)
{
    const struct lw_part_shards *h = &l->parts[0].shards;

    if (h->n_elements == 0)
        return l->w->optimizer_ps;
    return (lw_ps)(((__int128)l->w->optimizer_ps * h->most_owned + h->n_elements - 1) /
                   h->n_elements);
}

enum lw_status lw_lower_model(struct lw_lowering *l, struct lw_err *err)
{
    add_params(l);
    for (int32_t i = 0; i < l->n_parts; i++) {
        lw_part_add_sets(&l->parts[i], l->b);
        lw_part_add_shards(&l->parts[i], l->b);
    }
    for (int32_t i = 0; i < l->n_parts; i++)
        LW_TRY(lw_part_add_works(&l->parts[i], l->b, err));
    l->optimizer_work = lw_builder_work(l->b, &(struct lw_work){optimizer_ps(l), -1, -1});
    return LW_OK;
}
