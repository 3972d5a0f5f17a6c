/* Collectives as pulls.
 *
 *   ring          range i of n: n-1 phases add range i-g-1 from the left neighbour, n-1 copy range
 *                 i-g (indices modulo n). Reduce-scatter is the first half on range i-g-2,
 *                 all-gather the second on range i-g-1. Broadcast and reduce are one phase along a
 *                 chain. (Patarasso and Yuan, "Bandwidth optimal all-reduce algorithms for clusters
 *                 of workstations", JPDC 69, 2009.)
 *   hierarchical  ring reduce-scatter within the node, ring all-reduce of one's part among the
 *                 members of the same place on all nodes, ring all-gather within the node
 *   tree          each half of the buffer up its tree of the double binary tree, then down
 *   hfreduce      the first member of a node adds up its node, firsts go through the double binary
 *                 tree, the others copy from their first (An et al., "Fire-Flyer AI-HPC", SC 2024,
 *                 section IV: reduce within the node in host memory, then between nodes)
 *
 * All-reduce goes by the shape's reducer; the other collectives are rings and chains always, as
 * NCCL has no trees for them. An all-to-all pulls nothing: blocks change places (thread_group.c).
 *
 * Why no member reads what is being overwritten. Ring: the final value of a range has travelled
 * through every member that read a partial one. Trees: a member is overwritten when its parent's
 * value is final, which is when its parent has added it. No cycle of waiting members is possible:
 * within a phase, pulls depend on earlier chunks, on earlier pulls of the chunk, or on the same
 * pull of a member that is nearer to the source; across phases on earlier ones. */
#include "exec/cpu/thread_collective_steps.h"

#include "exec/backend/element.h"
#include "shared/groups/double_tree.h"

static int32_t wrap(int64_t a, int32_t n)
{
    return (int32_t)(((a % n) + n) % n);
}

static int32_t n_members(const struct exec_shape *s)
{
    return s->n_nodes * s->per_node;
}

/* All-reduces of a group on one node, or with a member per node, need no levels. */
static enum lw_reducer_kind algorithm(const struct exec_shape *s, enum lw_op_kind op)
{
    bool flat = s->n_nodes == 1 || s->per_node == 1;

    if (op != LW_OP_ALL_REDUCE || (s->reducer == LW_REDUCER_HIERARCHICAL && flat))
        return LW_REDUCER_RING;
    return s->reducer;
}

static bool by_tree(enum lw_reducer_kind k)
{
    return k == LW_REDUCER_TREE || k == LW_REDUCER_HFREDUCE;
}

/* Members below a first one, which it adds before those of other nodes; a tree of members is one of
 * nodes with a member each. */
static int32_t n_below(const struct exec_shape *s, enum lw_reducer_kind k)
{
    return k == LW_REDUCER_HFREDUCE ? s->per_node - 1 : 0;
}

int32_t exec_script_most_pulls(const struct exec_shape *s)
{
    enum lw_reducer_kind k = algorithm(s, LW_OP_ALL_REDUCE);

    return by_tree(k) ? LW_TREES * (n_below(s, k) + 2) : 1;
}

static int64_t longest_range(int64_t count, int32_t n)
{
    int64_t first, longest;

    exec_range(count, n, 0, &first, &longest);
    return longest;
}

struct exec_script exec_script_of(const struct exec_shape *s, enum lw_op_kind op, int64_t count)
{
    int32_t n = n_members(s);
    enum lw_reducer_kind k = algorithm(s, op);

    if (n == 1 || op == LW_OP_BARRIER || op == LW_OP_ALL_TO_ALL)
        return (struct exec_script){0, 1, 0};
    if (op == LW_OP_BROADCAST || op == LW_OP_REDUCE)
        return (struct exec_script){1, 1, count};
    if (by_tree(k))
        return (struct exec_script){2, exec_script_most_pulls(s), longest_range(count, LW_TREES)};
    if (k == LW_REDUCER_HIERARCHICAL)
        return (struct exec_script){2 * (s->per_node - 1) + 2 * (s->n_nodes - 1), 1,
                                    longest_range(count, s->per_node)};
    return (struct exec_script){op == LW_OP_ALL_REDUCE ? 2 * (n - 1) : n - 1, 1,
                                longest_range(count, n)};
}

/* --- rings ------------------------------------------------------------------------------------ */

