/* The order of a pipeline-parallel step, after the dependency model of "Understanding Stragglers in
 * Large Model Training Using What-if Analysis" (section 3; ByteDance-Seed/StragglerAnalysis @
 * 8efcd7f, analyzer/dependency_model.py):
 *   - a worker's forwards and backwards run one after the other, in the order recorded; so do the
 *     operations of each kind of pipeline transfer, and those over data-parallel ranks;
 *   - a receive comes before the compute that it is for and after the compute of its kind before
 *     that; a send after its compute; the first transfers of the backward after the second last
 *     compute before the first backward;
 *   - the n-th send of a kind is one transfer with the n-th receive of its kind on the next stage.
 *     Those that end before the first compute or begin after the last one were never launched, nor
 *     were those beyond the model's ends: they move nothing and wait for nobody;
 *   - parameters are gathered before the first forward of their chunk; after the last compute come
 *     gc, the sums of norms and embedding, the gradients' reduction, clipping, the optimizer. With
 *     separate-grads-all-reduce each chunk's reduction follows its last backward;
 *   - gathers, reductions and clipping wait for all data-parallel ranks, clipping for all stages,
 *     the embedding's sum for the first and the last. */
#include "traces/stragglers/job_graph.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/larger.h"
#include "shared/numbers/order.h"

enum { CLOCKS_APART_NS = 50000 };

struct edge {
    int32_t from, to;
};

struct builder {
    const struct job_ops *j;
    struct job_graph *g;
    struct lw_arena scratch;
    struct edge *edges;
    int64_t n_edges, edge_cap;
    int32_t *order, n_order;     /* ops of one stage by start: filled by pick */
    int32_t *transfer;           /* [n_ops] its number among the real ones of its kind; -1 = none */
    struct lw_err *err;
};

static int64_t start_of(const struct builder *b, int32_t op)
{
    return b->j->start_ns[op * b->j->n_runs];
}

static int64_t end_of(const struct builder *b, int32_t op)
{
    return start_of(b, op) + b->j->dur_ns[op * b->j->n_runs];
}

static enum lw_status add_edge(struct builder *b, int32_t from, int32_t to)
{
    if (from < 0 || to < 0)
        return LW_OK;
    LW_ROOM(b->edges, b->edge_cap, b->n_edges + 1, b->err);
    b->edges[b->n_edges++] = (struct edge){from, to};
    return LW_OK;
}

/* The op of this place; -1 = none. */
static int32_t find_op(const struct builder *b, enum job_type type, int32_t seq, int32_t stage)
{
    int32_t low = 0, high = b->j->n_ops;

    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        const struct job_op *o = &b->j->ops[mid];
        int c = LW_ORDER(o->stage, stage, (int)o->type, (int)type, o->seq, seq);
        if (c == 0)
            return mid;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}

struct timed {
    int64_t start;
    int32_t seq, type, op;
};

LW_COMPARATOR(by_start, struct timed, a->start, b->start, a->seq, b->seq, a->type, b->type)

/* The ops of a stage whose types are in the set, by start. */
static enum lw_status pick(struct builder *b, int32_t stage, unsigned set)
{
    struct timed *v;
    int32_t n = 0;

    LW_NEW(v, b->j->n_ops, b->err);
    for (int32_t o = 0; o < b->j->n_ops; o++) {
        const struct job_op *x = &b->j->ops[o];
        if (x->stage == stage && set & 1u << x->type)
            v[n++] = (struct timed){start_of(b, o), x->seq, (int32_t)x->type, o};
    }
    lw_sort(v, n, by_start);
    for (int32_t i = 0; i < n; i++)
        b->order[i] = v[i].op;
    b->n_order = n;
    lw_free(v);
    return LW_OK;
}

static enum lw_status chain_picked(struct builder *b)
{
    for (int32_t i = 1; i < b->n_order; i++)
        LW_TRY(add_edge(b, b->order[i - 1], b->order[i]));
    return LW_OK;
}

#define SET(type) (1u << (type))
#define COMPUTES (SET(JOB_FORWARD) | SET(JOB_BACKWARD))

/* ---- pipeline transfers ---- */

static const struct kind {
    enum job_type type, compute, peer;
    bool receives;
    int32_t to; /* the peer's stage and chunk, counted from here */
} kinds[] = {
    {JOB_FORWARD_SEND, JOB_FORWARD, JOB_FORWARD_RECV, false, 1},
    {JOB_FORWARD_RECV, JOB_FORWARD, JOB_FORWARD_SEND, true, -1},
    {JOB_BACKWARD_SEND, JOB_BACKWARD, JOB_BACKWARD_RECV, false, -1},
    {JOB_BACKWARD_RECV, JOB_BACKWARD, JOB_BACKWARD_SEND, true, 1},
};

