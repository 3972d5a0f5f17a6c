/* Columns of a simulation, sized from the plan: programs as graphs, the passes to run, ranks,
 * slots, groups and their places. After this, only the queue, the pool of messages and their
 * channels grow, and those stop growing once they are large enough. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/plan/many_passes.h"
#include "shared/plan/spread.h"
#include "sim/cost/cost_closed_form.h"
#include "sim/cost/cost_nccl.h"
#include "sim/engine/engine.h"
#include "sim/engine/implied_edges.h"
#include "sim/engine/like_ops.h"
#include "sim/engine/merge_ops.h"

/* At least one, so that no column is empty. */
#define COLUMN(field, n) LW_TAKE(&e->arena, e->field, (int64_t)(n) + 1, e->err)

/* A row of a timeline with its share of what the engine and the measures take: 19 million took 0.4
 * GB and 3 s. */
enum { MOST_ROWS = 1 << 26, ROW_BYTES = 24, ROW_PS = 150000 };

static enum lw_status count_passes(struct sim_engine *e, int32_t *n_passes)
{
    const struct lw_many_passes wanted = {.n_steps = e->options.n_steps,
                                          .n_warmup = lw_plan_warmup_steps(e->plan),
                                          .most = MOST_ROWS,
                                          .each = ROW_PS,
                                          .bytes = e->wants_rows ? ROW_BYTES : 0,
                                          .what = "simulated"};
    enum lw_status status = lw_plan_check_passes(e->plan, &wanted, &e->arena, n_passes, e->err);

    e->too_many = status == LW_EINVAL;
    return status;
}

static enum lw_status prepare_passes(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    int32_t step = 0, in_step = 0;

    LW_TRY(count_passes(e, &e->n_passes));
    COLUMN(passes, e->n_passes);
    for (int32_t i = 0; i < e->n_passes; i++) {
        e->passes[i] = (struct sim_pass){lw_plan_variant_of_pass(p, i), step, in_step++, 0};
        if (p->variants[e->passes[i].variant].ends_step) {
            step++;
            in_step = 0;
        }
    }
    return LW_OK;
}

static enum lw_status make_rows(struct sim_engine *e, int64_t n)
{
    const struct lw_plan *p = e->plan;
    int64_t n_ranks = p->n_ranks;

    LW_TRY(lw_packed_new(p, e->n_passes * n_ranks, n, &e->rows, e->err));
    for (int64_t i = 0; i < e->n_passes * n_ranks; i++) {
        const struct sim_pass *pass = &e->passes[i / n_ranks];
        int32_t rank = (int32_t)(i % n_ranks);
        *lw_packed_run_at(e->rows, i) = (struct lw_packed_run){
            .first = pass->row + e->variant_row[pass->variant * n_ranks + rank],
            .step = pass->step,
            .pass = pass->in_step,
            .rank = rank,
            .first_op = lw_plan_program(p, pass->variant, rank).first_op};
    }
    lw_packed_runs_done(e->rows);
    return LW_OK;
}

/* Rows of the timeline: pass by pass, rank by rank, op by op, which is its sorted order. */
static enum lw_status prepare_rows(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    int64_t n = 0, *of_variant, *n_ops;

    COLUMN(variant_row, (int64_t)p->n_variants * p->n_ranks);
    LW_TAKE(&e->arena, of_variant, p->n_variants + 1, e->err);
    LW_TAKE(&e->arena, n_ops, p->n_variants + 1, e->err);
    for (int32_t v = 0; v < p->n_variants; v++) {
        for (int32_t r = 0; r < p->n_ranks; r++) {
            e->variant_row[(int64_t)v * p->n_ranks + r] = of_variant[v];
            of_variant[v] += lw_plan_program(p, v, r).n_ops;
            n_ops[v] += (int64_t)lw_plan_program(p, v, r).n_ops * sim_n_alike(e, r);
        }
    }
    for (int32_t i = 0; i < e->n_passes; i++) {
        e->passes[i].row = n;
        n += of_variant[e->passes[i].variant];
        e->stats->n_ops += n_ops[e->passes[i].variant];
    }
    e->n_rows = n;
    return e->wants_rows ? make_rows(e, n) : LW_OK;
}

