/* Tables of a plan: what rows have to do with each other, after lw_plan_check_ranges has found
 * every index inside its table. Afterwards the other checks may follow indexes blindly. What ranks
 * and groups have to do with each other follows from rules of a grid that hold (grid_rule.md).
 * Invariant: ranges of an owner table sum to no more than the table they cut, so that the work is
 * linear in the plan. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/check/plan_check.h"
#include "shared/numbers/order.h"
#include "shared/plan/grid_rule.h"
#include "shared/plan/op.h"
#include "shared/plan/plan_tables.h"
#include "shared/plan/shard_runs.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/sparse.h"

static enum lw_status fail(struct lw_err *err, const char *what, int64_t i, const char *field,
                           int64_t found, int64_t lowest, int64_t limit)
{
    return lw_fail(err, LW_EPLAN, "%s %lld: %s is %lld, allowed %lld to %lld", what, (long long)i,
                   field, (long long)found, (long long)lowest, (long long)limit - 1);
}

/* v in [lowest, n) */
static enum lw_status within(const char *what, int64_t i, const char *field, int64_t v,
                             int64_t lowest, int64_t n, struct lw_err *err)
{
    return v >= lowest && v < n ? LW_OK : fail(err, what, i, field, v, lowest, n);
}

/* [first, first + n) inside a table of `size`; *used sums what is taken of it. */
static enum lw_status range(const char *what, int64_t i, const char *field, int64_t first,
                            int64_t n, int64_t size, int64_t *used, struct lw_err *err)
{
    if (first < 0 || n < 0 || first > size || n > size - first)
        return lw_fail(err, LW_EPLAN, "%s %lld: %s %lld and %lld more lie outside a table of %lld",
                       what, (long long)i, field, (long long)first, (long long)n,
                       (long long)size);
    *used += n;
    if (*used > size)
        return lw_fail(err, LW_EPLAN, "%s %lld: its %s belong to another one too", what,
                       (long long)i, field);
    return LW_OK;
}

/* Ranks of a role are numbered 0 .. n_ranks-1, each number once. */
static enum lw_status check_ranks(const struct lw_plan *p, struct lw_arena *room,
                                  struct lw_err *err)
{
    int64_t sum = 0;
    int32_t *first;
    bool *seen;

    for (int32_t r = 0; r < p->n_roles; r++) {
        LW_TRY(within("role", r, "number of ranks", p->roles[r].n_ranks, 1, p->n_ranks + 1L, err));
        sum += p->roles[r].n_ranks;
    }
    if (sum != p->n_ranks)
        return lw_fail(err, LW_EPLAN, "roles count %lld ranks, the plan has %d", (long long)sum,
                       p->n_ranks);
    LW_TAKE(room, first, p->n_roles, err);
    LW_TAKE(room, seen, p->n_ranks, err);
    for (int32_t r = 1; r < p->n_roles; r++)
        first[r] = first[r - 1] + p->roles[r - 1].n_ranks;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t role = lw_plan_role_of(p, r), index = lw_plan_index_of(p, r);
        if (index < 0 || index >= p->roles[role].n_ranks)
            return fail(err, "rank", r, "index in role", index, 0, p->roles[role].n_ranks);
        bool *mine = &seen[first[role] + index];
        if (*mine)
            return lw_fail(err, LW_EPLAN, "rank %d: its role has another rank with index %d", r,
                           lw_plan_index_of(p, r));
        *mine = true;
    }
    return LW_OK;
}

struct place {
    int32_t at[LW_N_AXES], rank;
};

LW_COMPARATOR(by_place, struct place, a->at[0], b->at[0], a->at[1], b->at[1], a->at[2], b->at[2],
              a->rank, b->rank)

/* Ranks fill a grid of these sizes, none at another's place: as many places are taken as there
 * are ranks. */
static enum lw_status fills_grid(const struct lw_plan *p, const int64_t *sizes, bool *fills,
                                 struct lw_arena *room, struct lw_err *err)
{
    bool *taken;

