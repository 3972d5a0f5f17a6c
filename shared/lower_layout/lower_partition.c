/* Modules to the parts of a pipeline: calls the strategy's partitioner with the weights that it
 * uses. lower_partition_exact.c has the inputs of the exact one beyond forward and backward
 * times. */
#include <stdlib.h>
#include <string.h>

#include "shared/partition/partition.h"
#include "shared/partition/partition_pipedream.h"
#include "shared/lower_layout/lowering.h"

static int64_t work_of(const struct lw_strategy *s, const struct lw_module *m)
{
    return m->forward_ps + m->backward_input_ps + m->backward_weight_ps + lw_recomputed_ps(s, m);
}

static void weigh(const struct lw_strategy *s, const struct lw_workload *w, int64_t *elements,
                  int64_t *work)
{
    for (int32_t m = 0; m < w->n_modules; m++)
        work[m] = work_of(s, lw_module_at(w, m));
    for (int32_t i = 0; i < w->n_params; i++)
        if (lw_param_at(w, i).trainable)
            elements[lw_param_at(w, i).module] += lw_param_at(w, i).numel;
}

/* The input of a partitioner. Part q of the model is chunk q / ranks of stage q mod ranks where it
 * knows of chunks. */
struct task {
    struct lw_lowering *l;
    const struct lw_cost *cost;
    int32_t n, n_parts, n_chunks; /* modules; parts = chunks * pipeline ranks */
    int64_t *elements, *work;     /* [n] trainable elements; time with what is recomputed */
    struct lw_arena *room;
};

/* The function of a row of LW_PARTITIONERS has its symbol for a name. */
typedef enum lw_status partitioner(const struct task *t, struct lw_partitioning *out,
                                   struct lw_err *err);

static enum lw_status uniform(const struct task *t, struct lw_partitioning *out, struct lw_err *err)
{
    return lw_partition_uniform(t->n, t->l->pp, t->n_chunks, out, err);
}

static enum lw_status colossal_balanced(const struct task *t, struct lw_partitioning *out,
                                        struct lw_err *err)
{
    return lw_partition_colossal(t->elements, t->n, t->l->pp, t->n_chunks, out, err);
}

static enum lw_status deepspeed_uniform(const struct task *t, struct lw_partitioning *out,
                                        struct lw_err *err)
{
    return lw_partition_deepspeed_uniform(t->n, t->n_parts, out, err);
}

static enum lw_status deepspeed_balanced(const struct task *t, struct lw_partitioning *out,
                                         struct lw_err *err)
{
    return lw_partition_deepspeed_balanced(t->elements, t->n, t->n_parts, out, err);
}

static enum lw_status exact(const struct task *t, struct lw_partitioning *out, struct lw_err *err)
{
    return lw_lower_exact(t->l, t->cost, t->work, t->room, out, err);
}

static enum lw_status explicit(const struct task *t, struct lw_partitioning *out,
                               struct lw_err *err)
{
    const char *list = t->l->s->partition_list;
    int32_t n_parts = t->n_parts, n = 0;
    int32_t *begins;

    LW_TAKE(t->room, begins, n_parts, err);
    for (const char *at = list; at; at = strchr(at, ',')) {
        char *end;
        at += *at == ',';
        long v = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || v < 0 || v > INT32_MAX)
            return lw_fail(err, LW_EINVAL, "--partition-list %s: '%.20s' is not a module number",
                           list, at);
        if (n == n_parts)
            return lw_fail(err, LW_EINVAL, "--partition-list %s: found more than %d stages, "
                                           "expected %d (--pp * --chunks)", list, n_parts, n_parts);
        begins[n++] = (int32_t)v;
    }
    if (n != n_parts)
        return lw_fail(err, LW_EINVAL, "--partition-list %s: found %d stages, expected %d (--pp * "
                                       "--chunks)", list, n, n_parts);
    return lw_err_context(err, lw_partition_explicit(begins, t->n, n_parts, 1, out, err),
                          "--partition-list %s", list);
}

/* Blocks for further tokens are on the last stage, with the head. */
static enum lw_status megatron(const struct task *t, struct lw_partitioning *out,
                               struct lw_err *err)
{
    const struct lw_strategy *s = t->l->s;
    int64_t layers = t->l->w->dims.layers;
    int32_t n_blocks = layers > 0 && layers <= t->n - 2 ? (int32_t)layers : t->n - 2;

