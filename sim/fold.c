/* Which ranks are alike: the coarsest partition that is stable, by refinement. Ranks begin in one
 * class when they run the same role at the same speed, enter steps as late, and put the same bytes in
 * place of every operand. Then, until nothing changes, a class is split where its ranks differ in the
 * classes of what they meet: the set of classes in each of their groups, and the class and place of
 * each peer.
 *
 * Invariant at the end, for ranks a and b of a class: on every communicator, their groups have as many
 * members on as many nodes and hold the same set of classes; their sends and receives go to peers of
 * the same class over links of the same kind; different peers of one rank on a communicator are of
 * different classes, none of its own. docs/design/folding.md proves that this is enough.
 *
 * A rank is singled out (alone in its class) where the model knows it by name: at the ends of a slow
 * link and in groups that hold both, and, message by message, in rings that are not all alike. */
#include "sim/fold.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cost.h"
#include "sim/device.h"
#include "sim/trie.h"

/* A peer that ranks of a role have on a communicator: one rank for all, or a row of operands. */
struct relation {
    int32_t comm, row, peer; /* row -1: peer holds */
    bool sends;
};

struct role_list {
    int32_t first_relation, n_relations, first_row, n_rows;
};

struct maker {
    const struct lw_plan *plan;
    const struct lw_cluster *cluster;
    bool chunk;
    struct sim_trie trie;
    struct lw_arena arena;
    int32_t *colour;            /* [n_ranks]: class, dense, by lowest rank */
    int32_t n_colours;
    bool *single;               /* [n_ranks]: singled out */
    bool *ring, *unlike;        /* [n_comms]: has rings that go message by message; or collectives
                                 * whose members have parts of their own there, such as a root */
    int32_t *comm_of;           /* [n_groups]; -1 = none */
    int64_t *signature;         /* [n_groups] */
    int32_t *nodes;             /* [n_groups] */
    int32_t *set;               /* [largest group]: scratch */
    struct role_list *roles;    /* [n_roles] */
    struct relation *relations;
    int32_t *rows;              /* operand rows whose bytes count */
    int64_t n_relations, relations_capacity, n_rows, rows_capacity;
    int32_t *seen_as;           /* [n_ranks], by class: the peer that was there last, */
    int64_t *seen_key;          /* of which rank, communicator and direction */
};

enum { RELATIONS = -1, ROWS = -2, RANKS = -3, GROUPS = -4, SENDS = -5, RECEIVES = -6 };

/* --- what the plan says --- */

static int32_t peer_of(const struct maker *m, const struct relation *x, int32_t rank)
{
    const struct lw_plan *p = m->plan;

    return x->row < 0 ? x->peer
                      : p->operands[p->operand_first[x->row] + p->index_in_role[rank]].peer;
}

static int compare_relations(const void *pa, const void *pb)
{
    const struct relation *a = pa, *b = pb;
    int c = (a->comm > b->comm) - (a->comm < b->comm);

    c = c ? c : a->sends - b->sends;
    c = c ? c : (a->row > b->row) - (a->row < b->row);
    return c ? c : (a->peer > b->peer) - (a->peer < b->peer);
}

/* The path is new: it was not asked for before. */
static bool is_new(struct sim_trie *t, const int64_t *path, int n)
{
    int64_t before = t->n, node = 0;

    for (int i = 0; i < n; i++)
        node = sim_trie_next(t, node, path[i]);
    return t->n > before;
}

/* The same as one of the first few of the role: most roles have no more. */
static bool have_row(const struct maker *m, const struct role_list *l, int32_t row)
{
    for (int64_t i = l->first_row; i < m->n_rows && i < l->first_row + 8; i++)
        if (m->rows[i] == row)
            return true;
    return false;
}

static bool have_relation(const struct maker *m, const struct role_list *l,
                          const struct relation *x)
{
    for (int64_t i = l->first_relation; i < m->n_relations && i < l->first_relation + 8; i++)
        if (compare_relations(&m->relations[i], x) == 0)
            return true;
    return false;
}

