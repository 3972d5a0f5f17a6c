/* Tables of a plan that its grid's rules stand for, fed to its hash as rows of a rule
 * (hash_rows.h). The group of a rank is a rule too where the digits of a communicator are all the
 * coordinates along an axis; of the axis with the largest stride some may be outside. */
#include "shared/plan/grid_hash.h"

#include "shared/plan/grid_rule.h"
#include "shared/plan/hash_rows.h"

enum { BLOCK = 1024 };
_Static_assert((int)LW_N_AXES <= (int)LW_ROW_STEPS,
               "a row of coordinates has a step for each axis");

static void add_digit(struct lw_row_rule *x, int32_t count, int64_t step)
{
    x->at[x->n++] = (struct lw_row_digit){count, {step, step, step, step}};
}

static struct lw_row_rule rows_of(const struct lw_digits *d)
{
    struct lw_row_rule x = {0};

    for (int32_t i = 0; i < d->n; i++)
        add_digit(&x, d->at[i].count, d->at[i].stride);
    return x;
}

static void feed_column(struct lw_hash *h, struct lw_digits column)
{
    struct lw_row_rule x = rows_of(&column);

    lw_hash_rows(h, &(int64_t){column.base}, 1, &x);
}

/* Rank by rank. */
static void feed_places(struct lw_hash *h, const struct lw_digit axis[LW_N_AXES])
{
    static const int64_t first[LW_N_AXES] = {0};
    struct lw_row_rule x = {0};
    int order[LW_N_AXES];

    lw_grid_axes_order(axis, order);
    for (int i = 0; i < LW_N_AXES; i++) {
        struct lw_row_digit *d = &x.at[x.n++];
        d->count = axis[order[i]].count;
        d->step[order[i]] = 1;
    }
    lw_hash_rows(h, first, LW_N_AXES, &x);
}

/* --- members ---------------------------------------------------------------------------------- */

/* Groups of few members: a row is the length of the list, which is the same in each, and the list.
 */
static void feed_small_groups(struct lw_hash *h, const struct lw_comm_rule *x)
{
    struct lw_digits groups = {.n = x->n_group_digits};
    int32_t members[BLOCK];
    int64_t first[BLOCK];
    struct lw_row_rule rows;

    lw_digits_write(&x->ranks, 0, members, x->n_members);
    first[0] = x->n_members;
    for (int32_t i = 0; i < x->n_members; i++)
        first[i + 1] = members[i];
    for (int32_t i = 0; i < groups.n; i++)
        groups.at[i] = x->ranks.at[i];
    rows = rows_of(&groups);
    for (int32_t i = 0; i < rows.n; i++)
        rows.at[i].step[0] = 0;
    lw_hash_rows(h, first, x->n_members + 1, &rows);
}

static void feed_large_groups(struct lw_hash *h, const struct lw_comm_rule *x)
{
    struct lw_digits members = {.n = x->ranks.n - x->n_group_digits};

    for (int32_t i = 0; i < members.n; i++)
        members.at[i] = x->ranks.at[x->n_group_digits + i];
    for (int32_t g = 0; g < x->n_groups; g++) {
        lw_hash_int(h, x->n_members);
        members.base = lw_grid_member(x, g, 0);
        feed_column(h, members);
    }
}

static void feed_groups(struct lw_hash *h, const struct lw_plan *p)
{
    for (int32_t c = 0; c < p->n_comms; c++) {
        const struct lw_comm_rule *x = &p->grid->comms[c];
        if (x->n_members < BLOCK)
            feed_small_groups(h, x);
        else
            feed_large_groups(h, x);
    }
}

/* --- the group of each rank ------------------------------------------------------------------- */

/* What the coordinates of an axis add, of[n], as digits: they repeat every `each` coordinates, and
 * each repetition adds the same. false: they are no such digits. */
