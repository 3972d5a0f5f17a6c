/* Who acts in the abstract run: the roles where every rank of a role meets the same roles at the
 * same ops, and the ranks themselves where not. Then the tables by op, by actor and by meeting. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/check/group_kinds.h"
#include "shared/check/plan_check_run.h"
#include "shared/plan/op.h"
#include "shared/numbers/order.h"

/* --- can roles represent ranks? --------------------------------------------------------------- */

/* In each class, a role meets one set of roles. class_of: the smallest of the set. */
static bool collectives_fold(struct lw_check_run *k)
{
    const struct lw_plan *p = k->p;

    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t *of = k->class_of + (int64_t)c * p->n_roles;
        const int32_t *inside = k->kinds->inside + (int64_t)c * p->n_roles;
        for (int32_t r = 0; r < p->n_roles; r++)
            of[r] = -1;
        for (int32_t i = k->kinds->first[c]; i < k->kinds->first[c + 1]; i++) {
            const struct lw_group *g = &p->groups[k->kinds->group[i]];
            const struct lw_group_roles in = lw_group_roles_of(p, c, g);
            int32_t least = lw_group_role(&in, 0);
            for (int32_t m = 1; m < in.n; m++) {
                int32_t role = lw_group_role(&in, m);
                least = role < least ? role : least;
            }
            for (int32_t m = 0; m < in.n; m++) {
                int32_t *mine = &of[lw_group_role(&in, m)];
                if (*mine >= 0 && *mine != least)
                    return false;
                *mine = least;
            }
        }
        for (int32_t r = 0; r < p->n_roles; r++) /* the whole set in every group, all or none */
            if (inside[r] != (of[r] >= 0 ? p->roles[r].n_ranks : 0))
                return false;
    }
    return true;
}

/* Every group of a class holds all roles of its set. seen[n_roles] is zeroed. */
static bool groups_are_whole(const struct lw_check_run *k, int32_t *seen)
{
    const struct lw_plan *p = k->p;
    bool whole = true;
    int32_t stamp = 0;

    for (int32_t c = 0; whole && c < p->n_comms; c++) {
        const int32_t *of = k->class_of + (int64_t)c * p->n_roles;
        const int32_t *size = k->expected + (int64_t)c * p->n_roles;
        for (int32_t i = k->kinds->first[c]; whole && i < k->kinds->first[c + 1]; i++) {
            const struct lw_group *g = &p->groups[k->kinds->group[i]];
            const struct lw_group_roles in = lw_group_roles_of(p, c, g);
            int32_t distinct = 0;
            stamp++;
            for (int32_t m = 0; m < in.n; m++) {
                int32_t role = lw_group_role(&in, m);
                distinct += seen[role] != stamp;
                seen[role] = stamp;
            }
            whole = distinct == size[of[lw_group_role(&in, 0)]];
        }
    }
    return whole;
}

static void count_expected_roles(struct lw_check_run *k)
{
    const struct lw_plan *p = k->p;

    for (int32_t c = 0; c < p->n_comms; c++) {
        const int32_t *of = k->class_of + (int64_t)c * p->n_roles;
        int32_t *size = k->expected + (int64_t)c * p->n_roles;
        memset(size, 0, (size_t)p->n_roles * sizeof *size);
        for (int32_t r = 0; r < p->n_roles; r++)
            if (of[r] >= 0)
                size[of[r]]++;
    }
}

/* --- tables ----------------------------------------------------------------------------------- */

static bool has_calls(const struct lw_check_run *k)
{
    const struct lw_matches *m = k->matches;

    for (int32_t i = 0; m->any && i < m->first[k->p->n_roles]; i++)
        if (lw_op_call(k->p, m->list[i]) >= 0)
            return true;
    return false;
}

struct call {
    int32_t number, op;
};

LW_COMPARATOR(compare_calls, struct call, a->number, b->number, a->op, b->op)