    *fills = true;
    LW_TAKE(room, taken, p->n_ranks, err);
    for (int32_t r = 0; *fills && r < p->n_ranks; r++) {
        int32_t at[LW_N_AXES];
        lw_plan_place(p, r, at);
        bool *mine = &taken[(at[0] * sizes[1] + at[1]) * sizes[2] + at[2]];
        *fills = !*mine;
        *mine = true;
    }
    return LW_OK;
}

/* No two ranks have the same place. */
static enum lw_status check_places(const struct lw_plan *p, struct lw_arena *room,
                                   struct lw_err *err)
{
    struct place *list;

    LW_TAKE(room, list, p->n_ranks, err);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        lw_plan_place(p, r, list[r].at);
        list[r].rank = r;
    }
    lw_sort(list, p->n_ranks, by_place);
    for (int32_t r = 1; r < p->n_ranks; r++) {
        const int32_t *at = list[r].at;
        if (memcmp(list[r - 1].at, at, sizeof list[r].at) == 0)
            return lw_fail(err, LW_EPLAN, "ranks %d and %d are both at dp %d, pp %d, tp %d",
                           list[r - 1].rank, list[r].rank, at[0], at[1], at[2]);
    }
    return LW_OK;
}

/* Coordinates lie in the strategy's grid, or where that does not make up the ranks (a recorded
 * plan) below their number. */
static enum lw_status check_coords(const struct lw_plan *p, struct lw_arena *room,
                                   struct lw_err *err)
{
    static const char *const names[] = {"dp", "pp", "tp"};
    const int64_t sizes[] = {p->strategy->dp * p->strategy->cp, p->strategy->pp, p->strategy->tp};
    bool grid = sizes[0] > 0 && sizes[1] > 0 && sizes[2] > 0 &&
                sizes[0] <= p->n_ranks / sizes[1] / sizes[2] &&
                sizes[0] * sizes[1] * sizes[2] == p->n_ranks;

    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int k = 0; k < 3; k++)
            if (lw_plan_coord(p, r, k) < 0 ||
                lw_plan_coord(p, r, k) >= (grid ? sizes[k] : p->n_ranks))
                return fail(err, "rank", r, names[k], lw_plan_coord(p, r, k), 0,
                            grid ? sizes[k] : p->n_ranks);
    if (grid)
        LW_TRY(fills_grid(p, sizes, &grid, room, err));
    return grid ? LW_OK : check_places(p, room, err);
}

static enum lw_status check_distinct(const struct lw_plan *p, struct lw_arena *room,
                                     struct lw_err *err)
{
    int32_t *group_of; /* 1 + the last one */

    LW_TAKE(room, group_of, p->n_ranks, err);
    for (int32_t g = 0; g < p->n_groups; g++) {
        for (int32_t i = 0; i < p->groups[g].n_members; i++) {
            int32_t rank = lw_plan_member_of(p, &p->groups[g], i);
            if (group_of[rank] == g + 1)
                return lw_fail(err, LW_EPLAN, "group %d: rank %d is in it twice", g, rank);
            group_of[rank] = g + 1;
        }
    }
    return LW_OK;
}

/* In a class, the ranks that name a group are exactly its members. named[n_groups] is room. */
static enum lw_status check_named(const struct lw_plan *p, int32_t comm, int32_t *named,
                                  struct lw_err *err)
{
    const char *name = p->comms[comm].name;

    memset(named, 0, (size_t)p->n_groups * sizeof *named);
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (lw_plan_group_of(p, comm, r) >= 0)
            named[lw_plan_group_of(p, comm, r)]++;
    for (int32_t g = 0; g < p->n_groups; g++) {
        int32_t n = named[g] > 0 ? p->groups[g].n_members : 0;
        if (n != named[g])
            return lw_fail(err, LW_EPLAN, "communicator '%s', group %d: %d members, but %d ranks "
                                          "name it", name, g, n, named[g]);
        for (int32_t i = 0; i < n; i++) {
            int32_t rank = lw_plan_member_of(p, &p->groups[g], i);
            if (lw_plan_group_of(p, comm, rank) != g)
                return lw_fail(err, LW_EPLAN,
                               "communicator '%s', group %d: member rank %d names "
                               "group %d",
                               name, g, rank, lw_plan_group_of(p, comm, rank));
        }
    }
    return LW_OK;
}

