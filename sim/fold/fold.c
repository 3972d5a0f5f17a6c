/* Which ranks are alike: the coarsest partition that is stable, by refinement. Ranks begin in one
 * class when they run the same role at the same speed, enter steps as late, and put the same bytes
 * in place of every operand. Then, until nothing changes, a class is split where its ranks differ
 * in the classes of what they meet: the set of classes in each of their groups, and the class and
 * place of each peer.
 *
 * Invariant at the end, for ranks a and b of a class: on every communicator, their groups have as
 * many members on as many nodes and hold the same set of classes; their sends and receives go to
 * peers of the same class over links of the same kind; different peers of one rank on a
 * communicator are of different classes, none of its own. docs/design/folding.md proves that this
 * is enough.
 *
 * A rank is singled out (alone in its class) where the model knows it by name: at the ends of a
 * slow link and in groups that hold both, and, message by message, in rings that are not all alike.
 */
#include "sim/fold/fold.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/plan/grid_rule.h"
#include "sim/cost/cost_library.h"
#include "sim/timing/device.h"
#include "sim/timing/sim_options.h"
#include "sim/fold/fold_state.h"

/* --- refinement --- */

LW_COMPARATOR(compare_ints, int32_t, *a, *b)

/* Classes in a group, ascending, into m->set; their number. */
static int32_t classes_of(struct sim_folding *m, int32_t group)
{
    const struct lw_group *g = &m->plan->groups[group];
    const int32_t *members = m->plan->members + g->first_member;
    int32_t n = 0;
    bool ascending = true;

    for (int32_t i = 0; i < g->n_members; i++) {
        int32_t k = m->colour[members[i]];
        if (n > 0 && k == m->set[n - 1])
            continue;
        ascending &= n == 0 || k > m->set[n - 1];
        m->set[n++] = k;
    }
    if (ascending)
        return n;
    lw_sort(m->set, n, compare_ints);
    int32_t kept = n > 0;
    for (int32_t i = 1; i < n; i++)
        if (m->set[i] != m->set[i - 1])
            m->set[kept++] = m->set[i];
    return kept;
}

/* All hops of a ring are inside nodes (1), all between nodes (0), or some of both (-1). */
static int hops_of(const struct sim_folding *m, int32_t group)
{
    const struct lw_group *g = &m->plan->groups[group];
    const int32_t *members = m->plan->members + g->first_member;
    int32_t per_node = m->cluster->devices_per_node, n_inside = 0;

    for (int32_t i = 0; i < g->n_members; i++)
        n_inside += members[i] / per_node == members[(i + 1) % g->n_members] / per_node;
    return n_inside == g->n_members ? 1 : n_inside == 0 ? 0 : -1;
}

/* What the trie says of path[n]. Most groups and ranks of a grid are as the one before. */
static int64_t sign(struct sim_folding *m, int64_t n)
{
    if (n != m->n_last || memcmp(m->path, m->last, (size_t)n * sizeof *m->path) != 0) {
        int64_t *path = m->path;
        m->path = m->last;
        m->last = path;
        m->n_last = n;
        m->signed_last = sim_trie_path(&m->trie, 0, path, (size_t)n);
    }
    return m->signed_last;
}

static int64_t sign_group(struct sim_folding *m, int32_t round, int32_t group)
{
    int32_t c = m->comm_of[group], n = classes_of(m, group);
    const int64_t begin[] = {
        SIM_PATH_GROUPS, round, c, m->plan->groups[group].n_members, m->spread[group].n_nodes,
        m->spread[group].fewest, m->ring[c] ? hops_of(m, group) : 2};
    int64_t at = sizeof begin / sizeof *begin;

    memcpy(m->path, begin, sizeof begin);
    for (int32_t i = 0; i < n; i++)
        m->path[at++] = m->set[i];
    return sign(m, at);
}

static void sign_groups(struct sim_folding *m, int32_t round)
{
    for (int32_t g = 0; g < m->plan->n_groups; g++)
        if (m->comm_of[g] >= 0)
            m->signature[g] = sign_group(m, round, g);
}

