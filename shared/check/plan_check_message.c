/* Sends and receives of a plan: every send has its receive, of the same bytes, micro-batch and
 * module. The i-th send from a to b in a class meets the i-th receive of b from a.
 *
 * Ranks are many, roles few. Where every rank of a role has its peers in one role, and sends and
 * receives of two roles name each other rank by rank, the roles' lists are matched in place of
 * the ranks': O(ops + rows * ranks of a role). Whatever does not fit, a fault included, is done
 * again rank by rank, which finds the words for it. */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/message_channels.h"
#include "shared/check/plan_check.h"
#include "shared/plan/op.h"
#include "shared/plan/role_line.h"

/* The channel that messages of a row took last on a rank: those that share a row share their peer,
 * too. */
struct row_channel {
    int32_t row, channel; /* row -1: none */
};

enum { ROWS_KEPT = 16 };

static enum lw_status add_message(const struct lw_plan *p, struct lw_channels *list, int32_t rank,
                                  int32_t op, int32_t *channel, struct lw_err *err)
{
    const struct lw_op *o = LW_OP_HELD(p, op);
    int32_t peer = lw_plan_operand(p, o, rank).peer, mine = lw_plan_group_of(p, o->comm, rank);
    bool received = o->kind == LW_OP_RECV;

    if (peer < 0 || mine < 0 || lw_plan_group_of(p, o->comm, peer) != mine)
        return lw_plan_op_fail(p, op, err,
                               " on rank %d: peer %d is not in its group of communicator '%.40s'",
                               rank, peer, p->comms[o->comm].name);
    return lw_channels_add(list, o->comm, received ? peer : rank, received ? rank : peer, received,
                           op, channel, err);
}

static enum lw_status list_of_rank(const struct lw_plan *p, const struct lw_matches *m,
                                   struct lw_channels *list, int32_t rank, struct lw_err *err)
{
    struct row_channel last[ROWS_KEPT];
    int32_t role = lw_plan_role_of(p, rank);

    for (int i = 0; i < ROWS_KEPT; i++)
        last[i].row = -1;
    for (int32_t k = m->first[role]; k < m->first[role + 1]; k++) {
        int32_t op = m->list[k], row = lw_op_row(p, op);
        struct row_channel *x = &last[(uint32_t)row % ROWS_KEPT];
        if (row >= 0 && x->row == row) {
            LW_TRY(lw_channels_add_to(list, x->channel, LW_OP_HELD(p, op)->kind == LW_OP_RECV, op,
                                      err));
            continue;
        }
        LW_TRY(add_message(p, list, rank, op, &x->channel, err));
        x->row = row;
    }
    return LW_OK;
}

/* The messages of every rank. */
static enum lw_status list_messages(const struct lw_plan *p, const struct lw_matches *m,
                                    struct lw_channels *list, struct lw_err *err)
{
    for (int32_t r = 0; r < p->n_ranks; r++)
        LW_TRY(list_of_rank(p, m, list, r, err));
    return LW_OK;
}

static enum lw_status unmatched(const struct lw_plan *p, const struct lw_channels *list,
                                const struct lw_channel *c, struct lw_err *err)
{
    int64_t n_sent = c->at[0] - c->first, n_received = c->at[1] - c->at[0];
    bool received = n_sent < n_received;
    int32_t op = list->ops[received ? c->at[0] + n_sent : c->first + n_received];

    return lw_plan_op_fail(p, op, err, " on rank %d: rank %d never %s it",
                           received ? c->to : c->from, received ? c->from : c->to,
                           received ? "sends" : "receives");
}

/* A send and the receive that it meets, on a rank each. */
struct pair {
    int32_t sent, from, received, to;
};

static int64_t bytes_of(const struct lw_plan *p, int32_t op, int32_t rank)
{
    return lw_plan_operand(p, LW_OP_HELD(p, op), rank).bytes;
}

static enum lw_status differ(const struct lw_plan *p, struct pair x, struct lw_err *err)
{
    const struct lw_op *a = LW_OP(p, x.sent), *b = LW_OP(p, x.received);
    int64_t sent = bytes_of(p, x.sent, x.from), received = bytes_of(p, x.received, x.to);
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    lw_plan_op_text(p, x.sent, text);
    lw_plan_op_text(p, x.received, other);
    if (sent != received)
        return lw_fail(err, LW_EPLAN, "%s sends %lld bytes from rank %d, but %s takes %lld on rank "
                                      "%d", text, (long long)sent, x.from, other,
                       (long long)received, x.to);
    return lw_fail(err, LW_EPLAN, "%s sends micro-batch %d of module %d from rank %d, but %s takes "
                                  "micro-batch %d of module %d on rank %d", text, a->micro_batch,
                   a->module, x.from, other, b->micro_batch, b->module, x.to);
}