static enum lw_status check_membership(const struct lw_plan *p, struct lw_arena *room,
                                       struct lw_err *err)
{
    int32_t *named;

    LW_TAKE(room, named, p->n_groups, err);
    for (int32_t c = 0; c < p->n_comms; c++)
        LW_TRY(check_named(p, c, named, err));
    return LW_OK;
}

/* A parameter is a number of whole rows. */
static enum lw_status check_rows(const struct lw_plan *p, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_sparse; i++) {
        const struct lw_sparse *x = &p->sparse[i];
        int64_t numel = p->params[x->param].numel;
        if (numel % x->row_numel != 0)
            return lw_fail(err, LW_EPLAN,
                           "sparse gradient %d: parameter %d '%s' has %lld elements, "
                           "not a multiple of the row size %d",
                           i, x->param, p->params[x->param].name, (long long)numel, x->row_numel);
    }
    return LW_OK;
}

/* One number and no gradients. */
static enum lw_status check_norm_bucket(const struct lw_plan *p, int32_t b, struct lw_err *err)
{
    const struct lw_bucket *k = &p->buckets[b];

    if ((k->dtype == LW_F64 || k->dtype == LW_F32) && k->bytes == lw_dtype_size(k->dtype) &&
        k->n_slots == 0)
        return LW_OK;
    return lw_fail(err, LW_EPLAN,
                   "bucket %d of set '%s': %lld bytes of %s and %d gradients; it is one "
                   "number of f64 or f32",
                   b, lw_bucket_kind_name(LW_BUCKET_NORM), (long long)k->bytes,
                   lw_dtype_name(k->dtype), k->n_slots);
}

/* Some rows of each member; plan_check_sparse.c says of how many. */
static enum lw_status check_sparse_bucket(const struct lw_plan *p, int32_t b, struct lw_err *err)
{
    int32_t param = p->slots[p->buckets[b].first_slot];

    if (p->buckets[b].first_offset >= 0 && p->offsets[p->buckets[b].first_offset] != 0)
        return lw_fail(err, LW_EPLAN,
                       "bucket %d: the sparse gradient of parameter %d '%s' begins at "
                       "element %lld, not 0",
                       b, param, p->params[param].name,
                       (long long)p->offsets[p->buckets[b].first_offset]);
    return LW_OK;
}

/* Slots lie in their bucket, ascending, and a bucket is as long as its last slot. */
static enum lw_status check_bucket(const struct lw_plan *p, int32_t b, struct lw_err *err)
{
    const struct lw_bucket *k = &p->buckets[b];
    int64_t size = lw_dtype_size(k->dtype), end = 0;

    if (lw_plan_is_norm(p, b))
        return check_norm_bucket(p, b, err);
    if (lw_plan_sparse(p, b))
        return check_sparse_bucket(p, b, err);
    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, k, &w);) {
        const struct lw_slot *s = &w.slot;
        const struct lw_plan_param *a = &p->params[s->param];
        if (s->offset < end)
            return lw_fail(err, LW_EPLAN,
                           "bucket %d: parameter %d '%s' at element %lld overlaps the "
                           "slot before it, which ends at %lld",
                           b, s->param, a->name, (long long)s->offset, (long long)end);
        if (a->numel > INT64_MAX / size - s->offset)
            return lw_fail(err, LW_EPLAN, "bucket %d: parameter %d '%s' ends beyond 2^63 bytes", b,
                           s->param, a->name);
        end = s->offset + a->numel;
    }
    if (k->bytes < end * size)
        return lw_fail(err, LW_EPLAN, "bucket %d: %lld bytes, but its slots end at %lld", b,
                       (long long)k->bytes, (long long)(end * size));
    if (p->strategy->zero == 0 && k->bytes != end * size)
        return lw_fail(err, LW_EPLAN, "bucket %d: %lld bytes for %lld bytes of gradients", b,
                       (long long)k->bytes, (long long)(end * size));
    return LW_OK;
}

