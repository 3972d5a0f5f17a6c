/* A step as a GOAL schedule in which every time is a calculation, in picoseconds, and messages cost
 * nothing (L = o = g = G = O = 0): any LogGOPS simulator comes to the step's time.
 *
 * Each stream of a rank is a rank of the schedule, a chain of ops, because LogGOPSim does not delay
 * an op that waits for one on another processor of its rank; so what waits across streams is told
 * by a message of a byte. Members of a collective tell their first one that they are there, it
 * tells them that all are, and then each computes for the time of the collective. The ends of a
 * message tell each other. The messages of a group call run beside each other: each on a rank of
 * its own. */

#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "traces/export/export_graph.h"

struct line {                /* of one rank of the schedule, in order */
    int32_t rank, peer, tag; /* tag -1: a calculation */
    lw_ps time;              /* -1: a send; -2: a receive */
    int64_t number;          /* that keeps the order */
};

struct maker {
    const struct lw_export_graph *g;
    struct lw_err *err;
    struct lw_arena *arena;
    int64_t n, cap;
    struct line *lines;
    int32_t n_streams, n_slots, n_places, tag;
    int32_t *place;       /* [n_ranks * (n_streams + n_slots)] rank of the schedule + 1 */
    int32_t *slot_of;     /* [nodes] of messages in calls; -1 */
    int64_t *n_cross;     /* [nodes] */
    int32_t *first_tag;   /* [meetings] */
    int64_t *first_after; /* [nodes + 1] into after */
    struct cross *after;  /* by node: who waits for it on other streams */
};

struct cross {
    int64_t node; /* that waits */
    int32_t tag;
};

static int32_t place_of(struct maker *m, int32_t rank, int32_t stream)
{
    int32_t *p = &m->place[(int64_t)rank * (m->n_streams + m->n_slots) + stream];

    if (*p == 0)
        *p = ++m->n_places;
    return *p - 1;
}

static enum lw_status put(struct maker *m, int32_t at, int32_t peer, int32_t tag, lw_ps time)
{
    LW_ROOM(m->lines, m->cap, m->n + 1, m->err);
    m->lines[m->n] = (struct line){at, peer, tag, time, m->n};
    m->n++;
    return LW_OK;
}

static enum lw_status send(struct maker *m, int32_t from, int32_t to, int32_t tag)
{
    return from == to ? LW_OK : put(m, from, to, tag, -1);
}

static enum lw_status receive(struct maker *m, int32_t at, int32_t from, int32_t tag)
{
    return from == at ? LW_OK : put(m, at, from, tag, -2);
}

static enum lw_status compute(struct maker *m, int32_t at, lw_ps time)
{
    return time > 0 ? put(m, at, -1, -1, time) : LW_OK;
}

static struct lw_op op_of(const struct maker *m, int64_t node)
{
    return lw_op_at(m->g->plan, m->g->nodes[node].op);
}

static int32_t stream_place(struct maker *m, int32_t rank, int64_t node)
{
    return place_of(m, rank, op_of(m, node).stream);
}

/* Where the ends of a message compute: their streams, or in a call a rank of their own. */
static int32_t message_place(struct maker *m, int32_t rank, int64_t node)
{
    return m->slot_of[node] < 0 ? stream_place(m, rank, node)
                                : place_of(m, rank, m->n_streams + m->slot_of[node]);
}

/* ---- communication ---- */

static enum lw_status do_message(struct maker *m, int32_t rank, int64_t node)
{
    const struct lw_export_meeting *x = &m->g->meetings[m->g->nodes[node].meeting];
    bool receives = rank == x->ends[1];
    int32_t at = message_place(m, rank, node), base = m->first_tag[m->g->nodes[node].meeting];
    int32_t other = message_place(m, x->ends[!receives], x->nodes[!receives]);

    LW_TRY(send(m, at, other, base + receives));
    LW_TRY(receive(m, at, other, base + !receives));
    return compute(m, at, x->time);
}

static enum lw_status do_collective(struct maker *m, int32_t rank, int64_t node,
                                    const int32_t *places)
{
    int32_t meeting = m->g->nodes[node].meeting, tag = m->first_tag[meeting];
    const struct lw_export_meeting *x = &m->g->meetings[meeting];
    const struct lw_plan *p = m->g->plan;
    const struct lw_group *group = &p->groups[x->group];
    int32_t at = stream_place(m, rank, node), first = places[0];

    if (at != first) {
        LW_TRY(send(m, at, first, tag));
        LW_TRY(receive(m, at, first, tag + 1));
        return compute(m, at, x->time);
    }
    for (int32_t i = 1; i < group->n_members; i++)
        LW_TRY(receive(m, at, places[i], tag));
    for (int32_t i = 1; i < group->n_members; i++)
        LW_TRY(send(m, at, places[i], tag + 1));
    return compute(m, at, x->time);
}