static bool same_or_unknown(int32_t a, int32_t b)
{
    return a < 0 || b < 0 || a == b;
}

/* Equal bytes; and where both say what they carry, the same. */
static bool meets(const struct lw_plan *p, const struct lw_matches *out, struct pair x)
{
    const struct lw_op *a = LW_OP_HELD(p, x.sent), *b = LW_OP_HELD(p, x.received);

    if (out->ends_only)
        return true;
    return bytes_of(p, x.sent, x.from) == bytes_of(p, x.received, x.to) &&
           same_or_unknown(lw_op_micro_batch(p, x.sent), lw_op_micro_batch(p, x.received)) &&
           same_or_unknown(a->module, b->module);
}

/* Two pairs of one channel meet alike but for their micro-batches: their ops share rows. */
static bool meets_as(const struct lw_plan *p, const struct lw_matches *out, struct pair x,
                     struct pair before)
{
    int32_t row = lw_op_row(p, x.sent);

    if (row < 0 || p->op_own || row != lw_op_row(p, before.sent) ||
        lw_op_row(p, x.received) != lw_op_row(p, before.received))
        return meets(p, out, x);
    return out->ends_only ||
           same_or_unknown(lw_op_micro_batch(p, x.sent), lw_op_micro_batch(p, x.received));
}

static void note_pair(struct lw_matches *out, struct pair x)
{
    int32_t at = out->base[x.from] + out->ordinal[x.sent];

    out->rank[at] = x.to;
    out->op[at] = x.received;
    at = out->base[x.to] + out->ordinal[x.received];
    out->rank[at] = x.from;
    out->op[at] = x.sent;
}

static enum lw_status match(const struct lw_plan *p, const struct lw_channels *list,
                            struct lw_matches *out, struct lw_err *err)
{
    for (int32_t i = 0; i < list->n; i++) {
        const struct lw_channel *c = &list->v[i];
        int64_t n_sent = c->at[0] - c->first, n_received = c->at[1] - c->at[0];
        struct pair before;
        for (int64_t k = 0; k < n_sent && k < n_received; k++) {
            struct pair x = {list->ops[c->first + k], c->from, list->ops[c->at[0] + k], c->to};
            if (!(k == 0 ? meets(p, out, x) : meets_as(p, out, x, before)))
                return differ(p, x, err);
            note_pair(out, x);
            before = x;
        }
        if (n_sent != n_received)
            return unmatched(p, list, c, err);
    }
    return LW_OK;
}

/* The sends and receives of each role, found once: ranks are many. */
static enum lw_status find_messages(const struct lw_plan *p, int32_t variant,
                                    struct lw_matches *out, struct lw_arena *room,
                                    struct lw_err *err)
{
    int32_t *first = lw_arena_alloc(room, (int64_t)p->n_roles + 1, sizeof *first), n = 0;

    if (!first)
        return lw_fail_nomem(err);
    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_program g = p->programs[(int64_t)variant * p->n_roles + r];
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            n += lw_op_class(lw_op_at(p, i).kind) == LW_CLASS_P2P;
        first[r + 1] = n;
    }
    out->variant = variant;
    out->first = first;
    out->any = n > 0;
    if (n == 0)
        return LW_OK;
    int32_t *list, *ordinal;
    LW_TAKE(room, list, n, err);
    LW_TAKE(room, ordinal, p->n_ops, err);
    LW_TAKE(room, out->first_rank, p->n_roles, err);
    lw_first_ranks(p, out->first_rank);
    for (int32_t r = 0, at = 0; r < p->n_roles; r++) {
        struct lw_program g = p->programs[(int64_t)variant * p->n_roles + r];
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            if (lw_op_class(lw_op_at(p, i).kind) != LW_CLASS_P2P)
                continue;
            ordinal[i] = at - first[r];
            list[at++] = i;
        }
    }
    out->list = list;
    out->ordinal = ordinal;
    return LW_OK;
}

/* Where the messages of each rank begin, and room for what n of them meet. */
static enum lw_status make_room(const struct lw_plan *p, int64_t n, struct lw_matches *out,
                                struct lw_arena *room, struct lw_err *err)
{
    int32_t *base;

