/* What folding reads of a plan and a cluster: which peers and operands the ranks of a role have,
 * which group is of which communicator, and which ranks the model knows by name. A role of a
 * thousand ops has a handful of peers and operand rows; only those are looked at rank by rank. */
#include <stdlib.h>

#include "shared/base/sort.h"
#include "sim/cost/cost_model.h"
#include "sim/fold/fold_state.h"
#include "shared/numbers/order.h"

/* --- what the plan says --- */

LW_COMPARATOR(compare_relations, struct sim_relation, a->comm, b->comm, a->sends, b->sends, a->row,
              b->row, a->peer, b->peer)

/* The path is new: it was not requested before. */
bool sim_fold_is_new(struct sim_trie *t, const int64_t *path, int n)
{
    int64_t before = t->n;

    sim_trie_path(t, 0, path, (size_t)n);
    return t->n > before;
}

/* The same as one of the first few of the role: most roles have no more. */
static bool have_row(const struct sim_folding *m, const struct sim_role_list *l, int32_t row)
{
    for (int64_t i = l->first_row; i < m->n_rows && i < l->first_row + 8; i++)
        if (m->rows[i] == row)
            return true;
    return false;
}

static bool have_relation(const struct sim_folding *m, const struct sim_role_list *l,
                          const struct sim_relation *x)
{
    for (int64_t i = l->first_relation; i < m->n_relations && i < l->first_relation + 8; i++)
        if (compare_relations(&m->relations[i], x) == 0)
            return true;
    return false;
}

static enum lw_status add_op(struct sim_folding *m, int32_t role, const struct lw_op *op,
                             struct lw_err *err)
{
    const struct sim_role_list *l = &m->roles[role];
    const struct lw_plan *p = m->plan;
    if (op->operand < 0 && !m->chunk && lw_op_class(op->kind) != LW_CLASS_P2P)
        return LW_OK; /* most */
    struct sim_relation x = {op->comm, op->operand, op->operand < 0 ? op->peer : -1,
                             op->kind == LW_OP_SEND, -1, -1, false, false};
    int64_t row[] = {SIM_PATH_ROWS, role, op->operand};
    int64_t relation[] = {SIM_PATH_RELATIONS, role, x.comm, x.sends, x.row, x.peer};

    if (op->operand >= 0 && !have_row(m, l, op->operand) && sim_fold_is_new(&m->trie, row, 3)) {
        LW_ROOM(m->rows, m->rows_capacity, m->n_rows + 1, err);
        m->rows[m->n_rows++] = op->operand;
    }
    if (lw_op_class(op->kind) == LW_CLASS_P2P && !have_relation(m, l, &x) &&
        sim_fold_is_new(&m->trie, relation, 6)) {
        LW_ROOM(m->relations, m->relations_capacity, m->n_relations + 1, err);
        m->relations[m->n_relations++] = x;
    }
    if (m->chunk && op->comm >= 0 && lw_op_class(op->kind) == LW_CLASS_COLLECTIVE) {
        enum lw_reducer_kind k = p->comms[op->comm].reducer;
        m->ring[op->comm] |= sim_ring_steps(op->kind, 2) > 0;
        m->unlike[op->comm] |=
            (k != LW_REDUCER_AUTO && k != LW_REDUCER_RING && k != LW_REDUCER_GLOO) ||
            (sim_ring_steps(op->kind, 2) == 0 && op->kind != LW_OP_BARRIER);
    }
    return LW_OK;
}

enum lw_status sim_fold_read_programs(struct sim_folding *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    for (int32_t r = 0; r < p->n_roles; r++) {
        struct sim_role_list *l = &m->roles[r];
        l->first_relation = (int32_t)m->n_relations;
        l->first_row = (int32_t)m->n_rows;
        for (int32_t v = 0; v < p->n_variants; v++) {
            struct lw_program range = p->programs[(int64_t)v * p->n_roles + r];
            for (int32_t i = 0; i < range.n_ops; i++)
                LW_TRY(add_op(m, r, LW_OP_HELD(p, range.first_op + i), err));
        }
        l->n_relations = (int32_t)m->n_relations - l->first_relation;
        l->n_rows = (int32_t)m->n_rows - l->first_row;
        lw_sort(m->relations + l->first_relation, l->n_relations, compare_relations);
    }
    return LW_OK;
}

bool sim_fold_read_groups(struct sim_folding *m)
{
    const struct lw_plan *p = m->plan;

    for (int32_t g = 0; g < p->n_groups; g++) {
        m->comm_of[g] = -1;
        m->spread[g] = lw_spread_over(m->cluster->devices_per_node,
                                      p->members + p->groups[g].first_member,
                                      p->groups[g].n_members);
    }
    for (int32_t c = 0; c < p->n_comms; c++) {
        for (int32_t r = 0; r < p->n_ranks; r++) {
            int32_t g = lw_plan_group_of(p, c, r);
            if (g >= 0 && m->comm_of[g] >= 0 && m->comm_of[g] != c)
                return false;
            if (g >= 0)
                m->comm_of[g] = c;
        }
    }
    return true;
}

bool sim_fold_read_peers(const struct sim_folding *m)
{
    const struct lw_plan *p = m->plan;

    for (int32_t r = 0; r < p->n_ranks; r++) {
        const struct sim_role_list *l = &m->roles[lw_plan_role_of(p, r)];
        for (int32_t i = 0; i < l->n_relations; i++) {
            int32_t peer = sim_fold_peer(m, &m->relations[l->first_relation + i], r);
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
        if (lw_plan_member_at(p, p->groups[group].first_member + i) == rank)
            return true;
    return false;
}

bool sim_single_out(struct sim_folding *m, int32_t rank)
{
    bool change = !m->single[rank];

    m->single[rank] = true;
    return change;
}

bool sim_single_out_group(struct sim_folding *m, int32_t group)
{
    bool change = false;

    for (int32_t i = 0; i < m->plan->groups[group].n_members; i++)
        change |=
            sim_single_out(m, lw_plan_member_at(m->plan, m->plan->groups[group].first_member + i));
    return change;
}

void sim_fold_read_slow_links(struct sim_folding *m)
{
    const struct lw_plan *p = m->plan;

    for (int32_t i = 0; i < m->cluster->n_exceptions; i++) {
        const struct lw_exception *x = &m->cluster->exceptions[i];
        if (x->rank_to < 0 || x->speed == 1 || x->rank >= p->n_ranks || x->rank_to >= p->n_ranks)
            continue;
        sim_single_out(m, x->rank);
        sim_single_out(m, x->rank_to);
        for (int32_t g = 0; g < p->n_groups; g++)
            if (holds(p, g, x->rank) && holds(p, g, x->rank_to))
                sim_single_out_group(m, g);
    }
}