/* Communicators of collectives alone have the library's workers; messages, and the chunks of chunk
 * detail, go one by one. */
static enum lw_status choose_workers(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    struct lw_figure f = e->cluster->interference.comm_workers;

    e->n_workers = 1;
    if (!lw_figure_is_set(f) || f.value < 2 || e->options.detail == LW_SIM_CHUNK)
        return LW_OK;
    if (f.value > 1024)
        return lw_fail(e->err, LW_ENOTSUP, "cluster '%s': %g comm_workers, at most 1024",
                       e->cluster->name, f.value);
    COLUMN(pooled, p->n_comms);
    for (int32_t c = 0; c < p->n_comms; c++)
        e->pooled[c] = true;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(p, i);
        if (op->comm >= 0 && lw_op_class(op->kind) != LW_CLASS_COLLECTIVE)
            e->pooled[op->comm] = false;
    }
    e->n_workers = (int32_t)f.value;
    return LW_OK;
}

/* Messages and collectives are no work. */
static bool is_timed_by_cluster(const struct lw_plan *p, const struct lw_op *op)
{
    enum lw_op_class class_ = lw_op_class(op->kind);

    return op->operand < 0 && class_ != LW_CLASS_P2P && class_ != LW_CLASS_COLLECTIVE &&
           lw_plan_work_ps(p, op) < 0;
}

static enum lw_status prepare_work(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    int32_t first = 0;

    while (first < p->n_ops && !is_timed_by_cluster(p, LW_OP_HELD(p, first)))
        first++;
    if (first == p->n_ops)
        return LW_OK;
    COLUMN(work, p->n_ops);
    memset(e->work, -1, (size_t)p->n_ops * sizeof *e->work);
    for (int32_t i = first; i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(p, i);
        struct sim_work work;
        if (!is_timed_by_cluster(p, op))
            continue;
        LW_TRY(sim_work_of(p, e->cluster, i, op, op->bytes, &work, e->err));
        e->work[i] = work.time >= 0 ? work.time : -1;
    }
    return LW_OK;
}

/* [n_roles * n_comms]: of the groups that the role's ranks are in, one member is simulated. */
static enum lw_status find_single_members(const struct sim_engine *e, struct lw_arena *room,
                                          bool **out)
{
    const struct lw_plan *p = e->plan;
    bool *single;

    LW_TAKE(room, single, (int64_t)p->n_roles * p->n_comms + 1, e->err);
    memset(single, true, (size_t)p->n_roles * (size_t)p->n_comms * sizeof *single);
    for (int32_t c = 0; c < p->n_comms; c++) {
        for (int32_t r = 0; r < p->n_ranks; r++) {
            int32_t place = e->place_of[(int64_t)c * p->n_ranks + r];
            if (place < 0 || e->groups[e->ring[place].group].n_places != 1)
                single[(int64_t)lw_plan_role_of(p, r) * p->n_comms + c] = false;
        }
    }
    *out = single;
    return LW_OK;
}

/* How long an op takes depends on its rank alone. single[n_comms]: of its role. */
static bool is_alone(const struct lw_op *op, const bool *single)
{
    switch (lw_op_class(op->kind)) {
    case LW_CLASS_P2P: return false;
    case LW_CLASS_COLLECTIVE: return op->comm >= 0 && single[op->comm];
    default: return true;
    }
}

/* What is merged: a program, and its units by their numbers. */
struct to_merge {
    const struct sim_like_ops *of_ops;
    struct sim_program each;
    int32_t *like;  /* [n_units] */
    uint8_t *facts; /* [n_units] of enum sim_merge_fact */
    bool contention;
};