/* No variant has a parameter in two buckets. seen[n_params] is room. */
static enum lw_status check_slots(const struct lw_plan *p, int32_t variant, int32_t *seen,
                                  struct lw_err *err)
{
    const char *name = p->variants[variant].name;

    memset(seen, -1, (size_t)p->n_params * sizeof *seen);
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct lw_bucket_set *set = &p->sets[s];
        int32_t end = lw_plan_uses_set(p, variant, s) ? set->first_bucket + set->n_buckets : 0;
        for (int32_t b = set->first_bucket; b < end; b++)
            for (int32_t i = 0; i < p->buckets[b].n_slots; i++) {
                int32_t a = p->slots[p->buckets[b].first_slot + i];
                if (seen[a] >= 0)
                    return lw_fail(err, LW_EPLAN,
                                   "variant '%s': parameter %d '%s' is in buckets %d and %d", name,
                                   a, p->params[a].name, seen[a], b);
                if (!p->params[a].trainable || p->params[a].ignored ||
                    p->params[a].stage != set->stage)
                    return lw_fail(err, LW_EPLAN,
                                   "variant '%s': parameter %d '%s' is in bucket %d, but has no "
                                   "gradient to reduce at its stage",
                                   name, a, p->params[a].name, b);
                seen[a] = b;
            }
    }
    return LW_OK;
}

static enum lw_status check_all_slots(const struct lw_plan *p, struct lw_arena *room,
                                      struct lw_err *err)
{
    int32_t *seen;

    LW_TAKE(room, seen, p->n_params, err);
    for (int32_t v = 0; v < p->n_variants; v++)
        if (*p->variants[v].set_name)
            LW_TRY(check_slots(p, v, seen, err));
    return LW_OK;
}

static enum lw_status check_buckets(const struct lw_plan *p, struct lw_err *err)
{
    int64_t used_buckets = 0, used_offsets = 0;

    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct lw_bucket_set *set = &p->sets[s];
        LW_TRY(range("bucket set", s, "buckets", set->first_bucket, set->n_buckets, p->n_buckets,
                     &used_buckets, err));
    }
    for (int32_t b = 0; b < p->n_buckets; b++) {
        const struct lw_bucket *k = &p->buckets[b];
        const struct lw_bucket_set *set = &p->sets[k->set];
        if (b < set->first_bucket || b - set->first_bucket >= set->n_buckets)
            return lw_fail(err, LW_EPLAN, "bucket %d: set %d '%s' does not hold it", b, k->set,
                           set->name);
        LW_TRY(within("bucket", b, "first offset", k->first_offset, -1, p->n_offsets + 1L, err));
        if (k->first_offset >= 0)
            LW_TRY(range("bucket", b, "offsets", k->first_offset, k->n_slots, p->n_offsets,
                         &used_offsets, err));
        LW_TRY(check_bucket(p, b, err));
    }
    return LW_OK;
}

static enum lw_status check_op(const struct lw_plan *p, int32_t i, struct lw_err *err)
{
    const struct lw_op *o = lw_op_shared(p, i);

    bool talks =
        lw_op_class(o->kind) == LW_CLASS_COLLECTIVE || lw_op_class(o->kind) == LW_CLASS_P2P;
    if (talks != (o->comm >= 0))
        return lw_plan_op_fail(p, i, err, " %s",
                               talks ? "needs a communicator" : "takes no communicator");
    return LW_OK;
}

static enum lw_status check_operand(const struct lw_plan *p, int32_t i, int32_t n_ranks,
                                    struct lw_err *err)
{
    int64_t first = p->operand_first[lw_op_at(p, i).operand];

