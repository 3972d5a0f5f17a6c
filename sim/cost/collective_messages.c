/* The messages of each algorithm, step by step. n members fill N nodes with m on each; member
 * i m + l is place l of node i. Members and pieces count from 0, steps from 1.
 *
 *   ring          n - 1 steps to reduce-scatter, n - 1 to all-gather: in step s member r sends
 *                 piece r - s (r - s + 1 when gathering) to r + 1 (Patarasuk and Yuan, JPDC 69(2),
 *                 2009)
 *   hierarchical  the ring inside each node with n/m pieces at a time, then the ring between nodes
 *                 among members of equal place, and back
 *   direct        step by step the next member: all of its own node first, then node after node,
 *                 each time another place; no member waits (all messages are posted at once)
 *   pairwise      the same order, and each step waits for its messages (MPI's pairwise exchange)
 *   one-shot      direct with the whole buffer, added up by everyone
 *   tree          sim/cost/tree_messages.c: half of the pieces in each tree, even and odd steps by
 *                 colour; an all-reduce is the reduction up and then the broadcast down the same
 *                 trees
 *   hfreduce      slots: pieces of all devices to their host, up the tree of hosts and down again,
 *                 and back to the devices; every slot holds all edges with different pieces (An et
 *                 al., Fire-Flyer AI-HPC, SC'24, section IV-A, algorithms 1 and 2)
 *
 * Not modelled: reduction as work of its own, several rings over different links. */
#include "sim/cost/collective_messages.h"

#include <assert.h>

#include "sim/cost/cost_model.h"

/* --- sizes --- */

static enum lw_status size_trees(struct sim_schedule *s, int32_t k, struct lw_err *err)
{
    bool rooted = s->op != LW_OP_ALL_REDUCE;

    LW_TRY(sim_trees_make(s->n, rooted, &s->trees, err));
    s->n_pieces = 2 * k;
    s->blocking = true;
    s->most = 2 * s->n;
    s->n_crossing = s->per_node == 1 || s->n == s->n_nodes ? 1 : 2;
    s->n_steps = s->trees.most_first + 2 * ((int64_t)k - 1);
    if (s->op == LW_OP_ALL_REDUCE)
        s->n_steps *= 2;
    return LW_OK;
}

static enum lw_status size_hfreduce(struct sim_schedule *s, int32_t k, struct lw_err *err)
{
    if (s->per_node == 0)
        return lw_fail(err, LW_ENOTSUP, "hfreduce: %d ranks on %d nodes: every node needs as many",
                       s->n, s->n_nodes);
    LW_TRY(sim_trees_make(s->n_nodes, false, &s->trees, err));
    s->n_endpoints = s->n + s->n_nodes;
    s->n_pieces = 2 * k;
    s->blocking = true;
    s->most = 2 * s->n + 4 * s->n_nodes;
    s->n_steps = k + 2 * (int64_t)s->trees.most_depth + 1;
    return LW_OK;
}

static enum lw_status size_parts(struct sim_schedule *s, int32_t k, struct lw_err *err)
{
    int64_t others = (int64_t)s->n - 1;
    bool hierarchical = s->algorithm == LW_REDUCER_HIERARCHICAL;

    (void)k;
    if (hierarchical && s->per_node == 0)
        return lw_fail(err, LW_ENOTSUP,
                       "hierarchical: %d ranks on %d nodes: every node needs as many", s->n,
                       s->n_nodes);
    s->n_pieces = s->n;
    s->n_steps = hierarchical ? (int64_t)s->per_node - 1 + s->n_nodes - 1 : others;
    if (s->op == LW_OP_ALL_REDUCE)
        s->n_steps *= 2;
    if (s->algorithm != LW_REDUCER_RING)
        s->n_crossing = (s->n + s->n_nodes - 1) / s->n_nodes;
    s->blocking =
        s->algorithm == LW_REDUCER_PAIRWISE || (hierarchical && s->op == LW_OP_ALL_TO_ALL);
    return LW_OK;
}