/* Computes of a kind on a stage. */
struct span {
    int64_t last_start, first_end;
    int32_t n;
};

static struct span span_of(const struct builder *b, enum job_type type, int32_t stage)
{
    struct span s = {INT64_MIN, INT64_MAX, 0};

    for (int32_t o = 0; o < b->j->n_ops; o++) {
        if (b->j->ops[o].stage != stage || b->j->ops[o].type != type)
            continue;
        s.last_start = start_of(b, o) > s.last_start ? start_of(b, o) : s.last_start;
        s.first_end = end_of(b, o) < s.first_end ? end_of(b, o) : s.first_end;
        s.n++;
    }
    return s;
}

static bool was_launched(const struct builder *b, const struct kind *k, int32_t op, struct span s)
{
    return k->receives ? start_of(b, op) <= s.last_start + CLOCKS_APART_NS
                       : end_of(b, op) >= s.first_end - CLOCKS_APART_NS;
}

static enum lw_status add_transfers(struct builder *b, const struct kind *k, int32_t stage)
{
    const struct job_ops *j = b->j;
    struct span s = span_of(b, k->compute, stage);
    int32_t n = 0, compute = 0, real = 0;

    LW_TRY(pick(b, stage, SET(k->type)));
    LW_TRY(chain_picked(b));
    for (int32_t i = 0; i < b->n_order; i++)
        n += was_launched(b, k, b->order[i], s);
    if (n != 0 && n != s.n && n + 1 != s.n)
        return lw_fail_at(b->err, LW_EFORMAT, j->file, 0,
                          "stage %d runs '%s' %d times and '%s' %d times; expected one for each",
                          stage, job_type_name(k->compute), s.n, job_type_name(k->type), n);
    compute = k->receives && n > 0 && n + 1 == s.n; /* the first one was not recorded */
    for (int32_t i = 0; i < b->n_order; i++) {
        int32_t op = b->order[i];
        if (!was_launched(b, k, op, s))
            continue;
        int32_t for_it = find_op(b, k->compute, compute, stage);
        if (for_it < 0)
            return lw_fail_at(b->err, LW_EFORMAT, j->file, 0,
                              "stage %d has no '%s' %d for its '%s'", stage,
                              job_type_name(k->compute), compute, job_type_name(k->type));
        int32_t peer = j->ops[for_it].model_chunk + k->to;
        if (peer >= 0 && peer < j->n_chunks * j->n_stages)
            b->transfer[op] = real++;
        if (k->receives) {
            LW_TRY(add_edge(b, op, for_it));
            LW_TRY(add_edge(b, find_op(b, k->compute, compute - 1, stage), op));
        } else {
            LW_TRY(add_edge(b, for_it, op));
        }
        compute++;
    }
    return LW_OK;
}

/* The first transfers of the backward follow the second last compute before the first backward. */
static enum lw_status add_first_backward(struct builder *b, int32_t stage)
{
    LW_TRY(pick(b, stage, COMPUTES));
    LW_TRY(chain_picked(b));
    for (int32_t i = 0; i < b->n_order; i++)
        if (b->j->ops[b->order[i]].type == JOB_BACKWARD) {
            if (i < 2)
                return LW_OK;
            int32_t from = b->order[i - 2];
            LW_TRY(add_edge(b, from, find_op(b, JOB_BACKWARD_RECV, 0, stage)));
            return add_edge(b, from, find_op(b, JOB_BACKWARD_SEND, 0, stage));
        }
    return LW_OK;
}

/* ---- around the pipeline ---- */

static enum lw_status add_gathers(struct builder *b, int32_t stage)
{
    const struct job_ops *j = b->j;

    for (int32_t chunk = -1; chunk < j->n_chunks; chunk++) {
        int32_t gather = -1, first = -1;
        for (int32_t o = 0; o < j->n_ops; o++) {
            const struct job_op *x = &j->ops[o];
            if (x->stage != stage || x->chunk != chunk)
                continue;
            if (x->type == JOB_GATHER_PARAMS)
                gather = o; /* the last of the chunk */
            if (x->type == JOB_FORWARD && (first < 0 || start_of(b, o) < start_of(b, first)))
                first = o;
        }
        LW_TRY(add_edge(b, gather, first));
    }
    return LW_OK;
}