static int64_t sign_rank(struct sim_folding *m, int32_t rank, int32_t round)
{
    const struct lw_plan *p = m->plan;
    const struct sim_role_list *l = &m->roles[lw_plan_role_of(p, rank)];
    int32_t node = sim_fold_node(m, rank);
    int64_t at = 0;

    m->path[at++] = SIM_PATH_RANKS;
    m->path[at++] = round;
    m->path[at++] = m->colour[rank];
    m->path[at++] = m->single[rank] ? rank : -1;
    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t g = lw_plan_group_of(p, c, rank);
        m->path[at++] = g >= 0 ? m->signature[g] : -1;
    }
    for (int32_t i = 0; i < l->n_relations; i++) {
        int32_t peer = sim_fold_peer(m, &m->relations[l->first_relation + i], rank);
        m->path[at++] = m->colour[peer];
        m->path[at++] = sim_fold_is_near(m, node, peer);
    }
    return sign(m, at);
}

/* What never changes: role, speed and lateness, bytes of operands. */
static int64_t sign_constants(struct sim_folding *m, int32_t rank, int64_t speed, lw_ps late)
{
    const struct lw_plan *p = m->plan;
    const struct sim_role_list *l = &m->roles[lw_plan_role_of(p, rank)];
    const int32_t *row = m->rows + l->first_row;
    const int64_t begin[] = {SIM_PATH_RANKS, 0, lw_plan_role_of(p, rank), speed, late};
    int64_t n = sizeof begin / sizeof *begin;

    memcpy(m->path, begin, sizeof begin);
    for (int32_t i = 0; i < l->n_rows; i++)
        m->path[n++] = lw_operand_at(p, row[i], lw_plan_index_of(p, rank)).bytes;
    return sign(m, n);
}

/* Classes from the numbers of this round, node[n_ranks] > base: dense, in rank order. */
static enum lw_status number_classes(struct sim_folding *m, const int64_t *node, int64_t base,
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

static enum lw_status begin(struct sim_folding *m, int64_t *node, struct lw_err *err)
{
    int32_t n = m->plan->n_ranks, unlike = sim_ranks_with_speeds(m->cluster, n);
    int64_t base = m->trie.n, *speed;
    lw_ps *late;

    LW_TAKE(&m->arena, speed, unlike + 1, err);
    LW_TAKE(&m->arena, late, unlike + 1, err);
    sim_speeds(m->cluster, unlike + 1, speed, late);
    for (int32_t r = 0; r < n; r++)
        node[r] = sign_constants(m, r, speed[r < unlike ? r : unlike],
                                 late[r < unlike ? r : unlike]);
    return number_classes(m, node, base, err);
}

/* Split until a round changes nothing. */
static enum lw_status refine(struct sim_folding *m, int64_t *node, int32_t *round,
                             struct lw_err *err)
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
static bool single_out_rings(struct sim_folding *m)
{
    bool change = false;

    for (int32_t g = 0; g < m->plan->n_groups; g++)
        if (m->comm_of[g] >= 0 && m->plan->groups[g].n_members > 1 &&
            (m->unlike[m->comm_of[g]] ||
             (m->ring[m->comm_of[g]] && (hops_of(m, g) < 0 || classes_of(m, g) > 1))))
            change |= sim_single_out_group(m, g);
    return change;
}

static bool single_out_pair(struct sim_folding *m, int32_t a, int32_t b)
{
    bool change = sim_single_out(m, a);

    return sim_single_out(m, b) || change;
}

/* A rank with two peers of one class, or one of its own, on a communicator. */
static bool single_out_peers(struct sim_folding *m)
{
    bool change = false;

    memset(m->seen_key, 0xff, (size_t)m->n_colours * sizeof *m->seen_key);
    for (int32_t r = 0; r < m->plan->n_ranks; r++) {
        const struct sim_role_list *l = &m->roles[lw_plan_role_of(m->plan, r)];
        for (int32_t i = 0; i < l->n_relations; i++) {
            const struct sim_relation *x = &m->relations[l->first_relation + i];
            int32_t peer = sim_fold_peer(m, x, r), k = m->colour[peer];
            int64_t key = ((int64_t)r * m->plan->n_comms + x->comm) * 2 + x->sends;
            if (k == m->colour[r])
                change |= single_out_pair(m, r, peer);
            else if (m->seen_key[k] == key && m->seen_as[k] != peer)
                change |= single_out_pair(m, peer, m->seen_as[k]);
            m->seen_key[k] = key;
            m->seen_as[k] = peer;
        }
    }
    return change;
}

/* A rank is in rings of two communicators: they share its link. */
static bool rings_share(const struct sim_folding *m)
{
    const struct lw_plan *p = m->plan;

    if (!m->chunk)
        return false;

    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t n = 0;
        for (int32_t c = 0; c < p->n_comms; c++) {
            int32_t g = lw_plan_group_of(p, c, r);
            n += m->ring[c] && g >= 0 && p->groups[g].n_members > 1;
        }
        if (n > 1)
            return true;
    }
    return false;
}