static enum lw_status size_whole(struct sim_schedule *s, int32_t k, struct lw_err *err)
{
    (void)k, (void)err;
    s->n_pieces = 1;
    s->n_steps = (int64_t)s->n - 1;
    if (s->op == LW_OP_ALL_REDUCE)
        s->n_crossing = (s->n + s->n_nodes - 1) / s->n_nodes;
    else
        s->most = 1;
    return LW_OK;
}

/* --- steps --- */

static int32_t wrap(int64_t i, int32_t n)
{
    int64_t r = i % n;
    return (int32_t)(r < 0 ? r + n : r);
}

static bool reduces(enum lw_op_kind op)
{
    return op == LW_OP_ALL_REDUCE || op == LW_OP_REDUCE_SCATTER;
}

static int32_t ring_step(const struct sim_schedule *s, int64_t step, struct sim_transfer *out)
{
    int64_t others = (int64_t)s->n - 1;
    bool add = reduces(s->op) && step <= others;
    int64_t back = reduces(s->op) && !add ? step - others : step;

    for (int32_t r = 0; r < s->n; r++)
        out[r] = (struct sim_transfer){r, wrap((int64_t)r + 1, s->n),
                                       wrap(r - back + !add, s->n), 1, 1, 1, add};
    return s->n;
}

/* The member that r sends to in step s of an exchange: its own node first. Nodes that hold
 * different numbers of members count as one. */
static int32_t exchange_with(const struct sim_schedule *s, int32_t r, int64_t step)
{
    int32_t m = s->per_node;

    if (m == 0)
        return wrap(r + step, s->n);
    int32_t node = wrap(r / m + step / m, s->n_nodes), place = wrap(r % m + step % m, m);
    return node * m + place;
}

static int32_t exchange_step(const struct sim_schedule *s, int64_t step, struct sim_transfer *out)
{
    int64_t others = (int64_t)s->n - 1;
    bool add = reduces(s->op) && step <= others;

    for (int32_t r = 0; r < s->n; r++) {
        int32_t to = exchange_with(s, r, step > others ? step - others : step);
        bool to_owner = add || s->op == LW_OP_ALL_TO_ALL;
        out[r] = (struct sim_transfer){r, to, to_owner ? to : r, 1, 1, 1, add};
    }
    if (s->algorithm != LW_REDUCER_ONE_SHOT)
        return s->n;
    for (int32_t r = 0; r < s->n; r++)
        out[r].first = 0;
    return s->n;
}

static int32_t star_step(const struct sim_schedule *s, int64_t step, struct sim_transfer *out)
{
    int32_t other = exchange_with(s, s->root, step);
    bool add = s->op == LW_OP_REDUCE;

    out[0] = (struct sim_transfer){add ? other : s->root, add ? s->root : other, 0, 1, 1, 1, add};
    return 1;
}

/* A ring inside nodes or between them; back: pieces move as in an all-gather. Inside, place l's
 * share are the pieces l, l + m, ...: one of each node. */
static int32_t level_step(const struct sim_schedule *s, bool inside, bool add, int64_t step,
                          struct sim_transfer *out)
{
    int32_t m = s->per_node;

    for (int32_t r = 0; r < s->n; r++) {
        int32_t node = r / m, place = r % m;
        struct sim_transfer t = {.from = r, .add = add, .stride = m, .each = 1};
        if (inside) {
            t.to = node * m + (place + 1) % m;
            t.first = wrap(place - step + !add, m);
            t.count = s->n_nodes;
        } else {
            t.to = (node + 1) % s->n_nodes * m + place;
            t.first = wrap(node - step + !add, s->n_nodes) * m + place;
            t.count = 1;
        }
        out[r] = t;
    }
    return s->n;
}

static int32_t hierarchical_exchange(const struct sim_schedule *s, int64_t step,
                                     struct sim_transfer *out)
{
    int32_t m = s->per_node;
    bool inside = step < m;

    for (int32_t r = 0; r < s->n; r++) {
        int32_t node = r / m, place = r % m;
        struct sim_transfer t = {.from = r, .stride = m, .each = 1};
        if (inside) { /* all that goes to members of that place, on any node */
            t.first = wrap(place + step, m);
            t.to = node * m + t.first;
            t.count = s->n_nodes;
        } else { /* what its node's members have for one member there */
            t.to = wrap(node + step - m + 1, s->n_nodes) * m + place;
            t.first = t.to;
            t.count = 1;
            t.each = m;
        }
        out[r] = t;
    }
    return s->n;
}

