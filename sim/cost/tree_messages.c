/* The double binary tree of shared/groups/double_tree.h, with the steps in which pieces travel.
 *
 * Colours: edges that leave one member, or enter one, must differ. At most two edges leave a member
 * and two enter it, so edges that must differ form paths and rings of even length: walking along
 * them with alternating colours always ends well.
 *
 * Not modelled: trees of other degree, trees that follow a machine's topology. */
#include "sim/cost/tree_messages.h"

#include <assert.h>

#include "shared/base/arena.h"
#include "shared/groups/double_tree.h"

/* Edges by number: tree * n + the child they lead to. */
struct edges {
    struct sim_trees *t;
    int32_t *out;   /* [2 n]: edges that leave a member; -1 = none */
    int8_t *colour; /* [2 n]: by edge; -1 = none yet */
};

static void fill_parents(struct sim_trees *t)
{
    int32_t base = t->rooted, p = t->n - base;

    for (int32_t which = 0; which < 2; which++) {
        t->parent[which][0] = -1;
        for (int32_t r = 0; r < p; r++) {
            int32_t up = lw_tree_place(p, which, r).parent;
            t->parent[which][r + base] = up >= 0 ? up + base : t->rooted ? 0 : -1;
        }
    }
}

static int32_t sender(const struct edges *x, int32_t edge)
{
    return x->t->parent[edge / x->t->n][edge % x->t->n];
}

/* The other edge that leaves the same member (by_sender) or enters it; -1 = none. */
static int32_t partner(const struct edges *x, int32_t edge, bool by_sender)
{
    int32_t n = x->t->n;

    if (!by_sender) {
        int32_t other = edge < n ? edge + n : edge - n;
        return sender(x, other) >= 0 ? other : -1;
    }
    const int32_t *two = x->out + 2 * sender(x, edge);
    return two[0] == edge ? two[1] : two[0];
}

static void colour_from(struct edges *x, int32_t start)
{
    x->colour[start] = 0;
    for (int direction = 0; direction < 2; direction++) {
        bool by_sender = direction == 0;
        int8_t colour = 1;
        for (int32_t e = partner(x, start, by_sender); e >= 0 && x->colour[e] < 0;) {
            x->colour[e] = colour;
            colour = !colour;
            by_sender = !by_sender;
            e = partner(x, e, by_sender);
        }
    }
}

static void colour_all(struct edges *x)
{
    int32_t n = x->t->n;

    for (int32_t e = 0; e < 2 * n; e++) {
        x->out[e] = -1;
        x->colour[e] = -1;
    }
    for (int32_t e = 0; e < 2 * n; e++) {
        int32_t from = sender(x, e);
        if (from < 0)
            continue;
        int32_t *two = x->out + 2 * from;
        assert(two[1] < 0);
        two[two[0] >= 0] = e;
    }
    for (int32_t e = 0; e < 2 * n; e++)
        if (sender(x, e) >= 0 && x->colour[e] < 0)
            colour_from(x, e);
}

/* Steps of colour c are 1 + c, 3 + c, ...: the first one after the parent has the piece. */
static void place_edge(struct edges *x, int32_t which, int32_t v)
{
    struct sim_trees *t = x->t;
    int32_t up = t->parent[which][v];

    if (up < 0 || t->first[which][v] > 0)
        return;
    place_edge(x, which, up); /* as deep as the tree: about log2(n) */
    int32_t step = t->first[which][up] + 1;
    t->first[which][v] = step + ((step - 1) % 2 != x->colour[which * t->n + v]);
    t->depth[which][v] = t->depth[which][up] + 1;
}

enum lw_status sim_trees_make(int32_t n, bool rooted, struct sim_trees *t, struct lw_err *err)
{
    size_t count = (size_t)(n > 0 ? n : 1);
    int32_t *columns = lw_alloc(6 * count * sizeof *columns);
    struct sim_trees made = {.n = n, .rooted = rooted};
    struct edges x = {&made, lw_alloc(2 * count * sizeof *x.out), lw_alloc(2 * count)};

    if (!columns || !x.out || !x.colour) {
        lw_free(columns);
        lw_free(x.out);
        lw_free(x.colour);
        return lw_fail_nomem(err);
    }
    for (size_t i = 0; i < 6 * count; i++)
        columns[i] = 0;
    for (size_t which = 0; which < 2; which++) {
        made.parent[which] = columns + which * count;
        made.first[which] = columns + (2 + which) * count;
        made.depth[which] = columns + (4 + which) * count;
    }
    fill_parents(&made);
    colour_all(&x);
    for (int32_t e = 0; e < 2 * n; e++) {
        place_edge(&x, e / n, e % n);
        if (made.first[e / n][e % n] > made.most_first)
            made.most_first = made.first[e / n][e % n];
        if (made.depth[e / n][e % n] > made.most_depth)
            made.most_depth = made.depth[e / n][e % n];
    }
    lw_free(x.out);
    lw_free(x.colour);
    *t = made;
    return LW_OK;
}