enum { NO_DEVICE_STREAM = -1, SEVERAL_STREAMS = -2 };

/* The stream of all compute and copies; number[n]: those that the program has. */
static int32_t device_stream(const struct sim_engine *e, const struct sim_like_ops *of_ops,
                             const int32_t *number, int32_t n)
{
    int32_t stream = NO_DEVICE_STREAM;

    for (int32_t i = 0; i < n; i++) {
        const struct lw_op *op = LW_OP_HELD(e->plan, of_ops->first[number[i]]);
        if (!sim_is_on_device(op) || op->stream == stream)
            continue;
        if (stream != NO_DEVICE_STREAM)
            return SEVERAL_STREAMS;
        stream = op->stream;
    }
    return stream;
}

/* x->like, the numbers in it, each once, and room for x->facts. */
static enum lw_status number_units(const struct sim_engine *e, struct lw_arena *room,
                                   struct to_merge *x, int32_t **number, int32_t *n)
{
    const struct sim_program *p = &x->each;
    bool *there;

    LW_TAKE(room, there, x->of_ops->n + 1, e->err);
    x->like = lw_arena_room(room, p->n_units + INT64_C(1), sizeof *x->like);
    x->facts = lw_arena_room(room, p->n_units + INT64_C(1), sizeof *x->facts);
    *number = lw_arena_room(room, x->of_ops->n + INT64_C(1), sizeof **number);
    if (!x->like || !x->facts || !*number)
        return lw_fail_nomem(e->err);
    for (int32_t u = 0; u < p->n_units; u++) {
        int32_t k = sim_like_of(x->of_ops, e->plan, sim_part(p, sim_first_part(p, u)));
        x->like[u] = k;
        if (there[k])
            continue;
        there[k] = true;
        (*number)[(*n)++] = k;
    }
    return LW_OK;
}

/* What each unit is for the merge, by its number. There is contention where channels hold SMs and
 * something that they are taken from. */
static enum lw_status find_facts(const struct sim_engine *e, const bool *single,
                                 struct lw_arena *room, struct to_merge *x)
{
    int32_t *number, n = 0;
    uint8_t *of_number;

    LW_TRY(number_units(e, room, x, &number, &n));
    LW_TAKE(room, of_number, x->of_ops->n + 1, e->err);
    int32_t stream = e->terms.channels_alone ? device_stream(e, x->of_ops, number, n)
                                             : NO_DEVICE_STREAM;
    x->contention = stream != NO_DEVICE_STREAM;
    for (int32_t i = 0; i < n; i++) {
        const struct lw_op *op = LW_OP_HELD(e->plan, x->of_ops->first[number[i]]);
        uint8_t *is = &of_number[number[i]];
        *is |= is_alone(op, single) ? SIM_ALONE : 0;
        *is |= lw_op_class(op->kind) == LW_CLASS_COLLECTIVE ? SIM_HOLDS : 0;
        *is |= op->stream == stream ? SIM_ORDERS : 0;
    }
    for (int32_t u = 0; u < x->each.n_units; u++)
        x->facts[u] = of_number[x->like[u]];
    return LW_OK;
}

static enum lw_status merge_program(struct sim_engine *e, struct to_merge *x, const bool *single,
                                    struct lw_arena *room, struct sim_program *out)
{
    LW_TRY(find_facts(e, single, room, x));
    LW_TRY(sim_program_merge(&x->each, x->facts, x->like, x->contention, &e->arena, out, e->err));
    for (int32_t u = 0, n = 0; n < out->n_merged; u++) {
        if (out->merged_of[u] != n) /* not the first of its shape */
            continue;
        struct sim_merged *shape = &out->merged[n++];
        for (int32_t i = sim_first_part(out, u); i < sim_first_part(out, u + 1); i++) {
            const struct lw_op *op = LW_OP_HELD(e->plan, sim_part(out, i));
            shape->by_rank |= sim_known_work(e, sim_part(out, i)) < 0 || op->comm >= 0;
        }
    }
    return LW_OK;
}