static int32_t hierarchical_step(const struct sim_schedule *s, int64_t step,
                                 struct sim_transfer *out)
{
    int64_t inside = (int64_t)s->per_node - 1, between = (int64_t)s->n_nodes - 1;

    if (s->op == LW_OP_ALL_TO_ALL)
        return hierarchical_exchange(s, step, out);
    if (reduces(s->op)) {
        if (step <= inside)
            return level_step(s, true, true, step, out);
        step -= inside;
        if (step <= between)
            return level_step(s, false, true, step, out);
        step -= between;
    }
    if (step <= between)
        return level_step(s, false, false, step, out);
    return level_step(s, true, false, step - between, out);
}

static int32_t member_of(const struct sim_schedule *s, int32_t place)
{
    return s->trees.rooted ? wrap((int64_t)place + s->root, s->n) : place;
}

/* Edges of both trees that carry a piece in a step of the broadcast; up: the same, mirrored. */
static int32_t tree_step(const struct sim_schedule *s, int64_t step, struct sim_transfer *out)
{
    int32_t k = s->n_pieces / 2, n = 0;
    int64_t one_way = s->trees.most_first + 2 * ((int64_t)k - 1);
    bool up = s->op == LW_OP_REDUCE || (s->op == LW_OP_ALL_REDUCE && step <= one_way);

    step = up ? one_way + 1 - step : s->op == LW_OP_ALL_REDUCE ? step - one_way : step;
    for (int32_t which = 0; which < 2; which++) {
        for (int32_t v = 0; v < s->n; v++) {
            int32_t parent = s->trees.parent[which][v];
            int64_t since = step - s->trees.first[which][v];
            if (parent < 0 || since < 0 || since % 2 != 0 || since / 2 >= k)
                continue;
            int32_t piece = (int32_t)(since / 2), a = member_of(s, parent), b = member_of(s, v);
            out[n++] = (struct sim_transfer){up ? b : a, up ? a : b, 2 * piece + which, 1, 1, 1,
                                             up};
        }
    }
    return n;
}

/* The piece that an edge of a pipeline carries in a step, if it carries its first one in
 * `first`. */
static bool in_slot(int64_t step, int64_t first, int32_t k, int32_t *piece)
{
    *piece = (int32_t)(step - first);
    return step >= first && step < first + k;
}

static int32_t hfreduce_step(const struct sim_schedule *s, int64_t step, struct sim_transfer *out)
{
    int32_t k = s->n_pieces / 2, high = s->trees.most_depth, n = 0, piece;

    for (int32_t r = 0; r < s->n; r++) {
        int32_t host = s->n + r / s->per_node;
        if (in_slot(step, 1, k, &piece))
            out[n++] = (struct sim_transfer){r, host, 2 * piece, 2, 1, 1, true};
        if (in_slot(step, 2 + 2 * (int64_t)high, k, &piece))
            out[n++] = (struct sim_transfer){host, r, 2 * piece, 2, 1, 1, false};
    }
    for (int32_t which = 0; which < 2; which++) {
        for (int32_t v = 0; v < s->n_nodes; v++) {
            int32_t parent = s->trees.parent[which][v], d = s->trees.depth[which][v];
            int32_t a = s->n + parent, b = s->n + v;
            if (parent >= 0 && in_slot(step, 2 + high - d, k, &piece))
                out[n++] = (struct sim_transfer){b, a, 2 * piece + which, 1, 1, 1, true};
            if (parent >= 0 && in_slot(step, 1 + high + d, k, &piece))
                out[n++] = (struct sim_transfer){a, b, 2 * piece + which, 1, 1, 1, false};
        }
    }
    return n;
}

/* --- the algorithms --- */

#define OP(name) (1u << LW_OP_##name)
enum {
    PARTS = OP(ALL_REDUCE) | OP(REDUCE_SCATTER) | OP(ALL_GATHER),
    ROOTED = OP(BROADCAST) | OP(REDUCE),
};

/* The operations that an algorithm does, how many pieces and steps they take, and the messages of
 * a step. */