static void lead_calls(struct lw_check_run *k, const struct lw_program *g, struct call *calls)
{
    size_t n = 0;

    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        int32_t call = lw_op_call(k->p, i);
        k->call_lead[i] = i;
        k->call_size[i] = 1;
        if (call >= 0 && lw_op_class(lw_op_shared(k->p, i)->kind) == LW_CLASS_P2P)
            calls[n++] = (struct call){call, i};
    }
    lw_sort(calls, n, compare_calls);
    for (size_t i = 1; i < n; i++) {
        if (calls[i].number != calls[i - 1].number)
            continue;
        k->call_lead[calls[i].op] = k->call_lead[calls[i - 1].op];
        k->call_size[k->call_lead[calls[i].op]]++;
    }
}

static void link_program(struct lw_check_run *k, int32_t role, int32_t *last_on_comm,
                         int32_t *n_on_comm, int32_t *last_on_stream)
{
    const struct lw_plan *p = k->p;
    struct lw_program g = p->programs[(int64_t)k->variant * p->n_roles + role];
    int32_t *head = k->head + (int64_t)role * p->n_streams, run = g.first_op;

    for (int32_t s = 0; s < p->n_streams; s++)
        head[s] = last_on_stream[s] = -1;
    for (int32_t c = 0; c < p->n_comms; c++) {
        last_on_comm[c] = -1;
        n_on_comm[c] = 0;
    }
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = lw_op_shared(p, i);
        int32_t before = last_on_stream[o->stream], call = lw_op_call(p, i);
        if (lw_op_call(p, run) != call)
            run = i; /* the first of the ops without another call between them */
        bool grouped = lw_op_class(o->kind) == LW_CLASS_P2P && call >= 0 && before >= run;
        if (k->issue_lead)
            k->issue_lead[i] = grouped ? k->issue_lead[before] : i;
        k->next_on_stream[i] = k->before_on_comm[i] = -1;
        if (k->ordinal)
            k->ordinal[i] = -1;
        if (before < 0)
            head[o->stream] = i;
        else
            k->next_on_stream[before] = i;
        last_on_stream[o->stream] = i;
        if (o->comm < 0)
            continue;
        k->before_on_comm[i] = last_on_comm[o->comm];
        last_on_comm[o->comm] = i;
        if (lw_op_class(o->kind) == LW_CLASS_COLLECTIVE)
            k->ordinal[i] = n_on_comm[o->comm]++;
    }
}

static enum lw_status make_tables(struct lw_check_run *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int32_t longest = lw_plan_longest_program(p);

    struct call *calls;
    int32_t *last_on_comm, *n_on_comm, *last_on_stream;
    LW_TAKE_ROOM(&k->room, k->next_on_stream, p->n_ops, err);
    LW_TAKE_ROOM(&k->room, k->before_on_comm, p->n_ops, err);
    if (lw_check_has_collectives(p))
        LW_TAKE(&k->room, k->ordinal, p->n_ops, err);
    bool has = has_calls(k);
    if (has) {
        LW_TAKE(&k->room, k->issue_lead, p->n_ops, err);
        LW_TAKE(&k->room, k->call_lead, p->n_ops, err);
        LW_TAKE(&k->room, k->call_size, p->n_ops, err);
    }
    LW_TAKE(&k->room, k->head, (int64_t)p->n_roles * p->n_streams, err);
    LW_TAKE(&k->room, calls, has ? longest : 0, err);
    LW_TAKE(&k->room, last_on_comm, p->n_comms, err);
    LW_TAKE(&k->room, n_on_comm, p->n_comms, err);
    LW_TAKE(&k->room, last_on_stream, p->n_streams, err);
    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_program g = p->programs[(int64_t)k->variant * p->n_roles + r];
        link_program(k, r, last_on_comm, n_on_comm, last_on_stream);
        if (has)
            lead_calls(k, &g, calls);
    }
    return LW_OK;
}