/* Each chunk's first reduction follows its last backward. */
static enum lw_status add_early_reductions(struct builder *b, int32_t stage)
{
    const struct job_ops *j = b->j;

    for (int32_t chunk = -1; chunk < j->n_chunks; chunk++) {
        int32_t reduce = -1, last = -1;
        for (int32_t o = 0; o < j->n_ops; o++) {
            const struct job_op *x = &j->ops[o];
            if (x->stage != stage || x->chunk != chunk)
                continue;
            if (x->type == JOB_REDUCE_GRADS && reduce < 0)
                reduce = o;
            if (x->type == JOB_BACKWARD && (last < 0 || end_of(b, o) > end_of(b, last)))
                last = o;
        }
        LW_TRY(add_edge(b, last, reduce));
    }
    return LW_OK;
}

static enum lw_status add_after(struct builder *b, int32_t *last, int32_t op)
{
    if (op < 0)
        return LW_OK;
    LW_TRY(add_edge(b, *last, op));
    *last = op;
    return LW_OK;
}

static enum lw_status add_end(struct builder *b, int32_t stage, bool early)
{
    const struct job_ops *j = b->j;
    int32_t last = -1, n_reduce = 0, norms;

    for (int32_t o = 0; o < j->n_ops; o++) {
        const struct job_op *x = &j->ops[o];
        if (x->stage != stage)
            continue;
        n_reduce += x->type == JOB_REDUCE_GRADS;
        if ((x->type == JOB_FORWARD || x->type == JOB_BACKWARD) &&
            (last < 0 || end_of(b, o) > end_of(b, last)))
            last = o;
    }
    LW_TRY(add_after(b, &last, find_op(b, JOB_GC, 0, stage)));
    norms = find_op(b, JOB_REDUCE_NORMS, 0, stage);
    if (early && n_reduce > 0)
        LW_TRY(add_edge(b, find_op(b, JOB_REDUCE_GRADS, n_reduce - 1, stage), norms));
    LW_TRY(add_after(b, &last, norms));
    if (stage == 0 || stage == j->n_stages - 1)
        LW_TRY(add_after(b, &last, find_op(b, JOB_REDUCE_EMBEDDING, 0, stage)));
    if (early)
        LW_TRY(add_after(b, &last, find_op(b, JOB_REDUCE_SEPARATE, 0, stage)));
    for (int32_t i = 0; !early && i < n_reduce; i++)
        LW_TRY(add_after(b, &last, find_op(b, JOB_REDUCE_GRADS, i, stage)));
    LW_TRY(add_after(b, &last, find_op(b, JOB_CLIP, 0, stage)));
    return add_after(b, &last, find_op(b, JOB_OPTIMIZER, 0, stage));
}

static bool has_type(const struct job_ops *j, enum job_type type)
{
    for (int32_t o = 0; o < j->n_ops; o++)
        if (j->ops[o].type == type)
            return true;
    return false;
}

static enum lw_status add_stage(struct builder *b, int32_t stage, bool early)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        LW_TRY(add_transfers(b, &kinds[k], stage));
    LW_TRY(add_first_backward(b, stage));
    LW_TRY(pick(b, stage, SET(JOB_GATHER_PARAMS) | SET(JOB_REDUCE_GRADS)));
    LW_TRY(chain_picked(b));
    LW_TRY(add_gathers(b, stage));
    if (early)
        LW_TRY(add_early_reductions(b, stage));
    return add_end(b, stage, early);
}

/* ---- groups ---- */

static enum lw_status new_group(struct builder *b, const int32_t *ops, int32_t n, bool over_dp)
{
    struct job_graph *g = b->g;
    struct job_group *x = &g->groups[g->n_groups];

    *x = (struct job_group){.n = n, .over_dp = over_dp};
    LW_TAKE(&g->arena, x->ops, n, b->err);
    for (int32_t i = 0; i < n; i++) {
        x->ops[i] = ops[i];
        g->group_of[ops[i]] = g->n_groups;
    }
    g->n_groups++;
    return LW_OK;
}

static int32_t transfer_numbered(const struct builder *b, enum job_type type, int32_t stage,
                                 int32_t number)
{
    for (int32_t o = 0; o < b->j->n_ops; o++)
        if (b->j->ops[o].type == type && b->j->ops[o].stage == stage && b->transfer[o] == number)
            return o;
    return -1;
}

static enum lw_status pair_transfers(struct builder *b, const struct kind *k)
{
    const struct job_ops *j = b->j;

