/* The largest of some numbers, in their own order. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/numbers/largest.h"

static int64_t taken(const int64_t *v, int64_t n, int64_t n_largest, int64_t *out)
{
    int64_t sorted[8], n_taken = 0;

    memcpy(sorted, v, (size_t)n * sizeof *v);
    struct lw_largest l = lw_largest_of(sorted, n, n_largest);
    for (int64_t i = 0; i < n; i++)
        if (lw_largest_takes(&l, v[i]))
            out[n_taken++] = v[i] * 10 + i;
    return n_taken;
}

TEST(the_largest_are_taken_in_their_order_of_equals_the_first)
{
    const int64_t v[] = {3, 7, 5, 7, 5, 5};
    int64_t out[8];

    assert_int_equal(taken(v, 6, 4, out), 4);
    assert_memory_equal(out, ((int64_t[]){71, 52, 73, 54}), 4 * sizeof *out);
    assert_int_equal(taken(v, 6, 1, out), 1);
    assert_int_equal(out[0], 71);
    assert_int_equal(taken(v, 6, 6, out), 6);
}
