/* From a profiled graph to the states of PipeDream's planner (msr-fiddle/pipedream graph/graph.py
 * and optimizer/optimizer_graph_hierarchical.py @ 7db6a1c; read there).
 *
 * A state is a set of nodes that is closed under predecessors, named by its antichain, the nodes
 * that nothing else in it follows. From the first source on, a state's neighbours are found by
 * replacing one node of its augmented antichain (the antichain and every predecessor of a member
 * that also feeds something outside that member's past) by one of its successors. Sets are rows of
 * bits.
 *
 * States are ordered by size, ties by discovery: a state only leads to larger ones, so that is a
 * topological order. The reference system's own order among incomparable states is that of Python
 * sets. */
#include "shared/partition/pipedream_graph.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STATES = 4096, MOST_NODES = 1 << 14 };

LW_FREE_BY_ARENA(lw_profile_graph_free, struct lw_profile_graph)

LW_FREE_BY_ARENA(lw_pipedream_states_free, struct lw_pipedream_states)

/* --- text ------------------------------------------------------------------------------------- */

/* The cells of a line, cut in place; returns their number. */
static int cut_cells(char *line, char **cells, int room)
{
    int n = 0;

    line[strcspn(line, "\r")] = '\0';
    for (char *p = line; n < room; p++) {
        cells[n++] = p;
        p += strcspn(p, ",");
        if (!*p)
            break;
        *p = '\0';
    }
    return n;
}

static enum lw_status number(const char *name, int64_t line, const char *text, double *v,
                             struct lw_err *err)
{
    char *end;

    *v = strtod(text, &end);
    if (end == text || *end || !(*v >= 0) || *v > 1e300)
        return lw_fail_at(err, LW_EFORMAT, name, line, "'%s' is not a number from 0", text);
    return LW_OK;
}

static int32_t find_node(const struct lw_profile_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (strcmp(g->nodes[i].name, name) == 0)
            return i;
    return -1;
}

typedef enum lw_status take_line(struct lw_profile_graph *g, const char *name, int64_t line,
                                 char **cells, struct lw_err *err);

static enum lw_status take_node(struct lw_profile_graph *g, const char *name, int64_t line,
                                char **cells, struct lw_err *err)
{
    struct lw_profile_node *n = &g->nodes[g->n_nodes];

    if (find_node(g, cells[0]) >= 0)
        return lw_fail_at(err, LW_EFORMAT, name, line, "node '%s' is given twice", cells[0]);
    n->name = cells[0];
    n->op = cells[1];
    LW_TRY(number(name, line, cells[2], &n->forward_ms, err));
    LW_TRY(number(name, line, cells[3], &n->backward_ms, err));
    LW_TRY(number(name, line, cells[4], &n->activation_bytes, err));
    LW_TRY(number(name, line, cells[5], &n->parameter_bytes, err));
    g->n_nodes++;
    return LW_OK;
}

static enum lw_status take_edge(struct lw_profile_graph *g, const char *name, int64_t line,
                                char **cells, struct lw_err *err)
{
    for (int k = 0; k < 2; k++) {
        int32_t node = find_node(g, cells[k]);
        if (node < 0)
            return lw_fail_at(err, LW_EFORMAT, name, line, "no node '%s'", cells[k]);
        g->edges[g->n_edges][k] = node;
    }
    g->n_edges++;
    return LW_OK;
}

static int32_t count_lines(const char *text)
{
    int32_t n = 1;

    for (; *text && n < MOST_NODES; text++)
        n += *text == '\n';
    return n;
}

static enum lw_status take_lines(struct lw_profile_graph *g, const char *name, const char *text,
                                 const char *head, int columns, take_line *take, struct lw_err *err)
{
    char *copy = lw_arena_strdup(&g->arena, text), *cells[8];
    int64_t line = 1;

    if (!copy)
        return lw_fail_nomem(err);
    for (char *p = copy, *next; *p; p = next, line++) {
        size_t len = strcspn(p, "\n");
        next = p + len + (p[len] == '\n');
        p[len] = '\0';
        if (line == 1) {
            p[strcspn(p, "\r")] = '\0';
            if (strcmp(p, head) != 0)
                return lw_fail_at(err, LW_EFORMAT, name, 1, "expected the titles %s", head);
            continue;
        }
        if (line >= MOST_NODES)
            return lw_fail_at(err, LW_EFORMAT, name, line, "more than %d lines", MOST_NODES);
        if (!*p)
            continue;
        int n = cut_cells(p, cells, 8);
        if (n != columns)
            return lw_fail_at(err, LW_EFORMAT, name, line, "%d cells, expected %d", n, columns);
        LW_TRY(take(g, name, line, cells, err));
    }
    return LW_OK;
}