    for (int32_t o = 0; o < j->n_ops; o++) {
        if (j->ops[o].type != k->type)
            continue;
        if (b->transfer[o] < 0) {
            LW_TRY(new_group(b, &o, 1, false));
            continue;
        }
        int32_t stage = (j->ops[o].stage + k->to + j->n_stages) % j->n_stages;
        int32_t peer = transfer_numbered(b, k->peer, stage, b->transfer[o]);
        if (peer < 0)
            return lw_fail_at(b->err, LW_EFORMAT, j->file, 0,
                              "'%s' %d of stage %d has no '%s' on stage %d: a rank is missing, or "
                              "its record is not whole",
                              job_type_name(k->type), j->ops[o].seq, j->ops[o].stage,
                              job_type_name(k->peer), stage);
        if (!k->receives)
            LW_TRY(new_group(b, (int32_t[]){o, peer}, 2, false));
    }
    return LW_OK;
}

/* One group of the ops of a type on all stages that have it. */
static enum lw_status group_stages(struct builder *b, enum job_type type, bool over_dp)
{
    int32_t n = 0;

    for (int32_t o = 0; o < b->j->n_ops; o++)
        if (b->j->ops[o].type == type && b->j->ops[o].seq == 0)
            b->order[n++] = o;
    return n > 0 ? new_group(b, b->order, n, over_dp) : LW_OK;
}

static enum lw_status add_groups(struct builder *b)
{
    static const enum job_type over_dp[] = {JOB_GATHER_PARAMS, JOB_REDUCE_GRADS,
                                            JOB_REDUCE_SEPARATE};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        LW_TRY(pair_transfers(b, &kinds[k]));
    for (size_t k = 0; k < sizeof over_dp / sizeof *over_dp; k++)
        for (int32_t o = 0; o < b->j->n_ops; o++)
            if (b->j->ops[o].type == over_dp[k])
                LW_TRY(new_group(b, &o, 1, true));
    LW_TRY(group_stages(b, JOB_REDUCE_EMBEDDING, false));
    return group_stages(b, JOB_CLIP, true);
}

/* ---- the order ---- */

static enum lw_status index_edges(struct builder *b)
{
    const struct job_ops *j = b->j;
    struct job_graph *g = b->g;
    int32_t *at;

    LW_TAKE(&g->arena, g->n_before, j->n_ops, b->err);
    LW_TAKE(&g->arena, g->first_after, j->n_ops + 1, b->err);
    LW_TAKE(&g->arena, g->after, b->n_edges, b->err);
    LW_TAKE(&b->scratch, at, j->n_ops + 1, b->err);
    for (int64_t i = 0; i < b->n_edges; i++) {
        g->first_after[b->edges[i].from + 1]++;
        g->n_before[b->edges[i].to]++;
    }
    for (int32_t o = 0; o < j->n_ops; o++)
        at[o + 1] = g->first_after[o + 1] += g->first_after[o];
    for (int64_t i = 0; i < b->n_edges; i++)
        g->after[at[b->edges[i].from]++] = b->edges[i].to;
    return LW_OK;
}

static void release(const struct job_graph *g, int32_t op, int32_t *left, int32_t *ready,
                    int32_t *n_ready)
{
    for (int32_t i = g->first_after[op]; i < g->first_after[op + 1]; i++)
        if (--left[g->after[i]] == 0)
            ready[(*n_ready)++] = g->after[i];
}

/* An op of a group ends when all of them have started. */
static enum lw_status order_ops(struct builder *b)
{
    const struct job_ops *j = b->j;
    struct job_graph *g = b->g;
    int32_t *left, *started, n_ready = 0;

    LW_TAKE(&b->scratch, left, j->n_ops, b->err);
    LW_TAKE(&b->scratch, started, g->n_groups, b->err);
    LW_TAKE(&g->arena, g->order, j->n_ops, b->err);
    for (int32_t o = 0; o < j->n_ops; o++)
        if ((left[o] = g->n_before[o]) == 0)
            g->order[n_ready++] = o;
    for (int32_t i = 0; i < n_ready; i++) {
        int32_t op = g->order[i], group = g->group_of[op];
        if (group < 0) {
            release(g, op, left, g->order, &n_ready);
        } else if (++started[group] == g->groups[group].n) {
            g->groups[group].last = op;
            for (int32_t k = 0; k < g->groups[group].n; k++)
                release(g, g->groups[group].ops[k], left, g->order, &n_ready);
        }
    }
    for (int32_t o = 0; o < j->n_ops && n_ready < j->n_ops; o++)
        if (left[o] > 0)
            return lw_fail_at(b->err, LW_EFORMAT, j->file, 0,
                              "'%s' %d of stage %d waits for itself in a cycle: the recorded order "
                              "of its step is impossible",
                              job_type_name(j->ops[o].type), j->ops[o].seq, j->ops[o].stage);
    return LW_OK;
}