static enum lw_status add_op(struct maker *m, int32_t role, const struct lw_op *op,
                             struct lw_err *err)
{
    const struct role_list *l = &m->roles[role];
    struct relation x = {op->comm, op->operand, op->operand < 0 ? op->peer : -1,
                         op->kind == LW_OP_SEND};
    int64_t row[] = {ROWS, role, op->operand};
    int64_t relation[] = {RELATIONS, role, x.comm, x.sends, x.row, x.peer};

    if (op->operand >= 0 && !have_row(m, l, op->operand) && is_new(&m->trie, row, 3)) {
        if (lw_reserve(&m->rows, &m->rows_capacity, m->n_rows + 1, sizeof *m->rows) != 0)
            return lw_fail_nomem(err);
        m->rows[m->n_rows++] = op->operand;
    }
    if (lw_op_class(op->kind) == LW_CLASS_P2P && !have_relation(m, l, &x) &&
        is_new(&m->trie, relation, 6)) {
        if (lw_reserve(&m->relations, &m->relations_capacity, m->n_relations + 1,
                       sizeof *m->relations) != 0)
            return lw_fail_nomem(err);
        m->relations[m->n_relations++] = x;
    }
    if (m->chunk && op->comm >= 0 && lw_op_class(op->kind) == LW_CLASS_COLLECTIVE) {
        enum lw_reducer_kind k = m->plan->comms[op->comm].reducer;
        m->ring[op->comm] |= sim_ring_steps(op->kind, 2) > 0;
        m->unlike[op->comm] |=
            (k != LW_REDUCER_AUTO && k != LW_REDUCER_RING && k != LW_REDUCER_GLOO) ||
            (sim_ring_steps(op->kind, 2) == 0 && op->kind != LW_OP_BARRIER);
    }
    return LW_OK;
}

static enum lw_status read_programs(struct maker *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    for (int32_t r = 0; r < p->n_roles; r++) {
        struct role_list *l = &m->roles[r];
        l->first_relation = (int32_t)m->n_relations;
        l->first_row = (int32_t)m->n_rows;
        for (int32_t v = 0; v < p->n_variants; v++) {
            struct lw_program range = p->programs[(int64_t)v * p->n_roles + r];
            for (int32_t i = 0; i < range.n_ops; i++)
                LW_TRY(add_op(m, r, &p->ops[range.first_op + i], err));
        }
        l->n_relations = (int32_t)m->n_relations - l->first_relation;
        l->n_rows = (int32_t)m->n_rows - l->first_row;
        if (l->n_relations > 1)
            qsort(m->relations + l->first_relation, (size_t)l->n_relations, sizeof *m->relations,
                  compare_relations);
    }
    return LW_OK;
}

/* false: a group of two communicators, or a peer that is no rank; the engine says what is wrong. */
static bool read_groups(struct maker *m)
{
    const struct lw_plan *p = m->plan;

    for (int32_t g = 0; g < p->n_groups; g++) {
        m->comm_of[g] = -1;
        m->nodes[g] = lw_cluster_nodes_of(m->cluster, p->members + p->groups[g].first_member,
                                          p->groups[g].n_members);
    }
    for (int32_t c = 0; c < p->n_comms; c++) {
        for (int32_t r = 0; r < p->n_ranks; r++) {
            int32_t g = p->comm_group[(int64_t)c * p->n_ranks + r];
            if (g >= 0 && m->comm_of[g] >= 0 && m->comm_of[g] != c)
                return false;
            if (g >= 0)
                m->comm_of[g] = c;
        }
    }
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const struct role_list *l = &m->roles[p->role_of[r]];
        for (int32_t i = 0; i < l->n_relations; i++) {
            int32_t peer = peer_of(m, &m->relations[l->first_relation + i], r);
            if (peer < 0 || peer >= p->n_ranks || m->relations[l->first_relation + i].comm < 0)
                return false;
        }
    }
    return true;
}

/* --- who is known by name --- */

static bool holds(const struct lw_plan *p, int32_t group, int32_t rank)
{
    for (int32_t i = 0; i < p->groups[group].n_members; i++)
        if (p->members[p->groups[group].first_member + i] == rank)
            return true;
    return false;
}