/* A ring of n places that deals [first, first + count) into n ranges. */
struct ring {
    int32_t n, place, left; /* left: the member before this one */
    int64_t first, count;
};

/* Step g of a ring, phase `phase` of the collective, on a range by its number. */
static struct exec_pull ring_pull(const struct ring *r, int64_t range, int32_t g, int32_t phase,
                                  bool add)
{
    struct exec_pull p = {.from = r->left, .phase = phase - 1, .add = add, .whole = g == 0};

    exec_range(r->count, r->n, wrap(range, r->n), &p.first, &p.count);
    p.first += r->first;
    return p;
}

static struct exec_pull reduce_step(const struct ring *r, int32_t g, int32_t phase, int32_t shift)
{
    return ring_pull(r, (int64_t)r->place - g - shift, g, phase, true);
}

static struct exec_pull gather_step(const struct ring *r, int32_t g, int32_t phase, int32_t shift)
{
    return ring_pull(r, (int64_t)r->place - g - shift, g, phase, false);
}

static struct exec_pull all_reduce_step(const struct ring *r, int32_t g, int32_t phase)
{
    if (g < r->n - 1)
        return reduce_step(r, g, phase, 1);
    struct exec_pull p = gather_step(r, g - (r->n - 1), phase, 0);
    p.whole = false; /* the range that was completed in the phase before */
    return p;
}

static struct exec_pull chain_pull(const struct exec_shape *s, enum lw_op_kind op, int64_t count,
                                   int32_t root, int32_t i)
{
    int32_t n = n_members(s), head = op == LW_OP_REDUCE ? wrap((int64_t)root + 1, n) : root;
    struct exec_pull p = {.from = wrap((int64_t)i - 1, n), .add = op == LW_OP_REDUCE};

    p.count = i == head ? 0 : count;
    p.phase = p.from == head ? -1 : 0;
    return p;
}

static struct exec_pull hierarchical_pull(const struct exec_shape *s, int64_t count, int32_t i,
                                          int32_t phase)
{
    int32_t within = s->per_node - 1, between = 2 * (s->n_nodes - 1), n = n_members(s);
    int32_t node = i / s->per_node, place = i % s->per_node;
    struct ring local = {s->per_node, place,
                         node * s->per_node + wrap((int64_t)place - 1, s->per_node), 0, count};

    if (phase < within)
        return reduce_step(&local, phase, phase, 2);
    if (phase >= within + between)
        return gather_step(&local, phase - within - between, phase, 1);
    struct ring nodes = {.n = s->n_nodes, .place = node, .left = wrap((int64_t)i - s->per_node, n)};
    exec_range(count, s->per_node, place, &nodes.first, &nodes.count);
    return all_reduce_step(&nodes, phase - within, phase);
}

static struct exec_pull flat_pull(const struct exec_shape *s, enum lw_op_kind op, int64_t count,
                                  int32_t i, int32_t phase)
{
    int32_t n = n_members(s);
    struct ring r = {n, i, wrap((int64_t)i - 1, n), 0, count};

    if (op == LW_OP_ALL_REDUCE)
        return all_reduce_step(&r, phase, phase);
    return op == LW_OP_REDUCE_SCATTER ? reduce_step(&r, phase, phase, 2)
                                      : gather_step(&r, phase, phase, 1);
}

/* --- trees ------------------------------------------------------------------------------------ */

/* The tree's members: the first of each node, or all members. */
struct forest {
    int32_t n, stride, n_below, n_up; /* n_up: pulls of one tree in the upward phase */
};

static struct forest forest_of(const struct exec_shape *s)
{
    enum lw_reducer_kind k = algorithm(s, LW_OP_ALL_REDUCE);
    int32_t below = n_below(s, k);

    return k == LW_REDUCER_HFREDUCE
               ? (struct forest){s->n_nodes, s->per_node, below, below + 2}
               : (struct forest){n_members(s), 1, below, below + 2};
}

static bool is_first(const struct forest *f, int32_t i)
{
    return i % f->stride == 0;
}

static struct lw_tree_place place_of(const struct forest *f, int32_t tree, int32_t i)
{
    return lw_tree_place(f->n, tree, i / f->stride);
}

/* Up: those below, which hold nothing but their own, then the children, when they have theirs. */
static void pull_up(const struct forest *f, int32_t tree, int32_t i, struct exec_pull range,
                    struct exec_pull *pulls)
{
    struct lw_tree_place at = place_of(f, tree, i);