/* --- messages meet --- */

/* The relations of one role on a communicator, in one direction: they lie side by side. */
struct relation_range {
    int32_t role, first, n;
};

static void find_range(const struct sim_folding *m, int32_t role, const struct sim_relation *like,
                       struct relation_range *out)
{
    const struct sim_role_list *l = &m->roles[role];
    int32_t end = l->first_relation + l->n_relations, i = l->first_relation;

    while (i < end && (m->relations[i].comm != like->comm || m->relations[i].sends == like->sends))
        i++;
    *out = (struct relation_range){role, i, 0};
    while (i + out->n < end && m->relations[i + out->n].comm == like->comm &&
           m->relations[i + out->n].sends != like->sends)
        out->n++;
}

/* Of every rank of the role, the peer that x names has a relation in the other direction whose
 * peer is that rank. */
static bool is_answered(const struct sim_folding *m, int32_t role, const struct sim_relation *x)
{
    const struct lw_plan *p = m->plan;
    struct relation_range range = {.role = -1};

    for (int32_t i = 0; i < p->roles[role].n_ranks; i++) {
        int32_t rank = m->ranks_of[m->first_of[role] + i], peer = sim_fold_peer(m, x, rank), k = 0;
        if (lw_plan_role_of(p, peer) != range.role)
            find_range(m, lw_plan_role_of(p, peer), x, &range);
        while (k < range.n && sim_fold_peer(m, &m->relations[range.first + k], peer) != rank)
            k++;
        if (k == range.n)
            return false;
    }
    return true;
}

/* The same, by sets of (communicator, sender, receiver): for roles with many peers. */
static bool match_by_sets(struct sim_folding *m)
{
    int64_t n[2] = {0, 0};

    for (int sends = 1; sends >= 0; sends--) {
        for (int32_t r = 0; r < m->plan->n_ranks; r++) {
            const struct sim_role_list *l = &m->roles[lw_plan_role_of(m->plan, r)];
            for (int32_t i = 0; i < l->n_relations; i++) {
                const struct sim_relation *x = &m->relations[l->first_relation + i];
                int32_t peer = sim_fold_peer(m, x, r);
                int64_t path[] = {SIM_PATH_SENDS, x->comm, sends ? r : peer, sends ? peer : r};
                int64_t back[] = {SIM_PATH_RECEIVES, x->comm, path[2], path[3]};
                if (x->sends != sends)
                    continue;
                int64_t before = m->trie.n;
                bool fresh = sim_fold_is_new(&m->trie, path, 4);
                if (!sends && m->trie.n != before)
                    return false;
                n[sends] += sends ? fresh : sim_fold_is_new(&m->trie, back, 4);
            }
        }
    }
    return n[0] == n[1];
}

enum { FEW_RELATIONS = 32 };

/* Every peer that a rank sends to receives from it, and the other way round. */
static bool messages_match(struct sim_folding *m)
{
    for (int32_t role = 0; role < m->plan->n_roles; role++)
        if (m->roles[role].n_relations > FEW_RELATIONS)
            return match_by_sets(m);
    for (int32_t role = 0; role < m->plan->n_roles; role++)
        for (int32_t i = 0; i < m->roles[role].n_relations; i++)
            if (!is_answered(m, role, &m->relations[m->roles[role].first_relation + i]))
                return false;
    return true;
}

/* --- the fold --- */