static bool single_out(struct maker *m, int32_t rank)
{
    bool change = !m->single[rank];

    m->single[rank] = true;
    return change;
}

static bool single_out_group(struct maker *m, int32_t group)
{
    bool change = false;

    for (int32_t i = 0; i < m->plan->groups[group].n_members; i++)
        change |= single_out(m, m->plan->members[m->plan->groups[group].first_member + i]);
    return change;
}

static void read_slow_links(struct maker *m)
{
    const struct lw_plan *p = m->plan;

    for (int32_t i = 0; i < m->cluster->n_exceptions; i++) {
        const struct lw_exception *x = &m->cluster->exceptions[i];
        if (x->rank_to < 0 || x->speed == 1 || x->rank >= p->n_ranks || x->rank_to >= p->n_ranks)
            continue;
        single_out(m, x->rank);
        single_out(m, x->rank_to);
        for (int32_t g = 0; g < p->n_groups; g++)
            if (holds(p, g, x->rank) && holds(p, g, x->rank_to))
                single_out_group(m, g);
    }
}

/* --- refinement --- */

static int compare_ints(const void *pa, const void *pb)
{
    int32_t a = *(const int32_t *)pa, b = *(const int32_t *)pb;

    return (a > b) - (a < b);
}

/* Classes in a group, ascending, into m->set; their number. */
static int32_t classes_of(struct maker *m, int32_t group)
{
    const struct lw_group *g = &m->plan->groups[group];
    const int32_t *members = m->plan->members + g->first_member;
    int32_t n = 0;

    for (int32_t i = 0; i < g->n_members; i++)
        if (i == 0 || m->colour[members[i]] != m->set[n - 1])
            m->set[n++] = m->colour[members[i]];
    if (n > 1)
        qsort(m->set, (size_t)n, sizeof *m->set, compare_ints);
    int32_t kept = n > 0;
    for (int32_t i = 1; i < n; i++)
        if (m->set[i] != m->set[i - 1])
            m->set[kept++] = m->set[i];
    return kept;
}

/* All hops of a ring are inside nodes (1), all between nodes (0), or some of both (-1). */
static int hops_of(const struct maker *m, int32_t group)
{
    const struct lw_group *g = &m->plan->groups[group];
    const int32_t *members = m->plan->members + g->first_member;
    int32_t per_node = m->cluster->devices_per_node, n_inside = 0;

    for (int32_t i = 0; i < g->n_members; i++)
        n_inside += members[i] / per_node == members[(i + 1) % g->n_members] / per_node;
    return n_inside == g->n_members ? 1 : n_inside == 0 ? 0 : -1;
}

static void sign_groups(struct maker *m, int32_t round)
{
    for (int32_t g = 0; g < m->plan->n_groups; g++) {
        int32_t c = m->comm_of[g], n;
        if (c < 0)
            continue;
        n = classes_of(m, g);
        int64_t x = sim_trie_next(&m->trie, sim_trie_next(&m->trie, 0, GROUPS), round);
        x = sim_trie_next(&m->trie, x, c);
        x = sim_trie_next(&m->trie, x, m->plan->groups[g].n_members);
        x = sim_trie_next(&m->trie, x, m->nodes[g]);
        x = sim_trie_next(&m->trie, x, m->ring[c] ? hops_of(m, g) : 2);
        for (int32_t i = 0; i < n; i++)
            x = sim_trie_next(&m->trie, x, m->set[i]);
        m->signature[g] = x;
    }
}

static int64_t sign_rank(struct maker *m, int32_t rank, int32_t round)
{
    const struct lw_plan *p = m->plan;
    const struct role_list *l = &m->roles[p->role_of[rank]];
    struct sim_trie *t = &m->trie;
    int32_t per_node = m->cluster->devices_per_node;
    int64_t x = sim_trie_next(t, sim_trie_next(t, 0, RANKS), round);

    x = sim_trie_next(t, x, m->colour[rank]);
    x = sim_trie_next(t, x, m->single[rank] ? rank : -1);
    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t g = p->comm_group[(int64_t)c * p->n_ranks + rank];
        x = sim_trie_next(t, x, g >= 0 ? m->signature[g] : -1);
    }
    for (int32_t i = 0; i < l->n_relations; i++) {
        int32_t peer = peer_of(m, &m->relations[l->first_relation + i], rank);
        x = sim_trie_next(t, x, m->colour[peer]);
        x = sim_trie_next(t, x, peer / per_node == rank / per_node);
    }
    return x;
}