void sim_trees_free(struct sim_trees *t)
{
    lw_free(t->parent[0]);
    *t = (struct sim_trees){0};
}

/* --- rounds --- */

/* Edges in the order of their first steps: those of step f are edge[start[f]] .. edge[start[f + 1]
 * - 1]. ready: rounds that a member has ended; next: with the current step. */
struct counting {
    const struct sim_trees *t;
    int32_t *start, *edge, *ready, *next;
};

static void sort_edges(struct counting *x)
{
    int32_t n = x->t->n, last = x->t->most_first + 1;

    for (int32_t f = 0; f <= last + 1; f++)
        x->start[f] = 0;
    for (int32_t e = 0; e < 2 * n; e++)
        if (x->t->parent[e / n][e % n] >= 0)
            x->start[x->t->first[e / n][e % n] + 1]++;
    for (int32_t f = 1; f <= last; f++)
        x->start[f] += x->start[f - 1];
    for (int32_t e = 0; e < 2 * n; e++)
        if (x->t->parent[e / n][e % n] >= 0)
            x->edge[x->start[x->t->first[e / n][e % n]]++] = e;
    for (int32_t f = last; f > 0; f--)
        x->start[f] = x->start[f - 1];
    x->start[0] = 0;
}

/* A step of the broadcast: pieces 0 .. k - 1 on edges whose first step was 0, 2, ... before. */
static void count_step(struct counting *x, int32_t step, int32_t k)
{
    int32_t n = x->t->n, low = step - 2 * (k - 1), beyond = step - x->t->most_first;
    int32_t high = beyond > 0 ? x->t->most_first - beyond % 2 : step;

    for (int pass = 0; pass < 2; pass++)
        for (int32_t f = high; f >= 1 && f >= low; f -= 2)
            for (int32_t i = x->start[f]; i < x->start[f + 1]; i++) {
                int32_t v = x->edge[i] % n, up = x->t->parent[x->edge[i] / n][v];
                int32_t end = 1 + (x->ready[v] > x->ready[up] ? x->ready[v] : x->ready[up]);
                if (pass == 0) {
                    x->next[v] = end > x->next[v] ? end : x->next[v];
                    x->next[up] = end > x->next[up] ? end : x->next[up];
                } else {
                    x->ready[v] = x->next[v];
                    x->ready[up] = x->next[up];
                }
            }
}

static int64_t count_rounds(struct counting *x, bool back, int32_t k)
{
    int32_t last = x->t->most_first + 2 * (k - 1), most = 0;

    for (int32_t v = 0; v < x->t->n; v++)
        x->ready[v] = x->next[v] = 0;
    for (int32_t step = last; back && step >= 1; step--)
        count_step(x, step, k);
    for (int32_t step = 1; step <= last; step++)
        count_step(x, step, k);
    for (int32_t v = 0; v < x->t->n; v++)
        most = x->ready[v] > most ? x->ready[v] : most;
    return most;
}

/* From some number of pieces on the pipeline is full, and each piece more costs its own steps: two,
 * and two on the way back. The way up and down is full with 2 pieces, one way with at most as many
 * as the trees have levels (tests/sim/cost/test_cost_library.c). */
static int32_t full_pipeline(const struct sim_trees *t, bool back)
{
    int32_t levels = 1;

    while (t->n >> levels > 0)
        levels++;
    return back || levels < 2 ? 2 : levels;
}

enum lw_status sim_trees_rounds(const struct sim_trees *t, bool back, int32_t n, int64_t *rounds,
                                struct lw_err *err)
{
    size_t members = (size_t)t->n, steps = (size_t)t->most_first + 3;
    int32_t full = full_pipeline(t, back);
    int32_t *all = lw_alloc((4 * members + steps) * sizeof *all);

    if (!all)
        return lw_fail_nomem(err);
    struct counting x = {t, all + 4 * members, all, all + 2 * members, all + 3 * members};
    sort_edges(&x);
    int64_t filled = n > 0 ? count_rounds(&x, back, full) : 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t more = ((int64_t)1 << i) - full;
        rounds[i] = more < 0 ? count_rounds(&x, back, 1 << i)
                             : filled + more * (back && t->n > 2 ? 4 : 2);
    }
    lw_free(all);
    return LW_OK;
}
