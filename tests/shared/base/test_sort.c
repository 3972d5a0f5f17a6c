/* Sorting arrays that may be empty: shared/base/sort.h. */
#include "shared/base/sort.h"
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