    if (n > INT32_MAX)
        return lw_fail(err, LW_EPLAN, "variant '%s' has %lld messages, more than 2^31",
                       p->variants[out->variant].name, (long long)n);
    LW_TAKE(room, base, p->n_ranks, err);
    LW_TAKE(room, out->rank, n, err);
    LW_TAKE(room, out->op, n, err);
    for (int32_t r = 1; r < p->n_ranks; r++)
        base[r] = base[r - 1] + out->first[lw_plan_role_of(p, r - 1) + 1] -
                  out->first[lw_plan_role_of(p, r - 1)];
    out->base = base;
    out->folded = false;
    return LW_OK;
}

enum lw_status lw_match_by_rank(const struct lw_plan *p, struct lw_matches *out,
                                struct lw_arena *room, struct lw_err *err)
{
    struct lw_channels list = {0};
    enum lw_status s = list_messages(p, out, &list, err);

    if (s == LW_OK)
        s = make_room(p, list.n_added, out, room, err);
    if (s == LW_OK)
        s = lw_channels_settle(&list, err);
    if (s == LW_OK)
        s = match(p, &list, out, err);
    lw_channels_free(&list);
    return s;
}

/* --- roles in place of ranks ------------------------------------------------------------------ */

/* The role of all peers of a row, as looked at for a role and a communicator. */
struct peers_seen {
    int32_t by, in, role; /* by: 1 + the role; 0 = nothing yet */
};

struct folding {
    const struct lw_plan *p;
    struct lw_matches *out;
    struct lw_role_ranks ranks;
    struct lw_role_line *lines;   /* [n_roles] */
    struct peers_seen *seen;      /* [2 * n_operand_rows]: the last two looked at of each row, which
                                   * a stage has for both directions */
    struct lw_channels list;      /* the messages of all roles */
};

static int32_t peer_of(const struct folding *f, const struct lw_op *o, int32_t index)
{
    return o->operand < 0 ? o->peer : lw_operand_at(f->p, o->operand, index).peer;
}

/* Groups of the rule do not differ along the pipeline, and hold all ranks of the roles in them. */
static bool is_along_pipeline(const struct lw_plan *p, int32_t comm, int32_t n_ranks)
{
    const struct lw_comm_rule *x = p->grid ? &p->grid->comms[comm] : NULL;
    struct lw_digits kinds;

    return x && x->n_groups > 0 && lw_grid_group_kinds(p->grid, x, 1, &kinds) == 1 &&
           (int64_t)x->n_groups * x->n_members ==
               (int64_t)n_ranks * lw_grid_member_kinds(p->grid, x, &kinds);
}

/* Ranks of two roles with equal indexes are in the same groups: along a pipeline all are where the
 * first ones are. */
static bool meet_in_groups(const struct folding *f, int32_t comm, int32_t role, int32_t other)
{
    const struct lw_plan *p = f->p;
    int32_t n = p->roles[role].n_ranks;

    if (is_along_pipeline(p, comm, n))
        n = 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t mine = lw_plan_group_of(p, comm, lw_role_rank(&f->ranks, role, i));
        if (mine < 0 || mine != lw_plan_group_of(p, comm, lw_role_rank(&f->ranks, other, i)))
            return false;
    }
    return true;
}

/* The role of the peers of all ranks of a role; -1 when they are of several, or something is
 * wrong. */
static int32_t find_role_of_peers(const struct folding *f, int32_t role, const struct lw_op *o)
{
    const struct lw_plan *p = f->p;
    const int32_t n = p->roles[role].n_ranks;
    struct lw_operand first = {.peer = o->peer};

    if (o->operand >= 0 && n > 0)
        first = lw_operand_at(p, o->operand, 0);
    int32_t found = n > 0 && first.peer >= 0 ? lw_plan_role_of(p, first.peer) : -1;
    if (found >= 0 && p->roles[found].n_ranks == n &&
        lw_rule_names_line(p, o->operand, &f->lines[found]))
        return meet_in_groups(f, o->comm, role, found) ? found : -1;
    for (int32_t i = 0; i < n; i++) {
        struct lw_operand at = o->operand < 0 ? first : lw_operand_at(p, o->operand, i);
        int32_t mine = lw_plan_group_of(p, o->comm, lw_role_rank(&f->ranks, role, i));
        if (at.peer < 0 || mine < 0 || lw_plan_group_of(p, o->comm, at.peer) != mine ||
            lw_plan_role_of(p, at.peer) != found || at.bytes != first.bytes)
            return -1;
    }
    return found;
}

