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
    int32_t *over;   /* [n_units * n_streams]: the last unit over when it starts; -1 = none */
    int32_t *stream; /* [n_units] */
    int32_t *cursor; /* [n_units + 1] */
};

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

/* Units that v waits for are listed in the order of their numbers; each once. */
static int32_t drop_double(int32_t *before, int32_t n)
{
    int32_t kept = 0;

    for (int32_t i = 0; i < n; i++)
        if (kept == 0 || before[i] != before[kept - 1])
            before[kept++] = before[i];
    return kept;
}

/* The edges into v that stay are put first; their number. */
static int32_t keep(struct clocks *c, int32_t v)
{
    int32_t n_streams = c->plan->n_streams, kept = 0, *before = c->before + c->first_before[v];
    int32_t n = drop_double(before, c->first_before[v + 1] - c->first_before[v]);
    int32_t *over = c->over + (int64_t)v * n_streams;

    for (int32_t i = 0; i < n && before[i] < v; i++) {
        const int32_t *of = c->over + (int64_t)before[i] * n_streams;
        if (i == 0)
            memcpy(over, of, (size_t)n_streams * sizeof *over);
        for (int32_t s = 0; i > 0 && s < n_streams; s++)
            later(&over[s], of[s]);
    }
    for (int32_t i = 0; i < n; i++)
        if (before[i] >= v || over[c->stream[before[i]]] < before[i])
            before[kept++] = before[i];
    for (int32_t i = 0; i < kept && before[i] < v; i++)
        later(&over[c->stream[before[i]]], before[i]);
    return kept;
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
    LW_TAKE(room, c->stream, n + 1, err);
    LW_TAKE(room, c->cursor, n + 1, err);
    list_before(c);
    memset(c->over, 0xff, (size_t)(n * n_streams) * sizeof *c->over);
    for (int32_t u = 0; u < n; u++)
        c->stream[u] = c->plan->ops[c->p->parts[c->p->first_part[u]]].stream;
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
