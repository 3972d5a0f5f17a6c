/* Most plans are grids: all ranks of a role are alike, and the roles are the classes. Two passes
 * show it, over groups and over operands; what they do not show is left to refinement (fold.c),
 * which finds the same classes.
 *
 * Shown is that refinement from one class for each role splits nothing and singles out no rank:
 * ranks of a role have the same bytes for every operand, groups of the same signature on every
 * communicator, and for each relation peers of one other role, all on their own node or none, that
 * name them in return; different relations on a communicator in one direction have peers of
 * different roles. Nothing is shown with exceptions of ranks, or message by message. */
#include "shared/base/arena.h"
#include "shared/plan/role_line.h"
#include "sim/fold/fold_state.h"

/* Every rank of the role of `first`, its lowest rank, has a group of the same signature. */
bool sim_fold_groups_are_alike(const struct sim_folding *m)
{
    const struct lw_plan *p = m->plan;
    const int32_t *first = m->first_of;

    if (m->chunk || m->cluster->n_exceptions > 0)
        return false;
    for (int32_t c = 0; c < p->n_comms; c++) {
        for (int32_t r = 0; r < p->n_ranks; r++) {
            int32_t mine = lw_plan_group_of(p, c, r);
            int32_t other = lw_plan_group_of(p, c, first[lw_plan_role_of(p, r)]);
            if (mine != other &&
                (mine < 0 || other < 0 || m->signature[mine] != m->signature[other]))
                return false;
        }
    }
    return true;
}

/* A rule says one number for all. */
static bool bytes_are_alike(const struct sim_folding *m, int32_t role)
{
    const struct lw_plan *p = m->plan;
    const struct sim_role_list *l = &m->roles[role];

    for (int32_t i = l->first_row; i < l->first_row + l->n_rows; i++) {
        int32_t row = m->rows[i];
        if (p->operand_rules && p->operand_rules[row].n > 0)
            continue;
        for (int32_t k = 1; k < p->roles[role].n_ranks; k++)
            if (lw_operand_at(p, row, k).bytes != lw_operand_at(p, row, 0).bytes)
                return false;
    }
    return true;
}

/* The relation of a rank's peer, in the other direction, that names the rank; -1 = none. */
static int32_t find_answer(const struct sim_folding *m, const struct sim_relation *x, int32_t rank,
                           int32_t peer)
{
    const struct sim_role_list *l = &m->roles[lw_plan_role_of(m->plan, peer)];

    for (int32_t i = l->first_relation; i < l->first_relation + l->n_relations; i++) {
        const struct sim_relation *y = &m->relations[i];
        if (y->comm == x->comm && y->sends != x->sends && sim_fold_peer(m, y, peer) == rank)
            return i;
    }
    return -1;
}

/* Peers that rules name: the i-th rank of x's role has the i-th of another role, which has it, and
 * no node holds both. Nothing is left to be seen rank by rank. */
static bool lines_face(struct sim_folding *m, const struct lw_role_line *lines, int32_t role,
                       struct sim_relation *x)
{
    const struct lw_plan *p = m->plan;
    const struct lw_role_line *mine = &lines[role];
    const struct lw_operand_rule *rule =
        x->row >= 0 && p->operand_rules ? &p->operand_rules[x->row] : NULL;

    if (!rule || x->comm < 0 || rule->n == 0 || rule->first.peer < 0 ||
        rule->first.peer >= p->n_ranks)
        return false;
    int32_t other = lw_plan_role_of(p, rule->first.peer), apart = rule->first.peer - mine->first;
    int32_t answer = find_answer(m, x, mine->first, rule->first.peer);
    if (answer < 0 || !lw_rule_names_line(p, x->row, &lines[other]) ||
        !lw_rule_names_line(p, m->relations[answer].row, mine) ||
        lines[other].step != mine->step || p->roles[other].n_ranks != p->roles[role].n_ranks ||
        (apart > -m->cluster->devices_per_node && apart < m->cluster->devices_per_node))
        return false;
    x->peer_role = other;
    x->answer = answer;
    x->near = false;
    return true;
}

/* The relations that lines show to be alike on all ranks. *all: each of them. */
static enum lw_status find_lines(struct sim_folding *m, bool *all, struct lw_err *err)
{
    struct lw_role_line *lines;

    *all = true;
    LW_TAKE(&m->arena, lines, m->plan->n_roles, err);
    lw_role_lines(m->plan, lines);
    for (int32_t role = 0; role < m->plan->n_roles; role++)
        for (int32_t i = 0; i < m->roles[role].n_relations; i++) {
            struct sim_relation *x = &m->relations[m->roles[role].first_relation + i];
            x->faces = lines_face(m, lines, role, x);
            *all = *all && x->faces;
        }
    return LW_OK;
}

/* The rank's peers are as those of the ranks of its role before it. */
static bool peers_are_alike(struct sim_folding *m, int32_t rank)
{
    const struct lw_plan *p = m->plan;
    const struct sim_role_list *l = &m->roles[lw_plan_role_of(p, rank)];
    int32_t node = sim_fold_node(m, rank);

    for (int32_t i = 0; i < l->n_relations; i++) {
        struct sim_relation *x = &m->relations[l->first_relation + i];
        if (x->faces)
            continue;
        int32_t peer = sim_fold_peer(m, x, rank);
        if (x->comm < 0 || peer < 0 || peer >= p->n_ranks)
            return false;
        if (x->peer_role < 0) {
            x->peer_role = lw_plan_role_of(p, peer);
            x->near = sim_fold_is_near(m, node, peer);
            x->answer = find_answer(m, x, rank, peer);
        }
        if (x->answer < 0 || lw_plan_role_of(p, peer) != x->peer_role ||
            sim_fold_is_near(m, node, peer) != x->near ||
            sim_fold_peer(m, &m->relations[x->answer], peer) != rank)
            return false;
    }
    return true;
}

/* On a communicator and in one direction; relations lie in the order of both. */
static bool peers_are_distinct(const struct sim_folding *m, int32_t role)
{
    const struct sim_role_list *l = &m->roles[role];
    const struct sim_relation *x = m->relations + l->first_relation;

    for (int32_t i = 0; i < l->n_relations; i++) {
        if (x[i].peer_role == role)
            return false;
        for (int32_t k = i; k-- > 0 && x[k].comm == x[i].comm && x[k].sends == x[i].sends;)
            if (x[k].peer_role == x[i].peer_role)
                return false;
    }
    return true;
}

enum lw_status sim_fold_roles_are_alike(struct sim_folding *m, bool *are, struct lw_err *err)
{
    enum { FEW_RELATIONS = 32 };
    const struct lw_plan *p = m->plan;
    bool face = false, alike = true;

    for (int32_t role = 0; alike && role < p->n_roles; role++)
        alike = m->roles[role].n_relations <= FEW_RELATIONS && bytes_are_alike(m, role);
    if (alike)
        LW_TRY(find_lines(m, &face, err));
    for (int32_t r = 0; alike && !face && r < p->n_ranks; r++)
        alike = peers_are_alike(m, r);
    for (int32_t role = 0; alike && role < p->n_roles; role++)
        alike = peers_are_distinct(m, role);
    *are = alike;
    return LW_OK;
}
