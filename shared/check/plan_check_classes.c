/* Which ranks count the same in the norm of clipping (plan_check_norm.c,
 * docs/design/grad_norm.md): those of one stage and tensor coordinate update the same elements,
 * but for elements with an owner, which are those of one member of the data group. A class is
 * named by its lowest rank. O(ranks log ranks + shards log whole parameters). */

#include "shared/base/sort.h"
#include "shared/check/plan_check.h"
#include "shared/numbers/order.h"
#include "shared/plan/shard_runs.h"

enum { AT_FIRST = 1, AT_OTHERS = 2 }; /* tensor coordinate 0, and all others */

struct sort_key {
    int32_t stage, tensor, member, rank;
};

static int32_t stage_of(const struct lw_plan *p, int32_t rank)
{
    return p->roles[lw_plan_role_of(p, rank)].stage;
}

static enum lw_status note_group(const struct lw_plan *p, const struct lw_group *g, int32_t *member,
                                 struct lw_err *err)
{
    int32_t lead = lw_plan_member_of(p, g, 0);

    for (int32_t i = 0; i < g->n_members; i++) {
        int32_t rank = lw_plan_member_of(p, g, i);
        if (stage_of(p, rank) != stage_of(p, lead))
            return lw_fail(err, LW_EPLAN,
                           "ranks %d and %d share a data group, but one is at stage %d "
                           "and one at stage %d: no norm counts what they update",
                           lead, rank, stage_of(p, lead), stage_of(p, rank));
        member[rank] = i;
    }
    return LW_OK;
}

/* Place of each rank in its data group; 0 without one. */
static enum lw_status find_members(const struct lw_plan *p, int32_t *member, struct lw_err *err)
{
    for (int32_t c = 0; c < p->n_comms; c++)
        for (int32_t r = 0; p->comms[c].purpose == LW_COMM_DATA && r < p->n_ranks; r++) {
            const struct lw_group *g = lw_plan_group(p, c, r);
            if (g && lw_plan_member_at(p, g->first_member) == r)
                LW_TRY(note_group(p, g, member, err));
        }
    return LW_OK;
}

/* AT_FIRST, AT_OTHERS: tensor coordinates at which the parameter counts. */
static uint8_t where_counted(const struct lw_plan *p, int32_t param)
{
    return (uint8_t)((lw_plan_counts(p, param, 0) ? AT_FIRST : 0) |
                     (lw_plan_counts(p, param, 1) ? AT_OTHERS : 0));
}

/* What is counted of each stage: of elements that all members update, and of each member's own. */
struct counted {
    int64_t *first;  /* [n_stages + 1] a stage's members in `owned` */
    uint8_t *owned;  /* [members of all stages] */
    uint8_t *common; /* [n_stages] */
};

/* where: its elements count. */
static enum lw_status note_shard(const struct lw_plan *p, const struct lw_shard *h, uint8_t where,
                                 struct counted *c, struct lw_err *err)
{
    int32_t stage = p->params[h->param].stage;

    if (h->owner < 0) {
        c->common[stage] |= where;
        return LW_OK;
    }
    if (where && h->owner >= c->first[stage + 1] - c->first[stage])
        return lw_fail(err, LW_EPLAN,
                       "parameter %d '%s': elements belong to member %d, but the data "
                       "groups of its stage have %lld: no rank counts them in the norm",
                       h->param, p->params[h->param].name, h->owner,
                       (long long)(c->first[stage + 1] - c->first[stage]));
    if (where)
        c->owned[c->first[stage] + h->owner] |= where;
    return LW_OK;
}

static enum lw_status note_counted(const struct lw_plan *p, const int32_t *member,
                                   struct counted *c, struct lw_arena *room, struct lw_err *err)
{
    int32_t n_stages = p->n_stages > 0 ? p->n_stages : 1;

    c->first = lw_arena_alloc(room, n_stages + INT64_C(1), sizeof *c->first);
    c->common = lw_arena_alloc(room, n_stages, sizeof *c->common);
    c->owned = lw_arena_alloc(room, p->n_ranks, sizeof *c->owned); /* no more members than ranks */
    if (!c->first || !c->common || !c->owned)
        return lw_fail_nomem(err);
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (member[r] >= c->first[stage_of(p, r) + 1])
            c->first[stage_of(p, r) + 1] = member[r] + INT64_C(1);
    for (int32_t s = 0; s < n_stages; s++)
        c->first[s + 1] += c->first[s];
    for (int32_t i = 0; p->n_shards == 0 && i < p->n_params; i++)
        if (p->params[i].numel > 0)
            c->common[p->params[i].stage] |= where_counted(p, i);
    for (int32_t i = 0; i < lw_n_shard_runs(p); i++) {
        const struct lw_shard_run x = lw_shard_run_at(p, i);
        uint8_t where = x.first.numel > 0 ? where_counted(p, x.first.param) : 0;
        for (int32_t k = 0; k < x.n; k++) {
            struct lw_shard h = lw_shard_of_run(&x, k);
            LW_TRY(note_shard(p, &h, where, c, err));
        }
    }
    return LW_OK;
}

LW_COMPARATOR(by_class, struct sort_key, a->stage, b->stage, a->tensor, b->tensor, a->member,
              b->member, a->rank, b->rank)

/* Ranks in the order of their classes: the first of each names it. */
static void name_classes(int32_t n_ranks, const struct sort_key *keys, const struct counted *c,
                         struct lw_norm_classes *out)
{
    int32_t owner = -1, common = -1;

    for (int32_t i = 0; i < n_ranks; i++) {
        const struct sort_key *x = &keys[i], *before = &keys[i > 0 ? i - 1 : 0];
        uint8_t here = x->tensor == 0 ? AT_FIRST : AT_OTHERS;
        bool next = i == 0 || x->stage != before->stage || x->tensor != before->tensor;
        bool shares = c->common[x->stage] & here;
        bool owns = c->owned[c->first[x->stage] + x->member] & here;
        if (next)
            common = x->rank;
        if (next || x->member != before->member)
            owner = x->rank;
        out->common[x->rank] = shares ? common : -1;
        out->owner[x->rank] = owns ? owner : -1;
        out->n += (shares && common == x->rank) + (owns && owner == x->rank);
    }
}

enum lw_status lw_norm_classes_find(const struct lw_plan *p, struct lw_norm_classes *out,
                                    struct lw_arena *room, struct lw_err *err)
{
    struct sort_key *keys = lw_arena_alloc(room, p->n_ranks, sizeof *keys);
    int32_t *member = lw_arena_alloc(room, p->n_ranks, sizeof *member);
    struct counted counted;

    *out = (struct lw_norm_classes){lw_arena_alloc(room, p->n_ranks, sizeof *out->owner),
                                    lw_arena_alloc(room, p->n_ranks, sizeof *out->common), 0};
    if (!keys || !member || !out->owner || !out->common)
        return lw_fail_nomem(err);
    LW_TRY(find_members(p, member, err));
    LW_TRY(note_counted(p, member, &counted, room, err));
    for (int32_t r = 0; r < p->n_ranks; r++)
        keys[r] = (struct sort_key){stage_of(p, r), lw_plan_coord(p, r, LW_AXIS_TP), member[r], r};
    lw_sort(keys, p->n_ranks, by_class);
    name_classes(p->n_ranks, keys, &counted, out);
    return LW_OK;
}