static enum lw_status make_merged(struct sim_engine *e, struct lw_arena *room)
{
    const struct lw_plan *p = e->plan;
    struct sim_like_ops like;
    int32_t most = 0;
    bool *single;

    LW_TRY(find_single_members(e, room, &single));
    LW_TRY(sim_like_make(e, room, &like));
    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++) {
        struct to_merge x = {.of_ops = &like};
        struct lw_arena one = {0};
        enum lw_status status = sim_program_make_lean(p, p->programs[i], &one, &x.each, e->err);
        if (status == LW_OK)
            status = merge_program(e, &x, single + i % p->n_roles * p->n_comms, &one,
                                   &e->programs[i]);
        lw_arena_free(&one);
        LW_TRY(status);
        most = e->programs[i].most_merged > most ? e->programs[i].most_merged : most;
    }
    COLUMN(part_start, most);
    if (e->terms.channels_alone) {
        COLUMN(part, most);
        COLUMN(running, most);
    }
    return LW_OK;
}

enum { MANY_OPS = 1 << 20 }; /* what merging them took goes back to the system */

/* Merged where what an op takes does not depend on what runs beside it, but for the SMs that
 * channels hold, and nothing is drawn. */
static enum lw_status prepare_programs(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    int64_t n = (int64_t)p->n_variants * p->n_roles;
    struct lw_arena room = {0};

    COLUMN(programs, n);
    e->merges = !e->options.no_merge && e->options.detail == LW_SIM_COLLECTIVE &&
                (!e->terms.dynamic || e->terms.channels_alone) && !e->pooled &&
                e->compute_sigma <= 0 && e->comm_sigma <= 0;
    if (e->merges) {
        enum lw_status status = make_merged(e, &room);
        lw_arena_free(&room);
        if (p->n_ops >= MANY_OPS)
            lw_alloc_trim();
        return status;
    }
    for (int64_t i = 0; i < n; i++)
        LW_TRY(sim_program_make(p, p->programs[i], e->pooled, &e->arena, &e->programs[i], e->err));
    return LW_OK;
}

/* Units, and pooled ones, of the largest program of a role. */
struct most {
    int32_t units, pooled;
};

static struct most most_of(const struct sim_engine *e, int32_t role)
{
    struct most most = {0, 0};

    for (int32_t v = 0; v < e->plan->n_variants; v++) {
        const struct sim_program *x = &e->programs[(int64_t)v * e->plan->n_roles + role];
        most.units = x->n_units > most.units ? x->n_units : most.units;
        most.pooled = x->n_pooled > most.pooled ? x->n_pooled : most.pooled;
    }
    return most;
}

static enum lw_status prepare_ranks(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    int64_t n_wait = 0, n_pooled = 0, n_slots = (int64_t)p->n_ranks * p->n_streams;
    int32_t *wait;

    COLUMN(ranks, p->n_ranks);
    COLUMN(slots, n_slots);
    COLUMN(dirty_ranks, p->n_ranks);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        struct most most = most_of(e, lw_plan_role_of(p, r));
        n_pooled += most.pooled;
        n_wait += most.units;
    }
    LW_TAKE(&e->arena, wait, n_wait + 1, e->err);
    for (int32_t r = 0; r < p->n_ranks; wait += most_of(e, lw_plan_role_of(p, r++)).units) {
        e->ranks[r].active_message = -1;
        e->ranks[r].memory_level = SIM_FULL_RATE;
        e->ranks[r].wait = wait;
    }
    e->ready_capacity = n_slots + n_pooled + 1;
    COLUMN(ready, e->ready_capacity);
    return LW_OK;
}

