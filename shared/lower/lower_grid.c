/* A grid lowered to a plan. Links (ordered pairs of ranks, apart for activations and gradients) are
 * coloured so that no rank has two links of one colour: each colour is a communicator class of
 * two-member groups with a stream of its own (greedy edge colouring: at most 2d - 1 colours for d
 * links at a rank). A unit of two actions waits for the inputs of both before the first, and sends
 * what both made after the second, so its parts start and end together as one. */
#include "shared/lower/lower_grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/schedule/grid_order.h"
#include "shared/schedule/grid_time.h"
#include "shared/plan/plan_builder.h"

struct link {
    bool backward;
    int32_t from, to, colour;
};

struct writer {
    const struct lw_grid *g;
    const struct lw_grid_durations *d;
    struct lw_grid_order order;
    struct lw_builder *b;
    struct lw_arena arena;
    struct link *links;     /* [n_links], sorted */
    int32_t n_links, n_colours[2];
    int32_t *comm[2];       /* [n_colours] classes of activations, of gradients */
    int32_t *stream[2];
    int32_t compute, work[4];
    int32_t of_unit[2];     /* work of a unit's first action, of its second */
    int32_t *received;      /* [2 n_stages n_micro_batches] op that brings the value; -1 = local */
};

LW_COMPARATOR(compare_links, struct link, a->backward, b->backward, a->from, b->from, a->to, b->to)

static struct link link_of(const struct lw_grid_order *o, const struct lw_grid_step *s,
                           int32_t rank)
{
    bool sends = s->kind == LW_GRID_SEND;

    return (struct link){lw_step_action(o, s)->kind != LW_OP_FORWARD, sends ? rank : s->peer,
                         sends ? s->peer : rank, -1};
}

/* The distinct links, sorted. */
static enum lw_status list_links(struct writer *k, struct lw_err *err)
{
    const struct lw_grid_order *o = &k->order;
    int64_t n = 0;

    LW_TAKE(&k->arena, k->links, o->first[o->n_ranks], err);
    for (int32_t r = 0; r < o->n_ranks; r++)
        for (int32_t i = o->first[r]; i < o->first[r + 1]; i++)
            if (o->steps[i].kind == LW_GRID_SEND)
                k->links[n++] = link_of(o, &o->steps[i], r);
    lw_sort(k->links, n, compare_links);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || compare_links(&k->links[i], &k->links[k->n_links - 1]) != 0)
            k->links[k->n_links++] = k->links[i];
    return LW_OK;
}

/* The smallest colour that neither end has; links of a rank are few. */
static enum lw_status colour_links(struct writer *k, struct lw_err *err)
{
    int32_t *before = lw_arena_alloc(&k->arena, 2L * k->g->n_ranks, sizeof *before);
    int32_t *next = lw_arena_alloc(&k->arena, 2L * k->n_links, sizeof *next);

    if (!before || !next)
        return lw_fail_nomem(err);
    memset(before, -1, 2 * (size_t)k->g->n_ranks * sizeof *before);
    for (int32_t i = 0; i < k->n_links; i++) {
        struct link *x = &k->links[i];
        const int32_t ends[] = {x->from, x->to};
        bool taken = true;
        for (x->colour = -1; taken;) {
            x->colour++;
            taken = false;
            for (int e = 0; e < 2; e++) /* chains of the links at each end: entry 2 link + end */
                for (int32_t c = before[2 * ends[e] + x->backward]; c >= 0; c = next[c])
                    taken = taken || k->links[c / 2].colour == x->colour;
        }
        for (int e = 0; e < 2; e++) {
            next[2 * i + e] = before[2 * ends[e] + x->backward];
            before[2 * ends[e] + x->backward] = 2 * i + e;
        }
        if (x->colour >= k->n_colours[x->backward])
            k->n_colours[x->backward] = x->colour + 1;
    }
    return LW_OK;
}

static enum lw_status add_links(struct writer *k, struct lw_err *err)
{
    static const char *const names[] = {"forward", "backward"};

