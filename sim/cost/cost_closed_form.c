/* Closed forms of the algorithms of sim/cost/collective_messages.c. n members on N nodes, m on
 * each; B bytes, C = the largest of n parts; x(b), X(b) = time of b bytes inside a node and between
 * nodes, with a, A the latencies. Between nodes the members of a node that send at the same time
 * share what the group gets of the node's links.
 *
 *   pairwise      (m-1)(x(C) + a) + (n-m)(X(C) + A), twice for an all-reduce
 *   direct        (m-1) x(C) + (n-m) X(C) + one latency, twice for an all-reduce; broadcast and
 *                 reduce the same with B, once
 *   one-shot      the same with B, once
 *   hierarchical  (m-1)(x(N C) + a) + (N-1)(X(C) + A), twice for an all-reduce; all-to-all: the
 *                 parts are N C inside and m C between
 *   tree          rounds (X(B / 2k) + A), rounds from sim/cost/tree_messages.h; of k = 1, 2, 4, ...
 *                 1024 the best
 *   hfreduce      k whole pieces (the last counts as one) through 2 H + 2 slots, H the height of
 *                 the tree of hosts: slots with copies to and from devices take d = piece / least
 *                 of memory, PCIe and bridge; slots of the tree e = piece / NIC + A
 *                 d >= e: min(2k, k + 2H + 1) d + max(0, 2H + 1 - k) e
 *                 d <  e: 2 d + (k + 2H - 1) e
 *
 * Where nodes hold different numbers of members, every step counts as one between nodes.
 * What auto means is decided in sim/cost/cost_library.c. */
#include "sim/cost/cost_closed_form.h"

#include <assert.h>

#include "shared/numbers/checked.h"

enum { MOST_PIECES = 1024 };

/* --- links --- */

static double between(const struct sim_path *p, const struct sim_schedule *s)
{
    return p->inter_bytes_per_s / s->n_crossing;
}

static bool same_node(const struct sim_group_links *g, int32_t from, int32_t to)
{
    if (g->ranks)
        return g->ranks[from] / g->devices_per_node == g->ranks[to] / g->devices_per_node;
    if (g->s->per_node > 0)
        return from / g->s->per_node == to / g->s->per_node;
    return g->s->n_nodes == 1;
}

void sim_group_link_time(const void *ctx, const struct sim_transfer *m, int64_t bytes, lw_ps *time,
                         lw_ps *latency)
{
    const struct sim_group_links *g = ctx;
    bool inside = true;
    double rate;

    if (g->s->algorithm == LW_REDUCER_HFREDUCE) {
        bool copy = m->from < g->s->n || m->to < g->s->n;
        rate = copy ? g->host.device_bytes_per_s : g->host.bytes_per_s[SIM_CEILING_NIC];
        *time = lw_transfer_ps(copy ? bytes : 2 * bytes, rate); /* two half pieces share a slot */
        bool first = m->to >= g->s->n && m->first == 0;
        bool last = m->to < g->s->n && m->first == g->s->n_pieces - 2;
        *latency = !copy ? g->host.latency : first || last ? g->host.copy_latency : 0;
        return;
    }
    inside = same_node(g, m->from, m->to);
    rate = inside ? g->path.intra_bytes_per_s : between(&g->path, g->s);
    if (g->speed)
        rate *= g->speed(g->ctx, g->ranks[m->from], g->ranks[m->to]);
    *time = lw_transfer_ps(bytes, rate);
    *latency = inside ? g->path.intra_ps : g->path.inter_ps;
}

static lw_ps inside_ps(const struct sim_path *p, int64_t bytes)
{
    return p->intra_bytes_per_s > 0 ? lw_transfer_ps(bytes, p->intra_bytes_per_s) : 0;
}

static lw_ps between_ps(const struct sim_path *p, const struct sim_schedule *s, int64_t bytes)
{
    return s->n_nodes > 1 ? lw_transfer_ps(bytes, between(p, s)) : 0;
}

/* --- trees --- */

static int64_t tree_piece(const struct lw_cost_query *q, int32_t k)
{
    return sim_chunk_bytes(q->bytes, q->dtype, 2 * k);
}

/* One round of a piece on the slowest link. */
static lw_ps tree_round(const struct sim_path *p, const struct lw_cost_query *q, int64_t bytes)
{
    struct sim_schedule s = {.n_nodes = q->n_nodes, .n_crossing = q->n_ranks > q->n_nodes ? 2 : 1};
    lw_ps inside = inside_ps(p, bytes), outside = between_ps(p, &s, bytes);

    inside = lw_add_sat(inside, p->intra_bytes_per_s > 0 ? p->intra_ps : 0);
    outside = lw_add_sat(outside, q->n_nodes > 1 ? p->inter_ps : 0);
    return inside > outside ? inside : outside;
}

