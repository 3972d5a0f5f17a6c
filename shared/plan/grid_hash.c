/* Tables of a plan that its grid's rules stand for, fed to its hash. XXH3 takes every byte in
 * order, so each entry is made, in blocks that stay in the nearest cache, and none is kept. */
#include "shared/plan/grid_hash.h"

#include "shared/base/hash.h"
#include "shared/plan/grid_rule.h"

enum { BLOCK = 1024 };

static void feed_digits(struct lw_hash *h, const struct lw_digits *d, int64_t first, int64_t n)
{
    int32_t block[BLOCK];

    for (int64_t end = first + n; first < end; first += BLOCK) {
        int64_t k = end - first < BLOCK ? end - first : BLOCK;
        lw_digits_write(d, first, block, k);
        lw_hash_ints32(h, block, k);
    }
}

/* Rank by rank. */
static void feed_places(struct lw_hash *h, const struct lw_plan *p)
{
    struct lw_digits along[LW_N_AXES];
    int32_t column[LW_N_AXES][BLOCK];
    int64_t block[BLOCK][LW_N_AXES];

    for (int a = 0; a < LW_N_AXES; a++) {
        int32_t weight[LW_N_AXES] = {0};
        weight[a] = 1;
        along[a] = lw_grid_column(p->grid->axis, weight);
    }
    for (int64_t first = 0; first < p->n_ranks; first += BLOCK) {
        int64_t k = p->n_ranks - first < BLOCK ? p->n_ranks - first : BLOCK;
        for (int a = 0; a < LW_N_AXES; a++)
            lw_digits_write(&along[a], first, column[a], k);
        for (int64_t i = 0; i < k; i++)
            for (int a = 0; a < LW_N_AXES; a++)
                block[i][a] = column[a][i];
        lw_hash_ints(h, &block[0][0], k * LW_N_AXES);
    }
}

/* Groups of few members, several in a block: each as a list after its length. */
static void feed_small_groups(struct lw_hash *h, const struct lw_comm_rule *x)
{
    int32_t members[BLOCK], n = x->n_members, most = BLOCK / n;
    int64_t block[2 * BLOCK];

    for (int32_t g = 0; g < x->n_groups; g += most) {
        int32_t k = x->n_groups - g < most ? x->n_groups - g : most;
        int64_t *to = block;
        lw_digits_write(&x->ranks, (int64_t)g * n, members, (int64_t)k * n);
        for (int32_t i = 0; i < k; i++) {
            *to++ = n;
            for (int32_t m = 0; m < n; m++)
                *to++ = members[i * n + m];
        }
        lw_hash_ints(h, block, to - block);
    }
}

static void feed_groups(struct lw_hash *h, const struct lw_plan *p)
{
    for (int32_t c = 0; c < p->n_comms; c++) {
        const struct lw_comm_rule *x = &p->grid->comms[c];
        if (x->n_members <= BLOCK) {
            feed_small_groups(h, x);
            continue;
        }
        for (int32_t g = 0; g < x->n_groups; g++) {
            lw_hash_int(h, x->n_members);
            feed_digits(h, &x->ranks, (int64_t)g * x->n_members, x->n_members);
        }
    }
}

static void feed_comm_group(struct lw_hash *h, const struct lw_plan *p)
{
    int32_t block[BLOCK];

    for (int32_t c = 0; c < p->n_comms; c++)
        for (int32_t first = 0, k; first < p->n_ranks; first += k) {
            k = p->n_ranks - first < BLOCK ? p->n_ranks - first : BLOCK;
            lw_group_parts_write(p->grid->axis, &p->grid->comms[c], first, block, k);
            lw_hash_ints32(h, block, k);
        }
}

static void feed_column(struct lw_hash *h, const struct lw_plan *p, struct lw_digits column)
{
    feed_digits(h, &column, 0, p->n_ranks);
}

bool lw_grid_hash(struct lw_hash *h, const struct lw_plan *p, enum lw_plan_table_id table)
{
    if (table == LW_TABLE_role_of && !p->role_of)
        feed_column(h, p, lw_grid_roles(p->grid->axis));
    else if (table == LW_TABLE_index_in_role && !p->index_in_role)
        feed_column(h, p, lw_grid_indexes(p->grid->axis));
    else if (table == LW_TABLE_coord && !p->coord)
        feed_places(h, p);
    else if (table == LW_TABLE_groups && !p->members)
        feed_groups(h, p);
    else if (table == LW_TABLE_comm_group && !p->comm_group)
        feed_comm_group(h, p);
    else
        return false;
    return true;
}