    for (int way = 0; way < 2; way++) {
        LW_TAKE(&k->arena, k->comm[way], k->n_colours[way], err);
        LW_TAKE(&k->arena, k->stream[way], k->n_colours[way], err);
        for (int32_t c = 0; c < k->n_colours[way]; c++) {
            char name[32];
            snprintf(name, sizeof name, "%s %d", names[way], c);
            k->stream[way][c] = lw_builder_stream(k->b, name, LW_STREAM_COMM, 1);
            k->comm[way][c] = lw_builder_comm(k->b, name, way ? LW_COMM_BACKWARD : LW_COMM_FORWARD,
                                              LW_REDUCER_AUTO, k->stream[way][c]);
        }
    }
    for (int32_t i = 0; i < k->n_links; i++) {
        const struct link *x = &k->links[i];
        lw_builder_group(k->b, k->comm[x->backward][x->colour], (int32_t[]){x->from, x->to}, 2);
    }
    return LW_OK;
}

static int32_t add_work(struct lw_builder *b, lw_ps ps)
{
    return lw_builder_work(b, &(struct lw_work){.ps = ps, .flops = -1, .bytes = -1});
}

static enum lw_status add_tables(struct writer *k, struct lw_err *err)
{
    const lw_ps times[] = {k->d->f, k->d->b, k->d->i, k->d->w}; /* as their kinds follow */

    for (int32_t r = 0; r < k->g->n_ranks; r++) {
        char name[32];
        snprintf(name, sizeof name, "rank %d", r);
        struct lw_role role = {.name = name, .stage = r};
        lw_builder_role(k->b, &role);
        lw_builder_rank(k->b, r, r, 0, r, 0);
    }
    for (int32_t s = 0; s < k->g->n_stages; s++)
        lw_builder_module(k->b, lw_grid_rank_of(k->g, s, 0));
    k->compute = lw_builder_stream(k->b, "compute", LW_STREAM_COMPUTE, 0);
    for (int w = 0; w < 4; w++)
        k->work[w] = add_work(k->b, times[w]);
    const lw_ps first = k->d->pair < k->d->f ? k->d->pair : k->d->f;
    const lw_ps halves[] = {first, k->d->pair - first};
    for (int w = 0; w < 2 && k->d->pair > 0; w++)
        k->of_unit[w] = add_work(k->b, halves[w]);
    return add_links(k, err);
}

/* --- ops ------------------------------------------------------------------------------------- */

static int32_t *received(const struct writer *k, bool gradient, int32_t stage, int32_t mb)
{
    return &k->received[((int64_t)gradient * k->g->n_stages + stage) * k->g->n_micro_batches + mb];
}

/* What the action needs from other ranks, at most one op. */
static int32_t input_of(const struct writer *k, const struct lw_action *a)
{
    if (a->kind == LW_OP_BACKWARD_WEIGHT)
        return -1;
    return *received(k, a->kind != LW_OP_FORWARD, a->stage, a->micro_batch);
}

/* second: of a unit, whose first action has run. */
static int32_t run(struct writer *k, const struct lw_action *a, bool second, const int32_t *deps,
                   int32_t n)
{
    struct lw_op op = lw_builder_blank(a->kind, k->compute);
    char name[32];

    snprintf(name, sizeof name, "%d%c%d", a->stage, lw_action_letter(a->kind), a->micro_batch);
    op.work = k->work[a->kind - LW_OP_FORWARD];
    if (k->d->pair > 0 && (second || a->with_next))
        op.work = k->of_unit[second];
    op.module = a->stage;
    op.stage = lw_grid_rank_of(k->g, a->stage, a->micro_batch);
    op.micro_batch = a->micro_batch;
    op.name = name;
    return lw_builder_op(k->b, &op, deps, n);
}

static void pass_message(struct writer *k, int32_t rank, const struct lw_grid_step *s, int32_t dep)
{
    const struct lw_action *a = lw_step_action(&k->order, s);
    struct link want = link_of(&k->order, s, rank);
    const struct link *x =
        bsearch(&want, k->links, (size_t)k->n_links, sizeof *k->links, compare_links);
    bool sends = s->kind == LW_GRID_SEND;
    struct lw_op op = lw_builder_blank(sends ? LW_OP_SEND : LW_OP_RECV,
                                       k->stream[x->backward][x->colour]);

    op.comm = k->comm[x->backward][x->colour];
    op.work_ps = k->d->comm;
    op.peer = s->peer;
    op.module = a->stage - x->backward; /* the boundary after it */
    op.stage = rank;
    op.micro_batch = a->micro_batch;
    int32_t at = lw_builder_op(k->b, &op, &dep, sends);
    if (!sends)
        *received(k, x->backward, lw_action_target(k->g, a), op.micro_batch) = at;
}

