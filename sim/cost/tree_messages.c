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
