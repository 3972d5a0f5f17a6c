/* Sorting arrays that may be empty: shared/base/sort.h; those that are nearly in order:
 * shared/base/sort_nearly.h. */
#include <stdbool.h>

#include "shared/base/sort.h"
#include "shared/base/sort_nearly.h"
#include "tests/lib/prng.h"
#include "tests/lib/unit.h"

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

TEST(empty_list_without_memory_stays_empty)
{
    int *none = NULL;

    lw_sort(none, 0, ascending);
    assert_null(none);
}

TEST(items_come_out_in_order)
{
    int v[] = {3, 1, 2}, sorted[] = {1, 2, 3};

    lw_sort(v, 3, ascending);
    assert_memory_equal(v, sorted, sizeof v);
    lw_sort(v + 1, 1, ascending);
    assert_memory_equal(v, sorted, sizeof v);
}

struct pair {
    int key, place; /* where it was */
};

static int by_key(const void *a, const void *b)
{
    return ((const struct pair *)a)->key - ((const struct pair *)b)->key;
}

/* In order, and equal keys as they were: nothing else is a stable order of the same places. */
static void expect_stable(const struct pair *v, int n)
{
    bool seen[1000] = {false};

    for (int i = 0; i < n; i++) {
        assert_false(seen[v[i].place]);
        seen[v[i].place] = true;
        if (i > 0)
            assert_true(v[i - 1].key < v[i].key ||
                        (v[i - 1].key == v[i].key && v[i - 1].place < v[i].place));
    }
}

/* A few that lie far from their place, and all in descending order, which takes too many moves. */
TEST(nearly_sorted_items_come_out_in_order_and_equal_ones_as_they_were)
{
    struct prng r = prng_start("nearly sorted items");
    struct pair v[1000];

    for (int round = 0; round < 200; round++) {
        int n = (int)prng_in(&r, 0, 1000), moved = (int)prng_in(&r, 0, 40);
        for (int i = 0; i < n; i++)
            v[i] = (struct pair){round % 4 == 0 ? (n - i) / 3 : i / 3, i};
        for (int k = 0; k < moved && n > 0; k++)
            v[prng_in(&r, 0, n - 1)].key = (int)prng_in(&r, 0, n);
        lw_sort_nearly(v, n, by_key);
        expect_stable(v, n);
    }
}