static void write_rank(struct writer *k, int32_t rank)
{
    const struct lw_grid_order *o = &k->order;
    int32_t last = -1, deps[2], n = 0;
    bool inside = false;

    for (int32_t i = o->first[rank]; i < o->first[rank + 1]; i++) {
        const struct lw_grid_step *s = &o->steps[i];
        const struct lw_action *a = lw_step_action(o, s);
        if (s->kind != LW_GRID_RUN) {
            pass_message(k, rank, s, last);
            continue;
        }
        if (!inside) {
            n = 0;
            deps[n] = input_of(k, a);
            n += deps[n] >= 0;
            for (int32_t j = i + 1; a->with_next && j < o->first[rank + 1]; j++) {
                if (o->steps[j].kind != LW_GRID_RUN)
                    continue;
                deps[n] = input_of(k, lw_step_action(o, &o->steps[j]));
                n += deps[n] >= 0;
                break;
            }
        }
        last = run(k, a, inside, deps, inside ? 0 : n);
        inside = a->with_next;
    }
}

static enum lw_status lower(struct writer *k, struct lw_err *err)
{
    int64_t values = 2L * k->g->n_stages * k->g->n_micro_batches;

    LW_TRY(lw_grid_order(k->g, false, &k->order, err));
    LW_TRY(list_links(k, err));
    LW_TRY(colour_links(k, err));
    LW_TRY(add_tables(k, err));
    LW_TAKE(&k->arena, k->received, values, err);
    memset(k->received, -1, (size_t)values * sizeof *k->received);
    int32_t variant = lw_builder_variant(k->b, "steady", "", true);
    for (int32_t r = 0; r < k->g->n_ranks; r++) {
        lw_builder_program(k->b, variant, r);
        write_rank(k, r);
    }
    lw_builder_pass(k->b, variant);
    lw_builder_repeat_from(k->b, 0);
    lw_builder_note(k->b, "a schedule's grid alone: durations are given, messages carry no bytes, "
                          "links are not contended");
    return LW_OK;
}

static struct lw_strategy strategy_of(const struct lw_grid *g, enum lw_schedule schedule)
{
    struct lw_strategy s = lw_strategy_default();

    s.schedule = schedule;
    s.pp = g->n_ranks;
    s.micro_batches = g->n_micro_batches;
    s.chunks = g->layout == LW_LAYOUT_BIDIR ? 2 : g->n_stages / g->n_ranks;
    if (s.chunks < 1)
        s.chunks = 1;
    return s;
}

enum lw_status lw_grid_plan(const struct lw_grid *g, const char *name, enum lw_schedule schedule,
                            const struct lw_grid_durations *d, struct lw_plan *plan,
                            struct lw_err *err)
{
    const struct lw_grid_costs costs = {d->f, d->i, d->w, d->comm, d->pair, false};
    struct writer k = {.g = g, .d = d};
    struct lw_strategy s = strategy_of(g, schedule);
    struct lw_plan made;

    LW_TRY(lw_grid_costs_check(&costs, err));
    if (d->b < 0)
        return lw_fail(err, LW_EINVAL, "--durations: found a backward of %lld ps, expected 0 or "
                                       "more", (long long)d->b);
    k.b = lw_builder_new(name, g->n_ranks);
    if (!k.b)
        return lw_fail_nomem(err);
    lw_builder_strategy(k.b, &s);
    enum lw_status status = lower(&k, err);
    lw_grid_order_free(&k.order);
    lw_arena_free(&k.arena);
    if (status != LW_OK) {
        lw_builder_free(k.b);
        return status;
    }
    LW_TRY(lw_builder_finish(k.b, &made, err));
    status = lw_plan_check(&made, err);
    LW_GIVE(status, plan, made, lw_plan_free(&made));
}
