/* Counts the runs of equal nodes in ascending ranks: those of most groups ascend, others are sorted
 * in a copy. Without memory for one every pair is compared, so the count cannot fail. */
#include "shared/plan/spread.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/plan/grid_rule.h"
#include "shared/plan/plan.h"

LW_COMPARATOR(by_number, int32_t, *a, *b)

/* Of ascending ranks. */
static struct lw_spread count_nodes(int32_t per_node, const int32_t *ranks, int32_t n)
{
    struct lw_spread x = {.fewest = n};

    for (int32_t i = 0, from = 0; i < n; from = i) {
        int64_t end = (ranks[i] / per_node + INT64_C(1)) * per_node; /* a division for each node */
        while (i < n && ranks[i] < end)
            i++;
        x.n_nodes++;
        x.fewest = i - from < x.fewest ? i - from : x.fewest;
    }
    return x;
}

/* Compares each member with all others, because a sorted copy would need memory. */
static struct lw_spread count_by_pairs(int32_t per_node, const int32_t *ranks, int32_t n)
{
    struct lw_spread x = {.fewest = n};

    for (int32_t i = 0; i < n; i++) {
        int32_t before = 0, here = 0;
        for (int32_t k = 0; k < n; k++) {
            bool same = ranks[k] / per_node == ranks[i] / per_node;
            here += same;
            before += same && k < i;
        }
        x.n_nodes += before == 0;
        x.fewest = here < x.fewest ? here : x.fewest;
    }
    return x;
}

/* Members of most groups ascend, and those of many lie a node or more apart. */
struct lw_spread lw_spread_over(int32_t per_node, const int32_t *ranks, int32_t n)
{
    int32_t least = INT32_MAX;

    for (int32_t i = 1; i < n; i++)
        least = ranks[i] - ranks[i - 1] < least ? ranks[i] - ranks[i - 1] : least;
    if (n > 0 && least >= per_node)
        return (struct lw_spread){.n_nodes = n, .fewest = 1};
    if (least >= 0)
        return count_nodes(per_node, ranks, n);
    int32_t *sorted = lw_alloc((size_t)n * sizeof *sorted);
    if (!sorted)
        return count_by_pairs(per_node, ranks, n);
    memcpy(sorted, ranks, (size_t)n * sizeof *sorted);
    lw_sort(sorted, n, by_number);
    struct lw_spread x = count_nodes(per_node, sorted, n);
    lw_free(sorted);
    return x;
}

/* As count_by_pairs, of members that no table holds. */
static struct lw_spread count_members(const struct lw_plan *p, int32_t per_node,
                                      const struct lw_group *g)
{
    struct lw_spread x = {.fewest = g->n_members};

    for (int32_t i = 0; i < g->n_members; i++) {
        int32_t node = lw_plan_member_of(p, g, i) / per_node, before = 0, here = 0;
        for (int32_t k = 0; k < g->n_members; k++) {
            bool same = lw_plan_member_of(p, g, k) / per_node == node;
            here += same;
            before += same && k < i;
        }
        x.n_nodes += before == 0;
        x.fewest = here < x.fewest ? here : x.fewest;
    }
    return x;
}

struct lw_spread lw_plan_spread(const struct lw_plan *p, int32_t per_node, const struct lw_group *g)
{
    if (p->members)
        return lw_spread_over(per_node, p->members + g->first_member, g->n_members);
    int32_t *ranks = lw_alloc((size_t)g->n_members * sizeof *ranks);
    if (!ranks)
        return count_members(p, per_node, g);
    lw_grid_members_write(p, g, ranks);
    struct lw_spread x = lw_spread_over(per_node, ranks, g->n_members);
    lw_free(ranks);
    return x;
}