static const struct row {
    enum lw_reducer_kind algorithm;
    unsigned ops;
    enum lw_status (*size)(struct sim_schedule *s, int32_t k, struct lw_err *err);
    int32_t (*step)(const struct sim_schedule *s, int64_t step, struct sim_transfer *out);
} rows[] = {
    {LW_REDUCER_RING, PARTS, size_parts, ring_step},
    {LW_REDUCER_TREE, OP(ALL_REDUCE) | ROOTED, size_trees, tree_step},
    {LW_REDUCER_HIERARCHICAL, PARTS | OP(ALL_TO_ALL), size_parts, hierarchical_step},
    {LW_REDUCER_PAIRWISE, PARTS | OP(ALL_TO_ALL), size_parts, exchange_step},
    {LW_REDUCER_DIRECT, PARTS | OP(ALL_TO_ALL), size_parts, exchange_step},
    {LW_REDUCER_DIRECT, ROOTED, size_whole, star_step},
    {LW_REDUCER_ONE_SHOT, OP(ALL_REDUCE), size_whole, exchange_step},
    {LW_REDUCER_HFREDUCE, OP(ALL_REDUCE), size_hfreduce, hfreduce_step},
};
#undef OP

/* NULL: it does not do the operation. */
static const struct row *find_row(enum lw_reducer_kind algorithm, enum lw_op_kind op)
{
    if (algorithm == LW_REDUCER_AUTO || algorithm == LW_REDUCER_GLOO)
        algorithm = LW_REDUCER_RING;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].algorithm == algorithm && (rows[i].ops & 1u << op))
            return &rows[i];
    return NULL;
}

bool sim_algorithm_does(enum lw_reducer_kind algorithm, enum lw_op_kind op)
{
    return find_row(algorithm, op) != NULL;
}

static enum lw_status refuse(const struct lw_cost_query *q, struct lw_err *err)
{
    char can[160] = "auto";

    for (int k = LW_REDUCER_RING; k < LW_N_REDUCERS; k++)
        if (k == LW_REDUCER_RING || /* its chain and its pairs: sim/cost/cost_alpha_beta.c */
            (k != LW_REDUCER_GLOO && sim_algorithm_does((enum lw_reducer_kind)k, q->op)))
            lw_err_word(can, sizeof can, lw_reducer_name((enum lw_reducer_kind)k));
    return lw_fail(err, LW_ENOTSUP, "no model of %s by %s (--collective-algorithm): choose %s",
                   lw_op_name(q->op), lw_reducer_name(q->algorithm), can);
}

enum lw_status sim_schedule_make(const struct lw_cost_query *q, int32_t k, int32_t root,
                                 struct sim_schedule *out, struct lw_err *err)
{
    struct sim_schedule s = {.op = q->op, .algorithm = q->algorithm, .n = q->n_ranks,
                             .n_endpoints = q->n_ranks, .n_nodes = q->n_nodes, .root = root,
                             .n_crossing = 1, .most = q->n_ranks};

    assert(q->n_ranks >= 2 && k >= 1);
    if (s.algorithm == LW_REDUCER_AUTO || s.algorithm == LW_REDUCER_GLOO)
        s.algorithm = LW_REDUCER_RING;
    const struct row *row = find_row(s.algorithm, s.op);
    if (!row)
        return refuse(q, err);
    s.per_node = sim_is_even(q) ? s.n / s.n_nodes : 0;
    LW_TRY(row->size(&s, k, err));
    s.piece_bytes = sim_chunk_bytes(q->bytes, q->dtype, s.n_pieces);
    *out = s;
    return LW_OK;
}

void sim_schedule_free(struct sim_schedule *s)
{
    sim_trees_free(&s->trees);
    *s = (struct sim_schedule){0};
}

int32_t sim_schedule_step(const struct sim_schedule *s, int64_t step, struct sim_transfer *out)
{
    assert(step >= 1 && step <= s->n_steps);
    return find_row(s->algorithm, s->op)->step(s, step, out);
}

bool sim_schedule_waits(const struct sim_schedule *s, int64_t step)
{
    bool at_once = s->algorithm == LW_REDUCER_DIRECT || s->algorithm == LW_REDUCER_ONE_SHOT;

    return !at_once || step == 1 || step == s->n;
}