static enum lw_status take_columns(struct sim_folding *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    struct lw_arena *a = &m->arena;

    LW_TAKE(a, m->ring, p->n_comms + 1, err);
    LW_TAKE(a, m->unlike, p->n_comms + 1, err);
    LW_TAKE(a, m->set, lw_largest_group(p) + 1L, err);
    LW_TAKE(a, m->roles, p->n_roles, err);
    LW_TAKE(a, m->first_of, p->n_roles + 1, err);
    return LW_OK;
}

static enum lw_status take_groups(struct sim_folding *m, struct lw_err *err)
{
    int64_t n = m->plan->n_groups + INT64_C(1);

    LW_TAKE(&m->arena, m->comm_of, n, err);
    LW_TAKE(&m->arena, m->signature, n, err);
    LW_TAKE(&m->arena, m->spread, n, err);
    for (int64_t g = 0; g < n; g++)
        m->signature[g] = -1;
    return LW_OK;
}

/* What refinement needs besides. */
static enum lw_status take_more(struct sim_folding *m, int64_t **node, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    struct lw_arena *a = &m->arena;

    LW_TAKE(a, m->single, p->n_ranks, err);
    LW_TAKE(a, m->seen_as, p->n_ranks, err);
    LW_TAKE(a, m->seen_key, p->n_ranks, err);
    LW_TAKE(a, *node, p->n_ranks, err);
    return lw_plan_ranks_by_role(p, a, &m->ranks_of, &m->first_of, err);
}

/* Room for the longest path of a group or a rank. */
static enum lw_status take_paths(struct sim_folding *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    int64_t most = 0;

    for (int32_t g = 0; g < p->n_groups; g++)
        most = p->groups[g].n_members > most ? p->groups[g].n_members : most;
    for (int32_t r = 0; r < p->n_roles; r++) {
        int64_t n = p->n_comms + 2L * m->roles[r].n_relations;
        most = n > most ? n : most;
        most = m->roles[r].n_rows > most ? m->roles[r].n_rows : most;
    }
    LW_TAKE(&m->arena, m->path, most + 8, err);
    LW_TAKE(&m->arena, m->last, most + 8, err);
    return LW_OK;
}

static enum lw_status give(const struct sim_folding *m, struct lw_arena *arena,
                           struct sim_fold *out, struct lw_err *err)
{
    struct sim_fold f = {.n_ranks = m->plan->n_ranks, .n_classes = m->n_colours,
                         .ranks.of = m->colour};

    LW_TAKE(arena, f.rank_of, f.n_classes, err);
    LW_TAKE(arena, f.n_alike, f.n_classes, err);
    for (int32_t r = f.n_ranks - 1; r >= 0; r--) {
        f.rank_of[m->colour[r]] = r;
        f.n_alike[m->colour[r]]++;
    }
    LW_TRY(sim_fold_plan(m->plan, m->signature, arena, &f, err));
    *out = f;
    return LW_OK;
}

/* A class for each role, in the order of their lowest ranks. */
static void begin_with_roles(struct sim_folding *m)
{
    const struct lw_plan *p = m->plan;

    memset(m->first_of, 0xff, (size_t)p->n_roles * sizeof *m->first_of);
    m->n_colours = 0;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t *first = &m->first_of[lw_plan_role_of(p, r)];
        m->colour[r] = *first < 0 ? m->n_colours++ : m->colour[*first];
        *first = *first < 0 ? r : *first;
    }
}

/* *match: messages meet, and classes are found. */
static enum lw_status find_classes(struct sim_folding *m, bool *match, struct lw_err *err)
{
    int64_t *node;
    int32_t round = 0;

    LW_TRY(take_more(m, &node, err));
    if (!sim_fold_read_peers(m))
        return LW_OK;
    sim_fold_read_slow_links(m);
    LW_TRY(begin(m, node, err));
    for (bool change = true; change;) {
        LW_TRY(refine(m, node, &round, err));
        if (m->n_colours == m->plan->n_ranks)
            return LW_OK;
        change = single_out_rings(m);
        change |= single_out_peers(m);
    }
    *match = messages_match(m);
    return LW_OK;
}