enum lw_status lw_profile_graph_parse(const char *nodes_name, const char *nodes_text,
                                      const char *edges_name, const char *edges_text,
                                      struct lw_profile_graph *out, struct lw_err *err)
{
    struct lw_profile_graph g = {0};

    g.nodes = lw_arena_alloc(&g.arena, count_lines(nodes_text), sizeof *g.nodes);
    g.edges = lw_arena_alloc(&g.arena, count_lines(edges_text), sizeof *g.edges);
    enum lw_status status = g.nodes && g.edges ? LW_OK : lw_fail_nomem(err);
    if (status == LW_OK)
        status =
            take_lines(&g, nodes_name, nodes_text,
                       "node,op,fwd_ms,bwd_ms,activation_bytes,param_bytes", 6, take_node, err);
    if (status == LW_OK)
        status = take_lines(&g, edges_name, edges_text, "src,dst", 2, take_edge, err);
    LW_GIVE(status, out, g, lw_profile_graph_free(&g));
}

/* --- sets of nodes ---------------------------------------------------------------------------- */

typedef uint64_t row; /* a set is `words` of them */

struct work {
    const struct lw_profile_graph *g;
    struct lw_arena *arena;
    int32_t words;
    bool *gone;                 /* [n_nodes] left out */
    row *past;                  /* [n_nodes words] all that a node needs, without itself */
    row *next;                  /* [n_nodes words] whom it feeds */
    row *antichain;             /* [n_states words] */
    row *reached_from;          /* [n_states MOST_STATES / 64] states before */
    row *augmented, *candidate; /* [words] */
    int32_t n_states;
    int64_t states_capacity, reached_capacity;
};

static bool has(const row *set, int32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void put(row *set, int32_t i)
{
    set[i / 64] |= (row)1 << (i % 64);
}

static void take_out(row *set, int32_t i)
{
    set[i / 64] &= ~((row)1 << (i % 64));
}

static row *past_of(const struct work *w, int32_t node)
{
    return &w->past[(int64_t)node * w->words];
}

static row *next_of(const struct work *w, int32_t node)
{
    return &w->next[(int64_t)node * w->words];
}

static row *antichain_of(const struct work *w, int32_t state)
{
    return &w->antichain[(int64_t)state * w->words];
}

enum { STATE_WORDS = MOST_STATES / 64 };

static row *before_of(const struct work *w, int32_t state)
{
    return &w->reached_from[(int64_t)state * STATE_WORDS];
}

static bool fed(const struct work *w, int32_t node)
{
    for (int32_t e = 0; e < w->g->n_edges; e++)
        if (w->g->edges[e][1] == node && !w->gone[w->g->edges[e][0]])
            return true;
    return false;
}

static bool feeds(const struct work *w, int32_t node)
{
    for (int32_t e = 0; e < w->g->n_edges; e++)
        if (w->g->edges[e][0] == node && !w->gone[w->g->edges[e][1]])
            return true;
    return false;
}

/* Sources that are inputs go; then ends that are "__getitem__", as they are before any of them
 * goes. */
static void leave_out(struct work *w, bool *doomed)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < w->g->n_nodes; i++)
            doomed[i] =
                !w->gone[i] &&
                (pass == 0 ? !fed(w, i) && strncmp(w->g->nodes[i].op, "Input", 5) == 0
                           : !feeds(w, i) && strncmp(w->g->nodes[i].op, "__getitem__", 11) == 0);
        for (int32_t i = 0; i < w->g->n_nodes; i++)
            w->gone[i] = w->gone[i] || doomed[i];
    }
}

/* Repeated passes over the edges until nothing grows: at most as many as the longest chain. */
static enum lw_status find_pasts(struct work *w, struct lw_err *err)
{
    const struct lw_profile_graph *g = w->g;

    for (bool grew = true; grew;) {
        grew = false;
        for (int32_t e = 0; e < g->n_edges; e++) {
            int32_t from = g->edges[e][0], to = g->edges[e][1];
            if (w->gone[from] || w->gone[to])
                continue;
            put(next_of(w, from), to);
            for (int32_t k = 0; k < w->words; k++) {
                row add = past_of(w, from)[k] | (from / 64 == k ? (row)1 << (from % 64) : 0);
                grew = grew || (add & ~past_of(w, to)[k]);
                past_of(w, to)[k] |= add;
            }
        }
        for (int32_t i = 0; i < g->n_nodes; i++)
            if (has(past_of(w, i), i))
                return lw_fail(err, LW_EINVAL, "the graph has a cycle through '%s'",
                               g->nodes[i].name);
    }
    return LW_OK;
}

