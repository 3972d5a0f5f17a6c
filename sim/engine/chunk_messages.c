/* Collectives of other algorithms than the ring, message by message: when the last member is in,
 * the messages of sim/cost/collective_messages.c are run with every member's entry, the speed of
 * every link and the jitter of every message, and the members' ends are events. As with the ring's
 * recurrence, messages are not re-timed by what runs beside them, and links belong to one
 * communicator: where two share a link, prepare.c refuses. No member ends before the last one has
 * entered (the root of a broadcast, whose messages are buffered, could).
 *
 * An operation that a communicator's reducer does not support uses the ring, as libraries and the
 * executor have it; trees, levels and hfreduce are for all-reduces. The result lists it. */
#include "sim/cost/cost_closed_form.h"
#include "sim/cost/cost_library.h"
#include "sim/engine/engine.h"

enum lw_reducer_kind sim_reducer_of(const struct sim_engine *e, int32_t comm, enum lw_op_kind op)
{
    enum lw_reducer_kind k = e->plan->comms[comm].reducer;

    if (!(lw_reducer_is(k) & LW_REDUCER_ALGORITHM))
        return k; /* auto and gloo, which tables speak for; nvls and mpi, which are refused */
    if ((lw_reducer_is(k) & LW_REDUCER_OF_SUMS) && op != LW_OP_ALL_REDUCE)
        return LW_REDUCER_RING;
    return sim_algorithm_does(k, op) ? k : LW_REDUCER_RING;
}

enum lw_status sim_is_scheduled(const struct lw_cluster *c, const struct lw_cost_query *q,
                                bool *scheduled, struct lw_err *err)
{
    enum lw_reducer_kind k;

    LW_TRY(sim_algorithm_of(c, q, &k, err));
    *scheduled = k != LW_REDUCER_AUTO && k != LW_REDUCER_RING && k != LW_REDUCER_GLOO &&
                 sim_algorithm_does(k, q->op);
    return LW_OK;
}

enum lw_status sim_goes_by_messages(const struct lw_cluster *c, const struct lw_cost_query *q,
                                    bool *by_messages, struct lw_err *err)
{
    *by_messages = sim_ring_steps(q->op, q->n_ranks) > 0;
    return *by_messages ? LW_OK : sim_is_scheduled(c, q, by_messages, err);
}

const int32_t *sim_given_members(const struct sim_engine *e, int32_t group)
{
    int32_t g = group / e->n_workers;

    g = e->fold ? e->fold->group_of[g] : g;
    return e->given->members + e->given->groups[g].first_member;
}

static double speed_of(const void *ctx, int32_t from, int32_t to)
{
    return sim_link_speed(ctx, from, to);
}

/* Exchanges in levels need the members of a node next to each other, and as many on each. */
static enum lw_status check_levels(const struct sim_engine *e, const struct sim_schedule *s,
                                   const int32_t *ranks)
{
    int32_t per_node = e->cluster->devices_per_node;
    bool levels = lw_reducer_is(s->algorithm) & LW_REDUCER_IN_LEVELS;

    for (int32_t i = 1; levels && i < s->n; i++)
        if ((ranks[i] / per_node == ranks[i - 1] / per_node) != (i % s->per_node != 0))
            return lw_fail(
                e->err, LW_ENOTSUP,
                "%s: ranks %d and %d follow each other in a group of %d on %d nodes: the members "
                "of a node must be consecutive, the same number on each",
                lw_reducer_name(s->algorithm), ranks[i - 1], ranks[i], s->n, s->n_nodes);
    return LW_OK;
}

static enum lw_status root_of(const struct sim_engine *e, const struct sim_group *g,
                              const int32_t *ranks, int32_t *root)
{
    const struct lw_op *op = LW_OP_HELD(e->plan, g->first_op);
    int32_t peer = lw_plan_operand(e->plan, op, g->first_rank).peer;

    *root = 0;
    if (op->kind != LW_OP_BROADCAST && op->kind != LW_OP_REDUCE)
        return LW_OK;
    while (*root < g->n && ranks[*root] != peer)
        ++*root;
    if (*root < g->n)
        return LW_OK;
    return lw_plan_op_fail(e->plan, g->first_op, e->err,
                           ": rank %d, its root, is in no group of its members", peer);
}

/* The messages of the current collective and their links. */
static enum lw_status schedule_of(struct sim_engine *e, int32_t group, bool slow,
                                  struct sim_schedule *s, struct sim_group_links *links)
{
    const struct sim_group *g = &e->groups[group];
    struct lw_cost_query q = g->query;
    const int32_t *ranks = sim_given_members(e, group);
    int32_t root;