static int32_t role_of_peers(struct folding *f, int32_t role, const struct lw_op *o)
{
    if (o->operand < 0)
        return f->p->roles[role].n_ranks > 1 ? -1 : find_role_of_peers(f, role, o);
    struct peers_seen *seen = &f->seen[2 * (int64_t)o->operand];
    if (seen[0].by == role + 1 && seen[0].in == o->comm)
        return seen[0].role;
    struct peers_seen other = seen[1];
    seen[1] = seen[0];
    seen[0] = other.by == role + 1 && other.in == o->comm
                  ? other
                  : (struct peers_seen){role + 1, o->comm, find_role_of_peers(f, role, o)};
    return seen[0].role;
}

/* *all: the peers of each message have one role. */
static enum lw_status list_roles(struct folding *f, bool *all, struct lw_err *err)
{
    const struct lw_plan *p = f->p;
    const struct lw_matches *m = f->out;

    *all = true;
    for (int32_t role = 0; role < p->n_roles; role++) {
        for (int32_t k = m->first[role]; k < m->first[role + 1]; k++) {
            const struct lw_op *o = LW_OP_HELD(p, m->list[k]);
            int32_t other = role_of_peers(f, role, o), channel;
            bool received = o->kind == LW_OP_RECV;
            *all = other >= 0;
            if (!*all)
                return LW_OK;
            LW_TRY(lw_channels_add(&f->list, o->comm, received ? other : role,
                                   received ? role : other, received, m->list[k], &channel, err));
        }
    }
    return LW_OK;
}

/* Two ops of a role name the same peer on every rank. */
static bool same_peers(const struct folding *f, int32_t role, const struct lw_op *a,
                       const struct lw_op *b)
{
    if (a->operand == b->operand && a->operand >= 0)
        return true;
    for (int32_t i = 0; i < f->p->roles[role].n_ranks; i++)
        if (peer_of(f, a, i) != peer_of(f, b, i))
            return false;
    return true;
}

/* Peers of the sends, looked up in the receives, are where one came from. x: ops of two roles. */
static bool peers_agree(const struct folding *f, struct pair x)
{
    const struct lw_plan *p = f->p;

    if (lw_rule_names_line(p, lw_op_at(p, x.sent).operand, &f->lines[x.to]) &&
        lw_rule_names_line(p, lw_op_at(p, x.received).operand, &f->lines[x.from]))
        return p->roles[x.from].n_ranks == p->roles[x.to].n_ranks;
    for (int32_t i = 0; i < p->roles[x.from].n_ranks; i++) {
        int32_t to = peer_of(f, LW_OP(p, x.sent), i);
        if (peer_of(f, LW_OP(p, x.received), lw_plan_index_of(p, to)) !=
            lw_role_rank(&f->ranks, x.from, i))
            return false;
    }
    return p->roles[x.from].n_ranks == p->roles[x.to].n_ranks;
}

static bool match_channel(struct folding *f, const struct lw_channel *c)
{
    const struct lw_plan *p = f->p;
    int32_t from = lw_role_rank(&f->ranks, c->from, 0), to = lw_role_rank(&f->ranks, c->to, 0);
    const int32_t *sends = f->list.ops + c->first, *receives = f->list.ops + c->at[0];
    int64_t n = c->at[0] - c->first;

    if (n != c->at[1] - c->at[0] ||
        !peers_agree(f, (struct pair){sends[0], c->from, receives[0], c->to}))
        return false;
    for (int64_t k = 0; k < n; k++) {
        int32_t s = sends[k], r = receives[k];
        if (!meets(p, f->out, (struct pair){s, from, r, to}) ||
            !same_peers(f, c->from, LW_OP_HELD(p, sends[0]), LW_OP_HELD(p, s)) ||
            !same_peers(f, c->to, LW_OP_HELD(p, receives[0]), LW_OP_HELD(p, r)))
            return false;
        f->out->mate[s] = r;
        f->out->mate[r] = s;
        f->out->mate_role[s] = c->to;
        f->out->mate_role[r] = c->from;
    }
    return true;
}

static enum lw_status fold_in(struct folding *f, struct lw_arena *room, struct lw_arena *scratch,
                              struct lw_err *err)
{
    const struct lw_plan *p = f->p;
    bool all;