/* --- states ----------------------------------------------------------------------------------- */

static enum lw_status add_state(struct work *w, const row *antichain, int32_t *state,
                                struct lw_err *err)
{
    size_t size = (size_t)w->words * sizeof(row);

    for (int32_t s = 0; s < w->n_states; s++)
        if (memcmp(antichain_of(w, s), antichain, size) == 0) {
            *state = s;
            return LW_OK;
        }
    if (w->n_states == MOST_STATES)
        return lw_fail(err, LW_ENOTSUP, "the model has more than %d states", MOST_STATES);
    int64_t n = w->n_states + 1;
    if (lw_reserve(&w->antichain, &w->states_capacity, n * w->words, sizeof(row)) != 0 ||
        lw_reserve(&w->reached_from, &w->reached_capacity, n * STATE_WORDS, sizeof(row)) != 0)
        return lw_fail_nomem(err);
    *state = w->n_states++;
    memcpy(antichain_of(w, *state), antichain, size);
    memset(before_of(w, *state), 0, STATE_WORDS * sizeof(row));
    return LW_OK;
}

/* The antichain and every predecessor of a member that feeds something outside that member's past.
 */
static void augment(struct work *w, const row *antichain)
{
    memcpy(w->augmented, antichain, (size_t)w->words * sizeof(row));
    for (int32_t a = 0; a < w->g->n_nodes; a++) {
        if (!has(antichain, a))
            continue;
        for (int32_t p = 0; p < w->g->n_nodes; p++) {
            bool outside = false;
            if (!has(past_of(w, a), p))
                continue;
            for (int32_t k = 0; k < w->words; k++) {
                row known = past_of(w, a)[k] | (a / 64 == k ? (row)1 << (a % 64) : 0);
                outside = outside || (next_of(w, p)[k] & ~known);
            }
            if (outside)
                put(w->augmented, p);
        }
    }
}

/* Nothing of the augmented antichain follows the node. */
static bool may_follow(const struct work *w, int32_t node)
{
    for (int32_t i = 0; i < w->g->n_nodes; i++)
        if (has(w->augmented, i) && has(past_of(w, i), node))
            return false;
    return true;
}

/* `old` replaced by `new`, then only what nothing else in the set follows. */
static void replace(struct work *w, int32_t old, int32_t new)
{
    memcpy(w->candidate, w->augmented, (size_t)w->words * sizeof(row));
    take_out(w->candidate, old);
    put(w->candidate, new);
    for (int32_t i = 0; i < w->g->n_nodes; i++)
        for (int32_t j = 0; has(w->candidate, i) && j < w->g->n_nodes; j++)
            if (has(w->candidate, j) && has(past_of(w, j), i))
                take_out(w->candidate, i);
}

static enum lw_status expand(struct work *w, int32_t state, struct lw_err *err)
{
    int32_t to;

    augment(w, antichain_of(w, state));
    for (int32_t a = 0; a < w->g->n_nodes; a++) {
        if (!has(w->augmented, a))
            continue;
        for (int32_t n = 0; n < w->g->n_nodes; n++) {
            if (!has(next_of(w, a), n) || has(antichain_of(w, state), n) || !may_follow(w, n))
                continue;
            replace(w, a, n);
            LW_TRY(add_state(w, w->candidate, &to, err));
            put(before_of(w, to), state);
        }
    }
    return LW_OK;
}

static enum lw_status find_states(struct work *w, struct lw_err *err)
{
    int32_t first = 0;

    while (first < w->g->n_nodes && (w->gone[first] || fed(w, first)))
        first++;
    if (first == w->g->n_nodes)
        return lw_fail(err, LW_EINVAL, "the graph has no node but inputs");
    memset(w->candidate, 0, (size_t)w->words * sizeof(row));
    put(w->candidate, first);
    LW_TRY(add_state(w, w->candidate, &first, err));
    for (int32_t s = 0; s < w->n_states; s++)
        LW_TRY(expand(w, s, err));
    return LW_OK;
}

/* --- result ----------------------------------------------------------------------------------- */

/* A state's sums over its nodes, in their order; its size to *n. */
static struct lw_pipedream_state sum_of(const struct work *w, int32_t state, int32_t *n)
{
    struct lw_pipedream_state s = {0};
    const row *antichain = antichain_of(w, state);

