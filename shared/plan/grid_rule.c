/* Ranks on a grid by arithmetic. A rule is written out into a table by the same walks that compare
 * it with one: over numbers in their order (members of groups), or over ranks in theirs (groups of
 * ranks, coordinates), so that tables are written and read from front to back. */
#include "shared/plan/grid_rule.h"

#include <string.h>

#include "shared/plan/op_rows.h"
#include "shared/plan/shard_runs.h"
#include "shared/plan/work_rows.h"
#include "shared/plan/plan.h"

/* --- axes ------------------------------------------------------------------------------------- */

void lw_grid_axes_order(const struct lw_digit axis[LW_N_AXES], int order[LW_N_AXES])
{
    for (int i = 0; i < LW_N_AXES; i++) {
        int at = i;
        for (; at > 0; at--) {
            const struct lw_digit *a = &axis[order[at - 1]], *b = &axis[i];
            if (a->count == 1 || (b->count > 1 && a->stride >= b->stride))
                break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

bool lw_grid_is_whole(const struct lw_digit axis[LW_N_AXES], int32_t n_ranks)
{
    int order[LW_N_AXES];
    int64_t size = 1;

    lw_grid_axes_order(axis, order);
    for (int i = LW_N_AXES; i-- > 0;) {
        const struct lw_digit *x = &axis[order[i]];
        if (x->count < 1 || (x->count > 1 && x->stride != size))
            return false;
        size *= x->count;
        if (size > n_ranks)
            return false;
    }
    const struct lw_digit *dp = &axis[LW_AXIS_DP], *tp = &axis[LW_AXIS_TP];
    return size == n_ranks &&
           (dp->count == 1 || tp->count == 1 || dp->stride > tp->stride);
}

/* One rank after the other with its coordinates. */
struct walk {
    const struct lw_digit *axis;
    int order[LW_N_AXES];
    int32_t at[LW_N_AXES]; /* coordinates by axis */
};

static struct walk begin(const struct lw_digit axis[LW_N_AXES])
{
    struct walk w = {.axis = axis};

    lw_grid_axes_order(axis, w.order);
    return w;
}

/* The first rank that differs in more than the fastest axis; false after the last. */
static bool next_run(struct walk *w)
{
    for (int i = LW_N_AXES - 1; i-- > 0;) {
        int a = w->order[i];
        if (++w->at[a] < w->axis[a].count)
            return true;
        w->at[a] = 0;
    }
    return false;
}

void lw_grid_write(const struct lw_digit axis[LW_N_AXES], int32_t *coord, int32_t *role_of)
{
    struct walk w = begin(axis);
    int fast = w.order[LW_N_AXES - 1];
    int64_t r = 0;

    do {
        for (w.at[fast] = 0; w.at[fast] < axis[fast].count; w.at[fast]++, r++) {
            memcpy(coord + 3 * r, w.at, sizeof w.at);
            role_of[r] = w.at[LW_AXIS_PP];
        }
    } while (next_run(&w));
}

struct lw_digits lw_grid_column(const struct lw_digit axis[LW_N_AXES],
                                const int32_t weight[LW_N_AXES])
{
    struct lw_digits d = {0};
    int order[LW_N_AXES];

    lw_grid_axes_order(axis, order);
    for (int i = 0; i < LW_N_AXES; i++) {
        int32_t count = axis[order[i]].count, step = weight[order[i]];
        struct lw_digit *slower = d.n > 0 ? &d.at[d.n - 1] : NULL;
        if (slower && slower->stride == count * step)
            *slower = (struct lw_digit){slower->count * count, step};
        else if (count > 1)
            d.at[d.n++] = (struct lw_digit){count, step};
    }
    return d;
}

struct lw_digits lw_grid_roles(const struct lw_digit axis[LW_N_AXES])
{
    return lw_grid_column(axis, (const int32_t[LW_N_AXES]){[LW_AXIS_PP] = 1});
}

struct lw_digits lw_grid_indexes(const struct lw_digit axis[LW_N_AXES])
{
    return lw_grid_column(
        axis, (const int32_t[LW_N_AXES]){[LW_AXIS_DP] = axis[LW_AXIS_TP].count, [LW_AXIS_TP] = 1});
}

static bool places_hold(const struct lw_plan *p)
{
    const struct lw_digit *axis = p->grid->axis;
    struct walk w = begin(axis);
    int fast = w.order[LW_N_AXES - 1];
    int64_t r = 0;
    uint32_t wrong = 0;

    do {
        for (w.at[fast] = 0; w.at[fast] < axis[fast].count; w.at[fast]++, r++) {
            const int32_t *c = p->coord + 3 * r;
            wrong |= (uint32_t)((c[0] ^ w.at[0]) | (c[1] ^ w.at[1]) | (c[2] ^ w.at[2]));
        }
    } while (wrong == 0 && next_run(&w));
    return wrong == 0;
}

/* --- digits ----------------------------------------------------------------------------------- */

int32_t lw_digits_value(const struct lw_digits *d, int32_t number)
{
    int32_t value = d->base;

    for (int32_t i = d->n; i-- > 0; number /= d->at[i].count)
        value += number % d->at[i].count * d->at[i].stride;
    return value;
}

/* Numbers in their order: the values of the fastest digit are `stride` apart from `value` on. */
struct digit_walk {
    const struct lw_digits *d;
    int32_t at[LW_N_DIGITS], value;
};

static void next_value(struct digit_walk *w)
{
    for (int32_t i = w->d->n - 1; i-- > 0;) {
        const struct lw_digit *x = &w->d->at[i];
        w->value += x->stride;
        if (++w->at[i] < x->count)
            return;
        w->value -= x->count * x->stride;
        w->at[i] = 0;
    }
}

static struct digit_walk walk_from(const struct lw_digits *d, int64_t run)
{
    struct digit_walk w = {.d = d, .value = d->base};

    for (int32_t i = d->n - 1; i-- > 0 && run > 0; run /= d->at[i].count) {
        w.at[i] = (int32_t)(run % d->at[i].count);
        w.value += w.at[i] * d->at[i].stride;
    }
    return w;
}

void lw_digits_write(const struct lw_digits *d, int64_t first, int32_t *out, int64_t n)
{
    struct lw_digit last = d->n > 0 ? d->at[d->n - 1] : (struct lw_digit){1, 0};
    struct digit_walk w = walk_from(d, first / last.count);
    int32_t from = (int32_t)(first % last.count);

    for (int64_t i = 0; i < n; next_value(&w)) {
        int32_t k = n - i < last.count - from ? (int32_t)(n - i) : last.count - from;
        int32_t value = w.value + from * last.stride;
        for (int32_t j = 0; j < k; j++)
            out[i + j] = value + j * last.stride;
        i += k;
        from = 0;
    }
}

static bool digits_hold(const struct lw_digits *d, const int32_t *table, int64_t n)
{
    struct digit_walk w = {.d = d, .value = d->base};
    struct lw_digit last = d->n > 0 ? d->at[d->n - 1] : (struct lw_digit){1, 0};
    uint32_t wrong = 0;

    for (int64_t i = 0; i < n && wrong == 0; i += last.count, next_value(&w))
        for (int32_t k = 0; k < last.count; k++)
            wrong |= (uint32_t)(table[i + k] ^ (w.value + k * last.stride));
    return wrong == 0;
}

/* --- groups of ranks -------------------------------------------------------------------------- */

/* The axis that the digit lies within; -1 = none. */
static int axis_of(const struct lw_digit axis[LW_N_AXES], const struct lw_digit *x)
{
    for (int a = 0; a < LW_N_AXES; a++)
        if (x->stride > 0 && axis[a].count > 1 && x->stride % axis[a].stride == 0 &&
            (x->count - INT64_C(1)) * x->stride < (int64_t)axis[a].stride * axis[a].count)
            return a;
    return -1;
}

/* What a step of each digit adds to the number of the group. */
static void group_steps(const struct lw_comm_rule *x, int64_t step[LW_N_DIGITS])
{
    int64_t of = 1;

    for (int32_t i = x->ranks.n; i-- > 0;) {
        step[i] = i < x->n_group_digits ? of : 0;
        if (i < x->n_group_digits)
            of *= x->ranks.at[i].count;
    }
}

/* One digit of the ranks of a class along an axis. */
struct axis_digit {
    int32_t count, at;
    int64_t apart, adds; /* coordinates, and numbers of groups, between two of its values */
};

/* The digits along the axis; one of one value where there is none. Their number. */
static int32_t digits_along(const struct lw_digit axis[LW_N_AXES], int a,
                            const struct lw_comm_rule *x, struct axis_digit d[LW_N_DIGITS])
{
    int64_t step[LW_N_DIGITS];
    int32_t n = 0;

    group_steps(x, step);
    for (int32_t i = 0; i < x->ranks.n; i++)
        if (x->ranks.at[i].count > 1 && axis_of(axis, &x->ranks.at[i]) == a)
            d[n++] = (struct axis_digit){.count = x->ranks.at[i].count,
                                         .apart = x->ranks.at[i].stride / axis[a].stride,
                                         .adds = step[i]};
    if (n == 0)
        d[n++] = (struct axis_digit){.count = 1};
    return n;
}

/* All values of one axis' digits: `of` gets what they add; false where two are one coordinate. */
static bool fill_axis(const struct lw_digit axis[LW_N_AXES], int a, const struct lw_comm_rule *x,
                      int32_t base, int32_t *of)
{
    struct axis_digit d[LW_N_DIGITS];
    int32_t n = digits_along(axis, a, x, d), k;
    const struct axis_digit *last = &d[n - 1];

    memset(of, 0xff, (size_t)axis[a].count * sizeof *of);
    do {
        int64_t coordinate = base, adds = 0;
        for (int32_t i = 0; i < n - 1; i++) {
            coordinate += d[i].at * d[i].apart;
            adds += d[i].at * d[i].adds;
        }
        for (int32_t i = 0; i < last->count; i++) {
            if (coordinate >= axis[a].count || of[coordinate] >= 0)
                return false;
            of[coordinate] = (int32_t)adds;
            coordinate += last->apart;
            adds += last->adds;
        }
        for (k = n - 1; k-- > 0 && ++d[k].at == d[k].count;)
            d[k].at = 0;
    } while (k >= 0);
    return true;
}

/* The rule's numbers are those of its digits. */
static bool counts_agree(const struct lw_comm_rule *x)
{
    int64_t groups = 1, members = 1;

    if (x->ranks.n < 0 || x->ranks.n > LW_N_DIGITS || x->ranks.base < 0)
        return false;
    for (int32_t i = 0; i < x->ranks.n; i++) {
        int64_t *of = i < x->n_group_digits ? &groups : &members;
        if (x->ranks.at[i].count < 1 || *of > INT32_MAX)
            return false;
        *of *= x->ranks.at[i].count;
    }
    return groups == x->n_groups && members == x->n_members;
}

bool lw_group_parts_find(const struct lw_digit axis[LW_N_AXES], const struct lw_comm_rule *x,
                         struct lw_arena *arena, struct lw_group_parts *out, bool *fits)
{
    *fits = counts_agree(x);
    for (int32_t i = 0; *fits && i < x->ranks.n; i++)
        *fits = x->ranks.at[i].count == 1 || axis_of(axis, &x->ranks.at[i]) >= 0;
    for (int a = 0; a < LW_N_AXES; a++) {
        int32_t base = axis[a].count > 1 ? x->ranks.base / axis[a].stride % axis[a].count : 0;
        out->of[a] = lw_arena_alloc(arena, axis[a].count, sizeof *out->of[a]);
        if (!out->of[a])
            return false;
        *fits = *fits && fill_axis(axis, a, x, base, out->of[a]);
    }
    return true;
}

void lw_group_parts_write(const struct lw_digit axis[LW_N_AXES], const struct lw_comm_rule *x,
                          int32_t first, int32_t *out, int32_t n)
{
    const struct lw_group_parts *parts = &x->parts;
    struct walk w = begin(axis);
    int slow = w.order[0], middle = w.order[1], fast = w.order[2];

    for (int a = 0; a < LW_N_AXES; a++)
        w.at[a] = axis[a].count > 1 ? first / axis[a].stride % axis[a].count : 0;
    for (int32_t from = w.at[fast], k; n > 0; n -= k, out += k, from = 0, next_run(&w)) {
        const int32_t *add = parts->of[fast] + from;
        int32_t a = parts->of[slow][w.at[slow]], b = parts->of[middle][w.at[middle]];
        int32_t base = a < 0 || b < 0 ? -1 : x->first_group + a + b;
        k = n < axis[fast].count - from ? n : axis[fast].count - from;
        for (int32_t i = 0; i < k; i++)
            out[i] = base < 0 || add[i] < 0 ? -1 : base + add[i];
    }
}

static bool group_parts_hold(const struct lw_digit axis[LW_N_AXES], const struct lw_comm_rule *x,
                             const int32_t *table)
{
    const struct lw_group_parts *parts = &x->parts;
    struct walk w = begin(axis);
    int slow = w.order[0], middle = w.order[1], fast = w.order[2];
    const int32_t *add = parts->of[fast];
    uint32_t wrong = 0;

    do {
        int32_t a = parts->of[slow][w.at[slow]], b = parts->of[middle][w.at[middle]];
        int32_t base = a < 0 || b < 0 ? -1 : x->first_group + a + b;
        for (int32_t i = 0; i < axis[fast].count; i++)
            wrong |= (uint32_t)(*table++ ^ (base < 0 || add[i] < 0 ? -1 : base + add[i]));
    } while (wrong == 0 && next_run(&w));
    return wrong == 0;
}

/* Digits [first, end) of the rule that count on, as numbers of what they number. */
static int32_t keep_digits(const struct lw_grid_rule *grid, const struct lw_comm_rule *x,
                           int32_t first, int32_t end, int32_t apart, struct lw_digits *kinds)
{
    struct lw_digit kept[LW_N_DIGITS];
    int32_t n = 1, of = 1, n_kept = 0;

    for (int32_t i = end; i-- > first; of *= x->ranks.at[i].count) {
        const struct lw_digit *d = &x->ranks.at[i];
        bool pipeline = d->count > 1 && axis_of(grid->axis, d) == LW_AXIS_PP;
        if (d->count == 1 || (!pipeline && d->stride % apart == 0))
            continue;
        kept[n_kept++] = (struct lw_digit){d->count, of};
        n *= d->count;
    }
    *kinds = (struct lw_digits){.n = n_kept};
    for (int32_t i = 0; i < n_kept; i++)
        kinds->at[i] = kept[n_kept - 1 - i];
    return n;
}

int32_t lw_grid_group_kinds(const struct lw_grid_rule *grid, const struct lw_comm_rule *x,
                            int32_t apart, struct lw_digits *kinds)
{
    return keep_digits(grid, x, 0, x->n_group_digits, apart, kinds);
}

int32_t lw_grid_member_kinds(const struct lw_grid_rule *grid, const struct lw_comm_rule *x,
                             struct lw_digits *kinds)
{
    return keep_digits(grid, x, x->n_group_digits, x->ranks.n, 1, kinds);
}

/* --- the tables of a plan --------------------------------------------------------------------- */

int32_t lw_grid_coord(const struct lw_plan *p, int32_t rank, enum lw_grid_axis axis)
{
    const struct lw_digit *x = &p->grid->axis[axis];

    return x->count > 1 ? rank / x->stride % x->count : 0;
}

int32_t lw_grid_index(const struct lw_plan *p, int32_t rank)
{
    return lw_grid_coord(p, rank, LW_AXIS_DP) * p->grid->axis[LW_AXIS_TP].count +
           lw_grid_coord(p, rank, LW_AXIS_TP);
}

void lw_plan_place(const struct lw_plan *p, int32_t rank, int32_t at[LW_N_AXES])
{
    for (enum lw_grid_axis a = LW_AXIS_DP; a < LW_N_AXES; a++)
        at[a] = lw_plan_coord(p, rank, a);
}

int32_t lw_grid_group_of(const struct lw_plan *p, int32_t comm, int32_t rank)
{
    const struct lw_comm_rule *x = &p->grid->comms[comm];
    int32_t number = x->first_group;

    for (enum lw_grid_axis a = LW_AXIS_DP; a < LW_N_AXES; a++) {
        int32_t adds = x->parts.of[a][lw_plan_coord(p, rank, a)];
        if (adds < 0)
            return -1;
        number += adds;
    }
    return number;
}

void lw_plan_roles_write(const struct lw_plan *p, int32_t *role_of)
{
    if (p->role_of) {
        memcpy(role_of, p->role_of, (size_t)p->n_ranks * sizeof *role_of);
        return;
    }
    struct lw_digits roles = lw_grid_roles(p->grid->axis);
    lw_digits_write(&roles, 0, role_of, p->n_ranks);
}

/* The class of number *at of all members, which becomes its number in the class. */
static const struct lw_comm_rule *class_of_member(const struct lw_plan *p, int32_t *at)
{
    const struct lw_comm_rule *x = p->grid->comms;

    while (*at >= x->n_groups * x->n_members) { /* classes without groups have none */
        *at -= x->n_groups * x->n_members;
        x++;
    }
    return x;
}

int32_t lw_grid_member_at(const struct lw_plan *p, int32_t at)
{
    const struct lw_comm_rule *x = class_of_member(p, &at);

    return lw_digits_value(&x->ranks, at);
}

void lw_grid_members_write(const struct lw_plan *p, const struct lw_group *g, int32_t *members)
{
    int32_t at = g->first_member;
    const struct lw_comm_rule *x = class_of_member(p, &at);

    lw_digits_write(&x->ranks, at, members, g->n_members);
}

static bool parts_are(const struct lw_digit axis[LW_N_AXES], const struct lw_group_parts *a,
                      const struct lw_group_parts *b)
{
    for (int i = 0; i < LW_N_AXES; i++)
        if (memcmp(a->of[i], b->of[i], (size_t)axis[i].count * sizeof *a->of[i]) != 0)
            return false;
    return true;
}

/* The groups of the communicator are those of its rule, their members one after the other. */
static bool groups_hold(const struct lw_plan *p, const struct lw_comm_rule *x)
{
    int64_t n = (int64_t)x->n_groups * x->n_members;

    if (x->first_group < 0 || x->n_groups > p->n_groups - x->first_group)
        return false;
    int64_t first = p->groups[x->first_group].first_member;
    if (first < 0 || n > p->n_members - first)
        return false;
    const struct lw_group *groups = p->groups + x->first_group;
    uint32_t wrong = 0;
    for (int32_t g = 0; g < x->n_groups; g++) /* all of them lie in the table of members */
        wrong |= (uint32_t)(groups[g].first_member ^ (int32_t)(first + (int64_t)g * x->n_members)) |
                 (uint32_t)(groups[g].n_members ^ x->n_members);
    return wrong == 0;
}

static enum lw_status comm_holds(const struct lw_plan *p, int32_t comm, bool *holds,
                                 struct lw_err *err)
{
    const struct lw_comm_rule *x = &p->grid->comms[comm];
    int64_t n = (int64_t)x->n_groups * x->n_members;
    struct lw_arena room = {0};
    struct lw_group_parts parts;

    *holds = groups_hold(p, x);
    if (!*holds)
        return LW_OK;
    int64_t first = p->groups[x->first_group].first_member;
    bool found = lw_group_parts_find(p->grid->axis, x, &room, &parts, holds);
    *holds = found && *holds &&
             (!p->members || digits_hold(&x->ranks, p->members + first, n)) &&
             parts_are(p->grid->axis, &parts, &x->parts) &&
             (!p->comm_group ||
              group_parts_hold(p->grid->axis, x, p->comm_group + (int64_t)comm * p->n_ranks));
    lw_arena_free(&room);
    return found ? LW_OK : lw_fail_nomem(err);
}

static bool coordinates_hold(const struct lw_plan *p)
{
    const struct lw_digit *axis = p->grid->axis;
    struct lw_digits roles = lw_grid_roles(axis), indexes = lw_grid_indexes(axis);
    bool hold = p->n_roles == axis[LW_AXIS_PP].count;

    for (int32_t role = 0; role < p->n_roles; role++)
        hold = hold && p->roles[role].n_ranks == p->n_ranks / axis[LW_AXIS_PP].count;
    return hold && (!p->coord || places_hold(p)) &&
           (!p->role_of || digits_hold(&roles, p->role_of, p->n_ranks)) &&
           (!p->index_in_role || digits_hold(&indexes, p->index_in_role, p->n_ranks));
}

enum lw_status lw_grid_rule_holds(const struct lw_plan *p, bool *holds, struct lw_err *err)
{
    *holds = p->grid && p->grid->n_comms == p->n_comms &&
             lw_grid_is_whole(p->grid->axis, p->n_ranks) && coordinates_hold(p);
    for (int32_t c = 0; *holds && c < p->n_comms; c++)
        if (p->grid->comms[c].n_groups != 0)
            LW_TRY(comm_holds(p, c, holds, err));
    return LW_OK;
}

bool lw_grid_rules_all(const struct lw_plan *p)
{
    int64_t n = 0, members = 0;

    for (int32_t c = 0; c < p->n_comms; c++) {
        const struct lw_comm_rule *x = &p->grid->comms[c];
        if (x->n_groups == 0)
            return false;
        n += x->n_groups;
        members += (int64_t)x->n_groups * x->n_members;
    }
    return n == p->n_groups && members == p->n_members;
}

int32_t lw_largest_group(const struct lw_plan *p)
{
    int32_t most = 0;

    if (p->grid && lw_grid_rules_all(p)) {
        for (int32_t c = 0; c < p->n_comms; c++)
            most = p->grid->comms[c].n_members > most ? p->grid->comms[c].n_members : most;
        return most;
    }
    for (int32_t g = 0; g < p->n_groups; g++)
        most = p->groups[g].n_members > most ? p->groups[g].n_members : most;
    return most;
}

/* --- the tables that a large plan lacks --------------------------------------------------------
 */

static enum lw_status write_ranks(struct lw_plan *out, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_digit *axis = out->grid->axis;
    struct lw_digits indexes = lw_grid_indexes(axis);

    if (out->role_of && out->index_in_role && out->coord)
        return LW_OK;
    LW_TAKE(room, out->role_of, out->n_ranks, err);
    LW_TAKE(room, out->index_in_role, out->n_ranks, err);
    LW_TAKE(room, out->coord, (int64_t)out->n_ranks * LW_N_AXES, err);
    lw_grid_write(axis, out->coord, out->role_of);
    lw_digits_write(&indexes, 0, out->index_in_role, out->n_ranks);
    return LW_OK;
}

static enum lw_status write_members(struct lw_plan *out, struct lw_arena *room, struct lw_err *err)
{
    int64_t at = 0;

    if (out->members)
        return LW_OK;
    LW_TAKE(room, out->members, out->n_members + INT64_C(1), err);
    for (int32_t c = 0; c < out->n_comms; c++) {
        const struct lw_comm_rule *x = &out->grid->comms[c];
        int64_t n = (int64_t)x->n_groups * x->n_members;
        lw_digits_write(&x->ranks, 0, out->members + at, n);
        at += n;
    }
    return LW_OK;
}

enum lw_status lw_plan_with_tables(const struct lw_plan *p, struct lw_arena *room,
                                   struct lw_plan *out, struct lw_err *err)
{
    struct lw_shard *shards;

    LW_TRY(lw_plan_write_shards(p, room, &shards, err));
    *out = *p;
    out->shards = shards;
    if (!p->grid)
        return LW_OK;
    LW_TRY(write_ranks(out, room, err));
    LW_TRY(write_members(out, room, err));
    if (out->comm_group)
        return LW_OK;
    LW_TAKE(room, out->comm_group, (int64_t)p->n_comms * p->n_ranks + 1, err);
    for (int32_t c = 0; c < p->n_comms; c++)
        lw_group_parts_write(p->grid->axis, &p->grid->comms[c], 0,
                             out->comm_group + (int64_t)c * p->n_ranks, p->n_ranks);
    return LW_OK;
}

enum lw_status lw_plan_write_tables(struct lw_plan *p, struct lw_err *err)
{
    struct lw_plan full;

    LW_TRY(lw_plan_with_tables(p, &p->arena, &full, err));
    full.arena = p->arena;
    *p = full;
    LW_TRY(lw_plan_write_works(p, err));
    return lw_plan_write_ops(p, err);
}