    LW_TAKE(room, f->out->mate, p->n_ops, err);
    LW_TAKE(room, f->out->mate_role, p->n_ops, err);
    LW_TRY(lw_role_ranks_find(p, scratch, &f->ranks, err));
    LW_TAKE(scratch, f->lines, p->n_roles, err);
    lw_role_lines(p, f->lines);
    LW_TAKE(scratch, f->seen, 2L * p->n_operand_rows, err);
    LW_TRY(list_roles(f, &all, err));
    if (!all)
        return LW_OK;
    LW_TRY(lw_channels_settle(&f->list, err));
    for (int32_t i = 0; i < f->list.n && all; i++)
        all = match_channel(f, &f->list.v[i]);
    f->out->folded = all;
    return LW_OK;
}

static enum lw_status fold(const struct lw_plan *p, struct lw_matches *out, struct lw_arena *room,
                           struct lw_err *err)
{
    struct folding f = {.p = p, .out = out};
    struct lw_arena scratch = {0};
    enum lw_status s = fold_in(&f, room, &scratch, err);

    lw_channels_free(&f.list);
    lw_arena_free(&scratch);
    return s;
}

/* --- what an op says itself ------------------------------------------------------------------- */

static int64_t most_of_ranks(const struct lw_plan *p, int32_t role, const struct lw_op *o)
{
    int64_t most = 0;

    for (int32_t i = 0; i < p->roles[role].n_ranks; i++) {
        int64_t bytes = lw_operand_at(p, o->operand, i).bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Ranks' own bytes replace those of the op, which are left out (0) or the most of them. */
static enum lw_status check_own_bytes(const struct lw_plan *p, const struct lw_matches *m,
                                      struct lw_err *err)
{
    char other[LW_OP_TEXT];
    int32_t n = p->grid ? p->n_roles : p->n_ranks; /* of a grid the first rank of each role */

    for (int32_t i = 0; i < n; i++) {
        int32_t rank = p->grid ? lw_grid_rank(p->grid->axis, 0, i, 0) : i;
        int32_t role = lw_plan_role_of(p, rank);
        for (int32_t k = m->first[role]; lw_plan_index_of(p, rank) == 0 && k < m->first[role + 1];
             k++) {
            const struct lw_op *o = LW_OP_HELD(p, m->list[k]);
            int64_t most = o->operand < 0 ? o->bytes : m->folded ? lw_plan_operand(p, o, rank).bytes
                                                                 : most_of_ranks(p, role, o);
            if (o->bytes == most || (o->operand >= 0 && o->bytes == 0))
                continue;
            int32_t mate =
                m->folded ? m->mate[m->list[k]] : m->op[m->base[rank] + k - m->first[role]];
            return lw_plan_op_fail(p, m->list[k], err,
                                   " says %lld bytes, but its row of operands "
                                   "%d %lld, and so it meets %s of %lld",
                                   (long long)o->bytes, o->operand, (long long)most,
                                   lw_plan_op_text(p, mate, other),
                                   (long long)lw_op_at(p, mate).bytes);
        }
    }
    return LW_OK;
}

enum lw_status lw_match_messages(const struct lw_plan *p, int32_t variant, struct lw_matches *out,
                                 struct lw_arena *room, struct lw_err *err)
{
    LW_TRY(find_messages(p, variant, out, room, err));
    if (!out->any)
        return LW_OK;
    if (p->n_roles < p->n_ranks)
        LW_TRY(fold(p, out, room, err));
    if (!out->folded)
        LW_TRY(lw_match_by_rank(p, out, room, err));
    return out->ends_only ? LW_OK : check_own_bytes(p, out, err);
}

bool lw_matches_by_role(const struct lw_plan *p, const struct lw_matches *m)
{
    if (!m->any || m->folded)
        return true;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t role = lw_plan_role_of(p, r), first = m->first_rank[role];
        for (int32_t i = 0; i < m->first[role + 1] - m->first[role]; i++) {
            int32_t a = m->base[r] + i, b = m->base[first] + i;
            if (m->op[a] != m->op[b] ||
                lw_plan_role_of(p, m->rank[a]) != lw_plan_role_of(p, m->rank[b]))
                return false;
        }
    }
    return true;
}

int32_t lw_match_partner(const struct lw_plan *p, const struct lw_matches *m, int32_t role,
                         int32_t op, int32_t *mate)
{
    if (m->folded) {
        *mate = m->mate[op];
        return m->mate_role[op];
    }
    int32_t at = m->base[m->first_rank[role]] + m->ordinal[op];
    *mate = m->op[at];
    return lw_plan_role_of(p, m->rank[at]);
}