/* A rank whose work takes a drawn factor as long; at most a hundred times faster. */
static int64_t drawn_speed(const struct sim_engine *e, int32_t rank, int64_t speed)
{
    lw_ps takes = sim_noisy(e->options.seed, (uint64_t)rank, UINT64_C(3) << 32, 0,
                            e->options.rank_sigma, SIM_FULL_RATE);

    takes = takes > SIM_FULL_RATE / 100 ? takes : SIM_FULL_RATE / 100;
    __int128 drawn = (__int128)speed * SIM_FULL_RATE / takes;
    return drawn > 1 ? (int64_t)drawn : 1;
}

static enum lw_status apply_exceptions(struct sim_engine *e)
{
    int32_t n = e->given->n_ranks, unlike = sim_ranks_with_speeds(e->cluster, n);
    int64_t *speed; /* of ranks below unlike, then of all others */
    lw_ps *late;

    LW_TAKE(&e->arena, speed, unlike + 1, e->err);
    LW_TAKE(&e->arena, late, unlike + 1, e->err);
    sim_speeds(e->cluster, unlike + 1, speed, late);
    for (int32_t r = 0; r < e->plan->n_ranks; r++) {
        int32_t given = sim_given_rank(e, r), at = given < unlike ? given : unlike;
        e->ranks[r].speed = e->options.rank_sigma > 0 ? drawn_speed(e, given, speed[at])
                                                      : speed[at];
        e->ranks[r].late = late[at];
    }
    for (int32_t i = 0; i < e->cluster->n_exceptions; i++) {
        const struct lw_exception *x = &e->cluster->exceptions[i];
        e->slow_links |= x->rank >= 0 && x->rank < n && x->rank_to >= 0 && x->speed != 1;
    }
    return LW_OK;
}

/* The places of a group in their order: the first member of each class, where ranks are folded. */
static void fill_places(struct sim_engine *e, int32_t g, const struct lw_group *given)
{
    const struct lw_plan *p = e->plan;
    const struct lw_group *x = &p->groups[g];
    int32_t j = 0;

    for (int32_t i = 0; i < x->n_members; i++) {
        struct sim_ring_place *m = &e->ring[x->first_member + i];
        m->rank = lw_plan_member_at(p, x->first_member + i);
        m->group = g * e->n_workers;
        m->next = x->first_member + (i + 1 < x->n_members ? i + 1 : 0);
        while (sim_run_rank(e, lw_plan_member_of(e->given, given, j)) != m->rank)
            j++;
        m->from = lw_plan_member_of(e->given, given, j);
        m->to = lw_plan_member_of(e->given, given, (j + 1) % given->n_members);
    }
}

static void fill_group(struct sim_engine *e, int32_t g)
{
    const struct lw_plan *p = e->plan;
    const struct lw_group *given = &e->given->groups[e->fold ? e->fold->group_of[g] : g];
    struct sim_group *x = &e->groups[(int64_t)g * e->n_workers];

    *x = (struct sim_group){.comm = -1, .first = p->groups[g].first_member,
                            .n_places = p->groups[g].n_members, .n = given->n_members,
                            .known_time = -1, .known_share = -1, .core_share = -1,
                            .link_rate = SIM_FULL_RATE, .fair_rate = SIM_FULL_RATE,
                            .flow = -1, .turn = -1};
    struct lw_spread at = lw_plan_spread(e->given, e->cluster->devices_per_node, given);
    x->n_nodes = at.n_nodes;
    x->fewest = at.fewest;
    x->alone = x->n == e->given->n_ranks;
    for (int32_t k = 1; k < e->n_workers; k++)
        x[k] = x[0];
    fill_places(e, g, given);
}