    if (first < 0 || first > p->n_operands - (int64_t)n_ranks)
        return lw_fail(err, LW_EPLAN, "op %d: its operand row begins at %lld and needs %d of %d "
                                      "operands", i, (long long)first, n_ranks, p->n_operands);
    const struct lw_operand_rule *x =
        p->operand_rules ? &p->operand_rules[lw_op_at(p, i).operand] : NULL;
    if (x && lw_operand_row_length(p, lw_op_at(p, i).operand) < n_ranks)
        return lw_fail(err, LW_EPLAN, "op %d: its operand row has %d operands and needs %d", i,
                       lw_operand_row_length(p, lw_op_at(p, i).operand), n_ranks);
    return LW_OK;
}

/* Room of what the host holds meanwhile (--offload): no bucket's. */
static int64_t moved_bytes(const struct lw_plan *p, int32_t i)
{
    const struct lw_op *o = lw_op_shared(p, i);

    if ((o->kind != LW_OP_ALLOC && o->kind != LW_OP_FREE) || lw_op_at(p, i).bucket >= 0)
        return 0;
    return o->kind == LW_OP_ALLOC ? o->bytes : -o->bytes;
}

/* What the forwards of a program keep, its backwards give back, and never more than there is. */
static enum lw_status check_kept(const struct lw_plan *p, const struct lw_program *g,
                                 struct lw_err *err)
{
    int64_t kept = 0;

    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        int64_t change = lw_op_at(p, i).work < 0 ? moved_bytes(p, i)
                                                 : lw_work_at(p, lw_op_at(p, i).work)->keeps_bytes;
        if (__builtin_add_overflow(kept, change, &kept))
            return lw_plan_op_fail(p, i, err,
                                   ": keeps %lld bytes of activations, in all beyond 2^63",
                                   (long long)change);
        if (kept < 0)
            return lw_plan_op_fail(p, i, err, ": gives back more activations than are kept");
    }
    if (kept == 0)
        return LW_OK;
    return lw_fail(err, LW_EPLAN,
                   "the program of ops %d to %d keeps %lld bytes of activations that "
                   "no backward gives back",
                   g->first_op, g->first_op + g->n_ops - 1, (long long)kept);
}

static enum lw_status check_program(const struct lw_plan *p, const struct lw_program *g,
                                    const struct lw_role *role, struct lw_err *err)
{
    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        const struct lw_op *o = lw_op_shared(p, i);
        int32_t first_dep = lw_op_first_dep(p, i);
        LW_TRY(check_op(p, i, err));
        for (int32_t d = first_dep; d < first_dep + o->n_deps; d++)
            if (p->deps[d] < g->first_op)
                return lw_plan_op_fail(p, i, err,
                                       ": depends on op %d, which is not an earlier op of its "
                                       "program (%d to %d)",
                                       p->deps[d], g->first_op, i - 1);
        if (o->operand >= 0)
            LW_TRY(check_operand(p, i, role->n_ranks, err));
    }
    return LW_OK;
}

static enum lw_status check_programs(const struct lw_plan *p, struct lw_err *err)
{
    int64_t used_ops = 0;

    for (int32_t v = 0; v < p->n_variants; v++) {
        for (int32_t r = 0; r < p->n_roles; r++) {
            const struct lw_program *g = &p->programs[(int64_t)v * p->n_roles + r];
            LW_TRY(range("program of variant", v, "ops", g->first_op, g->n_ops, p->n_ops, &used_ops,
                         err));
            LW_TRY(check_program(p, g, &p->roles[r], err));
            LW_TRY(check_kept(p, g, err));
        }
    }
    if (used_ops != p->n_ops)
        return lw_fail(err, LW_EPLAN, "%lld of %d ops belong to no program",
                       (long long)(p->n_ops - used_ops), p->n_ops);
    return LW_OK;
}

static enum lw_status check_passes(const struct lw_plan *p, struct lw_err *err)
{
    bool ends = false;