    if (t->n < 3)
        return lw_fail(err, LW_EINVAL,
                       "--partition megatron: workload '%s' has %d modules, expected an embedding, "
                       "blocks and a head; choose --partition exact",
                       t->l->w->name, t->n);
    return lw_partition_megatron(
        &(struct lw_megatron_stages){
            .n_items = t->n, .n_blocks = n_blocks, .n_stages = t->n_parts / t->n_chunks,
            .n_chunks = t->n_chunks, .first = s->first_layers, .last = s->last_layers,
            .count_embedding = s->count_embedding, .count_loss = s->count_loss},
        out, err);
}

/* PipeDream's planner on a chain of modules, one machine a stage, transfers not weighed. */
static enum lw_status pipedream(const struct task *t, struct lw_partitioning *out,
                                struct lw_err *err)
{
    int32_t n_parts = t->n_parts;
    struct lw_pipedream_state *states = lw_arena_alloc(t->room, t->n, sizeof *states);
    int32_t *begins = lw_arena_alloc(t->room, n_parts, sizeof *begins);
    struct lw_pipedream_level level = {n_parts, 1};
    struct lw_pipedream_problem p = {.n_states = t->n, .n_levels = 1, .states = states,
                                     .levels = &level, .straight = true};
    struct lw_pipedream_plan plan;
    double sum = 0;

    if (!states || !begins)
        return lw_fail_nomem(err);
    if (n_parts > t->n)
        return lw_fail(err, LW_EINVAL, "--partition pipedream: %d stages for %d items, allowed: 1 "
                                       "to %d (no stage may be empty)", n_parts, t->n, t->n);
    for (int32_t m = 0; m < t->n; m++) {
        sum += (double)t->work[m] / (double)LW_PS_PER_S;
        states[m].time_s = sum;
    }
    LW_TRY(lw_pipedream_plan(&p, &plan, err));
    int32_t n = plan.n_stages;
    for (int32_t i = 0; i < n && n == n_parts; i++)
        begins[i] = plan.stages[i].begin;
    lw_pipedream_free(&plan);
    if (n != n_parts)
        return lw_fail(err, LW_EINVAL, "--partition pipedream: the planner makes %d stages of "
                                       "workload '%s', expected %d (--pp * --chunks); choose "
                                       "--partition exact", n, t->l->w->name, n_parts);
    return lw_partition_explicit(begins, t->n, n_parts, 1, out, err);
}

static enum lw_status partition(struct lw_lowering *l, const struct lw_cost *cost,
                                struct lw_arena *room, struct lw_partitioning *out,
                                struct lw_err *err)
{
    static partitioner *const partitioners[] = {
#define ROW(id, symbol, word, help) [LW_PARTITION_##id] = symbol,
        LW_PARTITIONERS(ROW)
#undef ROW
    };
    struct task t = {.l = l, .cost = cost, .n = l->w->n_modules, .n_parts = l->n_parts,
                     .n_chunks = l->n_parts / l->pp, .room = room};

    LW_TAKE(room, t.elements, t.n, err);
    LW_TAKE(room, t.work, t.n, err);
    if (l->s->partition != LW_PARTITION_EXPLICIT) /* which reads none of it */
        weigh(l->s, l->w, t.elements, t.work);
    return partitioners[l->s->partition](&t, out, err);
}

enum lw_status lw_lower_partition(struct lw_lowering *l, const struct lw_cost *cost,
                                  struct lw_range *ranges, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_partitioning p;
    enum lw_status s = partition(l, cost, &room, &p, err);

    lw_arena_free(&room);
    LW_TRY(s);
    for (int32_t q = 0; q < l->n_parts; q++)
        ranges[q] = *lw_partition_part(&p, q % p.n_stages, q / p.n_stages);
    lw_partition_free(&p);
    for (int32_t q = 0; q < l->n_parts; q++)
        if (ranges[q].begin == ranges[q].end)
            return lw_fail(err, LW_EINVAL, "--pp %d: part %d of %d gets none of the %d modules of "
                                           "workload '%s' (fewer stages, or another --partition)",
                           l->pp, q, l->n_parts, l->w->n_modules, l->w->name);
    return LW_OK;
}