/* What never changes: role, speed and lateness, bytes of operands. */
static int64_t sign_constants(struct maker *m, int32_t rank, const int64_t *speed,
                              const lw_ps *late)
{
    const struct lw_plan *p = m->plan;
    const struct role_list *l = &m->roles[p->role_of[rank]];
    int64_t x = sim_trie_next(&m->trie, sim_trie_next(&m->trie, 0, RANKS), 0);

    x = sim_trie_next(&m->trie, x, p->role_of[rank]);
    x = sim_trie_next(&m->trie, x, speed[rank]);
    x = sim_trie_next(&m->trie, x, late[rank]);
    for (int32_t i = 0; i < l->n_rows; i++)
        x = sim_trie_next(&m->trie, x,
                          p->operands[p->operand_first[m->rows[l->first_row + i]] +
                                      p->index_in_role[rank]].bytes);
    return x;
}

/* Classes from the numbers of this round, node[n_ranks] > base: dense, in rank order. */
static enum lw_status number_classes(struct maker *m, const int64_t *node, int64_t base,
                                     struct lw_err *err)
{
    int64_t n = m->trie.n - base;
    int32_t *class_at = m->trie.failed ? NULL : lw_calloc((size_t)n + 1, sizeof *class_at);

    if (!class_at)
        return lw_fail_nomem(err);
    m->n_colours = 0;
    for (int32_t r = 0; r < m->plan->n_ranks; r++) {
        int32_t *at = &class_at[node[r] - base];
        if (*at == 0)
            *at = ++m->n_colours;
        m->colour[r] = *at - 1;
    }
    lw_free(class_at);
    return LW_OK;
}

static enum lw_status begin(struct maker *m, int64_t *node, struct lw_err *err)
{
    int32_t n = m->plan->n_ranks;
    int64_t *speed = lw_arena_alloc(&m->arena, n, sizeof *speed);
    lw_ps *late = lw_arena_alloc(&m->arena, n, sizeof *late);
    int64_t base = m->trie.n;

    if (!speed || !late)
        return lw_fail_nomem(err);
    sim_speeds(m->cluster, n, speed, late);
    for (int32_t r = 0; r < n; r++)
        node[r] = sign_constants(m, r, speed, late);
    return number_classes(m, node, base, err);
}

/* Split until a round changes nothing. */
static enum lw_status refine(struct maker *m, int64_t *node, int32_t *round, struct lw_err *err)
{
    for (int32_t before = -1; before != m->n_colours;) {
        int64_t base = m->trie.n;
        before = m->n_colours;
        sign_groups(m, ++*round);
        for (int32_t r = 0; r < m->plan->n_ranks; r++)
            node[r] = sign_rank(m, r, *round);
        LW_TRY(number_classes(m, node, base, err));
    }
    return LW_OK;
}

/* --- what classes must be besides stable --- */

/* A ring that goes message by message is the same from every member only when all are of one class
 * and all hops are alike; other algorithms never are. */
static bool single_out_rings(struct maker *m)
{
    bool change = false;

    for (int32_t g = 0; g < m->plan->n_groups; g++)
        if (m->comm_of[g] >= 0 && m->plan->groups[g].n_members > 1 &&
            (m->unlike[m->comm_of[g]] ||
             (m->ring[m->comm_of[g]] && (hops_of(m, g) < 0 || classes_of(m, g) > 1))))
            change |= single_out_group(m, g);
    return change;
}