    *n = 0;
    for (int32_t i = 0; i < w->g->n_nodes; i++) {
        bool in = has(antichain, i);
        for (int32_t a = 0; !in && a < w->g->n_nodes; a++)
            in = has(antichain, a) && has(past_of(w, a), i);
        if (!in)
            continue;
        const struct lw_profile_node *node = &w->g->nodes[i];
        s.time_s += (node->forward_ms + node->backward_ms) / 1000.0;
        s.activation_bytes += node->activation_bytes;
        s.parameter_bytes += node->parameter_bytes;
        ++*n;
    }
    return s;
}

static double output_of(struct work *w, int32_t state)
{
    double sum = 0;

    augment(w, antichain_of(w, state));
    for (int32_t i = 0; i < w->g->n_nodes; i++)
        if (has(w->augmented, i))
            sum += w->g->nodes[i].activation_bytes;
    return sum;
}

struct ordered {
    int32_t size, state;
    struct lw_pipedream_state sums;
};

LW_COMPARATOR(by_size, struct ordered, a->size, b->size, a->state, b->state)

/* In topological order, what reaches a state is final when the state is visited. */
static void close_before(struct work *w, const struct ordered *o)
{
    for (int32_t i = 0; i < w->n_states; i++) {
        row *own = before_of(w, o[i].state);
        for (int32_t j = 0; j < i; j++)
            for (int32_t k = 0; has(own, o[j].state) && k < STATE_WORDS; k++)
                own[k] |= before_of(w, o[j].state)[k];
    }
}

static enum lw_status make_result(struct work *w, struct lw_pipedream_states *out,
                                  struct lw_err *err)
{
    struct ordered *o = lw_arena_alloc(w->arena, w->n_states, sizeof *o);
    int64_t n_before = 0, at = 0;

    if (!o)
        return lw_fail_nomem(err);
    for (int32_t s = 0; s < w->n_states; s++) {
        o[s] = (struct ordered){.state = s};
        o[s].sums = sum_of(w, s, &o[s].size);
        o[s].sums.output_bytes = output_of(w, s);
    }
    lw_sort(o, w->n_states, by_size);
    close_before(w, o);
    for (int32_t i = 0; i < w->n_states; i++)
        for (int32_t j = 0; j < i; j++)
            n_before += has(before_of(w, o[i].state), o[j].state);
    LW_TAKE(&out->arena, out->states, w->n_states, err);
    LW_TAKE(&out->arena, out->before, n_before, err);
    out->n = w->n_states;
    for (int32_t i = 0; i < w->n_states; i++) {
        out->states[i] = o[i].sums;
        out->states[i].first_before = (int32_t)at;
        for (int32_t j = 0; j < i; j++)
            if (has(before_of(w, o[i].state), o[j].state))
                out->before[at++] = j;
        out->states[i].n_before = (int32_t)at - out->states[i].first_before;
    }
    return LW_OK;
}

static enum lw_status make_states(struct work *w, struct lw_pipedream_states *out,
                                  struct lw_err *err)
{
    int32_t n = w->g->n_nodes;
    bool *doomed = lw_arena_alloc(w->arena, n, sizeof *doomed);

    w->words = (n + 63) / 64;
    w->gone = lw_arena_alloc(w->arena, n, sizeof *w->gone);
    w->past = lw_arena_alloc(w->arena, (int64_t)n * w->words, sizeof(row));
    w->next = lw_arena_alloc(w->arena, (int64_t)n * w->words, sizeof(row));
    w->augmented = lw_arena_alloc(w->arena, w->words, sizeof(row));
    w->candidate = lw_arena_alloc(w->arena, w->words, sizeof(row));
    if (!doomed || !w->gone || !w->past || !w->next || !w->augmented || !w->candidate)
        return lw_fail_nomem(err);
    leave_out(w, doomed);
    LW_TRY(find_pasts(w, err));
    LW_TRY(find_states(w, err));
    return make_result(w, out, err);
}

enum lw_status lw_pipedream_states_make(const struct lw_profile_graph *g,
                                        struct lw_pipedream_states *out, struct lw_err *err)
{
    struct lw_arena arena = {0};
    struct work w = {.g = g, .arena = &arena};
    struct lw_pipedream_states s = {0};

    if (g->n_nodes < 1)
        return lw_fail(err, LW_EINVAL, "the graph has no node but inputs");
    enum lw_status status = make_states(&w, &s, err);
    lw_free(w.antichain);
    lw_free(w.reached_from);
    lw_arena_free(&arena);
    LW_GIVE(status, out, s, lw_pipedream_states_free(&s));
}
