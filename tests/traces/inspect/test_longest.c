/* Which rows of a long table are shown: those that a sort puts first. */
#include "tests/lib/unit.h"

#include "tests/lib/prng.h"
#include "traces/inspect/longest.h"

enum { MOST = 40 };

/* Longer ones, and equal ones before it. */
static int before(const int64_t *ns, int n, int row)
{
    int k = 0;

    for (int i = 0; i < n; i++)
        k += ns[i] > ns[row] || (ns[i] == ns[row] && i < row);
    return k;
}

TEST(the_longest_of_random_rows_are_shown)
{
    struct prng r = prng_start("rows");

    for (int round = 0; round < 2000; round++) {
        int64_t ns[MOST];
        int n = prng_below(&r, MOST), most = prng_below(&r, 30);
        struct traces_longest l = {0};
        for (int i = 0; i < n; i++)
            traces_longest_add(&l, ns[i] = prng_in(&r, 0, most));
        for (int i = 0; i < n; i++)
            assert_int_equal(traces_longest_shows(&l, ns[i]), before(ns, n, i) < LONGEST_SHOWN);
    }
}

TEST(all_rows_are_shown_where_they_are_asked_for)
{
    struct traces_longest l = {.all = true};

    for (int i = 0; i < MOST; i++)
        traces_longest_add(&l, i);
    for (int i = 0; i < MOST; i++)
        assert_true(traces_longest_shows(&l, i));
}