    if (!is_first(f, i))
        return;
    range.add = true;
    for (int32_t k = 0; k < f->n_below; k++) {
        pulls[k] = range;
        pulls[k].from = i + 1 + k;
        pulls[k].phase = -1;
    }
    for (int32_t c = 0; c < 2; c++) {
        if (at.child[c] < 0)
            continue;
        pulls[f->n_below + c] = range;
        pulls[f->n_below + c].from = at.child[c] * f->stride;
        pulls[f->n_below + c].pull = (tree + 1) * f->n_up - 1; /* its last of this tree */
    }
}

/* Down: from the parent, or from the first of the node; a root has its value when it has added
 * all. */
static void pull_down(const struct forest *f, int32_t tree, int32_t i, struct exec_pull range,
                      struct exec_pull *pull)
{
    int32_t first = i - i % f->stride, parent = place_of(f, tree, i).parent;

    if (is_first(f, i) && parent < 0)
        return;
    *pull = range;
    pull->from = is_first(f, i) ? parent * f->stride : first;
    pull->phase = place_of(f, tree, pull->from).parent < 0 ? 0 : 1;
    pull->pull = pull->phase == 0 ? (tree + 1) * f->n_up - 1 : tree;
}

static void tree_phase(const struct exec_shape *s, int64_t count, int32_t i, int32_t phase,
                       struct exec_pull *pulls)
{
    struct forest f = forest_of(s);

    for (int32_t tree = 0; tree < LW_TREES; tree++) {
        struct exec_pull range = {0};
        exec_range(count, LW_TREES, tree, &range.first, &range.count);
        if (phase == 0)
            pull_up(&f, tree, i, range, pulls + tree * f.n_up);
        else
            pull_down(&f, tree, i, range, &pulls[tree]);
    }
}

/* Parents in the downward phase, and for a member that is not a first one there is none: its first
 * has added it before it could copy. */
static int32_t tree_reader(const struct exec_shape *s, int32_t i, int32_t k)
{
    struct forest f = forest_of(s);

    if (!is_first(&f, i))
        return -1;
    if (k < f.n_below)
        return i + 1 + k;
    k -= f.n_below;
    for (int32_t tree = 0; tree < LW_TREES; tree++)
        for (int32_t c = 0; c < 2; c++) {
            int32_t child = place_of(&f, tree, i).child[c];
            if (child >= 0 && k-- == 0)
                return child * f.stride;
        }
    return -1;
}

/* --- all of it -------------------------------------------------------------------------------- */

void exec_script_phase(const struct exec_shape *s, enum lw_op_kind op, int64_t count, int32_t root,
                       int32_t member, int32_t phase, struct exec_pull *pulls)
{
    enum lw_reducer_kind k = algorithm(s, op);
    struct exec_script script = exec_script_of(s, op, count);

    for (int32_t i = 0; i < script.n_pulls; i++)
        pulls[i] = (struct exec_pull){.from = member, .phase = -1};
    if (op == LW_OP_BROADCAST || op == LW_OP_REDUCE)
        pulls[0] = chain_pull(s, op, count, root, member);
    else if (by_tree(k))
        tree_phase(s, count, member, phase, pulls);
    else if (k == LW_REDUCER_HIERARCHICAL)
        pulls[0] = hierarchical_pull(s, count, member, phase);
    else
        pulls[0] = flat_pull(s, op, count, member, phase);
}

int32_t exec_script_reader(const struct exec_shape *s, enum lw_op_kind op, int32_t member,
                           int32_t k)
{
    enum lw_reducer_kind kind = algorithm(s, op);
    int32_t n = n_members(s), local = member % s->per_node, node = member - local;

    if (n == 1 || op == LW_OP_BARRIER)
        return -1;
    if (op == LW_OP_ALL_TO_ALL)
        return k < n - 1 ? wrap((int64_t)member + 1 + k, n) : -1;
    if (by_tree(kind))
        return tree_reader(s, member, k);
    if (kind == LW_REDUCER_HIERARCHICAL)
        return k == 0   ? node + (local + 1) % s->per_node
               : k == 1 ? wrap((int64_t)member + s->per_node, n)
                        : -1;
    return k == 0 ? wrap((int64_t)member + 1, n) : -1;
}