    for (int32_t v = 0; v < p->n_variants; v++) {
        int32_t n = 0;
        for (int32_t s = 0; s < p->n_sets; s++)
            n += lw_plan_uses_set(p, v, s);
        if (n != p->variants[v].n_sets || (n == 0 && *p->variants[v].set_name))
            return lw_fail(err, LW_EPLAN, "variant '%s': uses %d bucket sets '%s', the plan has %d",
                           p->variants[v].name, p->variants[v].n_sets, p->variants[v].set_name, n);
    }
    for (int32_t i = p->repeat_from; i < p->n_passes; i++)
        ends = ends || p->variants[p->pass_variant[i]].ends_step;
    if (!ends)
        return lw_fail(err, LW_EPLAN, "no pass from %d on ends a step", p->repeat_from);
    return LW_OK;
}

/* Shards of a parameter, in table order, tile it; a parameter that the optimizer updates has some,
 * unless there are none at all: then every member updates everything. */
static enum lw_status check_shards(const struct lw_plan *p, struct lw_arena *room,
                                   struct lw_err *err)
{
    int64_t *end;
    bool *has;

    if (p->n_shards == 0)
        return LW_OK;
    LW_TAKE(room, end, p->n_params, err);
    LW_TAKE(room, has, p->n_params, err);
    for (int32_t r = 0, i = 0; r < lw_n_shard_runs(p); r++) {
        const struct lw_shard_run x = lw_shard_run_at(p, r);
        const struct lw_shard *h = &x.first;
        const struct lw_plan_param *a = &p->params[h->param];
        if (h->first != end[h->param])
            return lw_fail(err, LW_EPLAN,
                           "shard %d of parameter %d '%s': elements %lld and %lld more, the shards "
                           "before it end at %lld of %lld",
                           i, h->param, a->name, (long long)h->first, (long long)h->numel,
                           (long long)end[h->param], (long long)a->numel);
        end[h->param] = lw_shard_run_end(&x);
        has[h->param] = true;
        i += x.n;
    }
    for (int32_t i = 0; i < p->n_params; i++) {
        const struct lw_plan_param *a = &p->params[i];
        if (a->trainable && lw_plan_holds(p, i) && !has[i])
            return lw_fail(err, LW_EPLAN, "parameter %d '%s': no shard holds it", i, a->name);
        if (has[i] && end[i] != a->numel)
            return lw_fail(err, LW_EPLAN, "parameter %d '%s': shards cover %lld of %lld elements",
                           i, a->name, (long long)end[i], (long long)a->numel);
    }
    return LW_OK;
}

/* The axes of the grid are those of the strategy. */
static bool is_of_strategy(const struct lw_plan *p)
{
    const struct lw_digit *axis = p->grid->axis;

    return axis[LW_AXIS_DP].count == p->strategy->dp * p->strategy->cp &&
           axis[LW_AXIS_PP].count == p->strategy->pp && axis[LW_AXIS_TP].count == p->strategy->tp;
}

static enum lw_status check_all(const struct lw_plan *p, bool grid, struct lw_arena *room,
                                struct lw_err *err)
{
    if (!grid && (!p->comm_group || !p->members || !p->role_of))
        return lw_fail(err, LW_EPLAN, "the tables of ranks and groups are not what the rules of "
                                      "the plan's grid say");
    LW_TRY(grid ? lw_plan_check_other_ranges(p, LW_EPLAN, err)
                : lw_plan_check_ranges(p, LW_EPLAN, err));
    if (!grid)
        LW_TRY(check_ranks(p, room, err));
    if (!grid || !is_of_strategy(p))
        LW_TRY(check_coords(p, room, err));
    if (!grid || !lw_grid_rules_all(p)) {
        LW_TRY(check_distinct(p, room, err));
        LW_TRY(check_membership(p, room, err));
    }
    LW_TRY(check_rows(p, err));
    LW_TRY(check_buckets(p, err));
    LW_TRY(check_programs(p, err));
    LW_TRY(check_passes(p, err));
    LW_TRY(check_all_slots(p, room, err));
    return check_shards(p, room, err);
}

enum lw_status lw_check_tables(const struct lw_plan *p, bool *grid, struct lw_err *err)
{
    struct lw_arena room = {0};

    LW_TRY(lw_grid_rule_holds(p, grid, err));
    enum lw_status s = check_all(p, *grid, &room, err);

    lw_arena_free(&room);
    return s;
}