    LW_TRY(sim_algorithm_of(e->cluster, &g->query, &q.algorithm, e->err));
    if (!g->scheduled) /* timed by a model without messages, as NCCL's: its links form a ring */
        q.algorithm = LW_REDUCER_RING;
    LW_TRY(root_of(e, g, ranks, &root));
    LW_TRY(sim_algorithm_schedule(e->cluster, &q, root, s, links, e->err));
    enum lw_status status = check_levels(e, s, ranks);
    if (status != LW_OK)
        sim_schedule_free(s);
    links->ranks = ranks;
    links->speed = slow ? speed_of : NULL;
    links->ctx = e;
    return status;
}

/* --- at collective detail: what slow links add --- */

static enum lw_status time_from_zero(struct sim_engine *e, int32_t group, bool slow, lw_ps *time)
{
    int32_t n = e->groups[group].n;
    lw_ps *entry = lw_alloc((size_t)n * sizeof *entry), *end = lw_alloc((size_t)n * sizeof *end);
    struct sim_schedule s;
    struct sim_group_links links;
    enum lw_status status = entry && end ? LW_OK : lw_fail_nomem(e->err);

    if (status == LW_OK)
        status = schedule_of(e, group, slow, &s, &links);
    if (status == LW_OK) {
        const struct sim_links of = {sim_group_link_time, &links, NULL};
        for (int32_t i = 0; i < n; i++)
            entry[i] = 0;
        status = sim_schedule_run(&s, entry, &of, end, NULL, e->err);
        sim_schedule_free(&s);
    }
    *time = 0;
    for (int32_t i = 0; status == LW_OK && i < n; i++)
        if (end[i] > *time)
            *time = end[i];
    lw_free(entry);
    lw_free(end);
    return status;
}

enum lw_status sim_messages_extra(struct sim_engine *e, int32_t group, lw_ps *extra)
{
    lw_ps with, without;

    LW_TRY(time_from_zero(e, group, true, &with));
    LW_TRY(time_from_zero(e, group, false, &without));
    *extra = with - without;
    return LW_OK;
}

/* --- at chunk detail --- */

enum lw_status sim_messages_enter(struct sim_engine *e, int32_t place)
{
    struct sim_ring_place *m = &e->ring[place];
    const struct sim_group *g = &e->groups[m->group];
    enum lw_reducer_kind k;
    char text[LW_OP_TEXT];

    if (e->ring_by_events) {
        LW_TRY(sim_algorithm_of(e->cluster, &g->query, &k, e->err));
        return lw_fail(e->err, LW_ENOTSUP,
                       "%s: at chunk detail only rings can share links or go by events; "
                       "its communicator '%s' goes by %s: choose --detail collective or "
                       "--collective-algorithm ring",
                       lw_plan_op_text(e->plan, g->first_op, text), e->plan->comms[g->comm].name,
                       lw_reducer_name(k));
    }
    m->sent_done = e->now;
    sim_member_moving(e, g, m->rank, g->query.op, 1);
    return LW_OK;
}

struct with_jitter {
    struct sim_group_links links;
    const struct sim_engine *e;
    int32_t first;
    uint64_t seed;
};

static void link_time(const void *ctx, const struct sim_transfer *m, int64_t bytes, lw_ps *time,
                      lw_ps *latency)
{
    sim_group_link_time(&((const struct with_jitter *)ctx)->links, m, bytes, time, latency);
}

/* A member's messages count from its first on the communicator; hosts have none of their own. */
static lw_ps jitter(const void *ctx, int32_t from, int64_t step)
{
    const struct with_jitter *j = ctx;

    if (from >= j->links.s->n)
        return 0;
    const struct sim_ring_place *m = &j->e->ring[j->first + from];
    return sim_jitter(j->seed, j->e->jitter, m->rank, m->n_before + (uint64_t)step - 1);
}

enum lw_status sim_messages_all_in(struct sim_engine *e, int32_t group)
{
    const struct sim_group *g = &e->groups[group];
    lw_ps *entry = e->ring_scratch[0], *end = e->ring_scratch[1];
    struct sim_schedule s;
    struct with_jitter j = {.e = e, .first = g->first,
                            .seed = sim_seed_of(e->options.seed, (uint64_t)g->comm)};
    int64_t n_messages;

    LW_TRY(schedule_of(e, group, e->slow_links, &s, &j.links));
    const struct sim_links links = {link_time, &j, e->options.jitter_ps > 0 ? jitter : NULL};
    for (int32_t i = 0; i < g->n; i++)
        entry[i] = e->ring[g->first + i].sent_done;
    enum lw_status status = sim_schedule_run(&s, entry, &links, end, &n_messages, e->err);
    int64_t n_steps = s.n_steps;
    sim_schedule_free(&s);
    LW_TRY(status);
    e->stats->n_messages += n_messages;
    for (int32_t i = 0; i < g->n; i++) {
        struct sim_ring_place *m = &e->ring[g->first + i];
        m->steps = m->got = (int32_t)n_steps;
        LW_TRY(sim_post(e, end[i] > e->now ? end[i] : e->now, SIM_CHUNK_END, 0, g->first + i));
    }
    return LW_OK;
}