/* ---- nodes ---- */

static enum lw_status tell_others(struct maker *m, int32_t rank, int64_t node)
{
    int32_t at = stream_place(m, rank, node);

    for (int64_t k = m->first_after[node]; k < m->first_after[node + 1]; k++)
        LW_TRY(send(m, at, stream_place(m, rank, m->after[k].node), m->after[k].tag));
    return LW_OK;
}

static enum lw_status wait_for_others(struct maker *m, int32_t rank, int64_t node)
{
    const struct lw_export_node *x = &m->g->nodes[node];
    int64_t base = m->g->first[rank];

    for (int32_t k = 0; k < x->n_deps; k++) {
        int64_t before = base + m->g->deps[x->first_dep + k];
        if (op_of(m, before).stream == op_of(m, node).stream)
            continue;
        for (int64_t a = m->first_after[before]; a < m->first_after[before + 1]; a++)
            if (m->after[a].node == node)
                LW_TRY(receive(m, stream_place(m, rank, node), stream_place(m, rank, before),
                               m->after[a].tag));
    }
    return LW_OK;
}

/* The messages of a call: each waits beside the others on a rank of its own. */
static enum lw_status do_call(struct maker *m, int32_t rank, int64_t from, int64_t to)
{
    int32_t tag = m->tag, at = stream_place(m, rank, from);

    m->tag += (int32_t)(2 * (to - from));
    for (int64_t i = from; i < to; i++)
        LW_TRY(wait_for_others(m, rank, i));
    for (int64_t i = from; i < to; i++) {
        int32_t slot = message_place(m, rank, i), k = tag + (int32_t)(2 * (i - from));
        LW_TRY(send(m, at, slot, k));
        LW_TRY(receive(m, slot, at, k));
        LW_TRY(do_message(m, rank, i));
        LW_TRY(send(m, slot, at, k + 1));
    }
    for (int64_t i = from; i < to; i++)
        LW_TRY(receive(m, at, message_place(m, rank, i), tag + (int32_t)(2 * (i - from)) + 1));
    for (int64_t i = from; i < to; i++)
        LW_TRY(tell_others(m, rank, i));
    return LW_OK;
}

static int64_t call_end(const struct maker *m, int32_t rank, int64_t i)
{
    int64_t to = i;

    while (to < m->g->first[rank + 1] && m->slot_of[to] >= 0 &&
           op_of(m, to).call == op_of(m, i).call && op_of(m, to).stream == op_of(m, i).stream)
        to++;
    return to;
}

static enum lw_status do_rank(struct maker *m, int32_t rank, int32_t *places)
{
    for (int64_t i = m->g->first[rank]; i < m->g->first[rank + 1]; i++) {
        const struct lw_export_node *x = &m->g->nodes[i];
        if (m->slot_of[i] >= 0) {
            int64_t to = call_end(m, rank, i);
            LW_TRY(do_call(m, rank, i, to));
            i = to - 1;
            continue;
        }
        LW_TRY(wait_for_others(m, rank, i));
        if (x->meeting >= 0 && m->g->meetings[x->meeting].message) {
            LW_TRY(do_message(m, rank, i));
        } else if (x->meeting >= 0) {
            const struct lw_export_meeting *c = &m->g->meetings[x->meeting];
            const struct lw_group *g = &m->g->plan->groups[c->group];
            for (int32_t k = 0; k < g->n_members; k++)
                places[k] = place_of(m, lw_plan_member_at(m->g->plan, g->first_member + k),
                                     op_of(m, i).stream);
            LW_TRY(do_collective(m, rank, i, places));
        } else {
            LW_TRY(compute(m, stream_place(m, rank, i), x->time));
        }
        LW_TRY(tell_others(m, rank, i));
    }
    return LW_OK;
}

/* ---- the whole ---- */

static enum lw_status check_times(const struct maker *m)
{
    const struct lw_export_graph *g = m->g;

    for (int64_t i = 0; i < g->first[g->n_ranks]; i++) {
        lw_ps time =
            g->nodes[i].meeting >= 0 ? g->meetings[g->nodes[i].meeting].time : g->nodes[i].time;
        if (time < 0)
            return lw_plan_op_fail(g->plan, g->nodes[i].op, m->err,
                                   " has no time: -c CLUSTER times it, or export a run of the "
                                   "plan (lapwing sim)");
    }
    return LW_OK;
}