static enum lw_status choose_actors(struct lw_check_run *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    LW_TAKE(&k->room, k->class_of, (int64_t)p->n_comms * p->n_roles, err);
    LW_TAKE(&k->room, k->expected, (int64_t)p->n_comms * p->n_roles, err);
    k->folded = p->n_roles < p->n_ranks && collectives_fold(k);
    if (k->folded) {
        count_expected_roles(k);
        int32_t *seen;
        LW_TAKE(&k->room, seen, p->n_roles, err);
        k->folded = groups_are_whole(k, seen) && lw_matches_by_role(p, k->matches);
    }
    if (!k->folded && k->matches->folded)
        LW_TRY(lw_match_by_rank(p, k->matches, &k->room, err));
    k->n_actors = k->folded ? p->n_roles : p->n_ranks;
    k->n_keys = k->folded ? p->n_roles : p->n_groups;
    if (!k->folded)
        LW_TAKE(&k->room, k->expected, (int64_t)p->n_comms * k->n_keys, err);
    for (int32_t c = 0; !k->folded && c < p->n_comms; c++)
        for (int32_t g = 0; g < p->n_groups; g++)
            k->expected[(int64_t)c * k->n_keys + g] = p->groups[g].n_members;
    return LW_OK;
}

/* Meetings of a key are as many as any of its actors has collectives (all have the same number). */
static enum lw_status make_meetings(struct lw_check_run *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int64_t cells = (int64_t)p->n_comms * k->n_keys, total = 0;
    int32_t *n = lw_arena_alloc(&k->room, cells, sizeof *n);

    k->meeting_at = lw_arena_alloc(&k->room, cells, sizeof *k->meeting_at);
    if (!n || !k->meeting_at)
        return lw_fail_nomem(err);
    for (int32_t a = 0; a < k->n_actors; a++) {
        struct lw_program g = program_of(k, a);
        for (int32_t i = g.first_op; k->ordinal && i < g.first_op + g.n_ops; i++) {
            if (k->ordinal[i] < 0)
                continue;
            int64_t key = meeting_key(k, a, lw_op_at(p, i).comm);
            n[key] = k->ordinal[i] >= n[key] ? k->ordinal[i] + 1 : n[key];
        }
    }
    for (int64_t c = 0; c < cells; c++) {
        k->meeting_at[c] = total;
        total += n[c];
    }
    k->arrived = lw_arena_alloc(&k->room, total, sizeof *k->arrived);
    return k->arrived ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status make_actors(struct lw_check_run *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int64_t total = 0, heads = (int64_t)k->n_actors * p->n_streams;

    LW_TAKE(&k->room, k->state_at, k->n_actors, err);
    for (int32_t a = 0; a < k->n_actors; a++) {
        k->state_at[a] = total - program_of(k, a).first_op;
        total += program_of(k, a).n_ops;
    }
    LW_TAKE(&k->room, k->state, total + 1, err);
    k->state[total] = ENDED;
    if (k->call_lead)
        LW_TAKE(&k->room, k->call_left, total, err);
    LW_TAKE(&k->room, k->cursor, heads, err);
    LW_TAKE(&k->room, k->dep_cursor, heads, err);
    LW_TAKE(&k->room, k->waits_on, heads, err);
    for (int64_t i = 0; i < heads; i++)
        k->waits_on[i] = total;
    LW_TAKE(&k->room, k->n_queued, heads, err);
    LW_TAKE(&k->room, k->host, k->n_actors, err);
    LW_TAKE(&k->room, k->queue, k->n_actors, err);
    LW_TAKE(&k->room, k->queued, k->n_actors, err);
    for (int32_t a = 0; a < k->n_actors; a++) {
        struct lw_program g = program_of(k, a);
        k->host[a] = k->hosts ? g.first_op : g.first_op + g.n_ops;
        memcpy(k->cursor + (int64_t)a * p->n_streams,
               k->head + (int64_t)role_of_actor(k, a) * p->n_streams,
               (size_t)p->n_streams * sizeof *k->cursor);
        for (int32_t i = g.first_op; k->call_lead && i < g.first_op + g.n_ops; i++)
            k->call_left[state_of(k, a, i)] = k->call_size[i];
    }
    return LW_OK;
}

enum lw_status lw_check_run_make(struct lw_check_run *k, struct lw_err *err)
{
    LW_TRY(choose_actors(k, err));
    LW_TRY(make_tables(k, err));
    LW_TRY(make_meetings(k, err));
    return make_actors(k, err);
}