static bool find_digits(const int32_t *of, int32_t n, struct lw_row_rule *out)
{
    struct lw_row_digit digits[LW_ROW_DIGITS];
    int n_digits = 0;

    for (int32_t i = 0; i < n; i++)
        if (of[i] < 0)
            return false;
    for (int32_t each = 1; each < n; n_digits++) {
        int64_t step = (int64_t)of[each] - of[0];
        int32_t end = each;
        while (end < n && of[end] - (int64_t)of[end - each] == step)
            end++;
        end -= end % each;
        if (end == each || n % end != 0 || n_digits == LW_ROW_DIGITS / LW_N_AXES)
            return false;
        digits[n_digits] = (struct lw_row_digit){end / each, {step, step, step, step}};
        each = end;
    }
    for (int i = n_digits; i-- > 0;)
        out->at[out->n++] = digits[i];
    return true;
}

/* Of one coordinate of the slowest axis after the other; -1 for all ranks of one outside. */
static void feed_runs(struct lw_hash *h, const int32_t *slow, int32_t n_slow, int32_t each,
                      int64_t base, const struct lw_row_rule *rest)
{
    struct lw_row_rule outside = {0};

    add_digit(&outside, each, 0);
    for (int32_t i = 0; i < n_slow; i++)
        if (slow[i] < 0)
            lw_hash_rows(h, &(int64_t){-1}, 1, &outside);
        else
            lw_hash_rows(h, &(int64_t){base + slow[i]}, 1, rest);
}

static void feed_each(struct lw_hash *h, const struct lw_plan *p, const struct lw_comm_rule *x)
{
    int32_t block[BLOCK];

    for (int32_t first = 0, k; first < p->n_ranks; first += k) {
        k = p->n_ranks - first < BLOCK ? p->n_ranks - first : BLOCK;
        lw_group_parts_write(p->grid->axis, x, first, block, k);
        lw_hash_ints32(h, block, k);
    }
}

static void feed_groups_of_ranks(struct lw_hash *h, const struct lw_plan *p,
                                 const struct lw_comm_rule *x)
{
    const struct lw_digit *axis = p->grid->axis;
    struct lw_row_rule all = {0}, rest = {0};
    int order[LW_N_AXES];

    lw_grid_axes_order(axis, order);
    int slow = order[0], middle = order[1], fast = order[2];
    const int32_t *of = x->parts.of[slow];
    int64_t base = x->first_group + x->parts.of[middle][0] + x->parts.of[fast][0];
    bool digits = find_digits(of, axis[slow].count, &all);
    if (!find_digits(x->parts.of[middle], axis[middle].count, &rest) ||
        !find_digits(x->parts.of[fast], axis[fast].count, &rest)) {
        feed_each(h, p, x);
        return;
    }
    for (int32_t i = 0; i < rest.n; i++)
        all.at[all.n++] = rest.at[i];
    if (digits)
        lw_hash_rows(h, &(int64_t){base + of[0]}, 1, &all);
    else
        feed_runs(h, of, axis[slow].count, p->n_ranks / axis[slow].count, base, &rest);
}

static void feed_comm_group(struct lw_hash *h, const struct lw_plan *p)
{
    for (int32_t c = 0; c < p->n_comms; c++)
        feed_groups_of_ranks(h, p, &p->grid->comms[c]);
}

bool lw_grid_hash(struct lw_hash *h, const struct lw_plan *p, enum lw_plan_table_id table)
{
    if (table == LW_TABLE_role_of && !p->role_of)
        feed_column(h, lw_grid_roles(p->grid->axis));
    else if (table == LW_TABLE_index_in_role && !p->index_in_role)
        feed_column(h, lw_grid_indexes(p->grid->axis));
    else if (table == LW_TABLE_coord && !p->coord)
        feed_places(h, p->grid->axis);
    else if (table == LW_TABLE_groups && !p->members)
        feed_groups(h, p);
    else if (table == LW_TABLE_comm_group && !p->comm_group)
        feed_comm_group(h, p);
    else
        return false;
    return true;
}