/* A rank with two peers of one class, or one of its own, on a communicator. */
static bool single_out_peers(struct maker *m)
{
    bool change = false;

    memset(m->seen_key, 0xff, (size_t)m->plan->n_ranks * sizeof *m->seen_key);
    for (int32_t r = 0; r < m->plan->n_ranks; r++) {
        const struct role_list *l = &m->roles[m->plan->role_of[r]];
        for (int32_t i = 0; i < l->n_relations; i++) {
            const struct relation *x = &m->relations[l->first_relation + i];
            int32_t peer = peer_of(m, x, r), k = m->colour[peer];
            int64_t key = ((int64_t)r * m->plan->n_comms + x->comm) * 2 + x->sends;
            if (k == m->colour[r])
                change |= single_out(m, r) | single_out(m, peer);
            else if (m->seen_key[k] == key && m->seen_as[k] != peer)
                change |= single_out(m, peer) | single_out(m, m->seen_as[k]);
            m->seen_key[k] = key;
            m->seen_as[k] = peer;
        }
    }
    return change;
}

/* A rank is in rings of two communicators: they share its link. */
static bool rings_share(const struct maker *m)
{
    const struct lw_plan *p = m->plan;

    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t n = 0;
        for (int32_t c = 0; c < p->n_comms; c++) {
            int32_t g = p->comm_group[(int64_t)c * p->n_ranks + r];
            n += m->ring[c] && g >= 0 && p->groups[g].n_members > 1;
        }
        if (n > 1)
            return true;
    }
    return false;
}

/* Every peer that a rank sends to receives from it, and the other way round. */
static bool messages_match(struct maker *m)
{
    int64_t n[2] = {0, 0};

    for (int sends = 1; sends >= 0; sends--) {
        for (int32_t r = 0; r < m->plan->n_ranks; r++) {
            const struct role_list *l = &m->roles[m->plan->role_of[r]];
            for (int32_t i = 0; i < l->n_relations; i++) {
                const struct relation *x = &m->relations[l->first_relation + i];
                int32_t peer = peer_of(m, x, r);
                int64_t path[] = {SENDS, x->comm, sends ? r : peer, sends ? peer : r};
                int64_t back[] = {RECEIVES, x->comm, path[2], path[3]};
                if (x->sends != sends)
                    continue;
                int64_t before = m->trie.n;
                bool fresh = is_new(&m->trie, path, 4);
                if (!sends && m->trie.n != before)
                    return false;
                n[sends] += sends ? fresh : is_new(&m->trie, back, 4);
            }
        }
    }
    return n[0] == n[1];
}

/* --- the fold --- */

static enum lw_status take_columns(struct maker *m, int64_t **node, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    struct lw_arena *a = &m->arena;
    int32_t largest = 1;

    for (int32_t g = 0; g < p->n_groups; g++)
        largest = p->groups[g].n_members > largest ? p->groups[g].n_members : largest;
    m->colour = lw_arena_alloc(a, p->n_ranks, sizeof *m->colour);
    m->single = lw_arena_alloc(a, p->n_ranks, sizeof *m->single);
    m->ring = lw_arena_alloc(a, p->n_comms + 1, sizeof *m->ring);
    m->unlike = lw_arena_alloc(a, p->n_comms + 1, sizeof *m->unlike);
    m->comm_of = lw_arena_alloc(a, p->n_groups + 1, sizeof *m->comm_of);
    m->signature = lw_arena_alloc(a, p->n_groups + 1, sizeof *m->signature);
    m->nodes = lw_arena_alloc(a, p->n_groups + 1, sizeof *m->nodes);
    m->set = lw_arena_alloc(a, largest, sizeof *m->set);
    m->roles = lw_arena_alloc(a, p->n_roles, sizeof *m->roles);
    m->seen_as = lw_arena_alloc(a, p->n_ranks, sizeof *m->seen_as);
    m->seen_key = lw_arena_alloc(a, p->n_ranks, sizeof *m->seen_key);
    *node = lw_arena_alloc(a, p->n_ranks, sizeof **node);
    if (!m->colour || !m->single || !m->ring || !m->unlike || !m->comm_of || !m->signature || !m->nodes ||
        !m->set || !m->roles || !m->seen_as || !m->seen_key || !*node)
        return lw_fail_nomem(err);
    return LW_OK;
}