static enum lw_status best_tree(const struct sim_path *p, const struct lw_cost_query *q, int32_t *k,
                                int64_t *rounds, lw_ps *time, struct lw_err *err)
{
    enum { N = 11 };
    bool back = q->op == LW_OP_ALL_REDUCE;
    int64_t at[N];
    struct sim_trees trees;

    static_assert(1 << (N - 1) == MOST_PIECES, "a round count for each number of pieces");
    LW_TRY(sim_trees_make(q->n_ranks, !back, &trees, err));
    enum lw_status status = sim_trees_rounds(&trees, back, N, at, err);
    sim_trees_free(&trees);
    *time = -1;
    for (int i = 0; status == LW_OK && i < N; i++) {
        lw_ps t = lw_mul_sat(at[i], tree_round(p, q, tree_piece(q, 1 << i)));
        if (*time >= 0 && t >= *time)
            continue;
        *time = t;
        *k = 1 << i;
        *rounds = at[i];
    }
    return status;
}

/* --- schedules --- */

static enum lw_status pieces_of(const struct lw_cost_query *q, const struct sim_group_links *links,
                                int32_t *k, struct lw_err *err)
{
    int64_t rounds, n;
    lw_ps time;

    *k = 1;
    if (q->algorithm == LW_REDUCER_TREE)
        return best_tree(&links->path, q, k, &rounds, &time, err);
    if (q->algorithm != LW_REDUCER_HFREDUCE)
        return LW_OK;
    n = q->bytes / links->host.piece_bytes + (q->bytes % links->host.piece_bytes != 0);
    if (n > INT32_MAX / 4)
        return lw_fail(err, LW_ENOTSUP, "hfreduce: %lld bytes in pieces of %lld are more than 2^29",
                       (long long)q->bytes, (long long)links->host.piece_bytes);
    *k = n > 1 ? (int32_t)n : 1;
    return LW_OK;
}

enum lw_status sim_algorithm_schedule(const struct lw_cluster *c, const struct lw_cost_query *q,
                                      int32_t root, struct sim_schedule *s,
                                      struct sim_group_links *links, struct lw_err *err)
{
    struct sim_group_links g = {.s = s, .devices_per_node = c->devices_per_node};
    int32_t k = 1;

    if (q->algorithm == LW_REDUCER_HFREDUCE && sim_is_even(q))
        LW_TRY(sim_hfreduce_of(c, q->n_ranks / q->n_nodes, q->n_nodes, &g.host, err));
    else if (q->algorithm != LW_REDUCER_HFREDUCE)
        LW_TRY(sim_path_of(c, q->n_ranks, q->n_nodes, q->fewest, q->alone, &g.path, err));
    else
        g.host.piece_bytes = 1; /* refused below */
    if (sim_algorithm_does(q->algorithm, q->op))
        LW_TRY(pieces_of(q, &g, &k, err));
    LW_TRY(sim_schedule_make(q, k, root, s, err));
    if (q->algorithm == LW_REDUCER_HFREDUCE && k > 1) /* half of a whole piece, so is the last */
        s->piece_bytes = g.host.piece_bytes / 2 + g.host.piece_bytes % 2;
    *links = g;
    return LW_OK;
}

/* --- closed forms --- */

/* All others in turn, each with what it takes: at once (one latency) or one after the other. */
static lw_ps exchange_ps(const struct sim_schedule *s, const struct sim_path *p, int64_t bytes,
                         bool at_once)
{
    int64_t near = s->per_node > 0 ? s->per_node - 1 : s->n_nodes == 1 ? s->n - 1 : 0;
    int64_t far = s->n - 1 - near;
    lw_ps inside = lw_mul_sat(near, inside_ps(p, bytes));
    lw_ps outside = lw_mul_sat(far, between_ps(p, s, bytes));

    if (!at_once)
        return lw_add_sat(lw_add_sat(inside, lw_mul_sat(near, p->intra_ps)),
                          lw_add_sat(outside, lw_mul_sat(far, p->inter_ps)));
    lw_ps last = far > 0 ? lw_add_sat(lw_add_sat(inside, outside), p->inter_ps) : 0;
    lw_ps first = near > 0 ? lw_add_sat(inside, p->intra_ps) : 0;
    return last > first ? last : first;
}