/* Numbers messages across streams, and the slots of calls. */
static enum lw_status number(struct maker *m)
{
    const struct lw_export_graph *g = m->g;
    int64_t n = g->first[g->n_ranks], total = 0;
    int64_t *fill;

    LW_TAKE(m->arena, m->slot_of, n + 1, m->err);
    LW_TAKE(m->arena, m->first_after, n + 2, m->err);
    LW_TAKE(m->arena, fill, n + 1, m->err);
    LW_TAKE(m->arena, m->first_tag, g->n_meetings + 1, m->err);
    for (int32_t i = 0; i < g->n_meetings; i++, m->tag += 2)
        m->first_tag[i] = m->tag;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t r = 0; r < g->n_ranks; r++)
            for (int64_t i = g->first[r]; i < g->first[r + 1]; i++)
                for (int32_t k = 0; k < g->nodes[i].n_deps; k++) {
                    int64_t before = g->first[r] + g->deps[g->nodes[i].first_dep + k];
                    if (op_of(m, before).stream == op_of(m, i).stream)
                        continue;
                    if (pass == 0)
                        m->first_after[before + 1]++;
                    else
                        m->after[m->first_after[before] + fill[before]++] =
                            (struct cross){i, m->tag++};
                }
        if (pass == 1)
            break;
        for (int64_t i = 0; i < n; i++)
            m->first_after[i + 1] += m->first_after[i];
        total = m->first_after[n];
        LW_TAKE(m->arena, m->after, total + 1, m->err);
    }
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int64_t i = g->first[r], slot = 0; i < g->first[r + 1]; i++) {
            const struct lw_op op = op_of(m, i);
            bool in_call = g->nodes[i].meeting >= 0 && g->meetings[g->nodes[i].meeting].message &&
                           op.call >= 0;
            bool goes_on = in_call && i > g->first[r] && m->slot_of[i - 1] >= 0 &&
                           op_of(m, i - 1).call == op.call && op_of(m, i - 1).stream == op.stream;
            slot = goes_on ? slot + 1 : 0;
            m->slot_of[i] = in_call ? (int32_t)slot : -1;
            m->n_slots = in_call && slot + 1 > m->n_slots ? (int32_t)slot + 1 : m->n_slots;
        }
    return LW_OK;
}

LW_COMPARATOR(by_place, struct line, a->rank, b->rank, a->number, b->number)

static void write_lines(const struct maker *m, FILE *f)
{
    int64_t i = 0;

    fprintf(f,
            "// lapwing: L=0 o=0 g=0 G=0 O=0 S=1000000 unit=ps\n"
            "// One step of %d ranks; each stream of a rank is a rank here. Times are in ps.\n"
            "num_ranks %d\n\n",
            m->g->n_ranks, m->n_places);
    for (int32_t r = 0; r < m->n_places; r++) {
        fprintf(f, "rank %d {\n", r);
        for (int64_t k = 0; i < m->n && m->lines[i].rank == r; i++, k++) {
            const struct line *l = &m->lines[i];
            if (l->tag < 0)
                fprintf(f, "l%lld: calc %lld\n", (long long)k, (long long)l->time);
            else
                fprintf(f, "l%lld: %s 1b %s %d tag %d\n", (long long)k,
                        l->time == -1 ? "send" : "recv", l->time == -1 ? "to" : "from", l->peer,
                        l->tag);
            if (k > 0)
                fprintf(f, "l%lld requires l%lld\n", (long long)k, (long long)k - 1);
        }
        fputs("}\n\n", f);
    }
}

static enum lw_status make(struct maker *m, FILE *f)
{
    const struct lw_export_graph *g = m->g;
    int32_t *places;

    LW_TRY(check_times(m));
    m->n_streams = g->plan->n_streams;
    LW_TRY(number(m));
    LW_TAKE(m->arena, m->place, (int64_t)g->n_ranks * (m->n_streams + m->n_slots) + 1, m->err);
    LW_TAKE(m->arena, places, g->n_ranks + 1, m->err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        LW_TRY(do_rank(m, r, places));
    lw_sort(m->lines, m->n, by_place);
    write_lines(m, f);
    return LW_OK;
}

enum lw_status lw_export_goal(const struct lw_export_graph *g, FILE *f, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct maker m = {.g = g, .err = err, .arena = &scratch};
    enum lw_status status = make(&m, f);

    lw_free(m.lines);
    lw_arena_free(&scratch);
    return status;
}
