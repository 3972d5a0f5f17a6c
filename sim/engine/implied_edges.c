/* Edges that others imply: an op waits for the op before it on its communicator, and for a result
 * that already waited for that. Units of a stream run in the order of their numbers, so one number
 * for each stream says which of its units are over before a unit starts (a vector clock). A unit
 * does not need the edge from another that is over before one of its others starts.
 *
 * Only edges from a lower to a higher number are looked at and removed. They have no cycle, so what
 * a unit waits for, directly or not, stays what it was, also in a program whose edges have one. */
#include "sim/engine/implied_edges.h"

#include <string.h>

struct clocks {
    const struct lw_plan *plan;
    struct sim_program *p;
    int32_t *first_before, *before; /* [n_units + 1]: the units that a unit waits for */
    int32_t *over;     /* [n_units * n_streams]: the last unit over when it starts; -1 = none */
    int32_t *kept_for; /* [n_streams]: the unit for which an edge from that stream was kept */
    int32_t *cursor;   /* [n_units + 1] */
};

static int32_t stream_of(const struct clocks *c, int32_t u)
{
    return c->plan->ops[c->p->parts[c->p->first_part[u]]].stream;
}

static void list_before(struct clocks *c)
{
    const struct sim_program *p = c->p;

    for (int32_t u = 0; u < p->n_units; u++)
        c->first_before[u + 1] = c->first_before[u] + p->wait[u];
    memcpy(c->cursor, c->first_before, (size_t)p->n_units * sizeof *c->cursor);
    for (int32_t u = 0; u < p->n_units; u++)
        for (int32_t i = p->first_next[u]; i < p->first_next[u + 1]; i++)
            c->before[c->cursor[p->next[i]]++] = u;
}

static void later(int32_t *over, int32_t u)
{
    *over = u > *over ? u : *over;
}

/* The edges into v that stay are put first; their number. */
static int32_t keep(struct clocks *c, int32_t v)
{
    int32_t n_streams = c->plan->n_streams, kept = c->first_before[v];
    int32_t *over = c->over + (int64_t)v * n_streams;

    for (int32_t i = c->first_before[v]; i < c->first_before[v + 1]; i++) {
        const int32_t *of = c->over + (int64_t)c->before[i] * n_streams;
        for (int32_t s = 0; c->before[i] < v && s < n_streams; s++)
            later(&over[s], of[s]);
    }
    for (int32_t i = c->first_before[v]; i < c->first_before[v + 1]; i++) {
        int32_t u = c->before[i], s = stream_of(c, u);
        if (u < v && (over[s] >= u || c->kept_for[s] == v))
            continue;
        if (u < v)
            c->kept_for[s] = v;
        c->before[kept++] = u;
    }
    for (int32_t i = c->first_before[v]; i < kept; i++)
        if (c->before[i] < v)
            later(&over[stream_of(c, c->before[i])], c->before[i]);
    return kept - c->first_before[v];
}

/* The edges that stay, by the units that they leave. */
static void write_next(struct clocks *c)
{
    struct sim_program *p = c->p;

    memset(p->first_next, 0, ((size_t)p->n_units + 1) * sizeof *p->first_next);
    for (int32_t v = 0; v < p->n_units; v++)
        for (int32_t i = 0; i < p->wait[v]; i++)
            p->first_next[c->before[c->first_before[v] + i] + 1]++;
    for (int32_t u = 0; u < p->n_units; u++)
        p->first_next[u + 1] += p->first_next[u];
    memcpy(c->cursor, p->first_next, (size_t)p->n_units * sizeof *c->cursor);
    for (int32_t v = 0; v < p->n_units; v++)
        for (int32_t i = 0; i < p->wait[v]; i++)
            p->next[c->cursor[c->before[c->first_before[v] + i]]++] = v;
}

static enum lw_status drop(struct clocks *c, struct lw_arena *room, struct lw_err *err)
{
    int64_t n = c->p->n_units, n_streams = c->plan->n_streams;

    LW_TAKE(room, c->first_before, n + 1, err);
    LW_TAKE(room, c->before, (int64_t)c->p->first_next[n] + 1, err);
    LW_TAKE(room, c->over, n * n_streams + 1, err);
    LW_TAKE(room, c->kept_for, n_streams + 1, err);
    LW_TAKE(room, c->cursor, n + 1, err);
    list_before(c);
    memset(c->over, 0xff, (size_t)(n * n_streams) * sizeof *c->over);
    memset(c->kept_for, 0xff, (size_t)n_streams * sizeof *c->kept_for);
    for (int32_t v = 0; v < n; v++)
        c->p->wait[v] = keep(c, v);
    write_next(c);
    return LW_OK;
}

enum lw_status sim_program_drop_implied(const struct lw_plan *plan, struct sim_program *p,
                                        struct lw_err *err)
{
    struct clocks c = {.plan = plan, .p = p};
    struct lw_arena room = {0};

    enum lw_status status = drop(&c, &room, err);
    lw_arena_free(&room);
    return status;
}