static enum lw_status build(struct builder *b)
{
    const struct job_ops *j = b->j;

    LW_TAKE(&b->scratch, b->order, j->n_ops, b->err);
    LW_TAKE(&b->scratch, b->transfer, j->n_ops, b->err);
    LW_TAKE(&b->g->arena, b->g->group_of, j->n_ops, b->err);
    LW_TAKE(&b->g->arena, b->g->groups, j->n_ops, b->err);
    for (int32_t o = 0; o < j->n_ops; o++)
        b->transfer[o] = b->g->group_of[o] = -1;
    for (int32_t s = 0; s < j->n_stages; s++)
        LW_TRY(add_stage(b, s, has_type(j, JOB_REDUCE_SEPARATE)));
    LW_TRY(add_groups(b));
    LW_TRY(index_edges(b));
    return order_ops(b);
}

enum lw_status job_graph_build(const struct job_ops *j, struct job_graph *out, struct lw_err *err)
{
    struct job_graph g = {0};
    struct builder b = {.j = j, .g = &g, .err = err};
    enum lw_status status = build(&b);

    lw_free(b.edges);
    lw_arena_free(&b.scratch);
    LW_GIVE(status, out, g, job_graph_free(&g));
}

LW_FREE_BY_ARENA(job_graph_free, struct job_graph)

/* ---- running it ---- */

/* The ends of a group's members, whose starts `end` holds. */
static void meet(const struct job_ops *j, const struct job_group *x, int64_t *end,
                 const int64_t *work)
{
    for (int32_t s = 0; s < j->n_steps; s++) {
        int64_t all = INT64_MIN;
        for (int pass = 0; pass < 2; pass++)
            for (int32_t d = 0; d < j->n_dp; d++) {
                int64_t run = (int64_t)s * j->n_dp + d, last = INT64_MIN;
                for (int32_t k = 0; pass == 0 && k < x->n; k++)
                    last = lw_larger(last, end[x->ops[k] * j->n_runs + run]);
                if (pass == 0 && x->over_dp) {
                    all = lw_larger(all, last);
                    continue;
                }
                if (pass == 1 && !x->over_dp)
                    continue;
                last = x->over_dp ? all : last;
                for (int32_t k = 0; k < x->n; k++) {
                    int64_t at = x->ops[k] * j->n_runs + run;
                    end[at] = last + work[at];
                }
            }
    }
}

static void pass_on(const struct job_ops *j, const struct job_graph *g, int32_t op, int64_t *end)
{
    const int64_t *from = end + op * j->n_runs;

    for (int32_t i = g->first_after[op]; i < g->first_after[op + 1]; i++) {
        int64_t *to = end + g->after[i] * j->n_runs;
        for (int64_t k = 0; k < j->n_runs; k++)
            to[k] = lw_larger(to[k], from[k]);
    }
}

void job_graph_run(const struct job_ops *j, const struct job_graph *g, const int64_t *work,
                   int64_t *end, int64_t *step_ns)
{
    bool optimizer = has_type(j, JOB_OPTIMIZER);

    /* until an op has run, `end` holds the latest end of what it waits for: its start */
    memset(end, 0, (size_t)(j->n_ops * j->n_runs) * sizeof *end);
    memset(step_ns, 0, (size_t)j->n_steps * sizeof *step_ns);
    for (int32_t i = 0; i < j->n_ops; i++) {
        int32_t op = g->order[i], group = g->group_of[op];
        const struct job_group *x = group >= 0 ? &g->groups[group] : NULL;
        if (!x) {
            for (int64_t k = 0; k < j->n_runs; k++)
                end[op * j->n_runs + k] += work[op * j->n_runs + k];
            pass_on(j, g, op, end);
            continue;
        }
        if (x->last != op) /* all of it runs with the last one */
            continue;
        meet(j, x, end, work);
        for (int32_t k = 0; k < x->n; k++)
            pass_on(j, g, x->ops[k], end);
    }
    for (int32_t o = 0; o < j->n_ops; o++)
        for (int64_t k = 0; k < j->n_runs; k++)
            if (!optimizer || j->ops[o].type == JOB_OPTIMIZER)
                step_ns[k / j->n_dp] = lw_larger(step_ns[k / j->n_dp], end[o * j->n_runs + k]);
}