static enum lw_status prepare_groups(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    int32_t largest = 0;

    if ((int64_t)p->n_groups * e->n_workers > INT32_MAX ||
        (int64_t)p->n_members * e->n_workers > INT32_MAX)
        return lw_fail(e->err, LW_ENOTSUP, "%d members of %d groups with %d workers each: at most "
                       "2^31 in all", p->n_members, p->n_groups, e->n_workers);
    COLUMN(groups, (int64_t)p->n_groups * e->n_workers);
    COLUMN(dirty_groups, (int64_t)p->n_groups * e->n_workers);
    COLUMN(ring, p->n_members);
    COLUMN(place_unit, (int64_t)p->n_members * e->n_workers);
    COLUMN(place_turn, (int64_t)p->n_members * e->n_workers);
    COLUMN(place_of, (int64_t)p->n_comms * p->n_ranks);
    memset(e->place_unit, 0xff,
           (size_t)p->n_members * (size_t)e->n_workers * sizeof *e->place_unit);
    memset(e->place_of, 0xff, (size_t)p->n_comms * (size_t)p->n_ranks * sizeof *e->place_of);
    for (int32_t g = 0; g < p->n_groups; g++) {
        fill_group(e, g);
        largest = p->groups[g].n_members > largest ? p->groups[g].n_members : largest;
    }
    for (int32_t i = 0; i < 4; i++)
        COLUMN(ring_scratch[i], largest);
    for (int32_t c = 0; c < p->n_comms; c++) {
        for (int32_t r = 0; r < p->n_ranks; r++) {
            int32_t g = lw_plan_group_of(p, c, r);
            if (g < 0)
                continue;
            struct sim_group *x = &e->groups[(int64_t)g * e->n_workers];
            if (x->comm >= 0 && x->comm != c)
                return lw_fail(e->err, LW_EPLAN, "group %d belongs to two communicators, %s and %s",
                               g, p->comms[x->comm].name, p->comms[c].name);
            for (int32_t k = 0; k < e->n_workers; k++)
                x[k].comm = c;
        }
    }
    for (int32_t i = 0; i < p->n_members; i++) {
        int32_t c = e->groups[e->ring[i].group].comm;
        if (c >= 0)
            e->place_of[(int64_t)c * p->n_ranks + e->ring[i].rank] = i;
    }
    return LW_OK;
}

/* Classes whose collectives go message by message, as bits; more than 63 count as shared. */
static enum lw_status links_are_shared(const struct sim_engine *e, bool *shared)
{
    const struct lw_plan *p = e->plan;
    uint64_t chunked = 0;

    *shared = p->n_comms > 63;
    for (int32_t i = 0; !*shared && i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(p, i);
        struct lw_cost_query q = {.op = op->kind, .n_ranks = 2, .n_nodes = 1};
        bool by_messages;
        if (op->comm < 0 || lw_op_class(op->kind) != LW_CLASS_COLLECTIVE)
            continue;
        q.algorithm = sim_reducer_of(e, op->comm, op->kind);
        LW_TRY(sim_goes_by_messages(e->cluster, &q, &by_messages, e->err));
        if (by_messages) /* of any shape: what auto chooses is an all-reduce */
            chunked |= UINT64_C(1) << op->comm;
    }
    for (int32_t r = 0; !*shared && r < p->n_ranks; r++) {
        int32_t n = 0;
        for (int32_t c = 0; c < p->n_comms; c++) {
            int32_t place = e->place_of[(int64_t)c * p->n_ranks + r];
            n += (chunked >> c & 1) && place >= 0 && e->groups[e->ring[place].group].n > 1;
        }
        *shared = n > 1;
    }
    return LW_OK;
}

static enum lw_status choose_ring(struct sim_engine *e)
{
    bool shared = false;

    if (e->options.detail == LW_SIM_CHUNK)
        LW_TRY(links_are_shared(e, &shared));
    if (shared && e->options.ring == LW_SIM_RING_RECURRENCE)
        return lw_fail(e->err, LW_EINVAL,
                       "--ring recurrence needs links that no two collectives share, and "
                       "collectives of two communicators use the links of one rank: choose "
                       "--ring events or auto");
    e->ring_by_events = e->options.detail == LW_SIM_CHUNK &&
                        (e->options.ring == LW_SIM_RING_EVENTS || shared);
    e->stats->ring_by_events = e->ring_by_events;
    return LW_OK;
}