static enum lw_status give(const struct maker *m, struct lw_arena *arena, struct sim_fold *out,
                           struct lw_err *err)
{
    struct sim_fold f = {.n_ranks = m->plan->n_ranks, .n_classes = m->n_colours};

    f.class_of = lw_arena_alloc(arena, f.n_ranks, sizeof *f.class_of);
    f.rank_of = lw_arena_alloc(arena, f.n_classes, sizeof *f.rank_of);
    f.n_alike = lw_arena_alloc(arena, f.n_classes, sizeof *f.n_alike);
    if (!f.class_of || !f.rank_of || !f.n_alike)
        return lw_fail_nomem(err);
    for (int32_t r = f.n_ranks - 1; r >= 0; r--) {
        f.class_of[r] = m->colour[r];
        f.rank_of[m->colour[r]] = r;
        f.n_alike[m->colour[r]]++;
    }
    LW_TRY(sim_fold_plan(m->plan, m->signature, arena, &f, err));
    *out = f;
    return LW_OK;
}

static enum lw_status make(struct maker *m, struct lw_arena *arena, struct sim_fold *out,
                           struct lw_err *err)
{
    int64_t *node;
    int32_t round = 0;

    LW_TRY(take_columns(m, &node, err));
    LW_TRY(read_programs(m, err));
    if (!read_groups(m) || rings_share(m))
        return LW_OK;
    for (int32_t g = 0; g < m->plan->n_groups; g++)
        m->signature[g] = -1;
    read_slow_links(m);
    LW_TRY(begin(m, node, err));
    do {
        LW_TRY(refine(m, node, &round, err));
        if (m->n_colours == m->plan->n_ranks)
            return LW_OK;
    } while (single_out_rings(m) | single_out_peers(m));
    bool match = messages_match(m);
    if (m->trie.failed)
        return lw_fail_nomem(err);
    return match ? give(m, arena, out, err) : LW_OK;
}

/* Members of a tree, or of another algorithm than the ring, differ by their place message by message. */
static bool all_rings(const struct lw_plan *p, const struct lw_cluster *c)
{
    bool all = strcmp(c->library, "hfreduce") != 0;

    for (int32_t i = 0; i < p->n_comms; i++)
        all &= p->comms[i].reducer == LW_REDUCER_AUTO || p->comms[i].reducer == LW_REDUCER_RING ||
               p->comms[i].reducer == LW_REDUCER_GLOO;
    return all;
}

/* What is drawn is drawn for every rank; rings by events are asked for message by message, and where
 * rings share a link, equal times go in an order that classes do not have. */
static bool may_fold(const struct lw_plan *p, const struct lw_cluster *c,
                     const struct lw_sim_options *o)
{
    bool noise = o->noise && (lw_figure_is_set(c->noise.compute_sigma) ||
                              lw_figure_is_set(c->noise.comm_sigma));
    bool fair = lw_figure_is_set(c->interference.fair_links) && c->interference.fair_links.value > 0;

    return !o->no_fold && p->n_ranks > p->n_roles && c->devices_per_node > 0 && !noise && !fair &&
           o->jitter_ps == 0 && o->start_skew_ps == 0 &&
           !(o->detail == LW_SIM_CHUNK && (o->ring == LW_SIM_RING_EVENTS || !all_rings(p, c)));
}

enum lw_status sim_fold_make(const struct lw_plan *plan, const struct lw_cluster *cluster,
                             const struct lw_sim_options *options, struct lw_arena *arena,
                             struct sim_fold *out, struct lw_err *err)
{
    struct maker m = {.plan = plan, .cluster = cluster, .chunk = options->detail == LW_SIM_CHUNK};
    struct sim_fold none = {.n_ranks = plan->n_ranks};

    *out = none;
    if (!may_fold(plan, cluster, options))
        return LW_OK;
    enum lw_status status = make(&m, arena, out, err);
    lw_arena_free(&m.arena);
    sim_trie_free(&m.trie);
    lw_free(m.relations);
    lw_free(m.rows);
    return status;
}