static lw_ps hierarchical_ps(const struct sim_schedule *s, const struct sim_path *p)
{
    int64_t near = (int64_t)s->per_node - 1, far = (int64_t)s->n_nodes - 1, c = s->piece_bytes;
    int64_t crossing = s->op == LW_OP_ALL_TO_ALL ? lw_mul_sat(s->per_node, c) : c;

    lw_ps inside = lw_add_sat(inside_ps(p, lw_mul_sat(s->n_nodes, c)), p->intra_ps);
    lw_ps outside = lw_add_sat(between_ps(p, s, crossing), p->inter_ps);

    return lw_add_sat(lw_mul_sat(near, inside), lw_mul_sat(far, outside));
}

static lw_ps hfreduce_slots_ps(const struct sim_schedule *s, const struct sim_hfreduce *h)
{
    int64_t k = s->n_pieces / 2, high = s->trees.most_depth, bytes = lw_mul_sat(2, s->piece_bytes);
    lw_ps copy = lw_transfer_ps(bytes, h->device_bytes_per_s), tree = 0;

    if (s->n_nodes > 1)
        tree = lw_add_sat(lw_transfer_ps(bytes, h->bytes_per_s[SIM_CEILING_NIC]), h->latency);
    if (copy < tree)
        return lw_add_sat(lw_mul_sat(2, copy), lw_mul_sat(k + 2 * high - 1, tree));
    int64_t gap = 2 * high + 1 - k;
    return gap > 0 ? lw_add_sat(lw_mul_sat(2 * k, copy), lw_mul_sat(gap, tree))
                   : lw_mul_sat(s->n_steps, copy);
}

static lw_ps hfreduce_ps(const struct sim_schedule *s, const struct sim_hfreduce *h)
{
    return lw_add_sat(hfreduce_slots_ps(s, h), lw_mul_sat(2, h->copy_latency));
}

/* Of what has a step in sim/cost/collective_messages.c, but for the tree, which sim_algorithm_time
 * times by pieces, and the ring, which sim/cost/cost_alpha_beta.c times. */
static lw_ps closed_form(const struct sim_schedule *s, const struct sim_group_links *g)
{
    int64_t twice = s->op == LW_OP_ALL_REDUCE ? 2 : 1;

    switch (s->algorithm) {
    case LW_REDUCER_PAIRWISE:
        return lw_mul_sat(twice, exchange_ps(s, &g->path, s->piece_bytes, false));
    case LW_REDUCER_DIRECT:
        return lw_mul_sat(twice, exchange_ps(s, &g->path, s->piece_bytes, true));
    case LW_REDUCER_ONE_SHOT:
        return exchange_ps(s, &g->path, s->piece_bytes, true);
    case LW_REDUCER_HIERARCHICAL:
        return lw_mul_sat(twice, hierarchical_ps(s, &g->path));
    case LW_REDUCER_HFREDUCE:
        return hfreduce_ps(s, &g->host);
    default:
        assert(!"an algorithm of cost_alpha_beta.c");
        return 0;
    }
}

enum lw_status sim_algorithm_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                                  struct lw_cost_answer *out, struct lw_err *err)
{
    struct lw_cost_answer a = {.model = lw_reducer_name(q->algorithm), .detail = "closed form",
                               .algorithm = lw_reducer_name(q->algorithm)};
    struct sim_schedule s;
    struct sim_group_links g = {0};
    int32_t k = 1;

    if (q->algorithm == LW_REDUCER_TREE && sim_algorithm_does(q->algorithm, q->op)) {
        LW_TRY(sim_path_of(c, q->n_ranks, q->n_nodes, q->fewest, q->alone, &g.path, err));
        LW_TRY(best_tree(&g.path, q, &k, &a.n_steps, &a.time, err));
        a.source = g.path.source;
        a.n_pieces = 2 * k;
        *out = a;
        return LW_OK;
    }
    LW_TRY(sim_algorithm_schedule(c, q, 0, &s, &g, err));
    a.time = closed_form(&s, &g);
    a.n_pieces = s.n_pieces;
    a.n_steps = s.n_steps;
    a.source = q->algorithm == LW_REDUCER_HFREDUCE ? g.host.source : g.path.source;
    if (q->algorithm == LW_REDUCER_HFREDUCE)
        a.detail = sim_ceiling_name(g.host.least);
    sim_schedule_free(&s);
    *out = a;
    return LW_OK;
}