/* An operation that a communicator's reducer neither does nor leaves to the ring is refused. */
static enum lw_status check_reducers(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    uint64_t *seen; /* kinds, of each communicator */

    LW_TAKE(&e->arena, seen, p->n_comms + 1, e->err);
    for (int32_t i = 0; i < p->n_ops && !e->options.cost; i++) {
        const struct lw_op *op = LW_OP_HELD(p, i);
        if (lw_op_class(op->kind) != LW_CLASS_COLLECTIVE || op->kind == LW_OP_BARRIER ||
            (seen[op->comm] >> op->kind & 1) || lw_plan_work_ps(p, op) > 0)
            continue;
        seen[op->comm] |= UINT64_C(1) << op->kind;
        enum lw_reducer_kind k = sim_reducer_of(e, op->comm, op->kind);
        bool by_table = k == LW_REDUCER_AUTO || k == LW_REDUCER_RING || k == LW_REDUCER_GLOO;
        if (sim_nccl_is_asked(e->cluster, k) && e->options.detail == LW_SIM_CHUNK)
            return lw_fail(
                e->err, LW_ENOTSUP,
                "communicator '%s': the messages of reducer %s are not modelled: choose --detail "
                "collective, or --collective-algorithm auto for a ring at chunk detail",
                p->comms[op->comm].name, lw_reducer_name(k));
        by_table |= sim_nccl_is_asked(e->cluster, k);
        if (!by_table && !sim_algorithm_does(k, op->kind))
            return lw_fail(e->err, LW_ENOTSUP,
                           "communicator '%s': reducer %s has no model of %s; choose "
                           "--collective-algorithm auto or ring, or see 'lapwing cost --algorithm'",
                           p->comms[op->comm].name, lw_reducer_name(k), lw_op_name(op->kind));
    }
    return LW_OK;
}

void sim_remark(struct lw_sim_stats *s, const char *fmt, ...)
{
    va_list ap;
    int32_t same = 0;

    if (s->n_remarks == LW_SIM_MAX_REMARKS)
        return;
    va_start(ap, fmt);
    vsnprintf(s->remarks[s->n_remarks], sizeof s->remarks[0], fmt, ap);
    va_end(ap);
    while (strcmp(s->remarks[same], s->remarks[s->n_remarks]) != 0)
        same++;
    s->n_remarks += same == s->n_remarks;
}

static void say(void *stats, const char *remark)
{
    sim_remark(stats, "%s", remark);
}

enum lw_status sim_prepare(struct sim_engine *e)
{
    const struct lw_plan *p = e->plan;
    if ((int64_t)p->n_ranks * p->n_streams > INT32_MAX)
        return lw_fail(e->err, LW_ENOTSUP, "%d ranks with %d streams: at most 2^31 streams in all",
                       p->n_ranks, p->n_streams);
    e->terms = sim_terms_of(e->cluster);
    e->jitter = sim_range_of(e->options.jitter_ps);
    e->skew = sim_range_of(e->options.start_skew_ps);
    e->compute_sigma = sim_compute_sigma(e->cluster, &e->options);
    e->comm_sigma = sim_comm_sigma(e->cluster, &e->options);
    e->spread = sim_spread_parts(e->cluster, &e->options, e->given->n_ranks);
    LW_TRY(check_reducers(e));
    LW_TRY(prepare_passes(e));
    LW_TRY(prepare_work(e));
    LW_TRY(choose_workers(e));
    LW_TRY(prepare_groups(e));
    LW_TRY(prepare_programs(e));
    LW_TRY(prepare_ranks(e));
    LW_TRY(apply_exceptions(e));
    if (!e->options.cost)
        LW_TRY(sim_nccl_check_plan(e->cluster, e->given, say, e->stats, e->err));
    LW_TRY(prepare_rows(e));
    if (e->terms.fair_links)
        LW_TRY(sim_net_prepare(e));
    return choose_ring(e);
}