/* A class for each role, if rules show that its ranks are alike. */
static enum lw_status make_by_rules(struct sim_folding *m, struct lw_arena *arena, bool *made,
                                    struct sim_fold *out, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    struct sim_fold f = {p->n_ranks, p->n_roles, {0}};

    *made = p->grid && lw_grid_rules_all(p);
    for (int32_t role = 0; *made && role < p->n_roles; role++)
        m->first_of[role] = lw_grid_rank(p->grid->axis, 0, role, 0);
    if (*made)
        LW_TRY(sim_fold_grid_groups(m, made, err));
    if (*made)
        LW_TRY(sim_fold_roles_are_alike(m, made, err));
    if (!*made)
        return LW_OK;
    LW_TAKE(arena, f.rank_of, f.n_classes, err);
    LW_TAKE(arena, f.n_alike, f.n_classes, err);
    f.ranks = (struct lw_alike_ranks){NULL, p->grid->axis[LW_AXIS_PP].stride, p->n_roles};
    for (int32_t role = 0; role < p->n_roles; role++) {
        f.rank_of[role] = m->first_of[role];
        f.n_alike[role] = p->roles[role].n_ranks;
    }
    LW_TRY(sim_fold_grid_plan(p, arena, &f, err));
    *out = f;
    return LW_OK;
}

static enum lw_status make_by_tables(struct sim_folding *m, struct lw_arena *arena,
                                     struct sim_fold *out, struct lw_err *err)
{
    struct lw_plan full;
    bool match = false;

    LW_TRY(lw_plan_with_tables(m->plan, &m->arena, &full, err));
    m->plan = &full;
    LW_TAKE(arena, m->colour, full.n_ranks, err); /* the fold's */
    LW_TRY(take_groups(m, err));
    LW_TRY(take_paths(m, err));
    if (!sim_fold_read_groups(m) || rings_share(m))
        return LW_OK;
    begin_with_roles(m);
    sign_groups(m, 0);
    if (sim_fold_groups_are_alike(m))
        LW_TRY(sim_fold_roles_are_alike(m, &match, err));
    if (!match)
        LW_TRY(find_classes(m, &match, err));
    if (m->trie.failed)
        return lw_fail_nomem(err);
    return match ? give(m, arena, out, err) : LW_OK;
}

static enum lw_status make(struct sim_folding *m, struct lw_arena *arena, struct sim_fold *out,
                           struct lw_err *err)
{
    bool made;

    LW_TRY(take_columns(m, err));
    LW_TRY(sim_fold_read_programs(m, err));
    LW_TRY(make_by_rules(m, arena, &made, out, err));
    return made ? LW_OK : make_by_tables(m, arena, out, err);
}

/* Members of a tree, or of another algorithm than the ring, differ by their place message by
 * message. */
static bool all_rings(const struct lw_plan *p, const struct lw_cluster *c)
{
    bool all = true, chooses = sim_auto_chooses(c);

    for (int32_t i = 0; i < p->n_comms; i++)
        all &= (p->comms[i].reducer == LW_REDUCER_AUTO && !chooses) ||
               p->comms[i].reducer == LW_REDUCER_RING || p->comms[i].reducer == LW_REDUCER_GLOO;
    return all;
}

/* What is drawn is drawn for every rank; rings by events are asked for message by message, and
 * where rings share a link, equal times go in an order that classes do not have. */
static bool may_fold(const struct lw_plan *p, const struct lw_cluster *c,
                     const struct lw_sim_options *o)
{
    bool noise = sim_compute_sigma(c, o) > 0 || sim_comm_sigma(c, o) > 0 || o->rank_sigma > 0;
    bool fair =
        lw_figure_is_set(c->interference.fair_links) && c->interference.fair_links.value > 0;

    return !o->no_fold && p->n_ranks > p->n_roles && c->devices_per_node > 0 && !noise && !fair &&
           o->jitter_ps == 0 && o->start_skew_ps == 0 &&
           !(o->detail == LW_SIM_CHUNK && (o->ring == LW_SIM_RING_EVENTS || !all_rings(p, c)));
}

enum lw_status sim_fold_make(const struct lw_plan *plan, const struct lw_cluster *cluster,
                             const struct lw_sim_options *options, struct lw_arena *arena,
                             struct sim_fold *out, struct lw_err *err)
{
    struct sim_folding m = {
        .plan = plan, .cluster = cluster, .chunk = options->detail == LW_SIM_CHUNK};
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
